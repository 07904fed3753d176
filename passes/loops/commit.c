/* SPDX-License-Identifier: Apache-2.0 */
/* commit.c: implements commit.h. */
#include "passes/loops/commit.h"
#include "ir/operators/indices.h"
#include <string.h>

enum { MOST_DEPTH = 12 }; /* how far back it is looked whether two values are made in the same way */

static bool is_sized(const ir_value *value) {
    size_t bytes;
    return !value || op_type_bytes(&value->type, &bytes);
}

/* What the operator looks at is a constant: it fails always, or never. */
static bool is_certain(const ir_node *node) {
    uint32_t first, end;
    op_checked_inputs(node->code, node->input_count, &first, &end);
    for (uint32_t i = first; i < node->input_count && i < end; i++)
        if (ir_input(node, i) && !ir_input(node, i)->constant) return false;
    return true;
}

static bool same_attributes(const ir_node *a, const ir_node *b) {
    if (a->attributes.count != b->attributes.count) return false;
    for (size_t i = 0; i < a->attributes.count; i++) {
        const op_attribute *x = &a->attributes.items[i],
                           *y = op_attribute_find(&b->attributes, a->attributes.items[i].name);
        if (!y || x->kind != y->kind) return false;
        if (x->kind == OP_ATTRIBUTE_INT && x->as.integer == y->as.integer) continue;
        if (x->kind == OP_ATTRIBUTE_INTS && x->count == y->count &&
            (!x->count || memcmp(x->as.integers, y->as.integers, x->count * sizeof *x->as.integers) == 0))
            continue;
        if (x->kind != OP_ATTRIBUTE_STRING || x->as.text.length != y->as.text.length ||
            memcmp(x->as.text.data, y->as.text.data, x->as.text.length) != 0)
            return false;
    }
    return true;
}

static bool same_constant(const ir_value *a, const ir_value *b) {
    if (!a || !b || !a->constant || !b->constant) return false;
    const op_tensor *x = &a->constant->tensor, *y = &b->constant->tensor;
    return x->type.dtype == y->type.dtype && x->type.dtype != OP_STRING &&
           op_shape_equal(&x->type.shape, &y->type.shape) && x->bytes == y->bytes &&
           (!x->bytes || memcmp(x->data, y->data, x->bytes) == 0);
}

/* The same value, or made in the same way of the same values. */
static bool same_value(const ir_value *a, const ir_value *b, int depth) {
    if (a == b) return true;
    if (!a || !b || a->constant || b->constant || !a->node || !b->node || depth == 0)
        return same_constant(a, b);
    const ir_node *x = a->node, *y = b->node;
    if (x->code != y->code || a->index != b->index || x->graph != y->graph ||
        x->input_count != y->input_count ||
        op_schema_of(x->code)->flags & (OP_FLAG_EFFECT | OP_FLAG_GRAPHS) || !same_attributes(x, y))
        return false;
    for (uint32_t i = 0; i < x->input_count; i++)
        if (!same_value(ir_input(x, i), ir_input(y, i), depth - 1)) return false;
    return true;
}

static bool same_shape(const ir_value *a, const ir_value *b) {
    return a && b && op_shape_known(&a->type.shape) && op_shape_equal(&a->type.shape, &b->type.shape);
}

/* Two nodes of one operator whose indices, inputs [first, end), are the same numbers, for data of the same shape. */
static bool same_indices(const ir_node *a, const ir_node *b, uint32_t first, uint32_t end) {
    if (a->input_count != b->input_count) return false;
    for (uint32_t i = 0; i < a->input_count && i < end; i++) {
        if (i < first ? !same_shape(ir_input(a, i), ir_input(b, i))
                      : !same_value(ir_input(a, i), ir_input(b, i), MOST_DEPTH))
            return false;
    }
    return true;
}

/* A node that ran before has looked at the same. */
static bool was_checked(const loop_info *info, const ir_node *node) {
    uint32_t first, end;
    if (!op_index_inputs(node->code, &first, &end)) return false;
    for (ir_node **at = info->memory->order.nodes[info->loop.body->id.index]; *at && *at != node; at++) {
        const ir_node *other = *at;
        if (other->code == node->code && other->graph == node->graph && same_attributes(other, node) &&
            same_indices(other, node, first, end))
            return true;
    }
    return false;
}

static bool can_fail(const loop_info *info, const ir_node *node);

static bool graphs_can_fail(const loop_info *info, const ir_node *node) {
    ir_loop loop;
    if (ir_loop_read(node, &loop) && ir_loop_trips(&loop) < 0 && (loop.scanned || loop.stacked)) return true;
    for (uint32_t g = 0; g < node->graph_count; g++)
        for (const ir_node *inner = node->graphs[g]->first; inner; inner = inner->next)
            if (can_fail(info, inner)) return true;
    return false;
}

/* Because of what it reads, or because there is no memory for what it makes. */
static bool can_fail(const loop_info *info, const ir_node *node) {
    const unsigned flags = op_schema_of(node->code)->flags;
    for (uint32_t i = 0; i < node->input_count; i++)
        if (!is_sized(ir_input(node, i))) return true;
    for (uint32_t i = 0; i < node->output_count; i++)
        if (!is_sized(node->outputs[i])) return true;
    if (flags & OP_FLAG_GRAPHS) return graphs_can_fail(info, node);
    if (flags & (OP_FLAG_DYNAMIC | OP_FLAG_LISTS)) return true;
    return flags & OP_FLAG_CHECKED && !is_certain(node) && !was_checked(info, node);
}

int64_t loop_last_failure(const loop_info *info) {
    int64_t last = -1;
    if (!info->loop.runs) return -1;
    for (ir_node **at = info->memory->order.nodes[info->loop.body->id.index]; *at; at++) {
        if (!can_fail(info, *at)) continue;
        /* A node with graphs may fail when part of it has run. */
        last = 2 * info->numbers[(*at)->id.index] + ((*at)->graph_count > 0);
    }
    return last;
}
