/* SPDX-License-Identifier: Apache-2.0 */
/* sorting.c: see sorting.h. */
#include "passes/planners/base/sorting.h"
#include <string.h>

void planner_sort_keys(planner_key *keys, size_t count, planner_key *scratch) {
    uint64_t differ = 0;
    bool sorted = true;
    for (size_t i = 1; i < count; i++) {
        differ |= keys[i].key ^ keys[i - 1].key;
        sorted &= keys[i].key >= keys[i - 1].key;
    }
    planner_key *from = keys, *to = scratch;
    for (unsigned shift = 0; !sorted && shift < 8 * sizeof differ; shift += 8) {
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
