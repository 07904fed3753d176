/* SPDX-License-Identifier: Apache-2.0 */
/* experimental.c: what converters wrote before opset 10: operators that ONNX had for trial and took back, and forms that only they
 * had. */
#include "compiler/onnx/convert/convert.h"
#include "compiler/onnx/convert/expression.h"

#include <string.h>

static const op_attributes NONE = {0};

static ir_value *times(const import_node *n, ir_value *x, const char *name, float otherwise) {
    const float factor = import_real(n, name, otherwise);
    return factor == 1 ? x : expr_binary(n, OP_MUL, x, expr_number(n, x, (double)factor));
}

/* Affine: alpha x + beta. ScaledTanh: alpha tanh(beta x). ParametricSoftplus: alpha log(exp(beta x) + 1). Scale: x scale. */
base_status import_convert_scaled(import_node *n) {
    const char *name = n->proto->op_type;
    ir_value *x = n->inputs[0];
    base_status status = expr_need_dtype(n, x);
    if (status != BASE_OK) return status;
    if (strcmp(name, "Scale") == 0) {
        x = times(n, x, "scale", 1);
    } else if (strcmp(name, "Affine") == 0) {
        ir_value *product = times(n, x, "alpha", 1);
        x = expr_binary(n, OP_ADD, product, expr_number(n, x, (double)import_real(n, "beta", 0)));
    } else {
        const op_code code = strcmp(name, "ScaledTanh") == 0 ? OP_TANH : OP_SOFTPLUS;
        x = times(n, expr_unary(n, code, times(n, x, "beta", 1)), "alpha", 1);
    }
    return expr_finish(n, x == n->inputs[0] ? expr_unary(n, OP_IDENTITY, x) : x);
}

/* x scale + bias, which is one number a channel. */
base_status import_convert_image_scaler(import_node *n) {
    const Onnx__AttributeProto *bias = import_attribute(n, "bias");
    static const int64_t after[] = {1, 2};
    ir_value *x = n->inputs[0];
    base_status status = expr_need_dtype(n, x);
    if (status != BASE_OK) return status;
    ir_value *y = times(n, x, "scale", 1);
    if (bias && bias->n_floats) {
        ir_value *channels =
            expr_cast(n, import_constant_reals(n, bias->n_floats, bias->floats), import_dtype_of(x));
        channels = expr_binary(n, OP_UNSQUEEZE, channels, import_constant_integers(n, 2, after));
        y = expr_binary(n, OP_ADD, y, channels);
    }
    return expr_finish(n, y == x ? expr_unary(n, OP_IDENTITY, x) : y);
}

/* Part of the last two axes: after a border (left, top, right, bottom), or of a size (height, width) after left and top. */
base_status import_convert_crop(import_node *n) {
    static const int64_t axes[] = {2, 3};
    size_t borders, sizes;
    const int64_t *border = import_integers(n, "border", &borders),
                  *size = import_integers(n, "scale", &sizes);
    if (borders != 4 || (sizes && sizes != 2)) {
        return base_fail(n->importer->report, BASE_INVALID,
                         "border has %zu numbers and scale %zu, expected 4, and 2 or none", borders, sizes);
    }
    const int64_t starts[] = {border[1], border[0]};
    int64_t ends[] = {border[3] ? -border[3] : INT64_MAX, border[2] ? -border[2] : INT64_MAX};
    for (int i = 0; i < 2 && sizes; i++)
        if (!base_int64_add(starts[i], size[i], &ends[i])) ends[i] = INT64_MAX;
    const int64_t *const vectors[] = {starts, ends, axes};
    ir_value *inputs[4] = {n->inputs[0]};
    for (int i = 1; i < 4; i++) {
        inputs[i] = import_constant_integers(n, 2, vectors[i - 1]);
        if (!inputs[i]) return import_memory(n);
    }
    return import_finish(n, OP_SLICE, NONE, 4, inputs);
}

