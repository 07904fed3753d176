/* SPDX-License-Identifier: Apache-2.0 */
/* test_window_convolution.c: the convolution with windows in fixed point beside the direct one, on machines that have such tiles: random windows,
 * strides, dilations and padding, fused forms, residuals in place; as near to sums of doubles as sums of floats are; its bits depend neither on
 * threads nor on bands; what it refuses. On other machines: it is never chosen.
 */
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/fixed_tiles.h"
#include "tests/support/application.h"
#include "tests/support/support.h"
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char NAME[] = "portable.window_convolution";
static const rt_environment one_thread = {.threads = 1};
static const op_layout layouts[] = {OP_LAYOUT_NC16, OP_LAYOUT_NHWC};

static void needs_tiles(void) {
    if (!rt_fixed_wanted()) skip();
}

/* A signal or an image of random extents, as the window fits into it, with one of the first `kinds` activations; some images are one point high
 * or wide. */
static void draw(application *app, uint64_t *seed, bool residual, int kinds) {
    const int32_t spatial = (int32_t)random_range(seed, 1, 3) == 1 ? 1 : 2, rank = spatial + 2,
                  flat = (int32_t)random_range(seed, 0, 7); /* this dimension has one point */
    const bool line = spatial == 1 || flat < 2;
    const int64_t images = random_range(seed, 1, 3),
                  groups = random_range(seed, 0, 3) ? 1 : random_range(seed, 2, 3),
                  unit = groups > 1 ? 16 * groups : 1,
                  channels = groups > 1 ? unit * random_range(seed, 1, 5) : random_range(seed, 16, 100),
                  filters = groups > 1 ? unit * random_range(seed, 1, 3) : random_range(seed, 16, 100);
    int64_t x[4] = {images, channels}, y[4] = {images, filters}, weights[4] = {filters, channels / groups},
            pads[4] = {0}, strides[2], dilations[2];
    for (int32_t i = 0; i < spatial; i++) {
        const bool one = spatial == 2 && i == flat;
        /* At least one dimension has a window. */
        const bool first = i == (spatial == 2 && flat == 0 ? 1 : 0);
        weights[i + 2] = one ? 1 : random_range(seed, first ? 2 : 1, 5);
        strides[i] = random_range(seed, 1, line && !one ? 9 : 3);
        dilations[i] = random_range(seed, 1, 3);
        const int64_t seen = (weights[i + 2] - 1) * dilations[i] + 1;
        x[i + 2] = one ? 1 : random_range(seed, seen, seen + (line ? 150 : 20));
        pads[i] = one ? 0 : random_range(seed, 0, 3);
        pads[i + spatial] = one ? 0 : random_range(seed, 0, 3);
        y[i + 2] = (x[i + 2] + pads[i] + pads[i + spatial] - seen) / strides[i] + 1;
    }
    application_init(app, OP_CONV);
    application_random(app, OP_FLOAT, rank, x, seed);
    application_random(app, OP_FLOAT, rank, weights, seed);
    if (random_range(seed, 0, 1)) application_random(app, OP_FLOAT, 1, DIMS(filters), seed);
    else application_absent(app);
    application_integers(app, "pads", 2 * (size_t)spatial, pads);
    application_integers(app, "strides", (size_t)spatial, strides);
    application_integers(app, "dilations", (size_t)spatial, dilations);
    application_integer(app, "group", groups);
    application_draw_activation(app, kinds, seed);
    if (residual) application_random(app, OP_FLOAT, rank, y, seed);
}

static void test_equals_the_direct_convolution(void **state) {
    (void)state;
    needs_tiles();
    for (uint64_t trial = 1; trial <= support_share(100); trial++) {
        uint64_t seed = trial;
        const bool residual = trial % 3 == 0;
        const op_layout layout = layouts[trial % 2];
        application app;
        draw(&app, &seed, residual, 7);
        application_check_blocks(&app, NAME, "portable.convolution", layout, residual, trial);
        application_free(&app);
    }
}

