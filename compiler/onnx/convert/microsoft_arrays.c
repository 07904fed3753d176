/* SPDX-License-Identifier: Apache-2.0 */
/* microsoft_arrays.c: operators of com.microsoft on arrays: ranges, windows, distances, distinct elements, transforms, tokens. */
#include "compiler/onnx/convert/microsoft.h"

#include <math.h>
#include <string.h>

static const op_attributes NONE = {0};

base_status import_convert_ms_expand_dims(import_node *n) {
    static const int64_t one = 1;
    base_status status = expr_need_dtype(n, n->inputs[1]);
    if (status != BASE_OK) return status;
    ir_value *axis = expr_reshape(n, expr_cast(n, n->inputs[1], OP_INT64), 1, &one);
    return expr_finish(n, expr_binary(n, OP_UNSQUEEZE, n->inputs[0], axis));
}

base_status import_convert_ms_range(import_node *n) {
    ir_value *inputs[] = {n->inputs[0], n->inputs[1], expr_input(n, 2)};
    base_status status = expr_need_dtype(n, n->inputs[0]);
    if (status != BASE_OK) return status;
    if (!inputs[2]) inputs[2] = expr_number(n, inputs[0], 1);
    for (int i = 0; i < 3; i++) /* one element, as a vector or as a scalar */
        if (!inputs[i] ||
            (import_rank_of(inputs[i]) != 0 && !(inputs[i] = expr_reshape(n, inputs[i], 0, NULL))))
            return import_memory(n);
    return import_finish(n, OP_RANGE, NONE, 3, inputs);
}

/* Part 0 or 1 of the last axis, which has extent 2. */
static ir_value *part(const import_node *n, ir_value *x, int64_t index) {
    ir_value *inputs[] = {x, import_constant_integers(n, 1, &index)};
    return inputs[1] ? expr_with_integer(n, OP_GATHER, "axis", -1, 2, inputs) : NULL;
}

/* Complex products of pairs of reals; with ComplexMulConj, the second is conjugated. */
base_status import_convert_ms_complex_product(import_node *n) {
    const bool conjugate = strcmp(n->proto->op_type, "ComplexMulConj") == 0;
    ir_value *a = part(n, n->inputs[0], 0), *b = part(n, n->inputs[0], 1), *c = part(n, n->inputs[1], 0),
             *d = part(n, n->inputs[1], 1);
    ir_value *ac = expr_binary(n, OP_MUL, a, c), *bd = expr_binary(n, OP_MUL, b, d),
             *ad = expr_binary(n, OP_MUL, a, d), *bc = expr_binary(n, OP_MUL, b, c);
    ir_value *pair[2];
    pair[0] = expr_binary(n, conjugate ? OP_ADD : OP_SUB, ac, bd);
    pair[1] = expr_binary(n, conjugate ? OP_SUB : OP_ADD, conjugate ? bc : ad, conjugate ? ad : bc);
    return expr_finish(n, expr_with_integer(n, OP_CONCAT, "axis", -1, 2, pair));
}

/* Squares of the distances of rows of floats: a a + b b - 2 a b, in double. Squares cancel where rows are nearly equal; but products of floats
 * are exact in double, and what sums of them lose is far below what the rows themselves are known by. A difference for each pair would take as
 * much memory as there are pairs times elements. */
static ir_value *squares_of_floats(const import_node *n, ir_value *a, ir_value *b) {
    static const int64_t last = 1, turned[] = {1, 0};
    a = expr_cast(n, a, OP_DOUBLE);
    b = expr_cast(n, b, OP_DOUBLE);
    ir_value *of_a = expr_reduce(n, OP_REDUCE_SUM, expr_binary(n, OP_MUL, a, a), 1, &last, true),
             *of_b = expr_reduce(n, OP_REDUCE_SUM, expr_binary(n, OP_MUL, b, b), 1, &last, false);
    ir_value *products = expr_binary(n, OP_MATMUL, a, expr_transpose(n, b, 2, turned));
    ir_value *both = expr_binary(n, OP_MUL, products, expr_number(n, products, 2));
    ir_value *squares = expr_binary(n, OP_SUB, expr_binary(n, OP_ADD, of_a, of_b), both);
    return expr_cast(n, expr_binary(n, OP_MAX, squares, expr_number(n, squares, 0)), OP_FLOAT);
}

