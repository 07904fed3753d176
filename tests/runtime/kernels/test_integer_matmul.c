/* SPDX-License-Identifier: Apache-2.0 */
/* test_integer_matmul.c: MatMulInteger whose matrices are both computed, beside sums made one product at a time: all pairs of types, zero points of
 * all kinds, bytes at the ends of their types, columns that fill panels and that do not, depths of one stretch and of several, few rows and many,
 * stacks, on one thread and on three.
 */
#include "tests/support/application.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { ROUNDS = 240 };

static int32_t number(op_dtype dtype, uint8_t byte) {
    return dtype == OP_INT8 ? (int8_t)byte : byte;
}

/* Adds a zero point: none, one, or one for each of `count` rows or columns. */
static uint8_t *add_zero(application *app, op_dtype dtype, int kind, int64_t count, uint64_t *seed) {
    if (kind == 0) {
        application_absent(app);
        return NULL;
    }
    return application_random(app, dtype, kind == 1 ? 0 : 1, DIMS(count), seed);
}

static void sums_are_exact(void **unused) {
    (void)unused;
    static const op_dtype types[] = {OP_INT8, OP_UINT8};
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round;
        const op_dtype a_type = types[round % 2], b_type = types[round / 2 % 2];
        const bool deep = round % 5 == 0, panels = round % 3 != 0;
        const int64_t stack = random_range(&seed, 1, 2),
                      rows = random_range(&seed, 1,
                                          round % 4 == 0 ? 4
                                          : deep         ? 20
                                                         : 70),
                      depth = random_range(&seed, 1, deep ? 1300 : 90),
                      columns = panels ? 16 * random_range(&seed, 1, 9) : random_range(&seed, 1, 150);
        application app;
        application_init(&app, OP_MATMUL_INTEGER);
        uint8_t *a = application_random(&app, a_type, 3, DIMS(stack, rows, depth), &seed);
        uint8_t *b = application_random(&app, b_type, 3, DIMS(stack, depth, columns), &seed);
        for (int64_t i = 0; i < stack * rows * depth && round % 7 == 0; i++)
            a[i] = a_type == OP_INT8 ? 0x80 : 0xff;
        for (int64_t i = 0; i < stack * depth * columns && round % 7 < 2; i++)
            b[i] = b_type == OP_INT8 ? (i % 2 ? 0x80 : 0x7f) : 0xff;
        const int a_kind = (int)random_range(&seed, 0, 1),
                  b_kind = (int)random_range(&seed, 0, stack == 1 ? 2 : 1);
        const uint8_t *a_zero = add_zero(&app, a_type, a_kind, rows, &seed),
                      *b_zero = add_zero(&app, b_type, b_kind, columns, &seed);
        application_run(&app, "portable.matmul_integer", round % 2 ? 1 : 3);
        const int32_t *y = app.outputs[0].data;
        for (int64_t i = 0; i < stack * rows * columns; i++) {
            const int64_t column = i % columns, row = i / columns, matrix = row / rows;
            uint32_t sum = 0;
            for (int64_t k = 0; k < depth; k++) {
                const int32_t left = number(a_type, a[row * depth + k]) -
                                     (a_zero ? number(a_type, a_zero[0]) : 0),
                              right = number(b_type, b[(matrix * depth + k) * columns + column]) -
                                      (b_zero ? number(b_type, b_zero[b_kind == 2 ? column : 0]) : 0);
                sum += (uint32_t)(left * right);
            }
            if (y[i] != (int32_t)sum)
                fail_msg("round %d, element %lld: %d, expected %d", (int)round, (long long)i, y[i],
                         (int32_t)sum);
        }
        application_free(&app);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_are_exact)};
    return cmocka_run_group_tests_name("integer_matmul", tests, NULL, NULL);
}
