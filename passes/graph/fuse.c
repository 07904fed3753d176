/* SPDX-License-Identifier: Apache-2.0 */
/* fuse.c: operators that one kernel can do together become one node.
 *
 *     %a = Conv(%x, %w)  %b = BatchNormalization(%a, ...)  %c = Add(%b, %r)  %d = Relu(%c)
 *  => %d = Conv(%x, %w', %b', %r) {ouro.activation = "Relu"}
 *
 * - What scales and shifts channels by constants (BatchNormalization, Mul, Add, Sub, Div) after a Conv, in float or 16 bits, goes
 * into its weights and bias, computed in double and rounded once; in float after a ConvTranspose, too, and, where the channels are the
 * columns, after a MatMul or Gemm whose weights nobody else reads. After another BatchNormalization it goes
 * into that one, whose mean becomes 0, variance 1 and epsilon 0.
 * - Add after a Conv: the other operand, of the same shape, becomes the residual (input 3). If both operands
 * are made by a Conv, the later one takes the other.
 * - Add of something that broadcasts over rows after a MatMul becomes its bias.
 * - Relu, LeakyRelu, Clip with constant limits, Sigmoid, Tanh, Swish, HardSwish after a Conv, MatMul or Gemm become its
 * activation, Gelu after the latter two; so do x * Sigmoid(x), which is Swish, and x * HardSigmoid(x) where that is HardSwish.
 * - Min and Max with constant limits after each other are Clip, Max with 0 is Relu.
 * - A Conv pads what a Pad with zeros before it would.
 * - A MatMul reads what a Transpose made as it was before (keys and values of heads in attention, which are turned round
 * for it), with the axes in another order; but for the innermost, which a product walks along.
 *
 * Each only where the value between has no other use and is no result.
 *
 * Needs: types; nodes that lowering, hoisting and carry-growth put in are there already, and somebody reads them.
 * Breaks: that somebody reads every node (a Transpose that a product reads through, a Pad). Guarantees: values stay what they were,
 * up to rounding; types of all values.
 */
#include "passes/graph/graph.h"
#include <float.h>
#include <math.h>
#include <string.h>

typedef struct fuser {
    pass_context *context;
    ir_module *module;
    bool out_of_memory;
} fuser;

/* ---- questions ----------------------------------------------------------------------------------------- */

/* The node of this operator that makes `value`, if nobody else reads it. */
static ir_node *only_producer(const ir_value *value, op_code code, const ir_graph *graph) {
    if (!value || !value->node || value->node->code != code || value->node->graph != graph) return NULL;
    if (!value->uses || value->uses->next || !value->uses->node || value->uses->node->graph != graph)
        return NULL;
    return value->index == 0 ? value->node : NULL;
}

/* The numbers of a constant of float or 16 bits as floats; NULL: it is something else. */
static const float *constant_numbers(fuser *f, const ir_value *value) {
    if (!value || !value->constant || value->type.layout != OP_LAYOUT_ROW_MAJOR) return NULL;
    const op_dtype dtype = value->type.dtype;
    int64_t count;
    if (dtype == OP_FLOAT) return value->constant->tensor.data;
    if ((dtype != OP_FLOAT16 && dtype != OP_BFLOAT16) || !op_shape_elements(&value->type.shape, &count))
        return NULL;
    float *numbers = BASE_ARRAY(f->context->scratch, float, (size_t)count + 1);
    const uint16_t *stored = value->constant->tensor.data;
    for (int64_t i = 0; numbers && i < count; i++) numbers[i] = pass_widen(dtype, stored[i]);
    f->out_of_memory |= !numbers;
    return numbers;
}

/* Kernels compute on it in float, and round once: what is fused is not rounded in between. */
static bool is_computed_in_float(const ir_value *value) {
    return value->type.dtype == OP_FLOAT || value->type.dtype == OP_FLOAT16 ||
           value->type.dtype == OP_BFLOAT16;
}

static bool is_bare(const ir_node *node) {
    return !op_attribute_find(&node->attributes, "ouro.activation");
}

/* ---- scales and shifts of channels --------------------------------------------------------------------- */

/* y[c] = scale[c] * x[c] + shift[c] */
typedef struct affine {
    int64_t channels;
    double *scale, *shift;
    bool scales; /* some scale is not 1 */
} affine;

