/* SPDX-License-Identifier: Apache-2.0 */
/* allocator.c: what run-time allocators share: their table, the lock, statistics. */
#include "runtime/allocators/allocator.h"
#include <pthread.h>
#include <string.h>

static const rt_allocator_kind *const kinds[] = {&rt_allocator_bfc, &rt_allocator_pool};

static const rt_allocator_kind *find(const char *name) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i]->name, name) == 0) return kinds[i];
    }
    return NULL;
}

bool rt_allocator_exists(const char *name) {
    return find(name) != NULL;
}

/* The lock stands after the structure of the kind. */
static size_t lock_offset(const rt_allocator_kind *kind) {
    return (kind->bytes + RT_ALLOCATOR_ALIGNMENT - 1) / RT_ALLOCATOR_ALIGNMENT * RT_ALLOCATOR_ALIGNMENT;
}

rt_allocator *rt_allocator_new(const char *name, const rt_allocator_options *options) {
    static const rt_allocator_options none = {0};
    const rt_allocator_kind *kind = find(name);
    if (!options) options = &none;
    const base_allocator source = options->source ? *options->source : rt_heap;
    const size_t bytes = kind ? lock_offset(kind) + sizeof(pthread_mutex_t) : 0;
    rt_allocator *allocator = kind ? source.allocate(source.user, bytes) : NULL;
    if (!allocator) return NULL;
    memset(allocator, 0, bytes);
    allocator->kind = kind;
    allocator->source = source;
    allocator->lock = (char *)allocator + lock_offset(kind);
    allocator->limit = options->limit ? options->limit : SIZE_MAX;
    if (pthread_mutex_init(allocator->lock, NULL) != 0) {
        source.release(source.user, allocator);
        return NULL;
    }
    if (kind->begin(allocator, options)) return allocator;
    rt_allocator_free(allocator);
    return NULL;
}

void rt_allocator_free(rt_allocator *allocator) {
    if (!allocator) return;
    const base_allocator source = allocator->source;
    allocator->kind->end(allocator);
    pthread_mutex_destroy(allocator->lock);
    source.release(source.user, allocator);
}

void *rt_allocator_take_before(rt_allocator *allocator, size_t bytes, uint64_t time) {
    if (bytes == 0 || bytes > SIZE_MAX / 4) return NULL;
    pthread_mutex_lock(allocator->lock);
    void *data = allocator->kind->take(allocator, bytes, time);
    if (data) allocator->statistics.taken++;
    if (data && bytes > allocator->statistics.largest) allocator->statistics.largest = bytes;
    pthread_mutex_unlock(allocator->lock);
    return data;
}

void *rt_allocator_take(rt_allocator *allocator, size_t bytes) {
    return rt_allocator_take_before(allocator, bytes, 0);
}

void rt_allocator_give_at(rt_allocator *allocator, void *data, uint64_t time) {
    if (!data) return;
    pthread_mutex_lock(allocator->lock);
    allocator->kind->give(allocator, data, time);
    pthread_mutex_unlock(allocator->lock);
}

void rt_allocator_give(rt_allocator *allocator, void *data) {
    rt_allocator_give_at(allocator, data, 0);
}

size_t rt_allocator_capacity(rt_allocator *allocator, const void *data) {
    pthread_mutex_lock(allocator->lock);
    size_t capacity = allocator->kind->capacity(allocator, data);
    pthread_mutex_unlock(allocator->lock);
    return capacity;
}

void rt_allocator_advance(rt_allocator *allocator, uint64_t time) {
    pthread_mutex_lock(allocator->lock);
    allocator->kind->advance(allocator, time);
    pthread_mutex_unlock(allocator->lock);
}

rt_allocator_statistics rt_allocator_look(rt_allocator *allocator) {
    pthread_mutex_lock(allocator->lock);
    rt_allocator_statistics statistics = allocator->statistics;
    pthread_mutex_unlock(allocator->lock);
    return statistics;
}
