/* SPDX-License-Identifier: Apache-2.0 */
/* halve_weights.c: constant weights of products and recurrences in float are stored in float16, bfloat16 or int16, where that is asked for; those of
 * products also where they are numbers of float16 or bfloat16 anyway.
 *
 *     %y: float32[r,n] = MatMul(%x, %w: float32[k,n], %b)
 *  => %y: float32[r,n] = MatMul(%x, %w: float16[k,n], %b) {ouro.weights_error = 0.0002}
 *  or %y: float32[r,n] = MatMul(%x, %w: int16[k,n], %b) {ouro.weights_error = 0.00004, ouro.weights_scale = 0.0000031}
 *
 * The kernel widens them in registers and sums in float. A product of one row takes as long as its weights take to be read: half the
 * bytes is half the time. Which products a kernel takes so, it says itself.
 *
 * Half precision has no scale. A matrix stays as it is where a weight has no finite number in the type, or where a column would lose
 * more than rounding to the bits of the type costs: float16 has few numbers below 0.00006 and none below 0.00000006. Integers have one
 * scale a matrix, by which the weight that is furthest from zero is 32,767: of weights that are spread as usual they lose a fifth of what
 * float16 loses. A matrix of which a column would lose more than float16 may is stored in float16. What the weights lose
 * is known without data: where the elements of x do not depend on each other, the error of the product over the product,
 * as root mean squares, is that of the weights. It stays with the node ("ouro.weights_error") for the report.
 *
 * LSTM and GRU read all their weights in each step. Their kernel stores them in 16 bits when it packs them (weight_panels.h), where
 * "ouro.weights_type" says so; integers have a scale for each column and a part of the depth there, as errors of a recurrence add up.
 *
 * Where nothing is asked for, weights lose nothing. Many models were trained in 16 bits and are floats only in the file: all weights of a matrix
 * are then numbers of bfloat16 or of float16, and are stored so, if all such matrices together are more than a near cache holds; in plans for
 * any machine, always. Of many rows, or of a number that only a run knows, products in fixed point are faster, where the machine has them: then
 * such matrices stay in float. A plan that keeps states which grow, as caches do, makes one token after the other: of a number of rows that only
 * a run knows, it mostly is one.
 *
 * Needs: types; after fusion, which folds factors into weights of floats. Breaks: nothing. Guarantees: the same shapes; and, where
 * pass_options.weight_type is OP_NONE, the same weights.
 */
#include "ir/loop.h"
#include "passes/layout/layout.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/fixed_tiles.h"
#include "runtime/kernels/portable/weight_panels.h"
#include <math.h>
#include <string.h>

enum {
    /* Weights of fewer elements stay as they are: they are not what a run waits for. */
    FEWEST_WEIGHTS = 4096,
    FEW_ROWS = 12 /* a product of so many waits for its weights */
};

/* Weights in 16 bits, for all products that read them. */
typedef struct halved {
    ir_value *value;
    double error;
    float scale;  /* of integers */
    bool refused; /* they stay as they are */
} halved;

typedef struct halver {
    pass_context *context;
    ir_module *module;
    op_dtype dtype; /* that is asked for; or OP_NONE */
    halved *known;  /* by value id */
    size_t value_count;
    bool makes_tokens; /* open rows mostly are one */
} halver;

float pass_store_weight(op_dtype dtype, float weight, float scale, uint16_t *stored) {
    if (dtype == OP_INT16) {
        const int16_t code = (int16_t)lrintf(weight / scale);
        memcpy(stored, &code, sizeof code);
        return scale * (float)code;
    }
    *stored = pass_narrow(dtype, weight);
    return pass_widen(dtype, *stored);
}

/* By which the weight furthest from zero is the largest integer; 0: there is none. */
static float find_scale(const float *weights, int64_t count) {
    float furthest = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(weights[i])) return 0;
        if (fabsf(weights[i]) > furthest) furthest = fabsf(weights[i]);
    }
    const float scale = furthest > 0 ? furthest / INT16_MAX : 1;
    return isnormal(scale) ? scale : 0;
}

/* What is lost of some weights, and what they are, as sums of squares. */
typedef struct loss {
    double lost, whole;
} loss;

