/* SPDX-License-Identifier: Apache-2.0 */
/* half_tiles.c: see half_tiles.h. A register of pairs becomes two of floats, which all rows of a tile are multiplied with. */
#include "runtime/kernels/portable/half_tiles.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/lanes.h"
#include "runtime/kernels/portable/pair_tiles.h"
#include <string.h>
#if RT_X86_KERNELS
#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl")))
#define AVX512_INLINE AVX512 static inline __attribute__((always_inline))

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

bool rt_half_tiles_here(void) {
    return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}

/* Of each pair, the first or the second element. */
AVX512_INLINE __m512 first_of(__m512i pairs, bool brain) {
    if (brain) return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(pairs));
}

AVX512_INLINE __m512 second_of(__m512i pairs, bool brain) {
    if (brain) return _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32((int)0xffff0000U)));
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(pairs, 16)));
}

typedef void tile_function(int64_t depth, const float *a, int64_t a_row, int64_t a_depth,
                           const uint16_t *panels, int64_t panel_step, float *c, int64_t c_row, bool add,
                           __mmask16 last);

/* ROWS x PANELS registers of sums. One pointer leads to three rows, as in tiles.c; `last` are the lanes of the last panel that there are. */
#define STEP(element, place)                                                                                 \
    _Pragma("GCC unroll 4") for (int p = 0; p < PANELS_; p++) right[p] = element(pairs[p], BRAIN_);          \
    _Pragma("GCC unroll 16") for (int r = 0; r < ROWS_; r++) {                                               \
        const __m512 left = _mm512_set1_ps(a[r / 3][r % 3 * a_row + (place)]);                               \
        _Pragma("GCC unroll 4") for (int p = 0; p < PANELS_; p++) sums[r][p] =                               \
            _mm512_fmadd_ps(left, right[p], sums[r][p]);                                                     \
    }
#define TILE(name, ROWS, PANELS, BRAIN)                                                                      \
    AVX512 static void name##_##ROWS##_##PANELS(int64_t depth, const float *first_row, int64_t a_row,        \
                                                int64_t a_depth, const uint16_t *panel, int64_t panel_step,  \
                                                float *c, int64_t c_row, bool add, __mmask16 last) {         \
        enum { ROWS_ = ROWS, PANELS_ = PANELS, BRAIN_ = BRAIN };                                             \
        const float *a[(ROWS + 2) / 3];                                                                      \
        __m512 sums[ROWS][PANELS], right[PANELS];                                                            \
        __m512i pairs[PANELS];                                                                               \
        _Pragma("GCC unroll 16") for (int i = 0; i < (ROWS + 2) / 3; i++) a[i] = first_row + 3 * i * a_row;  \
        _Pragma("GCC unroll 16") for (int r = 0; r < ROWS; r++) {                                            \
            _Pragma("GCC unroll 4") for (int p = 0; p < PANELS; p++) sums[r][p] =                            \
                add ? _mm512_maskz_loadu_ps(p == PANELS - 1 ? last : (__mmask16)0xffff,                      \
                                            c + r * c_row + p * RT_PANEL)                                    \
                    : _mm512_setzero_ps();                                                                   \
        }                                                                                                    \
        for (int64_t k = 0; k < depth; k += 2, panel += RT_PAIR_ELEMENTS) {                                  \
            _Pragma("GCC unroll 4") for (int p = 0; p < PANELS; p++) pairs[p] =                              \
                _mm512_loadu_si512(panel + p * panel_step);                                                  \
            STEP(first_of, 0)                                                                                \
            if (k + 1 == depth) break;                                                                       \
            STEP(second_of, a_depth)                                                                         \
            _Pragma("GCC unroll 16") for (int i = 0; i < (ROWS + 2) / 3; i++) a[i] += 2 * a_depth;           \
        }                                                                                                    \
        _Pragma("GCC unroll 16") for (int r = 0; r < ROWS; r++) {                                            \
            _Pragma("GCC unroll 4") for (int p = 0; p < PANELS; p++) _mm512_mask_storeu_ps(                  \
                c + r * c_row + p * RT_PANEL, p == PANELS - 1 ? last : (__mmask16)0xffff, sums[r][p]);       \
        }                                                                                                    \
    }
#define TWO(name, ROWS, BRAIN) TILE(name, ROWS, 1, BRAIN) TILE(name, ROWS, 2, BRAIN)
#define ALL(name, BRAIN)                                                                                     \
    TWO(name, 1, BRAIN)                                                                                      \
    TWO(name, 2, BRAIN)                                                                                      \
    TWO(name, 3, BRAIN)                                                                                      \
    TWO(name, 4, BRAIN)                                                                                      \
    TWO(name, 5, BRAIN)                                                                                      \
    TWO(name, 6, BRAIN)                                                                                      \
    TWO(name, 7, BRAIN)                                                                                      \
    TWO(name, 8, BRAIN)                                                                                      \
    TWO(name, 9, BRAIN)                                                                                      \
    TWO(name, 10, BRAIN)                                                                                     \
    TWO(name, 11, BRAIN)                                                                                     \
    TWO(name, 12, BRAIN)                                                                                     \
    TILE(name, 1, 4, BRAIN)                                                                                  \
    TILE(name, 2, 4, BRAIN)                                                                                  \
    TILE(name, 3, 4, BRAIN)                                                                                  \
    TILE(name, 4, 4, BRAIN)
