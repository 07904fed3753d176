/* test_passes.c: single passes, before and after, as textual IR. */
#include "passes/passes.h"
#include "support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* The module after these passes: what is written must be `after`. */
static void expect(pass_function *const *passes, size_t count, int max_unroll, const char *before,
                   const char *after) {
    ir_module *module = support_module(before, true), *expected = support_module(after, true);
    base_arena scratch, memory;
    base_report report = {0};
    pass_options options = {.max_unroll = max_unroll, .environment = {.threads = 1, .portable_only = true}};
    base_arena_init(&scratch, NULL);
    base_arena_init(&memory, NULL);
    pass_context context = {.module = module,
                            .options = &options,
                            .scratch = &scratch,
                            .memory_arena = &memory,
                            .report = &report};
    for (size_t i = 0; i < count; i++)
        if (passes[i](&context) != BASE_OK) fail_msg("%s", report.text);
    if (ir_verify(module, "changed", &report) != BASE_OK) fail_msg("%s", report.text);
    char *is = support_print(module, true), *should = support_print(expected, true);
    if (strcmp(is, should) != 0) {
        fprintf(stderr, "the passes give\n%sexpected\n%s", is, should); /* too long for fail_msg */
        fail();
    }
    free(is);
    free(should);
    base_arena_free(&scratch);
    base_arena_free(&memory);
    ir_module_free(module);
    ir_module_free(expected);
}

#define EXPECT(pass, max_unroll, before, after)                                                              \
    expect((pass_function *const[]){pass}, 1, max_unroll, before, after)

static void fuse(void **state) {
    (void)state;
    /* Relu behind Conv becomes part of it, but not where the sum is wanted by itself. */
    EXPECT(pass_fuse, 0,
           "module \"m\" { constant %w: float32[1,1,1,1] = {2}\n graph main(%x: float32[1,1,2,2]) {\n"
           " %t: float32[1,1,2,2] = Conv(%x, %w)\n %y: float32[1,1,2,2] = Relu(%t)\n yield %y } }",
           "module \"m\" { constant %w: float32[1,1,1,1] = {2}\n graph main(%x: float32[1,1,2,2]) {\n"
           " %t: float32[1,1,2,2] = Conv(%x, %w) {ouro.activation = \"Relu\", ouro.alpha = 0.0, "
           "ouro.beta = 0.0}\n yield %t } }");
    EXPECT(pass_fuse, 0,
           "module \"m\" { constant %w: float32[1,1,1,1] = {2}\n graph main(%x: float32[1,1,2,2]) {\n"
           " %t: float32[1,1,2,2] = Conv(%x, %w)\n %y: float32[1,1,2,2] = Relu(%t)\n yield %y, %t } }",
           "module \"m\" { constant %w: float32[1,1,1,1] = {2}\n graph main(%x: float32[1,1,2,2]) {\n"
           " %t: float32[1,1,2,2] = Conv(%x, %w)\n %y: float32[1,1,2,2] = Relu(%t)\n yield %y, %t } }");
}

static void fold(void **state) {
    (void)state;
    /* What is made of constants is a constant (what it was made of goes with the dead code); what reads the caller's data stays. */
    EXPECT(pass_fold_constants, 0,
           "module \"m\" { constant %a: float32[2] = {1, 2}\n constant %b: float32[2] = {3, 4}\n"
           " graph main(%x: float32[2]) { %s: float32[2] = Add(%a, %b)\n %y: float32[2] = Mul(%x, %s)\n"
           " yield %y } }",
           "module \"m\" { constant %a: float32[2] = {1, 2}\n constant %b: float32[2] = {3, 4}\n"
           " constant %s_1: float32[2] = {4, 6}\n"
           " graph main(%x: float32[2]) { %y: float32[2] = Mul(%x, %s_1)\n yield %y } }");
}

static void eliminate(void **state) {
    (void)state;
    EXPECT(
        pass_eliminate_dead_code, 0,
        "module \"m\" { constant %k: float32[2] = {1, 2}\n graph main(%x: float32[2]) {\n"
        " %a: float32[2] = Add(%x, %k)\n %b: float32[2] = Exp(%a)\n %y: float32[2] = Neg(%x)\n yield %y } }",
        "module \"m\" { graph main(%x: float32[2]) { %y: float32[2] = Neg(%x)\n yield %y } }");
}

