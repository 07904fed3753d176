/* SPDX-License-Identifier: Apache-2.0 */
/* microsoft_quantized.c: operators of com.microsoft on 8-bit integers. Most are a float operator between a DequantizeLinear of
 * each input and a QuantizeLinear of the result, which is what their page defines them as. */
#include "compiler/onnx/convert/microsoft.h"

#include <string.h>

static const op_attributes NONE = {0};

/* ---- numbers of 8 bits as reals and back ----------------------------------------------------------------- */

/* A value of one element as a scalar: files give scales and zero points of one element either way. */
static ir_value *scalar(const import_node *n, ir_value *x) {
    return x && import_rank_of(x) != 0 ? expr_reshape(n, x, 0, NULL) : x;
}

ir_value *import_ms_dequantized(const import_node *n, ir_value *x, ir_value *scale, ir_value *zero) {
    ir_value *inputs[3] = {x};
    inputs[1] = scalar(n, scale);
    inputs[2] = scalar(n, zero);
    return x && inputs[1] && (!zero || inputs[2])
               ? import_make(n, OP_DEQUANTIZE_LINEAR, NONE, zero ? 3 : 2, inputs)
               : NULL;
}

/* `like` has the type of the result: without a zero point, 0 is meant. */
static ir_value *quantized(const import_node *n, ir_value *x, ir_value *scale, ir_value *zero,
                           const ir_value *like) {
    ir_value *inputs[3] = {x};
    inputs[1] = scalar(n, scale);
    inputs[2] = zero ? scalar(n, zero) : expr_number(n, like, 0);
    return x && inputs[1] && inputs[2] ? import_make(n, OP_QUANTIZE_LINEAR, NONE, 3, inputs) : NULL;
}

/* Input `at` with its scale and zero point after it. */
static ir_value *dequantized_input(const import_node *n, uint32_t at) {
    return import_ms_dequantized(n, expr_input(n, at), expr_input(n, at + 1), expr_input(n, at + 2));
}

/* At least so many inputs are given, but perhaps no zero points; input 0 has a known dtype. */
static base_status check(const import_node *n, uint32_t count, uint32_t zero_points) {
    base_status status = expr_need_inputs(n, count, zero_points);
    return status == BASE_OK ? expr_need_dtype(n, n->inputs[0]) : status;
}

base_status import_convert_ms_quantize(import_node *n) {
    op_attributes attributes = NONE;
    const op_code code =
        strcmp(n->proto->op_type, "QuantizeLinear") == 0 ? OP_QUANTIZE_LINEAR : OP_DEQUANTIZE_LINEAR;
    base_status status = import_attributes(n, code, &attributes);
    return status == BASE_OK ? import_finish(n, code, attributes, n->input_count, n->inputs) : status;
}

/* ---- elementwise ------------------------------------------------------------------------------------------- */

/* A, its scale and zero point, B, likewise, C's scale and zero point. */
base_status import_convert_ms_qlinear_binary(import_node *n) {
    const op_code code = strcmp(n->proto->op_type, "QLinearAdd") == 0 ? OP_ADD : OP_MUL;
    base_status status = check(n, 7, EXPR_INPUT(2) | EXPR_INPUT(5));
    if (status != BASE_OK) return status;
    ir_value *y = dequantized_input(n, 0);
    y = expr_binary(n, code, y, dequantized_input(n, 3));
    return expr_finish(n, quantized(n, y, n->inputs[6], expr_input(n, 7), n->inputs[0]));
}

base_status import_convert_ms_qlinear_unary(import_node *n) {
    op_attributes attributes = NONE;
    op_code code = OP_SIGMOID;
    base_status status = check(n, 4, EXPR_INPUT(2));
    if (status == BASE_OK && strcmp(n->proto->op_type, "QLinearLeakyRelu") == 0) {
        code = OP_LEAKY_RELU;
        status = import_attributes(n, code, &attributes);
    }
    if (status != BASE_OK) return status;
    ir_value *x = dequantized_input(n, 0);
    ir_value *y = x ? import_make(n, code, attributes, 1, &x) : NULL;
    return expr_finish(n, quantized(n, y, n->inputs[3], expr_input(n, 4), n->inputs[0]));
}

/* Condition, X with its scale and zero point, Y likewise, Z's scale and zero point. */
base_status import_convert_ms_qlinear_where(import_node *n) {
    base_status status = expr_need_dtype(n, n->inputs[1]);
    if (status != BASE_OK) return status;
    ir_value *x = dequantized_input(n, 1), *y = dequantized_input(n, 4);
    y = expr_select(n, n->inputs[0], x, y);
    return expr_finish(n, quantized(n, y, n->inputs[7], expr_input(n, 8), n->inputs[1]));
}