ALL(half, false)
ALL(brain, true)

enum { MOST_ROWS = 12, WIDTHS = 3 };
#define ROW_OF(name, ROWS)                                                                                   \
    { NULL, name##_##ROWS##_2, name##_##ROWS##_1 }
#define ROW_OF_4(name, ROWS)                                                                                 \
    { name##_##ROWS##_4, name##_##ROWS##_2, name##_##ROWS##_1 }
#define TABLE(name)                                                                                          \
    {                                                                                                        \
        {NULL}, ROW_OF_4(name, 1), ROW_OF_4(name, 2), ROW_OF_4(name, 3), ROW_OF_4(name, 4), ROW_OF(name, 5), \
            ROW_OF(name, 6), ROW_OF(name, 7), ROW_OF(name, 8), ROW_OF(name, 9), ROW_OF(name, 10),            \
            ROW_OF(name, 11), ROW_OF(name, 12)                                                               \
    }
/* For so many rows: tiles of 4, 2 and 1 panels. */
static tile_function *const tiles_of[2][MOST_ROWS + 1][WIDTHS] = {TABLE(half), TABLE(brain)};

void rt_half_tiles_run(const rt_half_tiles *tiles) {
    const int64_t passes = (tiles->rows + MOST_ROWS - 1) / MOST_ROWS;
    for (int64_t pass = 0; pass < passes; pass++) {
        /* Rows are dealt out evenly. */
        const int64_t row = tiles->rows * pass / passes, rows = tiles->rows * (pass + 1) / passes - row;
        tile_function *const *const of = tiles_of[tiles->dtype == OP_BFLOAT16][rows];
        for (int64_t column = 0, width = 0; column < tiles->columns;) {
            const int64_t left = tiles->columns - column, panels = (left + RT_PANEL - 1) / RT_PANEL;
            while (!of[width] || 4 >> width > panels) width++;
            const int64_t wide = (int64_t)(4 >> width) * RT_PANEL, most = least(left, wide) - wide + RT_PANEL;
            of[width](tiles->depth, tiles->a + row * tiles->a_row, tiles->a_row, tiles->a_depth,
                      tiles->panels + column / RT_PANEL * tiles->panel_step, tiles->panel_step,
                      tiles->c + row * tiles->c_row + column, tiles->c_row, tiles->add,
                      (__mmask16)((1U << most) - 1));
            column += wide;
        }
    }
}

AVX512 static void widen_halves(const uint16_t *pairs, int64_t count, float *to) {
    /* The first elements, then the second ones. */
    static const uint16_t order[RT_PAIR_ELEMENTS] = {0,  2,  4,  6,  8,  10, 12, 14, 16, 18, 20,
                                                     22, 24, 26, 28, 30, 1,  3,  5,  7,  9,  11,
                                                     13, 15, 17, 19, 21, 23, 25, 27, 29, 31};
    const __m512i apart = _mm512_loadu_si512(order);
    for (int64_t i = 0; i < count; i++, pairs += RT_PAIR_ELEMENTS, to += 2 * RT_PANEL) {
        const __m512i pair = _mm512_permutexvar_epi16(apart, _mm512_loadu_si512(pairs));
        _mm512_storeu_ps(to, _mm512_cvtph_ps(_mm512_castsi512_si256(pair)));
        _mm512_storeu_ps(to + RT_PANEL, _mm512_cvtph_ps(_mm512_extracti64x4_epi64(pair, 1)));
    }
}

AVX512 static void widen_brains(const uint16_t *pairs, int64_t count, float *to) {
    for (int64_t i = 0; i < count; i++, pairs += RT_PAIR_ELEMENTS, to += 2 * RT_PANEL) {
        const __m512i pair = _mm512_loadu_si512(pairs);
        _mm512_storeu_ps(to, first_of(pair, true));
        _mm512_storeu_ps(to + RT_PANEL, second_of(pair, true));
    }
}

void rt_half_panels_widen(op_dtype dtype, const uint16_t *pairs, int64_t count, float *panels) {
    (dtype == OP_BFLOAT16 ? widen_brains : widen_halves)(pairs, count, panels);
}

/* ---- one row, bound by reading the matrix ------------------------------------------------------------------ */

enum { TOGETHER = 8 /* rows that are read at once */, ASK_AHEAD = 8, DOTS = 8 };

/* 16 elements at most as floats. */
AVX512_INLINE __m512 load_floats(const uint16_t *from, bool brain, __mmask16 mask) {
    const __m256i halves = _mm256_maskz_loadu_epi16(mask, from);
    return brain ? _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16))
                 : _mm512_cvtph_ps(halves);
}

