/* SPDX-License-Identifier: Apache-2.0 */
/* gradient.c: Gradient (ai.onnx.preview.training): the part of the graph between the tensors that it
 * names is differentiated in reverse, operator by operator, into nodes that stand after it. What the file's operators
 * are made of is differentiated, so that few rules serve many of them.
 *
 * Reverse accumulation is textbook matter: A. Griewank, A. Walther, "Evaluating Derivatives", SIAM 2008, chapter 3.
 *
 * Functions that return values return NULL when memory runs out, and give NULL for NULL, so that expressions nest.
 */
#include "compiler/onnx/convert/convert.h"

#include <string.h>

static const op_attributes NONE = {0};

/* By the number of a value: what replaces it in this evaluation, and the derivative of y by it. */
typedef struct entry {
    ir_value *replacement, *derivative;
    bool wanted; /* y depends on an x through it */
} entry;

typedef struct gradient {
    import_node *n;
    ir_node *last; /* the newest node before the Gradient's own ones */
    entry *entries;
    size_t count; /* of values, before any are added */
} gradient;

/* ---- expressions --------------------------------------------------------------------------------------- */

static ir_value *unary(const import_node *n, op_code code, ir_value *x) {
    return x ? import_make(n, code, NONE, 1, &x) : NULL;
}

static ir_value *binary(const import_node *n, op_code code, ir_value *x, ir_value *y) {
    ir_value *inputs[] = {x, y};
    return x && y ? import_make(n, code, NONE, 2, inputs) : NULL;
}

static ir_value *number(const import_node *n, const ir_value *like, double value) {
    return like ? import_constant_real(n, import_dtype_of(like), value) : NULL;
}

static ir_value *times(const import_node *n, ir_value *x, ir_value *y) {
    return binary(n, OP_MUL, x, y);
}

static ir_value *select(const import_node *n, ir_value *condition, ir_value *x, ir_value *y) {
    ir_value *inputs[] = {condition, x, y};
    return condition && x && y ? import_make(n, OP_WHERE, NONE, 3, inputs) : NULL;
}

/* Of the shape of `like`, whatever had been repeated or renamed. */
static ir_value *reshaped_like(const import_node *n, ir_value *x, ir_value *like) {
    ir_value *inputs[] = {x, unary(n, OP_SHAPE, like)};
    op_attributes exactly = NONE; /* extents of zero are meant */
    if (!x || !inputs[1] || !import_attributes_add_integer(n, &exactly, "allowzero", 1)) return NULL;
    return import_make(n, OP_RESHAPE, exactly, 2, inputs);
}

static ir_value *expanded_like(const import_node *n, ir_value *x, ir_value *like) {
    return binary(n, OP_EXPAND, x, unary(n, OP_SHAPE, like));
}

/* The last two axes exchanged. */
static ir_value *transposed(const import_node *n, ir_value *x) {
    int64_t order[OP_MAX_RANK];
    int32_t rank = import_rank_of(x);
    op_attributes attributes = NONE;
    for (int32_t i = 0; i < rank; i++) order[i] = i;
    order[rank - 1] = rank - 2;
    order[rank - 2] = rank - 1;
    if (!import_attributes_add_integers(n, &attributes, "perm", (size_t)rank, order)) return NULL;
    return import_make(n, OP_TRANSPOSE, attributes, 1, &x);
}

static ir_value *sum_over(const import_node *n, ir_value *x, size_t count, const int64_t *axes, bool keep) {
    op_attributes attributes = NONE;
    ir_value *inputs[] = {x, import_constant_integers(n, count, axes)};
    if (!x || !inputs[1] || !import_attributes_add_integer(n, &attributes, "keepdims", keep)) return NULL;
    return import_make(n, OP_REDUCE_SUM, attributes, 2, inputs);
}

/* ---- broadcasting -------------------------------------------------------------------------------------- */

static base_status fail_rule(const gradient *g, const ir_node *node, const char *why) {
    return base_fail_unsupported(
        g->n->importer->report, "the derivative of %s (making \"%s\") is not supported%s",
        op_schema_of(node->code)->name, node->outputs[0] ? node->outputs[0]->name : "", why);
}

