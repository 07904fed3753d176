/* SPDX-License-Identifier: Apache-2.0 */
/* address_rows.c: see address_rows.h. */
#include "passes/planners/address_rows.h"
#include <string.h>

/* ---- memory -------------------------------------------------------------------------------------------- */

enum { FIRST = 4, RUN_BYTES = 10 }; /* logarithms of bytes: of the smallest array, and of a run */
_Static_assert(ADDRESS_RUN * sizeof(address_range) == 1 << RUN_BYTES, "a run fills its array");

static void *take(address_pool *pool, unsigned logarithm) {
    void **spare = &pool->spare[logarithm];
    void *array = *spare;
    if (!array) return base_arena_alloc(pool->arena, 1, (size_t)1 << logarithm);
    memcpy(spare, array, sizeof *spare);
    return array;
}

static void give_back(address_pool *pool, void *array, unsigned logarithm) {
    void **spare = &pool->spare[logarithm];
    memcpy(array, spare, sizeof *spare);
    *spare = array;
}

/* Makes the array long enough for one more item or run. */
static bool grow(address_pool *pool, address_row *row, size_t size) {
    unsigned logarithm = row->logarithm ? row->logarithm : FIRST;
    while (((size_t)row->count + 1) * size > (size_t)1 << logarithm) logarithm++;
    if (logarithm == row->logarithm) return true;
    void *array = take(pool, logarithm);
    if (!array) return false;
    if (row->logarithm) {
        memcpy(array, row->array, row->count * size);
        give_back(pool, row->array, row->logarithm);
    }
    row->array = array;
    row->logarithm = (uint8_t)logarithm;
    return true;
}

void planner_address_row_clear(address_pool *pool, address_row *row) {
    if (!row->cut) {
        row->count = 0;
        return;
    }
    for (uint32_t i = 0; i < row->count; i++) give_back(pool, row->runs[i].items, RUN_BYTES);
    give_back(pool, row->array, row->logarithm);
    *row = (address_row){0};
}

/* ---- taking -------------------------------------------------------------------------------------------- */

/* The first range that ends above the address; count: none does. */
static inline uint32_t ends_above(const address_range *items, uint32_t count, uint32_t address) {
    const address_range *low = items;
    while (count > 1) { /* without branches, as nobody could guess them */
        uint32_t half = count / 2;
        low += half & (0u - (uint32_t)(low[half - 1].high <= address));
        count -= half;
    }
    return (uint32_t)(low - items) + (count > 0 && low->high <= address);
}

/* The last run that begins at the address or below; the first one, where none does. */
static inline uint32_t run_of(const address_run *runs, uint32_t count, uint32_t address) {
    const address_run *low = runs;
    while (count > 1) {
        uint32_t half = count / 2;
        low += half & (0u - (uint32_t)(low[half].low <= address));
        count -= half;
    }
    return (uint32_t)(low - runs);
}

/* The union of some ranges and one more; the array is long enough. */
static uint32_t add(address_range *items, uint32_t count, address_range range) {
    uint32_t at = range.low == 0 ? 0 : ends_above(items, count, range.low - 1), end = at;
    while (end < count && items[end].low <= range.high) end++;
    if (at == end) {
        memmove(items + at + 1, items + at, (count - at) * sizeof range);
        items[at] = range;
        return count + 1;
    }
    if (items[end - 1].high > range.high) range.high = items[end - 1].high;
    if (items[at].low < range.low) range.low = items[at].low;
    items[at] = range;
    if (end - at > 1) memmove(items + at + 1, items + end, (count - end) * sizeof range);
    return count - (end - at - 1);
}

/* Cuts a full run in two halves. */
static bool halve(address_pool *pool, address_row *row, uint32_t at) {
    enum { HALF = ADDRESS_RUN / 2 };
    if (!grow(pool, row, sizeof *row->runs)) return false;
    address_range *items = take(pool, RUN_BYTES);
    if (!items) return false;
    address_run *run = &row->runs[at];
    memmove(run + 2, run + 1, (row->count - at - 1) * sizeof *run);
    memcpy(items, run->items + HALF, (run->count - HALF) * sizeof *items);
    run[1] = (address_run){items, run->count - HALF, items->low, run->gap};
    run->count = HALF;
    row->count++;
    return true;
}

/* Makes a full array a run, and cuts it in two. */
static bool cut(address_pool *pool, address_row *row) {
    address_row whole = {.cut = true};
    if (!grow(pool, &whole, sizeof *whole.runs)) return false;
    whole.runs[whole.count++] = (address_run){row->items, row->count, row->items->low, UINT32_MAX};
    if (!halve(pool, &whole, 0)) return false;
    *row = whole;
    return true;
}

