/* SPDX-License-Identifier: Apache-2.0 */
/* fuse_quantized.c: what a model says with QuantizeLinear and DequantizeLinear around its operators is done on integers.
 *
 *     QuantizeLinear(Relu(Conv(DequantizeLinear(%x), DequantizeLinear(%w), DequantizeLinear(%b))))  =>  QLinearConv(%x, ..., %w, ..., %b)
 *     QuantizeLinear(MatMul(DequantizeLinear(%x), DequantizeLinear(%w)))                            =>  QLinearMatMul(%x, ..., %w, ...)
 *     Gemm(DequantizeLinear(%x), DequantizeLinear(%w), DequantizeLinear(%b))
 *       =>  DequantizeLinear(Add(MatMulInteger(%x, %w), %b))       in 32 bits until then; MatMul and Add likewise
 *     QuantizeLinear(MatMul(DequantizeLinear(%x), DequantizeLinear(%y)))                            =>  QLinearMatMul(%x, ..., %y, ...)
 *     QuantizeLinear(MaxPool(DequantizeLinear(%x)))                                                 =>  MaxPool(%x)
 *     Transpose(DequantizeLinear(%x))                                                               =>  DequantizeLinear(Transpose(%x))
 *
 * So weights stay the bytes that they are in the file, and products are sums of integers. The last but one holds for what only
 * moves or chooses elements (Reshape, Transpose, Concat, ...), where the scale and the zero point are the same before and after; the last one too, but
 * for what joins or chooses among several.
 * Scales and zero points are constants: one for a tensor, for weights one for the tensor or one for each filter or column.
 * A bias is integers in the scale of the products, as quantisers write it. A Relu or a Clip is taken in where what it cuts off has
 * no number in the quantised result anyway.
 *
 * A value between is taken in only if nobody else reads it. What is read of a DequantizeLinear by others stays.
 *
 * Needs: types; before constants are folded, because then the weights would be reals. Breaks: that somebody reads every node.
 * Guarantees: the numbers are those of the integer operators; they may differ from the reals', rounded, by one step.
 */
#include "passes/graph/graph.h"
#include <math.h>
#include <string.h>

enum { MOST_INPUTS = 5 /* of an operator that moves elements */ };

typedef struct fuser {
    pass_context *context;
    ir_module *module;
    bool out_of_memory;
} fuser;

/* A tensor of 8 or 32 bits with its scale and zero point: the inputs of a DequantizeLinear, or the last two of a QuantizeLinear. */
typedef struct quantized {
    ir_value *tensor, *scale, *zero;
    int64_t count; /* scales: 1, or one for each position along the axis */
    int64_t axis;  /* not negative */
} quantized;

/* ---- questions ----------------------------------------------------------------------------------------- */

static bool is_byte(op_dtype dtype) {
    return dtype == OP_INT8 || dtype == OP_UINT8;
}

static bool read_parameters(const ir_node *node, quantized *of) {
    const int32_t rank = ir_input(node, 0)->type.shape.rank;
    int64_t zeros;
    *of = (quantized){.scale = ir_input(node, 1), .zero = ir_input(node, 2)};
    if (!of->scale || !of->scale->constant || of->scale->type.dtype != OP_FLOAT || rank < 0 ||
        op_attribute_integer(&node->attributes, "block_size", 0) != 0 ||
        !op_shape_elements(&of->scale->type.shape, &of->count))
        return false;
    if (of->zero &&
        (!of->zero->constant || !op_shape_elements(&of->zero->type.shape, &zeros) || zeros != of->count))
        return false;
    of->axis = op_attribute_integer(&node->attributes, "axis", 1);
    if (of->axis < 0) of->axis += rank;
    return of->count == 1 || of->scale->type.shape.rank == 1;
}

/* The value is made by a DequantizeLinear to float32. */
static bool read_dequantized(const ir_value *value, quantized *of) {
    const ir_node *node = value ? value->node : NULL;
    if (!node || node->code != OP_DEQUANTIZE_LINEAR || value->type.dtype != OP_FLOAT || !ir_input(node, 0))
        return false;
    if (!read_parameters(node, of)) return false;
    of->tensor = ir_input(node, 0);
    return true;
}

/* An activation: bytes, one scale, and a zero point, which the integer operators want. */
static bool read_activation(const ir_value *value, quantized *of) {
    return read_dequantized(value, of) && of->count == 1 && of->zero && is_byte(of->tensor->type.dtype);
}

