/* SPDX-License-Identifier: Apache-2.0 */
/* test_shape_parts.c: where only a run knows extents, parts of a Concat are made where they are to lie, slices are bytes of what they are
 * cut from, and results are written over what dies: as far as these extents let them lie together.
 *
 * Models at random: OURO_SHAPE_PARTS=N tries N, OURO_TEST_SEED=S begins with seed S. A failure prints its seed and the model. */
#include "runtime/executor.h"
#include "tests/support/allocations.h"
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include "tests/support/writer.h"
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { POINTS = 5, MOST = 1 << 14 };

static float numbers[MOST];

static void make_numbers(void) {
    for (int i = 0; i < MOST; i++) numbers[i] = 0.25f * (float)(i * 37 % 101) - 12;
}

/* `images` images of so many channels and 5 points. */
static void bind_images(const support_session *on, int images, int channels) {
    const int64_t dims[] = {images, channels, POINTS};
    ouro_error error;
    const size_t bytes = (size_t)images * (size_t)channels * POINTS * sizeof(float);
    assert_true(bytes <= sizeof numbers);
    if (ouro_session_bind_input(on->session, 0, numbers, bytes, dims, &error) != OURO_OK)
        fail_msg("%s", error.message);
}

static void run_images(const support_session *on, int images, int channels) {
    bind_images(on, images, channels);
    support_run(on);
}

/* Where a tensor was in the last run, as far as it is still there. */
static const char *place_of(const support_session *on, const char *name) {
    const plan *of = on->session->of;
    const uint32_t id = (uint32_t)(support_find_tensor(of, name) - of->tensors);
    return on->session->memory.planned[id].data;
}

#define PART(n) ((size_t)(n)*POINTS * sizeof(float))

/* ---- parts ----------------------------------------------------------------------------------------------- */

static const char *const chain = "module \"chain\" {\n"
                                 "  symbol N\n"
                                 "  graph main(%x: float32[N,16,5]) {\n"
                                 "    %a: float32[N,16,5] = Softmax(%x)\n"
                                 "    %b: float32[N,16,5] = Softmax(%a) {axis = 1}\n"
                                 "    %c: float32[N,32,5] = Concat(%a, %b) {axis = 1}\n"
                                 "    %d: float32[N,32,5] = Softmax(%c) {axis = 1}\n"
                                 "    %e: float32[N,64,5] = Concat(%c, %d) {axis = 1}\n"
                                 "    %f: float32[N,64,5] = Softmax(%e)\n"
                                 "    yield %f\n"
                                 "  }\n"
                                 "}\n";

/* Of one image all parts lie in the largest one; of two they lie apart. */
static void parts_lie_in_the_whole(void **state) {
    (void)state;
    support_session on;
    support_session_open(&on, chain, 1);
    for (int round = 0; round < 2; round++) {
        run_images(&on, 1, 16);
        const char *whole = place_of(&on, "e");
        assert_ptr_equal(place_of(&on, "a"), whole);
        assert_ptr_equal(place_of(&on, "c"), whole);
        assert_ptr_equal(place_of(&on, "b"), whole + PART(16));
        assert_ptr_equal(place_of(&on, "d"), whole + PART(32));
        /* The last one is an output, and not over it: that is the caller's to read. */
        assert_true(rt_shapes_bytes(on.session) <= 2 * PART(64));
        run_images(&on, 2, 16);
        assert_true(place_of(&on, "a") != place_of(&on, "c") ||
                    place_of(&on, "b") != place_of(&on, "a") + PART(16));
        run_images(&on, 0, 16);
    }
    support_session_close(&on);
}

/* They lie in the caller's output, where he has bound one that is large enough. */
static void parts_lie_in_the_output(void **state) {
    (void)state;
    static const char *const text = "module \"output\" {\n"
                                    "  symbol N\n"
                                    "  graph main(%x: float32[N,16,5]) {\n"
                                    "    %a: float32[N,16,5] = Softmax(%x)\n"
                                    "    %b: float32[N,16,5] = Softmax(%a) {axis = 1}\n"
                                    "    %c: float32[N,32,5] = Concat(%a, %b) {axis = 1}\n"
                                    "    yield %c\n"
                                    "  }\n"
                                    "}\n";
    static float given[3][32 * POINTS], expected[32 * POINTS];
    support_session on;
    ouro_error error;
    support_session_open(&on, text, 1);
    run_images(&on, 1, 16);
    memcpy(expected, support_output(&on, 0, sizeof expected), sizeof expected);
    for (int i = 0; i < 3; i++) {
        const size_t bytes =
            i == 1 ? sizeof expected / 2 : sizeof expected; /* too small: it lies elsewhere */
        memset(given[i], 0, sizeof given[i]);
        assert_int_equal(ouro_session_bind_output(on.session, 0, given[i], bytes, &error), OURO_OK);
        bind_images(&on, 1, 16);
        const ouro_status status = ouro_session_run(on.session, &error);
        if (i == 1) continue;
        assert_int_equal(status, OURO_OK);
        assert_memory_equal(given[i], expected, sizeof expected);
    }
    support_session_close(&on);
}

