/* SPDX-License-Identifier: Apache-2.0 */
/* ejection.h: a solution becomes lower by ejection chains.
 *
 * Nothing may lie above a target that is a little below the present height. Buffers that do are taken out. Then one buffer
 * after the other is put back, each at the offset where it does the least harm: what it overlaps there is taken out in its
 * turn. A buffer that does harm becomes more expensive to take out, so that the same chain is not gone through again, and
 * the most expensive one is put back first. When nothing is left to be put back, the target is reached. Targets come
 * nearer to the height where that fails, and go farther where it succeeds.
 *
 * A step looks at the buffers that interfere with one buffer, and at nothing else, so that it costs the same however many
 * buffers there are: this is the search for large problems. Sizes and offsets are exact, of any height. It proves nothing.
 *
 * Source: the ejection pool with penalty counters of Nagata and Bräysy, "A powerful route minimization heuristic for the
 * vehicle routing problem with time windows" (2009); ejection chains: Glover (1996). That a chain runs over addresses, and
 * what it costs to take a buffer out, is our own.
 */
#ifndef OURO_PLANNERS_EJECTION_H
#define OURO_PLANNERS_EJECTION_H

#include "passes/planners/base/planner.h"
#include "passes/planners/base/budget.h"

typedef struct ejection ejection;

/* Prepares a search on a problem whose live ranges decide interference. The seed decides what chance does. All memory is
 * in `arena`, some hundred bytes a buffer. NULL when it runs out. */
ejection *exact_ejection_new(const planner_problem *problem, uint64_t seed, base_arena *arena);

/* Makes a solution lower until it is not above `enough`, for about so much work of the budget. `offsets` is the solution,
 * `height` its height, and both change together. Goes on where the last call stopped, also from another solution. True:
 * the solution has become lower. */
bool exact_ejection_run(ejection *e, size_t enough, uint64_t work, planner_budget *budget, size_t *offsets,
                        size_t *height);

/* Puts buffers that are missing into a partial solution: those that are not `placed`, and of which `wanted` says so. The others have
 * offsets below `height` that fit. True: all that were placed are placed still, and those that were wanted too, at offsets that
 * fit, and below `height`. Otherwise, after so many moves, nothing has changed. Adds what it costs to *spent. */
bool exact_ejection_insert(ejection *e, size_t height, bool *placed, const bool *wanted, size_t *offsets, uint64_t moves,
                           planner_budget *budget, uint64_t *spent);

#endif
