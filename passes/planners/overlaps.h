/* overlaps.h: what planners share: which placed buffers does a buffer interfere with?
 *
 * With live ranges, the buffers stand sorted by their first step under a tree of the largest last step among
 * the placed ones: the placed buffers that overlap a range are found in O(log n) each, and no matrix is
 * needed. With listed interference the lists are walked.
 */
#ifndef OURO_PLANNERS_OVERLAPS_H
#define OURO_PLANNERS_OVERLAPS_H

#include "passes/planner.h"

enum { PLANNER_BUCKET = 32 }; /* neighbours in the order that are one leaf of the tree */

typedef struct planner_key {
    size_t offset;
    uint32_t buffer;
} planner_key;

typedef struct planner_overlaps {
    const planner_problem *problem;
    uint32_t *order;    /* buffers by first step, then id */
    uint32_t *position; /* of a buffer in order */
    int64_t *first,
        *last;         /* by position: the first step; the last one of those placed, INT64_MIN of others */
    int64_t *latest;   /* the tree over buckets: the largest of last */
    size_t leaves;     /* a power of two */
    planner_key *keys; /* room for sorting */
    bool *placed;      /* by buffer */
    uint32_t *found;   /* room for the answer of planner_overlaps_find */
} planner_overlaps;

/* An empty set of placed buffers. False when memory runs out. */
bool planner_overlaps_init(planner_overlaps *overlaps, const planner_problem *problem, base_arena *arena);

/* Marks a buffer as placed. Buffers of no bytes are never an obstacle: do not add them. */
void planner_overlaps_add(planner_overlaps *overlaps, uint32_t buffer);

/* Takes the mark back. */
void planner_overlaps_remove(planner_overlaps *overlaps, uint32_t buffer);

/* The placed buffers that interfere with `buffer` (itself left out) into overlaps->found; how many. */
size_t planner_overlaps_find(planner_overlaps *overlaps, uint32_t buffer);

/* The same, sorted by offset, then id. */
size_t planner_overlaps_sorted(planner_overlaps *overlaps, uint32_t buffer, const size_t *offsets);

/* Do two buffers interfere? */
bool planner_interfere(const planner_problem *problem, uint32_t a, uint32_t b);

/* Sorts `order` (buffer numbers) by less; stable, O(n log n), no recursion on bad input. False when memory
 * runs out. */
typedef bool planner_less(const void *user, uint32_t a, uint32_t b);
bool planner_sort(uint32_t *order, size_t count, planner_less *less, const void *user, base_arena *arena);

/* Sorts `keys` by their offsets (any number does); stable, in time proportional to the count and to the bytes in which
 * the numbers differ. `room` is for as many keys. */
void planner_sort_keys(planner_key *keys, size_t count, planner_key *room);

#endif
