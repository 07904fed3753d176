/* SPDX-License-Identifier: Apache-2.0 */
/* convolution_nhwc.c: Conv in float on images whose channels lie innermost, with weights packed in panels.
 *
 * Each tap of the window is a product of rows of channels with a panel of weights (window_tiles.h); sums stay in registers over
 * all taps, so that nothing is gathered and the result is written once, with bias, residual and limits applied. Groups are
 * products of parts of the rows; one filter for each channel is a loop over channels.
 *
 * The weights: [group][panel of filters][tap][channel][width of the panel], the last panel of a group narrower where that is enough;
 * one filter for each channel: [tap][channel]. One float more is there than that takes, so that their size tells them from weights
 * that oneDNN has packed, which are whole blocks.
 *
 * The work is cut into chunks of positions whose input stays in a near cache while panel after panel passes over it, and these
 * into blocks of the depth that a panel keeps in the nearest one. What is added in which order follows from the shapes alone.
 */
#include "ir/operators/window.h"
#include "runtime/kernels/portable/activation.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/window_tiles.h"
#include <math.h>
#include <string.h>

enum {
    POINTERS = 1024,        /* of a chunk, which lie on the stack */
    CHUNK_FLOATS = 3 << 15, /* of the input that a chunk reads */
    CHUNK_POSITIONS = 240,
    CHUNK_STEP = 24, /* whole tiles of 4, 6 or 8 positions */
    BLOCK_DEPTH = 320,
    PARTS_A_THREAD = 4,
    LEAST_CHANNELS = 8,       /* fewer: rows are too short for a product a tap */
    LEAST_GROUP_CHANNELS = 4, /* the same where other kernels do worse, too */
    FULL_BLOCK = 16           /* what oneDNN's layouts in blocks hold */
};

typedef struct convolution {
    int64_t batch, group, channels, filters; /* channels and filters of one group */
    /* Always three spatial dimensions; the missing ones come first and have extent 1. */
    int64_t input[3], output[3], kernel[3], stride[3], dilation[3], before[3];
    int64_t positions, taps;
    int64_t chunk, chunks, parts; /* positions; how many; parts of all panels */
    int64_t panels;               /* of a group */
    int64_t group_floats;         /* of the packed weights */
    bool bias, residual, padded;
    bool by_channel; /* one filter for each channel */
    rt_activation activation;
    bool limits; /* the activation is done with these: */
    float low, high;
} convolution;

typedef struct convolution_job {
    const convolution *shape;
    const float *x, *weights, *bias, *residual, *zeros;
    float *y;
} convolution_job;

/* ---- what is accepted ---------------------------------------------------------------------------------- */

static bool is_channel_wise(const op_call *call) {
    const op_shape *weights = &call->inputs[1].type.shape;
    const int64_t group = op_attribute_integer(&call->attributes, "group", 1);
    return group > 1 && weights->dims[1] == 1 && weights->dims[0] == group;
}

/* Weights, whose shape is known, in panels; false where these cannot be counted. */
static bool packed_floats(const op_call *call, int64_t *floats) {
    const op_shape *weights = &call->inputs[1].type.shape;
    const int64_t group = op_attribute_integer(&call->attributes, "group", 1);
    if (weights->rank < 3 || weights->rank > 5 || !op_shape_known(weights) || group < 1 ||
        weights->dims[0] % group != 0)
        return false;
    const int64_t filters = weights->dims[0] / group, rest = filters % RT_WINDOW_PANEL;
    int64_t wide = filters - rest +
                   (rest == 0                  ? 0
                    : rest <= RT_WINDOW_NARROW ? RT_WINDOW_NARROW
                                               : RT_WINDOW_PANEL);
    if (is_channel_wise(call)) wide = filters;
    if (!base_int64_multiply(group, wide, floats)) return false;
    for (int32_t i = 1; i < weights->rank; i++)
        if (!base_int64_multiply(*floats, weights->dims[i], floats)) return false;
    int64_t taps = 1;
    for (int32_t i = 2; i < weights->rank; i++) taps *= weights->dims[i];
    return taps <= POINTERS && *floats > 0 && *floats < INT64_MAX / (int64_t)sizeof(float);
}

