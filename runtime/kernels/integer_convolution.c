/* integer_convolution.c: ConvInteger and QLinearConv in portable C: any number of spatial dimensions, groups,
 * strides, dilations, padding; zero points and scales of the weights for all filters or for each.
 *
 * A product of matrices: rows are the filters of a group, columns output positions, the depth channels times
 * window. The input is gathered a line at a time as the product asks for it. Padding counts as the zero point, that
 * is, as nothing.
 */
#include "ir/op_window.h"
#include "runtime/kernels/integer_product.h"
#include "runtime/kernels/product.h"
#include <string.h>

typedef struct integer_convolution {
    op_window window;
    int64_t batch, group, channels, filters; /* channels and filters of one group */
    int64_t input_size, output_size, kernel_size;
    op_dtype x_dtype, w_dtype, y_dtype;
    bool quantized, bias, zero_each, scale_each; /* each: one for every filter */
    int64_t rows_each;
    size_t scratch_each;
} integer_convolution;

typedef struct integer_convolution_job {
    const integer_convolution *shape;
    const char *x, *w;
    int16_t x_zero;
    const void *w_zero, *y_zero; /* w_zero: NULL where there is none */
    const float *x_scale, *w_scale, *y_scale;
    const int32_t *bias; /* NULL where there is none */
    char *y;
    char *scratch;
    int64_t row_parts, column_parts;
} integer_convolution_job;

typedef struct gather_context {
    const integer_convolution *shape;
    const char *x; /* the first channel of the group */
    int16_t zero;
    int64_t position, count; /* the output positions of the block */
} gather_context;

/* Where in [0, count) the positions from `from` on of an output row see the input; `shift` is what the first position
 * of the row sees. */
static void find_inside(int64_t shift, int64_t stride, int64_t input, int64_t from, int64_t count,
                        int64_t *low, int64_t *high) {
    const int64_t rest = input - shift;
    int64_t first = shift >= 0 ? 0 : (-shift + stride - 1) / stride,
            end = rest <= 0 ? 0 : (rest - 1) / stride + 1;
    first = first < from ? from : first > from + count ? from + count : first;
    end = end < first ? first : end > from + count ? from + count : end;
    *low = first - from;
    *high = end - from;
}

/* Line `k` of the gathered matrix: what one window element of one channel sees at the block's positions. */
static void gather_line(const void *user, int64_t k, int16_t *line) {
    const gather_context *gather = user;
    const integer_convolution *shape = gather->shape;
    const op_window *window = &shape->window;
    const int32_t last = window->rank - 1;
    const char *channel = gather->x + k / shape->kernel_size * shape->input_size;
    int64_t shift[OP_WINDOW_RANK], at[OP_WINDOW_RANK];
    int64_t tap = k % shape->kernel_size, position = gather->position;
    for (int32_t i = last; i >= 0; i--) {
        shift[i] = tap % window->kernel[i] * window->dilation[i] - window->before[i];
        tap /= window->kernel[i];
        at[i] = position % window->output[i];
        position /= window->output[i];
    }
    for (int64_t left = gather->count; left > 0;) {
        const int64_t rest = window->output[last] - at[last], length = rest < left ? rest : left;
        int64_t row = 0, low = 0, high = 0;
        bool seen = true;
        for (int32_t i = 0; i < last; i++) {
            const int64_t in = at[i] * window->stride[i] + shift[i];
            seen = seen && in >= 0 && in < window->input[i];
            row = row * window->input[i] + in;
        }
        if (seen)
            find_inside(shift[last], window->stride[last], window->input[last], at[last], length, &low,
                        &high);
        memset(line, 0, (size_t)low * sizeof *line);
        if (high > low) {
            const int64_t in = (at[last] + low) * window->stride[last] + shift[last];
            rt_bytes_load(shape->x_dtype, line + low, channel + row * window->input[last] + in,
                          window->stride[last], high - low, gather->zero);
        }
        memset(line + high, 0, (size_t)(length - high) * sizeof *line);
        line += length;
        left -= length;
        at[last] = 0; /* the next row */
        for (int32_t i = last - 1; i >= 0 && ++at[i] == window->output[i]; i--) at[i] = 0;
    }
}

static void run_block(const integer_convolution_job *job, int64_t image, int64_t group, int64_t row,
                      int64_t rows, int64_t position, int64_t count, void *scratch) {
    const integer_convolution *shape = job->shape;
    const int64_t depth = shape->channels * shape->kernel_size, filter = group * shape->filters + row;
    int16_t zeros[RT_INTEGER_ROWS] = {0};
    for (int64_t i = 0; i < rows && job->w_zero; i++) {
        zeros[i] = (int16_t)rt_byte_load(shape->w_dtype, job->w_zero, shape->zero_each ? filter + i : 0);
    }
    const gather_context gather = {.shape = shape,
                                   .x = job->x +
                                        (image * shape->group + group) * shape->channels * shape->input_size,
                                   .zero = job->x_zero,
                                   .position = position,
                                   .count = count};
    const rt_integer_block block = {.rows = rows,
                                    .columns = count,
                                    .depth = depth,
                                    .dtype = shape->w_dtype,
                                    .a = job->w + filter * depth,
                                    .a_row = depth,
                                    .a_zeros = zeros,
                                    .line = gather_line,
                                    .context = &gather};
    int64_t pitch;
    const int32_t *sums = rt_integer_block_run(&block, scratch, &pitch);
    for (int64_t i = 0; i < rows; i++, sums += pitch) {
        const int64_t to =
            (image * shape->group * shape->filters + filter + i) * shape->output_size + position;
        if (!shape->quantized) {
            memcpy((int32_t *)(void *)job->y + to, sums, (size_t)count * sizeof(int32_t));
            continue;
        }
        const rt_requantization how = {.bias = job->bias ? job->bias[filter + i] : 0,
                                       .a_scale = job->x_scale[0],
                                       .b_scale = job->w_scale + (shape->scale_each ? filter + i : 0),
                                       .y_scale = job->y_scale[0],
                                       .dtype = shape->y_dtype,
                                       .zero = rt_byte_load(shape->y_dtype, job->y_zero, 0)};
        rt_requantize(&how, sums, count, job->y + to);
    }
}

