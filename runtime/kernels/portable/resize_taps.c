/* SPDX-License-Identifier: Apache-2.0 */
/* resize_taps.c: implements `resize_taps.h`. */
#include "runtime/kernels/portable/resize_taps.h"
#include "runtime/kernels/portable/product.h"
#include <math.h>

enum { MOST_TAPS = 1024 };

/* ---- where an output position is in the input ------------------------------------------------------------ */

static double round_coordinate(rounding how, double x, double scale) {
    /* What a float is off by: so near to the middle of two elements, it is meant. */
    const double middle = floor(x) + 0.5, near = 1e-6;
    if (fabs(x - middle) < near) x = middle;
    switch (how) {
    case BY_SCALE:
        return scale < 1 ? ceil(x) : floor(x);
    case PREFER_CEIL:
        return floor(x + 0.5);
    case FLOOR:
        return floor(x);
    case CEIL:
        return ceil(x);
    default:
        return ceil(x - 0.5);
    }
}

/* Which element is the nearest one is decided in float, as others do: where a scale of a float is not quite the fraction that it stands for, a position that
 * is an element's stays there (6 / 1.2). */
static double source_in(const resize_state *state, double number) {
    return state->nearest ? (double)(float)number : number;
}

/* The extent before it is rounded down, which is known as a float (ir/operators/infer_resample.c). */
static double extent_of(double from, double scale) {
    return (double)((float)from * (float)scale);
}

/* How far the middle of an image moves where its extent is rounded down. */
static double offset_of(const resize_state *state, int32_t axis, double scale) {
    const double from = (double)state->from[axis],
                 part = source_in(state, (double)state->to[axis] / extent_of(from, scale));
    return source_in(state, from / 2 * (1 - part));
}

/* Where output position x is in the input. */
static double source_of(const resize_state *state, int32_t axis, int64_t x, double scale, double begin,
                        double end) {
    /* The definitions mean the extent before it is rounded down. */
    const double from = (double)state->from[axis], at = (double)x,
                 middle = source_in(state, (at + 0.5) / source_in(state, scale));
    const double to = state->sized && state->aspect == STRETCH ? (double)state->to[axis]
                                                               : extent_of(from, scale) * (end - begin);
    switch (state->coordinates) {
    case PYTORCH_HALF_PIXEL:
        return state->to[axis] > 1 ? source_in(state, middle - 0.5) : 0;
    case ALIGN_CORNERS:
        return to != 1 ? source_in(state, at * (from - 1) / (to - 1)) : 0;
    case ASYMMETRIC:
        return source_in(state, at / source_in(state, scale));
    case HALF_PIXEL_SYMMETRIC: /* the middle of the image stays the middle */
        return source_in(state, source_in(state, offset_of(state, axis, scale) + middle) - 0.5);
    case NN_HALF_PIXEL:
        return middle;
    case CROP:
        return to > 1 ? begin * (from - 1) + at * (end - begin) * (from - 1) / (to - 1)
                      : 0.5 * (begin + end) * (from - 1);
    default:
        return source_in(state, middle - 0.5);
    }
}

/* ---- what it is made of ---------------------------------------------------------------------------------- */

static int64_t clamp(double x, int64_t extent) {
    return rt_index(x, 0, extent - 1);
}

/* How much of a cubic filter there is at a distance. */
static double cubic_weight(double a, double x) {
    x = fabs(x);
    return x <= 1  ? ((a + 2) * x - (a + 3)) * x * x + 1
           : x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
                   : 0;
}

/* Where a filter begins that is stretched so far that the pixels of a shrunken image cover all of it, from the pixel before;
 * it ends as far after the last. */
static int64_t filter_begin(bool linear, double scale) {
    return rt_index(floor((linear ? -1 : -2) / (scale < 1 ? scale : 1)), -MOST_TAPS, 0) + 1;
}

/* The sources under a stretched filter. Those outside show the edge. */
static void fill_stretched(const resize_state *state, int32_t axis, double x, double scale, tap *taps) {
    const double narrow = scale < 1 ? scale : 1, before = ceil(x) - 1, rest = x - before;
    const int64_t begin = filter_begin(state->linear, scale), count = 2 - 2 * begin,
                  extent = state->from[axis];
    double sum = 0;
    for (int64_t k = 0; k < state->taps; k++) {
        const double at = before + (double)(begin + k), away = narrow * ((double)(begin + k) - rest);
        double weight = state->linear ? fmax(1 - fabs(away), 0) : cubic_weight(state->cubic, away);
        if (k >= count || (state->exclude_outside && (at < 0 || at > (double)(extent - 1)))) weight = 0;
        taps[k] = (tap){clamp(at, extent), weight};
        sum += weight;
    }
    for (int64_t k = 0; k < state->taps && sum != 0; k++) taps[k].weight /= sum;
}

