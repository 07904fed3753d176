/* SPDX-License-Identifier: Apache-2.0 */
/* test_unfold_phases.c: convolutions of an image's phases give the same whether the phases are made or not: by Slices in any order, one or
 * two for each phase, and by SpaceToDepth; with padding and without, two images, two threads; and what is left as it is.
 */
#include "runtime/executor.h"
#include "runtime/kernels/base/x86.h"
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include "tests/support/writer.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { FILTERS = 6, MOST = 4 * 12 * 12 };

typedef struct variant {
    int images, channels, stride, kernel, pad, height, width;
    int swapped; /* this phase and the first one change places */
    bool blocks; /* SpaceToDepth instead of Slices */
    bool apart;  /* a Slice of rows, then one of columns */
    bool kept;   /* the phases are a result, too */
    bool twice;  /* the first phase stands for the second as well */
} variant;

static char text[1 << 16];
static support_writer to;

static void add_phase(const variant *v, int index, int row, int column) {
    const int h = v->height / v->stride, w = v->width / v->stride;
    if (v->apart) {
        support_write(&to, "  %%r%d: float32[%d,%d,%d,%d] = Slice(%%x, %%f%d, %%last, %%rows, %%step)\n",
                      index, v->images, v->channels, h, v->width, row);
        support_write(&to, "  %%p%d: float32[%d,%d,%d,%d] = Slice(%%r%d, %%f%d, %%last, %%columns, %%step)\n",
                      index, v->images, v->channels, h, w, index, column);
    } else {
        support_write(&to, "  %%p%d: float32[%d,%d,%d,%d] = Slice(%%x, %%f%d_%d, %%ends, %%both, %%steps)\n",
                      index, v->images, v->channels, h, w, row, column);
    }
}

static void write_module(const variant *v) {
    const int s = v->stride, h = v->height / s, w = v->width / s, channels = v->channels * s * s;
    to = support_writer_on(text, sizeof text);
    support_write(
        &to,
        "module \"phases\" {\n constant %%last: int64[1] = {9223372036854775807}\n constant %%step: int64[1] "
        "= {%d}\n",
        s);
    support_write(
        &to,
        " constant %%ends: int64[2] = {9223372036854775807, 9223372036854775807}\n constant %%steps: "
        "int64[2] = {%d, %d}\n",
        s, s);
    support_write(
        &to,
        " constant %%rows: int64[1] = {2}\n constant %%columns: int64[1] = {-1}\n constant %%both: int64[2] "
        "= {2, 3}\n");
    for (int i = 0; i < s; i++) {
        support_write(&to, " constant %%f%d: int64[1] = {%d}\n", i, i);
        for (int j = 0; j < s; j++)
            support_write(&to, " constant %%f%d_%d: int64[2] = {%d, %d}\n", i, j, i, j);
    }
    support_write(&to, " constant %%w: float32[%d,%d,%d,%d] = {", FILTERS, channels, v->kernel, v->kernel);
    for (int i = 0; i < FILTERS * channels * v->kernel * v->kernel; i++)
        support_write(&to, "%s%d.%d", i ? ", " : "", i % 3 - 1, (i * 7 + i / 13) % 10);
    support_write(&to, "}\n graph main(%%x: float32[%d,%d,%d,%d]) {\n", v->images, v->channels, v->height,
                  v->width);
    if (v->blocks) {
        support_write(&to, "  %%f: float32[%d,%d,%d,%d] = SpaceToDepth(%%x) {blocksize = %d}\n", v->images,
                      channels, h, w, s);
    } else {
        for (int i = 0; i < s * s; i++) {
            const int at = i == 0 ? v->swapped : i == v->swapped || (v->twice && i == 1) ? 0 : i;
            add_phase(v, i, at / s, at % s);
        }
        support_write(&to, "  %%f: float32[%d,%d,%d,%d] = Concat(%%p0", v->images, channels, h, w);
        for (int i = 1; i < s * s; i++) support_write(&to, ", %%p%d", i);
        support_write(&to, ") {axis = 1}\n");
    }
    support_write(
        &to, "  %%y: float32[%d,%d,%d,%d] = Conv(%%f, %%w) {pads = [%d, %d, 0, %d]}\n  yield %%y%s\n } }\n",
        v->images, FILTERS, h + v->pad - v->kernel + 1, w + 2 * v->pad - v->kernel + 1, v->pad, v->pad,
        v->pad, v->kept ? ", %f" : "");
}

