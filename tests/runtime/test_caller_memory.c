/* SPDX-License-Identifier: Apache-2.0 */
/* test_caller_memory.c: plans and sessions on memory of the caller: nothing is taken from the heap, blocks of the size that is said
 * suffice and smaller ones do not, and whatever allocation fails, all is given back. */
#include "tests/support/allocations.h"
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ---- programs of all kinds ------------------------------------------------------------------------------ */

/* How the inputs are bound: all are float32, of these dimensions, filled with 0.5, 1.5, ... */
typedef struct program {
    const char *name, *text;
    int64_t dims[2]; /* of each input */
    int rank;
    bool fixed;           /* runs take nothing from anywhere */
    const char *run_time; /* the run-time allocator; NULL: the plan's */
} program;

static const program programs[] = {
    {.name = "straight",
     .dims = {2, 4},
     .rank = 2,
     .fixed = true,
     .text = "module \"straight\" { constant %one: float32[4] = {1, 1, 1, 1}\n"
             " graph main(%x: float32[2,4]) { %r: float32[2,4] = Neg(%x) %a: float32[2,4] = Add(%r, %one)\n"
             "  %s: float32[2,4] = Softmax(%a) {axis = -1} yield %s } }"},
    {.name = "loop",
     .dims = {2, 4},
     .rank = 2,
     .fixed = true,
     .text = "module \"loop\" { constant %n: int64[] = {7} constant %go: bool[] = {true}\n"
             " graph main(%x: float32[2,4]) {\n"
             "  %p: float32[2,4], %q: float32[2,4] = Loop(%n, %go, %x, %x) {\n"
             "   graph body(%i: int64[], %c: bool[], %a: float32[2,4], %b: float32[2,4]) {\n"
             "    %s: float32[2,4] = Add(%a, %b) yield %c, %b, %s } }\n"
             "  yield %p, %q } }"},
    {.name = "open",
     .dims = {3, 2},
     .rank = 2,
     .text = "module \"open\" { symbol N constant %w: float32[2,2] = {1, 2, 3, 4}\n"
             " graph main(%x: float32[N,2]) { %m: float32[N,2] = MatMul(%x, %w) %t: float32[2,N] = "
             "Transpose(%m) {perm = [1, 0]}\n"
             "  %y: float32[N,N] = MatMul(%m, %t) yield %y } }"},
    {.name = "data",
     .dims = {6},
     .rank = 1,
     .run_time = "bfc",
     .text = "module \"data\" { constant %half: float32[] = {2.0} graph main(%x: float32[6]) { %b: bool[6] = "
             "Greater(%x, %half)\n"
             "  %i: int64[1,?] = NonZero(%b) %t: int64[?,1] = Transpose(%i) {perm = [1, 0]} yield %t } }"},
    {.name = "data_pool",
     .dims = {6},
     .rank = 1,
     .run_time = "pool",
     .text = "module \"data\" { constant %half: float32[] = {2.0} graph main(%x: float32[6]) { %b: bool[6] = "
             "Greater(%x, %half)\n"
             "  %i: int64[1,?] = NonZero(%b) %t: int64[?,1] = Transpose(%i) {perm = [1, 0]} yield %t } }"},
    {.name = "states",
     .dims = {1, 4},
     .rank = 2,
     .text = "module \"states\" { symbol P constant %half: float32[4,4] = {0.5, 0, 0, 0.25, 0, 0.5, 0, 0, 0, "
             "0, 0.5, 0, 0.125, 0, 0, 0.5}\n"
             " graph main(%past: float32[P,4], %sum: float32[1,4], %x: float32[1,4]) states 2 {\n"
             "  %k: float32[1,4] = MatMul(%x, %half) %present: float32[?,4] = Concat(%past, %k) {axis = 0}\n"
             "  %next: float32[1,4] = Add(%sum, %k) %t: float32[4,?] = Transpose(%present) {perm = [1, 0]}\n"
             "  %s: float32[1,?] = MatMul(%x, %t) yield %present, %next, %s } }"},
};
enum { PROGRAMS = sizeof programs / sizeof *programs, MOST_INPUTS = 4, MOST_ELEMENTS = 64 };

static float input_data[MOST_INPUTS][MOST_ELEMENTS];

