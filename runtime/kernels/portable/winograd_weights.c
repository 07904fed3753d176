/* SPDX-License-Identifier: Apache-2.0 */
/* winograd_weights.c: the weights of Winograd's convolution: their transform, and how they are packed; see winograd.c. */
#include "runtime/kernels/portable/winograd.h"
#include <string.h>

enum {
    DOUBLES = 8,  /* of one vector */
    TOGETHER = 64 /* pairs whose weights are transformed together */
};

typedef float floats_8 __attribute__((vector_size(DOUBLES * sizeof(float)), may_alias));
typedef double doubles __attribute__((vector_size(DOUBLES * sizeof(double)), may_alias));

/* G applied to three values: six. */
#define TRANSFORM_3(in, step, out)                                                                           \
    do {                                                                                                     \
        const doubles g0 = (in)[0], g1 = (in)[1 * (step)], g2 = (in)[2 * (step)];                            \
        const doubles ends = (g0 + g2) * (1.0 / 6), far = g0 * (1.0 / 24) + g2 * (1.0 / 6);                  \
        (out)[0] = g0 * 0.25;                                                                                \
        (out)[1] = -(ends + g1 * (1.0 / 6));                                                                 \
        (out)[2] = g1 * (1.0 / 6) - ends;                                                                    \
        (out)[3] = far + g1 * (1.0 / 12);                                                                    \
        (out)[4] = far - g1 * (1.0 / 12);                                                                    \
        (out)[5] = g2;                                                                                       \
    } while (0)

/* The weights of TOGETHER pairs at all points, in double: U = G g G'. */
static inline __attribute__((always_inline)) void transform_together(float (*weights)[TOGETHER],
                                                                     float (*u)[TOGETHER]) {
    for (int i = 0; i < TOGETHER; i += DOUBLES) {
        doubles half[WINDOW][EDGE];
        _Pragma("GCC unroll 3") for (int c = 0; c < WINDOW; c++) {
            doubles g[WINDOW];
            _Pragma("GCC unroll 3") for (int r = 0; r < WINDOW; r++) g[r] =
                __builtin_convertvector(*(const floats_8 *)&weights[r * WINDOW + c][i], doubles);
            TRANSFORM_3(g, 1, half[c]);
        }
        _Pragma("GCC unroll 6") for (int r = 0; r < EDGE; r++) {
            doubles points[EDGE];
            TRANSFORM_3(&half[0][r], EDGE, points);
            _Pragma("GCC unroll 6") for (int c = 0; c < EDGE; c++) * (floats_8 *)&u[r * EDGE + c][i] =
                __builtin_convertvector(points[c], floats_8);
        }
    }
}

/* The same for windows along one axis: what 0, 1, -1, 2, -2, 1/2, -1/2 and infinity make of the weights as a polynomial, scaled. */
static inline __attribute__((always_inline)) void transform_line(float (*weights)[TOGETHER], int64_t count,
                                                                 float (*u)[TOGETHER]) {
    static const double at[LINE_POINTS - 1] = {0, 1, -1, 2, -2, 0.5, -0.5},
                                         scale[LINE_POINTS - 1] = {1,        -2.0 / 9,  -2.0 / 9, 1.0 / 90,
                                                                   1.0 / 90, 32.0 / 45, 32.0 / 45};
    for (int i = 0; i < TOGETHER; i += DOUBLES) {
        _Pragma("GCC unroll 7") for (int p = 0; p < LINE_POINTS - 1; p++) {
            doubles sum = {0};
            _Pragma("GCC unroll 5") for (int64_t k = count; k-- > 0;) sum =
                sum * at[p] + __builtin_convertvector(*(const floats_8 *)&weights[k][i], doubles);
            *(floats_8 *)&u[p][i] = __builtin_convertvector(sum * scale[p], floats_8);
        }
        *(floats_8 *)&u[LINE_POINTS - 1][i] = *(const floats_8 *)&weights[count - 1][i];
    }
}

/* Mostly of TOGETHER floats: a number that is known when this is compiled is copied in registers. */
static inline __attribute__((always_inline)) void copy_together(float *to, const float *from, int64_t count) {
    if (count == TOGETHER) memcpy(to, from, TOGETHER * sizeof *to);
    else memcpy(to, from, (size_t)count * sizeof *to);
}

/* See rt_winograd_transform. The points of some pairs are put together first: written one by one, with a power of two between them, they would
 * push each other out of the caches. */
