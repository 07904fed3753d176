/* SPDX-License-Identifier: Apache-2.0 */
/* test_map.c: pictures of memory: loops with their iterations, places that change hands, the page that stands alone. */
#include "compiler/ouro_compiler.h"
#include "compiler/report/report.h"
#include "models/builder.h"
#include "models/models.h"
#include "tests/support/command.h"
#include "tests/support/plan.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* The picture of a model with a state or without, in the form that the name's ending says. */
static char *draw_with(model *m, const char *name, const ouro_state_pair *state) {
    char path[512], onnx[512];
    snprintf(path, sizeof path, "%s/%s", TEST_BINARY_DIR, name);
    snprintf(onnx, sizeof onnx, "%s/test_map.onnx", TEST_BINARY_DIR);
    assert_int_equal(model_write(m, onnx), 0);
    model_free(m);
    ouro_error error;
    const ouro_compile_options options = {.model_path = onnx,
                                          .memory_map_path = path,
                                          .dot_path = TEST_BINARY_DIR "/test_map.dot",
                                          .states = state,
                                          .state_count = state != NULL};
    if (ouro_compile(&options, &error) != OURO_OK) fail_msg("%s", error.message);
    char *text = command_file(TEST_BINARY_DIR, name, NULL);
    assert_non_null(text);
    remove(path);
    remove(onnx);
    return text;
}

static char *draw(model *m, const char *name) {
    return draw_with(m, name, NULL);
}

static size_t count(const char *text, const char *part) {
    size_t found = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part)) found++;
    return found;
}

/* (left, right) <= (right, left + right), entered from the caller's inputs, made in the caller's outputs: two iterations that
 * begin it, a period of two, and the first of the next one; then what is left. */
static void test_swap(void **state) {
    (void)state;
    char *svg = draw(model_swap(), "swap.svg");
    const char *reason;
    if (!command_xml_check(svg, &reason)) fail_msg("not well-formed: %.80s", reason);
    assert_int_equal(count(svg, "swap: addresses repeat after 2</text>"), 1);
    static const char *const iterations[] = {">0, entry</text>", ">1</text>",       ">2</text>",
                                             ">3</text>",        ">4, as 2</text>", ">exit</text>"};
    for (size_t i = 0; i < sizeof iterations / sizeof *iterations; i++)
        if (!strstr(svg, iterations[i])) fail_msg("no iteration '%s'", iterations[i]);
    static const char *const bands[] = {">input a</text>", ">input b</text>", ">output x</text>",
                                        ">output y</text>"};
    for (size_t i = 0; i < sizeof bands / sizeof *bands; i++) assert_int_equal(count(svg, bands[i]), 1);
    /* left is read from a, then from b, then where the sum was made two iterations ago, which is written over it. */
    assert_non_null(strstr(svg, "<title>left\niteration 0 of &quot;swap&quot;\n262144 bytes"));
    assert_non_null(strstr(svg, "<title>left\niteration 1 of &quot;swap&quot;\n262144 bytes"));
    assert_int_equal(count(svg, ">left \xE2\x86\x92 sum<"), 3);
    assert_non_null(strstr(svg, "class=\"area\""));
    free(svg);
}

/* Loops in loops: the inner one's iterations stand within each of the outer one's. */
static void test_nested(void **state) {
    (void)state;
    char *svg = draw(model_nested(), "nested.svg");
    assert_int_equal(count(svg, "inner: addresses repeat after 2</text>"), 3);
    assert_non_null(strstr(svg, "iteration 2 of &quot;inner&quot;, iteration 1 of &quot;loop&quot;"));
    free(svg);
}

/* What only a run can size is told, not left out in silence. */
static void test_unsized(void **state) {
    (void)state;
    char *svg = draw(model_greedy_decoding(), "unsized.svg");
    assert_non_null(strstr(svg, "sized at run time, not drawn</text>"));
    free(svg);
}

