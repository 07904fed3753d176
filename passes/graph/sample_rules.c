/* SPDX-License-Identifier: Apache-2.0 */
/* sample_rules.c: implements sample_rules.h.
 *
 * Where the samples lie is seen in the shapes: along the one axis whose extent is the batch, or so many positions for each sample. So an
 * operator that joined them (a sum over that axis) has lost the axis, and what is left to look at is whether it mixes or moves what lies
 * along it.
 */
#include "passes/graph/sample_rules.h"
#include "ir/operators/einsum.h"
#include "ir/operators/fused.h"

enum { ATTENTION_RESULTS = 4 };

typedef struct samples {
    const op_call *call;
    const pass_batch *batch;
    int64_t *times;
    int32_t out; /* the axis of output 0; -1: it has none */
} samples;

int64_t pass_batch_positions(const pass_batch *batch, int64_t extent) {
    if (extent == batch->symbol) return 1;
    if (extent >= 0 || extent == OP_DIM_UNKNOWN) return 0;
    const ir_symbol *symbol = &batch->module->symbols[-extent];
    if (symbol->name || symbol->operation != '*') return 0;
    const int64_t other = symbol->a == batch->symbol ? symbol->b : symbol->b == batch->symbol ? symbol->a : 0;
    return other > 0 ? other : 0;
}

int32_t pass_sample_axis(const pass_batch *batch, const op_shape *shape) {
    for (int32_t d = 0; d < shape->rank; d++)
        if (pass_batch_positions(batch, shape->dims[d])) return d;
    return -1;
}

static int32_t axis_of(const samples *s, uint32_t input) {
    return op_input_present(s->call, input) ? pass_sample_axis(s->batch, &s->call->inputs[input].type.shape)
                                            : -1;
}

static const op_shape *shape_of(const samples *s, uint32_t input) {
    return &s->call->inputs[input].type.shape;
}

static const op_shape *result_of(const samples *s) {
    return &s->call->outputs[0].type.shape;
}

/* The samples of the input lie where those of the result do, as many positions each. */
static bool lies_as_result(const samples *s, uint32_t input) {
    return s->out >= 0 && axis_of(s, input) == s->out &&
           shape_of(s, input)->dims[s->out] == result_of(s)->dims[s->out];
}

/* From this input on all are the same for every sample. */
static bool are_common(const samples *s, uint32_t first) {
    for (uint32_t i = first; i < s->call->input_count; i++)
        if (axis_of(s, i) >= 0) return false;
    return true;
}

/* The axis that an attribute names is another one than that of the samples of input 0. */
static bool is_along_another(const samples *s, int64_t otherwise) {
    int32_t axis;
    return op_axis(op_attribute_integer(&s->call->attributes, "axis", otherwise), shape_of(s, 0)->rank,
                   &axis) &&
           axis != axis_of(s, 0);
}

/* The same for an axis that input `input` gives. */
static bool is_given_another(const samples *s, uint32_t input) {
    int64_t given;
    int32_t axis;
    return op_input_integer(s->call, input, 0, &given) && op_axis(given, shape_of(s, 0)->rank, &axis) &&
           axis != axis_of(s, 0);
}

/* Input 0 and output 0 are images: their samples are the first axis. All other inputs are common. */
static bool are_images(const samples *s) {
    return axis_of(s, 0) == 0 && s->out == 0 && are_common(s, 1);
}

/* Broadcast against the result, the input has its samples where the result has them, or is the same for all. `operand` is its shape. */
static bool is_broadcast(const samples *s, const op_shape *operand) {
    const int32_t rank = result_of(s)->rank, own = s->out - (rank - operand->rank);
    if (operand->rank > rank) return false;
    const int32_t axis = pass_sample_axis(s->batch, operand);
    if (axis >= 0) return axis == own && operand->dims[own] == result_of(s)->dims[s->out];
    return own < 0 || operand->dims[own] == 1;
}

static bool are_broadcast(const samples *s) {
    for (uint32_t i = 0; i < s->call->input_count; i++)
        if (op_input_present(s->call, i) && !is_broadcast(s, shape_of(s, i))) return false;
    return s->out >= 0;
}

/* Scales and zero points are one for all, or lie along another axis. */
static bool is_quantized_apart(const samples *s) {
    if (!lies_as_result(s, 0) || !are_common(s, 1)) return false;
    const op_shape *scale = shape_of(s, 1);
    return scale->rank == 0 || (scale->rank == 1 && (scale->dims[0] == 1 || is_along_another(s, 1)));
}

