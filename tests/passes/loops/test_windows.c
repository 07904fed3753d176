/* SPDX-License-Identifier: Apache-2.0 */
/* test_windows.c: sliding windows of several lengths and steps, as states of runs and as carried values of loops, in both forms that
 * exporters write: what they are after each step, how many bytes move, and that no other addresses are accepted. */
#include "compiler/report/loop.h"
#include "compiler/report/state.h"
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { WIDTH = 2, MOST = 320, TEXT = 2048, TURNS = 3 };

typedef struct window_case {
    int positions, step;            /* of the window; how many come in each iteration */
    bool sliced_first;              /* Concat(Slice(x), d); else Slice(Concat(x, d)) */
    uint64_t period, copied, bytes; /* of states: iterations, bytes in each on average, all */
} window_case;

/* 8 bytes a position. What is kept: positions - step of them, or all. */
static const window_case cases[] = {
    {4, 1, true, 8, 3, 128},       {4, 3, true, 4, 2, 128},        {6, 2, true, 4, 8, 128},
    {2, 1, true, 4, 2, 64},        {30, 1, true, 32, 8, 512},      {300, 1, true, 64, 75, 5312},
    {4, 1, false, 8, 4, 128},      {2, 5, false, 4, 4, 192},       {7, 3, false, 8, 7, 256},
    {100, 1, false, 64, 25, 2112}, {100, 50, false, 4, 200, 2432},
};

static void say(char *text, const window_case *of, const char *head) {
    const int n = of->positions, k = of->step, all = n + k;
    int used =
        snprintf(text, TEXT,
                 "module \"window\" { constant %%none: int64[1] = {0} constant %%from: int64[1] = {%d} "
                 "constant %%to: int64[1] = {%d} %s",
                 k, of->sliced_first ? n : all, head);
    if (of->sliced_first)
        snprintf(
            text + used, TEXT - (size_t)used,
            " %%w: float32[%d,2] = Slice(%%x, %%from, %%to, %%none) %%y: float32[%d,2] = Concat(%%w, %%e) "
            "{axis = 0} %%s: float32[2] = ReduceSum(%%y, %%none) {keepdims = 0}",
            n - k, n);
    else
        snprintf(text + used, TEXT - (size_t)used,
                 " %%c: float32[%d,2] = Concat(%%x, %%e) {axis = 0} %%y: float32[%d,2] = Slice(%%c, %%from, "
                 "%%to, %%none) %%s: float32[2] = ReduceSum(%%c, %%none) {keepdims = 0}",
                 all, n);
}

/* What the window is after `step` new positions, and the sum that the model gives. */
static void slide(const window_case *of, float *window, const float *given, float *sum) {
    const int n = of->positions, k = of->step;
    float all[MOST * 2 * WIDTH];
    memcpy(all, window, (size_t)n * WIDTH * sizeof *all);
    for (int i = 0; i < k * WIDTH; i++) all[n * WIDTH + i] = -given[i];
    for (int c = 0; c < WIDTH; c++) {
        sum[c] = 0;
        for (int i = of->sliced_first ? k : 0; i < n + k; i++) sum[c] += all[i * WIDTH + c];
    }
    memcpy(window, all + k * WIDTH, (size_t)n * WIDTH * sizeof *all);
}

/* Small whole numbers, whose sums are exact. */
static void draw(float *values, int count, uint64_t *random) {
    for (int i = 0; i < count; i++) values[i] = (float)(support_random(random) % 17) - 8;
}

static void try_states(const window_case *of, bool check) {
    char text[TEXT], head[256];
    const int n = of->positions, k = of->step;
    snprintf(head, sizeof head,
             "graph main(%%x: float32[%d,2], %%d: float32[%d,2]) states 1 { %%e: float32[%d,2] = Neg(%%d)", n,
             k, k);
    say(text, of, head);
    strcat(text, " yield %y, %s } }");
    support_session run;
    support_session_open(&run, text, 1);
    const emit_state state = emit_state_measure(rt_plan_of(run.plan), 0);
    print_message("%d positions, %d new ones: period %llu, %llu bytes a run, %zu bytes of states, %s\n", n, k,
                  (unsigned long long)state.period, (unsigned long long)state.copied,
                  ouro_plan_state_bytes(run.plan), state.how);
    assert_string_equal(state.how, k < n ? "a window that moves on" : "in turn");
    assert_int_equal(state.period, of->period);
    assert_int_equal(state.copied, of->copied);
    assert_int_equal(ouro_plan_state_bytes(run.plan), of->bytes);
    float window[MOST * WIDTH] = {0}, given[MOST * WIDTH], sum[WIDTH];
    uint64_t random = 3 + (uint64_t)n;
    support_bind(&run, 0, given, (size_t)k * WIDTH * sizeof *given);
    for (uint64_t t = 0; t < TURNS * state.period; t++) {
        base_report report = {0};
        ouro_state_info info;
        const void *held;
        draw(given, k * WIDTH, &random);
        slide(of, window, given, sum);
        assert_int_equal(check ? (int)rt_session_check(run.session, &report)
                               : (int)ouro_session_run(run.session, NULL),
                         0);
        assert_memory_equal(support_output(&run, 0, sizeof sum), sum, sizeof sum);
        assert_int_equal(ouro_session_state_get(run.session, 0, &info, &held, NULL), OURO_OK);
        assert_memory_equal(held, window, (size_t)n * WIDTH * sizeof *window);
    }
    support_session_close(&run);
}

