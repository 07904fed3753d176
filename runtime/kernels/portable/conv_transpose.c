/* SPDX-License-Identifier: Apache-2.0 */
/* conv_transpose.c: transposed convolution: each input point adds the kernel, weighted, to the output around it. A matrix
 * product sums over the channels, for each kernel position of some filters; these are then added to the output where they
 * belong, in the order of kernel positions, whatever the number of threads. Computed in float (double for double). */
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/product.h"
#include "runtime/kernels/portable/turn.h"
#include "ir/operators/window.h"
#include <string.h>

typedef struct transposed_state {
    op_transposed window;
    op_dtype dtype;
    int64_t batch, channels, filters; /* of a group */
    int64_t input_size, output_size, kernel_size;
    int64_t chunk;      /* filters whose products are there at a time */
    rt_product product; /* of a chunk: rows are kernel positions of filters, columns points of the input */
    size_t product_bytes, half_bytes; /* scratch: operands in float where they are halves, products, panels */
} transposed_state;

typedef struct transposed_context {
    const transposed_state *state;
    const void *x, *w, *bias;
    void *y, *products, *scratch;
    int64_t image, filter, filters; /* the first of the chunk, of all groups; how many it has */
} transposed_context;

/* y += x, where kernel position `at` puts the input's points. */
#define SPREAD(type)                                                                                         \
    static void spread_##type(const op_transposed *t, const type *x, const int64_t *at, type *y) {           \
        const int32_t last = t->rank - 1;                                                                    \
        int64_t index[OP_MAX_RANK] = {0}, rows = 1;                                                          \
        for (int32_t d = 0; d < last; d++) rows *= t->input[d];                                              \
        for (int64_t row = 0; row < rows; row++) {                                                           \
            int64_t base = 0;                                                                                \
            bool inside = true;                                                                              \
            for (int32_t d = 0; d < last; d++) {                                                             \
                int64_t o = index[d] * t->stride[d] + at[d] * t->dilation[d] - t->before[d];                 \
                inside = inside && o >= 0 && o < t->output[d];                                               \
                base = base * t->output[d] + o;                                                              \
            }                                                                                                \
            if (inside) {                                                                                    \
                const int64_t shift = at[last] * t->dilation[last] - t->before[last];                        \
                const int64_t step = t->stride[last], width = t->output[last];                               \
                int64_t first = shift < 0 ? (-shift + step - 1) / step : 0;                                  \
                int64_t end = width - shift <= 0 ? 0 : (width - shift + step - 1) / step;                    \
                if (end > t->input[last]) end = t->input[last];                                              \
                const type *from = x + row * t->input[last];                                                 \
                for (int64_t i = first; i < end; i++) y[base * width + shift + i * step] += from[i];         \
            }                                                                                                \
            for (int32_t d = last - 1; d >= 0; d--) {                                                        \
                if (++index[d] < t->input[d]) break;                                                         \
                index[d] = 0;                                                                                \
            }                                                                                                \
        }                                                                                                    \
    }

SPREAD(float)
SPREAD(double)

/* One output channel of one image: the products of its filter, one row a kernel position, are put in their places. */
#define CHANNEL(type)                                                                                        \
    static void channel_##type(const transposed_state *s, const type *products, type bias, type *y) {        \
        const op_transposed *t = &s->window;                                                                 \
        int64_t at[OP_MAX_RANK] = {0};                                                                       \
        for (int64_t i = 0; i < s->output_size; i++) y[i] = bias;                                            \
        for (int64_t k = 0; k < s->kernel_size; k++) {                                                       \
            spread_##type(t, products + k * s->input_size, at, y);                                           \
            for (int32_t d = t->rank - 1; d >= 0; d--) {                                                     \
                if (++at[d] < t->kernel[d]) break;                                                           \
                at[d] = 0;                                                                                   \
            }                                                                                                \
        }                                                                                                    \
    }

CHANNEL(float)
CHANNEL(double)

