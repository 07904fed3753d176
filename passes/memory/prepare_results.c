/* SPDX-License-Identifier: Apache-2.0 */
/* prepare_results.c: every result can have bytes of its own.
 *
 * A graph's result is handed out in a place that is decided outside of the graph: the caller's buffer, the
 * output of the branch node, the replacement of a carried parameter. A value that already has another place
 * cannot be there: a parameter, a constant, a value captured from an enclosing graph, a value that is two
 * results at once. Such results become copies:
 *
 *     graph main(%x) { yield %x, %x }   =>   graph main(%x) { %a = ouro.Copy(%x) %b = ouro.Copy(%x) yield %a,
 * %b }
 *
 * Some need none: the condition of a loop (result 0 of a body), which is only read; carried values of static
 * size, whose addresses change from iteration to iteration so that nothing is copied (analyse-loops); a
 * carried parameter that replaces itself.
 *
 * And a value that a loop only appends to, at most so many times, grows in the loop's output: it has one even if nobody reads it.
 *
 * Needs: types; kernels and the limit of unrolling, so that no later pass changes what results are. Breaks: nothing.
 * Guarantees: results of main and of branches, and the replacements of loops, are made by nodes of their own graph, each only
 * once; but for these.
 */
#include "ir/loop.h"
#include "passes/memory/memory.h"

/* A result that may stay as it is; see the head. */
static bool is_free(const ir_graph *graph, uint32_t index) {
    ir_loop loop;
    if (!ir_loop_around(graph, &loop)) return false;
    if (index < loop.first_result) return true;
    const uint32_t carried = index - loop.first_result;
    if (carried >= loop.carried) return false; /* a slice, or an output of a run */
    return ir_loop_is_static(&loop, carried) ||
           graph->results[index]->value == ir_loop_carry(&loop, carried).parameter;
}

/* What a run is given is another value in the next run: no state can lie there. */
static bool is_given(const ir_graph *graph, const ir_value *value) {
    return ir_graph_is_run(graph) && value->kind == IR_PARAMETER &&
           value->index >= ir_module_states(graph->module);
}

/* A state of which a run also gives the value: the caller has bytes of his own. */
static bool is_state(const ir_graph *graph, const ir_value *value) {
    for (const ir_use *use = value->uses; use; use = use->next)
        if (!use->node && use->graph == graph && use->index < ir_module_states(graph->module)) return true;
    return false;
}

static bool needs_copy(const ir_graph *graph, uint32_t index) {
    const ir_value *value = graph->results[index]->value;
    if (is_given(graph, value)) return true;
    if (ir_graph_is_run(graph) && index >= ir_module_states(graph->module) && is_state(graph, value))
        return true;
    if (is_free(graph, index)) return false;
    if (value->kind != IR_RESULT_OF_NODE || value->graph != graph) return true;
    /* Of several results that are one value the first is the value. */
    for (const ir_use *use = value->uses; use; use = use->next) {
        if (!use->node && use->graph == graph && use->index < index && !is_free(graph, use->index))
            return true;
    }
    return false;
}

/* What a loop appends to, and hands out to nobody, has a place to grow in where that is an output. */
static bool give_outputs(ir_node *node) {
    ir_loop loop;
    if (!ir_loop_read(node, &loop) || loop.runs || ir_loop_most_trips(&loop) < 0) return true;
    for (uint32_t i = 0; i < loop.carried; i++) {
        ir_loop_growth growth;
        const ir_loop_carried c = ir_loop_carry(&loop, i);
        size_t bytes;
        if (c.output || !ir_loop_grows(&loop, i, &growth) || !growth.after ||
            !op_type_bytes(&c.initial->type, &bytes))
            continue;
        op_type type = c.initial->type;
        type.shape.dims[growth.axis] = ir_loop_grown_extent(&loop, i, &growth, ir_loop_trips(&loop));
        if (!ir_node_give_output(node, i, c.parameter->name, &type)) return false;
    }
    return true;
}

base_status pass_prepare_results(pass_context *context) {
    ir_module *module = context->module;
    for (size_t n = 1; n < module->node_count; n++)
        if (module->nodes[n] && !give_outputs(module->nodes[n])) return base_fail_memory(context->report);
    for (size_t g = 1; g < module->graph_count; g++) {
        ir_graph *graph = module->graphs[g];
        if (!graph) continue;
        for (uint32_t i = 0; i < graph->result_count; i++) {
            ir_value *value = graph->results[i]->value;
            if (!needs_copy(graph, i)) continue;
            ir_value *copied = pass_copy(graph, NULL, value, NULL, PASS_COPY_RESULT);
            if (!copied) return base_fail_memory(context->report);
            ir_graph_set_result(graph, i, copied);
        }
    }
    return BASE_OK;
}
