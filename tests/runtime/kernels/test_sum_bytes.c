/* SPDX-License-Identifier: Apache-2.0 */
/* test_sum_bytes.c: ReduceSum of bytes to 32 bits (runtime/kernels/portable/sum_bytes.c) beside sums made one element at a time, of all lengths
 * about those of registers, at the ends of both types, on one thread and on three; and what is refused.
 */
#include "tests/support/application.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { ROUNDS = 400 };

static void check(op_dtype dtype, const int64_t dims[3], bool extreme, uint64_t seed) {
    application app;
    application_init(&app, OP_REDUCE_SUM);
    const int64_t outer = dims[0], length = dims[1], inner = dims[2];
    uint8_t *x = application_random(&app, dtype, 5, DIMS(outer, length, 1, 1, inner), &seed);
    *(int64_t *)application_input(&app, OP_INT64, 1, DIMS(1)) = seed % 2 ? 1 : -4;
    application_integer(&app, "ouro.wide", 1);
    application_integer(&app, "keepdims", (int64_t)(seed % 3 == 0));
    /* All of one column are the least or the largest number, which overflows what is too short soonest. */
    for (int64_t i = 0; extreme && i < outer * length * inner; i++)
        x[i] = (uint8_t)((i % inner % 2 ? 255 : 0) ^ (dtype == OP_INT8 ? 128 : 0));
    application_run(&app, "portable.sum_bytes", seed % 2 ? 1 : 3);
    assert_int_equal(app.outputs[0].type.dtype, OP_INT32);
    const int32_t *y = app.outputs[0].data;
    for (int64_t i = 0; i < outer * inner; i++) {
        int32_t sum = 0;
        for (int64_t k = 0; k < length; k++) {
            const uint8_t byte = x[(i / inner * length + k) * inner + i % inner];
            sum += dtype == OP_INT8 ? (int8_t)byte : byte;
        }
        if (y[i] != sum) fail_msg("seed %llu, element %lld", (unsigned long long)seed, (long long)i);
    }
    application_free(&app);
}

static void sums_are_exact(void **unused) {
    (void)unused;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round;
        const bool columns = round % 2, lengthy = round % 5 == 0;
        const int64_t dims[] = {random_range(&seed, 1, 5),
                                random_range(&seed, 1,
                                             lengthy   ? 1100
                                             : columns ? 40
                                                       : 200),
                                columns ? random_range(&seed, 2, lengthy ? 70 : 300) : 1};
        check(round / 2 % 2 ? OP_INT8 : OP_UINT8, dims, round % 3 == 0, seed);
    }
}

static void nothing_sums_to_zero(void **unused) {
    (void)unused;
    check(OP_UINT8, (const int64_t[]){3, 0, 5}, false, 1);
    check(OP_INT8, (const int64_t[]){3, 0, 1}, false, 2);
    check(OP_INT8, (const int64_t[]){0, 4, 5}, false, 3);
}

static void what_is_refused(void **unused) {
    (void)unused;
    const rt_environment environment = {.threads = 1};
    const rt_kernel *kernel = rt_kernel_of(OP_REDUCE_SUM, "portable.sum_bytes");
    application app;
    application_init(&app, OP_REDUCE_SUM);
    application_input(&app, OP_UINT8, 3, DIMS(2, 3, 4));
    int64_t *axes = application_input(&app, OP_INT64, 1, DIMS(2));
    application_integer(&app, "ouro.wide", 1);
    axes[0] = 1, axes[1] = 2;
    assert_int_equal(application_infer(&app), BASE_OK);
    assert_true(kernel->accepts(&app.call, &environment));
    axes[0] = 0; /* no neighbour of 2 */
    assert_false(kernel->accepts(&app.call, &environment));
    application_free(&app);

    application_init(&app, OP_REDUCE_SUM); /* bytes without the attribute */
    application_input(&app, OP_UINT8, 1, DIMS(4));
    application_expect_failure(&app, "uint8");
    application_init(&app, OP_REDUCE_SUM); /* others with it */
    application_input(&app, OP_INT32, 1, DIMS(4));
    application_integer(&app, "ouro.wide", 1);
    application_expect_failure(&app, "int32");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_are_exact),
                                       cmocka_unit_test(nothing_sums_to_zero),
                                       cmocka_unit_test(what_is_refused)};
    return cmocka_run_group_tests_name("sum_bytes", tests, NULL, NULL);
}
