/* SPDX-License-Identifier: Apache-2.0 */
/* allocator.c: what run-time allocators share: their table, the lock, statistics. */
#include "runtime/allocators/allocator.h"
#include <pthread.h>
#include <stdlib.h>
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

rt_allocator *rt_allocator_new(const char *name, const rt_allocator_options *options) {
    static const rt_allocator_options none = {0};
    const rt_allocator_kind *kind = find(name);
    rt_allocator *allocator = kind ? calloc(1, kind->bytes) : NULL;
    pthread_mutex_t *lock = allocator ? malloc(sizeof *lock) : NULL;
    if (!lock || pthread_mutex_init(lock, NULL) != 0) {
        free(lock);
        free(allocator);
        return NULL;
    }
    if (!options) options = &none;
    allocator->kind = kind;
    allocator->lock = lock;
    allocator->limit = options->limit ? options->limit : SIZE_MAX;
    if (kind->begin(allocator, options)) return allocator;
    rt_allocator_free(allocator);
    return NULL;
}

void rt_allocator_free(rt_allocator *allocator) {
    if (!allocator) return;
    allocator->kind->end(allocator);
    pthread_mutex_destroy(allocator->lock);
    free(allocator->lock);
    free(allocator);
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
