/* SPDX-License-Identifier: Apache-2.0 */
/* estimate.h: what a node takes of time and of scratch, and how much slower it is some rows at a time. */
#ifndef OURO_BANDS_ESTIMATE_H
#define OURO_BANDS_ESTIMATE_H

#include "ir/ir.h"
#include "runtime/kernels/table.h"

/* What one core does in a second. Only ratios matter. */
typedef struct band_rates {
    double products; /* multiplications with addition, as in runtime/kernels/portable/cost.c */
    double moved;    /* bytes that come from memory */
    double copied;   /* bytes of rows of a band, which are copied within the caches */
    double step;     /* seconds that a step takes to begin */
    bool wide;       /* vectors of 64 bytes */
} band_rates;
/* Of this machine, or (portable plans, which do not depend on it) of one with AVX2. */
band_rates band_rates_of(const rt_environment *environment);

typedef struct band_estimate {
    double seconds;
    double overhead; /* by what part of its time a band of one row is slower */
    double scratch;  /* bytes, for the whole */
    double products; /* seconds of the products alone, of a convolution; 0 */
} band_estimate;

/* What a faster kernel takes for some rows. */
typedef struct band_fast {
    double seconds, scratch;
} band_fast;

/* Of a node whose outputs take `bytes` of the arena. `by_rows`: it can go by rows; else it has scratch only. `arena` is for what is read on
 * the way. */
band_estimate band_estimate_node(const ir_node *node, bool by_rows, double bytes,
                                 const rt_environment *environment, base_arena *arena);

/* The fastest kernel that wants at most so much scratch for `rows` rows of a convolution, without padding above and below; false where
 * there is none. */
bool band_estimate_fast(const ir_node *node, int64_t rows, bool channels_last, size_t scratch,
                        const rt_environment *environment, base_arena *arena, band_fast *fast);

#endif
