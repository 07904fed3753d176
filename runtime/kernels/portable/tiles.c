/* SPDX-License-Identifier: Apache-2.0 */
/* tiles.c: the innermost loops of matrix products in float and double, for the instruction set that the machine has; see
 * product.h. All variants add in the same order. Those that contract nothing give the same bits; those whose multiplications
 * and additions are rounded once, for callers that ask for it, need an instruction for that.
 */
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/lanes.h"
#include "runtime/kernels/portable/product.h"
#include "runtime/kernels/portable/wide_tiles.h"
#include <string.h>

typedef double doubles_16 __attribute__((vector_size(16), may_alias));
typedef double doubles_32 __attribute__((vector_size(32), may_alias));
typedef double doubles_64 __attribute__((vector_size(64), may_alias));

typedef void tile_function(int64_t depth, const void *a, int64_t a_row, int64_t a_depth, const void *panels,
                           int64_t panel_step, void *c, int64_t c_row, bool add);

/* One tile of ROWS x (PANELS * RT_PANEL): accumulators stay in registers because every loop over them is unrolled, and because
 * no vector is wider than a register. Panel p begins `panel_step` elements after the one before. One pointer leads to three rows: a
 * processor adds a row's length, or twice that, as it reads, and has no registers for one pointer each. */
#define TILE(name, target, real, vector, ROWS, PANELS, ADD_PRODUCT)                                          \
    TILE_OF(name, target, real, vector, real, RT_LOAD_FLOATS, ROWS, PANELS, ADD_PRODUCT)
/* The same of panels that hold `weight`, which LOAD makes a vector. */
#define TILE_OF(name, target, real, vector, weight, LOAD, ROWS, PANELS, ADD_PRODUCT)                         \
    target static void name(int64_t depth, const void *left_matrix, int64_t a_row, int64_t a_depth,          \
                            const void *panels, int64_t panel_step, void *result, int64_t c_row, bool add) { \
        enum {                                                                                               \
            WIDE = sizeof(vector) / sizeof(real),                                                            \
            PER_PANEL = RT_PANEL / WIDE,                                                                     \
            VECTORS = PANELS * PER_PANEL                                                                     \
        };                                                                                                   \
        const real *restrict a[(ROWS + 2) / 3];                                                              \
        const weight *restrict panel = panels;                                                               \
        real *c = result;                                                                                    \
        vector sums[ROWS][VECTORS];                                                                          \
        _Pragma("GCC unroll 16") for (int i = 0; i < (ROWS + 2) / 3; i++) a[i] =                             \
            (const real *)left_matrix + 3 * i * a_row;                                                       \
        _Pragma("GCC unroll 16") for (int r = 0; r < ROWS; r++) {                                            \
            _Pragma("GCC unroll 16") for (int v = 0; v < VECTORS; v++) {                                     \
                if (add) memcpy(&sums[r][v], c + r * c_row + v * WIDE, sizeof(vector));                      \
                else sums[r][v] = (vector){0};                                                               \
            }                                                                                                \
        }                                                                                                    \
        for (int64_t k = 0; k < depth; k++, panel += RT_PANEL) {                                             \
            _Pragma("GCC unroll 16") for (int r = 0; r < ROWS; r++) {                                        \
                const real left = a[r / 3][r % 3 * a_row];                                                   \
                _Pragma("GCC unroll 16") for (int v = 0; v < VECTORS; v++) {                                 \
                    const weight *right = panel + v / PER_PANEL * panel_step + v % PER_PANEL * WIDE;         \
                    ADD_PRODUCT(sums[r][v], left, LOAD(vector, right));                                      \
                }                                                                                            \
            }                                                                                                \
            _Pragma("GCC unroll 16") for (int i = 0; i < (ROWS + 2) / 3; i++) a[i] += a_depth;               \
        }                                                                                                    \
        _Pragma("GCC unroll 16") for (int r = 0; r < ROWS; r++) {                                            \
            _Pragma("GCC unroll 16") for (int v = 0; v < VECTORS; v++) {                                     \
                memcpy(c + r * c_row + v * WIDE, &sums[r][v], sizeof(vector));                               \
            }                                                                                                \
        }                                                                                                    \
    }

