/* SPDX-License-Identifier: Apache-2.0 */
/* top_k.c: the k largest or smallest along an axis, in order; of equal elements the one with the lower index comes
 * first. NaN is larger than every number. A heap of k (value, index) pairs is kept in the scratch.
 */
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/product.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct top_state {
    op_dtype dtype;
    int64_t outer, extent, inner, k;
    bool largest;
} top_state;

/* Every number type is compared as one of these. */
typedef struct candidate {
    union {
        double real;
        int64_t integer;
        uint64_t natural;
    } value;
    int64_t index;
} candidate;

static bool is_natural(op_dtype dtype) {
    return dtype == OP_UINT64 || dtype == OP_UINT32 || dtype == OP_UINT16;
}

static bool is_integer(op_dtype dtype) {
    return dtype == OP_INT64 || dtype == OP_INT32 || dtype == OP_INT16;
}

static candidate load(op_dtype dtype, const void *data, int64_t at, int64_t index) {
    candidate c = {.index = index};
    switch (dtype) {
    case OP_INT64:
        c.value.integer = ((const int64_t *)data)[at];
        break;
    case OP_INT32:
        c.value.integer = ((const int32_t *)data)[at];
        break;
    case OP_INT16:
        c.value.integer = ((const int16_t *)data)[at];
        break;
    case OP_UINT64:
        c.value.natural = ((const uint64_t *)data)[at];
        break;
    case OP_UINT32:
        c.value.natural = ((const uint32_t *)data)[at];
        break;
    case OP_UINT16:
        c.value.natural = ((const uint16_t *)data)[at];
        break;
    default:
        c.value.real = rt_element_load(dtype, data, at);
    }
    return c;
}

static int compare_values(op_dtype dtype, const candidate *a, const candidate *b) {
    if (is_integer(dtype))
        return a->value.integer < b->value.integer ? -1 : a->value.integer > b->value.integer;
    if (is_natural(dtype))
        return a->value.natural < b->value.natural ? -1 : a->value.natural > b->value.natural;
    bool a_nan = isnan(a->value.real), b_nan = isnan(b->value.real);
    if (a_nan || b_nan) return (int)a_nan - (int)b_nan;
    return a->value.real < b->value.real ? -1 : a->value.real > b->value.real;
}

/* a comes before b in the result. */
static bool precedes(const top_state *state, const candidate *a, const candidate *b) {
    int order = compare_values(state->dtype, a, b);
    if (order == 0) return a->index < b->index;
    return state->largest ? order > 0 : order < 0;
}

/* The heap's root is what comes last. */
static void sink(const top_state *state, candidate *heap, int64_t count, int64_t at) {
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= count) return;
        if (child + 1 < count && precedes(state, &heap[child], &heap[child + 1])) child++;
        if (!precedes(state, &heap[at], &heap[child])) return;
        candidate kept = heap[at];
        heap[at] = heap[child];
        heap[child] = kept;
        at = child;
    }
}

/* The next element from `from` on that may precede the heap's root: most are passed over here. */
static int64_t next_float(const top_state *state, const float *data, int64_t from, float root) {
    int64_t e = from;
    if (state->largest) {
        while (e < state->extent && data[e] <= root) e++;
    } else {
        while (e < state->extent && data[e] >= root) e++;
    }
    return e;
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    const top_state *state = prepared->state;
    const int64_t k = state->k;
    const size_t element = op_dtype_bytes(state->dtype);
    candidate *heap = scratch;
    int64_t wanted = *(const int64_t *)inputs[1].data;
    if (wanted != k)
        return base_fail(report, BASE_INVALID, "k is %" PRId64 ", it was planned as %" PRId64, wanted, k);
    for (int64_t task = 0; task < state->outer * state->inner && k; task++) {
        const int64_t o = task / state->inner, i = task % state->inner;
        for (int64_t e = 0; e < state->extent; e++) {
            if (e >= k && state->dtype == OP_FLOAT && state->inner == 1) {
                e = next_float(state, (const float *)inputs[0].data + o * state->extent, e,
                               (float)heap[0].value.real);
                if (e == state->extent) break;
            }
            candidate c = load(state->dtype, inputs[0].data, (o * state->extent + e) * state->inner + i, e);
            if (e < k) {
                heap[e] = c;
                if (e == k - 1)
                    for (int64_t at = k / 2; at-- > 0;) sink(state, heap, k, at);
            } else if (precedes(state, &c, &heap[0])) {
                heap[0] = c;
                sink(state, heap, k, 0);
            }
        }
        for (int64_t count = k; count > 1;) { /* the last goes to the end, and so on */
            candidate last = heap[0];
            heap[0] = heap[--count];
            heap[count] = last;
            sink(state, heap, count, 0);
        }
        for (int64_t e = 0; e < k; e++) {
            int64_t to = (o * k + e) * state->inner + i,
                    from = (o * state->extent + heap[e].index) * state->inner + i;
            memcpy((char *)outputs[0].data + (size_t)to * element,
                   (const char *)inputs[0].data + (size_t)from * element, element);
            if (prepared->output_count > 1 && outputs[1].data)
                ((int64_t *)outputs[1].data)[to] = heap[e].index;
        }
    }
    return BASE_OK;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    return rt_accepts_row_major(call);
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    top_state *state = BASE_NEW(arena, top_state);
    if (!state) return base_fail_memory(report);
    const op_shape *shape = &call->inputs[0].type.shape;
    int32_t axis = 0;
    op_axis(op_attribute_integer(&call->attributes, "axis", -1), shape->rank, &axis);
    state->dtype = call->inputs[0].type.dtype;
    state->largest = op_attribute_integer(&call->attributes, "largest", 1) != 0;
    state->outer = state->inner = 1;
    for (int32_t d = 0; d < shape->rank; d++) {
        if (d < axis) state->outer *= shape->dims[d];
        else if (d == axis) state->extent = shape->dims[d];
        else state->inner *= shape->dims[d];
    }
    state->k = call->outputs[0].type.shape.dims[axis];
    if (state->k > state->extent)
        return base_fail(report, BASE_INVALID, "k is %" PRId64 ", the axis has %" PRId64 " elements",
                         state->k, state->extent);
    if (!base_size_multiply((size_t)state->k, sizeof(candidate), &prepared->scratch_bytes))
        return base_fail(report, BASE_INVALID, "k is too large");
    prepared->state = state;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_top_k = {.name = "portable.top_k", .accepts = accepts, .prepare = prepare};
