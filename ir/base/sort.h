/* SPDX-License-Identifier: Apache-2.0 */
/* sort.h: sorting that takes no memory. qsort of some C libraries allocates, which a program that gives the runtime all its memory
 * must not find. */
#ifndef OURO_BASE_SORT_H
#define OURO_BASE_SORT_H

#include <stddef.h>

/* Sorts `count` items of `size` bytes as `compare` says, which is qsort's: heap sort, Williams 1964. Equal items end in any order,
 * the same each time. */
void base_sort(void *items, size_t count, size_t size, int (*compare)(const void *, const void *));

#endif
