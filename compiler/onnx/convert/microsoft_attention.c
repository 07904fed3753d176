/* SPDX-License-Identifier: Apache-2.0 */
/* microsoft_attention.c: the attention family of com.microsoft as the operator Attention: what it projects, rotates, caches and
 * masks stands beside it. Queries stay [batch, rows, heads * size], and so do keys and values where no cache is given or wanted;
 * those of caches are [batch, heads, rows, size]. */
#include "compiler/onnx/convert/microsoft.h"

#include <string.h>

static const op_attributes NONE = {0};

/* ---- parts --------------------------------------------------------------------------------------------- */

/* Part `index` of `count` equal or given parts of x along an axis. */
static base_status split(const import_node *n, ir_value *x, int64_t axis, uint32_t count,
                         const int64_t *sizes, ir_value **parts) {
    op_attributes attributes = NONE;
    ir_value *inputs[] = {x, import_constant_integers(n, count, sizes)};
    if (!x || !inputs[1] || !import_attributes_add_integer(n, &attributes, "axis", axis))
        return import_memory(n);
    ir_node *node = import_begin(n, OP_SPLIT, attributes, 2, inputs);
    for (uint32_t i = 0; i < count; i++) {
        parts[i] = node ? ir_node_add_output(node, NULL, NULL) : NULL;
        if (!parts[i]) return import_memory(n);
    }
    return import_infer(n->importer, node) ? BASE_OK : import_memory(n);
}

/* Element `index` of an axis, which goes. */
static ir_value *element(const import_node *n, ir_value *x, int64_t axis, int64_t index) {
    ir_value *inputs[] = {x, import_constant_integer(n, index)};
    return inputs[1] ? expr_with_integer(n, OP_GATHER, "axis", axis, 2, inputs) : NULL;
}

/* 0, 1, ... below the extent of x along an axis. */
static ir_value *counted(const import_node *n, ir_value *x, int64_t axis) {
    return expr_steps(n, expr_axis(n, OP_SQUEEZE, expr_extent(n, x, axis), 0), 1);
}

/* [batch, rows, heads * size] as [batch, rows, heads, size]; as [batch, heads, rows, size]; and back from the first. Sizes that are
 * known are said: without rows, -1 would stand for nothing. */
static ir_value *apart(const import_node *n, ir_value *x, int64_t heads) {
    const int64_t wide = x && import_rank_of(x) == 3 ? x->type.shape.dims[2] : -1;
    const int64_t extents[] = {0, 0, heads, wide > 0 && wide % heads == 0 ? wide / heads : -1};
    return expr_reshape(n, x, 4, extents);
}

static ir_value *by_head(const import_node *n, ir_value *x, int64_t heads) {
    static const int64_t order[] = {0, 2, 1, 3};
    return import_rank_of(x) == 4 ? x : expr_transpose(n, apart(n, x, heads), 4, order);
}

/* New keys or values after those of the past, as attention reads them: in place, where nobody sees a cache. */
static ir_value *appended(const import_node *n, ir_value *past, ir_value *x, int64_t heads, bool wanted) {
    if (!past && !wanted) return x;
    x = by_head(n, x, heads);
    ir_value *inputs[] = {past, x};
    return past ? expr_with_integer(n, OP_CONCAT, "axis", 2, 2, inputs) : x;
}

static ir_value *together(const import_node *n, ir_value *x) {
    const int64_t heads = x && import_rank_of(x) == 4 ? x->type.shape.dims[2] : -1,
                  size = heads > 0 ? x->type.shape.dims[3] : -1;
    int64_t extents[] = {0, 0, -1};
    if (size <= 0 || !base_int64_multiply(heads, size, &extents[2])) extents[2] = -1;
    return expr_reshape(n, x, 3, extents);
}

/* ---- the operator ------------------------------------------------------------------------------------------ */

typedef struct attention {
    ir_value *q, *k, *v;
    ir_value *mask;    /* added to the scores; NULL: none */
    ir_value *lengths; /* of the keys of each batch; NULL: all are seen */
    ir_value *offsets; /* with `causal`: how many keys precede the first query */
    ir_value *sinks;   /* of each head the score of a key without a value; NULL: none */
    int64_t heads, shared;
    bool causal;
    int64_t window;
} attention;

