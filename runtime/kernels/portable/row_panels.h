/* SPDX-License-Identifier: Apache-2.0 */
/* row_panels.h: what the windows of a one-dimensional convolution see of rows, as panels of a matrix product. */
#ifndef OURO_ROW_PANELS_H
#define OURO_ROW_PANELS_H

#include "runtime/kernels/portable/product.h"

/* Rows of floats, one a channel, seen without strides through windows of `taps` elements; `before`: padding. */
typedef struct rt_seen_rows {
    int64_t width, before, taps, dilation;
} rt_seen_rows;

/* What `count` positions see of a row fits into the copy that is made of it. */
bool rt_row_panels_fit(const rt_seen_rows *rows, int64_t count);
/* Lines `from` to from + depth of the matrix, whose line k is what window element k % taps sees of channel k / taps, at `count`
 * positions from `position` on: panels[count, in whole panels][depth][RT_PANEL]. Columns after the last position hold anything. */
void rt_row_panels(const rt_seen_rows *rows, const float *x, int64_t from, int64_t depth, int64_t position,
                   int64_t count, float *panels);

#endif
