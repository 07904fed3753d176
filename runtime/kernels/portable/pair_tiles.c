/* SPDX-License-Identifier: Apache-2.0 */
/* pair_tiles.c: see pair_tiles.h. A register holds a pair of each column of a panel; a pair of a row is in all of its lanes. */
#include "runtime/kernels/portable/pair_tiles.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/lanes.h"
#include <string.h>
#if RT_X86_KERNELS
#include <immintrin.h>
#endif

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* One panel, of any strides. */
static void pack_panel(const uint16_t *b, int64_t b_depth, int64_t b_column, int64_t depth, int64_t columns,
                       uint16_t *panel) {
    const int64_t pairs = rt_pairs_of(depth);
    if (columns < RT_PANEL || depth % 2) memset(panel, 0, (size_t)(pairs * RT_PAIR_ELEMENTS) * sizeof *panel);
    for (int64_t j = 0; j < columns; j++) {
        for (int64_t k = 0; k < depth; k++)
            panel[k / 2 * RT_PAIR_ELEMENTS + 2 * j + k % 2] = b[k * b_depth + j * b_column];
    }
}

#if RT_X86_KERNELS

#define WORDS __attribute__((target("avx512f,avx512bw,avx512vl")))
#define PAIRS __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

/* ---- packing --------------------------------------------------------------------------------------------- */

/* Elements of two rows in turns: the first 16 of each, or the others. */
WORDS static inline __attribute__((always_inline)) __m512i in_turns(__m512i even, __m512i odd, bool others) {
    const __m512i first = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39,
                                           7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    return _mm512_permutex2var_epi16(even, _mm512_add_epi16(first, _mm512_set1_epi16(others ? 16 : 0)), odd);
}

/* The columns lie side by side: two panels at a time, from 32 columns. */
WORDS static void pack_rows(const uint16_t *b, int64_t b_depth, int64_t depth, int64_t columns,
                            uint16_t *panels) {
    const int64_t step = rt_pairs_of(depth) * RT_PAIR_ELEMENTS;
    for (int64_t j = 0; j < columns; j += 2 * RT_PANEL) {
        const __mmask32 mask = (__mmask32)rt_first_lanes_64(columns - j);
        const bool both = columns - j > RT_PANEL;
        uint16_t *to = panels + j / RT_PANEL * step;
        for (int64_t k = 0; k < depth; k += 2, to += RT_PAIR_ELEMENTS) {
            const __m512i even = _mm512_maskz_loadu_epi16(mask, b + k * b_depth + j),
                          odd = k + 1 < depth ? _mm512_maskz_loadu_epi16(mask, b + (k + 1) * b_depth + j)
                                              : _mm512_setzero_si512();
            _mm512_storeu_si512(to, in_turns(even, odd, false));
            if (both) _mm512_storeu_si512(to + step, in_turns(even, odd, true));
        }
    }
}

