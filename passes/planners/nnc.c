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
 * is looked for: overlaps.h finds the interfering ones, and the ranges between them are the candidates.
 *
 *   1. Buffers in the order of size (largest first), then number of interferences (most first), then number.
 *   2. A buffer for which a range below the present height is free takes it: its upper end if the range is
 * longer; of several ranges the highest.
 *   3. Otherwise it goes on top of all that it interferes with, and the source adds what is missing. Two
 * companions may come with it, the next ones in order that interfere neither with it nor with each other, of
 * at least half its size: the same new range serves them all, one after the other.
 *   4. Offsets are then read off the graph once more: ranges hang from the top in the order of their ends,
 * then they fall to the lowest place in the order of their offsets. Who hands on to whom can change thereby,
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
#include "passes/planners/overlaps.h"
#include <string.h>

enum {
    COMPANIONS = 2,       /* with the first one a tuple of three */
    COMPANION_SCAN = 4096 /* how far down the order companions are looked for */
};

typedef struct allocation {
    const planner_problem *problem;
    planner_overlaps overlaps;
    const uint32_t *degrees;
    size_t *offsets;
    size_t height;
} allocation;

static size_t alignment_of(const allocation *a, uint32_t buffer) {
    size_t alignment = a->problem->buffers[buffer].alignment;
    return alignment ? alignment : 1;
}

static size_t align_up(size_t value, size_t alignment) {
    return (value + alignment - 1) & ~(alignment - 1);
}

static size_t end_of(const allocation *a, uint32_t buffer) {
    return a->offsets[buffer] + a->problem->buffers[buffer].size;
}

static void place(allocation *a, uint32_t buffer, size_t offset) {
    a->offsets[buffer] = offset;
    planner_overlaps_add(&a->overlaps, buffer);
    if (end_of(a, buffer) > a->height) a->height = end_of(a, buffer);
}

/* Restores the heap of keys, the highest end at its root, below `at`. */
static void sink(planner_key *heap, size_t count, size_t at) {
    planner_key key = heap[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && heap[child].offset < heap[child + 1].offset) child++;
        if (heap[child].offset <= key.offset) break;
        heap[at] = heap[child];
    }
    heap[at] = key;
}

/* The upper end of the highest free range below the height; false: there is none, and *offset is on top of
 * all. Ranges are looked for from the top, where most are found: the buffers in the way come off a heap in the
 * order of their ends, and are rarely all wanted. */
static bool find_edge(allocation *a, uint32_t buffer, size_t *offset) {
    size_t size = a->problem->buffers[buffer].size, alignment = alignment_of(a, buffer), low = a->height;
    size_t count = planner_overlaps_find(&a->overlaps, buffer);
    planner_key *heap = a->overlaps.keys;
    for (size_t k = 0; k < count; k++)
        heap[k] = (planner_key){end_of(a, a->overlaps.found[k]), a->overlaps.found[k]};
    for (size_t k = count / 2; k-- > 0;) sink(heap, count, k);
    size_t top = count ? heap[0].offset : 0;
    for (;;) { /* what lies above `low` is taken, or too short */
        size_t end = count ? heap[0].offset : 0;
        if (low >= end && low - end >= size) {
            size_t at = (low - size) & ~(alignment - 1);
            if (at >= end) {
                *offset = at;
                return true;
            }
        }
        if (!count) break;
        if (a->offsets[heap[0].buffer] < low) low = a->offsets[heap[0].buffer];
        heap[0] = heap[--count];
        if (count) sink(heap, count, 0);
    }
    *offset = align_up(top, alignment);
    return false;
}

static bool is_free(allocation *a, uint32_t buffer, size_t offset) {
    size_t end = offset + a->problem->buffers[buffer].size,
           count = planner_overlaps_find(&a->overlaps, buffer);
    for (size_t k = 0; k < count; k++) {
        uint32_t other = a->overlaps.found[k];
        if (a->offsets[other] < end && offset < end_of(a, other)) return false;
    }
    return true;
}

/* Fills the range just made for order[at] with buffers that can follow or precede it there. */
static void place_companions(allocation *a, const uint32_t *order, size_t count, size_t at) {
    const planner_buffer *buffers = a->problem->buffers;
    uint32_t tuple[1 + COMPANIONS] = {order[at]};
    size_t members = 1, offset = a->offsets[order[at]];
    size_t limit = count - at > COMPANION_SCAN ? at + COMPANION_SCAN : count;
    for (size_t k = at + 1; k < limit && members <= COMPANIONS; k++) {
        uint32_t other = order[k];
        if (buffers[other].size < buffers[order[at]].size / 2 + buffers[order[at]].size % 2) break;
        if (a->overlaps.placed[other] || offset & (alignment_of(a, other) - 1)) continue;
        size_t m = 0;
        while (m < members && !planner_interfere(a->problem, tuple[m], other)) m++;
        if (m < members || !is_free(a, other, offset)) continue;
        place(a, other, offset);
        tuple[members++] = other;
    }
}

