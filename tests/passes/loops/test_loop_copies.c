/* SPDX-License-Identifier: Apache-2.0 */
/* test_loop_copies.c: the smallest loops that could be thought to copy something, and what they may copy at most: nothing, but
 * for what the comment of a case says. Each runs 0 to 7 times, also beside unshared memory, and beside an interpreter that is
 * written here by hand for each (`expect`).
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

enum { ELEMENTS = 4, MOST_TRIPS = 7, MOST_OUTPUT = ELEMENTS * (MOST_TRIPS + 4) };

typedef struct row {
    float at[ELEMENTS];
} row;

typedef struct copy_case {
    const char *name;
    const char *text; /* %d stands for the number of iterations, %s for more constants */
    /* Output 0 for inputs a, b and so many iterations: returns how many elements it has. */
    size_t (*expect)(const float *a, const float *b, int trips, float *output);
    uint64_t iteration, entry; /* bytes copied in each iteration, and when the loop is entered and left */
} copy_case;

/* x after `trips` times x <= -2x. */
static size_t doubled(const float *a, const float *b, int trips, float *output) {
    (void)b;
    for (int i = 0; i < ELEMENTS; i++) output[i] = a[i];
    for (int t = 0; t < trips; t++)
        for (int i = 0; i < ELEMENTS; i++) output[i] *= -2;
    return ELEMENTS;
}

/* x <= x + row t of b (as a square). */
static size_t summed_rows(const float *a, const float *b, int trips, float *output) {
    for (int i = 0; i < ELEMENTS; i++) output[i] = a[i];
    for (int t = 0; t < trips && t < ELEMENTS; t++)
        for (int i = 0; i < ELEMENTS; i++) output[i] += b[t * ELEMENTS + i];
    return ELEMENTS;
}

/* The stack of all x. */
static size_t stacked(const float *a, const float *b, int trips, float *output) {
    for (int t = 0; t < trips; t++) (void)doubled(a, b, t + 1, output + t * ELEMENTS);
    return (size_t)(trips * ELEMENTS);
}

/* The old condition ends the loop one iteration after the new one does not hold: x <= -2x while t - 1 < 2. */
static size_t doubled_while(const float *a, const float *b, int trips, float *output) {
    return doubled(a, b, trips < 4 ? trips : 4, output);
}

/* x <= x scattered over itself: as it was. */
static size_t unchanged(const float *a, const float *b, int trips, float *output) {
    (void)b, (void)trips;
    for (int i = 0; i < ELEMENTS; i++) output[i] = a[i];
    return ELEMENTS;
}

/* The stack of all old x, and then of all new ones, with their signs turned. */
static size_t stacked_old(const float *a, const float *b, int trips, float *output) {
    for (int t = 0; t < trips; t++) (void)doubled(a, b, t, output + t * ELEMENTS);
    for (int i = 0; i < trips * ELEMENTS; i++) output[i] = -output[i];
    return (size_t)(trips * ELEMENTS);
}

/* The differences of the two. */
static size_t stacked_steps(const float *a, const float *b, int trips, float *output) {
    float next[MOST_OUTPUT];
    const size_t count = stacked_old(a, b, trips, output);
    (void)stacked(a, b, trips, next);
    for (size_t i = 0; i < count; i++) output[i] = next[i] + output[i];
    return count;
}

/* The old x from the last one to the first. */
static size_t stacked_backwards(const float *a, const float *b, int trips, float *output) {
    for (int t = 0; t < trips; t++) (void)doubled(a, b, t, output + (trips - 1 - t) * ELEMENTS);
    for (int i = 0; i < trips * ELEMENTS; i++) output[i] = -output[i];
    return (size_t)(trips * ELEMENTS);
}

/* What x is after `trips` times x <= -2x, less the last of these that was kept: those with t % 5 < 2. `old`: what it was before. */
static size_t less_kept(const float *a, int trips, bool old, float *output) {
    float kept[ELEMENTS], x[ELEMENTS];
    (void)doubled(a, NULL, trips, x);
    for (int i = 0; i < ELEMENTS; i++) kept[i] = -a[i];
    for (int t = 0; t < trips; t++)
        if (t % 5 < 2) (void)doubled(a, NULL, old ? t : t + 1, kept);
    for (int i = 0; i < ELEMENTS; i++) output[i] = x[i] - kept[i];
    return ELEMENTS;
}

