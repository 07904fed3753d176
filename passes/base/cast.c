/* SPDX-License-Identifier: Apache-2.0 */
/* cast.c: a value as another type. */
#include "passes/base/pass.h"

ir_value *pass_cast(ir_graph *graph, ir_node *before, const char *path, ir_value *value, op_dtype dtype) {
    const op_attribute to = {.name = "to", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = dtype};
    op_attributes attributes = {0};
    op_type type = value->type;
    type.dtype = dtype;
    if (!ir_attribute_set(graph->module, &attributes, &to)) return NULL;
    ir_node *node = ir_node_new(graph, before, OP_CAST, "", path, attributes, 1, &value);
    return node ? ir_node_add_output(node, value->name, &type) : NULL;
}
