/* SPDX-License-Identifier: Apache-2.0 */
/* test_operators_rows.c: kernels that compute rows of elements side by side, on rows that are longer than that: Resize,
 * GridSample and RoiAlign in float against the same in double, which goes element by element; CumSum and TopK against plain loops; powers. */
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

static void resize(application *app, op_dtype dtype, const int64_t *from, const int64_t *to, const char *mode,
                   const char *coordinates, int form, uint64_t seed) {
    application_init(app, OP_RESIZE);
    application_random(app, dtype, 3, from, &seed);
    application_absent(app);
    application_absent(app);
    int64_t *sizes = application_input(app, OP_INT64, 1, (const int64_t[]){3});
    for (int i = 0; i < 3; i++) sizes[i] = to[i];
    application_text(app, "mode", mode);
    application_text(app, "coordinate_transformation_mode", coordinates);
    application_text(app, "nearest_mode", form % 2 ? "floor" : "round_prefer_ceil");
    application_integer(app, "exclude_outside", form % 3 == 0);
    application_run(app, "portable.resize", 1 + form % 2);
}

static void floats_are_resized_as_doubles(void **state) {
    (void)state;
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    static const char *const coordinates[] = {"half_pixel", "pytorch_half_pixel", "align_corners",
                                              "asymmetric"};
    for (uint64_t round = 1; round <= 420; round++) {
        uint64_t seed = round * 7919;
        const bool wide = round > 120 && round <= 180, volumes = round > 300,
                   points = round > 180 && !volumes;
        int64_t from[3], to[3];
        for (int i = 0; i < 3; i++) {
            from[i] = random_range(&seed, 1, i < 2 ? 5 : wide ? 700 : 50);
            to[i] = i == 0 && !volumes ? from[0] : random_range(&seed, 1, i < 2 ? 8 : wide ? 250 : 90);
        }
        if (points) { /* whose channels are last, and stay */
            to[0] = random_range(&seed, 1, 7);
            from[1] = random_range(&seed, 1, 60);
            to[1] = random_range(&seed, 1, 60);
            to[2] = from[2] = random_range(&seed, 1, round % 2 ? 5 : 90);
        }
        application single, twice;
        const char *mode = modes[round % 3], *how = coordinates[round / 3 % 4];
        resize(&single, OP_FLOAT, from, to, mode, how, (int)round, seed);
        resize(&twice, OP_DOUBLE, from, to, mode, how, (int)round, seed);
        for (int64_t i = 0; i < to[0] * to[1] * to[2]; i++) {
            const double want = application_element(&twice.outputs[0], i);
            application_check_near(application_element(&single.outputs[0], i), want, 1e-5, round, i);
        }
        application_free(&single);
        application_free(&twice);
    }
}

/* Parts of images, which begin and end outside of them, too, or are turned round. */
static void floats_are_cropped_as_doubles(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT, OP_FLOAT16, OP_UINT8, OP_INT8};
    for (uint64_t round = 1; round <= 240; round++) {
        uint64_t seed = round * 7919;
        const op_dtype dtype = dtypes[round % 4];
        const int64_t from[3] = {random_range(&seed, 1, 3), random_range(&seed, 1, 9),
                                 random_range(&seed, 1, 70)},
                      to[3] = {from[0], random_range(&seed, 1, 12),
                               random_range(&seed, 1, round % 9 ? 60 : 600)};
        float region[6] = {0, 0, 0, 1, 1, 1};
        for (int i = 0; i < 6; i++)
            if (i % 3 || round % 5 == 0) region[i] += random_float(&seed) * (round % 3 ? 0.5f : 2.0f);
        application apps[2];
        for (int k = 0; k < 2; k++) {
            application *app = &apps[k];
            uint64_t same = seed;
            application_init(app, OP_RESIZE);
            void *x = application_random(app, k ? OP_DOUBLE : dtype, 3, from, &same);
            for (int64_t i = 0; k && i < from[0] * from[1] * from[2]; i++)
                ((double *)x)[i] = application_element(&apps[0].inputs[0], i);
            memcpy(application_input(app, OP_FLOAT, 1, DIMS(6)), region, sizeof region);
            application_absent(app);
            memcpy(application_input(app, OP_INT64, 1, DIMS(3)), to, sizeof to);
            application_text(app, "mode", round % 2 ? "linear" : "cubic");
            application_text(app, "coordinate_transformation_mode", "tf_crop_and_resize");
            application_real(app, "extrapolation_value", 7.25f);
            application_run(app, "portable.resize", 1 + (int)(round % 3));
        }
        for (int64_t i = 0; i < to[0] * to[1] * to[2]; i++) {
            double want = application_element(&apps[1].outputs[0], i);
            const double got = application_element(&apps[0].outputs[0], i);
            const double low = dtype == OP_INT8 ? -128 : 0;
            if (dtype == OP_UINT8 || dtype == OP_INT8) { /* cut off, unless they are all but whole */
                want = fmin(fmax(want, low), low + 255);
                if (got != trunc(want + (want < 0 ? -1e-3 : 1e-3)) && got != trunc(want))
                    fail_msg("round %d, element %d: %g, not %g", (int)round, (int)i, got, want);
                continue;
            }
            application_check_near(got, want, dtype == OP_FLOAT ? 1e-5 : application_tolerance(dtype), round,
                                   i);
        }
        for (int k = 0; k < 2; k++) application_free(&apps[k]);
    }
}