static size_t less_kept_new(const float *a, const float *b, int trips, float *output) {
    (void)b;
    return less_kept(a, trips, false, output);
}

static size_t less_kept_old(const float *a, const float *b, int trips, float *output) {
    (void)b;
    return less_kept(a, trips, true, output);
}

#define V "float32[4]"
#define S "float32[4,4]"
#define HEAD                                                                                                 \
    "module \"copies\" { constant %n: int64[] = {TRIPS} constant %two: " V " = {-2, -2, -2, -2}\n"           \
    " constant %first: int64[1] = {0} constant %both: int64[2] = {0, 1} constant %last: int64[] = {2} "      \
    "constant %five: int64[] = {5} constant %twos: " S                                                       \
    " = {-2, 0, 0, 0, 0, -2, 0, 0, 0, 0, -2, 0, 0, 0, 0, -2} constant %indices: int64[4,1] = {0, 1, 2, 3} "  \
    "constant %at: int64[4] = "                                                                              \
    "{0, 1, 2, 3}\n"                                                                                         \
    " graph main(%a: " V ", %b: " S ") {\n"
/* The last value that was kept, beside the one that goes on. */
#define R "float32[1,4]"
/* The last value that was kept, beside the one that goes on. */
#define KEEP(make, kept)                                                                                     \
    HEAD " %u: " R " = Unsqueeze(%a, %first) %v: " R " = Neg(%u)\n"                                          \
         " %p: " R ", %q: " R " = Loop(%n, _, %u, %v) { " BODY ", %x: " R ", %best: " R ") {\n"              \
         " %t: int64[] = Mod(%i, %five) %c: bool[] = Less(%t, %last) %y: " R " = " make "\n"                 \
         " %r: " R " = If(%c) { graph keep() { yield " kept " } graph go_on() { yield %best } }\n"           \
         " %go: bool[] = Less(%i, %n) yield %go, %y, %r } }\n"                                               \
         " %d: " R " = Sub(%p, %q) %o: " V " = Squeeze(%d, %first) yield %o } }"
enum { KEPT = 16 /* the difference is made over one of the two, which is copied there */ };
#define BODY "graph body(%i: int64[], %k: bool[]"

