/* SPDX-License-Identifier: Apache-2.0 */
/* test_winograd.c: the convolution by Winograd's transform beside the direct one: random shapes in every layout, fused forms,
 * residuals in place, blocks of tiles, windows along one axis; its bits depend neither on threads nor on blocks; what it refuses.
 */
#include "runtime/kernels/portable/cost.h"
#include "tests/support/allocations.h"
#include "tests/support/application.h"
#include "tests/support/support.h"
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const rt_environment one_thread = {.threads = 1};

/* Windows of so many elements along each axis; of a signal, where there is one axis. */
typedef struct windows {
    int32_t rank;
    int64_t extents[2];
} windows;

/* The fewest channels and filters of which this machine has an estimate. */
static int64_t fewest_channels(void) {
    return rt_winograd_is_predicted(8, 8, &one_thread) ? 8 : 16;
}

/* An application of random extents. */
static void draw(application *app, op_dtype dtype, const windows *of, uint64_t *seed, bool residual) {
    const int64_t fewest = fewest_channels();
    const int64_t images = random_range(seed, 1, 3), channels = random_range(seed, fewest, 50),
                  filters = random_range(seed, fewest, 50);
    const int32_t rank = of->rank + 2;
    int64_t x[4] = {images, channels}, y[4] = {images, filters}, weights[4] = {filters, channels},
            pads[4] = {0};
    for (int32_t i = 0; i < of->rank; i++) {
        weights[i + 2] = of->extents[i];
        x[i + 2] = random_range(seed, of->extents[i], 20);
    }
    application_init(app, OP_CONV);
    application_random(app, dtype, rank, x, seed);
    application_random(app, dtype, rank, weights, seed);
    if (random_range(seed, 0, 1)) application_random(app, dtype, 1, DIMS(filters), seed);
    else application_absent(app);
    for (int32_t i = 0; i < 2 * of->rank; i++)
        if (of->extents[i % of->rank] > 1) pads[i] = random_range(seed, 0, 2);
    for (int32_t i = 0; i < of->rank; i++)
        y[i + 2] = x[i + 2] + pads[i] + pads[i + of->rank] - of->extents[i] + 1;
    application_integers(app, "pads", 2 * (size_t)of->rank, pads);
    application_draw_activation(app, 7, seed);
    if (residual) application_random(app, dtype, rank, y, seed);
}

static op_tensor run_winograd(application *app, const char *name, op_layout layout, size_t scratch_limit,
                              int threads, bool in_place) {
    return application_run_blocks(app, name, layout, scratch_limit, 0, threads, in_place);
}

static void compare_with_direct(const windows *of, const op_layout *layouts, size_t layout_count,
                                uint64_t trials) {
    for (uint64_t trial = 1; trial <= support_share(trials); trial++) {
        uint64_t seed = trial;
        const bool residual = trial % 3 == 0;
        application app;
        draw(&app, OP_FLOAT, of, &seed, residual);
        application_run(&app, "portable.convolution", 1);
        const op_tensor expected = app.outputs[0];
        for (size_t i = 0; i < layout_count; i++) {
            const op_tensor all = run_winograd(&app, "portable.winograd", layouts[i], SIZE_MAX, 1, false);
            const op_tensor blocks = run_winograd(&app, "portable.winograd", layouts[i], 600000, 2,
                                                  residual && layouts[i] != OP_LAYOUT_ROW_MAJOR);
            const op_tensor transforming = run_winograd(&app, "portable.winograd_transforming", layouts[i],
                                                        SIZE_MAX, 1 + (int)(trial % 3), false);
            int64_t count;
            assert_true(op_shape_elements(&expected.type.shape, &count));
            for (int64_t k = 0; k < count; k++)
                application_check_near(((const float *)all.data)[k], ((const float *)expected.data)[k], 1e-4,
                                       trial, k);
            if (memcmp(all.data, blocks.data, (size_t)count * sizeof(float)) != 0)
                fail_msg("seed %" PRIu64 ", %s: blocks or threads change the result", trial,
                         op_layout_name(layouts[i]));
            if (memcmp(all.data, transforming.data, (size_t)count * sizeof(float)) != 0)
                fail_msg("seed %" PRIu64 ", %s: weights transformed in the run are others", trial,
                         op_layout_name(layouts[i]));
        }
        application_free(&app);
    }
}

static const op_layout layouts[] = {OP_LAYOUT_ROW_MAJOR, OP_LAYOUT_NHWC, OP_LAYOUT_NC8, OP_LAYOUT_NC16};

static void test_equals_the_direct_convolution(void **state) {
    (void)state;
    compare_with_direct(&(windows){2, {3, 3}}, layouts, 4, 30);
}

