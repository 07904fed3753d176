/* auto.c: the best plan that the other planners find quickly.
 *
 * They run in the order below until one reaches the lower bound; of equal heights the earlier one's plan is
 * taken. The complete search comes last, and only on problems of a size that it can say something about. It
 * is given a fixed number of steps, not a time: the same problem has the same answer on a busy machine.
 */
#include "passes/planner.h"
#include <string.h>

enum { SEARCHED_BUFFERS = 4096 };

static const planner *const candidates[] = {&planner_nnc, &planner_greedy_by_size, &planner_chunk_simulation,
                                            &planner_bfc, &planner_exact};

static base_status run(const planner_problem *problem, const planner_options *options, base_arena *arena,
                       planner_solution *solution, base_report *report) {
    (void)options;
    planner_options bounded = {.seconds = 0};
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates && best > solution->lower_bound; i++) {
        if (candidates[i] == &planner_exact && problem->buffer_count > SEARCHED_BUFFERS) continue;
        planner_solution tried;
        base_arena memory;
        base_arena_init(&memory, arena->allocator);
        base_status status = planner_run(candidates[i], problem, &bounded, &memory, &tried, report);
        if (status == BASE_OK && tried.height < best) {
            best = tried.height;
            memcpy(solution->offsets, tried.offsets, problem->buffer_count * sizeof *tried.offsets);
        }
        if (status == BASE_OK && tried.lower_bound > solution->lower_bound)
            solution->lower_bound = tried.lower_bound;
        base_arena_free(&memory);
        if (status != BASE_OK) return status;
    }
    return BASE_OK;
}

const planner planner_auto = {"auto", "the best of the quick planners and a bounded search", run};
