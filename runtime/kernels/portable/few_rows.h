/* SPDX-License-Identifier: Apache-2.0 */
/* few_rows.h: a few rows times a matrix where it lies, which is read once, with AVX-512: of 4 to 8 rows, where there is nothing to gain from copying the
 * matrix. For product.c.
 */
#ifndef OURO_FEW_ROWS_H
#define OURO_FEW_ROWS_H

#include <stdint.h>

enum { RT_FEW_ROWS = 8 }; /* at most */

/* Y = A B, of which B has columns side by side (b_column is 1), or rows: then A has them side by side, too. Strides are in elements. */
typedef struct rt_few_rows {
    int64_t rows, columns, depth;
    const float *a;
    int64_t a_row, a_depth;
    const float *b;
    int64_t b_depth, b_column;
    float *y;
    int64_t y_row;
} rt_few_rows;

/* For machines that have such vectors (rt_has_wide_vectors). An element is the same whatever columns it is computed with: the sum along the depth, or 16
 * interleaved ones, which are then added. Each product and its addition are rounded once. */
void rt_few_rows_run(const rt_few_rows *product);

#endif
