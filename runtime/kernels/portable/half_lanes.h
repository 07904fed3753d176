/* SPDX-License-Identifier: Apache-2.0 */
/* half_lanes.h: vectors of floats from numbers of 16 bits and back, as rt_half_load and rt_half_store have them, but for the payloads of
 * NaNs. For functions that are compiled for such registers; lanes.h has the other ways to load.
 */
#ifndef OURO_HALF_LANES_H
#define OURO_HALF_LANES_H

#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/lanes.h"

/* On any machine. */
static inline __attribute__((always_inline)) rt_floats_4 rt_any_half_4(const uint16_t *from) {
    const rt_words_4 half = __builtin_convertvector(*(const rt_halves_4 *)(const void *)from, rt_words_4),
                     rest = half & 0x7fffu;
    const rt_floats_4 size = (rt_floats_4)(rest << 13) * 0x1p112f;
    const rt_words_4 special = (rt_words_4)(rest >= 0x7c00u) & 0x7f800000u; /* infinities and NaN */
    return (rt_floats_4)((rt_words_4)size | special | (half & 0x8000u) << 16);
}

#define RT_STORE_4(dtype, floats, to)                                                                        \
    do {                                                                                                     \
        const rt_floats_4 stored = floats;                                                                   \
        rt_half_store(dtype, to, (const float *)&stored, 4);                                                 \
    } while (0)
#define RT_STORE_HALF_4(floats, to) RT_STORE_4(OP_FLOAT16, floats, to)
#define RT_STORE_BRAIN_4(floats, to) RT_STORE_4(OP_BFLOAT16, floats, to)

#if RT_X86_KERNELS
/* bfloat16, in the lower halves of words. */
__attribute__((target("avx512f"))) static inline __attribute__((always_inline)) __m512i
rt_brains_16(__m512 floats) {
    const __m512i bits = _mm512_castps_si512(floats), upper = _mm512_srli_epi32(bits, 16),
                  even = _mm512_and_si512(upper, _mm512_set1_epi32(1)),
                  more = _mm512_add_epi32(even, _mm512_set1_epi32(0x7fff)),
                  rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, more), 16),
                  quiet = _mm512_or_si512(upper, _mm512_set1_epi32(0x40));
    return _mm512_mask_mov_epi32(rounded, _mm512_cmp_ps_mask(floats, floats, _CMP_UNORD_Q), quiet);
}

__attribute__((target("avx2"))) static inline __attribute__((always_inline)) __m128i
rt_brains_8(__m256 floats) {
    const __m256i bits = _mm256_castps_si256(floats), upper = _mm256_srli_epi32(bits, 16),
                  even = _mm256_and_si256(upper, _mm256_set1_epi32(1)),
                  more = _mm256_add_epi32(even, _mm256_set1_epi32(0x7fff)),
                  rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, more), 16),
                  quiet = _mm256_or_si256(upper, _mm256_set1_epi32(0x40)),
                  is_nan = _mm256_castps_si256(_mm256_cmp_ps(floats, floats, _CMP_UNORD_Q)),
                  all = _mm256_blendv_epi8(rounded, quiet, is_nan);
    return _mm_packus_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
}

#define RT_ROUND_HALF (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define RT_STORE_HALF_16(floats, to)                                                                         \
    _mm256_storeu_si256((__m256i *)(void *)(to), _mm512_cvtps_ph(floats, RT_ROUND_HALF))
#define RT_STORE_HALF_8(floats, to)                                                                          \
    _mm_storeu_si128((__m128i *)(void *)(to), _mm256_cvtps_ph(floats, RT_ROUND_HALF))
#define RT_STORE_BRAIN_16(floats, to)                                                                        \
    _mm256_storeu_si256((__m256i *)(void *)(to), _mm512_cvtepi32_epi16(rt_brains_16(floats)))
#define RT_STORE_BRAIN_8(floats, to) _mm_storeu_si128((__m128i *)(void *)(to), rt_brains_8(floats))

/* The bits of rt_half_load, also of a NaN: the instruction makes it quiet. */
__attribute__((target("avx512f,avx512bw,avx512vl"))) static inline __attribute__((always_inline)) __m512
rt_widened_16(__m256i halves) {
    const __m512 wide = _mm512_cvtph_ps(halves);
    const __mmask16 nan = _mm512_cmp_ps_mask(wide, wide, _CMP_UNORD_Q);
    if (__builtin_expect(nan == 0, 1)) return wide;
    const __m512i words = _mm512_cvtepu16_epi32(halves),
                  sign = _mm512_slli_epi32(_mm512_and_si512(words, _mm512_set1_epi32(0x8000)), 16),
                  rest = _mm512_slli_epi32(_mm512_and_si512(words, _mm512_set1_epi32(0x7fff)), 13),
                  kept = _mm512_or_si512(_mm512_or_si512(sign, rest), _mm512_set1_epi32(0x7f800000));
    return _mm512_mask_mov_ps(wide, nan, _mm512_castsi512_ps(kept));
}

/* And of rt_half_store: a NaN keeps its sign alone. */
__attribute__((target("avx512f,avx512bw,avx512vl"))) static inline __attribute__((always_inline)) __m256i
rt_narrowed_16(__m512 wide) {
    const __m256i halves = _mm512_cvtps_ph(wide, RT_ROUND_HALF);
    const __mmask16 nan = _mm512_cmp_ps_mask(wide, wide, _CMP_UNORD_Q);
    if (__builtin_expect(nan == 0, 1)) return halves;
    const __m512i upper = _mm512_srli_epi32(_mm512_castps_si512(wide), 16),
                  sign = _mm512_and_si512(upper, _mm512_set1_epi32(0x8000)),
                  one = _mm512_or_si512(sign, _mm512_set1_epi32(0x7e00));
    return _mm256_mask_mov_epi16(halves, nan, _mm512_cvtepi32_epi16(one));
}

/* 16 floats, or 16 halves (float16) as floats; others than these lanes are zeros, and need not be there. And back, rounded once. */
__attribute__((target("avx512f,avx512bw,avx512vl"))) static inline __attribute__((always_inline)) __m512
rt_load_lanes_16(const void *from, __mmask16 lanes, bool halves) {
    return halves ? _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes, from))
                  : _mm512_maskz_loadu_ps(lanes, from);
}

__attribute__((target("avx512f,avx512bw,avx512vl"))) static inline __attribute__((always_inline)) void
rt_store_lanes_16(void *to, __mmask16 lanes, __m512 floats, bool halves) {
    if (halves) _mm256_mask_storeu_epi16(to, lanes, _mm512_cvtps_ph(floats, RT_ROUND_HALF));
    else _mm512_mask_storeu_ps(to, lanes, floats);
}
#endif

#endif
