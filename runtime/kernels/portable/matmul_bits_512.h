/* SPDX-License-Identifier: Apache-2.0 */
/* matmul_bits_512.h: the dots of matmul_bits.c with AVX-512: groups are of sixteen words, and what is left of a column's last one is
 * loaded under a mask. matmul_bits.c includes it once, after column_part and TOGETHER.
 */
#ifndef OURO_MATMUL_BITS_512_H
#define OURO_MATMUL_BITS_512_H

#include <immintrin.h>

enum { LANES_512 = 16, GROUP_512 = LANES_512 * 4 /* bytes */ };

#define AVX512 __attribute__((target("avx512f")))
#define AVX512_INLINE AVX512 static inline __attribute__((always_inline))

/* The first `count` of sixteen lanes. */
static inline __mmask16 first_lanes(int64_t count) {
    return (__mmask16)(count < LANES_512 ? (1U << count) - 1 : 0xffffU);
}

/* A group of each column from byte `from` on, which is not whole where `bytes` are not: see `dots` of matmul_bits.c. */
AVX512_INLINE void add_group_512(const float *x, const column_part *columns, int count, int64_t from,
                                 int64_t bytes, int shift, int bits, const float *levels, bool whole,
                                 __m512 *total) {
    const int elements = 32 / bits; /* of a word */
    __m512i word[TOGETHER];
    __m512 own[TOGETHER], scale[TOGETHER];
    const __mmask16 some = first_lanes((bytes - from) / 4);
    _Pragma("GCC unroll 4") for (int c = 0; c < count; c++) {
        const float *first = columns[c].scales + (from >> shift);
        word[c] = whole ? _mm512_loadu_si512(columns[c].weights + from)
                        : _mm512_maskz_loadu_epi32(some, columns[c].weights + from);
        if (1 << shift >= GROUP_512) {
            scale[c] = _mm512_set1_ps(first[0]);
        } else {
            const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
            const int64_t rest = (bytes - from) >> shift, most = GROUP_512 >> shift;
            const __m512 all = _mm512_maskz_loadu_ps(first_lanes(rest < most ? rest : most), first);
            scale[c] = _mm512_permutexvar_ps(_mm512_srli_epi32(lane, (unsigned)(shift - 2)), all);
        }
        own[c] = _mm512_setzero_ps();
    }
    _Pragma("GCC unroll 16") for (int j = 0; j < elements; j++) {
        const __m512 left = _mm512_loadu_ps(x + j * LANES_512);
        const __m512i mask = _mm512_set1_epi32((int)(((UINT32_C(1) << bits) - 1) << (j * bits)));
        _Pragma("GCC unroll 4") for (int c = 0; c < count; c++) {
            __m512 right;
            if (levels) {
                right = _mm512_permutexvar_ps(_mm512_srli_epi32(word[c], (unsigned)(j * bits)),
                                              _mm512_loadu_ps(levels));
            } else if (j + 1 == elements) {
                right = _mm512_cvtepi32_ps(_mm512_srli_epi32(word[c], (unsigned)(j * bits)));
            } else {
                right = _mm512_cvtepi32_ps(_mm512_and_si512(word[c], mask));
            }
            own[c] = _mm512_fmadd_ps(left, right, own[c]);
        }
    }
    _Pragma("GCC unroll 4") for (int c = 0; c < count; c++) total[c] =
        _mm512_fmadd_ps(scale[c], own[c], total[c]);
}

/* The sums of the lanes of four vectors. */
AVX512_INLINE void sum_four_512(const __m512 *v, float *y) {
    const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(v[0], v[1]), _mm512_unpackhi_ps(v[0], v[1])),
                 cd = _mm512_add_ps(_mm512_unpacklo_ps(v[2], v[3]), _mm512_unpackhi_ps(v[2], v[3]));
    const __m512 all = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
    const __m128 low = _mm_add_ps(_mm512_extractf32x4_ps(all, 0), _mm512_extractf32x4_ps(all, 1)),
                 high = _mm_add_ps(_mm512_extractf32x4_ps(all, 2), _mm512_extractf32x4_ps(all, 3));
    _mm_storeu_ps(y, _mm_add_ps(low, high));
}

AVX512_INLINE void dots_512(const float *x, const float *sums, const column_part *columns, int count,
                            int64_t blocks, int shift, int bits, const float *levels, float *y) {
    const int64_t bytes = blocks << shift;
    __m512 total[TOGETHER];
    int64_t from = 0;
    _Pragma("GCC unroll 4") for (int c = 0; c < count; c++) total[c] = _mm512_setzero_ps();
    for (; from + GROUP_512 <= bytes; from += GROUP_512, x += GROUP_512 * 8 / bits)
        add_group_512(x, columns, count, from, bytes, shift, bits, levels, true, total);
    if (from < bytes) add_group_512(x, columns, count, from, bytes, shift, bits, levels, false, total);
    for (int64_t b = 0; b < blocks && !levels; b += LANES_512) {
        const __mmask16 some = first_lanes(blocks - b);
        const __m512 sum = _mm512_maskz_loadu_ps(some, sums + b);
        _Pragma("GCC unroll 4") for (int c = 0; c < count; c++) {
            const __m512 shifted = _mm512_mul_ps(_mm512_maskz_loadu_ps(some, columns[c].zeros + b), sum);
            total[c] =
                _mm512_fnmadd_ps(_mm512_maskz_loadu_ps(some, columns[c].scales + b), shifted, total[c]);
        }
    }
    if (count == TOGETHER) sum_four_512(total, y);
    else y[0] = _mm512_reduce_add_ps(total[0]);
}

#define DOTS_512(name, bits, count, levelled)                                                                \
    AVX512 static void dots_512_##name##_##count(const float *x, const float *sums,                          \
                                                 const column_part *columns, int64_t blocks, int shift,      \
                                                 const float *levels, float *y) {                            \
        dots_512(x, sums, columns, count, blocks, shift, bits, levelled ? levels : NULL, y);                 \
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
#undef AVX512
#undef AVX512_INLINE

#endif
