/* SPDX-License-Identifier: Apache-2.0 */
/* sample.c: images read at given points: GridSample; and MaxUnpool, which puts maxima back where they came from. */
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/product.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

static double at(const op_tensor *tensor, int64_t i) {
    return rt_element_load(tensor->type.dtype, tensor->data, i);
}

/* ---- GridSample ---------------------------------------------------------------------------------------- */

typedef struct grid_state {
    bool nearest, cubic, border, reflection, align;
    /* Which pixel is the nearest one is decided in float, as others do: 0.2 is a little more as a float, and may be in the middle of two. */
    bool narrow;
} grid_state;

/* Reflects x into [low, high] at its ends. */
static double reflect(double x, double low, double high) {
    double range = high - low;
    if (!(range > 0)) return low;
    double away = fabs(x - low), turns = floor(away / range), rest = away - turns * range;
    return fmod(turns, 2) == 0 ? low + rest : high - rest;
}

static double limit(const grid_state *state, double x, int64_t extent) {
    if (state->border) return x < 0 ? 0 : x > (double)(extent - 1) ? (double)(extent - 1) : x;
    if (!state->reflection) return x;
    x = state->align ? reflect(x, 0, (double)(extent - 1)) : reflect(x, -0.5, (double)extent - 0.5);
    return x < 0 ? 0 : x > (double)(extent - 1) ? (double)(extent - 1) : x;
}

/* The pixels that a point is made of, within one channel, and how much of each; what lies outside is left out. */
enum { MOST_TAPS = 64, MOST_SPATIAL = 6 };
typedef struct taps {
    int count;
    int64_t at[MOST_TAPS];
    double weights[MOST_TAPS];
} taps;

