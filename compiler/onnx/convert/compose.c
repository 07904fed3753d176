/* SPDX-License-Identifier: Apache-2.0 */
/* compose.c: operators that are said in terms of others, as their definitions do: they need no
 * kernel, and what they are made of is fused, folded and made in place like everything else.
 */
#include "compiler/onnx/convert/convert.h"
#include "compiler/onnx/convert/expression.h"

#include <math.h>
#include <string.h>

static const op_attributes NONE = {0};

/* ---- reductions ---------------------------------------------------------------------------------------- */

/* What a reduction of the file is over: an attribute, or from opset 18 on an input. Without any it is over all axes, or with
 * `none` over none of them. */
typedef struct span {
    size_t count;
    const int64_t *axes;
    ir_value *input;
    bool none;
} span;

static ir_value *reduce_over(const import_node *n, op_code code, ir_value *x, const span *over, bool keep) {
    op_attributes attributes = NONE;
    ir_value *inputs[] = {x, over->input};
    if (!over->input && !over->none) return expr_reduce(n, code, x, over->count, over->axes, keep);
    if (!x || !import_attributes_add_integer(n, &attributes, "keepdims", keep) ||
        (over->none && !import_attributes_add_integer(n, &attributes, "noop_with_empty_axes", 1)))
        return NULL;
    return import_make(n, code, attributes, over->input ? 2 : 1, inputs);
}

/* The logarithm of the sum of exponentials: less the largest, so that nothing overflows; but not less infinity. */
static ir_value *log_sum_exp(const import_node *n, ir_value *x, const span *over, bool keep) {
    ir_value *largest = reduce_over(n, OP_REDUCE_MAX, x, over, true);
    ir_value *size = expr_unary(n, OP_ABS, largest);
    ir_value *infinite = expr_binary(n, OP_EQUAL, size, expr_number(n, x, INFINITY));
    largest = expr_select(n, infinite, expr_number(n, x, 0), largest);
    ir_value *sum =
        reduce_over(n, OP_REDUCE_SUM, expr_unary(n, OP_EXP, expr_binary(n, OP_SUB, x, largest)), over, keep);
    ir_value *back = largest;
    if (!keep && over->input) /* perhaps an empty list, which means something else to Squeeze */
        back = reduce_over(n, OP_REDUCE_MAX, largest, over, false);
    else if (!keep && over->count)
        back = expr_binary(n, OP_SQUEEZE, back, import_constant_integers(n, over->count, over->axes));
    else if (!keep && !over->none) back = expr_unary(n, OP_SQUEEZE, back);
    return expr_binary(n, OP_ADD, expr_unary(n, OP_LOG, sum), back);
}

base_status import_convert_reduce_composed(import_node *n) {
    const char *name = n->proto->op_type;
    span over = {.none = import_integer(n, "noop_with_empty_axes", 0) != 0};
    over.axes = import_integers(n, "axes", &over.count);
    if (n->input_count > 1) over.input = n->inputs[1];
    bool keep = import_integer(n, "keepdims", 1) != 0;
    const op_dtype dtype = import_dtype_of(n->inputs[0]);
    ir_value *x = expr_widened(n, n->inputs[0]);
    if (strcmp(name, "ReduceL1") == 0)
        return expr_finish_as(n, dtype, reduce_over(n, OP_REDUCE_SUM, expr_unary(n, OP_ABS, x), &over, keep));
    if (strcmp(name, "ReduceSumSquare") == 0)
        return expr_finish_as(n, dtype,
                              reduce_over(n, OP_REDUCE_SUM, expr_binary(n, OP_MUL, x, x), &over, keep));
    /* Roots and logarithms of integers are computed as reals, and what is after the point is cut off. */
    const bool real = dtype == OP_NONE || dtype == OP_FLOAT || dtype == OP_DOUBLE || dtype == OP_FLOAT16 ||
                      dtype == OP_BFLOAT16;
    if (!real) x = expr_cast(n, x, OP_DOUBLE);
    if (strcmp(name, "ReduceLogSum") == 0) {
        ir_value *sum = expr_unary(n, OP_LOG, reduce_over(n, OP_REDUCE_SUM, x, &over, keep));
        return expr_finish_as(n, dtype, real ? sum : expr_cast(n, sum, dtype));
    }
    if (strcmp(name, "ReduceLogSumExp") == 0) {
        ir_value *sum = log_sum_exp(n, x, &over, keep);
        return expr_finish_as(n, dtype, real ? sum : expr_cast(n, sum, dtype));
    }
    ir_value *root =
        expr_unary(n, OP_SQRT, reduce_over(n, OP_REDUCE_SUM, expr_binary(n, OP_MUL, x, x), &over, keep));
    return expr_finish_as(n, dtype, real ? root : expr_cast(n, root, dtype));
}

