/* SPDX-License-Identifier: Apache-2.0 */
/* pad.c: a tensor with a margin: of a constant, of its own elements reflected, its edges repeated, or
 * itself repeated. Negative pads cut first, on all sides, and what is left is then padded. */
#include "runtime/kernels/portable/kernels.h"
#include "ir/operators/small.h"
#include <string.h>

typedef enum pad_mode { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP } pad_mode;

typedef struct pad_plan {
    int32_t rank;
    int64_t to[OP_MAX_RANK], from[OP_MAX_RANK];    /* extents */
    int64_t before[OP_MAX_RANK];                   /* output elements before the first kept one */
    int64_t first[OP_MAX_RANK], left[OP_MAX_RANK]; /* which input elements are kept */
    int64_t stride[OP_MAX_RANK];                   /* of the input */
    int64_t rows;                                  /* of the output */
} pad_plan;

typedef struct pad_state {
    bool known; /* plan is prepared; otherwise the pads are read when it runs */
    bool axes;  /* input 3 names them */
    pad_mode mode;
    size_t size;
    pad_plan plan;
} pad_state;

typedef struct pad_context {
    const pad_state *state;
    const pad_plan *plan;
    const void *value;
    char *to;
    const char *from;
} pad_context;

/* The pads of all axes: before each, then after each. `axes` NULL: all are given, in order. */
static base_status read_pads(const op_tensor *inputs, const op_tensor *axes, int64_t pads[2 * OP_MAX_RANK],
                             base_report *report) {
    const int64_t *given = inputs[1].data;
    const int32_t rank = inputs[0].type.shape.rank;
    int64_t count = rank;
    for (int32_t i = 0; i < 2 * rank; i++) pads[i] = axes ? 0 : given[i];
    if (!axes) return BASE_OK;
    op_shape_elements(&axes->type.shape, &count);
    for (int64_t k = 0; k < count; k++) {
        const int64_t value = rt_integer_load(axes->type.dtype, axes->data, k);
        int32_t axis;
        if (!op_axis(value, rank, &axis))
            return base_fail(report, BASE_INVALID, "axis %lld is outside of [%d, %d)", (long long)value,
                             -rank, rank);
        pads[axis] = given[k];
        pads[axis + rank] = given[k + count];
    }
    return BASE_OK;
}

/* Axis `i` of the output is that of the input. */
static bool is_kept(const pad_plan *plan, int32_t i) {
    return plan->left[i] == plan->to[i] && plan->left[i] == plan->from[i];
}

/* Innermost axes that keep all they have become one with the axis before them: rows are long then. Elements that are not copies of their
 * neighbours, but reflected or repeated, stay with the axis along which they are. */
static void join_axes(pad_plan *plan, pad_mode mode) {
    while (plan->rank > 1 && is_kept(plan, plan->rank - 1) &&
           (mode == PAD_CONSTANT || is_kept(plan, plan->rank - 2))) {
        const int32_t last = --plan->rank, joined = last - 1;
        const int64_t each = plan->to[last];
        plan->to[joined] *= each;
        plan->from[joined] *= each;
        plan->before[joined] *= each;
        plan->first[joined] *= each;
        plan->left[joined] *= each;
        plan->stride[joined] = plan->stride[last];
    }
}

static base_status make_plan(const op_tensor *inputs, const op_tensor *axes, pad_mode mode,
                             const op_shape *to, pad_plan *plan, base_report *report) {
    const op_shape *from = &inputs[0].type.shape;
    int64_t pads[2 * OP_MAX_RANK];
    int32_t rank = from->rank;
    base_status status = read_pads(inputs, axes, pads, report);
    if (status != BASE_OK) return status;
    plan->rank = rank ? rank : 1; /* a scalar as a vector of one */
    plan->to[0] = plan->from[0] = plan->left[0] = plan->stride[0] = 1;
    plan->before[0] = plan->first[0] = 0;
    int64_t stride = 1;
    for (int32_t i = rank - 1; i >= 0; i--) {
        int64_t before = pads[i], after = pads[i + rank], extent = from->dims[i], sum;
        bool fits =
            base_int64_add(before, after, &sum) && base_int64_add(extent, sum, &sum) && sum == to->dims[i];
        int64_t first = before < 0 && before > INT64_MIN ? -before : 0, left = 0;
        fits = fits && before > INT64_MIN && first <= extent;
        if (fits) left = extent - first + (after < 0 ? after : 0);
        fits = fits && left >= 0;
        if (mode == PAD_REFLECT)
            fits = fits && (before <= 0 || before < left) && (after <= 0 || after < left);
        if (mode == PAD_EDGE || mode == PAD_WRAP) fits = fits && (left > 0 || (before <= 0 && after <= 0));
        if (!fits) {
            return base_fail(report, BASE_INVALID, "pads %lld and %lld of axis %d do not fit its extent %lld",
                             (long long)before, (long long)after, i, (long long)extent);
        }
        plan->to[i] = to->dims[i];
        plan->from[i] = extent;
        plan->before[i] = before > 0 ? before : 0;
        plan->first[i] = first;
        plan->left[i] = left;
        plan->stride[i] = stride;
        stride *= extent;
    }
    join_axes(plan, mode);
    plan->rows = 1;
    for (int32_t i = 0; i < plan->rank - 1; i++) plan->rows *= plan->to[i];
    return BASE_OK;
}