/* 16 rows of 16 words become columns. */
WORDS static inline __attribute__((always_inline)) void turn_16(__m512i rows[16]) {
    __m512i half[16];
    _Pragma("GCC unroll 8") for (int i = 0; i < 16; i += 2) {
        half[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
        half[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
    }
    _Pragma("GCC unroll 4") for (int i = 0; i < 16; i += 4) {
        rows[i] = _mm512_unpacklo_epi64(half[i], half[i + 2]);
        rows[i + 1] = _mm512_unpackhi_epi64(half[i], half[i + 2]);
        rows[i + 2] = _mm512_unpacklo_epi64(half[i + 1], half[i + 3]);
        rows[i + 3] = _mm512_unpackhi_epi64(half[i + 1], half[i + 3]);
    }
    /* A quarter of rows[4 * g + c] holds column c of its own quarter, of rows 4 * g to 4 * g + 3. */
    _Pragma("GCC unroll 4") for (int c = 0; c < 4; c++) {
        const __m512i low = _mm512_shuffle_i32x4(rows[c], rows[4 + c], 0x88),
                      high = _mm512_shuffle_i32x4(rows[c], rows[4 + c], 0xdd),
                      more_low = _mm512_shuffle_i32x4(rows[8 + c], rows[12 + c], 0x88),
                      more_high = _mm512_shuffle_i32x4(rows[8 + c], rows[12 + c], 0xdd);
        half[c] = _mm512_shuffle_i32x4(low, more_low, 0x88);
        half[8 + c] = _mm512_shuffle_i32x4(low, more_low, 0xdd);
        half[4 + c] = _mm512_shuffle_i32x4(high, more_high, 0x88);
        half[12 + c] = _mm512_shuffle_i32x4(high, more_high, 0xdd);
    }
    _Pragma("GCC unroll 16") for (int i = 0; i < 16; i++) rows[i] = half[i];
}

/* The depth lies side by side: 16 columns of 16 pairs at a time. */
WORDS static void pack_columns(const uint16_t *b, int64_t b_column, int64_t depth, int64_t columns,
                               uint16_t *panels) {
    const int64_t pairs = rt_pairs_of(depth);
    for (int64_t j = 0; j < columns; j += RT_PANEL, panels += pairs * RT_PAIR_ELEMENTS) {
        const uint16_t *from = b + j * b_column;
        const int64_t wide = least(columns - j, RT_PANEL);
        for (int64_t pair = 0; pair < pairs; pair += 16) {
            const __mmask32 mask = (__mmask32)rt_first_lanes_64(depth - 2 * pair);
            __m512i rows[16];
            _Pragma("GCC unroll 16") for (int i = 0; i < 16; i++) rows[i] =
                i < wide ? _mm512_maskz_loadu_epi16(mask, from + i * b_column + 2 * pair)
                         : _mm512_setzero_si512();
            turn_16(rows);
            _Pragma("GCC unroll 16") for (int i = 0; i < 16; i++) {
                if (pair + i < pairs) _mm512_storeu_si512(panels + (pair + i) * RT_PAIR_ELEMENTS, rows[i]);
            }
        }
    }
}

static bool has_words(void) {
    return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}

bool rt_pairs_here(void) {
    return has_words() && __builtin_cpu_supports("avx512bf16");
}

/* ---- tiles ----------------------------------------------------------------------------------------------- */

/* Strides in bytes; `last` are the lanes of the last panel that there are. */
typedef void tile_function(int64_t pairs, const char *a, int64_t a_row, int64_t a_pair, const char *panels,
                           int64_t panel_step, float *c, int64_t c_row, bool add, __mmask16 last);

/* ROWS x PANELS registers of sums. One pointer leads to three rows, as in tiles.c. The panels after its own are asked for, which a
 * caller reads next. */
#define TILE(ROWS, PANELS)                                                                                   \
    PAIRS static void tile_##ROWS##_##PANELS(int64_t pairs, const char *left, int64_t a_row, int64_t a_pair, \
                                             const char *panel, int64_t panel_step, float *c, int64_t c_row, \
                                             bool add, __mmask16 last) {                                     \
        const char *a[(ROWS + 2) / 3];                                                                       \
        __m512 sums[ROWS][PANELS];                                                                           \
        _Pragma("GCC unroll 16") for (int i = 0; i < (ROWS + 2) / 3; i++) a[i] = left + 3 * i * a_row;       \
        _Pragma("GCC unroll 16") for (int r = 0; r < ROWS; r++) {                                            \
            _Pragma("GCC unroll 16") for (int p = 0; p < PANELS; p++) sums[r][p] =                           \
                add ? _mm512_maskz_loadu_ps(p == PANELS - 1 ? last : (__mmask16)0xffff,                      \
                                            c + r * c_row + p * RT_PANEL)                                    \
                    : _mm512_setzero_ps();                                                                   \
        }                                                                                                    \
        for (int64_t k = 0; k < pairs; k++, panel += RT_PAIR_ELEMENTS * sizeof(uint16_t)) {                  \
            __m512bh right[PANELS];                                                                          \
            _Pragma("GCC unroll 16") for (int p = 0; p < PANELS; p++) {                                      \
                right[p] = (__m512bh)_mm512_loadu_si512(panel + p * panel_step);                             \
                if (ROWS > 6) __builtin_prefetch(panel + (PANELS + p) * panel_step, 0, 2);                   \
            }                                                                                                \
            _Pragma("GCC unroll 16") for (int r = 0; r < ROWS; r++) {                                        \
                int32_t pair;                                                                                \
                memcpy(&pair, a[r / 3] + r % 3 * a_row, sizeof pair);                                        \
                const __m512bh both = (__m512bh)_mm512_set1_epi32(pair);                                     \
                _Pragma("GCC unroll 16") for (int p = 0; p < PANELS; p++) sums[r][p] =                       \
                    _mm512_dpbf16_ps(sums[r][p], both, right[p]);                                            \
            }                                                                                                \
            _Pragma("GCC unroll 16") for (int i = 0; i < (ROWS + 2) / 3; i++) a[i] += a_pair;                \
        }                                                                                                    \
        _Pragma("GCC unroll 16") for (int r = 0; r < ROWS; r++) {                                            \
            _Pragma("GCC unroll 16") for (int p = 0; p < PANELS; p++) _mm512_mask_storeu_ps(                 \
                c + r * c_row + p * RT_PANEL, p == PANELS - 1 ? last : (__mmask16)0xffff, sums[r][p]);       \
        }                                                                                                    \
    }
#define TWO(ROWS) TILE(ROWS, 1) TILE(ROWS, 2)
#define THREE(ROWS) TWO(ROWS) TILE(ROWS, 4)
THREE(1)
TILE(1, 8)
THREE(2)
THREE(3)
THREE(4)
THREE(5)
THREE(6)
TWO(7)
TWO(8)
TWO(9)
TWO(10)
TWO(11)
TWO(12)

enum { MOST_ROWS = 12, WIDTHS = 4 };
/* For so many rows: tiles of 8, 4, 2 and 1 panels. */
static tile_function *const tiles_of[MOST_ROWS + 1][WIDTHS] = {{NULL},
                                                               {tile_1_8, tile_1_4, tile_1_2, tile_1_1},
                                                               {NULL, tile_2_4, tile_2_2, tile_2_1},
                                                               {NULL, tile_3_4, tile_3_2, tile_3_1},
                                                               {NULL, tile_4_4, tile_4_2, tile_4_1},
                                                               {NULL, tile_5_4, tile_5_2, tile_5_1},
                                                               {NULL, tile_6_4, tile_6_2, tile_6_1},
                                                               {NULL, NULL, tile_7_2, tile_7_1},
                                                               {NULL, NULL, tile_8_2, tile_8_1},
                                                               {NULL, NULL, tile_9_2, tile_9_1},
                                                               {NULL, NULL, tile_10_2, tile_10_1},
                                                               {NULL, NULL, tile_11_2, tile_11_1},
                                                               {NULL, NULL, tile_12_2, tile_12_1}};

void rt_pair_tiles_run(const rt_pair_tiles *tiles) {
    const int64_t size = (int64_t)sizeof(uint16_t),
                  step = tiles->panel_step ? tiles->panel_step : tiles->pairs * RT_PAIR_ELEMENTS,
                  passes = (tiles->rows + MOST_ROWS - 1) / MOST_ROWS;
    for (int64_t pass = 0; pass < passes; pass++) {
        /* Rows are dealt out evenly. */
        const int64_t row = tiles->rows * pass / passes, rows = tiles->rows * (pass + 1) / passes - row;
        const char *a = (const char *)(tiles->a + row * tiles->a_row);
        for (int64_t column = 0, width = 0; column < tiles->columns;) {
            const int64_t left = tiles->columns - column, panels = (left + RT_PANEL - 1) / RT_PANEL;
            while (!tiles_of[rows][width] || 8 >> width > panels) width++;
            const int64_t wide = (int64_t)(8 >> width) * RT_PANEL;
            tiles_of[rows][width](tiles->pairs, a, tiles->a_row * size, tiles->a_pair * size,
                                  (const char *)(tiles->panels + column / RT_PANEL * step), step * size,
                                  tiles->c + row * tiles->c_row + column, tiles->c_row, tiles->add,
                                  rt_first_lanes_16(least(left, wide) - wide + RT_PANEL));
            column += wide;
        }
    }
}

/* ---- one row, bound by reading the matrix ------------------------------------------------------------------ */

enum { TOGETHER = 4 /* pairs whose rows are read at once */, DOTS = 16, ASK_AHEAD = 8 /* rows */ };

/* y[j] += what `pairs` pairs of rows give, all whole but perhaps the last. `columns` at most 32. */
PAIRS static inline __attribute__((always_inline)) void add_pairs(const __m512bh *a, const uint16_t *b,
                                                                  int64_t b_depth, int pairs, bool odd,
                                                                  __mmask32 mask, float *y) {
    const __mmask16 low = (__mmask16)mask, high = (__mmask16)(mask >> 16);
    __m512 sums[2] = {_mm512_maskz_loadu_ps(low, y), _mm512_maskz_loadu_ps(high, y + 16)};
    _Pragma("GCC unroll 4") for (int p = 0; p < pairs; p++) {
        const uint16_t *row = b + 2 * p * b_depth;
        const __m512i first = _mm512_maskz_loadu_epi16(mask, row),
                      second = odd && p == pairs - 1 ? _mm512_setzero_si512()
                                                     : _mm512_maskz_loadu_epi16(mask, row + b_depth);
        sums[0] = _mm512_dpbf16_ps(sums[0], a[p], (__m512bh)in_turns(first, second, false));
        sums[1] = _mm512_dpbf16_ps(sums[1], a[p], (__m512bh)in_turns(first, second, true));
    }
    _mm512_mask_storeu_ps(y, low, sums[0]);
    _mm512_mask_storeu_ps(y + 16, high, sums[1]);
}

PAIRS static inline __attribute__((always_inline)) __m512bh pair_at(const uint16_t *a, bool whole) {
    return (__m512bh)_mm512_set1_epi32((int)((uint32_t)a[0] | (whole ? (uint32_t)a[1] << 16 : 0)));
}

PAIRS void rt_pair_row(const uint16_t *a, const uint16_t *b, int64_t b_depth, int64_t depth, int64_t after,
                       int64_t columns, float *y) {
    int64_t k = 0;
    for (; k + 2 * TOGETHER <= depth; k += 2 * TOGETHER) {
        __m512bh left[TOGETHER];
        _Pragma("GCC unroll 4") for (int p = 0; p < TOGETHER; p++) left[p] = pair_at(a + k + 2 * p, true);
        const bool ask = k + ASK_AHEAD + 2 * TOGETHER <= depth + after;
        for (int64_t j = 0; j < columns; j += 32) {
            const uint16_t *from = b + k * b_depth + j;
            for (int r = 0; r < 2 * TOGETHER && ask; r++)
                __builtin_prefetch(from + (ASK_AHEAD + r) * b_depth);
            add_pairs(left, from, b_depth, TOGETHER, false, (__mmask32)rt_first_lanes_64(columns - j), y + j);
        }
    }
    for (; k < depth; k += 2) {
        const bool whole = k + 1 < depth;
        const __m512bh left = pair_at(a + k, whole);
        for (int64_t j = 0; j < columns; j += 32)
            add_pairs(&left, b + k * b_depth + j, b_depth, 1, !whole,
                      (__mmask32)rt_first_lanes_64(columns - j), y + j);
    }
}

/* The lanes of 16 registers become one sum each. */
PAIRS static inline __attribute__((always_inline)) __m512 sums_of(__m512 sums[DOTS]) {
    __m512i rows[DOTS];
    __m512 parts[DOTS];
    _Pragma("GCC unroll 16") for (int i = 0; i < DOTS; i++) rows[i] = _mm512_castps_si512(sums[i]);
    turn_16(rows);
    _Pragma("GCC unroll 16") for (int i = 0; i < DOTS; i++) parts[i] = _mm512_castsi512_ps(rows[i]);
    _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++) parts[i] = _mm512_add_ps(parts[i], parts[i + 8]);
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) parts[i] = _mm512_add_ps(parts[i], parts[i + 4]);
    return _mm512_add_ps(_mm512_add_ps(parts[0], parts[2]), _mm512_add_ps(parts[1], parts[3]));
}

