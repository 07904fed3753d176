/* SPDX-License-Identifier: Apache-2.0 */
/* system.c: memory of the system for run-time allocators, limited and counted. */
#include "runtime/allocators/allocator.h"
#include <stdlib.h>

void *rt_allocator_system_take(rt_allocator *allocator, size_t bytes) {
    rt_allocator_statistics *statistics = &allocator->statistics;
    if (bytes > allocator->limit - statistics->reserved) return NULL;
    void *data = aligned_alloc(RT_ALLOCATOR_ALIGNMENT, bytes);
    if (!data) return NULL;
    statistics->from_system++;
    statistics->reserved += bytes;
    if (statistics->reserved > statistics->most_reserved) statistics->most_reserved = statistics->reserved;
    return data;
}

void rt_allocator_system_give(rt_allocator *allocator, void *data, size_t bytes) {
    allocator->statistics.reserved -= bytes;
    free(data);
}

void rt_allocator_count(rt_allocator *allocator, size_t bytes, bool taken) {
    rt_allocator_statistics *statistics = &allocator->statistics;
    if (!taken) statistics->in_use -= bytes;
    else if ((statistics->in_use += bytes) > statistics->most_in_use)
        statistics->most_in_use = statistics->in_use;
}
