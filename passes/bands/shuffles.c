/* SPDX-License-Identifier: Apache-2.0 */
/* shuffles.c: channels that are only put in another order are gathered, which can be done row by row.
 *
 *     %a: [1,4,60,28,28] = Reshape(%x)  %b = Transpose(%a) {perm = [0, 2, 1, 3, 4]}  %y: [1,240,28,28] = Reshape(%b)
 *  => %y = Gather(%x, %order) {axis = 1}
 */
#include "passes/bands/shuffles.h"
#include "ir/operators/window.h"
#include "passes/bands/row_maps.h"
#include "passes/base/pass.h"

static bool gather(ir_node *last, ir_value *x, int64_t groups) {
    ir_graph *graph = last->graph;
    ir_module *module = graph->module;
    const int64_t channels = x->type.shape.dims[1];
    const op_type type = {.dtype = OP_INT64, .shape = {.rank = 1, .dims = {channels}}};
    void *data = NULL;
    ir_value *order =
        ir_constant_reserve(module, "channels", &type, (size_t)channels * sizeof(int64_t), &data);
    if (!order) return false;
    for (int64_t i = 0; i < channels; i++) ((int64_t *)data)[i] = op_shuffled_channel(i, groups, channels);
    const op_attribute axis = {.name = "axis", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = 1};
    op_attributes attributes = {0};
    if (!ir_attribute_set(module, &attributes, &axis)) return false;
    ir_value *inputs[] = {x, order};
    ir_node *node = ir_node_new(graph, last, OP_GATHER, last->name, last->path, attributes, 2, inputs);
    ir_value *made = node ? ir_node_add_output(node, last->outputs[0]->name, &last->outputs[0]->type) : NULL;
    if (!made) return false;
    ir_value_replace(last->outputs[0], made);
    return true;
}

bool band_gather_shuffles(ir_graph *graph) {
    for (ir_node *node = graph->first, *next; node; node = next) {
        ir_value *x;
        int64_t groups;
        next = node->next;
        if (node->code != OP_RESHAPE || !pass_read_shuffle(node->outputs[0], &x, &groups) ||
            !op_shape_known(&x->type.shape) || x->type.shape.rank <= BAND_AXIS ||
            x->type.layout != OP_LAYOUT_ROW_MAJOR)
            continue;
        if (!gather(node, x, groups)) return false;
        pass_remove_shuffle(node->outputs[0]);
    }
    return true;
}
