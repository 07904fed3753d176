/* SPDX-License-Identifier: Apache-2.0 */
/* test_operators_elementwise.c: operators that work element by element, against references written from their
 * definition, one element at a time, in every type that they take. */
#include "tests/support/operators.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

static const op_dtype dtypes[] = {OP_FLOAT,  OP_DOUBLE, OP_FLOAT16, OP_BFLOAT16, OP_INT8,
                                  OP_INT16,  OP_INT32,  OP_INT64,   OP_UINT8,    OP_UINT16,
                                  OP_UINT32, OP_UINT64, OP_BOOL,    OP_STRING,   OP_COMPLEX64};
enum { DTYPES = sizeof dtypes / sizeof *dtypes, SEED = 20240611 };

/* Pairs of shapes and what they broadcast to follows from them. */
static const op_shape pairs[][2] = {
    {{.rank = 0}, {.rank = 0}},
    {{.rank = 1, .dims = {7}}, {.rank = 0}},
    {{.rank = 0}, {.rank = 2, .dims = {3, 5}}},
    {{.rank = 2, .dims = {3, 5}}, {.rank = 2, .dims = {3, 5}}},
    {{.rank = 3, .dims = {2, 3, 4}}, {.rank = 1, .dims = {4}}},
    {{.rank = 4, .dims = {2, 3, 2, 5}}, {.rank = 3, .dims = {3, 1, 1}}},
    {{.rank = 2, .dims = {6, 1}}, {.rank = 2, .dims = {1, 70}}},
    {{.rank = 3, .dims = {4, 3, 1}}, {.rank = 4, .dims = {2, 1, 3, 2}}},
    {{.rank = 2, .dims = {0, 3}}, {.rank = 1, .dims = {3}}},
    {{.rank = 2, .dims = {1, 3}}, {.rank = 2, .dims = {0, 3}}},
    {{.rank = 3, .dims = {2, 70, 300}}, {.rank = 3, .dims = {2, 70, 300}}},
    {{.rank = 2, .dims = {70, 600}}, {.rank = 2, .dims = {70, 1}}},
};
enum { PAIRS = sizeof pairs / sizeof *pairs };

/* The element of an input that is broadcast to element `flat` of a result of this shape. */
static int64_t broadcast_index(const op_shape *to, const op_shape *from, int64_t flat) {
    int64_t index = 0, stride = 1;
    for (int32_t i = to->rank - 1; i >= 0; i--) {
        int32_t own = i - (to->rank - from->rank);
        int64_t at = flat % to->dims[i];
        flat /= to->dims[i];
        if (own < 0) continue;
        if (from->dims[own] != 1) index += at * stride;
        stride *= from->dims[own];
    }
    return index;
}

static void assert_near(double got, double want, op_dtype dtype, const char *operator_name, double x) {
    double relative = dtype == OP_DOUBLE    ? 1e-14
                      : dtype == OP_FLOAT   ? 4e-7
                      : dtype == OP_FLOAT16 ? 1.0e-3
                                            : 8e-3;
    double least = dtype == OP_DOUBLE ? 1e-300 : dtype == OP_FLOAT16 ? 6e-8 : 1e-37;
    /* Beyond the range of the type is infinite. */
    if (dtype != OP_DOUBLE && dtype != OP_BOOL) want = (double)(float)want;
    if (dtype == OP_FLOAT16 && fabs(want) >= 65520) want = want < 0 ? (double)-INFINITY : (double)INFINITY;
    if (isnan(want) ? isnan(got) : got == want || fabs(got - want) <= relative * fabs(want) + least) return;
    fail_msg("%s of %.17g as %s is %.17g, expected %.17g", operator_name, x, op_dtype_name(dtype), got, want);
}

/* An integer cut to the bits of its type. */
static int64_t wrapped(uint64_t value, op_dtype dtype) {
    switch (dtype) {
    case OP_INT8:
        return (int8_t)(uint8_t)value;
    case OP_INT16:
        return (int16_t)(uint16_t)value;
    case OP_INT32:
        return (int32_t)(uint32_t)value;
    case OP_UINT8:
        return (uint8_t)value;
    case OP_UINT16:
        return (uint16_t)value;
    case OP_UINT32:
        return (uint32_t)value;
    case OP_BOOL:
        return value & 1;
    default:
        return (int64_t)value;
    }
}

static bool is_signed(op_dtype dtype) {
    return dtype == OP_INT8 || dtype == OP_INT16 || dtype == OP_INT32 || dtype == OP_INT64;
}

