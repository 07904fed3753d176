/* SPDX-License-Identifier: Apache-2.0 */
/* arena.c: memory that is freed as a whole. See base.h. */
#include "ir/base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_ALIGNMENT = 16 };
/* With OURO_ARENA_PIECES each piece is a block of its own: sanitizers see where one is left, and tests can fail each of them. */
#ifdef OURO_ARENA_PIECES
enum { ARENA_FIRST_BLOCK = 0, ARENA_LARGEST_BLOCK = 0 };
#else
enum { ARENA_FIRST_BLOCK = 16 << 10, ARENA_LARGEST_BLOCK = 4 << 20 };
#endif

struct base_block {
    base_block *next;
    char *start; /* aligned */
    size_t size; /* usable bytes from start */
};

static void *heap_allocate(void *user, size_t bytes) {
    (void)user;
    return malloc(bytes);
}

static void heap_release(void *user, void *block) {
    (void)user;
    free(block);
}

const base_allocator base_allocator_heap = {heap_allocate, heap_release, NULL};

static void *watched_allocate(void *user, size_t bytes) {
    base_watched_allocator *watched = user;
    void *block = watched->inner->allocate(watched->inner->user, bytes);
    if (!block) watched->failed = true;
    return block;
}

static void watched_release(void *user, void *block) {
    const base_watched_allocator *watched = user;
    watched->inner->release(watched->inner->user, block);
}

void base_watch_allocator(base_watched_allocator *watched, const base_allocator *inner) {
    watched->allocator = (base_allocator){watched_allocate, watched_release, watched};
    watched->inner = inner ? inner : &base_allocator_heap;
    watched->failed = false;
}

void base_arena_init(base_arena *arena, const base_allocator *allocator) {
    arena->allocator = allocator ? allocator : &base_allocator_heap;
    arena->blocks = NULL;
    arena->used = 0;
    arena->reserved = 0;
}

void base_arena_free(base_arena *arena) {
    base_block *block = arena->blocks;
    while (block) {
        base_block *next = block->next;
        arena->allocator->release(arena->allocator->user, block);
        block = next;
    }
    base_arena_init(arena, arena->allocator);
}

static base_block *new_block(base_arena *arena, size_t size) {
    if (!arena->allocator) arena->allocator = &base_allocator_heap;
    size_t bytes;
    if (!base_size_add(size, sizeof(base_block) + ARENA_ALIGNMENT, &bytes)) return NULL;
    base_block *block = arena->allocator->allocate(arena->allocator->user, bytes);
    if (!block) return NULL;
    size_t misalignment = (uintptr_t)(block + 1) % ARENA_ALIGNMENT;
    block->start = (char *)(block + 1) + (misalignment ? ARENA_ALIGNMENT - misalignment : 0);
    block->size = size;
    arena->reserved += bytes;
    return block;
}

void *base_arena_alloc(base_arena *arena, size_t count, size_t size) {
    size_t bytes;
    if (!base_size_multiply(count, size, &bytes)) return NULL;
    if (!base_size_align(bytes ? bytes : 1, ARENA_ALIGNMENT, &bytes)) return NULL;

    base_block *block = arena->blocks;
    if (!block || block->size - arena->used < bytes) {
        size_t usual = arena->reserved <= ARENA_FIRST_BLOCK ? ARENA_FIRST_BLOCK : arena->reserved;
        if (usual > ARENA_LARGEST_BLOCK) usual = ARENA_LARGEST_BLOCK;
        if (block && bytes > usual / 4) {
            /* A large piece gets a block of its own, after the newest, so that the rest of that stays
             * usable. */
            base_block *large = new_block(arena, bytes);
            if (!large) return NULL;
            large->next = block->next;
            block->next = large;
            return memset(large->start, 0, bytes);
        }
        block = new_block(arena, bytes > usual ? bytes : usual);
        if (!block) return NULL;
        block->next = arena->blocks;
        arena->blocks = block;
        arena->used = 0;
    }
    void *result = block->start + arena->used;
    arena->used += bytes;
    return memset(result, 0, bytes);
}

char *base_arena_text(base_arena *arena, const char *text, size_t length) {
    size_t bytes;
    if (!base_size_add(length, 1, &bytes)) return NULL;
    char *copy = base_arena_alloc(arena, bytes, 1);
    if (copy && length) memcpy(copy, text, length);
    return copy;
}

char *base_arena_format(base_arena *arena, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0) return NULL;
    char *text = base_arena_alloc(arena, (size_t)length + 1, 1);
    if (!text) return NULL;
    va_start(arguments, format);
    vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    return text;
}

void *base_arena_grow(base_arena *arena, void *array, size_t *capacity, size_t needed, size_t size) {
    if (array && needed <= *capacity) return array;
    size_t larger;
    if (!base_size_multiply(*capacity, 2, &larger)) return NULL;
    if (larger < needed) larger = needed;
    if (larger < 8) larger = 8;
    char *moved = base_arena_alloc(arena, larger, size);
    if (!moved) return NULL;
    if (array && *capacity) memcpy(moved, array, *capacity * size);
    *capacity = larger;
    return moved;
}
