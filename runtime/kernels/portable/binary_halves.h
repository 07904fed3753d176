/* SPDX-License-Identifier: Apache-2.0 */
/* binary_halves.h: sums, differences, products and quotients of numbers of 16 bits, which are floats in registers of AVX-512 alone. */
#ifndef OURO_BINARY_HALVES_H
#define OURO_BINARY_HALVES_H

#include "runtime/kernels/portable/kernels.h"

/* to[i] = left[i] and right[i] together, rounded once; of a single one, the first element is every one's. `to` may be left or right, where that has
 * as many elements. */
typedef void rt_binary_halves_function(uint16_t *to, const uint16_t *left, const uint16_t *right,
                                       int64_t count, bool left_single, bool right_single);

/* Gives the bits of the same in float, rounded. NULL: of this operator there is none, or the machine has not AVX-512. */
rt_binary_halves_function *rt_binary_halves(op_code code, op_dtype dtype);

#endif
