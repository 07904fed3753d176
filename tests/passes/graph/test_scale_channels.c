/* SPDX-License-Identifier: Apache-2.0 */
/* test_scale_channels.c: BatchNormalization that nothing takes in, from the text to numbers, beside its formula in double: of rows and of images,
 * where these lie in blocks of channels too, in loops, of float and double, on one thread to five.
 */
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

enum { MOST = 1 << 16, TRIPS = 3 };

typedef struct variant {
    int rank, dims[5];
    bool wide;    /* double */
    bool between; /* a Conv makes what is scaled, another one reads it: that of single points */
    bool loops;   /* a loop carries it */
    bool open;    /* of extents that have only names */
} variant;

static char text[1 << 16];
static support_writer to;

/* The constants of a channel. */
static float scale_of(int c) {
    return c % 7 == 6 ? 0 : (float)(c % 5 - 2) * 0.75f;
}
static float bias_of(int c) {
    return (float)(c % 3 - 1) * 0.3f;
}
static float mean_of(int c) {
    return (float)(c % 11 - 5) * 0.2f;
}
static float variance_of(int c) {
    return 0.1f + (float)(c % 4);
}

static double normalized(double x, int c) {
    const double factor = (double)scale_of(c) / sqrt((double)variance_of(c) + (double)1e-3f);
    return (x - (double)mean_of(c)) * factor + (double)bias_of(c);
}

static void add_constant(const char *name, const char *type, int channels, float (*number)(int)) {
    support_write(&to, " constant %%%s: %s[%d] = {", name, type, channels);
    for (int c = 0; c < channels; c++) support_write(&to, "%s%.17g", c ? ", " : "", (double)number(c));
    support_write(&to, "}\n");
}

static const char *shape_of(const variant *v, char *buffer) {
    size_t used = (size_t)sprintf(buffer, v->wide ? "float64[" : "float32[");
    for (int d = 0; d < v->rank; d++)
        used += v->open && d != 1 ? (size_t)sprintf(buffer + used, "%s\"d%d\"", d ? "," : "", d)
                                  : (size_t)sprintf(buffer + used, "%s%d", d ? "," : "", v->dims[d]);
    strcpy(buffer + used, "]");
    return buffer;
}

static void write_module(const variant *v) {
    char shape[256];
    const int channels = v->dims[1];
    const char *type = v->wide ? "float64" : "float32";
    shape_of(v, shape);
    to = support_writer_on(text, sizeof text);
    support_write(&to, "module \"channels\" {\n");
    add_constant("scale", type, channels, scale_of);
    add_constant("bias", type, channels, bias_of);
    add_constant("mean", "float32", channels, mean_of);
    add_constant("variance", "float32", channels, variance_of);
    if (v->between) {
        support_write(&to, " constant %%w: float32[%d,%d,1,1] = {", channels, channels);
        for (int i = 0; i < channels * channels; i++)
            support_write(&to, "%s%s", i ? ", " : "", i % (channels + 1) ? "0.0" : "1.0");
        support_write(&to, "}\n");
    }
    support_write(&to, " constant %%trips: int64[] = {%d}\n graph main(%%x: %s) {\n", TRIPS, shape);
    const char *const node =
        "BatchNormalization(%s, %%scale, %%bias, %%mean, %%variance) {epsilon = 0.001}\n";
    if (v->loops) {
        support_write(
            &to,
            "  %%z: %s = Loop(%%trips, _, %%x) {\n graph body(%%t: int64[], %%go: bool[], %%v: %s) {\n  %%n: "
            "%s = ",
            shape, shape, shape);
        support_write(&to, node, "%v");
        support_write(&to, "  yield %%go, %%n\n } }\n  yield %%z\n } }\n");
    } else if (v->between) {
        support_write(&to, "  %%a: %s = Conv(%%x, %%w)\n  %%b: %s = Relu(%%a)\n  %%n: %s = ", shape, shape,
                      shape);
        support_write(&to, node, "%b");
        support_write(&to, "  %%r: %s = Relu(%%n)\n  %%z: %s = Conv(%%r, %%w)\n  yield %%z\n } }\n", shape,
                      shape);
    } else {
        support_write(&to, "  %%n: %s = ", shape);
        support_write(&to, node, "%x");
        support_write(&to, "  %%z: %s = Relu(%%n)\n  yield %%z\n } }\n", shape);
    }
}