/* The same by differences. */
static ir_value *squares_of_differences(const import_node *n, ir_value *a, ir_value *b) {
    static const int64_t last = 2;
    ir_value *difference = expr_axis(n, OP_UNSQUEEZE, a, 1);
    difference = expr_binary(n, OP_SUB, difference, expr_axis(n, OP_UNSQUEEZE, b, 0));
    return expr_reduce(n, OP_REDUCE_SUM, expr_binary(n, OP_MUL, difference, difference), 1, &last, false);
}

/* Distances of the rows of A from those of B. */
base_status import_convert_ms_distances(import_node *n) {
    const Onnx__AttributeProto *metric = import_attribute(n, "metric");
    const char *name = metric ? (const char *)metric->s.data : "sqeuclidean";
    const size_t length = metric ? metric->s.len : strlen(name);
    const bool squared = length == 11 && memcmp(name, "sqeuclidean", 11) == 0;
    if (!squared && (length != 9 || memcmp(name, "euclidean", 9) != 0)) {
        return base_fail_unsupported(n->importer->report,
                                     "metric \"%.*s\" is not supported; euclidean and sqeuclidean are",
                                     (int)(length < 40 ? length : 40), name);
    }
    const bool floats =
        import_dtype_of(n->inputs[0]) == OP_FLOAT && import_dtype_of(n->inputs[1]) == OP_FLOAT;
    ir_value *sum = (floats ? squares_of_floats : squares_of_differences)(n, n->inputs[0], n->inputs[1]);
    return expr_finish(n, squared ? sum : expr_unary(n, OP_SQRT, sum));
}

/* Distinct elements in the order of their first occurrence, the index of each element's among them, and how many there are. */
base_status import_convert_ms_unique(import_node *n) {
    static const uint32_t from[] = {0, 2, 3};
    op_attributes attributes = NONE;
    ir_value *made[4];
    if (!import_attributes_add_integer(n, &attributes, "sorted", 0)) return import_memory(n);
    ir_node *node = import_begin(n, OP_UNIQUE, attributes, 1, n->inputs);
    for (int i = 0; i < 4; i++) {
        made[i] = node ? ir_node_add_output(node, NULL, NULL) : NULL;
        if (!made[i]) return import_memory(n);
    }
    if (!import_infer(n->importer, node)) return import_memory(n);
    base_status status = BASE_OK;
    for (uint32_t i = 0; i < 3 && status == BASE_OK; i++) status = expr_output(n, i, made[from[i]]);
    return status;
}

/* ---- windows, tokens -------------------------------------------------------------------------------------- */

/* The extent of x along an axis, a scalar. */
static ir_value *extent(const import_node *n, ir_value *x, int64_t axis) {
    ir_value *extents = expr_unary(n, OP_SHAPE, x);
    return expr_binary(n, OP_GATHER, extents, import_constant_integer(n, axis));
}

/* Windows along an axis, whose elements stand along a new last one. */
base_status import_convert_ms_unfold(import_node *n) {
    ir_value *x = n->inputs[0];
    const int32_t rank = import_rank_of(x);
    const int64_t size = import_integer(n, "size", 0), step = import_integer(n, "step", 1);
    int64_t order[OP_MAX_RANK + 1];
    int32_t axis;
    if (rank < 1 || rank >= OP_MAX_RANK)
        return base_fail_unsupported(n->importer->report, "needs an input of known rank, 1 to %d",
                                     OP_MAX_RANK - 1);
    if (!op_axis(import_integer(n, "dim", -1), rank, &axis) || size < 1 || step < 1)
        return base_fail(
            n->importer->report, BASE_INVALID,
            "attributes \"dim\", \"size\" and \"step\" are %lld, %lld and %lld; the input has rank %d",
            (long long)import_integer(n, "dim", -1), (long long)size, (long long)step, rank);
    /* How many begin early enough: a window that does not fit is none. */
    ir_value *ends = extent(n, x, axis);
    ends = expr_binary(n, OP_SUB, ends, import_constant_integer(n, size - 1));
    ir_value *starts = expr_axis(n, OP_UNSQUEEZE, expr_steps(n, ends, step), 1);
    ir_value *index = expr_binary(n, OP_ADD, starts, expr_steps(n, import_constant_integer(n, size), 1));
    ir_value *gather[] = {x, index};
    ir_value *y = expr_with_integer(n, OP_GATHER, "axis", axis, 2, gather);
    for (int32_t i = 0; i <= rank; i++) order[i] = i <= axis ? i : i < rank ? i + 1 : axis + 1;
    return expr_finish(n, axis == rank - 1 ? y : expr_transpose(n, y, (size_t)rank + 1, order));
}

