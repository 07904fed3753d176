/* SPDX-License-Identifier: Apache-2.0 */
/* test_pointwise.c: convolutions of single points with weights in tiles beside the gathering ones, in float and in 16 bits: random groups,
 * also of few channels, fused forms, residuals in place, more channels than a panel holds; vectors of every width; bits that do not depend
 * on threads; NaN; what is refused.
 */
#include "runtime/kernels/portable/pointwise_tiles.h"
#include "tests/support/allocations.h"
#include "tests/support/application.h"
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { ROUNDS = 120 };

static const rt_environment one_thread = {.threads = 1};

static const rt_kernel *kernel(void) {
    return rt_kernel_of(OP_CONV, "portable.pointwise");
}

static void draw(application *app, op_dtype dtype, uint64_t *seed, bool residual) {
    const int64_t images = random_range(seed, 1, 2), group = random_range(seed, 1, 4);
    const bool few =
        group > 1 && random_range(seed, 0, 1); /* channels and filters, which groups alone may have */
    const int64_t channels = few                        ? random_range(seed, 2, 9)
                             : random_range(seed, 0, 9) ? random_range(seed, 4, 60)
                             : dtype == OP_FLOAT        ? 300
                                                        : 250,
                  filters = few ? random_range(seed, 1, 8) : random_range(seed, 3, 40);
    const int64_t height = random_range(seed, 1, few ? 50 : 12), width = random_range(seed, 1, few ? 25 : 12);
    application_init(app, OP_CONV);
    application_random(app, dtype, 4, DIMS(images, group * channels, height, width), seed);
    application_random(app, dtype, 4, DIMS(group * filters, channels, 1, 1), seed);
    if (random_range(seed, 0, 1)) application_random(app, dtype, 1, DIMS(group * filters), seed);
    else application_absent(app);
    application_integer(app, "group", group);
    application_draw_activation(app, 7, seed);
    if (residual) application_random(app, dtype, 4, DIMS(images, group * filters, height, width), seed);
}

/* Packs the weights and runs the application in vectors of at most so many floats, with the result where the residual lies if that is
 * asked for. */
static op_tensor run_narrow(application *app, int threads, bool in_place, int lanes) {
    const rt_environment environment = {.threads = threads};
    op_tensor inputs[APPLICATION_INPUTS], output = app->outputs[0];
    op_call call = app->call;
    rt_cost cost;
    memcpy(inputs, app->inputs, sizeof inputs);
    call.inputs = inputs;
    call.outputs = &output;
    if (!kernel()->estimate(&call, &environment, 0, &cost)) fail_msg("no estimate for this application");
    assert_true(cost.seconds > 0 && cost.scratch_bytes == 0);
    const int64_t *dims = app->inputs[1].type.shape.dims,
                  depth = app->inputs[1].type.dtype == OP_BFLOAT16 ? (dims[1] + 1) / 2 * 2 : dims[1];
    assert_int_equal(cost.packed_bytes * (size_t)dims[1], app->inputs[1].bytes * (size_t)depth);
    inputs[1].type.layout = OP_LAYOUT_PACKED;
    inputs[1].type.packed_bytes = cost.packed_bytes;
    inputs[1].data = application_memory(app, cost.packed_bytes);
    memset(inputs[1].data, 0, cost.packed_bytes);
    assert_int_equal(kernel()->pack(&call, &environment, 1, &app->inputs[1], inputs[1].data, &app->report),
                     BASE_OK);
    assert_true(kernel()->accepts(&call, &environment));
    assert_true(op_type_bytes(&output.type, &output.bytes));
    output.data = application_memory(app, output.bytes);
    memset(output.data, 0x7f, output.bytes);
    if (in_place) {
        memcpy(output.data, inputs[3].data, output.bytes);
        inputs[3].data = output.data;
    }
    rt_prepared prepared;
    assert_int_equal(rt_kernel_prepare(kernel(), &call, &environment, &app->arena, &prepared, &app->report),
                     BASE_OK);
    *(const rt_pointwise_tiles **)prepared.state = rt_pointwise_tiles_for(inputs[0].type.dtype, lanes);
    application_run_prepared(app, &prepared, inputs, &output, threads);
    return output;
}

static op_tensor run_packed(application *app, int threads, bool in_place) {
    return run_narrow(app, threads, in_place, RT_POINTWISE_BEST);
}

