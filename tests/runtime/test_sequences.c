/* SPDX-License-Identifier: Apache-2.0 */
/* test_sequences.c: sequences, optionals, maps and strings: made, changed, carried through loops and branches, given and taken by
 * the caller, refused where they do not fit. Every run is also checked against memory of its own for every tensor. */
#include "tests/support/support.h"
#include "tests/support/allocations.h"
#include "tests/support/plan.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ---- looking at values --------------------------------------------------------------------------------- */

static ouro_value output(const support_session *on, size_t index) {
    ouro_value value;
    ouro_error error;
    if (ouro_session_output_value(on->session, index, &value, &error) != OURO_OK)
        fail_msg("%s", error.message);
    return value;
}

static void expect_tensor(const ouro_value *value, const float *expected, size_t count) {
    assert_int_equal(value->kind, OURO_TENSOR);
    assert_int_equal(value->bytes, count * sizeof *expected);
    if (count) assert_memory_equal(value->data, expected, count * sizeof *expected);
}

#define EXPECT(value, ...)                                                                                   \
    do {                                                                                                     \
        const float expected_[] = {__VA_ARGS__};                                                             \
        expect_tensor(value, expected_, sizeof expected_ / sizeof(float));                                   \
    } while (0)

static void expect_text(const ouro_value *value, size_t index, const char *expected) {
    const ouro_string *text = (const ouro_string *)value->data + index;
    assert_int_equal(value->dtype, OURO_STRING);
    assert_true(index < value->bytes / sizeof *text);
    if (text->length != strlen(expected) || memcmp(text->data, expected, text->length) != 0)
        fail_msg("element %zu is \"%.*s\", expected \"%s\"", index, (int)text->length, text->data, expected);
}

static void expect_run_fails(const support_session *on, const char *part) {
    ouro_error error;
    assert_int_equal(ouro_session_run(on->session, &error), OURO_INVALID);
    if (!strstr(error.message, part)) fail_msg("\"%s\" does not say \"%s\"", error.message, part);
}

static ouro_value tensor_value(const float *data, int64_t count) {
    return (ouro_value){.kind = OURO_TENSOR,
                        .dtype = OURO_FLOAT,
                        .rank = 1,
                        .dims = {count},
                        .data = data,
                        .bytes = (size_t)count * sizeof *data};
}

/* ---- sequences ----------------------------------------------------------------------------------------- */

