/* SPDX-License-Identifier: Apache-2.0 */
/* test_operators_rows.c: kernels that compute rows of elements side by side, on rows that are longer than that, against plain loops: CumSum,
 * Pow, GatherElements, GatherND and ScatterND. */
#include "runtime/kernels/portable/product.h"
#include "tests/support/application.h"
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void sums_along_every_axis(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT, OP_FLOAT16, OP_BFLOAT16, OP_DOUBLE, OP_INT32};
    for (uint64_t round = 1; round <= 240; round++) {
        uint64_t seed = round * 104729;
        const op_dtype dtype = dtypes[round / 12 % 5];
        /* Rows and columns around the sizes of tiles. */
        const int64_t dims[3] = {random_range(&seed, 1, round % 2 ? 4 : 19), random_range(&seed, 1, 5),
                                 random_range(&seed, 1, 280)};
        const int axis = (int)(round % 3);
        const bool exclusive = round / 3 % 2, reverse = round / 6 % 2;
        application app;
        application_init(&app, OP_CUM_SUM);
        application_random(&app, dtype, 3, dims, &seed);
        *(int64_t *)application_input(&app, OP_INT64, 0, NULL) = axis;
        application_integer(&app, "exclusive", exclusive);
        application_integer(&app, "reverse", reverse);
        application_run(&app, "portable.cum_sum", 1);
        const int64_t inner = axis == 2 ? 1 : axis == 1 ? dims[2] : dims[1] * dims[2];
        for (int64_t i = 0; i < dims[0] * dims[1] * dims[2]; i++) {
            const int64_t at = i / inner % dims[axis], begin = i - at * inner;
            double sum = 0;
            for (int64_t k = 0; k < dims[axis]; k++) {
                if (reverse ? k > at : k < at) sum += application_element(&app.inputs[0], begin + k * inner);
            }
            if (!exclusive) sum += application_element(&app.inputs[0], i);
            application_check_near(
                application_element(&app.outputs[0], i), sum,
                dtype == OP_FLOAT16 || dtype == OP_BFLOAT16 ? application_tolerance(dtype) : 1e-5, round, i);
        }
        application_free(&app);
    }
}

/* Rows, and columns of several planes, shared out among threads: the same bits. */
static void sums_are_shared_out(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT, OP_BFLOAT16, OP_DOUBLE, OP_INT32, OP_INT64};
    for (int round = 0; round < 150; round++) {
        const op_dtype dtype = dtypes[round % 5];
        const int axis = round / 5 % 3;
        uint64_t seed = (uint64_t)round + 5;
        const int64_t dims[3] = {random_range(&seed, 17, 60), random_range(&seed, 2, 9),
                                 random_range(&seed, 600, 1300)};
        application apps[2];
        for (int i = 0; i < 2; i++) {
            uint64_t same = seed;
            application_init(&apps[i], round % 2 ? OP_CUM_SUM : OP_CUM_PROD);
            application_random(&apps[i], dtype, 3, dims, &same);
            *(int64_t *)application_input(&apps[i], OP_INT64, 0, NULL) = axis;
            application_integer(&apps[i], "exclusive", round / 15 % 2);
            application_integer(&apps[i], "reverse", round / 30 % 2);
            application_run(&apps[i], "portable.cum_sum", i ? 2 + round % 4 : 1);
        }
        assert_memory_equal(apps[0].outputs[0].data, apps[1].outputs[0].data, apps[0].outputs[0].bytes);
        for (int i = 0; i < 2; i++) application_free(&apps[i]);
    }
}

/* What is lost of a sum of floats does not grow from row to row, nor with the way that rows lie. */
static void long_sums_stay_near(void **state) {
    (void)state;
    enum { LONG = 20003 };
    for (int form = 0; form < 8; form++) {
        const bool rows = form & 1, exclusive = form & 2, reverse = form & 4;
        const int64_t dims[2] = {rows ? 5 : LONG, rows ? LONG : 21};
        uint64_t seed = 11;
        application app;
        application_init(&app, OP_CUM_SUM);
        application_random(&app, OP_FLOAT, 2, dims, &seed);
        *(int64_t *)application_input(&app, OP_INT64, 0, NULL) = rows;
        application_integer(&app, "exclusive", exclusive);
        application_integer(&app, "reverse", reverse);
        float *x = app.inputs[0].data;
        for (int64_t i = 0; i < dims[0] * dims[1]; i++) x[i] = fabsf(x[i]); /* sums grow */
        application_run(&app, "portable.cum_sum", 1);
        for (int64_t line = 0; line < dims[rows ? 0 : 1]; line++) {
            double sum = 0;
            for (int64_t k = 0; k < LONG; k++) {
                const int64_t at = reverse ? LONG - 1 - k : k,
                              i = rows ? line * LONG + at : at * dims[1] + line;
                const double before = sum;
                sum += (double)x[i];
                const double want = exclusive ? before : sum, got = application_element(&app.outputs[0], i);
                if (fabs(got - want) > 3e-7 * fabs(want))
                    fail_msg("form %d, element %" PRId64 ": %.9g, not %.9g", form, i, got, want);
            }
        }
        application_free(&app);
    }
}

