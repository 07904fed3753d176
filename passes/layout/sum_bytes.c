/* SPDX-License-Identifier: Apache-2.0 */
/* sum_bytes.c: means of dequantised bytes become sums of the bytes.
 *
 *     %f = DequantizeLinear(%x: uint8[1,512,14,14], %scale, %zero)  %y = GlobalAveragePool(%f)
 *  => %s: int32[1,512,1,1] = ReduceSum(%x, [2, 3]) {ouro.wide = 1}  %y = DequantizeLinear(%s, scale / 196, 196 * zero)
 *
 * ReduceMean, and AveragePool whose window is the whole map, likewise. So floats, four times as many bytes, are not made, and the sum is exact:
 * the mean differs from that of the floats by what those round. What a Transpose did only for this goes, too, where the axes that stay are in
 * the same order before it:
 *
 *     %t = Transpose(%x: uint8[1,14,14,512]) {perm = [0, 3, 1, 2]}  %f = DequantizeLinear(%t, ...)  %y = GlobalAveragePool(%f)
 *  => %s: int32[1,512] = ReduceSum(%x, [1, 2]) {ouro.wide = 1, keepdims = 0}  %u: int32[1,512,1,1] = Unsqueeze(%s)  ...
 *
 * One constant scale and zero point; sums that 32 bits hold; only where nothing else reads the floats. Not with exact arithmetic.
 *
 * Needs: types, layouts; no dead nodes; bands, which know means of floats, are made. Breaks: nothing. Guarantees: values are what they were,
 * up to rounding.
 */
#include "passes/layout/layout.h"
#include <string.h>

typedef struct mean {
    ir_node *node, *dequantize, *transpose; /* the last one may be NULL */
    ir_value *x;
    bool marks[OP_MAX_RANK]; /* axes of x that are summed */
    bool keeps;              /* axes of one element are left where axes of the node's input are summed */
    int64_t count;           /* elements of a sum */
    float scale;
    int32_t zero;
} mean;

/* ---- questions ----------------------------------------------------------------------------------------- */

static bool is_plain(const ir_value *value) {
    return value && value->type.kind == OP_KIND_TENSOR && value->type.layout == OP_LAYOUT_ROW_MAJOR &&
           value->type.shape.rank >= 0;
}

/* One constant scale, and one zero point or none. */
static bool read_scale(const ir_node *node, mean *of) {
    const ir_value *scale = ir_input(node, 1), *zero = ir_input(node, 2);
    int64_t scales, zeros;
    if (!scale || !scale->constant || scale->type.dtype != OP_FLOAT ||
        !op_shape_elements(&scale->type.shape, &scales) || scales != 1 ||
        op_attribute_integer(&node->attributes, "block_size", 0) != 0)
        return false;
    of->scale = ((const float *)scale->constant->tensor.data)[0];
    of->zero = 0;
    if (!zero) return true;
    if (!zero->constant || !op_shape_elements(&zero->type.shape, &zeros) || zeros != 1) return false;
    const void *data = zero->constant->tensor.data;
    of->zero = zero->type.dtype == OP_UINT8 ? ((const uint8_t *)data)[0] : ((const int8_t *)data)[0];
    return true;
}

/* The only window of the pool is the whole map, without padding. */
static bool sees_all(const ir_node *pool) {
    const op_shape *x = &ir_input(pool, 0)->type.shape, *y = &pool->outputs[0]->type.shape;
    size_t sides, pads;
    const int64_t *kernel = op_attribute_integers(&pool->attributes, "kernel_shape", &sides),
                  *padding = op_attribute_integers(&pool->attributes, "pads", &pads);
    if (!kernel || sides + 2 != (size_t)x->rank || y->rank != x->rank ||
        op_attribute_integer(&pool->attributes, "ouro.sum", 0) != 0)
        return false;
    for (size_t i = 0; i < sides; i++)
        if (kernel[i] != x->dims[i + 2] || y->dims[i + 2] != 1) return false;
    for (size_t i = 0; padding && i < pads; i++)
        if (padding[i] != 0) return false;
    return true;
}

