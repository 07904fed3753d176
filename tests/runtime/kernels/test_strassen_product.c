/* SPDX-License-Identifier: Apache-2.0 */
/* test_strassen_product.c: products of halves in place of whole ones, beside plain products: random extents, turned and scaled weights, bias and activations;
 * bits depend neither on threads nor on blocks; how exact it is, for rows of different sizes too; numbers that are not finite stay in their rows;
 * what it refuses.
 */
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/product.h"
#include "tests/support/application.h"
#include "tests/support/support.h"
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char NAME[] = "portable.strassen_product";

static void test_equals_the_plain_product(void **state) {
    static const char *const activations[] = {"", "Relu", "Clip", "Gelu", "Swish"};
    (void)state;
    if (!application_machine_is_wide()) skip();
    for (uint64_t trial = 1; trial <= support_share(60); trial++) {
        uint64_t seed = trial;
        application app;
        const bool gemm = random_range(&seed, 0, 1), turned = gemm && random_range(&seed, 0, 1);
        const int64_t rows = random_range(&seed, 96, trial % 3 ? 150 : 400),
                      depth = 2 * random_range(&seed, 96, trial % 4 ? 220 : 500),
                      columns = random_range(&seed, 128, trial % 2 ? 200 : 700);
        application_init(&app, gemm ? OP_GEMM : OP_MATMUL);
        if (gemm) application_random(&app, OP_FLOAT, 2, DIMS(rows, depth), &seed);
        else application_random(&app, OP_FLOAT, 3, DIMS(1, rows, depth), &seed);
        application_random(&app, OP_FLOAT, 2, turned ? DIMS(columns, depth) : DIMS(depth, columns), &seed);
        const int64_t form = random_range(&seed, 0, 3);
        if (form) application_random(&app, OP_FLOAT, 1, DIMS(form == 1 ? 1 : columns), &seed);
        if (turned) application_integer(&app, "transB", 1);
        if (gemm && random_range(&seed, 0, 1)) application_real(&app, "alpha", 0.5f);
        if (gemm && random_range(&seed, 0, 1)) application_real(&app, "beta", -2);
        const char *activation = activations[random_range(&seed, 0, 4)];
        if (activation[0]) application_text(&app, "ouro.activation", activation);
        application_real(&app, "ouro.alpha", activation[0] == 'C' ? -0.25f : 1);
        application_real(&app, "ouro.beta", 0.75f);
        application_check_blocks(&app, NAME, gemm ? "portable.gemm" : "portable.matmul", OP_LAYOUT_ROW_MAJOR,
                                 false, trial);
        application_free(&app);
    }
}

/* Extents about those where halves, panels, blocks and parts end. */
static void test_extents_about_the_edges(void **state) {
    static const int64_t extents[][3] = {{96, 192, 128},  {97, 194, 129},  {140, 384, 160}, {141, 386, 161},
                                         {142, 768, 176}, {283, 196, 255}, {98, 770, 256},  {99, 384, 257},
                                         {100, 388, 287}, {101, 200, 288}, {281, 256, 289}, {104, 1154, 145}};
    (void)state;
    if (!application_machine_is_wide()) skip();
    for (size_t i = 0; i < sizeof extents / sizeof extents[0]; i++) {
        const int64_t *e = extents[i];
        uint64_t seed = i + 1;
        application app;
        application_init(&app, OP_MATMUL);
        application_random(&app, OP_FLOAT, 2, DIMS(e[0], e[1]), &seed);
        application_random(&app, OP_FLOAT, 2, DIMS(e[1], e[2]), &seed);
        if (i % 2) application_random(&app, OP_FLOAT, 1, DIMS(e[2]), &seed);
        if (i % 3 == 1) application_text(&app, "ouro.activation", "Relu");
        if (i % 3 == 2) application_text(&app, "ouro.activation", "Gelu");
        application_check_blocks(&app, NAME, "portable.matmul", OP_LAYOUT_ROW_MAJOR, false, i);
        application_free(&app);
    }
}