/* Constant weights, with scales along this axis, where there are several. */
static bool read_weights(const ir_value *value, int64_t axis, quantized *of) {
    return read_dequantized(value, of) && of->tensor->constant && of->zero &&
           is_byte(of->tensor->type.dtype) &&
           (of->count == 1 || (of->axis == axis && axis < of->tensor->type.shape.rank &&
                               of->tensor->type.shape.dims[axis] == of->count));
}

static const float *reals(const ir_value *constant) {
    return constant->constant->tensor.data;
}

/* The only node that reads the value, where it is not a result. */
static ir_node *only_reader(const ir_value *value) {
    const ir_use *use = value->uses;
    return use && !use->next && use->node && use->node->graph == value->graph ? use->node : NULL;
}

static bool read_quantizer(const ir_node *node, quantized *of) {
    return node && node->code == OP_QUANTIZE_LINEAR && node->output_count == 1 && node->outputs[0] &&
           read_parameters(node, of) && of->count == 1 && of->zero && is_byte(of->zero->type.dtype) &&
           is_byte(node->outputs[0]->type.dtype);
}

static int64_t zero_of(const quantized *of) {
    const void *data = of->zero->constant->tensor.data;
    return of->zero->type.dtype == OP_UINT8 ? *(const uint8_t *)data : *(const int8_t *)data;
}

static bool scalar_of(const ir_value *value, float otherwise, float *number) {
    int64_t count;
    *number = otherwise;
    if (!value) return true;
    if (!value->constant || value->type.dtype != OP_FLOAT || !op_shape_elements(&value->type.shape, &count) ||
        count != 1)
        return false;
    *number = reals(value)[0];
    return true;
}

/* The node cuts off only numbers that the quantised result has no place for. */
static bool is_cut_anyway(const ir_node *node, const quantized *result) {
    float low = -INFINITY, high = INFINITY;
    if (node->code == OP_RELU) low = 0;
    else if (node->code != OP_CLIP || !scalar_of(ir_input(node, 1), low, &low) ||
             !scalar_of(ir_input(node, 2), high, &high))
        return false;
    /* The limits themselves become the first and the last number, rounded: scales are seldom exact. */
    const bool is_signed = result->zero->type.dtype == OP_INT8;
    const double zero = (double)zero_of(result);
    const float scale = reals(result->scale)[0];
    return scale > 0 && rint((double)(low / scale)) + zero <= (is_signed ? -128 : 0) &&
           rint((double)(high / scale)) + zero >= (is_signed ? 127 : 255);
}

/* The QuantizeLinear that alone reads the value, perhaps through a Relu or a Clip. */
static ir_node *quantizer_of(const ir_value *value, quantized *result) {
    ir_node *reader = only_reader(value);
    if (read_quantizer(reader, result)) return ir_input(reader, 0) == value ? reader : NULL;
    if (!reader || reader->output_count != 1 || ir_input(reader, 0) != value) return NULL;
    ir_node *quantizer = only_reader(reader->outputs[0]);
    if (!read_quantizer(quantizer, result) || ir_input(quantizer, 0) != reader->outputs[0]) return NULL;
    return is_cut_anyway(reader, result) ? quantizer : NULL;
}

/* ---- bias ---------------------------------------------------------------------------------------------- */

/* The value is integers in the scale of the products of x and w: one scale, or one a filter. */
static bool read_bias(const ir_value *value, const quantized *x, const quantized *w, quantized *bias) {
    if (!read_dequantized(value, bias) || bias->tensor->type.dtype != OP_INT32 || !bias->tensor->constant)
        return false;
    const int64_t most = w->count > bias->count ? w->count : bias->count;
    if ((w->count != 1 && w->count != most) || (bias->count != 1 && bias->count != most)) return false;
    for (int64_t i = 0; i < most; i++) {
        const double product = (double)reals(x->scale)[0] * (double)reals(w->scale)[w->count == 1 ? 0 : i];
        const double given = (double)reals(bias->scale)[bias->count == 1 ? 0 : i];
        if (!(fabs(given - product) <= 1e-5 * fabs(product))) return false;
    }
    for (int64_t i = 0; bias->zero && i < bias->count; i++) {
        if (((const int32_t *)bias->zero->constant->tensor.data)[i] != 0) return false;
    }
    return true;
}

