/* SPDX-License-Identifier: Apache-2.0 */
/* microsoft.c: the table of the domain com.microsoft, and its float operators that are made of others. */
#include "compiler/onnx/convert/convert.h"
#include "compiler/onnx/convert/microsoft.h"

#include <string.h>

static const op_attributes NONE = {0};

static ir_value *with_text(const import_node *n, op_code code, const char *name, const char *text,
                           ir_value *x) {
    op_attributes attributes = NONE;
    if (!x || !import_attributes_add_text(n, &attributes, name, text)) return NULL;
    return import_make(n, code, attributes, 1, &x);
}

/* x + y, where y may be absent. */
static ir_value *plus(const import_node *n, ir_value *x, ir_value *y) {
    return y ? expr_binary(n, OP_ADD, x, y) : x;
}

/* ---- activations --------------------------------------------------------------------------------------- */

/* Gelu, BiasGelu and FastGelu, whose bias is optional: the exact function, or the one with tanh. */
static base_status convert_gelu(import_node *n) {
    ir_value *x = plus(n, n->inputs[0], expr_input(n, 1));
    if (strcmp(n->proto->op_type, "FastGelu") == 0)
        return expr_finish(n, with_text(n, OP_GELU, "approximate", "tanh", x));
    return expr_finish(n, expr_unary(n, OP_GELU, x));
}

static base_status convert_quick_gelu(import_node *n) {
    op_attributes attributes = NONE;
    const op_attribute alpha = {
        .name = "alpha", .kind = OP_ATTRIBUTE_FLOAT, .count = 1, .as.real = import_real(n, "alpha", 1.702f)};
    if (!ir_attribute_set(n->importer->module, &attributes, &alpha)) return import_memory(n);
    return import_finish(n, OP_SWISH, attributes, 1, n->inputs);
}

/* The left half of x + bias times the Gelu of its right half. */
static base_status convert_bias_split_gelu(import_node *n) {
    op_attributes attributes = NONE;
    ir_value *sum = plus(n, n->inputs[0], n->inputs[1]), *halves[2];
    if (!sum || !import_attributes_add_integer(n, &attributes, "axis", -1) ||
        !import_attributes_add_integer(n, &attributes, "num_outputs", 2))
        return import_memory(n);
    ir_node *split = import_begin(n, OP_SPLIT, attributes, 1, &sum);
    for (int i = 0; i < 2; i++) {
        halves[i] = split ? ir_node_add_output(split, NULL, NULL) : NULL;
        if (!halves[i]) return import_memory(n);
    }
    if (!import_infer(n->importer, split)) return import_memory(n);
    return expr_finish(n, expr_binary(n, OP_MUL, halves[0], expr_unary(n, OP_GELU, halves[1])));
}

static base_status convert_bias_add(import_node *n) {
    return expr_finish(n, plus(n, plus(n, n->inputs[0], n->inputs[1]), n->inputs[2]));
}

/* Without training: the sum of data, bias and residual. */
static base_status convert_bias_dropout(import_node *n) {
    if (expr_input(n, 4) || import_output_wanted(n, 1)) {
        return base_fail_unsupported(n->importer->report,
                                     "training_mode and mask are not supported, only inference is");
    }
    return expr_finish(n, plus(n, plus(n, n->inputs[0], n->inputs[1]), expr_input(n, 2)));
}

/* ---- products ------------------------------------------------------------------------------------------ */

/* Conv, then the residual Z, then the activation. */
static base_status convert_fused_convolution(import_node *n) {
    op_attributes attributes;
    base_status status = expr_need_dtype(n, n->inputs[0]);
    if (status == BASE_OK) status = import_attributes(n, OP_CONV, &attributes);
    if (status != BASE_OK) return status;
    ir_value *y = import_make(n, OP_CONV, attributes, expr_input(n, 2) ? 3 : 2, n->inputs);
    y = plus(n, y, expr_input(n, 3));
    status = import_ms_activated(n, &y);
    return status == BASE_OK ? expr_finish(n, y) : status;
}

