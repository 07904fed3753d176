/* SPDX-License-Identifier: Apache-2.0 */
/* planners.c: see planners.h. */
#include "passes/planners/planners.h"
#include <string.h>

static const planner *const planners[] = {
    &planner_auto, &planner_nnc,  &planner_greedy_by_size, &planner_chunk_simulation,
    &planner_bfc,  &planner_pool, &planner_exact};

const planner *planner_at(size_t index) {
    return index < sizeof planners / sizeof *planners ? planners[index] : NULL;
}

const planner *planner_find(const char *name) {
    for (size_t i = 0; i < sizeof planners / sizeof *planners; i++) {
        if (strcmp(planners[i]->name, name) == 0) return planners[i];
    }
    return NULL;
}
