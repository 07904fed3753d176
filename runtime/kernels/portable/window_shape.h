/* SPDX-License-Identifier: Apache-2.0 */
/* window_shape.h: convolutions with windows in fixed point: their extents, and how points, digits and weights lie. For window_bands.c and window_run.c.
 */
#ifndef OURO_WINDOW_SHAPE_H
#define OURO_WINDOW_SHAPE_H

#include "runtime/kernels/base/kernel.h"
#include "runtime/kernels/portable/activation.h"
#include "runtime/kernels/portable/fixed_tiles.h"

enum {
    RT_WINDOW_MOST_STRIDE = 8,
    RT_WINDOW_LINE = 64,                                           /* bytes of a cache */
    RT_WINDOW_STEP_BYTES = RT_FIXED_DIGITS * RT_FIXED_DIGIT_BYTES, /* of weights of 16 filters */
    RT_WINDOW_STEPS = 10 /* that pass over all points at once, at most: their weights take 30 KiB */
};

/* Of images whose channels lie innermost, in OP_LAYOUT_NC16 or OP_LAYOUT_NHWC. Signals are images one point high. */
typedef struct rt_window_shape {
    /* What the kernel reads: */
    op_layout layout;
    int64_t images, groups;
    int64_t channels; /* of a group; all of them, or a multiple of 16 */
    int64_t filters;  /* of all groups; those of one are a multiple of 16, if it is not the only one */
    int64_t input[2], output[2], kernel[2], stride[2], dilation[2], before[2]; /* height, width */
    bool bias, residual;
    rt_activation activation;
    /* What rt_window_complete makes of that: */
    int threads;
    int64_t each, chunks; /* channels that lie together, of one digit; how many times as many a group has */
    int64_t along,
        between; /* pixels of the image from one digit to the next; digits from one point of the result to the next */
    int64_t together;  /* elements of a row of the window that are multiplied in one step, at most */
    int64_t row_steps; /* steps of a row of the window */
    int64_t steps;     /* of all chunks of a group: chunk by chunk, row by row */
    int phases[RT_WINDOW_MOST_STRIDE]; /* remainders of rows that the window sees */
    int64_t phase_count;
    bool lying;        /* one row, which is cut into bands of points */
    int64_t width;     /* points of the result from one row to the next */
    int64_t more_rows; /* that a band sees beside its own */
    bool limits;       /* the activation is done with these: */
    float low, high;
    /* Of the blocks into which it cuts the work: */
    int64_t band_rows, bands; /* of the result, or points of the only row; of all images */
    int64_t plane, a_bytes;   /* bytes of one digit of one chunk of one phase; of all */
    bool apart;               /* threads have bands of their own */
    bool open;                /* nobody has said into how many: rt_window_prepare chooses */
    /* And rt_window_prepare: */
    const int64_t *places; /* by step: bytes from a point to what it multiplies */
} rt_window_shape;

static inline int64_t rt_window_least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int64_t rt_window_up(int64_t value, int64_t by) {
    return (value + by - 1) / by;
}

/* ---- extents ------------------------------------------------------------------------------------------- */

static inline int64_t rt_window_all_channels(const rt_window_shape *s) {
    return s->groups * s->channels;
}

/* The group of tile `column` of filters. */
static inline int64_t rt_window_group_of(const rt_window_shape *s, int64_t column) {
    return column * RT_FIXED_COLUMNS * s->groups / s->filters;
}

/* Tiles of 16 filters. */
static inline int64_t rt_window_columns_of(const rt_window_shape *s) {
    return rt_window_up(s->filters, RT_FIXED_COLUMNS);
}

/* Pixels that `points` points of a row of the result see of a row of the image, each `along` after the one before. */
static inline int64_t rt_window_row_pixels(const rt_window_shape *s, int64_t points) {
    const int64_t window = s->kernel[1] > 1 ? (s->kernel[1] - 1) * s->dilation[1] : 0;
    return (points - 1) * s->between + window + 1;
}

