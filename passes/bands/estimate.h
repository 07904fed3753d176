/* SPDX-License-Identifier: Apache-2.0 */
/* estimate.h: what a node takes of time and of scratch, and how much slower it is some rows at a time. */
#ifndef OURO_BANDS_ESTIMATE_H
#define OURO_BANDS_ESTIMATE_H

#include "ir/ir.h"
#include "runtime/kernels/table.h"

/* Bytes a second of one core: of what comes from memory, and of rows of a band, which are copied within the caches. Only ratios
 * matter. */
#define BAND_MOVED 10e9
#define BAND_COPIED 30e9

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
