/* SPDX-License-Identifier: Apache-2.0 */
/* partial.c: see partial.h. */
#include "passes/planners/exact/partial.h"
#include "passes/planners/base/sorting.h"
#include <stdlib.h>
#include <string.h>

enum {
    BANDS = 16,         /* of the memory; each band between a buffer and the focus adds its distance once more */
    CHANCE = 1024,      /* distances are multiplied by half to one and a half times this */
    SETUP_COVERS = 256, /* so many buffers in all sections, prepared for a search, cost as much as a node */
    PLACE_COVERS = 4096, /* the same where each is only looked at */
};

typedef struct partial_range {
    size_t low, high; /* addresses [low, high) */
} range;

bool exact_partial_init(partial *p, const skyline *sky, uint64_t seed, planner_budget *budget,
                        search_memory *memory, base_arena *arena) {
    const uint32_t n = sky->item_count;
    *p = (partial){.sky = sky,
                   .budget = budget,
                   .memory = memory,
                   .allocator = arena->allocator,
                   .random = seed,
                   .searches = planner_mix(seed),
                   .placed = BASE_ARRAY(arena, bool, n),
                   .offsets = BASE_ARRAY(arena, size_t, n),
                   .loose = BASE_ARRAY(arena, bool, n),
                   .loosened = BASE_ARRAY(arena, uint32_t, n),
                   .marks = BASE_ARRAY(arena, uint32_t, n),
                   .candidates = BASE_ARRAY(arena, partial_candidate, n),
                   .ranges = BASE_ARRAY(arena, range, n)};
    return p->placed && p->offsets && p->loose && p->loosened && p->marks && p->candidates && p->ranges;
}

void exact_partial_clear(partial *p, size_t capacity) {
    p->capacity = capacity;
    for (uint32_t b = 0; b < p->sky->item_count; b++) {
        p->placed[b] = exact_partial_is_pinned(p, b);
        p->offsets[b] = p->placed[b] ? (size_t)p->sky->items[b].fixed : 0;
    }
    exact_partial_fasten(p);
}

uint64_t exact_partial_draw(partial *p, uint64_t limit) {
    p->random = planner_mix(p->random);
    return p->random % limit;
}

bool exact_partial_is_pinned(const partial *p, uint32_t b) {
    return p->sky->items[b].fixed != SKYLINE_NEVER;
}

const uint32_t *exact_partial_covers(const partial *p, uint32_t section, uint32_t *count) {
    *count = p->sky->left[section];
    return p->sky->covers + p->sky->cover_starts[section];
}

/* ---- candidates ------------------------------------------------------------------------------------------ */

void exact_partial_list(partial *p) {
    p->focus = (size_t)exact_partial_draw(p, p->capacity | 1);
    p->candidate_count = 0;
    p->mark++;
}

void exact_partial_add(partial *p, uint32_t b, uint64_t away) {
    if (!p->placed[b] || exact_partial_is_pinned(p, b) || p->marks[b] == p->mark) return;
    p->marks[b] = p->mark;
    const size_t band = p->capacity / BANDS + 1;
    const size_t low = p->offsets[b], high = low + (size_t)p->sky->items[b].size;
    const uint64_t bands = (p->focus < low ? low - p->focus : p->focus > high ? p->focus - high : 0) / band;
    const uint64_t distance = away * (bands + 1) * (CHANCE / 2 + exact_partial_draw(p, CHANCE));
    p->candidates[p->candidate_count++] = (partial_candidate){distance, b};
}

static int compare_candidates(const void *left, const void *right) {
    const partial_candidate *a = left, *b = right;
    if (a->distance != b->distance) return a->distance < b->distance ? -1 : 1;
    return (a->buffer > b->buffer) - (a->buffer < b->buffer);
}

void exact_partial_sort(partial *p) {
    qsort(p->candidates, p->candidate_count, sizeof *p->candidates, compare_candidates);
}

/* ---- what is loose --------------------------------------------------------------------------------------- */

void exact_partial_fasten(partial *p) {
    for (uint32_t i = 0; i < p->loosened_count; i++) p->loose[p->loosened[i]] = false;
    p->loosened_count = 0;
}

void exact_partial_loosen(partial *p, uint32_t b) {
    const skyline_item *i = &p->sky->items[b];
    if (p->loosened_count == 0 || i->first < p->first) p->first = i->first;
    if (p->loosened_count == 0 || i->last > p->last) p->last = i->last;
    p->loose[b] = true;
    p->loosened[p->loosened_count++] = b;
}

/* ---- placing one after the other ------------------------------------------------------------------------- */

static int compare_ranges(const void *left, const void *right) {
    const range *a = left, *b = right;
    return (a->low > b->low) - (a->low < b->low);
}

typedef enum place_order { PLACE_BY_AREA, PLACE_BY_SIZE, PLACE_ORDERS } place_order;

