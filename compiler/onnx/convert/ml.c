/* SPDX-License-Identifier: Apache-2.0 */
/* ml.c: the table of the domain ai.onnx.ml, its preprocessing and its linear models. */
#include "compiler/onnx/convert/ml.h"
#include "compiler/onnx/convert/convert.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const op_attributes NONE = {0};

/* ---- numbers ------------------------------------------------------------------------------------------- */

/* (x - offset) scale, in float; either may be absent, of one element or one a feature. */
static base_status convert_scaler(import_node *n) {
    base_status status = expr_need_dtype(n, n->inputs[0]);
    if (status != BASE_OK) return status;
    ir_value *y = expr_cast(n, n->inputs[0], OP_FLOAT);
    if (import_attribute(n, "offset")) y = expr_binary(n, OP_SUB, y, import_ml_reals(n, "offset"));
    if (import_attribute(n, "scale")) y = expr_binary(n, OP_MUL, y, import_ml_reals(n, "scale"));
    return expr_finish(n, y);
}

/* What equals the replaced value, or is no number where that is none, becomes the imputed value. */
static base_status convert_imputer(import_node *n) {
    ir_value *x = n->inputs[0], *found, *imputed;
    base_status status = expr_need_dtype(n, x);
    if (status != BASE_OK) return status;
    const op_dtype dtype = import_dtype_of(x);
    const bool real = dtype == OP_FLOAT || dtype == OP_DOUBLE;
    const float replaced = import_real(n, "replaced_value_float", 0);
    if (!import_attribute(n, real ? "imputed_value_floats" : "imputed_value_int64s")) {
        return base_fail(n->importer->report, BASE_INVALID, "attribute \"%s\" is absent, it is needed for %s",
                         real ? "imputed_value_floats" : "imputed_value_int64s", op_dtype_name(dtype));
    }
    imputed =
        real ? import_ml_reals(n, "imputed_value_floats") : import_ml_integers(n, "imputed_value_int64s");
    if (real && isnan(replaced)) found = expr_unary(n, OP_IS_NAN, x);
    else
        found = expr_binary(
            n, OP_EQUAL, x,
            expr_number(n, x,
                        real ? (double)replaced : (double)import_integer(n, "replaced_value_int64", 0)));
    return expr_finish(n, expr_select(n, found, expr_cast(n, imputed, dtype), x));
}

static base_status convert_binarizer(import_node *n) {
    ir_value *x = n->inputs[0];
    base_status status = expr_need_dtype(n, x);
    if (status != BASE_OK) return status;
    ir_value *limit = import_constant_real(n, OP_FLOAT, (double)import_real(n, "threshold", 0));
    const op_dtype dtype = import_dtype_of(x);
    const op_dtype wide = dtype == OP_DOUBLE ? OP_DOUBLE : OP_FLOAT;
    ir_value *above = expr_cast(n, x, wide);
    above = expr_binary(n, OP_GREATER, above, expr_cast(n, limit, wide));
    return expr_finish(n, expr_cast(n, above, dtype));
}

/* Rows divided by their largest element, or by their norm; those with none stay as they are. */
static base_status convert_normalizer(import_node *n) {
    const int32_t rank = import_rank_of(n->inputs[0]);
    base_status status = expr_need_dtype(n, n->inputs[0]);
    if (status == BASE_OK && rank < 1)
        status = base_fail_unsupported(n->importer->report, "needs an input of known rank, at least 1");
    if (status != BASE_OK) return status;
    const int64_t axis = rank > 1 ? 1 : 0;
    ir_value *x = expr_cast(n, n->inputs[0], OP_FLOAT), *size;
    if (import_text_is(n, "norm", "MAX", "MAX")) size = expr_reduce(n, OP_REDUCE_MAX, x, 1, &axis, true);
    else if (import_text_is(n, "norm", "L1", "MAX"))
        size = expr_reduce(n, OP_REDUCE_SUM, expr_unary(n, OP_ABS, x), 1, &axis, true);
    else if (import_text_is(n, "norm", "L2", "MAX"))
        size = expr_unary(n, OP_SQRT,
                          expr_reduce(n, OP_REDUCE_SUM, expr_binary(n, OP_MUL, x, x), 1, &axis, true));
    else
        return base_fail(n->importer->report, BASE_INVALID,
                         "attribute \"norm\" is unknown, expected MAX, L1 or L2");
    ir_value *none = expr_binary(n, OP_EQUAL, size, expr_number(n, size, 0));
    return expr_finish(n, expr_binary(n, OP_DIV, x, expr_select(n, none, expr_number(n, x, 1), size)));
}

