/* SPDX-License-Identifier: Apache-2.0 */
/* test_fixed_product.c: products of matrices in fixed point beside those in floats, on machines that have tiles of bytes: random extents, turned and
 * scaled weights, bias and activations; bits depend neither on threads nor on bands; how exact it is, for numbers of different sizes too; what it refuses.
 */
#include "runtime/kernels/portable/fixed_tiles.h"
#include "tests/support/application.h"
#include "tests/support/support.h"
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char NAME[] = "portable.fixed_product";

static void test_equals_the_plain_product(void **state) {
    enum { FEW_ROWS = 8 };
    (void)state;
    if (!rt_fixed_wanted()) skip();
    for (uint64_t trial = 1; trial <= support_share(40); trial++) {
        uint64_t seed = trial;
        const int64_t rows = random_range(&seed, 1, trial % 2 ? 150 : 9);
        application app;
        application_draw_product(&app, rows, &seed);
        if (rows < FEW_ROWS) application_integer(&app, "ouro.weights_bits", 28); /* fewer want to be far */
        application_check_blocks(&app, NAME, app.call.code == OP_GEMM ? "portable.gemm" : "portable.matmul",
                                 OP_LAYOUT_ROW_MAJOR, false, trial);
        application_free(&app);
    }
}

static void test_refuses(void **state) {
    (void)state;
    assert_int_equal(application_estimates_product(NAME, 64, 64, 64, OP_FLOAT, false), rt_fixed_wanted());
    assert_false(application_estimates_product(NAME, 64, 64, 64, OP_FLOAT, true));
    assert_false(application_estimates_product(NAME, 64, 8, 64, OP_FLOAT, false));
    assert_false(application_estimates_product(NAME, 64, 64, 8, OP_FLOAT, false));
    assert_false(application_estimates_product(NAME, 64, 64, 64, OP_FLOAT16, false));
}

/* The largest differences from sums of doubles, of the sum of all sizes, in floats and in fixed point. */
typedef struct difference {
    double floats, fixed;
} difference;

/* X W, where `change` gives both other numbers than those between -1 and 1 that they have. */
static difference find_difference(int64_t rows, int64_t depth, int64_t columns, uint64_t trial,
                                  void (*change)(float *x, float *w, int64_t rows, int64_t depth,
                                                 int64_t columns, uint64_t *seed)) {
    uint64_t seed = trial;
    difference found = {0};
    application app;
    application_init(&app, OP_MATMUL);
    application_random(&app, OP_FLOAT, 2, DIMS(rows, depth), &seed);
    application_random(&app, OP_FLOAT, 2, DIMS(depth, columns), &seed);
    float *x = app.inputs[0].data, *w = app.inputs[1].data;
    change(x, w, rows, depth, columns, &seed);
    application_run(&app, "portable.matmul", 1);
    const float *floats = app.outputs[0].data;
    const op_tensor fixed = application_run_blocks(&app, NAME, OP_LAYOUT_ROW_MAJOR, SIZE_MAX, 1, 1, false);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            double sum = 0, size = 0;
            for (int64_t k = 0; k < depth; k++) {
                const double product = (double)x[i * depth + k] * (double)w[k * columns + j];
                sum += product;
                size += fabs(product);
            }
            if (size == 0) size = 1;
            const int64_t at = i * columns + j;
            found.floats = fmax(found.floats, fabs((double)floats[at] - sum) / size);
            found.fixed = fmax(found.fixed, fabs((double)((const float *)fixed.data)[at] - sum) / size);
        }
    }
    application_free(&app);
    return found;
}

static void change_sizes(float *x, float *w, int64_t rows, int64_t depth, int64_t columns, uint64_t *seed) {
    for (int64_t i = 0; i < rows * depth; i++) x[i] *= ldexpf(1, (int)random_range(seed, 0, 6) - 3);
    for (int64_t i = 0; i < depth * columns; i++) w[i] *= ldexpf(1, (int)random_range(seed, 0, 6) - 3);
}

static void test_is_as_exact_as_floats(void **state) {
    (void)state;
    double floats = 0, fixed = 0;
    if (!rt_fixed_wanted()) skip();
    for (uint64_t trial = 1; trial <= 8; trial++) {
        const difference found = find_difference(48, 700, 50, trial, change_sizes);
        floats = fmax(floats, found.floats);
        fixed = fmax(fixed, found.fixed);
    }
    print_message("off by, of the sum of sizes: %.3g in floats, %.3g in fixed point\n", floats, fixed);
    assert_true(fixed <= floats);
}