/* Output 0, and with `scores` the weights of the keys as that output. */
static base_status attend(import_node *n, const attention *a, uint32_t scores) {
    op_attributes attributes = NONE;
    const float scale = import_real(n, "scale", 0), softcap = import_real(n, "softcap", 0);
    const op_attribute reals[] = {
        {.name = "scale", .kind = OP_ATTRIBUTE_FLOAT, .count = 1, .as.real = scale},
        {.name = "softcap", .kind = OP_ATTRIBUTE_FLOAT, .count = 1, .as.real = softcap}};
    const bool weights = scores && import_output_wanted(n, scores);
    if (!import_attributes_add_integer(n, &attributes, "q_num_heads", a->heads) ||
        !import_attributes_add_integer(n, &attributes, "kv_num_heads", a->shared) ||
        !import_attributes_add_integer(n, &attributes, "is_causal", a->causal) ||
        (a->window && !import_attributes_add_integer(n, &attributes, "ouro.window", a->window)) ||
        (weights && !import_attributes_add_integer(n, &attributes, "qk_matmul_output_mode", 3)) ||
        (scale != 0 && !ir_attribute_set(n->importer->module, &attributes, &reals[0])) ||
        (softcap != 0 && !ir_attribute_set(n->importer->module, &attributes, &reals[1])))
        return import_memory(n);
    ir_value *inputs[] = {a->q, a->k, a->v, a->mask, a->lengths, a->offsets, a->sinks};
    uint32_t count = sizeof inputs / sizeof *inputs;
    if (!a->q || !a->k || !a->v) return import_memory(n);
    while (!inputs[count - 1]) count--;
    ir_node *node = import_begin(n, OP_ATTENTION, attributes, count, inputs);
    ir_value *y = node ? ir_node_add_output(node, n->proto->output[0], NULL) : NULL;
    ir_value *w = y && weights ? ir_node_add_output(node, n->proto->output[scores], NULL) : NULL;
    if (!y || (weights && !w) || !import_infer(n->importer, node)) return import_memory(n);
    base_status status = import_define(n, 0, y);
    return status == BASE_OK && w ? import_define(n, scores, w) : status;
}

static base_status check_heads(const import_node *n, const char *name, int64_t *heads) {
    *heads = import_integer(n, name, 0);
    if (*heads > 0) return BASE_OK;
    return base_fail(n->importer->report, BASE_INVALID,
                     "attribute \"%s\" is %lld, expected a positive number", name, (long long)*heads);
}

static base_status refuse_input(const import_node *n, uint32_t input, const char *name) {
    if (!expr_input(n, input)) return BASE_OK;
    return base_fail_unsupported(n->importer->report, "input %u (%s) is not supported", input, name);
}

static base_status refuse_attribute(const import_node *n, const char *name, int64_t usual) {
    const int64_t given = import_integer(n, name, usual);
    if (given == usual) return BASE_OK;
    return base_fail_unsupported(n->importer->report,
                                 "attribute \"%s\" is %lld, which is not supported; %lld is", name,
                                 (long long)given, (long long)usual);
}

/* Which keys lie between the bounds of their batch: the ends of all batches, then the beginnings, as [batch, keys] of ones and zeros. */
static ir_value *between(const import_node *n, const attention *a, ir_value *bounds, int64_t batch) {
    const int64_t sizes[] = {batch, batch};
    ir_value *parts[2] = {NULL, NULL}, *keys = counted(n, a->k, import_rank_of(a->k) == 4 ? 2 : 1);
    if (split(n, expr_cast(n, bounds, OP_INT64), 0, 2, sizes, parts) != BASE_OK) return NULL;
    ir_value *end = expr_axis(n, OP_UNSQUEEZE, parts[0], 1), *begin = expr_axis(n, OP_UNSQUEEZE, parts[1], 1);
    ir_value *below = expr_binary(n, OP_LESS, keys, end);
    return expr_binary(n, OP_AND, below, expr_binary(n, OP_GREATER_OR_EQUAL, keys, begin));
}

/* A mask of ones and zeros: [batch], as lengths; [2 batch], ends and beginnings; or [batch, keys] or [batch, queries, keys], where
 * zeros add the filter's value to the scores. And a bias that is added as it is. Keys are those of past and present. */
