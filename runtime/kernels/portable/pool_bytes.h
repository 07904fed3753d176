/* SPDX-License-Identifier: Apache-2.0 */
/* pool_bytes.h: the largest bytes of lines, and of windows that are one element wide along the innermost dimension, such as the channels of
 * an image that has them last.
 */
#ifndef OURO_POOL_BYTES_H
#define OURO_POOL_BYTES_H

#include "runtime/kernels/portable/kernels.h"

/* The largest bytes of `lines` lines, at least one, the next of which lies `step` bytes after one. */
void rt_largest_bytes(bool negative, const uint8_t *x, int64_t lines, int64_t step, uint8_t *y,
                      int64_t count);
/* The largest of what is in y and of two more lines, which may be the same one. */
void rt_larger_bytes(bool negative, const uint8_t *a, const uint8_t *b, uint8_t *y, int64_t count);

/* Windows of rows by columns of points; a point is `channels` bytes that lie side by side. All is that of rows first, then of columns. */
typedef struct rt_pool_bytes {
    bool negative; /* int8, otherwise uint8 */
    int64_t channels;
    int64_t input[2], output[2], kernel[2], stride[2], dilation[2], before[2];
} rt_pool_bytes;

/* Row `row` of the output, of the image at x. A window that sees nothing gives the lowest number. */
void rt_pool_bytes_row(const rt_pool_bytes *shape, const uint8_t *x, int64_t row, uint8_t *y);

#endif
