/* SPDX-License-Identifier: Apache-2.0 */
/* networks.c: see networks.h. */
#include "tests/support/networks.h"
#include "tests/support/support.h"
#include "tests/support/writer.h"
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MOST_TENSORS = 24, TEXT = 1 << 20 };

/* A tensor that the network has made so far. */
typedef struct made {
    int64_t channels, height, width;
    bool read;
} made;

typedef struct network {
    uint64_t seed;
    support_writer constants, nodes;
    made tensors[MOST_TENSORS];
    int count, constant_count;
    int64_t images;
    int64_t block; /* every number of channels is a multiple of this */
} network;

static int64_t draw(network *n, int64_t low, int64_t high) {
    return low + (int64_t)(support_random(&n->seed) % (uint64_t)(high - low + 1));
}

static support_writer new_text(void) {
    char *text = malloc(TEXT);
    assert_non_null(text);
    return support_writer_on(text, TEXT);
}

/* A constant of numbers between -1 and 1. */
static int constant(network *n, const char *shape, int64_t count) {
    support_write(&n->constants, "  constant %%k%d: float32[%s] = {", n->constant_count, shape);
    for (int64_t i = 0; i < count; i++)
        support_write(&n->constants, "%s%.3f", i ? ", " : "", (double)draw(n, -1000, 1000) / 1000);
    support_write(&n->constants, "}\n");
    return n->constant_count++;
}

static void begin_node(network *n, const made *of) {
    support_write(&n->nodes,
                  "    %%t%d: float32[%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "] = ", n->count,
                  n->images, of->channels, of->height, of->width);
    n->tensors[n->count++] = *of;
}

/* One axis of a window: what is drawn, and how many positions it has; 0: it does not fit. */
typedef struct window {
    int64_t kernel, stride, dilation, before, after;
} window;

static window draw_window(network *n, int64_t most) {
    window w = {.kernel = draw(n, 1, most), .stride = draw(n, 0, 3) ? 1 : draw(n, 2, 3)};
    w.dilation = draw(n, 0, 3) ? 1 : draw(n, 2, 3);
    const int64_t extent = (w.kernel - 1) * w.dilation + 1;
    w.before = draw(n, 0, 1) ? extent / 2 : draw(n, 0, extent - 1);
    w.after = draw(n, 0, 1) ? w.before : draw(n, 0, extent - 1);
    return w;
}

static int64_t positions(const window *w, int64_t input, bool ceiling, int same) {
    if (same) return (input + w->stride - 1) / w->stride;
    const int64_t free = input + w->before + w->after - (w->kernel - 1) * w->dilation - 1;
    if (free < 0) return 0;
    int64_t count = free / w->stride + 1;
    if (ceiling && free % w->stride && count * w->stride < input + w->before) count++;
    return count;
}

/* The attributes of a window; no pads where `same` (1: upper, 2: lower) says them. */
static void append_window(network *n, const window *h, const window *w, int same) {
    if (same) support_write(&n->nodes, "auto_pad = \"%s\", ", same == 1 ? "SAME_UPPER" : "SAME_LOWER");
    else
        support_write(&n->nodes, "pads = [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "], ", h->before,
                      w->before, h->after, w->after);
    support_write(&n->nodes,
                  "dilations = [%" PRId64 ", %" PRId64 "], kernel_shape = [%" PRId64 ", %" PRId64
                  "], strides = [%" PRId64 ", %" PRId64 "]",
                  h->dilation, w->dilation, h->kernel, w->kernel, h->stride, w->stride);
}

static int pick(network *n) {
    /* Mostly the last one, so that there are chains. */
    const int from = draw(n, 0, 3) ? n->count - 1 : (int)draw(n, 0, n->count - 1);
    n->tensors[from].read = true;
    return from;
}

