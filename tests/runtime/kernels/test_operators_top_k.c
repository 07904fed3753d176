/* SPDX-License-Identifier: Apache-2.0 */
/* test_operators_top_k.c: TopK of rows, columns and lines of all types against plain sorting. */
#include "runtime/kernels/portable/product.h"
#include "tests/support/application.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

/* The place of an element in the result: a comes before b. */
static bool comes_first(const float *x, int64_t a, int64_t b, bool largest) {
    if (isnan(x[a]) || isnan(x[b])) {
        if (isnan(x[a]) && isnan(x[b])) return a < b;
        return (bool)isnan(x[a]) == largest;
    }
    return x[a] == x[b] ? a < b : (x[a] > x[b]) == largest;
}

/* Rows with equal elements, zeros of both signs, infinities and NaN: each element comes as often before others as the order says. */
static void the_first_of_rows(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= 240; round++) {
        uint64_t seed = round * 6700417;
        const int64_t dims[2] = {random_range(&seed, 1, 3), random_range(&seed, 1, round % 10 ? 700 : 3000)};
        /* All, some, or a few, for which some lanes say what can be passed over. */
        const int64_t most = round % 4 == 1 && dims[1] > 40 ? 40 : dims[1],
                      k = round % 4 ? random_range(&seed, 1, most) : dims[1];
        const op_dtype dtype = round % 3 ? OP_FLOAT : round % 2 ? OP_FLOAT16 : OP_BFLOAT16;
        const int64_t kinds = random_range(&seed, 1, 4) == 1 ? 5 : 100000;
        application app;
        application_init(&app, OP_TOP_K);
        void *const data = application_random(&app, dtype, 2, dims, &seed);
        const int64_t count = dims[0] * dims[1];
        float *x = application_memory(&app, (size_t)count * sizeof *x);
        for (int64_t i = 0; i < count; i++) {
            const int64_t drawn = random_range(&seed, 0, kinds);
            if (drawn <= 5)
                rt_element_store(
                    dtype, data, i,
                    (double[]){0.0, -0.0, (double)NAN, (double)INFINITY, -(double)INFINITY, 0.25}[drawn]);
            x[i] = (float)application_element(&app.inputs[0], i);
        }
        *(int64_t *)application_input(&app, OP_INT64, 1, (const int64_t[]){1}) = k;
        application_integer(&app, "largest", round % 2);
        app.call.output_count = 2;
        application_run(&app, "portable.top_k", 1);
        for (int64_t row = 0; row < dims[0]; row++) {
            const float *from = x + row * dims[1];
            const size_t size = op_dtype_bytes(dtype);
            const char *values = (const char *)app.outputs[0].data + (size_t)(row * k) * size;
            const int64_t *indices = (const int64_t *)app.outputs[1].data + row * k;
            for (int64_t i = 0; i < k; i++) {
                int64_t before = 0;
                assert_in_range(indices[i], 0, dims[1] - 1);
                for (int64_t e = 0; e < dims[1]; e++)
                    before += e != indices[i] && comes_first(from, e, indices[i], round % 2);
                assert_int_equal(before, i);
                assert_memory_equal(values + (size_t)i * size,
                                    (const char *)data + (size_t)(row * dims[1] + indices[i]) * size, size);
            }
        }
        application_free(&app);
    }
}

/* Along another axis than the last: what the rows give that its elements are. */
static void the_first_of_columns(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT, OP_FLOAT16, OP_INT64};
    for (uint64_t round = 1; round <= 60; round++) {
        uint64_t seed = round * 6700417;
        const op_dtype dtype = dtypes[round % 3];
        const int64_t outer = random_range(&seed, 1, 3), inner = random_range(&seed, 2, 9),
                      extent = random_range(&seed, 1, round % 10 ? 300 : 4200),
                      k = random_range(&seed, 1, round % 4 || extent < 9 ? extent : 9);
        const size_t size = op_dtype_bytes(dtype);
        application apps[2];
        for (int rows = 0; rows < 2; rows++) {
            application *app = &apps[rows];
            uint64_t same = seed;
            application_init(app, OP_TOP_K);
            char *x = application_random(
                app, dtype, 3, rows ? DIMS(outer, inner, extent) : DIMS(outer, extent, inner), &same);
            for (int64_t i = 0; rows && i < outer * inner * extent; i++) {
                const int64_t from = (i / extent / inner * extent + i % extent) * inner + i / extent % inner;
                memcpy(x + (size_t)i * size, (const char *)apps[0].inputs[0].data + (size_t)from * size,
                       size);
            }
            *(int64_t *)application_input(app, OP_INT64, 1, DIMS(1)) = k;
            application_integer(app, "axis", rows ? 2 : 1);
            application_integer(app, "largest", round % 2);
            app->call.output_count = 2;
            application_run(app, "portable.top_k", 1);
        }
        for (int64_t i = 0; i < outer * inner * k; i++) {
            const int64_t at = (i / k / inner * k + i % k) * inner + i / k % inner;
            assert_int_equal(((const int64_t *)apps[0].outputs[1].data)[at],
                             ((const int64_t *)apps[1].outputs[1].data)[i]);
            assert_memory_equal((const char *)apps[0].outputs[0].data + (size_t)at * size,
                                (const char *)apps[1].outputs[0].data + (size_t)i * size, size);
        }
        application_free(&apps[0]);
        application_free(&apps[1]);
    }
}