/* ---- along axes -------------------------------------------------------------------------------------------- */

base_status import_convert_ms_qlinear_concat(import_node *n) {
    const uint32_t count = (n->input_count - 2) / 3;
    if (n->input_count < 5 || count * 3 + 2 != n->input_count) {
        return base_fail(n->importer->report, BASE_INVALID,
                         "%u inputs, expected a scale and a zero point, then three for each tensor",
                         n->input_count);
    }
    base_status status = expr_need_dtype(n, n->inputs[2]);
    if (status != BASE_OK) return status;
    ir_value **parts = BASE_ARRAY(&n->importer->arena, ir_value *, count);
    if (!parts) return import_memory(n);
    /* Each part by itself: what one byte becomes depends on it alone. */
    for (uint32_t i = 0; i < count; i++)
        parts[i] = quantized(n, dequantized_input(n, 2 + 3 * i), n->inputs[0], n->inputs[1], n->inputs[2]);
    return expr_finish(n,
                       expr_with_integer(n, OP_CONCAT, "axis", import_integer(n, "axis", 0), count, parts));
}

/* Softmax of the opset that an attribute tells: before 13, of a matrix whose columns are all axes from `axis` on. */
base_status import_convert_ms_qlinear_softmax(import_node *n) {
    const bool flat = import_integer(n, "opset", 13) < 13;
    const int64_t axis = import_integer(n, "axis", flat ? 1 : -1);
    base_status status = check(n, 4, EXPR_INPUT(2));
    if (status != BASE_OK) return status;
    ir_value *x = dequantized_input(n, 0), *y = x;
    if (flat) y = expr_with_integer(n, OP_FLATTEN, "axis", axis, 1, &x);
    y = expr_with_integer(n, OP_SOFTMAX, "axis", flat ? 1 : axis, 1, &y);
    if (flat) y = expr_binary(n, OP_RESHAPE, y, expr_unary(n, OP_SHAPE, x));
    return expr_finish(n, quantized(n, y, n->inputs[3], expr_input(n, 4), n->inputs[0]));
}

base_status import_convert_ms_qlinear_reduce_mean(import_node *n) {
    size_t count;
    const int64_t *axes = import_integers(n, "axes", &count);
    base_status status = check(n, 4, EXPR_INPUT(2));
    if (status != BASE_OK) return status;
    ir_value *y = expr_reduce(n, OP_REDUCE_MEAN, dequantized_input(n, 0), count, axes,
                              import_integer(n, "keepdims", 1) != 0);
    return expr_finish(n, quantized(n, y, n->inputs[3], expr_input(n, 4), n->inputs[0]));
}

base_status import_convert_ms_reduce_sum_integer(import_node *n) {
    size_t count;
    const int64_t *axes = import_integers(n, "axes", &count);
    base_status status = expr_need_dtype(n, n->inputs[0]);
    if (status != BASE_OK) return status;
    ir_value *wide =
        expr_cast(n, n->inputs[0], import_dtype_of(n->inputs[0]) == OP_UINT8 ? OP_UINT32 : OP_INT32);
    return expr_finish(
        n, expr_reduce(n, OP_REDUCE_SUM, wide, count, axes, import_integer(n, "keepdims", 1) != 0));
}

/* ---- images, with channels after or before the spatial axes ------------------------------------------------- */

/* An operator of the default domain on the image `x`, which has the shape of input 0. */
static ir_value *on_image(const import_node *n, op_code code, op_attributes attributes, ir_value *x,
                          bool last) {
    const int32_t rank = import_rank_of(n->inputs[0]);
    ir_value *front = last ? import_ms_channels_moved(n, x, rank, true) : x;
    ir_value *y = front ? import_make(n, code, attributes, 1, &front) : NULL;
    return last && y ? import_ms_channels_moved(n, y, rank, false) : y;
}

static base_status quantized_pool(import_node *n, op_code code) {
    const bool last = import_integer(n, "channels_last", 0) != 0;
    op_attributes attributes = NONE;
    base_status status = check(n, 4, EXPR_INPUT(2));
    if (status == BASE_OK) status = import_ms_check_image(n, last);
    if (status == BASE_OK) status = import_attributes(n, code, &attributes);
    if (status != BASE_OK) return status;
    ir_value *x = dequantized_input(n, 0);
    ir_value *y = x ? on_image(n, code, attributes, x, last) : NULL;
    return expr_finish(n, quantized(n, y, n->inputs[3], expr_input(n, 4), n->inputs[0]));
}

