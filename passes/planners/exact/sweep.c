/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c: see sweep.h. */
#include "passes/planners/exact/sweep.h"
#include "passes/planners/exact/partial.h"

enum {
    TRIES = 4,          /* for each number of loosened buffers */
    FIRST_LOOSENED = 4, /* how many at first; twice as many each time */
    NODES = 3,          /* of a try, for each buffer in it */
    RETREATS = 40,      /* until a solution is given up */
    WIDEST_RETREAT = 3, /* the logarithm of the most sections that one goes back by */
};

struct sweep {
    partial solution; /* so far: what lives in sections [first, last), and what the user pinned */
    uint64_t spent;   /* work, in all */
    bool begun;
    uint32_t first, last;
    unsigned retreats;
};

sweep *exact_sweep_new(const skyline *sky, uint64_t seed, planner_budget *budget, search_memory *memory,
                       base_arena *arena) {
    sweep *s = BASE_NEW(arena, sweep);
    if (!s) return NULL;
    *s = (sweep){0};
    return exact_partial_init(&s->solution, sky, seed, budget, memory, arena) ? s : NULL;
}

/* Nothing is done but what the user pinned. The tightest section comes first, or one that is nearly as tight. */
static void begin(sweep *s, size_t capacity) {
    const skyline *sky = s->solution.sky;
    size_t tightest = 0;
    s->begun = true;
    s->first = s->last = 0;
    s->retreats = 0;
    exact_partial_clear(&s->solution, capacity);
    for (uint32_t k = 0; k < sky->section_count; k++) {
        const size_t tightness =
            (size_t)sky->to_come[k] + (size_t)exact_partial_draw(&s->solution, capacity / 10 + 1);
        if (k > 0 && tightness <= tightest) continue;
        tightest = tightness;
        s->first = s->last = k;
    }
}

/* On which side to go on: mostly on the tighter one. */
static bool goes_left(sweep *s) {
    const skyline *sky = s->solution.sky;
    if (s->last == sky->section_count) return true;
    if (s->first == 0) return false;
    const unsigned quarters = s->first == s->last                                  ? 2
                              : sky->to_come[s->first - 1] > sky->to_come[s->last] ? 3
                                                                                   : 1;
    return exact_partial_draw(&s->solution, 4) < quarters;
}

/* Placed buffers that could be loosened for a new section k, the nearest first: how far from k its life is counts twice,
 * how far it reaches into what is done once, and that many times how far it lies from an address drawn by chance. At least
 * `wanted`, if there are as many. */
static void list_candidates(sweep *s, uint32_t k, bool left, uint32_t wanted) {
    partial *p = &s->solution;
    exact_partial_list(p);
    for (uint32_t j = k; p->candidate_count < wanted;) {
        if (left ? ++j >= s->last : j-- <= s->first) break;
        uint32_t count;
        const uint32_t *here = exact_partial_covers(p, j, &count);
        for (uint32_t c = 0; c < count; c++) {
            const skyline_item *i = &p->sky->items[here[c]];
            const uint64_t away = left ? i->first > k ? i->first - k - 1 : 0 : i->last < k ? k - i->last : 0;
            const uint64_t reach = left ? i->last - k - 1 : k - i->first;
            exact_partial_add(p, here[c], 2 * away + reach + 1);
        }
    }
    exact_partial_sort(p);
}

/* Searches for the new buffers of section k together with `loosened` of those around it. */
static search_outcome try_section(sweep *s, uint32_t k, bool left, uint32_t loosened, uint64_t *spent) {
    partial *p = &s->solution;
    uint32_t count;
    const uint32_t *here = exact_partial_covers(p, k, &count);
    exact_partial_fasten(p);
    for (uint32_t c = 0; c < count; c++)
        if (!p->placed[here[c]]) exact_partial_loosen(p, here[c]);
    if (loosened) {
        /* Out of some more than are needed, so that those that have ended but reach less far come in, too. */
        list_candidates(s, k, left, 3 * loosened);
        for (uint32_t c = 0; c < p->candidate_count && c < loosened; c++)
            exact_partial_loosen(p, p->candidates[c].buffer);
    }
    return exact_partial_search(p, NODES, spent);
}

/* Goes back on one side by some sections. False: nothing would be left, or this was too often. */
static bool retreat(sweep *s, bool left) {
    partial *p = &s->solution;
    const uint32_t back = 2u << exact_partial_draw(p, WIDEST_RETREAT);
    if (++s->retreats > RETREATS || back >= s->last - s->first) return false;
    if (left) s->first += back;
    else s->last -= back;
    for (uint32_t b = 0; b < p->sky->item_count; b++) {
        const skyline_item *i = &p->sky->items[b];
        p->placed[b] =
            p->placed[b] && (exact_partial_is_pinned(p, b) || (i->first < s->last && s->first < i->last));
    }
    return true;
}

/* Takes in one more section, or goes back. False: the solution is given up. */
static bool grow(sweep *s, uint64_t *spent) {
    partial *p = &s->solution;
    const bool left = goes_left(s);
    const uint32_t k = left ? s->first - 1 : s->last;
    uint32_t count, fresh = 0, done = 0;
    const uint32_t *here = exact_partial_covers(p, k, &count);
    for (uint32_t c = 0; c < count; c++) fresh += !p->placed[here[c]];
    for (uint32_t b = 0; b < p->sky->item_count; b++) done += p->placed[b] && !exact_partial_is_pinned(p, b);
    bool found = fresh == 0;
    for (uint32_t loosened = 0; !found; loosened = loosened ? 2 * loosened : FIRST_LOOSENED) {
        for (int t = 0; t < (loosened ? TRIES : 1) && !found; t++) {
            found = try_section(s, k, left, loosened, spent) == SEARCH_SOLVED;
            if (p->budget->over || p->out_of_memory) return true;
        }
        if (!found && loosened >= done) return retreat(s, left);
    }
    if (left) s->first = k;
    else s->last = k + 1;
    return true;
}

search_outcome exact_sweep_run(sweep *s, size_t capacity, uint64_t work, size_t *offsets,
                               bool *out_of_memory) {
    const partial *p = &s->solution;
    uint64_t spent = 0;
    if (s->begun && p->capacity != capacity) s->begun = false;
    for (;;) {
        if (!s->begun) begin(s, capacity);
        if (s->first == 0 && s->last == p->sky->section_count) break;
        if (spent >= work || p->budget->over) return SEARCH_STOPPED;
        const uint64_t before = spent;
        s->begun = grow(s, &spent);
        spent++; /* an end, even if nothing else costs anything */
        s->spent += spent - before;
        if (p->out_of_memory) {
            *out_of_memory = true;
            return SEARCH_STOPPED;
        }
    }
    for (uint32_t b = 0; b < p->sky->item_count; b++)
        if (p->sky->items[b].size > 0) offsets[b] = p->offsets[b];
    s->begun = false;
    return SEARCH_SOLVED;
}

uint64_t exact_sweep_spent(const sweep *s) {
    return s->spent;
}
