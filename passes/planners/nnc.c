/* SPDX-License-Identifier: Apache-2.0 */
/* nnc.c: the NNC tensor allocation algorithm: regions of memory handed on from tensor to tensor.
 *
 * The allocation graph has a node for every placed buffer, a source and a sink. An edge a -> b of weight w
 * says that b gets w bytes from a. All edges between the same two nodes are one range of addresses here: an
 * edge carries [offset, offset + w), not only w. Edges that leave a buffer share out its range, those that
 * enter a buffer add up to its range, so every buffer is contiguous by construction. A buffer may take
 * adjacent ranges of several edges (a large one gets its bytes from several small ones, and hands them back),
 * and a range that is too short at the top of the memory is made up by the source, whose reservoir is
 * endless.
 *
 * The graph needs no edges stored: with offsets known, the edge that covers an address between two steps goes
 * from the last holder of the address before to the first one after. "An edge whose ends do not interfere
 * with the buffer, with enough weight" is a range that no interfering placed buffer holds, and that is how it
 * is looked for: occupancy.h finds it without looking at every one of them.
 *
 *   1. Buffers in the order of size (largest first), then number of interferences (most first), then number.
 *   2. A buffer for which a range below the present height is free takes it: its upper end if the range is
 * longer; of several ranges the highest.
 *   3. Otherwise it goes on top of all that it interferes with, and the source adds what is missing. Two
 * companions may come with it, the next ones in order that interfere neither with it nor with each other, of
 * at least half its size: the same new range serves them all, one after the other.
 *   4. Offsets are then read off the graph once more: ranges are pushed up to the top in the order of
 * their ends, then compacted down to the lowest free range in the order of their offsets. Who hands on to whom can change thereby,
 * never whom a buffer meets.
 *
 * What the source of the algorithm leaves open was decided by measuring height over lower bound, on the mean
 * of six published problems (A, C, E, F, H and J of minimalloc's benchmark; greedy-by-size: 1.359):
 *
 *                                       edge taken:  highest   smallest   lowest
 *     as below                                       1.277     1.317      1.334
 *     without companions                             1.278     1.334      1.345
 *     without step 4                                 1.443     1.418      1.363
 *     ties that fit before ties that do not          1.292     1.342      1.339
 *
 * Companions at every insertion instead of new ranges only: 1.307. See docs/ALLOCATION.md.
 *
 * Source: "The NNC Tensor Allocation Algorithm" of the libnnc documentation.
 */
#include "passes/planners/planners.h"
#include "passes/planners/occupancy.h"
#include "passes/planners/base/budget.h"
#include "passes/planners/base/sorting.h"
#include <string.h>

enum {
    COMPANIONS = 2,      /* with the first one a tuple of three */
    COMPANION_SCAN = 512 /* how far down the order companions are looked for */
};

/* A buffer in the row of all, so that to look for companions is to read on. */
typedef struct in_order {
    int64_t first, last;
    size_t size;
} in_order;

typedef struct allocation {
    const planner_problem *problem;
    in_order *row; /* in the order in which buffers are placed */
    occupancy taken;
    bool *placed;
    planner_key *keys, *scratch; /* for sorting */
    size_t *offsets;
    size_t height;
    double deadline; /* on planner_budget_clock; 0: none */
} allocation;

static size_t alignment_of(const allocation *a, uint32_t buffer) {
    size_t alignment = a->problem->buffers[buffer].alignment;
    return alignment ? alignment : 1;
}

static size_t end_of(const allocation *a, uint32_t buffer) {
    return a->offsets[buffer] + a->problem->buffers[buffer].size;
}

static bool place(allocation *a, uint32_t buffer, size_t offset) {
    a->offsets[buffer] = offset;
    a->placed[buffer] = true;
    if (end_of(a, buffer) > a->height) a->height = end_of(a, buffer);
    return planner_occupancy_add(&a->taken, buffer, offset);
}