static bool before(const void *user, uint32_t x, uint32_t y) {
    const allocation *a = user;
    size_t size_x = a->problem->buffers[x].size, size_y = a->problem->buffers[y].size;
    if (size_x != size_y) return size_x > size_y;
    return a->degrees[x] > a->degrees[y];
}

static bool ends_higher(const void *user, uint32_t x, uint32_t y) {
    const allocation *a = user;
    return end_of(a, x) > end_of(a, y);
}

static bool starts_lower(const void *user, uint32_t x, uint32_t y) {
    const allocation *a = user;
    return a->offsets[x] < a->offsets[y];
}

/* Every buffer as high as the height allows, without passing another one that it interferes with. */
static bool hang(allocation *a, uint32_t *order, size_t count, base_arena *arena) {
    size_t *offsets = BASE_ARRAY(arena, size_t, a->problem->buffer_count + 1);
    if (!offsets || !planner_sort(order, count, ends_higher, a, arena)) return false;
    for (size_t k = 0; k < count; k++) planner_overlaps_remove(&a->overlaps, order[k]);
    for (size_t k = 0; k < count; k++) {
        size_t end = a->height, found = planner_overlaps_find(&a->overlaps, order[k]);
        for (size_t i = 0; i < found; i++) {
            if (offsets[a->overlaps.found[i]] < end) end = offsets[a->overlaps.found[i]];
        }
        /* There is room at least down to where it lay: those above it have only risen. */
        offsets[order[k]] = (end - a->problem->buffers[order[k]].size) & ~(alignment_of(a, order[k]) - 1);
        planner_overlaps_add(&a->overlaps, order[k]);
    }
    for (size_t k = 0; k < count; k++) a->offsets[order[k]] = offsets[order[k]]; /* of empty ones it stays */
    return true;
}

/* Every buffer to the lowest free range, in the order of offsets. */
static bool fall(allocation *a, uint32_t *order, size_t count, base_arena *arena) {
    if (!planner_sort(order, count, starts_lower, a, arena)) return false;
    for (size_t k = 0; k < count; k++) planner_overlaps_remove(&a->overlaps, order[k]);
    for (size_t k = 0; k < count; k++) {
        uint32_t buffer = order[k];
        size_t size = a->problem->buffers[buffer].size, alignment = alignment_of(a, buffer), offset = 0;
        size_t found = planner_overlaps_sorted(&a->overlaps, buffer, a->offsets);
        for (size_t i = 0; i < found; i++) {
            uint32_t other = a->overlaps.found[i];
            if (a->offsets[other] >= offset && a->offsets[other] - offset >= size) break;
            if (end_of(a, other) > offset) offset = align_up(end_of(a, other), alignment);
        }
        place(a, buffer, offset);
    }
    return true;
}

/* Step 4. What the user pinned cannot hang, so that then only the second half is done. */
static bool settle(allocation *a, uint32_t *order, size_t count, bool pinned, base_arena *arena) {
    size_t before_height = a->height;
    size_t *kept = BASE_ARRAY(arena, size_t, a->problem->buffer_count + 1);
    if (!kept) return false;
    memcpy(kept, a->offsets, a->problem->buffer_count * sizeof *kept);
    if (!pinned && !hang(a, order, count, arena)) return false;
    a->height = 0;
    if (!fall(a, order, count, arena)) return false;
    for (size_t i = 0; i < a->problem->buffer_count; i++) {
        if (a->problem->buffers[i].size > 0 && end_of(a, (uint32_t)i) > a->height)
            a->height = end_of(a, (uint32_t)i);
    }
    if (a->height > before_height) {
        memcpy(a->offsets, kept, a->problem->buffer_count * sizeof *kept);
        a->height = before_height;
    }
    return true;
}

static base_status run(const planner_problem *problem, const planner_options *options, base_arena *arena,
                       planner_solution *solution, base_report *report) {
    (void)options;
    allocation a = {.problem = problem, .offsets = solution->offsets};
    uint32_t *order = BASE_ARRAY(arena, uint32_t, problem->buffer_count + 1);
    a.degrees = planner_overlaps_degrees(problem, arena);
    if (!order || !a.degrees || !planner_overlaps_init(&a.overlaps, problem, arena))
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
            place(&a, i, buffer->fixed);
            pinned = true;
        }
    }
    if (!planner_sort(order, count, before, &a, arena)) return base_fail_memory(report);
    for (size_t k = 0; k < count; k++) {
        size_t offset;
        if (a.overlaps.placed[order[k]]) continue;
        bool found = find_edge(&a, order[k], &offset);
        place(&a, order[k], offset);
        if (!found) place_companions(&a, order, count, k);
    }
    if (a.height > solution->lower_bound && !settle(&a, order, count, pinned, arena))
        return base_fail_memory(report);
    return BASE_OK;
}

const planner planner_nnc = {
    "nnc", "regions handed on through a weighted allocation graph, largest tensors first", run};
