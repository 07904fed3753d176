/* SPDX-License-Identifier: Apache-2.0 */
/* test_row_loops.c: loops that threads run for rows of their own: the bits of an iteration after the other, for any rows, iterations and threads; those
 * that they must not run so; and ends before the end. */
#include "runtime/executor.h"
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { MOST_INPUTS = 6, MOST_OUTPUTS = 3, MOST_ELEMENTS = 1 << 15 };

static float numbers[MOST_ELEMENTS];

static void fill_numbers(void) {
    uint32_t random = 3;
    for (size_t i = 0; i < MOST_ELEMENTS; i++) {
        random = random * 1664525u + 1013904223u;
        numbers[i] = (float)(random >> 8) / (float)(1 << 24) - 0.5f;
    }
}

/* What stands for other numbers in the text: @R rows, @T iterations. */
static void write_module(char *text, size_t capacity, const char *form, int rows, int trips) {
    size_t used = 0;
    for (; *form && used + 16 < capacity; form++) {
        if (*form == '@')
            used += (size_t)snprintf(text + used, capacity - used, "%d", *++form == 'R' ? rows : trips);
        else text[used++] = *form;
    }
    text[used] = 0;
    assert_int_equal(*form, 0);
}

static rt_step_loop *loop_of(const support_session *on) {
    for (uint32_t n = 0; n < on->session->of->header->nodes.count; n++) {
        const rt_step *step = on->session->code.steps[n];
        if (step && step->kind == RT_STEP_LOOP) return step->detail;
    }
    fail_msg("no loop");
    return NULL;
}

static base_status see_nothing(rt_observer *observer, ouro_session *session, const rt_trace_event *event) {
    (void)observer;
    (void)session;
    (void)event;
    return BASE_OK;
}

static void bind_all(const support_session *on, const int64_t *trips) {
    const plan *of = on->session->of;
    for (size_t i = 0; i < of->header->inputs.count; i++) {
        const plan_tensor *tensor = &of->tensors[of->inputs[i].tensor];
        assert_true(tensor->bytes + i * 64 <= sizeof numbers);
        if (tensor->dtype == OP_INT64) support_bind(on, i, trips, sizeof *trips);
        else support_bind(on, i, numbers + i * 16, (size_t)tensor->bytes);
    }
}

/* Runs step by step, which an observer wants, and then as the session likes it; says whether the loop ran row by row. */
static bool run_both(const support_session *on) {
    rt_observer observer = {.step = see_nothing};
    void *wanted[MOST_OUTPUTS];
    const size_t outputs = (size_t)on->session->of->header->outputs.count;
    ouro_tensor_info info;
    const void *data;
    assert_true(outputs <= MOST_OUTPUTS);
    rt_observe(on->session, &observer);
    assert_int_equal(ouro_session_run(on->session, NULL), OURO_OK);
    rt_observe_no_longer(on->session, &observer);
    assert_false(loop_of(on)->by_rows);
    for (size_t i = 0; i < outputs; i++) {
        assert_int_equal(ouro_session_output(on->session, i, &info, &data, NULL), OURO_OK);
        wanted[i] = malloc(info.bytes + 1);
        assert_non_null(wanted[i]);
        if (info.bytes) memcpy(wanted[i], data, info.bytes);
        if (info.bytes) memset((void *)(uintptr_t)data, 0xa5, info.bytes); /* it is the session's own */
    }
    memset(on->session->memory.arena, 0xa5, (size_t)on->session->of->header->arena_bytes);
    assert_int_equal(ouro_session_run(on->session, NULL), OURO_OK);
    for (size_t i = 0; i < outputs; i++) {
        assert_int_equal(ouro_session_output(on->session, i, &info, &data, NULL), OURO_OK);
        if (info.bytes) assert_memory_equal(wanted[i], data, info.bytes);
        free(wanted[i]);
    }
    return loop_of(on)->by_rows;
}

static bool runs_by_rows(const char *form, int rows, int trips, int threads) {
    char text[4096];
    support_session on;
    const int64_t number = trips;
    write_module(text, sizeof text, form, rows, trips);
    support_session_open_on(&on, text, false, threads);
    bind_all(&on, &number);
    const bool by_rows = run_both(&on);
    support_session_close(&on);
    return by_rows;
}

/* A state of short rows, one number of each that is scanned, one row for all, and a product with another one. */
static const char *const selective =
    "module \"selective\" { constant %n: int64[] = {@T}\n"
    " graph main(%x: float32[@R,16], %d: float32[@T,@R,1], %b: float32[@T,1,16], %c: float32[@T,16,1], "
    "%a: float32[@R,16]) {\n"
    "  %y: float32[@R,16], %s: float32[@T,@R,1] = Loop(%n, _, %x, %d, %b, %c) {ouro.scan_inputs = 3} {\n"
    "   graph body(%i: int64[], %k: bool[], %h: float32[@R,16], %e: float32[@R,1], %f: float32[1,16], "
    "%g: float32[16,1]) {\n"
    "    %m: float32[@R,16] = Mul(%e, %a) %o: float32[@R,16] = Exp(%m) %p: float32[@R,16] = Mul(%o, %h)\n"
    "    %q: float32[@R,16] = Mul(%e, %f) %r: float32[@R,16] = Add(%p, %q)\n"
    "    %z: float32[@R,1] = MatMul(%r, %g) yield %k, %r, %z } }\n"
    "  yield %y, %s } }";