static base_status convert_fused_gemm(import_node *n) {
    op_attributes attributes;
    base_status status = expr_need_dtype(n, n->inputs[0]);
    if (status == BASE_OK) status = import_attributes(n, OP_GEMM, &attributes);
    if (status != BASE_OK) return status;
    ir_value *y = import_make(n, OP_GEMM, attributes, n->input_count, n->inputs);
    const bool clip = import_attribute(n, "activation_gamma") && !import_attribute(n, "activation_alpha");
    const float given[] = {import_real(n, "activation_alpha", 0.01f),
                           import_real(n, clip ? "activation_gamma" : "activation_beta", 0)};
    const size_t count = import_attribute(n, "activation_beta")    ? 2
                         : import_attribute(n, "activation_alpha") ? 1
                                                                   : 0;
    status = import_ms_activated_with(n, &y, given, count);
    return status == BASE_OK ? expr_finish(n, y) : status;
}

/* An operand in the order of axes that its attributes tell: with `batch`, the first axis goes after the others but the last;
 * then, with `turned`, the last two change places. */
static ir_value *operand(const import_node *n, ir_value *x, bool turned, bool batch) {
    const int32_t rank = import_rank_of(x);
    int64_t order[OP_MAX_RANK];
    if ((!turned && !batch) || rank < 2) return x;
    for (int32_t i = 0; i < rank; i++) order[i] = batch && i < rank - 1 ? (i + 1) % (rank - 1) : i;
    if (turned) {
        const int64_t last = order[rank - 1];
        order[rank - 1] = order[rank - 2];
        order[rank - 2] = last;
    }
    return expr_transpose(n, x, (size_t)rank, order);
}

static base_status convert_fused_matmul(import_node *n) {
    base_status status = expr_need_dtype(n, n->inputs[0]);
    if (status == BASE_OK && (import_rank_of(n->inputs[0]) < 0 || import_rank_of(n->inputs[1]) < 0))
        status = base_fail_unsupported(n->importer->report, "needs inputs whose ranks are known");
    if (status != BASE_OK) return status;
    ir_value *a = operand(n, n->inputs[0], import_integer(n, "transA", 0) != 0,
                          import_integer(n, "transBatchA", 0) != 0);
    ir_value *b = operand(n, n->inputs[1], import_integer(n, "transB", 0) != 0,
                          import_integer(n, "transBatchB", 0) != 0);
    const double alpha = (double)import_real(n, "alpha", 1);
    ir_value *y = expr_binary(n, OP_MATMUL, a, b);
    if (alpha != 1) y = expr_binary(n, OP_MUL, y, expr_number(n, n->inputs[0], alpha));
    const float given[] = {import_real(n, "activation_alpha", 0.01f), import_real(n, "activation_beta", 0)};
    status = import_ms_activated_with(n, &y, given,
                       import_attribute(n, "activation_beta")    ? 2
                       : import_attribute(n, "activation_alpha") ? 1
                                                                 : 0);
    return status == BASE_OK ? expr_finish(n, y) : status;
}

static base_status convert_gemm_fast_gelu(import_node *n) {
    ir_value *y = plus(n, expr_binary(n, OP_MATMUL, n->inputs[0], n->inputs[1]), expr_input(n, 2));
    return expr_finish(n, with_text(n, OP_GELU, "approximate", "tanh", y));
}

/* ---- normalisations ------------------------------------------------------------------------------------ */

/* x over its axes from `first` on, in float: less its mean (unless `simple`), divided by the root of the mean square of that. */
typedef struct normalized {
    ir_value *y, *mean, *inverse;
} normalized;

/* The same without a mean, where only the result is asked for. The operator takes a scale of the shape that is normalised. */
static ir_value *divide_by_root(const import_node *n, ir_value *x, int64_t first, ir_value *scale, double epsilon) {
    const op_attribute of = {.name = "epsilon", .kind = OP_ATTRIBUTE_FLOAT, .count = 1, .as.real = (float)epsilon};
    const int32_t rank = import_rank_of(x);
    const bool last = first == -1 || first == rank - 1,
               fits = last && rank > 0 && import_rank_of(scale) == 1 && scale->type.shape.dims[0] >= 0 &&
                      scale->type.shape.dims[0] == x->type.shape.dims[rank - 1] &&
                      import_dtype_of(scale) == import_dtype_of(x);
    op_attributes attributes = NONE;
    ir_value *inputs[] = {x, scale};
    if (!x || !scale || !import_attributes_add_integer(n, &attributes, "axis", first) ||
        !ir_attribute_set(n->importer->module, &attributes, &of))
        return NULL;
    ir_value *y = import_make(n, OP_RMS_NORMALIZATION, attributes, fits ? 2 : 1, inputs);
    return fits ? y : expr_binary(n, OP_MUL, y, scale);
}

