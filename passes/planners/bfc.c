/* SPDX-License-Identifier: Apache-2.0 */
/* bfc.c: TensorFlow's best-fit with coalescing, replaying the schedule.
 *
 * Sizes are rounded up to 256 bytes. Free chunks stand in 21 bins by size (256 bytes, 512, ... 256 MiB and
 * more), in a bin by size and then address; the first chunk that is large enough is taken, beginning with the
 * bin of the size asked for: since bins are ordered by size, that is the smallest chunk that fits, the lowest
 * of equals, and one ordered set serves for all bins. A chunk is split when it is at least twice as large as
 * needed, or 128 MiB larger. A freed chunk is coalesced with free neighbours at once (there is no device to
 * wait for, so no freed chunk carries a time stamp). Where nothing fits, the region grows at its end, from
 * the last chunk if that is free.
 *
 * As a planner it knows the end of the story: one region suffices, and is as large as it ever became.
 * Fixed buffers and listed interference go to greedy-by-size.
 *
 * Source: TensorFlow, tensorflow/core/common_runtime/bfc_allocator.{h,cc}, as described in "TensorFlow optimisation" (2019)
 * and "Memory allocation in TensorFlow", two articles in Chinese.
 */
#include "passes/planners/planners.h"
#include "passes/planners/replay.h"

enum { BFC_UNIT = 256 };

typedef struct region {
    uint32_t *previous, *next; /* chunks in the order of addresses */
    bool *used;
    size_t *offsets, *sizes;
    uint32_t last, count, spare;
    size_t end;
    base_block_set free;
} region;

static uint32_t chunk_new(region *r, uint32_t previous, uint32_t next, size_t offset, size_t size) {
    uint32_t chunk = r->spare;
    if (chunk != BASE_NO_BLOCK) r->spare = r->next[chunk];
    else chunk = r->count++;
    r->previous[chunk] = previous;
    r->next[chunk] = next;
    r->offsets[chunk] = offset;
    r->sizes[chunk] = size;
    if (previous != BASE_NO_BLOCK) r->next[previous] = chunk;
    if (next != BASE_NO_BLOCK) r->previous[next] = chunk;
    else r->last = chunk;
    return chunk;
}

/* Grows the region at the end by `size`; gives the free chunk that now is large enough, out of the set. */
static uint32_t extend(region *r, size_t size) {
    uint32_t chunk = r->last;
    if (chunk != BASE_NO_BLOCK && !r->used[chunk]) {
        base_block_set_remove(&r->free, chunk);
    } else {
        chunk = chunk_new(r, r->last, BASE_NO_BLOCK, r->end, 0);
    }
    r->end = r->offsets[chunk] + size;
    r->sizes[chunk] = size;
    return chunk;
}

static uint32_t allocate(region *r, size_t size) {
    uint32_t chunk = base_block_set_find(&r->free, size);
    if (chunk == BASE_NO_BLOCK) {
        chunk = extend(r, size);
    } else {
        base_block_set_remove(&r->free, chunk);
        if (base_block_is_split(r->sizes[chunk], size)) {
            uint32_t rest =
                chunk_new(r, chunk, r->next[chunk], r->offsets[chunk] + size, r->sizes[chunk] - size);
            r->sizes[chunk] = size;
            r->used[rest] = false;
            base_block_set_add(&r->free, rest);
        }
    }
    r->used[chunk] = true;
    return chunk;
}

/* Merges `after` into `chunk`; both are free and out of the set. */
static void merge(region *r, uint32_t chunk, uint32_t after) {
    r->sizes[chunk] += r->sizes[after];
    r->next[chunk] = r->next[after];
    if (r->next[after] != BASE_NO_BLOCK) r->previous[r->next[after]] = chunk;
    else r->last = chunk;
    r->next[after] = r->spare;
    r->spare = after;
}

static void release(region *r, uint32_t chunk) {
    r->used[chunk] = false;
    uint32_t after = r->next[chunk], before = r->previous[chunk];
    if (after != BASE_NO_BLOCK && !r->used[after]) {
        base_block_set_remove(&r->free, after);
        merge(r, chunk, after);
    }
    if (before != BASE_NO_BLOCK && !r->used[before]) {
        base_block_set_remove(&r->free, before);
        merge(r, before, chunk);
        chunk = before;
    }
    base_block_set_add(&r->free, chunk);
}

static base_status run(const planner_problem *problem, const planner_options *options, base_arena *arena,
                       planner_solution *solution, base_report *report) {
    bool replayable = !problem->starts;
    size_t total = 0;
    for (size_t b = 0; b < problem->buffer_count; b++) {
        const planner_buffer *buffer = &problem->buffers[b];
        size_t rounded;
        replayable &= buffer->fixed == PLANNER_NOT_FIXED && buffer->alignment <= BFC_UNIT;
        if (!base_size_align(buffer->size, BFC_UNIT, &rounded) || !base_size_add(total, rounded, &total)) {
            return base_fail(report, BASE_INVALID,
                             "the sizes of the buffers add up to more than an address holds");
        }
    }
    if (!replayable) return planner_greedy_by_size.run(problem, options, arena, solution, report);

    size_t n = problem->buffer_count, capacity = 2 * n + 2, event_count;
    replay_event *events = planner_replay_events(problem, arena, &event_count);
    region r = {.previous = BASE_ARRAY(arena, uint32_t, capacity),
                .next = BASE_ARRAY(arena, uint32_t, capacity),
                .used = BASE_ARRAY(arena, bool, capacity),
                .offsets = BASE_ARRAY(arena, size_t, capacity),
                .sizes = BASE_ARRAY(arena, size_t, capacity),
                .last = BASE_NO_BLOCK,
                .spare = BASE_NO_BLOCK,
                .free = {.root = BASE_NO_BLOCK,
                         .left = BASE_ARRAY(arena, uint32_t, capacity),
                         .right = BASE_ARRAY(arena, uint32_t, capacity)}};
    uint32_t *chunks = BASE_ARRAY(arena, uint32_t, n);
    if (!events || !r.previous || !r.next || !r.used || !r.offsets || !r.sizes || !r.free.left ||
        !r.free.right || !chunks) {
        return base_fail_memory(report);
    }
    r.free.sizes = r.sizes;
    r.free.ties = r.offsets;
    for (size_t i = 0; i < event_count; i++) {
        uint32_t b = events[i].buffer;
        if (events[i].allocate) {
            size_t rounded;
            (void)base_size_align(problem->buffers[b].size, BFC_UNIT, &rounded); /* cannot fail: see above */
            chunks[b] = allocate(&r, rounded);
            solution->offsets[b] = r.offsets[chunks[b]];
        } else {
            release(&r, chunks[b]);
        }
    }
    return BASE_OK;
}

const planner planner_bfc = {
    .name = "bfc",
    .description = "TensorFlow's best-fit with coalescing, replaying the schedule",
    .run = run,
};