/* What is read after the whole has been written over stays out of it; what dies before lies in it. */
static void what_is_read_later_stays(void **state) {
    (void)state;
    static const char *const text = "module \"later\" {\n"
                                    "  symbol N\n"
                                    "  graph main(%x: float32[N,16,5]) {\n"
                                    "    %a: float32[N,16,5] = Softmax(%x)\n"
                                    "    %b: float32[N,16,5] = Softmax(%a) {axis = 1}\n"
                                    "    %c: float32[N,32,5] = Concat(%a, %b) {axis = 1}\n"
                                    "    %d: float32[N,32,5] = Softmax(%c)\n"
                                    "    %e: float32[N,32,5] = Softmax(%d) {axis = 1}\n"
                                    "    %f: float32[N,64,5] = Concat(%e, %e) {axis = 1}\n"
                                    "    %g: float32[N,80,5] = Concat(%f, %a) {axis = 1}\n"
                                    "    %h: float32[N,80,5] = Softmax(%g)\n"
                                    "    yield %h\n"
                                    "  }\n"
                                    "}\n";
    support_session on;
    support_session_open(&on, text, 1);
    for (int n = 0; n < 4; n++) run_images(&on, n, 16);
    run_images(&on, 1, 16);
    assert_ptr_equal(place_of(&on, "d"), place_of(&on, "c"));
    assert_ptr_equal(place_of(&on, "b"), place_of(&on, "c") + PART(16));
    assert_true(place_of(&on, "a") != place_of(&on, "c"));
    support_session_close(&on);
}

/* Slices and parts of one image are nobody's to make: nothing runs for them, nothing is kept for them. */
static void cuts_take_nothing(void **state) {
    (void)state;
    static const char *const text =
        "module \"cuts\" {\n"
        "  symbol N\n"
        "  constant %one: int64[1] = {1}\n"
        "  constant %four: int64[1] = {4}\n"
        "  graph main(%x: float32[N,16,5]) {\n"
        "    %a: float32[N,16,5] = Softmax(%x)\n"
        "    %b: float32[N,8,5], %c: float32[N,8,5] = Split(%a) {axis = 1, num_outputs = 2}\n"
        "    %s: float32[N,3,5] = Slice(%c, %one, %four, %one)\n"
        "    %d: float32[N,8,5] = Softmax(%b) {axis = 1}\n"
        "    %t: float32[N,3,5] = Softmax(%s) {axis = 1}\n"
        "    %u: float32[N,3,5] = Slice(%x, %one, %four, %one)\n"
        "    %v: float32[N,14,5] = Concat(%d, %t, %u) {axis = 1}\n"
        "    yield %v\n"
        "  }\n"
        "}\n";
    support_session on;
    support_session_open(&on, text, 1);
    for (int n = 0; n < 3; n++) run_images(&on, n, 16);
    run_images(&on, 1, 16);
    const plan *of = on.session->of;
    static const char *const cut[] = {"b", "c", "s"};
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        const uint32_t id = (uint32_t)(support_find_tensor(of, cut[i]) - of->tensors);
        assert_true(on.session->memory.planned[id].shares);
    }
    /* What comes first, and what is put together. */
    assert_true(rt_shapes_bytes(on.session) <= PART(16) + PART(14) + 2 * RT_ALIGNMENT);
    support_session_close(&on);
}

static void runs_allocate_nothing(void **state) {
    (void)state;
    support_session on;
    support_session_open(&on, chain, 2);
    for (int n = 1; n < 4; n++) {
        bind_images(&on, n, 16);
        support_expect_no_allocations(&on);
    }
    support_session_close(&on);
}

/* ---- models at random -------------------------------------------------------------------------------------- */

enum { VALUES = 24, TEXT = 1 << 15 };

typedef struct model {
    uint64_t seed, random;
    char text[TEXT];
    support_writer to;
    int channels[VALUES]; /* of each value: it is [N, channels, 5] */
    int count;
} model;

static int draw(model *m, int below) {
    return (int)(support_random(&m->random) % (uint64_t)below);
}

/* Late values more often: chains are what is interesting. */
static int draw_value(model *m) {
    const int a = draw(m, m->count), b = draw(m, m->count);
    return a > b ? a : b;
}

static int say_value(model *m, int channels) {
    m->channels[m->count] = channels;
    support_write(&m->to, "%%v%d: float32[N,%d,5]", m->count, channels);
    return m->count++;
}

static void say_concat(model *m) {
    const int parts = 2 + draw(m, 2);
    int from[3], channels = 0;
    for (int i = 0; i < parts; i++) channels += m->channels[from[i] = draw_value(m)];
    if (channels > 200) return;
    support_write(&m->to, "    ");
    say_value(m, channels);
    support_write(&m->to, " = Concat(%%v%d, %%v%d", from[0], from[1]);
    if (parts == 3) support_write(&m->to, ", %%v%d", from[2]);
    support_write(&m->to, ") {axis = 1}\n");
}

