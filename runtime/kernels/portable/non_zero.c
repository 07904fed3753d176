/* SPDX-License-Identifier: Apache-2.0 */
/* non_zero.c: where the elements lie that are not zero. Elements are counted in blocks, so that each block knows
 * where in the result its positions begin: the counts are kept in the scratch from the measuring to the run.
 */
#include "runtime/kernels/portable/kernels.h"
#include <inttypes.h>

enum { NON_ZERO_BLOCK = 1 << 14 };

typedef struct non_zero_type {
    int64_t (*count)(const void *data, int64_t begin, int64_t end);
    /* The first element from `begin` on that is not zero; `end` where there is none. */
    int64_t (*next)(const void *data, int64_t begin, int64_t end);
} non_zero_type;

typedef struct non_zero_state {
    non_zero_type type;
    int32_t rank;
    int64_t dims[OP_MAX_RANK];
    int64_t elements, blocks;
} non_zero_state;

typedef struct non_zero_context {
    const non_zero_state *state;
    const void *data;
    int64_t *counts; /* a block's elements; in the run, those of all blocks before it */
    int64_t *to, total;
} non_zero_context;

/* ---- elements ------------------------------------------------------------------------------------------ */

#define NON_ZERO(name, element, is_set)                                                                      \
    static int64_t count_##name(const void *data, int64_t begin, int64_t end) {                              \
        const element *x = data;                                                                             \
        int64_t count = 0;                                                                                   \
        for (int64_t i = begin; i < end; i++) count += is_set;                                               \
        return count;                                                                                        \
    }                                                                                                        \
    static int64_t next_##name(const void *data, int64_t begin, int64_t end) {                               \
        const element *x = data;                                                                             \
        int64_t i = begin;                                                                                   \
        while (i < end && !(is_set)) i++;                                                                    \
        return i;                                                                                            \
    }

NON_ZERO(byte, uint8_t, x[i] != 0)
NON_ZERO(short, uint16_t, x[i] != 0)
NON_ZERO(int, uint32_t, x[i] != 0)
NON_ZERO(long, uint64_t, x[i] != 0)
NON_ZERO(half, uint16_t, (x[i] & 0x7fffu) != 0) /* -0 is zero */
NON_ZERO(float, float, x[i] != 0)
NON_ZERO(double, double, x[i] != 0)
NON_ZERO(complex64, float, x[2 * i] != 0 || x[2 * i + 1] != 0)
NON_ZERO(complex128, double, x[2 * i] != 0 || x[2 * i + 1] != 0)
NON_ZERO(string, op_string, x[i].length != 0)

#define TYPE(name) ((non_zero_type){count_##name, next_##name})

static non_zero_type type_of(op_dtype dtype) {
    switch (dtype) {
    case OP_FLOAT16:
    case OP_BFLOAT16:
        return TYPE(half);
    case OP_FLOAT:
        return TYPE(float);
    case OP_DOUBLE:
        return TYPE(double);
    case OP_COMPLEX64:
        return TYPE(complex64);
    case OP_COMPLEX128:
        return TYPE(complex128);
    case OP_STRING:
        return TYPE(string);
    default:
        switch (op_dtype_bytes(dtype)) {
        case 1:
            return TYPE(byte);
        case 2:
            return TYPE(short);
        case 4:
            return TYPE(int);
        default:
            return TYPE(long);
        }
    }
}

/* ---- blocks -------------------------------------------------------------------------------------------- */

static int64_t end_of(const non_zero_state *state, int64_t block) {
    return block == state->blocks - 1 ? state->elements : (block + 1) * NON_ZERO_BLOCK;
}

static void count_blocks(void *user, int64_t begin, int64_t end) {
    const non_zero_context *context = user;
    for (int64_t block = begin; block < end; block++) {
        context->counts[block] =
            context->state->type.count(context->data, block * NON_ZERO_BLOCK, end_of(context->state, block));
    }
}

static base_status measure(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                           void *scratch, base_report *report) {
    const non_zero_state *state = prepared->state;
    non_zero_context context = {.state = state, .data = inputs[0].data, .counts = scratch};
    int64_t total = 0;
    (void)report;
    rt_parallel(prepared->threads, state->blocks, NON_ZERO_BLOCK, count_blocks, &context);
    for (int64_t block = 0; block < state->blocks; block++) {
        int64_t count = context.counts[block];
        context.counts[block] = total;
        total += count;
    }
    outputs[0].type.shape = (op_shape){.rank = 2, .dims = {state->rank, total}};
    return BASE_OK;
}

static void list_blocks(void *user, int64_t begin, int64_t end) {
    const non_zero_context *context = user;
    const non_zero_state *state = context->state;
    const int32_t last = state->rank - 1;
    const int64_t inner = state->dims[last];
    for (int64_t block = begin; block < end; block++) {
        const int64_t stop = end_of(state, block);
        int64_t position[OP_MAX_RANK] = {0}, at = context->counts[block];
        int64_t row = block * NON_ZERO_BLOCK / inner, row_begin = row * inner;
        for (int32_t d = last; d-- > 0; row /= state->dims[d]) position[d] = row % state->dims[d];
        for (int64_t i = state->type.next(context->data, block * NON_ZERO_BLOCK, stop); i < stop;
             i = state->type.next(context->data, i + 1, stop)) {
            while (i - row_begin >= inner) {
                row_begin += inner;
                for (int32_t d = last; d-- > 0 && ++position[d] == state->dims[d];) position[d] = 0;
            }
            position[last] = i - row_begin;
            for (int32_t d = 0; d <= last; d++) context->to[d * context->total + at] = position[d];
            at++;
        }
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)report;
    const non_zero_state *state = prepared->state;
    non_zero_context context = {.state = state,
                                .data = inputs[0].data,
                                .counts = scratch,
                                .to = outputs[0].data,
                                .total = outputs[0].type.shape.dims[1]};
    if (state->rank) rt_parallel(prepared->threads, state->blocks, NON_ZERO_BLOCK, list_blocks, &context);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    const op_shape *shape = &call->inputs[0].type.shape;
    non_zero_state *state = BASE_NEW(arena, non_zero_state);
    if (!state) return base_fail_memory(report);
    if (!op_shape_elements(shape, &state->elements))
        return base_fail(report, BASE_INVALID, "input 0 is too large");
    state->type = type_of(call->inputs[0].type.dtype);
    state->rank = shape->rank;
    for (int32_t d = 0; d < shape->rank; d++) state->dims[d] = shape->dims[d];
    state->blocks = state->elements / NON_ZERO_BLOCK + (state->elements % NON_ZERO_BLOCK != 0);
    prepared->scratch_bytes = (size_t)state->blocks * sizeof(int64_t);
    prepared->state = state;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_non_zero = {
    .name = "portable.non_zero", .accepts = rt_accepts_any_row_major, .prepare = prepare, .measure = measure};
