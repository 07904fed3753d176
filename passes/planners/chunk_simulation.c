/* chunk_simulation.c: MegEngine's static memory planner: simulate taking and giving back chunks of memory,
 * then derive addresses from who lay before whom.
 *
 * The simulation keeps all blocks, used and free, in the order of addresses, no two free ones beside each
 * other, and the free ones by size. Freeing merges with free neighbours. Allocating has three cases:
 *   1. nothing is free: a new block at the end;
 *   2. a free block is large enough: the smallest such one; what is left of it stays free;
 *   3. free blocks are all too small: the largest one is stretched to the size asked for.
 * Because of case 3 a block's address is not known while simulating. What is known is the order: an allocated
 * chunk lies behind the used one before it, and before the used one behind it. These pairs form an acyclic
 * graph (live ranges are intervals, and among chunks that are live together the order is total); the address
 * of a chunk is the largest end of those that it lies behind, aligned.
 *
 * The source's overwriting of a sub-range of an input (write dependences) is decided before planning here
 * (passes/analyse_views.c, passes/choose_in_place.c): a planner sees the storages that remain.
 * Listed interference (loops) is not an interval, which a simulation of time cannot see: such problems, and
 * those with fixed buffers, go to greedy-by-size.
 *
 * Source: Zhou Ruiliang, "MegEngine architecture: static memory analysis" (2021).
 */
#include "passes/planners/replay.h"

typedef struct simulation {
    uint32_t *previous, *next; /* blocks in the order of addresses; REPLAY_NONE at the ends */
    uint32_t *buffers;         /* of a block; REPLAY_NONE: free */
    size_t *sizes;
    uint32_t first, last, count, spare; /* spare: blocks to be used again, linked by next */
    replay_set free;
} simulation;

static uint32_t block_new(simulation *s) {
    uint32_t block = s->spare;
    if (block != REPLAY_NONE) s->spare = s->next[block];
    else block = s->count++;
    s->buffers[block] = REPLAY_NONE;
    return block;
}

static void link_behind(simulation *s, uint32_t block, uint32_t before) {
    uint32_t behind = before == REPLAY_NONE ? s->first : s->next[before];
    s->previous[block] = before;
    s->next[block] = behind;
    if (before == REPLAY_NONE) s->first = block;
    else s->next[before] = block;
    if (behind == REPLAY_NONE) s->last = block;
    else s->previous[behind] = block;
}

static void unlink_block(simulation *s, uint32_t block) {
    uint32_t before = s->previous[block], behind = s->next[block];
    if (before == REPLAY_NONE) s->first = behind;
    else s->next[before] = behind;
    if (behind == REPLAY_NONE) s->last = before;
    else s->previous[behind] = before;
    s->next[block] = s->spare;
    s->spare = block;
}

static uint32_t allocate(simulation *s, uint32_t buffer, size_t size) {
    uint32_t block = replay_set_find(&s->free, size);
    if (block == REPLAY_NONE) block = replay_set_largest(&s->free);
    if (block == REPLAY_NONE) {
        block = block_new(s);
        link_behind(s, block, s->last);
        s->sizes[block] = size;
    } else {
        replay_set_remove(&s->free, block);
        if (s->sizes[block] > size) {
            uint32_t rest = block_new(s);
            s->sizes[rest] = s->sizes[block] - size;
            link_behind(s, rest, block);
            replay_set_add(&s->free, rest);
        }
        s->sizes[block] = size;
    }
    s->buffers[block] = buffer;
    return block;
}

static void release(simulation *s, uint32_t block) {
    uint32_t before = s->previous[block], behind = s->next[block];
    s->buffers[block] = REPLAY_NONE;
    if (before != REPLAY_NONE && s->buffers[before] == REPLAY_NONE) {
        replay_set_remove(&s->free, before);
        s->sizes[block] += s->sizes[before];
        unlink_block(s, before);
    }
    if (behind != REPLAY_NONE && s->buffers[behind] == REPLAY_NONE) {
        replay_set_remove(&s->free, behind);
        s->sizes[block] += s->sizes[behind];
        unlink_block(s, behind);
    }
    replay_set_add(&s->free, block);
}

/* The used block nearest in one direction: at most one free block lies between. */
static uint32_t neighbour(const simulation *s, const uint32_t *direction, uint32_t block) {
    uint32_t found = direction[block];
    if (found != REPLAY_NONE && s->buffers[found] == REPLAY_NONE) found = direction[found];
    return found == REPLAY_NONE ? REPLAY_NONE : s->buffers[found];
}

/* Pairs (before, behind) of buffers; every allocation adds at most two. */
typedef struct pairs {
    uint32_t (*items)[2];
    size_t count;
} pairs;

