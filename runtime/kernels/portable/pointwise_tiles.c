/* SPDX-License-Identifier: Apache-2.0 */
/* pointwise_tiles.c: see pointwise_tiles.h. */
#include "runtime/kernels/portable/pointwise_tiles.h"
#include "runtime/kernels/portable/lanes.h"
#include "runtime/kernels/portable/pair_tiles.h"
#include <string.h>

/* A weight, or a pair of them. */
typedef float word __attribute__((may_alias));

/* ROWS filters at the points of VECTORS vectors. */
#define TILE(name, target, vector, ROWS, VECTORS, ADD_PRODUCT, LIMIT)                                        \
    target static void name(const rt_pointwise_tile *tile) {                                                 \
        enum { WIDE = sizeof(vector) / sizeof(float) };                                                      \
        const word *restrict weights = tile->weights;                                                        \
        const float *restrict panel = tile->panel;                                                           \
        float *y = tile->y;                                                                                  \
        const int64_t row = tile->row;                                                                       \
        const float low = tile->low, high = tile->high;                                                      \
        vector sums[ROWS][VECTORS];                                                                          \
        _Pragma("GCC unroll 6") for (int r = 0; r < ROWS; r++) {                                             \
            _Pragma("GCC unroll 2") for (int v = 0; v < VECTORS; v++) {                                      \
                sums[r][v] = (vector){0};                                                                    \
                if (tile->from) memcpy(&sums[r][v], tile->from + r * row + v * WIDE, sizeof(vector));        \
                sums[r][v] += tile->bias[r];                                                                 \
            }                                                                                                \
        }                                                                                                    \
        for (int64_t k = 0; k < tile->depth; k++, weights += ROWS, panel += 2 * WIDE) {                      \
            vector right[VECTORS];                                                                           \
            _Pragma("GCC unroll 2") for (int v = 0; v < VECTORS; v++) right[v] =                             \
                *(const vector *)(const void *)(panel + v * WIDE);                                           \
            _Pragma("GCC unroll 6") for (int r = 0; r < ROWS; r++) {                                         \
                _Pragma("GCC unroll 2") for (int v = 0; v < VECTORS; v++)                                    \
                    ADD_PRODUCT(sums[r][v], weights[r], right[v]);                                           \
            }                                                                                                \
        }                                                                                                    \
        _Pragma("GCC unroll 6") for (int r = 0; r < ROWS; r++) {                                             \
            _Pragma("GCC unroll 2") for (int v = 0; v < VECTORS; v++) {                                      \
                LIMIT(sums[r][v], low, high);                                                                \
                memcpy(y + r * row + v * WIDE, &sums[r][v], sizeof(vector));                                 \
            }                                                                                                \
        }                                                                                                    \
    }

#define TILES(suffix, target, vector, PAIRS, ADD_PRODUCT, LIMIT)                                             \
    TILE(tile_3_##suffix, target, vector, 3, 2, ADD_PRODUCT, LIMIT)                                          \
    TILE(tile_4_##suffix, target, vector, 4, 2, ADD_PRODUCT, LIMIT)                                          \
    TILE(tile_5_##suffix, target, vector, 5, 2, ADD_PRODUCT, LIMIT)                                          \
    TILE(tile_6_##suffix, target, vector, 6, 2, ADD_PRODUCT, LIMIT)                                          \
    TILE(half_3_##suffix, target, vector, 3, 1, ADD_PRODUCT, LIMIT)                                          \
    TILE(half_4_##suffix, target, vector, 4, 1, ADD_PRODUCT, LIMIT)                                          \
    TILE(half_5_##suffix, target, vector, 5, 1, ADD_PRODUCT, LIMIT)                                          \
    TILE(half_6_##suffix, target, vector, 6, 1, ADD_PRODUCT, LIMIT)                                          \
    static const rt_pointwise_tiles tiles_##suffix = {                                                       \
        sizeof(vector) / sizeof(float),                                                                      \
        PAIRS,                                                                                               \
        {{half_3_##suffix, half_4_##suffix, half_5_##suffix, half_6_##suffix},                               \
         {tile_3_##suffix, tile_4_##suffix, tile_5_##suffix, tile_6_##suffix}}};

#define ADD(sum, left, right) ((sum) += (left) * (right))
TILES(plain, , rt_floats_4, false, ADD, RT_LIMIT_4)

#if defined(__x86_64__) && defined(__GNUC__)
#define AVX2 __attribute__((target("avx2,fma")))
#define AVX512 __attribute__((target("avx512f")))
#define ADD_8(sum, left, right) ((sum) = _mm256_fmadd_ps(_mm256_set1_ps(left), right, sum))
#define ADD_16(sum, left, right) ((sum) = _mm512_fmadd_ps(_mm512_set1_ps(left), right, sum))
TILES(avx2, AVX2, rt_floats_8, false, ADD_8, RT_LIMIT_8)
TILES(avx512, AVX512, rt_floats_16, false, ADD_16, RT_LIMIT_16)

#define PAIRS __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#define ADD_PAIRS(sum, left, right)                                                                          \
    ((sum) = _mm512_dpbf16_ps(sum, (__m512bh)_mm512_set1_ps(left), (__m512bh)(right)))
TILES(pairs, PAIRS, rt_floats_16, true, ADD_PAIRS, RT_LIMIT_16)
#endif

const rt_pointwise_tiles *rt_pointwise_tiles_for(op_dtype dtype, int most) {
#if defined(__x86_64__) && defined(__GNUC__)
    if (most > 16 && dtype == OP_BFLOAT16 && rt_pairs_here()) return &tiles_pairs;
    if (most >= 16 && __builtin_cpu_supports("avx512f")) return &tiles_avx512;
    if (most >= 8 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &tiles_avx2;
#else
    (void)dtype, (void)most;
#endif
    return &tiles_plain;
}
