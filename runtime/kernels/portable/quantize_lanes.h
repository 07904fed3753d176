/* SPDX-License-Identifier: Apache-2.0 */
/* quantize_lanes.h: 16 floats as quantised numbers, and back, in the registers of AVX-512, with the bits of QuantizeLinear and
 * DequantizeLinear.
 */
#ifndef OURO_QUANTIZE_LANES_H
#define OURO_QUANTIZE_LANES_H

#include "runtime/kernels/portable/lanes.h"
#include <stdbool.h>
#include <stdint.h>

/* A scale whose reciprocal has all its digits. */
static inline bool rt_has_reciprocal(float scale) {
    return scale >= 0x1p-125f && scale <= 0x1p125f;
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

/* round(x / scale) between two whole numbers; `low` where x is not a number. */
__attribute__((target("avx512f"))) static inline __attribute__((always_inline)) __m512
rt_divided_16(__m512 x, __m512 scale, __m512 low, __m512 high) {
    const __m512 v =
        _mm512_min_ps(_mm512_max_ps(_mm512_div_ps(x, scale), low), high); /* the right one where a NaN is */
    return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* The same between numbers of 8 bits, without divisions, which take longer than all else: what is multiplied with the reciprocal, `factor`, instead differs from a
 * quotient of up to 255 by less than 0.0001, and rounds to another number only where both are as near to the middle of two: these lanes are added to *near, and are to be
 * divided. The scale has a reciprocal. */
__attribute__((target("avx512f"))) static inline __attribute__((always_inline)) __m512
rt_multiplied_bytes_16(__m512 x, __m512 factor, __m512 low, __m512 high, __mmask16 *near) {
    const __m512 v = _mm512_min_ps(_mm512_max_ps(_mm512_mul_ps(x, factor), low), high);
    const __m512 rounded = _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
                 distance = _mm512_abs_ps(_mm512_sub_ps(v, rounded));
    *near = (__mmask16)(*near | _mm512_cmp_ps_mask(distance, _mm512_set1_ps(0.4999f), _CMP_GT_OQ));
    return rounded;
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
