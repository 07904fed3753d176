/* SPDX-License-Identifier: Apache-2.0 */
/* attention.c: Attention, CausalConvWithState, FlexAttention. Caches are concatenated beside attention, as other graphs do it by hand, so
 * that a cache that a loop carries grows where it lies. */
#include "compiler/onnx/convert/convert.h"
#include "compiler/onnx/convert/expression.h"
#include <math.h>

enum { Q, K, V, MASK, PAST_K, PAST_V, LENGTHS };

/* Keys or values as [batch, heads, rows, size]. */
static ir_value *as_heads(const import_node *n, ir_value *x) {
    if (import_rank_of(x) == 4) return x;
    const int64_t extents[] = {0, 0, import_integer(n, "kv_num_heads", 0), -1}, order[] = {0, 2, 1, 3};
    return expr_transpose(n, expr_reshape(n, x, 4, extents), 4, order);
}

static ir_value *with_past(const import_node *n, ir_value *past, ir_value *x) {
    ir_value *inputs[] = {past, as_heads(n, x)};
    return expr_with_integer(n, OP_CONCAT, "axis", 2, 2, inputs);
}

/* Query i sees keys up to i and as many more as came before: those of the past; or, where the cache is the caller's, the valid
 * ones but for as many as there are queries. */
static base_status causal_offsets(const import_node *n, ir_value **offsets) {
    *offsets = NULL;
    if (import_integer(n, "is_causal", 0) == 0) return BASE_OK;
    if (expr_input(n, PAST_K)) {
        *offsets = expr_extent(n, expr_input(n, PAST_K), 2);
    } else if (expr_input(n, LENGTHS)) {
        ir_value *queries = expr_extent(n, expr_input(n, Q), import_rank_of(expr_input(n, Q)) == 4 ? 2 : 1);
        *offsets = expr_binary(n, OP_SUB, expr_input(n, LENGTHS), queries);
    } else {
        return BASE_OK;
    }
    return *offsets ? BASE_OK : import_memory(n);
}

static base_status check(const import_node *n) {
    base_report *report = n->importer->report;
    for (uint32_t i = Q; i <= V; i++) {
        const ir_value *x = expr_input(n, i);
        if (!x) return base_fail(report, BASE_INVALID, "input %u is absent, Attention needs it", i);
        const int32_t rank = import_rank_of(x);
        if (rank < 0) return base_fail_unsupported(report, "needs inputs whose ranks are known");
        if (rank != 3 && rank != 4)
            return base_fail(report, BASE_INVALID, "input %u has rank %d, expected 3 or 4", i, rank);
        if (i != Q && rank == 3 && import_integer(n, "kv_num_heads", 0) < 1) {
            return base_fail(report, BASE_INVALID,
                             "input %u has rank 3, which needs a positive attribute \"kv_num_heads\"", i);
        }
    }
    if (!expr_input(n, PAST_K) != !expr_input(n, PAST_V))
        return base_fail(report, BASE_INVALID, "past_key and past_value are given together or not at all");
    return BASE_OK;
}

/* The node itself, whose outputs are the first and the fourth of the file's. */
static base_status attend(import_node *n, ir_value *k, ir_value *v, ir_value *offsets) {
    op_attributes attributes;
    base_status status = import_attributes(n, OP_ATTENTION, &attributes);
    if (status != BASE_OK) return status;
    /* Before version 24 a mask for one key was stretched to all; since then it is one for the first key alone. */
    if (n->version < 24 && !import_attributes_add_integer(n, &attributes, "ouro.stretch", 1))
        return import_memory(n);
    /* The text does not tell what a query gives that no key takes part for; zeros, as ONNX Runtime and PyTorch have it, do not spread
     * from padding into layers that follow, as NaN does. */
    if ((expr_input(n, MASK) || expr_input(n, LENGTHS)) &&
        !import_attributes_add_integer(n, &attributes, "ouro.unseen", 1))
        return import_memory(n);
    ir_value *inputs[] = {expr_input(n, Q), k, v, expr_input(n, MASK), expr_input(n, LENGTHS), offsets};
    uint32_t count = 6;
    while (!inputs[count - 1]) count--;
    ir_node *node = import_begin(n, OP_ATTENTION, attributes, count, inputs);
    ir_value *y =
        node ? ir_node_add_output(node, import_output_named(n, 0) ? n->proto->output[0] : NULL, NULL) : NULL;
    ir_value *scores =
        y && import_output_named(n, 3) ? ir_node_add_output(node, n->proto->output[3], NULL) : NULL;
    if (!y || (import_output_named(n, 3) && !scores) || !import_infer(n->importer, node))
        return import_memory(n);
    status = import_define(n, 0, y);
    return status == BASE_OK && scores ? import_define(n, 3, scores) : status;
}

