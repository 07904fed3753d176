/* SPDX-License-Identifier: Apache-2.0 */
/* test_channels_last.c: Concat along the channels, and Resize to the nearest points, of images whose channels are innermost (or in blocks, for
 * Resize), and TensorScatter of rows in another layout: the bits of the row-major kernels, on one thread and on three; and what is refused. */
#include "tests/support/application.h"
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

enum { ROUNDS = 100 };

/* Runs the application on its first `images` inputs in these layouts, and compares with the row-major result in that of the first. */
static void check_each(application *app, const char *name, uint32_t images, int threads, uint64_t seed,
                       const op_layout *layouts) {
    const rt_kernel *kernel = rt_kernel_of(app->call.code, name);
    const rt_environment environment = {.threads = threads};
    application_run(app, name, 1);
    const op_tensor expected = application_reordered(app, &app->outputs[0], layouts[0]);
    op_tensor inputs[APPLICATION_INPUTS], got = expected;
    op_call call = app->call;
    memcpy(inputs, app->inputs, sizeof inputs);
    for (uint32_t i = 0; i < images; i++)
        inputs[i] = application_reordered(app, &app->inputs[i], layouts[i]);
    got.data = application_memory(app, got.bytes);
    memset(got.data, 0x7f, got.bytes);
    call.inputs = inputs;
    call.outputs = &got;
    if (!kernel->accepts(&call, &environment)) fail_msg("seed %d: refused", (int)seed);
    rt_prepared prepared;
    assert_int_equal(rt_kernel_prepare(kernel, &call, &environment, &app->arena, &prepared, &app->report),
                     BASE_OK);
    rt_threads_warm(threads);
    void *scratch = application_memory(app, prepared.scratch_bytes);
    assert_int_equal(prepared.run(&prepared, inputs, &got, scratch, &app->report), BASE_OK);
    rt_kernel_release(&prepared);
    if (memcmp(got.data, expected.data, expected.bytes) != 0) fail_msg("seed %d: other bits", (int)seed);
}

static void check(application *app, const char *name, uint32_t images, int threads, uint64_t seed,
                  op_layout layout) {
    op_layout layouts[APPLICATION_INPUTS];
    for (uint32_t i = 0; i < APPLICATION_INPUTS; i++) layouts[i] = layout;
    check_each(app, name, images, threads, seed, layouts);
}

static void test_concat(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round;
        const int64_t images = random_range(&seed, 1, 3), height = random_range(&seed, 1, 9),
                      width = random_range(&seed, 1, 9);
        const uint32_t parts = (uint32_t)random_range(&seed, 1, 5);
        application app;
        application_init(&app, OP_CONCAT);
        for (uint32_t i = 0; i < parts; i++)
            application_random(&app, OP_FLOAT, 4, DIMS(images, random_range(&seed, 1, 40), height, width),
                               &seed);
        application_integer(&app, "axis", 1);
        check(&app, "portable.concat", parts, 1 + 2 * (int)(round % 2), round, OP_LAYOUT_NHWC);
        application_free(&app);
    }
}

static void begin_resize(application *app, const int64_t *from, const float *scales, uint64_t *seed) {
    application_init(app, OP_RESIZE);
    application_random(app, OP_FLOAT, 4, from, seed);
    application_absent(app);
    memcpy(application_input(app, OP_FLOAT, 1, DIMS(4)), scales, 4 * sizeof *scales);
}

static void test_resize(void **state) {
    (void)state;
    static const char *const coordinates[] = {"half_pixel", "asymmetric", "align_corners",
                                              "pytorch_half_pixel"};
    static const char *const roundings[] = {"round_prefer_floor", "floor", "ceil", "round_prefer_ceil"};
    static const float scales[] = {1, 2, 3, 0.5f, 1.7f};
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round;
        application app;
        const int64_t from[] = {random_range(&seed, 1, 2), random_range(&seed, 1, 40),
                                random_range(&seed, 2, 12), random_range(&seed, 2, 12)};
        const float by[] = {1, 1, scales[random_range(&seed, 0, 4)], scales[random_range(&seed, 0, 4)]};
        begin_resize(&app, from, by, &seed);
        application_text(&app, "coordinate_transformation_mode", coordinates[random_range(&seed, 0, 3)]);
        application_text(&app, "nearest_mode", roundings[random_range(&seed, 0, 3)]);
        static const op_layout layouts[] = {OP_LAYOUT_NHWC, OP_LAYOUT_NC8, OP_LAYOUT_NC16};
        check(&app, "portable.resize", 1, 1 + 2 * (int)(round % 2), round, layouts[round % 3]);
        application_free(&app);
    }
}

