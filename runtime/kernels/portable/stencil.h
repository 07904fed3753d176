/* SPDX-License-Identifier: Apache-2.0 */
/* stencil.h: one channel of an image seen through one window, in float: what a convolution of each channel by itself is made of. */
#ifndef OURO_STENCIL_H
#define OURO_STENCIL_H

#include "runtime/kernels/portable/kernels.h"

/* Extents by dimension, height and width. */
typedef struct rt_stencil {
    int64_t input[2], output[2], kernel[2], stride[2], dilation[2], before[2];
    /* Set by rt_stencil_prepare. */
    int64_t grid[2];  /* of one image of equal remainders; there are stride[0] * stride[1] of them */
    int64_t rows;     /* of outputs at a time */
    int64_t *offsets; /* of the window elements in the copy */
    size_t copy_bytes, bytes;
    bool by_rows;          /* without a copy: this machine and these windows allow it */
    const uint16_t *masks; /* of those, by vectors of an output row */
    int64_t together;      /* of those, channels one after another */
} rt_stencil;

/* Completes a description whose extents are set; offsets from `arena`. False where the numbers are too large or memory runs out. */
bool rt_stencil_prepare(rt_stencil *stencil, base_arena *arena);

/* What is done with finished sums: the bias is added, and they are limited. */
typedef struct rt_stencil_end {
    float bias, low, high;
} rt_stencil_end;

/* Before the first run on `scratch`, which has stencil->bytes bytes. */
void rt_stencil_begin(const rt_stencil *stencil, void *scratch);

/* y[output] becomes the window's sums over x[input], with `end` applied; or these are added to it (`add`). weights[kernel].
 * Sums of a window are made in the order of its elements, those over padding too. */
void rt_stencil_run(const rt_stencil *stencil, const float *x, const float *weights, float *y, bool add,
                    const rt_stencil_end *end, void *scratch);

/* Rows of an image that lie one after another, in each channel `step` floats after where they lie in the one before. */
typedef struct rt_stencil_piece {
    const float *x;
    int64_t rows, step;
} rt_stencil_piece;

/* Channels one after another: each of them as rt_stencil_run makes one. */
typedef struct rt_stencil_channels {
    int64_t count;
    rt_stencil_piece pieces[2];  /* the rows of the input: first those of one, then those of the other */
    const float *weights, *bias; /* bias: one number a channel; NULL: 0 */
    float *y;
    float low, high;
    bool add;
    /* Where `shuffle` is more than 1, the channels are those of so many groups of `each`, one of each group after the other: the first of these is of
     * group `place`, and is where the pieces begin. */
    int64_t shuffle, each, place;
} rt_stencil_channels;

/* Where a channel lies, in channels after the first one, and its group; and where the one after it does. The first of all is {0, channels->place}. */
typedef struct rt_stencil_place {
    int64_t channel, group;
} rt_stencil_place;

static inline rt_stencil_place rt_stencil_place_after(rt_stencil_place at,
                                                      const rt_stencil_channels *channels) {
    if (++at.group < channels->shuffle) return (rt_stencil_place){at.channel + channels->each, at.group};
    return (rt_stencil_place){at.channel + 1 - (at.group - 1) * channels->each, 0};
}

/* The same straight from the image (stencil_rows.c), whether that can be done, and what it needs (false when memory runs out). `rt_stencil_prepare` and
 * `rt_stencil_run` ask for it. */
bool rt_stencil_by_rows(const rt_stencil *stencil);
/* The same, if the machine had AVX-512. */
bool rt_stencil_fits_rows(const rt_stencil *stencil);
bool rt_stencil_prepare_rows(rt_stencil *stencil, base_arena *arena);
void rt_stencil_run_rows(const rt_stencil *stencil, const rt_stencil_channels *channels);

/* The same for windows that rt_stencil_fits_rows is false of, at a stride of 1 (stencil_any.c): whether they are such. The functions above ask for it. */
bool rt_stencil_fits_any(const rt_stencil *stencil);
bool rt_stencil_prepare_any(rt_stencil *stencil, base_arena *arena);
void rt_stencil_run_any(const rt_stencil *stencil, const rt_stencil_channels *channels);

#endif