/* The derivative of what was broadcast: summed over the repetitions of `x`. */
static base_status unbroadcast(const gradient *g, const ir_node *node, ir_value *x, ir_value **derivative) {
    const import_node *n = g->n;
    if (!*derivative) return import_memory(n);
    const op_shape *from = &(*derivative)->type.shape, *to = &x->type.shape;
    if (op_shape_equal(from, to) && op_shape_known(to)) return BASE_OK;
    int64_t axes[OP_MAX_RANK];
    size_t count = 0;
    if (from->rank < 0 || to->rank < 0 || to->rank > from->rank)
        return fail_rule(g, node, " where ranks are not known");
    int32_t added = from->rank - to->rank;
    for (int32_t d = 0; d < from->rank; d++) {
        int64_t wide = from->dims[d], narrow = d < added ? 1 : to->dims[d - added];
        if (d < added || (narrow == 1 && wide != 1)) axes[count++] = d;
        else if (wide != narrow || wide == OP_DIM_UNKNOWN)
            return fail_rule(g, node, " where extents are not known");
    }
    if (!count) return BASE_OK;
    *derivative = reshaped_like(n, sum_over(n, *derivative, count, axes, true), x);
    return *derivative ? BASE_OK : import_memory(n);
}

/* ---- rules --------------------------------------------------------------------------------------------- */

/* The derivative of y by a value in this evaluation. */
static ir_value *actual(const gradient *g, ir_value *value) {
    if (!value || value->id.index >= g->count || !g->entries[value->id.index].replacement) return value;
    return g->entries[value->id.index].replacement;
}

static ir_value *rule_unary(const import_node *n, const ir_node *node, ir_value *d, ir_value *x,
                            ir_value *y) {
    ir_value *where, *less, *one;
    switch (node->code) {
    case OP_IDENTITY:
    case OP_COPY:
        return unary(n, OP_IDENTITY, d);
    case OP_NEG:
        return unary(n, OP_NEG, d);
    case OP_ABS:
        return times(n, d, unary(n, OP_SIGN, x));
    case OP_EXP:
        return times(n, d, y);
    case OP_LOG:
        return binary(n, OP_DIV, d, x);
    case OP_SQRT:
        return binary(n, OP_DIV, d, times(n, number(n, y, 2), y));
    case OP_RECIPROCAL:
        return unary(n, OP_NEG, times(n, d, times(n, y, y)));
    case OP_TANH:
        one = number(n, y, 1);
        return times(n, d, binary(n, OP_SUB, one, times(n, y, y)));
    case OP_SIGMOID:
        return times(n, d, times(n, y, binary(n, OP_SUB, number(n, y, 1), y)));
    case OP_SOFTPLUS:
        return times(n, d, unary(n, OP_SIGMOID, x));
    case OP_SIN:
        return times(n, d, unary(n, OP_COS, x));
    case OP_COS:
        return unary(n, OP_NEG, times(n, d, unary(n, OP_SIN, x)));
    case OP_RELU:
        where = binary(n, OP_GREATER, x, number(n, x, 0));
        return select(n, where, d, number(n, d, 0));
    case OP_LEAKY_RELU:
        where = binary(n, OP_LESS, x, number(n, x, 0));
        less = times(n, d, number(n, d, (double)op_attribute_real(&node->attributes, "alpha", 0.01f)));
        return select(n, where, less, d);
    case OP_RESHAPE:
    case OP_SQUEEZE:
    case OP_UNSQUEEZE:
    case OP_FLATTEN:
        return reshaped_like(n, d, x);
    default:
        return NULL;
    }
}

static bool has_unary_rule(op_code code) {
    static const op_code codes[] = {OP_IDENTITY, OP_COPY,    OP_NEG,        OP_ABS,    OP_EXP,
                                    OP_LOG,      OP_SQRT,    OP_RECIPROCAL, OP_TANH,   OP_SIGMOID,
                                    OP_SOFTPLUS, OP_SIN,     OP_COS,        OP_RELU,   OP_LEAKY_RELU,
                                    OP_RESHAPE,  OP_SQUEEZE, OP_UNSQUEEZE,  OP_FLATTEN};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (codes[i] == code) return true;
    }
    return false;
}