static base_status masked(const import_node *n, attention *a, ir_value *mask, ir_value *bias) {
    a->mask = bias;
    if (!mask) return BASE_OK;
    int32_t rank = import_rank_of(mask);
    base_status status = expr_need_dtype(n, a->q);
    if (status != BASE_OK) return status;
    if (rank == 1) {
        const int64_t batch = a->q->type.shape.dims[0], count = mask->type.shape.dims[0];
        if (batch >= 0 && count >= 0 && count != batch && count != 2 * batch)
            return base_fail_unsupported(
                n->importer->report,
                "a mask of %lld numbers for %lld batches is not supported; one length a "
                "batch, an end and a beginning of each, or zeros and ones for all keys, are",
                (long long)count, (long long)batch);
        if (batch > 0 && count == 2 * batch) {
            mask = between(n, a, mask, batch);
            rank = 2;
        } else {
            a->lengths = expr_cast(n, mask, OP_INT64);
            return a->lengths ? BASE_OK : import_memory(n);
        }
    }
    if (rank != 2 && rank != 3)
        return base_fail_unsupported(n->importer->report, "a mask of rank %d is not supported; 1 to 3 are",
                                     rank);
    const op_dtype dtype = import_dtype_of(a->q);
    ir_value *hidden = import_constant_real(n, OP_FLOAT, 1);
    hidden = expr_binary(n, OP_SUB, hidden, expr_cast(n, mask, OP_FLOAT));
    ir_value *filter =
        import_constant_real(n, OP_FLOAT, (double)import_real(n, "mask_filter_value", -10000.0f));
    ir_value *added = expr_cast(n, expr_binary(n, OP_MUL, hidden, filter), dtype);
    added = expr_axis(n, OP_UNSQUEEZE, added, 1);
    if (rank == 2) added = expr_axis(n, OP_UNSQUEEZE, added, 1);
    a->mask = bias ? expr_binary(n, OP_ADD, bias, added) : added;
    return a->mask ? BASE_OK : import_memory(n);
}

/* ---- MultiHeadAttention ------------------------------------------------------------------------------------- */

enum { M_QUERY, M_KEY, M_VALUE, M_BIAS, M_MASK, M_ADDED, M_PAST_KEY, M_PAST_VALUE, M_PAST_LENGTH, M_BEAMS };

/* Queries, keys and values from separate or packed inputs. */
static base_status unpack(const import_node *n, attention *a) {
    base_report *report = n->importer->report;
    a->q = n->inputs[M_QUERY];
    a->k = expr_input(n, M_KEY);
    a->v = expr_input(n, M_VALUE);
    const int32_t rank = import_rank_of(a->q), keys = import_rank_of(a->k);
    if (rank == 5 && !a->k) { /* [batch, rows, heads, 3, size] */
        ir_value *packed = a->q;
        a->q = together(n, element(n, packed, 3, 0));
        a->k = together(n, element(n, packed, 3, 1));
        a->v = together(n, element(n, packed, 3, 2));
    } else if (rank == 3 && keys == 5 && !a->v) { /* [batch, rows, heads, 2, size] */
        ir_value *packed = a->k;
        a->k = together(n, element(n, packed, 3, 0));
        a->v = together(n, element(n, packed, 3, 1));
    } else if (rank != 3 || !a->k || !a->v || (keys != 3 && keys != 4) || import_rank_of(a->v) != keys) {
        return base_fail(
            report, BASE_INVALID,
            "query, key and value have ranks %d, %d and %d, expected 3, 3, 3 or 3, 4, 4, or packed ones "
            "of rank 5",
            rank, keys, import_rank_of(a->v));
    }
    return a->q && a->k && a->v ? BASE_OK : import_memory(n);
}

/* The bias of all three projections in one, which may be absent. */
static base_status add_bias(const import_node *n, ir_value *bias, attention *a) {
    ir_value *parts[3];
    if (!bias) return BASE_OK;
    const int64_t wide = a->q->type.shape.dims[2],
                  total = bias->type.shape.rank == 1 ? bias->type.shape.dims[0] : -1;
    if (wide < 0 || total < 2 * wide)
        return base_fail_unsupported(n->importer->report,
                                     "a bias needs a known hidden size, at most half of its own");
    const int64_t sizes[] = {wide, wide, total - 2 * wide};
    base_status status = split(n, bias, 0, 3, sizes, parts);
    if (status != BASE_OK) return status;
    a->q = expr_binary(n, OP_ADD, a->q, parts[0]);
    if (import_rank_of(a->k) == 3) a->k = expr_binary(n, OP_ADD, a->k, parts[1]);
    if (import_rank_of(a->v) == 3) a->v = expr_binary(n, OP_ADD, a->v, parts[2]);
    return a->q && a->k && a->v ? BASE_OK : import_memory(n);
}

/* New rows after those of the past; or, in a cache of a fixed size, at their positions [batch, rows]. Batches of different lengths
 * have theirs after their own past. */
