/* SPDX-License-Identifier: Apache-2.0 */
/* number.h: numbers of the textual form: reals that read back bit by bit. Shared by ir/print.c and
 * ir/parse.c. */
#ifndef OURO_IR_NUMBER_H
#define OURO_IR_NUMBER_H

#include "ir/operators/op.h"

enum { IR_NUMBER_TEXT = 64 };

/* Numbers as bits of their own type: float32, float64, float16, bfloat16. */
bool ir_dtype_is_real(op_dtype dtype);

/* Writes the real with these bits so that ir_real_parse gives the same bits: the shortest decimal, with a
 * point or an exponent; "inf", "-inf", "nan"; other NaNs as "nan(0xBITS)". Not dependent on the locale. */
void ir_real_print(op_dtype dtype, uint64_t bits, char text[IR_NUMBER_TEXT]);

/* The bits of the real that is nearest to the text (all of it); false where it is none. */
bool ir_real_parse(op_dtype dtype, const char *text, uint64_t *bits);

#endif
