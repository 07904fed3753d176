/* SPDX-License-Identifier: Apache-2.0 */
/* order.c: see order.h. */
#include "passes/memory/order.h"
#include <stdlib.h>
#include <string.h>

enum {
    EXACT_STATES = 30000,  /* sets that an exact search may look at in one range */
    EXACT_STEPS = 512,     /* of a range; longer ones are followed or cut into windows */
    FOLLOWED_STEPS = 2048, /* of a range that is followed with FOLLOWED_SETS sets */
    FOLLOWED_SETS = 48,
    WINDOW_ROUNDS = 64, /* windows around the peak in all */
    READY_STEPS = 32    /* of the steps that can run, how many are compared in long ranges */
};
#define NO_STATE UINT32_MAX

/* ---- an order and what it has live --------------------------------------------------------------------- */

typedef struct arrangement {
    const order_problem *problem;
    uint32_t *order;
    uint32_t *first, *last; /* by storage: the places of its first and last step in the order */
    size_t *live;           /* by place: bytes live before the step there, and after the last one */
    size_t *peaks;          /* by place: what the step there has live */
    uint32_t *left;         /* by storage: steps that touch it and have not run, in simulate */
    bool *begun;
    base_arena *scratch;
} arrangement;

static bool arrangement_init(arrangement *a, const order_problem *problem, uint32_t *order,
                             base_arena *scratch) {
    size_t steps = problem->step_count, storages = problem->storage_count;
    *a = (arrangement){.problem = problem, .order = order, .scratch = scratch};
    a->first = BASE_ARRAY(scratch, uint32_t, storages + 1);
    a->last = BASE_ARRAY(scratch, uint32_t, storages + 1);
    a->left = BASE_ARRAY(scratch, uint32_t, storages + 1);
    a->begun = BASE_ARRAY(scratch, bool, storages + 1);
    a->live = BASE_ARRAY(scratch, size_t, steps + 1);
    a->peaks = BASE_ARRAY(scratch, size_t, steps + 1);
    return a->first && a->last && a->left && a->begun && a->live && a->peaks;
}

/* Sets left and begun of the storages that places [from, to) touch to what they are before `from`. */
static void enter(arrangement *a, uint32_t from, uint32_t to) {
    const order_problem *p = a->problem;
    for (uint32_t place = from; place < to; place++) {
        for (uint32_t t = p->touch_starts[a->order[place]]; t < p->touch_starts[a->order[place] + 1]; t++) {
            uint32_t s = p->touches[t];
            bool touched = a->first[s] != UINT32_MAX; /* before the first simulation nothing is */
            a->begun[s] = p->live_in[s] || a->first[s] < from;
            a->left[s] = p->live_out[s] || (touched && a->last[s] >= to);
        }
    }
    for (uint32_t place = from; place < to; place++) {
        for (uint32_t t = p->touch_starts[a->order[place]]; t < p->touch_starts[a->order[place] + 1]; t++) {
            a->left[p->touches[t]]++;
        }
    }
}

/* Runs the steps of places [from, to) and fills everything else for them. What lies outside must have been
 * run before, with the same steps in the range; at first the range is everything. */
static void simulate(arrangement *a, uint32_t from, uint32_t to) {
    const order_problem *p = a->problem;
    bool whole = from == 0 && to == p->step_count;
    size_t live = whole ? 0 : a->live[from];
    for (uint32_t s = 0; whole && s < p->storage_count; s++) {
        a->first[s] = UINT32_MAX;
        a->last[s] = 0;
        if (p->live_in[s]) live += p->sizes[s];
    }
    enter(a, from, to);
    for (uint32_t place = from; place < to; place++) {
        for (uint32_t t = p->touch_starts[a->order[place]]; t < p->touch_starts[a->order[place] + 1]; t++) {
            uint32_t *first = &a->first[p->touches[t]];
            if (*first >= from && *first < to) *first = UINT32_MAX;
        }
    }
    for (uint32_t place = from; place < to; place++) {
        uint32_t step = a->order[place];
        size_t begins = 0, ends = 0, saved = 0;
        for (uint32_t i = p->in_place_starts[step]; i < p->in_place_starts[step + 1] && !saved; i++) {
            uint32_t over = p->in_place[i].from, made = p->in_place[i].to;
            if (a->left[over] == 1 && !a->begun[made]) saved = p->sizes[made];
        }
        for (uint32_t t = p->touch_starts[step]; t < p->touch_starts[step + 1]; t++) {
            uint32_t s = p->touches[t];
            if (!a->begun[s]) begins += p->sizes[s];
            if (--a->left[s] == 0) ends += p->sizes[s];
            a->begun[s] = true;
            if (a->first[s] == UINT32_MAX) a->first[s] = place;
            if (a->last[s] < to) a->last[s] = place;
        }
        a->live[place] = live;
        a->peaks[place] = live + begins - saved + p->needs[step];
        live = live + begins - ends;
    }
    a->live[to] = live;
}