static void fill_inputs(void) {
    for (int i = 0; i < MOST_INPUTS; i++)
        for (int k = 0; k < MOST_ELEMENTS; k++) input_data[i][k] = (float)(i + k % 5) + 0.5f;
}

/* Opens, runs three times, saves and takes back states, clones, and frees: all that a program does. The first failure ends it. */
static ouro_status use(const program *one, const void *bytes, size_t size, const ouro_allocator *memory,
                       size_t *taken_by_runs, ouro_error *error) {
    ouro_plan *opened;
    ouro_session *session = NULL, *clone = NULL;
    unsigned char saved[4096];
    ouro_status status = ouro_plan_open_with(bytes, size, memory, &opened, error);
    if (status != OURO_OK) return status;
    const ouro_session_options options = {.threads = 1, .allocator = one->run_time};
    status = ouro_session_new(opened, &options, &session, error);
    const size_t inputs = ouro_plan_input_count(opened);
    size_t elements = 1;
    for (int d = 0; d < one->rank; d++) elements *= (size_t)one->dims[d];
    for (size_t i = 0; i < inputs && status == OURO_OK; i++)
        status =
            ouro_session_bind_input(session, i, input_data[i], elements * sizeof(float), one->dims, error);
    const size_t before = allocations_count();
    for (int run = 0; run < 3 && status == OURO_OK; run++) status = ouro_session_run(session, error);
    *taken_by_runs = allocations_count() - before;
    if (status == OURO_OK && ouro_plan_state_count(opened)) {
        const size_t needed = ouro_session_state_saved_bytes(session);
        assert_true(needed <= sizeof saved);
        status = ouro_session_state_save(session, saved, sizeof saved, error);
        if (status == OURO_OK) status = ouro_session_state_truncate(session, 2, error);
        if (status == OURO_OK) status = ouro_session_state_load(session, saved, needed, error);
        if (status == OURO_OK) status = ouro_session_clone(session, &clone, error);
        if (status == OURO_OK)
            status = ouro_session_bind_input(clone, 0, input_data[0], 4 * sizeof(float), NULL, error);
        if (status == OURO_OK) status = ouro_session_run(clone, error);
    }
    ouro_session_free(clone);
    ouro_session_free(session);
    ouro_plan_free(opened);
    return status;
}

/* ---- an allocator of the caller ------------------------------------------------------------------------ */

/* Hands out a static block from the bottom up; counts, and fails from allocation `fail_at` (from 1) on. */
typedef struct counting {
    size_t used, count, live, fail_at;
} counting;

static _Alignas(OURO_ALIGNMENT) unsigned char block[64 << 20];

static void *count_and_take(void *user, size_t bytes) {
    counting *c = user;
    assert_true(bytes > 0);
    c->count++;
    if (c->fail_at && c->count >= c->fail_at) return NULL;
    const size_t whole = (bytes + OURO_ALIGNMENT - 1) / OURO_ALIGNMENT * OURO_ALIGNMENT;
    if (whole > sizeof block - c->used) return NULL;
    c->used += whole;
    c->live++;
    memset(block + c->used - whole, 0xa5, whole); /* nobody relies on zeros */
    return block + c->used - whole;
}

static void count_back(void *user, void *memory) {
    counting *c = user;
    assert_non_null(memory);
    assert_true(c->live > 0);
    c->live--;
}

static ouro_allocator counted(counting *c) {
    return (ouro_allocator){count_and_take, count_back, c};
}

static void nothing_comes_from_the_heap(void **state) {
    (void)state;
    for (int p = 0; p < PROGRAMS; p++) {
        size_t size, by_runs;
        ouro_error error;
        unsigned char *bytes = support_plan(programs[p].text, true, &size);
        counting c = {0};
        const ouro_allocator memory = counted(&c);
        const size_t before = allocations_count();
        const ouro_status status = use(&programs[p], bytes, size, &memory, &by_runs, &error);
        const size_t heap = allocations_count() - before;
        if (status != OURO_OK) fail_msg("%s: %s", programs[p].name, error.message);
        if (heap) fail_msg("%s: %zu allocations from the heap", programs[p].name, heap);
        assert_int_equal(c.live, 0);
        assert_true(c.count > 3);
        free(bytes);
    }
}

