/* SPDX-License-Identifier: Apache-2.0 */
/* test_session.c: plans run: straight lines, views, branches, loops, unknown extents, buffers, failures.
 * Every run is also checked against memory of its own for every tensor. */
#include "tests/support/support.h"
#include "tests/support/allocations.h"
#include "tests/support/plan.h"
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void expect_floats(const void *data, const float *expected, size_t count) {
    const float *is = data;
    for (size_t i = 0; i < count; i++) {
        if (is[i] != expected[i]) fail_msg("element %zu is %g, expected %g", i, is[i], expected[i]);
    }
}

#define EXPECT(on, index, ...)                                                                               \
    do {                                                                                                     \
        const float expected_[] = {__VA_ARGS__};                                                             \
        expect_floats(support_output(on, index, sizeof expected_), expected_,                                \
                      sizeof expected_ / sizeof(float));                                                     \
    } while (0)

/* ---- straight lines ------------------------------------------------------------------------------------ */

static const char *const straight = "module \"straight\" {\n"
                                    "  constant %one: float32[4] = {1.0, 1.0, 1.0, 1.0}\n"
                                    "  constant %starts: int64[1] = {1}\n"
                                    "  constant %ends: int64[1] = {2}\n"
                                    "  constant %axes: int64[1] = {0}\n"
                                    "  constant %flat: int64[1] = {4}\n"
                                    "  graph main(%x: float32[2,4]) {\n"
                                    "    %r: float32[2,4] = Neg(%x)\n"
                                    "    %s: float32[1,4] = Slice(%r, %starts, %ends, %axes)\n"
                                    "    %f: float32[4] = Reshape(%s, %flat)\n"
                                    "    %a: float32[4] = Add(%f, %one)\n"
                                    "    %e: float32[4] = Abs(%a)\n"
                                    "    %c: float32[8] = Concat(%e, %f) {axis = 0}\n"
                                    "    yield %c, %a\n"
                                    "  }\n"
                                    "}\n";

static void test_straight(void **state) {
    (void)state;
    support_session on;
    const float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    support_session_open(&on, straight, 1);
    support_bind(&on, 0, x, sizeof x);
    for (int i = 0; i < 3; i++) {
        support_run(&on);
        EXPECT(&on, 0, 4, 5, 6, 7, -5, -6, -7, -8);
        EXPECT(&on, 1, -4, -5, -6, -7);
    }
    support_session_close(&on);
}

static void test_run_allocates_nothing(void **state) {
    (void)state;
    support_session on;
    const float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    if (!allocations_are_counted()) return;
    support_session_open(&on, straight, 1);
    support_bind(&on, 0, x, sizeof x);
    size_t before = allocations_count();
    for (int i = 0; i < 5; i++) assert_int_equal(ouro_session_run(on.session, NULL), OURO_OK);
    assert_int_equal(allocations_count() - before, 0);
    support_session_close(&on);
}

/* ---- buffers of the caller ----------------------------------------------------------------------------- */

static void expect_failure(ouro_status status, ouro_status expected, const ouro_error *error,
                           const char *part) {
    assert_int_equal(status, expected);
    assert_int_equal(error->status, expected);
    if (!strstr(error->message, part)) fail_msg("\"%s\" does not say \"%s\"", error->message, part);
    assert_null(strchr(error->message, '\n'));
}