/* ---- features -------------------------------------------------------------------------------------------- */

/* Elements of the last axis, in a matrix at least. */
static base_status convert_array_feature_extractor(import_node *n) {
    static const int64_t all = -1, row[] = {1, -1};
    ir_value *x = n->inputs[0];
    if (import_rank_of(x) == 1) x = expr_reshape(n, x, 2, row);
    ir_value *inputs[] = {x, expr_reshape(n, n->inputs[1], 1, &all)};
    return expr_finish(n, expr_with_integer(n, OP_GATHER, "axis", -1, 2, inputs));
}

/* The first `width` columns, with columns of zeros where there are fewer. How many there are may be open. */
static ir_value *columns(const import_node *n, ir_value *x, int64_t width) {
    const int64_t have = import_rank_of(x) == 2 ? x->type.shape.dims[1] : width;
    if (have == width) return x;
    if (have < width)
        x = expr_binary(
            n, OP_PAD, x,
            import_constant_integers(n, 4, (int64_t[]){0, 0, 0, have < 0 ? width : width - have}));
    if (have >= 0 && have < width) return x;
    ir_value *start = expr_vector(n, 0);
    return expr_slice(n, x, 1, start, expr_vector(n, width));
}

static base_status convert_feature_vectorizer(import_node *n) {
    size_t count;
    const int64_t *widths = import_integers(n, "inputdimensions", &count);
    ir_value **parts = BASE_ARRAY(&n->importer->arena, ir_value *, n->input_count);
    if (!parts) return import_memory(n);
    if (count != n->input_count) {
        return base_fail(n->importer->report, BASE_INVALID,
                         "attribute \"inputdimensions\" has %zu numbers for %u inputs", count,
                         n->input_count);
    }
    for (uint32_t i = 0; i < n->input_count; i++) {
        ir_value *x = n->inputs[i];
        base_status status = expr_need_dtype(n, x);
        if (status != BASE_OK) return status;
        if (import_rank_of(x) == 1) x = expr_axis(n, OP_UNSQUEEZE, x, 0);
        parts[i] = columns(n, expr_cast(n, x, OP_FLOAT), widths[i]);
    }
    return expr_finish(n, expr_with_integer(n, OP_CONCAT, "axis", 1, n->input_count, parts));
}

/* ---- categories ------------------------------------------------------------------------------------------ */

/* A list of an attribute as a vector: of texts, integers or floats by the end of its name, or a tensor as it is. */
static base_status listed(const import_node *n, const char *kind, ir_value **list) {
    static const char *const endings[] = {"strings", "int64s", "floats", "tensor"};
    *list = NULL;
    for (int i = 0; i < 4; i++) {
        char name[40];
        snprintf(name, sizeof name, "%s_%s", kind, endings[i]);
        const Onnx__AttributeProto *given = import_attribute(n, name);
        if (!given) continue;
        if (i == 3 && given->t) {
            return import_constant_tensor(n->importer, n->scope->frame, given->t, NULL, kind, list);
        }
        size_t count;
        if (i == 0) {
            base_status status = import_ml_labels(n, "", name, list, &count);
            if (status != BASE_OK) return status;
        } else {
            *list = i == 1 ? import_ml_integers(n, name) : import_ml_reals(n, name);
        }
        return *list ? BASE_OK : import_memory(n);
    }
    return base_fail(n->importer->report, BASE_INVALID, "there is no attribute \"%s_...\"", kind);
}

static ir_value *text_scalar(const import_node *n, const char *name, const char *otherwise) {
    const Onnx__AttributeProto *given = import_attribute(n, name);
    op_string text = {otherwise, strlen(otherwise)};
    if (given) text = (op_string){(const char *)given->s.data, given->s.len};
    return import_ml_texts(n, 1, &text);
}

/* The value of keys that are not found: an attribute by the type of the values, of one element. */
static base_status default_of(const import_node *n, const ir_value *values, ir_value **otherwise) {
    const op_dtype dtype = import_dtype_of(values);
    const Onnx__AttributeProto *tensor = import_attribute(n, "default_tensor");
    if (tensor && tensor->t)
        return import_constant_tensor(n->importer, n->scope->frame, tensor->t, NULL, "default", otherwise);
    if (dtype == OP_STRING) *otherwise = text_scalar(n, "default_string", "_Unused");
    else if (dtype == OP_FLOAT || dtype == OP_DOUBLE)
        *otherwise = import_constant_real(n, dtype, (double)import_real(n, "default_float", -0.0f));
    else *otherwise = import_constant_real(n, dtype, (double)import_integer(n, "default_int64", -1));
    return *otherwise ? BASE_OK : import_memory(n);
}

