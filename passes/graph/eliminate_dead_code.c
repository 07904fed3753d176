/* SPDX-License-Identifier: Apache-2.0 */
/* eliminate_dead_code.c: nodes whose outputs nobody wants, and constants that nobody uses, go.
 *
 *     %a = Relu(%x)  %b = Exp(%x)  yield %b      =>      %b = Exp(%x)  yield %b
 *
 * Outputs of loops and branches that nobody wants become absent: they need no place then, and nothing is handed to them.
 *
 * Needs: nothing. Breaks: nothing. Guarantees: every output of a node that remains has a use, or is one of
 * several, or the node has an effect; every constant has a use.
 */
#include "passes/graph/graph.h"

static bool is_dead(const ir_node *node) {
    if (op_schema_of(node->code)->flags & OP_FLAG_EFFECT) return false;
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] && node->outputs[i]->uses) return false;
    }
    return true;
}

/* Backwards, so that a chain goes in one sweep; sub-graphs of what remains afterwards. */
static void sweep(ir_graph *graph) {
    for (ir_node *node = graph->last, *previous; node; node = previous) {
        previous = node->previous;
        if (is_dead(node)) {
            ir_node_remove(node);
            continue;
        }
        for (uint32_t i = 0; i < node->output_count && node->graph_count; i++) {
            if (node->outputs[i] && !node->outputs[i]->uses) ir_node_drop_output(node, i);
        }
        for (uint32_t i = 0; i < node->graph_count; i++) sweep(node->graphs[i]);
    }
}

base_status pass_eliminate_dead_code(pass_context *context) {
    ir_module *module = context->module;
    sweep(module->main);
    for (size_t v = 1; v < module->value_count; v++) {
        ir_value *value = module->values[v];
        if (value && value->kind == IR_CONSTANT && !value->uses) ir_constant_remove(module, value);
    }
    return BASE_OK;
}
