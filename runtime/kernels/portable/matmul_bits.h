/* SPDX-License-Identifier: Apache-2.0 */
/* matmul_bits.h: what the kernels of MatMulNBits share. */
#ifndef OURO_MATMUL_BITS_H
#define OURO_MATMUL_BITS_H

#include "ir/operators/op.h"

/* Of how many digits (digit_tiles.h) elements of x are to be beside weights of so many bits: 1, 2 or 3; three stand for floats. */
int rt_matmul_bits_digits(const op_attributes *attributes, int bits);

/* The bytes of a * b floats, added to *total too; false where these are no sizes. */
bool rt_matmul_bits_add(int64_t a, int64_t b, size_t *bytes, size_t *total);

/* Numbers of this type as floats: those at `from` (NULL: none) themselves, or in `bytes` of scratch, which moves on by them. */
const float *rt_matmul_bits_widen(op_dtype dtype, char **scratch, size_t bytes, const void *from);

#endif
