/* SPDX-License-Identifier: Apache-2.0 */
/* convert.c: the table of conversions: how an operator of any version becomes its canonical form,
 * which is the one of its row in ir/operators/ops.def.
 *
 * Adding a version or an operator touches one row. An operator of the default domain that has no row here,
 * but one in ops.def, had the same form in all versions, and is taken as it is.
 */
#include "compiler/onnx/convert/convert.h"

#include <string.h>

enum { ANY = -1, LAST = 27 };

#define POOL_ATTRIBUTES "auto_pad:s ceil_mode:i dilations:I kernel_shape:I! pads:I storage_order:i strides:I"
#define AVERAGE_ATTRIBUTES "auto_pad:s ceil_mode:i count_include_pad:i kernel_shape:I! pads:I strides:I"
#define LP_POOL_ATTRIBUTES "auto_pad:s kernel_shape:I pads:I p:i strides:I"
#define RNN_ATTRIBUTES "activation_alpha:F activation_beta:F activations:S clip:f direction:s hidden_size:i"
#define CONSTANT_ATTRIBUTES                                                                                  \
    "sparse_value:z value:t value_float:f value_floats:F value_int:i value_ints:I value_string:s "           \
    "value_strings:S"
#define SCAN_ATTRIBUTES                                                                                      \
    "body:g! num_scan_inputs:i! scan_input_axes:I scan_input_directions:I scan_output_axes:I "               \
    "scan_output_directions:I"

/* domain, operator, versions from and to, attributes, inputs least and most, outputs most, converter;
 * attributes NULL: those of ops.def */