static void run_channels(void *user, int64_t begin, int64_t end) {
    const transposed_context *context = user;
    const transposed_state *s = context->state;
    for (int64_t i = begin; i < end; i++) {
        const int64_t filter = context->filter + i, from = i * s->kernel_size * s->input_size,
                      to = (context->image * s->filters * s->window.group + filter) * s->output_size;
        if (s->dtype == OP_DOUBLE) {
            channel_double(s, (const double *)context->products + from,
                           context->bias ? ((const double *)context->bias)[filter] : 0,
                           (double *)context->y + to);
        } else {
            channel_float(s, (const float *)context->products + from,
                          context->bias ? ((const float *)context->bias)[filter] : 0,
                          (float *)context->y + to);
        }
    }
}

/* ---- rows of floats -------------------------------------------------------------------------------------
 *
 * Seen from the first output that padding cuts off, output q * stride + phase of a row gets what those elements of the kernel put there whose own
 * place has that phase, of points of the input that follow one another: sums are taken phase by phase, in vectors, and mixed in the end. */

enum {
    CHUNK = 1024,   /* sums that are taken at a time */
    MOST_LINES = 64 /* of the kernel */
};

/* Where the products begin that are put in a row, in the order of kernel positions. */
typedef struct row_lines {
    int64_t count, at[MOST_LINES];
} row_lines;

static int64_t lines_of_kernel(const op_transposed *t) {
    int64_t lines = 1;
    for (int32_t d = 0; d < t->rank - 1 && lines <= MOST_LINES; d++) lines *= t->kernel[d];
    return lines;
}

static bool has_rows(const transposed_state *s) {
    const op_transposed *t = &s->window;
    return s->dtype != OP_DOUBLE && t->stride[t->rank - 1] <= CHUNK && lines_of_kernel(t) <= MOST_LINES &&
           s->output_size > 0 && s->input_size > 0;
}

/* Along the first `axes` axes: the point of the input that kernel position `kernel` puts at `output` (of as many axes all); -1: none. */
static int64_t point_of(const op_transposed *t, int32_t axes, int64_t output, int64_t kernel) {
    int64_t at = 0, points = 1;
    for (int32_t d = axes - 1; d >= 0; d--) {
        const int64_t place = output % t->output[d] + t->before[d] - kernel % t->kernel[d] * t->dilation[d];
        if (place < 0 || place % t->stride[d] != 0 || place / t->stride[d] >= t->input[d]) return -1;
        at += place / t->stride[d] * points;
        points *= t->input[d];
        output /= t->output[d];
        kernel /= t->kernel[d];
    }
    return at;
}

static void find_lines(const transposed_state *s, int64_t row, row_lines *lines) {
    const op_transposed *t = &s->window;
    const int32_t last = t->rank - 1, axis = last - 1;
    *lines = (row_lines){.count = last == 0};
    if (last == 0) return;
    /* Along the axis before the last one, point `at` is put in the row where `rest` is 0. */
    const int64_t planes = lines_of_kernel(t) / t->kernel[axis], stride = t->stride[axis],
                  above = axis > 0 ? row / t->output[axis] : 0,
                  output = row - above * t->output[axis] + t->before[axis],
                  whole = t->dilation[axis] / stride, part = t->dilation[axis] % stride;
    for (int64_t plane = 0; plane < planes && output >= 0; plane++) {
        const int64_t before = point_of(t, axis, above, plane);
        int64_t at = output / stride, rest = output - at * stride;
        for (int64_t y = 0; before >= 0 && y < t->kernel[axis] && at >= 0; y++) {
            if (rest == 0 && at < t->input[axis])
                lines->at[lines->count++] = (plane * t->kernel[axis] + y) * t->kernel[last] * s->input_size +
                                            (before * t->input[axis] + at) * t->input[last];
            at -= whole;
            rest -= part;
            if (rest >= 0) continue;
            rest += stride;
            at--;
        }
    }
}

