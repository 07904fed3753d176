/* SPDX-License-Identifier: Apache-2.0 */
/* pointwise.c: Conv of windows of one point at stride 1, in float, on row-major images: products of small matrices, one for each
 * group.
 *
 *     Y[filter][point] = activation(sum over channels of W[filter][channel] * X[channel][point] + bias + residual)
 *
 * A panel of points, two vectors wide, is copied from all channels of a group; tiles of 3 to 6 filters pass over it, whose sums stay
 * in registers, and which write the result once, finished. The filters of a group are dealt out to tiles evenly: none is padded.
 *
 * The weights: [group][tile][channel][filter of the tile], as many as before. Products and their sums are rounded once where the
 * machine can. What is added in which order follows from the shapes alone: results do not depend on the number of threads.
 */
#include "ir/operators/window.h"
#include "runtime/kernels/portable/activation.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/lanes.h"
#include <math.h>
#include <string.h>

enum {
    MOST_ROWS = 6,      /* filters of a tile */
    LEAST_ROWS = 3,     /* fewer have too few sums to fill the time that an addition takes */
    LEAST_CHANNELS = 4, /* fewer: as fast where they are read directly */
    DEPTH = 256,        /* channels of a panel, which lies on the stack */
    MOST_WIDTH = 32     /* points of a panel: two vectors of the widest machine */
};

typedef struct pointwise {
    int64_t images, group, channels, filters; /* channels and filters of one group */
    int64_t points;                           /* of one map */
    int64_t tiles;                            /* of the filters of a group */
    bool bias, residual;
    rt_activation activation;
    bool limits; /* the activation is done with these: */
    float low, high;
} pointwise;

typedef struct pointwise_job {
    const pointwise *shape;
    const float *x, *weights, *bias, *residual;
    float *y;
} pointwise_job;

/* ---- tiles --------------------------------------------------------------------------------------------- */

typedef struct filter_tile {
    int64_t depth;
    const float *weights; /* [channel][row] */
    const float *panel;   /* [channel][point of two vectors] */
    const float *bias;    /* by row */
    const float *from;    /* what is added to, of the row length of y; NULL: nothing */
    float *y;
    int64_t row; /* floats from one filter to the next, in y and in from */
    float low, high;
} filter_tile;

typedef void tile_function(const filter_tile *tile);

/* By vectors, by rows. */
typedef struct tile_set {
    int64_t lanes;
    tile_function *run[2][MOST_ROWS - LEAST_ROWS + 1];
} tile_set;

/* ROWS filters at the points of VECTORS vectors. */
#define TILE(name, target, vector, ROWS, VECTORS, ADD_PRODUCT, LIMIT)                                        \
    target static void name(const filter_tile *tile) {                                                       \
        enum { WIDE = sizeof(vector) / sizeof(float) };                                                      \
        const float *restrict weights = tile->weights;                                                       \
        const float *restrict panel = tile->panel;                                                           \
        float *y = tile->y;                                                                                  \
        const int64_t row = tile->row;                                                                       \
        const float low = tile->low, high = tile->high;                                                      \
        vector sums[ROWS][VECTORS];                                                                          \
        _Pragma("GCC unroll 6") for (int r = 0; r < ROWS; r++) {                                             \
            _Pragma("GCC unroll 2") for (int v = 0; v < VECTORS; v++) {                                      \
                sums[r][v] = (vector){0};                                                                    \
                if (tile->from) memcpy(&sums[r][v], tile->from + r * row + v * WIDE, sizeof(vector));        \
                sums[r][v] += tile->bias[r];                                                                 \
            }                                                                                                \
        }                                                                                                    \
        for (int64_t k = 0; k < tile->depth; k++, weights += ROWS, panel += 2 * WIDE) {                      \
            vector right[VECTORS];                                                                           \
            _Pragma("GCC unroll 2") for (int v = 0; v < VECTORS; v++) right[v] =                             \
                *(const vector *)(const void *)(panel + v * WIDE);                                           \
            _Pragma("GCC unroll 6") for (int r = 0; r < ROWS; r++) {                                         \
                _Pragma("GCC unroll 2") for (int v = 0; v < VECTORS; v++)                                    \
                    ADD_PRODUCT(sums[r][v], weights[r], right[v]);                                           \
            }                                                                                                \
        }                                                                                                    \
        _Pragma("GCC unroll 6") for (int r = 0; r < ROWS; r++) {                                             \
            _Pragma("GCC unroll 2") for (int v = 0; v < VECTORS; v++) {                                      \
                LIMIT(sums[r][v], low, high);                                                                \
                memcpy(y + r * row + v * WIDE, &sums[r][v], sizeof(vector));                                 \
            }                                                                                                \
        }                                                                                                    \
    }

