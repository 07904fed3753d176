/* SPDX-License-Identifier: Apache-2.0 */
/* gather.c: entries along an axis, chosen by indices that may be negative. An index that is out of range is
 * reported before anything is written. Rows of a row-major image can be gathered with their channels innermost: bands of rows would else
 * copy them and then change their layout. */
#include "runtime/kernels/portable/indices.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/spans.h"
#include "runtime/kernels/portable/spatial_view.h"
#include "runtime/kernels/portable/turn.h"
#include <string.h>

typedef struct gather_state {
    int64_t outer;
    rt_indices indices; /* without data */
    size_t bytes;       /* of one entry */
    bool turned;        /* rows of an image, whose channels become innermost */
} gather_state;

typedef struct gather_context {
    const gather_state *state;
    rt_indices indices;
    char *to;
    const char *from;
} gather_context;

/* Tasks `begin` to `end`: which entry each of them copies is counted on, as divisions take longer than short copies. */
#define GATHER(size, COPY)                                                                                   \
    do {                                                                                                     \
        int64_t i = begin % indices.count;                                                                   \
        const char *from = context->from + (size_t)(begin / indices.count * indices.extent) * (size);        \
        for (int64_t task = begin; task < end; task++, to += (size)) {                                       \
            COPY(to, from + (size_t)rt_index_at(&indices, i) * (size), size);                                \
            if (++i < indices.count) continue;                                                               \
            i = 0;                                                                                           \
            from += (size_t)indices.extent * (size);                                                         \
        }                                                                                                    \
    } while (0)

#ifdef RT_SPANS
RT_SPANS static void run_short(const gather_context *context, int64_t begin, int64_t end, char *to) {
    const gather_state *state = context->state;
    const rt_indices indices = context->indices;
    GATHER(state->bytes, rt_copy_span);
}
#endif

/* Tasks are entries of the result: outer * indices. */
static void run_tasks(void *user, int64_t begin, int64_t end) {
    const gather_context *context = user;
    const gather_state *state = context->state;
    const rt_indices indices = context->indices;
    char *to = context->to + (size_t)begin * state->bytes;
#ifdef RT_SPANS
    if (rt_spans_are_short(state->bytes)) {
        run_short(context, begin, end, to);
        return;
    }
#endif
    switch (state->bytes) {
    case 1:
        GATHER(1, memcpy);
        break;
    case 2:
        GATHER(2, memcpy);
        break;
    case 4:
        GATHER(4, memcpy);
        break;
    case 8:
        GATHER(8, memcpy);
        break;
    default:
        GATHER(state->bytes, memcpy);
    }
}

/* Tasks are rows of the result. */
static void turn_rows(void *user, int64_t begin, int64_t end) {
    const gather_context *context = user;
    const gather_state *state = context->state;
    const int64_t channels = state->outer, row = (int64_t)(state->bytes / sizeof(uint32_t));
    const uint32_t *from = (const uint32_t *)(const void *)context->from;
    uint32_t *to = (uint32_t *)(void *)context->to;
    for (int64_t i = begin; i < end; i++)
        rt_turn_words(from + rt_index_at(&context->indices, i) * row, context->indices.extent * row, channels,
                      row, to + i * row * channels, channels);
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    const gather_state *state = prepared->state;
    gather_context context = {state, state->indices, outputs[0].data, inputs[0].data};
    context.indices.data = inputs[1].data;
    const base_status status = rt_indices_check(&context.indices, report);
    if (status != BASE_OK) return status;
    if (state->bytes == 0 || state->outer == 0) return BASE_OK;
    if (state->turned) {
        rt_parallel(prepared->threads, state->indices.count, state->outer * (int64_t)(state->bytes / 2) + 2,
                    turn_rows, &context);
        return BASE_OK;
    }
    rt_parallel(prepared->threads, state->outer * state->indices.count, (int64_t)(state->bytes / 4) + 2,
                run_tasks, &context);
    return BASE_OK;
}

/* One row-major image of floats, some of whose rows are gathered with channels innermost. */
static bool turns_rows(const op_call *call) {
    const op_type *x = &call->inputs[0].type, *y = &call->outputs[0].type, *indices = &call->inputs[1].type;
    return x->dtype == OP_FLOAT && x->layout == OP_LAYOUT_ROW_MAJOR && y->layout == OP_LAYOUT_NHWC &&
           x->shape.rank == 4 && x->shape.dims[0] == 1 && indices->shape.rank == 1 &&
           indices->layout == OP_LAYOUT_ROW_MAJOR && op_attribute_integer(&call->attributes, "axis", 0) == 2;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    op_dtype dtype = call->inputs[1].type.dtype;
    return (dtype == OP_INT32 || dtype == OP_INT64) &&
           (rt_accepts_row_major(call) || turns_rows(call) ||
            (call->inputs[1].type.shape.rank == 1 &&
             rt_accepts_spatial(call, op_attribute_integer(&call->attributes, "axis", 0))));
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    gather_state *state = BASE_NEW(arena, gather_state);
    if (!state) return base_fail_memory(report);
    state->turned = turns_rows(call);
    if (!state->turned) call = rt_spatial_view(call, arena);
    if (!call) return base_fail_memory(report);
    const op_type *from = &call->inputs[0].type;
    int32_t axis = 0;
    op_axis(op_attribute_integer(&call->attributes, "axis", 0), from->shape.rank, &axis);
    state->outer = 1;
    state->bytes = op_dtype_bytes(from->dtype);
    for (int32_t i = 0; i < from->shape.rank; i++) {
        if (i < axis) state->outer *= from->shape.dims[i];
        else if (i == axis) state->indices.extent = from->shape.dims[i];
        else state->bytes *= (size_t)from->shape.dims[i];
    }
    op_shape_elements(&call->inputs[1].type.shape, &state->indices.count);
    state->indices.wide = call->inputs[1].type.dtype == OP_INT64;
    prepared->state = state;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_gather = {.name = "portable.gather", .accepts = accepts, .prepare = prepare};