static const import_row rows[] = {
    /* before opset 7, broadcasting was an attribute */
    {"", "Add", 1, 6, "axis:i broadcast:i", 2, 2, 1, import_convert_broadcast},
    {"", "Sub", 1, 6, "axis:i broadcast:i", 2, 2, 1, import_convert_broadcast},
    {"", "Mul", 1, 6, "axis:i broadcast:i", 2, 2, 1, import_convert_broadcast},
    {"", "Div", 1, 6, "axis:i broadcast:i", 2, 2, 1, import_convert_broadcast},
    {"", "Pow", 1, 6, "axis:i broadcast:i", 2, 2, 1, import_convert_broadcast},
    {"", "And", 1, 6, "axis:i broadcast:i", 2, 2, 1, import_convert_broadcast},
    {"", "Or", 1, 6, "axis:i broadcast:i", 2, 2, 1, import_convert_broadcast},
    {"", "Xor", 1, 6, "axis:i broadcast:i", 2, 2, 1, import_convert_broadcast},
    {"", "Equal", 1, 6, "axis:i broadcast:i", 2, 2, 1, import_convert_broadcast},
    {"", "Less", 1, 6, "axis:i broadcast:i", 2, 2, 1, import_convert_broadcast},
    {"", "Greater", 1, 6, "axis:i broadcast:i", 2, 2, 1, import_convert_broadcast},
    {"", "PRelu", 1, 6, "", 2, 2, 1, import_convert_prelu},
    /* any number of inputs */
    {"", "Sum", 1, LAST, "", 1, ANY, 1, import_convert_variadic},
    {"", "Max", 1, LAST, "", 1, ANY, 1, import_convert_variadic},
    {"", "Min", 1, LAST, "", 1, ANY, 1, import_convert_variadic},
    {"", "Mean", 1, LAST, "", 1, ANY, 1, import_convert_mean},
    /* elementwise */
    {"", "Clip", 1, 10, "max:f min:f", 1, 1, 1, import_convert_clip},
    {"", "Cast", 1, 5, "to:s!", 1, 1, 1, import_convert_cast},
    {"", "Cast", 6, 18, "to:i!", 1, 1, 1, import_convert_plain},
    {"", "Cast", 19, 23, "saturate:i to:i!", 1, 1, 1, import_convert_plain},
    {"", "Cast", 24, LAST, "round_mode:s saturate:i to:i!", 1, 1, 1, import_convert_plain},
    {"", "Dropout", 1, 6, "is_test:i ratio:f", 1, 1, 2, import_convert_dropout},
    {"", "Dropout", 7, 11, "ratio:f", 1, 1, 2, import_convert_dropout},
    {"", "Dropout", 12, LAST, "seed:i", 1, 3, 2, import_convert_dropout},
    {"", "Range", 11, 26, "", 3, 3, 1, import_convert_range},
    {"", "Range", 27, LAST, "stash_type:i", 3, 3, 1, import_convert_range},
    /* random numbers */
    {"", "RandomNormal", 1, LAST, "dtype:i mean:f scale:f seed:f shape:I!", 0, 0, 1, import_convert_random},
    {"", "RandomUniform", 1, LAST, "dtype:i high:f low:f seed:f shape:I!", 0, 0, 1, import_convert_random},
    {"", "RandomNormalLike", 1, LAST, "dtype:i mean:f scale:f seed:f", 1, 1, 1, import_convert_random},
    {"", "RandomUniformLike", 1, LAST, "dtype:i high:f low:f seed:f", 1, 1, 1, import_convert_random},
    {"", "Bernoulli", 1, LAST, "dtype:i seed:f", 1, 1, 1, import_convert_random},
    {"", "Multinomial", 1, LAST, "dtype:i sample_size:i seed:f", 1, 1, 1, import_convert_random},
    /* axes: an attribute that became an input */
    {"", "Squeeze", 1, 12, "axes:I", 1, 1, 1, import_convert_axes},
    {"", "Unsqueeze", 1, 12, "axes:I!", 1, 1, 1, import_convert_axes},
    {"", "ReduceSum", 1, 12, "axes:I keepdims:i", 1, 1, 1, import_convert_axes},
    {"", "ReduceMean", 1, 17, "axes:I keepdims:i", 1, 1, 1, import_convert_axes},
    {"", "ReduceMax", 1, 17, "axes:I keepdims:i", 1, 1, 1, import_convert_axes},
    {"", "ReduceMin", 1, 17, "axes:I keepdims:i", 1, 1, 1, import_convert_axes},
    {"", "ReduceProd", 1, 17, "axes:I keepdims:i", 1, 1, 1, import_convert_axes},
    {"", "Softmax", 1, 12, "axis:i", 1, 1, 1, import_convert_softmax},
    {"", "LogSoftmax", 1, 12, "axis:i", 1, 1, 1, import_convert_softmax},
    /* before opset 7, whether all steps are given out was an attribute too; the named outputs say it as well
     */
    {"", "RNN", 1, 6, RNN_ATTRIBUTES " output_sequence:i", 3, 6, 2, import_convert_plain},
    {"", "GRU", 1, 6, RNN_ATTRIBUTES " linear_before_reset:i output_sequence:i", 3, 6, 2,
     import_convert_plain},
    {"", "LSTM", 1, 6, RNN_ATTRIBUTES " input_forget:i output_sequence:i", 3, 8, 3, import_convert_plain},
    /* convolutions, pools, normalisations, products; ops.def has inputs there that files do not */
    {"", "Conv", 1, LAST, NULL, 2, 3, 1, import_convert_plain},
    {"", "MatMul", 1, LAST, NULL, 2, 2, 1, import_convert_plain},
    {"", "Gemm", 1, 6, "alpha:f beta:f broadcast:i transA:i transB:i", 3, 3, 1, import_convert_plain},
    {"", "MaxPool", 1, LAST, POOL_ATTRIBUTES, 1, 1, 2, import_convert_plain},
    {"", "AveragePool", 1, 18, AVERAGE_ATTRIBUTES, 1, 1, 1, import_convert_plain},
    {"", "AveragePool", 19, LAST, AVERAGE_ATTRIBUTES " dilations:I", 1, 1, 1, import_convert_plain},
    {"", "LRN", 1, LAST, "alpha:f beta:f bias:f size:i!", 1, 1, 1, import_convert_plain},
    {"", "BatchNormalization", 1, 6, "epsilon:f is_test:i momentum:f spatial:i", 5, 5, 5,
     import_convert_batch_normalization},
    {"", "BatchNormalization", 7, 13, "epsilon:f momentum:f spatial:i", 5, 5, 5,
     import_convert_batch_normalization},
    {"", "BatchNormalization", 14, LAST, NULL, 5, 5, 3, import_convert_batch_normalization},
    {"", "Scatter", 9, LAST, "axis:i", 3, 3, 1, import_convert_scatter},
    {"", "TopK", 1, 9, "axis:i k:i!", 1, 1, 2, import_convert_top_k},
    {"", "Resize", 10, 10, "mode:s", 2, 2, 1, import_convert_resize},
    {"", "Upsample", 7, 8, "mode:s scales:F!", 1, 1, 1, import_convert_resize},
    {"", "Upsample", 9, LAST, "mode:s", 2, 2, 1, import_convert_resize},
    {"", "RoiAlign", 10, 15, "mode:s output_height:i output_width:i sampling_ratio:i spatial_scale:f", 3, 3,
     1, import_convert_roi_align},
    {"", "LpPool", 1, 1, "auto_pad:s kernel_shape:I pads:I p:f strides:I", 1, 1, 1, import_convert_lp_pool},
    {"", "LpPool", 2, 17, LP_POOL_ATTRIBUTES, 1, 1, 1, import_convert_lp_pool},
    {"", "LpPool", 18, LAST, LP_POOL_ATTRIBUTES " ceil_mode:i dilations:I", 1, 1, 1, import_convert_lp_pool},
    {"", "GlobalLpPool", 1, 1, "p:f", 1, 1, 1, import_convert_global_lp_pool},
    {"", "GlobalLpPool", 2, LAST, "p:i", 1, 1, 1, import_convert_global_lp_pool},
    {"", "Attention", 23, 23, NULL, 3, 6, 4, import_convert_attention},
    {"", "Attention", 24, LAST, NULL, 3, 7, 4, import_convert_attention},
    {"", "RMSNormalization", 23, LAST, NULL, 2, 2, 1, import_convert_rms_normalization},
    {"", "GroupNormalization", 18, 20, "epsilon:f num_groups:i!", 3, 3, 1,
     import_convert_group_normalization},
    {"", "GroupNormalization", 21, LAST, "epsilon:f num_groups:i! stash_type:i", 3, 3, 1,
     import_convert_group_normalization},
    {"", "CausalConvWithState", 27, LAST, "activation:s", 2, 4, 2, import_convert_causal_conv},
    {"ai.onnx.preview", "FlexAttention", 1, LAST, "prob_mod:g scale:f score_mod:g softmax_precision:i", 3, 3,
     1, import_convert_flex_attention},
    {"", "CenterCropPad", 18, LAST, "axes:I", 2, 2, 1, import_convert_center_crop_pad},
    {"", "BitCast", 26, LAST, "to:i!", 1, 1, 1, import_convert_bit_cast},
    {"", "QuantizeLinear", 10, 12, "", 2, 3, 1, import_convert_plain},
    {"", "QuantizeLinear", 13, 18, "axis:i", 2, 3, 1, import_convert_plain},
    {"", "QuantizeLinear", 19, 20, "axis:i saturate:i", 2, 3, 1, import_convert_plain},
    {"", "QuantizeLinear", 21, 22, "axis:i block_size:i output_dtype:i saturate:i", 2, 3, 1,
     import_convert_plain},
    {"", "QuantizeLinear", 23, LAST, NULL, 2, 3, 1, import_convert_plain},
    {"", "DequantizeLinear", 10, 12, "", 2, 3, 1, import_convert_plain},
    {"", "DequantizeLinear", 13, 20, "axis:i", 2, 3, 1, import_convert_plain},
    {"", "DequantizeLinear", 21, 22, "axis:i block_size:i", 2, 3, 1, import_convert_plain},
    {"", "DequantizeLinear", 23, LAST, NULL, 2, 3, 1, import_convert_plain},
    {"", "QLinearMatMul", 10, 20, "", 8, 8, 1, import_convert_plain},
    {"", "QLinearMatMul", 21, LAST, NULL, 8, 8, 1, import_convert_qlinear_matmul},
    /* operators that are made of others (compiler/onnx/convert/compose.c) */
    {"", "ReduceL1", 1, 17, "axes:I keepdims:i", 1, 1, 1, import_convert_reduce_composed},
    {"", "ReduceL1", 18, LAST, "keepdims:i noop_with_empty_axes:i", 1, 2, 1, import_convert_reduce_composed},
    {"", "ReduceL2", 1, 17, "axes:I keepdims:i", 1, 1, 1, import_convert_reduce_composed},
    {"", "ReduceL2", 18, LAST, "keepdims:i noop_with_empty_axes:i", 1, 2, 1, import_convert_reduce_composed},
    {"", "ReduceLogSum", 1, 17, "axes:I keepdims:i", 1, 1, 1, import_convert_reduce_composed},
    {"", "ReduceLogSum", 18, LAST, "keepdims:i noop_with_empty_axes:i", 1, 2, 1,
     import_convert_reduce_composed},
    {"", "ReduceLogSumExp", 1, 17, "axes:I keepdims:i", 1, 1, 1, import_convert_reduce_composed},
    {"", "ReduceLogSumExp", 18, LAST, "keepdims:i noop_with_empty_axes:i", 1, 2, 1,
     import_convert_reduce_composed},
    {"", "ReduceSumSquare", 1, 17, "axes:I keepdims:i", 1, 1, 1, import_convert_reduce_composed},
    {"", "ReduceSumSquare", 18, LAST, "keepdims:i noop_with_empty_axes:i", 1, 2, 1,
     import_convert_reduce_composed},
    {"", "CastLike", 15, 18, "", 2, 2, 1, import_convert_cast_like},
    {"", "CastLike", 19, 23, "saturate:i", 2, 2, 1, import_convert_cast_like},
    {"", "CastLike", 24, LAST, "round_mode:s saturate:i", 2, 2, 1, import_convert_cast_like},
    {"", "Shrink", 9, LAST, "bias:f lambd:f", 1, 1, 1, import_convert_shrink},
    {"", "MeanVarianceNormalization", 9, LAST, "axes:I", 1, 1, 1, import_convert_mean_variance},
    {"", "LpNormalization", 1, LAST, "axis:i p:i", 1, 1, 1, import_convert_lp_normalization},
    {"", "InstanceNormalization", 1, LAST, "consumed_inputs:I epsilon:f", 3, 3, 1,
     import_convert_instance_normalization},
    /* from opset 17 on; fused models of older opsets have it too */
    {"", "LayerNormalization", 1, LAST, "axis:i epsilon:f stash_type:i", 2, 3, 3,
     import_convert_layer_normalization},
    {"", "Hardmax", 1, 12, "axis:i", 1, 1, 1, import_convert_hardmax_flat},
    {"", "Hardmax", 13, LAST, "axis:i", 1, 1, 1, import_convert_hardmax},
    {"", "NegativeLogLikelihoodLoss", 12, LAST, "ignore_index:i reduction:s", 2, 3, 1,
     import_convert_likelihood_loss},
    {"", "SoftmaxCrossEntropyLoss", 12, LAST, "ignore_index:i reduction:s", 2, 3, 2,
     import_convert_cross_entropy_loss},
    {"", "HannWindow", 17, LAST, "output_datatype:i periodic:i", 1, 1, 1, import_convert_window},
    {"", "HammingWindow", 17, LAST, "output_datatype:i periodic:i", 1, 1, 1, import_convert_window},
    {"", "BlackmanWindow", 17, LAST, "output_datatype:i periodic:i", 1, 1, 1, import_convert_window},
    {"", "DFT", 17, 19, "axis:i inverse:i onesided:i", 1, 2, 1, import_convert_dft},
    {"", "GridSample", 16, 19, "align_corners:i mode:s padding_mode:s", 2, 2, 1, import_convert_grid_sample},
    /* steps of training */
    {"ai.onnx.preview.training", "Momentum", 1, LAST, "alpha:f! beta:f! mode:s! norm_coefficient:f!", 5, ANY,
     ANY, import_convert_plain},
    /* what ONNX had for trial (experimental.c) */
    {"", "Affine", 1, 9, "alpha:f beta:f", 1, 1, 1, import_convert_scaled},
    {"", "Scale", 1, 9, "scale:f", 1, 1, 1, import_convert_scaled},
    {"", "ScaledTanh", 1, 9, "alpha:f beta:f", 1, 1, 1, import_convert_scaled},
    {"", "ParametricSoftplus", 1, 9, "alpha:f beta:f", 1, 1, 1, import_convert_scaled},
    {"", "ImageScaler", 1, 9, "bias:F scale:f", 1, 1, 1, import_convert_image_scaler},
    {"", "Crop", 1, 9, "border:I! scale:I", 1, 1, 1, import_convert_crop},
    {"", "DynamicSlice", 1, 9, "", 3, 4, 1, import_convert_dynamic_slice},
    {"", "ConstantFill", 1, 9, "dtype:i extra_shape:I input_as_shape:i shape:I value:f", 0, 1, 1,
     import_convert_constant_fill},
    {"", "MeanVarianceNormalization", 1, 8, "across_channels:i normalize_variance:i", 1, 1, 1,
     import_convert_old_mean_variance},
    {"", "Upsample", 1, 6, "height_scale:f! mode:s width_scale:f!", 1, 1, 1, import_convert_old_upsample},
    /* movement of data */
    {"", "Slice", 1, 9, "axes:I ends:I! starts:I!", 1, 1, 1, import_convert_slice},
    {"", "Split", 1, 1, "axis:i split:I", 1, 2, ANY, import_convert_split},
    {"", "Split", 2, 12, "axis:i split:I", 1, 1, ANY, import_convert_split},
    {"", "Pad", 1, 1, "mode:s paddings:I! value:f", 1, 1, 1, import_convert_pad},
    {"", "Pad", 2, 10, "mode:s pads:I! value:f", 1, 1, 1, import_convert_pad},
    {"", "Reshape", 1, 4, "shape:I!", 1, 1, 1, import_convert_reshape},
    {"", "Concat", 1, 3, "axis:i", 1, ANY, 1, import_convert_concat},
    {"", "Concat", 4, LAST, "axis:i!", 1, ANY, 1, import_convert_plain},
    {"", "Tile", 1, 5, "", 3, 3, 1, import_convert_tile},
    /* making of values, control */
    {"", "Constant", 1, LAST, CONSTANT_ATTRIBUTES, 0, 0, 1, import_convert_constant},
    {"ai.onnx.preview.training", "Gradient", 1, LAST, "xs:S! y:s! zs:S", 1, ANY, ANY,
     import_convert_gradient},
    {"", "SequenceMap", 17, LAST, "body:g!", 1, ANY, ANY, import_convert_sequence_map},
    {"", "OptionalHasElement", 15, LAST, "", 0, 1, 1, import_convert_optional_has_element},
    {"", "OptionalGetElement", 15, LAST, "", 1, 1, 1, import_convert_optional_get_element},
    {"", "If", 1, LAST, "else_branch:g! then_branch:g!", 1, 1, ANY, import_convert_if},
    {"", "Loop", 1, LAST, "body:g!", 0, ANY, ANY, import_convert_loop},
    {"", "Scan", 8, 8, "body:g! directions:I num_scan_inputs:i!", 0, ANY, ANY, import_convert_scan_batched},
    {"", "Scan", 9, LAST, SCAN_ATTRIBUTES, 1, ANY, ANY, import_convert_scan},
};