static void static_runs_take_nothing(void **state) {
    (void)state;
    for (int p = 0; p < PROGRAMS; p++) {
        size_t size, by_runs;
        ouro_error error;
        if (!programs[p].fixed) continue;
        unsigned char *bytes = support_plan(programs[p].text, true, &size);
        assert_int_equal(use(&programs[p], bytes, size, NULL, &by_runs, &error), OURO_OK);
        assert_int_equal(by_runs, 0);
        free(bytes);
    }
}

/* Whichever allocation fails: a message, and all that was taken is given back. */
static void every_allocation_may_fail(void **state) {
    (void)state;
    for (int p = 0; p < PROGRAMS; p++) {
        size_t size, by_runs, failed = 0;
        ouro_error error;
        unsigned char *bytes = support_plan(programs[p].text, true, &size);
        for (size_t n = 1;; n++) {
            counting c = {.fail_at = n};
            const ouro_allocator memory = counted(&c);
            const ouro_status status = use(&programs[p], bytes, size, &memory, &by_runs, &error);
            if (c.live)
                fail_msg("%s: allocation %zu fails, %zu are not given back", programs[p].name, n, c.live);
            if (status == OURO_OK && c.count < n) break;
            if (status == OURO_OK) continue; /* it did without: offsets for the shapes of a run */
            if (status != OURO_MACHINE)
                fail_msg("%s: allocation %zu fails: %s", programs[p].name, n, error.message);
            failed++;
        }
        assert_true(failed > 3);
        free(bytes);
    }
}

/* ---- one block ----------------------------------------------------------------------------------------- */

static void a_block_of_the_size_that_is_said_suffices(void **state) {
    (void)state;
    for (int p = 0; p < PROGRAMS; p++) {
        size_t size, plan_bytes, session_bytes;
        ouro_error error;
        ouro_allocator memory;
        ouro_plan *measured, *opened;
        ouro_session *session;
        unsigned char *bytes = support_plan(programs[p].text, true, &size);
        assert_int_equal(ouro_plan_open(bytes, size, &measured, &error), OURO_OK);
        assert_int_equal(ouro_plan_bytes(measured, &plan_bytes, &error), OURO_OK);
        assert_int_equal(ouro_session_bytes(measured, NULL, &session_bytes, &error), OURO_OK);
        ouro_plan_free(measured);
        assert_true(session_bytes > 0 && plan_bytes > 0);

        const size_t before = allocations_count();
        /* One for both. */
        assert_int_equal(ouro_block_allocator(block, plan_bytes + session_bytes, &memory, &error), OURO_OK);
        assert_int_equal(ouro_plan_open_with(bytes, size, &memory, &opened, &error), OURO_OK);
        assert_int_equal(ouro_session_new(opened, NULL, &session, &error), OURO_OK);
        assert_true(ouro_block_peak(&memory) <= plan_bytes + session_bytes);
        ouro_session_free(session);
        ouro_plan_free(opened);

        /* One for each, no larger and no smaller. */
        unsigned char *const second = block + (plan_bytes + 63) / 64 * 64;
        ouro_allocator memory_of_session;
        assert_int_equal(ouro_block_allocator(block, plan_bytes, &memory, &error), OURO_OK);
        assert_int_equal(ouro_plan_open_with(bytes, size, &memory, &opened, &error), OURO_OK);
        assert_int_equal(ouro_block_peak(&memory), plan_bytes);
        const ouro_session_options options = {.memory = &memory_of_session};
        assert_int_equal(ouro_block_allocator(second, session_bytes, &memory_of_session, &error), OURO_OK);
        assert_int_equal(ouro_session_new(opened, &options, &session, &error), OURO_OK);
        assert_int_equal(ouro_block_peak(&memory_of_session), session_bytes);
        ouro_session_free(session);
        assert_int_equal(ouro_block_allocator(second, session_bytes - 64, &memory_of_session, &error),
                         OURO_OK);
        assert_int_equal(ouro_session_new(opened, &options, &session, &error), OURO_MACHINE);
        assert_null(session);
        assert_non_null(strstr(error.message, "memory"));
        ouro_plan_free(opened);
        assert_int_equal(ouro_block_allocator(block, plan_bytes - 64, &memory, &error), OURO_OK);
        assert_int_equal(ouro_plan_open_with(bytes, size, &memory, &opened, &error), OURO_MACHINE);
        assert_null(opened);
        assert_int_equal(allocations_count() - before, 0);
        free(bytes);
    }
}

