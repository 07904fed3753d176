/* SPDX-License-Identifier: Apache-2.0 */
/* test_groups.c: nodes of large graphs that are drawn as one box: by their names, in loops too, and without names that help. */
#include "compiler/report/groups.h"
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

enum { TEXT = 128 << 10, LAYERS = 20, NODES = 6 * LAYERS };

static char text[TEXT];
static support_writer to;

/* Layers of six nodes, no two of them alike: "/net/layer.3/attention/a" and so on, or "node_17" where `flat`. */
static void add_layers(bool flat) {
    static const char *const parts[] = {"attention/a", "attention/b", "attention/c", "mlp/d", "mlp/e", "f"};
    for (int i = 0; i < LAYERS; i++) {
        char names[6][64];
        for (int k = 0; k < 6; k++) {
            if (flat) snprintf(names[k], sizeof names[k], "node_%d", 6 * i + k);
            else snprintf(names[k], sizeof names[k], "/net/layer.%d/%s", i, parts[k]);
        }
        support_write(&to, "    %%a%d: float32[4,4] = MatMul(%%x%d, %%w) \"%s\"\n", i, i, names[0]);
        support_write(&to, "    %%b%d: float32[4,4] = LeakyRelu(%%a%d) {alpha = 0.%d1} \"%s\"\n", i, i, i,
                      names[1]);
        support_write(&to, "    %%c%d: float32[4,4] = MatMul(%%b%d, %%a%d) \"%s\"\n", i, i, i, names[2]);
        support_write(&to, "    %%d%d: float32[4,4] = Softmax(%%c%d) {axis = 1} \"%s\"\n", i, i, names[3]);
        support_write(&to, "    %%e%d: float32[4,4] = MatMul(%%d%d, %%w) \"%s\"\n", i, i, names[4]);
        support_write(&to, "    %%x%d: float32[4,4] = Add(%%e%d, %%x%d) \"%s\"\n", i + 1, i, i, names[5]);
    }
}

/* The layers as they are, or as the body of a loop. */
static unsigned char *network(bool flat, bool loop, size_t *size) {
    to = support_writer_on(text, sizeof text);
    support_write(
        &to,
        "module \"layers\" {\n  constant %%w: float32[4,4] = {0.5, 0, 0, 0.25, 0, 0.5, 0, 0, 0, 0, 0.5, 0, "
        "0.125, 0, 0, 0.5}\n  constant %%n: int64[] = {3}\n");
    if (loop) {
        support_write(
            &to, "  graph main(%%x: float32[4,4]) {\n    %%y: float32[4,4] = Loop(%%n, _, %%x) \"loop\" {\n"
                 "    graph body(%%i: int64[], %%k: bool[], %%x0: float32[4,4]) {\n");
        add_layers(flat);
        support_write(&to, "    yield %%k, %%x%d\n    }\n    }\n    yield %%y\n  }\n}\n", LAYERS);
    } else {
        support_write(&to, "  graph main(%%x0: float32[4,4]) {\n");
        add_layers(flat);
        support_write(&to, "    yield %%x%d\n  }\n}\n", LAYERS);
    }
    return support_plan(text, true, size);
}

/* Each node is in one group of its graph; returns how many boxes there are. */
static size_t check_groups(const plan *of, const emit_folding *folding, const emit_groups *groups) {
    size_t boxes = 0, counted = 0, grouped = 0;
    for (uint32_t n = 0; n < of->header->nodes.count; n++) {
        if (folding->drawn[n] != n) continue;
        const uint32_t first = groups->first[n];
        assert_true(first <= n && groups->first[first] == first && groups->count[first] > 0);
        if (first != n) assert_int_equal(groups->count[n], 0);
        boxes += first == n;
        counted += groups->count[n];
        grouped++;
    }
    assert_int_equal(counted, grouped);
    return boxes;
}