static void test_states(void **context) {
    (void)context;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) try_states(&cases[i], i % 2);
}

/* Windows along the inner axis of rows: how many rows, positions and new ones, and as in window_case. */
static const struct inner_case {
    int rows, positions, step;
    uint64_t period, copied, bytes;
} inner_cases[] = {
    {3, 4, 1, 16, 6, 256},      {2, 6, 2, 8, 10, 256},       {5, 7, 3, 16, 16, 640},
    {16, 30, 1, 64, 120, 8192}, {2, 300, 1, 64, 150, 10112},
};

/* What the model reads: the window as it will be; the old one too, at last; what the window is kept of. */
enum { READ_NEW, READ_LATE, READ_MORE, READERS };

static void say_inner(char *text, const struct inner_case *of, int reader) {
    const int r = of->rows, n = of->positions, k = of->step;
    int used = snprintf(
        text, TEXT,
        "module \"window\" { constant %%one: int64[1] = {1} constant %%from: int64[1] = {%d} constant "
        "%%to: int64[1] = {%d} graph main(%%x: float32[%d,%d,2], %%d: float32[%d,%d,2]) states 1 { "
        "%%e: float32[%d,%d,2] = Neg(%%d)",
        k, reader == READ_MORE ? n + k : n, r, n, r, k, r, k);
    if (reader == READ_MORE)
        used += snprintf(
            text + used, TEXT - (size_t)used,
            " %%c: float32[%d,%d,2] = Concat(%%x, %%e) {axis = 1} %%y: float32[%d,%d,2] = Slice(%%c, "
            "%%from, %%to, %%one) %%z: float32[%d,%d,2] = Neg(%%c)",
            r, n + k, r, n, r, n + k);
    else
        used += snprintf(text + used, TEXT - (size_t)used,
                         " %%w: float32[%d,%d,2] = Slice(%%x, %%from, %%to, %%one) %%y: float32[%d,%d,2] = "
                         "Concat(%%w, %%e) {axis = 1} %%z: float32[%d,%d,2] = %s",
                         r, n - k, r, n, r, n, reader == READ_LATE ? "Sub(%y, %x)" : "Neg(%y)");
    snprintf(text + used, TEXT - (size_t)used,
             " %%s: float32[%d,2] = ReduceSum(%%z, %%one) {keepdims = 0} yield %%y, %%s } }", r);
}

static void try_inner(const struct inner_case *of, int reader) {
    static const char *const reads[READERS] = {"", ", read late", ", kept of more"};
    char text[TEXT];
    const int r = of->rows, n = of->positions, k = of->step;
    say_inner(text, of, reader);
    support_session run;
    support_session_open(&run, text, 1);
    const emit_state state = emit_state_measure(rt_plan_of(run.plan), 0);
    print_message(
        "%d rows of %d positions, %d new ones%s: period %llu, %llu bytes a run, %zu bytes of states, %s\n", r,
        n, k, reads[reader], (unsigned long long)state.period, (unsigned long long)state.copied,
        ouro_plan_state_bytes(run.plan), state.how);
    if (reader == READ_LATE) {
        assert_string_equal(state.how, "in turn");
    } else {
        assert_string_equal(state.how, "a window that moves on");
        assert_int_equal(state.period, of->period);
        assert_int_equal(state.copied, of->copied);
        assert_int_equal(ouro_plan_state_bytes(run.plan), of->bytes);
    }
    enum { ELEMENTS = 2 * MOST * WIDTH };
    float window[ELEMENTS] = {0}, old[ELEMENTS], given[ELEMENTS], sums[16 * WIDTH];
    uint64_t random = 3 + (uint64_t)n;
    support_bind(&run, 0, given, (size_t)(r * k) * WIDTH * sizeof *given);
    for (uint64_t t = 0; t < TURNS * state.period; t++) {
        base_report report = {0};
        ouro_state_info info;
        const void *held;
        draw(given, r * k * WIDTH, &random);
        memcpy(old, window, sizeof old);
        memset(sums, 0, sizeof sums);
        for (int row = 0; row < r; row++)
            for (int i = 0; i < n * WIDTH; i++) {
                const int at = row * n * WIDTH + i, kept = (n - k) * WIDTH;
                window[at] = i < kept ? old[at + k * WIDTH] : -given[row * k * WIDTH + i - kept];
                sums[row * WIDTH + i % WIDTH] += reader == READ_LATE ? window[at] - old[at] : -window[at];
                if (reader == READ_MORE && i < k * WIDTH) sums[row * WIDTH + i % WIDTH] -= old[at];
            }
        assert_int_equal(t % 2 ? (int)rt_session_check(run.session, &report)
                               : (int)ouro_session_run(run.session, NULL),
                         0);
        assert_memory_equal(support_output(&run, 0, (size_t)r * WIDTH * sizeof *sums), sums,
                            (size_t)r * WIDTH * sizeof *sums);
        assert_int_equal(ouro_session_state_get(run.session, 0, &info, &held, NULL), OURO_OK);
        assert_memory_equal(held, window, (size_t)(r * n) * WIDTH * sizeof *window);
    }
    support_session_close(&run);
}

