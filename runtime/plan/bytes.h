/* SPDX-License-Identifier: Apache-2.0 */
/* bytes.h: a map from bytes to what was written there, for the verifier (runtime/plan/check.c).
 *
 * Every byte holds byte (its address - origin) of the value with some identity. All boundaries of writes are
 * known beforehand, so the map is a tree over the elementary intervals between them, each subtree holding one
 * tag where it was written as a whole: writing and comparing a range takes O(log n), whatever lies in it. A
 * journal of changed tags takes the map back to a mark.
 */
#ifndef OURO_PLAN_BYTES_H
#define OURO_PLAN_BYTES_H

#include "ir/base/base.h"

typedef struct plan_bytes_tag {
    uint64_t identity; /* 0: garbage */
    uint64_t origin;   /* address of the value's byte 0, modulo 2^64 */
} plan_bytes_tag;

typedef struct plan_bytes_change {
    size_t node;
    plan_bytes_tag tag;
} plan_bytes_change;

typedef struct plan_bytes {
    base_arena *arena;
    uint64_t *bounds; /* sorted; interval i is [bounds[i], bounds[i + 1]) */
    size_t bound_count;
    plan_bytes_tag *tags; /* of the tree's nodes: the root is 1, the children of n are 2n and 2n + 1 */
    plan_bytes_change *journal;
    size_t journal_count, journal_capacity;
    size_t marks; /* while there are any, changes are written down */
} plan_bytes;

/* A map of garbage whose ranges begin and end at the given bounds (sorted and made unique here; kept). */
bool plan_bytes_init(plan_bytes *bytes, base_arena *arena, uint64_t *bounds, size_t count);
/* The index of a bound; SIZE_MAX where it is none. */
size_t plan_bytes_bound(const plan_bytes *bytes, uint64_t address);

/* The intervals [first, last) get the tag. False when memory runs out. */
bool plan_bytes_write(plan_bytes *bytes, size_t first, size_t last, plan_bytes_tag tag);
/* The first interval of [first, last) with another tag, which goes to *found; `last` where there is none.
 * Garbage never matches. */
size_t plan_bytes_differ(const plan_bytes *bytes, size_t first, size_t last, plan_bytes_tag tag,
                         plan_bytes_tag *found);

/* The tag of one interval. */
plan_bytes_tag plan_bytes_at(const plan_bytes *bytes, size_t interval);

/* Marks nest: each must be taken back, the latest first. */
size_t plan_bytes_mark(plan_bytes *bytes);
void plan_bytes_take_back(plan_bytes *bytes, size_t mark);

#endif
