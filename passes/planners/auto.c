/* SPDX-License-Identifier: Apache-2.0 */
/* auto.c: the best plan that is found in about a second.
 *
 * The quick planners run first (quick.h). Where none of them reached the lower bound, what they found is searched on from
 * (exact/improve.h), for a fixed amount of work, so that the same problem has the same answer on a busy machine. Where time
 * or work is given, that ends the search.
 */
#include "passes/planners/base/budget.h"
#include "passes/planners/exact/improve.h"
#include "passes/planners/planners.h"
#include "passes/planners/quick.h"
#include <string.h>

enum { USUAL_WORK = 200000 };

/* The search does not know overwrites: what it finds without them competes. */
static base_status search_beside(const planner_problem *problem, const planner_options *options,
                                 base_arena *arena, planner_solution *solution, base_report *report) {
    planner_solution searched;
    base_arena memory;
    base_arena_init(&memory, arena->allocator);
    base_status status = planner_run(&planner_exact, problem, options, &memory, &searched, report);
    if (status == BASE_OK && searched.height < solution->height) {
        solution->height = searched.height;
        memcpy(solution->offsets, searched.offsets, problem->buffer_count * sizeof *searched.offsets);
    }
    base_arena_free(&memory);
    return status;
}

static base_status run(const planner_problem *problem, const planner_options *options, base_arena *arena,
                       planner_solution *solution, base_report *report) {
    planner_options bounded = {
        .seconds = options->seconds, .work = options->work, .threads = options->threads};
    if (bounded.seconds <= 0 && bounded.work == 0) bounded.work = USUAL_WORK;
    const double begin = planner_budget_clock();
    base_status status = planner_quick_best(problem, bounded.seconds > 0 ? begin + bounded.seconds : 0, arena,
                                            solution, report);
    if (status != BASE_OK || solution->height <= solution->lower_bound) return status;
    if (bounded.seconds > 0) {
        bounded.seconds -= planner_budget_clock() - begin;
        if (bounded.seconds <= 0) return BASE_OK;
    }
    if (problem->overwrite_count > 0) return search_beside(problem, &bounded, arena, solution, report);
    return exact_improve(problem, &bounded, arena, solution, report);
}

const planner planner_auto = {"auto", "the best of the quick planners, searched on from", run,
                              .knows_overwrites = true};
