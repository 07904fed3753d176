/* SPDX-License-Identifier: Apache-2.0 */
/* test_loop_growth.c: carried values that grow: where they are appended to, and what they are, for every number of
 * iterations, certain or not, along the outermost and an inner axis, and within another loop.
 */
#include "compiler/compiler.h"
#include "runtime/executor.h"
#include "tests/support/support.h"
#include "tests/support/plan.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <math.h>

typedef struct append_watch {
    ouro_session *session;
    int in_place;
} append_watch;

/* A step that made %d: in the place of %p? */
static void watch_append(void *user, const rt_trace_event *event) {
    append_watch *watch = user;
    const plan *of = watch->session->of;
    const plan_node *node = &of->nodes[event->node];
    if (plan_node_code(of, node) != OP_CONCAT) return;
    uint32_t made = of->tensor_ids[node->outputs],
             wanted = (uint32_t)(support_find_tensor(of, "p") - of->tensors);
    plan_address reserved;
    const void *place = plan_tensor_reservation(of, wanted, &reserved)
                            ? (const char *)watch->session->memory.arena + reserved.offset
                            : watch->session->run.tensors[wanted].data;
    watch->in_place += watch->session->run.tensors[made].data == place;
}

/* Runs once more; how many steps appended in place. */
static int count_appended(const support_session *on) {
    append_watch watch = {.session = on->session};
    ouro_error error;
    rt_session_trace(on->session, watch_append, &watch);
    assert_int_equal(ouro_session_run(on->session, &error), OURO_OK);
    rt_session_trace(on->session, NULL, NULL);
    return watch.in_place;
}

/* 22: what is appended to lies where it is wanted at the end; where that has no size before the run, in
 * run-time memory with a reservation for more. The values are those of unshared memory, which appends by copying. */
static void test_growing(void **state) {
    (void)state;
    static const char *const text =
        "module \"growing\" { constant %%n: int64[] = {%d} constant %%one: float32[1,1,2] = {1, 1}\n"
        " graph main(%%x: float32[1,2,2], %%y: float32[1,1,2], %%go: bool[]) {\n"
        "  %%p: float32[1,%s,2], %%q: float32[1,1,2] = Loop(%%n, %s, %%x, %%y) {\n"
        "   graph body(%%i: int64[], %%k: bool[], %%c: float32[1,?,2], %%s: float32[1,1,2]) {\n"
        "    %%t: float32[1,1,2] = Add(%%s, %%one) %%d: float32[1,?,2] = Concat(%%c, %%t) {axis = 1}\n"
        "    %%m: float32[1,1,2] = ReduceMax(%%c, %%axes) {keepdims = 1} %%u: float32[1,1,2] = Sub(%%t, "
        "%%m)\n"
        "    yield %%k, %%d, %%u } }\n  yield %%p, %%q } }\n";
    for (int trips = 0; trips <= 9; trips++) {
        for (int certain = 0; certain < 2; certain++) {
            char with_axes[2048], written[2048], extent[16] = "?";
            if (certain) snprintf(extent, sizeof extent, "%d", 2 + trips);
            int length = snprintf(written, sizeof written, text, trips, extent, certain ? "_" : "%go");
            assert_true(length > 0 && (size_t)length < sizeof written);
            snprintf(with_axes, sizeof with_axes, "module \"growing\" { constant %%axes: int64[1] = {1} %s",
                     strchr(written, '{') + 1);
            support_session on;
            unsigned char go = 1;
            float x[4] = {1, 2, 3, 4}, y[2] = {5, 6}, state_now[2] = {5, 6};
            support_session_open(&on, with_axes, 1);
            support_bind(&on, 0, x, sizeof x);
            support_bind(&on, 1, y, sizeof y);
            support_bind(&on, 2, &go, 1);
            support_run(&on);
            const int in_place = count_appended(&on);
            if (certain) assert_int_equal(in_place, trips);
            const float *p = support_output(&on, 0, (4 + 2 * (size_t)trips) * sizeof *p);
            assert_memory_equal(p, x, sizeof x);
            for (int t = 0; t < trips; t++) {
                for (int e = 0; e < 2; e++) {
                    float largest = p[e];
                    for (int row = 1; row < 2 + t; row++)
                        largest = p[2 * row + e] > largest ? p[2 * row + e] : largest;
                    assert_true(p[4 + 2 * t + e] == state_now[e] + 1);
                    state_now[e] = state_now[e] + 1 - largest;
                }
            }
            assert_memory_equal(support_output(&on, 1, sizeof state_now), state_now, sizeof state_now);
            support_session_close(&on);
        }
    }
}

