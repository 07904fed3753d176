/* slice_iterations.c: the slice of one step that a loop takes in each iteration has a known size.
 *
 *     loop(%n) { %e = Add(%i, 1)  %t: float32[?,8] = Slice(%x, [%i], [%e]) }        %x: float32[n,8]
 *  => loop(%n) { %t: float32[1,8] = Gather(%x, [%i]) }
 *
 * Slice cuts off what lies outside of its input, so that its size would be known in each iteration only, and memory
 * for it taken then. Where the loop certainly ends before the input does there is always one step, as Gather gives.
 * A loop ends by its trip count, by what it scans, or by a condition "counter < limit". A counter is the iteration
 * number, or a carried value that begins with a number and grows by one.
 *
 * Needs: types. Keeps: types, which infer-shapes then knows better.
 */
#include "ir/loop.h"
#include "passes/loops/loops.h"
#include <string.h>

enum { MOST_STEPS = 16 }; /* nodes between a counter and a slice */

/* A number (no counter), or so much more than a counter; narrow: it passes through 32 bits. */
typedef struct position {
    const ir_value *counter;
    int64_t offset;
    bool narrow;
} position;

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

static bool number_of(const ir_value *value, int64_t index, int64_t *number) {
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
    return (a == value && number_of(b, 0, &one) && one == 1) ||
           (b == value && number_of(a, 0, &one) && one == 1);
}

/* The value is a counter of the loop whose body it belongs to; *first is what it begins with. */
static bool is_counter(const ir_value *value, int64_t *first) {
    ir_loop loop;
    int64_t elements;
    if (value->kind != IR_PARAMETER || !ir_loop_around(value->graph, &loop) || !is_integer(value))
        return false;
    if (!op_shape_elements(&value->type.shape, &elements) || elements != 1) return false;
    *first = 0;
    if (value->index == 0) return true;
    if (value->index < 2 || value->index - 2 >= loop.carried) return false;
    const ir_loop_carried c = ir_loop_carry(&loop, value->index - 2);
    return number_of(c.initial, 0, first) && is_next(c.replacement->node, value);
}

/* Element `index` of an integer value of rank 0 or 1. */
static bool position_of(const ir_value *value, int64_t index, int steps, position *at) {
    int64_t elements, first;
    *at = (position){0};
    if (!value || steps > MOST_STEPS || !is_integer(value)) return false;
    if (number_of(value, index, &at->offset)) return true;
    if (is_counter(value, &first)) {
        *at = (position){value, 0, value->type.dtype == OP_INT32};
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
        if (!position_of(ir_input(node, 0), index, steps + 1, at)) return false;
        at->narrow |= value->type.dtype == OP_INT32;
        return true;
    case OP_ADD:
    case OP_SUB: {
        position parts[2];
        for (uint32_t i = 0; i < 2; i++) {
            const ir_value *part = ir_input(node, i);
            int64_t own;
            if (!part || !op_shape_elements(&part->type.shape, &own) || (own != 1 && own != elements) ||
                !position_of(part, own == 1 ? 0 : index, steps + 1, &parts[i]))
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
            if (index < own) return position_of(part, index, steps + 1, at);
            index -= own;
        }
        return false;
    default:
        return false;
    }
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
        if (limit->kind != IR_PARAMETER || !ir_loop_around(limit->graph, &loop) || limit->index < 2 ||
            limit->index - 2 >= loop.carried)
            return OP_DIM_UNKNOWN;
        const ir_loop_carried c = ir_loop_carry(&loop, limit->index - 2);
        if (c.replacement != limit) return OP_DIM_UNKNOWN;
        limit = c.initial;
    }
    return OP_DIM_UNKNOWN;
}

/* Where the condition holds, the position (or number) is below the extent `later` iterations later. */
static bool implies(const ir_value *condition, const position *at, int64_t later, int64_t extent, int steps) {
    const ir_node *node = condition ? condition->node : NULL;
    position small;
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
    return position_of(left, 0, 0, &small) && small.counter == at->counter &&
           !__builtin_add_overflow(at->offset, later, &then) &&
           !__builtin_sub_overflow(then, small.offset, &more) && fits(limit_of(limit), more, extent);
}

/* The position is below the extent in every iteration. */
static bool stays_below(const position *at, int64_t extent) {
    const ir_value *counter = at->counter;
    const int64_t offset = at->offset;
    /* What passes through 32 bits may wrap around, but for what is compared in them: it never leaves its limit behind. */
    const bool wraps = at->narrow && (extent < 0 || extent > INT32_MAX);
    ir_loop loop;
    if (!ir_loop_around(counter->graph, &loop)) return false;
    int64_t first, begin;
    if (!is_counter(counter, &first) || __builtin_add_overflow(first, offset, &begin)) return false;
    if (!wraps && fits(dim_of(ir_input(loop.node, 0), 0), begin, extent)) return true;
    for (uint32_t i = 0; i < loop.scanned && !wraps; i++) {
        const ir_loop_slices scan = ir_loop_scan(&loop, i);
        if (scan.whole->type.kind == OP_KIND_TENSOR && scan.axis >= 0 &&
            fits(scan.whole->type.shape.dims[scan.axis], begin, extent))
            return true;
    }
    const bool begins = (extent >= 0 && begin < extent) ||
                        implies(ir_input(loop.node, 1), &(position){.offset = begin}, 0, extent, 0);
    return begins && implies(loop.body->results[0]->value, at, 1, extent, 0);
}

/* ---- slices -------------------------------------------------------------------------------------------- */

/* What a Slice takes, entry by entry, if one entry is a single step at a counter. */
typedef struct slice {
    int32_t entries, moving;
    int64_t starts[OP_MAX_RANK], ends[OP_MAX_RANK], axes[OP_MAX_RANK];
    position at; /* of the start of the moving entry */
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
        position start, end;
        int64_t axis = i, step = 1;
        int32_t normal;
        if ((axes && !number_of(axes, i, &axis)) || (steps && (!number_of(steps, i, &step) || step != 1)) ||
            !op_axis(axis, data->type.shape.rank, &normal) || !position_of(starts, i, 0, &start) ||
            !position_of(ends, i, 0, &end) || start.counter != end.counter)
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
    if (!is_counter(s->at.counter, &first) || __builtin_add_overflow(first, s->at.offset, &begin) ||
        begin < 0)
        return false;
    return stays_below(&s->at, extent);
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
        ir_value *entry[] = {index, integers(context, &first, 1), integers(context, &next, 1)};
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
        ir_value *inputs[] = {taken, integers(context, rest[0], count), integers(context, rest[1], count),
                              integers(context, rest[2], count)};
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
