/* SPDX-License-Identifier: Apache-2.0 */
/* fuse_attention.c: attention as exporters write it becomes the operator Attention, which holds no scores of all queries.
 *
 *     %s: [1,12,128,128] = MatMul(%q, %k) {ouro.left = [0, 2, 1, 3], ouro.right = [0, 2, 3, 1]}
 *     %d = Div(%s, %c)  %m = Add(%d, %mask)  %p = Softmax(%m) {axis = -1}
 *     %h: [1,12,128,32] = MatMul(%p, %v) {ouro.right = [0, 2, 1, 3]}  %t: [1,128,12,32] = Transpose(%h) {perm = [0, 2, 1, 3]}
 *  => %a: [1,128,384] = Attention(%q', %k', %v', %mask) {scale = ..., q_num_heads = 12, kv_num_heads = 12}
 *     %t: [1,128,12,32] = Reshape(%a)
 *
 * where %q', %k' and %v' name the bytes of %q, %k and %v as rows of tokens. Operands that lie head by head are read as they lie. A
 * factor and a mask need not be there. Only where nobody else reads what is made between. In float, or all in float16 or bfloat16, which the
 * kernel rounds once; not small scores in bfloat16 where the processor multiplies that twice as fast as the kernel, in float.
 *
 * Not with exact arithmetic: exponentials are summed in another order. Not with portable kernels alone, which are the same on every
 * machine. Not where the scratch of the kernel is larger than the scores, nor for a few queries, whose keys are not worth packing.
 * Where extents are open: where there are as many queries as keys.
 *
 * Keys and values that are Casts from half precision, as of caches that are kept so (halve_states.c), are read as they are, by the
 * operator Attention too, and none of this forbids it: as floats they would be copied whole.
 *
 *     %f = Cast(%k: float16[...])  %g = Cast(%v: float16[...])  %a = Attention(%q, %f, %g)
 *  => %a = Attention(%q, %k, %v) {ouro.halves = 1}
 *
 * Needs: types, layouts, no dead nodes; bands, which go by rows of scores, are made. Breaks: nothing. Guarantees: values stay what
 * they were, up to rounding.
 */
#include "passes/layout/layout.h"
#include "runtime/kernels/portable/cost.h"
#include <string.h>

enum { RANK = 4, LEAST_QUERIES = 12, NEAR_SCORES = 1 << 20 /* bytes that stay in a near cache */ };

typedef struct fuser {
    pass_context *context;
    base_arena arena;
    bool only_halves; /* nothing but keys and values in half precision */
    bool out_of_memory;
} fuser;

/* What is read, from the end to the begin. */
typedef struct attention {
    ir_node *nodes[5]; /* that go, the last one first: MatMul, Softmax, perhaps Add and Mul or Div, MatMul */
    uint32_t count;
    ir_value *q, *k, *v, *mask;
    bool q_by_tokens, k_by_tokens,
        v_by_tokens;         /* [batch, token, head, element]; otherwise heads are before tokens */
    bool k_turned, v_turned; /* [token, batch, head, element], as a cache is carried */
    bool halves;             /* keys and values are kept in half precision */
    int64_t q_heads, kv_heads;
    double scale;
    const op_shape *scores;
} attention;

/* The node of `graph` that makes `value`, if nobody else reads it. */
static ir_node *only_producer(const ir_value *value, const ir_graph *graph) {
    if (!value || value->kind != IR_RESULT_OF_NODE || value->node->graph != graph || value->index != 0 ||
        value->node->output_count != 1)
        return NULL;
    return value->uses && !value->uses->next && value->uses->node && value->uses->node->graph == graph
               ? value->node
               : NULL;
}

static bool is_plain(const ir_value *value) {
    const op_dtype dtype = value ? value->type.dtype : OP_NONE;
    return value && value->type.kind == OP_KIND_TENSOR &&
           (dtype == OP_FLOAT || dtype == OP_FLOAT16 || dtype == OP_BFLOAT16) &&
           value->type.layout == OP_LAYOUT_ROW_MAJOR && value->type.shape.rank == RANK;
}

