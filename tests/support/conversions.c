/* SPDX-License-Identifier: Apache-2.0 */
/* conversions.c: see conversions.h. */
#include "tests/support/conversions.h"

#include <stdlib.h>
#include <string.h>

static const support_conversion conversions[] = {
    /* the same form in all versions */
    {"Relu", 13, "x:1:2,3", "y", ""},
    {"Relu", 1, "x:1:2,3", "y", "consumed_inputs I 0"},
    {"Conv", 1, "x:1:N,3,8,8;w:1:4,3,3,3", "y", "pads I 1,1,1,1"},
    {"Transpose", 1, "x:1:2,3", "y", "perm I 1,0"},
    {"Shape", 9, "x:1:N,3", "y", ""},
    {"MaxPool", 8, "x:1:1,1,4,4", "y,indices", "kernel_shape I 2,2;strides I 2,2"},
    {"TopK", 1, "x:1:3,4", "y,i", "k i 2;axis i 0"},
    {"RoiAlign", 10, "x:1:1,2,6,6;r:1:3,4;b:7:3", "y", "output_height i 2;output_width i 2"},
    /* broadcasting as an attribute */
    {"Add", 6, "a:1:2,3,4,5;b:1:2,3,4,5", "y", ""},
    {"Add", 6, "a:1:2,3,4,5;b:1:4,5", "y", "broadcast i 1"},
    {"Mul", 6, "a:1:2,3,4,5;b:1:3", "y", "broadcast i 1;axis i 1"},
    {"Sub", 1, "a:1:2,3,4,5;b:1:3,4", "y", "broadcast i 1;axis i -3"},
    {"Less", 6, "a:1:2,3,4,5;b:1:", "y", "broadcast i 1;axis i 0"},
    {"And", 1, "a:9:2,3;b:9:2", "y", "broadcast i 1;axis i 0"},
    {"PRelu", 6, "x:1:N,3,4,4;slope:1:3", "y", ""},
    {"PRelu", 6, "x:1:N,3,4,4;slope:1:1", "y", ""},
    /* any number of inputs */
    {"Sum", 8, "a:1:2", "y", ""},
    {"Sum", 8, "a:1:2;b:1:2", "y", ""},
    {"Max", 12, "a:1:2;b:1:2;c:1:2", "y", ""},
    {"Mean", 13, "a:11:2;b:11:2;c:11:2", "y", ""},
    /* sums, squares and powers of 16 bits are made in float */
    {"Mean", 13, "a:10:2;b:10:2", "y", ""},
    {"ReduceL2", 13, "x:10:2,3", "y", "axes I 1"},
    {"ReduceLogSumExp", 13, "x:16:2,3", "y", "axes I 1"},
    {"LpNormalization", 1, "x:10:2,3", "y", ""},
    {"Range", 11, "a:1:;b:1:;c:1:", "y", ""},
    {"Range", 27, "a:10:;b:10:;c:10:", "y", "stash_type i 1"},
    {"LpPool", 1, "x:1:1,1,4,4", "y", "kernel_shape I 2,2;p f 1.5"},
    {"GlobalLpPool", 1, "x:1:1,2,4,4", "y", "p f 3"},
    {"LpPool", 18, "x:10:1,1,4,4", "y", "kernel_shape I 2,2"},
    {"GlobalLpPool", 2, "x:10:1,2,4,4", "y", ""},
    {"MeanVarianceNormalization", 13, "x:10:1,2,4,4", "y", ""},
    {"InstanceNormalization", 6, "x:10:1,2,4,4;s:10:2;b:10:2", "y", ""},
    /* outputs that the operator always makes, but the file leaves out */
    {"DynamicQuantizeLinear", 11, "x:1:2,3", "y,s", ""},
    {"DynamicQuantizeLinear", 11, "x:1:2,3", "y", ""},
    /* integers stay exact */
    {"NegativeLogLikelihoodLoss", 13, "x:1:2,3;t:7:2", "y", "ignore_index i 9007199254740993"},
    /* caches beside attention */
    /* statistics in float, whatever is normalised */
    {"LayerNormalization", 17, "x:11:2,3;scale:11:3", "y,mean,inverse", ""},
    {"Attention", 23, "q:1:2,4,5,8;k:1:2,4,6,8;v:1:2,4,6,8;m:1:5,6", "y", ""},
    {"Attention", 24, "q:1:2,1,32;k:1:2,1,16;v:1:2,1,16;m:9:1,P;pk:1:2,2,P,8;pv:1:2,2,P,8", "y,k2,v2",
     "q_num_heads i 4;kv_num_heads i 2;is_causal i 1"},
    /* attributes that became inputs */
    {"Clip", 6, "x:1:2", "y", "min f -1;max f 6"},
    {"Clip", 6, "x:10:2", "y", "max f 6"},
    {"Clip", 6, "x:1:2", "y", ""},
    {"Cast", 5, "x:1:2", "y", "to s INT64"},
    {"Squeeze", 11, "x:1:1,3,1", "y", "axes I 0,2"},
    {"Squeeze", 11, "x:1:1,3,1", "y", ""},
    {"Unsqueeze", 11, "x:1:3", "y", "axes I 0,2"},
    {"ReduceSum", 11, "x:1:2,3", "y", "axes I 1;keepdims i 0"},
    {"ReduceSum", 13, "x:1:2,3;axes=1", "y", "keepdims i 0"},
    {"ReduceMean", 13, "x:1:2,3", "y", "axes I -1"},
    {"ReduceMax", 12, "x:1:2,3", "y", ""},
    {"Slice", 9, "x:1:4,4", "y", "starts I 1,0;ends I 3,2;axes I 0,1"},
    {"Slice", 1, "x:1:4,4", "y", "starts I 1;ends I 3"},
    {"Split", 11, "x:1:6", "a,b", "split I 2,4"},
    {"Split", 2, "x:1:6,4", "a,b", "axis i 1"},
    {"Split", 1, "x:1:6;extents=2,4", "a,b", ""},
    {"Split", 1, "x:1:6;extents:1:2", "a,b", ""},
    {"Pad", 2, "x:1:2,3", "y", "pads I 1,1,1,1;value f 2.5;mode s constant"},
    {"Pad", 1, "x:1:2,3", "y", "paddings I 1,1,1,1;mode s edge"},
    {"Split", 18, "x:1:5", "a,b", "num_outputs i 2"},
    {"Pad", 19, "x:1:2,3;pads=1,1;v:1:;axes=-1", "y", "mode s wrap"},
    {"ReduceMean", 18, "x:1:2,3;axes=1", "y", "noop_with_empty_axes i 1"},
    {"ReduceL2", 18, "x:1:2,3;axes=1", "y", "keepdims i 0"},
    {"ReduceSumSquare", 18, "x:1:2,3", "y", "noop_with_empty_axes i 1"},
    {"ReduceLogSumExp", 18, "x:1:2,3;axes=1", "y", "keepdims i 0"},
    {"AveragePool", 19, "x:1:1,1,8", "y", "kernel_shape I 2;dilations I 3"},
    {"LpPool", 18, "x:1:1,1,8", "y", "kernel_shape I 2;dilations I 3;ceil_mode i 1;p i 1"},
    {"Cast", 24, "x:1:2", "y", "to i 10;saturate i 1;round_mode s up"},
    {"CastLike", 19, "x:1:2;t:11:3", "y", "saturate i 0"},
    {"DFT", 17, "x:1:2,5,1", "y", "axis i 1;onesided i 1"},
    {"GridSample", 16, "x:1:1,1,3,3;g:1:1,2,2,2", "y", "mode s bicubic"},
    {"OptionalHasElement", 18, "x:1:2", "y", ""},
    {"OptionalHasElement", 18, "", "y", ""},
    {"OptionalGetElement", 18, "x:1:2", "y", ""},
    {"LpNormalization", 22, "x:1:2,3", "y", ""},
    {"Reshape", 1, "x:1:2,3", "y", "shape I 3,2"},
    {"Concat", 1, "a:1:2,3;b:1:2,3", "y", ""},
    {"Concat", 4, "a:1:2,3;b:1:2,3", "y", "axis i 0"},
    {"Tile", 1, "x:7:2,3;tiles=2;axis=1", "y", ""},
    {"Gemm", 6, "a:1:2,3;b:1:3,4;c:1:4", "y", "broadcast i 1;alpha f 0.5"},
    {"BatchNormalization", 6, "x:1:1,2,3;s:1:2;b:1:2;m:1:2;v:1:2", "y",
     "is_test i 1;spatial i 1;epsilon f 0.001"},
    {"BatchNormalization", 9, "x:1:1,2,3;s:1:2;b:1:2;m:1:2;v:1:2", "y", ""},
    {"BatchNormalization", 9, "x:1:1,2,3;s:1:2;b:1:2;m:1:2;v:1:2", "y,mean,var,saved_mean,saved_var", ""},
    {"BatchNormalization", 7, "x:1:4,2,3;s:1:2,3;b:1:2,3;m:1:2,3;v:1:2,3", "y,mean", "spatial i 0"},
    /* softmax over a matrix */
    {"Softmax", 11, "x:1:2,3", "y", ""},
    {"Softmax", 11, "x:1:2,3,1,1", "y", "axis i 1"},
    {"Softmax", 11, "x:1:2,3,4", "y", "axis i -1"},
    {"Softmax", 11, "x:1:2,3,4", "y", ""},
    {"LogSoftmax", 1, "x:1:-", "y", "axis i 2"},
    {"Softmax", 11, "x:1:2,0,4", "y", ""},
    {"Hardmax", 11, "x:1:2,3,0,4", "y", ""},
    {"Softmax", 13, "x:1:2,3,4", "y", ""},
    {"GRU", 3, "x:1:5,1,2;w:1:1,9,2;r:1:1,9,3", ",last", "hidden_size i 3;output_sequence i 0"},
    /* what does nothing when a model runs */
    {"Dropout", 6, "x:1:2", "y", "ratio f 0.5"},
    {"Dropout", 7, "x:1:2", "y,mask", ""},
    {"Dropout", 12, "x:1:2", "y,mask", "seed i 3"},
    {"Dropout", 13, "x:1:2;ratio:1:;training=0", "y,mask", ""},
    /* random numbers: a stream of their own where there is no seed */
    {"Dropout", 13, "x:1:2;ratio:1:;training:9:", "y,mask", "seed i 3"},
    {"Dropout", 13, "x:1:2;ratio:1:;training:9:", "y", ""},
    {"RandomNormal", 1, "", "y", "shape I 2,3;dtype i 11"},
    {"RandomUniformLike", 1, "x:7:4", "y", "dtype i 1;high f 2"},
    {"Bernoulli", 15, "x:1:4", "y", "seed f 2"},
    {"Multinomial", 7, "x:1:4,5", "y", "sample_size i 7"},
};

