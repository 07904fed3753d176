/* SPDX-License-Identifier: Apache-2.0 */
/* stack_old_states.c: where a loop stacks the old state, the next one is made in the next slot.
 *
 *     %h, %s = Loop(10, _, %a) { graph body(%i, %k, %x) { %y = Tanh(%x)  yield %k, %y, %x } }
 *  => %h, %t = Loop(10, _, %a) { graph body(%i, %k, %x) { %y = Tanh(%x)  yield %k, %y, %y } }
 *     %u = Concat([%a], %t) {axis = 0}
 *     %s = Slice(%u, 0, 10)
 *
 * A stack of what a body makes is made where it lies, and its parameter is read there. A parameter that is stacked would be copied
 * in each iteration. Both are the same row, one place on: the initial value before all that the loop makes. So only the initial
 * value is copied, once, where it cannot be made there. The Concat and the Slice are aliases.
 *
 * This is done where only nodes read the stack, for the caller's buffer has no row for the last state, and where it is known how often the
 * loop runs. It stacks along the first axis, forwards.
 *
 * Needs: types, folded shapes. Breaks: that somebody reads every node. Guarantees: types.
 */
#include "ir/loop.h"
#include "passes/loops/loops.h"

/* Only nodes of the graph around the loop read it, and their sub-graphs. */
static bool is_read_by_nodes(const ir_value *stack) {
    for (const ir_use *use = stack->uses; use; use = use->next)
        if (!use->node) return false;
    return stack->uses != NULL;
}

/* The slices of a stack lie one after another along the first axis, from the first on. */
static bool is_forward(const ir_loop *loop, uint32_t index) {
    const ir_loop_slices stack = ir_loop_stack(loop, index);
    return stack.whole && stack.axis == 0 && !stack.backwards;
}

/* Stack `index` is of the old values of carried value *carried, of which the new ones are made in the body. */
static bool stacks_old(const ir_loop *loop, uint32_t index, uint32_t *carried) {
    const ir_loop_slices stack = ir_loop_stack(loop, index);
    if (!is_forward(loop, index) || !is_read_by_nodes(stack.whole)) return false;
    for (uint32_t i = 0; i < loop->carried; i++) {
        const ir_loop_carried c = ir_loop_carry(loop, i);
        if (c.parameter != stack.slice) continue;
        *carried = i;
        return ir_loop_is_static(loop, i) && c.replacement->kind == IR_RESULT_OF_NODE &&
               c.replacement->graph == loop->body && c.parameter->type.shape.rank < OP_MAX_RANK;
    }
    return false;
}

/* The stack of the new values: one that is there already, or the one that was of the old values. */
static uint32_t stack_of_new(const ir_loop *loop, uint32_t old, const ir_value *replacement) {
    for (uint32_t k = 0; k < loop->stacked; k++)
        if (is_forward(loop, k) && ir_loop_stack(loop, k).slice == replacement) return k;
    ir_graph_set_result(loop->body, loop->first_result + loop->carried + old,
                        (ir_value *)(uintptr_t)replacement);
    return old;
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

static ir_value *make(pass_context *context, const ir_node *loop, ir_node *before, op_code code,
                      const op_attribute *attribute, uint32_t count, ir_value *const *inputs,
                      const op_type *type) {
    op_attributes attributes = {0};
    if (attribute && !ir_attribute_set(context->module, &attributes, attribute)) return NULL;
    ir_node *node = ir_node_new(loop->graph, before, code, loop->name, loop->path, attributes, count, inputs);
    return node ? ir_node_add_output(node, loop->name, type) : NULL;
}

static ir_value *integer(pass_context *context, int64_t number) {
    const op_type type = {.dtype = OP_INT64, .shape = {.rank = 1, .dims = {1}}};
    return ir_constant_copy(context->module, "row", &type, &number, sizeof number);
}

/* The first `rows` rows of the initial value followed by those of `stack`. */
static ir_value *put_before(pass_context *context, const ir_node *loop, ir_node *before, ir_value *initial,
                            ir_value *stack, int64_t rows) {
    const op_attribute axis = {.name = "axis", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = 0};
    op_type row = stack->type, all = stack->type, kept = stack->type;
    row.shape.dims[0] = 1;
    all.shape.dims[0] = rows + 1;
    kept.shape.dims[0] = rows;
    ir_value *zero = integer(context, 0), *end = integer(context, rows);
    if (!zero || !end) return NULL;
    ir_value *parts[2] = {NULL, stack};
    parts[0] = make(context, loop, before, OP_UNSQUEEZE, NULL, 2, (ir_value *[]){initial, zero}, &row);
    ir_value *joined = parts[0] ? make(context, loop, before, OP_CONCAT, &axis, 2, parts, &all) : NULL;
    return joined ? make(context, loop, before, OP_SLICE, NULL, 4, (ir_value *[]){joined, zero, end, zero},
                         &kept)
                  : NULL;
}

static bool convert(pass_context *context, ir_node *node) {
    ir_loop loop;
    if (!ir_loop_read(node, &loop) || loop.runs) return true;
    const int64_t trips = ir_loop_trips(&loop);
    for (uint32_t k = 0; k < loop.stacked && trips > 0; k++) {
        uint32_t carried = 0;
        if (!stacks_old(&loop, k, &carried) || ir_loop_stack(&loop, k).whole->type.shape.dims[0] != trips)
            continue;
        const ir_loop_carried c = ir_loop_carry(&loop, carried);
        ir_value *old = ir_loop_stack(&loop, k).whole;
        ir_node *after = node->next;
        const uint32_t made = stack_of_new(&loop, k, c.replacement);
        ir_value *stack = ir_loop_stack(&loop, made).whole;
        ir_value *rows = put_before(context, node, after, c.initial, stack, trips);
        if (!rows) return false;
        ir_node *concat = ir_input(rows->node, 0)->node;
        ir_value_replace(old, rows);
        if (made == k && !ir_node_set_input(concat, 1, stack)) return false;
    }
    return true;
}

base_status pass_stack_old_states(pass_context *context) {
    const ir_module *module = context->module;
    const size_t count = module->node_count; /* without those that are made here */
    for (size_t n = 1; n < count; n++)
        if (module->nodes[n] && !convert(context, module->nodes[n])) return base_fail_memory(context->report);
    return BASE_OK;
}
