/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c: see sweep.h.
 *
 * Of few buffers there is one run of sections that are done. Of many there can be several: one for each peak that valleys part from the
 * others. A peak is stacked so that what leaves together lies together; from there the runs grow downwards, towards the valleys in
 * which they meet. The buffers of a new section are put into free ranges, by ejection chains where that is not enough, and by the
 * search over loosened buffers, which costs hundreds of times as much, where these are not either. */
#include "passes/planners/exact/sweep.h"
#include "passes/planners/exact/ejection.h"
#include "passes/planners/exact/partial.h"
#include "passes/planners/base/sorting.h"
#include <string.h>

enum {
    TRIES = 4,          /* for each number of loosened buffers */
    FIRST_LOOSENED = 4, /* how many at first; twice as many each time */
    NODES = 3,          /* of a try, for each buffer in it */
    RETREATS = 40,      /* until a solution is given up */
    WIDEST_RETREAT = 3, /* the logarithm of the most sections that one goes back by */
    MANY_BUFFERS = 1500, /* more than these: from all peaks at once */
    MOVES = 20000, /* of ejection chains, before some are loosened */
    SECTION_WORK = 80000, /* until nothing more is loosened */
    MANY_RETREATS = 400,
    ANEW_AFTER = 12,  /* retreats, there, a run begins anew */
    WIDER_AFTER = 16, /* retreats, there, until the most sections are twice as many */
    WIDEST = 4,       /* how often */
    PEAK = 20,        /* a section is nearly full where this part of the capacity is free, or less */
    VALLEY = 10       /* there is space where this part is */
};

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

/* Sections [first, last) that are done. */
typedef struct run {
    uint32_t first, last;
} run;

struct sweep {
    partial solution; /* so far: what lives in sections that are done, and what the user pinned */
    uint64_t spent;   /* work, in all */
    bool begun;
    bool many;    /* buffers: there can be several runs */
    run *runs;    /* in order; they do not touch */
    uint32_t run_count;
    uint32_t *peaks, next_peak; /* all sections, the tightest first; those before this one are not begun with any more */
    uint32_t *valleys;          /* by section: how many sections before it have space */
    planner_key *keys;          /* for sorting */
    unsigned retreats, begins;
    ejection *chains; /* in sections */
};

/* The problem as ejection chains see it: its steps are sections. False when memory runs out. */
static bool add_chains(sweep *s, const skyline *sky, uint64_t seed, base_arena *arena) {
    planner_problem *problem = BASE_NEW(arena, planner_problem);
    planner_buffer *buffers = BASE_ARRAY(arena, planner_buffer, (size_t)sky->item_count + 1);
    if (!problem || !buffers) return false;
    for (uint32_t b = 0; b < sky->item_count; b++) {
        const skyline_item *i = &sky->items[b];
        buffers[b] = (planner_buffer){.size = (size_t)i->size,
                                      .alignment = (size_t)i->alignment,
                                      .first = i->first,
                                      .last = i->last,
                                      .fixed = i->fixed == SKYLINE_NEVER ? PLANNER_NOT_FIXED : (size_t)i->fixed};
    }
    *problem = (planner_problem){.buffers = buffers, .buffer_count = sky->item_count};
    s->chains = exact_ejection_new(problem, seed, arena);
    return s->chains != NULL;
}

sweep *exact_sweep_new(const skyline *sky, uint64_t seed, planner_budget *budget, search_memory *memory,
                       base_arena *arena) {
    sweep *s = BASE_NEW(arena, sweep);
    if (!s) return NULL;
    *s = (sweep){.many = sky->item_count > MANY_BUFFERS};
    const size_t keys = 2 * (size_t)(s->many ? larger(sky->item_count, sky->section_count) : 1);
    s->runs = BASE_ARRAY(arena, run, s->many ? (size_t)sky->section_count + 1 : 1);
    s->peaks = BASE_ARRAY(arena, uint32_t, s->many ? (size_t)sky->section_count + 1 : 1);
    s->valleys = BASE_ARRAY(arena, uint32_t, s->many ? (size_t)sky->section_count + 1 : 1);
    s->keys = BASE_ARRAY(arena, planner_key, keys);
    if (!s->runs || !s->peaks || !s->valleys || !s->keys || (s->many && !add_chains(s, sky, seed, arena))) return NULL;
    return exact_partial_init(&s->solution, sky, seed, budget, memory, arena) ? s : NULL;
}

