/* SPDX-License-Identifier: Apache-2.0 */
/* problem.c: is a problem well-formed, and what does it say step by step? */
#include "passes/planners/base/problem.h"
#include <inttypes.h>
#include <string.h>

size_t planner_problem_alignment(const planner_buffer *buffer) {
    return buffer->alignment ? buffer->alignment : 1;
}

/* ---- the problem --------------------------------------------------------------------------------------- */

static base_status check_buffers(const planner_problem *problem, base_report *report) {
    size_t total = 0; /* no offset that a planner can come to is beyond this */
    for (size_t i = 0; i < problem->buffer_count; i++) {
        const planner_buffer *b = &problem->buffers[i];
        size_t alignment = planner_problem_alignment(b), rounded, end = 0;
        if (b->first >= b->last) {
            return base_fail(report, BASE_INVALID,
                             "buffer %zu is live from step %" PRId64 " to before step %" PRId64
                             ": the last must be greater than the first",
                             i, b->first, b->last);
        }
        if (alignment & (alignment - 1)) {
            return base_fail(report, BASE_INVALID, "buffer %zu has alignment %zu: a power of two is needed",
                             i, alignment);
        }
        if (b->fixed != PLANNER_NOT_FIXED) {
            if (b->fixed & (alignment - 1)) {
                return base_fail(report, BASE_INVALID,
                                 "buffer %zu is fixed at %zu, not a multiple of its alignment %zu", i,
                                 b->fixed, alignment);
            }
            if (!base_size_add(b->fixed, b->size, &end)) {
                return base_fail(report, BASE_INVALID,
                                 "buffer %zu at its fixed offset ends beyond the address space", i);
            }
        }
        if (!base_size_align(b->size, alignment, &rounded) || !base_size_add(rounded, alignment, &rounded) ||
            !base_size_add(total, end, &total) || !base_size_add(total, rounded, &total) ||
            total > SIZE_MAX / 2) {
            return base_fail(report, BASE_INVALID,
                             "the sizes of the buffers add up beyond the address space");
        }
    }
    return BASE_OK;
}

bool planner_is_listed(const planner_problem *problem, size_t a, size_t b) {
    size_t low = problem->starts[a], high = problem->starts[a + 1];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (problem->neighbours[middle] < b) low = middle + 1;
        else high = middle;
    }
    return low < problem->starts[a + 1] && problem->neighbours[low] == b;
}

static base_status check_lists(const planner_problem *problem, base_report *report) {
    if (!problem->starts) return BASE_OK;
    for (size_t i = 0; i < problem->buffer_count; i++) {
        if (problem->starts[i] > problem->starts[i + 1]) {
            return base_fail(report, BASE_INVALID,
                             "the interference list of buffer %zu ends before it starts", i);
        }
    }
    for (size_t i = 0; i < problem->buffer_count; i++) {
        for (size_t k = problem->starts[i]; k < problem->starts[i + 1]; k++) {
            size_t other = problem->neighbours[k];
            if (other >= problem->buffer_count || other == i) {
                return base_fail(report, BASE_INVALID, "buffer %zu is said to interfere with buffer %zu", i,
                                 other);
            }
            if (k > problem->starts[i] && problem->neighbours[k - 1] >= other) {
                return base_fail(report, BASE_INVALID, "the interference list of buffer %zu is not sorted",
                                 i);
            }
            if (!planner_is_listed(problem, other, i)) {
                return base_fail(
                    report, BASE_INVALID,
                    "buffer %zu is said to interfere with buffer %zu, but not the other way round", i, other);
            }
        }
    }
    return BASE_OK;
}

const planner_overwrite *planner_problem_overwrite_of(const planner_problem *problem, size_t buffer) {
    size_t low = 0, high = problem->overwrite_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (problem->overwrites[middle].buffer < buffer) low = middle + 1;
        else high = middle;
    }
    return low < problem->overwrite_count && problem->overwrites[low].buffer == buffer
               ? &problem->overwrites[low]
               : NULL;
}

static base_status check_overwrites(const planner_problem *problem, base_report *report) {
    for (size_t i = 0; i < problem->overwrite_count; i++) {
        const planner_overwrite *over = &problem->overwrites[i];
        if (over->buffer >= problem->buffer_count || over->target >= problem->buffer_count) {
            return base_fail(report, BASE_INVALID,
                             "buffer %" PRIu32 " is said to overwrite buffer %" PRIu32 ": there are %zu",
                             over->buffer, over->target, problem->buffer_count);
        }
        if (i > 0 && problem->overwrites[i - 1].buffer >= over->buffer) {
            return base_fail(report, BASE_INVALID, "the overwrites are not in the order of their buffers");
        }
        const planner_buffer *b = &problem->buffers[over->buffer], *target = &problem->buffers[over->target];
        if (over->at > target->size || b->size > target->size - over->at) {
            return base_fail(report, BASE_INVALID,
                             "buffer %" PRIu32 " (size %zu) is said to overwrite buffer %" PRIu32
                             " (size %zu) from byte %zu on: that is more than it has",
                             over->buffer, b->size, over->target, target->size, over->at);
        }
        if (target->first >= b->first || (target->last != b->first && target->last - 1 != b->first)) {
            return base_fail(report, BASE_INVALID,
                             "buffer %" PRIu32 " is said to overwrite buffer %" PRIu32 " at step %" PRId64
                             ", but that is live from step %" PRId64 " to before step %" PRId64
                             ": it must begin before, and end there or one step later",
                             over->buffer, over->target, b->first, target->first, target->last);
        }
    }
    return BASE_OK;
}

