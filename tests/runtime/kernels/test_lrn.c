/* SPDX-License-Identifier: Apache-2.0 */
/* test_lrn.c: LRN in every layout beside sums in double: sizes below and above the channels, even ones, powers of each kind, ranks, several
 * images; the same bits for all layouts and threads; zeros where blocks are padded, whatever lies beside; numbers without end; what is
 * refused.
 */
#include "tests/support/application.h"
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

enum { ROUNDS = 150 };

static const op_layout layouts[] = {OP_LAYOUT_ROW_MAJOR, OP_LAYOUT_NC16, OP_LAYOUT_NHWC};

static const rt_kernel *kernel(void) {
    return rt_kernel_of(OP_LRN, "portable.lrn");
}

typedef struct numbers {
    int64_t size;
    float alpha, beta, bias;
} numbers;

static void draw(application *app, numbers *drawn, uint64_t *seed) {
    static const float betas[] = {0.75f, 0.5f, 1, 0.6f};
    const int64_t dims[] = {random_range(seed, 1, 3),
                            random_range(seed, 0, 2) ? random_range(seed, 1, 70)
                                                     : random_range(seed, 500, 530),
                            random_range(seed, 1, 23), random_range(seed, 1, 9), random_range(seed, 1, 3)};
    *drawn =
        (numbers){.size = random_range(seed, 0, 3) ? random_range(seed, 1, 8) : random_range(seed, 9, 90),
                  .alpha = random_range(seed, 0, 1) ? 1e-4f : 2,
                  .beta = betas[random_range(seed, 0, 3)],
                  .bias = random_range(seed, 0, 1) ? 1 : 0.3f};
    application_init(app, OP_LRN);
    float *x = application_random(app, OP_FLOAT, (int32_t)random_range(seed, 3, 5), dims, seed);
    int64_t count;
    assert_true(op_shape_elements(&app->inputs[0].type.shape, &count));
    for (int64_t i = 0; i < count; i++) x[i] *= 20;
    application_integer(app, "size", drawn->size);
    application_real(app, "alpha", drawn->alpha);
    application_real(app, "beta", drawn->beta);
    application_real(app, "bias", drawn->bias);
    assert_int_equal(application_infer(app), BASE_OK);
}

/* What the kernel makes of the image in this layout, as row-major again. */
static op_tensor run(application *app, op_layout layout, int threads, bool portable) {
    const rt_environment environment = {.threads = threads, .portable_only = portable};
    const op_tensor plain_x = app->inputs[0], plain_y = app->outputs[0];
    op_tensor x = application_reordered(app, &plain_x, layout), y = plain_y;
    y.type.layout = layout;
    assert_true(op_type_bytes(&y.type, &y.bytes));
    y.data = application_memory(app, y.bytes);
    memset(y.data, 0x7f, y.bytes);
    app->inputs[0] = x;
    app->outputs[0] = y;
    assert_true(kernel()->accepts(&app->call, &environment));
    rt_prepared prepared;
    if (rt_kernel_prepare(kernel(), &app->call, &environment, &app->arena, &prepared, &app->report) !=
        BASE_OK)
        fail_msg("%s", app->report.text);
    application_run_prepared(app, &prepared, &x, &y, threads);
    const op_tensor got = application_reordered(app, &y, OP_LAYOUT_ROW_MAJOR);
    const op_tensor again = application_reordered(app, &got, layout);
    assert_memory_equal(again.data, y.data, y.bytes); /* what pads blocks is zeros */
    app->inputs[0] = plain_x;
    app->outputs[0] = plain_y;
    return got;
}