/* The constant, broadcast to a shape whose channels are this axis, as one number a channel; NULL: it is not of that form. */
static double *channel_numbers(fuser *f, const ir_value *constant, const op_shape *shape, int32_t axis) {
    const float *data = constant_numbers(f, constant);
    int64_t channels = shape->dims[axis], count;
    if (!data || channels <= 0 || !op_shape_elements(&constant->type.shape, &count)) return NULL;
    int32_t lacking = shape->rank - constant->type.shape.rank; /* dimensions that the constant lacks */
    if (lacking < 0 || (count != 1 && count != channels)) return NULL;
    for (int32_t d = 0; d < constant->type.shape.rank; d++) {
        if (constant->type.shape.dims[d] != 1 && d + lacking != axis) return NULL;
    }
    double *numbers = BASE_ARRAY(f->context->scratch, double, (size_t)channels);
    for (int64_t c = 0; numbers && c < channels; c++) numbers[c] = data[count == 1 ? 0 : c];
    f->out_of_memory |= !numbers;
    return numbers;
}

static bool affine_new(fuser *f, int64_t channels, affine *result) {
    result->channels = channels;
    result->scales = false;
    result->scale = BASE_ARRAY(f->context->scratch, double, (size_t)channels);
    result->shift = BASE_ARRAY(f->context->scratch, double, (size_t)channels);
    f->out_of_memory |= !result->scale || !result->shift;
    for (int64_t c = 0; !f->out_of_memory && c < channels; c++) result->scale[c] = 1;
    return !f->out_of_memory;
}

static bool read_normalization(fuser *f, const ir_node *node, affine *result) {
    const float *parts[4];
    int64_t channels = node->outputs[0]->type.shape.rank >= 2 ? node->outputs[0]->type.shape.dims[1] : -1,
            count;
    if (channels <= 0 || op_attribute_integer(&node->attributes, "training_mode", 0)) return false;
    for (uint32_t i = 0; i < 4; i++) {
        parts[i] = constant_numbers(f, ir_input(node, 1 + i));
        if (!parts[i] || !op_shape_elements(&ir_input(node, 1 + i)->type.shape, &count) || count != channels)
            return false;
    }
    if (!affine_new(f, channels, result)) return false;
    double epsilon = op_attribute_real(&node->attributes, "epsilon", 1e-5f);
    for (int64_t c = 0; c < channels; c++) {
        result->scale[c] = parts[0][c] / sqrt((double)parts[3][c] + epsilon);
        result->shift[c] = parts[1][c] - parts[2][c] * result->scale[c];
    }
    result->scales = true;
    return true;
}

/* The input that the node may scale and shift. */
static uint32_t scaled_input(const ir_node *node) {
    const bool commutes = node->code == OP_ADD || node->code == OP_MUL;
    return commutes && ir_input(node, 0)->constant ? 1 : 0;
}

/* What the node does to the channels of its `scaled_input`, which are this axis, if that is to scale and shift them by constants. */
static bool read_affine(fuser *f, const ir_node *node, int32_t axis, affine *result) {
    if (node->output_count < 1 || !node->outputs[0] || !is_computed_in_float(node->outputs[0])) return false;
    const op_shape *shape = &node->outputs[0]->type.shape;
    if (shape->rank < 2) return false;
    if (node->code == OP_BATCH_NORMALIZATION)
        return axis == 1 && is_bare(node) && read_normalization(f, node, result);
    if (node->code != OP_ADD && node->code != OP_MUL && node->code != OP_SUB && node->code != OP_DIV)
        return false;
    const uint32_t data = scaled_input(node);
    /* What has extents along the channels only makes the others no larger, whatever they are. */
    const op_shape *scaled = &ir_input(node, data)->type.shape;
    if (scaled->rank != shape->rank || shape->dims[axis] < 0 || scaled->dims[axis] != shape->dims[axis])
        return false;
    const double *numbers = channel_numbers(f, ir_input(node, 1 - data), shape, axis);
    if (!numbers || !affine_new(f, shape->dims[axis], result)) return false;
    result->scales = node->code == OP_MUL || node->code == OP_DIV;
    for (int64_t c = 0; c < result->channels; c++) {
        if (node->code == OP_ADD) result->shift[c] = numbers[c];
        else if (node->code == OP_SUB) result->shift[c] = -numbers[c];
        else if (node->code == OP_MUL) result->scale[c] = numbers[c];
        else result->scale[c] = 1 / numbers[c];
    }
    return true;
}