/* Nothing makes phases. */
static bool is_unfolded(const support_session *on) {
    const plan *of = on->session->of;
    bool slices = false;
    for (uint64_t n = 0; n < of->header->nodes.count; n++) {
        const char *name = of->texts + of->nodes[n].operator_name;
        slices |=
            strcmp(name, "Slice") == 0 || strcmp(name, "Concat") == 0 || strcmp(name, "SpaceToDepth") == 0;
    }
    return !slices;
}

/* There are the kernels for which it is done. */
static bool is_wanted(void) {
#if RT_X86_KERNELS
    return __builtin_cpu_supports("avx512f") && rt_kernel_exists(OP_CONV, "onednn.convolution");
#else
    return false;
#endif
}

static void expect(const variant *given, bool unfolded, bool exact, int threads) {
    static float x[2 * MOST];
    const pass_options options = {.environment = {.threads = threads}, .exact_arithmetic = exact};
    variant v = *given;
    support_session one, other;
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)((i * 37 + i / 11) % 101) / 50 - 1;
    const size_t bytes = (size_t)(v.images * v.channels * v.height * v.width) * sizeof *x;
    const size_t count = (size_t)(v.images * FILTERS * (v.height / v.stride + v.pad - v.kernel + 1) *
                                  (v.width / v.stride + 2 * v.pad - v.kernel + 1));
    write_module(&v);
    support_session_open_with(&one, text, &options);
    assert_int_equal(is_unfolded(&one), unfolded && is_wanted());
    v.kept = true;
    write_module(&v);
    support_session_open_with(&other, text, &options);
    assert_false(is_unfolded(&other));
    support_bind(&one, 0, x, bytes);
    support_bind(&other, 0, x, bytes);
    support_run(&one);
    support_run(&other);
    const float *got = support_output(&one, 0, count * sizeof *got),
                *want = support_output(&other, 0, count * sizeof *want);
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(got[i] - want[i]) <= 2e-5f * (1 + fabsf(want[i]))))
            fail_msg("element %zu: %.9g, expected %.9g", i, (double)got[i], (double)want[i]);
    support_session_close(&one);
    support_session_close(&other);
}

static void phases_give_the_same(void **state) {
    (void)state;
    static const variant variants[] = {
        {.images = 1,
         .channels = 3,
         .stride = 2,
         .kernel = 3,
         .pad = 1,
         .height = 12,
         .width = 10,
         .apart = true},
        {.images = 2,
         .channels = 3,
         .stride = 2,
         .kernel = 3,
         .pad = 1,
         .height = 8,
         .width = 12,
         .swapped = 2},
        {.images = 1,
         .channels = 1,
         .stride = 3,
         .kernel = 2,
         .pad = 0,
         .height = 12,
         .width = 9,
         .swapped = 5},
        {.images = 1, .channels = 4, .stride = 2, .kernel = 1, .pad = 0, .height = 6, .width = 6},
        {.images = 2,
         .channels = 2,
         .stride = 2,
         .kernel = 3,
         .pad = 2,
         .height = 8,
         .width = 8,
         .blocks = true},
    };
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        expect(&variants[i], true, false, 1);
        expect(&variants[i], true, false, 2);
        expect(&variants[i], false, true, 1);
    }
}

/* More channels, a phase that is there twice. */
static void others_stay(void **state) {
    (void)state;
    static const variant variants[] = {
        {.images = 1, .channels = 5, .stride = 2, .kernel = 3, .pad = 1, .height = 8, .width = 8},
        {.images = 1,
         .channels = 3,
         .stride = 2,
         .kernel = 3,
         .pad = 1,
         .height = 8,
         .width = 8,
         .twice = true},
    };
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) expect(&variants[i], false, false, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(phases_give_the_same), cmocka_unit_test(others_stay)};
    return cmocka_run_group_tests_name("phases", tests, NULL, NULL);
}