/* Values at which operators behave oddly, put at the front of a tensor that is long enough. */
static void add_edges(op_tensor *tensor) {
    static const double reals[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1e-40, -88.5, 90, 65504, -1, 1};
    int64_t count = test_elements(tensor);
    op_dtype dtype = tensor->type.dtype;
    if (count < 32) return;
    if (test_is_real(dtype)) {
        for (int64_t i = 0; i < 11; i++) test_set(tensor, i, reals[i]);
        return;
    }
    size_t size = op_dtype_bytes(dtype);
    if (dtype == OP_BOOL || size > 8) return;
    uint64_t lowest = is_signed(dtype) ? (uint64_t)1 << (8 * size - 1) : 0;
    uint64_t highest = lowest - 1; /* all ones where unsigned */
    const uint64_t edges[] = {lowest, highest, UINT64_MAX, 0, 1, lowest};
    for (size_t i = 0; i < 6; i++) memcpy((char *)tensor->data + i * size, &edges[i], size);
}

/* ---- one input ----------------------------------------------------------------------------------------- */

static double unary_real(op_code code, double x, double alpha) {
    switch (code) {
    case OP_ABS:
        return fabs(x);
    case OP_CEIL:
        return ceil(x);
    case OP_CLIP:
        return x < -1 ? -1 : x > 2 ? 2 : x;
    case OP_ERF:
        return erf(x);
    case OP_EXP:
        return exp(x);
    case OP_FLOOR:
        return floor(x);
    case OP_LOG:
        return log(x);
    case OP_NEG:
        return -x;
    case OP_RECIPROCAL:
        return 1 / x;
    case OP_RELU:
        return x < 0 ? 0 : x;
    case OP_LEAKY_RELU:
        return x < 0 ? alpha * x : x;
    case OP_SIGMOID:
        return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
    case OP_SQRT:
        return sqrt(x);
    case OP_TANH:
        return tanh(x);
    case OP_ACOS:
        return acos(x);
    case OP_ACOSH:
        return acosh(x);
    case OP_ASIN:
        return asin(x);
    case OP_ASINH:
        return asinh(x);
    case OP_ATAN:
        return atan(x);
    case OP_ATANH:
        return atanh(x);
    case OP_CELU:
        return x < 0 ? alpha * expm1(x / alpha) : x;
    case OP_COS:
        return cos(x);
    case OP_COSH:
        return cosh(x);
    case OP_ELU:
        return x < 0 ? alpha * expm1(x) : x;
    case OP_HARD_SIGMOID:
        return isnan(x) ? x : fmax(0, fmin(1, alpha * x + 0.5));
    case OP_HARD_SWISH:
        return isnan(x) ? x : x * fmax(0, fmin(1, x / 6 + 0.5));
    case OP_ROUND:
        return isinf(x) ? x : x - remainder(x, 1);
    case OP_SELU:
        return 1.05070102214813232421875 * (x < 0 ? alpha * expm1(x) : x);
    case OP_SIGN:
        return isnan(x) ? x : (x > 0) - (x < 0);
    case OP_SIN:
        return sin(x);
    case OP_SINH:
        return sinh(x);
    case OP_SOFTPLUS:
        return x > 700 ? x : log1p(exp(x));
    case OP_SOFTSIGN:
        return x / (1 + fabs(x));
    case OP_TAN:
        return tan(x);
    case OP_THRESHOLDED_RELU:
        return x > alpha ? x : 0;
    case OP_GELU:
        return 0.5 * x * erfc(-x * 0.70710678118654752440);
    case OP_SWISH:
        return x / (1 + exp(-alpha * x));
    case OP_MISH:
        return x > 40 ? x : x * tanh(log1p(exp(x)));
    default:
        fail_msg("no reference for operator %d", (int)code);
        return 0;
    }
}

/* What such a function gives is x times a number between 0 and 1, which has the error of a number near 1. */
static bool is_gate(op_code code) {
    return code == OP_GELU || code == OP_SWISH || code == OP_MISH;
}

static void assert_unary_near(op_code code, double got, double x, op_dtype dtype) {
    const double want = unary_real(code, x, 0.25), relative = dtype == OP_FLOAT ? 2e-7 : 4e-16;
    if (code == OP_SIGN && x == 0) assert_false(signbit(got)); /* of -0, too */
    if (is_gate(code) && (dtype == OP_FLOAT || dtype == OP_DOUBLE) && isfinite(want) &&
        fabs(got - want) <= relative * fabs(x))
        return;
    assert_near(got, want, dtype, op_schema_of(code)->name, x);
}

