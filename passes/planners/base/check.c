/* SPDX-License-Identifier: Apache-2.0 */
/* check.c: the independent checker of solutions. */
#include "passes/planners/base/problem.h"
#include "passes/planners/base/sorting.h"
#include <inttypes.h>
#include <stdlib.h>

static base_status fail_overlap(const planner_problem *problem, const size_t *offsets, size_t a, size_t b,
                                base_report *report) {
    return base_fail(
        report, BASE_INVALID,
        "buffers %zu (offset %zu, size %zu) and %zu (offset %zu, size %zu) interfere and overlap", a,
        offsets[a], problem->buffers[a].size, b, offsets[b], problem->buffers[b].size);
}

static bool overlap(const planner_problem *problem, const size_t *offsets, size_t a, size_t b) {
    return offsets[a] < offsets[b] + problem->buffers[b].size &&
           offsets[b] < offsets[a] + problem->buffers[a].size;
}

/* A set of numbers in which neighbours are found at once: a bit for each, and levels above with a bit for each
 * word that is not zero. */
typedef struct rank_set {
    uint64_t *levels[11]; /* 64 to the power of 11 is more than there are */
    unsigned depth;
} rank_set;

static bool rank_set_init(rank_set *set, size_t count, base_arena *arena) {
    *set = (rank_set){0};
    do {
        count = count / 64 + 1;
        set->levels[set->depth] = BASE_ARRAY(arena, uint64_t, count);
        if (!set->levels[set->depth++]) return false;
    } while (count > 1);
    return true;
}

static void rank_set_add(rank_set *set, size_t number) {
    for (unsigned level = 0; level < set->depth; level++, number /= 64)
        set->levels[level][number / 64] |= (uint64_t)1 << number % 64;
}

static void rank_set_remove(rank_set *set, size_t number) {
    for (unsigned level = 0; level < set->depth; level++, number /= 64) {
        set->levels[level][number / 64] &= ~((uint64_t)1 << number % 64);
        if (set->levels[level][number / 64]) break;
    }
}

/* The nearest member above the number, or below it; SIZE_MAX: there is none. */
static size_t rank_set_next(const rank_set *set, size_t number, bool above) {
    for (unsigned level = 0; level < set->depth; level++, number /= 64) {
        uint64_t word = set->levels[level][number / 64], bit = (uint64_t)1 << number % 64;
        word &= above ? ~(bit | (bit - 1)) : bit - 1;
        if (!word) continue;
        number = number / 64 * 64 + (size_t)(above ? __builtin_ctzll(word) : 63 - __builtin_clzll(word));
        while (level-- > 0) {
            word = set->levels[level][number];
            number = number * 64 + (size_t)(above ? __builtin_ctzll(word) : 63 - __builtin_clzll(word));
        }
        return number;
    }
    return SIZE_MAX;
}

/* Buffers that lie in their targets during their first step (is_within_target), and there have to keep off each other
 * only: whatever else is live keeps off the targets. */
typedef struct overwriting {
    size_t target, offset, buffer;
} overwriting;

static int compare_overwritings(const void *left, const void *right) {
    const overwriting *a = left, *b = right;
    if (a->target != b->target) return a->target < b->target ? -1 : 1;
    if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
    return a->buffer < b->buffer ? -1 : a->buffer > b->buffer;
}

static base_status check_within_targets(const planner_problem *problem, const size_t *offsets,
                                        bool fixed_only, base_arena *arena, base_report *report) {
    size_t count = 0;
    if (problem->overwrite_count == 0) return BASE_OK;
    overwriting *all = BASE_ARRAY(arena, overwriting, problem->overwrite_count);
    if (!all) return base_fail_memory(report);
    for (size_t i = 0; i < problem->overwrite_count; i++) {
        const planner_overwrite *over = &problem->overwrites[i];
        const planner_buffer *b = &problem->buffers[over->buffer];
        if (b->size == 0 || (fixed_only && b->fixed == PLANNER_NOT_FIXED)) continue;
        if (!planner_problem_is_within_target(problem, over, offsets)) continue;
        all[count++] = (overwriting){over->target, offsets[over->buffer], over->buffer};
    }
    if (count) qsort(all, count, sizeof *all, compare_overwritings);
    for (size_t i = 1; i < count; i++) {
        if (all[i].target == all[i - 1].target && overlap(problem, offsets, all[i].buffer, all[i - 1].buffer))
            return fail_overlap(problem, offsets, all[i - 1].buffer, all[i].buffer, report);
    }
    return BASE_OK;
}

