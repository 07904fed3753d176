/* greedy_by_size.c: the arena planner of TensorFlow Lite.
 *
 * Buffers are placed one after another: those that live from the first step to the last in the order given
 * (there, the inputs and outputs of the graph), then the others by size, the largest first, and among equals
 * the one that is used first. Each goes into the smallest gap between the buffers already placed that it
 * interferes with, the lowest of equal gaps, and above all of them where it fits into none.
 *
 *     sizes 4 (steps 0-2), 3 (1-3), 2 (2-4):   4 at 0; 3 at 4; 2 meets only the 3 at [4, 7): at 0
 *
 * The source's second arena, for tensors that outlive a run, and its mode that preserves all tensors are modes of
 * every planner here: planner_modes.h.
 *
 * What is taken while a buffer is live is asked of occupancy.h, in unions: gaps are looked through, not buffers.
 */
#include "passes/planners/occupancy.h"
#include "passes/planners/sorting.h"

typedef struct whole_problem {
    const planner_buffer *buffers;
    int64_t first, last; /* of the whole problem */
} whole_problem;

static int rank_of(const whole_problem *whole, uint32_t buffer) {
    const planner_buffer *b = &whole->buffers[buffer];
    if (b->fixed != PLANNER_NOT_FIXED) return 0;
    return b->first == whole->first && b->last == whole->last ? 1 : 2;
}

static bool before(const void *user, uint32_t a, uint32_t b) {
    const whole_problem *whole = user;
    const planner_buffer *x = &whole->buffers[a], *y = &whole->buffers[b];
    int rank_x = rank_of(whole, a), rank_y = rank_of(whole, b);
    if (rank_x != rank_y || rank_x != 2) return rank_x < rank_y;
    if (x->size != y->size) return x->size > y->size;
    return x->first < y->first;
}

static base_status run(const planner_problem *problem, const planner_options *options, base_arena *arena,
                       planner_solution *solution, base_report *report) {
    (void)options;
    size_t count = problem->buffer_count;
    whole_problem whole = {problem->buffers, INT64_MAX, INT64_MIN};
    uint32_t *order = BASE_ARRAY(arena, uint32_t, count + 1);
    occupancy taken;
    if (!order || !occupancy_init(&taken, problem, arena)) return base_fail_memory(report);
    for (size_t i = 0; i < count; i++) {
        order[i] = (uint32_t)i;
        if (problem->buffers[i].first < whole.first) whole.first = problem->buffers[i].first;
        if (problem->buffers[i].last > whole.last) whole.last = problem->buffers[i].last;
    }
    if (!planner_sort(order, count, before, &whole, arena)) return base_fail_memory(report);
    for (size_t i = 0; i < count; i++) {
        uint32_t buffer = order[i];
        const planner_buffer *b = &problem->buffers[buffer];
        if (b->fixed != PLANNER_NOT_FIXED) solution->offsets[buffer] = b->fixed;
        else if (b->size == 0) solution->offsets[buffer] = 0;
        else solution->offsets[buffer] = occupancy_best_fit(&taken, buffer);
        if (!occupancy_add(&taken, buffer, solution->offsets[buffer])) return base_fail_memory(report);
    }
    return BASE_OK;
}

const planner planner_greedy_by_size = {"greedy-by-size",
                                        "largest first, into the smallest gap that holds it", run, false};
