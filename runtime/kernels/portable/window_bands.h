/* SPDX-License-Identifier: Apache-2.0 */
/* window_bands.h: convolutions with windows in fixed point (window_digits.h) by constant weights, once their kernel has read them: what they take, how
 * weights lie, and what running takes. For window_convolution.c.
 */
#ifndef OURO_WINDOW_BANDS_H
#define OURO_WINDOW_BANDS_H

#include "runtime/kernels/portable/window_shape.h"

/* Completes what the kernel has read of the application, whose attribute ouro.blocks says into how many bands each image is cut, or is not there. False
 * where this is not for tiles, or sizes do not fit into a machine. */
bool rt_window_complete(rt_window_shape *shape, const op_call *call, const rt_environment *environment);

/* Bytes of the weights. */
size_t rt_window_packed_bytes(const rt_window_shape *shape);

/* rt_kernel.estimate, but for rt_cost.packed_bytes. Changes the bands of the shape. */
bool rt_window_estimate(rt_window_shape *shape, const rt_environment *environment, size_t scratch_limit,
                        rt_cost *cost);

/* Whether weights, [filters][channels][height][width], are fit for this form. */
bool rt_window_suits(const rt_window_shape *shape, const float *weights);
/* Into zeroed memory. */
void rt_window_pack(const rt_window_shape *shape, const float *weights, char *packed);

/* Sets what running takes. Where nobody has said into how many bands each image is cut, those are chosen that are fastest and whose digits of an image
 * take no more than twice what one image, its result and the weights take. The shape lives as long as `prepared`, in `arena`. Of a run: inputs are the
 * image, weights, bias, residual. */
base_status rt_window_prepare(rt_window_shape *shape, const rt_environment *environment, base_arena *arena,
                              rt_prepared *prepared, base_report *report);

#endif
