/* SPDX-License-Identifier: Apache-2.0 */
/* test_fixed_product.c: products of matrices of floats and halves in fixed point beside those in floats, on machines that have tiles of bytes: random
 * extents, turned and scaled weights, bias and activations; bits depend neither on threads nor on bands; how exact it is, for numbers of different sizes too;
 * infinities; what it refuses.
 */
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/fixed_tiles.h"
#include "runtime/kernels/portable/product.h"
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
        const op_dtype dtype = trial % 4 < 2 ? OP_FLOAT : OP_FLOAT16;
        application app;
        application_draw_product(&app, dtype, rows, &seed);
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
    assert_int_equal(application_estimates_product(NAME, 64, 64, 64, OP_FLOAT16, false), rt_fixed_wanted());
    assert_false(application_estimates_product(NAME, 64, 64, 64, OP_BFLOAT16, false));
}

/* A few rows by weights that no near cache holds take as long as these are read, which are fewer bytes in fixed point; near ones are read as they are. */
static void test_few_rows_want_far_weights(void **state) {
    (void)state;
    static const int64_t few[] = {1, 2, 4, 7};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(application_estimates_product(NAME, few[i], 1024, 1000, OP_FLOAT, false),
                         rt_fixed_wanted());
        assert_false(application_estimates_product(NAME, few[i], 256, 512, OP_FLOAT, false));
    }
    if (!rt_fixed_wanted()) skip();
    for (double threads = 1; threads <= 4; threads++) {
        const rt_environment environment = {.threads = (int)threads};
        const double bytes = 1024 * 1000 * sizeof(float),
                     far = rt_packed_product_seconds(1, 1024, 1000, bytes, &environment),
                     less = rt_packed_product_seconds(1, 1024, 1000, bytes * 25 / 32, &environment),
                     many = rt_packed_product_seconds(512, 1024, 1000, bytes, &environment);
        assert_true(less < 0.85 * far && many > 20 * far);
        assert_true(far > 4 * rt_packed_product_seconds(1, 512, 500, bytes / 4, &environment));
    }
}

/* Numbers into a tensor of floats or halves; they become what it holds. */
static void store_all(op_tensor *tensor, float *numbers, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        rt_element_store(tensor->type.dtype, tensor->data, i, (double)numbers[i]);
        numbers[i] = (float)application_element(tensor, i);
    }
}

/* Two matrices of numbers between -1 and 1, until they are stored. */
typedef struct two_matrices {
    float *x, *w;
    int64_t rows, depth, columns;
} two_matrices;

static two_matrices draw_matrices(application *app, op_dtype dtype, int64_t rows, int64_t depth,
                                  int64_t columns, uint64_t *seed) {
    two_matrices m = {.rows = rows, .depth = depth, .columns = columns};
    application_init(app, OP_MATMUL);
    application_input(app, dtype, 2, DIMS(rows, depth));
    application_input(app, dtype, 2, DIMS(depth, columns));
    m.x = application_memory(app, (size_t)(rows * depth) * sizeof *m.x);
    m.w = application_memory(app, (size_t)(depth * columns) * sizeof *m.w);
    for (int64_t i = 0; i < rows * depth; i++) m.x[i] = random_float(seed);
    for (int64_t i = 0; i < depth * columns; i++) m.w[i] = random_float(seed);
    return m;
}

static void store_matrices(application *app, const two_matrices *m) {
    store_all(&app->inputs[0], m->x, m->rows * m->depth);
    store_all(&app->inputs[1], m->w, m->depth * m->columns);
}

/* The largest differences from sums of doubles, of the sum of all sizes, in floats and in fixed point; of halves, what is more than rounding to one. */
typedef struct difference {
    double floats, fixed;
} difference;

static double difference_from(double sum, double got, op_dtype dtype) {
    if (dtype == OP_FLOAT) return fabs(got - sum);
    const double rounded = (double)base_float_from_half(base_half_from_float((float)sum));
    return fabs(got - sum) - fabs(rounded - sum);
}

