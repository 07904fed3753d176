/* SPDX-License-Identifier: Apache-2.0 */
/* fuse_normalization.c: what LayerNormalization is made of becomes one node, which reads its rows once.
 *
 *     %m = ReduceMean(%x, -1)  %d = Sub(%x, %m)  %s = Mul(%d, %d)  %v = ReduceMean(%s, -1)  %e = Add(%v, 1e-5)
 *     %r = Sqrt(%e)  %i = Reciprocal(%r)  %n = Mul(%d, %i)  %w = Mul(%n, %scale)  %y = Add(%w, %bias)
 *  => %y = LayerNormalization(%x, %scale, %bias) {axis = -1, epsilon = 1e-5}
 *
 * Import writes it so, for other passes see through it; so do exporters of old opsets, with Pow for the square and Div by the root. Scale and
 * bias need not be there. Only float, along the last axes, and only where nobody else reads what is made between. Not a bit of the
 * result is another one (runtime/kernels/portable/layer_normalization.c).
 *
 * Scale and bias that are one number a channel, the dimension before the first that is normalised, as InstanceNormalization has them, are part of
 * it where both are there: ouro.channels.
 *
 * Of 16 bits, as such, or between a Cast to float and one back, before scale and bias: these are then part of it, and what it makes is rounded
 * once, not after each node. Not with exact arithmetic.
 *
 * Needs: types, layouts, no dead nodes; bands, whose rows may end within it, are made. Breaks: nothing. Guarantees: values are what they
 * were.
 */
#include "passes/layout/layout.h"
#include "runtime/kernels/table.h"

typedef struct normalization {
    ir_node *nodes[11]; /* that go, the last one first */
    uint32_t count;
    op_dtype dtype;
    ir_node *widened;           /* makes floats of 16 bits, which others may read, too; NULL: of float */
    ir_value *x, *scale, *bias; /* scale, bias: NULL where there is none */
    int32_t axis;               /* the first of those that are normalised */
    float epsilon;
    bool divide, channels;
} normalization;

/* The first of the last axes, which are those that the node reduces, and keeps. */
static bool reduces_last(const ir_node *mean, int32_t *first) {
    const int32_t rank = ir_input(mean, 0)->type.shape.rank;
    bool marks[OP_MAX_RANK] = {false};
    if (rank <= 0 || op_attribute_integer(&mean->attributes, "keepdims", 1) != 1 ||
        !pass_read_axes(ir_input(mean, 1), rank, marks))
        return false;
    *first = rank;
    while (*first > 0 && marks[*first - 1]) --*first;
    for (int32_t i = 0; i < *first; i++)
        if (marks[i]) return false;
    return *first < rank;
}

static bool is_plain(const ir_value *value, op_dtype dtype) {
    return value && value->type.kind == OP_KIND_TENSOR && value->type.dtype == dtype &&
           value->type.layout == OP_LAYOUT_ROW_MAJOR;
}

/* What the rows are multiplied with, or is added to them: one number for each of their elements. */
static bool is_row(const ir_value *value, const normalization *n) {
    const op_shape *x = &n->x->type.shape;
    if (!is_plain(value, n->dtype) || value->type.shape.rank != x->rank - n->axis) return false;
    for (int32_t i = 0; i < value->type.shape.rank; i++)
        if (value->type.shape.dims[i] != x->dims[n->axis + i] || x->dims[n->axis + i] < 0) return false;
    return true;
}

/* One number for each index of the dimension before the first that is normalised. */
static bool is_channels(const ir_value *value, const normalization *n) {
    const op_shape *x = &n->x->type.shape, *own;
    if (n->dtype != OP_FLOAT || !is_plain(value, OP_FLOAT) || n->axis == 0) return false;
    own = &value->type.shape;
    const int32_t at = own->rank - 1 - (x->rank - n->axis);
    if (at < 0 || own->rank > x->rank || x->dims[n->axis - 1] < 0) return false;
    for (int32_t i = 0; i < own->rank; i++)
        if (own->dims[i] != (i == at ? x->dims[n->axis - 1] : 1)) return false;
    return true;
}

static void take(normalization *n, ir_node *node) {
    n->nodes[n->count++] = node;
}