static base_status finish_encoder(import_node *n, ir_value *keys, ir_value *values, ir_value *otherwise) {
    ir_value *inputs[] = {n->inputs[0], keys, values, otherwise};
    for (int i = 1; i < 4; i++)
        if (!inputs[i]) return import_memory(n);
    return import_finish(n, OP_LABEL_ENCODER, NONE, 4, inputs);
}

static base_status convert_label_encoder(import_node *n) {
    ir_value *keys, *values, *otherwise;
    base_status status = listed(n, "keys", &keys);
    if (status == BASE_OK) status = listed(n, "values", &values);
    if (status == BASE_OK) status = default_of(n, values, &otherwise);
    return status == BASE_OK ? finish_encoder(n, keys, values, otherwise) : status;
}

static ir_value *positions(const import_node *n, size_t count) {
    int64_t *numbers = BASE_ARRAY(&n->importer->arena, int64_t, count);
    for (size_t i = 0; i < count && numbers; i++) numbers[i] = (int64_t)i;
    return numbers ? import_constant_integers(n, count, numbers) : NULL;
}

/* Version 1: classes and their positions, in the direction that the input tells. */
static base_status convert_old_label_encoder(import_node *n) {
    ir_value *classes;
    size_t count;
    base_status status = import_ml_labels(n, "", "classes_strings", &classes, &count);
    if (status == BASE_OK) status = expr_need_dtype(n, n->inputs[0]);
    if (status == BASE_OK && !count)
        status = base_fail(n->importer->report, BASE_INVALID, "attribute \"classes_strings\" is absent");
    if (status != BASE_OK) return status;
    ir_value *numbers = positions(n, count);
    if (import_dtype_of(n->inputs[0]) == OP_STRING) {
        return finish_encoder(n, classes, numbers,
                              import_constant_integer(n, import_integer(n, "default_int64", -1)));
    }
    return finish_encoder(n, numbers, classes, text_scalar(n, "default_string", "_Unused"));
}

static base_status convert_category_mapper(import_node *n) {
    ir_value *texts, *numbers = import_ml_integers(n, "cats_int64s");
    size_t count;
    base_status status = import_ml_labels(n, "", "cats_strings", &texts, &count);
    if (status == BASE_OK) status = expr_need_dtype(n, n->inputs[0]);
    if (status == BASE_OK && (!texts || !numbers))
        status = base_fail(n->importer->report, BASE_INVALID, "cats_int64s or cats_strings is absent");
    if (status != BASE_OK) return status;
    if (import_dtype_of(n->inputs[0]) == OP_STRING) {
        return finish_encoder(n, texts, numbers,
                              import_constant_integer(n, import_integer(n, "default_int64", -1)));
    }
    return finish_encoder(n, numbers, texts, text_scalar(n, "default_string", "_Unused"));
}

/* The rows of the identity matrix, and with `zeros` one more that has none. */
static ir_value *identity(const import_node *n, size_t count, bool zeros) {
    const size_t rows = count + zeros;
    float *data = count && rows < SIZE_MAX / sizeof(float) / count
                      ? BASE_ARRAY(&n->importer->arena, float, rows *count)
                      : NULL;
    if (!data) return NULL;
    memset(data, 0, rows * count * sizeof *data);
    for (size_t i = 0; i < count; i++) data[i * count + i] = 1;
    const op_type type = {.dtype = OP_FLOAT, .shape = {.rank = 2, .dims = {(int64_t)rows, (int64_t)count}}};
    return ir_constant_copy(n->importer->module, "categories", &type, data, rows * count * sizeof *data);
}

/* The position of each element among the categories chooses a row; one that is not there chooses the row without a one, or, where
 * that is no answer, a row that is not there either. */
static base_status convert_one_hot_encoder(import_node *n) {
    ir_value *categories, *x = n->inputs[0];
    size_t count;
    base_status status = import_ml_labels(n, "cats_int64s", "cats_strings", &categories, &count);
    if (status == BASE_OK) status = expr_need_dtype(n, x);
    if (status == BASE_OK && !count)
        status = base_fail(n->importer->report, BASE_INVALID, "cats_int64s and cats_strings are absent");
    if (status != BASE_OK) return status;
    if (import_dtype_of(categories) == OP_INT64) x = expr_cast(n, x, OP_INT64);
    ir_value *inputs[4] = {x, categories};
    inputs[2] = positions(n, count);
    inputs[3] = import_constant_integer(n, (int64_t)count);
    for (int i = 0; i < 4; i++)
        if (!inputs[i]) return import_memory(n);
    ir_value *position = import_make(n, OP_LABEL_ENCODER, NONE, 4, inputs);
    return expr_finish(
        n, expr_binary(n, OP_GATHER, identity(n, count, import_integer(n, "zeros", 1) != 0), position));
}

