/* SPDX-License-Identifier: Apache-2.0 */
/* scale_channels.c: BatchNormalization that no other node has taken in becomes a product and a sum, by constants of its channels.
 *
 *     %y = BatchNormalization(%x, %scale, %bias, %mean, %variance)  %z = Relu(%y)
 *  => %m = Mul(%x, %factors)  %y = Add(%m, %shifts)  %z = Relu(%y)
 *
 * factors = scale / sqrt(variance + epsilon), shifts = bias - mean * factors, [C, 1, ...], computed in double and rounded once. Elementwise
 * operators take these in (fuse_elementwise.c): one pass over the tensor does what two or more did. The sum rounds no more than
 * what made x has rounded already: where the mean is much larger than the deviation, x has lost those digits before.
 *
 * Of float and double only: kernels compute 16 bits in float and round once, where Mul and Add would round twice. Not in training,
 * nor where a factor or a shift is no number, too large, or has lost digits because it is too small: what becomes of x is
 * then another matter. Nor where Mul and Add could not become one node: of few elements, or of extents without names. There is
 * no Mul by ones. A sum with zeros stays: it makes 0 of -0, as BatchNormalization does.
 *
 * Needs: types; what can take a BatchNormalization in has done so. Breaks: nothing. Guarantees: values stay what they were, up to rounding; types
 * of all values.
 */
#include "passes/graph/graph.h"
#include <float.h>
#include <math.h>

/* fuse_elementwise.c makes one node of no smaller ones. */
enum { LEAST_ELEMENTS = 16 };

typedef struct channels {
    const ir_node *node;
    op_dtype dtype;
    int64_t count;
    double *factors, *shifts;
} channels;

/* The number of a channel in a constant of any type of reals. */
static double number_at(const ir_value *value, int64_t channel) {
    const void *data = value->constant->tensor.data;
    switch (value->type.dtype) {
    case OP_FLOAT:
        return (double)((const float *)data)[channel];
    case OP_DOUBLE:
        return ((const double *)data)[channel];
    default:
        return (double)pass_widen(value->type.dtype, ((const uint16_t *)data)[channel]);
    }
}

static bool has_numbers(const ir_value *value, int64_t count) {
    int64_t elements;
    if (!value || !value->constant || value->type.layout != OP_LAYOUT_ROW_MAJOR ||
        !op_shape_elements(&value->type.shape, &elements) || elements != count)
        return false;
    const op_dtype dtype = value->type.dtype;
    return dtype == OP_FLOAT || dtype == OP_DOUBLE || dtype == OP_FLOAT16 || dtype == OP_BFLOAT16;
}

static bool is_scaled_by_constants(const ir_node *node) {
    const ir_value *x = ir_input(node, 0), *y = node->output_count == 1 ? node->outputs[0] : NULL;
    int64_t elements;
    if (node->code != OP_BATCH_NORMALIZATION || !x || !y || node->input_count != 5 ||
        op_attribute_integer(&node->attributes, "training_mode", 0) ||
        op_attribute_find(&node->attributes, "ouro.activation"))
        return false;
    const op_shape *shape = &y->type.shape;
    if ((y->type.dtype != OP_FLOAT && y->type.dtype != OP_DOUBLE) || x->type.dtype != y->type.dtype ||
        shape->rank < 2 || !op_shape_named(shape) || shape->dims[1] < 1 || x->constant ||
        !op_shape_same(shape, &x->type.shape))
        return false;
    if (op_shape_known(shape) && (!op_shape_elements(shape, &elements) || elements < LEAST_ELEMENTS))
        return false;
    for (uint32_t i = 1; i < 5; i++)
        if (!has_numbers(ir_input(node, i), shape->dims[1])) return false;
    return true;
}

/* Rounded to the type, it is a number that has all its digits. */
static bool keeps_digits(op_dtype dtype, double number) {
    const double most = dtype == OP_FLOAT ? FLT_MAX : DBL_MAX, least = dtype == OP_FLOAT ? FLT_MIN : DBL_MIN;
    return number == 0 || (fabs(number) >= least && fabs(number) <= most);
}

