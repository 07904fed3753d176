/* SPDX-License-Identifier: Apache-2.0 */
/* test_recompute.c: under a limit of the arena cheap values are computed again at later readers, and what comes out is the same,
 * to the bit.
 *
 * OURO_TEST_RECOMPUTE=N tries N random graphs, OURO_TEST_SEED=S begins with seed S. A failure prints its seed and the graph.
 */
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <inttypes.h>

enum { GRAPHS = 150 };

static const pass_options plain = {.exact_arithmetic = true,
                                   .environment = {.threads = 1, .portable_only = true}};

/* What the passes say of a module. */
typedef struct outcome {
    size_t arena, recomputed, nodes;
    double seconds;
} outcome;

static outcome compile(const char *text, size_t limit) {
    ir_module *module = support_module(text, true);
    base_arena arena;
    base_report report = {0};
    pass_memory *memory = NULL;
    pass_options options = plain;
    options.arena_limit = limit;
    base_arena_init(&arena, NULL);
    if (pass_pipeline_run(module, &options, &arena, &memory, &report) != BASE_OK) fail_msg("%s", report.text);
    outcome is = {memory->arena_bytes, memory->recomputed_count, (size_t)module->main->node_count, 0};
    for (size_t i = 0; i < memory->recomputed_count; i++) {
        const pass_recomputed *value = &memory->recomputed[i];
        assert_true(*value->node && *value->reader && value->bytes && value->seconds > 0);
        is.seconds += value->seconds;
    }
    base_arena_free(&arena);
    ir_module_free(module);
    return is;
}

/* The same bits within the limit as without one. */
static void compare(const char *text, size_t limit, uint64_t seed) {
    static float inputs[8][1 << 14]; /* sessions read them where they are */
    support_session a, b;
    pass_options limited = plain;
    limited.arena_limit = limit;
    support_session_open_with(&a, text, &plain);
    support_session_open_with(&b, text, &limited);
    const plan *of = rt_plan_of(a.plan);
    uint64_t chance = seed;
    assert_true(of->header->inputs.count <= sizeof inputs / sizeof *inputs);
    for (size_t i = 0; i < of->header->inputs.count; i++) {
        ouro_tensor_info info;
        float *input = inputs[i];
        assert_int_equal(ouro_plan_input(a.plan, i, &info), OURO_OK);
        const size_t count = info.bytes / sizeof *input;
        assert_true(info.bytes <= sizeof *inputs);
        for (size_t k = 0; k < count; k++)
            input[k] = (float)(int64_t)(support_random(&chance) % 2001) / 1000 - 1;
        support_bind(&a, i, input, count * sizeof *input);
        support_bind(&b, i, input, count * sizeof *input);
    }
    support_run(&a);
    support_run(&b);
    for (size_t o = 0; o < of->header->outputs.count; o++) {
        ouro_error error;
        ouro_tensor_info info;
        const void *whole = NULL;
        assert_int_equal(ouro_session_output(a.session, o, &info, &whole, &error), OURO_OK);
        if (memcmp(whole, support_output(&b, o, info.bytes), info.bytes) != 0)
            fail_msg("seed %" PRIu64 ": output %zu differs\n%s", seed, o, text);
    }
    support_session_close(&a);
    support_session_close(&b);
}

/* A mask that is made of an input, and that four layers add: their peaks are in between. */
static const char masked[] = "module \"masked\" {\n"
                             "  graph main(%x: float32[64,64], %mask: float32[64,64], %w: float32[64,256], "
                             "%v: float32[256,64], %k: float32[64,1]) {\n"
                             "    %m: float32[64,64] = Tanh(%mask)\n"
                             "    %a0: float32[64,64] = Add(%x, %m)\n"
                             "    %b0: float32[64,256] = MatMul(%a0, %w)\n"
                             "    %c0: float32[64,256] = Softmax(%b0) {axis = 1}\n"
                             "    %d0: float32[64,64] = MatMul(%c0, %v)\n"
                             "    %a1: float32[64,64] = Add(%d0, %m)\n"
                             "    %b1: float32[64,256] = MatMul(%a1, %w)\n"
                             "    %c1: float32[64,256] = Softmax(%b1) {axis = 1}\n"
                             "    %d1: float32[64,64] = MatMul(%c1, %v)\n"
                             "    %a2: float32[64,64] = Add(%d1, %m)\n"
                             "    %b2: float32[64,256] = MatMul(%a2, %w)\n"
                             "    %c2: float32[64,256] = Softmax(%b2) {axis = 1}\n"
                             "    %d2: float32[64,64] = MatMul(%c2, %v)\n"
                             "    %r: float32[64,64] = Add(%d2, %m)\n"
                             "    %s: float32[64,1] = MatMul(%r, %k)\n"
                             "    yield %s\n"
                             "  }\n"
                             "}\n";

