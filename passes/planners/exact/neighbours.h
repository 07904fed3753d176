/* SPDX-License-Identifier: Apache-2.0 */
/* neighbours.h: who interferes with a buffer, and where these lie, in time and memory that the number of buffers does not
 * multiply.
 *
 * Buffers stand in the order in which they begin. Those that interfere with one are the run of all that begin while it is
 * live, and some of those that began before. The latter are found through checkpoints: lists of what is live at some steps,
 * together a few times as long as the problem.
 */
#ifndef OURO_PLANNERS_NEIGHBOURS_H
#define OURO_PLANNERS_NEIGHBOURS_H

#include "passes/planners/base/planner.h"
#include "passes/planners/base/budget.h"

enum { NEIGHBOURS_OF_WORK = 128 }; /* so many are a unit of work more (budget.h) */

/* A buffer as others meet it. */
typedef struct neighbour {
    size_t low, high; /* its addresses; high is 0 while it is not placed */
    uint64_t cost;    /* of taking it out (ejection.h); 0: it is pinned */
} neighbour;

/* An address at which one of them begins or ends, with what the user of a sorted row needs beside it. */
typedef struct neighbour_border {
    size_t address;
    uint64_t with;
} neighbour_border;

/* All arrays are in the order in which buffers begin; those without a size are left out. */
typedef struct neighbours {
    const planner_problem *problem;
    uint32_t count;
    uint32_t *numbers; /* in the problem */
    size_t *sizes, *masks;
    neighbour *items;
    /* Interfering with b are, but for b: [groups[b], ends[b]), which begin while b is live; and of those that began before
     * the ones that end after groups[b]: all that the checkpoint lists, and [since[b], groups[b]). */
    uint32_t *groups, *ends, *checkpoints, *since;
    uint32_t *lives, *life_starts; /* of checkpoint c: lives[life_starts[c] .. life_starts[c + 1]) */
    /* The ones of the last question. */
    neighbour *near;
    uint32_t *near_numbers;
    neighbour_border *lows, *highs, *scratch;
} neighbours;

/* For a problem whose live ranges decide interference; no buffer is placed. All memory is in `arena`, some hundred bytes a
 * buffer. False when it runs out. */
bool exact_neighbours_init(neighbours *n, const planner_problem *problem, base_arena *arena);

/* Lists the placed buffers that interfere with b, which is not placed: n->near and n->near_numbers. Gives their number. */
uint32_t exact_neighbours_list(neighbours *n, uint32_t b);

/* Sorts borders by address; `scratch` is for as many. */
void exact_neighbours_sort(neighbour_border *borders, neighbour_border *scratch, uint32_t count);

/* Where a buffer goes in greedy planning. */
typedef enum neighbours_gap { NEIGHBOURS_LOWEST, NEIGHBOURS_SMALLEST } neighbours_gap;

/* Places all buffers in an order, each into the lowest free range or the smallest, and the pinned ones before all. Gives
 * the height; SIZE_MAX where it would be above `limit`, or where the budget is over, which ends it at once. */
size_t exact_neighbours_place_all(neighbours *n, const uint32_t *order, neighbours_gap gap, size_t limit,
                                  planner_budget *budget);

#endif