/* False where some number is not to be computed with. */
static bool compute_channels(const channels *of) {
    const double epsilon = (double)op_attribute_real(&of->node->attributes, "epsilon", 1e-5f);
    for (int64_t c = 0; c < of->count; c++) {
        double numbers[5];
        for (uint32_t i = 1; i < 5; i++) numbers[i] = number_at(ir_input(of->node, i), c);
        of->factors[c] = numbers[1] / sqrt(numbers[4] + epsilon);
        of->shifts[c] = numbers[2] - numbers[3] * of->factors[c];
        if (!keeps_digits(of->dtype, of->factors[c])) return false;
        if (!isfinite(of->shifts[c]) || fabs(of->shifts[c]) > (of->dtype == OP_FLOAT ? FLT_MAX : DBL_MAX))
            return false;
    }
    return true;
}

/* A constant [C, 1, ...] that is broadcast to the tensor. NULL when memory runs out. */
static ir_value *channel_constant(ir_module *module, const channels *of, const char *name,
                                  const double *numbers) {
    op_type type = {.dtype = of->dtype, .shape = {.rank = of->node->outputs[0]->type.shape.rank - 1}};
    for (int32_t d = 0; d < type.shape.rank; d++) type.shape.dims[d] = d ? 1 : of->count;
    size_t bytes;
    void *data;
    ir_value *value =
        op_type_bytes(&type, &bytes) ? ir_constant_reserve(module, name, &type, bytes, &data) : NULL;
    for (int64_t c = 0; value && c < of->count; c++) {
        if (of->dtype == OP_FLOAT) ((float *)data)[c] = (float)numbers[c];
        else ((double *)data)[c] = numbers[c];
    }
    return value;
}

static bool are_ones(const channels *of) {
    for (int64_t c = 0; c < of->count; c++)
        if ((of->dtype == OP_FLOAT ? (double)(float)of->factors[c] : of->factors[c]) != 1) return false;
    return true;
}

/* The node becomes the sum; what it reads, the product. False when memory runs out. */
static bool replace(ir_module *module, ir_node *node, const channels *of) {
    const ir_value *y = node->outputs[0];
    ir_value *x = ir_input(node, 0);
    if (!are_ones(of)) {
        ir_value *inputs[] = {x, channel_constant(module, of, ir_input(node, 1)->name, of->factors)};
        ir_node *product = inputs[1] ? ir_node_new(node->graph, node, OP_MUL, node->name, node->path,
                                                   (op_attributes){0}, 2, inputs)
                                     : NULL;
        x = product ? ir_node_add_output(product, y->name, &y->type) : NULL;
        if (!x) return false;
    }
    ir_value *shifts = channel_constant(module, of, ir_input(node, 2)->name, of->shifts);
    if (!shifts || !ir_node_set_input(node, 0, x) || !ir_node_set_input(node, 1, shifts)) return false;
    while (node->input_count > 2) ir_node_remove_input(node, node->input_count - 1);
    node->code = OP_ADD;
    node->attributes = (op_attributes){0};
    return true;
}

base_status pass_scale_channels(pass_context *context) {
    ir_module *module = context->module;
    const size_t count = module->node_count;
    for (size_t n = 1; n < count; n++) {
        ir_node *node = module->nodes[n];
        if (!node || !is_scaled_by_constants(node)) continue;
        channels of = {.node = node,
                       .dtype = node->outputs[0]->type.dtype,
                       .count = node->outputs[0]->type.shape.dims[1]};
        of.factors = BASE_ARRAY(context->scratch, double, (size_t)of.count);
        of.shifts = BASE_ARRAY(context->scratch, double, (size_t)of.count);
        if (!of.factors || !of.shifts) return base_fail_memory(context->report);
        if (compute_channels(&of) && !replace(module, node, &of)) return base_fail_memory(context->report);
    }
    return BASE_OK;
}
