/* SPDX-License-Identifier: Apache-2.0 */
/* halve_tables.c: constant tables in float whose numbers are all of bfloat16 or of float16 are stored so, without loss; and those that are the weights of
 * a product, where these are stored in 16 bits.
 *
 *     %y: float32[s,d] = Gather(%table, %index)                    with %table: float32[n,d]
 *  => %rows: float16[s,d] = Gather(%table, %index)                 with %table: float16[n,d]
 *     %y: float32[s,d] = Cast(%rows)
 *  or %rows: int16[s,d] = Gather(%table, %index)                   with %table: int16[n,d]
 *     %y: float32[s,d] = DequantizeLinear(%rows, %scale)
 *
 * Embeddings are a quarter of all bytes of a small decoder. A run reads few of their rows, and widens these. Where `--weights` asks for 16 bits and a product
 * with the same numbers has them, the table would otherwise stay in float beside it (share_tables.c holds both once).
 *
 * Needs: types; after fusion, which looks for Gather as exporters write it, and after products have taken what they read. Breaks: nothing.
 * Guarantees: the same numbers, or those of the product. Tables that others read, too, and small ones, stay as they are: those of
 * PASS_NEAR_BYTES and less, or, in plans for any machine, those of fewer than 4,096 numbers.
 */
#include "passes/layout/layout.h"

/* A run reads at most one in so many of the numbers, as far as that is known. */
enum { FEW = 4 };

/* A table, which all its readers only gather from. */
static bool is_table(const ir_value *value, const pass_options *options) {
    if (!value || !value->constant || !value->uses || value->type.dtype != OP_FLOAT ||
        value->type.layout != OP_LAYOUT_ROW_MAJOR)
        return false;
    if (pass_is_small_table(value, options)) return false;
    const int64_t count = (int64_t)(value->constant->tensor.bytes / sizeof(float));
    for (const ir_use *use = value->uses; use; use = use->next) {
        int64_t read;
        if (!use->node || use->node->code != OP_GATHER || use->index != 0) return false;
        if (op_shape_elements(&use->node->outputs[0]->type.shape, &read) && read > count / FEW) return false;
    }
    return true;
}

/* How a table is stored. */
typedef struct form {
    op_dtype dtype; /* OP_NONE: as it is */
    float scale;    /* of int16 */
} form;

/* What the rows are, made after the node that gathers them. */
static ir_value *floats_of(const ir_node *node, ir_value *rows, const form *of) {
    if (of->dtype != OP_INT16) return pass_cast(node->graph, node->next, node->path, rows, OP_FLOAT);
    const op_shape scalar = {0};
    ir_value *inputs[] = {rows,
                          pass_constant_of(node->graph->module, "scale", OP_FLOAT, &scalar, &of->scale)};
    op_type type = rows->type;
    type.dtype = OP_FLOAT;
    ir_node *made = inputs[1] ? ir_node_new(node->graph, node->next, OP_DEQUANTIZE_LINEAR, "", node->path,
                                            (op_attributes){0}, 2, inputs)
                              : NULL;
    return made ? ir_node_add_output(made, rows->name, &type) : NULL;
}

/* The node gathers from `table` instead, and whoever reads its rows reads floats that are made of them. */
static bool widen_rows(ir_node *node, ir_value *table, const form *of) {
    ir_value *rows = node->outputs[0];
    if (!ir_node_set_input(node, 0, table)) return false;
    rows->type.dtype = of->dtype;
    ir_value *floats = floats_of(node, rows, of);
    if (!floats) return false;
    ir_value_replace(rows, floats);
    /* What makes them still reads the rows. */
    return ir_node_set_input(floats->node, 0, rows);
}

/* The numbers of the table, stored so, are the columns of this product's weights. */
static bool is_tied(const float *numbers, const int64_t *dims, const ir_node *product, const form *of) {
    const ir_value *weights = ir_input(product, 1);
    const bool turned = pass_is_turned(product);
    const int64_t *extents = weights->type.shape.dims, depth = extents[turned], columns = extents[!turned];
    const uint16_t *stored = weights->constant->tensor.data;
    if (dims[0] != columns || dims[1] != depth) return false;
    for (int64_t j = 0; j < columns; j++) {
        for (int64_t k = 0; k < depth; k++) {
            uint16_t own;
            (void)pass_store_weight(of->dtype, numbers[j * depth + k], of->scale, &own);
            if (own != stored[turned ? j * depth + k : k * columns + j]) return false;
        }
    }
    return true;
}

/* How a product stores the numbers of this table in 16 bits, if that was asked for. */
static form form_of_product(const pass_context *context, const ir_value *table) {
    const ir_module *module = context->module;
    for (size_t n = 1; n < module->node_count && context->options->weight_type != OP_NONE; n++) {
        const ir_node *node = module->nodes[n];
        if (!node || (node->code != OP_MATMUL && node->code != OP_GEMM) ||
            !op_attribute_find(&node->attributes, "ouro.weights_error"))
            continue;
        const ir_value *weights = ir_input(node, 1);
        const form of = {weights->type.dtype, op_attribute_real(&node->attributes, "ouro.weights_scale", 1)};
        if ((of.dtype == OP_FLOAT16 || of.dtype == OP_BFLOAT16 || of.dtype == OP_INT16) &&
            weights->constant && weights->type.shape.rank == 2 && table->type.shape.rank == 2 &&
            is_tied(table->constant->tensor.data, table->type.shape.dims, node, &of))
            return of;
    }
    return (form){OP_NONE, 1};
}

/* The table in 16 bits; NULL: memory runs out. */
static ir_value *halve(ir_module *module, const ir_value *table, const form *of) {
    const float *numbers = table->constant->tensor.data;
    const size_t count = table->constant->tensor.bytes / sizeof *numbers;
    op_type type = table->type;
    void *memory = NULL;
    type.dtype = of->dtype;
    ir_value *value = ir_constant_reserve(module, table->name, &type, count * sizeof(uint16_t), &memory);
    for (size_t i = 0; value && i < count; i++)
        (void)pass_store_weight(of->dtype, numbers[i], of->scale, &((uint16_t *)memory)[i]);
    return value;
}

base_status pass_halve_tables(pass_context *context) {
    ir_module *module = context->module;
    const size_t count = module->value_count;
    for (size_t v = 0; v < count; v++) {
        ir_value *table = module->values[v];
        if (!is_table(table, context->options)) continue;
        form of = form_of_product(context, table);
        if (of.dtype == OP_NONE)
            of.dtype = pass_lossless_type(table->constant->tensor.data,
                                          (int64_t)(table->constant->tensor.bytes / sizeof(float)));
        if (of.dtype == OP_NONE) continue;
        ir_value *halved = halve(module, table, &of);
        if (!halved) return base_fail_memory(context->report);
        while (table->uses)
            if (!widen_rows(table->uses->node, halved, &of)) return base_fail_memory(context->report);
        ir_constant_remove(module, table);
    }
    return BASE_OK;
}
