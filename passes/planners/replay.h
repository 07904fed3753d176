/* SPDX-License-Identifier: Apache-2.0 */
/* replay.h: what the planners that replay a schedule share: its events in order.
 *
 * A replaying planner walks through time and takes and gives memory as an allocator would at run time. At
 * each point of time what ends is freed before what begins is allocated; buffers that begin together are
 * allocated in the order of the problem.
 */
#ifndef OURO_REPLAY_H
#define OURO_REPLAY_H

#include "ir/base/block_set.h"
#include "passes/planners/base/planner.h"

typedef struct replay_event {
    int64_t time;
    bool allocate; /* false: free */
    uint32_t buffer;
} replay_event;

/* The events of a problem in order, without buffers of size 0; NULL when memory runs out. */
replay_event *planner_replay_events(const planner_problem *problem, base_arena *arena, size_t *count);

#endif