static const copy_case cases[] = {
    {"a carried value that nobody wants",
     HEAD " %o: " V ", _ = Loop(%n, _, %a, %b) { " BODY ", %x: " V ", %y: " S ") {\n"
          " %r: " V " = Mul(%x, %two) %s: " S " = Exp(%y) yield %k, %r, %s } } yield %o } }",
     doubled, 0, 0},
    {"two that nobody wants, and that read each other",
     HEAD " %o: " V ", _, _ = Loop(%n, _, %a, %b, %b) { " BODY ", %x: " V ", %y: " S ", %z: " S ") {\n"
          " %r: " V " = Mul(%x, %two) %s: " S " = Add(%y, %z) yield %k, %r, %z, %s } } yield %o } }",
     doubled, 0, 0},
    {"a stack of the old state that nobody wants",
     HEAD " %o: " V ", _ = Loop(%n, _, %a) {ouro.scan_outputs = 1} { " BODY ", %x: " V ") {\n"
          " %r: " V " = Mul(%x, %two) %s: " V " = Identity(%x) yield %k, %r, %s } } yield %o } }",
     doubled, 0, 0},
    {"a stack that another loop would need, which nobody wants",
     HEAD " %o: " V ", %q: " S " = Loop(%n, _, %a, %b) { " BODY ", %x: " V ", %y: " S ") {\n"
          " %r: " V " = Mul(%x, %two) %s: " S " = Neg(%y) yield %k, %r, %s } }\n"
          " _ = Loop(%n, _, %q) { graph other(%j: int64[], %l: bool[], %z: " S ") { %w: " S
          " = Exp(%z) yield %l, %w } } yield %o } }",
     doubled, 0, 0},
    {"an output of branches that nobody wants",
     HEAD " %o: " V " = Loop(%n, _, %a) { " BODY ", %x: " V ") {\n"
          " %c: bool[] = Less(%i, %last) %r: " V ", _ = If(%c) { graph then() { %p: " V
          " = Mul(%x, %two) yield %p, %b } graph else() { %q: " V " = Mul(%two, %x) %e: " S
          " = Exp(%b) yield %q, %e } }\n yield %k, %r } } yield %o } }",
     doubled, 0, 0},
    {"a slice that nobody reads, along the second axis",
     HEAD " %o: " V " = Loop(%four, _, %a, %b) {ouro.scan_inputs = 1, ouro.scan_input_axes = [1]} { " BODY
          ", %x: " V ", %y: " V ") { %r: " V " = Mul(%x, %two) yield %k, %r } } yield %o } }",
     doubled, 0, 0},
    {"an axis that is counted from the last, and is the first",
     HEAD " %v: " S " = Neg(%b) %o: " V
          " = Loop(_, _, %a, %v) {ouro.scan_inputs = 1, ouro.scan_input_axes = [-2]} { " BODY ", %x: " V
          ", %y: " V ") { %r: " V " = Sub(%x, %y) yield %k, %r } } yield %o } }",
     summed_rows, 0, 0},
    {"slices along the second axis, of which the first has one element",
     HEAD
     " %v: float32[1,4,4] = Unsqueeze(%b, %first) %c: float32[1,4] = Unsqueeze(%a, %first)\n"
     " %o: float32[1,4] = Loop(%four, _, %c, %v) {ouro.scan_inputs = 1, ouro.scan_input_axes = [1]} { " BODY
     ", %x: float32[1,4], %y: float32[1,4]) { %r: float32[1,4] = Add(%x, %y) yield %k, %r } }\n"
     " %f: " V " = Squeeze(%o, %first) yield %f } }",
     summed_rows, 0, 0},
    {"a stack along such an axis",
     HEAD
     " %c: float32[1,4] = Unsqueeze(%a, %first)\n"
     " _, %s: float32[1,?,4] = Loop(%n, _, %c) {ouro.scan_outputs = 1, ouro.scan_output_axes = [1]} { " BODY
     ", %x: float32[1,4]) { %r: float32[1,4] = Mul(%x, %two) yield %k, %r, %r } } yield %s } }",
     stacked, 0, 0},
    {"elements that are taken at the counter are slices",
     HEAD " %o: " V " = Loop(%four, _, %a) { " BODY ", %x: " V ") {\n"
          " %y: " V " = Gather(%b, %i) {axis = 0} %r: " V " = Add(%x, %y) yield %k, %r } } yield %o } }",
     summed_rows, 0, 0},
    {"and with an axis of one, from a tensor with one image",
     HEAD " %v: float32[1,4,4] = Unsqueeze(%b, %first) %c: float32[1,1,4] = Unsqueeze(%a, %both)\n"
          " %o: float32[1,1,4] = Loop(%four, _, %c) { " BODY ", %x: float32[1,1,4]) {\n"
          " %j: int64[1] = Unsqueeze(%i, %first) %y: float32[1,1,4] = Gather(%v, %j) {axis = 1}\n"
          " %r: float32[1,1,4] = Add(%x, %y) yield %k, %r } }\n %f: " V " = Squeeze(%o, %both) yield %f } }",
     summed_rows, 0, 0},
    {"the condition is a flag that is replaced in the same iteration",
     HEAD " %yes: bool[] = Less(%n, %n) %t: bool[] = Not(%yes)\n"
          " %o: " V ", %f: bool[] = Loop(%n, _, %a, %t) { " BODY ", %x: " V ", %p: bool[]) {\n"
          " %r: " V " = Mul(%x, %two) %q: bool[] = Less(%i, %last) yield %p, %r, %q } } yield %o, %f } }",
     doubled_while, 0, 1 /* the flag, to the caller */},
    {"a carried value is scattered over itself",
     HEAD " %o: " V " = Loop(%n, _, %a) { " BODY ", %x: " V ") {\n"
          " %y: " V " = ScatterND(%x, %indices, %x) yield %k, %y } } yield %o } }",
     unchanged, 0, 0},
    {"a carried value is scattered over itself, along an axis",
     HEAD " %o: " V " = Loop(%n, _, %a) { " BODY ", %x: " V ") {\n"
          " %y: " V " = ScatterElements(%x, %at, %x) yield %k, %y } } yield %o } }",
     unchanged, 0, 0},
    {"a stack of the old state: the first is copied there",
     HEAD " _, %s: float32[?,4] = Loop(%n, _, %a) {ouro.scan_outputs = 1} { " BODY ", %x: " V ") {\n"
          " %r: " V " = Mul(%x, %two) yield %k, %r, %x } } %o: float32[?,4] = Neg(%s) yield %o } }",
     stacked_old, 0, 16},
    {"a stack of the old state, and one of the new one",
     HEAD " _, %s: float32[?,4], %t: float32[?,4] = Loop(%n, _, %a) {ouro.scan_outputs = 2} { " BODY
          ", %x: " V ") {\n %r: " V
          " = Mul(%x, %two) yield %k, %r, %x, %r } } %o: float32[?,4] = Sub(%t, %s) yield %o } }",
     stacked_steps, 0, 16},
    {"a stack of the old state from the last to the first: it is copied, which counts for the node and for "
     "the loop",
     HEAD " _, %s: float32[?,4] = Loop(%n, _, %a) {ouro.scan_outputs = 1, ouro.scan_output_directions = [1]} "
          "{ " BODY ", %x: " V ") {\n"
          " %r: " V " = Mul(%x, %two) yield %k, %r, %x } } %o: float32[?,4] = Neg(%s) yield %o } }",
     stacked_backwards, 32, 0},
    {"what is made is kept in some iterations, beside what it is made over", KEEP("Mul(%x, %two)", "%y"),
     less_kept_new, 0, KEPT},
    {"what is made is kept in some iterations, beside what it is made of", KEEP("MatMul(%x, %twos)", "%y"),
     less_kept_new, 0, KEPT},
    {"what was there before is kept in some iterations, and written over", KEEP("Mul(%x, %two)", "%x"),
     less_kept_old, 0, KEPT},
    {"what was there before is kept in some iterations", KEEP("MatMul(%x, %twos)", "%x"), less_kept_old, 0,
     0},
};
enum { CASES = sizeof cases / sizeof *cases };

