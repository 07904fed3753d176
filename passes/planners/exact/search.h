/* SPDX-License-Identifier: Apache-2.0 */
/* search.h: sound and complete search for a solution within a capacity.
 *
 * Partial solutions are skylines (skyline.h), built from the bottom up. Branching: in a valley (a run of
 * sections of equal floor between higher ones) take a section; the first buffer above it in the solution
 * either starts at the floor, carried by what is placed, or none does and each is lifted by another one. The
 * section with the fewest such alternatives is branched on, so that forced moves come first. Every pushed-down
 * solution with the smallest sum of offsets is reached: running out of alternatives is a proof.
 *
 * Between sections that no buffer still to come spans, the problem falls apart; the parts are solved one by
 * one, and a part that fails is not tried again with another solution of its neighbour. States (buffers to
 * come, floors and tops of a part) that have failed are remembered. Equal buffers are placed in the order of
 * their numbers. The order of alternatives is a mixture of heuristics that changes at restarts; it depends on
 * nothing but the problem and the seed.
 *
 * Source: our own. Skylines for this problem are described in "MiniMalloc: A Lightweight Memory Allocator for
 * Hardware-Accelerated Machine Learning" (ASPLOS 2023).
 */
#ifndef OURO_PLANNERS_SEARCH_H
#define OURO_PLANNERS_SEARCH_H

#include "passes/planners/base/budget.h"
#include "passes/planners/exact/skyline.h"

enum { SEARCH_HEURISTICS = 6 };

typedef enum search_outcome { SEARCH_SOLVED, SEARCH_FAILED, SEARCH_STOPPED } search_outcome;

/* States that have failed, of one or several searches: their hashes. */
typedef struct search_memory search_memory;

typedef struct search {
    skyline sky;
    planner_budget *budget;
    search_memory *memory;
    uint64_t seed;
    uint64_t node_work; /* of the budget, for each node */
    uint64_t spent;     /* work, in all */
    /* Of the present restart. */
    double weights[SEARCH_HEURISTICS];
    uint64_t random;
    uint64_t nodes, node_limit;
    bool out_of_nodes;
    uint32_t depth;
    struct search_alternative *stack; /* those of all decisions on the path */
    size_t stack_count, stack_capacity;
} search;

/* In `arena`; NULL when memory runs out. */
search_memory *exact_search_memory_new(base_arena *arena);

/* Prepares a search. Its order is a matter of the seed. The skyline lives in `arena`. False: see exact_skyline_init. Afterwards
 * exact_search_free, in either case. */
bool exact_search_init(search *s, const planner_problem *problem, uint64_t seed, planner_budget *budget,
                       search_memory *memory, base_arena *arena);
void exact_search_free(search *s);

/* Does everything fit into `capacity`? Restarts until so many nodes have been visited. SEARCH_SOLVED: sky.offsets is a
 * solution; SEARCH_FAILED: proved not to; SEARCH_STOPPED: nobody knows (the nodes, the budget or memory is at its end;
 * for the last see sky.out_of_memory; after the last two it knows no more answers). */
search_outcome exact_search_decide(search *s, size_t capacity, uint64_t nodes);

#endif
