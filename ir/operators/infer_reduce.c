/* SPDX-License-Identifier: Apache-2.0 */
/* infer_reduce.c: shape functions of reductions and of normalisations along an axis. */
#include "ir/operators/infer.h"

static unsigned accepted(op_code code) {
    bool extremum = code == OP_REDUCE_MAX || code == OP_REDUCE_MIN;
    return extremum ? OP_SET_WIDE | OP_SET(OP_INT8) | OP_SET(OP_UINT8) | OP_SET_BOOL : OP_SET_WIDE;
}

/* The sum or the product of the elements of a vector of known values: the number of elements of a shape, say.
 */
static void reduce_values(op_call *call) {
    if (call->code != OP_REDUCE_PROD && call->code != OP_REDUCE_SUM) return;
    int64_t from = op_input_count(call, 0), count;
    if (from < 1 || call->inputs[0].type.shape.rank != 1) return;
    int64_t *values = op_output_symbolic(call, &count);
    if (!values || count != 1) return;
    int64_t value = op_input_dim(call, 0, 0);
    for (int64_t i = 1; i < from && value != OP_DIM_UNKNOWN; i++) {
        int64_t next = op_input_dim(call, 0, i);
        if (next == OP_DIM_UNKNOWN) value = next;
        else value = op_dim_compute(call, call->code == OP_REDUCE_PROD ? '*' : '+', value, next);
    }
    values[0] = value;
    op_output_symbolic_end(call, values, 1);
}

base_status op_infer_reduce(op_call *call, base_report *report) {
    const bool wide = call->code == OP_REDUCE_SUM && op_attribute_integer(&call->attributes, "ouro.wide", 0);
    base_status status =
        op_check_input(call, 0, wide ? OP_SET(OP_INT8) | OP_SET(OP_UINT8) : accepted(call->code), report);
    if (status != BASE_OK) return status;
    if (!op_attribute_is(&call->attributes, "ouro.of", "Abs", "Abs") &&
        !op_attribute_is(&call->attributes, "ouro.of", "Square", ""))
        return base_fail(report, BASE_INVALID, "attribute \"ouro.of\" is neither \"Abs\" nor \"Square\"");
    const op_type *type = &call->inputs[0].type;
    const op_dtype dtype = wide ? OP_INT32 : type->dtype;
    int32_t rank = type->shape.rank;
    bool keep = op_attribute_integer(&call->attributes, "keepdims", 1) != 0;
    bool noop = op_attribute_integer(&call->attributes, "noop_with_empty_axes", 0) != 0;
    bool given = op_input_present(call, 1);
    if (given) {
        status = op_check_input(call, 1, OP_SET(OP_INT64), report);
        if (status == BASE_OK) status = op_check_vector(call, 1, true, report);
        if (status != BASE_OK) return status;
    }
    const op_shape *axes = given ? &call->inputs[1].type.shape : NULL;
    bool none = !axes || (axes->rank == 1 && axes->dims[0] == 0);
    if (none && noop) { /* nothing is reduced */
        op_output_set(call, 0, dtype, &type->shape);
        if (!wide) op_output_symbolic_copy(call, 0);
        return BASE_OK;
    }
    if (none && !keep) {
        op_shape scalar = {.rank = 0};
        op_output_set(call, 0, dtype, &scalar);
        reduce_values(call);
        return BASE_OK;
    }
    if (rank < 0) {
        op_output_set(call, 0, dtype, NULL);
        return BASE_OK;
    }
    bool marks[OP_MAX_RANK], known = true;
    if (none) {
        for (int32_t i = 0; i < rank; i++) marks[i] = true;
    } else {
        status = op_input_axes(call, 1, rank, marks, &known, report);
        if (status != BASE_OK) return status;
    }
    op_shape shape = {.rank = 0};
    if (known) {
        for (int32_t i = 0; i < rank; i++) {
            if (!marks[i]) shape.dims[shape.rank++] = type->shape.dims[i];
            else if (keep) shape.dims[shape.rank++] = 1;
        }
    } else if (keep) {
        shape = op_shape_of_rank(rank);
    } else {
        /* As many dimensions vanish as axes are named, where that is known; possibly none of all are named.
         */
        int64_t named = axes->rank == 0 ? 1 : axes->rank == 1 ? axes->dims[0] : -1;
        shape = named > 0 && named <= rank ? op_shape_of_rank(rank - (int32_t)named) : (op_shape){.rank = -1};
    }
    op_output_set(call, 0, dtype, &shape);
    if (known && rank == 1 && marks[0]) reduce_values(call);
    return BASE_OK;
}

base_status op_infer_arg_reduce(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_NUMBERS, report);
    if (status != BASE_OK) return status;
    const op_type *type = &call->inputs[0].type;
    int32_t rank = type->shape.rank, axis;
    if (rank < 0) {
        op_output_set(call, 0, OP_INT64, NULL);
        return BASE_OK;
    }
    /* ONNX lets a scalar be reduced along axis 0, as its runtimes do. */
    op_shape shape = {.rank = 0};
    if (rank > 0) {
        status = op_attribute_axis(call, 0, rank, &axis, report);
        if (status != BASE_OK) return status;
        bool keep = op_attribute_integer(&call->attributes, "keepdims", 1) != 0;
        for (int32_t i = 0; i < rank; i++) {
            if (i != axis) shape.dims[shape.rank++] = type->shape.dims[i];
            else if (keep) shape.dims[shape.rank++] = 1;
        }
        int64_t elements;
        if (type->shape.dims[axis] == 0 && op_shape_elements(&shape, &elements) && elements > 0) {
            return base_fail(report, BASE_INVALID,
                             "axis %d of input 0 is empty, expected at least one element", axis);
        }
    }
    op_output_set(call, 0, OP_INT64, &shape);
    return BASE_OK;
}

base_status op_infer_softmax(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_FLOATS, report);
    if (status != BASE_OK) return status;
    const op_type *type = &call->inputs[0].type;
    int32_t axis;
    if (type->shape.rank > 0) {
        status = op_attribute_axis(call, -1, type->shape.rank, &axis, report);
        if (status != BASE_OK) return status;
    }
    op_output_set(call, 0, type->dtype, &type->shape);
    return BASE_OK;
}
