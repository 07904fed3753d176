/* replay.c: see replay.h. */
#include "passes/planners/replay.h"
#include <stdlib.h>

static int compare_events(const void *left, const void *right) {
    const replay_event *a = left, *b = right;
    if (a->time != b->time) return a->time < b->time ? -1 : 1;
    if (a->allocate != b->allocate) return a->allocate ? 1 : -1;
    return (a->buffer > b->buffer) - (a->buffer < b->buffer);
}

replay_event *replay_events(const planner_problem *problem, base_arena *arena, size_t *count) {
    size_t capacity;
    if (problem->buffer_count >= REPLAY_NONE || !base_size_multiply(problem->buffer_count, 2, &capacity))
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

/* ---- the treap ----------------------------------------------------------------------------------------- */

static uint32_t priority(uint32_t block) {
    uint32_t z = block + 0x9E3779B9u;
    z = (z ^ (z >> 16)) * 0x85EBCA6Bu;
    z = (z ^ (z >> 13)) * 0xC2B2AE35u;
    return z ^ (z >> 16);
}

static bool before(const replay_set *set, uint32_t a, uint32_t b) {
    if (set->sizes[a] != set->sizes[b]) return set->sizes[a] < set->sizes[b];
    if (set->ties && set->ties[a] != set->ties[b]) return set->ties[a] < set->ties[b];
    return a < b;
}

/* Splits a tree into what comes before `block` and the rest. */
static void split(replay_set *set, uint32_t tree, uint32_t block, uint32_t *low, uint32_t *high) {
    while (tree != REPLAY_NONE) {
        if (before(set, tree, block)) {
            *low = tree;
            low = &set->right[tree];
            tree = *low;
        } else {
            *high = tree;
            high = &set->left[tree];
            tree = *high;
        }
    }
    *low = *high = REPLAY_NONE;
}

void replay_set_add(replay_set *set, uint32_t block) {
    uint32_t *place = &set->root;
    while (*place != REPLAY_NONE && priority(*place) >= priority(block)) {
        place = before(set, block, *place) ? &set->left[*place] : &set->right[*place];
    }
    split(set, *place, block, &set->left[block], &set->right[block]);
    *place = block;
}

void replay_set_remove(replay_set *set, uint32_t block) {
    uint32_t *place = &set->root;
    while (*place != block) place = before(set, block, *place) ? &set->left[*place] : &set->right[*place];
    uint32_t low = set->left[block], high = set->right[block];
    while (low != REPLAY_NONE && high != REPLAY_NONE) {
        if (priority(low) >= priority(high)) {
            *place = low;
            place = &set->right[low];
            low = *place;
        } else {
            *place = high;
            place = &set->left[high];
            high = *place;
        }
    }
    *place = low != REPLAY_NONE ? low : high;
}

uint32_t replay_set_find(const replay_set *set, size_t size) {
    uint32_t found = REPLAY_NONE;
    for (uint32_t tree = set->root; tree != REPLAY_NONE;) {
        if (set->sizes[tree] >= size) {
            found = tree;
            tree = set->left[tree];
        } else {
            tree = set->right[tree];
        }
    }
    return found;
}

uint32_t replay_set_largest(const replay_set *set) {
    uint32_t found = REPLAY_NONE;
    for (uint32_t tree = set->root; tree != REPLAY_NONE; tree = set->right[tree]) found = tree;
    return found;
}
