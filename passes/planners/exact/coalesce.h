/* SPDX-License-Identifier: Apache-2.0 */
/* coalesce.h: solutions in which a buffer takes the very place of another one that ends where it begins.
 *
 * Where memory is full, sizes that end at a step are often those that begin there: an elementwise operator, a copy into
 * another type, a layer like the one before. Where one of the ending buffers is as large as one of the beginning ones,
 * the two are taken for one buffer here, with both lives; and buffers of the same life for one on which they are stacked.
 * There are fewer buffers to place then, and no free range is left in pieces that its next owners do not fit into. A solution
 * for these is one for all. That there is none proves nothing. So there are two ways: all buffers that can take a place
 * do, and the search is for these as long as it lasts; or it is drawn by chance, anew after some time, how many do, now
 * and then with stacks.
 *
 * The sweep (sweep.h) searches for the solutions.
 *
 * Source: our own; joining live ranges that meet but do not interfere is what register allocators call coalescing
 * (Chaitin et al., "Register allocation via coloring", 1981).
 */
#ifndef OURO_PLANNERS_COALESCE_H
#define OURO_PLANNERS_COALESCE_H

#include "passes/planners/exact/search.h"

typedef struct coalescing coalescing;

/* From the skyline of a problem, in which nothing is placed; it is not changed, and is to stay. `memory` may be that of
 * other searches. The seed decides what chance does. `varied`: what is made one is drawn anew after some time. NULL when
 * memory runs out. All memory is in `arena`, but for that of the present draw, which exact_coalescing_free gives back. */
coalescing *exact_coalescing_new(const skyline *sky, uint64_t seed, bool varied, planner_budget *budget,
                                 search_memory *memory, base_arena *arena);
void exact_coalescing_free(coalescing *c); /* or NULL */

/* Are there any two buffers to be taken for one? */
bool exact_coalescing_is_possible(const coalescing *c);

/* Looks for a solution of at most `capacity`, for about so much work of the budget. SEARCH_SOLVED: `offsets` is a solution.
 * Otherwise SEARCH_STOPPED and the offsets as they were, with *out_of_memory set if that is why. */
search_outcome exact_coalescing_run(coalescing *c, size_t capacity, uint64_t work, size_t *offsets,
                                    bool *out_of_memory);

#endif
