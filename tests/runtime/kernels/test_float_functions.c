/* SPDX-License-Identifier: Apache-2.0 */
/* test_float_functions.c: exp, erf, Gelu and the like: each form that a machine may have gives the bits of the formula, in vectors and for
 * the last elements of a row. */
#include "runtime/kernels/portable/activation.h"
#include "runtime/kernels/portable/elementwise_unary.h"
#include "runtime/kernels/portable/pieces.h"
#include "runtime/kernels/portable/vector_math.h"
#include "tests/support/operators.h"
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static float formula(op_code code, float x) {
    switch (code) {
    case OP_EXP:
        return rt_exp(x);
    case OP_SIGMOID:
        return rt_sigmoid(x);
    case OP_SWISH:
        return rt_swish(x, 1.0f);
    case OP_TANH:
        return rt_tanh(x);
    case OP_LOG:
        return rt_log(x);
    default:
        return (x > 0.0f ? x : 0.0f) + rt_log_plus_one(rt_exp(-rt_absolute(x)));
    }
}

/* Every float, coarsely: the forms for single instruction sets give the bits of the formula. */
static void test_formulas(void **state) {
    (void)state;
    static const op_code codes[] = {OP_EXP, OP_SIGMOID, OP_SWISH, OP_TANH, OP_LOG, OP_SOFTPLUS};
    enum { COUNT = (1 << 20) - 5 };
    base_arena arena;
    base_arena_init(&arena, NULL);
    op_tensor input = test_coarse_floats(&arena, COUNT);
    const float *x = input.data;
    for (size_t k = 0; k < sizeof codes / sizeof *codes; k++) {
        op_tensor output = {0};
        op_call call = {
            .code = codes[k], .input_count = 1, .output_count = 1, .inputs = &input, .outputs = &output};
        base_report report = {0};
        assert_int_equal(test_apply(&call, &arena, NULL, &report), BASE_OK);
        for (int64_t i = 0; i < COUNT; i++) {
            const float got = ((const float *)output.data)[i];
            const float want = formula(codes[k], x[i]);
            if (isnan(want) ? !isnan(got) : memcmp(&got, &want, sizeof got) != 0)
                fail_msg("%s(%.9g) is %.9g, the formula gives %.9g", op_schema_of(codes[k])->name,
                         (double)x[i], (double)got, (double)want);
        }
    }
    base_arena_free(&arena);
}

/* Every float, coarsely, with the forms of erf and Gelu for each instruction set beside each other, in vectors and one by one; Gelu's errors, too. */
static void test_pieces(void **state) {
    (void)state;
    enum { COUNT = (1 << 20) - 5, SOME = 77 };
    base_arena arena;
    base_arena_init(&arena, NULL);
    const op_shape shape = {.rank = 1, .dims = {COUNT}};
    const op_tensor input = test_coarse_floats(&arena, COUNT), made = test_tensor(&arena, OP_FLOAT, &shape),
                    other = test_tensor(&arena, OP_FLOAT, &shape);
    const float *x = input.data;
    float *y = made.data, *z = other.data;
    for (int code = RT_PIECES_ERF; code <= RT_PIECES_GELU_TANH; code++) {
        rt_pieces_form((rt_pieces_code)code, RT_PIECES_PORTABLE)(y, x, COUNT);
        for (int width = RT_PIECES_AVX2; width <= RT_PIECES_AVX512; width++) {
            rt_pieces_function *form = rt_pieces_form((rt_pieces_code)code, (rt_pieces_width)width);
            if (!form) continue;
            form(z, x, COUNT);
            for (int64_t i = 0; i < COUNT; i++)
                assert_true(memcmp(&y[i], &z[i], sizeof *y) == 0 || (isnan(y[i]) && isnan(z[i])));
            for (int count = 1; count < SOME; count++) {
                const float *from = x + COUNT / 2 - count;
                z[count] = 7;
                form(z, from, count);
                assert_memory_equal(z, y + COUNT / 2 - count, (size_t)count * sizeof *z);
                assert_true(z[count] == 7);
            }
        }
    }
    rt_gelu_floats(y, x, COUNT);
    rt_gelu_tanh_floats(z, x, COUNT);
    for (int64_t i = 0; i < COUNT; i++) {
        const double a = (double)x[i], exact = 0.5 * a * erfc(-a / sqrt(2.0)),
                     by_tanh = a / (1 + exp(-1.5957691216057308 * (a + 0.044715 * a * a * a)));
        if (isnan(x[i])) {
            assert_true(isnan(y[i]) && isnan(z[i]));
        } else if (isinf(x[i])) {
            assert_true(x[i] < 0 ? isnan(y[i]) && isnan(z[i]) : y[i] == x[i] && z[i] == x[i]);
        } else {
            assert_true(fabs((double)y[i] - exact) <= 6e-9 * (x[i] < -6) + 8e-7 * fabs(exact) + 1e-45);
            assert_true(fabs((double)z[i] - by_tanh) <= (x[i] < -5.7f ? 1e-5 : 8e-7) * fabs(by_tanh) + 1e-36);
        }
    }
    base_arena_free(&arena);
}

/* What the function of this operator is. */
static double exact(op_code code, double x) {
    switch (code) {
    case OP_EXP:
        return exp(x);
    case OP_SIGMOID:
        return 1 / (1 + exp(-x));
    case OP_SWISH:
        return x / (1 + exp(-x));
    case OP_TANH:
        return tanh(x);
    default:
        return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
    }
}

/* Every float, coarsely, where products and their sums may be rounded once: next to the exact result, and no further than where each is rounded,
 * or by one and a half units in the last place where the formula is another (Softplus);
 * a NaN stays one, infinities have their limits. */