static normalized normalize(const import_node *n, ir_value *x, int64_t first, ir_value *scale, ir_value *bias,
                            double epsilon, bool simple) {
    normalized r = {0};
    int64_t axes[OP_MAX_RANK];
    size_t count = 0;
    const op_dtype dtype = import_dtype_of(x);
    ir_value *wide = expr_cast(n, x, dtype == OP_DOUBLE ? OP_DOUBLE : OP_FLOAT), *centred = wide;
    for (int64_t i = first; i < (first < 0 ? 0 : import_rank_of(x)); i++) axes[count++] = i;
    if (!simple) {
        r.mean = expr_reduce(n, OP_REDUCE_MEAN, wide, count, axes, true);
        centred = expr_binary(n, OP_SUB, wide, r.mean);
    }
    ir_value *square =
        expr_reduce(n, OP_REDUCE_MEAN, expr_binary(n, OP_MUL, centred, centred), count, axes, true);
    ir_value *deviation =
        expr_unary(n, OP_SQRT, expr_binary(n, OP_ADD, square, expr_number(n, wide, epsilon)));
    r.inverse = expr_unary(n, OP_RECIPROCAL, deviation);
    r.y = expr_cast(n, expr_binary(n, OP_MUL, centred, r.inverse), dtype);
    r.y = plus(n, expr_binary(n, OP_MUL, r.y, scale), bias);
    return r;
}

static base_status convert_simplified_layer_normalization(import_node *n) {
    const int64_t axis = import_integer(n, "axis", -1);
    const int32_t rank = import_rank_of(n->inputs[0]);
    base_status status = expr_need_dtype(n, n->inputs[0]);
    if (status == BASE_OK && axis >= 0 && rank < 0)
        status = base_fail_unsupported(n->importer->report, "needs an input of known rank");
    if (status == BASE_OK && rank >= 0 && !op_axis(axis, rank, &(int32_t){0})) {
        status = base_fail(n->importer->report, BASE_INVALID,
                           "attribute \"axis\" is %lld, expected a number in [%d, %d)", (long long)axis,
                           -rank, rank);
    }
    if (status != BASE_OK) return status;
    const double epsilon = (double)import_real(n, "epsilon", 1e-5f);
    if (!import_output_named(n, 1))
        return expr_finish(n, divide_by_root(n, n->inputs[0], axis, n->inputs[1], epsilon));
    normalized r = normalize(n, n->inputs[0], axis, n->inputs[1], NULL, epsilon, true);
    status = expr_finish(n, r.y);
    return status == BASE_OK ? expr_output(n, 1, r.inverse) : status;
}

/* Input and skip, with the bias that may be added, normalised; outputs 1 and 2 are statistics, output 3 is the sum. */
static base_status convert_skip_layer_normalization(import_node *n) {
    const bool simple = strcmp(n->proto->op_type, "SkipSimplifiedLayerNormalization") == 0;
    base_status status = expr_need_dtype(n, n->inputs[0]);
    if (status != BASE_OK) return status;
    ir_value *sum =
        plus(n, expr_binary(n, OP_ADD, n->inputs[0], n->inputs[1]), expr_input(n, simple ? 3 : 4));
    const double epsilon = (double)import_real(n, "epsilon", 1e-12f);
    normalized r = {0};
    if (simple && !import_output_named(n, 2)) r.y = divide_by_root(n, sum, -1, n->inputs[2], epsilon);
    else r = normalize(n, sum, -1, n->inputs[2], simple ? NULL : expr_input(n, 3), epsilon, simple);
    status = expr_finish(n, r.y);
    if (status == BASE_OK && simple && import_output_wanted(n, 1))
        return base_fail_unsupported(n->importer->report, "output 1 (mean) is not supported: there is none");
    if (status == BASE_OK && !simple) status = expr_output(n, 1, r.mean);
    if (status == BASE_OK) status = expr_output(n, 2, r.inverse);
    return status == BASE_OK ? expr_output(n, 3, sum) : status;
}

/* Embeddings of words, positions and segments are added and normalised. */
typedef struct embedding {
    ir_value *words, *positions, *segments; /* rows of tables; the last may be absent */
    ir_value *scale, *bias, *mask;
} embedding;