/* As many elements lie before the samples as did, so each sample has the elements that it had, in their order. */
static bool is_reshaped_apart(const samples *s) {
    const op_shape *from = shape_of(s, 0), *to = result_of(s);
    const int32_t axis = axis_of(s, 0);
    int64_t before = *s->times, after = 1;
    if (axis < 0 || s->out < 0 || !are_common(s, 1)) return false;
    for (int32_t d = 0; d < axis; d++) before *= from->dims[d];
    for (int32_t d = 0; d < s->out; d++) after *= to->dims[d];
    if (before == 0) return true; /* any times, or no elements */
    *s->times = after > 0 ? before / after : 0;
    return after > 0 && before % after == 0 &&
           pass_batch_positions(s->batch, to->dims[s->out]) % *s->times == 0;
}

static bool is_transposed_apart(const samples *s) {
    size_t count;
    const int64_t *order = op_attribute_integers(&s->call->attributes, "perm", &count);
    const int32_t rank = shape_of(s, 0)->rank;
    if (s->out < 0) return false;
    if (!order) return rank - 1 - s->out == axis_of(s, 0);
    return (size_t)s->out < count && order[s->out] == axis_of(s, 0);
}

/* Along the samples all of them are taken, in order: from the first one on, and as many as there are. */
static bool is_sliced_apart(const samples *s) {
    const int32_t rank = shape_of(s, 0)->rank;
    const op_shape *starts = s->call->input_count > 1 ? shape_of(s, 1) : NULL;
    if (!lies_as_result(s, 0) || !are_common(s, 1) || !starts || starts->rank != 1) return false;
    for (int64_t i = 0; i < starts->dims[0]; i++) {
        int64_t given = i, start, step = 1;
        int32_t axis;
        if (op_input_present(s->call, 3) && !op_input_integer(s->call, 3, i, &given)) return false;
        if (!op_axis(given, rank, &axis)) return false;
        if (axis != axis_of(s, 0)) continue;
        if (op_input_present(s->call, 4) && !op_input_integer(s->call, 4, i, &step)) return false;
        if (!op_input_integer(s->call, 1, i, &start) || start != 0 || step != 1) return false;
    }
    return true;
}

/* Nothing is put beside the samples. */
static bool is_padded_apart(const samples *s) {
    const int32_t axis = axis_of(s, 0), rank = shape_of(s, 0)->rank;
    int64_t before, after;
    return lies_as_result(s, 0) && are_common(s, 1) && !op_input_present(s->call, 3) &&
           op_input_integer(s->call, 1, axis, &before) && op_input_integer(s->call, 1, axis + rank, &after) &&
           !before && !after;
}

static bool is_resized_apart(const samples *s) {
    return lies_as_result(s, 0) && are_common(s, 1) && !op_input_present(s->call, 1) &&
           op_attribute_is(&s->call->attributes, "keep_aspect_ratio_policy", "stretch", "stretch");
}

static bool lie_all_as_result(const samples *s) {
    for (uint32_t i = 0; i < s->call->input_count; i++)
        if (!lies_as_result(s, i)) return false;
    return true;
}

static bool is_gathered_apart(const samples *s) {
    const op_shape *data = shape_of(s, 0), *indices = shape_of(s, 1);
    const int32_t of_data = axis_of(s, 0), of_indices = axis_of(s, 1);
    int32_t axis;
    if (!op_axis(op_attribute_integer(&s->call->attributes, "axis", 0), data->rank, &axis)) return false;
    if (of_data >= 0)
        return of_indices < 0 && of_data != axis &&
               s->out == (of_data < axis ? of_data : of_data - 1 + indices->rank);
    return of_indices >= 0 && s->out == axis + of_indices;
}

/* Samples are rows of the left operand, or lie along an axis by which matrices are told apart, in both or where the other has 1. */
static bool is_product_apart(const samples *s, uint32_t right) {
    const op_shape *operands[] = {shape_of(s, 0), shape_of(s, right)};
    const int32_t own = s->out - result_of(s)->rank; /* from the end: -1 is the last axis */
    if (s->out < 0 || operands[0]->rank < 2 || operands[1]->rank < 2 || own == -1) return false;
    for (int i = 0; i < 2; i++) {
        const int32_t axis = pass_sample_axis(s->batch, operands[i]), place = operands[i]->rank + own;
        if (axis >= 0 && (axis != place || operands[i]->dims[axis] != result_of(s)->dims[s->out]))
            return false;
        if (own == -2 && i == 1 && axis >= 0) return false;
        if (own < -2 && axis < 0 && place >= 0 && operands[i]->dims[place] != 1) return false;
    }
    return pass_sample_axis(s->batch, operands[0]) >= 0 || pass_sample_axis(s->batch, operands[1]) >= 0;
}

