/* SPDX-License-Identifier: Apache-2.0 */
/* convolution.h: what the files of the convolution of row-major images share; see convolution.c. No other kernel reads this. */
#ifndef OURO_CONVOLUTION_H
#define OURO_CONVOLUTION_H

#include "ir/operators/window.h"
#include "runtime/kernels/portable/product.h"
#include "runtime/kernels/portable/stencil.h"

typedef struct convolution {
    op_dtype dtype;
    size_t element;                          /* bytes of what is gathered */
    int64_t batch, group, channels, filters; /* channels and filters of one group */
    int64_t shuffle;                         /* the number of ShuffledConv; 1: channels are in order */
    /* Always three spatial dimensions; the missing ones come first and have extent 1. */
    int64_t input[3], output[3], kernel[3], stride[3], dilation[3], before[3];
    int64_t input_size, output_size, kernel_size;
    bool is_stencil;
    rt_stencil stencil;         /* of few filters in float, or in 16 bits where it takes no scratch */
    rt_part *inside[3];         /* by window element: the outputs for which it lies inside of the input */
    bool bias, residual, fused; /* fused: as rt_tiles says, of doubles */
    bool part; /* a band of more rows: what is made does not depend on how many are made at once */
    rt_activation activation;
    size_t thread_bytes; /* of scratch, for each thread */
} convolution;

typedef struct convolution_job {
    const convolution *shape;
    const void *x, *weights, *bias, *residual; /* residual: NULL where there is none or it lies in y */
    void *y;
    char *scratch; /* thread_bytes after thread_bytes */
    bool add; /* y holds the residual when the job begins */
    int64_t row_parts, column_parts, rows_each;
} convolution_job;

/* ---- the three ways: the bytes of scratch that a thread needs, and a member's share of a convolution_job -------------------- */

/* Matrix products of blocks of filters and positions; the job says which (convolution_products.c). */
size_t rt_convolution_products_bytes(const convolution *shape);
void rt_convolution_products(void *context, int member, int members);

/* Of few output positions, in float or 16 bits (convolution_windows.c). False: too many bytes to count. */
enum { RT_FEW_OUTPUTS = 8 };
bool rt_convolution_windows_bytes(const convolution *shape, size_t *bytes);
void rt_convolution_windows(void *context, int member, int members);

/* Of few filters a group (convolution_maps.c). Sets the stencil, too. False: too many bytes to count. */
bool rt_convolution_maps_prepare(convolution *shape, base_arena *arena, size_t *bytes);
void rt_convolution_maps(void *context, int member, int members);

/* ---- what they share ------------------------------------------------------------------------------------ */

/* As many floats in whole lines of memory. */
static inline int64_t rt_convolution_line(int64_t floats) {
    return (floats + RT_PANEL - 1) / RT_PANEL * RT_PANEL;
}

static inline void rt_convolution_add(float *y, int64_t count, float value) {
    for (int64_t i = 0; i < count; i++) y[i] += value;
}

/* Filters [row, row + rows) of a group of an image of 16-bit numbers at `count` positions from `position` on. False, and nothing is done,
 * where the windows have no panels of pairs (convolution_pairs.c). */
bool rt_convolution_pairs(const convolution_job *job, int64_t image, int64_t group, int64_t row, int64_t rows,
                          int64_t position, int64_t count);

#endif