static bool is_pool(const ir_node *node) {
    return node->code == OP_GLOBAL_AVERAGE_POOL || node->code == OP_AVERAGE_POOL;
}

/* Which axes of its input the node takes the mean of. */
static bool read_axes(const ir_node *node, bool *marks) {
    const int32_t rank = ir_input(node, 0)->type.shape.rank;
    for (int32_t d = 0; d < rank; d++) marks[d] = is_pool(node) && d >= 2;
    if (is_pool(node)) return rank >= 3 && (node->code == OP_GLOBAL_AVERAGE_POOL || sees_all(node));
    return pass_read_axes(ir_input(node, 1), rank, marks);
}

/* Reads the Transpose before, where what stays is in the same order without it. */
static void take_transpose(mean *of) {
    ir_node *node = of->x->node;
    const int32_t rank = of->x->type.shape.rank;
    int64_t order[OP_MAX_RANK], before = -1;
    bool marks[OP_MAX_RANK] = {false};
    if (!node || node->code != OP_TRANSPOSE || node->graph != of->node->graph ||
        pass_only_reader(node, OP_DEQUANTIZE_LINEAR) != of->dequantize || !is_plain(ir_input(node, 0)) ||
        ir_input(node, 0)->type.shape.rank != rank || !pass_transpose_order(node, rank, order))
        return;
    for (int32_t d = 0; d < rank; d++) {
        marks[order[d]] = of->marks[d];
        if (of->marks[d]) continue;
        if (order[d] < before) return;
        before = order[d];
    }
    of->transpose = node;
    of->x = ir_input(node, 0);
    memcpy(of->marks, marks, sizeof marks);
}

/* Everything but whether a kernel sums these axes. */
static bool read_mean(ir_node *node, mean *of) {
    const ir_value *floats = ir_input(node, 0), *y = node->outputs[0];
    *of = (mean){.node = node, .count = 1};
    if (!is_plain(floats) || !is_plain(y) || y->type.dtype != OP_FLOAT || floats->type.dtype != OP_FLOAT ||
        !floats->node || floats->node->graph != node->graph || floats->node->code != OP_DEQUANTIZE_LINEAR ||
        pass_only_reader(floats->node, node->code) != node)
        return false;
    of->dequantize = floats->node;
    of->x = ir_input(of->dequantize, 0);
    if (!is_plain(of->x) || of->x->constant ||
        (of->x->type.dtype != OP_INT8 && of->x->type.dtype != OP_UINT8) || !read_scale(of->dequantize, of) ||
        !read_axes(node, of->marks))
        return false;
    of->keeps = op_attribute_integer(&node->attributes, "keepdims", 1) != 0; /* pools do */
    const int32_t rank = of->x->type.shape.rank;
    for (int32_t d = 0; d < rank; d++) {
        if (!of->marks[d]) continue;
        if (of->x->type.shape.dims[d] < 1 ||
            !base_int64_multiply(of->count, of->x->type.shape.dims[d], &of->count) ||
            of->count > INT32_MAX / 256)
            return false;
    }
    take_transpose(of);
    return true;
}

/* ---- the change ---------------------------------------------------------------------------------------- */

static ir_value *number(ir_module *module, const char *name, op_dtype dtype, const void *data, size_t bytes) {
    const op_type type = {.dtype = dtype};
    return ir_constant_copy(module, name, &type, data, bytes);
}

static ir_value *axes_of(ir_module *module, const bool *marks, int32_t rank) {
    op_type type = {.dtype = OP_INT64, .shape = {.rank = 1}};
    int64_t axes[OP_MAX_RANK], count = 0;
    for (int32_t d = 0; d < rank; d++)
        if (marks[d]) axes[count++] = d;
    type.shape.dims[0] = count;
    return ir_constant_copy(module, "axes", &type, axes, (size_t)count * sizeof *axes);
}