/* A spectrum: few large numbers, and many that are up to 2^-30 of them, of which alone most columns know. */
static void make_spectra(float *x, float *w, int64_t rows, int64_t depth, int64_t columns, uint64_t *seed) {
    enum { LARGE = 8, PARTS = 4 };
    for (int64_t i = 0; i < rows * depth; i++)
        x[i] *= i % depth < LARGE    ? 1e6f
                : i / depth % 3 == 0 ? 1e-3f
                                     : ldexpf(1, -(int)random_range(seed, 0, 9));
    for (int64_t i = 0; i < depth * columns; i++)
        if (i % columns % PARTS && i / columns < LARGE) w[i] = 0;
}

static void test_rows_of_numbers_of_different_sizes(void **state) {
    (void)state;
    double worst = 0;
    if (!rt_fixed_wanted()) skip();
    for (uint64_t trial = 1; trial <= 8; trial++)
        worst = fmax(worst, find_difference(30, 257, 40, trial, make_spectra).fixed);
    print_message("off by, of the sum of sizes: %.3g\n", worst);
    assert_true(worst < 0x1p-15);
}

/* Every third row is nothing; others are so small, or so large, that only results are normal numbers. */
static void make_extremes(float *x, float *w, int64_t rows, int64_t depth, int64_t columns, uint64_t *seed) {
    (void)seed;
    for (int64_t i = 0; i < rows * depth; i++)
        x[i] *= i / depth % 3 == 0 ? 0 : i / depth % 3 == 1 ? 1e-25f : 1e30f;
    for (int64_t i = 0; i < depth * columns; i++) w[i] *= i % columns % 2 ? 1e-6f : 0;
}

static void test_numbers_near_the_ends(void **state) {
    (void)state;
    if (!rt_fixed_wanted()) skip();
    const difference found = find_difference(25, 300, 33, 1, make_extremes);
    assert_true(found.fixed <= 1e-6);
}

static void make_integers(float *x, float *w, int64_t rows, int64_t depth, int64_t columns, uint64_t *seed) {
    for (int64_t i = 0; i < rows * depth; i++) x[i] = (float)((int)random_range(seed, 0, 200) - 100);
    for (int64_t i = 0; i < depth * columns; i++) w[i] = (float)((int)random_range(seed, 0, 20) - 10);
}

static void test_small_integers_are_exact(void **state) {
    (void)state;
    if (!rt_fixed_wanted()) skip();
    assert_true(find_difference(40, 500, 48, 1, make_integers).fixed == 0);
}

/* The same kind of number: of one sign and infinite, or NaN, or finite. */
static bool is_alike(double got, double want) {
    return isfinite(want) ? isfinite(got) : isnan(want) ? isnan(got) : got == want;
}

enum { INFINITE_DEPTH = 600, INFINITE_COLUMNS = 50 };

/* Puts numbers that are not finite into a row, as its number says; true: it has some. */
static bool make_infinite(float *row, int64_t number) {
    /* Of one block of the depth, of the first, of the last, of two. */
    static const int places[] = {5, 255, 300, INFINITE_DEPTH - 1};
    static const float numbers[] = {INFINITY, -INFINITY, NAN};
    const int which = (int)number % 9;
    if (which < 3) row[places[number % 4]] = numbers[which];
    else if (which == 3) row[7] = INFINITY, row[500] = -INFINITY;
    else if (which == 4) row[40] = row[41] = row[333] = -INFINITY;
    else if (which == 5) row[50] = INFINITY, row[51] = NAN;
    return which < 6;
}

