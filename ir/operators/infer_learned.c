/* SPDX-License-Identifier: Apache-2.0 */
/* infer_learned.c: shape functions of what the operators of ai.onnx.ml are made of. What its constants hold is checked by the kernel when it is prepared. */
#include "ir/operators/infer.h"
#include "ir/operators/tree_ensemble.h"

base_status op_infer_tree_ensemble(op_call *call, base_report *report) {
    const unsigned numbers = OP_SET(OP_FLOAT) | OP_SET(OP_DOUBLE) | OP_SET(OP_INT32) | OP_SET(OP_INT64);
    const unsigned reals = OP_SET(OP_FLOAT) | OP_SET(OP_DOUBLE);
    base_status status = op_check_input(call, OP_TREE_X, numbers, report);
    for (uint32_t i = OP_TREE_NODES; i <= OP_TREE_TARGETS && status == BASE_OK; i++) {
        status = op_check_input(call, i, OP_SET(OP_INT32), report);
        if (status == BASE_OK && i != OP_TREE_NODES) status = op_check_vector(call, i, false, report);
    }
    if (status == BASE_OK) status = op_check_input(call, OP_TREE_WEIGHTS, reals, report);
    if (status == BASE_OK && op_input_present(call, OP_TREE_BASE)) {
        status = op_check_same(call, OP_TREE_BASE, OP_TREE_WEIGHTS, report);
        if (status == BASE_OK) status = op_check_vector(call, OP_TREE_BASE, false, report);
    }
    if (status != BASE_OK) return status;
    const int64_t targets = op_attribute_integer(&call->attributes, "targets", 1);
    const op_shape *x = &call->inputs[OP_TREE_X].type.shape;
    const op_dtype dtype = call->inputs[OP_TREE_WEIGHTS].type.dtype;
    if (x->rank >= 0 && x->rank != 1 && x->rank != 2) {
        return base_fail(report, BASE_INVALID, "input 0 has rank %d, expected a row or a matrix of features",
                         x->rank);
    }
    if (targets < 1)
        return base_fail(report, BASE_INVALID, "%lld targets, expected at least 1", (long long)targets);
    op_shape shape = op_shape_of_rank(2);
    shape.dims[1] = targets;
    if (x->rank == 1) shape.dims[0] = 1;
    if (x->rank == 2) shape.dims[0] = x->dims[0];
    op_output_set(call, 0, dtype, &shape);
    return BASE_OK;
}

/* X has the type of the keys, the result that of the values. */
base_status op_infer_label_encoder(op_call *call, base_report *report) {
    const unsigned any = OP_SET_NUMBERS | OP_SET_BOOL | OP_SET(OP_STRING);
    base_status status = op_check_input(call, 1, any, report);
    if (status == BASE_OK) status = op_check_same(call, 0, 1, report);
    if (status == BASE_OK) status = op_check_vector(call, 1, true, report);
    if (status == BASE_OK) status = op_check_input(call, 2, any, report);
    if (status == BASE_OK) status = op_check_vector(call, 2, true, report);
    if (status == BASE_OK) status = op_check_same(call, 3, 2, report);
    if (status == BASE_OK) status = op_check_elements(call, 3, 1, report);
    int64_t keys;
    if (status == BASE_OK && op_shape_elements(&call->inputs[1].type.shape, &keys))
        status = op_check_elements(call, 2, keys, report);
    if (status != BASE_OK) return status;
    op_output_set(call, 0, call->inputs[2].type.dtype, &call->inputs[0].type.shape);
    return BASE_OK;
}

base_status op_infer_pairwise_coupling(op_call *call, base_report *report) {
    enum { MOST_CLASSES = 10000 };
    const int64_t classes = op_attribute_integer(&call->attributes, "classes", 0);
    const op_shape *x = &call->inputs[0].type.shape;
    base_status status = op_check_input(call, 0, OP_SET(OP_FLOAT), report);
    if (status != BASE_OK) return status;
    if (classes < 2 || classes > MOST_CLASSES)
        return base_fail(report, BASE_INVALID, "attribute \"classes\" is %lld, expected 2 to %d",
                         (long long)classes, MOST_CLASSES);
    const int64_t pairs = classes * (classes - 1) / 2;
    if (x->rank >= 0 && (x->rank != 2 || (x->dims[1] >= 0 && x->dims[1] != pairs)))
        return base_fail(report, BASE_INVALID, "input 0 is not a matrix with a column for each of %lld pairs",
                         (long long)pairs);
    const op_shape shape = {2, {x->rank == 2 ? x->dims[0] : OP_DIM_UNKNOWN, classes}};
    op_output_set(call, 0, OP_FLOAT, &shape);
    return BASE_OK;
}
