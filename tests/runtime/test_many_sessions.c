/* SPDX-License-Identifier: Apache-2.0 */
/* test_many_sessions.c: many sessions of one plan: side by side, each on a thread of its own, they compute what one alone does; made and
 * freed over and over they leave nothing. OURO_SESSIONS=N in the environment makes N of these. The preset "threads" builds it
 * with ThreadSanitizer. */
#include "tests/support/plan.h"
#include "tests/support/programs_of_plans.h"
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { SIDE_BY_SIDE = 64, RUNS = 20, ELEMENTS = 16, NESTED_LOOPS = 5, CACHE = 7 };

typedef struct worker {
    ouro_plan *handle;
    int64_t trips;
    float inputs[2][ELEMENTS], result[ELEMENTS];
    bool done;
} worker;

static void fill(worker *w, int number) {
    w->trips = number % 7;
    for (int i = 0; i < ELEMENTS; i++) {
        w->inputs[0][i] = (float)((number + i) % 5) - 2;
        w->inputs[1][i] = (float)((number * 3 + i) % 4) - 1;
    }
}

/* A session of its own, run several times: always the same result. */
static void *work(void *user) {
    worker *w = user;
    ouro_session *session;
    ouro_tensor_info info;
    const void *data;
    w->done = ouro_session_new(w->handle, NULL, &session, NULL) == OURO_OK;
    if (!w->done) return NULL;
    w->done = ouro_session_bind_input(session, 0, &w->trips, sizeof w->trips, NULL, NULL) == OURO_OK;
    for (size_t i = 0; i < 2; i++)
        w->done &=
            ouro_session_bind_input(session, 1 + i, w->inputs[i], sizeof w->inputs[i], NULL, NULL) == OURO_OK;
    for (int run = 0; run < RUNS && w->done; run++) {
        w->done = ouro_session_run(session, NULL) == OURO_OK &&
                  ouro_session_output(session, 0, &info, &data, NULL) == OURO_OK &&
                  (run == 0 || memcmp(w->result, data, sizeof w->result) == 0);
        if (run == 0 && w->done) memcpy(w->result, data, sizeof w->result);
    }
    ouro_session_free(session);
    return NULL;
}

static void sessions_side_by_side(void **state) {
    (void)state;
    static worker workers[SIDE_BY_SIDE];
    pthread_t threads[SIDE_BY_SIDE];
    ouro_plan *handle;
    size_t size;
    const unsigned char *bytes = support_shared_plan(NESTED_LOOPS, &size);
    assert_int_equal(ouro_plan_open(bytes, size, &handle, NULL), OURO_OK);
    for (int i = 0; i < SIDE_BY_SIDE; i++) {
        workers[i].handle = handle;
        fill(&workers[i], i);
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < SIDE_BY_SIDE; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < SIDE_BY_SIDE; i++) {
        worker alone = {.handle = handle};
        fill(&alone, i);
        (void)work(&alone);
        assert_true(alone.done && workers[i].done);
        assert_memory_equal(alone.result, workers[i].result, sizeof alone.result);
    }
    ouro_plan_free(handle);
}

/* Sessions whose kernels run on several threads each, beside each other: what teams share is shared within one session alone. */
#define WIDE "float32[48,256]"
enum { TEAMS = 64, TEAM = 2, WIDE_ELEMENTS = 48 * 256 };

typedef struct team {
    ouro_plan *handle;
    float input[WIDE_ELEMENTS], result[WIDE_ELEMENTS];
    bool done;
} team;

static void *work_in_a_team(void *user) {
    const ouro_session_options options = {.threads = TEAM};
    team *of = user;
    ouro_session *session;
    ouro_tensor_info info;
    const void *data;
    of->done = ouro_session_new(of->handle, &options, &session, NULL) == OURO_OK;
    if (!of->done) return NULL;
    of->done = ouro_session_bind_input(session, 0, of->input, sizeof of->input, NULL, NULL) == OURO_OK &&
               ouro_session_run(session, NULL) == OURO_OK && ouro_session_run(session, NULL) == OURO_OK &&
               ouro_session_output(session, 0, &info, &data, NULL) == OURO_OK;
    if (of->done) memcpy(of->result, data, sizeof of->result);
    ouro_session_free(session);
    return NULL;
}