static void test_contracted(void **state) {
    (void)state;
    static const op_code codes[] = {OP_EXP, OP_SIGMOID, OP_SWISH, OP_TANH, OP_SOFTPLUS};
    enum { COUNT = (1 << 20) - 5 };
    base_arena arena;
    base_arena_init(&arena, NULL);
    const op_shape shape = {.rank = 1, .dims = {COUNT}};
    const op_tensor input = test_coarse_floats(&arena, COUNT), made = test_tensor(&arena, OP_FLOAT, &shape);
    const rt_unary_parameters parameters = {.alpha = 1};
    const float *x = input.data;
    float *y = made.data;
    for (size_t k = 0; k < sizeof codes / sizeof *codes; k++) {
        double worst[2] = {0};
        for (int contracted = 0; contracted < 2; contracted++) {
            rt_unary_function *form = rt_unary_512(codes[k], contracted);
            if (!form) continue; /* only with AVX-512 is there a choice */
            form(y, x, COUNT, &parameters);
            for (int64_t i = 0; i < COUNT; i++) {
                const double want = exact(codes[k], (double)x[i]), error = fabs((double)y[i] - want);
                if (isnan(want)) {
                    assert_true(isnan(y[i]));
                } else if (isinf(want) || fabs(want) > (double)FLT_MAX) {
                    assert_true(isinf(y[i]) && (y[i] > 0) == (want > 0));
                } else if (fabs(want) > 0x1p-126) {
                    worst[contracted] = fmax(worst[contracted], error / fabs(want));
                } else {
                    assert_true(error <= 0x1p-126);
                }
            }
        }
        print_message("%s: %.3g where each is rounded, %.3g contracted\n", op_schema_of(codes[k])->name,
                      worst[0], worst[1]);
        const double most = codes[k] == OP_SOFTPLUS ? 1.5 * 0x1p-23 : 1.1 * worst[0];
        assert_true(worst[1] <= 1e-5 && worst[1] <= most); /* Swish of -88 is tiny */
    }
    base_arena_free(&arena);
}

/* The last elements of a row, which pass through a full vector, get the same bits as each by itself. */
static void test_tails(void **state) {
    (void)state;
    static const op_code codes[] = {OP_EXP, OP_LOG, OP_ERF, OP_SIGMOID, OP_TANH};
    test_random random = {77};
    base_arena arena;
    base_arena_init(&arena, NULL);
    for (size_t c = 0; c < sizeof codes / sizeof *codes; c++) {
        for (int count = 1; count <= 40; count++) {
            base_report report = {0};
            const op_shape row = test_shape(1, count), scalar = test_shape(0);
            op_tensor x = test_tensor(&arena, OP_FLOAT, &row), y = {0};
            test_fill(&x, &random);
            op_call call = {
                .code = codes[c], .input_count = 1, .output_count = 1, .inputs = &x, .outputs = &y};
            assert_int_equal(test_apply(&call, &arena, NULL, &report), BASE_OK);
            for (int i = 0; i < count; i++) {
                op_tensor one = test_tensor(&arena, OP_FLOAT, &scalar), alone = {0};
                memcpy(one.data, (const float *)x.data + i, sizeof(float));
                call.inputs = &one;
                call.outputs = &alone;
                assert_int_equal(test_apply(&call, &arena, NULL, &report), BASE_OK);
                assert_memory_equal(alone.data, (const float *)y.data + i, sizeof(float));
            }
        }
    }
    base_arena_free(&arena);
}

/* What follows convolutions: near the exact numbers everywhere, in any number of elements, with any slope; infinities and NaN. */
static void test_fused_gates(void **state) {
    (void)state;
    enum { COUNT = 2003 };
    static const rt_activation gates[] = {{RT_ACTIVATION_SIGMOID, 0, 0},
                                          {RT_ACTIVATION_SWISH, 1, 0},
                                          {RT_ACTIVATION_SWISH, 1.702f, 0},
                                          {RT_ACTIVATION_SWISH, -0.5f, 0}};
    float data[COUNT];
    for (size_t g = 0; g < sizeof gates / sizeof *gates; g++) {
        for (int i = 0; i < COUNT; i++) data[i] = (float)(i - COUNT / 2) * 0.15f;
        rt_activation_fused(&gates[g], data, COUNT);
        for (int i = 0; i < COUNT; i++) {
            const float x = (float)(i - COUNT / 2) * 0.15f;
            const double expected = rt_activation_value(&gates[g], (double)x);
            assert_true(fabs((double)data[i] - expected) <= 1e-30 + 2e-6 * fabs(expected));
        }
        static const float given[] = {INFINITY, -INFINITY, NAN, 1e30f, -1e30f, 0.0f};
        float odd[6];
        memcpy(odd, given, sizeof odd);
        const double slope = gates[g].kind == RT_ACTIVATION_SWISH ? (double)gates[g].alpha : 1;
        rt_activation_fused(&gates[g], odd, 6);
        assert_true(isnan(odd[2]));
        /* An infinity times no gate at all is no number, but where a gate is never quite shut. */
        for (int i = 0; i < 6; i++)
            assert_true(!isnan(odd[i]) || isnan(rt_activation_value(&gates[g], (double)given[i])));
        const double far = gates[g].kind == RT_ACTIVATION_SWISH ? 1e30 : 1;
        assert_true((double)odd[slope > 0 ? 3 : 4] == (slope > 0 ? 1 : -1) * (double)(float)far);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_formulas), cmocka_unit_test(test_contracted),
                                       cmocka_unit_test(test_pieces), cmocka_unit_test(test_tails),
                                       cmocka_unit_test(test_fused_gates)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
