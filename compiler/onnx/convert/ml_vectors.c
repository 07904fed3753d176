/* SPDX-License-Identifier: Apache-2.0 */
/* ml_vectors.c: SVMRegressor and SVMClassifier: products of the rows with support vectors, and weighted sums of these. */
#include "compiler/onnx/convert/ml.h"

#include <string.h>

/* A matrix of the first rows * columns numbers of an attribute. */
static ir_value *matrix(const import_node *n, const float *data, size_t rows, size_t columns) {
    const op_type type = {.dtype = OP_FLOAT, .shape = {.rank = 2, .dims = {(int64_t)rows, (int64_t)columns}}};
    return ir_constant_copy(n->importer->module, "vectors", &type, data, rows * columns * sizeof *data);
}

/* What the kernel of the file says of each row of x with each of `count` vectors. */
static base_status kernels(const import_node *n, ir_value *x, const Onnx__AttributeProto *given, size_t count,
                           ir_value **y) {
    static const int64_t turned[] = {1, 0}, last = 2;
    const Onnx__AttributeProto *parameters = import_attribute(n, "kernel_params");
    const bool some = parameters && parameters->n_floats >= 3;
    const double gamma = some ? (double)parameters->floats[0] : 0,
                 coefficient = some ? (double)parameters->floats[1] : 0,
                 degree = some ? (double)parameters->floats[2] : 0;
    if (!given || !count || given->n_floats % count)
        return base_fail(n->importer->report, BASE_INVALID, "support_vectors has %zu numbers for %zu vectors",
                         given ? given->n_floats : 0, count);
    ir_value *vectors = matrix(n, given->floats, count, given->n_floats / count);
    if (import_text_is(n, "kernel_type", "RBF", "LINEAR")) {
        ir_value *d = expr_axis(n, OP_UNSQUEEZE, x, 1);
        d = expr_binary(n, OP_SUB, d, expr_axis(n, OP_UNSQUEEZE, vectors, 0));
        ir_value *square = expr_reduce(n, OP_REDUCE_SUM, expr_binary(n, OP_MUL, d, d), 1, &last, false);
        *y = expr_unary(n, OP_EXP, expr_binary(n, OP_MUL, square, expr_number(n, square, -gamma)));
        return *y ? BASE_OK : import_memory(n);
    }
    ir_value *dot = expr_binary(n, OP_MATMUL, x, expr_transpose(n, vectors, 2, turned));
    *y = dot;
    if (!import_text_is(n, "kernel_type", "LINEAR", "LINEAR")) {
        dot = expr_binary(n, OP_MUL, dot, expr_number(n, dot, gamma));
        dot = expr_binary(n, OP_ADD, dot, expr_number(n, dot, coefficient));
        if (import_text_is(n, "kernel_type", "POLY", "LINEAR"))
            *y = expr_binary(n, OP_POW, dot, expr_number(n, dot, degree));
        else if (import_text_is(n, "kernel_type", "SIGMOID", "LINEAR")) *y = expr_unary(n, OP_TANH, dot);
        else
            return base_fail(n->importer->report, BASE_INVALID,
                             "attribute \"kernel_type\" is unknown, expected LINEAR, POLY, RBF or SIGMOID");
    }
    return *y ? BASE_OK : import_memory(n);
}

base_status import_convert_svm_regressor(import_node *n) {
    const Onnx__AttributeProto *given = import_attribute(n, "coefficients"),
                               *rho = import_attribute(n, "rho");
    const int64_t count = import_integer(n, "n_supports", 0);
    ir_value *x, *y;
    base_status status = import_ml_matrix(n, &x);
    if (status != BASE_OK) return status;
    if (!given || !rho || !rho->n_floats || count < 0 || (count && given->n_floats != (size_t)count))
        return base_fail(n->importer->report, BASE_INVALID,
                         "%lld support vectors have %zu coefficients, and rho %zu numbers", (long long)count,
                         given ? given->n_floats : 0, rho ? rho->n_floats : 0);
    y = x; /* without support vectors the model is linear */
    if (count) status = kernels(n, x, import_attribute(n, "support_vectors"), (size_t)count, &y);
    if (status != BASE_OK) return status;
    y = expr_binary(n, OP_MATMUL, y, matrix(n, given->floats, given->n_floats, 1));
    y = expr_binary(n, OP_ADD, y, import_constant_reals(n, 1, rho->floats));
    if (import_integer(n, "one_class", 0) != 0) {
        ir_value *above = expr_binary(n, OP_GREATER, y, expr_number(n, y, 0));
        ir_value *one = expr_number(n, y, 1);
        y = expr_select(n, above, one, expr_number(n, y, -1));
    }
    if (!y) return import_memory(n);
    status = import_ml_transformed(n, &y);
    return status == BASE_OK ? expr_finish(n, y) : status;
}