/* Operators that ONNX had for trial. */
static const support_conversion trials[] = {
    {"Affine", 1, "x:1:2,3", "y", "alpha f 2;beta f 1"},
    {"ScaledTanh", 1, "x:1:2,3", "y", "alpha f 2;beta f 0.5"},
    {"ParametricSoftplus", 1, "x:1:2,3", "y", "alpha f 2;beta f 0.5"},
    {"ImageScaler", 1, "x:1:1,3,4,4", "y", "scale f 0.5"},
    {"Crop", 1, "x:1:1,3,8,8", "y", "border I 1,2,3,0"},
    {"Crop", 1, "x:1:1,3,8,8", "y", "border I 1,2,0,0;scale I 4,5"},
    {"DynamicSlice", 1, "x:1:4,4;starts=1;ends=3;axes=1", "y", ""},
    {"ConstantFill", 1, "x:1:2,3", "y", "value f 2;extra_shape I 4"},
    {"ConstantFill", 1, "shape=2,3", "y", "input_as_shape i 1;dtype i 7"},
    {"ConstantFill", 1, "", "y", "shape I 2,3"},
    {"MeanVarianceNormalization", 8, "x:1:1,3,4,4", "y", "across_channels i 1"},
    {"Upsample", 6, "x:1:1,3,4,4", "y", "height_scale f 2;width_scale f 3;mode s bilinear"},
};