static void cubic_weights(double t, double weights[4]) {
    const double a = -0.75;
    weights[0] = ((a * (t + 1) - 5 * a) * (t + 1) + 8 * a) * (t + 1) - 4 * a;
    weights[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
    weights[2] = ((a + 2) * (1 - t) - (a + 3)) * (1 - t) * (1 - t) + 1;
    weights[3] = ((a * (2 - t) - 5 * a) * (2 - t) + 8 * a) * (2 - t) - 4 * a;
}

/* Along one dimension of `extent`, into which all taps so far go: each becomes one for every position around x. */
static void spread_taps(const grid_state *state, int64_t extent, double x, taps *made) {
    double first = state->nearest ? rint(x) : floor(x), weights[4] = {1};
    int count = state->nearest ? 1 : 2, before = made->count;
    int64_t at[4];
    if (!state->nearest) {
        weights[0] = 1 - (x - first);
        weights[1] = x - first;
    }
    if (state->cubic) {
        cubic_weights(x - first, weights);
        count = 4;
        first -= 1;
    }
    int inside = 0;
    for (int k = 0; k < count; k++) {
        const double position = limit(state, first + k, extent);
        if (!(position >= 0 && position <= (double)(extent - 1))) continue;
        at[inside] = rt_index(position, 0, extent - 1);
        weights[inside++] = weights[k];
    }
    made->count = before * inside;
    for (int i = before; i-- > 0;) {
        const int64_t base = made->at[i] * extent;
        const double weight = made->weights[i];
        for (int k = inside; k-- > 0;) {
            made->at[i * inside + k] = base + at[k];
            made->weights[i * inside + k] = weight * weights[k];
        }
    }
}

typedef struct grid_context {
    const grid_state *state;
    const op_tensor *image, *grid;
    op_tensor *out;
} grid_context;

/* The same point of all channels. */
static void sample_channels(const op_tensor *image, int64_t plane, int64_t size, const taps *from,
                            op_tensor *out, int64_t to, int64_t points, int64_t channels) {
    if (image->type.dtype == OP_FLOAT) {
        const float *pixels = (const float *)image->data + plane;
        float *values = (float *)out->data + to;
        for (int64_t c = 0; c < channels; c++, pixels += size, values += points) {
            double sum = 0;
            for (int t = 0; t < from->count; t++) sum += from->weights[t] * (double)pixels[from->at[t]];
            *values = (float)sum;
        }
        return;
    }
    for (int64_t c = 0; c < channels; c++) {
        double sum = 0;
        for (int t = 0; t < from->count; t++)
            sum += from->weights[t] * at(image, plane + c * size + from->at[t]);
        rt_element_store(out->type.dtype, out->data, to + c * points, sum);
    }
}

/* ---- points side by side ---- */

enum { POINTS = 64, FEW_TAPS = 4 };

/* Taps of several points, of a float image: absent ones have the weight 0 and count a 0 in place of a pixel. */
typedef struct tap_rows {
    int32_t at[FEW_TAPS][POINTS], inside[FEW_TAPS][POINTS];
    double weights[FEW_TAPS][POINTS];
    bool absent;
} tap_rows;

/* Where a coordinate lies among `extent` pixels. */
static double place_of(const grid_state *state, double along, int64_t extent_) {
    const double extent = (double)extent_;
    double x;
    if (state->narrow) {
        const float from = (float)along + 1, wide = (float)extent_;
        x = (double)(state->align ? from / 2 * (wide - 1) : (from * wide - 1) / 2);
    } else {
        x = state->align ? (along + 1) / 2 * (extent - 1) : ((along + 1) * extent - 1) / 2;
    }
    /* Where pixels far away are reflected or clamped anyway, points are so before they are blended. */
    return (state->border || state->reflection) && !state->cubic && !state->nearest ? limit(state, x, extent_)
                                                                                    : x;
}

/* The taps of a point of a plane, blended linearly: those of spread_taps. */
static void set_taps(const grid_state *state, const int64_t extents[2], const double places[2],
                     tap_rows *rows, int64_t point) {
    int64_t at[2][2];
    double weights[2][2];
    bool inside[2][2];
    for (int d = 0; d < 2; d++) {
        const double first = floor(places[d]), last = (double)(extents[d] - 1);
        weights[d][0] = 1 - (places[d] - first);
        weights[d][1] = places[d] - first;
        for (int k = 0; k < 2; k++) {
            const double position = limit(state, first + k, extents[d]);
            inside[d][k] = position >= 0 && position <= last;
            at[d][k] = inside[d][k] ? rt_index(position, 0, extents[d] - 1) : 0;
        }
    }
    for (int t = 0; t < FEW_TAPS; t++) {
        const bool both = inside[0][t / 2] && inside[1][t % 2];
        rows->at[t][point] = (int32_t)(at[0][t / 2] * extents[1] + at[1][t % 2]);
        rows->weights[t][point] = both ? weights[0][t / 2] * weights[1][t % 2] : 0;
        rows->inside[t][point] = both;
        rows->absent |= !both;
    }
}

/* The same for `count` points of a grid of floats, where what lies outside counts nothing. */
RT_CLONES static void set_plain_taps(bool align, const int64_t extents[2], const float *grid, int64_t count,
                                     tap_rows *rows) {
    const double height = (double)extents[0], width = (double)extents[1];
    const int32_t row = (int32_t)extents[1];
    int32_t absent = 0;
    for (int64_t p = 0; p < count; p++) {
        const double along = (double)grid[2 * p], down = (double)grid[2 * p + 1];
        const double y = align ? (down + 1) / 2 * (height - 1) : ((down + 1) * height - 1) / 2;
        const double x = align ? (along + 1) / 2 * (width - 1) : ((along + 1) * width - 1) / 2;
        const double top = floor(y), left = floor(x), wy = y - top, wx = x - left;
        const int32_t in_top = (top >= 0) & (top <= height - 1), in_below = (top >= -1) & (top <= height - 2);
        const int32_t in_left = (left >= 0) & (left <= width - 1),
                      in_right = (left >= -1) & (left <= width - 2);
        /* Limited, so that any number can be converted. */
        const double ty = top >= -1 ? top : -1, tx = left >= -1 ? left : -1;
        const int32_t iy = (int32_t)(ty <= height ? ty : height), ix = (int32_t)(tx <= width ? tx : width);
        const int32_t first = iy * row + ix;
        const int32_t i0 = in_top & in_left, i1 = in_top & in_right, i2 = in_below & in_left,
                      i3 = in_below & in_right;
        rows->at[0][p] = i0 ? first : 0;
        rows->at[1][p] = i1 ? first + 1 : 0;
        rows->at[2][p] = i2 ? first + row : 0;
        rows->at[3][p] = i3 ? first + row + 1 : 0;
        rows->weights[0][p] = i0 ? (1 - wy) * (1 - wx) : 0;
        rows->weights[1][p] = i1 ? (1 - wy) * wx : 0;
        rows->weights[2][p] = i2 ? wy * (1 - wx) : 0;
        rows->weights[3][p] = i3 ? wy * wx : 0;
        rows->inside[0][p] = i0;
        rows->inside[1][p] = i1;
        rows->inside[2][p] = i2;
        rows->inside[3][p] = i3;
        absent |= !(i0 & i1 & i2 & i3);
    }
    rows->absent = absent;
}

/* Channel by channel, the points of `rows`: the sums are those of sample_channels. */
RT_CLONES static void sample_rows(const tap_rows *rows, const float *pixels, int64_t size, int64_t channels,
                                  int64_t count, float *values, int64_t points) {
    for (int64_t c = 0; c < channels; c++, pixels += size, values += points) {
        if (rows->absent) {
            for (int64_t p = 0; p < count; p++) {
                double sum = 0;
                for (int t = 0; t < FEW_TAPS; t++) {
                    const double pixel = rows->inside[t][p] ? (double)pixels[rows->at[t][p]] : 0.0;
                    sum += rows->weights[t][p] * pixel;
                }
                values[p] = (float)sum;
            }
            continue;
        }
        for (int64_t p = 0; p < count; p++) {
            double sum = 0;
            for (int t = 0; t < FEW_TAPS; t++) sum += rows->weights[t][p] * (double)pixels[rows->at[t][p]];
            values[p] = (float)sum;
        }
    }
}

/* The nearest pixel of `count` points of a grid of floats, where what lies outside counts nothing, or as what is at the border. */
RT_CLONES static void set_nearest(bool align, bool border, const int64_t extents[2], const float *grid,
                                  int64_t count, tap_rows *rows) {
    const float tall = (float)extents[0], wide = (float)extents[1];
    const double bottom = (double)(extents[0] - 1), right = (double)(extents[1] - 1);
    const int32_t row = (int32_t)extents[1];
    for (int64_t p = 0; p < count; p++) {
        const float along = grid[2 * p] + 1, down = grid[2 * p + 1] + 1;
        double y = rint((double)(align ? down / 2 * (tall - 1) : (down * tall - 1) / 2));
        double x = rint((double)(align ? along / 2 * (wide - 1) : (along * wide - 1) / 2));
        if (border) {
            y = y < 0 ? 0 : y > bottom ? bottom : y;
            x = x < 0 ? 0 : x > right ? right : x;
        }
        const int32_t inside = (y >= 0) & (y <= bottom) & (x >= 0) & (x <= right);
        rows->at[0][p] = (int32_t)(inside ? y : 0) * row + (int32_t)(inside ? x : 0);
        rows->inside[0][p] = inside;
    }
}

/* Channel by channel, the pixels that were found. */
RT_CLONES static void copy_nearest(const tap_rows *rows, const float *pixels, int64_t size, int64_t channels,
                                   int64_t count, float *values, int64_t points) {
    for (int64_t c = 0; c < channels; c++, pixels += size, values += points) {
        for (int64_t p = 0; p < count; p++) {
            const float pixel = pixels[rows->at[0][p]];
            values[p] =
                rows->inside[0][p] ? pixel + 0 : 0; /* a sum, as those of other points: of -0 it is 0 */
        }
    }
}

static void run_points(void *user, int64_t begin, int64_t end) {
    const grid_context *context = user;
    const grid_state *state = context->state;
    const int64_t *image = context->image->type.shape.dims, *out = context->out->type.shape.dims;
    const int32_t rank = context->image->type.shape.rank - 2;
    int64_t points = 1, size = 1;
    for (int32_t d = 0; d < rank; d++) {
        points *= out[2 + d];
        size *= image[2 + d];
    }
    const bool floats = context->grid->type.dtype == OP_FLOAT,
               nearest = state->nearest && floats && !state->reflection;
    const bool abreast = context->image->type.dtype == OP_FLOAT && rank == 2 && !state->cubic &&
                         (!state->nearest || nearest) && size > 0 && size < INT32_MAX / 4 &&
                         image[2] < INT32_MAX / 4 && image[3] < INT32_MAX / 4;
    const bool plain = abreast && floats && (nearest || !(state->border || state->reflection));
    tap_rows rows = {.absent = false};
    int64_t waiting = 0;
    for (int64_t i = begin; i < end; i++) {
        const int64_t n = i / points;
        int64_t p = i % points;
        if (!abreast) {
            taps from = {.count = size > 0, .weights = {1}};
            for (int32_t d = 0; d < rank && from.count; d++) {
                /* Coordinates come from the innermost dimension outward. */
                const double along = at(context->grid, i * rank + rank - 1 - d);
                spread_taps(state, image[2 + d], place_of(state, along, image[2 + d]), &from);
            }
            sample_channels(context->image, n * out[1] * size, size, &from, context->out,
                            n * out[1] * points + p, points, out[1]);
            continue;
        }
        if (plain) {
            const int64_t left = points - p < end - i ? points - p : end - i;
            waiting = left < POINTS ? left : POINTS;
            const float *grid = (const float *)context->grid->data + 2 * i;
            if (nearest) set_nearest(state->align, state->border, image + 2, grid, waiting, &rows);
            else set_plain_taps(state->align, image + 2, grid, waiting, &rows);
            i += waiting - 1;
            p += waiting - 1;
        } else {
            const double places[2] = {place_of(state, at(context->grid, 2 * i + 1), image[2]),
                                      place_of(state, at(context->grid, 2 * i), image[3])};
            set_taps(state, image + 2, places, &rows, waiting++);
            if (waiting < POINTS && p < points - 1 && i < end - 1) continue;
        }
        (nearest ? copy_nearest : sample_rows)(
            &rows, (const float *)context->image->data + n * out[1] * size, size, out[1], waiting,
            (float *)context->out->data + n * out[1] * points + p + 1 - waiting, points);
        rows.absent = false;
        waiting = 0;
    }
}

static base_status run_grid(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                            void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const op_shape *out = &outputs[0].type.shape;
    grid_context context = {prepared->state, &inputs[0], &inputs[1], &outputs[0]};
    int64_t points = out->dims[0];
    for (int32_t d = 2; d < out->rank; d++) points *= out->dims[d];
    rt_parallel(prepared->threads, points, 64 + 8 * out->dims[1], run_points, &context);
    return BASE_OK;
}

static base_status prepare_grid(const op_call *call, const rt_environment *environment, base_arena *arena,
                                rt_prepared *prepared, base_report *report) {
    (void)environment;
    grid_state *state = BASE_NEW(arena, grid_state);
    if (!state) return base_fail_memory(report);
    state->nearest = op_attribute_is(&call->attributes, "mode", "nearest", "linear");
    state->narrow = state->nearest && call->inputs[1].type.dtype != OP_DOUBLE;
    state->cubic = op_attribute_is(&call->attributes, "mode", "cubic", "linear");
    state->border = op_attribute_is(&call->attributes, "padding_mode", "border", "zeros");
    state->reflection = op_attribute_is(&call->attributes, "padding_mode", "reflection", "zeros");
    state->align = op_attribute_integer(&call->attributes, "align_corners", 0) != 0;
    if (!state->nearest && !state->cubic && !op_attribute_is(&call->attributes, "mode", "linear", "linear"))
        return base_fail(report, BASE_INVALID, "attribute \"mode\" is none of linear, nearest and cubic");
    const int32_t spatial = call->inputs[0].type.shape.rank - 2;
    if (spatial > (state->cubic ? MOST_SPATIAL / 2 : MOST_SPATIAL))
        return base_fail_unsupported(report, "%d spatial dimensions, supported are at most %d, of cubic %d",
                                     spatial, MOST_SPATIAL, MOST_SPATIAL / 2);
    prepared->state = state;
    prepared->run = run_grid;
    return BASE_OK;
}

/* ---- MaxUnpool ----------------------------------------------------------------------------------------- */

/* Indices count in the tensor that the pooling was of; the output may be larger. */
typedef struct unpool_state {
    op_shape pooled;
    int64_t count;
    size_t element;
} unpool_state;

static base_status fail_index(base_report *report, int64_t index) {
    return base_fail(report, BASE_INVALID, "index %" PRId64 " is outside of the output", index);
}

/* Where the output has the extents that the pooling was of, an index is a place. */
static inline base_status put_back(const unpool_state *state, const int64_t *indices, const char *from,
                                   char *to, size_t element, int64_t places, base_report *report) {
    for (int64_t i = 0; i < state->count; i++) {
        if ((uint64_t)indices[i] >= (uint64_t)places) return fail_index(report, indices[i]);
        memcpy(to + (size_t)indices[i] * element, from + (size_t)i * element, element);
    }
    return BASE_OK;
}

static base_status run_unpool(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                              void *scratch, base_report *report) {
    (void)scratch;
    const unpool_state *state = prepared->state;
    const int64_t *indices = inputs[1].data;
    const op_shape *out = &outputs[0].type.shape;
    int64_t places;
    if (outputs[0].bytes) memset(outputs[0].data, 0, outputs[0].bytes);
    if (op_shape_equal(out, &state->pooled) && op_shape_elements(out, &places)) {
        const size_t floats = sizeof(float); /* known when it is compiled: a copy without a call */
        return state->element == floats
                   ? put_back(state, indices, inputs[0].data, outputs[0].data, floats, places, report)
                   : put_back(state, indices, inputs[0].data, outputs[0].data, state->element, places,
                              report);
    }
    for (int64_t i = 0; i < state->count; i++) {
        int64_t rest = indices[i], place = 0, stride = 1;
        bool inside = rest >= 0;
        for (int32_t d = state->pooled.rank - 1; d >= 0 && inside; d--) {
            const int64_t position = d ? rest % state->pooled.dims[d] : rest;
            rest /= state->pooled.dims[d];
            inside = position < out->dims[d];
            if (!inside) break; /* so far away that the sum may not fit */
            place += position * stride;
            stride *= out->dims[d];
        }
        if (!inside) return fail_index(report, indices[i]);
        memcpy((char *)outputs[0].data + (size_t)place * state->element,
               (const char *)inputs[0].data + (size_t)i * state->element, state->element);
    }
    return BASE_OK;
}

static base_status prepare_unpool(const op_call *call, const rt_environment *environment, base_arena *arena,
                                  rt_prepared *prepared, base_report *report) {
    (void)environment;
    unpool_state *state = BASE_NEW(arena, unpool_state);
    if (!state) return base_fail_memory(report);
    int64_t indices = 0;
    size_t pads, strides, kernels;
    const int64_t *pad = op_attribute_integers(&call->attributes, "pads", &pads),
                  *stride = op_attribute_integers(&call->attributes, "strides", &strides),
                  *kernel = op_attribute_integers(&call->attributes, "kernel_shape", &kernels);
    state->pooled = call->inputs[0].type.shape;
    size_t spatial = (size_t)state->pooled.rank - 2;
    for (size_t i = 0; i < spatial; i++) {
        state->pooled.dims[2 + i] = (state->pooled.dims[2 + i] - 1) * (i < strides ? stride[i] : 1) +
                                    ((i < kernels ? kernel[i] : 1) - (i < pads ? pad[i] : 0) -
                                     (i + spatial < pads ? pad[i + spatial] : 0));
        if (state->pooled.dims[2 + i] < 1)
            return base_fail(report, BASE_INVALID, "nothing can be unpooled to that");
    }
    op_shape_elements(&call->inputs[0].type.shape, &state->count);
    op_shape_elements(&call->inputs[1].type.shape, &indices);
    if (indices != state->count)
        return base_fail(report, BASE_INVALID, "%" PRId64 " indices for %" PRId64 " elements", indices,
                         state->count);
    state->element = op_dtype_bytes(call->inputs[0].type.dtype);
    prepared->state = state;
    prepared->run = run_unpool;
    return BASE_OK;
}

const rt_kernel rt_kernel_grid_sample = {
    .name = "portable.grid_sample", .accepts = rt_accepts_pixels, .prepare = prepare_grid};
const rt_kernel rt_kernel_max_unpool = {
    .name = "portable.max_unpool", .accepts = rt_accepts_pixels, .prepare = prepare_unpool};
