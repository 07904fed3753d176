/* SPDX-License-Identifier: Apache-2.0 */
/* test_operators_fourier.c: DFT and STFT of many lengths (of small factors, primes, even and odd) against sums over the samples in double,
 * with one thread and with two. */
#include "tests/support/application.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* Part `part` of element `t` of the line that begins at `first`; beyond its end it is 0. */
static double sample(const op_tensor *signal, int64_t first, int64_t step, int64_t extent, int64_t parts,
                     int64_t t, int part) {
    if (t >= extent || part >= parts) return 0;
    return application_element(signal, (first + t * step) * parts + part);
}

static const double turn = 6.283185307179586476925286766559;

/* One number of bin k of a whole spectrum (or, of the way back, of the signal). */
static double bin_of(const op_tensor *signal, const op_tensor *window, int64_t first, int64_t step,
                     int64_t extent, int64_t parts, int64_t length, bool inverse, int64_t k, int part) {
    double sum = 0;
    for (int64_t t = 0; t < length; t++) {
        double x = sample(signal, first, step, extent, parts, t, 0),
               y = sample(signal, first, step, extent, parts, t, 1);
        const double w = window ? application_element(window, t) : 1;
        const double angle = (inverse ? turn : -turn) * (double)(k * t % length) / (double)length;
        x *= w, y *= w;
        sum += part ? x * sin(angle) + y * cos(angle) : x * cos(angle) - y * sin(angle);
    }
    return inverse ? sum / (double)length : sum;
}

static const int64_t lengths[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 12,  14,  15,  16,  17,  19,  20,
                                  21, 22, 23, 25, 26, 30, 31, 32, 34, 37, 45,  46,  48,  49,  60,  64,  77,
                                  81, 91, 97, 99, 100, 101, 120, 121, 127, 128, 143, 158, 169, 194, 200};

static void transforms_of_every_length(void **state) {
    (void)state;
    for (uint64_t round = 0; round < 4 * sizeof lengths / sizeof *lengths; round++) {
        uint64_t seed = round * 7919 + 1;
        const int64_t length = lengths[round / 4], parts = 1 + random_range(&seed, 0, 1);
        const int64_t inner = random_range(&seed, 1, 12), outer = random_range(&seed, 1, 3);
        const int64_t extent = random_range(&seed, 0, 2) ? length : random_range(&seed, 1, length + 3);
        const bool inverse = round & 1, onesided = round & 2 && !inverse && parts == 1;
        const int64_t dims[4] = {outer, extent, inner, parts}, bins = onesided ? length / 2 + 1 : length;
        application app;
        application_init(&app, OP_DFT);
        application_random(&app, round % 5 == 4 ? OP_DOUBLE : OP_FLOAT, 4, dims, &seed);
        *(int64_t *)application_input(&app, OP_INT64, 0, NULL) = length;
        *(int64_t *)application_input(&app, OP_INT64, 0, NULL) = 1;
        application_integer(&app, "inverse", inverse);
        application_integer(&app, "onesided", onesided);
        application_run(&app, "portable.dft", 1 + (int)(round % 2));
        for (int64_t i = 0; i < outer * bins * inner * 2; i++) {
            const int64_t k = i / 2 / inner % bins,
                          first = i / 2 / inner / bins * extent * inner + i / 2 % inner;
            const double want = bin_of(&app.inputs[0], NULL, first, inner, extent, parts, length, inverse, k, i % 2);
            application_check_near(application_element(&app.outputs[0], i), want, 1e-6, round, i);
        }
        application_free(&app);
    }
}

