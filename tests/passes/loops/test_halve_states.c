/* SPDX-License-Identifier: Apache-2.0 */
/* test_halve_states.c: caches that are kept in 16 bits, beside a caller who rounds what he appends and hands floats on: the same numbers
 * but for the order of sums, for prompts and single tokens, truncated, cloned, saved and loaded, set, beyond the bound; attention reads
 * them as they are. What others read, or is no float, stays.
 */
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { HEADS = 2, WIDTH = 16, ROW = HEADS * WIDTH, MOST = 40, TEXT = 8192 };

#define C(length) "float32[1,2," length ",16]"

/* %s: the bound; the clause of states, which are of this many; rounding of what is appended, or none; and who attends. */
static const char cache_text[] =
    "module \"cache\" { symbol P%s symbol S most 8 constant %%scale: float32[] = {0.25} constant %%two: "
    "float32[] = {2}\n"
    " graph main(%%k: " C("P") ", %%v: " C("P") ", %%x: " C(
        "S") ") %s {\n"
             " %%twice: " C("S") " = Mul(%%x, %%two)\n"
                                 " %s\n"
                                 " %%kk: float32[1,2,?,16] = Concat(%%k, %%nk) {axis = 2} %%vv: "
                                 "float32[1,2,?,16] = Concat(%%v, %%nv) {axis = 2}\n"
                                 " %s yield %%kk, %%vv, %%o } }";
static const char *const appended[] = {
    " %nk: " C("S") " = Mul(%x, %scale) %nv: " C("S") " = Neg(%twice)",
    " %fk: " C("S") " = Mul(%x, %scale) %fv: " C(
        "S") " = Neg(%twice)\n"
             " %hk: float16[1,2,S,16] = Cast(%fk) {to = 10} %hv: float16[1,2,S,16] = Cast(%fv) {to = 10}"
             " %nk: " C("S") " = Cast(%hk) {to = 1} %nv: " C("S") " = Cast(%hv) {to = 1}",
    " %fk: " C("S") " = Mul(%x, %scale) %fv: " C(
        "S") " = Neg(%twice)\n"
             " %hk: bfloat16[1,2,S,16] = Cast(%fk) {to = 16} %hv: bfloat16[1,2,S,16] = Cast(%fv) {to = 16}"
             " %nk: " C("S") " = Cast(%hk) {to = 1} %nv: " C("S") " = Cast(%hv) {to = 1}",
};
/* By products, with and without a factor, and by the operator. */
static const char *const attends[] = {
    " %t: float32[1,2,16,?] = Transpose(%kk) {perm = [0, 1, 3, 2]} %s: float32[1,2,S,?] = MatMul(%x, %t)"
    " %p: float32[1,2,S,?] = Softmax(%s) {axis = -1} %o: " C("S") " = MatMul(%p, %vv)\n",
    " %t: float32[1,2,16,?] = Transpose(%kk) {perm = [0, 1, 3, 2]} %s: float32[1,2,S,?] = MatMul(%x, %t)"
    " %m: float32[1,2,S,?] = Mul(%s, %scale)"
    " %p: float32[1,2,S,?] = Softmax(%m) {axis = -1} %o: " C("S") " = MatMul(%p, %vv)\n",
    " %o: " C("S") " = Attention(%x, %kk, %vv)\n"};
enum { FORMS = sizeof attends / sizeof *attends };

typedef struct cache {
    support_session with, without;
    op_dtype stored;
    int64_t length;
    float k[ROW * MOST], v[ROW * MOST], x[ROW * MOST];
} cache;

static void open_cache(cache *c, op_dtype stored, size_t form, bool portable) {
    static char text[TEXT];
    *c = (cache){.stored = stored};
    const int rounds = stored == OP_FLOAT16 ? 1 : 2;
    pass_options options = {.max_unroll = 16, .environment = {.threads = 1, .portable_only = portable}};
    snprintf(text, sizeof text, cache_text, " most 24", "", appended[rounds], attends[form]);
    support_session_open_with(&c->without, text, &options);
    options.state_type = stored;
    snprintf(text, sizeof text, cache_text, " most 24", "states 2", appended[0], attends[form]);
    support_session_open_with(&c->with, text, &options);
}

static float element_of(const char *at, op_dtype dtype) {
    uint16_t half;
    memcpy(&half, at, sizeof half);
    return dtype == OP_FLOAT16 ? base_float_from_half(half) : base_float_from_bfloat16(half);
}

