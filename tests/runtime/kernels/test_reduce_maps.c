/* SPDX-License-Identifier: Apache-2.0 */
/* test_reduce_maps.c: reductions over all positions of maps that lie in blocks, or with channels innermost, and over their channels and all maps,
 * too, or over the channels alone: the numbers of the row-major kernel, zeros where a block is padded; and what is refused. */
#include "tests/support/application.h"
#include <math.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

enum { ROUNDS = 500 };

typedef struct reduction {
    op_code code;
    int32_t rank;
    int64_t shape[5], axes[5];
    size_t axis_count; /* 0: all, as there is no list */
    bool keep;
    op_layout from, to;
    int nones; /* so many elements are NaN */
} reduction;

static void set(application *app, const reduction *r, uint64_t *seed) {
    application_init(app, r->code);
    float *x = application_random(app, OP_FLOAT, r->rank, r->shape, seed);
    int64_t count;
    assert_true(op_shape_elements(&app->inputs[0].type.shape, &count));
    for (int i = 0; i < r->nones; i++) x[random_range(seed, 0, count - 1)] = NAN;
    if (r->axis_count) {
        application_input(app, OP_INT64, 1, DIMS((int64_t)r->axis_count));
        app->inputs[1].data = application_memory(app, app->inputs[1].bytes);
        memcpy(app->inputs[1].data, r->axes, app->inputs[1].bytes);
    }
    application_integer(app, "keepdims", r->keep);
    assert_int_equal(application_infer(app), BASE_OK);
}

/* False where the kernel does not take it. */
static bool check(const reduction *r, uint64_t round) {
    uint64_t seed = round;
    application app;
    set(&app, r, &seed);
    application_run(&app, "portable.reduce", 1);
    const rt_environment environment = {.threads = 1 + (int)(round % 5)};
    const rt_kernel *kernel = rt_kernel_find("portable.reduce");
    const op_tensor expected = app.outputs[0];
    op_tensor inputs[2] = {application_reordered(&app, &app.inputs[0], r->from), app.inputs[1]},
              got = {.type = expected.type};
    op_call call = app.call;
    got.type.layout = r->to;
    assert_true(op_type_bytes(&got.type, &got.bytes));
    got.data = application_memory(&app, got.bytes);
    memset(got.data, 0x7f, got.bytes);
    call.inputs = inputs;
    call.outputs = &got;
    const bool taken = kernel->accepts(&call, &environment);
    if (taken) {
        rt_prepared prepared;
        rt_threads_warm(environment.threads);
        assert_int_equal(rt_kernel_prepare(kernel, &call, &environment, &app.arena, &prepared, &app.report),
                         BASE_OK);
        assert_int_equal(prepared.scratch_bytes, 0);
        assert_int_equal(prepared.run(&prepared, inputs, &got, NULL, &app.report), BASE_OK);
        rt_kernel_release(&prepared);
        const op_tensor want = application_reordered(&app, &expected, r->to);
        const float *a = got.data, *b = want.data;
        for (size_t i = 0; i < want.bytes / sizeof *a; i++)
            if (!isnan(a[i]) || !isnan(b[i]))
                application_check_near((double)a[i], (double)b[i], 1e-5, round, (int64_t)i);
    }
    application_free(&app);
    return taken;
}

static void same_in_every_layout(void **state) {
    (void)state;
    static const op_code codes[] = {OP_REDUCE_SUM, OP_REDUCE_MEAN, OP_REDUCE_MAX, OP_REDUCE_MIN,
                                    OP_REDUCE_PROD};
    static const op_layout layouts[] = {OP_LAYOUT_NC8, OP_LAYOUT_NC16, OP_LAYOUT_NHWC};
    int taken = 0;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round * 7919;
        reduction r = {
            .code = codes[round % 5], .rank = (int32_t)random_range(&seed, 3, 5), .from = layouts[round % 3]};
        const int64_t block = r.from == OP_LAYOUT_NHWC ? 1 : op_layout_block(r.from);
        const bool channels = random_range(&seed, 0, 1), images = channels && random_range(&seed, 0, 1);
        r.shape[0] = random_range(&seed, 1, 3);
        r.shape[1] =
            random_range(&seed, 0, 2) ? block * random_range(&seed, 1, 5) : random_range(&seed, 1, 70);
        for (int32_t i = 2; i < r.rank; i++) r.shape[i] = random_range(&seed, 1, r.rank == 3 ? 150 : 12);
        for (int32_t i = r.rank - 1; i >= 2; i--)
            r.axes[r.axis_count++] = random_range(&seed, 0, 1) ? i : i - r.rank;
        if (channels) r.axes[r.axis_count++] = 1;
        if (images) r.axes[r.axis_count++] = 0;
        if (images && random_range(&seed, 0, 1)) r.axis_count = 0;
        r.keep = random_range(&seed, 0, 1);
        r.to = !channels && r.keep && random_range(&seed, 0, 1) ? r.from : OP_LAYOUT_ROW_MAJOR;
        const bool can = r.to != OP_LAYOUT_ROW_MAJOR || r.shape[1] % block == 0;
        if (check(&r, round) != can) fail_msg("round %d is %staken", (int)round, can ? "not " : "");
        taken += can;
    }
    assert_true(taken > ROUNDS / 2);
}

