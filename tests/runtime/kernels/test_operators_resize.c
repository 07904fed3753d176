/* SPDX-License-Identifier: Apache-2.0 */
/* test_operators_resize.c: Resize in float, 16 and 8 bits, on rows that are longer than a register, against the same in double, which goes
 * element by element. */
#include "runtime/kernels/portable/product.h"
#include "tests/support/application.h"
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_are_resized_as_doubles), cmocka_unit_test(floats_are_cropped_as_doubles),
        cmocka_unit_test(halves_are_resized_as_floats),  cmocka_unit_test(bytes_are_resized_as_floats),
        cmocka_unit_test(even_images_stay_even),         cmocka_unit_test(nearest_elements_come_twice)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
