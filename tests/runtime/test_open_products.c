/* SPDX-License-Identifier: Apache-2.0 */
/* test_open_products.c: products whose number of rows only a run knows, on kernels that are chosen for an example of it: none, one, a few, many rows give
 * what a plan gives that knows their number and keeps to exact arithmetic, in floats and in halves; and nothing is allocated once a number was seen.
 */
#include "runtime/kernels/portable/fixed_tiles.h"
#include "runtime/executor.h"
#include "tests/support/application.h"
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include "tests/support/writer.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { DEPTH = 200, INNER = 256, COLUMNS = 250, MOST_ROWS = 300, CAPACITY = 1200000 };

/* What products compute in: its name, its number in ONNX, how near results are. */
typedef struct precision {
    const char *name;
    int number;
    float near;
} precision;
static const precision precisions[] = {{"float32", 1, 2e-5f}, {"float16", 10, 2e-3f}};

/* Two products with bias and an activation between them, of `rows` rows: a number, or a symbol that is declared. */
static const char *products_text(const precision *of, const char *symbols, const char *rows) {
    static char text[CAPACITY];
    const char *dtype = of->name;
    support_writer to = support_writer_on(text, sizeof text);
    support_write(&to, "module \"products\" {\n%s", symbols);
    support_write_constant(&to, "v", dtype, "200,256", DEPTH * INNER, 1);
    support_write_constant(&to, "w", dtype, "256,250", INNER * COLUMNS, 2);
    support_write_constant(&to, "b", dtype, "256", INNER, 3);
    support_write(&to,
                  "  graph main(%%x: float32[1,%s,200]) {\n"
                  "    %%h: %s[1,%s,200] = Cast(%%x) {to = %d}\n"
                  "    %%a: %s[1,%s,256] = MatMul(%%h, %%v)\n"
                  "    %%c: %s[1,%s,256] = Add(%%a, %%b)\n"
                  "    %%d: %s[1,%s,256] = Gelu(%%c)\n"
                  "    %%e: %s[1,%s,250] = MatMul(%%d, %%w)\n"
                  "    %%y: float32[1,%s,250] = Cast(%%e) {to = 1}\n    yield %%y\n  }\n}\n",
                  rows, dtype, rows, of->number, dtype, rows, dtype, rows, dtype, rows, dtype, rows, rows);
    return text;
}

static void fill(float *x, size_t count) {
    uint64_t seed = 7;
    for (size_t i = 0; i < count; i++) x[i] = 0.001f * (float)random_range(&seed, -1000, 1000);
}

static void bind_rows(const support_session *open, const float *x, int64_t rows) {
    const int64_t shape[] = {1, rows, DEPTH};
    ouro_error error;
    if (ouro_session_bind_input(open->session, 0, x, (size_t)rows * DEPTH * sizeof *x, shape, &error) !=
        OURO_OK)
        fail_msg("%s", error.message);
}

static void expect_as_known(const support_session *open, const precision *of, const float *x, int rows,
                            int threads) {
    char number[12];
    support_session known;
    const size_t count = (size_t)rows * COLUMNS;
    const pass_options exact = {
        .max_unroll = 16, .exact_arithmetic = true, .environment = {.threads = threads}};
    snprintf(number, sizeof number, "%d", rows);
    support_session_open_with(&known, products_text(of, "", number), &exact);
    support_bind(&known, 0, x, (size_t)rows * DEPTH * sizeof *x);
    bind_rows(open, x, rows);
    support_run(open);
    support_run(&known);
    const float *got = support_output(open, 0, count * sizeof *got),
                *want = support_output(&known, 0, count * sizeof *want);
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(got[i] - want[i]) <= of->near * (1 + fabsf(want[i]))))
            fail_msg("%s, %d rows, %d threads: element %zu is %g, expected %g", of->name, rows, threads, i,
                     (double)got[i], (double)want[i]);
    support_session_close(&known);
}

static void rows_may_be_any_number(void **state) {
    (void)state;
    static float x[MOST_ROWS * DEPTH];
    static const int numbers[] = {40, 1, 0, 300, 2, 7, 129, 1, 33, 16};
    fill(x, MOST_ROWS * DEPTH);
    for (int trial = 0; trial < 6; trial++) {
        const precision *of = &precisions[trial % 2];
        const int threads = 1 + trial / 2;
        const pass_options options = {.max_unroll = 16, .environment = {.threads = threads}};
        support_session open;
        support_session_open_with(&open, products_text(of, "  symbol N\n", "N"), &options);
        assert_int_equal(support_count_kernel(open.session->of, "portable.fixed_product"),
                         rt_fixed_wanted() ? 2 : 0);
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
            expect_as_known(&open, of, x, numbers[i], threads);
        support_expect_no_allocations(&open);
        support_session_close(&open);
    }
}

/* The bits of a row do not hang on how many others there are. */
static void check_bits(const precision *of) {
    static float x[MOST_ROWS * DEPTH], first[COLUMNS];
    const pass_options options = {.max_unroll = 16, .environment = {.threads = 1}};
    support_session open;
    fill(x, MOST_ROWS * DEPTH);
    support_session_open_with(&open, products_text(of, "  symbol N\n", "N"), &options);
    for (int rows = 1; rows <= 200; rows = 2 * rows + 1) {
        bind_rows(&open, x, rows);
        support_run(&open);
        const float *y = support_output(&open, 0, (size_t)rows * COLUMNS * sizeof *y);
        if (rows == 1) memcpy(first, y, sizeof first);
        assert_memory_equal(y, first, sizeof first);
    }
    support_session_close(&open);
}

static void bits_do_not_depend_on_others(void **state) {
    (void)state;
    if (!rt_fixed_wanted()) skip();
    for (int i = 0; i < 2; i++) check_bits(&precisions[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_may_be_any_number),
        cmocka_unit_test(bits_do_not_depend_on_others),
    };
    return cmocka_run_group_tests_name("products of any number of rows", tests, NULL, NULL);
}
