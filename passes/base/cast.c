/* SPDX-License-Identifier: Apache-2.0 */
/* cast.c: a value as another type, and numbers in 16 bits. */
#include "passes/base/pass.h"
#include <string.h>

uint16_t pass_narrow(op_dtype dtype, float number) {
    return dtype == OP_FLOAT16 ? base_half_from_float(number) : base_bfloat16_from_float(number);
}

float pass_widen(op_dtype dtype, uint16_t stored) {
    return dtype == OP_FLOAT16 ? base_float_from_half(stored) : base_float_from_bfloat16(stored);
}

ir_value *pass_constant_of(ir_module *module, const char *name, op_dtype dtype, const op_shape *shape,
                           const float *numbers) {
    const op_type type = {.dtype = dtype, .shape = *shape};
    size_t bytes;
    int64_t count = 0;
    void *memory = NULL;
    ir_value *value = op_shape_elements(shape, &count) && op_type_bytes(&type, &bytes)
                          ? ir_constant_reserve(module, name, &type, bytes, &memory)
                          : NULL;
    if (value && dtype == OP_FLOAT) memcpy(memory, numbers, bytes);
    for (int64_t i = 0; value && dtype != OP_FLOAT && i < count; i++)
        ((uint16_t *)memory)[i] = pass_narrow(dtype, numbers[i]);
    return value;
}

ir_value *pass_cast(ir_graph *graph, ir_node *before, const char *path, ir_value *value, op_dtype dtype) {
    const op_attribute to = {.name = "to", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = dtype};
    op_attributes attributes = {0};
    op_type type = value->type;
    type.dtype = dtype;
    if (!ir_attribute_set(graph->module, &attributes, &to)) return NULL;
    ir_node *node = ir_node_new(graph, before, OP_CAST, "", path, attributes, 1, &value);
    return node ? ir_node_add_output(node, value->name, &type) : NULL;
}
