/* SPDX-License-Identifier: Apache-2.0 */
/* slice_iterations.c: the slice of one step that a loop takes in each iteration has a known size.
 *
 *     loop(%n) { %e = Add(%i, 1)  %t: float32[?,8] = Slice(%x, [%i], [%e]) }        %x: float32[n,8]
 *  => loop(%n) { %t: float32[1,8] = Gather(%x, [%i]) }
 *
 * Slice cuts off what lies outside of its input, so that its size would be known in each iteration only, and memory
 * for it taken then. Where the loop certainly ends before the input does there is always one step, as Gather gives.
 *
 * Needs: types, folded shapes. Breaks: that somebody reads every node. Guarantees: types, which infer-shapes then knows
 * better.
 */
#include "passes/loops/counters.h"
#include "passes/loops/loops.h"

/* ---- slices -------------------------------------------------------------------------------------------- */

/* What a Slice takes, entry by entry, if one entry is a single step at a counter. */
typedef struct slice {
    int32_t entries, moving;
    int64_t starts[OP_MAX_RANK], ends[OP_MAX_RANK], axes[OP_MAX_RANK];
    loop_position at; /* of the start of the moving entry */
} slice;

static bool read_slice(const ir_node *node, slice *s) {
    const ir_value *data = ir_input(node, 0), *starts = ir_input(node, 1), *ends = ir_input(node, 2),
                   *axes = ir_input(node, 3), *steps = ir_input(node, 4);
    int64_t entries;
    *s = (slice){.moving = -1};
    if (!data || !starts || !ends || data->type.kind != OP_KIND_TENSOR || data->type.shape.rank < 1 ||
        starts->type.shape.rank != 1 || ends->type.shape.rank != 1 ||
        !op_shape_elements(&starts->type.shape, &entries) || entries < 1 || entries > OP_MAX_RANK)
        return false;
    s->entries = (int32_t)entries;
    for (int32_t i = 0; i < s->entries; i++) {
        loop_position start, end;
        int64_t axis = i, step = 1;
        int32_t normal;
        if ((axes && !loop_number_of(axes, i, &axis)) ||
            (steps && (!loop_number_of(steps, i, &step) || step != 1)) ||
            !op_axis(axis, data->type.shape.rank, &normal) || !loop_position_of(starts, i, &start) ||
            !loop_position_of(ends, i, &end) || start.counter != end.counter)
            return false;
        s->starts[i] = start.offset;
        s->ends[i] = end.offset;
        s->axes[i] = normal;
        if (!start.counter) continue;
        if (s->moving >= 0 || end.offset == INT64_MIN || end.offset - 1 != start.offset) return false;
        s->moving = i;
        s->at = start;
        s->at.narrow |= end.narrow;
    }
    return s->moving >= 0;
}

/* One step that is there in every iteration. */
static bool is_whole(const slice *s, const ir_value *data) {
    const int64_t extent = data->type.shape.dims[s->axes[s->moving]];
    int64_t first, begin;
    if (!loop_is_counter(s->at.counter, &first) || __builtin_add_overflow(first, s->at.offset, &begin) ||
        begin < 0)
        return false;
    return loop_stays_below(&s->at, extent);
}

static ir_value *integers(pass_context *context, const int64_t *values, int32_t count) {
    const op_type type = {.dtype = OP_INT64, .shape = {.rank = 1, .dims = {count}}};
    return ir_constant_copy(context->module, "slice", &type, values, (size_t)count * sizeof *values);
}

static ir_value *make(const ir_node *of, op_code code, op_attributes attributes, uint32_t count,
                      ir_value *const *inputs, const op_type *type) {
    ir_node *node =
        ir_node_new(of->graph, (ir_node *)(uintptr_t)of, code, of->name, of->path, attributes, count, inputs);
    return node ? ir_node_add_output(node, of->outputs[0]->name, type) : NULL;
}

/* The entry takes all of its axis. */
static bool takes_all(const slice *s, int32_t entry, const ir_value *data) {
    const int64_t extent = data->type.shape.dims[s->axes[entry]];
    return s->starts[entry] == 0 && s->ends[entry] >= (extent >= 0 ? extent : INT32_MAX);
}

static bool rewrite(pass_context *context, ir_node *node, const slice *s) {
    ir_value *data = ir_input(node, 0), *index = ir_input(node, 1);
    const int64_t axis = s->axes[s->moving], first = s->moving, next = first + 1;
    int64_t rest[3][OP_MAX_RANK];
    int32_t count = 0;
    for (int32_t i = 0; i < s->entries; i++) {
        if (i == s->moving || takes_all(s, i, data)) continue;
        rest[0][count] = s->starts[i];
        rest[1][count] = s->ends[i];
        rest[2][count++] = s->axes[i];
    }
    if (s->entries > 1) {
        const op_type one = {.dtype = index->type.dtype, .shape = {.rank = 1, .dims = {1}}};
        ir_value *entry[3] = {index};
        entry[1] = integers(context, &first, 1);
        entry[2] = integers(context, &next, 1);
        index = entry[1] && entry[2] ? make(node, OP_SLICE, (op_attributes){0}, 3, entry, &one) : NULL;
    }
    const op_attribute along = {.name = "axis", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = axis};
    op_attributes attributes = {0};
    op_type type = data->type;
    type.shape.dims[axis] = 1;
    if (!index || !ir_attribute_set(context->module, &attributes, &along)) return false;
    ir_value *taken = make(node, OP_GATHER, attributes, 2, (ir_value *[]){data, index}, &type);
    if (taken && count) {
        type = node->outputs[0]->type;
        type.shape.dims[axis] = 1;
        ir_value *inputs[4] = {taken};
        for (int i = 0; i < 3; i++) inputs[1 + i] = integers(context, rest[i], count);
        taken = inputs[1] && inputs[2] && inputs[3]
                    ? make(node, OP_SLICE, (op_attributes){0}, 4, inputs, &type)
                    : NULL;
    }
    if (!taken) return false;
    ir_value_replace(node->outputs[0], taken);
    return true;
}

base_status pass_slice_iterations(pass_context *context) {
    const size_t count = context->module->node_count;
    for (size_t n = 1; n < count; n++) {
        ir_node *node = context->module->nodes[n];
        slice s;
        if (!node || node->code != OP_SLICE || !node->outputs[0] ||
            node->outputs[0]->type.kind != OP_KIND_TENSOR ||
            node->outputs[0]->type.shape.rank != ir_input(node, 0)->type.shape.rank ||
            !read_slice(node, &s) || !is_whole(&s, ir_input(node, 0)))
            continue;
        if (!rewrite(context, node, &s)) return base_fail_memory(context->report);
    }
    return BASE_OK;
}
