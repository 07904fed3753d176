/* SPDX-License-Identifier: Apache-2.0 */
/* compress_weights.c: constant weights of products in float that come from memory in each run are packed in 28 bits, without loss.
 *
 *     %y: float32[1,n] = MatMul(%x, %w: float32[k,n], %b)
 *  => %y: float32[1,n] = MatMul(%x, %w: float32[k,n], %b) {ouro.weights_bits = 28}
 *
 * A product of one row takes as long as its weights take to be read. Where all of them together are more than the last cache holds, that is
 * from memory, in every run: an eighth less to read is up to an eighth less time. Where they stay in a cache, making floats of codes
 * takes longer than reading floats. So it is all of them or none.
 *
 * What the codes are is in runtime/kernels/portable/float_codes.h. Results are the same, to the last bit. Which products a kernel takes so,
 * it says itself.
 *
 * Needs: types; after weights were put into 16 bits, or into block floating point, which takes more away. Breaks: nothing. Guarantees: only
 * attributes change.
 */
#include "passes/layout/layout.h"
#include "runtime/kernels/portable/float_codes.h"
#include "runtime/kernels/table.h"

/* A product in float with a constant matrix, of a number of rows that is known; its weights are not stored in fewer bits. */
static bool is_product(const ir_node *node) {
    return node && pass_multiplies_constant(node) && op_shape_known(&ir_input(node, 0)->type.shape) &&
           !op_attribute_find(&node->attributes, "ouro.weights_error");
}

/* The node with the attribute that asks for codes: whether a kernel wants its weights so. */
static base_status mark(pass_context *context, ir_node *node, bool *marked) {
    const op_attributes before = node->attributes;
    const op_attribute bits = {
        .name = "ouro.weights_bits", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = RT_CODE_BITS};
    rt_preference wish = {0};
    op_call call;
    *marked = false;
    if (!ir_attribute_set(context->module, &node->attributes, &bits) ||
        !ir_node_call(node, context->scratch, &call))
        return base_fail_memory(context->report);
    *marked = rt_kernel_wishing(&call, &context->options->environment, &wish) != NULL &&
              wish.inputs[1] == OP_LAYOUT_PACKED &&
              wish.packed_bytes[1] < ir_input(node, 1)->constant->tensor.bytes;
    if (!*marked) node->attributes = before;
    return BASE_OK;
}

/* Bytes of the weights of all products, or of those that are `marked`, where it is not NULL; each matrix once. `counted` is by value id. */
static size_t weight_bytes(const ir_module *module, const bool *marked, bool *counted) {
    size_t bytes = 0;
    for (size_t v = 0; v < module->value_count; v++) counted[v] = false;
    for (size_t n = 1; n < module->node_count; n++) {
        const ir_node *node = module->nodes[n];
        if (!is_product(node) || (marked && !marked[n])) continue;
        const ir_value *weights = ir_input(node, 1);
        if (!counted[weights->id.index])
            bytes += weights->constant->tensor.bytes; /* all of them are in memory */
        counted[weights->id.index] = true;
    }
    return bytes;
}

base_status pass_compress_weights(pass_context *context) {
    ir_module *module = context->module;
    const size_t cached = pass_cached_bytes(context->options);
    bool *counted = BASE_ARRAY(context->scratch, bool, module->value_count);
    op_attributes *before = BASE_ARRAY(context->scratch, op_attributes, module->node_count);
    bool *marked = BASE_ARRAY(context->scratch, bool, module->node_count);
    if (!counted || !before || !marked) return base_fail_memory(context->report);
    /* Of most models: nothing is packed to see how many bytes it takes. */
    if (weight_bytes(module, NULL, counted) < cached) return BASE_OK;
    for (size_t n = 1; n < module->node_count; n++) {
        ir_node *node = module->nodes[n];
        if (!is_product(node)) continue;
        before[n] = node->attributes;
        base_status status = mark(context, node, &marked[n]);
        if (status != BASE_OK) return status;
    }
    if (weight_bytes(module, marked, counted) >= cached) return BASE_OK;
    for (size_t n = 1; n < module->node_count; n++)
        if (marked[n]) module->nodes[n]->attributes = before[n];
    return BASE_OK;
}
