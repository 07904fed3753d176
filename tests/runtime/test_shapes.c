/* SPDX-License-Identifier: Apache-2.0 */
/* test_shapes.c: extents that are open until a run: tensors get planned places for the shapes that are bound, anew where
 * these change; what comes out is the same as with memory of its own for every tensor. */
#include "runtime/executor.h"
#include "tests/support/support.h"
#include "tests/support/allocations.h"
#include "tests/support/plan.h"
#include "tests/support/writer.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MOST = 4096 };

static void bind(const support_session *on, size_t index, const void *data, size_t bytes, int rank, ...) {
    int64_t dims[OURO_MAX_RANK];
    ouro_error error;
    va_list list;
    va_start(list, rank);
    for (int d = 0; d < rank; d++) dims[d] = va_arg(list, int);
    va_end(list);
    if (ouro_session_bind_input(on->session, index, data, bytes, dims, &error) != OURO_OK)
        fail_msg("%s", error.message);
}

static const float *output(const support_session *on, size_t index, size_t count) {
    ouro_tensor_info info;
    const void *data;
    ouro_error error;
    if (ouro_session_output(on->session, index, &info, &data, &error) != OURO_OK)
        fail_msg("%s", error.message);
    assert_int_equal(info.bytes, count * sizeof(float));
    return data;
}

static const char *const network = "module \"network\" {\n"
                                   "  symbol N\n"
                                   "  constant %w: float32[16,8] = {WEIGHTS}\n"
                                   "  constant %zero: int64[] = {0}\n"
                                   "  constant %axis: int64[1] = {0}\n"
                                   "  constant %pair: int64[1] = {4}\n"
                                   "  graph main(%x: float32[N,16]) {\n"
                                   "    %a: float32[N,16] = Neg(%x)\n"
                                   "    %b: float32[N,16] = Softmax(%a)\n"
                                   "    %p: float32[N,16] = Mul(%b, %x)\n"
                                   "    %c: float32[N,16] = Add(%p, %x)\n"
                                   "    %d: float32[N,8] = MatMul(%c, %w)\n"
                                   "    %s: int64[2] = Shape(%d)\n"
                                   "    %n: int64[] = Gather(%s, %zero)\n"
                                   "    %m: int64[1] = Unsqueeze(%n, %axis)\n"
                                   "    %h: int64[1] = Add(%m, %m)\n"
                                   "    %t: int64[2] = Concat(%h, %pair) {axis = 0}\n"
                                   "    %e: float32[?,4] = Reshape(%d, %t)\n"
                                   "    %f: float32[?,4] = Sigmoid(%e)\n"
                                   "    %g: float32[4,?] = Transpose(%f) {perm = [1, 0]}\n"
                                   "    yield %g\n"
                                   "  }\n"
                                   "}\n";

