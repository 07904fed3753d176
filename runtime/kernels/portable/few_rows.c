/* SPDX-License-Identifier: Apache-2.0 */
/* few_rows.c: a few rows times a matrix where it lies; see few_rows.h. Sums of all rows by some columns stay in registers while the depth is gone through.
 */
#include "runtime/kernels/portable/few_rows.h"
#include "runtime/kernels/base/x86.h"

#if RT_X86_KERNELS
#include "runtime/kernels/portable/lanes.h"

#define AVX512 __attribute__((target("avx512f")))
#define ALWAYS static inline __attribute__((always_inline))

enum {
    LANES = 16,
    MOST_SUMS = 24,
    FEWER = 4, /* rows, by more columns */
    AHEAD = 8  /* rows of the matrix */
};

static inline int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* ---- columns side by side ------------------------------------------------------------------------------- */

/* `rows` rows by 16 * `wide` columns, of which `left` are there; or `whole`: all. */
AVX512 ALWAYS void add_columns(const rt_few_rows *of, int64_t column, int64_t left, int rows, int wide,
                               bool whole) {
    const float *b = of->b + column, *a[RT_FEW_ROWS];
    const int64_t ahead = AHEAD * of->b_depth * (int64_t)sizeof(float);
    __mmask16 there[4];
    __m512 sums[MOST_SUMS];
    _Pragma("GCC unroll 4") for (int j = 0; j < wide; j++) there[j] =
        rt_first_lanes_16(left - j * LANES > 0 ? left - j * LANES : 0);
    _Pragma("GCC unroll 8") for (int i = 0; i < rows; i++) a[i] = of->a + i * of->a_row;
    _Pragma("GCC unroll 24") for (int i = 0; i < rows * wide; i++) sums[i] = _mm512_setzero_ps();
    for (int64_t k = 0, at = 0; k < of->depth; k++, at += of->a_depth, b += of->b_depth) {
        __m512 some[4];
        _Pragma("GCC unroll 4") for (int j = 0; j < wide; j++) {
            some[j] = whole ? _mm512_loadu_ps(b + j * LANES) : _mm512_maskz_loadu_ps(there[j], b + j * LANES);
            __builtin_prefetch((const void *)((uintptr_t)(b + j * LANES) + (uintptr_t)ahead));
        }
        _Pragma("GCC unroll 8") for (int i = 0; i < rows; i++) {
            const __m512 number = _mm512_set1_ps(a[i][at]);
            _Pragma("GCC unroll 4") for (int j = 0; j < wide; j++) sums[i * wide + j] =
                _mm512_fmadd_ps(number, some[j], sums[i * wide + j]);
        }
    }
    _Pragma("GCC unroll 8") for (int i = 0; i < rows; i++)
        _Pragma("GCC unroll 4") for (int j = 0; j < wide; j++)
            _mm512_mask_storeu_ps(of->y + i * of->y_row + column + j * LANES, there[j], sums[i * wide + j]);
}

AVX512 ALWAYS void run_columns(const rt_few_rows *of, int rows) {
    const int wide = rows <= FEWER ? 4 : 3, rest = rows <= FEWER ? 4 : 2;
    int64_t column = 0;
    for (; column + (wide + 1) * LANES < of->columns; column += wide * LANES)
        add_columns(of, column, wide * LANES, rows, wide, true);
    for (; column + rest * LANES <= of->columns; column += rest * LANES)
        add_columns(of, column, rest * LANES, rows, rest, true);
    const int64_t left = of->columns - column;
    if (left > LANES) add_columns(of, column, left, rows, rest, false);
    else if (left > 0) add_columns(of, column, left, rows, 1, false);
}

/* ---- rows of the matrix side by side -------------------------------------------------------------------- */

/* The sums of the lanes of sixteen vectors, in their order: as rt_sums_of_16, of vectors that stay in registers. */
AVX512 ALWAYS __m512 sums_of(const __m512 *sums) {
    __m512 pairs[8], fours[4], eights[2];
    _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++) pairs[i] =
        RT_PAIRS_OF(_mm512_add_ps, sums[2 * i], sums[2 * i + 1]);
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) fours[i] =
        RT_ONES_OF(_mm512_add_ps, pairs[2 * i], pairs[2 * i + 1]);
    _Pragma("GCC unroll 2") for (int i = 0; i < 2; i++) eights[i] =
        RT_QUARTERS_OF(_mm512_add_ps, fours[2 * i], fours[2 * i + 1]);
    return RT_QUARTERS_OF(_mm512_add_ps, eights[0], eights[1]);
}

/* 16 of the depth, of which these are there. */
AVX512 ALWAYS void add_lanes(const rt_few_rows *of, const float *const *b, int64_t k, __mmask16 there,
                             int rows, int wide, __m512 *sums) {
    __m512 some[4];
    _Pragma("GCC unroll 4") for (int j = 0; j < wide; j++) some[j] = _mm512_maskz_loadu_ps(there, b[j] + k);
    _Pragma("GCC unroll 8") for (int i = 0; i < rows; i++) {
        const __m512 numbers = _mm512_maskz_loadu_ps(there, of->a + i * of->a_row + k);
        _Pragma("GCC unroll 4") for (int j = 0; j < wide; j++) sums[i * wide + j] =
            _mm512_fmadd_ps(numbers, some[j], sums[i * wide + j]);
    }
}

/* `rows` rows by `wide` columns, of which `left` are there: the last stands for others. */
AVX512 ALWAYS void add_dots(const rt_few_rows *of, int64_t column, int64_t left, int rows, int wide) {
    const float *b[4];
    float y[LANES];
    __m512 sums[LANES];
    int64_t k = 0;
    _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++) sums[i] = _mm512_setzero_ps();
    _Pragma("GCC unroll 4") for (int j = 0; j < wide; j++) b[j] =
        of->b + (column + least(j, left - 1)) * of->b_column;
    for (; k + LANES <= of->depth; k += LANES) add_lanes(of, b, k, 0xFFFF, rows, wide, sums);
    if (k < of->depth) add_lanes(of, b, k, rt_first_lanes_16(of->depth - k), rows, wide, sums);
    _mm512_storeu_ps(y, sums_of(sums));
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < wide && j < left; j++) of->y[i * of->y_row + column + j] = y[i * wide + j];
}

AVX512 ALWAYS void run_dots(const rt_few_rows *of, int rows, int wide) {
    for (int64_t column = 0; column < of->columns; column += wide)
        add_dots(of, column, of->columns - column, rows, wide);
}

/* ---- any number of rows --------------------------------------------------------------------------------- */

AVX512 ALWAYS void run_rows(const rt_few_rows *of, int rows) {
    if (of->b_column == 1) run_columns(of, rows);
    else run_dots(of, rows, rows <= FEWER ? 4 : 2);
}

AVX512 void rt_few_rows_run(const rt_few_rows *of) {
    switch (of->rows) {
    case 1:
        run_rows(of, 1);
        break;
    case 2:
        run_rows(of, 2);
        break;
    case 3:
        run_rows(of, 3);
        break;
    case 4:
        run_rows(of, 4);
        break;
    case 5:
        run_rows(of, 5);
        break;
    case 6:
        run_rows(of, 6);
        break;
    case 7:
        run_rows(of, 7);
        break;
    default:
        run_rows(of, 8);
    }
}

#else

void rt_few_rows_run(const rt_few_rows *of) {
    (void)of;
}

#endif
