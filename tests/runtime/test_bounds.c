/* SPDX-License-Identifier: Apache-2.0 */
/* test_bounds.c: dimensions with a bound: what depends on them lies in the arena, at offsets that the compiler chose, and a run takes no
 * memory; the same numbers as without bounds; a run beyond a bound fails before it changes anything.
 */
#include "runtime/executor.h"
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { WIDTH = 8, MOST = 24, TEXT = 4096 };

/* %s: the bounds of S and of P. Reshapes, a computed extent, a Concat of both, and a size that depends on data. */
static const char text_format[] =
    "module \"bounds\" { symbol S%s symbol P%s constant %%w: float32[8,8] = {W} constant %%flat: int64[1] = "
    "{-1}\n"
    " constant %%rows: int64[2] = {-1, 8}\n"
    " graph main(%%x: float32[S,8], %%y: float32[P,8]) {\n"
    "  %%a: float32[S,8] = MatMul(%%x, %%w) %%b: float32[P,8] = Tanh(%%y) %%c: float32[?,8] = Concat(%%a, "
    "%%b) {axis = 0}\n"
    "  %%f: float32[?] = Reshape(%%c, %%flat) %%g: float32[?] = Neg(%%f) %%h: float32[?,8] = Reshape(%%g, "
    "%%rows)\n"
    "  %%i: float32[?,8] = MatMul(%%h, %%w) %%j: float32[?,8] = Add(%%i, %%c) %%u: float32[8,?] = "
    "Transpose(%%j) {perm = [1, 0]} %%k: float32[?,?] = MatMul(%%j, %%u)\n"
    "  yield %%j, %%k } }";

static const char *make_text(const char *s, const char *p) {
    static char text[TEXT], weights[1024], filled[3 * TEXT];
    size_t used = 0;
    for (int i = 0; i < WIDTH * WIDTH; i++)
        used +=
            (size_t)snprintf(weights + used, sizeof weights - used, "%s%d", i ? ", " : "", (i * 5) % 7 - 3);
    snprintf(text, sizeof text, text_format, s, p);
    char *at = strstr(text, "W}");
    *at = 0;
    snprintf(filled, sizeof filled, "%s%s%s", text, weights, at + 1);
    return filled;
}

static void bind(const support_session *on, size_t input, const float *data, int64_t rows) {
    ouro_error error;
    const int64_t dims[] = {rows, WIDTH};
    if (ouro_session_bind_input(on->session, input, data, (size_t)rows * WIDTH * sizeof *data, dims,
                                &error) != OURO_OK)
        fail_msg("%s", error.message);
}

static void expect_same(const support_session *a, const support_session *b) {
    for (size_t i = 0; i < 2; i++) {
        ouro_tensor_info x, y;
        const void *left, *right;
        assert_int_equal(ouro_session_output(a->session, i, &x, &left, NULL), OURO_OK);
        assert_int_equal(ouro_session_output(b->session, i, &y, &right, NULL), OURO_OK);
        assert_int_equal(x.bytes, y.bytes);
        assert_memory_equal(x.dims, y.dims, 2 * sizeof *x.dims);
        if (x.bytes) assert_memory_equal(left, right, x.bytes);
    }
}