/* Windows along one axis: of images, and of signals. */
static void test_lines(void **state) {
    (void)state;
    static const windows lines[] = {{2, {3, 1}}, {2, {1, 3}}, {2, {5, 1}}, {2, {1, 5}}, {1, {3}}, {1, {5}}};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        compare_with_direct(&lines[i], layouts + 1, 3, 12);
}

/* Channels and filters that are entered, multiplied and left in several groups, of few tiles and of many; their number decides which threads
 * have products of their own. */
static void test_many_channels(void **state) {
    (void)state;
    for (uint64_t trial = 1; trial <= 6; trial++) {
        uint64_t seed = trial;
        const int64_t channels = random_range(&seed, 60, 300), filters = random_range(&seed, 30, 270),
                      extent = random_range(&seed, 3, 13);
        application app;
        application_init(&app, OP_CONV);
        application_random(&app, OP_FLOAT, 4, DIMS(1, channels, extent, extent), &seed);
        application_random(&app, OP_FLOAT, 4, DIMS(filters, channels, 3, 3), &seed);
        application_random(&app, OP_FLOAT, 1, DIMS(filters), &seed);
        application_integers(&app, "pads", 4, DIMS(1, 1, 1, 1));
        application_run(&app, "portable.convolution", 1);
        const op_tensor expected = app.outputs[0];
        const op_layout layout = layouts[1 + trial % 3];
        const op_tensor all = run_winograd(&app, "portable.winograd", layout, SIZE_MAX, 1, false);
        int64_t count;
        assert_true(op_shape_elements(&expected.type.shape, &count));
        /* Both round at every step of long sums, whose parts are larger than what they come to. */
        float largest = 0;
        for (int64_t k = 0; k < count; k++)
            largest = fmaxf(largest, fabsf(((const float *)expected.data)[k]));
        for (int64_t k = 0; k < count; k++)
            if (!(fabsf(((const float *)all.data)[k] - ((const float *)expected.data)[k]) <= 1e-4f * largest))
                fail_msg("seed %" PRIu64 ", element %" PRId64 ": not near the direct convolution's", trial,
                         k);
        for (int threads = 1; threads <= 4; threads++) {
            const size_t limit = (size_t)(200 + 150 * threads) << 10;
            static const char *const names[] = {"portable.winograd", "portable.winograd_transforming"};
            for (int i = 0; i < 2; i++) {
                const op_tensor other =
                    run_winograd(&app, names[i], layout, i ? 4 * limit : 2 * limit, threads, false);
                if (memcmp(all.data, other.data, (size_t)count * sizeof(float)) != 0)
                    fail_msg("seed %" PRIu64 ", %s, %d threads: another result", trial, names[i], threads);
            }
        }
        application_free(&app);
    }
}

/* Few channels and many tiles, which threads share out: the same bits as alone, whatever is left over for the last of them. */
static void test_many_tiles(void **state) {
    (void)state;
    static const char *const names[] = {"portable.winograd", "portable.winograd_transforming"};
    for (uint64_t trial = 1; trial <= 6; trial++) {
        uint64_t seed = trial;
        const int64_t fewest = fewest_channels(), channels = random_range(&seed, fewest, 70),
                      filters = random_range(&seed, fewest, 70);
        application app;
        application_init(&app, OP_CONV);
        application_random(&app, OP_FLOAT, 4,
                           DIMS(random_range(&seed, 1, 2), channels, random_range(&seed, 20, 50),
                                random_range(&seed, 20, 50)),
                           &seed);
        application_random(&app, OP_FLOAT, 4, DIMS(filters, channels, 3, 3), &seed);
        application_random(&app, OP_FLOAT, 1, DIMS(filters), &seed);
        application_integers(&app, "pads", 4, DIMS(1, 1, 1, 1));
        assert_int_equal(application_infer(&app), BASE_OK);
        const op_layout layout = layouts[1 + trial % 3];
        const op_tensor all = run_winograd(&app, names[0], layout, SIZE_MAX, 1, false);
        for (int threads = 2; threads <= 4; threads++) {
            for (int64_t i = 0; i < 24; i++) {
                /* The last block has fewer tiles than the others: who is ahead must not touch what another one reads. */
                const op_tensor other =
                    application_run_blocks(&app, names[i % 2], layout, SIZE_MAX, 1 + i / 2, threads, false);
                assert_int_equal(all.bytes, other.bytes);
                if (memcmp(all.data, other.data, all.bytes) != 0)
                    fail_msg("seed %" PRIu64 ", %s, %d threads: another result", trial, names[i % 2],
                             threads);
            }
        }
        application_free(&app);
    }
}