/* Fills the range just made for order[at] with buffers that can follow or precede it there. */
static bool place_companions(allocation *a, const uint32_t *order, size_t count, size_t at) {
    const in_order *row = a->row;
    const bool listed = a->problem->starts != NULL;
    uint32_t tuple[1 + COMPANIONS] = {order[at]};
    size_t members = 1, offset = a->offsets[order[at]];
    size_t limit = count - at > COMPANION_SCAN ? at + COMPANION_SCAN : count;
    for (size_t k = at + 1; k < limit && members <= COMPANIONS; k++) {
        if (row[k].size < row[at].size / 2 + row[at].size % 2) break;
        if (!listed && row[k].first < row[at].last && row[at].first < row[k].last) continue;
        uint32_t other = order[k];
        if (a->placed[other] || offset & (alignment_of(a, other) - 1)) continue;
        size_t m = 0;
        while (m < members && !planner_interfere(a->problem, tuple[m], other)) m++;
        if (m < members || !planner_occupancy_is_free(&a->taken, other, offset)) continue;
        if (!place(a, other, offset)) return false;
        tuple[members++] = other;
    }
    return true;
}

/* Sorts by the keys that stand at the numbers of the order. */
static void sort(allocation *a, uint32_t *order, size_t count) {
    for (size_t k = 0; k < count; k++) a->keys[k].buffer = order[k];
    planner_sort_keys(a->keys, count, a->scratch);
    for (size_t k = 0; k < count; k++) order[k] = a->keys[k].buffer;
}

/* Size, largest first; interferences, most first; number. */
static bool sort_by_size(allocation *a, uint32_t *order, size_t count) {
    const uint32_t *degrees = planner_occupancy_degrees(&a->taken);
    if (!degrees) return false;
    for (size_t k = 0; k < count; k++) a->keys[k].key = UINT32_MAX - degrees[order[k]];
    sort(a, order, count);
    for (size_t k = 0; k < count; k++) a->keys[k].key = SIZE_MAX - a->problem->buffers[order[k]].size;
    sort(a, order, count);
    return true;
}

/* The lowest offset among the buffers that are pushed up already and interfere with one. */
typedef struct push {
    const planner_problem *problem;
    occupancy *tree;
    uint32_t *offsets; /* in units of the tree; UINT32_MAX: not pushed up yet */
    /* By node of the tree: the lowest anywhere in it, and of those that cover it; and by position. */
    uint32_t *any, *all, *positions;
} push;

static uint32_t lowest_above(push *h, uint32_t buffer) {
    uint32_t lowest = UINT32_MAX;
    if (h->problem->starts) {
        for (size_t k = h->problem->starts[buffer]; k < h->problem->starts[buffer + 1]; k++) {
            uint32_t offset = h->offsets[h->problem->neighbours[k]];
            if (offset < lowest) lowest = offset;
        }
        return lowest;
    }
    const occupancy_span *span = planner_occupancy_find_span(h->tree, buffer);
    for (unsigned i = 0; i < span->within_count; i++)
        if (h->any[span->within[i]] < lowest) lowest = h->any[span->within[i]];
    uint32_t above[OCCUPANCY_NODES];
    for (uint32_t i = planner_occupancy_find_above(h->tree, buffer, above); i-- > 0;)
        if (h->all[above[i]] < lowest) lowest = h->all[above[i]];
    for (unsigned i = 0; i < span->edge_count; i++) {
        const uint32_t *positions = h->positions + h->tree->blocks[span->edges[i].block].start;
        const size_t end = span->edges[i].end;
        for (size_t k = span->edges[i].begin; k < end; k++)
            lowest = positions[k] < lowest ? positions[k] : lowest;
    }
    return lowest;
}