static void run_member(void *context, int member, int members) {
    const integer_convolution_job *job = context;
    const integer_convolution *shape = job->shape;
    const int64_t parts = job->row_parts * job->column_parts, items = shape->batch * shape->group * parts;
    for (int64_t item = member; item < items; item += members) {
        const int64_t outer = item / parts, part = item % parts;
        const int64_t row = part / job->column_parts * shape->rows_each;
        const int64_t position = part % job->column_parts * RT_INTEGER_COLUMNS;
        const int64_t rows = shape->filters - row, count = shape->output_size - position;
        run_block(job, outer / shape->group, outer % shape->group, row,
                  rows < shape->rows_each ? rows : shape->rows_each, position,
                  count < RT_INTEGER_COLUMNS ? count : RT_INTEGER_COLUMNS,
                  job->scratch + (size_t)member * shape->scratch_each);
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)report;
    const integer_convolution *shape = prepared->state;
    if (shape->batch == 0 || shape->filters == 0 || shape->output_size == 0) return BASE_OK;
    integer_convolution_job job = {
        .shape = shape, .x = inputs[0].data, .y = outputs[0].data, .scratch = scratch};
    const void *x_zero;
    if (shape->quantized) {
        job.x_scale = inputs[1].data;
        x_zero = inputs[2].data;
        job.w = inputs[3].data;
        job.w_scale = inputs[4].data;
        job.w_zero = inputs[5].data;
        job.y_scale = inputs[6].data;
        job.y_zero = inputs[7].data;
        job.bias = shape->bias ? inputs[8].data : NULL;
    } else {
        job.w = inputs[1].data;
        x_zero = prepared->input_count > 2 ? inputs[2].data : NULL;
        job.w_zero = prepared->input_count > 3 ? inputs[3].data : NULL;
    }
    job.x_zero = (int16_t)(x_zero ? rt_byte_load(shape->x_dtype, x_zero, 0) : 0);
    job.row_parts = (shape->filters + shape->rows_each - 1) / shape->rows_each;
    job.column_parts = (shape->output_size + RT_INTEGER_COLUMNS - 1) / RT_INTEGER_COLUMNS;
    const double work = (double)shape->batch * (double)shape->group * (double)shape->filters *
                        (double)shape->output_size * (double)(shape->channels * shape->kernel_size + 1);
    rt_team_run(work < RT_PARALLEL_WORK ? 1 : prepared->threads, run_member, &job);
    return BASE_OK;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    return rt_accepts_plain(call);
}

/* Input `input` has one number for every filter. */
static bool has_each(const op_call *call, uint32_t input) {
    int64_t elements;
    return op_input_present(call, input) && op_shape_elements(&call->inputs[input].type.shape, &elements) &&
           elements != 1;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    integer_convolution *shape = BASE_NEW(arena, integer_convolution);
    if (!shape) return base_fail_memory(report);
    const bool quantized = call->code == OP_QLINEAR_CONV;
    const op_shape *x = &call->inputs[0].type.shape, *w = &call->inputs[quantized ? 3 : 1].type.shape;
    op_window window;
    base_status status = op_window_read(call, w->dims + 2, &window, report);
    if (status != BASE_OK) return status;
    *shape = (integer_convolution){.window = window,
                                   .batch = x->dims[0],
                                   .group = op_attribute_integer(&call->attributes, "group", 1),
                                   .channels = w->dims[1],
                                   .input_size = 1,
                                   .output_size = 1,
                                   .kernel_size = 1,
                                   .x_dtype = call->inputs[0].type.dtype,
                                   .w_dtype = call->inputs[quantized ? 3 : 1].type.dtype,
                                   .y_dtype = call->outputs[0].type.dtype,
                                   .quantized = quantized,
                                   .bias = quantized && op_input_present(call, 8),
                                   .zero_each = has_each(call, quantized ? 5 : 3),
                                   .scale_each = quantized && has_each(call, 4)};
    shape->filters = w->dims[0] / shape->group;
    for (int32_t i = 0; i < window.rank; i++) {
        shape->input_size *= window.input[i];
        shape->output_size *= window.output[i];
        shape->kernel_size *= window.kernel[i];
    }
    /* Smaller blocks where there would be too few for the threads. */
    const int64_t parts =
        shape->batch * shape->group * ((shape->output_size + RT_INTEGER_COLUMNS - 1) / RT_INTEGER_COLUMNS);
    const int64_t wanted =
        parts == 0 || parts >= environment->threads ? 1 : (environment->threads + parts - 1) / parts;
    shape->rows_each = (shape->filters + wanted - 1) / wanted;
    if (shape->rows_each > RT_INTEGER_ROWS) shape->rows_each = RT_INTEGER_ROWS;
    shape->scratch_each =
        rt_integer_scratch(shape->rows_each, shape->output_size, shape->channels * shape->kernel_size);
    prepared->state = shape;
    prepared->run = run;
    prepared->scratch_bytes = (size_t)environment->threads * shape->scratch_each;
    return BASE_OK;
}

const rt_kernel rt_kernel_convolution_integer = {
    .name = "portable.convolution_integer", .accepts = accepts, .prepare = prepare};
