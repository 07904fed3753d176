/* SPDX-License-Identifier: Apache-2.0 */
/* pointwise.c: Conv of windows of one point at stride 1 on row-major images, in float, float16 and bfloat16: products of small matrices,
 * one for each group.
 *
 *     Y[filter][point] = activation(sum over channels of W[filter][channel] * X[channel][point] + bias + residual)
 *
 * A panel of points, two vectors wide (the last one of a map up to three), is copied from all channels of a group; tiles of up to 6 filters
 * pass over it, whose sums stay in registers, and which write the result once, finished. The filters of a group are dealt out to tiles
 * evenly: none is padded.
 *
 * The weights: [group][tile][channel][filter of the tile], as many as before; in bfloat16 [pair of channels][filter][2] of a tile. Products
 * and their sums are rounded once where the machine can. What is added in which order follows from the shapes alone: results do not depend
 * on the number of threads.
 *
 * Of 16 bits, the points of some panels and the weights of a tile become floats as they are copied, or stay pairs where the processor
 * multiplies these; sums are floats, finished as such, and rounded once.
 */
#include "ir/operators/window.h"
#include "runtime/kernels/portable/activation.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/half_rows.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/pointwise_tiles.h"
#include <math.h>
#include <string.h>

enum {
    MOST_ROWS = RT_POINTWISE_MOST_ROWS,
    MOST_WIDTH = RT_POINTWISE_WIDTH,
    /* Fewer channels are as fast where they are read directly, fewer filters have too few sums to fill the time that an addition takes. Of groups
     * that holds no more: with so few channels there is little to add up. */
    LEAST_CHANNELS = 4,
    LEAST_FILTERS = 3,
    GROUP_CHANNELS = 2,
    STREAM_CHANNELS = 8, /* of a group, at most, that are read where they lie */
    STREAM_POINTS = 512, /* at once, a multiple of what any vector holds */
    DEPTH = 256,         /* channels of a panel, which lies on the stack; in 16 bits, of a group at most */
    MOST_PANELS = 4      /* of 16 bits, that the weights of a tile are widened for */
};

typedef struct pointwise {
    const rt_pointwise_tiles *set; /* the first: see pointwise_tiles.h */
    op_dtype dtype;
    int64_t images, group, channels, filters; /* channels and filters of one group */
    int64_t depth;                            /* of the weights: channels, to whole pairs in bfloat16 */
    int64_t points;                           /* of one map */
    int64_t tiles;                            /* of the filters of a group */
    int64_t panels;                           /* that are computed together */
    bool bias, residual;
    rt_activation activation;
    bool limits; /* the activation is done with these: */
    float low, high;
} pointwise;

typedef struct pointwise_job {
    const pointwise *shape;
    const void *x, *weights, *bias, *residual;
    void *y;
} pointwise_job;

/* ---- shapes -------------------------------------------------------------------------------------------- */

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* False where the application is no convolution of this kind. */
static bool read_shape(const op_call *call, pointwise *shape) {
    const op_type *x = &call->inputs[0].type, *y = &call->outputs[0].type;
    const op_shape *weights = &call->inputs[1].type.shape;
    op_window window;
    if (call->code != OP_CONV || !(x->dtype == OP_FLOAT || rt_is_half(x->dtype)) || x->shape.rank < 3 ||
        weights->rank != x->shape.rank)
        return false;
    if (!op_shape_known(&x->shape) || !op_shape_known(&y->shape) || !op_shape_known(weights)) return false;
    if (x->layout != OP_LAYOUT_ROW_MAJOR || y->layout != OP_LAYOUT_ROW_MAJOR) return false;
    if (op_window_read(call, weights->dims + 2, &window, NULL) != BASE_OK) return false;
    *shape = (pointwise){.dtype = x->dtype,
                         .images = x->shape.dims[0],
                         .group = op_attribute_integer(&call->attributes, "group", 1),
                         .channels = weights->dims[1],
                         .points = 1,
                         .bias = op_input_present(call, 2),
                         .residual = op_input_present(call, 3)};
    for (int32_t i = 0; i < window.rank; i++) {
        if (window.kernel[i] != 1 || window.stride[i] != 1 || window.before[i] != 0 ||
            window.input[i] != window.output[i])
            return false;
        shape->points *= window.output[i];
    }
    if (shape->group < 1 || shape->images < 1 || shape->points < 1) return false;
    shape->filters = weights->dims[0] / shape->group;
    shape->tiles = (shape->filters + MOST_ROWS - 1) / MOST_ROWS;
    const bool groups = shape->group > 1;
    if (shape->filters < (groups ? RT_POINTWISE_LEAST_ROWS : LEAST_FILTERS) ||
        shape->channels < (groups ? GROUP_CHANNELS : LEAST_CHANNELS))
        return false;
    if (rt_is_half(shape->dtype) && shape->channels > DEPTH) return false;
    shape->depth = shape->dtype == OP_BFLOAT16 ? (shape->channels + 1) / 2 * 2 : shape->channels;
    shape->panels = rt_is_half(shape->dtype) ? least(DEPTH / shape->depth, MOST_PANELS) : 1;
    if (shape->residual && call->inputs[3].type.layout != OP_LAYOUT_ROW_MAJOR) return false;
    if (!rt_activation_read(&call->attributes, &shape->activation)) return false;
    shape->limits = rt_activation_limits(&shape->activation, &shape->low, &shape->high);
    return true;
}

