/* SPDX-License-Identifier: Apache-2.0 */
/* integer_product.h: products of matrices of 8-bit integers, summed in 32 bits: the engine of MatMulInteger,
 * QLinearMatMul, ConvInteger and QLinearConv.
 *
 * Where the machine multiplies bytes, four at a time, and adds them (AVX-512 VNNI), A is taken as signed and B as unsigned
 * bytes, and what zero points make of that is put right in the sums; elsewhere zero points are taken away while the
 * operands are copied as 16-bit integers, and pairs are multiplied and added. Sums wrap around at 32 bits, so that results
 * depend neither on the order of addition nor on the instruction set.
 */
#ifndef OURO_INTEGER_PRODUCT_H
#define OURO_INTEGER_PRODUCT_H

#include "runtime/kernels/portable/kernels.h"

enum {
    RT_INTEGER_ROWS = 256,     /* of a block, at most */
    RT_INTEGER_COLUMNS = 1024, /* of a block, at most */
    RT_INTEGER_PANEL = 16,     /* columns of a panel */
    RT_INTEGER_LINES = 4,      /* rows of B that are asked for together, at most */
    RT_INTEGER_FEW = 32,       /* rows of B that are added up where they lie, at most */
    RT_INTEGER_PACKED = 512    /* rows of a packed matrix that lie together */
};

/* int8 or uint8. */
static inline int32_t rt_byte_load(op_dtype dtype, const void *data, int64_t index) {
    return dtype == OP_INT8 ? ((const int8_t *)data)[index] : ((const uint8_t *)data)[index];
}

/* One block of A B. */
typedef struct rt_integer_block {
    int64_t rows, columns, depth; /* the depth may be anything */
    op_dtype a_dtype, b_dtype;
    const void *a;          /* its rows are dense */
    int64_t a_row;          /* from one to the next, in elements */
    const int16_t *a_zeros; /* of each row */
    const int16_t *b_zeros; /* one, or of each column */
    bool b_each;
    /* Says where rows k, k + 1, ... of B lie, up to RT_INTEGER_LINES. There, as many bytes are read as whole panels have
     * columns; what stands after the block's columns does not matter. `spare` holds RT_INTEGER_LINES *
     * RT_INTEGER_COLUMNS bytes, for lines that do not lie like that anywhere. */
    void (*lines)(const void *context, int64_t k, int64_t count, const uint8_t **to, uint8_t *spare);
    const void *context;
    /* B as rt_integer_pack leaves it, in place of lines; NULL: there are lines. The block begins at column `packed_column` of
     * `packed_columns`, a multiple of RT_INTEGER_PANEL. */
    const void *packed;
    int64_t packed_column, packed_columns;
    /* Takes the sums of `rows` rows from `row` on, which lie one after another at a distance of `pitch`: of some at a time, in order, until
     * it had all. They are there as long as it runs. */
    void (*finish)(const void *results, int64_t row, int64_t rows, const int32_t *sums, int64_t pitch);
    const void *results;
    /* Where sums are the results, and rows of whole panels: that place, and the distance of rows there; they are made there where the machine
     * multiplies bytes, and `finish` is not called then. NULL: it is. */
    int32_t *direct;
    int64_t direct_row;
} rt_integer_block;

/* The output has no elements. Then the extents of the others may be such that their products overflow, and nothing is to
 * be done. */
bool rt_integer_is_empty(const op_call *call);
/* Does it. */

/* How many columns of a product like this a block should have: more where each is little work. `small`: scratch counts more than time, and
 * products so deep that all their sums are kept have fewer. */
int64_t rt_integer_columns(int64_t rows, int64_t depth, bool small);
/* Scratch that a block of this size needs, a multiple of RT_ALIGNMENT; less where B is packed already. */
size_t rt_integer_scratch(int64_t rows, int64_t columns, int64_t depth, bool packed);
/* Computes the block in the scratch, and hands its sums to `finish`. */
void rt_integer_block_run(const rt_integer_block *block, void *scratch);

/* Constant matrices B that are packed once: bytes of one; false where there are too many. */
bool rt_integer_packed_bytes(int64_t depth, int64_t columns, size_t *bytes);
/* Packs a dense matrix [depth][columns] of int8 or uint8. */
void rt_integer_pack(op_dtype dtype, const uint8_t *b, int64_t depth, int64_t columns, void *packed);
/* Where a packed matrix has the panel that begins at `column`, a multiple of RT_INTEGER_PANEL, of rows `from`, a multiple of RT_INTEGER_PACKED,
 * and on: four rows after four rows, of which those of a column lie together, as unsigned bytes. */
const uint8_t *rt_integer_packed_panel(const void *packed, int64_t depth, int64_t columns, int64_t from,
                                       int64_t column);
/* The sums of its columns, of these bytes. */
const uint32_t *rt_integer_packed_sums(const void *packed, int64_t depth, int64_t columns);
/* Whether this machine is faster on packed matrices: it multiplies bytes. */
bool rt_integer_packs(void);

/* sums[j] += the sum over k < depth of a[k] * b[k][j], for `columns` columns: `depth` rows of B (int8 or uint8), of which the next
 * lies b_row bytes after one, at most RT_INTEGER_FEW. a[k] is within [-255, 255]. Only those columns are read. */
void rt_integer_add_rows(op_dtype dtype, const uint8_t *b, int64_t b_row, int64_t depth, int64_t columns,
                         const int16_t *a, int32_t *sums);

/* The integer next to `value`, ties to even, within [low, high], which are integers of at most 2^22: what is not a
 * number gives `low`. Adding 1.5 * 2^23 and taking it away rounds. */
static inline float rt_round_within(float value, float low, float high) {
    value = value > low ? value : low;
    value = value < high ? value : high;
    return value + 12582912.0f - 12582912.0f;
}

/* From sums to quantised numbers: y = saturate(round((sum + bias) * a_scale * b_scale / y_scale) + zero). */
typedef struct rt_requantization {
    int32_t bias;
    float a_scale, y_scale;
    const float *b_scale; /* one, or one a column */
    bool each;            /* one a column */
    const float *scales;  /* a_scale * b_scale / y_scale of each column, made before; NULL: they are not */
    op_dtype dtype;       /* of y */
    int32_t zero;
} rt_requantization;
void rt_requantize(const rt_requantization *how, const int32_t *sums, int64_t count, void *y);
/* Some rows, each of `count` sums: the next one's sums begin `sums_row` numbers after one, its results `y_row`. */
typedef struct rt_requantized_rows {
    int64_t rows, count;
    const int32_t *sums;
    int64_t sums_row;
    const int32_t *biases; /* of each row; NULL: none */
    uint8_t *y;
    int64_t y_row;
} rt_requantized_rows;
/* The same of these: b_scale is one, or one a row (`each`); biases are those of the rows. */
void rt_requantize_rows(const rt_requantization *how, const rt_requantized_rows *rows);
/* The same of sums that are floats, exact, with the bias in them; one b_scale. */
void rt_requantize_floats(const rt_requantization *how, const float *sums, int64_t count, void *y);

#endif
