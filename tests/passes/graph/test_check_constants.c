/* SPDX-License-Identifier: Apache-2.0 */
/* test_check_constants.c: constants that an operator certainly refuses are refused when the model is compiled, with the
 * node's name, also in bodies that certainly run; those in a branch are not, since it may never run. */
#include "passes/passes.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static base_status compile(const char *text, base_report *report) {
    const pass_options options = {.max_unroll = 16, .environment = {.threads = 1, .portable_only = true}};
    ir_module *module = support_module(text, true);
    base_arena arena;
    pass_memory *memory;
    *report = (base_report){0};
    base_arena_init(&arena, NULL);
    const base_status status = pass_pipeline_run(module, &options, &arena, &memory, report);
    base_arena_free(&arena);
    ir_module_free(module);
    return status;
}

#define MODULE(constants, body)                                                                              \
    "module \"m\" { constant %zero: int64[1] = {0} " constants                                               \
    "\n graph main(%x: float32[4,6], %go: bool[]) {\n " body " } }\n"

/* Each is fine with the first constant, and refused with the second. */
typedef struct constant_case {
    const char *name, *good, *bad;
} constant_case;

#define CASE(name, type, good, bad, body)                                                                    \
    { name, MODULE("constant %c: " type " = " good, body), MODULE("constant %c: " type " = " bad, body) }

static const constant_case cases[] = {
    CASE("Gather", "int64[2]", "{3, -4}", "{0, 4}", "%y: float32[2,6] = Gather(%x, %c) {axis = 0} yield %y"),
    CASE("Gather", "int32[]", "{-4}", "{-5}", "%y: float32[6] = Gather(%x, %c) {axis = 0} yield %y"),
    CASE("GatherElements", "int64[1,6]", "{0, 1, 2, 3, 0, 0}", "{0, 1, 2, 3, 4, 0}",
         "%y: float32[1,6] = GatherElements(%x, %c) {axis = 0} yield %y"),
    CASE("GatherND", "int64[1,2]", "{3, 5}", "{3, 6}", "%y: float32[1] = GatherND(%x, %c) yield %y"),
    CASE("ScatterElements", "int64[1,6]", "{0, 1, 2, 3, 0, 0}", "{0, 1, 2, -5, 0, 0}",
         "%u: float32[1,6] = ReduceMax(%x, %zero) {keepdims = 1} %y: float32[4,6] = ScatterElements(%x, "
         "%c, %u) {axis = 0} yield %y"),
    CASE("TopK", "int64[1]", "{2}", "{-1}",
         "%y: float32[...], %i: int64[...] = TopK(%x, %c) {axis = 1} yield %y, %i"),
    CASE("TopK", "int64[1]", "{6}", "{7}",
         "%y: float32[...], %i: int64[...] = TopK(%x, %c) {axis = 1} yield %y, %i"),
    CASE("CumSum", "int32[]", "{-2}", "{2}", "%y: float32[4,6] = CumSum(%x, %c) yield %y"),
    CASE("ReverseSequence", "int64[6]", "{1, 2, 3, 4, 1, 1}", "{1, 2, 3, 5, 1, 1}",
         "%y: float32[4,6] = ReverseSequence(%x, %c) {batch_axis = 1, time_axis = 0} yield %y"),
};

static void bad_constants_are_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        base_report report;
        if (compile(cases[i].good, &report) != BASE_OK) fail_msg("%s: %s", cases[i].name, report.text);
        assert_int_equal(compile(cases[i].bad, &report), BASE_INVALID);
        print_message("%s", report.text);
        assert_non_null(strstr(report.text, cases[i].name)); /* which node it is */
    }
}

#define LOOP(trips, inner)                                                                                   \
    "module \"m\" { constant %c: int64[] = {9} constant %n: int64[] = " trips                                \
    "\n graph main(%x: float32[4,6], %m: int64[]) {\n"                                                       \
    " %y: float32[...] = Loop(" inner                                                                        \
    ", _) {ouro.scan_outputs = 1} { graph body(%i: int64[], %k: bool[]) {\n"                                 \
    "  %a: float32[6] = Gather(%x, %c) {axis = 0} yield %k, %a } } yield %y } }\n"

static void bodies_that_run_hold_none(void **state) {
    (void)state;
    base_report report;
    assert_int_equal(compile(LOOP("{2}", "%n"), &report), BASE_INVALID);
    assert_non_null(strstr(report.text, "Gather"));
    assert_int_equal(compile(LOOP("{0}", "%n"), &report), BASE_OK); /* not once */
    assert_int_equal(compile(LOOP("{2}", "%m"), &report), BASE_OK); /* who knows how often */
}

/* Models rely on it that what is never run may be wrong. */
static void branches_may_hold_them(void **state) {
    (void)state;
    base_report report;
    assert_int_equal(
        compile(
            MODULE(
                "constant %c: int64[] = {9}",
                "%y: float32[6] = If(%go) { graph yes() { %a: float32[6] = Gather(%x, %c) {axis = 0} yield "
                "%a } graph no() { %b: float32[6] = ReduceMax(%x, %zero) {keepdims = 0} yield %b } } "
                "yield %y"),
            &report),
        BASE_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bad_constants_are_refused),
                                       cmocka_unit_test(bodies_that_run_hold_none),
                                       cmocka_unit_test(branches_may_hold_them)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
