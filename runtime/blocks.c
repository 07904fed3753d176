/* SPDX-License-Identifier: Apache-2.0 */
/* blocks.c: memory for kernels that are prepared anew while a session runs. What one gives back the next one takes: after some
 * runs nothing more is taken. */
#include "runtime/executor.h"

struct rt_block {
    rt_block *next;
    size_t bytes;
};

static void *take(void *user, size_t bytes) {
    rt_blocks *blocks = user;
    for (rt_block **at = &blocks->kept; *at; at = &(*at)->next) {
        rt_block *block = *at;
        if (block->bytes < bytes || block->bytes / 4 > bytes) continue;
        *at = block->next;
        return block + 1;
    }
    rt_block *block =
        bytes <= SIZE_MAX - sizeof *block ? rt_take(blocks->source, sizeof *block + bytes) : NULL;
    if (block) {
        block->bytes = bytes;
        blocks->bytes += sizeof *block + bytes;
    }
    return block ? block + 1 : NULL;
}

static void give(void *user, void *memory) {
    rt_blocks *blocks = user;
    rt_block *block = (rt_block *)memory - 1;
    block->next = blocks->kept;
    blocks->kept = block;
}

void rt_blocks_init(rt_blocks *blocks, const base_allocator *source) {
    *blocks = (rt_blocks){.source = source, .allocator = {.allocate = take, .release = give, .user = blocks}};
}

void rt_blocks_free(rt_blocks *blocks) {
    while (blocks->kept) {
        rt_block *block = blocks->kept;
        blocks->kept = block->next;
        rt_give(blocks->source, block);
    }
}
