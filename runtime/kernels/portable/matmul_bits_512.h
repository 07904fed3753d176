/* SPDX-License-Identifier: Apache-2.0 */
/* matmul_bits_512.h: the dots of matmul_bits_few.c with AVX-512: groups are of sixteen words, and what is left of a column's last one is
 * loaded under a mask. matmul_bits_few.c includes it once, after column_part and TOGETHER.
 */
#ifndef OURO_MATMUL_BITS_512_H
#define OURO_MATMUL_BITS_512_H

#include "runtime/kernels/portable/lanes.h"
#include <immintrin.h>

enum { LANES_512 = 16, GROUP_512 = LANES_512 * 4 /* bytes */ };

#define AVX512 __attribute__((target("avx512f")))
#define AVX512_INLINE AVX512 static inline __attribute__((always_inline))

/* What the functions below read: four columns or one, of `blocks` blocks each. */
typedef struct columns_512 {
    const uint8_t *weights[TOGETHER];
    const float *scales[TOGETHER];
    const float *zeros[TOGETHER]; /* not read where all columns have the same */
    int64_t blocks;
    int shift;  /* a block has 1 << shift bytes */
    bool large; /* which is a group, or several */
    /* Of each block of x: its sum times the zero point that all columns have, negative, for each word of the block one share; or the
     * sum alone. */
    const float *sums;
    const float *levels;
} columns_512;

/* One number a block, for the lanes of a group that begins with block `first`. */
AVX512_INLINE __m512 spread_512(const float *of_blocks, int64_t first, const columns_512 *of) {
    if (of->large) return _mm512_set1_ps(of_blocks[first]);
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const int64_t rest = of->blocks - first, most = GROUP_512 >> of->shift;
    const __m512 all = _mm512_maskz_loadu_ps(rt_first_lanes_16(rest < most ? rest : most), of_blocks + first);
    return _mm512_permutexvar_ps(_mm512_srli_epi32(lane, (unsigned)(of->shift - 2)), all);
}

/* A group of each column from byte `from` on, which is not whole where the columns are not: see `dots` of matmul_bits_few.c. */
AVX512_INLINE void add_group_512(const float *x, const columns_512 *of, int count, int64_t from, int bits,
                                 bool levelled, bool same, bool whole, __m512 *total) {
    const int elements = 32 / bits; /* of a word */
    const int64_t first = from >> of->shift;
    const __mmask16 some = rt_first_lanes_16(((of->blocks << of->shift) - from) / 4);
    const __m512 start = same ? spread_512(of->sums, first, of) : _mm512_setzero_ps();
    __m512i word[TOGETHER];
    __m512 own[TOGETHER];
    _Pragma("GCC unroll 4") for (int c = 0; c < count; c++) {
        word[c] = whole ? _mm512_loadu_si512(of->weights[c] + from)
                        : _mm512_maskz_loadu_epi32(some, of->weights[c] + from);
        own[c] = whole ? start : _mm512_maskz_mov_ps(some, start);
    }
    _Pragma("GCC unroll 16") for (int j = 0; j < elements; j++) {
        const __m512 left = _mm512_loadu_ps(x + j * LANES_512);
        const __m512i mask = _mm512_set1_epi32((int)(((UINT32_C(1) << bits) - 1) << (j * bits)));
        _Pragma("GCC unroll 4") for (int c = 0; c < count; c++) {
            __m512 right;
            if (levelled)
                right = _mm512_permutexvar_ps(_mm512_srli_epi32(word[c], (unsigned)(j * bits)),
                                              _mm512_loadu_ps(of->levels));
            else if (j + 1 == elements)
                right = _mm512_cvtepi32_ps(_mm512_srli_epi32(word[c], (unsigned)(j * bits)));
            else right = _mm512_cvtepi32_ps(_mm512_and_si512(word[c], mask));
            own[c] = _mm512_fmadd_ps(left, right, own[c]);
        }
    }
    _Pragma("GCC unroll 4") for (int c = 0; c < count; c++) total[c] =
        _mm512_fmadd_ps(own[c], spread_512(of->scales[c], first, of), total[c]);
}

/* The sums of the lanes of four vectors. */
AVX512_INLINE __m128 sum_four_512(const __m512 *v) {
    const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(v[0], v[1]), _mm512_unpackhi_ps(v[0], v[1])),
                 cd = _mm512_add_ps(_mm512_unpacklo_ps(v[2], v[3]), _mm512_unpackhi_ps(v[2], v[3]));
    const __m512 all = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
    const __m128 low = _mm_add_ps(_mm512_extractf32x4_ps(all, 0), _mm512_extractf32x4_ps(all, 1)),
                 high = _mm_add_ps(_mm512_extractf32x4_ps(all, 2), _mm512_extractf32x4_ps(all, 3));
    return _mm_add_ps(low, high);
}

