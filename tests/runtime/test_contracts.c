/* SPDX-License-Identifier: Apache-2.0 */
/* test_contracts.c: a plan made for any machine gives the bits of the formulas; another one, on the same kernels, may round a product and its sum
 * once, and says so; one operator and several as one give the same then, too. */
#include "runtime/kernels/portable/vector_math.h"
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { COUNT = 1000 };

/* Exp alone, and among steps that become one. */
static const char *const text =
    "module \"m\" {\n"
    "graph main(%x: float32[1000]) {\n"
    " %y: float32[1000] = Exp(%x)\n"
    " %n: float32[1000] = Neg(%x) %a: float32[1000] = Abs(%n) %s: float32[1000] = Neg(%a)\n"
    " %z: float32[1000] = Exp(%s)\n"
    " yield %y, %z } }\n";

static void run(bool portable, const float *x, float *y, float *z) {
    const pass_options options = {.environment = {.threads = 1, .portable_only = portable}};
    support_session on;
    support_session_open_with(&on, text, &options);
    const plan_header *header = rt_plan_of(on.plan)->header;
    assert_int_equal(header->contracts, !portable);
    assert_string_equal(header->machine, "portable"); /* all kernels are */
    support_bind(&on, 0, x, COUNT * sizeof *x);
    support_run(&on);
    memcpy(y, support_output(&on, 0, COUNT * sizeof *y), COUNT * sizeof *y);
    memcpy(z, support_output(&on, 1, COUNT * sizeof *z), COUNT * sizeof *z);
    support_session_close(&on);
}

static void test_plans_for_any_machine_give_the_formulas(void **state) {
    (void)state;
    float x[COUNT], y[COUNT], z[COUNT];
    for (int i = 0; i < COUNT; i++) x[i] = -0.05f * (float)i;
    run(true, x, y, z);
    for (int i = 0; i < COUNT; i++) {
        const float want = rt_exp(x[i]);
        assert_memory_equal(&y[i], &want, sizeof want);
    }
    assert_memory_equal(y, z, sizeof y);
}

static void test_other_plans_are_near(void **state) {
    (void)state;
    float x[COUNT], y[COUNT], z[COUNT];
    for (int i = 0; i < COUNT; i++) x[i] = -0.05f * (float)i;
    run(false, x, y, z);
    for (int i = 0; i < COUNT; i++) {
        const double want = exp((double)x[i]);
        assert_true(fabs((double)y[i] - want) <= 1.2e-7 * want);
    }
    assert_memory_equal(y, z, sizeof y);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans_for_any_machine_give_the_formulas),
        cmocka_unit_test(test_other_plans_are_near),
    };
    return cmocka_run_group_tests_name("contracts", tests, NULL, NULL);
}
