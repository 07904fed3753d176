/* SPDX-License-Identifier: Apache-2.0 */
/* carry_growth.c: what a loop appends along an inner axis is carried with that axis first.
 *
 *     loop(%x) { %z = Concat(%x, %y) {axis = 2}  %t = Transpose(%z) {perm = [0, 1, 3, 2]}  %s = MatMul(%q, %t)  yield %k, %z }
 *  => loop(%a) { %c = Concat(%a, %b) {axis = 0}  %t = Transpose(%c) {perm = [1, 2, 3, 0]}  %s = MatMul(%q, %t)  yield %k, %c }
 *
 * with the initial value turned before the loop, %a, what is appended in it, %b, and the output after the loop. What is
 * appended then lies after what is there, so that nothing else moves (a cache of keys and values for several heads
 * would be copied in every step). Only where what the loop reads of it are products, which read it with its axes in any
 * order (fuse), attention, its extents, or where it reads nothing.
 *
 * Needs: types, no dead nodes; runs before fuse, by which the products read through the new Transposes. Breaks: that somebody
 * reads every node. Guarantees: types of all values.
 */
#include "ir/loop.h"
#include "passes/graph/graph.h"
#include "passes/loops/loops.h"

typedef struct growth {
    ir_node *loop, *concat;
    uint32_t index; /* of the carried value */
    ir_value *parameter, *grown;
    int32_t rank;
    int64_t first[OP_MAX_RANK]; /* the order of axes with the one that grows first */
    int64_t back[OP_MAX_RANK];  /* and back */
} growth;

static op_type turned(const op_type *type, const int64_t *order) {
    op_type made = *type;
    for (int32_t i = 0; i < type->shape.rank; i++) made.shape.dims[i] = type->shape.dims[order[i]];
    return made;
}

static bool set_order(pass_context *context, op_attributes *attributes, int32_t rank, const int64_t *order) {
    int64_t copy[OP_MAX_RANK];
    for (int32_t i = 0; i < rank; i++) copy[i] = order[i];
    const op_attribute perm = {
        .name = "perm", .kind = OP_ATTRIBUTE_INTS, .count = (size_t)rank, .as.integers = copy};
    return ir_attribute_set(context->module, attributes, &perm);
}

/* Transpose(value), in this graph. */
static ir_value *turn(pass_context *context, ir_graph *graph, ir_node *before, ir_value *value, int32_t rank,
                      const int64_t *order) {
    op_attributes attributes = {0};
    if (!set_order(context, &attributes, rank, order)) return NULL;
    ir_node *node =
        ir_node_new(graph, before, OP_TRANSPOSE, "", before ? before->path : "", attributes, 1, &value);
    const op_type type = turned(&value->type, order);
    return node ? ir_node_add_output(node, value->name, &type) : NULL;
}

/* A product that can walk along the value, whose axes it reads in this order. */
static bool is_product(const ir_use *use, const ir_value *value, int32_t rank, const int64_t *order) {
    return use->node && use->node->code == OP_MATMUL && use->index < 2 && value->type.dtype == OP_FLOAT &&
           pass_is_walkable(order, rank, use->index);
}

/* Attention to keys or values of which each run appends rows. */
static bool is_attention(const growth *g, const ir_use *use) {
    return use->node && use->node->code == OP_ATTENTION && (use->index == 1 || use->index == 2) &&
           g->rank == 4 && g->first[0] == 2;
}

/* Which extents a Shape gives: from *start up to *end. */
static bool is_shape(const ir_node *node, int32_t rank, int64_t *start, int64_t *end) {
    if (!node || node->code != OP_SHAPE || !node->outputs[0]) return false;
    *start = op_attribute_integer(&node->attributes, "start", 0);
    *end = op_attribute_integer(&node->attributes, "end", rank);
    if (*start < 0) *start += rank;
    if (*end < 0) *end += rank;
    if (*end > rank) *end = rank;
    return *start >= 0 && *start < *end;
}

/* The use is one that can read the value turned round. */
static bool is_reader(const growth *g, const ir_use *use) {
    int64_t order[OP_MAX_RANK], through[OP_MAX_RANK], start, end;
    if (is_attention(g, use) || is_shape(use->node, g->rank, &start, &end)) return true;
    if (is_product(use, g->grown, g->rank, g->back)) return true;
    if (!use->node || use->node->code != OP_TRANSPOSE || !pass_transpose_order(use->node, g->rank, order))
        return false;
    const ir_value *made = use->node->outputs[0];
    for (int32_t i = 0; i < g->rank; i++) through[i] = g->back[order[i]];
    for (const ir_use *each = made ? made->uses : NULL; each; each = each->next) {
        if (each->node == NULL || each->node->graph != use->node->graph ||
            !is_product(each, g->grown, g->rank, through))
            return false;
    }
    return made && made->uses && !made->uses->next;
}

static bool read(const ir_loop *loop, uint32_t index, growth *g) {
    const ir_loop_carried c = ir_loop_carry(loop, index);
    ir_loop_growth grows;
    if (!ir_loop_grows(loop, index, &grows) || grows.after) return false;
    const ir_graph *body = loop->body;
    const int32_t axis = grows.axis;
    *g = (growth){.loop = body->owner,
                  .concat = grows.concat,
                  .index = index,
                  .parameter = c.parameter,
                  .grown = c.replacement,
                  .rank = c.parameter->type.shape.rank};
    if (g->parameter->type.dtype == OP_STRING || g->grown->type.shape.rank != g->rank ||
        (c.output && c.output->type.shape.rank != g->rank))
        return false;
    for (int32_t i = 0; i < g->rank; i++) {
        g->first[i] = i == 0 ? axis : i <= axis ? i - 1 : i;
        g->back[g->first[i]] = i;
    }
    for (const ir_use *use = g->parameter->uses; use; use = use->next)
        if ((use->node != g->concat || use->index != 0) && !is_reader(g, use)) return false;
    for (const ir_use *use = g->grown->uses; use; use = use->next) {
        const bool replaces = !use->node && use->graph == body && use->index == loop->first_result + index;
        if (!replaces && !is_reader(g, use)) return false;
    }
    return true;
}

