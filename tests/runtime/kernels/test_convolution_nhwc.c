/* SPDX-License-Identifier: Apache-2.0 */
/* test_convolution_nhwc.c: the convolution with channels innermost beside the row-major one: random shapes, groups, one filter for
 * each channel, fused forms, residuals in place; its bits do not depend on threads; packed weights come back as they were.
 */
#include "tests/support/allocations.h"
#include "tests/support/application.h"
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const rt_kernel *kernel(void) {
    return rt_kernel_find("portable.convolution_nhwc");
}

/* A convolution of random extents. False: its window does not fit. */
static bool draw(application *app, uint64_t *seed) {
    static const char *const activations[] = {"", "Relu", "LeakyRelu", "Clip", "Sigmoid", "Tanh"};
    const int64_t images = random_range(seed, 1, 2),
                  group = random_range(seed, 0, 1) ? 1 : random_range(seed, 2, 5);
    const bool by_channel = random_range(seed, 0, 3) == 0;
    const int64_t groups = by_channel ? random_range(seed, 2, 70) : group;
    const int64_t channels = by_channel ? 1 : random_range(seed, 1, 400 / group),
                  filters = by_channel ? 1 : random_range(seed, 1, 70);
    const int64_t height = random_range(seed, 1, 20), width = random_range(seed, 1, 20);
    const int64_t kernel_height = random_range(seed, 1, 3), kernel_width = random_range(seed, 1, 3);
    application_init(app, OP_CONV);
    application_random(app, OP_FLOAT, 4, DIMS(images, groups * channels, height, width), seed);
    application_random(app, OP_FLOAT, 4, DIMS(groups * filters, channels, kernel_height, kernel_width), seed);
    if (random_range(seed, 0, 1)) application_random(app, OP_FLOAT, 1, DIMS(groups * filters), seed);
    else application_absent(app);
    int64_t pads[4], steps[2][2];
    for (int i = 0; i < 4; i++) pads[i] = random_range(seed, 0, 2);
    for (int i = 0; i < 4; i++) steps[i / 2][i % 2] = random_range(seed, 1, 2);
    application_integers(app, "pads", 4, pads);
    application_integers(app, "strides", 2, steps[0]);
    application_integers(app, "dilations", 2, steps[1]);
    application_integer(app, "group", groups);
    const char *activation = activations[random_range(seed, 0, 5)];
    if (activation[0]) application_text(app, "ouro.activation", activation);
    application_real(app, "ouro.alpha", -0.25f);
    application_real(app, "ouro.beta", 0.75f);
    const bool residual = random_range(seed, 0, 1);
    const int64_t high = height + pads[0] + pads[2] - (kernel_height - 1) * steps[1][0] - 1,
                  wide = width + pads[1] + pads[3] - (kernel_width - 1) * steps[1][1] - 1;
    if (high < 0 || wide < 0) return false;
    if (residual)
        application_random(app, OP_FLOAT, 4,
                           DIMS(images, groups * filters, high / steps[0][0] + 1, wide / steps[0][1] + 1),
                           seed);
    return true;
}

/* Bytes of the weights in panels: whole ones, but a half one where that is enough; one float more. */
static size_t packed_bytes(const application *app) {
    const op_shape *weights = &app->inputs[1].type.shape;
    const int64_t group = op_attribute_integer(&app->call.attributes, "group", 1);
    const int64_t filters = weights->dims[0] / group, rest = filters % 16;
    const int64_t wide = filters - rest + (rest == 0 ? 0 : rest <= 8 ? 8 : 16);
    const bool by_channel = group > 1 && filters == 1 && weights->dims[1] == 1;
    return (size_t)(group * (by_channel ? 1 : wide) * weights->dims[1] * weights->dims[2] * weights->dims[3] +
                    1) *
           sizeof(float);
}

