/* SPDX-License-Identifier: Apache-2.0 */
/* integer_image.h: how an integer convolution sees its image: lines of bytes, or quadruples of four channels, at successive positions.
 *
 * No line of the matrix is gathered where its numbers lie side by side already. To that end the image is copied
 * once, with its padding, and with strides apart: elements of equal remainder in each dimension, divided by its stride, make
 * an image of their own. Then what one window element sees at successive positions is a run of bytes, where positions are
 * counted through the whole rows of such an image, and results between the rows are left out. An image without padding
 * and strides is read where it is. Where the copy would be out of proportion (large windows on small images) lines are
 * gathered one by one. Padding counts as the zero point, that is, as nothing.
 *
 * Where filters are arranged by channels, four channels are copied side by side: their quadruples are multiplied where they lie, through all
 * window elements, or are copied once more, as a whole, where rows are short.
 */
#ifndef OURO_INTEGER_IMAGE_H
#define OURO_INTEGER_IMAGE_H

#include "ir/operators/window.h"
#include "runtime/kernels/portable/integer_filters.h"

enum { RT_IMAGE_SLACK = 64 /* bytes after the copy that are read, and of no matter */ };

typedef enum rt_image_form { IMAGE_AS_IT_IS, IMAGE_COPIED, IMAGE_GATHERED, IMAGE_STENCIL } rt_image_form;

typedef struct rt_integer_image {
    op_window window;
    op_dtype dtype;
    int64_t group, channels, filters; /* channels and filters of one group */
    int64_t input_size, output_size, kernel_size;
    bool by_channels; /* filters are arranged so: see integer_filters.h */
    /* The rest is set by rt_image_choose_form and rt_image_tabulate. */
    rt_image_form form;
    /* Rows of the image are put side by side where they are read, without what lies between: positions are results. */
    bool joined;
    bool quads; /* the copy has channels four by four */
    /* The image in which positions are counted: its extents, the number of its positions up to the last that counts, and of
     * bytes of a channel, which has several such images where there are strides: parts[i] remainders in dimension i. Where
     * each window element begins in a channel. */
    int64_t grid[OP_WINDOW_RANK], parts[OP_WINDOW_RANK], positions, channel_bytes;
    const int64_t *taps;
    /* What is copied as one, a channel or four of them: how many of a group, and bytes of one. */
    int64_t planes, plane_bytes;
    const int64_t *offsets; /* where each quadruple of a filter begins in the copy of a group */
    /* Where lines are gathered. For each window element: what position 0 sees of each dimension, and the positions [first,
     * end) of the last one that see the input. */
    const int64_t *shifts, *firsts, *ends;
} rt_integer_image;

/* How the image is read, and the grid of its positions. All above is set, and how much there is. */
void rt_image_choose_form(rt_integer_image *image);
/* Tables of that. False when memory runs out. */
bool rt_image_tabulate(rt_integer_image *image, base_arena *arena);

/* Copies planes [first, end), of all groups, of the image at `x`. */
void rt_image_copy(const rt_integer_image *image, const uint8_t *x, uint8_t zero, int64_t first, int64_t end,
                   uint8_t *to);

/* Successive positions of a block that are successive results. */
typedef struct rt_image_run {
    int32_t from, count;
    int64_t to; /* within the result of a filter; of joined rows: where it begins in the image */
} rt_image_run;

/* Columns of a panel that lie side by side in a copy of quadruples. */
typedef struct rt_image_piece {
    int64_t at;       /* bytes from the copy's beginning to where the panel's first column would be */
    uint16_t columns; /* a bit each */
    int16_t panel;
} rt_image_piece;

/* Those of a block: the same for all groups and filters. */
typedef struct rt_image_runs {
    int64_t position; /* -1: of none yet */
    int64_t count;
    union {
        rt_image_run list[RT_INTEGER_COLUMNS];
        rt_image_piece pieces[RT_INTEGER_COLUMNS]; /* of quadruples whose rows are joined */
    };
    int64_t panels[RT_INTEGER_COLUMNS / RT_INTEGER_PANEL]; /* where each begins in a copy of quadruples */
} rt_image_runs;

/* Of `count` positions from `position` on, unless they are known. */
void rt_image_find_runs(const rt_integer_image *image, int64_t position, int64_t count, rt_image_runs *runs);
/* Panels are read where they lie. */
bool rt_image_is_direct(const rt_integer_image *image);

/* A block of columns of one group. */
typedef struct rt_image_lines {
    const rt_integer_image *image;
    const uint8_t *x;   /* the group's first channel: of the image, or of its copy */
    const uint8_t *end; /* of what may be read */
    uint8_t zero;
    int64_t position, count;    /* of columns */
    int64_t at[OP_WINDOW_RANK]; /* the first output position, where lines are gathered */
    const rt_image_runs *runs;
} rt_image_lines;

void rt_image_begin_lines(rt_image_lines *lines);
/* Where lines k, k + 1, ... of the depth lie: see rt_integer_block. Those that fill quadruples up: NULL. */
void rt_image_find_lines(const void *lines, int64_t k, int64_t count, const uint8_t **to, uint8_t *spare);
/* Quadruples for rt_filters_block. */
void rt_image_fill(const void *lines, int64_t first, int64_t count, uint8_t *panels);

#endif
