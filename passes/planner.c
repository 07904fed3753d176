/* planner.c: the table of planners, what all of them are given and what becomes of their answers. */
#include "passes/planner.h"
#include "passes/planner_modes.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const planner *const planners[] = {
    &planner_auto, &planner_nnc,  &planner_greedy_by_size, &planner_chunk_simulation,
    &planner_bfc,  &planner_pool, &planner_exact};

const planner *planner_at(size_t index) {
    return index < sizeof planners / sizeof *planners ? planners[index] : NULL;
}

const planner *planner_find(const char *name) {
    for (size_t i = 0; i < sizeof planners / sizeof *planners; i++) {
        if (strcmp(planners[i]->name, name) == 0) return planners[i];
    }
    return NULL;
}

static size_t alignment_of(const planner_buffer *buffer) {
    return buffer->alignment ? buffer->alignment : 1;
}

/* ---- the problem --------------------------------------------------------------------------------------- */

static base_status check_buffers(const planner_problem *problem, base_report *report) {
    size_t total = 0; /* no offset that a planner can come to is beyond this */
    for (size_t i = 0; i < problem->buffer_count; i++) {
        const planner_buffer *b = &problem->buffers[i];
        size_t alignment = alignment_of(b), rounded, end = 0;
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

static bool listed(const planner_problem *problem, size_t a, size_t b) {
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
            if (!listed(problem, other, i)) {
                return base_fail(
                    report, BASE_INVALID,
                    "buffer %zu is said to interfere with buffer %zu, but not the other way round", i, other);
            }
        }
    }
    return BASE_OK;
}

/* ---- events: the one way in which this file looks at live ranges --------------------------------------- */

typedef struct event {
    int64_t step;
    bool begins; /* ends stand before beginnings: the step after the last is free */
    size_t buffer;
} event;

static int compare_events(const void *left, const void *right) {
    const event *a = left, *b = right;
    if (a->step != b->step) return a->step < b->step ? -1 : 1;
    if (a->begins != b->begins) return a->begins ? 1 : -1;
    return a->buffer < b->buffer ? -1 : a->buffer > b->buffer;
}

static event *events_of(const planner_problem *problem, bool fixed_only, base_arena *arena, size_t *count) {
    event *events = BASE_ARRAY(arena, event, 2 * problem->buffer_count + 1);
    *count = 0;
    if (!events) return NULL;
    for (size_t i = 0; i < problem->buffer_count; i++) {
        const planner_buffer *b = &problem->buffers[i];
        if (b->size == 0 || (fixed_only && b->fixed == PLANNER_NOT_FIXED)) continue;
        events[(*count)++] = (event){b->first, true, i};
        events[(*count)++] = (event){b->last, false, i};
    }
    qsort(events, *count, sizeof *events, compare_events);
    return events;
}

/* ---- the lower bound ----------------------------------------------------------------------------------- */

/* Where interference is listed, live at one step does not mean interfering: sums of sets of buffers that all
 * interfere with each other are the bound then. One such set is collected around each buffer, in the order of
 * its list; the largest possible one is too hard to find. */
static size_t bound_of_lists(const planner_problem *problem) {
    enum { MEMBERS = 64 };
    size_t bound = 0;
    for (size_t i = 0; i < problem->buffer_count; i++) {
        size_t members[MEMBERS], count = 0, sum = problem->buffers[i].size;
        members[count++] = i;
        for (size_t k = problem->starts[i]; k < problem->starts[i + 1] && count < MEMBERS; k++) {
            size_t other = problem->neighbours[k], m = 0;
            while (m < count && listed(problem, members[m], other)) m++;
            if (m < count) continue;
            members[count++] = other;
            sum += problem->buffers[other].size;
        }
        if (sum > bound) bound = sum;
    }
    return bound;
}

base_status planner_lower_bound(const planner_problem *problem, base_arena *arena, size_t *bound,
                                base_report *report) {
    *bound = 0;
    size_t count, live = 0;
    if (problem->starts) {
        *bound = bound_of_lists(problem);
        return BASE_OK;
    }
    event *events = events_of(problem, false, arena, &count);
    if (!events) return base_fail_memory(report);
    for (size_t i = 0; i < count; i++) {
        size_t size = problem->buffers[events[i].buffer].size;
        live = events[i].begins ? live + size : live - size;
        if (live > *bound) *bound = live;
    }
    return BASE_OK;
}

/* ---- the checker --------------------------------------------------------------------------------------- */

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

typedef struct placed {
    size_t offset, buffer;
} placed;

static int compare_placed(const void *left, const void *right) {
    const placed *a = left, *b = right;
    if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
    return a->buffer < b->buffer ? -1 : a->buffer > b->buffer;
}

/* All buffers have ranks by their offsets. As long as no live ones overlap, a new one can only meet the next live one
 * below it and the next above. */