static void test_in_the_arena(void **state) {
    (void)state;
    support_session bounded, free_ones;
    float x[MOST * WIDTH], y[MOST * WIDTH];
    uint64_t random = 3;
    ouro_memory memory;
    ouro_error error;
    support_session_open(&bounded, make_text(" most 24", " most 10"), 1);
    support_session_open(&free_ones, make_text("", ""), 1);
    for (int i = 0; i < MOST * WIDTH; i++) {
        x[i] = (float)(support_random(&random) % 15) - 7;
        y[i] = (float)(support_random(&random) % 15) - 7;
    }
    assert_true(ouro_plan_arena_bytes(bounded.plan) >= 34 * 34 * sizeof(float));
    for (int64_t s = 0; s <= 24; s += s < 3 ? 1 : 7)
        for (int64_t p = 0; p <= 10; p += 5) {
            bind(&bounded, 0, x, s), bind(&bounded, 1, y, p);
            bind(&free_ones, 0, x, s), bind(&free_ones, 1, y, p);
            support_run(&bounded);
            support_run(&free_ones);
            expect_same(&bounded, &free_ones);
        }
    ouro_session_memory(bounded.session, &memory);
    assert_int_equal(memory.shape_bytes, 0);
    assert_int_equal(memory.run_time_bytes, 0);
    assert_int_equal(memory.run_time_peak_bytes, 0);
    assert_int_equal(memory.run_time_allocations, 0);
    /* Beyond: nothing is run, and the session goes on. */
    bind(&bounded, 1, y, 11);
    assert_int_equal(ouro_session_run(bounded.session, &error), OURO_INVALID);
    assert_non_null(strstr(error.message, "--max"));
    bind(&bounded, 1, y, 10);
    support_run(&bounded);
    support_session_close(&bounded);
    support_session_close(&free_ones);
}

/* An output of unknown extents is made in the caller's buffer, where that is large enough. */
static void test_bound_outputs(void **state) {
    (void)state;
    support_session bounded, plain;
    static float x[MOST * WIDTH], j[MOST * WIDTH + 10 * WIDTH];
    const void *data;
    ouro_tensor_info info;
    ouro_error error;
    for (int i = 0; i < MOST * WIDTH; i++) x[i] = (float)(i % 5) - 2;
    support_session_open(&bounded, make_text(" most 24", " most 10"), 1);
    support_session_open(&plain, make_text("", ""), 1);
    for (int round = 0; round < 3; round++) {
        bind(&bounded, 0, x, 20), bind(&bounded, 1, x, 7);
        bind(&plain, 0, x, 20), bind(&plain, 1, x, 7);
        memset(j, 0, sizeof j);
        assert_int_equal(ouro_session_bind_output(bounded.session, 0, round == 2 ? NULL : j,
                                                  round == 2 ? 0 : sizeof j, &error),
                         OURO_OK);
        support_run(&bounded);
        support_run(&plain);
        expect_same(&bounded, &plain);
        assert_int_equal(ouro_session_output(bounded.session, 0, &info, &data, NULL), OURO_OK);
        assert_true((data == j) == (round < 2));
    }
    assert_int_equal(ouro_session_bind_output(bounded.session, 0, j, 64, &error), OURO_OK);
    assert_int_equal(ouro_session_run(bounded.session, &error), OURO_USAGE);
    support_session_close(&bounded);
    support_session_close(&plain);
}

/* Two sessions in one arena of the caller's: what one has given is there when the other has run. */
static void test_shared_arena(void **state) {
    (void)state;
    support_session made;
    float x[MOST * WIDTH], expected[27 * WIDTH];
    ouro_session *both[2];
    ouro_tensor_info info;
    const void *data;
    support_session_open(&made, make_text(" most 24", " most 10"), 1);
    const size_t bytes = ouro_plan_arena_bytes(made.plan);
    void *arena = aligned_alloc(64, bytes);
    const ouro_session_options options = {.arena = arena, .arena_bytes = bytes};
    for (int i = 0; i < MOST * WIDTH; i++) x[i] = (float)(i % 5) - 2;
    for (int k = 0; k < 2; k++) {
        const int64_t s[] = {20 - k, WIDTH}, p[] = {7, WIDTH};
        assert_int_equal(ouro_session_new(made.plan, &options, &both[k], NULL), OURO_OK);
        assert_int_equal(ouro_session_bind_input(both[k], 0, x, (size_t)s[0] * WIDTH * sizeof *x, s, NULL),
                         OURO_OK);
        assert_int_equal(ouro_session_bind_input(both[k], 1, x, 7 * WIDTH * sizeof *x, p, NULL), OURO_OK);
    }
    assert_int_equal(ouro_session_run(both[0], NULL), OURO_OK);
    assert_int_equal(ouro_session_output(both[0], 0, &info, &data, NULL), OURO_OK);
    assert_int_equal(info.bytes, sizeof expected);
    memcpy(expected, data, sizeof expected);
    assert_int_equal(ouro_session_run(both[1], NULL), OURO_OK);
    assert_int_equal(ouro_session_output(both[0], 0, &info, &data, NULL), OURO_OK);
    assert_memory_equal(data, expected, sizeof expected);
    ouro_session_free(both[0]);
    ouro_session_free(both[1]);
    free(arena);
    support_session_close(&made);
}