/* A scale or zero point that rows of different samples share. */
static bool is_one(const samples *s, uint32_t input) {
    if (!op_input_present(s->call, input)) return true;
    const op_shape *shape = shape_of(s, input);
    for (int32_t d = 0; d < shape->rank; d++)
        if (shape->dims[d] != 1) return false;
    return true;
}

static bool is_gemm_apart(const samples *s) {
    if (axis_of(s, 0) != 0 || s->out != 0 || !are_common(s, 1) ||
        op_attribute_integer(&s->call->attributes, "transA", 0))
        return false;
    return !op_input_present(s->call, 2) || is_broadcast(s, shape_of(s, 2));
}

/* One label is that of the samples, in all operands that have them and in the result. */
static bool is_einsum_apart(const samples *s) {
    op_einsum sum;
    if (s->out < 0 || !op_einsum_read(s->call, &sum, NULL)) return false;
    const int32_t label = sum.output[s->out];
    for (int32_t i = 0; i < sum.operands; i++) {
        const int32_t axis = axis_of(s, (uint32_t)i);
        for (int32_t d = 0; d < sum.rank[i]; d++)
            if ((sum.labels[i][d] == label) != (d == axis)) return false;
    }
    return true;
}

static bool is_one_hot_apart(const samples *s) {
    const int32_t rank = shape_of(s, 0)->rank;
    int32_t axis;
    if (axis_of(s, 0) < 0 || !are_common(s, 1) ||
        !op_axis(op_attribute_integer(&s->call->attributes, "axis", -1), rank + 1, &axis))
        return false;
    return s->out == axis_of(s, 0) + (axis <= axis_of(s, 0));
}

/* Repeated along other axes; or what is the same for all samples is repeated for each. */
static bool is_tiled_apart(const samples *s) {
    if (s->out < 0) return false;
    return axis_of(s, 0) >= 0 ? lies_as_result(s, 0) : shape_of(s, 0)->dims[s->out] == 1;
}

/* Samples lie along `axis` of the input, where it is there. */
static bool is_absent_or_along(const samples *s, uint32_t input, int32_t axis) {
    return !op_input_present(s->call, input) || axis_of(s, input) == axis;
}

/* Samples lie along these axes of the outputs that are wanted. */
static bool lie_results_along(const samples *s, const int32_t *axes) {
    for (uint32_t i = 0; i < s->call->output_count; i++) {
        const op_type *type = &s->call->outputs[i].type;
        if (type->dtype != OP_NONE && pass_sample_axis(s->batch, &type->shape) != axes[i]) return false;
    }
    return true;
}

/* Sequences of all samples side by side, with a state and a length for each. */
static bool is_recurrence_apart(const samples *s) {
    static const int32_t made[] = {2, 1, 1};
    if (op_attribute_integer(&s->call->attributes, "layout", 0) || axis_of(s, 0) != 1) return false;
    for (uint32_t i = 1; i < s->call->input_count; i++)
        if (i >= 4 && i <= 6 ? !is_absent_or_along(s, i, i > 4) : axis_of(s, i) >= 0) return false;
    return lie_results_along(s, made);
}

/* Queries, keys and values begin with the samples, and so does all else that is not the same for all of them. */
static bool is_attention_apart(const samples *s) {
    static const int32_t made[ATTENTION_RESULTS] = {0};
    for (uint32_t i = 0; i < s->call->input_count; i++) {
        if (!op_input_present(s->call, i)) continue;
        const op_shape *shape = shape_of(s, i);
        const bool is_mask = i == 3;
        if (axis_of(s, i) != 0 && !(is_mask && axis_of(s, i) < 0 && (shape->rank < 4 || shape->dims[0] == 1)))
            return false;
        if (is_mask && axis_of(s, i) == 0 && shape->rank != 4) return false;
    }
    return lie_results_along(s, made);
}

