/* SPDX-License-Identifier: Apache-2.0 */
/* modes.h: what planner_options ask for beside a planner: nothing used again, persistent buffers apart.
 *
 * Both are the arena planner's of TensorFlow Lite, which keeps all tensors for those who want to look at them after a
 * run, and has two arenas, one of which outlives the runs. Here they are changes of the problem, so that every planner
 * has them.
 */
#ifndef OURO_PLANNER_MODES_H
#define OURO_PLANNER_MODES_H

#include "passes/planners/base/planner.h"

/* The same problem with every buffer live to the end: nothing is used again. False when memory runs out. */
bool planner_preserve(const planner_problem *problem, base_arena *arena, planner_problem *preserved);

/* Is each buffer live from the first step of the problem to the last? NULL when memory runs out. */
bool *planner_persistent(const planner_problem *problem, base_arena *arena);

/* Runs the planner once on the persistent buffers and once on the others, one answer above the other: the persistent
 * ones below, or, where pinned offsets want it so, above. Sets offsets, the lower bound and the shared part.
 * BASE_INVALID where pinned offsets leave neither. */
base_status planner_run_apart(const planner *chosen, const planner_problem *problem, const bool *persistent,
                              const planner_options *options, base_arena *arena, planner_solution *solution,
                              base_report *report);

#endif
