/* SPDX-License-Identifier: Apache-2.0 */
/* estimate.h: what a node takes of time and of scratch, and how much slower it is some rows at a time. */
#ifndef OURO_BANDS_ESTIMATE_H
#define OURO_BANDS_ESTIMATE_H

#include "ir/ir.h"
#include "runtime/kernels/table.h"

/* What one core does in a second: the table of costs is in estimate.c. */
typedef struct band_rates band_rates;
/* Of this machine, or (portable plans, which do not depend on it) of one with AVX2. */
const band_rates *band_rates_of(const rt_environment *environment);
/* A map of more bytes comes from memory; HUGE_VAL where that was not measured. */
double band_far_bytes(const band_rates *rates);
/* What it takes to read or write so many bytes of maps, element by element. */
double band_move_seconds(const band_rates *rates, double bytes);
/* What copies of so many bytes within the caches, read and written, take, where windows are copied whole while `touched` bytes are in use; and
 * what a step of a band takes to begin. */
double band_copy_seconds(const band_rates *rates, double bytes, double touched);
double band_step_seconds(const band_rates *rates);
/* What copies of so many spans of few bytes each take more than others. */
double band_span_seconds(const band_rates *rates, double spans);
/* The part of its time that a step, or a kernel, takes to begin in a network of so many bytes, weights and maps: its code and what it looks up
 * come from a nearer cache where the network is small. */
double band_begin_part(const band_rates *rates, double bytes);
/* One transfer of so many bytes to a file, or from it. */
double band_file_seconds(double bytes);

typedef struct band_estimate {
    double seconds; /* of the whole */
    double
        again; /* seconds that each band takes more: to begin, and to read weights and rows that others have read */
    double call; /* the part of both that a kernel takes to begin, where caches hold more than the network */
    double far;  /* seconds that are saved when what it makes is read while it is in a near cache */
    double innermost; /* seconds that the whole takes more where channels lie innermost */
    double scratch;   /* bytes, for the whole */
    double products;  /* seconds of the products alone, of a convolution; 0 */
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