/* 0, 1, ... of a row of ids. */
static ir_value *row_positions(const import_node *n, ir_value *ids) {
    ir_value *extents = expr_unary(n, OP_SHAPE, ids);
    return expr_steps(n, expr_binary(n, OP_GATHER, extents, import_constant_integer(n, 1)), 1);
}

/* Output 1 counts what the mask leaves, output 2 is the sum. */
static base_status finish_embedding(import_node *n, const embedding *e) {
    static const int64_t last = 1;
    ir_value *ids = n->inputs[0], *sum = expr_binary(n, OP_ADD, e->words, e->positions);
    if (e->segments) sum = plus(n, sum, e->segments);
    const double epsilon = (double)import_real(n, "epsilon", 1e-12f);
    normalized r = normalize(n, sum, -1, e->scale, e->bias, epsilon, false);
    base_status status = expr_finish(n, r.y);
    if (status == BASE_OK && import_output_named(n, 1)) {
        /* Without a mask: 0 of each row. */
        ir_value *zero = import_constant_real(n, import_dtype_of(ids), 0);
        ir_value *kept = e->mask ? expr_binary(n, OP_EQUAL, e->mask, expr_number(n, e->mask, 1))
                                 : expr_binary(n, OP_LESS, expr_binary(n, OP_MUL, ids, zero), zero);
        status =
            expr_output(n, 1, expr_reduce(n, OP_REDUCE_SUM, expr_cast(n, kept, OP_INT32), 1, &last, false));
    }
    return status == BASE_OK ? expr_output(n, 2, sum) : status;
}

static base_status convert_embed_layer_normalization(import_node *n) {
    base_status status = expr_need_inputs(n, 7, EXPR_INPUT(1) | EXPR_INPUT(4));
    if (status == BASE_OK) status = expr_need_dtype(n, n->inputs[2]);
    if (status != BASE_OK) return status;
    ir_value *ids = n->inputs[0], *segments = expr_input(n, 1), *positions = expr_input(n, 8);
    if (!positions) positions = row_positions(n, ids);
    embedding e = {.scale = n->inputs[5], .bias = n->inputs[6], .mask = expr_input(n, 7)};
    e.words = expr_binary(n, OP_GATHER, n->inputs[2], ids);
    e.positions = expr_binary(n, OP_GATHER, n->inputs[3], positions);
    if (segments && expr_input(n, 4)) e.segments = expr_binary(n, OP_GATHER, n->inputs[4], segments);
    return finish_embedding(n, &e);
}

/* Tables, scale and bias are bytes, each with a scale and a zero point. */
static base_status convert_quantized_embed_layer_normalization(import_node *n) {
    enum { IDS, SEGMENTS, WORDS, POSITIONS, KINDS, SCALE, BIAS, MASK, SCALES, ZEROS = SCALES + 5 };
    const uint32_t optional = EXPR_INPUT(SEGMENTS) | EXPR_INPUT(KINDS) | EXPR_INPUT(MASK) |
                              EXPR_INPUT(SCALES + KINDS - WORDS) | EXPR_INPUT(ZEROS + KINDS - WORDS);
    base_status status = expr_need_inputs(n, ZEROS + 5, optional);
    if (status == BASE_OK) status = expr_need_dtype(n, n->inputs[WORDS]);
    if (status != BASE_OK) return status;
    ir_value *rows[5], *ids[] = {n->inputs[IDS], row_positions(n, n->inputs[IDS]), expr_input(n, SEGMENTS)};
    for (uint32_t i = 0; i < 5; i++) {
        rows[i] = expr_input(n, WORDS + i);
        if (i < 3) rows[i] = rows[i] && ids[i] ? expr_binary(n, OP_GATHER, rows[i], ids[i]) : NULL;
        if (!rows[i]) continue;
        rows[i] = import_ms_dequantized(n, rows[i], expr_input(n, SCALES + i), expr_input(n, ZEROS + i));
    }
    const embedding e = {.words = rows[0],
                         .positions = rows[1],
                         .segments = rows[2],
                         .scale = rows[3],
                         .bias = rows[4],
                         .mask = expr_input(n, MASK)};
    return finish_embedding(n, &e);
}

/* ---- other operators ----------------------------------------------------------------------------------- */