/* A constant of this type, of these numbers. */
static ir_value *number_constant(fuser *f, const char *name, op_dtype dtype, const op_shape *shape,
                                 const float *numbers) {
    ir_value *value = pass_constant_of(f->module, name, dtype, shape, numbers);
    f->out_of_memory |= !value;
    return value;
}

static float rounded(op_dtype dtype, float number) {
    return dtype == OP_FLOAT ? number : pass_widen(dtype, pass_narrow(dtype, number));
}

/* Rounded to this type, some numbers lose no more than their last bits: none lies where the type has fewer, or none. */
static bool loses_little(op_dtype dtype, const float *numbers, int64_t count) {
    const double most = dtype == OP_BFLOAT16 ? 0x1p-8 : 0x1p-11; /* half of the last bit */
    double lost = 0, whole = 0;
    for (int64_t i = 0; i < count && dtype != OP_FLOAT; i++) {
        const double off = (double)numbers[i] - (double)rounded(dtype, numbers[i]);
        if (!isfinite(off)) return false;
        lost += off * off;
        whole += (double)numbers[i] * (double)numbers[i];
    }
    return lost <= most * most * whole;
}

/* Scales the rows of a Conv's weights and shifts its bias. Of 16 bits, what is scaled is rounded once more; then the results are not, in
 * between. */
static bool fold_into_convolution(fuser *f, ir_node *convolution, const affine *by) {
    const ir_value *weights = ir_input(convolution, 1), *bias = ir_input(convolution, 2);
    const op_dtype dtype = weights->type.dtype;
    int64_t count;
    if (!is_bare(convolution) || ir_input(convolution, 3)) return false;
    if (dtype != OP_FLOAT && f->context->options->exact_arithmetic) return false;
    if (weights->type.shape.dims[0] != by->channels || !op_shape_elements(&weights->type.shape, &count))
        return false;
    const float *w = constant_numbers(f, weights), *b = constant_numbers(f, bias);
    if (!w || (bias && !b)) return false;
    float *new_w = BASE_ARRAY(f->context->scratch, float, (size_t)count + 1),
          *new_b = BASE_ARRAY(f->context->scratch, float, (size_t)by->channels + 1);
    f->out_of_memory |= !new_w || !new_b;
    if (f->out_of_memory) return false;
    int64_t row = count / by->channels;
    for (int64_t c = 0; c < by->channels; c++) {
        for (int64_t i = 0; i < row; i++) new_w[c * row + i] = (float)(w[c * row + i] * by->scale[c]);
        new_b[c] = (float)((b ? b[c] : 0) * by->scale[c] + by->shift[c]);
        if (!loses_little(dtype, new_w + c * row, row) ||
            (dtype != OP_FLOAT && !isfinite(rounded(dtype, new_b[c]))))
            return false;
    }
    ir_value *scaled = number_constant(f, weights->name, dtype, &weights->type.shape, new_w);
    ir_value *shifted = scaled ? number_constant(f, bias ? bias->name : weights->name, dtype,
                                                 &(op_shape){.rank = 1, .dims = {by->channels}}, new_b)
                               : NULL;
    if (!scaled || !shifted) return false;
    if (!ir_node_set_input(convolution, 1, scaled) || !ir_node_set_input(convolution, 2, shifted))
        f->out_of_memory = true;
    return !f->out_of_memory;
}

/* Where the weights of a product or of a ConvTranspose have the numbers of a channel: element i belongs to channel
 * i / (inner * outer) % groups * (channels / groups) + i / inner % (channels / groups). */
typedef struct weight_axes {
    int64_t inner, outer, groups;
} weight_axes;