AVX512_INLINE void add_row(bool brain, const float *a, const uint16_t *b, int64_t b_depth, int64_t depth,
                           int64_t after, int64_t columns, float *y) {
    for (int64_t k = 0; k < depth; k += TOGETHER) {
        const int64_t rows = least(depth - k, TOGETHER);
        const bool ask = k + ASK_AHEAD + TOGETHER <= depth + after;
        for (int64_t j = 0; j < columns; j += RT_PANEL) {
            const __mmask16 mask = rt_first_lanes_16(columns - j);
            const uint16_t *from = b + k * b_depth + j;
            __m512 sum = _mm512_maskz_loadu_ps(mask, y + j);
            for (int r = 0; r < TOGETHER && ask && j % (2 * RT_PANEL) == 0; r++)
                __builtin_prefetch(from + (ASK_AHEAD + r) * b_depth);
            if (rows == TOGETHER) {
                _Pragma("GCC unroll 8") for (int r = 0; r < TOGETHER; r++) sum = _mm512_fmadd_ps(
                    _mm512_set1_ps(a[k + r]), load_floats(from + r * b_depth, brain, mask), sum);
            } else {
                for (int64_t r = 0; r < rows; r++)
                    sum = _mm512_fmadd_ps(_mm512_set1_ps(a[k + r]),
                                          load_floats(from + r * b_depth, brain, mask), sum);
            }
            _mm512_mask_storeu_ps(y + j, mask, sum);
        }
    }
}

AVX512 static void row_of_halves(const float *a, const uint16_t *b, int64_t b_depth, int64_t depth,
                                 int64_t after, int64_t columns, float *y) {
    add_row(false, a, b, b_depth, depth, after, columns, y);
}

AVX512 static void row_of_brains(const float *a, const uint16_t *b, int64_t b_depth, int64_t depth,
                                 int64_t after, int64_t columns, float *y) {
    add_row(true, a, b, b_depth, depth, after, columns, y);
}

void rt_half_row(op_dtype dtype, const float *a, const uint16_t *b, int64_t b_depth, int64_t depth,
                 int64_t after, int64_t columns, float *y) {
    (dtype == OP_BFLOAT16 ? row_of_brains : row_of_halves)(a, b, b_depth, depth, after, columns, y);
}

AVX512_INLINE void add_dots(bool brain, const float *a, const uint16_t *b, int64_t b_column, int64_t depth,
                            int64_t columns, float *y) {
    for (int64_t j = 0; j < columns; j += DOTS) {
        const int64_t wide = least(columns - j, DOTS);
        const uint16_t *from = b + j * b_column;
        __m512 sums[DOTS];
        _Pragma("GCC unroll 8") for (int i = 0; i < DOTS; i++) sums[i] = _mm512_setzero_ps();
        for (int64_t k = 0; k < depth; k += RT_PANEL) {
            const __mmask16 mask = rt_first_lanes_16(depth - k);
            const __m512 left = _mm512_maskz_loadu_ps(mask, a + k);
            _Pragma("GCC unroll 8") for (int i = 0; i < DOTS; i++) {
                if (i < wide)
                    sums[i] =
                        _mm512_fmadd_ps(left, load_floats(from + i * b_column + k, brain, mask), sums[i]);
            }
        }
        for (int64_t i = 0; i < wide; i++) y[j + i] += _mm512_reduce_add_ps(sums[i]);
    }
}

AVX512 static void dots_of_halves(const float *a, const uint16_t *b, int64_t b_column, int64_t depth,
                                  int64_t columns, float *y) {
    add_dots(false, a, b, b_column, depth, columns, y);
}

AVX512 static void dots_of_brains(const float *a, const uint16_t *b, int64_t b_column, int64_t depth,
                                  int64_t columns, float *y) {
    add_dots(true, a, b, b_column, depth, columns, y);
}

void rt_half_dots(op_dtype dtype, const float *a, const uint16_t *b, int64_t b_column, int64_t depth,
                  int64_t columns, float *y) {
    (dtype == OP_BFLOAT16 ? dots_of_brains : dots_of_halves)(a, b, b_column, depth, columns, y);
}

#else

bool rt_half_tiles_here(void) {
    return false;
}

void rt_half_row(op_dtype dtype, const float *a, const uint16_t *b, int64_t b_depth, int64_t depth,
                 int64_t after, int64_t columns, float *y) {
    (void)dtype, (void)a, (void)b, (void)b_depth, (void)depth, (void)after, (void)columns, (void)y;
}

void rt_half_dots(op_dtype dtype, const float *a, const uint16_t *b, int64_t b_column, int64_t depth,
                  int64_t columns, float *y) {
    (void)dtype, (void)a, (void)b, (void)b_column, (void)depth, (void)columns, (void)y;
}

void rt_half_panels_widen(op_dtype dtype, const uint16_t *pairs, int64_t count, float *panels) {
    (void)dtype, (void)pairs, (void)count, (void)panels;
}

void rt_half_tiles_run(const rt_half_tiles *tiles) {
    (void)tiles;
}

#endif
