/* SPDX-License-Identifier: Apache-2.0 */
/* infer_generate.c: shape functions of operators that make values: from a shape, or from scalars. */
#include "ir/operators/infer.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

base_status op_infer_shape(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_STORED, report);
    if (status != BASE_OK) return status;
    const op_shape *from = &call->inputs[0].type.shape;
    op_shape shape = {.rank = 1, .dims = {OP_DIM_UNKNOWN}};
    if (from->rank < 0) {
        op_output_set(call, 0, OP_INT64, &shape);
        return BASE_OK;
    }
    int64_t start = op_attribute_integer(&call->attributes, "start", 0);
    int64_t end = op_attribute_integer(&call->attributes, "end", from->rank);
    if (start < 0) start += from->rank;
    if (end < 0) end += from->rank;
    start = start < 0 ? 0 : start > from->rank ? from->rank : start;
    end = end < 0 ? 0 : end > from->rank ? from->rank : end;
    shape.dims[0] = end > start ? end - start : 0;
    op_output_set(call, 0, OP_INT64, &shape);
    int64_t count;
    int64_t *values = op_output_symbolic(call, &count);
    if (!values) return BASE_OK;
    for (int64_t i = 0; i < count; i++) values[i] = from->dims[start + i];
    op_output_symbolic_end(call, values, count);
    return BASE_OK;
}

base_status op_infer_size(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_STORED, report);
    if (status != BASE_OK) return status;
    const op_shape *from = &call->inputs[0].type.shape;
    op_shape scalar = {.rank = 0};
    op_output_set(call, 0, OP_INT64, &scalar);
    int64_t count;
    int64_t *values = from->rank >= 0 ? op_output_symbolic(call, &count) : NULL;
    if (!values) return BASE_OK;
    values[0] = 1;
    for (int32_t i = 0; i < from->rank && values[0] != OP_DIM_UNKNOWN; i++) {
        values[0] = from->dims[i] == OP_DIM_UNKNOWN ? OP_DIM_UNKNOWN
                                                    : op_dim_compute(call, '*', values[0], from->dims[i]);
    }
    op_output_symbolic_end(call, values, 1);
    return BASE_OK;
}

base_status op_infer_constant_of_shape(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET(OP_INT64), report);
    if (status != BASE_OK) return status;
    op_dtype dtype = OP_FLOAT;
    const op_attribute *value = op_attribute_find(&call->attributes, "value");
    const op_tensor *tensor = value && value->kind == OP_ATTRIBUTE_TENSOR ? value->as.tensor : NULL;
    if (value) {
        int64_t elements;
        const unsigned expected = OP_SET_NUMBERS | OP_SET_BOOL | OP_SET_SMALL;
        if (!tensor || !(OP_SET(tensor->type.dtype) & expected) ||
            !op_shape_elements(&tensor->type.shape, &elements) || elements != 1 || !tensor->data) {
            return base_fail(report, BASE_INVALID,
                             "attribute \"value\" is not a numeric or bool tensor of one element");
        }
        dtype = tensor->type.dtype;
    }
    op_shape shape;
    status = op_input_shape(call, 0, &shape, report);
    if (status != BASE_OK) return status;
    op_output_set(call, 0, dtype, &shape);

    int64_t count, filled = 0;
    int64_t *values = tensor ? op_output_symbolic(call, &count) : NULL;
    if (!values) return BASE_OK;
    if (dtype == OP_INT64) memcpy(&filled, tensor->data, sizeof filled);
    else {
        int32_t narrow;
        memcpy(&narrow, tensor->data, sizeof narrow);
        filled = narrow;
    }
    for (int64_t i = 0; i < count; i++) values[i] = filled >= 0 ? filled : OP_DIM_UNKNOWN;
    op_output_symbolic_end(call, values, count);
    return BASE_OK;
}

/* What the bits of a float16 and of a bfloat16 mean. */
static double half_value(uint16_t bits) {
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    const double magnitude = exponent == 31  ? (mantissa ? (double)NAN : (double)INFINITY)
                             : exponent == 0 ? ldexp(mantissa, -24)
                                             : ldexp(mantissa + 1024, exponent - 25);
    return bits & 0x8000 ? -magnitude : magnitude;
}

static double brain_value(uint16_t bits) {
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return (double)value;
}

