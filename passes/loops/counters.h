/* SPDX-License-Identifier: Apache-2.0 */
/* counters.h: integers that are so much more than a counter of a loop, and how large they can become.
 *
 * A counter is the iteration number, or a carried value that begins with a number and grows by one. A loop ends by its trip count,
 * by what it scans, or by a condition "counter < limit".
 */
#ifndef OURO_LOOP_COUNTERS_H
#define OURO_LOOP_COUNTERS_H

#include "ir/ir.h"

/* A number (no counter), or so much more than a counter; narrow: it passes through 32 bits. */
typedef struct loop_position {
    const ir_value *counter;
    int64_t offset;
    bool narrow;
} loop_position;

/* Element `index` of a value, where it is a number that is known. */
bool loop_number_of(const ir_value *value, int64_t index, int64_t *number);
/* The value is a counter of the loop whose body it belongs to; *first is what it begins with. */
bool loop_is_counter(const ir_value *value, int64_t *first);
/* Element `index` of an integer value of rank 0 or 1, as a position. */
bool loop_position_of(const ir_value *value, int64_t index, loop_position *at);
/* The position, which has a counter, is below the extent in every iteration of the counter's loop. */
bool loop_stays_below(const loop_position *at, int64_t extent);

#endif