/* A product of two tensors of rank 4, and nothing else. */
static bool is_product(const ir_node *node) {
    return node && node->code == OP_MATMUL && !ir_input(node, 2) &&
           !op_attribute_find(&node->attributes, "ouro.activation") && is_plain(ir_input(node, 0)) &&
           is_plain(ir_input(node, 1)) && is_plain(node->outputs[0]);
}

static bool is_order(const ir_node *node, const char *name, const int64_t wanted[RANK]) {
    size_t count;
    const int64_t *order = op_attribute_integers(&node->attributes, name, &count);
    return order && count == RANK && memcmp(order, wanted, RANK * sizeof *order) == 0;
}

static bool has_order(const ir_node *node, const char *name, int64_t b, int64_t c, int64_t d) {
    return is_order(node, name, (const int64_t[]){0, b, c, d});
}

/* What a Cast makes floats of half precision of; NULL: it is none. */
static ir_value *halves_of(const ir_value *value) {
    const ir_node *cast = value && value->kind == IR_RESULT_OF_NODE ? value->node : NULL;
    ir_value *from =
        cast && cast->code == OP_CAST && value->type.dtype == OP_FLOAT ? ir_input(cast, 0) : NULL;
    return from && (from->type.dtype == OP_FLOAT16 || from->type.dtype == OP_BFLOAT16) &&
                   from->type.layout == OP_LAYOUT_ROW_MAJOR
               ? from
               : NULL;
}

/* Both are, and of one type. */
static bool are_halves(const ir_value *k, const ir_value *v) {
    const ir_value *keys = halves_of(k), *values = halves_of(v);
    return keys && values && keys->type.dtype == values->type.dtype;
}

static bool takes(attention *a, ir_node *node) {
    if (!node) return false;
    a->nodes[a->count++] = node;
    return true;
}

/* The other operand of an Add: it broadcasts to the scores. */
static bool is_mask(const ir_value *mask, op_dtype dtype, const op_shape *scores) {
    if (mask->type.kind != OP_KIND_TENSOR || mask->type.dtype != dtype ||
        mask->type.layout != OP_LAYOUT_ROW_MAJOR || mask->type.shape.rank < 0 || mask->type.shape.rank > RANK)
        return false;
    for (int32_t i = 0; i < mask->type.shape.rank; i++) {
        const int64_t own = mask->type.shape.dims[i], of = scores->dims[RANK - mask->type.shape.rank + i];
        if (own != 1 && (own != of || own == OP_DIM_UNKNOWN)) return false;
    }
    return true;
}

/* The factor of a Mul or Div by one constant number. */
static bool read_factor(const ir_node *node, uint32_t *product, double *factor) {
    if (node->code != OP_MUL && node->code != OP_DIV) return false;
    for (uint32_t i = 0; i < 2; i++) {
        float value;
        if ((i == 1 && node->code == OP_DIV) || !pass_read_number(ir_input(node, 1 - i), RANK, &value))
            continue;
        *product = i;
        *factor = node->code == OP_DIV ? 1 / (double)value : (double)value;
        return true;
    }
    return false;
}

