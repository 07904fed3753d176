/* sorting.c: see sorting.h. */
#include "passes/planners/sorting.h"
#include <string.h>

bool planner_sort(uint32_t *order, size_t count, planner_less *less, const void *user, base_arena *arena) {
    uint32_t *from = order, *to = BASE_ARRAY(arena, uint32_t, count);
    if (!to) return false;
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t start = 0; start < count; start += 2 * width) {
            size_t middle = start + width < count ? start + width : count;
            size_t end = start + 2 * width < count ? start + 2 * width : count;
            size_t a = start, b = middle;
            for (size_t k = start; k < end; k++) {
                bool left = a < middle && (b >= end || !less(user, from[b], from[a]));
                to[k] = left ? from[a++] : from[b++];
            }
        }
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != order) memcpy(order, from, count * sizeof *order);
    return true;
}

void planner_sort_keys(planner_key *keys, size_t count, planner_key *room) {
    size_t differ = 0;
    bool sorted = true;
    for (size_t i = 1; i < count; i++) {
        differ |= keys[i].key ^ keys[i - 1].key;
        sorted &= keys[i].key >= keys[i - 1].key;
    }
    planner_key *from = keys, *to = room;
    for (unsigned shift = 0; !sorted && shift < sizeof(size_t) * 8; shift += 8) {
        size_t starts[257] = {0};
        if (!(differ >> shift & 255)) continue;
        for (size_t i = 0; i < count; i++) starts[(from[i].key >> shift & 255) + 1]++;
        for (size_t b = 0; b < 256; b++) starts[b + 1] += starts[b];
        for (size_t i = 0; i < count; i++) to[starts[from[i].key >> shift & 255]++] = from[i];
        planner_key *swap = from;
        from = to;
        to = swap;
    }
    if (from != keys) memcpy(keys, from, count * sizeof *keys);
}

bool planner_interfere(const planner_problem *problem, uint32_t a, uint32_t b) {
    if (!problem->starts) {
        return problem->buffers[a].first < problem->buffers[b].last &&
               problem->buffers[b].first < problem->buffers[a].last;
    }
    return planner_is_listed(problem, a, b);
}
