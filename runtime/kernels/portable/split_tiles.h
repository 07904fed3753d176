/* SPDX-License-Identifier: Apache-2.0 */
/* split_tiles.h: products of floats in tiles of bfloat16, as AMX has them. The 24 bits of a float are three parts, all bfloat16:
 *
 *     a = a1 + a2 + a3
 *     a b = a1 b1 + a1 b2 + a2 b1 + a1 b3 + a2 b2 + a3 b1      the rest is below the last bit of a float
 *
 * Products of parts are exact, and sums are floats: they are off by as much as other sums of floats. These are six products for one, each of which
 * goes sixteen times as fast as with AVX-512. Numbers that are not finite, or greater than 3.39e38, may give NaN; products below 1e-38 count as 0.
 *
 * The source of the form: Henry, Tang and Heinecke, "Leveraging the bfloat16 Artificial Intelligence Datatype for Higher-Precision
 * Computations", ARITH 2019.
 *
 * For split_convolution.c.
 */
#ifndef OURO_SPLIT_TILES_H
#define OURO_SPLIT_TILES_H

#include <stdbool.h>
#include <stdint.h>

enum {
    RT_SPLIT_PARTS = 3,
    RT_SPLIT_PRODUCTS = 6,  /* of parts, for one of floats */
    RT_SPLIT_DEPTH = 32,    /* numbers of a row that are multiplied in one step */
    RT_SPLIT_ROWS = 16,     /* of a tile, at most */
    RT_SPLIT_COLUMNS = 16,  /* of a tile */
    RT_SPLIT_PAIR = 2 * 16, /* rows, and columns, that are multiplied together, at most */
    /* Bytes of a row's numbers of one step: 64 of each part. */
    RT_SPLIT_BYTES = RT_SPLIT_PARTS * 64,
    /* Of the parts of a tile's columns in one step. */
    RT_SPLIT_TILE_BYTES = RT_SPLIT_PARTS * 1024,
    RT_SPLIT_TILE_FLOATS = RT_SPLIT_DEPTH * RT_SPLIT_COLUMNS
};

/* Whether this machine has such tiles; asks the system for leave to use them. Any thread. */
bool rt_split_wanted(void);

/* Some rows of 32 numbers each, one after another: the first 16 from `low` on, the others from `high` on, of which so many are there; the rest
 * is zeros. */
typedef struct rt_split_row {
    const float *low, *high; /* of the first row */
    int64_t step;            /* numbers from there to the next row */
    int64_t low_count, high_count;
    int64_t count; /* of rows */
    char *to;      /* RT_SPLIT_BYTES a row, aligned to 64 */
} rt_split_row;
void rt_split_rows(const rt_split_row *rows);

/* Columns of some steps, which are split some at a time, while others are multiplied. RT_SPLIT_TILE_FLOATS numbers a tile, `tiles` of them a step (one or
 * two). A tile is [i][2][column] for i below 16: numbers i and 16 + i of 16 columns. */
typedef struct rt_split_source {
    const float *from;
    char *to;      /* RT_SPLIT_TILE_BYTES a tile, aligned to 64 */
    int64_t tiles; /* of a step */
    int64_t rows;  /* [2][column] that are not split yet: RT_SPLIT_ROWS of a tile; 0: nothing is left */
    int64_t here;  /* of them, those of the same step */
    int64_t each;  /* so many at a time, RT_SPLIT_PRODUCTS times a step that is multiplied */
} rt_split_source;

/* All `steps` steps of `tiles` tiles, of which nothing is split yet. */
rt_split_source rt_split_source_of(const float *from, int64_t steps, int64_t tiles, char *to);

/* What is left. */
void rt_split_columns(rt_split_source *source);

/* Tiles of the calling thread for `rows` rows, 16 at most; and no more tiles, so that the system need not save them. */
void rt_split_begin(int64_t rows);
void rt_split_end(void);

/* C = A B, or C + A B: of one or two tiles of rows, by one or two of columns. */
typedef struct rt_split_tiles {
    const char *a;        /* rows, as split, one after the other */
    const int64_t *steps; /* bytes from there to where each step's are */
    int64_t count;        /* of steps */
    int64_t rows;         /* of a tile, as in rt_split_begin */
    bool tall, wide;      /* two tiles of rows, of columns */
    const char *b;        /* columns, as split */
    float *c;             /* rows of RT_SPLIT_PAIR numbers */
    bool add;
    rt_split_source *source; /* what is split meanwhile, to be multiplied next */
} rt_split_tiles;
void rt_split_multiply(const rt_split_tiles *tiles);

#endif
