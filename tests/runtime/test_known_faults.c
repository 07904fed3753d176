/* SPDX-License-Identifier: Apache-2.0 */
/* test_known_faults.c: faults that other planners of memory have had, each as the smallest program that would show it. What a program computes
 * stands beside it in C; each runs 0, 1, 2, 3 and 8 iterations, beside its shadow, and leaves the caller's inputs as they were. */
#include "tests/support/plan.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { SIZE = 4, MOST_OUTPUTS = 3 };

typedef float row[SIZE];

typedef struct known_fault {
    const char *name; /* what it guards against, and where that was */
    const char *body; /* of main, from %n: int64[], %x and %y: float32[4] */
    int outputs;
    void (*expected)(int64_t n, const float *x, const float *y, row *out);
} known_fault;

#define EACH for (int e = 0; e < SIZE; e++)
#define R "float32[4]"
#define BODY "graph body(%i: int64[], %k: bool[]"

static void boundary(int64_t n, const float *x, const float *y, row *out) {
    EACH {
        const float outer = -x[e];
        float a = y[e];
        for (int64_t t = 0; t < n; t++) a = (a + outer) - a * outer;
        out[0][e] = a + outer;
    }
}

static void live_output(int64_t n, const float *x, const float *y, row *out) {
    EACH {
        out[0][e] = x[e] + y[e];
        out[1][e] = n > 1 ? (x[e] - y[e]) * (x[e] + x[e]) : -(y[e] * y[e]);
    }
}

static void freed_early(int64_t n, const float *x, const float *y, row *out) {
    EACH {
        float a = x[e], b = y[e];
        for (int64_t t = 0; t < n; t++) {
            const float next = a + b;
            b = next * a; /* a is read after its replacement is there */
            a = next;
        }
        out[0][e] = a, out[1][e] = b;
    }
}

static void donated(int64_t n, const float *x, const float *y, row *out) {
    EACH {
        float a = x[e];
        for (int64_t t = 0; t < n; t++) a = a + y[e];
        out[0][e] = a, out[1][e] = x[e] + a;
    }
}

static void mutation(int64_t n, const float *x, const float *y, row *out) {
    EACH out[0][e] = e == 1 && n > 0 ? y[0] : -x[e];
}

static void unused_input(int64_t n, const float *x, const float *y, row *out) {
    EACH {
        float a = x[e], unread = y[e];
        for (int64_t t = 0; t < n; t++) {
            unread = -a;
            a = a + 1;
        }
        out[0][e] = a, out[1][e] = unread;
    }
}

static void empty_branch(int64_t n, const float *x, const float *y, row *out) {
    EACH {
        float a = -x[e];
        for (int64_t t = 0; t < n; t++) a = t < 1 ? a : a + y[e];
        out[0][e] = a;
    }
}

static void yielded_twice(int64_t n, const float *x, const float *y, row *out) {
    EACH {
        float a = x[e], b = y[e];
        for (int64_t t = 0; t < n; t++) {
            a = a + b;
            b = a;
        }
        out[0][e] = a, out[1][e] = b;
    }
}

static void across_view(int64_t n, const float *x, const float *y, row *out) {
    (void)n;
    EACH {
        const float whole = -x[e], other = y[e] + y[e];
        out[0][e] = other * other + whole;
    }
}

static void no_consumer(int64_t n, const float *x, const float *y, row *out) {
    (void)n;
    EACH out[0][e] = -x[e] + y[e];
}

static void as_a_set(int64_t n, const float *x, const float *y, row *out) {
    EACH {
        float a = -x[e], b = -y[e], c = x[e] + y[e];
        for (int64_t t = 0; t < n; t++) {
            const float first = a;
            a = b, b = c, c = first - 1;
        }
        out[0][e] = a, out[1][e] = b, out[2][e] = c;
    }
}

static void one_iteration(int64_t n, const float *x, const float *y, row *out) {
    EACH {
        float a = x[e], sum = y[e];
        for (int64_t t = 0; t < n; t++) {
            const float once = a + a;
            sum = sum + once;
            a = sum * y[e];
        }
        out[0][e] = sum;
    }
}