base_status import_convert_attention(import_node *n) {
    base_status status = check(n);
    ir_value *k = expr_input(n, K), *v = expr_input(n, V), *offsets;
    if (status == BASE_OK) status = causal_offsets(n, &offsets);
    if (status != BASE_OK) return status;
    if (expr_input(n, PAST_K)) {
        k = with_past(n, expr_input(n, PAST_K), k);
        v = with_past(n, expr_input(n, PAST_V), v);
        if (!k || !v) return import_memory(n);
    }
    if (import_output_named(n, 1)) status = expr_output(n, 1, as_heads(n, k));
    if (status == BASE_OK && import_output_named(n, 2)) status = expr_output(n, 2, as_heads(n, v));
    /* Values may be of another type than keys; the result has that of the queries. */
    const op_dtype dtype = import_dtype_of(expr_input(n, Q));
    if (dtype != OP_NONE && import_dtype_of(v) != OP_NONE) v = expr_cast(n, v, dtype);
    if (!v) return import_memory(n);
    return status == BASE_OK ? attend(n, k, v, offsets) : status;
}

/* ---- CausalConvWithState ------------------------------------------------------------------------------- */

/* [batch, steps, channels...] as [batch, channels, steps]. */
static ir_value *channels_first(const import_node *n, ir_value *x) {
    static const int64_t joined[] = {0, 0, -1}, order[] = {0, 2, 1};
    return expr_transpose(n, import_rank_of(x) == 3 ? x : expr_reshape(n, x, 3, joined), 3, order);
}

/* [batch, channels, steps] with the axes of `like`, whose channels are last. */
static ir_value *channels_last(const import_node *n, ir_value *x, const ir_value *like) {
    static const int64_t order[] = {0, 2, 1};
    const op_shape *shape = &like->type.shape;
    int64_t extents[OP_MAX_RANK] = {0};
    for (int32_t i = 2; i < shape->rank; i++) extents[i] = shape->dims[i];
    x = expr_transpose(n, x, 3, order);
    return shape->rank == 3 ? x : expr_reshape(n, x, (size_t)shape->rank, extents);
}

static base_status check_causal_conv(const import_node *n, bool last) {
    base_report *report = n->importer->report;
    const int64_t dilation = import_integer(n, "dilation", 1);
    if (import_integer(n, "ndim", 1) != 1 || import_integer(n, "state_window", 0) != 0)
        return base_fail_unsupported(report,
                                     "ndim other than 1 and state_window other than 0 are not supported");
    if (dilation < 1)
        return base_fail(report, BASE_INVALID, "attribute \"dilation\" is %lld, expected 1 or more",
                         (long long)dilation);
    const op_shape *shape = &n->inputs[0]->type.shape;
    bool known = shape->rank >= 3;
    for (int32_t i = 2; i < shape->rank && shape->rank > 3; i++) known &= shape->dims[i] >= 0;
    return !last || known
               ? BASE_OK
               : base_fail_unsupported(report, "needs an input of 3 axes or more whose channels are known");
}

/* What came before stands in front of the input; then it is a convolution of each channel by itself. That of com.microsoft may have its channels
 * last, as several axes, and a dilation. */
