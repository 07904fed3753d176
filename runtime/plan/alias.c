/* SPDX-License-Identifier: Apache-2.0 */
/* alias.c: where aliases lie: which bytes of a tensor a reshaped, sliced, split or joined one is. Worked
 * out from shapes, layouts, attributes and constant inputs alone, for the verifier: no code is shared with
 * the passes that decide on aliases.
 */
#include "runtime/plan/plan.h"
#include <string.h>

/* The dimensions of a tensor in the order in which they lie in memory, and a box within. */
typedef struct box {
    int32_t rank;
    int64_t dims[OP_MAX_RANK + 1];
    int64_t starts[OP_MAX_RANK + 1];
    int64_t extents[OP_MAX_RANK + 1];
} box;

/* A box in axes of the shape, from `starts` on and as large as `part`, in axes of memory. */
static bool make_box(const op_type *whole, const op_shape *part, const int64_t *starts, box *made) {
    const op_shape *shape = &whole->shape;
    int64_t block = op_layout_block(whole->layout);
    int32_t order[OP_MAX_RANK + 1];
    if (part->rank != shape->rank || whole->layout == OP_LAYOUT_PACKED) return false;
    if ((block > 1 && shape->rank < 2) || (whole->layout == OP_LAYOUT_NHWC && shape->rank < 2)) return false;
    made->rank = shape->rank;
    for (int32_t d = 0; d < shape->rank; d++) order[d] = d;
    if (whole->layout == OP_LAYOUT_NHWC) {
        for (int32_t d = 2; d < shape->rank; d++) order[d - 1] = d;
        order[shape->rank - 1] = 1;
    }
    for (int32_t d = 0; d < shape->rank; d++) {
        int32_t axis = order[d];
        int64_t dim = shape->dims[axis], start = starts[axis], extent = part->dims[axis];
        if (dim < 0 || start < 0 || extent < 0 || extent > dim || start > dim - extent) return false;
        if (block > 1 && axis == 1) {
            if (start % block || (extent % block && start + extent != dim)) return false;
            dim = dim / block + (dim % block != 0);
            extent = extent / block + (extent % block != 0);
            start /= block;
        }
        made->dims[d] = dim;
        made->starts[d] = start;
        made->extents[d] = extent;
    }
    if (block) {
        made->dims[made->rank] = made->extents[made->rank] = block;
        made->starts[made->rank++] = 0;
    }
    return true;
}

/* The box is one run of memory: only its outermost axis of an extent other than 1 may be cut. */
static bool locate_box(const box *of, size_t element, uint64_t *offset) {
    int32_t d = of->rank - 1;
    while (d >= 0 && of->extents[d] == of->dims[d]) d--;
    for (int32_t outer = 0; outer < d; outer++) {
        if (of->extents[outer] != 1) return false;
    }
    uint64_t stride = element, sum = 0; /* sizes have been checked: the whole tensor fits */
    for (int32_t k = of->rank - 1; k >= 0; k--) {
        sum += stride * (uint64_t)of->starts[k];
        stride *= (uint64_t)of->dims[k];
    }
    *offset = sum;
    return true;
}

/* The part begins at `starts` within the whole. */
static bool locate(const plan *of, uint32_t whole, uint32_t part, const int64_t *starts, uint64_t *offset) {
    op_type outer, inner;
    box made;
    plan_tensor_type(of, whole, &outer);
    plan_tensor_type(of, part, &inner);
    *offset = 0;
    if (outer.dtype != inner.dtype || outer.layout != inner.layout) return false;
    if (!of->tensors[part].bytes) return true;
    return make_box(&outer, &inner.shape, starts, &made) &&
           locate_box(&made, op_dtype_bytes(outer.dtype), offset) && *offset <= of->tensors[whole].bytes &&
           of->tensors[part].bytes <= of->tensors[whole].bytes - *offset;
}

/* The elements lie in row-major order, without padding. */
static bool is_row_major(const op_type *type) {
    int64_t block = op_layout_block(type->layout), points = 1;
    if (type->layout == OP_LAYOUT_ROW_MAJOR) return true;
    if (type->layout == OP_LAYOUT_PACKED || type->shape.rank < 2) return false;
    for (int32_t d = 2; d < type->shape.rank; d++) {
        if (type->shape.dims[d] != 1) points = 2;
    }
    if (block > 1) return points == 1 && type->shape.dims[1] % block == 0;
    return points == 1 || type->shape.dims[1] == 1;
}

static bool is_same(const op_type *a, const op_type *b) {
    size_t x, y;
    if (a->dtype != b->dtype || !op_type_bytes(a, &x) || !op_type_bytes(b, &y) || x != y) return false;
    if (a->layout == b->layout && a->layout != OP_LAYOUT_PACKED && op_shape_equal(&a->shape, &b->shape))
        return true;
    return is_row_major(a) && is_row_major(b);
}

/* Only axes of extent 1 change places. */
static bool keeps_order(const plan *of, const plan_node *node, const op_type *type) {
    const plan_attribute *given = plan_node_attribute(of, node, "perm");
    int64_t last = -1;
    if (type->layout != OP_LAYOUT_ROW_MAJOR || type->shape.rank < 0) return false;
    if (given && (given->kind != OP_ATTRIBUTE_INTS || given->count != (uint64_t)type->shape.rank))
        return false;
    const int64_t *order = given ? of->integers + given->value : NULL;
    for (int32_t d = 0; d < type->shape.rank; d++) {
        int64_t from = order ? order[d] : type->shape.rank - 1 - d;
        if (from < 0 || from >= type->shape.rank) return false;
        if (type->shape.dims[from] == 1) continue;
        if (from < last) return false;
        last = from;
    }
    return true;
}