/* Softmax of a matrix whose columns are all axes from `axis` on, of the sum of data and bias. */
static base_status convert_bias_softmax(import_node *n) {
    ir_value *x = expr_binary(n, OP_ADD, n->inputs[0], n->inputs[1]);
    ir_value *flat = expr_with_integer(n, OP_FLATTEN, "axis", import_integer(n, "axis", 1), 1, &x);
    ir_value *y = expr_with_integer(n, OP_SOFTMAX, "axis", 1, 1, &flat);
    return expr_finish(n, expr_binary(n, OP_RESHAPE, y, expr_unary(n, OP_SHAPE, x)));
}

/* An operator of the default domain with the same inputs and attributes. */
static base_status convert_same(import_node *n) {
    const op_code code = op_code_from_name("", n->proto->op_type);
    op_attributes attributes;
    base_status status = import_attributes(n, code, &attributes);
    return status == BASE_OK ? import_finish(n, code, attributes, n->input_count, n->inputs) : status;
}

/* The numbers may be a matrix of one row. */
static base_status convert_pad(import_node *n) {
    op_attributes attributes;
    base_status status = import_attributes(n, OP_PAD, &attributes);
    if (status != BASE_OK) return status;
    ir_value *pads = n->inputs[1];
    if (import_rank_of(pads) == 2) pads = expr_axis(n, OP_SQUEEZE, pads, 0);
    ir_value *inputs[] = {n->inputs[0], pads, expr_input(n, 2)};
    return pads ? import_finish(n, OP_PAD, attributes, n->input_count, inputs) : import_memory(n);
}

/* Without training, whose mask has a bit an element. */
static base_status convert_inference_dropout(import_node *n) {
    if (!expr_input(n, 2)) return expr_finish(n, expr_unary(n, OP_IDENTITY, n->inputs[0]));
    return base_fail_unsupported(n->importer->report, "training_mode is not supported, only inference is");
}

static base_status convert_torch_embedding(import_node *n) {
    return import_finish(n, OP_GATHER, NONE, 2, n->inputs);
}

/* ---- the table ------------------------------------------------------------------------------------------ */

#define CONV_ATTRIBUTES "auto_pad:s dilations:I group:i kernel_shape:I pads:I strides:I"
#define POOL_ATTRIBUTES "auto_pad:s ceil_mode:i kernel_shape:I! pads:I strides:I"
#define MATMUL_ATTRIBUTES "alpha:f transA:i transB:i transBatchA:i transBatchB:i"
#define ACTIVATION_ATTRIBUTES "activation:s activation_alpha:f activation_beta:f activation_gamma:f"
#define MIXTURE_ATTRIBUTES                                                                                   \
    "activation_alpha:f activation_beta:f activation_type:s k:i normalize_routing_weights:i swiglu_fusion:i swiglu_limit:f " \
    "use_sparse_mixer:i"
#define MS "com.microsoft"

enum { ANY = -1, LAST = 1 };

