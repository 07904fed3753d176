/* SPDX-License-Identifier: Apache-2.0 */
/* pair_tiles.h: products of bfloat16 by the processor's own instruction (AVX-512 BF16), which adds two products at a time to a float.
 *
 * What it computes of a pair, of floats c and numbers a and b of bfloat16, is fma(a[0], b[0], fma(a[1], b[1], c)): sums are floats, and
 * each product and its addition are rounded once. Pairs are added in the order of the depth, so that a sum depends neither on how many
 * rows and columns are computed together nor on the number of threads. The instruction takes numbers below the least normal one
 * (2^-126) for zero, also as results; infinities and NaN are what they are in float.
 */
#ifndef OURO_PAIR_TILES_H
#define OURO_PAIR_TILES_H

#include "runtime/kernels/portable/product.h"

enum {
    RT_PAIR_ELEMENTS = 2 * RT_PANEL, /* of a panel, for one pair of the depth */
    RT_PAIR_ROWS = 16                /* of the left matrix in panels: rows that are computed together */
};

/* Whether this machine has the instruction. */
bool rt_pairs_here(void);

static inline int64_t rt_pairs_of(int64_t depth) {
    return (depth + 1) / 2;
}

/* Panels[panel][pair][RT_PANEL][2] of a matrix of 16-bit numbers, with zeros where it has no more columns or no more depth. Strides
 * are in elements. Runs on every machine. */
void rt_pairs_pack(const uint16_t *b, int64_t b_depth, int64_t b_column, int64_t depth, int64_t columns,
                   uint16_t *panels);

/* C (+)= A B for one block of a machine with the instruction; see rt_tiles. Strides of A and panels are in elements of 16 bits. */
typedef struct rt_pair_tiles {
    int64_t rows, columns, pairs;
    const uint16_t *a; /* two elements of a pair lie side by side */
    int64_t a_row, a_pair;
    const uint16_t *panels;
    int64_t panel_step; /* 0: panels lie one after another */
    float *c;
    int64_t c_row;
    bool add;
} rt_pair_tiles;
void rt_pair_tiles_run(const rt_pair_tiles *tiles);

/* y[j] += the sum over k of a[k] * b[k * b_depth + j]: a row times a matrix where it lies, the same bits as from panels. The matrix has
 * `after` more rows, which are read next. */
void rt_pair_row(const uint16_t *a, const uint16_t *b, int64_t b_depth, int64_t depth, int64_t after,
                 int64_t columns, float *y);
/* y[j] = the sum over k of a[k] * b[j * b_column + k]. In 32 interleaved sums, which are added from the halves down. */
void rt_pair_dots(const uint16_t *a, const uint16_t *b, int64_t b_column, int64_t depth, int64_t columns,
                  float *y);

#endif
