/* SPDX-License-Identifier: Apache-2.0 */
/* direct_rows.h: convolutions of signals of a few channels whose results are row-major, for direct_convolution.c: lanes are points, so that a
 * vector of results lies as the result has it, and nothing is turned round.
 */
#ifndef OURO_DIRECT_ROWS_H
#define OURO_DIRECT_ROWS_H

#include "runtime/kernels/portable/direct_convolution.h"

/* Whether this is for such a convolution, whose extents are known. Weights are to be finite when it runs. */
bool rt_direct_makes_rows(const rt_direct *shape);

/* Bytes of a copy of all signals with zeros at their ends, whose rows hold each one of so many elements as the stride is; 0: none is made,
 * points see the signals where they lie. `length`: elements of such a row. False where that is too large. */
bool rt_direct_rows_copy(const rt_direct *shape, int64_t *length, size_t *bytes);

/* Where in the signals, or in such a copy, a channel of an element of the window is seen by the first point; the next point sees the next
 * float. `places` has shape->tiles.taps places. */
void rt_direct_rows_places(const rt_direct *shape, int64_t *places);

/* Runs the job on up to so many threads. `copy` has the bytes of the copy, `places` are those from above. */
void rt_direct_run_rows(const rt_direct_job *job, const int64_t *places, float *copy, int threads);

#endif
