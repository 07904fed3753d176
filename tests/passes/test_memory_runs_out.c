/* SPDX-License-Identifier: Apache-2.0 */
/* test_memory_runs_out.c: one allocation of the passes fails, each in turn: the compile fails, too. Nobody goes on without memory and makes
 * another plan. A sample of the allocations; all where OURO_EVERY_ALLOCATION is set. */
#include "tests/support/plan.h"
#include "tests/support/programs_of_plans.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { SAMPLE = 60 };

/* All passes and the writing of the plan, where allocation `fail_at` of the passes fails (0: none); how many there were. The arena may be
 * no larger than `limit` (0: as it comes). */
static size_t compile_failing(const support_plan_program *program, size_t fail_at, size_t limit) {
    const pass_options options = {
        .max_unroll = 16, .arena_limit = limit, .environment = {.threads = 1, .portable_only = true}};
    support_allocator counting;
    base_report report = {0};
    base_arena arena;
    ir_module *module;
    pass_memory *memory;
    void *bytes = NULL;
    size_t size;
    support_allocator_init(&counting);
    counting.once = true;
    if (ir_parse(program->text, strlen(program->text), program->name, &counting.allocator, &module,
                 &report) != BASE_OK)
        fail_msg("%s", report.text);
    counting.count = 0;
    counting.fail_at = fail_at;
    base_arena_init(&arena, &counting.allocator);
    base_status status = pass_pipeline_run(module, &options, &arena, &memory, &report);
    const size_t count = counting.count;
    if (status == BASE_OK) status = compile_write_plan(module, memory, &options, &bytes, &size, &report);
    const bool failed = fail_at && count >= fail_at;
    if (failed ? status != BASE_SYSTEM_ERROR || !strstr(report.text, "out of memory") : status != BASE_OK)
        fail_msg("%s: allocation %zu of %zu: status %d, \"%s\"", program->name, fail_at, count, (int)status,
                 report.text);
    free(bytes);
    base_arena_free(&arena);
    ir_module_free(module);
    assert_int_equal(counting.live, 0);
    return count;
}

static void every_allocation_fails_once(void **state) {
    (void)state;
    for (size_t p = 0; p < SUPPORT_PLAN_PROGRAMS; p++) {
        const support_plan_program *program = &support_plan_programs[p];
        const size_t count = compile_failing(program, 0, 0),
                     step = getenv("OURO_EVERY_ALLOCATION") || count <= SAMPLE ? 1 : count / SAMPLE;
        print_message("%s: %zu allocations\n", program->name, count);
        assert_true(count > 0);
        for (size_t at = 1 + p % step; at <= count; at += step) (void)compile_failing(program, at, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_fails_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