/* A few elements of many lines, of every type, along any axis; many of them are equal, some are none, or the least of their type. */
static void the_first_of_many_lines(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT, OP_FLOAT16, OP_BFLOAT16, OP_DOUBLE, OP_INT16,
                                      OP_INT32, OP_INT64,   OP_UINT16,   OP_UINT32, OP_UINT64};
    enum { DTYPES = sizeof dtypes / sizeof *dtypes };
    for (uint64_t round = 0; round < 20 * DTYPES; round++) {
        uint64_t seed = (round + 1) * 6700417;
        const op_dtype dtype = dtypes[round % DTYPES];
        const bool real = round % DTYPES < 4,
                   minus = real || dtype == OP_INT16 || dtype == OP_INT32 || dtype == OP_INT64;
        const bool largest = round / DTYPES % 2;
        const int64_t bits = 8 * (int64_t)op_dtype_bytes(dtype);
        const double least = real ? -(double)INFINITY : minus ? -ldexp(1, (int)bits - 1) : 0;
        const int64_t outer = random_range(&seed, 1, 40), inner = round % 3 ? random_range(&seed, 1, 40) : 1,
                      extent = random_range(&seed, 1, 150), most = extent < 18 ? extent : 18,
                      k = random_range(&seed, 1, most), kinds = random_range(&seed, 8, 200);
        application app;
        application_init(&app, OP_TOP_K);
        void *const data = application_input(&app, dtype, 3, DIMS(outer, extent, inner));
        for (int64_t i = 0; i < outer * extent * inner; i++) {
            const int64_t drawn = random_range(&seed, 0, kinds);
            double value = (double)(minus ? drawn - kinds / 2 : drawn);
            if (drawn == 1) value = least;
            if (real && drawn < 5) value = (double[]){-0.0, least, 0.0, (double)NAN, 0.25}[drawn];
            rt_element_store(dtype, data, i, value);
        }
        *(int64_t *)application_input(&app, OP_INT64, 1, DIMS(1)) = k;
        application_integer(&app, "axis", 1);
        application_integer(&app, "largest", largest);
        app.call.output_count = 2;
        application_run(&app, "portable.top_k", 1 + (int)(round % 3));
        const size_t size = op_dtype_bytes(dtype);
        const int64_t *indices = app.outputs[1].data;
        for (int64_t line = 0; line < outer * inner; line++) {
            const int64_t from = line / inner * extent * inner + line % inner,
                          to = line / inner * k * inner + line % inner;
            for (int64_t i = 0; i < k; i++) {
                const int64_t index = indices[to + i * inner];
                assert_in_range(index, 0, extent - 1);
                const double mine = application_element(&app.inputs[0], from + index * inner);
                int64_t before = 0;
                for (int64_t e = 0; e < extent; e++) {
                    const double other = application_element(&app.inputs[0], from + e * inner);
                    const bool above = isnan(other) ? !isnan(mine) : other > mine,
                               below = isnan(mine) ? !isnan(other) : other < mine;
                    before += (largest ? above : below) || (!above && !below && e < index);
                }
                if (before != i) fail_msg("round %d, line %d, place %d", (int)round, (int)line, (int)i);
                assert_memory_equal((const char *)app.outputs[0].data + (size_t)(to + i * inner) * size,
                                    (const char *)data + (size_t)(from + index * inner) * size, size);
            }
        }
        application_free(&app);
    }
}

/* Doubles with equal ones, zeros of both signs, infinities and NaNs: each comes before the next, and none that is left out before the last. */
static bool double_before(double a, int64_t at, double b, int64_t other, bool largest) {
    const bool equal = a == b || (isnan(a) && isnan(b)), above = isnan(a) ? !isnan(b) : a > b;
    return equal ? at < other : above == largest;
}

