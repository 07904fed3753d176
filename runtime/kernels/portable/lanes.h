/* SPDX-License-Identifier: Apache-2.0 */
/* lanes.h: vectors of floats as wide as the registers of a machine, and what C has no operator for. GCC keeps wider ones in memory. */
#ifndef OURO_LANES_H
#define OURO_LANES_H

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

typedef float rt_floats_4 __attribute__((vector_size(16), may_alias));
typedef float rt_floats_8 __attribute__((vector_size(32), may_alias));
typedef float rt_floats_16 __attribute__((vector_size(64), may_alias));

/* Limits each lane of `sum` to [low, high]; a NaN stays one. For functions that are compiled for such registers. */
#if defined(__x86_64__) && defined(__GNUC__)
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
