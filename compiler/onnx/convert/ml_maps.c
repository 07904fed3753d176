/* SPDX-License-Identifier: Apache-2.0 */
/* ml_maps.c: ZipMap, DictVectorizer and CastMap: maps from keys to numbers or texts. The executor makes maps and takes them apart;
 * what lies between is said in vectors of keys and values. */
#include "compiler/onnx/convert/ml.h"

#include <string.h>

static const op_attributes NONE = {0};

base_status import_convert_zip_map(import_node *n) {
    ir_value *keys, *x;
    size_t count;
    base_status status = import_ml_labels(n, "classlabels_int64s", "classlabels_strings", &keys, &count);
    if (status == BASE_OK) status = expr_need_dtype(n, n->inputs[0]);
    if (status == BASE_OK && !count) {
        status = base_fail(n->importer->report, BASE_INVALID,
                           "attributes \"classlabels_int64s\" and \"classlabels_strings\" are absent");
    }
    if (status != BASE_OK) return status;
    x = expr_cast(n, n->inputs[0], OP_FLOAT);
    ir_value *inputs[] = {x, keys};
    return x ? import_finish(n, OP_ZIP_MAP, NONE, 2, inputs) : import_memory(n);
}

/* The keys and the values of input 0. */
static base_status take_apart(const import_node *n, op_dtype keys, ir_value **parts) {
    op_attributes attributes = NONE;
    if (n->inputs[0]->type.kind != OP_KIND_MAP)
        return base_fail(n->importer->report, BASE_INVALID, "input 0 is no map");
    if (!import_attributes_add_integer(n, &attributes, "keys", keys)) return import_memory(n);
    ir_node *node = import_begin(n, OP_MAP_PARTS, attributes, 1, n->inputs);
    for (int i = 0; i < 2; i++) {
        parts[i] = node ? ir_node_add_output(node, NULL, NULL) : NULL;
        if (!parts[i]) return import_memory(n);
    }
    return import_infer(n->importer, node) ? BASE_OK : import_memory(n);
}

/* What takes the place of a value that is not there. */
static ir_value *nothing(const import_node *n, const ir_value *values) {
    const op_dtype dtype = import_dtype_of(values);
    const op_string empty = {"", 0};
    if (dtype == OP_STRING) return import_ml_texts(n, 1, &empty);
    return expr_axis(n, OP_UNSQUEEZE, import_constant_real(n, dtype, 0), 0);
}

/* The value of each of `wanted` keys, or nothing, as a row: the place of a key is the largest of those where it is found, and -1,
 * which is that of the nothing after the last value. */
static ir_value *looked_up(const import_node *n, ir_value *const *parts, ir_value *wanted) {
    static const int64_t last = 1;
    ir_value *count = import_make(n, OP_SIZE, NONE, 1, (ir_value *[]){parts[0]});
    ir_value *found = expr_axis(n, OP_UNSQUEEZE, wanted, 1);
    found = expr_binary(n, OP_EQUAL, found, expr_axis(n, OP_UNSQUEEZE, parts[0], 0));
    ir_value *places = expr_axis(n, OP_UNSQUEEZE, expr_steps(n, count, 1), 0);
    places = expr_select(n, found, places, import_constant_integer(n, -1));
    ir_value *none = expr_vector(n, -1), *target[2];
    target[0] = expr_unary(n, OP_SHAPE, wanted);
    target[1] = expr_vector(n, 1);
    ir_value *column = expr_with_integer(n, OP_CONCAT, "axis", 0, 2, target);
    ir_value *beside[] = {places, expr_binary(n, OP_EXPAND, none, column)};
    if (!beside[1]) return NULL;
    ir_value *place =
        expr_reduce(n, OP_REDUCE_MAX, expr_with_integer(n, OP_CONCAT, "axis", 1, 2, beside), 1, &last, false);
    ir_value *all[] = {parts[1], nothing(n, parts[1])};
    ir_value *gather[] = {all[1] ? expr_with_integer(n, OP_CONCAT, "axis", 0, 2, all) : NULL, place};
    if (!gather[0] || !gather[1]) return NULL;
    return expr_axis(n, OP_UNSQUEEZE, expr_with_integer(n, OP_GATHER, "axis", 0, 2, gather), 0);
}

base_status import_convert_dict_vectorizer(import_node *n) {
    ir_value *wanted, *parts[2];
    size_t count;
    base_status status = import_ml_labels(n, "int64_vocabulary", "string_vocabulary", &wanted, &count);
    if (status == BASE_OK && !count) {
        status = base_fail(n->importer->report, BASE_INVALID,
                           "attributes \"int64_vocabulary\" and \"string_vocabulary\" are absent");
    }
    if (status == BASE_OK) status = take_apart(n, import_dtype_of(wanted), parts);
    return status == BASE_OK ? expr_finish(n, looked_up(n, parts, wanted)) : status;
}

/* The values in the order of their keys. */
static ir_value *sorted(const import_node *n, ir_value *const *parts) {
    static const int64_t all = -1;
    op_attributes attributes = NONE;
    ir_value *inputs[] = {
        parts[0], expr_reshape(n, import_make(n, OP_SIZE, NONE, 1, (ir_value *[]){parts[0]}), 1, &all)};
    if (!inputs[1] || !import_attributes_add_integer(n, &attributes, "largest", 0)) return NULL;
    ir_node *node = import_begin(n, OP_TOP_K, attributes, 2, inputs);
    ir_value *keys = node ? ir_node_add_output(node, NULL, NULL) : NULL,
             *order = keys ? ir_node_add_output(node, NULL, NULL) : NULL;
    if (!order || !import_infer(n->importer, node)) return NULL;
    ir_value *gather[] = {parts[1], order};
    return expr_axis(n, OP_UNSQUEEZE, expr_with_integer(n, OP_GATHER, "axis", 0, 2, gather), 0);
}

base_status import_convert_cast_map(import_node *n) {
    const op_dtype to = import_text_is(n, "cast_to", "TO_FLOAT", "TO_FLOAT")    ? OP_FLOAT
                        : import_text_is(n, "cast_to", "TO_STRING", "TO_FLOAT") ? OP_STRING
                        : import_text_is(n, "cast_to", "TO_INT64", "TO_FLOAT")  ? OP_INT64
                                                                              : OP_NONE;
    const bool sparse = import_text_is(n, "map_form", "SPARSE", "DENSE");
    const int64_t most = import_integer(n, "max_map", 1);
    ir_value *parts[2], *row;
    if (to == OP_NONE || (!sparse && !import_text_is(n, "map_form", "DENSE", "DENSE"))) {
        return base_fail(
            n->importer->report, BASE_INVALID,
            "attribute \"cast_to\" or \"map_form\" is unknown, expected TO_FLOAT, TO_STRING or TO_INT64, "
            "and DENSE or SPARSE");
    }
    if (sparse && (most < 1 || most > INT32_MAX))
        return base_fail(n->importer->report, BASE_INVALID,
                         "attribute \"max_map\" is %lld, expected 1 or more", (long long)most);
    base_status status = take_apart(n, OP_INT64, parts);
    if (status != BASE_OK) return status;
    if (sparse) {
        /* What is not there is 0 in the result's type. */
        parts[1] = expr_cast(n, parts[1], to);
        if (!parts[1]) return import_memory(n);
        row = looked_up(n, parts, expr_steps(n, import_constant_integer(n, most), 1));
    } else {
        row = sorted(n, parts);
        row = row ? expr_cast(n, row, to) : NULL;
    }
    return expr_finish(n, row);
}
