/* SPDX-License-Identifier: Apache-2.0 */
/* map_solution.c: the picture of a solved allocation problem; see map.h. */
#include "compiler/report/map.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int compare_steps(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static size_t find_step(const int64_t *steps, size_t count, int64_t step) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (steps[middle] < step) low = middle + 1;
        else high = middle;
    }
    return low;
}

base_status emit_map_of_solution(const planner_problem *problem, const char *const *ids,
                                 const planner_solution *solution, const char *title, map_picture *picture,
                                 base_arena *arena, base_report *report) {
    size_t count = problem->buffer_count, kept = 0;
    int64_t *steps = BASE_ARRAY(arena, int64_t, 2 * count + 1);
    if (!steps) return base_fail_memory(report);
    for (size_t i = 0; i < count; i++) {
        steps[2 * i] = problem->buffers[i].first;
        steps[2 * i + 1] = problem->buffers[i].last;
    }
    qsort(steps, 2 * count, sizeof *steps, compare_steps);
    for (size_t i = 0; i < 2 * count; i++) {
        if (kept == 0 || steps[kept - 1] != steps[i]) steps[kept++] = steps[i];
    }
    size_t pieces = kept ? kept - 1 : 0;
    *picture = (map_picture){.title = title,
                             .width = kept ? (double)steps[kept - 1] - (double)steps[0] : 1,
                             .height = solution->height,
                             .bound = solution->lower_bound,
                             .curve = BASE_ARRAY(arena, uint64_t, pieces + 1),
                             .curve_at = BASE_ARRAY(arena, double, pieces + 2),
                             .curve_count = pieces};
    if (!picture->curve || !picture->curve_at) return base_fail_memory(report);
    for (size_t i = 0; i < kept; i++) picture->curve_at[i] = (double)steps[i] - (double)steps[0];
    for (size_t i = 0; i < count; i++) {
        const planner_buffer *buffer = &problem->buffers[i];
        /* Unsigned: the change at the end of a range is a subtraction that wraps until the sums are made. */
        picture->curve[find_step(steps, kept, buffer->first)] += buffer->size;
        picture->curve[find_step(steps, kept, buffer->last)] -= buffer->size;
        if (!buffer->size) continue;
        map_rectangle *rectangle = emit_map_add(picture, arena);
        char size[32], number[32];
        snprintf(number, sizeof number, "%zu", i);
        const char *name = ids ? ids[i] : base_arena_text(arena, number, strlen(number));
        if (!rectangle || !name) return base_fail_memory(report);
        *rectangle = (map_rectangle){.first = (double)buffer->first - (double)steps[0],
                                     .last = (double)buffer->last - (double)steps[0],
                                     .low = solution->offsets[i],
                                     .bytes = buffer->size,
                                     .name = name,
                                     .family = &emit_families[1 + i % (OP_FAMILY_COUNT - 1)]};
        rectangle->title =
            base_arena_format(arena, "%s\n%zu bytes (%s)\nlive [%" PRId64 ", %" PRId64 ")\noffset %zu", name,
                              buffer->size, emit_size_print(buffer->size, size, sizeof size), buffer->first,
                              buffer->last, solution->offsets[i]);
        if (!rectangle->title) return base_fail_memory(report);
    }
    for (size_t i = 1; i < pieces; i++) picture->curve[i] += picture->curve[i - 1];
    return BASE_OK;
}