/* Of 16 bits: as in float, rounded once; rows of which only a part would fit in what becomes floats, element by element. */
static void halves_are_resized_as_floats(void **state) {
    (void)state;
    static const char *const modes[] = {"linear", "cubic"};
    static const char *const coordinates[] = {"half_pixel", "align_corners", "asymmetric"};
    for (uint64_t round = 1; round <= 60; round++) {
        uint64_t seed = round * 7907;
        const op_dtype dtype = round % 2 ? OP_FLOAT16 : OP_BFLOAT16;
        int64_t from[3], to[3];
        for (int i = 0; i < 3; i++) {
            from[i] = random_range(&seed, 1, i == 2 ? 50 : 5);
            to[i] = i == 0 ? from[0] : random_range(&seed, 1, i == 2 ? 90 : 8);
        }
        if (round > 56) from[2] = 4097 - (int64_t)(round % 2);
        if (round > 58) to[2] = 4098;
        application app;
        resize(&app, dtype, from, to, modes[round / 2 % 2], coordinates[round % 3], (int)round, seed);
        const op_tensor want = application_floats(&app, "portable.resize");
        for (int64_t i = 0; i < to[0] * to[1] * to[2]; i++)
            application_check_near(application_element(&app.outputs[0], i), application_element(&want, i),
                                   dtype == OP_FLOAT16 ? 0x1p-11 : 0x1p-8, round, i);
        application_free(&app);
    }
}

/* Of 8 bits: as in float, cut off; against aliasing, rounded. */
static void bytes_are_resized_as_floats(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= 200; round++) {
        uint64_t seed = round * 7907;
        const op_dtype dtype = round % 2 ? OP_INT8 : OP_UINT8;
        const double low = dtype == OP_INT8 ? -128 : 0;
        int64_t dims[2][3];
        for (int side = 0; side < 2; side++)
            for (int i = 0; i < 3; i++) dims[side][i] = random_range(&seed, 1, i == 0 ? 3 : 50);
        if (round / 4 % 2) dims[1][2] = dims[0][2] = random_range(&seed, 1, 20); /* channels, which stay */
        const bool rounds = round / 2 % 4 == 0;
        if (rounds) dims[1][0] = dims[0][0];
        if (round > 195) dims[0][2] = 5000; /* element by element */
        application app;
        application_init(&app, OP_RESIZE);
        uint8_t *x = application_input(&app, dtype, 3, dims[0]);
        for (size_t i = 0; i < app.inputs[0].bytes; i++) x[i] = (uint8_t)random_next(&seed);
        application_absent(&app);
        application_absent(&app);
        int64_t *sizes = application_input(&app, OP_INT64, 1, DIMS(3));
        for (int i = 0; i < 3; i++) sizes[i] = dims[1][i];
        application_text(&app, "mode", round % 3 ? "linear" : "cubic");
        application_integer(&app, "antialias", rounds);
        application_run(&app, "portable.resize", 1 + (int)(round % 3));
        const op_tensor exact = application_floats(&app, "portable.resize");
        for (int64_t i = 0; i < dims[1][0] * dims[1][1] * dims[1][2]; i++) {
            const double sum = application_element(&exact, i), got = application_element(&app.outputs[0], i);
            double want = rounds ? rint(sum) : trunc(sum + (sum < 0 ? -0x1p-12 : 0x1p-12));
            want = want < low ? low : want > low + 255 ? low + 255 : want;
            const double apart = fabs(sum - trunc(sum));
            const bool near =
                fabs(apart - (rounds ? 0.5 : 0x1p-12)) < 1e-4 || fabs(apart - (1 - 0x1p-12)) < 1e-4;
            if (got != want && !(near && fabs(got - want) < 1.5))
                fail_msg("round %d, element %d: %g, expected %g", (int)round, (int)i, got, want);
        }
        application_free(&app);
    }
}

