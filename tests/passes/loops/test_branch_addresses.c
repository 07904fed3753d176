/* SPDX-License-Identifier: Apache-2.0 */
/* test_branch_addresses.c: branches that hand on what is there already choose an address where that is the same, and copy elsewhere. Each
 * case runs with every tensor in memory of its own, too.
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

enum { ELEMENTS = 4, MOST_TRIPS = 5 };

#define V "float32[4]"
#define LOOP(body)                                                                                           \
    "%o: " V " = Loop(%n, _, %a) { graph body(%i: int64[], %k: bool[], %x: " V                               \
    ") { %c: bool[] = Less(%i, %two)\n" body " yield %k, %y } } yield %o"
#define IF(name, type, then, otherwise)                                                                      \
    name ": " type " = If(%c) { graph yes() { yield " then " } graph no() { yield " otherwise " } } "

typedef struct branch_case {
    const char *name,
        *main;   /* after inputs n, a and b; each step adds a while t < 2, and then what `second` says */
    bool chosen; /* an address; else the branches copy */
    float first, second; /* of b and a: what is added in the first steps, and after them */
} branch_case;

/* The output is a + 2 * (first, as a multiple of a and b) ...: see expect(). */
static const branch_case cases[] = {
    {"inputs", LOOP(IF("%r", V, "%a", "%b") "%y: " V " = Add(%x, %r)"), true, 0, 0},
    {"an input and a constant", LOOP(IF("%r", V, "%a", "%m") "%y: " V " = Add(%x, %r)"), true, 0, 1},
    {"values that are made before the loop",
     "%d: " V " = Abs(%a) %e: " V
     " = Exp(%b) " LOOP(IF("%r", V, "%d", "%e") "%y: " V " = Add(%x, %r)") ", %d, %e",
     true, 2, 2},
    {"one is made in the body, before, and read by others",
     LOOP("%z: " V " = Mul(%x, %zero) %d: " V " = Add(%z, %b) %g: float32[1] = ReduceMax(%d) " IF(
         "%r", V, "%a", "%d") "%f: float32[1] = ReduceSum(%r) %h: " V " = Add(%x, %f) %y: " V
                              " = Add(%h, %g)"),
     true, 6, 0},
    {"read twice, also after other nodes",
     LOOP(IF("%r", V, "%a", "%b") "%s: " V " = Add(%x, %r) %t: " V " = Sub(%s, %r) %y: " V " = Add(%t, %r)"),
     true, 0, 0},
    {"two outputs",
     LOOP("%r: " V ", %q: " V
          " = If(%c) { graph yes() { yield %a, %b } graph no() { yield %b, %a } }\n %s: " V
          " = Sub(%r, %q) %t: " V " = Add(%s, %q) %y: " V " = Add(%x, %t)"),
     true, 0, 0},
    {"a branch in a branch, which decides at once",
     LOOP("%r: " V " = If(%c) { graph yes() { " IF(
         "%q", V, "%a", "%b") "%p: " V " = Mul(%q, %one) yield %p } graph no() { %l: " V
                              " = Mul(%b, %one) yield %l } }\n %y: " V " = Add(%x, %r)"),
     true, 0, 0},
    {"the carried value itself", LOOP(IF("%r", V, "%a", "%x") "%y: " V " = Sub(%x, %r)"), false, 4, 4},
    {"what a view reads",
     LOOP(IF("%r", V, "%a", "%b") "%f: float32[2,2] = Reshape(%r, %form) %g: float32[2,2] = Neg(%f) %h: " V
                                  " = Reshape(%g, %four) %y: " V " = Sub(%x, %h)"),
     false, 0, 0},
    {"what another branch reads",
     LOOP(IF("%r", V, "%a", "%b") "%s: " V " = If(%c) { graph yes2() { %d: " V
                                  " = Add(%x, %r) yield %d } graph no2() { %e: " V
                                  " = Add(%r, %x) yield %e } } %y: " V " = Mul(%s, %one)"),
     false, 0, 0},
    {"one is written over before it is read",
     LOOP("%z: " V " = Mul(%x, %zero) %d: " V
          " = Add(%z, %b) " IF("%r", V, "%a", "%d") "%e: " V " = Exp(%d) %f: " V " = Mul(%e, %zero) %g: " V
                                                    " = Add(%f, %r) %y: " V " = Add(%x, %g)"),
     false, 0, 0},
};

/* What is added in step t. */
static float added(const branch_case *of, int t, float a, float b, float x) {
    const bool then = t < 2;
    if (of->first == 2) return then ? (a < 0 ? -a : a) : of->second == 2 ? b : 0;
    if (of->first == 4) return then ? -a : -x;
    return then ? a : of->second == 1 ? 3 : of->second == 3 ? (b < 0 ? -b : b) : b;
}

static void count(const plan *of, bool *chosen, uint64_t *copied) {
    *chosen = false;
    *copied = 0;
    for (uint64_t v = 0; v < of->header->multiviews.count; v++)
        *chosen |= plan_node_code(of, &of->nodes[of->multiviews[v].loop]) == OP_IF;
    for (uint64_t n = 0; n < of->header->nodes.count; n++) *copied += emit_loop_copied(of, &of->nodes[n]);
}

static void branches_choose_addresses(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const branch_case *of = &cases[k];
        char text[4096];
        support_session on;
        bool chosen;
        uint64_t copied;
        const int length =
            snprintf(text, sizeof text,
                     "module \"branches\" { constant %%two: int64[] = {2} constant %%m: " V
                     " = {3, 3, 3, 3} constant %%zero: " V " = {0, 0, 0, 0} constant %%one: " V
                     " = {1, 1, 1, 1} constant %%form: int64[2] = {2, 2} constant %%four: int64[1] = {4}\n"
                     " graph main(%%n: int64[], %%a: " V ", %%b: " V ") {\n %s } }",
                     of->main);
        assert_true(length > 0 && (size_t)length < sizeof text);
        support_session_open(&on, text, 1);
        count(rt_plan_of(on.plan), &chosen, &copied);
        if (chosen != of->chosen || (chosen && copied))
            fail_msg("%s: %s, %d bytes are copied", of->name,
                     chosen ? "an address is chosen" : "no address is chosen", (int)copied);
        for (int64_t trips = 0; trips <= MOST_TRIPS; trips++) {
            const float a[ELEMENTS] = {1, -2, 3, -4}, b[ELEMENTS] = {5, 6, -7, -8};
            float wanted[ELEMENTS];
            support_bind(&on, 0, &trips, sizeof trips);
            support_bind(&on, 1, a, sizeof a);
            support_bind(&on, 2, b, sizeof b);
            support_run(&on);
            const float *is = support_output(&on, 0, sizeof wanted);
            for (int e = 0; e < ELEMENTS; e++) {
                wanted[e] = a[e];
                for (int t = 0; t < trips; t++) wanted[e] += added(of, t, a[e], b[e], wanted[e]);
                if ((of->first == 2 && trips > 2) || of->first == 6)
                    continue; /* beside unshared memory only */
                if (is[e] != wanted[e])
                    fail_msg("%s: element %d is %g after %d iterations, expected %g", of->name, e,
                             (double)is[e], (int)trips, (double)wanted[e]);
            }
        }
        support_session_close(&on);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(branches_choose_addresses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
