/* SPDX-License-Identifier: Apache-2.0 */
/* orders.c: see orders.h. */
#include "passes/planners/exact/orders.h"
#include "passes/planners/base/sorting.h"
#include <math.h>
#include <string.h>

/* The degree of a buffer is the number of buffers that it interferes with; its peak is the largest live sum of a step at
 * which it is live. */
typedef enum order_by {
    BY_SIZE,
    BY_SIZE_AND_PEAK,
    BY_SIZE_PEAK_AND_LIFE,
    BY_SIZE_AND_DEGREE,
    BY_PEAK,
    BY_AREA,
    BY_LIFE,
    BY_BEGINNING,
    ORDERS
} order_by;

typedef struct sorter {
    const neighbours *n;
    planner_key *keys, *scratch;
    uint32_t *order;
    /* In the order of the neighbours. */
    uint32_t *degrees;
    size_t *peaks;
} sorter;

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

/* Degrees, and the live sum at the step at which each one begins. */
static void count_live(sorter *s, size_t *sums) {
    const neighbours *n = s->n;
    const planner_buffer *buffers = n->problem->buffers;
    for (uint32_t i = 0; i < n->count; i++)
        s->keys[i] = (planner_key){planner_step_key(buffers[n->numbers[i]].last), i};
    planner_sort_keys(s->keys, n->count, s->scratch);
    size_t sum = 0;
    for (uint32_t i = 0, begun = 0, ended = 0; i < n->count; i++) {
        const uint64_t step = planner_step_key(buffers[n->numbers[i]].first);
        for (; begun < n->count && n->groups[begun] <= i; begun++) sum += n->sizes[begun];
        for (; ended < n->count && s->keys[ended].key <= step; ended++)
            sum -= n->sizes[s->keys[ended].buffer];
        s->degrees[i] = n->ends[i] - ended - 1;
        sums[i] = sum;
    }
}

/* A live sum rises only where something begins. The sums become the leaves of a tree of maxima, in which those of a life
 * are looked up. */
static bool find_peaks(sorter *s, base_arena *arena) {
    const size_t count = s->n->count;
    size_t *tree = BASE_ARRAY(arena, size_t, 2 * count + 1);
    if (!tree) return false;
    count_live(s, tree + count);
    for (size_t i = count; i-- > 1;) tree[i] = larger(tree[2 * i], tree[2 * i + 1]);
    for (size_t i = 0; i < count; i++) {
        size_t low = count + s->n->groups[i], high = count + s->n->ends[i];
        s->peaks[i] = 0;
        for (; low < high; low /= 2, high /= 2) {
            if (low & 1) s->peaks[i] = larger(s->peaks[i], tree[low++]);
            if (high & 1) s->peaks[i] = larger(s->peaks[i], tree[--high]);
        }
    }
    return true;
}

static bool sorter_init(sorter *s, const neighbours *n, base_arena *arena) {
    const size_t count = (size_t)n->count + 1;
    *s = (sorter){.n = n,
                  .keys = BASE_ARRAY(arena, planner_key, count),
                  .scratch = BASE_ARRAY(arena, planner_key, count),
                  .order = BASE_ARRAY(arena, uint32_t, count),
                  .degrees = BASE_ARRAY(arena, uint32_t, count),
                  .peaks = BASE_ARRAY(arena, size_t, count)};
    return s->keys && s->scratch && s->order && s->degrees && s->peaks;
}

static uint64_t life_of(const planner_buffer *b) {
    return (uint64_t)b->last - (uint64_t)b->first;
}

/* The largest comes first. Positive numbers of floating point are ordered as their bits are. */
static uint64_t key_of_weight(double weight) {
    uint64_t bits;
    static_assert(sizeof bits == sizeof weight, "keys hold weights");
    memcpy(&bits, &weight, sizeof bits);
    return UINT64_MAX - bits;
}