/* Sums whose weights are no binary fractions: what is the same everywhere stays. */
static void even_images_stay_even(void **state) {
    (void)state;
    for (int value = 0; value < 256; value += 5) {
        application app;
        application_init(&app, OP_RESIZE);
        memset(application_input(&app, OP_UINT8, 3, DIMS(2, 7, 30)), value, 2 * 7 * 30);
        application_absent(&app);
        application_absent(&app);
        int64_t *sizes = application_input(&app, OP_INT64, 1, DIMS(3));
        sizes[0] = 2, sizes[1] = 23, sizes[2] = value % 2 ? 30 : 47;
        application_text(&app, "mode", "linear");
        application_run(&app, "portable.resize", 1);
        for (int64_t i = 0; i < 2 * 23 * sizes[2]; i++)
            assert_int_equal(((const uint8_t *)app.outputs[0].data)[i], value);
        application_free(&app);
    }
}

/* Twice as many of each: elements of one, two and four bytes have loops of their own. */
static void nearest_elements_come_twice(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_UINT8, OP_FLOAT16, OP_FLOAT, OP_DOUBLE};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        for (int64_t width = 1; width <= 70; width++) {
            application app;
            const int64_t from[3] = {2, 3, width}, to[3] = {2, width % 2 ? 6 : 4, 2 * width};
            resize(&app, dtypes[d], from, to, "nearest", "asymmetric", 1, (uint64_t)width);
            for (int64_t i = 0; i < to[0] * to[1] * to[2]; i++) {
                const int64_t x = i % to[2] / 2, y = i / to[2] % to[1] * 3 / to[1], image = i / to[2] / to[1];
                const double want = application_element(&app.inputs[0], (image * 3 + y) * width + x);
                application_check_near(application_element(&app.outputs[0], i), want, 0, (uint64_t)width, i);
            }
            application_free(&app);
        }
    }
}

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

/* The place of an element in the result: a comes before b. */
static bool comes_first(const float *x, int64_t a, int64_t b, bool largest) {
    if (isnan(x[a]) || isnan(x[b])) {
        if (isnan(x[a]) && isnan(x[b])) return a < b;
        return (bool)isnan(x[a]) == largest;
    }
    return x[a] == x[b] ? a < b : (x[a] > x[b]) == largest;
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

/* Lines of points, longer than what is mapped together, against the definition. */
static void grids_are_mapped(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT, OP_DOUBLE, OP_FLOAT16};
    for (uint64_t round = 1; round <= 60; round++) {
        uint64_t seed = round * 1299709;
        const op_dtype dtype = dtypes[round % 3];
        const int64_t rank = 2 + (int64_t)(round & 1), batches = random_range(&seed, 1, 3);
        const bool corners = round & 2;
        int64_t extents[3];
        for (int64_t k = 0; k < rank; k++) extents[k] = random_range(&seed, 1, k + 1 < rank ? 5 : 600);
        application app;
        application_init(&app, OP_AFFINE_GRID);
        application_random(&app, dtype, 3, DIMS(batches, rank, rank + 1), &seed);
        int64_t *size = application_input(&app, OP_INT64, 1, DIMS(rank + 2));
        size[0] = batches, size[1] = 1;
        memcpy(size + 2, extents, (size_t)rank * sizeof *size);
        application_integer(&app, "align_corners", corners);
        application_run(&app, "portable.affine_grid", 1 + (int)(round % 5));
        int64_t points = 1;
        for (int64_t k = 0; k < rank; k++) points *= extents[k];
        for (int64_t i = 0; i < batches * points * rank; i++) {
            const int64_t map = (i / rank / points * rank + i % rank) * (rank + 1);
            double want = application_element(&app.inputs[0], map + rank);
            int64_t rest = i / rank % points;
            for (int64_t k = 0; k < rank; k++) {
                const int64_t extent = extents[rank - 1 - k], at = rest % extent;
                const double place = !corners      ? (2 * (double)at + 1) / (double)extent - 1
                                     : extent == 1 ? -1
                                                   : 2 * (double)at / (double)(extent - 1) - 1;
                want += place * application_element(&app.inputs[0], map + k);
                rest /= extent;
            }
            application_check_near(application_element(&app.outputs[0], i), want,
                                   dtype == OP_FLOAT16 ? 0x1p-10 : 1e-6, round, i);
        }
        application_free(&app);
    }
}

