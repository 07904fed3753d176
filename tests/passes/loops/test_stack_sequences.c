/* SPDX-License-Identifier: Apache-2.0 */
/* test_stack_sequences.c: sequences that a loop appends to become stacks where that is the same, along every axis, and only there.
 */
#include "compiler/compiler.h"
#include "runtime/executor.h"
#include "tests/support/support.h"
#include "tests/support/plan.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { ROWS = 2, COLUMNS = 3, ELEMENTS = ROWS * COLUMNS, MOST = 5 };

static bool has_sequences(const plan *of) {
    for (uint64_t n = 0; n < of->header->nodes.count; n++)
        if (op_schema_of(plan_node_code(of, &of->nodes[n]))->flags & OP_FLAG_LISTS) return true;
    return false;
}

/* A loop that appends a * (-2)^(t + 1), and what joins the sequence after it. */
static void write_module(char *text, size_t capacity, int trips, const char *insert, const char *after) {
    snprintf(text, capacity,
             "module \"append\" { constant %%n: int64[] = {%d} constant %%two: float32[] = {-2} constant "
             "%%zero: int64[] = {0}\n"
             " graph main(%%a: float32[2,3]) {\n"
             "  %%e: sequence(float32) = SequenceEmpty() {dtype = 1}\n"
             "  _, %%s: sequence(float32) = Loop(%%n, _, %%a, %%e) {\n"
             "   graph body(%%i: int64[], %%k: bool[], %%x: float32[2,3], %%p: sequence(float32)) {\n"
             "    %%y: float32[2,3] = Mul(%%x, %%two) %%q: sequence(float32) = %s yield %%k, %%y, %%q } }\n"
             "  %%r: %s yield %%r } }",
             trips, insert, after);
}

/* Element (iteration, row, column) of what the loop appends. */
static float element(int t, int r, int c) {
    return (float)(r * COLUMNS + c + 1) * (float)(t % 2 ? 1 << (t + 1) : -(1 << (t + 1)));
}

/* Runs, and compares with what ConcatFromSequence says. */
static void expect_joined(int trips, int axis, bool added) {
    char text[2048], after[128];
    float a[ELEMENTS];
    support_session on;
    const int outer = axis < 0 ? axis + 2 + added : axis;
    for (int i = 0; i < ELEMENTS; i++) a[i] = (float)(i + 1);
    snprintf(after, sizeof after, "float32[%s] = ConcatFromSequence(%%s) {axis = %d, new_axis = %d}",
             added ? "?,?,?" : "?,?", axis, added);
    write_module(text, sizeof text, trips, "SequenceInsert(%p, %y)", after);
    support_session_open(&on, text, 1);
    if (has_sequences(on.session->of)) fail_msg("axis %d, new_axis %d: still a sequence", axis, added);
    support_bind(&on, 0, a, sizeof a);
    support_run(&on);
    const float *is = support_output(&on, 0, sizeof a * (size_t)trips);
    for (int t = 0; t < trips; t++) {
        for (int r = 0; r < ROWS; r++) {
            for (int c = 0; c < COLUMNS; c++) {
                /* Where the element lies: the iteration counts just outside of axis `outer`. */
                const int at = outer == 0   ? (t * ROWS + r) * COLUMNS + c
                               : outer == 1 ? (r * trips + t) * COLUMNS + c
                                            : (r * COLUMNS + c) * trips + t;
                if (is[at] != element(t, r, c))
                    fail_msg("axis %d, new_axis %d, %d iterations: element %d is %g, expected %g", axis,
                             added, trips, at, (double)is[at], (double)element(t, r, c));
            }
        }
    }
    support_session_close(&on);
}

static void what_is_joined_becomes_a_stack(void **state) {
    (void)state;
    for (int trips = 1; trips <= MOST; trips++) {
        for (int axis = -2; axis < 2; axis++) expect_joined(trips, axis, false);
        for (int axis = -3; axis < 3; axis++) expect_joined(trips, axis, true);
    }
}

/* It stays a sequence, and runs as before. */
static void expect_sequence(const char *insert, const char *after) {
    char text[2048];
    float a[ELEMENTS] = {1, 2, 3, 4, 5, 6};
    support_session on;
    write_module(text, sizeof text, 3, insert, after);
    support_session_open(&on, text, 1);
    if (!has_sequences(on.session->of)) fail_msg("%s: no sequence any more", after);
    support_bind(&on, 0, a, sizeof a);
    support_run(&on);
    support_session_close(&on);
}

static void others_stay_sequences(void **state) {
    (void)state;
    expect_sequence("SequenceInsert(%p, %y, %zero)",
                    "float32[?,?] = ConcatFromSequence(%s) {axis = 0}"); /* before the others */
    expect_sequence("SequenceInsert(%p, %y)", "float32[?,?] = SequenceAt(%s, %zero)");
    expect_sequence("SequenceInsert(%p, %y)", "int64[] = SequenceLength(%s)");
}

/* A loop over what another loop has made: its elements have a shape only when the first sequence is a stack. */
static void one_after_another(void **state) {
    (void)state;
    support_session on;
    float a[ELEMENTS] = {1, 2, 3, 4, 5, 6};
    support_session_open(
        &on,
        "module \"chain\" { constant %n: int64[] = {3} constant %m: int64[] = {2}\n"
        " graph main(%a: float32[2,3]) {\n"
        "  %e: sequence(float32) = SequenceEmpty() {dtype = 1} %f: sequence(float32) = SequenceEmpty() "
        "{dtype = 1}\n"
        "  %s: sequence(float32) = Loop(%n, _, %e) { graph first(%i: int64[], %k: bool[], %p: "
        "sequence(float32)) {\n"
        "    %y: float32[2,3] = Neg(%a) %q: sequence(float32) = SequenceInsert(%p, %y) yield %k, %q } }\n"
        "  %r: float32[?,?] = ConcatFromSequence(%s) {axis = 0}\n"
        "  %t: sequence(float32) = Loop(%m, _, %f) { graph second(%j: int64[], %l: bool[], %u: "
        "sequence(float32)) {\n"
        "    %z: float32[?,?] = Neg(%r) %v: sequence(float32) = SequenceInsert(%u, %z) yield %l, %v } }\n"
        "  %w: float32[?,?] = ConcatFromSequence(%t) {axis = 1} yield %w } }",
        1);
    assert_false(has_sequences(on.session->of));
    support_bind(&on, 0, a, sizeof a);
    support_run(&on);
    const float *is = support_output(&on, 0, 6 * sizeof a);
    for (int row = 0; row < 3 * ROWS; row++)
        for (int column = 0; column < 2 * COLUMNS; column++)
            assert_true(is[row * 2 * COLUMNS + column] == a[row % ROWS * COLUMNS + column % COLUMNS]);
    support_session_close(&on);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_joined_becomes_a_stack),
                                       cmocka_unit_test(others_stay_sequences),
                                       cmocka_unit_test(one_after_another)};
    return cmocka_run_group_tests_name("stack sequences", tests, NULL, NULL);
}
