/* SPDX-License-Identifier: Apache-2.0 */
/* test_bands.c: random networks give the same bits band by band as whole: convolutions, pools, residuals, concatenations and
 * what is element by element, of any window, stride, dilation and padding, at any height.
 *
 * OURO_TEST_BANDS=N tries N networks, OURO_TEST_SEED=S begins with seed S. A failure prints its seed and the network.
 */
#include "passes/bands/estimate.h"
#include "passes/bands/search.h"
#include "runtime/kernels/portable/cost.h"
#include "tests/support/networks.h"
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
#include <math.h>

enum { NETWORKS = 160 };
static size_t loops_of(const support_session *session) {
    const plan *of = rt_plan_of(session->plan);
    size_t loops = 0;
    for (uint64_t i = 0; i < of->header->nodes.count; i++)
        loops += plan_node_code(of, &of->nodes[i]) == OP_LOOP;
    return loops;
}

/* The outputs of two sessions: the same bits, or (sums in another order) nearly the same numbers. */
static void compare(const support_session *a, const support_session *b, bool exact, uint64_t seed,
                    int64_t rows) {
    const plan *of = rt_plan_of(a->plan);
    for (size_t o = 0; o < of->header->outputs.count; o++) {
        ouro_error error;
        ouro_tensor_info info;
        const void *whole = NULL;
        assert_int_equal(ouro_session_output(a->session, o, &info, &whole, &error), OURO_OK);
        const float *x = whole, *y = support_output(b, o, info.bytes);
        float most = 0;
        bool same = true;
        for (size_t i = 0; i < info.bytes / sizeof *x; i++) most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
        for (size_t i = 0; i < info.bytes / sizeof *x && same; i++)
            same = memcmp(&x[i], &y[i], sizeof *x) == 0 || (!exact && fabsf(x[i] - y[i]) <= 1e-5f * most);
        if (!same)
            fail_msg("seed %" PRIu64 ": output %zu differs in bands of %" PRId64 " rows", seed, o, rows);
    }
}

/* Runs the network whole and banded on the same input; the number of loops that bands have made. */
static size_t run_both_as(const char *text, size_t bytes, const pass_options *whole,
                          const pass_options *banded, uint64_t seed, bool exact) {
    support_session a, b;
    uint64_t chance = seed;
    support_session_open_with(&a, text, whole);
    support_session_open_with(&b, text, banded);
    float *input = malloc(bytes);
    assert_non_null(input);
    for (size_t i = 0; i < bytes / sizeof *input; i++)
        input[i] = (float)(int64_t)(support_random(&chance) % 2001) / 1000 - 1;
    support_bind(&a, 0, input, bytes);
    support_bind(&b, 0, input, bytes);
    support_run(&a);
    support_run(&b);
    compare(&a, &b, exact, seed, banded->band_rows);
    const size_t loops = loops_of(&b);
    support_session_close(&a);
    support_session_close(&b);
    free(input);
    return loops;
}

static size_t run_both(const char *text, size_t bytes, const pass_options *whole, const pass_options *banded,
                       uint64_t seed) {
    /* Winograd's convolution, where only one of them may have it, is nearly the same. */
    const bool exact =
        whole->environment.portable_only && whole->exact_arithmetic == banded->exact_arithmetic;
    return run_both_as(text, bytes, whole, banded, seed, exact);
}

static void run_random(uint64_t count, bool portable, bool tokens) {
    const char *first = getenv("OURO_TEST_SEED"), *many = getenv("OURO_TEST_BANDS");
    const uint64_t begin = first ? strtoull(first, NULL, 10) : 1;
    if (many) count = strtoull(many, NULL, 10);
    size_t loops = 0, networks = 0;
    for (uint64_t seed = begin; seed < begin + count; seed++) {
        size_t bytes;
        uint64_t chance = seed * 7919;
        char *text = tokens ? support_network_of_tokens(seed, &bytes)
                            : support_network_of_maps(seed, portable ? 1 : 16, &bytes);
        if (!text) continue;
        if (first) printf("seed %" PRIu64 "\n%s", seed, text);
        const pass_options whole = {.exact_arithmetic = true,
                                    .environment = {.threads = 1, .portable_only = portable}};
        pass_options banded = whole;
        banded.band_rows = 1 + (int64_t)(support_random(&chance) % (seed % 3 ? 4 : 30));
        banded.band_nodes = seed % 2 ? 0 : 2 + (size_t)(support_random(&chance) % 5);
        banded.environment.threads = 1 + (int)(seed % 2);
        loops += run_both(text, bytes, &whole, &banded, seed);
        networks++;
        free(text);
    }
    printf("%zu networks, %zu loops\n", networks, loops);
    if (!first && !many) assert_true(loops * 2 > networks);
}