/* Images at points inside, at the margins and outside: floats, whose points are taken side by side, as doubles, which are taken one by
 * one. */
static void floats_are_sampled_as_doubles(void **state) {
    (void)state;
    static const char *const paddings[] = {"zeros", "border", "reflection"};
    for (uint64_t round = 1; round <= 160; round++) {
        uint64_t seed = round * 1299709;
        const int64_t from[4] = {random_range(&seed, 1, 2), random_range(&seed, 1, 3),
                                 random_range(&seed, 1, 9), random_range(&seed, 1, 12)};
        const int64_t to[4] = {from[0], random_range(&seed, 1, 12), random_range(&seed, 1, 14), 2};
        application apps[2];
        for (int k = 0; k < 2; k++) {
            uint64_t same = seed;
            application_init(&apps[k], OP_GRID_SAMPLE);
            application_random(&apps[k], k ? OP_DOUBLE : OP_FLOAT, 4, from, &same);
            void *grid = application_random(&apps[k], k ? OP_DOUBLE : OP_FLOAT, 4, to, &same);
            for (int64_t i = 0; i < to[0] * to[1] * to[2] * 2; i++) {
                const int64_t drawn = random_range(&same, 0, 60);
                const float value = drawn < 6 ? (float[]){NAN, INFINITY, -INFINITY, 1e20f, -1e20f, 1}[drawn]
                                              : 1.5f * random_float(&same);
                if (k) ((double *)grid)[i] = (double)value;
                else ((float *)grid)[i] = value;
            }
            application_text(&apps[k], "padding_mode", paddings[round % 3]);
            application_text(&apps[k], "mode", round % 5 ? "linear" : "nearest");
            application_integer(&apps[k], "align_corners", round / 3 % 2);
            application_run(&apps[k], "portable.grid_sample", 1 + (int)(round % 2));
        }
        for (int64_t i = 0; i < from[0] * from[1] * to[1] * to[2]; i++) {
            const double got = application_element(&apps[0].outputs[0], i),
                         want = application_element(&apps[1].outputs[0], i);
            if (isnan(want)) assert_true(isnan(got));
            else application_check_near(got, want, 1e-6, round, i);
        }
        for (int k = 0; k < 2; k++) application_free(&apps[k]);
    }
}

/* Regions in and around images, of more channels and bins than are made together, and of some that see more than can be. */
static void regions_of_floats_are_those_of_doubles(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= 120; round++) {
        uint64_t seed = round * 15485863;
        const bool large = round % 7 == 6;
        const int64_t image[4] = {random_range(&seed, 1, 2),
                                  random_range(&seed, 1, round % 3 || large ? 5 : 70),
                                  random_range(&seed, 1, 9), random_range(&seed, 1, large ? 900 : 12)};
        const int64_t regions = random_range(&seed, 0, 5), high = random_range(&seed, 1, 9),
                      wide = random_range(&seed, 1, large ? 70 : 12);
        application apps[2];
        for (int k = 0; k < 2; k++) {
            uint64_t same = seed;
            application_init(&apps[k], OP_ROI_ALIGN);
            application_random(&apps[k], k ? OP_DOUBLE : OP_FLOAT, 4, image, &same);
            void *corners = application_input(&apps[k], k ? OP_DOUBLE : OP_FLOAT, 2, DIMS(regions, 4));
            for (int64_t i = 0; i < regions * 4; i++) {
                const int64_t drawn = random_range(&same, 0, 60);
                const float value = drawn < 4 ? (float[]){NAN, -30, 40, 9}[drawn]
                                              : (large ? 900.0f : 12.0f) * random_float(&same);
                if (k) ((double *)corners)[i] = (double)value;
                else ((float *)corners)[i] = value;
            }
            int64_t *batches = application_input(&apps[k], OP_INT64, 1, DIMS(regions));
            for (int64_t i = 0; i < regions; i++) batches[i] = random_range(&same, 0, image[0] - 1);
            application_text(&apps[k], "mode", round % 4 < 2 ? "avg" : "max");
            application_text(&apps[k], "coordinate_transformation_mode",
                             round % 2 ? "half_pixel" : "output_half_pixel");
            application_integer(&apps[k], "output_height", high);
            application_integer(&apps[k], "output_width", wide);
            application_integer(&apps[k], "sampling_ratio", (int64_t)(round % 3));
            application_real(&apps[k], "spatial_scale", round % 5 ? 1 : 0.5f);
            application_run(&apps[k], "portable.roi_align", 1 + (int)(round % 3));
        }
        for (int64_t i = 0; i < regions * image[1] * high * wide; i++) {
            const double got = application_element(&apps[0].outputs[0], i),
                         want = application_element(&apps[1].outputs[0], i);
            application_check_near(got, want, 1e-6, round, i);
        }
        for (int k = 0; k < 2; k++) application_free(&apps[k]);
    }
}

