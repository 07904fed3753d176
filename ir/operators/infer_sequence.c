/* SPDX-License-Identifier: Apache-2.0 */
/* infer_sequence.c: types of operators on sequences, optionals and maps. How many elements there are is known only
 * when they run (runtime/sequence.c); of an element's shape, what all of them share. */
#include "ir/operators/infer.h"

#include <inttypes.h>

/* What holds of two shapes. */
static void join_shape(op_shape *joined, const op_shape *other) {
    if (joined->rank != other->rank) {
        *joined = (op_shape){.rank = -1};
        return;
    }
    for (int32_t d = 0; d < joined->rank; d++) {
        if (joined->dims[d] != other->dims[d]) joined->dims[d] = OP_DIM_UNKNOWN;
    }
}

static base_status check_kind(const op_call *call, uint32_t input, op_kind kind, base_report *report) {
    static const char *const names[] = {"a tensor", "a sequence", "an optional", "a map"};
    const op_type *type = &call->inputs[input].type;
    if (type->kind == kind) return BASE_OK;
    return base_fail(report, BASE_INVALID, "input %u is %s, expected %s", input, names[type->kind & 3],
                     names[kind]);
}

/* A position in a sequence: one integer. */
static base_status check_position(const op_call *call, uint32_t input, base_report *report) {
    if (!op_input_present(call, input)) return BASE_OK;
    base_status status = op_check_input(call, input, OP_SET_INDICES, report);
    return status == BASE_OK ? op_check_elements(call, input, 1, report) : status;
}

static void set_sequence(op_call *call, op_dtype dtype, const op_shape *shape) {
    op_output_set(call, 0, dtype, shape);
    call->outputs[0].type.kind = OP_KIND_SEQUENCE;
}

base_status op_infer_sequence_empty(op_call *call, base_report *report) {
    int64_t dtype = op_attribute_integer(&call->attributes, "dtype", OP_FLOAT);
    if (dtype <= OP_NONE || dtype >= OP_DTYPE_COUNT) {
        return base_fail(report, BASE_INVALID,
                         "attribute \"dtype\" is %" PRId64 ", expected an element type from 1 to %d", dtype,
                         OP_DTYPE_COUNT - 1);
    }
    set_sequence(call, (op_dtype)dtype, NULL);
    return BASE_OK;
}

base_status op_infer_sequence_construct(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_ANY, report);
    op_shape shape = call->inputs[0].type.shape;
    for (uint32_t i = 1; i < call->input_count && status == BASE_OK; i++) {
        status = op_check_same(call, i, 0, report);
        join_shape(&shape, &call->inputs[i].type.shape);
    }
    if (status == BASE_OK) set_sequence(call, call->inputs[0].type.dtype, &shape);
    return status;
}

base_status op_infer_sequence_insert(op_call *call, base_report *report) {
    base_status status = check_kind(call, 0, OP_KIND_SEQUENCE, report);
    if (status == BASE_OK) status = op_check_same(call, 1, 0, report);
    if (status == BASE_OK) status = check_position(call, 2, report);
    if (status != BASE_OK) return status;
    op_shape shape = call->inputs[0].type.shape;
    join_shape(&shape, &call->inputs[1].type.shape);
    set_sequence(call, call->inputs[0].type.dtype, &shape);
    return BASE_OK;
}

base_status op_infer_sequence_erase(op_call *call, base_report *report) {
    base_status status = check_kind(call, 0, OP_KIND_SEQUENCE, report);
    if (status == BASE_OK) status = check_position(call, 1, report);
    if (status == BASE_OK) set_sequence(call, call->inputs[0].type.dtype, &call->inputs[0].type.shape);
    return status;
}

base_status op_infer_sequence_at(op_call *call, base_report *report) {
    base_status status = check_kind(call, 0, OP_KIND_SEQUENCE, report);
    if (status == BASE_OK) status = check_position(call, 1, report);
    if (status == BASE_OK) op_output_set(call, 0, call->inputs[0].type.dtype, &call->inputs[0].type.shape);
    return status;
}

base_status op_infer_sequence_length(op_call *call, base_report *report) {
    static const op_shape scalar = {.rank = 0};
    base_status status = check_kind(call, 0, OP_KIND_SEQUENCE, report);
    if (status == BASE_OK) op_output_set(call, 0, OP_INT64, &scalar);
    return status;
}

/* The extent of every part, where all have the same. */
static int64_t part_extent(const op_call *call, int64_t extent) {
    const op_shape *shape = &call->inputs[1].type.shape;
    int64_t count, first, value;
    if (!op_shape_elements(shape, &count) || count == 0 || !op_input_integer(call, 1, 0, &first))
        return OP_DIM_UNKNOWN;
    if (shape->rank == 0) return first > 0 && extent >= 0 && extent % first == 0 ? first : OP_DIM_UNKNOWN;
    for (int64_t i = 1; i < count; i++) {
        if (!op_input_integer(call, 1, i, &value) || value != first) return OP_DIM_UNKNOWN;
    }
    return first < 0 ? OP_DIM_UNKNOWN : first;
}

base_status op_infer_split_to_sequence(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_ANY, report);
    bool given = op_input_present(call, 1);
    if (status == BASE_OK && given) status = op_check_input(call, 1, OP_SET_INDICES, report);
    if (status == BASE_OK && given) status = op_check_vector(call, 1, true, report);
    if (status != BASE_OK) return status;
    const op_type *type = &call->inputs[0].type;
    op_shape shape = type->shape;
    int32_t axis;
    if (shape.rank >= 0) {
        status = op_attribute_axis(call, 0, shape.rank, &axis, report);
        if (status != BASE_OK) return status;
        if (given) {
            shape.dims[axis] = part_extent(call, shape.dims[axis]);
        } else if (op_attribute_integer(&call->attributes, "keepdims", 1) != 0) {
            shape.dims[axis] = 1;
        } else {
            shape.rank--;
            for (int32_t d = axis; d < shape.rank; d++) shape.dims[d] = shape.dims[d + 1];
        }
    }
    set_sequence(call, type->dtype, &shape);
    return BASE_OK;
}

