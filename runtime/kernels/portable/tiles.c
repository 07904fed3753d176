/* tiles.c: the innermost loops of matrix products in float, for the instruction set that the machine has; see
 * product.h. All variants add in the same order and contract nothing: they give the same bits.
 */
#include "runtime/kernels/portable/product.h"
#include <string.h>

typedef float vector_16 __attribute__((vector_size(16), may_alias));
typedef float vector_32 __attribute__((vector_size(32), may_alias));
typedef float vector_64 __attribute__((vector_size(64), may_alias));

/* One tile of ROWS x RT_PANEL: accumulators stay in registers because every loop over them is unrolled. */
#define TILE(name, target, vector, rows_count)                                                               \
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
                _Pragma("GCC unroll 16") for (int v = 0; v < VECTORS; v++) sums[r][v] += left * right[v];    \
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

#define BASELINE
TILE(tile_1_baseline, BASELINE, vector_16, 1)
TILE(tile_2_baseline, BASELINE, vector_16, 2)

#if defined(__x86_64__) && defined(__GNUC__)
#define AVX2 __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f")))
TILE(tile_1_avx2, AVX2, vector_32, 1)
TILE(tile_2_avx2, AVX2, vector_32, 2)
TILE(tile_4_avx2, AVX2, vector_32, 4)
TILE(tile_1_avx512, AVX512, vector_64, 1)
TILE(tile_2_avx512, AVX512, vector_64, 2)
TILE(tile_4_avx512, AVX512, vector_64, 4)
TILE(tile_8_avx512, AVX512, vector_64, 8)
#endif

enum { TILE_SIZES = 4 }; /* 1, 2, 4, 8 rows */
static tile_function *const baseline_tiles[TILE_SIZES] = {tile_1_baseline, tile_2_baseline};
#if defined(__x86_64__) && defined(__GNUC__)
static tile_function *const avx2_tiles[TILE_SIZES] = {tile_1_avx2, tile_2_avx2, tile_4_avx2};
static tile_function *const avx512_tiles[TILE_SIZES] = {tile_1_avx512, tile_2_avx512, tile_4_avx512,
                                                        tile_8_avx512};
#endif

static tile_function *const *best_tiles(void) {
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx512f")) return avx512_tiles;
    if (__builtin_cpu_supports("avx2")) return avx2_tiles;
#endif
    return baseline_tiles;
}

void rt_tiles_run(const rt_tiles *tiles) {
    tile_function *const *functions = best_tiles();
    int size = TILE_SIZES - 1;
    while (!functions[size]) size--;
    for (int64_t row = 0; row < tiles->rows;) {
        while (((int64_t)1 << size) > tiles->rows - row) size--;
        const int64_t count = (int64_t)1 << size;
        const float *a = tiles->a + row * tiles->a_row;
        for (int64_t column = 0; column < tiles->columns; column += RT_PANEL) {
            const float *panel = tiles->panels + column * tiles->depth;
            float *c = tiles->c + row * tiles->c_row + column;
            const int64_t width = tiles->columns - column;
            if (width >= RT_PANEL) {
                functions[size](tiles->depth, a, tiles->a_row, tiles->a_depth, panel, c, tiles->c_row,
                                tiles->add);
                continue;
            }
            /* The last columns pass through a full tile beside. */
            float edge[8 * RT_PANEL];
            if (tiles->add) {
                memset(edge, 0, sizeof edge);
                for (int64_t r = 0; r < count; r++) {
                    memcpy(edge + r * RT_PANEL, c + r * tiles->c_row, (size_t)width * sizeof(float));
                }
            }
            functions[size](tiles->depth, a, tiles->a_row, tiles->a_depth, panel, edge, RT_PANEL, tiles->add);
            for (int64_t r = 0; r < count; r++) {
                memcpy(c + r * tiles->c_row, edge + r * RT_PANEL, (size_t)width * sizeof(float));
            }
        }
        row += count;
    }
}