/* What a column may lose, relative to it: half of the last bit. */
static double most_lost(op_dtype dtype) {
    return dtype == OP_BFLOAT16 ? 0x1p-8 : 0x1p-11;
}

/* Along the columns of a matrix, or, where it is transposed, along its rows. False: the weights stay as they are. */
static bool halve_matrix(op_dtype dtype, float scale, const float *from, const int64_t *dims, bool transposed,
                         loss *columns, uint16_t *to, double *error) {
    const double most = most_lost(dtype);
    const int64_t count = dims[!transposed];
    loss all = {0};
    memset(columns, 0, (size_t)count * sizeof *columns);
    for (int64_t i = 0; i < dims[0]; i++) {
        for (int64_t j = 0; j < dims[1]; j++, from++, to++) {
            loss *column = &columns[transposed ? i : j];
            const double made = (double)pass_store_weight(dtype, *from, scale, to),
                         off = (double)*from - made;
            if (!isfinite(made)) return false;
            column->lost += off * off;
            column->whole += (double)*from * (double)*from;
        }
    }
    for (int64_t c = 0; c < count; c++) {
        if (columns[c].lost > most * most * columns[c].whole) return false;
        all.lost += columns[c].lost;
        all.whole += columns[c].whole;
    }
    *error = all.whole > 0 ? sqrt(all.lost / all.whole) : 0;
    return true;
}

/* The weights of this node in 16 bits, of this type if they can be: NULL when memory runs out. */
static const halved *halve(halver *h, const ir_node *node, op_dtype dtype) {
    const ir_value *weights = ir_input(node, 1);
    halved *made = weights->id.index < h->value_count ? &h->known[weights->id.index] : NULL;
    if (made && (made->value || made->refused)) return made;
    if (!made) made = BASE_NEW(h->context->scratch, halved);
    if (!made) return NULL;
    op_type type = weights->type;
    const float *floats = weights->constant->tensor.data;
    size_t bytes;
    void *data;
    const bool transposed = pass_is_turned(node);
    loss *columns =
        base_arena_alloc(h->context->scratch, (size_t)type.shape.dims[!transposed], sizeof *columns);
    if (!columns) return NULL;
    made->scale = dtype == OP_INT16 ? find_scale(floats, type.shape.dims[0] * type.shape.dims[1]) : 0;
    type.dtype = dtype == OP_INT16 && made->scale == 0 ? OP_FLOAT16 : dtype;
    while (!made->value && !made->refused) {
        if (!op_type_bytes(&type, &bytes)) return NULL;
        ir_value *value = ir_constant_reserve(h->module, weights->name, &type, bytes, &data);
        if (!value) return NULL;
        if (halve_matrix(type.dtype, made->scale, floats, type.shape.dims, transposed, columns, data,
                         &made->error)) {
            made->value = value;
            continue;
        }
        made->refused = type.dtype != OP_INT16;
        ir_constant_remove(h->module, value);
        type.dtype = OP_FLOAT16;
    }
    return made;
}

/* A product in float with a constant matrix of some size. */
static bool is_product(const ir_node *node) {
    if (!pass_multiplies_constant(node)) return false;
    const int64_t *dims = ir_input(node, 1)->type.shape.dims;
    return dims[0] > 0 && dims[1] > 0 && dims[1] >= FEWEST_WEIGHTS / dims[0];
}

/* Some kernel takes this application. */
static bool is_wished(const halver *h, const op_call *call) {
    rt_preference wish = {0};
    return rt_kernel_wishing(call, &h->context->options->environment, &wish) != NULL;
}

/* All of the weights are numbers of this type. */
static bool are_numbers_of(op_dtype dtype, const float *weights, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(weights[i]) || pass_widen(dtype, pass_narrow(dtype, weights[i])) != weights[i])
            return false;
    return true;
}

op_dtype pass_lossless_type(const float *numbers, int64_t count) {
    return are_numbers_of(OP_BFLOAT16, numbers, count)  ? OP_BFLOAT16
           : are_numbers_of(OP_FLOAT16, numbers, count) ? OP_FLOAT16
                                                        : OP_NONE;
}

