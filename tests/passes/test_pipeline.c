/* SPDX-License-Identifier: Apache-2.0 */
/* test_pipeline.c: the contract of the pipeline: each row is needed, and stands where it has to; the header tells the truth. */
#include "passes/passes.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MOST_ROWS = 64 };

static void needs_are_met(void **state) {
    (void)state;
    size_t count;
    base_report report = {0};
    const pass_row *rows = pass_pipeline_rows(&count);
    if (pass_pipeline_check(rows, count, &report) != BASE_OK) fail_msg("%s", report.text);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(pass_pipeline_name(i), rows[i].name);
        assert_true(rows[i].makes); /* else it could go */
        assert_int_equal(rows[i].breaks & rows[i].needs & rows[i].makes, 0);
        for (size_t k = 0; k < i; k++) assert_string_not_equal(rows[k].name, rows[i].name);
    }
    assert_null(pass_pipeline_name(count));
}

static void every_row_is_missed(void **state) {
    (void)state;
    size_t count;
    const pass_row *rows = pass_pipeline_rows(&count);
    pass_row others[MOST_ROWS];
    assert_true(count <= MOST_ROWS);
    for (size_t gone = 0; gone < count; gone++) {
        base_report report = {0};
        memcpy(others, rows, gone * sizeof *rows);
        memcpy(others + gone, rows + gone + 1, (count - gone - 1) * sizeof *rows);
        if (pass_pipeline_check(others, count - 1, &report) == BASE_OK)
            fail_msg("the pipeline does not miss pass %s", rows[gone].name);
    }
}

/* A pass before the one that makes what it needs. */
static void the_order_is_written(void **state) {
    (void)state;
    static const char *const pairs[][2] = {
        {"infer-shapes", "fold-constants"},     {"carry-growth", "fuse"},
        {"hoist-invariants", "fuse"},           {"fuse", "select-layouts"},
        {"select-layouts", "carry-layouts"},    {"eliminate-unused", "select-kernels"},
        {"limit-unrolling", "prepare-results"}, {"prepare-results", "join-aliases"},
        {"reserve-growth", "schedule"},         {"choose-in-place", "analyse-loops"},
        {"analyse-loops", "analyse-liveness"}};
    size_t count;
    const pass_row *rows = pass_pipeline_rows(&count);
    for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++) {
        pass_row others[MOST_ROWS];
        size_t first = count, second = count, n = 0;
        base_report report = {0};
        for (size_t i = 0; i < count; i++) {
            if (strcmp(rows[i].name, pairs[p][0]) == 0) first = i;
            if (strcmp(rows[i].name, pairs[p][1]) == 0) second = i;
        }
        assert_true(first < second && second < count);
        for (size_t i = 0; i < count; i++) { /* the second moves to before the first */
            if (i == first) others[n++] = rows[second];
            if (i != second) others[n++] = rows[i];
        }
        if (pass_pipeline_check(others, count, &report) == BASE_OK)
            fail_msg("%s may run before %s", pairs[p][1], pairs[p][0]);
        assert_non_null(strstr(report.text, pairs[p][1]));
    }
}

/* The list at the head of passes.h has all rows, in their order, and no others. */
static void the_header_lists_the_rows(void **state) {
    (void)state;
    size_t count, length, listed = 0;
    const pass_row *rows = pass_pipeline_rows(&count);
    char *text = support_read_file(TEST_SOURCE_DIR "/passes/passes.h", &length);
    char *head = strstr(text, "/* passes.h:");
    assert_non_null(head);
    char *end = strstr(head, " */");
    assert_non_null(end);
    *end = 0;
    for (char *line = strstr(text, "\n *   "); line; line = strstr(line + 1, "\n *   ")) {
        const size_t name = strcspn(line + 6, " ");
        assert_true(listed < count);
        if (strlen(rows[listed].name) != name || memcmp(rows[listed].name, line + 6, name) != 0)
            fail_msg("the header's line %zu is not of %s", listed + 1, rows[listed].name);
        listed++;
    }
    assert_int_equal(listed, count);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(needs_are_met),
        cmocka_unit_test(every_row_is_missed),
        cmocka_unit_test(the_order_is_written),
        cmocka_unit_test(the_header_lists_the_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