static ir_value *cached(const import_node *n, ir_value *past, ir_value *x, ir_value *positions, bool shared) {
    if (!past) return x;
    if (!shared) {
        ir_value *both[] = {past, x};
        past = expr_with_integer(n, OP_CONCAT, "axis", 2, 2, both);
        if (!past || x->type.shape.dims[0] == 1) return past;
    }
    ir_value *index = expr_axis(n, OP_UNSQUEEZE, expr_axis(n, OP_UNSQUEEZE, positions, 1), 3);
    index = expr_binary(n, OP_EXPAND, index, expr_unary(n, OP_SHAPE, x));
    ir_value *inputs[] = {past, index, x};
    return expr_with_integer(n, OP_SCATTER_ELEMENTS, "axis", 2, 3, inputs);
}

/* Keys and values in caches of a fixed size, which are written where they lie: from `past` rows on, of which `past` is a tensor of one
 * element. What is after the new rows is not seen. */
static base_status share_caches(const import_node *n, attention *a, ir_value *past_key, ir_value *past_value,
                                ir_value *past) {
    static const int64_t one = 1, two[] = {1, 1};
    if (!past_key || !past_value || import_rank_of(a->k) != 3 || import_rank_of(a->v) != 3)
        return base_fail_unsupported(
            n->importer->report, "past_sequence_length needs past keys and values, and new ones of rank 3");
    ir_value *rows = expr_extent(n, a->k, 1), *first = expr_reshape(n, expr_cast(n, past, OP_INT64), 1, &one);
    ir_value *positions = expr_binary(n, OP_ADD, first, counted(n, a->k, 1));
    if (!rows || !positions) return import_memory(n);
    const int64_t count = a->k->type.shape.dims[1];
    positions = count == 1 ? expr_reshape(n, positions, 2, two) : expr_axis(n, OP_UNSQUEEZE, positions, 0);
    a->k = cached(n, past_key, by_head(n, a->k, a->heads), positions, true);
    a->v = cached(n, past_value, by_head(n, a->v, a->heads), positions, true);
    ir_value *length = expr_binary(n, OP_ADD, first, rows);
    a->lengths = expr_binary(n, OP_EXPAND, length, expr_extent(n, a->q, 0));
    if (a->causal) a->offsets = expr_binary(n, OP_EXPAND, first, expr_extent(n, a->q, 0));
    return a->k && a->v && a->lengths && (!a->causal || a->offsets) ? BASE_OK : import_memory(n);
}

/* What is left to do once queries, keys and values are there. Four inputs from `first` on are the mask, what is added to the scores, and the
 * keys and values of the past. With `length` these lie in caches of a fixed size. Outputs: the result, keys, values, and weights. */
static base_status attend_with_past(import_node *n, attention *a, uint32_t first, ir_value *length) {
    ir_value *keys = expr_input(n, first + 2), *values = expr_input(n, first + 3);
    const bool shared = keys && length;
    base_status status = BASE_OK;
    if (shared) {
        status = share_caches(n, a, keys, values, length);
    } else {
        a->k = appended(n, keys, a->k, a->heads, import_output_named(n, 1));
        a->v = appended(n, values, a->v, a->heads, import_output_named(n, 2));
        if (!a->k || !a->v) status = import_memory(n);
    }
    if (status == BASE_OK) status = masked(n, a, expr_input(n, first), expr_input(n, first + 1));
    if (status != BASE_OK) return status;
    if (a->causal && keys && !shared && !(a->offsets = expr_extent(n, keys, 2))) return import_memory(n);
    status = attend(n, a, 3);
    if (status == BASE_OK) status = expr_output(n, 1, a->k);
    return status == BASE_OK ? expr_output(n, 2, a->v) : status;
}

base_status import_convert_ms_multi_head_attention(import_node *n) {
    attention a = {.causal = import_integer(n, "unidirectional", 0) == 1};
    ir_value *past = expr_input(n, M_PAST_KEY), *length = expr_input(n, M_PAST_LENGTH);
    base_status status = check_heads(n, "num_heads", &a.heads);
    if (status == BASE_OK) status = refuse_input(n, M_BEAMS, "cache_indirection");
    if (status == BASE_OK) status = expr_need_inputs(n, 1, 0);
    if (status == BASE_OK) status = unpack(n, &a);
    if (status == BASE_OK) status = add_bias(n, expr_input(n, M_BIAS), &a);
    if (status != BASE_OK) return status;
    a.shared = a.heads;
    if (past && length && expr_input(n, M_MASK) && import_rank_of(expr_input(n, M_MASK)) == 1)
        return base_fail_unsupported(n->importer->report,
                                     "a mask of rank 1 beside past_sequence_length is not supported");
    return attend_with_past(n, &a, M_MASK, length);
}

