/* SPDX-License-Identifier: Apache-2.0 */
/* block_float_weights.c: constant weights of products of a few rows in float are stored as block floating point of 20 bits, or of 24.
 *
 *     %y: float32[1,n] = MatMul(%x, %w: float32[k,n], %b)
 *  => %y: float32[1,n] = MatMul(%x, %w: float32[k,n], %b) {ouro.weights_bits = 20, ouro.weights_error = 0.0000015}
 *
 * A product of a few rows takes as long as its weights take to be read: five eighths of the bytes are two thirds of the time. Less is lost than by
 * Winograd's convolution, which is also chosen by what it takes; both are forbidden where arithmetic has to be exact.
 *
 * The numbers of a block share a scale, by which the largest of them is the largest integer. So what weights lose depends on how they are spread. Where a
 * column loses more than MOST_LOST, relative to the mean size of its weights, the matrix takes 24 bits. Where it loses too much even then, or products
 * of more rows read the matrix, too, it stays in float.
 *
 * Where only a run knows how many rows there are, few rows may gain much, and many lose little (a twentieth). So weights are stored that come from memory in
 * each run, and those of plans that keep states which grow, as there mostly is one row.
 *
 * A table of embeddings may be the matrix of such a product turned round. It is stored as the matrix is: the same bytes, which the plan holds once.
 * The error stays with the node ("ouro.weights_error") for the report.
 *
 * Needs: types; after weights that lose nothing in 16 bits were stored so, which takes more away. Breaks: nothing. Guarantees: only
 * attributes change.
 */
#include "passes/layout/layout.h"
#include "runtime/kernels/portable/block_float.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/fixed_tiles.h"
#include "runtime/kernels/table.h"
#include <string.h>

enum {
    FEW_ROWS = 16,        /* more take as long with floats; and */
    ROWS_BESIDE_FIXED = 4 /* in fixed point, on machines that have it */
};

/* Of a column, over the mean size of its weights (rt_block_float_loss). With 20 bits the furthest weight may be 9 times as far as the mean. */
static const double MOST_LOST = 5e-6;

/* Bits of a constant's weights, by value id; 0: none were found yet. */
typedef struct found {
    int bits;    /* -1: it stays in float */
    bool turned; /* of columns that are rows of the constant */
    double error;
} found;

/* A product of few rows in float with a constant matrix. `open`: of a number of rows that only a run knows, too. */
static bool is_product(const ir_node *node, bool open) {
    if (!node || !pass_multiplies_constant(node)) return false;
    const int64_t rows = pass_product_rows(node), most = rt_fixed_wanted() ? ROWS_BESIDE_FIXED : FEW_ROWS;
    return rows < 0 ? open : rows > 0 && rows <= most;
}

/* Sets the attributes of a node whose weights have so many bits. False when memory runs out. */
static bool mark(ir_module *module, ir_node *node, int bits, double error) {
    const op_attribute count = {.name = "ouro.weights_bits",
                                .kind = OP_ATTRIBUTE_INT,
                                .count = 1,
                                .as.integer = bits},
                       lost = {.name = "ouro.weights_error",
                               .kind = OP_ATTRIBUTE_FLOAT,
                               .count = 1,
                               .as.real = (float)error};
    return ir_attribute_set(module, &node->attributes, &count) &&
           ir_attribute_set(module, &node->attributes, &lost);
}

/* Whether a kernel takes weights of so many bits: the node is marked so for as long as it is asked. False when memory runs out. */
static bool ask(pass_context *context, ir_node *node, bool *taken) {
    const op_attributes before = node->attributes;
    rt_preference wish = {0};
    op_call call;
    if (!mark(context->module, node, RT_BLOCK_FLOAT_FEWEST, 0) ||
        !ir_node_call(node, context->scratch, &call))
        return false;
    const rt_kernel *kernel = rt_kernel_wishing(&call, &context->options->environment, &wish);
    *taken = kernel == rt_kernel_of(node->code, "portable.block_float_product");
    node->attributes = before;
    return true;
}

/* The weights of a product. */
static rt_code_matrix matrix_of(const ir_node *node) {
    const ir_value *weights = ir_input(node, 1);
    const int64_t *dims = weights->type.shape.dims;
    const bool turned = pass_is_turned(node);
    return (rt_code_matrix){.data = weights->constant->tensor.data,
                            .depth = dims[turned],
                            .columns = dims[!turned],
                            .depth_step = turned ? 1 : dims[1],
                            .column_step = turned ? dims[1] : 1};
}