static void elements_are_put_in_and_taken_out(void **state) {
    (void)state;
    support_session on;
    support_session_open(&on,
                         "module \"edit\" {\n"
                         "  constant %zero: int64[] = {0}\n"
                         "  constant %last: int32[] = {-1}\n"
                         "  graph main(%x: float32[2], %y: float32[3], %at: int64[]) {\n"
                         "    %n: float32[2] = Neg(%x)\n"
                         "    %s: sequence(float32[...]) = SequenceConstruct(%x, %y)\n"
                         "    %appended: sequence(float32[...]) = SequenceInsert(%s, %n)\n"
                         "    %front: sequence(float32[...]) = SequenceInsert(%s, %n, %zero)\n"
                         "    %before: sequence(float32[...]) = SequenceInsert(%s, %n, %last)\n"
                         "    %again: sequence(float32[...]) = SequenceInsert(%appended, %y)\n"
                         "    %other: sequence(float32[...]) = SequenceInsert(%appended, %x)\n"
                         "    %short: sequence(float32[...]) = SequenceErase(%again, %zero)\n"
                         "    %one: sequence(float32[...]) = SequenceErase(%s)\n"
                         "    %e: float32[...] = SequenceAt(%again, %at)\n"
                         "    %l: int64[] = SequenceLength(%again)\n"
                         "    yield %appended, %front, %before, %again, %other, %short, %one, %e, %l\n"
                         "  }\n"
                         "}\n",
                         1);
    const float x[] = {1, 2}, y[] = {3, 4, 5};
    int64_t at = -2;
    support_bind(&on, 0, x, sizeof x);
    support_bind(&on, 1, y, sizeof y);
    support_bind(&on, 2, &at, sizeof at);
    for (int round = 0; round < 3; round++) {
        support_run(&on);
        ouro_value value = output(&on, 0);
        assert_int_equal(value.kind, OURO_SEQUENCE);
        assert_int_equal(value.count, 3);
        EXPECT(&value.elements[0], 1, 2);
        EXPECT(&value.elements[1], 3, 4, 5);
        EXPECT(&value.elements[2], -1, -2);
        value = output(&on, 1);
        EXPECT(&value.elements[0], -1, -2);
        EXPECT(&value.elements[2], 3, 4, 5);
        value = output(&on, 2);
        EXPECT(&value.elements[1], -1, -2);
        value = output(&on, 3);
        assert_int_equal(value.count, 4);
        EXPECT(&value.elements[3], 3, 4, 5);
        value = output(&on, 4); /* two that were appended to the same one */
        assert_int_equal(value.count, 4);
        EXPECT(&value.elements[3], 1, 2);
        value = output(&on, 5);
        assert_int_equal(value.count, 3);
        EXPECT(&value.elements[0], 3, 4, 5);
        value = output(&on, 6);
        assert_int_equal(value.count, 1);
        EXPECT(&value.elements[0], 1, 2);
        value = output(&on, 7);
        EXPECT(&value, -1, -2);
        value = output(&on, 8);
        assert_int_equal(*(const int64_t *)value.data, 4);
    }
    at = 4;
    expect_run_fails(&on, "position 4 of 4 is out of range");
    at = -5;
    expect_run_fails(&on, "position -5 of 4 is out of range");
    at = 0;
    support_run(&on);
    support_session_close(&on);
}

static void tensors_are_split_and_joined(void **state) {
    (void)state;
    support_session on;
    support_session_open(&on,
                         "module \"split\" {\n"
                         "  constant %two: int64[] = {2}\n"
                         "  constant %sizes: int64[2] = {1, 2}\n"
                         "  graph main(%x: float32[3,2]) {\n"
                         "    %n: float32[3,2] = Neg(%x)\n"
                         "    %rows: sequence(float32[2]) = SplitToSequence(%n) {axis = 0, keepdims = 0}\n"
                         "    %pairs: sequence(float32[?,2]) = SplitToSequence(%n, %two) {axis = -2}\n"
                         "    %parts: sequence(float32[?,2]) = SplitToSequence(%x, %sizes) {axis = 0}\n"
                         "    %columns: sequence(float32[3,1]) = SplitToSequence(%n) {axis = 1}\n"
                         "    %stack: float32[2,?] = ConcatFromSequence(%rows) {axis = 1, new_axis = 1}\n"
                         "    %whole: float32[3,?] = ConcatFromSequence(%columns) {axis = 1}\n"
                         "    %same: float32[?,2] = ConcatFromSequence(%pairs) {axis = 0}\n"
                         "    yield %rows, %pairs, %parts, %columns, %stack, %whole, %same\n"
                         "  }\n"
                         "}\n",
                         1);
    const float x[] = {1, 2, 3, 4, 5, 6};
    support_bind(&on, 0, x, sizeof x);
    support_run(&on);
    ouro_value value = output(&on, 0);
    assert_int_equal(value.count, 3);
    assert_int_equal(value.elements[1].rank, 1);
    EXPECT(&value.elements[1], -3, -4);
    value = output(&on, 1);
    assert_int_equal(value.count, 2);
    EXPECT(&value.elements[0], -1, -2, -3, -4);
    EXPECT(&value.elements[1], -5, -6);
    value = output(&on, 2);
    EXPECT(&value.elements[0], 1, 2);
    EXPECT(&value.elements[1], 3, 4, 5, 6);
    value = output(&on, 3);
    EXPECT(&value.elements[1], -2, -4, -6);
    value = output(&on, 4);
    EXPECT(&value, -1, -3, -5, -2, -4, -6);
    for (size_t i = 5; i < 7; i++) {
        value = output(&on, i);
        EXPECT(&value, -1, -2, -3, -4, -5, -6);
    }
    support_session_close(&on);
}

