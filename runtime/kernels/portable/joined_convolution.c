/* SPDX-License-Identifier: Apache-2.0 */
/* joined_convolution.c: JoinedConv: a convolution of each channel by itself, of an image whose first rows are in one tensor and whose other rows are
 * in another: those that a band keeps and those that it makes. See stencil.h; on machines without AVX-512 one sum after the other, with the same
 * bits.
 */
#include "runtime/kernels/portable/joined.h"
#include "ir/operators/window.h"
#include "runtime/kernels/portable/activation.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/stencil.h"
#include <math.h>

typedef struct joined_convolution {
    rt_stencil stencil;
    int64_t channels, shuffle; /* shuffle: that of ShuffledConv; 1: channels are in order */
    int64_t from[2], rows[2]; /* of each input: the first row, and how many */
    bool bias;
    float low, high;
} joined_convolution;

typedef struct joined_job {
    const joined_convolution *shape;
    rt_stencil_channels all;
} joined_job;

/* `conv` is a Conv or a ShuffledConv, or what op_joined_read makes of a JoinedConv. */
static bool read_convolution(const op_call *conv, joined_convolution *s) {
    if (conv->input_count < 2) return false;
    const op_type *image = &conv->inputs[0].type, *weights = &conv->inputs[1].type;
    const int64_t channels = image->shape.rank == 4 ? image->shape.dims[1] : 0;
    op_window window;
    rt_activation activation;
    if (image->dtype != OP_FLOAT || image->layout != OP_LAYOUT_ROW_MAJOR || !op_shape_known(&image->shape) ||
        channels < 1 || image->shape.dims[0] != 1 || weights->dtype != OP_FLOAT ||
        weights->layout != OP_LAYOUT_ROW_MAJOR || weights->shape.rank != 4 ||
        !op_shape_known(&weights->shape) || weights->shape.dims[0] != channels ||
        weights->shape.dims[1] != 1 || op_attribute_integer(&conv->attributes, "group", 1) != channels ||
        op_window_read(conv, weights->shape.dims + 2, &window, NULL) != BASE_OK)
        return false;
    *s = (joined_convolution){.channels = channels,
                              .shuffle = op_attribute_integer(&conv->attributes, "shuffle", 1),
                              .bias = op_input_present(conv, 2)};
    if (s->shuffle < 1 || channels % s->shuffle != 0) return false;
    for (int i = 0; i < 2; i++) {
        s->stencil.input[i] = window.input[i];
        s->stencil.output[i] = window.output[i];
        s->stencil.kernel[i] = window.kernel[i];
        s->stencil.stride[i] = window.stride[i];
        s->stencil.dilation[i] = window.dilation[i];
        s->stencil.before[i] = window.before[i];
    }
    return s->stencil.output[0] > 0 && s->stencil.output[1] > 0 && rt_stencil_fits_rows(&s->stencil) &&
           rt_activation_read(&conv->attributes, &activation) &&
           rt_activation_limits(&activation, &s->low, &s->high);
}

bool rt_joined_convolution_stands_for(const op_call *conv) {
    joined_convolution s;
    return (conv->code == OP_CONV || conv->code == OP_SHUFFLED_CONV) && !op_input_present(conv, 3) &&
           read_convolution(conv, &s);
}

static bool read_joined(const op_call *call, joined_convolution *s, base_report *report) {
    op_tensor inputs[OP_JOINED_INPUTS];
    op_call whole;
    size_t count;
    if (op_joined_read(call, inputs, &whole, report) != BASE_OK || !read_convolution(&whole, s)) return false;
    const int64_t *rows = op_attribute_integers(&call->attributes, "rows", &count);
    for (int i = 0; i < 2; i++) {
        s->from[i] = rows[2 * i];
        s->rows[i] = rows[2 * i + 1] - rows[2 * i];
    }
    return true;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    joined_convolution s;
    (void)environment;
    return rt_accepts_row_major(call) && read_joined(call, &s, NULL);
}