base_status op_infer_concat_from_sequence(op_call *call, base_report *report) {
    base_status status = check_kind(call, 0, OP_KIND_SEQUENCE, report);
    if (status != BASE_OK) return status;
    const op_type *type = &call->inputs[0].type;
    bool added = op_attribute_integer(&call->attributes, "new_axis", 0) != 0;
    op_shape shape = type->shape;
    int32_t axis;
    if (!op_attribute_find(&call->attributes, "axis"))
        return base_fail(report, BASE_INVALID, "attribute \"axis\" is missing");
    if (shape.rank >= 0) {
        int32_t rank = shape.rank + added;
        if (rank > OP_MAX_RANK)
            return base_fail(report, BASE_INVALID, "the result would have rank %d, expected at most %d", rank,
                             OP_MAX_RANK);
        status = op_attribute_axis(call, 0, rank, &axis, report);
        if (status != BASE_OK) return status;
        for (int32_t d = rank - 1; d > axis && added; d--) shape.dims[d] = shape.dims[d - 1];
        shape.rank = rank;
        /* The elements' extents along other axes agree, or it cannot run: none is lost. */
        shape.dims[axis] = OP_DIM_UNKNOWN;
    }
    op_output_set(call, 0, type->dtype, &shape);
    return BASE_OK;
}

/* ---- optionals ----------------------------------------------------------------------------------------- */

base_status op_infer_optional(op_call *call, base_report *report) {
    const op_attribute *attribute = op_attribute_find(&call->attributes, "type");
    op_type type = {.shape.rank = -1};
    if (op_input_present(call, 0)) {
        type = call->inputs[0].type;
    } else if (attribute && attribute->kind == OP_ATTRIBUTE_TYPE) {
        type = *attribute->as.type;
    } else {
        return base_fail(report, BASE_INVALID,
                         "neither an input nor attribute \"type\" is given, one is expected");
    }
    if (type.kind != OP_KIND_TENSOR && type.kind != OP_KIND_SEQUENCE) {
        char text[256];
        return base_fail(report, BASE_INVALID, "it would hold %s, expected a tensor or a sequence",
                         op_type_print(&type, text, sizeof text));
    }
    call->outputs[0].type =
        (op_type){.kind = OP_KIND_OPTIONAL, .element = type.kind, .dtype = type.dtype, .shape = type.shape};
    call->outputs[0].symbolic = NULL;
    return BASE_OK;
}

base_status op_infer_optional_has_element(op_call *call, base_report *report) {
    static const op_shape scalar = {.rank = 0};
    base_status status = check_kind(call, 0, OP_KIND_OPTIONAL, report);
    if (status == BASE_OK) op_output_set(call, 0, OP_BOOL, &scalar);
    return status;
}

base_status op_infer_optional_get_element(op_call *call, base_report *report) {
    base_status status = check_kind(call, 0, OP_KIND_OPTIONAL, report);
    if (status != BASE_OK) return status;
    const op_type *type = &call->inputs[0].type;
    op_output_set(call, 0, type->dtype, &type->shape);
    call->outputs[0].type.kind = type->element;
    return BASE_OK;
}

/* ---- maps ---------------------------------------------------------------------------------------------- */

/* Rows of numbers, a matrix or one vector, and the key of each column: a sequence of maps. */
base_status op_infer_zip_map(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET(OP_FLOAT), report);
    if (status == BASE_OK) status = op_check_input(call, 1, OP_SET(OP_INT64) | OP_SET(OP_STRING), report);
    if (status == BASE_OK) status = op_check_vector(call, 1, false, report);
    if (status != BASE_OK) return status;
    const op_shape *rows = &call->inputs[0].type.shape, *keys = &call->inputs[1].type.shape;
    const int64_t columns = rows->rank > 0 ? rows->dims[rows->rank - 1] : OP_DIM_UNKNOWN,
                  count = keys->rank == 1 ? keys->dims[0] : OP_DIM_UNKNOWN;
    if (rows->rank == 0 || rows->rank > 2)
        return base_fail(report, BASE_INVALID, "input 0 has rank %d, expected 1 or 2", rows->rank);
    if (columns >= 0 && count >= 0 && columns != count) {
        return base_fail(report, BASE_INVALID, "input 0 has %" PRId64 " columns for %" PRId64 " keys",
                         columns, count);
    }
    set_sequence(call, OP_FLOAT, NULL);
    call->outputs[0].type.element = OP_KIND_MAP;
    return BASE_OK;
}

/* The keys of a map, of the type that the attribute names, and its values, as vectors. */
base_status op_infer_map_parts(op_call *call, base_report *report) {
    static const op_shape vector = {.rank = 1, .dims = {OP_DIM_UNKNOWN}};
    const int64_t keys = op_attribute_integer(&call->attributes, "keys", OP_INT64);
    base_status status = check_kind(call, 0, OP_KIND_MAP, report);
    if (status != BASE_OK) return status;
    if (keys != OP_INT64 && keys != OP_STRING)
        return base_fail(report, BASE_INVALID, "attribute \"keys\" is %" PRId64 ", expected %d or %d", keys,
                         OP_INT64, OP_STRING);
    op_output_set(call, 0, (op_dtype)keys, &vector);
    op_output_set(call, 1, call->inputs[0].type.dtype, &vector);
    return BASE_OK;
}
