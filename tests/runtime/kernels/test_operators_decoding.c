/* SPDX-License-Identifier: Apache-2.0 */
/* test_operators_decoding.c: operators on strings and on the bytes of images: StringConcat, StringSplit, RegexFullMatch, Tokenizer,
 * ImageDecoder, and Cast of numbers to strings, as far as the build has their libraries; damaged images give a message, never more. */
#include "runtime/kernels/table.h"
#include "tests/support/application.h"
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void add_texts(application *app, int32_t rank, const int64_t *dims, const char *const *texts) {
    op_string *to = application_input(app, OP_STRING, rank, dims);
    int64_t count = 1;
    for (int32_t i = 0; i < rank; i++) count *= dims[i];
    for (int64_t i = 0; i < count; i++) to[i] = (op_string){texts[i], strlen(texts[i])};
}

static base_status evaluate(application *app) {
    const rt_environment environment = {.threads = 1};
    base_status status = application_infer(app);
    return status == BASE_OK ? rt_kernel_evaluate(&app->call, &environment, &app->arena, &app->report)
                             : status;
}

static void check_texts(const op_tensor *tensor, size_t count, const char *const *expected) {
    const op_string *texts = tensor->data;
    assert_int_equal(tensor->bytes, count * sizeof *texts);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(texts[i].length, strlen(expected[i]));
        if (texts[i].length) assert_memory_equal(texts[i].data, expected[i], texts[i].length);
    }
}

static void test_concat(void **state) {
    (void)state;
    application app;
    application_init(&app, OP_STRING_CONCAT);
    add_texts(&app, 2, DIMS(2, 1), (const char *const[]){"a", ""});
    add_texts(&app, 1, DIMS(3), (const char *const[]){"x", "yz", ""});
    assert_int_equal(evaluate(&app), BASE_OK);
    check_texts(&app.outputs[0], 6, (const char *const[]){"ax", "ayz", "a", "x", "yz", ""});
    application_free(&app);
}

typedef struct split_case {
    const char *delimiter;
    int64_t most; /* -1: not given */
    const char *text;
    size_t count;
    const char *pieces[5];
} split_case;

