/* SPDX-License-Identifier: Apache-2.0 */
/* test_chosen_values.c: what an If in a loop chooses among values that the body has made, or hands on, is not copied: candidates that are taken
 * or not, one of two, what is put in another order or stays, two that change places, twice. Each runs 0 to 9 times, with several rows of
 * decisions, beside unshared memory and beside loops written out by hand. Small values, and what the caller gets as it is, are copied.
 */
#include "compiler/compiler.h"
#include "compiler/report/loop.h"
#include "runtime/executor.h"
#include "tests/support/support.h"
#include "tests/support/plan.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { ROWS = 32, COLUMNS = 40, ELEMENTS = ROWS * COLUMNS, MOST_TRIPS = 9 };

typedef void turn_function(float *p, float *q, bool first);

typedef struct chosen_case {
    const char *name;
    const char *body; /* of %p, %q and the decision %c: the new ones are %r and %s */
    turn_function *turn;
} chosen_case;

/* Row i becomes row 31 - i, twice as large: what MatMul with a turned unit matrix makes, exactly. */
static void make(const float *from, float *to) {
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < COLUMNS; k++) to[i * COLUMNS + k] = 2 * from[(ROWS - 1 - i) * COLUMNS + k];
}

static void copy(const float *from, float *to) {
    memcpy(to, from, ELEMENTS * sizeof *to);
}

static void taken_or_not(float *p, float *q, bool first) {
    float y[ELEMENTS];
    (void)q;
    make(p, y);
    if (first) copy(y, p);
}

static void one_of_two(float *p, float *q, bool first) {
    float y[ELEMENTS], z[ELEMENTS];
    (void)q;
    make(p, y);
    make(y, z);
    copy(first ? y : z, p);
}

static void turned_or_not(float *p, float *q, bool first) {
    float y[ELEMENTS];
    (void)q;
    make(p, y);
    copy(y, p);
    for (int i = 0; i < ROWS && first; i++)
        memcpy(p + i * COLUMNS, y + (i + 1) % ROWS * COLUMNS, COLUMNS * sizeof *p);
}

static void places_changed_twice(float *p, float *q, bool first) {
    float y[ELEMENTS], old[ELEMENTS];
    make(p, y);
    copy(q, old);
    copy(first ? old : y, p);
    copy(first ? y : old, q);
    if (first) return;
    copy(q, y);
    copy(p, q);
    copy(y, p);
}

#define T "float32[32,40]"
static const chosen_case cases[] = {
    {"a candidate is taken or not",
     "%y: " T " = MatMul(%w, %p) %r: " T " = If(%c) { graph then() { yield %y } graph else() { yield %p } }\n"
     "%s: " T " = Identity(%q)",
     taken_or_not},
    {"one of two is taken",
     "%y: " T " = MatMul(%w, %p) %o: " T " = MatMul(%w, %y)\n"
     "%r: " T " = If(%c) { graph then() { yield %y } graph else() { yield %o } } %s: " T " = Identity(%q)",
     one_of_two},
    {"rows are put in another order, or stay",
     "%y: " T " = MatMul(%w, %p) %s: " T " = Identity(%q)\n"
     "%r: " T " = If(%c) { graph then() { %g: " T
     " = Gather(%y, %turned) {axis = 0} yield %g } graph else() { yield %y } }",
     turned_or_not},
    {"two values change places, twice",
     "%y: " T " = MatMul(%w, %p)\n"
     "%a: " T ", %b: " T " = If(%c) { graph then() { yield %q, %y } graph else() { yield %y, %q } }\n"
     "%r: " T ", %s: " T " = If(%c) { graph then() { yield %a, %b } graph else() { yield %b, %a } }",
     places_changed_twice},
};
enum { CASES = sizeof cases / sizeof *cases };