static int64_t unary_integer(op_code code, int64_t x, op_dtype dtype) {
    bool negative = is_signed(dtype) && x < 0;
    switch (code) {
    case OP_ABS:
        return wrapped(negative ? 0 - (uint64_t)x : (uint64_t)x, dtype);
    case OP_CLIP:
        if (is_signed(dtype)) return x < -1 ? -1 : x > 2 ? 2 : x;
        return (uint64_t)x > 2 ? 2 : x < 1 && x == 0 ? 1 : x;
    case OP_ERF:
        return (int64_t)erf(is_signed(dtype) ? (double)x : (double)(uint64_t)x);
    case OP_NEG:
        return wrapped(0 - (uint64_t)x, dtype);
    case OP_NOT:
        return !x;
    case OP_BITWISE_NOT:
        return wrapped(~(uint64_t)x, dtype);
    case OP_SIGN:
        return negative ? -1 : x != 0;
    case OP_RELU:
        return negative ? 0 : x;
    default:
        fail_msg("no integer reference for operator %d", (int)code);
        return 0;
    }
}

static void check_unary(op_code code, unsigned *in_place, test_random *random) {
    const op_schema *row = op_schema_of(code);
    int tried = 0;
    for (int k = 0; k < DTYPES; k++) {
        bool taken = true; /* a type that is not taken is tried once */
        for (int s = 0; s < PAIRS && taken; s++) {
            base_arena arena;
            base_arena_init(&arena, NULL);
            op_dtype dtype = dtypes[k];
            op_tensor inputs[3] = {test_tensor(&arena, dtype, &pairs[s][0])}, output = {0};
            test_fill(&inputs[0], random);
            add_edges(&inputs[0]);
            op_attribute alpha = {.name = "alpha", .kind = OP_ATTRIBUTE_FLOAT, .count = 1, .as.real = 0.25f};
            op_call call = {
                .code = code, .input_count = 1, .output_count = 1, .inputs = inputs, .outputs = &output};
            if (strstr(row->attributes, "alpha")) call.attributes = (op_attributes){1, &alpha};
            if (code == OP_CLIP) {
                op_shape scalar = {.rank = 0};
                call.input_count = 3;
                inputs[1] = test_tensor(&arena, dtype, &scalar);
                inputs[2] = test_tensor(&arena, dtype, &scalar);
                test_set(&inputs[1], 0, is_signed(dtype) || test_is_real(dtype) ? -1 : 1);
                test_set(&inputs[2], 0, 2);
            }
            base_report report = {0};
            base_status status = test_apply(&call, &arena, in_place, &report);
            if (status == BASE_OK) {
                tried++;
                assert_int_equal(output.type.dtype, dtype);
                for (int64_t i = 0, count = test_elements(&output); i < count; i++) {
                    if (test_is_real(dtype)) {
                        double x = test_real(&inputs[0], i);
                        assert_unary_near(code, test_real(&output, i), x, dtype);
                    } else {
                        int64_t x = test_integer(&inputs[0], i);
                        assert_int_equal(test_integer(&output, i), unary_integer(code, x, dtype));
                    }
                }
            } else {
                taken = false;
                assert_int_equal(status, BASE_INVALID);
                assert_non_null(strstr(report.text, op_dtype_name(dtype)));
            }
            base_arena_free(&arena);
        }
    }
    assert_true(tried >= PAIRS);
}

/* Every float, coarsely: the vectorised functions are within 3 units in the last place. */
static void test_accuracy(void **state) {
    (void)state;
    static const op_code codes[] = {OP_EXP,      OP_LOG,  OP_TANH,  OP_SIGMOID, OP_ERF,   OP_ELU,
                                    OP_SOFTPLUS, OP_ACOS, OP_ACOSH, OP_ASIN,    OP_ASINH, OP_ATAN,
                                    OP_ATANH,    OP_COS,  OP_COSH,  OP_SIN,     OP_SINH,  OP_TAN};
    enum { COUNT = 1 << 20 };
    base_arena arena;
    base_arena_init(&arena, NULL);
    op_tensor input = test_coarse_floats(&arena, COUNT);
    for (size_t k = 0; k < sizeof codes / sizeof *codes; k++) {
        op_tensor output = {0};
        op_call call = {
            .code = codes[k], .input_count = 1, .output_count = 1, .inputs = &input, .outputs = &output};
        base_report report = {0};
        assert_int_equal(test_apply(&call, &arena, NULL, &report), BASE_OK);
        for (int64_t i = 0; i < COUNT; i++) {
            double x = test_real(&input, i), want = unary_real(codes[k], x, 1);
            float nearest = (float)want, got = ((const float *)output.data)[i];
            if (isnan(want) ? isnan(got) : got == nearest) continue;
            double unit = (double)nextafterf(fabsf(nearest), INFINITY) - fabs((double)nearest);
            if (fabs((double)got - want) > 3 * unit) {
                fail_msg("%s(%.9g) is %.9g, expected %.9g", op_schema_of(codes[k])->name, x, (double)got,
                         want);
            }
        }
    }
    base_arena_free(&arena);
}

