/* SPDX-License-Identifier: Apache-2.0 */
/* test_depthwise.c: convolutions of each channel by itself beside the row-major kernel: random windows, in two dimensions and in three, layouts,
 * fused forms, residuals in place; bits that do not depend on threads; what pads blocks stays zero; weights come back; NaN; what is refused.
 * Where vectors are narrower the kernel is never chosen, which is all that is seen then.
 */
#include "tests/support/application.h"
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

enum { ROUNDS = 120 };

static const rt_environment one_thread = {.threads = 1};

static const rt_kernel *kernel(void) {
    return rt_kernel_of(OP_CONV, "portable.depthwise");
}

static void draw_fused(application *app, uint64_t *seed) {
    application_draw_activation(app, 7, seed);
}

/* A convolution over `rank` dimensions that begin at `from` of these three: planes, rows, columns. */
typedef struct window_of {
    int64_t extent[3], kernel[3], stride[3], dilation[3], before[3], after[3];
} window_of;

static void make(application *app, const window_of *window, int rank, uint64_t *seed, bool residual) {
    const int64_t images = random_range(seed, 1, 2), channels = random_range(seed, 4, 50);
    const int from = 3 - rank;
    int64_t x[5] = {images, channels}, weights[5] = {channels, 1}, y[5] = {images, channels}, pads[6];
    for (int i = 0; i < rank; i++) {
        const int of = from + i;
        x[2 + i] = window->extent[of];
        weights[2 + i] = window->kernel[of];
        pads[i] = window->before[of];
        pads[rank + i] = window->after[of];
        y[2 + i] = (window->extent[of] + pads[i] + pads[rank + i] -
                    (window->kernel[of] - 1) * window->dilation[of] - 1) /
                       window->stride[of] +
                   1;
    }
    application_init(app, OP_CONV);
    application_random(app, OP_FLOAT, rank + 2, x, seed);
    application_random(app, OP_FLOAT, rank + 2, weights, seed);
    if (random_range(seed, 0, 1)) application_random(app, OP_FLOAT, 1, &channels, seed);
    else application_absent(app);
    application_integer(app, "group", channels);
    application_integers(app, "strides", (size_t)rank, window->stride + from);
    application_integers(app, "dilations", (size_t)rank, window->dilation + from);
    application_integers(app, "pads", 2 * (size_t)rank, pads);
    draw_fused(app, seed);
    if (residual) application_random(app, OP_FLOAT, rank + 2, y, seed);
}

static void draw(application *app, uint64_t *seed, bool residual) {
    const int64_t size = random_range(seed, 0, 2) ? 3 : 5, stride = random_range(seed, 1, 2);
    window_of window = {.extent = {0, random_range(seed, size, 14), random_range(seed, size, 40)}};
    for (int i = 1; i < 3; i++) {
        window.kernel[i] = size;
        window.stride[i] = stride;
        window.dilation[i] = 1;
        window.before[i] = random_range(seed, 0, 3);
        window.after[i] = random_range(seed, 0, 3);
    }
    make(app, &window, 2, seed, residual);
}

/* Planes and rows may lie in any way; padding may be larger than what a window sees. */
static void draw_deep(application *app, uint64_t *seed, bool residual) {
    static const int64_t widths[] = {1, 3, 3, 5};
    window_of window;
    for (int i = 0; i < 3; i++) {
        window.kernel[i] = i < 2 ? random_range(seed, 1, 4) : widths[random_range(seed, 0, 3)];
        window.stride[i] = random_range(seed, 1, i < 2 ? 3 : 2);
        window.dilation[i] = i < 2 ? random_range(seed, 1, 3) : 1;
        const int64_t reach = (window.kernel[i] - 1) * window.dilation[i] + 1;
        window.before[i] = random_range(seed, 0, 3);
        window.after[i] = random_range(seed, 0, 3);
        window.extent[i] = random_range(seed, 1, i < 2 ? 7 : 30);
        if (window.extent[i] + window.before[i] + window.after[i] < reach) window.extent[i] = reach;
    }
    make(app, &window, 3, seed, residual);
}