static bool reads_floats(const op_call *call) {
    rt_activation activation;
    for (uint32_t i = 0; i < call->input_count; i++)
        if (op_input_present(call, i) && call->inputs[i].type.dtype != OP_FLOAT) return false;
    return call->input_count > 1 && rt_activation_read(&call->attributes, &activation);
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    int64_t floats;
    const op_type *weights = &call->inputs[1].type;
    if (!reads_floats(call)) return false;
    if (call->inputs[0].type.layout != OP_LAYOUT_NHWC || call->outputs[0].type.layout != OP_LAYOUT_NHWC)
        return false;
    if (op_input_present(call, 2) && call->inputs[2].type.layout != OP_LAYOUT_ROW_MAJOR) return false;
    if (op_input_present(call, 3) && call->inputs[3].type.layout != OP_LAYOUT_NHWC) return false;
    return weights->layout == OP_LAYOUT_PACKED && packed_floats(call, &floats) &&
           weights->packed_bytes == ((size_t)floats + 1) * sizeof(float);
}

/* Whether these tiles do at least as well as oneDNN's kernels, which are bound to blocks of channels. With registers of 16
 * floats they do so only where groups do not fill these blocks. */
static bool is_worth_it(const op_call *call, op_layout present) {
    const op_shape *weights = &call->inputs[1].type.shape;
    const int64_t group = op_attribute_integer(&call->attributes, "group", 1);
    const int64_t channels = weights->dims[1], filters = weights->dims[0] / group;
    const int lanes = rt_window_lanes();
    if (lanes < RT_WINDOW_NARROW) return false;
    if (is_channel_wise(call) && weights->rank == 4)
        return weights->dims[2] > 1 && present == OP_LAYOUT_NHWC && lanes == RT_WINDOW_NARROW;
    if (group > 1)
        return channels >= LEAST_GROUP_CHANNELS && filters >= LEAST_GROUP_CHANNELS &&
               (lanes == RT_WINDOW_NARROW || channels % FULL_BLOCK != 0 || filters % FULL_BLOCK != 0);
    return lanes == RT_WINDOW_NARROW && channels >= LEAST_CHANNELS;
}

static bool prefer(const op_call *call, const rt_environment *environment, rt_preference *preference) {
    int64_t floats;
    if (call->code != OP_CONV || !reads_floats(call) || !call->inputs[1].data ||
        !packed_floats(call, &floats))
        return false;
    if (environment->portable_only || !is_worth_it(call, preference->inputs[0])) return false;
    *preference = (rt_preference){.output = OP_LAYOUT_NHWC};
    preference->inputs[0] = OP_LAYOUT_NHWC;
    preference->inputs[1] = OP_LAYOUT_PACKED;
    preference->packed_bytes[1] = ((size_t)floats + 1) * sizeof(float);
    if (op_input_present(call, 3)) preference->inputs[3] = OP_LAYOUT_NHWC;
    return true;
}

/* ---- packing ------------------------------------------------------------------------------------------- */

/* Where a weight lies in its packed form. */
typedef struct packing {
    int64_t group, filters, channels, taps, group_floats;
    bool by_channel;
} packing;

static packing packing_of(const op_call *call) {
    const op_shape *weights = &call->inputs[1].type.shape;
    int64_t floats = 0, taps = 1;
    (void)packed_floats(call, &floats);
    for (int32_t i = 2; i < weights->rank; i++) taps *= weights->dims[i];
    const int64_t group = op_attribute_integer(&call->attributes, "group", 1);
    return (packing){.group = group,
                     .filters = weights->dims[0] / group,
                     .channels = weights->dims[1],
                     .taps = taps,
                     .group_floats = floats / group,
                     .by_channel = is_channel_wise(call)};
}

static int64_t panel_width(int64_t filters, int64_t panel) {
    return filters - panel * RT_WINDOW_PANEL <= RT_WINDOW_NARROW ? RT_WINDOW_NARROW : RT_WINDOW_PANEL;
}

static int64_t weight_at(const packing *p, int64_t group, int64_t filter, int64_t channel, int64_t tap) {
    if (p->by_channel) return tap * p->group + group;
    const int64_t panel = filter / RT_WINDOW_PANEL, width = panel_width(p->filters, panel);
    return group * p->group_floats + panel * RT_WINDOW_PANEL * p->taps * p->channels +
           (tap * p->channels + channel) * width + filter % RT_WINDOW_PANEL;
}