/* ---- two inputs ---------------------------------------------------------------------------------------- */

static double binary_real(op_code code, double x, double y) {
    switch (code) {
    case OP_ADD:
        return x + y;
    case OP_SUB:
        return x - y;
    case OP_MUL:
        return x * y;
    case OP_DIV:
        return x / y;
    case OP_POW:
        return pow(x, y);
    case OP_MIN:
        return isnan(x) || isnan(y) ? (double)NAN : x < y ? x : y;
    case OP_MAX:
        return isnan(x) || isnan(y) ? (double)NAN : x > y ? x : y;
    case OP_MOD:
        return fmod(x, y);
    case OP_PRELU:
        return x < 0 ? x * y : x;
    case OP_EQUAL:
        return x == y;
    case OP_LESS:
        return x < y;
    case OP_GREATER:
        return x > y;
    case OP_LESS_OR_EQUAL:
        return x <= y;
    case OP_GREATER_OR_EQUAL:
        return x >= y;
    default:
        fail_msg("no reference for operator %d", (int)code);
        return 0;
    }
}

static int64_t power(int64_t x, int64_t y) {
    uint64_t result = 1;
    if (y < 0) return x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;
    for (int64_t i = 0; i < (y & 127); i++) result *= (uint64_t)x;
    return (int64_t)result;
}

/* 128 bits hold every operand and every exact result. */
static int64_t binary_integer(op_code code, int64_t a, int64_t b, op_dtype dtype, bool fmod_form) {
    __extension__ typedef __int128 wide;
    wide x = is_signed(dtype) ? (wide)a : (wide)(uint64_t)a,
         y = is_signed(dtype) ? (wide)b : (wide)(uint64_t)b;
    switch (code) {
    case OP_ADD:
        return wrapped((uint64_t)(x + y), dtype);
    case OP_SUB:
        return wrapped((uint64_t)(x - y), dtype);
    case OP_MUL:
        return wrapped((uint64_t)a * (uint64_t)b, dtype);
    case OP_DIV:
        return y == 0 ? 0 : wrapped((uint64_t)(x / y), dtype);
    case OP_POW:
        return wrapped((uint64_t)power(a, b), dtype);
    case OP_MIN:
        return x < y ? a : b;
    case OP_MAX:
        return x > y ? a : b;
    case OP_MOD: {
        if (y == 0) return 0;
        wide rest = x % y;
        if (!fmod_form && rest != 0 && (rest < 0) != (y < 0)) rest += y;
        return wrapped((uint64_t)rest, dtype);
    }
    case OP_PRELU:
        return x < 0 ? wrapped((uint64_t)a * (uint64_t)b, dtype) : a;
    case OP_AND:
        return a && b;
    case OP_OR:
        return a || b;
    case OP_XOR:
        return !a != !b;
    case OP_BITWISE_AND:
        return a & b;
    case OP_BITWISE_OR:
        return a | b;
    case OP_BITWISE_XOR:
        return a ^ b;
    case OP_EQUAL:
        return x == y;
    case OP_LESS:
        return x < y;
    case OP_GREATER:
        return x > y;
    case OP_LESS_OR_EQUAL:
        return x <= y;
    case OP_GREATER_OR_EQUAL:
        return x >= y;
    default:
        fail_msg("no integer reference for operator %d", (int)code);
        return 0;
    }
}

