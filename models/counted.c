/* SPDX-License-Identifier: Apache-2.0 */
/* counted.c: loops that run as often as an input says, over values that are worth not copying, which the caller gets. */
#include "models/models.h"

enum { ELEMENTS = 65536 };

static const int64_t many[1] = {ELEMENTS};

/* A loop over `count` values, p0, p1, ... in its body, which the caller fills and ends. */
static graph *counted_body(model *m, int count) {
    static const char *const inputs[] = {"x0", "x1", "x2"}, *const parameters[] = {"p0", "p1", "p2"};
    graph_input(m->graph, "trips", MODEL_INT64, 0, NULL);
    graph *body = graph_new(m, "body");
    graph_input(body, "iteration", MODEL_INT64, 0, NULL);
    graph_input(body, "condition", MODEL_BOOL, 0, NULL);
    for (int i = 0; i < count; i++) {
        graph_input(m->graph, inputs[i], MODEL_FLOAT, 1, many);
        graph_input(body, parameters[i], MODEL_FLOAT, 1, many);
    }
    node_outputs(body, "Identity", "", 1, (const char *[]){"condition"}, 1, (const char *[]){"again"});
    graph_output(body, "again", MODEL_BOOL, 0, NULL);
    return body;
}

/* What is called r0, r1, ... in the body replaces p0, p1, ... */
static model *counted_loop(model *m, graph *body, int count) {
    static const char *const inputs[] = {"trips", "", "x0", "x1", "x2"},
                             *const outputs[] = {"y0", "y1", "y2"}, *const results[] = {"r0", "r1", "r2"};
    for (int i = 0; i < count; i++) {
        graph_output(body, results[i], MODEL_FLOAT, 1, many);
        graph_output(m->graph, outputs[i], MODEL_FLOAT, 1, many);
    }
    node_outputs(m->graph, "Loop", "loop", 2 + count, inputs, count, outputs);
    attribute_graph(m->graph, "body", body);
    return m;
}

static void replace(graph *body, const char *from, const char *to) {
    node_outputs(body, "Identity", "", 1, &from, 1, &to);
}

/* The parity of the iteration: true for every other one. */
static const char *is_even(model *m, graph *body) {
    integers(m->graph, "two", 0, NULL, (int64_t[]){2});
    integers(m->graph, "zero", 0, NULL, (int64_t[]){0});
    return binary(body, "Equal", binary(body, "Mod", "iteration", "two"), "zero");
}

model *model_counted_swap(void) {
    model *m = model_new("counted_swap", 16);
    graph *body = counted_body(m, 2);
    replace(body, "p1", "r0");
    node_outputs(body, "Sub", "", 2, (const char *[]){"p1", "p0"}, 1, (const char *[]){"r1"});
    return counted_loop(m, body, 2);
}

model *model_counted_rotation(void) {
    model *m = model_new("counted_rotation", 16);
    graph *body = counted_body(m, 3);
    replace(body, "p1", "r0");
    replace(body, "p2", "r1");
    const char *sum = binary(body, "Add", binary(body, "Mul", "p0", "p1"), "p2");
    node_outputs(body, "Tanh", "", 1, &sum, 1, (const char *[]){"r2"});
    return counted_loop(m, body, 3);
}

model *model_counted_branches(void) {
    model *m = model_new("counted_branches", 16);
    graph *body = counted_body(m, 2);
    const char *even = is_even(m, body);
    graph *yes = graph_new(m, "even"), *no = graph_new(m, "odd");
    node_outputs(yes, "Sub", "", 2, (const char *[]){"p0", "p1"}, 1, (const char *[]){"difference"});
    graph_output(yes, "difference", MODEL_FLOAT, 1, many);
    node_outputs(no, "Abs", "", 1, (const char *[]){"p0"}, 1, (const char *[]){"size"});
    graph_output(no, "size", MODEL_FLOAT, 1, many);
    node_outputs(body, "If", "choice", 1, &even, 1, (const char *[]){"r0"});
    attribute_graph(body, "then_branch", yes);
    attribute_graph(body, "else_branch", no);
    replace(body, "p0", "r1");
    return counted_loop(m, body, 2);
}

model *model_counted_best(void) {
    /* One value goes on in each iteration; a branch keeps every other one of them. */
    model *m = model_new("counted_best", 16);
    graph *body = counted_body(m, 2);
    const char *even = is_even(m, body), *next = binary(body, "Sub", "p0", "x1");
    graph *yes = graph_new(m, "even"), *no = graph_new(m, "odd");
    node_outputs(yes, "Identity", "", 1, &next, 1, (const char *[]){"better"});
    graph_output(yes, "better", MODEL_FLOAT, 1, many);
    node_outputs(no, "Identity", "", 1, (const char *[]){"p1"}, 1, (const char *[]){"as_before"});
    graph_output(no, "as_before", MODEL_FLOAT, 1, many);
    node_outputs(body, "If", "choice", 1, &even, 1, (const char *[]){"r1"});
    attribute_graph(body, "then_branch", yes);
    attribute_graph(body, "else_branch", no);
    replace(body, next, "r0");
    return counted_loop(m, body, 2);
}
