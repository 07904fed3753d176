/* SPDX-License-Identifier: Apache-2.0 */
/* test_split_product.c: products of matrices in tiles of bfloat16 parts beside those in panels, on machines that have such tiles: random extents,
 * turned and scaled weights, bias and activations; bits depend neither on threads nor on bands; what it refuses; weights in panels come back.
 */
#include "runtime/kernels/portable/split_tiles.h"
#include "tests/support/application.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char NAME[] = "portable.split_product";

static void test_equals_the_plain_product(void **state) {
    (void)state;
    if (!rt_split_wanted()) skip();
    for (uint64_t trial = 1; trial <= support_share(40); trial++) {
        uint64_t seed = trial;
        const int64_t rows = random_range(&seed, 24, 150);
        application app;
        application_draw_product(&app, OP_FLOAT, rows, &seed);
        application_check_blocks(&app, NAME, app.call.code == OP_GEMM ? "portable.gemm" : "portable.matmul",
                                 OP_LAYOUT_ROW_MAJOR, false, trial);
        application_free(&app);
    }
}

static void test_refuses(void **state) {
    (void)state;
    assert_int_equal(application_estimates_product(NAME, 64, 64, 64, OP_FLOAT, false), rt_split_wanted());
    assert_false(application_estimates_product(NAME, 64, 64, 64, OP_FLOAT, true));
    assert_false(application_estimates_product(NAME, 8, 64, 64, OP_FLOAT, false));
    assert_false(application_estimates_product(NAME, 64, 8, 64, OP_FLOAT, false));
    assert_false(application_estimates_product(NAME, 64, 64, 8, OP_FLOAT, false));
    assert_false(application_estimates_product(NAME, 64, 64, 64, OP_FLOAT16, false));
}

/* Weights that are packed in panels already are packed anew for tiles: they come back as they were. */
static void test_panels_come_back(void **state) {
    (void)state;
    const rt_kernel *kernel = rt_kernel_find("portable.packed_product");
    const rt_environment environment = {.threads = 1};
    for (int turned = 0; turned < 2; turned++) {
        enum { DEPTH = 37, COLUMNS = 75 };
        uint64_t seed = 5;
        application app;
        application_init(&app, OP_GEMM);
        application_input(&app, OP_FLOAT, 2, DIMS(64, DEPTH));
        application_random(&app, OP_FLOAT, 2, turned ? DIMS(COLUMNS, DEPTH) : DIMS(DEPTH, COLUMNS), &seed);
        application_integer(&app, "transB", turned);
        assert_int_equal(application_infer(&app), BASE_OK);
        rt_cost cost;
        assert_true(kernel->estimate(&app.call, &environment, 0, &cost));
        const op_tensor plain = app.inputs[1];
        op_tensor packed = plain, back = plain;
        packed.type.layout = OP_LAYOUT_PACKED;
        packed.type.packed_bytes = packed.bytes = cost.packed_bytes;
        packed.data = application_memory(&app, packed.bytes);
        back.data = application_memory(&app, back.bytes);
        memset(packed.data, 0, packed.bytes);
        assert_int_equal(kernel->pack(&app.call, &environment, 1, &plain, packed.data, &app.report), BASE_OK);
        assert_int_equal(kernel->unpack(&app.call, &environment, 1, &packed, back.data, &app.report),
                         BASE_OK);
        assert_memory_equal(back.data, plain.data, plain.bytes);
        application_free(&app);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_the_plain_product),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_panels_come_back),
    };
    return cmocka_run_group_tests_name("split_product", tests, NULL, NULL);
}