base_status import_convert_ms_qlinear_pool(import_node *n) {
    return quantized_pool(n, OP_AVERAGE_POOL);
}

base_status import_convert_ms_qlinear_global_pool(import_node *n) {
    return quantized_pool(n, OP_GLOBAL_AVERAGE_POOL);
}

base_status import_convert_ms_qlinear_convolution(import_node *n) {
    const bool last = import_integer(n, "channels_last", 0) != 0;
    op_attributes attributes;
    base_status status = import_ms_check_image(n, last);
    if (status == BASE_OK) status = import_attributes(n, OP_QLINEAR_CONV, &attributes);
    if (status != BASE_OK) return status;
    if (!last) return import_finish(n, OP_QLINEAR_CONV, attributes, n->input_count, n->inputs);
    ir_value *inputs[9];
    for (uint32_t i = 0; i < n->input_count; i++) inputs[i] = n->inputs[i];
    const int32_t rank = import_rank_of(inputs[0]);
    inputs[0] = import_ms_channels_moved(n, inputs[0], rank, true);
    ir_value *y = inputs[0] ? import_make(n, OP_QLINEAR_CONV, attributes, n->input_count, inputs) : NULL;
    return expr_finish(n, y ? import_ms_channels_moved(n, y, rank, false) : NULL);
}

/* ---- products ---------------------------------------------------------------------------------------------- */

/* The product of 8-bit matrices less their zero points, in 32 bits. */
static ir_value *integer_product(const import_node *n, ir_value *a, ir_value *b, ir_value *a_zero,
                                 ir_value *b_zero) {
    ir_value *inputs[] = {a, b, a_zero, b_zero};
    if (!a || !b) return NULL;
    if (b_zero && !a_zero && !(inputs[2] = expr_number(n, a, 0))) return NULL;
    return import_make(n, OP_MATMUL_INTEGER, NONE, b_zero ? 4 : a_zero ? 3 : 2, inputs);
}

/* An integer product as reals: times both scales, and the bias added. */
static ir_value *scaled(const import_node *n, ir_value *product, ir_value *a_scale, ir_value *b_scale,
                        ir_value *bias) {
    const op_dtype dtype = import_dtype_of(b_scale) == OP_NONE ? OP_FLOAT : import_dtype_of(b_scale);
    ir_value *scale = expr_binary(n, OP_MUL, scalar(n, a_scale), b_scale);
    ir_value *y = expr_cast(n, product, OP_FLOAT);
    y = expr_binary(n, OP_MUL, y, expr_cast(n, scale, OP_FLOAT));
    y = expr_cast(n, y, dtype);
    return bias ? expr_binary(n, OP_ADD, y, bias) : y;
}

ir_value *import_ms_integer_product_scaled(const import_node *n, ir_value *a, ir_value *b, ir_value *a_zero,
                                           ir_value *b_zero, ir_value *a_scale, ir_value *b_scale,
                                           ir_value *bias) {
    /* One zero point may stand as a vector of one, which is not one of a row or column each. */
    if (a_zero) a_zero = scalar(n, a_zero);
    if (b_zero && import_rank_of(b_zero) == 1 && b_zero->type.shape.dims[0] == 1) b_zero = scalar(n, b_zero);
    return scaled(n, integer_product(n, a, b, a_zero, b_zero), a_scale, b_scale, bias);
}

base_status import_convert_ms_matmul_integer_to_float(import_node *n) {
    base_status status = expr_need_dtype(n, n->inputs[0]);
    if (status != BASE_OK) return status;
    ir_value *product =
        integer_product(n, n->inputs[0], n->inputs[1], scalar(n, expr_input(n, 4)), expr_input(n, 5));
    return expr_finish(n, scaled(n, product, n->inputs[2], n->inputs[3], expr_input(n, 6)));
}

base_status import_convert_ms_dynamic_quantize_matmul(import_node *n) {
    ir_node *node = import_begin(n, OP_DYNAMIC_QUANTIZE_LINEAR, NONE, 1, n->inputs);
    ir_value *made[3];
    for (int i = 0; i < 3; i++) {
        made[i] = node ? ir_node_add_output(node, NULL, NULL) : NULL;
        if (!made[i]) return import_memory(n);
    }
    if (!import_infer(n->importer, node)) return import_memory(n);
    ir_value *product = integer_product(n, made[0], n->inputs[1], made[2], expr_input(n, 3));
    return expr_finish(n, scaled(n, product, made[1], n->inputs[2], expr_input(n, 4)));
}