static void test_inner(void **context) {
    (void)context;
    for (size_t i = 0; i < sizeof inner_cases / sizeof *inner_cases; i++)
        for (int reader = 0; reader < READERS; reader++) try_inner(&inner_cases[i], reader);
}

/* The same in a loop of a model, which ends after any number of iterations. */
static void try_loop(const window_case *of, int trips) {
    char text[TEXT], head[512];
    const int n = of->positions, k = of->step;
    snprintf(
        head, sizeof head,
        "constant %%n: int64[] = {%d} graph main(%%a: float32[%d,2], %%b: float32[%d,%d,2]) { %%v: "
        "float32[%d,2], %%r: float32[%d,2] = Loop(%%n, _, %%a, %%b) {ouro.scan_inputs = 1, ouro.scan_outputs "
        "= 1} { graph body(%%i: int64[], %%q: bool[], %%x: float32[%d,2], %%d: float32[%d,2]) { %%e: "
        "float32[%d,2] = Neg(%%d)",
        trips, n, trips, k, n, trips, n, k, k);
    say(text, of, head);
    strcat(text, " yield %q, %y, %s } } yield %v, %r } }");
    support_session run;
    support_session_open(&run, text, 1);
    float window[MOST * WIDTH], given[MOST * WIDTH * 4], first[MOST * WIDTH], sums[MOST][WIDTH];
    uint64_t random = 11 + (uint64_t)trips;
    assert_true(trips * k * WIDTH <= MOST * WIDTH * 4);
    draw(window, n * WIDTH, &random);
    memcpy(first, window, sizeof first);
    draw(given, trips * k * WIDTH, &random);
    support_bind(&run, 0, first, (size_t)n * WIDTH * sizeof *first);
    support_bind(&run, 1, given, (size_t)(trips * k) * WIDTH * sizeof *given);
    support_run(&run);
    for (int t = 0; t < trips; t++) slide(of, window, given + t * k * WIDTH, sums[t]);
    assert_memory_equal(support_output(&run, 0, (size_t)n * WIDTH * sizeof *window), window,
                        (size_t)n * WIDTH * sizeof *window);
    assert_memory_equal(support_output(&run, 1, (size_t)trips * sizeof *sums), sums,
                        (size_t)trips * sizeof *sums);
    const plan *of_plan = rt_plan_of(run.plan);
    for (uint32_t i = 0; i < of_plan->header->nodes.count; i++) {
        emit_loop loop;
        if (plan_node_code(of_plan, &of_plan->nodes[i]) != OP_LOOP) continue;
        assert_true(emit_loop_measure(of_plan, i, &loop));
        /* All that is kept would be 8 bytes a position. */
        assert_true(loop.iteration_bytes < (uint64_t)(8 * n));
    }
    support_session_close(&run);
}

static void test_loops(void **context) {
    (void)context;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int trips = 1; trips <= 20; trips += trips < 6 ? 1 : 14) try_loop(&cases[i], trips);
}

/* An address of the table that is moved by one position, or two that change places: refused. */
static void test_broken(void **context) {
    (void)context;
    char text[TEXT];
    size_t size, refused = 0;
    say(text, &cases[0],
        "graph main(%x: float32[4,2], %d: float32[1,2]) states 1 { %e: float32[1,2] = Neg(%d)");
    strcat(text, " yield %y, %s } }");
    unsigned char *bytes = support_plan(text, true, &size);
    const plan_header *header = (const void *)bytes;
    plan_address *addresses = (void *)(bytes + header->addresses.offset);
    const plan_multiview *views = (const void *)(bytes + header->multiviews.offset);
    for (uint64_t v = 0; v < header->multiviews.count; v++)
        for (uint32_t k = 0; k < views[v].period; k++)
            for (int change = 0; change < 3; change++) {
                plan_address *at = &addresses[views[v].first + k], saved = *at;
                ouro_plan *opened;
                at->offset = change == 0   ? saved.offset + 8
                             : change == 1 ? saved.offset - 8
                                           : saved.offset + 16;
                support_plan_seal(bytes, size);
                assert_int_not_equal(ouro_plan_open(bytes, size, &opened, NULL), OURO_OK);
                refused++;
                *at = saved;
            }
    print_message("%zu changed plans refused\n", refused);
    assert_true(refused >= 48);
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_states), cmocka_unit_test(test_inner),
                                       cmocka_unit_test(test_loops), cmocka_unit_test(test_broken)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