/* From the second product back to the first one. */
static bool read_attention(ir_node *second, attention *a) {
    *a = (attention){.scale = 1};
    if (!is_product(second) || op_attribute_find(&second->attributes, "ouro.left") || !takes(a, second))
        return false;
    const ir_graph *graph = second->graph;
    ir_node *softmax = only_producer(ir_input(second, 0), graph), *node;
    if (!takes(a, softmax) || softmax->code != OP_SOFTMAX) return false;
    const int64_t axis = op_attribute_integer(&softmax->attributes, "axis", -1);
    if (!is_plain(ir_input(softmax, 0)) || (axis != -1 && axis != RANK - 1)) return false;
    a->scores = &ir_input(softmax, 0)->type.shape;
    if (!(node = only_producer(ir_input(softmax, 0), graph))) return false;
    for (uint32_t i = 0; i < 2 && node->code == OP_ADD && !a->mask; i++) {
        /* The scores are what a product, or what scales it, makes. */
        ir_node *scores = only_producer(ir_input(node, i), graph);
        uint32_t at;
        double factor;
        if (!scores || !(scores->code == OP_MATMUL || read_factor(scores, &at, &factor)) ||
            !op_shape_equal(&scores->outputs[0]->type.shape, a->scores) ||
            !is_mask(ir_input(node, 1 - i), scores->outputs[0]->type.dtype, a->scores))
            continue;
        a->mask = ir_input(node, 1 - i);
        takes(a, node);
        node = scores;
    }
    uint32_t at;
    if (read_factor(node, &at, &a->scale)) {
        takes(a, node);
        if (!(node = only_producer(ir_input(node, at), graph))) return false;
    }
    if (!is_product(node) || !takes(a, node) || !op_shape_equal(&node->outputs[0]->type.shape, a->scores))
        return false;
    a->q = ir_input(node, 0);
    a->k = ir_input(node, 1);
    a->v = ir_input(second, 1);
    a->q_by_tokens = has_order(node, "ouro.left", 2, 1, 3);
    a->k_by_tokens = has_order(node, "ouro.right", 2, 3, 1);
    a->v_by_tokens = has_order(second, "ouro.right", 2, 1, 3);
    a->k_turned = is_order(node, "ouro.right", (const int64_t[]){1, 2, 3, 0});
    a->v_turned = is_order(second, "ouro.right", (const int64_t[]){1, 2, 0, 3});
    a->halves = are_halves(a->k, a->v);
    a->q_heads = a->q->type.shape.dims[a->q_by_tokens ? 2 : 1];
    a->kv_heads = a->k->type.shape.dims[a->k_by_tokens || a->k_turned ? 2 : 1];
    return (a->q_by_tokens || !op_attribute_find(&node->attributes, "ouro.left")) &&
           (a->k_by_tokens || a->k_turned || has_order(node, "ouro.right", 1, 3, 2)) &&
           (a->v_by_tokens || a->v_turned || !op_attribute_find(&second->attributes, "ouro.right"));
}

/* No operand is broadcast, and it is worth it. */
static bool is_worth(const attention *a) {
    const op_shape *q = &a->q->type.shape, *k = &a->k->type.shape, *v = &a->v->type.shape;
    const int64_t queries = a->scores->dims[2], keys = a->scores->dims[3];
    if (a->q_heads <= 0 || a->q_heads != a->kv_heads ||
        v->dims[a->v_by_tokens || a->v_turned ? 2 : 1] != a->kv_heads || q->dims[0] != k->dims[a->k_turned] ||
        q->dims[0] != v->dims[a->v_turned] || q->dims[0] == OP_DIM_UNKNOWN || q->dims[3] <= 0 ||
        v->dims[3] <= 0)
        return false;
    if (a->halves) return true;
    if (a->k_turned || a->v_turned) return false; /* caches, for a few queries */
    return queries >= 0 && keys >= 0 ? queries >= LEAST_QUERIES
                                     : queries == keys && queries != OP_DIM_UNKNOWN;
}

/* Products apart are faster than the kernel, which multiplies floats. */
static bool is_faster_apart(const attention *a, const rt_environment *environment) {
    const op_type scores = {.dtype = a->v->type.dtype, .shape = *a->scores};
    size_t bytes;
    return rt_products_at_once(scores.dtype, environment) > 1 && op_shape_known(&scores.shape) &&
           op_type_bytes(&scores, &bytes) && bytes <= NEAR_SCORES;
}

/* ---- what is made ------------------------------------------------------------------------------------------ */

static ir_value *reshaped(fuser *f, ir_value *value, const op_shape *shape, const int64_t *wanted,
                          ir_node *before) {
    ir_module *module = before->graph->module;
    op_type type = value->type;
    type.shape = *shape;
    const op_type list = {.dtype = OP_INT64, .shape = {.rank = 1, .dims = {shape->rank}}};
    ir_value *constant =
        ir_constant_copy(module, "rows", &list, wanted, (size_t)shape->rank * sizeof(int64_t));
    ir_value *inputs[] = {value, constant};
    ir_node *node = constant ? ir_node_new(before->graph, before, OP_RESHAPE, before->name, before->path,
                                           (op_attributes){0}, 2, inputs)
                             : NULL;
    ir_value *made = node ? ir_node_add_output(node, value->name, &type) : NULL;
    f->out_of_memory |= !made;
    return made;
}

