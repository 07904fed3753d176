/* SPDX-License-Identifier: Apache-2.0 */
/* run.c: what every planner is given, and what becomes of its answer. */
#include "passes/planners/base/modes.h"
#include "passes/planners/base/problem.h"

/* The planner, on the problem as the options want it. */
static base_status run_modes(const planner *chosen, const planner_problem *problem,
                             const planner_options *options, base_arena *arena, planner_solution *solution,
                             base_report *report) {
    planner_problem changed = *problem;
    const bool *persistent = NULL;
    if ((options->preserve_all && !planner_preserve(problem, arena, &changed)) ||
        (options->persistent_apart && !(persistent = planner_persistent(problem, arena)))) {
        return base_fail_memory(report);
    }
    base_status status = planner_problem_check_fixed(&changed, arena, report);
    size_t live_sum;
    if (status == BASE_OK)
        status = planner_problem_bounds(&changed, arena, &live_sum, &solution->lower_bound, report);
    if (status != BASE_OK) return status;
    size_t bound = solution->lower_bound;
    bool plain = changed.overwrite_count > 0 && !chosen->knows_overwrites;
    if (plain && !planner_problem_forget_overwrites(&changed, arena, &changed))
        return base_fail_memory(report);
    if (persistent)
        status = planner_run_apart(chosen, &changed, persistent, options, arena, solution, report);
    else status = chosen->run(&changed, options, arena, solution, report);
    if (solution->lower_bound < bound || plain)
        solution->lower_bound = bound; /* what it proved was for less freedom */
    solution->preserved = options->preserve_all;
    solution->apart = options->persistent_apart;
    return status;
}

base_status planner_run(const planner *chosen, const planner_problem *problem, const planner_options *options,
                        base_arena *arena, planner_solution *solution, base_report *report) {
    *solution = (planner_solution){0};
    base_arena scratch;
    base_arena_init(&scratch, arena->allocator);
    solution->offsets = BASE_ARRAY(arena, size_t, problem->buffer_count + 1);
    base_status status = solution->offsets ? BASE_OK : base_fail_memory(report);
    if (status == BASE_OK) status = planner_problem_check(problem, report);
    if (status == BASE_OK) status = run_modes(chosen, problem, options, &scratch, solution, report);
    if (status == BASE_OK && solution->gave_up) {
        solution->height = SIZE_MAX;
    } else if (status == BASE_OK) {
        solution->height = 0;
        for (size_t i = 0; i < problem->buffer_count; i++) {
            size_t end = solution->offsets[i] + problem->buffers[i].size;
            if (problem->buffers[i].size > 0 && end > solution->height) solution->height = end;
        }
        solution->optimal = solution->height <= solution->lower_bound;
        status = planner_check(problem, solution, &scratch, report);
    }
    base_arena_free(&scratch);
    return status;
}
