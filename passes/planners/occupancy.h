/* occupancy.h: which addresses are taken while a buffer is live?
 *
 * Time is counted in positions: the buffers stand in the order of their first steps, and a live range covers the
 * positions from that of its buffer to that of the last one that begins within it. Two live ranges overlap where
 * they have a position in common. Positions are cut into blocks of few beginnings and ends, and over the blocks
 * stands a segment tree. Every node has two rows of address ranges, disjoint and ascending: what is taken somewhere in
 * the node, and what is taken by those that cover the node, but not the one above it; beside them every block has a
 * list of those that cover a part of it. All that a buffer interferes with is in O(log n) rows and two lists then: the
 * first kind of the nodes that together are its live range, the second kind of the nodes above them, and the
 * lists of the blocks at its ends.
 *
 * Ranges that touch or overlap are one in a row: the fuller memory is, the shorter the rows. A free range is found
 * without looking at each buffer that interferes, however many they are.
 *
 * With listed interference there is no tree: the neighbours that are placed become one row when it is asked for.
 */
#ifndef OURO_PLANNERS_OCCUPANCY_H
#define OURO_PLANNERS_OCCUPANCY_H

#include "passes/planner.h"

enum {
    OCCUPANCY_BLOCK = 64, /* the most positions of a block, and the most buffers that cover a part of it */
    OCCUPANCY_LEVELS = 32,
    OCCUPANCY_NODES = 2 * OCCUPANCY_LEVELS
};

typedef struct occupancy_range {
    size_t low, high;
} occupancy_range;

/* Disjoint ranges that do not touch, the lowest first. */
typedef struct occupancy_row {
    occupancy_range *items;
    uint32_t count;
    uint32_t room; /* 0, or a power of two */
} occupancy_row;

/* A part of a block that a buffer covers. */
typedef struct occupancy_part {
    occupancy_range range;
    uint8_t begin, end; /* positions within the block */
} occupancy_part;

/* The nodes that a live range consists of, those above them, and the parts of blocks at its ends. */
typedef struct occupancy_span {
    uint32_t within[OCCUPANCY_NODES], above[OCCUPANCY_NODES];
    unsigned within_count, above_count, edge_count;
    struct {
        uint32_t block, begin, end; /* positions */
    } edges[2];
} occupancy_span;

typedef struct occupancy {
    const planner_problem *problem;
    base_arena *arena;
    /* Live ranges. */
    uint32_t *begins, *ends; /* of a buffer: the positions [begin, end) of its live range */
    uint32_t *blocks;        /* of a position */
    uint32_t *starts;        /* the first position of a block, and the end of the last one */
    size_t leaves;           /* of the tree, one a block: a power of two */
    bool *asked;             /* by node: some live range consists of it, so that `any` is wanted */
    occupancy_row *any;      /* by node: taken somewhere in it */
    occupancy_row *all;      /* taken all over it, but not all over the one above */
    occupancy_part *parts;   /* of blocks, the lowest range first */
    size_t *part_starts;     /* where those of a block begin: there is room for all that it will ever have */
    uint32_t *part_counts;
    void *spare[32]; /* arrays of ranges that rows grew out of, linked, by the logarithm of their room */
    /* Listed interference. */
    bool *placed;
    size_t *offsets;
    occupancy_range *room; /* for the one row */
} occupancy;

/* Nothing is taken. False when memory runs out. Memory comes from `arena`, also later. */
bool occupancy_init(occupancy *o, const planner_problem *problem, base_arena *arena);

/* Forgets all buffers. */
void occupancy_clear(occupancy *o);

/* Takes [offset, offset + size) for a buffer. Buffers of no bytes take nothing. False when memory runs out. */
bool occupancy_add(occupancy *o, uint32_t buffer, size_t offset);

/* The upper end of the highest range below `height` that is free for the buffer, aligned; false: there is none, and
 * *offset is the lowest aligned one above all that it interferes with. */
bool occupancy_highest(occupancy *o, uint32_t buffer, size_t height, size_t *offset);

/* The lowest aligned offset at which the buffer is free of all that it interferes with. */
size_t occupancy_lowest(occupancy *o, uint32_t buffer);

/* The lowest aligned offset in the smallest gap, between what the buffer interferes with, that holds it (the lowest of
 * equal ones; alignment taken off), and above all where none does. */
size_t occupancy_best_fit(occupancy *o, uint32_t buffer);

/* Is [offset, offset + size) free for the buffer? */
bool occupancy_is_free(occupancy *o, uint32_t buffer, size_t offset);

/* How many buffers each one interferes with, placed or not. NULL when memory runs out. */
uint32_t *occupancy_degrees(const occupancy *o);

/* What a buffer's live range consists of: for other values over the same tree. Not with listed interference. */
void occupancy_find_span(const occupancy *o, uint32_t buffer, occupancy_span *span);

#endif