/* The node of the sums, before that of the mean. NULL when memory runs out. */
static ir_node *make_sum(ir_module *module, const mean *of) {
    const op_attribute numbers[] = {
        {.name = "keepdims", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = of->keeps && !of->transpose},
        {.name = "ouro.wide", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = 1}};
    op_attributes attributes = {0};
    ir_value *inputs[] = {of->x, axes_of(module, of->marks, of->x->type.shape.rank)};
    op_type type = of->node->outputs[0]->type;
    type.dtype = OP_INT32;
    if (of->transpose) {
        type.shape.rank = 0;
        for (int32_t d = 0; d < of->x->type.shape.rank; d++)
            if (!of->marks[d]) type.shape.dims[type.shape.rank++] = of->x->type.shape.dims[d];
    }
    for (int i = 0; i < 2; i++)
        if (!ir_attribute_set(module, &attributes, &numbers[i])) return NULL;
    ir_node *node = inputs[1] ? ir_node_new(of->node->graph, of->node, OP_REDUCE_SUM, of->node->name,
                                            of->node->path, attributes, 2, inputs)
                              : NULL;
    return node && ir_node_add_output(node, of->node->outputs[0]->name, &type) ? node : NULL;
}

/* The mean of the sums. NULL when memory runs out. */
static ir_value *make_mean(ir_module *module, const mean *of, ir_value *sum) {
    const ir_value *y = of->node->outputs[0];
    const float scale = (float)((double)of->scale / (double)of->count);
    const int32_t zero = (int32_t)(of->zero * of->count);
    if (of->transpose && of->keeps) {
        bool marks[OP_MAX_RANK];
        op_type type = y->type;
        type.dtype = OP_INT32;
        if (!read_axes(of->node, marks)) return NULL;
        ir_value *inputs[] = {sum, axes_of(module, marks, y->type.shape.rank)};
        ir_node *node = inputs[1] ? ir_node_new(of->node->graph, of->node, OP_UNSQUEEZE, of->node->name,
                                                of->node->path, (op_attributes){0}, 2, inputs)
                                  : NULL;
        sum = node ? ir_node_add_output(node, y->name, &type) : NULL;
    }
    ir_value *inputs[3] = {sum};
    inputs[1] = number(module, "scale", OP_FLOAT, &scale, sizeof scale);
    inputs[2] = number(module, "zero", OP_INT32, &zero, sizeof zero);
    ir_node *node = sum && inputs[1] && inputs[2]
                        ? ir_node_new(of->node->graph, of->node, OP_DEQUANTIZE_LINEAR, of->dequantize->name,
                                      of->dequantize->path, (op_attributes){0}, 3, inputs)
                        : NULL;
    return node ? ir_node_add_output(node, y->name, &y->type) : NULL;
}

static void remove_unread(ir_module *module, ir_value *constant) {
    if (constant && constant->constant && !constant->uses) ir_constant_remove(module, constant);
}

/* False when memory runs out. */
static bool change(pass_context *context, const mean *of) {
    op_call call;
    ir_node *sum = make_sum(context->module, of);
    if (!sum || !ir_node_call(sum, context->scratch, &call)) return false;
    if (!rt_kernel_select(&call, &context->options->environment)) {
        ir_value *axes = ir_input(sum, 1);
        ir_node_remove(sum);
        remove_unread(context->module, axes);
        return true;
    }
    ir_value *made = make_mean(context->module, of, sum->outputs[0]);
    if (!made) return false;
    ir_value *const parameters[] = {ir_input(of->dequantize, 1), ir_input(of->dequantize, 2),
                                    ir_input(of->node, 1)};
    ir_value_replace(of->node->outputs[0], made);
    ir_node_remove(of->node);
    ir_node_remove(of->dequantize);
    if (of->transpose) ir_node_remove(of->transpose);
    for (int i = 0; i < 3; i++) remove_unread(context->module, parameters[i]);
    return true;
}

base_status pass_sum_bytes(pass_context *context) {
    const size_t count = context->options->exact_arithmetic ? 0 : context->module->node_count;
    for (size_t n = 1; n < count; n++) {
        ir_node *node = context->module->nodes[n];
        mean of;
        if (!node || (!is_pool(node) && node->code != OP_REDUCE_MEAN) || node->output_count != 1 ||
            !node->outputs[0] || !read_mean(node, &of))
            continue;
        if (!change(context, &of)) return base_fail_memory(context->report);
    }
    return BASE_OK;
}