/* ---- DecoderMaskedMultiHeadAttention: one query a batch -------------------------------------------------------- */

enum {
    D_QUERY,
    D_KEY,
    D_VALUE,
    D_MASK,
    D_ADDED,
    D_PAST_KEY,
    D_PAST_VALUE,
    D_PAST_LENGTH,
    D_BEAM_WIDTH,
    D_BEAMS,
    D_BIAS
};

/* Queries, keys and values in one, whose sizes those of the past tell. */
static base_status unpack_decoder(const import_node *n, attention *a) {
    const ir_value *keys = expr_input(n, D_PAST_KEY), *values = expr_input(n, D_PAST_VALUE);
    ir_value *parts[3];
    a->q = n->inputs[D_QUERY];
    a->k = expr_input(n, D_KEY);
    a->v = expr_input(n, D_VALUE);
    const int32_t rank = import_rank_of(a->k);
    if (a->k && a->v && (rank == 3 || rank == 4) && import_rank_of(a->v) == rank) return BASE_OK;
    const int64_t size = keys && keys->type.shape.rank == 4 ? keys->type.shape.dims[3] : -1,
                  own = values && values->type.shape.rank == 4 ? values->type.shape.dims[3] : -1;
    if (a->k || a->v || size < 0 || own < 0)
        return base_fail_unsupported(
            n->importer->report,
            "needs keys and values of known rank, 3 or 4, or a packed query beside past keys "
            "and values of known sizes");
    int64_t sizes[3];
    if (!base_int64_multiply(size, a->heads, &sizes[0]) || !base_int64_multiply(own, a->heads, &sizes[2]))
        return base_fail(n->importer->report, BASE_INVALID,
                         "attribute \"num_heads\" is %lld, more than a tensor holds", (long long)a->heads);
    sizes[1] = sizes[0];
    base_status status = split(n, a->q, 2, 3, sizes, parts);
    if (status != BASE_OK) return status;
    a->q = parts[0];
    a->k = parts[1];
    a->v = parts[2];
    return BASE_OK;
}

base_status import_convert_ms_decoder_masked_attention(import_node *n) {
    attention a = {.causal = false};
    ir_value *past = expr_input(n, D_PAST_KEY), *length = expr_input(n, D_PAST_LENGTH);
    base_status status = check_heads(n, "num_heads", &a.heads);
    if (status == BASE_OK) status = refuse_input(n, D_BEAMS, "cache_indirection");
    if (status == BASE_OK) status = expr_need_inputs(n, 1, 0);
    if (status == BASE_OK) status = unpack_decoder(n, &a);
    if (status == BASE_OK && import_rank_of(a.q) != 3)
        status = base_fail_unsupported(n->importer->report, "needs a query of known rank 3");
    if (status == BASE_OK) status = add_bias(n, expr_input(n, D_BIAS), &a);
    if (status != BASE_OK) return status;
    a.shared = a.heads;
    const bool share = past && import_integer(n, "past_present_share_buffer", 0) != 0;
    if (share && !length)
        return base_fail(n->importer->report, BASE_INVALID,
                         "past_present_share_buffer needs input 7 (past_sequence_length)");
    return attend_with_past(n, &a, D_MASK, share ? length : NULL);
}

/* ---- Attention: with the projection ---------------------------------------------------------------------------- */

enum { A_INPUT, A_WEIGHTS, A_BIAS, A_MASK, A_PAST, A_ADDED, A_PAST_LENGTH };

