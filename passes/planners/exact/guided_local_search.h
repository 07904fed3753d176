/* guided_local_search.h: solutions found by pulling apart buffers that overlap.
 *
 * The other way round than a skyline: every buffer has a place below the capacity from the start, and overlaps
 * are removed one after the other. It proves nothing, but where there is some slack it gets lower than planners
 * that never take back what they did.
 */
#ifndef OURO_GUIDED_LOCAL_SEARCH_H
#define OURO_GUIDED_LOCAL_SEARCH_H

#include "passes/planners/exact/budget.h"
#include "passes/planners/exact/skyline.h"

/* The pairs of buffers that interfere, with the weight of their overlaps. */
typedef struct guided_search guided_search;

/* From the sections of a skyline, which is not changed. NULL where memory runs out or where there are too many
 * pairs for this to be of use. All memory is in `arena`. */
guided_search *guided_search_new(const skyline *sky, planner_budget *budget, base_arena *arena);

/* Looks for a solution of at most `capacity`, in the skyline's units, starting from `offsets`; those that do not fit
 * start anywhere, for so much work of the budget. True: `offsets` is a solution; otherwise they are as they were. The same call gives the same answer: chance comes from the seed only. */
bool guided_search_run(guided_search *s, size_t capacity, uint64_t seed, uint64_t work, size_t *offsets);

#endif