/* The machine multiplies many rows faster by floats, in fixed point. */
static bool has_fixed_point(const pass_options *options) {
    return !options->exact_arithmetic && rt_has_wide_vectors(&options->environment) && rt_fixed_wanted();
}

int64_t pass_product_rows(const ir_node *node) {
    const op_shape *x = &ir_input(node, 0)->type.shape, *weights = &ir_input(node, 1)->type.shape;
    const int64_t depth = weights->dims[pass_is_turned(node)];
    int64_t count;
    if (!op_shape_elements(x, &count)) return -1;
    return depth > 0 ? count / depth : 0;
}

/* A type in which the weights of this product lose nothing, if storing them so is worth it; or OP_NONE. */
static op_dtype lossless_type(const halver *h, const ir_node *node) {
    const op_tensor *weights = &ir_input(node, 1)->constant->tensor;
    const int64_t rows = pass_product_rows(node), count = (int64_t)(weights->bytes / sizeof(float));
    const bool few = rows < 0 ? h->makes_tokens : rows <= FEW_ROWS;
    if (!few && has_fixed_point(h->context->options)) return OP_NONE;
    return pass_lossless_type(weights->data, count);
}

/* Whether a kernel reads weights of this type. */
static bool is_taken(const halver *h, const ir_node *node, op_dtype dtype, bool *out_of_memory) {
    op_call call;
    op_tensor *inputs = BASE_ARRAY(h->context->scratch, op_tensor, node->input_count);
    if (!inputs || !ir_node_call(node, h->context->scratch, &call)) {
        *out_of_memory = true;
        return false;
    }
    memcpy(inputs, call.inputs, node->input_count * sizeof *inputs);
    inputs[1].type.dtype = dtype;
    call.inputs = inputs;
    return is_wished(h, &call);
}

static bool replace(halver *h, ir_node *node, const halved *made) {
    ir_value *before = ir_input(node, 1);
    const op_attribute error = {
        .name = "ouro.weights_error", .kind = OP_ATTRIBUTE_FLOAT, .count = 1, .as.real = (float)made->error};
    const op_attribute scale = {
        .name = "ouro.weights_scale", .kind = OP_ATTRIBUTE_FLOAT, .count = 1, .as.real = made->scale};
    if (!ir_attribute_set(h->module, &node->attributes, &error) ||
        (made->value->type.dtype == OP_INT16 && !ir_attribute_set(h->module, &node->attributes, &scale)) ||
        !ir_node_set_input(node, 1, made->value))
        return false;
    if (!before->uses) ir_constant_remove(h->module, before);
    return true;
}

/* ---- recurrences --------------------------------------------------------------------------------------- */

/* The weights of inputs and of the state. */
enum { FIRST_MATRIX = 1, LAST_MATRIX = 2 };

static bool is_recurrence(const ir_node *node) {
    if (node->code != OP_LSTM && node->code != OP_GRU) return false;
    for (uint32_t i = FIRST_MATRIX; i <= LAST_MATRIX; i++) {
        const ir_value *weights = ir_input(node, i);
        int64_t count;
        if (!weights || !weights->constant || weights->type.dtype != OP_FLOAT ||
            weights->type.layout != OP_LAYOUT_ROW_MAJOR || weights->type.shape.rank != 3 ||
            !op_shape_elements(&weights->type.shape, &count) || count < FEWEST_WEIGHTS)
            return false;
    }
    return true;
}

/* What all weights lose, if no column loses too much. */
static bool lose(op_dtype dtype, const ir_node *node, double *error) {
    loss all = {0};
    for (uint32_t i = FIRST_MATRIX; i <= LAST_MATRIX; i++) {
        const ir_value *weights = ir_input(node, i);
        const int64_t *dims = weights->type.shape.dims, columns = dims[0] * dims[1];
        const float *data = weights->constant->tensor.data;
        for (int64_t c = 0; c < columns; c++) {
            loss column = {0};
            if (!rt_panel_loss(dtype, data + c * dims[2], dims[2], &column.lost, &column.whole) ||
                column.lost > most_lost(dtype) * most_lost(dtype) * column.whole)
                return false;
            all.lost += column.lost;
            all.whole += column.whole;
        }
    }
    *error = all.whole > 0 ? sqrt(all.lost / all.whole) : 0;
    return true;
}

