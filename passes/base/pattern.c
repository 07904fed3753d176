/* SPDX-License-Identifier: Apache-2.0 */
/* pattern.c: what passes ask that recognise operators as exporters take them apart. */
#include "passes/base/pass.h"

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

bool pass_gathers_rows(const ir_node *node) {
    const ir_value *table = node && node->code == OP_GATHER ? ir_input(node, 0) : NULL;
    return table && table->constant && table->type.dtype == OP_FLOAT && table->type.shape.rank == 2 &&
           table->type.layout == OP_LAYOUT_ROW_MAJOR &&
           op_attribute_integer(&node->attributes, "axis", 0) == 0;
}

bool pass_has_columns_as_rows(const ir_value *table, const ir_value *matrix, bool turned) {
    enum { TOGETHER = 16 }; /* columns: what is read of both lies in a near cache */
    const int64_t *dims = matrix->type.shape.dims, depth = dims[turned], columns = dims[!turned];
    const float *rows = table->constant->tensor.data, *numbers = matrix->constant->tensor.data;
    if (table->type.shape.dims[0] != columns || table->type.shape.dims[1] != depth) return false;
    if (rows == numbers) return turned;
    const int64_t depth_step = turned ? 1 : columns, column_step = turned ? depth : 1;
    for (int64_t first = 0; first < columns; first += TOGETHER) {
        const int64_t end = columns - first < TOGETHER ? columns : first + TOGETHER;
        for (int64_t k = 0; k < depth; k++)
            for (int64_t j = first; j < end; j++)
                if (rows[j * depth + k] != numbers[k * depth_step + j * column_step]) return false;
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
