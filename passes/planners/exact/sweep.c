/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c: see sweep.h. */
#include "passes/planners/exact/sweep.h"
#include "passes/planners/base/sorting.h"
#include <stdlib.h>
#include <string.h>

enum {
    TRIES = 4,          /* for each number of loosened buffers */
    FIRST_LOOSENED = 4, /* how many at first; twice as many each time */
    NODES = 3,          /* of a try, for each buffer in it */
    RETREATS = 40,      /* until a solution is given up */
    WIDEST_RETREAT = 3, /* the logarithm of the most sections that one goes back by */
    BANDS = 16,    /* of the memory; each band between a buffer and the focus adds its distance once more */
    CHANCE = 1024, /* distances are multiplied by half to one and a half times this */
    SETUP_COVERS = 256, /* so many buffers in all sections, prepared for a search, cost as much as a node */
};

typedef struct candidate {
    uint64_t distance;
    uint32_t buffer;
} candidate;

typedef struct range {
    size_t low, high; /* addresses [low, high) */
} range;

struct sweep {
    const skyline *sky;
    planner_budget *budget;
    search_memory *memory;
    const base_allocator *allocator;
    uint64_t random, searches;
    uint64_t spent; /* work, in all */
    /* The solution so far: sections [first, last), the buffers that are placed (and those that the user pinned). */
    bool begun;
    size_t capacity;
    uint32_t first, last;
    unsigned retreats;
    bool *placed;
    size_t *offsets;
    /* The present try. */
    bool *loose;           /* to be searched for */
    uint32_t *marks, mark; /* buffers that a list has already: marks[b] == mark */
    candidate *candidates; /* to be loosened, the first ones first */
    bool out_of_memory;
};

sweep *exact_sweep_new(const skyline *sky, uint64_t seed, planner_budget *budget, search_memory *memory,
                       base_arena *arena) {
    const uint32_t n = sky->item_count;
    sweep *s = BASE_NEW(arena, sweep);
    if (!s) return NULL;
    *s = (sweep){
        .sky = sky,
        .budget = budget,
        .memory = memory,
        .allocator = arena->allocator,
        .random = seed,
        /* States of different problems, which `memory` would take for the same one, are told apart by these. */
        .searches = planner_mix(seed),
        .placed = BASE_ARRAY(arena, bool, n),
        .offsets = BASE_ARRAY(arena, size_t, n),
        .loose = BASE_ARRAY(arena, bool, n),
        .marks = BASE_ARRAY(arena, uint32_t, n),
        .candidates = BASE_ARRAY(arena, candidate, n)};
    return s->placed && s->offsets && s->loose && s->marks && s->candidates ? s : NULL;
}

/* A number below the limit. */
static uint64_t draw(sweep *s, uint64_t limit) {
    s->random = planner_mix(s->random);
    return s->random % limit;
}

static bool is_pinned(const sweep *s, uint32_t b) {
    return s->sky->items[b].fixed != SKYLINE_NEVER;
}

static const uint32_t *covers(const sweep *s, uint32_t section, uint32_t *count) {
    *count = s->sky->left[section];
    return s->sky->covers + s->sky->cover_starts[section];
}

/* Nothing is done but what the user pinned. The tightest section comes first, or one that is nearly as tight. */
static void begin(sweep *s, size_t capacity) {
    const skyline *sky = s->sky;
    size_t tightest = 0;
    s->begun = true;
    s->first = s->last = 0;
    s->capacity = capacity;
    s->retreats = 0;
    for (uint32_t b = 0; b < sky->item_count; b++) {
        s->placed[b] = is_pinned(s, b);
        s->offsets[b] = s->placed[b] ? (size_t)sky->items[b].fixed : 0;
    }
    for (uint32_t k = 0; k < sky->section_count; k++) {
        const size_t tightness = (size_t)sky->to_come[k] + (size_t)draw(s, capacity / 10 + 1);
        if (k > 0 && tightness <= tightest) continue;
        tightest = tightness;
        s->first = s->last = k;
    }
}

/* On which side to go on: mostly on the tighter one. */
static bool goes_left(sweep *s) {
    const skyline *sky = s->sky;
    if (s->last == sky->section_count) return true;
    if (s->first == 0) return false;
    const unsigned quarters = s->first == s->last                                  ? 2
                              : sky->to_come[s->first - 1] > sky->to_come[s->last] ? 3
                                                                                   : 1;
    return draw(s, 4) < quarters;
}

static int compare_candidates(const void *left, const void *right) {
    const candidate *a = left, *b = right;
    if (a->distance != b->distance) return a->distance < b->distance ? -1 : 1;
    return (a->buffer > b->buffer) - (a->buffer < b->buffer);
}

/* Placed buffers that could be loosened for a new section k, the nearest first: how far from k its life is counts twice,
 * how far it reaches into what is done once, and that many times how far it lies from an address drawn by chance. What
 * lies together leaves one free range. At least `wanted`, if there are as many. */