/* Addresses by longest paths, in topological order (Kahn). False when memory runs out or addresses overflow.
 */
static bool derive_offsets(const planner_problem *problem, const pairs *order, base_arena *arena,
                           size_t *offsets) {
    size_t n = problem->buffer_count;
    uint32_t *waiting = BASE_ARRAY(arena, uint32_t, n), *ready = BASE_ARRAY(arena, uint32_t, n);
    size_t *starts = BASE_ARRAY(arena, size_t, n + 1), *fill = BASE_ARRAY(arena, size_t, n);
    uint32_t *behind = BASE_ARRAY(arena, uint32_t, order->count);
    if (!waiting || !ready || !starts || !fill || !behind) return false;
    for (size_t i = 0; i < order->count; i++) {
        starts[order->items[i][0] + 1]++;
        waiting[order->items[i][1]]++;
    }
    for (size_t i = 0; i < n; i++) starts[i + 1] += starts[i];
    for (size_t i = 0; i < order->count; i++) {
        uint32_t b = order->items[i][0];
        behind[starts[b] + fill[b]++] = order->items[i][1];
    }
    size_t count = 0;
    for (uint32_t b = 0; b < n; b++) {
        if (waiting[b] == 0) ready[count++] = b;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t b = ready[i];
        const planner_buffer *buffer = &problem->buffers[b];
        size_t end;
        if (!base_size_align(offsets[b], buffer->alignment ? buffer->alignment : 1, &offsets[b]) ||
            !base_size_add(offsets[b], buffer->size, &end)) {
            return false;
        }
        for (size_t k = starts[b]; k < starts[b + 1]; k++) {
            if (offsets[behind[k]] < end) offsets[behind[k]] = end;
            if (--waiting[behind[k]] == 0) ready[count++] = behind[k];
        }
    }
    return count == n;
}

static base_status run(const planner_problem *problem, const planner_options *options, base_arena *arena,
                       planner_solution *solution, base_report *report) {
    bool intervals = !problem->starts;
    for (size_t b = 0; b < problem->buffer_count; b++)
        intervals &= problem->buffers[b].fixed == PLANNER_NOT_FIXED;
    if (!intervals) return planner_greedy_by_size.run(problem, options, arena, solution, report);

    size_t n = problem->buffer_count, event_count;
    replay_event *events = replay_events(problem, arena, &event_count);
    /* At most one free block between two used ones, before the first and behind the last. */
    size_t room = 2 * n + 2;
    simulation s = {.previous = BASE_ARRAY(arena, uint32_t, room),
                    .next = BASE_ARRAY(arena, uint32_t, room),
                    .buffers = BASE_ARRAY(arena, uint32_t, room),
                    .sizes = BASE_ARRAY(arena, size_t, room),
                    .first = REPLAY_NONE,
                    .last = REPLAY_NONE,
                    .spare = REPLAY_NONE,
                    .free = {.root = REPLAY_NONE,
                             .left = BASE_ARRAY(arena, uint32_t, room),
                             .right = BASE_ARRAY(arena, uint32_t, room)}};
    s.free.sizes = s.sizes;
    uint32_t *blocks = BASE_ARRAY(arena, uint32_t, n);
    pairs order = {.items = base_arena_alloc(arena, 2 * n, sizeof *order.items)};
    if (!events || !s.previous || !s.next || !s.buffers || !s.sizes || !s.free.left || !s.free.right ||
        !blocks || !order.items) {
        return base_fail_memory(report);
    }
    for (size_t i = 0; i < event_count; i++) {
        uint32_t b = events[i].buffer;
        if (!events[i].allocate) {
            release(&s, blocks[b]);
            continue;
        }
        blocks[b] = allocate(&s, b, problem->buffers[b].size);
        uint32_t before = neighbour(&s, s.previous, blocks[b]), behind = neighbour(&s, s.next, blocks[b]);
        if (before != REPLAY_NONE) {
            order.items[order.count][0] = before;
            order.items[order.count++][1] = b;
        }
        if (behind != REPLAY_NONE) {
            order.items[order.count][0] = b;
            order.items[order.count++][1] = behind;
        }
    }
    if (!derive_offsets(problem, &order, arena, solution->offsets)) {
        return base_fail(report, BASE_MACHINE, "chunk-simulation: out of memory, or addresses do not fit");
    }
    return BASE_OK;
}

const planner planner_chunk_simulation = {
    .name = "chunk-simulation",
    .description = "MegEngine's memory chunks: simulated alloc and free, addresses from predecessors",
    .run = run,
};