static const import_row rows[] = {
    /* inputs at least 0: the converter tells which may be absent before the last that may not */
    {MS, "Gelu", 1, LAST, "", 1, 1, 1, convert_gelu},
    {MS, "BiasGelu", 1, LAST, "", 2, 2, 1, convert_gelu},
    {MS, "FastGelu", 1, LAST, "", 1, 2, 1, convert_gelu},
    {MS, "QuickGelu", 1, LAST, "alpha:f", 1, 1, 1, convert_quick_gelu},
    {MS, "BiasSplitGelu", 1, LAST, "", 2, 2, 1, convert_bias_split_gelu},
    {MS, "BiasAdd", 1, LAST, "", 3, 3, 1, convert_bias_add},
    {MS, "BiasDropout", 1, LAST, "seed:i", 2, 5, 2, convert_bias_dropout},
    {MS, "BiasSoftmax", 1, LAST, "axis:i is_inner_broadcast:i!", 2, 2, 1, convert_bias_softmax},
    {MS, "FusedConv", 1, LAST, CONV_ATTRIBUTES " activation:s activation_params:F", 2, 4, 1,
     convert_fused_convolution},
    {MS, "FusedGemm", 1, LAST, "alpha:f beta:f transA:i transB:i " ACTIVATION_ATTRIBUTES, 2, 3, 1,
     convert_fused_gemm},
    {MS, "FusedMatMul", 1, LAST, MATMUL_ATTRIBUTES, 2, 2, 1, convert_fused_matmul},
    {MS, "TransposeMatMul", 1, LAST, MATMUL_ATTRIBUTES, 2, 2, 1, convert_fused_matmul},
    {MS, "FusedMatMulActivation", 1, LAST, MATMUL_ATTRIBUTES " " ACTIVATION_ATTRIBUTES, 2, 2, 1,
     convert_fused_matmul},
    {MS, "MatMulBnb4", 1, LAST, "K:i! N:i! block_size:i! quant_type:i! training_mode:i transB:i", 3, 3, 1,
     import_convert_ms_matmul_bnb4},
    {MS, "GemmFastGelu", 1, LAST, "", 2, 3, 1, convert_gemm_fast_gelu},
    {MS, "SkipLayerNormalization", 1, LAST, "epsilon:f", 3, 5, 4, convert_skip_layer_normalization},
    {MS, "SkipSimplifiedLayerNormalization", 1, LAST, "epsilon:f", 3, 4, 4, convert_skip_layer_normalization},
    {"", "SimplifiedLayerNormalization", 1, 27, "axis:i epsilon:f stash_type:i", 2, 2, 2,
     convert_simplified_layer_normalization},
    {MS, "EmbedLayerNormalization", 1, LAST, "epsilon:f mask_index_type:i", 0, 9, 3,
     convert_embed_layer_normalization},
    {MS, "QEmbedLayerNormalization", 1, LAST, "epsilon:f", 0, 18, 2,
     convert_quantized_embed_layer_normalization},
    {MS, "BitmaskDropout", 1, LAST, "seed:i", 1, 3, 1, convert_inference_dropout},
    {MS, "Trilu", 1, LAST, "upper:i", 1, 2, 1, convert_same},
    {MS, "GatherND", 1, LAST, "", 2, 2, 1, convert_same},
    {MS, "Pad", 1, LAST, "mode:s", 2, 3, 1, convert_pad},
    {MS, "GridSample", 1, LAST, "align_corners:i mode:s padding_mode:s", 2, 2, 1, import_convert_grid_sample},
    {MS, "Unique", 1, LAST, "", 1, 1, 3, import_convert_ms_unique},
    {MS, "ExpandDims", 1, LAST, "", 2, 2, 1, import_convert_ms_expand_dims},
    {MS, "Range", 1, LAST, "", 2, 3, 1, import_convert_ms_range},
    {MS, "ComplexMul", 1, LAST, "", 2, 2, 1, import_convert_ms_complex_product},
    {MS, "ComplexMulConj", 1, LAST, "", 2, 2, 1, import_convert_ms_complex_product},
    {MS, "CDist", 1, LAST, "metric:s!", 2, 2, 1, import_convert_ms_distances},
    {MS, "UnfoldTensor", 1, LAST, "dim:i size:i! step:i", 1, 1, 1, import_convert_ms_unfold},
    {MS, "IsAllFinite", 1, LAST, "isinf_only:i isnan_only:i", 1, ANY, 1, import_convert_ms_is_all_finite},
    {MS, "NGramRepeatBlock", 1, LAST, "ngram_size:i!", 2, 2, 1, import_convert_ms_ngram_repeat_block},
    {MS, "TorchEmbedding", 1, LAST, "", 2, 4, 1, convert_torch_embedding},
    {MS, "Rfft", 1, LAST, "normalized:i onesided:i signal_ndim:i", 1, 1, 1, import_convert_ms_real_fourier},
    {MS, "Irfft", 1, LAST, "normalized:i onesided:i signal_ndim:i!", 1, 1, 1,
     import_convert_ms_inverse_real_fourier},
    {MS, "GemmaRotaryEmbedding", 1, LAST, "", 5, 5, 2, import_convert_ms_gemma_rotary_embedding},
    /* images (microsoft_images.c) */
    {MS, "GroupNorm", 1, LAST, "activation:i! channels_last:i epsilon:f groups:i!", 3, 3, 1,
     import_convert_ms_group_norm},
    {MS, "SkipGroupNorm", 1, LAST, "activation:i! channels_last:i epsilon:f groups:i!", 4, 5, 2,
     import_convert_ms_group_norm},
    {MS, "NhwcConv", 1, LAST, CONV_ATTRIBUTES, 2, 3, 1, import_convert_ms_nhwc_convolution},
    {MS, "NhwcFusedConv", 1, LAST, CONV_ATTRIBUTES " activation:s activation_params:F", 2, 4, 1,
     import_convert_ms_nhwc_convolution},
    {MS, "ConvTransposeWithDynamicPads", 1, LAST,
     "auto_pad:s dilations:I group:i kernel_shape:I output_padding:I strides:I", 2, 4, 1,
     import_convert_ms_padded_transposed_convolution},
    {MS, "CropAndResize", 1, LAST, "extrapolation_value:f mode:s", 4, 4, 1,
     import_convert_ms_crop_and_resize},
    /* attention (microsoft_attention.c) */
    {MS, "Attention", 1, LAST,
     "do_rotary:i mask_filter_value:f num_heads:i! past_present_share_buffer:i qkv_hidden_sizes:I "
     "rotary_embedding_dim:i scale:f unidirectional:i",
     2, 7, 2, import_convert_ms_attention},
    {MS, "QAttention", 1, LAST,
     "do_rotary:i mask_filter_value:f num_heads:i! past_present_share_buffer:i scale:f unidirectional:i", 5,
     9, 2, import_convert_ms_quantized_attention},
    {MS, "DecoderMaskedMultiHeadAttention", 1, LAST,
     "mask_filter_value:f num_heads:i! output_qk:i past_present_share_buffer:i scale:f", 0, 11, 4,
     import_convert_ms_decoder_masked_attention},
    {MS, "MultiHeadAttention", 1, LAST, "mask_filter_value:f num_heads:i! scale:f unidirectional:i", 0, 10, 4,
     import_convert_ms_multi_head_attention},
    {MS, "GroupQueryAttention", 1, LAST,
     "do_rotary:i kv_num_heads:i! local_window_size:i num_heads:i! qk_output:i rotary_interleaved:i scale:f "
     "smooth_softmax:i softcap:f",
     0, 12, 4, import_convert_ms_group_query_attention},
    {MS, "RotaryEmbedding", 1, LAST,
     "interleaved:i is_packed_batching:i num_heads:i rotary_embedding_dim:i scale:f", 4, 4, 1,
     import_convert_ms_rotary_embedding},
    /* linear attention (microsoft_linear.c, attention.c) */
    {MS, "LinearAttention", 1, LAST,
     "chunk_size:i kv_num_heads:i! q_num_heads:i! scale:f state_window:i update_rule:s", 3, 6, 2,
     import_convert_ms_linear_attention},
    {MS, "LinearAttentionGate", 1, LAST, "", 3, 4, 2, import_convert_ms_linear_attention_gate},
    {MS, "CausalConvWithState", 1, LAST, "activation:s channels_last:i dilation:i ndim:i state_window:i", 2,
     4, 2, import_convert_causal_conv},
    {MS, "GatedRMSNorm", 1, LAST, "epsilon:f", 3, 3, 1, import_convert_ms_gated_norm},
    {MS, "GatedAdd", 1, LAST, "", 3, 3, 1, import_convert_ms_gated_add},
    {MS, "MRotaryEmbedding", 1, LAST,
     "interleaved:i mrope_layout:i mrope_section:I! num_heads:i rotary_embedding_dim:i scale:f", 4, 4, 1,
     import_convert_ms_multimodal_rotary_embedding},
    {MS, "EngramGate", 1, LAST, "epsilon:f", 5, 5, 1, import_convert_ms_engram_gate},
    {MS, "NGramHashMapping", 1, LAST, "max_ngram_size:i! n_head_per_ngram:i! pad_id:i", 3, 4, 2,
     import_convert_ms_ngram_hash},
    /* mixtures of experts (microsoft_experts.c) */
    {MS, "MoE", 1, LAST, MIXTURE_ATTRIBUTES, 0, 8, 1, import_convert_ms_mixture},
    {MS, "QMoE", 1, LAST, MIXTURE_ATTRIBUTES " block_size:i expert_weight_bits:i", 0, 14, 1,
     import_convert_ms_quantized_mixture},
    /* generation (generation_greedy.c, generation_sampling.c, generation_search.c) */
    {MS, "GreedySearch", 1, LAST,
     "decoder:g! decoder_start_token_id:i encoder:g eos_token_id:i! init_decoder:g model_type:i "
     "no_repeat_ngram_size:i pad_token_id:i! vocab_size:i",
     2, 7, 1, import_convert_ms_greedy_search},
    {MS, "Sampling", 1, LAST,
     "custom:i decoder:g! decoder_start_token_id:i encoder:g eos_token_id:i! filter_value:f init_decoder:g "
     "min_tokens_to_keep:i model_type:i no_repeat_ngram_size:i pad_token_id:i! presence_penalty:f temperature:f top_p:f "
     "vocab_size:i",
     2, 9, 2, import_convert_ms_sampling},
    {MS, "BeamSearch", 1, LAST,
     "decoder:g! decoder_start_token_id:i early_stopping:i encoder:g eos_token_id:i! init_decoder:g "
     "model_type:i "
     "no_repeat_ngram_size:i pad_token_id:i! vocab_size:i",
     0, 12, 3, import_convert_ms_beam_search},
    {MS, "WhisperBeamSearch", 1, LAST,
     "beginning_timestamp_token_id:i decoder:g! decoder_output_cross_qk:i decoder_start_token_id:i early_stopping:i "
     "encoder:g! eos_token_id:i! model_type:i no_repeat_ngram_size:i no_speech_token_id:i no_timestamps_token_id:i "
     "pad_token_id:i! start_of_lm_token_id:i transcribe_token_id:i translate_token_id:i vocab_size:i",
     0, 15, 5, import_convert_ms_whisper_beam_search},
    /* 8-bit integers (microsoft_quantized.c) */
    {MS, "QuantizeLinear", 1, LAST, "axis:i", 2, 3, 1, import_convert_ms_quantize},
    {MS, "DequantizeLinear", 1, LAST, "axis:i", 2, 3, 1, import_convert_ms_quantize},
    {MS, "QLinearAdd", 1, LAST, "", 0, 8, 1, import_convert_ms_qlinear_binary},
    {MS, "QLinearMul", 1, LAST, "", 0, 8, 1, import_convert_ms_qlinear_binary},
    {MS, "QLinearSigmoid", 1, LAST, "", 0, 5, 1, import_convert_ms_qlinear_unary},
    {MS, "QLinearLeakyRelu", 1, LAST, "alpha:f", 0, 5, 1, import_convert_ms_qlinear_unary},
    {MS, "QLinearAveragePool", 1, LAST, POOL_ATTRIBUTES " channels_last:i count_include_pad:i", 0, 5, 1,
     import_convert_ms_qlinear_pool},
    {MS, "QLinearGlobalAveragePool", 1, LAST, "channels_last:i", 5, 5, 1,
     import_convert_ms_qlinear_global_pool},
    {MS, "QLinearConcat", 1, LAST, "axis:i!", 5, ANY, 1, import_convert_ms_qlinear_concat},
    {MS, "QLinearSoftmax", 1, LAST, "axis:i opset:i!", 0, 5, 1, import_convert_ms_qlinear_softmax},
    {MS, "QLinearWhere", 1, LAST, "", 9, 9, 1, import_convert_ms_qlinear_where},
    {MS, "QLinearReduceMean", 1, LAST, "axes:I! keepdims:i!", 0, 5, 1, import_convert_ms_qlinear_reduce_mean},
    {MS, "QLinearConv", 1, LAST, CONV_ATTRIBUTES " channels_last:i", 8, 9, 1,
     import_convert_ms_qlinear_convolution},
    {MS, "QGemm", 1, LAST, "alpha:f transA:i transB:i", 6, 9, 1, import_convert_ms_qgemm},
    {MS, "MatMulIntegerToFloat", 1, LAST, "", 4, 7, 1, import_convert_ms_matmul_integer_to_float},
    {MS, "DynamicQuantizeMatMul", 1, LAST, "", 3, 5, 1, import_convert_ms_dynamic_quantize_matmul},
    {MS, "MatMulInteger16", 1, LAST, "", 2, 2, 1, import_convert_ms_matmul_integer_16},
    {MS, "MulInteger", 1, LAST, "", 0, 4, 1, import_convert_ms_multiply_integers},
    {MS, "ReduceSumInteger", 1, LAST, "axes:I! keepdims:i!", 1, 1, 1, import_convert_ms_reduce_sum_integer},
    {MS, "GatherBlockQuantized", 1, LAST, "bits:i block_size:i gather_axis:i quantize_axis:i", 3, 4, 1,
     import_convert_ms_gather_block_quantized},
    {MS, "NhwcMaxPool", 1, LAST, POOL_ATTRIBUTES " dilations:I", 1, 1, 1, import_convert_ms_nhwc_max_pool},
};

const import_table import_table_microsoft = {rows, sizeof rows / sizeof *rows};