static void hoist(void **state) {
    (void)state;
    /* From the inner loop through the outer one; Gather stays, because it can fail and the loop may be empty. */
    EXPECT(pass_hoist_invariants, 0,
           "module \"m\" { graph main(%n: int64[], %x: float32[2,2], %w: float32[2,2], %i: int64[1]) {\n"
           " %p: float32[2,2] = Loop(%n, _, %x) { graph body(%t: int64[], %c: bool[], %s: float32[2,2]) {\n"
           "  %q: float32[2,2] = Loop(%n, _, %s) { graph inner(%u: int64[], %d: bool[], %v: float32[2,2]) {\n"
           "   %e: float32[2,2] = Exp(%w)\n   %f: float32[2,2] = Softmax(%e) {axis = 1}\n"
           "   %g: float32[1,2] = Gather(%w, %i)\n   %h: float32[2,2] = MatMul(%s, %f)\n"
           "   %j: float32[2,2] = Add(%v, %g)\n   %k: float32[2,2] = Add(%j, %h)\n   yield %d, %k } }\n"
           "  yield %c, %q } }\n yield %p } }",
           "module \"m\" { graph main(%n: int64[], %x: float32[2,2], %w: float32[2,2], %i: int64[1]) {\n"
           " %e: float32[2,2] = Exp(%w)\n %f: float32[2,2] = Softmax(%e) {axis = 1}\n"
           " %p: float32[2,2] = Loop(%n, _, %x) { graph body(%t: int64[], %c: bool[], %s: float32[2,2]) {\n"
           "  %h: float32[2,2] = MatMul(%s, %f)\n"
           "  %q: float32[2,2] = Loop(%n, _, %s) { graph inner(%u: int64[], %d: bool[], %v: float32[2,2]) {\n"
           "   %g: float32[1,2] = Gather(%w, %i)\n"
           "   %j: float32[2,2] = Add(%v, %g)\n   %k: float32[2,2] = Add(%j, %h)\n   yield %d, %k } }\n"
           "  yield %c, %q } }\n yield %p } }");
}

#define DELAY(body)                                                                                          \
    "module \"m\" { graph main(%n: int64[], %x: float32[2,2]) {\n"                                           \
    " %p: float32[2,2], %q: float32[2,2], %r: float32[2,2] = Loop(%n, _, %x, %x, %x) { graph body(%t: "      \
    "int64[],"                                                                                               \
    " %c: bool[], %a: float32[2,2], %b: float32[2,2], %d: float32[2,2]) {\n" body                            \
    " } }\n yield %p, %q, %r } }"

static void limit(void **state) {
    (void)state;
    const char *delay = DELAY("%y: float32[2,2] = MatMul(%a, %a)\n yield %c, %b, %d, %y"),
               *rotation = DELAY("yield %c, %b, %d, %a");
    EXPECT(pass_limit_unrolling, 4, delay, delay);
    EXPECT(
        pass_limit_unrolling, 3, delay,
        DELAY("%y: float32[2,2] = MatMul(%a, %a)\n %b_1: float32[2,2] = ouro.Copy(%b) \"max-unroll\" kernel "
              "\"portable.copy\"\n yield %c, %b_1, %d, %y"));
    EXPECT(
        pass_limit_unrolling, 1, delay,
        DELAY(
            "%y: float32[2,2] = MatMul(%a, %a)\n %d_1: float32[2,2] = ouro.Copy(%d) \"max-unroll\" kernel "
            "\"portable.copy\"\n %b_1: float32[2,2] = ouro.Copy(%b) \"max-unroll\" kernel \"portable.copy\"\n"
            " %y_1: float32[2,2] = ouro.Copy(%y) \"max-unroll\" kernel \"portable.copy\"\n yield %c, %b_1, "
            "%d_1, %y_1"));
    EXPECT(pass_limit_unrolling, 3, rotation, rotation);
    EXPECT(
        pass_limit_unrolling, 2, rotation,
        DELAY("%b_1: float32[2,2] = ouro.Copy(%b) \"max-unroll\" kernel \"portable.copy\"\n"
              " %a_1: float32[2,2] = ouro.Copy(%a) \"max-unroll\" kernel \"portable.copy\"\n"
              " %d_1: float32[2,2] = ouro.Copy(%d) \"max-unroll\" kernel \"portable.copy\"\n yield %c, %b_1, "
              "%d_1, %a_1"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(fuse), cmocka_unit_test(fold),
                                       cmocka_unit_test(eliminate), cmocka_unit_test(hoist),
                                       cmocka_unit_test(limit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