static const known_fault faults[] = {
    {"tensors of a body overlap outer ones at the loop's boundary",
     "%o: " R " = Neg(%x) %a: " R " = Loop(%n, _, %y) { " BODY ", %p: " R ") { %s: " R " = Add(%p, %o) %m: " R
     " = Mul(%p, %o) %d: " R " = Sub(%s, %m) yield %k, %d } } %r: " R " = Add(%a, %o) yield %r",
     1, boundary},
    {"a branch's memory aliases an output that is live (ExecuTorch 21490)",
     "%l: " R " = Add(%x, %y) %go: bool[] = Less(%one_n, %n) %b: " R " = If(%go) { graph yes() { %s: " R
     " = Sub(%x, %y) %t: " R " = Add(%x, %x) %u: " R " = Mul(%s, %t) yield %u } graph no() { %v: " R
     " = Mul(%y, %y) %w: " R " = Neg(%v) yield %w } } yield %l, %b",
     2, live_output},
    {"a carried buffer is freed too early (IREE 24885)",
     "%a: " R ", %b: " R " = Loop(%n, _, %x, %y) { " BODY ", %p: " R ", %q: " R ") { %s: " R
     " = Add(%p, %q) %m: " R " = Mul(%s, %p) yield %k, %s, %m } } yield %a, %b",
     2, freed_early},
    {"an input that a loop starts with is written over, or copied each time (XLA 20440)",
     "%a: " R " = Loop(%n, _, %x) { " BODY ", %p: " R ") { %s: " R " = Add(%p, %y) yield %k, %s } } %r: " R
     " = Add(%x, %a) yield %a, %r",
     2, donated},
    {"a mutation within a loop is lost (PyTorch 195966)",
     "%o: " R " = Neg(%x) %a: " R " = Loop(%n, _, %o) { " BODY ", %p: " R
     ") { %f: float32[1], %g: float32[3] = Split(%y, %parts) "
     "{axis = 0} %s: " R " = ScatterElements(%p, %first, %f) {axis = 0} yield %k, %s } } yield %a",
     1, mutation},
    {"a parameter that nobody reads is still replaced",
     "%a: " R ", %b: " R " = Loop(%n, _, %x, %y) { " BODY ", %p: " R ", %q: " R ") { %m: " R
     " = Neg(%p) %s: " R " = Add(%p, %one) yield %k, %s, %m } } yield %a, %b",
     2, unused_input},
    {"a branch without a node hands on what is around it",
     "%o: " R " = Neg(%x) %a: " R " = Loop(%n, _, %o) { " BODY ", %p: " R
     ") { %go: bool[] = Less(%i, %one_n) %b: " R " = If(%go) { graph yes() { yield %p } graph no() { %s: " R
     " = Add(%p, %y) yield %s } } yield %k, %b } } yield %a",
     1, empty_branch},
    {"a value that is yielded twice is used again while it is live",
     "%a: " R ", %b: " R " = Loop(%n, _, %x, %y) { " BODY ", %p: " R ", %q: " R ") { %s: " R
     " = Add(%p, %q) yield %k, %s, %s } } yield %a, %b",
     2, yielded_twice},
    {"memory is used again while a view of it is read",
     "%w: " R " = Neg(%x) %v: float32[2,2] = Reshape(%w, %square) %d: " R " = Add(%y, %y) %e: " R
     " = Mul(%d, %d) %f: " R " = Reshape(%v, %line) %r: " R " = Add(%e, %f) yield %r",
     1, across_view},
    {"an output without a consumer is written over something",
     "%o: " R " = Neg(%x) %f: float32[1], %g: float32[3] = Split(%o, %parts) {axis = 0} %t: " R
     ", %j: int64[4] = TopK(%o, %four) "
     "{axis = 0} %r: " R " = Add(%o, %y) yield %r",
     1, no_consumer},
    {"carried values that move as a set are moved one after another",
     "%o: " R " = Neg(%x) %h: " R " = Neg(%y) %l: " R " = Add(%x, %y) %a: " R ", %b: " R ", %c: " R
     " = Loop(%n, _, %o, %h, %l) { " BODY ", %p: " R ", %q: " R ", %r: " R ") { %s: " R
     " = Sub(%p, %one) yield %k, %q, %r, %s } } yield %a, %b, %c",
     3, as_a_set},
    {"a carried value that lives for one iteration loses its memory to its replacement",
     "%a: " R ", %b: " R " = Loop(%n, _, %x, %y) { " BODY ", %p: " R ", %q: " R ") { %d: " R
     " = Add(%p, %p) %s: " R " = Add(%q, %d) %m: " R " = Mul(%s, %y) yield %k, %m, %s } } yield %b",
     1, one_iteration},
};

