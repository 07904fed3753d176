/* SPDX-License-Identifier: Apache-2.0 */
/* pool_channels.c: MaxPool of floats where channels are innermost: the maximum of rows of channels.
 *
 * Each window element is a row of all channels, contiguous in memory, so that a point of the output is the maximum of some
 * rows, one register after another. The numbers are those of pool.c: a NaN stays, and a window that sees nothing has the lowest
 * number.
 */
#include "ir/operators/window.h"
#include "runtime/kernels/portable/kernels.h"
#include <math.h>

typedef struct image {
    int64_t channels, lines; /* of the output: batch times rows */
    int64_t input[2], output[2], kernel[2], stride[2], dilation[2], before[2];
} image;

typedef struct image_job {
    const image *shape;
    const float *x;
    float *y;
} image_job;

static bool accepts(const op_call *call, const rt_environment *environment) {
    const op_type *x = &call->inputs[0].type, *y = &call->outputs[0].type;
    (void)environment;
    if (call->code != OP_MAX_POOL || x->dtype != OP_FLOAT || x->shape.rank != 4) return false;
    if (call->output_count > 1 && call->outputs[1].type.dtype != OP_NONE) return false;
    return x->layout == OP_LAYOUT_NHWC && y->layout == OP_LAYOUT_NHWC;
}

/* The window elements of one dimension that lie inside of the input at output position `at`. */
static rt_part inside(const image *shape, int dimension, int64_t at) {
    return rt_part_inside(at * shape->stride[dimension] - shape->before[dimension],
                          shape->dilation[dimension], shape->input[dimension], shape->kernel[dimension]);
}

/* One line of the output, of the image at x. */
RT_CLONES static void maximum_line(const image *shape, const float *restrict x, int64_t line,
                                   float *restrict y) {
    const int64_t channels = shape->channels;
    const rt_part rows = inside(shape, 0, line);
    const int64_t top = line * shape->stride[0] - shape->before[0];
    for (int64_t column = 0; column < shape->output[1]; column++, y += channels) {
        const rt_part columns = inside(shape, 1, column);
        const int64_t left = column * shape->stride[1] - shape->before[1];
        for (int64_t c = 0; c < channels; c++) y[c] = -INFINITY;
        for (int64_t r = rows.low; r < rows.high; r++) {
            for (int64_t k = columns.low; k < columns.high; k++) {
                const int64_t row = top + r * shape->dilation[0], at = left + k * shape->dilation[1];
                const float *restrict from = x + (row * shape->input[1] + at) * channels;
                RT_VECTOR for (int64_t c = 0; c < channels; c++) {
                    y[c] = ((from[c] > y[c]) | (from[c] != from[c])) ? from[c] : y[c];
                }
            }
        }
    }
}

static void pool_member(void *context, int member, int members) {
    const image_job *job = context;
    const image *shape = job->shape;
    const int64_t input = shape->input[0] * shape->input[1] * shape->channels,
                  output = shape->output[1] * shape->channels;
    for (int64_t line = member; line < shape->lines; line += members)
        maximum_line(shape, job->x + line / shape->output[0] * input, line % shape->output[0],
                     job->y + line * output);
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const image *shape = prepared->state;
    image_job job = {.shape = shape, .x = inputs[0].data, .y = outputs[0].data};
    const double work = (double)shape->lines * (double)shape->output[1] * (double)shape->channels *
                        (double)shape->kernel[0] * (double)shape->kernel[1];
    rt_team_run(work < RT_PARALLEL_WORK ? 1 : prepared->threads, pool_member, &job);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    const op_shape *x = &call->inputs[0].type.shape;
    image *shape = BASE_NEW(arena, image);
    if (!shape) return base_fail_memory(report);
    op_window window;
    base_status status = op_window_read(call, NULL, &window, report);
    if (status != BASE_OK) return status;
    *shape = (image){.channels = x->dims[1], .lines = x->dims[0] * window.output[0]};
    for (int i = 0; i < 2; i++) {
        shape->input[i] = window.input[i];
        shape->output[i] = window.output[i];
        shape->kernel[i] = window.kernel[i];
        shape->stride[i] = window.stride[i];
        shape->dilation[i] = window.dilation[i];
        shape->before[i] = window.before[i];
    }
    prepared->state = shape;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_pool_channels = {
    .name = "portable.pool_channels", .accepts = accepts, .prepare = prepare};
