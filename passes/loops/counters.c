/* SPDX-License-Identifier: Apache-2.0 */
/* counters.c: implements counters.h. */
#include "passes/loops/counters.h"
#include "ir/loop.h"

enum { MOST_STEPS = 16 }; /* nodes between a counter and a slice */

/* ---- numbers and counters ------------------------------------------------------------------------------ */

static bool is_integer(const ir_value *value) {
    return value->type.kind == OP_KIND_TENSOR &&
           (value->type.dtype == OP_INT64 || value->type.dtype == OP_INT32);
}

/* Element `index` as a dimension: a number, a symbol, or unknown. */
static int64_t dim_of(const ir_value *value, int64_t index) {
    if (!value || !is_integer(value)) return OP_DIM_UNKNOWN;
    op_tensor tensor = {.type = value->type, .symbolic = value->symbolic};
    if (value->constant) tensor = value->constant->tensor;
    const op_call call = {.input_count = 1, .inputs = &tensor};
    return op_input_dim(&call, 0, index);
}

bool loop_number_of(const ir_value *value, int64_t index, int64_t *number) {
    if (!value || !is_integer(value)) return false;
    if (!value->constant) {
        *number = dim_of(value, index);
        return *number >= 0;
    }
    const op_call call = {.input_count = 1, .inputs = &value->constant->tensor};
    return op_input_integer(&call, 0, index, number);
}

/* The node adds one to the value. */
static bool is_next(const ir_node *node, const ir_value *value) {
    int64_t one;
    if (!node || node->code != OP_ADD) return false;
    const ir_value *a = ir_input(node, 0), *b = ir_input(node, 1);
    return (a == value && loop_number_of(b, 0, &one) && one == 1) ||
           (b == value && loop_number_of(a, 0, &one) && one == 1);
}

bool loop_is_counter(const ir_value *value, int64_t *first) {
    ir_loop loop;
    int64_t elements;
    if (value->kind != IR_PARAMETER || !ir_loop_around(value->graph, &loop) || loop.runs ||
        !is_integer(value))
        return false;
    if (!op_shape_elements(&value->type.shape, &elements) || elements != 1) return false;
    *first = 0;
    if (value->index == 0) return true;
    if (value->index < 2 || value->index - 2 >= loop.carried) return false;
    const ir_loop_carried c = ir_loop_carry(&loop, value->index - 2);
    return loop_number_of(c.initial, 0, first) && is_next(c.replacement->node, value);
}

static bool follow(const ir_value *value, int64_t index, int steps, loop_position *at) {
    int64_t elements, first;
    *at = (loop_position){0};
    if (!value || steps > MOST_STEPS || !is_integer(value)) return false;
    if (loop_number_of(value, index, &at->offset)) return true;
    if (loop_is_counter(value, &first)) {
        *at = (loop_position){value, 0, value->type.dtype == OP_INT32};
        return index == 0;
    }
    const ir_node *node = value->node;
    if (!node || !op_shape_elements(&value->type.shape, &elements) || index >= elements) return false;
    switch (node->code) {
    case OP_IDENTITY:
    case OP_RESHAPE:
    case OP_SQUEEZE:
    case OP_UNSQUEEZE:
    case OP_CAST:
        if (!follow(ir_input(node, 0), index, steps + 1, at)) return false;
        at->narrow |= value->type.dtype == OP_INT32;
        return true;
    case OP_ADD:
    case OP_SUB: {
        loop_position parts[2];
        for (uint32_t i = 0; i < 2; i++) {
            const ir_value *part = ir_input(node, i);
            int64_t own;
            if (!part || !op_shape_elements(&part->type.shape, &own) || (own != 1 && own != elements) ||
                !follow(part, own == 1 ? 0 : index, steps + 1, &parts[i]))
                return false;
        }
        if (parts[1].counter && (parts[0].counter || node->code == OP_SUB)) return false;
        at->counter = parts[0].counter ? parts[0].counter : parts[1].counter;
        at->narrow = parts[0].narrow || parts[1].narrow;
        return node->code == OP_ADD ? !__builtin_add_overflow(parts[0].offset, parts[1].offset, &at->offset)
                                    : !__builtin_sub_overflow(parts[0].offset, parts[1].offset, &at->offset);
    }
    case OP_CONCAT:
        if (value->type.shape.rank != 1) return false;
        for (uint32_t i = 0; i < node->input_count; i++) {
            const ir_value *part = ir_input(node, i);
            int64_t own;
            if (!part || !op_shape_elements(&part->type.shape, &own)) return false;
            if (index < own) return follow(part, index, steps + 1, at);
            index -= own;
        }
        return false;
    default:
        return false;
    }
}