static void a_selective_scan(void **state) {
    (void)state;
    const int rows[] = {8, 15, 16, 17, 31, 33, 48, 100, 257}, trips[] = {1, 8, 13};
    bool some = false;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        for (size_t t = 0; t < sizeof trips / sizeof *trips; t++) {
            for (int threads = 1; threads <= 5; threads++)
                some |= runs_by_rows(selective, rows[r], trips[t], threads);
        }
    }
    /* In blocks it would be one of all rows, where the machine has no registers of that kind. */
    assert_int_equal(some, support_wants_panels());
}

/* Enough work for several threads; the last part has no full line of the cache. */
static void many_rows(void **state) {
    (void)state;
    for (int threads = 1; threads <= 5; threads++) {
        const bool by_rows = runs_by_rows(selective, 403, 41, threads);
        if (support_wants_panels()) assert_true(by_rows);
    }
}

/* The same with a sum over the products; and operators that nothing is fused with, of short and of long rows. */
static const char *const summed =
    "module \"summed\" { constant %n: int64[] = {@T} constant %last: int64[1] = {-1}\n"
    " graph main(%x: float32[@R,16], %d: float32[@T,@R,1], %b: float32[@T,1,16], %c: float32[@T,1,16], "
    "%a: float32[@R,16]) {\n"
    "  %y: float32[@R,16], %s: float32[@T,@R,1] = Loop(%n, _, %x, %d, %b, %c) {ouro.scan_inputs = 3} {\n"
    "   graph body(%i: int64[], %k: bool[], %h: float32[@R,16], %e: float32[@R,1], %f: float32[1,16], "
    "%g: float32[1,16]) {\n"
    "    %m: float32[@R,16] = Mul(%e, %a) %o: float32[@R,16] = Exp(%m) %p: float32[@R,16] = Mul(%o, %h)\n"
    "    %q: float32[@R,16] = Mul(%e, %f) %r: float32[@R,16] = Add(%p, %q)\n"
    "    %v: float32[@R,16] = Mul(%r, %g) %z: float32[@R,1] = ReduceSum(%v, %last) yield %k, %r, %z } }\n"
    "  yield %y, %s } }";
static const char *const single =
    "module \"single\" { constant %n: int64[] = {@T} constant %last: int64[1] = {-1}\n"
    " graph main(%x: float32[@R,@W], %d: float32[@T,@R,1], %b: float32[@T,1,@W]) {\n"
    "  %y: float32[@R,@W], %s: float32[@T,@R,1], %u: float32[@T,@R,@W] = Loop(%n, _, %x, %d, %b) "
    "{ouro.scan_inputs "
    "= 2} {\n"
    "   graph body(%i: int64[], %k: bool[], %h: float32[@R,@W], %e: float32[@R,1], %f: float32[1,@W]) {\n"
    "    %m: float32[@R,@W] = Mul(%e, %h) %v: float32[@R,@W] = Sub(%f, %m)\n"
    "    %z: float32[@R,1] = ReduceMax(%v, %last) %t: float32[@R,1] = Tanh(%z) yield %k, %m, %t, %v } }\n"
    "  yield %y, %s, %u } }";

static void sums_of_rows(void **state) {
    (void)state;
    const int rows[] = {16, 33, 100}, widths[] = {3, 24, 48, 130};
    for (int threads = 1; threads <= 5; threads++) {
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
            const bool by_rows = runs_by_rows(summed, rows[r], 13, threads);
            if (support_wants_panels()) assert_true(by_rows);
            for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
                char text[4096];
                size_t used = 0;
                for (const char *at = single; *at; at++) {
                    if (at[0] == '@' && at[1] == 'W')
                        used += (size_t)snprintf(text + used, sizeof text - used, "%d", widths[w]), at++;
                    else text[used++] = *at;
                }
                text[used] = 0;
                assert_true(runs_by_rows(text, rows[r], 13, threads));
            }
        }
    }
}

/* Rows that are long, backwards, and the old state, which is stacked: it is in another buffer than the new one. */
static const char *const backwards =
    "module \"backwards\" { constant %n: int64[] = {@T}\n"
    " graph main(%x: float32[@R,150], %d: float32[@T,@R,1], %a: float32[1,150]) {\n"
    "  %y: float32[@R,150], %s: float32[@T,@R,150] = Loop(%n, _, %x, %d) {ouro.scan_inputs = 1, "
    "ouro.scan_input_directions = [1], ouro.scan_output_directions = [1]} {\n"
    "   graph body(%i: int64[], %k: bool[], %h: float32[@R,150], %e: float32[@R,1]) {\n"
    "    %m: float32[@R,150] = Mul(%e, %a) %r: float32[@R,150] = Add(%m, %h)\n"
    "    %o: float32[@R,150] = Mul(%r, %a) %z: float32[@R,150] = Sub(%o, %h) yield %k, %r, %z } }\n"
    "  yield %y, %s } }";