/* DynamicSlice: what Slice became. */
base_status import_convert_dynamic_slice(import_node *n) {
    return import_finish(n, OP_SLICE, NONE, n->input_count, n->inputs);
}

/* One number everywhere: of a shape that is an attribute, the shape of the input or its content, with more extents after. */
base_status import_convert_constant_fill(import_node *n) {
    size_t count, more;
    const int64_t *given = import_integers(n, "shape", &count),
                  *extra = import_integers(n, "extra_shape", &more);
    const int64_t dtype = import_integer(n, "dtype", OP_FLOAT);
    ir_value *x = expr_input(n, 0), *shape;
    if (dtype != OP_FLOAT && dtype != OP_INT32 && dtype != OP_INT64 && dtype != OP_BOOL)
        return base_fail_unsupported(
            n->importer->report,
            "attribute \"dtype\" is %lld, expected that of float32, int32, int64 or bool", (long long)dtype);
    if (!x) shape = import_constant_integers(n, count, given);
    else if (import_integer(n, "input_as_shape", 0) != 0) shape = expr_cast(n, x, OP_INT64);
    else shape = expr_unary(n, OP_SHAPE, x);
    if (x && more) {
        ir_value *parts[] = {shape, import_constant_integers(n, more, extra)};
        shape = expr_with_integer(n, OP_CONCAT, "axis", 0, 2, parts);
    }
    ir_value *value = import_constant_real(n, (op_dtype)dtype, (double)import_real(n, "value", 0));
    return expr_finish(n, expr_binary(n, OP_EXPAND, value, shape));
}

/* Images less their mean, divided by their deviation; each channel by itself, or all together. */
base_status import_convert_old_mean_variance(import_node *n) {
    const bool across = import_integer(n, "across_channels", 0) != 0;
    const int32_t rank = import_rank_of(n->inputs[0]);
    int64_t axes[OP_MAX_RANK];
    size_t count = 0;
    base_status status = expr_need_dtype(n, n->inputs[0]);
    if (status == BASE_OK && rank < 3)
        status = base_fail_unsupported(n->importer->report, "needs an input of known rank, at least 3");
    if (status != BASE_OK) return status;
    for (int32_t i = across ? 1 : 2; i < rank; i++) axes[count++] = i;
    ir_value *x = n->inputs[0];
    ir_value *y = expr_binary(n, OP_SUB, x, expr_reduce(n, OP_REDUCE_MEAN, x, count, axes, true));
    if (import_integer(n, "normalize_variance", 1) != 0) {
        ir_value *variance = expr_reduce(n, OP_REDUCE_MEAN, expr_binary(n, OP_MUL, y, y), count, axes, true);
        y = expr_binary(n, OP_DIV, y,
                        expr_unary(n, OP_SQRT, expr_binary(n, OP_ADD, variance, expr_number(n, x, 1e-9))));
    }
    return expr_finish(n, y);
}

/* Upsample before opset 7: the scales of height and width. */
base_status import_convert_old_upsample(import_node *n) {
    const Onnx__AttributeProto *mode = import_attribute(n, "mode");
    const bool linear = mode && mode->s.len == 8 && memcmp(mode->s.data, "bilinear", 8) == 0;
    const float scales[] = {1, 1, import_real(n, "height_scale", 1), import_real(n, "width_scale", 1)};
    op_attributes attributes = NONE;
    ir_value *inputs[] = {n->inputs[0], NULL, import_constant_reals(n, 4, scales)};
    if (!inputs[2] || !import_attributes_add_text(n, &attributes, "mode", linear ? "linear" : "nearest") ||
        !import_attributes_add_text(n, &attributes, "coordinate_transformation_mode", "asymmetric") ||
        !import_attributes_add_text(n, &attributes, "nearest_mode", "ouro.by_scale"))
        return import_memory(n);
    return import_finish(n, OP_RESIZE, attributes, 3, inputs);
}