static bool find_axes(const ir_node *host, const op_shape *weights, int64_t channels, weight_axes *axes) {
    *axes = (weight_axes){1, 1, 1};
    if (host->code == OP_CONV_TRANSPOSE) {
        axes->groups = op_attribute_integer(&host->attributes, "group", 1);
        if (weights->rank < 3 || axes->groups < 1 || weights->dims[0] < 1 ||
            weights->dims[0] % axes->groups || channels % axes->groups ||
            weights->dims[1] != channels / axes->groups)
            return false;
        for (int32_t d = 2; d < weights->rank; d++) axes->inner *= weights->dims[d];
        axes->outer = weights->dims[0] / axes->groups * weights->dims[1];
        return true;
    }
    const bool turned = pass_is_turned(host);
    if (weights->rank < 2 || weights->dims[weights->rank - (turned ? 2 : 1)] != channels) return false;
    if (turned) axes->inner = weights->dims[weights->rank - 1];
    axes->outer = channels;
    return true;
}

/* Scales the weights of a MatMul, Gemm or ConvTranspose in float and shifts its bias, which is input 2. */
static bool fold_into_product(fuser *f, ir_node *host, const affine *by) {
    ir_value *weights = ir_input(host, 1);
    const ir_value *bias = ir_input(host, 2);
    weight_axes axes;
    int64_t count, biases = 0;
    const float *w = constant_numbers(f, weights), *b = constant_numbers(f, bias);
    if (!w || weights->type.dtype != OP_FLOAT || weights->uses->next || (bias && !b) || !is_bare(host))
        return false;
    if (op_attribute_find(&host->attributes, "ouro.right") || ir_input(host, 3)) return false;
    if (!op_shape_elements(&weights->type.shape, &count) || count == 0 ||
        !find_axes(host, &weights->type.shape, by->channels, &axes))
        return false;
    if (bias && (!op_shape_elements(&bias->type.shape, &biases) || bias->type.shape.rank < 1 ||
                 (biases != 1 && (biases != by->channels ||
                                  bias->type.shape.dims[bias->type.shape.rank - 1] != by->channels))))
        return false;
    const double beta = host->code == OP_GEMM ? (double)op_attribute_real(&host->attributes, "beta", 1) : 1;
    const int64_t own = by->channels / axes.groups;
    float *new_w = BASE_ARRAY(f->context->scratch, float, (size_t)count + 1),
          *new_b = BASE_ARRAY(f->context->scratch, float, (size_t)by->channels + 1);
    f->out_of_memory |= !new_w || !new_b;
    if (f->out_of_memory) return false;
    for (int64_t i = 0; i < count; i++) {
        const int64_t group = i / (axes.inner * axes.outer) % axes.groups;
        new_w[i] = (float)(w[i] * by->scale[group * own + i / axes.inner % own]);
    }
    bool shifts = bias != NULL;
    for (int64_t c = 0; c < by->channels; c++) {
        new_b[c] = (float)((b ? beta * b[biases == 1 ? 0 : c] : 0) * by->scale[c] + by->shift[c]);
        shifts |= new_b[c] != 0;
    }
    ir_value *scaled =
        by->scales ? number_constant(f, weights->name, OP_FLOAT, &weights->type.shape, new_w) : weights;
    ir_value *shifted = scaled && shifts
                            ? number_constant(f, bias ? bias->name : weights->name, OP_FLOAT,
                                              &(op_shape){.rank = 1, .dims = {by->channels}}, new_b)
                            : NULL;
    if (f->out_of_memory || !ir_node_set_input(host, 1, scaled) ||
        (shifted && !ir_node_set_input(host, 2, shifted))) {
        f->out_of_memory = true;
        return false;
    }
    op_attribute one = {.name = "beta", .kind = OP_ATTRIBUTE_FLOAT, .count = 1, .as.real = 1};
    if (beta != 1 && !ir_attribute_set(f->module, &host->attributes, &one)) f->out_of_memory = true;
    return !f->out_of_memory;
}