static void check_binary(op_code code, unsigned *in_place, test_random *random) {
    const op_schema *row = op_schema_of(code);
    int tried = 0;
    for (int k = 0; k < DTYPES; k++) {
        for (int s = 0; s < 2 * PAIRS; s++) {
            base_arena arena;
            base_arena_init(&arena, NULL);
            op_dtype dtype = dtypes[k];
            bool fmod_form = code == OP_MOD && (test_is_real(dtype) || s % 2);
            op_attribute attribute = {
                .name = "fmod", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = fmod_form};
            op_tensor inputs[2] = {test_tensor(&arena, dtype, &pairs[s / 2][s % 2]),
                                   test_tensor(&arena, dtype, &pairs[s / 2][1 - s % 2])},
                      output = {0};
            test_fill(&inputs[0], random);
            test_fill(&inputs[1], random);
            add_edges(&inputs[0]);
            if (code != OP_POW) add_edges(&inputs[1]);
            op_call call = {
                .code = code, .input_count = 2, .output_count = 1, .inputs = inputs, .outputs = &output};
            if (code == OP_MOD) call.attributes = (op_attributes){1, &attribute};
            base_report report = {0};
            base_status status = test_apply(&call, &arena, in_place, &report);
            if (status == BASE_OK) {
                tried++;
                for (int64_t i = 0, count = test_elements(&output); i < count; i++) {
                    int64_t left = broadcast_index(&output.type.shape, &inputs[0].type.shape, i);
                    int64_t right = broadcast_index(&output.type.shape, &inputs[1].type.shape, i);
                    if (dtype == OP_STRING) {
                        const op_string *x = (const op_string *)inputs[0].data + left,
                                        *y = (const op_string *)inputs[1].data + right;
                        const bool same = x->length == y->length && strncmp(x->data, y->data, x->length) == 0;
                        assert_int_equal(((const uint8_t *)output.data)[i], same);
                    } else if (test_is_real(dtype)) {
                        double x = test_real(&inputs[0], left), y = test_real(&inputs[1], right);
                        double want = binary_real(code, x, y);
                        if (dtype != OP_DOUBLE) want = (double)(float)want;
                        assert_near(test_real(&output, i), want,
                                    output.type.dtype == OP_BOOL ? OP_DOUBLE : dtype, row->name, x);
                    } else {
                        assert_int_equal(test_integer(&output, i),
                                         binary_integer(code, test_integer(&inputs[0], left),
                                                        test_integer(&inputs[1], right), dtype, fmod_form));
                    }
                }
            } else {
                assert_int_equal(status, BASE_INVALID);
                if (code != OP_PRELU && !strstr(report.text, op_dtype_name(dtype)))
                    fail_msg("%s of %s: %s", row->name, op_dtype_name(dtype), report.text);
            }
            base_arena_free(&arena);
        }
    }
    assert_true(tried >= PAIRS);
}

static void test_power_mixed(void **state) {
    (void)state;
    test_random random = {SEED};
    const op_dtype bases[] = {OP_FLOAT, OP_DOUBLE, OP_FLOAT16, OP_BFLOAT16, OP_INT32, OP_INT64};
    const op_shape shape = {.rank = 2, .dims = {3, 50}}, single = {.rank = 0};
    for (size_t b = 0; b < sizeof bases / sizeof *bases; b++) {
        for (int k = 0; k < 12; k++) {
            base_arena arena;
            base_arena_init(&arena, NULL);
            op_tensor inputs[2] = {test_tensor(&arena, bases[b], &shape),
                                   test_tensor(&arena, dtypes[k], k % 2 ? &shape : &single)},
                      output = {0};
            test_fill(&inputs[0], &random);
            for (int64_t i = 0; i < test_elements(&inputs[1]); i++) test_set(&inputs[1], i, (double)(i % 4));
            if (k % 2 == 0) test_set(&inputs[1], 0, 2);
            op_call call = {
                .code = OP_POW, .input_count = 2, .output_count = 1, .inputs = inputs, .outputs = &output};
            base_report report = {0};
            assert_int_equal(test_apply(&call, &arena, NULL, &report), BASE_OK);
            assert_int_equal(output.type.dtype, bases[b]);
            for (int64_t i = 0; i < test_elements(&output); i++) {
                double want = pow(test_real(&inputs[0], i), test_real(&inputs[1], k % 2 ? i : 0));
                assert_near(test_real(&output, i), want, bases[b], "Pow", test_real(&inputs[0], i));
            }
            base_arena_free(&arena);
        }
    }
}

/* ---- Where, Cast --------------------------------------------------------------------------------------- */

