/* SPDX-License-Identifier: Apache-2.0 */
/* allocations.c: see allocations.h. A program's definition of malloc takes the place of the C
 * library's for all shared libraries too; the C library keeps its own under another name. */
#include "tests/support/allocations.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

static atomic_size_t count;
static atomic_size_t blocks;  /* taken */
static atomic_size_t fail_at; /* the count from which on allocations fail; 0: never */
static atomic_bool once;      /* at that count alone */

size_t allocations_count(void) {
    return atomic_load(&count);
}

size_t allocations_taken(void) {
    return atomic_load(&blocks);
}

void allocations_fail_once(size_t number) {
    allocations_fail_at(number);
    atomic_store(&once, true);
}

void allocations_fail_at(size_t number) {
    atomic_store(&once, false);
    atomic_store(&fail_at, number ? atomic_load(&count) + number : 0);
}

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

/* Libraries find these here only where they can be seen. */
#pragma GCC visibility push(default)

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t number, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void *memalign(size_t alignment, size_t bytes);

bool allocations_are_counted(void) {
    return true;
}

/* Counts one; false where it must fail. */
static bool count_one(void) {
    size_t number = atomic_fetch_add(&count, 1) + 1, limit = atomic_load(&fail_at);
    if (!limit || number < limit || (number > limit && atomic_load(&once))) return true;
    errno = ENOMEM;
    return false;
}

/* The block, which is one more. */
static void *taken(void *memory) {
    if (memory) atomic_fetch_add(&blocks, 1);
    return memory;
}

void *malloc(size_t bytes) {
    return count_one() ? taken(__libc_malloc(bytes)) : NULL;
}

void *calloc(size_t number, size_t bytes) {
    return count_one() ? taken(__libc_calloc(number, bytes)) : NULL;
}

void *realloc(void *memory, size_t bytes) {
    if (!count_one()) return NULL;
    void *block = __libc_realloc(memory, bytes);
    return memory ? block : taken(block);
}

void *memalign(size_t alignment, size_t bytes) {
    return count_one() ? taken(__libc_memalign(alignment, bytes)) : NULL;
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    return memalign(alignment, bytes);
}

/* With oneDNN the argument pool has one, which calls memalign. */
#ifndef OURO_ONEDNN
int posix_memalign(void **memory, size_t alignment, size_t bytes) {
    void *block = memalign(alignment, bytes);
    if (!block) return ENOMEM;
    *memory = block;
    return 0;
}
#endif

#pragma GCC visibility pop

#else

bool allocations_are_counted(void) {
    return false;
}

#endif