/* `first`, a BatchNormalization, becomes itself and then `by`. */
static bool fold_into_normalization(fuser *f, ir_node *first, const affine *by) {
    affine own;
    if (first->outputs[0]->type.dtype != OP_FLOAT) return false;
    if (!read_affine(f, first, 1, &own) || own.channels != by->channels) return false;
    static const char *const names[4] = {"scale", "shift", "mean", "variance"};
    for (uint32_t i = 0; i < 4; i++) {
        float *numbers = BASE_ARRAY(f->context->scratch, float, (size_t)own.channels);
        f->out_of_memory |= !numbers;
        if (f->out_of_memory) return false;
        for (int64_t c = 0; c < own.channels; c++) {
            double value = i == 0   ? own.scale[c] * by->scale[c]
                           : i == 1 ? own.shift[c] * by->scale[c] + by->shift[c]
                                    : i == 3;
            numbers[c] = (float)value;
        }
        ir_value *constant =
            number_constant(f, names[i], OP_FLOAT, &(op_shape){.rank = 1, .dims = {own.channels}}, numbers);
        if (!constant) return false;
        if (!ir_node_set_input(first, 1 + i, constant)) f->out_of_memory = true;
    }
    op_attribute epsilon = {.name = "epsilon", .kind = OP_ATTRIBUTE_FLOAT, .count = 1, .as.real = 0};
    if (!ir_attribute_set(f->module, &first->attributes, &epsilon)) f->out_of_memory = true;
    return !f->out_of_memory;
}

static bool fuse_affine(fuser *f, ir_node *node) {
    static const op_code hosts[] = {OP_CONV, OP_BATCH_NORMALIZATION, OP_CONV_TRANSPOSE, OP_MATMUL, OP_GEMM};
    if (node->code != OP_ADD && node->code != OP_MUL && node->code != OP_SUB && node->code != OP_DIV &&
        node->code != OP_BATCH_NORMALIZATION)
        return false;
    const ir_value *input = ir_input(node, scaled_input(node));
    ir_node *host = NULL;
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts && !host; i++)
        host = only_producer(input, hosts[i], node->graph);
    if (!host) return false;
    const bool columns = host->code == OP_MATMUL || host->code == OP_GEMM;
    affine by;
    if (!read_affine(f, node, columns ? input->type.shape.rank - 1 : 1, &by)) return false;
    if (host->code == OP_CONV) return fold_into_convolution(f, host, &by);
    if (host->code != OP_BATCH_NORMALIZATION) return fold_into_product(f, host, &by);
    return is_bare(host) && fold_into_normalization(f, host, &by);
}

/* ---- residuals and biases ------------------------------------------------------------------------------ */

static bool fuse_residual(fuser *f, ir_node *node) {
    if (node->code != OP_ADD || ir_input(node, 0) == ir_input(node, 1)) return false;
    const op_type *type = &node->outputs[0]->type;
    ir_node *chosen = NULL;
    uint32_t other = 0;
    for (uint32_t i = 0; i < 2; i++) {
        ir_node *convolution = only_producer(ir_input(node, i), OP_CONV, node->graph);
        const ir_value *residual = ir_input(node, 1 - i);
        if (!convolution || !is_bare(convolution) || ir_input(convolution, 3) || residual->constant) continue;
        if (!op_shape_same(&residual->type.shape, &type->shape) ||
            !op_shape_same(&ir_input(node, i)->type.shape, &type->shape) ||
            !is_computed_in_float(node->outputs[0])) {
            continue;
        }
        if (chosen && pass_stands_before(convolution, chosen)) continue;
        chosen = convolution;
        other = 1 - i;
    }
    if (!chosen) return false;
    ir_value *residual = ir_input(node, other);
    ir_node_move(chosen, node); /* its only reader is here, and here the residual is there */
    if (!ir_node_set_input(chosen, 3, residual)) f->out_of_memory = true;
    return !f->out_of_memory;
}

static bool fuse_bias(fuser *f, ir_node *node) {
    if (node->code != OP_ADD) return false;
    const op_shape *shape = &node->outputs[0]->type.shape;
    for (uint32_t i = 0; i < 2; i++) {
        ir_node *product = only_producer(ir_input(node, i), OP_MATMUL, node->graph);
        ir_value *bias = ir_input(node, 1 - i);
        if (!product || ir_input(product, 2) || !is_bare(product) ||
            !is_computed_in_float(product->outputs[0]))
            continue;
        if (!op_shape_same(shape, &ir_input(node, i)->type.shape) || shape->rank < 1) continue;
        /* One number a column, or one in all. */
        const op_shape *b = &bias->type.shape;
        bool fits = bias->constant && b->rank >= 0 && b->rank <= shape->rank;
        for (int32_t d = 0; fits && d < b->rank; d++) {
            fits = d == b->rank - 1 ? b->dims[d] == shape->dims[shape->rank - 1] : b->dims[d] == 1;
        }
        if (!fits || b->rank == 0) continue;
        if (!ir_node_set_input(product, 2, bias)) f->out_of_memory = true;
        return !f->out_of_memory;
    }
    return false;
}

