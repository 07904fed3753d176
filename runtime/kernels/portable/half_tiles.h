/* SPDX-License-Identifier: Apache-2.0 */
/* half_tiles.h: products of 16-bit numbers whose right matrix lies in panels of pairs (pair_tiles.h) and becomes floats in registers.
 *
 * With AVX-512: that takes as long as in float, and from memory half as long. Sums are floats, added in the order of the depth; each product and
 * its addition are rounded once.
 */
#ifndef OURO_HALF_TILES_H
#define OURO_HALF_TILES_H

#include "runtime/kernels/portable/product.h"

/* Whether this machine is one for them. */
bool rt_half_tiles_here(void);

/* C (+)= A B for one block; see rt_tiles. Strides of A are in floats, those of panels in elements of 16 bits. */
typedef struct rt_half_tiles {
    op_dtype dtype; /* of the panels: float16 or bfloat16 */
    int64_t rows, columns, depth;
    const float *a;
    int64_t a_row, a_depth;
    const uint16_t *panels;
    int64_t panel_step;
    float *c;
    int64_t c_row;
    bool add;
} rt_half_tiles;
void rt_half_tiles_run(const rt_half_tiles *tiles);

/* `count` rows of pairs, of panels of an even depth, as panels of floats (rt_tiles.panels), which may end where the pairs end. */
void rt_half_panels_widen(op_dtype dtype, const uint16_t *pairs, int64_t count, float *panels);

/* y[j] += the sum over k of a[k] * b[k * b_depth + j]: a row times a matrix of 16 bits where it lies, the same bits as from panels. The matrix
 * has `after` more rows, which are read next. */
void rt_half_row(op_dtype dtype, const float *a, const uint16_t *b, int64_t b_depth, int64_t depth,
                 int64_t after, int64_t columns, float *y);
/* y[j] += the sum over k of a[k] * b[j * b_column + k], in 16 interleaved sums. */
void rt_half_dots(op_dtype dtype, const float *a, const uint16_t *b, int64_t b_column, int64_t depth,
                  int64_t columns, float *y);

#endif