/* In row-major layout, by the portable kernels: the same bits. */
static void random_networks(void **state) {
    (void)state;
    run_random(support_share(NETWORKS), true, false);
}

/* In the layouts that kernels prefer. */
static void random_networks_in_blocks(void **state) {
    (void)state;
    run_random(support_share(NETWORKS / 6), false, false);
}

/* Tokens, on portable kernels and on others. */
static void random_networks_of_tokens(void **state) {
    (void)state;
    run_random(support_share(NETWORKS / 4), true, true);
    run_random(support_share(NETWORKS / 4), false, true);
}

static const char four_convolutions[] =
    "module \"four\" {\n"
    "  constant %w: float32[8,8,3,3] = zeros\n"
    "  graph main(%x: float32[1,8,64,64]) {\n"
    "    %a: float32[1,8,64,64] = Conv(%x, %w) {pads = [1, 1, 1, 1]}\n"
    "    %b: float32[1,8,64,64] = Conv(%a, %w) {pads = [1, 1, 1, 1]}\n"
    "    %c: float32[1,8,64,64] = Add(%b, %a)\n"
    "    %d: float32[1,8,32,32] = MaxPool(%c) {kernel_shape = [2, 2], strides = [2, 2]}\n"
    "    %e: float32[1,8,32,32] = Sigmoid(%d)\n"
    "    %f: float32[1,8,16,16] = MaxPool(%e) {kernel_shape = [2, 2], strides = [2, 2]}\n"
    "    %g: float32[1,8,16,16] = Tanh(%f)\n"
    "    yield %g\n"
    "  }\n"
    "}\n";

static uint64_t arena_of_network(const char *text, const pass_options *options) {
    support_session opened;
    support_session_open_with(&opened, text, options);
    const uint64_t bytes = rt_plan_of(opened.plan)->header->arena_bytes;
    support_session_close(&opened);
    return bytes;
}

static uint64_t arena_of(const pass_options *options) {
    return arena_of_network(four_convolutions, options);
}

/* Whatever the least is with a planner, each limit from there on is met with it. */
static void limits_are_met_by_planners_that_miss_the_bound(void **state) {
    static const char *const planners[] = {"nnc", "bfc", "greedy-by-size"};
    (void)state;
    for (uint64_t seed = 1; seed <= support_share(6); seed++) {
        size_t bytes;
        char *text = support_network_of_maps(seed, 1, &bytes);
        assert_non_null(text);
        pass_options options = {.exact_arithmetic = true,
                                .arena_limit = PASS_ARENA_LEAST,
                                .allocator = planners[seed % 3],
                                .environment = {.threads = 1, .portable_only = true}};
        const uint64_t least = arena_of_network(text, &options);
        for (uint64_t part = 50; part <= 150 && least; part = part * 21 / 20) {
            options.arena_limit = (size_t)(least * part / 50);
            assert_true(arena_of_network(text, &options) <= options.arena_limit);
        }
        free(text);
    }
}

/* What graphs are prepared with for bands takes memory of its own, which is not to be seen where there are none. Nor is there less where more is
 * asked for than the least. */