static void test_binding(void **state) {
    (void)state;
    support_session on;
    ouro_error error;
    ouro_tensor_info info;
    const void *data;
    char memory[8 * sizeof(float) + 64];
    float other[8] = {8, 7, 6, 5, 4, 3, 2, 1}, c[8], a[4];
    support_session_open(&on, straight, 1);
    expect_failure(ouro_session_run(on.session, &error), OURO_USAGE, &error, "input 'x' is not bound");
    expect_failure(ouro_session_output(on.session, 0, &info, &data, &error), OURO_USAGE, &error,
                   "no output yet");
    expect_failure(ouro_session_bind_input(on.session, 1, other, sizeof other, NULL, &error), OURO_USAGE,
                   &error, "no input 1");
    expect_failure(ouro_session_bind_input(on.session, 0, other, sizeof other - 4, NULL, &error), OURO_USAGE,
                   &error, "28 bytes, expected 32 for float32[2,4]");
    expect_failure(ouro_session_bind_input(on.session, 0, NULL, sizeof other, NULL, &error), OURO_USAGE,
                   &error, "no data");
    expect_failure(ouro_session_bind_input(on.session, 0, memory + 1, sizeof other, NULL, &error), OURO_USAGE,
                   &error, "not aligned");
    const int64_t dims[2] = {4, 2};
    expect_failure(ouro_session_bind_input(on.session, 0, other, sizeof other, dims, &error), OURO_INVALID,
                   &error, "float32[4,2], expected float32[2,4]");
    expect_failure(ouro_session_bind_output(on.session, 0, c, sizeof c - 1, &error), OURO_USAGE, &error,
                   "it needs 32");
    expect_failure(ouro_session_bind_output(on.session, 2, c, sizeof c, &error), OURO_USAGE, &error,
                   "no output 2");

    float *x = (float *)(void *)(memory + 4); /* any alignment of the element type */
    for (int i = 0; i < 8; i++) x[i] = (float)(i + 1);
    support_bind(&on, 0, x, sizeof other);
    assert_int_equal(ouro_session_bind_output(on.session, 0, c, sizeof c, &error), OURO_OK);
    assert_int_equal(ouro_session_bind_output(on.session, 1, a, sizeof a, &error), OURO_OK);
    support_run(&on);
    assert_ptr_equal(support_output(&on, 0, sizeof c), c);
    expect_floats(c, (const float[]){4, 5, 6, 7, -5, -6, -7, -8}, 8);
    expect_floats(a, (const float[]){-4, -5, -6, -7}, 4);
    support_bind(&on, 0, other, sizeof other);
    assert_int_equal(ouro_session_bind_output(on.session, 0, NULL, 0, &error), OURO_OK);
    expect_failure(ouro_session_output(on.session, 0, &info, &data, &error), OURO_USAGE, &error,
                   "no output yet");
    support_run(&on);
    assert_ptr_not_equal(support_output(&on, 0, sizeof c), c);
    EXPECT(&on, 0, 3, 2, 1, 0, -4, -3, -2, -1);
    expect_floats(a, (const float[]){-3, -2, -1, 0}, 4);
    support_session_close(&on);
}

static void test_own_arena(void **state) {
    (void)state;
    size_t size;
    ouro_error error;
    ouro_plan *handle;
    ouro_session *session;
    unsigned char *bytes = support_plan(straight, true, &size);
    assert_int_equal(ouro_plan_open(bytes, size, &handle, &error), OURO_OK);
    assert_int_equal(ouro_plan_find_input(handle, "x"), 0);
    assert_int_equal(ouro_plan_find_output(handle, "a"), 1);
    assert_int_equal(ouro_plan_find_output(handle, "nothing"), -1);
    size_t arena = ouro_plan_arena_bytes(handle);
    assert_true(arena > 0);
    unsigned char *memory = aligned_alloc(64, arena + 64);
    ouro_session_options options = {.arena = memory, .arena_bytes = arena - 1};
    expect_failure(ouro_session_new(handle, &options, &session, &error), OURO_USAGE, &error,
                   "the plan needs");
    options = (ouro_session_options){.arena = memory + 8, .arena_bytes = arena};
    expect_failure(ouro_session_new(handle, &options, &session, &error), OURO_USAGE, &error, "not aligned");
    options = (ouro_session_options){.threads = -1};
    expect_failure(ouro_session_new(handle, &options, &session, &error), OURO_USAGE, &error, "threads");
    memset(memory, 0x5a, arena + 64);
    options = (ouro_session_options){.arena = memory, .arena_bytes = arena};
    assert_int_equal(ouro_session_new(handle, &options, &session, &error), OURO_OK);
    const float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    assert_int_equal(ouro_session_bind_input(session, 0, x, sizeof x, NULL, &error), OURO_OK);
    assert_int_equal(ouro_session_run(session, &error), OURO_OK);
    for (size_t i = arena; i < arena + 64; i++) assert_int_equal(memory[i], 0x5a);
    ouro_session_free(session);
    ouro_plan_free(handle);
    free(memory);
    free(bytes);
}

/* ---- If ------------------------------------------------------------------------------------------------ */

