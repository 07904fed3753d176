/* SPDX-License-Identifier: Apache-2.0 */
/* test_from_end.c: loops that run as often as an input says, whose outputs the caller wants: nothing is copied when they end, and
 * the values are those of the same loop with a constant number of iterations.
 */
#include "compiler/compiler.h"
#include "compiler/report/loop.h"
#include "runtime/executor.h"
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { ELEMENTS = 16, MOST_TRIPS = 13, OUTPUTS = 3 };

#define T "float32[4,4]"
#define BODY "graph body(%i: int64[], %k: bool[]"

typedef struct end_case {
    const char *name;
    size_t outputs;
    const char *main; /* after the inputs a, b and c; the number of iterations is %n */
    uint64_t entry;   /* bytes that are copied when the loop is entered and left */
} end_case;

static const end_case cases[] = {
    {"two buffers in turn", 1,
     "%p: " T " = Loop(%n, _, %a) { " BODY ", %x: " T ") { %y: " T
     " = MatMul(%x, %m) yield %k, %y } } yield %p",
     0},
    {"a value that is made before the loop", 1,
     "%d: " T " = Neg(%a) %p: " T " = Loop(%n, _, %d) { " BODY ", %x: " T ") { %y: " T
     " = MatMul(%x, %m) yield %k, %y } } yield %p",
     0},
    {"a swap", 2,
     "%p: " T ", %q: " T " = Loop(%n, _, %a, %b) { " BODY ", %x: " T ", %y: " T ") { %z: " T
     " = MatMul(%x, %m) yield %k, %y, %z } } yield %p, %q",
     0},
    {"a rotation", 3,
     "%p: " T ", %q: " T ", %r: " T " = Loop(%n, _, %a, %b, %c) { " BODY ", %x: " T ", %y: " T ", %z: " T
     ") { %w: " T " = MatMul(%x, %y) %v: " T " = Mul(%w, %small) yield %k, %y, %z, %v } } yield %p, %q, %r",
     0},
    {"a rotation, of which the caller wants one", 1,
     "%p: " T ", %q: " T ", %r: " T " = Loop(%n, _, %a, %b, %c) { " BODY ", %x: " T ", %y: " T ", %z: " T
     ") { %w: " T " = MatMul(%x, %y) %v: " T " = Mul(%w, %small) yield %k, %y, %z, %v } } yield %q",
     0},
    {"periods of two and three", 2,
     "%p: " T ", %q: " T ", %r: " T " = Loop(%n, _, %a, %b, %c) { " BODY ", %x: " T ", %y: " T ", %z: " T
     ") { %w: " T " = MatMul(%x, %m) %v: " T " = MatMul(%y, %x) %u: " T
     " = Mul(%v, %small) yield %k, %w, %z, %u } } yield %p, %q",
     0},
    {"a branch that multiplies, or does not", 1,
     "%p: " T " = Loop(%n, _, %a) { " BODY ", %x: " T
     ") { %h: int64[] = Mod(%i, %two) %e: bool[] = Equal(%h, %zero)\n"
     " %y: " T " = If(%e) { graph even() { %u: " T " = MatMul(%x, %m) yield %u } graph odd() { %v: " T
     " = Relu(%x) yield %v } } yield %k, %y } } yield %p",
     0},
    {"a loop in it", 1,
     "%p: " T " = Loop(%n, _, %a) { " BODY ", %x: " T ") { %h: int64[] = Mod(%i, %two)\n %y: " T
     " = Loop(%h, _, %b) { graph inner(%j: int64[], %l: bool[], %s: " T ") { %t: " T
     " = MatMul(%s, %m) yield %l, %t } } %z: " T " = MatMul(%x, %y) %v: " T
     " = Mul(%z, %small) yield %k, %v } } yield %p",
     0},
    {"a stack beside it", 2,
     "%p: " T ", %s: float32[?,4,4] = Loop(%n, _, %a) {ouro.scan_outputs = 1} { " BODY ", %x: " T ") { %y: " T
     " = MatMul(%x, %m) %z: " T " = Relu(%x) yield %k, %y, %z } } %t: " T
     " = ReduceSum(%s, %axis) {keepdims = 0} yield %p, %t",
     0},
    {"one loop after another", 2,
     "%p: " T " = Loop(%n, _, %a) { " BODY ", %x: " T ") { %y: " T " = MatMul(%x, %m) yield %k, %y } }\n"
     "%q: " T " = Loop(%n, _, %p) { graph next(%j: int64[], %l: bool[], %u: " T ") { %v: " T
     " = MatMul(%u, %m) yield %l, %v } } yield %p, %q",
     0},
    /* Two that are the same in the end are so in one buffer only. */
    {"the same twice", 2,
     "%p: " T ", %q: " T " = Loop(%n, _, %a, %b) { " BODY ", %x: " T ", %y: " T ") { %z: " T
     " = MatMul(%x, %y) %w: " T " = Mul(%z, %small) yield %k, %w, %w } } yield %p, %q",
     ELEMENTS * sizeof(float)},
};

