/* SPDX-License-Identifier: Apache-2.0 */
/* byte_pairs.h: the sum, difference or product of two dequantised tensors of bytes, quantised again, as QLinearAdd and QLinearMul have it: the
 * commonest program of ouro.Fused on bytes, without instructions that are read one by one. The bits are those of the steps.
 */
#ifndef OURO_BYTE_PAIRS_H
#define OURO_BYTE_PAIRS_H

#include "ir/operators/fused.h"

/* A tensor of bytes with one scale and one zero point: which inputs of the program these are. */
typedef struct rt_pair_side {
    int32_t bytes, scale, zero; /* bytes: -1 for the result; zero: -1 where there is none */
    bool negative;              /* int8, otherwise uint8 */
} rt_pair_side;

typedef struct rt_byte_pairs {
    op_code code;   /* OP_ADD, OP_SUB or OP_MUL */
    bool rectifies; /* Relu before the result is quantised */
    rt_pair_side a, b, y;
} rt_byte_pairs;

/* Whether the program is such a one, and the machine has what it takes. `values` are the inputs and what the steps make. */
bool rt_byte_pairs_read(const op_fused *program, const op_tensor *values, rt_byte_pairs *pairs);

/* `count` elements of the result, of inputs that have as many. False, and nothing is done, for scales that are very large or small. */
bool rt_byte_pairs_run(const rt_byte_pairs *pairs, void *const *inputs, uint8_t *to, int64_t count);

#endif