static void the_least_is_no_more_than_others(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= support_share(5 * NETWORKS); seed++) {
        size_t bytes;
        char *text =
            seed % 4 ? support_network_of_tokens(seed, &bytes) : support_network_of_maps(seed, 1, &bytes);
        if (!text) continue;
        pass_options options = {.exact_arithmetic = true,
                                .environment = {.threads = 1, .portable_only = true}};
        const uint64_t whole = arena_of_network(text, &options);
        options.arena_limit = PASS_ARENA_LEAST;
        const uint64_t least = arena_of_network(text, &options);
        if (least > whole)
            fail_msg("network %d: %llu bytes, without bands %llu", (int)seed, (unsigned long long)least,
                     (unsigned long long)whole);
        options.time_limit = 1.2;
        const uint64_t timely = seed % 5 ? least : arena_of_network(text, &options);
        if (least > timely)
            fail_msg("network %d: %llu bytes, within a fifth more time %llu", (int)seed,
                     (unsigned long long)least, (unsigned long long)timely);
        free(text);
    }
}

static void limits_below_the_bound_are_met(void **state) {
    (void)state;
    const pass_options whole = {.exact_arithmetic = true,
                                .environment = {.threads = 1, .portable_only = true}};
    pass_options least = whole, half = whole, little = whole;
    const uint64_t bytes = arena_of(&whole);
    assert_true(bytes >= 2 * 8 * 64 * 64 * sizeof(float));
    least.arena_limit = PASS_ARENA_LEAST;
    assert_true(arena_of(&least) * 4 < bytes);
    pass_options cheap = least;
    cheap.time_limit = 1.000001; /* so little time that nothing that costs any can be done */
    assert_true(arena_of(&cheap) <= bytes);
    assert_true(arena_of(&cheap) > arena_of(&least));
    cheap.time_limit = 1000;
    assert_int_equal(arena_of(&cheap), arena_of(&least));
    half.arena_limit = (size_t)bytes / 2;
    assert_true(arena_of(&half) <= half.arena_limit);
    assert_true(run_both(four_convolutions, 8 * 64 * 64 * sizeof(float), &whole, &least, 1) > 0);
    (void)run_both(four_convolutions, 8 * 64 * 64 * sizeof(float), &whole, &half,
                   1); /* perhaps without a loop */
    /* What cannot be met is said, with what can. */
    ir_module *module = support_module(four_convolutions, true);
    base_arena arena;
    base_report report = {0};
    pass_memory *memory;
    little.arena_limit = 64;
    base_arena_init(&arena, NULL);
    assert_int_equal(pass_pipeline_run(module, &little, &arena, &memory, &report), BASE_INVALID);
    assert_non_null(strstr(report.text, "the least is"));
    assert_non_null(strstr(report.text, "which node"));
    base_arena_free(&arena);
    ir_module_free(module);
}

static bool runs_winograd(const pass_options *options) {
    static const char text[] =
        "module \"two\" {\n"
        "  constant %w: float32[64,64,3,3] = zeros\n"
        "  graph main(%x: float32[1,64,64,64]) {\n"
        "    %a: float32[1,64,64,64] = Conv(%x, %w) {pads = [1, 1, 1, 1]}\n"
        "    %b: float32[1,64,64,64] = Conv(%a, %w) {pads = [1, 1, 1, 1]}\n"
        "    %c: float32[1,64,64,64] = Conv(%b, %w) {pads = [1, 1, 1, 1]}\n"
        "    %d: float32[1,64,32,32] = MaxPool(%c) {kernel_shape = [2, 2], strides = [2, 2]}\n"
        "    yield %d\n"
        "  }\n"
        "}\n";
    support_session opened;
    support_session_open_with(&opened, text, options);
    const plan *of = rt_plan_of(opened.plan);
    bool found = false;
    for (uint64_t i = 0; i < of->header->nodes.count; i++)
        found = found || strstr(of->texts + of->nodes[i].kernel, "winograd");
    support_session_close(&opened);
    return found;
}

/* The least arena has no memory for Winograd's convolution. Where little more time may be taken than without bands, that is with it. Portable
 * kernels, so that predictions are the same on every machine. */
