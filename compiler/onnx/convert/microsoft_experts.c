/* SPDX-License-Identifier: Apache-2.0 */
/* microsoft_experts.c: MoE and QMoE: of many feed-forward networks, the experts, each row of the input goes through a few.
 *
 * They become a Loop over the experts. It scans their weights, so that those of an expert are read where they lie, and carries the sum of
 * what they give. In its body an If leaves out an expert that no row has chosen: a decoder's token reads the weights of its own experts only.
 * Where some row has chosen it and there are few rows, all of them go through it, and what it gives for those that have not chosen it counts nothing. Many
 * rows are put in order, those that have chosen it first, and cut into blocks of as many rows as an expert has on average. A Loop takes the blocks that
 * hold any of these. So every shape is known.
 *
 * What the pages of ContribOperators.md leave open is as in ONNX Runtime: weights of the chosen are taken from a softmax over all experts;
 * "gelu" is its approximation by tanh. */
#include "compiler/onnx/convert/microsoft.h"

#include <string.h>

static const op_attributes NONE = {0};

enum { GATE, LINEAR, LAST, PRODUCTS };

enum { FEW_ROWS = 8 };

/* A product x W^T + b. Values have the experts as their first axis, or are those of one expert. */
typedef struct product {
    ir_value *weights, *bias; /* [rows, columns]; [rows], or NULL */
    ir_value *scales, *zeros; /* of quantised weights, for each block of each row: reals; zeros may be NULL */
    int64_t rows, columns;
} product;

typedef struct mixture {
    product products[PRODUCTS]; /* that of LINEAR has no weights where the activation has no such factor */
    ir_value *x, *gates;        /* [rows, hidden]; the share of each expert in each row, [experts, rows, 1] */
    int64_t experts, chosen;
    int64_t bits, block; /* of quantised weights; bits 0: they are reals */
    bool swiglu;
} mixture;

static bool named(const import_node *n, const char *name) {
    return import_text_is(n, "activation_type", name, "relu");
}

/* ---- one expert ------------------------------------------------------------------------------------------------ */

static ir_value *multiply(const import_node *n, const mixture *m, const product *p, ir_value *x) {
    op_attributes attributes = NONE;
    ir_value *inputs[] = {x, p->weights, p->bias, NULL, NULL, p->bias};
    if (!x || !p->weights) return NULL;
    if (!m->bits) {
        if (!import_attributes_add_integer(n, &attributes, "transB", 1)) return NULL;
        return import_make(n, OP_GEMM, attributes, p->bias ? 3 : 2, inputs);
    }
    inputs[2] = p->scales;
    inputs[3] = p->zeros;
    if (!p->scales || !import_ms_add_bits(n, &attributes, p->columns, p->rows, m->bits, m->block))
        return NULL;
    return import_make(n, OP_MATMUL_BITS, attributes, p->bias ? 6 : p->zeros ? 4 : 3, inputs);
}

/* x between a lower bound, which may be absent, and an upper one. */
static ir_value *limited(const import_node *n, ir_value *x, bool below, float limit) {
    if (!x) return NULL;
    ir_value *inputs[3] = {x};
    inputs[1] = below ? expr_number(n, x, (double)-limit) : NULL;
    inputs[2] = expr_number(n, x, (double)limit);
    return inputs[2] && (!below || inputs[1]) ? import_make(n, OP_CLIP, NONE, 3, inputs) : NULL;
}

/* gate * sigmoid(alpha * gate) * (linear + beta), both within the limit. */
static ir_value *gated(const import_node *n, ir_value *gate, ir_value *linear) {
    const float alpha = import_real(n, "activation_alpha", 1), beta = import_real(n, "activation_beta", 0);
    if (import_attribute(n, "swiglu_limit")) {
        const float limit = import_real(n, "swiglu_limit", 0);
        gate = limited(n, gate, false, limit);
        linear = limited(n, linear, true, limit);
    }
    const op_attribute slope = {.name = "alpha", .kind = OP_ATTRIBUTE_FLOAT, .count = 1, .as.real = alpha};
    op_attributes attributes = NONE;
    if (!gate || !linear || !ir_attribute_set(n->importer->module, &attributes, &slope)) return NULL;
    if (beta != 0) linear = expr_binary(n, OP_ADD, linear, expr_number(n, linear, (double)beta));
    return expr_binary(n, OP_MUL, import_make(n, OP_SWISH, attributes, 1, &gate), linear);
}

