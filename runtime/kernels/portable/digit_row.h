/* SPDX-License-Identifier: Apache-2.0 */
/* digit_row.h: one row of floats as integers of one to three digits, times weights of 4 or 8 bits as they lie in the file: what digits.h does of
 * a few rows, faster for one where columns are long: registers hold 64 bytes of one column, and nothing is turned round.
 *
 * Eight neighbours (four beside weights of 8 bits, which meet two digits at most) share a factor. Each is a whole number times that: of 23 bits,
 * sign included, with three digits, of 15 with two, and from -127 to 127 with one. The number is written with digits of 8 bits, which have
 * signs.
 */
#ifndef OURO_DIGIT_ROW_H
#define OURO_DIGIT_ROW_H

#include "runtime/kernels/portable/digits.h"

/* Bytes of a group of x, which RT_DIGITS_WEIGHTS bytes of a column meet: as many as in floats. */
static inline int64_t rt_digit_row_group(int bits) {
    return RT_DIGITS_WEIGHTS * 8 / bits * (int64_t)sizeof(float);
}

/* How x and weights are written: bits of a weight, digits of an element. */
typedef struct rt_digit_row_form {
    int bits, digits;
} rt_digit_row_form;

/* Writes `depth` elements of x into `groups` of rt_digit_row_group bytes, aligned to RT_ALIGNMENT. False where an element is not finite. For
 * machines on which rt_digits_run_here, like what follows. */
bool rt_digit_row_split(const float *x, int64_t depth, rt_digit_row_form form, int64_t groups, void *to);

/* Columns of weights as in digits.h, each in `blocks` blocks of 1 << shift bytes, at least 4. */
typedef struct rt_digit_row_weights {
    const uint8_t *weights;
    const float *scales;
    const uint8_t *zeros;
    int64_t blocks;
    int shift;
} rt_digit_row_weights;

/* y[c] = the sum over the depth of scale * x * (weight - zero point), and bias[c] unless that is NULL, for columns [begin, end). `sums` are
 * those of x in each block, for zero points. Where the range is cut does not change the bits. */
void rt_digit_row_columns(const void *x, rt_digit_row_form form, const float *sums,
                          const rt_digit_row_weights *weights, int64_t begin, int64_t end, const float *bias,
                          float *y);

#endif
