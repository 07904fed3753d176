/* SPDX-License-Identifier: Apache-2.0 */
/* test_rows_convolution.c: RowsConv beside the Conv whose rows it makes: random windows, strides and activations, rows above and below the
 * image, and so far away that none of it is seen; bits that do not depend on threads; what is refused. */
#include "runtime/kernels/portable/rows_convolution.h"
#include "tests/support/application.h"
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

enum { ROUNDS = 300 };

/* The convolution, with `above` rows of padding above and below, and none in what is said of rows. */
static void draw(application *conv, application *rows, int64_t above, uint64_t *seed) {
    static const char *const activations[] = {"", "Relu", "Clip"};
    static const int64_t strides[] = {1, 2, 4};
    const int64_t channels = random_range(seed, 1, 4), filters = random_range(seed, 1, 70);
    const int64_t kernel[] = {random_range(seed, 1, 5),
                              random_range(seed, 1, 2) == 1 ? 3 : random_range(seed, 1, 7)};
    const int64_t dilation[] = {random_range(seed, 1, 2), random_range(seed, 0, 3) ? 1 : 2};
    const int64_t stride[] = {random_range(seed, 1, 3), strides[random_range(seed, 0, 2)]};
    const int64_t reach[] = {(kernel[0] - 1) * dilation[0] + 1, (kernel[1] - 1) * dilation[1] + 1};
    const int64_t left = random_range(seed, 0, 4), right = random_range(seed, 0, 4);
    const int64_t height = random_range(seed, reach[0], 16), width = random_range(seed, reach[1], 130);
    const char *activation = activations[random_range(seed, 0, 2)];
    const bool bias = random_range(seed, 0, 1);
    const uint64_t numbers = *seed;
    for (int i = 0; i < 2; i++) {
        application *app = i ? rows : conv;
        *seed = numbers;
        application_init(app, i ? OP_ROWS_CONV : OP_CONV);
        application_random(app, OP_FLOAT, 4, DIMS(1, channels, height, width), seed);
        application_random(app, OP_FLOAT, 4, DIMS(filters, channels, kernel[0], kernel[1]), seed);
        if (i) application_input(app, OP_INT64, 1, DIMS(1));
        if (bias) application_random(app, OP_FLOAT, 1, DIMS(filters), seed);
        application_integers(app, "strides", 2, stride);
        application_integers(app, "dilations", 2, dilation);
        application_integers(app, "pads", 4, DIMS(i ? 0 : above, left, i ? 0 : above, right));
        if (activation[0]) application_text(app, "ouro.activation", activation);
        application_real(app, "ouro.alpha", -0.25f);
        application_real(app, "ouro.beta", 0.75f);
    }
}

/* Some rows from `first` on, the first of them seeing the image from its row `top` on. */
static op_tensor run_rows(application *app, int64_t count, int64_t top, int threads) {
    const rt_environment environment = {.threads = threads};
    const rt_kernel *kernel = rt_kernel_find("portable.rows_convolution");
    op_tensor inputs[APPLICATION_INPUTS];
    op_call call = app->call;
    rt_prepared prepared;
    *(int64_t *)app->inputs[2].data = top;
    assert_int_equal(application_infer(app), BASE_OK);
    assert_int_equal(app->outputs[0].type.shape.dims[2], count);
    op_tensor made = app->outputs[0];
    memcpy(inputs, app->inputs, sizeof inputs);
    inputs[1].type.layout = OP_LAYOUT_PACKED;
    inputs[1].type.packed_bytes = inputs[1].bytes = rt_rows_convolution_packed_bytes(&inputs[1].type.shape);
    inputs[1].data = application_memory(app, inputs[1].bytes);
    rt_rows_convolution_pack(&inputs[1].type.shape, app->inputs[1].data, inputs[1].data);
    made.type.layout = OP_LAYOUT_NHWC;
    assert_true(op_type_bytes(&made.type, &made.bytes));
    made.data = application_memory(app, made.bytes);
    memset(made.data, 0x7f, made.bytes);
    call.inputs = inputs;
    call.outputs = &made;
    assert_true(kernel->accepts(&call, &environment));
    rt_threads_warm(threads);
    assert_int_equal(rt_kernel_prepare(kernel, &call, &environment, &app->arena, &prepared, &app->report),
                     BASE_OK);
    assert_int_equal(prepared.run(&prepared, inputs, &made, NULL, &app->report), BASE_OK);
    rt_kernel_release(&prepared);
    return made;
}