/* Sums of many steps, which wait in scratch; few points, and more of them than two tiles have. */
static void test_many_channels(void **state) {
    (void)state;
    needs_tiles();
    for (uint64_t trial = 1; trial <= support_share(12); trial++) {
        uint64_t seed = trial;
        const int64_t channels = random_range(&seed, 100, 900), filters = random_range(&seed, 16, 130),
                      extent = random_range(&seed, 1, 9), kernel = random_range(&seed, 2, 3);
        application app;
        application_init(&app, OP_CONV);
        application_random(&app, OP_FLOAT, 4, DIMS(1, channels, extent, extent), &seed);
        application_random(&app, OP_FLOAT, 4, DIMS(filters, channels, kernel, kernel), &seed);
        application_random(&app, OP_FLOAT, 1, DIMS(filters), &seed);
        application_integers(&app, "pads", 4, DIMS(kernel / 2, kernel / 2, kernel / 2, kernel / 2));
        application_run(&app, "portable.convolution", 1);
        const op_tensor expected = app.outputs[0];
        const op_layout layout = layouts[trial % 2];
        const op_tensor all = application_run_blocks(&app, NAME, layout, SIZE_MAX, 1, 1, false);
        float largest = 0;
        for (size_t k = 0; k < all.bytes / sizeof(float); k++)
            largest = fmaxf(largest, fabsf(((const float *)expected.data)[k]));
        for (size_t k = 0; k < all.bytes / sizeof(float); k++)
            if (!(fabsf(((const float *)all.data)[k] - ((const float *)expected.data)[k]) <= 1e-5f * largest))
                fail_msg("seed %" PRIu64 ", element %zu: not near the direct convolution's", trial, k);
        for (int threads = 2; threads <= 5; threads++) {
            for (int64_t blocks = 1; blocks < 4; blocks++) {
                const op_tensor other =
                    application_run_blocks(&app, NAME, layout, SIZE_MAX, blocks, threads, false);
                if (memcmp(all.data, other.data, all.bytes) != 0)
                    fail_msg("seed %" PRIu64 ", %d threads: another result", trial, threads);
            }
        }
        application_free(&app);
    }
}

typedef struct exactness {
    double floats, fixed; /* the largest difference from sums of doubles, of the sum of all sizes */
} exactness;

enum { CHANNELS = 80, FILTERS = 48, POINTS = 50, TAPS = 3 };

/* A signal of CHANNELS by POINTS and windows of TAPS, where `change` makes their numbers. */
static exactness find_exactness(uint64_t trial, void (*change)(float *x, float *w, uint64_t *seed)) {
    uint64_t seed = trial;
    exactness found = {0};
    application app;
    application_init(&app, OP_CONV);
    application_random(&app, OP_FLOAT, 4, DIMS(1, CHANNELS, 1, POINTS), &seed);
    application_random(&app, OP_FLOAT, 4, DIMS(FILTERS, CHANNELS, 1, TAPS), &seed);
    float *x = app.inputs[0].data, *w = app.inputs[1].data;
    change(x, w, &seed);
    application_run(&app, "portable.convolution", 1);
    const float *direct = app.outputs[0].data;
    const op_tensor fixed = application_run_blocks(&app, NAME, OP_LAYOUT_NC16, SIZE_MAX, 1, 1, false);
    const int64_t points = POINTS - TAPS + 1;
    for (int64_t f = 0; f < FILTERS; f++) {
        for (int64_t p = 0; p < points; p++) {
            double sum = 0, size = 0;
            for (int64_t i = 0; i < CHANNELS * TAPS; i++) {
                const double product =
                    (double)x[i / TAPS * POINTS + p + i % TAPS] * (double)w[f * CHANNELS * TAPS + i];
                sum += product;
                size += fabs(product);
            }
            const int64_t at = f * points + p;
            found.floats = fmax(found.floats, fabs((double)direct[at] - sum) / size);
            found.fixed = fmax(found.fixed, fabs((double)((const float *)fixed.data)[at] - sum) / size);
        }
    }
    application_free(&app);
    return found;
}

static exactness find_worst(void (*change)(float *x, float *w, uint64_t *seed)) {
    exactness worst = {0};
    for (uint64_t trial = 1; trial <= 8; trial++) {
        const exactness found = find_exactness(trial, change);
        worst.floats = fmax(worst.floats, found.floats);
        worst.fixed = fmax(worst.fixed, found.fixed);
    }
    print_message("off by, of the sum of sizes: %.3g in floats, %.3g in fixed point\n", worst.floats,
                  worst.fixed);
    return worst;
}