/* In the type that is asked for, or, as integers are too few, in float16. False when memory runs out. */
static bool halve_recurrence(halver *h, ir_node *node) {
    op_dtype dtype = h->dtype;
    double lost;
    if (!lose(dtype, node, &lost)) {
        if (dtype != OP_INT16 || !lose(OP_FLOAT16, node, &lost)) return true;
        dtype = OP_FLOAT16;
    }
    const op_attributes before = node->attributes;
    const op_attribute error = {
        .name = "ouro.weights_error", .kind = OP_ATTRIBUTE_FLOAT, .count = 1, .as.real = (float)lost};
    const op_attribute type = {
        .name = "ouro.weights_type", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = dtype};
    op_call call;
    if (!ir_attribute_set(h->module, &node->attributes, &error) ||
        !ir_attribute_set(h->module, &node->attributes, &type) ||
        !ir_node_call(node, h->context->scratch, &call))
        return false;
    if (!is_wished(h, &call)) node->attributes = before;
    return true;
}

/* What the node makes is an input of the model with something after it, and an output of the model: a cache, as exporters hand it on. */
static bool appends_to_input(const ir_node *node) {
    if (node->code != OP_CONCAT) return false;
    const ir_value *cache = ir_input(node, 0);
    const op_shape *shape = &cache->type.shape;
    int32_t axis;
    if (cache->kind != IR_PARAMETER || cache->graph != node->graph ||
        !op_axis(op_attribute_integer(&node->attributes, "axis", 0), shape->rank, &axis) ||
        shape->dims[axis] >= 0)
        return false;
    for (const ir_use *use = node->outputs[0]->uses; use; use = use->next)
        if (!use->node && use->graph == node->graph) return true;
    return false;
}

bool pass_makes_tokens(const ir_module *module) {
    for (const ir_node *node = module->main->first; node; node = node->next)
        if (appends_to_input(node)) return true;
    if (!module->run) return false;
    const ir_loop run = ir_loop_of(module->run);
    for (uint32_t i = 0; i < run.carried; i++)
        if (ir_loop_grows(&run, i, NULL)) return true;
    return false;
}

/* By node id, the types in which weights of products are to be stored. False when memory runs out. */
static bool find_types(halver *h, op_dtype *types) {
    size_t bytes = 0;
    bool out_of_memory = false;
    for (size_t n = 1; n < h->module->node_count && !out_of_memory; n++) {
        const ir_node *node = h->module->nodes[n];
        if (!node || !is_product(node)) continue;
        types[n] = h->dtype != OP_NONE ? h->dtype : lossless_type(h, node);
        if (types[n] != OP_NONE && !is_taken(h, node, types[n], &out_of_memory)) types[n] = OP_NONE;
        if (types[n] != OP_NONE) bytes += ir_input(node, 1)->constant->tensor.bytes;
    }
    const bool near = bytes <= PASS_NEAR_BYTES && !h->context->options->environment.portable_only;
    if (h->dtype == OP_NONE && near) memset(types, 0, h->module->node_count * sizeof *types);
    return !out_of_memory;
}

base_status pass_halve_weights(pass_context *context) {
    ir_module *module = context->module;
    halver h = {.context = context,
                .module = module,
                .dtype = context->options->weight_type,
                .value_count = module->value_count,
                .makes_tokens = pass_makes_tokens(module)};
    op_dtype *types = BASE_ARRAY(context->scratch, op_dtype, module->node_count);
    h.known = base_arena_alloc(context->scratch, h.value_count, sizeof *h.known);
    if (!types || !h.known || !find_types(&h, types)) return base_fail_memory(context->report);
    bool out_of_memory = false;
    for (size_t n = 1; n < module->node_count && !out_of_memory; n++) {
        ir_node *node = module->nodes[n];
        if (node && h.dtype != OP_NONE && is_recurrence(node)) {
            out_of_memory = !halve_recurrence(&h, node);
            continue;
        }
        if (types[n] == OP_NONE) continue;
        const halved *made = halve(&h, node, types[n]);
        out_of_memory = !made || (made->value && !replace(&h, node, made));
    }
    return out_of_memory ? base_fail_memory(context->report) : BASE_OK;
}
