/* SPDX-License-Identifier: Apache-2.0 */
/* test_pool_channels.c: MaxPool where channels are innermost, or in blocks (runtime/kernels/portable/pool_channels.c) gives the bits of the
 * row-major kernel, NaN included, for random windows, on one thread and on three; AveragePool nearly the same numbers, with all ways to count; and
 * what both refuse. MaxPool where the last dimension of a row-major image stands for channels, of bytes as well. */
#include "tests/support/allocations.h"
#include "tests/support/application.h"
#include <math.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

enum { ROUNDS = 200, MOST_SIDE = 40 };

static const rt_kernel *kernel_of(op_code code) {
    return rt_kernel_of(code, "portable.pool_channels");
}

static const rt_kernel *kernel(void) {
    return kernel_of(OP_MAX_POOL);
}

/* All numbers, those that pad blocks, too. */
static void check(application *app, op_layout layout, int threads, uint64_t seed) {
    const rt_environment environment = {.threads = threads};
    application_run(app, "portable.pool", 1);
    const op_tensor expected = application_reordered(app, &app->outputs[0], layout);
    const op_tensor saved = app->inputs[0];
    op_tensor *y = &app->outputs[0];
    app->inputs[0] = application_reordered(app, &saved, layout);
    y->type.layout = layout;
    y->bytes = expected.bytes;
    y->data = application_memory(app, y->bytes);
    memset(y->data, 0x7f, y->bytes);
    const rt_kernel *kernel = kernel_of(app->call.code);
    assert_true(kernel->accepts(&app->call, &environment));
    rt_prepared prepared;
    if (rt_kernel_prepare(kernel, &app->call, &environment, &app->arena, &prepared, &app->report) != BASE_OK)
        fail_msg("%s", app->report.text);
    rt_threads_warm(threads);
    const size_t before = allocations_count();
    if (prepared.run(&prepared, app->inputs, app->outputs, NULL, &app->report) != BASE_OK)
        fail_msg("%s", app->report.text);
    assert_int_equal(allocations_count() - before, 0);
    rt_kernel_release(&prepared);
    if (app->call.code == OP_MAX_POOL) assert_memory_equal(y->data, expected.data, expected.bytes);
    for (size_t i = 0; i < expected.bytes / sizeof(float) && app->call.code != OP_MAX_POOL; i++)
        application_check_near(((const float *)y->data)[i], ((const float *)expected.data)[i], 1e-6, seed,
                               (int64_t)i);
    app->inputs[0] = saved;
}

/* A pool of some random images, whose sides are at least `least` long: its window is rows by columns. Returns the numbers. */
static float *begin_pool(application *app, op_code code, int64_t most_channels, int64_t least, int64_t *rows,
                         int64_t *columns, uint64_t *seed) {
    const int64_t channels = random_range(seed, 1, most_channels),
                  height = random_range(seed, least, MOST_SIDE), width = random_range(seed, least, MOST_SIDE);
    *rows = random_range(seed, 1, 4);
    *columns = random_range(seed, 1, 4);
    application_init(app, code);
    float *x = application_random(app, OP_FLOAT, 4,
                                  (int64_t[]){random_range(seed, 1, 2), channels, height, width}, seed);
    application_integers(app, "kernel_shape", 2, (const int64_t[]){*rows, *columns});
    application_integers(app, "strides", 2,
                         (const int64_t[]){random_range(seed, 1, 3), random_range(seed, 1, 3)});
    return x;
}

static void same_as_row_major(void **unused) {
    (void)unused;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round;
        application app;
        int64_t rows, columns;
        print_message("seed %llu\n", (unsigned long long)round);
        float *x = begin_pool(&app, OP_MAX_POOL, 140, 5, &rows, &columns, &seed);
        const int64_t before = random_range(&seed, 0, rows - 1), after = random_range(&seed, 0, columns - 1),
                      pixels = app.inputs[0].type.shape.dims[2] * app.inputs[0].type.shape.dims[3];
        for (int i = 0; i < 5; i++)
            x[random_range(&seed, 0, app.inputs[0].type.shape.dims[1] * pixels - 1)] = NAN;
        application_integers(&app, "pads", 4, (const int64_t[]){before, after, before, 0});
        if (round % 3 == 0) application_integers(&app, "dilations", 2, (const int64_t[]){1, 2 - round % 2});
        application_integer(&app, "ceil_mode", (int64_t)(round % 2));
        check(&app, round / 2 % 2 ? OP_LAYOUT_NHWC : OP_LAYOUT_NC16, round % 2 ? 1 : 3, round);
        application_free(&app);
    }
}

