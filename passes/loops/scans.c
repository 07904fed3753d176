/* SPDX-License-Identifier: Apache-2.0 */
/* scans.c: see scans.h. */
#include "passes/loops/scans.h"

op_type loop_scan_slice_type(const op_type *whole, int32_t axis) {
    op_type type = *whole;
    type.shape.rank--;
    for (int32_t d = axis; d < type.shape.rank; d++) type.shape.dims[d] = type.shape.dims[d + 1];
    return type;
}

ir_value *loop_scan_find(const ir_loop *loop, const ir_value *whole, int32_t axis, bool backwards) {
    for (uint32_t i = 0; i < loop->scanned; i++) {
        const ir_loop_slices s = ir_loop_scan(loop, i);
        if (s.whole == whole && s.axis == axis && s.backwards == backwards) return s.slice;
    }
    return NULL;
}

/* Entry `index` of a list with an entry for each of `count` scanned tensors. */
static bool set_entry(pass_context *context, ir_node *node, const char *name, uint32_t count, uint32_t index,
                      int64_t value) {
    int64_t *entries = BASE_ARRAY(context->scratch, int64_t, count);
    if (!entries) return false;
    for (uint32_t i = 0; i < count; i++)
        entries[i] = i == index ? value : op_attribute_entry(&node->attributes, name, i);
    const op_attribute list = {
        .name = name, .kind = OP_ATTRIBUTE_INTS, .count = count, .as.integers = entries};
    return ir_attribute_set(context->module, &node->attributes, &list);
}

ir_value *loop_scan_add(pass_context *context, const ir_loop *loop, ir_value *whole, int32_t axis,
                        bool backwards) {
    ir_node *node = loop->body->owner;
    const op_type type = loop_scan_slice_type(&whole->type, axis);
    const uint32_t count = loop->scanned + 1;
    const op_attribute scanned = {
        .name = "ouro.scan_inputs", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = count};
    if (!set_entry(context, node, "ouro.scan_input_axes", count, count - 1, axis) ||
        !set_entry(context, node, "ouro.scan_input_directions", count, count - 1, backwards) ||
        !ir_attribute_set(context->module, &node->attributes, &scanned) ||
        !ir_node_set_input(node, node->input_count, whole))
        return NULL;
    return ir_graph_add_parameter(loop->body, "slice", &type);
}

bool loop_scan_replace(pass_context *context, const ir_loop *loop, uint32_t index, ir_value *whole,
                       int32_t axis) {
    ir_node *node = loop->body->owner;
    ir_value *slice = ir_loop_scan(loop, index).slice;
    const uint32_t input = node->input_count - loop->scanned + index;
    if (!set_entry(context, node, "ouro.scan_input_axes", loop->scanned, index, axis) ||
        !ir_node_set_input(node, input, whole))
        return false;
    slice->type = loop_scan_slice_type(&whole->type, axis);
    return true;
}
