/* SPDX-License-Identifier: Apache-2.0 */
/* fuse_reductions.c: sums and means of absolutes and of squares take these of the elements that they read.
 *
 *     %s = Mul(%x, %x)  %y = ReduceSum(%s, %axes)
 *  => %y = ReduceSum(%x, %axes) {ouro.of = "Square"}
 *
 * ReduceL1, ReduceL2 and ReduceSumSquare come as these pairs from import. The squares are no tensor any more: they take no memory, and are not
 * written and read again. Only the reduction may read them, and x must lie row-major; it has as many bytes as they have, so that nothing
 * is lost where it is kept for longer. Squares of 16 bits, which are rounded, stay.
 *
 * Needs: types, layouts; no dead nodes; normalisations are found, which have such pairs. Breaks: nothing. Guarantees: values stay what they
 * were, bit by bit.
 */
#include "passes/layout/layout.h"
#include <string.h>

/* What the node makes of its input 0, as "ouro.of" says it; NULL: something else. */
static const char *part_of(const ir_node *node) {
    float two = 0;
    switch (node->code) {
    case OP_ABS:
        return "Abs";
    case OP_MUL:
        return ir_input(node, 0) == ir_input(node, 1) ? "Square" : NULL;
    case OP_POW:
        return pass_read_number(ir_input(node, 1), node->outputs[0]->type.shape.rank, &two) && two == 2
                   ? "Square"
                   : NULL;
    default:
        return NULL;
    }
}

/* False when memory runs out. */
static bool take_in(ir_module *module, ir_node *reduction) {
    const ir_value *made = ir_input(reduction, 0);
    if (!made || made->kind != IR_RESULT_OF_NODE || made->node->graph != reduction->graph ||
        pass_only_reader(made->node, reduction->code) != reduction || reduction->output_count != 1 ||
        op_attribute_find(&reduction->attributes, "ouro.of"))
        return true;
    ir_node *const node = made->node;
    const char *of = part_of(node);
    ir_value *const x = ir_input(node, 0);
    const op_type *type = &made->type, *result = &reduction->outputs[0]->type;
    if (!of || (type->dtype != OP_FLOAT && type->dtype != OP_DOUBLE) || !x || x->type.dtype != type->dtype ||
        x->type.kind != OP_KIND_TENSOR || x->type.layout != OP_LAYOUT_ROW_MAJOR ||
        type->layout != OP_LAYOUT_ROW_MAJOR || result->layout != OP_LAYOUT_ROW_MAJOR ||
        !op_shape_equal(&x->type.shape, &type->shape))
        return true;
    const op_attribute set = {
        .name = "ouro.of", .kind = OP_ATTRIBUTE_STRING, .count = 1, .as.text = {of, strlen(of)}};
    if (!ir_attribute_set(module, &reduction->attributes, &set) || !ir_node_set_input(reduction, 0, x))
        return false;
    ir_node_remove(node);
    return true;
}

base_status pass_fuse_reductions(pass_context *context) {
    ir_module *module = context->module;
    for (size_t i = 1; i < module->node_count; i++) {
        ir_node *node = module->nodes[i];
        if (!node || (node->code != OP_REDUCE_SUM && node->code != OP_REDUCE_MEAN)) continue;
        if (!take_in(module, node)) return base_fail_memory(context->report);
    }
    return BASE_OK;
}
