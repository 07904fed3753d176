/* SPDX-License-Identifier: Apache-2.0 */
/* quick.c: see quick.h. */
#include "passes/planners/planners.h"
#include "passes/planners/quick.h"
#include <string.h>

enum { CANDIDATES = 4, MANY_BUFFERS = 4096 };

/* The best on average first; where they take long, the fastest. */
static const planner *const by_height[CANDIDATES] = {&planner_nnc, &planner_greedy_by_size,
                                                     &planner_chunk_simulation, &planner_bfc};
static const planner *const by_time[CANDIDATES] = {&planner_chunk_simulation, &planner_bfc, &planner_nnc,
                                                   &planner_greedy_by_size};

base_status planner_quick_best(const planner_problem *problem, double deadline, base_arena *arena,
                               planner_solution *solution, base_report *report) {
    const planner *const *candidates = problem->buffer_count > MANY_BUFFERS ? by_time : by_height;
    solution->height = SIZE_MAX;
    for (size_t i = 0; i < CANDIDATES; i++) {
        if (solution->height <= solution->lower_bound) break;
        const planner_options options = {.deadline = solution->height < SIZE_MAX ? deadline : 0};
        planner_solution tried;
        base_arena memory;
        base_arena_init(&memory, arena->allocator);
        base_status status = planner_run(candidates[i], problem, &options, &memory, &tried, report);
        if (status == BASE_OK && tried.height < solution->height) {
            solution->height = tried.height;
            memcpy(solution->offsets, tried.offsets, problem->buffer_count * sizeof *tried.offsets);
        }
        if (status == BASE_OK && tried.lower_bound > solution->lower_bound)
            solution->lower_bound = tried.lower_bound;
        base_arena_free(&memory);
        if (status != BASE_OK) return status;
    }
    return BASE_OK;
}