/* The scalar at input `input` as a double, or as an integer where it is one; false where it is not known. */
static bool scalar_value(const op_call *call, uint32_t input, double *real, int64_t *integer) {
    const op_tensor *tensor = &call->inputs[input];
    *integer = 0;
    if (OP_SET(tensor->type.dtype) & OP_SET_INDICES) {
        if (!op_input_integer(call, input, 0, integer)) return false;
        *real = (double)*integer;
        return true;
    }
    if (!tensor->data) return false;
    if (tensor->type.dtype == OP_INT16) {
        int16_t value;
        memcpy(&value, tensor->data, sizeof value);
        *integer = value;
        *real = value;
    } else if (tensor->type.dtype == OP_FLOAT16 || tensor->type.dtype == OP_BFLOAT16) {
        uint16_t half;
        memcpy(&half, tensor->data, sizeof half);
        *real = tensor->type.dtype == OP_FLOAT16 ? half_value(half) : brain_value(half);
    } else if (tensor->type.dtype == OP_FLOAT) {
        float value;
        memcpy(&value, tensor->data, sizeof value);
        *real = (double)value;
    } else {
        memcpy(real, tensor->data, sizeof *real);
    }
    return true;
}

/* max(ceil((limit - start) / delta), 0) for integers, without overflow; false where it does not fit. */
static bool integer_count(int64_t start, int64_t limit, int64_t delta, int64_t *count) {
    if (delta > 0 ? start >= limit : start <= limit) {
        *count = 0;
        return true;
    }
    uint64_t distance = delta > 0 ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;
    uint64_t step = delta > 0 ? (uint64_t)delta : 0 - (uint64_t)delta;
    uint64_t steps = distance / step + (distance % step != 0);
    if (steps > INT64_MAX) return false;
    *count = (int64_t)steps;
    return true;
}

base_status op_infer_range(op_call *call, base_report *report) {
    const unsigned expected = OP_SET_FLOATS | OP_SET(OP_INT16) | OP_SET_INDICES;
    base_status status = op_check_input(call, 0, expected, report);
    double reals[3];
    int64_t integers[3];
    bool known = true;
    for (uint32_t i = 0; i < 3; i++) {
        if (status == BASE_OK) status = op_check_same(call, i, 0, report);
        if (status != BASE_OK) return status;
        int64_t elements;
        if (op_shape_elements(&call->inputs[i].type.shape, &elements) && elements != 1) {
            return base_fail(report, BASE_INVALID, "input %u has %" PRId64 " elements, expected a scalar", i,
                             elements);
        }
        known = known && scalar_value(call, i, &reals[i], &integers[i]);
    }
    op_dtype dtype = call->inputs[0].type.dtype;
    const bool real = (OP_SET(dtype) & OP_SET_FLOATS) != 0;
    op_shape shape = {.rank = 1, .dims = {OP_DIM_UNKNOWN}};
    if (known) {
        if (reals[2] == 0.0)
            return base_fail(report, BASE_INVALID, "input 2 (delta) is 0, expected another number");
        bool fits = true;
        if (real) {
            double steps = ceil((reals[1] - reals[0]) / reals[2]);
            fits = steps < 9.0e18; /* false for a NaN */
            if (fits) shape.dims[0] = steps > 0.0 ? (int64_t)steps : 0;
        } else {
            fits = integer_count(integers[0], integers[1], integers[2], &shape.dims[0]);
        }
        if (!fits) return base_fail(report, BASE_INVALID, "the range has no countable number of elements");
    } else if ((OP_SET(dtype) & OP_SET_INDICES)) {
        /* From 0 by 1 there are as many as the limit says. */
        int64_t start, delta;
        if (op_input_integer(call, 0, 0, &start) && start == 0 && op_input_integer(call, 2, 0, &delta) &&
            delta == 1) {
            shape.dims[0] = op_input_dim(call, 1, 0);
        }
    }
    op_output_set(call, 0, dtype, &shape);
    int64_t count;
    int64_t *values = known ? op_output_symbolic(call, &count) : NULL;
    if (!values) return BASE_OK;
    for (int64_t i = 0; i < count; i++) {
        int64_t value = (int64_t)((uint64_t)integers[0] + (uint64_t)i * (uint64_t)integers[2]);
        values[i] = value >= 0 ? value : OP_DIM_UNKNOWN;
    }
    op_output_symbolic_end(call, values, count);
    return BASE_OK;
}
