/* SPDX-License-Identifier: Apache-2.0 */
/* test_names.c: names in a model that would drive a terminal, end a line or are no UTF-8 are never printed as they are: not by any
 * command, not in what they write; and a plan that has one is refused. */
#include "runtime/plan/plan.h"
#include "tests/support/command.h"
#include "tests/support/onnx.h"
#include "tests/support/plan.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define FOLDER TEST_BINARY_DIR "/test_names.folder"
#define RUN(...) command_execute(FOLDER, (const char *const[]){__VA_ARGS__, NULL})
#define EVIL "\033[31m\033]0;t\a\n\r\t\b\x7f\xff\xc2\x9b"

/* Everywhere where a model has names. Two names are the same but for what is not shown. */
static void write_model(void) {
    onnx *o = onnx_new(17);
    o->graph->name = onnx_text(o, EVIL "graph");
    onnx_input(o, o->graph, EVIL "x", 1, EVIL "N,2");
    onnx_input(o, o->graph, "\a\a", 1, "2,2");
    onnx_input(o, o->graph, "\b\b", 1, "2,2");
    onnx_node(o, o->graph, "MatMul", EVIL "first", EVIL "x,\a\a", EVIL "m");
    onnx_node(o, o->graph, "MatMul", EVIL "second", EVIL "m,\b\b", EVIL "y");
    onnx_output(o, o->graph, EVIL "y");
    onnx_output(o, o->graph, EVIL "m");
    onnx_write(o, FOLDER "/evil.onnx");
    onnx_free(o);
}

static int setup_folder(void **state) {
    (void)state;
    return system("rm -rf '" FOLDER "' && mkdir -p '" FOLDER "'");
}

static void check_text(const char *what, const char *text) {
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        if ((*at < 0x20 && *at != '\n') || *at == 0x7f || *at == 0xff || (at[0] == 0xc2 && at[1] < 0xa0))
            fail_msg("%s prints byte %02x: ...%.40s", what, *at,
                     (const char *)at > text + 20 ? (const char *)at - 20 : text);
    }
}

static void check_command(int status, command_outcome outcome, const char *what) {
    if (outcome.status != status) fail_msg("%s: status %d: %s", what, outcome.status, outcome.err);
    check_text(what, outcome.out);
    check_text(what, outcome.err);
    command_outcome_free(&outcome);
}
#define CHECK(status, ...) check_command(status, RUN(__VA_ARGS__), #__VA_ARGS__)

static void commands_print_no_control_characters(void **state) {
    (void)state;
    write_model();
    CHECK(0, "compile", "evil.onnx", "-o", "evil.plan", "--report", "report.json", "--dot", "graph.dot",
          "--memory-map", "map.svg", "--problem", "problem.csv", "--dump-after", "all");
    CHECK(0, "compile", "evil.onnx", "--memory-map", "map.html", "--dot", "graph.svg");
    CHECK(0, "run", "evil.onnx", "--random", "1");
    CHECK(0, "run", "evil.plan", "--random", "1", "--check", "-v");
    CHECK(0, "run", "evil.plan", "--random", "1", "--profile", "trace.json");
    CHECK(0, "inspect", "evil.onnx");
    CHECK(0, "inspect", "evil.plan");
    CHECK(0, "inspect", "evil.plan", "--json");
    CHECK(0, "inspect", "evil.plan", "evil.plan");
    CHECK(0, "verify", "evil.plan");
    CHECK(0, "alloc", "problem.csv");
    CHECK(0, "bench", "evil.plan", "--runs", "1");
    CHECK(2, "run", "evil.plan", "--input", "other=1");
    CHECK(1, "compile", "evil.onnx", "--dim", "M=2");
    const char *const files[] = {"report.json", "graph.dot", "map.svg",   "map.html",
                                 "problem.csv", "graph.svg", "trace.json"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char *text = command_file(FOLDER, files[i], NULL);
        assert_non_null(text);
        if (strcmp(files[i], "map.html") != 0) check_text(files[i], text);
        assert_null(strstr(text, "\033"));
        free(text);
    }
}

static void plans_with_such_names_are_refused(void **state) {
    (void)state;
    const char *text = "module \"m\" { graph main(%first: float32[2]) { %second: float32[2] = Neg(%first) "
                       "yield %second } }\n";
    size_t size;
    unsigned char *bytes = support_plan(text, true, &size), *name = memmem(bytes, size, "second", 6);
    ouro_plan *handle;
    assert_int_equal(ouro_plan_open(bytes, size, &handle, NULL), OURO_OK);
    ouro_plan_free(handle);
    assert_non_null(name);
    name[2] = '\033';
    support_plan_seal(bytes, size);
    assert_int_equal(ouro_plan_open(bytes, size, &handle, NULL), OURO_INVALID);
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(commands_print_no_control_characters),
                                       cmocka_unit_test(plans_with_such_names_are_refused)};
    return cmocka_run_group_tests(tests, setup_folder, NULL);
}