static void say_split(model *m) {
    const int from = draw_value(m), all = m->channels[from];
    if (all % 2 || m->count + 2 > VALUES) return;
    support_write(&m->to, "    ");
    say_value(m, all / 2);
    support_write(&m->to, ", ");
    say_value(m, all / 2);
    support_write(&m->to, " = Split(%%v%d) {axis = %d, num_outputs = 2}\n", from, draw(m, 2) ? 1 : -2);
}

static void say_slice(model *m) {
    const int from = draw_value(m), all = m->channels[from], first = draw(m, all),
              last = first + 1 + draw(m, all - first);
    support_write(&m->to, "    ");
    say_value(m, last - first);
    support_write(&m->to, " = Slice(%%v%d, %%k%d, %%k%d, %%k1)\n", from, first, last);
}

static void say_node(model *m) {
    const int kind = draw(m, 9), from = draw_value(m);
    if (kind < 3) {
        say_concat(m);
    } else if (kind == 3) {
        say_split(m);
    } else if (kind == 4) {
        say_slice(m);
    } else if (kind == 5) { /* of the same extents, where there are two */
        int other = draw_value(m);
        for (int i = 0; i < m->count && m->channels[other] != m->channels[from]; i++) other = i;
        if (m->channels[other] != m->channels[from]) return;
        support_write(&m->to, "    ");
        say_value(m, m->channels[from]);
        support_write(&m->to, " = %s(%%v%d, %%v%d)\n", draw(m, 2) ? "Sub" : "Max", from, other);
    } else if (kind == 6) {
        support_write(&m->to, "    %%r%d: float32[N,5,%d] = Reshape(%%v%d, %%turned%d)\n    ", m->count,
                      m->channels[from], from, m->channels[from]);
        const int made = say_value(m, m->channels[from]);
        support_write(&m->to, " = Reshape(%%r%d, %%straight%d)\n", made, m->channels[from]);
    } else {
        static const char *const names[] = {"Softmax", "Neg", "CumSum"};
        const int which = draw(m, 3);
        support_write(&m->to, "    ");
        say_value(m, m->channels[from]);
        support_write(&m->to, " = %s(%%v%d%s)\n", names[which], from, which == 2 ? ", %one" : "");
    }
}

static void say_model(model *m) {
    m->to = support_writer_on(m->text, sizeof m->text);
    support_write(&m->to, "module \"parts\" {\n  symbol N\n  constant %%one: int64[] = {1}\n");
    for (int k = 0; k <= 200; k++) support_write(&m->to, "  constant %%k%d: int64[1] = {%d}\n", k, k);
    for (int c = 1; c <= 200; c++)
        support_write(
            &m->to,
            "  constant %%turned%d: int64[3] = {-1, 5, %d}\n  constant %%straight%d: int64[3] = {-1, %d, "
            "5}\n",
            c, c, c, c);
    support_write(&m->to, "  graph main(");
    say_value(m, 2 + 2 * draw(m, 8));
    support_write(&m->to, ") {\n");
    while (m->count < VALUES - 2) say_node(m);
    support_write(&m->to, "    yield %%v%d", m->count - 1);
    for (int i = 1; i < m->count - 1; i++)
        if (draw(m, 6) == 0) support_write(&m->to, ", %%v%d", i);
    support_write(&m->to, "\n  }\n}\n");
}

static void try_model(uint64_t seed) {
    static model m;
    support_session on;
    m = (model){.seed = seed, .random = seed * 7919};
    say_model(&m);
    support_session_open(&on, m.text, 1 + (int)(seed % 2));
    for (int n = 0; n < 6; n++) {
        base_report report = {0};
        bind_images(&on, n % 4, m.channels[0]);
        if (rt_session_check(on.session, &report) != BASE_OK)
            fail_msg("seed %" PRIu64 ", %d images: %s\n%s", seed, n % 4, report.text, m.text);
    }
    support_session_close(&on);
}

static void random_parts(void **state) {
    (void)state;
    const char *count = getenv("OURO_SHAPE_PARTS"), *first = getenv("OURO_TEST_SEED");
    const uint64_t begin = first ? strtoull(first, NULL, 10) : 1,
                   end = begin + (count ? strtoull(count, NULL, 10) : support_share(1500));
    printf("seeds from %" PRIu64 " to %" PRIu64 "\n", begin, end - 1);
    for (uint64_t seed = begin; seed < end; seed++) try_model(seed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_lie_in_the_whole),   cmocka_unit_test(parts_lie_in_the_output),
        cmocka_unit_test(what_is_read_later_stays), cmocka_unit_test(cuts_take_nothing),
        cmocka_unit_test(runs_allocate_nothing),    cmocka_unit_test(random_parts)};
    make_numbers();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