static void what_does_not_fit_is_said(void **state) {
    (void)state;
    support_session on;
    support_session_open(&on,
                         "module \"unfit\" {\n"
                         "  graph main(%x: float32[2], %y: float32[3], %sizes: int64[2], %none: bool[]) {\n"
                         "    %s: sequence(float32[...]) = If(%none) {\n"
                         "      graph then() {\n"
                         "        %e: sequence(float32[...]) = SequenceEmpty() {dtype = 1}\n"
                         "        yield %e\n"
                         "      }\n"
                         "      graph else() {\n"
                         "        %f: sequence(float32[...]) = SequenceConstruct(%x, %y)\n"
                         "        yield %f\n"
                         "      }\n"
                         "    }\n"
                         "    %parts: sequence(float32[?]) = SplitToSequence(%x, %sizes) {axis = 0}\n"
                         "    %w: float32[...] = ConcatFromSequence(%s) {axis = 0, new_axis = 1}\n"
                         "    yield %w, %parts\n"
                         "  }\n"
                         "}\n",
                         1);
    const float x[] = {1, 2}, y[] = {3, 4, 5};
    int64_t sizes[] = {1, 1};
    unsigned char none = 0;
    support_bind(&on, 0, x, sizeof x);
    support_bind(&on, 1, y, sizeof y);
    support_bind(&on, 2, sizes, sizeof sizes);
    support_bind(&on, 3, &none, sizeof none);
    expect_run_fails(&on, "element 1 is float32[3], the first is float32[2]");
    none = 1;
    expect_run_fails(&on, "the sequence is empty");
    sizes[1] = 2;
    expect_run_fails(&on, "part 1 has size 2, there are 1 left");
    sizes[1] = 0;
    expect_run_fails(&on, "the parts have 1 entries together, expected 2");
    support_session_close(&on);
}

static const char *const collecting =
    "module \"collect\" {\n"
    "  graph main(%trips: int64[], %x: float32[1]) {\n"
    "    %empty: sequence(float32[1]) = SequenceEmpty() {dtype = 1}\n"
    "    %all: sequence(float32[...]), %y: float32[1] = Loop(%trips, _, %empty, %x) {ouro.scan_outputs = 0} "
    "{\n"
    "      graph body(%i: int64[], %c: bool[], %s: sequence(float32[...]), %v: float32[1]) {\n"
    "        %w: float32[1] = Add(%v, %x)\n"
    "        %t: sequence(float32[...]) = SequenceInsert(%s, %w)\n"
    "        yield %c, %t, %w\n"
    "      }\n"
    "    }\n"
    "    yield %all, %y\n"
    "  }\n"
    "}\n";

static void loops_append_to_sequences(void **state) {
    (void)state;
    support_session on;
    support_session_open(&on, collecting, 1);
    const float x[] = {0.5f};
    int64_t trips;
    support_bind(&on, 0, &trips, sizeof trips);
    support_bind(&on, 1, x, sizeof x);
    for (trips = 0; trips < 40; trips = 2 * trips + 1) {
        support_run(&on);
        ouro_value value = output(&on, 0);
        assert_int_equal(value.count, trips);
        for (int64_t i = 0; i < trips; i++) EXPECT(&value.elements[i], 0.5f * (float)(i + 2));
    }
    /* What is appended costs the same however long the sequence is: else this takes minutes. */
    trips = 200000;
    assert_int_equal(ouro_session_run(on.session, NULL), OURO_OK);
    assert_int_equal(output(&on, 0).count, trips);
    if (allocations_are_counted()) {
        trips = 20;
        assert_int_equal(ouro_session_run(on.session, NULL), OURO_OK);
        size_t before = allocations_count();
        assert_int_equal(ouro_session_run(on.session, NULL), OURO_OK);
        assert_int_equal(allocations_count() - before, 0); /* memory of earlier runs is used again */
    }
    support_session_close(&on);
}

