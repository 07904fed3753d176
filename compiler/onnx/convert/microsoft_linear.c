/* SPDX-License-Identifier: Apache-2.0 */
/* microsoft_linear.c: operators of com.microsoft that models with linear attention and state spaces are exported with: LinearAttention, its gates,
 * the norm after it, rotary positions of several axes, and what Engram layers add. */
#include "compiler/onnx/convert/convert.h"
#include "compiler/onnx/convert/microsoft.h"
#include <math.h>

static const op_attributes NONE = {0};

/* ---- LinearAttention --------------------------------------------------------------------------------------- */

/* [batch, steps, heads * size] with each head `times` times, one after the other. */
static ir_value *repeat_heads(const import_node *n, ir_value *x, int64_t heads, int64_t size, int64_t times) {
    const int64_t apart[] = {0, 0, heads, 1, size}, each[] = {1, 1, 1, times, 1},
                  together[] = {0, 0, heads * times * size};
    if (times == 1) return x;
    return expr_reshape(n, expr_tile(n, expr_reshape(n, x, 5, apart), 5, each), 3, together);
}

/* ONNX's, of as many heads of queries and keys as there are states: where there are fewer, each is read by several. */
base_status import_convert_ms_linear_attention(import_node *n) {
    base_report *report = n->importer->report;
    const ir_value *q = n->inputs[0], *k = n->inputs[1];
    const int64_t heads = import_integer(n, "q_num_heads", 0), states = import_integer(n, "kv_num_heads", 0);
    if (import_integer(n, "state_window", 0) != 0)
        return base_fail_unsupported(report, "attribute \"state_window\" other than 0 is not supported");
    if (heads < 1 || states < 1)
        return base_fail(report, BASE_INVALID,
                         "q_num_heads and kv_num_heads are %lld and %lld, expected positive numbers",
                         (long long)heads, (long long)states);
    const int64_t wide = import_rank_of(q) == 3 ? q->type.shape.dims[2] : -1,
                  keys = import_rank_of(k) == 3 ? k->type.shape.dims[2] : -1;
    if (wide < heads || keys < 1)
        return base_fail_unsupported(report, "needs queries and keys of rank 3 whose sizes are known");
    const int64_t size = wide / heads, key_heads = keys / size;
    if (wide % heads || keys % size || states % key_heads ||
        (heads < states ? states % heads : heads % states))
        return base_fail(report, BASE_INVALID,
                         "%lld heads of queries of %lld elements, keys of %lld elements and %lld states do "
                         "not go together",
                         (long long)heads, (long long)size, (long long)keys, (long long)states);
    op_attributes attributes = NONE;
    ir_value *inputs[6];
    for (uint32_t i = 0; i < 6; i++) inputs[i] = expr_input(n, i);
    inputs[0] = repeat_heads(n, inputs[0], heads, size, heads < states ? states / heads : 1);
    inputs[1] = repeat_heads(n, inputs[1], key_heads, size, states / key_heads);
    base_status status = import_attributes(n, OP_LINEAR_ATTENTION, &attributes);
    if (status != BASE_OK) return status;
    if (!inputs[0] || !inputs[1] ||
        !import_attributes_add_integer(n, &attributes, "q_num_heads", heads < states ? states : heads))
        return import_memory(n);
    return import_finish(n, OP_LINEAR_ATTENTION, attributes, n->input_count, inputs);
}

/* decay = decay_scale * Softplus(a + dt_bias); beta = Sigmoid(b), in float. */
base_status import_convert_ms_linear_attention_gate(import_node *n) {
    ir_value *a = n->inputs[0], *b = expr_input(n, 3);
    base_status status = expr_need_dtype(n, a);
    if (status != BASE_OK) return status;
    const op_dtype dtype = import_dtype_of(a);
    ir_value *wide = expr_binary(n, OP_ADD, expr_cast(n, a, OP_FLOAT), n->inputs[1]);
    ir_value *decay = expr_binary(n, OP_MUL, expr_unary(n, OP_SOFTPLUS, wide), n->inputs[2]);
    status = expr_finish(n, expr_cast(n, decay, dtype));
    if (status != BASE_OK || !import_output_named(n, 1)) return status;
    if (!b) return base_fail(n->importer->report, BASE_INVALID, "output 1 is wanted, which needs input 3, b");
    return expr_output(n, 1, expr_cast(n, expr_unary(n, OP_SIGMOID, expr_cast(n, b, OP_FLOAT)), dtype));
}