/* All buffers have ranks by their offsets. As long as no live ones overlap, a new one can only meet the next live one
 * below it and the next above. */
static base_status check_ranges(const planner_problem *problem, const size_t *offsets, bool fixed_only,
                                base_arena *arena, base_report *report) {
    size_t count, n = problem->buffer_count;
    problem_event *events = planner_problem_events(problem, offsets, fixed_only, arena, &count);
    planner_key *order = BASE_ARRAY(arena, planner_key, n + 1),
                *scratch = BASE_ARRAY(arena, planner_key, n + 1);
    uint32_t *ranks = BASE_ARRAY(arena, uint32_t, n + 1);
    rank_set live;
    if (!events || !order || !scratch || !ranks || !rank_set_init(&live, n, arena))
        return base_fail_memory(report);
    base_status status = check_within_targets(problem, offsets, fixed_only, arena, report);
    if (status != BASE_OK) return status;
    for (size_t i = 0; i < n; i++) order[i] = (planner_key){offsets[i], (uint32_t)i};
    planner_sort_keys(order, n, scratch);
    for (size_t i = 0; i < n; i++) ranks[order[i].buffer] = (uint32_t)i;
    for (size_t i = 0; i < count; i++) {
        size_t buffer = events[i].mark / 2, rank = ranks[buffer];
        if (events[i].mark % 2 == 0) {
            rank_set_remove(&live, rank);
            continue;
        }
        size_t above = rank_set_next(&live, rank, true), under = rank_set_next(&live, rank, false);
        if (above != SIZE_MAX && overlap(problem, offsets, buffer, order[above].buffer)) {
            return fail_overlap(problem, offsets, order[above].buffer, buffer, report);
        }
        if (under != SIZE_MAX && overlap(problem, offsets, buffer, order[under].buffer)) {
            return fail_overlap(problem, offsets, order[under].buffer, buffer, report);
        }
        rank_set_add(&live, rank);
    }
    return BASE_OK;
}

static base_status check_listed(const planner_problem *problem, const size_t *offsets, bool fixed_only,
                                base_report *report) {
    for (size_t i = 0; i < problem->buffer_count; i++) {
        if (problem->buffers[i].size == 0 || (fixed_only && problem->buffers[i].fixed == PLANNER_NOT_FIXED))
            continue;
        for (size_t k = problem->starts[i]; k < problem->starts[i + 1]; k++) {
            size_t other = problem->neighbours[k];
            if (problem->buffers[other].size == 0 ||
                (fixed_only && problem->buffers[other].fixed == PLANNER_NOT_FIXED)) {
                continue;
            }
            const planner_overwrite *over = planner_problem_overwrite_of(problem, i),
                                    *back = planner_problem_overwrite_of(problem, other);
            if (over && over->target == other && planner_problem_is_within_target(problem, over, offsets))
                continue;
            if (back && back->target == i && planner_problem_is_within_target(problem, back, offsets))
                continue;
            if (overlap(problem, offsets, i, other)) return fail_overlap(problem, offsets, i, other, report);
        }
    }
    return BASE_OK;
}

