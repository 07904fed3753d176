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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
