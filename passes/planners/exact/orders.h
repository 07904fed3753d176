/* SPDX-License-Identifier: Apache-2.0 */
/* orders.h: greedy planning in many orders, to begin a search with. */
#ifndef OURO_PLANNERS_ORDERS_H
#define OURO_PLANNERS_ORDERS_H

#include "passes/planners/exact/neighbours.h"

/* Places all buffers by size, by size times a power of the largest live sum that they are part of (also times a root of the life), by size times
 * the number of interferences, by that live sum, by area, by life and by beginning, ties by the longest life, each into the lowest free range
 * and into the smallest, until the height is not above `enough`. Where one of these solutions is lower than `offsets` of height `height`, it
 * takes their place. False when memory runs out. */
bool exact_orders_try(neighbours *n, size_t enough, planner_budget *budget, base_arena *arena,
                      size_t *offsets, size_t *height);

/* Places all buffers in the order of offsets that nearly are a solution, each into the lowest free range, if that is lower
 * than `height`. Gives the height or SIZE_MAX, and the offsets. False when memory runs out. */
bool exact_orders_compact(neighbours *n, const size_t *nearly, planner_budget *budget, base_arena *arena,
                          size_t *offsets, size_t *height);

#endif