/* Operators of other domains, as "DOMAIN/NAME". */
static const support_conversion others[] = {
    {"com.microsoft/Gelu", 1, "x:1:2,3", "y", ""},
    {"com.microsoft/BiasGelu", 1, "x:1:2,3;b:1:3", "y", ""},
    {"com.microsoft/FastGelu", 1, "x:1:2,3;b:1:3", "y", ""},
    {"com.microsoft/QuickGelu", 1, "x:1:2,3", "y", ""},
    {"com.microsoft/BiasSplitGelu", 1, "x:1:2,3,8;b:1:8", "y", ""},
    {"com.microsoft/BiasSoftmax", 1, "x:1:2,3,8;b:1:8", "y", "axis i 2;is_inner_broadcast i 1"},
    {"com.microsoft/FusedConv", 1, "x:1:1,2,4,4;w:1:3,2,1,1;b:1:3;z:1:1,3,4,4", "y",
     "activation s LeakyRelu"},
    {"com.microsoft/FusedGemm", 1, "a:1:2,3;b:1:4,3", "y", "transB i 1;activation s Relu;alpha f 0.5"},
    {"com.microsoft/FusedMatMul", 1, "a:1:3,2,4;b:1:2,4,5", "y", "transBatchA i 1;alpha f 2"},
    {"com.microsoft/FusedMatMul", 1, "a:1:2,4,3;b:1:5,2,4", "y", "transA i 1;transB i 1;transBatchB i 1"},
    {"com.microsoft/SkipLayerNormalization", 1, "x:1:1,2,4;s:1:2,4;g:1:4;b:1:4;c:1:4", "y,,,sum",
     "epsilon f 0.5"},
    {"com.microsoft/SkipSimplifiedLayerNormalization", 1, "x:10:1,2,4;s:10:1,2,4;g:10:4", "y", ""},
    {"/SimplifiedLayerNormalization", 13, "x:1:1,2,4;g:1:4", "y", "axis i -1"},
    {"com.microsoft/EmbedLayerNormalization", 1,
     "ids:6:2,5;segments:6:2,5;words:1:9,4;positions:1:7,4;kinds:1:2,4;g:1:4;b:1:4;mask:6:2,5", "y,count",
     ""},
    {"com.microsoft/QEmbedLayerNormalization", 1,
     "ids:6:2,5;segments:6:2,5;words:3:9,4;positions:3:7,4;kinds:3:2,4;g:3:4;b:3:4;mask:6:2,5;ws:1:;ps:1:;ks:"
     "1:;gs:1:1;"
     "bs:1:;wz:3:;pz:3:;kz:3:;gz:3:1;bz:3:",
     "y,count", ""},
    {"com.microsoft/QAttention", 1,
     "x:2:2,3,6;w:3:6,24;b:1:24;xs:1:;ws:1:24;m:6:2;xz:2:1;wz:3:24;p:1:2,2,2,4,4", "y,present",
     "num_heads i 2"},
    {"com.microsoft/DecoderMaskedMultiHeadAttention", 1,
     "q:1:2,1,8;k:1:2,1,8;v:1:2,1,8;m:6:2,T;;pk:1:2,2,9,4;pv:1:2,2,9,4;n:6:1", "y,nk,nv",
     "num_heads i 2;past_present_share_buffer i 1"},
    {"com.microsoft/DecoderMaskedMultiHeadAttention", 1, "q:1:2,1,24;;;;;pk:1:2,2,9,4;pv:1:2,2,9,4;;;;b:1:24",
     "y,nk,nv", "num_heads i 2"},
    {"com.microsoft/DynamicQuantizeLSTM", 1,
     "x:1:5,2,3;w:3:1,3,16;r:3:1,4,16;b:1:1,32;;;;;ws:1:1;wz:3:1;rs:1:1,16;rz:3:1,16", "y,h,c",
     "hidden_size i 4"},
    {"com.microsoft/MoE", 1, "x:1:2,3,16;r:1:6,4;w:1:4,10,16;;v:1:4,16,5", "y",
     "k i 2;activation_type s swiglu;swiglu_fusion i 1;swiglu_limit f 2;normalize_routing_weights i 1"},
    {"com.microsoft/MoE", 1,
     "x:10:T,16;r:10:T,4;w:10:4,5,16;b:10:4,5;v:10:4,16,5;c:10:4,16;u:10:4,5,16;d:10:4,5", "y",
     "activation_type s silu"},
    {"com.microsoft/QMoE", 1,
     "x:1:6,32;r:1:6,4;w:2:4,32,16;s:1:4,32;b:1:4,32;v:2:4,32,16;t:1:4,32;;;;;z:2:4,16;q:2:4,16", "y",
     "k i 2;activation_type s gelu"},
    {"com.microsoft/QMoE", 1,
     "x:1:6,32;r:1:6,4;w:2:4,64,32;s:1:4,64,2;;v:2:4,32,32;t:1:4,32,2;;;;;z:2:4,64,2;q:2:4,32,2", "y",
     "k i 2;activation_type s swiglu;swiglu_fusion i 2;expert_weight_bits i 8;block_size i 16"},
    {"com.microsoft/MatMulBnb4", 1, "a:1:2,32;b:2:80;s:1:10", "y",
     "K i 32;N i 5;block_size i 16;quant_type i 1"},
    {"com.microsoft/MatMulBnb4", 1, "a:10:2,3;b:2:8;s:10:1", "y",
     "K i 3;N i 5;block_size i 16;quant_type i 0"},
    {"com.microsoft/GroupNorm", 1, "x:10:1,4,5,6;g:1:6;b:1:6", "y", "groups i 3;activation i 1"},
    {"com.microsoft/SkipGroupNorm", 1, "x:1:1,6,4,5;g:1:6;b:1:6;s:1:1,6;c:1:6", "y,sum",
     "groups i 3;activation i 0;channels_last i 0"},
    {"com.microsoft/NhwcConv", 1, "x:1:1,4,5,2;w:1:3,3,3,2;b:1:3", "y", "pads I 1,1,1,1"},
    {"com.microsoft/NhwcFusedConv", 1, "x:10:1,4,5,2;w:10:3,2,1,1;;z:10:1,4,5,3", "y", "activation s Relu"},
    {"com.microsoft/ConvTransposeWithDynamicPads", 1, "x:1:1,2,4,4;w:1:2,3,3,3;p:7:4", "y", "strides I 2,2"},
    {"com.microsoft/CropAndResize", 1, "x:1:2,3,8,8;r:1:4,4;b:6:4;size:6:2", "y", "extrapolation_value f 1"},
    {"com.microsoft/UnfoldTensor", 1, "x:1:2,7,3", "y", "dim i 1;size i 3;step i 2"},
    {"com.microsoft/IsAllFinite", 1, "a:1:2;b:1:2,3", "y", ""},
    {"com.microsoft/NGramRepeatBlock", 1, "ids:7:2,N;s:1:2,9", "y", "ngram_size i 3"},
    {"com.microsoft/TorchEmbedding", 1, "w:1:5,3;i:7:2,2", "y", ""},
    {"com.microsoft/BitmaskDropout", 1, "x:1:2,3", "y", ""},
    {"com.microsoft/MulInteger", 1, "a:2:2,3;z:2:;b:2:3", "y", ""},
    {"com.microsoft/Rfft", 1, "x:1:2,8", "y", "signal_ndim i 1"},
    {"com.microsoft/Irfft", 1, "x:1:2,5,2", "y", "signal_ndim i 1"},
    {"com.microsoft/GemmaRotaryEmbedding", 1,
     "e:1:2,3,4;q:10:2,2,3,4;qr:10:2,2,3,4;k:10:2,1,3,4;kr:10:2,1,3,4", "a,b", ""},
    {"com.microsoft/Inverse", 1, "x:1:2,3,3", "y", ""},
    {"com.microsoft/DynamicTimeWarping", 1, "x:1:4,5", "y", ""},
    {"com.microsoft/Tokenizer", 1, "x:8:3", "y", "pad_value s #;mincharnum i 1;tokenexp s [a-z]+"},
    {"com.microsoft/BifurcationDetector", 1, "s:7:5;c:7:N;i:7:1;p:7:M", "y,m",
     "min_ngram_size i 1;max_ngram_size i 2147483653"},
    {"com.microsoft/MultiHeadAttention", 1,
     "q:1:2,1,8;k:1:2,1,8;v:1:2,1,8;;;;pk:1:2,2,9,4;pv:1:2,2,9,4;n:6:1", "y,nk,nv", "num_heads i 2"},
    {"com.microsoft/Pad", 1, "x:1:2,3;pads:7:1,4;value:1:", "y", "mode s constant"},
    {"com.microsoft/Trilu", 1, "x:1:2,3;k:7:", "y", "upper i 0"},
    {"com.microsoft/ExpandDims", 1, "x:1:2,3;axis:6:", "y", ""},
    {"com.microsoft/Range", 1, "a:1:;b:1:1", "y", ""},
    {"com.microsoft/ComplexMulConj", 1, "a:1:3,2;b:1:3,2", "y", ""},
    {"com.microsoft/CDist", 1, "a:1:3,2;b:1:4,2", "y", "metric s euclidean"},
    {"com.microsoft/Unique", 1, "x:1:5", "y,inverse,counts", ""},
    {"com.microsoft/MultiHeadAttention", 1, "q:1:2,3,8;k:1:2,5,8;v:1:2,5,8;b:1:24;m:6:2,5", "y",
     "num_heads i 2"},
    {"com.microsoft/MultiHeadAttention", 1, "qkv:1:2,3,2,3,4", "y", "num_heads i 2;unidirectional i 1"},
    {"com.microsoft/Attention", 1, "x:1:2,3,6;w:1:6,24;b:1:24;m:6:2;p:1:2,2,2,4,4", "y,present",
     "num_heads i 2;unidirectional i 1"},
    {"com.microsoft/GroupQueryAttention", 1,
     "q:1:2,1,16;k:1:2,1,8;v:1:2,1,8;pk:1:2,2,P,4;pv:1:2,2,P,4;last:6:2;total:6:;c:1:9,2;s:1:9,2", "y,nk,nv",
     "num_heads i 4;kv_num_heads i 2;do_rotary i 1;local_window_size i 7"},
    {"com.microsoft/GroupQueryAttention", 1,
     "q:1:1,2,8;k:1:1,2,4;v:1:1,2,4;pk:1:1,1,P,4;pv:1:1,1,P,4;last:6:1;total:6:;c:1:9,2;s:1:9,2;ids:7:1,2;"
     "bias:1:1,1,2,T;sink:1:2",
     "y,nk,nv,w", "num_heads i 2;kv_num_heads i 1;qk_output i 2"},
    {"com.microsoft/Attention", 1, "x:1:2,3,6;w:1:6,24;b:1:24;m:6:4", "y", "num_heads i 2"},
    {"com.microsoft/RotaryEmbedding", 1, "x:1:2,3,8;p:7:1;c:1:9,2;s:1:9,2", "y", "interleaved i 1"},
    /* a pool without a place for its window: said when shapes are inferred */
    {"com.microsoft/NhwcMaxPool", 1, "x:3:1,3,5,4", "y", "kernel_shape I 4,2"},
    {"com.microsoft/GatherBlockQuantized", 1, "d:2:7,48;i:7:2,3;s:1:7,3;z:2:7,2", "y",
     "bits i 4;block_size i 32;gather_axis i 0;quantize_axis i 1"},
    /* the last block is not whole */
    {"com.microsoft/GatherBlockQuantized", 1, "d:2:7,40;i:7:2,3;s:1:7,3;z:2:7,2", "y",
     "bits i 4;block_size i 32;gather_axis i 0;quantize_axis i 1"},
    {"ai.onnx.ml/FeatureVectorizer", 1, "x:1:N,C;z:1:N,2", "y", "inputdimensions I 3,2"},
    {"ai.onnx.ml/ZipMap", 1, "x:1:N,3", "m", "classlabels_int64s I 4,5,6"},
    {"com.microsoft/MatMulNBits", 1, "a:1:2,40;b:2:6,2,16;s:1:12", "y",
     "K i 40;N i 6;bits i 4;block_size i 32"},
    {"com.microsoft/QLinearAdd", 1, "a:2:2,3;as:1:;az:2:;b:2:3;bs:1:1;bz:2:1;cs:1:", "y", ""},
    {"com.microsoft/QLinearLeakyRelu", 1, "x:3:2,3;xs:1:;xz:3:;ys:1:;yz:3:", "y", "alpha f 0.5"},
    {"com.microsoft/QLinearAveragePool", 1, "x:2:1,4,4,3;xs:1:;xz:2:;ys:1:;yz:2:", "y",
     "channels_last i 1;kernel_shape I 2,2"},
    {"com.microsoft/QLinearConcat", 1, "ys:1:;yz:2:;a:2:2,3;as:1:;az:2:;b:2:2,3;bs:1:;bz:2:", "y",
     "axis i 1"},
    {"com.microsoft/QLinearSoftmax", 1, "x:2:2,3,4;xs:1:;xz:2:;ys:1:;yz:2:", "y", "axis i 1;opset i 12"},
    {"com.microsoft/QLinearWhere", 1, "c:9:3;a:2:2,3;as:1:;az:2:;b:2:3;bs:1:;bz:2:;ys:1:;yz:2:", "y", ""},
    {"com.microsoft/QGemm", 1, "a:2:2,3;as:1:;az:2:;b:3:4,3;bs:1:4;bz:3:4;c:6:4;ys:1:;yz:2:", "y",
     "transB i 1;alpha f 2"},
    {"com.microsoft/MatMulIntegerToFloat", 1, "a:2:2,3;b:3:3,4;as:1:1;bs:1:4;az:2:;bz:3:4;c:1:4", "y", ""},
    {"com.microsoft/DynamicQuantizeMatMul", 1, "a:1:2,3;b:3:3,4;bs:1:4", "y", ""},
    {"com.microsoft/ReduceSumInteger", 1, "x:2:2,3", "y", "axes I 1;keepdims i 0"},
    {"com.microsoft/NhwcMaxPool", 1, "x:2:1,4,4,3", "y", "kernel_shape I 2,2"},
};