static uint32_t list_candidates(sweep *s, uint32_t k, bool left, uint32_t wanted) {
    const size_t focus = (size_t)draw(s, s->capacity | 1), band = s->capacity / BANDS + 1;
    uint32_t found = 0;
    s->mark++;
    for (uint32_t j = k; found < wanted;) {
        if (left ? ++j >= s->last : j-- <= s->first) break;
        uint32_t count;
        const uint32_t *here = covers(s, j, &count);
        for (uint32_t c = 0; c < count; c++) {
            const uint32_t b = here[c];
            const skyline_item *i = &s->sky->items[b];
            if (!s->placed[b] || is_pinned(s, b) || s->marks[b] == s->mark) continue;
            s->marks[b] = s->mark;
            const uint64_t away = left ? i->first > k ? i->first - k - 1 : 0 : i->last < k ? k - i->last : 0;
            const uint64_t reach = left ? i->last - k - 1 : k - i->first;
            const size_t low = s->offsets[b], high = low + (size_t)i->size;
            const uint64_t bands = (focus < low ? low - focus : focus > high ? focus - high : 0) / band;
            const uint64_t distance = (2 * away + reach + 1) * (bands + 1);
            s->candidates[found++] = (candidate){distance * (CHANCE / 2 + draw(s, CHANCE)), b};
        }
    }
    qsort(s->candidates, found, sizeof *s->candidates, compare_candidates);
    return found;
}

/* The present try as a problem of its own: the loose buffers, and what is taken around them as pinned buffers. Its steps
 * are sections. */
typedef struct attempt {
    base_arena arena;
    uint32_t first, last; /* the sections of all loose buffers */
    uint32_t *members;    /* the loose ones */
    uint32_t member_count, buffer_count;
    planner_buffer *buffers; /* first the members */
    size_t buffer_room;
    range *taken;                /* for the ranges of a section */
    uint32_t *open, *still_open; /* pinned buffers that reach up to the present section, the lowest first */
} attempt;

static int compare_ranges(const void *left, const void *right) {
    const range *a = left, *b = right;
    return (a->low > b->low) - (a->low < b->low);
}

