/* SPDX-License-Identifier: Apache-2.0 */
/* microsoft_weights.c: products of com.microsoft with weights of four bits that are the numbers of levels: MatMulBnb4. */
#include "compiler/onnx/convert/microsoft.h"

static const op_attributes NONE = {0};

enum { LEVELS = 16 };

/* FP4 is a sign, two bits of exponent and one of mantissa, divided by the largest; NF4 has as many values of a normal distribution
 * between each two levels. */
static const float levels_of[2][LEVELS] = {
    {0, 5.208333333e-03f, 0.66666667f, 1, 0.33333333f, 0.5f, 0.16666667f, 0.25f, -0.0f, -5.208333333e-03f,
     -0.66666667f, -1, -0.33333333f, -0.5f, -0.16666667f, -0.25f},
    {-1, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f,
     -0.18477343022823334f, -0.09105003625154495f, 0, 0.07958029955625534f, 0.16093020141124725f,
     0.24611230194568634f, 0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f,
     0.7229568362236023f, 1}};

bool import_ms_add_bits(const import_node *n, op_attributes *attributes, int64_t depth, int64_t columns,
                        int64_t bits, int64_t block) {
    return import_attributes_add_integer(n, attributes, "K", depth) &&
           import_attributes_add_integer(n, attributes, "N", columns) &&
           import_attributes_add_integer(n, attributes, "bits", bits) &&
           import_attributes_add_integer(n, attributes, "block_size", block);
}

static ir_value *shifted(const import_node *n, ir_value *x, const char *direction) {
    op_attributes attributes = NONE;
    ir_value *inputs[] = {x, expr_number(n, x, 4)};
    if (!x || !inputs[1] || !import_attributes_add_text(n, &attributes, "direction", direction)) return NULL;
    return import_make(n, OP_BIT_SHIFT, attributes, 2, inputs);
}

/* Blocks that lie in one column each: MatMulNBits with levels, whose first number of a byte is in the low bits. */
static base_status multiply_packed(import_node *n, int64_t depth, int64_t columns, int64_t block,
                                   const float *levels) {
    const int64_t extents[] = {columns, depth / block, block / 2};
    const op_attribute table = {
        .name = "ouro.levels", .kind = OP_ATTRIBUTE_FLOATS, .count = LEVELS, .as.reals = levels};
    op_attributes attributes = NONE;
    ir_value *codes = n->inputs[1];
    ir_value *left = shifted(n, codes, "LEFT");
    codes = expr_binary(n, OP_BITWISE_OR, left, shifted(n, codes, "RIGHT"));
    ir_value *inputs[] = {n->inputs[0], expr_reshape(n, codes, 3, extents), n->inputs[2]};
    if (!inputs[1] || !import_ms_add_bits(n, &attributes, depth, columns, 4, block) ||
        !ir_attribute_set(n->importer->module, &attributes, &table))
        return import_memory(n);
    return import_finish(n, OP_MATMUL_BITS, attributes, 3, inputs);
}

/* The first `count` elements of x, whatever its shape. */
static ir_value *first_of(const import_node *n, ir_value *x, int64_t count) {
    static const int64_t all = -1;
    return expr_part(n, expr_reshape(n, x, 1, &all), 0, 0, count);
}

/* Blocks that lie anywhere: weights [columns, depth] as reals. */
static ir_value *unpacked(const import_node *n, int64_t depth, int64_t columns, int64_t block, const float *levels) {
    const int64_t extents[] = {columns, depth}, one_each[] = {-1, 1}, repeats[] = {1, block};
    const op_dtype dtype = import_dtype_of(n->inputs[0]);
    ir_value *codes = n->inputs[1], *table = import_constant_reals(n, LEVELS, levels);
    ir_value *both[2], *low;
    both[0] = expr_reshape(n, shifted(n, codes, "RIGHT"), 2, one_each);
    low = expr_binary(n, OP_BITWISE_AND, codes, expr_number(n, codes, LEVELS - 1));
    both[1] = expr_reshape(n, low, 2, one_each);
    codes = expr_with_integer(n, OP_CONCAT, "axis", 1, 2, both);
    codes = expr_cast(n, first_of(n, codes, depth * columns), OP_INT32);
    ir_value *scales = expr_tile(n, expr_reshape(n, n->inputs[2], 2, one_each), 2, repeats);
    ir_value *weights = expr_cast(n, expr_binary(n, OP_GATHER, table, codes), dtype);
    weights = expr_binary(n, OP_MUL, weights, first_of(n, scales, depth * columns));
    return expr_reshape(n, weights, 2, extents);
}

base_status import_convert_ms_matmul_bnb4(import_node *n) {
    static const int64_t turned[] = {1, 0};
    const int64_t depth = import_integer(n, "K", 0), columns = import_integer(n, "N", 0),
                  block = import_integer(n, "block_size", 0), kind = import_integer(n, "quant_type", 0);
    const bool across = import_integer(n, "transB", 1) != 0;
    int64_t count;
    base_status status = expr_need_dtype(n, n->inputs[0]);
    if (status == BASE_OK) status = expr_need_dtype(n, n->inputs[1]);
    if (status != BASE_OK) return status;
    if (depth < 1 || columns < 1 || !base_int64_multiply(depth, columns, &count) || (kind != 0 && kind != 1) ||
        block < 2 || block > INT32_MAX || (block & (block - 1)) != 0)
        return base_fail(n->importer->report, BASE_INVALID,
                         "K, N, block_size and quant_type are %lld, %lld, %lld and %lld, expected positive numbers, a power of "
                         "two, and 0 or 1",
                         (long long)depth, (long long)columns, (long long)block, (long long)kind);
    if (import_dtype_of(n->inputs[1]) != OP_UINT8)
        return base_fail(n->importer->report, BASE_INVALID, "input 1 is not uint8");
    if (across && depth % block == 0 && block >= 16)
        return multiply_packed(n, depth, columns, block, levels_of[kind]);
    ir_value *weights = unpacked(n, depth, columns, block, levels_of[kind]);
    return expr_finish(
        n, expr_binary(n, OP_MATMUL, n->inputs[0], across ? expr_transpose(n, weights, 2, turned) : weights));
}
