/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c: where plans and sessions take their memory from: the heap, or an allocator of the caller. */
#include "runtime/executor.h"

void *rt_take(const base_allocator *source, size_t bytes) {
    return source->allocate(source->user, bytes ? bytes : 1);
}

void rt_give(const base_allocator *source, void *memory) {
    if (memory) source->release(source->user, memory);
}

base_allocator rt_source(const ouro_allocator *given, const base_allocator *otherwise) {
    if (given) return (base_allocator){given->allocate, given->release, given->user};
    return otherwise ? *otherwise : rt_heap;
}