/* ---- elementwise --------------------------------------------------------------------------------------- */

base_status import_convert_cast_like(import_node *n) {
    op_dtype dtype = import_dtype_of(n->inputs[1]);
    base_status status = expr_need_dtype(n, n->inputs[1]);
    if (status != BASE_OK) return status;
    ir_value *x = n->inputs[0];
    if (import_dtype_of(x) == dtype) return expr_finish(n, expr_unary(n, OP_IDENTITY, x));
    op_attributes attributes; /* saturate and round_mode mean the same to Cast */
    status = import_attributes(n, OP_CAST, &attributes);
    if (status == BASE_OK && !import_attributes_add_integer(n, &attributes, "to", dtype))
        return import_memory(n);
    return status == BASE_OK ? import_finish(n, OP_CAST, attributes, 1, &x) : status;
}

base_status import_convert_shrink(import_node *n) {
    ir_value *x = n->inputs[0];
    base_status status = expr_need_dtype(n, x);
    if (status != BASE_OK) return status;
    double limit = (double)import_real(n, "lambd", 0.5f), bias = (double)import_real(n, "bias", 0);
    ir_value *below = expr_binary(n, OP_LESS, x, expr_number(n, x, -limit)),
             *above = expr_binary(n, OP_GREATER, x, expr_number(n, x, limit));
    ir_value *high = expr_binary(n, OP_SUB, x, expr_number(n, x, bias));
    high = expr_select(n, above, high, expr_number(n, x, 0));
    return expr_finish(n, expr_select(n, below, expr_binary(n, OP_ADD, x, expr_number(n, x, bias)), high));
}

/* ---- normalisations ------------------------------------------------------------------------------------ */

/* x less its mean, and the mean of the squares of that; the mean itself where wanted. */
static void centre(const import_node *n, ir_value *x, size_t count, const int64_t *axes, ir_value **centred,
                   ir_value **variance, ir_value **mean) {
    ir_value *average = expr_reduce(n, OP_REDUCE_MEAN, x, count, axes, true);
    *centred = expr_binary(n, OP_SUB, x, average);
    *variance = expr_reduce(n, OP_REDUCE_MEAN, expr_binary(n, OP_MUL, *centred, *centred), count, axes, true);
    if (mean) *mean = average;
}

base_status import_convert_mean_variance(import_node *n) {
    static const int64_t usual[] = {0, 2, 3};
    size_t count;
    const int64_t *axes = import_integers(n, "axes", &count);
    ir_value *x = n->inputs[0], *centred, *variance;
    base_status status = expr_need_dtype(n, x);
    if (status != BASE_OK) return status;
    const op_dtype dtype = import_dtype_of(x);
    x = expr_widened(n, x);
    centre(n, x, axes ? count : 3, axes ? axes : usual, &centred, &variance, NULL);
    ir_value *deviation = expr_unary(n, OP_SQRT, variance);
    deviation = expr_binary(n, OP_ADD, deviation, expr_number(n, x, 1e-9));
    return expr_finish_as(n, dtype, expr_binary(n, OP_DIV, centred, deviation));
}