/* ---- linear models --------------------------------------------------------------------------------------- */

/* x times the coefficients, which lie target by target, plus the intercepts. */
static base_status linear(const import_node *n, size_t targets, ir_value **y) {
    const Onnx__AttributeProto *given = import_attribute(n, "coefficients"),
                               *intercepts = import_attribute(n, "intercepts");
    static const int64_t turned[] = {1, 0};
    ir_value *x;
    base_status status = import_ml_matrix(n, &x);
    if (status != BASE_OK) return status;
    if (!given || !targets || given->n_floats % targets) {
        return base_fail(n->importer->report, BASE_INVALID, "%zu coefficients for %zu targets",
                         given ? given->n_floats : 0, targets);
    }
    const op_type type = {
        .dtype = OP_FLOAT,
        .shape = {.rank = 2, .dims = {(int64_t)targets, (int64_t)(given->n_floats / targets)}}};
    ir_value *weights = ir_constant_copy(n->importer->module, "coefficients", &type, given->floats,
                                         given->n_floats * sizeof *given->floats);
    *y = expr_binary(n, OP_MATMUL, x, expr_transpose(n, weights, 2, turned));
    if (intercepts && intercepts->n_floats) {
        if (intercepts->n_floats != targets)
            return base_fail(n->importer->report, BASE_INVALID, "%zu intercepts for %zu targets",
                             intercepts->n_floats, targets);
        *y = expr_binary(n, OP_ADD, *y, import_ml_reals(n, "intercepts"));
    }
    return *y ? BASE_OK : import_memory(n);
}

static base_status convert_linear_regressor(import_node *n) {
    ir_value *y;
    const int64_t targets = import_integer(n, "targets", 1);
    base_status status = linear(n, targets > 0 ? (size_t)targets : 0, &y);
    if (status == BASE_OK) status = import_ml_transformed(n, &y);
    return status == BASE_OK ? expr_finish(n, y) : status;
}

/* As many classes as intercepts; one of them with two labels is the second's. */
static base_status convert_linear_classifier(import_node *n) {
    const Onnx__AttributeProto *intercepts = import_attribute(n, "intercepts");
    ir_value *labels, *scores, *index;
    size_t count;
    base_status status = import_ml_labels(n, "classlabels_ints", "classlabels_strings", &labels, &count);
    if (status == BASE_OK && !count)
        status = base_fail(n->importer->report, BASE_INVALID, "there are no class labels");
    const size_t classes = intercepts && intercepts->n_floats ? intercepts->n_floats : count;
    if (status == BASE_OK) status = linear(n, classes, &scores);
    if (status != BASE_OK) return status;
    if (classes == 1 && count == 2) {
        index = expr_axis(
            n, OP_SQUEEZE,
            expr_cast(n, expr_binary(n, OP_GREATER, scores, expr_number(n, scores, 0)), OP_INT64), 1);
        status = import_ml_paired(n, ML_PAIR_LINEAR, &scores);
    } else {
        op_attributes attributes = NONE;
        if (!import_attributes_add_integer(n, &attributes, "axis", 1) ||
            !import_attributes_add_integer(n, &attributes, "keepdims", 0))
            return import_memory(n);
        index = import_make(n, OP_ARG_MAX, attributes, 1, &scores);
        status = import_ml_transformed(n, &scores);
    }
    return status == BASE_OK ? import_ml_finish_classifier(n, labels, index, scores) : status;
}

/* ---- the table ------------------------------------------------------------------------------------------- */

#define ML "ai.onnx.ml"
#define TREE_ATTRIBUTES                                                                                      \
    "nodes_falsenodeids:I nodes_featureids:I nodes_hitrates:F nodes_missing_value_tracks_true:I "            \
    "nodes_modes:S nodes_nodeids:I nodes_treeids:I nodes_truenodeids:I nodes_values:F post_transform:s "     \
    "base_values:F base_values_as_tensor:t nodes_hitrates_as_tensor:t nodes_values_as_tensor:t "
#define LABEL_ENCODER_ATTRIBUTES                                                                             \
    "default_float:f default_int64:i default_string:s keys_floats:F keys_int64s:I keys_strings:S "           \
    "values_floats:F values_int64s:I values_strings:S"

