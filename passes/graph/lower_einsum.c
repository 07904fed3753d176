/* SPDX-License-Identifier: Apache-2.0 */
/* lower_einsum.c: an Einsum of two operands becomes a matrix product, where it is one.
 *
 *     %y = Einsum(%a, %b) {equation = "bhid,bhjd->bhij"}
 *  => %t = Transpose(%b) {perm = [0, 1, 3, 2]}   %y = MatMul(%a, %t)
 *
 * Labels of both operands and the result number the products, those of both that the result lacks are summed over,
 * those of one operand are its rows, of the other its columns; several of a kind count as one dimension, by Reshape.
 * What only one operand has, and the result lacks, is summed up first. Transposes and Reshapes that do nothing are not
 * made. An operand with a label twice (a diagonal), or with an extent of 1 that is broadcast, is left to the kernel.
 *
 * Extents may be open, where those of one label are the same symbol. A Reshape keeps such a dimension in its place, or finds it as the one
 * that it is not told; what would need more than that is left to the kernel, too. Rows are not joined where there is one product.
 *
 * Needs: types, folded shapes. Breaks: that somebody reads every node. Guarantees: types of what it puts in; an Einsum that
 * remains has a kernel.
 */
#include "ir/operators/einsum.h"
#include "passes/graph/graph.h"

typedef struct lowering {
    pass_context *context;
    ir_node *node;
    op_einsum equation;
} lowering;

/* Labels in an order, as the dimensions of a value. */
typedef struct dimensions {
    int32_t count;
    int32_t labels[2 * OP_MAX_RANK];
} dimensions;

static bool has(const int32_t *labels, int32_t count, int32_t label) {
    for (int32_t i = 0; i < count; i++) {
        if (labels[i] == label) return true;
    }
    return false;
}

/* ---- nodes --------------------------------------------------------------------------------------------- */

static ir_value *make(const lowering *l, op_code code, op_attributes attributes, uint32_t count,
                      ir_value *const *inputs, const op_shape *shape) {
    const ir_value *result = l->node->outputs[0];
    ir_node *node =
        ir_node_new(l->node->graph, l->node, code, l->node->name, l->node->path, attributes, count, inputs);
    const op_type type = {.dtype = result->type.dtype, .shape = *shape};
    return node ? ir_node_add_output(node, result->name, &type) : NULL;
}

static ir_value *integers(const lowering *l, const int64_t *values, int32_t count) {
    const op_type type = {.dtype = OP_INT64, .shape = {.rank = 1, .dims = {count}}};
    return ir_constant_copy(l->context->module, l->node->outputs[0]->name, &type, values,
                            (size_t)count * sizeof *values);
}

static op_shape shape_of(const lowering *l, const dimensions *d) {
    op_shape shape = {.rank = d->count};
    for (int32_t i = 0; i < d->count; i++) shape.dims[i] = l->equation.extent[d->labels[i]];
    return shape;
}

/* What Reshape is told to get from one shape to the other: extents; where some are open, 0 for an open one that keeps its place, and -1 for
 * one that does not: of these there can be one, and none beside a 0, as the extent might be 0 in a run. */
static bool reshape_request(const op_shape *from, const op_shape *to, int64_t *request) {
    int32_t kept = 0, found = 0, zeros = 0;
    for (int32_t i = 0; i < to->rank; i++) {
        const bool same = i < from->rank && from->dims[i] == to->dims[i] && to->dims[i] != OP_DIM_UNKNOWN;
        request[i] = to->dims[i] >= 0 ? to->dims[i] : same ? 0 : -1;
        zeros += to->dims[i] == 0;
        kept += to->dims[i] < 0 && same;
        found += request[i] < 0;
    }
    if (kept + found == 0) return true;
    return zeros == 0 && found <= 1 && (found == 0 || kept == 0);
}

static bool can_reshape(const op_shape *from, const op_shape *to) {
    int64_t request[OP_MAX_RANK];
    return op_shape_same(from, to) || reshape_request(from, to, request);
}