base_status import_convert_lp_normalization(import_node *n) {
    int64_t axis = import_integer(n, "axis", -1), p = import_integer(n, "p", 2);
    ir_value *x = n->inputs[0], *sum;
    base_status status = expr_need_dtype(n, x);
    if (status != BASE_OK) return status;
    if (p != 1 && p != 2)
        return base_fail(n->importer->report, BASE_INVALID, "attribute \"p\" is %lld, expected 1 or 2",
                         (long long)p);
    const op_dtype dtype = import_dtype_of(x);
    x = expr_widened(n, x);
    if (p == 1) sum = expr_reduce(n, OP_REDUCE_SUM, expr_unary(n, OP_ABS, x), 1, &axis, true);
    else
        sum = expr_unary(n, OP_SQRT,
                         expr_reduce(n, OP_REDUCE_SUM, expr_binary(n, OP_MUL, x, x), 1, &axis, true));
    /* Nothing but zeros stays so. */
    ir_value *zero = expr_binary(n, OP_EQUAL, sum, expr_number(n, x, 0));
    return expr_finish_as(n, dtype,
                          expr_binary(n, OP_DIV, x, expr_select(n, zero, expr_number(n, x, 1), sum)));
}

base_status import_convert_instance_normalization(import_node *n) {
    ir_value *x = n->inputs[0], *centred, *variance, *parameters[2];
    int32_t rank = import_rank_of(x);
    base_status status = expr_need_dtype(n, x);
    if (status != BASE_OK) return status;
    if (rank < 3)
        return base_fail_unsupported(n->importer->report, "needs an input of known rank, at least 3");
    int64_t axes[OP_MAX_RANK];
    for (int32_t i = 0; i < rank - 2; i++) axes[i] = 2 + i;
    /* Scale and bias are one number a channel. */
    int64_t spatial[OP_MAX_RANK];
    for (int32_t k = 0; k < rank - 2; k++) spatial[k] = 1 + k;
    for (uint32_t i = 0; i < 2; i++) {
        ir_value *parameter = expr_widened(n, n->inputs[1 + i]);
        ir_value *axis = import_constant_integers(n, (size_t)rank - 2, spatial);
        parameters[i] = expr_binary(n, OP_UNSQUEEZE, parameter, axis);
    }
    const op_dtype dtype = import_dtype_of(x);
    x = expr_widened(n, x);
    centre(n, x, (size_t)rank - 2, axes, &centred, &variance, NULL);
    double epsilon = (double)import_real(n, "epsilon", 1e-5f);
    ir_value *deviation =
        expr_unary(n, OP_SQRT, expr_binary(n, OP_ADD, variance, expr_number(n, x, epsilon)));
    /* Not a division of each element, which takes longer than all else. */
    ir_value *unit = expr_binary(n, OP_MUL, centred, expr_unary(n, OP_RECIPROCAL, deviation));
    ir_value *scaled = expr_binary(n, OP_MUL, unit, parameters[0]);
    return expr_finish_as(n, dtype, expr_binary(n, OP_ADD, scaled, parameters[1]));
}