/* What attends to itself, from its projection [batch, rows, parts of queries, keys and values together]. */
static base_status attend_projected(import_node *n, ir_value *projected, int64_t total, ir_value *mask,
                                    ir_value *past, ir_value *added) {
    attention a = {.causal = import_integer(n, "unidirectional", 0) == 1};
    size_t given;
    const int64_t *hidden = import_integers(n, "qkv_hidden_sizes", &given);
    ir_value *parts[3];
    base_status status = check_heads(n, "num_heads", &a.heads);
    if (status == BASE_OK) status = refuse_attribute(n, "do_rotary", 0);
    if (status == BASE_OK) status = refuse_attribute(n, "past_present_share_buffer", 0);
    if (status != BASE_OK) return status;
    if (total < 0 || (given && given != 3))
        return base_fail_unsupported(n->importer->report,
                                     "needs weights of known shape, and three qkv_hidden_sizes");
    const int64_t equal[] = {total / 3, total / 3, total - total / 3 * 2};
    status = split(n, projected, 2, 3, given ? hidden : equal, parts);
    if (status != BASE_OK) return status;
    a.q = parts[0];
    a.shared = a.heads;
    const bool wanted = import_output_named(n, 1);
    a.k = appended(n, past ? element(n, past, 0, 0) : NULL, parts[1], a.heads, wanted);
    a.v = appended(n, past ? element(n, past, 0, 1) : NULL, parts[2], a.heads, wanted);
    if (!a.k || !a.v) return import_memory(n);
    status = masked(n, &a, mask, added);
    if (status != BASE_OK) return status;
    if (a.causal && past && !(a.offsets = expr_extent(n, past, 3))) return import_memory(n);
    status = attend(n, &a, 0);
    if (status != BASE_OK || !import_output_named(n, 1)) return status;
    ir_value *both[2];
    both[0] = expr_axis(n, OP_UNSQUEEZE, a.k, 0);
    both[1] = expr_axis(n, OP_UNSQUEEZE, a.v, 0);
    return expr_output(n, 1, expr_with_integer(n, OP_CONCAT, "axis", 0, 2, both));
}

/* How many columns weights have; -1: not known. */
static int64_t columns_of(const ir_value *weights) {
    const op_shape *shape = &weights->type.shape;
    return shape->rank == 2 ? shape->dims[1] : -1;
}

base_status import_convert_ms_attention(import_node *n) {
    base_status status = refuse_input(n, A_PAST_LENGTH, "past_sequence_length");
    if (status != BASE_OK) return status;
    ir_value *projected = expr_binary(n, OP_MATMUL, n->inputs[A_INPUT], n->inputs[A_WEIGHTS]);
    if (expr_input(n, A_BIAS)) projected = expr_binary(n, OP_ADD, projected, n->inputs[A_BIAS]);
    return attend_projected(n, projected, columns_of(n->inputs[A_WEIGHTS]), expr_input(n, A_MASK),
                            expr_input(n, A_PAST), expr_input(n, A_ADDED));
}

/* QAttention: the projection is a product of 8-bit integers. */
base_status import_convert_ms_quantized_attention(import_node *n) {
    enum { INPUT, WEIGHTS, BIAS, INPUT_SCALE, WEIGHTS_SCALE, MASK, INPUT_ZERO, WEIGHTS_ZERO, PAST };
    base_status status = expr_need_dtype(n, n->inputs[INPUT]);
    if (status != BASE_OK) return status;
    ir_value *projected = import_ms_integer_product_scaled(
        n, n->inputs[INPUT], n->inputs[WEIGHTS], expr_input(n, INPUT_ZERO), expr_input(n, WEIGHTS_ZERO),
        n->inputs[INPUT_SCALE], n->inputs[WEIGHTS_SCALE], n->inputs[BIAS]);
    return attend_projected(n, projected, columns_of(n->inputs[WEIGHTS]), expr_input(n, MASK),
                            expr_input(n, PAST), NULL);
}

/* ---- rotary positions --------------------------------------------------------------------------------------- */

/* x, [batch, rows, heads * size] or [batch, heads, rows, size], turned by the angles of two caches at positions [batch, rows]. */
static base_status rotate(const import_node *n, ir_value **x, int64_t heads, ir_value *cosine, ir_value *sine,
                          ir_value *positions, bool interleaved) {
    const int64_t half = import_rank_of(cosine) == 2 ? cosine->type.shape.dims[1] : OP_DIM_UNKNOWN;
    op_attributes attributes = NONE;
    ir_value *inputs[] = {*x, cosine, sine, positions};
    if (half < 0)
        return base_fail_unsupported(n->importer->report, "rotary positions need a known number of angles");
    if (!positions || !import_attributes_add_integer(n, &attributes, "interleaved", interleaved) ||
        !import_attributes_add_integer(n, &attributes, "rotary_embedding_dim", 2 * half) ||
        (import_rank_of(*x) == 3 && !import_attributes_add_integer(n, &attributes, "num_heads", heads)))
        return import_memory(n);
    *x = import_make(n, OP_ROTARY_EMBEDDING, attributes, 4, inputs);
    return *x ? BASE_OK : import_memory(n);
}

