/* SPDX-License-Identifier: Apache-2.0 */
/* neighbours.c: see neighbours.h. */
#include "passes/planners/exact/neighbours.h"
#include "passes/planners/base/sorting.h"
#include <string.h>

enum {
    BUCKETS = 256,     /* of addresses, for sorting */
    LARGE_BUCKET = 16, /* more than these are not sorted by insertion */
};

static bool sort_by_beginning(neighbours *n, const planner_problem *problem, base_arena *arena) {
    planner_key *keys = BASE_ARRAY(arena, planner_key, problem->buffer_count);
    planner_key *scratch = BASE_ARRAY(arena, planner_key, problem->buffer_count);
    if (!keys || !scratch) return false;
    for (uint32_t b = 0; b < problem->buffer_count; b++) {
        if (problem->buffers[b].size == 0) continue;
        keys[n->count++] = (planner_key){planner_step_key(problem->buffers[b].first), b};
    }
    planner_sort_keys(keys, n->count, scratch);
    n->numbers = BASE_ARRAY(arena, uint32_t, n->count);
    if (!n->numbers) return false;
    for (uint32_t i = 0; i < n->count; i++) n->numbers[i] = keys[i].buffer;
    return true;
}

/* The first buffer that begins at this step or later. */
static uint32_t first_from(const neighbours *n, const planner_buffer *buffers, int64_t step) {
    uint32_t low = 0, high = n->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (buffers[n->numbers[middle]].first < step) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* A checkpoint lists what is live at a step. There is a new one when a quarter as many have begun as are live, so that the
 * lists together are a few times the number of buffers. */
static bool list_lives(neighbours *n, base_arena *arena) {
    size_t capacity = 0, start_capacity = 0, count = 0;
    uint32_t *live = BASE_ARRAY(arena, uint32_t, n->count), live_count = 0, listed = 0, lists = 0;
    if (!live) return false;
    for (uint32_t i = 0, end; i < n->count; i = end) {
        uint32_t still = 0;
        for (end = i; end < n->count && n->groups[end] == i;) end++;
        for (uint32_t k = 0; k < live_count; k++)
            if (n->ends[live[k]] > i) live[still++] = live[k];
        live_count = still;
        if (i == 0 || i - listed >= live_count / 4) {
            n->lives = base_arena_grow(arena, n->lives, &capacity, count + live_count + 1, sizeof *n->lives);
            n->life_starts = base_arena_grow(arena, n->life_starts, &start_capacity, (size_t)lists + 2,
                                             sizeof *n->life_starts);
            if (!n->lives || !n->life_starts) return false;
            n->life_starts[lists++] = (uint32_t)count;
            memcpy(n->lives + count, live, live_count * sizeof *live);
            count += live_count;
            n->life_starts[lists] = (uint32_t)count;
            listed = i;
        }
        for (uint32_t b = i; b < end; b++) {
            n->checkpoints[b] = lists - 1;
            n->since[b] = listed;
            live[live_count++] = b;
        }
    }
    return true;
}

bool exact_neighbours_init(neighbours *n, const planner_problem *problem, base_arena *arena) {
    *n = (neighbours){.problem = problem};
    if (!sort_by_beginning(n, problem, arena)) return false;
    const size_t count = (size_t)n->count + 1;
    n->sizes = BASE_ARRAY(arena, size_t, count);
    n->masks = BASE_ARRAY(arena, size_t, count);
    n->items = BASE_ARRAY(arena, neighbour, count);
    n->groups = BASE_ARRAY(arena, uint32_t, count);
    n->ends = BASE_ARRAY(arena, uint32_t, count);
    n->checkpoints = BASE_ARRAY(arena, uint32_t, count);
    n->since = BASE_ARRAY(arena, uint32_t, count);
    n->near = BASE_ARRAY(arena, neighbour, count);
    n->near_numbers = BASE_ARRAY(arena, uint32_t, count);
    n->lows = BASE_ARRAY(arena, neighbour_border, count);
    n->highs = BASE_ARRAY(arena, neighbour_border, count);
    n->scratch = BASE_ARRAY(arena, neighbour_border, count);
    if (!n->sizes || !n->masks || !n->items || !n->groups || !n->ends || !n->checkpoints || !n->since ||
        !n->near || !n->near_numbers || !n->lows || !n->highs || !n->scratch)
        return false;
    for (uint32_t i = 0; i < n->count; i++) {
        const planner_buffer *b = &problem->buffers[n->numbers[i]];
        const bool same = i > 0 && problem->buffers[n->numbers[i - 1]].first == b->first;
        n->sizes[i] = b->size;
        n->masks[i] = b->alignment ? b->alignment - 1 : 0;
        n->groups[i] = same ? n->groups[i - 1] : i;
        n->ends[i] = first_from(n, problem->buffers, b->last);
    }
    return list_lives(n, arena);
}

/* Adds buffer b where it is placed. Without a branch, which nobody could guess. */
static uint32_t add_near(const neighbours *n, uint32_t b, uint32_t count) {
    n->near[count] = n->items[b];
    n->near_numbers[count] = b;
    return count + (n->items[b].high > 0);
}

uint32_t exact_neighbours_list(neighbours *n, uint32_t b) {
    const uint32_t group = n->groups[b], checkpoint = n->checkpoints[b];
    uint32_t count = 0;
    for (uint32_t k = n->life_starts[checkpoint]; k < n->life_starts[checkpoint + 1]; k++)
        if (n->ends[n->lives[k]] > group) count = add_near(n, n->lives[k], count);
    for (uint32_t k = n->since[b]; k < group; k++)
        if (n->ends[k] > group) count = add_near(n, k, count);
    for (uint32_t k = group; k < n->ends[b]; k++) count = add_near(n, k, count);
    return count;
}

/* By address: into buckets, in those that are large again into buckets, and at last by insertion. */
void exact_neighbours_sort(neighbour_border *items, neighbour_border *scratch, uint32_t count) {
    size_t least = SIZE_MAX, most = 0;
    unsigned shift = 0;
    uint32_t ends[BUCKETS] = {0};
    for (uint32_t k = 0; k < count; k++) {
        least = items[k].address < least ? items[k].address : least;
        most = items[k].address > most ? items[k].address : most;
    }
    if (least >= most) return;
    while ((most - least) >> shift >= BUCKETS) shift++;
    for (uint32_t k = 0; k < count; k++) ends[(items[k].address - least) >> shift]++;
    for (unsigned b = 1; b < BUCKETS; b++) ends[b] += ends[b - 1];
    for (uint32_t k = count; k-- > 0;) scratch[--ends[(items[k].address - least) >> shift]] = items[k];
    memcpy(items, scratch, count * sizeof *items); /* each end is the beginning now */
    for (unsigned b = 0; shift > 0 && b < BUCKETS; b++) {
        const uint32_t begin = ends[b], end = b + 1 < BUCKETS ? ends[b + 1] : count;
        if (end - begin > LARGE_BUCKET) exact_neighbours_sort(items + begin, scratch + begin, end - begin);
    }
    for (uint32_t k = 1; k < count; k++) {
        const neighbour_border moved = items[k];
        uint32_t at = k;
        for (; at > 0 && items[at - 1].address > moved.address; at--) items[at] = items[at - 1];
        items[at] = moved;
    }
}

/* ---- greedy planning ------------------------------------------------------------------------------------- */

static size_t find_gap(neighbours *n, uint32_t b, neighbours_gap gap, planner_budget *budget) {
    const uint32_t count = exact_neighbours_list(n, b);
    const size_t size = n->sizes[b], mask = n->masks[b];
    size_t at = 0, best = SIZE_MAX, smallest = SIZE_MAX;
    planner_budget_spend(budget, 1 + count / NEIGHBOURS_OF_WORK);
    for (uint32_t k = 0; k < count; k++) n->lows[k] = (neighbour_border){n->near[k].low, n->near[k].high};
    exact_neighbours_sort(n->lows, n->scratch, count);
    for (uint32_t k = 0; k < count; k++) {
        const size_t low = n->lows[k].address, high = (size_t)n->lows[k].with;
        if (low >= at && low - at >= size && low - at < smallest) {
            if (gap == NEIGHBOURS_LOWEST) return at;
            smallest = low - at;
            best = at;
        }
        if (high > at) at = (high + mask) & ~mask;
    }
    return best < SIZE_MAX ? best : at;
}

size_t exact_neighbours_place_all(neighbours *n, const uint32_t *order, neighbours_gap gap, size_t limit,
                                  planner_budget *budget) {
    size_t height = 0;
    for (uint32_t i = 0; i < n->count; i++) {
        const size_t fixed = n->problem->buffers[n->numbers[i]].fixed;
        const bool pinned = fixed != PLANNER_NOT_FIXED;
        n->items[i] = pinned ? (neighbour){.low = fixed, .high = fixed + n->sizes[i]} : (neighbour){0};
        if (n->items[i].high > height) height = n->items[i].high;
    }
    for (uint32_t k = 0; k < n->count && height <= limit && !budget->over; k++) {
        const uint32_t b = order[k];
        if (n->items[b].high > 0) continue;
        const size_t low = find_gap(n, b, gap, budget);
        n->items[b] = (neighbour){.low = low, .high = low + n->sizes[b]};
        if (n->items[b].high > height) height = n->items[b].high;
    }
    return height <= limit && !budget->over ? height : SIZE_MAX;
}