/* ---- making nodes -------------------------------------------------------------------------------------- */

static ir_value *make(fuser *f, const ir_node *origin, op_code code, op_attributes attributes, uint32_t count,
                      ir_value *const *inputs, const op_type *type, ir_node *before) {
    ir_node *node =
        ir_node_new(before->graph, before, code, origin->name, origin->path, attributes, count, inputs);
    ir_value *made = node ? ir_node_add_output(node, origin->outputs[0]->name, type) : NULL;
    f->out_of_memory |= !made;
    return made;
}

/* A vector of one number a channel, where there is one for all. */
static ir_value *constant_reals(fuser *f, const ir_value *like, const op_shape *shape, float **data) {
    const op_type type = {.dtype = OP_FLOAT, .shape = *shape};
    size_t bytes;
    void *memory = NULL;
    ir_value *made = op_type_bytes(&type, &bytes)
                         ? ir_constant_reserve(f->module, like->name, &type, bytes, &memory)
                         : NULL;
    f->out_of_memory |= !made;
    *data = memory;
    return made;
}

/* ---- Conv ---------------------------------------------------------------------------------------------- */

static bool fuse_convolution(fuser *f, ir_node *node) {
    quantized x, w, bias = {0}, result;
    if (!read_activation(ir_input(node, 0), &x) || !read_weights(ir_input(node, 1), 0, &w)) return false;
    if (ir_input(node, 2) && !read_bias(ir_input(node, 2), &x, &w, &bias)) return false;
    ir_node *quantizer = quantizer_of(node->outputs[0], &result);
    if (!quantizer) return false;
    ir_value *const inputs[] = {x.tensor, x.scale,      x.zero,      w.tensor,   w.scale,
                                w.zero,   result.scale, result.zero, bias.tensor};
    ir_value *made = make(f, node, OP_QLINEAR_CONV, node->attributes, bias.tensor ? 9 : 8, inputs,
                          &quantizer->outputs[0]->type, quantizer);
    if (made) ir_value_replace(quantizer->outputs[0], made);
    return made != NULL;
}

/* ---- MatMul and Gemm ----------------------------------------------------------------------------------- */

/* What a product is made of: y = x * w + b. */
typedef struct product {
    quantized x, w, bias;
    ir_value *weights;      /* as the product reads them */
    const ir_value *result; /* what it makes, the bias included */
} product;

static ir_value *transposed(fuser *f, ir_node *node, const quantized *w) {
    op_type type = w->tensor->type;
    type.shape.dims[0] = w->tensor->type.shape.dims[1];
    type.shape.dims[1] = w->tensor->type.shape.dims[0];
    return make(f, node, OP_TRANSPOSE, (op_attributes){0}, 1, &w->tensor, &type, node);
}

static bool read_gemm(fuser *f, ir_node *node, product *of) {
    const bool turned = pass_is_turned(node);
    if (op_attribute_integer(&node->attributes, "transA", 0) != 0 ||
        op_attribute_real(&node->attributes, "alpha", 1) != 1 ||
        op_attribute_real(&node->attributes, "beta", 1) != 1)
        return false;
    if (!read_activation(ir_input(node, 0), &of->x) ||
        !read_weights(ir_input(node, 1), turned ? 0 : 1, &of->w))
        return false;
    if (of->w.tensor->type.shape.rank != 2) return false;
    if (ir_input(node, 2) && !read_bias(ir_input(node, 2), &of->x, &of->w, &of->bias)) return false;
    of->weights = turned ? transposed(f, node, &of->w) : of->w.tensor;
    of->result = node->outputs[0];
    return of->weights != NULL;
}

/* The sum after a MatMul may be its bias. */
static bool read_matmul(ir_node *node, product *of) {
    if (node->input_count != 2 || !read_activation(ir_input(node, 0), &of->x) ||
        !read_weights(ir_input(node, 1), 1, &of->w) || of->w.tensor->type.shape.rank != 2)
        return false;
    of->weights = of->w.tensor;
    of->result = node->outputs[0];
    ir_node *sum = only_reader(of->result);
    for (uint32_t i = 0; i < 2 && sum && sum->code == OP_ADD; i++) {
        quantized bias;
        if (ir_input(sum, 1 - i) != of->result || !read_bias(ir_input(sum, i), &of->x, &of->w, &bias))
            continue;
        if (!op_shape_equal(&sum->outputs[0]->type.shape, &of->result->type.shape)) continue;
        of->bias = bias;
        of->result = sum->outputs[0];
        break;
    }
    return true;
}

