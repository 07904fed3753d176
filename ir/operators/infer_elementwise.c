/* SPDX-License-Identifier: Apache-2.0 */
/* infer_elementwise.c: shape functions of operators that work element by element, with numpy's broadcasting.
 */
#include "ir/operators/infer.h"
#include <inttypes.h>

/* What each operator takes, from ONNX's type constraints. */
static unsigned accepted(op_code code) {
    static const unsigned sets[OP_CODE_COUNT] = {
        [OP_ABS] = OP_SET_NUMBERS,
        [OP_CEIL] = OP_SET_FLOATS,
        [OP_CLIP] = OP_SET_NUMBERS,
        [OP_ERF] = OP_SET_NUMBERS,
        [OP_EXP] = OP_SET_FLOATS,
        [OP_FLOOR] = OP_SET_FLOATS,
        [OP_LOG] = OP_SET_FLOATS,
        [OP_NEG] = OP_SET_FLOATS | OP_SET_SIGNED,
        [OP_NOT] = OP_SET_BOOL,
        [OP_RECIPROCAL] = OP_SET_FLOATS,
        [OP_RELU] = OP_SET_FLOATS | OP_SET_SIGNED,
        [OP_LEAKY_RELU] = OP_SET_FLOATS,
        [OP_SIGMOID] = OP_SET_FLOATS,
        [OP_SQRT] = OP_SET_FLOATS,
        [OP_TANH] = OP_SET_FLOATS,
        [OP_ACOS] = OP_SET_FLOATS,
        [OP_ACOSH] = OP_SET_FLOATS,
        [OP_ASIN] = OP_SET_FLOATS,
        [OP_ASINH] = OP_SET_FLOATS,
        [OP_ATAN] = OP_SET_FLOATS,
        [OP_ATANH] = OP_SET_FLOATS,
        [OP_CELU] = OP_SET_FLOATS,
        [OP_COS] = OP_SET_FLOATS,
        [OP_COSH] = OP_SET_FLOATS,
        [OP_ELU] = OP_SET_FLOATS,
        [OP_HARD_SIGMOID] = OP_SET_FLOATS,
        [OP_HARD_SWISH] = OP_SET_FLOATS,
        [OP_ROUND] = OP_SET_FLOATS,
        [OP_SELU] = OP_SET_FLOATS,
        [OP_SIGN] = OP_SET_NUMBERS,
        [OP_SIN] = OP_SET_FLOATS,
        [OP_SINH] = OP_SET_FLOATS,
        [OP_SOFTPLUS] = OP_SET_FLOATS,
        [OP_SOFTSIGN] = OP_SET_FLOATS,
        [OP_TAN] = OP_SET_FLOATS,
        [OP_THRESHOLDED_RELU] = OP_SET_FLOATS,
        [OP_GELU] = OP_SET_FLOATS,
        [OP_MISH] = OP_SET_FLOATS,
        [OP_SWISH] = OP_SET_FLOATS,
        [OP_BITWISE_NOT] = OP_SET_INTEGERS,
        [OP_ADD] = OP_SET_NUMBERS,
        [OP_SUB] = OP_SET_NUMBERS,
        [OP_MUL] = OP_SET_NUMBERS,
        [OP_DIV] = OP_SET_NUMBERS,
        [OP_POW] = OP_SET_FLOATS | OP_SET(OP_INT32) | OP_SET(OP_INT64),
        [OP_MIN] = OP_SET_NUMBERS,
        [OP_MAX] = OP_SET_NUMBERS,
        [OP_MOD] = OP_SET_NUMBERS,
        [OP_PRELU] = OP_SET_WIDE,
        [OP_AND] = OP_SET_BOOL,
        [OP_OR] = OP_SET_BOOL,
        [OP_XOR] = OP_SET_BOOL,
        [OP_BITWISE_AND] = OP_SET_INTEGERS,
        [OP_BITWISE_OR] = OP_SET_INTEGERS,
        [OP_BITWISE_XOR] = OP_SET_INTEGERS,
        [OP_BIT_SHIFT] = OP_SET_UNSIGNED,
        [OP_EQUAL] = OP_SET_NUMBERS | OP_SET_BOOL | OP_SET(OP_STRING),
        [OP_LESS] = OP_SET_NUMBERS,
        [OP_GREATER] = OP_SET_NUMBERS,
        [OP_LESS_OR_EQUAL] = OP_SET_NUMBERS,
        [OP_GREATER_OR_EQUAL] = OP_SET_NUMBERS,
    };
    return sets[code];
}

/* A result that has the shape of input `input` also lies in memory as that does. */
static void keep_layout(op_call *call, uint32_t input) {
    const op_type *type = &call->inputs[input].type;
    if (type->layout == OP_LAYOUT_ROW_MAJOR || !op_shape_equal(&type->shape, &call->outputs[0].type.shape))
        return;
    call->outputs[0].type.layout = type->layout;
}

