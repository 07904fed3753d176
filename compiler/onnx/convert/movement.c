/* SPDX-License-Identifier: Apache-2.0 */
/* movement.c: older forms of operators that move data: attributes that became inputs. */
#include "compiler/onnx/convert/convert.h"
#include "compiler/onnx/convert/expression.h"

#include <stdio.h>
#include <string.h>

static const op_attributes NONE = {0};

/* Slice-1: starts, ends and axes are attributes. */
base_status import_convert_slice(import_node *n) {
    size_t starts, ends, axes;
    const int64_t *start = import_integers(n, "starts", &starts), *end = import_integers(n, "ends", &ends);
    const int64_t *axis = import_integers(n, "axes", &axes);
    if (starts != ends || (import_attribute(n, "axes") && axes != starts)) {
        return base_fail(n->importer->report, BASE_INVALID,
                         "%zu starts, %zu ends and %zu axes: their numbers must agree", starts, ends, axes);
    }
    ir_value *inputs[4] = {n->inputs[0]};
    inputs[1] = import_constant_integers(n, starts, start);
    inputs[2] = import_constant_integers(n, ends, end);
    if (axis) inputs[3] = import_constant_integers(n, axes, axis);
    if (!inputs[1] || !inputs[2] || (axis && !inputs[3])) return import_memory(n);
    return import_finish(n, OP_SLICE, NONE, axis ? 4 : 3, inputs);
}

/* Split-1 and -2: the extents are an attribute (in the first version perhaps an input). */
base_status import_convert_split(import_node *n) {
    op_attributes attributes;
    base_status status = import_attributes(n, n->code, &attributes);
    if (status != BASE_OK) return status;
    size_t count;
    const int64_t *extents = import_integers(n, "split", &count);
    ir_value *inputs[2] = {n->inputs[0], n->input_count > 1 ? n->inputs[1] : NULL};
    /* As an input they have the type of what is split, which is a float. */
    if (inputs[1] && !(inputs[1] = expr_cast(n, inputs[1], OP_INT64))) return import_memory(n);
    if (!inputs[1] && count > 0) {
        inputs[1] = import_constant_integers(n, count, extents);
        if (!inputs[1]) return import_memory(n);
    }
    return import_finish(n, OP_SPLIT, attributes, inputs[1] ? 2 : 1, inputs);
}

/* Pad-1 and -2: the widths and the value are attributes. */
base_status import_convert_pad(import_node *n) {
    op_attributes attributes;
    base_status status = import_attributes(n, n->code, &attributes);
    if (status != BASE_OK) return status;
    size_t count;
    const int64_t *pads = import_integers(n, import_attribute(n, "pads") ? "pads" : "paddings", &count);
    float value = import_real(n, "value", 0);
    op_dtype dtype = import_dtype_of(n->inputs[0]);
    ir_value *inputs[3] = {n->inputs[0], import_constant_integers(n, count, pads)};
    if (value != 0) inputs[2] = import_constant_real(n, dtype == OP_NONE ? OP_FLOAT : dtype, value);
    if (!inputs[1] || (value != 0 && !inputs[2])) return import_memory(n);
    return import_finish(n, OP_PAD, attributes, inputs[2] ? 3 : 2, inputs);
}

/* Reshape-1: the shape is an attribute. */
base_status import_convert_reshape(import_node *n) {
    size_t count;
    const int64_t *shape = import_integers(n, "shape", &count);
    ir_value *inputs[] = {n->inputs[0], import_constant_integers(n, count, shape)};
    return inputs[1] ? import_finish(n, OP_RESHAPE, NONE, 2, inputs) : import_memory(n);
}

/* Concat-1: the axis is 1 where none is given. */
base_status import_convert_concat(import_node *n) {
    op_attributes attributes = NONE;
    if (!import_attributes_add_integer(n, &attributes, "axis", import_integer(n, "axis", 1)))
        return import_memory(n);
    return import_finish(n, OP_CONCAT, attributes, n->input_count, n->inputs);
}

/* The number in a constant of one element, whatever its numeric type is among those that Tile-1 allows. */
static bool constant_number(const ir_value *value, int64_t *number) {
    if (!value->constant || value->constant->tensor.bytes != op_dtype_bytes(value->type.dtype)) return false;
    const void *data = value->constant->tensor.data;
    switch (value->type.dtype) {
    case OP_FLOAT: {
        float real;
        memcpy(&real, data, sizeof real);
        if (!(real >= -OP_MAX_RANK && real < OP_MAX_RANK)) return false;
        *number = (int64_t)real;
        return true;
    }
    case OP_DOUBLE: {
        double real;
        memcpy(&real, data, sizeof real);
        if (!(real >= -OP_MAX_RANK && real < OP_MAX_RANK)) return false;
        *number = (int64_t)real;
        return true;
    }
    case OP_INT64:
        memcpy(number, data, sizeof *number);
        return true;
    case OP_INT32: {
        int32_t narrow;
        memcpy(&narrow, data, sizeof narrow);
        *number = narrow;
        return true;
    }
    default:
        return false;
    }
}

/* Tile-1: one axis and how often: the repeats of today are 1 elsewhere. Both come in the type of the input.
 */
