/* SPDX-License-Identifier: Apache-2.0 */
/* digit_tiles.h: rows of floats in fixed point, times weights of 4 or 8 bits in blocks: products of integers, which are exact, until all of a
 * block are summed.
 *
 * Elements of a row share a scale with those that meet the same block of a column, or with fewer: a span. So one element that is much larger
 * than others costs precision in its own span alone. Of a span's largest element the number has 8 or 16 bits, sign included, or 23, of which the
 * first may be 0: its scale is a power of two, so that small integers are exact. No element is off by more than half of the last of these.
 * Processors multiply bytes four times as fast as floats, and words twice:
 *
 *     form    x is                     machines
 *     BYTES   1 to 3 digits of 8 bits  AVX-512 VNNI: bytes with signs times bytes without
 *     WORDS   words of 16 bits         AVX2: words with signs
 *
 * Sums of integers are the same in both forms, and so is what is done with them in float, where no product and sum is rounded as one: both
 * give the same bits. Other machines are faster with floats. Results depend neither on which other rows are there, nor on how columns are
 * dealt out to threads.
 */
#ifndef OURO_DIGIT_TILES_H
#define OURO_DIGIT_TILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum rt_digit_form { RT_DIGIT_NONE, RT_DIGIT_WORDS, RT_DIGIT_BYTES } rt_digit_form;

enum {
    RT_DIGIT_COLUMNS = 16, /* of a panel: what threads are given of a product */
    RT_DIGIT_MOST_ROWS = 128
};

/* Zero points of columns, [columns][blocks]: real; packed in `bits`, each column in whole bytes; or all 2^(bits - 1), where both are NULL. */
typedef struct rt_zero_points {
    const float *real;
    const uint8_t *packed;
} rt_zero_points;

static inline float rt_zero_point(const rt_zero_points *zeros, int bits, int64_t blocks, int64_t column,
                                  int64_t block) {
    if (zeros->real) return zeros->real[column * blocks + block];
    if (!zeros->packed) return (float)(1 << (bits - 1));
    const int64_t each = 8 / bits, bytes = (blocks + each - 1) / each;
    const int byte = zeros->packed[column * bytes + block / each];
    return (float)(byte >> (int)(block % each) * bits & ((1 << bits) - 1));
}

/* What a product is made of. */
typedef struct rt_digit_product {
    rt_digit_form form;
    int bits, digits; /* of a weight: 4 or 8; of an element of x: 1, 2 or, with weights of 4 bits, 3 */
    bool centred;     /* all zero points are 2^(bits - 1) */
    int64_t depth, columns, block, blocks; /* a block has a power of two of weights, at least 16 */
    int64_t span, spans;                   /* of a row */
} rt_digit_product;

/* The fastest form that this machine has for elements of so many digits; three are for BYTES only. Without one, nothing below is called but
 * rt_digit_begin and rt_digit_rows_bytes. */
rt_digit_form rt_digit_form_here(int digits);
/* Sets the spans, after what stands before them. */
void rt_digit_begin(rt_digit_product *product);
/* Bytes of so many rows: false where that is no size. */
bool rt_digit_rows_bytes(const rt_digit_product *product, int64_t rows, size_t *bytes);
/* Writes rows [begin, end) of x, of `rows`, as numbers, and those that fill the last 8 up; `begin` is a multiple of 8. False where an element is not
 * finite. */
bool rt_digit_rows(const rt_digit_product *product, const float *x, int64_t rows, int64_t begin, int64_t end,
                   void *to);

/* Weights as MatMulNBits has them; scales are [columns][blocks]; a bias has one number a column, or is NULL. */
typedef struct rt_digit_weights {
    const uint8_t *codes;
    const float *scales, *bias;
    rt_zero_points zeros;
} rt_digit_weights;

/* y[row][column] = the sum over the depth of x * scale * (code - zero point), and the bias, for `rows` rows (at most RT_DIGIT_MOST_ROWS) that
 * rt_digit_rows wrote, and the columns of panels [begin, end); y has product->columns columns. */
void rt_digit_columns(const rt_digit_product *product, const void *x, int64_t rows,
                      const rt_digit_weights *weights, int64_t begin, int64_t end, float *y);

#endif
