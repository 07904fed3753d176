/* SPDX-License-Identifier: Apache-2.0 */
/* small.h: numbers of 8, 4 and 2 bits that are no integers of C: float8, float8e8m0, float4e2m1, int4, uint4, int2, uint2.
 *
 * A number has a code, its bits. Codes of 4 and 2 bits are packed, the first in the lowest bits of a byte; the last byte of a tensor is
 * filled with zeros. Source of the formats: ONNX's pages on float8, float4 and int4; "OCP Microscaling Formats" (2023).
 */
#ifndef OURO_OP_SMALL_H
#define OURO_OP_SMALL_H

#include "ir/operators/op.h"

/* One of the types above. */
bool op_dtype_is_small(op_dtype dtype);
/* Several elements share a byte: op_dtype_bytes is 0. */
static inline bool op_dtype_is_packed(op_dtype dtype) {
    return op_dtype_bits(dtype) > 0 && op_dtype_bits(dtype) < 8;
}

/* The code of element `index`, and its change; the other bits of its byte stay. */
uint8_t op_small_load(op_dtype dtype, const void *data, int64_t index);
void op_small_store(op_dtype dtype, void *data, int64_t index, uint8_t code);

/* The number of a code, exactly; NaN, infinities and -0 where the type has them. */
float op_small_value(op_dtype dtype, uint8_t code);

/* How float8e8m0, which has powers of two only, is rounded to; the others to nearest, ties to even, integers towards zero. */
typedef enum op_rounding { OP_ROUND_UP, OP_ROUND_DOWN, OP_ROUND_NEAREST } op_rounding;
/* The code that is nearest to a number. What is out of range gives the largest finite number of its sign where `saturate`, otherwise
 * infinity or NaN as ONNX's Cast has it; types without those always saturate. NaN gives 0 where the type has none. */
uint8_t op_small_code(op_dtype dtype, double value, bool saturate, op_rounding rounding);

#endif