/* ---- optionals, and values of the caller --------------------------------------------------------------- */

static const char *const choosing =
    "module \"optional\" {\n"
    "  graph main(%o: optional(float32[2]), %q: optional(sequence(float32[...]))) {\n"
    "    %has: bool[] = OptionalHasElement(%o)\n"
    "    %s: sequence(float32[...]) = If(%has) {\n"
    "      graph then() {\n"
    "        %e: float32[2] = OptionalGetElement(%o)\n"
    "        %n: float32[2] = Neg(%e)\n"
    "        %t: sequence(float32[2]) = SequenceConstruct(%n, %e)\n"
    "        yield %t\n"
    "      }\n"
    "      graph else() {\n"
    "        %f: sequence(float32[...]) = OptionalGetElement(%q)\n"
    "        yield %f\n"
    "      }\n"
    "    }\n"
    "    %w: optional(sequence(float32[...])) = Optional(%s)\n"
    "    %z: optional(float32[2]) = Optional() {type = type float32[2]}\n"
    "    yield %w, %s, %z, %o\n"
    "  }\n"
    "}\n";

static void bind_value(const support_session *on, size_t index, const ouro_value *value) {
    ouro_error error;
    if (ouro_session_bind_value(on->session, index, value, &error) != OURO_OK) fail_msg("%s", error.message);
}

static void optionals_hold_or_do_not(void **state) {
    (void)state;
    support_session on;
    support_session_open(&on, choosing, 1);
    float x[] = {1, 2}, y[] = {3, 4, 5};
    const ouro_value held = tensor_value(x, 2), nothing = {.kind = OURO_OPTIONAL},
                     elements[] = {tensor_value(y, 3), tensor_value(y, 0), tensor_value(x, 2)},
                     sequence = {.kind = OURO_SEQUENCE, .elements = elements, .count = 3},
                     some = {.kind = OURO_OPTIONAL, .elements = &held, .count = 1},
                     list = {.kind = OURO_OPTIONAL, .elements = &sequence, .count = 1};
    bind_value(&on, 0, &some);
    bind_value(&on, 1, &nothing);
    support_run(&on);
    ouro_value value = output(&on, 0);
    assert_int_equal(value.kind, OURO_OPTIONAL);
    assert_int_equal(value.count, 1);
    assert_int_equal(value.elements[0].kind, OURO_SEQUENCE);
    EXPECT(&value.elements[0].elements[0], -1, -2);
    EXPECT(&value.elements[0].elements[1], 1, 2);
    assert_int_equal(output(&on, 2).count, 0);
    assert_int_equal(output(&on, 3).count, 1);
    /* The caller's sequence is handed through; what the caller does with its memory then does not matter. */
    bind_value(&on, 0, &nothing);
    bind_value(&on, 1, &list);
    support_run(&on);
    memset(y, 0, sizeof y);
    value = output(&on, 1);
    assert_int_equal(value.count, 3);
    EXPECT(&value.elements[0], 3, 4, 5);
    assert_int_equal(value.elements[1].bytes, 0);
    assert_int_equal(value.elements[1].dims[0], 0);
    EXPECT(&value.elements[2], 1, 2);
    bind_value(&on, 1, &nothing);
    expect_run_fails(&on, "the optional is empty");
    support_session_close(&on);
}

static void expect_usage(ouro_status status, ouro_status expected, const ouro_error *error,
                         const char *part) {
    assert_int_equal(status, expected);
    if (!strstr(error->message, part)) fail_msg("\"%s\" does not say \"%s\"", error->message, part);
}

