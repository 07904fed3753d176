/* SPDX-License-Identifier: Apache-2.0 */
/* test_transposed_product.c: transposed convolutions as products that are added, beside the row-major kernel: signals and images in several
 * parts, few filters, far strides, and many filters, windows that overlap and that do not, outputs that see nothing and that are cut off; bits that do not
 * depend on threads; NaN; what is left to other kernels. Where vectors are narrower the kernel is never chosen, which is all that is
 * seen then.
 */
#include "tests/support/application.h"
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

enum { ROUNDS = 160 };

static const rt_kernel *kernel(void) {
    return rt_kernel_of(OP_CONV_TRANSPOSE, "portable.transposed_product");
}

static void draw_axis(uint64_t *seed, bool few, bool last, int64_t *extent, int64_t *window, int64_t *stride,
                      int64_t *dilation) {
    *stride = random_range(seed, last ? 2 : 1, few ? 8 : 4);
    *window = few && last ? random_range(seed, 1, 40) : random_range(seed, 1, 5);
    *dilation = random_range(seed, 1, 2);
    *extent = random_range(seed, 8, 40);
}

static void draw(application *app, uint64_t *seed) {
    const bool few = random_range(seed, 0, 1) == 0;
    const int dimensions = (int)random_range(seed, 1, 2);
    const int64_t images = random_range(seed, 1, 2),
                  channels = few ? random_range(seed, 4, 80) : random_range(seed, 128, 144),
                  filters = few ? random_range(seed, 1, 8)
                                : 16 * random_range(seed, 1, 3) - random_range(seed, 0, 1);
    int64_t x[4] = {images, channels}, w[4] = {channels, filters}, strides[2], dilations[2], pads[4], more[2];
    for (int i = 0; i < dimensions; i++) {
        draw_axis(seed, few, i == dimensions - 1, &x[2 + i], &w[2 + i], &strides[i], &dilations[i]);
        more[i] = random_range(seed, 0, strides[i] - 1);
        pads[i] = random_range(seed, 0, (w[2 + i] - 1) * dilations[i]);
        pads[dimensions + i] = random_range(seed, 0, (w[2 + i] - 1) * dilations[i]);
    }
    if (dimensions == 1) x[2] *= random_range(seed, 1, 60); /* in several parts, and pieces */
    application_init(app, OP_CONV_TRANSPOSE);
    application_random(app, OP_FLOAT, 2 + dimensions, x, seed);
    application_random(app, OP_FLOAT, 2 + dimensions, w, seed);
    if (random_range(seed, 0, 1)) application_random(app, OP_FLOAT, 1, DIMS(filters), seed);
    application_integers(app, "strides", (size_t)dimensions, strides);
    application_integers(app, "dilations", (size_t)dimensions, dilations);
    application_integers(app, "output_padding", (size_t)dimensions, more);
    application_integers(app, "pads", 2 * (size_t)dimensions, pads);
}

/* What the kernel makes of the application. False where it does not want it. */
static bool run_here(application *app, op_layout layout, int threads, op_tensor *result) {
    const rt_environment environment = {.threads = threads};
    rt_preference wish = {.inputs = {layout}};
    if (!kernel()->prefer(&app->call, &environment, &wish)) return false;
    /* Maps stay as they are for few filters alone. */
    const bool few = app->inputs[1].type.shape.dims[1] < 16;
    layout = layout == OP_LAYOUT_ROW_MAJOR && !few ? OP_LAYOUT_NC16 : layout;
    assert_int_equal(wish.inputs[0], layout);
    assert_int_equal(wish.inputs[1], OP_LAYOUT_PACKED);
    *result = application_packed(app, kernel(), layout, wish.output, wish.packed_bytes[1], threads, false);
    return true;
}