/* A buffer lies below all that it interferes with and that is pushed up already: its offset is the lowest everywhere. */
static void pushed_to(push *h, uint32_t buffer, uint32_t offset) {
    h->offsets[buffer] = offset;
    if (h->problem->starts) return;
    const occupancy_span *span = planner_occupancy_find_span(h->tree, buffer);
    for (unsigned i = 0; i < span->within_count; i++)
        h->any[span->within[i]] = h->all[span->within[i]] = offset;
    uint32_t above[OCCUPANCY_NODES];
    for (uint32_t i = planner_occupancy_find_above(h->tree, buffer, above); i-- > 0;)
        if (offset < h->any[above[i]]) h->any[above[i]] = offset;
    for (unsigned i = 0; i < span->edge_count; i++) {
        uint32_t *positions = h->positions + h->tree->blocks[span->edges[i].block].start;
        const size_t end = span->edges[i].end;
        for (size_t k = span->edges[i].begin; k < end; k++) positions[k] = offset;
    }
}

/* Fetches what the next ones need, as planner_occupancy_expect does. */
static void expect_to_push(const push *h, const uint32_t *order, size_t count) {
    enum { EARLY = 8 };
    if (h->problem->starts || count == 0) return;
    if (count > EARLY) __builtin_prefetch(&h->tree->lives[order[EARLY]]);
    const occupancy_span *span = planner_occupancy_find_span(h->tree, order[0]);
    for (unsigned i = 0; i < span->edge_count; i++) {
        const uint32_t *positions = h->positions + h->tree->blocks[span->edges[i].block].start;
        for (size_t k = span->edges[i].begin; k < span->edges[i].end; k += 64 / sizeof *positions)
            __builtin_prefetch(positions + k);
    }
}

/* Every buffer as high as the height allows, without passing another one that it interferes with. */
static bool push_up(allocation *a, uint32_t *order, size_t count, base_arena *arena) {
    size_t buffers = a->problem->buffer_count, nodes = 2 * a->taken.leaves;
    push h = {.problem = a->problem,
              .tree = &a->taken,
              .offsets = BASE_ARRAY(arena, uint32_t, buffers + 1),
              .any = BASE_ARRAY(arena, uint32_t, nodes),
              .all = BASE_ARRAY(arena, uint32_t, nodes),
              .positions = BASE_ARRAY(arena, uint32_t, buffers + 1)};
    const uint32_t top = occupancy_units(&a->taken, a->height);
    if (!h.offsets || !h.any || !h.all || !h.positions) return false;
    for (size_t k = 0; k < count; k++) a->keys[k].key = SIZE_MAX - end_of(a, order[k]);
    sort(a, order, count);
    for (size_t i = 0; i < buffers; i++) h.offsets[i] = h.positions[i] = UINT32_MAX;
    for (size_t i = 0; i < nodes; i++) h.any[i] = h.all[i] = UINT32_MAX;
    for (size_t k = 0; k < count; k++) {
        expect_to_push(&h, order + k + 1, count - k - 1);
        const occupancy_life *life = &a->taken.lives[order[k]];
        uint32_t end = lowest_above(&h, order[k]);
        if (end > top) end = top;
        /* It is free at least down to where it lay: those above it have only risen. */
        pushed_to(&h, order[k], (end - life->size) & ~(life->alignment - 1));
    }
    for (size_t k = 0; k < count; k++) /* of empty ones it stays */
        a->offsets[order[k]] = (size_t)h.offsets[order[k]] << a->taken.shift;
    return true;
}

/* Every buffer to the lowest free range, in the order of offsets, among what is taken already. Where the time is over, the
 * height is SIZE_MAX. */
static bool compact_down(allocation *a, uint32_t *order, size_t count) {
    for (size_t k = 0; k < count; k++) a->keys[k].key = a->offsets[order[k]];
    sort(a, order, count);
    for (size_t k = 0; k < count; k++) {
        if (planner_budget_has_passed(a->deadline, k)) {
            a->height = SIZE_MAX;
            return true;
        }
        planner_occupancy_expect(&a->taken, order + k + 1, count - k - 1);
        if (!place(a, order[k], planner_occupancy_lowest(&a->taken, order[k]))) return false;
    }
    return true;
}