#define ADD(sum, left, right) (sum += left * right)
#define BASELINE
TILE(tile_1_baseline, BASELINE, float, rt_floats_4, 1, 1, ADD)
TILE(tile_1_wide_baseline, BASELINE, float, rt_floats_4, 1, 2, ADD)
TILE(tile_2_baseline, BASELINE, float, rt_floats_4, 2, 1, ADD)
#define BASELINE_OF(kind, LOAD)                                                                              \
    TILE_OF(kind##_2_baseline, BASELINE, float, rt_floats_4, uint16_t, LOAD, 2, 1, ADD)                      \
    TILE_OF(kind##_1_baseline, BASELINE, float, rt_floats_4, uint16_t, LOAD, 1, 1, ADD)
BASELINE_OF(half, RT_LOAD_HALF_4)
BASELINE_OF(brain, RT_LOAD_BRAIN_4)
BASELINE_OF(short, RT_LOAD_SHORT_4)
TILE(double_1_baseline, BASELINE, double, doubles_16, 1, 1, ADD)

#if RT_X86_KERNELS
#define AVX2 __attribute__((target("avx2")))
#define FMA __attribute__((target("avx2,fma,f16c")))
#define AVX512 __attribute__((target("avx512f")))
TILE(tile_1_avx2, AVX2, float, rt_floats_8, 1, 1, ADD)
TILE(tile_1_wide_avx2, AVX2, float, rt_floats_8, 1, 4, ADD)
TILE(tile_2_avx2, AVX2, float, rt_floats_8, 2, 1, ADD)
TILE(tile_2_wide_avx2, AVX2, float, rt_floats_8, 2, 2, ADD)
TILE(tile_4_avx2, AVX2, float, rt_floats_8, 4, 1, ADD)
TILE(tile_1_avx512, AVX512, float, rt_floats_16, 1, 1, ADD)
TILE(tile_1_wide_avx512, AVX512, float, rt_floats_16, 1, 8, ADD)
TILE(tile_2_avx512, AVX512, float, rt_floats_16, 2, 1, ADD)
TILE(tile_2_wide_avx512, AVX512, float, rt_floats_16, 2, 4, ADD)
TILE(tile_4_avx512, AVX512, float, rt_floats_16, 4, 1, ADD)
TILE(tile_8_avx512, AVX512, float, rt_floats_16, 8, 1, ADD)
#define ADD_DOUBLES_AVX2(sum, left, right) (sum = _mm256_fmadd_pd(_mm256_set1_pd(left), right, sum))
#define ADD_DOUBLES_AVX512(sum, left, right) (sum = _mm512_fmadd_pd(_mm512_set1_pd(left), right, sum))
TILE(double_1_avx2, AVX2, double, doubles_32, 1, 1, ADD)
TILE(double_2_avx2, AVX2, double, doubles_32, 2, 1, ADD)
TILE(double_1_avx512, AVX512, double, doubles_64, 1, 1, ADD)
TILE(double_4_avx512, AVX512, double, doubles_64, 4, 1, ADD)
TILE(fused_double_1_avx2, FMA, double, doubles_32, 1, 1, ADD_DOUBLES_AVX2)
TILE(fused_double_2_avx2, FMA, double, doubles_32, 2, 1, ADD_DOUBLES_AVX2)
#define DOUBLES_AVX512(ROWS)                                                                                 \
    TILE(fused_double_##ROWS##_avx512, AVX512, double, doubles_64, ROWS, 1, ADD_DOUBLES_AVX512)
DOUBLES_AVX512(1)
DOUBLES_AVX512(2)
DOUBLES_AVX512(3)
DOUBLES_AVX512(4)
DOUBLES_AVX512(5)
DOUBLES_AVX512(6)
DOUBLES_AVX512(7)
DOUBLES_AVX512(8)
DOUBLES_AVX512(9)
DOUBLES_AVX512(10)
DOUBLES_AVX512(11)
DOUBLES_AVX512(12)
#endif

enum { MOST_ROWS = 12 };

/* Tiles of so many rows and panels, the most first; the last has one of each, and each number of rows has one of one panel. */
typedef struct tile {
    int rows, panels;
    tile_function *run;
    bool each; /* the table has tiles of each number of rows up to this one */
} tile;
static const tile baseline_tiles[] = {
    {2, 1, tile_2_baseline, false}, {1, 2, tile_1_wide_baseline, false}, {1, 1, tile_1_baseline, false}};
static const tile baseline_halves[] = {{2, 1, half_2_baseline, false}, {1, 1, half_1_baseline, false}};
static const tile baseline_brains[] = {{2, 1, brain_2_baseline, false}, {1, 1, brain_1_baseline, false}};
static const tile baseline_shorts[] = {{2, 1, short_2_baseline, false}, {1, 1, short_1_baseline, false}};
static const tile baseline_doubles[] = {{1, 1, double_1_baseline, false}};
#if RT_X86_KERNELS
static const tile avx2_tiles[] = {{4, 1, tile_4_avx2, false},
                                  {2, 2, tile_2_wide_avx2, false},
                                  {2, 1, tile_2_avx2, false},
                                  {1, 4, tile_1_wide_avx2, false},
                                  {1, 1, tile_1_avx2, false}};
static const tile avx512_tiles[] = {{8, 1, tile_8_avx512, false},      {4, 1, tile_4_avx512, false},
                                    {2, 4, tile_2_wide_avx512, false}, {2, 1, tile_2_avx512, false},
                                    {1, 8, tile_1_wide_avx512, false}, {1, 1, tile_1_avx512, false}};
static const tile avx2_doubles[] = {{2, 1, double_2_avx2, false}, {1, 1, double_1_avx2, false}};
static const tile avx512_doubles[] = {{4, 1, double_4_avx512, false}, {1, 1, double_1_avx512, false}};
static const tile avx2_fused_doubles[] = {{2, 1, fused_double_2_avx2, false},
                                          {1, 1, fused_double_1_avx2, false}};
#define OF_DOUBLES(ROWS)                                                                                     \
    { ROWS, 1, fused_double_##ROWS##_avx512, true }
static const tile avx512_fused_doubles[] = {OF_DOUBLES(12), OF_DOUBLES(11), OF_DOUBLES(10), OF_DOUBLES(9),
                                            OF_DOUBLES(8),  OF_DOUBLES(7),  OF_DOUBLES(6),  OF_DOUBLES(5),
                                            OF_DOUBLES(4),  OF_DOUBLES(3),  OF_DOUBLES(2),  OF_DOUBLES(1)};
#endif

/* Of floats, but for those of wide_tiles.c. */
static const tile *best_tiles(void) {
#if RT_X86_KERNELS
    if (__builtin_cpu_supports("avx512f")) return avx512_tiles;
    if (__builtin_cpu_supports("avx2")) return avx2_tiles;
#endif
    return baseline_tiles;
}

/* Of panels of 16 bits, the same. */
static const tile *best_narrow(op_dtype stored) {
    return stored == OP_FLOAT16 ? baseline_halves : stored == OP_BFLOAT16 ? baseline_brains : baseline_shorts;
}

static const tile *best_doubles(bool fused) {
#if RT_X86_KERNELS
    if (__builtin_cpu_supports("avx512f")) return fused ? avx512_fused_doubles : avx512_doubles;
    if (fused && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && rt_has_half_conversions())
        return avx2_fused_doubles;
    if (__builtin_cpu_supports("avx2")) return avx2_doubles;
#endif
    (void)fused;
    return baseline_doubles;
}

/* A block of any element type: what rt_tiles says, with the sizes of an element, and of one of a panel. */
typedef struct block {
    int64_t rows, columns, depth, a_row, a_depth, c_row, panel_step;
    const char *a, *panels;
    char *c;
    size_t size, weight_size;
    bool add;
} block;

/* The last columns, fewer than a panel, pass through a full tile beside. */
static void run_edge(const block *b, const tile *used, const char *a, const char *panel, char *c,
                     int64_t columns) {
    _Alignas(64) char edge[MOST_ROWS * RT_PANEL * sizeof(double)];
    const size_t bytes = (size_t)columns * b->size, row = RT_PANEL * b->size;
    if (b->add) {
        memset(edge, 0, sizeof edge);
        for (int r = 0; r < used->rows; r++)
            memcpy(edge + (size_t)r * row, c + r * b->c_row * (int64_t)b->size, bytes);
    }
    used->run(b->depth, a, b->a_row, b->a_depth, panel, 0, edge, RT_PANEL, b->add);
    for (int r = 0; r < used->rows; r++)
        memcpy(c + r * b->c_row * (int64_t)b->size, edge + (size_t)r * row, bytes);
}

/* How many rows a tile may take of those that are left: where tiles have any number, the same as the fewest tiles that can do it. */
static int64_t next_rows(const tile *best, int64_t rows) {
    if (!best->each || rows <= best->rows) return rows;
    const int64_t tiles = (rows + best->rows - 1) / best->rows;
    return (rows + tiles - 1) / tiles;
}

static void run_block(const block *b, const tile *best) {
    const int64_t size = (int64_t)b->size;
    for (int64_t row = 0; row < b->rows;) {
        const int64_t rows = next_rows(best, b->rows - row);
        while (best->rows > rows) best++;
        const tile *used = best;
        const char *a = b->a + row * b->a_row * size;
        for (int64_t column = 0; column < b->columns; column += used->panels * RT_PANEL) {
            const int64_t columns = b->columns - column;
            const char *panel = b->panels + column / RT_PANEL * b->panel_step * (int64_t)b->weight_size;
            char *c = b->c + (row * b->c_row + column) * size;
            while (used->panels > 1 && columns < used->panels * RT_PANEL) used++;
            if (columns < RT_PANEL) {
                run_edge(b, used, a, panel, c, columns);
                break;
            }
            used->run(b->depth, a, b->a_row, b->a_depth, panel, b->panel_step, c, b->c_row, b->add);
        }
        row += best->rows;
    }
}

RT_CLONES static void finish(const rt_tiles *tiles) {
    for (int64_t i = 0; i < tiles->rows; i++) {
        float *row = tiles->c + i * tiles->c_row;
        for (int64_t j = 0; j < tiles->columns && tiles->bias; j++) row[j] += tiles->bias[j];
        for (int64_t j = 0; j < tiles->columns && tiles->limited; j++) {
            const float above = row[j] < tiles->low ? tiles->low : row[j];
            row[j] = above > tiles->high ? tiles->high : above;
        }
    }
}

/* The two products of rt_tiles.then, one by one. */
static void run_both(const rt_tiles *tiles) {
    const rt_tiles_then *then = tiles->then;
    rt_tiles first = *tiles, second = *tiles;
    first.then = second.then = NULL;
    first.bias = NULL;
    first.limited = false;
    rt_tiles_run(&first);
    for (int64_t i = 0; i < tiles->rows; i++) {
        const float *sums = tiles->c + i * tiles->c_row;
        float *c = then->c + i * then->c_row;
        for (int64_t j = 0; j < tiles->columns; j++)
            c[j] =
                (then->add ? c[j] : 0) + (then->more ? sums[j] + then->more[i * tiles->c_row + j] : sums[j]);
    }
    second.a = then->a;
    second.a_row = then->a_row;
    second.panels = then->panels;
    second.c = then->c;
    second.c_row = then->c_row;
    second.add = true;
    rt_tiles_run(&second);
}

void rt_tiles_run(const rt_tiles *tiles) {
    const bool narrow = tiles->stored != OP_NONE && tiles->stored != OP_FLOAT;
    if (tiles->then && !(tiles->fused && rt_wide_vectors_here())) {
        run_both(tiles);
        return;
    }
    if ((tiles->fused || narrow) && rt_wide_tiles_here()) {
        rt_wide_tiles_run(tiles);
        return;
    }
    run_block(&(block){.rows = tiles->rows,
                       .columns = tiles->columns,
                       .depth = tiles->depth,
                       .a_row = tiles->a_row,
                       .a_depth = tiles->a_depth,
                       .c_row = tiles->c_row,
                       .panel_step = tiles->panel_step ? tiles->panel_step : tiles->depth * RT_PANEL,
                       .a = (const char *)tiles->a,
                       .panels = (const char *)tiles->panels,
                       .c = (char *)tiles->c,
                       .size = sizeof(float),
                       .weight_size = narrow ? sizeof(uint16_t) : sizeof(float),
                       .add = tiles->add},
              narrow ? best_narrow(tiles->stored) : best_tiles());
    if (tiles->bias || tiles->limited) finish(tiles);
}

void rt_tiles_doubles(int64_t rows, int64_t columns, int64_t depth, const double *a, int64_t a_row,
                      int64_t a_depth, const double *panels, double *c, int64_t c_row, bool add, bool fused) {
    run_block(&(block){.rows = rows,
                       .columns = columns,
                       .depth = depth,
                       .a_row = a_row,
                       .a_depth = a_depth,
                       .c_row = c_row,
                       .panel_step = depth * RT_PANEL,
                       .a = (const char *)a,
                       .panels = (const char *)panels,
                       .c = (char *)c,
                       .size = sizeof(double),
                       .weight_size = sizeof(double),
                       .add = add},
              best_doubles(fused));
}
