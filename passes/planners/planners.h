/* SPDX-License-Identifier: Apache-2.0 */
/* planners.h: the table of planners, one a file in this folder. */
#ifndef OURO_PLANNERS_H
#define OURO_PLANNERS_H

#include "passes/planners/base/planner.h"

/* By the name that --allocator has; NULL: there is none. */
const planner *planner_find(const char *name);
/* In the order of the table; NULL after the last. */
const planner *planner_at(size_t index);

extern const planner planner_auto;
extern const planner planner_nnc; /* by an allocation graph: who hands how many bytes to whom */
extern const planner planner_greedy_by_size;
extern const planner planner_chunk_simulation;
extern const planner planner_bfc;
extern const planner planner_pool;
extern const planner planner_exact;

#endif