static ir_value *reshape(const lowering *l, ir_value *value, const op_shape *shape) {
    int64_t request[OP_MAX_RANK];
    if (!value || op_shape_same(&value->type.shape, shape)) return value;
    if (!reshape_request(&value->type.shape, shape, request)) return NULL;
    op_attribute zero = {
        .name = "allowzero", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = op_shape_known(shape)};
    op_attributes attributes = {0};
    ir_value *inputs[] = {value, integers(l, request, shape->rank)};
    if (!inputs[1] || !ir_attribute_set(l->context->module, &attributes, &zero)) return NULL;
    return make(l, OP_RESHAPE, attributes, 2, inputs, shape);
}

/* The dimensions of a value in another order. */
static ir_value *transpose(const lowering *l, ir_value *value, const dimensions *from, const dimensions *to) {
    int64_t order[OP_MAX_RANK];
    bool same = true;
    for (int32_t i = 0; i < to->count; i++) {
        for (int32_t k = 0; k < from->count; k++)
            if (from->labels[k] == to->labels[i]) order[i] = k;
        same = same && order[i] == i;
    }
    if (!value || same) return value;
    op_attribute perm = {
        .name = "perm", .kind = OP_ATTRIBUTE_INTS, .count = (size_t)to->count, .as.integers = order};
    op_attributes attributes = {0};
    const op_shape shape = shape_of(l, to);
    if (!ir_attribute_set(l->context->module, &attributes, &perm)) return NULL;
    return make(l, OP_TRANSPOSE, attributes, 1, &value, &shape);
}

/* The labels of an operand that the other one or the result has. */
static dimensions kept_labels(const op_einsum *e, int32_t operand) {
    dimensions kept = {0};
    for (int32_t d = 0; d < e->rank[operand]; d++) {
        const int32_t label = e->labels[operand][d];
        if (has(e->labels[1 - operand], e->rank[1 - operand], label) || has(e->output, e->output_rank, label))
            kept.labels[kept.count++] = label;
    }
    return kept;
}

/* Sums over all labels but these. */
static ir_value *sum_alone(const lowering *l, int32_t operand, const dimensions *left) {
    const op_einsum *e = &l->equation;
    int64_t axes[OP_MAX_RANK];
    int32_t count = 0;
    ir_value *value = ir_input(l->node, (uint32_t)operand);
    for (int32_t d = 0; d < e->rank[operand]; d++)
        if (!has(left->labels, left->count, e->labels[operand][d])) axes[count++] = d;
    if (!count) return value;
    op_attribute keep = {.name = "keepdims", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = 0};
    op_attributes attributes = {0};
    ir_value *inputs[] = {value, integers(l, axes, count)};
    const op_shape shape = shape_of(l, left);
    if (!inputs[1] || !ir_attribute_set(l->context->module, &attributes, &keep)) return NULL;
    return make(l, OP_REDUCE_SUM, attributes, 2, inputs, &shape);
}

/* ---- one Einsum ---------------------------------------------------------------------------------------- */

static bool is_product(const lowering *l) {
    const op_einsum *e = &l->equation;
    op_dtype dtype = l->node->outputs[0]->type.dtype;
    if (e->operands != 2) return false;
    if (dtype == OP_INT8 || dtype == OP_UINT8 || dtype == OP_INT16 || dtype == OP_UINT16)
        return false; /* MatMul */
    for (int32_t o = 0; o < 2; o++) {
        const op_shape *shape = &ir_input(l->node, (uint32_t)o)->type.shape;
        for (int32_t d = 0; d < e->rank[o]; d++) {
            if (has(e->labels[o], d, e->labels[o][d]) || shape->dims[d] == OP_DIM_UNKNOWN ||
                shape->dims[d] != e->extent[e->labels[o][d]])
                return false;
        }
    }
    return true;
}

/* Appends the labels of `count` in order that are (or are not) among the others. */
static void choose(dimensions *to, const int32_t *labels, int32_t count, const dimensions *within,
                   bool in_both, const dimensions *other) {
    for (int32_t i = 0; i < count; i++) {
        if (has(within->labels, within->count, labels[i]) &&
            has(other->labels, other->count, labels[i]) == in_both)
            to->labels[to->count++] = labels[i];
    }
}

static void append(dimensions *to, const dimensions *more) {
    for (int32_t i = 0; i < more->count; i++) to->labels[to->count++] = more->labels[i];
}

