/* separate.h: solutions found by pulling apart buffers that overlap.
 *
 * The other way round than a skyline: every buffer has a place below the capacity from the start, and overlaps
 * are removed one after the other. It proves nothing, but where there is some slack it gets lower than planners
 * that never take back what they did.
 */
#ifndef OURO_SEPARATE_H
#define OURO_SEPARATE_H

#include "passes/planners/budget.h"
#include "passes/planners/skyline.h"

/* The pairs of buffers that interfere, with the weight of their overlaps. */
typedef struct separation separation;

/* From the sections of a skyline, which is not changed. NULL where memory runs out or where there are too many
 * pairs for this to be of use. All memory is in `arena`. */
separation *separation_new(const skyline *sky, planner_budget *budget, base_arena *arena);

/* Looks for a solution of at most `capacity`, in the skyline's units, starting from `offsets`; those that do not fit
 * start anywhere, for so much work of the budget. True: `offsets` is a solution; otherwise they are as they were. The same call gives the same answer: chance comes from the seed only. */
bool separation_run(separation *s, size_t capacity, uint64_t seed, uint64_t work, size_t *offsets);

#endif
