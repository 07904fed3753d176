/* SPDX-License-Identifier: Apache-2.0 */
/* test_state_caches.c: a cache that grows along an inner axis from run to run, beside one that the test keeps itself: by one position and
 * by several, truncated, cloned, saved and loaded, set and reset, up to the bound and beyond it.
 */
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { HEADS = 2, WIDTH = 4, MOST_POSITIONS = 40, ROW = HEADS * WIDTH, TEXT = 8192 };

#define C(length) "float32[2," length ",4]"

/* Attention without a mask to all positions so far; what is appended lies along the inner axis. %s: the bound, then the clause. */
static const char cache_text[] =
    "module \"cache\" { symbol P%s symbol S constant %%half: float32[4,4] = {0.5, 0, 0, 0.25, 0, 0.5, 0, 0, "
    "0, 0, 0.5, 0, "
    "0.125, 0, 0, 0.5}\n"
    " graph main(%%past: " C("P") ", %%sum: float32[2,4], %%x: " C("S") ") %s { %%k: " C(
        "S") " = MatMul(%%x, %%half)\n"
             "  %%present: float32[2,?,4] = Concat(%%past, %%k) {axis = 1} %%t: float32[2,4,?] = "
             "Transpose(%%present) {perm = [0, 2, 1]}\n"
             "  %%s: float32[2,S,?] = MatMul(%%x, %%t) %%p: float32[2,S,?] = Softmax(%%s) {axis = -1} "
             "%%o: " C("S") " = MatMul(%%p, "
                            "%%present)\n"
                            "  %%one: float32[2,4] = ReduceMean(%%o, %%axis) {keepdims = 0} %%next: "
                            "float32[2,4] = Add(%%sum, %%one)\n"
                            "  yield %%present, %%next, %%o } }";

typedef struct cache {
    support_session with, without;
    float past[HEADS * MOST_POSITIONS * WIDTH], sum[ROW], x[HEADS * MOST_POSITIONS * WIDTH];
    int64_t length;
} cache;

static void open_cache(cache *c, const char *bound) {
    static char text[TEXT], body[TEXT];
    *c = (cache){.length = 0};
    for (int states = 0; states < 2; states++) {
        snprintf(body, sizeof body, cache_text, bound, states ? "states 2" : "");
        /* The axis of the mean is one more constant. */
        snprintf(text, sizeof text, "module \"cache\" { constant %%axis: int64[1] = {1}%s",
                 strchr(body, '{') + 1);
        support_session_open(states ? &c->with : &c->without, text, 1);
    }
}

static void close_cache(cache *c) {
    support_session_close(&c->with);
    support_session_close(&c->without);
}

static void draw_rows(cache *c, int64_t count, uint64_t *random) {
    for (int64_t i = 0; i < HEADS * count * WIDTH; i++)
        c->x[i] = (float)(support_random(random) % 2001) / 1000 - 1;
}

/* The state is what the caller has handed on, whatever its strides are. */
static void expect_cache(const cache *c, const ouro_session *session) {
    ouro_state_info info;
    const char *data;
    assert_int_equal(ouro_session_state_get(session, 0, &info, (const void **)&data, NULL), OURO_OK);
    assert_int_equal(info.axis, 1);
    assert_int_equal(ouro_session_state_length(session), c->length);
    if (!c->length) return;
    assert_int_equal(info.dims[1], c->length);
    for (int64_t h = 0; h < HEADS; h++)
        for (int64_t t = 0; t < c->length; t++)
            assert_memory_equal(data + h * info.strides[0] + t * info.strides[1],
                                &c->past[(h * c->length + t) * WIDTH], WIDTH * sizeof(float));
}