/* Runs the application on images in this layout, as the kernel wishes; the result comes back row-major. */
static op_tensor run_packed(application *app, op_layout layout, int threads, bool in_place) {
    const rt_environment environment = {.threads = threads};
    rt_preference wish = {.inputs = {layout}};
    assert_true(kernel()->prefer(&app->call, &environment, &wish));
    assert_int_equal(wish.inputs[0], layout);
    assert_int_equal(wish.inputs[1], OP_LAYOUT_PACKED);
    assert_int_equal(wish.output, layout);
    if (app->call.input_count > 3) assert_int_equal(wish.inputs[3], layout);
    return application_packed(app, kernel(), layout, layout, wish.packed_bytes[1], threads, in_place);
}

/* In both layouts; in one on several threads, with the result in place of the residual. */
static void check(application *app, uint64_t round, bool residual) {
    static const op_layout layouts[] = {OP_LAYOUT_NC16, OP_LAYOUT_NHWC};
    application_run(app, "portable.convolution", 1);
    const op_tensor expected = app->outputs[0], got = run_packed(app, layouts[round % 2], 1, false);
    const op_tensor other = run_packed(app, layouts[(round + 1) % 2], 2 + (int)(round % 4), residual);
    int64_t count;
    assert_true(op_shape_elements(&expected.type.shape, &count));
    for (int64_t k = 0; k < count; k++)
        application_check_near(((const float *)got.data)[k], ((const float *)expected.data)[k], 1e-5, round,
                               k);
    if (memcmp(got.data, other.data, got.bytes) != 0)
        fail_msg("seed %" PRIu64 ": threads, the layout, or the place of the residual, change the result",
                 round);
    application_free(app);
}

static void test_equals_the_row_major_kernel(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= ROUNDS && application_machine_is_wide(); round++) {
        uint64_t seed = round;
        application app;
        draw(&app, &seed, round % 3 == 0);
        check(&app, round, round % 3 == 0);
    }
}

static void test_planes(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= 2 * ROUNDS && application_machine_is_wide(); round++) {
        uint64_t seed = round * 31;
        application app;
        draw_deep(&app, &seed, round % 3 == 0);
        check(&app, round, round % 3 == 0);
    }
}

