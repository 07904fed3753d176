/* SPDX-License-Identifier: Apache-2.0 */
/* resize_rows.h: rows of an image along the last axis, for resize.c: nearest elements, and sums of neighbours. */
#ifndef OURO_RESIZE_ROWS_H
#define OURO_RESIZE_ROWS_H

#include "runtime/kernels/portable/kernels.h"

/* The last axis, by tap and position. Of what lies outside of a cropped image, some place of the row. */
typedef struct rt_across {
    const int32_t *indices;
    const float *weights;
    int64_t extent; /* of the input */
    int32_t group;  /* places do not fall along a row, but for elements of one group */
    bool twice;     /* each element of the input in its order, and twice: of nearest elements */
    bool falls;     /* places do fall: in images that are turned round */
} rt_across;

/* A row of the output of `width` nearest elements of so many bytes, written `rows` times. */
void rt_nearest_rows(size_t element, const void *from, const rt_across *by, int64_t width, void *to,
                     int64_t rows);

/* to[x] += weight * (one row of the input, blended from `taps` neighbours). */
void rt_blend_row(const float *from, rt_across a, int taps, int64_t width, float weight, float *to);

/* One row of the input, blended from two neighbours. */
void rt_blend_line(const float *from, rt_across a, int64_t width, float *line);

/* to[x] = of_a * a[x] + of_b * b[x]; `b` may be NULL. */
void rt_add_lines(const float *a, const float *b, int64_t width, float of_a, float of_b, float *to);

/* line[x] += weight * from[x]. */
void rt_add_row(const float *from, int64_t width, float weight, float *line);

#endif