/* X W, where `change` gives both other numbers. */
static difference find_difference(op_dtype dtype, int64_t rows, int64_t depth, int64_t columns,
                                  uint64_t trial, void (*change)(const two_matrices *m, uint64_t *seed)) {
    uint64_t seed = trial;
    difference found = {0};
    application app;
    const two_matrices m = draw_matrices(&app, dtype, rows, depth, columns, &seed);
    change(&m, &seed);
    store_matrices(&app, &m);
    application_run(&app, "portable.matmul", 1);
    const op_tensor fixed = application_run_blocks(&app, NAME, OP_LAYOUT_ROW_MAJOR, SIZE_MAX, 1, 1, false);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            double sum = 0, size = 0;
            for (int64_t k = 0; k < depth; k++) {
                const double product = (double)m.x[i * depth + k] * (double)m.w[k * columns + j];
                sum += product;
                size += fabs(product);
            }
            if (size == 0) size = 1;
            const double floats = application_element(&app.outputs[0], i * columns + j),
                         digits = application_element(&fixed, i * columns + j);
            found.floats = fmax(found.floats, difference_from(sum, floats, dtype) / size);
            found.fixed = fmax(found.fixed, difference_from(sum, digits, dtype) / size);
        }
    }
    application_free(&app);
    return found;
}

/* The largest of some trials. */
static difference find_most(op_dtype dtype, int64_t rows, int64_t depth, int64_t columns,
                            void (*change)(const two_matrices *m, uint64_t *seed)) {
    difference most = {0};
    for (uint64_t trial = 1; trial <= 8; trial++) {
        const difference found = find_difference(dtype, rows, depth, columns, trial, change);
        most.floats = fmax(most.floats, found.floats);
        most.fixed = fmax(most.fixed, found.fixed);
    }
    print_message("off by, of the sum of sizes: %.3g in floats, %.3g in fixed point\n", most.floats,
                  most.fixed);
    return most;
}

static void change_sizes(const two_matrices *m, uint64_t *seed) {
    for (int64_t i = 0; i < m->rows * m->depth; i++) m->x[i] *= ldexpf(1, (int)random_range(seed, 0, 6) - 3);
    for (int64_t i = 0; i < m->depth * m->columns; i++)
        m->w[i] *= ldexpf(1, (int)random_range(seed, 0, 6) - 3);
}

static void test_is_as_exact_as_floats(void **state) {
    (void)state;
    if (!rt_fixed_wanted()) skip();
    const difference most = find_most(OP_FLOAT, 48, 700, 50, change_sizes);
    assert_true(most.fixed <= 2 * most.floats);
}

/* A few numbers of a column, or of a row, are 16 times as large as the others, or more. */
static void make_tails(const two_matrices *m, uint64_t *seed) {
    for (int64_t i = 0; i < m->rows * m->depth; i++)
        if (random_range(seed, 0, 99) == 0) m->x[i] *= 40;
    for (int64_t i = 0; i < m->depth * m->columns; i++)
        if (random_range(seed, 0, 99) == 0) m->w[i] *= 16;
}

/* What two digits leave of halves is small beside half of their last bit, which is 2^-12 to 2^-11 of a number. */
static void test_halves_are_nearly_exact(void **state) {
    (void)state;
    if (!rt_fixed_wanted()) skip();
    assert_true(find_most(OP_FLOAT16, 48, 700, 50, change_sizes).fixed < 0x1p-14);
    assert_true(find_most(OP_FLOAT16, 48, 700, 50, make_tails).fixed < 0x1p-12);
}

/* A spectrum: few large numbers, and many that are up to 2^-30 of them, of which alone most columns know. */
static void make_spectra(const two_matrices *m, uint64_t *seed) {
    enum { LARGE = 8, PARTS = 4 };
    for (int64_t i = 0; i < m->rows * m->depth; i++)
        m->x[i] *= i % m->depth < LARGE    ? 1e6f
                   : i / m->depth % 3 == 0 ? 1e-3f
                                           : ldexpf(1, -(int)random_range(seed, 0, 9));
    for (int64_t i = 0; i < m->depth * m->columns; i++)
        if (i % m->columns % PARTS && i / m->columns < LARGE) m->w[i] = 0;
}

/* The same in halves: down to 2^-17 and less. */
static void make_half_spectra(const two_matrices *m, uint64_t *seed) {
    make_spectra(m, seed);
    for (int64_t i = 0; i < m->rows * m->depth; i++)
        if (fabsf(m->x[i]) > 1) m->x[i] *= 1e-3f;
}

static void test_rows_of_numbers_of_different_sizes(void **state) {
    (void)state;
    if (!rt_fixed_wanted()) skip();
    assert_true(find_most(OP_FLOAT, 30, 257, 40, make_spectra).fixed < 0x1p-15);
    assert_true(find_most(OP_FLOAT16, 30, 257, 40, make_half_spectra).fixed < 0x1p-12);
}