/* A model with a state: runs stand side by side, until the state comes round, and it is drawn above the arena. */
static void test_runs(void **state) {
    (void)state;
    static const int64_t dims[] = {32, 32};
    static const ouro_state_pair pair = {"h", "y"};
    model *m = model_new("runs", 17);
    const char *h = graph_input(m->graph, "h", MODEL_FLOAT, 2, dims),
               *x = graph_input(m->graph, "x", MODEL_FLOAT, 2, dims);
    const char *t = unary(m->graph, "Exp", x);
    node_outputs(m->graph, "MatMul", "product", 2, (const char *[]){h, t}, 1, (const char *[]){"y"});
    const char *o = unary(m->graph, "Neg", "y");
    graph_output(m->graph, "y", MODEL_FLOAT, 2, dims);
    graph_output(m->graph, o, MODEL_FLOAT, 2, dims);
    char *svg = draw_with(m, "runs.svg", &pair);
    const char *reason;
    if (!command_xml_check(svg, &reason)) fail_msg("not well-formed: %.80s", reason);
    static const char *const runs[] = {">run 0</text>", ">run 1</text>", ">2, as 0</text>", ">states</text>"};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) assert_int_equal(count(svg, runs[i]), 1);
    assert_null(strstr(svg, ">exit</text>"));
    assert_int_equal(count(svg, "kept from run to run, offset 0"), 3); /* y, h, y */
    assert_int_equal(count(svg, "kept from run to run, offset 4096"), 3);
    free(svg);
    /* The picture of the graph: the state is no input and no output, and goes around. */
    char *dot = command_file(TEST_BINARY_DIR, "test_map.dot", NULL);
    assert_int_equal(count(dot, "label=<state <B>h</B>"), 1);
    assert_int_equal(count(dot, "label=<state <B>y</B>"), 1);
    assert_int_equal(count(dot, "label=<input <B>x</B>"), 1);
    assert_int_equal(count(dot, "label=<output <B>"), 1);
    assert_int_equal(count(dot, "label=<h &lt;= y> edgetooltip=\"carried\""), 1);
    free(dot);
}

/* The picture of a plan that was compiled some time, on whatever machine. */
static char *draw_plan(model *m, const char *name) {
    char path[512], onnx[512], plan_path[512];
    snprintf(path, sizeof path, "%s/%s", TEST_BINARY_DIR, name);
    snprintf(onnx, sizeof onnx, "%s/test_map_plan.onnx", TEST_BINARY_DIR);
    snprintf(plan_path, sizeof plan_path, "%s/test_map.plan", TEST_BINARY_DIR);
    assert_int_equal(model_write(m, onnx), 0);
    model_free(m);
    ouro_error error;
    ouro_plan *opened;
    base_report report = {0};
    const ouro_compile_options options = {.model_path = onnx, .plan_path = plan_path, .portable = true};
    if (ouro_compile(&options, &error) != OURO_OK) fail_msg("%s", error.message);
    if (ouro_plan_load(plan_path, &opened, &error) != OURO_OK) fail_msg("%s", error.message);
    if (emit_plan_map(rt_plan_of(opened), path, &report) != BASE_OK) fail_msg("%s", report.text);
    ouro_plan_free(opened);
    char *text = command_file(TEST_BINARY_DIR, name, NULL);
    assert_non_null(text);
    remove(path);
    remove(onnx);
    remove(plan_path);
    return text;
}

/* From the plan alone: iterations side by side, the values where the tables say, the caller's buffers above the arena. */
static void test_plan(void **state) {
    (void)state;
    char *svg = draw_plan(model_nested(), "plan.svg");
    const char *reason;
    if (!command_xml_check(svg, &reason)) fail_msg("not well-formed: %.80s", reason);
    assert_int_equal(count(svg, "<title>inner: addresses repeat after 2</title>"), 3);
    assert_int_equal(
        count(svg, "<title>loop: each value keeps its address, but for the first iterations</title>"), 1);
    assert_non_null(strstr(svg, "<title>next_s\niteration 2 of Loop inner\niteration 1 of Loop loop\n"));
    assert_int_equal(count(svg, ">input x0</text>"), 1);
    assert_non_null(strstr(svg, "one of the buffers that change hands in Loop"));
    assert_non_null(strstr(svg, "scratch of MatMul"));
    free(svg);
    /* Both parameters of a swap, in the caller's inputs and outputs by turns. */
    svg = draw_plan(model_swap(), "plan_swap.svg");
    assert_int_equal(count(svg, "<title>swap: addresses repeat after 2</title>"), 1);
    static const char *const bands[] = {">input a</text>", ">input b</text>", ">output x</text>",
                                        ">output y</text>"};
    for (size_t i = 0; i < sizeof bands / sizeof *bands; i++) assert_int_equal(count(svg, bands[i]), 1);
    assert_int_equal(count(svg, "<title>left\niteration "), 5);
    free(svg);
    /* What made a tensor and what reads it, as the page tells. */
    char *page = draw_plan(model_greedy_decoding(), "plan.html");
    assert_non_null(strstr(page, "made by MatMul"));
    assert_non_null(strstr(page, "steps 0 to "));
    free(page);
}

