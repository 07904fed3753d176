/* SPDX-License-Identifier: Apache-2.0 */
/* convolution.c: Conv in portable C: 1 to 3 spatial dimensions, groups, strides, dilations, padding, any
 * float.
 *
 * In float, the input is gathered (im2col) a block at a time into the panels of a matrix product: rows are
 * the filters of a group, columns output positions, the depth channels times window. Where there are so few positions that
 * panels would be empty for the most part, each filter is multiplied with what each of them sees. Groups of few filters
 * (depthwise convolution) see one channel after the other through their windows (stencil.h), or, where these are small or have three
 * dimensions, add whole output rows, one window element after the other. Tensors of 16 bits are gathered
 * as pairs, which AVX-512 multiplies (pair_tiles.h, half_tiles.h), or become floats a piece at a time; the sums are rounded once. Doubles are
 * gathered and multiplied as floats are; of few filters a group, the sums of a row's windows stay in registers.
 *
 * ShuffledConv, of each channel by itself, takes the channels of its image in another order; it has few filters, which read one channel after
 * the other anyway.
 *
 * Y = activation(X * W + bias + residual). The residual may lie in Y already (in place); where it does not,
 * it is copied there first, so that both add in the same order.
 */
#include "ir/operators/window.h"
#include "runtime/kernels/portable/convolution.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/product_blocks.h"
#include "runtime/kernels/portable/row_panels.h"
#include <math.h>
#include <string.h>

enum {
    FEW_FILTERS = 4,
    FEW_OUTPUTS = 8,
    MOST_TAPS = 64, /* of a window of doubles whose sums stay in registers */
    FEW_TAPS = 3,   /* of a window: to copy the image for them would cost too much */
    SHORT_DEPTH = 64,
    HALF_ROWS =
        60, /* filters and depth of a piece of 16 bits, whose floats lie on the stack: whole tiles of 6 or 12 rows */
    HALF_DEPTH = 64,
};

static bool takes_shuffle(const op_call *call) {
    const op_shape *x = &call->inputs[0].type.shape, *weights = &call->inputs[1].type.shape;
    const int64_t groups = op_attribute_integer(&call->attributes, "shuffle", 0);
    return x->rank > 2 && weights->rank == x->rank && weights->dims[1] == 1 && x->dims[1] > 0 &&
           op_attribute_integer(&call->attributes, "group", 1) == x->dims[1] &&
           weights->dims[0] / x->dims[1] < FEW_FILTERS && groups > 0 && x->dims[1] % groups == 0;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    rt_activation activation;
    const op_type *type = &call->inputs[0].type;
    return rt_accepts_row_major(call) && rt_activation_read(&call->attributes, &activation) &&
           (type->dtype == OP_FLOAT || type->dtype == OP_DOUBLE || rt_is_half(type->dtype)) &&
           (call->code != OP_SHUFFLED_CONV || takes_shuffle(call));
}

/* ---- float: products ----------------------------------------------------------------------------------- */

/* line[i] = in[i * stride], of 16 bits, float or double. */
static void copy_strided(size_t size, char *line, const char *in, int64_t stride, int64_t count) {
    if (stride == 1) {
        memcpy(line, in, (size_t)count * size);
    } else if (size == sizeof(float)) {
        for (int64_t i = 0; i < count; i++)
            ((float *)(void *)line)[i] = ((const float *)(const void *)in)[i * stride];
    } else if (size == sizeof(uint16_t)) {
        for (int64_t i = 0; i < count; i++)
            ((uint16_t *)(void *)line)[i] = ((const uint16_t *)(const void *)in)[i * stride];
    } else {
        for (int64_t i = 0; i < count; i++)
            ((double *)(void *)line)[i] = ((const double *)(const void *)in)[i * stride];
    }
}

/* One line of the gathered matrix: what window element `k` of the depth sees at `count` output positions from
 * `position` on. */
static void gather_line(const convolution *shape, const char *x, int64_t k, int64_t position, int64_t count,
                        char *line) {
    const size_t size = shape->element;
    const int64_t tap = k % shape->kernel_size;
    const int64_t tap_x = tap % shape->kernel[2], tap_y = tap / shape->kernel[2] % shape->kernel[1];
    const int64_t tap_z = tap / shape->kernel[2] / shape->kernel[1];
    const char *channel = x + (size_t)(k / shape->kernel_size * shape->input_size) * size;
    const int64_t width = shape->output[2], stride = shape->stride[2];
    const int64_t shift = tap_x * shape->dilation[2] - shape->before[2];
    const rt_part inside = shape->inside[2][tap_x]; /* the other positions of a row see padding */
    int64_t from = position % width, out_y = position / width % shape->output[1],
            out_z = position / width / shape->output[1];
    while (count > 0) {
        const int64_t length = width - from < count ? width - from : count;
        const int64_t in_y = out_y * shape->stride[1] - shape->before[1] + tap_y * shape->dilation[1];
        const int64_t in_z = out_z * shape->stride[0] - shape->before[0] + tap_z * shape->dilation[0];
        if (in_y < 0 || in_y >= shape->input[1] || in_z < 0 || in_z >= shape->input[0]) {
            memset(line, 0, (size_t)length * size);
        } else {
            const char *in = channel + (size_t)((in_z * shape->input[1] + in_y) * shape->input[2]) * size;
            int64_t low = inside.low < from ? from : inside.low > from + length ? from + length : inside.low;
            int64_t high = inside.high < low             ? low
                           : inside.high > from + length ? from + length
                                                         : inside.high;
            memset(line, 0, (size_t)(low - from) * size);
            if (low < high)
                copy_strided(size, line + (size_t)(low - from) * size,
                             in + (low * stride + shift) * (int64_t)size, stride, high - low);
            memset(line + (size_t)(high - from) * size, 0, (size_t)(from + length - high) * size);
        }
        line += (size_t)length * size;
        count -= length;
        from = 0;
        if (++out_y < shape->output[1]) continue;
        out_y = 0;
        out_z++;
    }
}

