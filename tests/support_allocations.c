/* support_allocations.c: see support_allocations.h. A program's definition of malloc takes the place of the C
 * library's for all shared libraries too; the C library keeps its own under another name. */
#include "tests/support_allocations.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

static atomic_size_t count;

size_t allocations_count(void) {
    return atomic_load(&count);
}

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t number, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void *memalign(size_t alignment, size_t bytes);

bool allocations_are_counted(void) {
    return true;
}

void *malloc(size_t bytes) {
    atomic_fetch_add(&count, 1);
    return __libc_malloc(bytes);
}

void *calloc(size_t number, size_t bytes) {
    atomic_fetch_add(&count, 1);
    return __libc_calloc(number, bytes);
}

void *realloc(void *memory, size_t bytes) {
    atomic_fetch_add(&count, 1);
    return __libc_realloc(memory, bytes);
}

void *memalign(size_t alignment, size_t bytes) {
    atomic_fetch_add(&count, 1);
    return __libc_memalign(alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    return memalign(alignment, bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes) {
    void *block = memalign(alignment, bytes);
    if (!block) return ENOMEM;
    *memory = block;
    return 0;
}

#else

bool allocations_are_counted(void) {
    return false;
}

#endif
