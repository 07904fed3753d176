/* SPDX-License-Identifier: Apache-2.0 */
/* digits.h: a row of floats as integers of one to three digits, for products with weights of 4 or 8 bits on machines that multiply bytes.
 *
 * Eight neighbours (four beside weights of 8 bits, which meet two digits at most) share a factor. Each is a whole number times that: of 23 bits, sign included, with three digits, of 15 with two,
 * and from -127 to 127 with one. The number is written with digits of 8 bits, which have signs. A product of bytes with the weights is exact,
 * digit by digit, so that a sum is off by no more than the rounding of x: 2^-22 of the largest of the eight, 2^-14, or 1/254.
 * Sixty-four products are one instruction (VNNI), and weights are unpacked as bytes: two instructions for 128 of them.
 */
#ifndef OURO_DIGITS_H
#define OURO_DIGITS_H

#include <stdbool.h>
#include <stdint.h>

enum { RT_DIGITS_WEIGHTS = 64 /* bytes of weights that are read at a time */ };

/* Bytes of a group of x, which these meet: as many as in floats. */
static inline int64_t rt_digits_group(int bits) {
    return RT_DIGITS_WEIGHTS * 8 / bits * (int64_t)sizeof(float);
}

/* The machine has the instructions. */
bool rt_digits_run_here(void);

/* How x and weights are written: bits of a weight, digits of an element. */
typedef struct rt_digits_form {
    int bits, digits;
} rt_digits_form;

/* Of `depth` elements of x; `groups` of rt_digits_group bytes, aligned to RT_ALIGNMENT. False where an element is not finite. */
bool rt_digits_split(const float *x, int64_t depth, rt_digits_form form, int64_t groups, void *to);

/* Columns of weights one after another, each in `blocks` blocks of 1 << shift bytes, at least 4: of weights of 4 bits two a byte, the lower four
 * bits first. Zero points are packed like weights, columns beginning with a byte; NULL: all are 2^(bits - 1). */
typedef struct rt_digits_weights {
    const uint8_t *weights;
    const float *scales;
    const uint8_t *zeros;
    int64_t blocks;
    int shift;
} rt_digits_weights;

/* y[c] = the sum over the depth of scale * x * (weight - zero point), and bias[c] unless that is NULL, for columns [begin, end). `sums` are those of x in each
 * block, for zero points. Where the range is cut does not change the bits. */
void rt_digits_columns(const void *x, rt_digits_form form, const float *sums,
                       const rt_digits_weights *weights, int64_t begin, int64_t end, const float *bias,
                       float *y);

#endif
