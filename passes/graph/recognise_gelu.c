/* SPDX-License-Identifier: Apache-2.0 */
/* recognise_gelu.c: Gelu as exporters of older opsets write it becomes the operator.
 *
 *     %d = Div(%x, 1.414...)  %e = Erf(%d)  %a = Add(%e, 1)  %m = Mul(%x, %a)  %y = Mul(%m, 0.5)
 *  => %y = Gelu(%x)
 *
 * The factor may be multiplied by, as 0.707..., and the three factors of the result may be multiplied in any order. Only where nobody
 * else reads what is made between. Not with exact arithmetic: the kernel of Gelu has a polynomial of its own, which loses no digits
 * of small results.
 *
 * Needs: types, no dead nodes. Breaks: nothing. Guarantees: values stay what they were, up to rounding.
 */
#include "passes/graph/graph.h"
#include <math.h>

/* The node that alone reads what `node` makes, if it has this operator and stands in the same graph. */
static ir_node *only_reader(const ir_node *node, op_code code) {
    const ir_use *use = node && node->output_count == 1 && node->outputs[0] ? node->outputs[0]->uses : NULL;
    ir_node *reader = use && !use->next ? use->node : NULL;
    return reader && reader->graph == node->graph && reader->code == code && reader->output_count == 1
               ? reader
               : NULL;
}

/* The operand of a node of two that is not `known`. */
static ir_value *other_operand(const ir_node *node, const ir_value *known) {
    return ir_input(node, ir_input(node, 0) == known ? 1 : 0);
}

/* One number, which no result grows by. */
static bool is_number(const ir_value *value, double number, int32_t rank) {
    int64_t count;
    return value && value->constant && value->type.dtype == OP_FLOAT &&
           value->type.layout == OP_LAYOUT_ROW_MAJOR && value->type.shape.rank <= rank &&
           op_shape_elements(&value->type.shape, &count) && count == 1 &&
           fabs((double)*(const float *)value->constant->tensor.data - number) < 1e-6 * number;
}

static bool is_made_by(const ir_value *value, const ir_graph *graph, op_code code) {
    return value && value->kind == IR_RESULT_OF_NODE && value->node->graph == graph &&
           value->node->code == code;
}

typedef struct gelu {
    ir_value *x;
    ir_node *nodes[6]; /* that go, the last one first */
    uint32_t count;
} gelu;

/* What makes of `sum`, 1 + erf(x / sqrt(2)), half of it times x: one product, or two. NULL: not so. */
static bool read_products(const ir_node *sum, int32_t rank, gelu *g) {
    ir_node *first = only_reader(sum, OP_MUL);
    if (!first) return false;
    ir_value *with = other_operand(first, sum->outputs[0]);
    /* (0.5 x) (1 + erf) */
    if (is_made_by(with, sum->graph, OP_MUL) && only_reader(with->node, OP_MUL) == first) {
        ir_node *half = with->node;
        if ((ir_input(half, 0) == g->x || ir_input(half, 1) == g->x) &&
            is_number(other_operand(half, g->x), 0.5, rank)) {
            g->nodes[g->count++] = first;
            g->nodes[g->count++] = half;
            return true;
        }
    }
    ir_node *second = only_reader(first, OP_MUL);
    if (!second) return false;
    const ir_value *last = other_operand(second, first->outputs[0]);
    if (!(with == g->x && is_number(last, 0.5, rank)) && !(last == g->x && is_number(with, 0.5, rank)))
        return false;
    g->nodes[g->count++] = second;
    g->nodes[g->count++] = first;
    return true;
}

static bool read_gelu(ir_node *erf, gelu *g) {
    *g = (gelu){0};
    ir_value *scaled = ir_input(erf, 0);
    if (!scaled || scaled->type.dtype != OP_FLOAT || scaled->type.layout != OP_LAYOUT_ROW_MAJOR) return false;
    const int32_t rank = scaled->type.shape.rank;
    const bool divided = is_made_by(scaled, erf->graph, OP_DIV);
    if (rank < 0 || (!divided && !is_made_by(scaled, erf->graph, OP_MUL))) return false;
    ir_node *scale = scaled->node;
    if (only_reader(scale, OP_ERF) != erf) return false;
    for (uint32_t i = 0; i < (divided ? 1 : 2) && !g->x; i++)
        if (is_number(ir_input(scale, 1 - i), divided ? 1.4142135623730951 : 0.7071067811865476, rank))
            g->x = ir_input(scale, i);
    if (!g->x || g->x->constant) return false;
    ir_node *sum = only_reader(erf, OP_ADD);
    if (!sum || !is_number(other_operand(sum, erf->outputs[0]), 1, rank) || !read_products(sum, rank, g))
        return false;
    g->nodes[g->count++] = sum;
    g->nodes[g->count++] = erf;
    g->nodes[g->count++] = scale;
    return true;
}

base_status pass_recognise_gelu(pass_context *context) {
    if (context->options->exact_arithmetic) return BASE_OK;
    const ir_module *module = context->module;
    const size_t count = module->node_count;
    for (size_t n = 1; n < count; n++) {
        ir_node *node = module->nodes[n];
        gelu g;
        if (!node || node->code != OP_ERF || !read_gelu(node, &g)) continue;
        ir_node *last = g.nodes[0], *made = ir_node_new(last->graph, last, OP_GELU, last->name, last->path,
                                                        (op_attributes){0}, 1, &g.x);
        const ir_value *old = last->outputs[0];
        ir_value *y = made ? ir_node_add_output(made, old->name, &old->type) : NULL;
        if (!y) return base_fail_memory(context->report);
        ir_value_replace(last->outputs[0], y);
        for (uint32_t i = 0; i < g.count; i++) ir_node_remove(g.nodes[i]);
    }
    return BASE_OK;
}