static void test_equals_the_row_major_kernel(void **state) {
    (void)state;
    static const op_layout layouts[] = {OP_LAYOUT_NC16, OP_LAYOUT_NHWC, OP_LAYOUT_ROW_MAJOR};
    int ran = 0, as_they_lie = 0;
    for (uint64_t round = 1; round <= ROUNDS && application_machine_is_wide(); round++) {
        uint64_t seed = round;
        const op_layout layout = layouts[round % 3];
        application app;
        op_tensor got, other;
        int64_t count, numbers;
        draw(&app, &seed);
        application_run(&app, "portable.conv_transpose", 1);
        if (run_here(&app, layout, 1, &got)) {
            assert_true(run_here(&app, layout, 2 + (int)(round % 2), &other));
            assert_true(op_shape_elements(&app.outputs[0].type.shape, &count));
            assert_true(op_shape_elements(&app.inputs[1].type.shape, &numbers));
            const double tolerance = 1e-5 + 3e-8 * (double)numbers / (double)app.inputs[1].type.shape.dims[1];
            for (int64_t k = 0; k < count; k++)
                application_check_near(application_element(&got, k), application_element(&app.outputs[0], k),
                                       tolerance, round, k);
            if (memcmp(got.data, other.data, got.bytes) != 0)
                fail_msg("seed %" PRIu64 ": threads change the result", round);
            ran++;
            as_they_lie += layout == OP_LAYOUT_ROW_MAJOR && app.inputs[1].type.shape.dims[1] < 16;
        }
        application_free(&app);
    }
    if (application_machine_is_wide()) assert_true(ran > ROUNDS / 2 && as_they_lie > ROUNDS / 10);
}

/* A NaN is in what its point is added to, and in nothing else. */
static void test_nan_stays(void **state) {
    (void)state;
    for (int filters = 1; filters <= 16 && application_machine_is_wide(); filters += 15) {
        enum { WIDTH = 50, STRIDE = 4, KERNEL = 10, BEFORE = 3, AT = 20 };
        application app;
        uint64_t seed = 3;
        op_tensor got;
        int64_t count;
        application_init(&app, OP_CONV_TRANSPOSE);
        float *x = application_random(&app, OP_FLOAT, 3, DIMS(1, 64, WIDTH), &seed);
        application_random(&app, OP_FLOAT, 3, DIMS(64, filters, KERNEL), &seed);
        application_integer(&app, "group", 1);
        application_integers(&app, "strides", 1, DIMS(STRIDE));
        application_integers(&app, "pads", 2, DIMS(BEFORE, 0));
        x[5 * WIDTH + AT] = NAN;
        application_run(&app, "portable.conv_transpose", 1);
        assert_true(run_here(&app, OP_LAYOUT_NC16, 1, &got));
        assert_true(op_shape_elements(&app.outputs[0].type.shape, &count));
        for (int64_t k = 0; k < count; k++) {
            const int64_t at = k % (count / filters) + BEFORE - AT * STRIDE;
            assert_int_equal(isnan(application_element(&got, k)) != 0, at >= 0 && at < KERNEL);
        }
        application_free(&app);
    }
}