/* From half a spectrum to a real signal: the other half are the conjugates, in reverse order. */
static void signals_from_half_a_spectrum(void **state) {
    (void)state;
    for (uint64_t round = 0; round < sizeof lengths / sizeof *lengths; round++) {
        uint64_t seed = round * 104729 + 1;
        const int64_t length = lengths[round], extent = length / 2 + 1;
        const int64_t dims[3] = {random_range(&seed, 1, 10), extent, 2};
        application app;
        application_init(&app, OP_DFT);
        application_random(&app, OP_FLOAT, 3, dims, &seed);
        *(int64_t *)application_input(&app, OP_INT64, 0, NULL) = length;
        application_integer(&app, "inverse", 1);
        application_integer(&app, "onesided", 1);
        application_run(&app, "portable.dft", 1);
        for (int64_t i = 0; i < dims[0] * length; i++) {
            const int64_t t = i % length, first = i / length * extent;
            double sum = 0;
            for (int64_t k = 0; k < length; k++) {
                const int64_t from = k > length / 2 ? length - k : k;
                const double angle = turn * (double)(k * t % length) / (double)length;
                const double x = sample(&app.inputs[0], first, 1, extent, 2, from, 0),
                             y = sample(&app.inputs[0], first, 1, extent, 2, from, 1);
                sum += x * cos(angle) - (from == k ? y : -y) * sin(angle);
            }
            application_check_near(application_element(&app.outputs[0], i), sum / (double)length, 1e-6, round, i);
        }
        application_free(&app);
    }
}

static void frames_of_signals(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= 60; round++) {
        uint64_t seed = round * 15485863;
        const int64_t frame = random_range(&seed, 1, 70), step = random_range(&seed, 1, 20),
                      parts = random_range(&seed, 0, 3) ? 1 : 2, frames = random_range(&seed, 1, 30);
        const int64_t extent = frame + (frames - 1) * step + random_range(&seed, 0, step - 1);
        const int64_t dims[3] = {random_range(&seed, 1, 3), extent, parts};
        const bool windowed = round % 3, onesided = parts == 1 && round % 2;
        application app;
        application_init(&app, OP_STFT);
        application_random(&app, OP_FLOAT, 3, dims, &seed);
        *(int64_t *)application_input(&app, OP_INT64, 0, NULL) = step;
        if (windowed) application_random(&app, OP_FLOAT, 1, &frame, &seed);
        else application_absent(&app);
        *(int64_t *)application_input(&app, OP_INT64, 0, NULL) = frame;
        application_integer(&app, "onesided", onesided);
        application_run(&app, "portable.stft", 1 + (int)(round % 2));
        const int64_t bins = onesided ? frame / 2 + 1 : frame;
        for (int64_t i = 0; i < dims[0] * frames * bins * 2; i++) {
            const int64_t k = i / 2 % bins, f = i / 2 / bins % frames, b = i / 2 / bins / frames;
            const double want = bin_of(&app.inputs[0], windowed ? &app.inputs[2] : NULL, b * extent + f * step,
                                       1, extent, parts, frame, false, k, i % 2);
            application_check_near(application_element(&app.outputs[0], i), want, 1e-6, round, i);
        }
        application_free(&app);
    }
}

/* What is infinite or no number in one line stays there. */
static void lines_do_not_touch_each_other(void **state) {
    (void)state;
    const int64_t dims[3] = {11, 30, 1};
    uint64_t seed = 5;
    application app, spoilt;
    for (int i = 0; i < 2; i++) {
        application *each = i ? &spoilt : &app;
        seed = 5;
        application_init(each, OP_DFT);
        application_random(each, OP_FLOAT, 3, dims, &seed);
        if (i) ((float *)each->inputs[0].data)[3 * 30 + 7] = INFINITY;
        application_run(each, "portable.dft", 1);
    }
    for (int64_t i = 0; i < 11 * 30 * 2; i++) {
        const double got = application_element(&spoilt.outputs[0], i);
        if (i / 60 == 3) assert_false(isfinite(got));
        else assert_true(got == application_element(&app.outputs[0], i));
    }
    application_free(&app);
    application_free(&spoilt);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transforms_of_every_length), cmocka_unit_test(signals_from_half_a_spectrum),
        cmocka_unit_test(frames_of_signals), cmocka_unit_test(lines_do_not_touch_each_other)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
