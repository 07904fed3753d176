/* SPDX-License-Identifier: Apache-2.0 */
/* test_open_convolutions.c: convolutions of images whose number or extents only a run knows, on kernels that are chosen for an example of them: no image,
 * one, some, of one point, small and large ones give what a plan gives that knows them and keeps to exact arithmetic; and nothing is allocated once
 * extents were seen.
 */
#include "runtime/executor.h"
#include "runtime/kernels/portable/fixed_tiles.h"
#include "tests/support/application.h"
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include "tests/support/writer.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum {
    CHANNELS = 96,
    INNER = 192,
    FILTERS = 72,
    FEW = 3,
    MOST_IMAGES = 5,
    MOST_POINTS = 3600,
    CAPACITY = 3000000
};

/* Extents of images, as numbers or as symbols. */
typedef struct extents {
    const char *symbols; /* that are declared */
    const char *images, *height, *width;
} extents;

/* Windows of 3x3 that move by two, whose results are read twice; points, with what goes around them; windows with few filters. */
static const char *images_text(const extents *e) {
    static char text[CAPACITY];
    support_writer to = support_writer_on(text, sizeof text);
    support_write(&to, "module \"images\" {\n%s", e->symbols);
    support_write_constant(&to, "u", "float32", "192,96,3,3", INNER * CHANNELS * 9, 1);
    support_write_constant(&to, "v", "float32", "192,192,1,1", INNER * INNER, 2);
    support_write_constant(&to, "w", "float32", "72,192,1,1", FILTERS * INNER, 3);
    support_write_constant(&to, "b", "float32", "192", INNER, 4);
    support_write_constant(&to, "c", "float32", "72", FILTERS, 5);
    support_write_constant(&to, "t", "float32", "3,72,3,3", FEW * FILTERS * 9, 6);
    support_write(
        &to,
        "  graph main(%%x: float32[%s,96,%s,%s]) {\n"
        "    %%d: float32[?,192,?,?] = Conv(%%x, %%u, %%b) {pads = [1, 1, 1, 1], strides = [2, 2]}\n"
        "    %%e: float32[?,192,?,?] = Relu(%%d)\n"
        "    %%f: float32[?,192,?,?] = Conv(%%e, %%v, %%b)\n"
        "    %%g: float32[?,192,?,?] = Add(%%f, %%e)\n"
        "    %%h: float32[?,192,?,?] = Tanh(%%g)\n"
        "    %%y: float32[?,72,?,?] = Conv(%%h, %%w, %%c)\n"
        "    %%z: float32[?,3,?,?] = Conv(%%y, %%t) {pads = [1, 1, 1, 1]}\n    yield %%y, %%z\n  }\n}\n",
        e->images, e->height, e->width);
    return text;
}

/* What a run is made with. */
typedef struct example {
    int images, height, width;
} example;

static void bind_images(const support_session *open, const float *x, const example *of) {
    const int64_t shape[] = {of->images, CHANNELS, of->height, of->width};
    const size_t count = (size_t)(of->images * CHANNELS * of->height * of->width);
    ouro_error error;
    if (ouro_session_bind_input(open->session, 0, x, count * sizeof *x, shape, &error) != OURO_OK)
        fail_msg("%s", error.message);
}

static void expect_as_known(const support_session *open, const float *x, const example *of, int threads) {
    char numbers[3][12];
    support_session known;
    const size_t points = (size_t)(of->images * ((of->height + 1) / 2) * ((of->width + 1) / 2));
    const pass_options exact = {
        .max_unroll = 16, .exact_arithmetic = true, .environment = {.threads = threads}};
    snprintf(numbers[0], sizeof numbers[0], "%d", of->images);
    snprintf(numbers[1], sizeof numbers[1], "%d", of->height);
    snprintf(numbers[2], sizeof numbers[2], "%d", of->width);
    const extents numbered = {"", numbers[0], numbers[1], numbers[2]};
    support_session_open_with(&known, images_text(&numbered), &exact);
    support_bind(&known, 0, x, (size_t)(of->images * CHANNELS * of->height * of->width) * sizeof *x);
    bind_images(open, x, of);
    support_run(open);
    support_run(&known);
    for (size_t o = 0; o < 2; o++) {
        const size_t count = points * (o ? FEW : FILTERS);
        const float *got = support_output(open, o, count * sizeof *got),
                    *want = support_output(&known, o, count * sizeof *want);
        for (size_t i = 0; i < count; i++)
            if (!(fabsf(got[i] - want[i]) <= 2e-5f * (1 + fabsf(want[i]))))
                fail_msg("%d images of %d x %d, %d threads: element %zu of output %zu is %g, expected %g",
                         of->images, of->height, of->width, threads, i, o, (double)got[i], (double)want[i]);
    }
    support_session_close(&known);
}

static void expect_examples(const extents *open_extents, const example *examples, size_t count) {
    static float x[MOST_IMAGES * CHANNELS * MOST_POINTS];
    uint64_t seed = 7;
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = 0.001f * (float)random_range(&seed, -1000, 1000);
    for (int threads = 1; threads <= 3; threads++) {
        const pass_options options = {.max_unroll = 16, .environment = {.threads = threads}};
        support_session open;
        support_session_open_with(&open, images_text(open_extents), &options);
        if (threads == 1) {
            assert_int_equal(support_count_kernel(open.session->of, "portable.fixed_convolution"),
                             rt_fixed_wanted() ? 2 : 0);
            assert_int_equal(support_count_kernel(open.session->of, "portable.window_convolution"),
                             rt_fixed_wanted() ? 1 : 0);
        }
        if (application_machine_is_wide())
            assert_int_equal(support_count_kernel(open.session->of, "portable.few_filters"), 1);
        for (size_t i = 0; i < count; i++) expect_as_known(&open, x, &examples[i], threads);
        support_expect_no_allocations(&open);
        support_session_close(&open);
    }
}

static void images_may_be_any_number(void **state) {
    (void)state;
    static const extents open = {"  symbol N\n", "N", "29", "31"};
    static const example examples[] = {{1, 29, 31}, {0, 29, 31}, {5, 29, 31}, {2, 29, 31}, {1, 29, 31}};
    expect_examples(&open, examples, sizeof examples / sizeof *examples);
}

static void images_may_have_any_extents(void **state) {
    (void)state;
    static const extents open = {"  symbol H\n  symbol W\n", "2", "H", "W"};
    static const example examples[] = {{2, 30, 20}, {2, 1, 1}, {2, 3, 60}, {2, 60, 60}, {2, 7, 5}};
    expect_examples(&open, examples, sizeof examples / sizeof *examples);
}

static void all_may_be_open(void **state) {
    (void)state;
    static const extents open = {"  symbol N\n  symbol H\n  symbol W\n", "N", "H", "W"};
    static const example examples[] = {{1, 57, 57}, {3, 1, 1},  {0, 9, 9},
                                       {1, 0, 12},  {4, 2, 60}, {1, 60, 60}};
    expect_examples(&open, examples, sizeof examples / sizeof *examples);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_may_be_any_number),
        cmocka_unit_test(images_may_have_any_extents),
        cmocka_unit_test(all_may_be_open),
    };
    return cmocka_run_group_tests_name("convolutions of any images", tests, NULL, NULL);
}
