/* SPDX-License-Identifier: Apache-2.0 */
/* elementwise_unary.c: operators that map each element of one tensor by itself.
 *
 * Integers wrap around (Abs and Neg of the smallest number give it back). Relu and Clip pass a NaN on. Erf of
 * integers is computed in double and truncated. Half precision is computed in float, a block at a time.
 */
#include "ir/operators/chosen.h"
#include "runtime/kernels/portable/elementwise_unary.h"
#include "runtime/kernels/portable/pieces.h"
#include "runtime/kernels/portable/vector_angles.h"
#include "runtime/kernels/portable/vector_doubles.h"
#include <float.h>
#include <math.h>
#include <string.h>

#define UNARY(name, clones, type, expression)                                                                \
    clones static void name(void *to, const void *from, int64_t count,                                       \
                            const rt_unary_parameters *parameters) {                                         \
        type *y = to;                                                                                        \
        const type *x = from;                                                                                \
        const rt_unary_parameters p = *parameters;                                                           \
        (void)p;                                                                                             \
        RT_VECTOR for (int64_t i = 0; i < count; i++) {                                                      \
            const type a = x[i];                                                                             \
            y[i] = (type)(expression);                                                                       \
        }                                                                                                    \
    }

#define UNARY_REAL(name, single, twice)                                                                      \
    UNARY(name##_float, RT_CLONES, float, single)                                                            \
    UNARY(name##_double, RT_CLONES, double, twice)
#define MAP_LONG(name, type, map, expression)                                                                \
    RT_CLONES static void name(void *to, const void *from_, int64_t count,                                   \
                               const rt_unary_parameters *parameters) {                                      \
        type *y = to;                                                                                        \
        const type *x = from_;                                                                               \
        const rt_unary_parameters p = *parameters;                                                           \
        (void)p;                                                                                             \
        map(y, x, count, expression);                                                                        \
    }
#define UNARY_LONG(name, single, twice)                                                                      \
    MAP_LONG(name##_float, float, RT_MAP_LONG, single)                                                       \
    MAP_LONG(name##_double, double, RT_MAP_LONG_DOUBLE, twice)
/* In double by the C library. */
#define UNARY_CALLED(name, single, twice)                                                                    \
    MAP_LONG(name##_float, float, RT_MAP_LONG, single)                                                       \
    UNARY(name##_double, , double, twice)
/* In float rt_..._floats of pieces.h. */
#define PIECES(name)                                                                                         \
    static void name##_float(void *to, const void *from, int64_t count,                                      \
                             const rt_unary_parameters *parameters) {                                        \
        (void)parameters;                                                                                    \
        rt_##name##_floats(to, from, count);                                                                 \
    }
#define UNARY_PIECES(name, twice)                                                                            \
    PIECES(name)                                                                                             \
    UNARY(name##_double, , double, twice)
#define UNARY_SIGNED(name, expression)                                                                       \
    UNARY(name##_int8, RT_CLONES, int8_t, expression)                                                        \
    UNARY(name##_int16, , int16_t, expression)                                                               \
    UNARY(name##_int32, RT_CLONES, int32_t, expression)                                                      \
    UNARY(name##_int64, RT_CLONES, int64_t, expression)
#define UNARY_UNSIGNED(name, expression)                                                                     \
    UNARY(name##_uint8, RT_CLONES, uint8_t, expression)                                                      \
    UNARY(name##_uint16, , uint16_t, expression)                                                             \
    UNARY(name##_uint32, , uint32_t, expression)                                                             \
    UNARY(name##_uint64, , uint64_t, expression)

#define LIMIT(a, low, high) ((a) < (low) ? (low) : (a) > (high) ? (high) : (a))
/* Limits are numbers of the type of a. */
#define LIMIT_WHOLE(a, low, high) LIMIT(a, (__typeof__(a))(low), (__typeof__(a))(high))

UNARY_REAL(abs, rt_absolute(a), fabs(a))
UNARY_SIGNED(abs, (a < 0 ? 0 - (uint64_t)a : (uint64_t)a))
UNARY_REAL(ceil, ceilf(a), ceil(a))
UNARY_REAL(clip, LIMIT(a, p.low, p.high), LIMIT(a, p.low_double, p.high_double))
UNARY_SIGNED(clip, LIMIT_WHOLE(a, p.low_signed, p.high_signed))
UNARY_UNSIGNED(clip, LIMIT_WHOLE(a, p.low_unsigned, p.high_unsigned))
UNARY_PIECES(erf, erf(a))
UNARY_SIGNED(erf, erf((double)a))
UNARY_UNSIGNED(erf, erf((double)a))
UNARY_LONG(exp, rt_exp(a), rt_exp_double(a))
UNARY_REAL(floor, floorf(a), floor(a))
UNARY_LONG(log, rt_log(a), rt_log_double(a))
UNARY_REAL(negate, -a, -a)
UNARY_SIGNED(negate, 0 - (uint64_t)a)
UNARY(not_bool, RT_CLONES, uint8_t, !a)
UNARY_REAL(reciprocal, 1.0f / a, 1.0 / a)
UNARY_REAL(relu, (a < 0.0f ? 0.0f : a), (a < 0.0 ? 0.0 : a))
UNARY_SIGNED(relu, (a < 0 ? 0 : a))
UNARY_REAL(leaky_relu, (a < 0.0f ? a * p.alpha : a), (a < 0.0 ? a * (double)p.alpha : a))
UNARY_LONG(sigmoid, rt_sigmoid(a), rt_sigmoid_double(a))
UNARY_REAL(sqrt, sqrtf(a), sqrt(a))
UNARY_LONG(tanh, rt_tanh(a), rt_tanh_double(a))

/* Functions of angles: large ones, and infinities, are left to the C library. */
enum { ANGLES = 1024 };

#define LARGE_ANGLES(type, word_type, unsigned_type, limit, ones)                                            \
    RT_CLONES static bool has_large_angles_##type(const type *x, int64_t count) {                            \
        const word_type most = {.real = limit};                                                              \
        unsigned_type large = 0;                                                                             \
        for (int64_t i = 0; i < count; i++) {                                                                \
            const word_type word = {.real = x[i]};                                                           \
            large |= (word.bits & ones) > most.bits;                                                         \
        }                                                                                                    \
        return large;                                                                                        \
    }                                                                                                        \
    /* The results of angles up to the limit, and what `library` says of others: `kept` are the angles. */   \
    static void put_large_angles_##type(type *y, const type *kept, int64_t count, type (*library)(type)) {   \
        for (int64_t i = 0; i < count; i++) {                                                                \
            const word_type word = {.real = kept[i]}, most = {.real = limit};                                \
            if ((word.bits & ones) > most.bits) y[i] = library(kept[i]);                                     \
        }                                                                                                    \
    }
LARGE_ANGLES(float, rt_word, uint32_t, RT_ANGLE_LIMIT, 0x7fffffffu)
LARGE_ANGLES(double, rt_long_word, uint64_t, RT_LONG_ANGLE_LIMIT, ~RT_LONG_SIGN)

#define UNARY_ANGLE_OF(name, type, map, function, library)                                                   \
    RT_CLONES static void name##_small_##type(type *y, const type *x, int64_t count) {                       \
        map(y, x, count, function(a));                                                                       \
    }                                                                                                        \
    static void name##_##type(void *to, const void *from, int64_t count,                                     \
                              const rt_unary_parameters *parameters) {                                       \
        (void)parameters;                                                                                    \
        for (int64_t first = 0; first < count; first += ANGLES) {                                            \
            const int64_t some = count - first < ANGLES ? count - first : ANGLES;                            \
            const type *x = (const type *)from + first;                                                      \
            type *y = (type *)to + first, kept[ANGLES];                                                      \
            const bool large = has_large_angles_##type(x, some);                                             \
            if (large) memcpy(kept, x, (size_t)some * sizeof *x);                                            \
            name##_small_##type(y, x, some);                                                                 \
            if (large) put_large_angles_##type(y, kept, some, library);                                      \
        }                                                                                                    \
    }
#define UNARY_ANGLE(name)                                                                                    \
    UNARY_ANGLE_OF(name, float, RT_MAP_LONG, rt_##name, name##f)                                             \
    UNARY_ANGLE_OF(name, double, RT_MAP_LONG_DOUBLE, rt_##name##_double, name)

#define ALPHA ((double)p.alpha)
#define BETA ((double)p.beta)
UNARY_CALLED(acos, rt_acos(a), acos(a))
UNARY_CALLED(acosh, rt_acosh(a), acosh(a))
UNARY_CALLED(asin, rt_asin(a), asin(a))
UNARY_CALLED(asinh, rt_asinh(a), asinh(a))
UNARY_CALLED(atan, rt_atan(a), atan(a))
UNARY_CALLED(atanh, rt_atanh(a), atanh(a))
UNARY_LONG(celu, (a < 0.0f ? p.alpha * rt_exp_minus_one(a / p.alpha) : a),
           (a < 0.0 ? ALPHA * rt_elu_double(a / ALPHA) : a))
UNARY_ANGLE(cos)
UNARY_LONG(cosh, rt_cosh(a), rt_cosh_double(a))
UNARY_LONG(elu, (a < 0.0f ? p.alpha * rt_exp_minus_one(a) : a), (a < 0.0 ? ALPHA * rt_elu_double(a) : a))
UNARY_REAL(hard_sigmoid, LIMIT(p.alpha *a + p.beta, 0.0f, 1.0f), LIMIT(ALPHA *a + BETA, 0.0, 1.0))
UNARY_REAL(hard_swish, a *LIMIT(a / 6.0f + 0.5f, 0.0f, 1.0f), a *LIMIT(a / 6.0 + 0.5, 0.0, 1.0))
UNARY_REAL(round, rintf(a), rint(a))
UNARY_LONG(selu, p.beta *(a < 0.0f ? p.alpha * rt_exp_minus_one(a) : a),
           BETA *(a < 0.0 ? ALPHA * rt_elu_double(a) : a))
/* -0 gives 0, NaN stays. */
UNARY_REAL(sign, (a > 0.0f ? 1.0f : a < 0.0f ? -1.0f : a + 0.0f), (a > 0.0 ? 1.0 : a < 0.0 ? -1.0 : a + 0.0))
UNARY_SIGNED(sign, (a > 0) - (a < 0))
UNARY_UNSIGNED(sign, a > 0)
UNARY_ANGLE(sin)
UNARY_LONG(sinh, rt_sinh(a), rt_sinh_double(a))
UNARY_LONG(softplus, (a > 0.0f ? a : 0.0f) + rt_log_plus_one(rt_exp(rt_negative(a))), rt_softplus_double(a))
UNARY_REAL(softsign, a / (1.0f + rt_absolute(a)), a / (1.0 + fabs(a)))
UNARY_ANGLE(tan)
UNARY_REAL(thresholded_relu, (a > p.alpha ? a : 0.0f), (a > ALPHA ? a : 0.0))

/* x times the probability that a normal number is below x, and its two usual approximations; x tanh(log(1 + e^x)), where e^x
 * is all of it from 20 on. */
#define MISH(a, e) ((a) * ((e) * ((e) + 2)) / ((e) * ((e) + 2) + 2))
UNARY_PIECES(gelu, 0.5 * a * (1.0 + erf(a * 0.70710678118654752440)))
PIECES(gelu_tanh)
MAP_LONG(gelu_tanh_double, double, RT_MAP_LONG_DOUBLE, rt_gelu_by_tanh_double(a))
UNARY_LONG(swish, rt_swish(a, p.alpha), rt_swish_double(a, ALPHA))
UNARY_LONG(mish, (a > 20.0f ? a : MISH(a, rt_exp(a > 20.0f ? 20.0f : a))), rt_mish_double(a))
UNARY_SIGNED(bitwise_not, ~(uint64_t)a)
UNARY_UNSIGNED(bitwise_not, ~(uint64_t)a)

static void same(void *to, const void *from, int64_t count, size_t size) {
    if (to != from && count > 0) memcpy(to, from, (size_t)count * size);
}
#define UNARY_SAME(type, bits)                                                                               \
    static void abs_##type(void *to, const void *from, int64_t count,                                        \
                           const rt_unary_parameters *parameters) {                                          \
        (void)parameters;                                                                                    \
        same(to, from, count, bits / 8);                                                                     \
    }
UNARY_SAME(uint8, 8)
UNARY_SAME(uint16, 16)
UNARY_SAME(uint32, 32)
UNARY_SAME(uint64, 64)

#define ROW_REAL(name) [OP_FLOAT] = name##_float, [OP_DOUBLE] = name##_double
#define ROW_SIGNED(name)                                                                                     \
    [OP_INT8] = name##_int8, [OP_INT16] = name##_int16, [OP_INT32] = name##_int32, [OP_INT64] = name##_int64
#define ROW_UNSIGNED(name)                                                                                   \
    [OP_UINT8] = name##_uint8, [OP_UINT16] = name##_uint16, [OP_UINT32] = name##_uint32,                     \
    [OP_UINT64] = name##_uint64

/* `zero_stays`: zero is mapped to zero, so that the padding of blocked layouts needs no care. */
typedef struct unary_row {
    bool zero_stays;
    float alpha, beta; /* where the attributes are absent */
    rt_unary_function *functions[OP_DTYPE_COUNT];
} unary_row;

/* A build that leaves out an operator has none of its functions. */
#define ROW(code, ...) [OP_##code] = {OP_CHOSEN_ROW(code, __VA_ARGS__)}
static const unary_row rows[OP_CODE_COUNT] = {
    ROW(ABS, true, 0.0f, 0.0f, {ROW_REAL(abs), ROW_SIGNED(abs), ROW_UNSIGNED(abs)}),
    ROW(CEIL, true, 0.0f, 0.0f, {ROW_REAL(ceil)}),
    ROW(CLIP, false, 0.0f, 0.0f, {ROW_REAL(clip), ROW_SIGNED(clip), ROW_UNSIGNED(clip)}),
    ROW(ERF, true, 0.0f, 0.0f, {ROW_REAL(erf), ROW_SIGNED(erf), ROW_UNSIGNED(erf)}),
    ROW(EXP, false, 0.0f, 0.0f, {ROW_REAL(exp)}),
    ROW(FLOOR, true, 0.0f, 0.0f, {ROW_REAL(floor)}),
    ROW(LOG, false, 0.0f, 0.0f, {ROW_REAL(log)}),
    ROW(NEG, true, 0.0f, 0.0f, {ROW_REAL(negate), ROW_SIGNED(negate)}),
    ROW(NOT, false, 0.0f, 0.0f, {[OP_BOOL] = not_bool}),
    ROW(RECIPROCAL, false, 0.0f, 0.0f, {ROW_REAL(reciprocal)}),
    ROW(RELU, true, 0.0f, 0.0f, {ROW_REAL(relu), ROW_SIGNED(relu)}),
    ROW(LEAKY_RELU, true, 0.01f, 0.0f, {ROW_REAL(leaky_relu)}),
    ROW(SIGMOID, false, 0.0f, 0.0f, {ROW_REAL(sigmoid)}),
    ROW(SQRT, true, 0.0f, 0.0f, {ROW_REAL(sqrt)}),
    ROW(TANH, true, 0.0f, 0.0f, {ROW_REAL(tanh)}),
    ROW(ACOS, false, 0.0f, 0.0f, {ROW_REAL(acos)}),
    ROW(ACOSH, false, 0.0f, 0.0f, {ROW_REAL(acosh)}),
    ROW(ASIN, true, 0.0f, 0.0f, {ROW_REAL(asin)}),
    ROW(ASINH, true, 0.0f, 0.0f, {ROW_REAL(asinh)}),
    ROW(ATAN, true, 0.0f, 0.0f, {ROW_REAL(atan)}),
    ROW(ATANH, true, 0.0f, 0.0f, {ROW_REAL(atanh)}),
    ROW(CELU, true, 1.0f, 0.0f, {ROW_REAL(celu)}),
    ROW(COS, false, 0.0f, 0.0f, {ROW_REAL(cos)}),
    ROW(COSH, false, 0.0f, 0.0f, {ROW_REAL(cosh)}),
    ROW(ELU, true, 1.0f, 0.0f, {ROW_REAL(elu)}),
    ROW(HARD_SIGMOID, false, 0.2f, 0.5f, {ROW_REAL(hard_sigmoid)}),
    ROW(HARD_SWISH, true, 0.0f, 0.0f, {ROW_REAL(hard_swish)}),
    ROW(ROUND, true, 0.0f, 0.0f, {ROW_REAL(round)}),
    ROW(SELU, true, 1.67326319217681884765625f, 1.05070102214813232421875f, {ROW_REAL(selu)}),
    ROW(SIGN, true, 0.0f, 0.0f, {ROW_REAL(sign), ROW_SIGNED(sign), ROW_UNSIGNED(sign)}),
    ROW(SIN, true, 0.0f, 0.0f, {ROW_REAL(sin)}),
    ROW(SINH, true, 0.0f, 0.0f, {ROW_REAL(sinh)}),
    ROW(SOFTPLUS, false, 0.0f, 0.0f, {ROW_REAL(softplus)}),
    ROW(SOFTSIGN, true, 0.0f, 0.0f, {ROW_REAL(softsign)}),
    ROW(TAN, true, 0.0f, 0.0f, {ROW_REAL(tan)}),
    ROW(THRESHOLDED_RELU, true, 1.0f, 0.0f, {ROW_REAL(thresholded_relu)}),
    ROW(GELU, true, 0.0f, 0.0f, {ROW_REAL(gelu)}),
    ROW(MISH, true, 0.0f, 0.0f, {ROW_REAL(mish)}),
    ROW(SWISH, true, 1.0f, 0.0f, {ROW_REAL(swish)}),
    ROW(BITWISE_NOT, false, 0.0f, 0.0f, {ROW_SIGNED(bitwise_not), ROW_UNSIGNED(bitwise_not)}),
};

static const unary_row gelu_by_tanh = {OP_CHOSEN_ROW(GELU, true, 0.0f, 0.0f, {ROW_REAL(gelu_tanh)})};

static rt_unary_function *find(const op_call *call, const rt_environment *environment) {
    const op_dtype dtype = call->inputs[0].type.dtype;
    const bool tanh =
        call->code == OP_GELU && op_attribute_is(&call->attributes, "approximate", "tanh", "none");
    const unary_row *row = tanh ? &gelu_by_tanh : &rows[call->code];
    const op_dtype computed = rt_is_half(dtype) ? OP_FLOAT : dtype;
    rt_unary_function *wide =
        computed == OP_FLOAT ? rt_unary_512(call->code, !environment->portable_only) : NULL;
    return wide ? wide : row->functions[computed];
}

typedef struct unary_state {
    rt_unary_function *function;
    int64_t count;
    int64_t work;
    size_t size;
    op_dtype dtype;
    rt_unary_parameters parameters;
} unary_state;

/* ---- Clip's limits ---------------------------------------------------------------------------------------
 */

static double scalar_real(const op_tensor *tensor) {
    double value = 0.0;
    float single;
    uint16_t half;
    switch (tensor->type.dtype) {
    case OP_FLOAT:
        memcpy(&single, tensor->data, sizeof single);
        return (double)single;
    case OP_DOUBLE:
        memcpy(&value, tensor->data, sizeof value);
        return value;
    case OP_FLOAT16:
        memcpy(&half, tensor->data, sizeof half);
        return (double)base_float_from_half(half);
    case OP_BFLOAT16:
        memcpy(&half, tensor->data, sizeof half);
        return (double)base_float_from_bfloat16(half);
    default:
        return 0.0;
    }
}

/* The low bytes of an integer, sign extended where it is signed. */
static int64_t scalar_integer(const op_tensor *tensor) {
    switch (tensor->type.dtype) {
    case OP_INT8:
        return *(const int8_t *)tensor->data;
    case OP_UINT8:
        return *(const uint8_t *)tensor->data;
    case OP_INT16:
        return *(const int16_t *)tensor->data;
    case OP_UINT16:
        return *(const uint16_t *)tensor->data;
    case OP_INT32:
        return *(const int32_t *)tensor->data;
    case OP_UINT32:
        return *(const uint32_t *)tensor->data;
    case OP_INT64:
    case OP_UINT64:
        return *(const int64_t *)tensor->data;
    default:
        return 0;
    }
}

static bool limit_given(const op_tensor *inputs, uint32_t count, uint32_t input) {
    return input < count && inputs[input].type.dtype != OP_NONE;
}

/* Fills the limits in; an absent one is the end of the type's range. */
static void read_limits(const op_tensor *inputs, uint32_t count, rt_unary_parameters *parameters) {
    static const struct {
        int64_t low, high;
        uint64_t top;
    } ends[OP_DTYPE_COUNT] = {
        [OP_INT8] = {INT8_MIN, INT8_MAX, 0},    [OP_INT16] = {INT16_MIN, INT16_MAX, 0},
        [OP_INT32] = {INT32_MIN, INT32_MAX, 0}, [OP_INT64] = {INT64_MIN, INT64_MAX, 0},
        [OP_UINT8] = {0, 0, UINT8_MAX},         [OP_UINT16] = {0, 0, UINT16_MAX},
        [OP_UINT32] = {0, 0, UINT32_MAX},       [OP_UINT64] = {0, 0, UINT64_MAX},
    };
    op_dtype dtype = inputs[0].type.dtype;
    /* The largest finite number, so that infinities do not pass. */
    parameters->high = dtype == OP_FLOAT16    ? base_float_from_half(0x7bff)
                       : dtype == OP_BFLOAT16 ? base_float_from_bfloat16(0x7f7f)
                                              : FLT_MAX;
    parameters->low = -parameters->high;
    parameters->high_double = DBL_MAX;
    parameters->low_double = -DBL_MAX;
    parameters->low_signed = ends[dtype].low;
    parameters->high_signed = ends[dtype].high;
    parameters->low_unsigned = 0;
    parameters->high_unsigned = ends[dtype].top;
    if (limit_given(inputs, count, 1)) {
        parameters->low_double = scalar_real(&inputs[1]);
        parameters->low = (float)parameters->low_double;
        parameters->low_signed = scalar_integer(&inputs[1]);
        parameters->low_unsigned = (uint64_t)parameters->low_signed;
    }
    if (limit_given(inputs, count, 2)) {
        parameters->high_double = scalar_real(&inputs[2]);
        parameters->high = (float)parameters->high_double;
        parameters->high_signed = scalar_integer(&inputs[2]);
        parameters->high_unsigned = (uint64_t)parameters->high_signed;
    }
    /* With the limits crossed the upper one wins. */
    if (parameters->low > parameters->high) parameters->low = parameters->high;
    if (parameters->low_double > parameters->high_double) parameters->low_double = parameters->high_double;
    if (parameters->low_signed > parameters->high_signed) parameters->low_signed = parameters->high_signed;
    if (parameters->low_unsigned > parameters->high_unsigned)
        parameters->low_unsigned = parameters->high_unsigned;
}

/* Clip keeps zeros where its limits are known and enclose zero. */
static bool limits_enclose_zero(const op_call *call) {
    rt_unary_parameters parameters;
    for (uint32_t i = 1; i < 3; i++) {
        if (limit_given(call->inputs, call->input_count, i) && !call->inputs[i].data) return false;
    }
    read_limits(call->inputs, call->input_count, &parameters);
    return parameters.low_double <= 0.0 && parameters.high_double >= 0.0 && parameters.low_signed <= 0 &&
           parameters.high_signed >= 0 && parameters.low_unsigned == 0;
}

/* ---- running ------------------------------------------------------------------------------------------- */

typedef struct unary_context {
    const unary_state *state;
    const rt_unary_parameters *parameters;
    char *to;
    const char *from;
} unary_context;

static void run_half(const unary_context *context, int64_t begin, int64_t end) {
    const unary_state *state = context->state;
    _Alignas(RT_ALIGNMENT) float block[RT_HALF_BLOCK];
    for (int64_t i = begin; i < end; i += RT_HALF_BLOCK) {
        int64_t count = end - i < RT_HALF_BLOCK ? end - i : RT_HALF_BLOCK;
        rt_half_load(state->dtype, block, (const uint16_t *)(const void *)context->from + i, count);
        state->function(block, block, count, context->parameters);
        rt_half_store(state->dtype, (uint16_t *)(void *)context->to + i, block, count);
    }
}

static void run_range(void *user, int64_t begin, int64_t end) {
    const unary_context *context = user;
    const unary_state *state = context->state;
    if (rt_is_half(state->dtype)) {
        run_half(context, begin, end);
        return;
    }
    size_t first = (size_t)begin * state->size;
    state->function(context->to + first, context->from + first, end - begin, context->parameters);
}

static base_status run_small(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                             void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const unary_state *state = prepared->state;
    state->function(outputs[0].data, inputs[0].data, state->count, &state->parameters);
    return BASE_OK;
}

static base_status run_large(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                             void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const unary_state *state = prepared->state;
    unary_context context = {state, &state->parameters, outputs[0].data, inputs[0].data};
    rt_parallel(prepared->threads, state->count, state->work, run_range, &context);
    return BASE_OK;
}

static base_status run_clip(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                            void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const unary_state *state = prepared->state;
    rt_unary_parameters parameters = state->parameters;
    read_limits(inputs, prepared->input_count, &parameters);
    unary_context context = {state, &parameters, outputs[0].data, inputs[0].data};
    rt_parallel(prepared->threads, state->count, state->work, run_range, &context);
    return BASE_OK;
}

/* Elements are rows. */
static void run_rows(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs, int member,
                     int64_t begin, int64_t end) {
    (void)member;
    const unary_state *state = prepared->state;
    unary_context context = {state, &state->parameters, outputs[0].data, inputs[0].data};
    run_range(&context, begin, end);
}

/* Not those that read limits, nor those of which the last elements, where they do not fill a vector, may be NaNs of another sign. */
static rt_rows rows_of(const unary_state *state, op_code code) {
    if (code == OP_CLIP || code == OP_SWISH || code == OP_SOFTPLUS || state->count == 0) return (rt_rows){0};
    return (rt_rows){.run = run_rows, .count = state->count, .inputs = 1, .work = state->count * state->work};
}

/* How many simple operations one element costs. */
static int64_t work_of(op_code code) {
    switch (code) {
    case OP_ACOS:
    case OP_ACOSH:
    case OP_ASIN:
    case OP_ASINH:
    case OP_ATAN:
    case OP_ATANH:
    case OP_CELU:
    case OP_COS:
    case OP_COSH:
    case OP_ELU:
    case OP_EXP:
    case OP_LOG:
    case OP_SELU:
    case OP_SIN:
    case OP_SINH:
    case OP_SOFTPLUS:
    case OP_TAN:
    case OP_TANH:
    case OP_SIGMOID:
    case OP_ERF:
    case OP_GELU:
    case OP_MISH:
    case OP_SWISH:
        return 8;
    default:
        return 1;
    }
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    bool zero_stays = call->code == OP_CLIP ? limits_enclose_zero(call) : rows[call->code].zero_stays;
    return find(call, environment) && rt_accepts_layouts(call, 1, zero_stays);
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    unary_state *state = BASE_NEW(arena, unary_state);
    if (!state) return base_fail_memory(report);
    state->dtype = call->inputs[0].type.dtype;
    state->function = find(call, environment);
    state->size = op_dtype_bytes(state->dtype);
    state->count = rt_stored_elements(&call->outputs[0].type);
    state->work = work_of(call->code);
    const unary_row *row = &rows[call->code];
    state->parameters.alpha = op_attribute_real(&call->attributes, "alpha", row->alpha);
    state->parameters.beta =
        op_attribute_real(&call->attributes, call->code == OP_SELU ? "gamma" : "beta", row->beta);
    prepared->state = state;
    bool small = state->count * state->work < RT_PARALLEL_WORK && !rt_is_half(state->dtype);
    prepared->run = call->code == OP_CLIP ? run_clip : small ? run_small : run_large;
    prepared->rows = rows_of(state, call->code);
    return BASE_OK;
}

const rt_kernel rt_kernel_elementwise_unary = {
    .name = "portable.elementwise_unary", .accepts = accepts, .prepare = prepare};
