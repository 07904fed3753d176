/* SPDX-License-Identifier: Apache-2.0 */
/* test_join_convolutions.c: heads that are one convolution give what each gives by itself: with and without biases, other activations, a
 * second convolution of each channel by itself, one image and two, on all kernels and on portable ones, one thread and two. */
#include "runtime/executor.h"
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

enum { HEADS = 4, CHANNELS = 20, SIZE = 9, POINTS = SIZE * SIZE };
static const int filters[HEADS] = {1, 4, 1, 10};

typedef struct variant {
    int images, threads;
    bool portable, second,
        kept; /* second: followed by convolutions of each channel; kept: all with the same activation */
} variant;

/* The heads from `first` to `end`, whose weights are made of their numbers. */
static void write_heads(char *text, size_t capacity, const variant *how, int first, int end) {
    static const char *const activations[HEADS] = {"Sigmoid", "Relu", "Identity", "HardSwish"};
    support_writer to = support_writer_on(text, capacity);
    support_write(&to, "module \"heads\" {\n");
    for (int h = first; h < end; h++) {
        support_write(&to, " constant %%w%d: float32[%d,%d,1,1] = {", h, filters[h], CHANNELS);
        for (int i = 0; i < filters[h] * CHANNELS; i++)
            support_write(&to, "%s%d.%d", i ? ", " : "", (i * 7 + h) % 3 - 1, (i * 5 + h * 3) % 10);
        support_write(&to, "}\n constant %%b%d: float32[%d] = {", h, filters[h]);
        for (int i = 0; i < filters[h]; i++) support_write(&to, "%s0.%d", i ? ", " : "", (i + h) % 10);
        support_write(&to, "}\n constant %%d%d: float32[%d,1,3,3] = {", h, filters[h]);
        for (int i = 0; i < filters[h] * 9; i++)
            support_write(&to, "%s-0.%d", i ? ", " : "", (i * 3 + h) % 10);
        support_write(&to, "}\n");
    }
    support_write(&to, " graph main(%%x: float32[%d,%d,%d,%d]) {\n", how->images, CHANNELS, SIZE, SIZE);
    for (int h = first; h < end; h++) {
        char type[64];
        snprintf(type, sizeof type, "float32[%d,%d,%d,%d]", how->images, filters[h], SIZE, SIZE);
        support_write(&to, "  %%p%d: %s = Conv(%%x, %%w%d", h, type, h);
        if (h != 1) support_write(&to, ", %%b%d", h);
        support_write(&to, ")\n");
        if (how->second)
            support_write(&to, "  %%q%d: %s = Conv(%%p%d, %%d%d) {group = %d, pads = [1, 1, 1, 1]}\n", h,
                          type, h, h, filters[h]);
        support_write(&to, "  %%y%d: %s = %s(%%%c%d)\n", h, type, how->kept ? "HardSwish" : activations[h],
                      how->second ? 'q' : 'p', h);
    }
    for (int h = first; h < end; h++) support_write(&to, "%s%%y%d", h == first ? "  yield " : ", ", h);
    support_write(&to, "\n } }\n");
}

/* All heads of one module, and each in a module of its own, where there is nothing to join it with. */
static void expect_same(const variant *how) {
    static char text[1 << 16];
    static float x[2 * CHANNELS * POINTS];
    const pass_options options = {.environment = {.threads = how->threads, .portable_only = how->portable}};
    support_session together, alone;
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)((i * 37 + i / 11) % 101) / 50 - 1;
    write_heads(text, sizeof text, how, 0, HEADS);
    support_session_open_with(&together, text, &options);
    support_bind(&together, 0, x, (size_t)how->images * CHANNELS * POINTS * sizeof *x);
    support_run(&together);
    const plan *of = together.session->of;
    int convolutions = 0;
    for (uint64_t n = 0; n < of->header->nodes.count; n++)
        convolutions += strcmp(of->texts + of->nodes[n].operator_name, "Conv") == 0;
    assert_int_equal(convolutions, how->second ? 2 : 1);
    for (int h = 0; h < HEADS; h++) {
        const size_t count = (size_t)how->images * (size_t)filters[h] * POINTS;
        write_heads(text, sizeof text, how, h, h + 1);
        support_session_open_with(&alone, text, &options);
        support_bind(&alone, 0, x, (size_t)how->images * CHANNELS * POINTS * sizeof *x);
        support_run(&alone);
        const float *got = support_output(&together, (size_t)h, count * sizeof *got),
                    *want = support_output(&alone, 0, count * sizeof *want);
        for (size_t i = 0; i < count; i++)
            if (!(fabsf(got[i] - want[i]) <= 1e-5f * (1 + fabsf(want[i]))))
                fail_msg("head %d, element %zu: %.9g, expected %.9g", h, i, (double)got[i], (double)want[i]);
        support_session_close(&alone);
    }
    support_session_close(&together);
}

static void heads_give_what_each_gives(void **state) {
    (void)state;
    for (int i = 0; i < 32; i++)
        expect_same(&(variant){.images = 1 + (i & 1),
                               .threads = 1 + (i >> 1 & 1),
                               .portable = i >> 2 & 1,
                               .second = i >> 3 & 1,
                               .kept = i >> 4 & 1});
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(heads_give_what_each_gives)};
    return cmocka_run_group_tests_name("joined convolutions", tests, NULL, NULL);
}