/* By input `index` of a and b, whose result is y. */
static ir_value *rule_binary(const import_node *n, op_code code, uint32_t index, ir_value *d, ir_value *a,
                             ir_value *b, ir_value *y) {
    switch (code) {
    case OP_ADD:
        return d;
    case OP_SUB:
        return index ? unary(n, OP_NEG, d) : d;
    case OP_MUL:
        return times(n, d, index ? a : b);
    case OP_DIV:
        return index ? unary(n, OP_NEG, binary(n, OP_DIV, times(n, d, y), b)) : binary(n, OP_DIV, d, b);
    case OP_POW:
        if (index) return times(n, d, times(n, y, unary(n, OP_LOG, a)));
        return times(n, d, times(n, b, binary(n, OP_POW, a, binary(n, OP_SUB, b, number(n, b, 1)))));
    default: { /* Min and Max: to the one that is taken, to a where they are equal */
        ir_value *first = binary(n, OP_EQUAL, a, y), *zero = number(n, d, 0);
        return index ? select(n, first, zero, d) : select(n, first, d, zero);
    }
    }
}

static bool has_binary_rule(op_code code) {
    return code == OP_ADD || code == OP_SUB || code == OP_MUL || code == OP_DIV || code == OP_POW ||
           code == OP_MAX || code == OP_MIN;
}

/* Products of matrices: by the left one d B', by the right one A' d. */
static base_status rule_product(const gradient *g, const ir_node *node, uint32_t index, ir_value *d,
                                ir_value *a, ir_value *b, ir_value **made) {
    const import_node *n = g->n;
    if (import_rank_of(a) < 2 || import_rank_of(b) < 2) return fail_rule(g, node, " for vectors");
    *made = index ? binary(n, OP_MATMUL, transposed(n, a), d) : binary(n, OP_MATMUL, d, transposed(n, b));
    return *made ? BASE_OK : import_memory(n);
}

static base_status rule_gemm(const gradient *g, const ir_node *node, uint32_t index, ir_value *d, ir_value *a,
                             ir_value *b, ir_value **made) {
    const import_node *n = g->n;
    bool left = op_attribute_integer(&node->attributes, "transA", 0) != 0,
         right = op_attribute_integer(&node->attributes, "transB", 0) != 0;
    double scale = (double)op_attribute_real(&node->attributes, index == 2 ? "beta" : "alpha", 1);
    if (import_rank_of(a) != 2 || import_rank_of(b) != 2)
        return fail_rule(g, node, " where ranks are not known");
    ir_value *result = d;
    if (index == 0) result = binary(n, OP_MATMUL, d, right ? b : transposed(n, b));
    if (index == 1) result = binary(n, OP_MATMUL, left ? a : transposed(n, a), d);
    if (result && ((index == 0 && left) || (index == 1 && right))) result = transposed(n, result);
    *made = scale == 1 ? result : times(n, result, number(n, result, scale));
    return *made ? BASE_OK : import_memory(n);
}

/* ReduceSum and ReduceMean: the axes that are gone come back with extent 1, and all is repeated. */
static base_status rule_reduce(const gradient *g, const ir_node *node, ir_value *d, ir_value *x, ir_value *y,
                               ir_value **made) {
    const import_node *n = g->n;
    ir_value *axes = ir_input(node, 1);
    bool keep = op_attribute_integer(&node->attributes, "keepdims", 1) != 0;
    int32_t rank = import_rank_of(x);
    int64_t ones[OP_MAX_RANK];
    if (rank < 0) return fail_rule(g, node, " where ranks are not known");
    for (int32_t i = 0; i < OP_MAX_RANK; i++) ones[i] = 1;
    ir_value *result = d;
    if (!keep && axes) result = binary(n, OP_UNSQUEEZE, d, axes);
    else if (!keep && rank)
        result = binary(n, OP_RESHAPE, d, import_constant_integers(n, (size_t)rank, ones));
    result = expanded_like(n, result, x);
    if (node->code == OP_REDUCE_MEAN) {
        op_attributes attributes = NONE;
        ir_value *whole = unary(n, OP_SIZE, x);
        ir_value *count = binary(n, OP_DIV, whole, unary(n, OP_SIZE, y));
        if (!count || !import_attributes_add_integer(n, &attributes, "to", import_dtype_of(d)))
            return import_memory(n);
        result = binary(n, OP_DIV, result, import_make(n, OP_CAST, attributes, 1, &count));
    }
    *made = result;
    return result ? BASE_OK : import_memory(n);
}