AVX512_INLINE void dots_512(const float *x, const columns_512 *of, int count, int bits, bool levelled,
                            bool same, float *y) {
    const int64_t bytes = of->blocks << of->shift;
    __m512 total[TOGETHER];
    int64_t from = 0;
    _Pragma("GCC unroll 4") for (int c = 0; c < count; c++) total[c] = _mm512_setzero_ps();
    for (; from + GROUP_512 <= bytes; from += GROUP_512, x += GROUP_512 * 8 / bits)
        add_group_512(x, of, count, from, bits, levelled, same, true, total);
    if (from < bytes) add_group_512(x, of, count, from, bits, levelled, same, false, total);
    for (int64_t b = 0; b < of->blocks && !levelled && !same; b += LANES_512) {
        const __mmask16 some = rt_first_lanes_16(of->blocks - b);
        const __m512 sum = _mm512_maskz_loadu_ps(some, of->sums + b);
        _Pragma("GCC unroll 4") for (int c = 0; c < count; c++) {
            const __m512 shifted = _mm512_mul_ps(_mm512_maskz_loadu_ps(some, of->zeros[c] + b), sum);
            total[c] = _mm512_fnmadd_ps(_mm512_maskz_loadu_ps(some, of->scales[c] + b), shifted, total[c]);
        }
    }
    _Pragma("GCC unroll 4") for (int c = count; c < TOGETHER; c++) total[c] = total[0];
    const __m128 all = sum_four_512(total);
    if (count == TOGETHER) _mm_storeu_ps(y, all);
    else y[0] = _mm_cvtss_f32(all);
}

/* As dots_function. */
#define DOTS_512(name, bits, count, levelled)                                                                \
    AVX512 static void dots_512_##name##_##count(const float *x, const float *sums,                          \
                                                 const column_part *columns, int64_t blocks, int shift,      \
                                                 const float *levels, float *y) {                            \
        columns_512 of = {.blocks = blocks,                                                                  \
                          .shift = shift,                                                                    \
                          .large = 1 << shift >= GROUP_512,                                                  \
                          .sums = sums,                                                                      \
                          .levels = levels};                                                                 \
        for (int c = 0; c < count; c++) {                                                                    \
            of.weights[c] = columns[c].weights;                                                              \
            of.scales[c] = columns[c].scales;                                                                \
            of.zeros[c] = columns[c].zeros;                                                                  \
        }                                                                                                    \
        dots_512(x, &of, count, bits, levelled, false, y);                                                   \
    }
DOTS_512(2, 2, 1, false)
DOTS_512(4, 4, 1, false)
DOTS_512(8, 8, 1, false)
DOTS_512(levels, 4, 1, true)
DOTS_512(2, 2, 4, false)
DOTS_512(4, 4, 4, false)
DOTS_512(8, 8, 4, false)
DOTS_512(levels, 4, 4, true)
#undef DOTS_512

/* Column `i` of each quarter, for `each` of them, in one go: all columns have the same zero points, or none. */
AVX512_INLINE void quarters_512(const float *x, const columns_512 *first, int64_t each, int bits,
                                bool levelled, bool large, const float *bias, float *y) {
    const int64_t bytes = first->blocks << first->shift;
    columns_512 of = *first;
    of.large = large;
    for (int64_t i = 0; i < each; i++) {
        float sums[TOGETHER];
        dots_512(x, &of, TOGETHER, bits, levelled, !levelled, sums);
        _Pragma("GCC unroll 4") for (int c = 0; c < TOGETHER; c++) {
            y[c * each + i] = sums[c] + (bias ? bias[c * each + i] : 0);
            of.weights[c] += bytes;
            of.scales[c] += of.blocks;
        }
    }
}

typedef void quarters_function(const float *x, const columns_512 *first, int64_t each, const float *bias,
                               float *y);
#define QUARTERS_512(name, bits, levelled)                                                                   \
    AVX512 static void quarters_512_##name(const float *x, const columns_512 *first, int64_t each,           \
                                           const float *bias, float *y) {                                    \
        if (first->large) quarters_512(x, first, each, bits, levelled, true, bias, y);                       \
        else quarters_512(x, first, each, bits, levelled, false, bias, y);                                   \
    }
QUARTERS_512(2, 2, false)
QUARTERS_512(4, 4, false)
QUARTERS_512(8, 8, false)
QUARTERS_512(levels, 4, true)
#undef QUARTERS_512
#undef AVX512
#undef AVX512_INLINE

#endif
