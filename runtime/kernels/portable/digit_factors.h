/* SPDX-License-Identifier: Apache-2.0 */
/* digit_factors.h: what the elements of a span are multiplied by, to be numbers of one to three digits: see digit_tiles.h. */
#ifndef OURO_DIGIT_FACTORS_H
#define OURO_DIGIT_FACTORS_H

#include <stdint.h>
#include <string.h>

enum {
    RT_DIGIT_LARGEST_OF_ONE = 127,
    RT_DIGIT_LARGEST_OF_TWO = 127 * 256 + 127, /* digits have signs */
    RT_DIGIT_LARGEST_OF_THREE = 1 << 22,       /* for sums to fit */
    RT_DIGIT_LEAST_EXPONENT = 24, /* as floats store it: the factor of smaller numbers would be no float */
    RT_DIGIT_NOT_FINITE = 0x7f800000
};

/* The number of a span's largest element is near to this; of three digits between it and twice as much: the scale is a power of two. */
static inline float rt_digit_largest(int digits) {
    return digits == 1   ? RT_DIGIT_LARGEST_OF_ONE
           : digits == 2 ? RT_DIGIT_LARGEST_OF_TWO
                         : RT_DIGIT_LARGEST_OF_THREE / 2;
}

/* What the elements of a span are multiplied by, and what their numbers are: the same in every form. `bits`: the largest size, as those of a
 * float; `most`: rt_digit_largest. Three digits stand for floats: what these have exactly, small integers above all, is exact. */
static inline __attribute__((always_inline)) float rt_digit_factor(int digits, int32_t bits, float most,
                                                                   float *scale) {
    float largest;
    if (bits < RT_DIGIT_LEAST_EXPONENT << 23) bits = RT_DIGIT_LEAST_EXPONENT << 23;
    if (digits == 3) bits &= RT_DIGIT_NOT_FINITE; /* the exponent alone */
    memcpy(&largest, &bits, sizeof largest);
    *scale = largest / most;
    return most / largest;
}

#endif