base_status op_infer_elementwise_unary(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, accepted(call->code), report);
    if (status == BASE_OK && call->code == OP_GELU &&
        !op_attribute_is(&call->attributes, "approximate", "none", "none") &&
        !op_attribute_is(&call->attributes, "approximate", "tanh", "none")) {
        return base_fail(report, BASE_INVALID, "attribute \"approximate\" is neither none nor tanh");
    }
    if (status != BASE_OK) return status;
    const op_type *type = &call->inputs[0].type;
    for (uint32_t i = 1; i < call->input_count; i++) { /* the limits of Clip */
        if (!op_input_present(call, i)) continue;
        status = op_check_same(call, i, 0, report);
        if (status != BASE_OK) return status;
        int64_t elements;
        const op_shape *shape = &call->inputs[i].type.shape;
        if (op_shape_elements(shape, &elements) && elements != 1) {
            return base_fail(report, BASE_INVALID, "input %u has %" PRId64 " elements, expected a scalar", i,
                             elements);
        }
    }
    op_output_set(call, 0, type->dtype, &type->shape);
    keep_layout(call, 0);
    return BASE_OK;
}

base_status op_infer_cast(op_call *call, base_report *report) {
    const unsigned from = OP_SET_NUMBERS | OP_SET_BOOL | OP_SET(OP_STRING) | OP_SET_SMALL;
    base_status status = op_check_input(call, 0, from, report);
    if (status != BASE_OK) return status;
    int64_t to = op_attribute_integer(&call->attributes, "to", OP_NONE);
    if (to <= OP_NONE || to >= OP_DTYPE_COUNT || !(from & OP_SET(to))) {
        return base_fail(report, BASE_INVALID,
                         "attribute \"to\" is %" PRId64
                         ", expected the number of a real, integer, bool or string type",
                         to);
    }
    op_output_set(call, 0, (op_dtype)to, &call->inputs[0].type.shape);
    keep_layout(call, 0);
    op_output_symbolic_copy(call, 0);
    return BASE_OK;
}

base_status op_infer_bit_cast(op_call *call, base_report *report) {
    const unsigned from = OP_SET_STORED & ~OP_SET(OP_STRING);
    base_status status = op_check_input(call, 0, from, report);
    if (status != BASE_OK) return status;
    const int64_t to = op_attribute_integer(&call->attributes, "to", OP_NONE);
    const op_type *type = &call->inputs[0].type;
    if (to <= OP_NONE || to >= OP_DTYPE_COUNT || !(from & OP_SET(to)) ||
        op_dtype_bits((op_dtype)to) != op_dtype_bits(type->dtype))
        return base_fail(report, BASE_INVALID,
                         "attribute \"to\" is %" PRId64 ", expected the number of a type of %u bits", to,
                         op_dtype_bits(type->dtype));
    op_output_set(call, 0, (op_dtype)to, &type->shape);
    return BASE_OK;
}

/* The broadcast shape of all inputs becomes that of output 0. */
static base_status broadcast(op_call *call, op_dtype dtype, base_report *report) {
    op_shape shape = call->inputs[0].type.shape;
    for (uint32_t i = 1; i < call->input_count; i++) {
        op_shape joined;
        if (!op_shape_broadcast(call, &shape, &call->inputs[i].type.shape, &joined)) {
            char left[160], right[160];
            return base_fail(report, BASE_INVALID, "shapes %s and %s of the inputs cannot be broadcast",
                             op_shape_text(&shape, left, sizeof left),
                             op_shape_text(&call->inputs[i].type.shape, right, sizeof right));
        }
        shape = joined;
    }
    op_output_set(call, 0, dtype, &shape);
    for (uint32_t i = 0; i < call->input_count && call->outputs[0].type.layout == OP_LAYOUT_ROW_MAJOR; i++) {
        keep_layout(call, i);
    }
    return BASE_OK;
}

/* One element of the result of integer arithmetic on what is known. */
static int64_t compute(const op_call *call, int64_t index) {
    int64_t operands[2], numbers[2] = {0, 0};
    bool known = true;
    for (uint32_t i = 0; i < 2; i++) {
        int64_t at = op_input_count(call, i) == 1 ? 0 : index;
        operands[i] = op_input_dim(call, i, at);
        known = op_input_integer(call, i, at, &numbers[i]) && known;
    }
    if (known) {
        int64_t a = numbers[0], b = numbers[1], result = -1;
        bool fits = true;
        switch (call->code) {
        case OP_ADD:
            fits = base_int64_add(a, b, &result);
            break;
        case OP_SUB:
            fits = b != INT64_MIN && base_int64_add(a, -b, &result);
            break;
        case OP_MUL:
            fits = base_int64_multiply(a, b, &result);
            break;
        case OP_DIV:
            fits = b > 0;
            if (fits) result = a / b;
            break;
        case OP_MOD:
            fits = b > 0 && a >= 0;
            if (fits) result = a % b;
            break;
        case OP_MIN:
            result = a < b ? a : b;
            break;
        case OP_MAX:
            result = a > b ? a : b;
            break;
        default:
            return OP_DIM_UNKNOWN;
        }
        /* A negative number cannot stand among dimensions; a narrower type wraps around, where this does not.
         */
        if (!fits || result < 0) return OP_DIM_UNKNOWN;
        if (call->outputs[0].type.dtype == OP_INT32 && result > INT32_MAX) return OP_DIM_UNKNOWN;
        return result;
    }
    if (operands[0] == OP_DIM_UNKNOWN || operands[1] == OP_DIM_UNKNOWN) return OP_DIM_UNKNOWN;
    switch (call->code) {
    case OP_ADD:
        return op_dim_compute(call, '+', operands[0], operands[1]);
    case OP_SUB:
        return op_dim_compute(call, '-', operands[0], operands[1]);
    case OP_MUL:
        return op_dim_compute(call, '*', operands[0], operands[1]);
    case OP_DIV:
        return operands[1] == 0 ? OP_DIM_UNKNOWN : op_dim_compute(call, '/', operands[0], operands[1]);
    case OP_MIN:
    case OP_MAX:
        return operands[0] == operands[1] ? operands[0] : OP_DIM_UNKNOWN;
    default:
        return OP_DIM_UNKNOWN;
    }
}