static void faster_kernels_count_as_time(void **state) {
    (void)state;
    pass_options options = {.constant_limit = SIZE_MAX, .environment = {.threads = 1, .portable_only = true}};
    assert_true(runs_winograd(&options));
    options.arena_limit = PASS_ARENA_LEAST;
    assert_false(runs_winograd(&options));
    options.time_limit = 1.05;
    assert_true(runs_winograd(&options));
    options.time_limit = 100;
    assert_false(runs_winograd(&options));
}

/* The maps of a network's first layers are larger than all others: these in bands, with kernels that want as much memory as those would
 * have taken, are as quick, in less. What is smallest without more memory for kernels is too slow. Portable kernels again. */
static void kernels_may_take_what_bands_leave(void **state) {
    (void)state;
    static const char text[] =
        "module \"stem\" {\n"
        "  constant %v: float32[64,3,7,7] = zeros\n"
        "  constant %w: float32[64,64,3,3] = zeros\n"
        "  graph main(%x: float32[1,3,112,112]) {\n"
        "    %a: float32[1,64,112,112] = Conv(%x, %v) {pads = [3, 3, 3, 3]}\n"
        "    %p: float32[1,64,56,56] = MaxPool(%a) {kernel_shape = [3, 3], strides = [2, 2], pads = [0, 0, "
        "1, 1]}\n"
        "    %b: float32[1,64,56,56] = Conv(%p, %w) {pads = [1, 1, 1, 1]}\n"
        "    %c: float32[1,64,56,56] = Conv(%b, %w) {pads = [1, 1, 1, 1]}\n"
        "    %d: float32[1,64,56,56] = Conv(%c, %w) {pads = [1, 1, 1, 1]}\n"
        "    %e: float32[1,64,56,56] = Conv(%d, %w) {pads = [1, 1, 1, 1]}\n"
        "    %f: float32[1,64,28,28] = MaxPool(%e) {kernel_shape = [2, 2], strides = [2, 2]}\n"
        "    yield %f\n"
        "  }\n"
        "}\n";
    pass_options options = {.constant_limit = SIZE_MAX, .environment = {.threads = 1, .portable_only = true}};
    const uint64_t whole = arena_of_network(text, &options);
    options.arena_limit = PASS_ARENA_LEAST;
    const uint64_t least = arena_of_network(text, &options);
    options.time_limit = 1.05;
    const uint64_t quick = arena_of_network(text, &options);
    assert_true(least < quick && quick < whole / 4 * 3);
}

/* Bands that could save 1.6 percent of the arena, as the transposition after them needs nearly as much, are not made for a time. */
static void bands_that_save_little_are_not_made(void **state) {
    (void)state;
    static const char text[] =
        "module \"little\" {\n"
        "  graph main(%x: float32[1,8,64,64]) {\n"
        "    %a: float32[1,8,64,64] = MaxPool(%x) {kernel_shape = [3, 3], pads = [1, 1, 1, 1]}\n"
        "    %b: float32[1,8,64,64] = MaxPool(%a) {kernel_shape = [3, 3], pads = [1, 1, 1, 1]}\n"
        "    %c: float32[1,8,64,63] = MaxPool(%b) {kernel_shape = [1, 2]}\n"
        "    %t: float32[1,8,63,64] = Transpose(%c) {perm = [0, 1, 3, 2]}\n"
        "    %d: float32[1,8,31,32] = MaxPool(%t) {kernel_shape = [2, 2], strides = [2, 2]}\n"
        "    yield %d\n"
        "  }\n"
        "}\n";
    pass_options options = {.environment = {.threads = 1, .portable_only = true}};
    const uint64_t whole = arena_of_network(text, &options);
    options.arena_limit = PASS_ARENA_LEAST;
    const uint64_t least = arena_of_network(text, &options);
    assert_true(least < whole && least > whole / 100 * 98);
    options.time_limit = 100;
    assert_int_equal(arena_of_network(text, &options), whole);
}