static void change_sizes(float *x, float *w, uint64_t *seed) {
    for (int64_t i = 0; i < CHANNELS * POINTS; i++) x[i] *= ldexpf(1, (int)random_range(seed, 0, 6) - 3);
    for (int64_t i = 0; i < FILTERS * CHANNELS * TAPS; i++)
        w[i] *= ldexpf(1, (int)random_range(seed, 0, 6) - 3);
}

/* Points are down to 2^-30 of the largest, side by side or alone: such are coarse, and lose nothing. */
static void fade(float *x, float *w, uint64_t *seed) {
    (void)w, (void)seed;
    for (int64_t i = 0; i < CHANNELS * POINTS; i++) x[i] *= ldexpf(1, -(int)(i % POINTS * 30 / POINTS));
}

/* One number is 2^20 times as large as all others. */
static void make_peak(float *x, float *w, uint64_t *seed) {
    (void)w;
    x[random_range(seed, 0, CHANNELS * POINTS - 1)] = 0x1p20f;
}

static void test_is_nearly_as_exact_as_floats(void **state) {
    (void)state;
    needs_tiles();
    const exactness sizes = find_worst(change_sizes);
    assert_true(sizes.fixed < 0x1p-18);
    assert_true(find_worst(fade).fixed < 0x1p-16);
    assert_true(find_worst(make_peak).fixed < 0x1p-13);
}

/* Infinities and NaNs are where the direct convolution has them, and all other numbers are near its. */
static void test_not_finite(void **state) {
    (void)state;
    needs_tiles();
    for (uint64_t trial = 1; trial <= support_share(24); trial++) {
        uint64_t seed = trial;
        application app;
        draw(&app, &seed, trial % 3 == 0, 2);
        float *x = app.inputs[0].data;
        const int64_t count = (int64_t)(app.inputs[0].bytes / sizeof *x);
        const float kinds[] = {INFINITY, -INFINITY, NAN};
        for (int64_t i = random_range(&seed, 1, 3); i > 0; i--)
            x[random_range(&seed, 0, count - 1)] = kinds[random_range(&seed, 0, 2)];
        application_run(&app, "portable.convolution", 1);
        const op_tensor expected = app.outputs[0];
        const op_layout layout = layouts[trial % 2];
        const op_tensor all = application_run_blocks(&app, NAME, layout, SIZE_MAX, 1, 1, false);
        for (int64_t k = 0; k < (int64_t)(all.bytes / sizeof *x); k++) {
            const double got = application_element(&all, k), wanted = application_element(&expected, k);
            if (isfinite(wanted)) application_check_near(got, wanted, 1e-4, trial, k);
            else if (isnan(wanted) ? !isnan(got) : got != wanted)
                fail_msg("seed %" PRIu64 ", element %" PRId64 ": %g, expected %g", trial, k, got, wanted);
        }
        for (int threads = 2; threads <= 3; threads++) {
            const op_tensor other = application_run_blocks(&app, NAME, layout, SIZE_MAX, 2, threads, false);
            for (int64_t k = 0; k < (int64_t)(all.bytes / sizeof *x); k++) {
                const double got = application_element(&other, k), wanted = application_element(&all, k);
                if (isnan(wanted) ? !isnan(got) : got != wanted)
                    fail_msg("seed %" PRIu64 ", %d threads: another result", trial, threads);
            }
        }
        application_free(&app);
    }
}

static bool is_estimated(application_square of) {
    rt_cost cost;
    of.extent = 24;
    of.kernel = 3;
    return application_estimates_square(NAME, &of, SIZE_MAX, &cost);
}