static void test_equals_the_gathering_convolution(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round;
        const bool residual = round % 3 == 0;
        application app;
        draw(&app, OP_FLOAT, &seed, residual);
        application_run(&app, "portable.convolution", 1);
        const op_tensor expected = app.outputs[0], got = run_packed(&app, 1, false);
        const op_tensor other = run_packed(&app, 2 + (int)(round % 2), residual);
        int64_t count;
        assert_true(op_shape_elements(&expected.type.shape, &count));
        for (int64_t k = 0; k < count; k++)
            application_check_near(((const float *)got.data)[k], ((const float *)expected.data)[k], 1e-4,
                                   round, k);
        if (memcmp(got.data, other.data, got.bytes) != 0)
            fail_msg("seed %" PRIu64 ": threads, or the place of the residual, change the result", round);
        application_free(&app);
    }
}

/* Numbers of 16 bits, beside the gathering convolution of the same in float: rounded once. */
static void test_sixteen_bits(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= 2 * ROUNDS; round++) {
        uint64_t seed = round;
        const op_dtype dtype = round % 2 ? OP_FLOAT16 : OP_BFLOAT16;
        const bool residual = round % 3 == 0;
        application app;
        draw(&app, dtype, &seed, residual);
        const op_tensor expected = application_floats(&app, "portable.convolution");
        assert_int_equal(application_infer(&app), BASE_OK);
        int64_t count;
        assert_true(op_shape_elements(&expected.type.shape, &count));
        for (int lanes = 4; lanes <= RT_POINTWISE_BEST; lanes *= 2) {
            const op_tensor got = run_narrow(&app, 1, false, lanes);
            for (int64_t k = 0; k < count; k++)
                application_check_near(application_element(&got, k), application_element(&expected, k),
                                       dtype == OP_FLOAT16 ? 0x1p-10 : 0x1p-7, round, k);
            if (lanes < RT_POINTWISE_BEST) continue;
            const op_tensor other = run_packed(&app, 2 + (int)(round % 5), residual);
            if (memcmp(got.data, other.data, got.bytes) != 0)
                fail_msg("seed %" PRIu64 ": threads, or the place of the residual, change the result", round);
        }
        application_free(&app);
    }
}

/* One NaN of the input makes all results at its point NaN, and no others, through Relu and Clip as well. */
static void test_nan_stays(void **state) {
    (void)state;
    static const char *const activations[] = {"Relu", "Clip"};
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++) {
        application app;
        uint64_t seed = 7;
        application_init(&app, OP_CONV);
        float *x = application_random(&app, OP_FLOAT, 4, DIMS(1, 8, 5, 5), &seed);
        application_random(&app, OP_FLOAT, 4, DIMS(9, 8, 1, 1), &seed);
        application_text(&app, "ouro.activation", activations[i]);
        application_real(&app, "ouro.alpha", 0);
        application_real(&app, "ouro.beta", 6);
        x[3 * 25 + 24] = NAN;
        application_run(&app, "portable.convolution", 1);
        const op_tensor got = run_packed(&app, 1, false);
        for (int64_t k = 0; k < 9 * 25; k++)
            assert_int_equal(isnan(((const float *)got.data)[k]) != 0, k % 25 == 24);
        application_free(&app);
    }
}

/* A band of a convolution whose whole other weights were packed for. */
static void test_accepts_bands(void **state) {
    (void)state;
    application app;
    rt_cost cost;
    application_init(&app, OP_CONV);
    application_input(&app, OP_FLOAT, 4, DIMS(1, 24, 3, 12));
    application_input(&app, OP_FLOAT, 4, DIMS(12, 6, 1, 1));
    application_integer(&app, "group", 4);
    application_integers(&app, "ouro.packed_extents", 4, DIMS(1, 24, 12, 12));
    assert_int_equal(application_infer(&app), BASE_OK);
    assert_true(kernel()->estimate(&app.call, &one_thread, SIZE_MAX, &cost));
    app.inputs[1].type.layout = OP_LAYOUT_PACKED;
    app.inputs[1].type.packed_bytes = cost.packed_bytes;
    assert_true(kernel()->accepts(&app.call, &one_thread));
    application_free(&app);
}

