/* SPDX-License-Identifier: Apache-2.0 */
/* lanes.h: vectors of floats as wide as the registers of a machine, and what C has no operator for. GCC keeps wider ones in memory. */
#ifndef OURO_LANES_H
#define OURO_LANES_H

#include "runtime/kernels/base/x86.h"
#include <stdint.h>
#if RT_X86_KERNELS
#include <cpuid.h>
#include <immintrin.h>
#include <stdbool.h>
#endif

typedef float rt_floats_4 __attribute__((vector_size(16), may_alias));
typedef float rt_floats_8 __attribute__((vector_size(32), may_alias));
typedef float rt_floats_16 __attribute__((vector_size(64), may_alias));

/* A vector of numbers from `at`: floats, finite ones in float16 or bfloat16, or integers of 16 bits. For functions that are compiled for such registers. */
#define RT_LOAD_FLOATS(vector, at) (*(const vector *)(const void *)(at))
#define RT_LOAD_HALF_4(vector, at) rt_half_4(at)
#define RT_LOAD_BRAIN_4(vector, at) rt_brain_4(at)
#define RT_LOAD_SHORT_4(vector, at) rt_short_4(at)
#if RT_X86_KERNELS
#define RT_LOAD_HALF_8(vector, at) _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(at)))
#define RT_LOAD_BRAIN_8(vector, at)                                                                          \
    _mm256_castsi256_ps(                                                                                     \
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)(at))), 16))
#define RT_LOAD_SHORT_8(vector, at)                                                                          \
    _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)(const void *)(at))))
#define RT_LOAD_SHORT_16(vector, at)                                                                         \
    _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(at))))
#define RT_LOAD_HALF_16(vector, at) _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(at)))
#define RT_LOAD_BRAIN_16(vector, at)                                                                         \
    _mm512_castsi512_ps(_mm512_slli_epi32(                                                                   \
        _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(at))), 16))
#endif

/* So many floats from here. Where an image ends nothing is read, but addresses are computed, which C knows within an object alone. */
static inline const float *rt_address(const float *from, int64_t floats) {
    return (const float *)((uintptr_t)from + (uintptr_t)(floats * (int64_t)sizeof *from));
}

/* The third point or row after the one at `from`, of those that lie so many floats apart. One address leads to three of them, and moves: the
 * compiler, which does not see how it is made, otherwise keeps one for each, more than there are registers. */
static inline const float *rt_third(const float *from, int64_t apart) {
    from = rt_address(from, 3 * apart);
    __asm__("" : "+r"(from));
    return from;
}

/* A mask of the first `count` of 64 lanes, or of 16: of none where `count` is negative, of all where there are not as many. */
static inline uint64_t rt_first_lanes_64(int64_t count) {
    return count >= 64 ? UINT64_MAX : count > 0 ? (UINT64_C(1) << count) - 1 : 0;
}

static inline uint16_t rt_first_lanes_16(int64_t count) {
    return (uint16_t)rt_first_lanes_64(count);
}

#if RT_X86_KERNELS
/* The larger numbers of two vectors; a NaN where either is one: the instruction gives its second operand where one is. */
__attribute__((target("avx512f"))) static inline __m512 rt_larger_16(__m512 value, __m512 most) {
    const __mmask16 none = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    return _mm512_mask_mov_ps(_mm512_max_ps(value, most), none, value);
}

/* Sixteen vectors become one: lane r is the largest lane of vector r, or the sum of its lanes, each half of which is added to the other until one is left. */
#define RT_HALVES_OF(operation, a, b)                                                                        \
    operation(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee))
#define RT_QUARTERS_OF(operation, a, b)                                                                      \
    operation(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd))
#define RT_PAIRS_OF(operation, a, b) operation(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b))
#define RT_ONES_OF(operation, a, b)                                                                          \
    operation(_mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b))),                \
              _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b))))
#define RT_OF_16(name, operation)                                                                            \
    __attribute__((target("avx512f"))) static inline __m512 name(const float vectors[16][16]) {              \
        __m512 quarters[4];                                                                                  \
        _Pragma("GCC unroll 4") for (int j = 0; j < 4; j++) {                                                \
            const __m512 a = _mm512_loadu_ps(vectors[j]), b = _mm512_loadu_ps(vectors[j + 4]),               \
                         c = _mm512_loadu_ps(vectors[j + 8]), d = _mm512_loadu_ps(vectors[j + 12]);          \
            const __m512 ab = RT_HALVES_OF(operation, a, b), cd = RT_HALVES_OF(operation, c, d);             \
            quarters[j] = RT_QUARTERS_OF(operation, ab, cd);                                                 \
        }                                                                                                    \
        const __m512 first = RT_PAIRS_OF(operation, quarters[0], quarters[1]),                               \
                     second = RT_PAIRS_OF(operation, quarters[2], quarters[3]);                              \
        return RT_ONES_OF(operation, first, second);                                                         \
    }
RT_OF_16(rt_largest_of_16, _mm512_max_ps)
RT_OF_16(rt_sums_of_16, _mm512_add_ps)

/* Whether the machine converts float16 by instructions. For machines that are known to have AVX2, so that the system saves such registers. */
static inline bool rt_has_half_conversions(void) {
#if defined(__clang__)
    /* Clang 14 does not know the name. Asking the processor itself is slow under a hypervisor. */
    unsigned a, b, c = 0, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
#else
    return __builtin_cpu_supports("f16c");
#endif
}
#endif

typedef uint16_t rt_halves_4 __attribute__((vector_size(8), may_alias, aligned(2)));
typedef uint32_t rt_words_4 __attribute__((vector_size(16), may_alias));

/* As half_load in kernels.c. */
static inline rt_floats_4 rt_half_4(const uint16_t *from) {
    const rt_words_4 half = __builtin_convertvector(*(const rt_halves_4 *)(const void *)from, rt_words_4);
    const rt_floats_4 size = (rt_floats_4)((half & 0x7fffu) << 13) * 0x1p112f;
    return (rt_floats_4)((rt_words_4)size | (half & 0x8000u) << 16);
}

static inline rt_floats_4 rt_brain_4(const uint16_t *from) {
    return (rt_floats_4)(__builtin_convertvector(*(const rt_halves_4 *)(const void *)from, rt_words_4) << 16);
}

static inline rt_floats_4 rt_short_4(const uint16_t *from) {
    typedef int16_t shorts __attribute__((vector_size(8), may_alias, aligned(2)));
    return __builtin_convertvector(*(const shorts *)(const void *)from, rt_floats_4);
}

/* Limits each lane of `sum` to [low, high]; a NaN stays one. For functions that are compiled for such registers. */
#if RT_X86_KERNELS
#define RT_LIMIT_4(sum, low, high) ((sum) = _mm_min_ps(_mm_set1_ps(high), _mm_max_ps(_mm_set1_ps(low), sum)))
#define RT_LIMIT_8(sum, low, high)                                                                           \
    ((sum) = _mm256_min_ps(_mm256_set1_ps(high), _mm256_max_ps(_mm256_set1_ps(low), sum)))
#define RT_LIMIT_16(sum, low, high)                                                                          \
    ((sum) = _mm512_min_ps(_mm512_set1_ps(high), _mm512_max_ps(_mm512_set1_ps(low), sum)))
#else
#define RT_LIMIT_4(sum, low, high)                                                                           \
    for (int lane = 0; lane < 4; lane++) {                                                                   \
        const float above = (sum)[lane] < (low) ? (low) : (sum)[lane];                                       \
        (sum)[lane] = above > (high) ? (high) : above;                                                       \
    }
#endif

#endif