static void test_if(void **state) {
    (void)state;
    support_session on;
    const float x[4] = {1, -2, 3, -4};
    support_session_open(&on,
                         "module \"if\" {\n"
                         "  graph main(%go: bool[], %x: float32[4]) {\n"
                         "    %n: float32[4] = Neg(%x)\n"
                         "    %y: float32[4], %z: float32[4] = If(%go) {\n"
                         "      graph then() {\n"
                         "        %a: float32[4] = Add(%n, %n)\n"
                         "        %b: float32[4] = Mul(%a, %a)\n"
                         "        yield %b, %n\n"
                         "      }\n"
                         "      graph else() {\n"
                         "        %c: float32[4] = Abs(%x)\n"
                         "        yield %c, %x\n"
                         "      }\n"
                         "    }\n"
                         "    %s: float32[4] = Sub(%y, %n)\n"
                         "    yield %s, %z\n"
                         "  }\n"
                         "}\n",
                         1);
    support_bind(&on, 1, x, sizeof x);
    for (int run = 0; run < 4; run++) {
        const bool go = run % 2 == 0;
        support_bind(&on, 0, &go, 1);
        support_run(&on);
        if (go) {
            EXPECT(&on, 0, 5, 14, 39, 60);
            EXPECT(&on, 1, -1, 2, -3, 4);
        } else {
            EXPECT(&on, 0, 2, 0, 6, 0);
            EXPECT(&on, 1, 1, -2, 3, -4);
        }
    }
    support_session_close(&on);
}

/* ---- Loop ---------------------------------------------------------------------------------------------- */

/* The trip count is an input: 0, 1, 2 and more with one plan. */
static void test_loop_trips(void **state) {
    (void)state;
    support_session on;
    const bool go = true, stop = false;
    const float x[2] = {1, 10}, y[2] = {2, 20};
    support_session_open(
        &on,
        "module \"trips\" {\n"
        "  constant %one: float32[] = {1.0}\n"
        "  graph main(%n: int64[], %go: bool[], %x: float32[2], %y: float32[2]) {\n"
        "    %p: float32[2], %q: float32[2], %same: float32[2] = Loop(%n, %go, %x, %y, %x) {\n"
        "      graph body(%i: int64[], %k: bool[], %a: float32[2], %b: float32[2], %c: float32[2]) {\n"
        "        %t: float32[2] = Add(%a, %one)\n"
        "        %u: float32[2] = Mul(%t, %one)\n"
        "        yield %k, %b, %u, %c\n"
        "      }\n"
        "    }\n"
        "    yield %p, %q, %same\n"
        "  }\n"
        "}\n",
        1);
    support_bind(&on, 2, x, sizeof x);
    support_bind(&on, 3, y, sizeof y);
    for (int64_t n = -1; n < 7; n++) {
        float a = 1, b = 2;
        support_bind(&on, 0, &n, sizeof n);
        support_bind(&on, 1, &go, 1);
        support_run(&on);
        for (int64_t i = 0; i < n; i++) { /* a, b = b, a + 1 */
            float old = a;
            a = b;
            b = old + 1;
        }
        const float *p = support_output(&on, 0, 8), *q = support_output(&on, 1, 8);
        assert_true(p[0] == a && q[0] == b);
        EXPECT(&on, 2, 1, 10);
        support_bind(&on, 1, &stop, 1);
        support_run(&on);
        EXPECT(&on, 0, 1, 10);
        EXPECT(&on, 1, 2, 20);
    }
    support_session_close(&on);
}

static void test_loop_swap(void **state) {
    (void)state;
    support_session on;
    const float x[2] = {1, 2}, y[2] = {3, 4}, z[2] = {5, 6};
    support_session_open(
        &on,
        "module \"swap\" {\n"
        "  graph main(%n: int64[], %x: float32[2], %y: float32[2], %z: float32[2]) {\n"
        "    %p: float32[2], %q: float32[2], %r: float32[2] = Loop(%n, _, %x, %y, %z) {\n"
        "      graph body(%i: int64[], %k: bool[], %a: float32[2], %b: float32[2], %c: float32[2]) {\n"
        "        yield %k, %b, %c, %a\n"
        "      }\n"
        "    }\n"
        "    yield %p, %q, %r\n"
        "  }\n"
        "}\n",
        1);
    support_bind(&on, 1, x, sizeof x);
    support_bind(&on, 2, y, sizeof y);
    support_bind(&on, 3, z, sizeof z);
    const float *const all[3] = {x, y, z};
    for (int64_t n = 0; n < 8; n++) {
        support_bind(&on, 0, &n, sizeof n);
        support_run(&on);
        for (size_t i = 0; i < 3; i++) expect_floats(support_output(&on, i, 8), all[(i + (size_t)n) % 3], 2);
    }
    support_session_close(&on);
}

