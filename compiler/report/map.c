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

uint64_t emit_map_top(const map_picture *picture) {
    uint64_t top = picture->height > picture->bound ? picture->height : picture->bound;
    for (size_t i = 0; i < picture->band_count; i++) {
        const uint64_t end = picture->bands[i].low + picture->bands[i].bytes;
        if (end > top) top = end;
    }
    return top;
}
