/* SPDX-License-Identifier: Apache-2.0 */
/* allocations.h: counts the heap allocations of the whole process, oneDNN's and OpenMP's included. */
#ifndef SUPPORT_ALLOCATIONS_H
#define SUPPORT_ALLOCATIONS_H

#include <stdbool.h>
#include <stddef.h>

/* False under sanitizers, which have an allocator of their own: the count then is always 0. */
bool allocations_are_counted(void);
/* Calls of malloc, calloc, realloc, posix_memalign, aligned_alloc and memalign so far, on all threads. */
size_t allocations_count(void);
/* Allocation number `number` from now on (1: the next) fails, and so do all after it; 0: none any more. */
void allocations_fail_at(size_t number);
/* The same for that one alone. */
void allocations_fail_once(size_t number);
/* How many blocks were taken so far; what realloc makes larger counts once. */
size_t allocations_taken(void);

#endif
