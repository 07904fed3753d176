/* test_passes.c: single passes, before and after, as textual IR. */
#include "passes/graph/graph.h"
#include "passes/layout/layout.h"
#include "passes/loops/loops.h"
#include "passes/memory/memory.h"
#include "passes/passes.h"
#include "tests/support/support.h"
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
    /* A product reads heads as they lie; but not what others read, too, nor with another innermost axis on the left. */
    EXPECT(pass_fuse, 0,
           "module \"m\" { graph main(%q: float32[1,5,2,4], %k: float32[1,6,2,4]) {\n"
           " %a: float32[1,2,5,4] = Transpose(%q) {perm = [0, 2, 1, 3]}\n"
           " %b: float32[1,2,4,6] = Transpose(%k) {perm = [0, 2, 3, 1]}\n"
           " %s: float32[1,2,5,6] = MatMul(%a, %b)\n yield %s } }",
           "module \"m\" { graph main(%q: float32[1,5,2,4], %k: float32[1,6,2,4]) {\n"
           " %a: float32[1,2,5,4] = Transpose(%q) {perm = [0, 2, 1, 3]}\n"
           " %b: float32[1,2,4,6] = Transpose(%k) {perm = [0, 2, 3, 1]}\n"
           " %s: float32[1,2,5,6] = MatMul(%q, %k) {ouro.left = [0, 2, 1, 3], ouro.right = [0, 2, 3, 1]}\n"
           " yield %s } }");
    EXPECT(pass_fuse, 0,
           "module \"m\" { graph main(%q: float32[4,5], %k: float32[4,5]) {\n"
           " %a: float32[5,4] = Transpose(%q)\n %b: float32[5,4] = Transpose(%k)\n"
           " %s: float32[5,5] = MatMul(%a, %k)\n %t: float32[4,4] = MatMul(%q, %b)\n"
           " yield %s, %t, %b } }",
           "module \"m\" { graph main(%q: float32[4,5], %k: float32[4,5]) {\n"
           " %a: float32[5,4] = Transpose(%q)\n %b: float32[5,4] = Transpose(%k)\n"
           " %s: float32[5,5] = MatMul(%a, %k)\n %t: float32[4,4] = MatMul(%q, %b)\n"
           " yield %s, %t, %b } }");
}