/* Windows that are wider, or whose columns lie apart, or of another width than height in two dimensions, are for other kernels. */
static void test_other_windows(void **state) {
    (void)state;
    static const struct {
        int rank;
        int64_t kernel[3], stride[3], dilation[3];
        bool wanted;
    } cases[] = {{2, {0, 3, 5}, {1, 1, 1}, {1, 1, 1}, false}, {2, {0, 3, 3}, {1, 2, 1}, {1, 1, 1}, false},
                 {2, {0, 3, 3}, {1, 1, 1}, {1, 2, 1}, false}, {3, {5, 1, 1}, {1, 1, 1}, {1, 1, 1}, true},
                 {3, {2, 3, 5}, {3, 2, 1}, {2, 2, 1}, true},  {3, {3, 3, 3}, {1, 1, 1}, {1, 1, 2}, false},
                 {3, {3, 3, 3}, {1, 1, 3}, {1, 1, 1}, false}, {3, {3, 3, 4}, {1, 1, 1}, {1, 1, 1}, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        application app;
        uint64_t seed = 1;
        window_of window = {.extent = {9, 9, 9}};
        memcpy(window.kernel, cases[i].kernel, sizeof window.kernel);
        memcpy(window.stride, cases[i].stride, sizeof window.stride);
        memcpy(window.dilation, cases[i].dilation, sizeof window.dilation);
        make(&app, &window, cases[i].rank, &seed, false);
        assert_int_equal(application_infer(&app), BASE_OK);
        rt_preference wish = {.inputs = {OP_LAYOUT_NHWC}};
        assert_int_equal(kernel()->prefer(&app.call, &one_thread, &wish),
                         cases[i].wanted && application_machine_is_wide());
        application_free(&app);
    }
}

/* What is prepared runs images of other extents. */
static void test_other_extents(void **state) {
    (void)state;
    for (int rank = 2; rank <= 3 && application_machine_is_wide(); rank++) {
        application apps[2];
        uint64_t seed = 5;
        const rt_environment environment = {.threads = 1};
        op_tensor inputs[2], weights[2], outputs[2];
        rt_prepared prepared;
        for (int i = 0; i < 2; i++) {
            const int64_t x[] = {1 + i, 20, 4 + 3 * i, 9 - 3 * i, 11 + 8 * i}, filters[] = {20, 1, 3, 3, 3};
            application *app = &apps[i];
            application_init(app, OP_CONV);
            application_random(app, OP_FLOAT, rank + 2, x, &seed);
            application_random(app, OP_FLOAT, rank + 2, filters, &seed);
            application_integer(app, "group", 20);
            application_integers(app, "pads", 2 * (size_t)rank, DIMS(1, 1, 1, 1, 1, 1));
            application_run(app, "portable.convolution", 1);
            rt_preference wish = {.inputs = {OP_LAYOUT_NC16}};
            assert_true(kernel()->prefer(&app->call, &environment, &wish));
            const op_tensor plain = weights[i] = app->inputs[1];
            inputs[i] = application_reordered(app, &app->inputs[0], OP_LAYOUT_NC16);
            outputs[i] = application_reordered(app, &app->outputs[0], OP_LAYOUT_NC16);
            weights[i].type.layout = OP_LAYOUT_PACKED;
            weights[i].bytes = weights[i].type.packed_bytes = wish.packed_bytes[1];
            weights[i].data = application_memory(app, weights[i].bytes);
            memset(weights[i].data, 0, weights[i].bytes);
            app->inputs[0] = inputs[i];
            app->inputs[1] = weights[i];
            app->outputs[0].type.layout = OP_LAYOUT_NC16;
            assert_int_equal(
                kernel()->pack(&app->call, &environment, 1, &plain, weights[i].data, &app->report), BASE_OK);
        }
        assert_int_equal(rt_kernel_prepare(kernel(), &apps[0].call, &environment, &apps[0].arena, &prepared,
                                           &apps[0].report),
                         BASE_OK);
        assert_true(kernel()->adapt(&apps[1].call, &environment, &prepared));
        op_tensor got = outputs[1];
        got.data = application_memory(&apps[1], got.bytes);
        memset(got.data, 0x7f, got.bytes);
        application_run_prepared(&apps[1], &prepared, apps[1].inputs, &got, 1);
        for (size_t k = 0; k < got.bytes / sizeof(float); k++)
            application_check_near(((const float *)got.data)[k], ((const float *)outputs[1].data)[k], 1e-5, 0,
                                   (int64_t)k);
        for (int i = 0; i < 2; i++) application_free(&apps[i]);
    }
}

/* A NaN is seen by the windows that lie over it, and by no others, through activations as well. */
static void test_nan_stays(void **state) {
    (void)state;
    static const char *const activations[] = {"Relu", "Clip", "HardSwish", "Swish"};
    for (size_t i = 0; i < sizeof activations / sizeof *activations && application_machine_is_wide(); i++) {
        application app;
        uint64_t seed = 7;
        application_init(&app, OP_CONV);
        float *x = application_random(&app, OP_FLOAT, 4, DIMS(1, 16, 7, 21), &seed);
        application_random(&app, OP_FLOAT, 4, DIMS(16, 1, 3, 3), &seed);
        application_integer(&app, "group", 16);
        application_integers(&app, "pads", 4, DIMS(1, 1, 1, 1));
        application_text(&app, "ouro.activation", activations[i]);
        application_real(&app, "ouro.alpha", 1);
        application_real(&app, "ouro.beta", 6);
        x[5 * 147 + 3 * 21 + 10] = NAN;
        application_run(&app, "portable.convolution", 1);
        const op_tensor got = run_packed(&app, OP_LAYOUT_NHWC, 1, false);
        for (int64_t k = 0; k < 16 * 147; k++) {
            const int64_t y = k / 21 % 7, at = k % 21;
            assert_int_equal(isnan(((const float *)got.data)[k]) != 0,
                             k / 147 == 5 && y >= 2 && y <= 4 && at >= 9 && at <= 11);
        }
        application_free(&app);
    }
}

static void test_refuses(void **state) {
    (void)state;
    static const struct {
        int64_t channels, filters, each, kernel, stride, dilation;
        op_layout layout;
        const char *activation;
        bool portable, wanted;
    } cases[] = {{16, 16, 1, 3, 1, 1, OP_LAYOUT_NC16, "", false, true},
                 {16, 16, 1, 3, 1, 1, OP_LAYOUT_NC16, "", true, false},
                 {16, 16, 1, 3, 1, 1, OP_LAYOUT_ROW_MAJOR, "", false, false},
                 {16, 16, 1, 3, 1, 1, OP_LAYOUT_NC8, "", false, false},
                 {16, 32, 1, 3, 1, 1, OP_LAYOUT_NC16, "", false, false},
                 {16, 16, 2, 3, 1, 1, OP_LAYOUT_NC16, "", false, false},
                 {3, 3, 1, 3, 1, 1, OP_LAYOUT_NHWC, "", false, false},
                 {16, 16, 1, 4, 1, 1, OP_LAYOUT_NC16, "", false, false},
                 {16, 16, 1, 3, 3, 1, OP_LAYOUT_NC16, "", false, false},
                 {16, 16, 1, 3, 1, 2, OP_LAYOUT_NC16, "", false, false},
                 {16, 16, 1, 1, 1, 1, OP_LAYOUT_NC16, "", false, false},
                 {16, 16, 1, 3, 1, 1, OP_LAYOUT_NC16, "Tanh", false, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        application app;
        uint64_t seed = 1;
        const rt_environment environment = {.threads = 1, .portable_only = cases[i].portable};
        rt_preference wish = {.inputs = {cases[i].layout}};
        application_init(&app, OP_CONV);
        application_input(&app, OP_FLOAT, 4, DIMS(1, cases[i].channels, 12, 12));
        application_random(&app, OP_FLOAT, 4,
                           DIMS(cases[i].filters, cases[i].each, cases[i].kernel, cases[i].kernel), &seed);
        application_integer(&app, "group", cases[i].channels / cases[i].each);
        application_integers(&app, "strides", 2, DIMS(cases[i].stride, cases[i].stride));
        application_integers(&app, "dilations", 2, DIMS(cases[i].dilation, cases[i].dilation));
        if (cases[i].activation[0]) application_text(&app, "ouro.activation", cases[i].activation);
        assert_int_equal(application_infer(&app), BASE_OK);
        assert_int_equal(kernel()->prefer(&app.call, &environment, &wish),
                         cases[i].wanted && application_machine_is_wide());
        app.inputs[0].type.layout = app.outputs[0].type.layout = cases[i].layout;
        assert_false(kernel()->accepts(&app.call, &one_thread)); /* weights are not packed */
        application_free(&app);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_the_row_major_kernel),
        cmocka_unit_test(test_planes),
        cmocka_unit_test(test_other_windows),
        cmocka_unit_test(test_other_extents),
        cmocka_unit_test(test_nan_stays),
        cmocka_unit_test(test_refuses),
    };
    return cmocka_run_group_tests_name("depthwise", tests, NULL, NULL);
}
