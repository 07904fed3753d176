/* SPDX-License-Identifier: Apache-2.0 */
/* generate.c: Shape, Size, ConstantOfShape and Range: values made from shapes and scalars. */
#include "ir/operators/small.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/product.h"
#include <string.h>

/* ---- Shape and Size: known once the shapes are --------------------------------------------------------- */

typedef struct shape_state {
    size_t bytes;
    int64_t values[OP_MAX_RANK];
} shape_state;

static base_status run_shape(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                             void *scratch, base_report *report) {
    (void)inputs;
    (void)scratch;
    (void)report;
    const shape_state *state = prepared->state;
    if (state->bytes) memcpy(outputs[0].data, state->values, state->bytes);
    return BASE_OK;
}

/* Whatever the layout: the shape is that of the tensor, not of its memory. */
static bool accepts_shape(const op_call *call, const rt_environment *environment) {
    (void)environment;
    return call->inputs[0].type.kind == OP_KIND_TENSOR && call->outputs[0].type.layout == OP_LAYOUT_ROW_MAJOR;
}

static base_status prepare_shape(const op_call *call, const rt_environment *environment, base_arena *arena,
                                 rt_prepared *prepared, base_report *report) {
    (void)environment;
    shape_state *state = BASE_NEW(arena, shape_state);
    if (!state) return base_fail_memory(report);
    const op_shape *shape = &call->inputs[0].type.shape;
    int64_t count = 1;
    if (call->code == OP_SIZE) {
        if (!op_shape_elements(shape, &state->values[0])) {
            return base_fail(report, BASE_INVALID, "input 0 has too many elements to be counted");
        }
    } else {
        int64_t start = op_attribute_integer(&call->attributes, "start", 0);
        if (start < 0) start += shape->rank;
        start = start < 0 ? 0 : start > shape->rank ? shape->rank : start;
        count = call->outputs[0].type.shape.dims[0];
        if (count > shape->rank - start)
            return base_fail(report, BASE_INVALID, "the result is longer than the shape");
        memcpy(state->values, shape->dims + start, (size_t)count * sizeof(int64_t));
    }
    state->bytes = (size_t)count * sizeof(int64_t);
    prepared->state = state;
    prepared->run = run_shape;
    return BASE_OK;
}

const rt_kernel rt_kernel_shape = {
    .name = "portable.shape", .accepts = accepts_shape, .prepare = prepare_shape};

/* ---- ConstantOfShape ----------------------------------------------------------------------------------- */

typedef struct fill_state {
    int64_t count;
    size_t size;
    unsigned rest; /* bits of the last byte that hold elements; 0: all */
    unsigned char value[16];
} fill_state;

static base_status run_fill(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                            void *scratch, base_report *report) {
    (void)inputs;
    (void)scratch;
    (void)report;
    const fill_state *state = prepared->state;
    rt_fill(outputs[0].data, state->count, state->size, state->value);
    if (state->rest) ((uint8_t *)outputs[0].data)[state->count - 1] &= (uint8_t)((1u << state->rest) - 1);
    return BASE_OK;
}

static bool accepts_plain(const op_call *call, const rt_environment *environment) {
    (void)environment;
    return rt_accepts_row_major(call);
}

/* Zeros lie in any way. */
static bool accepts_fill(const op_call *call, const rt_environment *environment) {
    const op_type *result = &call->outputs[0].type;
    if (accepts_plain(call, environment)) return true;
    const op_attribute *value = op_attribute_find(&call->attributes, "value");
    bool zero = !value || value->kind == OP_ATTRIBUTE_TENSOR;
    for (size_t i = 0; value && zero && i < op_dtype_bytes(result->dtype); i++)
        zero = ((const char *)value->as.tensor->data)[i] == 0;
    return zero && op_dtype_bytes(result->dtype) && result->layout != OP_LAYOUT_PACKED &&
           call->inputs[0].type.layout == OP_LAYOUT_ROW_MAJOR;
}

