/* SPDX-License-Identifier: Apache-2.0 */
/* infer_matrix.c: shape functions of matrix products, and of Reorder, which changes a layout only. */
#include "ir/operators/infer.h"
#include <inttypes.h>

/* The extent that two dimensions which must be equal have: the known one, or the first. False: they differ.
 */
static bool unify(int64_t a, int64_t b, int64_t *result) {
    if (a >= 0 && b >= 0 && a != b) return false;
    *result = a >= 0 || b == OP_DIM_UNKNOWN ? a : b >= 0 || a == OP_DIM_UNKNOWN ? b : a;
    return true;
}

/* `shape` can be broadcast to `to` without changing it, as far as known. */
static bool broadcasts_to(const op_shape *shape, const op_shape *to) {
    if (shape->rank < 0 || to->rank < 0) return true;
    if (shape->rank > to->rank) return false;
    for (int32_t i = 0; i < shape->rank; i++) {
        int64_t from = shape->dims[shape->rank - 1 - i], want = to->dims[to->rank - 1 - i];
        if (from >= 0 && from != 1 && want >= 0 && from != want) return false;
    }
    return true;
}

static base_status check_broadcast(const op_call *call, uint32_t input, const op_shape *to,
                                   base_report *report) {
    const op_shape *shape = &call->inputs[input].type.shape;
    if (broadcasts_to(shape, to)) return BASE_OK;
    char have[128], want[128];
    return base_fail(report, BASE_INVALID, "input %u has shape %s, expected one that broadcasts to %s", input,
                     op_shape_text(shape, have, sizeof have), op_shape_text(to, want, sizeof want));
}

base_status op_product_shape(const op_call *call, uint32_t left, uint32_t right, op_shape *shape,
                             base_report *report) {
    const op_shape a = call->inputs[left].type.shape, b = call->inputs[right].type.shape;
    *shape = (op_shape){.rank = -1};
    if (a.rank == 0 || b.rank == 0) {
        return base_fail(report, BASE_INVALID, "input %u is a scalar, expected rank 1 or more",
                         a.rank == 0 ? left : right);
    }
    if (a.rank < 0 || b.rank < 0) return BASE_OK;
    /* As numpy: a vector on the left is a row, on the right a column; the dimension made for it is dropped.
     */
    bool row = a.rank == 1, column = b.rank == 1;
    int64_t inner_a = a.dims[a.rank - 1], inner_b = b.dims[column ? 0 : b.rank - 2], inner;
    if (!unify(inner_a, inner_b, &inner)) {
        return base_fail(report, BASE_INVALID,
                         "input %u has %" PRId64 " rows, expected %" PRId64 ", the columns of input %u",
                         right, inner_b, inner_a, left);
    }
    op_shape batch_a = {.rank = row ? 0 : a.rank - 2}, batch_b = {.rank = column ? 0 : b.rank - 2};
    for (int32_t i = 0; i < batch_a.rank; i++) batch_a.dims[i] = a.dims[i];
    for (int32_t i = 0; i < batch_b.rank; i++) batch_b.dims[i] = b.dims[i];
    if (!op_shape_broadcast(call, &batch_a, &batch_b, shape)) {
        char first[128], second[128];
        return base_fail(
            report, BASE_INVALID, "the stacks of matrices %s and %s do not fit, expected ones that broadcast",
            op_shape_text(&batch_a, first, sizeof first), op_shape_text(&batch_b, second, sizeof second));
    }
    if (!row) shape->dims[shape->rank++] = a.dims[a.rank - 2];
    if (!column) shape->dims[shape->rank++] = b.dims[b.rank - 1];
    return BASE_OK;
}

bool op_matmul_operand(const op_call *call, uint32_t operand, op_shape *shape, int64_t *strides) {
    const op_shape *own = &call->inputs[operand].type.shape;
    size_t count;
    const int64_t *order =
        op_attribute_integers(&call->attributes, operand ? "ouro.right" : "ouro.left", &count);
    *shape = *own;
    if (order && own->rank >= 0 && count != (size_t)own->rank) return false;
    bool seen[OP_MAX_RANK] = {false};
    for (int32_t i = 0; i < own->rank; i++) {
        const int64_t axis = order ? order[i] : i;
        if (axis < 0 || axis >= own->rank || seen[axis]) return false;
        seen[axis] = true;
        shape->dims[i] = own->dims[axis];
        if (!strides) continue;
        strides[i] = 1;
        for (int32_t k = own->rank - 1; k > axis; k--) strides[i] *= own->dims[k];
    }
    return true;
}

