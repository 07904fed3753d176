/* integer_convolution.c: ConvInteger and QLinearConv in portable C: any number of spatial dimensions, groups,
 * strides, dilations, padding; zero points and scales of the weights for all filters or for each.
 *
 * A product of matrices: rows are the filters of a group, columns output positions, the depth channels times
 * window. The input is gathered a line at a time as the product asks for it. Groups of few filters (depthwise
 * convolution) add whole output rows instead. Padding counts as the zero point, that is, as nothing.
 */
#include "ir/op_window.h"
#include "runtime/kernels/integer_product.h"
#include "runtime/kernels/product.h"
#include <string.h>

enum { FEW_FILTERS = 4 }; /* of a group: products would copy the input for next to nothing */

typedef struct integer_convolution {
    op_window window;
    /* For each window element: what position 0 sees of each dimension, and the positions [first, end) of the last one
     * that see the input. */
    const int64_t *shifts, *firsts, *ends;
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
    int64_t at[OP_WINDOW_RANK]; /* the first output position of the block */
    int64_t count;              /* of them */
} gather_context;

/* The output position with this number. */
static void locate(const op_window *window, int64_t position, int64_t at[OP_WINDOW_RANK]) {
    for (int32_t i = window->rank - 1; i >= 0; i--) {
        at[i] = position % window->output[i];
        position /= window->output[i];
    }
}

/* The next output row: at[rank - 1] becomes 0. */
static void next_row(const op_window *window, int64_t at[OP_WINDOW_RANK]) {
    at[window->rank - 1] = 0;
    for (int32_t i = window->rank - 2; i >= 0 && ++at[i] == window->output[i]; i--) at[i] = 0;
}

/* Where the input row lies that an output row sees through window element `tap`, counted from the channel's first
 * element to the one that the row's first position sees, which may be padding. False: the whole row is. */
static bool find_row(const op_window *window, const int64_t *shift, const int64_t *at, int64_t *offset) {
    const int32_t last = window->rank - 1;
    int64_t row = 0;
    for (int32_t i = 0; i < last; i++) {
        const int64_t in = at[i] * window->stride[i] + shift[i];
        if (in < 0 || in >= window->input[i]) return false;
        row = row * window->input[i] + in;
    }
    *offset = row * window->input[last] + shift[last];
    return true;
}

/* Line `k` of the gathered matrix: what one window element of one channel sees at the block's positions. */
static void gather_line(const void *user, int64_t k, int16_t *line) {
    const gather_context *gather = user;
    const integer_convolution *shape = gather->shape;
    const op_window *window = &shape->window;
    const int32_t last = window->rank - 1;
    const int64_t channel = k / shape->kernel_size, tap = k % shape->kernel_size,
                  width = window->output[last];
    const char *x = gather->x + channel * shape->input_size;
    const int64_t *shift = shape->shifts + tap * window->rank;
    int64_t at[OP_WINDOW_RANK];
    for (int32_t i = 0; i <= last; i++) at[i] = gather->at[i];
    for (int64_t left = gather->count; left > 0;) {
        const int64_t from = at[last], to = width - from < left ? width : from + left;
        int64_t offset, first = shape->firsts[tap], end = shape->ends[tap];
        if (!find_row(window, shift, at, &offset)) {
            memset(line, 0, (size_t)(to - from) * sizeof *line);
        } else {
            first = first < from ? from : first > to ? to : first;
            end = end < first ? first : end > to ? to : end;
            if (first > from) memset(line, 0, (size_t)(first - from) * sizeof *line);
            if (end > first) {
                rt_bytes_load(shape->x_dtype, line + (first - from),
                              x + offset + first * window->stride[last], window->stride[last], end - first,
                              gather->zero);
            }
            if (to > end) memset(line + (end - from), 0, (size_t)(to - end) * sizeof *line);
        }
        line += to - from;
        left -= to - from;
        next_row(window, at);
    }
}