/* ---- activations --------------------------------------------------------------------------------------- */

static bool scalar_limit(const ir_value *value, float otherwise, float *limit) {
    *limit = otherwise;
    if (!value) return true;
    return pass_read_number(value, OP_MAX_RANK, limit);
}

/* The Conv, MatMul or Gemm in float or 16 bits that makes `value` and has no activation yet; NULL: none. */
static ir_node *bare_host(const ir_value *value, const ir_graph *graph) {
    ir_node *host = value ? value->node : NULL;
    if (!host || host->graph != graph || value->index != 0 || !is_computed_in_float(value)) return NULL;
    if (host->code != OP_CONV && host->code != OP_MATMUL && host->code != OP_GEMM) return NULL;
    return is_bare(host) ? host : NULL;
}

static bool set_activation(fuser *f, ir_node *host, const char *name, float alpha, float beta) {
    const op_attribute set[3] = {
        {.name = "ouro.activation", .kind = OP_ATTRIBUTE_STRING, .count = 1, .as.text = {name, strlen(name)}},
        {.name = "ouro.alpha", .kind = OP_ATTRIBUTE_FLOAT, .count = 1, .as.real = alpha},
        {.name = "ouro.beta", .kind = OP_ATTRIBUTE_FLOAT, .count = 1, .as.real = beta},
    };
    for (int i = 0; i < 3; i++) {
        if (!ir_attribute_set(f->module, &host->attributes, &set[i])) f->out_of_memory = true;
    }
    return !f->out_of_memory;
}

/* The operand of a Min or Max with one number that has the shape of the result; NULL: it is something else. */
static ir_value *limited(const ir_node *node, float *limit) {
    if (node->output_count != 1 || !node->outputs[0] || !is_computed_in_float(node->outputs[0])) return NULL;
    for (uint32_t i = 0; i < 2; i++) {
        ir_value *x = ir_input(node, 1 - i);
        if (!x->constant && pass_read_number(ir_input(node, i), OP_MAX_RANK, limit) &&
            op_shape_same(&x->type.shape, &node->outputs[0]->type.shape))
            return x;
    }
    return NULL;
}

/* Min(Max(x, low), high), and the same the other way round, is Clip; Max(x, 0) is Relu. */
static void recognise_limits(fuser *f, ir_node *node) {
    if (node->code != OP_MIN && node->code != OP_MAX) return;
    float own, others;
    ir_value *x = limited(node, &own);
    ir_node *before = x ? only_producer(x, node->code == OP_MIN ? OP_MAX : OP_MIN, node->graph) : NULL;
    ir_value *first = before ? limited(before, &others) : NULL;
    const float low = node->code == OP_MAX ? own : others, high = node->code == OP_MAX ? others : own;
    if (first && low <= high) {
        const op_shape scalar = {.rank = 0};
        ir_value *least = number_constant(f, "low", x->type.dtype, &scalar, &low),
                 *most = number_constant(f, "high", x->type.dtype, &scalar, &high);
        node->code = OP_CLIP;
        if (f->out_of_memory || !ir_node_set_input(node, 0, first) || !ir_node_set_input(node, 1, least) ||
            !ir_node_set_input(node, 2, most)) {
            f->out_of_memory = true;
            return;
        }
        ir_node_remove(before);
    } else if (x && node->code == OP_MAX && own == 0 && !pass_only_reader(node, OP_MIN)) {
        if (!ir_node_set_input(node, 0, x)) f->out_of_memory = true;
        node->code = OP_RELU;
        ir_node_remove_input(node, 1);
    }
}