/* Where the machine's vectors are as wide as a block. A maximum is a NaN where one channel is, wherever that lies. */
static void channels_alone(void **state) {
    (void)state;
    static const op_code codes[] = {OP_REDUCE_SUM, OP_REDUCE_MEAN, OP_REDUCE_MAX, OP_REDUCE_MIN};
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round * 104729;
        reduction r = {.code = codes[round % 4],
                       .rank = (int32_t)random_range(&seed, 3, 5),
                       .from = round % 3 ? OP_LAYOUT_NC16 : OP_LAYOUT_NHWC,
                       .to = OP_LAYOUT_ROW_MAJOR,
                       .axis_count = 1,
                       .keep = random_range(&seed, 0, 1)};
        r.shape[0] = random_range(&seed, 1, 3);
        r.shape[1] = random_range(&seed, 1, random_range(&seed, 0, 3) ? 70 : 512);
        for (int32_t i = 2; i < r.rank; i++) r.shape[i] = random_range(&seed, 1, r.rank == 3 ? 90 : 9);
        r.axes[0] = random_range(&seed, 0, 1) ? 1 : 1 - r.rank;
        r.nones = (int)random_range(&seed, 0, 5) - 2;
        if (check(&r, round) != application_machine_is_wide()) fail_msg("round %d", (int)round);
    }
}

/* Sums of sixteen zeros below zero have one sign, whichever thread makes them, and with whichever others. */
static void signs_of_zero(void **state) {
    (void)state;
    uint32_t first = 0;
    for (int threads = 1; threads <= 5 && application_machine_is_wide(); threads++) {
        const rt_environment environment = {.threads = threads};
        const rt_kernel *kernel = rt_kernel_find("portable.reduce");
        const int64_t axis = 1;
        application app;
        rt_prepared prepared;
        application_init(&app, OP_REDUCE_SUM);
        float *x = application_input(&app, OP_FLOAT, 3, DIMS(1, 16, 3001));
        for (int64_t i = 0; i < 16 * 3001; i++) x[i] = -0.0f;
        memcpy(application_input(&app, OP_INT64, 1, DIMS(1)), &axis, sizeof axis);
        assert_int_equal(application_infer(&app), BASE_OK);
        op_tensor *y = &app.outputs[0];
        app.inputs[0] = application_reordered(&app, &app.inputs[0], OP_LAYOUT_NHWC);
        assert_true(op_type_bytes(&y->type, &y->bytes));
        y->data = application_memory(&app, y->bytes);
        assert_true(kernel->accepts(&app.call, &environment));
        assert_int_equal(
            rt_kernel_prepare(kernel, &app.call, &environment, &app.arena, &prepared, &app.report), BASE_OK);
        application_run_prepared(&app, &prepared, app.inputs, y, threads);
        if (threads == 1) memcpy(&first, y->data, sizeof first);
        for (int64_t i = 0; i < 3001; i++)
            assert_memory_equal((const char *)y->data + i * (int64_t)sizeof first, &first, sizeof first);
        application_free(&app);
    }
}

static void other_channels_are_refused(void **state) {
    (void)state;
    const reduction one = {.code = OP_REDUCE_SUM,
                           .rank = 4,
                           .shape = {2, 512, 3, 4},
                           .axes = {1},
                           .axis_count = 1,
                           .keep = true,
                           .from = OP_LAYOUT_NC16};
    assert_int_equal(check(&one, 1), application_machine_is_wide());
    reduction other = one;
    other.from = OP_LAYOUT_NC8;
    assert_false(check(&other, 1));
    other = one;
    other.code = OP_REDUCE_PROD;
    assert_false(check(&other, 1));
    other = one;
    other.shape[1] = 513; /* of a maximum there may be as many as one likes */
    assert_false(check(&other, 1));
    other.code = OP_REDUCE_MAX;
    assert_int_equal(check(&other, 1), application_machine_is_wide());
    other = one;
    other.axes[other.axis_count++] = 2;
    assert_false(check(&other, 1));
    other = one;
    other.shape[2] = 0; /* no pixel at all */
    assert_int_equal(check(&other, 1), application_machine_is_wide());
}

static void others_are_refused(void **state) {
    (void)state;
    const reduction one = {.code = OP_REDUCE_MEAN,
                           .rank = 4,
                           .shape = {2, 16, 3, 4},
                           .axes = {2, 3},
                           .axis_count = 2,
                           .keep = true,
                           .from = OP_LAYOUT_NC16};
    assert_true(check(&one, 1));
    reduction other = one;
    other.axis_count = 1; /* columns are kept */
    assert_false(check(&other, 1));
    other = one;
    other.axes[1] = 1; /* rows are reduced, with channels */
    assert_false(check(&other, 1));
    other = one;
    other.axes[2] = 0; /* maps are reduced, but not their channels */
    other.axis_count = 3;
    assert_false(check(&other, 1));
    other = one;
    other.to = OP_LAYOUT_NC8;
    assert_false(check(&other, 1));
    other = one;
    other.shape[2] = 0; /* means of nothing would be NaN in the padding, too */
    assert_false(check(&other, 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_in_every_layout),
                                       cmocka_unit_test(channels_alone), cmocka_unit_test(signs_of_zero),
                                       cmocka_unit_test(other_channels_are_refused),
                                       cmocka_unit_test(others_are_refused)};
    return cmocka_run_group_tests_name("reduce_maps", tests, NULL, NULL);
}
