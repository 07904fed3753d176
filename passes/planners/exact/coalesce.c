/* SPDX-License-Identifier: Apache-2.0 */
/* coalesce.c: see coalesce.h. */
#include "passes/planners/exact/coalesce.h"
#include "passes/planners/base/sorting.h"
#include "passes/planners/exact/sweep.h"
#include <string.h>

enum {
    SHARES = 4, /* what could be made one is, for so many of these parts */
    PATIENCE =
        100000, /* work for a draw; for every second one twice that, for every fourth four times, ... */
};

/* A buffer of the problem, or several that lie in one place. */
typedef struct block {
    int32_t size, alignment, fixed;
    uint32_t first, last; /* sections */
    uint32_t whole;       /* the block that it is a part of, or SKYLINE_NONE */
    int32_t at;           /* where in that */
    uint32_t number;      /* in the problem that is searched, where it is a part of none */
} block;

struct coalescing {
    const skyline *sky;
    planner_budget *budget;
    search_memory *memory;
    uint64_t random, draws;
    bool possible, varied;
    /* The present draw. First one block for each buffer, then those made of others, at most as many. */
    block *blocks;
    uint32_t block_count;
    planner_key *ends, *begins, *scratch; /* for sorting */
    uint32_t *followers;                  /* by block: who takes its place, or SKYLINE_NONE */
    bool *follows;
    bool drawn;
    uint64_t rest; /* of the work for it */
    base_arena arena;
    skyline drawn_sky;
    sweep *sections;
    size_t *offsets;
};

static uint64_t draw(coalescing *c, uint64_t limit) {
    c->random = planner_mix(c->random);
    return c->random % limit;
}

static bool is_whole(const block *b) {
    return b->whole == SKYLINE_NONE && b->size > 0 && b->fixed == SKYLINE_NEVER;
}

static uint64_t pair_key(uint32_t high, uint32_t low) {
    return (uint64_t)high << 32 | low;
}

/* The end of a run of equal keys. */
static size_t run_end(const planner_key *keys, size_t count, size_t at) {
    const uint64_t key = keys[at].key;
    while (at < count && keys[at].key == key) at++;
    return at;
}

/* Of blocks that end with a section and those of the same size that begin with the next, pairs by chance, and of these a
 * share. */
static void draw_followers(coalescing *c, unsigned share) {
    size_t count = 0, e = 0, b = 0;
    for (uint32_t i = 0; i < c->block_count; i++) {
        const block *whole = &c->blocks[i];
        c->followers[i] = SKYLINE_NONE;
        c->follows[i] = false;
        if (!is_whole(whole)) continue;
        c->ends[count] = (planner_key){pair_key(whole->last, (uint32_t)whole->size), i};
        c->begins[count++] = (planner_key){pair_key(whole->first, (uint32_t)whole->size), i};
    }
    planner_sort_keys(c->ends, count, c->scratch);
    planner_sort_keys(c->begins, count, c->scratch);
    while (e < count && b < count) {
        const size_t ends = run_end(c->ends, count, e) - e, begins = run_end(c->begins, count, b) - b;
        if (c->ends[e].key == c->begins[b].key) {
            const size_t pairs = ends < begins ? ends : begins, turn = draw(c, ends);
            for (size_t p = 0; p < pairs; p++) {
                if (draw(c, SHARES) >= share) continue;
                c->followers[c->ends[e + (p + turn) % ends].buffer] = c->begins[b + p].buffer;
                c->follows[c->begins[b + p].buffer] = true;
            }
        }
        const bool ahead = c->ends[e].key > c->begins[b].key, after = c->ends[e].key < c->begins[b].key;
        if (!ahead) e += ends;
        if (!after) b += begins;
    }
}

/* Blocks take the places of others. */
static void join(coalescing *c, unsigned share) {
    draw_followers(c, share);
    for (uint32_t i = 0, count = c->block_count; i < count; i++) {
        if (c->follows[i] || c->followers[i] == SKYLINE_NONE) continue;
        block whole = c->blocks[i];
        for (uint32_t m = i; m != SKYLINE_NONE; m = c->followers[m]) {
            whole.last = c->blocks[m].last;
            if (c->blocks[m].alignment > whole.alignment) whole.alignment = c->blocks[m].alignment;
            c->blocks[m].whole = c->block_count;
            c->blocks[m].at = 0;
        }
        c->blocks[c->block_count++] = whole;
    }
}

/* Blocks of the same life lie one on another. */
static void stack(coalescing *c, unsigned share) {
    size_t count = 0;
    for (uint32_t i = 0; i < c->block_count; i++)
        if (is_whole(&c->blocks[i]))
            c->begins[count++] = (planner_key){pair_key(c->blocks[i].first, c->blocks[i].last), i};
    planner_sort_keys(c->begins, count, c->scratch);
    for (size_t k = 0, end; k < count; k = end) {
        end = run_end(c->begins, count, k);
        uint32_t lowest = SKYLINE_NONE, whole = SKYLINE_NONE;
        for (size_t rest = end - k; rest > 0; rest--) {
            planner_key *drawn = &c->begins[k + draw(c, rest)];
            const uint32_t next = drawn->buffer;
            *drawn = c->begins[k + rest - 1];
            const block *under = whole != SKYLINE_NONE    ? &c->blocks[whole]
                                 : lowest != SKYLINE_NONE ? &c->blocks[lowest]
                                                          : NULL;
            block *upper = &c->blocks[next];
            if (!under || under->size % upper->alignment != 0 || draw(c, SHARES) >= share) {
                lowest = next;
                whole = SKYLINE_NONE;
                continue;
            }
            if (whole == SKYLINE_NONE) {
                whole = c->block_count++;
                c->blocks[whole] = c->blocks[lowest];
                c->blocks[lowest].whole = whole;
                c->blocks[lowest].at = 0;
            }
            block *stacked = &c->blocks[whole];
            upper->whole = whole;
            upper->at = stacked->size;
            stacked->size += upper->size;
            if (upper->alignment > stacked->alignment) stacked->alignment = upper->alignment;
        }
    }
}

