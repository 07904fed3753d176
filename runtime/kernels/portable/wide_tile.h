/* SPDX-License-Identifier: Apache-2.0 */
/* wide_tile.h: what wide_tiles.c tells its innermost loops, those in vectors of 16 floats and those of wide_tiles_avx2.c in vectors of 8. */
#ifndef OURO_WIDE_TILE_H
#define OURO_WIDE_TILE_H

#include "runtime/kernels/portable/product.h"

enum {
    RT_WIDE_STEPS = 2, /* of the depth that share additions of addresses */
    RT_WIDE_WIDTHS = 4 /* of tiles: 1, 2, 4 and 8 panels */
};

/* Some rows and some panels. */
typedef struct rt_wide_tile {
    int64_t row, depth, a_row, panel_step, c_row;
    int64_t ahead;   /* bytes from a panel to what is asked for while it is read; 0: nothing is */
    int64_t stretch; /* of every so many pairs of steps, one pair's bytes are asked for there */
    const float *a;
    const char *panels;
    float *c;
    const float *bias; /* NULL: none */
    float low, high;
    uint16_t last; /* the columns of the last panel that there are; all of them, where tiles do not cut it */
    bool add;
    uintptr_t later;           /* what is written soon; 0: nothing */
    int64_t later_row;         /* bytes from one row of it to the next */
    const rt_tiles_then *then; /* NULL: nothing; with what it has here: */
    const float *then_a;
    float *then_c;
    int64_t then_panels; /* bytes from the panels of the first product to those of the second */
    const float *more;
} rt_wide_tile;

typedef void rt_wide_function(const rt_wide_tile *t);

/* The loops of one type of panels. */
typedef struct rt_wide_functions {
    int64_t rows; /* of the largest tile */
    bool cuts;    /* a tile may end with a part of a panel */
    /* Of each number of rows, those of each width; NULL: there is none. */
    rt_wide_function *const (*of)[RT_WIDE_WIDTHS];
    rt_wide_function *const (*both)[RT_WIDE_WIDTHS]; /* the same for rt_tiles.then; NULL: none */
} rt_wide_functions;

/* In vectors of 8 floats, for machines with AVX2, FMA and F16C, whatever `stored` says of panels. (wide_tiles_avx2.c) */
rt_wide_functions rt_wide_functions_avx2(op_dtype stored);
/* What rt_wide_tiles_run does (wide_tiles.c), with these loops, which are of the type of these panels. */
void rt_wide_tiles_run_with(const rt_wide_functions *functions, const rt_tiles *tiles);

/* For so many panels, what is reached from here: after the last panel there may be nothing, and C knows no addresses there. */
static inline __attribute__((always_inline)) void rt_wide_ask(uintptr_t from, int panels, int64_t step,
                                                              int64_t bytes) {
    _Pragma("GCC unroll 8") for (int v = 0; v < panels; v++) {
        for (int64_t at = 0; at < bytes; at += RT_ALIGNMENT)
            __builtin_prefetch((const void *)(from + (uintptr_t)(v * step + at)), 0, 2);
    }
}

#endif