/* By step; those that are equal stay in their order. In passes over the bytes in which steps differ: there are twice as
 * many events as buffers, and comparing them would take longer than planning them. */
static void sort_events(problem_event *events, problem_event *scratch, size_t count) {
    const uint64_t sign = (uint64_t)1 << 63;
    uint64_t differ = 0;
    for (size_t i = 1; i < count; i++) differ |= (uint64_t)events[i].step ^ (uint64_t)events[0].step;
    problem_event *from = events, *to = scratch;
    for (int shift = 0; shift < 64; shift += 8) {
        size_t starts[257] = {0};
        if (!(differ >> shift & 255)) continue;
        for (size_t i = 0; i < count; i++) starts[(((uint64_t)from[i].step ^ sign) >> shift & 255) + 1]++;
        for (size_t d = 0; d < 256; d++) starts[d + 1] += starts[d];
        for (size_t i = 0; i < count; i++)
            to[starts[((uint64_t)from[i].step ^ sign) >> shift & 255]++] = from[i];
        problem_event *swap = from;
        from = to;
        to = swap;
    }
    if (from != events) memcpy(events, from, count * sizeof *events);
}

/* Does this overwrite need the permission, and does the solution use it? Then its target holds its bytes during its
 * first step. Without offsets: could it? */
bool planner_problem_is_within_target(const planner_problem *problem, const planner_overwrite *over,
                                      const size_t *offsets) {
    if (!problem->starts && problem->buffers[over->target].last == problem->buffers[over->buffer].first)
        return false;
    if (!offsets) return true;
    return offsets[over->target] != PLANNER_NOT_FIXED && offsets[over->buffer] >= over->at &&
           offsets[over->buffer] - over->at == offsets[over->target];
}

problem_event *planner_problem_events(const planner_problem *problem, const size_t *offsets, bool fixed_only,
                                      base_arena *arena, size_t *count) {
    problem_event *events = BASE_ARRAY(arena, problem_event, 2 * problem->buffer_count + 1);
    problem_event *scratch = BASE_ARRAY(arena, problem_event, 2 * problem->buffer_count + 1);
    const planner_overwrite *over = problem->overwrites, *end = over + problem->overwrite_count;
    size_t found = 0;
    if (!events || !scratch) return NULL;
    for (size_t i = 0; i < problem->buffer_count; i++) {
        const planner_buffer *b = &problem->buffers[i];
        const planner_overwrite *own = over < end && over->buffer == i ? over++ : NULL;
        if (b->size == 0 || (fixed_only && b->fixed == PLANNER_NOT_FIXED)) continue;
        int64_t first = b->first;
        if (own && planner_problem_is_within_target(problem, own, offsets) && ++first == b->last) continue;
        events[found] = (problem_event){b->last, 2 * i};
        scratch[found++] = (problem_event){first, 2 * i + 1};
    }
    /* Ends stand before beginnings: the step after the last is free. */
    memcpy(events + found, scratch, found * sizeof *scratch);
    *count = 2 * found;
    sort_events(events, scratch, *count);
    return events;
}

/* The same problem for those who do not know overwrites. Where both buffers are pinned, and the one lies in the other
 * during its first step, it begins one step later, or takes no bytes at all. */
bool planner_problem_forget_overwrites(const planner_problem *problem, base_arena *arena,
                                       planner_problem *plain) {
    planner_buffer *buffers = BASE_ARRAY(arena, planner_buffer, problem->buffer_count + 1);
    size_t *fixed = BASE_ARRAY(arena, size_t, problem->buffer_count + 1);
    if (!buffers || !fixed) return false;
    for (size_t i = 0; i < problem->buffer_count; i++) {
        buffers[i] = problem->buffers[i];
        fixed[i] = buffers[i].fixed;
    }
    for (size_t i = 0; i < problem->overwrite_count; i++) {
        planner_buffer *b = &buffers[problem->overwrites[i].buffer];
        if (problem->starts || b->fixed == PLANNER_NOT_FIXED) continue;
        if (!planner_problem_is_within_target(problem, &problem->overwrites[i], fixed)) continue;
        if (b->first + 1 < b->last) b->first++;
        else b->size = 0;
    }
    *plain = *problem;
    plain->buffers = buffers;
    plain->overwrites = NULL;
    plain->overwrite_count = 0;
    return true;
}

base_status planner_problem_check(const planner_problem *problem, base_report *report) {
    if (problem->buffer_count >= UINT32_MAX)
        return base_fail(report, BASE_INVALID, "more than %u buffers are not supported", UINT32_MAX - 1);
    base_status status = check_buffers(problem, report);
    if (status == BASE_OK) status = check_lists(problem, report);
    if (status == BASE_OK) status = check_overwrites(problem, report);
    return status;
}