/* The condition comes from the data; the body reads a captured value. */
static void test_loop_condition(void **state) {
    (void)state;
    support_session on;
    support_session_open(&on,
                         "module \"while\" {\n"
                         "  constant %go: bool[] = {true}\n"
                         "  graph main(%limit: float32[], %step: float32[]) {\n"
                         "    %twice: float32[] = Add(%step, %step)\n"
                         "    %y: float32[] = Loop(_, %go, %step) {\n"
                         "      graph body(%i: int64[], %k: bool[], %a: float32[]) {\n"
                         "        %s: float32[] = Add(%a, %twice)\n"
                         "        %more: bool[] = Less(%s, %limit)\n"
                         "        yield %more, %s\n"
                         "      }\n"
                         "    }\n"
                         "    yield %y\n"
                         "  }\n"
                         "}\n",
                         1);
    const float limit = 10, step = 1;
    support_bind(&on, 0, &limit, 4);
    support_bind(&on, 1, &step, 4);
    support_run(&on);
    EXPECT(&on, 0, 11);
    if (allocations_are_counted()) {
        size_t before = allocations_count();
        assert_int_equal(ouro_session_run(on.session, NULL), OURO_OK);
        assert_int_equal(allocations_count() - before, 0);
    }
    support_session_close(&on);
}

/* Nested, with scans in both directions, stacked outputs and an If; trip counts are known. */
static void test_loop_nested(void **state) {
    (void)state;
    support_session on;
    size_t length;
    char *text = support_read_golden("ir/cases/control.ir", &length);
    support_session_open(&on, text, 1);
    free(text);
    const float a[4] = {0.5f, 0.25f, -0.5f, 0};
    float seq[32], s[4], stack[40];
    const bool go = true;
    for (int i = 0; i < 32; i++) seq[i] = (float)(i % 7) * 0.125f - 0.5f;
    support_bind(&on, 0, a, sizeof a);
    support_bind(&on, 1, seq, sizeof seq);
    support_bind(&on, 2, &go, 1);
    support_run(&on);
    memcpy(s, a, sizeof s);
    for (int i = 0; i < 10; i++) {
        float acc[4];
        memcpy(acc, s, sizeof s);
        for (int j = 0; j < 8; j++) {
            for (int e = 0; e < 4; e++) acc[e] = (acc[e] + seq[4 * j + e] + 1) * s[e];
        }
        for (int e = 0; e < 4; e++) s[e] = acc[e] + acc[e];
        memcpy(stack + 4 * i, acc, sizeof acc);
    }
    const float *last = support_output(&on, 0, sizeof s), *stacked = support_output(&on, 1, sizeof stack);
    for (int e = 0; e < 4; e++)
        assert_true(fabsf(last[e] - s[e]) <= 1e-5f * fabsf(s[e]) || (isinf(s[e]) && isinf(last[e])) ||
                    isnan(s[e]));
    for (int e = 0; e < 8; e++) assert_true(fabsf(stacked[e] - stack[e]) <= 1e-5f * fabsf(stack[e]) + 1e-6f);
    support_session_close(&on);
}

/* ---- unknown extents ----------------------------------------------------------------------------------- */

static const char *const open_text = "module \"open\" {\n"
                                     "  symbol N\n"
                                     "  constant %w: float32[2,2] = {1.0, 2.0, 3.0, 4.0}\n"
                                     "  constant %flat: int64[1] = {-1}\n"
                                     "  graph main(%x: float32[N,2], %b: float32[N,2], %s: float32[2]) {\n"
                                     "    %t: float32[2] = Neg(%s)\n"
                                     "    %u: float32[2] = Abs(%t)\n"
                                     "    %m: float32[N,2] = MatMul(%x, %w)\n"
                                     "    %a: float32[N,2] = Add(%m, %b)\n"
                                     "    %y: float32[N,2] = Add(%a, %u)\n"
                                     "    %f: float32[?] = Reshape(%y, %flat)\n"
                                     "    yield %f, %t\n"
                                     "  }\n"
                                     "}\n";