static void what_is_refused(void **unused) {
    (void)unused;
    const rt_environment environment = {.threads = 1};
    uint64_t seed = 5;
    application app;
    application_init(&app, OP_MAX_POOL);
    application_random(&app, OP_FLOAT, 4, (int64_t[]){1, 16, 8, 8}, &seed);
    application_integers(&app, "kernel_shape", 2, (const int64_t[]){2, 2});
    assert_int_equal(application_infer(&app), BASE_OK);
    assert_false(kernel()->accepts(&app.call, &environment)); /* row-major */
    app.inputs[0].type.layout = app.outputs[0].type.layout = OP_LAYOUT_NHWC;
    assert_true(kernel()->accepts(&app.call, &environment));
    app.inputs[0].type.dtype = app.outputs[0].type.dtype = OP_INT8;
    assert_false(kernel()->accepts(&app.call, &environment));
    application_free(&app);
}

static void averages_are_nearly_those_of_rows(void **unused) {
    (void)unused;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round;
        application app;
        int64_t rows, columns;
        begin_pool(&app, OP_AVERAGE_POOL, 70, 7, &rows, &columns, &seed);
        application_integers(
            &app, "pads", 4,
            (const int64_t[]){random_range(&seed, 0, rows - 1), random_range(&seed, 0, columns - 1),
                              random_range(&seed, 0, rows - 1), random_range(&seed, 0, columns - 1)});
        if (round % 3 == 0)
            application_integers(&app, "dilations", 2, (const int64_t[]){random_range(&seed, 1, 2), 2});
        application_integer(&app, "ceil_mode", random_range(&seed, 0, 1));
        application_integer(&app, "count_include_pad", random_range(&seed, 0, 1));
        if (round % 7 == 0) application_integer(&app, "ouro.sum", 1);
        check(&app, round % 2 ? OP_LAYOUT_NHWC : OP_LAYOUT_NC16, random_range(&seed, 0, 1) ? 1 : 3, round);
        application_free(&app);
    }
}

static void averages_that_are_refused(void **unused) {
    (void)unused;
    const rt_environment environment = {.threads = 1}, portable = {.threads = 1, .portable_only = true};
    uint64_t seed = 5;
    application app;
    application_init(&app, OP_AVERAGE_POOL);
    application_random(&app, OP_FLOAT, 4, (int64_t[]){1, 16, 8, 8}, &seed);
    application_integers(&app, "kernel_shape", 2, (const int64_t[]){2, 2});
    assert_int_equal(application_infer(&app), BASE_OK);
    assert_false(kernel_of(OP_AVERAGE_POOL)->accepts(&app.call, &environment)); /* row-major */
    app.inputs[0].type.layout = OP_LAYOUT_NC16;
    assert_false(kernel_of(OP_AVERAGE_POOL)->accepts(&app.call, &environment)); /* of two kinds */
    app.outputs[0].type.layout = OP_LAYOUT_NC16;
    assert_true(kernel_of(OP_AVERAGE_POOL)->accepts(&app.call, &environment));
    assert_false(kernel_of(OP_AVERAGE_POOL)->accepts(&app.call, &portable));
    app.inputs[0].type.dtype = app.outputs[0].type.dtype = OP_FLOAT16;
    assert_false(kernel_of(OP_AVERAGE_POOL)->accepts(&app.call, &environment));
    application_free(&app);
}