static void wrong_values_are_refused(void **state) {
    (void)state;
    support_session on;
    ouro_error error;
    ouro_tensor_info info;
    const void *data;
    support_session_open(&on, choosing, 1);
    assert_int_equal(ouro_plan_input(on.plan, 1, &info), OURO_OK);
    assert_int_equal(info.kind, OURO_OPTIONAL);
    assert_int_equal(info.element, OURO_SEQUENCE);
    assert_int_equal(info.dtype, OURO_FLOAT);
    const float x[] = {1, 2};
    ouro_value held = tensor_value(x, 2), some = {.kind = OURO_OPTIONAL, .elements = &held, .count = 1};
    ouro_session *to = on.session;
    expect_usage(ouro_session_bind_input(to, 0, x, sizeof x, NULL, &error), OURO_USAGE, &error,
                 "input 'o' is optional(float32[2]): it is bound as a value");
    expect_usage(ouro_session_bind_output(to, 0, (void *)(uintptr_t)x, sizeof x, &error), OURO_USAGE, &error,
                 "output 'w' is no tensor");
    expect_usage(ouro_session_bind_value(to, 7, &some, &error), OURO_USAGE, &error, "there is no input 7");
    expect_usage(ouro_session_bind_value(to, 0, &held, &error), OURO_INVALID, &error,
                 "input 'o' is given a tensor, expected an optional");
    expect_usage(ouro_session_bind_value(to, 1, &some, &error), OURO_INVALID, &error,
                 "input 'q' is given a tensor, expected a sequence");
    held.bytes = 4;
    expect_usage(ouro_session_bind_value(to, 0, &some, &error), OURO_USAGE, &error,
                 "4 bytes for a tensor float32[2]");
    held = tensor_value(x, 2);
    held.dtype = OURO_INT32;
    expect_usage(ouro_session_bind_value(to, 0, &some, &error), OURO_INVALID, &error,
                 "a tensor of int32, expected float32");
    held = tensor_value(NULL, 2);
    expect_usage(ouro_session_bind_value(to, 0, &some, &error), OURO_USAGE, &error, "no data");
    held = tensor_value(x, -2);
    expect_usage(ouro_session_bind_value(to, 0, &some, &error), OURO_USAGE, &error, "bytes for a tensor");
    held = tensor_value(x, 2);
    bind_value(&on, 0, &some);
    expect_usage(ouro_session_run(to, &error), OURO_USAGE, &error, "input 'q' is not bound");
    bind_value(&on, 1, &(ouro_value){.kind = OURO_OPTIONAL});
    expect_usage(ouro_session_output_value(to, 0, &held, &error), OURO_USAGE, &error, "has not run");
    assert_int_equal(ouro_session_run(to, &error), OURO_OK);
    expect_usage(ouro_session_output(to, 0, &info, &data, &error), OURO_USAGE, &error, "is no tensor");
    support_session_close(&on);
    /* The element's extents are the plan's. */
    support_session_open(&on, choosing, 1);
    const float longer[] = {1, 2, 3};
    held = tensor_value(longer, 3);
    bind_value(&on, 0, &some);
    bind_value(&on, 1, &(ouro_value){.kind = OURO_OPTIONAL});
    expect_run_fails(&on, "is float32[3] at run time, it was planned as float32[2]");
    support_session_close(&on);
}

/* ---- strings ------------------------------------------------------------------------------------------- */

static const char *const words = "module \"words\" {\n"
                                 "  constant %zero: int64[1] = {0}\n"
                                 "  constant %w: string[4] = {\"a\", \"\", \"gamma\", \"\\xC3\\xA9\"}\n"
                                 "  constant %tail: string[1] = {\"end\"}\n"
                                 "  graph main(%x: string[2], %i: int64[3], %trips: int64[]) {\n"
                                 "    %g: string[3] = Gather(%w, %i)\n"
                                 "    %c: string[6] = Concat(%g, %x, %tail) {axis = 0}\n"
                                 "    %p: string[2], %q: string[2], %all: string[?,2] = Loop(%trips, _, %x, "
                                 "%x) {ouro.scan_outputs = 1} {\n"
                                 "      graph body(%n: int64[], %k: bool[], %a: string[2], %b: string[2]) {\n"
                                 "        %t: string[] = Cast(%n) {to = 8}\n"
                                 "        %shape: string[1] = Unsqueeze(%t, %zero)\n"
                                 "        %u: string[2] = Concat(%shape, %tail) {axis = 0}\n"
                                 "        yield %k, %b, %u, %a\n"
                                 "      }\n"
                                 "    }\n"
                                 "    yield %c, %p, %q, %all\n"
                                 "  }\n"
                                 "}\n";

