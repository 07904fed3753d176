/* SPDX-License-Identifier: Apache-2.0 */
/* weight_panels.h: constant weights in panels of RT_PANEL columns, in floats or in 16 bits, which are read one panel after another, from
 * front to back: one stream, which is what a processor reads fastest from the outer caches.
 *
 * Floats lie as rt_tiles wants them, and so does half precision. Integers of 16 bits have one scale for each column and each
 * RT_SCALE_DEPTH of the depth, by which the weight that is furthest from zero is 32,767: what a weight loses hangs on its
 * neighbours alone, not on the largest weight of the matrix. The scales of a part of a panel lie before it.
 */
#ifndef OURO_WEIGHT_PANELS_H
#define OURO_WEIGHT_PANELS_H

#include "runtime/kernels/portable/product.h"

enum {
    RT_SCALE_DEPTH = 64, /* weights of a column that share a scale */
    RT_PANEL_ROWS = 12   /* rows of the largest tile */
};

/* How weights are stored: OP_FLOAT, OP_FLOAT16, OP_BFLOAT16 or OP_INT16. */
bool rt_panels_may_store(int64_t dtype);
/* Bytes of `count` panels; false: too many. */
bool rt_panels_bytes(op_dtype stored, int64_t depth, int64_t count, size_t *bytes);

/* One panel of `columns` columns at most RT_PANEL; their elements lie `step` apart, and the depth side by side. `to` is zeroed. */
void rt_panel_store(op_dtype stored, const float *columns, int64_t step, int64_t count, int64_t depth,
                    void *to);

/* The same of numbers that have these 16 bits already. */
void rt_panel_copy(const uint16_t *columns, int64_t step, int64_t count, int64_t depth, void *to);

/* What `count` weights of one column lose when they are stored, and what they are, as sums of squares, are added to *lost and *whole.
 * False: they cannot be stored, as one of them has no finite number there. */
bool rt_panel_loss(op_dtype stored, const float *column, int64_t depth, double *lost, double *whole);

/* y[panel][RT_PANEL] = a times each of `count` panels, the last one first if it is to go `back`. Four sums an element, by the place of the
 * depth, which are then added from the halves down; products are rounded with their additions, where the machine can. */
void rt_panels_row(op_dtype stored, const float *a, const void *panels, int64_t depth, int64_t count,
                   bool back, float *y);
/* The same of several rows, each added up in the order of the depth. */
void rt_panels_rows(op_dtype stored, int64_t rows, const float *a, int64_t a_row, const void *panels,
                    int64_t depth, int64_t count, float *y, int64_t y_row);

#endif
