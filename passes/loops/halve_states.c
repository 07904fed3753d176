/* SPDX-License-Identifier: Apache-2.0 */
/* halve_states.c: states in float that grow from run to run are kept in float16 or bfloat16, where that is asked for.
 *
 *     run(%x: float32[past,1,6,64]) { %z = Concat(%x, %y) {axis = 0}  %t = Transpose(%z)  %s = MatMul(%q, %t)  yield %z }
 *  => run(%x: float16[past,1,6,64]) { %h: float16 = Cast(%y)  %z: float16 = Concat(%x, %h) {axis = 0}
 *                                     %f: float32 = Cast(%z)  %t = Transpose(%f)  %s = MatMul(%q, %t)  yield %z }
 *
 * What is appended is rounded once. Who reads the state reads floats again, through one Cast; attention then reads the halves themselves
 * (fuse_attention.c), which is what this is for: a token against a long cache takes as long as the cache takes to be read. So a state is
 * halved where all its readers are products or attention, ask for its extents, or hand it out. Others stay, and so do states of other
 * types. The state has the new type for everybody: who sets, gets or saves it, and in reports.
 *
 * Needs: types, caches carried with the axis first along which they grow. Breaks: nothing. Guarantees: types of all values.
 * Nothing changes where pass_options.state_type is OP_NONE.
 */
#include "ir/loop.h"
#include "passes/graph/graph.h"
#include "passes/loops/loops.h"

typedef struct cache {
    ir_node *concat;
    ir_value *parameter, *grown, *initial;
    uint32_t result; /* of main: what the state becomes */
} cache;

/* ---- who reads it ---------------------------------------------------------------------------------------- */

static bool is_product(const ir_use *use) {
    return use->node && ((use->node->code == OP_MATMUL && use->index < 2) ||
                         (use->node->code == OP_ATTENTION && (use->index == 1 || use->index == 2)));
}

/* A reader that does not mind: one that would read a Cast, or to which the type does not matter. */
static bool is_reader(const cache *c, const ir_use *use) {
    if (!use->node) return true; /* it is handed on, or out */
    if (use->node->code == OP_SHAPE || use->node == c->concat || is_product(use)) return true;
    if (use->node->code != OP_TRANSPOSE || !use->node->outputs[0]) return false;
    for (const ir_use *each = use->node->outputs[0]->uses; each; each = each->next)
        if (!is_product(each)) return false;
    return true;
}

static bool read_cache(const ir_loop *run, uint32_t index, cache *c) {
    const ir_loop_carried carried = ir_loop_carry(run, index);
    ir_loop_growth grows;
    if (carried.parameter->type.dtype != OP_FLOAT || !ir_loop_grows(run, index, &grows)) return false;
    *c = (cache){.concat = grows.concat,
                 .parameter = carried.parameter,
                 .grown = carried.replacement,
                 .initial = carried.initial,
                 .result = run->first_result + index};
    for (const ir_use *use = c->parameter->uses; use; use = use->next)
        if (!is_reader(c, use)) return false;
    for (const ir_use *use = c->grown->uses; use; use = use->next)
        if (!is_reader(c, use) || use->node == c->concat) return false;
    return true;
}

/* ---- what becomes of it ---------------------------------------------------------------------------------- */

/* Those who read the value as floats read `floats`. */
static bool redirect(const cache *c, ir_value *value, ir_value **floats, pass_context *context) {
    ir_graph *main = context->module->main;
    for (ir_use *use = value->uses, *next; use; use = next) {
        next = use->next;
        const bool kept = use->node ? use->node == c->concat || use->node->code == OP_SHAPE ||
                                          (*floats && use->node == (*floats)->node)
                                    : use->graph == main && use->index == c->result;
        if (kept) continue;
        if (!*floats) {
            ir_node *before = value == c->grown ? c->concat->next : main->first;
            *floats = pass_cast(main, before, c->concat->path, value, OP_FLOAT);
            if (!*floats) return false;
            next = value->uses; /* from the beginning: uses are another list now */
            continue;
        }
        if (use->node ? !ir_node_set_input(use->node, use->index, *floats)
                      : (ir_graph_set_result(use->graph, use->index, *floats), false))
            return false;
    }
    return true;
}

static bool halve(pass_context *context, const cache *c) {
    const op_dtype dtype = context->options->state_type;
    ir_value *floats[2] = {NULL, NULL};
    for (uint32_t i = 1; i < c->concat->input_count; i++) {
        ir_value *part = pass_cast(c->concat->graph, c->concat, c->concat->path, ir_input(c->concat, i), dtype);
        if (!part || !ir_node_set_input(c->concat, i, part)) return false;
    }
    c->parameter->type.dtype = c->grown->type.dtype = c->initial->type.dtype = dtype;
    return redirect(c, c->parameter, &floats[0], context) && redirect(c, c->grown, &floats[1], context);
}

base_status pass_halve_states(pass_context *context) {
    ir_module *module = context->module;
    if (!module->run || context->options->state_type == OP_NONE) return BASE_OK;
    const ir_loop run = ir_loop_of(module->run);
    for (uint32_t i = 0; i < run.carried; i++) {
        cache c;
        if (read_cache(&run, i, &c) && !halve(context, &c)) return base_fail_memory(context->report);
    }
    return BASE_OK;
}
