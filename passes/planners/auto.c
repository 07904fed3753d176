/* auto.c: the best plan that the other planners find quickly.
 *
 * The quick planners run first (quick.h). The complete search comes last, and only where they did not reach
 * the lower bound and on problems of a size that it can say something about. It is given a fixed number of
 * steps, not a time: the same problem has the same answer on a busy machine.
 */
#include "passes/planners/planners.h"
#include "passes/planners/exact/improve.h"
#include "passes/planners/quick.h"
#include <string.h>

enum { SEARCHED_BUFFERS = 4096 };

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
    (void)options;
    const planner_options bounded = {.seconds = 0};
    base_status status = quick_best(problem, arena, solution, report);
    if (status != BASE_OK || problem->buffer_count > SEARCHED_BUFFERS) return status;
    if (problem->overwrite_count > 0 && solution->height > solution->lower_bound)
        return search_beside(problem, &bounded, arena, solution, report);
    if (problem->overwrite_count > 0) return BASE_OK;
    return exact_improve(problem, &bounded, arena, solution, report);
}

const planner planner_auto = {"auto", "the best of the quick planners and a bounded search", run,
                              .knows_overwrites = true};
