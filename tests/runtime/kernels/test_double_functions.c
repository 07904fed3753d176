/* SPDX-License-Identifier: Apache-2.0 */
/* test_double_functions.c: exp, log, tanh, sine and the like in double: the kernels give the bits of the formulas, in vectors and for the last
 * elements of a row, and these are next to the exact results over the whole range. */
#include "runtime/kernels/portable/vector_doubles.h"
#include "tests/support/operators.h"
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

typedef long double exact_function(long double);
typedef double formula_function(double);

#define FORMULA(name, expression)                                                                            \
    static double name##_formula(double x) {                                                                 \
        return expression;                                                                                   \
    }
FORMULA(exp, rt_exp_double(x))
FORMULA(log, rt_log_double(x))
FORMULA(tanh, rt_tanh_double(x))
FORMULA(sigmoid, rt_sigmoid_double(x))
FORMULA(softplus, rt_softplus_double(x))
FORMULA(elu, x < 0 ? rt_elu_double(x) : x)
FORMULA(swish, rt_swish_double(x, 1.0))
FORMULA(mish, rt_mish_double(x))
FORMULA(sinh, rt_sinh_double(x))
FORMULA(cosh, rt_cosh_double(x))
FORMULA(sin, fabs(x) <= RT_LONG_ANGLE_LIMIT ? rt_sin_double(x) : sin(x))
FORMULA(cos, fabs(x) <= RT_LONG_ANGLE_LIMIT ? rt_cos_double(x) : cos(x))
FORMULA(tan, fabs(x) <= RT_LONG_ANGLE_LIMIT ? rt_tan_double(x) : tan(x))

#define EXACT(name, expression)                                                                              \
    static long double name##_exact(long double x) {                                                         \
        return expression;                                                                                   \
    }
EXACT(exp, expl(x))
EXACT(log, logl(x))
EXACT(tanh, tanhl(x))
EXACT(sigmoid, x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x)))
EXACT(softplus, (x > 0 ? x : 0) + log1pl(expl(-fabsl(x))))
EXACT(elu, x < 0 ? expm1l(x) : x)
EXACT(swish, x / (1 + expl(-x)))
EXACT(mish, x > 40 ? x : x * (expl(x) * (expl(x) + 2)) / (expl(x) * (expl(x) + 2) + 2))
EXACT(sinh, sinhl(x))
EXACT(cosh, coshl(x))
EXACT(sin, sinl(x))
EXACT(cos, cosl(x))
EXACT(tan, tanl(x))

static const struct {
    op_code code;
    formula_function *formula;
    exact_function *exact;
    double units; /* in the last place */
} functions[] = {
    {OP_EXP, exp_formula, exp_exact, 1},
    {OP_LOG, log_formula, log_exact, 1},
    {OP_TANH, tanh_formula, tanh_exact, 2},
    {OP_SIGMOID, sigmoid_formula, sigmoid_exact, 2},
    {OP_SOFTPLUS, softplus_formula, softplus_exact, 2},
    {OP_ELU, elu_formula, elu_exact, 1.2},
    {OP_SWISH, swish_formula, swish_exact, 2.5},
    {OP_MISH, mish_formula, mish_exact, 4.5},
    {OP_SINH, sinh_formula, sinh_exact, 2},
    {OP_COSH, cosh_formula, cosh_exact, 1.5},
    {OP_SIN, sin_formula, sin_exact, 1},
    {OP_COS, cos_formula, cos_exact, 1},
    {OP_TAN, tan_formula, tan_exact, 1.2},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions, COUNT = (1 << 18) - 3 };

/* Numbers of every magnitude, of those that functions bend at, next to quarters of a turn and to the ends of exp, and odd ones. */
static void fill(double *x, int64_t count) {
    static const double odd[] = {0.0,
                                 -0.0,
                                 (double)INFINITY,
                                 -(double)INFINITY,
                                 (double)NAN,
                                 0x1p-1074,
                                 -0x1p-1074,
                                 0x1p-1022,
                                 -0x1p-1022,
                                 DBL_MAX,
                                 -DBL_MAX,
                                 1.0,
                                 -1.0,
                                 709.782712893384,
                                 709.7827128933841,
                                 -708.4,
                                 -744.44,
                                 -745.1332191019411,
                                 -745.1332191019412,
                                 710.4758600739439,
                                 710.475860073944,
                                 RT_LONG_ANGLE_LIMIT,
                                 -RT_LONG_ANGLE_LIMIT,
                                 1048577.0};
    test_random random = {31};
    for (int64_t i = 0; i < count; i++) {
        const uint64_t drawn = test_random_next(&random);
        const double part = (double)(drawn >> 11) * 0x1p-53; /* from 0 to 1 */
        rt_long_word word = {.bits = drawn};
        switch (i % 5) {
        case 0:
            x[i] = word.real;
            break;
        case 1:
            x[i] = 4 * part - 2;
            break;
        case 2:
            x[i] = 1500 * part - 750;
            break;
        case 3:
            x[i] = ldexp(part - 0.5, (int)(drawn % 60) - 40);
            break;
        default:
            x[i] = nextafter((double)(drawn % 400000) * 1.5707963267948966, i % 2 ? 0 : 1e9);
            break;
        }
    }
    memcpy(x, odd, sizeof odd);
}