static char *network_text(void) {
    static char text[8192];
    const char *cut = strstr(network, "WEIGHTS");
    size_t used = (size_t)snprintf(text, sizeof text, "%.*s", (int)(cut - network), network);
    for (int i = 0; i < 128; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%.2f", i ? ", " : "", 0.01 * (i % 31));
    snprintf(text + used, sizeof text - used, "%s", cut + strlen("WEIGHTS"));
    return text;
}

static void tensors_share_what_the_shapes_allow(void **state) {
    (void)state;
    support_session on;
    static float x[MOST];
    for (int i = 0; i < MOST; i++) x[i] = 0.001f * (float)(i % 700);
    support_session_open(&on, network_text(), 1);
    for (int round = 0; round < 3; round++) {
        for (int n = 1; n <= 64; n *= 4) {
            bind(&on, 0, x, (size_t)n * 64, 2, n, 16);
            support_run(&on); /* also compares with memory of its own for all */
            output(&on, 0, (size_t)n * 8);
            /* Neg, Softmax and the tree each write over the one before; then comes the product: one of [N,16], one of [N,8]. */
            size_t large = ((size_t)n * 64 + 63) / 64 * 64, small = ((size_t)n * 32 + 63) / 64 * 64;
            assert_int_equal(rt_shapes_bytes(on.session), large + small);
        }
    }
    support_session_close(&on);
}

static void known_shapes_allocate_nothing(void **state) {
    (void)state;
    support_session on;
    static float x[MOST];
    if (!allocations_are_counted()) return;
    support_session_open(&on, network_text(), 1);
    for (int round = 0; round < 4; round++) {
        size_t before = allocations_count();
        for (int n = 3; n < 8; n++) {
            bind(&on, 0, x, (size_t)n * 64, 2, n, 16);
            before = allocations_count();
            assert_int_equal(ouro_session_run(on.session, NULL), OURO_OK);
            bind(&on, 0, x, (size_t)n * 64, 2, n, 16);
            before = allocations_count();
            assert_int_equal(ouro_session_run(on.session, NULL), OURO_OK);
            assert_int_equal(allocations_count() - before, 0);
        }
    }
    support_session_close(&on);
}

/* A node of so many outputs that what is inferred of them is larger than a block of memory for tables. */
static void many_outputs_allocate_nothing(void **state) {
    (void)state;
    enum { PARTS = 150 };
    support_session on;
    static char text[32768];
    static float x[MOST];
    size_t used = 0;
    if (!allocations_are_counted()) return;
#define PUT(...) used += (size_t)snprintf(text + used, sizeof text - used, __VA_ARGS__)
    PUT("module \"parts\" {\n  symbol N\n  graph main(%%x: float32[N,%d]) {\n    ", PARTS);
    for (int i = 0; i < PARTS; i++) PUT("%s%%p%d: float32[N,1]", i ? ", " : "", i);
    PUT(" = Split(%%x) {axis = 1, num_outputs = %d}\n    %%y: float32[N,%d] = Concat(", PARTS, PARTS);
    for (int i = 0; i < PARTS; i++) PUT("%s%%p%d", i ? ", " : "", PARTS - 1 - i);
    PUT(") {axis = 1}\n    yield %%y\n  }\n}\n");
#undef PUT
    for (int i = 0; i < MOST; i++) x[i] = (float)i;
    support_session_open(&on, text, 1);
    for (int n = 1; n < 5; n++) {
        bind(&on, 0, x, (size_t)n * PARTS * sizeof *x, 2, n, PARTS);
        assert_int_equal(ouro_session_run(on.session, NULL), OURO_OK);
        for (int round = 0; round < 3; round++) {
            const size_t before = allocations_count();
            assert_int_equal(ouro_session_run(on.session, NULL), OURO_OK);
            assert_int_equal(allocations_count() - before, 0);
        }
        const float *y = output(&on, 0, (size_t)n * PARTS);
        for (int i = 0; i < n * PARTS; i++) assert_true(y[i] == x[i / PARTS * PARTS + PARTS - 1 - i % PARTS]);
    }
    support_session_close(&on);
}

/* More shapes than plans are kept, and back again. */
static void many_shapes_come_and_go(void **state) {
    (void)state;
    support_session on;
    static float x[MOST];
    for (int i = 0; i < MOST; i++) x[i] = (float)(i % 13) - 6;
    support_session_open(&on, network_text(), 1);
    for (int i = 0; i < 60; i++) {
        int n = (i * 7) % 23; /* none, too */
        bind(&on, 0, x, (size_t)n * 64, 2, n, 16);
        support_run(&on);
        output(&on, 0, (size_t)n * 8);
    }
    support_session_close(&on);
}

/* A loop over as many steps as something has, which takes a slice of a product in each: it is scanned, and the slices are made in the
 * loop, for any number of steps. What is stacked has that many slices. */
static void loops_over_all_that_is_there(void **state) {
    enum { STATE = 16, STEPS = 20 };
    (void)state;
    support_session on;
    static float x[STEPS * STATE], a[STATE * STATE];
    for (int i = 0; i < STEPS * STATE; i++) x[i] = (float)(i % 11) - 5;
    for (int i = 0; i < STATE * STATE; i++) a[i] = (float)(i % 7) * 0.25f;
    support_session_open(
        &on,
        "module \"steps\" {\n"
        "  constant %first: int64[] = {0}\n"
        "  constant %last: int64[1] = {2}\n"
        "  constant %half: float32[] = {0.5}\n"
        "  graph main(%x: float32[n,16], %a: float32[16,16]) {\n"
        "    %d: float32[n,16,1] = Unsqueeze(%x, %last)\n"
        "    %e: float32[n,16,16] = Mul(%d, %a)\n"
        "    %s: int64[2] = Shape(%x)\n"
        "    %l: int64[] = Gather(%s, %first) {axis = 0}\n"
        "    %z: float32[16,16] = Sub(%a, %a)\n"
        "    %h: float32[16,16], %y: float32[n,16,16] = Loop(%l, _, %z) {ouro.scan_outputs = 1} {\n"
        "      graph body(%i: int64[], %k: bool[], %u: float32[16,16]) {\n"
        "        %g: float32[16,16] = Gather(%e, %i) {axis = 0}\n"
        "        %m: float32[16,16] = Mul(%u, %half)\n"
        "        %v: float32[16,16] = Add(%m, %g)\n"
        "        yield %k, %v, %v\n"
        "      }\n"
        "    }\n"
        "    yield %h, %y\n"
        "  }\n"
        "}\n",
        1);
    support_bind(&on, 1, a, sizeof a);
    for (int round = 0; round < STEPS; round++) {
        const int n = round * 7 % STEPS; /* none, too */
        float h[STATE * STATE] = {0};
        bind(&on, 0, x, (size_t)n * STATE * 4, 2, n, STATE);
        support_run(&on);
        const float *y = output(&on, 1, (size_t)n * STATE * STATE), *left = output(&on, 0, STATE * STATE);
        for (int t = 0; t < n; t++)
            for (int k = 0; k < STATE * STATE; k++) {
                h[k] = h[k] * 0.5f + x[t * STATE + k / STATE] * a[k];
                assert_true(y[t * STATE * STATE + k] == h[k]);
            }
        assert_memory_equal(left, h, sizeof h);
    }
    support_session_close(&on);
}

/* What goes into loops and branches, or comes out, is handed on by reference, and lives as long as it must. */
static void loops_and_branches_keep_what_they_need(void **state) {
    (void)state;
    support_session on;
    static float x[MOST];
    for (int i = 0; i < MOST; i++) x[i] = (float)(i % 11);
    support_session_open(&on,
                         "module \"control\" {\n"
                         "  symbol N\n"
                         "  graph main(%x: float32[N], %trips: int64[], %c: bool[]) {\n"
                         "    %a: float32[N] = Neg(%x)\n"
                         "    %b: float32[N] = Abs(%a)\n"
                         "    %p: float32[N], %q: float32[N] = Loop(%trips, _, %a, %b) {\n"
                         "      graph body(%i: int64[], %k: bool[], %u: float32[N], %v: float32[N]) {\n"
                         "        %w: float32[N] = Add(%u, %x)\n"
                         "        yield %k, %v, %w\n"
                         "      }\n"
                         "    }\n"
                         "    %r: float32[N] = If(%c) {\n"
                         "      graph then() {\n"
                         "        yield %p\n"
                         "      }\n"
                         "      graph else() {\n"
                         "        %t: float32[N] = Mul(%q, %b)\n"
                         "        yield %t\n"
                         "      }\n"
                         "    }\n"
                         "    %d: float32[N] = Sub(%r, %x)\n"
                         "    %e: float32[N] = Exp(%d)\n"
                         "    yield %d, %r, %q\n"
                         "  }\n"
                         "}\n",
                         1);
    int64_t trips;
    unsigned char condition;
    support_bind(&on, 1, &trips, sizeof trips);
    support_bind(&on, 2, &condition, sizeof condition);
    for (int i = 0; i < 24; i++) {
        int n = 1 + (i * 5) % 17;
        trips = i % 4;
        condition = i % 3 == 0;
        bind(&on, 0, x, (size_t)n * 4, 1, n);
        support_run(&on);
        const float *q = output(&on, 2, (size_t)n);
        for (int k = 0; k < n; k++) {
            float u = -x[k], v = x[k];
            for (int64_t t = 0; t < trips; t++) {
                float w = u + x[k];
                u = v;
                v = w;
            }
            assert_true(q[k] == v);
        }
    }
    support_session_close(&on);
}

static uint64_t allocations_of_run(support_session *on) {
    ouro_memory before, after;
    ouro_session_memory(on->session, &before);
    support_run(on);
    ouro_session_memory(on->session, &after);
    assert_int_equal(after.run_time_bytes, 0); /* the output is the caller's */
    return after.run_time_allocations - before.run_time_allocations;
}

/* Nodes of a body find types and memory as the iteration before left them; but not where a shape is made of data. */
static void iterations_take_what_was_left(void **state) {
    (void)state;
    support_session on;
    static float x[MOST], y[MOST];
    support_session_open(&on,
                         "module \"left\" {\n"
                         "  symbol N\n"
                         "  constant %one: float32[1] = {1.0}\n"
                         "  constant %next: int64[] = {1}\n"
                         "  constant %list: int64[1] = {1}\n"
                         "  graph main(%x: float32[N], %trips: int64[]) {\n"
                         "    %y: float32[N] = Loop(%trips, _, %x) {\n"
                         "      graph body(%i: int64[], %k: bool[], %u: float32[N]) {\n"
                         "        %a: float32[N] = Neg(%u)\n"
                         "        %b: float32[N] = Abs(%a)\n"
                         "        %t: int64[] = Add(%i, %next)\n"
                         "        %s: int64[1] = Reshape(%t, %list)\n"
                         "        %e: float32[?] = Expand(%one, %s)\n"
                         "        %m: float32[1] = ReduceSum(%e)\n"
                         "        %v: float32[N] = Add(%b, %m)\n"
                         "        yield %k, %v\n"
                         "      }\n"
                         "    }\n"
                         "    yield %y\n"
                         "  }\n"
                         "}\n",
                         1);
    int64_t trips;
    ouro_error error;
    support_bind(&on, 1, &trips, sizeof trips);
    if (ouro_session_bind_output(on.session, 0, y, sizeof y, &error) != OURO_OK)
        fail_msg("%s", error.message);
    for (int n = 1; n <= 1000; n *= 10) {
        for (int i = 0; i < n; i++) x[i] = (float)(i % 7);
        bind(&on, 0, x, (size_t)n * 4, 1, n);
        trips = 90;
        const uint64_t made = allocations_of_run(&on);
        for (int i = 0; i < n; i++) assert_true(y[i] == x[i] + 90 * 91 / 2);
        trips = 10;
        const uint64_t fewer = allocations_of_run(&on);
        if (made > fewer + 4) /* %e grows */
            fail_msg("%d: %d allocations in 90 iterations, %d in 10", n, (int)made, (int)fewer);
        for (int i = 0; i < n; i++) assert_true(y[i] == x[i] + 10 * 11 / 2);
    }
    support_session_close(&on);
}

/* ---- open images --------------------------------------------------------------------------------------- */

enum { CHANNELS = 32, EXTENT = 9, MOST_EXTENT = 21, IMAGE = CHANNELS * EXTENT * EXTENT };

static void write_constant(support_writer *to, const char *name, const char *dims, int count, int step) {
    support_write(to, "  constant %%%s: float32[%s] = {", name, dims);
    for (int i = 0; i < count; i++) support_write(to, "%s%.3f", i ? ", " : "", 0.01 * ((i * step) % 19 - 9));
    support_write(to, "}\n");
}

/* Convolutions, a residual, pools, a concatenation, a normalisation and something that wants row-major tensors, on `n` images
 * of these extents: numbers, or symbols that are declared. Height and width are odd, at least 3. */
static char *images_text(const char *symbols, const char *n, const char *height, const char *width) {
    static char text[300000];
    support_writer to = support_writer_on(text, sizeof text);
    support_write(&to, "module \"images\" {\n%s", symbols);
    write_constant(&to, "w", "32,32,3,3", CHANNELS * CHANNELS * 9, 7);
    write_constant(&to, "v", "32,32,1,1", CHANNELS * CHANNELS, 5);
    write_constant(&to, "k", "32,32,2,2", CHANNELS * CHANNELS * 4, 17);
    write_constant(&to, "b", "32", CHANNELS, 3);
    write_constant(&to, "s", "64", 64, 11);
    write_constant(&to, "one", "1,32,1,1", CHANNELS, 13);
    support_write(&to, "  constant %%var: float32[64] = {");
    for (int i = 0; i < 64; i++) support_write(&to, "%s%.1f", i ? ", " : "", 1 + 0.1 * (i % 5));
    support_write(&to,
                  "}\n  graph main(%%x: float32[%s,32,%s,%s]) {\n"
                  "    %%a: float32[?,32,?,?] = Conv(%%x, %%w, %%b) {pads = [1, 1, 1, 1]}\n"
                  "    %%c: float32[?,32,?,?] = Relu(%%a)\n"
                  "    %%d: float32[?,32,?,?] = Conv(%%c, %%w, %%b) {pads = [1, 1, 1, 1]}\n"
                  "    %%e: float32[?,32,?,?] = Add(%%d, %%c)\n"
                  "    %%f: float32[?,32,?,?] = Mul(%%e, %%one)\n"
                  "    %%g: float32[?,32,?,?] = Conv(%%f, %%v)\n"
                  "    %%h: float32[?,32,?,?] = Add(%%g, %%x)\n"
                  "    %%p: float32[?,32,?,?] = MaxPool(%%h) {kernel_shape = [3, 3], strides = [2, 2]}\n"
                  "    %%q: float32[?,32,?,?] = AveragePool(%%e) {kernel_shape = [3, 3], strides = [2, 2]}\n"
                  "    %%r: float32[?,64,?,?] = Concat(%%p, %%q) {axis = 1}\n"
                  "    %%t: float32[?,64,?,?] = BatchNormalization(%%r, %%s, %%s, %%s, %%var)\n"
                  "    %%u: float32[?,64,?,?] = Softmax(%%t) {axis = 3}\n"
                  "    %%y: float32[?,64,?,?] = GlobalAveragePool(%%t)\n"
                  "    %%z: float32[?,32,?,?] = ConvTranspose(%%h, %%k, %%b)\n"
                  "    yield %%u, %%y, %%h, %%z\n  }\n}\n",
                  n, height, width);
    return text;
}

/* What the plan with dynamic dimensions gives is what one gives that knows them. */
static void expect_as_known(support_session *open, const float *x, int n, int height, int width) {
    char texts[3][12];
    const int extents[] = {n, height, width}, rows = (height - 1) / 2, columns = (width - 1) / 2;
    const size_t sizes[] = {64 * (size_t)(rows * columns), 64, CHANNELS * (size_t)(height * width),
                            CHANNELS * (size_t)((height + 1) * (width + 1))}; /* of each output */
    const size_t bytes = (size_t)n * sizes[2] * sizeof *x;
    support_session known;
    for (int i = 0; i < 3; i++) snprintf(texts[i], sizeof texts[i], "%d", extents[i]);
    support_session_open(&known, images_text("", texts[0], texts[1], texts[2]), 1);
    bind(open, 0, x, bytes, 4, n, CHANNELS, height, width);
    support_bind(&known, 0, x, bytes);
    support_run(open);
    support_run(&known);
    for (size_t o = 0; o < 4; o++) {
        const float *got = output(open, o, (size_t)n * sizes[o]),
                    *want = output(&known, o, (size_t)n * sizes[o]);
        for (size_t i = 0; i < (size_t)n * sizes[o]; i++) {
            if (!(fabsf(got[i] - want[i]) <= 1e-4f * (1 + fabsf(want[i]))))
                fail_msg("%d images, %d x %d: element %zu of output %zu is %g, expected %g", n, height, width,
                         i, o, (double)got[i], (double)want[i]);
        }
    }
    support_session_close(&known);
}

static const char *const number_open = "  symbol N\n", *const extents_open = "  symbol H\n  symbol W\n",
                         *const all_open = "  symbol N\n  symbol H\n  symbol W\n";

/* Convolutions in blocks, as with extents that are known: the plan has one module for all of them. */
static void images_may_be_any_number(void **state) {
    (void)state;
    static float x[5 * IMAGE];
    for (int i = 0; i < 5 * IMAGE; i++) x[i] = 0.1f * (float)((i * 31) % 41 - 20);
    for (int form = 0; form < 4; form++) {
        support_session open;
        support_session_open_on(&open, images_text(number_open, "N", "9", "9"), form % 2, 1 + form / 2);
        for (int round = 0; round < 8; round++) /* none, too */
            expect_as_known(&open, x, (round * 3 + 1) % 6, EXTENT, EXTENT);
        support_expect_no_allocations(&open);
        support_session_close(&open);
    }
}

static void images_may_have_any_extents(void **state) {
    (void)state;
    static float x[3 * CHANNELS * MOST_EXTENT * MOST_EXTENT];
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = 0.1f * (float)((int)(i * 31 % 41) - 20);
    for (int form = 0; form < 4; form++) {
        support_session open;
        const bool number = form % 2;
        support_session_open_on(&open,
                                images_text(number ? all_open : extents_open, number ? "N" : "2", "H", "W"),
                                form == 3, 1 + form / 2);
        for (int round = 0; round < 12; round++) {
            const int height = 3 + 2 * (round * 7 % 10), width = 3 + 2 * (round * 3 % 10);
            expect_as_known(&open, x, number ? round % 4 : 2, height, width);
        }
        support_expect_no_allocations(&open);
        support_session_close(&open);
    }
}

/* Two maps of which nobody knows whether they are alike, or one has a single point: they lie in blocks all the same. */
static char *pair_text(const char *symbols, const char *left, const char *right) {
    static char text[100000];
    support_writer to = support_writer_on(text, sizeof text);
    support_write(&to, "module \"pair\" {\n%s", symbols);
    write_constant(&to, "v", "32,32,3,3", CHANNELS * CHANNELS * 9, 5);
    support_write(&to,
                  "  graph main(%%x: float32[1,32,%s], %%z: float32[1,32,%s]) {\n"
                  "    %%a: float32[1,32,?,?] = Conv(%%x, %%v) {pads = [1, 1, 1, 1]}\n"
                  "    %%b: float32[1,32,?,?] = Conv(%%z, %%v) {pads = [1, 1, 1, 1]}\n"
                  "    %%c: float32[1,32,?,?] = Add(%%a, %%b)\n"
                  "    %%d: float32[1,32,?,?] = Conv(%%c, %%v) {pads = [1, 1, 1, 1]}\n"
                  "    %%e: float32[1,32,?,?] = Mul(%%d, %%c)\n"
                  "    %%f: float32[1,32,?,?] = Conv(%%e, %%v) {pads = [1, 1, 1, 1]}\n"
                  "    yield %%f\n  }\n}\n",
                  left, right);
    return text;
}

static void maps_may_be_alike(void **state) {
    (void)state;
    static float x[2][CHANNELS * MOST_EXTENT * MOST_EXTENT];
    static const int extents[][4] = {{9, 8, 9, 8}, {9, 8, 1, 1}, {1, 1, 7, 9},
                                     {9, 8, 9, 1}, {1, 8, 9, 8}, {9, 8, 9, 8}};
    for (int i = 0; i < 2; i++)
        for (size_t k = 0; k < sizeof x[i] / sizeof(float); k++)
            x[i][k] = 0.1f * (float)((int)(k * 31 % (size_t)(41 - i)) - 20);
    for (int form = 0; form < 4; form++) {
        support_session open;
        support_session_open_on(&open,
                                pair_text("  symbol H\n  symbol W\n  symbol P\n  symbol Q\n", "H,W", "P,Q"),
                                form % 2, 1 + form / 2);
        const plan *of = open.session->of;
        assert_int_equal(support_find_tensor(of, "c")->layout, support_find_tensor(of, "a")->layout);
        for (size_t i = 0; i < sizeof extents / sizeof *extents; i++) {
            const int *e = extents[i], height = e[0] > e[2] ? e[0] : e[2], width = e[1] > e[3] ? e[1] : e[3];
            const size_t count = CHANNELS * (size_t)(height * width);
            char left[32], right[32];
            support_session known;
            snprintf(left, sizeof left, "%d,%d", e[0], e[1]);
            snprintf(right, sizeof right, "%d,%d", e[2], e[3]);
            support_session_open(&known, pair_text("", left, right), 1);
            for (size_t k = 0; k < 2; k++) {
                const size_t bytes = CHANNELS * (size_t)(e[2 * k] * e[2 * k + 1]) * sizeof(float);
                bind(&open, k, x[k], bytes, 4, 1, CHANNELS, e[2 * k], e[2 * k + 1]);
                support_bind(&known, k, x[k], bytes);
            }
            support_run(&open);
            support_run(&known);
            const float *got = output(&open, 0, count), *want = output(&known, 0, count);
            for (size_t k = 0; k < count; k++)
                if (!(fabsf(got[k] - want[k]) <= 1e-4f * (1 + fabsf(want[k]))))
                    fail_msg("%s with %s: element %zu is %g, expected %g", left, right, k, (double)got[k],
                             (double)want[k]);
            support_session_close(&known);
        }
        support_session_close(&open);
    }
}

/* Convolutions of 3x3 on kernels that are chosen by what they cost. */
static int count_chosen(const char *text, const pass_options *options) {
    size_t size;
    plan of;
    base_report report = {0};
    unsigned char *bytes = support_plan_with(text, options, &size);
    if (plan_open(bytes, size, "images", NULL, NULL, NULL, &of, &report) != BASE_OK)
        fail_msg("%s", report.text);
    int count = 0;
    for (uint64_t n = 0; n < of.header->nodes.count; n++)
        count += strncmp(of.texts + of.nodes[n].kernel, "portable.winograd", 17) == 0 ||
                 strcmp(of.texts + of.nodes[n].kernel, "portable.window_convolution") == 0;
    plan_close(&of);
    free(bytes);
    return count;
}

/* Kernels that are chosen by cost are chosen by examples of dynamic dimensions, and take any: one image, many, none. */
static void kernels_are_chosen_for_open_images(void **state) {
    (void)state;
    enum { WIDE = 33, LARGE = 5 };
    static float x[LARGE * CHANNELS * WIDE * WIDE];
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = 0.1f * (float)((int)(i * 31 % 41) - 20);
    for (int form = 0; form < 8; form++) {
        const bool number = form / 4;
        const pass_options options = {
            .max_unroll = 16,
            .constant_limit = 16u << 20,
            .environment = {.threads = 1 + form / 2 % 2, .portable_only = form % 2}};
        pass_options exact = options;
        exact.exact_arithmetic = true;
        support_session open;
        char *text =
            images_text(number ? number_open : all_open, "N", number ? "33" : "H", number ? "33" : "W");
        assert_int_equal(count_chosen(text, &options), 2);
        assert_int_equal(count_chosen(text, &exact), 0);
        support_session_open_with(&open, text, &options);
        for (int round = 0; round < 8; round++) {
            const int extent = number ? WIDE : 3 + 2 * (round * 5 % 16);
            expect_as_known(&open, x, (round * 3 + 1) % (LARGE + 1), extent,
                            number ? WIDE : WIDE - extent / 4 * 2);
        }
        support_expect_no_allocations(&open);
        support_session_close(&open);
    }
}

/* A recurrence: three turns of a convolution, a sum and an activation. */
static const char *recurrence_text(const char *symbols, const char *n, const char *extent) {
    static char text[120000];
    support_writer to = support_writer_on(text, sizeof text);
    support_write(&to, "module \"turns\" {\n%s  constant %%three: int64[] = {3}\n", symbols);
    write_constant(&to, "w", "32,32,3,3", CHANNELS * CHANNELS * 9, 7);
    support_write(&to,
                  "  graph main(%%x: float32[%s,32,%s,%s]) {\n"
                  "    %%y: float32[%s,32,%s,%s] = Loop(%%three, _, %%x) {\n"
                  "      graph body(%%i: int64[], %%k: bool[], %%h: float32[%s,32,%s,%s]) {\n"
                  "        %%c: float32[%s,32,%s,%s] = Conv(%%h, %%w) {pads = [1, 1, 1, 1]}\n"
                  "        %%s: float32[%s,32,%s,%s] = Add(%%c, %%x)\n"
                  "        %%t: float32[%s,32,%s,%s] = Tanh(%%s)\n"
                  "        yield %%k, %%t\n      }\n    }\n    yield %%y\n  }\n}\n",
                  n, extent, extent, n, extent, extent, n, extent, extent, n, extent, extent, n, extent,
                  extent, n, extent, extent);
    return text;
}

/* In a loop, too, where extents have names: they do not change from one iteration to the next. */
static void kernels_are_chosen_for_open_images_in_loops(void **state) {
    (void)state;
    enum { WIDE = 33, MOST_IMAGES = 4 };
    static float x[MOST_IMAGES * CHANNELS * WIDE * WIDE];
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = 0.1f * (float)((int)(i * 31 % 41) - 20);
    for (int form = 0; form < 4; form++) {
        const bool number = form / 2;
        const pass_options options = {.max_unroll = 16,
                                      .constant_limit = 16u << 20,
                                      .environment = {.threads = 1, .portable_only = form % 2}};
        support_session open;
        assert_int_equal(count_chosen(recurrence_text("", "2", "33"), &options), 1);
        const char *text = recurrence_text(number ? number_open : all_open, "N", number ? "33" : "H");
        assert_int_equal(count_chosen(text, &options), 1);
        support_session_open_with(&open, text, &options);
        for (int round = 0; round < 6; round++) {
            const int n = (round * 3 + 1) % (MOST_IMAGES + 1), extent = number ? WIDE : 9 + 4 * round;
            const size_t count = (size_t)n * CHANNELS * (size_t)(extent * extent);
            char images[12], points[12];
            support_session known;
            snprintf(images, sizeof images, "%d", n);
            snprintf(points, sizeof points, "%d", extent);
            support_session_open_with(&known, recurrence_text("", images, points), &options);
            bind(&open, 0, x, count * sizeof *x, 4, n, CHANNELS, extent, extent);
            support_bind(&known, 0, x, count * sizeof *x);
            support_run(&open);
            support_run(&known);
            const float *got = output(&open, 0, count), *want = output(&known, 0, count);
            for (size_t i = 0; i < count; i++) assert_true(fabsf(got[i] - want[i]) <= 1e-4f);
            support_session_close(&known);
        }
        support_expect_no_allocations(&open);
        support_session_close(&open);
    }
}

/* How many convolutions give blocks, and how many inputs are packed for them. (Kernels that are chosen by cost need all extents.) */
static int count_blocked(const char *text) {
    size_t size;
    plan of;
    base_report report = {0};
    unsigned char *bytes = support_plan(text, false, &size);
    if (plan_open(bytes, size, "images", NULL, NULL, NULL, &of, &report) != BASE_OK)
        fail_msg("%s", report.text);
    int blocked = 0;
    for (uint64_t n = 0; n < of.header->nodes.count; n++) {
        const plan_node *node = &of.nodes[n];
        const op_code code = plan_node_code(&of, node);
        if (code == OP_CONV || code == OP_CONV_TRANSPOSE)
            blocked += of.tensors[of.tensor_ids[node->outputs]].layout != OP_LAYOUT_ROW_MAJOR;
        if (strcmp(of.texts + node->kernel, "portable.pointwise") == 0) continue;
        for (uint32_t i = 0; i < node->input_count; i++) {
            const uint32_t id = of.tensor_ids[node->inputs + i];
            blocked += id != PLAN_ABSENT && of.tensors[id].layout == OP_LAYOUT_PACKED;
        }
    }
    plan_close(&of);
    free(bytes);
    return blocked;
}

/* As many as for images of which everything is known. */
static void images_lie_in_blocks(void **state) {
    (void)state;
    const int known = count_blocked(images_text("", "3", "9", "9"));
    assert_int_equal(count_blocked(images_text(number_open, "N", "9", "9")), known);
    assert_int_equal(count_blocked(images_text(extents_open, "3", "H", "W")), known);
    assert_int_equal(count_blocked(images_text(all_open, "N", "H", "W")), known);
}

/* ---- open numbers of rows ------------------------------------------------------------------------------- */

enum { DEPTH = 48, COLUMNS = 40, MOST_ROWS = 150 };

/* [n, s, 48] by [48, 40], and [m, 48] by the transposed [40, 48], with a bias each. */
static char *rows_text(const char *n, const char *s, const char *m) {
    static char text[60000];
    support_writer to = support_writer_on(text, sizeof text);
    support_write(&to, "module \"rows\" {\n%s", *n == 'N' ? "  symbol N\n  symbol S\n  symbol M\n" : "");
    write_constant(&to, "w", "48,40", DEPTH * COLUMNS, 7);
    write_constant(&to, "v", "40,48", DEPTH * COLUMNS, 5);
    write_constant(&to, "b", "40", COLUMNS, 3);
    support_write(
        &to,
        "  graph main(%%x: float32[%s,%s,48], %%z: float32[%s,48]) {\n"
        "    %%p: float32[%s,%s,40] = MatMul(%%x, %%w)\n    %%y: float32[%s,%s,40] = Add(%%p, %%b)\n"
        "    %%g: float32[%s,40] = Gemm(%%z, %%v, %%b) {alpha = 0.5, transB = 1}\n    yield %%y, %%g\n  "
        "}\n}\n",
        n, s, m, n, s, n, s, m);
    return text;
}

static void expect_rows(const float *got, const float *x, int rows, bool turned, float alpha) {
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < COLUMNS; c++) {
            double sum = 0;
            for (int k = 0; k < DEPTH; k++) {
                const int at = turned ? c * DEPTH + k : k * COLUMNS + c;
                sum += (double)x[r * DEPTH + k] * 0.01 * ((at * (turned ? 5 : 7)) % 19 - 9);
            }
            sum = (double)alpha * sum + 0.01 * ((c * 3) % 19 - 9);
            if (!(fabs((double)got[r * COLUMNS + c] - sum) <= 1e-4 * (1 + fabs(sum))))
                fail_msg("row %d of %d, column %d: %g, expected %g", r, rows, c, (double)got[r * COLUMNS + c],
                         sum);
        }
    }
}