static void add_convolution(network *n) {
    const int from = pick(n);
    const made x = n->tensors[from];
    const window h = draw_window(n, 7), w = draw_window(n, 3);
    const int same = draw(n, 0, 4) ? 0 : (int)draw(n, 1, 2);
    made y = {.channels = n->block * draw(n, 1, n->block > 1 ? 2 : 6),
              .height = positions(&h, x.height, false, same),
              .width = positions(&w, x.width, false, same)};
    int64_t group = 1;
    if (!draw(n, 0, 2)) y.channels = group = x.channels;
    else if (n->block == 1 && x.channels % 2 == 0 && y.channels % 2 == 0 && draw(n, 0, 1)) group = 2;
    if (y.height < 1 || y.width < 1) return;
    char shape[64];
    snprintf(shape, sizeof shape, "%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64, y.channels,
             x.channels / group, h.kernel, w.kernel);
    const int weights = constant(n, shape, y.channels * x.channels / group * h.kernel * w.kernel);
    begin_node(n, &y);
    support_write(&n->nodes, "Conv(%%t%d, %%k%d) {", from, weights);
    append_window(n, &h, &w, same);
    support_write(&n->nodes, ", group = %" PRId64 "}\n", group);
}

static void add_pool(network *n) {
    const int from = pick(n);
    const made x = n->tensors[from];
    const window h = draw_window(n, 7), w = draw_window(n, 3);
    const bool ceiling = draw(n, 0, 1), largest = draw(n, 0, 1);
    const int same = draw(n, 0, 4) ? 0 : (int)draw(n, 1, 2);
    const made y = {.channels = x.channels,
                    .height = positions(&h, x.height, ceiling, same),
                    .width = positions(&w, x.width, ceiling, same)};
    if (y.height < 1 || y.width < 1) return;
    begin_node(n, &y);
    support_write(&n->nodes, "%s(%%t%d) {", largest ? "MaxPool" : "AveragePool", from);
    append_window(n, &h, &w, same);
    support_write(&n->nodes, ", ceil_mode = %d", ceiling);
    if (!largest) support_write(&n->nodes, ", count_include_pad = %d", (int)draw(n, 0, 1));
    support_write(&n->nodes, "}\n");
}

static void add_unary(network *n) {
    static const char *const names[] = {"Relu", "Sigmoid", "HardSwish", "Tanh", "Neg"};
    const int from = pick(n);
    const made y = n->tensors[from];
    begin_node(n, &(made){y.channels, y.height, y.width, false});
    support_write(&n->nodes, "%s(%%t%d)\n", names[draw(n, 0, 4)], from);
}

/* Of the same height and width as tensor `of`, with as many channels where `alike`; -1: there is none. */
static int partner(network *n, int of, bool alike) {
    const made *x = &n->tensors[of];
    for (int tries = 0; tries < 20; tries++) {
        const int other = (int)draw(n, 0, n->count - 1);
        const made *y = &n->tensors[other];
        if (other == of || y->height != x->height || y->width != x->width) continue;
        if (!alike || x->channels == y->channels) return other;
    }
    return -1;
}

static void add_residual(network *n) {
    const int from = pick(n), other = partner(n, from, true);
    const made y = n->tensors[from];
    if (other < 0) return;
    n->tensors[other].read = true;
    begin_node(n, &(made){y.channels, y.height, y.width, false});
    support_write(&n->nodes, "%s(%%t%d, %%t%d)\n", draw(n, 0, 2) ? "Add" : "Mul", other, from);
}

static void add_concat(network *n) {
    const int from = pick(n), other = partner(n, from, false);
    if (other < 0 || n->tensors[from].channels + n->tensors[other].channels > 12 * n->block) return;
    const made *x = &n->tensors[from];
    n->tensors[other].read = true;
    begin_node(n, &(made){x->channels + n->tensors[other].channels, x->height, x->width, false});
    support_write(&n->nodes, "Concat(%%t%d, %%t%d) {axis = 1}\n", other, from);
}

static void add_scale(network *n) {
    const int from = pick(n);
    const made y = n->tensors[from];
    char shape[32];
    snprintf(shape, sizeof shape, "%" PRId64 ",1,1", y.channels);
    const int scale = constant(n, shape, y.channels);
    begin_node(n, &(made){y.channels, y.height, y.width, false});
    support_write(&n->nodes, "Mul(%%t%d, %%k%d)\n", from, scale);
}