static void apply(op_code code, base_arena *arena, op_tensor *input, op_tensor *output) {
    base_report report = {0};
    *output = (op_tensor){0};
    op_call call = {.code = code, .input_count = 1, .output_count = 1, .inputs = input, .outputs = output};
    assert_int_equal(test_apply(&call, arena, NULL, &report), BASE_OK);
}

static void test_bits(void **state) {
    (void)state;
    base_arena arena;
    base_arena_init(&arena, NULL);
    const op_shape shape = test_shape(1, COUNT);
    op_tensor input = test_tensor(&arena, OP_DOUBLE, &shape), output;
    double *x = input.data;
    fill(x, COUNT);
    for (int k = 0; k < FUNCTIONS; k++) {
        apply(functions[k].code, &arena, &input, &output);
        const double *y = output.data;
        for (int64_t i = 0; i < COUNT; i++) {
            const double want = functions[k].formula(x[i]);
            if (isnan(want) ? !isnan(y[i]) : memcmp(&y[i], &want, sizeof want) != 0)
                fail_msg("%s(%.17g) is %.17g, the formula gives %.17g", op_schema_of(functions[k].code)->name,
                         x[i], y[i], want);
        }
    }
    base_arena_free(&arena);
}

/* Each number of elements that leaves some over. */
static void test_tails(void **state) {
    (void)state;
    base_arena arena;
    base_arena_init(&arena, NULL);
    for (int k = 0; k < FUNCTIONS; k++) {
        for (int count = 1; count <= 20; count++) {
            const op_shape shape = test_shape(1, count);
            op_tensor input = test_tensor(&arena, OP_DOUBLE, &shape), output;
            for (int i = 0; i < count; i++) ((double *)input.data)[i] = 0.37 * i - 3.3;
            apply(functions[k].code, &arena, &input, &output);
            for (int i = 0; i < count; i++) {
                const double want = functions[k].formula(0.37 * i - 3.3);
                const double got = ((const double *)output.data)[i];
                assert_true(memcmp(&got, &want, sizeof want) == 0 || (isnan(got) && isnan(want)));
            }
        }
    }
    base_arena_free(&arena);
}

/* Half the distance of doubles about `value` is half a unit. */
static double unit_of(long double value) {
    int exponent;
    frexpl(value, &exponent);
    return ldexp(1.0, exponent > -1021 ? exponent - 53 : -1074);
}

/* Against the C library in long double; where that is no more than a double, it may be one unit off itself. */
static void test_exact(void **state) {
    (void)state;
    const double more = LDBL_MANT_DIG > DBL_MANT_DIG ? 0 : 1;
    static double x[COUNT];
    fill(x, COUNT);
    for (int k = 0; k < FUNCTIONS; k++) {
        double worst = 0;
        for (int64_t i = 0; i < COUNT; i++) {
            const double got = functions[k].formula(x[i]), rounded = (double)functions[k].exact(x[i]);
            const long double want = functions[k].exact(x[i]);
            if (isnan(want)) {
                assert_true(isnan(got));
            } else if (isinf(rounded) || isinf(got)) {
                /* Sums that end next to the largest number may go beyond it. */
                assert_true(got == rounded || fabsl(want) > (long double)DBL_MAX * (1 - 0x1p-51L));
            } else if ((functions[k].code == OP_SWISH || functions[k].code == OP_MISH) && x[i] < -700) {
                assert_true(fabs(got) < 1e-300); /* an exponential is infinite, or has few digits left */
            } else if (want != 0) {
                const double error = (double)(fabsl((long double)got - want) / unit_of(want));
                worst = fmax(worst, error);
                if (error > functions[k].units + more)
                    fail_msg("%s(%.17g) is %.17g, %.3g units off", op_schema_of(functions[k].code)->name,
                             x[i], got, error);
            } else {
                assert_true(got == 0);
            }
            if (rounded == 0 && x[i] == 0) assert_true(!signbit(got) == !signbit(rounded));
        }
        print_message("%s: at most %.3f units\n", op_schema_of(functions[k].code)->name, worst);
    }
}

/* The slope of Celu and the two numbers of Selu, and Gelu by tanh: against what the C library gives. */
static void test_others(void **state) {
    (void)state;
    for (int i = -4000; i <= 4000; i++) {
        const double x = i * 0.01, z = 1.5957691216057308 * (x + 0.044715 * x * x * x);
        const double want = x / (1 + exp(-z)), got = rt_gelu_by_tanh_double(x);
        assert_true(fabs(got - want) <= 4e-16 * fabs(want));
        assert_true(fabs(rt_swish_double(x, 1.702) - x / (1 + exp(-1.702 * x))) <= 1e-15 * fabs(x));
        if (x <= 0) assert_true(fabs(rt_elu_double(x) - expm1(x)) <= 4e-16 * fabs(expm1(x)));
        if (x >= 0 && x <= 1) assert_true(fabs(rt_log_plus_one_double(x) - log1p(x)) <= 4e-16 * log1p(x));
    }
}

