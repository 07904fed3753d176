/* SPDX-License-Identifier: Apache-2.0 */
/* type.c: types of values as files describe them; symbolic dimensions. */
#include "compiler/onnx/base/importer.h"

#include <string.h>

/* A symbolic dimension that the model names. */
typedef struct import_symbol {
    int64_t dim; /* its extent where it is bound, else its symbol */
} import_symbol;

/* The dimension that a dim_param means: a number where the caller bound it, otherwise a symbol of the module.
 */
static base_status symbol_dim(import_state *importer, const char *name, int64_t *dim) {
    import_symbol *known = base_map_get(&importer->symbols, name);
    if (!known) {
        if (importer->symbols.count >= IMPORT_SYMBOLS) {
            return base_fail(importer->report, BASE_INVALID, "more than %d symbolic dimensions",
                             IMPORT_SYMBOLS);
        }
        known = BASE_NEW(&importer->arena, import_symbol);
        if (!known) return base_fail_memory(importer->report);
        known->dim = OP_DIM_UNKNOWN;
        for (size_t i = 0; i < importer->dim_count; i++) {
            if (strcmp(importer->dims[i].name, name) != 0) continue;
            known->dim = importer->dims[i].extent;
            importer->dim_used[i] = true;
        }
        if (known->dim == OP_DIM_UNKNOWN) known->dim = ir_symbol_named(importer->module, name);
        if (known->dim == OP_DIM_UNKNOWN || !base_map_put(&importer->symbols, name, known)) {
            return base_fail_memory(importer->report);
        }
    }
    *dim = known->dim;
    return BASE_OK;
}

static base_status read_shape(import_state *importer, const char *name, const Onnx__TensorShapeProto *proto,
                              bool symbols, op_shape *shape) {
    shape->rank = -1;
    if (!proto) return BASE_OK;
    if (proto->n_dim > OP_MAX_RANK) {
        return base_fail(importer->report, BASE_INVALID,
                         "value " IMPORT_NAME ": %zu dimensions, at most %d are supported", name,
                         proto->n_dim, OP_MAX_RANK);
    }
    shape->rank = (int32_t)proto->n_dim;
    int64_t known = 1;
    for (size_t i = 0; i < proto->n_dim; i++) {
        const Onnx__TensorShapeProto__Dimension *dim = proto->dim[i];
        int64_t *extent = &shape->dims[i];
        *extent = OP_DIM_UNKNOWN;
        if (dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE) {
            /* Some exporters write -1, or another negative number, for what they leave open. */
            if (dim->dim_value >= 0) *extent = dim->dim_value;
        } else if (dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM && symbols &&
                   dim->dim_param && dim->dim_param[0]) {
            base_status status = symbol_dim(importer, dim->dim_param, extent);
            if (status != BASE_OK) return status;
        }
        if (*extent > 0 && !base_int64_multiply(known, *extent, &known)) {
            return base_fail(importer->report, BASE_INVALID,
                             "value " IMPORT_NAME ": its shape has more elements than can be counted", name);
        }
    }
    return BASE_OK;
}

base_status import_name_extents(import_state *importer, ir_value *input) {
    op_type *type = &input->type;
    for (int32_t d = 0; type->kind == OP_KIND_TENSOR && d < type->shape.rank; d++) {
        if (type->shape.dims[d] != OP_DIM_UNKNOWN) continue;
        const char *name = base_arena_format(&importer->arena, "%s.%d", input->name, d);
        if (!name) return base_fail_memory(importer->report);
        /* A name that the model gives to another extent is not taken. */
        if (base_map_get(&importer->module->symbol_names, name)) continue;
        if (importer->module->symbol_count > IMPORT_SYMBOLS) return BASE_OK;
        const int64_t symbol = ir_symbol_named(importer->module, name);
        if (symbol == OP_DIM_UNKNOWN) return base_fail_memory(importer->report);
        importer->module->symbols[-symbol].unnamed = true;
        type->shape.dims[d] = symbol;
    }
    return BASE_OK;
}

base_status import_type(import_state *importer, const Onnx__ValueInfoProto *info, bool symbols,
                        op_type *type) {
    const char *name = info->name ? info->name : "";
    const Onnx__TypeProto *proto = info->type;
    *type = (op_type){.shape.rank = -1};
    /* Optional(Sequence(Tensor)) and Sequence(Map) are the deepest types that there is a description for. */
    for (unsigned level = 0; proto && proto->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE; level++) {
        op_kind kind = OP_KIND_TENSOR;
        const Onnx__TypeProto *element = NULL;
        if (proto->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE && proto->sequence_type) {
            kind = OP_KIND_SEQUENCE;
            element = proto->sequence_type->elem_type;
        } else if (proto->value_case == ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE && proto->optional_type) {
            kind = OP_KIND_OPTIONAL;
            element = proto->optional_type->elem_type;
        } else if (proto->value_case == ONNX__TYPE_PROTO__VALUE_MAP_TYPE && proto->map_type) {
            kind = OP_KIND_MAP; /* of which keys: the operators on it tell */
            element = proto->map_type->value_type;
        } else if (proto->value_case == ONNX__TYPE_PROTO__VALUE__NOT_SET) {
            return BASE_OK;
        } else {
            return base_fail_unsupported(importer->report,
                                         "value " IMPORT_NAME ": sparse tensors are not supported", name);
        }
        if (level == 0) {
            type->kind = kind;
        } else if (level == 1 && ((type->kind == OP_KIND_OPTIONAL && kind == OP_KIND_SEQUENCE) ||
                                  (type->kind == OP_KIND_SEQUENCE && kind == OP_KIND_MAP))) {
            type->element = kind;
        } else {
            return base_fail_unsupported(
                importer->report, "value " IMPORT_NAME ": types within types of this kind are not supported",
                name);
        }
        proto = element;
    }
    if (!proto || !proto->tensor_type) return BASE_OK;
    int32_t number = proto->tensor_type->elem_type;
    type->dtype = import_dtype(number);
    if (number != 0 && type->dtype == OP_NONE) {
        return base_fail(importer->report, BASE_INVALID,
                         "value " IMPORT_NAME ": data type %d does not exist, 1 to %d do", name, (int)number,
                         OP_DTYPE_COUNT - 1);
    }
    /* Elements of one sequence may differ in shape, whatever files declare. */
    if (type->kind == OP_KIND_SEQUENCE || type->kind == OP_KIND_MAP || type->element == OP_KIND_SEQUENCE)
        return BASE_OK;
    return read_shape(importer, name, proto->tensor_type->shape, symbols && type->kind == OP_KIND_TENSOR,
                      &type->shape);
}