static double expected(const application *app, const numbers *drawn, int64_t at) {
    const op_shape *shape = &app->inputs[0].type.shape;
    const float *x = app->inputs[0].data;
    const int64_t half = (drawn->size - 1) / 2;
    int64_t pixels = 1;
    for (int32_t i = 2; i < shape->rank; i++) pixels *= shape->dims[i];
    const int64_t c = at / pixels % shape->dims[1];
    double sum = 0;
    for (int64_t d = c - half; d <= c - half + drawn->size - 1; d++) {
        if (d < 0 || d >= shape->dims[1]) continue;
        const double value = (double)x[at + (d - c) * pixels];
        sum += value * value;
    }
    return (double)x[at] /
           pow((double)drawn->bias + (double)drawn->alpha / (double)drawn->size * sum, (double)drawn->beta);
}

/* Sums of `size` squares are as exact as so many additions; the rest is a few units in the last place. */
static void check(const application *app, const numbers *drawn, const op_tensor *got, uint64_t seed) {
    int64_t count;
    assert_true(op_shape_elements(&got->type.shape, &count));
    for (int64_t i = 0; i < count; i++) {
        const double want = expected(app, drawn, i), value = (double)((const float *)got->data)[i];
        if (fabs(value - want) <= 0x1p-24 * (8 + (double)drawn->size / 2) * fabs(want)) continue;
        fail_msg("seed %" PRIu64 ": element %" PRId64 " is %.9g, expected %.9g", seed, i, value, want);
    }
}

static void test_every_layout(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round * 77;
        application app;
        numbers drawn;
        draw(&app, &drawn, &seed);
        const op_tensor portable = run(&app, OP_LAYOUT_ROW_MAJOR, 1 + (int)(round % 5), true);
        check(&app, &drawn, &portable, round);
        const op_tensor first = run(&app, OP_LAYOUT_ROW_MAJOR, 1, false);
        check(&app, &drawn, &first, round);
        for (size_t i = 0; i < sizeof layouts / sizeof *layouts && application_machine_is_wide(); i++) {
            const op_tensor other = run(&app, layouts[i], 1 + (int)((round + i) % 5), false);
            if (memcmp(first.data, other.data, first.bytes) != 0)
                fail_msg("seed %" PRIu64 ": threads or layout %s change the result", round,
                         op_layout_name(layouts[i]));
        }
        application_free(&app);
    }
}

/* Infinite numbers, NaN and numbers near the ends of what floats can be give what the formula gives: also where they are next to a channel
 * that only pads. */
static void test_ends(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        if (layouts[i] != OP_LAYOUT_ROW_MAJOR && !application_machine_is_wide()) continue;
        for (int bias = 0; bias < 2; bias++) {
            application app;
            uint64_t seed = 3;
            const numbers drawn = {.size = 3, .alpha = 3, .beta = 0.75f, .bias = bias ? 1e-30f : 0};
            application_init(&app, OP_LRN);
            float *x = application_random(&app, OP_FLOAT, 3, DIMS(1, 19, 40), &seed);
            application_integer(&app, "size", drawn.size);
            application_real(&app, "alpha", drawn.alpha);
            application_real(&app, "beta", drawn.beta);
            application_real(&app, "bias", drawn.bias);
            assert_int_equal(application_infer(&app), BASE_OK);
            for (int c = 0; c < 19; c++) {
                x[c * 40 + 4] = 0;       /* 0 / 0 without bias */
                x[c * 40 + 6] *= 1e-18f; /* squares of 1e-36 */
                x[c * 40 + 7] *= 4e18f;  /* squares of 1e37 */
            }
            x[18 * 40 + 1] = INFINITY, x[18 * 40 + 2] = NAN, x[5 * 40 + 39] = -INFINITY;
            const op_tensor got = run(&app, layouts[i], 1, layouts[i] == OP_LAYOUT_ROW_MAJOR && bias);
            for (int64_t k = 0; k < 19 * 40; k++) {
                const double want = expected(&app, &drawn, k), value = (double)((const float *)got.data)[k];
                if (isnan(want) ? isnan(value) : fabs(value - want) <= 1e-6 * fabs(want)) continue;
                fail_msg("%s: element %" PRId64 " is %.9g, expected %.9g", op_layout_name(layouts[i]), k,
                         value, want);
            }
            application_free(&app);
        }
    }
}