/* Classes i < j decide between them by the vectors of both; pairs come in the order (0, 1), (0, 2), ..., (1, 2), ... */
typedef struct pairing {
    size_t classes, pairs, vectors;
    float *weights;        /* [vectors, pairs] */
    float *first, *second; /* [pairs, classes]: whom a pair votes for above zero, and otherwise */
} pairing;

static base_status pair_up(const import_node *n, pairing *p) {
    const Onnx__AttributeProto *given = import_attribute(n, "coefficients"),
                               *rho = import_attribute(n, "rho");
    size_t count;
    const int64_t *sizes = import_integers(n, "vectors_per_class", &count);
    base_arena *arena = &n->importer->arena;
    for (size_t i = 0; i < count; i++) {
        if (sizes[i] < 0 || sizes[i] > INT32_MAX)
            return base_fail(n->importer->report, BASE_INVALID, "class %zu has %lld vectors", i,
                             (long long)sizes[i]);
        p->vectors += (size_t)sizes[i];
    }
    p->pairs = p->classes * (p->classes - 1) / 2;
    if (count != p->classes || p->classes < 2 || p->classes > 10000 || !given || !rho ||
        rho->n_floats != p->pairs || given->n_floats != p->vectors * (p->classes - 1))
        return base_fail(n->importer->report, BASE_INVALID,
                         "coefficients, rho and vectors_per_class do not fit %zu classes", p->classes);
    size_t cells;
    if (!base_size_multiply(p->pairs, p->vectors > p->classes ? p->vectors : p->classes, &cells))
        return import_memory(n);
    p->weights = BASE_ARRAY(arena, float, cells);
    p->first = BASE_ARRAY(arena, float, cells);
    p->second = BASE_ARRAY(arena, float, cells);
    if (!p->weights || !p->first || !p->second) return import_memory(n);
    memset(p->weights, 0, p->vectors * p->pairs * sizeof(float));
    memset(p->first, 0, p->classes * p->pairs * sizeof(float));
    memset(p->second, 0, p->classes * p->pairs * sizeof(float));
    size_t pair = 0, start_i = 0;
    for (size_t i = 0; i < p->classes; start_i += (size_t)sizes[i++]) {
        size_t start_j = start_i + (size_t)sizes[i];
        for (size_t j = i + 1; j < p->classes; start_j += (size_t)sizes[j++], pair++) {
            for (size_t k = start_i; k < start_i + (size_t)sizes[i]; k++)
                p->weights[k * p->pairs + pair] = given->floats[(j - 1) * p->vectors + k];
            for (size_t k = start_j; k < start_j + (size_t)sizes[j]; k++)
                p->weights[k * p->pairs + pair] = given->floats[i * p->vectors + k];
            p->first[pair * p->classes + i] = 1;
            p->second[pair * p->classes + j] = 1;
        }
    }
    return BASE_OK;
}

/* The class with most votes, the first of equals. */
static ir_value *elected(const import_node *n, const pairing *p, ir_value *decisions) {
    op_attributes attributes = {0};
    ir_value *above =
        expr_cast(n, expr_binary(n, OP_GREATER, decisions, expr_number(n, decisions, 0)), OP_FLOAT);
    ir_value *below = expr_binary(n, OP_SUB, expr_number(n, above, 1), above);
    above = expr_binary(n, OP_MATMUL, above, matrix(n, p->first, p->pairs, p->classes));
    below = expr_binary(n, OP_MATMUL, below, matrix(n, p->second, p->pairs, p->classes));
    ir_value *votes = expr_binary(n, OP_ADD, above, below);
    if (!votes || !import_attributes_add_integer(n, &attributes, "axis", 1) ||
        !import_attributes_add_integer(n, &attributes, "keepdims", 0))
        return NULL;
    return import_make(n, OP_ARG_MAX, attributes, 1, &votes);
}