/* Sums of one row, from `position` on, of filter `filter`, to their place in the result. */
static void finish_row(const integer_convolution_job *job, int64_t image, int64_t filter, int64_t position,
                       int64_t count, const int32_t *sums) {
    const integer_convolution *shape = job->shape;
    const int64_t to = (image * shape->group * shape->filters + filter) * shape->output_size + position;
    if (!shape->quantized) {
        memcpy((int32_t *)(void *)job->y + to, sums, (size_t)count * sizeof(int32_t));
        return;
    }
    const rt_requantization how = {.bias = job->bias ? job->bias[filter] : 0,
                                   .a_scale = job->x_scale[0],
                                   .b_scale = job->w_scale + (shape->scale_each ? filter : 0),
                                   .y_scale = job->y_scale[0],
                                   .dtype = shape->y_dtype,
                                   .zero = rt_byte_load(shape->y_dtype, job->y_zero, 0)};
    rt_requantize(&how, sums, count, job->y + to);
}

static int32_t filter_zero(const integer_convolution_job *job, int64_t filter) {
    if (!job->w_zero) return 0;
    return rt_byte_load(job->shape->w_dtype, job->w_zero, job->shape->zero_each ? filter : 0);
}

/* ---- products ------------------------------------------------------------------------------------------ */

static void run_block(const integer_convolution_job *job, int64_t image, int64_t group, int64_t row,
                      int64_t rows, int64_t position, int64_t count, void *scratch) {
    const integer_convolution *shape = job->shape;
    const int64_t depth = shape->channels * shape->kernel_size, filter = group * shape->filters + row;
    int16_t zeros[RT_INTEGER_ROWS] = {0};
    for (int64_t i = 0; i < rows; i++) zeros[i] = (int16_t)filter_zero(job, filter + i);
    gather_context gather = {.shape = shape,
                             .x = job->x +
                                  (image * shape->group + group) * shape->channels * shape->input_size,
                             .zero = job->x_zero,
                             .count = count};
    locate(&shape->window, position, gather.at);
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
        finish_row(job, image, filter + i, position, count, sums);
    }
}

static void products_member(void *context, int member, int members) {
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

/* ---- few filters a group ------------------------------------------------------------------------------- */

#define ADD_ROW(type)                                                                                        \
    RT_CLONES static void add_row_##type(uint32_t *restrict sums, const type *x, int64_t count,              \
                                         int64_t stride, int32_t zero, int32_t weight) {                     \
        if (stride == 1) {                                                                                   \
            for (int64_t i = 0; i < count; i++) sums[i] += (uint32_t)((x[i] - zero) * weight);               \
        } else if (stride == 2) {                                                                            \
            for (int64_t i = 0; i < count; i++) sums[i] += (uint32_t)((x[2 * i] - zero) * weight);           \
        } else {                                                                                             \
            for (int64_t i = 0; i < count; i++) sums[i] += (uint32_t)((x[stride * i] - zero) * weight);      \
        }                                                                                                    \
    }
ADD_ROW(uint8_t)
ADD_ROW(int8_t)

/* One map of the result, an output row at a time, one window element after another. */
static void run_map(const integer_convolution_job *job, int64_t image, int64_t filter, uint32_t *sums) {
    const integer_convolution *shape = job->shape;
    const op_window *window = &shape->window;
    const int32_t last = window->rank - 1, zero = filter_zero(job, filter);
    const int64_t width = window->output[last], stride = window->stride[last];
    const int64_t first_channel = (image * shape->group + filter / shape->filters) * shape->channels;
    int64_t at[OP_WINDOW_RANK] = {0};
    for (int64_t position = 0; position < shape->output_size; position += width, next_row(window, at)) {
        memset(sums, 0, (size_t)width * sizeof *sums);
        for (int64_t tap = 0; tap < shape->kernel_size; tap++) {
            const int64_t first = shape->firsts[tap], count = shape->ends[tap] - first;
            int64_t offset;
            if (count <= 0 || !find_row(window, shape->shifts + tap * window->rank, at, &offset)) continue;
            offset += first * stride;
            for (int64_t channel = 0; channel < shape->channels; channel++) {
                const char *x = job->x + (first_channel + channel) * shape->input_size + offset;
                const int64_t of = (filter * shape->channels + channel) * shape->kernel_size + tap;
                const int32_t weight = rt_byte_load(shape->w_dtype, job->w, of) - zero;
                if (shape->x_dtype == OP_UINT8) {
                    add_row_uint8_t(sums + first, (const uint8_t *)x, count, stride, job->x_zero, weight);
                } else {
                    add_row_int8_t(sums + first, (const int8_t *)x, count, stride, job->x_zero, weight);
                }
            }
        }
        finish_row(job, image, filter, position, width, (const int32_t *)sums);
    }
}

