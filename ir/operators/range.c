/* SPDX-License-Identifier: Apache-2.0 */
/* range.c: implements range.h. */
#include "ir/operators/range.h"

/* Elements [first, first + extent) of `axis` are one range of the bytes of a value of this type: which? */
static bool range_of_axis(const op_type *type, int32_t axis, int64_t first, int64_t extent,
                          op_range *result) {
    size_t bytes;
    if (!op_type_bytes(type, &bytes) || axis < 0 || axis >= type->shape.rank) return false;
    int64_t whole = type->shape.dims[axis], block = 1;
    if (whole <= 0 || first < 0 || extent < 0 || extent > whole - first) return false;
    if (first == 0 && extent == whole) {
        *result = (op_range){0, bytes};
        return true;
    }
    switch (type->layout) {
    case OP_LAYOUT_ROW_MAJOR:
        for (int32_t d = 0; d < axis; d++) {
            if (type->shape.dims[d] != 1) return false;
        }
        break;
    case OP_LAYOUT_NC8:
    case OP_LAYOUT_NC16:
        block = op_layout_block(type->layout);
        if (axis > 1 || (axis == 1 && type->shape.dims[0] != 1)) return false;
        if (axis == 1 && (whole % block || first % block || extent % block)) return false;
        break;
    case OP_LAYOUT_NHWC: /* rows of one image lie one after another */
        if (axis != 0 && (axis != 2 || type->shape.dims[0] != 1)) return false;
        break;
    default:
        return false;
    }
    size_t unit = bytes / (size_t)whole; /* exact: the outermost axis is a factor of the bytes */
    *result = (op_range){(size_t)first * unit, (size_t)extent * unit};
    return true;
}

bool op_same_form(const op_type *a, const op_type *b) {
    return op_shape_equal(&a->shape, &b->shape) && a->layout == b->layout &&
           op_dtype_bits(a->dtype) == op_dtype_bits(b->dtype);
}

bool op_same_bytes(const op_type *a, const op_type *b) {
    size_t x, y;
    if (a->dtype != b->dtype || !op_type_bytes(a, &x) || !op_type_bytes(b, &y) || x != y) return false;
    if (a->layout == b->layout)
        return a->layout == OP_LAYOUT_ROW_MAJOR || op_shape_equal(&a->shape, &b->shape);
    /* Blocked channels over a single point, or a single block of... channels alone, are row-major. */
    const op_type *blocked = a->layout == OP_LAYOUT_ROW_MAJOR ? b : a, *dense = blocked == a ? b : a;
    if (dense->layout != OP_LAYOUT_ROW_MAJOR || blocked->layout == OP_LAYOUT_PACKED) return false;
    const op_shape *shape = &blocked->shape;
    if (shape->rank < 2 || shape->dims[1] % op_layout_block(blocked->layout)) return false;
    for (int32_t d = 2; d < shape->rank; d++) {
        if (shape->dims[d] != 1) return false;
    }
    return true;
}

/* An integer of an input of rank <= 1, `otherwise` where it is absent; false where it is not known. */
static bool known_integer(const op_call *call, uint32_t input, int64_t index, int64_t otherwise,
                          int64_t *value) {
    *value = otherwise;
    return !op_input_present(call, input) || op_input_integer(call, input, index, value);
}

bool op_slice_cut(const op_call *call, int32_t *cut, int64_t *first) {
    const op_shape *from = &call->inputs[0].type.shape, *to = &call->outputs[0].type.shape;
    *cut = -1;
    *first = 0;
    if (!op_shape_known(from) || !op_shape_known(to) || !op_input_present(call, 1) ||
        call->inputs[1].type.shape.rank != 1)
        return false;
    for (int64_t i = 0; i < call->inputs[1].type.shape.dims[0]; i++) {
        int64_t start, axis, step;
        int32_t normal;
        if (!known_integer(call, 1, i, 0, &start) || !known_integer(call, 3, i, i, &axis) ||
            !known_integer(call, 4, i, 1, &step) || !op_axis(axis, from->rank, &normal))
            return false;
        if (from->dims[normal] == to->dims[normal] && step == 1) continue;
        if (step != 1 || *cut >= 0) return false;
        *cut = normal;
        *first = start < 0 ? start + from->dims[normal] : start;
        if (*first < 0) *first = 0;
        if (*first > from->dims[normal]) *first = from->dims[normal];
    }
    return true;
}

bool op_range_of_slice(const op_call *call, op_range *result) {
    const op_type *from = &call->inputs[0].type, *to = &call->outputs[0].type;
    int32_t cut;
    int64_t first;
    if (from->layout != to->layout || !op_slice_cut(call, &cut, &first)) return false;
    if (cut < 0) return op_same_bytes(from, to) && range_of_axis(from, 0, 0, from->shape.dims[0], result);
    return range_of_axis(from, cut, first, to->shape.dims[cut], result);
}

bool op_ranges_of_parts(const op_call *call, op_range *ranges) {
    const bool split = call->code == OP_SPLIT;
    const op_tensor *parts = split ? call->outputs : call->inputs;
    const uint32_t count = split ? call->output_count : call->input_count;
    const op_type *whole = split ? &call->inputs[0].type : &call->outputs[0].type;
    int32_t axis;
    int64_t first = 0;
    if (whole->shape.rank < 0 ||
        !op_axis(op_attribute_integer(&call->attributes, "axis", 0), whole->shape.rank, &axis))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const op_type *type = &parts[i].type;
        size_t bytes;
        if (type->dtype != whole->dtype || type->layout != whole->layout ||
            type->shape.rank != whole->shape.rank ||
            !range_of_axis(whole, axis, first, type->shape.dims[axis], &ranges[i]) ||
            !op_type_bytes(type, &bytes) || bytes != ranges[i].bytes)
            return false;
        first += type->shape.dims[axis];
    }
    return true;
}
