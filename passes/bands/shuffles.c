/* SPDX-License-Identifier: Apache-2.0 */
/* shuffles.c: channels that are only put in another order are gathered, which can be done row by row.
 *
 *     %a: [1,4,60,28,28] = Reshape(%x)  %b = Transpose(%a) {perm = [0, 2, 1, 3, 4]}  %y: [1,240,28,28] = Reshape(%b)
 *  => %y = Gather(%x, %order) {axis = 1}
 */
#include "passes/bands/shuffles.h"
#include "passes/bands/row_maps.h"
#include "passes/base/pass.h"

/* Axes 1 and 2 change places, all others stay. */
static bool swaps_groups(const ir_node *transpose, int32_t rank) {
    size_t count;
    const int64_t *order = op_attribute_integers(&transpose->attributes, "perm", &count);
    if (!order || rank < 4 || count != (size_t)rank) return false;
    for (int32_t i = 0; i < rank; i++)
        if (order[i] != (i == 1 ? 2 : i == 2 ? 1 : i)) return false;
    return true;
}

/* [N, C, ...] as [N, groups, C / groups, ...]. */
static bool splits_channels(const op_shape *whole, const op_shape *split) {
    if (!op_shape_known(whole) || !op_shape_known(split) || split->rank != whole->rank + 1 ||
        whole->rank <= BAND_AXIS || whole->dims[0] != split->dims[0] ||
        split->dims[1] * split->dims[2] != whole->dims[1])
        return false;
    for (int32_t i = 2; i < whole->rank; i++)
        if (whole->dims[i] != split->dims[i + 1]) return false;
    return true;
}

static bool gather(ir_node *first, ir_node *last, int64_t groups, int64_t each) {
    ir_graph *graph = first->graph;
    ir_module *module = graph->module;
    const op_type type = {.dtype = OP_INT64, .shape = {.rank = 1, .dims = {groups * each}}};
    void *data = NULL;
    ir_value *order =
        ir_constant_reserve(module, "channels", &type, (size_t)(groups * each) * sizeof(int64_t), &data);
    if (!order) return false;
    for (int64_t i = 0; i < groups * each; i++) ((int64_t *)data)[i] = i % groups * each + i / groups;
    const op_attribute axis = {.name = "axis", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = 1};
    op_attributes attributes = {0};
    if (!ir_attribute_set(module, &attributes, &axis)) return false;
    ir_value *inputs[] = {ir_input(first, 0), order};
    ir_node *node = ir_node_new(graph, last, OP_GATHER, last->name, last->path, attributes, 2, inputs);
    ir_value *made = node ? ir_node_add_output(node, last->outputs[0]->name, &last->outputs[0]->type) : NULL;
    if (!made) return false;
    ir_value_replace(last->outputs[0], made);
    return true;
}

bool band_gather_shuffles(ir_graph *graph) {
    for (ir_node *node = graph->first, *next; node; node = next) {
        next = node->next;
        if (node->code != OP_RESHAPE) continue;
        ir_node *transpose = pass_only_reader(node, OP_TRANSPOSE);
        ir_node *last = transpose ? pass_only_reader(transpose, OP_RESHAPE) : NULL;
        const ir_value *whole = ir_input(node, 0);
        const op_shape *split = &node->outputs[0]->type.shape;
        if (!last || whole->type.layout != OP_LAYOUT_ROW_MAJOR ||
            !splits_channels(&whole->type.shape, split) || !swaps_groups(transpose, split->rank) ||
            !op_shape_equal(&whole->type.shape, &last->outputs[0]->type.shape))
            continue;
        if (!gather(node, last, split->dims[1], split->dims[2])) return false;
        next = last->next;
        ir_node_remove(last);
        ir_node_remove(transpose);
        ir_node_remove(node);
    }
    return true;
}