static void strings_are_moved_like_numbers(void **state) {
    (void)state;
    support_session on;
    support_session_open(&on, words, 1);
    const ouro_string x[] = {{"one", 3}, {"two\0!", 5}};
    const int64_t i[] = {3, 1, -2};
    int64_t trips;
    support_bind(&on, 0, x, sizeof x);
    support_bind(&on, 1, i, sizeof i);
    support_bind(&on, 2, &trips, sizeof trips);
    for (trips = 0; trips < 6; trips++) {
        char number[16];
        support_run(&on);
        ouro_value value = output(&on, 0);
        expect_text(&value, 0, "\xc3\xa9");
        expect_text(&value, 1, "");
        expect_text(&value, 2, "gamma");
        expect_text(&value, 3, "one");
        assert_int_equal(((const ouro_string *)value.data)[4].length, 5);
        expect_text(&value, 5, "end");
        value = output(&on, 2);
        snprintf(number, sizeof number, "%d", (int)trips - 1);
        expect_text(&value, 0, trips ? number : "one");
        value = output(&on, 1);
        snprintf(number, sizeof number, "%d", (int)trips - 2);
        expect_text(&value, 0, trips > 1 ? number : "one");
        value = output(&on, 3);
        assert_int_equal(value.dims[0], trips);
        for (int t = 0; t < trips; t++) { /* every iteration's characters are still there */
            snprintf(number, sizeof number, "%d", t - 2);
            expect_text(&value, 2 * (size_t)t, t > 1 ? number : "one");
        }
    }
    support_session_close(&on);
}

static void words_are_normalized(void **state) {
    (void)state;
    support_session on;
    support_session_open(
        &on,
        "module \"normalize\" {\n"
        "  graph main(%x: string[4]) {\n"
        "    %u: string[?] = StringNormalizer(%x) {case_change_action = \"UPPER\", stopwords = [\"THE\"]}\n"
        "    %l: string[?] = StringNormalizer(%x) {case_change_action = \"LOWER\", is_case_sensitive = 1, "
        "stopwords = [\"THE\"]}\n"
        "    %n: string[?] = StringNormalizer(%x) {stopwords = [\"the\", \"\\xC3\\x89T\\xC3\\x89\", "
        "\"\\xFF\", "
        "\"z\"]}\n"
        "    yield %u, %l, %n\n"
        "  }\n"
        "}\n",
        1);
    const ouro_string x[] = {{"The", 3}, {"\xc3\xa9t\xc3\xa9", 5}, {"Z\xff", 2}, {"THE", 3}};
    support_bind(&on, 0, x, sizeof x);
    support_run(&on);
    ouro_value value = output(&on, 0);
    assert_int_equal(value.dims[0], 2);
    expect_text(&value, 0, "\xc3\x89T\xc3\x89");
    expect_text(&value, 1, "Z\xff"); /* what is no text stays as it is */
    value = output(&on, 1);
    assert_int_equal(value.dims[0], 3);
    expect_text(&value, 0, "the");
    expect_text(&value, 2, "z\xff");
    value = output(&on, 2);
    assert_int_equal(value.dims[0], 1);
    expect_text(&value, 0, "Z\xff");
    const ouro_string stops[] = {{"the", 3}, {"the", 3}, {"z", 1}, {"\xc3\x89t\xc3\xa9", 5}};
    support_bind(&on, 0, stops, sizeof stops);
    support_run(&on);
    value = output(&on, 2);
    assert_int_equal(value.dims[0], 1); /* nothing is left: one empty word */
    expect_text(&value, 0, "");
    support_session_close(&on);
}