/* A chain of matrix products, between whose rows of `widths[i]` elements stands a Softmax. */
static model *product_chain(size_t count, const int64_t *widths) {
    model *m = model_new("chain", 17);
    const char *x = graph_input(m->graph, "x", MODEL_FLOAT, 2, (const int64_t[]){4, widths[0]});
    for (size_t i = 0; i < count; i++) {
        const int64_t dims[] = {widths[i], widths[i + 1]};
        char name[24];
        snprintf(name, sizeof name, "w%zu", i);
        const char *w = weight(m->graph, name, 2, dims, dims[0]);
        x = binary(m->graph, "MatMul", x, w);
        x = unary(m->graph, "Softmax", x);
    }
    graph_output(m->graph, x, MODEL_FLOAT, 2, (const int64_t[]){4, widths[count]});
    return m;
}

enum { LAYERS = 150 };

/* Layers that use the same addresses are drawn once, the first and the last one apart: they have the caller's memory. The page has all of
 * them: it zooms. */
static void test_repeated(void **state) {
    (void)state;
    int64_t widths[LAYERS + 1];
    for (size_t i = 0; i <= LAYERS; i++) widths[i] = 32;
    char *svg = draw(product_chain(LAYERS, widths), "repeated.svg");
    const char *reason;
    if (!command_xml_check(svg, &reason)) fail_msg("not well-formed: %.80s", reason);
    assert_int_equal(count(svg, "which use the same addresses</title>"), 1);
    assert_int_equal(count(svg, "\xC3\x97</text>"), 1);
    assert_non_null(strstr(svg, "of them in blocks that repeat, drawn once</text>"));
    assert_true(count(svg, "made by ") <= 12);
    assert_int_equal(count(svg, ">step</text>"), 1);
    free(svg);
    char *page = draw(product_chain(LAYERS, widths), "repeated.html");
    assert_true(count(page, "float32[4,32]") >= LAYERS - 1); /* the last one is the caller's */
    free(page);
}

/* Steps without a pattern are drawn in rows: each has its axis, and shows as many steps as can be read. */
static void test_rows(void **state) {
    (void)state;
    int64_t widths[LAYERS + 1];
    unsigned seed = 1;
    for (size_t i = 0; i <= LAYERS; i++) {
        seed = seed * 1664525U + 1013904223U;
        widths[i] = 16 + (int64_t)(seed >> 20) % 400;
    }
    char *svg = draw(product_chain(LAYERS, widths), "rows.svg");
    const char *reason;
    if (!command_xml_check(svg, &reason)) fail_msg("not well-formed: %.80s", reason);
    assert_null(strstr(svg, "these "));
    assert_int_equal(count(svg, ">step</text>"), 2);
    assert_int_equal(count(svg, ">peak<"), 2);
    assert_true(count(svg, "class=\"op\"") >= 2 * LAYERS); /* no name is left out */
    free(svg);
}

/* The data of the page are JSON, and nothing is loaded from elsewhere. */
static void test_page(void **state) {
    (void)state;
    char *page = draw(model_attention_decoding(), "page.html");
    static const char *const start = "<script id=\"data\" type=\"application/json\">";
    char *data = strstr(page, start);
    assert_non_null(data);
    data += strlen(start);
    char *end = strstr(data, "</script>");
    assert_non_null(end);
    assert_null(strstr(page, "http"));
    *end = 0;
    assert_true(command_json_check(data));
    assert_non_null(strstr(data, "\"all_keys\""));
    assert_null(strchr(data, '<'));
    free(page);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_swap),     cmocka_unit_test(test_nested), cmocka_unit_test(test_unsized),
        cmocka_unit_test(test_runs),     cmocka_unit_test(test_plan),   cmocka_unit_test(test_page),
        cmocka_unit_test(test_repeated), cmocka_unit_test(test_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
