/* SPDX-License-Identifier: Apache-2.0 */
/* test_few_filters.c: convolutions with a few filters, and transposed ones, beside the row-major kernel: random windows, layouts, ranks, fused
 * forms, residuals in place; bits that do not depend on threads, or on whether weights are packed; NaN; what is refused. Where vectors are
 * narrower the kernel is never chosen, which is all that is seen then.
 */
#include "tests/support/allocations.h"
#include "tests/support/application.h"
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

enum { ROUNDS = 240 };

static const rt_kernel *kernel(void) {
    return rt_kernel_of(OP_CONV, "portable.few_filters");
}

/* How an application is run. */
typedef struct run_way {
    op_layout layout; /* of the images */
    int threads;
    bool in_place, packed;
    const op_tensor *weights; /* packed before; NULL: now */
} run_way;

/* Of one to three dimensions, the last one wide. */
static void draw(application *app, uint64_t *seed, op_layout layout, bool residual) {
    const bool points = layout == OP_LAYOUT_ROW_MAJOR;
    const int dimensions = points ? (int)random_range(seed, 1, 3) : 2;
    const int64_t images = random_range(seed, 1, 2), filters = random_range(seed, 1, 8),
                  channels = points ? random_range(seed, 1, 9) : random_range(seed, 13, 50);
    int64_t x[5] = {images, channels}, w[5] = {filters, channels}, y[5] = {images, filters}, strides[3],
            dilations[3], pads[6];
    for (int i = 0; i < dimensions; i++) {
        const bool last = i == dimensions - 1;
        w[2 + i] = random_range(seed, 1, last ? 7 : 4);
        dilations[i] = random_range(seed, 1, 2);
        strides[i] = random_range(seed, 1, points && last ? 2 : 3);
        pads[i] = random_range(seed, 0, 4);
        pads[dimensions + i] = random_range(seed, 0, 4);
        const int64_t reach = (w[2 + i] - 1) * dilations[i] + 1;
        x[2 + i] = random_range(seed, reach, reach + (last ? 200 : dimensions < 3 ? 25 : 6));
        y[2 + i] = (x[2 + i] + pads[i] + pads[dimensions + i] - reach) / strides[i] + 1;
        if (points && last && y[2 + i] % 16 && y[2 + i] < 16) { /* lanes are full enough */
            x[2 + i] += 32 * strides[i];
            y[2 + i] += 32;
        }
    }
    application_init(app, OP_CONV);
    application_random(app, OP_FLOAT, 2 + dimensions, x, seed);
    application_random(app, OP_FLOAT, 2 + dimensions, w, seed);
    if (random_range(seed, 0, 1)) application_random(app, OP_FLOAT, 1, DIMS(filters), seed);
    else application_absent(app);
    application_integers(app, "strides", (size_t)dimensions, strides);
    application_integers(app, "dilations", (size_t)dimensions, dilations);
    application_integers(app, "pads", 2 * (size_t)dimensions, pads);
    application_draw_activation(app, 6, seed);
    if (residual) application_random(app, OP_FLOAT, 2 + dimensions, y, seed);
}

/* The same for a transposed one: strides larger than kernels, outputs that see nothing, some cut off. */
static void draw_transposed(application *app, uint64_t *seed, op_layout layout) {
    const bool points = layout == OP_LAYOUT_ROW_MAJOR;
    const int dimensions = points ? (int)random_range(seed, 1, 3) : 2;
    const int64_t images = random_range(seed, 1, 2), filters = random_range(seed, 1, 8),
                  channels = points ? random_range(seed, 1, 9) : random_range(seed, 13, 50);
    int64_t x[5] = {images, channels}, w[5] = {channels, filters}, strides[3], pads[6], more[3];
    for (int i = 0; i < dimensions; i++) {
        const bool last = i == dimensions - 1;
        strides[i] = random_range(seed, 1, last ? 4 : 2);
        w[2 + i] = random_range(seed, 1, last ? 9 : 4);
        more[i] = random_range(seed, 0, strides[i] - 1);
        pads[i] = random_range(seed, 0, w[2 + i] - 1);
        pads[dimensions + i] = random_range(seed, 0, w[2 + i] - 1);
        x[2 + i] = 16 + random_range(seed, 0, last ? 150 : 0);
        if (!last) x[2 + i] -= 10;
        if (points && last && x[2 + i] < 32) x[2 + i] += 32; /* lanes are full enough */
    }
    application_init(app, OP_CONV_TRANSPOSE);
    application_random(app, OP_FLOAT, 2 + dimensions, x, seed);
    application_random(app, OP_FLOAT, 2 + dimensions, w, seed);
    if (random_range(seed, 0, 1)) application_random(app, OP_FLOAT, 1, DIMS(filters), seed);
    application_integers(app, "strides", (size_t)dimensions, strides);
    application_integers(app, "output_padding", (size_t)dimensions, more);
    application_integers(app, "pads", 2 * (size_t)dimensions, pads);
}

