/* SPDX-License-Identifier: Apache-2.0 */
/* resize.c: Resize: nearest, linear and cubic interpolation along any axes.
 *
 * Each axis has a table (resize_taps.h): for every output position the source positions that take part and their weights: up to four, or, where
 * the filter is stretched against aliasing, as many as it covers. The tables of all axes but the last are multiplied out for each row of the
 * output, then the row is computed. An axis that does not change has one source for each position, with weight 1.
 */
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/product.h"
#include "runtime/kernels/portable/resize_rows.h"
#include "runtime/kernels/portable/resize_taps.h"
#include "runtime/kernels/portable/spatial_view.h"
#include <math.h>
#include <string.h>

enum {
    MOST_TERMS = 4096,
    KEPT_TERMS = 16, /* of the axes before the last two, of an image */
    KEPT_LINES = 4,
    KEPT_ROW = 4096, /* elements of a row of the output, of which blended rows of the input are kept */
    STAGGER = 16,    /* kept rows are not at the same distance from a page as each other */
    FLOAT_ROW =
        4096 /* elements of 16 or 8 bits in a row of the input or the output that becomes floats, at most */
};

#define NEAR_WHOLE                                                                                           \
    0x1p-12f /* what sums of integers are wrong by is less: of 8 bits in float, of 32 bits in double */

/* `state` has the last axis, of whose table each entry stands for `group` elements. */
static rt_across fill_across(const resize_state *state, int64_t group, tap *tables) {
    const int32_t last = state->rank - 1;
    const int64_t width = state->to[last];
    const tap *from = tables + state->tables[last];
    int32_t *indices = (int32_t *)(void *)(tables + state->all_taps);
    float *weights = (float *)(void *)(indices + width * state->taps);
    bool twice = state->taps == 1 && width % 2 == 0 && group == 1, falls = false;
    for (int64_t x = 0; x < width; x++) {
        const tap *taps = from + x / group * state->taps;
        twice &= taps[0].index == x / 2;
        for (int k = 0; k < state->taps; k++) {
            /* What lies outside is replaced afterwards. */
            const int32_t before = x > 0 ? indices[k * width + x - 1] : 0;
            indices[k * width + x] =
                taps[k].index < 0 ? before : (int32_t)(taps[k].index * group + x % group);
            falls |= group == 1 && indices[k * width + x] < before;
            weights[k * width + x] = (float)taps[k].weight;
        }
    }
    return (rt_across){indices, weights, state->from[last], (int32_t)group, twice, falls};
}

/* The last axis stays as it is: each position comes from itself alone. */
static bool last_stays(const resize_state *state, const tap *tables) {
    const int32_t last = state->rank - 1;
    const tap *taps = tables + state->tables[last];
    for (int64_t x = 0; x < state->to[last]; x++, taps += state->taps) {
        if (taps[0].index != x || taps[0].weight != 1) return false;
        for (int32_t k = 1; k < state->taps; k++)
            if (taps[k].weight != 0) return false;
    }
    return true;
}

/* The last two axes as one, whose rows are long enough to be computed in vectors: channels of points. */
static resize_state joined(const resize_state *state) {
    resize_state view = *state;
    const int64_t group = state->to[state->rank - 1];
    view.rank--;
    view.from[view.rank - 1] *= group;
    view.to[view.rank - 1] *= group;
    return view;
}

typedef struct term {
    int64_t offset;
    double weight;
} term;

typedef struct resize_context {
    const resize_state *state;
    const tap *tables;
    rt_across across;
    const void *from;
    void *to;
} resize_context;

/* Multiplies the taps of a position of this axis into the terms, of which there are `before`; -1: outside. */
static int multiply_out(const resize_state *state, const tap *tables, int32_t axis, int64_t position,
                        int before, term *terms) {
    const tap *taps = tables + state->tables[axis] + position * state->taps;
    int used = 0;
    if (taps[0].index < 0) return -1;
    for (int k = 0; k < state->taps; k++) used += taps[k].weight != 0;
    if (used && before * state->taps > MOST_TERMS) return 0;
    const int count = before * used;
    /* The last tap that counts comes first; the terms before are what all begin with, so that its own are made last. */
    for (int k = 0; k < state->taps; k++) {
        if (taps[k].weight == 0) continue;
        used--;
        for (int i = 0; i < before; i++) {
            terms[before * used + i].offset = terms[i].offset + taps[k].index * state->strides[axis];
            terms[before * used + i].weight = terms[i].weight * taps[k].weight;
        }
    }
    return count;
}