static void write_case(char *text, size_t capacity, const end_case *of, int trips) {
    char known[64] = "";
    if (trips >= 0) snprintf(known, sizeof known, "constant %%n: int64[] = {%d}", trips);
    const int length =
        snprintf(text, capacity,
                 "module \"ends\" { constant %%m: " T " = {0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 1, 1, 0, 0, 0}\n"
                 " constant %%small: float32[] = {0.125} constant %%two: int64[] = {2} constant %%zero: "
                 "int64[] = {0} constant %%axis: int64[1] = {0} %s\n"
                 " graph main(%s%%a: " T ", %%b: " T ", %%c: " T ") {\n %s } }",
                 known, trips < 0 ? "%n: int64[], " : "", of->main);
    assert_true(length > 0 && (size_t)length < capacity);
}

static void run_case(const support_session *on, int64_t trips, bool bound, size_t outputs,
                     float made[OUTPUTS][ELEMENTS]) {
    float inputs[3][ELEMENTS];
    for (int k = 0; k < 3; k++)
        for (int e = 0; e < ELEMENTS; e++) inputs[k][e] = (float)((e * (k + 2) + k) % 7) - 3;
    if (bound) support_bind(on, 0, &trips, sizeof trips);
    for (size_t k = 0; k < 3; k++) support_bind(on, k + bound, inputs[k], sizeof inputs[k]);
    support_run(on);
    for (size_t k = 0; k < outputs; k++)
        memcpy(made[k], support_output(on, k, sizeof made[k]), sizeof made[k]);
}

/* What the loops of the plan copy when they are entered and left, and whether one of them counts from the end. */
static uint64_t entry_bytes(const plan *of, bool *from_end) {
    uint64_t bytes = 0;
    *from_end = false;
    for (uint32_t n = 0; n < of->header->nodes.count; n++) {
        emit_loop loop;
        if (plan_node_code(of, &of->nodes[n]) != OP_LOOP) continue;
        assert_true(emit_loop_measure(of, n, &loop));
        for (uint32_t i = 0; i < loop.form.carried; i++) {
            const emit_moved moved = emit_loop_moved(of, &loop, i);
            bytes += moved.entered + moved.left;
        }
    }
    for (uint64_t v = 0; v < of->header->multiviews.count; v++) *from_end |= of->multiviews[v].from_end != 0;
    return bytes;
}

static void loops_end_where_the_caller_wants_it(void **state) {
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char text[4096];
        support_session on;
        bool from_end;
        write_case(text, sizeof text, &cases[c], -1);
        support_session_open(&on, text, 1);
        const uint64_t bytes = entry_bytes(rt_plan_of(on.plan), &from_end);
        if (bytes != cases[c].entry || !from_end)
            fail_msg("%s: %llu bytes are copied when it is entered and left%s", cases[c].name,
                     (unsigned long long)bytes, from_end ? "" : ", and no table counts from the end");
        for (int trips = -1; trips <= MOST_TRIPS; trips++) {
            float is[OUTPUTS][ELEMENTS], wanted[OUTPUTS][ELEMENTS];
            support_session certain;
            run_case(&on, trips, true, cases[c].outputs, is);
            write_case(text, sizeof text, &cases[c], trips < 0 ? 0 : trips);
            support_session_open(&certain, text, 1);
            run_case(&certain, 0, false, cases[c].outputs, wanted);
            if (memcmp(is, wanted, cases[c].outputs * sizeof *is) != 0)
                fail_msg("%s: other values after %d iterations", cases[c].name, trips);
            support_session_close(&certain);
        }
        support_session_close(&on);
    }
}