/* A random sequence of taking and giving back: pieces are aligned, disjoint, and all of the block is free in the end. */
static void pieces_of_a_block_are_disjoint(void **state) {
    (void)state;
    enum { PIECES = 64, BYTES = 1 << 16 };
    struct {
        unsigned char *data;
        size_t bytes;
    } pieces[PIECES] = {{NULL, 0}};
    ouro_allocator memory;
    uint64_t random = 5;
    size_t refused = 0;
    assert_int_equal(ouro_block_allocator(block, BYTES, &memory, NULL), OURO_OK);
    for (int step = 0; step < 20000; step++) {
        const size_t i = support_random(&random) % PIECES;
        if (pieces[i].data) {
            for (size_t k = 0; k < pieces[i].bytes; k++) assert_int_equal(pieces[i].data[k], i);
            memory.release(memory.user, pieces[i].data);
            pieces[i].data = NULL;
            continue;
        }
        pieces[i].bytes = 1 + support_random(&random) % 2500;
        pieces[i].data = memory.allocate(memory.user, pieces[i].bytes);
        refused += !pieces[i].data;
        if (!pieces[i].data) continue;
        assert_int_equal((uintptr_t)pieces[i].data % OURO_ALIGNMENT, 0);
        assert_true(pieces[i].data + pieces[i].bytes <= block + BYTES);
        memset(pieces[i].data, (int)i, pieces[i].bytes);
    }
    assert_true(refused > 0);
    assert_true(ouro_block_peak(&memory) <= BYTES);
    for (size_t i = 0; i < PIECES; i++)
        if (pieces[i].data) memory.release(memory.user, pieces[i].data);
    void *all = memory.allocate(memory.user, BYTES - 3 * OURO_ALIGNMENT);
    assert_non_null(all);
    assert_null(memory.allocate(memory.user, 1));
    memory.release(memory.user, all);
    assert_null(memory.allocate(memory.user, SIZE_MAX));
}

static void blocks_that_cannot_be_used(void **state) {
    (void)state;
    ouro_allocator memory;
    ouro_error error;
    assert_int_equal(ouro_block_allocator(block + 8, 4096, &memory, &error), OURO_USAGE);
    assert_non_null(strstr(error.message, "aligned to 64"));
    assert_int_equal(ouro_block_allocator(block, 100, &memory, &error), OURO_USAGE);
    assert_int_equal(ouro_block_allocator(NULL, 4096, &memory, &error), OURO_USAGE);
}

/* From a file: its bytes are the caller's allocator's, too. */
static void a_file_is_read_into_the_callers_memory(void **state) {
    (void)state;
    const char *path = TEST_BINARY_DIR "/caller_memory.plan";
    size_t size;
    ouro_plan *opened;
    ouro_error error;
    unsigned char *bytes = support_plan(programs[0].text, true, &size);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
    counting c = {0};
    const ouro_allocator memory = counted(&c);
    const size_t before = allocations_count();
    assert_int_equal(ouro_plan_load_with(path, &memory, &opened, &error), OURO_OK);
    assert_int_equal(allocations_count() - before, 0);
    assert_true(c.used >= size);
    assert_true(c.live >= 2);
    ouro_plan_free(opened);
    assert_int_equal(c.live, 0);
    for (size_t n = 1; n < 9; n++) {
        counting failing = {.fail_at = n};
        const ouro_allocator short_memory = counted(&failing);
        const ouro_status status = ouro_plan_load_with(path, &short_memory, &opened, &error);
        if (status == OURO_OK) ouro_plan_free(opened);
        else assert_int_equal(status, OURO_MACHINE);
        assert_int_equal(failing.live, 0);
    }
    assert_int_equal(ouro_plan_load_with("/nowhere/a.plan", &memory, &opened, &error), OURO_INVALID);
    assert_int_equal(c.live, 0);
    remove(path);
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_comes_from_the_heap),
        cmocka_unit_test(static_runs_take_nothing),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_block_of_the_size_that_is_said_suffices),
        cmocka_unit_test(pieces_of_a_block_are_disjoint),
        cmocka_unit_test(blocks_that_cannot_be_used),
        cmocka_unit_test(a_file_is_read_into_the_callers_memory),
    };
    fill_inputs();
    return cmocka_run_group_tests_name("caller_memory", tests, NULL, NULL);
}
