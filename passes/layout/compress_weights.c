/* SPDX-License-Identifier: Apache-2.0 */
/* compress_weights.c: constant weights of products in float that come from memory in each run are packed in 28 bits, without loss.
 *
 *     %y: float32[1,n] = MatMul(%x, %w: float32[k,n], %b)
 *  => %y: float32[1,n] = MatMul(%x, %w: float32[k,n], %b) {ouro.weights_bits = 28}
 *
 * A product of few rows takes as long as its weights take to be read. Where all of them together are more than the last cache holds, that is
 * from memory, in every run: an eighth less to read is about an eighth less time. Where they stay in a cache, making floats of codes
 * takes longer than reading floats. So it is all of them or none.
 *
 * What the codes are is in runtime/kernels/portable/float_codes.h. Results are the same, to the last bit. Which products a kernel takes so,
 * it says itself.
 *
 * Needs: types; after weights were put into 16 bits where that is asked for, which takes more away. Breaks: nothing. Guarantees: only
 * attributes change.
 */
#include "passes/layout/layout.h"
#include "runtime/kernels/table.h"
#include <string.h>

enum {
    BITS = 28,
    /* The last cache that a core reads from has 32 MiB in most processors that such models run on. What exceeds it by half finds next
     * to nothing there when it comes round again. */
    CACHED_BYTES = 48 << 20
};

/* A product in float with a constant matrix, of a number of rows that is known. */
static bool is_product(const ir_node *node) {
    if ((node->code != OP_MATMUL && node->code != OP_GEMM) || node->output_count != 1) return false;
    const ir_value *x = ir_input(node, 0), *weights = ir_input(node, 1);
    return x && weights && weights->constant && x->type.dtype == OP_FLOAT &&
           weights->type.dtype == OP_FLOAT && weights->type.layout == OP_LAYOUT_ROW_MAJOR &&
           op_shape_known(&x->type.shape);
}

/* The node with the attribute that asks for codes: whether a kernel wants its weights so. */
static base_status mark(pass_context *context, ir_node *node, bool *marked) {
    const op_attributes before = node->attributes;
    const op_attribute bits = {
        .name = "ouro.weights_bits", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = BITS};
    const int64_t *shape = ir_input(node, 1)->type.shape.dims;
    const size_t floats = (size_t)shape[0] * (size_t)shape[1] * sizeof(float);
    rt_preference wish = {0};
    op_call call;
    *marked = false;
    if (!ir_attribute_set(context->module, &node->attributes, &bits) ||
        !ir_node_call(node, context->scratch, &call))
        return base_fail_memory(context->report);
    *marked = rt_kernel_wishing(&call, &context->options->environment, &wish) != NULL &&
              wish.inputs[1] == OP_LAYOUT_PACKED && wish.packed_bytes[1] < floats;
    if (!*marked) node->attributes = before;
    return BASE_OK;
}

base_status pass_compress_weights(pass_context *context) {
    ir_module *module = context->module;
    const size_t value_count = module->value_count, wanted = context->options->cached_weight_bytes,
                 cached = wanted ? wanted : CACHED_BYTES;
    size_t bytes = 0;
    bool *counted = BASE_ARRAY(context->scratch, bool, value_count);
    op_attributes *before = BASE_ARRAY(context->scratch, op_attributes, module->node_count);
    bool *marked = BASE_ARRAY(context->scratch, bool, module->node_count);
    if (!counted || !before || !marked) return base_fail_memory(context->report);
    for (size_t n = 1; n < module->node_count; n++) {
        const ir_node *node = module->nodes[n];
        if (!node || !is_product(node)) continue;
        const ir_value *weights = ir_input(node, 1);
        if (counted[weights->id.index]) continue;
        counted[weights->id.index] = true;
        bytes += weights->constant->tensor.bytes; /* all of them are in memory */
    }
    if (bytes < cached) return BASE_OK; /* most models: nothing is packed to see how many bytes it takes */
    memset(counted, 0, value_count * sizeof *counted);
    bytes = 0;
    for (size_t n = 1; n < module->node_count; n++) {
        ir_node *node = module->nodes[n];
        if (!node || !is_product(node)) continue;
        const ir_value *weights = ir_input(node, 1);
        before[n] = node->attributes;
        base_status status = mark(context, node, &marked[n]);
        if (status != BASE_OK) return status;
        if (!marked[n] || counted[weights->id.index]) continue;
        counted[weights->id.index] = true;
        bytes += weights->constant->tensor.bytes;
    }
    for (size_t n = 1; n < module->node_count && bytes < cached; n++) {
        if (marked[n]) module->nodes[n]->attributes = before[n];
    }
    return BASE_OK;
}
