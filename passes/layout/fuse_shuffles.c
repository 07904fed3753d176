/* SPDX-License-Identifier: Apache-2.0 */
/* fuse_shuffles.c: a convolution of each channel by itself reads channels that are put in another order where they lie.
 *
 *     %a: [1,4,60,28,28] = Reshape(%x)  %b = Transpose(%a) {perm = [0, 2, 1, 3, 4]}  %c: [1,240,28,28] = Reshape(%b)
 *     %y = Conv(%c, %w: [240,1,3,3]) {group = 240, ...}
 *  => %y = ouro.ShuffledConv(%x, %w) {group = 240, shuffle = 4, ...}
 *
 * ShuffleNets do so between two convolutions of groups, in each of their blocks. The copy goes, and so does its memory. Gathers of channels
 * in such an order likewise. Only where such convolutions alone read what is shuffled, and only where the kernel of row-major images runs
 * them. Bands are made of such a convolution as of any other, and gather other shuffles (passes/bands/shuffles.c).
 *
 * Needs: types, layouts; no dead nodes. Breaks: nothing. Guarantees: values stay what they were, bit
 * by bit.
 */
#include "passes/layout/layout.h"

/* A convolution that reads the value as its image, and nothing else of it; each channel by itself. */
static bool may_read(const ir_node *node, const ir_value *value) {
    if (!node || node->code != OP_CONV || node->graph != value->node->graph) return false;
    for (uint32_t i = 0; i < node->input_count; i++)
        if ((ir_input(node, i) == value) != (i == 0)) return false;
    return op_attribute_integer(&node->attributes, "group", 1) == value->type.shape.dims[1];
}

/* The attributes with which the same kernel reads what is not shuffled yet. False, with a status, where no kernel does, or memory runs out. */
static bool read_shuffled(pass_context *context, const ir_node *node, int64_t groups,
                          op_attributes *attributes, base_status *status) {
    const op_attribute shuffle = {
        .name = "shuffle", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = groups};
    const rt_environment *environment = &context->options->environment;
    op_call call;
    *attributes = node->attributes;
    if (!ir_node_call(node, context->scratch, &call) ||
        !ir_attribute_set(context->module, attributes, &shuffle)) {
        *status = base_fail_memory(context->report);
        return false;
    }
    const rt_kernel *kernel = rt_kernel_select(&call, environment);
    call.code = OP_SHUFFLED_CONV;
    call.attributes = *attributes;
    return kernel && kernel == rt_kernel_select(&call, environment);
}

static base_status fuse(pass_context *context, ir_value *value, ir_value *x, int64_t groups) {
    op_attributes attributes;
    base_status status = BASE_OK;
    if (!value->uses || x->type.layout != value->type.layout) return BASE_OK;
    for (const ir_use *use = value->uses; use; use = use->next)
        if (!may_read(use->node, value) || !read_shuffled(context, use->node, groups, &attributes, &status))
            return status;
    while (value->uses) {
        ir_node *node = value->uses->node;
        if (!read_shuffled(context, node, groups, &attributes, &status)) return status;
        if (!ir_node_set_input(node, 0, x)) return base_fail_memory(context->report);
        node->code = OP_SHUFFLED_CONV;
        node->attributes = attributes;
    }
    pass_remove_shuffle(value);
    return BASE_OK;
}

base_status pass_fuse_shuffles(pass_context *context) {
    ir_module *module = context->module;
    for (size_t i = 1; i < module->node_count; i++) {
        const ir_node *node = module->nodes[i];
        ir_value *x;
        int64_t groups;
        if (!node || node->output_count != 1 || !node->outputs[0] ||
            !pass_read_shuffle(node->outputs[0], &x, &groups))
            continue;
        const base_status status = fuse(context, node->outputs[0], x, groups);
        if (status != BASE_OK) return status;
    }
    return BASE_OK;
}