#define LIST(title, table)                                                                                   \
    { title, table, sizeof(table) / sizeof *(table) }
const support_conversion_list support_conversions[SUPPORT_CONVERSION_LISTS] = {
    LIST("convert", conversions), LIST("trials", trials), LIST("domains", others)};

/* ---- models ----------------------------------------------------------------------------------------------- */

static void add_input(onnx *o, char *spec) {
    char *equals = strchr(spec, '='), *colon = strchr(spec, ':');
    if (!*spec) return;
    if (equals) {
        int64_t numbers[8];
        int count = 0;
        *equals = '\0';
        for (char *at = equals + 1; *at; at += *at == ',') numbers[count++] = strtoll(at, &at, 10);
        onnx_integers(o, o->graph, spec, count, numbers);
        return;
    }
    char *shape = strchr(colon + 1, ':');
    *colon = *shape++ = '\0';
    onnx_input(o, o->graph, spec, atoi(colon + 1), strcmp(shape, "-") == 0 ? NULL : shape);
}

static void add_attribute(onnx *o, Onnx__NodeProto *node, char *spec) {
    char *kind = strchr(spec, ' '), *value = kind + 3;
    *kind++ = '\0';
    if (*kind == 'i') onnx_set_integer(o, node, spec, atoll(value));
    else if (*kind == 'f') onnx_set_real(o, node, spec, strtof(value, NULL));
    else if (*kind == 's') onnx_set_text(o, node, spec, value);
    else onnx_set_integers(o, node, spec, value);
}