/* What a run needs and gives is known before it happens, and taken once, from the system or from the caller. */
static void test_prepared(void **state) {
    (void)state;
    support_session plain, bounded;
    static float x[MOST * WIDTH];
    ouro_needs needs, again;
    ouro_tensor_info outputs[2], info;
    ouro_memory before, memory;
    ouro_error error;
    const void *data;
    const int64_t s[] = {20, WIDTH}, p[] = {7, WIDTH}, large[] = {24, WIDTH}, wrong[] = {20, 3};
    const int64_t *const dims[] = {s, p}, *const larger[] = {large, p}, *const refused[] = {wrong, p};
    const ouro_span ask = {0};
    support_session_open(&plain, make_text("", ""), 1);
    assert_int_equal(ouro_session_prepare(plain.session, NULL, &ask, &needs, outputs, &error), OURO_USAGE);
    assert_int_equal(ouro_session_prepare(plain.session, refused, &ask, &needs, outputs, &error),
                     OURO_INVALID);
    assert_int_equal(ouro_session_prepare(plain.session, dims, &ask, &needs, outputs, &error), OURO_OK);
    ouro_session_memory(plain.session, &memory);
    assert_int_equal(memory.shape_bytes, 0);
    assert_true(needs.shape_bytes >= 27 * 27 * sizeof(float));
    assert_int_equal(needs.output_bytes, 27 * 35 * sizeof(float));
    assert_string_equal(outputs[1].name, "k");
    assert_int_equal(outputs[0].dims[0], 27);
    assert_int_equal(outputs[1].dims[0], 27);
    assert_int_equal(outputs[1].dims[1], 27);
    assert_int_equal(outputs[1].bytes, 27 * 27 * sizeof(float));
    /* Taken from the system. */
    assert_int_equal(ouro_session_prepare(plain.session, dims, NULL, &again, NULL, &error), OURO_OK);
    assert_memory_equal(&needs, &again, sizeof needs);
    ouro_session_memory(plain.session, &before);
    assert_int_equal(before.shape_bytes, needs.shape_bytes);
    bind(&plain, 0, x, 20), bind(&plain, 1, x, 7);
    assert_int_equal(ouro_session_run(plain.session, &error), OURO_OK);
    ouro_session_memory(plain.session, &memory);
    assert_int_equal(memory.shape_bytes, before.shape_bytes);
    assert_int_equal(ouro_session_output(plain.session, 1, &info, &data, NULL), OURO_OK);
    assert_int_equal(info.bytes, outputs[1].bytes);
    /* From the caller, who gives too little first; and as it is bound. */
    void *given = aligned_alloc(64, (needs.shape_bytes + 4096) / 64 * 64);
    ouro_span memory_of_caller = {given, needs.shape_bytes - 64};
    assert_int_equal(ouro_session_prepare(plain.session, dims, &memory_of_caller, NULL, NULL, &error),
                     OURO_USAGE);
    memory_of_caller.bytes = needs.shape_bytes;
    assert_int_equal(ouro_session_prepare(plain.session, NULL, &memory_of_caller, NULL, NULL, &error),
                     OURO_OK);
    assert_int_equal(ouro_session_output(plain.session, 1, &info, &data, NULL), OURO_USAGE);
    ouro_session_memory(plain.session, &memory);
    assert_int_equal(memory.total_bytes - memory.table_bytes - memory.run_time_reserved_bytes +
                         needs.shape_bytes,
                     before.total_bytes - before.table_bytes - before.run_time_reserved_bytes);
    assert_int_equal(ouro_session_run(plain.session, &error), OURO_OK);
    assert_int_equal(ouro_session_output(plain.session, 1, &info, &data, NULL), OURO_OK);
    assert_true((const char *)data >= (char *)given &&
                (const char *)data < (char *)given + needs.shape_bytes);
    /* A larger run takes its own. */
    bind(&plain, 0, x, 24);
    assert_int_equal(ouro_session_run(plain.session, &error), OURO_OK);
    assert_int_equal(ouro_session_prepare(plain.session, larger, &ask, &again, NULL, &error), OURO_OK);
    assert_true(again.shape_bytes > needs.shape_bytes);
    support_session_close(&plain);
    free(given);
    /* With bounds all of it is in the arena. */
    support_session_open(&bounded, make_text(" most 24", " most 10"), 1);
    assert_int_equal(ouro_session_prepare(bounded.session, dims, NULL, &needs, outputs, &error), OURO_OK);
    assert_int_equal(needs.shape_bytes, 0);
    assert_int_equal(needs.arena_bytes, ouro_plan_arena_bytes(bounded.plan));
    assert_int_equal(outputs[1].bytes, 27 * 27 * sizeof(float));
    const int64_t beyond[] = {11, WIDTH};
    const int64_t *const too_many[] = {s, beyond};
    assert_int_equal(ouro_session_prepare(bounded.session, too_many, NULL, NULL, NULL, &error), OURO_INVALID);
    support_session_close(&bounded);
}

