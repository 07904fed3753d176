/* SPDX-License-Identifier: Apache-2.0 */
/* test_passes.c: single passes, before and after, as textual IR: x.ir becomes x.after.ir. `test_passes --bless` rewrites the
 * latter; a case that must stay as it is has the same text in both. */
#include "passes/graph/graph.h"
#include "passes/layout/layout.h"
#include "passes/loops/loops.h"
#include "passes/memory/memory.h"
#include "passes/passes.h"
#include "tests/support/support.h"
#include "tests/support/writer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* FOLDER/cases/NAME below tests/passes, and the pass that is tried. */
static const struct pass_case {
    const char *name;
    pass_function *run;
    int max_unroll;
} cases[] = {
    /* Relu after Conv becomes part of it, but not where the sum is wanted by itself. A product reads heads as they lie; but not
     * what others read, too, nor with another innermost axis on the left. */
    {"graph/cases/fuse_relu", pass_fuse, 0},
    {"graph/cases/fuse_relu_read_twice", pass_fuse, 0},
    /* Gates after convolutions: Swish by its parts, HardSwish by its parts and whole. Not where the sum is wanted by itself, the gate is
     * of another slope, or of something else. */
    {"graph/cases/fuse_gate", pass_fuse, 0},
    {"graph/cases/fuse_gate_not", pass_fuse, 0},
    /* In 16 bits, too, whose kernels compute in float. */
    {"graph/cases/fuse_halves", pass_fuse, 0},
    /* Scales of channels go into weights of 16 bits, where these do not become too large or too small for their type. */
    {"graph/cases/fuse_halves_affine", pass_fuse, 0},
    {"graph/cases/fuse_products", pass_fuse, 0},
    /* Of extents that nobody knows, too; not what has more rows than one, or columns that the product has not. */
    {"graph/cases/fuse_unknown", pass_fuse, 0},
    /* Images, rows, doubles, any extents, in bodies; no product by ones. Not where a factor is no number, too large or too small, in 16 bits,
     * of few elements, of unknown extents, by what is no constant, nor in training. */
    {"graph/cases/scale_channels", pass_scale_channels, 0},
    {"graph/cases/scale_channels_not", pass_scale_channels, 0},
    {"graph/cases/fuse_limits", pass_fuse, 0},
    /* Gelu after products, but not by tanh, nor after a convolution. Gelu in its parts, with its factors in any order; not where somebody reads
     * a part, with another factor, of two values, upside down, or with a result of higher rank. */
    {"graph/cases/fuse_gelu", pass_fuse, 0},
    {"graph/cases/recognise_gelu", pass_recognise_gelu, 0},
    {"graph/cases/recognise_gelu_not", pass_recognise_gelu, 0},
    {"graph/cases/sink_transposes", pass_sink_transposes, 0},
    {"graph/cases/sink_transposes_not", pass_sink_transposes, 0},
    {"graph/cases/sink_transposes_turned", pass_sink_transposes, 0},
    {"graph/cases/turn_pools", pass_turn_pools, 0},
    {"graph/cases/turn_pools_not", pass_turn_pools, 0},
    {"graph/cases/fuse_heads", pass_fuse, 0},
    {"graph/cases/fuse_heads_float16", pass_fuse, 0},
    {"graph/cases/fuse_heads_not", pass_fuse, 0},
    /* A quantised Conv with its bias and Relu, a Reshape, and a product whose bias is a sum. But not a bias of another scale, a Relu
     * whose zero is in the middle of the bytes, an input that is not quantised, or a Transpose to another scale. */
    {"graph/cases/fuse_quantized", pass_fuse_quantized, 0},
    {"graph/cases/fuse_quantized_not", pass_fuse_quantized, 0},
    /* Heads with other activations and without a bias, and heads of two convolutions each. But not other windows, weights that are
     * no constants, as many filters as a vector has lanes, or an activation with numbers of its own beside none. */
    {"graph/cases/join_convolutions", pass_join_convolutions, 0},
    {"graph/cases/join_convolutions_not", pass_join_convolutions, 0},
    /* Filters and biases, channels of filters, of groups too, past pools and what works on each channel: by Gathers, shuffles, and Slices that
     * turn round. Not where others read what is not in the order, or is, where weights are read twice, or are no constants, where groups change,
     * nor of some channels. */
    {"graph/cases/order_channels", pass_order_channels, 0},
    {"graph/cases/order_channels_not", pass_order_channels, 0},
    /* Nodes on constants are computed; a slice of everything is what it slices, but not where the extents are not known. */
    {"graph/cases/fold_constants", pass_fold_constants, 0},
    {"graph/cases/fold_slice_of_all", pass_fold_constants, 0},
    {"graph/cases/fold_resize", pass_fold_constants, 0},
    {"graph/cases/fold_unknown", pass_fold_constants, 0},
    /* Extents and constants beside each other; not beside numbers that only a run has, nor where other numbers than -1 are looked for. */
    {"graph/cases/fold_expand_shape", pass_fold_constants, 0},
    /* The first If is decided; its result has a rank then, which decides the second, and that the third. */
    {"graph/cases/fold_ifs_of_ranks", pass_fold_constants, 0},
    /* Constant tuples that go through a whole axis become rows or planes; not through a part of it, nor of mixed rows, nor what
     * is not constant. */
    {"graph/cases/shorten_indices", pass_fold_constants, 0},
    /* Keys and values of two heads, appended to along their third axis and read by products. What others read stays, and so does
     * what stands before what is there already, or is not what the loop began with. */
    {"loops/cases/carry_parts", pass_carry_parts, 0},
    {"loops/cases/carry_parts_other", pass_carry_parts, 0},
    {"loops/cases/carry_growth", pass_carry_growth, 0},
    {"loops/cases/carry_growth_read", pass_carry_growth, 0},
    {"loops/cases/carry_growth_other", pass_carry_growth, 0},
    {"loops/cases/carry_growth_before", pass_carry_growth, 0},
    {"loops/cases/carry_growth_itself", pass_carry_growth, 0},
    /* Keys and values that products read, and that are handed out too, in 16 bits. What a sum reads stays, and so do integers. */
    {"loops/cases/halve_states", pass_halve_states, 0},
    /* Windows along an inner axis: whose rows begin at multiples of what is new, one and six elements; not one that grows at its
     * begin. */
    {"loops/cases/flatten_window", pass_flatten_windows, 0},
    /* What is taken at the counter is scanned where the trip count has the name of the extent. Not where it has another one, the next element,
     * nor slices whose size is not known. */
    {"loops/cases/scan_gathers_open", pass_scan_gathers, 0},
    {"loops/cases/scan_gathers_spread", pass_scan_gathers, 0},
    /* Trees that are only scanned, along an axis counted from either end, in both directions, are made in the body. Not what others read, what would
     * have as many bytes scanned, nor small slices. */
    {"loops/cases/sink_scans", pass_sink_scans, 0},
    {"loops/cases/sink_scans_not", pass_sink_scans, 0},
    /* Also along an axis whose extent has a name. Not where slices have no known size, or the extent is not certainly the same. */
    {"loops/cases/sink_scans_open", pass_sink_scans, 0},
    {"loops/cases/sink_scans_open_not", pass_sink_scans, 0},
    /* Heads that stand after tokens are read as rows; the factor and the mask become parts of the node. */
    {"layout/cases/fuse_attention", pass_fuse_attention, 0},
    {"layout/cases/fuse_attention_float16", pass_fuse_attention, 0},
    /* One query, keys and values of which are kept in 16 bits, as caches are carried; not where only the keys are. The operator. */
    {"layout/cases/fuse_attention_halves", pass_fuse_attention, 0},
    /* All that it is made of goes, and the scale and the bias become inputs. */
    {"layout/cases/fuse_normalization", pass_fuse_normalization, 0},
    /* In 16 bits, between Casts and as such, where a kernel takes rows of this length; not one of 5,000 elements. */
    {"layout/cases/fuse_normalization_halves", pass_fuse_normalization, 0},
    /* Sums and means take absolutes and squares of floats and doubles; not of 16 bits, integers, nor what others read, or products of two. */
    {"layout/cases/fuse_reductions", pass_fuse_reductions, 0},
    /* Shuffles by two axes that change places, with the extents of images or without, and by a Gather; two readers; not where others read what is
     * shuffled, or parts of it, where channels are only taken, where it is no shuffle, or the convolution sees more than one channel. */
    {"layout/cases/fuse_shuffles", pass_fuse_shuffles, 0},
    {"layout/cases/fuse_shuffles_not", pass_fuse_shuffles, 0},
    /* Trees become one node, inputs are broadcast; what other nodes read, or has another shape, stays a tensor. A sum whose
     * operands are dead is not put off to where a third product is there; gates of one product may wait for each other. */
    {"layout/cases/fuse_elementwise", pass_fuse_elementwise, 0},
    {"layout/cases/fuse_elementwise_memory", pass_fuse_elementwise, 0},
    /* Dynamic dimensions with equal names are equal; of others, and of integers, nothing is fused. */
    {"layout/cases/fuse_elementwise_dynamic", pass_fuse_elementwise, 0},
    {"layout/cases/sum_bytes", pass_sum_bytes, 0},
    {"layout/cases/sum_bytes_not", pass_sum_bytes, 0},
    {"graph/cases/eliminate_dead_code", pass_eliminate_dead_code, 0},
    {"graph/cases/hoist_invariants", pass_hoist_invariants, 0},
    /* A delay of three iterations and a rotation of three, under limits of the unroll factor. */
    {"memory/cases/prepare_growth", pass_prepare_results, 0},
    {"loops/cases/limit_4_delay", pass_limit_unrolling, 4},
    {"loops/cases/limit_3_delay", pass_limit_unrolling, 3},
    {"loops/cases/limit_1_delay", pass_limit_unrolling, 1},
    {"loops/cases/limit_3_rotation", pass_limit_unrolling, 3},
    {"loops/cases/limit_2_rotation", pass_limit_unrolling, 2},
};