static void test_refuses(void **state) {
    (void)state;
    static const struct {
        int64_t channels, filters, kernel, stride, pad;
        op_layout layout;
    } cases[] = {{16, 16, 3, 1, 0, OP_LAYOUT_ROW_MAJOR}, {16, 16, 1, 2, 0, OP_LAYOUT_ROW_MAJOR},
                 {16, 16, 1, 1, 1, OP_LAYOUT_ROW_MAJOR}, {16, 2, 1, 1, 0, OP_LAYOUT_ROW_MAJOR},
                 {3, 16, 1, 1, 0, OP_LAYOUT_ROW_MAJOR},  {16, 16, 1, 1, 0, OP_LAYOUT_NHWC}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        application app;
        rt_cost cost;
        application_init(&app, OP_CONV);
        application_input(&app, OP_FLOAT, 4, DIMS(1, cases[i].channels, 12, 12));
        application_input(&app, OP_FLOAT, 4,
                          DIMS(cases[i].filters, cases[i].channels, cases[i].kernel, cases[i].kernel));
        application_integers(&app, "strides", 2, DIMS(cases[i].stride, cases[i].stride));
        application_integers(&app, "pads", 4, DIMS(cases[i].pad, cases[i].pad, cases[i].pad, cases[i].pad));
        assert_int_equal(application_infer(&app), BASE_OK);
        app.inputs[0].type.layout = app.outputs[0].type.layout = cases[i].layout;
        assert_false(kernel()->estimate(&app.call, &one_thread, SIZE_MAX, &cost));
        assert_false(kernel()->accepts(&app.call, &one_thread));
        application_free(&app);
    }
}

/* In 16 bits: all channels of a group lie in one panel. */
static void test_refuses_deep_halves(void **state) {
    (void)state;
    for (int64_t channels = 256; channels <= 257; channels++) {
        application app;
        rt_cost cost;
        application_init(&app, OP_CONV);
        application_input(&app, OP_FLOAT16, 4, DIMS(1, channels, 5, 5));
        application_input(&app, OP_FLOAT16, 4, DIMS(8, channels, 1, 1));
        assert_int_equal(application_infer(&app), BASE_OK);
        assert_int_equal(kernel()->estimate(&app.call, &one_thread, SIZE_MAX, &cost), channels <= 256);
        application_free(&app);
    }
}

/* The first `points` points of an image of `channels` channels, of which there are WHOLE. */
static void draw_some(application *app, int64_t points, int64_t channels, int64_t filters) {
    enum { WHOLE = 64 };
    uint64_t seed = 11;
    float *parts[2];
    const int64_t of[] = {2 * channels, 2 * filters};
    application_init(app, OP_CONV);
    for (int i = 0; i < 2; i++) {
        parts[i] = i == 0 ? application_input(app, OP_FLOAT, 4, DIMS(1, of[0], 1, points)) : NULL;
        if (i == 0) application_random(app, OP_FLOAT, 4, DIMS(2 * filters, channels, 1, 1), &seed);
        if (i == 0) application_random(app, OP_FLOAT, 1, DIMS(2 * filters), &seed);
        if (i == 1) parts[i] = application_input(app, OP_FLOAT, 4, DIMS(1, of[1], 1, points));
        for (int64_t map = 0; map < of[i]; map++) {
            for (int64_t k = 0; k < WHOLE; k++) {
                const float value = (float)random_range(&seed, -1000, 1000) / 1000;
                if (k < points) parts[i][map * points + k] = value;
            }
        }
    }
    application_integer(app, "group", 2);
    application_text(app, "ouro.activation", points % 2 ? "Relu" : "Swish");
    application_real(app, "ouro.alpha", 1);
    assert_int_equal(application_infer(app), BASE_OK);
}

/* A point has the same bits wherever the image ends: alone in the last vector, among a few, or in the middle. */
static void test_last_points(void **state) {
    (void)state;
    static const int64_t channels[] = {37, 300, 5}, filters[] = {1, 3, 4, 5, 6, 13, 23, 41};
    for (size_t i = 0; i < 24; i++) {
        for (int64_t points = 1; points < 55; points += i % 3 ? 8 : 1) {
            application some, all;
            draw_some(&some, points, channels[i % 3], filters[i / 3]);
            draw_some(&all, 64 - points % 2, channels[i % 3], filters[i / 3]);
            const op_tensor got = run_packed(&some, 1, points % 3 == 0), whole = run_packed(&all, 1, false);
            for (int64_t map = 0; map < 2 * filters[i / 3]; map++)
                assert_memory_equal((const float *)got.data + map * points,
                                    (const float *)whole.data + map * (64 - points % 2),
                                    (size_t)points * sizeof(float));
            application_free(&some);
            application_free(&all);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_the_gathering_convolution),
        cmocka_unit_test(test_sixteen_bits),
        cmocka_unit_test(test_nan_stays),
        cmocka_unit_test(test_accepts_bands),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_refuses_deep_halves),
        cmocka_unit_test(test_last_points),
    };
    return cmocka_run_group_tests_name("pointwise", tests, NULL, NULL);
}
