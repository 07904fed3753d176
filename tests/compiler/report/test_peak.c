/* SPDX-License-Identifier: Apache-2.0 */
/* test_peak.c: what makes the peak of a plan: the items, their order, and that together they are the lower bound. */
#include "compiler/report/peak.h"
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void open_plan(const char *text, plan *opened) {
    base_report report = {0};
    size_t size;
    unsigned char *bytes = support_plan(text, true, &size);
    if (plan_open(bytes, size, "plan", NULL, free, bytes, opened, &report) != BASE_OK)
        fail_msg("%s", report.text);
}

/* The items of the main graph's peak, each "NAME BYTES: WHY". */
static void expect_items(const char *text, const char *const *expected) {
    base_arena arena;
    plan opened;
    peak found;
    base_arena_init(&arena, NULL);
    open_plan(text, &opened);
    assert_true(emit_peak_find(&opened, 0, &arena, &found));
    assert_int_equal(found.bytes, opened.header->lower_bound_bytes);
    for (size_t i = 0; i < found.count || expected[i]; i++) {
        char name[256], why[256], line[600] = "nothing more";
        if (i < found.count)
            snprintf(line, sizeof line, "%s %zu: %s",
                     emit_peak_name(&opened, &found, &found.items[i], name, sizeof name),
                     (size_t)found.items[i].bytes,
                     emit_peak_why(&opened, &found, &found.items[i], why, sizeof why));
        assert_string_equal(line, expected[i] ? expected[i] : "nothing more");
        if (!expected[i]) break;
    }
    plan_close(&opened);
    base_arena_free(&arena);
}

/* a is live while c is made, and is read later; d is read there for the last time. */
static void test_straight_line(void **state) {
    (void)state;
    expect_items("module \"m\" { graph main(%x: float32[16,16]) {\n"
                 "  %a: float32[16,16] = Exp(%x)\n"
                 "  %d: float32[16,32] = Concat(%a, %x) {axis = 1}\n"
                 "  %c: float32[16,32] = MatMul(%a, %d)\n"
                 "  %e: float32[16,32] = MatMul(%a, %c)\n"
                 "  %g: float32[32,16] = Transpose(%e) {perm = [1, 0]}\n"
                 "  %h: float32[32,16] = MatMul(%g, %a)\n"
                 "  yield %h } }\n",
                 (const char *const[]){"c 2048: made here, read by MatMul in step 3",
                                       "d 2048: read here, for the last time",
                                       "scratch of MatMul 2048: what its kernel works in",
                                       "a 1024: read by MatMul in step 5", NULL});
}

/* A view keeps alive what it is a view of: a is needed until the last step, where nobody reads a itself. */
static void test_views(void **state) {
    (void)state;
    expect_items("module \"m\" { graph main(%x: float32[16,16], %z: float32[256,16]) {\n"
                 "  %a: float32[16,16] = Exp(%x)\n"
                 "  %v: float32[1,256] = Flatten(%a) {axis = 0}\n"
                 "  %b: float32[256,16] = Exp(%z)\n"
                 "  %d: float32[1,16] = MatMul(%v, %b)\n"
                 "  %e: float32[1,16] = Neg(%d)\n"
                 "  yield %e } }\n",
                 (const char *const[]){"b 16384: made here, read by MatMul in step 3",
                                       "a 1024: read by MatMul in step 3", NULL});
}

/* Two places of one rotation, three of the other; together with the rest they are the bound that the planner was given. */
static void test_loops(void **state) {
    (void)state;
    static const char *const rotation =
        "module \"periods\" {\n"
        " graph main(%n: int64[], %a: float32[4,4], %b: float32[4,4]) {\n"
        "  %a0: float32[4,4] = Neg(%a) %b0: float32[4,4] = Neg(%b) %c0: float32[4,4] = Abs(%b)\n"
        "  %p0: float32[4,4], %p1: float32[4,4], %p2: float32[4,4] = Loop(%n, _, %a0, %b0, %c0) \"turns\" {\n"
        "   graph body(%i: int64[], %k: bool[], %x: float32[4,4], %x0: float32[4,4], %x1: float32[4,4]) {\n"
        "    %y: float32[4,4] = MatMul(%x, %b) %z: float32[4,4] = MatMul(%x0, %x1) yield %k, %y, %x1, %z } "
        "}\n"
        "  %s: float32[4,4] = Add(%p0, %p1) %r: float32[4,4] = Add(%s, %p2) yield %r } }\n";
    base_arena arena;
    plan opened;
    peak found;
    base_arena_init(&arena, NULL);
    open_plan(rotation, &opened);
    assert_true(emit_peak_find(&opened, 0, &arena, &found));
    assert_int_equal(found.bytes, opened.header->lower_bound_bytes);
    assert_string_equal(opened.texts + opened.nodes[found.node].operator_name, "Loop");
    size_t rotating = 0;
    for (size_t i = 0; i < found.count; i++) rotating += found.items[i].kind != PEAK_REGION;
    assert_int_equal(rotating, 5);
    plan_close(&opened);
    base_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_straight_line),
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_loops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