static size_t packed_bytes(const pointwise *shape) {
    const size_t element = shape->dtype == OP_FLOAT ? sizeof(float) : sizeof(uint16_t);
    return (size_t)(shape->group * shape->filters * shape->depth) * element;
}

/* The first filter of a tile; that of the tile after the last one is the number of filters. */
static int64_t first_filter(const pointwise *shape, int64_t tile) {
    return shape->filters * tile / shape->tiles;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    pointwise shape;
    const op_type *weights = &call->inputs[1].type;
    return read_shape(call, &shape) && weights->layout == OP_LAYOUT_PACKED &&
           weights->packed_bytes == packed_bytes(&shape) &&
           (!shape.bias || call->inputs[2].type.layout == OP_LAYOUT_ROW_MAJOR);
}

static bool estimate(const op_call *call, const rt_environment *environment, size_t scratch_limit,
                     rt_cost *cost) {
    pointwise shape;
    (void)scratch_limit;
    if (!read_shape(call, &shape)) return false;
    const double products = (double)shape.images * (double)shape.points * (double)shape.channels *
                            (double)shape.filters * (double)shape.group;
    *cost = (rt_cost){.seconds = rt_pointwise_seconds(shape.dtype, products, environment),
                      .packed_bytes = packed_bytes(&shape)};
    return true;
}

static base_status pack(const op_call *call, const rt_environment *environment, uint32_t input,
                        const op_tensor *plain, void *packed, base_report *report) {
    (void)environment;
    pointwise shape;
    if (input != 1 || !read_shape(call, &shape))
        return base_fail(report, BASE_INVALID, "input %u of this convolution is not packed", input);
    const size_t element = shape.dtype == OP_FLOAT ? sizeof(float) : sizeof(uint16_t);
    const int64_t side = shape.dtype == OP_BFLOAT16 ? 2 : 1; /* channels that lie side by side */
    const char *from = plain->data;
    for (int64_t group = 0; group < shape.group; group++) {
        for (int64_t tile = 0; tile < shape.tiles; tile++) {
            const int64_t first = first_filter(&shape, tile), rows = first_filter(&shape, tile + 1) - first;
            char *to = (char *)packed + (size_t)((group * shape.filters + first) * shape.depth) * element;
            for (int64_t row = 0; row < rows; row++) {
                for (int64_t channel = 0; channel < shape.channels; channel++, from += element) {
                    const int64_t at = (channel / side * rows + row) * side + channel % side;
                    memcpy(to + (size_t)at * element, from, element);
                }
            }
        }
    }
    return BASE_OK;
}

/* ---- running ------------------------------------------------------------------------------------------- */

/* `count` points of `depth` channels: whole vectors, and zeros after them. */
static void copy_panel(const float *x, int64_t points, int64_t depth, int64_t count, int64_t width,
                       float *panel) {
#define COPY(COUNT)                                                                                          \
    case COUNT:                                                                                              \
        for (int64_t k = 0; k < depth; k++) memcpy(panel + k * width, x + k * points, COUNT * sizeof *x);    \
        break;
    switch (count == width || 2 * count == width ? count : 0) {
        COPY(32)
        COPY(16)
        COPY(8)
    default:
        for (int64_t k = 0; k < depth; k++)
            for (int64_t i = 0; i < width; i++) panel[k * width + i] = i < count ? x[k * points + i] : 0;
    }
#undef COPY
}