/* From the root backwards to x: the differences from the mean, whose squares' mean it is of. */
static ir_node *read_differences(ir_node *root, bool exact, normalization *n) {
    const ir_graph *graph = root->graph;
    const ir_value *sum = ir_input(root, 0);
    if (!pass_is_made_by(sum, graph, OP_ADD) || pass_only_reader(sum->node, OP_SQRT) != root) return NULL;
    ir_node *const add = sum->node;
    const ir_value *squares = NULL;
    for (uint32_t i = 0; i < 2 && !squares; i++)
        if (pass_read_number(ir_input(add, 1 - i), sum->type.shape.rank, &n->epsilon) &&
            pass_is_made_by(ir_input(add, i), graph, OP_REDUCE_MEAN))
            squares = ir_input(add, i);
    int32_t axis;
    if (!squares || pass_only_reader(squares->node, OP_ADD) != add || !reduces_last(squares->node, &n->axis))
        return NULL;
    const ir_value *square = ir_input(squares->node, 0);
    const bool power = pass_is_made_by(square, graph, OP_POW);
    if (!power && !pass_is_made_by(square, graph, OP_MUL)) return NULL;
    float two = 2;
    if (pass_only_reader(square->node, OP_REDUCE_MEAN) != squares->node ||
        (power ? !pass_read_number(ir_input(square->node, 1), square->type.shape.rank, &two) || two != 2
               : ir_input(square->node, 0) != ir_input(square->node, 1)))
        return NULL;
    const ir_value *difference = ir_input(square->node, 0);
    if (!pass_is_made_by(difference, graph, OP_SUB)) return NULL;
    const ir_value *mean = ir_input(difference->node, 1);
    n->x = ir_input(difference->node, 0);
    if (!pass_is_made_by(mean, graph, OP_REDUCE_MEAN) || ir_input(mean->node, 0) != n->x ||
        pass_only_reader(mean->node, OP_SUB) != difference->node || !reduces_last(mean->node, &axis) ||
        axis != n->axis || !is_plain(n->x, n->x->type.dtype))
        return NULL;
    n->dtype = n->x->type.dtype;
    if (n->dtype != OP_FLOAT && (exact || (n->dtype != OP_FLOAT16 && n->dtype != OP_BFLOAT16))) return NULL;
    take(n, root);
    take(n, add);
    take(n, squares->node);
    take(n, square->node);
    take(n, difference->node);
    take(n, mean->node);
    /* By the square, once or twice, and by the division. */
    return ir_value_use_count(difference) == (power ? 2 : 3) ? difference->node : NULL;
}

/* From the root on to what is divided by it. */
static ir_node *read_division(ir_node *root, const ir_value *difference, normalization *n) {
    ir_node *reciprocal = pass_only_reader(root, OP_RECIPROCAL), *division;
    n->divide = !reciprocal;
    division = reciprocal ? pass_only_reader(reciprocal, OP_MUL) : pass_only_reader(root, OP_DIV);
    if (!division ||
        (reciprocal ? pass_other_operand(division, reciprocal->outputs[0]) : ir_input(division, 0)) !=
            difference ||
        !op_shape_equal(&division->outputs[0]->type.shape, &n->x->type.shape))
        return NULL;
    if (reciprocal) take(n, reciprocal);
    return division;
}

/* What is normalised is made of 16 bits, and becomes these again. */
static void read_casts(normalization *n, ir_node **last) {
    const ir_graph *graph = (*last)->graph;
    ir_node *back = pass_only_reader(*last, OP_CAST);
    if (!back || !pass_is_made_by(n->x, graph, OP_CAST)) return;
    ir_value *const source = ir_input(n->x->node, 0);
    const op_dtype dtype = back->outputs[0]->type.dtype;
    if ((dtype != OP_FLOAT16 && dtype != OP_BFLOAT16) || !is_plain(source, dtype)) return;
    n->widened = n->x->node;
    n->x = source;
    n->dtype = dtype;
    take(n, *last = back);
}

/* A scale and a bias of each channel: neither alone. */
static void read_channels(normalization *n, ir_node **last) {
    ir_node *scaled = pass_only_reader(*last, OP_MUL),
            *sum = scaled ? pass_only_reader(scaled, OP_ADD) : NULL;
    if (!sum) return;
    ir_value *scale = pass_other_operand(scaled, (*last)->outputs[0]),
             *bias = pass_other_operand(sum, scaled->outputs[0]);
    if (!is_channels(scale, n) || !is_channels(bias, n)) return;
    n->scale = scale;
    n->bias = bias;
    n->channels = true;
    take(n, scaled);
    take(n, *last = sum);
}

