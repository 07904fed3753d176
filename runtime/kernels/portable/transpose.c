/* SPDX-License-Identifier: Apache-2.0 */
/* transpose.c: permutation of the axes. */
#include "runtime/kernels/portable/kernels.h"
#include "ir/operators/small.h"

typedef struct transpose_state {
    rt_loop loop;
    size_t size;
    op_dtype packed; /* OP_NONE: elements are whole bytes */
    int64_t count;
} transpose_state;

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const transpose_state *state = prepared->state;
    rt_copy_strided(&state->loop, prepared->threads, state->size, outputs[0].data, inputs[0].data);
    return BASE_OK;
}

/* Elements of less than a byte: one a byte in scratch, and back. */
static base_status run_packed(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                              void *scratch, base_report *report) {
    (void)report;
    const transpose_state *state = prepared->state;
    uint8_t *from = scratch, *to = from + state->count;
    rt_unpack(state->packed, from, inputs[0].data, state->count);
    rt_copy_strided(&state->loop, prepared->threads, 1, to, from);
    rt_pack(state->packed, outputs[0].data, to, state->count);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    transpose_state *state = BASE_NEW(arena, transpose_state);
    if (!state) return base_fail_memory(report);
    const op_shape *from = &call->inputs[0].type.shape, *to = &call->outputs[0].type.shape;
    size_t count;
    const int64_t *order = op_attribute_integers(&call->attributes, "perm", &count);
    int64_t strides[OP_MAX_RANK], stride = 1;
    for (int32_t i = from->rank - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= from->dims[i];
    }
    state->loop.rank = to->rank;
    state->loop.operands = 2;
    stride = 1;
    for (int32_t i = to->rank - 1; i >= 0; i--) {
        state->loop.dims[i] = to->dims[i];
        state->loop.strides[0][i] = stride;
        state->loop.strides[1][i] = strides[order ? order[i] : to->rank - 1 - i];
        stride *= to->dims[i];
    }
    rt_loop_collapse(&state->loop);
    state->size = op_dtype_bytes(call->inputs[0].type.dtype);
    prepared->state = state;
    prepared->run = run;
    if (op_dtype_is_packed(call->inputs[0].type.dtype)) {
        state->packed = call->inputs[0].type.dtype;
        (void)op_shape_elements(to, &state->count);
        prepared->run = run_packed;
        if (!base_size_multiply(2, (size_t)state->count, &prepared->scratch_bytes))
            return base_fail_memory(report);
    }
    return BASE_OK;
}

const rt_kernel rt_kernel_transpose = {
    .name = "portable.transpose", .accepts = rt_accepts_any_row_major, .prepare = prepare};
