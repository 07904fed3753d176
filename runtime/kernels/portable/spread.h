/* SPDX-License-Identifier: Apache-2.0 */
/* spread.h: what is broadcast, written out: a stretch of a result's elements, as one of its operands has them. */
#ifndef OURO_SPREAD_H
#define OURO_SPREAD_H

#include "runtime/kernels/portable/kernels.h"

/* Elements [begin, begin + count) of the index space of `loop`, whose operand 0 is dense and whose operand 1, collapsed, lies at
 * `from`: elements of `size` bytes, a power of two up to 16. `to` does not overlap `from`. */
void rt_spread(const rt_loop *loop, size_t size, const void *from, void *to, int64_t begin, int64_t count);

/* How many elements of the result are repeated over and over: stretches of whole periods, from whole periods on, are the same. 0:
 * they are not. */
int64_t rt_spread_period(const rt_loop *loop);

/* `count` elements of `size` bytes, each `times` times. `to` does not overlap `from`. */
void rt_stretch(void *to, const void *from, int64_t count, int64_t times, size_t size);

#endif