static bool fuse_activation(fuser *f, ir_node *node) {
    const char *name = op_schema_of(node->code)->name;
    float alpha = 0, beta = 0;
    switch (node->code) {
    case OP_RELU:
    case OP_SIGMOID:
    case OP_TANH:
    case OP_HARD_SWISH:
        break;
    case OP_LEAKY_RELU:
        alpha = op_attribute_real(&node->attributes, "alpha", 0.01f);
        break;
    case OP_GELU: /* of products; no transformer has it after a convolution */
        if (!ir_input(node, 0)->node || ir_input(node, 0)->node->code == OP_CONV) return false;
        if (op_attribute_is(&node->attributes, "approximate", "tanh", "none")) name = "GeluTanh";
        break;
    case OP_SWISH:
        alpha = op_attribute_real(&node->attributes, "alpha", 1);
        break;
    case OP_CLIP:
        if (!scalar_limit(ir_input(node, 1), -FLT_MAX, &alpha) ||
            !scalar_limit(ir_input(node, 2), FLT_MAX, &beta)) {
            return false;
        }
        break;
    default:
        return false;
    }
    ir_node *host = bare_host(ir_input(node, 0), node->graph);
    if (!host || !only_producer(ir_input(node, 0), host->code, node->graph)) return false;
    return set_activation(f, host, name, alpha, beta);
}

/* The gate of x * gate(x), if that is Swish or HardSwish by their definitions, and nobody else reads it. */
static ir_node *gate_of(const ir_value *gate, const ir_value *x, const ir_graph *graph, op_code *code) {
    ir_node *node = only_producer(gate, OP_SIGMOID, graph);
    *code = OP_SWISH;
    if (!node) {
        node = only_producer(gate, OP_HARD_SIGMOID, graph);
        *code = OP_HARD_SWISH;
        if (node && (op_attribute_real(&node->attributes, "alpha", 0.2f) != 1.0f / 6 ||
                     op_attribute_real(&node->attributes, "beta", 0.5f) != 0.5f))
            return NULL;
    }
    return node && ir_input(node, 0) == x ? node : NULL;
}

/* x * Sigmoid(x), which both read what a Conv, MatMul or Gemm makes, and nobody else does: three nodes become one. */
static bool fuse_gate(fuser *f, ir_node *node) {
    for (uint32_t i = 0; i < 2 && node->code == OP_MUL; i++) {
        ir_value *x = ir_input(node, 1 - i);
        op_code code;
        ir_node *host = bare_host(x, node->graph);
        ir_node *gate = host ? gate_of(ir_input(node, i), x, node->graph, &code) : NULL;
        if (!gate || !x->uses->next || x->uses->next->next) continue;
        if (!set_activation(f, host, op_schema_of(code)->name, code == OP_SWISH ? 1 : 0, 0)) return false;
        ir_value_replace(node->outputs[0], x);
        ir_node_remove(node);
        ir_node_remove(gate);
        return true;
    }
    return false;
}

/* ---- operands in another order -------------------------------------------------------------------------- */

bool pass_is_walkable(const int64_t *order, int32_t rank, uint32_t operand) {
    return rank >= 2 && (order[rank - 1] == rank - 1 || (operand == 1 && order[rank - 2] == rank - 1));
}

static void absorb_transposes(fuser *f, ir_node *node) {
    static const char *const names[] = {"ouro.left", "ouro.right"};
    for (uint32_t i = 0; i < 2 && node->code == OP_MATMUL && !f->out_of_memory; i++) {
        const ir_node *transpose = only_producer(ir_input(node, i), OP_TRANSPOSE, node->graph);
        ir_value *from = transpose ? ir_input(transpose, 0) : NULL;
        const int32_t rank = from ? from->type.shape.rank : -1;
        int64_t order[OP_MAX_RANK];
        const op_dtype dtype = from ? from->type.dtype : OP_NONE;
        if (rank < 2 || (dtype != OP_FLOAT && dtype != OP_FLOAT16 && dtype != OP_BFLOAT16) ||
            op_attribute_find(&node->attributes, names[i]))
            continue;
        if (!pass_transpose_order(transpose, rank, order) || !pass_is_walkable(order, rank, i)) continue;
        const op_attribute attribute = {
            .name = names[i], .kind = OP_ATTRIBUTE_INTS, .count = (size_t)rank, .as.integers = order};
        if (!ir_attribute_set(f->module, &node->attributes, &attribute) || !ir_node_set_input(node, i, from))
            f->out_of_memory = true;
    }
}