/* Each row becomes several. */
static void add_rows(network *n) {
    const int from = pick(n);
    const made x = n->tensors[from];
    const int64_t times = draw(n, 2, 3);
    if (x.height > 60) return;
    if (draw(n, 0, 1) && x.channels % (times * times) == 0) {
        begin_node(n, &(made){x.channels / times / times, x.height * times, x.width * times, false});
        support_write(&n->nodes, "DepthToSpace(%%t%d) {blocksize = %" PRId64 ", mode = \"%s\"}\n", from,
                      times, draw(n, 0, 1) ? "DCR" : "CRD");
        return;
    }
    if (draw(n, 0, 1)) {
        char shape[64];
        const int64_t maps = draw(n, 1, 5), stride = draw(n, 1, 3), dilation = draw(n, 1, 2),
                      kernel = draw(n, stride == 1 ? 1 : 2, 6), extent = (kernel - 1) * dilation + 1,
                      before = draw(n, 0, extent - 1), after = extent - stride - before;
        if (extent < stride || x.height * stride > 60) return;
        snprintf(shape, sizeof shape, "%" PRId64 ",%" PRId64 ",%" PRId64 ",2", x.channels, maps, kernel);
        const int weights = constant(n, shape, x.channels * maps * kernel * 2);
        begin_node(n, &(made){maps, x.height * stride, x.width + 1, false});
        support_write(&n->nodes,
                      "ConvTranspose(%%t%d, %%k%d) {dilations = [%" PRId64 ", 1], output_padding = [%" PRId64
                      ", 0], pads = [%" PRId64 ", 0, %" PRId64 ", 0], strides = [%" PRId64 ", 1]}\n",
                      from, weights, dilation, after < 0 ? -after : 0, before, after < 0 ? 0 : after, stride);
        return;
    }
    /* Nearest points of all kinds: rows are not repeated equally often. */
    static const char *const places[] = {"half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"},
                             *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                                   "ceil"};
    const bool linear = draw(n, 0, 1), sized = draw(n, 0, 1), halves = draw(n, 0, 1);
    const int64_t each = linear ? 2 * draw(n, 1, 2) : draw(n, 2, 6), wide = linear ? 1 : draw(n, 1, 2);
    const int list = n->constant_count++;
    if (sized)
        support_write(&n->constants,
                      "  constant %%k%d: int64[4] = {%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "}\n",
                      list, n->images, x.channels, x.height * each, x.width * wide);
    else
        support_write(&n->constants, "  constant %%k%d: float32[4] = {1, 1, %" PRId64 ", %" PRId64 "}\n",
                      list, each, wide);
    begin_node(n, &(made){x.channels, x.height * each, x.width * wide, false});
    support_write(&n->nodes, "Resize(%%t%d, _, %s%%k%d) {mode = \"%s\"", from, sized ? "_, " : "", list,
                  linear ? "linear" : "nearest");
    if (!linear)
        support_write(&n->nodes, ", coordinate_transformation_mode = \"%s\", nearest_mode = \"%s\"",
                      places[draw(n, 0, 3)], roundings[draw(n, 0, 3)]);
    else if (!halves) support_write(&n->nodes, ", coordinate_transformation_mode = \"asymmetric\"");
    support_write(&n->nodes, "}\n");
}

/* Some channels, or all in another order. */
static void add_channels(network *n) {
    const int from = pick(n);
    const made x = n->tensors[from];
    if (x.channels < 2) return;
    if (draw(n, 0, 1)) {
        const int indices = n->constant_count++;
        support_write(&n->constants, "  constant %%k%d: int64[%" PRId64 "] = {", indices, x.channels);
        for (int64_t i = 0; i < x.channels; i++)
            support_write(&n->constants, "%s%" PRId64, i ? ", " : "", (i + 1) % x.channels);
        support_write(&n->constants, "}\n");
        begin_node(n, &(made){x.channels, x.height, x.width, false});
        support_write(&n->nodes, "Gather(%%t%d, %%k%d) {axis = 1}\n", from, indices);
        return;
    }
    /* Without the first channel, and every other row or column from the second on. */
    const int first = n->constant_count, end = first + 1, axes = first + 2, steps = first + 3;
    const bool rows = draw(n, 0, 1);
    const made y = {x.channels - 1, rows ? x.height / 2 : x.height, rows ? x.width : x.width / 2, false};
    if (y.height < 1 || y.width < 1) return;
    n->constant_count += 4;
    support_write(&n->constants,
                  "  constant %%k%d: int64[2] = {1, 1}\n  constant %%k%d: int64[2] = {%" PRId64 ", 1000}\n",
                  first, end, x.channels);
    support_write(&n->constants,
                  "  constant %%k%d: int64[2] = {1, %d}\n  constant %%k%d: int64[2] = {1, 2}\n", axes,
                  rows ? 2 : 3, steps);
    begin_node(n, &y);
    support_write(&n->nodes, "Slice(%%t%d, %%k%d, %%k%d, %%k%d, %%k%d)\n", from, first, end, axes, steps);
}

