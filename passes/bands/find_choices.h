/* SPDX-License-Identifier: Apache-2.0 */
/* find_choices.h: which choices of regions take the least arena?
 *
 * The search (search.h) estimates; trials (trials.h) tell. Which choices are tried, in which order, and what is learnt from them,
 * stands here.
 */
#ifndef OURO_BANDS_FIND_CHOICES_H
#define OURO_BANDS_FIND_CHOICES_H

#include "passes/bands/search.h"
#include "passes/base/pass.h"

/* The best choices so far. The caller begins with none, and with the bytes that others must be below. */
typedef struct band_found {
    band_choices best;   /* live as long as context->scratch */
    size_t bytes;        /* of the arena that they come to */
    size_t kernel_arena; /* pass_context.kernel_arena */
} band_found;

/* The least arena, with the kernels that take least. */
base_status band_find_least(pass_context *context, band_search *search, band_found *found);

/* The cheapest choices of an arena of `limit` bytes at most, with the kernels that take least; or the least one. */
base_status band_find_within(pass_context *context, band_search *search, size_t limit, band_found *found);

/* The least arena whose plan, with faster kernels, takes at most `limit` times as long as without bands, predicted. */
base_status band_find_within_time(pass_context *context, band_search *search, double limit,
                                  band_found *found);

#endif
