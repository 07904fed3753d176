/* SPDX-License-Identifier: Apache-2.0 */
/* convolution_pairs.c: convolutions of 16-bit numbers in panels of pairs, which instructions of bfloat16 multiply, or which become floats in
 * registers.
 */
#include "runtime/kernels/portable/convolution.h"
#include "runtime/kernels/portable/half_tiles.h"
#include "runtime/kernels/portable/pair_tiles.h"
#include "runtime/kernels/portable/pair_windows.h"
#include <string.h>

enum {
    PAIR_ROWS =
        240, /* filters of a piece in pairs, whose sums lie on the stack, as its panels do: whole tiles of 12 rows */
    PAIR_DEPTH = 512,
    PAIR_TILE = 12,
    FLOAT_DEPTH = 256,   /* of weights of a tile that become floats */
    PAIR_COPIES = 10240, /* weights of a piece that are copied */
    PAGE = 4096          /* bytes: rows that are a multiple of so many apart meet in the nearest cache */
};

/* Weights of some filters in pairs: where they lie, or copied where a row ends amid a pair. */
typedef struct pair_weights {
    const uint16_t *rows;
    int64_t step;
    bool apart; /* rows meet in the nearest cache: some are copied together as they are used */
} pair_weights;

/* Sums of some filters, which lie side by side, in rows of a whole block. `rounded` has as many elements. */
RT_CLONES static void finish_pairs(const convolution_job *job, int64_t filter, int64_t rows, int64_t count,
                                   float *restrict sums, uint16_t *restrict rounded, uint16_t *y) {
    const convolution *shape = job->shape;
    for (int64_t i = 0; i < rows && job->bias; i++) {
        const float bias = (float)rt_element_load(shape->dtype, job->bias, filter + i);
        for (int j = 0; j < RT_WINDOW_POSITIONS; j++) sums[i * RT_WINDOW_POSITIONS + j] += bias;
    }
    rt_activation_floats(&shape->activation, sums, rows * RT_WINDOW_POSITIONS);
    rt_half_store(shape->dtype, rounded, sums, rows * RT_WINDOW_POSITIONS);
    for (int64_t i = 0; i < rows; i++, y += shape->output_size) {
        const uint16_t *line = rounded + i * RT_WINDOW_POSITIONS;
        if (count == RT_WINDOW_POSITIONS) memcpy(y, line, RT_WINDOW_POSITIONS * sizeof *y);
        else memcpy(y, line, (size_t)count * sizeof *y);
    }
}

/* Some filters times a block of panels, from line `from` of the depth on. */
static void add_pairs(const pair_weights *weights, int64_t rows, int64_t from, int64_t depth,
                      const uint16_t *panels, bool add, float *sums) {
    uint16_t copied[PAIR_TILE * PAIR_DEPTH];
    const int64_t pairs = rt_pairs_of(depth), each = weights->apart ? PAIR_TILE : rows;
    for (int64_t row = 0; row < rows; row += each) {
        const int64_t some = rows - row < each ? rows - row : each;
        const uint16_t *a = weights->rows + row * weights->step + from;
        for (int64_t i = 0; i < some && weights->apart; i++)
            memcpy(copied + i * 2 * pairs, a + i * weights->step, (size_t)(2 * pairs) * sizeof *a);
        rt_pair_tiles_run(&(rt_pair_tiles){.rows = some,
                                           .columns = RT_WINDOW_POSITIONS,
                                           .pairs = pairs,
                                           .a = weights->apart ? copied : a,
                                           .a_row = weights->apart ? 2 * pairs : weights->step,
                                           .a_pair = 2,
                                           .panels = panels,
                                           .c = sums + row * RT_WINDOW_POSITIONS,
                                           .c_row = RT_WINDOW_POSITIONS,
                                           .add = add});
    }
}

/* The same where the machine does not multiply pairs: weights become floats, panels do so in registers. */
static void add_floats(op_dtype dtype, const pair_weights *weights, int64_t rows, int64_t from, int64_t depth,
                       const uint16_t *panels, bool add, float *sums) {
    float left[PAIR_TILE * FLOAT_DEPTH];
    for (int64_t row = 0; row < rows; row += PAIR_TILE) {
        const int64_t some = rows - row < PAIR_TILE ? rows - row : PAIR_TILE;
        for (int64_t i = 0; i < some; i++)
            rt_half_load(dtype, left + i * depth, weights->rows + (row + i) * weights->step + from, depth);
        rt_half_tiles_run(&(rt_half_tiles){.dtype = dtype,
                                           .rows = some,
                                           .columns = RT_WINDOW_POSITIONS,
                                           .depth = depth,
                                           .a = left,
                                           .a_row = depth,
                                           .a_depth = 1,
                                           .panels = panels,
                                           .panel_step = rt_pairs_of(depth) * RT_PAIR_ELEMENTS,
                                           .c = sums + row * RT_WINDOW_POSITIONS,
                                           .c_row = RT_WINDOW_POSITIONS,
                                           .add = add});
    }
}