/* Every third row is nothing; others are so small, or so large, that only results are normal numbers. */
static void make_extremes(const two_matrices *m, uint64_t *seed) {
    (void)seed;
    for (int64_t i = 0; i < m->rows * m->depth; i++)
        m->x[i] *= i / m->depth % 3 == 0 ? 0 : i / m->depth % 3 == 1 ? 1e-25f : 1e30f;
    for (int64_t i = 0; i < m->depth * m->columns; i++) m->w[i] *= i % m->columns % 2 ? 1e-6f : 0;
}

/* In halves: x is subnormal, or its results are nearly too large. */
static void make_half_extremes(const two_matrices *m, uint64_t *seed) {
    (void)seed;
    for (int64_t i = 0; i < m->rows * m->depth; i++)
        m->x[i] *= i / m->depth % 3 == 0 ? 0 : i / m->depth % 3 == 1 ? 6e-5f : 1e3f;
    for (int64_t i = 0; i < m->depth * m->columns; i++) m->w[i] *= i % m->columns % 2 ? 4 : 0;
}

static void test_numbers_near_the_ends(void **state) {
    (void)state;
    if (!rt_fixed_wanted()) skip();
    assert_true(find_difference(OP_FLOAT, 25, 300, 33, 1, make_extremes).fixed <= 1e-6);
    assert_true(find_difference(OP_FLOAT16, 25, 300, 33, 1, make_half_extremes).fixed < 0x1p-14);
}

static void make_integers(const two_matrices *m, uint64_t *seed) {
    for (int64_t i = 0; i < m->rows * m->depth; i++) m->x[i] = (float)((int)random_range(seed, 0, 200) - 100);
    for (int64_t i = 0; i < m->depth * m->columns; i++)
        m->w[i] = (float)((int)random_range(seed, 0, 20) - 10);
}

static void test_small_integers_are_exact(void **state) {
    (void)state;
    if (!rt_fixed_wanted()) skip();
    assert_true(find_difference(OP_FLOAT, 40, 500, 48, 1, make_integers).fixed == 0);
    assert_true(find_difference(OP_FLOAT16, 40, 500, 48, 1, make_integers).fixed == 0);
}

/* The same kind of number: of one sign and infinite, or NaN, or finite. */
static bool is_alike(double got, double want) {
    return isfinite(want) ? isfinite(got) : isnan(want) ? isnan(got) : got == want;
}

enum { INFINITE_DEPTH = 600, INFINITE_COLUMNS = 50 };

/* Puts numbers that are not finite into a row, or none, as its number says. */
static void make_infinite(float *row, int64_t number) {
    /* Of one block of the depth, of the first, of the last, of two. */
    static const int places[] = {5, 255, 300, INFINITE_DEPTH - 1};
    static const float numbers[] = {INFINITY, -INFINITY, NAN};
    const int which = (int)number % 9;
    if (which < 3) row[places[number % 4]] = numbers[which];
    else if (which == 3) row[7] = INFINITY, row[500] = -INFINITY;
    else if (which == 4) row[40] = row[41] = row[333] = -INFINITY;
    else if (which == 5) row[50] = INFINITY, row[51] = NAN;
}

/* Rows with infinities and NaNs in a tile beside others, whose bits they leave as they are: sums are infinite or NaN as those of doubles. */
static void check_infinite(op_dtype dtype, int64_t rows, const char *activation, int threads, int64_t bands) {
    enum { DEPTH = INFINITE_DEPTH, COLUMNS = INFINITE_COLUMNS };
    uint64_t seed = 3;
    application app;
    const two_matrices m = draw_matrices(&app, dtype, rows, DEPTH, COLUMNS, &seed);
    application_random(&app, dtype, 1, DIMS(COLUMNS), &seed);
    if (activation[0]) application_text(&app, "ouro.activation", activation);
    if (rows < 8) application_integer(&app, "ouro.weights_bits", 28);
    for (int64_t i = 0; i < rows * DEPTH; i++) m.x[i] *= i % 5 && bands % 2 ? 1e-4f : 1; /* coarse, or not */
    for (int64_t i = 0; i < DEPTH * COLUMNS; i++)
        if (i % 17 == 0 || i % COLUMNS == 11 || fabsf(m.w[i]) < 1e-3f) m.w[i] = 0;
    store_matrices(&app, &m);
    assert_int_equal(application_infer(&app), BASE_OK);
    const op_tensor before =
        application_run_blocks(&app, NAME, OP_LAYOUT_ROW_MAJOR, SIZE_MAX, bands, threads, false);
    for (int64_t i = 0; i < rows; i++) make_infinite(m.x + i * DEPTH, i);
    store_matrices(&app, &m);
    const op_tensor after =
        application_run_blocks(&app, NAME, OP_LAYOUT_ROW_MAJOR, SIZE_MAX, bands, threads, false);
    const size_t bytes = after.bytes / (size_t)rows;
    for (int64_t i = 0; i < rows; i++) {
        bool finite = true;
        for (int64_t j = 0; j < COLUMNS; j++) {
            const double got = application_element(&after, i * COLUMNS + j);
            double sum = application_element(&app.inputs[2], j);
            for (int64_t k = 0; k < DEPTH; k++) {
                const double number = (double)m.x[i * DEPTH + k];
                finite &= isfinite(number);
                sum += number * (double)m.w[k * COLUMNS + j];
            }
            if (activation[0] && sum < 0) sum = 0;
            if (!is_alike(got, sum))
                fail_msg("%d threads, row %d, column %d: %g, expected %g", threads, (int)i, (int)j, got, sum);
        }
        if (finite)
            assert_memory_equal((char *)after.data + (size_t)i * bytes,
                                (char *)before.data + (size_t)i * bytes, bytes);
    }
    application_free(&app);
}