/* Only operations that are rounded in the same way everywhere. Powers of peaks are of their part of 2^64. */
static double weight_of(const sorter *s, uint32_t i, order_by by) {
    const planner_buffer *b = &s->n->problem->buffers[s->n->numbers[i]];
    const double size = (double)b->size, life = (double)life_of(b), peak = (double)s->peaks[i] * 0x1p-64;
    const double peak_4 = peak * peak * peak * peak;
    switch (by) {
    case BY_SIZE_AND_PEAK:
        return size * peak_4;
    case BY_SIZE_PEAK_AND_LIFE:
        return size * peak_4 * peak_4 * sqrt(sqrt(sqrt(life)));
    case BY_SIZE_AND_DEGREE:
        return size * (double)s->degrees[i];
    default:
        return size * life;
    }
}

/* The least key comes first. */
static uint64_t key_of(const sorter *s, uint32_t i, order_by by) {
    const planner_buffer *b = &s->n->problem->buffers[s->n->numbers[i]];
    switch (by) {
    case BY_SIZE:
        return UINT64_MAX - b->size;
    case BY_PEAK:
        return UINT64_MAX - s->peaks[i];
    case BY_LIFE:
        return UINT64_MAX - life_of(b);
    case BY_BEGINNING:
        return planner_step_key(b->first);
    default:
        return key_of_weight(weight_of(s, i, by));
    }
}

static const uint32_t *sort(sorter *s, order_by by) {
    const neighbours *n = s->n;
    const planner_buffer *buffers = n->problem->buffers;
    for (uint32_t i = 0; i < n->count; i++)
        s->keys[i] = (planner_key){UINT64_MAX - life_of(&buffers[n->numbers[i]]), i};
    planner_sort_keys(s->keys, n->count, s->scratch);
    for (uint32_t k = 0; k < n->count; k++) s->keys[k].key = key_of(s, s->keys[k].buffer, by);
    planner_sort_keys(s->keys, n->count, s->scratch);
    for (uint32_t k = 0; k < n->count; k++) s->order[k] = s->keys[k].buffer;
    return s->order;
}

static void take_offsets(const neighbours *n, size_t *offsets) {
    for (uint32_t i = 0; i < n->count; i++) offsets[n->numbers[i]] = n->items[i].low;
}

bool exact_orders_try(neighbours *n, size_t enough, planner_budget *budget, base_arena *arena,
                      size_t *offsets, size_t *height) {
    sorter s;
    if (!sorter_init(&s, n, arena) || !find_peaks(&s, arena)) return false;
    for (order_by by = 0; by<ORDERS && * height> enough && !budget->over; by++) {
        const uint32_t *order = sort(&s, by);
        for (neighbours_gap gap = NEIGHBOURS_LOWEST; gap <= NEIGHBOURS_SMALLEST; gap++) {
            const size_t found = exact_neighbours_place_all(n, order, gap, *height - 1, budget);
            if (found == SIZE_MAX) continue;
            *height = found;
            take_offsets(n, offsets);
        }
    }
    return true;
}

bool exact_orders_compact(neighbours *n, const size_t *nearly, planner_budget *budget, base_arena *arena,
                          size_t *offsets, size_t *height) {
    sorter s;
    if (!sorter_init(&s, n, arena)) return false;
    for (uint32_t i = 0; i < n->count; i++) s.keys[i] = (planner_key){SIZE_MAX - n->sizes[i], i};
    planner_sort_keys(s.keys, n->count, s.scratch);
    for (uint32_t k = 0; k < n->count; k++) s.keys[k].key = nearly[n->numbers[s.keys[k].buffer]];
    planner_sort_keys(s.keys, n->count, s.scratch);
    for (uint32_t k = 0; k < n->count; k++) s.order[k] = s.keys[k].buffer;
    const size_t found = exact_neighbours_place_all(n, s.order, NEIGHBOURS_LOWEST, *height - 1, budget);
    *height = found;
    if (found < SIZE_MAX) take_offsets(n, offsets);
    return true;
}