static size_t range_peak(const arrangement *a, uint32_t from, uint32_t to) {
    size_t peak = 0;
    for (uint32_t k = from; k < to; k++) {
        if (a->peaks[k] > peak) peak = a->peaks[k];
    }
    return peak;
}

bool pass_order_peak(const order_problem *problem, const uint32_t *order, base_arena *scratch, size_t *peak) {
    arrangement a;
    uint32_t *copy = BASE_ARRAY(scratch, uint32_t, (size_t)problem->step_count + 1);
    if (!copy || !arrangement_init(&a, problem, copy, scratch)) return false;
    memcpy(copy, order, problem->step_count * sizeof *copy);
    simulate(&a, 0, problem->step_count);
    *peak = range_peak(&a, 0, problem->step_count);
    return true;
}

/* ---- a range of places, ordered anew ------------------------------------------------------------------- */

/* A set of steps of the range that have run. */
typedef struct state {
    size_t peak, live; /* so far, and now */
    uint32_t parent;
    uint32_t step; /* the last one, in the range's numbers */
    uint32_t count;
} state;

typedef struct range_search {
    const order_problem *problem;
    uint32_t count, words;                /* steps, and words of a set of them */
    uint32_t *steps;                      /* in the range's numbers: the step */
    uint64_t *before;                     /* by step: the set that must have run */
    uint32_t *touch_starts, *touches;     /* by step: storages in the range's numbers */
    uint32_t *in_place_starts, *in_place; /* pairs from, to */
    size_t *sizes;
    uint64_t *touched_by; /* by storage: set of steps */
    bool *live_before, *live_after;
    state *states;
    uint64_t *sets; /* of the states */
    uint32_t state_count, state_limit;
    uint32_t *table; /* hash of a set -> its newest state */
    uint32_t table_size;
    uint32_t *heap;
    uint32_t heap_count;
} range_search;

static bool has(const uint64_t *set, uint32_t step) {
    return set[step / 64] >> (step % 64) & 1;
}

static bool meets(const range_search *r, const uint64_t *a, const uint64_t *b) {
    for (uint32_t w = 0; w < r->words; w++) {
        if (a[w] & b[w]) return true;
    }
    return false;
}

/* All of a, but possibly `step`, is in b. */
static bool within(const range_search *r, const uint64_t *a, const uint64_t *b, uint32_t step) {
    for (uint32_t w = 0; w < r->words; w++) {
        uint64_t missing = a[w] & ~b[w];
        if (step / 64 == w) missing &= ~(UINT64_C(1) << (step % 64));
        if (missing) return false;
    }
    return true;
}

/* What running `step` after the steps of `set` has live, and how much is live afterwards. */
static void run_step(const range_search *r, const uint64_t *set, size_t live, uint32_t step, size_t *peak,
                     size_t *after) {
    size_t begins = 0, ends = 0, saved = 0;
    for (uint32_t t = r->touch_starts[step]; t < r->touch_starts[step + 1]; t++) {
        uint32_t s = r->touches[t];
        const uint64_t *by = r->touched_by + (size_t)s * r->words;
        if (!r->live_before[s] && !meets(r, by, set)) begins += r->sizes[s];
        if (!r->live_after[s] && within(r, by, set, step)) ends += r->sizes[s];
    }
    for (uint32_t i = r->in_place_starts[step]; i < r->in_place_starts[step + 1] && !saved; i++) {
        uint32_t from = r->in_place[2 * i], to = r->in_place[2 * i + 1];
        if (!r->live_after[from] && within(r, r->touched_by + (size_t)from * r->words, set, step) &&
            !r->live_before[to] && !meets(r, r->touched_by + (size_t)to * r->words, set)) {
            saved = r->sizes[to];
        }
    }
    *peak = live + begins - saved + r->problem->needs[r->steps[step]];
    *after = live + begins - ends;
}