/* Element `index` of a constant input; `otherwise` where the input is absent. False where it is not known. */
static bool constant_integer(const plan *of, const plan_node *node, uint32_t input, int64_t index,
                             int64_t otherwise, int64_t *value) {
    uint32_t id = input < node->input_count ? of->tensor_ids[node->inputs + input] : PLAN_ABSENT;
    *value = otherwise;
    if (id == PLAN_ABSENT) return true;
    if (of->tensors[id].address.space != MEMORY_CONSTANT) return false;
    op_tensor tensor = {.bytes = (size_t)of->tensors[id].bytes,
                        .data = (void *)(uintptr_t)(of->constants + of->tensors[id].address.offset)};
    plan_tensor_type(of, id, &tensor.type);
    op_call call = {.input_count = 1, .inputs = &tensor};
    return op_input_integer(&call, 0, index, value);
}

static bool slice_starts(const plan *of, const plan_node *node, int64_t *starts) {
    uint32_t whole = of->tensor_ids[node->inputs], part = of->tensor_ids[node->outputs];
    uint32_t list = node->input_count > 1 ? of->tensor_ids[node->inputs + 1] : PLAN_ABSENT;
    if (list == PLAN_ABSENT) return false;
    op_type outer, inner, listed;
    plan_tensor_type(of, whole, &outer);
    plan_tensor_type(of, part, &inner);
    plan_tensor_type(of, list, &listed);
    if (listed.shape.rank != 1 || inner.shape.rank != outer.shape.rank) return false;
    for (int64_t i = 0; i < listed.shape.dims[0]; i++) {
        int64_t start, axis, step;
        int32_t normal;
        if (!constant_integer(of, node, 1, i, 0, &start) || !constant_integer(of, node, 3, i, i, &axis) ||
            !constant_integer(of, node, 4, i, 1, &step) || !op_axis(axis, outer.shape.rank, &normal)) {
            return false;
        }
        int64_t dim = outer.shape.dims[normal];
        if (step != 1 && inner.shape.dims[normal] > 1) return false;
        if (start < 0) start = start < -dim ? 0 : start + dim;
        if (step < 0 && start >= dim) start = dim - 1;
        starts[normal] = start > dim ? dim : start;
    }
    return true;
}

bool plan_alias_part(const plan *of, const plan_node *node, uint32_t index, int64_t *cursor, uint32_t *whole,
                     uint32_t *part, uint64_t *offset) {
    op_code code = plan_node_code(of, node);
    const op_schema *row = op_schema_of(code);
    bool joins = row->view == OP_VIEW_CONCAT;
    if (!node->input_count || !node->output_count ||
        index >= (joins ? node->input_count : node->output_count)) {
        return false;
    }
    *whole = joins ? of->tensor_ids[node->outputs] : of->tensor_ids[node->inputs];
    *part = joins ? of->tensor_ids[node->inputs + index] : of->tensor_ids[node->outputs + index];
    *offset = 0;
    if (*whole == PLAN_ABSENT || *part == PLAN_ABSENT) return false;

    op_type type, other;
    plan_tensor_type(of, *whole, &type);
    plan_tensor_type(of, *part, &other);
    int64_t starts[OP_MAX_RANK] = {0};
    int32_t axis;
    bool valid = false;
    const plan_attribute *given = plan_node_attribute(of, node, "axis");
    switch (row->view) {
    case OP_VIEW_NONE:
        valid = (code == OP_REORDER || code == OP_COPY) && is_same(&type, &other);
        break;
    case OP_VIEW_SAME:
        valid = is_same(&type, &other);
        break;
    case OP_VIEW_TRANSPOSE:
        valid = keeps_order(of, node, &type) && other.layout == OP_LAYOUT_ROW_MAJOR && is_same(&type, &other);
        break;
    case OP_VIEW_SLICE:
        valid = slice_starts(of, node, starts) && locate(of, *whole, *part, starts, offset);
        break;
    case OP_VIEW_SPLIT:
    case OP_VIEW_CONCAT:
        valid = op_axis(given && given->kind == OP_ATTRIBUTE_INT ? (int64_t)given->value : 0, type.shape.rank,
                        &axis);
        if (!valid || other.shape.rank != type.shape.rank) {
            valid = false;
            break;
        }
        starts[axis] = *cursor;
        valid = base_int64_add(*cursor, other.shape.dims[axis], cursor) &&
                locate(of, *whole, *part, starts, offset);
        break;
    }
    return valid;
}

bool plan_kept_part(const plan *of, const plan_node *node, uint64_t *offset) {
    const op_code code = plan_node_code(of, node);
    uint32_t whole, part;
    int64_t cursor = 0;
    if (node->flags & (PLAN_NODE_ALIAS | PLAN_NODE_DYNAMIC)) return false;
    if (code == OP_SLICE) return plan_alias_part(of, node, 0, &cursor, &whole, &part, offset);
    if (code != OP_COPY || !node->input_count || !node->output_count) return false;
    whole = of->tensor_ids[node->inputs];
    part = of->tensor_ids[node->outputs];
    *offset = 0;
    return whole != PLAN_ABSENT && part != PLAN_ABSENT && of->tensors[whole].bytes == of->tensors[part].bytes;
}
