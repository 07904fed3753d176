/* SPDX-License-Identifier: Apache-2.0 */
/* test_depthwise.c: convolutions of each channel by itself beside the row-major kernel: random windows, layouts, fused forms, residuals in
 * place; bits that do not depend on threads; what pads blocks stays zero; weights come back; NaN; what is refused. Where vectors are
 * narrower the kernel is never chosen, which is all that is seen then.
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

static void draw(application *app, uint64_t *seed, bool residual) {
    static const char *const activations[] = {"",        "Relu",  "LeakyRelu", "Clip",
                                              "Sigmoid", "Swish", "HardSwish"};
    const int64_t images = random_range(seed, 1, 2), channels = random_range(seed, 4, 50);
    const int64_t size = random_range(seed, 0, 2) ? 3 : 5, stride = random_range(seed, 1, 2);
    const int64_t pads[] = {random_range(seed, 0, 3), random_range(seed, 0, 3), random_range(seed, 0, 3),
                            random_range(seed, 0, 3)};
    const int64_t height = random_range(seed, size, 14), width = random_range(seed, size, 40);
    application_init(app, OP_CONV);
    application_random(app, OP_FLOAT, 4, DIMS(images, channels, height, width), seed);
    application_random(app, OP_FLOAT, 4, DIMS(channels, 1, size, size), seed);
    if (random_range(seed, 0, 1)) application_random(app, OP_FLOAT, 1, DIMS(channels), seed);
    else application_absent(app);
    application_integer(app, "group", channels);
    application_integers(app, "strides", 2, DIMS(stride, stride));
    application_integers(app, "pads", 4, pads);
    const char *activation = activations[random_range(seed, 0, 6)];
    if (activation[0]) application_text(app, "ouro.activation", activation);
    application_real(app, "ouro.alpha", -0.25f);
    application_real(app, "ouro.beta", 0.75f);
    if (residual)
        application_random(app, OP_FLOAT, 4,
                           DIMS(images, channels, (height + pads[0] + pads[2] - size) / stride + 1,
                                (width + pads[1] + pads[3] - size) / stride + 1),
                           seed);
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

static void test_equals_the_row_major_kernel(void **state) {
    (void)state;
    static const op_layout layouts[] = {OP_LAYOUT_NC16, OP_LAYOUT_NHWC};
    for (uint64_t round = 1; round <= ROUNDS && application_machine_is_wide(); round++) {
        uint64_t seed = round;
        const bool residual = round % 3 == 0;
        const op_layout layout = layouts[round % 2];
        application app;
        draw(&app, &seed, residual);
        application_run(&app, "portable.convolution", 1);
        const op_tensor expected = app.outputs[0], got = run_packed(&app, layout, 1, false);
        const op_tensor other = run_packed(&app, layouts[(round + 1) % 2], 2 + (int)(round % 2), residual);
        int64_t count;
        assert_true(op_shape_elements(&expected.type.shape, &count));
        for (int64_t k = 0; k < count; k++)
            application_check_near(((const float *)got.data)[k], ((const float *)expected.data)[k], 1e-5,
                                   round, k);
        if (memcmp(got.data, other.data, got.bytes) != 0)
            fail_msg("seed %" PRIu64 ": threads, the layout, or the place of the residual, change the result",
                     round);
        application_free(&app);
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
        cmocka_unit_test(test_nan_stays),
        cmocka_unit_test(test_refuses),
    };
    return cmocka_run_group_tests_name("depthwise", tests, NULL, NULL);
}
