/* SPDX-License-Identifier: Apache-2.0 */
/* transposed_product.h: what transposed_product.c, which knows operators, and transposed_rows.c, which makes the outputs of few filters, share.
 */
#ifndef OURO_TRANSPOSED_PRODUCT_H
#define OURO_TRANSPOSED_PRODUCT_H

#include "runtime/kernels/portable/direct_convolution.h"

enum {
    RT_TRANSPOSED_AXES = 2,
    RT_TRANSPOSED_ELEMENTS = 256, /* of a window, at most; of few filters, those that an output adds */
    RT_TRANSPOSED_STRIDE = 1024,  /* along a row, of few filters, at most */
    RT_TRANSPOSED_PIECE =
        2048 /* outputs of a row that a thread makes at a time; the last piece may be almost twice as long */
};

typedef struct rt_transposed {
    op_layout from;
    bool few, bias;
    int64_t images, channels, filters;
    int64_t blocks; /* of 16 filters; few: 0 */
    int64_t input[RT_TRANSPOSED_AXES], output[RT_TRANSPOSED_AXES], kernel[RT_TRANSPOSED_AXES],
        stride[RT_TRANSPOSED_AXES], dilation[RT_TRANSPOSED_AXES], before[RT_TRANSPOSED_AXES];
    rt_direct points;
    size_t packed_bytes;
    /* Once extents are known: */
    int axis;     /* along which parts follow one another */
    int64_t part; /* outputs of a part, along it */
    int64_t seen; /* rows of the image, or points, that a part sees at most */
    /* Of few filters: */
    int64_t capacity;      /* floats of a row of products */
    bool copied;           /* the image is copied, a row for each channel */
    const int64_t *places; /* of a point's channels, in the copy or in the image */
} rt_transposed;

/* Products of some rows of an image, or of some points of a signal: [block of 16][row][point][16], or, of few filters, rows of points:
 * [filter][element of the window][row][point]. */
typedef struct rt_transposed_products {
    const rt_transposed *t;
    const float *at, *bias;
    int64_t step;     /* from a block to the next, or from an element to the next */
    float *y;         /* of this image */
    int64_t first;    /* of the image, along t->axis */
    int64_t from, to; /* outputs that are made of them */
    int64_t pieces;   /* that each row of outputs is made in */
    int64_t piece;    /* outputs of each of them but the last: a multiple of the stride */
} rt_transposed_products;

/* An element of the window that outputs add: its number, the row of the image whose product it is, and how far to the right of output number q
 * the point is. */
typedef struct rt_transposed_added {
    int64_t element, line, shift;
} rt_transposed_added;

/* What outputs of row `row` add that are `phase` from a multiple of the stride, in the order of elements: output number q is stride * q +
 * phase, and adds the product of point q + shift where the row has one. How many there are. */
int64_t rt_transposed_find_added(const rt_transposed *t, int64_t row, int64_t phase,
                                 rt_transposed_added added[RT_TRANSPOSED_ELEMENTS]);

/* Of few filters: multiplies `count` points of an image from point `first` on by all weights. `y`: where the products of the first point begin;
 * `copy`: memory for t->channels rows of t->capacity floats, from the same point on. For machines with AVX-512. */
typedef struct rt_transposed_points {
    const rt_transposed *t;
    const float *image, *weights;
    float *y, *copy;
    int64_t first, count;
} rt_transposed_points;
void rt_transposed_multiply(const rt_transposed_points *points, int threads);

/* Outputs [from, to) of row `row` of one of few filters; `from` is a multiple of the stride. */
void rt_transposed_add_row(const rt_transposed_products *products, int64_t filter, int64_t row, int64_t from,
                           int64_t to);

#endif
