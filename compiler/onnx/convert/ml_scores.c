/* SPDX-License-Identifier: Apache-2.0 */
/* ml_scores.c: what the classifiers and regressors of ai.onnx.ml share: labels, scores and what is done to them at the end. */
#include "compiler/onnx/convert/ml.h"

#include <stdio.h>
#include <string.h>

static const op_attributes NONE = {0};

/* ---- transforms ---------------------------------------------------------------------------------------- */

/* Softmax of those that are not 0; the others are scaled alike. */
static ir_value *softmax_of_nonzero(const import_node *n, ir_value *x) {
    static const int64_t last = -1;
    ir_value *largest = expr_reduce(n, OP_REDUCE_MAX, x, 1, &last, true);
    ir_value *some = expr_unary(n, OP_ABS, x);
    some = expr_binary(n, OP_GREATER, some, expr_number(n, x, 0.0000001));
    ir_value *power = expr_unary(n, OP_EXP, expr_binary(n, OP_SUB, x, largest));
    ir_value *rest = expr_binary(n, OP_MUL, x, expr_unary(n, OP_EXP, expr_unary(n, OP_NEG, largest)));
    ir_value *y = expr_select(n, some, power, rest);
    return expr_binary(
        n, OP_DIV, y,
        expr_reduce(n, OP_REDUCE_SUM, expr_select(n, some, power, expr_number(n, x, 0)), 1, &last, true));
}

/* sqrt(2) times the inverse of erf at 2 x - 1, which ONNX Runtime takes in Winitzki's approximation ("A handy approximation for
 * the error function and its inverse", 2008) with a = 0.147. */
static ir_value *probit(const import_node *n, ir_value *x) {
    const double a = 0.147, pi = 3.14159265358979323846;
    ir_value *one = expr_number(n, x, 1);
    ir_value *z = expr_binary(n, OP_SUB, expr_binary(n, OP_MUL, x, expr_number(n, x, 2)), one);
    ir_value *less = expr_binary(n, OP_SUB, one, z);
    ir_value *product = expr_binary(n, OP_MUL, less, expr_binary(n, OP_ADD, one, z));
    ir_value *logarithm = expr_unary(n, OP_LOG, product);
    ir_value *half = expr_binary(n, OP_MUL, logarithm, expr_number(n, x, 0.5));
    half = expr_binary(n, OP_ADD, half, expr_number(n, x, 2 / (pi * a)));
    ir_value *square = expr_binary(n, OP_MUL, half, half);
    ir_value *scaled = expr_binary(n, OP_MUL, logarithm, expr_number(n, x, 1 / a));
    ir_value *root = expr_unary(n, OP_SQRT, expr_binary(n, OP_SUB, square, scaled));
    ir_value *magnitude = expr_unary(n, OP_SQRT, expr_binary(n, OP_SUB, root, half));
    ir_value *y = expr_binary(n, OP_MUL, expr_unary(n, OP_SIGN, z), magnitude);
    return expr_binary(n, OP_MUL, y, expr_number(n, x, 1.41421356237309504880));
}

base_status import_ml_transformed(const import_node *n, ir_value **scores) {
    const Onnx__AttributeProto *given = import_attribute(n, "post_transform");
    char name[20] = "NONE";
    if (given) snprintf(name, sizeof name, "%.*s", (int)given->s.len, (const char *)given->s.data);
    return import_ml_transformed_as(n, name, scores);
}

base_status import_ml_transformed_as(const import_node *n, const char *name, ir_value **scores) {
    ir_value *x = *scores;
    const int32_t rank = import_rank_of(x);
    const bool one = rank > 0 && x->type.shape.dims[rank - 1] == 1;
    if (strcmp(name, "NONE") == 0 || (one && strcmp(name, "PROBIT") != 0)) return BASE_OK;
    if (strcmp(name, "LOGISTIC") == 0) x = expr_unary(n, OP_SIGMOID, x);
    else if (strcmp(name, "SOFTMAX") == 0) x = expr_with_integer(n, OP_SOFTMAX, "axis", -1, 1, &x);
    else if (strcmp(name, "SOFTMAX_ZERO") == 0) x = softmax_of_nonzero(n, x);
    else if (strcmp(name, "PROBIT") == 0) x = probit(n, x);
    else
        return base_fail(n->importer->report, BASE_INVALID,
                         "attribute \"post_transform\" is unknown, expected NONE, SOFTMAX, LOGISTIC, "
                         "SOFTMAX_ZERO or PROBIT");
    *scores = x;
    return x ? BASE_OK : import_memory(n);
}

