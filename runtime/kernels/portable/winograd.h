/* SPDX-License-Identifier: Apache-2.0 */
/* winograd.h: what the files of Winograd's convolution share: its shape, and how large its parts are; see winograd.c. No other kernel reads
 * this.
 */
#ifndef OURO_WINOGRAD_H
#define OURO_WINOGRAD_H

#include "ir/operators/window.h"
#include "runtime/kernels/portable/product.h"

enum {
    OUTPUTS = 4, /* of a tile, along each axis */
    WINDOW = 3,  /* of the weights, likewise */
    WEIGHTS = WINDOW * WINDOW,
    EDGE = 6, /* of what a tile sees, likewise: OUTPUTS + WINDOW - 1 */
    POINTS = EDGE * EDGE,
    LINE_POINTS = 8, /* of a line: what a tile sees */
    MOST_LINE_WEIGHTS = 5,
    MOST_LINE_OUTPUTS = 6,
    MOST_BLOCKS = 4096,
    LEAST_TILES = 4, /* of any block, where channels lie innermost: with fewer, U is read for too little */
    PANELS = 2,      /* multiplied together: as many as the widest tiles have */
    GROUP = PANELS * RT_PANEL,
    PANELS_EACH = 4,      /* for each of several threads, so that none waits long */
    FEWEST_TOGETHER = 32, /* channels whose weights are transformed together, */
    MOST_TOGETHER = 128,  /* at least and at most: they stay in a near cache */
    PAD =
        16 /* floats between the points of V, and of M: their columns would fall on the same lines of a cache */
};

typedef struct winograd {
    op_layout layout;
    op_dtype dtype;
    int64_t element; /* bytes */
    int64_t images, channels, filters;
    int64_t input[2], output[2], before[2]; /* height, width */
    int line;                               /* the axis along which windows lie; -1: they are 3x3 */
    int64_t points, weights;                /* products of a tile, and of a window, for each pair */
    int64_t covers[2];                      /* outputs of a tile along each axis */
    int64_t grid[2];                        /* tiles in a column and in a row of an image */
    int64_t tiles, tiles_each;              /* in all; of a block, a multiple of the lanes */
    int64_t depth, columns;                 /* channels and filters, rounded up to whole panels */
    int64_t v_point, m_point;               /* floats from one point to the next */
    bool bias, residual;
    bool grouped; /* M holds GROUP filters, and each thread has its own */
    bool shared; /* threads share out tiles, not filters: each reads all weights, which are little beside V */
    bool transforms; /* the weights, in each run */
    int threads;     /* each of which has transformed weights of its own then */
    rt_activation activation;
    bool limits; /* the activation is done with these: */
    float low, high;
} winograd;

static inline int64_t round_up(int64_t value, int64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

static inline bool is_row_major(const winograd *shape) {
    return shape->layout == OP_LAYOUT_ROW_MAJOR;
}

/* Pairs of a channel and a filter, those included that pad a panel of filters. */
static inline int64_t pairs(const winograd *shape) {
    return shape->channels * shape->columns;
}

static inline size_t transformed_bytes(const winograd *shape) {
    return (size_t)(shape->points * pairs(shape)) * sizeof(float);
}

/* Of the constant. */
static inline size_t weights_bytes(const winograd *shape) {
    return shape->transforms ? (size_t)(shape->weights * pairs(shape)) * (size_t)shape->element
                             : transformed_bytes(shape);
}

/* Whether the weights are transformed for some filters at a time, by the thread that uses them. */
static inline bool transforms_apart(const winograd *shape) {
    return shape->transforms && !is_row_major(shape);
}

/* Channels whose weights are transformed together: as many as take no more than V does. */
static inline int64_t own_channels(const winograd *shape) {
    const int64_t wanted = shape->v_point / GROUP / RT_PANEL * RT_PANEL;
    const int64_t most = wanted < FEWEST_TOGETHER ? FEWEST_TOGETHER
                         : wanted > MOST_TOGETHER ? MOST_TOGETHER
                                                  : wanted;
    return shape->channels < most ? shape->channels : most;
}

/* Floats from one point to the next of the weights that a thread transforms. */
static inline int64_t own_point(const winograd *shape) {
    return GROUP * own_channels(shape) + PAD;
}

/* V and M, after U where that is made in each run. */
static inline size_t scratch_before(const winograd *shape) {
    if (!shape->transforms) return 0;
    const size_t bytes = transforms_apart(shape)
                             ? (size_t)(shape->threads * shape->points * own_point(shape)) * sizeof(float)
                             : transformed_bytes(shape);
    return (size_t)round_up((int64_t)bytes, RT_ALIGNMENT);
}

/* Of V and of all M. */
static inline size_t block_bytes(const winograd *shape) {
    const int64_t parts = shape->grouped ? shape->threads : 1;
    return (size_t)(shape->points * (shape->v_point + parts * shape->m_point)) * sizeof(float);
}

static inline size_t scratch_bytes(const winograd *shape) {
    return scratch_before(shape) + block_bytes(shape);
}

/* Filters from one tile of M to the next. */
static inline int64_t row_of_m(const winograd *shape) {
    return shape->grouped && shape->columns > GROUP ? GROUP : shape->columns;
}

/* Transformed weights with channels innermost: [group of panels][point][panel][channel][RT_PANEL], so that those of a group are read one after
 * another. Where a panel begins, and how far it is from there to its next point. */
static inline int64_t u_offset(const winograd *shape, int64_t panel, int64_t *step) {
    const int64_t width = shape->channels * RT_PANEL, group = panel / PANELS * PANELS,
                  rest = shape->columns / RT_PANEL - group;
    *step = (rest < PANELS ? rest : PANELS) * width;
    return group * width * shape->points + (panel - group) * width;
}

/* Reads the convolution of `call`; `transforms`: its weights are transformed in each run. False where it is no convolution of this kind. */
bool rt_winograd_read(const op_call *call, const rt_environment *environment, bool transforms,
                      winograd *shape);

/* Cuts the tiles into so many blocks. */
void rt_winograd_set_blocks(winograd *shape, int64_t blocks);

/* Transforms the weights of `count` pairs. Weight k of pair i lies at weights[k * pairs + i], point p of it comes to u[p * step + i]. */
void rt_winograd_transform(const winograd *shape, op_dtype dtype, const void *weights, int64_t pairs,
                           int64_t count, float *u, int64_t step);

/* rt_kernel.pack of both kernels: pairs of weights in order, [weight][pair], for what transforms them in each run; */
base_status rt_winograd_pack_weights(const op_call *call, const rt_environment *environment, uint32_t input,
                                     const op_tensor *plain, void *packed, base_report *report);

/* and transformed ones: [point][pair] in a row-major image, else as u_offset says. */
base_status rt_winograd_pack(const op_call *call, const rt_environment *environment, uint32_t input,
                             const op_tensor *plain, void *packed, base_report *report);

#endif