static void test_not_finite(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT, OP_FLOAT16};
    if (!rt_fixed_wanted()) skip();
    for (int threads = 1; threads <= 5; threads++) {
        for (int64_t bands = 0; bands <= 3; bands++) {
            for (int i = 0; i < 2; i++) {
                check_infinite(dtypes[i], 45, "", threads, bands);
                check_infinite(dtypes[i], 45, "Relu", threads, bands);
                check_infinite(dtypes[i], 9, "", threads, bands);
                check_infinite(dtypes[i], 1, "Relu", threads, bands);
            }
        }
    }
}

/* Whether weights suit that have `first` as the first number of a column, and numbers between -`size` and `size` after it. */
static bool is_suited(op_dtype dtype, float first, float size) {
    enum { DEPTH = 96, COLUMNS = 40, COLUMN = 37 };
    const rt_environment environment = {.threads = 1};
    uint64_t seed = 1;
    application app;
    const two_matrices m = draw_matrices(&app, dtype, 64, DEPTH, COLUMNS, &seed);
    for (int64_t k = 0; k < DEPTH; k++) m.w[k * COLUMNS + COLUMN] *= size;
    m.w[COLUMN] = first;
    store_matrices(&app, &m);
    assert_int_equal(application_infer(&app), BASE_OK);
    const bool suited = rt_kernel_find(NAME)->suits(&app.call, &environment, 1, &app.inputs[1]);
    application_free(&app);
    return suited;
}

static void test_weights_that_do_not_suit(void **state) {
    (void)state;
    if (!rt_fixed_wanted()) skip();
    assert_true(is_suited(OP_FLOAT, 1, 1));
    assert_true(is_suited(OP_FLOAT, 100, 1));
    assert_true(is_suited(OP_FLOAT, 1e-20f, 1));
    assert_false(is_suited(OP_FLOAT, 1, 0));
    assert_true(is_suited(OP_FLOAT, 0, 0));
    assert_false(is_suited(OP_FLOAT, 1, 1e-5f));
    assert_false(is_suited(OP_FLOAT, INFINITY, 1));
    assert_false(is_suited(OP_FLOAT, NAN, 1));
    assert_true(is_suited(OP_FLOAT16, 1, 1));
    assert_true(is_suited(OP_FLOAT16, 10, 1));
    assert_true(is_suited(OP_FLOAT16, 1e-4f, 1));
    assert_true(is_suited(OP_FLOAT16, 0, 0));
    assert_false(is_suited(OP_FLOAT16, 1, 0));
    assert_false(is_suited(OP_FLOAT16, 100, 1));
    assert_false(is_suited(OP_FLOAT16, INFINITY, 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_the_plain_product),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_few_rows_want_far_weights),
        cmocka_unit_test(test_is_as_exact_as_floats),
        cmocka_unit_test(test_halves_are_nearly_exact),
        cmocka_unit_test(test_rows_of_numbers_of_different_sizes),
        cmocka_unit_test(test_numbers_near_the_ends),
        cmocka_unit_test(test_small_integers_are_exact),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_weights_that_do_not_suit),
    };
    return cmocka_run_group_tests_name("fixed_product", tests, NULL, NULL);
}