static bool range_init(range_search *r, const arrangement *a, uint32_t from, uint32_t to, base_arena *arena) {
    const order_problem *p = a->problem;
    uint32_t count = to - from, touch_count = 0, choice_count = 0;
    *r = (range_search){.problem = p, .count = count, .words = (count + 63) / 64};
    for (uint32_t k = from; k < to; k++) {
        touch_count += p->touch_starts[a->order[k] + 1] - p->touch_starts[a->order[k]];
        choice_count += p->in_place_starts[a->order[k] + 1] - p->in_place_starts[a->order[k]];
    }
    r->steps = BASE_ARRAY(arena, uint32_t, count);
    r->before = BASE_ARRAY(arena, uint64_t, (size_t)count * r->words);
    r->touch_starts = BASE_ARRAY(arena, uint32_t, (size_t)count + 1);
    r->in_place_starts = BASE_ARRAY(arena, uint32_t, (size_t)count + 1);
    r->touches = BASE_ARRAY(arena, uint32_t, touch_count);
    r->in_place = BASE_ARRAY(arena, uint32_t, 2 * (size_t)choice_count);
    r->sizes = BASE_ARRAY(arena, size_t, touch_count);
    r->touched_by = BASE_ARRAY(arena, uint64_t, (size_t)touch_count * r->words);
    r->live_before = BASE_ARRAY(arena, bool, touch_count);
    r->live_after = BASE_ARRAY(arena, bool, touch_count);
    /* Numbers within the range, by a small open table, so that a window costs nothing beyond itself. */
    uint32_t size = 16;
    while (size < 2 * (touch_count + count)) size *= 2;
    uint32_t *keys = BASE_ARRAY(arena, uint32_t, size), *numbers = BASE_ARRAY(arena, uint32_t, size);
    if (!r->steps || !r->before || !r->touch_starts || !r->in_place_starts || !r->touches || !r->in_place ||
        !r->sizes || !r->touched_by || !r->live_before || !r->live_after || !keys || !numbers) {
        return false;
    }
    uint32_t storages = 0, touch = 0, choice = 0;
#define FIND(slot, key)                                                                                      \
    uint32_t slot = (uint32_t)((key)*UINT32_C(2654435761)) & (size - 1);                                     \
    while (keys[slot] && keys[slot] != (key) + 1) slot = (slot + 1) & (size - 1)
    for (uint32_t k = 0; k < count; k++) {
        uint32_t step = r->steps[k] = a->order[from + k];
        for (uint32_t t = p->touch_starts[step]; t < p->touch_starts[step + 1]; t++) {
            uint32_t s = p->touches[t];
            FIND(slot, s);
            if (!keys[slot]) {
                keys[slot] = s + 1;
                numbers[slot] = storages;
                r->sizes[storages] = p->sizes[s];
                r->live_before[storages] = p->live_in[s] || a->first[s] < from;
                r->live_after[storages] = p->live_out[s] || a->last[s] >= to;
                storages++;
            }
            r->touches[touch++] = numbers[slot];
            r->touched_by[(size_t)numbers[slot] * r->words + k / 64] |= UINT64_C(1) << (k % 64);
        }
        r->touch_starts[k + 1] = touch;
        for (uint32_t i = p->in_place_starts[step]; i < p->in_place_starts[step + 1]; i++) {
            FIND(slot_from, p->in_place[i].from);
            FIND(slot_to, p->in_place[i].to);
            r->in_place[2 * choice] = numbers[slot_from];
            r->in_place[2 * choice + 1] = numbers[slot_to];
            choice++;
        }
        r->in_place_starts[k + 1] = choice;
    }
    memset(keys, 0, size * sizeof *keys);
    for (uint32_t k = 0; k < count; k++) {
        FIND(slot, r->steps[k]);
        keys[slot] = r->steps[k] + 1;
        numbers[slot] = k;
    }
    for (uint32_t k = 0; k < count; k++) {
        for (uint32_t b = p->before_starts[r->steps[k]]; b < p->before_starts[r->steps[k] + 1]; b++) {
            FIND(slot, p->before[b]);
            if (keys[slot])
                r->before[(size_t)k * r->words + numbers[slot] / 64] |= UINT64_C(1) << (numbers[slot] % 64);
        }
    }
#undef FIND
    return true;
}

