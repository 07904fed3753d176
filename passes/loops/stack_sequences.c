/* SPDX-License-Identifier: Apache-2.0 */
/* stack_sequences.c: a sequence to which a loop appends, and which is joined after it, becomes a stack.
 *
 *     %e = SequenceEmpty()
 *     %s = Loop(%n, _, %e) { graph body(%i, %k, %p) { ...  %q = SequenceInsert(%p, %y)  yield %k, %q } }
 *     %r = ConcatFromSequence(%s) {axis = 2, new_axis = 1}
 *  => _, %t = Loop(%n, _, %e) { graph body(%i, %k, %p) { ...  %q = SequenceInsert(%p, %y)  yield %k, %q, %y } }
 *     %r = Transpose(%t) {perm = [1, 2, 0]}
 *
 * A stack has its bytes in the plan, and its slices are made where they lie; elements of a sequence are allocated when they are
 * made, and copied when they are joined. Without new_axis the axis of the stack is merged with the one along which the elements
 * are joined, by a Reshape. All elements must have one shape that is known, or, with new_axis, known to be the same in all
 * iterations. Nobody but the loop's own SequenceInsert may read the sequence before it is complete. (Of a loop without iterations
 * the stack is empty, where to join an empty sequence is an error.)
 *
 * What becomes of the sequence is left to drop-unread.
 *
 * Needs: types, folded shapes. Breaks: that somebody reads every node. Guarantees: types, which are better known then.
 */
#include "ir/loop.h"
#include "passes/graph/graph.h"
#include "passes/loops/loops.h"

/* What is appended to carried value `index`, which begins empty, in every iteration; NULL where it is not like that. */
static ir_value *appended_to(const ir_loop *loop, uint32_t index) {
    const ir_loop_carried c = ir_loop_carry(loop, index);
    const ir_node *insert = c.replacement->node;
    if (c.parameter->type.kind != OP_KIND_SEQUENCE || !c.initial->node ||
        c.initial->node->code != OP_SEQUENCE_EMPTY || !insert || insert->code != OP_SEQUENCE_INSERT ||
        insert->graph != loop->body || ir_input(insert, 0) != c.parameter || ir_input(insert, 2))
        return NULL;
    if (!c.parameter->uses || c.parameter->uses->next || !c.replacement->uses || c.replacement->uses->next)
        return NULL;
    return ir_input(insert, 1);
}

/* The axes of an element can be told apart from run to run, but not from iteration to iteration. */
static bool has_one_shape(const op_type *type, bool by_name) {
    if (type->kind != OP_KIND_TENSOR || type->dtype == OP_STRING || type->shape.rank < 0 ||
        type->shape.rank >= OP_MAX_RANK)
        return false;
    for (int32_t d = 0; d < type->shape.rank; d++)
        if (type->shape.dims[d] == OP_DIM_UNKNOWN || (type->shape.dims[d] < 0 && !by_name)) return false;
    return true;
}

/* Everything that reads the sequence joins it. */
static bool is_joined(const ir_value *sequence, const op_type *element) {
    for (const ir_use *use = sequence->uses; use; use = use->next) {
        int32_t axis;
        if (!use->node || use->node->code != OP_CONCAT_FROM_SEQUENCE) return false;
        const bool added = op_attribute_integer(&use->node->attributes, "new_axis", 0) != 0;
        if (!has_one_shape(element, added) ||
            !op_axis(op_attribute_integer(&use->node->attributes, "axis", 0), element->shape.rank + added,
                     &axis))
            return false;
    }
    return sequence->uses != NULL;
}

/* ---- the stack ----------------------------------------------------------------------------------------- */

/* One entry more, a zero, where the loop has such a list. */
static bool extend_list(pass_context *context, ir_node *node, const char *name, uint32_t count) {
    if (!op_attribute_find(&node->attributes, name)) return true;
    int64_t *entries = BASE_ARRAY(context->scratch, int64_t, (size_t)count + 1);
    for (uint32_t i = 0; entries && i < count; i++)
        entries[i] = op_attribute_entry(&node->attributes, name, i);
    const op_attribute list = {
        .name = name, .kind = OP_ATTRIBUTE_INTS, .count = (size_t)count + 1, .as.integers = entries};
    return entries && ir_attribute_set(context->module, &node->attributes, &list);
}

/* One shape more, of which nothing is declared. */
static bool extend_declared(pass_context *context, ir_node *node, const ir_loop *loop) {
    op_shape *shapes = BASE_ARRAY(context->scratch, op_shape, (size_t)loop->stacked + 1);
    for (uint32_t i = 0; shapes && i < loop->stacked; i++) shapes[i] = ir_loop_declared(loop, i);
    if (shapes) shapes[loop->stacked].rank = -1;
    return shapes && ir_loop_declare(context->module, node, loop->stacked + 1, shapes);
}