static bool read_normalization(ir_node *root, bool exact, normalization *n, ir_node **last) {
    *n = (normalization){0};
    const ir_node *difference = read_differences(root, exact, n);
    *last = difference ? read_division(root, difference->outputs[0], n) : NULL;
    if (!*last) return false;
    take(n, *last);
    if (!exact && n->dtype == OP_FLOAT) read_casts(n, last);
    read_channels(n, last);
    if (n->channels) return true;
    ir_node *scaled = pass_only_reader(*last, OP_MUL);
    if (scaled && is_row(pass_other_operand(scaled, (*last)->outputs[0]), n)) {
        n->scale = pass_other_operand(scaled, (*last)->outputs[0]);
        take(n, *last = scaled);
    }
    ir_node *sum = pass_only_reader(*last, OP_ADD);
    if (sum && is_row(pass_other_operand(sum, (*last)->outputs[0]), n)) {
        n->bias = pass_other_operand(sum, (*last)->outputs[0]);
        take(n, *last = sum);
    }
    return true;
}

/* False when memory runs out; where no kernel takes rows of 16 bits, nothing happens, and *done is false. */
static bool fuse(const normalization *n, ir_node *last, const rt_environment *environment, bool *done) {
    const op_attribute set[] = {
        {.name = "axis", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = n->axis},
        {.name = "epsilon", .kind = OP_ATTRIBUTE_FLOAT, .count = 1, .as.real = n->epsilon},
        {.name = "ouro.channels", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = 1},
        {.name = "ouro.divide", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = 1}};
    const bool wanted[] = {true, true, n->channels, n->divide};
    const uint32_t count = n->bias ? 3 : n->scale ? 2 : 1;
    ir_value *const inputs[] = {n->x, n->scale, n->bias};
    op_attributes attributes = {0};
    op_tensor operands[3] = {{.type = {.dtype = OP_NONE}}}, made_of = {.type = last->outputs[0]->type};
    for (size_t i = 0; i < sizeof set / sizeof *set; i++)
        if (wanted[i] && !ir_attribute_set(last->graph->module, &attributes, &set[i])) return false;
    for (uint32_t i = 0; i < count; i++)
        if (inputs[i]) operands[i].type = inputs[i]->type;
    const op_call call = {.code = OP_LAYER_NORMALIZATION,
                          .attributes = attributes,
                          .input_count = count,
                          .output_count = 1,
                          .inputs = operands,
                          .outputs = &made_of};
    *done = n->dtype == OP_FLOAT || rt_kernel_select(&call, environment);
    if (!*done) return true;
    ir_node *made = ir_node_new(last->graph, last, OP_LAYER_NORMALIZATION, last->name, last->path, attributes,
                                count, inputs);
    ir_value *y = made ? ir_node_add_output(made, last->outputs[0]->name, &last->outputs[0]->type) : NULL;
    if (!y) return false;
    ir_value_replace(last->outputs[0], y);
    return true;
}

/* Nodes go once nobody reads what they make: the last ones first. */
static void remove_nodes(normalization *n) {
    for (uint32_t gone = 0; gone < n->count;) {
        for (uint32_t i = 0; i < n->count; i++) {
            ir_node *node = n->nodes[i];
            if (!node || node->outputs[0]->uses) continue;
            ir_node_remove(node);
            n->nodes[i] = NULL;
            gone++;
        }
    }
}

base_status pass_fuse_normalization(pass_context *context) {
    const ir_module *module = context->module;
    const size_t count = module->node_count;
    for (size_t i = 1; i < count; i++) {
        ir_node *node = module->nodes[i], *last;
        normalization n;
        bool done;
        if (!node || node->code != OP_SQRT ||
            !read_normalization(node, context->options->exact_arithmetic, &n, &last))
            continue;
        if (!fuse(&n, last, &context->options->environment, &done)) return base_fail_memory(context->report);
        if (!done) continue;
        remove_nodes(&n);
        if (n.widened && !n.widened->outputs[0]->uses) ir_node_remove(n.widened);
    }
    return BASE_OK;
}
