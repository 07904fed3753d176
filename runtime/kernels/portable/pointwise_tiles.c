/* SPDX-License-Identifier: Apache-2.0 */
/* pointwise_tiles.c: see pointwise_tiles.h. */
#include "runtime/kernels/portable/pointwise_tiles.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/lanes.h"
#include "runtime/kernels/portable/pair_tiles.h"
#include <string.h>

/* A weight, or a pair of them. */
typedef float word __attribute__((may_alias));

/* ROWS filters at the points of VECTORS vectors. */
#define TILE(name, target, vector, ROWS, VECTORS, ADD_PRODUCT, LIMIT, LOAD, STORE)                           \
    target static void name(const rt_pointwise_tile *tile) {                                                 \
        enum { WIDE = sizeof(vector) / sizeof(float) };                                                      \
        const word *restrict weights = tile->weights;                                                        \
        const float *restrict panel = tile->panel;                                                           \
        float *y = tile->y;                                                                                  \
        const int64_t row = tile->row;                                                                       \
        const float low = tile->low, high = tile->high;                                                      \
        vector sums[ROWS][VECTORS];                                                                          \
        _Pragma("GCC unroll 6") for (int r = 0; r < ROWS; r++) {                                             \
            _Pragma("GCC unroll 3") for (int v = 0; v < VECTORS; v++) {                                      \
                sums[r][v] = (vector){0};                                                                    \
                if (tile->from && v + 1 < VECTORS) LOAD_ALL(sums[r][v], tile->from + r * row + v * WIDE, 0); \
                else if (tile->from)                                                                         \
                    LOAD(sums[r][v], tile->from + r * row + v * WIDE, tile->points - v * WIDE);              \
                sums[r][v] += tile->bias[r];                                                                 \
            }                                                                                                \
        }                                                                                                    \
        for (int64_t k = 0; k < tile->depth; k++, weights += ROWS, panel += (VECTORS > 2 ? 4 : 2) * WIDE) {  \
            vector right[VECTORS];                                                                           \
            _Pragma("GCC unroll 3") for (int v = 0; v < VECTORS; v++) right[v] =                             \
                *(const vector *)(const void *)(panel + v * WIDE);                                           \
            _Pragma("GCC unroll 6") for (int r = 0; r < ROWS; r++) {                                         \
                _Pragma("GCC unroll 3") for (int v = 0; v < VECTORS; v++)                                    \
                    ADD_PRODUCT(sums[r][v], weights[r], right[v]);                                           \
            }                                                                                                \
        }                                                                                                    \
        _Pragma("GCC unroll 6") for (int r = 0; r < ROWS; r++) {                                             \
            _Pragma("GCC unroll 3") for (int v = 0; v < VECTORS; v++) {                                      \
                LIMIT(sums[r][v], low, high);                                                                \
                if (v + 1 < VECTORS) STORE_ALL(y + r * row + v * WIDE, sums[r][v], 0);                       \
                else STORE(y + r * row + v * WIDE, sums[r][v], tile->points - v * WIDE);                     \
            }                                                                                                \
        }                                                                                                    \
    }

#define LOAD_ALL(sum, at, count) memcpy(&(sum), at, sizeof(sum))
#define STORE_ALL(at, sum, count) memcpy(at, &(sum), sizeof(sum))

