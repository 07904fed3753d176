/* SPDX-License-Identifier: Apache-2.0 */
/* average_channels.c: AveragePool of floats where channels are innermost, or in blocks of 16: vectors of channels, whose sums stay in registers while
 * the window passes.
 *
 * The elements of a window are added in their order, and the sum is divided by how many of them count, as in pool.c: those that lie in the input
 * or, with count_include_pad, in its padding, but never those that ceil_mode puts after it. A window that sees nothing has the average 0.
 */
#include "ir/operators/window.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/lanes.h"
#include <string.h>

enum { LANES = 16 };

typedef struct image {
    bool sums, include_padding;
    int64_t images;   /* those of a batch, or of its blocks of channels */
    int64_t channels; /* of a pixel */
    int64_t input[2], output[2], kernel[2], stride[2], dilation[2], before[2], after[2];
} image;

typedef struct image_job {
    const image *shape;
    const float *x;
    float *y;
} image_job;

static bool accepts(const op_call *call, const rt_environment *environment) {
    const op_type *x = &call->inputs[0].type, *y = &call->outputs[0].type;
    /* Plans for every machine keep to one order of sums, that of row-major images. */
    if (environment->portable_only) return false;
    if (call->code != OP_AVERAGE_POOL || x->dtype != OP_FLOAT || x->shape.rank != 4) return false;
    return x->layout == y->layout && (x->layout == OP_LAYOUT_NHWC || x->layout == OP_LAYOUT_NC16);
}

/* The window elements of one dimension that lie inside of `extent` points at output position `at`. */
static rt_part inside(const image *shape, int dimension, int64_t at, int64_t extent) {
    return rt_part_inside(at * shape->stride[dimension] - shape->before[dimension],
                          shape->dilation[dimension], extent, shape->kernel[dimension]);
}

/* How many window elements of one dimension count. */
static int64_t counted(const image *shape, int dimension, int64_t at) {
    const int64_t extent = shape->input[dimension];
    if (shape->include_padding) return inside(shape, dimension, at, extent + shape->after[dimension]).high;
    const rt_part part = inside(shape, dimension, at, extent);
    return part.high - part.low;
}

/* What a window sees: `height` rows of `width` pixels, so many floats apart. */
typedef struct seen {
    const float *from;
    int64_t height, width, step, next;
    float count; /* what its sum is divided by */
} seen;

/* The average of all channels. */
static inline __attribute__((always_inline)) void average(const seen *window, int64_t channels, float *y) {
    int64_t c = 0;
    for (; c + LANES <= channels; c += LANES) {
        rt_floats_16 sum = {0};
        for (int64_t r = 0; r < window->height; r++) {
            const float *from = window->from + r * window->next + c;
            for (int64_t k = 0; k < window->width; k++, from += window->step) {
                rt_floats_16 some;
                memcpy(&some, from, sizeof some);
                sum += some;
            }
        }
        sum /= window->count;
        memcpy(y + c, &sum, sizeof sum);
    }
    for (; c < channels; c++) {
        float sum = 0;
        for (int64_t r = 0; r < window->height; r++)
            for (int64_t k = 0; k < window->width; k++)
                sum += window->from[r * window->next + k * window->step + c];
        y[c] = sum / window->count;
    }
}

/* One line of the output, of the image at x. */
RT_CLONES static void average_line(const image *shape, const float *x, int64_t line, float *y) {
    const int64_t channels = shape->channels, lead = shape->dilation[1] * (shape->kernel[1] - 1);
    const rt_part rows = inside(shape, 0, line, shape->input[0]);
    const int64_t top = line * shape->stride[0] - shape->before[0] + rows.low * shape->dilation[0],
                  high = counted(shape, 0, line);
    seen window = {.height = rows.high > rows.low ? rows.high - rows.low : 0,
                   .step = shape->dilation[1] * channels,
                   .next = shape->dilation[0] * shape->input[1] * channels};
    for (int64_t column = 0; column < shape->output[1]; column++, y += channels) {
        int64_t left = column * shape->stride[1] - shape->before[1], wide = shape->kernel[1];
        window.width = wide;
        if (left < 0 || left + lead >= shape->input[1]) {
            const rt_part columns = inside(shape, 1, column, shape->input[1]);
            left += columns.low * shape->dilation[1];
            window.width = columns.high > columns.low ? columns.high - columns.low : 0;
            wide = counted(shape, 1, column);
        }
        window.from =
            window.height > 0 && window.width > 0 ? x + (top * shape->input[1] + left) * channels : x;
        window.count = shape->sums || high * wide == 0 ? 1 : (float)(high * wide);
        average(&window, channels, y);
    }
}

static void average_member(void *context, int member, int members) {
    const image_job *job = context;
    const image *shape = job->shape;
    const int64_t input = shape->input[0] * shape->input[1] * shape->channels,
                  output = shape->output[1] * shape->channels, lines = shape->images * shape->output[0];
    for (int64_t line = lines * member / members; line < lines * (member + 1) / members; line++)
        average_line(shape, job->x + line / shape->output[0] * input, line % shape->output[0],
                     job->y + line * output);
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const image *shape = prepared->state;
    image_job job = {.shape = shape, .x = inputs[0].data, .y = outputs[0].data};
    const double work = (double)shape->images * (double)shape->output[0] * (double)shape->output[1] *
                        (double)shape->channels * (double)shape->kernel[0] * (double)shape->kernel[1];
    rt_team_run(work < RT_PARALLEL_WORK ? 1 : prepared->threads, average_member, &job);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    const op_type *x = &call->inputs[0].type;
    const bool blocked = x->layout == OP_LAYOUT_NC16;
    const int64_t channels = x->shape.dims[1], blocks = blocked ? (channels + LANES - 1) / LANES : 1;
    image *shape = BASE_NEW(arena, image);
    if (!shape) return base_fail_memory(report);
    op_window window;
    base_status status = op_window_read(call, NULL, &window, report);
    if (status != BASE_OK) return status;
    *shape = (image){.images = x->shape.dims[0] * blocks,
                     .channels = blocked ? LANES : channels,
                     .sums = op_attribute_integer(&call->attributes, "ouro.sum", 0) != 0,
                     .include_padding = op_attribute_integer(&call->attributes, "count_include_pad", 0) != 0};
    for (int i = 0; i < 2; i++) {
        shape->input[i] = window.input[i];
        shape->output[i] = window.output[i];
        shape->kernel[i] = window.kernel[i];
        shape->stride[i] = window.stride[i];
        shape->dilation[i] = window.dilation[i];
        shape->before[i] = window.before[i];
        shape->after[i] = window.after[i];
    }
    prepared->state = shape;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_average_channels = {
    .name = "portable.average_channels", .accepts = accepts, .prepare = prepare};
