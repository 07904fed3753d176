/* SPDX-License-Identifier: Apache-2.0 */
/* test_external.c: weights in files of their own that are large: offsets beyond 4 GiB, and how much memory a compile takes. The files
 * have holes: they take little of the disk. */
#include "compiler/onnx/import.h"
#include "tests/support/command.h"
#include "tests/support/onnx.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

#define FOLDER TEST_BINARY_DIR "/test_external.folder"

/* A file of `bytes`, of zeros. */
static int file_with_hole(const char *path, off_t bytes) {
    const int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(file >= 0);
    assert_int_equal(ftruncate(file, bytes), 0);
    return file;
}

static void add_external(onnx *o, const char *name, const char *shape, const char *location, long long offset,
                         long long length) {
    Onnx__TensorProto *tensor = onnx_tensor(o, name, 1, shape);
    char from[32], count[32];
    snprintf(from, sizeof from, "%lld", offset);
    snprintf(count, sizeof count, "%lld", length);
    onnx_external(o, tensor, location, onnx_text(o, from), onnx_text(o, count));
    onnx_initializer(o, o->graph, tensor);
}

static void test_far_offsets(void **state) {
    (void)state;
    static const off_t offsets[] = {(off_t)1 << 31, ((off_t)1 << 32) + 4096, ((off_t)5 << 30) - 8};
    const float values[] = {1.5f, -2.5f};
    const int file = file_with_hole(FOLDER "/far.data", (off_t)5 << 30);
    onnx *o = onnx_new(18);
    for (int i = 0; i < 3; i++) {
        char name[] = {'w', (char)('0' + i), '\0'};
        assert_int_equal(pwrite(file, values, sizeof values, offsets[i]), sizeof values);
        add_external(o, onnx_text(o, name), "2", "far.data", (long long)offsets[i], sizeof values);
        onnx_output(o, o->graph, onnx_text(o, name));
    }
    close(file);
    onnx_write(o, FOLDER "/far.onnx");
    onnx_free(o);
    ir_module *module;
    base_report report = {0};
    if (import_model(FOLDER "/far.onnx", NULL, 0, NULL, &module, &report) != BASE_OK)
        fail_msg("%s", report.text);
    int found = 0;
    for (uint32_t i = 0; i < module->value_count; i++) {
        const ir_value *value = module->values[i];
        if (!value || value->kind != IR_CONSTANT) continue;
        assert_memory_equal(value->constant->tensor.data, values, sizeof values);
        found++;
    }
    assert_int_equal(found, 3);
    ir_module_free(module);
    /* Eight bytes further there are none. */
    o = onnx_new(18);
    add_external(o, "w", "2", "far.data", (long long)offsets[2] + 8, sizeof values);
    onnx_output(o, o->graph, "w");
    onnx_write(o, FOLDER "/far.onnx");
    onnx_free(o);
    assert_int_equal(import_model(FOLDER "/far.onnx", NULL, 0, NULL, &module, &report), BASE_INVALID);
    assert_non_null(strstr(report.text, "external data at 5368709120 with 8 bytes, the file has 5368709120"));
}

/* Compiled, and compiled and run, a model takes its weights once: not once as read and once as the plan has them. */
static void test_weights_once(void **state) {
    (void)state;
    enum { SIDE = 2048, COUNT = 12 };
    const long long bytes = (long long)SIDE * SIDE * (long long)sizeof(float);
    const int file = file_with_hole(FOLDER "/weights.data", COUNT * bytes);
    onnx *o = onnx_new(18);
    const char *last = "x";
    onnx_input(o, o->graph, "x", 1, "1,2048");
    for (int i = 0; i < COUNT; i++) {
        const float first = (float)(i + 1); /* equal weights would be one */
        char weight[16], product[16], inputs[40];
        snprintf(weight, sizeof weight, "w%d", i);
        snprintf(product, sizeof product, "y%d", i);
        snprintf(inputs, sizeof inputs, "%s,%s", last, weight);
        assert_int_equal(pwrite(file, &first, sizeof first, i * bytes), sizeof first);
        add_external(o, onnx_text(o, weight), "2048,2048", "weights.data", i * bytes, bytes);
        onnx_node(o, o->graph, "MatMul", "", onnx_text(o, inputs), onnx_text(o, product));
        last = onnx_text(o, product);
    }
    onnx_output(o, o->graph, last);
    close(file);
    onnx_write(o, FOLDER "/weights.onnx");
    onnx_free(o);
    static const char *const compiled[] = {"compile", "weights.onnx", "-o", "weights.plan", "-q", NULL},
                             *const run[] = {"run", "weights.onnx", "--random", "1", NULL};
    const char *const *const commands[] = {compiled, run};
    for (int i = 0; i < 2; i++) {
        command_outcome outcome = command_execute(FOLDER, commands[i]);
        if (outcome.status != 0) fail_msg("%s", outcome.err);
        command_outcome_free(&outcome);
#ifndef __SANITIZE_ADDRESS__
        struct rusage usage;
        assert_int_equal(getrusage(RUSAGE_CHILDREN, &usage), 0);
        const long long most =
            (COUNT * bytes + 4 * bytes) / 1024; /* in KiB: the program, and a weight on its way */
        if (usage.ru_maxrss > most)
            fail_msg("command %d takes %ld KiB, expected at most %lld", i, usage.ru_maxrss, most);
#endif
    }
}

static int make_folder(void **state) {
    (void)state;
    return system("rm -rf '" FOLDER "' && mkdir -p '" FOLDER "'") == 0 ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    return system("rm -rf '" FOLDER "'") == 0 ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_far_offsets),
                                       cmocka_unit_test(test_weights_once)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
