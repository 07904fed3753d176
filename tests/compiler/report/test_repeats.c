/* SPDX-License-Identifier: Apache-2.0 */
/* test_repeats.c: blocks that stand several times in a row are found and drawn once; what differs is not taken for the same. */
#include "compiler/report/repeats.h"
#include "compiler/report/report.h"
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include "tests/support/writer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { TEXT = 64 << 10 };

/* `layers` layers of three products, each a softmax and a sum with what came in; each has an output of its own. In layer `odd` an axis
 * is another one. */
static unsigned char *network(int layers, int odd, size_t *size) {
    static char text[TEXT];
    support_writer to = support_writer_on(text, sizeof text);
    support_write(
        &to,
        "module \"layers\" {\n  constant %%w: float32[4,4] = {0.5, 0, 0, 0.25, 0, 0.5, 0, 0, 0, 0, 0.5, 0, "
        "0.125, 0, 0, 0.5}\n  graph main(%%x0: float32[4,4]) {\n");
    for (int i = 0; i < layers; i++) {
        support_write(&to, "    %%a%d: float32[4,4] = MatMul(%%x%d, %%w) \"/layer.%d/a\"\n", i, i, i);
        support_write(&to, "    %%b%d: float32[4,4] = Softmax(%%a%d) {axis = %d} \"/layer.%d/b\"\n", i, i,
                      i == odd ? 0 : 1, i);
        support_write(&to, "    %%c%d: float32[4,4] = MatMul(%%b%d, %%a%d) \"/layer.%d/c\"\n", i, i, i, i);
        support_write(&to, "    %%d%d: float32[4,4] = Softmax(%%c%d) {axis = 0} \"/layer.%d/d\"\n", i, i, i);
        support_write(&to, "    %%e%d: float32[4,4] = MatMul(%%d%d, %%w) \"/layer.%d/e\"\n", i, i, i);
        support_write(&to, "    %%x%d: float32[4,4] = Add(%%e%d, %%x%d) \"/layer.%d/f\"\n", i + 1, i, i, i);
    }
    support_write(&to, "    yield %%x%d", layers);
    for (int i = 0; i < layers; i++) support_write(&to, ", %%c%d", i);
    support_write(&to, "\n  }\n}\n");
    return support_plan(text, true, size);
}

static void fold(int layers, int odd, size_t most, emit_folding *folding, base_arena *arena,
                 ouro_plan **opened, unsigned char **bytes) {
    size_t size;
    *bytes = network(layers, odd, &size);
    assert_int_equal(ouro_plan_open(*bytes, size, opened, NULL), OURO_OK);
    assert_true(emit_fold(rt_plan_of(*opened), most, arena, folding));
}

static void layers_are_one_block(void **state) {
    (void)state;
    base_arena arena;
    emit_folding folding;
    ouro_plan *opened;
    unsigned char *bytes;
    base_arena_init(&arena, NULL);
    fold(12, -1, 60, &folding, &arena, &opened, &bytes);
    const plan *of = rt_plan_of(opened);
    assert_int_equal(folding.repeat_count, 1);
    assert_int_equal(folding.repeats[0].count, 12);
    assert_int_equal(folding.repeats[0].period * 12, of->header->nodes.count);
    for (uint32_t n = 0; n < of->header->nodes.count; n++)
        assert_int_equal(folding.drawn[n], n % folding.repeats[0].period);
    /* One output stands for those of all layers; the input is one. */
    size_t drawn = 0;
    for (uint64_t i = 0; i < of->header->outputs.count; i++)
        drawn += folding.times[of->outputs[i].tensor] != 0;
    assert_int_equal(drawn, 2);
    assert_int_equal(folding.times[of->outputs[1].tensor], 12);
    assert_int_equal(folding.times[of->inputs[0].tensor], 1);
    char prefix[32];
    snprintf(prefix, sizeof prefix, "%.*s", (int)emit_fold_prefix(of, &folding.repeats[0]),
             of->texts + of->nodes[0].name);
    assert_string_equal(prefix, "/layer.0/");
    assert_non_null(emit_fold_find(&folding, 0));
    assert_null(emit_fold_find(&folding, folding.repeats[0].period));
    ouro_plan_free(opened);
    free(bytes);
    base_arena_free(&arena);
}

static void another_attribute_is_another_block(void **state) {
    (void)state;
    base_arena arena;
    emit_folding folding;
    ouro_plan *opened;
    unsigned char *bytes;
    base_arena_init(&arena, NULL);
    fold(12, 5, 60, &folding, &arena, &opened, &bytes);
    assert_int_equal(folding.repeat_count, 2);
    assert_int_equal(folding.repeats[0].count + folding.repeats[1].count, 11);
    const uint32_t end = folding.repeats[0].first + folding.repeats[0].period * folding.repeats[0].count;
    assert_true(end < folding.repeats[1].first);
    ouro_plan_free(opened);
    free(bytes);
    base_arena_free(&arena);
}

static void small_graphs_are_drawn_whole(void **state) {
    (void)state;
    base_arena arena;
    emit_folding folding;
    ouro_plan *opened;
    unsigned char *bytes;
    base_arena_init(&arena, NULL);
    fold(6, -1, 60, &folding, &arena, &opened, &bytes);
    assert_int_equal(folding.repeat_count, 0);
    ouro_plan_free(opened);
    free(bytes);
    base_arena_free(&arena);
}

static void the_picture_says_how_often(void **state) {
    (void)state;
    const char *path = TEST_BINARY_DIR "/repeats.dot";
    size_t size;
    unsigned char *bytes = network(12, -1, &size);
    compile_result result = {0};
    base_report report = {0};
    if (plan_open(bytes, size, "plan", NULL, free, bytes, &result.plan, &report) != BASE_OK)
        fail_msg("%s", report.text);
    if (emit_dot(&result, path, 0, &report) != BASE_OK) fail_msg("%s", report.text);
    plan_close(&result.plan);
    char *dot = support_read_file(path, NULL);
    support_expect_golden("compiler/report/cases/repeats.dot", dot);
    free(dot);
    remove(path);
}

int main(int count, char **arguments) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_one_block),
        cmocka_unit_test(another_attribute_is_another_block),
        cmocka_unit_test(small_graphs_are_drawn_whole),
        cmocka_unit_test(the_picture_says_how_often),
    };
    support_arguments(count, arguments);
    return cmocka_run_group_tests_name("repeats", tests, NULL, NULL);
}
