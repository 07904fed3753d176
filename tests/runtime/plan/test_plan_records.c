/* test_plan_records.c: plans changed record by record, with a checksum that is right: whatever comes of it is refused, or
 * runs without harm. A part of what tests/fuzz/fuzz_plan_records.c does without end, from a seed that is always the same.
 * OURO_FUZZ_RUNS=N and OURO_FUZZ_SEED=N in the environment run more, and others. */
#include "tests/support/mutate.h"
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include <inttypes.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define T "float32[4,4]"

static const struct {
    const char *name, *text;
} cases[] = {
    {"in a line", "module \"line\" { constant %ends: int64[2] = {1, 3} constant %k: int64[1] = {2}\n"
                  " graph main(%x: " T ", %y: " T ") { %a: " T " = MatMul(%x, %y)\n"
                  "  %p: float32[1,4], %q: float32[3,4] = Split(%a, %ends) {axis = 0}\n"
                  "  %b: float32[1,4] = Exp(%p) %c: float32[3,4] = Cos(%q)\n"
                  "  %d: " T " = Concat(%b, %c) {axis = 0} %e: " T " = Softmax(%d) {axis = 1}\n"
                  "  %v: float32[4,2], %i: int64[4,2] = TopK(%e, %k) {axis = 1}\n"
                  "  yield %v, %i, %d } }\n"},
    {"a loop that swaps",
     "module \"swap\" { constant %trips: int64[] = {5}\n"
     " graph main(%x: " T ", %y: " T ") { %m: " T " = Neg(%x)\n"
     "  %p: " T ", %q: " T " = Loop(%trips, _, %m, %y) { graph body(%i: int64[], %k: bool[], %a: " T
     ", %b: " T ") { %c: " T " = MatMul(%a, %b) yield %k, %b, %c } }\n"
     "  %r: " T " = Add(%p, %q) yield %r } }\n"},
    {"slices, stacks, a branch",
     "module \"slices\" { constant %trips: int64[] = {4}\n"
     " graph main(%x: " T ", %go: bool[]) { %m: " T " = Neg(%x)\n"
     "  %s: " T " = Loop(%trips, _, %m) {ouro.scan_inputs = 1, ouro.scan_outputs = 1} {\n"
     "   graph body(%i: int64[], %k: bool[], %u: float32[4]) {\n"
     "    %w: float32[4] = If(%go) { graph yes() { %f: float32[4] = Abs(%u) yield %f }"
     " graph no() { %g: float32[4] = Exp(%u) yield %g } }\n"
     "    yield %k, %w } }\n"
     "  %r: " T " = Neg(%s) yield %r } }\n"},
    {"what grows", "module \"growth\" { constant %eight: int64[] = {8}\n"
                   " graph main(%n: int64[], %a: " T ") { %a0: " T " = Neg(%a)\n"
                   "  %p: float32[?,4] = Loop(%eight, _, %a0) {\n"
                   "   graph body(%i: int64[], %k: bool[], %c: float32[?,4]) { %go: bool[] = Less(%i, %n)\n"
                   "    %d: float32[?,4] = Concat(%c, %a) {axis = 0} yield %go, %d } }\n"
                   "  %t: float32[?,4] = Abs(%p) yield %t } }\n"},
    {"sequences and dynamic dimensions",
     "module \"sequences\" { symbol N constant %one: int64[] = {1}\n"
     " graph main(%x: float32[N,4], %y: float32[4]) { %a: float32[N,4] = Add(%x, %y)\n"
     "  %s: sequence(float32[...]) = SequenceConstruct(%a, %x)\n"
     "  %t: sequence(float32[...]) = SequenceInsert(%s, %a)\n"
     "  %z: float32[...] = SequenceAt(%t, %one) yield %z, %t } }\n"},
};
enum { CASES = sizeof cases / sizeof *cases };

static uint64_t setting(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static void changed_records_do_no_harm(void **state) {
    (void)state;
    const uint64_t runs = setting("OURO_FUZZ_RUNS", 3000), seed = setting("OURO_FUZZ_SEED", 1);
    for (int c = 0; c < CASES; c++) {
        size_t size, reached[3] = {0};
        unsigned char *good = support_plan(cases[c].text, false, &size);
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
        print_message("%s: %zu refused, %zu opened, %zu ran\n", cases[c].name, reached[SUPPORT_REFUSED],
                      reached[SUPPORT_OPENED] + reached[SUPPORT_RAN], reached[SUPPORT_RAN]);
        assert_true(reached[SUPPORT_REFUSED] > 0 && reached[SUPPORT_RAN] > 0);
        free(bytes);
        free(good);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(changed_records_do_no_harm)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
