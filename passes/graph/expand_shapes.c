/* SPDX-License-Identifier: Apache-2.0 */
/* expand_shapes.c: the shape of an Expand as exporters write it, in which -1 keeps an extent, says 1 there.
 *
 *     %s = Concat(%n, {-1}, {-1})  %e = Equal(%s, {-1, -1, -1})  %t = Where(%e, {1, 1, 1}, %s)  %y = Expand(%x, %t)
 *  => %t = Concat(%n, {1}, {1})  %y = Expand(%x, %t)
 *
 * So the extents of %y follow from the shapes at hand: before, nobody could say what Where chooses. Only where each part of %s is a constant, or
 * holds extents, which are never -1.
 */
#include "passes/graph/graph.h"

/* A constant of integers, all of which are this one. */
static bool is_all(const ir_value *value, int64_t number) {
    int64_t count;
    if (!value || !value->constant || !value->constant->tensor.data || value->type.dtype != OP_INT64 ||
        !op_shape_elements(&value->type.shape, &count) || count < 1)
        return false;
    const int64_t *data = value->constant->tensor.data;
    for (int64_t i = 0; i < count; i++)
        if (data[i] != number) return false;
    return true;
}

/* Every element is an extent. */
static bool has_extents(const ir_value *value) {
    int64_t count;
    if (!value->symbolic || !op_shape_elements(&value->type.shape, &count)) return false;
    for (int64_t i = 0; i < count; i++)
        if (value->symbolic[i] == OP_DIM_UNKNOWN) return false;
    return true;
}

static bool is_part(const ir_value *part) {
    return part && part->type.dtype == OP_INT64 && part->type.shape.rank == 1 &&
           (has_extents(part) || (part->constant && part->constant->tensor.data));
}

/* The Concat that `where` chooses from, each -1 becoming 1; NULL: it does something else. */
static ir_node *find_parts(const ir_node *where) {
    const ir_value *condition = ir_input(where, 0), *shape = ir_input(where, 2);
    if (!is_all(ir_input(where, 1), 1) || !condition || condition->kind != IR_RESULT_OF_NODE ||
        condition->node->code != OP_EQUAL || !shape || shape->kind != IR_RESULT_OF_NODE ||
        shape->node->code != OP_CONCAT)
        return NULL;
    const ir_node *equal = condition->node;
    const uint32_t own = ir_input(equal, 0) == shape ? 0 : 1;
    if (ir_input(equal, own) != shape || !is_all(ir_input(equal, 1 - own), -1)) return NULL;
    for (uint32_t i = 0; i < shape->node->input_count; i++)
        if (!is_part(ir_input(shape->node, i))) return NULL;
    return shape->node;
}

/* The same constant with 1 for each -1. NULL when memory runs out. */
static ir_value *without_minus(ir_module *module, ir_value *part) {
    void *made;
    const int64_t *data = part->constant->tensor.data;
    ir_value *changed =
        ir_constant_reserve(module, part->name, &part->type, part->constant->tensor.bytes, &made);
    for (size_t i = 0; changed && i < part->constant->tensor.bytes / sizeof *data; i++)
        ((int64_t *)made)[i] = data[i] == -1 ? 1 : data[i];
    return changed;
}

base_status pass_expand_shape(pass_context *context, ir_node *node) {
    ir_node *parts = node->code == OP_WHERE && node->outputs[0]->uses ? find_parts(node) : NULL;
    if (!parts) return BASE_OK;
    ir_value **inputs = BASE_ARRAY(context->scratch, ir_value *, parts->input_count);
    if (!inputs) return base_fail_memory(context->report);
    for (uint32_t i = 0; i < parts->input_count; i++) {
        ir_value *part = ir_input(parts, i);
        inputs[i] = has_extents(part) ? part : without_minus(context->module, part);
        if (!inputs[i]) return base_fail_memory(context->report);
    }
    ir_node *joined = ir_node_new(node->graph, node, OP_CONCAT, node->name, node->path, parts->attributes,
                                  parts->input_count, inputs);
    ir_value *made =
        joined ? ir_node_add_output(joined, node->outputs[0]->name, &parts->outputs[0]->type) : NULL;
    if (!made) return base_fail_memory(context->report);
    ir_value_replace(node->outputs[0], made);
    return BASE_OK;
}
