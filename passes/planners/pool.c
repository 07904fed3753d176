/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c: TensorFlow's PoolAllocator, replaying the schedule.
 *
 * Freed buffers are kept in a pool under the size that they were allocated with and are handed out again to
 * requests of exactly that size, the one freed last first; a request that finds none takes new memory. The
 * pool of the source has a limit and evicts what was used least recently, which gives memory back to the
 * system; in one address space that is never given back there is nothing to gain by it, so here the pool has
 * no limit. Alignment is part of the key. Fixed buffers and listed interference go to greedy-by-size.
 *
 * Source: TensorFlow, tensorflow/core/common_runtime/pool_allocator.{h,cc}, as described in "Memory allocation in
 * TensorFlow", an article in Chinese.
 */
#include "passes/planners/planners.h"
#include "passes/planners/replay.h"
#include <stdlib.h>

/* Requests of one size and alignment: the buffers freed and not yet used again, a stack linked by `below`. */
typedef struct shelf {
    size_t size, alignment;
    uint32_t top;
} shelf;

static int compare_shelves(const void *left, const void *right) {
    const shelf *a = left, *b = right;
    if (a->size != b->size) return a->size < b->size ? -1 : 1;
    return (a->alignment > b->alignment) - (a->alignment < b->alignment);
}

static base_status run(const planner_problem *problem, const planner_options *options, base_arena *arena,
                       planner_solution *solution, base_report *report) {
    bool replayable = !problem->starts;
    size_t n = problem->buffer_count, event_count, end = 0;
    for (size_t b = 0; b < n; b++) replayable &= problem->buffers[b].fixed == PLANNER_NOT_FIXED;
    if (!replayable) return planner_greedy_by_size.run(problem, options, arena, solution, report);

    replay_event *events = planner_replay_events(problem, arena, &event_count);
    shelf *shelves = BASE_ARRAY(arena, shelf, n);
    uint32_t *below = BASE_ARRAY(arena, uint32_t, n);
    if (!events || !shelves || !below) return base_fail_memory(report);
    for (size_t b = 0; b < n; b++) {
        size_t alignment = problem->buffers[b].alignment;
        shelves[b] = (shelf){problem->buffers[b].size, alignment ? alignment : 1, BASE_NO_BLOCK};
    }
    if (n) qsort(shelves, n, sizeof *shelves, compare_shelves);
    size_t shelf_count = 0;
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || compare_shelves(&shelves[i], &shelves[shelf_count - 1]))
            shelves[shelf_count++] = shelves[i];
    }
    for (size_t i = 0; i < event_count; i++) {
        uint32_t b = events[i].buffer;
        size_t alignment = problem->buffers[b].alignment;
        shelf key = {problem->buffers[b].size, alignment ? alignment : 1, 0};
        shelf *at = bsearch(&key, shelves, shelf_count, sizeof *shelves, compare_shelves);
        if (!events[i].allocate) {
            below[b] = at->top;
            at->top = b;
        } else if (at->top != BASE_NO_BLOCK) {
            solution->offsets[b] = solution->offsets[at->top];
            at->top = below[at->top];
        } else {
            if (!base_size_align(end, key.alignment, &end)) end = SIZE_MAX;
            solution->offsets[b] = end;
            if (!base_size_add(end, key.size, &end)) {
                return base_fail(report, BASE_INVALID,
                                 "pool: the sizes add up to more than an address holds");
            }
        }
    }
    return BASE_OK;
}

const planner planner_pool = {
    .name = "pool",
    .description = "TensorFlow's PoolAllocator: buffers of equal size again, replaying the schedule",
    .run = run,
};