RT_CLONES static void transform(const winograd *shape, op_dtype dtype, const void *weights, int64_t pairs,
                                int64_t count, float *u, int64_t step) {
    _Alignas(64) float from[WEIGHTS][TOGETHER] = {{0}}, to[POINTS][TOGETHER];
    for (int64_t first = 0; first < count; first += TOGETHER) {
        const int64_t some = count - first < TOGETHER ? count - first : TOGETHER;
        for (int64_t k = 0; k < shape->weights; k++) {
            if (dtype == OP_FLOAT) copy_together(from[k], (const float *)weights + k * pairs + first, some);
            else rt_half_load(dtype, from[k], (const uint16_t *)weights + k * pairs + first, some);
        }
        if (shape->line < 0) transform_together(from, to);
        else if (shape->weights == WINDOW) transform_line(from, WINDOW, to);
        else transform_line(from, MOST_LINE_WEIGHTS, to);
        for (int64_t p = 0; p < shape->points; p++) copy_together(u + p * step + first, to[p], some);
    }
}

void rt_winograd_transform(const winograd *shape, op_dtype dtype, const void *weights, int64_t pairs,
                           int64_t count, float *u, int64_t step) {
    transform(shape, dtype, weights, pairs, count, u, step);
}

/* The order of the pairs. Channels innermost: [panel of filters][channel][RT_PANEL]. Row-major: [filter][channel]. */
static int64_t pair_at(const winograd *shape, int64_t filter, int64_t channel) {
    return is_row_major(shape)
               ? filter * shape->channels + channel
               : (filter / RT_PANEL * shape->channels + channel) * RT_PANEL + filter % RT_PANEL;
}

/* The weights as transform wants them: [weight][pair]. */
base_status rt_winograd_pack_weights(const op_call *call, const rt_environment *environment, uint32_t input,
                                     const op_tensor *plain, void *packed, base_report *report) {
    winograd shape;
    if (input != 1 || !rt_winograd_read(call, environment, true, &shape))
        return base_fail(report, BASE_INVALID, "input %u of this convolution has no Winograd form", input);
    const size_t size = (size_t)shape.element;
    const char *weights = plain->data;
    for (int64_t filter = 0; filter < shape.filters; filter++) {
        for (int64_t channel = 0; channel < shape.channels; channel++) {
            for (int64_t k = 0; k < shape.weights; k++, weights += size)
                memcpy((char *)packed + (size_t)(k * pairs(&shape) + pair_at(&shape, filter, channel)) * size,
                       weights, size);
        }
    }
    return BASE_OK;
}

/* The pair at a place of that order; a filter that is none pads a panel. */
static void find_pair(const winograd *shape, int64_t pair, int64_t *filter, int64_t *channel) {
    const int64_t lane = is_row_major(shape) ? 0 : pair % RT_PANEL;
    const int64_t of = is_row_major(shape) ? pair : pair / RT_PANEL;
    *channel = of % shape->channels;
    *filter = of / shape->channels * (is_row_major(shape) ? 1 : RT_PANEL) + lane;
}

/* Pairs [first, end), transformed: point p of the first comes to u[p * step]. */
static void pack_pairs(const winograd *shape, const void *weights, int64_t first, int64_t end, float *u,
                       int64_t step) {
    for (; first < end; first += TOGETHER, u += TOGETHER) {
        const int64_t some = end - first < TOGETHER ? end - first : TOGETHER;
        float beside[WEIGHTS][TOGETHER];
        for (int64_t i = 0; i < some; i++) {
            int64_t filter, channel;
            find_pair(shape, first + i, &filter, &channel);
            for (int64_t k = 0; k < shape->weights; k++)
                beside[k][i] =
                    filter < shape->filters
                        ? (float)rt_element_load(shape->dtype, weights,
                                                 (filter * shape->channels + channel) * shape->weights + k)
                        : 0;
        }
        transform(shape, OP_FLOAT, beside[0], TOGETHER, some, u, step);
    }
}

/* The same pairs, transformed: [point][pair] in a row-major image, else as u_offset says. */
base_status rt_winograd_pack(const op_call *call, const rt_environment *environment, uint32_t input,
                             const op_tensor *plain, void *packed, base_report *report) {
    winograd shape;
    if (input != 1 || !rt_winograd_read(call, environment, false, &shape))
        return base_fail(report, BASE_INVALID, "input %u of this convolution has no Winograd form", input);
    if (is_row_major(&shape)) {
        pack_pairs(&shape, plain->data, 0, pairs(&shape), packed, pairs(&shape));
        return BASE_OK;
    }
    const int64_t width = shape.channels * RT_PANEL;
    for (int64_t panel = 0; panel * RT_PANEL < shape.columns; panel++) {
        int64_t step;
        float *u = (float *)packed + u_offset(&shape, panel, &step);
        pack_pairs(&shape, plain->data, panel * width, (panel + 1) * width, u, step);
    }
    return BASE_OK;
}