static void n_grams_of_words_are_counted(void **state) {
    (void)state;
    support_session on;
    support_session_open(
        &on,
        "module \"grams\" {\n"
        "  graph main(%x: string[2,3]) {\n"
        "    %y: float32[2,3] = TfIdfVectorizer(%x) {max_gram_length = 2, max_skip_count = 0, "
        "min_gram_length = 1, mode = \"TF\", ngram_counts = [0, 1], ngram_indexes = [2, 0, 1], "
        "pool_strings = [\"to\", \"be\", \"or\", \"to\", \"be\"]}\n"
        "    yield %y\n"
        "  }\n"
        "}\n",
        1);
    const ouro_string x[] = {{"to", 2}, {"be", 2}, {"or", 2}, {"to", 2}, {"to", 2}, {"b", 1}};
    support_bind(&on, 0, x, sizeof x);
    support_run(&on);
    ouro_value value = output(&on, 0);
    EXPECT(&value, 1, 1, 1, 0, 0, 2);
    support_session_close(&on);
}

static void broken_strings_are_refused(void **state) {
    (void)state;
    size_t size;
    unsigned char *bytes = support_plan("module \"text\" {\n"
                                        "  constant %w: string[2] = {\"one\", \"twenty\"}\n"
                                        "  graph main(%i: int64[2]) {\n"
                                        "    %g: string[2] = Gather(%w, %i)\n"
                                        "    yield %g\n"
                                        "  }\n"
                                        "}\n",
                                        true, &size);
    const plan_header *header = (const plan_header *)(void *)bytes;
    plan_string *records = (plan_string *)(void *)(bytes + header->constants_offset);
    assert_int_equal(records[1].length, 6);
    static const plan_string wrong[] = {{SIZE_MAX, 1}, {1 << 20, 1}, {16, SIZE_MAX}, {16, 1 << 20}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        base_report report = {0};
        plan opened;
        const plan_string right = records[1];
        records[1] = wrong[i];
        support_plan_seal(bytes, size);
        assert_int_equal(plan_open(bytes, size, "text", NULL, NULL, NULL, &opened, &report), BASE_INVALID);
        if (!strstr(report.text, "the characters of element 1 lie outside of the constants"))
            fail_msg("%s", report.text);
        records[1] = right;
    }
    support_plan_seal(bytes, size);
    free(bytes);
}

/* ---- maps ---------------------------------------------------------------------------------------------- */

static void rows_become_maps(void **state) {
    (void)state;
    support_session on;
    support_session_open(&on,
                         "module \"zip\" {\n"
                         "  symbol N\n"
                         "  constant %keys: string[3] = {\"b\", \"a\", \"cc\"}\n"
                         "  constant %numbers: int64[3] = {7, -1, 0}\n"
                         "  graph main(%x: float32[N,3]) {\n"
                         "    %n: float32[N,3] = Neg(%x)\n"
                         "    %texts: sequence(map(float32[...])) = ai.onnx.ml.ZipMap(%n, %keys)\n"
                         "    %integers: sequence(map(float32[...])) = ai.onnx.ml.ZipMap(%x, %numbers)\n"
                         "    yield %texts, %integers, %n\n"
                         "  }\n"
                         "}\n",
                         1);
    ouro_tensor_info info;
    ouro_error error;
    assert_int_equal(ouro_plan_output(on.plan, 0, &info), OURO_OK);
    assert_int_equal(info.kind, OURO_SEQUENCE);
    assert_int_equal(info.element, OURO_MAP);
    assert_int_equal(info.dtype, OURO_FLOAT);
    const float x[] = {1, 2, 3, 4, 5, 6};
    for (int64_t rows = 2; rows >= 0; rows--) {
        const int64_t dims[] = {rows, 3};
        if (ouro_session_bind_input(on.session, 0, x, (size_t)rows * 12, dims, &error) != OURO_OK)
            fail_msg("%s", error.message);
        support_run(&on);
        const ouro_value texts = output(&on, 0), *map = texts.elements + rows - 1;
        assert_int_equal(texts.kind, OURO_SEQUENCE);
        assert_int_equal(texts.count, rows);
        if (rows == 0) break;
        assert_int_equal(map->kind, OURO_MAP);
        assert_int_equal(map->count, 2);
        expect_text(&map->elements[0], 0, "b");
        expect_text(&map->elements[0], 2, "cc");
        if (rows == 2) EXPECT(&map->elements[1], -4, -5, -6);
        else EXPECT(&map->elements[1], -1, -2, -3);
        const ouro_value integers = output(&on, 1);
        const int64_t keys[] = {7, -1, 0};
        assert_memory_equal(integers.elements[0].elements[0].data, keys, sizeof keys);
        EXPECT(&integers.elements[0].elements[1], 1, 2, 3);
    }
    support_session_close(&on);
}