/* Digits of a row, where rows lie after each other. */
static inline int64_t rt_window_row_digits(const rt_window_shape *s) {
    return s->lying ? rt_window_row_pixels(s, s->band_rows) : s->width * s->between;
}

/* Points from the first that a band computes to the last, with those between its rows. */
static inline int64_t rt_window_band_points(const rt_window_shape *s, int64_t rows) {
    return s->lying ? rows : rows * s->width - (s->width - s->output[1]);
}

/* Tiles of so many points; and points of a tile, so that few are too many. */
static inline int64_t rt_window_tiles_of(int64_t points) {
    return rt_window_up(points, RT_FIXED_ROWS);
}

static inline int64_t rt_window_tile_rows(int64_t points) {
    return points > 0 ? rt_window_up(points, rt_window_tiles_of(points)) : 1;
}

/* Parts of the steps, each of which passes over all points, and the first step of one. */
static inline int64_t rt_window_parts_of(const rt_window_shape *s) {
    return rt_window_up(s->steps, RT_WINDOW_STEPS);
}

static inline int64_t rt_window_first_step(const rt_window_shape *s, int64_t part) {
    return s->steps * part / rt_window_parts_of(s);
}

/* Products of digits for one of floats. */
static inline int rt_window_products(const rt_window_shape *s) {
    return rt_fixed_products(RT_FIXED_DIGITS, s->channels * s->kernel[0] * s->kernel[1]);
}

/* The largest numbers of images, one for each thread. */
static inline int64_t rt_window_largest_bytes(const rt_window_shape *s) {
    return rt_window_up(s->images * s->threads * (int64_t)sizeof(float), RT_WINDOW_LINE) * RT_WINDOW_LINE;
}

/* What a thread holds: digits, sums of digits, sums. */
static inline int64_t rt_window_sums_bytes(void) {
    return 2 * RT_FIXED_SUMS * (int64_t)sizeof(int32_t);
}

static inline int64_t rt_window_own_bytes(const rt_window_shape *s) {
    const int64_t points = rt_window_tiles_of(rt_window_band_points(s, s->band_rows)) * RT_FIXED_ROWS;
    return s->a_bytes + rt_window_sums_bytes() + points * RT_FIXED_COLUMNS * (int64_t)sizeof(float);
}

/* Images may have no points, or there may be none, where only a run knows. */
static inline bool rt_window_has_points(const rt_window_shape *s) {
    return s->images > 0 && s->output[0] > 0 && s->output[1] > 0;
}

/* What is cut into bands. */
static inline int64_t rt_window_band_extent(const rt_window_shape *s) {
    return s->output[s->lying ? 1 : 0];
}

static inline int64_t rt_window_phase_index(const rt_window_shape *s, int64_t row) {
    for (int64_t i = 0; i < s->phase_count; i++)
        if (s->phases[i] == row % s->stride[0]) return i;
    return -1;
}

/* Numbers of an image, with those that pad the last channels. */
static inline int64_t rt_window_image_numbers(const rt_window_shape *s) {
    const int64_t channels =
        s->layout == OP_LAYOUT_NHWC
            ? rt_window_all_channels(s)
            : rt_window_up(rt_window_all_channels(s), RT_FIXED_COLUMNS) * RT_FIXED_COLUMNS;
    return s->input[0] * s->input[1] * channels;
}

/* Where an element of the window stands in the weights: bytes from those of a filter, which are 4 after each other. */
static inline int64_t rt_window_weight_at(const rt_window_shape *s, int64_t channel, int64_t row,
                                          int64_t column) {
    enum { QUAD = 4 };
    const int64_t step = (channel / s->each * s->kernel[0] + row) * s->row_steps + column / s->together,
                  k = column % s->together * s->dilation[1] * s->each + channel % s->each;
    return step * RT_WINDOW_STEP_BYTES + k / QUAD * RT_FIXED_DIGITS * RT_WINDOW_LINE + k % QUAD;
}

/* Of 16 filters. */
static inline int64_t rt_window_tile_bytes(const rt_window_shape *s) {
    return s->steps * RT_WINDOW_STEP_BYTES;
}

#endif