/* From the first position of all, [1], those of each row of x, whose rows are along `axis`. */
static ir_value *positions_from(const import_node *n, ir_value *first, ir_value *x, int64_t axis) {
    ir_value *extents[2];
    extents[0] = expr_extent(n, x, 0);
    extents[1] = expr_extent(n, x, axis);
    ir_value *rows = expr_binary(n, OP_ADD, first, counted(n, x, axis));
    if (!rows || !extents[0] || !extents[1]) return NULL;
    ir_value *inputs[] = {rows, expr_with_integer(n, OP_CONCAT, "axis", 0, 2, extents)};
    return inputs[1] ? import_make(n, OP_EXPAND, NONE, 2, inputs) : NULL;
}

/* RotaryEmbedding: [batch, rows, heads * size] or [batch, heads, rows, size]; positions of each row, or the first alone. */
base_status import_convert_ms_rotary_embedding(import_node *n) {
    ir_value *x = n->inputs[0], *positions = n->inputs[1];
    const int32_t rank = import_rank_of(x);
    int64_t heads = import_integer(n, "num_heads", 0);
    base_status status = refuse_attribute(n, "is_packed_batching", 0);
    if (status == BASE_OK && import_real(n, "scale", 1) != 1)
        status =
            base_fail_unsupported(n->importer->report, "attribute \"scale\" other than 1 is not supported");
    if (status != BASE_OK) return status;
    if (rank != 3 && rank != 4)
        return base_fail_unsupported(n->importer->report, "needs an input of known rank, 3 or 4");
    if (rank == 3 && heads == 0) { /* as many as have twice the angles */
        const int64_t half = n->inputs[2]->type.shape.rank == 2 ? n->inputs[2]->type.shape.dims[1] : -1;
        const int64_t wide = x->type.shape.dims[2];
        if (half > 0 && wide >= 0) heads = wide / (2 * half);
    }
    if (rank == 3 && heads < 1)
        return base_fail_unsupported(n->importer->report,
                                     "needs num_heads, or known sizes of input and angles");
    if (import_rank_of(positions) == 1) positions = positions_from(n, positions, x, rank == 3 ? 1 : 2);
    status =
        rotate(n, &x, heads, n->inputs[2], n->inputs[3], positions, import_integer(n, "interleaved", 0) == 1);
    return status == BASE_OK ? expr_finish(n, x) : status;
}

/* ---- GroupQueryAttention ------------------------------------------------------------------------------------ */

enum {
    G_QUERY,
    G_KEY,
    G_VALUE,
    G_PAST_KEY,
    G_PAST_VALUE,
    G_LENGTHS,
    G_TOTAL,
    G_COSINE,
    G_SINE,
    G_POSITIONS,
    G_ADDED,
    G_SINK
};

/* A result of the file's graph has the extent of `past` along its axis 2: the cache is written where it lies. */
static bool is_shared(const import_node *n, const ir_value *past, uint32_t output) {
    const Onnx__GraphProto *graph = n->importer->model->graph;
    const char *name = output < n->output_count ? n->proto->output[output] : "";
    if (!past || past->type.shape.rank != 4 || !name[0]) return false;
    for (size_t i = 0; i < graph->n_output; i++) {
        const Onnx__ValueInfoProto *info = graph->output[i];
        op_type declared;
        if (!info->name || strcmp(info->name, name) != 0) continue;
        return import_type(n->importer, info, true, &declared) == BASE_OK && declared.shape.rank == 4 &&
               declared.shape.dims[2] != OP_DIM_UNKNOWN && declared.shape.dims[2] == past->type.shape.dims[2];
    }
    return false;
}

/* The score of a key without a value: of each head, or 0 with smooth_softmax. */
static ir_value *sinks_of(const import_node *n, int64_t heads) {
    const bool smooth = import_integer(n, "smooth_softmax", 0) > 0;
    if (expr_input(n, G_SINK) || !smooth) return expr_input(n, G_SINK);
    ir_value *zero = expr_number(n, n->inputs[G_QUERY], 0);
    return expr_binary(n, OP_EXPAND, zero, expr_vector(n, heads));
}