static void maps_are_taken_apart(void **state) {
    (void)state;
    support_session on;
    ouro_error error;
    support_session_open(&on,
                         "module \"parts\" {\n"
                         "  graph main(%m: map(float32[...])) {\n"
                         "    %k: int64[?], %v: float32[?] = ouro.MapParts(%m) {keys = 7}\n"
                         "    %n: float32[?] = Neg(%v)\n"
                         "    yield %k, %n\n"
                         "  }\n"
                         "}\n",
                         1);
    const float numbers[] = {1, 2};
    const int64_t keys[] = {9, -3};
    const ouro_string texts[] = {{"x", 1}, {"yy", 2}};
    ouro_value parts[] = {{.dtype = OURO_INT64, .rank = 1, .dims = {2}, .data = keys, .bytes = sizeof keys},
                          tensor_value(numbers, 2)};
    ouro_value map = {.kind = OURO_MAP, .elements = parts, .count = 2};
    bind_value(&on, 0, &map);
    support_run(&on);
    ouro_value value = output(&on, 0);
    assert_int_equal(value.bytes, sizeof keys);
    assert_memory_equal(value.data, keys, sizeof keys);
    value = output(&on, 1);
    EXPECT(&value, -1, -2);
    /* Keys of another type are found out when they are read, what is no map at once. */
    parts[0] =
        (ouro_value){.dtype = OURO_STRING, .rank = 1, .dims = {2}, .data = texts, .bytes = sizeof texts};
    bind_value(&on, 0, &map);
    expect_run_fails(&on, "the keys of the map are of type string, expected int64");
    parts[0].dims[0] = 1;
    expect_usage(ouro_session_bind_value(on.session, 0, &map, &error), OURO_INVALID, &error,
                 "a map that is not");
    map.count = 1;
    expect_usage(ouro_session_bind_value(on.session, 0, &map, &error), OURO_INVALID, &error,
                 "a map that is not");
    map.kind = OURO_SEQUENCE;
    expect_usage(ouro_session_bind_value(on.session, 0, &map, &error), OURO_INVALID, &error,
                 "expected a map");
    support_session_close(&on);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_are_put_in_and_taken_out),
        cmocka_unit_test(tensors_are_split_and_joined),
        cmocka_unit_test(what_does_not_fit_is_said),
        cmocka_unit_test(loops_append_to_sequences),
        cmocka_unit_test(optionals_hold_or_do_not),
        cmocka_unit_test(wrong_values_are_refused),
        cmocka_unit_test(strings_are_moved_like_numbers),
        cmocka_unit_test(words_are_normalized),
        cmocka_unit_test(n_grams_of_words_are_counted),
        cmocka_unit_test(broken_strings_are_refused),
        cmocka_unit_test(rows_become_maps),
        cmocka_unit_test(maps_are_taken_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