/* The integers of a constant pads of a Pad that puts zeros around images, two for each of `rank` axes; NULL: it does something else. */
static const int64_t *zero_padding(const ir_node *pad, int32_t rank) {
    const ir_value *pads = ir_input(pad, 1), *value = ir_input(pad, 2);
    float number = 0;
    int64_t count;
    if (!pads || !pads->constant || !pads->constant->tensor.data || pads->type.dtype != OP_INT64 ||
        ir_input(pad, 3) || !op_shape_elements(&pads->type.shape, &count) || count != 2 * (int64_t)rank ||
        !op_attribute_is(&pad->attributes, "mode", "constant", "constant") ||
        (value && (!pass_read_number(value, 1, &number) || number != 0)))
        return NULL;
    const int64_t *numbers = pads->constant->tensor.data;
    for (int32_t d = 0; d < rank; d++) {
        const int64_t before = numbers[d], after = numbers[rank + d];
        if (before < 0 || after < 0 || before > INT32_MAX || after > INT32_MAX ||
            (d < 2 && (before || after)))
            return NULL;
    }
    return numbers;
}

/* A convolution pads what a Pad before it would. */
static void absorb_padding(fuser *f, ir_node *node) {
    const ir_node *pad = node->code == OP_CONV && ir_input(node, 0) ? ir_input(node, 0)->node : NULL;
    if (!pad || pad->code != OP_PAD || pad->graph != node->graph ||
        !is_computed_in_float(ir_input(node, 0)) ||
        !op_attribute_is(&node->attributes, "auto_pad", "NOTSET", "NOTSET"))
        return;
    const int32_t rank = ir_input(node, 0)->type.shape.rank;
    const int64_t *more = rank > 2 ? zero_padding(pad, rank) : NULL;
    size_t count = 0;
    const int64_t *given = op_attribute_integers(&node->attributes, "pads", &count);
    if (!more || (given && count != 2 * (size_t)(rank - 2))) return;
    int64_t pads[2 * OP_MAX_RANK];
    for (int32_t d = 0; d < rank - 2; d++) {
        const int64_t before = given ? given[d] : 0, after = given ? given[rank - 2 + d] : 0;
        if (before < 0 || after < 0 || before > INT32_MAX || after > INT32_MAX) return;
        pads[d] = before + more[2 + d];
        pads[rank - 2 + d] = after + more[rank + 2 + d];
    }
    const op_attribute attribute = {
        .name = "pads", .kind = OP_ATTRIBUTE_INTS, .count = 2 * (size_t)(rank - 2), .as.integers = pads};
    if (!ir_attribute_set(f->module, &node->attributes, &attribute) ||
        !ir_node_set_input(node, 0, ir_input(pad, 0)))
        f->out_of_memory = true;
}

/* ---- the walk ------------------------------------------------------------------------------------------ */

/* The node that has taken in `node`: the one that makes the value that stood for its result. */
static ir_value *host_value(const ir_node *node) {
    for (uint32_t i = 0; i < node->input_count; i++) {
        const ir_value *input = ir_input(node, i);
        const ir_node *host = input ? input->node : NULL;
        if (!host || host->graph != node->graph || !input->uses || input->uses->next) continue;
        if (input->uses->node != node) continue;
        if (host->code == OP_CONV || host->code == OP_BATCH_NORMALIZATION || host->code == OP_MATMUL ||
            host->code == OP_GEMM || host->code == OP_CONV_TRANSPOSE) {
            return host->outputs[0];
        }
    }
    return NULL;
}

static void fuse_graph(fuser *f, ir_graph *graph) {
    for (ir_node *node = graph->first, *next; node && !f->out_of_memory; node = next) {
        next = node->next;
        for (uint32_t i = 0; i < node->graph_count; i++) fuse_graph(f, node->graphs[i]);
        if (node->output_count != 1 || !node->outputs[0]) continue;
        recognise_limits(f, node);
        if (f->out_of_memory || fuse_gate(f, node)) continue;
        absorb_transposes(f, node);
        absorb_padding(f, node);
        bool fused =
            fuse_bias(f, node) || fuse_affine(f, node) || fuse_residual(f, node) || fuse_activation(f, node);
        if (!fused) continue;
        ir_value *value = host_value(node);
        if (!value) continue;
        ir_value_replace(node->outputs[0], value);
        ir_node_remove(node);
    }
}

base_status pass_fuse(pass_context *context) {
    fuser f = {.context = context, .module = context->module};
    fuse_graph(&f, context->module->main);
    return f.out_of_memory ? base_fail_memory(context->report) : BASE_OK;
}
