/* SPDX-License-Identifier: Apache-2.0 */
/* test_fails_once.c: one allocation of a program that runs a plan fails, each in turn. The call that wanted it says so and changes
 * nothing: asked again it does its work, and all runs give what they give where nothing fails. A sample of the allocations; all
 * where OURO_EVERY_ALLOCATION is set. */
#include "tests/support/programs_of_plans.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { SAMPLE = 80, MOST_SAVED = 1 << 16, MOST_OUTPUTS = 16, CLONED_AT = 3 };

/* An allocator of the caller on the heap, whose allocation number `fail_at` (from 1) fails. */
typedef struct failing {
    size_t count, live, fail_at, failed;
} failing;

static void *take(void *user, size_t bytes) {
    failing *f = user;
    assert_true(bytes > 0);
    if (++f->count == f->fail_at) {
        f->failed++;
        return NULL;
    }
    void *memory =
        aligned_alloc(OURO_ALIGNMENT, (bytes + OURO_ALIGNMENT - 1) / OURO_ALIGNMENT * OURO_ALIGNMENT);
    assert_non_null(memory);
    memset(memory, 0xa5, bytes);
    f->live++;
    return memory;
}

static void give_back(void *user, void *memory) {
    failing *f = user;
    assert_non_null(memory);
    assert_true(f->live-- > 0);
    free(memory);
}

static ouro_error error;
static failing memory;
static const char *name;

/* The call has failed for want of memory, and may be made again. Anything else than success fails the test. */
static bool wants_again(ouro_status status, const char *call) {
    if (status == OURO_OK) return false;
    if (status != OURO_MACHINE || !memory.failed || !strstr(error.message, "memory"))
        fail_msg("%s, allocation %zu: %s: status %d, \"%s\"", name, memory.fail_at, call, (int)status,
                 error.message);
    memory.failed = 0;
    return true;
}
#define ATTEMPT(call)                                                                                        \
    do {                                                                                                     \
        if (wants_again(call, #call) && wants_again(call, #call)) fail_msg("%s fails again", #call);         \
    } while (0)

/* Runs, and once more where memory ran out: what comes out is what is expected. */
static void run(ouro_session *session, ouro_plan *handle, size_t turn, const support_ran *expected) {
    support_ran ran = support_session_run_once(session, handle, turn);
    if (ran.status == OURO_MACHINE && memory.failed) {
        memory.failed = 0;
        ran = support_session_run_once(session, handle, turn);
    }
    if (ran.status != expected[turn].status || ran.outputs != expected[turn].outputs)
        fail_msg("%s, allocation %zu: run %zu: status %d and outputs %llx, expected %d and %llx", name,
                 memory.fail_at, turn, (int)ran.status, (unsigned long long)ran.outputs,
                 (int)expected[turn].status, (unsigned long long)expected[turn].outputs);
}

/* States are handed on: saved, overwritten, loaded, cloned. They are what they were. */
static void hand_states_on(ouro_session *session, ouro_plan *handle, ouro_session **clone) {
    unsigned char *saved = malloc(MOST_SAVED), *kept = malloc(MOST_SAVED);
    const size_t bytes = ouro_session_state_saved_bytes(session);
    assert_true(saved && kept && bytes <= MOST_SAVED);
    ATTEMPT(ouro_session_state_save(session, saved, bytes, &error));
    for (size_t i = 0; i < ouro_plan_state_count(handle); i++) {
        ouro_state_info info;
        const void *data;
        ATTEMPT(ouro_session_state_get(session, i, &info, &data, &error));
        assert_true(info.bytes <= MOST_SAVED);
        memset(kept, 0, info.bytes);
        ATTEMPT(ouro_session_state_initial(session, i, kept, info.bytes, info.dims, &error));
        ATTEMPT(ouro_session_state_set(session, i, kept, info.bytes, info.dims, &error));
        ATTEMPT(ouro_session_state_initial(session, i, NULL, 0, NULL, &error));
    }
    ATTEMPT(ouro_session_state_truncate(session, ouro_session_state_length(session) / 2, &error));
    ATTEMPT(ouro_session_state_reset(session, &error));
    ATTEMPT(ouro_session_state_load(session, saved, bytes, &error));
    ATTEMPT(ouro_session_clone(session, clone, &error));
    free(kept);
    free(saved);
}

/* All that a program does with a plan; how many allocations that took. */
static size_t use(size_t number, size_t fail_at) {
    size_t size;
    const unsigned char *bytes = support_shared_plan(number, &size);
    const support_ran *expected = support_shared_outcome(number);
    ouro_plan *handle;
    ouro_session *session, *clone = NULL;
    ouro_tensor_info outputs[MOST_OUTPUTS];
    ouro_needs needs;
    memory = (failing){.fail_at = fail_at};
    const ouro_allocator allocator = {take, give_back, &memory};
    const ouro_session_options options = {.threads = 1, .allocator = number % 2 ? "pool" : "bfc"};
    ATTEMPT(ouro_plan_open_with(bytes, size, &allocator, &handle, &error));
    ATTEMPT(ouro_session_new(handle, &options, &session, &error));
    assert_true(ouro_plan_output_count(handle) <= MOST_OUTPUTS);
    for (size_t turn = 0; turn < SUPPORT_RUNS; turn++) {
        run(session, handle, turn, expected);
        if (turn != CLONED_AT) continue;
        /* Shapes are those of what was bound last; sequences have none. */
        const ouro_status status = ouro_session_prepare(session, NULL, NULL, &needs, outputs, &error);
        if (status == OURO_MACHINE && memory.failed) {
            memory.failed = 0;
            assert_int_not_equal(ouro_session_prepare(session, NULL, NULL, &needs, outputs, &error),
                                 OURO_MACHINE);
        }
        hand_states_on(session, handle, &clone);
        if (number % 2) { /* the clone lasts */
            ouro_session_free(session);
            session = clone;
            clone = NULL;
        }
    }
    ouro_session_free(session);
    if (clone)
        for (size_t turn = CLONED_AT + 1; turn < SUPPORT_RUNS; turn++) run(clone, handle, turn, expected);
    ouro_session_free(clone);
    ouro_plan_free(handle);
    assert_int_equal(memory.live, 0);
    return memory.count;
}

static void what_failed_once_works_when_it_is_asked_again(void **state) {
    (void)state;
    for (size_t p = 0; p < SUPPORT_PLAN_PROGRAMS; p++) {
        name = support_plan_programs[p].name;
        const size_t count = use(p, 0), step = support_allocation_step(count, SAMPLE);
        print_message("%s: %zu allocations\n", name, count);
        for (size_t at = 1 + p % step; at <= count; at += step) (void)use(p, at);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_failed_once_works_when_it_is_asked_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
