/* SPDX-License-Identifier: Apache-2.0 */
/* stack.h: the fullest step without gaps, to begin a search with.
 *
 * Where a solution is to reach the largest live sum, the buffers of that step lie one on another without gaps. Moves of single
 * buffers hardly come to such a stack, or leave it for another. So it is given: these buffers are pinned, and the search is for the
 * others, which have space between the live sums of their steps and that height. Which buffer lies on which matters less than that
 * there are no gaps; several orders are tried.
 */
#ifndef OURO_PLANNERS_STACK_H
#define OURO_PLANNERS_STACK_H

#include "passes/planners/exact/neighbours.h"

/* From the lowest: as in a solution, the earliest middle of the life, the earliest beginning, the longest life. */
typedef enum stack_order {
    STACK_AS_FOUND,
    STACK_BY_MIDDLE,
    STACK_BY_BEGINNING,
    STACK_BY_LIFE,
    STACK_ORDERS
} stack_order;

/* The buffers of the fullest step. */
typedef struct stack {
    uint32_t *members; /* their numbers, ascending */
    size_t count;
    bool possible; /* false where one of them is pinned already, or where many other steps are as full */
} stack;

/* All memory is in `arena`; false when it runs out. */
bool exact_stack_find(const planner_problem *problem, base_arena *arena, stack *found);

/* The problem with these buffers pinned in this order, the lowest at 0; `offsets` is a solution. All memory is in `arena`; false when it
 * runs out. */
bool exact_stack_pin(const planner_problem *problem, const stack *found, stack_order by,
                     const size_t *offsets, base_arena *arena, planner_problem *stacked);

#endif