/* What a region came to when it was carried out is what the search goes by from then on. */
static void the_search_learns(void **state) {
    (void)state;
    const rt_environment environment = {.threads = 1, .portable_only = true};
    const band_savings none = {0};
    ir_module *module = support_module(four_convolutions, true);
    base_arena arena;
    base_arena_init(&arena, NULL);
    band_search *search = band_search_new(module, &environment, &none, &arena);
    assert_non_null(search);
    const double least = band_search_least(search), whole = band_search_whole(search);
    band_choices first, other;
    assert_true(least < whole / 2);
    assert_true(band_search_within(search, least, &arena, &first));
    assert_true(first.count > 0 && first.bytes <= least);
    /* It needs more than was thought: the least is what the others need, which are nearly the same and so need more, too. */
    for (size_t i = 0; i < first.count; i++)
        band_search_learn(search, &first.list[i], 2 * first.list[i].bytes, true);
    band_search_settle(search);
    assert_true(band_search_least(search) > least);
    assert_true(band_search_within(search, least, &arena, &other));
    assert_true(other.bytes > least && other.bytes <= whole);
    /* More, where that was not the peak, tells nothing; less does. */
    const double now = band_search_least(search);
    for (size_t i = 0; i < other.count; i++) band_search_learn(search, &other.list[i], whole, false);
    band_search_learn_step(search, 0, whole, false);
    band_search_settle(search);
    assert_true(band_search_least(search) == now);
    for (size_t i = 0; i < first.count; i++)
        band_search_learn(search, &first.list[i], first.list[i].bytes / 2, false);
    band_search_settle(search);
    assert_true(band_search_least(search) < now);
    /* Those at the peak are lowered as long as there are lower ones. */
    assert_true(band_search_within(search, whole * 0.9, &arena, &first));
    size_t turns = 0;
    for (; first.count; turns++) {
        int64_t before = 0, after = 0;
        assert_true(band_search_lower(search, &first, &arena, &other));
        for (size_t i = 0; i < first.count; i++) before += first.list[i].rows;
        for (size_t i = 0; i < other.count; i++) after += other.list[i].rows;
        assert_true(after < before);
        first = other;
    }
    assert_true(turns > 1);
    base_arena_free(&arena);
    ir_module_free(module);
}

/* Kernels of a small network begin sooner; portable plans do not depend on that. */
static void small_networks_begin_sooner(void **state) {
    (void)state;
    for (int portable = 0; portable < 2; portable++) {
        const rt_environment environment = {.threads = 1, .portable_only = portable};
        const band_rates *rates = band_rates_of(&environment);
        double before = 0;
        for (double bytes = 1 << 12; bytes < 1 << 26; bytes *= 2) {
            const double part = band_begin_part(rates, bytes);
            assert_true(part > 0 && part >= before && part <= 1);
            assert_true(!portable || part == 1);
            before = part;
        }
        assert_true(before == 1);
        /* Windows that the second cache does not hold are copied more slowly, if at all. */
        const double near = band_copy_seconds(rates, 1e6, 1e4), far = band_copy_seconds(rates, 1e6, 1e7);
        assert_true(portable ? far == near : far >= near);
    }
}

static bool is_winograd(const plan *of, const plan_node *node) {
    return strstr(of->texts + node->kernel, "winograd") != NULL;
}

/* Within a limit that only bands meet, they have Winograd's convolution where there is memory for it, with the same weights in all
 * bands of a convolution; what comes out is nearly the same. Portable kernels again. */