/* In 16 bits, where channels lie innermost: beside the direct kernel, and the same bits whatever the blocks, threads and weights. */
static void test_sixteen_bits(void **state) {
    (void)state;
    static const op_dtype types[] = {OP_FLOAT16, OP_BFLOAT16};
    static const windows kinds[] = {{2, {3, 3}}, {2, {3, 3}}, {2, {1, 3}}, {2, {5, 1}}, {1, {5}}};
    for (uint64_t trial = 1; trial <= support_share(40); trial++) {
        uint64_t seed = trial;
        const bool residual = trial % 3 == 0;
        const op_dtype dtype = types[trial % 2];
        const op_layout layout = trial % 4 < 2 ? OP_LAYOUT_NC16 : OP_LAYOUT_NHWC;
        application app;
        draw(&app, dtype, &kinds[trial % 5], &seed, residual);
        application_run(&app, "portable.convolution", 1);
        const op_tensor expected = app.outputs[0];
        const op_tensor all = run_winograd(&app, "portable.winograd", layout, SIZE_MAX, 1, false);
        const op_tensor blocks = run_winograd(&app, "portable.winograd", layout, 600000, 2, residual);
        const op_tensor transforming = run_winograd(&app, "portable.winograd_transforming", layout, SIZE_MAX,
                                                    1 + (int)(trial % 3), false);
        int64_t count;
        assert_true(op_shape_elements(&expected.type.shape, &count));
        /* Both are rounded: neighbours of 11 or 8 bits, of sums that differ in the last digits of floats. */
        for (int64_t k = 0; k < count; k++)
            application_check_near(application_element(&all, k), application_element(&expected, k),
                                   dtype == OP_FLOAT16 ? 0x1p-9 : 0x1p-6, trial, k);
        if (memcmp(all.data, blocks.data, all.bytes) != 0)
            fail_msg("seed %" PRIu64 ": blocks or threads change the result", trial);
        if (memcmp(all.data, transforming.data, all.bytes) != 0)
            fail_msg("seed %" PRIu64 ": weights transformed in the run are others", trial);
        application_free(&app);
    }
}

static void expect_refused(application *app) {
    rt_cost cost;
    assert_int_equal(application_infer(app), BASE_OK);
    assert_false(rt_kernel_find("portable.winograd")->estimate(&app->call, &one_thread, SIZE_MAX, &cost));
    application_free(app);
}

static void test_refuses(void **state) {
    (void)state;
    static const struct {
        int64_t channels, filters, kernel, stride, dilation, group;
    } cases[] = {{16, 16, 5, 1, 1, 1},
                 {16, 16, 3, 2, 1, 1},
                 {16, 16, 3, 1, 2, 1},
                 {32, 32, 3, 1, 1, 2},
                 {3, 16, 3, 1, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        application app;
        application_init(&app, OP_CONV);
        application_input(&app, OP_FLOAT, 4, DIMS(1, cases[i].channels, 12, 12));
        application_input(
            &app, OP_FLOAT, 4,
            DIMS(cases[i].filters, cases[i].channels / cases[i].group, cases[i].kernel, cases[i].kernel));
        application_integers(&app, "strides", 2, DIMS(cases[i].stride, cases[i].stride));
        application_integers(&app, "dilations", 2, DIMS(cases[i].dilation, cases[i].dilation));
        application_integer(&app, "group", cases[i].group);
        expect_refused(&app);
    }
}

/* What fits into less scratch is cut into more blocks, until nothing fits. */
static void test_scratch_limits_blocks(void **state) {
    (void)state;
    const rt_kernel *kernel = rt_kernel_find("portable.winograd");
    application app;
    application_init(&app, OP_CONV);
    application_input(&app, OP_FLOAT, 4, DIMS(1, 64, 56, 56));
    application_input(&app, OP_FLOAT, 4, DIMS(64, 64, 3, 3));
    application_integers(&app, "pads", 4, DIMS(1, 1, 1, 1));
    assert_int_equal(application_infer(&app), BASE_OK);
    rt_cost any, little, none;
    assert_true(kernel->estimate(&app.call, &one_thread, SIZE_MAX, &any));
    assert_true(kernel->estimate(&app.call, &one_thread, 400000, &little));
    assert_true(little.blocks > any.blocks || any.scratch_bytes <= 400000);
    assert_true(little.scratch_bytes <= 400000);
    assert_false(kernel->estimate(&app.call, &one_thread, 100000, &none));
    /* Products of some filters at a time, where channels lie innermost. */
    app.inputs[0].type.layout = app.outputs[0].type.layout = OP_LAYOUT_NC16;
    assert_true(kernel->estimate(&app.call, &one_thread, 100000, &little));
    assert_true(little.scratch_bytes <= 100000);
    assert_false(kernel->estimate(&app.call, &one_thread, 50000, &none));
    application_free(&app);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_the_direct_convolution),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_many_channels),
        cmocka_unit_test(test_many_tiles),
        cmocka_unit_test(test_sixteen_bits),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_scratch_limits_blocks),
    };
    return cmocka_run_group_tests_name("winograd", tests, NULL, NULL);
}