/* One exponent for all: powers that have loops of their own, of numbers of all kinds. */
static void powers_with_one_exponent(void **state) {
    (void)state;
    static const float exponents[] = {2, 3, 0.5f, -1, 1.25f};
    static const float bases[] = {0,      -0.0f,    1,         -1,    2.5f,   -2.5f,
                                  1.1f,   3e-13f,   -7e12f,    3e38f, -3e38f, 1e-20f,
                                  1e-45f, INFINITY, -INFINITY, NAN,   0.1f,   12345.678f};
    enum { COUNT = sizeof bases / sizeof *bases };
    for (size_t e = 0; e < sizeof exponents / sizeof *exponents; e++) {
        application app;
        application_init(&app, OP_POW);
        float *x = application_input(&app, OP_FLOAT, 1, (const int64_t[]){COUNT});
        for (int64_t i = 0; i < COUNT; i++) x[i] = bases[i];
        *(float *)application_input(&app, OP_FLOAT, 0, NULL) = exponents[e];
        application_run(&app, "portable.elementwise_binary", 1);
        for (int64_t i = 0; i < COUNT; i++) {
            const float got = ((const float *)app.outputs[0].data)[i],
                        want = (float)pow((double)bases[i], (double)exponents[e]);
            const bool same = isnan(want) ? isnan(got) : got == want && !signbit(got) == !signbit(want);
            if (!same && !(fabsf(got - want) <= fabsf(want) * 1.2e-7f))
                fail_msg("%g ^ %g is %g, not %g", (double)bases[i], (double)exponents[e], (double)got,
                         (double)want);
        }
        application_free(&app);
    }
}

/* Of all numbers of 16 bits, by an exponent of the same type or in float: what double gives, rounded once. */
static void powers_of_halves(void **state) {
    (void)state;
    enum { ALL = 1 << 16 };
    static const float exponents[] = {2, 0.5f, -1};
    for (int form = 0; form < 12; form++) {
        const bool half = form % 2, mixed = form / 2 % 2;
        const float e = exponents[form / 4];
        application app;
        application_init(&app, OP_POW);
        uint16_t *x = application_input(&app, half ? OP_FLOAT16 : OP_BFLOAT16, 1, (const int64_t[]){ALL});
        for (int64_t i = 0; i < ALL; i++) x[i] = (uint16_t)i;
        void *exponent = application_input(&app, mixed ? OP_FLOAT : half ? OP_FLOAT16 : OP_BFLOAT16, 0, NULL);
        if (mixed) *(float *)exponent = e;
        else *(uint16_t *)exponent = half ? base_half_from_float(e) : base_bfloat16_from_float(e);
        application_run(&app, "portable.elementwise_binary", 1);
        for (int64_t i = 0; i < ALL; i++) {
            const double power = pow(application_element(&app.inputs[0], i), (double)e);
            const uint16_t got = ((const uint16_t *)app.outputs[0].data)[i],
                           want = half ? base_half_from_double(power) : base_bfloat16_from_double(power);
            if (isnan(power) ? !isnan(application_element(&app.outputs[0], i)) : got != want)
                fail_msg("%#x ^ %g is %#x, not %#x", (unsigned)i, (double)e, (unsigned)got, (unsigned)want);
        }
        application_free(&app);
    }
}

