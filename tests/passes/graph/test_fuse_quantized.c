/* SPDX-License-Identifier: Apache-2.0 */
/* test_fuse_quantized.c: quantised operators compute what their reals do, rounded: a Conv with bias and Relu, and a product, which
 * stays in 32 bits until it is a real. And their weights stay bytes. */
#include "tests/support/plan.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char *const text =
    "module \"quantized\" {\n"
    "  constant %s: float32[] = {0.5} constant %z: int8[] = {-128} constant %t: float32[] = {0.125}\n"
    "  constant %ws: float32[2] = {0.25, 0.5} constant %wz: int8[2] = {0, 1}\n"
    "  constant %w: int8[2,1,1,1] = {1, -2} constant %b: int32[2] = {30, 40} constant %bs: float32[2] = "
    "{0.125, 0.25}\n"
    "  constant %m: int8[3,2] = {1, 2, 3, -4, 5, 6} constant %shape: int64[2] = {4, 3}\n"
    "  graph main(%x: int8[1,1,2,3]) {\n"
    "    %xr: float32[1,1,2,3] = DequantizeLinear(%x, %s, %z)\n"
    "    %wr: float32[2,1,1,1] = DequantizeLinear(%w, %ws, %wz) {axis = 0}\n"
    "    %br: float32[2] = DequantizeLinear(%b, %bs) {axis = 0}\n"
    "    %c: float32[1,2,2,3] = Conv(%xr, %wr, %br)\n"
    "    %r: float32[1,2,2,3] = Relu(%c)\n"
    "    %q: int8[1,2,2,3] = QuantizeLinear(%r, %t, %z)\n"
    "    %d: float32[1,2,2,3] = DequantizeLinear(%q, %s, %z)\n"
    "    %f: float32[4,3] = Reshape(%d, %shape)\n"
    "    %mr: float32[3,2] = DequantizeLinear(%m, %ws, %wz) {axis = 1}\n"
    "    %fq: int8[4,3] = QuantizeLinear(%f, %s, %z)\n"
    "    %fd: float32[4,3] = DequantizeLinear(%fq, %s, %z)\n"
    "    %p: float32[4,2] = MatMul(%fd, %mr)\n"
    "    %y: float32[4,2] = Add(%p, %br)\n"
    "    yield %y, %q } }\n";

static bool has_operator(const plan *of, const char *name) {
    for (uint64_t n = 0; n < of->header->nodes.count; n++) {
        if (strcmp(of->texts + of->nodes[n].operator_name, name) == 0) return true;
    }
    return false;
}

static void test_numbers(void **state) {
    (void)state;
    static const int8_t x[6] = {-128, -100, -1, 0, 60, 127}, w[2] = {1, -2},
                        m[3][2] = {{1, 2}, {3, -4}, {5, 6}};
    static const double ws[2] = {0.25, 0.5}, wz[2] = {0, 1}, bias[2] = {30 * 0.125, 40 * 0.25};
    support_session on;
    support_session_open(&on, text, 1);
    const plan *of = rt_plan_of(on.plan);
    assert_true(has_operator(of, "QLinearConv"));
    assert_true(has_operator(of, "MatMulInteger"));
    assert_false(has_operator(of, "Conv"));
    assert_false(has_operator(of, "MatMul"));
    support_bind(&on, 0, x, sizeof x);
    support_run(&on);
    const int8_t *q = support_output(&on, 1, 12);
    double reals[12];
    for (int i = 0; i < 12; i++) {
        const int c = i / 6;
        double value = 0.5 * (x[i % 6] + 128) * ws[c] * (w[c] - wz[c]) + bias[c];
        if (value < 0) value = 0;
        value = nearbyint(value / 0.125) - 128;
        assert_int_equal(q[i], value > 127 ? 127 : (int)value);
        reals[i] = 0.5 * (q[i] + 128);
    }
    const float *y = support_output(&on, 0, 8 * sizeof(float));
    for (int i = 0; i < 8; i++) {
        double sum = bias[i % 2];
        for (int k = 0; k < 3; k++) sum += reals[i / 2 * 3 + k] * ws[i % 2] * (m[k][i % 2] - wz[i % 2]);
        assert_true(fabs(y[i] - sum) <= 1e-5 * (1 + fabs(sum)));
    }
    support_session_close(&on);
}

/* Two activations, of which one is turned after it was dequantised, and cut; the product is quantised. */
static const char *const activations = "module \"activations\" {\n"
                                       "  constant %s: float32[] = {0.5} constant %z: int8[] = {-3} constant "
                                       "%t: float32[] = {2} constant %u: uint8[] = {100}\n"
                                       "  constant %shape: int64[3] = {2, 4, 3} constant %one: int64[1] = "
                                       "{1} constant %three: int64[1] = {3} constant %two: int64[1] = {2}\n"
                                       "  constant %ys: float32[] = {0.25} constant %yz: uint8[] = {7}\n"
                                       "  graph main(%x: int8[2,3,5], %w: uint8[8,3]) {\n"
                                       "    %xr: float32[2,3,5] = DequantizeLinear(%x, %s, %z)\n"
                                       "    %xt: float32[2,5,3] = Transpose(%xr) {perm = [0, 2, 1]}\n"
                                       "    %wr: float32[8,3] = DequantizeLinear(%w, %ys, %yz)\n"
                                       "    %ww: float32[2,4,3] = Reshape(%wr, %shape)\n"
                                       "    %wt: float32[2,3,4] = Transpose(%ww) {perm = [0, 2, 1]}\n"
                                       "    %wc: float32[2,3,2] = Slice(%wt, %one, %three, %two)\n"
                                       "    %p: float32[2,5,2] = MatMul(%xt, %wc)\n"
                                       "    %q: uint8[2,5,2] = QuantizeLinear(%p, %t, %u)\n"
                                       "    yield %q } }\n";

static void test_activations(void **state) {
    (void)state;
    int8_t x[2][3][5];
    uint8_t w[8][3];
    for (int i = 0; i < 30; i++) (&x[0][0][0])[i] = (int8_t)(i * 37 % 251 - 120);
    for (int i = 0; i < 24; i++) (&w[0][0])[i] = (uint8_t)(i * 53 % 256);
    support_session on;
    support_session_open(&on, activations, 1);
    const plan *of = rt_plan_of(on.plan);
    assert_true(has_operator(of, "QLinearMatMul"));
    assert_false(has_operator(of, "DequantizeLinear"));
    assert_false(has_operator(of, "MatMul"));
    support_bind(&on, 0, x, sizeof x);
    support_bind(&on, 1, w, sizeof w);
    support_run(&on);
    const uint8_t *q = support_output(&on, 0, 20);
    for (int i = 0; i < 20; i++) {
        const int image = i / 10, row = i / 2 % 5, column = 1 + i % 2;
        double sum = 0;
        for (int k = 0; k < 3; k++)
            sum += 0.5 * (x[image][k][row] + 3) * 0.25 * (w[image * 4 + column][k] - 7);
        sum = nearbyint(sum / 2) + 100;
        assert_int_equal(q[i], sum < 0 ? 0 : sum > 255 ? 255 : (int)sum);
    }
    support_session_close(&on);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers), cmocka_unit_test(test_activations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