static const import_table table = {rows, sizeof rows / sizeof *rows};
static const import_table *const tables[] = {&table, &import_table_microsoft, &import_table_ml};
enum { TABLES = sizeof tables / sizeof *tables };

const import_row *import_rows(size_t index, size_t *count) {
    *count = index < TABLES ? tables[index]->count : 0;
    return index < TABLES ? tables[index]->rows : NULL;
}

static bool same_operator(const import_row *row, const char *domain, const char *name) {
    return strcmp(row->name, name) == 0 && strcmp(row->domain, domain) == 0;
}

bool import_row_find(const char *domain, const char *name, int64_t version, import_row *row) {
    if (version < 1) return false;
    bool any = false; /* a row for some version: then others are not supported */
    for (size_t t = 0; t < TABLES; t++) {
        for (size_t i = 0; i < tables[t]->count; i++) {
            const import_row *at = &tables[t]->rows[i];
            if (!same_operator(at, domain, name)) continue;
            if (version >= at->from && version <= at->to) {
                *row = *at;
                return true;
            }
            any = any || at->to == LAST;
        }
    }
    op_code code = op_code_from_name(domain, name);
    if (any || code == OP_CODE_NONE || strcmp(domain, "ouro") == 0) return false;
    const op_schema *canonical = op_schema_of(code);
    *row = (import_row){.domain = domain,
                        .name = canonical->name,
                        .from = 1,
                        .to = LAST,
                        .input_minimum = canonical->input_minimum,
                        .input_maximum = canonical->input_maximum,
                        .output_maximum = canonical->output_maximum,
                        .convert = import_convert_plain};
    return true;
}
