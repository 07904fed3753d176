/* SPDX-License-Identifier: Apache-2.0 */
/* orders.c: see orders.h. */
#include "passes/planners/exact/orders.h"
#include "passes/planners/base/sorting.h"

typedef enum order_by { BY_SIZE, BY_AREA, BY_LIFE, BY_BEGINNING, ORDERS } order_by;

typedef struct sorter {
    const neighbours *n;
    planner_key *keys, *scratch;
    uint32_t *order;
} sorter;

static bool sorter_init(sorter *s, const neighbours *n, base_arena *arena) {
    const size_t count = (size_t)n->count + 1;
    *s = (sorter){.n = n,
                  .keys = BASE_ARRAY(arena, planner_key, count),
                  .scratch = BASE_ARRAY(arena, planner_key, count),
                  .order = BASE_ARRAY(arena, uint32_t, count)};
    return s->keys && s->scratch && s->order;
}

static size_t life_of(const planner_buffer *b) {
    return (size_t)b->last - (size_t)b->first;
}

/* The least key comes first. An area is counted in fewer digits where it is very large. */
static size_t key_of(const planner_buffer *b, order_by by) {
    size_t area;
    switch (by) {
    case BY_SIZE:
        return SIZE_MAX - b->size;
    case BY_AREA:
        return base_size_multiply(b->size, life_of(b), &area) ? SIZE_MAX - area : 0;
    case BY_LIFE:
        return SIZE_MAX - life_of(b);
    default:
        return planner_step_key(b->first);
    }
}

static const uint32_t *sort(sorter *s, order_by by) {
    const neighbours *n = s->n;
    const planner_buffer *buffers = n->problem->buffers;
    for (uint32_t i = 0; i < n->count; i++)
        s->keys[i] = (planner_key){SIZE_MAX - life_of(&buffers[n->numbers[i]]), i};
    planner_sort_keys(s->keys, n->count, s->scratch);
    for (uint32_t k = 0; k < n->count; k++)
        s->keys[k].key = key_of(&buffers[n->numbers[s->keys[k].buffer]], by);
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
    if (!sorter_init(&s, n, arena)) return false;
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