bool pass_sample_rule_holds(const pass_batch *batch, const op_call *call, int64_t *times) {
    const samples here = {call, batch, times, pass_sample_axis(batch, &call->outputs[0].type.shape)},
                  *s = &here;
    switch (call->code) {
    case OP_SHAPE:
    case OP_SIZE:
    case OP_CONSTANT_OF_SHAPE:
        return true;
    case OP_IDENTITY:
    case OP_CAST:
    case OP_IS_NAN:
    case OP_IS_INF:
    case OP_BIT_SHIFT:
        return are_broadcast(s);
    case OP_EXPAND:
        return s->out >= 0 && is_broadcast(s, shape_of(s, 0));
    case OP_TILE:
        return is_tiled_apart(s);
    case OP_QUANTIZE_LINEAR:
    case OP_DEQUANTIZE_LINEAR:
        return is_quantized_apart(s);
    case OP_BATCH_NORMALIZATION:
        return call->output_count == 1 && are_images(s);
    case OP_MAX_POOL: /* indices would count through all samples */
        return (call->output_count == 1 || call->outputs[1].type.dtype == OP_NONE) && are_images(s);
    case OP_CONV:
    case OP_CONV_INTEGER:
    case OP_QLINEAR_CONV:
    case OP_CONV_TRANSPOSE:
    case OP_AVERAGE_POOL:
    case OP_GLOBAL_AVERAGE_POOL:
    case OP_GLOBAL_MAX_POOL:
    case OP_LRN:
    case OP_DEPTH_TO_SPACE:
    case OP_SPACE_TO_DEPTH:
    case OP_COL2IM:
    case OP_STFT:
        return are_images(s);
    case OP_RNN:
    case OP_GRU:
    case OP_LSTM:
        return is_recurrence_apart(s);
    case OP_ATTENTION:
        return is_attention_apart(s);
    case OP_DEFORM_CONV: /* X, weights, offsets, bias, mask */
        return axis_of(s, 0) == 0 && axis_of(s, 1) < 0 && axis_of(s, 2) == 0 && axis_of(s, 3) < 0 &&
               is_absent_or_along(s, 4, 0) && s->out == 0;
    case OP_GRID_SAMPLE:
    case OP_AFFINE_GRID:
        return s->out == 0 && axis_of(s, 0) == 0 && (call->code == OP_AFFINE_GRID || axis_of(s, 1) == 0);
    case OP_RESIZE:
        return is_resized_apart(s);
    case OP_MATMUL:
        return is_product_apart(s, 1);
    case OP_MATMUL_INTEGER:
        return is_product_apart(s, 1) && are_common(s, 2) && is_one(s, 2);
    case OP_QLINEAR_MATMUL:
        return is_product_apart(s, 3) && is_one(s, 1) && is_one(s, 2) && is_one(s, 6) && is_one(s, 7);
    case OP_GEMM:
        return is_gemm_apart(s);
    case OP_EINSUM:
        return is_einsum_apart(s);
    case OP_REDUCE_SUM:
    case OP_REDUCE_MEAN:
    case OP_REDUCE_MAX:
    case OP_REDUCE_MIN:
    case OP_REDUCE_PROD:
    case OP_ARG_MAX:
    case OP_ARG_MIN:
        return axis_of(s, 0) >= 0 && s->out >= 0 && are_common(s, 1);
    case OP_SOFTMAX:
    case OP_LOG_SOFTMAX:
        return lies_as_result(s, 0) && is_along_another(s, -1);
    case OP_CUM_SUM:
    case OP_CUM_PROD:
        return lies_as_result(s, 0) && is_given_another(s, 1);
    case OP_LAYER_NORMALIZATION:
    case OP_RMS_NORMALIZATION: {
        int32_t axis;
        return lies_as_result(s, 0) && are_common(s, 1) &&
               op_axis(op_attribute_integer(&call->attributes, "axis", -1), shape_of(s, 0)->rank, &axis) &&
               axis > s->out;
    }
    case OP_SQUEEZE: /* without axes, the axis of one sample would go, too */
        return op_input_present(call, 1) && is_reshaped_apart(s);
    case OP_RESHAPE:
    case OP_FLATTEN:
    case OP_UNSQUEEZE:
        return is_reshaped_apart(s);
    case OP_TRANSPOSE:
        return is_transposed_apart(s);
    case OP_SLICE:
        return is_sliced_apart(s);
    case OP_SPLIT:
        return lies_as_result(s, 0) && are_common(s, 1) && is_along_another(s, 0);
    case OP_CONCAT:
    case OP_GATHER_ELEMENTS:
    case OP_SCATTER_ELEMENTS:
        return lie_all_as_result(s) && is_along_another(s, 0);
    case OP_GATHER:
        return is_gathered_apart(s);
    case OP_GATHER_BITS:
        return lies_as_result(s, 1) && axis_of(s, 0) < 0 && are_common(s, 2);
    case OP_PAD:
        return is_padded_apart(s);
    case OP_TOP_K:
        return lies_as_result(s, 0) && are_common(s, 1) && is_along_another(s, -1);
    case OP_ONE_HOT:
        return is_one_hot_apart(s);
    case OP_TRILU:
    case OP_DET:
    case OP_INVERSE:
        return lies_as_result(s, 0) && axis_of(s, 0) < shape_of(s, 0)->rank - 2 && are_common(s, 1);
    default:
        return op_is_fusible(call->code) && are_broadcast(s);
    }
}
