/* SPDX-License-Identifier: Apache-2.0 */
/* filter_tiles.h: products of arranged filters (integer_filters.h) and quadruples of an image in tiles, for machines with AMX.
 *
 * A tile of an image is sixteen quadruples of a panel, which lie where they are read otherwise, too: those of one window element and of successive fours
 * of channels, or successive ones. Filters, which lie side by side, become rows of sixteen quadruples when they are read: so many columns
 * share that that it is a fraction of the work.
 */
#ifndef OURO_FILTER_TILES_H
#define OURO_FILTER_TILES_H

#include "runtime/kernels/portable/integer_filters.h"

enum {
    RT_FILTER_TILES_QUADS = 16,   /* fours of channels in a tile */
    RT_FILTER_TILES_ROWS = 32,    /* filters of a product at most */
    RT_FILTER_TILES_COLUMNS = 256 /* and columns: their sums are near */
};

/* Up to RT_FILTER_TILES_ROWS filters times some quadruples of panels. */
typedef struct rt_filter_tiles {
    const int8_t
        *filters; /* arranged: strips of RT_FILTERS_STRIP, 4, 2, 1, of the first filter that is wanted */
    int64_t rows, columns; /* whole panels can be read, and sums of them written */
    int64_t quads;         /* of a filter */
    int64_t first, count;  /* quadruples: those that are multiplied now, whole fours of channels */
    int64_t
        step; /* how many quadruples lie from a four of channels to the next one's with the same window element */
    /* Panels as in integer_filters.h: quadruple first + k of panel p begins image + begins[p] + offsets[k]; begins NULL: they are `distance` bytes apart. */
    const uint8_t *image;
    const int64_t *begins, *offsets;
    int64_t distance;
    const int32_t *start; /* what sums of each filter begin with; NULL: with what they are */
    int32_t *sums;
    int64_t pitch;
} rt_filter_tiles;

/* Whether products of so many filters, columns and quadruples are faster in tiles, if the machine has them (rt_byte_tiles_wanted). */
bool rt_filter_tiles_fit(int64_t rows, int64_t columns, int64_t quads, int64_t step);
/* Computes the sums. Only after rt_byte_tiles_wanted. */
void rt_filter_tiles_run(const rt_filter_tiles *of);

#endif