/* What is taken by placed buffers that interfere with b, the lowest first. */
static uint32_t list_interfering(partial *p, uint32_t b, uint64_t *looked) {
    const skyline_item *i = &p->sky->items[b];
    uint32_t found = 0;
    p->mark++;
    for (uint32_t k = i->first; k < i->last; k++) {
        uint32_t count;
        const uint32_t *here = exact_partial_covers(p, k, &count);
        *looked += count;
        for (uint32_t c = 0; c < count; c++) {
            const uint32_t other = here[c];
            if (!p->placed[other] || p->marks[other] == p->mark) continue;
            p->marks[other] = p->mark;
            p->ranges[found++] = (range){p->offsets[other], p->offsets[other] + (size_t)p->sky->items[other].size};
        }
    }
    qsort(p->ranges, found, sizeof *p->ranges, compare_ranges);
    return found;
}

/* The smallest free range of those that hold b, or the lowest; SIZE_MAX: there is none. */
static size_t find_range(partial *p, uint32_t b, bool lowest, uint64_t *looked) {
    const uint32_t count = list_interfering(p, b, looked);
    const size_t size = (size_t)p->sky->items[b].size, mask = (size_t)p->sky->items[b].alignment - 1;
    size_t at = 0, best = SIZE_MAX, smallest = SIZE_MAX;
    for (uint32_t r = 0; r <= count; r++) {
        const size_t low = r < count ? p->ranges[r].low : p->capacity;
        if (low >= at && low - at >= size && low - at < smallest) {
            if (lowest) return at;
            smallest = low - at;
            best = at;
        }
        if (r < count && p->ranges[r].high > at) at = (p->ranges[r].high + mask) & ~mask;
    }
    return best;
}

static bool place_in_order(partial *p, bool lowest, uint64_t *looked) {
    uint32_t done = 0;
    for (; done < p->loosened_count; done++) {
        const uint32_t b = p->candidates[done].buffer;
        const uint64_t before = *looked;
        p->offsets[b] = find_range(p, b, lowest, looked);
        const bool over = planner_budget_spend(p->budget, (*looked - before) / PLACE_COVERS);
        if (over || p->offsets[b] == SIZE_MAX) break;
        p->placed[b] = true;
    }
    if (done == p->loosened_count) return true;
    while (done > 0) p->placed[p->candidates[--done].buffer] = false;
    return false;
}

bool exact_partial_place(partial *p, uint64_t *spent) {
    uint64_t looked = 0;
    bool placed = false;
    for (place_order by = 0; by < PLACE_ORDERS && !placed; by++) {
        for (uint32_t c = 0; c < p->loosened_count; c++) {
            const skyline_item *i = &p->sky->items[p->loosened[c]];
            const uint64_t life = by == PLACE_BY_AREA ? i->last - i->first : 1;
            p->candidates[c] = (partial_candidate){UINT64_MAX - (uint64_t)i->size * life, p->loosened[c]};
        }
        p->candidate_count = p->loosened_count;
        exact_partial_sort(p);
        placed = place_in_order(p, false, &looked) || place_in_order(p, true, &looked);
    }
    planner_budget_spend(p->budget, 1);
    *spent += 1 + looked / PLACE_COVERS;
    return placed;
}

/* ---- the search ------------------------------------------------------------------------------------------ */

/* The present try as a problem of its own: the loose buffers, and what is taken around them as pinned buffers. Its steps
 * are sections. */
typedef struct attempt {
    base_arena arena;
    uint32_t *members; /* the loose ones */
    uint32_t member_count, buffer_count;
    planner_buffer *buffers; /* first the members */
    size_t buffer_room;
    range *taken;                /* for the ranges of a section */
    uint32_t *open, *still_open; /* pinned buffers that reach up to the present section, the lowest first */
} attempt;

/* What is taken in section k, the lowest first, with all that is too small for the loose ones that live there. */
static uint32_t list_taken(const partial *p, uint32_t k, range *taken) {
    uint32_t count, found = 0, merged = 0;
    size_t least = SIZE_MAX;
    const uint32_t *here = exact_partial_covers(p, k, &count);
    for (uint32_t c = 0; c < count; c++) {
        const uint32_t b = here[c];
        const size_t size = (size_t)p->sky->items[b].size;
        if (p->loose[b]) least = size < least ? size : least;
        else if (p->placed[b]) taken[found++] = (range){p->offsets[b], p->offsets[b] + size};
    }
    if (least == SIZE_MAX || found == 0) return 0;
    qsort(taken, found, sizeof *taken, compare_ranges);
    if (taken[0].low < least) taken[0].low = 0;
    for (uint32_t r = 1; r < found; r++) {
        if (taken[r].low - taken[merged].high < least) taken[merged].high = taken[r].high;
        else taken[++merged] = taken[r];
    }
    if (taken[merged].high < p->capacity && p->capacity - taken[merged].high < least)
        taken[merged].high = p->capacity;
    return merged + 1;
}

