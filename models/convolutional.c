/* SPDX-License-Identifier: Apache-2.0 */
/* convolutional.c: networks of convolutions, with random weights. */
#include "models/models.h"
#include <stdio.h>
#include <stdlib.h>

typedef struct convolution {
    int64_t inputs, outputs, kernel, stride, group;
} convolution;

static const char *convolve(graph *g, const char *name, const char *x, convolution c, int bias) {
    char w[96], b[96];
    snprintf(w, sizeof w, "%s.weight", name);
    snprintf(b, sizeof b, "%s.bias", name);
    int64_t per_group = c.inputs / c.group, pad = c.kernel / 2;
    const char *inputs[3] = {x, weight(g, w, 4, (int64_t[]){c.outputs, per_group, c.kernel, c.kernel},
                                       per_group * c.kernel * c.kernel)};
    if (bias) inputs[2] = weight(g, b, 1, &c.outputs, 30);
    const char *y = node(g, "Conv", name, bias ? 3 : 2, inputs);
    attribute_integers(g, "kernel_shape", 2, (int64_t[]){c.kernel, c.kernel});
    attribute_integers(g, "strides", 2, (int64_t[]){c.stride, c.stride});
    attribute_integers(g, "pads", 4, (int64_t[]){pad, pad, pad, pad});
    attribute_integer(g, "group", c.group);
    return y;
}

static const char *normalize(graph *g, const char *name, const char *x, int64_t channels) {
    float *values = calloc((size_t)channels, 4 * sizeof *values);
    if (!values) exit(3);
    /* Not the identity, so that folding it wrongly shows. */
    for (int64_t i = 0; i < channels; i++) {
        values[i] = 0.75f + 0.5f * (float)(i % 7) / 7.0f;
        values[channels + i] = 0.1f * (float)(i % 5 - 2);
        values[2 * channels + i] = 0.05f * (float)(i % 3 - 1);
        values[3 * channels + i] = 0.5f + (float)(i % 4) / 4.0f;
    }
    const char *inputs[5] = {x};
    const char *const parts[4] = {"scale", "shift", "mean", "variance"};
    for (int i = 0; i < 4; i++) {
        char part[96];
        snprintf(part, sizeof part, "%s.%s", name, parts[i]);
        inputs[1 + i] = floats(g, part, 1, &channels, values + i * channels);
    }
    free(values);
    return node(g, "BatchNormalization", name, 5, inputs);
}

static const char *classify(graph *g, const char *x, int64_t features) {
    const char *pooled = node(g, "GlobalAveragePool", "pool", 1, &x);
    const char *flat = node(g, "Flatten", "flatten", 1, &pooled);
    const char *w = weight(g, "classifier.weight", 2, (int64_t[]){1000, features}, features);
    const char *b = weight(g, "classifier.bias", 1, (int64_t[]){1000}, 30);
    const char *scores = node(g, "Gemm", "classifier", 3, (const char *[]){flat, w, b});
    attribute_integer(g, "transB", 1);
    node_outputs(g, "Softmax", "softmax", 1, &scores, 1, (const char *[]){"probabilities"});
    return "probabilities";
}

static const char *clip6(graph *g, const char *x) {
    return node(g, "Clip", "", 3, (const char *[]){x, "zero", "six"});
}

