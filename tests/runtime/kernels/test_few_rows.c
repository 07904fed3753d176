/* SPDX-License-Identifier: Apache-2.0 */
/* test_few_rows.c: products of a few rows by a matrix where it lies beside sums in double: every number of rows, odd depths and columns, both ways that the
 * matrix may lie; through Gemm and MatMul, the same bits for any number of threads, and which kernel takes them.
 */
#include "runtime/kernels/portable/few_rows.h"
#include "tests/support/application.h"
#include "tests/support/support.h"
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MOST_DEPTH = 80, MOST_COLUMNS = 180 };

/* Numbers after which a page of the address space might end are not read: all memory has just its size. */
static float *numbers(int64_t count, uint64_t *seed) {
    float *data = malloc((size_t)count * sizeof *data);
    assert_non_null(data);
    for (int64_t i = 0; i < count; i++) data[i] = random_float(seed);
    return data;
}

static void check_product(int64_t rows, int64_t depth, int64_t columns, bool turned, bool turned_left) {
    enum { APART = 3 }; /* rows of Y */
    uint64_t seed = (uint64_t)(rows * 1000003 + depth * 1009 + columns + 1);
    const int64_t y_row = columns + APART;
    float *a = numbers(rows * depth, &seed), *b = numbers(depth * columns, &seed),
          *y = numbers(rows * y_row, &seed), *before = malloc((size_t)(rows * y_row) * sizeof *before);
    assert_non_null(before);
    memcpy(before, y, (size_t)(rows * y_row) * sizeof *before);
    const rt_few_rows product = {.rows = rows,
                                 .columns = columns,
                                 .depth = depth,
                                 .a = a,
                                 .a_row = turned_left ? 1 : depth,
                                 .a_depth = turned_left ? rows : 1,
                                 .b = b,
                                 .b_depth = turned ? 1 : columns,
                                 .b_column = turned ? depth : 1,
                                 .y = y,
                                 .y_row = y_row};
    rt_few_rows_run(&product);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            double sum = 0;
            for (int64_t k = 0; k < depth; k++)
                sum += (double)a[i * product.a_row + k * product.a_depth] *
                       (double)b[k * product.b_depth + j * product.b_column];
            application_check_near((double)y[i * y_row + j], sum, 1e-5, (uint64_t)rows, j);
        }
        assert_memory_equal(y + i * y_row + columns, before + i * y_row + columns, APART * sizeof *y);
    }
    free(a);
    free(b);
    free(y);
    free(before);
}

static void test_every_extent(void **state) {
    (void)state;
    uint64_t seed = 1;
    if (!application_machine_is_wide()) skip();
    for (int64_t rows = 1; rows <= RT_FEW_ROWS; rows++) {
        for (uint64_t trial = 0; trial < support_share(60); trial++) {
            const int64_t depth = random_range(&seed, 0, MOST_DEPTH),
                          columns = random_range(&seed, 1, MOST_COLUMNS);
            check_product(rows, depth, columns, false, trial % 2);
            check_product(rows, depth, columns, true, false);
        }
    }
}

/* Gemm, or a stack of MatMul, of floats that are no constants. */
static void draw(application *app, int64_t rows, bool turned, bool stack, uint64_t *seed) {
    enum { STACK = 3, DEPTH = 150 };
    const int64_t columns = random_range(seed, 100, 500);
    application_init(app, stack ? OP_MATMUL : OP_GEMM);
    if (stack) {
        application_random(app, OP_FLOAT, 3, DIMS(STACK, rows, DEPTH), seed);
        application_random(app, OP_FLOAT, 3, DIMS(STACK, DEPTH, columns), seed);
        return;
    }
    application_random(app, OP_FLOAT, 2, DIMS(rows, DEPTH), seed);
    application_random(app, OP_FLOAT, 2, turned ? DIMS(columns, DEPTH) : DIMS(DEPTH, columns), seed);
    application_random(app, OP_FLOAT, 1, DIMS(columns), seed);
    application_integer(app, "transB", turned);
    application_text(app, "ouro.activation", "Relu");
}

/* The result on so many threads, as in a plan for this machine; in memory of the application. */
static op_tensor run_here(application *app, const rt_kernel *kernel, int threads) {
    const rt_environment environment = {.threads = threads};
    op_tensor output = app->outputs[0];
    op_call call = app->call;
    rt_prepared prepared;
    assert_true(op_type_bytes(&output.type, &output.bytes));
    output.data = application_memory(app, output.bytes);
    memset(output.data, 0x7f, output.bytes);
    call.outputs = &output;
    assert_int_equal(rt_kernel_prepare(kernel, &call, &environment, &app->arena, &prepared, &app->report),
                     BASE_OK);
    application_run_prepared(app, &prepared, app->inputs, &output, threads);
    return output;
}

static void test_products(void **state) {
    (void)state;
    if (!application_machine_is_wide()) skip();
    for (uint64_t trial = 1; trial <= support_share(30); trial++) {
        uint64_t seed = trial;
        const bool turned = trial % 2, stack = trial % 3 == 0;
        const char *name = stack ? "portable.matmul" : "portable.gemm";
        application app;
        draw(&app, 4 + (int64_t)(trial % 5), turned, stack, &seed);
        application_run(&app, name, 1); /* for any machine: other sums */
        const op_tensor want = app.outputs[0];
        const rt_kernel *kernel = rt_kernel_select(&app.call, &(rt_environment){.threads = 1});
        assert_string_equal(kernel->name, name);
        const op_tensor got = run_here(&app, kernel, 1);
        for (size_t i = 0; i < got.bytes / sizeof(float); i++)
            application_check_near(application_element(&got, (int64_t)i),
                                   application_element(&want, (int64_t)i), 1e-5, trial, (int64_t)i);
        for (int threads = 2; threads <= 5; threads++)
            assert_memory_equal(run_here(&app, kernel, threads).data, got.data, got.bytes);
        application_free(&app);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_extent),
        cmocka_unit_test(test_products),
    };
    return cmocka_run_group_tests_name("few rows", tests, NULL, NULL);
}
