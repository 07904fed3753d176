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

/* In 16 bits it is rounded to these. */
static bool is_number(const ir_value *value, double number, int32_t rank) {
    float is;
    if (!pass_read_number(value, rank, &is)) return false;
    const double unit = value->type.dtype == OP_FLOAT     ? 1e-6
                        : value->type.dtype == OP_FLOAT16 ? 0x1p-11
                                                          : 0x1p-8;
    return fabs((double)is - number) < unit * number;
}

typedef struct gelu {
    ir_value *x;
    ir_node *nodes[6]; /* that go, the last one first */
    uint32_t count;
} gelu;

/* What makes of `sum`, 1 + erf(x / sqrt(2)), half of it times x: one product, or two. NULL: not so. */
static bool read_products(const ir_node *sum, int32_t rank, gelu *g) {
    ir_node *first = pass_only_reader(sum, OP_MUL);
    if (!first) return false;
    ir_value *with = pass_other_operand(first, sum->outputs[0]);
    /* (0.5 x) (1 + erf) */
    if (pass_is_made_by(with, sum->graph, OP_MUL) && pass_only_reader(with->node, OP_MUL) == first) {
        ir_node *half = with->node;
        if ((ir_input(half, 0) == g->x || ir_input(half, 1) == g->x) &&
            is_number(pass_other_operand(half, g->x), 0.5, rank)) {
            g->nodes[g->count++] = first;
            g->nodes[g->count++] = half;
            return true;
        }
    }
    ir_node *second = pass_only_reader(first, OP_MUL);
    if (!second) return false;
    const ir_value *last = pass_other_operand(second, first->outputs[0]);
    if (!(with == g->x && is_number(last, 0.5, rank)) && !(last == g->x && is_number(with, 0.5, rank)))
        return false;
    g->nodes[g->count++] = second;
    g->nodes[g->count++] = first;
    return true;
}

static bool read_gelu(ir_node *erf, gelu *g) {
    *g = (gelu){0};
    ir_value *scaled = ir_input(erf, 0);
    if (!scaled || scaled->type.dtype == OP_DOUBLE || scaled->type.layout != OP_LAYOUT_ROW_MAJOR)
        return false;
    const int32_t rank = scaled->type.shape.rank;
    const bool divided = pass_is_made_by(scaled, erf->graph, OP_DIV);
    if (rank < 0 || (!divided && !pass_is_made_by(scaled, erf->graph, OP_MUL))) return false;
    ir_node *scale = scaled->node;
    if (pass_only_reader(scale, OP_ERF) != erf) return false;
    for (uint32_t i = 0; i < (divided ? 1 : 2) && !g->x; i++)
        if (is_number(ir_input(scale, 1 - i), divided ? 1.4142135623730951 : 0.7071067811865476, rank))
            g->x = ir_input(scale, i);
    if (!g->x || g->x->constant) return false;
    ir_node *sum = pass_only_reader(erf, OP_ADD);
    if (!sum || !is_number(pass_other_operand(sum, erf->outputs[0]), 1, rank) || !read_products(sum, rank, g))
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