static void teams_side_by_side(void **state) {
    static const char text[] =
        "module \"wide\" { constant %trips: int64[] = {2} constant %form: int64[4] = {1, 48, 16, 16}\n"
        " constant %back: int64[2] = {48, 256}\n"
        " graph main(%x: " WIDE ") { %t: float32[256,48] = Transpose(%x) {perm = [1, 0]}\n"
        "  %g: float32[256,256] = MatMul(%t, %x) %y: " WIDE " = Loop(%trips, _, %x) {\n"
        "   graph body(%i: int64[], %k: bool[], %c: " WIDE ") { %m: " WIDE " = MatMul(%c, %g)\n"
        "    %s: " WIDE " = Softmax(%m) {axis = 1} %f: float32[1,48,16,16] = Reshape(%s, %form)\n"
        "    %p: float32[1,48,16,16] = MaxPool(%f) {kernel_shape = [3, 3], pads = [1, 1, 1, 1]}\n"
        "    %e: float32[1,48,16,16] = Exp(%p) %b: " WIDE " = Reshape(%e, %back) yield %k, %b } }\n"
        "  yield %y } }\n";
    static team teams[TEAMS];
    pthread_t threads[TEAMS];
    ouro_plan *handle;
    size_t size;
    (void)state;
    unsigned char *bytes = support_plan(text, true, &size);
    assert_int_equal(ouro_plan_open(bytes, size, &handle, NULL), OURO_OK);
    for (int t = 0; t < TEAMS; t++) {
        teams[t].handle = handle;
        for (int i = 0; i < WIDE_ELEMENTS; i++) teams[t].input[i] = (float)((i * 7 + t % 3) % 13) / 64;
        assert_int_equal(pthread_create(&threads[t], NULL, work_in_a_team, &teams[t]), 0);
    }
    for (int t = 0; t < TEAMS; t++) pthread_join(threads[t], NULL);
    for (int t = 0; t < TEAMS; t++) {
        assert_true(teams[t].done);
        assert_memory_equal(teams[t].result, teams[t % 3].result, sizeof teams[t].result);
    }
    assert_memory_not_equal(teams[0].result, teams[1].result, sizeof teams[0].result);
    ouro_plan_free(handle);
    free(bytes);
}

/* Bytes of the heap that are in use; 0 where a sanitizer has a heap of its own, which looks for leaks itself. */
static size_t in_use(void) {
    return mallinfo2().uordblks;
}

static void make_and_free(ouro_plan *handle) {
    ouro_session *session;
    assert_int_equal(ouro_session_new(handle, NULL, &session, NULL), OURO_OK);
    ouro_session_free(session);
}

/* Runs before the tests with threads of their own: threads that end leave the heap only some time later. */
static void sessions_leave_nothing(void **state) {
    (void)state;
    const char *text = getenv("OURO_SESSIONS");
    const long count = text ? strtol(text, NULL, 10) : 2000;
    const size_t programs[] = {NESTED_LOOPS, CACHE};
    for (size_t p = 0; p < sizeof programs / sizeof *programs; p++) {
        ouro_plan *handle;
        size_t size;
        const unsigned char *bytes = support_shared_plan(programs[p], &size);
        assert_int_equal(ouro_plan_open(bytes, size, &handle, NULL), OURO_OK);
        for (int i = 0; i < 10; i++) make_and_free(handle);
        const size_t before = in_use();
        for (long i = 0; i < count; i++) make_and_free(handle);
        assert_in_range(in_use(), 0, before);
        ouro_plan_free(handle);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sessions_leave_nothing),
                                       cmocka_unit_test(sessions_side_by_side),
                                       cmocka_unit_test(teams_side_by_side)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