/* The sources of one output position; index -1 in the first: it lies outside of the cropped image. */
static void fill_taps(const resize_state *state, int32_t axis, double x, double scale, tap *taps) {
    const int64_t extent = state->from[axis];
    if (state->nearest) {
        taps[0] = (tap){clamp(round_coordinate(state->rounding, x, scale), extent), 1};
    } else if (state->stretched) {
        fill_stretched(state, axis, x, scale, taps);
    } else if (state->linear) {
        double low = floor(x);
        taps[0] = (tap){clamp(low, extent), 1 - (x - low)};
        taps[1] = (tap){clamp(low + 1, extent), x - low};
    } else {
        const double low = floor(x), t = x - low, a = state->cubic;
        const double weights[RT_RESIZE_TAPS] = {((a * (t + 1) - 5 * a) * (t + 1) + 8 * a) * (t + 1) - 4 * a,
                                                ((a + 2) * t - (a + 3)) * t * t + 1,
                                                ((a + 2) * (1 - t) - (a + 3)) * (1 - t) * (1 - t) + 1,
                                                ((a * (2 - t) - 5 * a) * (2 - t) + 8 * a) * (2 - t) - 4 * a};
        double sum = 0;
        for (int k = 0; k < RT_RESIZE_TAPS; k++) {
            double at = low - 1 + k;
            bool outside = state->exclude_outside && (at < 0 || at > (double)(extent - 1));
            taps[k] = (tap){clamp(at, extent), outside ? 0 : weights[k]};
            sum += taps[k].weight;
        }
        for (int k = 0; k < RT_RESIZE_TAPS && state->exclude_outside && sum != 0; k++)
            taps[k].weight = taps[k].weight / sum;
    }
    if (state->coordinates == CROP && (x < 0 || x > (double)(extent - 1))) taps[0].index = -1;
}

static double real_of(const op_tensor *tensor, int64_t i) {
    return rt_element_load(tensor->type.dtype, tensor->data, i);
}

/* The scale of all axes that sizes are given for, where the image keeps its proportions. */
static double common_scale(const resize_state *state, const op_tensor *sizes) {
    double common = 0;
    for (int32_t axis = 0, seen = 0; axis < state->rank; axis++) {
        if (state->entries[axis] < 0) continue;
        const int64_t size = ((const int64_t *)sizes->data)[state->entries[axis]];
        const double scale = (double)size / (double)state->from[axis];
        if (!seen++ || (state->aspect == NOT_LARGER ? scale < common : scale > common)) common = scale;
    }
    return common;
}

void rt_resize_fill(const resize_state *state, const op_tensor *inputs, uint32_t input_count, tap *tables) {
    for (int32_t axis = 0; axis < state->rank; axis++) {
        const int32_t entry = state->entries[axis];
        const bool sized = entry < 0 || (state->sized && state->aspect == STRETCH);
        double scale = sized          ? (double)state->to[axis] / (double)state->from[axis]
                       : state->sized ? common_scale(state, &inputs[3])
                                      : real_of(&inputs[2], entry);
        double begin = 0, end = 1;
        if (entry >= 0 && state->coordinates == CROP && input_count > 1 && inputs[1].type.dtype != OP_NONE) {
            begin = real_of(&inputs[1], entry);
            end = real_of(&inputs[1], entry + state->named);
        }
        const bool same = entry < 0 || (state->from[axis] == state->to[axis] && scale == 1 && begin == 0 &&
                                        end == 1 && state->coordinates != NN_HALF_PIXEL);
        for (int64_t x = 0; x < state->to[axis]; x++) {
            tap *taps = tables + state->tables[axis] + x * state->taps;
            for (int k = 0; k < state->taps; k++) taps[k] = (tap){x, k == 0};
            if (!same) fill_taps(state, axis, source_of(state, axis, x, scale, begin, end), scale, taps);
        }
    }
}

