/* SPDX-License-Identifier: Apache-2.0 */
/* bit_panels.h: rows of floats as integers of one to three digits, times constant weights of 4 or 8 bits in panels: what digits.h does of
 * weights as they lie in a file, a few rows at the speed of memory. Columns can be had as floats, too: they are the rows of a table.
 *
 * A panel has RT_BIT_PANEL columns, and is read from front to back. Block after block of the depth it holds the scales of the columns, and then
 * their codes, in registers of 64 bytes: four bytes of each column in turn, so that sums of products of bytes are those of columns, and what they meet of x
 * is one word for all of them. Before each fourth block stand the zero points of four blocks, where columns have their own.
 *
 *     weights of 8 bits   a register has 4 of each column
 *     weights of 4 bits   8 of each column, two a byte: those of even index meet x first, then the others
 *
 * The last panel is filled up with columns whose codes and scales are 0.
 */
#ifndef OURO_BIT_PANELS_H
#define OURO_BIT_PANELS_H

#include "ir/operators/op.h"

enum { RT_BIT_PANEL = 16 /* columns */ };

/* What a product is made of. */
typedef struct rt_bit_panels {
    int bits, digits; /* of a weight: 4 or 8; of an element of x: 1, 2 or, with weights of 4 bits, 3 */
    bool zeros;       /* blocks of columns have zero points of their own; else all are 2^(bits - 1) */
    int64_t depth, columns, block, blocks; /* a block has a power of two of weights, at least 16 */
} rt_bit_panels;

/* Weights as MatMulNBits has them: codes packed in bytes, [columns][blocks][block]; scales [columns][blocks] of type float, float16 or bfloat16;
 * zero points packed like codes, each column in whole bytes, or NULL. */
typedef struct rt_bit_weights {
    const uint8_t *codes;
    const void *scales;
    op_dtype scale_type;
    const uint8_t *zeros;
} rt_bit_weights;

/* This machine multiplies rows that are split. Others have rt_bit_panels_floats. */
bool rt_bit_panels_here(void);

static inline int64_t rt_bit_panels_count(const rt_bit_panels *of) {
    return (of->columns + RT_BIT_PANEL - 1) / RT_BIT_PANEL;
}

/* What the attributes of a MatMulNBits or a GatherNBits say of its weights, whose zero points are input `zeros`; `digits` stays 0. False: they
 * have no panels. */
bool rt_bit_panels_read(const op_call *call, uint32_t zeros, rt_bit_panels *panels);
/* Bytes of all panels: false where that is no size. */
bool rt_bit_panels_bytes(const rt_bit_panels *of, size_t *bytes);
/* Writes the panels: of->zeros tells whether weights->zeros are read. */
void rt_bit_panels_pack(const rt_bit_panels *of, const rt_bit_weights *weights, void *panels);
/* The ways back, to what was packed. */
void rt_bit_panels_codes(const rt_bit_panels *of, const void *panels, uint8_t *codes);
void rt_bit_panels_scales(const rt_bit_panels *of, const void *panels, op_dtype type, void *scales);
void rt_bit_panels_zeros(const rt_bit_panels *of, const void *panels, uint8_t *zeros);
/* Panels are full for the most part, and the matrix is worth constants of its own. */
bool rt_bit_panels_wanted(const rt_bit_panels *of);

/* All weights of a column as floats, `depth` of them: out of panels, or as they lie in a file. */
void rt_bit_panels_column(const rt_bit_panels *of, const void *panels, int64_t column, float *to);
void rt_bit_weights_column(const rt_bit_panels *of, const rt_bit_weights *weights, int64_t column, float *to);

/* Bytes of a row that is split: false where that is no size. */
bool rt_bit_panels_row_bytes(const rt_bit_panels *of, size_t *bytes);
/* Writes of->depth elements of x as numbers; `to` is aligned to 4 bytes. False where an element is not finite, or the machine does not multiply them. */
bool rt_bit_panels_split(const rt_bit_panels *of, const float *x, void *to);

/* One row: what rt_bit_panels_split wrote, and where its results go. */
typedef struct rt_bit_row {
    const void *x;
    float *y;
} rt_bit_row;

/* rows[r].y[c] = the sum over the depth of scale * x * (weight - zero point), and bias[c] unless that is NULL, for the columns of panels [begin, end).
 * Neither where the range is cut nor which other rows are there changes the bits. For rows that were split. */
void rt_bit_panels_rows(const rt_bit_panels *of, const rt_bit_row *rows, int64_t count, const void *panels,
                        const float *bias, int64_t begin, int64_t end);
/* The same of one row as it is, in float, on any machine. */
void rt_bit_panels_floats(const rt_bit_panels *of, const float *x, const void *panels, const float *bias,
                          int64_t begin, int64_t end, float *y);

#endif
