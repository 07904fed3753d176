/* SPDX-License-Identifier: Apache-2.0 */
/* quantize_lanes.h: 16 floats as quantised numbers, and back, in the registers of AVX-512, with the bits of QuantizeLinear and
 * DequantizeLinear.
 */
#ifndef OURO_QUANTIZE_LANES_H
#define OURO_QUANTIZE_LANES_H

#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/lanes.h"
#include <stdbool.h>
#include <stdint.h>

/* A scale whose reciprocal has all its digits, as has what is left of a number of up to 400 times the scale when it is divided. */
static inline bool rt_has_reciprocal(float scale) {
    return scale >= 0x1p-90f && scale <= 0x1p90f;
}

#if RT_X86_KERNELS
#include <immintrin.h>

/* round(x / scale) between two whole numbers; `low` where x is not a number. */
__attribute__((target("avx512f"))) static inline __attribute__((always_inline)) __m512
rt_divided_16(__m512 x, __m512 scale, __m512 low, __m512 high) {
    const __m512 v =
        _mm512_min_ps(_mm512_max_ps(_mm512_div_ps(x, scale), low), high); /* the right one where a NaN is */
    return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* The same between numbers of 8 bits, without divisions, which take longer than all else: what is multiplied with the reciprocal, `factor`,
 * instead differs from a quotient of up to 255 by less than 0.0001, and rounds to another number only where both are as near to the middle of
 * two: these lanes are added to *near, and are to be divided. The scale has a reciprocal. */
__attribute__((target("avx512f"))) static inline __attribute__((always_inline)) __m512
rt_multiplied_bytes_16(__m512 x, __m512 factor, __m512 low, __m512 high, __mmask16 *near) {
    const __m512 v = _mm512_min_ps(_mm512_max_ps(_mm512_mul_ps(x, factor), low), high);
    const __m512 rounded = _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
                 distance = _mm512_abs_ps(_mm512_sub_ps(v, rounded));
    *near = (__mmask16)(*near | _mm512_cmp_ps_mask(distance, _mm512_set1_ps(0.4999f), _CMP_GT_OQ));
    return rounded;
}

/* 64 numbers, or as many of them as `count` says, rounded and put on the zero point, as bytes. What is no number, and what is too small,
 * becomes the least integer; what is too large, a large one. Both stay beyond what a byte holds, with any zero point, until bytes are made,
 * which saturates. Halves of registers are packed, so that quarters are put in order at the end. */
__attribute__((target("avx512bw"))) static inline __attribute__((always_inline)) void
rt_store_bytes_64(uint8_t *y, int64_t count, const __m512 values[4], int32_t zero, bool negative) {
    const __m512 large = _mm512_set1_ps(65536);
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i zeros = _mm512_set1_epi16((int16_t)zero);
    __m512i whole[4];
    for (int i = 0; i < 4;
         i++) /* of an instruction's two operands the second is the result where one is no number */
        whole[i] = _mm512_cvtps_epi32(_mm512_min_ps(large, values[i]));
    const __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(whole[0], whole[1]), zeros),
                  high = _mm512_adds_epi16(_mm512_packs_epi32(whole[2], whole[3]), zeros);
    const __m512i bytes = _mm512_permutexvar_epi32(order, negative ? _mm512_packs_epi16(low, high)
                                                                   : _mm512_packus_epi16(low, high));
    if (count >= 64) _mm512_storeu_si512(y, bytes);
    else _mm512_mask_storeu_epi8(y, rt_first_lanes_64(count), bytes);
}

/* x / scale, of `registers` times 16 floats, 64 or 128, or of `count` of them, as bytes: QuantizeLinear without divisions, which take longer
 * than all else. `factor` is the reciprocal of a scale that has one. What is multiplied with it differs from a quotient of up to 400 by less
 * than 0.0001, and rounds to another number only where both are as near to the middle of two. Such quotients are made anew: what is left of x,
 * times the reciprocal, is added; after the first time this is within one place of the quotient, after the second it is the quotient, rounded
 * (P. Markstein, Computation of elementary functions on the IBM RISC System/6000 processor, 1990, theorem 8.2). `finite`: all numbers and
 * quotients are known to be. */
__attribute__((target("avx512bw,avx512dq"))) static inline __attribute__((always_inline)) void
rt_quantize_bytes(uint8_t *y, int64_t count, const __m512 *x, int registers, __m512 scale, __m512 factor,
                  int32_t zero, bool negative, bool finite) {
    enum {
        TO_NEAREST = 8,
        LARGER_MAGNITUDE = 11,
        MOST_REGISTERS = 8
    }; /* what is left of rounding; of two numbers */
    const __m512 middle = _mm512_set1_ps(0.4999f);
    __m512 v[MOST_REGISTERS], farthest = _mm512_setzero_ps();
    _Pragma("GCC unroll 8") for (int k = 0; k < registers; k++) {
        v[k] = _mm512_mul_ps(x[k], factor);
        farthest = _mm512_range_ps(farthest, _mm512_reduce_ps(v[k], TO_NEAREST), LARGER_MAGNITUDE);
    }
    if (_mm512_cmp_ps_mask(farthest, middle, _CMP_GT_OQ)) {
        _Pragma("GCC unroll 8") for (int k = 0; k < registers; k++) {
            __m512 q = v[k];
            for (int i = 0; i < 2; i++) q = _mm512_fmadd_ps(_mm512_fnmadd_ps(q, scale, x[k]), factor, q);
            if (!finite) { /* nothing is left of what is not: that stays */
                const __m512 left = _mm512_abs_ps(_mm512_reduce_ps(v[k], TO_NEAREST));
                q = _mm512_mask_mov_ps(v[k], _mm512_cmp_ps_mask(left, middle, _CMP_GT_OQ), q);
            }
            v[k] = q;
        }
    }
    for (int k = 0; k < registers && k * 16 < count; k += 4)
        rt_store_bytes_64(y + k * 16, count - k * 16, v + k, zero, negative);
}

/* 16 bytes as floats; of the last ones, `left` are there. */
__attribute__((target("avx512f"))) static inline __attribute__((always_inline)) __m512
rt_load_bytes_16(const uint8_t *from, bool negative, int64_t left) {
    uint8_t some[16] = {0};
    if (left < 16) {
        for (int64_t i = 0; i < left; i++) some[i] = from[i];
        from = some;
    }
    const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)from);
    return _mm512_cvtepi32_ps(negative ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes));
}
#endif

#endif