static op_tensor pack_weights(application *app, op_layout layout) {
    const rt_environment environment = {.threads = 1};
    rt_preference wish = {.inputs = {layout}};
    op_tensor inputs[APPLICATION_INPUTS], packed = app->inputs[1];
    op_call call = app->call;
    memcpy(inputs, app->inputs, sizeof inputs);
    call.inputs = inputs;
    assert_true(kernel()->prefer(&call, &environment, &wish));
    inputs[0].type.layout = layout;
    packed.type.layout = OP_LAYOUT_PACKED;
    packed.bytes = packed.type.packed_bytes = wish.packed_bytes[1];
    packed.data = application_memory(app, packed.bytes);
    memset(packed.data, 0, packed.bytes);
    assert_int_equal(kernel()->pack(&call, &environment, 1, &app->inputs[1], packed.data, &app->report),
                     BASE_OK);
    return packed;
}

/* Runs the application. False where the kernel does not want it. */
static bool run_here(application *app, const run_way *way, op_tensor *output) {
    const rt_environment environment = {.threads = way->threads};
    op_tensor inputs[APPLICATION_INPUTS];
    op_call call = app->call;
    rt_preference wish = {.inputs = {way->layout}};
    *output = app->outputs[0];
    memcpy(inputs, app->inputs, sizeof inputs);
    call.inputs = inputs;
    call.outputs = output;
    if (!kernel()->prefer(&call, &environment, &wish)) return false;
    assert_int_equal(wish.inputs[0], way->layout);
    assert_int_equal(wish.inputs[1], OP_LAYOUT_PACKED);
    assert_int_equal(wish.output, OP_LAYOUT_ROW_MAJOR);
    if (way->layout != OP_LAYOUT_ROW_MAJOR)
        inputs[0] = application_reordered(app, &app->inputs[0], way->layout);
    if (way->packed) inputs[1] = way->weights ? *way->weights : pack_weights(app, way->layout);
    assert_true(kernel()->accepts(&call, &environment));
    output->data = application_memory(app, output->bytes);
    memset(output->data, 0x7f, output->bytes);
    if (way->in_place) {
        memcpy(output->data, inputs[3].data, output->bytes);
        inputs[3].data = output->data;
    }
    rt_prepared prepared;
    assert_int_equal(rt_kernel_prepare(kernel(), &call, &environment, &app->arena, &prepared, &app->report),
                     BASE_OK);
    assert_true(!way->packed || prepared.scratch_bytes == 0);
    void *scratch = application_memory(app, prepared.scratch_bytes);
    rt_threads_warm(way->threads);
    const size_t before = allocations_count();
    assert_int_equal(prepared.run(&prepared, inputs, output, scratch, &app->report), BASE_OK);
    assert_int_equal(allocations_count(), before);
    rt_kernel_release(&prepared);
    return true;
}

