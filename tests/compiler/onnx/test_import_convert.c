/* SPDX-License-Identifier: Apache-2.0 */
/* test_import_convert.c: what import makes of each operator whose form has changed over the opsets: text in
 * (a line of tests/support/conversions.c), text out (cases/convert.ir). */
#include "compiler/onnx/import.h"
#include "tests/support/conversions.h"
#include "tests/support/support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/* Imports model.onnx, checks it and prints it after a title; where nodes own graphs also while memory runs out, which
 * test_import_spoiled.c does with the others. */
static void import_to(FILE *file, onnx *o, const char *title, bool owns_graphs) {
    static base_report report;
    ir_module *module;
    base_report_clear(&report);
    onnx_write(o, "model.onnx");
    if (import_model("model.onnx", NULL, 0, NULL, &module, &report) != BASE_OK)
        fail_msg("%s: %s", title, report.text);
    if (ir_verify(module, "imported", &report) != BASE_OK) fail_msg("%s: %s", title, report.text);
    if (owns_graphs) assert_true(onnx_import_without_memory("model.onnx", NULL, 0) > 0);
    char *text = support_print(module, false);
    fprintf(file, "# %s\n%s\n", title, text);
    free(text);
    ir_module_free(module);
    unlink("model.onnx");
    onnx_free(o);
}

static void convert_to(FILE *file, const support_conversion *c) {
    char title[300];
    snprintf(title, sizeof title, "%s-%lld(%s) %s", c->op, (long long)c->opset, c->inputs, c->attributes);
    import_to(file, support_conversion_model(c), title, false);
}

static void test_conversions(void **state) {
    (void)state;
    for (size_t l = 0; l < SUPPORT_CONVERSION_LISTS; l++) {
        const support_conversion_list *list = &support_conversions[l];
        char *text, golden[80];
        size_t length;
        FILE *file = open_memstream(&text, &length);
        for (size_t i = 0; i < list->count; i++) convert_to(file, &list->rows[i]);
        fclose(file);
        snprintf(golden, sizeof golden, "compiler/onnx/cases/%s.ir", list->name);
        support_expect_golden(golden, text);
        free(text);
    }
}

/* ---- nodes that own graphs ----------------------------------------------------------------------------- */

static onnx *make_if(void) {
    onnx *o = onnx_new(13);
    onnx_input(o, o->graph, "c", 9, "");
    onnx_input(o, o->graph, "x", 1, "2");
    Onnx__GraphProto *then_graph = onnx_graph(o, "then"), *else_graph = onnx_graph(o, "else");
    onnx_node(o, then_graph, "Neg", "negate", "x", "r"); /* captures x */
    onnx_output(o, then_graph, "r");
    onnx_floats(o, else_graph, "r", 2,
                (float[]){1, 2}); /* the same name in the sibling; an initializer as result */
    onnx_output(o, else_graph, "r");
    Onnx__NodeProto *node = onnx_node(o, o->graph, "If", "choose", "c", "y");
    onnx_set_graph(o, node, "then_branch", then_graph);
    onnx_set_graph(o, node, "else_branch", else_graph);
    onnx_output(o, o->graph, "y");
    return o;
}

static onnx *make_loop(int64_t opset) {
    onnx *o = onnx_new(opset);
    onnx_input(o, o->graph, "x", 1, "2");
    onnx_integers(o, o->graph, "trips", -1, (int64_t[]){5});
    Onnx__GraphProto *body = onnx_graph(o, "body");
    onnx_input(o, body, "i", 7, "1"); /* files differ in this shape */
    onnx_input(o, body, "go", 9, NULL);
    onnx_input(o, body, "s", 0, NULL); /* its type follows from the initial value */
    onnx_node(o, body, "Identity", "", "go", "go_on");
    onnx_node(o, body, "Add", "step", "s,x", "next");
    onnx_output(o, body, "go_on");
    onnx_output(o, body, "next");
    onnx_output(o, body, "next");
    Onnx__NodeProto *node = onnx_node(o, o->graph, "Loop", "repeat", "trips,,x", "last,all");
    onnx_set_graph(o, node, "body", body);
    onnx_output(o, o->graph, "last");
    onnx_output(o, o->graph, "all");
    return o;
}