/* Each output sees the input at its own place, and nothing else: the matrix lies in X as it is. */
static bool is_pointwise(const convolution *shape) {
    bool pointwise = shape->kernel_size == 1;
    for (int i = 0; i < 3; i++)
        pointwise = pointwise && shape->stride[i] == 1 && shape->before[i] == 0 &&
                    shape->input[i] == shape->output[i];
    return pointwise;
}

/* The input as rows that are seen without strides, by rt_row_panels. */
static bool sees_rows(const convolution *shape, rt_seen_rows *rows) {
    bool fits = shape->dtype == OP_FLOAT && shape->stride[2] == 1;
    for (int i = 0; i < 2; i++)
        fits = fits && shape->input[i] == 1 && shape->output[i] == 1 && shape->kernel[i] == 1;
    *rows = (rt_seen_rows){.width = shape->input[2],
                           .before = shape->before[2],
                           .taps = shape->kernel[2],
                           .dilation = shape->dilation[2]};
    return fits;
}

/* What is gathered of 16 bits becomes floats. */
static void gather_panels(const convolution *shape, const void *x, int64_t from, int64_t depth,
                          int64_t position, int64_t count, void *panels) {
    const bool half = rt_is_half(shape->dtype), pointwise = is_pointwise(shape);
    const size_t size = half ? sizeof(float) : shape->element;
    _Alignas(double) char line[RT_BLOCK_COLUMNS * sizeof(double)],
        halves[RT_BLOCK_COLUMNS * sizeof(uint16_t)];
    char *gathered = half ? halves : line;
    rt_seen_rows rows;
    if (!pointwise && sees_rows(shape, &rows) && rt_row_panels_fit(&rows, count)) {
        rt_row_panels(&rows, x, from, depth, position, count, panels);
        return;
    }
    for (int64_t k = 0; k < depth; k++) {
        if (pointwise)
            memcpy(gathered,
                   (const char *)x + (size_t)((from + k) * shape->input_size + position) * shape->element,
                   (size_t)count * shape->element);
        else gather_line(shape, x, from + k, position, count, gathered);
        if (half)
            rt_half_load(shape->dtype, (float *)(void *)line, (const uint16_t *)(const void *)halves, count);
        const int64_t whole = (count + RT_PANEL - 1) / RT_PANEL * RT_PANEL;
        memset(line + (size_t)count * size, 0, (size_t)(whole - count) * size);
        for (int64_t first = 0; first < count; first += RT_PANEL) {
            char *to = (char *)panels + (size_t)(first * depth + k * RT_PANEL) * size;
            if (size == sizeof(float)) memcpy(to, line + (size_t)first * size, RT_PANEL * sizeof(float));
            else memcpy(to, line + (size_t)first * size, RT_PANEL * size);
        }
    }
}

static void add_value(float *y, int64_t count, float value) {
    for (int64_t i = 0; i < count; i++) y[i] += value;
}

static size_t block_bytes(const convolution *shape) {
    if (rt_is_half(shape->dtype)) return 0;
    return rt_block_bytes(shape->channels * shape->kernel_size, shape->output_size) / sizeof(float) *
           shape->element;
}

static void multiply_floats(const convolution_job *job, int64_t image, int64_t group, int64_t row,
                            int64_t rows, int64_t position, int64_t count, void *panels) {
    const convolution *shape = job->shape;
    const int64_t depth_all = shape->channels * shape->kernel_size;
    const float *x =
        (const float *)job->x + (image * shape->group + group) * shape->channels * shape->input_size;
    const float *weights = (const float *)job->weights + (group * shape->filters + row) * depth_all;
    const int64_t first = (image * shape->group + group) * shape->filters + row;
    float *y = (float *)job->y + first * shape->output_size + position;
    if (job->residual) {
        const float *residual = (const float *)job->residual + first * shape->output_size + position;
        for (int64_t i = 0; i < rows; i++) {
            memcpy(y + i * shape->output_size, residual + i * shape->output_size,
                   (size_t)count * sizeof(float));
        }
    }
    for (int64_t from = 0; from < depth_all; from += RT_BLOCK_DEPTH) {
        const int64_t depth = depth_all - from < RT_BLOCK_DEPTH ? depth_all - from : RT_BLOCK_DEPTH;
        gather_panels(shape, x, from, depth, position, count, panels);
        rt_tiles_run(&(rt_tiles){.rows = rows,
                                 .columns = count,
                                 .depth = depth,
                                 .a = weights + from,
                                 .a_row = depth_all,
                                 .a_depth = 1,
                                 .panels = panels,
                                 .c = y,
                                 .c_row = shape->output_size,
                                 .add = job->add || from > 0});
    }
    for (int64_t i = 0; i < rows; i++) {
        float *line = y + i * shape->output_size;
        if (depth_all == 0 && !job->add) memset(line, 0, (size_t)count * sizeof(float));
        if (job->bias) add_value(line, count, ((const float *)job->bias)[group * shape->filters + row + i]);
        rt_activation_floats(&shape->activation, line, count);
    }
}