static void test_open(void **state) {
    (void)state;
    support_session on;
    ouro_error error;
    ouro_tensor_info info;
    support_session_open(&on, open_text, 1);
    assert_int_equal(ouro_plan_input(on.plan, 0, &info), OURO_OK);
    assert_int_equal(info.dims[0], -1);
    assert_int_equal(info.bytes, 0);
    float x[12], b[12], s[2] = {1, -1}, y[12];
    for (int i = 0; i < 12; i++) {
        x[i] = (float)i;
        b[i] = 0.5f * (float)i;
    }
    support_bind(&on, 2, s, sizeof s);
    expect_failure(ouro_session_bind_input(on.session, 0, x, 8, NULL, &error), OURO_USAGE, &error,
                   "dimensions must be given");
    for (int64_t n = 6; n >= 0; n -= 2) {
        const int64_t dims[2] = {n, 2}, other[2] = {1, 2};
        size_t bytes = (size_t)n * 8;
        assert_int_equal(ouro_session_bind_input(on.session, 0, x, bytes, dims, &error), OURO_OK);
        assert_int_equal(ouro_session_bind_input(on.session, 1, b, 8, other, &error), OURO_OK);
        expect_failure(ouro_session_run(on.session, &error), OURO_INVALID, &error, "dimension 'N'");
        assert_int_equal(ouro_session_bind_input(on.session, 1, b, bytes, dims, &error), OURO_OK);
        assert_int_equal(ouro_session_bind_output(on.session, 0, n == 4 ? y : NULL, sizeof y, &error),
                         OURO_OK);
        support_run(&on);
        const float *made = support_output(&on, 0, bytes);
        assert_true(n != 4 || made == y);
        for (int64_t i = 0; i < n; i++) {
            for (int k = 0; k < 2; k++) {
                float expected = x[2 * i] * (k ? 2 : 1) + x[2 * i + 1] * (k ? 4 : 3) + b[2 * i + k] + 1;
                assert_true(made[2 * i + k] == expected);
            }
        }
        EXPECT(&on, 1, -1, 1);
    }
    support_session_close(&on);
}

/* A carried value that grows, a stacked output of unknown extent, and a branch of unknown shape. */
static void test_open_loop(void **state) {
    (void)state;
    support_session on;
    const float x[2] = {1, 2};
    support_session_open(
        &on,
        "module \"grow\" {\n"
        "  constant %two: float32[] = {2.0}\n"
        "  graph main(%n: int64[], %go: bool[], %x: float32[2]) {\n"
        "    %all: float32[?], %last: float32[2], %stack: float32[?,2] = Loop(%n, _, %x, %x) {\n"
        "      graph body(%i: int64[], %k: bool[], %a: float32[?], %b: float32[2]) {\n"
        "        %d: float32[2] = Mul(%b, %two)\n"
        "        %g: float32[?] = Concat(%a, %d) {axis = 0}\n"
        "        yield %k, %g, %d, %d\n"
        "      }\n"
        "    }\n"
        "    %y: float32[?] = If(%go) {\n"
        "      graph then() {\n"
        "        %v: float32[?] = Neg(%all)\n"
        "        yield %v\n"
        "      }\n"
        "      graph else() {\n"
        "        yield %last\n"
        "      }\n"
        "    }\n"
        "    yield %all, %last, %stack, %y\n"
        "  }\n"
        "}\n",
        1);
    support_bind(&on, 2, x, sizeof x);
    for (int64_t n = 0; n < 20; n += 3) {
        const bool go = n % 2 == 0;
        support_bind(&on, 0, &n, sizeof n);
        support_bind(&on, 1, &go, 1);
        support_run(&on);
        size_t count = (size_t)n;
        const float *all = support_output(&on, 0, (count + 1) * 8), *last = support_output(&on, 1, 8);
        const float *stack = support_output(&on, 2, count * 8),
                    *y = support_output(&on, 3, go ? (count + 1) * 8 : 8);
        for (size_t i = 0; i <= count; i++) {
            for (size_t k = 0; k < 2; k++) {
                float expected = ldexpf(x[k], (int)i);
                assert_true(all[2 * i + k] == expected);
                assert_true(i == 0 || stack[2 * (i - 1) + k] == expected);
                assert_true(!go || y[2 * i + k] == -expected);
                assert_true(i != count || (last[k] == expected && (go || y[k] == expected)));
            }
        }
    }
    support_session_close(&on);
}

