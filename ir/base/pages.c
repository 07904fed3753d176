/* SPDX-License-Identifier: Apache-2.0 */
/* pages.c: implements pages.h. */
#include "ir/base/pages.h"

#include <stdint.h>
#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

size_t base_pages_alignment(size_t bytes, size_t alignment) {
    return bytes >= 2 * (size_t)BASE_LARGE_PAGE ? (size_t)BASE_LARGE_PAGE : alignment;
}

void base_pages_request(void *block, size_t bytes) {
#ifdef MADV_HUGEPAGE
    const size_t ahead = (BASE_LARGE_PAGE - (uintptr_t)block % BASE_LARGE_PAGE) % BASE_LARGE_PAGE;
    if (bytes < ahead + BASE_LARGE_PAGE) return;
    /* A system without large pages says no, which changes nothing. */
    (void)madvise((char *)block + ahead, (bytes - ahead) / BASE_LARGE_PAGE * BASE_LARGE_PAGE, MADV_HUGEPAGE);
#else
    (void)block;
    (void)bytes;
#endif
}

void base_pages_leave(const void *mapped, size_t bytes) {
#ifdef __linux__
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), ahead = (page - (uintptr_t)mapped % page) % page;
    if (bytes < ahead + page) return;
    /* Of a private mapping that nobody wrote to, this loses nothing. */
    (void)madvise((char *)(uintptr_t)mapped + ahead, (bytes - ahead) / page * page, MADV_DONTNEED);
#else
    (void)mapped;
    (void)bytes;
#endif
}