static int bytes_constant(network *n, const char *shape, int64_t count) {
    support_write(&n->constants, "  constant %%k%d: int8[%s] = {", n->constant_count, shape);
    for (int64_t i = 0; i < count; i++)
        support_write(&n->constants, "%s%d", i ? ", " : "", (int)draw(n, -100, 100));
    support_write(&n->constants, "}\n");
    return n->constant_count++;
}

/* An integer convolution, a pool of bytes, between reals. */
static void add_quantised(network *n) {
    const int from = pick(n), at = n->count;
    const made x = n->tensors[from];
    const window h = draw_window(n, 5), w = draw_window(n, 3);
    const int same = draw(n, 0, 4) ? 0 : (int)draw(n, 1, 2);
    made y = {.channels = n->block * draw(n, 1, n->block > 1 ? 2 : 6),
              .height = positions(&h, x.height, false, same),
              .width = positions(&w, x.width, false, same)};
    int64_t group = 1;
    if (!draw(n, 0, 2)) y.channels = group = x.channels;
    if (y.height < 1 || y.width < 1) return;
    char shape[64];
    snprintf(shape, sizeof shape, "%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64, y.channels,
             x.channels / group, h.kernel, w.kernel);
    const int weights = bytes_constant(n, shape, y.channels * x.channels / group * h.kernel * w.kernel);
    support_write(&n->constants,
                  "  constant %%s%d: float32[] = {0.01}\n  constant %%z%d: int8[] = {%d}\n"
                  "  constant %%y%d: float32[] = {0.5}\n  constant %%w%d: int8[] = {0}\n",
                  at, at, (int)draw(n, -20, 20), at, at);
    support_write(&n->nodes, "    %%a%d: int8[...] = QuantizeLinear(%%t%d, %%s%d, %%z%d)\n", at, from, at,
                  at);
    support_write(
        &n->nodes,
        "    %%b%d: int8[...] = QLinearConv(%%a%d, %%s%d, %%z%d, %%k%d, %%s%d, %%w%d, %%y%d, %%z%d) {", at,
        at, at, at, weights, at, at, at, at);
    append_window(n, &h, &w, same);
    support_write(&n->nodes, ", group = %" PRId64 "}\n", group);
    const bool pooled = y.height > 3 && draw(n, 0, 1);
    if (pooled)
        support_write(&n->nodes,
                      "    %%c%d: int8[...] = MaxPool(%%b%d) {kernel_shape = [2, 1], strides = [2, 1]}\n", at,
                      at);
    if (pooled) y.height /= 2;
    begin_node(n, &y);
    support_write(&n->nodes, "DequantizeLinear(%%%c%d, %%y%d, %%z%d)\n", pooled ? 'c' : 'b', at, at, at);
}

