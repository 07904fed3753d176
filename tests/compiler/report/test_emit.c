/* SPDX-License-Identifier: Apache-2.0 */
/* test_emit.c: the escapes of XML, DOT and JSON, and pictures of solved problems. */
#include "compiler/compiler.h"
#include "compiler/report/emit.h"
#include "compiler/report/family.h"
#include "tests/support/command.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static void test_xml_escapes(void **state) {
    (void)state;
    emit_buffer buffer = {0};
    emit_xml(&buffer, "<a b=\"c\" d='e'>&\x01\xC3\xA9\xFF\xC0\xAF\xED\xA0\x80");
    assert_string_equal(buffer.data,
                        "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;\xEF\xBF\xBD\xC3\xA9\xEF\xBF\xBD"
                        "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
    emit_free(&buffer);
}

static void test_dot_escapes(void **state) {
    (void)state;
    emit_buffer buffer = {0};
    emit_dot_text(&buffer, "a\"b\\n\\N\nc&lt;\\");
    assert_string_equal(buffer.data, "\"a\\\"b\\\\n\\\\N\\nc&amp;lt;\\\\\"");
    emit_free(&buffer);
}

static void test_json(void **state) {
    (void)state;
    emit_buffer buffer = {0};
    emit_json_open(&buffer, NULL, '{');
    emit_json_text(&buffer, "a\"\\", "x\ny\x01");
    emit_json_real(&buffer, "half", 0.5);
    emit_json_real(&buffer, "none", 0.0 / 0.0);
    emit_json_open(&buffer, "list", '[');
    emit_json_integer(&buffer, NULL, UINT64_MAX);
    emit_json_bool(&buffer, NULL, true);
    emit_json_close(&buffer, ']');
    emit_json_open(&buffer, "empty", '[');
    emit_json_close(&buffer, ']');
    emit_json_close(&buffer, '}');
    assert_string_equal(
        buffer.data,
        "{\n  \"a\\\"\\\\\": \"x\\ny\\u0001\",\n  \"half\": 0.5,\n  \"none\": null,\n  \"list\": [\n"
        "    18446744073709551615,\n    true\n  ],\n  \"empty\": []\n}\n");
    assert_true(command_json_check(buffer.data));
    emit_free(&buffer);
}

static void test_sizes(void **state) {
    (void)state;
    char text[32];
    assert_string_equal(emit_size_print(0, text, sizeof text), "0 B");
    assert_string_equal(emit_size_print(1023, text, sizeof text), "1023 B");
    assert_string_equal(emit_size_print(1536, text, sizeof text), "1.50 KiB");
    assert_string_equal(emit_size_print(7 << 20, text, sizeof text), "7.00 MiB");
    assert_string_equal(emit_size_print(SIZE_MAX, text, sizeof text), "16.0 EiB");
}

static void test_families(void **state) {
    (void)state;
    assert_string_equal(emit_family_of("", "Conv")->name, "convolution");
    assert_string_equal(emit_family_of("ouro", "Copy")->name, "movement of data");
    assert_string_equal(emit_family_of("", "Copy")->name, "other");
    assert_string_equal(emit_family_of("", "")->name, "other");
    for (int i = 0; i < OP_FAMILY_COUNT; i++) {
        assert_non_null(emit_families[i].name);
        for (int k = 0; k < i; k++) assert_string_not_equal(emit_families[i].fill, emit_families[k].fill);
    }
}