/* Whether no element is infinite, or not a number; or one of the two alone. */
base_status import_convert_ms_is_all_finite(import_node *n) {
    const bool infinite = import_integer(n, "isinf_only", 0) != 0,
               nan = import_integer(n, "isnan_only", 0) != 0;
    ir_value *count = NULL;
    if (infinite && nan)
        return base_fail(n->importer->report, BASE_INVALID, "isinf_only and isnan_only cannot both be set");
    for (uint32_t i = 0; i < n->input_count; i++) {
        ir_value *x = expr_input(n, i), *parts[2] = {NULL, NULL};
        if (!x) return base_fail(n->importer->report, BASE_INVALID, "input %u is absent, it is needed", i);
        if (!nan) parts[0] = expr_unary(n, OP_IS_INF, x);
        if (!infinite) parts[1] = expr_unary(n, OP_IS_NAN, x);
        ir_value *wrong = !parts[0]   ? parts[1]
                          : !parts[1] ? parts[0]
                                      : expr_binary(n, OP_OR, parts[0], parts[1]);
        ir_value *sum = expr_reduce(n, OP_REDUCE_SUM, expr_cast(n, wrong, OP_INT64), 0, NULL, false);
        if (!sum) return import_memory(n);
        count = count ? expr_binary(n, OP_ADD, count, sum) : sum;
    }
    return expr_finish(n, expr_binary(n, OP_EQUAL, count, import_constant_integer(n, 0)));
}

/* Columns [from, to) of a matrix; `to` may be NULL: to its end. Numbers below 0 count from the end. */
static ir_value *columns(const import_node *n, ir_value *x, int64_t from, ir_value *to) {
    ir_value *start = expr_vector(n, from);
    return expr_slice(n, x, 1, start, to ? to : expr_vector(n, INT64_MAX));
}

/* Scores of what would end a sequence of `size` tokens that was there before become -inf. */
base_status import_convert_ms_ngram_repeat_block(import_node *n) {
    static const int64_t one = 1;
    ir_value *ids = n->inputs[0], *scores = n->inputs[1], *same = NULL;
    const int64_t size = import_integer(n, "ngram_size", 0);
    base_status status = expr_need_dtype(n, scores);
    if (status != BASE_OK) return status;
    if (size < 1 || size > 64)
        return base_fail_unsupported(n->importer->report,
                                     "attribute \"ngram_size\" is %lld, expected 1 to 64", (long long)size);
    /* Candidate i is the token after tokens i to i + size - 2, which are compared with the last ones. */
    ir_value *count = extent(n, ids, 1);
    count = expr_binary(n, OP_SUB, count, import_constant_integer(n, size - 1));
    count = expr_binary(n, OP_MAX, count, import_constant_integer(n, 0));
    for (int64_t j = 0; j < size - 1; j++) {
        const int64_t back = j - (size - 1);
        ir_value *after = expr_binary(n, OP_ADD, count, import_constant_integer(n, j));
        ir_value *window = columns(n, ids, j, expr_reshape(n, after, 1, &one));
        const int64_t last = back + 1;
        ir_value *tail = columns(n, ids, back, last ? import_constant_integers(n, 1, &last) : NULL);
        ir_value *equal = expr_binary(n, OP_EQUAL, window, tail);
        same = same ? expr_binary(n, OP_AND, same, equal) : equal;
        if (!same) return import_memory(n);
    }
    ir_value *tokens = columns(n, ids, size - 1, NULL), *none = expr_number(n, scores, -HUGE_VAL);
    ir_value *updates;
    if (same) updates = expr_select(n, same, none, expr_number(n, scores, HUGE_VAL));
    else updates = tokens ? expr_binary(n, OP_EXPAND, none, expr_unary(n, OP_SHAPE, tokens)) : NULL;
    op_attributes attributes = NONE;
    if (!tokens || !updates || !import_attributes_add_integer(n, &attributes, "axis", 1) ||
        !import_attributes_add_text(n, &attributes, "reduction", "min"))
        return import_memory(n);
    ir_value *inputs[] = {scores, tokens, updates};
    return expr_finish(n, import_make(n, OP_SCATTER_ELEMENTS, attributes, 3, inputs));
}

