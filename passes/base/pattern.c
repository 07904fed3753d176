/* SPDX-License-Identifier: Apache-2.0 */
/* pattern.c: questions of passes that look for patterns of nodes, as exporters write what is one operator here. */
#include "ir/operators/window.h"
#include "passes/base/pass.h"
#include <string.h>

ir_node *pass_only_reader(const ir_node *node, op_code code) {
    const ir_use *use = node && node->output_count == 1 && node->outputs[0] ? node->outputs[0]->uses : NULL;
    ir_node *reader = use && !use->next ? use->node : NULL;
    return reader && reader->graph == node->graph && reader->code == code && reader->output_count == 1
               ? reader
               : NULL;
}

ir_value *pass_other_operand(const ir_node *node, const ir_value *known) {
    return ir_input(node, ir_input(node, 0) == known ? 1 : 0);
}

bool pass_is_made_by(const ir_value *value, const ir_graph *graph, op_code code) {
    return value && value->kind == IR_RESULT_OF_NODE && value->node->graph == graph &&
           value->node->code == code;
}

bool pass_read_number(const ir_value *value, int32_t rank, float *number) {
    int64_t count;
    if (!value || !value->constant ||
        (value->type.dtype != OP_FLOAT && value->type.dtype != OP_FLOAT16 &&
         value->type.dtype != OP_BFLOAT16) ||
        value->type.layout != OP_LAYOUT_ROW_MAJOR || value->type.shape.rank > rank ||
        !op_shape_elements(&value->type.shape, &count) || count != 1)
        return false;
    const void *data = value->constant->tensor.data;
    *number = value->type.dtype == OP_FLOAT ? *(const float *)data
                                            : pass_widen(value->type.dtype, *(const uint16_t *)data);
    return true;
}

bool pass_resize_keeps_places(const ir_node *node) {
    const char *const name = "coordinate_transformation_mode";
    return !op_attribute_is(&node->attributes, name, "tf_half_pixel_for_nn", "half_pixel") &&
           !op_attribute_is(&node->attributes, name, "tf_crop_and_resize", "half_pixel");
}

bool pass_multiplies_constant(const ir_node *node) {
    if ((node->code != OP_MATMUL && node->code != OP_GEMM) || node->output_count != 1) return false;
    const ir_value *x = ir_input(node, 0), *weights = ir_input(node, 1);
    return x && weights && weights->constant && x->type.dtype == OP_FLOAT &&
           weights->type.dtype == OP_FLOAT && weights->type.shape.rank == 2 &&
           weights->type.layout == OP_LAYOUT_ROW_MAJOR;
}

bool pass_is_turned(const ir_node *product) {
    return product->code == OP_GEMM && op_attribute_integer(&product->attributes, "transB", 0) != 0;
}

bool pass_gathers_rows(const ir_node *node) {
    const ir_value *table = node && node->code == OP_GATHER ? ir_input(node, 0) : NULL;
    return table && table->constant && table->type.dtype == OP_FLOAT && table->type.shape.rank == 2 &&
           table->type.layout == OP_LAYOUT_ROW_MAJOR &&
           op_attribute_integer(&node->attributes, "axis", 0) == 0;
}

/* Of one number. Most have two bytes or four, and there are many. */
static bool same_bits(const char *a, const char *b, size_t bytes) {
    return bytes == sizeof(uint32_t)   ? memcmp(a, b, sizeof(uint32_t)) == 0
           : bytes == sizeof(uint16_t) ? memcmp(a, b, sizeof(uint16_t)) == 0
                                       : memcmp(a, b, bytes) == 0;
}

bool pass_has_columns_as_rows(const ir_value *table, const ir_value *matrix, bool turned) {
    enum { TOGETHER = 16 }; /* columns: what is read of both lies in a near cache */
    const int64_t *dims = matrix->type.shape.dims, depth = dims[turned], columns = dims[!turned];
    const char *rows = table->constant->tensor.data, *numbers = matrix->constant->tensor.data;
    const size_t bytes = op_dtype_bytes(table->type.dtype);
    if (table->type.dtype != matrix->type.dtype || table->type.shape.dims[0] != columns ||
        table->type.shape.dims[1] != depth)
        return false;
    if (rows == numbers) return turned;
    const int64_t depth_step = turned ? 1 : columns, column_step = turned ? depth : 1;
    for (int64_t first = 0; first < columns; first += TOGETHER) {
        const int64_t end = columns - first < TOGETHER ? columns : first + TOGETHER;
        for (int64_t k = 0; k < depth; k++)
            for (int64_t j = first; j < end; j++)
                if (!same_bits(rows + (size_t)(j * depth + k) * bytes,
                               numbers + (size_t)(k * depth_step + j * column_step) * bytes, bytes))
                    return false;
    }
    return true;
}

bool pass_read_axes(const ir_value *axes, int32_t rank, bool *marks) {
    int64_t count;
    if (!axes || !axes->constant || axes->type.dtype != OP_INT64 ||
        !op_shape_elements(&axes->type.shape, &count) || count < 1)
        return false;
    for (int64_t i = 0; i < count; i++) {
        int32_t axis;
        if (!op_axis(((const int64_t *)axes->constant->tensor.data)[i], rank, &axis)) return false;
        marks[axis] = true;
    }
    return true;
}

