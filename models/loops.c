/* SPDX-License-Identifier: Apache-2.0 */
/* loops.c: models whose loops carry values in every way that decides about memory. */
#include "models/models.h"

enum { HIDDEN = 256, STEPS = 100, WIDTH = 64, BEAMS = 4, VOCABULARY = 128 };

static const int64_t square[2] = {WIDTH, WIDTH};

/* A graph with the parameters that every loop body has. */
static graph *body_of(model *m, const char *name) {
    graph *body = graph_new(m, name);
    graph_input(body, "iteration", MODEL_INT64, 0, NULL);
    graph_input(body, "condition", MODEL_BOOL, 0, NULL);
    return body;
}

/* The value under another name, which may be a result. */
static void rename_to(graph *g, const char *from, const char *to) {
    node_outputs(g, "Identity", "", 1, &from, 1, &to);
}

static void go_on(graph *body) {
    rename_to(body, "condition", "again");
    graph_output(body, "again", MODEL_BOOL, 0, NULL);
}

model *model_counter(void) {
    model *m = model_new("counter", 16);
    graph *g = m->graph;
    graph_input(g, "x", MODEL_FLOAT, 0, NULL);
    integers(g, "trips", 0, NULL, (int64_t[]){1000000});
    floats(g, "one", 0, NULL, (float[]){1});
    graph *body = body_of(m, "body");
    graph_input(body, "count", MODEL_FLOAT, 0, NULL);
    go_on(body);
    node_outputs(body, "Add", "", 2, (const char *[]){"count", "one"}, 1, (const char *[]){"next"});
    graph_output(body, "next", MODEL_FLOAT, 0, NULL);
    node_outputs(g, "Loop", "counter", 3, (const char *[]){"trips", "", "x"}, 1, (const char *[]){"y"});
    attribute_graph(g, "body", body);
    graph_output(g, "y", MODEL_FLOAT, 0, NULL);
    return m;
}

model *model_rnn_cell(void) {
    /* h <= tanh(x[t] W + h R + b), every h stacked. */
    static const int64_t sequence[3] = {STEPS, 1, HIDDEN}, state[2] = {1, HIDDEN},
                         matrix[2] = {HIDDEN, HIDDEN};
    model *m = model_new("rnn_cell", 16);
    graph *g = m->graph;
    graph_input(g, "x", MODEL_FLOAT, 3, sequence);
    graph_input(g, "h0", MODEL_FLOAT, 2, state);
    weight(g, "w", 2, matrix, HIDDEN);
    weight(g, "r", 2, matrix, HIDDEN);
    weight(g, "b", 1, (int64_t[]){HIDDEN}, HIDDEN);
    graph *body = graph_new(m, "cell");
    graph_input(body, "ht", MODEL_FLOAT, 2, state);
    graph_input(body, "xt", MODEL_FLOAT, 2, state);
    const char *sum =
        binary(body, "Add", binary(body, "MatMul", "xt", "w"), binary(body, "MatMul", "ht", "r"));
    sum = binary(body, "Add", sum, "b");
    node_outputs(body, "Tanh", "", 1, &sum, 1, (const char *[]){"next_h"});
    rename_to(body, "next_h", "stacked");
    graph_output(body, "next_h", MODEL_FLOAT, 2, state);
    graph_output(body, "stacked", MODEL_FLOAT, 2, state);
    node_outputs(g, "Scan", "rnn", 2, (const char *[]){"h0", "x"}, 2, (const char *[]){"h", "all"});
    attribute_graph(g, "body", body);
    attribute_integer(g, "num_scan_inputs", 1);
    node_outputs(g, "Relu", "", 1, (const char *[]){"h"}, 1, (const char *[]){"last"});
    graph_output(g, "last", MODEL_FLOAT, 2, state);
    graph_output(g, "all", MODEL_FLOAT, 3, sequence);
    return m;
}

/* A loop of `trips` over `count` matrices, each a parameter p0, p1, ... with a result r0, r1, ..., which the
 * caller makes. */
static graph *square_body(model *m, int count, int trips) {
    static const char *const inputs[] = {"x0", "x1", "x2", "x3"}, *const parameters[] = {"p0", "p1", "p2",
                                                                                         "p3"};
    integers(m->graph, "trips", 0, NULL, (int64_t[]){trips});
    graph *body = body_of(m, "body");
    for (int i = 0; i < count; i++) {
        graph_input(m->graph, inputs[i], MODEL_FLOAT, 2, square);
        graph_input(body, parameters[i], MODEL_FLOAT, 2, square);
    }
    go_on(body);
    return body;
}