static void the_first_of_doubles(void **state) {
    (void)state;
    static const double odd[] = {0.0, -0.0, 1, -1, NAN, INFINITY, -INFINITY, 1e300};
    for (uint64_t round = 1; round <= 60; round++) {
        uint64_t seed = round * 15485863;
        const bool largest = round % 2;
        const int64_t extent = random_range(&seed, 1, round % 5 ? 90 : 3000),
                      k = round % 3 ? random_range(&seed, 1, extent) : extent;
        application app;
        application_init(&app, OP_TOP_K);
        double *x = application_input(&app, OP_DOUBLE, 2, DIMS(2, extent));
        for (int64_t i = 0; i < 2 * extent; i++)
            x[i] = round % 4 ? (double)random_range(&seed, -40, 40) / 8 : odd[random_range(&seed, 0, 7)];
        *(int64_t *)application_input(&app, OP_INT64, 1, DIMS(1)) = k;
        application_integer(&app, "largest", largest);
        app.call.output_count = 2;
        application_run(&app, "portable.top_k", 1 + (int)(round % 2));
        for (int64_t line = 0; line < 2; line++) {
            const double *of = x + line * extent;
            const int64_t *at = (const int64_t *)app.outputs[1].data + line * k;
            int64_t better = 0;
            for (int64_t e = 1; e < k; e++)
                assert_true(double_before(of[at[e - 1]], at[e - 1], of[at[e]], at[e], largest));
            for (int64_t e = 0; e < extent; e++)
                better += double_before(of[e], e, of[at[k - 1]], at[k - 1], largest);
            assert_int_equal(better, k - 1);
            for (int64_t e = 0; e < k; e++)
                assert_memory_equal((const double *)app.outputs[0].data + line * k + e, of + at[e], 8);
        }
        application_free(&app);
    }
}

/* Integers near each other and far apart, by several threads: in order, of equal ones the first first. */
static void the_first_of_integers(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= 120; round++) {
        uint64_t seed = round * 6700417;
        const bool wide = round % 2, largest = round / 2 % 2;
        const int64_t outer = random_range(&seed, 1, 40),
                      extent = random_range(&seed, 1, round % 10 ? 300 : 4200),
                      inner = round % 3 ? 1 : random_range(&seed, 1, 5), k = random_range(&seed, 1, extent),
                      lines = outer * inner;
        /* The last that floats tell apart, the first that they do not, the whole range. */
        const int64_t apart = (int64_t[]){3, 1 << 24, (1 << 24) + 1, INT32_MAX}[round % 4],
                      low = (int64_t[]){-5, INT32_MIN, 1 - (1 << 23)}[round % 3];
        application app;
        application_init(&app, OP_TOP_K);
        void *x = application_input(&app, wide ? OP_INT64 : OP_INT32, 3, DIMS(outer, extent, inner));
        for (int64_t i = 0; i < lines * extent; i++) {
            const int64_t drawn = random_range(&seed, 0, 3), value = drawn == 0 ? 0
                                                                     : drawn == 1
                                                                         ? apart - random_range(&seed, 0, 2)
                                                                         : random_range(&seed, 0, apart);
            if (wide) ((int64_t *)x)[i] = round % 5 ? low + value : value ? INT64_MAX - value : INT64_MIN;
            else ((int32_t *)x)[i] = (int32_t)(low + value);
        }
        *(int64_t *)application_input(&app, OP_INT64, 1, DIMS(1)) = k;
        application_integer(&app, "axis", 1);
        application_integer(&app, "largest", largest);
        app.call.output_count = 2;
        application_run(&app, "portable.top_k", 1 + (int)(round % 5));
        const int64_t *indices = app.outputs[1].data;
        for (int64_t line = 0; line < lines; line++) {
            const int64_t from = line / inner * extent * inner + line % inner,
                          to = line / inner * k * inner + line % inner;
            int64_t last = 0, before = -1;
            for (int64_t e = 0; e < k; e++) {
                const int64_t index = indices[to + e * inner], at = from + index * inner;
                assert_in_range(index, 0, extent - 1);
                const int64_t value = wide ? ((const int64_t *)x)[at] : ((const int32_t *)x)[at];
                const void *y = app.outputs[0].data;
                assert_int_equal(wide ? ((const int64_t *)y)[to + e * inner]
                                      : ((const int32_t *)y)[to + e * inner],
                                 value);
                if (e && (value == last ? index <= before : (value > last) == largest))
                    fail_msg("round %d, line %d, place %d", (int)round, (int)line, (int)e);
                last = value;
                before = index;
            }
            int64_t better = 0; /* than the last of them: all the others of them, and none beside */
            for (int64_t e = 0; e < extent; e++) {
                const int64_t value =
                    wide ? ((const int64_t *)x)[from + e * inner] : ((const int32_t *)x)[from + e * inner];
                better += value == last ? e < before : (value > last) == largest;
            }
            assert_int_equal(better, k - 1);
        }
        application_free(&app);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_of_rows), cmocka_unit_test(the_first_of_columns),
        cmocka_unit_test(the_first_of_many_lines), cmocka_unit_test(the_first_of_integers),
        cmocka_unit_test(the_first_of_doubles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