/* The text with the number of iterations in it. */
static void write_case(const copy_case *of, int trips, char *text, size_t capacity) {
    const char *at = strstr(of->text, "TRIPS");
    int written =
        snprintf(text, capacity, "%.*s%d%s", (int)(at - of->text), of->text, trips, at + strlen("TRIPS"));
    assert_true(written > 0 && (size_t)written < capacity);
    for (char *four = text; (four = strstr(four, "%four")); four++) memcpy(four, "%n   ", 5);
}

static void nothing_is_copied(void **state) {
    (void)state;
    for (size_t n = 0; n < CASES; n++) {
        const copy_case *of = &cases[n];
        for (int trips = 0; trips <= MOST_TRIPS; trips++) {
            char text[4096];
            float a[ELEMENTS] = {1, -2, 3, 0.5f}, b[ELEMENTS * ELEMENTS], expected[MOST_OUTPUT];
            support_session on;
            uint64_t iteration = 0, entry = 0;
            const bool square = strstr(of->text, "%four") || strstr(of->text, "Loop(_"); /* four slices */
            if (square && trips != ELEMENTS) continue;
            for (int i = 0; i < ELEMENTS * ELEMENTS; i++) b[i] = (float)(i % 7) - 3;
            write_case(of, trips, text, sizeof text);
            support_session_open(&on, text, 1);
            const plan *of_case = on.session->of;
            for (uint32_t k = 0; k < of_case->header->nodes.count; k++) {
                emit_loop loop;
                if (plan_node_code(of_case, &of_case->nodes[k]) == OP_GATHER)
                    fail_msg("%s: an element is copied", of->name);
                iteration += emit_loop_copied(of_case, &of_case->nodes[k]);
                if (plan_node_code(of_case, &of_case->nodes[k]) != OP_LOOP) continue;
                assert_true(emit_loop_measure(of_case, k, &loop));
                iteration += loop.iteration_bytes;
                entry += loop.entry_bytes;
            }
            if (trips > 0 && (iteration > of->iteration || entry > of->entry))
                fail_msg("%s: %llu bytes are copied in each iteration, %llu when the loop is entered or left",
                         of->name, (unsigned long long)iteration, (unsigned long long)entry);
            support_bind(&on, 0, a, sizeof a);
            support_bind(&on, 1, b, sizeof b);
            support_run(&on);
            const size_t elements = of->expect(a, b, trips, expected);
            const float *is = support_output(&on, 0, elements * sizeof(float));
            for (size_t i = 0; i < elements; i++)
                if (is[i] != expected[i])
                    fail_msg("%s: element %zu is %g after %d iterations, expected %g", of->name, i,
                             (double)is[i], trips, (double)expected[i]);
            support_session_close(&on);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_copied)};
    return cmocka_run_group_tests_name("loop copies", tests, NULL, NULL);
}