/* Nothing is done but what the user pinned. The tightest section comes first, or one that is nearly as tight. */
static void begin(sweep *s, size_t capacity) {
    const skyline *sky = s->solution.sky;
    size_t tightest = 0;
    uint32_t at = 0;
    s->begun = true;
    s->retreats = 0;
    s->begins++;
    exact_partial_clear(&s->solution, capacity);
    for (uint32_t k = 0; k < sky->section_count; k++) {
        const size_t tightness =
            (size_t)sky->to_come[k] + (size_t)exact_partial_draw(&s->solution, capacity / 10 + 1);
        if (s->many) s->keys[k] = (planner_key){UINT64_MAX - (uint64_t)sky->to_come[k], k};
        if (k > 0 && tightness <= tightest) continue;
        tightest = tightness;
        at = k;
    }
    s->runs[0] = (run){at, at};
    s->run_count = 1;
    if (!s->many || sky->section_count == 0) return;
    for (uint32_t k = 0; k < sky->section_count; k++)
        s->valleys[k + 1] = s->valleys[k] + ((size_t)sky->to_come[k] <= capacity - capacity / VALLEY);
    planner_sort_keys(s->keys, sky->section_count, s->keys + sky->section_count);
    for (uint32_t k = 0; k < sky->section_count; k++) s->peaks[k] = s->keys[k].buffer;
    s->run_count = s->next_peak = 0;
}

/* ---- where to go on -------------------------------------------------------------------------------------- */

/* Section k is the next one. It lies before runs[after], if there is that, and after runs[after - 1]; it touches one of them, both, or
 * none. */
typedef struct step {
    uint32_t k, after;
    bool left, right; /* it touches the run that begins after it, the one that ends before it */
} step;

static step step_at(const sweep *s, uint32_t k, uint32_t after) {
    return (step){.k = k,
                  .after = after,
                  .left = after < s->run_count && s->runs[after].first == k + 1,
                  .right = after > 0 && s->runs[after - 1].last == k};
}

/* Of one run: on which side to go on: mostly on the tighter one. */
static step next_of_one(sweep *s) {
    const skyline *sky = s->solution.sky;
    const run *r = &s->runs[0];
    bool left = r->last == sky->section_count;
    if (!left && r->first > 0) {
        const unsigned quarters = r->first == r->last                                 ? 2
                                  : sky->to_come[r->first - 1] > sky->to_come[r->last] ? 3
                                                                                      : 1;
        left = exact_partial_draw(&s->solution, 4) < quarters;
    }
    return (step){.k = left ? r->first - 1 : r->last, .after = left ? 0 : 1, .left = left, .right = !left};
}

