/* SPDX-License-Identifier: Apache-2.0 */
/* chunks.c: see chunks.h. */
#include "ir/base/chunks.h"

void base_chunks_init(base_chunks *chunks) {
    *chunks = (base_chunks){.set.root = BASE_NO_BLOCK, .spare = BASE_NO_BLOCK};
}

void base_chunks_attach(base_chunks *chunks, uint32_t *left, uint32_t *right) {
    chunks->set.sizes = chunks->sizes;
    chunks->set.ties = chunks->addresses;
    chunks->set.left = left;
    chunks->set.right = right;
}

size_t base_chunks_needed(const base_chunks *chunks) {
    return (size_t)chunks->count + (chunks->spare == BASE_NO_BLOCK);
}

uint32_t base_chunk_new(base_chunks *chunks, size_t address, size_t size, uint32_t previous, uint32_t next) {
    uint32_t chunk = chunks->spare;
    if (chunk != BASE_NO_BLOCK) chunks->spare = chunks->next[chunk];
    else chunk = chunks->count++;
    chunks->addresses[chunk] = address;
    chunks->sizes[chunk] = size;
    chunks->previous[chunk] = previous;
    chunks->next[chunk] = next;
    chunks->available[chunk] = false;
    if (previous != BASE_NO_BLOCK) chunks->next[previous] = chunk;
    if (next != BASE_NO_BLOCK) chunks->previous[next] = chunk;
    return chunk;
}

void base_chunk_drop(base_chunks *chunks, uint32_t chunk) {
    chunks->next[chunk] = chunks->spare;
    chunks->spare = chunk;
}

void base_chunk_put(base_chunks *chunks, uint32_t chunk) {
    base_block_set_add(&chunks->set, chunk);
    chunks->available[chunk] = true;
}

void base_chunk_take(base_chunks *chunks, uint32_t chunk) {
    base_block_set_remove(&chunks->set, chunk);
    chunks->available[chunk] = false;
}

uint32_t base_chunk_split(base_chunks *chunks, uint32_t chunk, size_t size) {
    const uint32_t rest = base_chunk_new(chunks, chunks->addresses[chunk] + size, chunks->sizes[chunk] - size,
                                         chunk, chunks->next[chunk]);
    chunks->sizes[chunk] = size;
    return rest;
}

/* Both are in no set. */
static void merge(base_chunks *chunks, uint32_t chunk, uint32_t after) {
    const uint32_t next = chunks->next[after];
    chunks->sizes[chunk] += chunks->sizes[after];
    chunks->next[chunk] = next;
    if (next != BASE_NO_BLOCK) chunks->previous[next] = chunk;
    base_chunk_drop(chunks, after);
}

uint32_t base_chunk_coalesce(base_chunks *chunks, uint32_t chunk) {
    const uint32_t before = chunks->previous[chunk], after = chunks->next[chunk];
    if (after != BASE_NO_BLOCK && chunks->available[after]) {
        base_chunk_take(chunks, after);
        merge(chunks, chunk, after);
    }
    if (before == BASE_NO_BLOCK || !chunks->available[before]) return chunk;
    base_chunk_take(chunks, before);
    merge(chunks, before, chunk);
    return before;
}