static void run_case(const struct pass_case *one) {
    char name[256];
    (void)snprintf(name, sizeof name, "passes/%s.ir", one->name);
    char *before = support_read_golden(name, NULL);
    ir_module *module = support_module(before, true);
    free(before);
    base_arena scratch, memory;
    base_report report = {0};
    /* Portable kernels alone are the same on every machine, for which attention is not fused. */
    pass_options options = {.max_unroll = one->max_unroll,
                            .state_type = OP_FLOAT16,
                            .environment = {.threads = 1, .portable_only = one->run != pass_fuse_attention}};
    base_arena_init(&scratch, NULL);
    base_arena_init(&memory, NULL);
    pass_context context = {.module = module,
                            .options = &options,
                            .scratch = &scratch,
                            .memory_arena = &memory,
                            .report = &report};
    if (one->run(&context) != BASE_OK) fail_msg("%s: %s", one->name, report.text);
    if (ir_verify(module, "changed", &report) != BASE_OK) fail_msg("%s: %s", one->name, report.text);
    char *after = support_print(module, true);
    (void)snprintf(name, sizeof name, "passes/%s.after.ir", one->name);
    support_expect_golden(name, after);
    free(after);
    base_arena_free(&scratch);
    base_arena_free(&memory);
    ir_module_free(module);
}

