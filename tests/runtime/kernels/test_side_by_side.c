/* SPDX-License-Identifier: Apache-2.0 */
/* test_side_by_side.c: products of matrices whose stack is innermost, beside sums written down here, to the bit: every number of rows and columns about
 * the edges of tiles, odd numbers of products, with AVX-512 and without; and Einsum, which has them and stacks of other products, on 1 to 5 threads.
 */
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/side_by_side.h"
#include "tests/support/application.h"
#include "tests/support/support.h"
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { APART = 3 /* elements between the stacks of two elements of a matrix */ };

/* Memory that has just its size, so that nothing beside it is read. */
static float *numbers(int64_t count, uint64_t *seed) {
    float *data = malloc((size_t)count * sizeof *data);
    assert_non_null(data);
    for (int64_t i = 0; i < count; i++) data[i] = random_float(seed);
    return data;
}

static float expected(const rt_side_by_side *of, int64_t row, int64_t column, int64_t lane) {
    float sum = 0;
    for (int64_t k = 0; k < of->depth; k++) {
        const float a = of->a[row * of->a_row + k * of->a_depth + lane],
                    b = of->b[k * of->b_depth + column * of->b_column + lane];
        const float product = a * b;
        sum = of->wide ? fmaf(a, b, sum) : sum + product;
    }
    return sum;
}

static void check(int64_t lanes, int64_t rows, int64_t columns, int64_t depth, bool wide) {
    uint64_t seed = (uint64_t)(((lanes * 64 + rows) * 64 + columns) * 64 + depth + 1);
    const int64_t step = lanes + APART, made = rows * columns * step - APART;
    float *a = numbers(rows * depth * step - APART, &seed),
          *b = numbers(depth * columns * step - APART, &seed), *y = numbers(made, &seed),
          *before = malloc((size_t)made * sizeof *before);
    assert_non_null(before);
    memcpy(before, y, (size_t)made * sizeof *before);
    const rt_side_by_side of = {.lanes = lanes,
                                .rows = rows,
                                .columns = columns,
                                .depth = depth,
                                .a = a,
                                .a_row = depth * step,
                                .a_depth = step,
                                .b = b,
                                .b_depth = columns * step,
                                .b_column = step,
                                .y = y,
                                .y_row = columns * step,
                                .y_column = step,
                                .wide = wide};
    rt_side_by_side_run(&of);
    for (int64_t i = 0; i < rows * columns; i++) {
        for (int64_t lane = 0; lane < lanes; lane++) {
            const float sum = expected(&of, i / columns, i % columns, lane);
            if (memcmp(&sum, &y[i * step + lane], sizeof sum) != 0)
                fail_msg("%d products, %d x %d x %d: element %d of product %d is %a, not %a", (int)lanes,
                         (int)rows, (int)depth, (int)columns, (int)i, (int)lane, (double)y[i * step + lane],
                         (double)sum);
        }
        if (i + 1 < rows * columns)
            assert_memory_equal(y + i * step + lanes, before + i * step + lanes, APART * sizeof *y);
    }
    free(a);
    free(b);
    free(y);
    free(before);
}

static void all_edges(bool wide) {
    static const int64_t lanes[] = {1, 15, 16, 17, 33, 64, 65, 100};
    for (int64_t rows = 1; rows <= 9; rows++)
        for (int64_t columns = 1; columns <= 9; columns++)
            for (size_t i = 0; i < sizeof lanes / sizeof *lanes; i++)
                check(lanes[i], rows, columns, 1 + (rows * 7 + columns + (int64_t)i) % 6, wide);
}

static void in_registers(void **state) {
    (void)state;
#if RT_X86_KERNELS
    if (__builtin_cpu_supports("avx512f")) {
        all_edges(true);
        return;
    }
#endif
    skip();
}

static void on_any_machine(void **state) {
    (void)state;
    all_edges(false);
}

/* The same bits however many threads share the work. */
static void einsum_on_threads(void **state) {
    (void)state;
    static const struct {
        const char *equation;
        int64_t a[4], b[4], elements;
    } cases[] = {
        {"bixy,ioxy->boxy", {3, 5, 20, 30}, {5, 18, 20, 30}, 3 * 18 * 20 * 30},  /* side by side */
        {"xbiy,xoiy->xoby", {2, 11, 13, 33}, {2, 17, 13, 33}, 2 * 17 * 11 * 33}, /* the same */
        {"abcd,cefd->abef", {9, 7, 6, 8}, {6, 10, 11, 8}, 9 * 7 * 10 * 11},      /* copies */
        {"abcd,aecf->cfbe", {8, 9, 10, 7}, {8, 11, 10, 12}, 10 * 12 * 9 * 11},   /* with a sum alone */
        {"abcd,aebd->bace", {12, 6, 30, 20}, {12, 25, 6, 20}, 6 * 12 * 30 * 25}, /* from where they lie */
        {"abcd,abcd->ab", {40, 8, 9, 31}, {40, 8, 9, 31}, 40 * 8},               /* rows times rows */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float *first = NULL;
        for (int threads = 1; threads <= 5; threads++) {
            uint64_t seed = i + 1;
            application app;
            application_init(&app, OP_EINSUM);
            application_random(&app, OP_FLOAT, 4, cases[i].a, &seed);
            application_random(&app, OP_FLOAT, 4, cases[i].b, &seed);
            application_text(&app, "equation", cases[i].equation);
            application_run(&app, "portable.einsum", threads);
            const size_t bytes = (size_t)cases[i].elements * sizeof *first;
            assert_int_equal(app.outputs[0].bytes, bytes);
            if (!first) first = malloc(bytes);
            assert_non_null(first);
            if (threads == 1) memcpy(first, app.outputs[0].data, bytes);
            assert_memory_equal(first, app.outputs[0].data, bytes);
            application_free(&app);
        }
        free(first);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_registers), cmocka_unit_test(on_any_machine),
                                       cmocka_unit_test(einsum_on_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