/* What depends on data fails with the node's name, and the session stays usable. */
/* Extents that few integers decide: a node infers its outputs anew when these are others, and only then. */
static void test_deciding_data(void **state) {
    (void)state;
    support_session on;
    support_session_open(&on,
                         "module \"deciding\" {\n"
                         "  constant %one: float32[] = {1}\n"
                         "  constant %axis: int64[1] = {0}\n"
                         "  graph main(%x: float32[6], %s: int64[2], %b: int64[1], %e: int64[1]) {\n"
                         "    %r: float32[?,?] = Reshape(%x, %s) %u: float32[?,?] = Neg(%r)\n"
                         "    %c: float32[?,?] = Expand(%one, %s) %v: float32[?,?] = Add(%u, %c)\n"
                         "    %t: float32[?] = Slice(%x, %b, %e, %axis) %w: float32[?] = Neg(%t)\n"
                         "    yield %v, %w\n"
                         "  }\n"
                         "}\n",
                         1);
    static const int64_t shapes[][4] = {{2, 3, 0, 2}, {2, 3, 0, 2}, {3, 2, 1, 3}, {3, 2, 1, 3}, {3, 2, 1, 4},
                                        {2, 3, 4, 6}, {6, 1, 4, 6}, {1, 6, 5, 6}, {1, 6, 6, 6}, {6, 1, 0, 6}};
    const float x[6] = {1, 2, 3, 4, 5, 6};
    support_bind(&on, 0, x, sizeof x);
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        int64_t s[2] = {shapes[k][0], shapes[k][1]}, b = shapes[k][2], e = shapes[k][3];
        ouro_tensor_info info;
        const void *data;
        support_bind(&on, 1, s, sizeof s);
        support_bind(&on, 2, &b, sizeof b);
        support_bind(&on, 3, &e, sizeof e);
        support_run(&on);
        assert_int_equal(ouro_session_output(on.session, 0, &info, &data, NULL), OURO_OK);
        assert_true(info.dims[0] == s[0] && info.dims[1] == s[1]);
        for (int i = 0; i < 6; i++) assert_true(((const float *)data)[i] == 1 - x[i]);
        assert_int_equal(ouro_session_output(on.session, 1, &info, &data, NULL), OURO_OK);
        assert_int_equal(info.dims[0], e - b);
        for (int64_t i = b; i < e; i++) assert_true(((const float *)data)[i - b] == -x[i]);
        s[0] = s[1] = b = e = 0; /* the caller's, and gone */
    }
    support_session_close(&on);
}

static void test_data_errors(void **state) {
    (void)state;
    support_session on;
    ouro_error error;
    support_session_open(&on,
                         "module \"data\" {\n"
                         "  graph main(%x: float32[4], %i: int64[2], %s: int64[2]) {\n"
                         "    %g: float32[2] = Gather(%x, %i) {axis = 0} \"pick\" at \"main\"\n"
                         "    %r: float32[?,?] = Reshape(%x, %s) \"form\" at \"main\"\n"
                         "    yield %g, %r\n"
                         "  }\n"
                         "}\n",
                         1);
    const float x[4] = {1, 2, 3, 4};
    int64_t i[2] = {3, -4}, s[2] = {2, 2};
    support_bind(&on, 0, x, sizeof x);
    support_bind(&on, 1, i, sizeof i);
    support_bind(&on, 2, s, sizeof s);
    support_run(&on);
    EXPECT(&on, 0, 4, 1);
    EXPECT(&on, 1, 1, 2, 3, 4);
    i[0] = 4;
    expect_failure(ouro_session_run(on.session, &error), OURO_INVALID, &error,
                   "data: main: node \"pick\" (Gather): ");
    i[0] = 0;
    s[0] = 3;
    expect_failure(ouro_session_run(on.session, &error), OURO_INVALID, &error,
                   "data: main: node \"form\" (Reshape): ");
    s[0] = 1, s[1] = 4;
    support_run(&on);
    EXPECT(&on, 0, 1, 1);
    support_session_close(&on);
}

/* ---- many sessions, little memory ---------------------------------------------------------------------- */

typedef struct worker {
    ouro_plan *handle;
    float seed;
    bool failed;
} worker;

static void *work(void *argument) {
    worker *own = argument;
    ouro_session *session;
    float x[8], c[8];
    own->failed = true;
    if (ouro_session_new(own->handle, NULL, &session, NULL) != OURO_OK) return NULL;
    for (int i = 0; i < 8; i++) x[i] = own->seed + (float)i;
    bool good = ouro_session_bind_input(session, 0, x, sizeof x, NULL, NULL) == OURO_OK &&
                ouro_session_bind_output(session, 0, c, sizeof c, NULL) == OURO_OK;
    for (int run = 0; run < 200 && good; run++) {
        good = ouro_session_run(session, NULL) == OURO_OK;
        for (int i = 0; i < 4; i++) good = good && c[4 + i] == -x[4 + i] && c[i] == fabsf(1 - x[4 + i]);
    }
    ouro_session_free(session);
    own->failed = !good;
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    size_t size;
    ouro_plan *handle;
    unsigned char *bytes = support_plan(straight, true, &size);
    assert_int_equal(ouro_plan_open(bytes, size, &handle, NULL), OURO_OK);
    enum { WORKERS = 4 };
    pthread_t threads[WORKERS];
    worker workers[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (worker){.handle = handle, .seed = (float)(10 * i)};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(threads[i], NULL);
        assert_false(workers[i].failed);
    }
    ouro_plan_free(handle);
    free(bytes);
}

