/* SPDX-License-Identifier: Apache-2.0 */
/* range.c: implements range.h. */
#include "passes/base/range.h"

bool pass_range_of_axis(const op_type *type, int32_t axis, int64_t first, int64_t extent,
                        pass_range *result) {
    size_t bytes;
    if (!op_type_bytes(type, &bytes) || axis < 0 || axis >= type->shape.rank) return false;
    int64_t whole = type->shape.dims[axis], block = 1;
    if (whole <= 0 || first < 0 || extent < 0 || extent > whole - first) return false;
    if (first == 0 && extent == whole) {
        *result = (pass_range){0, bytes};
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
    *result = (pass_range){(size_t)first * unit, (size_t)extent * unit};
    return true;
}

bool pass_same_bytes(const op_type *a, const op_type *b) {
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

/* An integer of a constant input of rank <= 1; false where it is not known. */
static bool constant_integer(const ir_node *node, uint32_t input, int64_t index, int64_t otherwise,
                             int64_t *value) {
    const ir_value *from = ir_input(node, input);
    *value = otherwise;
    if (!from) return true;
    op_tensor tensor = from->constant ? from->constant->tensor : (op_tensor){0};
    op_call call = {.input_count = 1, .inputs = &tensor};
    return from->constant && op_input_integer(&call, 0, index, value);
}

bool pass_slice_cut(const ir_node *node, int32_t *cut, int64_t *first) {
    const op_type *from = &ir_input(node, 0)->type, *to = &node->outputs[0]->type;
    const ir_value *starts = ir_input(node, 1);
    *cut = -1;
    *first = 0;
    if (!op_shape_known(&from->shape) || !op_shape_known(&to->shape) || !starts ||
        starts->type.shape.rank != 1)
        return false;
    for (int64_t i = 0; i < starts->type.shape.dims[0]; i++) {
        int64_t start, axis, step;
        int32_t normal;
        if (!constant_integer(node, 1, i, 0, &start) || !constant_integer(node, 3, i, i, &axis) ||
            !constant_integer(node, 4, i, 1, &step) || !op_axis(axis, from->shape.rank, &normal)) {
            return false;
        }
        if (from->shape.dims[normal] == to->shape.dims[normal] && step == 1) continue;
        if (step != 1 || *cut >= 0) return false;
        *cut = normal;
        *first = start < 0 ? start + from->shape.dims[normal] : start;
        if (*first < 0) *first = 0;
        if (*first > from->shape.dims[normal]) *first = from->shape.dims[normal];
    }
    return true;
}

bool pass_range_of_slice(const ir_node *node, pass_range *result) {
    const op_type *from = &ir_input(node, 0)->type, *to = &node->outputs[0]->type;
    int32_t cut;
    int64_t first;
    if (from->layout != to->layout || !pass_slice_cut(node, &cut, &first)) return false;
    if (cut < 0)
        return pass_same_bytes(from, to) && pass_range_of_axis(from, 0, 0, from->shape.dims[0], result);
    return pass_range_of_axis(from, cut, first, to->shape.dims[cut], result);
}