/* [batch, token, head, element] as [batch, token, head and element]: as it was before it was named so, or named anew. */
static ir_value *as_tokens(fuser *f, ir_value *value, ir_node *before) {
    const int64_t *d = value->type.shape.dims;
    const op_shape shape = {.rank = 3, .dims = {d[0], d[1], d[2] * d[3]}};
    const int64_t wanted[] = {0, 0, d[2] * d[3]};
    ir_value *from =
        value->kind == IR_RESULT_OF_NODE && value->node->code == OP_RESHAPE ? ir_input(value->node, 0) : NULL;
    if (from && d[0] != OP_DIM_UNKNOWN && d[1] != OP_DIM_UNKNOWN &&
        from->type.layout == OP_LAYOUT_ROW_MAJOR && op_shape_equal(&from->type.shape, &shape))
        return from;
    return reshaped(f, value, &shape, wanted, before);
}

/* Names that nobody reads any more. */
static void remove_names(ir_value *const operands[3]) {
    for (uint32_t i = 0; i < 3; i++) {
        ir_value *value = operands[i];
        for (uint32_t k = 0; k < i && value; k++)
            if (operands[k] == value) value = NULL;
        while (value && !value->uses && value->kind == IR_RESULT_OF_NODE && value->node->code == OP_RESHAPE) {
            ir_node *node = value->node;
            value = ir_input(node, 0);
            ir_node_remove(node);
        }
    }
}

static ir_node *new_attention(fuser *f, const attention *a, ir_node *before) {
    const op_attribute set[] = {
        {.name = "scale", .kind = OP_ATTRIBUTE_FLOAT, .count = 1, .as.real = (float)a->scale},
        {.name = "q_num_heads", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = a->q_heads},
        {.name = "kv_num_heads", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = a->kv_heads},
        {.name = "ouro.stretch", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = 1},
        {.name = "ouro.turned",
         .kind = OP_ATTRIBUTE_INT,
         .count = 1,
         .as.integer = (a->k_turned ? 1 << 1 : 0) | (a->v_turned ? 1 << 2 : 0)},
        {.name = "ouro.halves", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = 1}};
    const bool wanted[] = {true, true, true, a->mask != NULL, a->k_turned || a->v_turned, a->halves};
    ir_value *const operands[] = {a->q, a->halves ? halves_of(a->k) : a->k,
                                  a->halves ? halves_of(a->v) : a->v};
    const bool by_tokens[] = {a->q_by_tokens, a->k_by_tokens, a->v_by_tokens};
    ir_value *inputs[] = {NULL, NULL, NULL, a->mask};
    op_attributes attributes = {0};
    for (size_t i = 0; i < sizeof set / sizeof *set; i++)
        if (wanted[i] && !ir_attribute_set(before->graph->module, &attributes, &set[i]))
            f->out_of_memory = true;
    for (size_t i = 0; i < 3 && !f->out_of_memory; i++)
        inputs[i] = by_tokens[i] ? as_tokens(f, operands[i], before) : operands[i];
    if (f->out_of_memory) return NULL;
    ir_node *node = ir_node_new(before->graph, before, OP_ATTENTION, before->name, before->path, attributes,
                                a->mask ? 4 : 3, inputs);
    op_type type = inputs[0]->type;
    const int64_t width = a->v->type.shape.dims[3];
    type.shape.dims[type.shape.rank - 1] = type.shape.rank == 3 ? a->q_heads * width : width;
    if (!node || !ir_node_add_output(node, before->outputs[0]->name, &type)) {
        f->out_of_memory = true;
        return NULL;
    }
    return node;
}

