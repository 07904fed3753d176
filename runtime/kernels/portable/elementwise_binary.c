/* SPDX-License-Identifier: Apache-2.0 */
/* elementwise_binary.c: operators on pairs of elements, with broadcasting.
 *
 * What ONNX leaves open is defined so that nothing traps: integers wrap around; x / 0 and x mod 0 are 0, the
 * smallest integer / -1 is itself (and mod -1 is 0). Div truncates toward zero. Mod without fmod has the sign
 * of the divisor, with it that of the dividend. Min and Max give NaN where either operand is one. The mixed
 * types of Pow are in pow.c. Half precision is computed in float, a block at a time.
 */
#include "ir/operators/chosen.h"
#include "runtime/kernels/portable/binary_halves.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/pow.h"
#include "runtime/kernels/portable/spread.h"
#include "runtime/kernels/portable/vector_doubles.h"
#include "runtime/kernels/portable/vector_math.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How the operands of a row lie: both along it, or one of them is a single element. */
typedef enum binary_mode { BOTH_RUN, RIGHT_SINGLE, LEFT_SINGLE } binary_mode;

typedef void binary_function(void *to, const void *left, const void *right, int64_t count, binary_mode mode);
typedef void single_function(void *to, const void *left, const void *right);

/* Each operator in each type: a loop in the three modes, and one element by itself without any loop. */
#define BINARY(name, clones, type, result, expression)                                                       \
    clones static void name(void *to, const void *left, const void *right, int64_t count,                    \
                            binary_mode mode) {                                                              \
        result *z = to;                                                                                      \
        const type *x = left, *y = right;                                                                    \
        if (mode == RIGHT_SINGLE) {                                                                          \
            const type b = y[0];                                                                             \
            RT_VECTOR for (int64_t i = 0; i < count; i++) {                                                  \
                const type a = x[i];                                                                         \
                z[i] = (result)(expression);                                                                 \
            }                                                                                                \
        } else if (mode == LEFT_SINGLE) {                                                                    \
            const type a = x[0];                                                                             \
            RT_VECTOR for (int64_t i = 0; i < count; i++) {                                                  \
                const type b = y[i];                                                                         \
                z[i] = (result)(expression);                                                                 \
            }                                                                                                \
        } else {                                                                                             \
            RT_VECTOR for (int64_t i = 0; i < count; i++) {                                                  \
                const type a = x[i], b = y[i];                                                               \
                z[i] = (result)(expression);                                                                 \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    static void name##_single(void *to, const void *left, const void *right) {                               \
        const type a = *(const type *)left, b = *(const type *)right;                                        \
        *(result *)to = (result)(expression);                                                                \
    }

#define BINARY_REAL(name, single, twice)                                                                     \
    BINARY(name##_float, RT_CLONES, float, float, single)                                                    \
    BINARY(name##_double, RT_CLONES, double, double, twice)
/* `expression` on 64 bits: narrower types keep the low bits, which is what wrapping around means. */
#define BINARY_INTEGERS(name, signed_form, unsigned_form)                                                    \
    BINARY(name##_int8, , int8_t, int8_t, signed_form)                                                       \
    BINARY(name##_int16, , int16_t, int16_t, signed_form)                                                    \
    BINARY(name##_int32, RT_CLONES, int32_t, int32_t, signed_form)                                           \
    BINARY(name##_int64, RT_CLONES, int64_t, int64_t, signed_form)                                           \
    BINARY(name##_uint8, , uint8_t, uint8_t, unsigned_form)                                                  \
    BINARY(name##_uint16, , uint16_t, uint16_t, unsigned_form)                                               \
    BINARY(name##_uint32, , uint32_t, uint32_t, unsigned_form)                                               \
    BINARY(name##_uint64, , uint64_t, uint64_t, unsigned_form)
#define BINARY_COMPARE(name, expression)                                                                     \
    BINARY(name##_float, RT_CLONES, float, uint8_t, expression)                                              \
    BINARY(name##_double, RT_CLONES, double, uint8_t, expression)                                            \
    BINARY(name##_int8, , int8_t, uint8_t, expression)                                                       \
    BINARY(name##_int16, , int16_t, uint8_t, expression)                                                     \
    BINARY(name##_int32, RT_CLONES, int32_t, uint8_t, expression)                                            \
    BINARY(name##_int64, RT_CLONES, int64_t, uint8_t, expression)                                            \
    BINARY(name##_uint8, , uint8_t, uint8_t, expression)                                                     \
    BINARY(name##_uint16, , uint16_t, uint8_t, expression)                                                   \
    BINARY(name##_uint32, , uint32_t, uint8_t, expression)                                                   \
    BINARY(name##_uint64, , uint64_t, uint8_t, expression)

/* On 64 bits, from any integer type. */
static inline int64_t divide_signed(int64_t a, int64_t b) {
    return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}
static inline uint64_t divide_unsigned(uint64_t a, uint64_t b) {
    return b == 0 ? 0 : a / b;
}
static inline int64_t modulo_signed(int64_t a, int64_t b) {
    if (b == 0 || b == -1) return 0;
    int64_t rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
static inline int64_t remainder_signed(int64_t a, int64_t b) {
    return b == 0 || b == -1 ? 0 : a % b;
}
static inline uint64_t modulo_unsigned(uint64_t a, uint64_t b) {
    return b == 0 ? 0 : a % b;
}

/* The same of numbers of 32 bits, which a double divides without error, many at a time. */
static inline int32_t divide_32(int32_t a, int32_t b) {
    const int32_t divisor = ((b == 0) | (b == -1)) ? 1 : b;
    const int32_t quotient = (int32_t)((double)a / (double)divisor);
    return b == 0 ? 0 : b == -1 ? (int32_t)(0 - (uint32_t)a) : quotient;
}
static inline int32_t remainder_32(int32_t a, int32_t b) {
    const int32_t divisor = ((b == 0) | (b == -1)) ? 1 : b;
    return a - (int32_t)((double)a / (double)divisor) * divisor;
}
static inline int32_t modulo_32(int32_t a, int32_t b) {
    const int32_t rest = remainder_32(a, b);
    return ((rest != 0) & ((rest < 0) != (b < 0))) ? rest + b : rest;
}
#define OF_SIZE(short_form, long_form)                                                                       \
    _Generic((a), int8_t : short_form, int16_t : short_form, int32_t : short_form, default : long_form)(a, b)

#define WRAP(operation) ((uint64_t)a operation(uint64_t) b)

BINARY_REAL(add, a + b, a + b)
BINARY_INTEGERS(add, WRAP(+), WRAP(+))
BINARY_REAL(subtract, a - b, a - b)
BINARY_INTEGERS(subtract, WRAP(-), WRAP(-))
BINARY_REAL(multiply, a *b, a *b)
BINARY_INTEGERS(multiply, WRAP(*), WRAP(*))
BINARY_REAL(divide, a / b, a / b)
BINARY_INTEGERS(divide, OF_SIZE(divide_32, divide_signed), divide_unsigned(a, b))
BINARY_REAL(minimum, (a < b || a != a ? a : b), (a < b || a != a ? a : b))
BINARY_INTEGERS(minimum, (a < b ? a : b), (a < b ? a : b))
BINARY_REAL(maximum, (a > b || a != a ? a : b), (a > b || a != a ? a : b))
BINARY_INTEGERS(maximum, (a > b ? a : b), (a > b ? a : b))
BINARY_INTEGERS(modulo, OF_SIZE(modulo_32, modulo_signed), modulo_unsigned(a, b))
BINARY(remainder_double, , double, double, fmod(a, b))
BINARY(remainder_int8, , int8_t, int8_t, remainder_32(a, b))
BINARY(remainder_int16, , int16_t, int16_t, remainder_32(a, b))
BINARY(remainder_int32, RT_CLONES, int32_t, int32_t, remainder_32(a, b))
BINARY(remainder_int64, , int64_t, int64_t, remainder_signed(a, b))
static void power_float(void *to, const void *left, const void *right, int64_t count, binary_mode mode) {
    rt_power_floats(to, left, mode != LEFT_SINGLE, right, mode != RIGHT_SINGLE, count);
}
static void power_float_single(void *to, const void *left, const void *right) {
    *(float *)to = rt_pow(*(const float *)left, *(const float *)right);
}
BINARY(power_double, , double, double, pow(a, b))
BINARY(power_int32, , int32_t, int32_t, rt_power_integer(a, b < 0, b < 0 ? 0 - (uint64_t)b : (uint64_t)b))
BINARY(power_int64, , int64_t, int64_t, rt_power_integer(a, b < 0, b < 0 ? 0 - (uint64_t)b : (uint64_t)b))
BINARY_REAL(prelu, (a < 0.0f ? a * b : a), (a < 0.0 ? a * b : a))
BINARY(prelu_int32, , int32_t, int32_t, (a < 0 ? WRAP(*) : (uint64_t)a))
BINARY(prelu_int64, , int64_t, int64_t, (a < 0 ? WRAP(*) : (uint64_t)a))
BINARY(prelu_uint32, , uint32_t, uint32_t, ((void)b, a))
BINARY(prelu_uint64, , uint64_t, uint64_t, ((void)b, a))
BINARY(and_bool, RT_CLONES, uint8_t, uint8_t, (a != 0) & (b != 0))
BINARY(or_bool, RT_CLONES, uint8_t, uint8_t, (a | b) != 0)
BINARY(xor_bool, RT_CLONES, uint8_t, uint8_t, (a != 0) != (b != 0))
BINARY(equal_bool, RT_CLONES, uint8_t, uint8_t, (a != 0) == (b != 0))
BINARY_INTEGERS(bitwise_and, WRAP(&), WRAP(&))
BINARY_INTEGERS(bitwise_or, WRAP(|), WRAP(|))
BINARY_INTEGERS(bitwise_xor, WRAP(^), WRAP(^))
BINARY(equal_string, , op_string, uint8_t,
       a.length == b.length && (a.length == 0 || memcmp(a.data, b.data, a.length) == 0))
BINARY_COMPARE(equal, a == b)
BINARY_COMPARE(less, a < b)
BINARY_COMPARE(greater, a > b)
BINARY_COMPARE(less_or_equal, a <= b)
BINARY_COMPARE(greater_or_equal, a >= b)

/* fmod of floats, in double: a quotient below 2^29 times b has no more digits than a double, so that what it leaves of a is exact; where
 * the quotient was rounded up to a whole number, b is added again. For larger ones the C library is asked. */
enum { SOME = 256 };
#define IS_MODEST(x, y) (rt_absolute(x) < rt_absolute(y) * 0x1p28f)

RT_CLONES static bool all_modest(const float *x, const float *y, int64_t count) {
    uint32_t others = 0;
    for (int64_t i = 0; i < count; i++) others |= !IS_MODEST(x[i], y[i]);
    return others == 0;
}

RT_CLONES static void remainders_of(const float *restrict x, const float *restrict y, float *restrict z,
                                    int64_t count) {
    RT_VECTOR for (int64_t i = 0; i < count; i++) {
        const double dividend = (double)fabsf(x[i]), divisor = (double)fabsf(y[i]);
        const double quotient = trunc(dividend / divisor), left = dividend - quotient * divisor;
        const double whole = left < 0 ? left + divisor : left;
        z[i] = copysignf((float)(quotient == 0 ? dividend : whole), x[i]); /* 0 times infinity is a NaN */
    }
}

static void remainder_float(void *to, const void *left, const void *right, int64_t count, binary_mode mode) {
    float x[SOME], y[SOME], rest[SOME];
    const int64_t filled = count < SOME ? count : SOME;
    for (int64_t i = 0; i < filled; i++) {
        x[i] = *(const float *)left;
        y[i] = *(const float *)right;
    }
    for (int64_t first = 0; first < count; first += SOME) {
        const int64_t some = count - first < SOME ? count - first : SOME;
        if (mode != LEFT_SINGLE) memcpy(x, (const float *)left + first, (size_t)some * sizeof *x);
        if (mode != RIGHT_SINGLE) memcpy(y, (const float *)right + first, (size_t)some * sizeof *y);
        remainders_of(x, y, rest, some);
        if (!all_modest(x, y, some))
            for (int64_t i = 0; i < some; i++)
                if (!IS_MODEST(x[i], y[i])) rest[i] = fmodf(x[i], y[i]);
        memcpy((float *)to + first, rest, (size_t)some * sizeof *rest);
    }
}

static void remainder_float_single(void *to, const void *left, const void *right) {
    *(float *)to = fmodf(*(const float *)left, *(const float *)right);
}

/* Whether all these numbers have an absolute value of 31 bits, as which they are in `to`. */
RT_CLONES static bool narrowed(const int64_t *restrict from, int64_t count, int32_t *restrict to) {
    uint64_t others = 0;
    for (int64_t i = 0; i < count; i++) {
        others |= ((uint64_t)from[i] + INT32_MAX) > 2 * (uint64_t)INT32_MAX;
        to[i] = (int32_t)((uint64_t)from[i] & UINT32_MAX);
    }
    return others == 0;
}

RT_CLONES static void widen(const int32_t *restrict from, int64_t count, int64_t *restrict to) {
    for (int64_t i = 0; i < count; i++) to[i] = from[i];
}

/* Quotients and remainders of 64 bits: of operands that have no more than 32, many at a time; the others one after the other. */
static void divide_some(binary_function *narrow, binary_function *wide, void *to, const void *left,
                        const void *right, int64_t count, binary_mode mode) {
    int32_t a[SOME], b[SOME], c[SOME];
    for (int64_t first = 0; first < count; first += SOME) {
        const int64_t some = count - first < SOME ? count - first : SOME;
        const int64_t *x = (const int64_t *)left + (mode == LEFT_SINGLE ? 0 : first),
                      *y = (const int64_t *)right + (mode == RIGHT_SINGLE ? 0 : first);
        int64_t *z = (int64_t *)to + first;
        if (narrowed(x, mode == LEFT_SINGLE ? 1 : some, a) &&
            narrowed(y, mode == RIGHT_SINGLE ? 1 : some, b)) {
            narrow(c, a, b, some, mode);
            widen(c, some, z);
        } else {
            wide(z, x, y, some, mode);
        }
    }
}
#define DIVIDE_SOME(name)                                                                                    \
    static void name##_long(void *to, const void *left, const void *right, int64_t count,                    \
                            binary_mode mode) {                                                              \
        divide_some(name##_int32, name##_int64, to, left, right, count, mode);                               \
    }
DIVIDE_SOME(divide)
DIVIDE_SOME(modulo)
DIVIDE_SOME(remainder)

typedef struct binary_entry {
    binary_function *function;
    single_function *single;
} binary_entry;

#define ENTRY(dtype, name) [dtype] = {name, name##_single}
#define ROW_REAL(name) ENTRY(OP_FLOAT, name##_float), ENTRY(OP_DOUBLE, name##_double)
#define ROW_SIGNED(name)                                                                                     \
    ENTRY(OP_INT8, name##_int8), ENTRY(OP_INT16, name##_int16), ENTRY(OP_INT32, name##_int32),               \
        ENTRY(OP_INT64, name##_int64)
/* The same of what divides. */
#define ROW_DIVIDED(name)                                                                                    \
    ENTRY(OP_INT8, name##_int8), ENTRY(OP_INT16, name##_int16),                                              \
        ENTRY(OP_INT32, name##_int32), [OP_INT64] = {name##_long, name##_int64_single}
#define ROW_UNSIGNED(name)                                                                                   \
    ENTRY(OP_UINT8, name##_uint8), ENTRY(OP_UINT16, name##_uint16), ENTRY(OP_UINT32, name##_uint32),         \
        ENTRY(OP_UINT64, name##_uint64)
#define ROW_NUMBERS(name) ROW_REAL(name), ROW_SIGNED(name), ROW_UNSIGNED(name)

/* `zeros_stay`: a pair of zeros gives zero, so that the padding of blocked layouts needs no care. */
typedef struct binary_row {
    bool zeros_stay;
    binary_entry entries[OP_DTYPE_COUNT];
} binary_row;

/* A build that leaves out an operator has none of its functions. */
#define ROW(code, ...) [OP_##code] = {OP_CHOSEN_ROW(code, __VA_ARGS__)}
static const binary_row rows[OP_CODE_COUNT] = {
    ROW(ADD, true, {ROW_NUMBERS(add)}),
    ROW(SUB, true, {ROW_NUMBERS(subtract)}),
    ROW(MUL, true, {ROW_NUMBERS(multiply)}),
    ROW(DIV, false, {ROW_REAL(divide), ROW_DIVIDED(divide), ROW_UNSIGNED(divide)}),
    ROW(POW, false, {ROW_REAL(power), ENTRY(OP_INT32, power_int32), ENTRY(OP_INT64, power_int64)}),
    ROW(MIN, true, {ROW_NUMBERS(minimum)}),
    ROW(MAX, true, {ROW_NUMBERS(maximum)}),
    ROW(MOD, false, {ROW_REAL(remainder), ROW_DIVIDED(modulo), ROW_UNSIGNED(modulo)}),
    ROW(PRELU, true,
        {ROW_REAL(prelu), ENTRY(OP_INT32, prelu_int32), ENTRY(OP_INT64, prelu_int64),
         ENTRY(OP_UINT32, prelu_uint32), ENTRY(OP_UINT64, prelu_uint64)}),
    ROW(AND, true, {ENTRY(OP_BOOL, and_bool)}),
    ROW(OR, true, {ENTRY(OP_BOOL, or_bool)}),
    ROW(XOR, true, {ENTRY(OP_BOOL, xor_bool)}),
    ROW(BITWISE_AND, true, {ROW_SIGNED(bitwise_and), ROW_UNSIGNED(bitwise_and)}),
    ROW(BITWISE_OR, true, {ROW_SIGNED(bitwise_or), ROW_UNSIGNED(bitwise_or)}),
    ROW(BITWISE_XOR, true, {ROW_SIGNED(bitwise_xor), ROW_UNSIGNED(bitwise_xor)}),
    ROW(EQUAL, false, {ROW_NUMBERS(equal), ENTRY(OP_BOOL, equal_bool), ENTRY(OP_STRING, equal_string)}),
    ROW(LESS, true, {ROW_NUMBERS(less)}),
    ROW(GREATER, true, {ROW_NUMBERS(greater)}),
    ROW(LESS_OR_EQUAL, false, {ROW_NUMBERS(less_or_equal)}),
    ROW(GREATER_OR_EQUAL, false, {ROW_NUMBERS(greater_or_equal)}),
};

/* Mod of integers with fmod = 1; that of unsigned ones is the same either way. */
static const binary_entry remainders[OP_DTYPE_COUNT] = {ROW_DIVIDED(remainder)};

static binary_entry find(const op_call *call) {
    op_dtype dtype = call->inputs[0].type.dtype;
    if (call->code == OP_MOD && remainders[dtype].function &&
        op_attribute_integer(&call->attributes, "fmod", 0) != 0) {
        return remainders[dtype];
    }
    return rows[call->code].entries[rt_is_half(dtype) ? OP_FLOAT : dtype];
}

typedef struct binary_state {
    binary_function *function;
    single_function *single;
    rt_power_function *power; /* of mixed types, instead of function */
    int64_t count;
    int64_t work;
    binary_mode mode;
    op_dtype dtype; /* of the left operand */
    bool half_result;
    rt_binary_halves_function *halves; /* in registers; NULL: by way of floats in memory */
    size_t left_size, right_size, to_size;
    op_dtype right_dtype;
    rt_loop loop; /* of what is not a single run */
    /* Where innermost rows are short: */
    int64_t block;              /* elements that are computed at once */
    bool spread[2], repeats[2]; /* an operand is broadcast; it is the same in each block */
    rt_loop spreads[2];         /* operand 0: the result; operand 1: this operand */
} binary_state;

typedef struct binary_context {
    const binary_state *state;
    char *to;
    const char *left, *right;
} binary_context;

/* ---- rows ---------------------------------------------------------------------------------------------- */

static void row_half(const binary_context *context, const int64_t offsets[], int64_t length,
                     binary_mode mode) {
    const binary_state *state = context->state;
    const uint16_t *left = (const uint16_t *)(const void *)context->left + offsets[1];
    const uint16_t *right = (const uint16_t *)(const void *)context->right + offsets[2];
    if (state->halves) {
        state->halves((uint16_t *)(void *)context->to + offsets[0], left, right, length, mode == LEFT_SINGLE,
                      mode == RIGHT_SINGLE);
        return;
    }
    _Alignas(RT_ALIGNMENT) float a[RT_HALF_BLOCK], b[RT_HALF_BLOCK];
    for (int64_t i = 0; i < length; i += RT_HALF_BLOCK) {
        int64_t count = length - i < RT_HALF_BLOCK ? length - i : RT_HALF_BLOCK;
        rt_half_load(state->dtype, a, mode == LEFT_SINGLE ? left : left + i, mode == LEFT_SINGLE ? 1 : count);
        rt_half_load(state->dtype, b, mode == RIGHT_SINGLE ? right : right + i,
                     mode == RIGHT_SINGLE ? 1 : count);
        if (state->half_result) {
            float *result = mode == LEFT_SINGLE ? b : a;
            state->function(result, a, b, count, mode);
            rt_half_store(state->dtype, (uint16_t *)(void *)context->to + offsets[0] + i, result, count);
        } else {
            state->function(context->to + offsets[0] + i, a, b, count, mode);
        }
    }
}

static void run_row(void *user, const int64_t offsets[RT_LOOP_OPERANDS], int64_t length) {
    const binary_context *context = user;
    const binary_state *state = context->state;
    if (rt_is_half(state->dtype) && !state->power) {
        row_half(context, offsets, length, state->mode);
        return;
    }
    char *to = context->to + offsets[0] * (int64_t)state->to_size;
    const char *left = context->left + offsets[1] * (int64_t)state->left_size;
    const char *right = context->right + offsets[2] * (int64_t)state->right_size;
    if (state->power) {
        state->power(state->dtype, to, left, state->mode == LEFT_SINGLE ? 0 : 1, state->right_dtype, right,
                     state->mode == RIGHT_SINGLE ? 0 : 1, length);
    } else {
        state->function(to, left, right, length, state->mode);
    }
}

/* ---- what prepare chooses from ------------------------------------------------------------------------- */

static base_status run_single(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                              void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const binary_state *state = prepared->state;
    state->single(outputs[0].data, inputs[0].data, inputs[1].data);
    return BASE_OK;
}

static base_status run_flat(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                            void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const binary_state *state = prepared->state;
    state->function(outputs[0].data, inputs[0].data, inputs[1].data, state->count, state->mode);
    return BASE_OK;
}

static base_status run_loop(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                            void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const binary_state *state = prepared->state;
    binary_context context = {state, outputs[0].data, inputs[0].data, inputs[1].data};
    rt_loop_run(&state->loop, prepared->threads, state->work, run_row, &context);
    return BASE_OK;
}

/* ---- short rows ---------------------------------------------------------------------------------------- */

/* Innermost rows below this length, as of points that have three coordinates, are too short for a call each: what is broadcast is
 * written out, a block at a time, and a block is one row. */
enum { SHORT_ROW = 32, MOST_BLOCK = 1024, MOST_SIZE = 8 };

static void run_spread(void *user, int64_t begin, int64_t end) {
    const binary_context *context = user;
    const binary_state *state = context->state;
    const size_t sizes[] = {state->left_size, state->right_size};
    const char *from[] = {context->left, context->right}, *operands[2];
    _Alignas(RT_ALIGNMENT) char buffers[2][MOST_BLOCK * MOST_SIZE];
    for (int i = 0; i < 2; i++)
        if (state->repeats[i])
            rt_spread(&state->spreads[i], sizes[i], from[i], buffers[i], begin,
                      end - begin < state->block ? end - begin : state->block);
    while (begin < end) {
        const int64_t count = end - begin < state->block ? end - begin : state->block;
        for (int i = 0; i < 2; i++) {
            operands[i] = state->spread[i] ? buffers[i] : from[i] + begin * (int64_t)sizes[i];
            if (state->spread[i] && !state->repeats[i])
                rt_spread(&state->spreads[i], sizes[i], from[i], buffers[i], begin, count);
        }
        state->function(context->to + begin * (int64_t)state->to_size, operands[0], operands[1], count,
                        BOTH_RUN);
        begin += count;
    }
}

static base_status run_short(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                             void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const binary_state *state = prepared->state;
    binary_context context = {state, outputs[0].data, inputs[0].data, inputs[1].data};
    rt_parallel(prepared->threads, state->count, state->work, run_spread, &context);
    return BASE_OK;
}

/* How blocks of short rows are read: false where rows are not short. */
static bool set_spreads(binary_state *state, const op_call *call) {
    const op_shape *to = &call->outputs[0].type.shape;
    const int32_t last = state->loop.rank - 1;
    if (last == 0 || state->loop.dims[last] >= SHORT_ROW || state->left_size > MOST_SIZE ||
        state->right_size > MOST_SIZE || call->outputs[0].type.layout != OP_LAYOUT_ROW_MAJOR)
        return false;
    state->block = MOST_BLOCK;
    for (uint32_t i = 0; i < 2; i++) {
        const op_shape *shape = &call->inputs[i].type.shape;
        rt_loop_broadcast(&state->spreads[i], to, &shape, 1);
        const int64_t period = rt_spread_period(&state->spreads[i]);
        state->spread[i] = state->spreads[i].rank > 1 || state->spreads[i].strides[1][0] == 0;
        state->repeats[i] =
            state->spread[i] && period > 0 && period <= MOST_BLOCK / 4 && !(i == 1 && state->repeats[0]);
        if (state->repeats[i]) state->block = MOST_BLOCK / period * period;
    }
    return true;
}

/* ---- rows by themselves --------------------------------------------------------------------------------- */

static void run_rows(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs, int member,
                     int64_t begin, int64_t end) {
    (void)member;
    const binary_state *state = prepared->state;
    const int64_t each = state->count / prepared->rows.count;
    binary_context context = {state, outputs[0].data, inputs[0].data, inputs[1].data};
    if (prepared->run == run_short) {
        run_spread(&context, begin * each, end * each);
        return;
    }
    rt_loop some = state->loop;
    some.dims[0] = end - begin;
    context.to += begin * some.strides[0][0] * (int64_t)state->to_size;
    context.left += begin * some.strides[1][0] * (int64_t)state->left_size;
    context.right += begin * some.strides[2][0] * (int64_t)state->right_size;
    rt_loop_run(&some, 1, state->work, run_row, &context);
}

static rt_rows rows_of(const binary_state *state, const op_call *call) {
    const rt_loop *loop = &state->loop;
    rt_rows made = {.run = run_rows, .count = loop->dims[0], .work = state->count * state->work};
    for (uint32_t i = 0; i < 2; i++) {
        const int64_t stride = loop->strides[i + 1][0];
        if (stride && stride * made.count == rt_stored_elements(&call->inputs[i].type))
            made.inputs |= 1U << i;
    }
    return state->count > 1 ? made : (rt_rows){0};
}

/* ---- channels ------------------------------------------------------------------------------------------ */

/* One operand has an element for each channel (of each image, or of all): [N, C, 1, 1] beside [N, C, H, W] in blocks. Its
 * block, of which there are too few elements for a vector loop, is repeated as often as fits here. */
enum { REPEATED = 1024 };

typedef struct channels_state {
    binary_function *function;
    int64_t points, blocks, width; /* of a channel, of an image, elements of a block */
    int64_t count;                 /* points of all blocks of all images */
    int64_t of_image;              /* elements of the channels of one image; 0: they are those of all */
    bool left;                     /* channels are the left operand */
    op_dtype dtype;
} channels_state;

typedef struct channels_context {
    const channels_state *state;
    void *to;
    const void *full, *channels;
} channels_context;

static void apply_channels(const channels_state *state, float *to, const float *full, const float *channels,
                           int64_t count) {
    if (state->left) state->function(to, channels, full, count, BOTH_RUN);
    else state->function(to, full, channels, count, BOTH_RUN);
}

/* `count` elements from `at` on, beside as many channels. Of 16 bits: floats for a moment, REPEATED at a time. */
static void run_some(const channels_context *context, int64_t at, const float *channels, int64_t count) {
    const channels_state *state = context->state;
    if (state->dtype == OP_FLOAT) {
        apply_channels(state, (float *)context->to + at, (const float *)context->full + at, channels, count);
        return;
    }
    float full[REPEATED];
    for (int64_t i = 0; i < count; i += REPEATED) {
        const int64_t some = count - i < REPEATED ? count - i : REPEATED;
        rt_half_load(state->dtype, full, (const uint16_t *)context->full + at + i, some);
        apply_channels(state, full, full, channels + i, some);
        rt_half_store(state->dtype, (uint16_t *)context->to + at + i, full, some);
    }
}

/* Points from begin to end, of one block after another. */
static void run_points(void *user, int64_t begin, int64_t end) {
    const channels_context *context = user;
    const channels_state *state = context->state;
    const int64_t width = state->width;
    float repeated[REPEATED];
    while (begin < end) {
        const int64_t block = begin / state->points, left = (block + 1) * state->points - begin,
                      count = left < end - begin ? left : end - begin, most = REPEATED / width;
        const int64_t first = block / state->blocks * state->of_image + block % state->blocks * width;
        const float *channels = (const float *)context->channels + first;
        const int64_t times = most < 1 ? 1 : most < count ? most : count;
        if (state->dtype != OP_FLOAT) {
            channels = repeated;
            rt_half_load(state->dtype, repeated, (const uint16_t *)context->channels + first, width);
        }
        if (times > 1) {
            for (int64_t i = channels == repeated; i < times; i++)
                memcpy(repeated + i * width, channels, (size_t)width * sizeof *repeated);
            channels = repeated;
        }
        for (int64_t i = 0; i < count; i += times) {
            const int64_t some = count - i < times ? count - i : times;
            run_some(context, (begin + i) * width, channels, some * width);
        }
        begin += count;
    }
}

static base_status run_channels(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                                void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const channels_state *state = prepared->state;
    channels_context context = {state, outputs[0].data, inputs[state->left ? 1 : 0].data,
                                inputs[state->left ? 0 : 1].data};
    rt_parallel(prepared->threads, state->count, state->width, run_points, &context);
    return BASE_OK;
}

static int64_t block_of(op_layout layout, int64_t channels) {
    return layout == OP_LAYOUT_NHWC ? channels : op_layout_block(layout);
}

/* Input `part` has elements for channels only, as the other one and the output lie. Row-major, they lie so too, but for what
 * pads a block. */
static bool accepts_channels(const op_call *call, uint32_t part) {
    const op_type *channels = &call->inputs[part].type, *full = &call->inputs[1 - part].type,
                  *to = &call->outputs[0].type;
    const op_shape *shape = &to->shape;
    const int32_t missing = shape->rank - channels->shape.rank;
    if (call->code == OP_POW || channels->kind != OP_KIND_TENSOR ||
        (channels->dtype != OP_FLOAT && !rt_is_half(channels->dtype)) || full->dtype != channels->dtype ||
        to->dtype != channels->dtype || full->layout != to->layout || to->layout == OP_LAYOUT_ROW_MAJOR ||
        to->layout >= OP_LAYOUT_PACKED || shape->rank < 3 || !op_shape_known(shape) ||
        !op_shape_equal(&full->shape, shape) || (missing != 0 && missing != 1))
        return false;
    /* Channels of 16 bits become floats together. */
    if (channels->dtype != OP_FLOAT && block_of(to->layout, shape->dims[1]) > REPEATED) return false;
    const bool padded = shape->dims[1] % block_of(to->layout, shape->dims[1] ? shape->dims[1] : 1) != 0;
    for (int32_t d = missing; d < shape->rank; d++) {
        const int64_t extent = channels->shape.dims[d - missing];
        if (extent != (d == 1 ? shape->dims[1] : 1) && (d != 0 || extent != shape->dims[0])) return false;
    }
    if (channels->layout != to->layout && (channels->layout != OP_LAYOUT_ROW_MAJOR || padded)) return false;
    return !padded || rows[call->code].zeros_stay;
}

static base_status prepare_channels(const op_call *call, uint32_t part, base_arena *arena,
                                    rt_prepared *prepared, base_report *report) {
    const op_shape *shape = &call->outputs[0].type.shape, *channels = &call->inputs[part].type.shape;
    channels_state *state = BASE_NEW(arena, channels_state);
    if (!state) return base_fail_memory(report);
    state->function = find(call).function;
    state->left = part == 0;
    state->dtype = call->inputs[part].type.dtype;
    state->width = block_of(call->outputs[0].type.layout, shape->dims[1]);
    state->blocks = (shape->dims[1] + state->width - 1) / state->width;
    state->points = 1;
    for (int32_t d = 2; d < shape->rank; d++) state->points *= shape->dims[d];
    state->count = shape->dims[0] * state->blocks * state->points;
    if (channels->rank == shape->rank && channels->dims[0] != 1)
        state->of_image = state->blocks * state->width;
    prepared->state = state;
    prepared->run = run_channels;
    return BASE_OK;
}

/* ---- what is accepted ---------------------------------------------------------------------------------- */

/* An operand of one element may stand beside one in another layout: it lies the same way in all of them. */
static bool is_single(const op_tensor *tensor) {
    int64_t elements;
    return tensor->type.kind == OP_KIND_TENSOR && tensor->type.layout == OP_LAYOUT_ROW_MAJOR &&
           op_shape_elements(&tensor->type.shape, &elements) && elements == 1;
}

static bool accepts_single(const op_call *call, uint32_t single) {
    const op_type *other = &call->inputs[1 - single].type, *output = &call->outputs[0].type;
    if (output->layout == OP_LAYOUT_ROW_MAJOR || other->layout != output->layout ||
        !is_single(&call->inputs[single]) || !op_shape_equal(&other->shape, &output->shape)) {
        return false;
    }
    op_call one = *call;
    one.inputs = &call->inputs[1 - single];
    one.input_count = 1;
    return rt_accepts_layouts(&one, 1, false);
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    if (!find(call).function) return false;
    return rt_accepts_layouts(call, 2, rows[call->code].zeros_stay) || accepts_single(call, 0) ||
           accepts_single(call, 1) || accepts_channels(call, 0) || accepts_channels(call, 1);
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    const bool alike = rt_accepts_layouts(call, 2, true);
    for (uint32_t part = 0; !alike && part < 2; part++)
        if (accepts_channels(call, part)) return prepare_channels(call, part, arena, prepared, report);
    binary_state *state = BASE_NEW(arena, binary_state);
    if (!state) return base_fail_memory(report);
    const op_type *left = &call->inputs[0].type, *right = &call->inputs[1].type, *to = &call->outputs[0].type;
    binary_entry entry = find(call);
    state->function = entry.function;
    state->single = entry.single;
    state->dtype = left->dtype;
    state->right_dtype = right->dtype;
    state->half_result = rt_is_half(to->dtype);
    state->halves = rt_binary_halves(call->code, left->dtype);
    state->left_size = op_dtype_bytes(left->dtype);
    state->right_size = op_dtype_bytes(right->dtype);
    state->to_size = op_dtype_bytes(to->dtype);
    state->count = rt_stored_elements(to);
    state->work = call->code == OP_POW || call->code == OP_MOD ? 16 : 1;
    prepared->state = state;

    if (to->layout == OP_LAYOUT_ROW_MAJOR) {
        const op_shape *shapes[] = {&left->shape, &right->shape};
        rt_loop_broadcast(&state->loop, &to->shape, shapes, 2);
    } else {
        int64_t along_left = left->layout == to->layout, along_right = right->layout == to->layout;
        state->loop = (rt_loop){
            .rank = 1, .operands = 3, .dims = {state->count}, .strides = {{1}, {along_left}, {along_right}}};
    }
    const rt_loop *loop = &state->loop;
    int32_t last = loop->rank - 1;
    state->mode = loop->strides[1][last] == 0   ? LEFT_SINGLE
                  : loop->strides[2][last] == 0 ? RIGHT_SINGLE
                                                : BOTH_RUN;
    if (call->code == OP_POW) state->power = rt_power_select(left->dtype, right->dtype, &call->inputs[1]);

    bool direct = !rt_is_half(state->dtype) && !state->power;
    bool few = state->count < RT_PARALLEL_WORK / state->work || prepared->threads <= 1;
    if (direct && state->count == 1) prepared->run = run_single;
    else if (direct && set_spreads(state, call)) prepared->run = run_short;
    else if (direct && loop->rank == 1 && few) prepared->run = run_flat;
    else prepared->run = run_loop;
    prepared->rows = rows_of(state, call);
    return BASE_OK;
}

const rt_kernel rt_kernel_elementwise_binary = {
    .name = "portable.elementwise_binary", .accepts = accepts, .prepare = prepare};