/* Points of the last panel, fewer than its vectors hold, pass through memory beside. */
static void run_edge(rt_pointwise_function *run, const rt_pointwise_tile *whole, int64_t rows,
                     int64_t count) {
    float y[MOST_ROWS * MOST_WIDTH], from[MOST_ROWS * MOST_WIDTH] = {0};
    rt_pointwise_tile beside = *whole;
    beside.y = y;
    beside.row = MOST_WIDTH;
    beside.from = whole->from ? from : NULL;
    for (int64_t r = 0; whole->from && r < rows; r++)
        for (int64_t i = 0; i < count; i++) from[r * MOST_WIDTH + i] = whole->from[r * whole->row + i];
    run(&beside);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < count; i++) whole->y[r * whole->row + i] = y[r * MOST_WIDTH + i];
}

/* A tile at `count` points. */
static void run_points(const rt_pointwise_tiles *set, const rt_pointwise_tile *tile, int64_t rows,
                       int64_t count) {
    const int64_t row = rows - RT_POINTWISE_LEAST_ROWS, vector = (count - 1) / set->lanes;
    rt_pointwise_function *run = set->run[vector][row];
    if (count % set->lanes == 0) run(tile);
    else if (set->copy_edge) set->edge[vector][row](tile);
    else run_edge(run, tile, rows, count);
}

/* All filters of a group of an image at `count` points from `point` on. */
static void run_panel(const pointwise_job *job, int64_t image_group, int64_t point, int64_t count) {
    _Alignas(RT_ALIGNMENT) float panel[DEPTH * RT_POINTWISE_LAST];
    static const float zeros[MOST_ROWS];
    const pointwise *shape = job->shape;
    const rt_pointwise_tiles *set = shape->set;
    const float *bias = job->bias;
    const int64_t group = image_group % shape->group,
                  width = (count > 2 * set->lanes ? 4 : 2) * set->lanes; /* of a row of the panel */
    const int64_t first_row = image_group * shape->filters * shape->points + point;
    const float *x = (const float *)job->x + image_group * shape->channels * shape->points + point;
    const int64_t over = count % set->lanes, tail = set->tail && over <= RT_POINTWISE_TAIL ? over : 0,
                  full = count - tail;
    for (int64_t from = 0; from < shape->channels; from += DEPTH) {
        const bool last = shape->channels - from <= DEPTH;
        const int64_t depth = last ? shape->channels - from : DEPTH;
        const float *weights = (const float *)job->weights + group * shape->filters * shape->channels;
        const float *before = from > 0 ? job->y : job->residual;
        const bool edge = count != width && count != set->lanes;
        if (edge && set->copy_edge)
            set->copy_edge(x + from * shape->points, shape->points, depth, count, width, panel);
        else copy_panel(x + from * shape->points, shape->points, depth, count, width, panel);
        rt_pointwise_tile last_points[RT_POINTWISE_TAIL_TILES];
        int64_t last_rows[RT_POINTWISE_TAIL_TILES];
        int waiting = 0; /* of these */
        for (int64_t t = 0; t < shape->tiles; t++) {
            const int64_t filter = first_filter(shape, t), rows = first_filter(shape, t + 1) - filter;
            const int64_t at = first_row + filter * shape->points;
            rt_pointwise_tile one = {.depth = depth,
                                     .weights = weights + (filter * shape->channels + from * rows),
                                     .panel = panel,
                                     .panel_row = width,
                                     .bias =
                                         bias && from == 0 ? bias + group * shape->filters + filter : zeros,
                                     .from = before ? before + at : NULL,
                                     .y = (float *)job->y + at,
                                     .row = shape->points,
                                     .low = last ? shape->low : -INFINITY,
                                     .high = last ? shape->high : INFINITY,
                                     .points = full};
            if (full) run_points(set, &one, rows, full);
            if (!tail) continue;
            one.panel += full;
            one.y += full;
            if (one.from) one.from += full;
            one.points = tail;
            last_points[waiting] = one;
            last_rows[waiting++] = rows;
            if (waiting < RT_POINTWISE_TAIL_TILES && t + 1 < shape->tiles) continue;
            set->tail(last_points, last_rows, waiting);
            waiting = 0;
        }
        float *y = (float *)job->y + first_row;
        for (int64_t r = 0; r < shape->filters && last && !shape->limits; r++)
            rt_activation_floats(&shape->activation, y + r * shape->points, count);
    }
}