/* The fewest bits by which no column loses too much. */
static found find_bits(const ir_node *node) {
    const rt_code_matrix matrix = matrix_of(node);
    const bool turned = pass_is_turned(node);
    static const int tried[] = {RT_BLOCK_FLOAT_FEWEST, RT_BLOCK_FLOAT_MOST};
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i++) {
        rt_block_float_loss loss;
        if (!rt_block_floats_lose(tried[i], &matrix, &loss)) break;
        if (loss.column <= MOST_LOST) return (found){tried[i], turned, loss.all};
    }
    return (found){.bits = -1, .turned = turned};
}

/* Products that may have their weights so. */
typedef struct products {
    bool *wanted;      /* by node id */
    uint32_t *readers; /* by value id: those of them that read it */
    size_t bytes;      /* of their weights, each as often as it is read */
} products;

/* `open`: those of a number of rows that only a run knows, too. None whose weights others read, but for tables of these. */
static base_status find_products(pass_context *context, bool open, products *of) {
    ir_module *module = context->module;
    memset(of->wanted, 0, module->node_count * sizeof *of->wanted);
    memset(of->readers, 0, module->value_count * sizeof *of->readers);
    of->bytes = 0;
    for (size_t n = 1; n < module->node_count; n++) {
        ir_node *node = module->nodes[n];
        if (!is_product(node, open)) continue;
        if (!ask(context, node, &of->wanted[n])) return base_fail_memory(context->report);
        if (of->wanted[n]) of->readers[ir_input(node, 1)->id.index]++;
    }
    for (size_t n = 1; n < module->node_count; n++) {
        if (!of->wanted[n]) continue;
        const ir_value *weights = ir_input(module->nodes[n], 1);
        uint32_t uses = 0;
        for (const ir_use *use = weights->uses; use; use = use->next)
            uses += !(use->node && use->index == 0 && pass_is_turned(module->nodes[n]) &&
                      pass_gathers_rows(use->node));
        of->wanted[n] = uses == of->readers[weights->id.index];
        if (of->wanted[n]) of->bytes += weights->constant->tensor.bytes;
    }
    return BASE_OK;
}

/* The product whose weights, which are stored so, are those of the table; NULL: there is none. */
static const ir_node *product_of(const ir_module *module, const bool *wanted, const ir_node *gather) {
    for (size_t n = 1; n < module->node_count; n++) {
        const ir_node *product = module->nodes[n];
        if (wanted[n] && op_attribute_find(&product->attributes, "ouro.weights_bits") &&
            pass_has_columns_as_rows(ir_input(gather, 0), ir_input(product, 1), pass_is_turned(product)))
            return product;
    }
    return NULL;
}

base_status pass_block_float_weights(pass_context *context) {
    ir_module *module = context->module;
    if (context->options->exact_arithmetic) return BASE_OK;
    products all = {.wanted = BASE_ARRAY(context->scratch, bool, module->node_count),
                    .readers = BASE_ARRAY(context->scratch, uint32_t, module->value_count)};
    found *of = BASE_ARRAY(context->scratch, found, module->value_count);
    if (!all.wanted || !all.readers || !of) return base_fail_memory(context->report);
    base_status status = find_products(context, !rt_fixed_wanted(), &all);
    if (status == BASE_OK && all.bytes < pass_cached_bytes(context->options) && !pass_makes_tokens(module))
        status = find_products(context, false, &all);
    if (status != BASE_OK || all.bytes <= PASS_NEAR_BYTES) return status;
    for (size_t n = 1; n < module->node_count; n++) {
        if (!all.wanted[n]) continue;
        ir_node *node = module->nodes[n];
        found *own = &of[ir_input(node, 1)->id.index];
        if (!own->bits || own->turned != pass_is_turned(node)) *own = find_bits(node);
        if (own->bits > 0 && !mark(module, node, own->bits, own->error))
            return base_fail_memory(context->report);
    }
    for (size_t n = 1; n < module->node_count; n++) {
        ir_node *node = module->nodes[n];
        const ir_node *product = pass_gathers_rows(node) ? product_of(module, all.wanted, node) : NULL;
        if (!product) continue;
        const int bits = (int)op_attribute_integer(&product->attributes, "ouro.weights_bits", 0);
        const float error = op_attribute_real(&product->attributes, "ouro.weights_error", 0);
        if (!mark(module, node, bits, (double)error)) return base_fail_memory(context->report);
    }
    return BASE_OK;
}
