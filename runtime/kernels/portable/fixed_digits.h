/* SPDX-License-Identifier: Apache-2.0 */
/* fixed_digits.h: floats as integers of fixed_tiles.h, and these as digits. For fixed_tiles.c and window_digits.c.
 */
#ifndef OURO_FIXED_DIGITS_H
#define OURO_FIXED_DIGITS_H

#include "ir/base/base.h"
#include "runtime/kernels/portable/byte_tiles.h"
#include "runtime/kernels/portable/fixed_tiles.h"
#include <math.h>

enum {
    RT_FIXED_LEAST_EXPONENT = -104, /* of blocks: an integer's highest bit times its inverse is a float */
    RT_FIXED_REST_BITS =
        15 /* by which what is left of coarse numbers is multiplied, which digits hold then */
};

/* Of the largest integer of a block: digits hold up to 2^(this + 1) less one in 255. */
static inline int rt_fixed_top_bit(int digits) {
    return 8 * digits - 2;
}

/* Bits below the largest number of a block, from where on numbers keep `bits` bits or fewer. */
static inline int rt_fixed_small_below(int bits, int digits) {
    return rt_fixed_top_bit(digits) + 1 - bits;
}

static inline float rt_fixed_power(int exponent) {
    enum { BIAS = 127, MANTISSA = 23 };
    return base_float_of_bits((uint32_t)(exponent + BIAS) << MANTISSA);
}

/* By what numbers become integers, and by what sums of products are to be multiplied, where `largest` is the size of the largest number: products of two
 * scales are 2^(e + f + 32), with two digits 2^(e + f + 16), of which the exponents here have their halves. */
typedef struct rt_fixed_scale {
    float up, down;
} rt_fixed_scale;

static inline rt_fixed_scale rt_fixed_scale_of(float largest, int digits) {
    enum { BIAS = 127, MANTISSA = 23 };
    /* The largest number of a block is a little below 2^(exponent + 1), so that digits hold it. */
    static const float margin = 1.004f;
    const int half = 8 * (digits - 1), top = rt_fixed_top_bit(digits);
    if (largest == 0) return (rt_fixed_scale){0, 0};
    if (isnan(largest)) return (rt_fixed_scale){0, NAN};
    int exponent = (int)(base_bits_of_float(largest * margin) >> MANTISSA) - BIAS;
    if (exponent < RT_FIXED_LEAST_EXPONENT) exponent = RT_FIXED_LEAST_EXPONENT;
    return (rt_fixed_scale){rt_fixed_power(top - exponent), rt_fixed_power(exponent - top + half)};
}

/* The digits of an integer, from -128 to 127 each, the highest first, `apart` bytes after each other. */
static inline void rt_fixed_write_digits(int32_t integer, int digits, int64_t apart, char *to) {
    enum { BASE = 256, HALF = 128 };
    for (int digit = digits - 1; digit >= 0; digit--) {
        const int32_t low = ((integer + HALF) & (BASE - 1)) - HALF;
        to[digit * apart] = (char)low;
        integer = (integer - low) / BASE;
    }
}

#if defined(RT_HAS_BYTE_TILES)
#define RT_WITH_FIXED __attribute__((target("amx-tile,amx-int8,avx512f,avx512bw,avx512vl,avx512vbmi")))
#define RT_FIXED_ALWAYS static inline __attribute__((always_inline))

/* Digit `digit` of 64 integers, whose bytes are digits: 0 is the lowest. */
RT_WITH_FIXED RT_FIXED_ALWAYS __m512i rt_fixed_digit_of(const __m512i *of, int digit) {
    const __m512i places = _mm512_set_epi8(124, 120, 116, 112, 108, 104, 100, 96, 92, 88, 84, 80, 76, 72, 68,
                                           64, 60, 56, 52, 48, 44, 40, 36, 32, 28, 24, 20, 16, 12, 8, 4, 0,
                                           124, 120, 116, 112, 108, 104, 100, 96, 92, 88, 84, 80, 76, 72, 68,
                                           64, 60, 56, 52, 48, 44, 40, 36, 32, 28, 24, 20, 16, 12, 8, 4, 0);
    const __m512i at = _mm512_add_epi8(places, _mm512_set1_epi8((char)digit));
    const __m512i low = _mm512_permutex2var_epi8(of[0], at, of[1]),
                  high = _mm512_permutex2var_epi8(of[2], at, of[3]);
    return _mm512_mask_mov_epi8(low, 0xFFFFFFFF00000000, high);
}

/* Integers whose bytes are their digits, from -128 to 127; with 128 more in each, if `more`. */
RT_WITH_FIXED RT_FIXED_ALWAYS __m512i rt_fixed_bytes(__m512i integers, bool more, int digits) {
    const __m512i half = _mm512_set1_epi32(digits == RT_FIXED_DIGITS ? 0x808080 : 0x8080),
                  sum = _mm512_add_epi32(integers, half);
    return more ? sum : _mm512_xor_si512(sum, half);
}

/* The bits of the sizes of numbers: those of what is not finite are the largest. */
RT_WITH_FIXED RT_FIXED_ALWAYS __m512i rt_fixed_sizes(__m512 numbers) {
    return _mm512_and_si512((__m512i)numbers, _mm512_set1_epi32(0x7FFFFFFF));
}

/* The integers that stand for numbers in part `part` of the digits of coarse rows: those next to them, if it is the last, else such that what it leaves
 * is the next part. Of floats they are multiples of 256, as the lowest digit is not multiplied by all of the others. */
RT_WITH_FIXED RT_FIXED_ALWAYS __m512i rt_fixed_part(__m512 number, int digits, int part) {
    const float grid = digits == RT_FIXED_DIGITS ? 256 : 1;
    const __m512 fine = _mm512_set1_ps(1 / grid), coarse = _mm512_set1_ps(grid),
                 more = _mm512_set1_ps(rt_fixed_power(RT_FIXED_REST_BITS));
    for (int i = 0;; i++) {
        if (i == rt_fixed_rests(digits)) return _mm512_cvtps_epi32(number);
        const __m512 nearest = _mm512_roundscale_ps(number * fine, 0) * coarse;
        if (i == part) return _mm512_cvtps_epi32(nearest);
        number = (number - nearest) * more;
    }
}
#endif

#endif
