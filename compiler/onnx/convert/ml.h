/* SPDX-License-Identifier: Apache-2.0 */
/* ml.h: the converters of the domain ai.onnx.ml, whose table is in ml.c, and what they share. */
#ifndef OURO_IMPORT_ML_H
#define OURO_IMPORT_ML_H

#include "compiler/onnx/convert/expression.h"

/* ---- ml_scores.c ---- */

/* Attribute post_transform applied to scores along their last axis; an error where it is unknown. A single score is left as it is,
 * but for PROBIT: so does ONNX Runtime, whose results exporters are tested with. */
base_status import_ml_transformed(const import_node *n, ir_value **scores);
base_status import_ml_transformed_as(const import_node *n, const char *name, ir_value **scores);
/* How the score of one class of two becomes those of both: as 1 - s and s, or as -s and s, of which LOGISTIC takes the logistic
 * function; no other transform does anything. Linear models, and trees whose weights are all positive: as 1 - s and s, but with LOGISTIC as the
 * others. */
typedef enum ml_pair { ML_PAIR_COMPLEMENT, ML_PAIR_NEGATED, ML_PAIR_LINEAR } ml_pair;
base_status import_ml_paired(const import_node *n, ml_pair kind, ir_value **scores);
/* The labels of a classifier, of attributes `integers` or `texts`, as a constant; *count of them. NULL with BASE_OK: there are none. */
base_status import_ml_labels(const import_node *n, const char *integers, const char *texts, ir_value **labels,
                             size_t *count);
/* A constant of the numbers or texts of an attribute; NULL where memory runs out or the attribute is absent. */
ir_value *import_ml_reals(const import_node *n, const char *name);
ir_value *import_ml_integers(const import_node *n, const char *name);
ir_value *import_ml_texts(const import_node *n, size_t count, const op_string *texts);
/* Input 0 as a matrix of float: a vector is one row. */
base_status import_ml_matrix(const import_node *n, ir_value **x);
/* Outputs 0, the labels at `index` (int64), and 1, the scores. */
base_status import_ml_finish_classifier(import_node *n, ir_value *labels, ir_value *index, ir_value *scores);

/* ---- ml_trees.c ---- */
base_status import_convert_tree_regressor(import_node *n);
base_status import_convert_tree_classifier(import_node *n);
base_status import_convert_tree_ensemble(import_node *n);

/* ---- ml_vectors.c ---- */
base_status import_convert_svm_regressor(import_node *n);
base_status import_convert_svm_classifier(import_node *n);

/* ---- ml_maps.c ---- */
base_status import_convert_zip_map(import_node *n);
base_status import_convert_dict_vectorizer(import_node *n);
base_status import_convert_cast_map(import_node *n);

#endif
