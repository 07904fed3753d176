/* SPDX-License-Identifier: Apache-2.0 */
/* chunk_simulation.c: MegEngine's static memory planner: simulate taking and giving back chunks of memory,
 * then derive addresses from who lay before whom.
 *
 * The simulation keeps all blocks, used and free, in the order of addresses, no two free ones beside each
 * other, and the free ones by size. Freeing merges with free neighbours. Allocating has three cases:
 *   1. nothing is free: a new block at the end;
 *   2. a free block is large enough: the smallest such one; what is left of it stays free;
 *   3. free blocks are all too small: the largest one is stretched to the size asked for.
 * Because of case 3 a block's address is not known while simulating. What is known is the order: an allocated
 * chunk lies after the used one before it, and before the used one after it. These pairs form an acyclic
 * graph (live ranges are intervals, and among chunks that are live together the order is total); the address
 * of a chunk is the largest end of those that it lies after, aligned.
 *
 * A read dependence (an output that is its input, unchanged) is one buffer here before a planner sees it
 * (passes/memory/join_aliases.c). A write dependence is one of the problem's overwrites: the new chunk takes its sub-range of
 * the old one's block, and what lies before and after is free, at the same time as nothing else is given back but
 * after all else is allocated. Chains of overwrites move with their root: a pair that concerns one of them bounds the
 * address of the root. One overwrite is followed for each target, the first; others are allocated as usual, and so
 * are those whose alignment the target's cannot give.
 *
 * Listed interference (loops) is not an interval, which a simulation of time cannot see: such problems, and
 * those with fixed buffers, go to greedy-by-size.
 *
 * Source: Zhou Ruiliang, "MegEngine architecture: static memory analysis" (2021).
 */
#include "passes/planners/planners.h"
#include "passes/planners/replay.h"
#include <stdlib.h>

typedef struct simulation {
    uint32_t *previous, *next; /* blocks in the order of addresses; BASE_NO_BLOCK at the ends */
    uint32_t *buffers;         /* of a block; BASE_NO_BLOCK: free */
    size_t *sizes;
    uint32_t first, last, count, spare; /* spare: blocks to be used again, linked by next */
    base_block_set free;
} simulation;

static uint32_t block_new(simulation *s) {
    uint32_t block = s->spare;
    if (block != BASE_NO_BLOCK) s->spare = s->next[block];
    else block = s->count++;
    s->buffers[block] = BASE_NO_BLOCK;
    return block;
}

static void link_behind(simulation *s, uint32_t block, uint32_t before) {
    uint32_t after = before == BASE_NO_BLOCK ? s->first : s->next[before];
    s->previous[block] = before;
    s->next[block] = after;
    if (before == BASE_NO_BLOCK) s->first = block;
    else s->next[before] = block;
    if (after == BASE_NO_BLOCK) s->last = block;
    else s->previous[after] = block;
}

static void unlink_block(simulation *s, uint32_t block) {
    uint32_t before = s->previous[block], after = s->next[block];
    if (before == BASE_NO_BLOCK) s->first = after;
    else s->next[before] = after;
    if (after == BASE_NO_BLOCK) s->last = before;
    else s->previous[after] = before;
    s->next[block] = s->spare;
    s->spare = block;
}

static uint32_t allocate(simulation *s, uint32_t buffer, size_t size) {
    uint32_t block = base_block_set_find(&s->free, size);
    if (block == BASE_NO_BLOCK) block = base_block_set_largest(&s->free);
    if (block == BASE_NO_BLOCK) {
        block = block_new(s);
        link_behind(s, block, s->last);
        s->sizes[block] = size;
    } else {
        base_block_set_remove(&s->free, block);
        if (s->sizes[block] > size) {
            uint32_t rest = block_new(s);
            s->sizes[rest] = s->sizes[block] - size;
            link_behind(s, rest, block);
            base_block_set_add(&s->free, rest);
        }
        s->sizes[block] = size;
    }
    s->buffers[block] = buffer;
    return block;
}

static void release(simulation *s, uint32_t block) {
    uint32_t before = s->previous[block], after = s->next[block];
    s->buffers[block] = BASE_NO_BLOCK;
    if (before != BASE_NO_BLOCK && s->buffers[before] == BASE_NO_BLOCK) {
        base_block_set_remove(&s->free, before);
        s->sizes[block] += s->sizes[before];
        unlink_block(s, before);
    }
    if (after != BASE_NO_BLOCK && s->buffers[after] == BASE_NO_BLOCK) {
        base_block_set_remove(&s->free, after);
        s->sizes[block] += s->sizes[after];
        unlink_block(s, after);
    }
    base_block_set_add(&s->free, block);
}

/* A free block of some bytes after another one (BASE_NO_BLOCK: before all), merged with its free neighbours. */
static void insert_free(simulation *s, uint32_t before, size_t size) {
    uint32_t block = block_new(s);
    s->sizes[block] = size;
    link_behind(s, block, before);
    release(s, block);
}

