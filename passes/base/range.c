/* SPDX-License-Identifier: Apache-2.0 */
/* range.c: implements range.h. */
#include "passes/base/range.h"

enum { SLICE_INPUTS = 5 };

/* The Slice with what is known of its inputs when a model is compiled: constants. */
static op_call call_of(const ir_node *slice, op_tensor inputs[SLICE_INPUTS], op_tensor *output) {
    for (uint32_t i = 0; i < SLICE_INPUTS; i++) {
        const ir_value *input = ir_input(slice, i);
        inputs[i] = (op_tensor){0};
        if (input && input->constant) inputs[i] = input->constant->tensor;
        else if (input) inputs[i].type = input->type;
    }
    *output = (op_tensor){.type = slice->outputs[0]->type};
    return (op_call){.code = slice->code,
                     .attributes = slice->attributes,
                     .input_count = SLICE_INPUTS,
                     .output_count = 1,
                     .inputs = inputs,
                     .outputs = output};
}

bool pass_slice_cut(const ir_node *node, int32_t *cut, int64_t *first) {
    op_tensor inputs[SLICE_INPUTS], output;
    const op_call call = call_of(node, inputs, &output);
    return op_slice_cut(&call, cut, first);
}

bool pass_range_of_slice(const ir_node *node, op_range *result) {
    op_tensor inputs[SLICE_INPUTS], output;
    const op_call call = call_of(node, inputs, &output);
    return op_range_of_slice(&call, result);
}
