/* SPDX-License-Identifier: Apache-2.0 */
/* infer_support.c: what the shape functions share; see infer.h. */
#include "ir/operators/infer.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* "float32, float64 or int32", in the order of the dtype numbers. */
static void set_text(unsigned dtypes, char *text, size_t capacity) {
    size_t length = 0;
    text[0] = 0;
    for (int dtype = 1; dtype < OP_DTYPE_COUNT; dtype++) {
        if (!(dtypes & OP_SET(dtype))) continue;
        bool last = !(dtypes >> (dtype + 1));
        const char *separator = length == 0 ? "" : last ? " or " : ", ";
        int written =
            snprintf(text + length, capacity - length, "%s%s", separator, op_dtype_name((op_dtype)dtype));
        if (written < 0 || (size_t)written >= capacity - length) return;
        length += (size_t)written;
    }
}

static const char *kind_name(op_kind kind) {
    switch (kind) {
    case OP_KIND_SEQUENCE:
        return "a sequence";
    case OP_KIND_OPTIONAL:
        return "an optional";
    case OP_KIND_MAP:
        return "a map";
    default:
        return "a tensor";
    }
}

base_status op_check_input(const op_call *call, uint32_t input, unsigned dtypes, base_report *report) {
    char expected[256];
    if (!op_input_present(call, input)) {
        set_text(dtypes, expected, sizeof expected);
        return base_fail(report, BASE_INVALID, "input %u is absent, expected %s", input, expected);
    }
    const op_type *type = &call->inputs[input].type;
    if (type->kind != OP_KIND_TENSOR) {
        return base_fail(report, BASE_INVALID, "input %u is %s, expected a tensor", input,
                         kind_name(type->kind));
    }
    if (type->shape.rank > OP_MAX_RANK) {
        return base_fail(report, BASE_INVALID, "input %u has rank %d, expected at most %d", input,
                         type->shape.rank, OP_MAX_RANK);
    }
    if (dtypes & OP_SET(type->dtype)) return BASE_OK;
    set_text(dtypes, expected, sizeof expected);
    return base_fail(report, BASE_INVALID, "input %u is %s, expected %s", input, op_dtype_name(type->dtype),
                     expected);
}

base_status op_check_same(const op_call *call, uint32_t input, uint32_t other, base_report *report) {
    return op_check_input(call, input, OP_SET(call->inputs[other].type.dtype), report);
}

base_status op_check_vector(const op_call *call, uint32_t input, bool scalar, base_report *report) {
    int32_t rank = call->inputs[input].type.shape.rank;
    if (rank < 0 || rank == 1 || (scalar && rank == 0)) return BASE_OK;
    return base_fail(report, BASE_INVALID, "input %u has rank %d, expected %s", input, rank,
                     scalar ? "a scalar or a vector" : "a vector");
}

base_status op_check_elements(const op_call *call, uint32_t input, int64_t count, base_report *report) {
    int64_t elements;
    if (!op_input_present(call, input) || !op_shape_elements(&call->inputs[input].type.shape, &elements) ||
        elements == count)
        return BASE_OK;
    return base_fail(report, BASE_INVALID, "input %u has %" PRId64 " elements, expected %" PRId64, input,
                     elements, count);
}

void op_output_set(op_call *call, uint32_t output, op_dtype dtype, const op_shape *shape) {
    op_tensor *tensor = &call->outputs[output];
    tensor->type = (op_type){.dtype = dtype, .shape = {.rank = -1}};
    if (shape) tensor->type.shape = *shape;
    tensor->symbolic = NULL;
}

op_shape op_shape_of_rank(int32_t rank) {
    op_shape shape = {.rank = rank};
    for (int32_t i = 0; i < rank; i++) shape.dims[i] = OP_DIM_UNKNOWN;
    return shape;
}

char *op_shape_text(const op_shape *shape, char *text, size_t capacity) {
    if (shape->rank < 0) {
        snprintf(text, capacity, "[...]");
        return text;
    }
    size_t length = (size_t)snprintf(text, capacity, "[");
    for (int32_t i = 0; i < shape->rank && length < capacity; i++) {
        const char *comma = i ? "," : "";
        int64_t dim = shape->dims[i];
        if (dim >= 0) length += (size_t)snprintf(text + length, capacity - length, "%s%" PRId64, comma, dim);
        else if (dim == OP_DIM_UNKNOWN)
            length += (size_t)snprintf(text + length, capacity - length, "%s?", comma);
        else length += (size_t)snprintf(text + length, capacity - length, "%ss%" PRId64, comma, -dim);
    }
    if (length < capacity) snprintf(text + length, capacity - length, "]");
    return text;
}

