/* SPDX-License-Identifier: Apache-2.0 */
/* test_stop.c: runs that are ended early: from another thread, by a deadline; and sessions used by two threads at once. */
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/* As often as the caller says: for ever, where that is a large number. */
static const char *const counting = "module \"counting\" {\n"
                                    "  constant %one: float32[] = {1.0}\n"
                                    "  graph main(%n: int64[], %x: float32[4]) {\n"
                                    "    %y: float32[4] = Loop(%n, _, %x) {\n"
                                    "      graph body(%i: int64[], %k: bool[], %a: float32[4]) {\n"
                                    "        %b: float32[4] = Add(%a, %one)\n"
                                    "        yield %k, %b\n"
                                    "      }\n"
                                    "    }\n"
                                    "    yield %y\n"
                                    "  }\n"
                                    "}\n";

typedef struct counter {
    unsigned char *bytes;
    ouro_plan *plan;
    ouro_session *session;
    int64_t trips;
    float start[4];
    /* of the run in the other thread */
    atomic_bool begun;
    ouro_status status;
    ouro_error error;
} counter;

static void open_counter(counter *c, double run_seconds) {
    size_t size;
    const ouro_session_options options = {.run_seconds = run_seconds};
    *c = (counter){.start = {1, 2, 3, 4}};
    c->bytes = support_plan(counting, true, &size);
    assert_int_equal(ouro_plan_open(c->bytes, size, &c->plan, NULL), OURO_OK);
    assert_int_equal(ouro_session_new(c->plan, &options, &c->session, NULL), OURO_OK);
    assert_int_equal(ouro_session_bind_input(c->session, 0, &c->trips, sizeof c->trips, NULL, NULL), OURO_OK);
    assert_int_equal(ouro_session_bind_input(c->session, 1, c->start, sizeof c->start, NULL, NULL), OURO_OK);
}

static void close_counter(counter *c) {
    ouro_session_free(c->session);
    ouro_plan_free(c->plan);
    free(c->bytes);
}

/* The session runs, and computes what it should. */
static void expect_works(counter *c) {
    ouro_tensor_info info;
    const void *data;
    c->trips = 3;
    assert_int_equal(ouro_session_run(c->session, NULL), OURO_OK);
    assert_int_equal(ouro_session_output(c->session, 0, &info, &data, NULL), OURO_OK);
    const float expected[4] = {4, 5, 6, 7};
    assert_memory_equal(data, expected, sizeof expected);
}

static void *run_for_ever(void *user) {
    counter *c = user;
    atomic_store(&c->begun, true);
    c->status = ouro_session_run(c->session, &c->error);
    return NULL;
}

static pthread_t start(counter *c) {
    pthread_t thread;
    c->trips = INT64_MAX;
    assert_int_equal(pthread_create(&thread, NULL, run_for_ever, c), 0);
    while (!atomic_load(&c->begun)) usleep(1000);
    usleep(10000);
    return thread;
}

/* A body that only swaps has no step: it ends all the same, and so does the run beside its shadow. */
static void a_loop_without_steps_ends(void **state) {
    (void)state;
    const char *text =
        "module \"swap\" { graph main(%n: int64[], %x: float32[4], %y: float32[4]) {\n"
        " %p: float32[4], %q: float32[4] = Loop(%n, _, %x, %y) {\n"
        "  graph body(%i: int64[], %k: bool[], %a: float32[4], %b: float32[4]) { yield %k, %b, %a } }\n"
        " %r: float32[4] = Sub(%p, %q) yield %r } }\n";
    const ouro_session_options options = {.run_seconds = 0.02};
    const int64_t trips = INT64_MAX;
    const float numbers[4] = {1, 2, 3, 4};
    size_t size;
    base_report report = {0};
    ouro_plan *handle;
    ouro_session *session;
    unsigned char *bytes = support_plan(text, true, &size);
    assert_int_equal(ouro_plan_open(bytes, size, &handle, NULL), OURO_OK);
    assert_int_equal(ouro_session_new(handle, &options, &session, NULL), OURO_OK);
    assert_int_equal(ouro_session_bind_input(session, 0, &trips, sizeof trips, NULL, NULL), OURO_OK);
    for (size_t i = 1; i < 3; i++)
        assert_int_equal(ouro_session_bind_input(session, i, numbers, sizeof numbers, NULL, NULL), OURO_OK);
    assert_int_equal(ouro_session_run(session, NULL), OURO_CANCELLED);
    assert_int_not_equal(rt_session_check(session, &report), BASE_OK);
    ouro_session_free(session);
    ouro_plan_free(handle);
    free(bytes);
}

static void another_thread_cancels(void **state) {
    (void)state;
    counter c;
    open_counter(&c, 0);
    for (int round = 0; round < 3; round++) {
        ouro_tensor_info info;
        const void *data;
        pthread_t thread = start(&c);
        ouro_session_cancel(c.session);
        pthread_join(thread, NULL);
        assert_int_equal(c.status, OURO_CANCELLED);
        assert_non_null(strstr(c.error.message, "cancelled"));
        assert_int_equal(ouro_session_output(c.session, 0, &info, &data, NULL), OURO_USAGE);
        expect_works(&c);
        atomic_store(&c.begun, false);
    }
    close_counter(&c);
}

/* So that it cannot come too early. */
static void what_is_cancelled_before_it_runs_ends_at_once(void **state) {
    (void)state;
    counter c;
    open_counter(&c, 0);
    c.trips = INT64_MAX;
    ouro_session_cancel(c.session);
    assert_int_equal(ouro_session_run(c.session, &c.error), OURO_CANCELLED);
    expect_works(&c);
    close_counter(&c);
}

static void deadlines_end_runs(void **state) {
    (void)state;
    counter c;
    open_counter(&c, 0.05);
    for (int round = 0; round < 2; round++) {
        c.trips = INT64_MAX;
        assert_int_equal(ouro_session_run(c.session, &c.error), OURO_CANCELLED);
        assert_non_null(strstr(c.error.message, "longer than 0.05 seconds"));
        expect_works(&c);
    }
    close_counter(&c);
}

static void two_threads_in_one_session_are_told(void **state) {
    (void)state;
    counter c;
    ouro_error error;
    const float other[4] = {0};
    open_counter(&c, 0);
    pthread_t thread = start(&c);
    assert_int_equal(ouro_session_run(c.session, &error), OURO_USAGE);
    assert_non_null(strstr(error.message, "another thread"));
    assert_int_equal(ouro_session_bind_input(c.session, 1, other, sizeof other, NULL, &error), OURO_USAGE);
    assert_int_equal(ouro_session_bind_output(c.session, 0, NULL, 0, &error), OURO_USAGE);
    ouro_session_cancel(c.session);
    pthread_join(thread, NULL);
    assert_int_equal(c.status, OURO_CANCELLED);
    expect_works(&c);
    close_counter(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loop_without_steps_ends),
        cmocka_unit_test(another_thread_cancels),
        cmocka_unit_test(what_is_cancelled_before_it_runs_ends_at_once),
        cmocka_unit_test(deadlines_end_runs),
        cmocka_unit_test(two_threads_in_one_session_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