static bool in_pairs(const convolution *shape) {
    return shape->dtype == OP_BFLOAT16 && rt_pairs_here();
}

/* PAIR_ROWS filters at most, and a block of positions; `first` is where their sums lie in the output. Lanes that are no position
 * of the block see zeros. */
static void multiply_pairs(const convolution_job *job, const uint16_t *x, const pair_weights *weights,
                           int64_t filter, int64_t rows, int64_t first, const rt_pair_windows *block) {
    _Alignas(RT_ALIGNMENT) uint16_t panels[RT_WINDOW_POSITIONS * PAIR_DEPTH];
    _Alignas(RT_ALIGNMENT) float sums[PAIR_ROWS * RT_WINDOW_POSITIONS];
    const convolution *shape = job->shape;
    const bool pairs = in_pairs(shape);
    const int64_t depth_all = shape->channels * shape->kernel_size, each = pairs ? PAIR_DEPTH : FLOAT_DEPTH;
    uint16_t *y = (uint16_t *)job->y + first;
    const uint16_t *residual = job->residual ? (const uint16_t *)job->residual + first : y;
    if (job->add && block->count < RT_WINDOW_POSITIONS) memset(sums, 0, sizeof sums);
    for (int64_t i = 0; i < rows && job->add; i++)
        rt_half_load(shape->dtype, sums + i * RT_WINDOW_POSITIONS, residual + i * shape->output_size,
                     block->count);
    for (int64_t from = 0; from < depth_all; from += each) {
        const int64_t depth = depth_all - from < each ? depth_all - from : each;
        const bool add = job->add || from > 0;
        rt_pair_windows_panels(block, x, from, depth, panels);
        if (pairs) add_pairs(weights, rows, from, depth, panels, add, sums);
        else add_floats(shape->dtype, weights, rows, from, depth, panels, add, sums);
    }
    finish_pairs(job, filter, rows, block->count, sums, panels, y);
}

/* How many filters are computed together: their weights are copied where pairs would not end with a row, as many as the copy holds. */
static int64_t rows_of_pairs(const convolution *shape) {
    const int64_t depth = shape->channels * shape->kernel_size;
    if (depth % 2 == 0 || !in_pairs(shape)) return PAIR_ROWS;
    const int64_t most = PAIR_COPIES / (depth + 1);
    return most < PAIR_ROWS ? most : PAIR_ROWS;
}

bool rt_convolution_pairs(const convolution_job *job, int64_t image, int64_t group, int64_t row, int64_t rows,
                          int64_t position, int64_t count) {
    const convolution *shape = job->shape;
    const bool copies = in_pairs(shape) && shape->channels * shape->kernel_size % 2;
    const int64_t depth = shape->channels * shape->kernel_size, step = depth + copies,
                  each = rows_of_pairs(shape);
    const rt_part *inside[3] = {shape->inside[0], shape->inside[1], shape->inside[2]};
    const rt_windows windows = {.input = shape->input,
                                .output = shape->output,
                                .kernel = shape->kernel,
                                .stride = shape->stride,
                                .dilation = shape->dilation,
                                .before = shape->before,
                                .inside = inside};
    uint16_t copied[PAIR_COPIES];
    rt_pair_windows block;
    if (depth == 0 || each == 0 ||
        !rt_pair_windows_begin(&windows, position, count < RT_WINDOW_POSITIONS ? count : RT_WINDOW_POSITIONS,
                               &block))
        return false;
    const uint16_t *x =
        (const uint16_t *)job->x + (image * shape->group + group) * shape->channels * shape->input_size;
    for (int64_t done = 0; done < rows; done += each) {
        const int64_t some = rows - done < each ? rows - done : each,
                      filter = group * shape->filters + row + done,
                      first =
                          (image * shape->group * shape->filters + filter) * shape->output_size + position;
        pair_weights weights = {.rows = (const uint16_t *)job->weights + filter * depth,
                                .step = step,
                                .apart = step * (int64_t)sizeof *copied % PAGE == 0};
        for (int64_t i = 0; i < some && copies; i++) {
            memcpy(copied + i * step, weights.rows + i * depth, (size_t)depth * sizeof *copied);
            copied[i * step + depth] = 0;
        }
        if (copies) weights.rows = copied;
        for (int64_t at = 0; at < count; at += RT_WINDOW_POSITIONS) {
            const int64_t positions = count - at < RT_WINDOW_POSITIONS ? count - at : RT_WINDOW_POSITIONS;
            (void)rt_pair_windows_begin(&windows, position + at, positions, &block);
            multiply_pairs(job, x, &weights, filter, some, first + at, &block);
        }
    }
    return true;
}
