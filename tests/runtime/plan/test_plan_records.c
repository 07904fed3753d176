/* SPDX-License-Identifier: Apache-2.0 */
/* test_plan_records.c: plans changed record by record, with a checksum that is right: whatever comes of it is refused, or
 * runs without harm. A part of what tests/fuzz/fuzz_plan_records.c does without end, from a seed that is always the same.
 * OURO_FUZZ_RUNS=N and OURO_FUZZ_SEED=N in the environment run more, and others. */
#include "tests/support/mutate.h"
#include "tests/support/plan.h"
#include "tests/support/programs_of_plans.h"
#include "tests/support/support.h"
#include <inttypes.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static uint64_t setting(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static void changed_records_do_no_harm(void **state) {
    (void)state;
    const uint64_t runs = setting("OURO_FUZZ_RUNS", support_share(3000)), seed = setting("OURO_FUZZ_SEED", 1);
    for (size_t c = 0; c < SUPPORT_PLAN_PROGRAMS; c++) {
        size_t size, reached[3] = {0};
        unsigned char *good = support_plan(support_plan_programs[c].text, false, &size);
        unsigned char *bytes = aligned_alloc(64, (size + 63) / 64 * 64);
        assert_non_null(bytes);
        memcpy(bytes, good, size);
        assert_int_equal(support_plan_try(bytes, size), SUPPORT_RAN);
        for (uint64_t run = 0; run < runs; run++) {
            uint64_t random = seed * 1000003 + run;
            memcpy(bytes, good, size);
            for (uint64_t i = 0; i < 1 + run % 3; i++) {
                const uint64_t a = support_random(&random), b = support_random(&random);
                const support_edit edit = {(uint32_t)a, (uint32_t)(a >> 32), (uint32_t)b,
                                           (uint32_t)(b >> 32)};
                support_edit_apply(bytes, size, &edit);
            }
            reached[support_plan_try(bytes, size)]++;
        }
        print_message("%s: %zu refused, %zu opened, %zu ran\n", support_plan_programs[c].name,
                      reached[SUPPORT_REFUSED], reached[SUPPORT_OPENED] + reached[SUPPORT_RAN],
                      reached[SUPPORT_RAN]);
        assert_true(reached[SUPPORT_REFUSED] > 0 && reached[SUPPORT_RAN] > 0);
        free(bytes);
        free(good);
    }
}

/* Only where things lie is changed, by one edit or two: what is valid then computes the same, over several runs with other
 * inputs, one of which fails. */
static void what_is_placed_anew_computes_the_same(void **state) {
    (void)state;
    const uint64_t runs = setting("OURO_FUZZ_RUNS", support_share(4000)), seed = setting("OURO_FUZZ_SEED", 1);
    for (size_t c = 0; c < SUPPORT_PLAN_PROGRAMS; c++) {
        size_t size, reached[4] = {0};
        const unsigned char *good = support_shared_plan(c, &size);
        const support_ran *expected = support_shared_outcome(c);
        unsigned char *bytes = support_plan_copy(good, size);
        assert_int_equal(expected[0].status, OURO_OK);
        assert_true(expected[0].outputs != expected[1].outputs); /* other inputs, other outputs */
        assert_int_equal(support_plan_try_beside(bytes, size, good, expected), SUPPORT_RAN);
        for (uint64_t run = 0; run < runs; run++) {
            uint64_t random = seed * 1000003 + run;
            memcpy(bytes, good, size);
            for (uint64_t i = 0; i < 1 + run % 2; i++) {
                const uint64_t a = support_random(&random), b = support_random(&random);
                support_edit edit = {(uint32_t)a, (uint32_t)(a >> 32), (uint32_t)b, (uint32_t)(b >> 32)};
                support_edit_only_places(&edit);
                support_edit_apply(bytes, size, &edit);
            }
            const support_reached how = support_plan_try_beside(bytes, size, good, expected);
            reached[how]++;
            if (how == SUPPORT_DIFFERS)
                print_message("%s: change %llu computes something else\n", support_plan_programs[c].name,
                              (unsigned long long)run);
        }
        print_message("%s: %zu refused, %zu ran, %zu differ\n", support_plan_programs[c].name,
                      reached[SUPPORT_REFUSED], reached[SUPPORT_RAN], reached[SUPPORT_DIFFERS]);
        assert_true(reached[SUPPORT_REFUSED] > 0 && reached[SUPPORT_RAN] > 0);
        assert_int_equal(reached[SUPPORT_DIFFERS], 0);
        free(bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(changed_records_do_no_harm),
                                       cmocka_unit_test(what_is_placed_anew_computes_the_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
