/* SPDX-License-Identifier: Apache-2.0 */
/* reorder.h: tensors, or some rows of them, put in another layout. */
#ifndef OURO_REORDER_H
#define OURO_REORDER_H

#include "ir/operators/op.h"

/* A layout as N, outer channel blocks, positions, inner channels: row-major has blocks of one channel; nhwc one block of all
 * channels. */
typedef struct rt_arrangement {
    int64_t block, blocks;
    int64_t plane; /* positions from one block to the next: more than are moved where these are some rows of a larger image */
} rt_arrangement;

typedef struct rt_reorder {
    size_t element; /* bytes: 1, 2, 4, 8 or 16 */
    int64_t batch, channels;
    int64_t size; /* positions that are moved, which lie one after another in both */
    rt_arrangement from, to;
} rt_reorder;

/* All of a tensor of type `from`, into one of the same shape. */
void rt_reorder_init(const op_type *from, const op_type *to, rt_reorder *reorder);
/* Blocks of `from` and of `to` differ; x and y do not overlap. Runs on one thread where there is little to do. */
void rt_reorder_run(const rt_reorder *reorder, int threads, const void *x, void *y);

#endif
