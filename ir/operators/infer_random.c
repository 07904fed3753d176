/* SPDX-License-Identifier: Apache-2.0 */
/* infer_random.c: shape functions of operators that draw random numbers. */
#include "ir/operators/infer.h"
#include <inttypes.h>
#include <stdio.h>

/* Attribute dtype, one of the set; `otherwise` where it is absent. */
static base_status read_dtype(const op_call *call, op_dtype otherwise, unsigned accepted, op_dtype *dtype,
                              base_report *report) {
    const int64_t number = op_attribute_integer(&call->attributes, "dtype", otherwise);
    if (number > OP_NONE && number < OP_DTYPE_COUNT && accepted & OP_SET((unsigned)number)) {
        *dtype = (op_dtype)number;
        return BASE_OK;
    }
    const char *name =
        number > OP_NONE && number < OP_DTYPE_COUNT ? op_dtype_name((op_dtype)number) : "no type";
    char expected[256];
    size_t length = 0;
    expected[0] = 0;
    for (int i = OP_NONE + 1; i < OP_DTYPE_COUNT && length < sizeof expected; i++) {
        if (!(accepted & OP_SET((unsigned)i))) continue;
        length += (size_t)snprintf(expected + length, sizeof expected - length, "%s%s", length ? ", " : "",
                                   op_dtype_name((op_dtype)i));
    }
    return base_fail(report, BASE_INVALID, "attribute \"dtype\" is %" PRId64 " (%s), expected one of %s",
                     number, name, expected);
}

base_status op_infer_random(op_call *call, base_report *report) {
    size_t rank;
    const int64_t *dims = op_attribute_integers(&call->attributes, "shape", &rank);
    if (rank > OP_MAX_RANK) {
        return base_fail(report, BASE_INVALID, "attribute \"shape\" has %zu dimensions, expected at most %d",
                         rank, OP_MAX_RANK);
    }
    op_shape shape = {.rank = (int32_t)rank};
    for (size_t i = 0; i < rank; i++) {
        if (dims[i] < 0) {
            return base_fail(report, BASE_INVALID,
                             "attribute \"shape\" has the dimension %" PRId64 ", expected at least 0",
                             dims[i]);
        }
        shape.dims[i] = dims[i];
    }
    op_dtype dtype;
    base_status status = read_dtype(call, OP_FLOAT, OP_SET_FLOATS, &dtype, report);
    if (status == BASE_OK) op_output_set(call, 0, dtype, &shape);
    return status;
}

base_status op_infer_random_like(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_ANY, report);
    if (status != BASE_OK) return status;
    op_dtype dtype;
    status = read_dtype(call, call->inputs[0].type.dtype, OP_SET_FLOATS, &dtype, report);
    if (status == BASE_OK) op_output_set(call, 0, dtype, &call->inputs[0].type.shape);
    return status;
}

base_status op_infer_bernoulli(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_FLOATS, report);
    if (status != BASE_OK) return status;
    op_dtype dtype;
    status = read_dtype(call, call->inputs[0].type.dtype, OP_SET_NUMBERS | OP_SET_BOOL, &dtype, report);
    if (status == BASE_OK) op_output_set(call, 0, dtype, &call->inputs[0].type.shape);
    return status;
}

base_status op_infer_multinomial(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_FLOATS, report);
    if (status != BASE_OK) return status;
    const op_shape *x = &call->inputs[0].type.shape;
    const int64_t count = op_attribute_integer(&call->attributes, "sample_size", 1);
    if (count < 1) {
        return base_fail(report, BASE_INVALID,
                         "attribute \"sample_size\" is %" PRId64 ", expected at least 1", count);
    }
    if (x->rank >= 0 && (x->rank != 2 || x->dims[1] == 0)) {
        char text[128];
        return base_fail(report, BASE_INVALID,
                         "input 0 has shape %s, expected [batch, classes] with at least one class",
                         op_shape_text(x, text, sizeof text));
    }
    op_dtype dtype;
    status = read_dtype(call, OP_INT32, OP_SET_INDICES, &dtype, report);
    if (status != BASE_OK) return status;
    const op_shape shape = {.rank = 2, .dims = {x->rank == 2 ? x->dims[0] : OP_DIM_UNKNOWN, count}};
    op_output_set(call, 0, dtype, &shape);
    return BASE_OK;
}

/* Input `input` is a scalar, or anything of one element. */
static base_status check_scalar(const op_call *call, uint32_t input, const char *name, unsigned dtypes,
                                base_report *report) {
    if (!op_input_present(call, input)) return BASE_OK;
    base_status status = op_check_input(call, input, dtypes, report);
    if (status != BASE_OK) return status;
    const op_shape *shape = &call->inputs[input].type.shape;
    for (int32_t i = 0; i < shape->rank; i++) {
        if (shape->dims[i] < 0 || shape->dims[i] == 1) continue;
        char text[128];
        return base_fail(report, BASE_INVALID, "input %u (%s) has shape %s, expected a scalar", input, name,
                         op_shape_text(shape, text, sizeof text));
    }
    return BASE_OK;
}

base_status op_infer_dropout(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_FLOATS, report);
    if (status == BASE_OK) status = check_scalar(call, 1, "ratio", OP_SET_FLOATS, report);
    if (status == BASE_OK) status = check_scalar(call, 2, "training_mode", OP_SET_BOOL, report);
    if (status != BASE_OK) return status;
    op_output_set(call, 0, call->inputs[0].type.dtype, &call->inputs[0].type.shape);
    if (call->output_count > 1) op_output_set(call, 1, OP_BOOL, &call->inputs[0].type.shape);
    return BASE_OK;
}