enum { ANY = -1, LAST = 5 };

static const import_row rows[] = {
    {ML, "Scaler", 1, LAST, "offset:F scale:F", 1, 1, 1, convert_scaler},
    {ML, "Imputer", 1, LAST,
     "imputed_value_floats:F imputed_value_int64s:I replaced_value_float:f replaced_value_int64:i", 1, 1, 1,
     convert_imputer},
    {ML, "Binarizer", 1, LAST, "threshold:f", 1, 1, 1, convert_binarizer},
    {ML, "Normalizer", 1, LAST, "norm:s", 1, 1, 1, convert_normalizer},
    {ML, "ArrayFeatureExtractor", 1, LAST, "", 2, 2, 1, convert_array_feature_extractor},
    {ML, "FeatureVectorizer", 1, LAST, "inputdimensions:I", 1, ANY, 1, convert_feature_vectorizer},
    {ML, "LabelEncoder", 1, 1, "classes_strings:S default_int64:i default_string:s", 1, 1, 1,
     convert_old_label_encoder},
    {ML, "LabelEncoder", 2, 3, LABEL_ENCODER_ATTRIBUTES, 1, 1, 1, convert_label_encoder},
    {ML, "LabelEncoder", 4, LAST, LABEL_ENCODER_ATTRIBUTES " default_tensor:t keys_tensor:t values_tensor:t",
     1, 1, 1, convert_label_encoder},
    {ML, "CategoryMapper", 1, LAST, "cats_int64s:I cats_strings:S default_int64:i default_string:s", 1, 1, 1,
     convert_category_mapper},
    {ML, "OneHotEncoder", 1, LAST, "cats_int64s:I cats_strings:S zeros:i", 1, 1, 1, convert_one_hot_encoder},
    {ML, "LinearRegressor", 1, LAST, "coefficients:F intercepts:F post_transform:s targets:i", 1, 1, 1,
     convert_linear_regressor},
    {ML, "LinearClassifier", 1, LAST,
     "classlabels_ints:I classlabels_strings:S coefficients:F! intercepts:F multi_class:i post_transform:s",
     1, 1, 2, convert_linear_classifier},
    /* support vectors (ml_vectors.c) */
    {ML, "SVMRegressor", 1, LAST,
     "coefficients:F kernel_params:F kernel_type:s n_supports:i one_class:i post_transform:s rho:F "
     "support_vectors:F",
     1, 1, 1, import_convert_svm_regressor},
    {ML, "SVMClassifier", 1, LAST,
     "classlabels_ints:I classlabels_strings:S coefficients:F kernel_params:F kernel_type:s post_transform:s "
     "prob_a:F prob_b:F rho:F support_vectors:F vectors_per_class:I",
     1, 1, 2, import_convert_svm_classifier},
    /* maps (ml_maps.c) */
    {ML, "ZipMap", 1, LAST, "classlabels_int64s:I classlabels_strings:S", 1, 1, 1, import_convert_zip_map},
    {ML, "DictVectorizer", 1, LAST, "int64_vocabulary:I string_vocabulary:S", 1, 1, 1,
     import_convert_dict_vectorizer},
    {ML, "CastMap", 1, LAST, "cast_to:s map_form:s max_map:i", 1, 1, 1, import_convert_cast_map},
    /* trees (ml_trees.c) */
    {ML, "TreeEnsembleRegressor", 1, LAST,
     TREE_ATTRIBUTES "aggregate_function:s n_targets:i target_ids:I target_nodeids:I target_treeids:I "
                     "target_weights:F target_weights_as_tensor:t",
     1, 1, 1, import_convert_tree_regressor},
    {ML, "TreeEnsembleClassifier", 1, LAST,
     TREE_ATTRIBUTES "class_ids:I class_nodeids:I class_treeids:I class_weights:F class_weights_as_tensor:t "
                     "classlabels_int64s:I classlabels_strings:S",
     1, 1, 2, import_convert_tree_classifier},
    {ML, "TreeEnsemble", 5, LAST,
     "aggregate_function:i leaf_targetids:I! leaf_weights:t! membership_values:t n_targets:i "
     "nodes_falseleafs:I! "
     "nodes_falsenodeids:I! nodes_featureids:I! nodes_hitrates:t nodes_missing_value_tracks_true:I "
     "nodes_modes:t! nodes_splits:t! nodes_trueleafs:I! nodes_truenodeids:I! post_transform:i tree_roots:I!",
     1, 1, 1, import_convert_tree_ensemble},
};

const import_table import_table_ml = {rows, sizeof rows / sizeof *rows};