base_status import_convert_layer_normalization(import_node *n) {
    ir_value *x = n->inputs[0], *centred, *variance, *mean;
    int64_t axis = import_integer(n, "axis", -1), axes[OP_MAX_RANK];
    int32_t rank = import_rank_of(x), first;
    base_status status = expr_need_dtype(n, x);
    if (status != BASE_OK) return status;
    if (rank < 0) return base_fail_unsupported(n->importer->report, "needs an input of known rank");
    if (!op_axis(axis, rank, &first)) {
        return base_fail(n->importer->report, BASE_INVALID,
                         "attribute \"axis\" is %lld, expected a number in [%d, %d)", (long long)axis, -rank,
                         rank);
    }
    for (int32_t i = first; i < rank; i++) axes[i - first] = i;
    /* The statistics are taken in float, whatever the type. */
    op_dtype dtype = import_dtype_of(x), stash = dtype == OP_DOUBLE ? OP_DOUBLE : OP_FLOAT;
    ir_value *wide = expr_cast(n, x, stash);
    centre(n, wide, (size_t)(rank - first), axes, &centred, &variance, &mean);
    double epsilon = (double)import_real(n, "epsilon", 1e-5f);
    ir_value *deviation =
        expr_unary(n, OP_SQRT, expr_binary(n, OP_ADD, variance, expr_number(n, wide, epsilon)));
    ir_value *inverse = expr_unary(n, OP_RECIPROCAL, deviation);
    ir_value *y = expr_cast(n, expr_binary(n, OP_MUL, centred, inverse), dtype);
    y = expr_binary(n, OP_MUL, y, n->inputs[1]);
    if (n->input_count > 2 && n->inputs[2]) y = expr_binary(n, OP_ADD, y, n->inputs[2]);
    status = expr_finish(n, y);
    /* They are given out in the type that is asked for, which is never double. */
    ir_value *statistics[] = {mean, inverse};
    const bool shorter = import_integer(n, "stash_type", OP_FLOAT) == OP_BFLOAT16;
    for (uint32_t i = 1; i < 3 && status == BASE_OK; i++)
        if (i < n->output_count && import_output_named(n, i))
            status = expr_output(n, i, expr_cast(n, statistics[i - 1], shorter ? OP_BFLOAT16 : OP_FLOAT));
    return status;
}

/* ---- one of several ------------------------------------------------------------------------------------ */

/* 1 for the largest along the axis (the first of equal ones), 0 for the others. */
static ir_value *hardmax(const import_node *n, ir_value *x, int64_t axis) {
    op_attributes attributes = NONE;
    if (!x || !import_attributes_add_integer(n, &attributes, "axis", axis) ||
        !import_attributes_add_integer(n, &attributes, "keepdims", 0))
        return NULL;
    ir_value *largest = import_make(n, OP_ARG_MAX, attributes, 1, &x);
    ir_value *place = import_constant_integers(n, 1, &axis);
    ir_value *extents = expr_unary(n, OP_SHAPE, x);
    ir_value *depth = expr_binary(n, OP_GATHER, extents, place);
    ir_value *pair[2];
    for (int i = 0; i < 2; i++) pair[i] = expr_axis(n, OP_UNSQUEEZE, expr_number(n, x, i), 0);
    ir_value *values = expr_with_integer(n, OP_CONCAT, "axis", 0, 2, pair);
    ir_value *inputs[] = {largest, depth, values};
    return expr_with_integer(n, OP_ONE_HOT, "axis", axis, 3, inputs);
}

base_status import_convert_hardmax(import_node *n) {
    base_status status = expr_need_dtype(n, n->inputs[0]);
    if (status != BASE_OK) return status;
    return expr_finish(n, hardmax(n, n->inputs[0], import_integer(n, "axis", -1)));
}

/* Before opset 13: of a matrix, whose columns are all dimensions from `axis` on. */
base_status import_convert_hardmax_flat(import_node *n) {
    ir_value *x = n->inputs[0];
    base_status status = expr_need_dtype(n, x);
    if (status != BASE_OK) return status;
    ir_value *flat = expr_with_integer(n, OP_FLATTEN, "axis", import_integer(n, "axis", 1), 1, &x);
    ir_value *inputs[2];
    inputs[0] = hardmax(n, flat, 1);
    inputs[1] = expr_unary(n, OP_SHAPE, x);
    return expr_finish(n, expr_with_integer(n, OP_RESHAPE, "allowzero", 1, 2, inputs));
}

/* ---- losses -------------------------------------------------------------------------------------------- */