static bool range_states(range_search *r, uint32_t limit, base_arena *arena) {
    r->state_limit = limit;
    r->table_size = 16;
    while (r->table_size < 2 * limit) r->table_size *= 2;
    r->states = BASE_ARRAY(arena, state, limit);
    r->sets = BASE_ARRAY(arena, uint64_t, (size_t)limit * r->words);
    r->table = BASE_ARRAY(arena, uint32_t, r->table_size);
    r->heap = BASE_ARRAY(arena, uint32_t, (size_t)limit + 1);
    if (!r->states || !r->sets || !r->table || !r->heap) return false;
    memset(r->table, 0xff, r->table_size * sizeof *r->table);
    return true;
}

/* Adds the set of `parent` with `step`, if no state with the same set is as good. NO_STATE: it is not needed,
 * or the table is full (then state_count is state_limit). */
static uint32_t add_state(range_search *r, uint32_t parent, uint32_t step, size_t peak, size_t live) {
    if (r->state_count == r->state_limit) return NO_STATE;
    uint64_t *set = r->sets + (size_t)r->state_count * r->words;
    if (parent == NO_STATE) memset(set, 0, r->words * sizeof *set);
    else memcpy(set, r->sets + (size_t)parent * r->words, r->words * sizeof *set);
    if (parent != NO_STATE) set[step / 64] |= UINT64_C(1) << (step % 64);
    uint32_t slot = (uint32_t)base_hash(set, r->words * sizeof *set, 0) & (r->table_size - 1);
    for (; r->table[slot] != NO_STATE; slot = (slot + 1) & (r->table_size - 1)) {
        uint32_t other = r->table[slot];
        if (memcmp(r->sets + (size_t)other * r->words, set, r->words * sizeof *set) != 0) continue;
        if (r->states[other].peak <= peak) return NO_STATE;
        break;
    }
    r->states[r->state_count] = (state){.peak = peak,
                                        .live = live,
                                        .parent = parent,
                                        .step = step,
                                        .count = parent == NO_STATE ? 0 : r->states[parent].count + 1};
    r->table[slot] = r->state_count;
    return r->state_count++;
}

/* Lower peak first, then the one that is further, then the older one. */
static bool comes_first(const range_search *r, uint32_t a, uint32_t b) {
    const state *x = &r->states[a], *y = &r->states[b];
    if (x->peak != y->peak) return x->peak < y->peak;
    if (x->count != y->count) return x->count > y->count;
    return a < b;
}

static void heap_push(range_search *r, uint32_t item) {
    uint32_t at = r->heap_count++;
    for (; at > 0 && comes_first(r, item, r->heap[(at - 1) / 2]); at = (at - 1) / 2)
        r->heap[at] = r->heap[(at - 1) / 2];
    r->heap[at] = item;
}

static uint32_t heap_pop(range_search *r) {
    uint32_t top = r->heap[0], item = r->heap[--r->heap_count], at = 0;
    for (uint32_t child; (child = 2 * at + 1) < r->heap_count; at = child) {
        if (child + 1 < r->heap_count && comes_first(r, r->heap[child + 1], r->heap[child])) child++;
        if (!comes_first(r, r->heap[child], item)) break;
        r->heap[at] = r->heap[child];
    }
    r->heap[at] = item;
    return top;
}

/* The states that follow one state; those whose peak is not below `limit` are of no use. `push` puts them on
 * the heap. A step that raises neither the peak nor what is live can be taken at once: taking it later is
 * never better. */
static void expand(range_search *r, uint32_t from, size_t limit, bool push) {
    state now = r->states[from];
    uint32_t free_step = NO_STATE;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t k = 0; k < r->count; k++) {
            const uint64_t *set = r->sets + (size_t)from * r->words;
            if (has(set, k) || !within(r, r->before + (size_t)k * r->words, set, NO_STATE)) continue;
            size_t peak, live;
            run_step(r, set, now.live, k, &peak, &live);
            if (peak < now.peak) peak = now.peak;
            if (pass == 0) {
                if (peak > now.peak || live > now.live) continue;
                free_step = k;
            }
            if (peak >= limit) continue;
            uint32_t added = add_state(r, from, k, peak, live);
            if (added != NO_STATE && push) heap_push(r, added);
            if (free_step != NO_STATE) return;
        }
    }
}

