/* SPDX-License-Identifier: Apache-2.0 */
/* allocations.c: counts what the program takes from the heap, for `allocations_per_run` of `ouro
 * bench`.
 *
 * The executable defines the allocation functions itself, which then stand before those of the C library for
 * everything that is linked to it, oneDNN included; each counts and passes on. Only in the executable, never
 * in the libraries. The sanitizers bring a heap of their own, and other C libraries have no __libc_malloc:
 * there the functions are left alone and the count is not known.
 */
#include "compiler/command/command.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)

int64_t command_allocation_count(void) {
    return -1;
}

#else
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

/* The one mutable global of the command: an interposed malloc has no argument to carry it. */
static _Atomic int64_t taken;

static void count_one(void) {
    atomic_fetch_add_explicit(&taken, 1, memory_order_relaxed);
}

int64_t command_allocation_count(void) {
    return atomic_load_explicit(&taken, memory_order_relaxed);
}

/* Libraries find these here only where they can be seen. */
#pragma GCC visibility push(default)

void *malloc(size_t bytes) {
    count_one();
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t size) {
    count_one();
    return __libc_calloc(count, size);
}

void *realloc(void *block, size_t bytes) {
    count_one();
    return __libc_realloc(block, bytes);
}

void *memalign(size_t alignment, size_t bytes) {
    count_one();
    return __libc_memalign(alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    count_one();
    return __libc_memalign(alignment, bytes);
}

/* With oneDNN the argument pool has one, which calls memalign. */
#ifndef OURO_ONEDNN
int posix_memalign(void **block, size_t alignment, size_t bytes) {
    if (alignment % sizeof(void *) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0)
        return EINVAL;
    count_one();
    void *made = __libc_memalign(alignment, bytes);
    if (!made) return ENOMEM;
    *block = made;
    return 0;
}
#endif

#pragma GCC visibility pop

#endif