static void expect_products(const support_session *on, const float *x, int m) {
    const int n = m % 4, s = m / 4;
    bind(on, 0, x, (size_t)(n * s * DEPTH) * 4, 3, n, s, DEPTH);
    bind(on, 1, x, (size_t)(m * DEPTH) * 4, 2, m, DEPTH);
    support_run(on);
    if (allocations_are_counted()) {
        const size_t before = allocations_count();
        assert_int_equal(ouro_session_run(on->session, NULL), OURO_OK);
        assert_int_equal(allocations_count() - before, 0);
    }
    expect_rows(output(on, 0, (size_t)(n * s * COLUMNS)), x, n * s, false, 1);
    expect_rows(output(on, 1, (size_t)(m * COLUMNS)), x, m, true, 0.5f);
}

static void rows_may_be_any_number(void **state) {
    (void)state;
    static float x[MOST_ROWS * DEPTH];
    for (int i = 0; i < MOST_ROWS * DEPTH; i++) x[i] = 0.1f * (float)((i * 31) % 41 - 20);
    for (int form = 0; form < 4; form++) {
        support_session on;
        support_session_open_on(&on, rows_text("N", "S", "M"), form % 2, 1 + form / 2);
        for (int m = 0; m <= MOST_ROWS; m += 1 + m / 20) expect_products(&on, x, m);
        for (int m = MOST_ROWS; m > 0; m -= 1 + m / 8) expect_products(&on, x, m);
        support_session_close(&on);
    }
}

