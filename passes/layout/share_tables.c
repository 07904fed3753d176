/* SPDX-License-Identifier: Apache-2.0 */
/* share_tables.c: a table that is only gathered from, and is the matrix of a product turned round, is held once with the product's weights.
 *
 *     %x: float32[s,d] = Gather(%table: float32[n,d], %index)  ...  %y = MatMul(%h, %w: float32[d,n])      with %w the table turned round
 *  => %x: float32[s,d] = Gather(%table: float32[n,d], %index) {ouro.panels = 1}  ...
 *  or %y = MatMul(%h, %table) {ouro.right = [1, 0]}                                  in plans for any machine
 *
 * Decoders have the weights of their last product in their table of embeddings. Products pack their weights for vectors, so that a plan would
 * hold these numbers twice. Packed alike, both are the same bytes, which are written once. Which kernel a product gets is asked of the kernels;
 * where it may get another one in the end (many rows: seven products of halves), the table stays as it is. In plans for any machine products do
 * not pack floats. There a product of one row, or of an open number that mostly is one, reads the table itself: that takes 0.75 of the time of
 * one row, and more of several rows, whose numbers have to be turned round. Tables that products read in fewer bits are left to
 * quantize_weights.c and block_float_weights.c.
 *
 * Needs: types; after the weights of products and tables have their types and bits. Breaks: nothing. Guarantees: values stay what they were, and to the
 * bit with exact arithmetic: a product that reads the table adds in another order.
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

/* Nobody needs the table as it is: Gathers of its rows read it, and perhaps products, which pack it. */
static bool is_table(const ir_value *value, const pass_options *options) {
    if (!value->constant || !value->constant->tensor.data || value->type.shape.rank != 2 || !value->uses ||
        value->type.layout != OP_LAYOUT_ROW_MAJOR || pass_is_small_table(value, options))
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

/* A product of floats that does not pack its weights, and mostly has one row. */
static bool may_read_table(const pass_context *context, const ir_node *product) {
    const int64_t rows = pass_product_rows(product);
    return context->options->environment.portable_only && !context->options->exact_arithmetic &&
           product->code == OP_MATMUL && ir_input(product, 1)->type.dtype == OP_FLOAT &&
           !op_attribute_find(&product->attributes, "ouro.right") &&
           (rows == 1 || (rows < 0 && pass_makes_tokens(context->module)));
}

/* It reads its weights from the table. False when memory runs out. */
static bool read_table(ir_module *module, ir_node *product, ir_value *table) {
    static const int64_t turned[] = {1, 0};
    const op_attribute order = {
        .name = "ouro.right", .kind = OP_ATTRIBUTE_INTS, .count = 2, .as.integers = turned};
    ir_value *weights = ir_input(product, 1);
    if (!ir_attribute_set(module, &product->attributes, &order) || !ir_node_set_input(product, 1, table))
        return false;
    if (!weights->uses) ir_constant_remove(module, weights);
    return true;
}

/* Makes a product that has the table as its weights share them. *form: how the table is to be packed for that; 0: it stays as it is. False when memory
 * runs out. */
static bool share(pass_context *context, ir_value *table, int64_t *form) {
    ir_module *module = context->module;
    bool out_of_memory = false;
    *form = 0;
    for (size_t n = 1; n < module->node_count && !*form && !out_of_memory; n++) {
        ir_node *product = module->nodes[n];
        if (!is_product(product) ||
            !pass_has_columns_as_rows(table, ir_input(product, 1), pass_is_turned(product)))
            continue;
        *form = form_of(context, product, &out_of_memory);
        if (!*form && !out_of_memory && may_read_table(context, product))
            out_of_memory = !read_table(module, product, table);
    }
    return !out_of_memory;
}

base_status pass_share_tables(pass_context *context) {
    ir_module *module = context->module;
    for (size_t v = 1; v < module->value_count; v++) {
        ir_value *table = module->values[v];
        op_attribute form = {.name = "ouro.panels", .kind = OP_ATTRIBUTE_INT, .count = 1};
        if (!table || !is_table(table, context->options)) continue;
        if (!share(context, table, &form.as.integer)) return base_fail_memory(context->report);
        for (const ir_use *use = table->uses; use && form.as.integer; use = use->next)
            if (use->node->code == OP_GATHER && !ir_attribute_set(module, &use->node->attributes, &form))
                return base_fail_memory(context->report);
    }
    return BASE_OK;
}
