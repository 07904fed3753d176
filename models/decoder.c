/* SPDX-License-Identifier: Apache-2.0 */
/* decoder.c: one step of a small transformer that predicts the next byte of a text: the caches of keys and values go in as past.*
 * and come out, longer by the positions of this step, as present.*. docs/DECODER.md shows how it is run. Its weights are random,
 * so what it says means nothing; each byte depends on all before it.
 *
 *     x = embedding(input_ids) + embedding(position_ids)
 *     twice: x = x + attention(norm(x));  x = x + relu(norm(x) W1) W2
 *     logits = norm(x) W
 *
 * A position sees those that are not after it. The positions of the keys are one more cache. */
#include "models/models.h"
#include <stdio.h>

enum { LAYERS = 2, HEADS = 4, DEPTH = 16, WIDTH = HEADS * DEPTH, BYTES = 256, POSITIONS = 4096 };

static const char *weights(graph *g, const char *format, int layer, int64_t rows, int64_t columns) {
    char name[64];
    snprintf(name, sizeof name, format, layer);
    return weight(g, name, 2, (int64_t[]){rows, columns}, rows);
}

static const char *norm(graph *g, const char *x) {
    const char *made = node(g, "LayerNormalization", "", 3, (const char *[]){x, "scale", "shift"});
    attribute_integer(g, "axis", -1);
    return made;
}

/* [1, positions, WIDTH] as [1, HEADS, positions, DEPTH]. */
static const char *heads(graph *g, const char *x) {
    const char *made = node(g, "Transpose", "", 1, (const char *[]){binary(g, "Reshape", x, "by_head")});
    attribute_integers(g, "perm", 4, (int64_t[]){0, 2, 1, 3});
    return made;
}

/* What was there, and then what this step has made, along this axis. */
static const char *cache(graph *g, const char *format, int layer, const char *made, int dtype, int axis,
                         int rank, const int64_t *dims) {
    static char names[2][64];
    char rest[48];
    snprintf(rest, sizeof rest, format, layer);
    snprintf(names[0], sizeof names[0], "past.%s", rest);
    snprintf(names[1], sizeof names[1], "present.%s", rest);
    g->owner->symbol = "past";
    const char *past = graph_input(g, names[0], dtype, rank, dims);
    g->owner->symbol = "total";
    graph_output(g, names[1], dtype, rank, dims);
    node_outputs(g, "Concat", "", 2, (const char *[]){past, made}, 1, (const char *[]){names[1]});
    attribute_integer(g, "axis", axis);
    return g->proto.output[g->proto.n_output - 1]->name;
}

static const char *attention(graph *g, int layer, const char *x) {
    static const int64_t dims[4] = {1, HEADS, -1, DEPTH};
    const char *q = heads(g, binary(g, "MatMul", x, weights(g, "query.%d", layer, WIDTH, WIDTH)));
    const char *k = heads(g, binary(g, "MatMul", x, weights(g, "key.%d", layer, WIDTH, WIDTH)));
    const char *v = heads(g, binary(g, "MatMul", x, weights(g, "value.%d", layer, WIDTH, WIDTH)));
    k = cache(g, "%d.key", layer, k, MODEL_FLOAT, 2, 4, dims);
    v = cache(g, "%d.value", layer, v, MODEL_FLOAT, 2, 4, dims);
    const char *turned = node(g, "Transpose", "", 1, &k);
    attribute_integers(g, "perm", 4, (int64_t[]){0, 1, 3, 2});
    const char *scores = binary(g, "Mul", binary(g, "MatMul", q, turned), "root");
    scores = node(g, "Where", "", 3, (const char *[]){"visible", scores, "never"});
    const char *shares = unary(g, "Softmax", scores);
    attribute_integer(g, "axis", -1);
    const char *mixed = node(g, "Transpose", "", 1, (const char *[]){binary(g, "MatMul", shares, v)});
    attribute_integers(g, "perm", 4, (int64_t[]){0, 2, 1, 3});
    return binary(g, "MatMul", binary(g, "Reshape", mixed, "together"),
                  weights(g, "output.%d", layer, WIDTH, WIDTH));
}

/* The positions of this step come after those of the past; which of the keys each of them sees. */
static void see(graph *g) {
    const char *ones = node(g, "Expand", "", 2, (const char *[]){"one", unary(g, "Shape", "input_ids")});
    const char *counted = binary(g, "CumSum", ones, "axis");
    attribute_integer(g, "exclusive", 1);
    const char *length = binary(g, "Gather", unary(g, "Shape", "past.positions"), "axis");
    node_outputs(g, "Add", "", 2, (const char *[]){counted, length}, 1, (const char *[]){"position_ids"});
    const char *keys = cache(g, "positions", 0, "position_ids", MODEL_INT64, 1, 2, (int64_t[]){1, -1});
    const char *of_keys = binary(g, "Unsqueeze", keys, "before"),
               *of_queries = binary(g, "Unsqueeze", "position_ids", "after");
    node_outputs(g, "LessOrEqual", "", 2, (const char *[]){of_keys, of_queries}, 1,
                 (const char *[]){"visible"});
}

model *model_decoder(void) {
    float ones[WIDTH], zeros[WIDTH] = {0};
    for (int i = 0; i < WIDTH; i++) ones[i] = 1;
    model *m = model_new("decoder", 17);
    graph *g = m->graph;
    m->symbol = "sequence";
    graph_input(g, "input_ids", MODEL_INT64, 2, (int64_t[]){1, -1});
    graph_output(g, "logits", MODEL_FLOAT, 3, (int64_t[]){1, -1, BYTES});
    floats(g, "scale", 1, (int64_t[]){WIDTH}, ones);
    floats(g, "shift", 1, (int64_t[]){WIDTH}, zeros);
    floats(g, "root", 0, NULL, (float[]){0.25f});
    floats(g, "never", 0, NULL, (float[]){-1e9f});
    integers(g, "by_head", 1, (int64_t[]){4}, (int64_t[]){1, -1, HEADS, DEPTH});
    integers(g, "together", 1, (int64_t[]){3}, (int64_t[]){1, -1, WIDTH});
    integers(g, "one", 2, (int64_t[]){1, 1}, (int64_t[]){1});
    integers(g, "axis", 0, NULL, (int64_t[]){1});
    integers(g, "before", 1, (int64_t[]){1}, (int64_t[]){1});
    integers(g, "after", 1, (int64_t[]){1}, (int64_t[]){2});
    see(g);
    const char *x = binary(g, "Gather", weights(g, "bytes", 0, BYTES, WIDTH), "input_ids");
    x = binary(g, "Add", x,
               binary(g, "Gather", weights(g, "positions", 0, POSITIONS, WIDTH), "position_ids"));
    for (int layer = 0; layer < LAYERS; layer++) {
        x = binary(g, "Add", x, attention(g, layer, norm(g, x)));
        const char *wide = binary(g, "MatMul", norm(g, x), weights(g, "wide.%d", layer, WIDTH, 4 * WIDTH));
        x = binary(
            g, "Add", x,
            binary(g, "MatMul", unary(g, "Relu", wide), weights(g, "narrow.%d", layer, 4 * WIDTH, WIDTH)));
    }
    node_outputs(g, "MatMul", "", 2, (const char *[]){norm(g, x), weights(g, "head", 0, WIDTH, BYTES)}, 1,
                 (const char *[]){"logits"});
    return m;
}