/* ---- what the attributes say ----------------------------------------------------------------------------- */

/* Which of these names the attribute has; the first where it is absent; -1: none. */
static int choice(const op_call *call, const char *name, const char *const *names, int count) {
    for (int i = 0; i < count; i++)
        if (op_attribute_is(&call->attributes, name, names[i], names[0])) return i;
    return -1;
}

/* Which axes the other inputs speak of, and in which order. */
static bool find_entries(const op_call *call, resize_state *state) {
    size_t count;
    const int64_t *axes = op_attribute_integers(&call->attributes, "axes", &count);
    state->named = axes ? (int32_t)count : state->rank;
    for (int32_t axis = 0; axis < state->rank; axis++) state->entries[axis] = axes ? -1 : axis;
    for (size_t i = 0; i < count; i++) {
        int32_t axis;
        if (!op_axis(axes[i], state->rank, &axis)) return false;
        state->entries[axis] = (int32_t)i;
    }
    return true;
}

/* A filter against aliasing is as wide as the scale says, which is at least that of half an element less. */
static base_status widen_filter(const op_call *call, resize_state *state, base_report *report) {
    const int64_t *from = call->inputs[0].type.shape.dims, *to = call->outputs[0].type.shape.dims;
    for (int32_t axis = 0; axis < state->rank; axis++) {
        const double least = ((double)to[axis] - 0.5) / (double)from[axis];
        if (state->entries[axis] < 0 || !(least > 0)) continue;
        const int64_t count = least * MOST_TAPS > 5 ? 2 - 2 * filter_begin(state->linear, least) : MOST_TAPS;
        if (count >= MOST_TAPS || state->coordinates == CROP)
            return base_fail_unsupported(report, "a filter this wide against aliasing is not supported");
        state->taps = count > state->taps ? (int32_t)count : state->taps;
    }
    return BASE_OK;
}

base_status rt_resize_read(const op_call *call, resize_state *state, base_report *report) {
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    static const char *const transformations[] = {
        "half_pixel",           "pytorch_half_pixel", "align_corners",       "asymmetric",
        "tf_half_pixel_for_nn", "tf_crop_and_resize", "half_pixel_symmetric"};
    static const char *const policies[] = {"stretch", "not_larger", "not_smaller"};
    static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil",
                                            "ouro.by_scale"};
    const op_shape *from = &call->inputs[0].type.shape;
    int mode = choice(call, "mode", modes, 3),
        transformation = choice(call, "coordinate_transformation_mode", transformations, 7),
        rounds = choice(call, "nearest_mode", roundings, 5),
        policy = choice(call, "keep_aspect_ratio_policy", policies, 3);
    if (mode < 0 || transformation < 0 || rounds < 0 || policy < 0)
        return base_fail(report, BASE_INVALID, "attribute \"%s\" has a value that is not known",
                         mode < 0             ? "mode"
                         : transformation < 0 ? "coordinate_transformation_mode"
                         : rounds < 0         ? "nearest_mode"
                                              : "keep_aspect_ratio_policy");
    if (from->rank < 1) return base_fail(report, BASE_INVALID, "a scalar cannot be resized");
    state->dtype = call->inputs[0].type.dtype;
    state->element = op_dtype_bytes(state->dtype);
    state->rank = from->rank;
    state->nearest = mode == 0;
    state->linear = mode == 1;
    state->taps = mode == 0 ? 1 : mode == 1 ? 2 : RT_RESIZE_TAPS;
    state->aspect = (aspect)policy;
    if (!find_entries(call, state)) return base_fail(report, BASE_INVALID, "attribute \"axes\" is not valid");
    if (state->points)
        state->entries[1] = state->entries[state->rank - 1] = -1; /* channels, or blocks of them, stay */
    state->stretched = mode != 0 && op_attribute_integer(&call->attributes, "antialias", 0) != 0;
    state->coordinates = (coordinates)transformation;
    state->rounding = (rounding)rounds;
    state->exclude_outside = op_attribute_integer(&call->attributes, "exclude_outside", 0) != 0;
    state->cubic = (double)op_attribute_real(&call->attributes, "cubic_coeff_a", -0.75f);
    state->extrapolation = (double)op_attribute_real(&call->attributes, "extrapolation_value", 0);
    state->sized = op_input_present(call, 3);
    return state->stretched ? widen_filter(call, state, report) : BASE_OK;
}
