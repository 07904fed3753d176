/* SPDX-License-Identifier: Apache-2.0 */
/* test_memory_verify.c: the verifier of memory plans finds nothing between the passes, and each thing that is broken. */
#include "passes/loops/loops.h"
#include "passes/memory/memory.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

/* A Concat with a part that is copied, a branch, and a loop whose two states change places. */
static const char program[] = "module \"m\" {\n"
                              " constant %w: float32[1,8] = zeros\n"
                              " graph main(%x: float32[1,8], %y: float32[1,8], %go: bool[], %n: int64[]) {\n"
                              "  %a: float32[1,8] = Softmax(%x)\n"
                              "  %b: float32[1,16] = Concat(%x, %a) {axis = 1}\n"
                              "  %c: float32[1,16] = Softmax(%b)\n"
                              "  %p: float32[1,8] = If(%go) {\n"
                              "   graph then() { %t: float32[1,8] = Relu(%a) yield %t }\n"
                              "   graph else() { %u: float32[1,8] = Softmax(%y) yield %u } }\n"
                              "  %q: float32[1,8], %r: float32[1,8] = Loop(%n, _, %p, %a) {\n"
                              "   graph body(%i: int64[], %k: bool[], %f: float32[1,8], %g: float32[1,8]) {\n"
                              "    %h: float32[1,8] = Softmax(%f)\n"
                              "    yield %k, %g, %h } }\n"
                              "  %s: float32[1,8] = Add(%q, %r)\n"
                              "  %z: float32[1,8] = Add(%s, %w)\n"
                              "  yield %z, %c } }\n";

typedef struct planned {
    ir_module *module;
    base_arena arena, scratch;
    base_report report;
    pass_options options;
    pass_context context;
} planned;

static const struct step {
    const char *name;
    pass_function *run;
} steps[] = {{"prepare-results", pass_prepare_results},
             {"join-aliases", pass_join_aliases},
             {"reserve-growth", pass_reserve_growth},
             {"reserve-bounds", pass_reserve_bounds},
             {"schedule", pass_schedule},
             {"choose-in-place", pass_choose_in_place},
             {"analyse-loops", pass_analyse_loops},
             {"analyse-liveness", pass_analyse_liveness},
             {"allocate", pass_allocate}};
enum { STEPS = sizeof steps / sizeof *steps };

static void plan_program(planned *p) {
    *p = (planned){.module = support_module(program, true)};
    base_arena_init(&p->arena, NULL);
    base_arena_init(&p->scratch, NULL);
    p->options = (pass_options){.allocator = "nnc", .environment = {.threads = 1, .portable_only = true}};
    p->context = (pass_context){.module = p->module,
                                .options = &p->options,
                                .scratch = &p->scratch,
                                .memory_arena = &p->arena,
                                .report = &p->report};
    for (size_t i = 0; i < STEPS; i++) {
        if (steps[i].run(&p->context) != BASE_OK) fail_msg("%s: %s", steps[i].name, p->report.text);
        if (p->context.memory &&
            pass_memory_verify(p->context.memory, p->module, steps[i].name, &p->report) != BASE_OK)
            fail_msg("%s", p->report.text);
    }
}

static void release(planned *p) {
    base_arena_free(&p->scratch);
    base_arena_free(&p->arena);
    ir_module_free(p->module);
}

static const ir_value *value_of(const planned *p, const char *name) {
    for (size_t i = 1; i < p->module->value_count; i++)
        if (p->module->values[i] && strcmp(p->module->values[i]->name, name) == 0)
            return p->module->values[i];
    fail_msg("no value %s", name);
    return NULL;
}

static pass_storage *storage_of(const planned *p, const char *name) {
    return pass_memory_storage(p->context.memory,
                               pass_memory_location(p->context.memory, value_of(p, name)).storage);
}

/* ---- one fault each --------------------------------------------------------------------------------------- */

static void part_of_nothing(const planned *p) {
    storage_of(p, "c")->part_of.index = (uint32_t)p->context.memory->storage_count;
}
static void part_of_itself(const planned *p) {
    pass_storage *storage = storage_of(p, "b");
    storage->part_of.index = (uint32_t)(storage - p->context.memory->storages);
}
static void no_such_output(const planned *p) {
    storage_of(p, "z")->index = 7;
}
static void too_small(const planned *p) {
    storage_of(p, "b")->bytes = 32;
}
static void not_a_constant(const planned *p) {
    storage_of(p, "w")->space = MEMORY_INPUT;
    storage_of(p, "w")->index = 0;
}
static void made_in_an_input(const planned *p) {
    storage_of(p, "c")->space = MEMORY_INPUT;
    storage_of(p, "c")->index = 0;
}
static void not_listed(const planned *p) {
    storage_of(p, "c")->values.index = 0;
}
static void listed_twice(const planned *p) {
    pass_memory *memory = p->context.memory;
    memory->siblings[value_of(p, "c")->id.index] = value_of(p, "b")->id;
}
static void no_alias(const planned *p) {
    p->context.memory->executions[value_of(p, "c")->node->id.index] = PASS_ALIAS;
}
static void no_entries(const planned *p) {
    p->context.memory->multiviews[1].repeat = 0;
}
static void entry_nowhere(const planned *p) {
    p->context.memory->multiviews[1].entries[0].storage.index = 0;
}
static void other_order(const planned *p) {
    ir_node **nodes = p->context.memory->order.nodes[p->module->main->id.index], *first = nodes[0];
    nodes[0] = nodes[1];
    nodes[1] = first;
}
static void lives_too_long(const planned *p) {
    storage_of(p, "b")->last = 100;
}
static void not_rounded(const planned *p) {
    storage_of(p, "b")->bytes += 4;
}
static void beyond_its_region(const planned *p) {
    storage_of(p, "b")->offset = 1 << 20;
}

static const struct fault {
    void (*make)(const planned *p);
    const char *message;
} faults[] = {
    {part_of_nothing, "which is not there"},
    {part_of_itself, "is part of itself"},
    {no_such_output, "in its memory space"},
    {too_small, "does not lie within storage"},
    {not_a_constant, "does not lie in the constants"},
    {made_in_an_input, "nobody may write"},
    {not_listed, "is in no storage's list"},
    {listed_twice, "or twice"},
    {no_alias, "is said to be an alias"},
    {no_entries, "or no entries"},
    {entry_nowhere, "lies nowhere"},
    {other_order, "is not that of the module"},
    {lives_too_long, "is live in steps"},
    {not_rounded, "which are not rounded up"},
    {beyond_its_region, "does not lie within its region"},
};

static void plans_between_passes_are_right(void **state) {
    (void)state;
    planned p;
    plan_program(&p);
    assert_true(p.context.memory->multiview_count > 1);
    release(&p);
}

static void faults_are_found(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        planned p;
        plan_program(&p);
        faults[i].make(&p);
        if (pass_memory_verify(p.context.memory, p.module, "a fault", &p.report) == BASE_OK)
            fail_msg("fault %zu (%s) is not found", i, faults[i].message);
        if (!strstr(p.report.text, faults[i].message) || !strstr(p.report.text, "after a fault"))
            fail_msg("fault %zu: expected \"%s\", not: %s", i, faults[i].message, p.report.text);
        release(&p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_between_passes_are_right),
        cmocka_unit_test(faults_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
