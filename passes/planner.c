/* planner.c: the table of planners, what all of them are given and what becomes of their answers. */
#include "passes/planner.h"
#include "passes/planner_modes.h"
#include "passes/planners/sorting.h"
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

static const planner_overwrite *overwrite_of(const planner_problem *problem, size_t buffer) {
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

/* ---- events: the one way in which this file looks at live ranges --------------------------------------- */

typedef struct event {
    int64_t step;
    size_t mark; /* twice the buffer, and one more where its live range begins */
} event;

/* By step; those that are equal stay in their order. In passes over the bytes in which steps differ: there are twice as
 * many events as buffers, and comparing them would take longer than planning them. */
static void sort_events(event *events, event *room, size_t count) {
    const uint64_t sign = (uint64_t)1 << 63;
    uint64_t differ = 0;
    for (size_t i = 1; i < count; i++) differ |= (uint64_t)events[i].step ^ (uint64_t)events[0].step;
    event *from = events, *to = room;
    for (int shift = 0; shift < 64; shift += 8) {
        size_t starts[257] = {0};
        if (!(differ >> shift & 255)) continue;
        for (size_t i = 0; i < count; i++) starts[(((uint64_t)from[i].step ^ sign) >> shift & 255) + 1]++;
        for (size_t d = 0; d < 256; d++) starts[d + 1] += starts[d];
        for (size_t i = 0; i < count; i++)
            to[starts[((uint64_t)from[i].step ^ sign) >> shift & 255]++] = from[i];
        event *swap = from;
        from = to;
        to = swap;
    }
    if (from != events) memcpy(events, from, count * sizeof *events);
}

/* Does this overwrite need the permission, and does the solution use it? Then its target holds its bytes during its
 * first step. Without offsets: could it? */
static bool is_within_target(const planner_problem *problem, const planner_overwrite *over,
                             const size_t *offsets) {
    if (!problem->starts && problem->buffers[over->target].last == problem->buffers[over->buffer].first)
        return false;
    if (!offsets) return true;
    return offsets[over->target] != PLANNER_NOT_FIXED && offsets[over->buffer] >= over->at &&
           offsets[over->buffer] - over->at == offsets[over->target];
}

static event *events_of(const planner_problem *problem, const size_t *offsets, bool fixed_only,
                        base_arena *arena, size_t *count) {
    event *events = BASE_ARRAY(arena, event, 2 * problem->buffer_count + 1);
    event *room = BASE_ARRAY(arena, event, 2 * problem->buffer_count + 1);
    const planner_overwrite *over = problem->overwrites, *end = over + problem->overwrite_count;
    size_t found = 0;
    if (!events || !room) return NULL;
    for (size_t i = 0; i < problem->buffer_count; i++) {
        const planner_buffer *b = &problem->buffers[i];
        const planner_overwrite *own = over < end && over->buffer == i ? over++ : NULL;
        if (b->size == 0 || (fixed_only && b->fixed == PLANNER_NOT_FIXED)) continue;
        int64_t first = b->first;
        if (own && is_within_target(problem, own, offsets) && ++first == b->last) continue;
        events[found] = (event){b->last, 2 * i};
        room[found++] = (event){first, 2 * i + 1};
    }
    /* Ends stand before beginnings: the step after the last is free. */
    memcpy(events + found, room, found * sizeof *room);
    *count = 2 * found;
    sort_events(events, room, *count);
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
        if (overwrite_of(problem, i)) continue; /* it may lie in another one */
        size_t members[MEMBERS], count = 0, sum = problem->buffers[i].size;
        members[count++] = i;
        for (size_t k = problem->starts[i]; k < problem->starts[i + 1] && count < MEMBERS; k++) {
            size_t other = problem->neighbours[k], m = 0;
            while (m < count && planner_is_listed(problem, members[m], other)) m++;
            if (m < count || overwrite_of(problem, other)) continue;
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
        if (b->size > 0) bits |= b->fixed == PLANNER_NOT_FIXED ? alignment_of(b) : b->fixed;
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
static base_status find_bounds(const planner_problem *problem, base_arena *arena, size_t *live_sum,
                               size_t *padded, base_report *report) {
    const size_t common = planner_common_alignment(problem);
    size_t count, live = 0, rounded = 0, most_rounded = 0;
    int64_t fullest = 0;
    *live_sum = *padded = 0;
    if (problem->starts) {
        *live_sum = *padded = bound_of_lists(problem);
        return BASE_OK;
    }
    event *events = events_of(problem, NULL, false, arena, &count);
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
    return find_bounds(problem, arena, bound, &padded, report);
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
        if (!is_within_target(problem, over, offsets)) continue;
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
    event *events = events_of(problem, offsets, fixed_only, arena, &count);
    planner_key *order = BASE_ARRAY(arena, planner_key, n + 1), *room = BASE_ARRAY(arena, planner_key, n + 1);
    uint32_t *ranks = BASE_ARRAY(arena, uint32_t, n + 1);
    rank_set live;
    if (!events || !order || !room || !ranks || !rank_set_init(&live, n, arena))
        return base_fail_memory(report);
    base_status status = check_within_targets(problem, offsets, fixed_only, arena, report);
    if (status != BASE_OK) return status;
    for (size_t i = 0; i < n; i++) order[i] = (planner_key){offsets[i], (uint32_t)i};
    planner_sort_keys(order, n, room);
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
            const planner_overwrite *over = overwrite_of(problem, i), *back = overwrite_of(problem, other);
            if (over && over->target == other && is_within_target(problem, over, offsets)) continue;
            if (back && back->target == i && is_within_target(problem, back, offsets)) continue;
            if (overlap(problem, offsets, i, other)) return fail_overlap(problem, offsets, i, other, report);
        }
    }
    return BASE_OK;
}

/* No two buffers share a byte, whenever they are live. */
static base_status check_preserved(const planner_problem *problem, const size_t *offsets, base_arena *arena,
                                   base_report *report) {
    size_t n = problem->buffer_count, count = 0;
    planner_key *order = BASE_ARRAY(arena, planner_key, n + 1), *room = BASE_ARRAY(arena, planner_key, n + 1);
    if (!order || !room) return base_fail_memory(report);
    for (size_t i = 0; i < n; i++) {
        if (problem->buffers[i].size > 0) order[count++] = (planner_key){offsets[i], (uint32_t)i};
    }
    planner_sort_keys(order, count, room);
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

/* The same problem for those who do not know overwrites. Where both buffers are pinned, and the one lies in the other
 * during its first step, it begins one step later, or takes no room at all. */
static bool forget_overwrites(const planner_problem *problem, base_arena *arena, planner_problem *plain) {
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
        if (!is_within_target(problem, &problem->overwrites[i], fixed)) continue;
        if (b->first + 1 < b->last) b->first++;
        else b->size = 0;
    }
    *plain = *problem;
    plain->buffers = buffers;
    plain->overwrites = NULL;
    plain->overwrite_count = 0;
    return true;
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
    size_t live_sum;
    if (status == BASE_OK) status = find_bounds(&changed, arena, &live_sum, &solution->lower_bound, report);
    if (status != BASE_OK) return status;
    size_t bound = solution->lower_bound;
    bool plain = changed.overwrite_count > 0 && !chosen->knows_overwrites;
    if (plain && !forget_overwrites(&changed, arena, &changed)) return base_fail_memory(report);
    if (persistent)
        status = planner_run_apart(chosen, &changed, persistent, options, arena, solution, report);
    else status = chosen->run(&changed, options, arena, solution, report);
    if (solution->lower_bound < bound || plain)
        solution->lower_bound = bound; /* what it proved was for less freedom */
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
    if (status == BASE_OK) status = check_overwrites(problem, report);
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
