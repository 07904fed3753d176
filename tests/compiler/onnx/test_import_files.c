/* SPDX-License-Identifier: Apache-2.0 */
/* test_import_files.c: files that are no models: import says in one line what is wrong with each. */
#include "compiler/onnx/import.h"
#include "tests/support/support.h"
#include "tests/support/onnx.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static base_report report;

/* The message has `part` in it. */
static void expect_invalid(const char *path, const char *part) {
    ir_module *module;
    base_report_clear(&report);
    assert_int_equal(import_model(path, NULL, 0, NULL, &module, &report), BASE_INVALID);
    assert_null(module);
    if (!strstr(report.text, part)) fail_msg("%s: %s", path, report.text);
}

static void expect_bytes(const void *bytes, size_t size, const char *message) {
    onnx_write_bytes("model.onnx", bytes, size);
    expect_invalid("model.onnx", message);
    assert_string_equal(report.text, message);
}

static void test_files(void **state) {
    (void)state;
    expect_bytes("", 0, "model.onnx: not an ONNX model: the file is empty\n");
    expect_bytes("PK\x03\x05", 4, "model.onnx: not a valid ONNX file: byte 2: no such field in protobuf\n");
    expect_bytes(
        "PK\x03\x04", 4,
        "model.onnx: not an ONNX file, but a zip archive (an .npz of numpy, or a model that is still to be "
        "unpacked)\n");
    expect_bytes("OUROPLAN", 8, "model.onnx: not an ONNX file, but a plan of ouro\n");
    expect_bytes(
        "version https://git-lfs.github.com/spec/v1\n", 43,
        "model.onnx: not an ONNX file, but a pointer of Git LFS in place of the file: git lfs pull\n");
    expect_bytes("\x1c\0\0\0TFL3\x14", 9,
                 "model.onnx: not an ONNX file, but a TensorFlow Lite model: tf2onnx converts it\n");
    expect_bytes("\x3b", 1,
                 "model.onnx: not a valid ONNX file: byte 0: graph of ModelProto is of a wrong kind\n");
    expect_bytes("\x08\xff", 2,
                 "model.onnx: not a valid ONNX file: byte 0: the file is cut off or not protobuf\n");
    expect_bytes("\x3a\x00\x3a\x00", 4,
                 "model.onnx: not a valid ONNX file: byte 2: a part of a message is given twice\n");
    expect_bytes("\x39"
                 "12345678",
                 9, "model.onnx: not a valid ONNX file: byte 0: graph of ModelProto is of a wrong kind\n");
    expect_invalid("nowhere.onnx", "nowhere.onnx: cannot be opened: No such file or directory\n");
    expect_invalid(".", ".: is a directory, a file is wanted\n");
    expect_invalid("/dev/null", "/dev/null: is not a regular file\n");
    assert_int_equal(truncate("model.onnx", (off_t)3 << 30), 0); /* sparse: takes no space */
    expect_invalid("model.onnx",
                   "model.onnx: the file has 3221225472 bytes, at most 2147483647 are possible; larger "
                   "weights go into external data\n");
    unlink("model.onnx");
}

enum { DEPTH = 20000, CAPACITY = DEPTH * 6 };

/* Puts the key and the length of a field before the bytes from `at` to the end; gives where they begin now. */
static size_t wrap(uint8_t *bytes, size_t at, uint8_t key) {
    size_t length = CAPACITY - at;
    uint8_t varint[5];
    size_t digits = 0;
    for (; digits == 0 || length; length >>= 7)
        varint[digits++] = (uint8_t)((length & 0x7f) | (length > 0x7f ? 0x80 : 0));
    at -= digits;
    memcpy(bytes + at, varint, digits);
    bytes[--at] = key;
    return at;
}

/* Messages in messages: a bomb for anything that recurses. The innermost is empty; each further one wraps it. */
static void test_recursion_bomb(void **state) {
    (void)state;
    uint8_t *bytes = malloc(CAPACITY);
    assert_non_null(bytes);
    size_t at = CAPACITY; /* TypeProto.sequence_type = 4 and Sequence.elem_type = 1 of each other */
    for (int i = 0; i < DEPTH; i++) at = wrap(bytes, at, i % 2 ? 0x22 : 0x0a);
    static const uint8_t outer[] = {0x12, 0x5a, 0x3a}; /* model.graph.input.type */
    for (int k = 0; k < 3; k++) at = wrap(bytes, at, outer[k]);
    onnx_write_bytes("model.onnx", bytes + at, CAPACITY - at);
    free(bytes);
    expect_invalid("model.onnx", "nested too deeply");
    unlink("model.onnx");
}

int main(int count, char **arguments) {
    support_arguments(count, arguments);
    char folder[] = "/tmp/ouro_import_XXXXXX";
    if (!mkdtemp(folder) || chdir(folder) != 0) return 1; /* messages then have no path in them */
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_files), cmocka_unit_test(test_recursion_bomb)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return chdir("/") != 0 || rmdir(folder) != 0 ? 1 : failed;
}