/* ---- norms and sums with gates ------------------------------------------------------------------------------- */

/* Rows over the root of the mean of their squares, times a scale. */
static ir_value *normalized(const import_node *n, ir_value *x, ir_value *scale, double epsilon) {
    static const int64_t last = -1;
    ir_value *wide = expr_widened(n, x);
    ir_value *squares = expr_reduce(n, OP_REDUCE_MEAN, expr_binary(n, OP_MUL, wide, wide), 1, &last, true);
    if (!squares) return NULL;
    ir_value *root =
        expr_unary(n, OP_SQRT, expr_binary(n, OP_ADD, squares, expr_number(n, squares, epsilon)));
    ir_value *y = expr_binary(n, OP_DIV, wide, root);
    return expr_binary(n, OP_MUL, y, expr_widened(n, scale));
}

/* Each group of as many numbers as `scale` has, over the root of the mean of their squares; times scale and Swish(gate), in float. */
base_status import_convert_ms_gated_norm(import_node *n) {
    ir_value *x = n->inputs[0], *scale = n->inputs[1];
    const int32_t rank = import_rank_of(x);
    base_status status = expr_need_dtype(n, x);
    if (status != BASE_OK) return status;
    const int64_t size = import_rank_of(scale) == 1 ? scale->type.shape.dims[0] : -1,
                  wide = rank > 0 ? x->type.shape.dims[rank - 1] : -1;
    if (size < 1 || wide < 0 || rank > OP_MAX_RANK - 1)
        return base_fail_unsupported(n->importer->report, "needs an input and a scale of known sizes");
    if (wide % size)
        return base_fail(n->importer->report, BASE_INVALID, "groups of %lld do not make rows of %lld",
                         (long long)size, (long long)wide);
    int64_t apart[OP_MAX_RANK] = {0}, together[OP_MAX_RANK] = {0};
    apart[rank - 1] = wide / size;
    apart[rank] = size;
    together[rank - 1] = wide;
    if (wide != size) x = expr_reshape(n, x, (size_t)rank + 1, apart);
    ir_value *y = normalized(n, x, scale, (double)import_real(n, "epsilon", 1e-5f));
    if (wide != size) y = expr_reshape(n, y, (size_t)rank, together);
    ir_value *gate = expr_unary(n, OP_SWISH, expr_widened(n, n->inputs[2]));
    return expr_finish_as(n, import_dtype_of(n->inputs[0]), expr_binary(n, OP_MUL, y, gate));
}

/* x + y * gate, as two operators. */
base_status import_convert_ms_gated_add(import_node *n) {
    return expr_finish(
        n, expr_binary(n, OP_ADD, n->inputs[0], expr_binary(n, OP_MUL, n->inputs[1], n->inputs[2])));
}

/* ---- MRotaryEmbedding ------------------------------------------------------------------------------------------ */

/* Which of the three positions of a token gives angle `at`: of its time, its height or its width. */
static int stream_of(const int64_t *sections, bool interleaved, int64_t at) {
    if (!interleaved) return at < sections[0] ? 0 : at < sections[0] + sections[1] ? 1 : 2;
    return at % 3 == 0 || at >= 3 * sections[at % 3] ? 0 : (int)(at % 3);
}