/* The images of an NCHW tensor, as one whose last dimension is the channels, and which has one channel. */
static void turn(const op_tensor *from, const op_tensor *to) {
    const int64_t *dims = from->type.shape.dims, points = dims[2] * dims[3];
    const size_t size = op_dtype_bytes(from->type.dtype);
    for (int64_t i = 0; i < dims[0] * dims[1] * points; i++) {
        const int64_t channel = i / points % dims[1], image = i / points / dims[1];
        memcpy((char *)to->data + (size_t)((image * points + i % points) * dims[1] + channel) * size,
               (const char *)from->data + (size_t)i * size, size);
    }
}

/* Attributes of a window of two dimensions, or with one of one element after them. */
static void add_window(application *app, const int64_t numbers[5][2], bool ceil, size_t rank) {
    static const char *const names[] = {"kernel_shape", "strides", "dilations"};
    for (int i = 0; i < 3; i++)
        application_integers(app, names[i], rank, (const int64_t[]){numbers[i][0], numbers[i][1], 1});
    if (rank == 2)
        application_integers(app, "pads", 4,
                             (const int64_t[]){numbers[3][0], numbers[3][1], numbers[4][0], numbers[4][1]});
    else
        application_integers(
            app, "pads", 6,
            (const int64_t[]){numbers[3][0], numbers[3][1], 0, numbers[4][0], numbers[4][1], 0});
    application_integer(app, "ceil_mode", ceil);
}

/* Bytes and floats of images whose last dimension stands for channels: what the pool of each channel gives. */
static void points_are_channels(void **unused) {
    (void)unused;
    static const op_dtype dtypes[] = {OP_INT8, OP_UINT8, OP_FLOAT};
    for (uint64_t round = 1; round <= 3 * ROUNDS; round++) {
        uint64_t seed = round;
        const op_dtype dtype = dtypes[round % 3];
        const int64_t images = random_range(&seed, 1, 2), channels = random_range(&seed, 1, 300),
                      height = random_range(&seed, 9, 14), width = random_range(&seed, 9, 14);
        int64_t numbers[5][2];
        const bool ceil = random_range(&seed, 0, 1);
        for (int i = 0; i < 2; i++) {
            numbers[0][i] = random_range(&seed, 1, 5);
            numbers[1][i] = random_range(&seed, 1, 3);
            numbers[2][i] = random_range(&seed, 1, 2);
            numbers[3][i] = random_range(&seed, 0, numbers[0][i] - 1);
            numbers[4][i] = random_range(&seed, 0, numbers[0][i] - 1);
        }
        print_message("seed %llu\n", (unsigned long long)round);
        application first, last;
        application_init(&first, OP_MAX_POOL);
        application_init(&last, OP_MAX_POOL);
        float *x = application_random(&first, dtype, 4, DIMS(images, channels, height, width), &seed);
        if (dtype == OP_FLOAT) x[random_range(&seed, 0, images * channels * height * width - 1)] = NAN;
        application_input(&last, dtype, 5, DIMS(images, 1, height, width, channels));
        turn(&first.inputs[0], &last.inputs[0]);
        add_window(&first, (const int64_t(*)[2])numbers, ceil, 2);
        add_window(&last, (const int64_t(*)[2])numbers, ceil, 3);
        application_run(&first, "portable.pool", 1);
        application_run(&last, dtype == OP_FLOAT ? "portable.pool_channels" : "portable.pool",
                        round % 2 ? 1 : 3);
        op_tensor expected = first.outputs[0];
        assert_int_equal(expected.bytes, last.outputs[0].bytes);
        expected.data = application_memory(&first, expected.bytes);
        turn(&first.outputs[0], &expected);
        assert_memory_equal(last.outputs[0].data, expected.data, expected.bytes);
        application_free(&first);
        application_free(&last);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_as_row_major), cmocka_unit_test(what_is_refused),
                                       cmocka_unit_test(averages_are_nearly_those_of_rows),
                                       cmocka_unit_test(averages_that_are_refused),
                                       cmocka_unit_test(points_are_channels)};
    return cmocka_run_group_tests_name("pool_channels", tests, NULL, NULL);
}