/* ---- Fourier transforms of reals ---------------------------------------------------------------------------- */

/* What both have: one signal axis, not normalised, one side. */
static base_status check_fourier(const import_node *n) {
    const int64_t axes = import_integer(n, "signal_ndim", 1);
    if (axes == 1 && import_integer(n, "normalized", 0) == 0 && import_integer(n, "onesided", 1) == 1)
        return expr_need_dtype(n, n->inputs[0]);
    return base_fail_unsupported(n->importer->report,
                                 "only signal_ndim 1, normalized 0 and onesided 1 are supported");
}

static ir_value *transformed(const import_node *n, ir_value *x, bool inverse) {
    op_attributes attributes = NONE;
    ir_value *inputs[] = {x, NULL, import_constant_integer(n, -2)};
    if (!x || !inputs[2] ||
        !import_attributes_add_integer(n, &attributes, inverse ? "inverse" : "onesided", 1))
        return NULL;
    return import_make(n, OP_DFT, attributes, 3, inputs);
}

base_status import_convert_ms_real_fourier(import_node *n) {
    base_status status = check_fourier(n);
    if (status != BASE_OK) return status;
    return expr_finish(n, transformed(n, expr_axis(n, OP_UNSQUEEZE, n->inputs[0], -1), false));
}

/* The half that is left out is the other one backwards, conjugated. */
base_status import_convert_ms_inverse_real_fourier(import_node *n) {
    static const int64_t backwards[] = {-2, 0, -2, -1}; /* from, to, axis and step */
    static const float conjugate[] = {1, -1};
    ir_value *x = n->inputs[0];
    base_status status = check_fourier(n);
    if (status != BASE_OK) return status;
    ir_value *slice[5] = {x};
    for (int i = 1; i < 5; i++) {
        slice[i] = expr_vector(n, backwards[i - 1]);
        if (!slice[i]) return import_memory(n);
    }
    ir_value *signs = import_constant_reals(n, 2, conjugate),
             *half = import_make(n, OP_SLICE, NONE, 5, slice);
    ir_value *both[] = {x, expr_binary(n, OP_MUL, half, expr_cast(n, signs, import_dtype_of(x)))};
    ir_value *y = part(n, transformed(n, expr_with_integer(n, OP_CONCAT, "axis", -2, 2, both), true), 0);
    return expr_finish(n, expr_axis(n, OP_SQUEEZE, y, -1));
}

/* ---- GemmaRotaryEmbedding ------------------------------------------------------------------------------------ */

/* q cos + q_rot sin and the same of k, with angles [batch, rows, size] for all heads. */
base_status import_convert_ms_gemma_rotary_embedding(import_node *n) {
    base_status status = expr_need_dtype(n, n->inputs[1]);
    if (status != BASE_OK) return status;
    const op_dtype dtype = import_dtype_of(n->inputs[1]);
    const op_code codes[] = {OP_COS, OP_SIN};
    ir_value *angles[2];
    for (int i = 0; i < 2; i++)
        angles[i] = expr_axis(n, OP_UNSQUEEZE, expr_cast(n, expr_unary(n, codes[i], n->inputs[0]), dtype), 1);
    for (uint32_t i = 0; i < 2 && status == BASE_OK; i++) {
        ir_value *y = expr_binary(n, OP_MUL, n->inputs[1 + 2 * i], angles[0]);
        y = expr_binary(n, OP_ADD, y, expr_binary(n, OP_MUL, n->inputs[2 + 2 * i], angles[1]));
        status = i == 0 ? expr_finish(n, y) : expr_output(n, i, y);
    }
    return status;
}
