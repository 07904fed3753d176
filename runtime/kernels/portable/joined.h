/* SPDX-License-Identifier: Apache-2.0 */
/* joined.h: which operators JoinedConv and JoinedMaxPool can stand for: their rows come from two tensors. */
#ifndef OURO_JOINED_H
#define OURO_JOINED_H

#include "ir/operators/op.h"

/* The Conv, of known shapes, is one of each channel by itself, of one row-major image in float, with a window that stencil_rows.c has and an
 * activation that only limits. */
bool rt_joined_convolution_stands_for(const op_call *conv);
/* The MaxPool, of known shapes, is one of an image in float whose channels lie in blocks. */
bool rt_joined_pool_stands_for(const op_call *pool);

#endif