/* Queries, keys and values as [batch, rows, heads * size], of a packed query too. */
static base_status unpack_groups(const import_node *n, attention *a) {
    ir_value *parts[3] = {n->inputs[G_QUERY], expr_input(n, G_KEY), expr_input(n, G_VALUE)};
    if (import_rank_of(parts[0]) != 3)
        return base_fail_unsupported(n->importer->report,
                                     "needs a query of rank 3, known when the model is read");
    if (!parts[1] || !parts[2]) {
        const int64_t wide = parts[0]->type.shape.dims[2], all = a->heads + 2 * a->shared;
        if (parts[1] || parts[2] || wide < 0 || wide % all)
            return base_fail_unsupported(
                n->importer->report, "a packed query needs a known size, a multiple of %lld", (long long)all);
        const int64_t sizes[] = {wide / all * a->heads, wide / all * a->shared, wide / all * a->shared};
        base_status status = split(n, parts[0], 2, 3, sizes, parts);
        if (status != BASE_OK) return status;
    }
    a->q = parts[0];
    a->k = parts[1];
    a->v = parts[2];
    return BASE_OK;
}

/* Queries and keys turned by the angles of their positions. */
static base_status rotate_groups(const import_node *n, attention *a, ir_value *positions) {
    ir_value *cosine = expr_input(n, G_COSINE), *sine = expr_input(n, G_SINE);
    const bool interleaved = import_integer(n, "rotary_interleaved", 0) == 1;
    if (!cosine || !sine)
        return base_fail(n->importer->report, BASE_INVALID, "do_rotary needs cos_cache and sin_cache");
    if (expr_input(n, G_POSITIONS)) positions = expr_input(n, G_POSITIONS);
    base_status status = rotate(n, &a->q, a->heads, cosine, sine, positions, interleaved);
    return status == BASE_OK ? rotate(n, &a->k, a->shared, cosine, sine, positions, interleaved) : status;
}

static base_status check_groups(const import_node *n, attention *a) {
    base_status status = expr_need_inputs(
        n, 7, EXPR_INPUT(G_KEY) | EXPR_INPUT(G_VALUE) | EXPR_INPUT(G_PAST_KEY) | EXPR_INPUT(G_PAST_VALUE));
    if (status == BASE_OK) status = check_heads(n, "num_heads", &a->heads);
    if (status == BASE_OK) status = check_heads(n, "kv_num_heads", &a->shared);
    const int64_t weights = import_integer(n, "qk_output", 0);
    if (status == BASE_OK && weights != 0 && weights != 2)
        status = base_fail_unsupported(n->importer->report,
                                       "attribute \"qk_output\" is %lld, which is not supported; 0 and 2, "
                                       "weights after the softmax, are",
                                       (long long)weights);
    const int64_t window = import_integer(n, "local_window_size", -1);
    if (window > 0) a->window = window;
    return status;
}

base_status import_convert_ms_group_query_attention(import_node *n) {
    static const int64_t all = -1;
    attention a = {.causal = true};
    ir_value *past = expr_input(n, G_PAST_KEY);
    base_status status = check_groups(n, &a);
    if (status == BASE_OK) status = unpack_groups(n, &a);
    if (status != BASE_OK) return status;
    /* Input 5 is one less than the valid keys of each batch; a first prompt may be shorter than the queries. */
    ir_value *last = expr_reshape(n, expr_cast(n, n->inputs[G_LENGTHS], OP_INT64), 1, &all);
    a.lengths = expr_binary(n, OP_ADD, last, import_constant_integer(n, 1));
    ir_value *before = expr_binary(n, OP_SUB, a.lengths, expr_extent(n, n->inputs[G_QUERY], 1));
    a.offsets = expr_binary(n, OP_MAX, before, import_constant_integer(n, 0));
    ir_value *positions = expr_axis(n, OP_UNSQUEEZE, a.offsets, 1);
    ir_value *rows = expr_axis(n, OP_UNSQUEEZE, counted(n, n->inputs[G_QUERY], 1), 0);
    positions = expr_binary(n, OP_ADD, positions, rows);
    if (!positions) return import_memory(n);
    if (import_integer(n, "do_rotary", 0) != 0) status = rotate_groups(n, &a, positions);
    if (status != BASE_OK) return status;
    const bool shared = is_shared(n, past, 1);
    a.k = cached(n, past, by_head(n, a.k, a.shared), positions, shared);
    a.v = cached(n, expr_input(n, G_PAST_VALUE), by_head(n, a.v, a.shared), positions, shared);
    a.mask = expr_input(n, G_ADDED);
    a.sinks = sinks_of(n, a.heads);
    if (import_integer(n, "smooth_softmax", 0) > 0 && !a.sinks) return import_memory(n);
    status = attend(n, &a, import_integer(n, "qk_output", 0) ? 3 : 0);
    if (status == BASE_OK) status = expr_output(n, 1, a.k);
    return status == BASE_OK ? expr_output(n, 2, a.v) : status;
}