/* The negative log likelihoods of the targets among log probabilities [N, C, ...], weighted and reduced. */
static ir_value *likelihood_loss(import_node *n, ir_value *x, ir_value *target, ir_value *weight) {
    const Onnx__AttributeProto *reduction = import_attribute(n, "reduction");
    const char *how = reduction ? (const char *)reduction->s.data : "mean";
    size_t length = reduction ? reduction->s.len : 4;
    bool ignores = import_attribute(n, "ignore_index") != NULL,
         mean = length == 4 && memcmp(how, "mean", 4) == 0;
    bool none = length == 4 && memcmp(how, "none", 4) == 0;
    ir_value *ignored = NULL, *weights = NULL;
    if (ignores) {
        ir_value *wide = expr_cast(n, target, OP_INT64);
        ir_value *index = import_constant_integer(n, import_integer(n, "ignore_index", 0));
        ignored = expr_binary(n, OP_EQUAL, wide, index);
        target = expr_select(n, ignored, expr_number(n, target, 0), target);
    }
    ir_value *pair[] = {x, expr_axis(n, OP_UNSQUEEZE, target, 1)};
    ir_value *picked = expr_with_integer(n, OP_GATHER_ELEMENTS, "axis", 1, 2, pair);
    ir_value *loss = expr_unary(n, OP_NEG, expr_axis(n, OP_SQUEEZE, picked, 1));
    if (weight) weights = expr_binary(n, OP_GATHER, weight, target);
    if (ignores) {
        ir_value *zero = expr_number(n, x, 0);
        weights = expr_select(n, ignored, zero, weight ? weights : expr_number(n, x, 1));
    }
    if (weights) loss = expr_binary(n, OP_MUL, loss, weights);
    else if (weight || ignores) return NULL;
    if (none) return loss;
    if (!mean) return expr_reduce(n, OP_REDUCE_SUM, loss, 0, NULL, false);
    if (!weights) return expr_reduce(n, OP_REDUCE_MEAN, loss, 0, NULL, false);
    ir_value *whole =
        expr_reduce(n, OP_REDUCE_SUM, weights, 0, NULL, false); /* first: with it the weights go */
    return expr_binary(n, OP_DIV, expr_reduce(n, OP_REDUCE_SUM, loss, 0, NULL, false), whole);
}

static base_status check_loss(const import_node *n) {
    base_status status = expr_need_dtype(n, n->inputs[0]);
    return status == BASE_OK ? expr_need_dtype(n, n->inputs[1]) : status;
}

base_status import_convert_likelihood_loss(import_node *n) {
    base_status status = check_loss(n);
    if (status != BASE_OK) return status;
    return expr_finish(
        n, likelihood_loss(n, n->inputs[0], n->inputs[1], n->input_count > 2 ? n->inputs[2] : NULL));
}

base_status import_convert_cross_entropy_loss(import_node *n) {
    base_status status = check_loss(n);
    if (status != BASE_OK) return status;
    ir_value *logarithms = expr_with_integer(n, OP_LOG_SOFTMAX, "axis", 1, 1, n->inputs);
    status = expr_finish(
        n, logarithms ? likelihood_loss(n, logarithms, n->inputs[1], n->input_count > 2 ? n->inputs[2] : NULL)
                      : NULL);
    if (status == BASE_OK && n->output_count > 1 && import_output_named(n, 1))
        status = import_define(n, 1, logarithms);
    return status;
}

/* ---- windows ------------------------------------------------------------------------------------------- */

/* a0 - a1 cos(2 pi i / size) + a2 cos(4 pi i / size), where a window that is not periodic has size - 1. */
base_status import_convert_window(import_node *n) {
    const char *name = n->proto->op_type;
    double a0 = 0.5, a1 = 0.5, a2 = 0;
    const double turn = 6.283185307179586476925286766559;
    if (strcmp(name, "HammingWindow") == 0) {
        a0 = 25.0 / 46;
        a1 = 21.0 / 46;
    } else if (strcmp(name, "BlackmanWindow") == 0) {
        a0 = 0.42;
        a2 = 0.08;
    }
    ir_value *size = expr_cast(n, n->inputs[0], OP_INT64);
    ir_value *steps = expr_cast(n, expr_steps(n, size, 1), OP_DOUBLE),
             *extent = expr_cast(n, size, OP_DOUBLE);
    if (!steps || !extent) return import_memory(n);
    if (import_integer(n, "periodic", 1) == 0)
        extent = expr_binary(n, OP_SUB, extent, expr_number(n, extent, 1));
    ir_value *angle =
        expr_binary(n, OP_DIV, expr_binary(n, OP_MUL, steps, expr_number(n, steps, turn)), extent);
    ir_value *level = expr_number(n, angle, a0), *wave = expr_unary(n, OP_COS, angle);
    ir_value *y = expr_binary(n, OP_SUB, level, expr_binary(n, OP_MUL, wave, expr_number(n, angle, a1)));
    if (a2 != 0) {
        ir_value *twice = expr_unary(n, OP_COS, expr_binary(n, OP_MUL, angle, expr_number(n, angle, 2)));
        y = expr_binary(n, OP_ADD, y, expr_binary(n, OP_MUL, twice, expr_number(n, angle, a2)));
    }
    int64_t dtype = import_integer(n, "output_datatype", OP_FLOAT);
    return expr_finish(n, y && dtype != OP_DOUBLE ? expr_with_integer(n, OP_CAST, "to", dtype, 1, &y) : y);
}