static void test_refuses(void **state) {
    const bool wide = application_machine_is_wide();
    (void)state;
    assert_int_equal(application_estimates_product(NAME, 96, 256, 256, OP_FLOAT, false), wide);
    assert_false(application_estimates_product(NAME, 96, 256, 256, OP_FLOAT, true));
    assert_false(application_estimates_product(NAME, 95, 256, 256, OP_FLOAT, false));
    assert_false(application_estimates_product(NAME, 96, 190, 256, OP_FLOAT, false));
    assert_false(application_estimates_product(NAME, 96, 257, 256, OP_FLOAT, false));
    assert_false(application_estimates_product(NAME, 96, 256, 64, OP_FLOAT, false));
    assert_false(application_estimates_product(NAME, 96, 256, 256, OP_FLOAT16, false));
}

enum { ROWS = 101, DEPTH = 700, COLUMNS = 150 };

/* A product whose numbers are changed before it is computed in doubles, floats and by the kernel. */
typedef struct comparison {
    application app;
    float *x, *w;
} comparison;

static void begin(comparison *c, uint64_t seed) {
    application_init(&c->app, OP_MATMUL);
    c->x = application_random(&c->app, OP_FLOAT, 2, DIMS(ROWS, DEPTH), &seed);
    c->w = application_random(&c->app, OP_FLOAT, 2, DIMS(DEPTH, COLUMNS), &seed);
}

static double sum_at(const comparison *c, int64_t i, int64_t j, double *size) {
    double sum = 0;
    *size = 0;
    for (int64_t k = 0; k < DEPTH; k++) {
        const double product = (double)c->x[i * DEPTH + k] * (double)c->w[k * COLUMNS + j];
        sum += product;
        *size += fabs(product);
    }
    return sum;
}

/* The largest difference from sums of doubles, of the sum of all sizes: of the kernel, and in floats. */
static double largest_difference(comparison *c, double *floats) {
    double most = 0;
    *floats = 0;
    application_run(&c->app, "portable.matmul", 1);
    const op_tensor got = application_run_blocks(&c->app, NAME, OP_LAYOUT_ROW_MAJOR, SIZE_MAX, 1, 1, false);
    for (int64_t i = 0; i < ROWS; i++) {
        for (int64_t j = 0; j < COLUMNS; j++) {
            double size;
            const double sum = sum_at(c, i, j, &size);
            if (size == 0) size = 1;
            most = fmax(most, fabs(application_element(&got, i * COLUMNS + j) - sum) / size);
            *floats =
                fmax(*floats, fabs(application_element(&c->app.outputs[0], i * COLUMNS + j) - sum) / size);
        }
    }
    print_message("off by, of the sum of sizes: %.3g in floats, %.3g in halves\n", *floats, most);
    application_free(&c->app);
    return most;
}

static void test_is_nearly_as_exact_as_floats(void **state) {
    comparison c;
    double floats;
    (void)state;
    if (!application_machine_is_wide()) skip();
    begin(&c, 1);
    assert_true(largest_difference(&c, &floats) < 4 * floats);
}

/* Rows of the lower half are 2^-40 to 2^40 of those that they share sums with, or zero. */
static void test_rows_of_different_sizes(void **state) {
    comparison c;
    double floats;
    (void)state;
    if (!application_machine_is_wide()) skip();
    begin(&c, 2);
    for (int64_t i = 0; i < ROWS; i++)
        for (int64_t k = 0; k < DEPTH; k++)
            c.x[i * DEPTH + k] *= i % 7 == 3 ? 0 : ldexpf(1, (int)(i * 37 % 81) - 40);
    assert_true(largest_difference(&c, &floats) < 4 * floats);
}

/* Small integers are exact, as long as sums are. */
static void test_small_integers_are_exact(void **state) {
    comparison c;
    double floats;
    (void)state;
    if (!application_machine_is_wide()) skip();
    begin(&c, 3);
    for (int64_t i = 0; i < ROWS * DEPTH; i++) c.x[i] = rintf(20 * c.x[i]);
    for (int64_t i = 0; i < DEPTH * COLUMNS; i++) c.w[i] = rintf(10 * c.w[i]);
    assert_true(largest_difference(&c, &floats) == 0);
}

