/* SPDX-License-Identifier: Apache-2.0 */
/* test_operators_odd.c: applications that make little sense: inputs of types and shapes drawn at random, attributes
 * too. Each is refused with a message, or gives a result; none reads or writes outside of its tensors (buffers have
 * exactly the size of their data, so that a build with sanitizers sees it), and none hangs.
 *
 * With arguments: the name of an operator, how often, and a seed. */
#include "tests/support/odd.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { ROUNDS = 400 };

static const char *only;
static uint64_t seed = 1;
static int64_t rounds = ROUNDS;

static bool try_one(op_code code, uint64_t number) {
    const rt_environment environment = {.threads = 1, .portable_only = true};
    base_report report = {0};
    odd_application app;
    odd_draw(&app, code, number);
    bool done = odd_infer(&app) && odd_take_outputs(&app);
    if (done) {
        done = rt_kernel_evaluate(&app.call, &environment, &app.arena, &report) == BASE_OK;
        if (!done && !report.count) fail_msg("%s fails without a word", op_schema_of(code)->name);
    }
    odd_free(&app);
    return done;
}

static void test_odd(void **state) {
    (void)state;
    printf("seed %llu\n", (unsigned long long)seed);
    for (int code = OP_CODE_NONE + 1; code < OP_CODE_COUNT; code++) {
        const op_schema *row = op_schema_of((op_code)code);
        int64_t done = 0;
        if (!odd_is_tried((op_code)code)) continue;
        if (only && strcmp(only, row->name) != 0) continue;
        for (int64_t i = 0; i < rounds; i++)
            done += try_one((op_code)code, seed * 1000003 + (uint64_t)code * 7919 + (uint64_t)i);
        if (only) printf("%s: %lld of %lld ran\n", row->name, (long long)done, (long long)rounds);
    }
}

int main(int count, char **arguments) {
    if (count > 1) only = arguments[1];
    if (count > 2) rounds = strtoll(arguments[2], NULL, 10);
    if (count > 3) seed = strtoull(arguments[3], NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_odd)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