/* The same of all axes but the last, for a row of the output. */
static int collect(const resize_state *state, const tap *tables, int64_t row, term *terms) {
    int count = 1;
    terms[0] = (term){0, 1};
    for (int32_t axis = state->rank - 2; axis >= 0 && count > 0; axis--) {
        count = multiply_out(state, tables, axis, row % state->to[axis], count, terms);
        row /= state->to[axis];
    }
    return count;
}

/* Rows of one image, whose terms differ along one axis alone: those of the axes before. */
typedef struct image_rows {
    int64_t image; /* -1: none yet */
    int count;     /* -1: the image lies outside; more than KEPT_TERMS: they are not kept */
    term start[KEPT_TERMS];
} image_rows;

/* As collect; what is the same for all rows of an image is kept. */
static int collect_row(const resize_state *state, const tap *tables, int64_t row, image_rows *kept,
                       term *terms) {
    const int64_t high = state->rank > 1 ? state->to[state->rank - 2] : 1, image = row / high;
    if (state->rank == 1) return collect(state, tables, row, terms);
    if (kept->image != image) {
        int64_t rest = image;
        kept->image = image;
        kept->count = 1;
        terms[0] = (term){0, 1};
        for (int32_t axis = state->rank - 3; axis >= 0 && kept->count > 0; axis--) {
            kept->count = multiply_out(state, tables, axis, rest % state->to[axis], kept->count, terms);
            rest /= state->to[axis];
        }
        for (int i = 0; i < kept->count && kept->count <= KEPT_TERMS; i++) kept->start[i] = terms[i];
    }
    if (kept->count > KEPT_TERMS) return collect(state, tables, row, terms);
    const int64_t position = row - image * high;
    terms[0] = kept->start[0];
    if (kept->count == 1) return multiply_out(state, tables, state->rank - 2, position, 1, terms);
    for (int i = 1; i < kept->count; i++) terms[i] = kept->start[i];
    if (kept->count <= 0) return kept->count;
    return multiply_out(state, tables, state->rank - 2, position, kept->count, terms);
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

RT_CLONES static void load_bytes(const uint8_t *from, bool negative, int64_t count, float *to) {
    if (negative) {
        RT_VECTOR for (int64_t i = 0; i < count; i++) to[i] = (float)(int8_t)from[i];
    } else {
        RT_VECTOR for (int64_t i = 0; i < count; i++) to[i] = (float)from[i];
    }
}

/* Sums as integers of 8 bits: cut off, as ONNX Runtime has them, but what is as near to a whole number as rounding brings it is that number. */
static inline __attribute__((always_inline)) float cut_off(float sum, float low, float high) {
    sum = truncf(sum + (sum < 0 ? -NEAR_WHOLE : NEAR_WHOLE));
    return sum < low ? low : sum > high ? high : sum;
}

RT_CLONES static void store_bytes(const float *sums, bool negative, bool rounds, int64_t count, uint8_t *to) {
    const float low = negative ? -128.0f : 0.0f, high = low + 255.0f;
    if (rounds) {
        RT_VECTOR for (int64_t i = 0; i < count; i++) {
            const float sum = rintf(sums[i]);
            to[i] = (uint8_t)(int32_t)(sum < low ? low : sum > high ? high : sum);
        }
    } else {
        RT_VECTOR for (int64_t i = 0; i < count; i++) to[i] = (uint8_t)(int32_t)cut_off(sums[i], low, high);
    }
}

/* A row of the input as floats: where it lies, or in `line`. */
static const float *input_row(const resize_context *context, int64_t offset, float *line) {
    const resize_state *state = context->state;
    const int64_t count = state->from[state->rank - 1];
    if (state->dtype == OP_FLOAT) return (const float *)context->from + offset;
    if (rt_is_half(state->dtype))
        rt_half_load(state->dtype, line, (const uint16_t *)context->from + offset, count);
    else load_bytes((const uint8_t *)context->from + offset, state->dtype == OP_INT8, count, line);
    return line;
}

/* A row of the output, unless it is made of floats where it lies. */
static void store_row(const resize_state *state, const float *row, void *to) {
    const int64_t width = state->to[state->rank - 1];
    if (state->dtype == OP_FLOAT) return;
    if (rt_is_half(state->dtype)) rt_half_store(state->dtype, to, row, width);
    else store_bytes(row, state->dtype == OP_INT8, state->stretched, width, to);
}

/* Rows of the input, blended along the last axis: the next row of the output is mostly made of the same ones. Long ones are two, shorter ones
 * four, as a row that lies between others along two axes has them. */
typedef struct blended {
    int64_t offsets[KEPT_LINES]; /* -1: none yet */
    float lines[2 * (KEPT_ROW + STAGGER)];
} blended;

/* Elements from one kept row to the next. */
static int64_t kept_pitch(int64_t width) {
    return width <= KEPT_ROW / 2 ? (KEPT_ROW + STAGGER) / 2 : KEPT_ROW + STAGGER;
}

/* The row of the input at `offset` becomes kept row number `at`. */
static void keep_row(const resize_context *context, int64_t offset, int64_t width, blended *kept, int at) {
    _Alignas(RT_ALIGNMENT) float line[FLOAT_ROW];
    kept->offsets[at] = offset;
    rt_blend_line(input_row(context, offset, line), context->across, width,
                  kept->lines + at * kept_pitch(width));
}

/* One row of the input or two, as rt_blend_row adds them. */
static void run_kept(const resize_context *context, const term *terms, int count, blended *kept, float *to) {
    const int64_t width = context->state->to[context->state->rank - 1], pitch = kept_pitch(width);
    int at[2] = {-1, -1};
    for (int i = 0; i < count; i++)
        for (int k = 0; k < 2; k++)
            if (kept->offsets[k] == terms[i].offset) at[i] = k;
    for (int i = 0; i < count; i++) {
        if (at[i] >= 0) continue;
        at[i] = at[1 - i] == 0; /* where the other one is not */
        keep_row(context, terms[i].offset, width, kept, at[i]);
    }
    rt_add_lines(kept->lines + at[0] * pitch, count > 1 ? kept->lines + at[1] * pitch : NULL, width,
                 (float)terms[0].weight, count > 1 ? (float)terms[1].weight : 0, to);
}

/* The same of three or four. */
static void run_more_kept(const resize_context *context, const term *terms, int count, blended *kept,
                          float *to) {
    const int64_t width = context->state->to[context->state->rank - 1], pitch = kept_pitch(width);
    int at[KEPT_LINES];
    bool used[KEPT_LINES] = {false};
    for (int i = 0; i < count; i++) {
        at[i] = -1;
        for (int k = 0; k < KEPT_LINES; k++)
            if (kept->offsets[k] == terms[i].offset) at[i] = k;
        if (at[i] >= 0) used[at[i]] = true;
    }
    for (int i = 0, free = 0; i < count; i++) {
        if (at[i] < 0) {
            while (used[free]) free++;
            used[free] = true;
            at[i] = free;
            keep_row(context, terms[i].offset, width, kept, free);
        }
    }
    rt_add_lines(kept->lines + at[0] * pitch, kept->lines + at[1] * pitch, width, (float)terms[0].weight,
                 (float)terms[1].weight, to);
    for (int i = 2; i < count; i++)
        rt_add_row(kept->lines + at[i] * pitch, width, (float)terms[i].weight, to);
}

/* Under a stretched filter lie many rows: they become one, which is blended once. */
static void run_stretched(const resize_context *context, const term *terms, int count, float *to) {
    const resize_state *state = context->state;
    const int32_t last = state->rank - 1;
    const int64_t width = state->to[last], seen = state->from[last];
    _Alignas(RT_ALIGNMENT) float line[FLOAT_ROW], row[FLOAT_ROW];
    memset(line, 0, (size_t)seen * sizeof *line);
    for (int i = 0; i < count; i++)
        rt_add_row(input_row(context, terms[i].offset, row), seen, (float)terms[i].weight, line);
    memset(to, 0, (size_t)width * sizeof *to);
    rt_blend_row(line, context->across, state->taps, width, 1, to);
}

static void run_blended(const resize_context *context, const term *terms, int count, float *to) {
    const resize_state *state = context->state;
    const int64_t width = state->to[state->rank - 1];
    _Alignas(RT_ALIGNMENT) float line[FLOAT_ROW];
    memset(to, 0, (size_t)width * sizeof *to);
    for (int i = 0; i < count; i++)
        rt_blend_row(input_row(context, terms[i].offset, line), context->across, state->taps, width,
                     (float)terms[i].weight, to);
}

/* Where all positions of a row are alike: floats blended; of 16 or 8 bits, as floats, rounded once. */
static void run_row(const resize_context *context, const term *terms, int count, blended *kept, void *to) {
    const resize_state *state = context->state;
    const int32_t last = state->rank - 1;
    _Alignas(RT_ALIGNMENT) float row[FLOAT_ROW];
    float *made = state->dtype == OP_FLOAT ? to : row;
    if (state->taps == 2 && state->to[last] <= KEPT_ROW && (count == 1 || count == 2))
        run_kept(context, terms, count, kept, made);
    else if (state->taps == 2 && !state->stretched && state->to[last] <= KEPT_ROW / 2 && count > 2 &&
             count <= KEPT_LINES)
        run_more_kept(context, terms, count, kept, made);
    else if (state->stretched && count > 1 && state->from[last] <= FLOAT_ROW)
        run_stretched(context, terms, count, made);
    else run_blended(context, terms, count, made);
    store_row(state, made, to);
}

/* An element of the input. */
static double element_of(const resize_state *state, const void *from, int64_t at) {
    return state->dtype == OP_INT32 ? (double)((const int32_t *)from)[at]
                                    : rt_element_load(state->dtype, from, at);
}

/* An element of the output. */
static void store_sum(const resize_state *state, double sum, void *to) {
    if (state->dtype == OP_INT32) { /* as integers of 8 bits; what is not a number is the least one */
        sum = state->stretched ? rint(sum) : trunc(sum + (double)(sum < 0 ? -NEAR_WHOLE : NEAR_WHOLE));
        *(int32_t *)to = sum >= INT32_MAX ? INT32_MAX : sum > INT32_MIN ? (int32_t)sum : INT32_MIN;
        return;
    }
    if (rt_is_byte(state->dtype)) {
        const float low = state->dtype == OP_INT8 ? -128 : 0, high = state->dtype == OP_INT8 ? 127 : 255;
        sum = state->stretched ? rint(sum) : (double)cut_off((float)sum, low, high);
    }
    rt_element_store(state->dtype, to, 0, sum);
}

/* Outside of the cropped image, in a row of which that is all, or some columns. */
static void extrapolate(const resize_context *context, bool all, char *to) {
    const resize_state *state = context->state;
    const tap *table = context->tables + state->tables[state->rank - 1];
    for (int64_t x = 0; x < state->to[state->rank - 1]; x++, to += state->element)
        if (all || table[x * state->taps].index < 0) store_sum(state, state->extrapolation, to);
}

static void run_rows(void *user, int64_t begin, int64_t end) {
    const resize_context *context = user;
    const resize_state *state = context->state;
    const int32_t last = state->rank - 1;
    const tap *table = context->tables + state->tables[last];
    const int64_t width = state->to[last];
    term terms[MOST_TERMS + 1];
    blended lines;
    for (int k = 0; k < KEPT_LINES; k++) lines.offsets[k] = -1;
    image_rows image = {.image = -1};
    for (int64_t row = begin; row < end; row++) {
        int count = collect_row(state, context->tables, row, &image, terms);
        char *to = (char *)context->to + (size_t)(row * width) * state->element;
        if (state->by_rows) {
            if (count >= 0) run_row(context, terms, count, &lines, to);
            if (state->coordinates == CROP) extrapolate(context, count < 0, to);
            continue;
        }
        for (int64_t x = 0; x < width; x++, to += state->element) {
            const tap *taps = table + x * state->taps;
            bool outside = count < 0 || taps[0].index < 0;
            if (state->nearest && !outside) {
                memcpy(to,
                       (const char *)context->from +
                           (size_t)(terms[0].offset + taps[0].index) * state->element,
                       state->element);
                continue;
            }
            double sum = outside ? state->extrapolation : 0;
            if (!outside && state->dtype == OP_FLOAT) {
                const float *from = context->from;
                float single = 0;
                for (int i = 0; i < count; i++) {
                    float line = 0;
                    for (int k = 0; k < state->taps; k++)
                        line += (float)taps[k].weight * from[terms[i].offset + taps[k].index];
                    single += (float)terms[i].weight * line;
                }
                sum = (double)single;
            } else if (!outside) {
                for (int i = 0; i < count; i++) {
                    for (int k = 0; k < state->taps; k++)
                        sum += terms[i].weight * taps[k].weight *
                               element_of(state, context->from, terms[i].offset + taps[k].index);
                }
            }
            store_sum(state, sum, to);
        }
    }
}

/* Of nearest elements: where row `row` of the last axes begins in the input, those before having `axes` extents. */
static const char *nearest_from(const resize_context *context, int32_t axes, int64_t row) {
    const resize_state *state = context->state;
    int64_t offset = 0;
    for (int32_t axis = axes - 1; axis >= 0; axis--) {
        offset += context->tables[state->tables[axis] + (size_t)(row % state->to[axis])].index *
                  state->strides[axis];
        row /= state->to[axis];
    }
    return (const char *)context->from + (size_t)offset * state->element;
}

/* Rows of nearest elements. Those that come from the same place are made once. */
static void run_nearest(void *user, int64_t begin, int64_t end) {
    const resize_context *context = user;
    const resize_state *state = context->state;
    const int64_t width = state->to[state->rank - 1];
    const size_t bytes = (size_t)width * state->element;
    /* Rows of one image differ along one axis alone. */
    const int32_t axis = state->rank > 1 ? state->rank - 2 : 0;
    const int64_t high = state->rank > 1 ? state->to[axis] : 1;
    const tap *table = context->tables + state->tables[axis];
    const char *image = NULL;
    int64_t rows = 1, line = begin % high;
    for (int64_t row = begin; row < end; row += rows, line = line + rows < high ? line + rows : 0) {
        if (!image || line == 0) image = nearest_from(context, axis, row / high);
        const char *from = image;
        if (state->rank > 1) from += (size_t)(table[line].index * state->strides[axis]) * state->element;
        for (rows = 1;
             row + rows < end && line + rows < high && table[line + rows].index == table[line].index;)
            rows++;
        rt_nearest_rows(state->element, from, &context->across, width,
                        (char *)context->to + (size_t)row * bytes, rows);
    }
}

/* The same of points, whose channels, or those of a block, are moved at once. */
static void run_points(void *user, int64_t begin, int64_t end) {
    const resize_context *context = user;
    const resize_state *state = context->state;
    const int32_t last = state->rank - 2;
    const tap *table = context->tables + state->tables[last];
    const int64_t width = state->to[last];
    const size_t bytes = (size_t)state->to[last + 1] * state->element;
    const char *before = NULL;
    for (int64_t row = begin; row < end; row++) {
        const char *from = nearest_from(context, last, row);
        char *to = (char *)context->to + (size_t)(row * width) * bytes;
        if (from == before) memcpy(to, to - (size_t)width * bytes, (size_t)width * bytes);
        for (int64_t x = 0; x < width && from != before; x++)
            memcpy(to + (size_t)x * bytes, from + (size_t)table[x].index * bytes, bytes);
        before = from;
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)report;
    const resize_state *state = prepared->state;
    int64_t rows = 1;
    for (int32_t axis = 0; axis < state->rank - 1; axis++) rows *= state->to[axis];
    if (rows == 0 || state->to[state->rank - 1] == 0) return BASE_OK;
    rt_resize_fill(state, inputs, prepared->input_count, scratch);
    resize_context context = {state, scratch, {0}, inputs[0].data, outputs[0].data};
    if (state->points) {
        const int64_t width = state->to[state->rank - 2];
        rt_parallel(prepared->threads, rows / width, width * state->to[state->rank - 1], run_points,
                    &context);
        return BASE_OK;
    }
    resize_state view = *state;
    if (state->may_join && last_stays(state, scratch)) {
        view = joined(state);
        context.state = &view;
        rows /= view.to[view.rank - 1] / state->to[state->rank - 1];
    }
    if (state->by_rows)
        context.across = fill_across(&view, view.rank < state->rank ? state->to[view.rank] : 1, scratch);
    rt_parallel(prepared->threads, rows, view.to[view.rank - 1] * state->taps * state->taps,
                state->by_rows && state->nearest ? run_nearest : run_rows, &context);
    return BASE_OK;
}

static bool is_blended(op_dtype dtype) {
    return dtype == OP_FLOAT || dtype == OP_DOUBLE || rt_is_half(dtype) || dtype == OP_INT8 ||
           dtype == OP_UINT8 || dtype == OP_INT32;
}

/* Nearest points of images whose channels are innermost, or lie in blocks: those of a point are moved at once. */
static bool takes_points(const op_call *call) {
    const op_shape *from = &call->inputs[0].type.shape, *to = &call->outputs[0].type.shape;
    return call->inputs[0].type.layout != OP_LAYOUT_ROW_MAJOR && rt_accepts_spatial(call, 2) &&
           from->rank == to->rank && from->dims[0] == to->dims[0] && from->dims[1] == to->dims[1] &&
           from->dims[1] >= 0 && !op_attribute_find(&call->attributes, "axes") &&
           op_attribute_is(&call->attributes, "keep_aspect_ratio_policy", "stretch", "stretch") &&
           !op_attribute_is(&call->attributes, "coordinate_transformation_mode", "tf_half_pixel_for_nn",
                            "half_pixel");
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    bool nearest = op_attribute_is(&call->attributes, "mode", "nearest", "nearest");
    bool crops = op_attribute_is(&call->attributes, "coordinate_transformation_mode", "tf_crop_and_resize",
                                 "half_pixel");
    if (call->inputs[0].type.dtype == OP_STRING) return false;
    if (nearest && !crops && takes_points(call)) return true;
    return rt_accepts_row_major(call) && (is_blended(call->inputs[0].type.dtype) || (nearest && !crops));
}

/* Rows of the input and the output of so many elements can be computed in floats. */
static bool fits_floats(op_dtype dtype, const int64_t extents[2]) {
    if (dtype == OP_FLOAT) return extents[0] <= INT32_MAX;
    return dtype != OP_DOUBLE && dtype != OP_INT32 && extents[0] <= FLOAT_ROW && extents[1] <= FLOAT_ROW;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    resize_state *state = BASE_NEW(arena, resize_state);
    if (!state) return base_fail_memory(report);
    state->points = call->inputs[0].type.layout != OP_LAYOUT_ROW_MAJOR;
    call = rt_spatial_view(call, arena);
    if (!call) return base_fail_memory(report);
    const base_status status = rt_resize_read(call, state, report);
    if (status != BASE_OK) return status;
    const op_shape *from = &call->inputs[0].type.shape, *to = &call->outputs[0].type.shape;
    int64_t stride = 1;
    size_t taps = 0;
    int changing = 1;
    for (int32_t axis = from->rank - 1; axis >= 0; axis--) {
        state->from[axis] = from->dims[axis];
        state->to[axis] = to->dims[axis];
        state->strides[axis] = stride;
        stride *= from->dims[axis];
        state->tables[axis] = taps;
        taps += (size_t)to->dims[axis] * (size_t)state->taps;
        if (axis < from->rank - 1 && from->dims[axis] != to->dims[axis]) changing *= state->taps;
        if (from->dims[axis] == 0 && to->dims[axis] != 0)
            return base_fail(report, BASE_INVALID, "axis %d is empty, nothing can be made of it", axis);
        if (changing > MOST_TERMS / (state->stretched ? 1 : RT_RESIZE_TAPS))
            return base_fail_unsupported(report, "interpolation along so many axes is not supported");
    }
    const int32_t last = from->rank - 1;
    state->all_taps = taps;
    const int64_t rows[] = {from->dims[last], to->dims[last]};
    const int64_t before[] = {last > 0 ? from->dims[last - 1] : 0, last > 0 ? to->dims[last - 1] : 0};
    const bool crops = state->coordinates == CROP;
    state->by_rows = rows[0] <= INT32_MAX && (state->nearest ? !crops : fits_floats(state->dtype, rows));
    int64_t pairs[2], width = to->dims[last];
    state->may_join = state->by_rows && !state->nearest && !crops && last > 0 && rows[0] == rows[1] &&
                      base_int64_multiply(before[0], rows[0], &pairs[0]) &&
                      base_int64_multiply(before[1], rows[1], &pairs[1]) && fits_floats(state->dtype, pairs);
    if (state->may_join) width = pairs[1];
    prepared->scratch_bytes =
        taps * sizeof(tap) + (size_t)width * (size_t)state->taps * (sizeof(int32_t) + sizeof(float));
    prepared->state = state;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_resize = {.name = "portable.resize", .accepts = accepts, .prepare = prepare};
