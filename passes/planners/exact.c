/* SPDX-License-Identifier: Apache-2.0 */
/* exact.c: the least height, with a proof or within a time.
 *
 * The search (exact/improve.h) starts from the best that the quick planners find, and never ends with worse.
 */
#include "passes/planners/planners.h"
#include "passes/planners/exact/improve.h"
#include "passes/planners/base/budget.h"
#include "passes/planners/quick.h"

static base_status run(const planner_problem *problem, const planner_options *options, base_arena *arena,
                       planner_solution *solution, base_report *report) {
    const double begin = planner_budget_clock();
    base_status status = planner_quick_best(problem, options->seconds > 0 ? begin + options->seconds : 0,
                                            arena, solution, report);
    if (status != BASE_OK) return status;
    planner_options rest = *options;
    if (options->seconds > 0) {
        rest.seconds -= planner_budget_clock() - begin;
        if (rest.seconds <= 0) return BASE_OK;
    }
    return exact_improve(problem, &rest, arena, solution, report);
}

const planner planner_exact = {
    .name = "exact",
    .description = "complete search with proofs, within --seconds",
    .run = run,
};