static void test_left_to_others(void **state) {
    (void)state;
    static const struct {
        int64_t channels, filters, group, kernel, stride, width;
        bool portable, wanted;
    } cases[] = {
        {128, 32, 1, 4, 2, 16, false, true},
        {128, 32, 1, 4, 2, 16, true, false},
        {128, 32, 2, 4, 2, 16, false, false},
        {128, 32, 1, 3, 1, 16, false, false}, /* other kernels are as fast */
        {64, 32, 1, 4, 2, 16, false, false},
        {64, 32, 1, 2, 2, 16, false, true},
        {128, 24, 1, 4, 2, 16, false, false}, /* lanes without filters */
        {32, 3, 1, 4, 2, 16, false, true},
        {12, 3, 1, 4, 2, 16, false, false}, /* three at a time, of few channels: others are as fast */
        {12, 2, 1, 4, 2, 16, false, true},
        {3, 2, 1, 4, 2, 16, false, false},
        {64, 12, 1, 4, 2, 16, false, false}, /* lanes that are filters are almost full */
        {64, 2, 1, 4, 1, 16, false, false},
        {128, 32, 1, 4, 2, 2, false, false},
        {8, 32, 1, 16, 8, 16, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        application app;
        uint64_t seed = 1;
        const rt_environment environment = {.threads = 1, .portable_only = cases[i].portable};
        rt_preference wish = {.inputs = {OP_LAYOUT_ROW_MAJOR}};
        application_init(&app, OP_CONV_TRANSPOSE);
        application_input(&app, OP_FLOAT, 4, DIMS(1, cases[i].channels, 2, cases[i].width));
        application_random(
            &app, OP_FLOAT, 4,
            DIMS(cases[i].channels, cases[i].filters / cases[i].group, cases[i].kernel, cases[i].kernel),
            &seed);
        application_integer(&app, "group", cases[i].group);
        application_integers(&app, "strides", 2, DIMS(cases[i].stride, cases[i].stride));
        assert_int_equal(application_infer(&app), BASE_OK);
        if (kernel()->prefer(&app.call, &environment, &wish) !=
            (cases[i].wanted && application_machine_is_wide()))
            fail_msg("case %zu", i);
        application_free(&app);
    }
}

/* Few filters at far strides, with windows of more elements than a block's sums could hold; outputs before and after all that is seen; images
 * whose maps lie pages apart. */
static void test_few_filters(void **state) {
    (void)state;
    static const struct {
        int64_t channels, filters, height, width, window[2], stride[2], before, output;
        op_layout layout;
    } cases[] = {
        {20, 1, 0, 40, {1, 512}, {1, 128}, 100, 5300, OP_LAYOUT_ROW_MAJOR},
        {9, 2, 0, 700, {1, 1500}, {1, 1000}, 0, 700499, OP_LAYOUT_NHWC},
        {15, 1, 0, 30, {1, 3}, {1, 60}, -200, 2400, OP_LAYOUT_NC16},
        {33, 1, 32, 64, {9, 9}, {3, 3}, 4, 191, OP_LAYOUT_ROW_MAJOR},
        {33, 5, 32, 32, {4, 5}, {2, 2}, -7, 80, OP_LAYOUT_ROW_MAJOR},
        {31, 8, 90, 9, {7, 3}, {1, 2}, 1, 17, OP_LAYOUT_NC16},
        {6, 1, 9, 900, {2, 5}, {2, 4}, 0, 3601, OP_LAYOUT_ROW_MAJOR},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases && application_machine_is_wide(); i++) {
        const int dimensions = cases[i].height ? 2 : 1;
        const int64_t *window = cases[i].window + 2 - dimensions, *stride = cases[i].stride + 2 - dimensions,
                      full = (cases[i].width - 1) * cases[i].stride[1] + cases[i].window[1];
        int64_t pads[4] = {0};
        application app;
        uint64_t seed = i + 1;
        op_tensor got, other;
        int64_t count;
        application_init(&app, OP_CONV_TRANSPOSE);
        if (dimensions == 1)
            application_random(&app, OP_FLOAT, 3, DIMS(2, cases[i].channels, cases[i].width), &seed);
        else
            application_random(&app, OP_FLOAT, 4, DIMS(2, cases[i].channels, cases[i].height, cases[i].width),
                               &seed);
        const int64_t w[] = {cases[i].channels, cases[i].filters, window[0], window[dimensions - 1]};
        application_random(&app, OP_FLOAT, 2 + dimensions, w, &seed);
        application_random(&app, OP_FLOAT, 1, DIMS(cases[i].filters), &seed);
        application_integers(&app, "strides", (size_t)dimensions, stride);
        pads[dimensions - 1] = cases[i].before;
        pads[2 * dimensions - 1] = full - cases[i].before - cases[i].output;
        application_integers(&app, "pads", 2 * (size_t)dimensions, pads);
        application_run(&app, "portable.conv_transpose", 1);
        assert_true(run_here(&app, cases[i].layout, 1, &got));
        assert_true(run_here(&app, cases[i].layout, 3, &other));
        assert_memory_equal(got.data, other.data, got.bytes);
        assert_true(op_shape_elements(&app.outputs[0].type.shape, &count));
        for (int64_t k = 0; k < count; k++)
            application_check_near(application_element(&got, k), application_element(&app.outputs[0], k),
                                   2e-5, i, k);
        application_free(&app);
    }
}

/* A stride that no second row follows may be of any size. */
static void test_far_strides(void **state) {
    (void)state;
    application app;
    uint64_t seed = 1;
    const rt_environment environment = {.threads = 1};
    rt_preference wish = {.inputs = {OP_LAYOUT_NC16}};
    application_init(&app, OP_CONV_TRANSPOSE);
    application_input(&app, OP_FLOAT, 4, DIMS(1, 128, 1, 100));
    application_random(&app, OP_FLOAT, 4, DIMS(128, 16, 2, 4), &seed);
    application_integers(&app, "strides", 2, DIMS(INT32_MAX, 2));
    assert_int_equal(application_infer(&app), BASE_OK);
    assert_false(kernel()->prefer(&app.call, &environment, &wish));
    application_free(&app);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_the_row_major_kernel),
        cmocka_unit_test(test_nan_stays),
        cmocka_unit_test(test_left_to_others),
        cmocka_unit_test(test_few_filters),
        cmocka_unit_test(test_far_strides),
    };
    return cmocka_run_group_tests_name("transposed_product", tests, NULL, NULL);
}