/* Writes the order that leads to a state into places [from, ...). */
static void write_order(const range_search *r, uint32_t last, uint32_t *order) {
    for (uint32_t at = last; r->states[at].parent != NO_STATE; at = r->states[at].parent) {
        order[r->states[at].count - 1] = r->steps[r->states[at].step];
    }
}

/* Exact: the lowest peak first. *found is the last state, NO_STATE where none is below the limit; false: too
 * many. */
static bool search_exact(range_search *r, size_t floor, size_t live, size_t limit, uint32_t *found) {
    *found = NO_STATE;
    heap_push(r, add_state(r, NO_STATE, 0, floor, live));
    while (r->heap_count > 0) {
        uint32_t next = heap_pop(r);
        if (r->states[next].count == r->count) {
            *found = next;
            return true;
        }
        expand(r, next, limit, true);
        if (r->state_count == r->state_limit) return false;
    }
    return true;
}

/* Follows the FOLLOWED_SETS best sets of each size: those of the lowest peak, then of the least memory. */
static void search_followed(range_search *r, size_t floor, size_t live, size_t limit, uint32_t *found) {
    uint32_t begin = 0, end = 1;
    *found = NO_STATE;
    (void)add_state(r, NO_STATE, 0, floor, live);
    for (uint32_t count = 0; count < r->count && begin < end; count++) {
        uint32_t chosen[FOLLOWED_SETS], chosen_count = 0;
        for (uint32_t s = begin; s < end; s++) {
            const state *x = &r->states[s];
            uint32_t at = chosen_count;
            for (; at > 0; at--) {
                const state *y = &r->states[chosen[at - 1]];
                if (y->peak < x->peak || (y->peak == x->peak && y->live <= x->live)) break;
                if (at < FOLLOWED_SETS) chosen[at] = chosen[at - 1];
            }
            if (at < FOLLOWED_SETS) chosen[at] = s;
            if (chosen_count < FOLLOWED_SETS) chosen_count++;
        }
        begin = r->state_count;
        for (uint32_t c = 0; c < chosen_count; c++) expand(r, chosen[c], limit, false);
        end = r->state_count;
        if (r->state_count == r->state_limit) return;
    }
    for (uint32_t s = begin; s < end; s++) {
        if (r->states[s].count == r->count &&
            (*found == NO_STATE || r->states[s].peak < r->states[*found].peak))
            *found = s;
    }
}

/* Orders places [from, to) anew if that brings their peak below `limit`; peaks up to `floor` do not matter.
 */
static bool improve_range(arrangement *a, uint32_t from, uint32_t to, size_t floor, size_t limit,
                          bool *improved) {
    *improved = false;
    if (to - from < 2 || to - from > FOLLOWED_STEPS || floor >= limit) return true;
    range_search r;
    base_arena arena;
    base_arena_init(&arena, a->scratch->allocator);
    uint32_t found = NO_STATE;
    bool ok = range_init(&r, a, from, to, &arena), done = false;
    if (ok && to - from <= EXACT_STEPS) {
        /* Small ranges have few sets; each may be reached again on a better way. */
        ok = range_states(&r, to - from < 12 ? UINT32_C(4) << (to - from) : EXACT_STATES, &arena);
        done = ok && search_exact(&r, floor, a->live[from], limit, &found);
    }
    if (ok && !done) {
        uint32_t states = (to - from) * FOLLOWED_SETS * 8 + 16;
        r.state_count = r.heap_count = 0;
        ok = range_states(&r, states < 400000 ? states : 400000, &arena);
        if (ok) search_followed(&r, floor, a->live[from], limit, &found);
    }
    if (ok && found != NO_STATE) {
        write_order(&r, found, a->order + from);
        *improved = true;
    }
    base_arena_free(&arena);
    return ok;
}

/* ---- long ranges, step by step ------------------------------------------------------------------------- */