base_status import_convert_causal_conv(import_node *n) {
    const int64_t none[] = {0, 0}, after[] = {0, 0, 0};
    const int64_t dilation = import_integer(n, "dilation", 1);
    const bool last = import_integer(n, "channels_last", 0) == 1;
    ir_value *x = n->inputs[0], *w = n->inputs[1], *past = expr_input(n, 3), *whole;
    base_status status = check_causal_conv(n, last);
    if (status != BASE_OK) return status;
    if (last) {
        x = channels_first(n, x);
        past = past ? channels_first(n, past) : NULL;
        if (!x || (expr_input(n, 3) && !past)) return import_memory(n);
    }
    int64_t channels = import_rank_of(w) == 3 ? w->type.shape.dims[0] : -1;
    if (channels < 0 && import_rank_of(x) == 3) channels = x->type.shape.dims[1];
    if (channels < 1) return base_fail_unsupported(n->importer->report, "needs a known number of channels");
    if (past) {
        ir_value *inputs[] = {past, x};
        whole = expr_with_integer(n, OP_CONCAT, "axis", 2, 2, inputs);
    } else {
        ir_value *before = expr_extent(n, w, 2);
        before = expr_binary(n, OP_SUB, before, expr_vector(n, 1));
        before = expr_binary(n, OP_MUL, before, expr_vector(n, dilation));
        ir_value *pads[] = {NULL, before, NULL};
        pads[0] = import_constant_integers(n, 2, none);
        pads[2] = import_constant_integers(n, 3, after);
        whole = expr_binary(n, OP_PAD, x, expr_with_integer(n, OP_CONCAT, "axis", 0, 3, pads));
    }
    ir_value *operands[] = {whole, w, expr_input(n, 2)};
    op_attributes attributes = {0};
    if (!whole || !import_attributes_add_integer(n, &attributes, "group", channels) ||
        !import_attributes_add_integers(n, &attributes, "dilations", 1, &dilation))
        return import_memory(n);
    ir_value *y = import_make(n, OP_CONV, attributes, operands[2] ? 3 : 2, operands);
    const Onnx__AttributeProto *activation = import_attribute(n, "activation");
    if (activation && activation->s.len) {
        const op_string word = {(const char *)activation->s.data, activation->s.len};
        if (op_string_is(&word, "silu") || op_string_is(&word, "swish")) y = expr_unary(n, OP_SWISH, y);
        else if (!op_string_is(&word, "none"))
            return base_fail(n->importer->report, BASE_INVALID,
                             "attribute \"activation\" is unknown, expected silu, swish or none");
    }
    status = expr_finish(n, last ? channels_last(n, y, n->inputs[0]) : y);
    if (status != BASE_OK || !import_output_named(n, 1)) return status;
    ir_value *rows = expr_extent(n, x, 2);
    ir_value *state = expr_slice(n, whole, 2, rows, expr_vector(n, INT64_MAX));
    return expr_output(n, 1, last ? channels_last(n, state, n->inputs[0]) : state);
}

/* ---- FlexAttention ------------------------------------------------------------------------------------- */

/* Keys or values, [batch, groups, rows, size], for every head of queries: each group `shared` times, one after the other. */
static ir_value *repeat_groups(const import_node *n, ir_value *x, int64_t heads, int64_t shared) {
    if (shared == 1 || !x) return x;
    const int64_t each[] = {1, 1, shared, 1, 1},
                  together[] = {0, heads, x->type.shape.dims[2], x->type.shape.dims[3]};
    return expr_reshape(n, expr_tile(n, expr_axis(n, OP_UNSQUEEZE, x, 2), 5, each), 4, together);
}