/* Which input element output element `index` of an axis shows; -1: the constant. */
static int64_t source(const pad_plan *plan, pad_mode mode, int32_t axis, int64_t index) {
    int64_t at = index - plan->before[axis], left = plan->left[axis];
    if (at >= 0 && at < left) return plan->first[axis] + at;
    if (mode == PAD_CONSTANT) return -1;
    if (mode == PAD_WRAP) return plan->first[axis] + (at % left + left) % left;
    if (mode == PAD_EDGE) return plan->first[axis] + (at < 0 ? 0 : left - 1);
    return plan->first[axis] + (at < 0 ? -at : 2 * (left - 1) - at);
}

/* A few elements: rows have short margins. */
static inline void fill(char *to, int64_t count, size_t size, const void *value) {
    enum { FEW = 4 };
    if (count > FEW || (size != 4 && size != 8)) {
        if (count > 0) rt_fill(to, count, size, value);
    } else if (size == 4) {
        for (int64_t i = 0; i < count; i++) memcpy(to + 4 * i, value, 4);
    } else {
        for (int64_t i = 0; i < count; i++) memcpy(to + 8 * i, value, 8);
    }
}

/* Elements at `from` and before it, one after another. */
static inline void turn_round(char *to, int64_t count, size_t size, const char *from) {
#define TURN_ROUND(bytes)                                                                                    \
    case bytes:                                                                                              \
        for (int64_t i = 0; i < count; i++) memcpy(to + (bytes)*i, from - (bytes)*i, bytes);                 \
        break;
    switch (size) {
        TURN_ROUND(1)
        TURN_ROUND(2)
        TURN_ROUND(4)
        TURN_ROUND(8)
    default:
        for (int64_t i = 0; i < count; i++) memcpy(to + size * (size_t)i, from - (int64_t)size * i, size);
    }
#undef TURN_ROUND
}

/* Places [begin, end) of a row that goes on where it began: pieces of it, one after another. */
static void wrap(const pad_plan *plan, char *to, const char *from, int64_t begin, int64_t end, size_t size) {
    const int32_t last = plan->rank - 1;
    while (begin < end) {
        const int64_t at = source(plan, PAD_WRAP, last, begin),
                      rest = plan->first[last] + plan->left[last] - at,
                      count = end - begin < rest ? end - begin : rest;
        memcpy(to + (size_t)begin * size, from + (size_t)at * size, (size_t)count * size);
        begin += count;
    }
}