/* Opening, making a session, binding and running with the N-th allocation failing, for every N: no crash, no
 * leak (the sanitizers see), the right status, and everything works again afterwards. */
static void test_failing_allocations(void **state) {
    (void)state;
    if (!allocations_are_counted()) return;
    const char *const texts[] = {straight, open_text};
    for (size_t t = 0; t < 2; t++) {
        size_t size, n = 1;
        unsigned char *bytes = support_plan(texts[t], true, &size);
        const float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
        const int64_t dims[2] = {4, 2};
        for (bool done = false; !done; n++) {
            ouro_plan *handle = NULL;
            ouro_session *session = NULL;
            ouro_error error = {0};
            assert_true(n < 2000);
            allocations_fail_at(n);
            ouro_status status = ouro_plan_open(bytes, size, &handle, &error);
            if (status == OURO_OK) status = ouro_session_new(handle, NULL, &session, &error);
            for (size_t i = 0; status == OURO_OK && i < ouro_plan_input_count(handle); i++) {
                bool small = t == 1 && i == 2;
                status = ouro_session_bind_input(session, i, x, small ? 8 : 32,
                                                 t == 1 && !small ? dims : NULL, &error);
            }
            if (status == OURO_OK) status = ouro_session_run(session, &error);
            allocations_fail_at(0);
            if (status == OURO_OK) done = true;
            else if (status != OURO_MACHINE)
                fail_msg("allocation %zu: status %d: %s", n, (int)status, error.message);
            else if (session) assert_int_equal(ouro_session_run(session, &error), OURO_OK);
            ouro_session_free(session);
            ouro_plan_free(handle);
        }
        assert_true(n > 5);
        free(bytes);
    }
}

/* ---- the check, the trace ------------------------------------------------------------------------------ */

/* A plan that goes wrong after it was verified: the check against unshared memory names the step. */
static void test_check_finds_faults(void **state) {
    (void)state;
    size_t size, found = 0;
    unsigned char *bytes = support_plan(straight, true, &size);
    ouro_plan *handle;
    assert_int_equal(ouro_plan_open(bytes, size, &handle, NULL), OURO_OK);
    const plan *of = rt_plan_of(handle);
    plan_tensor *tensors = (plan_tensor *)(void *)(bytes + of->header->tensors.offset);
    const float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (size_t i = 0; i < of->header->tensors.count; i++) {
        for (size_t k = 0; k < of->header->tensors.count; k++) {
            ouro_session *session;
            base_report report = {0};
            plan_address kept = tensors[i].address;
            if (i == k || kept.space != MEMORY_ARENA || tensors[k].address.space != MEMORY_ARENA) continue;
            if (tensors[k].address.offset == kept.offset) continue;
            if (tensors[k].address.offset + tensors[i].bytes > of->header->arena_bytes) continue;
            tensors[i].address = tensors[k].address;
            bool refused = plan_check(of, NULL) != BASE_OK;
            assert_int_equal(ouro_session_new(handle, NULL, &session, NULL), OURO_OK);
            assert_int_equal(ouro_session_bind_input(session, 0, x, sizeof x, NULL, NULL), OURO_OK);
            bool differs = rt_session_check(session, &report) != BASE_OK;
            if (differs)
                assert_non_null(strstr(report.text, "differs from the same step in memory of its own"));
            assert_true(refused || !differs);
            found += differs;
            ouro_session_free(session);
            tensors[i].address = kept;
        }
    }
    assert_true(found > 0);
    ouro_plan_free(handle);
    free(bytes);
}

typedef struct trace_record {
    size_t loops, within, count;
    int64_t last;
    const plan *of;
} trace_record;

static void record(void *user, const rt_trace_event *event) {
    trace_record *into = user;
    assert_true(event->end >= event->start);
    into->count++;
    if (plan_node_code(into->of, &into->of->nodes[event->node]) == OP_LOOP) into->loops++;
    if (into->of->nodes[event->node].graph == 0) return;
    into->within++;
    into->last = event->iteration;
}

