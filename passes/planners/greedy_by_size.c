/* SPDX-License-Identifier: Apache-2.0 */
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
 * every planner here: base/modes.h.
 *
 * What is taken while a buffer is live is asked of occupancy.h: gaps are looked through, not buffers.
 */
#include "passes/planners/planners.h"
#include "passes/planners/occupancy.h"
#include "passes/planners/base/budget.h"
#include "passes/planners/base/sorting.h"

/* Pinned ones, those that live from the first step to the last, the others. */
static size_t rank_of(const planner_buffer *b, int64_t first, int64_t last) {
    if (b->fixed != PLANNER_NOT_FIXED) return 0;
    return b->first == first && b->last == last ? 1 : 2;
}

/* By rank; the others by size, largest first, then by first use. The keys come sorted by number, and leave sorted from
 * the least important to the most. */
static void sort(const planner_problem *problem, planner_key *keys, planner_key *scratch) {
    const planner_buffer *buffers = problem->buffers;
    size_t count = problem->buffer_count;
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (size_t i = 0; i < count; i++) {
        if (buffers[i].first < first) first = buffers[i].first;
        if (buffers[i].last > last) last = buffers[i].last;
    }
    for (size_t i = 0; i < count; i++) {
        bool other = rank_of(&buffers[i], first, last) == 2;
        keys[i] = (planner_key){other ? planner_step_key(buffers[i].first) : 0, (uint32_t)i};
    }
    planner_sort_keys(keys, count, scratch);
    for (size_t i = 0; i < count; i++) {
        const planner_buffer *b = &buffers[keys[i].buffer];
        keys[i].key = rank_of(b, first, last) == 2 ? SIZE_MAX - b->size : 0;
    }
    planner_sort_keys(keys, count, scratch);
    for (size_t i = 0; i < count; i++) keys[i].key = rank_of(&buffers[keys[i].buffer], first, last);
    planner_sort_keys(keys, count, scratch);
}

static base_status run(const planner_problem *problem, const planner_options *options, base_arena *arena,
                       planner_solution *solution, base_report *report) {
    size_t count = problem->buffer_count;
    uint32_t *order = BASE_ARRAY(arena, uint32_t, count + 1);
    planner_key *keys = BASE_ARRAY(arena, planner_key, count + 1),
                *scratch = BASE_ARRAY(arena, planner_key, count + 1);
    occupancy taken;
    if (!order || !keys || !scratch || !planner_occupancy_init(&taken, problem, OCCUPANCY_LOWEST, arena))
        return base_fail_memory(report);
    sort(problem, keys, scratch);
    for (size_t i = 0; i < count; i++) order[i] = keys[i].buffer;
    for (size_t i = 0; i < count; i++) {
        if ((solution->gave_up = planner_budget_has_passed(options->deadline, i))) return BASE_OK;
        uint32_t buffer = order[i];
        const planner_buffer *b = &problem->buffers[buffer];
        planner_occupancy_expect(&taken, order + i + 1, count - i - 1);
        if (b->fixed != PLANNER_NOT_FIXED) solution->offsets[buffer] = b->fixed;
        else if (b->size == 0) solution->offsets[buffer] = 0;
        else solution->offsets[buffer] = planner_occupancy_best_fit(&taken, buffer);
        if (!planner_occupancy_add(&taken, buffer, solution->offsets[buffer]))
            return base_fail_memory(report);
    }
    return BASE_OK;
}

const planner planner_greedy_by_size = {"greedy-by-size",
                                        "largest first, into the smallest gap that holds it", run, false};
