/* SPDX-License-Identifier: Apache-2.0 */
/* test_hostile_data.c: every operator, with every kernel that it has, on data that nobody means: NaN, infinities, huge and tiny
 * numbers, the ends of integer types. Each run gives a result or a message; none reads or writes outside of its tensors (which
 * a build with sanitizers sees), converts what no integer holds, or takes long.
 *
 * With arguments: the name of an operator, how often, and a seed. */
#include "tests/support/application.h"
#include "tests/support/odd.h"
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

enum { ROUNDS = 300, MOST_SECONDS = 5 };

static const char *only;
static uint64_t seed = 1;
static int64_t rounds = ROUNDS;

/* The application that is tried, for the report of one that never ends. */
static char current[128];

static void report_hang(int signal_number) {
    (void)signal_number;
    const ssize_t written = write(STDERR_FILENO, current, strlen(current));
    _exit(written < 0 ? 2 : 1);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Hostile data in some of the inputs. Half of the time integers become ones, which are counts and indices that most operators
 * accept: else what a kernel does with reals would hardly ever be reached. */
static void spoil(odd_application *app, test_random *random) {
    const bool calm = test_random_below(random, 2);
    for (uint32_t i = 0; i < app->call.input_count; i++) {
        op_tensor *input = &app->inputs[i];
        const op_dtype dtype = input->type.dtype;
        if (dtype == OP_NONE) continue;
        if (calm && (dtype == OP_INT64 || dtype == OP_INT32)) {
            for (int64_t k = 0; k < test_elements(input); k++) test_set(input, k, 1);
        } else if (test_random_below(random, 3)) {
            odd_fill_hostile(random, input);
        }
    }
}

/* Either shapes follow from the hostile data too, or the data change after everything has been planned. */
static int64_t try_one(op_code code, uint64_t number) {
    const rt_environment environment = {.threads = 1};
    test_random random = {number ^ 0x5bd1e995};
    odd_application app;
    int64_t done = 0;
    odd_draw(&app, code, number);
    const bool before = test_random_below(&random, 3) == 0;
    if (before) spoil(&app, &random);
    if (odd_infer(&app) && odd_take_outputs(&app)) {
        if (!before) spoil(&app, &random);
        const rt_kernel *kernel;
        for (unsigned i = 0; (kernel = rt_kernel_candidate(code, i)); i++)
            if (kernel->accepts(&app.call, &environment))
                done += odd_run(&app, kernel, &environment, before && test_random_below(&random, 2));
    }
    odd_free(&app);
    return done;
}

static void test_hostile(void **state) {
    (void)state;
    printf("seed %llu\n", (unsigned long long)seed);
    signal(SIGALRM, report_hang);
    for (int code = OP_CODE_NONE + 1; code < OP_CODE_COUNT; code++) {
        const op_schema *row = op_schema_of((op_code)code);
        int64_t done = 0;
        if (!odd_is_tried((op_code)code) || (only && strcmp(only, row->name) != 0)) continue;
        for (int64_t i = 0; i < rounds; i++) {
            const double start = seconds();
            snprintf(current, sizeof current, "%s, %lld: does not end\n", row->name, (long long)i);
            alarm(30);
            done += try_one((op_code)code, seed * 1000003 + (uint64_t)code * 7919 + (uint64_t)i);
            if (seconds() - start > MOST_SECONDS) fail_msg("%s, %lld: takes long", row->name, (long long)i);
        }
        if (only) printf("%s: %lld of %lld ran\n", row->name, (long long)done, (long long)rounds);
    }
    alarm(0);
}

/* One region of an image of 2 x 2 ones. */
static void begin_region(application *app, op_code code, const float *region) {
    application_init(app, code);
    float *image = application_input(app, OP_FLOAT, 4, DIMS(1, 1, 2, 2));
    for (int i = 0; i < 4; i++) image[i] = 1;
    const int64_t extent = code == OP_ROI_ALIGN ? 4 : 5;
    memcpy(application_input(app, OP_FLOAT, 2, DIMS(1, extent)), region, (size_t)extent * sizeof *region);
    if (code == OP_ROI_ALIGN) application_input(app, OP_INT64, 1, DIMS(1));
    else application_integers(app, "pooled_shape", 2, DIMS(1, 1));
}

static void test_regions_of_no_size(void **state) {
    (void)state;
    const float values[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 1e19f};
    for (int first = 0; first < 6; first++) {
        for (int last = 0; last < 6; last++) {
            application app;
            begin_region(&app, OP_MAX_ROI_POOL,
                         (float[]){0, values[first], values[first], values[last], values[last]});
            application_run(&app, "portable.max_roi_pool", 1);
            const float largest = *(const float *)app.outputs[0].data;
            assert_true(largest == 0 || largest == 1);
            application_free(&app);
        }
    }
}

/* Of the samples of a region far larger than the image four lie in it; all others count as 0. */
static void test_regions_larger_than_the_image(void **state) {
    (void)state;
    for (float size = 100; size < 1e10f; size *= 100) {
        application app;
        begin_region(&app, OP_ROI_ALIGN, (float[]){0, 0, size, size});
        application_text(&app, "coordinate_transformation_mode", "output_half_pixel");
        application_run(&app, "portable.roi_align", 1);
        assert_float_equal(*(const float *)app.outputs[0].data * size * size, 4, 1e-4);
        application_free(&app);
    }
}

int main(int count, char **arguments) {
    if (count > 1) only = arguments[1];
    if (count > 2) rounds = strtoll(arguments[2], NULL, 10);
    if (count > 3) seed = strtoull(arguments[3], NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_regions_of_no_size),
                                       cmocka_unit_test(test_regions_larger_than_the_image),
                                       cmocka_unit_test(test_hostile)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
