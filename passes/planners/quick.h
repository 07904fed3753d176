/* SPDX-License-Identifier: Apache-2.0 */
/* quick.h: the best that the quick planners find, where a search or a choice starts from. */
#ifndef OURO_QUICK_H
#define OURO_QUICK_H

#include "passes/planners/base/planner.h"

/* Runs nnc, greedy-by-size, chunk-simulation and bfc in this order (the last two first, where there are thousands of
 * buffers) until one reaches solution->lower_bound; of equal heights the earlier one's offsets are taken. When the deadline (on
 * planner_budget_clock; 0: none) has passed, what the first ones found is the answer. Sets offsets and height; the bound is raised
 * where a planner proves better. Everything else as in planner_function. */
base_status planner_quick_best(const planner_problem *problem, double deadline, base_arena *arena,
                               planner_solution *solution, base_report *report);

#endif
