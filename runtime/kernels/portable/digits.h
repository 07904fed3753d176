/* SPDX-License-Identifier: Apache-2.0 */
/* digits.h: a few rows of floats as integers of one to three digits, for products with weights of 4 or 8 bits on machines that multiply bytes.
 *
 * The numbers are those of digit_tiles.h, and so is how far off they are: elements of a span share a scale. Sums over a span are exact.
 * Weights are read as they are in the file, once for all rows: sixteen bytes of each of four columns stand side by side in a register, so that
 * the columns' scales do, too, and a column ends with the sum of four lanes.
 */
#ifndef OURO_DIGITS_H
#define OURO_DIGITS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    RT_DIGITS_WEIGHTS = 64, /* bytes of a column that are read at a time */
    RT_DIGITS_TOGETHER =
        256 /* elements of x: what becomes of so many takes no more bytes than they take as floats */
};

/* How x and weights are written. */
typedef struct rt_digits_form {
    int bits,
        digits; /* of a weight: 4 or 8; of an element of x: as in rt_digit_product, but for two beside 4 bits */
    int64_t block, blocks; /* of a column: a power of two of weights, at least 16; how many */
    bool distant;          /* weights come from memory: they are asked for ahead */
} rt_digits_form;

/* The machine has the instructions, and blocks are large enough. */
bool rt_digits_run_here(const rt_digits_form *form);

/* Writes `depth` elements of x, filled up to whole blocks, as numbers: see RT_DIGITS_TOGETHER, of which one begun takes the bytes of a whole one; `to` is
 * aligned to 16 bytes. False where an element is not finite. */
bool rt_digits_split(const rt_digits_form *form, const float *x, int64_t depth, void *to);

/* Columns of weights one after another: of weights of 4 bits two a byte, the lower four bits first. Scales are [columns][blocks]. Zero points are packed
 * like weights, columns beginning with a byte; NULL: all are 2^(bits - 1). */
typedef struct rt_digits_weights {
    const uint8_t *weights;
    const float *scales;
    const uint8_t *zeros;
} rt_digits_weights;

/* One row: what rt_digits_split wrote, and where its results go. */
typedef struct rt_digits_row {
    const void *x;
    float *y;
} rt_digits_row;

/* rows[r].y[c] = the sum over the depth of scale * x * (weight - zero point), and bias[c] unless that is NULL, for columns [begin, end). Neither
 * where the range is cut nor which other rows are there changes the bits. */
void rt_digits_columns(const rt_digits_form *form, const rt_digits_row *rows, int64_t count,
                       const rt_digits_weights *weights, int64_t begin, int64_t end, const float *bias);

#endif