/* Copies between the row-major weights and the packed ones. */
static void copy_weights(const op_call *call, float *plain, float *packed, bool pack) {
    const packing p = packing_of(call);
    for (int64_t group = 0; group < p.group; group++) {
        for (int64_t filter = 0; filter < p.filters; filter++) {
            for (int64_t channel = 0; channel < p.channels; channel++) {
                for (int64_t tap = 0; tap < p.taps; tap++, plain++) {
                    float *there = packed + weight_at(&p, group, filter, channel, tap);
                    if (pack) *there = *plain;
                    else *plain = *there;
                }
            }
        }
    }
}

static base_status pack(const op_call *call, const rt_environment *environment, uint32_t input,
                        const op_tensor *source, void *packed, base_report *report) {
    (void)environment;
    if (input != 1) return base_fail(report, BASE_INVALID, "input %u of a convolution is not packed", input);
    copy_weights(call, source->data, packed, true);
    return BASE_OK;
}

static base_status unpack(const op_call *call, const rt_environment *environment, uint32_t input,
                          const op_tensor *packed, void *plain, base_report *report) {
    (void)environment;
    if (input != 1) return base_fail(report, BASE_INVALID, "input %u of a convolution is not packed", input);
    copy_weights(call, plain, packed->data, false);
    return BASE_OK;
}

/* ---- running ------------------------------------------------------------------------------------------- */

/* What `count` positions from `first` on see of an image, tap by tap. */
static void find_rows(const convolution_job *job, const float *image, int64_t first, int64_t count,
                      const float **rows) {
    const convolution *shape = job->shape;
    const int64_t step = shape->group * shape->channels;
    for (int64_t kz = 0; kz < shape->kernel[0]; kz++) {
        for (int64_t ky = 0; ky < shape->kernel[1]; ky++) {
            for (int64_t kx = 0; kx < shape->kernel[2]; kx++) {
                int64_t x = first % shape->output[2], y = first / shape->output[2] % shape->output[1],
                        z = first / shape->output[2] / shape->output[1];
                for (int64_t i = 0; i < count; i++, rows++) {
                    const int64_t iz = z * shape->stride[0] - shape->before[0] + kz * shape->dilation[0],
                                  iy = y * shape->stride[1] - shape->before[1] + ky * shape->dilation[1],
                                  ix = x * shape->stride[2] - shape->before[2] + kx * shape->dilation[2];
                    const bool inside = iz >= 0 && iz < shape->input[0] && iy >= 0 && iy < shape->input[1] &&
                                        ix >= 0 && ix < shape->input[2];
                    *rows = inside ? image + ((iz * shape->input[1] + iy) * shape->input[2] + ix) * step
                                   : job->zeros;
                    if (++x < shape->output[2]) continue;
                    x = 0;
                    if (++y < shape->output[1]) continue;
                    y = 0;
                    z++;
                }
            }
        }
    }
}

/* One panel over a chunk, whose first position and filter is y's: block by block of the depth. */
static void run_panel(const convolution_job *job, const float *const *rows, int64_t count, int64_t group,
                      int64_t panel, float *y, const float *residual) {
    const convolution *shape = job->shape;
    const int64_t first = panel * RT_WINDOW_PANEL, width = panel_width(shape->filters, panel);
    const int64_t depth = shape->channels, filter = group * shape->filters + first;
    const int64_t rest = shape->filters - first;
    const float *weights = job->weights + group * shape->group_floats + first * shape->taps * depth;
    const int64_t deep = depth < BLOCK_DEPTH ? depth : BLOCK_DEPTH, taps = BLOCK_DEPTH / deep;
    rt_window_tile tile = {.positions = count,
                           .filters = rest < width ? rest : width,
                           .narrow = width == RT_WINDOW_NARROW,
                           .row_step = count,
                           .y = y + filter,
                           .y_step = shape->group * shape->filters,
                           .bias = job->bias ? job->bias + filter : NULL,
                           .residual = residual ? residual + filter : NULL,
                           .low = -INFINITY,
                           .high = INFINITY};
    for (int64_t tap = 0; tap < shape->taps; tap += taps) {
        for (int64_t from = 0; from < depth; from += deep) {
            tile.taps = shape->taps - tap < taps ? shape->taps - tap : taps;
            tile.depth = depth - from < deep ? depth - from : deep;
            tile.rows = rows + tap * count;
            tile.shift = group * depth + from;
            tile.panel = weights + (tap * depth + from) * width;
            if (tap + taps >= shape->taps && from + deep >= depth) {
                tile.low = shape->low;
                tile.high = shape->high;
            }
            rt_window_tile_run(&tile);
            tile.add = true;
        }
    }
}