static void weights_of_rows_are_packed(void **state) {
    (void)state;
    const int known = count_blocked(rows_text("2", "50", "64"));
    assert_int_equal(count_blocked(rows_text("N", "S", "M")), known);
}

/* An input whose rank the plan does not know has that of the value that is bound, which may change from run to run. */
static void ranks_of_values(void **state) {
    (void)state;
    static const char *const text = "module \"ranks\" {\n"
                                    "  graph main(%x: float32[...], %y: float32[]) {\n"
                                    "    %z: float32[...] = Add(%x, %y)\n"
                                    "    yield %z\n"
                                    "  }\n"
                                    "}\n";
    static const float x[6] = {1, 2, 3, 4, 5, 6}, y = 10;
    support_session on;
    support_session_open(&on, text, 1);
    for (int round = 0; round < 3; round++) {
        ouro_value value = {.kind = OURO_TENSOR,
                            .dtype = OURO_FLOAT,
                            .data = x,
                            .bytes = sizeof x,
                            .rank = 2,
                            .dims = {2, 3}};
        ouro_error error;
        if (round == 1)
            value = (ouro_value){.kind = OURO_TENSOR, .dtype = OURO_FLOAT, .data = x, .bytes = sizeof *x};
        assert_int_equal(ouro_session_bind_value(on.session, 0, &value, &error), OURO_OK);
        bind(&on, 1, &y, sizeof y, 0);
        support_run(&on);
        const size_t count = round == 1 ? 1 : 6;
        const float *z = output(&on, 0, count);
        for (size_t i = 0; i < count; i++) assert_true(z[i] > x[i] + 9.5f && z[i] < x[i] + 10.5f);
    }
    ouro_error error;
    assert_int_equal(ouro_session_bind_input(on.session, 0, x, sizeof x, NULL, &error), OURO_INVALID);
    assert_non_null(strstr(error.message, "it is bound as a value"));
    support_session_close(&on);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_of_values),
        cmocka_unit_test(tensors_share_what_the_shapes_allow),
        cmocka_unit_test(known_shapes_allocate_nothing),
        cmocka_unit_test(many_outputs_allocate_nothing),
        cmocka_unit_test(many_shapes_come_and_go),
        cmocka_unit_test(loops_over_all_that_is_there),
        cmocka_unit_test(loops_and_branches_keep_what_they_need),
        cmocka_unit_test(iterations_take_what_was_left),
        cmocka_unit_test(images_may_be_any_number),
        cmocka_unit_test(images_may_have_any_extents),
        cmocka_unit_test(maps_may_be_alike),
        cmocka_unit_test(kernels_are_chosen_for_open_images),
        cmocka_unit_test(kernels_are_chosen_for_open_images_in_loops),
        cmocka_unit_test(images_lie_in_blocks),
        cmocka_unit_test(rows_may_be_any_number),
        cmocka_unit_test(weights_of_rows_are_packed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