static onnx *make_scan(void) {
    onnx *o = onnx_new(11);
    onnx_input(o, o->graph, "start", 1, "2");
    onnx_input(o, o->graph, "xs", 1, "2,N");
    Onnx__GraphProto *body = onnx_graph(o, "body");
    onnx_input(o, body, "s", 1, "2");
    onnx_input(o, body, "x", 1, NULL);
    onnx_node(o, body, "Add", "", "s,x", "t");
    onnx_node(o, body, "Identity", "", "t", "copy");
    onnx_output(o, body, "t");
    onnx_output(o, body, "copy");
    Onnx__NodeProto *node = onnx_node(o, o->graph, "Scan", "scan", "start,xs", "last,sums");
    onnx_set_graph(o, node, "body", body);
    onnx_set_integer(o, node, "num_scan_inputs", 1);
    onnx_set_integers(o, node, "scan_input_axes", "-1");
    onnx_set_integers(o, node, "scan_input_directions", "1");
    onnx_output(o, o->graph, "last");
    onnx_output(o, o->graph, "sums");
    return o;
}

/* A body that declares no shapes, as scripted modules are exported, with a node whose converter has to know the rank; another after the
 * loop, of what an If gives. `grows`: each iteration adds an axis, so that what is guessed at first is wrong. */
static onnx *make_ranked_loop(bool grows) {
    onnx *o = onnx_new(17);
    onnx_input(o, o->graph, "x", 1, "2,3");
    onnx_input(o, o->graph, "c", 9, "");
    onnx_integers(o, o->graph, "trips", -1, (int64_t[]){2});
    onnx_floats(o, o->graph, "scale", 3, (float[]){1, 2, 3});
    onnx_integers(o, o->graph, "axis", 1, (int64_t[]){0});
    Onnx__GraphProto *body = onnx_graph(o, "body"), *yes = onnx_graph(o, "yes"), *no = onnx_graph(o, "no");
    onnx_input(o, body, "i", 7, NULL);
    onnx_input(o, body, "go", 9, NULL);
    onnx_input(o, body, "s", 1, NULL);
    onnx_floats(o, body, "by", 3, (float[]){3, 2, 1});
    if (grows) onnx_node(o, body, "Unsqueeze", "", "s,axis", "t");
    else onnx_node(o, body, "LayerNormalization", "", "s,scale", "t");
    onnx_node(o, body, "Mul", "", "t,by", "u");
    onnx_node(o, body, "Identity", "", "go", "go_on");
    onnx_output(o, body, "go_on");
    onnx_output(o, body, "u");
    onnx_output(o, body, "u");
    Onnx__NodeProto *node = onnx_node(o, o->graph, "Loop", "repeat", "trips,,x", "last,all");
    onnx_set_graph(o, node, "body", body);
    onnx_node(o, yes, "Neg", "", "last", "r");
    onnx_output(o, yes, "r");
    onnx_node(o, no, "Abs", "", "last", "r");
    onnx_output(o, no, "r");
    node = onnx_node(o, o->graph, "If", "choose", "c", "chosen");
    onnx_set_graph(o, node, "then_branch", yes);
    onnx_set_graph(o, node, "else_branch", no);
    if (!grows) onnx_node(o, o->graph, "LayerNormalization", "", "chosen,scale", "y");
    else onnx_node(o, o->graph, "Identity", "", "chosen", "y");
    onnx_output(o, o->graph, "y");
    onnx_output(o, o->graph, "all");
    return o;
}

static void test_control(void **state) {
    (void)state;
    char *text;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    import_to(file, make_if(), "If-13, a branch captures x", true);
    import_to(file, make_loop(1), "Loop-1", true);
    import_to(file, make_loop(16), "Loop-16", true);
    import_to(file, make_ranked_loop(false), "Loop-16, ranks that nobody declares", true);
    import_to(file, make_ranked_loop(true), "Loop-16, ranks that change", true);
    import_to(file, make_scan(), "Scan-11 over the last axis, backwards", true);
    fclose(file);
    support_expect_golden("compiler/onnx/cases/control.ir", text);
    free(text);
}

int main(int count, char **arguments) {
    support_arguments(count, arguments);
    char folder[] = "/tmp/ouro_import_XXXXXX";
    if (!mkdtemp(folder) || chdir(folder) != 0) return 1; /* messages and modules then have no path in them */
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_conversions), cmocka_unit_test(test_control)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return chdir("/") != 0 || rmdir(folder) != 0 ? 1 : failed;
}