/* What is taken in section k, the lowest first, with all that is too small for the loose ones that live there. */
static uint32_t list_taken(const sweep *s, uint32_t k, range *taken) {
    uint32_t count, found = 0, merged = 0;
    size_t least = SIZE_MAX;
    const uint32_t *here = covers(s, k, &count);
    for (uint32_t c = 0; c < count; c++) {
        const uint32_t b = here[c];
        const size_t size = (size_t)s->sky->items[b].size;
        if (s->loose[b]) least = size < least ? size : least;
        else if (s->placed[b]) taken[found++] = (range){s->offsets[b], s->offsets[b] + size};
    }
    if (least == SIZE_MAX || found == 0) return 0;
    qsort(taken, found, sizeof *taken, compare_ranges);
    if (taken[0].low < least) taken[0].low = 0;
    for (uint32_t r = 1; r < found; r++) {
        if (taken[r].low - taken[merged].high < least) taken[merged].high = taken[r].high;
        else taken[++merged] = taken[r];
    }
    if (taken[merged].high < s->capacity && s->capacity - taken[merged].high < least)
        taken[merged].high = s->capacity;
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
static bool pin_taken(const sweep *s, attempt *a) {
    uint32_t open = 0;
    for (uint32_t k = a->first; k < a->last; k++) {
        const uint32_t count = list_taken(s, k, a->taken);
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
static bool make_problem(const sweep *s, size_t loose_count, attempt *a) {
    const skyline *sky = s->sky;
    size_t widest = 0;
    for (uint32_t k = a->first; k < a->last; k++) {
        if (sky->left[k] > widest) widest = sky->left[k];
    }
    a->members = BASE_ARRAY(&a->arena, uint32_t, loose_count);
    a->taken = BASE_ARRAY(&a->arena, range, widest);
    a->open = BASE_ARRAY(&a->arena, uint32_t, widest);
    a->still_open = BASE_ARRAY(&a->arena, uint32_t, widest);
    if (!a->members || !a->taken || !a->open || !a->still_open) return false;
    for (uint32_t k = a->first; k < a->last; k++) {
        uint32_t count;
        const uint32_t *here = covers(s, k, &count);
        for (uint32_t c = 0; c < count; c++) {
            const skyline_item *i = &sky->items[here[c]];
            if (!s->loose[here[c]] || i->first != k) continue;
            a->members[a->member_count++] = here[c];
            if (!add_buffer(a, (planner_buffer){.size = (size_t)i->size,
                                                .alignment = (size_t)i->alignment,
                                                .first = i->first,
                                                .last = i->last,
                                                .fixed = PLANNER_NOT_FIXED}))
                return false;
        }
    }
    return pin_taken(s, a);
}

/* A short search for the loose buffers; what it finds becomes part of the solution. */
static search_outcome search_loose(sweep *s, attempt *a, uint64_t *spent) {
    const planner_problem problem = {.buffers = a->buffers, .buffer_count = a->buffer_count};
    search sub;
    search_outcome outcome = SEARCH_STOPPED;
    if (!exact_search_init(&sub, &problem, planner_mix(++s->searches), s->budget, s->memory, &a->arena)) {
        /* Too large is what lies there already with the new ones: that is above any capacity. */
        s->out_of_memory = !sub.sky.too_large;
    } else {
        const uint64_t setup = 1 + sub.sky.cover_starts[sub.sky.section_count] / SETUP_COVERS;
        if (!planner_budget_spend(s->budget, setup))
            outcome = exact_search_decide(&sub, s->capacity, NODES * (uint64_t)a->buffer_count);
        s->out_of_memory = sub.sky.out_of_memory;
        *spent += setup + sub.spent;
    }
    for (uint32_t m = 0; outcome == SEARCH_SOLVED && m < a->member_count; m++) {
        s->offsets[a->members[m]] = sub.sky.offsets[m];
        s->placed[a->members[m]] = true;
    }
    exact_search_free(&sub);
    return outcome;
}

/* Searches for the new buffers of section k together with `loosened` of those around it. */
static search_outcome try_section(sweep *s, uint32_t k, bool left, uint32_t loosened, uint64_t *spent) {
    const skyline *sky = s->sky;
    attempt a = {.first = k, .last = k + 1};
    uint32_t count;
    const uint32_t *here = covers(s, k, &count);
    memset(s->loose, 0, sky->item_count * sizeof *s->loose);
    size_t loose_count = 0;
    for (uint32_t c = 0; c < count; c++) {
        s->loose[here[c]] = !s->placed[here[c]];
        loose_count += s->loose[here[c]];
    }
    /* Out of some more than are needed, so that those that have ended but reach less far come in, too. */
    const uint32_t found = loosened ? list_candidates(s, k, left, 3 * loosened) : 0;
    for (uint32_t c = 0; c < found && c < loosened; c++, loose_count++)
        s->loose[s->candidates[c].buffer] = true;
    for (uint32_t c = 0; c < count + found; c++) {
        const uint32_t b = c < count ? here[c] : s->candidates[c - count].buffer;
        if (!s->loose[b]) continue;
        if (sky->items[b].first < a.first) a.first = sky->items[b].first;
        if (sky->items[b].last > a.last) a.last = sky->items[b].last;
    }
    base_arena_init(&a.arena, s->allocator);
    s->out_of_memory = !make_problem(s, loose_count, &a);
    search_outcome outcome = s->out_of_memory ? SEARCH_STOPPED : search_loose(s, &a, spent);
    base_arena_free(&a.arena);
    return outcome;
}

/* Goes back on one side by some sections. False: nothing would be left, or this was too often. */
static bool retreat(sweep *s, bool left) {
    const uint32_t back = 2u << draw(s, WIDEST_RETREAT);
    if (++s->retreats > RETREATS || back >= s->last - s->first) return false;
    if (left) s->first += back;
    else s->last -= back;
    for (uint32_t b = 0; b < s->sky->item_count; b++) {
        const skyline_item *i = &s->sky->items[b];
        s->placed[b] = s->placed[b] && (is_pinned(s, b) || (i->first < s->last && s->first < i->last));
    }
    return true;
}

/* Takes in one more section, or goes back. False: the solution is given up. */
static bool grow(sweep *s, uint64_t *spent) {
    const bool left = goes_left(s);
    const uint32_t k = left ? s->first - 1 : s->last;
    uint32_t count, fresh = 0, done = 0;
    const uint32_t *here = covers(s, k, &count);
    for (uint32_t c = 0; c < count; c++) fresh += !s->placed[here[c]];
    for (uint32_t b = 0; b < s->sky->item_count; b++) done += s->placed[b] && !is_pinned(s, b);
    bool found = fresh == 0;
    for (uint32_t loosened = 0; !found; loosened = loosened ? 2 * loosened : FIRST_LOOSENED) {
        for (int t = 0; t < (loosened ? TRIES : 1) && !found; t++) {
            found = try_section(s, k, left, loosened, spent) == SEARCH_SOLVED;
            if (s->budget->over || s->out_of_memory) return true;
        }
        if (!found && loosened >= done) return retreat(s, left);
    }
    if (left) s->first = k;
    else s->last = k + 1;
    return true;
}

search_outcome exact_sweep_run(sweep *s, size_t capacity, uint64_t work, size_t *offsets,
                               bool *out_of_memory) {
    uint64_t spent = 0;
    if (s->begun && s->capacity != capacity) s->begun = false;
    for (;;) {
        if (!s->begun) begin(s, capacity);
        if (s->first == 0 && s->last == s->sky->section_count) break;
        if (spent >= work || s->budget->over) return SEARCH_STOPPED;
        const uint64_t before = spent;
        s->begun = grow(s, &spent);
        spent++; /* an end, even if nothing else costs anything */
        s->spent += spent - before;
        if (s->out_of_memory) {
            *out_of_memory = true;
            return SEARCH_STOPPED;
        }
    }
    for (uint32_t b = 0; b < s->sky->item_count; b++)
        if (s->sky->items[b].size > 0) offsets[b] = s->offsets[b];
    s->begun = false;
    return SEARCH_SOLVED;
}

uint64_t exact_sweep_spent(const sweep *s) {
    return s->spent;
}