/* alpha (A - a0) (B - b0) a_scale b_scale, and C, which has the scale of the product already; divided by the result's scale, where
 * there is one. Quantised where there is a zero point, whose type is the result's. */
base_status import_convert_ms_qgemm(import_node *n) {
    static const int64_t turned[] = {1, 0};
    base_status status = expr_need_dtype(n, n->inputs[0]);
    if (status != BASE_OK) return status;
    const double alpha = (double)import_real(n, "alpha", 1);
    ir_value *a = n->inputs[0], *b = n->inputs[3], *c = expr_input(n, 6), *scale = n->inputs[1];
    if (import_integer(n, "transA", 0) != 0) a = expr_transpose(n, a, 2, turned);
    if (import_integer(n, "transB", 0) != 0) b = expr_transpose(n, b, 2, turned);
    ir_value *product = integer_product(n, a, b, scalar(n, n->inputs[2]), n->inputs[5]);
    if (c) product = expr_binary(n, OP_ADD, product, c);
    if (alpha != 1) scale = expr_binary(n, OP_MUL, scale, expr_number(n, scale, alpha));
    ir_value *y = scaled(n, product, scale, n->inputs[4], NULL);
    ir_value *y_scale = expr_input(n, 7), *y_zero = expr_input(n, 8);
    if (y_zero) y = quantized(n, y, y_scale ? y_scale : expr_number(n, y, 1), y_zero, n->inputs[0]);
    else if (y_scale) y = expr_binary(n, OP_DIV, y, scalar(n, y_scale));
    return expr_finish(n, y);
}

base_status import_convert_ms_matmul_integer_16(import_node *n) {
    base_status status = expr_need_dtype(n, n->inputs[0]);
    if (status == BASE_OK) status = expr_need_dtype(n, n->inputs[1]);
    if (status != BASE_OK) return status;
    const bool negative =
        import_dtype_of(n->inputs[0]) == OP_INT16 || import_dtype_of(n->inputs[1]) == OP_INT16;
    const op_dtype wide = negative ? OP_INT32 : OP_UINT32;
    ir_value *a = expr_cast(n, n->inputs[0], wide), *b = expr_cast(n, n->inputs[1], wide);
    return expr_finish(n, expr_binary(n, OP_MATMUL, a, b));
}

/* (A - its zero point) (B - its zero point), of which either may be absent. */
base_status import_convert_ms_multiply_integers(import_node *n) {
    ir_value *parts[2];
    base_status status = expr_need_inputs(n, 3, EXPR_INPUT(1));
    if (status != BASE_OK) return status;
    for (uint32_t i = 0; i < 2; i++) {
        ir_value *zero = expr_input(n, 2 * i + 1);
        parts[i] = expr_cast(n, n->inputs[2 * i], OP_INT32);
        if (zero) parts[i] = expr_binary(n, OP_SUB, parts[i], expr_cast(n, scalar(n, zero), OP_INT32));
    }
    return expr_finish(n, expr_binary(n, OP_MUL, parts[0], parts[1]));
}

/* ---- GatherBlockQuantized ---------------------------------------------------------------------------------- */

/* Bytes of two numbers of 4 bits each, the first in the low bits, as twice as many along the last axis. */
static ir_value *halves_apart(const import_node *n, ir_value *x) {
    static const int64_t last = -1;
    const int32_t rank = import_rank_of(x);
    int64_t extents[OP_MAX_RANK] = {0};
    op_attributes right = NONE;
    if (rank < 1 || !import_attributes_add_text(n, &right, "direction", "RIGHT")) return NULL;
    ir_value *shift[] = {x, expr_number(n, x, 4)}, *both[2];
    if (!shift[1]) return NULL;
    both[0] = expr_axis(n, OP_UNSQUEEZE, expr_binary(n, OP_BITWISE_AND, x, expr_number(n, x, 15)), last);
    both[1] = expr_axis(n, OP_UNSQUEEZE, import_make(n, OP_BIT_SHIFT, right, 2, shift), last);
    extents[rank - 1] = -1;
    return expr_reshape(n, expr_with_integer(n, OP_CONCAT, "axis", last, 2, both), (size_t)rank, extents);
}