static void check_where(op_code code, unsigned *in_place, test_random *random) {
    for (int k = 0; k < DTYPES; k++) {
        for (int s = 0; s < 6 * PAIRS; s++) {
            static const int orders[6][3] = {{0, 1, 0}, {1, 0, 0}, {0, 0, 1},
                                             {1, 1, 0}, {0, 1, 1}, {1, 0, 1}};
            const op_shape *shapes = pairs[s / 6];
            base_arena arena;
            base_arena_init(&arena, NULL);
            op_tensor inputs[3], output = {0};
            for (int i = 0; i < 3; i++) {
                inputs[i] = test_tensor(&arena, i ? dtypes[k] : OP_BOOL, &shapes[orders[s % 6][i]]);
                test_fill(&inputs[i], random);
            }
            op_call call = {
                .code = code, .input_count = 3, .output_count = 1, .inputs = inputs, .outputs = &output};
            base_report report = {0};
            assert_int_equal(test_apply(&call, &arena, in_place, &report), BASE_OK);
            size_t size = op_dtype_bytes(dtypes[k]);
            for (int64_t i = 0, count = test_elements(&output); i < count; i++) {
                const op_shape *to = &output.type.shape;
                bool yes = test_integer(&inputs[0], broadcast_index(to, &inputs[0].type.shape, i)) != 0;
                const op_tensor *from = &inputs[yes ? 1 : 2];
                int64_t at = broadcast_index(to, &from->type.shape, i);
                assert_memory_equal((char *)output.data + (size_t)i * size,
                                    (char *)from->data + (size_t)at * size, size);
            }
            base_arena_free(&arena);
        }
    }
}

/* A real as an integer: truncated, cut to the range. The limits are powers of two, exact in double. */
static int64_t cut(double x, op_dtype to) {
    int bits = (int)(8 * op_dtype_bytes(to));
    if (isnan(x)) return 0;
    double high = ldexp(1, is_signed(to) ? bits - 1 : bits), low = is_signed(to) ? -high : 0;
    x = trunc(x);
    if (x <= low) return is_signed(to) ? (int64_t)low : 0;
    if (x >= high) return wrapped(is_signed(to) ? ((uint64_t)1 << (bits - 1)) - 1 : UINT64_MAX, to);
    return to == OP_UINT64 ? (int64_t)(uint64_t)x : (int64_t)x;
}

static void check_cast(op_code code, unsigned *in_place, test_random *random) {
    const op_shape shape = {.rank = 2, .dims = {60, 600}}, small = {.rank = 1, .dims = {40}},
                   none = {.rank = 1};
    for (int f = 0; f < 13; f++) {
        for (int t = 0; t < 13; t++) {
            base_arena arena;
            base_arena_init(&arena, NULL);
            op_dtype from = dtypes[f], to = dtypes[t];
            const op_shape *shapes[] = {&small, &none, &shape};
            for (int s = 0; s < 3; s++) {
                op_tensor input = test_tensor(&arena, from, shapes[s]), output = {0};
                test_fill(&input, random);
                add_edges(&input);
                if (test_is_real(from) && s == 0) {
                    const double others[] = {1.9,  -1.9,    127.5, 128,           -128.9,        255.9,
                                             256,  3e9,     -3e9,  1e19,          2e19,          -1e19,
                                             5e-8, 65519.9, 65520, 1.00048828125, 1.00146484375, 3.4e38};
                    for (int64_t i = 0; i < 18; i++) test_set(&input, 12 + i, others[i]);
                }
                op_attribute attribute = {
                    .name = "to", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = to};
                op_call call = {.code = code,
                                .attributes = {1, &attribute},
                                .input_count = 1,
                                .output_count = 1,
                                .inputs = &input,
                                .outputs = &output};
                base_report report = {0};
                assert_int_equal(test_apply(&call, &arena, in_place, &report), BASE_OK);
                assert_int_equal(output.type.dtype, to);
                op_tensor want = test_tensor(&arena, to, shapes[s]);
                for (int64_t i = 0, count = test_elements(&input); i < count; i++) {
                    double x = test_real(&input, i);
                    if (to == OP_BOOL) {
                        assert_int_equal(test_integer(&output, i), x != 0);
                    } else if (!test_is_real(to)) {
                        int64_t whole =
                            test_is_real(from) ? cut(x, to) : wrapped((uint64_t)test_integer(&input, i), to);
                        assert_int_equal(test_integer(&output, i), whole);
                    } else {
                        /* The nearest number of the target type, exactly. */
                        test_set(&want, i, x);
                        if (to == OP_FLOAT && (from == OP_INT64))
                            ((float *)want.data)[i] = (float)test_integer(&input, i);
                        if (to == OP_FLOAT && (from == OP_UINT64))
                            ((float *)want.data)[i] = (float)(uint64_t)test_integer(&input, i);
                        double got = test_real(&output, i), expected = test_real(&want, i);
                        if (isnan(expected) ? !isnan(got)
                                            : got != expected || signbit(got) != signbit(expected)) {
                            fail_msg("%s %.17g as %s is %.17g, expected %.17g", op_dtype_name(from), x,
                                     op_dtype_name(to), got, expected);
                        }
                    }
                }
            }
            base_arena_free(&arena);
        }
    }
}