/* 22, along an inner axis: keys of two heads lie one step after the other, and are read as they lie. */
static void test_growing_heads(void **state) {
    (void)state;
    static const char *const text =
        "module \"heads\" { constant %%n: int64[] = {%d}\n constant %%one: float32[1,2,1,3] = {1, 1, 1, 1, "
        "1, 1}\n"
        " graph main(%%x: float32[1,2,2,3], %%y: float32[1,2,1,3], %%go: bool[]) {\n"
        "  %%x0: float32[1,2,2,3] = Neg(%%x)\n"
        "  %%p: float32[1,2,%s,3], %%q: float32[1,2,1,3] = Loop(%%n, %s, %%x0, %%y) {\n"
        "   graph body(%%i: int64[], %%k: bool[], %%c: float32[1,2,?,3], %%s: float32[1,2,1,3]) {\n"
        "    %%d: float32[1,2,?,3] = Concat(%%c, %%s) {axis = 2}\n"
        "    %%t: float32[1,2,3,?] = Transpose(%%d) {perm = [0, 1, 3, 2]}\n"
        "    %%a: float32[1,2,1,?] = MatMul(%%one, %%t) %%u: float32[1,2,1,3] = MatMul(%%a, %%d)\n"
        "    %%v: float32[1,2,1,3] = Tanh(%%u) yield %%k, %%d, %%v } }\n  %%r: float32[1,2,1,3] = Neg(%%q) "
        "yield %%p, %%r } }\n";
    for (int trips = 0; trips <= 6; trips++) {
        for (int certain = 0; certain < 2; certain++) {
            char written[2048], extent[16] = "?";
            if (certain) snprintf(extent, sizeof extent, "%d", 2 + trips);
            int length = snprintf(written, sizeof written, text, trips, extent, certain ? "_" : "%go");
            assert_true(length > 0 && (size_t)length < sizeof written);
            support_session on;
            const unsigned char go = 1;
            const float x[12] = {1, -2, 3, 0.5f, 2, -1, -3, 1, 2, 4, 1, 0}, y[6] = {1, 2, -1, 0, 3, 1};
            float cache[2][8][3], now[2][3];
            support_session_open(&on, written, 1);
            support_check_no_copies(rt_plan_of(on.plan), "22, heads");
            support_bind(&on, 0, x, sizeof x);
            support_bind(&on, 1, y, sizeof y);
            support_bind(&on, 2, &go, 1);
            support_run(&on);
            const int in_place = count_appended(&on);
            assert_int_equal(in_place, trips);
            for (int h = 0; h < 2; h++) {
                for (int e = 0; e < 6; e++) cache[h][e / 3][e % 3] = -x[6 * h + e];
                memcpy(now[h], y + (size_t)3 * h, sizeof now[h]);
                for (int t = 0; t < trips; t++) {
                    float sums[3] = {0};
                    memcpy(cache[h][2 + t], now[h], sizeof now[h]);
                    for (int row = 0; row < 3 + t; row++) {
                        const float *key = cache[h][row];
                        for (int e = 0; e < 3; e++) sums[e] += (key[0] + key[1] + key[2]) * key[e];
                    }
                    for (int e = 0; e < 3; e++) now[h][e] = tanhf(sums[e]);
                }
            }
            const float *p = support_output(&on, 0, (size_t)(2 + trips) * sizeof x / 2),
                        *q = support_output(&on, 1, sizeof y);
            for (int h = 0; h < 2; h++) {
                for (int e = 0; e < 3 * (2 + trips); e++)
                    assert_true(fabsf(p[3 * (2 + trips) * h + e] - cache[h][e / 3][e % 3]) < 1e-4f);
                for (int e = 0; e < 3; e++) assert_true(fabsf(q[3 * h + e] + now[h][e]) < 1e-4f);
            }
            support_session_close(&on);
        }
    }
}