/* Elements of a shape of rank 0 or 1 that is small enough to be followed; -1 otherwise. */
static int64_t small_count(const op_type *type) {
    if (type->kind != OP_KIND_TENSOR || type->shape.rank < 0 || type->shape.rank > 1) return -1;
    int64_t count = type->shape.rank ? type->shape.dims[0] : 1;
    return count >= 0 && count <= OP_SYMBOLIC_COUNT ? count : -1;
}

int64_t op_input_count(const op_call *call, uint32_t input) {
    if (!op_input_present(call, input)) return -1;
    const op_type *type = &call->inputs[input].type;
    return OP_SET(type->dtype) & OP_SET_INDICES ? small_count(type) : -1;
}

int64_t *op_output_symbolic(op_call *call, int64_t *count) {
    const op_type *type = &call->outputs[0].type;
    *count = OP_SET(type->dtype) & OP_SET_INDICES ? small_count(type) : -1;
    return call->arena && *count >= 0 ? BASE_ARRAY(call->arena, int64_t, (size_t)*count) : NULL;
}

void op_output_symbolic_end(op_call *call, int64_t *values, int64_t count) {
    bool known = count == 0;
    for (int64_t i = 0; i < count; i++) known = known || values[i] != OP_DIM_UNKNOWN;
    if (known) call->outputs[0].symbolic = values;
}

void op_output_symbolic_copy(op_call *call, uint32_t input) {
    int64_t count;
    if (op_input_count(call, input) < 0) return;
    int64_t *values = op_output_symbolic(call, &count);
    if (!values || count != op_input_count(call, input)) return;
    for (int64_t i = 0; i < count; i++) values[i] = op_input_dim(call, input, i);
    op_output_symbolic_end(call, values, count);
}

base_status op_input_shape(const op_call *call, uint32_t input, op_shape *shape, base_report *report) {
    base_status status = op_check_vector(call, input, false, report);
    if (status != BASE_OK) return status;
    const op_shape *vector = &call->inputs[input].type.shape;
    *shape = (op_shape){.rank = -1};
    if (vector->rank != 1 || vector->dims[0] < 0) return BASE_OK;
    if (vector->dims[0] > OP_MAX_RANK) {
        return base_fail(report, BASE_INVALID,
                         "input %u spells a shape of rank %" PRId64 ", expected at most %d", input,
                         vector->dims[0], OP_MAX_RANK);
    }
    *shape = op_shape_of_rank((int32_t)vector->dims[0]);
    for (int32_t i = 0; i < shape->rank; i++) {
        int64_t value;
        if (op_input_integer(call, input, i, &value) && value < 0) {
            return base_fail(report, BASE_INVALID,
                             "input %u spells the dimension %" PRId64 ", expected at least 0", input, value);
        }
        shape->dims[i] = op_input_dim(call, input, i);
    }
    return BASE_OK;
}

base_status op_input_axes(const op_call *call, uint32_t input, int32_t rank, bool marks[OP_MAX_RANK],
                          bool *known, base_report *report) {
    memset(marks, 0, OP_MAX_RANK * sizeof *marks);
    *known = false;
    const op_shape *vector = &call->inputs[input].type.shape;
    if (vector->rank < 0 || (vector->rank == 1 && vector->dims[0] < 0)) return BASE_OK;
    int64_t count = vector->rank ? vector->dims[0] : 1;
    if (count > rank) {
        return base_fail(report, BASE_INVALID, "input %u names %" PRId64 " axes, expected at most %d", input,
                         count, rank);
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t value;
        int32_t axis;
        if (!op_input_integer(call, input, i, &value)) return BASE_OK;
        if (!op_axis(value, rank, &axis)) {
            return base_fail(report, BASE_INVALID, "axis %" PRId64 " is outside of [%d, %d)", value, -rank,
                             rank);
        }
        if (marks[axis]) return base_fail(report, BASE_INVALID, "axis %" PRId64 " is named twice", value);
        marks[axis] = true;
    }
    *known = true;
    return BASE_OK;
}

base_status op_attribute_axis(const op_call *call, int64_t otherwise, int32_t rank, int32_t *axis,
                              base_report *report) {
    int64_t value = op_attribute_integer(&call->attributes, "axis", otherwise);
    if (op_axis(value, rank, axis)) return BASE_OK;
    if (rank == 0)
        return base_fail(report, BASE_INVALID, "a scalar has no axes, expected at least one dimension");
    return base_fail(report, BASE_INVALID, "attribute \"axis\" is %" PRId64 ", expected a number in [%d, %d)",
                     value, -rank, rank);
}