static void bands_have_faster_kernels(void **state) {
    (void)state;
    enum { CHANNELS = 32, EXTENT = 64 };
    char *text = NULL;
    size_t size = 0, faster = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    (void)fprintf(out, "module \"two\" {\n  constant %%w: float32[32,32,3,3] = {");
    for (int i = 0; i < CHANNELS * CHANNELS * 9; i++) (void)fprintf(out, "%s0.%d", i ? ", " : "", i * 7 % 10);
    (void)fputs("}\n"
                "  graph main(%x: float32[1,32,64,64]) {\n"
                "    %a: float32[1,32,64,64] = Conv(%x, %w) {pads = [1, 1, 1, 1]}\n"
                "    %b: float32[1,32,64,64] = Conv(%a, %w) {pads = [1, 1, 1, 1]}\n"
                "    %c: float32[1,32,64,64] = Conv(%b, %w) {pads = [1, 1, 1, 1]}\n"
                "    %d: float32[1,32,32,32] = MaxPool(%c) {kernel_shape = [2, 2], strides = [2, 2]}\n"
                "    yield %d\n"
                "  }\n"
                "}\n",
                out);
    (void)fclose(out);
    const pass_options exact = {.exact_arithmetic = true,
                                .environment = {.portable_only = true, .threads = 1}};
    pass_options limited = {.constant_limit = SIZE_MAX, .environment = {.portable_only = true, .threads = 1}};
    const size_t map = CHANNELS * EXTENT * EXTENT * sizeof(float);
    limited.arena_limit = map + map / 2;
    assert_true(arena_of_network(text, &exact) > limited.arena_limit);
    assert_true(arena_of_network(text, &limited) <= limited.arena_limit);
    (void)run_both(text, map, &exact, &limited, 1); /* perhaps without a loop */
    support_session opened;
    support_session_open_with(&opened, text, &limited);
    const plan *of = rt_plan_of(opened.plan);
    uint32_t weights[3]; /* at most one for each convolution of the network */
    size_t different = 0;
    for (uint64_t i = 0; i < of->header->nodes.count; i++) {
        const plan_node *node = &of->nodes[i];
        size_t known = 0;
        if (!is_winograd(of, node)) continue;
        faster++;
        while (known < different && weights[known] != of->tensor_ids[node->inputs + 1]) known++;
        if (known < different) continue;
        assert_true(different < sizeof weights / sizeof *weights);
        weights[different++] = of->tensor_ids[node->inputs + 1];
    }
    assert_true(faster > 0);
    support_session_close(&opened);
    free(text);
}

/* Without a limit: maps that no cache holds are made in bands where this is predicted to be quicker (a machine with AVX-512), and then take less memory.
 * Nowhere else, and not where it is forbidden. */
static void bands_are_taken_where_they_cost_nothing(void **state) {
    (void)state;
    static const char text[] =
        "module \"large\" {\n"
        "  constant %w: float32[16,16,3,3] = zeros\n"
        "  graph main(%x: float32[1,16,400,400]) {\n"
        "    %a: float32[1,16,400,400] = Conv(%x, %w) {pads = [1, 1, 1, 1]}\n"
        "    %b: float32[1,16,400,400] = Relu(%a)\n"
        "    %c: float32[1,16,400,400] = Conv(%b, %w) {pads = [1, 1, 1, 1]}\n"
        "    %d: float32[1,16,400,400] = Sigmoid(%c)\n"
        "    %e: float32[1,16,400,400] = Conv(%d, %w) {pads = [1, 1, 1, 1]}\n"
        "    %f: float32[1,16,200,200] = MaxPool(%e) {kernel_shape = [2, 2], strides = [2, 2]}\n"
        "    %g: float32[1,16,100,100] = MaxPool(%f) {kernel_shape = [2, 2], strides = [2, 2]}\n"
        "    yield %g\n"
        "  }\n"
        "}\n";
    const size_t bytes = (size_t)16 * 400 * 400 * sizeof(float);
    for (int portable = 0; portable < 2; portable++) {
        const pass_options whole = {.environment = {.threads = 1, .portable_only = portable}};
        pass_options free_of_cost = whole, exact = whole;
        free_of_cost.free_bands = exact.free_bands = exact.exact_arithmetic = true;
        char machine[256];
        const bool quick = !portable && strstr(rt_machine_describe(false, machine, sizeof machine), "avx512");
        const size_t loops = run_both(text, bytes, &whole, &free_of_cost, 1);
        assert_true(quick ? loops > 0 : loops == 0);
        const uint64_t with = arena_of_network(text, &free_of_cost), without = arena_of_network(text, &whole);
        assert_true(loops ? with < without / 2 : with == without);
        assert_int_equal(run_both(text, bytes, &whole, &exact, 1), 0);
        assert_int_equal(arena_of_network(four_convolutions, &free_of_cost), arena_of(&whole));
    }
}