static void run_chunk(const convolution_job *job, int64_t image, int64_t first, int64_t count, int64_t from,
                      int64_t to) {
    const convolution *shape = job->shape;
    const float *rows[POINTERS];
    const int64_t filters = shape->group * shape->filters,
                  begin = (image * shape->positions + first) * filters;
    const int64_t image_floats =
        shape->input[0] * shape->input[1] * shape->input[2] * shape->group * shape->channels;
    float *y = job->y + begin;
    const float *residual = job->residual ? job->residual + begin : NULL;
    find_rows(job, job->x + image * image_floats, first, count, rows);
    if (shape->by_channel) {
        rt_window_channels_run(&(rt_window_tile){.positions = count,
                                                 .filters = filters,
                                                 .taps = shape->taps,
                                                 .depth = filters,
                                                 .rows = rows,
                                                 .row_step = count,
                                                 .panel = job->weights,
                                                 .y = y,
                                                 .y_step = filters,
                                                 .bias = job->bias,
                                                 .residual = residual,
                                                 .low = shape->low,
                                                 .high = shape->high});
    } else {
        for (int64_t panel = from; panel < to; panel++)
            run_panel(job, rows, count, panel / shape->panels, panel % shape->panels, y, residual);
    }
    if (shape->limits) return;
    if (shape->parts == 1) {
        rt_activation_floats(&shape->activation, y, count * filters);
        return;
    }
    const int64_t low = from / shape->panels * shape->filters + from % shape->panels * RT_WINDOW_PANEL,
                  high = to / shape->panels * shape->filters + to % shape->panels * RT_WINDOW_PANEL;
    for (int64_t i = 0; i < count; i++)
        rt_activation_floats(&shape->activation, y + i * filters + low, high - low);
}

static void run_member(void *context, int member, int members) {
    const convolution_job *job = context;
    const convolution *shape = job->shape;
    const int64_t panels = shape->group * shape->panels, items = shape->batch * shape->chunks * shape->parts;
    for (int64_t item = items * member / members; item < items * (member + 1) / members; item++) {
        const int64_t part = item % shape->parts, chunk = item / shape->parts % shape->chunks;
        const int64_t first = chunk * shape->chunk, rest = shape->positions - first;
        run_chunk(job, item / shape->parts / shape->chunks, first, rest < shape->chunk ? rest : shape->chunk,
                  panels * part / shape->parts, panels * (part + 1) / shape->parts);
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)report;
    const convolution *shape = prepared->state;
    convolution_job job = {.shape = shape,
                           .x = inputs[0].data,
                           .weights = inputs[1].data,
                           .bias = shape->bias ? inputs[2].data : NULL,
                           .residual = shape->residual ? inputs[3].data : NULL,
                           .zeros = scratch,
                           .y = outputs[0].data};
    if (shape->positions == 0 || shape->batch == 0) return BASE_OK;
    if (shape->padded) memset(scratch, 0, prepared->scratch_bytes);
    const double work = (double)shape->batch * (double)shape->positions * (double)shape->group *
                        (double)shape->filters * (double)(shape->channels * shape->taps + 1);
    rt_team_run(work < RT_PARALLEL_WORK ? 1 : prepared->threads, run_member, &job);
    return BASE_OK;
}

/* ---- preparing ----------------------------------------------------------------------------------------- */

