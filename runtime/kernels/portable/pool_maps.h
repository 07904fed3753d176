/* SPDX-License-Identifier: Apache-2.0 */
/* pool_maps.h: the largest, or the sums or means, of windows over small row-major maps of floats, whose rows are shorter than a vector or little longer. */
#ifndef OURO_POOL_MAPS_H
#define OURO_POOL_MAPS_H

#include "runtime/kernels/portable/kernels.h"

/* Down and across. Windows have no gaps. Where they go on by one, results have as many columns as the map; the largest may go on by two. */
typedef struct rt_pool_map {
    bool maximum;
    int64_t input[2], output[2], kernel[2], stride[2];
    int64_t before[2]; /* padding */
    /* Set by rt_pool_map_prepare: for each vector of a map, and then again from the first one on, and for each window element across, the
     * lanes that see a number in their row. */
    int64_t period;
    uint16_t *masks;
    const float *
        counts; /* by what each result's sum is divided; NULL: by nothing. The caller's, for as many as are read in whole vectors. */
} rt_pool_map;

/* Whether maps, windows and the machine are such that rt_pool_map_run can, and is faster than row after row. */
bool rt_pool_map_fits(const rt_pool_map *map);
/* False where memory runs out. */
bool rt_pool_map_prepare(rt_pool_map *map, base_arena *arena);
/* The floats that counts has for whole vectors. */
int64_t rt_pool_map_counts(const rt_pool_map *map);
/* y: the results of one map x. False, with nothing said of y, where the largest are wanted and a number of x is none. Sums are made down first, then
 * across. */
bool rt_pool_map_run(const rt_pool_map *map, const float *x, float *y);

#endif