/* The extents that a Shape gave, of the value as it is now. */
static bool turn_shape(pass_context *context, const growth *g, ir_node *shape, ir_value *value) {
    int64_t start = 0, end = 0, indices[OP_MAX_RANK];
    (void)is_shape(shape, g->rank, &start, &end);
    for (int64_t d = start; d < end; d++) indices[d - start] = g->back[d];
    ir_value *was = shape->outputs[0];
    const op_attributes none = {0};
    const op_type all = {.dtype = OP_INT64, .shape = {1, {g->rank}}},
                  some = {.dtype = OP_INT64, .shape = {1, {end - start}}};
    ir_value *wanted =
        ir_constant_copy(context->module, "extents", &some, indices, (size_t)(end - start) * sizeof *indices);
    ir_node *whole = ir_node_new(shape->graph, shape, OP_SHAPE, shape->name, shape->path, none, 1, &value);
    ir_value *extents = whole && wanted ? ir_node_add_output(whole, was->name, &all) : NULL;
    if (!extents) return false;
    ir_node *gather = ir_node_new(shape->graph, shape, OP_GATHER, shape->name, shape->path, none, 2,
                                  (ir_value *[]){extents, wanted});
    ir_value *made = gather ? ir_node_add_output(gather, was->name, &was->type) : NULL;
    if (!made) return false;
    ir_value_replace(was, made);
    ir_node_remove(shape);
    return true;
}

/* Attention that knows that this operand is turned. */
static bool turn_attention(pass_context *context, ir_node *node, uint32_t input) {
    const op_attribute turned = {.name = "ouro.turned",
                                 .kind = OP_ATTRIBUTE_INT,
                                 .count = 1,
                                 .as.integer = op_attribute_integer(&node->attributes, "ouro.turned", 0) |
                                               (INT64_C(1) << input)};
    return ir_attribute_set(context->module, &node->attributes, &turned);
}

/* Those who read the value, but for the Concat and the next iteration, read it in the order that it had. */
static bool turn_readers(pass_context *context, const growth *g, ir_value *value) {
    for (ir_use *use = value->uses, *next; use; use = next) {
        next = use->next;
        int64_t start, end;
        if (!use->node || use->node == g->concat) continue;
        if (is_attention(g, use)) {
            if (!turn_attention(context, use->node, use->index)) return false;
            continue;
        }
        if (is_shape(use->node, g->rank, &start, &end)) {
            if (!turn_shape(context, g, use->node, value)) return false;
            continue;
        }
        if (use->node->code == OP_TRANSPOSE) {
            int64_t order[OP_MAX_RANK], through[OP_MAX_RANK];
            if (!pass_transpose_order(use->node, g->rank, order)) return false;
            for (int32_t i = 0; i < g->rank; i++) through[i] = g->back[order[i]];
            if (!set_order(context, &use->node->attributes, g->rank, through)) return false;
            continue;
        }
        ir_value *as_before = turn(context, use->node->graph, use->node, value, g->rank, g->back);
        if (!as_before || !ir_node_set_input(use->node, use->index, as_before)) return false;
    }
    return true;
}

static bool carry(pass_context *context, const growth *g) {
    ir_value *output = g->loop->outputs[g->index], *initial = ir_input(g->loop, 2 + g->index);
    if (g->loop == context->module->run) { /* the session begins with it as it is carried */
        initial->type = turned(&initial->type, g->first);
        context->module->states[g->index].turned = true;
    } else {
        initial = turn(context, g->loop->graph, g->loop, initial, g->rank, g->first);
        if (!initial || !ir_node_set_input(g->loop, 2 + g->index, initial)) return false;
    }
    for (uint32_t i = 1; i < g->concat->input_count; i++) {
        ir_value *part =
            turn(context, g->concat->graph, g->concat, ir_input(g->concat, i), g->rank, g->first);
        if (!part || !ir_node_set_input(g->concat, i, part)) return false;
    }
    const op_attribute axis = {.name = "axis", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = 0};
    if (!ir_attribute_set(context->module, &g->concat->attributes, &axis)) return false;
    g->parameter->type = turned(&g->parameter->type, g->first);
    g->grown->type = turned(&g->grown->type, g->first);
    if (!turn_readers(context, g, g->parameter) || !turn_readers(context, g, g->grown)) return false;
    if (!output) return true;
    output->type = turned(&output->type, g->first);
    if (!output->uses) return true;
    ir_value *as_before = turn(context, g->loop->graph, g->loop->next, output, g->rank, g->back);
    if (!as_before) return false;
    ir_value_replace(output, as_before);
    return ir_node_set_input(as_before->node, 0, output);
}

base_status pass_carry_growth(pass_context *context) {
    size_t count;
    ir_graph **graphs = pass_graphs_outermost_first(context->module, context->scratch, &count);
    if (!graphs) return base_fail_memory(context->report);
    for (size_t n = count; n-- > 0;) {
        ir_loop loop;
        if (!ir_loop_around(graphs[n], &loop)) continue;
        for (uint32_t i = 0; i < loop.carried; i++) {
            growth g;
            if (read(&loop, i, &g) && !carry(context, &g)) return base_fail_memory(context->report);
        }
    }
    return BASE_OK;
}