static void multiply_doubles(const convolution_job *job, int64_t image, int64_t group, int64_t row,
                             int64_t rows, int64_t position, int64_t count, void *panels) {
    const convolution *shape = job->shape;
    const int64_t depth_all = shape->channels * shape->kernel_size,
                  first = (image * shape->group + group) * shape->filters + row;
    const double *x = (const double *)job->x +
                      (image * shape->group + group) * shape->channels * shape->input_size,
                 *weights = (const double *)job->weights + (group * shape->filters + row) * depth_all;
    double *y = (double *)job->y + first * shape->output_size + position;
    for (int64_t i = 0; i < rows && job->residual; i++)
        memcpy(y + i * shape->output_size,
               (const double *)job->residual + (first + i) * shape->output_size + position,
               (size_t)count * sizeof *y);
    for (int64_t from = 0; from < depth_all; from += RT_BLOCK_DEPTH) {
        const int64_t depth = depth_all - from < RT_BLOCK_DEPTH ? depth_all - from : RT_BLOCK_DEPTH;
        gather_panels(shape, x, from, depth, position, count, panels);
        rt_tiles_doubles(rows, count, depth, weights + from, depth_all, 1, panels, y, shape->output_size,
                         job->add || from > 0, shape->fused);
    }
    for (int64_t i = 0; i < rows; i++) {
        double *line = y + i * shape->output_size;
        const double bias = job->bias ? ((const double *)job->bias)[group * shape->filters + row + i] : 0;
        if (depth_all == 0 && !job->add) memset(line, 0, (size_t)count * sizeof *line);
        for (int64_t j = 0; j < count; j++) line[j] += bias;
        for (int64_t j = 0; j < count && shape->activation.kind != RT_ACTIVATION_NONE; j++)
            line[j] = rt_activation_value(&shape->activation, line[j]);
    }
}

/* Pieces of HALF_ROWS filters, HALF_DEPTH after HALF_DEPTH. */
static void multiply_halves(const convolution_job *job, int64_t image, int64_t group, int64_t row,
                            int64_t rows, int64_t position, int64_t count, void *unused) {
    _Alignas(RT_ALIGNMENT) float panels[RT_BLOCK_COLUMNS * HALF_DEPTH], left[HALF_ROWS * HALF_DEPTH],
        sums[HALF_ROWS * RT_BLOCK_COLUMNS];
    const convolution *shape = job->shape;
    const op_dtype dtype = shape->dtype;
    const int64_t depth_all = shape->channels * shape->kernel_size;
    const uint16_t *x =
        (const uint16_t *)job->x + (image * shape->group + group) * shape->channels * shape->input_size;
    (void)unused;
    for (int64_t done = 0; done < rows; done += HALF_ROWS) {
        const int64_t some = rows - done < HALF_ROWS ? rows - done : HALF_ROWS,
                      filter = group * shape->filters + row + done;
        const int64_t first =
            (image * shape->group * shape->filters + filter) * shape->output_size + position;
        uint16_t *y = (uint16_t *)job->y + first;
        const uint16_t *residual = job->residual ? (const uint16_t *)job->residual + first : y;
        for (int64_t i = 0; i < some && (job->add || depth_all == 0); i++) {
            float *line = sums + i * RT_BLOCK_COLUMNS;
            if (job->add) rt_half_load(dtype, line, residual + i * shape->output_size, count);
            else memset(line, 0, (size_t)count * sizeof *line);
        }
        for (int64_t from = 0; from < depth_all; from += HALF_DEPTH) {
            const int64_t depth = depth_all - from < HALF_DEPTH ? depth_all - from : HALF_DEPTH;
            gather_panels(shape, x, from, depth, position, count, panels);
            for (int64_t i = 0; i < some; i++)
                rt_half_load(dtype, left + i * depth,
                             (const uint16_t *)job->weights + (filter + i) * depth_all + from, depth);
            rt_tiles_run(&(rt_tiles){.rows = some,
                                     .columns = count,
                                     .depth = depth,
                                     .a = left,
                                     .a_row = depth,
                                     .a_depth = 1,
                                     .panels = panels,
                                     .c = sums,
                                     .c_row = RT_BLOCK_COLUMNS,
                                     .add = job->add || from > 0,
                                     .fused = true});
        }
        for (int64_t i = 0; i < some; i++) {
            float *line = sums + i * RT_BLOCK_COLUMNS;
            if (job->bias) add_value(line, count, (float)rt_element_load(dtype, job->bias, filter + i));
            rt_activation_floats(&shape->activation, line, count);
            rt_half_store(dtype, y + i * shape->output_size, line, count);
        }
    }
}

/* 16 bits, in panels of pairs where this machine and the windows are so. */
static void multiply_sixteen(const convolution_job *job, int64_t image, int64_t group, int64_t row,
                             int64_t rows, int64_t position, int64_t count, void *unused) {
    if (!rt_convolution_pairs(job, image, group, row, rows, position, count))
        multiply_halves(job, image, group, row, rows, position, count, unused);
}

static void products_member(void *context, int member, int members) {
    const convolution_job *job = context;
    const convolution *shape = job->shape;
    const int64_t parts = job->row_parts * job->column_parts, items = shape->batch * shape->group * parts;
    void *panels = job->scratch + (size_t)member * block_bytes(shape);
    for (int64_t item = items * member / members; item < items * (member + 1) / members; item++) {
        const int64_t outer = item / parts, part = item % parts;
        const int64_t row = part / job->column_parts * job->rows_each;
        const int64_t position = part % job->column_parts * RT_BLOCK_COLUMNS;
        const int64_t rows = shape->filters - row < job->rows_each ? shape->filters - row : job->rows_each;
        const int64_t rest = shape->output_size - position;
        (rt_is_half(shape->dtype) ? multiply_sixteen
         : shape->element == sizeof(double)
             ? multiply_doubles
             : multiply_floats)(job, outer / shape->group, outer % shape->group, row, rows, position,
                                rest < RT_BLOCK_COLUMNS ? rest : RT_BLOCK_COLUMNS, panels);
    }
}