static void carry_growth(void **state) {
    (void)state;
    /* Keys and values of two heads, appended to along their third axis and read by products. */
    EXPECT(pass_carry_growth, 0,
           "module \"m\" { constant %n: int64[] = {3}\n"
           " graph main(%q: float32[1,2,1,4], %x: float32[1,2,0,4], %y: float32[1,2,1,4]) {\n"
           " %p: float32[1,2,3,4] = Loop(%n, _, %x) { graph body(%i: int64[], %k: bool[], %c: "
           "float32[1,2,?,4]) {\n"
           "  %d: float32[1,2,?,4] = Concat(%c, %y) {axis = 2}\n"
           "  %t: float32[1,2,4,?] = Transpose(%d) {perm = [0, 1, 3, 2]}\n"
           "  %s: float32[1,2,1,?] = MatMul(%q, %t)\n  %o: float32[1,2,1,4] = MatMul(%s, %d)\n"
           "  yield %k, %d } }\n yield %p } }",
           "module \"m\" { constant %n: int64[] = {3}\n"
           " graph main(%q: float32[1,2,1,4], %x: float32[1,2,0,4], %y: float32[1,2,1,4]) {\n"
           " %x_1: float32[0,1,2,4] = Transpose(%x) {perm = [2, 0, 1, 3]}\n"
           " %p: float32[3,1,2,4] = Loop(%n, _, %x_1) { graph body(%i: int64[], %k: bool[], %c: "
           "float32[?,1,2,4]) "
           "{\n"
           "  %y_1: float32[1,1,2,4] = Transpose(%y) {perm = [2, 0, 1, 3]}\n"
           "  %d: float32[?,1,2,4] = Concat(%c, %y_1) {axis = 0}\n"
           "  %t: float32[1,2,4,?] = Transpose(%d) {perm = [1, 2, 3, 0]}\n"
           "  %s: float32[1,2,1,?] = MatMul(%q, %t)\n"
           "  %d_1: float32[1,2,?,4] = Transpose(%d) {perm = [1, 2, 0, 3]}\n"
           "  %o: float32[1,2,1,4] = MatMul(%s, %d_1)\n"
           "  yield %k, %d } }\n"
           " %p_1: float32[1,2,3,4] = Transpose(%p) {perm = [1, 2, 0, 3]}\n yield %p_1 } }");
    /* What others read stays, and so does what is behind what is there already, or is not what the loop began with. */
    static const char *const kept[] = {
        "float32[2,?]", "%d: float32[2,?] = Concat(%c, %y) {axis = 1} %t: float32[2,?] = Neg(%d)",
        "float32[1,?]", "%d: float32[1,?] = Concat(%c, %z) {axis = 1}",
        "float32[2,?]", "%d: float32[2,?] = Concat(%y, %c) {axis = 1}",
        "float32[2,?]", "%d: float32[2,?] = Concat(%c, %c) {axis = 1}"};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i += 2) {
        char text[1024];
        (void)snprintf(
            text, sizeof text,
            "module \"m\" { constant %%n: int64[] = {3}\n graph main(%%x: %s, %%y: float32[2,1], "
            "%%z: float32[1,1]) {\n %%p: %s = Loop(%%n, _, %%x) { graph body(%%i: int64[], %%k: bool[], "
            "%%c: %s) { %s yield %%k, %%d } }\n yield %%p } }",
            kept[i], kept[i], kept[i], kept[i + 1]);
        EXPECT(pass_carry_growth, 0, text, text);
    }
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
    /* What keeps the extents, open ones too, is what it reads; but not where they are unknown. */
    EXPECT(pass_fold_constants, 0,
           "module \"m\" { constant %z: int64[1] = {0}\n constant %far: int64[1] = {1000000000}\n"
           " graph main(%x: float32[n,4]) {\n %s: int64[2]<n, 4> = Shape(%x)\n"
           " %a: float32[n,4] = Expand(%x, %s)\n %b: float32[n,4] = Slice(%a, %z, %far)\n"
           " %y: float32[n,4] = Relu(%b)\n yield %y } }",
           "module \"m\" { constant %z: int64[1] = {0}\n constant %far: int64[1] = {1000000000}\n"
           " graph main(%x: float32[n,4]) {\n %s: int64[2]<n, 4> = Shape(%x)\n"
           " %y: float32[n,4] = Relu(%x)\n yield %y } }");
    const char *unknown = "module \"m\" { graph main(%x: float32[?,4], %s: int64[2]) {\n"
                          " %a: float32[?,4] = Expand(%x, %s)\n yield %a } }";
    EXPECT(pass_fold_constants, 0, unknown, unknown);
}

static void eliminate(void **state) {
    (void)state;
    EXPECT(
        pass_eliminate_dead_code, 0,
        "module \"m\" { constant %k: float32[2] = {1, 2}\n graph main(%x: float32[2]) {\n"
        " %a: float32[2] = Add(%x, %k)\n %b: float32[2] = Exp(%a)\n %y: float32[2] = Neg(%x)\n yield %y } }",
        "module \"m\" { graph main(%x: float32[2]) { %y: float32[2] = Neg(%x)\n yield %y } }");
}

