/* SPDX-License-Identifier: Apache-2.0 */
/* spatial_view.c: see spatial_view.h. */
#include "runtime/kernels/portable/spatial_view.h"
#include <string.h>

static bool has_view(const op_type *type) {
    const op_layout layout = type->layout;
    return (layout == OP_LAYOUT_NC8 || layout == OP_LAYOUT_NC16 || layout == OP_LAYOUT_NHWC) &&
           type->shape.rank > 2 && type->shape.rank < OP_MAX_RANK;
}

static void look_at(op_type *type) {
    if (type->dtype == OP_NONE || !has_view(type)) return;
    op_shape *shape = &type->shape;
    const int64_t block = type->layout == OP_LAYOUT_NHWC ? shape->dims[1] : op_layout_block(type->layout);
    shape->dims[shape->rank++] = block;
    shape->dims[1] = block > 0 ? (shape->dims[1] + block - 1) / block : 0;
    type->layout = OP_LAYOUT_ROW_MAJOR;
}

bool rt_accepts_spatial(const op_call *call, int64_t axis) {
    const op_type *result = &call->outputs[0].type;
    if (!has_view(result) || axis < 2 || call->output_count != 1 || !op_dtype_bytes(result->dtype))
        return false;
    for (uint32_t i = 0; i < call->input_count; i++) {
        const op_type *type = &call->inputs[i].type;
        if (type->dtype == OP_NONE || (type->layout == result->layout && has_view(type))) continue;
        if (type->layout != OP_LAYOUT_ROW_MAJOR || type->shape.rank < 0 || type->shape.rank > 1) return false;
    }
    return true;
}

const op_call *rt_spatial_view(const op_call *call, base_arena *arena) {
    bool row_major = true;
    for (uint32_t i = 0; i < call->output_count; i++)
        row_major = row_major && !has_view(&call->outputs[i].type);
    if (row_major) return call;
    op_call *view = BASE_NEW(arena, op_call);
    op_tensor *inputs = BASE_ARRAY(arena, op_tensor, call->input_count),
              *outputs = BASE_ARRAY(arena, op_tensor, call->output_count);
    if (!view || !inputs || !outputs) return NULL;
    memcpy(inputs, call->inputs, call->input_count * sizeof *inputs);
    memcpy(outputs, call->outputs, call->output_count * sizeof *outputs);
    for (uint32_t i = 0; i < call->input_count; i++) look_at(&inputs[i].type);
    for (uint32_t i = 0; i < call->output_count; i++) look_at(&outputs[i].type);
    *view = *call;
    view->inputs = inputs;
    view->outputs = outputs;
    return view;
}