static void pad_rows(void *user, int64_t begin, int64_t end) {
    const pad_context *context = user;
    const pad_plan *plan = context->plan;
    const pad_mode mode = context->state->mode;
    const size_t size = context->state->size;
    const int32_t last = plan->rank - 1;
    const int64_t width = plan->to[last], before = plan->before[last], left = plan->left[last];
    int64_t index[OP_MAX_RANK] = {0}, rest = begin;
    for (int32_t i = last - 1; i >= 0; i--) {
        index[i] = rest % plan->to[i];
        rest /= plan->to[i];
    }
    for (int64_t row = begin; row < end; row++) {
        char *to = context->to + (size_t)(row * width) * size;
        int64_t at = 0;
        bool inside = true;
        for (int32_t i = last - 1; i >= 0 && inside; i--) {
            const int64_t shown = source(plan, mode, i, index[i]);
            inside = shown >= 0;
            at += shown * plan->stride[i];
        }
        for (int32_t i = last - 1; i >= 0 && ++index[i] == plan->to[i]; i--) index[i] = 0;
        if (!inside) {
            rt_fill(to, width, size, context->value);
            continue;
        }
        const char *from = context->from + (size_t)at * size;
        if (left > 0) {
            memcpy(to + (size_t)before * size, from + (size_t)plan->first[last] * size, (size_t)left * size);
        }
        int64_t after = width - before - left;
        if (mode == PAD_CONSTANT) {
            fill(to, before, size, context->value);
            fill(to + (size_t)(before + left) * size, after, size, context->value);
        } else if (mode == PAD_EDGE && left > 0) {
            fill(to, before, size, from + (size_t)plan->first[last] * size);
            fill(to + (size_t)(before + left) * size, after, size,
                 from + (size_t)(plan->first[last] + left - 1) * size);
        } else if (mode == PAD_WRAP) {
            wrap(plan, to, from, 0, before, size);
            wrap(plan, to, from, before + left, width, size);
        } else if (mode == PAD_REFLECT) {
            if (before) turn_round(to, before, size, from + (size_t)source(plan, mode, last, 0) * size);
            if (after)
                turn_round(to + (size_t)(before + left) * size, after, size,
                           from + (size_t)source(plan, mode, last, before + left) * size);
        }
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    const pad_state *state = prepared->state;
    pad_plan fresh;
    const pad_plan *plan = &state->plan;
    if (!state->known) {
        base_status status = make_plan(inputs, state->axes ? &inputs[3] : NULL, state->mode,
                                       &outputs[0].type.shape, &fresh, report);
        if (status != BASE_OK) return status;
        plan = &fresh;
    }
    static const uint64_t zero[2]; /* an empty string, too */
    pad_context context = {state, plan, zero, outputs[0].data, inputs[0].data};
    if (prepared->input_count > 2 && inputs[2].type.dtype != OP_NONE) context.value = inputs[2].data;
    int64_t width = plan->to[plan->rank - 1];
    if (width > 0) rt_parallel(prepared->threads, plan->rows, width, pad_rows, &context);
    return BASE_OK;
}

/* Elements of less than a byte: one a byte in scratch, and back. */
static base_status run_packed(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                              void *scratch, base_report *report) {
    op_tensor given[4], made = outputs[0];
    uint8_t value = 0;
    int64_t from = 0, to = 0;
    const op_dtype dtype = inputs[0].type.dtype;
    (void)op_shape_elements(&inputs[0].type.shape, &from);
    (void)op_shape_elements(&made.type.shape, &to);
    for (uint32_t i = 0; i < prepared->input_count && i < 4; i++) given[i] = inputs[i];
    given[0].data = scratch;
    made.data = (uint8_t *)scratch + from;
    rt_unpack(dtype, given[0].data, inputs[0].data, from);
    if (prepared->input_count > 2 && inputs[2].type.dtype != OP_NONE) {
        value = op_small_load(dtype, inputs[2].data, 0);
        given[2].data = &value;
    }
    base_status status = run(prepared, given, &made, NULL, report);
    if (status == BASE_OK) rt_pack(dtype, outputs[0].data, made.data, to);
    return status;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    pad_state *state = BASE_NEW(arena, pad_state);
    if (!state) return base_fail_memory(report);
    state->mode = op_attribute_is(&call->attributes, "mode", "reflect", "constant") ? PAD_REFLECT
                  : op_attribute_is(&call->attributes, "mode", "edge", "constant")  ? PAD_EDGE
                  : op_attribute_is(&call->attributes, "mode", "wrap", "constant")  ? PAD_WRAP
                                                                                    : PAD_CONSTANT;
    state->axes = op_input_present(call, 3);
    state->size = op_dtype_bytes(call->inputs[0].type.dtype);
    state->known = (call->inputs[1].data && (!state->axes || call->inputs[3].data)) ||
                   call->inputs[0].type.shape.rank == 0;
    prepared->state = state;
    prepared->run = run;
    if (op_dtype_is_packed(call->inputs[0].type.dtype)) {
        int64_t from = 0, to = 0;
        (void)op_shape_elements(&call->inputs[0].type.shape, &from);
        (void)op_shape_elements(&call->outputs[0].type.shape, &to);
        state->size = 1;
        prepared->run = run_packed;
        if (!base_size_add((size_t)from, (size_t)to, &prepared->scratch_bytes))
            return base_fail_memory(report);
    }
    if (!state->known) return BASE_OK;
    return make_plan(call->inputs, state->axes ? &call->inputs[3] : NULL, state->mode,
                     &call->outputs[0].type.shape, &state->plan, report);
}

const rt_kernel rt_kernel_pad = {
    .name = "portable.pad", .accepts = rt_accepts_any_row_major, .prepare = prepare};