/* A neighbourhood may be as large as an integer. */
static void test_all_channels(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        if (layouts[i] != OP_LAYOUT_ROW_MAJOR && !application_machine_is_wide()) continue;
        application app;
        uint64_t seed = 3;
        application_init(&app, OP_LRN);
        float *x = application_random(&app, OP_FLOAT, 3, DIMS(1, 37, 2), &seed);
        application_integer(&app, "size", INT64_MAX);
        assert_int_equal(application_infer(&app), BASE_OK);
        const op_tensor got = run(&app, layouts[i], 1, false);
        assert_memory_equal(got.data, x, got.bytes); /* all is divided by 1 */
        application_free(&app);
    }
}

/* Two dimensions: channels of one pixel. And no element at all. */
static void test_few_elements(void **state) {
    (void)state;
    application app;
    uint64_t seed = 3;
    const numbers drawn = {.size = 4, .alpha = 2, .beta = 0.5f, .bias = 2};
    application_init(&app, OP_LRN);
    application_random(&app, OP_FLOAT, 2, DIMS(3, 21), &seed);
    application_integer(&app, "size", 4);
    application_real(&app, "alpha", 2);
    application_real(&app, "beta", 0.5f);
    application_real(&app, "bias", 2);
    assert_int_equal(application_infer(&app), BASE_OK);
    const op_tensor got = run(&app, OP_LAYOUT_ROW_MAJOR, 2, false);
    check(&app, &drawn, &got, 0);
    application_free(&app);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        if (layouts[i] != OP_LAYOUT_ROW_MAJOR && !application_machine_is_wide()) continue;
        application_init(&app, OP_LRN);
        application_input(&app, OP_FLOAT, 4, DIMS(2, 16, 0, 5));
        application_integer(&app, "size", 3);
        assert_int_equal(application_infer(&app), BASE_OK);
        run(&app, layouts[i], 1, false);
        application_free(&app);
    }
}

static void test_refuses(void **state) {
    (void)state;
    static const struct {
        op_dtype dtype;
        op_layout layout;
        bool portable, wide_only, wanted;
    } cases[] = {{OP_FLOAT, OP_LAYOUT_ROW_MAJOR, true, false, true},
                 {OP_DOUBLE, OP_LAYOUT_ROW_MAJOR, false, false, true},
                 {OP_FLOAT16, OP_LAYOUT_ROW_MAJOR, false, false, true},
                 {OP_FLOAT, OP_LAYOUT_NC16, false, true, true},
                 {OP_FLOAT, OP_LAYOUT_NHWC, false, true, true},
                 {OP_FLOAT, OP_LAYOUT_NC8, false, true, false},
                 {OP_FLOAT, OP_LAYOUT_NC16, true, true, false},
                 {OP_FLOAT16, OP_LAYOUT_NC16, false, true, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const rt_environment environment = {.threads = 1, .portable_only = cases[i].portable};
        application app;
        application_init(&app, OP_LRN);
        application_input(&app, cases[i].dtype, 4, DIMS(1, 20, 4, 4));
        application_integer(&app, "size", 3);
        assert_int_equal(application_infer(&app), BASE_OK);
        app.inputs[0].type.layout = app.outputs[0].type.layout = cases[i].layout;
        assert_int_equal(kernel()->accepts(&app.call, &environment),
                         cases[i].wanted && (!cases[i].wide_only || application_machine_is_wide()));
        application_free(&app);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_layout), cmocka_unit_test(test_ends),
        cmocka_unit_test(test_all_channels), cmocka_unit_test(test_few_elements),
        cmocka_unit_test(test_refuses),
    };
    return cmocka_run_group_tests_name("lrn", tests, NULL, NULL);
}