/* Channels in groups, whose order becomes that within the groups. */
static void add_shuffle(network *n) {
    const int from = pick(n);
    const made x = n->tensors[from];
    if (x.channels % 2 || x.channels < 4) return;
    const int split = n->constant_count, whole = split + 1;
    n->constant_count += 2;
    support_write(&n->constants,
                  "  constant %%k%d: int64[5] = {%" PRId64 ", 2, %" PRId64 ", %" PRId64 ", %" PRId64 "}\n",
                  split, n->images, x.channels / 2, x.height, x.width);
    support_write(&n->constants,
                  "  constant %%k%d: int64[4] = {%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "}\n",
                  whole, n->images, x.channels, x.height, x.width);
    support_write(&n->nodes, "    %%s%d: float32[...] = Reshape(%%t%d, %%k%d)\n", n->count, from, split);
    support_write(&n->nodes, "    %%r%d: float32[...] = Transpose(%%s%d) {perm = [0, 2, 1, 3, 4]}\n",
                  n->count, n->count);
    const int number = n->count;
    begin_node(n, &(made){x.channels, x.height, x.width, false});
    support_write(&n->nodes, "Reshape(%%r%d, %%k%d)\n", number, whole);
}

/* One number a channel, of a map that may be large: as it is, or as a scale of the map, after a convolution or not. */
static void add_global(network *n) {
    static const char *const names[] = {"GlobalMaxPool", "GlobalAveragePool"};
    const int from = pick(n);
    const made x = n->tensors[from], y = {x.channels, 1, 1, true};
    const int pooled = n->count;
    if (draw(n, 0, 2)) {
        begin_node(n, &y);
        support_write(&n->nodes, "%s(%%t%d)\n", names[draw(n, 0, 1)], from);
    } else {
        const int axes = n->constant_count++;
        support_write(&n->constants, "  constant %%k%d: int64[2] = {2, %s}\n", axes,
                      draw(n, 0, 1) ? "3" : "-1");
        begin_node(n, &y);
        support_write(&n->nodes, "ReduceMean(%%t%d, %%k%d) {keepdims = 1}\n", from, axes);
    }
    int scale = pooled;
    if (draw(n, 0, 1)) {
        char shape[64];
        snprintf(shape, sizeof shape, "%" PRId64 ",%" PRId64 ",1,1", x.channels, x.channels);
        const int weights = constant(n, shape, x.channels * x.channels);
        scale = n->count;
        begin_node(n, &y);
        support_write(&n->nodes, "Conv(%%t%d, %%k%d)\n", pooled, weights);
    }
    if (draw(n, 0, 1)) {
        begin_node(n, &(made){x.channels, x.height, x.width, false});
        support_write(&n->nodes, "Mul(%%t%d, %%t%d)\n", from, scale);
    } else {
        n->tensors[scale].read = false;
    }
}

static void add_node(network *n) {
    if (n->block == 1 && !draw(n, 0, 6)) {
        static void (*const kinds[])(network *) = {add_rows, add_channels, add_shuffle};
        kinds[draw(n, 0, 2)](n);
        return;
    }
    if (!draw(n, 0, 7)) {
        add_quantised(n);
        return;
    }
    if (!draw(n, 0, 15)) {
        add_global(n);
        return;
    }
    switch (draw(n, 0, 9)) {
    case 0:
    case 1:
    case 2:
    case 3:
        add_convolution(n);
        break;
    case 4:
        add_pool(n);
        break;
    case 5:
        add_unary(n);
        break;
    case 6:
    case 7:
        add_residual(n);
        break;
    case 8:
        add_concat(n);
        break;
    default:
        add_scale(n);
        break;
    }
}

/* Every tensor that nobody reads is a result, and now and then another one. */
static void append_results(network *n, support_writer *to) {
    const char *between = "";
    for (int i = 1; i < n->count; i++) {
        if (n->tensors[i].read && draw(n, 0, 7)) continue;
        support_write(to, "%s%%t%d", between, i);
        between = ", ";
    }
    support_write(to, "\n  }\n}\n");
}

static char *finish(network *n, const char *kind) {
    support_writer to = new_text();
    const made *x = &n->tensors[0];
    support_write(&to,
                  "module \"%s\" {\n%s  graph main(%%t0: float32[%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64
                  "]) {\n%s    yield ",
                  kind, n->constants.text, n->images, x->channels, x->height, x->width, n->nodes.text);
    append_results(n, &to);
    return to.text;
}

