/* SPDX-License-Identifier: Apache-2.0 */
/* stack.c: see stack.h. */
#include "passes/planners/exact/stack.h"
#include "passes/planners/base/sorting.h"
#include <string.h>

enum {
    FULL_PART = 128, /* a step is full where so small a part of the largest live sum is free */
    OTHERS =
        16 /* steps that are not full, for each that is: where more are full, there is no space beside a stack */
};

typedef struct fullest {
    int64_t step;        /* the first at which most bytes are live */
    size_t full, others; /* steps at which something begins: those that are as good as full, and the others */
} fullest;

static fullest find_fullest(const planner_problem *problem, planner_key *begins, planner_key *ends,
                            size_t *sums) {
    const size_t count = problem->buffer_count;
    for (uint32_t i = 0; i < count; i++) {
        begins[i] = (planner_key){planner_step_key(problem->buffers[i].first), i};
        ends[i] = (planner_key){planner_step_key(problem->buffers[i].last), i};
    }
    planner_key *scratch = ends + count;
    planner_sort_keys(begins, count, scratch);
    planner_sort_keys(ends, count, scratch);
    size_t live = 0, most = 0, steps = 0;
    fullest found = {0};
    for (size_t begun = 0, ended = 0; begun < count;) {
        const uint64_t key = begins[begun].key;
        const int64_t step = problem->buffers[begins[begun].buffer].first;
        for (; ends[ended].key <= key; ended++) live -= problem->buffers[ends[ended].buffer].size;
        for (; begun < count && begins[begun].key == key; begun++)
            live += problem->buffers[begins[begun].buffer].size;
        if (live > most) found.step = step;
        most = live > most ? live : most;
        sums[steps++] = live;
    }
    for (size_t s = 0; s < steps; s++) found.full += sums[s] >= most - most / FULL_PART;
    found.others = steps - found.full;
    return found;
}

static uint64_t key_of(const planner_buffer *buffer, stack_order by, size_t offset) {
    const uint64_t first = planner_step_key(buffer->first), last = planner_step_key(buffer->last);
    switch (by) {
    case STACK_BY_MIDDLE:
        return first / 2 + last / 2 + (first & last & 1);
    case STACK_BY_BEGINNING:
        return first;
    case STACK_AS_FOUND:
        return offset;
    default:
        return UINT64_MAX - (last - first);
    }
}

bool exact_stack_find(const planner_problem *problem, base_arena *arena, stack *found) {
    const size_t count = problem->buffer_count;
    planner_key *keys = BASE_ARRAY(arena, planner_key, 3 * count + 3);
    size_t *sums = BASE_ARRAY(arena, size_t, count + 1);
    *found = (stack){.members = BASE_ARRAY(arena, uint32_t, count + 1)};
    if (!keys || !sums || !found->members) return false;
    const fullest full = find_fullest(problem, keys, keys + count, sums);
    found->possible = full.others / OTHERS >= full.full;
    for (uint32_t i = 0; i < count; i++) {
        const planner_buffer *buffer = &problem->buffers[i];
        if (!buffer->size || buffer->first > full.step || buffer->last <= full.step) continue;
        found->possible &= buffer->fixed == PLANNER_NOT_FIXED;
        found->members[found->count++] = i;
    }
    return true;
}

bool exact_stack_pin(const planner_problem *problem, const stack *found, stack_order by,
                     const size_t *offsets, base_arena *arena, planner_problem *stacked) {
    const size_t count = problem->buffer_count;
    planner_buffer *buffers = BASE_ARRAY(arena, planner_buffer, count + 1);
    planner_key *keys = BASE_ARRAY(arena, planner_key, 2 * found->count + 2);
    if (!buffers || !keys) return false;
    memcpy(buffers, problem->buffers, count * sizeof *buffers);
    *stacked = (planner_problem){.buffers = buffers, .buffer_count = count};
    for (size_t k = 0; k < found->count; k++) {
        const uint32_t i = found->members[k];
        keys[k] = (planner_key){key_of(&buffers[i], by, offsets[i]), i};
    }
    planner_sort_keys(keys, found->count, keys + found->count);
    size_t top = 0;
    for (size_t k = 0; k < found->count; k++) {
        planner_buffer *buffer = &buffers[keys[k].buffer];
        const size_t mask = buffer->alignment ? buffer->alignment - 1 : 0;
        buffer->fixed = (top + mask) & ~mask;
        top = buffer->fixed + buffer->size;
    }
    return true;
}
