/* SPDX-License-Identifier: Apache-2.0 */
/* window_tiles.c: see window_tiles.h. */
#include "runtime/kernels/portable/window_tiles.h"
#include <string.h>
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

typedef float vector_4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef float vector_8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float vector_16 __attribute__((vector_size(64), aligned(4), may_alias));

/* One tile: `at` is its first position. Whole panels only: y and what is added have all elements of the panel. */
typedef void tile_function(const rt_window_tile *tile, int64_t at, const float *bias, const float *residual,
                           int64_t residual_step, float *y, int64_t y_step);

/* Accumulators stay in registers because every loop over them is unrolled, and because no vector is wider than a register. */
#define UNROLLED _Pragma("GCC unroll 16")
#define TILE(name, target, vector, ROWS, VECTORS, MULTIPLY_ADD, LIMIT)                                       \
    target static void name(const rt_window_tile *tile, int64_t at, const float *bias,                       \
                            const float *residual, int64_t residual_step, float *y, int64_t y_step) {        \
        enum { WIDE = sizeof(vector) / sizeof(float), COUNT = VECTORS };                                     \
        const float *panel = tile->panel, *x[ROWS];                                                          \
        const int64_t depth = tile->depth, shift = tile->shift, row_step = tile->row_step;                   \
        const float *const *rows = tile->rows + at;                                                          \
        vector sums[ROWS][COUNT];                                                                            \
        UNROLLED for (int r = 0; r < ROWS; r++) {                                                            \
            UNROLLED for (int v = 0; v < COUNT; v++) {                                                       \
                if (tile->add) sums[r][v] = *(const vector *)(y + r * y_step + v * WIDE);                    \
                else sums[r][v] = *(const vector *)(bias + v * WIDE);                                        \
            }                                                                                                \
        }                                                                                                    \
        if (residual) {                                                                                      \
            UNROLLED for (int r = 0; r < ROWS; r++) {                                                        \
                UNROLLED for (int v = 0; v < COUNT; v++) sums[r][v] +=                                       \
                    *(const vector *)(residual + r * residual_step + v * WIDE);                              \
            }                                                                                                \
        }                                                                                                    \
        for (int64_t tap = 0; tap < tile->taps; tap++, rows += row_step) {                                   \
            UNROLLED for (int r = 0; r < ROWS; r++) x[r] = rows[r] + shift;                                  \
            for (int64_t k = 0; k < depth; k++, panel += COUNT * WIDE) {                                     \
                UNROLLED for (int r = 0; r < ROWS; r++) {                                                    \
                    const float left = x[r][k];                                                              \
                    UNROLLED for (int v = 0; v < COUNT; v++)                                                 \
                        MULTIPLY_ADD(sums[r][v], left, *(const vector *)(panel + v * WIDE));                 \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
        UNROLLED for (int r = 0; r < ROWS; r++) {                                                            \
            UNROLLED for (int v = 0; v < COUNT; v++) {                                                       \
                LIMIT(sums[r][v], tile->low, tile->high);                                                    \
                *(vector *)(y + r * y_step + v * WIDE) = sums[r][v];                                         \
            }                                                                                                \
        }                                                                                                    \
    }

/* Each channel by itself: positions [at, at + ROWS), channels from `first` on. */
typedef void channels_function(const rt_window_tile *tile, int64_t at, int64_t first);
#define CHANNELS(name, target, vector, ROWS, VECTORS, MULTIPLY_ADD_BOTH, LIMIT)                              \
    target static void name(const rt_window_tile *tile, int64_t at, int64_t first) {                         \
        enum { WIDE = sizeof(vector) / sizeof(float), COUNT = VECTORS };                                     \
        const float *weights = tile->panel + first;                                                          \
        const float *const *rows = tile->rows + at;                                                          \
        float *y = tile->y + at * tile->y_step + first;                                                      \
        vector sums[ROWS][COUNT];                                                                            \
        UNROLLED for (int v = 0; v < COUNT; v++) {                                                           \
            const vector begin =                                                                             \
                tile->bias ? *(const vector *)(tile->bias + first + v * WIDE) : (vector){0};                 \
            UNROLLED for (int r = 0; r < ROWS; r++) sums[r][v] = begin;                                      \
        }                                                                                                    \
        if (tile->residual) {                                                                                \
            const float *residual = tile->residual + at * tile->y_step + first;                              \
            UNROLLED for (int r = 0; r < ROWS; r++) {                                                        \
                UNROLLED for (int v = 0; v < COUNT; v++) sums[r][v] +=                                       \
                    *(const vector *)(residual + r * tile->y_step + v * WIDE);                               \
            }                                                                                                \
        }                                                                                                    \
        for (int64_t tap = 0; tap < tile->taps; tap++, rows += tile->row_step, weights += tile->filters) {   \
            UNROLLED for (int v = 0; v < COUNT; v++) {                                                       \
                const vector weight = *(const vector *)(weights + v * WIDE);                                 \
                UNROLLED for (int r = 0; r < ROWS; r++)                                                      \
                    MULTIPLY_ADD_BOTH(sums[r][v], *(const vector *)(rows[r] + first + v * WIDE), weight);    \
            }                                                                                                \
        }                                                                                                    \
        UNROLLED for (int r = 0; r < ROWS; r++) {                                                            \
            UNROLLED for (int v = 0; v < COUNT; v++) {                                                       \
                LIMIT(sums[r][v], tile->low, tile->high);                                                    \
                *(vector *)(y + r * tile->y_step + v * WIDE) = sums[r][v];                                   \
            }                                                                                                \
        }                                                                                                    \
    }

/* A NaN stays one. */
#define LIMIT_EACH(sum, low, high)                                                                           \
    for (size_t lane = 0; lane < sizeof(sum) / sizeof(float); lane++) {                                      \
        const float above = (sum)[lane] < (low) ? (low) : (sum)[lane];                                       \
        (sum)[lane] = above > (high) ? (high) : above;                                                       \
    }
#define ADD(sum, left, right) ((sum) += (left) * (right))
#define BASELINE
#define TILES(suffix, target, narrow, vector, ROWS, MULTIPLY_ADD, LIMIT)                                     \
    TILE(wide_##ROWS##_##suffix, target, vector, ROWS, RT_WINDOW_PANEL / (sizeof(vector) / sizeof(float)),   \
         MULTIPLY_ADD, LIMIT)                                                                                \
    TILE(narrow_##ROWS##_##suffix, target, narrow, ROWS,                                                     \
         RT_WINDOW_NARROW / (sizeof(narrow) / sizeof(float)), MULTIPLY_ADD, LIMIT)

TILES(baseline, BASELINE, vector_4, vector_4, 1, ADD, LIMIT_EACH)
TILES(baseline, BASELINE, vector_4, vector_4, 2, ADD, LIMIT_EACH)
CHANNELS(channels_1_baseline, BASELINE, vector_4, 1, 2, ADD, LIMIT_EACH)

#if defined(__x86_64__) && defined(__GNUC__)
#define FMA __attribute__((target("avx2,fma")))
#define AVX512 __attribute__((target("avx512f,avx2,fma")))
#define ADD_8(sum, left, right) ((sum) = _mm256_fmadd_ps(_mm256_set1_ps(left), right, sum))
#define ADD_16(sum, left, right) ((sum) = _mm512_fmadd_ps(_mm512_set1_ps(left), right, sum))
#define ADD_BOTH_8(sum, left, right) ((sum) = _mm256_fmadd_ps(left, right, sum))
#define ADD_BOTH_16(sum, left, right) ((sum) = _mm512_fmadd_ps(left, right, sum))
#define LIMIT_8(sum, low, high)                                                                              \
    ((sum) = _mm256_min_ps(_mm256_set1_ps(high), _mm256_max_ps(_mm256_set1_ps(low), sum)))
#define LIMIT_16(sum, low, high)                                                                             \
    ((sum) = _mm512_min_ps(_mm512_set1_ps(high), _mm512_max_ps(_mm512_set1_ps(low), sum)))
TILES(avx2, FMA, vector_8, vector_8, 1, ADD_8, LIMIT_8)
TILES(avx2, FMA, vector_8, vector_8, 2, ADD_8, LIMIT_8)
TILES(avx2, FMA, vector_8, vector_8, 3, ADD_8, LIMIT_8)
TILES(avx2, FMA, vector_8, vector_8, 4, ADD_8, LIMIT_8)
TILES(avx2, FMA, vector_8, vector_8, 5, ADD_8, LIMIT_8)
TILES(avx2, FMA, vector_8, vector_8, 6, ADD_8, LIMIT_8)
CHANNELS(channels_1_avx2, FMA, vector_8, 1, 1, ADD_BOTH_8, LIMIT_8)
CHANNELS(channels_4_avx2, FMA, vector_8, 4, 1, ADD_BOTH_8, LIMIT_8)
CHANNELS(channels_4_wide_avx2, FMA, vector_8, 4, 2, ADD_BOTH_8, LIMIT_8)
/* A narrow panel fills half a register: the loops of AVX2 do as well. */
#define TILES_16(ROWS) TILE(wide_##ROWS##_avx512, AVX512, vector_16, ROWS, 1, ADD_16, LIMIT_16)
TILES_16(1)
TILES_16(2)
TILES_16(4)
TILES_16(8)
CHANNELS(channels_4_avx512, AVX512, vector_16, 4, 1, ADD_BOTH_16, LIMIT_16)
#endif

/* Tiles of so many positions, the most first; the last is of one. */
typedef struct tile_row {
    int positions;
    tile_function *wide, *narrow;
} tile_row;
#define ROW(ROWS, suffix)                                                                                    \
    { ROWS, wide_##ROWS##_##suffix, narrow_##ROWS##_##suffix }
static const tile_row baseline_tiles[] = {ROW(2, baseline), ROW(1, baseline)};
#if defined(__x86_64__) && defined(__GNUC__)
static const tile_row avx2_tiles[] = {ROW(6, avx2), ROW(5, avx2), ROW(4, avx2),
                                      ROW(3, avx2), ROW(2, avx2), ROW(1, avx2)};
static const tile_row avx512_tiles[] = {
    {8, wide_8_avx512, NULL}, {4, wide_4_avx512, NULL}, {2, wide_2_avx512, NULL}, {1, wide_1_avx512, NULL}};
#endif

static const tile_row *best_tiles(bool narrow) {
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx512f")) return narrow ? avx2_tiles : avx512_tiles;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2_tiles;
#endif
    (void)narrow;
    return baseline_tiles;
}

int rt_window_lanes(void) {
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx512f")) return 16;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 8;
#endif
    return 4;
}

/* A panel that is not full passes through a tile beside. */
static void run_edge(const rt_window_tile *tile, tile_function *run, int64_t at, int64_t positions,
                     const float *bias, const float *residual) {
    enum { WIDE = RT_WINDOW_PANEL };
    float edge[RT_WINDOW_POSITIONS * WIDE] = {0}, more[RT_WINDOW_POSITIONS * WIDE] = {0};
    const size_t bytes = (size_t)tile->filters * sizeof(float);
    float *y = tile->y + at * tile->y_step;
    for (int64_t p = 0; p < positions; p++) {
        if (tile->add) memcpy(edge + p * WIDE, y + p * tile->y_step, bytes);
        if (residual) memcpy(more + p * WIDE, residual + (at + p) * tile->y_step, bytes);
    }
    run(tile, at, bias, residual ? more : NULL, WIDE, edge, WIDE);
    for (int64_t p = 0; p < positions; p++) memcpy(y + p * tile->y_step, edge + p * WIDE, bytes);
}

void rt_window_tile_run(const rt_window_tile *tile) {
    const tile_row *best = best_tiles(tile->narrow);
    const int64_t width = tile->narrow ? RT_WINDOW_NARROW : RT_WINDOW_PANEL;
    float bias[RT_WINDOW_PANEL] = {0};
    if (tile->bias) memcpy(bias, tile->bias, (size_t)tile->filters * sizeof *bias);
    const float *residual = tile->add ? NULL : tile->residual;
    for (int64_t at = 0; at < tile->positions; at += best->positions) {
        while (best->positions > tile->positions - at) best++;
        tile_function *run = tile->narrow ? best->narrow : best->wide;
        if (tile->filters < width) run_edge(tile, run, at, best->positions, bias, residual);
        else
            run(tile, at, bias, residual ? residual + at * tile->y_step : NULL, tile->y_step,
                tile->y + at * tile->y_step, tile->y_step);
    }
}

/* ---- each channel by itself ----------------------------------------------------------------------------- */

/* One channel at one position. */
static void run_channel(const rt_window_tile *tile, int64_t at, int64_t channel) {
    const float *weights = tile->panel + channel;
    const float *const *rows = tile->rows + at;
    float sum = tile->bias ? tile->bias[channel] : 0;
    if (tile->residual) sum += tile->residual[at * tile->y_step + channel];
    for (int64_t tap = 0; tap < tile->taps; tap++, rows += tile->row_step, weights += tile->filters)
        sum += rows[0][channel] * *weights;
    sum = sum < tile->low ? tile->low : sum;
    tile->y[at * tile->y_step + channel] = sum > tile->high ? tile->high : sum;
}

/* The channels from `from` on, as many as fill vectors of the machine, of all positions; how many those were. */
static int64_t run_vectors(const rt_window_tile *tile, int64_t from, int64_t wide, channels_function *few,
                           channels_function *many, int64_t positions) {
    for (; from + wide <= tile->depth; from += wide) {
        int64_t at = 0;
        for (; at + positions <= tile->positions; at += positions) many(tile, at, from);
        for (; at < tile->positions; at++) {
            for (int64_t part = 0; part < wide; part += 8) few(tile, at, from + part);
        }
    }
    return from;
}

void rt_window_channels_run(const rt_window_tile *tile) {
    int64_t done = 0;
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        if (__builtin_cpu_supports("avx512f"))
            done = run_vectors(tile, done, 16, channels_1_avx2, channels_4_avx512, 4);
        else done = run_vectors(tile, done, 16, channels_1_avx2, channels_4_wide_avx2, 4);
        done = run_vectors(tile, done, 8, channels_1_avx2, channels_4_avx2, 4);
    }
#endif
    done = run_vectors(tile, done, 8, channels_1_baseline, channels_1_baseline, 1);
    for (int64_t at = 0; at < tile->positions; at++)
        for (int64_t channel = done; channel < tile->depth; channel++) run_channel(tile, at, channel);
}
