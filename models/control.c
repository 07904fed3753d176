/* SPDX-License-Identifier: Apache-2.0 */
/* control.c: models with loops and branches. */
#include "models/models.h"

static const int64_t image[4] = {1, 16, 64, 64};

/* The parameters that every loop body has. */
static graph *body_new(model *m, const char *name) {
    graph *body = graph_new(m, name);
    graph_input(body, "iteration", MODEL_INT64, 0, NULL);
    graph_input(body, "condition", MODEL_BOOL, 0, NULL);
    return body;
}

static const char *same_convolution(graph *g, const char *x, const char *w) {
    const char *y = node(g, "Conv", "", 2, (const char *[]){x, w});
    attribute_integers(g, "kernel_shape", 2, (int64_t[]){3, 3});
    attribute_integers(g, "pads", 4, (int64_t[]){1, 1, 1, 1});
    return y;
}

/* The body hands the condition on as it came. */
static void keep_going(graph *body) {
    node_outputs(body, "Identity", "", 1, (const char *[]){"condition"}, 1, (const char *[]){"go_on"});
    graph_output(body, "go_on", MODEL_BOOL, 0, NULL);
}

model *model_convolution_recurrence(void) {
    model *m = model_new("convolution_recurrence", 16);
    graph *g = m->graph;
    graph_input(g, "x", MODEL_FLOAT, 4, image);
    integers(g, "trips", 0, NULL, (int64_t[]){8});
    weight(g, "w", 4, (int64_t[]){16, 16, 3, 3}, 144);
    graph *body = body_new(m, "body");
    graph_input(body, "state", MODEL_FLOAT, 4, image);
    keep_going(body);
    const char *next = same_convolution(body, "state", "w");
    node_outputs(body, "Relu", "", 1, &next, 1, (const char *[]){"next_state"});
    graph_output(body, "next_state", MODEL_FLOAT, 4, image);
    node_outputs(g, "Loop", "recurrence", 3, (const char *[]){"trips", "", "x"}, 1, (const char *[]){"y"});
    attribute_graph(g, "body", body);
    graph_output(g, "y", MODEL_FLOAT, 4, image);
    return m;
}

model *model_newton(void) {
    /* r <= (r + a / r) / 2 until no element of r moves by more than 1e-6 of itself. */
    static const int64_t many[1] = {64};
    model *m = model_new("newton", 16);
    graph *g = m->graph;
    graph_input(g, "a", MODEL_FLOAT, 1, many);
    boolean(g, "true", 1);
    floats(g, "half", 0, NULL, (float[]){0.5f});
    floats(g, "one", 0, NULL, (float[]){1.0f});
    floats(g, "tolerance", 0, NULL, (float[]){1e-6f});
    const char *positive = binary(g, "Add", unary(g, "Abs", "a"), "one");
    graph *body = body_new(m, "body");
    graph_input(body, "old_root", MODEL_FLOAT, 1, many);
    const char *sum = binary(body, "Add", "old_root", binary(body, "Div", positive, "old_root"));
    node_outputs(body, "Mul", "", 2, (const char *[]){sum, "half"}, 1, (const char *[]){"next_root"});
    const char *moved = unary(body, "Abs", binary(body, "Sub", "next_root", "old_root"));
    const char *relative = binary(body, "Div", moved, "next_root");
    const char *largest = node(body, "ReduceMax", "", 1, &relative);
    attribute_integer(body, "keepdims", 0);
    node_outputs(body, "Greater", "", 2, (const char *[]){largest, "tolerance"}, 1,
                 (const char *[]){"go_on"});
    graph_output(body, "go_on", MODEL_BOOL, 0, NULL);
    graph_output(body, "next_root", MODEL_FLOAT, 1, many);
    node_outputs(g, "Loop", "newton", 3, (const char *[]){"", "true", positive}, 1, (const char *[]){"root"});
    attribute_graph(g, "body", body);
    node_outputs(g, "Abs", "", 1, (const char *[]){"root"}, 1, (const char *[]){"root_of_a"});
    graph_output(g, "root_of_a", MODEL_FLOAT, 1, many);
    return m;
}

model *model_swap(void) {
    static const int64_t many[1] = {65536};
    model *m = model_new("swap", 16);
    graph *g = m->graph;
    graph_input(g, "a", MODEL_FLOAT, 1, many);
    graph_input(g, "b", MODEL_FLOAT, 1, many);
    integers(g, "trips", 0, NULL, (int64_t[]){9});
    graph *body = body_new(m, "body");
    graph_input(body, "left", MODEL_FLOAT, 1, many);
    graph_input(body, "right", MODEL_FLOAT, 1, many);
    keep_going(body);
    node_outputs(body, "Add", "", 2, (const char *[]){"left", "right"}, 1, (const char *[]){"sum"});
    node_outputs(body, "Identity", "", 1, (const char *[]){"right"}, 1, (const char *[]){"moved"});
    graph_output(body, "moved", MODEL_FLOAT, 1, many);
    graph_output(body, "sum", MODEL_FLOAT, 1, many);
    node_outputs(g, "Loop", "swap", 4, (const char *[]){"trips", "", "a", "b"}, 2,
                 (const char *[]){"x", "y"});
    attribute_graph(g, "body", body);
    graph_output(g, "x", MODEL_FLOAT, 1, many);
    graph_output(g, "y", MODEL_FLOAT, 1, many);
    return m;
}

model *model_switch(void) {
    model *m = model_new("switch", 16);
    graph *g = m->graph;
    graph_input(g, "deep", MODEL_BOOL, 0, NULL);
    graph_input(g, "x", MODEL_FLOAT, 4, image);
    weight(g, "w1", 4, (int64_t[]){16, 16, 3, 3}, 144);
    weight(g, "w2", 4, (int64_t[]){16, 16, 3, 3}, 144);
    const char *stem = unary(g, "Relu", same_convolution(g, "x", "w1"));
    graph *then_branch = graph_new(m, "deep"), *else_branch = graph_new(m, "shallow");
    const char *t = unary(then_branch, "Relu", same_convolution(then_branch, stem, "w2"));
    t = same_convolution(then_branch, t, "w1");
    node_outputs(then_branch, "Tanh", "", 1, &t, 1, (const char *[]){"deep_result"});
    graph_output(then_branch, "deep_result", MODEL_FLOAT, 4, image);
    node_outputs(else_branch, "Sigmoid", "", 1, &stem, 1, (const char *[]){"shallow_result"});
    graph_output(else_branch, "shallow_result", MODEL_FLOAT, 4, image);
    node_outputs(g, "If", "switch", 1, (const char *[]){"deep"}, 1, (const char *[]){"chosen"});
    attribute_graph(g, "then_branch", then_branch);
    attribute_graph(g, "else_branch", else_branch);
    node_outputs(g, "Add", "", 2, (const char *[]){"chosen", stem}, 1, (const char *[]){"y"});
    graph_output(g, "y", MODEL_FLOAT, 4, image);
    return m;
}
