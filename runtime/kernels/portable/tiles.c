/* SPDX-License-Identifier: Apache-2.0 */
/* tiles.c: the innermost loops of matrix products in float, for the instruction set that the machine has; see
 * product.h. All variants add in the same order. Those that contract nothing give the same bits; those whose multiplications
 * and additions are rounded once, for callers that ask for it, need an instruction for that.
 */
#include "runtime/kernels/portable/product.h"
#include <string.h>
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

typedef float vector_16 __attribute__((vector_size(16), may_alias));
typedef float vector_32 __attribute__((vector_size(32), may_alias));
typedef float vector_64 __attribute__((vector_size(64), may_alias));

/* One tile of ROWS x RT_PANEL: accumulators stay in registers because every loop over them is unrolled. */
#define TILE(name, target, vector, rows_count, ADD_PRODUCT)                                                  \
    target static void name(int64_t depth, const float *restrict a, int64_t a_row, int64_t a_depth,          \
                            const float *restrict panel, float *c, int64_t c_row, bool add) {                \
        enum { WIDE = sizeof(vector) / sizeof(float), VECTORS = RT_PANEL / WIDE };                           \
        vector sums[rows_count][VECTORS];                                                                    \
        _Pragma("GCC unroll 16") for (int r = 0; r < rows_count; r++) {                                      \
            _Pragma("GCC unroll 16") for (int v = 0; v < VECTORS; v++) {                                     \
                if (add) memcpy(&sums[r][v], c + r * c_row + v * WIDE, sizeof(vector));                      \
                else sums[r][v] = (vector){0};                                                               \
            }                                                                                                \
        }                                                                                                    \
        for (int64_t k = 0; k < depth; k++) {                                                                \
            const vector *right = (const vector *)(panel + k * RT_PANEL);                                    \
            _Pragma("GCC unroll 16") for (int r = 0; r < rows_count; r++) {                                  \
                const float left = a[r * a_row + k * a_depth];                                               \
                _Pragma("GCC unroll 16") for (int v = 0; v < VECTORS; v++)                                   \
                    ADD_PRODUCT(sums[r][v], left, right[v]);                                                 \
            }                                                                                                \
        }                                                                                                    \
        _Pragma("GCC unroll 16") for (int r = 0; r < rows_count; r++) {                                      \
            _Pragma("GCC unroll 16") for (int v = 0; v < VECTORS; v++) {                                     \
                memcpy(c + r * c_row + v * WIDE, &sums[r][v], sizeof(vector));                               \
            }                                                                                                \
        }                                                                                                    \
    }

typedef void tile_function(int64_t depth, const float *restrict a, int64_t a_row, int64_t a_depth,
                           const float *restrict panel, float *c, int64_t c_row, bool add);

#define ADD(sum, left, right) (sum += left * right)
#define BASELINE
TILE(tile_1_baseline, BASELINE, vector_16, 1, ADD)
TILE(tile_2_baseline, BASELINE, vector_16, 2, ADD)

#if defined(__x86_64__) && defined(__GNUC__)
#define AVX2 __attribute__((target("avx2")))
#define FMA __attribute__((target("avx2,fma")))
#define AVX512 __attribute__((target("avx512f")))
#define ADD_AVX2(sum, left, right) (sum = _mm256_fmadd_ps(_mm256_set1_ps(left), right, sum))
#define ADD_AVX512(sum, left, right) (sum = _mm512_fmadd_ps(_mm512_set1_ps(left), right, sum))
TILE(tile_1_avx2, AVX2, vector_32, 1, ADD)
TILE(tile_2_avx2, AVX2, vector_32, 2, ADD)
TILE(tile_4_avx2, AVX2, vector_32, 4, ADD)
TILE(tile_1_avx512, AVX512, vector_64, 1, ADD)
TILE(tile_2_avx512, AVX512, vector_64, 2, ADD)
TILE(tile_4_avx512, AVX512, vector_64, 4, ADD)
TILE(tile_8_avx512, AVX512, vector_64, 8, ADD)
TILE(fused_1_avx2, FMA, vector_32, 1, ADD_AVX2)
TILE(fused_2_avx2, FMA, vector_32, 2, ADD_AVX2)
TILE(fused_4_avx2, FMA, vector_32, 4, ADD_AVX2)
TILE(fused_6_avx2, FMA, vector_32, 6, ADD_AVX2)
TILE(fused_1_avx512, AVX512, vector_64, 1, ADD_AVX512)
TILE(fused_2_avx512, AVX512, vector_64, 2, ADD_AVX512)
TILE(fused_4_avx512, AVX512, vector_64, 4, ADD_AVX512)
TILE(fused_8_avx512, AVX512, vector_64, 8, ADD_AVX512)
TILE(fused_12_avx512, AVX512, vector_64, 12, ADD_AVX512)
#endif

enum { MOST_ROWS = 12 };

/* Tiles of so many rows, the most first; the last has one row. */
typedef struct tile {
    int rows;
    tile_function *run;
} tile;
static const tile baseline_tiles[] = {{2, tile_2_baseline}, {1, tile_1_baseline}};
#if defined(__x86_64__) && defined(__GNUC__)
static const tile avx2_tiles[] = {{4, tile_4_avx2}, {2, tile_2_avx2}, {1, tile_1_avx2}};
static const tile avx512_tiles[] = {
    {8, tile_8_avx512}, {4, tile_4_avx512}, {2, tile_2_avx512}, {1, tile_1_avx512}};
static const tile avx2_fused[] = {{6, fused_6_avx2}, {4, fused_4_avx2}, {2, fused_2_avx2}, {1, fused_1_avx2}};
static const tile avx512_fused[] = {{12, fused_12_avx512},
                                    {8, fused_8_avx512},
                                    {4, fused_4_avx512},
                                    {2, fused_2_avx512},
                                    {1, fused_1_avx512}};
#endif

static const tile *best_tiles(bool fused) {
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx512f")) return fused ? avx512_fused : avx512_tiles;
    if (fused && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2_fused;
    if (__builtin_cpu_supports("avx2")) return avx2_tiles;
#endif
    (void)fused;
    return baseline_tiles;
}

void rt_tiles_run(const rt_tiles *tiles) {
    const tile *best = best_tiles(tiles->fused);
    for (int64_t row = 0; row < tiles->rows;) {
        while (best->rows > tiles->rows - row) best++;
        const int64_t count = best->rows;
        const float *a = tiles->a + row * tiles->a_row;
        for (int64_t column = 0; column < tiles->columns; column += RT_PANEL) {
            const float *panel = tiles->panels + column * tiles->depth;
            float *c = tiles->c + row * tiles->c_row + column;
            const int64_t width = tiles->columns - column;
            if (width >= RT_PANEL) {
                best->run(tiles->depth, a, tiles->a_row, tiles->a_depth, panel, c, tiles->c_row, tiles->add);
                continue;
            }
            /* The last columns pass through a full tile beside. */
            float edge[MOST_ROWS * RT_PANEL];
            if (tiles->add) {
                memset(edge, 0, sizeof edge);
                for (int64_t r = 0; r < count; r++) {
                    memcpy(edge + r * RT_PANEL, c + r * tiles->c_row, (size_t)width * sizeof(float));
                }
            }
            best->run(tiles->depth, a, tiles->a_row, tiles->a_depth, panel, edge, RT_PANEL, tiles->add);
            for (int64_t r = 0; r < count; r++) {
                memcpy(c + r * tiles->c_row, edge + r * RT_PANEL, (size_t)width * sizeof(float));
            }
        }
        row += count;
    }
}
