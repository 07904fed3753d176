/* SPDX-License-Identifier: Apache-2.0 */
/* window_tiles.h: the innermost loops of convolutions of images whose channels lie innermost.
 *
 * What an output position sees under one element of the window (a tap) is a row of channels that lie together: a convolution is
 * a product of such rows, found through pointers, with weights in panels. Nothing is gathered. Padding is a pointer to zeros.
 * Sums are added tap by tap, channel by channel; each product and its addition are rounded once where the machine can.
 */
#ifndef OURO_WINDOW_TILES_H
#define OURO_WINDOW_TILES_H

#include "runtime/kernels/portable/kernels.h"

enum {
    RT_WINDOW_PANEL = 16,   /* filters of a panel; */
    RT_WINDOW_NARROW = 8,   /* of the last one, where that is enough */
    RT_WINDOW_POSITIONS = 8 /* that a tile takes at most */
};

/* Some positions and one panel of filters. */
typedef struct rt_window_tile {
    int64_t positions; /* any number */
    int64_t filters;   /* of the panel: at most its width */
    bool narrow;       /* the panel is RT_WINDOW_NARROW wide */
    int64_t taps, depth;
    /* What position p sees under tap t begins at rows[t * row_step + p] + shift. */
    const float *const *rows;
    int64_t row_step, shift;
    const float *panel; /* [tap][channel][width] */
    float *y; /* of the first position and filter; those of the next position are y_step elements on */
    int64_t y_step;
    bool add;              /* to what is in y; otherwise to: */
    const float *bias;     /* by filter; NULL: zeros */
    const float *residual; /* as y lies, may be y; NULL: zeros */
    float low, high;       /* the sums are limited to these; infinite: they are not */
} rt_window_tile;
void rt_window_tile_run(const rt_window_tile *tile);
/* Floats in a register of the machine; fewer than RT_WINDOW_NARROW: the tiles are not for speed there. */
int rt_window_lanes(void);

/* The same with one filter for each channel, which sees that channel alone: `depth` channels, weights [tap][channel] in `panel`, `filters`
 * elements apart. */
void rt_window_channels_run(const rt_window_tile *tile);

/* Conv on them (convolution_nhwc.c). */
extern const rt_kernel rt_kernel_convolution_nhwc;

#endif
