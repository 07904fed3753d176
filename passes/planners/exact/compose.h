/* SPDX-License-Identifier: Apache-2.0 */
/* compose.h: buffers that together fill a rectangle of time and memory become one buffer, and these again, as long as there are any.
 *
 * Where a solution has no gaps, it is a rectangle that is cut into rectangles. Sizes and lives tell where the cuts are, often
 * beyond doubt: two buffers of the same life lie one on another; one that ends where another one of its size begins hands its
 * place on; and five are a pinwheel, the smallest arrangement that no cut from edge to edge takes apart:
 *
 *     size                    +-----+-------------+       left and centre with top, right and centre with bottom: at the step
 *      ^                      |     |     top     |       at which left ends, centre and top begin, which are together as large;
 *      |                      |     +-------+-----+       at which centre and bottom end, right begins, which is as large as
 *      |                      |left | centre|     |       these.
 *      |                      +-----+-------+right|
 *      |                      |  bottom     |     |
 *      +--> steps             +-------------+-----+
 *
 * So a problem that is such a rectangle is solved from the smallest parts on, whatever its size, where searches that place one buffer
 * after the other have no chance; of others a smaller problem remains. What fits together need not lie together: a solution of
 * what remains is one of the problem, but that there is none says nothing.
 *
 * Source: our own. That any arrangement without gaps has cuts from edge to edge or a pinwheel (or larger rings) is known from
 * floorplans (Wong and Liu 1986 for the former; "wheels").
 */
#ifndef OURO_PLANNERS_COMPOSE_H
#define OURO_PLANNERS_COMPOSE_H

#include "passes/planners/base/planner.h"
#include "passes/planners/base/budget.h"

typedef struct composition {
    planner_problem problem; /* of what remains; as many buffers as the whole has, or fewer */
    struct compose_block *blocks;
    size_t buffer_count; /* of the whole; the first blocks are its buffers */
} composition;

/* Composes a problem whose live ranges decide interference, until nothing fits any more or the budget is over. Of several that fit
 * the one with the lowest number is taken, buffers in the order of the problem, then what is made of them. All memory is in `arena`;
 * false when it runs out. */
bool exact_compose(const planner_problem *problem, planner_budget *budget, base_arena *arena, composition *composed);

/* Offsets of all buffers from those of what remains. */
void exact_compose_place(const composition *composed, const size_t *remaining, size_t *offsets);

#endif
