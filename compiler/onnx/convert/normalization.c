/* SPDX-License-Identifier: Apache-2.0 */
/* normalization.c: GroupNormalization and RMSNormalization. */
#include "compiler/onnx/convert/convert.h"
#include "compiler/onnx/convert/expression.h"

ir_value *import_group_normalized(const import_node *n, ir_value *x, int64_t groups, double epsilon) {
    const int64_t extents[] = {0, groups, -1}, last = 2;
    ir_value *grouped = expr_reshape(n, x, 3, extents);
    if (!grouped) return NULL;
    grouped = expr_cast(n, grouped, import_dtype_of(x) == OP_DOUBLE ? OP_DOUBLE : OP_FLOAT);
    ir_value *centred =
        expr_binary(n, OP_SUB, grouped, expr_reduce(n, OP_REDUCE_MEAN, grouped, 1, &last, true));
    ir_value *variance =
        expr_reduce(n, OP_REDUCE_MEAN, expr_binary(n, OP_MUL, centred, centred), 1, &last, true);
    ir_value *root =
        expr_unary(n, OP_SQRT, expr_binary(n, OP_ADD, variance, expr_number(n, grouped, epsilon)));
    return expr_binary(n, OP_DIV, centred, root);
}

ir_value *import_beside_channels(const import_node *n, ir_value *x, int32_t rank) {
    int64_t axes[OP_MAX_RANK];
    for (int32_t i = 0; i < rank - 2; i++) axes[i] = 1 + i;
    return rank == 2 ? x
                     : expr_binary(n, OP_UNSQUEEZE, x, import_constant_integers(n, (size_t)rank - 2, axes));
}

/* Up to opset 20 scale and bias had one number a group, since then they have one a channel. */
base_status import_convert_group_normalization(import_node *n) {
    ir_value *x = expr_input(n, 0), *scale = expr_input(n, 1), *bias = expr_input(n, 2);
    base_status status = expr_need_dtype(n, x);
    const int32_t rank = import_rank_of(x);
    const int64_t groups = import_integer(n, "num_groups", 0);
    if (status != BASE_OK) return status;
    if (rank < 2)
        return base_fail_unsupported(n->importer->report, "needs an input of known rank, at least 2");
    if (groups < 1)
        return base_fail(n->importer->report, BASE_INVALID,
                         "attribute \"num_groups\" is %lld, expected at least 1", (long long)groups);
    ir_value *y = import_group_normalized(n, x, groups, (double)import_real(n, "epsilon", 1e-5f));
    y = expr_cast(n, y, import_dtype_of(x));
    if (n->version < 21) {
        y = expr_binary(n, OP_MUL, y, import_beside_channels(n, scale, 3));
        y = expr_binary(n, OP_ADD, y, import_beside_channels(n, bias, 3));
    }
    y = expr_binary(n, OP_RESHAPE, y, expr_unary(n, OP_SHAPE, x));
    if (n->version >= 21) {
        y = expr_binary(n, OP_MUL, y, import_beside_channels(n, scale, rank));
        y = expr_binary(n, OP_ADD, y, import_beside_channels(n, bias, rank));
    }
    return expr_finish(n, y);
}

/* The kernel takes a scale of the shape that is normalised; any other is multiplied with afterwards. */
base_status import_convert_rms_normalization(import_node *n) {
    ir_value *x = expr_input(n, 0), *scale = expr_input(n, 1);
    base_status status = expr_need_dtype(n, x);
    op_attributes attributes;
    if (status == BASE_OK) status = import_attributes(n, OP_RMS_NORMALIZATION, &attributes);
    if (status != BASE_OK) return status;
    const int32_t rank = import_rank_of(x), own = import_rank_of(scale);
    int32_t axis;
    if (rank >= 0 && !op_axis(import_integer(n, "axis", -1), rank, &axis))
        return base_fail(n->importer->report, BASE_INVALID,
                         "attribute \"axis\" is %lld, expected a number in [%d, %d)",
                         (long long)import_integer(n, "axis", -1), -rank, rank);
    bool same = rank >= 0 && own == rank - axis && import_dtype_of(scale) == import_dtype_of(x);
    for (int32_t i = 0; same && i < own; i++)
        same = scale->type.shape.dims[i] == x->type.shape.dims[axis + i] && scale->type.shape.dims[i] >= 0;
    ir_value *inputs[] = {x, scale};
    if (same) return import_finish(n, OP_RMS_NORMALIZATION, attributes, 2, inputs);
    ir_value *y = import_make(n, OP_RMS_NORMALIZATION, attributes, 1, &x);
    if (import_dtype_of(scale) != OP_NONE) y = expr_cast(n, y, import_dtype_of(scale));
    return expr_finish(n, expr_binary(n, OP_MUL, y, scale));
}