static void test_cast_strings(void **state) {
    (void)state;
    static const char *const texts[] = {"0.1", "-3", "1e+20", "NaN", "-INF", "16777216", "0"};
    enum { COUNT = sizeof texts / sizeof *texts };
    const double values[COUNT] = {0.1, -3, 1e20, NAN, -INFINITY, 16777216, 0};
    base_arena arena;
    base_arena_init(&arena, NULL);
    op_shape shape = {.rank = 1, .dims = {COUNT}};
    op_tensor numbers = test_tensor(&arena, OP_FLOAT, &shape), strings = {0}, again = {0};
    for (int i = 0; i < COUNT; i++) test_set(&numbers, i, values[i]);
    op_attribute to = {.name = "to", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = OP_STRING};
    op_call call = {.code = OP_CAST,
                    .attributes = {1, &to},
                    .input_count = 1,
                    .output_count = 1,
                    .inputs = &numbers,
                    .outputs = &strings};
    base_report report = {0};
    assert_int_equal(test_apply(&call, &arena, NULL, &report), BASE_OK);
    for (int i = 0; i < COUNT; i++) {
        const op_string *text = &((const op_string *)strings.data)[i];
        assert_int_equal(text->length, strlen(texts[i]));
        assert_memory_equal(text->data, texts[i], text->length);
    }
    to.as.integer = OP_DOUBLE;
    call.inputs = &strings;
    call.outputs = &again;
    assert_int_equal(test_apply(&call, &arena, NULL, &report), BASE_OK);
    for (int i = 0; i < COUNT; i++)
        assert_true(isnan(values[i]) ? isnan(test_real(&again, i)) : test_real(&again, i) == values[i]);

    static const char *const wrong[] = {"", "1x", "300", "-1", " ", "1.5"};
    to.as.integer = OP_UINT8;
    shape.dims[0] = 1;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        op_tensor text = test_tensor(&arena, OP_STRING, &shape), number = {0};
        *(op_string *)text.data = (op_string){wrong[i], strlen(wrong[i])};
        call.inputs = &text;
        call.outputs = &number;
        base_report_clear(&report);
        assert_int_equal(test_apply(&call, &arena, NULL, &report), BASE_INVALID);
        assert_non_null(strstr(report.text, "expected a number of type uint8"));
    }
    base_arena_free(&arena);
}

/* ---- layouts: padding stays zero ----------------------------------------------------------------------- */

static op_tensor blocked(base_arena *arena, op_layout layout, int64_t channels, test_random *random) {
    op_type type = {.dtype = OP_FLOAT, .layout = layout, .shape = {.rank = 4, .dims = {2, channels, 3, 2}}};
    size_t bytes = 0;
    assert_true(op_type_bytes(&type, &bytes));
    op_shape flat = {.rank = 1, .dims = {(int64_t)(bytes / 4)}};
    op_tensor tensor = test_tensor(arena, OP_FLOAT, &flat);
    tensor.type = type;
    int64_t block = layout == OP_LAYOUT_NC8 ? 8 : layout == OP_LAYOUT_NC16 ? 16 : channels;
    for (int64_t i = 0; i < flat.dims[0]; i++) {
        int64_t blocks = (channels + block - 1) / block,
                channel = i / (block * 6) % blocks * block + i % block;
        if (channel < channels) ((float *)tensor.data)[i] = (float)(test_random_below(random, 19) - 9);
    }
    return tensor;
}

