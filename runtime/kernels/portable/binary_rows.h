/* SPDX-License-Identifier: Apache-2.0 */
/* binary_rows.h: operators on pairs of floats in short rows, where an operand may have one element for each row, or one row for all. */
#ifndef OURO_BINARY_ROWS_H
#define OURO_BINARY_ROWS_H

#include "runtime/kernels/portable/kernels.h"

enum { RT_ROW_UNIT = 16 }; /* the width of a row is a multiple of it */

/* Where the next row of an operand begins, and how far its elements are from each other: 1, or 0 where it has one. */
typedef struct rt_row_operand {
    int64_t next, step;
} rt_row_operand;

/* `rows` rows of `width` elements, which lie together in `to`. The bits are those of the operator's kernel. `to` may be an operand that has all
 * elements too. */
typedef void rt_binary_rows(float *to, const float *left, const float *right, int64_t rows, int64_t width,
                            rt_row_operand left_at, rt_row_operand right_at);

/* NULL: the operator has no such form. */
rt_binary_rows *rt_binary_rows_select(op_code code);

#endif
