/* SPDX-License-Identifier: Apache-2.0 */
/* test_loop_pictures.c: what pictures, reports and `ouro inspect` tell about loops. */
#include "compiler/compiler.h"
#include "compiler/report/loop.h"
#include "tests/support/support.h"
#include "tests/support/plan.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/* Periods 2 and 3 in one loop: x <= MatMul(x), and x0 <= x1 <= MatMul(x0, x1). */
static const char *const two_periods =
    "module \"periods\" {\n"
    " graph main(%n: int64[], %a: float32[4,4], %b: float32[4,4]) {\n"
    "  %a0: float32[4,4] = Neg(%a) %b0: float32[4,4] = Neg(%b) %c0: float32[4,4] = Abs(%b)\n"
    "  %p0: float32[4,4], %p1: float32[4,4], %p2: float32[4,4] = Loop(%n, _, %a0, %b0, %c0) \"turns\" {\n"
    "   graph body(%i: int64[], %k: bool[], %x: float32[4,4], %x0: float32[4,4], %x1: float32[4,4]) {\n"
    "    %y: float32[4,4] = MatMul(%x, %b) %z: float32[4,4] = MatMul(%x0, %x1) yield %k, %y, %x1, %z } }\n"
    "  %s: float32[4,4] = Add(%p0, %p1) %r: float32[4,4] = Add(%s, %p2) yield %r } }\n";

/* A loop in a loop beside branches; the caller's input is where the outer one begins. */
static const char *const nested = "module \"nested\" {\n"
                                  " graph main(%n: int64[], %a: float32[4,4], %m: float32[4,4]) {\n"
                                  "  %p: float32[4,4] = Loop(%n, _, %a) \"outer\" {\n"
                                  "   graph body(%i: int64[], %k: bool[], %x: float32[4,4]) {\n"
                                  "    %q: float32[4,4] = Loop(%n, _, %x) \"inner\" {\n"
                                  "     graph turn(%j: int64[], %l: bool[], %s: float32[4,4]) { %w: "
                                  "float32[4,4] = MatMul(%s, %m) yield %l, %w } }\n"
                                  "    %z: float32[4,4] = If(%k) \"choice\" {\n"
                                  "     graph yes() { %u: float32[4,4] = MatMul(%q, %x) yield %u }\n"
                                  "     graph no() { %v: float32[4,4] = Relu(%q) yield %v } }\n"
                                  "    yield %k, %z } }\n"
                                  "  %r: float32[4,4] = Neg(%p) yield %r } }\n";

static void open_result(const char *text, compile_result *result) {
    base_report report = {0};
    size_t size;
    *result = (compile_result){0};
    unsigned char *bytes = support_plan(text, true, &size);
    if (plan_open(bytes, size, "plan", NULL, free, bytes, &result->plan, &report) != BASE_OK)
        fail_msg("%s", report.text);
}

/* The picture as text. */
static char *draw(const char *text) {
    char path[4096];
    base_report report = {0};
    compile_result result;
    snprintf(path, sizeof path, "%s/loop_picture.dot", TEST_BINARY_DIR);
    open_result(text, &result);
    if (emit_dot(&result, path, 0, &report) != BASE_OK) fail_msg("%s", report.text);
    plan_close(&result.plan);
    char *dot = support_read_file(path, NULL);
    unlink(path);
    return dot;
}

static void test_dot(void **state) {
    (void)state;
    const struct {
        const char *golden, *text;
    } pictures[] = {{"compiler/report/cases/loop_periods.dot", two_periods},
                    {"compiler/report/cases/loop_nested.dot", nested}};
    for (size_t i = 0; i < sizeof pictures / sizeof *pictures; i++) {
        char *dot = draw(pictures[i].text), *again = draw(pictures[i].text);
        assert_string_equal(dot, again);
        support_expect_golden(pictures[i].golden, dot);
        free(dot);
        free(again);
    }
}

static uint32_t find_loop(const plan *of, const char *name) {
    for (uint32_t i = 0; i < of->header->nodes.count; i++) {
        if (strcmp(of->texts + of->nodes[i].name, name) == 0) return i;
    }
    fail_msg("there is no loop \"%s\"", name);
    return 0;
}

static void test_measure(void **state) {
    (void)state;
    compile_result result;
    emit_loop loop;
    open_result(two_periods, &result);
    assert_true(emit_loop_measure(&result.plan, find_loop(&result.plan, "turns"), &loop));
    assert_int_equal(loop.unroll, 6);
    assert_int_equal(loop.multiview, 5);
    assert_int_equal(loop.places, 5);
    assert_int_equal(loop.iteration_bytes, 0);
    /* How often it runs is not known: the outputs are read in whatever places they were left. */
    assert_int_equal(loop.entry_bytes, 0);
    assert_int_equal(emit_loop_view(&result.plan, loop.form.parameters[2], loop.node)->period, 2);
    assert_int_equal(emit_loop_view(&result.plan, loop.form.parameters[3], loop.node)->period, 3);
    assert_null(emit_loop_view(&result.plan, loop.form.parameters[0], loop.node));
    plan_close(&result.plan);
    /* What a branch makes for the outer loop counts there; the inner loop's own tensors do not. */
    open_result(nested, &result);
    assert_true(emit_loop_measure(&result.plan, find_loop(&result.plan, "outer"), &loop));
    assert_int_equal(loop.unroll, 2);
    assert_int_equal(loop.multiview, 4);
    assert_true(emit_loop_measure(&result.plan, find_loop(&result.plan, "inner"), &loop));
    assert_int_equal(loop.unroll, 2);
    assert_int_equal(loop.multiview, 2);
    assert_false(emit_loop_measure(&result.plan, find_loop(&result.plan, "choice"), &loop));
    plan_close(&result.plan);
}

