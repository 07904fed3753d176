/* SPDX-License-Identifier: Apache-2.0 */
/* trials.h: what do some regions come to, when they are carried out?
 *
 * Estimates know nothing of orders and in-place decisions. A trial makes the bands of some choices in a copy of the module and has
 * it planned by all passes that follow. What is tried again is not planned again.
 */
#ifndef OURO_BANDS_TRIALS_H
#define OURO_BANDS_TRIALS_H

#include "passes/bands/search.h"
#include "passes/base/pass.h"

typedef struct band_trial {
    band_choices choices;
    bool kernels;         /* faster ones are chosen, */
    size_t kernel_arena;  /* in so many bytes: pass_context.kernel_arena */
    size_t bound, arena;  /* bytes; see `enough` below */
    double saved_seconds; /* what faster kernels save */
    /* Bytes that were live while each node of the main graph ran, where it is in no region, and while each region did. NULL: nobody has
     * asked for them yet. */
    size_t *steps, *regions;
    struct band_trial *next;
} band_trial;

/* All trials of one search. They live in `arena`. */
typedef struct band_trials {
    base_arena *arena;
    band_trial *first;
} band_trials;

/* The nodes that are made for a region have ids in [first, end). */
typedef struct band_ids {
    uint32_t first, end;
} band_ids;

bool band_same_choices(const band_choices *a, const band_choices *b);

/* The regions of `choices` in this module, a copy of the context's or that itself, become bands. `made`, where it is not NULL, tells the
 * nodes of each. */
base_status band_carry_out(pass_context *context, ir_module *module, const band_choices *choices,
                           base_arena *arena, band_ids *made);

/* Tries these choices, or finds the trial that did. `search`, which may be NULL, learns from it. Where the bound is at least `enough` bytes, `arena`
 * is that bound: what is no use is not placed. From call to call `enough` does not grow, but for 0, which asks for the arena always. The
 * trial lives as long as `trials`; `choices` must, too. */
base_status band_try(pass_context *context, band_trials *trials, const band_choices *choices, bool kernels,
                     size_t kernel_arena, size_t enough, band_search *search, const band_trial **trial);

#endif
