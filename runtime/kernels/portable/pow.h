/* SPDX-License-Identifier: Apache-2.0 */
/* pow.h: powers of mixed types, for elementwise_binary.c. */
#ifndef OURO_POW_H
#define OURO_POW_H

#include "ir/operators/op.h"

/* base to the power of an integer, negative or not, of this magnitude; wraps around. A negative exponent
 * gives what 1 / base^magnitude truncates to: 0, or 1 and -1 for bases 1 and -1; 0 for base 0. */
int64_t rt_power_integer(int64_t base, bool negative, uint64_t magnitude);

/* `count` powers of floats, whose strides are 0 or 1. `to` may be either, where its stride is 1. */
void rt_power_floats(float *to, const float *base, int64_t base_stride, const float *exponent,
                     int64_t exponent_stride, int64_t count);

/* `count` powers: base and exponent advance by their strides (0 or 1). In place of either is allowed where
 * the element sizes are equal. */
typedef void rt_power_function(op_dtype dtype, void *to, const void *base, int64_t base_stride,
                               op_dtype exponent_dtype, const void *exponent, int64_t exponent_stride,
                               int64_t count);

/* The function for these types, or NULL where rt_power_floats or pow on both operands is right. */
rt_power_function *rt_power_select(op_dtype base, op_dtype exponent, const op_tensor *exponents);

#endif