/* What is live more after `step` than before it, as things stand. */
static int64_t growth(const arrangement *a, uint32_t step) {
    const order_problem *p = a->problem;
    int64_t more = 0;
    for (uint32_t t = p->touch_starts[step]; t < p->touch_starts[step + 1]; t++) {
        uint32_t s = p->touches[t];
        if (!a->begun[s]) more += (int64_t)p->sizes[s];
        if (a->left[s] == 1) more -= (int64_t)p->sizes[s];
    }
    return more;
}

/* The steps of a range that wait for others, and who waits for whom. */
typedef struct waiting_list {
    uint32_t *waiting; /* by step: how many of the range must still run before it */
    /* By step: those that wait for it: after[after_starts[i] .. after_starts[i + 1]). */
    uint32_t *after_starts, *after;
} waiting_list;

static bool list_waiting(const order_problem *p, const uint32_t *steps, uint32_t count, waiting_list *list,
                         base_arena *arena) {
    bool *inside = BASE_ARRAY(arena, bool, p->step_count);
    uint32_t *starts = BASE_ARRAY(arena, uint32_t, (size_t)p->step_count + 2);
    list->waiting = BASE_ARRAY(arena, uint32_t, p->step_count);
    list->after = BASE_ARRAY(arena, uint32_t, p->before_starts[p->step_count]);
    if (!inside || !starts || !list->waiting || !list->after) return false;
    for (uint32_t k = 0; k < count; k++) inside[steps[k]] = true;
    for (uint32_t k = 0; k < count; k++) {
        for (uint32_t b = p->before_starts[steps[k]]; b < p->before_starts[steps[k] + 1]; b++) {
            if (!inside[p->before[b]]) continue;
            list->waiting[steps[k]]++;
            starts[p->before[b] + 2]++;
        }
    }
    for (uint32_t i = 2; i < p->step_count + 2; i++) starts[i] += starts[i - 1];
    for (uint32_t k = 0; k < count; k++) {
        for (uint32_t b = p->before_starts[steps[k]]; b < p->before_starts[steps[k] + 1]; b++) {
            if (inside[p->before[b]]) list->after[starts[p->before[b] + 1]++] = steps[k];
        }
    }
    list->after_starts = starts;
    return true;
}

/* Orders places [from, to) by always taking, of the steps that became ready last, the one after which the
 * least is live; a chain that was begun is so followed to its end. Kept if it brings the peak below `limit`.
 */
static bool follow_chains(arrangement *a, uint32_t from, uint32_t to, size_t limit) {
    const order_problem *p = a->problem;
    base_arena arena;
    base_arena_init(&arena, a->scratch->allocator);
    uint32_t count = to - from, ready_count = 0;
    uint32_t *old = BASE_ARRAY(&arena, uint32_t, count), *ready = BASE_ARRAY(&arena, uint32_t, count);
    waiting_list list;
    if (old) memcpy(old, a->order + from, count * sizeof *old);
    if (!old || !ready || !list_waiting(p, old, count, &list, &arena)) {
        base_arena_free(&arena);
        return false;
    }
    enter(a, from, to);
    for (uint32_t k = count; k-- > 0;) {
        if (!list.waiting[old[k]]) ready[ready_count++] = old[k];
    }
    for (uint32_t place = from; place < to; place++) {
        uint32_t best = ready_count - 1;
        int64_t least = growth(a, ready[best]);
        for (uint32_t k = best; k-- > 0 && ready_count - k <= READY_STEPS;) {
            int64_t more = growth(a, ready[k]);
            if (more >= least) continue;
            least = more;
            best = k;
        }
        uint32_t step = a->order[place] = ready[best];
        memmove(ready + best, ready + best + 1, (ready_count - best - 1) * sizeof *ready);
        ready_count--;
        for (uint32_t t = p->touch_starts[step]; t < p->touch_starts[step + 1]; t++) {
            a->begun[p->touches[t]] = true;
            a->left[p->touches[t]]--;
        }
        for (uint32_t k = list.after_starts[step + 1]; k-- > list.after_starts[step];) {
            if (--list.waiting[list.after[k]] == 0) ready[ready_count++] = list.after[k];
        }
    }
    simulate(a, from, to);
    if (range_peak(a, from, to) >= limit) {
        memcpy(a->order + from, old, count * sizeof *old);
        simulate(a, from, to);
    }
    base_arena_free(&arena);
    return true;
}

/* ---- sections ------------------------------------------------------------------------------------------ */

/* Steps that stand at the same place in every order: all before them lead to them, all after follow from
 * them. Marks the place after each one as a cut. */