base_status import_ml_paired(const import_node *n, ml_pair kind, ir_value **scores) {
    ir_value *s = *scores;
    if (import_text_is(n, "post_transform", "PROBIT", "NONE")) return import_ml_transformed(n, scores);
    const bool logistic = import_text_is(n, "post_transform", "LOGISTIC", "NONE");
    if (kind == ML_PAIR_LINEAR) kind = logistic ? ML_PAIR_NEGATED : ML_PAIR_COMPLEMENT;
    ir_value *pair[] = {kind == ML_PAIR_COMPLEMENT ? expr_binary(n, OP_SUB, expr_number(n, s, 1), s)
                                                   : expr_unary(n, OP_NEG, s),
                        s};
    ir_value *both = expr_with_integer(n, OP_CONCAT, "axis", -1, 2, pair);
    if (kind == ML_PAIR_NEGATED && logistic) both = expr_unary(n, OP_SIGMOID, both);
    *scores = both;
    return both ? BASE_OK : import_memory(n);
}

/* ---- constants ------------------------------------------------------------------------------------------- */

ir_value *import_ml_reals(const import_node *n, const char *name) {
    const Onnx__AttributeProto *given = import_attribute(n, name);
    return given ? import_constant_reals(n, given->n_floats, given->floats) : NULL;
}

ir_value *import_ml_integers(const import_node *n, const char *name) {
    size_t count;
    const int64_t *given = import_integers(n, name, &count);
    return given ? import_constant_integers(n, count, given) : NULL;
}

ir_value *import_ml_texts(const import_node *n, size_t count, const op_string *texts) {
    base_arena *arena = &n->importer->module->arena;
    op_string *copies = BASE_ARRAY(arena, op_string, count);
    for (size_t i = 0; i < count && copies; i++) {
        copies[i] = (op_string){base_arena_text(arena, texts[i].length ? texts[i].data : "", texts[i].length),
                                texts[i].length};
        if (!copies[i].data) return NULL;
    }
    const op_type type = {.dtype = OP_STRING, .shape = {.rank = 1, .dims = {(int64_t)count}}};
    return copies ? ir_constant_copy(n->importer->module, "texts", &type, copies, count * sizeof *copies)
                  : NULL;
}

base_status import_ml_labels(const import_node *n, const char *integers, const char *texts, ir_value **labels,
                             size_t *count) {
    const Onnx__AttributeProto *numbers = import_attribute(n, integers), *names = import_attribute(n, texts);
    *labels = NULL;
    *count = 0;
    if (names && names->n_strings) {
        op_string *list = BASE_ARRAY(&n->importer->arena, op_string, names->n_strings);
        if (!list) return import_memory(n);
        *count = names->n_strings;
        for (size_t i = 0; i < *count; i++)
            list[i] = (op_string){(const char *)names->strings[i].data, names->strings[i].len};
        *labels = import_ml_texts(n, *count, list);
    } else if (numbers && numbers->n_ints) {
        *count = numbers->n_ints;
        *labels = import_constant_integers(n, *count, numbers->ints);
    } else {
        return BASE_OK;
    }
    return *labels ? BASE_OK : import_memory(n);
}

base_status import_ml_matrix(const import_node *n, ir_value **x) {
    ir_value *given = n->inputs[0];
    base_status status = expr_need_dtype(n, given);
    if (status != BASE_OK) return status;
    const int32_t rank = import_rank_of(given);
    if (rank != 1 && rank != 2) {
        return base_fail(n->importer->report, BASE_INVALID,
                         "needs an input whose rank is known to be 1 or 2");
    }
    if (rank == 1) given = expr_axis(n, OP_UNSQUEEZE, given, 0);
    *x = expr_cast(n, given, OP_FLOAT);
    return *x ? BASE_OK : import_memory(n);
}

base_status import_ml_finish_classifier(import_node *n, ir_value *labels, ir_value *index, ir_value *scores) {
    ir_value *inputs[] = {labels, index};
    base_status status =
        expr_output(n, 0, labels && index ? import_make(n, OP_GATHER, NONE, 2, inputs) : NULL);
    return status == BASE_OK ? expr_output(n, 1, scores) : status;
}
