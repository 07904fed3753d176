/* SPDX-License-Identifier: Apache-2.0 */
/* block_set.h: free blocks of memory by size, for whoever looks for the best fit: the run-time allocators, and the planners
 * that replay a schedule as these would. */
#ifndef OURO_BLOCK_SET_H
#define OURO_BLOCK_SET_H

#include "ir/base/base.h"

#define BASE_NO_BLOCK UINT32_MAX

/* A set of blocks ordered by (size, tie, number): a treap (Seidel, Aragon 1996) whose priorities are a hash of
 * the number, so that its shape, too, is the same in every run. Blocks are numbers into arrays that the owner keeps large enough.
 */
typedef struct base_block_set {
    uint32_t root;
    const size_t *sizes; /* of a block; must not change while it is in the set */
    const size_t *ties;  /* likewise; NULL: none */
    uint32_t *left, *right;
} base_block_set;

void base_block_set_add(base_block_set *set, uint32_t block);
void base_block_set_remove(base_block_set *set, uint32_t block);
/* The first block, in order, of at least `size`; BASE_NO_BLOCK: there is none. */
uint32_t base_block_set_find(const base_block_set *set, size_t size);
/* The last block in order: the largest. */
uint32_t base_block_set_largest(const base_block_set *set);

/* The rule of TensorFlow's BFCAllocator: a block of `have` bytes that serves a request for `wanted` is split where it is at least
 * twice as large, or 128 MiB larger. */
static inline bool base_block_is_split(size_t have, size_t wanted) {
    const size_t excess = have - wanted;
    return excess >= wanted || excess >= (size_t)128 << 20;
}

#endif
