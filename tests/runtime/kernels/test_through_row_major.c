/* SPDX-License-Identifier: Apache-2.0 */
/* test_through_row_major.c: operators on tensors in blocks through row-major copies: the same bits as the row-major kernel gives, in
 * every layout, with zeros in what pads a block; rows that are gathered from a row-major image with channels innermost; and what is
 * refused. */
#include "tests/support/allocations.h"
#include "tests/support/application.h"
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

static const rt_environment environment = {.threads = 2};

/* Images are all tensors of rank 4 but for inputs from `images` on. */
static void check(application *app, const char *portable, uint32_t images, op_layout layout) {
    application_run(app, portable, 2);
    op_tensor expected[APPLICATION_OUTPUTS];
    memcpy(expected, app->outputs, sizeof expected);
    op_tensor saved[APPLICATION_INPUTS];
    memcpy(saved, app->inputs, sizeof saved);
    for (uint32_t i = 0; i < app->call.input_count && i < images; i++)
        app->inputs[i] = application_reordered(app, &saved[i], layout);
    for (uint32_t o = 0; o < app->call.output_count; o++) {
        op_tensor *output = &app->outputs[o];
        output->type.layout = layout;
        assert_true(op_type_bytes(&output->type, &output->bytes));
        output->data = application_memory(app, output->bytes);
        memset(output->data, 0x7f, output->bytes);
    }
    assert_true(rt_kernel_through_row_major.accepts(&app->call, &environment));
    rt_prepared prepared;
    if (rt_kernel_prepare(&rt_kernel_through_row_major, &app->call, &environment, &app->arena, &prepared,
                          &app->report) != BASE_OK)
        fail_msg("%s", app->report.text);
    char *scratch = application_memory(app, prepared.scratch_bytes + 1);
    scratch[prepared.scratch_bytes] = 77;
    rt_threads_warm(2);
    for (int round = 0; round < 2; round++) {
        const size_t before = allocations_count();
        if (prepared.run(&prepared, app->inputs, app->outputs, scratch, &app->report) != BASE_OK)
            fail_msg("%s", app->report.text);
        assert_int_equal(allocations_count() - before, 0);
    }
    assert_int_equal(scratch[prepared.scratch_bytes], 77);
    rt_kernel_release(&prepared);
    for (uint32_t o = 0; o < app->call.output_count; o++) {
        const op_tensor want = application_reordered(app, &expected[o], layout);
        assert_int_equal(app->outputs[o].bytes, want.bytes);
        assert_memory_equal(app->outputs[o].data, want.data, want.bytes);
    }
    memcpy(app->inputs, saved, sizeof saved);
    memcpy(app->outputs, expected, sizeof expected);
}

static void same_in_every_layout(void **state) {
    (void)state;
    static const op_layout layouts[] = {OP_LAYOUT_NC8, OP_LAYOUT_NC16, OP_LAYOUT_NHWC};
    for (uint64_t round = 0; round < 30; round++) {
        uint64_t seed = round + 1;
        const op_layout layout = layouts[round % 3];
        const int64_t channels = random_range(&seed, 1, 40), height = random_range(&seed, 4, 9),
                      width = random_range(&seed, 4, 9);
        application app;
        application_init(&app, OP_MAX_POOL); /* a result of another size */
        application_random(&app, OP_FLOAT, 4, DIMS(2, channels, height, width), &seed);
        application_integers(&app, "kernel_shape", 2, (const int64_t[]){3, 2});
        application_integers(&app, "strides", 2, (const int64_t[]){2, 1});
        check(&app, "portable.pool", 1, layout);
        application_free(&app);
        application_init(&app, OP_CONCAT); /* several images */
        for (int64_t i = 0; i < 3; i++)
            application_random(&app, OP_FLOAT, 4, DIMS(2, channels + 3 * i, height, width), &seed);
        application_integer(&app, "axis", 1);
        check(&app, "portable.concat", 3, layout);
        application_free(&app);
        application_init(&app, OP_CONV); /* plain tensors beside them, and scratch */
        application_random(&app, OP_FLOAT, 4, DIMS(2, channels, height, width), &seed);
        application_random(&app, OP_FLOAT, 4, DIMS(10, channels, 3, 3), &seed);
        application_random(&app, OP_FLOAT, 1, DIMS(10), &seed);
        check(&app, "portable.convolution", 1, layout);
        application_free(&app);
    }
}