/* Sums of `count` successive q from `first` on, of all phases, one after another. */
RT_CLONES static void add_lines(const transposed_state *s, const row_lines *lines, const float *products,
                                int64_t first, int64_t count, float bias, float *sums) {
    const op_transposed *t = &s->window;
    const int32_t last = t->rank - 1;
    const int64_t step = t->stride[last], width = t->input[last], whole = t->dilation[last] / step,
                  part = t->dilation[last] % step;
    for (int64_t i = 0; i < count * step; i++) sums[i] = bias;
    for (int64_t l = 0; l < lines->count; l++) {
        int64_t place = 0, phase = 0; /* of the element: place * step + phase */
        for (int64_t element = 0; element < t->kernel[last]; element++) {
            if (element > 0) {
                const bool more = phase + part >= step;
                phase += more ? part - step : part;
                place += whole + more;
            }
            const int64_t at = first - place, begin = at < 0 ? -at : 0, rest = width - at,
                          some = (rest < count ? rest : count) - begin;
            if (some <= 0) continue;
            const float *from = products + lines->at[l] + element * s->input_size + at + begin;
            float *sum = sums + phase * count + begin;
            RT_VECTOR for (int64_t q = 0; q < some; q++) sum[q] += from[q];
        }
    }
}

/* A row of a filter. */
static void make_row(const transposed_state *s, const row_lines *lines, const float *products, float bias,
                     float *y) {
    const op_transposed *t = &s->window;
    const int32_t last = t->rank - 1;
    const int64_t step = t->stride[last], before = t->before[last], width = t->output[last],
                  each = CHUNK / step, end = before + width,
                  start = before < 0 ? -((-before + step - 1) / step) : before / step;
    float sums[CHUNK], mixed[CHUNK];
    for (int64_t first = start; first * step < end; first += each) {
        const int64_t left = (end - first * step + step - 1) / step, count = left < each ? left : each,
                      from = first * step - before, skip = from < 0 ? -from : 0, made = count * step,
                      stop = width - from < made ? width - from : made;
        const bool fits = skip == 0 && stop == made;
        float *to = fits ? y + from : mixed;
        add_lines(s, lines, products, first, count, bias, step == 1 ? to : sums);
        if (step > 1)
            rt_turn_words((const uint32_t *)(const void *)sums, count, step, count, (uint32_t *)(void *)to,
                          step);
        if (!fits) memcpy(y + from + skip, mixed + skip, (size_t)(stop - skip) * sizeof *y);
    }
}

/* Row after row of all filters of the chunk. */
static void run_rows(void *user, int64_t begin, int64_t end) {
    const transposed_context *context = user;
    const transposed_state *s = context->state;
    const int64_t width = s->window.output[s->window.rank - 1], filters = context->filters;
    row_lines lines;
    for (int64_t i = begin; i < end; i++) {
        const int64_t row = i / filters, own = i % filters, filter = context->filter + own;
        if (i == begin || own == 0) find_lines(s, row, &lines);
        make_row(s, &lines, (const float *)context->products + own * s->kernel_size * s->input_size,
                 context->bias ? ((const float *)context->bias)[filter] : 0,
                 (float *)context->y +
                     (context->image * s->filters * s->window.group + filter) * s->output_size + row * width);
    }
}

