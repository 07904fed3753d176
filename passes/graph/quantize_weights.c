/* SPDX-License-Identifier: Apache-2.0 */
/* quantize_weights.c: constant weights of products are stored in 8 or 4 bits, where that is asked for.
 *
 *     %y: float32[r,n] = Add(MatMul(%x, %w), %b)
 *  => %y: float32[r,n] = MatMulNBits(%x, %codes, %scales, , , %b) {K = k, N = n, bits = 4, block_size = 32}
 *
 * The weights of a column are taken in blocks along the depth. A block has one scale, and a code for each weight: weight = scale *
 * (code - 2^(bits - 1)). The weight that is furthest from zero gets the lowest code, which has no positive counterpart, so
 * that all codes are used; then the scale is the one that fits these codes best. A product of one row takes as long as its weights
 * take to be read, so a quarter or an eighth of the bytes is that much less time.
 *
 * A table of embeddings whose rows are the columns of such a product is not held a second time, in float: its rows are gathered from the same codes.
 *
 *     %e: float32[s,k] = Gather(%table, %index)                    with %table: float32[n,k]
 *  => %e: float32[s,k] = GatherNBits(%codes, %index, %scales) {K = k, N = n, bits = 8, block_size = 64}
 *
 * What it costs is known without data: where the elements of x do not depend on each other, the error of the product over the product,
 * as root mean squares, is that of the weights. It stays with the node ("ouro.weights_error") for the report.
 *
 * Needs: types, constants; before fusion, which takes activations into products of floats. Breaks: that somebody reads every node.
 * Guarantees: the same shapes. Nothing changes where pass_options.weight_bits is 0.
 */
#include "passes/graph/graph.h"
#include <math.h>
#include <string.h>

/* Weights of fewer elements stay as they are: they are not what a run waits for. */
enum { FEWEST_WEIGHTS = 4096, BLOCK_OF_4 = 32, BLOCK_OF_8 = 64 };

/* Weights in codes, for all products that read them in this way. */
typedef struct coded {
    ir_value *codes, *scales;
    double error;
} coded;

typedef struct quantizer {
    pass_context *context;
    ir_module *module;
    coded (*known)[2]; /* by value id: as they lie, and transposed */
    size_t value_count;
    int bits;
    int64_t block;
} quantizer;

/* x times weights [depth, columns], or, transposed, [columns, depth]. */
typedef struct product {
    ir_node *node, *last; /* `last` makes the result: the node, or the Add of its bias */
    ir_value *weights, *bias;
    int64_t depth, columns;
    bool turned;
} product;

/* ---- which products ------------------------------------------------------------------------------------- */

/* A constant of one number a column, which does not make the result larger. */
static bool is_bias(const ir_value *value, const product *of, const ir_value *result) {
    const op_shape *shape = &value->type.shape;
    int64_t elements;
    return value->constant && value->type.dtype == OP_FLOAT && op_shape_elements(shape, &elements) &&
           elements == of->columns && shape->rank >= 1 && shape->rank <= result->type.shape.rank &&
           shape->dims[shape->rank - 1] == of->columns;
}

/* The Add that alone reads the product may be its bias. */
static void find_bias(product *of) {
    const ir_value *result = of->node->outputs[0];
    const ir_use *use = result->uses;
    ir_node *sum = use && !use->next ? use->node : NULL;
    if (!sum || sum->code != OP_ADD || sum->graph != result->graph || !sum->outputs[0]) return;
    for (uint32_t i = 0; i < 2; i++) {
        if (ir_input(sum, 1 - i) != result || !is_bias(ir_input(sum, i), of, result)) continue;
        of->bias = ir_input(sum, i);
        of->last = sum;
        return;
    }
}

static bool read_product(ir_node *node, product *of) {
    const op_attributes *attributes = &node->attributes;
    *of = (product){.node = node, .last = node, .weights = ir_input(node, 1), .turned = pass_is_turned(node)};
    if (!pass_multiplies_constant(node) || ir_input(node, 0)->type.shape.rank < 2 || !node->outputs[0] ||
        !node->outputs[0]->uses)
        return false;
    const int64_t *dims = of->weights->type.shape.dims;
    of->depth = dims[of->turned];
    of->columns = dims[!of->turned];
    if (of->depth <= 0 || of->columns <= 0 || of->columns < FEWEST_WEIGHTS / of->depth) return false;
    if (node->code == OP_MATMUL) {
        find_bias(of);
        return node->input_count == 2;
    }
    of->bias = ir_input(node, 2);
    return op_attribute_integer(attributes, "transA", 0) == 0 &&
           op_attribute_real(attributes, "alpha", 1) == 1 && op_attribute_real(attributes, "beta", 1) == 1 &&
           (!of->bias || is_bias(of->bias, of, node->outputs[0]));
}

