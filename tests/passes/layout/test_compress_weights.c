/* SPDX-License-Identifier: Apache-2.0 */
/* test_compress_weights.c: weights of products of one row take 28 bits where all of them together are more than a cache holds, and
 * results are the same bits; below that, in plans for any machine, and where rows are several or open, weights stay as they are. */
#include "runtime/kernels/table.h"
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { DEPTH = 80, COLUMNS = 96, BYTES = DEPTH * COLUMNS * 4, LENGTH = 1 << 18 };

static float random_number(uint32_t *state) {
    *state = *state * 1664525 + 1013904223;
    return (float)((int32_t)*state >> 8) / (float)(1 << 23);
}

/* A model of two products with one matrix, the second of them with what the first has made. */
static char *make_text(const char *rows) {
    char *text = malloc(LENGTH);
    uint32_t seed = 3;
    assert_non_null(text);
    size_t at =
        (size_t)snprintf(text, LENGTH, "module \"m\" {\n constant %%w: float32[%d,%d] = {", DEPTH, COLUMNS);
    for (int i = 0; i < DEPTH * COLUMNS; i++)
        at += (size_t)snprintf(text + at, LENGTH - at, "%s%.9g", i ? ", " : "", (double)random_number(&seed));
    snprintf(text + at, LENGTH - at,
             "}\ngraph main(%%x: float32[%s,%d]) {\n"
             " %%y: float32[%s,%d] = MatMul(%%x, %%w)\n"
             " %%z: float32[%s,%d] = Gemm(%%y, %%w) {transB = 1}\n"
             " yield %%y, %%z } }\n",
             rows, DEPTH, rows, COLUMNS, rows, DEPTH);
    return text;
}

static void weights_beyond_the_cache_take_fewer_bits(void **state) {
    (void)state;
    const size_t wanted = support_wants_panels() ? 2 : 0;
    const struct {
        const char *rows;
        size_t cached;
        bool portable;
        size_t compressed;
    } cases[] = {{"1", BYTES, false, wanted}, {"1", BYTES + 1, false, 0}, {"1", 0, false, 0},
                 {"2", BYTES, false, 0},      {"1", BYTES, true, 0},      {"?", BYTES, false, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = make_text(cases[i].rows);
        const pass_options options = {.cached_weight_bytes = cases[i].cached,
                                      .environment = {.threads = 1, .portable_only = cases[i].portable}};
        support_session on;
        support_session_open_with(&on, text, &options);
        if (support_count_kernel(rt_plan_of(on.plan), "portable.compressed_product") != cases[i].compressed)
            fail_msg("case %zu", i);
        support_session_close(&on);
        free(text);
    }
}

static void results_are_the_same(void **state) {
    (void)state;
    float x[DEPTH], y[2][COLUMNS], z[2][DEPTH];
    size_t constants[2];
    uint32_t seed = 5;
    for (int i = 0; i < DEPTH; i++) x[i] = random_number(&seed);
    char *text = make_text("1");
    for (int compressed = 0; compressed < 2; compressed++) {
        const pass_options options = {.cached_weight_bytes = compressed ? BYTES : 0,
                                      .environment = {.threads = 1}};
        support_session on;
        support_session_open_with(&on, text, &options);
        constants[compressed] = rt_plan_of(on.plan)->header->constants_bytes;
        support_bind(&on, 0, x, sizeof x);
        support_run(&on);
        memcpy(y[compressed], support_output(&on, 0, sizeof y[0]), sizeof y[0]);
        memcpy(z[compressed], support_output(&on, 1, sizeof z[0]), sizeof z[0]);
        support_session_close(&on);
    }
    assert_memory_equal(y[0], y[1], sizeof y[0]);
    assert_memory_equal(z[0], z[1], sizeof z[0]);
    if (support_wants_panels()) assert_true(constants[1] < constants[0] * 15 / 16);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_beyond_the_cache_take_fewer_bits),
        cmocka_unit_test(results_are_the_same),
    };
    return cmocka_run_group_tests_name("compress_weights", tests, NULL, NULL);
}
