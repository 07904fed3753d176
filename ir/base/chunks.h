/* SPDX-License-Identifier: Apache-2.0 */
/* chunks.h: best fit with coalescing: regions of memory that are cut into chunks, each of which knows its neighbours. What is done
 * with the memory is the caller's: the run-time allocator bfc hands it out, the planner bfc only counts addresses.
 *
 * Source: TensorFlow's BFCAllocator. Its 21 bins, ordered by size and then address, come to one ordered set.
 */
#ifndef OURO_CHUNKS_H
#define OURO_CHUNKS_H

#include "ir/base/block_set.h"

/* Chunks are numbers into arrays of the caller, which he keeps large enough. BASE_NO_BLOCK: no neighbour. */
typedef struct base_chunks {
    size_t *addresses, *sizes;
    uint32_t *previous, *next; /* neighbours in the region; of a number that is not used: the next of these */
    bool *available;           /* in the set */
    base_block_set set;        /* what can be handed out; its `left` and `right` are the caller's too */
    uint32_t count, spare;
} base_chunks;

/* Begins without chunks. The caller sets the arrays, whenever they move: base_chunks_attach(). */
void base_chunks_init(base_chunks *chunks);
/* The arrays of the set are those of the chunks, `left` and `right`. */
void base_chunks_attach(base_chunks *chunks, uint32_t *left, uint32_t *right);

/* How many entries the arrays need so that one more chunk can be made. */
size_t base_chunks_needed(const base_chunks *chunks);
/* A chunk between two neighbours, not in the set. The arrays are large enough. */
uint32_t base_chunk_new(base_chunks *chunks, size_t address, size_t size, uint32_t previous, uint32_t next);
/* Its number may be used again. It is not in the set, and nobody's neighbour. */
void base_chunk_drop(base_chunks *chunks, uint32_t chunk);

void base_chunk_put(base_chunks *chunks, uint32_t chunk);  /* into the set */
void base_chunk_take(base_chunks *chunks, uint32_t chunk); /* out of it */
/* Leaves `size` bytes to a chunk that is not in the set; gives the rest as a chunk, not in the set. The arrays are large enough. */
uint32_t base_chunk_split(base_chunks *chunks, uint32_t chunk, size_t size);
/* Merges a chunk that is not in the set with its neighbours that are; gives the result, which is not in the set. */
uint32_t base_chunk_coalesce(base_chunks *chunks, uint32_t chunk);

#endif
