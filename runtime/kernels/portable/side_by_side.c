/* SPDX-License-Identifier: Apache-2.0 */
/* side_by_side.c: implements side_by_side.h. Sums of some rows by some columns, for some products each, stay in registers while the depth is gone through.
 */
#include "runtime/kernels/portable/side_by_side.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/lanes.h"

enum {
    LANES = 16,
    MOST_SUMS = 16, /* vectors in registers */
    SIDE = 4,       /* rows, or columns, at most */
    SOME = 64       /* products, without AVX-512 */
};

static inline int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

RT_CLONES static void run_some(const rt_side_by_side *of) {
    for (int64_t at = 0; at < of->rows * of->columns; at++) {
        const int64_t row = at / of->columns, column = at % of->columns;
        for (int64_t lane = 0; lane < of->lanes; lane += SOME) {
            const int64_t count = least(of->lanes - lane, SOME);
            const float *a = of->a + row * of->a_row + lane, *b = of->b + column * of->b_column + lane;
            float sums[SOME] = {0};
            for (int64_t k = 0; k < of->depth; k++)
                RT_VECTOR for (int64_t i = 0; i < count; i++) sums[i] +=
                    a[k * of->a_depth + i] * b[k * of->b_depth + i];
            float *y = of->y + row * of->y_row + column * of->y_column + lane;
            for (int64_t i = 0; i < count; i++) y[i] = sums[i];
        }
    }
}

#if RT_X86_KERNELS
#define AVX512 __attribute__((target("avx512f")))
#define ALWAYS static inline __attribute__((always_inline))

/* 16 * `wide` products from `lane` on, of which `left` are there: `rows` rows by `columns` columns. */
AVX512 ALWAYS void add_vectors(const rt_side_by_side *of, int64_t row, int64_t column, int64_t lane,
                               int64_t left, int rows, int columns, int wide) {
    const float *a = of->a + row * of->a_row + lane, *b = of->b + column * of->b_column + lane;
    float *y = of->y + row * of->y_row + column * of->y_column + lane;
    __mmask16 there[4];
    __m512 sums[MOST_SUMS];
    _Pragma("GCC unroll 4") for (int v = 0; v < wide; v++) there[v] = rt_first_lanes_16(left - v * LANES);
    _Pragma("GCC unroll 16") for (int i = 0; i < rows * columns * wide; i++) sums[i] = _mm512_setzero_ps();
    for (int64_t k = 0; k < of->depth; k++, a += of->a_depth, b += of->b_depth) {
        _Pragma("GCC unroll 4") for (int v = 0; v < wide; v++) {
            __m512 left_ones[SIDE];
            _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++) left_ones[r] =
                _mm512_maskz_loadu_ps(there[v], a + r * of->a_row + v * LANES);
            _Pragma("GCC unroll 4") for (int c = 0; c < columns; c++) {
                const __m512 right = _mm512_maskz_loadu_ps(there[v], b + c * of->b_column + v * LANES);
                _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++) sums[(r * columns + c) * wide + v] =
                    _mm512_fmadd_ps(left_ones[r], right, sums[(r * columns + c) * wide + v]);
            }
        }
    }
    _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++)
        _Pragma("GCC unroll 4") for (int c = 0; c < columns; c++)
            _Pragma("GCC unroll 4") for (int v = 0; v < wide; v++)
                _mm512_mask_storeu_ps(y + r * of->y_row + c * of->y_column + v * LANES, there[v],
                                      sums[(r * columns + c) * wide + v]);
}

AVX512 ALWAYS void run_tile(const rt_side_by_side *of, int64_t row, int64_t column, int rows, int columns) {
    const int wide = rows * columns <= 4 ? 4 : MOST_SUMS / (rows * columns);
    for (int64_t lane = 0; lane < of->lanes; lane += wide * LANES)
        add_vectors(of, row, column, lane, of->lanes - lane, rows, columns, wide);
}

AVX512 ALWAYS void run_rows(const rt_side_by_side *of, int64_t row, int rows) {
    int64_t column = 0;
    for (; column + 4 <= of->columns; column += 4) run_tile(of, row, column, rows, 4);
    if (column + 2 <= of->columns) {
        run_tile(of, row, column, rows, 2);
        column += 2;
    }
    if (column < of->columns) run_tile(of, row, column, rows, 1);
}

AVX512 static void run_wide(const rt_side_by_side *of) {
    int64_t row = 0;
    for (; row + 4 <= of->rows; row += 4) run_rows(of, row, 4);
    if (row + 2 <= of->rows) {
        run_rows(of, row, 2);
        row += 2;
    }
    if (row < of->rows) run_rows(of, row, 1);
}
#else
#define run_wide run_some
#endif

void rt_side_by_side_run(const rt_side_by_side *of) {
    if (of->wide) run_wide(of);
    else run_some(of);
}