/* The block of a target becomes that of the buffer which overwrites [at, at + size) of it. */
static void overwrite(simulation *s, uint32_t block, uint32_t buffer, size_t at, size_t size) {
    size_t after = s->sizes[block] - at - size;
    s->buffers[block] = buffer;
    s->sizes[block] = size;
    if (at > 0) insert_free(s, s->previous[block], at);
    if (after > 0) insert_free(s, block, after);
}

/* The used block nearest in one direction: at most one free block lies between. */
static uint32_t neighbour(const simulation *s, const uint32_t *direction, uint32_t block) {
    uint32_t found = direction[block];
    if (found != BASE_NO_BLOCK && s->buffers[found] == BASE_NO_BLOCK) found = direction[found];
    return found == BASE_NO_BLOCK ? BASE_NO_BLOCK : s->buffers[found];
}

/* Where buffers lie in the chunks that they were first allocated as. */
typedef struct chain {
    uint32_t *targets;  /* of a buffer that overwrites: what; BASE_NO_BLOCK of others */
    uint32_t *roots;    /* the first of its chain: itself, mostly */
    size_t *shifts;     /* how far into its root it begins */
    size_t *alignments; /* of a root: what it needs for all of its chain */
    bool *overwritten;
} chain;

/* By the step at which they happen, so that targets come before what overwrites them. */
typedef struct happening {
    int64_t step;
    const planner_overwrite *over;
} happening;

static int compare_happenings(const void *left, const void *right) {
    const happening *a = left, *b = right;
    if (a->step != b->step) return a->step < b->step ? -1 : 1;
    if (a->over->at != b->over->at) return a->over->at < b->over->at ? -1 : 1;
    return a->over->buffer < b->over->buffer ? -1 : a->over->buffer > b->over->buffer;
}

static bool chain_init(chain *c, const planner_problem *problem, base_arena *arena) {
    size_t n = problem->buffer_count, count = problem->overwrite_count;
    happening *order = BASE_ARRAY(arena, happening, count);
    *c = (chain){.targets = BASE_ARRAY(arena, uint32_t, n),
                 .roots = BASE_ARRAY(arena, uint32_t, n),
                 .shifts = BASE_ARRAY(arena, size_t, n),
                 .alignments = BASE_ARRAY(arena, size_t, n),
                 .overwritten = BASE_ARRAY(arena, bool, n)};
    if (!order || !c->targets || !c->roots || !c->shifts || !c->alignments || !c->overwritten) return false;
    for (uint32_t b = 0; b < n; b++) {
        c->targets[b] = BASE_NO_BLOCK;
        c->roots[b] = b;
        c->alignments[b] = problem->buffers[b].alignment ? problem->buffers[b].alignment : 1;
    }
    for (size_t i = 0; i < count; i++) {
        const planner_overwrite *over = &problem->overwrites[i];
        order[i] = (happening){problem->buffers[over->buffer].first, over};
    }
    if (count) qsort(order, count, sizeof *order, compare_happenings);
    for (size_t i = 0; i < count; i++) {
        uint32_t b = order[i].over->buffer, target = order[i].over->target, root = c->roots[target];
        size_t shift = c->shifts[target] + order[i].over->at;
        if (c->overwritten[target] || problem->buffers[b].size == 0) continue;
        if (shift & (c->alignments[b] - 1)) continue;
        c->overwritten[target] = true;
        c->targets[b] = target;
        c->roots[b] = root;
        c->shifts[b] = shift;
        if (c->alignments[b] > c->alignments[root]) c->alignments[root] = c->alignments[b];
    }
    return true;
}

/* Pairs (before, after) of buffers; every allocation adds at most two. */
typedef struct pairs {
    uint32_t (*items)[2];
    size_t count;
} pairs;

/* Addresses of roots by longest paths, in topological order (Kahn). There is one: what a chain ends as lies within all
 * that it was before, so that the order of those last places is one of the chains. False when memory runs out or
 * addresses overflow. */
static bool derive_offsets(const planner_problem *problem, const chain *chains, const pairs *order,
                           base_arena *arena, size_t *offsets) {
    size_t n = problem->buffer_count;
    uint32_t *waiting = BASE_ARRAY(arena, uint32_t, n), *ready = BASE_ARRAY(arena, uint32_t, n);
    size_t *starts = BASE_ARRAY(arena, size_t, n + 1), *fill = BASE_ARRAY(arena, size_t, n);
    size_t *followers = BASE_ARRAY(arena, size_t, order->count);
    if (!waiting || !ready || !starts || !fill || !followers) return false;
    for (size_t i = 0; i < order->count; i++) {
        starts[chains->roots[order->items[i][0]] + 1]++;
        waiting[chains->roots[order->items[i][1]]]++;
    }
    for (size_t i = 0; i < n; i++) starts[i + 1] += starts[i];
    for (size_t i = 0; i < order->count; i++) {
        uint32_t root = chains->roots[order->items[i][0]];
        followers[starts[root] + fill[root]++] = i;
    }
    size_t count = 0, members = 0;
    for (uint32_t b = 0; b < n; b++) {
        if (chains->roots[b] != b) members++;
        else if (waiting[b] == 0) ready[count++] = b;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t root = ready[i];
        if (!base_size_align(offsets[root], chains->alignments[root], &offsets[root])) return false;
        for (size_t k = starts[root]; k < starts[root + 1]; k++) {
            uint32_t b = order->items[followers[k]][0], after = order->items[followers[k]][1],
                     next = chains->roots[after];
            size_t end;
            if (!base_size_add(offsets[root], chains->shifts[b], &end) ||
                !base_size_add(end, problem->buffers[b].size, &end)) {
                return false;
            }
            if (end > chains->shifts[after] && offsets[next] < end - chains->shifts[after])
                offsets[next] = end - chains->shifts[after];
            if (--waiting[next] == 0) ready[count++] = next;
        }
    }
    for (uint32_t b = 0; b < n; b++) {
        if (chains->roots[b] != b) offsets[b] = offsets[chains->roots[b]] + chains->shifts[b];
    }
    return count + members == n;
}

