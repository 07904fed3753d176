/* select.c: results whose size depends on data: NonZero, Compress, Unique, NonMaxSuppression. What is selected is
 * worked out by ir/op_select.c, as the shape function did; these kernels run on values of the run-time allocator
 * only, and may take memory. */
#include "ir/op_select.h"
#include "runtime/kernels/kernels.h"
#include <inttypes.h>
#include <string.h>

typedef struct select_state {
    op_call call; /* attributes; tensors are those of the run */
    int32_t axis; /* -1: the tensor as a list */
    bool sorted;
} select_state;

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    return rt_accepts_plain(call);
}

static base_status fail_size(base_report *report, int64_t is, int64_t planned) {
    return base_fail(report, BASE_INVALID, "%" PRId64 " are selected, there is room for %" PRId64, is,
                     planned);
}

static base_status run_non_zero(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                                void *scratch, base_report *report) {
    (void)prepared;
    (void)scratch;
    const op_shape *shape = &inputs[0].type.shape;
    const int64_t columns = outputs[0].type.shape.dims[1];
    int64_t elements = 0, *to = outputs[0].data, found = 0;
    op_shape_elements(shape, &elements);
    for (int64_t i = 0; i < elements; i++) {
        if (!op_is_nonzero(&inputs[0], i)) continue;
        if (found == columns) return fail_size(report, found + 1, columns);
        int64_t rest = i;
        if (shape->rank == 0) to[found] = 0;
        for (int32_t d = shape->rank - 1; d >= 0; d--) {
            to[d * columns + found] = rest % shape->dims[d];
            rest /= shape->dims[d];
        }
        found++;
    }
    return found == columns ? BASE_OK : fail_size(report, found, columns);
}

/* The tensor around its axis; as a list where that is -1. */
static void split(const op_shape *shape, int32_t axis, int64_t *outer, int64_t *extent, int64_t *inner) {
    *outer = *extent = *inner = 1;
    for (int32_t d = 0; d < shape->rank; d++) {
        if (axis < 0 || d == axis) *extent *= shape->dims[d];
        else if (d < axis) *outer *= shape->dims[d];
        else *inner *= shape->dims[d];
    }
}

/* Slice `from` becomes slice `to` of a result that has `count` of them. */
static void copy_slice(const op_tensor *source, op_tensor *target, int64_t outer, int64_t extent,
                       size_t bytes, int64_t from, int64_t to, int64_t count) {
    (void)extent;
    for (int64_t o = 0; o < outer && bytes; o++)
        memcpy((char *)target->data + (size_t)(o * count + to) * bytes,
               (const char *)source->data + (size_t)(o * extent + from) * bytes, bytes);
}

static base_status run_compress(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                                void *scratch, base_report *report) {
    (void)scratch;
    const select_state *state = prepared->state;
    int64_t outer, extent, inner, flags = 0, found = 0;
    split(&inputs[0].type.shape, state->axis, &outer, &extent, &inner);
    op_shape_elements(&inputs[1].type.shape, &flags);
    const int64_t count = outputs[0].type.shape.dims[state->axis < 0 ? 0 : state->axis];
    for (int64_t i = 0; i < flags && i < extent; i++) {
        if (!op_is_nonzero(&inputs[1], i)) continue;
        if (found == count) return fail_size(report, found + 1, count);
        copy_slice(&inputs[0], &outputs[0], outer, extent,
                   (size_t)inner * op_dtype_bytes(inputs[0].type.dtype), i, found++, count);
    }
    return found == count ? BASE_OK : fail_size(report, found, count);
}

static base_status run_unique(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                              void *scratch, base_report *report) {
    (void)scratch;
    const select_state *state = prepared->state;
    base_arena arena;
    op_unique unique;
    base_arena_init(&arena, NULL);
    base_status status = BASE_OK;
    const int64_t count = outputs[0].type.shape.dims[state->axis < 0 ? 0 : state->axis];
    if (!op_select_unique(&inputs[0], state->axis, state->sorted, &arena, &unique))
        status = base_fail_memory(report);
    else if (unique.count != count) status = fail_size(report, unique.count, count);
    if (status == BASE_OK) {
        int64_t outer, extent, inner;
        split(&inputs[0].type.shape, state->axis, &outer, &extent, &inner);
        for (int64_t u = 0; u < count; u++)
            copy_slice(&inputs[0], &outputs[0], outer, extent,
                       (size_t)inner * op_dtype_bytes(inputs[0].type.dtype), unique.first[u], u, count);
        const int64_t *lists[] = {NULL, unique.first, unique.inverse, unique.counts};
        for (uint32_t i = 1; i < prepared->output_count; i++)
            if (outputs[i].data && outputs[i].bytes) memcpy(outputs[i].data, lists[i], outputs[i].bytes);
    }
    base_arena_free(&arena);
    return status;
}

static base_status run_boxes(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                             void *scratch, base_report *report) {
    (void)scratch;
    const select_state *state = prepared->state;
    op_call call = state->call;
    base_arena arena;
    int64_t *triples, count;
    call.inputs = inputs;
    base_arena_init(&arena, NULL);
    base_status status = BASE_OK;
    if (!op_select_boxes(&call, &arena, &triples, &count)) status = base_fail_memory(report);
    else if (count != outputs[0].type.shape.dims[0])
        status = fail_size(report, count, outputs[0].type.shape.dims[0]);
    else if (count) memcpy(outputs[0].data, triples, (size_t)count * 3 * sizeof *triples);
    base_arena_free(&arena);
    return status;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    select_state *state = BASE_NEW(arena, select_state);
    if (!state) return base_fail_memory(report);
    const op_attribute *along = op_attribute_find(&call->attributes, "axis");
    state->call = *call;
    state->axis = -1;
    state->sorted = op_attribute_integer(&call->attributes, "sorted", 1) != 0;
    if (along && !op_axis(along->as.integer, call->inputs[0].type.shape.rank, &state->axis))
        return base_fail(report, BASE_INVALID, "attribute \"axis\" is out of range");
    prepared->state = state;
    prepared->run = call->code == OP_NON_ZERO   ? run_non_zero
                    : call->code == OP_COMPRESS ? run_compress
                    : call->code == OP_UNIQUE   ? run_unique
                                                : run_boxes;
    return BASE_OK;
}

const rt_kernel rt_kernel_select_data = {.name = "portable.select", .accepts = accepts, .prepare = prepare};