static base_status rule_transpose(const gradient *g, const ir_node *node, ir_value *d, ir_value **made) {
    size_t count;
    const int64_t *order = op_attribute_integers(&node->attributes, "perm", &count);
    int64_t back[OP_MAX_RANK] = {0};
    op_attributes attributes = NONE;
    for (size_t i = 0; i < count; i++) back[order[i]] = (int64_t)i;
    if (order && !import_attributes_add_integers(g->n, &attributes, "perm", count, back))
        return import_memory(g->n);
    *made = import_make(g->n, OP_TRANSPOSE, attributes, 1, &d);
    return *made ? BASE_OK : import_memory(g->n);
}

static base_status rule_softmax(const gradient *g, const ir_node *node, ir_value *d, ir_value *y,
                                ir_value **made) {
    const int64_t axis = op_attribute_integer(&node->attributes, "axis", -1);
    ir_value *product = times(g->n, d, y);
    *made = binary(g->n, OP_SUB, product, times(g->n, y, sum_over(g->n, product, 1, &axis, true)));
    return *made ? BASE_OK : import_memory(g->n);
}

/* Not by shapes, axes, conditions and the like. */
static base_status derive(const gradient *g, const ir_node *node, uint32_t index, ir_value *d,
                          ir_value **made) {
    const import_node *n = g->n;
    ir_value *x = actual(g, ir_input(node, index)), *y = actual(g, node->outputs[0]);
    ir_value *a = actual(g, ir_input(node, 0)),
             *b = node->input_count > 1 ? actual(g, ir_input(node, 1)) : NULL;
    base_status status = BASE_OK;
    if (has_unary_rule(node->code) && index == 0) {
        *made = rule_unary(n, node, d, x, y);
        return *made ? BASE_OK : import_memory(n);
    } else if (has_binary_rule(node->code)) {
        *made = rule_binary(n, node->code, index, d, a, b, y);
    } else if (node->code == OP_MATMUL) {
        status = rule_product(g, node, index, d, a, b, made);
    } else if (node->code == OP_GEMM) {
        status = rule_gemm(g, node, index, d, a, b, made);
    } else if ((node->code == OP_REDUCE_SUM || node->code == OP_REDUCE_MEAN) && index == 0) {
        return rule_reduce(g, node, d, x, y, made);
    } else if (node->code == OP_TRANSPOSE) {
        return rule_transpose(g, node, d, made);
    } else if (node->code == OP_SOFTMAX) {
        return rule_softmax(g, node, d, y, made);
    } else if (node->code == OP_WHERE && index) {
        ir_value *zero = number(n, d, 0);
        *made = index == 1 ? select(n, a, d, zero) : select(n, a, zero, d);
    } else if (node->code == OP_EXPAND && index == 0) {
        *made = d;
    } else {
        return fail_rule(g, node, "");
    }
    if (status == BASE_OK && !*made) status = import_memory(n);
    return status == BASE_OK ? unbroadcast(g, node, x, made) : status;
}

/* ---- the graph between the tensors --------------------------------------------------------------------- */

static base_status find_value(const gradient *g, const char *name, const char *what, ir_value **value) {
    const import_binding *binding = import_find(g->n->scope, name);
    *value = binding ? binding->value : NULL;
    if (!*value) {
        return base_fail(g->n->importer->report, BASE_INVALID,
                         "attribute \"%s\" names \"%s\", which is no tensor here", what, name);
    }
    return BASE_OK;
}