/* The first run that begins after section k. */
static uint32_t run_after(const sweep *s, uint32_t k) {
    uint32_t low = 0, high = s->run_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (s->runs[middle].first <= k) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Is there space in some section of [first, last)? */
static bool has_valley(const sweep *s, uint32_t first, uint32_t last) {
    return s->valleys[last] > s->valleys[first];
}

/* Nothing that is placed interferes with the buffers of section k. */
static bool is_alone(const sweep *s, uint32_t k) {
    const partial *p = &s->solution;
    uint32_t count, first = k, last = k + 1;
    const uint32_t *here = exact_partial_covers(p, k, &count);
    for (uint32_t c = 0; c < count; c++) {
        const skyline_item *i = &p->sky->items[here[c]];
        first = i->first < first ? i->first : first;
        last = i->last > last ? i->last : last;
    }
    for (uint32_t j = first; j < last; j++) {
        here = exact_partial_covers(p, j, &count);
        for (uint32_t c = 0; c < count; c++)
            if (p->placed[here[c]]) return false;
    }
    return true;
}

/* Section k is worth a run of its own: there is none, or it is nearly full, there is space between it and the runs beside it, and
 * nothing that is placed interferes with its buffers. */
static bool is_peak(const sweep *s, uint32_t k) {
    const partial *p = &s->solution;
    const uint32_t after = run_after(s, k);
    if (s->run_count == 0) return true;
    if ((size_t)p->sky->to_come[k] < p->capacity - p->capacity / PEAK) return false;
    if (after > 0 && (k < s->runs[after - 1].last || !has_valley(s, s->runs[after - 1].last, k))) return false;
    if (after < s->run_count && !has_valley(s, k, s->runs[after].first)) return false;
    return is_alone(s, k);
}

/* Of many runs: the tightest section that touches one, now and then any; or a tighter one in which nothing lies yet. So they grow
 * from the peaks down, and meet where there is space. */
static step next_of_many(sweep *s) {
    const skyline *sky = s->solution.sky;
    uint32_t best = SKYLINE_NONE, after = 0, sides = 0;
    const bool chance = exact_partial_draw(&s->solution, 4) == 0;
    for (uint32_t r = 0; r < s->run_count; r++) {
        for (unsigned side = 0; side < 2; side++) {
            if (side ? s->runs[r].last == sky->section_count : s->runs[r].first == 0) continue;
            const uint32_t k = side ? s->runs[r].last : s->runs[r].first - 1;
            const bool better = best == SKYLINE_NONE || sky->to_come[k] > sky->to_come[best];
            if (chance ? exact_partial_draw(&s->solution, ++sides) > 0 : !better) continue;
            best = k;
            after = r + side;
        }
    }
    for (; s->next_peak < sky->section_count; s->next_peak++) {
        const uint32_t k = s->peaks[s->next_peak];
        if (best != SKYLINE_NONE && sky->to_come[k] <= sky->to_come[best]) break;
        if (!is_peak(s, k)) continue;
        best = k;
        after = run_after(s, k);
        break;
    }
    return step_at(s, best, after);
}

/* ---- a section ------------------------------------------------------------------------------------------- */

/* Placed buffers that could be loosened for a new section k, the nearest first: how far from k its life is counts twice,
 * how far it reaches into what is done once, and that many times how far it lies from an address drawn by chance. At least
 * `wanted`, if there are as many. */
static void list_candidates(sweep *s, const step *at, uint32_t wanted) {
    partial *p = &s->solution;
    const uint32_t k = at->k, first = at->right ? s->runs[at->after - 1].first : k,
                   last = at->left ? s->runs[at->after].last : k + 1;
    exact_partial_list(p);
    for (uint32_t away = 1; p->candidate_count < wanted && (away <= k - first || away < last - k); away++) {
        for (unsigned side = 0; side < 2; side++) {
            if (side ? away >= last - k : away > k - first) continue;
            uint32_t count;
            const uint32_t *here = exact_partial_covers(p, side ? k + away : k - away, &count);
            for (uint32_t c = 0; c < count; c++) {
                const skyline_item *i = &p->sky->items[here[c]];
                const uint64_t apart = side ? i->first > k ? i->first - k - 1 : 0 : i->last < k ? k - i->last : 0;
                const uint64_t reach = side ? i->last - k - 1 : k - i->first;
                exact_partial_add(p, here[c], 2 * apart + reach + 1);
            }
        }
    }
    exact_partial_sort(p);
}

/* The new buffers of section k are loose, and nothing else. */
static void loosen_new(sweep *s, uint32_t k) {
    partial *p = &s->solution;
    uint32_t count;
    const uint32_t *here = exact_partial_covers(p, k, &count);
    exact_partial_fasten(p);
    for (uint32_t c = 0; c < count; c++)
        if (!p->placed[here[c]]) exact_partial_loosen(p, here[c]);
}

/* Searches for the new buffers of section k together with `loosened` of those around it. */
static search_outcome try_section(sweep *s, const step *at, uint32_t loosened, uint64_t *spent) {
    partial *p = &s->solution;
    loosen_new(s, at->k);
    if (loosened) {
        /* Out of some more than are needed, so that those that have ended but reach less far come in, too. */
        list_candidates(s, at, 3 * loosened);
        for (uint32_t c = 0; c < p->candidate_count && c < loosened; c++)
            exact_partial_loosen(p, p->candidates[c].buffer);
    }
    return exact_partial_search(p, NODES, spent);
}

/* All buffers of a section in which nothing lies one on another, where no alignment forbids it: from the lowest address up those that
 * end soon, the soonest first; from the highest down those that began late, the latest first. So what leaves together lies
 * together, on either side of the section, and leaves one free range. After the first time with a little chance. */
static bool stack_section(sweep *s, uint32_t k) {
    partial *p = &s->solution;
    uint32_t count;
    const uint32_t *here = exact_partial_covers(p, k, &count);
    if (p->sky->most_alignment > 1 || (size_t)p->sky->to_come[k] > p->capacity) return false;
    for (uint32_t c = 0; c < count; c++) {
        const skyline_item *i = &p->sky->items[here[c]];
        uint64_t before = 16 * (uint64_t)(k - i->first), after = 16 * (uint64_t)(i->last - 1 - k);
        if (s->begins > 1 || s->retreats > 0) {
            before += exact_partial_draw(p, 64);
            after += exact_partial_draw(p, 64);
        }
        s->keys[c] = (planner_key){after <= before ? after : UINT64_MAX - before, here[c]};
    }
    planner_sort_keys(s->keys, count, s->keys + count);
    size_t low = 0, high = p->capacity;
    for (uint32_t c = 0; c < count && s->keys[c].key < UINT64_MAX / 2; c++) {
        p->offsets[s->keys[c].buffer] = low;
        low += (size_t)p->sky->items[s->keys[c].buffer].size;
    }
    for (uint32_t c = count; c-- > 0 && s->keys[c].key >= UINT64_MAX / 2;) {
        high -= (size_t)p->sky->items[s->keys[c].buffer].size;
        p->offsets[s->keys[c].buffer] = high;
    }
    for (uint32_t c = 0; c < count; c++) p->placed[here[c]] = true;
    return true;
}

/* ---- runs ------------------------------------------------------------------------------------------------ */

/* Section k is done. */
static void join(sweep *s, const step *at) {
    run *runs = s->runs;
    if (at->left && at->right) {
        runs[at->after - 1].last = runs[at->after].last;
        memmove(&runs[at->after], &runs[at->after + 1], (--s->run_count - at->after) * sizeof *runs);
    } else if (at->left) {
        runs[at->after].first = at->k;
    } else if (at->right) {
        runs[at->after - 1].last = at->k + 1;
    } else {
        memmove(&runs[at->after + 1], &runs[at->after], (s->run_count++ - at->after) * sizeof *runs);
        runs[at->after] = (run){at->k, at->k + 1};
    }
}

/* Only what lives in a run, or is pinned, stays. */
static void drop_others(sweep *s) {
    partial *p = &s->solution;
    for (uint32_t b = 0; b < p->sky->item_count; b++) {
        const skyline_item *i = &p->sky->items[b];
        if (!p->placed[b] || exact_partial_is_pinned(p, b)) continue;
        uint32_t r = s->run_count == 1 ? 1 : run_after(s, i->last - 1);
        p->placed[b] = r > 0 && i->first < s->runs[r - 1].last && s->runs[r - 1].first < i->last;
    }
}

/* Goes back on one side by some sections. False: nothing would be left, or this was too often. */
static bool retreat_one(sweep *s, bool left) {
    run *r = &s->runs[0];
    const uint32_t back = 2u << exact_partial_draw(&s->solution, WIDEST_RETREAT);
    if (++s->retreats > RETREATS || back >= r->last - r->first) return false;
    if (left) r->first += back;
    else r->last -= back;
    drop_others(s);
    return true;
}

/* The same for all runs that touch the section; one of which nothing is left is given up. */
static bool retreat_many(sweep *s, const step *at) {
    if (++s->retreats > MANY_RETREATS) return false;
    const uint32_t wider = s->retreats / WIDER_AFTER, more = wider < WIDEST ? wider : WIDEST;
    const bool anew = s->retreats % ANEW_AFTER == 0;
    const uint32_t back = anew ? s->solution.sky->section_count : 2u << exact_partial_draw(&s->solution, WIDEST_RETREAT + more);
    uint32_t kept = 0;
    for (uint32_t r = 0; r < s->run_count; r++) {
        run left = s->runs[r];
        if (at->right && r == at->after - 1) left.last -= back < left.last - left.first ? back : left.last - left.first;
        if (at->left && r == at->after) left.first += back < left.last - left.first ? back : left.last - left.first;
        if (left.first < left.last) s->runs[kept++] = left;
    }
    s->run_count = kept;
    s->next_peak = 0;
    drop_others(s);
    return true;
}

/* Takes in one more section, or goes back. False: the solution is given up. */
static bool grow(sweep *s, uint64_t *spent) {
    partial *p = &s->solution;
    const uint64_t before = *spent;
    const step at = s->many ? next_of_many(s) : next_of_one(s);
    uint32_t count, fresh = 0, done = 0;
    const uint32_t *here = exact_partial_covers(p, at.k, &count);
    for (uint32_t c = 0; c < count; c++) fresh += !p->placed[here[c]];
    for (uint32_t b = 0; b < p->sky->item_count; b++) done += p->placed[b] && !exact_partial_is_pinned(p, b);
    bool found = fresh == 0;
    if (!found && s->many) {
        loosen_new(s, at.k);
        const bool alone = !at.left && !at.right && is_alone(s, at.k);
        found = (alone && stack_section(s, at.k)) || exact_partial_place(p, spent);
        if (!found) found = exact_ejection_insert(s->chains, p->capacity, p->placed, p->loose, p->offsets, MOVES, p->budget, spent);
    }
    for (uint32_t loosened = 0; !found; loosened = loosened ? 2 * loosened : FIRST_LOOSENED) {
        for (int t = 0; t < (loosened ? TRIES : 1) && !found; t++) {
            found = try_section(s, &at, loosened, spent) == SEARCH_SOLVED;
            if (p->budget->over || p->out_of_memory) return true;
        }
        if (!found && (loosened >= done || (s->many && *spent - before > SECTION_WORK))) return s->many ? retreat_many(s, &at) : retreat_one(s, at.left);
    }
    join(s, &at);
    return true;
}

search_outcome exact_sweep_run(sweep *s, size_t capacity, uint64_t work, size_t *offsets,
                               bool *out_of_memory) {
    const partial *p = &s->solution;
    uint64_t spent = 0;
    if (s->begun && p->capacity != capacity) s->begun = false;
    for (;;) {
        if (!s->begun) begin(s, capacity);
        if (s->run_count == 1 && s->runs[0].first == 0 && s->runs[0].last == p->sky->section_count) break;
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
