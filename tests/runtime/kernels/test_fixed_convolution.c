/* SPDX-License-Identifier: Apache-2.0 */
/* test_fixed_convolution.c: convolutions of single points in fixed point beside the direct one, on machines that have tiles of bytes: random extents,
 * fused forms, residuals in place; bits depend neither on threads nor on bands; images whose numbers differ much in size, or are
 * infinite; what it refuses.
 */
#include "runtime/kernels/portable/fixed_tiles.h"
#include "tests/support/application.h"
#include "tests/support/support.h"
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char NAME[] = "portable.fixed_convolution";
static const op_layout layouts[] = {OP_LAYOUT_NC16, OP_LAYOUT_NHWC};

static void draw(application *app, uint64_t *seed, bool residual) {
    const int64_t images = random_range(seed, 1, 3), channels = random_range(seed, 32, 600),
                  filters = random_range(seed, 16, 100), height = random_range(seed, 1, 15),
                  width = random_range(seed, 8, 20);
    application_init(app, OP_CONV);
    if (random_range(seed, 0, 3)) {
        application_random(app, OP_FLOAT, 4, DIMS(images, channels, height, width), seed);
        application_random(app, OP_FLOAT, 4, DIMS(filters, channels, 1, 1), seed);
    } else {
        application_random(app, OP_FLOAT, 3, DIMS(images, channels, width), seed);
        application_random(app, OP_FLOAT, 3, DIMS(filters, channels, 1), seed);
    }
    if (random_range(seed, 0, 1)) application_random(app, OP_FLOAT, 1, DIMS(filters), seed);
    else application_absent(app);
    application_draw_activation(app, 6, seed);
    if (!residual) return;
    if (app->inputs[0].type.shape.rank == 4)
        application_random(app, OP_FLOAT, 4, DIMS(images, filters, height, width), seed);
    else application_random(app, OP_FLOAT, 3, DIMS(images, filters, width), seed);
}

/* In some images most numbers are small beside a few: their rows are multiplied twice. */
static void make_small(application *app, uint64_t *seed) {
    float *x = app->inputs[0].data;
    for (size_t i = 0; i < app->inputs[0].bytes / sizeof *x; i++)
        if (random_range(seed, 0, 9)) x[i] *= 1e-6f;
}

static void test_equals_the_direct_convolution(void **state) {
    (void)state;
    if (!rt_fixed_wanted()) skip();
    for (uint64_t trial = 1; trial <= support_share(40); trial++) {
        uint64_t seed = trial;
        const bool residual = trial % 3 == 0;
        const op_layout layout = layouts[trial % 2];
        application app;
        draw(&app, &seed, residual);
        if (trial % 5 == 0) make_small(&app, &seed);
        application_check_blocks(&app, NAME, "portable.convolution", layout, residual, trial);
        application_free(&app);
    }
}

/* Points with infinities and NaNs: sums over their channels are of the same kind as those of doubles, and others are as they were. */
static void check_infinite(op_layout layout, int threads, int64_t bands) {
    enum { IMAGES = 2, CHANNELS = 300, FILTERS = 40, POINTS = 35 };
    uint64_t seed = 5;
    application app;
    application_init(&app, OP_CONV);
    application_random(&app, OP_FLOAT, 3, DIMS(IMAGES, CHANNELS, POINTS), &seed);
    application_random(&app, OP_FLOAT, 3, DIMS(FILTERS, CHANNELS, 1), &seed);
    float *x = app.inputs[0].data, *w = app.inputs[1].data;
    for (int64_t i = 0; i < FILTERS * CHANNELS; i += 13) w[i] = 0;
    assert_int_equal(application_infer(&app), BASE_OK);
    const op_tensor before = application_run_blocks(&app, NAME, layout, SIZE_MAX, bands, threads, false);
    x[0] = INFINITY;
    x[20 * POINTS + 18] = -INFINITY;
    x[299 * POINTS + 18] = INFINITY;
    x[(CHANNELS + 299) * POINTS + 34] = -INFINITY;
    x[(CHANNELS + 17) * POINTS + 2] = NAN;
    const op_tensor after = application_run_blocks(&app, NAME, layout, SIZE_MAX, bands, threads, false);
    const float *got = after.data, *was = before.data;
    for (int64_t at = 0; at < IMAGES * FILTERS * POINTS; at++) {
        const int64_t image = at / POINTS / FILTERS, filter = at / POINTS % FILTERS, point = at % POINTS;
        double sum = 0;
        bool finite = true;
        for (int64_t k = 0; k < CHANNELS; k++) {
            const double number = (double)x[(image * CHANNELS + k) * POINTS + point];
            finite &= isfinite(number);
            sum += number * (double)w[filter * CHANNELS + k];
        }
        const bool alike = isnan(sum) ? isnan(got[at]) : (double)got[at] == sum;
        if (finite ? memcmp(&got[at], &was[at], sizeof *got) != 0 : !alike)
            fail_msg("%d threads, filter %d, point %d: %g, expected %g", threads, (int)filter, (int)point,
                     (double)got[at], sum);
    }
    application_free(&app);
}

static void test_not_finite(void **state) {
    (void)state;
    if (!rt_fixed_wanted()) skip();
    for (int threads = 1; threads <= 5; threads++)
        for (int64_t bands = 0; bands <= 3; bands++)
            for (int i = 0; i < 2; i++) check_infinite(layouts[i], threads, bands);
}

static bool is_estimated(application_square of) {
    rt_cost cost;
    of.filters = 64;
    if (!of.extent) of.extent = 14;
    return application_estimates_square(NAME, &of, SIZE_MAX, &cost);
}

static void test_refuses(void **state) {
    (void)state;
    static const application_square refused[] = {
        {.channels = 64, .layout = OP_LAYOUT_ROW_MAJOR},
        {.channels = 64, .kernel = 3, .layout = OP_LAYOUT_NC16},
        {.channels = 64, .stride = 2, .layout = OP_LAYOUT_NC16},
        {.channels = 64, .group = 2, .layout = OP_LAYOUT_NC16},
        {.channels = 16, .layout = OP_LAYOUT_NC16},
        {.channels = 64, .extent = 2, .layout = OP_LAYOUT_NC16},
        {.channels = 64, .layout = OP_LAYOUT_NC16, .portable_only = true},
    };
    for (int i = 0; i < 2; i++)
        assert_int_equal(is_estimated((application_square){.channels = 64, .layout = layouts[i]}),
                         rt_fixed_wanted());
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (is_estimated(refused[i])) fail_msg("case %zu is not refused", i);
}

static double predicted_ratio(int64_t channels, int64_t filters, int64_t extent) {
    const application_square of = {
        .channels = channels, .filters = filters, .extent = extent, .layout = OP_LAYOUT_NHWC};
    return application_square_ratio(NAME, "onednn.convolution", &of);
}

/* Numbers that become digits are little beside many filters only. */
static void test_predictions(void **state) {
    (void)state;
    if (!rt_fixed_wanted() || !rt_kernel_find("onednn.convolution")) skip();
    assert_true(predicted_ratio(1024, 1024, 14) < 0.55);
    assert_true(predicted_ratio(256, 256, 28) < 0.7);
    assert_true(predicted_ratio(128, 32, 52) > 1);
    assert_in_range(100 * predicted_ratio(64, 64, 56), 80, 120);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_the_direct_convolution),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_predictions),
    };
    return cmocka_run_group_tests_name("fixed_convolution", tests, NULL, NULL);
}