static bool find_cuts(const order_problem *p, bool *cuts, base_arena *scratch) {
    uint32_t count = p->step_count;
    uint32_t *earliest_after =
        BASE_ARRAY(scratch, uint32_t, (size_t)count + 1); /* 1 + the first step that needs it */
    int64_t *lowest = BASE_ARRAY(scratch, int64_t, (size_t)count + 1);
    if (!earliest_after || !lowest) return false;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t b = p->before_starts[i]; b < p->before_starts[i + 1]; b++) {
            if (!earliest_after[p->before[b]]) earliest_after[p->before[b]] = i + 1;
        }
    }
    /* lowest[i]: over all steps from i on, the smallest of their latest predecessors. */
    lowest[count] = INT64_MAX;
    for (uint32_t i = count; i-- > 0;) {
        int64_t latest = -1;
        for (uint32_t b = p->before_starts[i]; b < p->before_starts[i + 1]; b++) {
            if (p->before[b] > latest) latest = p->before[b];
        }
        lowest[i] = latest < lowest[i + 1] ? latest : lowest[i + 1];
    }
    uint32_t highest = 0; /* over all steps before i: the largest of 1 + their first successors */
    for (uint32_t i = 0; i < count; i++) {
        cuts[i + 1] = highest <= i + 1 && lowest[i + 1] >= (int64_t)i;
        uint32_t first = earliest_after[i] ? earliest_after[i] : UINT32_MAX;
        if (first > highest) highest = first;
    }
    cuts[0] = cuts[count] = true;
    return true;
}

/* Windows of growing length around the highest place, until none helps. */
static bool improve_windows(arrangement *a, uint32_t from, uint32_t to, size_t floor) {
    for (int round = 0; round < WINDOW_ROUNDS; round++) {
        size_t peak = range_peak(a, from, to);
        uint32_t top = from;
        bool improved = false;
        if (peak <= floor) return true;
        while (a->peaks[top] != peak) top++;
        for (uint32_t reach = 8; reach <= 128 && !improved; reach *= 2) {
            uint32_t begin = top - from > reach ? top - reach : from,
                     end = to - top > reach ? top + reach : to;
            if (!improve_range(a, begin, end, floor, peak, &improved)) return false;
        }
        if (!improved) return true;
        simulate(a, from, to);
    }
    return true;
}

typedef struct section {
    uint32_t from, to;
    size_t peak;
} section;

static int compare_sections(const void *left, const void *right) {
    const section *a = left, *b = right;
    if (a->peak != b->peak) return a->peak > b->peak ? -1 : 1;
    return a->from < b->from ? -1 : a->from > b->from;
}

bool pass_order_find(const order_problem *problem, base_arena *scratch, uint32_t *order, size_t *peak) {
    arrangement a;
    uint32_t count = problem->step_count, section_count = 0;
    bool *cuts = BASE_ARRAY(scratch, bool, (size_t)count + 1);
    section *sections = BASE_ARRAY(scratch, section, (size_t)count + 1);
    if (!cuts || !sections || !arrangement_init(&a, problem, order, scratch) ||
        !find_cuts(problem, cuts, scratch)) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) order[i] = i;
    simulate(&a, 0, count);
    for (uint32_t from = 0, to; from < count; from = to) {
        for (to = from + 1; !cuts[to]; to++) {
        }
        sections[section_count++] = (section){from, to, range_peak(&a, from, to)};
    }
    qsort(sections, section_count, sizeof *sections, compare_sections);
    /* What the sections done so far cannot go below; the others need not either. */
    size_t floor = 0;
    for (uint32_t i = 0; i < section_count && sections[i].peak > floor; i++) {
        uint32_t from = sections[i].from, to = sections[i].to;
        bool improved;
        if (!improve_range(&a, from, to, floor, sections[i].peak, &improved)) return false;
        if (improved) simulate(&a, from, to);
        if (to - from > FOLLOWED_STEPS && !follow_chains(&a, from, to, sections[i].peak)) return false;
        if ((!improved || to - from > EXACT_STEPS) && !improve_windows(&a, from, to, floor)) return false;
        size_t rest = range_peak(&a, from, to);
        if (rest > floor) floor = rest;
    }
    *peak = range_peak(&a, 0, count);
    return true;
}
