/* SPDX-License-Identifier: Apache-2.0 */
/* halve_tables.c: constant tables in float whose numbers are all of bfloat16 or of float16 are stored so, without loss.
 *
 *     %y: float32[s,d] = Gather(%table, %index)                    with %table: float32[n,d]
 *  => %rows: float16[s,d] = Gather(%table, %index)                 with %table: float16[n,d]
 *     %y: float32[s,d] = Cast(%rows)
 *
 * Embeddings are a quarter of all bytes of a small decoder. A run reads few of their rows, and widens these.
 *
 * Needs: types; after fusion, which looks for Gather as exporters write it, and after products have taken what they read. Breaks: nothing.
 * Guarantees: the same numbers. Tables that others read, too, and small ones, stay as they are: those of PASS_NEAR_BYTES and less, or, in plans for any machine,
 * those of fewer than 4,096 numbers.
 */
#include "passes/layout/layout.h"

enum {
    FEWEST_NUMBERS = 4096,
    FEW = 4 /* a run reads at most one in so many of the numbers, as far as that is known */
};

/* A table, which all its readers only gather from. */
static bool is_table(const ir_value *value, bool portable) {
    if (!value || !value->constant || !value->uses || value->type.dtype != OP_FLOAT ||
        value->type.layout != OP_LAYOUT_ROW_MAJOR)
        return false;
    const int64_t count = (int64_t)(value->constant->tensor.bytes / sizeof(float));
    if (count < FEWEST_NUMBERS || (!portable && value->constant->tensor.bytes <= PASS_NEAR_BYTES))
        return false;
    for (const ir_use *use = value->uses; use; use = use->next) {
        int64_t read;
        if (!use->node || use->node->code != OP_GATHER || use->index != 0) return false;
        if (op_shape_elements(&use->node->outputs[0]->type.shape, &read) && read > count / FEW) return false;
    }
    return true;
}

/* The node gathers from `table` instead, and whoever reads its rows reads a Cast of them. */
static bool widen_rows(ir_node *node, ir_value *table) {
    ir_value *rows = node->outputs[0];
    if (!ir_node_set_input(node, 0, table)) return false;
    rows->type.dtype = table->type.dtype;
    ir_value *floats = pass_cast(node->graph, node->next, node->path, rows, OP_FLOAT);
    if (!floats) return false;
    ir_value_replace(rows, floats);
    /* The Cast itself still reads the rows. */
    return ir_node_set_input(floats->node, 0, rows);
}

base_status pass_halve_tables(pass_context *context) {
    ir_module *module = context->module;
    const size_t count = module->value_count;
    for (size_t v = 0; v < count; v++) {
        ir_value *table = module->values[v];
        if (!is_table(table, context->options->environment.portable_only)) continue;
        const float *numbers = table->constant->tensor.data;
        const op_dtype dtype =
            pass_lossless_type(numbers, (int64_t)(table->constant->tensor.bytes / sizeof *numbers));
        if (dtype == OP_NONE) continue;
        ir_value *halved = pass_constant_of(module, table->name, dtype, &table->type.shape, numbers);
        if (!halved) return base_fail_memory(context->report);
        while (table->uses)
            if (!widen_rows(table->uses->node, halved)) return base_fail_memory(context->report);
        ir_constant_remove(module, table);
    }
    return BASE_OK;
}