static ir_value *activated(const import_node *n, ir_value *x) {
    op_attributes attributes = NONE;
    if (!x || named(n, "identity")) return x;
    if (named(n, "relu")) return expr_unary(n, OP_RELU, x);
    if (named(n, "silu")) return expr_unary(n, OP_SWISH, x);
    return import_attributes_add_text(n, &attributes, "approximate", "tanh")
               ? import_make(n, OP_GELU, attributes, 1, &x)
               : NULL;
}

static ir_value *through_expert(const import_node *n, const mixture *m, const product *products, ir_value *x) {
    ir_value *gate = multiply(n, m, &products[GATE], x), *linear = NULL;
    if (products[LINEAR].weights) linear = multiply(n, m, &products[LINEAR], x);
    if (m->swiglu) gate = gated(n, gate, linear);
    else gate = activated(n, gate);
    if (!m->swiglu && products[LINEAR].weights) gate = expr_binary(n, OP_MUL, gate, linear);
    return multiply(n, m, &products[LAST], gate);
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

/* Sizes as vectors of one element: passes find them where the number of rows is known. */
typedef struct block_sizes {
    ir_value *rows, *block, *blocks;
} block_sizes;

/* A block has as many rows as an expert has on average, within bounds. False when memory runs out. */
static bool size_blocks(const import_node *n, const mixture *m, block_sizes *s) {
    enum { LEAST = 4, MOST = 32 };
    ir_value *extents = expr_unary(n, OP_SHAPE, m->x);
    s->rows = expr_binary(n, OP_GATHER, extents, expr_vector(n, 0));
    ir_value *each = expr_binary(n, OP_MUL, s->rows, expr_vector(n, m->chosen));
    each = expr_binary(n, OP_DIV, each, expr_vector(n, m->experts));
    each = expr_binary(n, OP_MAX, each, expr_vector(n, LEAST));
    each = expr_binary(n, OP_MIN, expr_binary(n, OP_MIN, each, expr_vector(n, MOST)), s->rows);
    s->block = expr_binary(n, OP_MAX, each, expr_vector(n, 1));
    ir_value *more = expr_binary(n, OP_SUB, s->block, expr_vector(n, 1));
    s->blocks = expr_binary(n, OP_DIV, expr_binary(n, OP_ADD, s->rows, more), s->block);
    return s->blocks != NULL;
}

/* Whether rows are worth ordering: there may be more than an expert has at the least. */
static bool has_blocks(const mixture *m) {
    const int64_t rows = m->x->type.shape.rank == 2 ? m->x->type.shape.dims[0] : -1;
    return rows < 0 || rows >= FEW_ROWS;
}

static ir_value *joined(const import_node *n, uint32_t count, ir_value **parts) {
    for (uint32_t i = 0; i < count; i++)
        if (!parts[i]) return NULL;
    return expr_with_integer(n, OP_CONCAT, "axis", 0, count, parts);
}

/* The vector, filled up with zeros to whole blocks, and cut into these: [blocks, block], or [blocks, block, 1]. */
static ir_value *cut(const import_node *n, const block_sizes *s, ir_value *x, bool wide) {
    ir_value *shape[] = {s->blocks, s->block, expr_vector(n, 1)};
    ir_value *missing = expr_binary(n, OP_SUB, expr_binary(n, OP_MUL, s->blocks, s->block), s->rows);
    ir_value *both[] = {x, x && missing ? expr_binary(n, OP_EXPAND, expr_number(n, x, 0), missing) : NULL};
    ir_value *whole = joined(n, 2, both);
    return expr_binary(n, OP_RESHAPE, whole, joined(n, wide ? 3 : 2, shape));
}

/* The rows of x with a share of the expert, in blocks: what each gives is added to the rows of the sum. */
static ir_value *add_blocks(const import_node *n, const mixture *m, const product *products, ir_value *sum, ir_value *share) {
    static const op_type iteration = {.dtype = OP_INT64}, condition = {.dtype = OP_BOOL};
    static const int64_t flat[] = {-1};
    block_sizes sizes;
    if (!size_blocks(n, m, &sizes)) return NULL;
    /* Shares from the largest on: those of other rows are 0. What fills up the last block is row 0, with none. */
    ir_value *some = expr_reshape(n, share, 1, flat), *top[] = {some, sizes.rows};
    ir_node *node = some ? import_begin(n, OP_TOP_K, NONE, 2, top) : NULL;
    ir_value *kept = node ? ir_node_add_output(node, NULL, NULL) : NULL,
             *places = kept ? ir_node_add_output(node, NULL, NULL) : NULL;
    if (!places || !import_infer(n->importer, node)) return NULL;
    ir_value *there = expr_cast(n, expr_binary(n, OP_GREATER, some, expr_number(n, some, 0)), OP_INT64);
    ir_value *block = expr_reduce(n, OP_REDUCE_MAX, sizes.block, 0, NULL, false),
             *more = expr_binary(n, OP_SUB, block, import_constant_integer(n, 1)),
             *count = there ? expr_reduce(n, OP_REDUCE_SUM, there, 0, NULL, false) : NULL;
    ir_value *inputs[] = {expr_binary(n, OP_DIV, expr_binary(n, OP_ADD, count, more), block), NULL, sum};
    kept = cut(n, &sizes, kept, true);
    places = cut(n, &sizes, places, false);
    if (!inputs[0] || !kept || !places) return NULL;
    import_scope scope;
    import_node within;
    ir_graph *body = expr_begin_graph(n, "blocks", &scope, &within);
    if (!body || !ir_graph_add_parameter(body, "iteration", &iteration) ||
        !ir_graph_add_parameter(body, "condition", &condition))
        return NULL;
    ir_value *carried = ir_graph_add_parameter(body, "sum", &sum->type);
    if (!carried) return NULL;
    ir_value *own = expr_binary(&within, OP_GATHER, kept, body->parameters[0]),
             *at = expr_binary(&within, OP_GATHER, places, body->parameters[0]);
    ir_value *x = at ? expr_binary(&within, OP_GATHER, m->x, at) : NULL;
    ir_value *y = x && own ? expr_binary(&within, OP_MUL, through_expert(&within, m, products, x), own) : NULL;
    op_attributes attributes = NONE;
    ir_value *scattered[] = {carried, at ? expr_axis(&within, OP_UNSQUEEZE, at, 1) : NULL, y};
    if (!scattered[1] || !y || !import_attributes_add_text(n, &attributes, "reduction", "add")) return NULL;
    ir_value *next = import_make(&within, OP_SCATTER_ND, attributes, 3, scattered);
    if (!next || !ir_graph_add_result(body, body->parameters[1]) || !ir_graph_add_result(body, next)) return NULL;
    ir_node *loop = import_begin(n, OP_LOOP, NONE, 3, inputs);
    return loop && ir_node_add_graph(loop, body) ? ir_node_add_output(loop, NULL, &sum->type) : NULL;
}

/* If the expert has a share of some row: what it gives is added to the sum. */
static ir_value *add_expert(const import_node *n, const mixture *m, const product *products, ir_value *sum, ir_value *share) {
    import_scope scopes[2];
    import_node within[2];
    ir_value *most = expr_reduce(n, OP_REDUCE_MAX, share, 0, NULL, false);
    ir_value *chosen = most ? expr_binary(n, OP_GREATER, most, expr_number(n, most, 0)) : NULL;
    ir_node *node = chosen ? import_begin(n, OP_IF, NONE, 1, &chosen) : NULL;
    ir_graph *graphs[2];
    graphs[0] = expr_begin_graph(n, "then_branch", &scopes[0], &within[0]);
    graphs[1] = expr_begin_graph(n, "else_branch", &scopes[1], &within[1]);
    if (!node || !graphs[0] || !graphs[1] || !ir_node_add_graph(node, graphs[0]) || !ir_node_add_graph(node, graphs[1]))
        return NULL;
    const bool blocks = has_blocks(m);
    ir_value *y = blocks ? add_blocks(&within[0], m, products, sum, share)
                         : expr_binary(&within[0], OP_MUL, through_expert(&within[0], m, products, m->x), share);
    if (!blocks) y = expr_binary(&within[0], OP_ADD, sum, y);
    if (!y || !ir_graph_add_result(graphs[0], y) || !ir_graph_add_result(graphs[1], sum)) return NULL;
    return ir_node_add_output(node, NULL, &sum->type);
}

/* The type of a slice along the first axis. */
static op_type slice_of(const ir_value *scanned) {
    op_type type = scanned->type;
    if (type.shape.rank > 0) {
        type.shape.rank--;
        memmove(type.shape.dims, type.shape.dims + 1, (size_t)type.shape.rank * sizeof *type.shape.dims);
    }
    return type;
}

/* The sum over all experts; NULL when memory runs out. */
static ir_value *sum_of_experts(const import_node *n, const mixture *m) {
    static const op_type iteration = {.dtype = OP_INT64}, condition = {.dtype = OP_BOOL};
    enum { SUM = 2, SCANNED = 3 };
    import_scope scope;
    import_node within;
    ir_value *inputs[SCANNED + 1 + 4 * PRODUCTS] = {import_constant_integer(n, m->experts)};
    ir_value *zero = expr_number(n, m->x, 0);
    inputs[SUM] = expr_binary(n, OP_EXPAND, zero, expr_unary(n, OP_SHAPE, m->x));
    inputs[SCANNED] = m->gates;
    if (!inputs[0] || !inputs[SUM] || !m->gates) return NULL;
    ir_graph *body = expr_begin_graph(n, "body", &scope, &within);
    if (!body || !ir_graph_add_parameter(body, "iteration", &iteration) ||
        !ir_graph_add_parameter(body, "condition", &condition))
        return NULL;
    ir_value *sum = ir_graph_add_parameter(body, "sum", &inputs[SUM]->type);
    const op_type share_type = slice_of(m->gates);
    ir_value *share = ir_graph_add_parameter(body, "share", &share_type);
    if (!sum || !share) return NULL;
    product one[PRODUCTS];
    memcpy(one, m->products, sizeof one);
    uint32_t count = SCANNED + 1;
    for (uint32_t p = 0; p < PRODUCTS; p++) {
        ir_value **parts[] = {&one[p].weights, &one[p].bias, &one[p].scales, &one[p].zeros};
        static const char *const names[] = {"weights", "bias", "scales", "zeros"};
        for (uint32_t i = 0; i < 4; i++) {
            if (!*parts[i]) continue;
            const op_type type = slice_of(*parts[i]);
            inputs[count++] = *parts[i];
            *parts[i] = ir_graph_add_parameter(body, names[i], &type);
            if (!*parts[i]) return NULL;
        }
    }
    ir_value *next = add_expert(&within, m, one, sum, share);
    if (!next || !ir_graph_add_result(body, body->parameters[1]) || !ir_graph_add_result(body, next)) return NULL;
    op_attributes attributes = NONE;
    if (!import_attributes_add_integer(n, &attributes, "ouro.scan_inputs", count - SCANNED)) return NULL;
    ir_node *loop = import_begin(n, OP_LOOP, attributes, count, inputs);
    return loop && ir_node_add_graph(loop, body) ? ir_node_add_output(loop, NULL, &inputs[SUM]->type) : NULL;
}

/* ---- what it needs ----------------------------------------------------------------------------------------------- */

/* The share of each expert in each row: [experts, rows, 1]. It is 0 but for the few that the row has chosen. */
static ir_value *shares(const import_node *n, const mixture *m, ir_value *router) {
    static const int64_t last = 1, turned[] = {1, 0};
    const int64_t extents[] = {-1, m->experts};
    ir_value *scores = expr_reshape(n, expr_widened(n, router), 2, extents);
    ir_value *all = expr_with_integer(n, OP_SOFTMAX, "axis", 1, 1, &scores);
    ir_value *inputs[] = {all, import_constant_integers(n, 1, &m->chosen)};
    ir_node *node = all && inputs[1] ? import_begin(n, OP_TOP_K, NONE, 2, inputs) : NULL;
    ir_value *kept = node ? ir_node_add_output(node, NULL, NULL) : NULL,
             *places = kept ? ir_node_add_output(node, NULL, NULL) : NULL;
    if (!places || !import_infer(n->importer, node)) return NULL;
    if (import_integer(n, "normalize_routing_weights", 0) == 1)
        kept = expr_binary(n, OP_DIV, kept, expr_reduce(n, OP_REDUCE_SUM, kept, 1, &last, true));
    ir_value *none = expr_number(n, all, 0);
    none = expr_binary(n, OP_EXPAND, none, expr_unary(n, OP_SHAPE, all));
    ir_value *scattered[] = {none, places, kept};
    ir_value *dense = expr_with_integer(n, OP_SCATTER_ELEMENTS, "axis", 1, 3, scattered);
    dense = expr_cast(n, expr_transpose(n, dense, 2, turned), import_dtype_of(m->x));
    return expr_axis(n, OP_UNSQUEEZE, dense, 2);
}

/* What belongs to one of two products whose rows (axis 1 of x) alternate, or follow each other. */
static ir_value *half_of(const import_node *n, ir_value *x, int64_t experts, int64_t rows, bool alternate, int64_t which) {
    const int32_t rank = import_rank_of(x);
    int64_t extents[4] = {experts, alternate ? rows : 2, alternate ? 2 : rows, -1};
    ir_value *apart = expr_reshape(n, x, rank == 3 ? 4 : 3, extents);
    ir_value *inputs[] = {apart, import_constant_integer(n, which)};
    return inputs[1] ? expr_with_integer(n, OP_GATHER, "axis", alternate ? 2 : 1, 2, inputs) : NULL;
}

/* One product of two whose rows are in `both`. */
static base_status take_half(const import_node *n, const mixture *m, const product *both, bool alternate, int64_t which,
                             product *half) {
    ir_value *const from[] = {both->weights, both->bias, both->scales, both->zeros};
    ir_value **to[] = {&half->weights, &half->bias, &half->scales, &half->zeros};
    *half = (product){.rows = both->rows / 2, .columns = both->columns};
    for (uint32_t i = 0; i < 4; i++) {
        if (!from[i]) continue;
        *to[i] = half_of(n, from[i], m->experts, half->rows, alternate, which);
        if (!*to[i]) return import_memory(n);
    }
    return BASE_OK;
}

/* The first weights tell the shapes of the others. */
static base_status check_shape(const import_node *n, uint32_t input, const product *p, int64_t rows, int64_t columns) {
    if (p->rows == rows && p->columns == columns) return BASE_OK;
    return base_fail(n->importer->report, BASE_INVALID,
                     "input %u has %lld rows of %lld weights for each expert, expected %lld of %lld: the first weights ask for that",
                     input, (long long)p->rows, (long long)p->columns, (long long)rows, (long long)columns);
}

/* Zero points of four bits and the like, one a row, packed along the rows: [experts, rows, 1] reals. */
static ir_value *unpacked(const import_node *n, const mixture *m, ir_value *zeros, int64_t rows) {
    const int64_t each = 8 / m->bits, one_each[] = {m->experts, -1, 1}, extents[] = {m->experts, rows, 1};
    ir_value *parts[4], *bytes = expr_reshape(n, zeros, 3, one_each);
    if (!bytes) return NULL;
    for (int64_t i = 0; i < each; i++) {
        op_attributes attributes = NONE;
        ir_value *inputs[] = {bytes, expr_number(n, bytes, (double)(i * m->bits))};
        if (!inputs[1] || !import_attributes_add_text(n, &attributes, "direction", "RIGHT")) return NULL;
        parts[i] = import_make(n, OP_BIT_SHIFT, attributes, 2, inputs);
        parts[i] =
            expr_binary(n, OP_BITWISE_AND, parts[i], expr_number(n, bytes, (double)((1 << m->bits) - 1)));
        if (!parts[i]) return NULL;
    }
    ir_value *all = each > 1 ? expr_with_integer(n, OP_CONCAT, "axis", 2, (uint32_t)each, parts) : parts[0];
    return expr_cast(n, expr_reshape(n, all, 3, extents), import_dtype_of(m->x));
}

/* One number a row as one for each of its blocks. */
static ir_value *for_blocks(const import_node *n, const mixture *m, ir_value *x, const product *p) {
    const int64_t extents[] = {m->experts, p->rows, 1}, repeats[] = {1, 1, p->columns / m->block};
    return expr_tile(n, expr_reshape(n, x, 3, extents), 3, repeats);
}

/* Scales and zero points of quantised weights. Where a row has one of each, its blocks, which there must be, share them. */
static base_status take_scales(const import_node *n, mixture *m, product *p, uint32_t scales, uint32_t zeros) {
    if (m->bits == 0) return BASE_OK;
    const bool blocks = import_attribute(n, "block_size") != NULL;
    p->scales = expr_input(n, scales);
    p->zeros = expr_input(n, zeros);
    if (!p->scales) return base_fail(n->importer->report, BASE_INVALID, "input %u is absent, it is needed", scales);
    if (p->columns % m->block != 0)
        return base_fail_unsupported(n->importer->report,
                                     "weights with %lld columns in blocks of %lld are not supported; whole blocks are",
                                     (long long)p->columns, (long long)m->block);
    p->scales = expr_cast(n, p->scales, import_dtype_of(m->x));
    if (!blocks) {
        p->scales = for_blocks(n, m, p->scales, p);
        if (p->zeros) p->zeros = for_blocks(n, m, unpacked(n, m, p->zeros, p->rows), p);
    }
    return p->scales ? BASE_OK : import_memory(n);
}

/* The product whose weights are input `weights`, of which a byte may hold several. */
static base_status take_product(const import_node *n, const mixture *m, uint32_t weights, uint32_t bias, product *p) {
    const int64_t each = m->bits ? 8 / m->bits : 1;
    p->weights = expr_input(n, weights);
    p->bias = expr_input(n, bias);
    if (!p->weights) return base_fail(n->importer->report, BASE_INVALID, "input %u is absent, it is needed", weights);
    const op_shape *shape = &p->weights->type.shape;
    if (shape->rank != 3 || shape->dims[0] < 1 || shape->dims[1] < 1 || shape->dims[2] < 1)
        return base_fail_unsupported(n->importer->report, "needs weights of known shape [experts, rows, columns]");
    p->rows = shape->dims[1];
    if (base_int64_multiply(shape->dims[2], each, &p->columns)) return BASE_OK;
    return base_fail(n->importer->report, BASE_INVALID, "input %u has more columns than a tensor holds", weights);
}

/* All that has the experts as its first axis has as many. */
static base_status check_experts(const import_node *n, const mixture *m, uint32_t first) {
    for (uint32_t i = first; i < n->input_count; i++) {
        const ir_value *value = n->inputs[i];
        if (!value || (value->type.shape.rank > 0 && value->type.shape.dims[0] == m->experts)) continue;
        return base_fail(n->importer->report, BASE_INVALID, "input %u does not begin with the %lld experts of the weights", i,
                         (long long)m->experts);
    }
    return BASE_OK;
}

static base_status check_attributes(const import_node *n, mixture *m) {
    base_report *report = n->importer->report;
    static const char *const known[] = {"relu", "gelu", "silu", "swiglu", "identity"};
    uint32_t i = 0;
    while (i < 5 && !named(n, known[i])) i++;
    if (i == 5)
        return base_fail_unsupported(report, "this activation_type is not supported; relu, gelu, silu, swiglu and identity are");
    m->swiglu = named(n, "swiglu");
    m->chosen = import_integer(n, "k", 1);
    if (import_integer(n, "use_sparse_mixer", 0))
        return base_fail_unsupported(report, "use_sparse_mixer is not supported; 0 is");
    return BASE_OK;
}

/* Which inputs belong to the first, the last and the third product. */
typedef struct input_numbers {
    uint32_t weights[3], bias[3], scales[3], zeros[3];
} input_numbers;

static base_status take_products(const import_node *n, mixture *m, const input_numbers *at) {
    product first = {0}, third = {0};
    product *last = &m->products[LAST];
    const int64_t fusion = import_integer(n, "swiglu_fusion", 0);
    const bool fused = m->swiglu && fusion != 0;
    base_status status = take_product(n, m, at->weights[0], at->bias[0], &first);
    if (status == BASE_OK) status = take_product(n, m, at->weights[1], at->bias[1], last);
    if (status != BASE_OK) return status;
    m->experts = first.weights->type.shape.dims[0];
    if (fusion < 0 || fusion > 2 || m->chosen < 1 || m->chosen > m->experts)
        return base_fail(n->importer->report, BASE_INVALID,
                         "swiglu_fusion is %lld and k %lld, expected 0 to 2, and 1 to %lld (the experts)", (long long)fusion,
                         (long long)m->chosen, (long long)m->experts);
    status = check_experts(n, m, at->weights[0]);
    if (status != BASE_OK) return status;
    if (fused && first.rows % 2 != 0)
        return base_fail(n->importer->report, BASE_INVALID, "input %u has %lld rows for each expert, expected an even number",
                         at->weights[0], (long long)first.rows);
    status = check_shape(n, at->weights[1], last, first.columns, fused ? first.rows / 2 : first.rows);
    if (status == BASE_OK) status = take_scales(n, m, &first, at->scales[0], at->zeros[0]);
    if (status == BASE_OK) status = take_scales(n, m, last, at->scales[1], at->zeros[1]);
    const bool has_third = expr_input(n, at->weights[2]) != NULL;
    if (status == BASE_OK && (has_third || (m->swiglu && !fused))) {
        if (fused)
            return base_fail(n->importer->report, BASE_INVALID, "input %u is there beside weights that swiglu_fusion joins",
                             at->weights[2]);
        status = take_product(n, m, at->weights[2], at->bias[2], &third);
        if (status == BASE_OK) status = check_shape(n, at->weights[2], &third, first.rows, first.columns);
        if (status == BASE_OK) status = take_scales(n, m, &third, at->scales[2], at->zeros[2]);
    }
    if (status != BASE_OK) return status;
    m->products[GATE] = first;
    m->products[LINEAR] = third;
    if (!fused) return BASE_OK;
    status = take_half(n, m, &first, fusion == 1, 0, &m->products[GATE]);
    return status == BASE_OK ? take_half(n, m, &first, fusion == 1, 1, &m->products[LINEAR]) : status;
}

static base_status mix(import_node *n, mixture *m, const input_numbers *at) {
    base_status status = expr_need_inputs(n, 3, 0);
    if (status == BASE_OK) status = expr_need_dtype(n, n->inputs[0]);
    if (status == BASE_OK) status = expr_need_dtype(n, n->inputs[1]);
    if (status == BASE_OK) status = check_attributes(n, m);
    if (status != BASE_OK) return status;
    m->x = n->inputs[0];
    status = take_products(n, m, at);
    if (status != BASE_OK) return status;
    const int64_t rows[] = {-1, m->products[LAST].rows};
    m->x = expr_reshape(n, n->inputs[0], 2, rows);
    m->gates = m->x ? shares(n, m, n->inputs[1]) : NULL;
    ir_value *sum = m->gates ? sum_of_experts(n, m) : NULL;
    return expr_finish(n, expr_binary(n, OP_RESHAPE, sum, expr_unary(n, OP_SHAPE, n->inputs[0])));
}

base_status import_convert_ms_mixture(import_node *n) {
    enum { NOWHERE = UINT32_MAX };
    static const input_numbers at = {
        {2, 4, 6}, {3, 5, 7}, {NOWHERE, NOWHERE, NOWHERE}, {NOWHERE, NOWHERE, NOWHERE}};
    mixture m = {0};
    return mix(n, &m, &at);
}

/* The weights are packed as those of MatMulNBits. */
base_status import_convert_ms_quantized_mixture(import_node *n) {
    static const input_numbers at = {{2, 5, 8}, {4, 7, 10}, {3, 6, 9}, {11, 12, 13}};
    mixture m = {.bits = import_integer(n, "expert_weight_bits", 4), .block = import_integer(n, "block_size", 0)};
    if (m.bits != 2 && m.bits != 4 && m.bits != 8)
        return base_fail_unsupported(n->importer->report, "expert_weight_bits %lld is not supported; 2, 4 and 8 are",
                                     (long long)m.bits);
    if (!import_attribute(n, "block_size")) {
        /* A row has one scale: blocks as large as there can be, so that products of both depths have whole ones. */
        const ir_value *first = expr_input(n, at.weights[0]), *second = expr_input(n, at.weights[1]);
        m.block = 1;
        if (import_rank_of(first) == 3 && import_rank_of(second) == 3) {
            const int64_t bytes = first->type.shape.dims[2] | second->type.shape.dims[2];
            while (bytes > 0 && bytes % (m.block * 2) == 0) m.block *= 2;
            m.block = m.block > INT32_MAX ? INT32_MAX : m.block * (8 / m.bits);
        }
    }
    if (m.block < 16)
        return base_fail_unsupported(n->importer->report,
                                     "blocks of %lld columns of the weights are not supported; 16, 32, 64, ... are",
                                     (long long)m.block);
    return mix(n, &m, &at);
}