/* The same, without a panel. */
static void run_stream(const pointwise_job *job, int64_t image_group, int64_t point, int64_t count) {
    static const float zeros[MOST_ROWS];
    const pointwise *shape = job->shape;
    const int64_t group = image_group % shape->group, points = shape->points;
    const float *weights = (const float *)job->weights + group * shape->filters * shape->channels,
                *residual = job->residual, *bias = job->bias;
    const int64_t at = image_group * shape->filters * points + point;
    float *y = (float *)job->y + at;
    for (int64_t t = 0; t < shape->tiles; t++) {
        const int64_t filter = first_filter(shape, t), rows = first_filter(shape, t + 1) - filter;
        const rt_pointwise_tile tile = {.depth = shape->channels,
                                        .weights = weights + filter * shape->channels,
                                        .panel = (const float *)job->x +
                                                 image_group * shape->channels * points + point,
                                        .panel_row = points,
                                        .bias = bias ? bias + group * shape->filters + filter : zeros,
                                        .from = residual ? residual + at + filter * points : NULL,
                                        .y = y + filter * points,
                                        .row = points,
                                        .low = shape->low,
                                        .high = shape->high,
                                        .points = count};
        shape->set->stream[rows - RT_POINTWISE_LEAST_ROWS](&tile);
    }
    for (int64_t r = 0; r < shape->filters && !shape->limits; r++)
        rt_activation_floats(&shape->activation, y + r * points, count);
}

/* ---- 16 bits --------------------------------------------------------------------------------------------- */

typedef uint32_t pair __attribute__((may_alias));

/* `count` elements, and zeros after them to `width`. */
static inline void copy_row(uint16_t *to, const uint16_t *from, int64_t count, int64_t width) {
    if (count == MOST_WIDTH) memcpy(to, from, MOST_WIDTH * sizeof *to);
    else memcpy(to, from, (size_t)count * sizeof *to);
    for (int64_t i = count; i < width; i++) to[i] = 0;
}

RT_CLONES static void join_pairs(const uint16_t *restrict first, const uint16_t *restrict second,
                                 int64_t count, pair *restrict to) {
    for (int64_t i = 0; i < count; i++) to[i] = first[i] | (uint32_t)second[i] << 16;
}

/* The weights of a tile in bfloat16, whose channels lie in pairs, as floats. */
RT_CLONES static void split_pairs(const uint16_t *restrict from, int64_t rows, int64_t depth,
                                  pair *restrict to) {
    for (int64_t k = 0; k < depth; k += 2, from += 2 * rows, to += 2 * rows) {
        for (int64_t r = 0; r < rows; r++) {
            to[r] = (uint32_t)from[2 * r] << 16;
            to[rows + r] = (uint32_t)from[2 * r + 1] << 16;
        }
    }
}

/* `count` points of all channels as the tiles read them: whole panels, zeros where there is nothing. */
static void enter_panel(const pointwise *shape, const uint16_t *x, int64_t count, float *panel) {
    const int64_t width = 2 * shape->set->lanes;
    if (!shape->set->pairs) {
        rt_half_rows_load(shape->dtype, x, shape->points, shape->channels, count, width, panel);
        memset(panel + shape->channels * width, 0,
               (size_t)((shape->depth - shape->channels) * width) * sizeof *panel);
        return;
    }
    for (int64_t k = 0; k < shape->channels; k += 2, x += 2 * shape->points) {
        uint16_t rows[2][MOST_WIDTH];
        copy_row(rows[0], x, count, width);
        copy_row(rows[1], x + shape->points, k + 1 < shape->channels ? count : 0, width);
        join_pairs(rows[0], rows[1], width, (pair *)(void *)panel + k / 2 * width);
    }
}

/* A tile at `count` points: sums in floats, which are finished, and rounded. */
static void run_tile(const pointwise_job *job, rt_pointwise_tile *tile, int64_t rows, int64_t at,
                     int64_t count) {
    _Alignas(RT_ALIGNMENT) float sums[MOST_ROWS * MOST_WIDTH], from[MOST_ROWS * MOST_WIDTH];
    const pointwise *shape = job->shape;
    const rt_pointwise_tiles *set = shape->set;
    const int64_t width = count > set->lanes ? 2 * set->lanes : set->lanes;
    const uint16_t *residual = job->residual;
    tile->row = width;
    tile->y = sums;
    tile->from = residual ? from : NULL;
    if (residual) rt_half_rows_load(shape->dtype, residual + at, shape->points, rows, count, width, from);
    set->run[count > set->lanes][rows - RT_POINTWISE_LEAST_ROWS](tile);
    if (!shape->limits) rt_activation_floats(&shape->activation, sums, rows * width);
    rt_half_rows_store(shape->dtype, sums, width, rows, count, (uint16_t *)job->y + at, shape->points);
}

