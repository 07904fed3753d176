/* SPDX-License-Identifier: Apache-2.0 */
/* half_rows.h: short rows of float16 or bfloat16, so many elements apart, as rows of floats side by side, and back. As rt_half_load and
 * rt_half_store, but for what NaNs hold.
 */
#ifndef OURO_HALF_ROWS_H
#define OURO_HALF_ROWS_H

#include "runtime/kernels/portable/kernels.h"

/* to[r * width + i] for i < count, and zeros after them to `width`, which is a multiple of 4. */
void rt_half_rows_load(op_dtype dtype, const uint16_t *from, int64_t step, int64_t rows, int64_t count,
                       int64_t width, float *to);
/* The way back, of `count` elements of each row. */
void rt_half_rows_store(op_dtype dtype, const float *from, int64_t width, int64_t rows, int64_t count,
                        uint16_t *to, int64_t step);

#endif