static char *text_of(const gradient *g, const ProtobufCBinaryData *bytes) {
    return base_arena_text(&g->n->importer->arena, (const char *)bytes->data, bytes->len);
}

/* The named tensors get the values that the node is given for them; those of xs are what is derived by. */
static base_status bind(gradient *g, const char *name, uint32_t first, bool *replaced) {
    const Onnx__AttributeProto *names = import_attribute(g->n, name);
    base_status status = BASE_OK;
    for (size_t i = 0; names && i < names->n_strings && status == BASE_OK; i++) {
        const char *text = text_of(g, &names->strings[i]);
        ir_value *value, *given = first + i < g->n->input_count ? g->n->inputs[first + i] : NULL;
        if (!text) return import_memory(g->n);
        status = find_value(g, text, name, &value);
        if (status != BASE_OK) break;
        if (!given)
            return base_fail(g->n->importer->report, BASE_INVALID, "no input is given for \"%s\"", text);
        entry *own = &g->entries[value->id.index];
        own->replacement = given;
        own->wanted = own->wanted || strcmp(name, "xs") == 0;
        *replaced = *replaced || given != value;
    }
    return status;
}

static bool is_real(const ir_value *value) {
    op_dtype dtype = import_dtype_of(value);
    return dtype == OP_NONE || dtype == OP_FLOAT || dtype == OP_DOUBLE || dtype == OP_FLOAT16 ||
           dtype == OP_BFLOAT16;
}

/* Marks what depends on an x; where other values are given than those of the graph, evaluates it anew with these. */
static base_status evaluate(gradient *g, bool replaced) {
    const import_node *n = g->n;
    for (ir_node *node = n->scope->graph->first; node; node = node->next) {
        bool wanted = false, changed = false;
        for (uint32_t i = 0; i < node->input_count; i++) {
            const ir_value *input = ir_input(node, i);
            if (!input || input->id.index >= g->count) continue;
            wanted |= g->entries[input->id.index].wanted;
            changed |=
                g->entries[input->id.index].replacement && g->entries[input->id.index].replacement != input;
        }
        ir_value **inputs = BASE_ARRAY(&n->importer->arena, ir_value *, node->input_count);
        if (!inputs) return import_memory(n);
        for (uint32_t i = 0; i < node->input_count; i++) inputs[i] = actual(g, ir_input(node, i));
        ir_node *copy = NULL;
        if (replaced && changed && !node->graph_count) {
            copy = import_begin(n, node->code, node->attributes, node->input_count, inputs);
            if (!copy) return import_memory(n);
        }
        for (uint32_t i = 0; i < node->output_count; i++) {
            ir_value *output = node->outputs[i], *again = NULL;
            if (copy && !output && !ir_node_add_absent_output(copy)) return import_memory(n);
            if (!output) continue;
            if (copy && !(again = ir_node_add_output(copy, output->name, &output->type)))
                return import_memory(n);
            entry *own = &g->entries[output->id.index];
            if (own->replacement) continue;          /* given: what it was made of does not matter */
            own->wanted = wanted && is_real(output); /* nothing follows from small steps of others */
            own->replacement = again;
        }
        if (node == g->last) break;
    }
    return BASE_OK;
}

static base_status accumulate(gradient *g, const ir_value *value, ir_value *derivative) {
    entry *own = &g->entries[value->id.index];
    if (own->derivative) derivative = binary(g->n, OP_ADD, own->derivative, derivative);
    own->derivative = derivative;
    if (!derivative) return import_memory(g->n);
    /* It has the shape of the value, also where only a run could tell by what it is made of. */
    if (value->type.shape.rank >= 0) derivative->type.shape = value->type.shape;
    return BASE_OK;
}