static void set_chunks(convolution *shape, int threads) {
    const int64_t channels = shape->group * shape->channels;
    int64_t most = CHUNK_FLOATS / channels, pieces;
    if (most < CHUNK_STEP) most = CHUNK_STEP;
    if (most > CHUNK_POSITIONS) most = CHUNK_POSITIONS;
    if (most > POINTERS / shape->taps) most = POINTERS / shape->taps;
    if (most > CHUNK_STEP) most = most / CHUNK_STEP * CHUNK_STEP;
    pieces = (shape->positions + most - 1) / most;
    const int64_t wanted = threads > 1 ? PARTS_A_THREAD * threads : 1;
    if (shape->by_channel && shape->batch * pieces < wanted)
        pieces = (wanted + shape->batch - 1) / shape->batch;
    if (pieces < 1) pieces = 1;
    shape->chunk = (shape->positions + pieces - 1) / pieces;
    if (shape->chunk % 6 && shape->chunk + 6 - shape->chunk % 6 <= most) shape->chunk += 6 - shape->chunk % 6;
    if (shape->chunk < 1) shape->chunk = 1;
    shape->chunks = (shape->positions + shape->chunk - 1) / shape->chunk;
    shape->parts = 1;
    if (shape->by_channel || shape->chunks == 0 || shape->batch == 0) return;
    const int64_t items = shape->batch * shape->chunks, panels = shape->group * shape->panels;
    if (items < wanted) shape->parts = (wanted + items - 1) / items;
    if (shape->parts > panels) shape->parts = panels;
}

/* The activations that only limit are done where sums are written. */
static void set_limits(convolution *shape) {
    const rt_activation *activation = &shape->activation;
    shape->low = -INFINITY;
    shape->high = INFINITY;
    shape->limits = activation->kind == RT_ACTIVATION_NONE || activation->kind == RT_ACTIVATION_RELU ||
                    activation->kind == RT_ACTIVATION_CLIP;
    if (activation->kind == RT_ACTIVATION_RELU) shape->low = 0;
    if (activation->kind == RT_ACTIVATION_CLIP) {
        shape->low = activation->alpha;
        shape->high = activation->beta;
    }
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    const op_shape *x = &call->inputs[0].type.shape;
    convolution *shape = BASE_NEW(arena, convolution);
    if (!shape) return base_fail_memory(report);
    op_window window;
    base_status status = op_window_read(call, call->inputs[1].type.shape.dims + 2, &window, report);
    if (status != BASE_OK) return status;
    const packing p = packing_of(call);
    *shape = (convolution){.batch = x->dims[0],
                           .group = p.group,
                           .channels = p.channels,
                           .filters = p.filters,
                           .positions = 1,
                           .taps = p.taps,
                           .panels = (p.filters + RT_WINDOW_PANEL - 1) / RT_WINDOW_PANEL,
                           .group_floats = p.group_floats,
                           .bias = op_input_present(call, 2),
                           .residual = op_input_present(call, 3),
                           .by_channel = p.by_channel};
    const op_window three = op_window_of_three(&window);
    for (int i = 0; i < 3; i++) {
        shape->input[i] = three.input[i];
        shape->output[i] = three.output[i];
        shape->kernel[i] = three.kernel[i];
        shape->stride[i] = three.stride[i];
        shape->dilation[i] = three.dilation[i];
        shape->before[i] = three.before[i];
        shape->positions *= three.output[i];
        const int64_t last = (three.output[i] - 1) * three.stride[i] - three.before[i] +
                             (three.kernel[i] - 1) * three.dilation[i];
        shape->padded = shape->padded || three.before[i] > 0 || last >= three.input[i];
    }
    rt_activation_read(&call->attributes, &shape->activation);
    set_limits(shape);
    set_chunks(shape, environment->threads);
    prepared->state = shape;
    prepared->run = run;
    const size_t row = (size_t)(shape->group * shape->channels) * sizeof(float);
    if (shape->padded && !base_size_align(row, RT_ALIGNMENT, &prepared->scratch_bytes))
        return base_fail(report, BASE_INVALID, "the tensors are too large");
    return BASE_OK;
}

const rt_kernel rt_kernel_convolution_nhwc = {.name = "portable.convolution_nhwc",
                                              .accepts = accepts,
                                              .prefer = prefer,
                                              .pack = pack,
                                              .unpack = unpack,
                                              .estimate = rt_direct_convolution_estimate,
                                              .prepare = prepare};
