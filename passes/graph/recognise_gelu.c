/* SPDX-License-Identifier: Apache-2.0 */
/* recognise_gelu.c: Gelu as exporters of older opsets write it becomes the operator.
 *
 *     %d = Div(%x, 1.414...)  %e = Erf(%d)  %a = Add(%e, 1)  %m = Mul(%x, %a)  %y = Mul(%m, 0.5)
 *  => %y = Gelu(%x)
 *     %p = Pow(%x, 3)  %q = Mul(%p, 0.044715)  %s = Add(%x, %q)  %u = Mul(%s, 0.797...)
 *     %t = Tanh(%u)  %a = Add(%t, 1)  %m = Mul(%x, %a)  %y = Mul(%m, 0.5)
 *  => %y = Gelu(%x) {approximate = "tanh"}
 *
 * The factor of Erf may be multiplied by, as 0.707...; what Tanh reads is any sums, products and powers that come to that polynomial; and the three factors
 * of the result may be multiplied in any order. Only where nobody
 * else reads what is made between. Not with exact arithmetic: the kernel of Gelu has polynomials of its own, which lose no digits
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

enum { MOST_NODES = 16, DEGREE = 3 };

typedef struct gelu {
    ir_value *x;
    ir_node *nodes[MOST_NODES]; /* that go, the last one first */
    uint32_t count;
} gelu;

/* A product of a value and one half; the value, or NULL: it is something else. */
static ir_value *halved(const ir_node *product, int32_t rank) {
    for (uint32_t i = 0; i < 2; i++)
        if (is_number(ir_input(product, i), 0.5, rank)) return ir_input(product, 1 - i);
    return NULL;
}

/* What makes of `sum`, 1 + erf or 1 + tanh, half of it times x: two products. False: not so. */
static bool read_products(const ir_node *sum, int32_t rank, gelu *g) {
    ir_node *first = pass_only_reader(sum, OP_MUL);
    if (!first) return false;
    ir_value *with = pass_other_operand(first, sum->outputs[0]);
    /* (0.5 x) (1 + erf) */
    if (pass_is_made_by(with, sum->graph, OP_MUL) && pass_only_reader(with->node, OP_MUL) == first) {
        g->x = halved(with->node, rank);
        if (g->x) {
            g->nodes[g->count++] = first;
            g->nodes[g->count++] = with->node;
            return true;
        }
    }
    ir_node *second = pass_only_reader(first, OP_MUL);
    if (!second) return false;
    ir_value *last = pass_other_operand(second, first->outputs[0]);
    g->x = is_number(last, 0.5, rank) ? with : is_number(with, 0.5, rank) ? last : NULL;
    g->nodes[g->count++] = second;
    g->nodes[g->count++] = first;
    return g->x && !g->x->constant;
}

/* What erf is taken of: x over the root of two. */
static bool read_scaled(const ir_node *erf, int32_t rank, gelu *g) {
    ir_value *scaled = ir_input(erf, 0);
    const bool divided = pass_is_made_by(scaled, erf->graph, OP_DIV);
    if ((!divided && !pass_is_made_by(scaled, erf->graph, OP_MUL)) ||
        pass_only_reader(scaled->node, OP_ERF) != erf)
        return false;
    for (uint32_t i = 0; i < (divided ? 1 : 2); i++) {
        if (ir_input(scaled->node, i) != g->x ||
            !is_number(ir_input(scaled->node, 1 - i), divided ? 1.4142135623730951 : 0.7071067811865476,
                       rank))
            continue;
        g->nodes[g->count++] = scaled->node;
        return true;
    }
    return false;
}

/* A polynomial of x: the factors of its powers. */
typedef struct cubic {
    double of[DEGREE + 1];
} cubic;

/* False: the degree is too high. */
static bool multiply(const cubic *a, const cubic *b, cubic *product) {
    *product = (cubic){{0}};
    for (int i = 0; i <= DEGREE; i++) {
        for (int j = 0; j <= DEGREE; j++) {
            const double more = a->of[i] * b->of[j];
            if (more == 0) continue;
            if (i + j > DEGREE) return false;
            product->of[i + j] += more;
        }
    }
    return true;
}

/* All uses of the value are this node's. */
static bool is_read_by(const ir_value *value, const ir_node *reader) {
    for (const ir_use *use = value->uses; use; use = use->next)
        if (use->node != reader) return false;
    return true;
}

static bool read_cubic(ir_value *value, const ir_node *reader, int32_t rank, gelu *g, cubic *made);