/* As many samples as a region is high and wide, rounded up: none of a region without extent, whose bins are zeros. */
static void regions_without_extent_are_zeros(void **state) {
    (void)state;
    static const double regions[][4] = {{1, 1, 1, 1}, {1, 1, 3, 1}, {2, 1, 2, 4}, {3, 3, 1, 2}, {0, 0, 2, 2}};
    for (int i = 0; i < 8; i++) {
        application app;
        application_init(&app, OP_ROI_ALIGN);
        const op_dtype dtype = i % 2 ? OP_DOUBLE : OP_FLOAT;
        void *x = application_input(&app, dtype, 4, DIMS(1, 1, 5, 5));
        void *corners = application_input(&app, dtype, 2, DIMS(5, 4));
        for (int64_t k = 0; k < 25; k++) {
            if (i % 2) ((double *)x)[k] = 3;
            else ((float *)x)[k] = 3;
        }
        for (int64_t k = 0; k < 20; k++) {
            if (i % 2) ((double *)corners)[k] = regions[k / 4][k % 4];
            else ((float *)corners)[k] = (float)regions[k / 4][k % 4];
        }
        memset(application_input(&app, OP_INT64, 1, DIMS(5)), 0, 5 * sizeof(int64_t));
        application_text(&app, "mode", i / 2 % 2 ? "max" : "avg");
        application_text(&app, "coordinate_transformation_mode", "half_pixel");
        application_integer(&app, "output_height", 2);
        application_integer(&app, "output_width", 3);
        application_integer(&app, "sampling_ratio", i / 4);
        application_run(&app, "portable.roi_align", 1);
        for (int64_t k = 0; k < 30; k++) {
            const double made = application_element(&app.outputs[0], k);
            if (i / 4 || k / 6 == 4)
                assert_true(made > 0 && made <= 3); /* the largest is one of weighted pixels */
            else assert_true(made == 0);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(floats_are_resized_as_doubles),
                                       cmocka_unit_test(floats_are_cropped_as_doubles),
                                       cmocka_unit_test(halves_are_resized_as_floats),
                                       cmocka_unit_test(bytes_are_resized_as_floats),
                                       cmocka_unit_test(even_images_stay_even),
                                       cmocka_unit_test(nearest_elements_come_twice),
                                       cmocka_unit_test(sums_along_every_axis),
                                       cmocka_unit_test(sums_are_shared_out),
                                       cmocka_unit_test(long_sums_stay_near),
                                       cmocka_unit_test(powers_with_one_exponent),
                                       cmocka_unit_test(powers_of_halves),
                                       cmocka_unit_test(powers_of_integers),
                                       cmocka_unit_test(the_first_of_rows),
                                       cmocka_unit_test(the_first_of_columns),
                                       cmocka_unit_test(the_first_of_many_lines),
                                       cmocka_unit_test(the_first_of_integers),
                                       cmocka_unit_test(the_first_of_doubles),
                                       cmocka_unit_test(grids_are_mapped),
                                       cmocka_unit_test(floats_are_sampled_as_doubles),
                                       cmocka_unit_test(regions_of_floats_are_those_of_doubles),
                                       cmocka_unit_test(regions_without_extent_are_zeros),
                                       cmocka_unit_test(elements_are_gathered),
                                       cmocka_unit_test(elements_outside_are_refused),
                                       cmocka_unit_test(tuples_name_places)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