char *support_network_of_maps(uint64_t seed, int64_t block, size_t *input_bytes) {
    network n = {.seed = seed, .block = block, .constants = new_text(), .nodes = new_text()};
    n.images = draw(&n, 0, 5) ? 1 : 2;
    begin_node(&n, &(made){block * draw(&n, 1, block > 1 ? 2 : 4), draw(&n, 1, 100), draw(&n, 1, 12), false});
    n.nodes.used = 0;
    const int64_t wanted = draw(&n, 2, 14);
    for (int tries = 0; tries < 60 && n.count <= wanted; tries++) add_node(&n);
    if (!draw(&n, 0, 2)) add_global(&n);
    const made *x = &n.tensors[0];
    *input_bytes = (size_t)(n.images * x->channels * x->height * x->width) * sizeof(float);
    char *text = n.count > 1 ? finish(&n, "bands") : NULL;
    free(n.constants.text);
    free(n.nodes.text);
    return text;
}

/* ---- tokens -------------------------------------------------------------------------------------------- */

/* Of a network of tokens, `channels` is how many numbers a token has, and `height` how many tokens there are. */
static void begin_tokens(network *n, int64_t width) {
    support_write(&n->nodes, "    %%t%d: float32[1,%" PRId64 ",%" PRId64 "] = ", n->count,
                  n->tensors[0].height, width);
    n->tensors[n->count++] = (made){width, n->tensors[0].height, 1, false};
}

static int vector(network *n, int64_t count) {
    char shape[32];
    snprintf(shape, sizeof shape, "%" PRId64, count);
    return constant(n, shape, count);
}

static void add_product(network *n) {
    char shape[48];
    const int from = pick(n);
    const int64_t width = n->tensors[from].channels, wider = 8 * draw(n, 1, 4);
    snprintf(shape, sizeof shape, "%" PRId64 ",%" PRId64, width, wider);
    const int weights = constant(n, shape, width * wider);
    begin_tokens(n, wider);
    support_write(&n->nodes, "MatMul(%%t%d, %%k%d)\n", from, weights);
    if (!draw(n, 0, 1)) return;
    const int bias = vector(n, wider);
    begin_tokens(n, wider);
    n->tensors[n->count - 2].read = true;
    support_write(&n->nodes, "Add(%%t%d, %%k%d)\n", n->count - 2, bias);
}

/* A token less its mean, or over what its squares come to. */
static void add_normalisation(network *n) {
    const int from = pick(n), weights = vector(n, n->tensors[from].channels);
    const int64_t width = n->tensors[from].channels;
    if (draw(n, 0, 1)) {
        begin_tokens(n, width);
        support_write(&n->nodes, "RMSNormalization(%%t%d, %%k%d) {axis = -1}\n", from, weights);
        return;
    }
    support_write(&n->nodes, "    %%m%d: float32[...] = ReduceMean(%%t%d, %%last) {keepdims = 1}\n", n->count,
                  from);
    const int mean = n->count;
    begin_tokens(n, width);
    support_write(&n->nodes, "Sub(%%t%d, %%m%d)\n", from, mean);
}

/* Tokens that look at each other: in two heads, without a projection. */
static void add_attention(network *n) {
    const int from = pick(n), at = n->count;
    const int64_t width = n->tensors[from].channels, tokens = n->tensors[0].height;
    support_write(&n->constants,
                  "  constant %%heads%d: int64[4] = {1, %" PRId64 ", 2, %" PRId64
                  "}\n  constant %%all%d: int64[3] = {1, %" PRId64 ", %" PRId64 "}\n",
                  at, tokens, width / 2, at, tokens, width);
    support_write(&n->nodes,
                  "    %%f%d: float32[...] = Reshape(%%t%d, %%heads%d)\n"
                  "    %%q%d: float32[...] = Transpose(%%f%d) {perm = [0, 2, 1, 3]}\n"
                  "    %%k_%d: float32[...] = Transpose(%%f%d) {perm = [0, 2, 3, 1]}\n"
                  "    %%s%d: float32[...] = MatMul(%%q%d, %%k_%d)\n"
                  "    %%p%d: float32[...] = Softmax(%%s%d) {axis = -1}\n"
                  "    %%h%d: float32[...] = MatMul(%%p%d, %%q%d)\n"
                  "    %%x%d: float32[...] = Transpose(%%h%d) {perm = [0, 2, 1, 3]}\n",
                  at, from, at, at, at, at, at, at, at, at, at, at, at, at, at, at, at);
    begin_tokens(n, width);
    support_write(&n->nodes, "Reshape(%%x%d, %%all%d)\n", at, at);
}

