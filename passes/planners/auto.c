/* auto.c: the best plan that the other planners find quickly.
 *
 * The quick planners run first (quick.h). The complete search comes last, and only where they did not reach
 * the lower bound and on problems of a size that it can say something about. It is given a fixed number of
 * steps, not a time: the same problem has the same answer on a busy machine.
 */
#include "passes/planners/quick.h"

enum { SEARCHED_BUFFERS = 4096 };

static base_status run(const planner_problem *problem, const planner_options *options, base_arena *arena,
                       planner_solution *solution, base_report *report) {
    (void)options;
    const planner_options bounded = {.seconds = 0};
    base_status status = quick_best(problem, arena, solution, report);
    if (status != BASE_OK || problem->buffer_count > SEARCHED_BUFFERS) return status;
    return exact_improve(problem, &bounded, arena, solution, report);
}

const planner planner_auto = {"auto", "the best of the quick planners and a bounded search", run};
