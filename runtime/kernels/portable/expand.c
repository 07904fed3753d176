/* SPDX-License-Identifier: Apache-2.0 */
/* expand.c: Expand and Tile: a tensor repeated along its axes. Both are a strided copy in which repeated
 * dimensions have stride 0; the shape of the result says how often. */
#include "runtime/kernels/portable/kernels.h"

typedef struct repeat_state {
    rt_loop loop;
    size_t size;
} repeat_state;

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const repeat_state *state = prepared->state;
    if (rt_loop_elements(&state->loop) == 0) return BASE_OK;
    rt_copy_strided(&state->loop, prepared->threads, state->size, outputs[0].data, inputs[0].data);
    return BASE_OK;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    return rt_accepts_row_major(call);
}

static base_status prepare_expand(const op_call *call, const rt_environment *environment, base_arena *arena,
                                  rt_prepared *prepared, base_report *report) {
    (void)environment;
    repeat_state *state = BASE_NEW(arena, repeat_state);
    if (!state) return base_fail_memory(report);
    const op_shape *from = &call->inputs[0].type.shape;
    rt_loop_broadcast(&state->loop, &call->outputs[0].type.shape, &from, 1);
    state->size = op_dtype_bytes(call->inputs[0].type.dtype);
    prepared->state = state;
    prepared->run = run;
    return BASE_OK;
}

static base_status prepare_tile(const op_call *call, const rt_environment *environment, base_arena *arena,
                                rt_prepared *prepared, base_report *report) {
    (void)environment;
    repeat_state *state = BASE_NEW(arena, repeat_state);
    if (!state) return base_fail_memory(report);
    const op_shape *from = &call->inputs[0].type.shape, *to = &call->outputs[0].type.shape;
    rt_loop *loop = &state->loop;
    loop->rank = 2 * from->rank;
    loop->operands = 2;
    /* Each dimension becomes two: how often it is repeated, and itself. */
    int64_t from_stride = 1, to_stride = 1;
    for (int32_t i = from->rank - 1; i >= 0; i--) {
        int64_t extent = from->dims[i], times = extent ? to->dims[i] / extent : 1;
        loop->dims[2 * i] = times;
        loop->dims[2 * i + 1] = extent;
        loop->strides[0][2 * i] = times ? to_stride * extent : 0;
        loop->strides[0][2 * i + 1] = to_stride;
        loop->strides[1][2 * i] = 0;
        loop->strides[1][2 * i + 1] = from_stride;
        from_stride *= extent;
        to_stride *= to->dims[i];
    }
    rt_loop_collapse(loop);
    state->size = op_dtype_bytes(call->inputs[0].type.dtype);
    prepared->state = state;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_expand = {.name = "portable.expand", .accepts = accepts, .prepare = prepare_expand};
const rt_kernel rt_kernel_tile = {.name = "portable.tile", .accepts = accepts, .prepare = prepare_tile};