/* Tokens are rows, of the feed-forward network and of the queries. */
static void tokens_go_in_bands(void **state) {
    (void)state;
    for (int portable = 0; portable < 2; portable++) {
        for (int64_t height = 4; height <= 13; height += 3) {
            const int64_t tokens = 6 * height + 4;
            char *text = support_network_of_a_layer(tokens);
            const pass_options whole = {.exact_arithmetic = true,
                                        .environment = {.threads = 1, .portable_only = portable}};
            pass_options banded = whole;
            banded.band_rows = height;
            banded.environment.threads = 1 + portable;
            const size_t loops = run_both(text, (size_t)tokens * 16 * sizeof(float), &whole, &banded, 1);
            assert_true(loops >= 2);
            free(text);
        }
    }
}

/* The portable kernel sums the one point of such an image otherwise than several: a band of it must not be told that it is part of more. */
static void transposed_convolutions_of_one_point(void **state) {
    (void)state;
    enum { CHANNELS = 24, FILTERS = 3, WINDOW = 8, LENGTH = 1 << 14 };
    char *text = malloc(LENGTH);
    uint64_t chance = 5;
    assert_non_null(text);
    size_t at = (size_t)snprintf(text, LENGTH, "module \"m\" {\n constant %%w: float32[%d,%d,4,2] = {",
                                 CHANNELS, FILTERS);
    for (int i = 0; i < CHANNELS * FILTERS * WINDOW; i++)
        at += (size_t)snprintf(text + at, LENGTH - at, "%s%.3f", i ? ", " : "",
                               (double)(int64_t)(support_random(&chance) % 2001) / 1000 - 1);
    snprintf(text + at, LENGTH - at,
             "}\n graph main(%%x: float32[1,%d,1,1]) {\n"
             " %%a: float32[1,%d,1,1] = Neg(%%x)\n"
             " %%b: float32[1,%d,2,2] = ConvTranspose(%%a, %%w) {dilations = [2, 1], pads = [3, 0, 2, 0], "
             "strides = [2, 1]}\n"
             " %%c: float32[1,%d,2,2] = AveragePool(%%b) {auto_pad = \"SAME_LOWER\", kernel_shape = [3, 1]}\n"
             " yield %%b, %%c } }\n",
             CHANNELS, CHANNELS, FILTERS, FILTERS);
    const pass_options whole = {.exact_arithmetic = true,
                                .environment = {.threads = 1, .portable_only = true}};
    for (int64_t height = 1; height <= 4; height++) {
        pass_options banded = whole;
        banded.band_rows = height;
        for (uint64_t seed = 1; seed <= 8; seed++)
            (void)run_both(text, CHANNELS * sizeof(float), &whole, &banded, seed);
    }
    free(text);
}

/* How many nodes of the plan have this operator. */
static size_t nodes_of(const char *text, const pass_options *options, op_code code) {
    support_session opened;
    support_session_open_with(&opened, text, options);
    const plan *of = rt_plan_of(opened.plan);
    size_t nodes = 0;
    for (uint64_t i = 0; i < of->header->nodes.count; i++) nodes += plan_node_code(of, &of->nodes[i]) == code;
    support_session_close(&opened);
    return nodes;
}

/* Where channels are shuffled or joined, they are not innermost: rows that are kept and rows that are new are read where they lie, on a machine with
 * AVX-512, by convolutions of each channel and by pools of blocks. All that is new may be kept, or less, or more than that. */
static void kept_rows_are_read_where_they_lie(void **state) {
    (void)state;
    size_t of_shuffled, of_joined;
    char *shuffled = support_network_of_shuffles(&of_shuffled),
         *joined = support_network_of_joins(&of_joined);
    const pass_options whole = {.exact_arithmetic = true, .environment = {.threads = 1}};
    const bool wide = rt_has_wide_vectors(&whole.environment);
    for (int64_t height = 1; height <= 5; height++) {
        pass_options banded = whole;
        banded.band_rows = height;
        (void)run_both_as(shuffled, of_shuffled, &whole, &banded, (uint64_t)height, true);
        (void)run_both(joined, of_joined, &whole, &banded, (uint64_t)height);
        assert_true((nodes_of(shuffled, &banded, OP_JOINED_CONV) > 0) == wide);
        assert_true((nodes_of(joined, &banded, OP_JOINED_MAX_POOL) > 0) == wide);
    }
    free(shuffled);
    free(joined);
}