/* A few filters of one image at a time: the products of their weights with the image, then each in its place. */
static void run_all(const transposed_state *s, transposed_context *context, int threads) {
    const size_t size = s->dtype == OP_DOUBLE ? sizeof(double) : sizeof(float);
    for (int64_t image = 0; image < s->batch; image++) {
        for (int64_t group = 0; group < s->window.group; group++) {
            const char *x = (const char *)context->x +
                            (size_t)((image * s->window.group + group) * s->channels * s->input_size) * size;
            for (int64_t first = 0; first < s->filters; first += s->chunk) {
                const int64_t count = s->filters - first < s->chunk ? s->filters - first : s->chunk;
                const char *w = (const char *)context->w +
                                (size_t)((group * s->channels * s->filters + first) * s->kernel_size) * size;
                rt_product product = s->product;
                product.rows = count * s->kernel_size;
                rt_product_run(&product, threads, w, x, NULL, context->products, context->scratch);
                context->image = image;
                context->filter = group * s->filters + first;
                context->filters = count;
                const int64_t work = s->kernel_size * s->input_size + s->output_size;
                if (has_rows(s)) {
                    const int64_t rows = s->output_size / s->window.output[s->window.rank - 1];
                    rt_parallel(threads, count * rows, work / rows, run_rows, context);
                } else {
                    rt_parallel(threads, count, work, run_channels, context);
                }
            }
        }
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)report;
    const transposed_state *s = prepared->state;
    const bool biased = prepared->input_count > 2 && inputs[2].type.dtype != OP_NONE;
    transposed_context context = {.state = s,
                                  .x = inputs[0].data,
                                  .w = inputs[1].data,
                                  .bias = biased ? inputs[2].data : NULL,
                                  .y = outputs[0].data,
                                  .products = (char *)scratch + s->half_bytes,
                                  .scratch = (char *)scratch + s->half_bytes + s->product_bytes};
    const int64_t tasks = s->batch * s->filters * s->window.group;
    const bool half = rt_is_half(s->dtype);
    float *y = scratch;
    if (half) { /* all of it in float, then back */
        int64_t counts[3] = {s->batch * s->channels * s->window.group * s->input_size,
                             s->channels * s->window.group * s->filters * s->kernel_size,
                             biased ? s->filters * s->window.group : 0};
        float *at = y + tasks * s->output_size;
        const void **operands[3] = {&context.x, &context.w, &context.bias};
        for (int i = 0; i < 3; i++) {
            if (!counts[i]) continue;
            rt_half_load(s->dtype, at, *operands[i], counts[i]);
            *operands[i] = at;
            at += counts[i];
        }
        context.y = y;
    }
    run_all(s, &context, prepared->threads);
    if (half) rt_half_store(s->dtype, outputs[0].data, y, tasks * s->output_size);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    transposed_state *s = BASE_NEW(arena, transposed_state);
    if (!s) return base_fail_memory(report);
    const op_shape *x = &call->inputs[0].type.shape, *w = &call->inputs[1].type.shape;
    if (!op_transposed_read(call, &s->window, report)) return BASE_INVALID;
    s->dtype = call->inputs[0].type.dtype;
    s->batch = x->dims[0];
    s->channels = x->dims[1] / s->window.group;
    s->filters = w->dims[1];
    s->input_size = s->output_size = s->kernel_size = 1;
    for (int32_t i = 0; i < s->window.rank; i++) {
        s->input_size *= s->window.input[i];
        s->output_size *= s->window.output[i];
        s->kernel_size *= s->window.kernel[i];
    }
    if (rt_is_half(s->dtype)) {
        int64_t elements = s->batch * s->filters * s->window.group * s->output_size +
                           s->batch * s->channels * s->window.group * s->input_size +
                           s->channels * s->window.group * s->filters * s->kernel_size +
                           s->filters * s->window.group;
        if (!base_size_multiply((size_t)elements, sizeof(float), &s->half_bytes) ||
            !base_size_align(s->half_bytes, RT_ALIGNMENT, &s->half_bytes))
            return base_fail(report, BASE_INVALID, "it is too large");
    }
    /* About a megabyte of products at a time. */
    const int64_t each = s->kernel_size * s->input_size;
    s->chunk = each ? (1 << 18) / each : s->filters;
    if (s->chunk < 1) s->chunk = 1;
    if (s->chunk > s->filters) s->chunk = s->filters;
    s->product = (rt_product){.dtype = s->dtype == OP_DOUBLE ? OP_DOUBLE : OP_FLOAT,
                              .rows = s->chunk * s->kernel_size,
                              .columns = s->input_size,
                              .depth = s->channels,
                              .batches = 1,
                              .a_row = 1,
                              .a_depth = s->filters * s->kernel_size,
                              .b_depth = s->input_size,
                              .b_column = 1,
                              .alpha = 1,
                              .part = op_attribute_find(&call->attributes, "ouro.packed_extents") != NULL};
    size_t bytes;
    if (!base_size_multiply((size_t)(s->chunk * each), sizeof(double), &s->product_bytes) ||
        !base_size_align(s->product_bytes, RT_ALIGNMENT, &s->product_bytes) ||
        !base_size_add(s->product_bytes, s->half_bytes, &bytes) ||
        !base_size_add(bytes, rt_product_scratch(&s->product, environment->threads),
                       &prepared->scratch_bytes))
        return base_fail(report, BASE_INVALID, "it is too large");
    prepared->state = s;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_conv_transpose = {
    .name = "portable.conv_transpose", .accepts = rt_accepts_any_row_major, .prepare = prepare};
