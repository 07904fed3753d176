/* SPDX-License-Identifier: Apache-2.0 */
/* digits.h: a row of floats as integers of three digits, for products with weights of 4 bits on machines that multiply bytes.
 *
 * Eight neighbours share a power of two. Each is a whole number of 23 bits, sign included, times that; the number is written with
 * digits of 8 bits, which have signs. A product of bytes with the weights is exact, digit by digit, so that a sum is off by no more
 * than the rounding of x: 2^-22 of the largest of the eight. Sixty-four products are one instruction (VNNI), and weights are
 * unpacked as bytes: two instructions for 128 of them.
 */
#ifndef OURO_DIGITS_H
#define OURO_DIGITS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    RT_DIGITS_WEIGHTS = 64, /* bytes of weights that are read at a time, and as many of a group of x are: */
    RT_DIGITS_GROUP = 8 * RT_DIGITS_WEIGHTS /* bytes of x that they meet */
};

/* The machine has the instructions. */
bool rt_digits_run_here(void);

/* Of `depth` elements of x; `groups` of RT_DIGITS_GROUP bytes, aligned to RT_ALIGNMENT. False where an element is not finite. */
bool rt_digits_split(const float *x, int64_t depth, int64_t groups, void *digits);

/* Blocks of one column: two weights a byte, the lower four bits first; a block has 1 << shift bytes, at least 4. */
typedef struct rt_digits_column {
    const uint8_t *weights;
    const float *scales;
} rt_digits_column;

/* y[c] = the sum over the first `bytes` bytes of column c (whole blocks) of scale * x * weight, or weight - 8 where `centred`. There
 * are RT_DIGITS_TOGETHER columns, or one. */
enum { RT_DIGITS_TOGETHER = 4 };
void rt_digits_dots(const void *digits, const rt_digits_column *columns, int count, int64_t bytes, int shift,
                    bool centred, float *y);

#endif