static void a_mask_is_not_kept(void **state) {
    (void)state;
    const outcome whole = compile(masked, 0);
    assert_int_equal(whole.recomputed, 0);
    const size_t mask = 64 * 64 * sizeof(float);
    const outcome limited = compile(masked, whole.arena - mask);
    assert_int_equal(limited.recomputed, 3);
    assert_int_equal(limited.arena, whole.arena - mask);
    assert_true(limited.seconds > 0);
    /* Nothing is repeated where the limit is met anyhow. */
    assert_int_equal(compile(masked, whole.arena).recomputed, 0);
    compare(masked, whole.arena - mask, 1);
    compare(masked, PASS_ARENA_LEAST, 2);
}

/* ---- random graphs --------------------------------------------------------------------------------------- */

enum { VALUES = 26 };

/* One node, or a few, that make value n of values before it: `soon` is one of the last ones, `late` any. */
static void write_value(FILE *out, unsigned n, unsigned soon, unsigned late, uint64_t kind) {
    if (kind < 4) {
        (void)fprintf(out, "    %%v%u: float32[16,16] = ", n);
        (void)fprintf(out,
                      kind == 0   ? "Tanh(%%v%u)\n"
                      : kind == 1 ? "Transpose(%%v%u) {perm = [1, 0]}\n"
                      : kind == 2 ? "Softmax(%%v%u) {axis = 1}\n"
                                  : "Neg(%%v%u)\n",
                      soon);
    } else if (kind == 4) {
        (void)fprintf(out,
                      "    %%f%u: float32[256] = Reshape(%%v%u, %%flat)\n"
                      "    %%v%u: float32[16,16] = Reshape(%%f%u, %%shape)\n",
                      n, soon, n, n);
    } else if (kind < 7) {
        (void)fprintf(out,
                      "    %%p%u: float32[16,64] = MatMul(%%v%u, %%w)\n"
                      "    %%q%u: float32[16,64] = Softmax(%%p%u) {axis = 1}\n"
                      "    %%v%u: float32[16,16] = MatMul(%%q%u, %%u)\n",
                      n, soon, n, n, n, n);
    } else {
        (void)fprintf(out, "    %%v%u: float32[16,16] = Add(%%v%u, %%v%u)\n", n, soon, late);
    }
}

/* Values of 16 x 16 that are read soon and late, and products that are four times as wide in between. */
static char *random_graph(uint64_t seed) {
    uint64_t chance = seed * 2654435761u + 1;
    char *text = NULL;
    size_t size = 0;
    bool read[VALUES] = {false};
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    (void)fputs("module \"m\" {\n"
                "  constant %shape: int64[2] = {16, 16}\n"
                "  constant %flat: int64[1] = {256}\n"
                "  graph main(%v0: float32[16,16], %small: float32[1,16], %w: float32[16,64], %u: "
                "float32[64,16]) {\n"
                "    %v1: float32[16,16] = Expand(%small, %shape)\n",
                out);
    for (unsigned n = 2; n < VALUES; n++) {
        const unsigned late = (unsigned)(support_random(&chance) % n),
                       soon = n - 1 - (unsigned)(support_random(&chance) % (n < 3 ? n : 3));
        const uint64_t kind = support_random(&chance) % 9;
        write_value(out, n, soon, late, kind);
        read[soon] = true;
        if (kind >= 7) read[late] = true;
    }
    (void)fprintf(out, "    yield %%v%d", VALUES - 1);
    for (int n = 1; n < VALUES - 1; n++)
        if (!read[n]) (void)fprintf(out, ", %%v%d", n);
    (void)fputs("\n  }\n}\n", out);
    (void)fclose(out);
    return text;
}

static void random_graphs(void **state) {
    (void)state;
    const char *first = getenv("OURO_TEST_SEED"), *many = getenv("OURO_TEST_RECOMPUTE");
    const uint64_t begin = first ? strtoull(first, NULL, 10) : 1,
                   count = many ? strtoull(many, NULL, 10) : support_share(GRAPHS);
    size_t smaller = 0, repeated = 0;
    for (uint64_t seed = begin; seed < begin + count; seed++) {
        char *text = random_graph(seed);
        if (first) puts(text);
        const outcome whole = compile(text, 0), least = compile(text, PASS_ARENA_LEAST);
        assert_true(least.arena <= whole.arena);
        repeated += least.recomputed;
        smaller += least.recomputed && least.arena < whole.arena;
        compare(text, PASS_ARENA_LEAST, seed);
        if (least.arena < whole.arena) {
            const size_t limit = (least.arena + whole.arena) / 2;
            assert_true(compile(text, limit).arena <= limit);
            compare(text, limit, seed);
        }
        free(text);
    }
    printf("%zu values repeated, %zu arenas smaller\n", repeated, smaller);
    if (!first && !many) assert_true(smaller * 10 > count);
}

int main(int count, char **arguments) {
    support_arguments(count, arguments);
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_mask_is_not_kept), cmocka_unit_test(random_graphs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