/* The loop takes row %j of %x (six rows, or n) in each iteration; the slice of one step becomes a Gather, or stays. */
static bool is_gathered(const char *rows, const char *loop, const char *begin, const char *body,
                        const char *next) {
    char text[2048];
    const char *type = begin[1] == 's' ? "int64[]" : "int32[]";
    (void)snprintf(
        text, sizeof text,
        "module \"m\" { constant %%z: int64[1] = {0}\n constant %%one: int64[1] = {1} constant %%z32: "
        "int32[1] = {0}\n"
        " constant %%i1: int32[] = {1}\n constant %%i2: int32[] = {2}\n constant %%i6: int32[] = {6}\n"
        " constant %%s6: int64[] = {6}\n constant %%s7: int64[] = {7}\n constant %%s5: int64[] = {5}\n"
        " constant %%most: int64[] = {9223372036854775807}\n constant %%s1: int64[] = {1}\n"
        " graph main(%%x: float32[%s,4], %%a: float32[1,4], %%m: int64[]) {\n"
        " %%h: int64[2] = Shape(%%x)\n %%n1: int64[1] = Slice(%%h, %%z, %%one)\n"
        " %%n: int64[] = Squeeze(%%n1)\n %%k0: bool[] = Less(%%i1, %%i6)\n %%f0: bool[] = Less(%%i6, %%i6)\n"
        " %%r: float32[1,4], %%q: %s = Loop(%s, %%a, %s) { graph body(%%i: int64[], %%k: bool[], %%u: "
        "float32[1,4], %%c: %s) {\n"
        "  %s %%t: float32[?,4] = Slice(%%x, %%j, %%e, %s)\n  %%v: float32[?,4] = Add(%%u, %%t)\n  yield %s "
        "} }\n yield %%r, %%q } }",
        rows, type, loop, begin, type, body, begin[1] == 's' ? "%z" : "%z32", next);
    ir_module *module = support_module(text, false);
    base_arena scratch;
    base_report report = {0};
    base_arena_init(&scratch, NULL);
    pass_context context = {.module = module, .scratch = &scratch, .report = &report};
    if (pass_infer_shapes(&context) != BASE_OK || pass_slice_iterations(&context) != BASE_OK ||
        pass_infer_shapes(&context) != BASE_OK)
        fail_msg("%s", report.text);
    if (ir_verify(module, "changed", &report) != BASE_OK) fail_msg("%s", report.text);
    char *is = support_print(module, true);
    const bool gathered = strstr(is, "Gather(%x, %j) {axis = 0}") != NULL;
    free(is);
    base_arena_free(&scratch);
    ir_module_free(module);
    return gathered;
}

