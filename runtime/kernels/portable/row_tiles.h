/* SPDX-License-Identifier: Apache-2.0 */
/* row_tiles.h: sums of 8 filters at 48 points that follow one another, which stay in registers; lanes are points, with AVX-512. What belongs
 * to an element of the sums (of a window, or a channel) is read for 16 points at a time, and multiplied with the weights of the 8 filters.
 */
#ifndef OURO_ROW_TILES_H
#define OURO_ROW_TILES_H

#include <stdbool.h>
#include <stdint.h>

enum {
    RT_ROW_TILE_FILTERS = 8,
    RT_ROW_TILE_POINTS = 48,
    RT_ROW_TILE_WEIGHTS =
        16 /* floats from the weights of an element to those of the next: panels of direct_weights.c hold 16 filters */
};

/* Some filters at points that follow one another. */
typedef struct rt_row_strip {
    const float *
        x; /* what the first point sees with an element whose place is 0; the next point sees the next float */
    const int64_t *places; /* of the elements */
    int64_t elements;
    const float *weights; /* of the first element for the first filter */
    const float *bias;    /* of the filters; NULL: zeros */
    float *y;             /* the first filter's first point */
    int64_t y_row;        /* floats from a filter to the next */
    int64_t filters;      /* that there are, up to 8; weights are read for 8 */
    int64_t points;
    bool limited; /* results are limited to [low, high], or HardSwish is applied to them */
    bool gated;   /* this */
    float low, high;
} rt_row_strip;

/* Sums begin with the bias and are made in the order of the elements, each product and its sum rounded once. For machines with AVX-512. */
void rt_row_strip_make(const rt_row_strip *strip);

#endif
