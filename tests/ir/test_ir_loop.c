/* SPDX-License-Identifier: Apache-2.0 */
/* test_ir_loop.c: what a Loop node says of itself: its parts, how often it runs, what grows. */
#include "ir/loop.h"
#include "tests/support/support.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static ir_loop first_loop(const ir_module *module) {
    ir_loop loop;
    for (size_t n = 1; n < module->node_count; n++)
        if (module->nodes[n] && ir_loop_read(module->nodes[n], &loop)) return loop;
    fail_msg("no loop");
    return loop;
}

static void the_parts_of_a_loop(void **state) {
    (void)state;
    ir_module *module = support_module(
        "module \"m\" { graph main(%a: float32[4], %s: float32[4,8], %t: float32[8,4]) {\n"
        "  %x: float32[4], _, %u: float32[4,8] = Loop(_, _, %a, %s, %t) {ouro.scan_inputs = 2, "
        "ouro.scan_outputs = 2,\n"
        "    ouro.scan_input_axes = [-1, 0], ouro.scan_input_directions = [0, 1], ouro.scan_output_axes = "
        "[0, -1]} {\n"
        "   graph body(%i: int64[], %k: bool[], %p: float32[4], %e: float32[4], %f: float32[4]) {\n"
        "    %n: float32[4] = Add(%p, %e) %v: float32[4] = Add(%p, %f) yield %k, %n, %e, %v } }\n"
        "  yield %x, %u } }",
        false);
    const ir_loop loop = first_loop(module);
    assert_int_equal(loop.carried, 1);
    assert_int_equal(loop.scanned, 2);
    assert_int_equal(loop.stacked, 2);
    const ir_loop_carried c = ir_loop_carry(&loop, 0);
    assert_string_equal(c.parameter->name, "p");
    assert_string_equal(c.initial->name, "a");
    assert_string_equal(c.replacement->name, "n");
    assert_string_equal(c.output->name, "x");
    assert_true(ir_loop_is_static(&loop, 0));
    const ir_loop_slices s = ir_loop_scan(&loop, 0), t = ir_loop_scan(&loop, 1),
                         unwanted = ir_loop_stack(&loop, 0), u = ir_loop_stack(&loop, 1);
    assert_string_equal(s.whole->name, "s");
    assert_string_equal(s.slice->name, "e");
    assert_int_equal(s.axis, 1); /* the last of two */
    assert_false(s.backwards);
    assert_int_equal(t.axis, 0);
    assert_true(t.backwards);
    assert_null(unwanted.whole);
    assert_string_equal(unwanted.slice->name, "e");
    assert_string_equal(u.whole->name, "u");
    assert_int_equal(u.axis, 1); /* a slice has one axis, the stack two */
    assert_int_equal(ir_loop_trips(&loop), 8);
    assert_int_equal(ir_loop_most_trips(&loop), -1);
    assert_false(ir_loop_read(c.replacement->node, &(ir_loop){0}));
    ir_module_free(module);
}

/* What a loop with these inputs, and a body that ends with this condition, says of how often it runs. */
static void expect_trips(const char *trips, const char *go, const char *again, int64_t certain,
                         int64_t most) {
    char text[1024];
    snprintf(
        text, sizeof text,
        "module \"m\" { constant %%seven: int64[] = {7} constant %%less: int64[] = {-2}\n"
        " constant %%yes: bool[] = {true} constant %%no: bool[] = {false}\n"
        " graph main(%%a: float32[4], %%n: int64[], %%go: bool[]) {\n"
        "  %%x: float32[4] = Loop(%s, %s, %%a) { graph body(%%i: int64[], %%k: bool[], %%p: float32[4]) {\n"
        "   %%q: float32[4] = Neg(%%p) yield %s, %%q } }\n  yield %%x } }",
        trips, go, again);
    ir_module *module = support_module(text, true);
    const ir_loop loop = first_loop(module);
    assert_int_equal(ir_loop_trips(&loop), certain);
    assert_int_equal(ir_loop_most_trips(&loop), most);
    if (certain >= 0) assert_int_equal(ir_loop_extent(&loop), certain);
    else assert_true(ir_loop_extent(&loop) == OP_DIM_UNKNOWN);
    ir_module_free(module);
}

static void how_often_a_loop_runs(void **state) {
    (void)state;
    expect_trips("%seven", "_", "%k", 7, 7);
    expect_trips("%seven", "%yes", "%yes", 7, 7);
    expect_trips("%less", "_", "%k", 0, 0);
    expect_trips("%seven", "%go", "%k", -1, 7); /* may not begin */
    expect_trips("%seven", "%no", "%k", -1, 7);
    expect_trips("%seven", "_", "%go", -1, 7); /* may end early */
    expect_trips("%n", "_", "%k", -1, -1);
    expect_trips("_", "_", "%k", -1, -1);
}

/* Whether this Concat grows the carried value %p. */
static void expect_growth(const char *type, const char *concat, bool grows, bool after) {
    char text[1024];
    snprintf(
        text, sizeof text,
        "module \"m\" { graph main(%%a: float32%s, %%y: float32[1,1,2], %%n: int64[]) {\n"
        "  %%x: float32%s = Loop(%%n, _, %%a) { graph body(%%i: int64[], %%k: bool[], %%p: float32%s) {\n"
        "   %%q: float32%s = %s yield %%k, %%q } }\n  yield %%x } }",
        type, type, type, type, concat);
    ir_module *module = support_module(text, false);
    const ir_loop loop = first_loop(module);
    ir_loop_growth growth = {0};
    assert_int_equal(ir_loop_grows(&loop, 0, &growth), grows);
    if (grows) assert_int_equal(growth.after, after);
    if (grows) assert_int_equal(growth.axis, 1);
    ir_module_free(module);
}

static void what_grows(void **state) {
    (void)state;
    expect_growth("[1,?,2]", "Concat(%p, %y) {axis = 1}", true, true);
    expect_growth("[1,?,2]", "Concat(%p, %y, %y) {axis = -2}", true, true);
    expect_growth("[3,?,2]", "Concat(%p, %y) {axis = 1}", true, false);
    expect_growth("[1,?,2]", "Concat(%y, %p) {axis = 1}", false, false); /* in front of what is there */
    expect_growth("[1,?,2]", "Concat(%p, %p) {axis = 1}", false, false); /* twice itself */
    expect_growth("[1,?,2]", "Concat(%p, %y) {axis = 5}", false, false);
    expect_growth("[1,?,2]", "Add(%p, %y)", false, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_parts_of_a_loop),
                                       cmocka_unit_test(how_often_a_loop_runs), cmocka_unit_test(what_grows)};
    return cmocka_run_group_tests_name("ir loop", tests, NULL, NULL);
}
