/* SPDX-License-Identifier: Apache-2.0 */
/* fused.h: several elementwise operators as one: what the attribute `steps` of ouro.Fused says.
 *
 *     %y = ouro.Fused(%a, %b) {steps = ["Mul 0 1", "LeakyRelu 2 alpha=3d4ccccd", "Add 3 0"], to = 1}
 *
 * is LeakyRelu(a * b) + a. A step is the name of an operator, its operands, and those of its attributes that are set. An operand is
 * the number of an input, then of what the steps before have made; `_` is an absent one. Integers are written in decimal,
 * reals as their 32 bits in hexadecimal, texts as they are. The last step makes the result, whose shape every step before
 * it has too: inputs are broadcast, what is made within is not. `to` is the type of its elements.
 */
#ifndef OURO_FUSED_H
#define OURO_FUSED_H

#include "ir/operators/op.h"

enum {
    OP_FUSED_STEPS = 16,
    OP_FUSED_INPUTS = 12,
    OP_FUSED_OPERANDS = 3,
    OP_FUSED_ATTRIBUTES = 4,
    OP_FUSED_TEXT = 160 /* of one step */
};

typedef struct op_fused_step {
    op_code code;
    uint32_t operand_count;
    int32_t operands[OP_FUSED_OPERANDS]; /* -1: absent */
    size_t attribute_count;
    op_attribute attributes[OP_FUSED_ATTRIBUTES]; /* texts point into that of the step */
} op_fused_step;

typedef struct op_fused {
    uint32_t input_count, step_count;
    op_fused_step steps[OP_FUSED_STEPS];
} op_fused;

/* An operator that can be a step: it works on elements one by one, wherever they lie, and may be told to write over any input
 * that its row allows. QuantizeLinear and DequantizeLinear can where there is one scale. */
bool op_is_fusible(op_code code);

/* Reads the attribute. False where it says nothing valid. */
bool op_fused_read(const op_attributes *attributes, uint32_t input_count, op_fused *fused);
/* Writes a step as text. False where it has an attribute that cannot be written, or the text is too long. */
bool op_fused_print(const op_fused_step *step, char text[OP_FUSED_TEXT]);

/* The application that step `step` is. `values` are the inputs, then what the steps make; `operands` is memory for it. */
void op_fused_call(const op_fused *fused, uint32_t step, const op_tensor *values,
                   op_tensor operands[OP_FUSED_OPERANDS], op_tensor *made, op_call *call);
/* Infers what each step makes, after the inputs in `values` (OP_FUSED_INPUTS + OP_FUSED_STEPS of them). */
base_status op_fused_infer(const op_fused *fused, op_tensor *values, base_report *report);

#endif