/* The checkers of this test themselves: they must be able to object. */
static void test_checkers(void **state) {
    (void)state;
    const char *reason;
    assert_true(command_xml_check("<a b=\"1\"><c/>x &amp; y</a>", &reason));
    static const char *const wrong[] = {"<a>",         "<a></b>",       "<a b=1/>", "<a b=\"<\"/>",
                                        "<a>&</a>",    "<a>&nbsp;</a>", "<a/><b/>", "<a b=\"1\" b=\"2\"/>",
                                        "<a>\x01</a>", "<a>\xFF</a>",   "x",        ""};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(command_xml_check(wrong[i], &reason));
    assert_true(command_json_check("{\"a\": [1, 2.5e3, {}, [], \"x\\\"\", true, null]}"));
    static const char *const bad[] = {"{", "{\"a\" 1}", "[1,]", "{a: 1}", "[1] 2", "\"x", "nul", "[01x]", ""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(command_json_check(bad[i]));
}

/* A picture of a hand-made solution: every buffer is there, hostile names are escaped, the same twice. */
static void test_solution_map(void **state) {
    (void)state;
    static const char *const ids[] = {"<\"a\">&", "b\xFF",
                                      "an id that is far too long to be written into its rectangle"};
    planner_buffer buffers[] = {{.size = 100, .first = 0, .last = 5, .fixed = PLANNER_NOT_FIXED},
                                {.size = 50, .first = 3, .last = 9, .fixed = PLANNER_NOT_FIXED},
                                {.size = 60, .first = 5, .last = 6, .fixed = PLANNER_NOT_FIXED}};
    size_t offsets[] = {0, 100, 0};
    planner_problem problem = {.buffers = buffers, .buffer_count = 3};
    planner_solution solution = {.offsets = offsets, .height = 150, .lower_bound = 150, .optimal = true};
    base_report report = {0};
    static const char *const names[] = {"map_1.svg", "map_2.svg"};
    char *text[2];
    for (int i = 0; i < 2; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", TEST_BINARY_DIR, names[i]);
        assert_int_equal(emit_solution_map(&problem, ids, &solution, "a <title>", path, &report), BASE_OK);
        text[i] = command_file(TEST_BINARY_DIR, names[i], NULL);
        assert_non_null(text[i]);
        unlink(path);
    }
    const char *reason;
    if (!command_xml_check(text[0], &reason)) fail_msg("not well-formed: %.80s", reason);
    assert_string_equal(text[0], text[1]);
    size_t rectangles = 0;
    for (const char *at = text[0]; (at = strstr(at, "<g class=\"t\">")); at++) rectangles++;
    assert_int_equal(rectangles, 3);
    assert_non_null(strstr(text[0], "<title>&lt;&quot;a&quot;&gt;&amp;\n100 bytes"));
    assert_non_null(strstr(text[0], "live [5, 6)\noffset 0"));
    assert_non_null(strstr(text[0], "class=\"bound\""));
    assert_non_null(strstr(text[0], "class=\"peak\""));
    free(text[0]);
    free(text[1]);
}

static void test_files_are_whole_or_not_there(void **state) {
    (void)state;
    char path[4096];
    base_report report = {0};
    snprintf(path, sizeof path, "%s/no/such/folder/file", TEST_BINARY_DIR);
    assert_int_equal(file_write(path, "x", 1, &report), BASE_SYSTEM_ERROR);
    assert_int_equal(file_write("/dev/full", "x", 1, &report), BASE_SYSTEM_ERROR);
    assert_int_equal(file_write("/dev/null", "x", 1, &report), BASE_OK);
    assert_int_equal(file_write(TEST_BINARY_DIR, "x", 1, &report), BASE_INVALID);
    file_bytes file;
    assert_int_equal(file_read(path, &file, &report), BASE_INVALID);
    assert_int_equal(file_read(TEST_BINARY_DIR, &file, &report), BASE_INVALID);
    assert_int_equal(file_read("/dev/null", &file, &report), BASE_OK);
    assert_int_equal(file.size, 0);
    file_release(&file);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_xml_escapes),  cmocka_unit_test(test_dot_escapes),
        cmocka_unit_test(test_json),         cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_families),     cmocka_unit_test(test_checkers),
        cmocka_unit_test(test_solution_map), cmocka_unit_test(test_files_are_whole_or_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