static void maps_member(void *context, int member, int members) {
    const integer_convolution_job *job = context;
    const integer_convolution *shape = job->shape;
    const int64_t maps = shape->group * shape->filters;
    uint32_t *sums = (uint32_t *)(void *)(job->scratch + (size_t)member * shape->scratch_each);
    for (int64_t item = member; item < shape->batch * maps; item += members) {
        run_map(job, item / maps, item % maps, sums);
    }
}

/* ---- all of it ----------------------------------------------------------------------------------------- */

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)report;
    const integer_convolution *shape = prepared->state;
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
    rt_team_run(work < RT_PARALLEL_WORK ? 1 : prepared->threads,
                shape->filters < FEW_FILTERS ? maps_member : products_member, &job);
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

/* Fills the tables of window elements. */
static bool tabulate(integer_convolution *shape, base_arena *arena) {
    const op_window *window = &shape->window;
    const int32_t last = window->rank - 1;
    int64_t *shifts =
        base_arena_alloc(arena, (size_t)shape->kernel_size, (size_t)(window->rank + 2) * sizeof(int64_t));
    if (!shifts) return false;
    int64_t *firsts = shifts + shape->kernel_size * window->rank, *ends = firsts + shape->kernel_size;
    for (int64_t tap = 0; tap < shape->kernel_size; tap++) {
        int64_t rest = tap, *shift = shifts + tap * window->rank;
        for (int32_t i = last; i >= 0; i--) {
            shift[i] = rest % window->kernel[i] * window->dilation[i] - window->before[i];
            rest /= window->kernel[i];
        }
        const int64_t stride = window->stride[last], seen = window->input[last] - shift[last];
        firsts[tap] = shift[last] >= 0 ? 0 : (-shift[last] + stride - 1) / stride;
        ends[tap] = seen <= 0 ? 0 : (seen - 1) / stride + 1;
        if (ends[tap] > window->output[last]) ends[tap] = window->output[last];
    }
    shape->shifts = shifts;
    shape->firsts = firsts;
    shape->ends = ends;
    return true;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    if (rt_integer_is_empty(call)) {
        prepared->run = rt_integer_run_nothing;
        return BASE_OK;
    }
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
        if (window.input[i] == 0) shape->channels = 0; /* nothing but padding is to be seen */
    }
    for (int32_t i = 0; i < window.rank; i++) {
        shape->output_size *= window.output[i];
        if (shape->channels == 0) { /* the window does not matter, whatever its extent */
            shape->window.kernel[i] = 1;
            continue;
        }
        shape->input_size *= window.input[i];
        shape->kernel_size *= window.kernel[i];
    }
    /* Smaller blocks where there would be too few for the threads. */
    const int64_t parts =
        shape->batch * shape->group * ((shape->output_size + RT_INTEGER_COLUMNS - 1) / RT_INTEGER_COLUMNS);
    const int64_t wanted = parts >= environment->threads ? 1 : (environment->threads + parts - 1) / parts;
    shape->rows_each = (shape->filters + wanted - 1) / wanted;
    if (shape->rows_each > RT_INTEGER_ROWS) shape->rows_each = RT_INTEGER_ROWS;
    shape->scratch_each =
        rt_integer_scratch(shape->rows_each, shape->output_size, shape->channels * shape->kernel_size);
    if (shape->filters < FEW_FILTERS) {
        const size_t row = (size_t)window.output[window.rank - 1] * sizeof(uint32_t);
        shape->scratch_each = (row + RT_ALIGNMENT - 1) / RT_ALIGNMENT * RT_ALIGNMENT;
    }
    if (!tabulate(shape, arena)) return base_fail_memory(report);
    prepared->state = shape;
    prepared->run = run;
    prepared->scratch_bytes = (size_t)environment->threads * shape->scratch_each;
    return BASE_OK;
}

const rt_kernel rt_kernel_convolution_integer = {
    .name = "portable.convolution_integer", .accepts = accepts, .prepare = prepare};