/* The right matrix has the type of the left one. One that our passes stored in 16 bits is read as floats (ouro.weights_error). */
static base_status check_right(const op_call *call, base_report *report) {
    const op_dtype dtype = call->inputs[1].type.dtype;
    const bool scaled = op_attribute_find(&call->attributes, "ouro.weights_scale") != NULL;
    if (op_attribute_find(&call->attributes, "ouro.weights_error") &&
        call->inputs[0].type.dtype == OP_FLOAT &&
        (dtype == OP_FLOAT16 || dtype == OP_BFLOAT16 || (dtype == OP_INT16 && scaled)))
        return BASE_OK;
    return op_check_same(call, 1, 0, report);
}

base_status op_infer_matmul(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_WIDE, report);
    if (status == BASE_OK) status = check_right(call, report);
    if (status == BASE_OK && op_input_present(call, 2)) status = op_check_same(call, 2, 0, report);
    op_shape shape;
    if (status == BASE_OK) {
        op_tensor operands[2] = {call->inputs[0], call->inputs[1]};
        op_call seen = *call;
        seen.inputs = operands;
        for (uint32_t i = 0; i < 2; i++) {
            if (!op_matmul_operand(call, i, &operands[i].type.shape, NULL))
                return base_fail(report, BASE_INVALID,
                                 "attribute ouro.%s is no order of the axes of input %u",
                                 i ? "right" : "left", i);
        }
        status = op_product_shape(&seen, 0, 1, &shape, report);
    }
    if (status == BASE_OK && shape.rank >= 0 && op_input_present(call, 2)) {
        status = check_broadcast(call, 2, &shape, report);
    }
    if (status == BASE_OK) op_output_set(call, 0, call->inputs[0].type.dtype, &shape);
    return status;
}

base_status op_infer_gemm(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_WIDE, report);
    if (status == BASE_OK) status = check_right(call, report);
    if (status == BASE_OK && op_input_present(call, 2)) status = op_check_same(call, 2, 0, report);
    if (status != BASE_OK) return status;
    op_shape shape = op_shape_of_rank(2);
    int64_t inner[2] = {OP_DIM_UNKNOWN, OP_DIM_UNKNOWN}, both;
    for (uint32_t i = 0; i < 2; i++) {
        const op_shape *matrix = &call->inputs[i].type.shape;
        bool transposed = op_attribute_integer(&call->attributes, i ? "transB" : "transA", 0) != 0;
        if (matrix->rank < 0) continue;
        if (matrix->rank != 2) {
            return base_fail(report, BASE_INVALID, "input %u has rank %d, expected a matrix", i,
                             matrix->rank);
        }
        bool outer_first = (i == 0) != transposed;
        shape.dims[i] = matrix->dims[outer_first ? 0 : 1];
        inner[i] = matrix->dims[outer_first ? 1 : 0];
    }
    if (!unify(inner[0], inner[1], &both)) {
        return base_fail(report, BASE_INVALID,
                         "the matrices do not fit: input 1 has inner dimension %" PRId64 ", expected %" PRId64
                         ", that of input 0 (after transA and transB)",
                         inner[1], inner[0]);
    }
    if (op_input_present(call, 2)) {
        status = check_broadcast(call, 2, &shape, report);
        if (status != BASE_OK) return status;
    }
    op_output_set(call, 0, call->inputs[0].type.dtype, &shape);
    return BASE_OK;
}

base_status op_infer_reorder(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_ANY, report);
    if (status != BASE_OK) return status;
    const op_type *type = &call->inputs[0].type;
    int64_t layout = op_attribute_integer(&call->attributes, "ouro.layout", -1);
    if (layout < 0 || layout >= OP_LAYOUT_COUNT || layout == OP_LAYOUT_PACKED) {
        return base_fail(report, BASE_INVALID,
                         "attribute \"ouro.layout\" is %" PRId64 ", expected 0 (row-major) to 3 (nhwc)",
                         layout);
    }
    bool wants = layout != OP_LAYOUT_ROW_MAJOR || type->layout != OP_LAYOUT_ROW_MAJOR;
    if (type->layout == OP_LAYOUT_PACKED || (wants && type->shape.rank >= 0 && type->shape.rank < 3)) {
        return base_fail(
            report, BASE_INVALID,
            "input 0 is %s of rank %d, expected a tensor of batch, channels and spatial dimensions",
            op_layout_name(type->layout), type->shape.rank);
    }
    op_output_set(call, 0, type->dtype, &type->shape);
    call->outputs[0].type.layout = (op_layout)layout;
    return BASE_OK;
}
