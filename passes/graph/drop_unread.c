/* SPDX-License-Identifier: Apache-2.0 */
/* drop_unread.c: what loops and branches carry, stack and make for nobody goes.
 *
 *     %o, _, _ = Loop(%n, _, %a, %b) { graph body(%i, %k, %x, %y) { %r = Tanh(%x)  %s = Exp(%y)  yield %k, %r, %s, %y } }
 *  => %o = Loop(%n, _, %a) { graph body(%i, %k, %x) { %r = Tanh(%x)  yield %k, %r } }
 *
 *     %o, _ = If(%c) { graph then() { %p = Neg(%x)  yield %p, %b } ... }   =>   %o = If(%c) { graph then() { %p = Neg(%x)  yield %p } ... }
 *
 * What is wanted is found from the model's outputs backwards, through the results of sub-graphs and round the loops: a carried
 * value is wanted if the loop's output is, or if something wanted in the body reads the parameter. The slice of a scanned tensor
 * that nobody reads goes where the trip count alone says how often the loop runs.
 *
 * Needs: types, folded shapes. Breaks: that somebody reads every node. Guarantees: every result of a branch or a body is read by somebody, or ends the loop.
 */
#include "ir/loop.h"
#include "passes/graph/graph.h"

typedef struct marker {
    pass_context *context;
    bool *wanted;  /* by value id */
    bool *reached; /* by node id: it runs */
    bool **
        dropped; /* by node id, of control nodes: which carried values, stacks, scanned tensors (or outputs) go */
    const ir_value **open;
    size_t open_count;
} marker;

/* ---- what is wanted ------------------------------------------------------------------------------------ */

static void want(marker *m, const ir_value *value) {
    if (!value || m->wanted[value->id.index]) return;
    m->wanted[value->id.index] = true;
    m->open[m->open_count++] = value;
}

/* How often the loop runs does not depend on what it scans. */
static bool is_counted_without(const ir_loop *loop) {
    return ir_loop_most_trips(loop) >= 0 && ir_loop_trips(loop) == ir_loop_most_trips(loop);
}

static void reach(marker *m, const ir_node *node);

static void reach_effects(marker *m, const ir_graph *graph) {
    for (const ir_node *node = graph->first; node; node = node->next)
        if (op_schema_of(node->code)->flags & OP_FLAG_EFFECT) reach(m, node);
}

/* What a node reads whichever of its outputs is wanted. */
static void reach(marker *m, const ir_node *node) {
    ir_loop loop;
    if (m->reached[node->id.index]) return;
    m->reached[node->id.index] = true;
    const bool is_loop = ir_loop_read(node, &loop);
    for (uint32_t i = 0; i < (is_loop ? 2 : node->input_count); i++) want(m, ir_input(node, i));
    if (is_loop) want(m, loop.body->results[0]->value);
    for (uint32_t i = 0; is_loop && i < loop.scanned && !is_counted_without(&loop); i++)
        want(m, ir_loop_scan(&loop, i).whole);
    for (uint32_t g = 0; g < node->graph_count; g++) reach_effects(m, node->graphs[g]);
}

static void follow(marker *m, const ir_value *value) {
    ir_loop loop;
    if (value->kind == IR_RESULT_OF_NODE) {
        const ir_node *node = value->node;
        const bool is_loop = ir_loop_read(node, &loop);
        reach(m, node);
        for (uint32_t g = 0; g < node->graph_count; g++)
            want(m, node->graphs[g]->results[value->index + is_loop]->value);
        if (is_loop && value->index < loop.carried) want(m, ir_loop_carry(&loop, value->index).initial);
    } else if (value->kind == IR_PARAMETER && value->index >= 2 && ir_loop_around(value->graph, &loop) &&
               !loop.runs) {
        want(m, ir_input(loop.node, value->index));
        if (value->index - 2 < loop.carried) want(m, ir_loop_carry(&loop, value->index - 2).replacement);
    }
}

static void mark(marker *m) {
    const ir_graph *main = m->context->module->main;
    for (uint32_t i = 0; i < main->result_count; i++) want(m, main->results[i]->value);
    reach_effects(m, main);
    while (m->open_count) follow(m, m->open[--m->open_count]);
}

static bool is_wanted(const marker *m, const ir_value *value) {
    return value && m->wanted[value->id.index];
}

/* Which parts of a control node go. */
static bool choose(marker *m, const ir_node *node) {
    ir_loop loop;
    const bool is_loop = ir_loop_read(node, &loop);
    bool *dropped = BASE_ARRAY(m->context->scratch, bool, (size_t)node->output_count + node->input_count);
    m->dropped[node->id.index] = dropped;
    for (uint32_t i = 0; dropped && i < node->output_count; i++)
        dropped[i] = !is_wanted(m, node->outputs[i]) &&
                     !(is_loop && i < loop.carried && is_wanted(m, ir_loop_carry(&loop, i).parameter));
    for (uint32_t i = 0; dropped && is_loop && i < loop.scanned; i++)
        dropped[node->output_count + i] =
            !is_wanted(m, ir_loop_scan(&loop, i).slice) && is_counted_without(&loop);
    return dropped != NULL;
}

/* ---- what goes ----------------------------------------------------------------------------------------- */