static void test_trace(void **state) {
    (void)state;
    support_session on;
    support_session_open(&on,
                         "module \"trace\" {\n"
                         "  constant %trips: int64[] = {6}\n"
                         "  graph main(%x: float32[4]) {\n"
                         "    %y: float32[4] = Loop(%trips, _, %x) {\n"
                         "      graph body(%i: int64[], %k: bool[], %a: float32[4]) {\n"
                         "        %s: float32[4] = Add(%a, %a)\n"
                         "        yield %k, %s\n"
                         "      }\n"
                         "    }\n"
                         "    yield %y\n"
                         "  }\n"
                         "}\n",
                         1);
    const float x[4] = {1, 2, 3, 4};
    trace_record into = {.of = rt_plan_of(on.plan)};
    support_bind(&on, 0, x, sizeof x);
    rt_session_trace(on.session, record, &into);
    assert_int_equal(ouro_session_run(on.session, NULL), OURO_OK);
    rt_session_trace(on.session, NULL, NULL);
    assert_int_equal(into.loops, 1);
    assert_true(into.within >= 6 && into.within % 6 == 0);
    assert_int_equal(into.last, 5);
    size_t count = into.count;
    assert_int_equal(ouro_session_run(on.session, NULL), OURO_OK);
    assert_int_equal(into.count, count);
    EXPECT(&on, 0, 64, 128, 192, 256);
    support_session_close(&on);
}

/* More threads than the plan was made for may need more scratch than it holds. */
static void test_more_threads(void **state) {
    (void)state;
    size_t size;
    unsigned char *bytes = support_plan("module \"threads\" {\n"
                                        "  constant %w: float32[16,16,3,3] = zeros\n"
                                        "  graph main(%x: float32[1,16,40,40]) {\n"
                                        "    %a: float32[1,16,40,40] = Conv(%x, %w) {pads = [1, 1, 1, 1]}\n"
                                        "    %b: float32[1,16,40,40] = Softmax(%a) {axis = 1}\n"
                                        "    yield %b\n"
                                        "  }\n"
                                        "}\n",
                                        false, &size);
    ouro_plan *handle;
    ouro_session *session;
    static float x[16 * 40 * 40];
    assert_int_equal(ouro_plan_open(bytes, size, &handle, NULL), OURO_OK);
    for (int threads = 1; threads <= 4; threads++) {
        base_report report = {0};
        ouro_session_options options = {.threads = threads};
        assert_int_equal(ouro_session_new(handle, &options, &session, NULL), OURO_OK);
        assert_int_equal(ouro_session_bind_input(session, 0, x, sizeof x, NULL, NULL), OURO_OK);
        if (rt_session_check(session, &report) != BASE_OK) fail_msg("%s", report.text);
        ouro_session_free(session);
    }
    ouro_plan_free(handle);
    free(bytes);
}

/* A branch that cannot run with these shapes is no error of the model, which guards it; only running it is one. The shapes in it are
 * known when the plan is made. */
static void impossible_branches_are_errors_when_they_run(void **unused) {
    (void)unused;
    static const char text[] = "module \"m\" {\n"
                               "  constant %last: int64[1] = {1}\n"
                               "  graph main(%x: float32[4,2], %go: bool[]) {\n"
                               "    %y: float32[...] = If(%go) {\n"
                               "      graph then_branch() { %a: float32[4,2] = Relu(%x) yield %a }\n"
                               "      graph else_branch() { %b: float32[...] = Squeeze(%x, %last) %c: float32[...] = Neg(%b) yield %c }\n"
                               "    }\n"
                               "    yield %y\n"
                               "  }\n"
                               "}\n";
    float x[8] = {-1, 2, -3, 4, -5, 6, -7, 8};
    unsigned char go = 1;
    ouro_error error;
    support_session on;
    support_session_open(&on, text, 1);
    support_bind(&on, 0, x, sizeof x);
    support_bind(&on, 1, &go, sizeof go);
    for (int i = 0; i < 2; i++) {
        go = 1;
        support_run(&on);
        const float *y = support_output(&on, 0, sizeof x);
        for (int k = 0; k < 8; k++) assert_true(y[k] == (x[k] > 0 ? x[k] : 0));
        go = 0;
        expect_failure(ouro_session_run(on.session, &error), OURO_INVALID, &error, "Squeeze");
    }
    support_session_close(&on);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(impossible_branches_are_errors_when_they_run),
        cmocka_unit_test(test_straight),
        cmocka_unit_test(test_run_allocates_nothing),
        cmocka_unit_test(test_binding),
        cmocka_unit_test(test_own_arena),
        cmocka_unit_test(test_if),
        cmocka_unit_test(test_loop_trips),
        cmocka_unit_test(test_loop_swap),
        cmocka_unit_test(test_loop_condition),
        cmocka_unit_test(test_loop_nested),
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_open_loop),
        cmocka_unit_test(test_deciding_data),
        cmocka_unit_test(test_data_errors),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_failing_allocations),
        cmocka_unit_test(test_check_finds_faults),
        cmocka_unit_test(test_trace),
        cmocka_unit_test(test_more_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