/* Beside the row-major kernel, then in another way. False where the kernel does not want it. */
static bool check_application(application *app, const char *row_major, const run_way *first,
                              const run_way *second, uint64_t round) {
    op_tensor got, other;
    int64_t count, filters = app->inputs[1].type.shape.dims[app->call.code == OP_CONV_TRANSPOSE];
    application_run(app, row_major, 1);
    const op_tensor expected = app->outputs[0];
    if (!run_here(app, first, &got)) return false;
    assert_true(run_here(app, second, &other));
    assert_true(op_shape_elements(&app->inputs[1].type.shape, &count));
    /* Both round sums of so many elements. */
    const double tolerance = 1e-5 + 3e-8 * (double)count / (double)filters;
    assert_true(op_shape_elements(&expected.type.shape, &count));
    for (int64_t k = 0; k < count; k++)
        application_check_near(((const float *)got.data)[k], ((const float *)expected.data)[k], tolerance,
                               round, k);
    if (memcmp(got.data, other.data, got.bytes) != 0)
        fail_msg("seed %" PRIu64 ": threads, packed weights, or the place of the residual, change the result",
                 round);
    return true;
}

static void test_equals_the_row_major_kernel(void **state) {
    (void)state;
    static const op_layout layouts[] = {OP_LAYOUT_ROW_MAJOR, OP_LAYOUT_NC16, OP_LAYOUT_ROW_MAJOR,
                                        OP_LAYOUT_NHWC};
    int ran = 0, ran_transposed = 0;
    for (uint64_t round = 1; round <= ROUNDS && application_machine_is_wide(); round++) {
        uint64_t seed = round;
        const bool residual = round % 3 == 0;
        const run_way first = {.layout = layouts[round % 4], .threads = 1},
                      second = {.layout = layouts[round % 4],
                                .threads = 2 + (int)(round % 2),
                                .in_place = residual,
                                .packed = true},
                      third = {.layout = layouts[round % 4], .threads = 3, .packed = true};
        application app;
        draw(&app, &seed, first.layout, residual);
        ran += check_application(&app, "portable.convolution", &first, &second, round);
        application_free(&app);
        draw_transposed(&app, &seed, first.layout);
        ran_transposed += check_application(&app, "portable.conv_transpose", &first, &third, round);
        application_free(&app);
    }
    if (application_machine_is_wide()) assert_true(ran > ROUNDS / 2 && ran_transposed > ROUNDS / 2);
}

/* A transposed one whose first rows are cut off. */
static void make_cut(application *app, int64_t above) {
    uint64_t seed = 5;
    application_init(app, OP_CONV_TRANSPOSE);
    application_random(app, OP_FLOAT, 4, DIMS(1, 16, 7, 32), &seed);
    application_random(app, OP_FLOAT, 4, DIMS(16, 3, 4, 4), &seed);
    application_integers(app, "strides", 2, DIMS(2, 2));
    application_integers(app, "pads", 4, DIMS(above, 0, 0, 0));
    assert_int_equal(application_infer(app), BASE_OK);
    app->outputs[0].bytes = (size_t)(3 * (16 - above) * 66) * sizeof(float);
}

/* Bands of rows of a transposed convolution begin at any row: they read the weights that were packed for all of it. */
static void test_packed_for_any_rows(void **state) {
    (void)state;
    for (int64_t above = 1; above < 4 && application_machine_is_wide(); above++) {
        application app, whole;
        op_tensor expected, got;
        run_way way = {.layout = OP_LAYOUT_NC16, .threads = 1, .packed = true};
        make_cut(&whole, 0);
        assert_true(run_here(&whole, &way, &expected));
        const op_tensor weights = pack_weights(&whole, OP_LAYOUT_NC16);
        way.weights = &weights;
        make_cut(&app, above);
        assert_true(run_here(&app, &way, &got));
        const int64_t points = (16 - above) * 66;
        for (int64_t k = 0; k < 3 * points; k++)
            assert_true(((const float *)got.data)[k] ==
                        ((const float *)expected.data)[k / points * 16 * 66 + above * 66 + k % points]);
        application_free(&app);
        application_free(&whole);
    }
}