static void each_pass_gives_what_its_case_says(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) run_case(&cases[i]);
}

/* A cache to which a body appends 200,000 times before it hands it on is left as it is. */
static void long_chains_are_not_taken_apart(void **state) {
    (void)state;
    enum { LENGTH = 200000, EACH = 64 };
    char *text = malloc((size_t)LENGTH * EACH + 2048);
    assert_non_null(text);
    support_writer to = support_writer_on(text, (size_t)LENGTH * EACH + 2048);
    support_write(&to, "module \"m\" { constant %%n: int64[] = {3} constant %%zero: int64[] = {0}\n"
                       " graph main(%%x: float32[2,?], %%y: float32[2,1], %%s: float32[?]) {\n"
                       " _, %%r: float32[?] = Loop(%%n, _, %%x, %%s) {\n"
                       "  graph body(%%i: int64[], %%k: bool[], %%c0: float32[2,?], %%t: float32[?]) {\n"
                       "   %%u: float32[?] = Gather(%%c0, %%zero) {axis = 0}\n");
    for (int i = 0; i < LENGTH; i++)
        support_write(&to, "%%c%d: float32[2,?] = Concat(%%c%d, %%y) {axis = 1}\n", i + 1, i);
    support_write(&to, "yield %%k, %%c%d, %%u } } yield %%r } }", LENGTH);
    ir_module *module = support_module(text, false);
    free(text);
    base_arena scratch;
    base_report report = {0};
    base_arena_init(&scratch, NULL);
    pass_context context = {.module = module, .scratch = &scratch, .report = &report};
    const uint32_t inputs = module->main->first->input_count;
    assert_int_equal(pass_carry_parts(&context), BASE_OK);
    assert_int_equal(module->main->first->input_count, inputs);
    base_arena_free(&scratch);
    ir_module_free(module);
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

int main(int count, char **arguments) {
    support_arguments(count, arguments);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_chains_are_not_taken_apart),
        cmocka_unit_test(each_pass_gives_what_its_case_says),
        cmocka_unit_test(slice_iterations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