static void add_of_tokens(network *n) {
    static const char *const names[] = {"Relu", "Sigmoid", "Tanh", "Neg"};
    const int from = pick(n);
    begin_tokens(n, n->tensors[from].channels);
    if (draw(n, 0, 3)) support_write(&n->nodes, "%s(%%t%d)\n", names[draw(n, 0, 3)], from);
    else support_write(&n->nodes, "Softmax(%%t%d) {axis = -1}\n", from);
}

static void add_tokens(network *n) {
    const int from = pick(n), other = partner(n, from, true);
    if (other < 0) return;
    n->tensors[other].read = true;
    begin_tokens(n, n->tensors[from].channels);
    support_write(&n->nodes, "%s(%%t%d, %%t%d)\n", draw(n, 0, 2) ? "Add" : "Mul", other, from);
}

char *support_network_of_tokens(uint64_t seed, size_t *input_bytes) {
    static void (*const kinds[])(network *) = {add_product,   add_product, add_normalisation, add_attention,
                                               add_of_tokens, add_tokens,  add_tokens};
    network n = {.seed = seed, .count = 1, .constants = new_text(), .nodes = new_text()};
    support_writer to = new_text();
    n.tensors[0] = (made){8 * draw(&n, 1, 4), draw(&n, 2, 70), 1, false};
    support_write(&n.constants, "  constant %%last: int64[1] = {-1}\n");
    const int64_t wanted = draw(&n, 3, 12);
    while (n.count <= wanted) kinds[draw(&n, 0, 6)](&n);
    support_write(
        &to, "module \"tokens\" {\n%s  graph main(%%t0: float32[1,%" PRId64 ",%" PRId64 "]) {\n%s    yield ",
        n.constants.text, n.tensors[0].height, n.tensors[0].channels, n.nodes.text);
    append_results(&n, &to);
    *input_bytes = (size_t)(n.tensors[0].height * n.tensors[0].channels) * sizeof(float);
    free(n.constants.text);
    free(n.nodes.text);
    return to.text;
}

char *support_network_of_a_layer(int64_t tokens) {
    network n = {.seed = (uint64_t)tokens, .constants = new_text(), .nodes = new_text()};
    support_writer to = new_text();
    constant(&n, "16,16", 256);
    constant(&n, "16,96", 16 * 96);
    constant(&n, "96,16", 16 * 96);
    constant(&n, "16", 16);
    support_write(&n.constants,
                  "  constant %%last: int64[1] = {-1}\n  constant %%heads: int64[4] = {1, %" PRId64
                  ", 2, 8}\n  constant %%all: int64[3] = {1, %" PRId64 ", 16}\n",
                  tokens, tokens);
    support_write(&to,
                  "module \"layer\" {\n%s  graph main(%%x: float32[1,%" PRId64 ",16]) {\n"
                  "    %%m: float32[...] = ReduceMean(%%x, %%last) {keepdims = 1}\n"
                  "    %%c: float32[...] = Sub(%%x, %%m)\n"
                  "    %%v: float32[...] = Mul(%%c, %%k3)\n"
                  "    %%q: float32[...] = MatMul(%%v, %%k0)\n"
                  "    %%q4: float32[...] = Reshape(%%q, %%heads)\n"
                  "    %%qh: float32[...] = Transpose(%%q4) {perm = [0, 2, 1, 3]}\n"
                  "    %%kh: float32[...] = Transpose(%%q4) {perm = [0, 2, 3, 1]}\n"
                  "    %%s: float32[...] = MatMul(%%qh, %%kh)\n"
                  "    %%p: float32[...] = Softmax(%%s) {axis = -1}\n"
                  "    %%h: float32[...] = MatMul(%%p, %%qh)\n"
                  "    %%t: float32[...] = Transpose(%%h) {perm = [0, 2, 1, 3]}\n"
                  "    %%a: float32[...] = Reshape(%%t, %%all)\n"
                  "    %%r: float32[...] = Add(%%a, %%x)\n"
                  "    %%f: float32[...] = MatMul(%%r, %%k1)\n"
                  "    %%g: float32[...] = Relu(%%f)\n"
                  "    %%e: float32[...] = MatMul(%%g, %%k2)\n"
                  "    %%y: float32[1,%" PRId64 ",16] = Add(%%e, %%r)\n"
                  "    yield %%y\n  }\n}\n",
                  n.constants.text, tokens, tokens);
    free(n.constants.text);
    free(n.nodes.text);
    return to.text;
}