/* What is scanned tells how often the loop runs. */
static void scans_of_any_length(void **state) {
    (void)state;
    support_session on;
    bool from_end;
    support_session_open(
        &on,
        "module \"scan\" { constant %m: float32[4,4] = {0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 1, 1, 0, 0, 0}\n"
        " graph main(%s: float32[N,4], %a: float32[1,4]) { %p: float32[1,4] = Loop(_, _, %a, %s) "
        "{ouro.scan_inputs = 1} { graph body(%i: int64[], %k: bool[], %x: float32[1,4], %e: float32[4]) {\n"
        " %f: float32[1,4] = MatMul(%x, %m) %y: float32[1,4] = Add(%f, %e) yield %k, %y } } yield %p } }",
        1);
    assert_int_equal(entry_bytes(rt_plan_of(on.plan), &from_end), 0);
    assert_true(from_end);
    for (int64_t rows = 0; rows <= 7; rows++) {
        float s[7 * 4], a[4] = {1, 2, 3, 4};
        ouro_error error;
        const int64_t dims[] = {rows, 4};
        for (int e = 0; e < 28; e++) s[e] = (float)(e % 5) - 2;
        assert_int_equal(ouro_session_bind_input(on.session, 0, s, (size_t)rows * 16, dims, &error), OURO_OK);
        support_bind(&on, 1, a, sizeof a);
        support_run(&on);
        for (int64_t t = 0; t < rows; t++) { /* times m */
            const float f[] = {a[3], a[0], 2 * a[1], a[2]};
            for (int e = 0; e < 4; e++) a[e] = f[e] + s[4 * t + e];
        }
        assert_memory_equal(support_output(&on, 0, sizeof a), a, sizeof a);
    }
    support_session_close(&on);
}

/* What something else may end, or what would take more memory, is as before. */
static void others_do_not(void **state) {
    (void)state;
    static const char *const texts[] = {
        /* a condition that the body makes */
        "module \"m\" { constant %m: " T
        " = {0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 1, 1, 0, 0, 0} constant %o: float32[] = {9}\n"
        " graph main(%n: int64[], %a: " T ") { %p: " T " = Loop(%n, _, %a) { " BODY ", %x: " T ") { %y: " T
        " = MatMul(%x, %m) %f: float32[] = ReduceMax(%y) {keepdims = 0} %g: bool[] = Less(%f, %o) yield %g, "
        "%y } } yield "
        "%p } }",
        /* a first condition */
        "module \"m\" { constant %m: " T " = {0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 1, 1, 0, 0, 0}\n"
        " graph main(%n: int64[], %a: " T ", %g: bool[]) { %p: " T " = Loop(%n, %g, %a) { " BODY ", %x: " T
        ") { %y: " T " = MatMul(%x, %m) yield %k, %y } } yield %p } }",
        /* three values that are made in the loop's buffers, and one buffer of the caller */
        "module \"m\" { graph main(%n: int64[], %a: " T ") { %b: " T " = Neg(%a) %c: " T " = Abs(%a) %d: " T
        " = Relu(%a)\n %p: " T ", %q: " T ", %r: " T " = Loop(%n, _, %b, %c, %d) { " BODY ", %x: " T
        ", %y: " T ", %z: " T ") { %w: " T " = MatMul(%x, %y) yield %k, %y, %z, %w } } %s: " T
        " = Sub(%q, %r) yield %p, %s } }"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        support_session on;
        bool from_end;
        support_session_open(&on, texts[i], 1);
        assert_true(entry_bytes(rt_plan_of(on.plan), &from_end) > 0);
        assert_false(from_end);
        support_session_close(&on);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(loops_end_where_the_caller_wants_it),
                                       cmocka_unit_test(scans_of_any_length),
                                       cmocka_unit_test(others_do_not)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
