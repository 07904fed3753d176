/* SPDX-License-Identifier: Apache-2.0 */
/* test_inspect.c: what `ouro inspect` says of plans of all kinds: loops, what they carry and where it lies, branches, states, weights
 * in few bits (golden: cases/inspect.txt); as JSON, as a picture, and of two plans. */
#include "tests/support/command.h"
#include "tests/support/plan.h"
#include "tests/support/programs_of_plans.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define FOLDER TEST_BINARY_DIR
#define SAME "the same bytes\n"

static char *inspect(const char *const *arguments) {
    command_outcome ran = command_execute(FOLDER, arguments);
    if (ran.status != 0) fail_msg("status %d: %s", ran.status, ran.err);
    assert_string_equal(ran.err, "");
    free(ran.err);
    return ran.out;
}

static void put(size_t number, const char *name) {
    size_t size;
    const unsigned char *bytes = support_shared_plan(number, &size);
    command_file_put(FOLDER, name, bytes, size);
}

/* Appends what does not depend on the machine and the build: sizes of scratch, and what follows from them, are others elsewhere. */
static void add_lines(FILE *to, char *text) {
    bool told = true; /* false: from the sizes to the operators */
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        if (strncmp(line, "arena:", strlen("arena:")) == 0) told = false;
        if (strncmp(line, "operators:", strlen("operators:")) == 0) told = true;
        if (!told) continue;
        char *buffer = strstr(line, ", buffer ");
        if (buffer) *buffer = '\0';
        for (const char *at = line; *at; at++) {
            fputc(*at, to);
            if (*at == '@') at += strspn(at + 1, "0123456789");
        }
        fputc('\n', to);
    }
}

static void plans_are_told(void **state) {
    (void)state;
    char *text;
    size_t length;
    FILE *all = open_memstream(&text, &length);
    assert_non_null(all);
    for (size_t p = 0; p < SUPPORT_PLAN_PROGRAMS; p++) {
        put(p, "inspected.plan");
        char *out = inspect((const char *const[]){"inspect", "inspected.plan", NULL});
        fprintf(all, "---- %s\n", support_plan_programs[p].name);
        add_lines(all, out);
        free(out);
    }
    fclose(all);
    support_expect_golden("compiler/command/cases/inspect.txt", text);
    free(text);
    remove(FOLDER "/inspected.plan");
}

static void as_json_and_as_a_picture(void **state) {
    (void)state;
    for (size_t p = 0; p < SUPPORT_PLAN_PROGRAMS; p++) {
        const char *reason;
        put(p, "inspected.plan");
        char *out = inspect((const char *const[]){"inspect", "inspected.plan", "--json", NULL});
        if (!command_json_check(out)) fail_msg("%s: %s", support_plan_programs[p].name, out);
        free(out);
        free(inspect(
            (const char *const[]){"inspect", "inspected.plan", "--memory-map", "inspected.svg", NULL}));
        char *svg = command_file(FOLDER, "inspected.svg", NULL);
        assert_non_null(svg);
        if (!command_xml_check(svg, &reason)) fail_msg("%s: %s", support_plan_programs[p].name, reason);
        free(svg);
        char *valid = inspect((const char *const[]){"verify", "inspected.plan", NULL});
        assert_non_null(strstr(valid, "inspected.plan: valid"));
        free(valid);
    }
    remove(FOLDER "/inspected.svg");
    remove(FOLDER "/inspected.plan");
}

/* Each plan beside the next one, which differs, and beside itself. */
static void two_plans_are_compared(void **state) {
    (void)state;
    for (size_t p = 0; p < SUPPORT_PLAN_PROGRAMS; p++) {
        put(p, "inspected.plan");
        put(p + 1, "another.plan");
        char *out = inspect((const char *const[]){"inspect", "inspected.plan", "another.plan", NULL});
        if (strstr(out, SAME)) fail_msg("%s: %s", support_plan_programs[p].name, out);
        free(out);
        out = inspect((const char *const[]){"inspect", "inspected.plan", "another.plan", "--json", NULL});
        if (!command_json_check(out)) fail_msg("%s: %s", support_plan_programs[p].name, out);
        free(out);
        out = inspect((const char *const[]){"inspect", "inspected.plan", "inspected.plan", NULL});
        if (!strstr(out, SAME)) fail_msg("%s: %s", support_plan_programs[p].name, out);
        free(out);
    }
    remove(FOLDER "/inspected.plan");
    remove(FOLDER "/another.plan");
}

/* Of operators whose kernels a run chooses, those are told that may run: none that takes only weights that a compile packs, and in a plan for
 * every machine none for vectors of some. */
static void kernels_at_run_are_told(void **state) {
    (void)state;
    static const char text[] =
        "module \"m\" { symbol N graph main(%x: float32[N,4], %w: float32[4,N], %i: float32[N,3,9,9], %f: "
        "float32[16,3,3,3]) { %y: float32[N,N] = MatMul(%x, %w) %z: float32[N,16,7,7] = Conv(%i, %f) yield "
        "%y, %z } }";
    for (int portable = 0; portable < 2; portable++) {
        size_t size;
        unsigned char *bytes = support_plan(text, portable, &size);
        command_file_put(FOLDER, "inspected.plan", bytes, size);
        char *out = inspect((const char *const[]){"inspect", "inspected.plan", "--json", NULL});
        const char *told = strstr(out, "\"kernels_at_run\"");
        assert_non_null(told);
        assert_non_null(strstr(told, "portable.matmul"));
        assert_non_null(strstr(told, "portable.convolution"));
        assert_null(strstr(told, "packed"));
        assert_null(strstr(told, "winograd"));
        assert_int_equal(strstr(told, "direct_convolution") == NULL, portable);
        if (portable) assert_null(strstr(told, "onednn"));
        free(out);
        free(bytes);
    }
    remove(FOLDER "/inspected.plan");
}

int main(int count, char **arguments) {
    support_arguments(count, arguments);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_are_told), cmocka_unit_test(as_json_and_as_a_picture),
        cmocka_unit_test(kernels_at_run_are_told), cmocka_unit_test(two_plans_are_compared)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