/* The value of a sum, a product or a power of polynomials. */
static bool read_node(ir_node *node, int32_t rank, gelu *g, cubic *made) {
    ir_value *left = ir_input(node, 0), *right = ir_input(node, 1);
    cubic a, b;
    float power;
    if (!read_cubic(left, node, rank, g, &a)) return false;
    if (node->code == OP_POW) {
        if (!pass_read_number(right, rank, &power) || (power != 2 && power != 3)) return false;
        if (!multiply(&a, &a, &b)) return false;
        if (power == 3) return multiply(&a, &b, made);
        *made = b;
        return true;
    }
    if (left == right) b = a;
    else if (!read_cubic(right, node, rank, g, &b)) return false;
    if (node->code == OP_MUL) return multiply(&a, &b, made);
    for (int i = 0; i <= DEGREE; i++) made->of[i] = a.of[i] + b.of[i];
    return true;
}

/* A value that only `reader` reads, as a polynomial of x. */
static bool read_cubic(ir_value *value, const ir_node *reader, int32_t rank, gelu *g, cubic *made) {
    float number;
    if (value == g->x) {
        *made = (cubic){{0, 1}};
        return true;
    }
    if (value && pass_read_number(value, rank, &number)) {
        *made = (cubic){{(double)number}};
        return true;
    }
    if (!value || value->kind != IR_RESULT_OF_NODE || value->node->graph != reader->graph ||
        value->node->output_count != 1 || !is_read_by(value, reader) || g->count == MOST_NODES)
        return false;
    ir_node *node = value->node;
    if (node->code != OP_MUL && node->code != OP_ADD && node->code != OP_POW) return false;
    g->nodes[g->count++] = node;
    return read_node(node, rank, g, made);
}

/* What tanh is taken of: sqrt(2 / pi) (x + 0.044715 x^3). */
static bool read_polynomial(const ir_node *tanh, int32_t rank, gelu *g) {
    const double unit = ir_input(tanh, 0)->type.dtype == OP_FLOAT ? 1e-6 : 0x1p-7,
                 linear = 0.7978845608028654, third = 0.044715 * linear;
    cubic of;
    return read_cubic(ir_input(tanh, 0), tanh, rank, g, &of) && of.of[0] == 0 && of.of[2] == 0 &&
           fabs(of.of[1] - linear) < unit * linear && fabs(of.of[3] - third) < unit * third;
}

/* From erf or tanh on. */
static bool read_gelu(ir_node *from, gelu *g) {
    *g = (gelu){0};
    const ir_value *argument = ir_input(from, 0);
    if (!argument || argument->type.dtype == OP_DOUBLE || argument->type.layout != OP_LAYOUT_ROW_MAJOR ||
        argument->type.shape.rank < 0)
        return false;
    const int32_t rank = argument->type.shape.rank;
    ir_node *sum = pass_only_reader(from, OP_ADD);
    if (!sum || !is_number(pass_other_operand(sum, from->outputs[0]), 1, rank) ||
        !read_products(sum, rank, g))
        return false;
    g->nodes[g->count++] = sum;
    g->nodes[g->count++] = from;
    return from->code == OP_ERF ? read_scaled(from, rank, g) : read_polynomial(from, rank, g);
}

base_status pass_recognise_gelu(pass_context *context) {
    static const op_attribute by_tanh = {
        .name = "approximate", .kind = OP_ATTRIBUTE_STRING, .count = 1, .as.text = {"tanh", 4}};
    if (context->options->exact_arithmetic) return BASE_OK;
    ir_module *module = context->module;
    const size_t count = module->node_count;
    for (size_t n = 1; n < count; n++) {
        ir_node *node = module->nodes[n];
        gelu g;
        if (!node || (node->code != OP_ERF && node->code != OP_TANH) || !read_gelu(node, &g)) continue;
        ir_node *last = g.nodes[0], *made = ir_node_new(last->graph, last, OP_GELU, last->name, last->path,
                                                        (op_attributes){0}, 1, &g.x);
        const ir_value *old = last->outputs[0];
        ir_value *y = made ? ir_node_add_output(made, old->name, &old->type) : NULL;
        if (!y || (node->code == OP_TANH && !ir_attribute_set(module, &made->attributes, &by_tanh)))
            return base_fail_memory(context->report);
        ir_value_replace(last->outputs[0], y);
        for (uint32_t i = 0; i < g.count; i++) ir_node_remove(g.nodes[i]);
    }
    return BASE_OK;
}
