/* SPDX-License-Identifier: Apache-2.0 */
/* map.c: see map.h. */
#include "compiler/report/map.h"

map_rectangle *emit_map_add(map_picture *picture, base_arena *arena) {
    map_rectangle *grown =
        base_arena_grow(arena, picture->rectangles, &picture->capacity, picture->count + 1, sizeof *grown);
    if (!grown) return NULL;
    picture->rectangles = grown;
    return &grown[picture->count++];
}

bool emit_map_add_span(map_picture *picture, base_arena *arena, map_span span) {
    map_span *grown = base_arena_grow(arena, picture->spans, &picture->span_capacity, picture->span_count + 1,
                                      sizeof *grown);
    if (!grown) return false;
    picture->spans = grown;
    grown[picture->span_count++] = span;
    return true;
}

bool emit_map_add_band(map_picture *picture, base_arena *arena, map_band band) {
    map_band *grown = base_arena_grow(arena, picture->bands, &picture->band_capacity, picture->band_count + 1,
                                      sizeof *grown);
    if (!grown) return false;
    picture->bands = grown;
    grown[picture->band_count++] = band;
    return true;
}

uint32_t emit_map_iterations(uint64_t prologue, uint64_t period, int64_t trips, double body) {
    enum { MOST_ITERATIONS = 8, MOST_COLUMNS = 600 };
    uint64_t wanted = prologue + period + 1;
    if (period == 1 && prologue == 0) wanted = 1;
    if (trips >= 1 && (uint64_t)trips < wanted) wanted = (uint64_t)trips;
    if (wanted > MOST_ITERATIONS) wanted = MOST_ITERATIONS;
    while (wanted > 1 && (double)wanted * body > MOST_COLUMNS) wanted--;
    return (uint32_t)wanted;
}

unsigned emit_map_depth(const map_picture *picture) {
    unsigned depth = 0;
    for (size_t i = 0; i < picture->span_count; i++)
        if (picture->spans[i].depth + 1 > depth) depth = picture->spans[i].depth + 1;
    return depth;
}

uint64_t emit_map_top(const map_picture *picture) {
    uint64_t top = picture->height > picture->bound ? picture->height : picture->bound;
    for (size_t i = 0; i < picture->band_count; i++) {
        const uint64_t end = picture->bands[i].low + picture->bands[i].bytes;
        if (end > top) top = end;
    }
    return top;
}