static bool is_given(const gradient *g, const ir_value *value) {
    const Onnx__AttributeProto *names = import_attribute(g->n, "xs");
    for (size_t i = 0; i < names->n_strings; i++) {
        const char *text = text_of(g, &names->strings[i]);
        const import_binding *binding = text ? import_find(g->n->scope, text) : NULL;
        if (binding && binding->value == value) return true;
    }
    return false;
}

/* From the last node to the first: all that reads a value stands after it. */
static base_status propagate(gradient *g) {
    base_status status = BASE_OK;
    for (ir_node *node = g->last; node && status == BASE_OK; node = node->previous) {
        ir_value *output = node->output_count ? node->outputs[0] : NULL;
        for (uint32_t i = 1; i < node->output_count; i++) {
            const ir_value *other = node->outputs[i];
            if (other && g->entries[other->id.index].derivative) return fail_rule(g, node, "");
        }
        ir_value *d = output ? g->entries[output->id.index].derivative : NULL;
        if (!d || is_given(g, output)) continue;
        for (uint32_t i = 0; i < node->input_count && status == BASE_OK; i++) {
            ir_value *input = ir_input(node, i), *made = NULL;
            if (!input || input->id.index >= g->count || !g->entries[input->id.index].wanted) continue;
            status = derive(g, node, i, d, &made);
            if (status == BASE_OK) status = accumulate(g, input, made);
        }
    }
    return status;
}

/* Of the shape of `like`, all of them `value`. */
static ir_value *filled(const import_node *n, ir_value *like, double value) {
    return expanded_like(n, number(n, like, value), like);
}

static base_status define_outputs(gradient *g) {
    import_node *n = g->n;
    const Onnx__AttributeProto *names = import_attribute(n, "xs");
    if (n->output_count > names->n_strings) {
        return base_fail(n->importer->report, BASE_INVALID, "%u outputs, attribute \"xs\" names %zu tensors",
                         n->output_count, names->n_strings);
    }
    base_status status = BASE_OK;
    for (uint32_t i = 0; i < n->output_count && status == BASE_OK; i++) {
        ir_value *x;
        const char *text = text_of(g, &names->strings[i]);
        if (!import_output_named(n, i)) continue;
        if (!text) return import_memory(n);
        status = find_value(g, text, "xs", &x);
        if (status != BASE_OK) break;
        ir_value *derivative = g->entries[x->id.index].derivative;
        /* A value of its own: two outputs may be the same derivative. */
        derivative = derivative ? unary(n, OP_IDENTITY, derivative) : filled(n, actual(g, x), 0);
        status = derivative ? import_define(n, i, derivative) : import_memory(n);
    }
    return status;
}

base_status import_convert_gradient(import_node *n) {
    const Onnx__AttributeProto *name = import_attribute(n, "y"), *xs = import_attribute(n, "xs");
    gradient g = {.n = n, .last = n->scope->graph->last, .count = n->importer->module->value_count};
    g.entries = BASE_ARRAY(&n->importer->arena, entry, g.count);
    char *text = text_of(&g, &name->s);
    ir_value *y;
    bool replaced = false;
    if (!g.entries || !text) return import_memory(n);
    base_status status = find_value(&g, text, "y", &y);
    if (status == BASE_OK) status = bind(&g, "xs", 0, &replaced);
    if (status == BASE_OK) status = bind(&g, "zs", (uint32_t)xs->n_strings, &replaced);
    if (status != BASE_OK) return status;
    op_dtype dtype = import_dtype_of(y);
    if (dtype == OP_NONE)
        return base_fail_unsupported(n->importer->report, "the type of \"%s\" is not known", text);
    if (!is_real(y)) {
        return base_fail(n->importer->report, BASE_INVALID,
                         "\"%s\" is of type %s, only reals have derivatives", text, op_dtype_name(dtype));
    }
    status = g.last ? evaluate(&g, replaced) : BASE_OK;
    if (status == BASE_OK && g.entries[y->id.index].wanted) {
        status = accumulate(&g, y, filled(n, actual(&g, y), 1));
        if (status == BASE_OK) status = propagate(&g);
    }
    return status == BASE_OK ? define_outputs(&g) : status;
}
