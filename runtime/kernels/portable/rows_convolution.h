/* SPDX-License-Identifier: Apache-2.0 */
/* rows_convolution.h: which convolutions ouro.RowsConv can stand for, and how its weights lie. */
#ifndef OURO_ROWS_CONVOLUTION_H
#define OURO_ROWS_CONVOLUTION_H

#include "ir/operators/op.h"

/* The Conv, of known shapes, is one that RowsConv makes some rows of: of one image of few channels in float, row-major, in one group, with an
 * activation that only limits. */
bool rt_rows_convolution_stands_for(const op_call *conv);
/* Bytes of the packed weights; `weights` is [filters, channels, rows, columns]. */
size_t rt_rows_convolution_packed_bytes(const op_shape *weights);
/* Row-major weights become [channel][row][column][filter]. */
void rt_rows_convolution_pack(const op_shape *weights, const float *plain, float *packed);

#endif
