/* SPDX-License-Identifier: Apache-2.0 */
/* half_steps.h: how convolutions of 16 bits widen what windows see, and multiply it: a line of pixels, a tile of outputs.
 *
 * A tile is some pixels of a row and one or two vectors of filters, whose sums stay in registers over the whole depth: weights become
 * floats as they are read, and serve all pixels of the tile; an element of the image, from scratch, is in all lanes. The bias, the residual and
 * the activation are applied to the sums, which are then rounded once. Sums are made in the order of the weights, each product and its sum
 * rounded once where the machine can: they do not depend on the tiles. bfloat16 is multiplied in pairs of channels where the processor does
 * that (pair_tiles.h), from scratch in 16 bits.
 *
 * Weights of a panel of 16 filters: [block of 16 channels][element of the window][channel of the block][filter], in bfloat16 two channels
 * side by side: [pair of channels][filter][2]. Of channels by themselves: [element of the window][channel].
 */
#ifndef OURO_HALF_STEPS_H
#define OURO_HALF_STEPS_H

#include "runtime/kernels/portable/activation.h"
#include "runtime/kernels/portable/kernels.h"

enum {
    RT_HALF_LANES = 16, /* channels of a block, and filters of a panel */
    RT_HALF_FEW =
        4, /* channels of a pixel in the scratch where an image has no more, and is read row-major */
    RT_HALF_PIXELS =
        14 /* of a tile, at most: with two vectors of weights and an element of the image that is all registers */
};

/* Some outputs of a row. Strides are in elements. */
typedef struct rt_half_tile {
    const void *x; /* in the scratch: what the window of the first pixel sees first */
    int64_t channels, block_step;
    const int32_t *taps; /* where the elements of a window lie */
    int64_t first_tap, end_tap, all_taps;
    const uint16_t *weights;
    int64_t weights_vector; /* from one vector to the next */
    const float *bias;      /* of the vectors */
    const uint16_t *residual;
    uint16_t *y;
    int64_t y_pixel, y_vector;
    int64_t lanes[2],
        stored
            [2]; /* of each vector: those that there are; those that are written, the others of these as zeros */
    const rt_activation *activation; /* NULL: it is done with these: */
    float low, high;
    bool beside; /* sums pass through memory: not all lanes are there, or there is an activation */
} rt_half_tile;

/* Pixels of a row, for a block of channels. */
typedef struct rt_half_line {
    const uint16_t *from;
    int64_t pixel;    /* elements from one to the next */
    int64_t channels; /* of the block */
    int64_t count, before, inside;
    int64_t stride, phase_width;
} rt_half_line;

typedef struct rt_half_steps {
    int64_t lanes, most;
    size_t element; /* bytes in the scratch */
    void (*enter)(const rt_half_line *line, void *scratch);
    void (*run[2][2][RT_HALF_PIXELS])(
        const rt_half_tile *tile); /* by whether pixels have few channels, by vectors, by pixels */
    void (*channels[RT_HALF_PIXELS])(const rt_half_tile *tile); /* each by itself, a block of them */
} rt_half_steps;

enum { RT_HALF_BEST = 32 };
/* The best for this machine, of vectors of at most so many floats: RT_HALF_BEST, or, in tests, 16, 8 and 4. */
const rt_half_steps *rt_half_steps_for(op_dtype dtype, bool by_channel, int most);
/* Whether this machine has vectors that make them faster than products of panels. */
bool rt_half_steps_are_fast(void);

#endif