static void test_split(void **state) {
    (void)state;
    static const split_case cases[] = {{",", -1, "a,b,,c", 4, {"a", "b", "", "c"}},
                                       {",", 1, "a,b,,c", 2, {"a", "b,,c"}},
                                       {"", -1, "  a \t b ", 2, {"a", "b"}},
                                       {"", 1, " a  b c ", 2, {"a", "b c "}},
                                       {"", -1, "   ", 0, {0}},
                                       {",", -1, "", 1, {""}},
                                       {"--", -1, "a--b---c", 3, {"a", "b", "-c"}},
                                       {"-", 0, "a-b", 1, {"a-b"}},
                                       {",", -1, ",", 2, {"", ""}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const split_case *c = &cases[i];
        application app;
        application_init(&app, OP_STRING_SPLIT);
        add_texts(&app, 1, DIMS(1), &c->text);
        if (*c->delimiter) application_text(&app, "delimiter", c->delimiter);
        if (c->most >= 0) application_integer(&app, "maxsplit", c->most);
        app.call.output_count = 2;
        assert_int_equal(evaluate(&app), BASE_OK);
        assert_int_equal(app.outputs[0].type.shape.rank, 2);
        assert_int_equal(app.outputs[0].type.shape.dims[1], (int64_t)c->count);
        check_texts(&app.outputs[0], c->count, c->pieces);
        assert_int_equal(*(const int64_t *)app.outputs[1].data, (int64_t)c->count);
        application_free(&app);
    }
}

/* What RE2 matches whole. */
static void test_regex(void **state) {
    (void)state;
    static const struct {
        const char *pattern, *text;
        bool matches;
    } cases[] = {{"a+b?", "aaab", true},
                 {"a+b?", "xaab", false},
                 {"a|ab", "ab", true},
                 {".", "\n", false},
                 {"a$", "a\n", false},
                 {".", "\xc3\xa9", true},
                 {"\\d", "\xd9\xa3", false},
                 {"(?i)AB", "ab", true},
                 {"", "", true},
                 {"[[:alpha:]]+", "ab1", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        application app;
        application_init(&app, OP_REGEX_FULL_MATCH);
        add_texts(&app, 1, DIMS(1), &cases[i].text);
        application_text(&app, "pattern", cases[i].pattern);
        const base_status status = evaluate(&app);
        if (status == BASE_OK && *(const bool *)app.outputs[0].data != cases[i].matches)
            fail_msg("%s", cases[i].pattern);
        const bool absent = status != BASE_OK; /* the build has no library for it */
        application_free(&app);
        if (absent) return;
    }
    application app;
    application_init(&app, OP_REGEX_FULL_MATCH);
    add_texts(&app, 1, DIMS(1), (const char *const[]){"a"});
    application_text(&app, "pattern", "(a");
    assert_int_equal(evaluate(&app), BASE_INVALID);
    assert_non_null(strstr(app.report.text, "attribute \"pattern\", character"));
    application_free(&app);
}

typedef struct token_case {
    const char *separators[3], *kept;
    int64_t least;
    bool marks;
    const char *texts[2];
    size_t count; /* of a row */
    const char *tokens[12];
} token_case;

/* What ONNX Runtime makes of the same texts. */
static void test_tokenizer(void **state) {
    (void)state;
    static const token_case cases[] = {
        {{" "}, NULL, 1, false, {"a bc  d", "e"}, 3, {"a", "bc", "d", "e", "#", "#"}},
        {{" ", ","}, NULL, 2, false, {"ab,c de", ",,"}, 2, {"ab", "de", "#", "#"}},
        {{" "}, NULL, 1, true, {"a b", ""}, 4, {"\x02", "a", "b", "\x03", "\x02", "\x03", "#", "#"}},
        {{""}, NULL, 1, false, {"a\xc3\xa9", "x"}, 2, {"a", "\xc3\xa9", "x", "#"}},
        {{" "}, NULL, 1, true, {"", ""}, 0, {0}},
        {{"[ ,]+", "b|bc"}, NULL, 1, false, {"a, xbcx", "y"}, 3, {"a", "x", "x", "y", "#", "#"}},
        {{NULL},
         "[a-z0-9]+",
         2,
         false,
         {"Hello, x world 42", "!"},
         3,
         {"ello", "world", "42", "#", "#", "#"}},
        {{NULL}, "a|ab", 1, false, {"abaab", "b"}, 3, {"ab", "a", "ab", "#", "#", "#"}},
        {{NULL}, "x*", 1, false, {"axxbx", ""}, 2, {"xx", "x", "#", "#"}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const token_case *c = &cases[i];
        application app;
        application_init(&app, OP_TOKENIZER);
        add_texts(&app, 1, DIMS(2), c->texts);
        application_text(&app, "pad_value", "#");
        application_integer(&app, "mincharnum", c->least);
        application_integer(&app, "mark", c->marks);
        size_t count = 0;
        while (count < 3 && c->separators[count]) count++;
        if (count) application_texts(&app, "separators", count, c->separators);
        if (c->kept) application_text(&app, "tokenexp", c->kept);
        const base_status status = evaluate(&app);
        if (status == BASE_OK) {
            assert_int_equal(app.outputs[0].type.shape.rank, 2);
            if (app.outputs[0].type.shape.dims[1] != (int64_t)c->count) fail_msg("case %zu", i);
            check_texts(&app.outputs[0], 2 * c->count, c->tokens);
        }
        const bool absent = status != BASE_OK;
        if (absent && !strstr(app.report.text, "no regular expressions")) fail_msg("%s", app.report.text);
        application_free(&app);
    }
    application app;
    application_init(&app, OP_TOKENIZER);
    add_texts(&app, 1, DIMS(1), (const char *const[]){"a\xff"});
    application_texts(&app, "separators", 1, (const char *const[]){" "});
    assert_int_equal(evaluate(&app), BASE_INVALID);
    assert_non_null(strstr(app.report.text, "is not UTF-8"));
    application_free(&app);
}

/* ---- images -------------------------------------------------------------------------------------------- */

static const char pnm[] = "P6 # two by one\n2 1 255\n\x01\x02\x03\xff\x00\x80";
static const unsigned char bmp[54 + 8] = {
    'B', 'M', 62, 0, 0, 0, 0, 0, 0, 0, 54, 0, 0, 0, 40, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1,    0, 24,   0, 0,
    0,   0,   0,  0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0, 3, 2, 1, 0x80, 0, 0xff, 0, 0};

static base_status decode(application *app, const void *data, size_t size, const char *format) {
    application_init(app, OP_IMAGE_DECODER);
    memcpy(application_input(app, OP_UINT8, 1, DIMS((int64_t)size)), data, size);
    if (format) application_text(app, "pixel_format", format);
    return evaluate(app);
}

static void test_images(void **state) {
    (void)state;
    static const unsigned char rgb[] = {1, 2, 3, 0xff, 0, 0x80}, bgr[] = {3, 2, 1, 0x80, 0, 0xff},
                               gray[] = {2, 91};
    static const struct {
        const char *format;
        const unsigned char *pixels;
        size_t count;
    } forms[] = {{NULL, rgb, 6}, {"BGR", bgr, 6}, {"Grayscale", gray, 2}};
    for (int i = 0; i < 6; i++) {
        application app;
        const base_status status = i < 3 ? decode(&app, pnm, sizeof pnm - 1, forms[i % 3].format)
                                         : decode(&app, bmp, sizeof bmp, forms[i % 3].format);
        if (status != BASE_OK) fail_msg("%d: %s", i, app.report.text);
        assert_int_equal(app.outputs[0].type.shape.dims[0], 1);
        assert_int_equal(app.outputs[0].type.shape.dims[1], 2);
        assert_int_equal(app.outputs[0].bytes, forms[i % 3].count);
        assert_memory_equal(app.outputs[0].data, forms[i % 3].pixels, forms[i % 3].count);
        application_free(&app);
    }
}

/* Beginnings of every format with anything after: a message. */
static void test_damaged_images(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
    } starts[] = {{"\xff\xd8\xff", 3}, {"\x89PNG\r\n\x1a\n", 8}, {"RIFF\x20\0\0\0WEBPVP8 ", 16},
                  {"II*\0", 4},        {"\xff\x4f\xff\x51", 4},  {"\0\0\0\x0cjP  \r\n\x87\n", 12},
                  {"BM", 2},           {"P6 9 9 255 ", 11},      {"nothing", 7}};
    uint64_t seed = 3;
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        for (int round = 0; round < 20; round++) {
            unsigned char data[200];
            for (size_t k = 0; k < sizeof data; k++) data[k] = (unsigned char)random_next(&seed);
            memcpy(data, starts[i].bytes, starts[i].size);
            if (round == 0) memset(data + starts[i].size, 0xff, sizeof data - starts[i].size);
            application app;
            const base_status status = decode(&app, data, sizeof data, NULL);
            assert_true(status == BASE_INVALID || status == BASE_SYSTEM_ERROR);
            assert_true(app.report.length > 0);
            application_free(&app);
        }
    }
}

/* ---- numbers as texts ---------------------------------------------------------------------------------- */

/* What C prints: of reals with the fewest digits that read back. */
static void expected_text(char *text, size_t size, op_dtype dtype, const void *from, int64_t i) {
    if (dtype == OP_INT64) snprintf(text, size, "%" PRId64, ((const int64_t *)from)[i]);
    else if (dtype == OP_UINT64) snprintf(text, size, "%" PRIu64, ((const uint64_t *)from)[i]);
    else if (dtype == OP_INT8) snprintf(text, size, "%d", ((const int8_t *)from)[i]);
    else {
        const bool single = dtype == OP_FLOAT;
        const double value = single ? (double)((const float *)from)[i] : ((const double *)from)[i];
        for (int digits = 1; digits <= 17; digits++) {
            snprintf(text, size, "%.*g", digits, value);
            if (single ? strtof(text, NULL) == (float)value : strtod(text, NULL) == value) return;
        }
    }
}

static void test_numbers_as_texts(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT, OP_DOUBLE, OP_INT64, OP_UINT64, OP_INT8};
    enum { COUNT = 3000 };
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        uint64_t seed = 17 + d;
        application app;
        application_init(&app, OP_CAST);
        char *data = application_input(&app, dtypes[d], 1, DIMS(COUNT));
        const size_t size = op_dtype_bytes(dtypes[d]);
        for (int64_t i = 0; i < COUNT; i++) {
            /* Any bits, few bits, powers of two; reals are finite. */
            uint64_t bits = random_next(&seed);
            if (i % 3 == 1) bits >>= random_range(&seed, 0, 63);
            if (i % 3 == 2) bits = dtypes[d] == OP_FLOAT ? (bits & 0xff) << 23 : (bits & 0x7ff) << 52;
            if (dtypes[d] == OP_FLOAT && (bits & 0x7f800000u) == 0x7f800000u) bits ^= 0x01000000u;
            if (dtypes[d] == OP_DOUBLE && bits << 1 >> 53 == 0x7ff) bits ^= UINT64_C(1) << 54;
            memcpy(data + (size_t)i * size, &bits, size);
        }
        application_integer(&app, "to", OP_STRING);
        assert_int_equal(evaluate(&app), BASE_OK);
        for (int64_t i = 0; i < COUNT; i++) {
            const op_string *made = &((const op_string *)app.outputs[0].data)[i];
            char want[64];
            expected_text(want, sizeof want, dtypes[d], data, i);
            if (made->length != strlen(want) || memcmp(made->data, want, made->length) != 0)
                fail_msg("%.*s, expected %s", (int)made->length, made->data, want);
        }
        application_free(&app);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers_as_texts),
                                       cmocka_unit_test(test_concat),
                                       cmocka_unit_test(test_split),
                                       cmocka_unit_test(test_regex),
                                       cmocka_unit_test(test_tokenizer),
                                       cmocka_unit_test(test_images),
                                       cmocka_unit_test(test_damaged_images)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
