/* SPDX-License-Identifier: Apache-2.0 */
/* improve.h: makes a solution lower and its bound higher, until they meet or the time is over. */
#ifndef OURO_PLANNERS_IMPROVE_H
#define OURO_PLANNERS_IMPROVE_H

#include "passes/planners/base/planner.h"

/* Improves solution->offsets and ->height, which are those of a solution already, and raises ->lower_bound where it proves
 * more. It never leaves a worse one. `options` say for how long. Nothing is done where the bound or the capacity is
 * reached, or where interference is listed. As planner_function otherwise. */
base_status exact_improve(const planner_problem *problem, const planner_options *options, base_arena *arena,
                          planner_solution *solution, base_report *report);

#endif