/* The format with two lists of so many numbers. */
static char *with_weights(const char *format, int first, int second) {
    char *text = NULL, *lists[2] = {NULL};
    size_t size = 0;
    for (int k = 0; k < 2; k++) {
        FILE *out = open_memstream(&lists[k], &size);
        assert_non_null(out);
        for (int i = 0; i < (k ? second : first); i++)
            (void)fprintf(out, "%s0.%d", i ? ", " : "", 1 + i * 7 % 9);
        (void)fclose(out);
    }
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    (void)fprintf(out, format, lists[0], lists[1]);
    (void)fclose(out);
    free(lists[0]);
    free(lists[1]);
    return text;
}

char *support_network_of_shuffles(size_t *input_bytes) {
    static const char text[] =
        "module \"shuffled\" {\n"
        "  constant %%w: float32[12,1,3,3] = {%s}\n"
        "  constant %%v: float32[12,1,5,5] = {%s}\n"
        "  constant %%s: int64[5] = {1, 2, 6, 22, 18}\n"
        "  constant %%t: int64[4] = {1, 12, 22, 18}\n"
        "  graph main(%%x: float32[1,12,22,18]) {\n"
        "    %%a: float32[1,12,22,18] = Relu(%%x)\n"
        "    %%b: float32[1,2,6,22,18] = Reshape(%%a, %%s)\n"
        "    %%c: float32[1,6,2,22,18] = Transpose(%%b) {perm = [0, 2, 1, 3, 4]}\n"
        "    %%d: float32[1,12,22,18] = Reshape(%%c, %%t)\n"
        "    %%e: float32[1,12,22,18] = Conv(%%d, %%w) {group = 12, pads = [1, 1, 1, 1]}\n"
        "    %%f: float32[1,12,22,18] = Conv(%%e, %%v) {group = 12, pads = [2, 2, 2, 2]}\n"
        "    %%g: float32[1,12,22,18] = Add(%%f, %%e)\n"
        "    %%h: float32[1,12,11,9] = Conv(%%g, %%w) {group = 12, pads = [1, 1, 1, 1], strides = [2, 2]}\n"
        "    yield %%h\n"
        "  }\n"
        "}\n";
    *input_bytes = (size_t)12 * 22 * 18 * sizeof(float);
    return with_weights(text, 12 * 9, 12 * 25);
}

char *support_network_of_joins(size_t *input_bytes) {
    static const char text[] =
        "module \"joined\" {\n"
        "  constant %%w: float32[32,4,3,3] = {%s}\n"
        "  constant %%v: float32[16,64,1,1] = {%s}\n"
        "  graph main(%%x: float32[1,4,24,20]) {\n"
        "    %%a: float32[1,32,24,20] = Conv(%%x, %%w) {pads = [1, 1, 1, 1]}\n"
        "    %%b: float32[1,32,24,20] = Sigmoid(%%a)\n"
        "    %%c: float32[1,64,24,20] = Concat(%%a, %%b) {axis = 1}\n"
        "    %%d: float32[1,64,24,20] = MaxPool(%%c) {kernel_shape = [3, 3], pads = [1, 1, 1, 1]}\n"
        "    %%e: float32[1,64,11,9] = MaxPool(%%d) {kernel_shape = [3, 3], strides = [2, 2]}\n"
        "    %%f: float32[1,16,11,9] = Conv(%%e, %%v)\n"
        "    yield %%f\n"
        "  }\n"
        "}\n";
    *input_bytes = (size_t)4 * 24 * 20 * sizeof(float);
    return with_weights(text, 32 * 36, 16 * 64);
}