/* What is copied, and why. */
static void test_why(void **state) {
    (void)state;
    enum { LEFT, SLICE };
    static const struct {
        int what;
        const char *text, *why;
    } cases[] = {
        {LEFT,
         "%n: int64[], %a: float32[4], %g: bool[]) { %y: float32[4] = Loop(%n, _, %a) \"l\" { graph body(%i: "
         "int64[], "
         "%k: bool[], %x: float32[4]) { %z: float32[4] = CumSum(%x, %i) yield %g, %z } } yield %y",
         "the number of iterations is not known, and its place is decided elsewhere"},
        {LEFT,
         "%s: float32[3,4], %a: float32[4]) { %y: float32[4], %t: float32[3,4] = Loop(_, _, %a, %s) "
         "{ouro.scan_inputs = 1, ouro.scan_outputs = 1} \"l\" { graph body(%i: int64[], %k: bool[], "
         "%x: float32[4], %e: float32[4]) { %z: float32[4] = Add(%x, %e) yield %k, %z, %z } } yield %y, %t",
         "it lies elsewhere already: an initial value, a slice, or another output"},
        {SLICE,
         "%s: float32[4,3]) { %t: float32[3,4] = Loop(_, _, %s) {ouro.scan_inputs = 1, ouro.scan_outputs = "
         "1, ouro.scan_input_axes = [-1]} \"l\" { graph body(%i: int64[], %k: bool[], %e: float32[4]) { "
         "%z: float32[4] = Neg(%e) yield %k, %z } } yield %t",
         "a slice along another axis than the first"},
        {SLICE,
         "%n: int64[], %a: float32[4]) { %t: float32[?,4] = Loop(%n, _) {ouro.scan_outputs = 1} \"l\" { "
         "graph body(%i: int64[], %k: bool[]) { %z: float32[4] = CumSum(%a, %i) yield %k, %z } } yield %t",
         "the number of slices is not known: they are gathered in run-time memory"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        compile_result result;
        emit_loop loop;
        snprintf(text, sizeof text, "module \"why\" {\n graph main(%s } }\n", cases[i].text);
        open_result(text, &result);
        assert_true(emit_loop_measure(&result.plan, find_loop(&result.plan, "l"), &loop));
        if (cases[i].what == LEFT) {
            assert_true(emit_loop_moved(&result.plan, &loop, 0).left > 0);
            assert_string_equal(emit_loop_why_left(&result.plan, &loop, 0), cases[i].why);
        } else {
            assert_int_not_equal(emit_loop_copied_slice(&result.plan, &loop, 0), PLAN_ABSENT);
            assert_string_equal(emit_loop_why_slice(&result.plan, &loop, 0), cases[i].why);
        }
        plan_close(&result.plan);
    }
}

/* Loops without a name in one graph are told apart. */
static void test_name(void **state) {
    (void)state;
    compile_result result;
    char name[64];
    open_result(
        "module \"m\" { graph main(%n: int64[], %a: float32[4]) {\n"
        " %y: float32[4] = Loop(%n, _, %a) at \"main\" { graph b(%i: int64[], %k: bool[], %x: float32[4]) { "
        "%u: float32[4] = CumSum(%x, %i) yield %k, %u } }\n"
        " %z: float32[4] = Loop(%n, _, %y) \"last\" at \"main\" { graph c(%j: int64[], %l: bool[], %v: "
        "float32[4]) { "
        "%w: float32[4] = CumSum(%v, %j) yield %l, %w } }\n yield %z } }",
        &result);
    const char *expected[] = {"main/y", "last"};
    size_t found = 0;
    for (uint32_t i = 0; i < result.plan.header->nodes.count; i++) {
        if (!result.plan.nodes[i].graph_count) continue;
        assert_true(found < 2);
        assert_string_equal(emit_loop_name(&result.plan, i, name, sizeof name), expected[found++]);
    }
    assert_int_equal(found, 2);
    plan_close(&result.plan);
}

static void test_places(void **state) {
    (void)state;
    char text[64];
    plan_address address = {MEMORY_ARENA, 0, 64};
    assert_string_equal(emit_place_print(&address, 8, text, sizeof text), "@72");
    address = (plan_address){MEMORY_OUTPUT, 3, 0};
    assert_string_equal(emit_place_print(&address, 0, text, sizeof text), "output 3 @0");
    address = (plan_address){MEMORY_MULTIVIEW, 2, 0};
    assert_string_equal(emit_place_print(&address, 0, text, sizeof text), "v2");
    assert_string_equal(emit_place_print(&address, 4, text, sizeof text), "v2 + 4");
}

int main(int count, char **arguments) {
    support_arguments(count, arguments);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_dot), cmocka_unit_test(test_measure),
                                       cmocka_unit_test(test_why), cmocka_unit_test(test_name),
                                       cmocka_unit_test(test_places)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
