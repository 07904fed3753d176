/* SPDX-License-Identifier: Apache-2.0 */
/* fused_registers.h: the steps of ouro.Fused in the registers of AVX-512: nothing that is made within is written to memory. Numbers are
 * floats there; those of 16 bits are widened as they are read, and what a step makes of them is rounded to what 16 bits hold. Those of 8 bits, which only
 * QuantizeLinear and DequantizeLinear make and read, are whole floats.
 *
 * What the steps say becomes instructions for one accumulator of some registers: to load an operand, to add one, to take Exp, to put aside
 * what is read again later. All instructions run on a piece of the result before the next piece begins. The bits are those of the steps'
 * kernels, but for what `contract` allows.
 */
#ifndef OURO_FUSED_REGISTERS_H
#define OURO_FUSED_REGISTERS_H

#include "ir/operators/fused.h"
#include "runtime/kernels/portable/kernels.h"

enum { RT_REGISTER_PIECE = 128 }; /* elements of a piece; fewer take as long */

/* How an input lies in a block. Rows are short: their width divides 64. */
typedef enum rt_register_kind {
    RT_REGISTER_RUNS,     /* an element for each of the result */
    RT_REGISTER_STAYS,    /* one for all */
    RT_REGISTER_EACH_ROW, /* one for each row */
    RT_REGISTER_ONE_ROW   /* one row for all */
} rt_register_kind;

typedef struct rt_registers rt_registers;

/* False: the machine has no AVX-512, or a step has no form for it. `values` are the inputs and what the steps make. */
bool rt_registers_accepts(const op_fused *program, const op_tensor *values);

/* The instructions for a program that is accepted; `kinds` are those of the inputs, `width` that of short rows; `contract`: a product and
 * its sum within one operator may be rounded once, and so is that of a number for each row, times one row, and what it is added to; an Exp that only
 * products read is 0 where it would be subnormal. NULL when memory runs out. */
rt_registers *rt_registers_new(const op_fused *program, const op_tensor *values,
                               const rt_register_kind *kinds, int64_t width, bool contract,
                               base_arena *arena);

/* `count` elements of the result. It may lie over an input that runs. Blocks with inputs in rows are whole rows. */
void rt_registers_run(const rt_registers *registers, void *const *inputs, void *to, int64_t count);

#endif
