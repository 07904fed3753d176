/* SPDX-License-Identifier: Apache-2.0 */
/* ejection.c: see ejection.h. */
#include "passes/planners/exact/ejection.h"
#include "passes/planners/exact/neighbours.h"
#include "passes/planners/base/sorting.h"
#include <math.h>
#include <string.h>

enum {
    COSTS = 1 << 20,     /* what it costs to take out the buffer with the largest area, at first */
    FIRST_MOVES = 20000, /* until a target is given up; twice as many where targets could not be nearer */
    MOST_DOUBLINGS = 10
};

/* Parts of the height that a target is below it. */
static const double first_step = 0.003, longest_step = 0.05, shortest_step = 1e-7, step_growth = 1.5,
                    step_decline = 0.5;

struct ejection {
    neighbours n;
    /* In the order of the neighbours. */
    uint64_t *areas; /* what it costs to take one out, without penalties */
    uint64_t *penalties;
    size_t target;
    uint32_t *pool, pool_count; /* those that are out: a heap, the most expensive one first */
    uint64_t random;
    double step;
    unsigned doublings;
};

static uint64_t draw(ejection *e) {
    e->random = planner_mix(e->random);
    return e->random;
}

ejection *exact_ejection_new(const planner_problem *problem, uint64_t seed, base_arena *arena) {
    ejection *e = BASE_NEW(arena, ejection);
    if (!e) return NULL;
    *e = (ejection){.random = seed, .step = first_step};
    if (!exact_neighbours_init(&e->n, problem, arena)) return NULL;
    const size_t count = (size_t)e->n.count + 1;
    e->areas = BASE_ARRAY(arena, uint64_t, count);
    e->penalties = BASE_ARRAY(arena, uint64_t, count);
    e->pool = BASE_ARRAY(arena, uint32_t, count);
    if (!e->areas || !e->penalties || !e->pool) return NULL;
    double largest = 1;
    for (uint32_t i = 0; i < e->n.count; i++) {
        const planner_buffer *b = &problem->buffers[e->n.numbers[i]];
        const double area = ((double)b->last - (double)b->first) * (double)b->size;
        if (area > largest) largest = area;
    }
    /* A root, so that it is not much dearer to take out one large buffer than several small ones. */
    for (uint32_t i = 0; i < e->n.count; i++) {
        const planner_buffer *b = &problem->buffers[e->n.numbers[i]];
        const double area = ((double)b->last - (double)b->first) * (double)b->size;
        const bool pinned = b->fixed != PLANNER_NOT_FIXED;
        e->areas[i] = pinned ? 0 : 1 + (uint64_t)((COSTS - 1) * sqrt(area / largest));
        e->penalties[i] = 1;
    }
    return e;
}

/* ---- the pool -------------------------------------------------------------------------------------------- */

static bool is_dearer(const ejection *e, uint32_t a, uint32_t b) {
    return e->n.items[a].cost != e->n.items[b].cost ? e->n.items[a].cost > e->n.items[b].cost : a < b;
}

static void pool_add(ejection *e, uint32_t b) {
    uint32_t at = e->pool_count++;
    e->n.items[b].high = 0;
    for (; at > 0 && is_dearer(e, b, e->pool[(at - 1) / 2]); at = (at - 1) / 2)
        e->pool[at] = e->pool[(at - 1) / 2];
    e->pool[at] = b;
}

static uint32_t pool_take(ejection *e) {
    const uint32_t first = e->pool[0], moved = e->pool[--e->pool_count];
    uint32_t at = 0;
    for (uint32_t child; (child = 2 * at + 1) < e->pool_count; at = child) {
        if (child + 1 < e->pool_count && is_dearer(e, e->pool[child + 1], e->pool[child])) child++;
        if (!is_dearer(e, e->pool[child], moved)) break;
        e->pool[at] = e->pool[child];
    }
    e->pool[at] = moved;
    return first;
}

/* ---- moves ----------------------------------------------------------------------------------------------- */