/* All filters of a group of an image at `count` points from `point` on: of some panels. */
static void run_halves(const pointwise_job *job, int64_t image_group, int64_t point, int64_t count) {
    _Alignas(RT_ALIGNMENT) float panels[DEPTH * MOST_WIDTH];
    _Alignas(RT_ALIGNMENT) float weights[DEPTH * MOST_ROWS];
    const pointwise *shape = job->shape;
    const bool pairs = shape->set->pairs;
    const int64_t width = 2 * shape->set->lanes, first = image_group % shape->group * shape->filters,
                  depth = pairs ? shape->depth / 2 : shape->depth, step = depth * width;
    const uint16_t *x = (const uint16_t *)job->x + image_group * shape->channels * shape->points + point;
    for (int64_t i = 0; i * width < count; i++)
        enter_panel(shape, x + i * width, least(count - i * width, width), panels + i * step);
    for (int64_t t = 0; t < shape->tiles; t++) {
        const int64_t filter = first_filter(shape, t), rows = first_filter(shape, t + 1) - filter;
        const uint16_t *packed = (const uint16_t *)job->weights + (first + filter) * shape->depth;
        float bias[MOST_ROWS] = {0};
        if (job->bias) rt_half_load(shape->dtype, bias, (const uint16_t *)job->bias + first + filter, rows);
        if (!pairs && shape->dtype == OP_BFLOAT16)
            split_pairs(packed, rows, shape->depth, (pair *)(void *)weights);
        else if (!pairs) rt_half_load(shape->dtype, weights, packed, rows * shape->depth);
        rt_pointwise_tile tile = {.depth = depth,
                                  .weights = pairs ? (const void *)packed : weights,
                                  .bias = bias,
                                  .low = shape->low,
                                  .high = shape->high};
        for (int64_t i = 0; i * width < count; i++) {
            tile.panel = panels + i * step;
            run_tile(job, &tile, rows,
                     (image_group * shape->filters + filter) * shape->points + point + i * width,
                     least(count - i * width, width));
        }
    }
}

/* ---- all of it ------------------------------------------------------------------------------------------- */

static void run_member(void *context, int member, int members) {
    const pointwise_job *job = context;
    const pointwise *shape = job->shape;
    const rt_pointwise_tiles *set = shape->set;
    const bool streams = set->stream[0] && shape->dtype == OP_FLOAT && shape->channels <= STREAM_CHANNELS;
    const int64_t width = streams ? STREAM_POINTS : 2 * set->lanes * shape->panels,
                  rest = shape->points % width;
    /* What is left after whole panels goes with the last one of them, where that makes three vectors: one alone has too few sums. */
    const bool joins = set->three && !streams && shape->dtype == OP_FLOAT && shape->points > width &&
                       rest > RT_POINTWISE_TAIL && rest <= set->lanes + RT_POINTWISE_TAIL;
    const int64_t strips = (shape->points + width - 1) / width - joins;
    const int64_t items = shape->images * shape->group * strips;
    for (int64_t i = items * member / members; i < items * (member + 1) / members; i++) {
        const int64_t strip = i % strips, point = strip * width,
                      count = strip == strips - 1 ? shape->points - point : width;
        (streams                    ? run_stream
         : shape->dtype == OP_FLOAT ? run_panel
                                    : run_halves)(job, i / strips, point, count);
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const pointwise *shape = prepared->state;
    pointwise_job job = {.shape = shape,
                         .x = inputs[0].data,
                         .weights = inputs[1].data,
                         .bias = shape->bias ? inputs[2].data : NULL,
                         .residual = shape->residual ? inputs[3].data : NULL,
                         .y = outputs[0].data};
    const double work = (double)shape->images * (double)shape->points * (double)shape->channels *
                        (double)shape->filters * (double)shape->group;
    rt_team_run(work < RT_PARALLEL_WORK ? 1 : prepared->threads, run_member, &job);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    pointwise *shape = BASE_NEW(arena, pointwise);
    if (!shape) return base_fail_memory(report);
    if (!accepts(call, environment) || !read_shape(call, shape))
        return base_fail(report, BASE_INVALID, "this convolution is no product of packed weights");
    shape->set = rt_pointwise_tiles_for(shape->dtype, RT_POINTWISE_BEST);
    prepared->state = shape;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_pointwise = {.name = "portable.pointwise",
                                       .accepts = accepts,
                                       .estimate = estimate,
                                       .pack = pack,
                                       .only_packed = true,
                                       .prepare = prepare};
