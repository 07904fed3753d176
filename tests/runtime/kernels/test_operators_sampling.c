/* SPDX-License-Identifier: Apache-2.0 */
/* test_operators_sampling.c: GridSample and RoiAlign in float, on rows that are longer than a register, against the same in double, which goes
 * element by element; AffineGrid. */
#include "runtime/kernels/portable/product.h"
#include "tests/support/application.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

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

/* Cubic curves go beyond the bytes that they lead through: what is sampled there is the nearest byte. */
static void bytes_are_limited(void **state) {
    (void)state;
    int beyond = 0;
    for (int type = 0; type < 2; type++) {
        const op_dtype dtype = type ? OP_UINT8 : OP_INT8;
        const double low = type ? 0 : INT8_MIN, high = type ? UINT8_MAX : INT8_MAX;
        enum { SIDE = 8, POINTS = 21 };
        application apps[2];
        for (int k = 0; k < 2; k++) {
            application_init(&apps[k], OP_GRID_SAMPLE);
            void *image = application_input(&apps[k], k ? OP_DOUBLE : dtype, 4, DIMS(1, 1, SIDE, SIDE));
            for (int i = 0; i < SIDE * SIDE; i++) {
                const double value = (i + i / SIDE) / 2 % 2 ? low : high;
                if (k) ((double *)image)[i] = value;
                else rt_element_store(dtype, image, i, value);
            }
            float *grid = application_input(&apps[k], OP_FLOAT, 4, DIMS(1, POINTS, POINTS, 2));
            for (int i = 0; i < POINTS * POINTS; i++) {
                grid[2 * i] = (float)(i % POINTS) / (POINTS / 2) - 1;
                grid[2 * i + 1] = (float)(i / POINTS) / (POINTS / 2) - 1;
            }
            application_text(&apps[k], "mode", "cubic");
            application_run(&apps[k], "portable.grid_sample", 1);
        }
        for (int i = 0; i < POINTS * POINTS; i++) {
            const double exact = application_element(&apps[1].outputs[0], i);
            beyond += exact < low || exact > high;
            assert_true(application_element(&apps[0].outputs[0], i) == trunc(exact < low    ? low
                                                                             : exact > high ? high
                                                                                            : exact));
        }
        for (int k = 0; k < 2; k++) application_free(&apps[k]);
    }
    assert_true(beyond > 100);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grids_are_mapped), cmocka_unit_test(floats_are_sampled_as_doubles),
        cmocka_unit_test(bytes_are_limited), cmocka_unit_test(regions_of_floats_are_those_of_doubles),
        cmocka_unit_test(regions_without_extent_are_zeros)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
