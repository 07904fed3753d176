/* SPDX-License-Identifier: Apache-2.0 */
/* problem.h: what the files of this folder share: is a problem well-formed, and who is live when? */
#ifndef OURO_PLANNERS_PROBLEM_H
#define OURO_PLANNERS_PROBLEM_H

#include "passes/planners/base/planner.h"

/* ---- problem.c ----------------------------------------------------------------------------------------- */

/* BASE_INVALID, and a message, for a problem that no planner is to see: live ranges that end before they begin, alignments
 * that are no power of two, sizes that add up beyond the address space, interference that is not symmetric, overwrites
 * that do not fit. */
base_status planner_problem_check(const planner_problem *problem, base_report *report);

/* The alignment of a buffer, 1 where none is given. */
size_t planner_problem_alignment(const planner_buffer *buffer);

/* What `buffer` may be written over, or NULL. */
const planner_overwrite *planner_problem_overwrite_of(const planner_problem *problem, size_t buffer);

/* Does the solution make use of an overwrite at a step at which both are live? Without offsets: could one? */
bool planner_problem_is_within_target(const planner_problem *problem, const planner_overwrite *over,
                                      const size_t *offsets);

/* A live range begins or ends. */
typedef struct problem_event {
    int64_t step;
    size_t mark; /* twice the buffer, and one more where its live range begins */
} problem_event;

/* All beginnings and ends in the order of their steps, of one step the ends first. Buffers without a size are left out,
 * and, where asked for, those that are not pinned. What lies within its target (see above) begins one step later. NULL
 * when memory runs out. */
problem_event *planner_problem_events(const planner_problem *problem, const size_t *offsets, bool fixed_only,
                                      base_arena *arena, size_t *count);

/* The same problem without overwrites, for planners that do not know them. Where both buffers are pinned, and the one
 * lies within the other during its first step, it begins one step later, or has no size. False when memory runs out. */
bool planner_problem_forget_overwrites(const planner_problem *problem, base_arena *arena,
                                       planner_problem *without);

/* ---- bounds.c ------------------------------------------------------------------------------------------ */

/* The largest sum of sizes that are live at one step; and a bound that also counts what alignment costs there. */
base_status planner_problem_bounds(const planner_problem *problem, base_arena *arena, size_t *live_sum,
                                   size_t *padded, base_report *report);

/* ---- check.c ------------------------------------------------------------------------------------------- */

/* BASE_INVALID where pinned buffers collide. */
base_status planner_problem_check_fixed(const planner_problem *problem, base_arena *arena,
                                        base_report *report);

#endif
