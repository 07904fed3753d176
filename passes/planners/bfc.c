/* SPDX-License-Identifier: Apache-2.0 */
/* bfc.c: TensorFlow's best-fit with coalescing, replaying the schedule.
 *
 * Sizes are rounded up to 256 bytes. The smallest free chunk that fits is taken, the lowest of equals. A chunk is split when it is
 * at least twice as large as needed, or 128 MiB larger. A freed chunk is coalesced with free neighbours at once (there is no device
 * to wait for, so no freed chunk carries a time stamp): ir/base/chunks.h. Where nothing fits, the region grows at its end, from
 * the last chunk if that is free.
 *
 * As a planner it knows the end of the story: one region suffices, and is as large as it ever became.
 * Fixed buffers and listed interference go to greedy-by-size.
 *
 * Source: TensorFlow, tensorflow/core/common_runtime/bfc_allocator.{h,cc}, as described in "TensorFlow optimisation" (2019)
 * and "Memory allocation in TensorFlow", two articles in Chinese.
 */
#include "ir/base/chunks.h"
#include "passes/planners/planners.h"
#include "passes/planners/replay.h"

enum { BFC_UNIT = 256 };

typedef struct region {
    base_chunks chunks;
    uint32_t last; /* the chunk at the end; BASE_NO_BLOCK while the region is empty */
    size_t end;
} region;

/* The chunk that has no neighbour after it is the last one. */
static void keep_last(region *r, uint32_t chunk) {
    if (r->chunks.next[chunk] == BASE_NO_BLOCK) r->last = chunk;
}

/* Grows the region at the end; gives a chunk of `size`, out of the set. */
static uint32_t extend(region *r, size_t size) {
    uint32_t chunk = r->last;
    if (chunk != BASE_NO_BLOCK && r->chunks.available[chunk]) base_chunk_take(&r->chunks, chunk);
    else chunk = base_chunk_new(&r->chunks, r->end, 0, r->last, BASE_NO_BLOCK);
    r->end = r->chunks.addresses[chunk] + size;
    r->chunks.sizes[chunk] = size;
    return chunk;
}

static uint32_t allocate(region *r, size_t size) {
    uint32_t chunk = base_block_set_find(&r->chunks.set, size);
    if (chunk == BASE_NO_BLOCK) {
        chunk = extend(r, size);
    } else {
        base_chunk_take(&r->chunks, chunk);
        if (base_block_is_split(r->chunks.sizes[chunk], size)) {
            const uint32_t rest = base_chunk_split(&r->chunks, chunk, size);
            base_chunk_put(&r->chunks, rest);
            keep_last(r, rest);
        }
    }
    keep_last(r, chunk);
    return chunk;
}

static void release(region *r, uint32_t chunk) {
    chunk = base_chunk_coalesce(&r->chunks, chunk);
    base_chunk_put(&r->chunks, chunk);
    keep_last(r, chunk);
}

static bool region_new(region *r, size_t capacity, base_arena *arena) {
    *r = (region){.last = BASE_NO_BLOCK};
    base_chunks_init(&r->chunks);
    r->chunks.addresses = BASE_ARRAY(arena, size_t, capacity);
    r->chunks.sizes = BASE_ARRAY(arena, size_t, capacity);
    r->chunks.previous = BASE_ARRAY(arena, uint32_t, capacity);
    r->chunks.next = BASE_ARRAY(arena, uint32_t, capacity);
    r->chunks.available = BASE_ARRAY(arena, bool, capacity);
    uint32_t *left = BASE_ARRAY(arena, uint32_t, capacity), *right = BASE_ARRAY(arena, uint32_t, capacity);
    base_chunks_attach(&r->chunks, left, right);
    return r->chunks.addresses && r->chunks.sizes && r->chunks.previous && r->chunks.next &&
           r->chunks.available && left && right;
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

    size_t n = problem->buffer_count, event_count;
    replay_event *events = planner_replay_events(problem, arena, &event_count);
    uint32_t *chunks = BASE_ARRAY(arena, uint32_t, n);
    region r;
    if (!events || !chunks || !region_new(&r, 2 * n + 2, arena)) return base_fail_memory(report);
    for (size_t i = 0; i < event_count; i++) {
        uint32_t b = events[i].buffer;
        if (events[i].allocate) {
            size_t rounded;
            (void)base_size_align(problem->buffers[b].size, BFC_UNIT, &rounded); /* cannot fail: see above */
            chunks[b] = allocate(&r, rounded);
            solution->offsets[b] = r.chunks.addresses[chunks[b]];
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