static void sort_near(ejection *e, uint32_t count) {
    for (uint32_t k = 0; k < count; k++) {
        e->n.lows[k] = (neighbour_border){e->n.near[k].low, e->n.near[k].cost};
        e->n.highs[k] = (neighbour_border){e->n.near[k].high, e->n.near[k].cost};
    }
    exact_neighbours_sort(e->n.lows, e->n.scratch, count);
    exact_neighbours_sort(e->n.highs, e->n.scratch, count);
}

/* The offset where b overlaps the least cost, of equal ones any. Candidates are 0, the ends of others, where others begin
 * less the size of b, and the highest offset, in this order of addresses: what is overlapped changes by steps. SIZE_MAX:
 * pinned ones are in the way everywhere. */
static size_t find_cheapest(ejection *e, uint32_t b, uint32_t count) {
    const size_t size = e->n.sizes[b], mask = e->n.masks[b], highest = (e->target - size) & ~mask;
    uint32_t entered = 0, left = 0, low = 0, high = 0, ties = 0, pins = 0;
    uint64_t cost = 0, least = UINT64_MAX;
    size_t best = SIZE_MAX, at = 0;
    sort_near(e, count);
    while (low < count && e->n.lows[low].address < size) low++;
    for (;;) {
        for (; entered < count && e->n.lows[entered].address < at + size; entered++) {
            cost += e->n.lows[entered].with;
            pins += e->n.lows[entered].with == 0;
        }
        for (; left < count && e->n.highs[left].address <= at; left++) {
            cost -= e->n.highs[left].with;
            pins -= e->n.highs[left].with == 0;
        }
        if (pins == 0 && cost < least) {
            least = cost;
            best = at;
            ties = 1;
        } else if (pins == 0 && cost == least && at != best && draw(e) % ++ties == 0) {
            best = at;
        }
        if (at >= highest) return best;
        const size_t above = high < count ? (e->n.highs[high].address + mask) & ~mask : SIZE_MAX;
        const size_t below = low < count ? (e->n.lows[low].address - size) & ~mask : SIZE_MAX;
        if (above <= below) high++;
        else low++;
        at = above <= below ? above : below;
        if (at > highest) at = highest;
    }
}

/* Puts b back; what it overlaps goes out. False: pinned ones leave no place for it. */
static bool put_back(ejection *e, uint32_t b, uint64_t *work) {
    const uint32_t count = exact_neighbours_list(&e->n, b);
    const size_t low = find_cheapest(e, b, count), high = low + e->n.sizes[b];
    *work += 1 + count / NEIGHBOURS_OF_WORK;
    if (low == SIZE_MAX) return false;
    bool overlaps = false;
    for (uint32_t k = 0; k < count; k++) {
        if (e->n.near[k].low >= high || e->n.near[k].high <= low) continue;
        pool_add(e, e->n.near_numbers[k]);
        overlaps = true;
    }
    e->penalties[b] += overlaps;
    e->n.items[b] = (neighbour){low, high, e->penalties[b] * e->areas[b]};
    return true;
}

/* ---- targets --------------------------------------------------------------------------------------------- */

typedef enum outcome { REACHED, GIVEN_UP, SPENT, IMPOSSIBLE } outcome;

/* Begins with the solution, less what lies above the target. Half of the penalties stay: what was hard to put back is so
 * again. */
static bool begin(ejection *e, const size_t *offsets) {
    e->pool_count = 0;
    for (uint32_t i = 0; i < e->n.count; i++) {
        const size_t low = offsets[e->n.numbers[i]], high = low + e->n.sizes[i];
        e->penalties[i] -= e->penalties[i] / 2;
        e->n.items[i] = (neighbour){low, high, e->penalties[i] * e->areas[i]};
        if (high <= e->target) continue;
        if (e->areas[i] == 0 || e->n.sizes[i] > e->target) return false;
        pool_add(e, i);
    }
    return true;
}