static void what_is_refused(void **state) {
    (void)state;
    uint64_t seed = 5;
    application app;
    application_init(&app, OP_MAX_POOL);
    application_random(&app, OP_FLOAT, 4, DIMS(1, 16, 8, 8), &seed);
    application_integers(&app, "kernel_shape", 2, (const int64_t[]){2, 2});
    assert_int_equal(application_infer(&app), BASE_OK);
    assert_false(rt_kernel_through_row_major.accepts(&app.call, &environment)); /* nothing is in blocks */
    app.inputs[0].type.layout = app.outputs[0].type.layout = OP_LAYOUT_NC8;
    assert_true(rt_kernel_through_row_major.accepts(&app.call, &environment));
    app.inputs[0].type.dtype = app.outputs[0].type.dtype = OP_STRING; /* no kernel takes that */
    assert_false(rt_kernel_through_row_major.accepts(&app.call, &environment));
    application_free(&app);
    application_init(&app, OP_CONV);
    application_random(&app, OP_FLOAT, 4, DIMS(1, 16, 8, 8), &seed);
    application_random(&app, OP_FLOAT, 4, DIMS(16, 16, 3, 3), &seed);
    assert_int_equal(application_infer(&app), BASE_OK);
    app.inputs[0].type.layout = app.outputs[0].type.layout = OP_LAYOUT_NC16;
    app.inputs[1].type.layout =
        OP_LAYOUT_PACKED; /* by no kernel, which is seen when they are unpacked, if not before */
    app.inputs[1].type.packed_bytes = 4;
    if (rt_kernel_through_row_major.accepts(&app.call, &environment)) {
        rt_prepared prepared;
        assert_int_equal(rt_kernel_prepare(&rt_kernel_through_row_major, &app.call, &environment, &app.arena,
                                           &prepared, &app.report),
                         BASE_INVALID);
    }
    application_free(&app);
}

/* Rows of one row-major image, gathered with channels innermost: what a Gather and then a Reorder would give. */
static void rows_are_turned(void **state) {
    (void)state;
    const rt_kernel *kernel = rt_kernel_of(OP_GATHER, "portable.gather");
    for (uint64_t round = 1; round <= 60; round++) {
        uint64_t seed = round;
        application app;
        const int64_t channels = random_range(&seed, 1, 40), height = random_range(&seed, 1, 20),
                      width = random_range(&seed, 1, 70), count = random_range(&seed, 1, 12);
        application_init(&app, OP_GATHER);
        application_random(&app, OP_FLOAT, 4, DIMS(1, channels, height, width), &seed);
        int64_t *rows = application_input(&app, OP_INT64, 1, DIMS(count));
        for (int64_t i = 0; i < count; i++) rows[i] = random_range(&seed, -height, height - 1);
        application_integer(&app, "axis", 2);
        application_run(&app, "portable.gather", 1);
        op_tensor *y = &app.outputs[0];
        const op_tensor expected = application_reordered(&app, y, OP_LAYOUT_NHWC);
        y->type.layout = OP_LAYOUT_NHWC;
        memset(y->data, 0x7f, y->bytes);
        assert_true(kernel->accepts(&app.call, &environment));
        rt_prepared prepared;
        assert_int_equal(
            rt_kernel_prepare(kernel, &app.call, &environment, &app.arena, &prepared, &app.report), BASE_OK);
        assert_int_equal(prepared.run(&prepared, app.inputs, app.outputs, NULL, &app.report), BASE_OK);
        assert_memory_equal(y->data, expected.data, expected.bytes);
        rows[0] = height;
        assert_int_equal(prepared.run(&prepared, app.inputs, app.outputs, NULL, &app.report), BASE_INVALID);
        rt_kernel_release(&prepared);
        app.inputs[0].type.dtype = y->type.dtype = OP_INT32; /* of floats only */
        assert_false(kernel->accepts(&app.call, &environment));
        application_free(&app);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_in_every_layout),
                                       cmocka_unit_test(rows_are_turned), cmocka_unit_test(what_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