static void square_loop(model *m, graph *body, int count) {
    static const char *const inputs[] = {"trips", "", "x0", "x1", "x2", "x3"},
                             *const outputs[] = {"y0", "y1", "y2", "y3"},
                             *const results[] = {"r0", "r1", "r2", "r3"};
    for (int i = 0; i < count; i++) graph_output(body, results[i], MODEL_FLOAT, 2, square);
    node_outputs(m->graph, "Loop", "loop", 2 + count, inputs, count, outputs);
    attribute_graph(m->graph, "body", body);
    /* What a loop leaves is read where it is: only what the caller wants itself would have to move. */
    const char *sum = outputs[0];
    for (int i = 1; i < count; i++) sum = binary(m->graph, "Add", sum, outputs[i]);
    node_outputs(m->graph, "Neg", "", 1, &sum, 1, (const char *[]){"y"});
    graph_output(m->graph, "y", MODEL_FLOAT, 2, square);
}

model *model_rotation(void) {
    model *m = model_new("rotation", 16);
    graph *body = square_body(m, 3, 10);
    rename_to(body, "p1", "r0");
    rename_to(body, "p2", "r1");
    rename_to(body, "p0", "r2");
    square_loop(m, body, 3);
    return m;
}

model *model_delay(void) {
    /* x[t] = f(x[t - 4]): only the oldest is read. */
    model *m = model_new("delay", 16);
    graph *body = square_body(m, 4, 11);
    weight(m->graph, "w", 2, square, WIDTH);
    rename_to(body, "p1", "r0");
    rename_to(body, "p2", "r1");
    rename_to(body, "p3", "r2");
    node_outputs(body, "MatMul", "", 2, (const char *[]){"p0", "w"}, 1, (const char *[]){"r3"});
    square_loop(m, body, 4);
    return m;
}

model *model_nested(void) {
    /* z = x + inner(x), where inner multiplies by a matrix three times. */
    model *m = model_new("nested", 16);
    graph *body = square_body(m, 1, 5);
    weight(m->graph, "w", 2, square, WIDTH);
    integers(m->graph, "three", 0, NULL, (int64_t[]){3});
    graph *inner = graph_new(m, "inner");
    graph_input(inner, "inner_iteration", MODEL_INT64, 0, NULL);
    graph_input(inner, "inner_condition", MODEL_BOOL, 0, NULL);
    graph_input(inner, "s", MODEL_FLOAT, 2, square);
    rename_to(inner, "inner_condition", "inner_again");
    graph_output(inner, "inner_again", MODEL_BOOL, 0, NULL);
    node_outputs(inner, "MatMul", "", 2, (const char *[]){"s", "w"}, 1, (const char *[]){"next_s"});
    graph_output(inner, "next_s", MODEL_FLOAT, 2, square);
    node_outputs(body, "Loop", "inner", 3, (const char *[]){"three", "", "p0"}, 1,
                 (const char *[]){"powered"});
    attribute_graph(body, "body", inner);
    node_outputs(body, "Add", "", 2, (const char *[]){"p0", "powered"}, 1, (const char *[]){"r0"});
    square_loop(m, body, 1);
    return m;
}

model *model_branching_loop(void) {
    /* Every other iteration multiplies by a matrix, the others only clip. */
    model *m = model_new("branching_loop", 16);
    graph *body = square_body(m, 1, 7);
    weight(m->graph, "w", 2, square, WIDTH);
    integers(m->graph, "two", 0, NULL, (int64_t[]){2});
    integers(m->graph, "zero", 0, NULL, (int64_t[]){0});
    const char *even = binary(body, "Equal", binary(body, "Mod", "iteration", "two"), "zero");
    graph *yes = graph_new(m, "even"), *no = graph_new(m, "odd");
    node_outputs(yes, "MatMul", "", 2, (const char *[]){"p0", "w"}, 1, (const char *[]){"multiplied"});
    graph_output(yes, "multiplied", MODEL_FLOAT, 2, square);
    node_outputs(no, "Relu", "", 1, (const char *[]){"p0"}, 1, (const char *[]){"clipped"});
    graph_output(no, "clipped", MODEL_FLOAT, 2, square);
    node_outputs(body, "If", "choice", 1, &even, 1, (const char *[]){"r0"});
    attribute_graph(body, "then_branch", yes);
    attribute_graph(body, "else_branch", no);
    square_loop(m, body, 1);
    return m;
}

