/* SPDX-License-Identifier: Apache-2.0 */
/* matmul_bits.h: what the kernels of MatMulNBits share. */
#ifndef OURO_MATMUL_BITS_H
#define OURO_MATMUL_BITS_H

#include "ir/operators/op.h"

/* Of how many digits (digit_tiles.h) elements of x are to be beside weights of so many bits: 1, 2 or 3; three stand for floats. */
int rt_matmul_bits_digits(const op_attributes *attributes, int bits);

#endif
