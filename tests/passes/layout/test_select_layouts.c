/* SPDX-License-Identifier: Apache-2.0 */
/* test_select_layouts.c: operators that take the layout of the convolutions beside them put no reorders between these, with the numbers of the
 * row-major kernels; also with extents that only a run knows. */
#include "tests/support/application.h"
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { LENGTH = 1 << 17 };

/* A constant of numbers that differ. */
static size_t append_constant(char *text, size_t at, const char *name, const char *type, int count) {
    at += (size_t)snprintf(text + at, LENGTH - at, " constant %%%s: %s = {", name, type);
    for (int i = 0; i < count; i++)
        at += (size_t)snprintf(text + at, LENGTH - at, "%s%g", i ? ", " : "", (i * 37 % 101 - 50) / 64.0);
    return at + (size_t)snprintf(text + at, LENGTH - at, "}\n");
}

static size_t count_reorders(const support_session *on) {
    const plan *of = rt_plan_of(on->plan);
    return support_count_kernel(of, "portable.reorder") + support_count_kernel(of, "onednn.reorder");
}

/* Runs the module on numbers of its own; `y` becomes what it gives. How many reorders there are, and nodes that run on this kernel. */
static size_t run(const char *text, bool portable, size_t inputs, float *y, size_t outputs,
                  const char *kernel, size_t *found) {
    const pass_options options = {.environment = {.threads = 1, .portable_only = portable}};
    float *x = test_malloc(inputs * sizeof *x);
    for (size_t i = 0; i < inputs; i++) x[i] = (float)(i * 29 % 97) / 48 - 1;
    support_session on;
    support_session_open_with(&on, text, &options);
    support_bind(&on, 0, x, inputs * sizeof *x);
    support_run(&on);
    memcpy(y, support_output(&on, 0, outputs * sizeof *y), outputs * sizeof *y);
    const size_t reorders = count_reorders(&on);
    *found = support_count_kernel(rt_plan_of(on.plan), kernel);
    support_session_close(&on);
    test_free(x);
    return reorders;
}

/* The module runs on `kernel` with so many reorders more than `other`, and gives what portable kernels give. */
static void check(const char *text, const char *other, size_t inputs, size_t outputs, size_t others,
                  const char *kernel) {
    float *y = test_malloc(outputs * sizeof *y), *want = test_malloc(outputs * sizeof *want);
    size_t found, none;
    run(text, true, inputs, want, outputs, kernel, &none);
    const size_t reorders = run(text, false, inputs, y, outputs, kernel, &found);
    for (size_t i = 0; i < outputs; i++)
        application_check_near((double)y[i], (double)want[i], 1e-4, 0, (int64_t)i);
    if (application_machine_is_wide()) {
        assert_int_equal(found, 1);
        size_t before = 0;
        float *ignored = test_malloc(others * sizeof *ignored);
        if (other) before = run(other, false, inputs, ignored, others, kernel, &none);
        test_free(ignored);
        assert_int_equal(reorders, before);
    }
    test_free(want);
    test_free(y);
}

/* Points, `between`, points. */
static char *make_points(const char *x, const char *first, const char *last, int rank, const char *between) {
    char *text = test_malloc(LENGTH), type[64];
    const char *ones = rank == 3 ? ",1,1,1" : ",1,1";
    size_t at = (size_t)snprintf(text, LENGTH, "module \"m\" {\n");
    snprintf(type, sizeof type, "float32[32,16%s]", ones);
    at = append_constant(text, at, "v", type, 32 * 16);
    snprintf(type, sizeof type, "float32[16,32%s]", ones);
    at = append_constant(text, at, "w", type, 16 * 32);
    at = append_constant(text, at, "each", "float32[32,1,3,3,3]", 32 * 27);
    at += (size_t)snprintf(text + at, LENGTH - at,
                           " graph main(%%x: %s) {\n %%a: %s = Conv(%%x, %%v)\n %s"
                           " %%y: %s = Conv(%%%s, %%w)\n yield %%y\n } }\n",
                           x, first, between, last, *between ? "b" : "a");
    assert_true(at < LENGTH);
    return text;
}

static void planes_of_each_channel_need_none(void **state) {
    (void)state;
    char *text = make_points("float32[1,16,5,12,9]", "float32[1,32,5,12,9]", "float32[1,16,5,12,9]", 3,
                             "%b: float32[1,32,5,12,9] = Conv(%a, %each) {group = 32, pads = [1, 1, 1, 1, 1, "
                             "1]}\n"),
         *other = make_points("float32[1,16,5,12,9]", "float32[1,32,5,12,9]", "float32[1,16,5,12,9]", 3, "");
    check(text, other, 16 * 540, 16 * 540, 16 * 540, "portable.depthwise");
    test_free(other);
    test_free(text);
}

