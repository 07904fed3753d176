/* SPDX-License-Identifier: Apache-2.0 */
/* quad_rows.h: multiples of rows of bytes added up, four rows at a time, where AVX-512 VNNI multiplies bytes. */
#ifndef OURO_QUAD_ROWS_H
#define OURO_QUAD_ROWS_H

#include "runtime/kernels/portable/integer_product.h"

/* What rt_integer_add_rows does. False, and nothing is done, where the machine does not multiply bytes, or the factors are not all bytes with a
 * sign or all bytes without one. */
bool rt_quad_rows_add(op_dtype dtype, const uint8_t *b, int64_t b_row, int64_t depth, int64_t columns,
                      const int16_t *a, int32_t *sums);

#endif