/* The kernel takes no more memory than the scores would. */
static bool takes_less(fuser *f, const ir_node *node, const attention *a) {
    const op_type scores = {.dtype = OP_FLOAT, .shape = *a->scores};
    const rt_environment *environment = &f->context->options->environment;
    size_t bytes;
    op_call call;
    if (!pass_shapes_known(node)) return true;
    if (!op_type_bytes(&scores, &bytes)) return false;
    if (!ir_node_call(node, &f->arena, &call)) {
        f->out_of_memory = true;
        return false;
    }
    const rt_kernel *kernel = rt_kernel_select(&call, environment);
    rt_prepared prepared;
    if (!kernel ||
        rt_kernel_prepare(kernel, &call, environment, &f->arena, &prepared, f->context->report) != BASE_OK) {
        f->out_of_memory = true;
        return false;
    }
    const bool less = prepared.scratch_bytes <= bytes;
    rt_kernel_release(&prepared);
    return less;
}

static void remove_attention(ir_node *node) {
    ir_value *const inputs[] = {ir_input(node, 0), ir_input(node, 1), ir_input(node, 2)};
    ir_node_remove(node);
    remove_names(inputs);
}

/* Casts that nobody reads any more. */
static void remove_casts(ir_value *const operands[2]) {
    for (uint32_t i = 0; i < 2; i++) {
        if ((i == 1 && operands[0] == operands[1]) || operands[i]->uses ||
            operands[i]->kind != IR_RESULT_OF_NODE || operands[i]->node->code != OP_CAST)
            continue;
        ir_node_remove(operands[i]->node);
    }
}

static void fuse(fuser *f, ir_node *second) {
    attention a;
    if (!read_attention(second, &a) || (f->only_halves && !a.halves) || !is_worth(&a) ||
        is_faster_apart(&a, &f->context->options->environment))
        return;
    /* Heads stand after tokens in the result as in the queries: somebody must turn them round. */
    ir_value *heads = second->outputs[0];
    ir_node *transpose = a.q_by_tokens && heads->uses && !heads->uses->next ? heads->uses->node : NULL;
    if (a.q_by_tokens && (!transpose || transpose->graph != second->graph ||
                          transpose->code != OP_TRANSPOSE || !has_order(transpose, "perm", 2, 1, 3)))
        return;
    ir_node *node = new_attention(f, &a, second);
    if (!node) return;
    if (!a.halves && !takes_less(f, node, &a)) {
        if (!f->out_of_memory) remove_attention(node);
        return;
    }
    ir_value *made = node->outputs[0], *old = heads;
    if (transpose) {
        old = transpose->outputs[0];
        const int64_t wanted[] = {0, 0, a.q_heads, a.v->type.shape.dims[3]};
        if (!(made = reshaped(f, made, &old->type.shape, wanted, transpose))) return;
    }
    ir_value_replace(old, made);
    if (transpose) ir_node_remove(transpose);
    for (uint32_t i = 0; i < a.count; i++) ir_node_remove(a.nodes[i]);
    remove_names((ir_value *const[]){a.q, a.k, a.v});
    remove_casts((ir_value *const[]){a.k, a.v});
}

/* The operator Attention reads halves itself. */
static void read_halves(fuser *f, ir_node *node) {
    ir_value *const operands[] = {ir_input(node, 1), ir_input(node, 2)};
    const op_attribute halves = {
        .name = "ouro.halves", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = 1};
    if (!are_halves(operands[0], operands[1]) || ir_input(node, 0)->type.dtype != OP_FLOAT) return;
    f->out_of_memory |= !ir_attribute_set(node->graph->module, &node->attributes, &halves) ||
                        !ir_node_set_input(node, 1, halves_of(operands[0])) ||
                        !ir_node_set_input(node, 2, halves_of(operands[1]));
    if (!f->out_of_memory) remove_casts(operands);
}

base_status pass_fuse_attention(pass_context *context) {
    fuser f = {.context = context,
               .only_halves =
                   context->options->exact_arithmetic || context->options->environment.portable_only};
    base_arena_init(&f.arena, context->scratch->allocator);
    const ir_module *module = context->module;
    const size_t count = module->node_count; /* what is made is no product */
    for (size_t n = 1; n < count && !f.out_of_memory; n++) {
        ir_node *node = module->nodes[n];
        if (node && node->code == OP_MATMUL) fuse(&f, node);
        else if (node && node->code == OP_ATTENTION) read_halves(&f, node);
        base_arena_free(&f.arena);
    }
    return f.out_of_memory ? base_fail_memory(context->report) : BASE_OK;
}
