/* SPDX-License-Identifier: Apache-2.0 */
/* pair_windows.h: what the windows of a convolution of 16-bit numbers see, as panels of pairs (pair_tiles.h).
 *
 * The matrix has a line for each window element of each channel and a column for each position of the output. Where a position's window
 * lies follows from the position alone: that is found out once for a block of positions, then each line is a load or a few.
 */
#ifndef OURO_PAIR_WINDOWS_H
#define OURO_PAIR_WINDOWS_H

#include "runtime/kernels/portable/kernels.h"

enum {
    RT_WINDOW_POSITIONS = 32, /* of a block: two panels */
    RT_WINDOW_PIECES = 512
};

/* Three spatial dimensions. `inside` has, by window element, the outputs for which it lies inside of the input. */
typedef struct rt_windows {
    const int64_t *input, *output, *kernel, *stride, *dilation, *before;
    const rt_part *const *inside;
} rt_windows;

/* A row of the output that a block has a part of, as one window element sees it. */
typedef struct rt_window_piece {
    uint32_t lanes; /* positions of the block that see the input there */
    int64_t from;   /* of a channel: what lane 0 would see */
} rt_window_piece;

typedef struct rt_pair_windows {
    int64_t channel_size, taps, rows, stride, count;
    rt_window_piece pieces[RT_WINDOW_PIECES]; /* [tap][row] */
} rt_pair_windows;

/* The block of `count` positions from `position` on. False: this machine cannot do it, or there may be too many pieces, or strides along a
 * row above 2: for all blocks of a convolution alike. */
bool rt_pair_windows_begin(const rt_windows *windows, int64_t position, int64_t count,
                           rt_pair_windows *block);

/* Two panels of the lines [from, from + depth) of the channels at x, rt_pairs_of(depth) pairs each, one after the other. */
void rt_pair_windows_panels(const rt_pair_windows *block, const uint16_t *x, int64_t from, int64_t depth,
                            uint16_t *panels);

#endif