static void test_rows(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round;
        application conv, rows;
        const int64_t above = random_range(&seed, 0, 6);
        draw(&conv, &rows, above, &seed);
        assert_true(rt_rows_convolution_stands_for(&conv.call));
        application_run(&conv, "portable.convolution", 1);
        const op_tensor whole = application_reordered(&conv, &conv.outputs[0], OP_LAYOUT_NHWC);
        const int64_t *dims = conv.outputs[0].type.shape.dims;
        const int64_t first = random_range(&seed, 0, dims[2] - 1),
                      count = random_range(&seed, 1, dims[2] - first);
        const int64_t stride = op_attribute_find(&conv.call.attributes, "strides")->as.integers[0];
        application_integer(&rows, "rows", count);
        const op_tensor made = run_rows(&rows, count, first * stride - above, 1);
        const float *want = (const float *)whole.data + first * dims[3] * dims[1], *got = made.data;
        for (int64_t i = 0; i < count * dims[3] * dims[1]; i++)
            application_check_near((double)got[i], (double)want[i], 1e-4, round, i);
        const op_tensor again = run_rows(&rows, count, first * stride - above, 3);
        assert_memory_equal(made.data, again.data, made.bytes);
        application_free(&conv);
        application_free(&rows);
    }
}

/* None of the image is seen: the bias is all there is, however far away. */
static void test_far_away(void **state) {
    (void)state;
    static const int64_t tops[] = {INT64_MIN, -1000, 1000, INT64_MAX};
    for (int i = 0; i < 4; i++) {
        uint64_t seed = 5;
        application app;
        application_init(&app, OP_ROWS_CONV);
        application_random(&app, OP_FLOAT, 4, DIMS(1, 3, 9, 40), &seed);
        application_random(&app, OP_FLOAT, 4, DIMS(17, 3, 3, 3), &seed);
        application_input(&app, OP_INT64, 1, DIMS(1));
        const float *bias = application_random(&app, OP_FLOAT, 1, DIMS(17), &seed);
        application_integer(&app, "rows", 4);
        const op_tensor made = run_rows(&app, 4, tops[i], 1);
        for (int64_t at = 0; at < 4 * 38 * 17; at++)
            assert_true(((const float *)made.data)[at] == bias[at % 17]);
        application_free(&app);
    }
}

/* Several groups, more channels, a stride without a function of its own, a residual, fewer rows than the window has. */
static void test_refuses(void **state) {
    (void)state;
    for (int i = 0; i < 6; i++) {
        uint64_t seed = 3;
        application app;
        application_init(&app, OP_CONV);
        application_random(&app, OP_FLOAT, 4, DIMS(1, i == 1 ? 5 : 4, i == 4 ? 2 : 9, 9), &seed);
        application_random(&app, OP_FLOAT, 4, DIMS(6, i == 0 ? 2 : i == 1 ? 5 : 4, 3, 3), &seed);
        application_absent(&app);
        if (i == 0) application_integer(&app, "group", 2);
        if (i == 2) application_integers(&app, "strides", 2, DIMS(1, 3));
        if (i == 3) application_random(&app, OP_FLOAT, 4, DIMS(1, 6, 9, 9), &seed);
        application_integers(&app, "pads", 4, DIMS(1, 1, 1, 1));
        assert_int_equal(application_infer(&app), BASE_OK);
        assert_int_equal(rt_rows_convolution_stands_for(&app.call), i == 5);
        application_free(&app);
    }
    for (int i = 0; i < 3; i++) {
        uint64_t seed = 3;
        application app;
        application_init(&app, OP_ROWS_CONV);
        application_random(&app, OP_FLOAT, 4, DIMS(i == 0 ? 2 : 1, 3, 9, 9), &seed);
        application_random(&app, OP_FLOAT, 4, DIMS(6, 3, 3, 3), &seed);
        application_input(&app, OP_INT64, 1, DIMS(i == 1 ? 2 : 1));
        application_integer(&app, "rows", i == 2 ? 0 : 3);
        application_expect_failure(&app, "expected one image, the number of a row, and rows to make");
        application_free(&app);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_far_away),
        cmocka_unit_test(test_refuses),
    };
    return cmocka_run_group_tests_name("rows_convolution", tests, NULL, NULL);
}