/* Of outputs that the caller has bound the session holds nothing. */
static void test_own_outputs(void **state) {
    (void)state;
    support_session on;
    static float x[4096], y[4096];
    ouro_memory before, bound, after;
    support_session_open(
        &on, "module \"outputs\" { graph main(%x: float32[4096]) { %y: float32[4096] = Neg(%x) yield %y } }",
        1);
    support_bind(&on, 0, x, sizeof x);
    ouro_session_memory(on.session, &before);
    assert_int_equal(before.output_bytes, sizeof y);
    assert_int_equal(ouro_session_bind_output(on.session, 0, y, sizeof y, NULL), OURO_OK);
    ouro_session_memory(on.session, &bound);
    assert_int_equal(bound.output_bytes, 0);
    assert_int_equal(bound.total_bytes, before.total_bytes - sizeof y);
    support_run(&on);
    assert_int_equal(ouro_session_bind_output(on.session, 0, NULL, 0, NULL), OURO_OK);
    ouro_session_memory(on.session, &after);
    assert_int_equal(after.output_bytes, sizeof y);
    support_run(&on);
    assert_memory_equal(support_output(&on, 0, sizeof y), y, sizeof y);
    support_session_close(&on);
}

/* Reservations that share bytes with others that are live then: refused, or the same numbers come out. */
static void test_broken(void **state) {
    (void)state;
    size_t size, refused = 0, tried = 0;
    unsigned char *bytes = support_plan(make_text(" most 24", " most 10"), true, &size);
    const plan_header *header = (const void *)bytes;
    plan_tensor *tensors = (void *)(bytes + header->tensors.offset);
    for (uint64_t id = 0; id < header->tensors.count; id++) {
        if (tensors[id].address.space != MEMORY_DYNAMIC || !tensors[id].bytes) continue;
        for (uint64_t to = 0; to + 64 <= header->arena_bytes; to += 64) {
            const uint64_t saved = tensors[id].address.offset;
            ouro_plan *opened;
            if (to == saved) continue;
            tensors[id].address.offset = to;
            support_plan_seal(bytes, size);
            tried++;
            if (ouro_plan_open(bytes, size, &opened, NULL) == OURO_OK) ouro_plan_free(opened);
            else refused++;
            tensors[id].address.offset = saved;
        }
    }
    print_message("%zu of %zu changed plans refused\n", refused, tried);
    assert_true(tried > 300 && refused > tried / 2);
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_the_arena), cmocka_unit_test(test_bound_outputs),
        cmocka_unit_test(test_shared_arena), cmocka_unit_test(test_prepared),
        cmocka_unit_test(test_own_outputs),  cmocka_unit_test(test_broken)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
