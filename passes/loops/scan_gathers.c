/* SPDX-License-Identifier: Apache-2.0 */
/* scan_gathers.c: an element of a tensor from outside of a loop, taken at the loop's counter, is scanned.
 *
 *     loop(%n) { graph body(%i, %k, %x) { %t: float32[1,8] = Gather(%w, %i) {axis = 1} ... } }        %w: float32[1,n,8]
 *  => loop(%n, %w) { graph body(%i, %k, %x, %t) { ... } }                                            scanned along axis 1
 *
 * A slice of what is scanned has an address that moves on with every iteration; Gather copies it. Only where slices lie together
 * (every extent before the axis is 1), so that they need not be copied either, and where the loop certainly ends before the tensor
 * does: then to scan it does not change how often the loop runs.
 *
 * Needs: types; what iterations slice is scanned already. Breaks: that somebody reads every node. Guarantees: types.
 */
#include "ir/loop.h"
#include "passes/loops/counters.h"
#include "passes/loops/loops.h"

/* What a Gather takes, if that can be scanned by this loop. */
static bool reads_slice(const ir_node *node, ir_loop *loop, int32_t *axis) {
    const ir_value *whole = ir_input(node, 0), *index = ir_input(node, 1);
    loop_position at;
    int64_t elements, first;
    size_t bytes;
    if (node->code != OP_GATHER || !node->outputs[0] || whole->type.kind != OP_KIND_TENSOR ||
        whole->type.dtype == OP_STRING || !op_type_bytes(&whole->type, &bytes) || bytes == 0 ||
        !op_shape_elements(&index->type.shape, &elements) || elements != 1 || index->type.shape.rank > 1 ||
        !op_axis(op_attribute_integer(&node->attributes, "axis", 0), whole->type.shape.rank, axis))
        return false;
    for (int32_t d = 0; d < *axis; d++)
        if (whole->type.shape.dims[d] != 1) return false;
    if (!loop_position_of(index, 0, &at) || !at.counter || at.offset != 0 ||
        !loop_is_counter(at.counter, &first) || first != 0 ||
        !loop_stays_below(&at, whole->type.shape.dims[*axis]) || !ir_loop_around(at.counter->graph, loop) ||
        loop->runs)
        return false;
    return !whole->graph || !ir_graph_encloses(loop->body, whole->graph);
}

static ir_value *find_slice(const ir_loop *loop, const ir_value *whole, int32_t axis) {
    for (uint32_t i = 0; i < loop->scanned; i++) {
        const ir_loop_slices s = ir_loop_scan(loop, i);
        if (s.whole == whole && s.axis == axis && !s.backwards) return s.slice;
    }
    return NULL;
}

static bool set_list(pass_context *context, ir_node *node, const char *name, uint32_t count, int64_t last) {
    int64_t *entries = BASE_ARRAY(context->scratch, int64_t, (size_t)count + 1);
    for (uint32_t i = 0; entries && i < count; i++)
        entries[i] = op_attribute_entry(&node->attributes, name, i);
    if (entries) entries[count] = last;
    const op_attribute list = {
        .name = name, .kind = OP_ATTRIBUTE_INTS, .count = (size_t)count + 1, .as.integers = entries};
    return entries && ir_attribute_set(context->module, &node->attributes, &list);
}

static ir_value *scan(pass_context *context, const ir_loop *loop, ir_value *whole, int32_t axis) {
    ir_node *node = loop->body->owner;
    op_type type = whole->type;
    type.shape.rank--;
    for (int32_t d = axis; d < type.shape.rank; d++) type.shape.dims[d] = type.shape.dims[d + 1];
    const op_attribute count = {.name = "ouro.scan_inputs",
                                .kind = OP_ATTRIBUTE_INT,
                                .count = 1,
                                .as.integer = (int64_t)loop->scanned + 1};
    if (!set_list(context, node, "ouro.scan_input_axes", loop->scanned, axis) ||
        !set_list(context, node, "ouro.scan_input_directions", loop->scanned, 0) ||
        !ir_attribute_set(context->module, &node->attributes, &count) ||
        !ir_node_set_input(node, node->input_count, whole))
        return NULL;
    return ir_graph_add_parameter(loop->body, "slice", &type);
}

/* The slice as the Gather gives it: with an axis of extent 1 where the index is a vector. */
static ir_value *shaped(pass_context *context, ir_node *gather, ir_value *slice, int32_t axis) {
    const op_type *wanted = &gather->outputs[0]->type;
    if (wanted->shape.rank == slice->type.shape.rank) return slice;
    const int64_t at = axis;
    const op_type one = {.dtype = OP_INT64, .shape = {.rank = 1, .dims = {1}}};
    ir_value *inputs[] = {slice, ir_constant_copy(context->module, "axis", &one, &at, sizeof at)};
    ir_node *node = inputs[1] ? ir_node_new(gather->graph, gather, OP_UNSQUEEZE, gather->name, gather->path,
                                            (op_attributes){0}, 2, inputs)
                              : NULL;
    return node ? ir_node_add_output(node, gather->outputs[0]->name, wanted) : NULL;
}

base_status pass_scan_gathers(pass_context *context) {
    const size_t count = context->module->node_count;
    for (size_t n = 1; n < count; n++) {
        ir_node *node = context->module->nodes[n];
        ir_loop loop;
        int32_t axis;
        if (!node || !reads_slice(node, &loop, &axis)) continue;
        ir_value *whole = ir_input(node, 0), *slice = find_slice(&loop, whole, axis);
        if (!slice) slice = scan(context, &loop, whole, axis);
        ir_value *made = slice ? shaped(context, node, slice, axis) : NULL;
        if (!made) return base_fail_memory(context->report);
        ir_value_replace(node->outputs[0], made);
        ir_node_remove(node);
    }
    return BASE_OK;
}
