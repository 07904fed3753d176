/* SPDX-License-Identifier: Apache-2.0 */
/* product_blocks.h: matrix products in float16, bfloat16 and float64, a block at a time. */
#ifndef OURO_PRODUCT_BLOCKS_H
#define OURO_PRODUCT_BLOCKS_H

#include "runtime/kernels/portable/product.h"

/* The offset of element `index` (counted in the dims) under the strides. */
int64_t rt_product_offset(int64_t index, int32_t rank, const int64_t *dims, const int64_t *strides);

/* How many columns of a product a block may have. */
int64_t rt_product_block_columns(const rt_product *product);

/* A block of a product: all of its rows or some, and some of its columns. */
typedef struct rt_product_block {
    const rt_product *product;
    const void *a, *b, *addend; /* of the whole product */
    void *y, *scratch;          /* rt_product_block_bytes(), aligned to RT_ALIGNMENT */
    int64_t batch, row, rows, column, columns;
} rt_product_block;
size_t rt_product_block_bytes(const rt_product *product);
void rt_product_block_run(const rt_product_block *block);

#endif