static void long_rows_backwards(void **state) {
    (void)state;
    for (int trips = 1; trips <= 20; trips++) {
        for (int threads = 1; threads <= 5; threads++) {
            const bool by_rows = runs_by_rows(backwards, 7, trips, threads);
            if (trips < 8) assert_false(by_rows); /* too few to look where all lies */
            if (trips > 15) assert_true(by_rows);
        }
    }
    for (int threads = 1; threads <= 5; threads++) assert_true(runs_by_rows(backwards, 20, 60, threads));
}

/* Each row of the state reads one row that the loop makes too: not by rows, however it is shared. */
static void a_row_for_all(void **state) {
    (void)state;
    const char *form =
        "module \"all\" { constant %n: int64[] = {@T} constant %half: float32[] = {0.5}\n"
        " graph main(%x: float32[@R,128], %g: float32[1,128]) {\n"
        "  %y: float32[@R,128], %z: float32[1,128] = Loop(%n, _, %x, %g) {\n"
        "   graph body(%i: int64[], %k: bool[], %h: float32[@R,128], %e: float32[1,128]) {\n"
        "    %m: float32[1,128] = Mul(%e, %half) %o: float32[1,128] = Add(%m, %half)\n"
        "    %p: float32[@R,128] = Mul(%h, %half) %q: float32[@R,128] = Add(%p, %o) yield %k, %q, %o } }\n"
        "  yield %y, %z } }";
    for (int threads = 1; threads <= 3; threads++) assert_false(runs_by_rows(form, 32, 40, threads));
}

/* A loop that runs by rows writes neither the number of the iteration nor the condition: they may not be read. */
static const char *const number_read =
    "module \"number\" { constant %n: int64[] = {@T} constant %half: float32[] = {0.5}\n"
    " graph main(%x: float32[@R,160]) {\n"
    "  %y: float32[@R,160] = Loop(%n, _, %x) {\n"
    "   graph body(%i: int64[], %k: bool[], %h: float32[@R,160]) {\n"
    "    %e: float32[] = Cast(%i) {to = 1} %p: float32[@R,160] = Mul(%h, %half)\n"
    "    %q: float32[@R,160] = Add(%p, %e) yield %k, %q } }\n"
    "  yield %y } }";
static const char *const condition_read =
    "module \"condition\" { constant %n: int64[] = {@T} constant %half: float32[] = {0.5}\n"
    " graph main(%x: float32[@R,160], %g: float32[@R,160]) {\n"
    "  %y: float32[@R,160] = Loop(%n, _, %x) {\n"
    "   graph body(%i: int64[], %k: bool[], %h: float32[@R,160]) {\n"
    "    %p: float32[@R,160] = Mul(%h, %half) %q: float32[@R,160] = Where(%k, %p, %g) yield %k, %q } }\n"
    "  yield %y } }";

static void parameters_are_read(void **state) {
    (void)state;
    for (int threads = 1; threads <= 3; threads++) {
        assert_false(runs_by_rows(number_read, 32, 9, threads));
        assert_false(runs_by_rows(condition_read, 32, 9, threads));
    }
}

static const char *const endless =
    "module \"endless\" { constant %half: float32[] = {0.5}\n"
    " graph main(%n: int64[], %x: float32[@R,160], %g: float32[@R,160]) {\n"
    "  %y: float32[@R,160] = Loop(%n, _, %x) {\n"
    "   graph body(%i: int64[], %k: bool[], %h: float32[@R,160]) {\n"
    "    %p: float32[@R,160] = Mul(%h, %half) %q: float32[@R,160] = Add(%p, %g) yield %k, %q } }\n"
    "  yield %y } }";

/* As often as the caller says, also not at all; and until a deadline ends it. */
static void as_often_as_wanted(void **state) {
    (void)state;
    char text[4096];
    /* What is fused goes by rows in registers alone. */
    const bool here = support_wants_panels();
    write_module(text, sizeof text, endless, 40, 0);
    for (int threads = 1; threads <= 3; threads++) {
        support_session on;
        int64_t trips = 0;
        support_session_open_on(&on, text, false, threads);
        bind_all(&on, &trips);
        assert_false(run_both(&on));
        for (trips = 1; trips < 200; trips = 3 * trips + 1)
            assert_int_equal(run_both(&on), here && trips >= 8);
        trips = INT64_MAX;
        on.session->run_seconds = 0.05;
        assert_int_equal(ouro_session_run(on.session, NULL), OURO_CANCELLED);
        trips = 9;
        on.session->run_seconds = 0;
        assert_int_equal(run_both(&on), here);
        support_session_close(&on);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_selective_scan),   cmocka_unit_test(many_rows),
        cmocka_unit_test(sums_of_rows),       cmocka_unit_test(long_rows_backwards),
        cmocka_unit_test(a_row_for_all),      cmocka_unit_test(parameters_are_read),
        cmocka_unit_test(as_often_as_wanted),
    };
    fill_numbers();
    return cmocka_run_group_tests_name("loops by rows", tests, NULL, NULL);
}