/* ---- codes ---------------------------------------------------------------------------------------------- */

static int clamp(int code, int most) {
    return code < 0 ? 0 : code > most ? most : code;
}

/* Codes of `count` weights, and their scale. */
static float code_block(const float *weights, int64_t count, int bits, uint8_t *codes) {
    const int zero = 1 << (bits - 1);
    float furthest = 0;
    for (int64_t i = 0; i < count; i++)
        if (fabsf(weights[i]) > fabsf(furthest)) furthest = weights[i];
    const float scale = furthest / (float)-zero;
    double fit = 0, squares = 0;
    for (int64_t i = 0; i < count; i++) {
        codes[i] = (uint8_t)(scale != 0 ? clamp((int)lrintf(weights[i] / scale) + zero, 2 * zero - 1) : zero);
        fit += (double)weights[i] * (codes[i] - zero);
        squares += (double)(codes[i] - zero) * (codes[i] - zero);
    }
    return squares > 0 ? (float)(fit / squares) : scale;
}

/* Elements from the lowest bits of a byte to the highest. */
static void pack_block(const uint8_t *codes, int64_t count, int bits, uint8_t *bytes) {
    for (int64_t i = 0; i < count; i++) {
        const int at = (int)(i * bits % 8);
        if (at == 0) bytes[i * bits / 8] = 0;
        bytes[i * bits / 8] |= (uint8_t)(codes[i] << at);
    }
}

/* Weights that are no finite numbers have no codes. */
static bool are_finite(const product *of) {
    const float *data = of->weights->constant->tensor.data;
    for (int64_t i = 0; i < of->depth * of->columns; i++)
        if (!isfinite(data[i])) return false;
    return true;
}

static void code_columns(const quantizer *q, const product *of, uint8_t *bytes, float *scales,
                         double *error) {
    const int64_t block = q->block, blocks = (of->depth + block - 1) / block;
    const int zero = 1 << (q->bits - 1);
    const float *data = of->weights->constant->tensor.data;
    double lost = 0, whole = 0;
    for (int64_t column = 0; column < of->columns; column++) {
        for (int64_t b = 0; b < blocks; b++, bytes += block * q->bits / 8) {
            float weights[BLOCK_OF_8] = {0};
            uint8_t codes[BLOCK_OF_8];
            const int64_t from = b * block, count = of->depth - from < block ? of->depth - from : block;
            for (int64_t i = 0; i < count; i++)
                weights[i] = of->turned ? data[column * of->depth + from + i]
                                        : data[(from + i) * of->columns + column];
            const float scale = *scales++ = code_block(weights, block, q->bits, codes);
            pack_block(codes, block, q->bits, bytes);
            for (int64_t i = 0; i < count; i++) {
                const double off = (double)weights[i] - (double)scale * (codes[i] - zero);
                lost += off * off;
                whole += (double)weights[i] * weights[i];
            }
        }
    }
    *error = whole > 0 ? sqrt(lost / whole) : 0;
}

/* NULL when memory runs out. */
static const coded *code_weights(quantizer *q, const product *of) {
    const ir_value *weights = of->weights;
    coded *made = weights->id.index < q->value_count ? &q->known[weights->id.index][of->turned] : NULL;
    if (made && made->codes) return made;
    if (!made) made = BASE_NEW(q->context->scratch, coded);
    if (!made) return NULL;
    const int64_t blocks = (of->depth + q->block - 1) / q->block, bytes = q->block * q->bits / 8;
    const op_type code_type = {.dtype = OP_UINT8, .shape = {.rank = 3, .dims = {of->columns, blocks, bytes}}},
                  scale_type = {.dtype = OP_FLOAT, .shape = {.rank = 2, .dims = {of->columns, blocks}}};
    size_t code_bytes, scale_bytes;
    void *codes = NULL, *scales = NULL;
    if (!op_type_bytes(&code_type, &code_bytes) || !op_type_bytes(&scale_type, &scale_bytes)) return NULL;
    made->codes = ir_constant_reserve(q->module, weights->name, &code_type, code_bytes, &codes);
    made->scales = ir_constant_reserve(q->module, weights->name, &scale_type, scale_bytes, &scales);
    if (!made->codes || !made->scales) return NULL;
    code_columns(q, of, codes, scales, &made->error);
    return made;
}

/* ---- the walk ------------------------------------------------------------------------------------------- */