/* So many positions more, both ways; true where it was right. */
static bool append(cache *c, ouro_session *session, int64_t count, bool check) {
    const int64_t past[] = {HEADS, c->length, WIDTH}, more[] = {HEADS, count, WIDTH};
    const size_t row = ROW * sizeof(float);
    base_report report = {0};
    ouro_error error;
    ouro_tensor_info info[2];
    const void *data[2];
    assert_int_equal(
        ouro_session_bind_input(c->without.session, 0, c->past, (size_t)c->length * row, past, NULL),
        OURO_OK);
    assert_int_equal(ouro_session_bind_input(c->without.session, 1, c->sum, sizeof c->sum, NULL, NULL),
                     OURO_OK);
    assert_int_equal(ouro_session_bind_input(c->without.session, 2, c->x, (size_t)count * row, more, NULL),
                     OURO_OK);
    assert_int_equal(ouro_session_bind_input(session, 0, c->x, (size_t)count * row, more, NULL), OURO_OK);
    if (check ? rt_session_check(session, &report) != BASE_OK
              : ouro_session_run(session, &error) != OURO_OK) {
        expect_cache(c, session);
        return false;
    }
    assert_int_equal(ouro_session_run(c->without.session, &error), OURO_OK);
    assert_int_equal(ouro_session_output(session, 0, &info[0], &data[0], NULL), OURO_OK);
    assert_int_equal(ouro_session_output(c->without.session, 2, &info[1], &data[1], NULL), OURO_OK);
    assert_int_equal(info[0].bytes, info[1].bytes);
    assert_memory_equal(data[0], data[1], info[0].bytes);
    assert_int_equal(ouro_session_output(c->without.session, 0, &info[1], &data[1], NULL), OURO_OK);
    memcpy(c->past, data[1], info[1].bytes);
    c->length += count;
    memcpy(c->sum, support_output(&c->without, 1, sizeof c->sum), sizeof c->sum);
    expect_cache(c, session);
    return true;
}

/* The caller forgets positions. */
static void cut(cache *c, int64_t length) {
    for (int64_t h = 1; h < HEADS; h++)
        memmove(&c->past[h * length * WIDTH], &c->past[h * c->length * WIDTH],
                (size_t)length * WIDTH * sizeof(float));
    c->length = length;
}

static void try_cache(const char *bound, int64_t most) {
    uint64_t random = 17;
    ouro_error error;
    cache c;
    open_cache(&c, bound);
    ouro_session *session = c.with.session;
    const int64_t counts[] = {7, 1, 1, 3, 1, 1, 1, 2};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        draw_rows(&c, counts[i], &random);
        assert_true(append(&c, session, counts[i], i % 2));
    }
    /* Rejected tokens go. */
    assert_int_equal(ouro_session_state_truncate(session, c.length + 1, &error), OURO_USAGE);
    assert_int_equal(ouro_session_state_truncate(session, 9, &error), OURO_OK);
    cut(&c, 9);
    expect_cache(&c, session);
    draw_rows(&c, 2, &random);
    assert_true(append(&c, session, 2, false));
    /* A second one goes its own way, and one that is loaded another. */
    ouro_session *clone, *loaded;
    const size_t bytes = ouro_session_state_saved_bytes(session);
    unsigned char *saved = malloc(bytes);
    assert_int_equal(ouro_session_state_save(session, saved, bytes, &error), OURO_OK);
    assert_int_equal(ouro_session_clone(session, &clone, &error), OURO_OK);
    assert_int_equal(ouro_session_new(c.with.plan, NULL, &loaded, &error), OURO_OK);
    assert_int_equal(ouro_session_state_load(loaded, saved, bytes, &error), OURO_OK);
    free(saved);
    cache kept = c;
    draw_rows(&c, 3, &random);
    assert_true(append(&c, session, 3, false));
    cache first = c;
    c = kept;
    draw_rows(&c, 1, &random);
    cache again = c;
    assert_true(append(&c, clone, 1, false));
    c = again;
    assert_true(append(&c, loaded, 1, true));
    expect_cache(&first, session);
    ouro_session_free(clone);
    ouro_session_free(loaded);
    c = first;
    /* Up to the bound, and not beyond. */
    while (most && c.length < most) {
        draw_rows(&c, 1, &random);
        assert_true(append(&c, session, 1, false));
    }
    draw_rows(&c, 1, &random);
    if (most) assert_false(append(&c, session, 1, false));
    /* From the beginning: what is given, then nothing. */
    const int64_t dims[] = {HEADS, 5, WIDTH};
    cut(&c, 5);
    assert_int_equal(ouro_session_state_set(session, 0, c.past, 5 * ROW * sizeof(float), dims, &error),
                     OURO_OK);
    expect_cache(&c, session);
    draw_rows(&c, 2, &random);
    assert_true(append(&c, session, 2, false));
    assert_int_equal(ouro_session_state_reset(session, &error), OURO_OK);
    c.length = 0;
    memset(c.sum, 0, sizeof c.sum);
    draw_rows(&c, 3, &random);
    assert_true(append(&c, session, 3, true));
    close_cache(&c);
}

static void test_caches(void **context) {
    (void)context;
    try_cache(" most 24", 24);
    try_cache("", 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_caches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
