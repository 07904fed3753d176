/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.h: solutions built section by section, from the tightest outward, and mended where they do not go on.
 *
 * A search over the whole problem (search.h) takes back what was decided last, wherever that is: what went wrong early,
 * in some place, is hardly ever found. Here time is what the solution grows along. Sections (skyline.h) are done one
 * after the other; those of the present solution are a run, which grows by one on either side. The buffers that a new
 * section brings are placed among those that lie there already, which are fixed, by a search over these few. Where that
 * fails, some are loosened and searched for again together with the new ones: first those that live nearest to the new
 * section and reach least far into what is done, with some chance; more and more of them, several times each. Where
 * even all of them together do not help, the run goes back by some sections and takes another way.
 *
 * So a mistake is mended near where it was made, at the cost of a small search, and what is far away stays. It proves
 * nothing: nothing but a solution comes of it.
 *
 * Of very many buffers there are several runs, one for each peak of what is live that is far from the others. They grow towards each
 * other. Where new buffers find no free ranges, ejection chains (ejection.h) put them in, and only where these fail some are loosened.
 *
 * Source: our own; for loosening see partial.h.
 */
#ifndef OURO_PLANNERS_SWEEP_H
#define OURO_PLANNERS_SWEEP_H

#include "passes/planners/exact/search.h"

typedef struct sweep sweep;

/* From the skyline of a problem, in which nothing is placed; it is not changed, and is to stay. `memory` may be
 * that of other searches. The seed decides what chance does. NULL when memory runs out. All memory is in `arena`, but for
 * that of the small searches, which is given back after each. */
sweep *exact_sweep_new(const skyline *sky, uint64_t seed, planner_budget *budget, search_memory *memory,
                       base_arena *arena);

/* Looks for a solution of at most `capacity`, for about so much work of the budget. Goes on where the last call stopped if
 * that was for the same capacity. SEARCH_SOLVED: `offsets` is a solution, and the next call begins anew. Otherwise
 * SEARCH_STOPPED and the offsets as they were, with *out_of_memory set if that is why. */
search_outcome exact_sweep_run(sweep *s, size_t capacity, uint64_t work, size_t *offsets,
                               bool *out_of_memory);

/* The work of all calls so far. */
uint64_t exact_sweep_spent(const sweep *s);

#endif