/* The same where a condition ends the loop early: at most 8 iterations are certain, so that what is appended and what
 * is stacked have bytes reserved in the arena; readers after the loop, another loop and the caller see as much as there is. */
static void test_growing_until(void **state) {
    (void)state;
    static const char text[] =
        "module \"until\" { constant %n: int64[] = {8} constant %one: int64[] = {1}\n"
        " constant %unit: float32[1,2] = {1, 2} constant %flat: int64[1] = {-1} constant %t3: int64[] = {3}\n"
        " graph main(%x: float32[2,2], %y: float32[1,2], %limit: int64[], %go: bool[]) {\n"
        "  %x0: float32[2,2] = Abs(%x)\n"
        "  %p: float32[?,2], %q: float32[1,2], %w: float32[?,1,2] = Loop(%n, %go, %x0, %y) "
        "{ouro.scan_outputs "
        "= 1} {\n"
        "   graph body(%i: int64[], %k: bool[], %c: float32[?,2], %s: float32[1,2]) {\n"
        "    %j: int64[] = Add(%i, %one) %again: bool[] = Less(%j, %limit)\n"
        "    %t: float32[1,2] = Add(%s, %unit) %d: float32[?,2] = Concat(%c, %t) {axis = 0}\n"
        "    %z: float32[1,2] = Neg(%t) yield %again, %d, %t, %z } }\n"
        "  %f: float32[?] = Reshape(%p, %flat) %g: float32[?] = Reshape(%w, %flat)\n"
        "  %h: float32[?,2] = Loop(%t3, _, %p) { graph more(%i2: int64[], %k2: bool[], %c2: float32[?,2]) {\n"
        "    %d2: float32[?,2] = Concat(%c2, %unit) {axis = 0} yield %k2, %d2 } }\n"
        "  yield %p, %w, %f, %g, %h, %q } }\n";
    support_session on;
    const float x[4] = {1, 2, 3, 4}, y[2] = {5, 6};
    support_session_open(&on, text, 1);
    const plan *of = rt_plan_of(on.plan);
    plan_address reserved;
    assert_true(
        plan_tensor_reservation(of, (uint32_t)(support_find_tensor(of, "p") - of->tensors), &reserved));
    assert_true(
        plan_tensor_reservation(of, (uint32_t)(support_find_tensor(of, "w") - of->tensors), &reserved));
    assert_int_equal(support_find_tensor(of, "p")->bytes, 128); /* 16 + 8 * 8, rounded up */
    assert_int_equal(support_find_tensor(of, "p")->address.offset,
                     support_find_tensor(of, "x0")->address.offset);
    assert_int_equal(support_find_tensor(of, "z")->address.space, MEMORY_MULTIVIEW);
    for (int64_t limit = 0; limit <= 12; limit++) {
        for (unsigned char go = 0; go < 2; go++) {
            size_t trips = !go ? 0 : limit < 1 ? 1 : limit > 8 ? 8 : (size_t)limit;
            support_bind(&on, 0, x, sizeof x);
            support_bind(&on, 1, y, sizeof y);
            support_bind(&on, 2, &limit, sizeof limit);
            support_bind(&on, 3, &go, 1);
            support_run(&on);
            const int in_place = count_appended(&on);
            rt_session_trace(on.session, NULL, NULL);
            assert_int_equal(in_place, trips);
            const float *p = support_output(&on, 0, 16 + 8 * trips), *w = support_output(&on, 1, 8 * trips),
                        *f = support_output(&on, 2, 16 + 8 * trips), *g = support_output(&on, 3, 8 * trips),
                        *h = support_output(&on, 4, 16 + 8 * trips + 24), *q = support_output(&on, 5, 8);
            float expected[32] = {1, 2, 3, 4};
            for (size_t t = 0; t < 2 * trips; t++)
                expected[4 + t] = y[t % 2] + (float)((t / 2 + 1) * (t % 2 + 1));
            assert_memory_equal(p, expected, 16 + 8 * trips);
            assert_memory_equal(f, expected, 16 + 8 * trips);
            for (size_t t = 0; t < 2 * trips; t++) assert_true(w[t] == -expected[4 + t] && g[t] == w[t]);
            assert_memory_equal(h, expected, 16 + 8 * trips);
            for (size_t t = 0; t < 6; t++) assert_true(h[4 + 2 * trips + t] == (float)(t % 2 + 1));
            assert_memory_equal(q, trips ? expected + 2 + 2 * trips : y, 8);
        }
    }
    support_session_close(&on);
}