static double expected(const variant *v, double x, int c) {
    for (int i = 0; v->loops && i < TRIPS; i++) x = normalized(x, c);
    if (v->loops) return x;
    const double y = normalized(v->between && x < 0 ? 0 : x, c);
    return y < 0 ? 0 : y;
}

static void expect(const variant *v, bool portable, int threads) {
    static float floats[MOST];
    static double doubles[MOST];
    const pass_options options = {.environment = {.threads = threads, .portable_only = portable}};
    support_session on;
    size_t count = 1, inner = 1;
    for (int d = 0; d < v->rank; d++) count *= (size_t)v->dims[d];
    for (int d = 2; d < v->rank; d++) inner *= (size_t)v->dims[d];
    assert_true(count <= MOST);
    for (size_t i = 0; i < count; i++) {
        floats[i] = (float)((i * 37 + i / 11) % 101) / 25 - 2;
        doubles[i] = (double)floats[i];
    }
    write_module(v);
    support_session_open_with(&on, text, &options);
    assert_int_equal(support_count_kernel(on.session->of, "portable.batch_normalization"), 0);
    assert_int_equal(support_count_kernel(on.session->of, "onednn.batch_normalization"), 0);
    assert_true(support_count_kernel(on.session->of, "portable.fused") == 1);
    /* What a trip is off by, the others multiply by up to five each. */
    const double off = v->wide ? 1e-14 : v->loops ? 1e-4 : 4e-6;
    const size_t bytes = count * (v->wide ? sizeof *doubles : sizeof *floats);
    int64_t dims[5];
    ouro_error error;
    for (int d = 0; d < v->rank; d++) dims[d] = v->dims[d];
    if (ouro_session_bind_input(on.session, 0, v->wide ? (const void *)doubles : floats, bytes,
                                v->open ? dims : NULL, &error) != OURO_OK)
        fail_msg("%s", error.message);
    support_run(&on);
    const void *got = support_output(&on, 0, bytes);
    for (size_t i = 0; i < count; i++) {
        const double y = v->wide ? ((const double *)got)[i] : (double)((const float *)got)[i],
                     want = expected(v, doubles[i], (int)(i / inner % (size_t)v->dims[1]));
        if (!(fabs(y - want) <= off * (1 + fabs(want))))
            fail_msg("element %zu: %.9g, expected %.9g (%d threads)", i, y, want, threads);
    }
    support_session_close(&on);
}

static void channels_are_scaled(void **state) {
    (void)state;
    static const variant variants[] = {
        {.rank = 2, .dims = {5, 33}},
        {.rank = 2, .dims = {1, 16}},
        {.rank = 3, .dims = {3, 7, 19}},
        {.rank = 3, .dims = {2, 3, 5}, .wide = true},
        {.rank = 4, .dims = {2, 6, 5, 7}, .wide = true},
        {.rank = 4, .dims = {1, 3, 40, 41}},
        {.rank = 4, .dims = {2, 40, 9, 11}, .between = true},
        {.rank = 4, .dims = {1, 35, 7, 7}, .between = true},
        {.rank = 4, .dims = {1, 64, 17, 19}, .between = true},
        {.rank = 4, .dims = {1, 20, 6, 6}, .loops = true},
        {.rank = 2, .dims = {7, 24}, .open = true},
        {.rank = 4, .dims = {2, 6, 5, 9}, .open = true},
        {.rank = 4, .dims = {2, 32, 5, 9}, .between = true, .open = true},
        {.rank = 5, .dims = {2, 5, 3, 4, 5}},
    };
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        for (int threads = 1; threads <= 5; threads++) expect(&variants[i], false, threads);
        expect(&variants[i], true, 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(channels_are_scaled)};
    return cmocka_run_group_tests_name("channels", tests, NULL, NULL);
}