model *model_mobilenet_v2(void) {
    /* Table 2 of "MobileNetV2: Inverted Residuals and Linear Bottlenecks": expansion, channels, repeats,
     * stride. */
    static const int64_t stages[7][4] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                                         {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
    model *m = model_new("mobilenet_v2", 13);
    graph *g = m->graph;
    const char *x = graph_input(g, "image", MODEL_FLOAT, 4, (int64_t[]){1, 3, 224, 224});
    floats(g, "zero", 0, NULL, (float[]){0});
    floats(g, "six", 0, NULL, (float[]){6});
    x = clip6(g, convolve(g, "stem", x, (convolution){3, 32, 3, 2, 1}, 1));
    int64_t channels = 32;
    int number = 0;
    for (int stage = 0; stage < 7; stage++) {
        for (int64_t repeat = 0; repeat < stages[stage][2]; repeat++, number++) {
            char name[64];
            int64_t wide = channels * stages[stage][0], out = stages[stage][1];
            int64_t stride = repeat ? 1 : stages[stage][3];
            const char *block = x;
            if (wide != channels) {
                snprintf(name, sizeof name, "block%d.expand", number);
                block = clip6(g, convolve(g, name, block, (convolution){channels, wide, 1, 1, 1}, 1));
            }
            snprintf(name, sizeof name, "block%d.depthwise", number);
            block = clip6(g, convolve(g, name, block, (convolution){wide, wide, 3, stride, wide}, 1));
            snprintf(name, sizeof name, "block%d.project", number);
            block = convolve(g, name, block, (convolution){wide, out, 1, 1, 1}, 1);
            x = stride == 1 && channels == out ? binary(g, "Add", x, block) : block;
            channels = out;
        }
    }
    x = clip6(g, convolve(g, "head", x, (convolution){320, 1280, 1, 1, 1}, 1));
    graph_output(g, classify(g, x, 1280), MODEL_FLOAT, 2, (int64_t[]){1, 1000});
    return m;
}

model *model_resnet18(void) {
    model *m = model_new("resnet18", 13);
    graph *g = m->graph;
    const char *x = graph_input(g, "image", MODEL_FLOAT, 4, (int64_t[]){1, 3, 224, 224});
    x = convolve(g, "stem", x, (convolution){3, 64, 7, 2, 1}, 0);
    x = unary(g, "Relu", normalize(g, "stem.norm", x, 64));
    x = node(g, "MaxPool", "stem.pool", 1, &x);
    attribute_integers(g, "kernel_shape", 2, (int64_t[]){3, 3});
    attribute_integers(g, "strides", 2, (int64_t[]){2, 2});
    attribute_integers(g, "pads", 4, (int64_t[]){1, 1, 1, 1});
    int64_t channels = 64;
    for (int block = 0; block < 8; block++) {
        int64_t out = 64 << (block / 2), stride = out == channels ? 1 : 2;
        char name[64], norm[96];
        const char *shortcut = x, *y = x;
        for (int half = 0; half < 2; half++) {
            snprintf(name, sizeof name, "block%d.conv%d", block, half);
            snprintf(norm, sizeof norm, "%s.norm", name);
            y = convolve(g, name, y, (convolution){half ? out : channels, out, 3, half ? 1 : stride, 1}, 0);
            y = normalize(g, norm, y, out);
            if (!half) y = unary(g, "Relu", y);
        }
        if (stride != 1) {
            snprintf(name, sizeof name, "block%d.shortcut", block);
            snprintf(norm, sizeof norm, "%s.norm", name);
            shortcut =
                normalize(g, norm, convolve(g, name, x, (convolution){channels, out, 1, 2, 1}, 0), out);
        }
        x = unary(g, "Relu", binary(g, "Add", y, shortcut));
        channels = out;
    }
    graph_output(g, classify(g, x, 512), MODEL_FLOAT, 2, (int64_t[]){1, 1000});
    return m;
}

model *model_branches(void) {
    model *m = model_new("branches", 13);
    graph *g = m->graph;
    const char *x = graph_input(g, "image", MODEL_FLOAT, 4, (int64_t[]){1, 16, 32, 32});
    x = unary(g, "Relu", convolve(g, "stem", x, (convolution){16, 32, 3, 1, 1}, 1));
    /* Parallel branches that a Concat joins, as in Inception. */
    const char *a = unary(g, "Relu", convolve(g, "a", x, (convolution){32, 32, 1, 1, 1}, 1));
    const char *b = unary(g, "Relu", convolve(g, "b1", x, (convolution){32, 16, 1, 1, 1}, 1));
    b = unary(g, "Relu", convolve(g, "b2", b, (convolution){16, 32, 3, 1, 1}, 1));
    const char *c = node(g, "MaxPool", "c.pool", 1, &x);
    attribute_integers(g, "kernel_shape", 2, (int64_t[]){3, 3});
    attribute_integers(g, "pads", 4, (int64_t[]){1, 1, 1, 1});
    x = node(g, "Concat", "join", 3, (const char *[]){a, b, c});
    attribute_integer(g, "axis", 1);
    /* Each layer sees all before it, as in DenseNet. */
    for (int layer = 0; layer < 4; layer++) {
        char name[32];
        snprintf(name, sizeof name, "dense%d", layer);
        const char *y =
            unary(g, "Relu", convolve(g, name, x, (convolution){96 + 16 * layer, 16, 3, 1, 1}, 1));
        x = node(g, "Concat", "", 2, (const char *[]){x, y});
        attribute_integer(g, "axis", 1);
    }
    /* Halves that are used one by one and added. */
    integers(g, "halves", 1, (int64_t[]){2}, (int64_t[]){80, 80});
    node_outputs(g, "Split", "split", 2, (const char *[]){x, "halves"}, 2, (const char *[]){"left", "right"});
    attribute_integer(g, "axis", 1);
    const char *sum = binary(g, "Add", unary(g, "Sigmoid", "left"), "right");
    node_outputs(g, "GlobalAveragePool", "mean", 1, &sum, 1, (const char *[]){"features"});
    graph_output(g, "features", MODEL_FLOAT, 4, (int64_t[]){1, 80, 1, 1});
    return m;
}

model *model_way_back(void) {
    model *m = model_new("way_back", 17);
    const int64_t dims[] = {64, 64};
    enum { STEPS = 5 };
    const char *x = graph_input(m->graph, "x", MODEL_FLOAT, 2, dims), *forth[STEPS], *at = x;
    for (int i = 0; i < STEPS; i++) at = forth[i] = binary(m->graph, "MatMul", at, x);
    for (int i = STEPS - 1; i > 0; i--) at = binary(m->graph, "MatMul", at, forth[i - 1]);
    node_outputs(m->graph, "MatMul", "last", 2, (const char *[]){at, x}, 1, (const char *[]){"y"});
    graph_output(m->graph, "y", MODEL_FLOAT, 2, dims);
    return m;
}