bool pass_transpose_order(const ir_node *transpose, int32_t rank, int64_t *order) {
    size_t count;
    const int64_t *given = op_attribute_integers(&transpose->attributes, "perm", &count);
    if (given && count != (size_t)rank) return false;
    for (int32_t i = 0; i < rank; i++) order[i] = given ? given[i] : rank - 1 - i;
    return true;
}

/* A Gather of all channels in the order of a shuffle. */
static bool read_gathered_shuffle(const ir_node *gather, int64_t *groups) {
    const ir_value *order = ir_input(gather, 1), *x = ir_input(gather, 0);
    const int64_t channels = x->type.shape.rank > 1 ? x->type.shape.dims[1] : 0;
    int32_t axis;
    if (!order || !order->constant || order->type.dtype != OP_INT64 || order->type.shape.rank != 1 ||
        order->type.shape.dims[0] != channels || channels < 2 ||
        !op_axis(op_attribute_integer(&gather->attributes, "axis", 0), x->type.shape.rank, &axis) ||
        axis != 1)
        return false;
    const int64_t *from = order->constant->tensor.data;
    int64_t each = 0;
    for (int64_t i = 1; i < channels && !each; i++) each = from[i] - from[0] == 1 ? channels / i : 0;
    if (each < 2 || channels % each != 0) return false;
    *groups = channels / each;
    for (int64_t i = 0; i < channels; i++)
        if (from[i] != op_shuffled_channel(i, *groups, channels)) return false;
    return *groups > 1;
}

/* Whether the split shape has channels as two axes, which change places in a Transpose. */
static bool read_turned_shuffle(const ir_node *first, const ir_node *transpose, int64_t *groups) {
    const op_shape *whole = &ir_input(first, 0)->type.shape, *split = &first->outputs[0]->type.shape;
    int64_t order[OP_MAX_RANK];
    const int32_t rank = split->rank;
    if (rank < 2 || whole->rank < 2 || !pass_transpose_order(transpose, rank, order)) return false;
    int32_t axis = 0; /* the first that moves */
    while (axis < rank && order[axis] == axis) axis++;
    if (axis > 1 || axis + 1 >= rank || (axis ? split->dims[0] != whole->dims[0] : whole->dims[0] != 1))
        return false;
    for (int32_t i = axis; i < rank; i++)
        if (order[i] != (i == axis ? axis + 1 : i == axis + 1 ? axis : i)) return false;
    int64_t channels;
    if (split->dims[axis] < 2 || split->dims[axis + 1] < 2 ||
        !base_int64_multiply(split->dims[axis], split->dims[axis + 1], &channels) ||
        channels != whole->dims[1])
        return false;
    *groups = split->dims[axis];
    return true;
}

bool pass_read_shuffle(const ir_value *shuffled, ir_value **x, int64_t *groups) {
    const ir_node *last = shuffled->kind == IR_RESULT_OF_NODE ? shuffled->node : NULL;
    if (!last || (last->code != OP_RESHAPE && last->code != OP_GATHER) || !ir_input(last, 0)) return false;
    const ir_node *first = last;
    if (last->code == OP_RESHAPE) {
        const ir_value *turned = ir_input(last, 0);
        if (!pass_is_made_by(turned, last->graph, OP_TRANSPOSE) ||
            pass_only_reader(turned->node, OP_RESHAPE) != last ||
            !pass_is_made_by(ir_input(turned->node, 0), last->graph, OP_RESHAPE))
            return false;
        first = ir_input(turned->node, 0)->node;
        if (pass_only_reader(first, OP_TRANSPOSE) != turned->node || !ir_input(first, 0) ||
            !read_turned_shuffle(first, turned->node, groups))
            return false;
    } else if (!read_gathered_shuffle(last, groups)) {
        return false;
    }
    *x = ir_input(first, 0);
    return (*x)->type.kind == OP_KIND_TENSOR && op_shape_same(&(*x)->type.shape, &shuffled->type.shape);
}

void pass_remove_shuffle(ir_value *shuffled) {
    ir_node *node = shuffled->node;
    ir_module *module = node->graph->module;
    for (int left = node->code == OP_RESHAPE ? 3 : 1; left > 0; left--) {
        ir_node *before = left > 1 ? ir_input(node, 0)->node : NULL;
        ir_value *constants[4];
        uint32_t count = 0;
        for (uint32_t i = 1; i <= 4; i++) { /* a Slice may have one constant twice */
            ir_value *constant = ir_input(node, i);
            bool again = !constant || !constant->constant;
            for (uint32_t j = 0; j < count; j++) again |= constants[j] == constant;
            if (!again) constants[count++] = constant;
        }
        ir_node_remove(node);
        for (uint32_t i = 0; i < count; i++)
            if (!constants[i]->uses) ir_constant_remove(module, constants[i]);
        node = before;
    }
}