base_status import_convert_tile(import_node *n) {
    int32_t rank = import_rank_of(n->inputs[0]), axis;
    int64_t given;
    if (rank < 0 || !constant_number(n->inputs[2], &given)) {
        return base_fail_unsupported(n->importer->report, "needs a constant axis and an input of known rank");
    }
    if (!op_axis(given, rank, &axis)) {
        return base_fail(n->importer->report, BASE_INVALID, "axis %lld, the input has rank %d",
                         (long long)given, rank);
    }
    int64_t ones[OP_MAX_RANK], one = 1;
    for (int i = 0; i < OP_MAX_RANK; i++) ones[i] = 1;
    op_attributes to = NONE, concat = NONE;
    ir_value *tiles[] = {n->inputs[1], import_constant_integers(n, 1, &one)};
    if (!tiles[1] || !import_attributes_add_integer(n, &to, "to", OP_INT64) ||
        !import_attributes_add_integer(n, &concat, "axis", 0)) {
        return import_memory(n);
    }
    tiles[0] = import_make(n, OP_CAST, to, 1, tiles);
    ir_value *parts[3];
    parts[0] = import_constant_integers(n, (size_t)axis, ones);
    parts[1] = tiles[0] ? import_make(n, OP_RESHAPE, NONE, 2, tiles) : NULL;
    parts[2] = import_constant_integers(n, (size_t)(rank - axis - 1), ones);
    if (!parts[0] || !parts[1] || !parts[2]) return import_memory(n);
    ir_value *inputs[] = {n->inputs[0], import_make(n, OP_CONCAT, concat, 3, parts)};
    return inputs[1] ? import_finish(n, OP_TILE, NONE, 2, inputs) : import_memory(n);
}

/* Scatter was the name of ScatterElements. */
base_status import_convert_scatter(import_node *n) {
    op_attributes attributes = NONE;
    if (!import_attributes_add_integer(n, &attributes, "axis", import_integer(n, "axis", 0)))
        return import_memory(n);
    return import_finish(n, OP_SCATTER_ELEMENTS, attributes, 3, n->inputs);
}

/* TopK-1: k is an attribute. */
base_status import_convert_top_k(import_node *n) {
    op_attributes attributes = NONE;
    int64_t k = import_integer(n, "k", 0);
    ir_value *inputs[2] = {n->inputs[0], import_constant_integers(n, 1, &k)};
    if (!inputs[1] || !import_attributes_add_integer(n, &attributes, "axis", import_integer(n, "axis", -1)))
        return import_memory(n);
    return import_finish(n, OP_TOP_K, attributes, 2, inputs);
}

/* Along each axis, what is too much is cut, what lacks is added, both in the middle: half of it, rounded down, before. */
base_status import_convert_center_crop_pad(import_node *n) {
    ir_value *x = n->inputs[0];
    const int32_t rank = import_rank_of(x);
    if (rank < 0) return base_fail_unsupported(n->importer->report, "needs an input of known rank");
    size_t count;
    const int64_t *given = import_integers(n, "axes", &count), zero = 0, two = 2;
    int64_t all[OP_MAX_RANK];
    for (int32_t i = 0; i < rank; i++) all[i] = i;
    if (!given) count = (size_t)rank;
    const op_shape *extents = &n->inputs[1]->type.shape;
    if (extents->rank == 1 && extents->dims[0] >= 0 && (uint64_t)extents->dims[0] != count)
        return base_fail(n->importer->report, BASE_INVALID,
                         "input 1 has %lld elements, expected one for each of %zu axes",
                         (long long)extents->dims[0], count);
    ir_value *axes = import_constant_integers(n, count, given ? given : all);
    ir_value *nothing = import_constant_integers(n, 1, &zero), *half = import_constant_integers(n, 1, &two);
    ir_value *want = expr_cast(n, n->inputs[1], OP_INT64);
    ir_value *have = expr_binary(n, OP_GATHER, expr_unary(n, OP_SHAPE, x), axes);
    ir_value *start =
        expr_binary(n, OP_DIV, expr_binary(n, OP_MAX, expr_binary(n, OP_SUB, have, want), nothing), half);
    ir_value *end = expr_binary(n, OP_ADD, start, expr_binary(n, OP_MIN, have, want));
    ir_value *slice[] = {x, start, end, axes};
    if (!start || !end || !axes) return import_memory(n);
    ir_value *cut = import_make(n, OP_SLICE, (op_attributes){0}, 4, slice);
    ir_value *lack = expr_binary(n, OP_MAX, expr_binary(n, OP_SUB, want, have), nothing);
    ir_value *before = expr_binary(n, OP_DIV, lack, half), *after = expr_binary(n, OP_SUB, lack, before);
    ir_value *both[] = {before, after};
    ir_value *pads = before && after ? expr_with_integer(n, OP_CONCAT, "axis", 0, 2, both) : NULL;
    ir_value *inputs[] = {cut, pads, NULL, axes};
    if (!cut || !pads) return import_memory(n);
    return expr_finish(n, import_make(n, OP_PAD, (op_attributes){0}, 4, inputs));
}