/* ---- float and double: few filters a group ------------------------------------------------------------- */

/* What an element of a kernel sees: planes of rows of so many elements, from element `from` of a channel; outputs from `to` on. */
typedef struct channel_tap {
    int64_t planes, rows, count, from, to;
} channel_tap;

static channel_tap tap_of(const convolution *shape, int64_t tap) {
    const int64_t taps[3] = {tap / shape->kernel[2] / shape->kernel[1],
                             tap / shape->kernel[2] % shape->kernel[1], tap % shape->kernel[2]};
    int64_t low[3], many[3], from[3];
    for (int i = 0; i < 3; i++) {
        low[i] = shape->inside[i][taps[i]].low;
        many[i] = shape->inside[i][taps[i]].high - low[i];
        from[i] = low[i] * shape->stride[i] + taps[i] * shape->dilation[i] - shape->before[i];
    }
    if (many[0] <= 0 || many[1] <= 0 || many[2] <= 0) return (channel_tap){0};
    return (channel_tap){.planes = many[0],
                         .rows = many[1],
                         .count = many[2],
                         .from = (from[0] * shape->input[1] + from[1]) * shape->input[2] + from[2],
                         .to = (low[0] * shape->output[1] + low[1]) * shape->output[2] + low[2]};
}

/* add_rows: y[i] += weight * x[i * stride], in so many rows. add_channel: adds one channel of the input, seen through one kernel, to one map of the output. */
#define ADD_CHANNEL(name, real)                                                                              \
    RT_CLONES static void name##_rows(real *restrict y, int64_t y_row, const real *restrict x,               \
                                      int64_t x_row, int64_t rows, int64_t count, int64_t stride,            \
                                      real weight) {                                                         \
        for (int64_t row = 0; row < rows; row++, y += y_row, x += x_row) {                                   \
            if (stride == 1) {                                                                               \
                for (int64_t i = 0; i < count; i++) y[i] += weight * x[i];                                   \
            } else if (stride == 2) {                                                                        \
                for (int64_t i = 0; i < count; i++) y[i] += weight * x[2 * i];                               \
            } else {                                                                                         \
                for (int64_t i = 0; i < count; i++) y[i] += weight * x[stride * i];                          \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    static void name(const convolution *shape, const real *x, const real *weights, real *y) {                \
        for (int64_t tap = 0; tap < shape->kernel_size; tap++) {                                             \
            const channel_tap at = tap_of(shape, tap);                                                       \
            for (int64_t z = 0; z < at.planes; z++)                                                          \
                name##_rows(y + at.to + z * shape->output[1] * shape->output[2], shape->output[2],           \
                            x + at.from + z * shape->stride[0] * shape->input[1] * shape->input[2],          \
                            shape->stride[1] * shape->input[2], at.rows, at.count, shape->stride[2],         \
                            weights[tap]);                                                                   \
        }                                                                                                    \
    }
ADD_CHANNEL(add_channel, float)
ADD_CHANNEL(add_channel_of_doubles, double)

/* How the sums of a map are finished in the same loop, which a limit by constants and a bias can be. */
static rt_stencil_end stencil_end(const convolution_job *job, int64_t map) {
    rt_stencil_end end = {.bias = job->bias ? ((const float *)job->bias)[map] : 0};
    (void)rt_activation_limits(&job->shape->activation, &end.low, &end.high);
    return end;
}

/* The channel of the batch that a group of an image sees as one of its channels. */
static int64_t channel_of(const convolution *shape, int64_t image, int64_t group, int64_t channel) {
    const int64_t all = shape->group * shape->channels, own = group * shape->channels + channel;
    return image * all + (shape->shuffle == 1 ? own : op_shuffled_channel(own, shape->shuffle, all));
}

/* Maps that are made of one channel each, those of a member one after another. */
static void run_stencils(const convolution_job *job, int member, int members) {
    const convolution *shape = job->shape;
    const int64_t first = shape->group * member / members, end = shape->group * (member + 1) / members;
    const rt_stencil_end limits = stencil_end(job, 0);
    for (int64_t image = 0; image < shape->batch; image++) {
        const int64_t map = image * shape->group + first;
        const rt_stencil_channels channels = {
            .count = end - first,
            .pieces = {{(const float *)job->x + channel_of(shape, image, first, 0) * shape->input_size,
                        shape->input[1], shape->input_size}},
            .shuffle = shape->shuffle,
            .each = shape->group / shape->shuffle,
            .place = first % shape->shuffle,
            .weights = (const float *)job->weights + first * shape->kernel_size,
            .bias = job->bias ? (const float *)job->bias + first : NULL,
            .y = (float *)job->y + map * shape->output_size,
            .low = limits.low,
            .high = limits.high,
        };
        rt_stencil_run_rows(&shape->stencil, &channels);
    }
}

static void maps_member(void *context, int member, int members) {
    const convolution_job *job = context;
    const convolution *shape = job->shape;
    const int64_t maps = shape->group * shape->filters, items = shape->batch * maps;
    float low, high;
    const bool ends = shape->is_stencil && shape->channels == 1 && !job->add &&
                      rt_activation_limits(&shape->activation, &low, &high);
    if (ends && shape->stencil.by_rows && shape->filters == 1 && !job->residual) {
        run_stencils(job, member, members);
        return;
    }
    void *scratch = job->scratch + (size_t)member * shape->stencil.bytes;
    if (shape->is_stencil && member < items) rt_stencil_begin(&shape->stencil, scratch);
    for (int64_t item = items * member / members; item < items * (member + 1) / members; item++) {
        const int64_t map = item % maps, image = item / maps, group = map / shape->filters;
        const rt_stencil_end end =
            ends ? stencil_end(job, map) : (rt_stencil_end){.low = -INFINITY, .high = INFINITY};
        float *y = (float *)job->y + item * shape->output_size;
        if (job->residual) {
            memcpy(y, (const float *)job->residual + item * shape->output_size,
                   (size_t)shape->output_size * sizeof(float));
        } else if (!job->add && !shape->is_stencil) {
            memset(y, 0, (size_t)shape->output_size * sizeof(float));
        }
        for (int64_t channel = 0; channel < shape->channels; channel++) {
            const int64_t from = channel_of(shape, image, group, channel);
            const float *x = (const float *)job->x + from * shape->input_size,
                        *weights = (const float *)job->weights +
                                   (map * shape->channels + channel) * shape->kernel_size;
            if (shape->is_stencil)
                rt_stencil_run(&shape->stencil, x, weights, y, job->add || channel > 0, &end, scratch);
            else add_channel(shape, x, weights, y);
        }
        if (ends) continue;
        if (job->bias) add_value(y, shape->output_size, ((const float *)job->bias)[map]);
        rt_activation_floats(&shape->activation, y, shape->output_size);
    }
}

/* y[i] += the sum over t of weights[t] * x[at + offsets[t] + i], in the order of t: of `count` elements, at least EIGHT. The last ones are made in a whole
 * vector, from what was there before. */
enum { EIGHT = 8 };
RT_CLONES static void add_taps(const double *x, int64_t at, const int64_t *offsets, const double *weights,
                               int64_t taps, int64_t count, double *y) {
    typedef double eight
        __attribute__((vector_size(EIGHT * sizeof(double)), may_alias, aligned(sizeof(double))));
    eight last = *(const eight *)(y + count - EIGHT);
    int64_t i = 0;
    for (; i + 3 * EIGHT <= count; i += 3 * EIGHT) {
        eight *to = (eight *)(y + i), a = to[0], b = to[1], c = to[2];
        for (int64_t t = 0; t < taps; t++) {
            const eight *from = (const eight *)(x + (at + offsets[t] + i));
            a += weights[t] * from[0];
            b += weights[t] * from[1];
            c += weights[t] * from[2];
        }
        to[0] = a;
        to[1] = b;
        to[2] = c;
    }
    for (; i < count; i += EIGHT) {
        const bool whole = i + EIGHT <= count;
        const int64_t from = whole ? i : count - EIGHT;
        eight a = whole ? *(const eight *)(y + from) : last;
        for (int64_t t = 0; t < taps; t++) a += weights[t] * *(const eight *)(x + (at + offsets[t] + from));
        *(eight *)(y + from) = a;
    }
}

/* Whether add_channel_in_rows can: of two dimensions, and in steps of one along the rows. */
static bool windows_lie_in_rows(const convolution *shape) {
    return shape->kernel_size <= MOST_TAPS && shape->stride[2] == 1 && shape->input[0] == 1 &&
           shape->output[0] == 1 && shape->kernel[0] == 1;
}

/* As add_channel_of_doubles, a row of outputs after the other: where all columns of the window lie inside, its sums stay in registers. */
static void add_channel_in_rows(const convolution *shape, const double *x, const double *weights, double *y) {
    const rt_part *columns = shape->inside[2];
    int64_t low = 0, high = shape->output[2];
    for (int64_t k = 0; k < shape->kernel[2]; k++) {
        low = columns[k].low > low ? columns[k].low : low;
        high = columns[k].high < high ? columns[k].high : high;
    }
    if (high - low < EIGHT) low = high = shape->output[2];
    /* From the row of the image that the first row of the window is on, and may lie before it. */
    int64_t offsets[MOST_TAPS];
    for (int64_t k = 0; k < shape->kernel_size; k++)
        offsets[k] = (k / shape->kernel[2] * shape->dilation[1] - shape->before[1]) * shape->input[2] +
                     k % shape->kernel[2] * shape->dilation[2] - shape->before[2];
    for (int64_t row = 0; row < shape->output[1]; row++, y += shape->output[2]) {
        const int64_t line = row * shape->stride[1] * shape->input[2];
        int64_t first = 0, end = shape->kernel[1]; /* rows of the window that lie inside */
        while (first < end && (row < shape->inside[1][first].low || row >= shape->inside[1][first].high))
            first++;
        while (end > first && (row < shape->inside[1][end - 1].low || row >= shape->inside[1][end - 1].high))
            end--;
        for (int64_t i = 0; i < shape->output[2]; i++) {
            if (i >= low && i < high) i = high;
            for (int64_t ky = first; ky < end && i < shape->output[2]; ky++) {
                for (int64_t kx = 0; kx < shape->kernel[2]; kx++) {
                    const int64_t t = ky * shape->kernel[2] + kx;
                    if (i >= columns[kx].low && i < columns[kx].high)
                        y[i] += weights[t] * x[line + offsets[t] + i];
                }
            }
        }
        if (low < high)
            add_taps(x, line + low, offsets + first * shape->kernel[2], weights + first * shape->kernel[2],
                     (end - first) * shape->kernel[2], high - low, y + low);
    }
}

static void maps_doubles_member(void *context, int member, int members) {
    const convolution_job *job = context;
    const convolution *shape = job->shape;
    const int64_t maps = shape->group * shape->filters, items = shape->batch * maps;
    for (int64_t item = items * member / members; item < items * (member + 1) / members; item++) {
        const int64_t map = item % maps, image = item / maps, group = map / shape->filters;
        const double bias = job->bias ? ((const double *)job->bias)[map] : 0;
        double *y = (double *)job->y + item * shape->output_size;
        if (job->residual)
            memcpy(y, (const double *)job->residual + item * shape->output_size,
                   (size_t)shape->output_size * sizeof *y);
        else if (!job->add) memset(y, 0, (size_t)shape->output_size * sizeof *y);
        for (int64_t channel = 0; channel < shape->channels; channel++) {
            const int64_t from = channel_of(shape, image, group, channel);
            const double *x = (const double *)job->x + from * shape->input_size,
                         *weights = (const double *)job->weights +
                                    (map * shape->channels + channel) * shape->kernel_size;
            (windows_lie_in_rows(shape) ? add_channel_in_rows : add_channel_of_doubles)(shape, x, weights, y);
        }
        for (int64_t i = 0; i < shape->output_size; i++) y[i] += bias;
        for (int64_t i = 0; i < shape->output_size && shape->activation.kind != RT_ACTIVATION_NONE; i++)
            y[i] = rt_activation_value(&shape->activation, y[i]);
    }
}

/* ---- float: few outputs -------------------------------------------------------------------------------- */

static bool has_few_outputs(const convolution *shape) {
    return !shape->part && shape->output_size <= FEW_OUTPUTS &&
           shape->channels * shape->kernel_size >= SHORT_DEPTH;
}

/* Of one thread; false where they are too large to count. */
static bool windows_bytes(const convolution *shape, size_t *bytes) {
    return base_size_multiply((size_t)(shape->channels * shape->kernel_size), (size_t)shape->output_size,
                              bytes) &&
           base_size_multiply(*bytes, sizeof(float), bytes) && base_size_align(*bytes, RT_ALIGNMENT, bytes);
}

/* What an output position sees, in the order of a filter's weights. */
static void gather_window(const convolution *shape, const float *x, int64_t position, float *window) {
    const int64_t at[3] = {position / shape->output[2] / shape->output[1],
                           position / shape->output[2] % shape->output[1], position % shape->output[2]};
    int64_t start[3];
    for (int i = 0; i < 3; i++) start[i] = at[i] * shape->stride[i] - shape->before[i];
    for (int64_t channel = 0; channel < shape->channels; channel++, x += shape->input_size) {
        for (int64_t kz = 0; kz < shape->kernel[0]; kz++) {
            const int64_t iz = start[0] + kz * shape->dilation[0];
            for (int64_t ky = 0; ky < shape->kernel[1]; ky++) {
                const int64_t iy = start[1] + ky * shape->dilation[1];
                const bool seen = iz >= 0 && iz < shape->input[0] && iy >= 0 && iy < shape->input[1];
                const int64_t line = (iz * shape->input[1] + iy) * shape->input[2];
                for (int64_t kx = 0; kx < shape->kernel[2]; kx++) {
                    const int64_t ix = start[2] + kx * shape->dilation[2];
                    *window++ = seen && ix >= 0 && ix < shape->input[2] ? x[line + ix] : 0;
                }
            }
        }
    }
}

static void windows_member(void *context, int member, int members) {
    const convolution_job *job = context;
    const convolution *shape = job->shape;
    const int64_t depth = shape->channels * shape->kernel_size, outputs = shape->output_size;
    const int64_t each = (shape->filters + members - 1) / members, from = member * each;
    const int64_t filters = shape->filters - from < each ? shape->filters - from : each;
    size_t bytes = 0;
    (void)windows_bytes(shape, &bytes);
    float *windows = (float *)(void *)(job->scratch + (size_t)member * bytes);
    for (int64_t part = 0; filters > 0 && part < shape->batch * shape->group; part++) {
        const float *x = (const float *)job->x + part * shape->channels * shape->input_size;
        const int64_t first = part % shape->group * shape->filters + from;
        const int64_t begin = (part * shape->filters + from) * outputs;
        float *y = (float *)job->y + begin;
        for (int64_t i = 0; i < outputs; i++) gather_window(shape, x, i, windows + i * depth);
        for (int64_t f = 0; f < filters; f++) {
            float sums[FEW_OUTPUTS];
            rt_dots((const float *)job->weights + (first + f) * depth, windows, depth, depth, outputs, sums);
            const float bias = job->bias ? ((const float *)job->bias)[first + f] : 0;
            for (int64_t i = 0; i < outputs; i++) {
                const int64_t at = f * outputs + i;
                if (job->residual) sums[i] += ((const float *)job->residual)[begin + at];
                else if (job->add) sums[i] += y[at];
                y[at] = sums[i] + bias;
            }
        }
        rt_activation_floats(&shape->activation, y, filters * outputs);
    }
}

/* ---- 16 bits: few filters, few outputs -------------------------------------------------------------------- */

/* Whole lines of memory. */
static int64_t rounded(int64_t count) {
    return (count + RT_PANEL - 1) / RT_PANEL * RT_PANEL;
}

/* Floats that a thread needs beside: of a channel of the input, a kernel and a map; or, for few outputs, of the windows, the
 * input of a group and a filter. False: too many to count. */
static bool half_floats(const convolution *shape, int64_t *count) {
    const int64_t depth = shape->channels * shape->kernel_size;
    int64_t input = shape->input_size, windows = rounded(shape->output_size);
    *count = 0;
    if (shape->filters >= FEW_FILTERS && !has_few_outputs(shape)) return true;
    if (shape->filters >= FEW_FILTERS && (!base_int64_multiply(shape->channels, input, &input) ||
                                          !base_int64_multiply(rounded(depth), windows, &windows)))
        return false;
    if (input > INT64_MAX / 16 || windows > INT64_MAX / 16) return false;
    *count = rounded(input) + rounded(depth) + windows;
    return true;
}

static void maps_halves_member(void *context, int member, int members) {
    static const rt_stencil_end no_end = {.low = -INFINITY, .high = INFINITY};
    const convolution_job *job = context;
    const convolution *shape = job->shape;
    const op_dtype dtype = shape->dtype;
    const int64_t maps = shape->group * shape->filters, items = shape->batch * maps;
    int64_t each = 0;
    (void)half_floats(shape, &each);
    float *y = (float *)(void *)job->scratch + member * each, *x = y + rounded(shape->output_size),
          *weights = x + rounded(shape->input_size);
    for (int64_t item = items * member / members; item < items * (member + 1) / members; item++) {
        const int64_t map = item % maps, image = item / maps, group = map / shape->filters;
        uint16_t *to = (uint16_t *)job->y + item * shape->output_size;
        if (job->add)
            rt_half_load(dtype, y,
                         job->residual ? (const uint16_t *)job->residual + item * shape->output_size : to,
                         shape->output_size);
        else if (!shape->is_stencil) memset(y, 0, (size_t)shape->output_size * sizeof *y);
        for (int64_t channel = 0; channel < shape->channels; channel++) {
            const int64_t from = channel_of(shape, image, group, channel);
            rt_half_load(dtype, x, (const uint16_t *)job->x + from * shape->input_size, shape->input_size);
            rt_half_load(dtype, weights,
                         (const uint16_t *)job->weights +
                             (map * shape->channels + channel) * shape->kernel_size,
                         shape->kernel_size);
            if (shape->is_stencil)
                rt_stencil_run(&shape->stencil, x, weights, y, job->add || channel > 0, &no_end, NULL);
            else add_channel(shape, x, weights, y);
        }
        if (job->bias) add_value(y, shape->output_size, (float)rt_element_load(dtype, job->bias, map));
        rt_activation_floats(&shape->activation, y, shape->output_size);
        rt_half_store(dtype, to, y, shape->output_size);
    }
}

static void windows_halves_member(void *context, int member, int members) {
    const convolution_job *job = context;
    const convolution *shape = job->shape;
    const op_dtype dtype = shape->dtype;
    const int64_t depth = shape->channels * shape->kernel_size, outputs = shape->output_size,
                  inputs = shape->channels * shape->input_size;
    const int64_t step = (shape->filters + members - 1) / members, from = member * step;
    const int64_t filters = shape->filters - from < step ? shape->filters - from : step;
    int64_t each = 0;
    (void)half_floats(shape, &each);
    float *x = (float *)(void *)job->scratch + member * each, *weights = x + rounded(inputs),
          *windows = weights + rounded(depth);
    for (int64_t part = 0; filters > 0 && part < shape->batch * shape->group; part++) {
        const int64_t first = part % shape->group * shape->filters + from;
        rt_half_load(dtype, x, (const uint16_t *)job->x + part * inputs, inputs);
        for (int64_t i = 0; i < outputs; i++) gather_window(shape, x, i, windows + i * depth);
        for (int64_t f = 0; f < filters; f++) {
            uint16_t *y = (uint16_t *)job->y + (part * shape->filters + from + f) * outputs;
            const uint16_t *residual =
                job->residual ? (const uint16_t *)job->residual + (part * shape->filters + from + f) * outputs
                              : y;
            float sums[FEW_OUTPUTS], added[FEW_OUTPUTS] = {0};
            rt_half_load(dtype, weights, (const uint16_t *)job->weights + (first + f) * depth, depth);
            rt_dots(weights, windows, depth, depth, outputs, sums);
            const float bias = job->bias ? (float)rt_element_load(dtype, job->bias, first + f) : 0;
            if (job->add) rt_half_load(dtype, added, residual, outputs);
            for (int64_t i = 0; i < outputs; i++) sums[i] = sums[i] + added[i] + bias;
            rt_activation_floats(&shape->activation, sums, outputs);
            rt_half_store(dtype, y, sums, outputs);
        }
    }
}

/* ---- all of it ----------------------------------------------------------------------------------------- */

static void run_job(const convolution *shape, convolution_job *job, int threads) {
    const double work = (double)shape->batch * (double)shape->group * (double)shape->filters *
                        (double)shape->output_size * (double)(shape->channels * shape->kernel_size + 1);
    const int used = work < RT_PARALLEL_WORK ? 1 : threads;
    if (shape->filters < FEW_FILTERS) {
        rt_team_run(used,
                    rt_is_half(shape->dtype)    ? maps_halves_member
                    : shape->dtype == OP_DOUBLE ? maps_doubles_member
                                                : maps_member,
                    job);
    } else if (shape->dtype != OP_DOUBLE && has_few_outputs(shape)) {
        rt_team_run(used, rt_is_half(shape->dtype) ? windows_halves_member : windows_member, job);
    } else {
        job->column_parts = (shape->output_size + RT_BLOCK_COLUMNS - 1) / RT_BLOCK_COLUMNS;
        const int64_t parts = job->column_parts * shape->batch * shape->group;
        const int64_t wanted = parts >= 2 * threads || threads == 1 ? 1 : 2 * threads / parts;
        job->rows_each = ((shape->filters + wanted - 1) / wanted + 7) / 8 * 8;
        job->row_parts = (shape->filters + job->rows_each - 1) / job->rows_each;
        rt_team_run(used, products_member, job);
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)report;
    const convolution *shape = prepared->state;
    convolution_job job = {.shape = shape,
                           .x = inputs[0].data,
                           .weights = inputs[1].data,
                           .bias = shape->bias ? inputs[2].data : NULL,
                           .y = outputs[0].data,
                           .scratch = scratch,
                           .add = shape->residual};
    if (shape->residual && inputs[3].data != outputs[0].data) job.residual = inputs[3].data;
    if (shape->output_size == 0 || shape->filters == 0 || shape->batch == 0) return BASE_OK;
    run_job(shape, &job, prepared->threads);
    return BASE_OK;
}

/* False when memory runs out. */
static bool find_parts(convolution *shape, base_arena *arena) {
    for (int d = 0; d < 3; d++) {
        shape->inside[d] = BASE_ARRAY(arena, rt_part, (size_t)shape->kernel[d]);
        if (!shape->inside[d]) return false;
        for (int64_t k = 0; k < shape->kernel[d]; k++)
            shape->inside[d][k] = rt_part_inside(k * shape->dilation[d] - shape->before[d], shape->stride[d],
                                                 shape->input[d], shape->output[d]);
    }
    return true;
}

/* Few filters in float, whose windows have two dimensions, are stencils. */
static void find_stencil(convolution *shape, base_arena *arena) {
    if (shape->dtype == OP_DOUBLE || shape->filters >= FEW_FILTERS || shape->kernel_size <= FEW_TAPS) return;
    if (shape->channels == 0 || shape->output_size == 0) return;
    if (shape->input[0] != 1 || shape->output[0] != 1 || shape->kernel[0] != 1) return;
    for (int i = 0; i < 2; i++) {
        shape->stencil.input[i] = shape->input[i + 1];
        shape->stencil.output[i] = shape->output[i + 1];
        shape->stencil.kernel[i] = shape->kernel[i + 1];
        shape->stencil.stride[i] = shape->stride[i + 1];
        shape->stencil.dilation[i] = shape->dilation[i + 1];
        shape->stencil.before[i] = shape->before[i + 1];
    }
    shape->is_stencil = rt_stencil_prepare(&shape->stencil, arena) &&
                        /* of 16 bits without more scratch than for the maps in float */
                        (shape->dtype == OP_FLOAT || shape->stencil.by_rows);
    if (!shape->is_stencil) shape->stencil.bytes = 0;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    const op_shape *x = &call->inputs[0].type.shape, *weights = &call->inputs[1].type.shape;
    convolution *shape = BASE_NEW(arena, convolution);
    if (!shape) return base_fail_memory(report);
    op_window window;
    base_status status = op_window_read(call, weights->dims + 2, &window, report);
    if (status != BASE_OK) return status;
    *shape = (convolution){
        .dtype = call->inputs[0].type.dtype,
        .element = op_dtype_bytes(call->inputs[0].type.dtype),
        .batch = x->dims[0],
        .group = op_attribute_integer(&call->attributes, "group", 1),
        .channels = weights->dims[1],
        .input_size = 1,
        .output_size = 1,
        .kernel_size = 1,
        .shuffle = call->code == OP_SHUFFLED_CONV ? op_attribute_integer(&call->attributes, "shuffle", 1) : 1,
        .bias = op_input_present(call, 2),
        .residual = op_input_present(call, 3),
        .fused = !environment->portable_only};
    shape->filters = weights->dims[0] / shape->group;
    shape->part = op_attribute_find(&call->attributes, "ouro.packed_extents") != NULL;
    const op_window three = op_window_of_three(&window);
    for (int i = 0; i < 3; i++) {
        shape->input[i] = three.input[i];
        shape->output[i] = three.output[i];
        shape->kernel[i] = three.kernel[i];
        shape->stride[i] = three.stride[i];
        shape->dilation[i] = three.dilation[i];
        shape->before[i] = three.before[i];
        shape->input_size *= shape->input[i];
        shape->output_size *= shape->output[i];
        shape->kernel_size *= shape->kernel[i];
    }
    if (shape->input_size == 0) shape->channels = 0; /* nothing but padding is to be seen */
    rt_activation_read(&call->attributes, &shape->activation);
    if (!find_parts(shape, arena)) return base_fail_memory(report);
    prepared->state = shape;
    prepared->run = run;
    find_stencil(shape, arena);
    size_t bytes = block_bytes(shape);
    const bool half = rt_is_half(shape->dtype);
    bool fits = half || shape->dtype == OP_DOUBLE || !has_few_outputs(shape) || windows_bytes(shape, &bytes);
    if (shape->filters < FEW_FILTERS) bytes = shape->stencil.bytes;
    if (half) {
        int64_t floats = 0;
        fits = half_floats(shape, &floats) && base_size_multiply((size_t)floats, sizeof(float), &bytes);
    }
    fits = fits && base_size_multiply((size_t)environment->threads, bytes, &prepared->scratch_bytes);
    return fits ? BASE_OK : base_fail(report, BASE_INVALID, "the tensors are too large");
}

const rt_kernel rt_kernel_convolution = {.name = "portable.convolution",
                                         .accepts = accepts,
                                         .estimate = rt_gathering_convolution_estimate,
                                         .prepare = prepare};
