/* SPDX-License-Identifier: Apache-2.0 */
/* search.h: which regions are worth it, and how high their bands are to be?
 *
 * The nodes of the main graph in their order are steps; some steps one after another can become one: a region at some height.
 * What a step has live at most is estimated from shapes alone, and so is the time that bands take more. The least peak, and
 * the least time within a limit of the peak, are then paths from the first node to the last.
 */
#ifndef OURO_BANDS_SEARCH_H
#define OURO_BANDS_SEARCH_H

#include "ir/ir.h"
#include "runtime/kernels/table.h"

/* Nodes [first, last] of the main graph, counted from 0, in bands of so many rows of the last one. */
typedef struct band_choice {
    size_t first, last;
    int64_t rows;
    double bytes;        /* the estimated peak while the region runs, with all that is live around it */
    double state_bytes;  /* of that, the rows that its loop carries */
    double more_seconds; /* the estimated time that it takes more than its nodes one by one */
    double lost_seconds; /* of these, what faster kernels save without bands, and not with them */
    bool channels_last;  /* its tensors get their channels innermost */
} band_choice;

/* Some regions, none of which overlap. */
typedef struct band_choices {
    band_choice *list;
    size_t count;
    double bytes;        /* the estimated peak of the whole graph */
    double more_seconds; /* than without bands */
} band_choices;

typedef struct band_search band_search;

/* By node id below `count`: what faster kernels save without bands, and what the others take there, predicted or measured; 0 where there is no
 * faster one. */
typedef struct band_savings {
    const double *saved, *before;
    size_t count;
} band_savings;

/* Looks at the regions of the main graph. Lives in `arena`. NULL when memory runs out. */
band_search *band_search_new(const ir_module *module, const rt_environment *environment,
                             const band_savings *savings, base_arena *arena);
/* The estimated peak without bands, the least one with them, and the time of the graph without bands, on direct kernels. */
double band_search_whole(const band_search *search);
double band_search_least(const band_search *search);
double band_search_seconds(const band_search *search);
/* What faster kernels save of that time. */
double band_search_saved(const band_search *search);
/* What choices come to when they are carried out tells what estimates are worth: `bytes` were live while this region ran, or the node that is
 * step `n` of the main graph by itself. Regions of nearly the same nodes are wrong by the same factor. Where that was not the peak of
 * all (`is_peak`) it is no more than they need at most. */
void band_search_learn(band_search *search, const band_choice *choice, double bytes, bool is_peak);
void band_search_learn_step(band_search *search, size_t n, double bytes, bool is_peak);
/* After that: the least peak follows from what was learnt. */
void band_search_settle(band_search *search);
/* The choices that take least time, of those whose estimated peak is at most `bytes`. If there are none: those with the least
 * peak. False when memory runs out. */
bool band_search_within(const band_search *search, double bytes, base_arena *arena, band_choices *choices);
/* The same regions, but those at the peak (within some percent of it) in lower bands, the next that there are. `*lower` has no choices where there
 * are none. False when memory runs out. */
bool band_search_lower(const band_search *search, const band_choices *choices, base_arena *arena,
                       band_choices *lower);

#endif