/* False when memory runs out. */
static bool add_buffer(attempt *a, planner_buffer buffer) {
    a->buffers = base_arena_grow(&a->arena, a->buffers, &a->buffer_room, (size_t)a->buffer_count + 1,
                                 sizeof *a->buffers);
    if (!a->buffers) return false;
    a->buffers[a->buffer_count++] = buffer;
    return true;
}

/* Ranges that are the same in one section after the other are one pinned buffer. False when memory runs out. */
static bool pin_taken(const partial *p, attempt *a) {
    uint32_t open = 0;
    for (uint32_t k = p->first; k < p->last; k++) {
        const uint32_t count = list_taken(p, k, a->taken);
        uint32_t still_open = 0;
        for (uint32_t r = 0, o = 0; r < count; r++) {
            const range *taken = &a->taken[r];
            while (o < open && a->buffers[a->open[o]].fixed < taken->low) o++;
            planner_buffer *before = o < open ? &a->buffers[a->open[o]] : NULL;
            if (before && before->fixed == taken->low && before->size == taken->high - taken->low) {
                before->last = k + 1;
                a->still_open[still_open++] = a->open[o];
            } else {
                a->still_open[still_open++] = a->buffer_count;
                if (!add_buffer(a, (planner_buffer){.size = taken->high - taken->low,
                                                    .first = k,
                                                    .last = k + 1,
                                                    .fixed = taken->low}))
                    return false;
            }
        }
        uint32_t *swap = a->open;
        a->open = a->still_open;
        a->still_open = swap;
        open = still_open;
    }
    return true;
}

/* False when memory runs out. */
static bool make_problem(const partial *p, attempt *a) {
    const skyline *sky = p->sky;
    size_t widest = 0;
    for (uint32_t k = p->first; k < p->last; k++) {
        if (sky->left[k] > widest) widest = sky->left[k];
    }
    a->members = BASE_ARRAY(&a->arena, uint32_t, p->loosened_count);
    a->taken = BASE_ARRAY(&a->arena, range, widest);
    a->open = BASE_ARRAY(&a->arena, uint32_t, widest);
    a->still_open = BASE_ARRAY(&a->arena, uint32_t, widest);
    if (!a->members || !a->taken || !a->open || !a->still_open) return false;
    for (uint32_t k = p->first; k < p->last; k++) {
        uint32_t count;
        const uint32_t *here = exact_partial_covers(p, k, &count);
        for (uint32_t c = 0; c < count; c++) {
            const skyline_item *i = &sky->items[here[c]];
            if (!p->loose[here[c]] || i->first != k) continue;
            a->members[a->member_count++] = here[c];
            if (!add_buffer(a, (planner_buffer){.size = (size_t)i->size,
                                                .alignment = (size_t)i->alignment,
                                                .first = i->first,
                                                .last = i->last,
                                                .fixed = PLANNER_NOT_FIXED}))
                return false;
        }
    }
    return pin_taken(p, a);
}

/* A short search for the loose buffers; what it finds becomes part of the solution. */
static search_outcome search_loose(partial *p, attempt *a, uint64_t nodes, uint64_t *spent) {
    const planner_problem problem = {.buffers = a->buffers, .buffer_count = a->buffer_count};
    search sub;
    search_outcome outcome = SEARCH_STOPPED;
    if (!exact_search_init(&sub, &problem, planner_mix(++p->searches), p->budget, p->memory, &a->arena)) {
        /* Too large is what lies there already with the new ones: that is above any capacity. */
        p->out_of_memory = !sub.sky.too_large;
    } else {
        const uint64_t setup = 1 + sub.sky.cover_starts[sub.sky.section_count] / SETUP_COVERS;
        if (!planner_budget_spend(p->budget, setup))
            outcome = exact_search_decide(&sub, p->capacity, nodes * a->buffer_count);
        p->out_of_memory = sub.sky.out_of_memory;
        *spent += setup + sub.spent;
    }
    for (uint32_t m = 0; outcome == SEARCH_SOLVED && m < a->member_count; m++) {
        p->offsets[a->members[m]] = sub.sky.offsets[m];
        p->placed[a->members[m]] = true;
    }
    exact_search_free(&sub);
    return outcome;
}

search_outcome exact_partial_search(partial *p, uint64_t nodes, uint64_t *spent) {
    attempt a = {0};
    base_arena_init(&a.arena, p->allocator);
    p->out_of_memory = !make_problem(p, &a);
    const search_outcome outcome = p->out_of_memory ? SEARCH_STOPPED : search_loose(p, &a, nodes, spent);
    base_arena_free(&a.arena);
    return outcome;
}