/* The cosines or sines of all angles: [batch, rows, half] out of those of the three positions. */
static ir_value *combined(const import_node *n, ir_value *cache, const bool *masks[2]) {
    const int64_t half = cache->type.shape.dims[1];
    ir_value *all[] = {cache, n->inputs[1]}, *made = NULL;
    ir_value *gathered = import_make(n, OP_GATHER, NONE, 2, all);
    for (int stream = 0; stream < 3 && gathered; stream++) {
        ir_value *one[] = {gathered, import_constant_integer(n, stream)};
        ir_value *angles = one[1] ? import_make(n, OP_GATHER, NONE, 2, one) : NULL;
        const op_type type = {.dtype = OP_BOOL, .shape = {.rank = 1, .dims = {half}}};
        void *data = NULL;
        if (stream == 0) {
            made = angles;
            continue;
        }
        ir_value *mask = ir_constant_reserve(n->importer->module, "stream", &type, (size_t)half, &data);
        for (int64_t i = 0; mask && i < half; i++) ((bool *)data)[i] = masks[stream - 1][i];
        made = mask && angles && made ? expr_select(n, mask, angles, made) : NULL;
        if (!made) return NULL;
    }
    return made;
}

/* RotaryEmbedding whose angles are those of three positions. */
base_status import_convert_ms_multimodal_rotary_embedding(import_node *n) {
    base_report *report = n->importer->report;
    ir_value *x = n->inputs[0];
    const ir_value *cosine = n->inputs[2], *sine = n->inputs[3];
    const int32_t rank = import_rank_of(x);
    const int64_t half = import_rank_of(cosine) == 2 ? cosine->type.shape.dims[1] : -1,
                  heads = import_integer(n, "num_heads", 0), layout = import_integer(n, "mrope_layout", 0);
    size_t count;
    const int64_t *sections = import_integers(n, "mrope_section", &count);
    if (import_real(n, "scale", 1) != 1)
        return base_fail_unsupported(report, "attribute \"scale\" other than 1 is not supported");
    if ((rank != 3 && rank != 4) || half < 1 || import_rank_of(sine) != 2 || sine->type.shape.dims[1] != half)
        return base_fail_unsupported(
            report, "needs an input of rank 3 or 4 and caches with a known number of angles");
    if (count != 3 || sections[0] < 0 || sections[1] < 0 || sections[2] < 0 || sections[0] > half ||
        sections[1] > half || sections[2] > half || sections[0] + sections[1] + sections[2] != half)
        return base_fail(report, BASE_INVALID, "mrope_section has to be three numbers whose sum is %lld",
                         (long long)half);
    if (layout != 0 && layout != 1)
        return base_fail(report, BASE_INVALID, "mrope_layout is %lld, expected 0 or 1", (long long)layout);
    if (rank == 3 && heads < 1)
        return base_fail(report, BASE_INVALID, "num_heads is %lld, expected a positive number",
                         (long long)heads);
    bool *masks = base_arena_alloc(&n->importer->arena, (size_t)half, 2 * sizeof *masks);
    if (!masks) return import_memory(n);
    for (int64_t i = 0; i < half; i++) {
        masks[i] = stream_of(sections, layout == 1, i) == 1;
        masks[half + i] = stream_of(sections, layout == 1, i) == 2;
    }
    const bool *both[] = {masks, masks + half};
    ir_value *inputs[3] = {x};
    for (int i = 1; i < 3; i++) inputs[i] = combined(n, n->inputs[1 + i], both);
    op_attributes attributes = NONE;
    if (!inputs[1] || !inputs[2] ||
        !import_attributes_add_integer(n, &attributes, "interleaved",
                                       import_integer(n, "interleaved", 0) == 1) ||
        !import_attributes_add_integer(n, &attributes, "rotary_embedding_dim", 2 * half) ||
        (rank == 3 && !import_attributes_add_integer(n, &attributes, "num_heads", heads)))
        return import_memory(n);
    return expr_finish(n, import_make(n, OP_ROTARY_EMBEDDING, attributes, 3, inputs));
}

/* ---- Engram ------------------------------------------------------------------------------------------------------ */