static void slice_iterations(void **state) {
    (void)state;
    const char *number = "%j: int64[1] = Unsqueeze(%i, %z) %e: int64[1] = Add(%j, %one)",
               *same = "%k, %v, %c";
    /* By the trip count, which is a number, or the extent. */
    assert_true(is_gathered("6", "%s6, _", "%s6", number, same));
    assert_true(is_gathered("6", "%s5, _", "%s6", number, same));
    assert_false(is_gathered("6", "%s7, _", "%s6", number, same));
    assert_false(is_gathered("6", "%m, _", "%s6", number, same));
    assert_true(is_gathered("n", "%n, _", "%s6", number, same));
    assert_false(is_gathered("n", "%s6, _", "%s6", number, same));
    /* One row further, and one row before, which the first iteration does not have. */
    const char
        *further =
            "%j0: int64[] = Add(%i, %s1) %j: int64[1] = Unsqueeze(%j0, %z) %e: int64[1] = Add(%one, %j)",
        *before =
            "%j0: int64[] = Sub(%i, %s1) %j: int64[1] = Unsqueeze(%j0, %z) %e: int64[1] = Unsqueeze(%i, %z)",
        *two = "%j: int64[1] = Unsqueeze(%i, %z) %e0: int64[1] = Add(%j, %one) %e: int64[1] = Add(%e0, %one)";
    assert_true(is_gathered("6", "%s5, _", "%s6", further, same));
    assert_false(is_gathered("6", "%s6, _", "%s6", further, same));
    assert_false(is_gathered("n", "%n, _", "%s6", further, same));
    assert_false(is_gathered("6", "%s5, _", "%s6", before, same));
    assert_false(is_gathered("6", "%s5, _", "%s6", two, same));
    /* By a condition on a carried counter of 32 bits, which begins with one. */
    const char *carried = "%d: int32[] = Add(%c, %i1) %g: bool[] = Less(%d, %i6) %j: int32[1] = "
                          "Unsqueeze(%c, %z) %e: int32[1] = Unsqueeze(%d, %z)",
               *strict = "%d: int32[] = Add(%c, %i1) %l: int32[] = Cast(%n) {to = 6} %g0: bool[] = "
                         "Greater(%l, %d) %g: bool[] = And(%g0, %k) "
                         "%j: int32[1] = Unsqueeze(%c, %z) %e: int32[1] = Unsqueeze(%d, %z)",
               *late = "%d: int32[] = Add(%c, %i1) %g: bool[] = Less(%c, %i6) %j: int32[1] = Unsqueeze(%c, "
                       "%z) %e: int32[1] = Unsqueeze(%d, %z)",
               *faster = "%d: int32[] = Add(%c, %i2) %e0: int32[] = Add(%c, %i1) %g: bool[] = Less(%d, %i6) "
                         "%j: int32[1] = Unsqueeze(%c, %z) "
                         "%e: int32[1] = Unsqueeze(%e0, %z)";
    assert_true(is_gathered("6", "%most, %k0", "%i1", carried, "%g, %v, %d"));
    assert_true(is_gathered("7", "%most, %k0", "%i1", late, "%g, %v, %d"));
    assert_false(is_gathered("6", "%most, %k0", "%i1", late, "%g, %v, %d"));
    assert_false(is_gathered("5", "%most, %k0", "%i1", carried, "%g, %v, %d"));
    assert_false(is_gathered("6", "%most, %k0", "%i1", faster, "%g, %v, %d"));
    assert_false(is_gathered("6", "%most, %k0", "%i1", carried, "%k, %v, %d"));
    assert_true(is_gathered("6", "%most, _", "%i1", strict, "%g, %v, %d"));
    assert_false(
        is_gathered("n", "%most, _", "%i1", strict, "%g, %v, %d")); /* nothing says that there is a row 1 */
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

#define WHY " why \"it would be kept for more iterations than --max-unroll allows\""
static void limit(void **state) {
    (void)state;
    const char *delay = DELAY("%y: float32[2,2] = MatMul(%a, %a)\n yield %c, %b, %d, %y"),
               *rotation = DELAY("yield %c, %b, %d, %a");
    EXPECT(pass_limit_unrolling, 4, delay, delay);
    EXPECT(pass_limit_unrolling, 3, delay,
           DELAY("%y: float32[2,2] = MatMul(%a, %a)\n %b_1: float32[2,2] = ouro.Copy(%b) kernel "
                 "\"portable.copy\"" WHY "\n yield %c, %b_1, %d, %y"));
    EXPECT(pass_limit_unrolling, 1, delay,
           DELAY("%y: float32[2,2] = MatMul(%a, %a)\n %d_1: float32[2,2] = ouro.Copy(%d) kernel "
                 "\"portable.copy\"" WHY "\n %b_1: float32[2,2] = ouro.Copy(%b) kernel \"portable.copy\"" WHY
                 "\n"
                 " %y_1: float32[2,2] = ouro.Copy(%y) kernel \"portable.copy\"" WHY "\n yield %c, %b_1, "
                 "%d_1, %y_1"));
    EXPECT(pass_limit_unrolling, 3, rotation, rotation);
    EXPECT(pass_limit_unrolling, 2, rotation,
           DELAY("%b_1: float32[2,2] = ouro.Copy(%b) kernel \"portable.copy\"" WHY "\n"
                 " %a_1: float32[2,2] = ouro.Copy(%a) kernel \"portable.copy\"" WHY "\n"
                 " %d_1: float32[2,2] = ouro.Copy(%d) kernel \"portable.copy\"" WHY "\n yield %c, %b_1, "
                 "%d_1, %a_1"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(fuse),         cmocka_unit_test(fold),
                                       cmocka_unit_test(carry_growth), cmocka_unit_test(eliminate),
                                       cmocka_unit_test(hoist),        cmocka_unit_test(slice_iterations),
                                       cmocka_unit_test(limit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
