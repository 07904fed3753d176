/* SPDX-License-Identifier: Apache-2.0 */
/* occupancy.h: which addresses are taken while a buffer is live?
 *
 * Time is counted in positions: the steps in which some buffer is live for the first time, and no others. Two live
 * ranges that overlap do so where the later one begins, and so have a position in common. Positions are cut into
 * blocks of some beginnings and ends, and over the blocks stands a binary tree. Every node has a row of what is taken
 * somewhere in it (address_rows.h); every block has a row of what is taken by those that cover all of it, and a list
 * of those that cover a part of it. All that a buffer interferes with is in O(log n) rows and two lists then: the rows
 * of the nodes that together are the whole blocks of its live range, and the rows and lists of the blocks at its ends.
 *
 * A row for a long time is nearly full, so that few places are left to be asked for in the others: it comes first. What
 * that costs is that a buffer is taken in every block and node that its live range meets. Blocks are as long as it takes
 * for them to be few, on the average. Where the average hides that a few live ranges cover very many blocks, these are in
 * groups, and groups in larger ones: what covers a group is said of it alone, and asked of it, too.
 *
 * Buffers are placed in an order that has nothing to do with time, so that what a question needs is in no cache. It is
 * fetched while the question before is answered (planner_occupancy_expect), and it is small: addresses are 32 bits, in units of
 * the largest power of two that divides all sizes and pinned offsets. Only where all sizes together are 2^31 such units
 * or more, the unit is a larger one, and what a buffer takes is rounded up to it. The other cost is branches that
 * nobody can guess: where it can be done, the inner loops have none.
 *
 * What is asked for is the lowest free range, or the highest one. For the latter, addresses are counted downward from
 * the top of all that there are, so that it is the lowest one again.
 *
 * With listed interference there is no tree: the neighbours that are placed become one row when it is asked for.
 */
#ifndef OURO_PLANNERS_OCCUPANCY_H
#define OURO_PLANNERS_OCCUPANCY_H

#include "passes/planners/base/planner.h"
#include "passes/planners/address_rows.h"

enum {
    OCCUPANCY_BLOCKS = 6,   /* that a live range covers on the average, at the most */
    OCCUPANCY_FEWEST = 767, /* beginnings and ends that a block holds, at the least */
    OCCUPANCY_SPANS = 4,
    OCCUPANCY_NODES = 64, /* two on each level of the tree */
    OCCUPANCY_LEVELS = 7,
    OCCUPANCY_GROUP = 7,  /* the logarithm of how many groups are one of the next level */
    OCCUPANCY_MANY = 512, /* blocks: only where there are more, there is more than one level, */
    OCCUPANCY_FEW = 4,    /* and live ranges cover this many of them on the average */
    OCCUPANCY_SOURCES = OCCUPANCY_NODES + 2 * OCCUPANCY_LEVELS + 2
};

/* The parts of a block that buffers cover, the lowest range first: three arrays, long enough for all that it will ever
 * have. Begins and ends are positions within the block. */
typedef struct occupancy_block {
    uint32_t start; /* its first position */
    uint32_t count;
    address_range *ranges;
    uint16_t *begins, *ends;
    uint32_t *tops; /* for every 64 parts: neither they nor those below end above it */
} occupancy_block;

/* A live range: positions [begin, end), and the blocks of its first and of its last position. And what the buffer takes,
 * in units, so that all that is asked of it lies together. */
typedef struct occupancy_life {
    uint32_t begin, end, first, last;
    uint32_t size, alignment;
    uint32_t unused[2]; /* so that none lies on two lines of a cache */
} occupancy_life;

/* The nodes that a live range consists of, the largest last, the parts of blocks at its ends, and the groups (first these
 * blocks, in the same order) in which it begins and ends, but which it does not cover. */
typedef struct occupancy_span {
    uint32_t buffer;
    uint32_t within_count, edge_count, group_count;
    struct {
        uint32_t block, begin, end; /* positions within the block */
    } edges[2];
    uint32_t within[OCCUPANCY_NODES];
    const address_row *groups[2 * OCCUPANCY_LEVELS];
} occupancy_span;