/* Infinities and NaNs change no other row, but for its last bits. */
static void check_infinite(int threads, int64_t blocks) {
    enum { LARGE = 77 }; /* a row whose sums may be infinite */
    static const float numbers[] = {INFINITY, -INFINITY, NAN};
    comparison c;
    begin(&c, 4);
    for (int64_t i = 0; i < ROWS; i++)
        if (i % 5 == 1 || i == 60) c.x[i * DEPTH + i * 31 % DEPTH] = numbers[i % 3];
    for (int64_t k = 0; k < DEPTH; k++) c.x[LARGE * DEPTH + k] = 3e38f;
    application_run(&c.app, "portable.matmul", 1);
    const op_tensor got =
        application_run_blocks(&c.app, NAME, OP_LAYOUT_ROW_MAJOR, SIZE_MAX, blocks, threads, false);
    for (int64_t i = 0; i < ROWS; i++) {
        for (int64_t j = 0; j < COLUMNS && i != LARGE; j++) {
            const double number = application_element(&got, i * COLUMNS + j);
            double size;
            const double sum = sum_at(&c, i, j, &size);
            if (!isfinite(sum)) assert_false(isfinite(number));
            else application_check_near(number, sum, 1e-4, 4, i * COLUMNS + j);
        }
    }
    application_free(&c.app);
}

static void test_not_finite(void **state) {
    (void)state;
    if (!application_machine_is_wide()) skip();
    for (int threads = 1; threads <= 5; threads++)
        for (int64_t blocks = 1; blocks <= 6; blocks++) check_infinite(threads, blocks);
}

/* With less scratch it works in more blocks, until there is too little. */
static void test_scratch_is_limited(void **state) {
    const rt_environment environment = {.threads = 1};
    comparison c;
    rt_cost most, less;
    (void)state;
    if (!application_machine_is_wide()) skip();
    begin(&c, 5);
    assert_int_equal(application_infer(&c.app), BASE_OK);
    const rt_kernel *kernel = rt_kernel_find(NAME);
    assert_true(kernel->estimate(&c.app.call, &environment, SIZE_MAX, &most));
    assert_int_equal(most.blocks, 1);
    for (size_t limit = most.scratch_bytes - 1; kernel->estimate(&c.app.call, &environment, limit, &less);
         limit = less.scratch_bytes - 1) {
        assert_true(less.scratch_bytes <= limit && less.blocks > most.blocks);
        assert_true(less.seconds >= most.seconds && less.packed_bytes == most.packed_bytes);
        most = less;
    }
    assert_true(most.blocks > 3);
    assert_false(kernel->estimate(&c.app.call, &environment, 0, &less));
    application_free(&c.app);
}

/* Less time than plain products where there is much to multiply, and less the more rows there are at a time. */
static void test_predictions(void **state) {
    (void)state;
    if (!application_machine_is_wide()) skip();
    for (int threads = 1; threads <= 4; threads++) {
        const rt_environment environment = {.threads = threads};
        const double bytes = 768 * 768 * sizeof(float),
                     plain = rt_packed_product_seconds(256, 768, 768, bytes, &environment);
        rt_strassen_work work = {
            .rows = 256, .depth = 768, .columns = 768, .parts = 2, .passes = 2, .weight_bytes = 1.75 * bytes};
        const double seconds = rt_strassen_seconds(&work, &environment);
        assert_true(seconds < plain);
        work.passes = 8;
        assert_true(rt_strassen_seconds(&work, &environment) > seconds);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_the_plain_product),
        cmocka_unit_test(test_extents_about_the_edges),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_is_nearly_as_exact_as_floats),
        cmocka_unit_test(test_rows_of_different_sizes),
        cmocka_unit_test(test_small_integers_are_exact),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_scratch_is_limited),
        cmocka_unit_test(test_predictions),
    };
    return cmocka_run_group_tests_name("strassen_product", tests, NULL, NULL);
}
