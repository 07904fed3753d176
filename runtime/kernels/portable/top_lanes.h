/* SPDX-License-Identifier: Apache-2.0 */
/* top_lanes.h: the few largest or smallest elements of several lines at once, for TopK: each lane of a vector has a line of its own. */
#ifndef OURO_TOP_LANES_H
#define OURO_TOP_LANES_H

#include "ir/operators/op.h"
#include <stdbool.h>
#include <stdint.h>

enum { RT_TOP_LANES = 16, RT_TOP_LEVELS = 16 };

/* Lines of `extent` elements of `dtype`. `across`: element e of line l is at e * step + l; otherwise it is at l * step + e. */
typedef struct rt_top_lines {
    op_dtype dtype;
    bool across, largest;
    int64_t step, extent;
    int64_t k; /* up to RT_TOP_LEVELS and `extent` */
} rt_top_lines;

/* Whether there are keys for elements of this type, and indices up to `extent`. */
bool rt_top_lanes_can(op_dtype dtype, int64_t extent);

/* Whether this machine has vectors of 64 bytes for it. */
bool rt_top_lanes_wide(void);

/* Of `count` lines, up to RT_TOP_LANES, from the one at `from` on: places[e * RT_TOP_LANES + l] is the index of the e-th element of line l, in the
 * order of TopK (of equal ones the first, NaN larger than every number). It is -1 where a line has the least key of its type among
 * those: such a line is left to the caller. */
void rt_top_lanes(const rt_top_lines *lines, const void *from, int64_t count, int64_t *places);

#endif