/* No two buffers share a byte, whenever they are live. */
static base_status check_preserved(const planner_problem *problem, const size_t *offsets, base_arena *arena,
                                   base_report *report) {
    size_t n = problem->buffer_count, count = 0;
    planner_key *order = BASE_ARRAY(arena, planner_key, n + 1),
                *scratch = BASE_ARRAY(arena, planner_key, n + 1);
    if (!order || !scratch) return base_fail_memory(report);
    for (size_t i = 0; i < n; i++) {
        if (problem->buffers[i].size > 0) order[count++] = (planner_key){offsets[i], (uint32_t)i};
    }
    planner_sort_keys(order, count, scratch);
    for (size_t i = 1; i < count; i++) {
        if (overlap(problem, offsets, order[i - 1].buffer, order[i].buffer)) {
            return base_fail(report, BASE_INVALID,
                             "buffers %" PRIu32 " and %" PRIu32 " share bytes, but all are to be preserved",
                             order[i - 1].buffer, order[i].buffer);
        }
    }
    return BASE_OK;
}

/* What is live all the time lies outside of the shared part, everything else in it. */
static base_status check_apart(const planner_problem *problem, const planner_solution *solution,
                               base_report *report) {
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (size_t i = 0; i < problem->buffer_count; i++) {
        if (problem->buffers[i].first < first) first = problem->buffers[i].first;
        if (problem->buffers[i].last > last) last = problem->buffers[i].last;
    }
    for (size_t i = 0; i < problem->buffer_count; i++) {
        const planner_buffer *b = &problem->buffers[i];
        size_t offset = solution->offsets[i], end = offset + b->size;
        bool persistent = b->first == first && b->last == last;
        bool inside = offset >= solution->shared_low && end <= solution->shared_high;
        bool outside = end <= solution->shared_low || offset >= solution->shared_high;
        if (b->size > 0 && !(persistent ? outside : inside)) {
            return base_fail(report, BASE_INVALID,
                             "buffer %zu (offset %zu, size %zu) lies %s the shared part [%zu, %zu)", i,
                             offset, b->size, persistent ? "in" : "outside of", solution->shared_low,
                             solution->shared_high);
        }
    }
    return BASE_OK;
}

base_status planner_check(const planner_problem *problem, const planner_solution *solution, base_arena *arena,
                          base_report *report) {
    for (size_t i = 0; i < problem->buffer_count; i++) {
        const planner_buffer *b = &problem->buffers[i];
        size_t end, offset = solution->offsets[i];
        if (offset & (planner_problem_alignment(b) - 1)) {
            return base_fail(report, BASE_INVALID,
                             "buffer %zu lies at %zu, not a multiple of its alignment %zu", i, offset,
                             planner_problem_alignment(b));
        }
        if (b->fixed != PLANNER_NOT_FIXED && offset != b->fixed) {
            return base_fail(report, BASE_INVALID, "buffer %zu lies at %zu, but is fixed at %zu", i, offset,
                             b->fixed);
        }
        if (!base_size_add(offset, b->size, &end) || (b->size > 0 && end > solution->height)) {
            return base_fail(report, BASE_INVALID,
                             "buffer %zu (offset %zu, size %zu) ends above the height %zu", i, offset,
                             b->size, solution->height);
        }
    }
    base_status status = BASE_OK;
    if (solution->preserved) status = check_preserved(problem, solution->offsets, arena, report);
    if (status == BASE_OK && solution->apart) status = check_apart(problem, solution, report);
    if (status != BASE_OK) return status;
    if (problem->starts) return check_listed(problem, solution->offsets, false, report);
    return check_ranges(problem, solution->offsets, false, arena, report);
}

/* Buffers that the user pinned must not collide before any planner is asked. */
base_status planner_problem_check_fixed(const planner_problem *problem, base_arena *arena,
                                        base_report *report) {
    size_t *offsets = BASE_ARRAY(arena, size_t, problem->buffer_count + 1), fixed = 0;
    if (!offsets) return base_fail_memory(report);
    for (size_t i = 0; i < problem->buffer_count; i++) {
        offsets[i] = problem->buffers[i].fixed;
        fixed += offsets[i] != PLANNER_NOT_FIXED;
    }
    if (fixed == 0) return BASE_OK;
    if (problem->starts) return check_listed(problem, offsets, true, report);
    return check_ranges(problem, offsets, true, arena, report);
}