PAIRS void rt_pair_dots(const uint16_t *a, const uint16_t *b, int64_t b_column, int64_t depth,
                        int64_t columns, float *y) {
    for (int64_t j = 0; j < columns; j += DOTS) {
        const int64_t wide = least(columns - j, DOTS);
        const uint16_t *from = b + j * b_column;
        __m512 sums[DOTS];
        _Pragma("GCC unroll 16") for (int i = 0; i < DOTS; i++) sums[i] = _mm512_setzero_ps();
        for (int64_t k = 0; k < depth; k += 32) {
            const __mmask32 mask = (__mmask32)rt_first_lanes_64(depth - k);
            const __m512bh left = (__m512bh)_mm512_maskz_loadu_epi16(mask, a + k);
            _Pragma("GCC unroll 16") for (int i = 0; i < DOTS; i++) {
                if (i < wide)
                    sums[i] = _mm512_dpbf16_ps(
                        sums[i], left, (__m512bh)_mm512_maskz_loadu_epi16(mask, from + i * b_column + k));
            }
        }
        _mm512_mask_storeu_ps(y + j, rt_first_lanes_16(wide), sums_of(sums));
    }
}

void rt_pairs_pack(const uint16_t *b, int64_t b_depth, int64_t b_column, int64_t depth, int64_t columns,
                   uint16_t *panels) {
    if (has_words() && b_column == 1) {
        pack_rows(b, b_depth, depth, columns, panels);
    } else if (has_words() && b_depth == 1) {
        pack_columns(b, b_column, depth, columns, panels);
    } else {
        const int64_t step = rt_pairs_of(depth) * RT_PAIR_ELEMENTS;
        for (int64_t j = 0; j < columns; j += RT_PANEL)
            pack_panel(b + j * b_column, b_depth, b_column, depth, least(columns - j, RT_PANEL),
                       panels + j / RT_PANEL * step);
    }
}

#else

bool rt_pairs_here(void) {
    return false;
}

void rt_pair_tiles_run(const rt_pair_tiles *tiles) {
    (void)tiles;
}

void rt_pair_row(const uint16_t *a, const uint16_t *b, int64_t b_depth, int64_t depth, int64_t after,
                 int64_t columns, float *y) {
    (void)a, (void)b, (void)b_depth, (void)depth, (void)after, (void)columns, (void)y;
}

void rt_pair_dots(const uint16_t *a, const uint16_t *b, int64_t b_column, int64_t depth, int64_t columns,
                  float *y) {
    (void)a, (void)b, (void)b_column, (void)depth, (void)columns, (void)y;
}

void rt_pairs_pack(const uint16_t *b, int64_t b_depth, int64_t b_column, int64_t depth, int64_t columns,
                   uint16_t *panels) {
    const int64_t step = rt_pairs_of(depth) * RT_PAIR_ELEMENTS;
    for (int64_t j = 0; j < columns; j += RT_PANEL)
        pack_panel(b + j * b_column, b_depth, b_column, depth, least(columns - j, RT_PANEL),
                   panels + j / RT_PANEL * step);
}

#endif
