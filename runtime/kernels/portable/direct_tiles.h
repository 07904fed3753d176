/* SPDX-License-Identifier: Apache-2.0 */
/* direct_tiles.h: the innermost loops of direct_convolution.c: sums of some panels of 16 filters at some points, which stay in
 * registers over all channels and all elements of the window.
 */
#ifndef OURO_DIRECT_TILES_H
#define OURO_DIRECT_TILES_H

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    RT_DIRECT_LANES = 16,  /* filters of a panel */
    RT_DIRECT_POINTS = 14, /* of a tile, at most */
    RT_DIRECT_PANELS = 2,  /* the same */
    RT_DIRECT_FEW_POINTS = 6,
    RT_DIRECT_MORE_PANELS = 4,  /* with so few points at most */
    RT_DIRECT_MORE_POINTS = 24, /* of a single panel, equally spaced */
    RT_DIRECT_DEPTH = 64,       /* channels that lie innermost and are read one after another, at most */
    RT_DIRECT_SPOT_PLACES = 16, /* of a tile's points, in vectors of eight */
    RT_DIRECT_TAPS = 128,       /* elements of a window, at most */
    RT_DIRECT_LONG = 8192,      /* the same, of a window one row high on row-major maps */
    RT_DIRECT_MAPS_READ = 4     /* row-major maps that are read, at most */
};

/* How the points of a tile lie, and what they see. */
typedef enum rt_direct_kind {
    RT_DIRECT_BLOCKS, /* 16 floats apart, channels side by side */
    RT_DIRECT_PAIRS, /* two floats apart, in maps: each channel of each element of the window has its place */
    RT_DIRECT_MAPS,  /* the same, equally far apart */
    RT_DIRECT_ROWS,  /* equally far apart, channels side by side */
    RT_DIRECT_SPOTS  /* anywhere, channels side by side */
} rt_direct_kind;

/* What all tiles of an application have in common. */
typedef struct rt_direct_shape {
    /* Channels are read in parts of `depth`, the last of which has `last`. */
    int64_t parts, depth, last;
    int64_t taps; /* elements of the window; of maps, of all channels' */
    int64_t
        panel_floats; /* of the weights of 16 filters: [part][element of the window][channel of the part][filter] */
    int64_t y_panel; /* floats of the result from 16 filters to the next */
    float low, high; /* results are limited to; or */
    bool gated;      /* HardSwish is applied to them */
} rt_direct_shape;

/* Elements of a window that follow one another: [first, end). */
typedef struct rt_direct_run {
    int64_t first, end;
} rt_direct_run;

/* Some panels that follow one another at points that lie equally far apart and see the image with the same elements of the window. */
typedef struct rt_direct_row {
    const rt_direct_shape *shape;
    const float *x;    /* where the first point sees, or would see, the first channel of the first element */
    int64_t apart;     /* floats from one point to the next */
    int64_t times;     /* so many tiles follow one another, in the image and in the result */
    int64_t part_step; /* floats from one part of the channels to the next */
    const int64_t *places;     /* of what a point sees: floats from there, by element of the window */
    const rt_direct_run *runs; /* the elements that the points see */
    int64_t run_count;
    const float *panels;   /* weights */
    const float *next;     /* weights that are read after these */
    int64_t next_lines;    /* of 16 of them, that are asked for meanwhile */
    const float *bias;     /* of the first filter; NULL: zeros */
    const float *residual; /* of the first filter at the first point, lies as y does; NULL: none */
    float *y;              /* the same */
    int64_t y_point;       /* floats from one point to the next */
    int64_t filters;       /* that there are, of the panels' */
    bool padded;           /* the lanes after them are written, as zeros */
} rt_direct_row;

/* The same at points of which each has its place, and which may see beside the image: one tile. Of the row, shape, part_step, places, panels and what
 * follows them count, and weights are finite. */
typedef struct rt_direct_spots {
    /* Of each point: where it sees, or would see, the first channel of the first element. */
    alignas(64) const float *points[RT_DIRECT_SPOT_PLACES];
    /* By element of the window, a bit for each point that sees the image there. What others see counts as zeros, and what nobody sees is left
     * out. */
    uint32_t visible[RT_DIRECT_TAPS];
} rt_direct_spots;

typedef void rt_direct_function(const rt_direct_row *row, const rt_direct_spots *spots);

/* For tiles of so many points and panels; more panels than two, or points than RT_DIRECT_POINTS, as is said above. Machines without AVX-512 have
 * none: NULL. Products and their sums are rounded once; what is added in which order does not depend on the tile. */
rt_direct_function *rt_direct_function_for(rt_direct_kind kind, int64_t points, int64_t panels);

#endif