/* Rows with infinities and NaNs in a tile beside others, whose bits they leave as they are: sums are infinite or NaN as those of doubles. */
static void check_infinite(int64_t rows, const char *activation, float size, int threads, int64_t bands) {
    enum { DEPTH = INFINITE_DEPTH, COLUMNS = INFINITE_COLUMNS };
    uint64_t seed = 3;
    application app;
    application_init(&app, OP_MATMUL);
    application_random(&app, OP_FLOAT, 2, DIMS(rows, DEPTH), &seed);
    application_random(&app, OP_FLOAT, 2, DIMS(DEPTH, COLUMNS), &seed);
    application_random(&app, OP_FLOAT, 1, DIMS(COLUMNS), &seed);
    if (activation[0]) application_text(&app, "ouro.activation", activation);
    if (rows < 8) application_integer(&app, "ouro.weights_bits", 28);
    float *x = app.inputs[0].data, *w = app.inputs[1].data, *bias = app.inputs[2].data;
    for (int64_t i = 0; i < rows * DEPTH; i++) x[i] *= i % 5 ? size : 1; /* coarse, where that is small */
    for (int64_t i = 0; i < DEPTH * COLUMNS; i += 17) w[i] = 0;
    for (int64_t k = 0; k < DEPTH; k++) w[k * COLUMNS + 11] = 0;
    assert_int_equal(application_infer(&app), BASE_OK);
    const op_tensor before =
        application_run_blocks(&app, NAME, OP_LAYOUT_ROW_MAJOR, SIZE_MAX, bands, threads, false);
    for (int64_t i = 0; i < rows; i++) (void)make_infinite(x + i * DEPTH, i);
    const op_tensor after =
        application_run_blocks(&app, NAME, OP_LAYOUT_ROW_MAJOR, SIZE_MAX, bands, threads, false);
    for (int64_t i = 0; i < rows; i++) {
        const float *got = (const float *)after.data + i * COLUMNS;
        bool finite = true;
        for (int64_t j = 0; j < COLUMNS; j++) {
            double sum = (double)bias[j];
            for (int64_t k = 0; k < DEPTH; k++) {
                const double number = (double)x[i * DEPTH + k];
                finite &= isfinite(number);
                sum += number * (double)w[k * COLUMNS + j];
            }
            if (activation[0] && sum < 0) sum = 0;
            if (!is_alike((double)got[j], sum))
                fail_msg("%d threads, row %d, column %d: %g, expected %g", threads, (int)i, (int)j,
                         (double)got[j], sum);
        }
        if (finite) assert_memory_equal(got, (const float *)before.data + i * COLUMNS, COLUMNS * sizeof *got);
    }
    application_free(&app);
}

static void test_not_finite(void **state) {
    (void)state;
    if (!rt_fixed_wanted()) skip();
    for (int threads = 1; threads <= 5; threads++) {
        for (int64_t bands = 0; bands <= 3; bands++) {
            const float size = bands % 2 ? 1 : 1e-6f;
            check_infinite(45, "", size, threads, bands);
            check_infinite(45, "Relu", size, threads, bands);
            check_infinite(9, "", size, threads, bands);
            check_infinite(1, "Relu", size, threads, bands);
        }
    }
}

/* Whether weights suit that have `first` as the first number of a column, and numbers between -`size` and `size` after it. */
static bool is_suited(float first, float size) {
    enum { DEPTH = 96, COLUMNS = 40, COLUMN = 37 };
    const rt_environment environment = {.threads = 1};
    uint64_t seed = 1;
    application app;
    application_init(&app, OP_MATMUL);
    application_input(&app, OP_FLOAT, 2, DIMS(64, DEPTH));
    application_random(&app, OP_FLOAT, 2, DIMS(DEPTH, COLUMNS), &seed);
    float *w = app.inputs[1].data;
    for (int64_t k = 0; k < DEPTH; k++) w[k * COLUMNS + COLUMN] *= size;
    w[COLUMN] = first;
    assert_int_equal(application_infer(&app), BASE_OK);
    const bool suited = rt_kernel_find(NAME)->suits(&app.call, &environment, 1, &app.inputs[1]);
    application_free(&app);
    return suited;
}

static void test_weights_that_do_not_suit(void **state) {
    (void)state;
    if (!rt_fixed_wanted()) skip();
    assert_true(is_suited(1, 1));
    assert_true(is_suited(100, 1));
    assert_true(is_suited(1e-20f, 1));
    assert_false(is_suited(1, 0));
    assert_true(is_suited(0, 0));
    assert_false(is_suited(1, 1e-5f));
    assert_false(is_suited(INFINITY, 1));
    assert_false(is_suited(NAN, 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_the_plain_product),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_is_as_exact_as_floats),
        cmocka_unit_test(test_rows_of_numbers_of_different_sizes),
        cmocka_unit_test(test_numbers_near_the_ends),
        cmocka_unit_test(test_small_integers_are_exact),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_weights_that_do_not_suit),
    };
    return cmocka_run_group_tests_name("fixed_product", tests, NULL, NULL);
}
