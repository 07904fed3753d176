/* SPDX-License-Identifier: Apache-2.0 */
/* sorting.h: what planners share: sorting buffers, the question whether two interfere, and chance. */
#ifndef OURO_PLANNERS_SORTING_H
#define OURO_PLANNERS_SORTING_H

#include "passes/planners/base/planner.h"
#include <assert.h>

typedef struct planner_key {
    uint64_t key;
    uint32_t buffer;
} planner_key;

/* Steps as keys in the same order. */
static inline uint64_t planner_step_key(int64_t step) {
    return (uint64_t)step ^ (uint64_t)1 << 63;
}

/* Sorts by key; stable, in time proportional to the count and to the bytes in which keys differ. `scratch` is for as
 * many. */
void planner_sort_keys(planner_key *keys, size_t count, planner_key *scratch);

/* Do two buffers interfere? */
bool planner_interfere(const planner_problem *problem, uint32_t a, uint32_t b);

/* Bits that look drawn by chance: the number of a generator in state z. */
static inline uint64_t planner_mix(uint64_t z) {
    return base_mix(z + BASE_RANDOM_STEP);
}

#endif