/* A NaN is seen by the windows that lie over it, and by no others; what lies beside the image in memory is not. */
static void test_nan_stays(void **state) {
    (void)state;
    static const op_layout layouts[] = {OP_LAYOUT_ROW_MAJOR, OP_LAYOUT_NC16, OP_LAYOUT_NHWC};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts && application_machine_is_wide(); i++) {
        application app;
        uint64_t seed = 7;
        op_tensor got;
        application_init(&app, OP_CONV);
        float *x = application_random(&app, OP_FLOAT, 4, DIMS(1, 16, 7, 32), &seed);
        application_random(&app, OP_FLOAT, 4, DIMS(2, 16, 3, 3), &seed);
        application_integers(&app, "pads", 4, DIMS(1, 1, 1, 1));
        x[5 * 224 + 3 * 32 + 10] = NAN;
        x[9 * 224 + 2 * 32 + 31] = NAN;
        application_run(&app, "portable.convolution", 1);
        assert_true(run_here(&app, &(run_way){.layout = layouts[i], .threads = 1}, &got));
        for (int64_t k = 0; k < 2 * 224; k++) {
            const int64_t y = k / 32 % 7, at = k % 32;
            assert_int_equal(isnan(((const float *)got.data)[k]) != 0,
                             (y >= 2 && y <= 4 && at >= 9 && at <= 11) || (y >= 1 && y <= 3 && at >= 30));
        }
        application_free(&app);
    }
}

static void test_refuses(void **state) {
    (void)state;
    static const struct {
        int64_t channels, filters, group, kernel, stride, width;
        op_layout layout;
        bool portable, wanted;
    } cases[] = {{16, 3, 1, 3, 1, 64, OP_LAYOUT_NC16, false, true},
                 {16, 3, 1, 3, 1, 64, OP_LAYOUT_NHWC, false, true},
                 {16, 3, 1, 3, 1, 64, OP_LAYOUT_ROW_MAJOR, false, true},
                 {16, 3, 1, 3, 1, 64, OP_LAYOUT_NC8, false, false},
                 {16, 3, 1, 3, 1, 64, OP_LAYOUT_ROW_MAJOR, true, false},
                 {16, 9, 1, 3, 1, 64, OP_LAYOUT_ROW_MAJOR, false, false},
                 {16, 4, 4, 3, 1, 64, OP_LAYOUT_ROW_MAJOR, false, false},
                 {16, 3, 1, 3, 3, 64, OP_LAYOUT_ROW_MAJOR, false, false},
                 {16, 3, 1, 3, 3, 64, OP_LAYOUT_NC16, false, true},
                 {16, 3, 1, 1, 1, 64, OP_LAYOUT_ROW_MAJOR, false, false}, /* see pointwise.c */
                 {16, 1, 1, 1, 1, 64, OP_LAYOUT_ROW_MAJOR, false, true},
                 {16, 3, 1, 3, 1, 5, OP_LAYOUT_ROW_MAJOR, false, false},
                 {3, 3, 1, 3, 1, 64, OP_LAYOUT_NHWC, false, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        application app;
        uint64_t seed = 1;
        const rt_environment environment = {.threads = 1, .portable_only = cases[i].portable};
        rt_preference wish = {.inputs = {cases[i].layout}};
        application_init(&app, OP_CONV);
        application_input(&app, OP_FLOAT, 4, DIMS(1, cases[i].channels, 12, cases[i].width));
        application_random(
            &app, OP_FLOAT, 4,
            DIMS(cases[i].filters, cases[i].channels / cases[i].group, cases[i].kernel, cases[i].kernel),
            &seed);
        application_integer(&app, "group", cases[i].group);
        application_integers(&app, "strides", 2, DIMS(cases[i].stride, cases[i].stride));
        assert_int_equal(application_infer(&app), BASE_OK);
        if (kernel()->prefer(&app.call, &environment, &wish) !=
            (cases[i].wanted && application_machine_is_wide()))
            fail_msg("case %zu", i);
        application_free(&app);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_the_row_major_kernel),
        cmocka_unit_test(test_packed_for_any_rows),
        cmocka_unit_test(test_nan_stays),
        cmocka_unit_test(test_refuses),
    };
    return cmocka_run_group_tests_name("few_filters", tests, NULL, NULL);
}