model *model_reverse_scan(void) {
    /* Sums of what is still to come, and sums so far, in one pass. */
    static const int64_t sequence[2] = {STEPS, HIDDEN}, row[1] = {HIDDEN};
    model *m = model_new("reverse_scan", 16);
    graph *g = m->graph;
    graph_input(g, "x", MODEL_FLOAT, 2, sequence);
    graph_input(g, "zero", MODEL_FLOAT, 1, row);
    graph *body = graph_new(m, "body");
    graph_input(body, "so_far", MODEL_FLOAT, 1, row);
    graph_input(body, "to_come", MODEL_FLOAT, 1, row);
    graph_input(body, "first", MODEL_FLOAT, 1, row);
    graph_input(body, "last", MODEL_FLOAT, 1, row);
    node_outputs(body, "Add", "", 2, (const char *[]){"so_far", "first"}, 1, (const char *[]){"next_so_far"});
    node_outputs(body, "Add", "", 2, (const char *[]){"to_come", "last"}, 1,
                 (const char *[]){"next_to_come"});
    rename_to(body, "next_so_far", "forward");
    rename_to(body, "next_to_come", "backward");
    const char *results[] = {"next_so_far", "next_to_come", "forward", "backward"};
    for (int i = 0; i < 4; i++) graph_output(body, results[i], MODEL_FLOAT, 1, row);
    node_outputs(g, "Scan", "sums", 4, (const char *[]){"zero", "zero", "x", "x"}, 4,
                 (const char *[]){"forward_total", "backward_total", "prefix_sums", "suffix_sums"});
    attribute_graph(g, "body", body);
    attribute_integer(g, "num_scan_inputs", 2);
    attribute_integers(g, "scan_input_directions", 2, (int64_t[]){0, 1});
    attribute_integers(g, "scan_output_directions", 2, (int64_t[]){0, 1});
    node_outputs(g, "Sub", "", 2, (const char *[]){"forward_total", "backward_total"}, 1,
                 (const char *[]){"difference"});
    graph_output(g, "difference", MODEL_FLOAT, 1, row);
    graph_output(g, "prefix_sums", MODEL_FLOAT, 2, sequence);
    graph_output(g, "suffix_sums", MODEL_FLOAT, 2, sequence);
    return m;
}

model *model_beam_search(void) {
    /* The best beam is taken twice, the worst is dropped: carried states are gathered in another order. */
    static const int64_t states[2] = {BEAMS, HIDDEN}, matrix[2] = {HIDDEN, HIDDEN};
    model *m = model_new("beam_search", 16);
    graph *g = m->graph;
    graph_input(g, "states", MODEL_FLOAT, 2, states);
    integers(g, "trips", 0, NULL, (int64_t[]){12});
    weight(g, "w", 2, matrix, HIDDEN);
    integers(g, "shift", 1, (int64_t[]){BEAMS}, (int64_t[]){0, 0, 1, 2});
    integers(g, "count", 0, NULL, (int64_t[]){BEAMS});
    graph *body = body_of(m, "body");
    graph_input(body, "beam_states", MODEL_FLOAT, 2, states);
    go_on(body);
    const char *moved = unary(body, "Tanh", binary(body, "MatMul", "beam_states", "w"));
    const char *score = node(body, "ReduceMax", "", 1, &moved);
    attribute_integers(body, "axes", 1, (int64_t[]){1});
    attribute_integer(body, "keepdims", 0);
    const char *best = node(body, "ArgMax", "", 1, &score);
    attribute_integer(body, "axis", 0);
    attribute_integer(body, "keepdims", 1);
    const char *order = binary(body, "Mod", binary(body, "Add", "shift", best), "count");
    node_outputs(body, "Gather", "", 2, (const char *[]){moved, order}, 1, (const char *[]){"next_states"});
    attribute_integer(body, "axis", 0);
    graph_output(body, "next_states", MODEL_FLOAT, 2, states);
    node_outputs(g, "Loop", "beams", 3, (const char *[]){"trips", "", "states"}, 1, (const char *[]){"kept"});
    attribute_graph(g, "body", body);
    graph_output(g, "kept", MODEL_FLOAT, 2, states);
    return m;
}

