/* SPDX-License-Identifier: Apache-2.0 */
/* dynamic_rows.h: rows of floats times weights of bytes: the rows are quantised when they are there, as DynamicQuantizeLinear does, all
 * with one scale, and multiplied as integers. */
#ifndef OURO_DYNAMIC_ROWS_H
#define OURO_DYNAMIC_ROWS_H

#include "runtime/kernels/portable/kernels.h"

/* A matrix of bytes, [depth][columns]. */
typedef struct rt_byte_weights {
    op_dtype dtype; /* int8 or uint8 */
    const void *data;
    const void *packed; /* instead of `data`: as rt_integer_pack leaves it; NULL: it is not packed */
    int64_t depth, columns;
    const float *scales; /* one, or one a column */
    const void *zeros;   /* of the same dtype, likewise */
    bool scales_each, zeros_each;
} rt_byte_weights;

/* The codes of `count` floats, less their zero point. Returns the scale. */
float rt_dynamic_quantize(const float *x, int64_t count, int16_t *codes);
/* Prepares `sums`, as many numbers as W has columns, for products by W: for those alone, until it is prepared again. Does nothing where W is packed,
 * with which its sums are. */
void rt_dynamic_begin(const rt_byte_weights *w, int32_t *sums);
/* Where rows of results go, and what is added to them: rows of its own, which may be those of the results, or one for all (addend_row: 0); NULL:
 * nothing. Rows of floats, of which the next lies so many after one. */
typedef struct rt_dynamic_rows {
    float *to;
    int64_t to_row;
    const float *addend;
    int64_t addend_row;
} rt_dynamic_rows;
/* Rows of codes times their scale, times W. `sums` was prepared for W. */
void rt_dynamic_multiply(const rt_byte_weights *w, const int16_t *codes, float scale, int64_t rows,
                         const rt_dynamic_rows *results, int32_t *sums);

#endif
