/* SPDX-License-Identifier: Apache-2.0 */
/* convolution_maps.c: Conv in portable C with few filters a group (depthwise convolution): one map of the result after the other sees the
 * channels that it is made of.
 *
 * Where windows of floats have two dimensions and are not small, the sums of a row's windows stay in registers (stencil.h); elsewhere whole rows of the
 * result are added, one window element after the other. Channels of 16 bits become floats, and a map is rounded once.
 */
#include "runtime/kernels/portable/convolution.h"
#include <math.h>
#include <string.h>

enum {
    MOST_TAPS = 64, /* of a window of doubles whose sums stay in registers */
    FEW_TAPS = 3    /* of a window: to copy the image for them would cost too much */
};

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

static void make_floats(void *context, int member, int members) {
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
    void *scratch = job->scratch + (size_t)member * shape->thread_bytes;
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
        if (job->bias) rt_convolution_add(y, shape->output_size, ((const float *)job->bias)[map]);
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

static void make_doubles(void *context, int member, int members) {
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

/* Scratch: a map, a channel of the input and a kernel in float. */
static void make_halves(void *context, int member, int members) {
    static const rt_stencil_end no_end = {.low = -INFINITY, .high = INFINITY};
    const convolution_job *job = context;
    const convolution *shape = job->shape;
    const op_dtype dtype = shape->dtype;
    const int64_t maps = shape->group * shape->filters, items = shape->batch * maps;
    float *y = (float *)(void *)(job->scratch + (size_t)member * shape->thread_bytes),
          *x = y + rt_convolution_line(shape->output_size),
          *weights = x + rt_convolution_line(shape->input_size);
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
        if (job->bias)
            rt_convolution_add(y, shape->output_size, (float)rt_element_load(dtype, job->bias, map));
        rt_activation_floats(&shape->activation, y, shape->output_size);
        rt_half_store(dtype, to, y, shape->output_size);
    }
}

void rt_convolution_maps(void *context, int member, int members) {
    const convolution_job *job = context;
    const op_dtype dtype = job->shape->dtype;
    (rt_is_half(dtype)    ? make_halves
     : dtype == OP_DOUBLE ? make_doubles
                          : make_floats)(context, member, members);
}

/* Few filters in float, whose windows have two dimensions, are stencils. */
static void find_stencil(convolution *shape, base_arena *arena) {
    if (shape->dtype == OP_DOUBLE || shape->kernel_size <= FEW_TAPS) return;
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

bool rt_convolution_maps_prepare(convolution *shape, base_arena *arena, size_t *bytes) {
    find_stencil(shape, arena);
    *bytes = shape->stencil.bytes;
    if (!rt_is_half(shape->dtype)) return true;
    const int64_t depth = shape->channels * shape->kernel_size,
                  output = rt_convolution_line(shape->output_size);
    if (shape->input_size > INT64_MAX / 16 || output > INT64_MAX / 16) return false;
    const int64_t floats = rt_convolution_line(shape->input_size) + rt_convolution_line(depth) + output;
    return base_size_multiply((size_t)floats, sizeof(float), bytes);
}