/* Rows of bytes, which are whole blocks with scales in float: as GatherNBits has them. */
static bool has_rows_of_blocks(const import_node *n, int64_t bits, int64_t block, int32_t from,
                               int32_t along) {
    const op_type *data = &n->inputs[0]->type;
    const ir_value *zeros = expr_input(n, 3);
    return data->dtype == OP_UINT8 && data->shape.rank == 2 && op_shape_known(&data->shape) && from == 0 &&
           along == 1 && (block & (block - 1)) == 0 && data->shape.dims[1] > 0 &&
           data->shape.dims[1] <= INT64_MAX / 8 && data->shape.dims[1] * 8 / bits % block == 0 &&
           import_dtype_of(n->inputs[2]) == OP_FLOAT && (!zeros || import_dtype_of(zeros) == OP_UINT8);
}

static base_status gather_rows(import_node *n, int64_t bits, int64_t block) {
    const int64_t *dims = n->inputs[0]->type.shape.dims;
    op_attributes attributes = NONE;
    ir_value *inputs[] = {n->inputs[0], n->inputs[1], n->inputs[2], expr_input(n, 3)};
    if (!import_ms_add_bits(n, &attributes, dims[1] * 8 / bits, dims[0], bits, block))
        return import_memory(n);
    return import_finish(n, OP_GATHER_BITS, attributes, inputs[3] ? 4 : 3, inputs);
}

/* The entries at the indices of weights, scales and zero points, which are then numbers. */
base_status import_convert_ms_gather_block_quantized(import_node *n) {
    const int64_t bits = import_integer(n, "bits", 4), block = import_integer(n, "block_size", 128);
    const int32_t rank = import_rank_of(n->inputs[0]), indices = import_rank_of(n->inputs[1]);
    base_status status = expr_need_dtype(n, n->inputs[0]);
    if (status == BASE_OK) status = expr_need_dtype(n, n->inputs[2]);
    if (status != BASE_OK) return status;
    const op_dtype dtype = import_dtype_of(n->inputs[0]);
    const bool bytes = dtype == OP_UINT8;
    int32_t from, along;
    if (rank < 1 || indices < 0 || rank - 1 + indices > OP_MAX_RANK)
        return base_fail_unsupported(n->importer->report, "needs data and indices of known rank");
    if (!op_axis(import_integer(n, "gather_axis", 0), rank, &from) ||
        !op_axis(import_integer(n, "quantize_axis", 1), rank, &along) || block < 16)
        return base_fail(n->importer->report, BASE_INVALID,
                         "gather_axis, quantize_axis or block_size do not fit data of rank %d", rank);
    if (from == along || (bytes && (from == rank - 1 || (bits != 4 && bits != 8))))
        return base_fail_unsupported(
            n->importer->report,
            "entries along the axis of the blocks, or of other than 4 and 8 bits, are not supported");
    if (has_rows_of_blocks(n, bits, block, from, along)) return gather_rows(n, bits, block);
    ir_value *parts[3] = {n->inputs[0], n->inputs[2], expr_input(n, 3)};
    for (int i = 0; i < 3; i++) {
        ir_value *gather[] = {parts[i], n->inputs[1]};
        if (!parts[i]) continue;
        parts[i] = expr_with_integer(n, OP_GATHER, "axis", from, 2, gather);
        if (!parts[i]) return import_memory(n);
        if (i == 1 || !bytes || bits != 4) continue;
        if (import_rank_of(parts[i]) < 1)
            return base_fail(n->importer->report, BASE_INVALID,
                             "input %d has no entries along axis %d that input 1 could choose", i ? 3 : 0,
                             from);
        parts[i] = halves_apart(n, parts[i]);
        if (!parts[i]) return import_memory(n);
    }
    if (bytes && !parts[2]) {
        parts[2] = expr_number(n, parts[0], bits == 4 ? 8 : 128);
        parts[2] = expr_binary(n, OP_EXPAND, parts[2], expr_unary(n, OP_SHAPE, parts[1]));
        if (!parts[2]) return import_memory(n);
    } else if (bytes && bits == 4) { /* an odd number of them fills up its last byte */
        ir_value *extents = expr_unary(n, OP_SHAPE, parts[1]);
        ir_value *end = expr_binary(n, OP_GATHER, extents, expr_vector(n, -1));
        parts[2] = expr_slice(n, parts[2], -1, expr_vector(n, 0), end);
        if (!parts[2]) return import_memory(n);
    }
    op_attributes attributes = NONE;
    if (!import_attributes_add_integer(n, &attributes, "axis", along > from ? along + indices - 1 : along) ||
        !import_attributes_add_integer(n, &attributes, "block_size", block))
        return import_memory(n);
    return expr_finish(n, import_make(n, OP_DEQUANTIZE_LINEAR, attributes, parts[2] ? 3 : 2, parts));
}