onnx *support_conversion_model(const support_conversion *c) {
    const char *slash = strchr(c->op, '/'), *name_of_op = slash ? slash + 1 : c->op;
    const bool foreign = slash && slash != c->op;
    onnx *o = onnx_new(foreign ? 17 : c->opset);
    char names[200] = "", *rest = *c->inputs ? onnx_text(o, c->inputs) : NULL, *saved;
    char *outputs = onnx_text(o, c->outputs), *attributes = onnx_text(o, c->attributes);
    bool first = true;
    for (char *spec; (spec = strsep(&rest, ";")); first = false) { /* an empty one is absent */
        add_input(o, spec);
        if (!first) strcat(names, ",");
        strcat(names, spec);
    }
    Onnx__NodeProto *node = onnx_node(o, o->graph, name_of_op, "node", names, c->outputs);
    if (foreign) {
        node->domain = onnx_text(o, c->op);
        node->domain[slash - c->op] = '\0';
        onnx_opset(o, node->domain, c->opset);
    }
    if (!*c->outputs) { /* the graph gives something else */
        onnx_integers(o, o->graph, "constant", -1, (int64_t[]){1});
        onnx_output(o, o->graph, "constant");
    }
    for (char *name = strtok_r(outputs, ",", &saved); name; name = strtok_r(NULL, ",", &saved)) {
        onnx_output(o, o->graph, name);
    }
    for (char *spec = strtok_r(attributes, ";", &saved); spec; spec = strtok_r(NULL, ";", &saved)) {
        add_attribute(o, node, spec);
    }
    return o;
}