static void expect(bool flat, bool loop, size_t least_boxes) {
    enum { MOST = 50, REMAINING = 30 };
    base_arena arena;
    emit_folding folding;
    emit_groups groups;
    ouro_plan *opened;
    size_t size;
    unsigned char *bytes = network(flat, loop, &size);
    assert_int_equal(ouro_plan_open(bytes, size, &opened, NULL), OURO_OK);
    base_arena_init(&arena, NULL);
    const plan *of = rt_plan_of(opened);
    assert_true(of->header->nodes.count >= NODES);
    assert_true(emit_fold(of, 60, &arena, &folding));
    assert_int_equal(folding.repeat_count, 0); /* nothing repeats: only names can help */
    assert_true(emit_group(of, &folding, MOST, REMAINING, &arena, &groups));
    const size_t boxes = check_groups(of, &folding, &groups);
    if (boxes > REMAINING + 2 || boxes < least_boxes) fail_msg("%zu boxes", boxes);
    assert_true(groups.groups > 0);
    /* What a layer's group has in common is the layer. */
    for (uint32_t n = 0; n < of->header->nodes.count && !flat; n++) {
        if (folding.drawn[n] != n || groups.count[groups.first[n]] < 2) continue;
        const char *name = of->texts + of->nodes[n].name,
                   *first = of->texts + of->nodes[groups.first[n]].name;
        assert_true(groups.name[groups.first[n]] >= strlen("/net/layer."));
        assert_memory_equal(name, first, groups.name[groups.first[n]]);
    }
    /* As many boxes as there are: nothing is grouped. */
    assert_true(emit_group(of, &folding, 2 * NODES, REMAINING, &arena, &groups));
    assert_int_equal(groups.groups, 0);
    ouro_plan_free(opened);
    free(bytes);
    base_arena_free(&arena);
}

static void layers_are_groups(void **state) {
    (void)state;
    expect(false, false, LAYERS);
}

static void bodies_of_loops_too(void **state) {
    (void)state;
    expect(false, true, LAYERS);
}

static void flat_names_go_by_order(void **state) {
    (void)state;
    expect(true, false, 10);
}

/* Every edge of the picture ends at boxes that are drawn, and the first lines of a group tell what it is. */
static void the_picture_has_no_loose_ends(void **state) {
    (void)state;
    const char *path = TEST_BINARY_DIR "/groups.dot";
    size_t size;
    unsigned char *bytes = network(false, true, &size);
    compile_result result = {0};
    base_report report = {0};
    if (plan_open(bytes, size, "plan", NULL, free, bytes, &result.plan, &report) != BASE_OK)
        fail_msg("%s", report.text);
    if (emit_dot(&result, path, 30, &report) != BASE_OK) fail_msg("%s", report.text);
    plan_close(&result.plan);
    char *dot = support_read_file(path, NULL);
    assert_non_null(strstr(dot, "peripheries=2"));
    assert_non_null(
        strstr(dot, "<B>/net/layer.3</B></FONT><BR/>6 nodes: 3 MatMul, LeakyRelu, Softmax,<BR/>Add<BR/>"));
    size_t edges = 0;
    for (const char *at = dot; (at = strstr(at, "-> n")); at++, edges++) {
        char box[32];
        snprintf(box, sizeof box, " n%lu [", strtoul(at + 4, NULL, 10));
        if (!strstr(dot, box)) fail_msg("an edge goes to%s which is not drawn", box);
    }
    assert_true(edges >= LAYERS && edges < 3 * LAYERS);
    free(dot);
    remove(path);
}

int main(int count, char **arguments) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_groups),
        cmocka_unit_test(bodies_of_loops_too),
        cmocka_unit_test(flat_names_go_by_order),
        cmocka_unit_test(the_picture_has_no_loose_ends),
    };
    support_arguments(count, arguments);
    return cmocka_run_group_tests_name("groups", tests, NULL, NULL);
}