/* ---- older and composed forms of what reads images ------------------------------------------------------ */

/* Upsample and Resize-10: positions are divided by the scale and rounded down; up where an axis shrinks. */
base_status import_convert_resize(import_node *n) {
    const Onnx__AttributeProto *mode = import_attribute(n, "mode"), *scales = import_attribute(n, "scales");
    bool linear = mode && mode->s.len >= 6 && memcmp(mode->s.data + mode->s.len - 6, "linear", 6) == 0;
    op_attributes attributes = NONE;
    ir_value *inputs[] = {n->inputs[0], NULL,
                          scales ? import_constant_reals(n, scales->n_floats, scales->floats) : n->inputs[1]};
    if (!inputs[2] || !import_attributes_add_text(n, &attributes, "mode", linear ? "linear" : "nearest") ||
        !import_attributes_add_text(n, &attributes, "coordinate_transformation_mode", "asymmetric") ||
        !import_attributes_add_text(n, &attributes, "nearest_mode", "ouro.by_scale"))
        return import_memory(n);
    return import_finish(n, OP_RESIZE, attributes, 3, inputs);
}

base_status import_convert_roi_align(import_node *n) {
    op_attributes attributes;
    base_status status = import_attributes(n, n->code, &attributes);
    if (status != BASE_OK) return status;
    if (!import_attributes_add_text(n, &attributes, "coordinate_transformation_mode", "output_half_pixel"))
        return import_memory(n);
    return import_finish(n, n->code, attributes, 3, n->inputs);
}

static ir_value *power(const import_node *n, ir_value *x, double exponent) {
    return exponent == 1 ? x : expr_binary(n, OP_POW, x, expr_number(n, x, exponent));
}

/* The norm of a pool, which is a float in the first version. */
static double pool_norm(const import_node *n) {
    return n->version < 2 ? (double)import_real(n, "p", 2) : (double)import_integer(n, "p", 2);
}

/* Sums of powers over windows, then the root. */
base_status import_convert_lp_pool(import_node *n) {
    size_t count;
    import_integers(n, "kernel_shape", &count);
    const double p = pool_norm(n);
    ir_value *x = n->inputs[0];
    op_attributes attributes;
    base_status status = expr_need_dtype(n, x);
    if (status == BASE_OK && (!count || !(p >= 1)))
        status = base_fail(n->importer->report, BASE_INVALID,
                           "kernel_shape is absent, or p is %g, expected 1 or more", p);
    if (status == BASE_OK) status = import_attributes(n, OP_AVERAGE_POOL, &attributes);
    if (status != BASE_OK) return status;
    if (!import_attributes_add_integer(n, &attributes, "ouro.sum", 1)) return import_memory(n);
    ir_value *powers = power(n, expr_unary(n, OP_ABS, expr_widened(n, x)), p);
    ir_value *sum = powers ? import_make(n, OP_AVERAGE_POOL, attributes, 1, &powers) : NULL;
    return expr_finish_as(n, import_dtype_of(x), power(n, sum, 1 / p));
}