typedef struct occupancy {
    const planner_problem *problem;
    base_arena *arena;
    unsigned shift; /* a unit is 1 << shift bytes */
    bool downward;  /* addresses are counted downward */
    occupancy_life *lives;
    /* Live ranges. */
    size_t position_count;
    uint32_t *starting, *ending; /* by position: how many begin there, and how many end where it begins */
    occupancy_block *blocks;     /* and one after the last, that starts where that ends */
    size_t block_count;
    size_t leaves;      /* of the tree, one a block: a power of two */
    address_row *nodes; /* what is taken somewhere in each, but not in all of the group that it is in */
    unsigned group;     /* the logarithm of how many groups are one of the next level */
    size_t levels;      /* of groups; those of the first are the blocks */
    /* What is taken in all of each, but not in all of the one of the next level that it is in. */
    address_row *groups[OCCUPANCY_LEVELS];
    uint32_t *asked; /* by node: the nearest one, itself or above, of which some live range consists, or 0 */
    occupancy_span spans[OCCUPANCY_SPANS]; /* of the buffers last asked for */
    unsigned oldest;
    address_pool pool;
    /* Listed interference. */
    bool *placed;
    address_range *taken;   /* by buffer */
    address_range *scratch; /* for the one row */
} occupancy;

/* From which end of the memory free ranges are looked for. */
typedef enum occupancy_end { OCCUPANCY_LOWEST, OCCUPANCY_HIGHEST } occupancy_end;

/* Nothing is taken. False when memory runs out (or for 2^30 buffers). Memory comes from `arena`, also later. All offsets
 * below are in bytes; but for those of pinned buffers, multiples of a unit, as all answers are. */
bool planner_occupancy_init(occupancy *o, const planner_problem *problem, occupancy_end end,
                            base_arena *arena);

/* Bytes in units, rounded up. */
static inline uint32_t occupancy_units(const occupancy *o, size_t bytes) {
    const size_t whole = bytes >> o->shift;
    return (uint32_t)(whole + (whole << o->shift != bytes));
}

/* Forgets all buffers. */
void planner_occupancy_clear(occupancy *o, occupancy_end end);

/* Takes [offset, offset + size) for a buffer. Buffers of no bytes take nothing. False when memory runs out. */
bool planner_occupancy_add(occupancy *o, uint32_t buffer, size_t offset);

/* The upper end of the highest range below `height` (rounded up to a unit) that is free for the buffer, aligned; false:
 * there is none, and *offset is the lowest aligned one above all that it interferes with. With OCCUPANCY_HIGHEST. */
bool planner_occupancy_highest(occupancy *o, uint32_t buffer, size_t height, size_t *offset);

/* The lowest aligned offset at which the buffer is free of all that it interferes with. With OCCUPANCY_LOWEST. */
size_t planner_occupancy_lowest(occupancy *o, uint32_t buffer);

/* The lowest aligned offset in the smallest gap, between what the buffer interferes with, that holds it (the lowest of
 * equal ones; alignment taken off), and above all where none does. With OCCUPANCY_LOWEST. */
size_t planner_occupancy_best_fit(occupancy *o, uint32_t buffer);

/* Says which buffers will be asked for next: what the first answer needs is fetched into the caches meanwhile. */
void planner_occupancy_expect(occupancy *o, const uint32_t *order, size_t count);

/* Is [offset, offset + size) free for the buffer? */
bool planner_occupancy_is_free(occupancy *o, uint32_t buffer, size_t offset);

/* How many buffers each one interferes with, placed or not. NULL when memory runs out. */
uint32_t *planner_occupancy_degrees(const occupancy *o);

/* What a buffer's live range consists of, of the nodes that some live range consists of: for other values over the same
 * tree. Valid until the next call. Not with listed interference. */
const occupancy_span *planner_occupancy_find_span(occupancy *o, uint32_t buffer);

/* The nodes above those, and how many they are. `above` is as long as OCCUPANCY_NODES. */
uint32_t planner_occupancy_find_above(const occupancy *o, uint32_t buffer, uint32_t *above);

#endif