/* The channel of the image that the convolution sees as this one. */
static int64_t seen_channel(const joined_convolution *s, int64_t channel) {
    return op_shuffled_channel(channel, s->shuffle, s->channels);
}

/* One sum, as stencil_rows.c makes it. */
static float sum_at(const joined_convolution *s, const rt_stencil_channels *all, int64_t channel, int64_t row,
                    int64_t column) {
    const rt_stencil *of = &s->stencil;
    const float *weights = all->weights + channel * of->kernel[0] * of->kernel[1];
    float sum = all->bias ? all->bias[channel] : 0;
    for (int64_t i = 0; i < of->kernel[0]; i++) {
        const int64_t y = row * of->stride[0] - of->before[0] + i;
        if (y < 0 || y >= of->input[0]) continue;
        const int second = y >= s->rows[0];
        const rt_stencil_piece *piece = &all->pieces[second];
        const float *line =
            piece->x + seen_channel(s, channel) * piece->step + (y - second * s->rows[0]) * of->input[1];
        for (int64_t j = 0; j < of->kernel[1]; j++) {
            const int64_t x = column * of->stride[1] - of->before[1] + j;
            sum = fmaf(x >= 0 && x < of->input[1] ? line[x] : 0, weights[i * of->kernel[1] + j], sum);
        }
    }
    sum = sum < all->low ? all->low : sum;
    return sum > all->high ? all->high : sum;
}

static void run_member(void *context, int member, int members) {
    const joined_job *job = context;
    const joined_convolution *s = job->shape;
    const int64_t first = s->channels * member / members, end = s->channels * (member + 1) / members,
                  size = s->stencil.output[0] * s->stencil.output[1];
    rt_stencil_channels own = job->all;
    if (!s->stencil.by_rows) {
        for (int64_t i = first * size; i < end * size; i++)
            own.y[i] = sum_at(s, &own, i / size, i % size / s->stencil.output[1], i % s->stencil.output[1]);
        return;
    }
    own.count = end - first;
    for (int i = 0; i < 2; i++)
        if (own.pieces[i].x) own.pieces[i].x += seen_channel(s, first) * own.pieces[i].step;
    own.shuffle = s->shuffle;
    own.each = s->channels / s->shuffle;
    own.place = first % s->shuffle;
    own.weights += first * s->stencil.kernel[0] * s->stencil.kernel[1];
    if (own.bias) own.bias += first;
    own.y += first * size;
    rt_stencil_run_rows(&s->stencil, &own);
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const joined_convolution *s = prepared->state;
    joined_job job = {.shape = s,
                      .all = {.weights = inputs[1].data,
                              .bias = s->bias ? inputs[2].data : NULL,
                              .y = outputs[0].data,
                              .low = s->low,
                              .high = s->high}};
    const int64_t width = s->stencil.input[1];
    for (int i = 0; i < 2; i++) {
        const op_tensor *piece = &inputs[i ? op_joined_second(OP_JOINED_CONV) : 0];
        if (s->rows[i] > 0)
            job.all.pieces[i] = (rt_stencil_piece){(const float *)piece->data + s->from[i] * width,
                                                   s->rows[i], piece->type.shape.dims[2] * width};
    }
    const double work = (double)s->channels * (double)s->stencil.output[0] * (double)s->stencil.output[1] *
                        (double)(s->stencil.kernel[0] * s->stencil.kernel[1]);
    rt_team_run(work < RT_PARALLEL_WORK ? 1 : prepared->threads, run_member, &job);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    joined_convolution *s = BASE_NEW(arena, joined_convolution);
    if (!s) return base_fail_memory(report);
    if (!read_joined(call, s, report))
        return base_fail(report, BASE_INVALID, "these rows are of another convolution");
    s->stencil.by_rows = rt_has_wide_vectors(environment) && rt_stencil_by_rows(&s->stencil);
    if (s->stencil.by_rows && !rt_stencil_prepare_rows(&s->stencil, arena)) return base_fail_memory(report);
    prepared->state = s;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_joined_convolution = {
    .name = "portable.joined_convolution", .accepts = accepts, .prepare = prepare};