/* Integers to one integer, in order and in place of blocks: products that wrap around. */
static void powers_of_integers(void **state) {
    (void)state;
    static const int64_t counts[] = {1, 2, 17, 255, 256, 257, 1000};
    for (uint64_t round = 1; round <= 140; round++) {
        uint64_t seed = round;
        const int64_t count = counts[round % 7], exponent = (int64_t)(round % 20) - 3;
        const bool wide = round % 2, wide_exponent = round % 3;
        application app;
        application_init(&app, OP_POW);
        void *base = application_input(&app, wide ? OP_INT64 : OP_INT32, 1, &count);
        for (int64_t i = 0; i < count; i++) {
            const int64_t number = random_range(&seed, -40, 40);
            if (wide) ((int64_t *)base)[i] = number;
            else ((int32_t *)base)[i] = (int32_t)number;
        }
        void *by = application_input(&app, wide_exponent ? OP_INT64 : OP_INT32, 1, DIMS(1));
        if (wide_exponent) *(int64_t *)by = exponent;
        else *(int32_t *)by = (int32_t)exponent;
        application_run(&app, "portable.elementwise_binary", 1 + (int)(round % 2));
        for (int64_t i = 0; i < count; i++) {
            const int64_t number = wide ? ((int64_t *)base)[i] : ((int32_t *)base)[i];
            uint64_t want = 1;
            for (int64_t k = 0; k < exponent; k++) want *= (uint64_t)number;
            if (exponent < 0)
                want = number == 1 || (number == -1 && exponent % 2 == 0) ? 1 : number == -1 ? UINT64_MAX : 0;
            if (wide) assert_int_equal(((int64_t *)app.outputs[0].data)[i], (int64_t)want);
            else assert_int_equal(((uint32_t *)app.outputs[0].data)[i], (uint32_t)want);
        }
        application_free(&app);
    }
}

/* Elements along each axis, some counted from the end. */
static void elements_are_gathered(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= 200; round++) {
        uint64_t seed = round * 32452843;
        const int64_t dims[2] = {random_range(&seed, 1, 9), random_range(&seed, 1, 50)};
        const int axis = (int)(round % 2);
        const int64_t many[2] = {axis ? dims[0] : random_range(&seed, 1, 20),
                                 axis ? random_range(&seed, 1, round % 5 ? 70 : 3000) : dims[1]};
        application app;
        application_init(&app, OP_GATHER_ELEMENTS);
        const op_dtype dtypes[] = {OP_FLOAT, OP_DOUBLE, OP_FLOAT16, OP_UINT8, OP_FLOAT};
        uint8_t *x = application_input(&app, dtypes[round % 5], 2, dims);
        for (size_t i = 0; i < app.inputs[0].bytes; i++)
            x[i] = (uint8_t)random_range(&seed, 0, 119); /* no NaN of any type */
        int64_t *indices = application_input(&app, OP_INT64, 2, many);
        for (int64_t i = 0; i < many[0] * many[1]; i++)
            indices[i] = random_range(&seed, round % 4 < 2 ? -dims[axis] : 0, dims[axis] - 1);
        /* Expanded ones, as long as some runs. */
        const int64_t run = round % 7 ? 1 : random_range(&seed, 2, 60);
        for (int64_t i = 0; i < many[0] * many[1]; i++) indices[i] = indices[i - i % run];
        application_integer(&app, "axis", axis);
        application_run(&app, "portable.gather_elements", 1 + (int)(round % 3));
        for (int64_t i = 0; i < many[0] * many[1]; i++) {
            const int64_t index = indices[i] < 0 ? indices[i] + dims[axis] : indices[i];
            const int64_t from = axis ? i / many[1] * dims[1] + index : index * dims[1] + i % many[1];
            assert_true(application_element(&app.outputs[0], i) == application_element(&app.inputs[0], from));
        }
        application_free(&app);
    }
}

/* One that is out of range is told of, wherever it is: the first one, where there are several. */
static void elements_outside_are_refused(void **state) {
    (void)state;
    enum { COUNT = 3000, EXTENT = 40 };
    static const int64_t places[] = {0, 1023, 1024, 2047, 2999};
    for (size_t place = 0; place < sizeof places / sizeof *places; place++) {
        uint64_t seed = place;
        application app;
        application_init(&app, OP_GATHER_ELEMENTS);
        application_random(&app, OP_FLOAT, 2, DIMS(2, EXTENT), &seed);
        int64_t *indices = application_input(&app, OP_INT64, 2, DIMS(2, COUNT / 2));
        for (int64_t i = 0; i < COUNT; i++) indices[i] = i % EXTENT;
        indices[COUNT - 1] = EXTENT;
        indices[places[place]] = place % 2 ? EXTENT : -EXTENT - 1;
        application_integer(&app, "axis", 1);
        assert_int_equal(application_infer(&app), BASE_OK);
        rt_prepared prepared = {0};
        const rt_environment environment = {.threads = 2};
        assert_int_equal(rt_kernel_prepare(rt_kernel_find("portable.gather_elements"), &app.call,
                                           &environment, &app.arena, &prepared, &app.report),
                         BASE_OK);
        op_tensor y = app.outputs[0];
        y.bytes = COUNT * sizeof(float);
        y.data = application_memory(&app, y.bytes);
        assert_int_equal(prepared.run(&prepared, app.inputs, &y, NULL, &app.report), BASE_INVALID);
        assert_non_null(strstr(app.report.text, place % 2 ? "index 40 is" : "index -41 is"));
        rt_kernel_release(&prepared);
        application_free(&app);
    }
}