/* The probability of the first class of each pair is the logistic function of -(a d + b), by J. Platt ("Probabilistic outputs for
 * support vector machines", 1999), kept away from 0 and 1; those of the classes follow from them. */
static base_status probabilities(const import_node *n, const pairing *p, ir_value **decisions) {
    ir_value *d = *decisions;
    const Onnx__AttributeProto *a = import_attribute(n, "prob_a"), *b = import_attribute(n, "prob_b");
    if (a->n_floats != p->pairs || !b || b->n_floats != p->pairs)
        return base_fail(
            n->importer->report, BASE_INVALID,
            "prob_a and prob_b have %zu and %zu numbers, expected one each for %zu pairs of classes",
            a->n_floats, b ? b->n_floats : 0, p->pairs);
    ir_value *line = expr_binary(n, OP_MUL, d, import_ml_reals(n, "prob_a"));
    line = expr_binary(n, OP_ADD, line, import_ml_reals(n, "prob_b"));
    ir_value *first = expr_unary(n, OP_SIGMOID, expr_unary(n, OP_NEG, line));
    ir_value *limits[3] = {first};
    limits[1] = expr_number(n, d, 1e-7);
    limits[2] = expr_number(n, d, 1 - 1e-7);
    if (!first || !limits[1] || !limits[2]) return import_memory(n);
    first = import_make(n, OP_CLIP, (op_attributes){0}, 3, limits);
    *decisions =
        first ? expr_with_integer(n, OP_PAIRWISE_COUPLING, "classes", (int64_t)p->classes, 1, &first) : NULL;
    return *decisions ? import_ml_transformed(n, decisions) : import_memory(n);
}

/* Scores are probabilities, or the decisions, one a pair; but of two classes they are -d and d, or 1 - d and d where a softmax is asked
 * for, as ONNX Runtime has it. */
static base_status scored(const import_node *n, const pairing *p, ir_value **scores) {
    if (import_attribute(n, "prob_a")) return probabilities(n, p, scores);
    if (p->classes > 2) return import_ml_transformed(n, scores);
    const bool negated = import_text_is(n, "post_transform", "NONE", "NONE") ||
                         import_text_is(n, "post_transform", "LOGISTIC", "NONE");
    return import_ml_paired(n, negated ? ML_PAIR_NEGATED : ML_PAIR_COMPLEMENT, scores);
}

/* Models of pairs of classes. */
base_status import_convert_svm_classifier(import_node *n) {
    pairing p = {0};
    ir_value *labels, *x, *y;
    base_report *report = n->importer->report;
    base_status status = import_ml_labels(n, "classlabels_ints", "classlabels_strings", &labels, &p.classes);
    if (status != BASE_OK) return status;
    if (!import_attribute(n, "vectors_per_class") || p.classes < 2)
        return base_fail_unsupported(report,
                                     "models without vectors_per_class are not supported; two classes "
                                     "or more with support vectors are");
    status = pair_up(n, &p);
    if (status == BASE_OK) status = import_ml_matrix(n, &x);
    if (status == BASE_OK) status = kernels(n, x, import_attribute(n, "support_vectors"), p.vectors, &y);
    if (status != BASE_OK) return status;
    y = expr_binary(n, OP_MATMUL, y, matrix(n, p.weights, p.vectors, p.pairs));
    y = expr_binary(n, OP_ADD, y, import_ml_reals(n, "rho"));
    ir_value *index = elected(n, &p, y);
    if (!y || !index) return import_memory(n);
    status = scored(n, &p, &y);
    return status == BASE_OK ? import_ml_finish_classifier(n, labels, index, y) : status;
}