/* gate * value: the gate is a sigmoid of the root of what normalised keys and queries have in common, with its sign. */
base_status import_convert_ms_engram_gate(import_node *n) {
    static const int64_t last = -1;
    const ir_value *keys = n->inputs[0];
    const int64_t size = import_rank_of(keys) == 4 ? keys->type.shape.dims[3] : -1;
    base_status status = expr_need_dtype(n, keys);
    if (status != BASE_OK) return status;
    if (size < 1)
        return base_fail_unsupported(n->importer->report, "needs keys of rank 4 and of a known size");
    const double epsilon = (double)import_real(n, "epsilon", 1e-5f);
    ir_value *products = normalized(n, n->inputs[0], n->inputs[3], epsilon);
    products = expr_binary(n, OP_MUL, products, normalized(n, n->inputs[1], n->inputs[4], epsilon));
    ir_value *sum = expr_reduce(n, OP_REDUCE_SUM, products, 1, &last, true);
    if (!sum) return import_memory(n);
    ir_value *dot = expr_binary(n, OP_MUL, sum, expr_number(n, sum, 1 / sqrt((double)size)));
    ir_value *least = expr_number(n, sum, 1e-6);
    ir_value *root = expr_unary(n, OP_SQRT, expr_binary(n, OP_MAX, expr_unary(n, OP_ABS, dot), least));
    ir_value *gate = expr_unary(n, OP_SIGMOID, expr_binary(n, OP_MUL, expr_unary(n, OP_SIGN, dot), root));
    ir_value *value = expr_axis(n, OP_UNSQUEEZE, expr_widened(n, n->inputs[2]), 2);
    return expr_finish_as(n, import_dtype_of(keys), expr_binary(n, OP_MUL, gate, value));
}

/* Numbers of the last 2, 3, ... tokens at each place: multiples of these, combined bit by bit, modulo the size of each head's table. */
base_status import_convert_ms_ngram_hash(import_node *n) {
    base_report *report = n->importer->report;
    ir_value *ids = n->inputs[0], *past = expr_input(n, 3);
    const int64_t most = import_integer(n, "max_ngram_size", 0),
                  heads = import_integer(n, "n_head_per_ngram", 0);
    enum { MOST = 64 };
    base_status status = expr_need_dtype(n, ids);
    if (status != BASE_OK) return status;
    if (most < 2 || most > MOST || heads < 1)
        return base_fail(
            report, BASE_INVALID,
            "max_ngram_size and n_head_per_ngram are %lld and %lld, expected 2 to %d and a positive number",
            (long long)most, (long long)heads, MOST);
    if (import_rank_of(ids) != 2) return base_fail_unsupported(report, "needs ids of rank 2");
    if (!past) {
        ir_value *extents[2], *pad;
        extents[0] = expr_extent(n, ids, 0);
        extents[1] = expr_vector(n, most - 1);
        pad = expr_number(n, ids, (double)import_integer(n, "pad_id", 0));
        past = expr_binary(n, OP_EXPAND, pad, expr_with_integer(n, OP_CONCAT, "axis", 0, 2, extents));
    }
    ir_value *joined[] = {past, ids};
    ir_value *whole = past ? expr_with_integer(n, OP_CONCAT, "axis", 1, 2, joined) : NULL, *mixed = NULL;
    ir_value *hashes[MOST];
    for (int64_t i = 0; i < most; i++) {
        ir_value *at[] = {n->inputs[1], import_constant_integer(n, i)};
        ir_value *factor = at[1] ? import_make(n, OP_GATHER, NONE, 2, at) : NULL;
        ir_value *shifted =
            expr_binary(n, OP_MUL, expr_part(n, whole, 1, most - 1 - i, i ? -i : INT64_MAX), factor);
        mixed = i ? expr_binary(n, OP_BITWISE_XOR, mixed, shifted) : shifted;
        if (i == 0) continue;
        ir_value *sizes = expr_part(n, n->inputs[2], 0, (i - 1) * heads, i * heads);
        hashes[i - 1] = expr_binary(n, OP_MOD, expr_axis(n, OP_UNSQUEEZE, mixed, 2), sizes);
        if (!hashes[i - 1]) return import_memory(n);
    }
    status = expr_finish(n, expr_with_integer(n, OP_CONCAT, "axis", 2, (uint32_t)(most - 1), hashes));
    return status == BASE_OK ? expr_output(n, 1, expr_part(n, whole, 1, 1 - most, INT64_MAX)) : status;
}