static bool shorten_declared(pass_context *context, ir_node *node, uint32_t count, const bool *dropped) {
    const ir_loop loop = ir_loop_of(node);
    op_shape *shapes = BASE_ARRAY(context->scratch, op_shape, count);
    uint32_t kept = 0;
    for (uint32_t i = 0; shapes && i < count; i++)
        if (!dropped[i]) shapes[kept++] = ir_loop_declared(&loop, i);
    return shapes && ir_loop_declare(context->module, node, kept, shapes);
}

/* Without the entries that are dropped of lists with an entry for each scanned or stacked tensor. */
static bool shorten_lists(pass_context *context, ir_node *loop, bool stacks, uint32_t count,
                          const bool *dropped) {
    const char *const names[2] = {stacks ? "ouro.scan_output_axes" : "ouro.scan_input_axes",
                                  stacks ? "ouro.scan_output_directions" : "ouro.scan_input_directions"};
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) kept += !dropped[i];
    if (kept == count) return true;
    int64_t *entries = BASE_ARRAY(context->scratch, int64_t, count);
    if (!entries) return false;
    for (int n = 0; n < 2; n++) {
        if (!op_attribute_find(&loop->attributes, names[n])) continue;
        op_attribute list = {.name = names[n], .kind = OP_ATTRIBUTE_INTS, .as.integers = entries};
        for (uint32_t i = 0; i < count; i++)
            if (!dropped[i]) entries[list.count++] = op_attribute_entry(&loop->attributes, names[n], i);
        if (!ir_attribute_set(context->module, &loop->attributes, &list)) return false;
    }
    if (stacks && !shorten_declared(context, loop, count, dropped)) return false;
    const op_attribute fewer = {.name = stacks ? "ouro.scan_outputs" : "ouro.scan_inputs",
                                .kind = OP_ATTRIBUTE_INT,
                                .count = 1,
                                .as.integer = kept};
    return ir_attribute_set(context->module, &loop->attributes, &fewer);
}

/* Results first: after that only nodes that nobody wants read what goes. */
static bool drop_results(const marker *m, ir_node *node) {
    const bool *dropped = m->dropped[node->id.index];
    const ir_loop loop = ir_loop_of(node);
    if (loop.body && !shorten_lists(m->context, node, true, loop.stacked, dropped + loop.carried))
        return false;
    if (loop.body && !shorten_lists(m->context, node, false, loop.scanned, dropped + node->output_count))
        return false;
    for (uint32_t i = node->output_count; i-- > 0;)
        for (uint32_t g = 0; dropped[i] && g < node->graph_count; g++)
            ir_graph_remove_result(node->graphs[g], i + (node->code == OP_LOOP));
    return true;
}

/* The parameters of a body, when the nodes that read them have gone. */
static void drop_parameters(const marker *m, ir_node *loop, uint32_t carried) {
    const bool *dropped = m->dropped[loop->id.index];
    for (uint32_t i = loop->input_count; i-- > 2;) {
        const uint32_t part = i - 2 < carried ? i - 2 : loop->output_count + i - 2 - carried;
        if (!dropped[part]) continue;
        ir_graph_remove_parameter(loop->graphs[0], i);
        ir_node_remove_input(loop, i);
    }
}

/* The nodes that nobody wants, and the outputs of others; backwards, so that readers go before what they read. */
static void drop_nodes(const marker *m, ir_graph *graph) {
    for (ir_node *node = graph->last, *previous; node; node = previous) {
        previous = node->previous;
        if (!m->reached[node->id.index]) {
            ir_node_remove(node);
            continue;
        }
        const bool *dropped = m->dropped[node->id.index];
        for (uint32_t i = node->output_count; dropped && i-- > 0;)
            if (dropped[i]) ir_node_remove_output(node, i);
    }
}

base_status pass_drop_unread(pass_context *context) {
    const ir_module *module = context->module;
    base_arena *scratch = context->scratch;
    size_t graph_count;
    ir_graph **graphs = pass_graphs_outermost_first(module, scratch, &graph_count);
    uint32_t *carried = BASE_ARRAY(scratch, uint32_t, module->node_count);
    marker m = {.context = context,
                .wanted = BASE_ARRAY(scratch, bool, module->value_count),
                .reached = BASE_ARRAY(scratch, bool, module->node_count),
                .dropped = BASE_ARRAY(scratch, bool *, module->node_count),
                .open = BASE_ARRAY(scratch, const ir_value *, module->value_count)};
    if (!graphs || !carried || !m.wanted || !m.reached || !m.dropped || !m.open)
        return base_fail_memory(context->report);
    mark(&m);
    for (size_t g = 0; g < graph_count; g++) {
        for (ir_node *node = graphs[g]->first; node; node = node->next) {
            if (!node->graph_count) continue;
            carried[node->id.index] = ir_loop_of(node).carried;
            if (!choose(&m, node) || !drop_results(&m, node)) return base_fail_memory(context->report);
        }
    }
    for (size_t g = graph_count; g-- > 0;) {
        ir_node *owner = ir_graph_is_run(graphs[g]) ? NULL : graphs[g]->owner;
        if (owner && !m.reached[owner->id.index]) continue; /* it goes as a whole */
        drop_nodes(&m, graphs[g]);
        if (owner && owner->code == OP_LOOP) drop_parameters(&m, owner, carried[owner->id.index]);
    }
    return BASE_OK;
}