/* The extent of all these dimensions as one. */
static int64_t elements(const lowering *l, const dimensions *d) {
    int64_t product = 1;
    if (d->count == 1) return l->equation.extent[d->labels[0]];
    for (int32_t i = 0; i < d->count; i++) {
        const int64_t extent = l->equation.extent[d->labels[i]];
        if (extent < 0) return OP_DIM_UNKNOWN;
        product *= extent;
    }
    return product;
}

static void add_dimension(op_shape *shape, int64_t extent) {
    shape->dims[shape->rank++] = extent;
}

static base_status lower(const lowering *l) {
    const op_einsum *e = &l->equation;
    const dimensions a = kept_labels(e, 0), b = kept_labels(e, 1);
    dimensions batch = {0}, rows = {0}, columns = {0}, depth = {0};
    choose(&batch, e->output, e->output_rank, &a, true, &b);
    choose(&rows, e->output, e->output_rank, &a, false, &b);
    choose(&columns, e->output, e->output_rank, &b, false, &a);
    for (int32_t i = 0; i < a.count; i++) {
        if (!has(e->output, e->output_rank, a.labels[i])) depth.labels[depth.count++] = a.labels[i];
    }
    /* [batch, rows, depth] [batch, depth, columns] */
    dimensions a_order = batch, b_order = batch, made = batch, wanted = {.count = e->output_rank};
    append(&a_order, &rows);
    append(&a_order, &depth);
    append(&b_order, &depth);
    append(&b_order, &columns);
    append(&made, &rows);
    append(&made, &columns);
    for (int32_t i = 0; i < e->output_rank; i++) wanted.labels[i] = e->output[i];
    op_shape a_shape = shape_of(l, &batch), b_shape = a_shape, c_shape = a_shape;
    const int64_t all_rows = elements(l, &rows), all_columns = elements(l, &columns);
    if (batch.count == 0 && all_rows == OP_DIM_UNKNOWN) a_shape = c_shape = shape_of(l, &rows);
    else {
        add_dimension(&a_shape, all_rows);
        add_dimension(&c_shape, all_rows);
    }
    add_dimension(&a_shape, elements(l, &depth));
    add_dimension(&b_shape, elements(l, &depth));
    add_dimension(&b_shape, all_columns);
    add_dimension(&c_shape, all_columns);
    const op_shape a_ordered = shape_of(l, &a_order), b_ordered = shape_of(l, &b_order),
                   apart = shape_of(l, &made);
    if (!can_reshape(&a_ordered, &a_shape) || !can_reshape(&b_ordered, &b_shape) ||
        !can_reshape(&c_shape, &apart))
        return BASE_OK;
    ir_value *factors[] = {reshape(l, transpose(l, sum_alone(l, 0, &a), &a, &a_order), &a_shape),
                           reshape(l, transpose(l, sum_alone(l, 1, &b), &b, &b_order), &b_shape)};
    if (!factors[0] || !factors[1]) return base_fail_memory(l->context->report);
    ir_value *product = make(l, OP_MATMUL, (op_attributes){0}, 2, factors, &c_shape);
    if (product) product = transpose(l, reshape(l, product, &apart), &made, &wanted);
    if (!product) return base_fail_memory(l->context->report);
    ir_value_replace(l->node->outputs[0], product);
    return BASE_OK;
}

base_status pass_lower_einsum(pass_context *context) {
    base_status status = BASE_OK;
    base_arena arena;
    base_arena_init(&arena, context->scratch->allocator);
    size_t count = context->module->node_count;
    for (size_t n = 1; n < count && status == BASE_OK; n++) {
        ir_node *node = context->module->nodes[n];
        if (!node || node->code != OP_EINSUM || !node->outputs[0]) continue;
        lowering l = {.context = context, .node = node};
        op_call call;
        base_report ignored = {0};
        if (!ir_node_call(node, &arena, &call)) status = base_fail_memory(context->report);
        else if (node->outputs[0]->type.shape.rank >= 0 && op_einsum_read(&call, &l.equation, &ignored) &&
                 l.equation.output_rank + 2 <= OP_MAX_RANK && is_product(&l))
            status = lower(&l);
        base_arena_free(&arena);
    }
    return status;
}
