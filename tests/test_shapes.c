/* test_shapes.c: extents that are open until a run: tensors get planned places for the shapes that are bound, anew where
 * these change; what comes out is the same as with memory of its own for every tensor. */
#include "runtime/executor.h"
#include "tests/support.h"
#include "tests/support_allocations.h"
#include "tests/support_plan.h"
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
                                   "    %b: float32[N,16] = Exp(%a)\n"
                                   "    %c: float32[N,16] = Add(%b, %x)\n"
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
            /* Neg, Exp and Add are live in pairs, as are Add and MatMul: two of [N,16]. */
            size_t large = ((size_t)n * 64 + 63) / 64 * 64;
            assert_int_equal(rt_shapes_bytes(on.session), 2 * large);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_share_what_the_shapes_allow),
        cmocka_unit_test(known_shapes_allocate_nothing),
        cmocka_unit_test(many_shapes_come_and_go),
        cmocka_unit_test(loops_and_branches_keep_what_they_need),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