/* The scale of the products: one, or one a column. */
static ir_value *product_scale(fuser *f, const product *of) {
    float *data;
    const op_shape shape = {.rank = of->w.count == 1 ? 0 : 1, .dims = {of->w.count}};
    ir_value *scale = constant_reals(f, of->w.scale, &shape, &data);
    for (int64_t i = 0; scale && i < of->w.count; i++)
        data[i] = reals(of->x.scale)[0] * reals(of->w.scale)[i];
    return scale;
}

/* A product of two activations, as attention has it. */
static bool fuse_activations(fuser *f, ir_node *node) {
    quantized x, w, result;
    if (node->code != OP_MATMUL || node->input_count != 2 || !read_activation(ir_input(node, 0), &x) ||
        !read_activation(ir_input(node, 1), &w) || x.tensor->type.shape.rank < 2 ||
        w.tensor->type.shape.rank < 2)
        return false;
    ir_node *quantizer = quantizer_of(node->outputs[0], &result);
    if (!quantizer) return false;
    ir_value *const inputs[] = {x.tensor, x.scale, x.zero,       w.tensor,
                                w.scale,  w.zero,  result.scale, result.zero};
    ir_value *made = make(f, node, OP_QLINEAR_MATMUL, (op_attributes){0}, 8, inputs,
                          &quantizer->outputs[0]->type, quantizer);
    if (made) ir_value_replace(quantizer->outputs[0], made);
    return made != NULL;
}

static bool fuse_product(fuser *f, ir_node *node) {
    product of = {0};
    quantized result;
    if (!(node->code == OP_GEMM ? read_gemm(f, node, &of) : read_matmul(node, &of))) return false;
    ir_node *quantizer = quantizer_of(of.result, &result), *place = of.result->node;
    const op_shape *shape = &of.result->type.shape;
    if (shape->rank < 2) return false;
    if (quantizer && !of.bias.tensor) {
        ir_value *const inputs[] = {of.x.tensor, of.x.scale, of.x.zero,    of.weights,
                                    of.w.scale,  of.w.zero,  result.scale, result.zero};
        ir_value *made = make(f, node, OP_QLINEAR_MATMUL, (op_attributes){0}, 8, inputs,
                              &quantizer->outputs[0]->type, quantizer);
        if (made) ir_value_replace(quantizer->outputs[0], made);
        return made != NULL;
    }
    const op_type integers = {.dtype = OP_INT32, .shape = *shape};
    ir_value *const operands[] = {of.x.tensor, of.weights, of.x.zero, of.w.zero};
    ir_value *sum = make(f, node, OP_MATMUL_INTEGER, (op_attributes){0}, 4, operands, &integers, place);
    if (sum && of.bias.tensor)
        sum = make(f, node, OP_ADD, (op_attributes){0}, 2, (ir_value *const[]){sum, of.bias.tensor},
                   &integers, place);
    ir_value *scale = sum ? product_scale(f, &of) : NULL;
    const op_attribute axis = {
        .name = "axis", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = shape->rank - 1};
    op_attributes attributes = {0};
    if (!scale || !ir_attribute_set(f->module, &attributes, &axis)) {
        f->out_of_memory = true;
        return false;
    }
    ir_value *made = make(f, node, OP_DEQUANTIZE_LINEAR, attributes, 2, (ir_value *const[]){sum, scale},
                          &of.result->type, place);
    if (made) ir_value_replace((ir_value *)of.result, made);
    return made != NULL;
}

/* ---- what moves or chooses elements ---------------------------------------------------------------------- */

static bool same_constant(const ir_value *a, const ir_value *b) {
    if (a == b) return true;
    const op_tensor *x = &a->constant->tensor, *y = &b->constant->tensor;
    return a->type.dtype == b->type.dtype && x->bytes == y->bytes && memcmp(x->data, y->data, x->bytes) == 0;
}

static bool same_parameters(const quantized *a, const quantized *b) {
    return a->count == 1 && b->count == 1 && a->zero && b->zero && same_constant(a->scale, b->scale) &&
           same_constant(a->zero, b->zero);
}

