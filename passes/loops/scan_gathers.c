/* SPDX-License-Identifier: Apache-2.0 */
/* scan_gathers.c: an element of a tensor from outside of a loop, taken at the loop's counter, is scanned.
 *
 *     loop(%n) { graph body(%i, %k, %x) { %t: float32[1,8] = Gather(%w, %i) {axis = 1} ... } }        %w: float32[1,n,8]
 *  => loop(%n, %w) { graph body(%i, %k, %x, %t) { ... } }                                            scanned along axis 1
 *
 * A slice of what is scanned has an address that moves on with every iteration; Gather copies it. Only where slices lie together
 * (every extent before the axis is 1), so that they need not be copied either, or where an elementwise operator makes the tensor for this reader
 * alone, as slices of it can be made in the body then (sink-scans); and where the loop certainly ends before the tensor
 * does: then to scan it does not change how often the loop runs. The extent may have a name only, which is that of the trip count.
 *
 * Needs: types; what iterations slice is scanned already. Breaks: that somebody reads every node. Guarantees: types.
 */
#include "ir/loop.h"
#include "ir/operators/fused.h"
#include "passes/loops/counters.h"
#include "passes/loops/loops.h"
#include "passes/loops/scans.h"

enum { DEEPEST = 16 };

/* Slices along the axis lie together. */
static bool slices_are_whole(const op_shape *shape, int32_t axis) {
    for (int32_t d = 0; d < axis; d++)
        if (shape->dims[d] != 1) return false;
    return true;
}

/* An elementwise operator makes the tensor for one reader, of operands some of which are smaller, or are made so. */
static bool is_spread(const ir_value *whole, int deep) {
    const ir_node *node = whole->node;
    bool smaller = false;
    if (deep == DEEPEST || !node || node->output_count != 1 || !op_is_fusible(node->code) ||
        whole->uses->next || !op_shape_known(&whole->type.shape))
        return false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const ir_value *input = ir_input(node, i);
        if (input)
            smaller |= !op_shape_equal(&input->type.shape, &whole->type.shape) || is_spread(input, deep + 1);
    }
    return smaller;
}

/* What a Gather takes, if that can be scanned by this loop. */
static bool reads_slice(const ir_node *node, ir_loop *loop, int32_t *axis) {
    const ir_value *whole = ir_input(node, 0), *index = ir_input(node, 1);
    loop_position at;
    int64_t elements, first;
    if (node->code != OP_GATHER || !node->outputs[0] || whole->type.kind != OP_KIND_TENSOR ||
        whole->type.dtype == OP_STRING || whole->type.shape.rank < 1 ||
        !op_shape_elements(&index->type.shape, &elements) || elements != 1 || index->type.shape.rank > 1 ||
        !op_axis(op_attribute_integer(&node->attributes, "axis", 0), whole->type.shape.rank, axis))
        return false;
    if (!slices_are_whole(&whole->type.shape, *axis) && !is_spread(whole, 0)) return false;
    /* Slices have bytes, and these are known: memory that is taken for each would be no less than what Gather takes. */
    size_t bytes;
    const op_type slice = loop_scan_slice_type(&whole->type, *axis);
    if (!op_type_bytes(&slice, &bytes) || bytes == 0 || whole->type.shape.dims[*axis] == 0) return false;
    if (!loop_position_of(index, 0, &at) || !at.counter || at.offset != 0 ||
        !loop_is_counter(at.counter, &first) || first != 0 ||
        !loop_stays_below(&at, whole->type.shape.dims[*axis]) || !ir_loop_around(at.counter->graph, loop) ||
        loop->runs)
        return false;
    return !whole->graph || !ir_graph_encloses(loop->body, whole->graph);
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
        ir_value *whole = ir_input(node, 0), *slice = loop_scan_find(&loop, whole, axis, false);
        if (!slice) slice = loop_scan_add(context, &loop, whole, axis, false);
        ir_value *made = slice ? shaped(context, node, slice, axis) : NULL;
        if (!made) return base_fail_memory(context->report);
        ir_value_replace(node->outputs[0], made);
        ir_node_remove(node);
    }
    return BASE_OK;
}