model *model_growing_cache(void) {
    /* Attention over everything that came before: the keys grow by one row in each iteration. */
    static const int64_t none[2] = {0, WIDTH}, row[2] = {1, WIDTH}, all[2] = {STEPS, WIDTH},
                         open[2] = {-1, WIDTH};
    model *m = model_new("growing_cache", 16);
    graph *g = m->graph;
    graph_input(g, "query", MODEL_FLOAT, 2, row);
    integers(g, "trips", 0, NULL, (int64_t[]){STEPS});
    floats(g, "empty", 2, none, NULL);
    weight(g, "w", 2, square, WIDTH);
    graph *body = body_of(m, "body");
    graph_input(body, "keys", MODEL_FLOAT, 2, open);
    graph_input(body, "q", MODEL_FLOAT, 2, row);
    go_on(body);
    const char *key = unary(body, "Tanh", binary(body, "MatMul", "q", "w"));
    node_outputs(body, "Concat", "", 2, (const char *[]){"keys", key}, 1, (const char *[]){"next_keys"});
    attribute_integer(body, "axis", 0);
    const char *turned = unary(body, "Transpose", "next_keys");
    const char *scores = binary(body, "MatMul", "q", turned);
    const char *weights = node(body, "Softmax", "", 1, &scores);
    attribute_integer(body, "axis", 1);
    node_outputs(body, "MatMul", "", 2, (const char *[]){weights, "next_keys"}, 1,
                 (const char *[]){"next_q"});
    graph_output(body, "next_keys", MODEL_FLOAT, 2, open);
    graph_output(body, "next_q", MODEL_FLOAT, 2, row);
    node_outputs(g, "Loop", "cache", 4, (const char *[]){"trips", "", "empty", "query"}, 2,
                 (const char *[]){"cache", "answer"});
    attribute_graph(g, "body", body);
    graph_output(g, "cache", MODEL_FLOAT, 2, all);
    graph_output(g, "answer", MODEL_FLOAT, 2, row);
    return m;
}

model *model_attention_decoding(void) {
    /* A decoder's self-attention: the keys and values of four heads grow along their third axis. */
    enum { HEADS = 4, DEEP = WIDTH / HEADS };
    static const int64_t token[3] = {1, 1, WIDTH}, none[4] = {1, HEADS, 0, DEEP},
                         open[4] = {1, HEADS, -1, DEEP}, all[4] = {1, HEADS, STEPS, DEEP},
                         heads[4] = {1, 1, HEADS, DEEP};
    static const char *const caches[2] = {"keys", "values"}, *const grown[2] = {"next_keys", "next_values"};
    model *m = model_new("attention_decoding", 16);
    graph *g = m->graph;
    graph_input(g, "x", MODEL_FLOAT, 3, token);
    integers(g, "trips", 0, NULL, (int64_t[]){STEPS});
    integers(g, "heads", 1, (int64_t[]){4}, heads);
    integers(g, "token", 1, (int64_t[]){3}, token);
    floats(g, "empty", 4, none, NULL);
    floats(g, "scale", 0, NULL, (float[]){0.25f});
    weight(g, "w_query", 2, square, WIDTH);
    weight(g, "w_keys", 2, square, WIDTH);
    weight(g, "w_values", 2, square, WIDTH);
    weight(g, "w_out", 2, square, WIDTH);
    graph *body = body_of(m, "body");
    graph_input(body, "state", MODEL_FLOAT, 3, token);
    for (int i = 0; i < 2; i++) graph_input(body, caches[i], MODEL_FLOAT, 4, open);
    go_on(body);
    const char *turned[3];
    static const char *const weights[3] = {"w_query", "w_keys", "w_values"};
    for (int i = 0; i < 3; i++) {
        turned[i] = unary(body, "Transpose",
                          binary(body, "Reshape", binary(body, "MatMul", "state", weights[i]), "heads"));
        attribute_integers(body, "perm", 4, (int64_t[]){0, 2, 1, 3});
    }
    for (int i = 0; i < 2; i++) {
        node_outputs(body, "Concat", "", 2, (const char *[]){caches[i], turned[1 + i]}, 1, &grown[i]);
        attribute_integer(body, "axis", 2);
    }
    const char *keys = unary(body, "Transpose", grown[0]);
    attribute_integers(body, "perm", 4, (int64_t[]){0, 1, 3, 2});
    const char *scores = binary(body, "Mul", binary(body, "MatMul", turned[0], keys), "scale");
    const char *shares = unary(body, "Softmax", scores);
    attribute_integer(body, "axis", 3);
    const char *mixed = unary(body, "Transpose", binary(body, "MatMul", shares, grown[1]));
    attribute_integers(body, "perm", 4, (int64_t[]){0, 2, 1, 3});
    const char *out = binary(body, "MatMul", binary(body, "Reshape", mixed, "token"), "w_out");
    const char *sum = binary(body, "Add", "state", out);
    node_outputs(body, "Tanh", "", 1, &sum, 1, (const char *[]){"next_state"});
    graph_output(body, "next_state", MODEL_FLOAT, 3, token);
    for (int i = 0; i < 2; i++) graph_output(body, grown[i], MODEL_FLOAT, 4, open);
    node_outputs(g, "Loop", "decode", 5, (const char *[]){"trips", "", "x", "empty", "empty"}, 3,
                 (const char *[]){"y", "all_keys", "all_values"});
    attribute_graph(g, "body", body);
    graph_output(g, "y", MODEL_FLOAT, 3, token);
    graph_output(g, "all_keys", MODEL_FLOAT, 4, all);
    graph_output(g, "all_values", MODEL_FLOAT, 4, all);
    return m;
}