base_status op_infer_elementwise_binary(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, accepted(call->code), report);
    if (status != BASE_OK) return status;
    const op_type *type = &call->inputs[0].type;
    /* The exponent of Pow may be of any numeric type. */
    status = call->code == OP_POW ? op_check_input(call, 1, OP_SET_NUMBERS, report)
                                  : op_check_same(call, 1, 0, report);
    if (status != BASE_OK) return status;
    if (call->code == OP_MOD && (OP_SET(type->dtype) & OP_SET_FLOATS) &&
        op_attribute_integer(&call->attributes, "fmod", 0) != 1) {
        return base_fail(report, BASE_INVALID, "attribute \"fmod\" is 0, expected 1 for %s",
                         op_dtype_name(type->dtype));
    }
    status = broadcast(call, type->dtype, report);
    if (status != BASE_OK) return status;
    if (call->code == OP_PRELU && op_shape_known(&type->shape) &&
        op_shape_known(&call->outputs[0].type.shape) &&
        !op_shape_equal(&type->shape, &call->outputs[0].type.shape)) {
        char left[160], right[160];
        return base_fail(report, BASE_INVALID,
                         "the slope's shape %s cannot be broadcast to the shape %s of input 0",
                         op_shape_text(&call->inputs[1].type.shape, left, sizeof left),
                         op_shape_text(&type->shape, right, sizeof right));
    }
    if (op_input_count(call, 0) < 0 || op_input_count(call, 1) < 0) return BASE_OK;
    int64_t count;
    int64_t *values = op_output_symbolic(call, &count);
    if (!values) return BASE_OK;
    for (int64_t i = 0; i < count; i++) values[i] = compute(call, i);
    op_output_symbolic_end(call, values, count);
    return BASE_OK;
}

base_status op_infer_bit_shift(op_call *call, base_report *report) {
    return op_infer_elementwise_binary(call, report);
}

base_status op_infer_compare(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, accepted(call->code), report);
    if (status == BASE_OK) status = op_check_same(call, 1, 0, report);
    if (status != BASE_OK) return status;
    return broadcast(call, OP_BOOL, report);
}

base_status op_infer_where(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_BOOL, report);
    if (status == BASE_OK) status = op_check_input(call, 1, OP_SET_ANY, report);
    if (status == BASE_OK) status = op_check_same(call, 2, 1, report);
    if (status == BASE_OK) status = broadcast(call, call->inputs[1].type.dtype, report);
    if (status != BASE_OK) return status;

    int64_t count, conditions;
    if (op_input_count(call, 1) < 0 || op_input_count(call, 2) < 0 || !call->inputs[0].data ||
        !op_shape_elements(&call->inputs[0].type.shape, &conditions)) {
        return BASE_OK;
    }
    int64_t *values = op_output_symbolic(call, &count);
    if (!values) return BASE_OK;
    const bool *condition = call->inputs[0].data;
    for (int64_t i = 0; i < count; i++) {
        uint32_t chosen = condition[conditions == 1 ? 0 : i] ? 1 : 2;
        values[i] = op_input_dim(call, chosen, op_input_count(call, chosen) == 1 ? 0 : i);
    }
    op_output_symbolic_end(call, values, count);
    return BASE_OK;
}

/* What the steps of ouro.Fused do is for its kernel to check (ir/operators/fused.h). */
base_status op_infer_fused(op_call *call, base_report *report) {
    const int64_t to = op_attribute_integer(&call->attributes, "to", OP_NONE);
    if (to <= OP_NONE || to >= OP_DTYPE_COUNT || !((OP_SET_NUMBERS | OP_SET_BOOL) & OP_SET(to)))
        return base_fail(report, BASE_INVALID,
                         "attribute \"to\" is %" PRId64 ", expected the number of a type", to);
    for (uint32_t i = 0; i < call->input_count; i++) {
        const base_status status = op_check_input(call, i, OP_SET_NUMBERS | OP_SET_BOOL, report);
        if (status != BASE_OK) return status;
    }
    return broadcast(call, (op_dtype)to, report);
}
