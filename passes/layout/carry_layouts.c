/* SPDX-License-Identifier: Apache-2.0 */
/* carry_layouts.c: what a loop carries lies, between two iterations, as its kernels want it.
 *
 *     loop(%x) { %a: nc16 = Reorder(%x)  %b: nc16 = Conv(%a)  %y = Reorder(%b)  yield %k, %y }
 *  => %x0: nc16 = Reorder(%x)  loop(%x0) { %b: nc16 = Conv(%a)  yield %k, %b }  %y = Reorder(%p)
 *
 * A carried parameter that is only ever reordered, into one layout, and whose replacement is reordered out of
 * the same one, is carried in it: what was done in every iteration is done once before the loop and once after
 * it, and not at all where the neighbours like the layout, too. Inner loops go first.
 *
 * Needs: types, layouts. Breaks: that somebody reads every node. Guarantees: types and layouts of all values that take part;
 * no Reorder at the beginning and end of a body turns a carried value there and back.
 */
#include "ir/loop.h"
#include "passes/layout/layout.h"

static op_layout target_of(const ir_node *reorder) {
    return (op_layout)op_attribute_integer(&reorder->attributes, "ouro.layout", OP_LAYOUT_ROW_MAJOR);
}

/* The layout into which every reader reorders a parameter; OP_LAYOUT_ROW_MAJOR where there is none. */
static op_layout wanted_layout(const ir_value *parameter) {
    op_layout wanted = OP_LAYOUT_ROW_MAJOR;
    for (const ir_use *use = parameter->uses; use; use = use->next) {
        if (!use->node || use->node->code != OP_REORDER || use->node->graph != parameter->graph)
            return OP_LAYOUT_ROW_MAJOR;
        op_layout layout = target_of(use->node);
        if (wanted != OP_LAYOUT_ROW_MAJOR && layout != wanted) return OP_LAYOUT_ROW_MAJOR;
        wanted = layout;
    }
    return wanted;
}

/* What the replacement is reordered from, if it is made in the body in this layout; NULL. */
static ir_value *made_in(const ir_graph *body, const ir_value *replacement, op_layout layout) {
    if (!replacement->node || replacement->node->code != OP_REORDER) return NULL;
    ir_value *from = ir_input(replacement->node, 0);
    bool fits = from->type.layout == layout && from->kind == IR_RESULT_OF_NODE && from->graph == body;
    return fits ? from : NULL;
}

static ir_value *reorder(pass_context *context, ir_graph *graph, ir_node *before, ir_value *value,
                         op_layout layout) {
    op_attribute attribute = {
        .name = "ouro.layout", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = layout};
    op_attributes attributes = {0};
    if (!ir_attribute_set(context->module, &attributes, &attribute)) return NULL;
    ir_node *node =
        ir_node_new(graph, before, OP_REORDER, "", before ? before->path : "", attributes, 1, &value);
    op_type type = value->type;
    type.layout = layout;
    return node ? ir_node_add_output(node, value->name, &type) : NULL;
}

static bool carry(pass_context *context, ir_node *loop, uint32_t index) {
    const ir_loop parts = ir_loop_of(loop);
    const ir_loop_carried c = ir_loop_carry(&parts, index);
    ir_graph *body = parts.body;
    ir_value *parameter = c.parameter, *initial = c.initial, *output = c.output;
    op_layout layout = wanted_layout(parameter);
    if (layout == OP_LAYOUT_ROW_MAJOR || initial->type.layout != OP_LAYOUT_ROW_MAJOR) return true;
    ir_value *made = made_in(body, c.replacement, layout);
    if (!made) return true;
    /* The initial value may have been reordered out of this layout itself. */
    ir_value *begins = made_in(initial->graph, initial, layout);
    if (!begins) begins = reorder(context, loop->graph, loop, initial, layout);
    if (!begins || !ir_node_set_input(loop, 2 + index, begins)) return false;
    parameter->type.layout = layout;
    for (ir_node *node = body->first, *next; node; node = next) {
        next = node->next;
        if (node->code != OP_REORDER || ir_input(node, 0) != parameter || target_of(node) != layout) continue;
        ir_value_replace(node->outputs[0], parameter);
        ir_node_remove(node);
    }
    ir_graph_set_result(body, 1 + index, made);
    if (!output) return true;
    output->type.layout = layout;
    if (!output->uses) return true;
    ir_value *row_major = reorder(context, loop->graph, loop->next, output, OP_LAYOUT_ROW_MAJOR);
    if (!row_major) return false;
    ir_value_replace(output, row_major);
    return ir_node_set_input(row_major->node, 0, output);
}

base_status pass_carry_layouts(pass_context *context) {
    size_t count;
    ir_graph **graphs = pass_graphs_outermost_first(context->module, context->scratch, &count);
    if (!graphs) return base_fail_memory(context->report);
    for (size_t g = count; g-- > 0;) {
        ir_loop loop;
        if (!ir_loop_around(graphs[g], &loop) || loop.runs) continue; /* states are row-major */
        for (uint32_t i = 0; i < loop.carried; i++) {
            if (ir_loop_is_static(&loop, i) && !carry(context, graphs[g]->owner, i))
                return base_fail_memory(context->report);
        }
    }
    return BASE_OK;
}