model *model_greedy_decoding(void) {
    /* The most likely token is embedded, and decides with the state about the next, until token 0 comes; at most 32
     * of them. */
    static const int64_t table[2] = {VOCABULARY, WIDTH}, state[2] = {1, WIDTH},
                         output[2] = {WIDTH, VOCABULARY}, one[1] = {1}, token_list[1] = {-1};
    model *m = model_new("greedy_decoding", 16);
    graph *g = m->graph;
    graph_input(g, "first", MODEL_INT64, 1, one);
    graph_input(g, "state", MODEL_FLOAT, 2, state);
    integers(g, "trips", 0, NULL, (int64_t[]){32});
    integers(g, "end", 1, one, (int64_t[]){0});
    integers(g, "none", 1, (int64_t[]){0}, NULL);
    boolean(g, "begin", 1);
    weight(g, "embedding", 2, table, WIDTH / 4);
    weight(g, "w", 2, square, WIDTH / 2);
    weight(g, "u", 2, output, WIDTH);
    graph *body = body_of(m, "body");
    graph_input(body, "tokens", MODEL_INT64, 1, token_list);
    graph_input(body, "token", MODEL_INT64, 1, one);
    graph_input(body, "h", MODEL_FLOAT, 2, state);
    const char *embedded = node(body, "Gather", "", 2, (const char *[]){"embedding", "token"});
    attribute_integer(body, "axis", 0);
    const char *next = unary(body, "Tanh", binary(body, "Add", embedded, binary(body, "MatMul", "h", "w")));
    const char *scores = binary(body, "MatMul", next, "u");
    const char *likely = node(body, "ArgMax", "", 1, &scores);
    attribute_integer(body, "axis", 1);
    attribute_integer(body, "keepdims", 0);
    const char *ended = binary(body, "Equal", likely, "end");
    const char *more = unary(body, "Not", ended);
    integers(g, "scalar", 1, (int64_t[]){0}, NULL);
    node_outputs(body, "Reshape", "", 2, (const char *[]){more, "scalar"}, 1, (const char *[]){"again"});
    graph_output(body, "again", MODEL_BOOL, 0, NULL);
    node_outputs(body, "Concat", "", 2, (const char *[]){"tokens", likely}, 1,
                 (const char *[]){"next_tokens"});
    attribute_integer(body, "axis", 0);
    rename_to(body, likely, "next_token");
    rename_to(body, next, "next_h");
    graph_output(body, "next_tokens", MODEL_INT64, 1, token_list);
    graph_output(body, "next_token", MODEL_INT64, 1, one);
    graph_output(body, "next_h", MODEL_FLOAT, 2, state);
    node_outputs(g, "Loop", "decode", 5, (const char *[]){"trips", "begin", "none", "first", "state"}, 3,
                 (const char *[]){"decoded", "last_token", "last"});
    attribute_graph(g, "body", body);
    node_outputs(g, "Relu", "", 1, (const char *[]){"last"}, 1, (const char *[]){"last_state"});
    graph_output(g, "decoded", MODEL_INT64, 1, token_list);
    graph_output(g, "last_state", MODEL_FLOAT, 2, state);
    return m;
}
