/* SPDX-License-Identifier: Apache-2.0 */
/* allocator.h: run-time allocators: memory for what has no size before a run. Two kinds with one interface, both after
 * TensorFlow's (docs/ALLOCATION.md names the descriptions):
 *
 *   bfc    best fit with coalescing (runtime/allocators/bfc.c): regions of memory that double, cut into chunks and merged again
 *   pool   freed blocks kept under their size (runtime/allocators/pool.c), the one used least recently given back when it is full
 *
 * Thread-safe: any number of threads may take and give at once. All memory goes back to the system with the allocator.
 */
#ifndef OURO_ALLOCATOR_H
#define OURO_ALLOCATOR_H

#include "ir/base/base.h"

typedef struct rt_allocator rt_allocator;

enum { RT_ALLOCATOR_ALIGNMENT = 64 };

/* The system's heap, for blocks aligned to RT_ALLOCATOR_ALIGNMENT. */
extern const base_allocator rt_heap;

typedef struct rt_allocator_options {
    const base_allocator
        *source;  /* of all memory, in blocks aligned to RT_ALLOCATOR_ALIGNMENT; copied; NULL: rt_heap */
    size_t limit; /* bytes taken from the system at most; 0: no limit */
    size_t first_region; /* bfc: bytes of the first region; 0: 64 KiB */
    size_t kept; /* pool: freed blocks that are kept at most; 0: 100, and more where that proves too few */
} rt_allocator_options;

typedef struct rt_allocator_statistics {
    uint64_t taken;                 /* allocations so far */
    uint64_t from_system;           /* blocks or regions that the system gave for them */
    size_t in_use, most_in_use;     /* bytes handed out, as rounded up */
    size_t reserved, most_reserved; /* bytes held from the system */
    size_t largest;                 /* allocation, in bytes */
} rt_allocator_statistics;

/* By name ("bfc", "pool"); options may be NULL. NULL where there is no such allocator, or memory runs out. */
rt_allocator *rt_allocator_new(const char *name, const rt_allocator_options *options);
bool rt_allocator_exists(const char *name);
void rt_allocator_free(rt_allocator *allocator); /* NULL is allowed */

/* At least `bytes` bytes, aligned to RT_ALLOCATOR_ALIGNMENT, not zeroed; NULL where bytes is 0 or memory runs out. */
void *rt_allocator_take(rt_allocator *allocator, size_t bytes);
void rt_allocator_give(rt_allocator *allocator, void *data); /* NULL is allowed */
/* Bytes that may be used of what was taken: what was asked for, or more. */
size_t rt_allocator_capacity(rt_allocator *allocator, const void *data);
rt_allocator_statistics rt_allocator_look(rt_allocator *allocator);

/* Gives memory back that others may still read until the frontier has come to `time` (1, 2, ...): until then it is
 * taken only by rt_allocator_take_before with a time that is not earlier, or when there is no other. bfc; a pool
 * gives it back at once. */
void rt_allocator_give_at(rt_allocator *allocator, void *data, uint64_t time);
/* Takes memory that was given back at no later time; 0: memory that is safe. */
void *rt_allocator_take_before(rt_allocator *allocator, size_t bytes, uint64_t time);
/* What was given at this time or before is safe from now on. */
void rt_allocator_advance(rt_allocator *allocator, uint64_t time);

/* ---- for the files that implement it ------------------------------------------------------------------- */

typedef struct rt_allocator_kind {
    const char *name;
    size_t bytes; /* of the allocator's own structure, which begins with an rt_allocator */
    bool (*begin)(rt_allocator *allocator, const rt_allocator_options *options);
    void (*end)(rt_allocator *allocator);
    /* The rest is called with the lock held. */
    void *(*take)(rt_allocator *allocator, size_t bytes, uint64_t before);
    void (*give)(rt_allocator *allocator, void *data, uint64_t time);
    size_t (*capacity)(rt_allocator *allocator, const void *data);
    void (*advance)(rt_allocator *allocator, uint64_t time);
} rt_allocator_kind;

struct rt_allocator {
    const rt_allocator_kind *kind;
    base_allocator source; /* of all its memory */
    void *lock;
    size_t limit;
    rt_allocator_statistics statistics;
};

extern const rt_allocator_kind rt_allocator_bfc, rt_allocator_pool;

/* Memory for lists of its own, not counted; NULL where there is none. */
void *rt_allocator_list_new(rt_allocator *allocator, size_t bytes);
void rt_allocator_list_free(rt_allocator *allocator, void *list); /* NULL is allowed */
/* Blocks of the system, counted and kept within the limit; NULL where they are not. */
void *rt_allocator_system_take(rt_allocator *allocator, size_t bytes);
void rt_allocator_system_give(rt_allocator *allocator, void *data, size_t bytes);
/* Counts bytes that are handed out, or come back. */
void rt_allocator_count(rt_allocator *allocator, size_t bytes, bool taken);

#endif
