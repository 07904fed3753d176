/* SPDX-License-Identifier: Apache-2.0 */
/* system.c: memory of the system for run-time allocators, limited and counted. */
#include "runtime/allocators/allocator.h"
#include "ir/base/pages.h"
#include <stdlib.h>

static void *heap_allocate(void *user, size_t bytes) {
    size_t whole;
    const size_t alignment = base_pages_alignment(bytes, RT_ALLOCATOR_ALIGNMENT);
    (void)user;
    if (!base_size_align(bytes ? bytes : 1, alignment, &whole)) return NULL;
    void *block = aligned_alloc(alignment, whole);
    if (block) base_pages_request(block, bytes);
    return block;
}

static void heap_release(void *user, void *block) {
    (void)user;
    free(block);
}

const base_allocator rt_heap = {heap_allocate, heap_release, NULL};

void *rt_allocator_list_new(rt_allocator *allocator, size_t bytes) {
    return allocator->source.allocate(allocator->source.user, bytes);
}

void rt_allocator_list_free(rt_allocator *allocator, void *list) {
    if (list) allocator->source.release(allocator->source.user, list);
}

void *rt_allocator_system_take(rt_allocator *allocator, size_t bytes) {
    rt_allocator_statistics *statistics = &allocator->statistics;
    if (bytes > allocator->limit - statistics->reserved) return NULL;
    void *data = allocator->source.allocate(allocator->source.user, bytes);
    if (!data) return NULL;
    statistics->from_system++;
    statistics->reserved += bytes;
    if (statistics->reserved > statistics->most_reserved) statistics->most_reserved = statistics->reserved;
    return data;
}

void rt_allocator_system_give(rt_allocator *allocator, void *data, size_t bytes) {
    allocator->statistics.reserved -= bytes;
    allocator->source.release(allocator->source.user, data);
}

void rt_allocator_count(rt_allocator *allocator, size_t bytes, bool taken) {
    rt_allocator_statistics *statistics = &allocator->statistics;
    if (!taken) statistics->in_use -= bytes;
    else if ((statistics->in_use += bytes) > statistics->most_in_use)
        statistics->most_in_use = statistics->in_use;
}