#define TILES(suffix, target, vector, ADD_PRODUCT, LIMIT, LOAD, STORE)                                       \
    TILE(tile_1_##suffix, target, vector, 1, 2, ADD_PRODUCT, LIMIT, LOAD, STORE)                             \
    TILE(tile_2_##suffix, target, vector, 2, 2, ADD_PRODUCT, LIMIT, LOAD, STORE)                             \
    TILE(tile_3_##suffix, target, vector, 3, 2, ADD_PRODUCT, LIMIT, LOAD, STORE)                             \
    TILE(tile_4_##suffix, target, vector, 4, 2, ADD_PRODUCT, LIMIT, LOAD, STORE)                             \
    TILE(tile_5_##suffix, target, vector, 5, 2, ADD_PRODUCT, LIMIT, LOAD, STORE)                             \
    TILE(tile_6_##suffix, target, vector, 6, 2, ADD_PRODUCT, LIMIT, LOAD, STORE)                             \
    TILE(half_1_##suffix, target, vector, 1, 1, ADD_PRODUCT, LIMIT, LOAD, STORE)                             \
    TILE(half_2_##suffix, target, vector, 2, 1, ADD_PRODUCT, LIMIT, LOAD, STORE)                             \
    TILE(half_3_##suffix, target, vector, 3, 1, ADD_PRODUCT, LIMIT, LOAD, STORE)                             \
    TILE(half_4_##suffix, target, vector, 4, 1, ADD_PRODUCT, LIMIT, LOAD, STORE)                             \
    TILE(half_5_##suffix, target, vector, 5, 1, ADD_PRODUCT, LIMIT, LOAD, STORE)                             \
    TILE(half_6_##suffix, target, vector, 6, 1, ADD_PRODUCT, LIMIT, LOAD, STORE)
/* Last panels, of three vectors. */
#define THREES(suffix, target, vector, ADD_PRODUCT, LIMIT, LOAD, STORE)                                      \
    TILE(three_1_##suffix, target, vector, 1, 3, ADD_PRODUCT, LIMIT, LOAD, STORE)                            \
    TILE(three_2_##suffix, target, vector, 2, 3, ADD_PRODUCT, LIMIT, LOAD, STORE)                            \
    TILE(three_3_##suffix, target, vector, 3, 3, ADD_PRODUCT, LIMIT, LOAD, STORE)                            \
    TILE(three_4_##suffix, target, vector, 4, 3, ADD_PRODUCT, LIMIT, LOAD, STORE)                            \
    TILE(three_5_##suffix, target, vector, 5, 3, ADD_PRODUCT, LIMIT, LOAD, STORE)                            \
    TILE(three_6_##suffix, target, vector, 6, 3, ADD_PRODUCT, LIMIT, LOAD, STORE)
#define NAMES(suffix)                                                                                        \
    {half_1_##suffix, half_2_##suffix, half_3_##suffix, half_4_##suffix, half_5_##suffix, half_6_##suffix},  \
    {                                                                                                        \
        tile_1_##suffix, tile_2_##suffix, tile_3_##suffix, tile_4_##suffix, tile_5_##suffix, tile_6_##suffix \
    }
#define NAMES_OF_THREE(suffix)                                                                               \
    {                                                                                                        \
        three_1_##suffix, three_2_##suffix, three_3_##suffix, three_4_##suffix, three_5_##suffix,            \
            three_6_##suffix                                                                                 \
    }

#define ADD(sum, left, right) ((sum) += (left) * (right))
TILES(plain, , rt_floats_4, ADD, RT_LIMIT_4, LOAD_ALL, STORE_ALL)
static const rt_pointwise_tiles tiles_plain = {.lanes = 4, .run = {NAMES(plain)}};

#if RT_X86_KERNELS
#define AVX2 __attribute__((target("avx2,fma")))
#define AVX512 __attribute__((target("avx512f")))
#define ADD_8(sum, left, right) ((sum) = _mm256_fmadd_ps(_mm256_set1_ps(left), right, sum))
#define ADD_16(sum, left, right) ((sum) = _mm512_fmadd_ps(_mm512_set1_ps(left), right, sum))
#define LOAD_SOME(sum, at, count) ((sum) = _mm512_maskz_loadu_ps(rt_first_lanes_16(count), at))
#define STORE_SOME(at, sum, count) _mm512_mask_storeu_ps(at, rt_first_lanes_16(count), sum)

AVX512 static void copy_edge(const float *x, int64_t points, int64_t depth, int64_t count, int64_t row,
                             float *panel) {
    enum { WIDE = 16 };
    for (int64_t k = 0; k < depth; k++, x += points, panel += row)
        for (int64_t i = 0; i < count; i += WIDE)
            _mm512_store_ps(panel + i, _mm512_maskz_loadu_ps(rt_first_lanes_16(count - i), x + i));
}

/* A vector is four filters at four points; a tile is two vectors, six of which do not wait for each other. Weights are spread by a permutation. */
AVX512 static void tail_avx512(const rt_pointwise_tile *tiles, const int64_t *rows, int count) {
    enum { WIDE = 16, TILES = RT_POINTWISE_TAIL_TILES, POINTS = RT_POINTWISE_TAIL, VECTORS = 2 };
    const __m512i spread[VECTORS] = {_mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3),
                                     _mm512_setr_epi32(4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7)};
    const int64_t points = tiles->points, depth = tiles->depth;
    const float *panel = tiles->panel, *weights[TILES];
    int64_t steps[TILES];
    __mmask16 there[TILES];
    __m512 sums[TILES][VECTORS];
    for (int t = 0; t < TILES; t++) {
        const int own = t < count ? t : count - 1; /* more than there are compute the last one again */
        const rt_pointwise_tile *tile = tiles + own;
        float first[VECTORS * WIDE] = {0};
        weights[t] = tile->weights;
        steps[t] = rows[own];
        there[t] = rt_first_lanes_16(rows[own]);
        for (int64_t r = 0; r < rows[own]; r++) {
            for (int64_t i = 0; i < points; i++)
                first[r * POINTS + i] = (tile->from ? tile->from[r * tile->row + i] : 0) + tile->bias[r];
        }
        for (int v = 0; v < VECTORS; v++) sums[t][v] = _mm512_loadu_ps(first + v * WIDE);
    }
    for (int64_t k = 0; k < depth; k++, panel += tiles->panel_row) {
        const __m512 right = _mm512_broadcast_f32x4(_mm_load_ps(panel));
        _Pragma("GCC unroll 3") for (int t = 0; t < TILES; t++) {
            const __m512 left = _mm512_maskz_loadu_ps(there[t], weights[t]);
            weights[t] += steps[t];
            _Pragma("GCC unroll 3") for (int v = 0; v < VECTORS; v++) sums[t][v] =
                _mm512_fmadd_ps(_mm512_permutexvar_ps(spread[v], left), right, sums[t][v]);
        }
    }
    for (int t = 0; t < count; t++) {
        float made[VECTORS * WIDE];
        for (int v = 0; v < VECTORS; v++) {
            RT_LIMIT_16(sums[t][v], tiles[t].low, tiles[t].high);
            _mm512_storeu_ps(made + v * WIDE, sums[t][v]);
        }
        for (int64_t r = 0; r < rows[t]; r++)
            for (int64_t i = 0; i < points; i++) tiles[t].y[r * tiles[t].row + i] = made[r * POINTS + i];
    }
}

/* ROWS filters at any number of points. */
#define STREAM(ROWS)                                                                                         \
    AVX512 static void stream_##ROWS(const rt_pointwise_tile *tile) {                                        \
        enum { WIDE = 16 };                                                                                  \
        const int64_t row = tile->row, step = tile->panel_row, depth = tile->depth;                          \
        for (int64_t i = 0; i < tile->points; i += WIDE) {                                                   \
            const __mmask16 there = rt_first_lanes_16(tile->points - i);                                     \
            const float *weights = tile->weights, *x = tile->panel + i;                                      \
            __m512 sums[ROWS];                                                                               \
            _Pragma("GCC unroll 6") for (int r = 0; r < ROWS; r++) {                                         \
                sums[r] = _mm512_setzero_ps();                                                               \
                if (tile->from) sums[r] = _mm512_maskz_loadu_ps(there, tile->from + r * row + i);            \
                sums[r] = _mm512_add_ps(sums[r], _mm512_set1_ps(tile->bias[r]));                             \
            }                                                                                                \
            for (int64_t k = 0; k < depth; k++, weights += ROWS, x += step) {                                \
                const __m512 right = _mm512_maskz_loadu_ps(there, x);                                        \
                _Pragma("GCC unroll 6") for (int r = 0; r < ROWS; r++) ADD_16(sums[r], weights[r], right);   \
            }                                                                                                \
            _Pragma("GCC unroll 6") for (int r = 0; r < ROWS; r++) {                                         \
                RT_LIMIT_16(sums[r], tile->low, tile->high);                                                 \
                _mm512_mask_storeu_ps(tile->y + r * row + i, there, sums[r]);                                \
            }                                                                                                \
        }                                                                                                    \
    }
STREAM(1)
STREAM(2)
STREAM(3)
STREAM(4)
STREAM(5)
STREAM(6)

TILES(avx2, AVX2, rt_floats_8, ADD_8, RT_LIMIT_8, LOAD_ALL, STORE_ALL)
TILES(avx512, AVX512, rt_floats_16, ADD_16, RT_LIMIT_16, LOAD_ALL, STORE_ALL)
TILES(edge, AVX512, rt_floats_16, ADD_16, RT_LIMIT_16, LOAD_SOME, STORE_SOME)
THREES(avx512, AVX512, rt_floats_16, ADD_16, RT_LIMIT_16, LOAD_ALL, STORE_ALL)
THREES(edge, AVX512, rt_floats_16, ADD_16, RT_LIMIT_16, LOAD_SOME, STORE_SOME)
static const rt_pointwise_tiles tiles_avx2 = {.lanes = 8, .run = {NAMES(avx2)}};
static const rt_pointwise_tiles tiles_avx512 = {
    .lanes = 16,
    .three = true,
    .run = {NAMES(avx512), NAMES_OF_THREE(avx512)},
    .edge = {NAMES(edge), NAMES_OF_THREE(edge)},
    .copy_edge = copy_edge,
    .tail = tail_avx512,
    .stream = {stream_1, stream_2, stream_3, stream_4, stream_5, stream_6}};

#define PAIRS __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#define ADD_PAIRS(sum, left, right)                                                                          \
    ((sum) = _mm512_dpbf16_ps(sum, (__m512bh)_mm512_set1_ps(left), (__m512bh)(right)))
TILES(pairs, PAIRS, rt_floats_16, ADD_PAIRS, RT_LIMIT_16, LOAD_ALL, STORE_ALL)
static const rt_pointwise_tiles tiles_pairs = {.lanes = 16, .pairs = true, .run = {NAMES(pairs)}};
#endif

const rt_pointwise_tiles *rt_pointwise_tiles_for(op_dtype dtype, int most) {
#if RT_X86_KERNELS
    if (most > 16 && dtype == OP_BFLOAT16 && rt_pairs_here()) return &tiles_pairs;
    if (most >= 16 && __builtin_cpu_supports("avx512f")) return &tiles_avx512;
    if (most >= 8 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &tiles_avx2;
#else
    (void)dtype, (void)most;
#endif
    return &tiles_plain;
}
