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
 * O(n log n) and O(log n) for each overlap of two live ranges.
 */
#include "passes/planners/overlaps.h"

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

/* The offset for a buffer above or between those placed: the smallest gap that holds it. */
static size_t best_fit(planner_overlaps *overlaps, uint32_t buffer, const size_t *offsets) {
    const planner_buffer *b = &overlaps->problem->buffers[buffer];
    size_t count = planner_overlaps_sorted(overlaps, buffer, offsets);
    size_t top = 0, best = SIZE_MAX, best_gap = SIZE_MAX, at = 0;
    for (size_t k = 0; k < count; k++) {
        uint32_t other = overlaps->found[k];
        if (!base_size_align(top, b->alignment ? b->alignment : 1, &at)) return SIZE_MAX;
        if (at <= offsets[other] && offsets[other] - at >= b->size && offsets[other] - at < best_gap) {
            best = at;
            best_gap = offsets[other] - at;
        }
        size_t end = offsets[other] + overlaps->problem->buffers[other].size;
        if (end > top) top = end;
    }
    if (best != SIZE_MAX) return best;
    return base_size_align(top, b->alignment ? b->alignment : 1, &at) ? at : SIZE_MAX;
}

static base_status run(const planner_problem *problem, const planner_options *options, base_arena *arena,
                       planner_solution *solution, base_report *report) {
    (void)options;
    size_t count = problem->buffer_count;
    whole_problem whole = {problem->buffers, INT64_MAX, INT64_MIN};
    uint32_t *order = BASE_ARRAY(arena, uint32_t, count + 1);
    planner_overlaps overlaps;
    if (!order || !planner_overlaps_init(&overlaps, problem, arena)) return base_fail_memory(report);
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
        else solution->offsets[buffer] = best_fit(&overlaps, buffer, solution->offsets);
        if (b->size > 0) planner_overlaps_add(&overlaps, buffer);
    }
    return BASE_OK;
}

const planner planner_greedy_by_size = {"greedy-by-size",
                                        "largest first, into the smallest gap that holds it", run, false};
