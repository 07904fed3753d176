/* SPDX-License-Identifier: Apache-2.0 */
/* replay.c: see replay.h. */
#include "passes/planners/replay.h"
#include <stdlib.h>

static int compare_events(const void *left, const void *right) {
    const replay_event *a = left, *b = right;
    if (a->time != b->time) return a->time < b->time ? -1 : 1;
    if (a->allocate != b->allocate) return a->allocate ? 1 : -1;
    return (a->buffer > b->buffer) - (a->buffer < b->buffer);
}

replay_event *planner_replay_events(const planner_problem *problem, base_arena *arena, size_t *count) {
    size_t capacity;
    if (problem->buffer_count >= BASE_NO_BLOCK || !base_size_multiply(problem->buffer_count, 2, &capacity))
        return NULL;
    replay_event *events = BASE_ARRAY(arena, replay_event, capacity);
    if (!events) return NULL;
    *count = 0;
    for (uint32_t b = 0; b < problem->buffer_count; b++) {
        if (problem->buffers[b].size == 0) continue;
        events[(*count)++] = (replay_event){problem->buffers[b].first, true, b};
        events[(*count)++] = (replay_event){problem->buffers[b].last, false, b};
    }
    if (*count) qsort(events, *count, sizeof *events, compare_events);
    return events;
}
