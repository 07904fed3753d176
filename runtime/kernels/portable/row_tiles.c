/* SPDX-License-Identifier: Apache-2.0 */
/* row_tiles.c: see row_tiles.h. */
#include "runtime/kernels/portable/row_tiles.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/lanes.h"

enum { LANES = RT_ROW_TILE_WEIGHTS, FILTERS = RT_ROW_TILE_FILTERS, VECTORS = RT_ROW_TILE_POINTS / LANES };

#if RT_X86_KERNELS
#define AVX512 __attribute__((target("avx512f")))
#define INLINE static inline __attribute__((always_inline))

/* Limits as direct_tiles.c has them: a number that is none stays one. */
AVX512 INLINE void finish(bool gated, float low, float high, int vectors, __m512 (*sums)[VECTORS]) {
    _Pragma("GCC unroll 8") for (int f = 0; f < FILTERS; f++) {
        _Pragma("GCC unroll 3") for (int v = 0; v < vectors; v++) {
            __m512 *sum = &sums[f][v];
            if (gated) {
                const __m512 part = _mm512_fmadd_ps(*sum, _mm512_set1_ps(1.0f / 6), _mm512_set1_ps(0.5f));
                *sum = _mm512_mul_ps(
                    *sum, _mm512_min_ps(_mm512_set1_ps(1), _mm512_max_ps(_mm512_setzero_ps(), part)));
            } else {
                RT_LIMIT_16(*sum, low, high);
            }
        }
    }
}

/* One tile from point number `at` on, of so many vectors of points, the last of which has these lanes. What it reads of the strip is handed
 * over as a copy, which stores do not change. */
AVX512 INLINE void make_tile(rt_row_strip of, const float bias[FILTERS], int64_t at, int vectors,
                             __mmask16 last) {
    __m512 sums[FILTERS][VECTORS], seen[VECTORS];
    const float *x = of.x + at, *weights = of.weights;
    float *to = of.y + at;
    const int64_t *const end = of.places + of.elements;
    _Pragma("GCC unroll 8") for (int f = 0; f < FILTERS; f++)
        _Pragma("GCC unroll 3") for (int v = 0; v < vectors; v++) sums[f][v] = _mm512_set1_ps(bias[f]);
    for (const int64_t *place = of.places; place < end; place++, weights += LANES) {
        const float *from = x + *place;
        _Pragma("GCC unroll 3") for (int v = 0; v < vectors; v++) seen[v] =
            v + 1 < vectors ? _mm512_loadu_ps(from + v * LANES)
                            : _mm512_maskz_loadu_ps(last, from + v * LANES);
        _Pragma("GCC unroll 8") for (int f = 0; f < FILTERS; f++) {
            const __m512 weight = _mm512_set1_ps(weights[f]);
            _Pragma("GCC unroll 3") for (int v = 0; v < vectors; v++) sums[f][v] =
                _mm512_fmadd_ps(seen[v], weight, sums[f][v]);
        }
    }
    if (of.limited) finish(of.gated, of.low, of.high, vectors, sums);
    _Pragma("GCC unroll 8") for (int f = 0; f < FILTERS; f++, to += of.y_row) {
        if (f >= of.filters) break;
        _Pragma("GCC unroll 3") for (int v = 0; v < vectors; v++) {
            if (v + 1 < vectors) _mm512_storeu_ps(to + v * LANES, sums[f][v]);
            else _mm512_mask_storeu_ps(to + v * LANES, last, sums[f][v]);
        }
    }
}

AVX512 void rt_row_strip_make(const rt_row_strip *part) {
    const rt_row_strip of = *part;
    float bias[FILTERS] = {0};
    for (int64_t f = 0; f < of.filters && of.bias; f++) bias[f] += of.bias[f];
    for (int64_t at = 0; at < of.points;) {
        /* Four vectors are two and two: a tile of one has too few sums for the multipliers. */
        const int64_t left = of.points - at, vectors = (left + LANES - 1) / LANES,
                      taken = vectors > 4    ? VECTORS
                              : vectors == 4 ? 2
                                             : vectors;
        const __mmask16 last = rt_first_lanes_16(left - (taken - 1) * LANES);
        if (taken == VECTORS && last == 0xffff) make_tile(of, bias, at, VECTORS, 0xffff);
        else if (taken == VECTORS) make_tile(of, bias, at, VECTORS, last);
        else if (taken == 2) make_tile(of, bias, at, 2, last);
        else make_tile(of, bias, at, 1, last);
        at += taken * LANES;
    }
}
#else
void rt_row_strip_make(const rt_row_strip *part) {
    (void)part; /* kernels that ask for it accept nothing on such machines */
}
#endif
