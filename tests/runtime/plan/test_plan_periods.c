/* SPDX-License-Identifier: Apache-2.0 */
/* test_plan_periods.c: loops whose tables of addresses meet late. Three values are carried, each in two buffers in turn. Their
 * tables are made longer: the last entry of each is a buffer of its own, or one buffer for two of them, which both
 * want only when both tables come to their ends in one iteration. The verifier sees that, however late it is, or refuses the
 * plan because it cannot. */
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define T "float32[4,4]"

enum { CARRIED = 3, ELEMENTS = 16, BUFFER = 64 };

/* Products of permutations: they go round, and no number grows. */
static const char program[] =
    "module \"periods\" { constant %m: " T " = {0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0}\n"
    " graph main(%n: int64[], %a: " T ") {\n %a0: " T " = Neg(%a) %a1: " T " = Abs(%a) %a2: " T
    " = Relu(%a)\n"
    " %p0: " T ", %p1: " T ", %p2: " T
    " = Loop(%n, _, %a0, %a1, %a2) { graph body(%i: int64[], %k: bool[], %x0: " T ", %x1: " T ", %x2: " T
    ") { %y0: " T " = MatMul(%x0, %m) %y1: " T " = MatMul(%m, %x1) %y2: " T " = MatMul(%x2, %m)\n"
    " yield %k, %y0, %y1, %y2 } }\n"
    " %s: " T " = Sub(%p0, %p1) %r: " T " = Sub(%s, %p2) yield %r } }\n";

typedef struct changed {
    unsigned char *bytes; /* with tables of any length after what was there */
    size_t size;
    plan_header *header;
    plan_tensor *tensors;
    plan_multiview *multiviews;
    plan_address *addresses;
} changed;

