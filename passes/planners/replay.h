/* replay.h: what the planners that replay a schedule share: the events in order, and free blocks by size.
 *
 * A replaying planner walks through time and takes and gives memory as an allocator would at run time. At
 * each point of time what ends is freed before what begins is allocated; buffers that begin together are
 * allocated in the order of the problem.
 */
#ifndef OURO_REPLAY_H
#define OURO_REPLAY_H

#include "passes/planners/base/planner.h"

#define REPLAY_NONE UINT32_MAX

typedef struct replay_event {
    int64_t time;
    bool allocate; /* false: free */
    uint32_t buffer;
} replay_event;

/* The events of a problem in order, without buffers of size 0; NULL when memory runs out. */
replay_event *replay_events(const planner_problem *problem, base_arena *arena, size_t *count);

/* A set of blocks ordered by (size, tie, number): a treap whose priorities are a hash of the number, so that
 * its shape, too, is the same in every run. Blocks are numbers into arrays that the owner keeps large enough.
 */
typedef struct replay_set {
    uint32_t root;
    const size_t *sizes; /* of a block; must not change while it is in the set */
    const size_t *ties;  /* likewise; NULL: none */
    uint32_t *left, *right;
} replay_set;

void replay_set_add(replay_set *set, uint32_t block);
void replay_set_remove(replay_set *set, uint32_t block);
/* The first block, in order, of at least `size`; REPLAY_NONE: there is none. */
uint32_t replay_set_find(const replay_set *set, size_t size);
/* The last block in order: the largest. */
uint32_t replay_set_largest(const replay_set *set);

#endif
