/* SPDX-License-Identifier: Apache-2.0 */
/* hoist_invariants.c: what is the same in every iteration is computed once, before the loop.
 *
 *     loop { %t = Softmax(%w)  %y = MatMul(%x, %t)  yield %c, %y }
 *  => %t = Softmax(%w)  loop { %y = MatMul(%x, %t)  yield %c, %y }
 *
 * A node of a loop's body goes if all that it reads is from outside of the body. Nodes that can fail, depending
 * on what their inputs hold, stay, because a loop may run no iteration at all; so do those whose sizes are
 * found at run time, which is also where shapes can be wrong, those with an effect, and whole branches and
 * loops. What is in a branch stays there: it may never be taken.
 *
 * Needs: types, no dead nodes. Breaks: nothing. Guarantees: no node of a loop's body, but for those named, reads only values from
 * outside.
 */
#include "ir/loop.h"
#include "ir/operators/indices.h"
#include "passes/graph/graph.h"

static bool is_static(const ir_value *value) {
    size_t bytes;
    return op_type_bytes(&value->type, &bytes);
}

static bool can_fail(const ir_node *node) {
    uint32_t first, end;
    if (!(op_schema_of(node->code)->flags & OP_FLAG_CHECKED)) return false;
    op_checked_inputs(node->code, node->input_count, &first, &end);
    for (uint32_t i = first; i < end && i < node->input_count; i++)
        if (ir_input(node, i)) return true;
    return false;
}

static bool is_invariant(const ir_node *node) {
    if (op_schema_of(node->code)->flags & (OP_FLAG_EFFECT | OP_FLAG_GRAPHS | OP_FLAG_DYNAMIC) ||
        can_fail(node))
        return false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const ir_value *input = ir_input(node, i);
        if (input && (input->graph == node->graph || !is_static(input))) return false;
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] && !is_static(node->outputs[i])) return false;
    }
    return true;
}

base_status pass_hoist_invariants(pass_context *context) {
    size_t graph_count;
    ir_graph **graphs = pass_graphs_outermost_first(context->module, context->scratch, &graph_count);
    if (!graphs) return base_fail_memory(context->report);
    /* Innermost first: what leaves a loop may leave the next one, too. */
    for (size_t g = graph_count; g-- > 0;) {
        ir_node *loop = graphs[g]->owner;
        if (!loop || loop->code != OP_LOOP || ir_graph_is_run(graphs[g])) continue;
        for (ir_node *node = graphs[g]->first, *next; node; node = next) {
            next = node->next;
            if (is_invariant(node)) ir_node_relocate(node, loop->graph, loop);
        }
    }
    return BASE_OK;
}