#define TILES(suffix, target, vector, ADD_PRODUCT, LIMIT)                                                    \
    TILE(tile_3_##suffix, target, vector, 3, 2, ADD_PRODUCT, LIMIT)                                          \
    TILE(tile_4_##suffix, target, vector, 4, 2, ADD_PRODUCT, LIMIT)                                          \
    TILE(tile_5_##suffix, target, vector, 5, 2, ADD_PRODUCT, LIMIT)                                          \
    TILE(tile_6_##suffix, target, vector, 6, 2, ADD_PRODUCT, LIMIT)                                          \
    TILE(half_3_##suffix, target, vector, 3, 1, ADD_PRODUCT, LIMIT)                                          \
    TILE(half_4_##suffix, target, vector, 4, 1, ADD_PRODUCT, LIMIT)                                          \
    TILE(half_5_##suffix, target, vector, 5, 1, ADD_PRODUCT, LIMIT)                                          \
    TILE(half_6_##suffix, target, vector, 6, 1, ADD_PRODUCT, LIMIT)                                          \
    static const tile_set tiles_##suffix = {                                                                 \
        sizeof(vector) / sizeof(float),                                                                      \
        {{half_3_##suffix, half_4_##suffix, half_5_##suffix, half_6_##suffix},                               \
         {tile_3_##suffix, tile_4_##suffix, tile_5_##suffix, tile_6_##suffix}}};

#define ADD(sum, left, right) ((sum) += (left) * (right))
TILES(plain, , rt_floats_4, ADD, RT_LIMIT_4)

#if defined(__x86_64__) && defined(__GNUC__)
#define AVX2 __attribute__((target("avx2,fma")))
#define AVX512 __attribute__((target("avx512f")))
#define ADD_8(sum, left, right) ((sum) = _mm256_fmadd_ps(_mm256_set1_ps(left), right, sum))
#define ADD_16(sum, left, right) ((sum) = _mm512_fmadd_ps(_mm512_set1_ps(left), right, sum))
TILES(avx2, AVX2, rt_floats_8, ADD_8, RT_LIMIT_8)
TILES(avx512, AVX512, rt_floats_16, ADD_16, RT_LIMIT_16)
#endif

static const tile_set *best_tiles(void) {
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx512f")) return &tiles_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &tiles_avx2;
#endif
    return &tiles_plain;
}

/* ---- shapes -------------------------------------------------------------------------------------------- */

/* False where the application is no convolution of this kind. */
static bool read_shape(const op_call *call, pointwise *shape) {
    const op_type *x = &call->inputs[0].type, *y = &call->outputs[0].type;
    const op_shape *weights = &call->inputs[1].type.shape;
    op_window window;
    if (call->code != OP_CONV || x->dtype != OP_FLOAT || x->shape.rank < 3 || weights->rank != x->shape.rank)
        return false;
    if (!op_shape_known(&x->shape) || !op_shape_known(&y->shape) || !op_shape_known(weights)) return false;
    if (x->layout != OP_LAYOUT_ROW_MAJOR || y->layout != OP_LAYOUT_ROW_MAJOR) return false;
    if (op_window_read(call, weights->dims + 2, &window, NULL) != BASE_OK) return false;
    *shape = (pointwise){.images = x->shape.dims[0],
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
    if (shape->filters < LEAST_ROWS || shape->channels < LEAST_CHANNELS) return false;
    if (shape->residual && call->inputs[3].type.layout != OP_LAYOUT_ROW_MAJOR) return false;
    if (!rt_activation_read(&call->attributes, &shape->activation)) return false;
    shape->limits = rt_activation_limits(&shape->activation, &shape->low, &shape->high);
    return true;
}

static size_t packed_bytes(const pointwise *shape) {
    return (size_t)(shape->group * shape->filters * shape->channels) * sizeof(float);
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
    *cost = (rt_cost){.seconds = rt_pointwise_seconds(products, environment),
                      .packed_bytes = packed_bytes(&shape)};
    return true;
}

static base_status pack(const op_call *call, const rt_environment *environment, uint32_t input,
                        const op_tensor *plain, void *packed, base_report *report) {
    (void)environment;
    pointwise shape;
    if (input != 1 || !read_shape(call, &shape))
        return base_fail(report, BASE_INVALID, "input %u of this convolution is not packed", input);
    const float *from = plain->data;
    float *to = packed;
    for (int64_t group = 0; group < shape.group; group++, from += shape.filters * shape.channels) {
        for (int64_t tile = 0; tile < shape.tiles; tile++) {
            const int64_t first = first_filter(&shape, tile), end = first_filter(&shape, tile + 1);
            for (int64_t channel = 0; channel < shape.channels; channel++)
                for (int64_t filter = first; filter < end; filter++)
                    *to++ = from[filter * shape.channels + channel];
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
static void run_edge(tile_function *run, const filter_tile *whole, int64_t rows, int64_t count) {
    float y[MOST_ROWS * MOST_WIDTH], from[MOST_ROWS * MOST_WIDTH] = {0};
    filter_tile beside = *whole;
    beside.y = y;
    beside.row = MOST_WIDTH;
    beside.from = whole->from ? from : NULL;
    for (int64_t r = 0; whole->from && r < rows; r++)
        for (int64_t i = 0; i < count; i++) from[r * MOST_WIDTH + i] = whole->from[r * whole->row + i];
    run(&beside);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < count; i++) whole->y[r * whole->row + i] = y[r * MOST_WIDTH + i];
}

/* All filters of a group of an image at `count` points from `point` on. */
static void run_panel(const pointwise_job *job, const tile_set *set, int64_t image_group, int64_t point,
                      int64_t count) {
    _Alignas(RT_ALIGNMENT) float panel[DEPTH * MOST_WIDTH];
    static const float zeros[MOST_ROWS];
    const pointwise *shape = job->shape;
    const int64_t group = image_group % shape->group, width = 2 * set->lanes;
    const int64_t first_row = image_group * shape->filters * shape->points + point;
    const float *x = job->x + image_group * shape->channels * shape->points + point;
    for (int64_t from = 0; from < shape->channels; from += DEPTH) {
        const bool last = shape->channels - from <= DEPTH;
        const int64_t depth = last ? shape->channels - from : DEPTH;
        const float *weights = job->weights + group * shape->filters * shape->channels;
        const float *before = from > 0 ? job->y : job->residual;
        copy_panel(x + from * shape->points, shape->points, depth, count, width, panel);
        for (int64_t t = 0; t < shape->tiles; t++) {
            const int64_t filter = first_filter(shape, t), rows = first_filter(shape, t + 1) - filter;
            const int64_t at = first_row + filter * shape->points;
            tile_function *run = set->run[count > set->lanes][rows - LEAST_ROWS];
            const filter_tile one = {
                .depth = depth,
                .weights = weights + (filter * shape->channels + from * rows),
                .panel = panel,
                .bias = job->bias && from == 0 ? job->bias + group * shape->filters + filter : zeros,
                .from = before ? before + at : NULL,
                .y = job->y + at,
                .row = shape->points,
                .low = last ? shape->low : -INFINITY,
                .high = last ? shape->high : INFINITY};
            if (count == width || count == set->lanes) run(&one);
            else run_edge(run, &one, rows, count);
            for (int64_t r = 0; r < rows && last && !shape->limits; r++)
                rt_activation_floats(&shape->activation, one.y + r * shape->points, count);
        }
    }
}

static void run_member(void *context, int member, int members) {
    const pointwise_job *job = context;
    const pointwise *shape = job->shape;
    const tile_set *set = best_tiles();
    const int64_t width = 2 * set->lanes, panels = (shape->points + width - 1) / width;
    const int64_t items = shape->images * shape->group * panels;
    for (int64_t i = items * member / members; i < items * (member + 1) / members; i++) {
        const int64_t point = i % panels * width, rest = shape->points - point;
        run_panel(job, set, i / panels, point, rest < width ? rest : width);
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
    prepared->state = shape;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_pointwise = {
    .name = "portable.pointwise", .accepts = accepts, .estimate = estimate, .pack = pack, .prepare = prepare};
