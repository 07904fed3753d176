/* attention.c: Attention: caches are concatenated beside it, as other graphs do it by hand, so that a cache that a loop carries
 * grows where it lies. */
#include "compiler/onnx/convert/convert.h"
#include "compiler/onnx/convert/expression.h"

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

/* The extent of x along an axis, as a vector of one. */
static ir_value *extent_of(const import_node *n, ir_value *x, int64_t axis) {
    op_attributes attributes = {0};
    if (!import_attributes_add_integer(n, &attributes, "start", axis) ||
        !import_attributes_add_integer(n, &attributes, "end", axis + 1))
        return NULL;
    return import_make(n, OP_SHAPE, attributes, 1, &x);
}

/* Query i sees keys up to i and as many more as came before: those of the past; or, where the cache is the caller's, the valid
 * ones but for as many as there are queries. */
static base_status causal_offsets(const import_node *n, ir_value **offsets) {
    *offsets = NULL;
    if (import_integer(n, "is_causal", 0) == 0) return BASE_OK;
    if (expr_input(n, PAST_K)) {
        *offsets = extent_of(n, expr_input(n, PAST_K), 2);
    } else if (expr_input(n, LENGTHS)) {
        ir_value *queries = extent_of(n, expr_input(n, Q), import_rank_of(expr_input(n, Q)) == 4 ? 2 : 1);
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