/* More channels, interpolated points, an axis counted from the end. */
static void test_resize_refuses(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        uint64_t seed = 1;
        application app;
        const rt_environment environment = {.threads = 1};
        begin_resize(&app, DIMS(1, 8, 4, 4), (const float[]){1, i == 0 ? 2 : 1, 2, 2}, &seed);
        if (i == 1) application_text(&app, "mode", "linear");
        if (i == 2) application_integers(&app, "axes", 4, DIMS(0, 1, 2, -1));
        assert_int_equal(application_infer(&app), BASE_OK);
        assert_true(rt_kernel_find("portable.resize")->accepts(&app.call, &environment));
        app.inputs[0].type.layout = app.outputs[0].type.layout = OP_LAYOUT_NHWC;
        assert_false(rt_kernel_find("portable.resize")->accepts(&app.call, &environment));
        application_free(&app);
    }
}

/* Rows at any place of an image, in another layout than it has. */
static void begin_scatter(application *app, op_dtype dtype, int64_t images, int64_t height, int64_t rows,
                          uint64_t *seed) {
    const int64_t channels = random_range(seed, 1, 40), width = random_range(seed, 1, 20);
    application_init(app, OP_TENSOR_SCATTER);
    application_random(app, dtype, 4, DIMS(images, channels, height, width), seed);
    application_random(app, dtype, 4, DIMS(images, channels, rows, width), seed);
    int64_t *starts = application_input(app, OP_INT64, 1, DIMS(images));
    for (int64_t i = 0; i < images; i++) starts[i] = random_range(seed, 0, height - rows);
    application_integer(app, "axis", 2);
}

static void test_scatter(void **state) {
    (void)state;
    static const op_layout layouts[] = {OP_LAYOUT_ROW_MAJOR, OP_LAYOUT_NHWC, OP_LAYOUT_NC8, OP_LAYOUT_NC16};
    static const op_dtype types[] = {OP_FLOAT, OP_FLOAT, OP_INT8, OP_FLOAT16};
    for (uint64_t round = 1; round <= 4 * ROUNDS; round++) {
        uint64_t seed = round;
        const int64_t height = random_range(&seed, 1, 12), rows = random_range(&seed, 1, height);
        const op_layout given[] = {layouts[round % 4], layouts[(round + 1 + round / 4 % 3) % 4]};
        application app;
        begin_scatter(&app, types[random_range(&seed, 0, 3)], 1, height, rows, &seed);
        check_each(&app, "portable.tensor_scatter", 2, 1 + 2 * (int)(round / 4 % 2), round, given);
        application_free(&app);
    }
}

/* Rows of several images; a place that they do not fit in; a ring of rows. */
static void test_scatter_refuses(void **state) {
    (void)state;
    const rt_kernel *kernel = rt_kernel_find("portable.tensor_scatter");
    for (int i = 0; i < 3; i++) {
        uint64_t seed = 1;
        application app;
        const rt_environment environment = {.threads = 1};
        begin_scatter(&app, OP_FLOAT, i == 0 ? 2 : 1, 6, 3, &seed);
        if (i == 2) application_text(&app, "mode", "circular");
        assert_int_equal(application_infer(&app), BASE_OK);
        assert_true(kernel->accepts(&app.call, &environment));
        app.inputs[1].type.layout = OP_LAYOUT_NHWC;
        assert_int_equal(kernel->accepts(&app.call, &environment), i == 1);
        if (i == 1) {
            rt_prepared prepared;
            ((int64_t *)app.inputs[2].data)[0] = 4;
            app.outputs[0].data = application_memory(&app, app.outputs[0].bytes);
            assert_int_equal(
                rt_kernel_prepare(kernel, &app.call, &environment, &app.arena, &prepared, &app.report), BASE_OK);
            assert_int_equal(prepared.run(&prepared, app.inputs, app.outputs, NULL, &app.report), BASE_INVALID);
            rt_kernel_release(&prepared);
        }
        application_free(&app);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_concat),
        cmocka_unit_test(test_resize),
        cmocka_unit_test(test_resize_refuses),
        cmocka_unit_test(test_scatter),
        cmocka_unit_test(test_scatter_refuses),
    };
    return cmocka_run_group_tests_name("channels_last", tests, NULL, NULL);
}