/* The scores become what the graph attribute of this name makes of them, in the place of the node; as they are where it is absent. */
static base_status modified(import_node *n, const char *name, ir_value **scores) {
    const Onnx__AttributeProto *attribute = import_attribute(n, name);
    import_state *importer = n->importer;
    if (!attribute) return BASE_OK;
    const Onnx__GraphProto *graph = attribute->g;
    if (graph->n_input != 1 || graph->n_output != 1 || !graph->input[0]->name || !graph->output[0]->name)
        return base_fail(importer->report, BASE_INVALID,
                         "graph \"%s\" has %zu inputs and %zu outputs, expected one each", name,
                         graph->n_input, graph->n_output);
    import_scope scope;
    const char *path = base_arena_format(&importer->arena, "%s/%.*s/%s", n->scope->path, IMPORT_LABEL,
                                         import_label(n->proto), name);
    if (!import_scope_init(importer, &scope, n->scope, n->scope->frame, n->scope->graph, path))
        return import_memory(n);
    base_status status = import_bind(importer, &scope, graph->input[0]->name, *scores, "an input");
    if (status == BASE_OK) status = importer->graphs->content(importer, &scope, graph);
    if (status != BASE_OK) return status;
    import_context(importer, n->scope->path, n->proto);
    *scores = import_find(&scope, graph->output[0]->name)->value;
    return *scores ? BASE_OK
                   : base_fail(importer->report, BASE_INVALID, "output of graph \"%s\" is absent", name);
}

/* Without graphs it is Attention; with them all scores are made, for the graphs to change. */
base_status import_convert_flex_attention(import_node *n) {
    ir_value *q = expr_input(n, 0), *k = expr_input(n, 1), *v = expr_input(n, 2);
    base_report *report = n->importer->report;
    for (uint32_t i = 0; i < 3; i++) {
        if (!expr_input(n, i) || import_rank_of(expr_input(n, i)) != 4)
            return base_fail_unsupported(report, "input %u is not known to have rank 4", i);
    }
    base_status status = expr_need_dtype(n, q);
    if (status != BASE_OK) return status;
    const Onnx__AttributeProto *given = import_attribute(n, "scale");
    if (!import_attribute(n, "score_mod") && !import_attribute(n, "prob_mod")) {
        ir_value *inputs[] = {q, k, v};
        op_attributes attributes = {0};
        if (given) status = import_attributes(n, OP_ATTENTION, &attributes);
        return status == BASE_OK ? import_finish(n, OP_ATTENTION, attributes, 3, inputs) : status;
    }
    const op_dtype dtype = import_dtype_of(q);
    const int64_t heads = q->type.shape.dims[1], groups = k->type.shape.dims[1], size = q->type.shape.dims[3];
    if (heads < 1 || groups < 1 || heads % groups != 0 || (!given && size < 1))
        return base_fail_unsupported(report, "needs known numbers of heads, those of queries a multiple of "
                                             "those of keys, and a known head size");
    if (heads != groups && (k->type.shape.dims[2] < 0 || k->type.shape.dims[3] < 0 ||
                            v->type.shape.dims[2] < 0 || v->type.shape.dims[3] < 0))
        return base_fail_unsupported(report, "needs keys and values of known shapes where heads share them");
    const int64_t precision =
        import_integer(n, "softmax_precision", dtype == OP_DOUBLE ? OP_DOUBLE : OP_FLOAT);
    const double scale = given ? (double)given->f : 1 / sqrt((double)size);
    const int64_t turned[] = {0, 1, 3, 2};
    k = expr_transpose(n, repeat_groups(n, k, heads, heads / groups), 4, turned);
    v = repeat_groups(n, v, heads, heads / groups);
    ir_value *scores = expr_binary(n, OP_MATMUL, expr_binary(n, OP_MUL, q, expr_number(n, q, scale)), k);
    scores = expr_cast(n, scores, (op_dtype)precision);
    if (!scores || !v) return import_memory(n);
    status = modified(n, "score_mod", &scores);
    if (status != BASE_OK) return status;
    scores = expr_with_integer(n, OP_SOFTMAX, "axis", -1, 1, &scores);
    if (!scores) return import_memory(n);
    status = modified(n, "prob_mod", &scores);
    if (status != BASE_OK) return status;
    return expr_finish(n, expr_binary(n, OP_MATMUL, expr_cast(n, scores, dtype), v));
}