static void expect_state(const cache *c, const ouro_session *session, size_t index, const float *wanted) {
    ouro_state_info info;
    const char *data;
    assert_int_equal(ouro_session_state_get(session, index, &info, (const void **)&data, NULL), OURO_OK);
    assert_int_equal(info.dtype, c->stored);
    assert_int_equal(info.axis, 2);
    assert_int_equal(ouro_session_state_length(session), c->length);
    for (int64_t h = 0; h < HEADS; h++)
        for (int64_t t = 0; t < c->length; t++)
            for (int64_t d = 0; d < WIDTH; d++) {
                const char *at = data + h * info.strides[1] + t * info.strides[2] + d * info.strides[3];
                assert_true(element_of(at, c->stored) == wanted[(h * c->length + t) * WIDTH + d]);
            }
}

static void expect_states(const cache *c, const ouro_session *session) {
    expect_state(c, session, 0, c->k);
    expect_state(c, session, 1, c->v);
}

static bool append(cache *c, ouro_session *session, int64_t count, uint64_t *random, bool check) {
    const int64_t past[] = {1, HEADS, c->length, WIDTH}, more[] = {1, HEADS, count, WIDTH};
    const size_t row = ROW * sizeof(float);
    base_report report = {0};
    ouro_error error;
    ouro_tensor_info info[2];
    const void *data[2];
    for (int64_t i = 0; i < ROW * count; i++) c->x[i] = (float)(support_random(random) % 2001) / 500 - 2;
    ouro_session *without = c->without.session;
    assert_int_equal(ouro_session_bind_input(without, 0, c->k, (size_t)c->length * row, past, NULL), OURO_OK);
    assert_int_equal(ouro_session_bind_input(without, 1, c->v, (size_t)c->length * row, past, NULL), OURO_OK);
    assert_int_equal(ouro_session_bind_input(without, 2, c->x, (size_t)count * row, more, NULL), OURO_OK);
    assert_int_equal(ouro_session_bind_input(session, 0, c->x, (size_t)count * row, more, NULL), OURO_OK);
    if (check ? rt_session_check(session, &report) != BASE_OK
              : ouro_session_run(session, &error) != OURO_OK) {
        expect_states(c, session);
        return false;
    }
    assert_int_equal(ouro_session_run(without, &error), OURO_OK);
    assert_int_equal(ouro_session_output(session, 0, &info[0], &data[0], NULL), OURO_OK);
    assert_int_equal(ouro_session_output(without, 2, &info[1], &data[1], NULL), OURO_OK);
    assert_int_equal(info[0].bytes, info[1].bytes);
    for (size_t i = 0; i < info[0].bytes / sizeof(float); i++) {
        const double is = (double)((const float *)data[0])[i], wanted = (double)((const float *)data[1])[i];
        if (!(fabs(is - wanted) <= 1e-5 * (1 + fabs(wanted))))
            fail_msg("element %zu: %g, expected %g", i, is, wanted);
    }
    for (size_t s = 0; s < 2; s++) {
        assert_int_equal(ouro_session_output(without, s, &info[0], &data[0], NULL), OURO_OK);
        memcpy(s ? c->v : c->k, data[0], info[0].bytes);
    }
    c->length += count;
    expect_states(c, session);
    return true;
}

static void cut(cache *c, int64_t length) {
    for (int64_t h = 1; h < HEADS; h++) {
        memmove(&c->k[h * length * WIDTH], &c->k[h * c->length * WIDTH],
                (size_t)(length * WIDTH) * sizeof(float));
        memmove(&c->v[h * length * WIDTH], &c->v[h * c->length * WIDTH],
                (size_t)(length * WIDTH) * sizeof(float));
    }
    c->length = length;
}