/* Pow of floats, of any number of pairs and of one number with many: all that C says of special numbers, elsewhere next to the exact power. */
static void test_powers(void **state) {
    (void)state;
    static const float odd[] = {0.0f,      -0.0f,          1,          -1,    2,        -2,        3,
                                -3,        0.5f,           -0.5f,      1.5f,  INFINITY, -INFINITY, NAN,
                                0x1p-149f, -0x1p-149f,     7,          1e10f, -1e10f,   16777215,  -16777216,
                                FLT_MAX,   0x1.fffffep-1f, -1.0000001f};
    enum { ODD = sizeof odd / sizeof *odd };
    test_random random = {77};
    base_arena arena;
    base_arena_init(&arena, NULL);
    for (int i = 0; i < 400; i++) {
        const int count = i < 60 ? i + 1 : 1 + (int)test_random_below(&random, 700), mode = i % 3;
        const op_shape shape = test_shape(1, count), single = test_shape(1, 1);
        op_tensor inputs[2] = {test_tensor(&arena, OP_FLOAT, mode == 1 ? &single : &shape),
                               test_tensor(&arena, OP_FLOAT, mode == 2 ? &single : &shape)};
        for (int side = 0; side < 2; side++) {
            for (int64_t k = 0; k < test_elements(&inputs[side]); k++) {
                const int64_t drawn = test_random_below(&random, 1 << 24);
                float *to = (float *)inputs[side].data + k;
                if (i % 2) *to = odd[drawn % ODD];
                else *to = side ? (float)(drawn - (1 << 23)) * 0x1p-20f : (float)drawn * 0x1p-20f;
            }
        }
        op_tensor output = {0};
        op_call call = {
            .code = OP_POW, .input_count = 2, .output_count = 1, .inputs = inputs, .outputs = &output};
        base_report report = {0};
        assert_int_equal(test_apply(&call, &arena, NULL, &report), BASE_OK);
        for (int64_t k = 0; k < count; k++) {
            const float x = ((const float *)inputs[0].data)[mode == 1 ? 0 : k],
                        y = ((const float *)inputs[1].data)[mode == 2 ? 0 : k],
                        got = ((const float *)output.data)[k];
            const double want = pow((double)x, (double)y);
            const float rounded = (float)want;
            /* One exponent of -1 or of a half has a formula of its own. */
            const double slack = ldexp(1, -24) * 1.01 * fabs(want) + 0x1p-149;
            if (isnan(rounded) ? !isnan(got)
                               : !(got == rounded || fabs((double)got - want) <= slack) ||
                                     !signbit(got) != !signbit(rounded))
                fail_msg("pow(%a, %a) is %a, expected %a", (double)x, (double)y, (double)got, want);
        }
    }
    base_arena_free(&arena);
}

/* Softmax and LogSoftmax of rows and columns of doubles: beside sums made one after the other, in long double. */
static void test_softmax(void **state) {
    (void)state;
    test_random random = {5};
    base_arena arena;
    base_arena_init(&arena, NULL);
    for (int extent = 1; extent <= 40; extent++) {
        for (int inner = 1; inner <= 70; inner += 23) {
            for (int logarithm = 0; logarithm < 2; logarithm++) {
                const op_shape shape = test_shape(3, 2, extent, inner);
                op_tensor x = test_tensor(&arena, OP_DOUBLE, &shape), y = {0};
                test_fill(&x, &random);
                op_attribute axis = {
                    .name = "axis", .kind = OP_ATTRIBUTE_INT, .count = 1, .as = {.integer = 1}};
                op_call call = {.code = logarithm ? OP_LOG_SOFTMAX : OP_SOFTMAX,
                                .input_count = 1,
                                .output_count = 1,
                                .inputs = &x,
                                .outputs = &y,
                                .attributes = {.count = 1, .items = &axis}};
                base_report report = {0};
                assert_int_equal(test_apply(&call, &arena, NULL, &report), BASE_OK);
                for (int column = 0; column < 2 * inner; column++) {
                    const int at = column / inner * extent * inner + column % inner;
                    const double *from = (const double *)x.data + at, *to = (const double *)y.data + at;
                    long double sum = 0, most = -INFINITY;
                    for (int i = 0; i < extent; i++) most = fmaxl(most, from[i * inner]);
                    for (int i = 0; i < extent; i++) sum += expl(from[i * inner] - most);
                    for (int i = 0; i < extent; i++) {
                        const long double shifted = from[i * inner] - most,
                                          want = logarithm ? shifted - logl(sum) : expl(shifted) / sum;
                        assert_true(fabsl(to[i * inner] - want) <= 1e-15L * (1 + fabsl(want)));
                    }
                }
            }
        }
    }
    base_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bits),   cmocka_unit_test(test_tails),
                                       cmocka_unit_test(test_exact),  cmocka_unit_test(test_others),
                                       cmocka_unit_test(test_powers), cmocka_unit_test(test_softmax)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