/* Elements and slices that tuples name, gathered, and put to their places in order, or added to what is there: more of them than are looked at
 * together, beside plain loops. One index too large is refused, and nothing is written. */
static void tuples_name_places(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT, OP_DOUBLE, OP_INT8, OP_FLOAT16};
    static const char *const reductions[] = {"none", "add", "none", "max"};
    for (uint64_t round = 1; round <= 160; round++) {
        uint64_t seed = round * 32452843;
        const bool scatter = round % 2, refused = round % 10 >= 8;
        const op_dtype dtype = dtypes[round / 2 % 4], kind = round / 8 % 2 ? OP_INT64 : OP_INT32;
        const char *reduction = reductions[round / 4 % 4];
        const int32_t length = (int32_t)random_range(&seed, 1, 5),
                      rank = length + (int32_t)random_range(&seed, 0, 1);
        const int64_t tuples = random_range(&seed, 1, round % 3 ? 90 : 2500);
        int64_t dims[6] = {0}, made[2] = {tuples, 1}, slice = 1;
        for (int32_t d = 0; d < rank; d++) dims[d] = random_range(&seed, 1, 6);
        if (rank > length) slice = made[1] = dims[length];
        application app;
        application_init(&app, scatter ? OP_SCATTER_ND : OP_GATHER_ND);
        application_random(&app, dtype, rank, dims, &seed);
        void *indices = application_input(&app, kind, 2, DIMS(tuples, length));
        if (scatter) application_random(&app, dtype, rank > length ? 2 : 1, made, &seed);
        if (scatter) application_text(&app, "reduction", reduction);
        int64_t *const places = application_memory(&app, (size_t)tuples * sizeof *places);
        for (int64_t i = 0; i < tuples * length; i++) {
            const int64_t extent = dims[i % length];
            int64_t index = random_range(&seed, -extent, extent - 1);
            int64_t *place = &places[i / length];
            *place = (i % length ? *place : 0) * extent + (index < 0 ? index + extent : index);
            if (refused && i == tuples * length - 1) index = round % 20 < 10 ? extent : -extent - 1;
            if (kind == OP_INT64) ((int64_t *)indices)[i] = index;
            else ((int32_t *)indices)[i] = (int32_t)index;
        }
        assert_int_equal(application_infer(&app), BASE_OK);
        rt_prepared prepared = {0};
        const rt_environment environment = {.threads = 1 + (int)(round % 3)};
        const rt_kernel *kernel = rt_kernel_find("portable.gather_nd");
        assert_int_equal(
            rt_kernel_prepare(kernel, &app.call, &environment, &app.arena, &prepared, &app.report), BASE_OK);
        op_tensor y = app.outputs[0], want = y;
        assert_true(op_type_bytes(&y.type, &y.bytes));
        y.data = application_memory(&app, y.bytes);
        want.data = application_memory(&app, y.bytes);
        memset(y.data, 0x55, y.bytes);
        memset(want.data, 0x55, y.bytes);
        assert_int_equal(prepared.run(&prepared, app.inputs, &y, NULL, &app.report),
                         refused ? BASE_INVALID : BASE_OK);
        if (scatter && !refused) memcpy(want.data, app.inputs[0].data, y.bytes);
        for (int64_t i = 0; i < tuples * slice && !refused; i++) {
            const int64_t place = places[i / slice] * slice + i % slice;
            if (!scatter) {
                rt_element_store(dtype, want.data, i, application_element(&app.inputs[0], place));
                continue;
            }
            const double there = application_element(&want, place),
                         update = application_element(&app.inputs[2], i);
            double value = strcmp(reduction, "none") == 0  ? update
                           : strcmp(reduction, "add") == 0 ? there + update
                           : update > there                ? update
                                                           : there;
            if (dtype == OP_INT8) value += value > 127 ? -256 : value < -128 ? 256 : 0;
            rt_element_store(dtype, want.data, place, value);
        }
        if ((!refused || scatter) && memcmp(y.data, want.data, y.bytes) != 0)
            fail_msg("round %d", (int)round);
        rt_kernel_release(&prepared);
        application_free(&app);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_along_every_axis), cmocka_unit_test(sums_are_shared_out),
        cmocka_unit_test(long_sums_stay_near),   cmocka_unit_test(powers_with_one_exponent),
        cmocka_unit_test(powers_of_halves),      cmocka_unit_test(powers_of_integers),
        cmocka_unit_test(elements_are_gathered), cmocka_unit_test(elements_outside_are_refused),
        cmocka_unit_test(tuples_name_places)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