static base_status check_ranges(const planner_problem *problem, const size_t *offsets, bool fixed_only,
                                base_arena *arena, base_report *report) {
    size_t count, n = problem->buffer_count;
    event *events = events_of(problem, fixed_only, arena, &count);
    placed *order = BASE_ARRAY(arena, placed, n + 1);
    size_t *ranks = BASE_ARRAY(arena, size_t, n + 1);
    rank_set live;
    if (!events || !order || !ranks || !rank_set_init(&live, n, arena)) return base_fail_memory(report);
    for (size_t i = 0; i < n; i++) order[i] = (placed){offsets[i], i};
    qsort(order, n, sizeof *order, compare_placed);
    for (size_t i = 0; i < n; i++) ranks[order[i].buffer] = i;
    for (size_t i = 0; i < count; i++) {
        size_t buffer = events[i].buffer, rank = ranks[buffer];
        if (!events[i].begins) {
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
            if (overlap(problem, offsets, i, other)) return fail_overlap(problem, offsets, i, other, report);
        }
    }
    return BASE_OK;
}

/* No two buffers share a byte, whenever they are live. */
static base_status check_preserved(const planner_problem *problem, const size_t *offsets, base_arena *arena,
                                   base_report *report) {
    size_t n = problem->buffer_count, count = 0;
    placed *order = BASE_ARRAY(arena, placed, n + 1);
    if (!order) return base_fail_memory(report);
    for (size_t i = 0; i < n; i++) {
        if (problem->buffers[i].size > 0) order[count++] = (placed){offsets[i], i};
    }
    qsort(order, count, sizeof *order, compare_placed);
    for (size_t i = 1; i < count; i++) {
        if (overlap(problem, offsets, order[i - 1].buffer, order[i].buffer)) {
            return base_fail(report, BASE_INVALID,
                             "buffers %zu and %zu share bytes, but all are to be preserved",
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
        if (offset & (alignment_of(b) - 1)) {
            return base_fail(report, BASE_INVALID,
                             "buffer %zu lies at %zu, not a multiple of its alignment %zu", i, offset,
                             alignment_of(b));
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

/* ---- running a planner --------------------------------------------------------------------------------- */

/* Buffers that the user pinned must not collide before any planner is asked. */
static base_status check_fixed(const planner_problem *problem, base_arena *arena, base_report *report) {
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

/* The planner, on the problem as the options want it. */
static base_status run_modes(const planner *chosen, const planner_problem *problem,
                             const planner_options *options, base_arena *arena, planner_solution *solution,
                             base_report *report) {
    planner_problem changed = *problem;
    const bool *persistent = NULL;
    if ((options->preserve_all && !planner_preserve(problem, arena, &changed)) ||
        (options->persistent_apart && !(persistent = planner_persistent(problem, arena)))) {
        return base_fail_memory(report);
    }
    base_status status = check_fixed(&changed, arena, report);
    if (status == BASE_OK) status = planner_lower_bound(&changed, arena, &solution->lower_bound, report);
    if (status != BASE_OK) return status;
    size_t bound = solution->lower_bound;
    if (persistent)
        status = planner_run_apart(chosen, &changed, persistent, options, arena, solution, report);
    else status = chosen->run(&changed, options, arena, solution, report);
    if (solution->lower_bound < bound) solution->lower_bound = bound;
    solution->preserved = options->preserve_all;
    solution->apart = options->persistent_apart;
    return status;
}

base_status planner_run(const planner *chosen, const planner_problem *problem, const planner_options *options,
                        base_arena *arena, planner_solution *solution, base_report *report) {
    *solution = (planner_solution){0};
    base_arena scratch;
    base_arena_init(&scratch, arena->allocator);
    solution->offsets = BASE_ARRAY(arena, size_t, problem->buffer_count + 1);
    base_status status = solution->offsets ? BASE_OK : base_fail_memory(report);
    if (problem->buffer_count >= UINT32_MAX) {
        status = base_fail(report, BASE_INVALID, "more than %u buffers are not supported", UINT32_MAX - 1);
    }
    if (status == BASE_OK) status = check_buffers(problem, report);
    if (status == BASE_OK) status = check_lists(problem, report);
    if (status == BASE_OK) status = run_modes(chosen, problem, options, &scratch, solution, report);
    if (status == BASE_OK) {
        solution->height = 0;
        for (size_t i = 0; i < problem->buffer_count; i++) {
            size_t end = solution->offsets[i] + problem->buffers[i].size;
            if (problem->buffers[i].size > 0 && end > solution->height) solution->height = end;
        }
        solution->optimal = solution->height <= solution->lower_bound;
        status = planner_check(problem, solution, &scratch, report);
    }
    base_arena_free(&scratch);
    return status;
}
