/* SPDX-License-Identifier: Apache-2.0 */
/* slice.c: a part of a tensor, by start, end and step along some axes. */
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/spatial_view.h"
#include <string.h>

typedef struct slice_plan {
    rt_loop loop;
    int64_t first; /* element of the input that the result begins with */
} slice_plan;

typedef struct slice_state {
    bool known; /* plan is prepared; otherwise the bounds are read when it runs */
    size_t size;
    slice_plan plan;
} slice_state;

static int64_t element(const op_tensor *tensor, int64_t index) {
    if (tensor->type.dtype == OP_INT32) return ((const int32_t *)tensor->data)[index];
    return ((const int64_t *)tensor->data)[index];
}

static bool given(const op_tensor *inputs, uint32_t count, uint32_t input) {
    return input < count && inputs[input].type.dtype != OP_NONE;
}

/* Everything is checked against the shapes again: the bounds may be computed while the model runs. */
static base_status make_plan(const op_tensor *inputs, uint32_t count, const op_shape *to, slice_plan *plan,
                             base_report *report) {
    const op_shape *from = &inputs[0].type.shape;
    int64_t starts[OP_MAX_RANK] = {0}, steps[OP_MAX_RANK], dims[OP_MAX_RANK];
    for (int32_t i = 0; i < from->rank; i++) {
        steps[i] = 1;
        dims[i] = from->dims[i];
    }
    for (int64_t i = 0; i < inputs[1].type.shape.dims[0]; i++) {
        int64_t named = given(inputs, count, 3) ? element(&inputs[3], i) : i;
        int64_t step = given(inputs, count, 4) ? element(&inputs[4], i) : 1;
        int32_t axis;
        if (!op_axis(named, from->rank, &axis)) {
            return base_fail(report, BASE_INVALID, "axis %lld is outside of [%d, %d)", (long long)named,
                             -from->rank, from->rank);
        }
        if (step == 0)
            return base_fail(report, BASE_INVALID, "the step of axis %d is 0, expected another number", axis);
        int64_t extent = from->dims[axis], start = element(&inputs[1], i), end = element(&inputs[2], i);
        int64_t lowest = step > 0 ? 0 : -1, highest = step > 0 ? extent : extent - 1;
        if (start < 0) start += extent;
        if (end < 0) end += extent;
        /* Where there is anything, a start before it is the first element, backwards too (Slice-13's text). */
        start = start < 0 ? 0 : start;
        start = start > highest ? highest : start;
        end = end < lowest ? lowest : end > highest ? highest : end;
        uint64_t distance = 0, stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
        if (step > 0 ? end > start : start > end) distance = (uint64_t)(step > 0 ? end - start : start - end);
        dims[axis] = (int64_t)(distance / stride + (distance % stride != 0));
        starts[axis] = dims[axis] ? start : 0;
        steps[axis] = dims[axis] > 1 ? step : 1; /* a step beyond the extent is never taken */
    }
    plan->first = 0;
    plan->loop.rank = from->rank;
    plan->loop.operands = 2;
    int64_t to_stride = 1, from_stride = 1;
    for (int32_t i = from->rank - 1; i >= 0; i--) {
        if (dims[i] != to->dims[i]) {
            return base_fail(report, BASE_INVALID,
                             "axis %d has %lld elements in the slice, where the plan has %lld", i,
                             (long long)dims[i], (long long)to->dims[i]);
        }
        plan->first += starts[i] * from_stride;
        plan->loop.dims[i] = dims[i];
        plan->loop.strides[0][i] = to_stride;
        plan->loop.strides[1][i] = steps[i] * from_stride;
        to_stride *= dims[i];
        from_stride *= from->dims[i];
    }
    rt_loop_collapse(&plan->loop);
    return BASE_OK;
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    const slice_state *state = prepared->state;
    slice_plan fresh;
    const slice_plan *plan = &state->plan;
    if (!state->known) {
        base_status status = make_plan(inputs, prepared->input_count, &outputs[0].type.shape, &fresh, report);
        if (status != BASE_OK) return status;
        plan = &fresh;
    }
    const char *from = inputs[0].data;
    if (rt_loop_elements(&plan->loop) == 0) return BASE_OK;
    /* It is there already: plans say so only where the bytes lie together (plan_kept_part). */
    if (outputs[0].data == from + plan->first * (int64_t)state->size) return BASE_OK;
    rt_copy_strided(&plan->loop, prepared->threads, state->size, outputs[0].data,
                    from + plan->first * (int64_t)state->size);
    return BASE_OK;
}

/* Constant bounds, of spatial axes only. */
static bool accepts_spatial(const op_call *call) {
    for (uint32_t i = 1; i < call->input_count; i++)
        if (op_input_present(call, i) && !call->inputs[i].data) return false;
    const int64_t count = op_input_present(call, 3) ? call->inputs[3].type.shape.dims[0] : 0;
    for (int64_t i = 0; i < count; i++)
        if (!rt_accepts_spatial(call, element(&call->inputs[3], i))) return false;
    return count > 0;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    return rt_accepts_row_major(call) || accepts_spatial(call);
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    slice_state *state = BASE_NEW(arena, slice_state);
    call = rt_spatial_view(call, arena);
    if (!state || !call) return base_fail_memory(report);
    state->size = op_dtype_bytes(call->inputs[0].type.dtype);
    state->known = true;
    for (uint32_t i = 1; i < call->input_count; i++) {
        state->known = state->known && (!op_input_present(call, i) || call->inputs[i].data);
    }
    prepared->state = state;
    prepared->run = run;
    if (!state->known) return BASE_OK;
    return make_plan(call->inputs, call->input_count, &call->outputs[0].type.shape, &state->plan, report);
}

const rt_kernel rt_kernel_slice = {.name = "portable.slice", .accepts = accepts, .prepare = prepare};
