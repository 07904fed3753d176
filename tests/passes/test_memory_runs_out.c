/* SPDX-License-Identifier: Apache-2.0 */
/* test_memory_runs_out.c: one allocation of the passes fails, each in turn: the compile fails, too. Nobody goes on without memory and makes
 * another plan. Small modules of all kinds, the cases of the passes, networks in bands of rows under a limit of the arena. A sample of
 * the allocations; all where OURO_EVERY_ALLOCATION is set. */
#include "tests/support/networks.h"
#include "tests/support/plan.h"
#include "tests/support/programs_of_plans.h"
#include "tests/support/support.h"
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { SAMPLE = 60, FEWER = 20 /* where a compile takes longer, or the modules have been tried otherwise */ };

/* All passes and the writing of the plan, where allocation `fail_at` of the passes fails (0: none); how many there were. */
static size_t compile_failing(const char *name, const char *text, const pass_options *options,
                              size_t fail_at) {
    support_allocator counting;
    base_report report = {0};
    base_arena arena;
    ir_module *module;
    pass_memory *memory;
    void *bytes = NULL;
    size_t size;
    support_allocator_init(&counting);
    counting.once = true;
    if (ir_parse(text, strlen(text), name, &counting.allocator, &module, &report) != BASE_OK)
        fail_msg("%s", report.text);
    counting.count = 0;
    counting.fail_at = fail_at;
    base_arena_init(&arena, &counting.allocator);
    base_status status = pass_pipeline_run(module, options, &arena, &memory, &report);
    const size_t count = counting.count;
    if (status == BASE_OK) status = compile_write_plan(module, memory, options, &bytes, &size, &report);
    const bool failed = fail_at && count >= fail_at;
    if (failed ? status != BASE_SYSTEM_ERROR || !strstr(report.text, "out of memory") : status != BASE_OK)
        fail_msg("%s: allocation %zu of %zu: status %d, \"%s\"", name, fail_at, count, (int)status,
                 report.text);
    free(bytes);
    base_arena_free(&arena);
    ir_module_free(module);
    assert_int_equal(counting.live, 0);
    return count;
}

static void sweep(const char *name, const char *text, const pass_options *options, size_t first,
                  size_t sample) {
    const size_t count = compile_failing(name, text, options, 0),
                 step = support_allocation_step(count, sample);
    print_message("%s: %zu allocations\n", name, count);
    assert_true(count > 0);
    for (size_t at = 1 + first % step; at <= count; at += step)
        (void)compile_failing(name, text, options, at);
}

static const pass_options plain = {.max_unroll = 16, .environment = {.threads = 1, .portable_only = true}};

static void every_allocation_fails_once(void **state) {
    (void)state;
    for (size_t p = 0; p < SUPPORT_PLAN_PROGRAMS; p++)
        sweep(support_plan_programs[p].name, support_plan_programs[p].text, &plain, p, SAMPLE);
}

/* The same with other options: what is spilled, caches and weights in few bits, everything by rows. */
static void under_other_options(void **state) {
    (void)state;
    static const pass_options others[] = {
        {.arena_limit = PASS_ARENA_LEAST,
         .spill_path = "file",
         .environment = {.threads = 1, .portable_only = true}},
        {.weight_type = OP_FLOAT16,
         .state_type = OP_BFLOAT16,
         .environment = {.threads = 2, .portable_only = true}},
        {.weight_bits = 4, .state_type = OP_FLOAT16, .environment = {.threads = 1, .portable_only = true}},
        {.cached_weight_bytes = 1, .environment = {.threads = 1}},
        {.arena_limit = PASS_ARENA_LEAST,
         .band_rows = 2,
         .environment = {.threads = 1, .portable_only = true}},
    };
    for (size_t p = 0; p < SUPPORT_PLAN_PROGRAMS; p++)
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            sweep(support_plan_programs[p].name, support_plan_programs[p].text, &others[i], p + i, FEWER);
}

/* What the passes have cases for; kernels of oneDNN where the build has them, weights in eight bits. */
static void in_the_cases_of_the_passes(void **state) {
    (void)state;
    const pass_options options = {
        .max_unroll = 4, .weight_bits = 8, .state_type = OP_FLOAT16, .environment = {.threads = 2}};
    glob_t found;
    size_t tried = 0;
    assert_int_equal(glob(TEST_SOURCE_DIR "/tests/passes/*/cases/*.ir", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *path = found.gl_pathv[i];
        if (strstr(path, ".after.ir")) continue;
        char *text = support_read_file(path, NULL);
        sweep(strrchr(path, '/') + 1, text, &options, i, SAMPLE);
        free(text);
        tried++;
    }
    assert_true(tried > 20);
    globfree(&found);
}

/* The arena is to be as small as it can be: bands, values computed again, orders. */
static void under_a_limit_of_the_arena(void **state) {
    (void)state;
    enum { NETWORKS = 4 };
    for (int i = 0; i < 3 * NETWORKS; i++) {
        size_t bytes;
        char name[32];
        char *text = i % 3 == 0   ? support_network_of_maps((uint64_t)i, i % 2 ? 1 : 8, &bytes)
                     : i % 3 == 1 ? support_network_of_tokens((uint64_t)i, &bytes)
                                  : support_network_of_a_layer(8 * (i + 2));
        if (!text) continue;
        const pass_options options = {.arena_limit = PASS_ARENA_LEAST,
                                      .exact_arithmetic = i % 2,
                                      .band_rows = i / 3 % 2 ? 2 : 0,
                                      .environment = {.threads = 1, .portable_only = true}};
        (void)snprintf(name, sizeof name, "network %d", i);
        sweep(name, text, &options, (size_t)i, FEWER);
        free(text);
    }
}

/* The same where values are spilled. */
static void while_values_are_spilled(void **state) {
    (void)state;
#define M "float32[8,8]"
    static const char text[] =
        "module \"back\" { graph main(%x: " M ", %w: " M ") { %a: " M " = MatMul(%x, %w) %b: " M
        " = MatMul(%a, %w)\n %c: " M " = MatMul(%b, %w) %d: " M " = MatMul(%c, %b) %e: " M
        " = MatMul(%d, %a) yield %e } }\n";
    const pass_options options = {.max_unroll = 16,
                                  .arena_limit = PASS_ARENA_LEAST,
                                  .spill_path = "file",
                                  .environment = {.threads = 1, .portable_only = true}};
    sweep("a way back", text, &options, 0, SAMPLE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_fails_once), cmocka_unit_test(under_other_options),
        cmocka_unit_test(in_the_cases_of_the_passes), cmocka_unit_test(under_a_limit_of_the_arena),
        cmocka_unit_test(while_values_are_spilled)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