/* oneDNN packs weights of dilated signals for all of a signal, and has nothing for a few of its points: such bands are none. */
static void bands_that_nothing_runs_are_none(void **state) {
    (void)state;
    enum { CHANNELS = 16, POINTS = 60, CAPACITY = 1 << 16 };
    char *text = malloc(CAPACITY);
    assert_non_null(text);
    size_t used = 0;
#define SAY(...) used += (size_t)snprintf(text + used, CAPACITY - used, __VA_ARGS__)
    SAY("module \"signal\" {\n constant %%zero: int64[1] = {0}\n constant %%cut: int64[1] = {-16}\n"
        " constant %%two: int64[1] = {2}\n constant %%last: int64[] = {-1}\n");
    for (int i = 0; i < 2; i++) {
        SAY(" constant %%w%d: float32[16,16,5] = {", i);
        for (int k = 0; k < CHANNELS * CHANNELS * 5; k++)
            SAY("%s%.2f", k ? ", " : "", 0.01 * (k * 7 % (19 + i) - 9));
        SAY("}\n");
    }
    SAY(" constant %%v: float32[16,16,1] = {");
    for (int k = 0; k < CHANNELS * CHANNELS; k++) SAY("%s%.2f", k ? ", " : "", 0.01 * (k * 5 % 23 - 11));
    SAY("}\n graph main(%%x: float32[1,16,60]) {\n");
    for (int i = 0; i < 2; i++) {
        SAY(" %%a%d: float32[1,16,76] = Conv(%%%s, %%w%d) {dilations = [4], pads = [16, 16]}\n", i,
            i ? "c0" : "x", i);
        SAY(" %%b%d: float32[1,16,60] = Slice(%%a%d, %%zero, %%cut, %%two)\n", i, i);
        SAY(" %%c%d: float32[1,16,60] = Relu(%%b%d)\n", i, i);
    }
    SAY(" %%d: float32[1,16,60] = Conv(%%x, %%v)\n %%e: float32[1,16,60] = Add(%%c1, %%d)\n"
        " %%f: float32[1,16,60] = Relu(%%e)\n %%g: float32[1,16] = Gather(%%f, %%last) {axis = 2}\n yield "
        "%%g } }\n");
#undef SAY
    const pass_options whole = {.exact_arithmetic = true, .environment = {.threads = 1}};
    pass_options least = whole;
    least.arena_limit = PASS_ARENA_LEAST;
    (void)run_both(text, CHANNELS * POINTS * sizeof(float), &whole, &least, 1);
    assert_true(arena_of_network(text, &least) <= arena_of_network(text, &whole));
    free(text);
}

int main(int count, char **arguments) {
    support_arguments(count, arguments);
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_networks),
                                       cmocka_unit_test(random_networks_in_blocks),
                                       cmocka_unit_test(random_networks_of_tokens),
                                       cmocka_unit_test(tokens_go_in_bands),
                                       cmocka_unit_test(transposed_convolutions_of_one_point),
                                       cmocka_unit_test(limits_below_the_bound_are_met),
                                       cmocka_unit_test(the_least_is_no_more_than_others),
                                       cmocka_unit_test(limits_are_met_by_planners_that_miss_the_bound),
                                       cmocka_unit_test(faster_kernels_count_as_time),
                                       cmocka_unit_test(bands_are_taken_where_they_cost_nothing),
                                       cmocka_unit_test(kernels_may_take_what_bands_leave),
                                       cmocka_unit_test(bands_that_save_little_are_not_made),
                                       cmocka_unit_test(the_search_learns),
                                       cmocka_unit_test(small_networks_begin_sooner),
                                       cmocka_unit_test(kept_rows_are_read_where_they_lie),
                                       cmocka_unit_test(bands_that_nothing_runs_are_none),
                                       cmocka_unit_test(bands_have_faster_kernels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