bool loop_position_of(const ir_value *value, int64_t index, loop_position *at) {
    return follow(value, index, 0, at);
}

/* ---- how far a loop goes ------------------------------------------------------------------------------- */

/* bound + more <= extent, whatever the symbols are. */
static bool fits(int64_t bound, int64_t more, int64_t extent) {
    int64_t sum;
    if (bound == OP_DIM_UNKNOWN || extent == OP_DIM_UNKNOWN) return false;
    if (bound >= 0 && extent >= 0) return !__builtin_add_overflow(bound, more, &sum) && sum <= extent;
    return bound == extent && more <= 0;
}

/* The limit of a comparison, which is the same in all iterations: also as it was before the loop. */
static int64_t limit_of(const ir_value *limit) {
    for (int steps = 0; limit && steps < MOST_STEPS; steps++) {
        int64_t dim = dim_of(limit, 0);
        ir_loop loop;
        if (dim != OP_DIM_UNKNOWN) return dim;
        const ir_value *cast = limit->node && limit->node->code == OP_CAST ? ir_input(limit->node, 0) : NULL;
        if (cast && is_integer(cast)) {
            limit = cast;
            continue;
        }
        if (limit->kind != IR_PARAMETER || !ir_loop_around(limit->graph, &loop) || loop.runs ||
            limit->index < 2 || limit->index - 2 >= loop.carried)
            return OP_DIM_UNKNOWN;
        const ir_loop_carried c = ir_loop_carry(&loop, limit->index - 2);
        if (c.replacement != limit) return OP_DIM_UNKNOWN;
        limit = c.initial;
    }
    return OP_DIM_UNKNOWN;
}

/* Where the condition holds, the position (or number) is below the extent `later` iterations later. */
static bool implies(const ir_value *condition, const loop_position *at, int64_t later, int64_t extent,
                    int steps) {
    const ir_node *node = condition ? condition->node : NULL;
    loop_position small;
    int64_t then, more;
    if (!node || steps > MOST_STEPS) return false;
    if (node->code == OP_IDENTITY || node->code == OP_SQUEEZE || node->code == OP_RESHAPE)
        return implies(ir_input(node, 0), at, later, extent, steps + 1);
    if (node->code == OP_AND) {
        return implies(ir_input(node, 0), at, later, extent, steps + 1) ||
               implies(ir_input(node, 1), at, later, extent, steps + 1);
    }
    if (node->code != OP_LESS && node->code != OP_GREATER) return false;
    const ir_value *left = ir_input(node, node->code == OP_GREATER),
                   *limit = ir_input(node, node->code == OP_LESS);
    if (!left || (at->narrow && left->type.dtype != OP_INT32)) return false;
    /* left < limit, so counter + later = left - its offset + later < limit - its offset + later. */
    return loop_position_of(left, 0, &small) && small.counter == at->counter &&
           !__builtin_add_overflow(at->offset, later, &then) &&
           !__builtin_sub_overflow(then, small.offset, &more) && fits(limit_of(limit), more, extent);
}

bool loop_stays_below(const loop_position *at, int64_t extent) {
    const ir_value *counter = at->counter;
    const int64_t offset = at->offset;
    /* What passes through 32 bits may wrap around, but for what is compared in them: it never passes its limit. */
    const bool wraps = at->narrow && (extent < 0 || extent > INT32_MAX);
    ir_loop loop;
    if (!ir_loop_around(counter->graph, &loop) || loop.runs) return false;
    int64_t first, begin;
    if (!loop_is_counter(counter, &first) || __builtin_add_overflow(first, offset, &begin)) return false;
    if (!wraps && fits(dim_of(ir_input(loop.node, 0), 0), begin, extent)) return true;
    for (uint32_t i = 0; i < loop.scanned && !wraps; i++) {
        const ir_loop_slices scan = ir_loop_scan(&loop, i);
        if (scan.whole->type.kind == OP_KIND_TENSOR && scan.axis >= 0 &&
            fits(scan.whole->type.shape.dims[scan.axis], begin, extent))
            return true;
    }
    const bool begins = (extent >= 0 && begin < extent) ||
                        implies(ir_input(loop.node, 1), &(loop_position){.offset = begin}, 0, extent, 0);
    return begins && implies(loop.body->results[0]->value, at, 1, extent, 0);
}