/* The tensor of that name. */
static plan_tensor *find(const changed *c, const char *name) {
    const char *texts = (const char *)c->bytes + c->header->texts.offset;
    for (uint64_t i = 0; i < c->header->tensors.count; i++)
        if (strcmp(texts + c->tensors[i].name, name) == 0) return &c->tensors[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

/* The plan with its addresses once more at the end, and `more` after these, for the caller to fill. */
static void begin(changed *c, size_t more) {
    size_t size;
    unsigned char *good = support_plan(program, true, &size);
    const plan_header *was = (const plan_header *)(const void *)good;
    const size_t at = (size + 7) / 8 * 8, count = (size_t)was->addresses.count;
    c->size = at + (count + more) * sizeof(plan_address);
    c->bytes = aligned_alloc(64, (c->size + 63) / 64 * 64);
    assert_non_null(c->bytes);
    memset(c->bytes, 0, c->size);
    memcpy(c->bytes, good, size);
    memcpy(c->bytes + at, good + was->addresses.offset, count * sizeof(plan_address));
    c->header = (plan_header *)(void *)c->bytes;
    c->header->addresses = (plan_table){at, count + more};
    c->header->file_bytes = c->size;
    c->tensors = (plan_tensor *)(void *)(c->bytes + c->header->tensors.offset);
    c->multiviews = (plan_multiview *)(void *)(c->bytes + c->header->multiviews.offset);
    c->addresses = (plan_address *)(void *)(c->bytes + c->header->addresses.offset);
    free(good);
}

/* One more buffer of the arena. */
static plan_address add_buffer(changed *c) {
    plan_graph *main = (plan_graph *)(void *)(c->bytes + c->header->graphs.offset);
    const plan_address buffer = {.space = MEMORY_ARENA, .offset = c->header->arena_bytes};
    c->header->arena_bytes += BUFFER;
    main->region_bytes += BUFFER;
    return buffer;
}

/* Carried value `index` goes through `length` (odd) entries from `first` on: its two buffers in turn, and `last`. What replaces it
 * is one entry ahead. */
static void lengthen(changed *c, int index, size_t first, uint32_t length, plan_address last) {
    char name[16];
    snprintf(name, sizeof name, "x%d", index);
    const plan_tensor *parameter = find(c, name);
    snprintf(name, sizeof name, "y%d", index);
    const plan_tensor *result = find(c, name);
    assert_true(parameter->address.space == MEMORY_MULTIVIEW && result->address.space == MEMORY_MULTIVIEW);
    plan_multiview *of = &c->multiviews[parameter->address.index],
                   *next = &c->multiviews[result->address.index];
    assert_true(of != next && of->period == 2 && next->period == 2 && !of->prologue_count &&
                !next->prologue_count);
    const plan_address turns[2] = {c->addresses[of->first], c->addresses[of->first + 1]};
    for (uint32_t t = 0; t < length; t++) {
        c->addresses[first + t] = t + 1 == length ? last : turns[t % 2];
        c->addresses[first + length + (t + length - 1) % length] = c->addresses[first + t];
    }
    snprintf(name, sizeof name, "p%d", index); /* after the loop it is where the parameter would be */
    find(c, name)->address = parameter->address;
    of->first = first, of->period = length;
    next->first = first + length, next->period = length;
}

static void execute(const unsigned char *bytes, size_t size, int64_t trips, float *made) {
    ouro_plan *opened;
    ouro_session *session;
    ouro_tensor_info info;
    ouro_error error;
    const void *output;
    float a[ELEMENTS];
    for (int e = 0; e < ELEMENTS; e++) a[e] = (float)(e * 5 % 7) - 3;
    if (ouro_plan_open(bytes, size, &opened, &error)) fail_msg("%s", error.message);
    assert_int_equal(ouro_session_new(opened, NULL, &session, NULL), OURO_OK);
    assert_int_equal(ouro_session_bind_input(session, 0, &trips, sizeof trips, NULL, NULL), OURO_OK);
    assert_int_equal(ouro_session_bind_input(session, 1, a, sizeof a, NULL, NULL), OURO_OK);
    assert_int_equal(ouro_session_run(session, NULL), OURO_OK);
    assert_int_equal(ouro_session_output(session, 0, &info, &output, NULL), OURO_OK);
    memcpy(made, output, sizeof a);
    ouro_session_free(session);
    ouro_plan_free(opened);
}

/* Tables of these lengths; where `shared` they end in one buffer, else in one each. `refusal`: words of it; NULL: the plan is
 * accepted and computes the same. */
static void try_lengths(const uint32_t *lengths, int first_shared, int second_shared, const char *refusal) {
    changed c;
    size_t more = 0;
    for (int i = 0; i < CARRIED; i++) more += 2 * lengths[i];
    begin(&c, more);
    plan_address last[CARRIED];
    for (int i = 0; i < CARRIED; i++) last[i] = add_buffer(&c);
    if (first_shared != second_shared) last[second_shared] = last[first_shared];
    size_t first = (size_t)c.header->addresses.count - more;
    for (int i = 0; i < CARRIED; i++) {
        if (lengths[i]) lengthen(&c, i, first, lengths[i], last[i]);
        first += 2 * lengths[i];
    }
    support_plan_seal(c.bytes, c.size);
    ouro_error error = {0};
    ouro_plan *opened = NULL;
    const ouro_status status = ouro_plan_open(c.bytes, c.size, &opened, &error);
    ouro_plan_free(opened);
    if (refusal) {
        assert_int_equal(status, OURO_INVALID);
        if (!strstr(error.message, refusal)) fail_msg("%s", error.message);
    } else {
        size_t size;
        unsigned char *good = support_plan(program, true, &size);
        if (status) fail_msg("%s", error.message);
        for (int64_t trips = 0; trips < 5000; trips = 3 * trips + 1) {
            float expected[ELEMENTS], made[ELEMENTS];
            execute(good, size, trips, expected);
            execute(c.bytes, c.size, trips, made);
            assert_memory_equal(made, expected, sizeof made);
        }
        free(good);
    }
    free(c.bytes);
}

static void tables_that_come_round_are_followed(void **state) {
    (void)state;
    try_lengths((uint32_t[]){7, 11, 0}, 0, 0, NULL);
    try_lengths((uint32_t[]){7, 11, 0}, 0, 1, "is not there"); /* at iteration 76 */
}

static void pairs_are_seen_where_all_come_round_late(void **state) {
    (void)state;
    try_lengths((uint32_t[]){13, 17, 19}, 0, 0, NULL);           /* together after 4,199 iterations */
    try_lengths((uint32_t[]){13, 17, 19}, 0, 2, "is not there"); /* at iteration 246 */
    try_lengths((uint32_t[]){13, 17, 19}, 1, 2, "is not there"); /* at iteration 322 */
}

static void what_is_not_seen_is_refused(void **state) {
    (void)state;
    static const char words[] = "come round together only after more than 4096 iterations";
    try_lengths((uint32_t[]){101, 103, 0}, 0, 1, words); /* first at iteration 5,149 */
    try_lengths((uint32_t[]){101, 103, 0}, 0, 0, words); /* though it would do no harm */
    try_lengths((uint32_t[]){101, 101, 0}, 0, 0, NULL);
    try_lengths((uint32_t[]){101, 101, 0}, 0, 1, "is not there");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(tables_that_come_round_are_followed),
                                       cmocka_unit_test(pairs_are_seen_where_all_come_round_late),
                                       cmocka_unit_test(what_is_not_seen_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