/* Step 4. What the user pinned cannot be pushed, so that then only the second half is done. */
static bool compact(allocation *a, uint32_t *order, size_t count, bool pinned, base_arena *arena) {
    size_t before_height = a->height;
    size_t *kept = BASE_ARRAY(arena, size_t, a->problem->buffer_count + 1);
    if (!kept) return false;
    memcpy(kept, a->offsets, a->problem->buffer_count * sizeof *kept);
    if (!pinned && !push_up(a, order, count, arena)) return false;
    a->height = 0;
    planner_occupancy_clear(&a->taken, OCCUPANCY_LOWEST);
    for (uint32_t i = 0; pinned && i < a->problem->buffer_count; i++) {
        if (a->problem->buffers[i].fixed != PLANNER_NOT_FIXED && a->problem->buffers[i].size > 0 &&
            !place(a, i, a->problem->buffers[i].fixed)) {
            return false;
        }
    }
    if (!compact_down(a, order, count)) return false;
    if (a->height > before_height) {
        memcpy(a->offsets, kept, a->problem->buffer_count * sizeof *kept);
        a->height = before_height;
    }
    return true;
}

static base_status run(const planner_problem *problem, const planner_options *options, base_arena *arena,
                       planner_solution *solution, base_report *report) {
    allocation a = {.problem = problem, .offsets = solution->offsets, .deadline = options->deadline};
    uint32_t *order = BASE_ARRAY(arena, uint32_t, problem->buffer_count + 1);
    a.placed = BASE_ARRAY(arena, bool, problem->buffer_count + 1);
    a.keys = BASE_ARRAY(arena, planner_key, problem->buffer_count + 1);
    a.scratch = BASE_ARRAY(arena, planner_key, problem->buffer_count + 1);
    if (!order || !a.placed || !a.keys || !a.scratch ||
        !planner_occupancy_init(&a.taken, problem, OCCUPANCY_HIGHEST, arena))
        return base_fail_memory(report);
    size_t count = 0;
    bool pinned = false;
    for (uint32_t i = 0; i < problem->buffer_count; i++) {
        const planner_buffer *buffer = &problem->buffers[i];
        a.offsets[i] = buffer->fixed == PLANNER_NOT_FIXED ? 0 : buffer->fixed;
        if (buffer->size == 0) continue;
        if (buffer->fixed == PLANNER_NOT_FIXED) {
            order[count++] = i;
        } else {
            if (!place(&a, i, buffer->fixed)) return base_fail_memory(report);
            pinned = true;
        }
    }
    a.row = BASE_ARRAY(arena, in_order, count);
    if (!a.row || !sort_by_size(&a, order, count)) return base_fail_memory(report);
    for (size_t k = 0; k < count; k++) {
        const planner_buffer *buffer = &problem->buffers[order[k]];
        a.row[k] = (in_order){buffer->first, buffer->last, buffer->size};
    }
    for (size_t k = 0; k < count; k++) {
        size_t offset;
        if (a.placed[order[k]]) continue;
        if ((solution->gave_up = planner_budget_has_passed(a.deadline, k))) return BASE_OK;
        planner_occupancy_expect(&a.taken, order + k + 1, count - k - 1);
        bool found = planner_occupancy_highest(&a.taken, order[k], a.height, &offset);
        if (!place(&a, order[k], offset) || (!found && !place_companions(&a, order, count, k)))
            return base_fail_memory(report);
    }
    if (a.height > solution->lower_bound && !compact(&a, order, count, pinned, arena))
        return base_fail_memory(report);
    return BASE_OK;
}

const planner planner_nnc = {
    "nnc", "regions handed on through a weighted allocation graph, largest tensors first", run, false};