/* Input `input` is data that the operator hands on as it is. */
static bool hands_on(op_code code, uint32_t input) {
    switch (code) {
    case OP_CONCAT:
        return true;
    case OP_MAX_POOL:
    case OP_RESHAPE:
    case OP_FLATTEN:
    case OP_TRANSPOSE:
    case OP_SQUEEZE:
    case OP_UNSQUEEZE:
    case OP_SLICE:
        return input == 0;
    default:
        return false;
    }
}

static bool pass_through(fuser *f, ir_node *node) {
    quantized result, given;
    if (!hands_on(node->code, 0) || node->output_count != 1 || !node->outputs[0]) return false;
    ir_node *quantizer = only_reader(node->outputs[0]);
    if (!read_quantizer(quantizer, &result) || ir_input(quantizer, 0) != node->outputs[0]) return false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (!hands_on(node->code, i)) continue;
        if (!read_activation(ir_input(node, i), &given) || !same_parameters(&given, &result)) return false;
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (!hands_on(node->code, i) || !read_activation(ir_input(node, i), &given)) continue;
        if (!ir_node_set_input(node, i, given.tensor)) f->out_of_memory = true;
    }
    node->outputs[0]->type.dtype = quantizer->outputs[0]->type.dtype;
    ir_value_replace(quantizer->outputs[0], node->outputs[0]);
    ir_node_remove(quantizer);
    return true;
}

/* DequantizeLinear goes after what moves or chooses elements, where nobody else reads it: fewer bytes are moved, and what follows may take them in. */
static bool sink_dequantization(fuser *f, ir_node *node) {
    quantized given;
    if ((node->code != OP_GATHER && !hands_on(node->code, 0)) || node->code == OP_CONCAT ||
        node->code == OP_MAX_POOL || node->output_count != 1 || node->input_count > MOST_INPUTS ||
        !read_activation(ir_input(node, 0), &given) || only_reader(ir_input(node, 0)) != node)
        return false;
    ir_value *inputs[MOST_INPUTS] = {given.tensor};
    for (uint32_t i = 1; i < node->input_count; i++) inputs[i] = ir_input(node, i);
    op_type type = node->outputs[0]->type;
    type.dtype = given.tensor->type.dtype;
    ir_value *moved = make(f, node, node->code, node->attributes, node->input_count, inputs, &type, node);
    ir_value *const back[] = {moved, given.scale, given.zero};
    ir_value *made = moved ? make(f, node, OP_DEQUANTIZE_LINEAR, (op_attributes){0}, 3, back,
                                  &node->outputs[0]->type, node)
                           : NULL;
    if (made) ir_value_replace(node->outputs[0], made);
    return made != NULL;
}

/* ---- the walk ------------------------------------------------------------------------------------------ */

static void fuse_graph(fuser *f, ir_graph *graph) {
    for (ir_node *node = graph->first, *next; node && !f->out_of_memory; node = next) {
        next = node->next;
        for (uint32_t i = 0; i < node->graph_count; i++) fuse_graph(f, node->graphs[i]);
        if (node->output_count != 1 || !node->outputs[0] || !ir_input(node, 0)) continue;
        if (node->code == OP_CONV) (void)fuse_convolution(f, node);
        else if (node->code == OP_MATMUL || node->code == OP_GEMM)
            (void)(fuse_product(f, node) || fuse_activations(f, node));
        else if (pass_through(f, node)) next = node->next;
        else (void)sink_dequantization(f, node);
    }
}

/* What the new nodes have replaced goes at once: constants would be made of weights that nobody reads. */
static void drop_unread(const ir_graph *graph) {
    for (ir_node *node = graph->last, *previous; node; node = previous) {
        previous = node->previous;
        for (uint32_t i = 0; i < node->graph_count; i++) drop_unread(node->graphs[i]);
        const bool plain =
            !(op_schema_of(node->code)->flags & (OP_FLAG_EFFECT | OP_FLAG_GRAPHS | OP_FLAG_LISTS));
        if (plain && node->output_count == 1 && node->outputs[0] && !node->outputs[0]->uses)
            ir_node_remove(node);
    }
}

base_status pass_fuse_quantized(pass_context *context) {
    fuser f = {.context = context, .module = context->module};
    fuse_graph(&f, context->module->main);
    if (!f.out_of_memory) drop_unread(context->module->main);
    return f.out_of_memory ? base_fail_memory(context->report) : BASE_OK;
}