static void try_cache(op_dtype stored, size_t form, bool portable) {
    static const int64_t counts[] = {5, 1, 1, 3, 1, 1};
    uint64_t random = 17;
    ouro_error error;
    cache c;
    open_cache(&c, stored, form, portable);
    ouro_session *session = c.with.session, *clone, *loaded;
    support_check_no_copies(rt_plan_of(c.with.plan), "cache");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        assert_true(append(&c, session, counts[i], &random, i % 2));
    assert_int_equal(ouro_session_state_truncate(session, 7, &error), OURO_OK);
    cut(&c, 7);
    expect_states(&c, session);
    assert_true(append(&c, session, 2, &random, true));
    const size_t bytes = ouro_session_state_saved_bytes(session);
    unsigned char *saved = malloc(bytes);
    assert_int_equal(ouro_session_state_save(session, saved, bytes, &error), OURO_OK);
    assert_int_equal(ouro_session_clone(session, &clone, &error), OURO_OK);
    assert_int_equal(ouro_session_new(c.with.plan, NULL, &loaded, &error), OURO_OK);
    assert_int_equal(ouro_session_state_load(loaded, saved, bytes, &error), OURO_OK);
    free(saved);
    const cache kept = c;
    assert_true(append(&c, session, 3, &random, false));
    const cache first = c;
    c = kept;
    assert_true(append(&c, clone, 1, &random, false));
    c = kept;
    assert_true(append(&c, loaded, 1, &random, true));
    c = first;
    expect_states(&c, session);
    ouro_session_free(clone);
    ouro_session_free(loaded);
    while (c.length < 24) assert_true(append(&c, session, 1, &random, false));
    assert_false(append(&c, session, 1, &random, false)); /* one too many */
    /* What is given is of the type of the state. */
    const int64_t dims[] = {1, HEADS, 3, WIDTH};
    uint16_t given[ROW * 3];
    cut(&c, 3);
    for (int64_t s = 0; s < 2; s++) {
        for (int64_t i = 0; i < ROW * 3; i++)
            given[i] = stored == OP_FLOAT16 ? base_half_from_float((s ? c.v : c.k)[i])
                                            : base_bfloat16_from_float((s ? c.v : c.k)[i]);
        assert_int_equal(ouro_session_state_set(session, (size_t)s, c.k, sizeof given * 2, dims, &error),
                         OURO_USAGE);
        assert_int_equal(ouro_session_state_set(session, (size_t)s, given, sizeof given, dims, &error),
                         OURO_OK);
    }
    expect_states(&c, session);
    assert_true(append(&c, session, 2, &random, true));
    assert_int_equal(ouro_session_state_reset(session, &error), OURO_OK);
    c.length = 0;
    assert_true(append(&c, session, 4, &random, true));
    support_session_close(&c.with);
    support_session_close(&c.without);
}

static void caches_in_16_bits(void **context) {
    (void)context;
    for (size_t form = 0; form < FORMS; form++)
        for (int i = 0; i < 4; i++) try_cache(i % 2 ? OP_FLOAT16 : OP_BFLOAT16, form, i / 2);
}

/* Attention reads halves, and nothing makes floats of a whole cache. */
static void attention_reads_them(void **context) {
    (void)context;
    for (size_t form = 0; form < FORMS; form++) {
        cache c;
        open_cache(&c, OP_FLOAT16, form, form == 0);
        const plan *of = rt_plan_of(c.with.plan);
        uint64_t attentions = 0, casts = 0;
        for (uint64_t n = 0; n < of->header->nodes.count; n++) {
            const char *name = of->texts + of->nodes[n].operator_name;
            attentions += strcmp(name, "Attention") == 0;
            casts += strcmp(name, "Cast") == 0;
        }
        assert_int_equal(attentions, 1);
        assert_int_equal(casts, 2); /* of what is appended */
        support_session_close(&c.with);
        support_session_close(&c.without);
    }
}

/* A sum over a cache, a cache of integers, one that does not grow. */
static void others_stay(void **context) {
    (void)context;
    static const char *const texts[] = {
        "module \"m\" { symbol P graph main(%k: float32[P,4], %x: float32[1,4]) states 1 {"
        " %n: float32[?,4] = Concat(%k, %x) {axis = 0} %o: float32[?,4] = Neg(%n) yield %n, %o } }",
        "module \"m\" { symbol P graph main(%k: int64[P,4], %x: int64[1,4]) states 1 {"
        " %n: int64[?,4] = Concat(%k, %x) {axis = 0} yield %n } }",
        "module \"m\" { graph main(%k: float32[4], %x: float32[4]) states 1 {"
        " %n: float32[4] = Add(%k, %x) yield %n } }"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const pass_options options = {
            .max_unroll = 16, .state_type = OP_FLOAT16, .environment = {.threads = 1, .portable_only = true}};
        support_session on;
        ouro_state_info info;
        const void *data;
        support_session_open_with(&on, texts[i], &options);
        assert_int_equal(ouro_session_state_get(on.session, 0, &info, &data, NULL), OURO_OK);
        assert_int_equal(info.dtype, i == 1 ? OURO_INT64 : OURO_FLOAT);
        support_session_close(&on);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(caches_in_16_bits),
                                       cmocka_unit_test(attention_reads_them), cmocka_unit_test(others_stay)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
