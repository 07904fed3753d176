/* SPDX-License-Identifier: Apache-2.0 */
/* test_states_by_name.c: which outputs the stars of --state pair with which inputs. */
#include "compiler/compiler.h"
#include "ir/loop.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define T "float32[2]"

/* A model with two inputs and two outputs, each input read by the output of the same number. */
static ir_module *module_of(const char *const *inputs, const char *const *outputs) {
    char text[4096];
    const int length =
        snprintf(text, sizeof text,
                 "module \"m\" {\n  graph main(%%\"%s\": " T ", %%\"%s\": " T ") at \"main\" {\n"
                 "    %%\"%s\": " T " = Neg(%%\"%s\")\n    %%\"%s\": " T " = Abs(%%\"%s\")\n"
                 "    yield %%\"%s\", %%\"%s\"\n  }\n}\n",
                 inputs[0], inputs[1], outputs[0], inputs[0], outputs[1], inputs[1], outputs[0], outputs[1]);
    assert_true(length > 0 && length < (int)sizeof text);
    return support_module(text, true);
}

typedef struct naming {
    const char *inputs[2], *outputs[2], *input, *output;
    uint32_t states; /* 0: refused */
} naming;

static const naming namings[] = {
    {{"past.0.key", "past.1.key"}, {"present.0.key", "present.1.key"}, "past.*", "present.*", 2},
    {{"past.0.key", "x"}, {"present.0.key", "y"}, "past.*.*", "present.*.*", 1},
    /* A star takes as little as can be, and more where what follows it is found only later. */
    {{"a.b.c.in", "x"}, {"a-b.c-out", "y"}, "*.*.in", "*-*-out", 1},
    {{"abab.in", "x"}, {"out.ab", "y"}, "*ab.in", "out.*", 1},
    {{"h", "c"}, {"hn", "cn"}, "h", "hn", 1},
    {{"h", "c"}, {"hn", "cn"}, "*", "*n", 2},
    {{"h", "c"}, {"hn", "cn"}, "*", "hn", 0},   /* not one to one */
    {{"h", "c"}, {"hn", "cn"}, "*", "*-*", 0},  /* stars that stand for nothing */
    {{"h", "c"}, {"hn", "cn"}, "g*", "g*", 0},  /* no such input */
    {{"h", "c"}, {"hn", "cn"}, "c*", "c*m", 0}, /* no such output */
};

static void stars_stand_for_the_same(void **unused) {
    (void)unused;
    for (size_t i = 0; i < sizeof namings / sizeof *namings; i++) {
        const naming *n = &namings[i];
        ir_module *module = module_of(n->inputs, n->outputs);
        base_arena arena;
        base_report report = {0};
        base_arena_init(&arena, NULL);
        const ouro_state_pair pair = {n->input, n->output};
        const base_status status = compile_carry_states(module, &pair, 1, &arena, &report);
        if (status != (n->states ? BASE_OK : BASE_USAGE))
            fail_msg("%s=%s: %s", n->input, n->output, report.text);
        assert_int_equal(ir_module_states(module), n->states);
        base_arena_free(&arena);
        ir_module_free(module);
    }
}

/* Many stars that each could stand for many texts: a name that does not match is found out at once. */
static void names_are_matched_at_once(void **unused) {
    (void)unused;
    char name[1000];
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = 0;
    const char *const inputs[] = {name, "x"}, *const outputs[] = {"y", "z"};
    ir_module *module = module_of(inputs, outputs);
    base_arena arena;
    base_report report = {0};
    base_arena_init(&arena, NULL);
    const ouro_state_pair pair = {"*a*a*a*a*a*a*ab", "*a*a*a*a*a*a*ab"};
    assert_int_equal(compile_carry_states(module, &pair, 1, &arena, &report), BASE_USAGE);
    base_arena_free(&arena);
    ir_module_free(module);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stars_stand_for_the_same),
        cmocka_unit_test(names_are_matched_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
