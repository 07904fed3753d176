/* SPDX-License-Identifier: Apache-2.0 */
/* share_tables.c: a table that is only gathered from, and is the matrix of a product turned round, is packed as that product packs its weights.
 *
 *     %x: float32[s,d] = Gather(%table: float32[n,d], %index)  ...  %y = MatMul(%h, %w: float32[d,n])      with %w the table turned round
 *  => %x: float32[s,d] = Gather(%table: float32[n,d], %index) {ouro.panels = 1}  ...
 *
 * Decoders have the weights of their last product in their table of embeddings. Products pack their weights for vectors, so that a plan would hold these numbers
 * twice. Packed alike, both are the same bytes, which are written once. Which kernel a product gets is asked of the kernels; where
 * it may get another one in the end (many rows: seven products of halves), the table stays as it is. Tables that products read in fewer bits are none
 * of this pass (quantize_weights.c, block_float_weights.c).
 *
 * Needs: types; after the weights of products and tables have their types and bits. Breaks: nothing. Guarantees: only attributes change.
 */
#include "passes/layout/layout.h"
#include "runtime/kernels/portable/packed_product.h"
#include "runtime/kernels/table.h"

/* Products of floats with more rows may be done in seven products of halves, whose weights are others (strassen_product.c). */
enum { FEW_ROWS = 95 };

static bool is_product(const ir_node *node) {
    const ir_value *weights =
        node && (node->code == OP_MATMUL || node->code == OP_GEMM) ? ir_input(node, 1) : NULL;
    return weights && weights->constant && weights->constant->tensor.data && weights->type.shape.rank == 2 &&
           weights->type.layout == OP_LAYOUT_ROW_MAJOR;
}

static bool is_turned(const ir_node *product) {
    return product->code == OP_GEMM && op_attribute_integer(&product->attributes, "transB", 0) != 0;
}

/* Nobody needs the table as it is: Gathers of its rows read it, and perhaps products, which pack it. */
static bool is_table(const ir_value *value) {
    if (!value->constant || !value->constant->tensor.data || value->type.shape.rank != 2 || !value->uses ||
        value->type.layout != OP_LAYOUT_ROW_MAJOR || value->constant->tensor.bytes <= PASS_NEAR_BYTES)
        return false;
    bool gathered = false;
    for (const ir_use *use = value->uses; use; use = use->next) {
        const ir_node *node = use->node;
        if (!node) return false;
        const bool gathers = node->code == OP_GATHER && use->index == 0 &&
                             op_attribute_integer(&node->attributes, "axis", 0) == 0 &&
                             !op_attribute_find(&node->attributes, "ouro.weights_bits");
        if (!gathers && !(is_product(node) && use->index == 1)) return false;
        gathered |= gathers;
    }
    return gathered;
}

/* How the product packs its weights, if it surely does; 0: not so. */
static int64_t form_of(pass_context *context, const ir_node *product, bool *out_of_memory) {
    const rt_kernel *numbers = rt_kernel_of(product->code, "portable.packed_product"),
                    *pairs = rt_kernel_of(product->code, "portable.packed_halves");
    rt_preference wish = {0};
    op_call call;
    if (ir_input(product, 1)->type.dtype == OP_FLOAT &&
        (pass_product_rows(product) > FEW_ROWS || op_attribute_real(&product->attributes, "alpha", 1) != 1))
        return 0;
    if (!ir_node_call(product, context->scratch, &call)) {
        *out_of_memory = true;
        return 0;
    }
    const rt_kernel *kernel = rt_kernel_wishing(&call, &context->options->environment, &wish);
    return kernel == numbers ? RT_PANELS_OF_NUMBERS : kernel == pairs ? RT_PANELS_OF_PAIRS : 0;
}

/* The form in which a product packs the same numbers; 0: none does. */
static int64_t find_form(pass_context *context, const ir_value *table, bool *out_of_memory) {
    const ir_module *module = context->module;
    for (size_t n = 1; n < module->node_count && !*out_of_memory; n++) {
        const ir_node *product = module->nodes[n];
        if (!is_product(product) ||
            !pass_has_columns_as_rows(table, ir_input(product, 1), is_turned(product)))
            continue;
        const int64_t form = form_of(context, product, out_of_memory);
        if (form) return form;
    }
    return 0;
}

base_status pass_share_tables(pass_context *context) {
    ir_module *module = context->module;
    bool out_of_memory = false;
    for (size_t v = 1; v < module->value_count && !out_of_memory; v++) {
        const ir_value *table = module->values[v];
        if (!table || !is_table(table)) continue;
        const op_attribute form = {.name = "ouro.panels",
                                   .kind = OP_ATTRIBUTE_INT,
                                   .count = 1,
                                   .as.integer = find_form(context, table, &out_of_memory)};
        for (const ir_use *use = table->uses; use && form.as.integer && !out_of_memory; use = use->next)
            if (use->node->code == OP_GATHER)
                out_of_memory = !ir_attribute_set(module, &use->node->attributes, &form);
    }
    return out_of_memory ? base_fail_memory(context->report) : BASE_OK;
}
