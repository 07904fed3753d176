/* integer_product.h: products of matrices of 8-bit integers, summed in 32 bits: the engine of MatMulInteger,
 * QLinearMatMul, ConvInteger and QLinearConv.
 *
 * Zero points are taken away while the operands are copied, as 16-bit integers, pairs of neighbours along the depth
 * side by side: what instructions that multiply pairs and add them want. Sums wrap around at 32 bits, so that
 * results depend neither on the order of addition nor on the instruction set.
 */
#ifndef OURO_INTEGER_PRODUCT_H
#define OURO_INTEGER_PRODUCT_H

#include "runtime/kernels/kernels.h"

enum {
    RT_INTEGER_ROWS = 128,    /* of a block, at most */
    RT_INTEGER_COLUMNS = 128, /* of a block, at most */
    RT_INTEGER_PANEL = 16,    /* columns of a panel */
    RT_INTEGER_DEPTH = 256    /* copied at a time */
};

/* int8 or uint8. */
static inline int32_t rt_byte_load(op_dtype dtype, const void *data, int64_t index) {
    return dtype == OP_INT8 ? ((const int8_t *)data)[index] : ((const uint8_t *)data)[index];
}

/* to[i] = from[i * stride] - zero */
void rt_bytes_load(op_dtype dtype, int16_t *to, const void *from, int64_t stride, int64_t count,
                   int16_t zero);
/* to[i] = from[i] - zeros[i] */
void rt_bytes_load_each(op_dtype dtype, int16_t *to, const void *from, int64_t count, const int16_t *zeros);

/* One block of A B. */
typedef struct rt_integer_block {
    int64_t rows, columns,
        depth;              /* at most RT_INTEGER_ROWS and RT_INTEGER_COLUMNS; the depth may be anything */
    op_dtype dtype;         /* of A */
    const void *a;          /* its rows are dense */
    int64_t a_row;          /* from one to the next, in elements */
    const int16_t *a_zeros; /* of each row */
    /* Writes row k of B, `columns` numbers less their zero points. */
    void (*line)(const void *context, int64_t k, int16_t *to);
    const void *context;
} rt_integer_block;

/* The output has no elements. Then the extents of the others may be such that their products overflow, and nothing is to
 * be done. */
bool rt_integer_is_empty(const op_call *call);
/* Does it. */
rt_run_function rt_integer_run_nothing;

/* Scratch that a block of at most this size needs, a multiple of RT_ALIGNMENT; anything may be larger than a block.
 */
size_t rt_integer_scratch(int64_t rows, int64_t columns, int64_t depth);
/* Computes the block in the scratch. Returns the sums, one row after another at a distance of *pitch. */
const int32_t *rt_integer_block_run(const rt_integer_block *block, void *scratch, int64_t *pitch);

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
    op_dtype dtype;       /* of y */
    int32_t zero;
} rt_requantization;
void rt_requantize(const rt_requantization *how, const int32_t *sums, int64_t count, void *y);

#endif
