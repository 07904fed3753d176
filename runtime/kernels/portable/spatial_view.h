/* SPDX-License-Identifier: Apache-2.0 */
/* spatial_view.h: operators that move whole rows, on tensors whose channels lie in blocks or innermost.
 *
 * Such a tensor has its spatial axes where row-major ones have them, if a block of channels is one more axis at the end:
 * [N, C, H, W] in blocks of 16 lies as row-major [N, C / 16, H, W, 16], with channels innermost as [N, 1, H, W, C]. What cuts
 * and joins along a spatial axis needs to know nothing else.
 */
#ifndef OURO_SPATIAL_VIEW_H
#define OURO_SPATIAL_VIEW_H

#include "runtime/kernels/base/kernel.h"

/* Output 0 lies in blocks or with channels innermost, inputs lie as it does or are row-major of rank 1 or less, and `axis`,
 * not negative, is a spatial one. */
bool rt_accepts_spatial(const op_call *call, int64_t axis);
/* The application on row-major tensors, as they lie; the given one where all of it is row-major already. Lists are in `arena`;
 * NULL when memory runs out. */
const op_call *rt_spatial_view(const op_call *call, base_arena *arena);

#endif