static void run_fault(const known_fault *fault, int64_t trips) {
    char text[2048];
    row x = {1, -2, 3, 0.5f}, y = {2, 1, -1, 0.25f}, out[MOST_OUTPUTS];
    support_session opened;
    snprintf(text, sizeof text,
             "module \"m\" { constant %%one: float32[] = {1.0} constant %%one_n: int64[] = {1} constant "
             "%%parts: int64[2] = {1, 3}\n"
             " constant %%first: int64[1] = {1} constant %%four: int64[1] = {4} constant %%square: int64[2] "
             "= {2, 2}\n"
             " constant %%line: int64[1] = {4} graph main(%%n: int64[], %%x: " R ", %%y: " R ") {\n %s } }\n",
             fault->body);
    fault->expected(trips, x, y, out);
    support_session_open(&opened, text, 1);
    support_bind(&opened, 0, &trips, sizeof trips);
    support_bind(&opened, 1, x, sizeof x);
    support_bind(&opened, 2, y, sizeof y);
    for (int again = 0; again < 2; again++) {
        support_run(&opened);
        for (int i = 0; i < fault->outputs; i++) {
            const float *given = support_output(&opened, (size_t)i, sizeof *out);
            if (memcmp(given, out[i], sizeof *out) != 0)
                fail_msg("%s: %d iterations, output %d: %g %g %g %g, expected %g %g %g %g", fault->name,
                         (int)trips, i, (double)given[0], (double)given[1], (double)given[2],
                         (double)given[3], (double)out[i][0], (double)out[i][1], (double)out[i][2],
                         (double)out[i][3]);
        }
    }
    assert_memory_equal(x, ((row){1, -2, 3, 0.5f}), sizeof x);
    assert_memory_equal(y, ((row){2, 1, -1, 0.25f}), sizeof y);
    support_session_close(&opened);
}

static void faults_of_others(void **state) {
    (void)state;
    const int64_t trips[] = {0, 1, 2, 3, 8};
    for (size_t f = 0; f < sizeof faults / sizeof *faults; f++)
        for (size_t t = 0; t < sizeof trips / sizeof *trips; t++) run_fault(&faults[f], trips[t]);
}

/* A dimension is what the run says, each time: planned as if it were the first one, memory would be too small, or an output that is the input
 * would keep its old shape. */
static void dynamic_dimensions_are_not_static(void **state) {
    (void)state;
    const char *text =
        "module \"m\" { symbol N constant %one: float32[] = {1.0} graph main(%x: float32[N,4]) {\n"
        " %a: float32[N,4] = Add(%x, %one) %b: float32[N,4] = Mul(%a, %a) %c: float32[N,4] = Sub(%b, %a)\n"
        " %i: float32[N,4] = Identity(%x) yield %c, %i } }\n";
    const int64_t rows[] = {2, 5, 1, 7, 7, 0, 3};
    support_session opened;
    float x[7 * 4];
    support_session_open(&opened, text, 1);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        const int64_t dims[2] = {rows[r], SIZE};
        const size_t bytes = (size_t)rows[r] * SIZE * sizeof(float);
        ouro_error error;
        for (int e = 0; e < rows[r] * SIZE; e++) x[e] = (float)(e + (int)r);
        if (ouro_session_bind_input(opened.session, 0, x, bytes, dims, &error) != OURO_OK)
            fail_msg("%s", error.message);
        support_run(&opened);
        const float *c = support_output(&opened, 0, bytes), *same = support_output(&opened, 1, bytes);
        for (int e = 0; e < rows[r] * SIZE; e++) {
            const float a = x[e] + 1;
            assert_true(c[e] == a * a - a && same[e] == x[e]);
        }
    }
    support_session_close(&opened);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(faults_of_others),
                                       cmocka_unit_test(dynamic_dimensions_are_not_static)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