static base_status prepare_fill(const op_call *call, const rt_environment *environment, base_arena *arena,
                                rt_prepared *prepared, base_report *report) {
    (void)environment;
    fill_state *state = BASE_NEW(arena, fill_state);
    if (!state) return base_fail_memory(report);
    const op_attribute *value = op_attribute_find(&call->attributes, "value");
    const op_dtype dtype = call->outputs[0].type.dtype;
    const unsigned bits = op_dtype_bits(dtype);
    state->size = op_dtype_bytes(dtype);
    state->count = rt_stored_elements(&call->outputs[0].type);
    /* Zero where nothing else is said, in every type. */
    if (value && value->kind == OP_ATTRIBUTE_TENSOR)
        memcpy(state->value, value->as.tensor->data, state->size ? state->size : 1);
    if (op_dtype_is_packed(dtype)) { /* a byte of equal elements; what is left of the last byte stays 0 */
        const uint8_t code = op_small_load(dtype, state->value, 0);
        const int64_t each = 8 / (int64_t)bits;
        for (int64_t i = 0; i < each; i++) op_small_store(dtype, state->value, i, code);
        state->rest = (unsigned)(state->count % each) * bits;
        state->count = (state->count + each - 1) / each;
        state->size = 1;
    }
    prepared->state = state;
    prepared->run = run_fill;
    return BASE_OK;
}

const rt_kernel rt_kernel_constant_of_shape = {
    .name = "portable.constant_of_shape", .accepts = accepts_fill, .prepare = prepare_fill};

/* ---- Range --------------------------------------------------------------------------------------------- */

/* Each element is start + i * delta, computed from i and not from its predecessor, so that errors do not add
 * up; reals in double. Integers wrap around. */
static base_status run_range(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                             void *scratch, base_report *report) {
    (void)prepared;
    (void)scratch;
    (void)report;
    int64_t count = outputs[0].type.shape.dims[0];
    const void *start = inputs[0].data, *delta = inputs[2].data;
    void *to = outputs[0].data;
    switch (outputs[0].type.dtype) {
    case OP_FLOAT: {
        double first = (double)*(const float *)start, step = (double)*(const float *)delta;
        for (int64_t i = 0; i < count; i++) ((float *)to)[i] = (float)(first + (double)i * step);
        break;
    }
    case OP_DOUBLE: {
        double first = *(const double *)start, step = *(const double *)delta;
        for (int64_t i = 0; i < count; i++) ((double *)to)[i] = first + (double)i * step;
        break;
    }
    case OP_FLOAT16:
    case OP_BFLOAT16: {
        const op_dtype dtype = outputs[0].type.dtype;
        const double first = rt_element_load(dtype, start, 0), step = rt_element_load(dtype, delta, 0);
        for (int64_t i = 0; i < count; i++) rt_element_store(dtype, to, i, first + (double)i * step);
        break;
    }
    case OP_INT16: {
        unsigned first = (unsigned)*(const int16_t *)start, step = (unsigned)*(const int16_t *)delta;
        for (int64_t i = 0; i < count; i++) ((uint16_t *)to)[i] = (uint16_t)(first + (unsigned)i * step);
        break;
    }
    case OP_INT32: {
        uint32_t first = (uint32_t) * (const int32_t *)start, step = (uint32_t) * (const int32_t *)delta;
        for (int64_t i = 0; i < count; i++) ((uint32_t *)to)[i] = first + (uint32_t)i * step;
        break;
    }
    default: {
        uint64_t first = (uint64_t) * (const int64_t *)start, step = (uint64_t) * (const int64_t *)delta;
        for (int64_t i = 0; i < count; i++) ((uint64_t *)to)[i] = first + (uint64_t)i * step;
        break;
    }
    }
    return BASE_OK;
}

static base_status prepare_range(const op_call *call, const rt_environment *environment, base_arena *arena,
                                 rt_prepared *prepared, base_report *report) {
    (void)call;
    (void)environment;
    (void)arena;
    (void)report;
    prepared->run = run_range;
    return BASE_OK;
}

const rt_kernel rt_kernel_range = {
    .name = "portable.range", .accepts = accepts_plain, .prepare = prepare_range};