static void responses_need_none(void **state) {
    (void)state;
    char *text = make_points("float32[2,16,12,9]", "float32[2,32,12,9]", "float32[2,16,12,9]", 2,
                             "%b: float32[2,32,12,9] = LRN(%a) {size = 5, alpha = 0.5}\n"),
         *other = make_points("float32[2,16,12,9]", "float32[2,32,12,9]", "float32[2,16,12,9]", 2, "");
    check(text, other, 2 * 16 * 108, 2 * 16 * 108, 2 * 16 * 108, "portable.lrn");
    test_free(other);
    test_free(text);
}

/* Ten channels lie innermost, thirty-two in blocks; few of them are read row-major. */
static void channels_are_reduced_where_they_lie(void **state) {
    (void)state;
    for (int channels = 10; channels <= 32; channels += 22) {
        char *text = test_malloc(LENGTH), type[64];
        size_t at = (size_t)snprintf(text, LENGTH, "module \"m\" {\n constant %%axes: int64[1] = {1}\n");
        snprintf(type, sizeof type, "float32[%d,2,3,3]", channels);
        at = append_constant(text, at, "w", type, channels * 18);
        snprintf(text + at, LENGTH - at,
                 " graph main(%%x: float32[2,2,12,9]) {\n"
                 " %%a: float32[2,%d,12,9] = Conv(%%x, %%w) {pads = [1, 1, 1, 1]}\n"
                 " %%y: float32[2,1,12,9] = ReduceMax(%%a, %%axes) {keepdims = 1}\n yield %%y\n } }\n",
                 channels);
        check(text, NULL, 2 * 2 * 108, 2 * 108, 1, "portable.reduce");
        test_free(text);
    }
}

/* What is made of a signal of one channel is row-major where that alone is wanted. */
static void signals_need_none(void **state) {
    (void)state;
    char *text = test_malloc(LENGTH);
    size_t at = (size_t)snprintf(text, LENGTH, "module \"m\" {\n");
    at = append_constant(text, at, "w", "float32[32,1,10]", 320);
    snprintf(text + at, LENGTH - at,
             " graph main(%%x: float32[2,1,105]) {\n"
             " %%y: float32[2,32,20] = Conv(%%x, %%w) {strides = [5]}\n yield %%y\n } }\n");
    check(text, NULL, 2 * 105, 2 * 32 * 20, 1, "portable.direct_convolution");
    test_free(text);
}

/* Extents that only a run knows. */
static void open_images_need_none(void **state) {
    (void)state;
    static const struct {
        const char *x, *between, *kernel;
        int rank;
        int64_t dims[5];
    } cases[] = {
        {"float32[?,16,?,9]", "%b: ? = LRN(%a) {size = 5, alpha = 0.5}\n", "portable.lrn", 2, {2, 16, 7, 9}},
        {"float32[1,16,?,7,9]",
         "%b: ? = Conv(%a, %each) {group = 32, pads = [1, 1, 1, 1, 1, 1]}\n",
         "portable.depthwise",
         3,
         {1, 16, 2, 7, 9}}};
    enum { COUNT = 2 * 16 * 7 * 9 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = make_points(cases[i].x, "?", "?", cases[i].rank, cases[i].between);
        float y[2][COUNT], x[COUNT];
        for (int k = 0; k < COUNT; k++) x[k] = (float)(k * 29 % 97) / 48 - 1;
        for (int portable = 0; portable < 2; portable++) {
            const pass_options options = {.environment = {.threads = 1, .portable_only = portable}};
            support_session on;
            ouro_error error;
            support_session_open_with(&on, text, &options);
            if (ouro_session_bind_input(on.session, 0, x, sizeof x, cases[i].dims, &error) != OURO_OK)
                fail_msg("%s", error.message);
            support_run(&on);
            memcpy(y[portable], support_output(&on, 0, sizeof x), sizeof x);
            if (!portable && application_machine_is_wide())
                assert_int_equal(support_count_kernel(rt_plan_of(on.plan), cases[i].kernel), 1);
            support_session_close(&on);
        }
        for (int k = 0; k < COUNT; k++) application_check_near((double)y[0][k], (double)y[1][k], 1e-4, 0, k);
        test_free(text);
    }
}

int main(int count, char **arguments) {
    support_arguments(count, arguments);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planes_of_each_channel_need_none), cmocka_unit_test(responses_need_none),
        cmocka_unit_test(channels_are_reduced_where_they_lie), cmocka_unit_test(open_images_need_none),
        cmocka_unit_test(signals_need_none)};
    return cmocka_run_group_tests_name("select_layouts", tests, NULL, NULL);
}