static void test_layouts(void **state) {
    (void)state;
    test_random random = {SEED};
    const rt_environment environment = {.threads = 1, .portable_only = true};
    const op_layout layouts[] = {OP_LAYOUT_NC8, OP_LAYOUT_NC16, OP_LAYOUT_NHWC};
    for (int code = 1; code < OP_CODE_COUNT; code++) {
        const op_schema *row = op_schema_of((op_code)code);
        bool two = row->infer == op_infer_elementwise_binary || row->infer == op_infer_compare;
        if ((!two && row->infer != op_infer_elementwise_unary) || code == OP_NOT || code == OP_AND ||
            code == OP_OR || code == OP_XOR || strncmp(row->name, "Bitwise", 7) == 0) {
            continue;
        }
        for (int l = 0; l < 6; l++) {
            base_arena arena;
            base_arena_init(&arena, NULL);
            int64_t channels = l % 2 ? 16 : 5;
            op_layout layout = layouts[l / 2];
            op_tensor inputs[2] = {blocked(&arena, layout, channels, &random),
                                   blocked(&arena, layout, channels, &random)};
            op_tensor output = {0};
            op_attribute attribute = {.name = "fmod", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = 1};
            bool alpha = strstr(row->attributes, "alpha") != NULL;
            if (alpha) {
                attribute =
                    (op_attribute){.name = "alpha", .kind = OP_ATTRIBUTE_FLOAT, .count = 1, .as.real = 0.25f};
            }
            op_call call = {.code = (op_code)code,
                            .attributes = {code == OP_MOD || alpha, &attribute},
                            .input_count = two ? 2 : 1,
                            .output_count = 1,
                            .inputs = inputs,
                            .outputs = &output,
                            .arena = &arena};
            base_report report = {0};
            assert_int_equal(op_infer(&call, &report), BASE_OK);
            assert_int_equal(output.type.layout, layout);
            bool padded = channels == 5 && layout != OP_LAYOUT_NHWC;
            bool accepted = rt_kernel_select(&call, &environment) != NULL;
            assert_true(accepted || padded);
            if (accepted) {
                assert_int_equal(rt_kernel_evaluate(&call, &environment, &arena, &report), BASE_OK);
                int64_t block = layout == OP_LAYOUT_NC8 ? 8 : layout == OP_LAYOUT_NC16 ? 16 : channels;
                int64_t count = (int64_t)(inputs[0].bytes / 4), blocks = (channels + block - 1) / block;
                for (int64_t i = 0; i < count; i++) {
                    double x = test_real(&inputs[0], i), y = two ? test_real(&inputs[1], i) : 0;
                    bool outside = i / (block * 6) % blocks * block + i % block >= channels;
                    double want = outside ? 0 : two ? binary_real((op_code)code, x, y) : 0;
                    if (!outside && !two) want = code == OP_CLIP ? x : unary_real((op_code)code, x, 0.25);
                    if (!outside && is_gate((op_code)code)) {
                        assert_unary_near((op_code)code, test_real(&output, i), x, OP_FLOAT);
                        continue;
                    }
                    assert_near(test_real(&output, i), want,
                                output.type.dtype == OP_BOOL ? OP_BOOL : OP_FLOAT, row->name, x);
                }
            }
            base_arena_free(&arena);
        }
    }
}

/* ---- the table ----------------------------------------------------------------------------------------- */

typedef void check_function(op_code code, unsigned *in_place, test_random *random);

/* What checks the operators of a shape function. */
static check_function *check_of(const op_schema *row) {
    if (row->infer == op_infer_elementwise_unary) return check_unary;
    if (row->infer == op_infer_elementwise_binary || row->infer == op_infer_compare) return check_binary;
    if (row->infer == op_infer_where) return check_where;
    if (row->infer == op_infer_cast) return check_cast;
    return NULL;
}

/* Every operator of these families is checked, and in place over every input that its row names; a new row
 * without a reference fails in the reference. */
static void test_table(void **state) {
    (void)state;
    test_random random = {SEED};
    printf("seed %d\n", SEED);
    int checked = 0;
    for (int code = 1; code < OP_CODE_COUNT; code++) {
        const op_schema *row = op_schema_of((op_code)code);
        check_function *check = check_of(row);
        if (!check) continue;
        unsigned in_place = 0;
        check((op_code)code, &in_place, &random);
        if (in_place != row->in_place)
            fail_msg("%s: in place was tried for %x of %x", row->name, in_place, row->in_place);
        checked++;
    }
    assert_true(checked >= 34);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),       cmocka_unit_test(test_accuracy),
        cmocka_unit_test(test_power_mixed), cmocka_unit_test(test_cast_strings),
        cmocka_unit_test(test_layouts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
