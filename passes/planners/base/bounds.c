/* SPDX-License-Identifier: Apache-2.0 */
/* bounds.c: what no height can be below. */
#include "passes/planners/base/problem.h"

/* Where interference is listed, live at one step does not mean interfering: sums of sets of buffers that all
 * interfere with each other are the bound then. One such set is collected around each buffer, in the order of
 * its list; the largest possible one is too hard to find. */
static size_t bound_of_lists(const planner_problem *problem) {
    enum { MEMBERS = 64 };
    size_t bound = 0;
    for (size_t i = 0; i < problem->buffer_count; i++) {
        if (planner_problem_overwrite_of(problem, i)) continue; /* it may lie in another one */
        size_t members[MEMBERS], count = 0, sum = problem->buffers[i].size;
        members[count++] = i;
        for (size_t k = problem->starts[i]; k < problem->starts[i + 1] && count < MEMBERS; k++) {
            size_t other = problem->neighbours[k], m = 0;
            while (m < count && planner_is_listed(problem, members[m], other)) m++;
            if (m < count || planner_problem_overwrite_of(problem, other)) continue;
            members[count++] = other;
            sum += problem->buffers[other].size;
        }
        if (sum > bound) bound = sum;
    }
    return bound;
}

size_t planner_common_alignment(const planner_problem *problem) {
    size_t bits = PLANNER_MOST_COMMON;
    for (size_t i = 0; i < problem->buffer_count; i++) {
        const planner_buffer *b = &problem->buffers[i];
        if (b->size > 0) bits |= b->fixed == PLANNER_NOT_FIXED ? planner_problem_alignment(b) : b->fixed;
    }
    return bits & (~bits + 1);
}

/* What rounding up adds to a size. */
static size_t padding_of(const planner_buffer *b, size_t common) {
    return (~b->size + 1) & (common - 1);
}

/* The most that rounding up adds to one buffer of those live at a step. */
static size_t most_padding(const planner_problem *problem, int64_t step, size_t common) {
    size_t most = 0;
    for (size_t i = 0; i < problem->buffer_count; i++) {
        const planner_buffer *b = &problem->buffers[i];
        if (b->size == 0 || b->first > step || b->last <= step) continue;
        if (padding_of(b, common) > most) most = padding_of(b, common);
    }
    return most;
}

/* The largest sum of sizes live at one step; and a bound that counts what all alignments have in common, too: all buffers
 * begin at multiples of it, so that each but the topmost takes what it is rounded up to. */
base_status planner_problem_bounds(const planner_problem *problem, base_arena *arena, size_t *live_sum,
                                   size_t *padded, base_report *report) {
    const size_t common = planner_common_alignment(problem);
    size_t count, live = 0, rounded = 0, most_rounded = 0;
    int64_t fullest = 0;
    *live_sum = *padded = 0;
    if (problem->starts) {
        *live_sum = *padded = bound_of_lists(problem);
        return BASE_OK;
    }
    problem_event *events = planner_problem_events(problem, NULL, false, arena, &count);
    if (!events) return base_fail_memory(report);
    for (size_t i = 0; i < count; i++) {
        const planner_buffer *b = &problem->buffers[events[i].mark / 2];
        const bool begins = events[i].mark % 2;
        const size_t extent = b->size + padding_of(b, common);
        live = begins ? live + b->size : live - b->size;
        rounded = begins ? rounded + extent : rounded - extent;
        if (live > *live_sum) *live_sum = live;
        if (rounded > most_rounded) {
            most_rounded = rounded;
            fullest = events[i].step;
        }
    }
    *padded = most_rounded - most_padding(problem, fullest, common);
    if (*padded < *live_sum) *padded = *live_sum;
    return BASE_OK;
}

base_status planner_lower_bound(const planner_problem *problem, base_arena *arena, size_t *bound,
                                base_report *report) {
    size_t padded;
    return planner_problem_bounds(problem, arena, bound, &padded, report);
}