/* The ranges of the runs after that the range reaches become part of it. */
static void swallow(address_pool *pool, address_row *row, uint32_t at, address_range *range) {
    uint32_t next = at + 1;
    address_run *runs = row->runs;
    while (next < row->count && runs[next].low <= range->high) {
        address_run *run = &runs[next];
        uint32_t end = 1;
        while (end < run->count && run->items[end].low <= range->high) end++;
        if (run->items[end - 1].high > range->high) range->high = run->items[end - 1].high;
        if (run->gap > runs[at].gap) runs[at].gap = run->gap;
        if (end < run->count) {
            run->count -= end;
            memmove(run->items, run->items + end, run->count * sizeof *run->items);
            run->low = run->items->low;
            break;
        }
        give_back(pool, run->items, RUN_BYTES);
        next++;
    }
    memmove(runs + at + 1, runs + next, (row->count - next) * sizeof *runs);
    row->count -= next - at - 1;
}

static bool add_to_runs(address_pool *pool, address_row *row, address_range range) {
    uint32_t at = run_of(row->runs, row->count, range.low);
    if (row->runs[at].count == ADDRESS_RUN) {
        if (!halve(pool, row, at)) return false;
        at += row->runs[at + 1].low <= range.low;
    }
    if (at + 1 < row->count && row->runs[at + 1].low <= range.high) swallow(pool, row, at, &range);
    address_run *run = &row->runs[at];
    /* What was free before all of it is a gap in it now. */
    if (range.high < run->low && run->low - range.high > run->gap) run->gap = run->low - range.high;
    run->count = add(run->items, run->count, range);
    run->low = run->items->low;
    return true;
}

void planner_address_row_expect(const address_row *row, uint32_t low) {
    if (!row->cut) return;
    const address_run *run = &row->runs[run_of(row->runs, row->count, low)];
    for (uint32_t quarter = 1; quarter < 4; quarter++) /* where the search begins */
        __builtin_prefetch(run->items + run->count * quarter / 4);
}

bool planner_address_row_add(address_pool *pool, address_row *row, address_range range) {
    if (!row->cut && row->count == ADDRESS_RUN && !cut(pool, row)) return false;
    if (row->cut) return add_to_runs(pool, row, range);
    if (!grow(pool, row, sizeof range)) return false;
    row->count = add(row->items, row->count, range);
    return true;
}

/* ---- walking ------------------------------------------------------------------------------------------- */

static inline void enter(address_walk *walk, uint32_t runs_on) {
    walk->run += runs_on;
    walk->runs -= runs_on;
    walk->items = walk->run->items;
    walk->count = walk->run->count;
}

/* To the first range that ends above the address. */
static inline void skip(address_walk *walk, uint32_t address) {
    enum { FEW = 8 };
    if (walk->runs > 0 && walk->run[1].low <= address)
        enter(walk, run_of(walk->run + 1, walk->runs, address) + 1);
    uint32_t k = 0;
    if (walk->count > FEW && walk->items[FEW - 1].high <= address)
        k = FEW + ends_above(walk->items + FEW, walk->count - FEW, address);
    else
        while (k < walk->count && walk->items[k].high <= address) k++;
    walk->items += k;
    walk->count -= k;
    if (walk->count == 0 && walk->runs > 0) enter(walk, 1);
}

/* Finds the longest gap of a run, and after it. */
static void find_gap(address_run *run) {
    uint32_t gap = run[1].low - run->items[run->count - 1].high;
    for (uint32_t k = 1; k < run->count; k++) {
        const uint32_t here = run->items[k].low - run->items[k - 1].high;
        gap = here > gap ? here : gap;
    }
    run->gap = gap;
}

bool planner_address_walk_rise(address_walk *walk, const address_wanted *w, uint32_t *place) {
    uint32_t at = *place;
    skip(walk, at);
    if (walk->count == 0 || walk->items->low >= at + w->size) return true;
    for (;;) {
        const address_range *items = walk->items;
        const uint32_t count = walk->count;
        uint32_t k = 0;
        do {
            at = address_align(w, items[k++].high);
            while (k < count && items[k].high <= at) k++;
        } while (k < count && items[k].low < at + w->size);
        walk->items += k;
        walk->count -= k;
        if (walk->count > 0 || walk->runs == 0) break;
        if (items == walk->run->items && walk->run->gap >= w->size) find_gap(walk->run);
        uint32_t on = 1;
        while (on < walk->runs && walk->run[on].low < at + w->size && walk->run[on].gap < w->size) {
            const address_run *run = &walk->run[on++];
            at = address_align(w, run->items[run->count - 1].high);
        }
        enter(walk, on);
        skip(walk, at);
        if (walk->count == 0 || walk->items->low >= at + w->size) break;
    }
    *place = at;
    return false;
}