base_status import_convert_global_lp_pool(import_node *n) {
    const double p = pool_norm(n);
    int64_t axes[OP_MAX_RANK];
    int32_t rank = import_rank_of(n->inputs[0]);
    base_status status = expr_need_dtype(n, n->inputs[0]);
    if (status != BASE_OK) return status;
    if (rank < 3 || !(p >= 1))
        return base_fail_unsupported(n->importer->report,
                                     "needs an input of known rank, at least 3, and p above 0");
    for (int32_t i = 2; i < rank; i++) axes[i - 2] = i;
    ir_value *sum =
        expr_reduce(n, OP_REDUCE_SUM, power(n, expr_unary(n, OP_ABS, expr_widened(n, n->inputs[0])), p),
                    (size_t)rank - 2, axes, true);
    return expr_finish_as(n, import_dtype_of(n->inputs[0]), power(n, sum, 1 / p));
}

/* ---- older forms of signals and samples ------------------------------------------------------------------ */

/* DFT-17: the axis is an attribute, 1 where it is absent. Together, onesided and inverse meant nothing before opset 20, and are
 * taken as what they mean since. */
base_status import_convert_dft(import_node *n) {
    op_attributes attributes;
    base_status status = import_attributes(n, n->code, &attributes);
    if (status != BASE_OK) return status;
    ir_value *inputs[] = {n->inputs[0], n->input_count > 1 ? n->inputs[1] : NULL,
                          import_constant_integer(n, import_integer(n, "axis", 1))};
    return inputs[2] ? import_finish(n, OP_DFT, attributes, 3, inputs) : import_memory(n);
}

/* GridSample-16: linear and cubic were named after images of two dimensions. */
base_status import_convert_grid_sample(import_node *n) {
    const Onnx__AttributeProto *mode = import_attribute(n, "mode");
    op_attributes attributes;
    base_status status = import_attributes(n, n->code, &attributes);
    if (status != BASE_OK) return status;
    if (mode && mode->s.len > 2 && memcmp(mode->s.data, "bi", 2) == 0) {
        const bool cubic = mode->s.len == 7 && memcmp(mode->s.data, "bicubic", 7) == 0;
        if (!import_attributes_add_text(n, &attributes, "mode", cubic ? "cubic" : "linear"))
            return import_memory(n);
    }
    return import_finish(n, n->code, attributes, 2, n->inputs);
}

/* ---- quantised products -------------------------------------------------------------------------------- */

/* Scales of 16 bits are taken as floats, which hold them exactly; a product of float8 is one of the numbers that they stand for. */
base_status import_convert_qlinear_matmul(import_node *n) {
    enum { A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, Y_SCALE, Y_ZERO, COUNT };
    ir_value *inputs[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        inputs[i] = expr_input(n, i);
        if (!inputs[i])
            return base_fail(n->importer->report, BASE_INVALID, "input %u is absent, QLinearMatMul needs it",
                             i);
        if ((i == A_SCALE || i == B_SCALE || i == Y_SCALE) && import_dtype_of(inputs[i]) != OP_NONE)
            inputs[i] = expr_cast(n, inputs[i], OP_FLOAT);
        if (!inputs[i]) return import_memory(n);
    }
    const op_dtype dtype = import_dtype_of(inputs[A]);
    if (dtype == OP_NONE || dtype == OP_INT8 || dtype == OP_UINT8)
        return import_finish(n, OP_QLINEAR_MATMUL, NONE, COUNT, inputs);
    ir_value *a = import_make(n, OP_DEQUANTIZE_LINEAR, NONE, 3, &inputs[A]),
             *b = import_make(n, OP_DEQUANTIZE_LINEAR, NONE, 3, &inputs[B]);
    ir_value *result[] = {expr_binary(n, OP_MATMUL, a, b), inputs[Y_SCALE], inputs[Y_ZERO]};
    return result[0] ? import_finish(n, OP_QUANTIZE_LINEAR, NONE, 3, result) : import_memory(n);
}