/* A stack more, of this slice, along the first axis. */
static ir_value *add_stack(pass_context *context, ir_node *node, const ir_loop *loop, ir_value *slice) {
    op_type type = slice->type;
    for (int32_t d = type.shape.rank++; d > 0; d--) type.shape.dims[d] = type.shape.dims[d - 1];
    type.shape.dims[0] = ir_loop_extent(loop);
    const op_attribute count = {.name = "ouro.scan_outputs",
                                .kind = OP_ATTRIBUTE_INT,
                                .count = 1,
                                .as.integer = (int64_t)loop->stacked + 1};
    if (!extend_list(context, node, "ouro.scan_output_axes", loop->stacked) ||
        !extend_list(context, node, "ouro.scan_output_directions", loop->stacked) ||
        !extend_declared(context, node, loop) ||
        !ir_attribute_set(context->module, &node->attributes, &count) ||
        !ir_graph_add_result(loop->body, slice))
        return NULL;
    return ir_node_add_output(node, slice->name, &type);
}

static ir_value *make(pass_context *context, ir_node *before, op_code code, const op_attribute *attribute,
                      uint32_t count, ir_value *const *inputs, const op_type *type) {
    op_attributes attributes = {0};
    if (attribute && !ir_attribute_set(context->module, &attributes, attribute)) return NULL;
    ir_node *node =
        ir_node_new(before->graph, before, code, before->name, before->path, attributes, count, inputs);
    return node ? ir_node_add_output(node, before->outputs[0]->name, type) : NULL;
}

/* The stack with its first axis at `axis`. */
static ir_value *turn(pass_context *context, ir_node *join, ir_value *stack, int32_t axis) {
    int64_t order[OP_MAX_RANK];
    op_type type = stack->type;
    if (axis == 0) return stack;
    for (int32_t d = 0; d < type.shape.rank; d++) {
        order[d] = d < axis ? d + 1 : d == axis ? 0 : d;
        type.shape.dims[d] = stack->type.shape.dims[order[d]];
    }
    const op_attribute perm = {
        .name = "perm", .kind = OP_ATTRIBUTE_INTS, .count = (size_t)type.shape.rank, .as.integers = order};
    return make(context, join, OP_TRANSPOSE, &perm, 1, &stack, &type);
}

/* Axes `axis` and the next become one. */
static ir_value *merge(pass_context *context, ir_node *join, ir_value *stack, int32_t axis) {
    op_type type = stack->type;
    int64_t extents[OP_MAX_RANK] = {0}, merged;
    for (int32_t d = axis + 1; d + 1 < type.shape.rank; d++) type.shape.dims[d] = type.shape.dims[d + 1];
    type.shape.rank--;
    const int64_t count = stack->type.shape.dims[axis], each = stack->type.shape.dims[axis + 1];
    if (count < 0 || __builtin_mul_overflow(count, each, &merged)) merged = OP_DIM_UNKNOWN;
    type.shape.dims[axis] = merged;
    for (int32_t d = 0; d < type.shape.rank; d++) extents[d] = d == axis ? -1 : type.shape.dims[d];
    if (merged >= 0) extents[axis] = merged;
    const op_type list = {.dtype = OP_INT64, .shape = {.rank = 1, .dims = {type.shape.rank}}};
    ir_value *inputs[] = {stack, ir_constant_copy(context->module, "extents", &list, extents,
                                                  (size_t)type.shape.rank * sizeof *extents)};
    const op_attribute allow_zero = {
        .name = "allowzero", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = 1};
    return inputs[1] ? make(context, join, OP_RESHAPE, merged >= 0 ? &allow_zero : NULL, 2, inputs, &type)
                     : NULL;
}

static bool join(pass_context *context, ir_node *node, ir_value *stack) {
    const bool added = op_attribute_integer(&node->attributes, "new_axis", 0) != 0;
    int32_t axis = 0;
    (void)op_axis(op_attribute_integer(&node->attributes, "axis", 0), stack->type.shape.rank - !added, &axis);
    ir_value *joined = turn(context, node, stack, axis);
    if (joined && !added) joined = merge(context, node, joined, axis);
    if (!joined) return false;
    ir_value_replace(node->outputs[0], joined);
    ir_node_remove(node);
    return true;
}

/* The sequences of one loop. */
static bool convert(pass_context *context, ir_node *node, bool *changed) {
    ir_loop loop;
    if (!ir_loop_read(node, &loop) || loop.runs) return true;
    for (uint32_t i = 0; i < loop.carried; i++) {
        ir_value *sequence = node->outputs[i], *slice = appended_to(&loop, i);
        if (!sequence || !slice || !is_joined(sequence, &slice->type)) continue;
        ir_value *stack = add_stack(context, node, &loop, slice);
        loop = ir_loop_of(node);
        *changed = true;
        while (stack && sequence->uses)
            if (!join(context, sequence->uses->node, stack)) stack = NULL;
        if (!stack) return false;
    }
    return true;
}

/* What is made of a stack has a shape, where what is made of a sequence has none: other loops can be converted then. */
base_status pass_stack_sequences(pass_context *context) {
    const ir_module *module = context->module;
    base_status status = BASE_OK;
    for (bool changed = true; changed && status == BASE_OK;) {
        changed = false;
        for (size_t n = 1; n < module->node_count; n++)
            if (module->nodes[n] && !convert(context, module->nodes[n], &changed))
                return base_fail_memory(context->report);
        if (changed) status = pass_infer_shapes(context);
    }
    return status;
}
