/* sorting.h: what planners share: sorting buffers, and the question whether two interfere. */
#ifndef OURO_PLANNERS_SORTING_H
#define OURO_PLANNERS_SORTING_H

#include "passes/planner.h"

typedef struct planner_key {
    size_t key;
    uint32_t buffer;
} planner_key;

/* Sorts by key; stable, in time proportional to the count and to the bytes in which keys differ. `room` is for as
 * many. */
void planner_sort_keys(planner_key *keys, size_t count, planner_key *room);

/* Sorts `order` (buffer numbers) by less; stable, O(n log n), no recursion on bad input. False when memory
 * runs out. */
typedef bool planner_less(const void *user, uint32_t a, uint32_t b);
bool planner_sort(uint32_t *order, size_t count, planner_less *less, const void *user, base_arena *arena);

/* Do two buffers interfere? */
bool planner_interfere(const planner_problem *problem, uint32_t a, uint32_t b);

#endif