/* ---- draws ---------------------------------------------------------------------------------------------- */

static void drop(coalescing *c) {
    if (!c->drawn) return;
    exact_skyline_free(&c->drawn_sky);
    base_arena_free(&c->arena);
    c->drawn = false;
}

static void split(coalescing *c) {
    c->block_count = c->sky->item_count;
    for (uint32_t b = 0; b < c->block_count; b++) {
        const skyline_item *i = &c->sky->items[b];
        c->blocks[b] = (block){i->size, i->alignment, i->fixed, i->first, i->last, .whole = SKYLINE_NONE};
    }
}

/* The problem of all blocks that are part of none. Its steps are sections. All take the places of others that can, and none
 * are stacked; unless this varies. False when memory runs out. */
static bool make_draw(coalescing *c) {
    unsigned joined = SHARES, stacked = 0;
    if (c->varied) {
        if (draw(c, 2)) joined = 1 + (unsigned)draw(c, SHARES);
        if (!draw(c, 3)) stacked = draw(c, 2) ? SHARES : (unsigned)draw(c, SHARES);
    }
    c->draws++;
    c->rest = PATIENCE * (c->draws & -c->draws);
    split(c);
    join(c, joined);
    if (stacked > 0) {
        stack(c, stacked);
        join(c, joined);
    }
    base_arena_init(&c->arena, c->sky->arena->allocator);
    c->drawn = true;
    planner_buffer *buffers = BASE_ARRAY(&c->arena, planner_buffer, c->block_count);
    if (!buffers) return false;
    planner_problem problem = {.buffers = buffers};
    for (uint32_t i = 0; i < c->block_count; i++) {
        block *b = &c->blocks[i];
        if (b->whole != SKYLINE_NONE || b->size == 0) continue;
        b->number = (uint32_t)problem.buffer_count++;
        buffers[b->number] =
            (planner_buffer){.size = (size_t)b->size,
                             .alignment = (size_t)b->alignment,
                             .first = b->first,
                             .last = b->last,
                             .fixed = b->fixed == SKYLINE_NEVER ? PLANNER_NOT_FIXED : (size_t)b->fixed};
    }
    c->offsets = BASE_ARRAY(&c->arena, size_t, problem.buffer_count);
    if (!c->offsets || !exact_skyline_init(&c->drawn_sky, &problem, &c->arena)) return false;
    c->sections = exact_sweep_new(&c->drawn_sky, c->random, c->budget, c->memory, &c->arena);
    return c->sections != NULL;
}

static void read_offsets(const coalescing *c, size_t *offsets) {
    for (uint32_t b = 0; b < c->sky->item_count; b++) {
        size_t at = 0;
        uint32_t i = b;
        for (; c->blocks[i].whole != SKYLINE_NONE; i = c->blocks[i].whole) at += (size_t)c->blocks[i].at;
        if (c->blocks[i].size > 0) offsets[b] = c->offsets[c->blocks[i].number] + at;
    }
}

coalescing *exact_coalescing_new(const skyline *sky, uint64_t seed, bool varied, planner_budget *budget,
                                 search_memory *memory, base_arena *arena) {
    const size_t n = sky->item_count;
    coalescing *c = BASE_NEW(arena, coalescing);
    if (!c) return NULL;
    *c = (coalescing){.sky = sky,
                      .budget = budget,
                      .memory = memory,
                      .random = seed,
                      .varied = varied,
                      .blocks = BASE_ARRAY(arena, block, 2 * n),
                      .ends = BASE_ARRAY(arena, planner_key, n),
                      .begins = BASE_ARRAY(arena, planner_key, n),
                      .scratch = BASE_ARRAY(arena, planner_key, n),
                      .followers = BASE_ARRAY(arena, uint32_t, 2 * n),
                      .follows = BASE_ARRAY(arena, bool, 2 * n)};
    if (!c->blocks || !c->ends || !c->begins || !c->scratch || !c->followers || !c->follows) return NULL;
    split(c);
    join(c, SHARES);
    stack(c, SHARES);
    c->possible = c->block_count > n;
    return c;
}

void exact_coalescing_free(coalescing *c) {
    if (c) drop(c);
}

bool exact_coalescing_is_possible(const coalescing *c) {
    return c->possible;
}

search_outcome exact_coalescing_run(coalescing *c, size_t capacity, uint64_t work, size_t *offsets,
                                    bool *out_of_memory) {
    while (work > 0) {
        if (!c->drawn && !make_draw(c)) {
            *out_of_memory = true;
            break;
        }
        const uint64_t before = exact_sweep_spent(c->sections);
        const search_outcome outcome = exact_sweep_run(c->sections, capacity, c->varied && c->rest < work ? c->rest : work,
                                                       c->offsets, out_of_memory);
        const uint64_t spent = exact_sweep_spent(c->sections) - before;
        if (outcome == SEARCH_SOLVED) read_offsets(c, offsets);
        work -= spent < work ? spent : work;
        c->rest -= spent < c->rest ? spent : c->rest;
        if (outcome == SEARCH_SOLVED || (c->varied && c->rest == 0)) drop(c);
        if (outcome == SEARCH_SOLVED) return outcome;
        if (*out_of_memory || c->budget->over) break;
    }
    return SEARCH_STOPPED;
}