static outcome try_target(ejection *e, const size_t *offsets, uint64_t work, uint64_t *spent,
                          planner_budget *budget) {
    uint64_t moves = (uint64_t)FIRST_MOVES << e->doublings;
    if (!begin(e, offsets)) return IMPOSSIBLE;
    const uint64_t begun = 1 + e->n.count / 1024;
    *spent += begun;
    for (; e->pool_count > 0; moves--) {
        if (moves == 0) return GIVEN_UP;
        if (*spent >= work) return SPENT;
        const uint64_t before = *spent;
        const uint32_t b = pool_take(e);
        if (!put_back(e, b, spent)) { /* at once, perhaps: that is work, too */
            planner_budget_spend(budget, begun + *spent - before);
            return GIVEN_UP;
        }
        if (planner_budget_spend(budget, *spent - before)) return e->pool_count == 0 ? REACHED : SPENT;
    }
    return REACHED;
}

static void accept(const ejection *e, size_t *offsets, size_t *height) {
    *height = 0;
    for (uint32_t i = 0; i < e->n.count; i++) {
        offsets[e->n.numbers[i]] = e->n.items[i].low;
        if (e->n.items[i].high > *height) *height = e->n.items[i].high;
    }
}

/* So far below the height, and not below what is enough. */
static size_t next_target(const ejection *e, size_t enough, size_t height) {
    const size_t step = (size_t)((double)height * e->step), most = height - enough;
    return height - (step < 1 ? 1 : step > most ? most : step);
}

bool exact_ejection_run(ejection *e, size_t enough, uint64_t work, planner_budget *budget, size_t *offsets,
                        size_t *height) {
    bool lower = false;
    for (uint64_t spent = 0; *height > enough && spent < work && !budget->over;) {
        e->target = next_target(e, enough, *height);
        const double most_step = (double)(*height - enough) / (double)*height;
        if (e->step > most_step) e->step = most_step;
        const outcome reached = try_target(e, offsets, work, &spent, budget);
        if (reached == IMPOSSIBLE) {
            if (e->target + 1 >= *height) break; /* a pinned buffer is the highest one */
            e->step *= step_decline;
        } else if (reached == REACHED) {
            accept(e, offsets, height);
            lower = true;
            e->doublings = 0;
            e->step = e->step * step_growth < longest_step ? e->step * step_growth : longest_step;
        } else if (reached == GIVEN_UP && e->step > shortest_step) {
            e->step *= step_decline;
        } else if (reached == GIVEN_UP && e->doublings < MOST_DOUBLINGS) {
            e->doublings++;
        }
    }
    return lower;
}

bool exact_ejection_insert(ejection *e, size_t height, bool *placed, const bool *wanted, size_t *offsets, uint64_t moves,
                           planner_budget *budget, uint64_t *spent) {
    e->target = height;
    e->pool_count = 0;
    for (uint32_t i = 0; i < e->n.count; i++) {
        const uint32_t b = e->n.numbers[i];
        e->penalties[i] -= e->penalties[i] / 2;
        const neighbour here = {offsets[b], offsets[b] + e->n.sizes[i], e->penalties[i] * e->areas[i]};
        e->n.items[i] = placed[b] ? here : (neighbour){.cost = here.cost};
        if (!placed[b] && wanted[b]) pool_add(e, i);
    }
    *spent += e->n.count / 1024;
    planner_budget_spend(budget, e->n.count / 1024);
    for (; e->pool_count > 0; moves--) {
        const uint64_t before = *spent;
        if (moves == 0 || budget->over || e->n.sizes[e->pool[0]] > height || !put_back(e, pool_take(e), spent)) return false;
        planner_budget_spend(budget, *spent - before);
    }
    for (uint32_t i = 0; i < e->n.count; i++) {
        if (e->n.items[i].high == 0) continue;
        placed[e->n.numbers[i]] = true;
        offsets[e->n.numbers[i]] = e->n.items[i].low;
    }
    return true;
}