static void test_refuses(void **state) {
    (void)state;
    static const application_square taken[] = {
        {.channels = 32, .layout = OP_LAYOUT_NC16},
        {.channels = 32, .stride = 2, .layout = OP_LAYOUT_NHWC},
        {.channels = 32, .group = 2, .layout = OP_LAYOUT_NC16},
    };
    static const application_square refused[] = {
        {.channels = 32, .layout = OP_LAYOUT_NC16, .portable_only = true},
        {.channels = 32, .filters = 48, .group = 2, .layout = OP_LAYOUT_NC16},
        {.channels = 48, .filters = 32, .group = 2, .layout = OP_LAYOUT_NHWC},
        {.channels = 32, .stride = 9, .layout = OP_LAYOUT_NC16},
        {.channels = 32, .layout = OP_LAYOUT_NC8},
        {.channels = 32, .layout = OP_LAYOUT_ROW_MAJOR},
        {.channels = 32, .layout = OP_LAYOUT_NC16, .dtype = OP_FLOAT16},
        {.channels = 8, .filters = 32, .layout = OP_LAYOUT_NHWC},
    };
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        assert_int_equal(is_estimated(taken[i]), rt_fixed_wanted());
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (is_estimated(refused[i])) fail_msg("case %zu is not refused", i);
}

/* What fits into less scratch is cut into more bands, until nothing fits. */
static void test_scratch_limits_bands(void **state) {
    (void)state;
    needs_tiles();
    const application_square of = {.channels = 64, .extent = 56, .kernel = 3, .layout = OP_LAYOUT_NC16};
    rt_cost any, little, none;
    assert_true(application_estimates_square(NAME, &of, SIZE_MAX, &any));
    assert_true(application_estimates_square(NAME, &of, any.scratch_bytes * 2 / 3, &little));
    assert_true(little.blocks > any.blocks && little.seconds >= any.seconds);
    assert_true(little.scratch_bytes <= any.scratch_bytes * 2 / 3);
    assert_false(application_estimates_square(NAME, &of, 20000, &none));
}

/* Signals, and images one point high or wide, are cut into bands too. */
static void test_signals_have_bands(void **state) {
    (void)state;
    needs_tiles();
    static const int64_t extents[][4] = {{1, 128, 1, 2000}, {1, 128, 2000, 1}, {1, 128, 2000}};
    static const int64_t weights[][4] = {{64, 128, 1, 5}, {64, 128, 5, 1}, {64, 128, 5}};
    for (int i = 0; i < 3; i++) {
        const rt_kernel *kernel = rt_kernel_find(NAME);
        application app;
        application_init(&app, OP_CONV);
        application_input(&app, OP_FLOAT, i < 2 ? 4 : 3, extents[i]);
        application_input(&app, OP_FLOAT, i < 2 ? 4 : 3, weights[i]);
        assert_int_equal(application_infer(&app), BASE_OK);
        app.inputs[0].type.layout = app.outputs[0].type.layout = OP_LAYOUT_NC16;
        rt_cost any, little;
        assert_true(kernel->estimate(&app.call, &one_thread, SIZE_MAX, &any));
        assert_true(kernel->estimate(&app.call, &one_thread, 200000, &little));
        assert_true(little.scratch_bytes <= 200000 && little.blocks > any.blocks + 2);
        assert_true(little.seconds >= any.seconds && little.seconds < 2 * any.seconds);
        application_free(&app);
    }
}

static double predicted_ratio(int64_t channels, int64_t extent, int64_t dilation) {
    const application_square of = {
        .channels = channels, .extent = extent, .kernel = 3, .dilation = dilation, .layout = OP_LAYOUT_NC16};
    return application_square_ratio(NAME, "portable.convolution", &of);
}

/* Images take about a quarter of the time of the direct convolution, those of few points with many weights somewhat more. It multiplies all elements of
 * windows, also where they are dilated so far that most of them see no image. */
static void test_predictions(void **state) {
    (void)state;
    needs_tiles();
    assert_in_range(100 * predicted_ratio(128, 28, 1), 24, 36);
    assert_in_range(100 * predicted_ratio(256, 14, 1), 24, 36);
    assert_in_range(100 * predicted_ratio(512, 7, 1), 28, 50);
    assert_true(predicted_ratio(256, 28, 12) > 2 * predicted_ratio(256, 28, 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_the_direct_convolution),
        cmocka_unit_test(test_many_channels),
        cmocka_unit_test(test_is_nearly_as_exact_as_floats),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_scratch_limits_bands),
        cmocka_unit_test(test_signals_have_bands),
        cmocka_unit_test(test_predictions),
    };
    return cmocka_run_group_tests_name("window_convolution", tests, NULL, NULL);
}
