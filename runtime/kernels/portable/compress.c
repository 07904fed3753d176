/* SPDX-License-Identifier: Apache-2.0 */
/* compress.c: entries along an axis, or of all elements in a row, where a condition is true. Where they lie is
 * kept in the scratch from the measuring to the run.
 */
#include "runtime/kernels/portable/kernels.h"
#include <inttypes.h>
#include <string.h>

typedef struct compress_state {
    int32_t axis; /* -1: all elements in a row */
    int64_t outer, extent, conditions;
    size_t bytes; /* of one entry */
} compress_state;

typedef struct compress_context {
    const compress_state *state;
    const int64_t *chosen;
    int64_t count;
    const char *from;
    char *to;
} compress_context;

static base_status measure(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                           void *scratch, base_report *report) {
    const compress_state *state = prepared->state;
    const uint8_t *condition = inputs[1].data;
    int64_t *chosen = scratch, count = 0, within = state->conditions;
    if (within > state->extent) within = state->extent;
    for (int64_t i = 0; i < within; i++) {
        if (condition[i]) chosen[count++] = i;
    }
    for (int64_t i = within; i < state->conditions; i++) {
        if (!condition[i]) continue;
        return base_fail(report, BASE_INVALID,
                         "element %" PRId64 " of the condition is true, there are %" PRId64
                         " entries to choose from",
                         i, state->extent);
    }
    if (state->axis < 0) outputs[0].type.shape = (op_shape){.rank = 1, .dims = {count}};
    else outputs[0].type.shape.dims[state->axis] = count;
    return BASE_OK;
}

#define COMPRESS(size)                                                                                       \
    case size:                                                                                               \
        for (int64_t k = first; k < last; k++, to += size) memcpy(to, from + chosen[k] * size, size);        \
        break

/* Entries of the result: outer * count. */
static void run_entries(void *user, int64_t begin, int64_t end) {
    const compress_context *context = user;
    const compress_state *state = context->state;
    const int64_t *chosen = context->chosen;
    char *to = context->to + (size_t)begin * state->bytes;
    while (begin < end) {
        const int64_t outer = begin / context->count, first = begin % context->count;
        const int64_t last = end - begin < context->count - first ? first + (end - begin) : context->count;
        const char *from = context->from + (size_t)(outer * state->extent) * state->bytes;
        switch (state->bytes) {
            COMPRESS(1);
            COMPRESS(2);
            COMPRESS(4);
            COMPRESS(8);
        default:
            for (int64_t k = first; k < last; k++, to += state->bytes)
                memcpy(to, from + (size_t)chosen[k] * state->bytes, state->bytes);
        }
        begin += last - first;
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)report;
    const compress_state *state = prepared->state;
    compress_context context = {.state = state,
                                .chosen = scratch,
                                .count = outputs[0].type.shape.dims[state->axis < 0 ? 0 : state->axis],
                                .from = inputs[0].data,
                                .to = outputs[0].data};
    if (outputs[0].bytes == 0) return BASE_OK;
    rt_parallel(prepared->threads, state->outer * context.count, (int64_t)(state->bytes / 4) + 2, run_entries,
                &context);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    compress_state *state = BASE_NEW(arena, compress_state);
    if (!state) return base_fail_memory(report);
    const op_type *from = &call->inputs[0].type;
    state->axis = -1;
    state->outer = 1;
    state->bytes = op_dtype_bytes(from->dtype);
    if (op_attribute_find(&call->attributes, "axis")) {
        op_axis(op_attribute_integer(&call->attributes, "axis", 0), from->shape.rank, &state->axis);
        for (int32_t d = 0; d < from->shape.rank; d++) {
            if (d < state->axis) state->outer *= from->shape.dims[d];
            else if (d == state->axis) state->extent = from->shape.dims[d];
            else state->bytes *= (size_t)from->shape.dims[d];
        }
    } else if (!op_shape_elements(&from->shape, &state->extent)) {
        return base_fail(report, BASE_INVALID, "input 0 is too large");
    }
    state->conditions = call->inputs[1].type.shape.dims[0];
    int64_t most = state->conditions < state->extent ? state->conditions : state->extent;
    if (!base_size_multiply((size_t)most, sizeof(int64_t), &prepared->scratch_bytes))
        return base_fail(report, BASE_INVALID, "input 0 is too large");
    prepared->state = state;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_compress = {
    .name = "portable.compress", .accepts = rt_accepts_any_row_major, .prepare = prepare, .measure = measure};