/* The output of the kernel, row-major. */
static op_tensor run_nhwc(application *app, int threads, bool in_place) {
    const rt_environment environment = {.threads = threads};
    op_tensor inputs[APPLICATION_INPUTS], output = {.type = app->outputs[0].type};
    op_call call = app->call;
    memcpy(inputs, app->inputs, sizeof inputs);
    call.inputs = inputs;
    call.outputs = &output;
    inputs[0] = application_reordered(app, &app->inputs[0], OP_LAYOUT_NHWC);
    if (op_input_present(&app->call, 3))
        inputs[3] = application_reordered(app, &app->inputs[3], OP_LAYOUT_NHWC);
    output.type.layout = OP_LAYOUT_NHWC;
    inputs[1].type.layout = OP_LAYOUT_PACKED;
    inputs[1].type.packed_bytes = inputs[1].bytes = packed_bytes(app);
    inputs[1].data = application_memory(app, inputs[1].bytes);
    memset(inputs[1].data, 0, inputs[1].bytes);
    assert_int_equal(kernel()->pack(&call, &environment, 1, &app->inputs[1], inputs[1].data, &app->report),
                     BASE_OK);
    void *plain = application_memory(app, app->inputs[1].bytes);
    assert_int_equal(kernel()->unpack(&call, &environment, 1, &inputs[1], plain, &app->report), BASE_OK);
    assert_memory_equal(plain, app->inputs[1].data, app->inputs[1].bytes);
    assert_true(kernel()->accepts(&call, &environment));
    rt_prepared prepared;
    assert_int_equal(rt_kernel_prepare(kernel(), &call, &environment, &app->arena, &prepared, &app->report),
                     BASE_OK);
    char *scratch = application_memory(app, prepared.scratch_bytes + 1);
    memset(scratch, 0x7f, prepared.scratch_bytes);
    scratch[prepared.scratch_bytes] = 77;
    assert_true(op_type_bytes(&output.type, &output.bytes));
    output.data = in_place ? inputs[3].data : application_memory(app, output.bytes);
    if (!in_place) memset(output.data, 0x7f, output.bytes);
    rt_threads_warm(threads);
    const size_t before = allocations_count();
    assert_int_equal(prepared.run(&prepared, inputs, &output, scratch, &app->report), BASE_OK);
    assert_int_equal(allocations_count(), before);
    assert_int_equal(scratch[prepared.scratch_bytes], 77);
    rt_kernel_release(&prepared);
    return application_reordered(app, &output, OP_LAYOUT_ROW_MAJOR);
}

static void test_equals_the_row_major_convolution(void **state) {
    (void)state;
    for (uint64_t trial = 1; trial <= 150; trial++) {
        uint64_t seed = trial;
        application app;
        if (!draw(&app, &seed)) {
            application_free(&app);
            continue;
        }
        application_run(&app, "portable.convolution", 1);
        const op_tensor expected = app.outputs[0];
        const bool residual = op_input_present(&app.call, 3);
        const op_tensor one = run_nhwc(&app, 1, false), three = run_nhwc(&app, 3, residual);
        int64_t count;
        assert_true(op_shape_elements(&expected.type.shape, &count));
        for (int64_t k = 0; k < count; k++)
            application_check_near(((const float *)one.data)[k], ((const float *)expected.data)[k], 1e-4,
                                   trial, k);
        if (memcmp(one.data, three.data, (size_t)count * sizeof(float)) != 0)
            fail_msg("seed %" PRIu64 ": threads, or a residual in place, change the result", trial);
        application_free(&app);
    }
}

static void test_refuses_what_another_kernel_packed(void **state) {
    (void)state;
    const rt_environment environment = {.threads = 1};
    uint64_t seed = 7;
    application app;
    application_init(&app, OP_CONV);
    application_random(&app, OP_FLOAT, 4, DIMS(1, 16, 5, 5), &seed);
    application_random(&app, OP_FLOAT, 4, DIMS(16, 16, 1, 1), &seed);
    assert_int_equal(application_infer(&app), BASE_OK);
    assert_false(kernel()->accepts(&app.call, &environment));
    app.inputs[0].type.layout = app.outputs[0].type.layout = OP_LAYOUT_NHWC;
    app.inputs[1].type.layout = OP_LAYOUT_PACKED;
    app.inputs[1].type.packed_bytes = sizeof(float) * 256;
    assert_false(kernel()->accepts(&app.call, &environment));
    app.inputs[1].type.packed_bytes = packed_bytes(&app);
    assert_true(kernel()->accepts(&app.call, &environment));
    application_free(&app);
}

/* Limits keep a NaN, as the activations of other kernels do. */
static void test_keeps_nan(void **state) {
    (void)state;
    uint64_t seed = 9;
    application app;
    application_init(&app, OP_CONV);
    float *x = application_random(&app, OP_FLOAT, 4, DIMS(1, 8, 3, 3), &seed);
    application_random(&app, OP_FLOAT, 4, DIMS(20, 8, 1, 1), &seed);
    application_text(&app, "ouro.activation", "Relu");
    for (int i = 0; i < 9; i++) x[i] = NAN;
    application_run(&app, "portable.convolution", 1);
    const op_tensor y = run_nhwc(&app, 1, false);
    for (int i = 0; i < 9 * 20; i++) assert_true(isnan(((const float *)y.data)[i]));
    application_free(&app);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_the_row_major_convolution),
        cmocka_unit_test(test_refuses_what_another_kernel_packed),
        cmocka_unit_test(test_keeps_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
