/* SPDX-License-Identifier: Apache-2.0 */
/* window_digits.h: images in fixed point (fixed_tiles.h), for windows that slide over them: all numbers of an image have one scale, as each point is
 * multiplied by all elements of a window. For window_run.c.
 */
#ifndef OURO_WINDOW_DIGITS_H
#define OURO_WINDOW_DIGITS_H

#include "runtime/kernels/portable/fixed_tiles.h"

/* The largest size of some numbers, of those that are finite. */
float rt_window_largest(const float *from, int64_t count);

/* Of an image: by what numbers become integers, and sums of products are to be multiplied; and the size from where on numbers are not small. */
typedef struct rt_window_scale {
    float up, down, small;
} rt_window_scale;
rt_window_scale rt_window_scale_of(float largest);
/* Of part `part` of coarse points, beside `down`. */
float rt_window_part_scale(int part);

/* So many points of a line, of some channels. Those in [begin, end) are in the image, the others are zeros. */
typedef struct rt_window_line {
    const float *from;    /* the first that is in the image */
    int64_t pixel, plane; /* numbers from one point to the next; from 16 channels to the next 16 */
    int64_t channels;     /* no more than `each` */
    int64_t begin, end, count;
    int64_t each; /* bytes of a digit of a point: 16, 32 or 64 channels */
    rt_window_scale scale;
    int part;      /* of coarse points; in parts from 1 on, all other points are zeros */
    char *to;      /* `each` bytes a point, up to 63 more are written */
    int64_t digit; /* bytes from one digit to the next, the highest first */
} rt_window_line;
/* Says what the digits lack: see fixed_tiles.h. A point is coarse if half of its numbers are no zeros, and small. Infinities and NaNs become zeros. */
int rt_window_split(const rt_window_line *line);

#endif