/* Such a loop within another one, which carries on what the inner one made: the inner reservation is the next iteration's
 * again. */
static void test_growing_within(void **state) {
    (void)state;
    support_session on;
    const float x[2] = {1, 2};
    support_session_open(&on,
                         "module \"within\" { constant %n: int64[] = {4} constant %one: int64[] = {1} "
                         "constant %three: int64[] = {3}\n"
                         " constant %axes: int64[1] = {0}\n"
                         " graph main(%x: float32[1,2], %limit: int64[]) {\n"
                         "  %r: float32[?,2], %all: float32[?,2] = Loop(%three, _, %x, %x) {\n"
                         "   graph outer(%a: int64[], %b: bool[], %u: float32[?,2], %v: float32[?,2]) {\n"
                         "    %go: bool[] = Less(%a, %three)\n"
                         "    %p: float32[?,2] = Loop(%n, %go, %x) {\n"
                         "     graph inner(%i: int64[], %k: bool[], %c: float32[?,2]) {\n"
                         "      %j: int64[] = Add(%i, %one) %again: bool[] = Less(%j, %limit)\n"
                         "      %s: float32[1,2] = ReduceSum(%c, %axes) {keepdims = 1} %m: float32[1,2] = "
                         "ReduceMax(%u, %axes) {keepdims = 1}\n"
                         "      %t: float32[1,2] = Add(%s, %m) %d: float32[?,2] = Concat(%c, %t) {axis = 0}\n"
                         "      yield %again, %d } }\n"
                         "    %w: float32[?,2] = Concat(%v, %p) {axis = 0}\n"
                         "    yield %b, %p, %w } }\n"
                         "  yield %r, %all } }\n",
                         1);
    for (int64_t limit = 1; limit <= 5; limit++) {
        size_t trips = limit > 4 ? 4 : (size_t)limit;
        float all[32] = {1, 2}, last[10] = {1, 2}, now[10];
        size_t rows = 1, last_rows = 1;
        support_bind(&on, 0, x, sizeof x);
        support_bind(&on, 1, &limit, sizeof limit);
        support_run(&on);
        for (int outer = 0; outer < 3; outer++) {
            memcpy(now, x, sizeof x);
            for (size_t row = 1; row <= trips; row++) {
                for (size_t e = 0; e < 2; e++) {
                    float sum = 0, most = last[e];
                    for (size_t k = 0; k < row; k++) sum += now[2 * k + e];
                    for (size_t k = 1; k < last_rows; k++)
                        most = last[2 * k + e] > most ? last[2 * k + e] : most;
                    now[2 * row + e] = sum + most;
                }
            }
            last_rows = trips + 1;
            memcpy(last, now, sizeof last);
            memcpy(all + 2 * rows, now, 8 * last_rows);
            rows += last_rows;
        }
        assert_memory_equal(support_output(&on, 0, 8 * last_rows), last, 8 * last_rows);
        assert_memory_equal(support_output(&on, 1, 8 * rows), all, 8 * rows);
    }
    support_session_close(&on);
}

int main(int count, char **arguments) {
    support_arguments(count, arguments);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_growing), cmocka_unit_test(test_growing_heads),
                                       cmocka_unit_test(test_growing_until),
                                       cmocka_unit_test(test_growing_within)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