static void write_module(const chosen_case *of, bool caller, char *text, size_t capacity) {
    char turned[512];
    int used = 0;
    for (int i = 0; i < ROWS; i++)
        used += snprintf(turned + used, sizeof turned - (size_t)used, i ? ", %d" : "%d", (i + 1) % ROWS);
    used = snprintf(
        text, capacity,
        "module \"chosen\" { constant %%turned: int64[32] = {%s} constant %%half: float32[] = {0.5}\n"
        " graph main(%%x: " T ", %%z: " T ", %%w: float32[32,32], %%f: float32[9], %%n: int64[]) {\n"
        "  %%u: " T ", %%v: " T " = Loop(%%n, _, %%x, %%z) {\n"
        "   graph body(%%i: int64[], %%k: bool[], %%p: " T ", %%q: " T ") {\n"
        "    %%e: float32[] = Gather(%%f, %%i) {axis = 0} %%c: bool[] = Less(%%e, %%half)\n"
        "    %s\n    yield %%k, %%r, %%s } }\n"
        "  %%l: " T " = Neg(%%u) %%m: " T " = Neg(%%v) yield %s } }",
        turned, of->body, caller ? "%u, %v" : "%l, %m");
    assert_true(used > 0 && (size_t)used < capacity);
}

static uint64_t copied_bytes(const plan *of) {
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < of->header->nodes.count; k++) {
        emit_loop loop;
        bytes += emit_loop_copied(of, &of->nodes[k]);
        if (plan_node_code(of, &of->nodes[k]) != OP_LOOP) continue;
        assert_true(emit_loop_measure(of, k, &loop));
        bytes += loop.iteration_bytes;
    }
    return bytes;
}

static void run_case(const chosen_case *of, bool caller) {
    static float x[ELEMENTS], z[ELEMENTS], w[ROWS * ROWS];
    char text[6000];
    support_session on;
    for (int i = 0; i < ELEMENTS; i++) {
        x[i] = (float)(i % 13) - 6;
        z[i] = (float)(i % 7) - 3;
    }
    for (int i = 0; i < ROWS; i++) w[i * ROWS + ROWS - 1 - i] = 2;
    write_module(of, caller, text, sizeof text);
    support_session_open(&on, text, 1);
    const uint64_t bytes = copied_bytes(on.session->of);
    if (!caller && bytes)
        fail_msg("%s: %llu bytes are copied in each iteration", of->name, (unsigned long long)bytes);
    for (int64_t trips = 0; trips <= MOST_TRIPS; trips++) {
        for (int form = 0; form < 6; form++) {
            float flags[MOST_TRIPS], p[ELEMENTS], q[ELEMENTS];
            for (int t = 0; t < MOST_TRIPS; t++) flags[t] = (float)((t * 5 + form * (t / 2 + 1)) % 3 == 0);
            copy(x, p);
            copy(z, q);
            for (int64_t t = 0; t < trips; t++) of->turn(p, q, flags[t] < 0.5f);
            support_bind(&on, 0, x, sizeof x);
            support_bind(&on, 1, z, sizeof z);
            support_bind(&on, 2, w, sizeof w);
            support_bind(&on, 3, flags, sizeof flags);
            support_bind(&on, 4, &trips, sizeof trips);
            support_run(&on);
            const float *u = support_output(&on, 0, sizeof p), *v = support_output(&on, 1, sizeof q);
            for (int i = 0; i < ELEMENTS; i++)
                if (u[i] != (caller ? p[i] : -p[i]) || v[i] != (caller ? q[i] : -q[i]))
                    fail_msg("%s: element %d after %d iterations is %g and %g", of->name, i, (int)trips,
                             (double)u[i], (double)v[i]);
        }
    }
    support_session_close(&on);
}

static void chosen_values_are_not_copied(void **state) {
    (void)state;
    for (size_t n = 0; n < CASES; n++) {
        run_case(&cases[n], false);
        run_case(&cases[n], true);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(chosen_values_are_not_copied)};
    return cmocka_run_group_tests_name("chosen values", tests, NULL, NULL);
}
