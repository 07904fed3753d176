/* family.c: see compiler/report/family.h. Colours are told apart also by those who see few: they differ in
 * lightness. */
#include "compiler/report/family.h"
#include <stdbool.h>
#include <string.h>

const emit_family emit_families[EMIT_FAMILY_COUNT] = {
    {"convolution", "#9ec5e8", "#2b6ca3"},      {"matrix product", "#c3b1e1", "#6a4c9c"},
    {"pooling", "#9fd8cb", "#2a7f6f"},          {"normalisation, softmax", "#b9dca0", "#4f8a2c"},
    {"reduction", "#d3e59a", "#76892a"},        {"elementwise", "#fbe29a", "#a8842a"},
    {"movement of data", "#d9d9d9", "#6f6f6f"}, {"making of values", "#ece5d8", "#8a7a5c"},
    {"control", "#f6b9a8", "#b04a2f"},          {"other", "#f0cfe0", "#97547a"},
};

const emit_family *emit_family_of(const char *operator_name) {
    static const char *const members[EMIT_FAMILY_COUNT] = {
        " Conv ConvTranspose ConvInteger QLinearConv DeformConv ",
        " MatMul Gemm Einsum MatMulInteger QLinearMatMul LSTM GRU RNN ",
        " MaxPool AveragePool GlobalAveragePool GlobalMaxPool LpPool GlobalLpPool MaxRoiPool RoiAlign ",
        " BatchNormalization LayerNormalization InstanceNormalization LRN Softmax LogSoftmax Hardmax "
        "MeanVarianceNormalization LpNormalization ",
        " ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp "
        "ReduceSumSquare ArgMax ArgMin CumSum TopK ",
        " Abs Ceil Clip Erf Exp Floor Log Neg Not Reciprocal Relu LeakyRelu Sigmoid Sqrt Tanh Cast Add Sub "
        "Mul Div Pow "
        "QuantizeLinear DequantizeLinear DynamicQuantizeLinear Dropout "
        "Min Max Mod PRelu And Or Xor Equal Less Greater LessOrEqual GreaterOrEqual Where Sum Mean ",
        " Reshape Flatten Squeeze Unsqueeze Identity Transpose Slice Split Concat Gather Expand Tile Pad "
        "Reorder Copy "
        "GatherND GatherElements ScatterND ScatterElements DepthToSpace SpaceToDepth Resize ",
        " Shape Size Constant ConstantOfShape Range EyeLike OneHot RandomNormal RandomUniform "
        "RandomNormalLike RandomUniformLike Bernoulli Multinomial ",
        " Loop If Scan ",
        "",
    };
    size_t length = strlen(operator_name);
    /* A blank would match between two names. */
    bool listed = length && !strchr(operator_name, ' ');
    for (size_t i = 0; i < EMIT_FAMILY_COUNT && listed; i++) {
        for (const char *at = members[i]; (at = strstr(at, operator_name)); at++) {
            if (at[-1] == ' ' && at[length] == ' ') return &emit_families[i];
        }
    }
    return &emit_families[EMIT_FAMILY_COUNT - 1];
}
