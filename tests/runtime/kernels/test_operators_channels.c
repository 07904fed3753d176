/* SPDX-License-Identifier: Apache-2.0 */
/* test_operators_channels.c: an operand with one element a channel beside images in blocks: the bits of the row-major kernel, in
 * every layout, and what is refused. */
#include "tests/support/application.h"
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

static const rt_environment environment = {.threads = 2};
static const op_code codes[] = {OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_MAX, OP_PRELU};

typedef struct channels_case {
    op_layout layout; /* of the images */
    uint32_t part;    /* which input has the channels */
    bool plain;       /* and they are row-major */
    uint64_t seed;
} channels_case;

/* False where the kernel does not accept it. */
static bool check(application *app, const channels_case *how) {
    const rt_kernel *kernel = rt_kernel_find("portable.elementwise_binary");
    application_run(app, kernel->name, 1);
    const op_tensor expected = app->outputs[0];
    op_tensor inputs[2], got = {.type = expected.type};
    op_call call = app->call;
    for (uint32_t i = 0; i < 2; i++) {
        const bool plain = i == how->part && how->plain;
        inputs[i] = plain ? app->inputs[i] : application_reordered(app, &app->inputs[i], how->layout);
    }
    got.type.layout = how->layout;
    assert_true(op_type_bytes(&got.type, &got.bytes));
    got.data = application_memory(app, got.bytes);
    memset(got.data, 0x7f, got.bytes);
    call.inputs = inputs;
    call.outputs = &got;
    if (!kernel->accepts(&call, &environment)) return false;
    rt_prepared prepared;
    rt_threads_warm(2);
    assert_int_equal(rt_kernel_prepare(kernel, &call, &environment, &app->arena, &prepared, &app->report),
                     BASE_OK);
    assert_int_equal(prepared.scratch_bytes, 0);
    assert_int_equal(prepared.run(&prepared, inputs, &got, NULL, &app->report), BASE_OK);
    rt_kernel_release(&prepared);
    const op_tensor want = application_reordered(app, &expected, how->layout);
    if (memcmp(got.data, want.data, want.bytes) != 0)
        fail_msg("%s, seed %d, %s", op_schema_of(app->call.code)->name, (int)how->seed,
                 op_layout_name(how->layout));
    return true;
}

static void same_in_every_layout(void **state) {
    (void)state;
    static const op_layout layouts[] = {OP_LAYOUT_NC8, OP_LAYOUT_NC16, OP_LAYOUT_NHWC};
    int taken = 0;
    for (uint64_t round = 1; round <= 600; round++) {
        uint64_t seed = round * 7919;
        const op_code code = codes[random_range(&seed, 0, 5)];
        channels_case how = {.layout = layouts[round % 3], .plain = random_range(&seed, 0, 1), .seed = round};
        how.part = code == OP_PRELU ? 1 : (uint32_t)random_range(&seed, 0, 1);
        const int64_t block = op_layout_block(how.layout);
        const int64_t channels = random_range(&seed, 0, 2) ? block * random_range(&seed, 1, 5)
                                                           : random_range(&seed, 1, round % 50 ? 70 : 1300);
        const int64_t images = random_range(&seed, 1, 3), most = round % 10 ? 9 : 60;
        const int64_t full[] = {images, channels, random_range(&seed, 1, most), random_range(&seed, 1, most)};
        const int64_t part[] = {random_range(&seed, 0, 1) && code != OP_PRELU ? images : 1, channels, 1, 1};
        const bool shorter = part[0] == 1 && how.plain && random_range(&seed, 0, 1);
        application app;
        application_init(&app, code);
        for (uint32_t i = 0; i < 2; i++) {
            if (i != how.part) application_random(&app, OP_FLOAT, 4, full, &seed);
            else application_random(&app, OP_FLOAT, shorter ? 3 : 4, part + shorter, &seed);
        }
        const bool padded = channels % block != 0;
        const bool possible = !padded || (!how.plain && code != OP_DIV);
        if (check(&app, &how) != possible)
            fail_msg("%s, seed %d: %s", op_schema_of(code)->name, (int)round,
                     possible ? "refused" : "accepted");
        taken += possible;
        application_free(&app);
    }
    assert_true(taken > 400);
}

static void what_is_refused(void **state) {
    (void)state;
    static const int64_t shapes[][4] = {
        {2, 1, 4, 1}, {2, 16, 4, 1}, {1, 1, 4, 5}, {1, 16, 1, 5}, {2, 1, 1, 1}};
    const rt_kernel *kernel = rt_kernel_find("portable.elementwise_binary");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) { /* none has channels alone */
        uint64_t seed = 3;
        application app;
        application_init(&app, OP_ADD);
        application_random(&app, OP_FLOAT, 4, DIMS(2, 16, 4, 5), &seed);
        application_random(&app, OP_FLOAT, 4, shapes[i], &seed);
        assert_int_equal(application_infer(&app), BASE_OK);
        app.inputs[0].type.layout = app.outputs[0].type.layout = OP_LAYOUT_NC16;
        assert_false(kernel->accepts(&app.call, &environment));
        application_free(&app);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_in_every_layout),
                                       cmocka_unit_test(what_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