static bool set_integer(ir_module *module, op_attributes *attributes, const char *name, int64_t value) {
    const op_attribute attribute = {.name = name, .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = value};
    return ir_attribute_set(module, attributes, &attribute);
}

/* The attributes by which an operator reads the codes of a matrix. False when memory runs out. */
static bool describe(const quantizer *q, int64_t depth, int64_t columns, op_attributes *attributes) {
    return set_integer(q->module, attributes, "K", depth) &&
           set_integer(q->module, attributes, "N", columns) &&
           set_integer(q->module, attributes, "bits", q->bits) &&
           set_integer(q->module, attributes, "block_size", q->block);
}

/* A node makes what `last` made, in its place. */
static base_status put(quantizer *q, op_code code, const ir_node *origin, ir_node *last,
                       op_attributes attributes, uint32_t count, ir_value *const *inputs) {
    ir_node *node =
        ir_node_new(last->graph, last, code, origin->name, origin->path, attributes, count, inputs);
    const ir_value *result = last->outputs[0];
    ir_value *output = node ? ir_node_add_output(node, result->name, &result->type) : NULL;
    if (!output) return base_fail_memory(q->context->report);
    ir_value_replace(last->outputs[0], output);
    return BASE_OK;
}

static base_status replace(quantizer *q, const product *of) {
    const coded *made = code_weights(q, of);
    op_attributes attributes = {0};
    if (!made) return base_fail_memory(q->context->report);
    const op_attribute error = {
        .name = "ouro.weights_error", .kind = OP_ATTRIBUTE_FLOAT, .count = 1, .as.real = (float)made->error};
    if (!describe(q, of->depth, of->columns, &attributes) ||
        !ir_attribute_set(q->module, &attributes, &error))
        return base_fail_memory(q->context->report);
    ir_value *const inputs[] = {ir_input(of->node, 0), made->codes, made->scales, NULL, NULL, of->bias};
    return put(q, OP_MATMUL_BITS, of->node, of->last, attributes, of->bias ? 6 : 3, inputs);
}

/* ---- tables --------------------------------------------------------------------------------------------- */

/* The codes of the columns that are the rows of a table; NULL: there are none. */
static const coded *codes_of_rows(const quantizer *q, const ir_value *table) {
    for (size_t id = 1; id < q->value_count; id++)
        for (int turned = 0; turned < 2; turned++)
            if (q->known[id][turned].codes &&
                pass_has_columns_as_rows(table, q->module->values[id], turned != 0))
                return &q->known[id][turned];
    return NULL;
}

/* Only Gathers read the table, and products that nobody reads any more. */
static bool is_only_gathered(const ir_value *table) {
    for (const ir_use *use = table->uses; use; use = use->next) {
        if (!use->node) return false;
        const bool gathers = use->index == 0 && pass_gathers_rows(use->node),
                   left = use->node->output_count == 1 && !use->node->outputs[0]->uses;
        if (!gathers && !left) return false;
    }
    return true;
}

static base_status gather_codes(quantizer *q, ir_node *node) {
    const ir_value *table = ir_input(node, 0);
    const coded *made = is_only_gathered(table) ? codes_of_rows(q, table) : NULL;
    op_attributes attributes = {0};
    if (!made) return BASE_OK;
    if (!describe(q, table->type.shape.dims[1], table->type.shape.dims[0], &attributes))
        return base_fail_memory(q->context->report);
    ir_value *const inputs[] = {made->codes, ir_input(node, 1), made->scales};
    return put(q, OP_GATHER_BITS, node, node, attributes, 3, inputs);
}

base_status pass_quantize_weights(pass_context *context) {
    ir_module *module = context->module;
    quantizer q = {.context = context,
                   .module = module,
                   .value_count = module->value_count,
                   .bits = context->options->weight_bits};
    const size_t count = module->node_count;
    base_status status = BASE_OK;
    if (!q.bits) return BASE_OK;
    q.block = q.bits == 4 ? BLOCK_OF_4 : BLOCK_OF_8;
    q.known = base_arena_alloc(context->scratch, q.value_count, sizeof *q.known);
    if (!q.known) return base_fail_memory(context->report);
    for (size_t n = 1; n < count && status == BASE_OK; n++) {
        product of;
        if (module->nodes[n] && read_product(module->nodes[n], &of) && are_finite(&of))
            status = replace(&q, &of);
    }
    for (size_t n = 1; n < count && status == BASE_OK; n++)
        if (pass_gathers_rows(module->nodes[n])) status = gather_codes(&q, module->nodes[n]);
    return status;
}
