/* SPDX-License-Identifier: Apache-2.0 */
/* test_plan_rules.c: each rule of docs/VERIFIER.md refuses some plan. Rules stand there with what they say in quotation
 * marks. Good plans of several kinds are changed field by field, in ways that a seed gives, and sealed again; each rule's
 * words must be among what the refusals say. */
#include "tests/support/mutate.h"
#include "tests/support/plan.h"
#include "tests/support/programs_of_plans.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MOST_RULES = 128, MOST_WORDS = 160, ROUNDS = 40000 };

typedef struct rule {
    char words[MOST_WORDS];
    size_t refused;
} rule;

/* The words that stand in quotation marks in the second column of the tables. */
static size_t read_rules(rule *rules) {
    size_t size, count = 0;
    char *text = support_read_file(TEST_SOURCE_DIR "/docs/VERIFIER.md", &size);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        char *begin = line[0] == '|' ? strstr(line, "| \"") : NULL,
             *end = begin ? strstr(begin, "\" |") : NULL;
        if (!end) continue;
        assert_true(count < MOST_RULES);
        snprintf(rules[count++].words, MOST_WORDS, "%.*s", (int)(end - begin - 3), begin + 3);
    }
    free(text);
    return count;
}

/* "..." in a rule stands for a name or a number. */
static bool says(const char *text, const char *words) {
    const char *gap = strstr(words, "...");
    const size_t length = gap ? (size_t)(gap - words) : strlen(words);
    for (const char *at = text; (at = memmem(at, strlen(at), words, length)); at++) {
        if (!gap || says(at + length, gap + 3)) return true;
    }
    return false;
}

static void every_rule_refuses_something(void **state) {
    (void)state;
    static rule rules[MOST_RULES];
    const size_t count = read_rules(rules);
    assert_true(count > 20);
    for (size_t c = 0; c < SUPPORT_PLAN_PROGRAMS; c++) {
        size_t size;
        unsigned char *good = support_plan(support_plan_programs[c].text, true, &size);
        unsigned char *bytes = aligned_alloc(64, (size + 63) / 64 * 64);
        assert_non_null(bytes);
        for (uint64_t round = 0; round < ROUNDS; round++) {
            uint64_t random = round;
            memcpy(bytes, good, size);
            for (uint64_t i = 0; i < 1 + round % 2; i++) {
                const uint64_t a = support_random(&random), b = support_random(&random);
                const support_edit edit = {(uint32_t)a, (uint32_t)(a >> 32), (uint32_t)b,
                                           (uint32_t)(b >> 32)};
                support_edit_apply(bytes, size, &edit);
            }
            support_plan_seal(bytes, size);
            plan opened;
            base_report report = {0};
            if (plan_open(bytes, size, "bad.plan", &rt_plan_host, NULL, NULL, &opened, &report) == BASE_OK) {
                plan_close(&opened);
                continue;
            }
            bool known = false;
            for (size_t r = 0; r < count; r++) {
                if (!says(report.text, rules[r].words)) continue;
                rules[r].refused++;
                known = true;
            }
            if (!known && getenv("OURO_UNKNOWN_RULES")) printf("%s\n", report.text);
        }
        free(good);
        free(bytes);
    }
    size_t idle = 0;
    for (size_t r = 0; r < count; r++) {
        if (rules[r].refused) continue;
        print_message("no plan was refused by: %s\n", rules[r].words);
        idle++;
    }
    assert_int_equal(idle, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_rule_refuses_something)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
