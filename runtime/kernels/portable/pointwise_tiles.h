/* SPDX-License-Identifier: Apache-2.0 */
/* pointwise_tiles.h: tiles of filters of pointwise.c, in vectors of each width.
 *
 * A tile is 1 to 6 filters at the points of one to three vectors, whose sums stay in registers over the whole depth. Where the processor
 * multiplies bfloat16 in pairs (pair_tiles.h), weights and points may be pairs, in place of floats.
 */
#ifndef OURO_POINTWISE_TILES_H
#define OURO_POINTWISE_TILES_H

#include "ir/operators/op.h"

enum {
    RT_POINTWISE_MOST_ROWS = 6,  /* filters of a tile */
    RT_POINTWISE_LEAST_ROWS = 1, /* and at least */
    RT_POINTWISE_WIDTH = 32,     /* points of a panel, at most: two vectors of the widest machine */
    RT_POINTWISE_LAST =
        64, /* of the last panel of a map, which may have three vectors, and a few points after them */
    RT_POINTWISE_VECTORS = 3,
    RT_POINTWISE_TAIL = 4,       /* points that are not worth a vector */
    RT_POINTWISE_TAIL_TILES = 3, /* tiles of these that are made together */
    RT_POINTWISE_BEST = 32
};

typedef struct rt_pointwise_tile {
    int64_t depth;       /* channels, or pairs of them */
    const void *weights; /* [channel][row] */
    const float *panel;  /* [channel][point of two vectors, or of four where three are computed] */
    int64_t panel_row;   /* floats from one channel to the next */
    const float *bias;   /* by row */
    const float *from;   /* what is added to, of the row length of y; NULL: nothing */
    float *y;
    int64_t row; /* floats from one filter to the next, in y and in from */
    float low, high;
    int64_t points; /* of an edge: fewer than the vectors hold */
} rt_pointwise_tile;

typedef void rt_pointwise_function(const rt_pointwise_tile *tile);

/* By vectors, by rows. */
typedef struct rt_pointwise_tiles {
    int64_t lanes;
    bool pairs;
    bool three; /* there are tiles of three vectors */
    rt_pointwise_function *run[RT_POINTWISE_VECTORS][RT_POINTWISE_MOST_ROWS - RT_POINTWISE_LEAST_ROWS + 1];
    /* The same for the points of an edge in float, and what copies these into a panel, whose rows are `row` floats; NULL: they pass through
     * memory beside. */
    rt_pointwise_function *edge[RT_POINTWISE_VECTORS][RT_POINTWISE_MOST_ROWS - RT_POINTWISE_LEAST_ROWS + 1];
    void (*copy_edge)(const float *x, int64_t points, int64_t depth, int64_t count, int64_t row,
                      float *panel);
    /* The last few points of some tiles, of so many rows each: vectors of several filters at all of these points. The same sums. NULL: there is none. */
    void (*tail)(const rt_pointwise_tile *tiles, const int64_t *rows, int count);
    /* Any number of points, whose channels are read where they lie, `panel_row` apart: of a few channels a panel takes as long as the products.
     * The same sums. NULL: there is none. */
    rt_pointwise_function *stream[RT_POINTWISE_MOST_ROWS - RT_POINTWISE_LEAST_ROWS + 1];
} rt_pointwise_tiles;

/* The best for this machine, of vectors of at most so many floats: RT_POINTWISE_BEST, or, in tests, 16 (without pairs), 8 and 4. */
const rt_pointwise_tiles *rt_pointwise_tiles_for(op_dtype dtype, int most);

#endif