/* The order of addresses that an allocation shows. */
static void add_pairs(pairs *order, const simulation *s, uint32_t block) {
    uint32_t buffer = s->buffers[block], before = neighbour(s, s->previous, block),
             after = neighbour(s, s->next, block);
    if (before != BASE_NO_BLOCK) {
        order->items[order->count][0] = before;
        order->items[order->count++][1] = buffer;
    }
    if (after != BASE_NO_BLOCK) {
        order->items[order->count][0] = buffer;
        order->items[order->count++][1] = after;
    }
}

/* What happens at each point of time: chunks that are not overwritten are given back, chunks that overwrite nothing are
 * allocated, and then the others overwrite. */
static void simulate(simulation *s, const planner_problem *problem, const chain *chains,
                     const replay_event *events, size_t event_count, uint32_t *blocks, pairs *order) {
    for (size_t i = 0, end = 0; i < event_count; i = end) {
        for (end = i; end < event_count && events[end].time == events[i].time; end++) {
            uint32_t b = events[end].buffer;
            if (!events[end].allocate) {
                if (!chains->overwritten[b]) release(s, blocks[b]);
            } else if (chains->targets[b] == BASE_NO_BLOCK) {
                blocks[b] = allocate(s, b, problem->buffers[b].size);
                add_pairs(order, s, blocks[b]);
            }
        }
        for (size_t k = i; k < end; k++) {
            uint32_t b = events[k].buffer, target = chains->targets[b];
            if (!events[k].allocate || target == BASE_NO_BLOCK) continue;
            blocks[b] = blocks[target];
            overwrite(s, blocks[b], b, chains->shifts[b] - chains->shifts[target], problem->buffers[b].size);
            add_pairs(order, s, blocks[b]);
        }
    }
}

static base_status run(const planner_problem *problem, const planner_options *options, base_arena *arena,
                       planner_solution *solution, base_report *report) {
    bool intervals = !problem->starts;
    for (size_t b = 0; b < problem->buffer_count; b++)
        intervals &= problem->buffers[b].fixed == PLANNER_NOT_FIXED;
    if (!intervals) return planner_greedy_by_size.run(problem, options, arena, solution, report);

    size_t n = problem->buffer_count, event_count;
    replay_event *events = planner_replay_events(problem, arena, &event_count);
    /* At most one free block between two used ones, before the first and after the last; one more before it merges. */
    size_t capacity = 2 * n + 4;
    simulation s = {.previous = BASE_ARRAY(arena, uint32_t, capacity),
                    .next = BASE_ARRAY(arena, uint32_t, capacity),
                    .buffers = BASE_ARRAY(arena, uint32_t, capacity),
                    .sizes = BASE_ARRAY(arena, size_t, capacity),
                    .first = BASE_NO_BLOCK,
                    .last = BASE_NO_BLOCK,
                    .spare = BASE_NO_BLOCK,
                    .free = {.root = BASE_NO_BLOCK,
                             .left = BASE_ARRAY(arena, uint32_t, capacity),
                             .right = BASE_ARRAY(arena, uint32_t, capacity)}};
    s.free.sizes = s.sizes;
    uint32_t *blocks = BASE_ARRAY(arena, uint32_t, n);
    chain chains;
    pairs order = {.items = base_arena_alloc(arena, 2 * n, sizeof *order.items)};
    if (!events || !s.previous || !s.next || !s.buffers || !s.sizes || !s.free.left || !s.free.right ||
        !blocks || !order.items || !chain_init(&chains, problem, arena)) {
        return base_fail_memory(report);
    }
    simulate(&s, problem, &chains, events, event_count, blocks, &order);
    if (!derive_offsets(problem, &chains, &order, arena, solution->offsets)) {
        return base_fail(report, BASE_SYSTEM_ERROR,
                         "chunk-simulation: out of memory, or addresses do not fit");
    }
    return BASE_OK;
}

const planner planner_chunk_simulation = {
    .name = "chunk-simulation",
    .description = "MegEngine's memory chunks: simulated alloc and free, addresses from predecessors",
    .run = run,
    .knows_overwrites = true,
};
