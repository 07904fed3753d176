/* SPDX-License-Identifier: Apache-2.0 */
/* packed_extents.c: convolutions with the extents that they were laid out for; see packed_extents.h. */
#include "runtime/kernels/base/packed_extents.h"
#include <string.h>

const int64_t *rt_packed_extents(const op_call *call) {
    size_t count;
    const int64_t *extents = op_attribute_integers(&call->attributes, "ouro.packed_extents", &count);
    if (!extents || count != (size_t)call->inputs[0].type.shape.rank) return NULL;
    for (size_t i = 0; i < count; i++)
        if (extents[i] <= 0) return NULL;
    return extents;
}

bool rt_copy_extents(const op_call *call, rt_other_extents *to) {
    if (call->input_count > RT_CONVOLUTION_INPUTS || call->inputs[0].type.shape.rank < 3 ||
        call->outputs[0].type.shape.rank < 3)
        return false;
    to->call = *call;
    memcpy(to->inputs, call->inputs, call->input_count * sizeof *to->inputs);
    to->output = call->outputs[0];
    to->call.inputs = to->inputs;
    to->call.outputs = &to->output;
    return true;
}

const op_call *rt_as_packed(const op_call *call, rt_other_extents *to) {
    const int64_t *extents = rt_packed_extents(call);
    if (!extents) return call;
    if (!rt_copy_extents(call, to)) return NULL;
    memcpy(to->inputs[0].type.shape.dims, extents, (size_t)to->inputs[0].type.shape.rank * sizeof *extents);
    if (op_input_present(call, 3)) to->inputs[3].type.shape.rank = -1; /* it follows */
    if (op_infer(&to->call, NULL) != BASE_OK) return NULL;
    to->output.type.layout = call->outputs[0].type.layout;
    if (op_input_present(call, 3)) to->inputs[3].type.shape = to->output.type.shape;
    return &to->call;
}
