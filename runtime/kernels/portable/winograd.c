/* SPDX-License-Identifier: Apache-2.0 */
/* winograd.c: Conv of 3x3 windows at stride 1 by Winograd's minimal filtering F(4x4, 3x3), in float.
 *
 * The output is cut into tiles of 4x4, each of which sees 6x6 elements of the input. Both are transformed, and a tile's
 * convolution becomes 36 products, one for each point of the transform, where the direct form has 144:
 *
 *     V = B' x B        for each tile and channel             36 points
 *     M = V U           at each point: tiles x channels times channels x filters
 *     y = A' M A        for each tile and filter              4x4 outputs
 *
 * U, the transformed weights, is made at compile time, and is four times as large as the weights; or, where constants must stay
 * small (portable.winograd_transforming), in scratch, in each run: little work beside a large image, and the same numbers. V and M
 * are scratch: so many tiles at a time as the attribute ouro.blocks says. Fewer blocks take more scratch and read U less often. Results depend neither on the number of blocks nor
 * on that of threads; they differ from the direct convolution's in the last digits.
 *
 * Where channels lie innermost, vectors hold channels. In a row-major image they hold tiles.
 *
 * Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016.
 */
#include "ir/operators/window.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/product.h"
#include <string.h>

enum {
    OUTPUTS = 4, /* of a tile, along each axis */
    WINDOW = 3,  /* of the weights, likewise */
    WEIGHTS = WINDOW * WINDOW,
    EDGE = 6, /* of what a tile sees, likewise: OUTPUTS + WINDOW - 1 */
    POINTS = EDGE * EDGE,
    LANES = 8, /* channels or tiles of one vector */
    FEWEST_CHANNELS = 16,
    MOST_BLOCKS = 4096,
    DOUBLES = 8,   /* of one vector */
    TOGETHER = 64, /* pairs whose weights are transformed together */
    PAD =
        16 /* floats between the points of V, and of M: their columns would fall on the same lines of a cache */
};

typedef float lanes __attribute__((vector_size(LANES * sizeof(float)), may_alias));
typedef float floats_8 __attribute__((vector_size(DOUBLES * sizeof(float)), may_alias));
typedef double doubles __attribute__((vector_size(DOUBLES * sizeof(double)), may_alias));
/* The same where memory is aligned to single floats only. */
typedef float loose __attribute__((vector_size(LANES * sizeof(float)), may_alias, aligned(4)));

typedef struct winograd {
    op_layout layout;
    int64_t images, channels, filters;
    int64_t input[2], output[2], before[2]; /* height, width */
    int64_t grid[2];                        /* tiles in a column and in a row of an image */
    int64_t tiles, tiles_each;              /* in all; of a block, a multiple of the lanes */
    int64_t depth, columns;                 /* channels and filters, rounded up to whole panels */
    int64_t v_point, m_point;               /* floats from one point to the next */
    bool bias, residual;
    bool transforms; /* the weights, in each run */
    rt_activation activation;
} winograd;

typedef struct winograd_job {
    const winograd *shape;
    const float *x, *weights, *bias, *residual;
    const float *u; /* the transformed weights */
    float *y, *v, *m;
    int64_t first, count; /* the tiles of this block */
} winograd_job;

/* ---- shapes -------------------------------------------------------------------------------------------- */

static int64_t round_up(int64_t value, int64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

static bool is_row_major(const winograd *shape) {
    return shape->layout == OP_LAYOUT_ROW_MAJOR;
}

/* Pairs of a channel and a filter, those included that pad a panel of filters. */
static int64_t pairs(const winograd *shape) {
    return shape->channels * shape->columns;
}

static size_t transformed_bytes(const winograd *shape) {
    return (size_t)(POINTS * pairs(shape)) * sizeof(float);
}

/* Of the constant. */
static size_t weights_bytes(const winograd *shape) {
    return shape->transforms ? (size_t)(WEIGHTS * pairs(shape)) * sizeof(float) : transformed_bytes(shape);
}

/* V and M, after U where that is made in each run. */
static size_t scratch_before(const winograd *shape) {
    return shape->transforms ? (size_t)round_up((int64_t)transformed_bytes(shape), RT_ALIGNMENT) : 0;
}

static size_t scratch_bytes(const winograd *shape) {
    return scratch_before(shape) + (size_t)(POINTS * (shape->v_point + shape->m_point)) * sizeof(float);
}

/* The work in so many blocks. */
static void set_blocks(winograd *shape, int64_t blocks) {
    shape->tiles_each = round_up((shape->tiles + blocks - 1) / blocks, RT_PANEL);
    shape->v_point = shape->tiles_each * shape->depth + PAD;
    shape->m_point = shape->tiles_each * shape->columns + PAD;
}

/* False where the application is no convolution of this kind. */
static bool read_shape(const op_call *call, winograd *shape) {
    const op_type *x = &call->inputs[0].type, *y = &call->outputs[0].type;
    const op_shape *weights = &call->inputs[1].type.shape;
    op_window window;
    if (call->code != OP_CONV || x->dtype != OP_FLOAT || x->shape.rank != 4 || weights->rank != 4)
        return false;
    if (!op_shape_known(&x->shape) || !op_shape_known(&y->shape) || !op_shape_known(weights)) return false;
    if (op_attribute_integer(&call->attributes, "group", 1) != 1 || x->layout != y->layout) return false;
    if (x->layout >= OP_LAYOUT_PACKED) return false;
    if (op_window_read(call, weights->dims + 2, &window, NULL) != BASE_OK) return false;
    *shape = (winograd){.layout = x->layout,
                        .images = x->shape.dims[0],
                        .channels = x->shape.dims[1],
                        .filters = weights->dims[0],
                        .bias = op_input_present(call, 2),
                        .residual = op_input_present(call, 3)};
    if (shape->residual && call->inputs[3].type.layout != y->layout) return false;
    if (!rt_activation_read(&call->attributes, &shape->activation)) return false;
    for (int i = 0; i < 2; i++) {
        if (window.kernel[i] != WINDOW || window.stride[i] != 1 || window.dilation[i] != 1) return false;
        shape->input[i] = window.input[i];
        shape->output[i] = window.output[i];
        shape->before[i] = window.before[i];
        shape->grid[i] = (window.output[i] + OUTPUTS - 1) / OUTPUTS;
    }
    shape->tiles = shape->images * shape->grid[0] * shape->grid[1];
    shape->depth = round_up(shape->channels, RT_PANEL);
    shape->columns = is_row_major(shape) ? shape->filters : round_up(shape->filters, RT_PANEL);
    const int64_t blocks = op_attribute_integer(&call->attributes, "ouro.blocks", 1);
    if (blocks < 1 || blocks > MOST_BLOCKS || shape->tiles < 1) return false;
    if (shape->channels < FEWEST_CHANNELS || shape->filters < FEWEST_CHANNELS) return false;
    set_blocks(shape, blocks);
    size_t limit; /* of all sizes here: they are products of these */
    return base_size_multiply((size_t)(shape->tiles_each + shape->filters + RT_PANEL),
                              (size_t)(shape->depth + shape->columns), &limit) &&
           base_size_multiply(limit, 2 * POINTS * sizeof(float), &limit);
}

/* ---- transforms ---------------------------------------------------------------------------------------- */

/* B' applied to six values that lie `step` apart. */
#define TRANSFORM_6(in, step, out, out_step)                                                                 \
    do {                                                                                                     \
        const lanes d0 = (in)[0], d1 = (in)[1 * (step)], d2 = (in)[2 * (step)], d3 = (in)[3 * (step)],       \
                    d4 = (in)[4 * (step)], d5 = (in)[5 * (step)];                                            \
        const lanes even = d4 - 4 * d2, odd = d3 - 4 * d1, wide = d4 - d2, twice = 2 * (d3 - d1);            \
        (out)[0] = 4 * d0 - 5 * d2 + d4;                                                                     \
        (out)[1 * (out_step)] = even + odd;                                                                  \
        (out)[2 * (out_step)] = even - odd;                                                                  \
        (out)[3 * (out_step)] = wide + twice;                                                                \
        (out)[4 * (out_step)] = wide - twice;                                                                \
        (out)[5 * (out_step)] = 4 * d1 - 5 * d3 + d5;                                                        \
    } while (0)

/* A' applied to six values: four outputs. */
#define TRANSFORM_4(in, step, out, out_step)                                                                 \
    do {                                                                                                     \
        const lanes m1 = (in)[1 * (step)], m2 = (in)[2 * (step)], m3 = (in)[3 * (step)],                     \
                    m4 = (in)[4 * (step)];                                                                   \
        const lanes sum = m1 + m2, difference = m1 - m2, far = m3 + m4, apart = m3 - m4;                     \
        (out)[0] = (in)[0] + sum + far;                                                                      \
        (out)[1 * (out_step)] = difference + 2 * apart;                                                      \
        (out)[2 * (out_step)] = sum + 4 * far;                                                               \
        (out)[3 * (out_step)] = difference + 8 * apart + (in)[5 * (step)];                                   \
    } while (0)

/* What the tile sees, row by row, as 36 addresses of LANES floats: to[point * step] gets the points. */
RT_CLONES static void transform_input(const float *const *seen, float *to, int64_t step) {
    lanes rows[POINTS], columns[POINTS];
    for (int i = 0; i < POINTS; i++) rows[i] = (lanes) * (const loose *)seen[i];
    for (int i = 0; i < EDGE; i++) TRANSFORM_6(rows + i, EDGE, columns + i, EDGE);
    for (int i = 0; i < EDGE; i++) {
        lanes points[EDGE];
        TRANSFORM_6(columns + i * EDGE, 1, points, 1);
        for (int k = 0; k < EDGE; k++) *(loose *)(to + (i * EDGE + k) * step) = points[k];
    }
}

/* The 16 outputs of the tile, row by row, LANES floats each. */
RT_CLONES static void transform_output(const float *from, int64_t step, lanes *outputs) {
    lanes half[OUTPUTS * EDGE];
    for (int i = 0; i < EDGE; i++) {
        lanes column[EDGE];
        for (int k = 0; k < EDGE; k++) column[k] = (lanes) * (const loose *)(from + (k * EDGE + i) * step);
        TRANSFORM_4(column, 1, half + i, EDGE);
    }
    for (int i = 0; i < OUTPUTS; i++) TRANSFORM_4(half + i * EDGE, 1, outputs + i * OUTPUTS, 1);
}

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
            _Pragma("GCC unroll 6") for (int c = 0; c < EDGE; c++) *(floats_8 *)&u[r * EDGE + c][i] =
                __builtin_convertvector(points[c], floats_8);
        }
    }
}

/* The weights of `count` pairs. Weight k of pair i lies at weights[k * pairs + i], point p of it comes to u[p * pairs + i]. The points
 * of some pairs are put together first: written one by one, with a power of two between them, they would push each other out of the
 * caches. */
RT_CLONES static void transform_weights(const float *weights, int64_t pairs, int64_t count, float *u) {
    _Alignas(64) float from[WEIGHTS][TOGETHER] = {{0}}, to[POINTS][TOGETHER];
    for (int64_t first = 0; first < count; first += TOGETHER) {
        const int64_t some = count - first < TOGETHER ? count - first : TOGETHER;
        for (int k = 0; k < WEIGHTS; k++)
            memcpy(from[k], weights + k * pairs + first, (size_t)some * sizeof(float));
        transform_together(from, to);
        for (int p = 0; p < POINTS; p++)
            memcpy(u + p * pairs + first, to[p], (size_t)some * sizeof(float));
    }
}

/* ---- tiles and images ---------------------------------------------------------------------------------- */

/* Where a tile's outputs begin. */
typedef struct tile_place {
    int64_t image, row, column;
} tile_place;

static tile_place place_of(const winograd *shape, int64_t tile) {
    const int64_t across = tile % shape->grid[1], down = tile / shape->grid[1] % shape->grid[0];
    return (tile_place){tile / shape->grid[1] / shape->grid[0], down * OUTPUTS, across * OUTPUTS};
}

/* Channels innermost: how far from one pixel to the next, and from one LANES channels to the next. */
static int64_t pixel_step(const winograd *shape, int64_t channels) {
    return shape->layout == OP_LAYOUT_NHWC ? channels : op_layout_block(shape->layout);
}

static int64_t chunk_offset(const winograd *shape, int64_t chunk, int64_t pixels) {
    if (shape->layout == OP_LAYOUT_NHWC) return chunk * LANES;
    const int64_t block = op_layout_block(shape->layout);
    return chunk * LANES / block * block * pixels + chunk * LANES % block;
}

static int64_t image_floats(const winograd *shape, int64_t channels, int64_t pixels) {
    return pixels *
           (shape->layout == OP_LAYOUT_NHWC ? channels : round_up(channels, op_layout_block(shape->layout)));
}

/* By point: the pixel of the input that the tile sees there, -1 outside of the image. */
static void find_pixels(const winograd *shape, const tile_place *place, int64_t *pixels) {
    for (int r = 0; r < EDGE; r++) {
        const int64_t row = place->row - shape->before[0] + r;
        for (int c = 0; c < EDGE; c++) {
            const int64_t column = place->column - shape->before[1] + c;
            const bool inside = row >= 0 && row < shape->input[0] && column >= 0 && column < shape->input[1];
            pixels[r * EDGE + c] = inside ? row * shape->input[1] + column : -1;
        }
    }
}

/* ---- channels innermost -------------------------------------------------------------------------------- */

static const float zeros[LANES];

/* V of one tile: [point][tile][channel]. */
static void enter_channels(const winograd_job *job, int64_t tile) {
    const winograd *shape = job->shape;
    const tile_place place = place_of(shape, job->first + tile);
    const int64_t area = shape->input[0] * shape->input[1], step = pixel_step(shape, shape->channels);
    const float *x = job->x + place.image * image_floats(shape, shape->channels, area), *seen[POINTS];
    int64_t pixels[POINTS];
    find_pixels(shape, &place, pixels);
    for (int64_t chunk = 0; chunk * LANES < shape->channels; chunk++) {
        const float *from = x + chunk_offset(shape, chunk, area);
        const int64_t count = shape->channels - chunk * LANES;
        float last[POINTS][LANES];
        for (int i = 0; i < POINTS; i++) seen[i] = pixels[i] < 0 ? zeros : from + pixels[i] * step;
        /* After the last channel of a pixel stands the next pixel, or nothing. */
        for (int i = 0; count < LANES && shape->layout == OP_LAYOUT_NHWC && i < POINTS; i++) {
            memset(last[i], 0, sizeof last[i]);
            memcpy(last[i], seen[i], (size_t)count * sizeof(float));
            seen[i] = last[i];
        }
        transform_input(seen, job->v + tile * shape->depth + chunk * LANES, shape->v_point);
    }
}

/* Y of one tile, from M: [point][tile][filter]. */
static void leave_channels(const winograd_job *job, int64_t tile) {
    const winograd *shape = job->shape;
    const tile_place place = place_of(shape, job->first + tile);
    const int64_t area = shape->output[0] * shape->output[1], step = pixel_step(shape, shape->filters);
    const int64_t image = place.image * image_floats(shape, shape->filters, area);
    const bool padded = shape->layout != OP_LAYOUT_NHWC;
    for (int64_t chunk = 0;
         chunk * LANES < (padded ? round_up(shape->filters, op_layout_block(shape->layout)) : shape->filters);
         chunk++) {
        const int64_t rest = shape->filters - chunk * LANES,
                      count = rest < LANES ? (rest < 0 ? 0 : rest) : LANES;
        const int64_t at = image + chunk_offset(shape, chunk, area);
        float bias[LANES] = {0};
        lanes outputs[OUTPUTS * OUTPUTS];
        transform_output(job->m + tile * shape->columns + chunk * LANES, shape->m_point, outputs);
        if (shape->bias && count) memcpy(bias, job->bias + chunk * LANES, (size_t)count * sizeof(float));
        for (int i = 0; i < OUTPUTS * OUTPUTS; i++) outputs[i] += *(const loose *)bias;
        float *floats = (float *)outputs;
        int64_t pixels[OUTPUTS * OUTPUTS];
        for (int i = 0; i < OUTPUTS * OUTPUTS; i++) {
            const int64_t row = place.row + i / OUTPUTS, column = place.column + i % OUTPUTS;
            pixels[i] =
                row < shape->output[0] && column < shape->output[1] ? row * shape->output[1] + column : -1;
            if (!job->residual || pixels[i] < 0) continue;
            for (int64_t k = 0; k < count; k++)
                floats[i * LANES + k] += job->residual[at + pixels[i] * step + k];
        }
        rt_activation_floats(&shape->activation, floats, OUTPUTS * OUTPUTS * LANES);
        for (int i = 0; i < OUTPUTS * OUTPUTS; i++) {
            if (pixels[i] < 0) continue;
            float *to = job->y + at + pixels[i] * step;
            for (int64_t k = count; padded && k < LANES; k++) floats[i * LANES + k] = 0;
            memcpy(to, floats + i * LANES, (size_t)(padded ? LANES : count) * sizeof(float));
        }
    }
}

/* ---- row-major images ---------------------------------------------------------------------------------- */

/* V of LANES tiles: [point][panel of tiles][channel][RT_PANEL tiles]. */
static void enter_rows(const winograd_job *job, int64_t group) {
    const winograd *shape = job->shape;
    const int64_t area = shape->input[0] * shape->input[1], tile = group * LANES;
    float seen[POINTS][LANES];
    const float *addresses[POINTS];
    int64_t pixels[LANES][POINTS];
    for (int i = 0; i < POINTS; i++) addresses[i] = seen[i];
    for (int64_t k = 0; k < LANES; k++) {
        if (tile + k >= job->count) {
            for (int i = 0; i < POINTS; i++) pixels[k][i] = -1;
            continue;
        }
        const tile_place place = place_of(shape, job->first + tile + k);
        find_pixels(shape, &place, pixels[k]);
        for (int i = 0; i < POINTS; i++)
            if (pixels[k][i] >= 0) pixels[k][i] += place.image * shape->channels * area;
    }
    float *to = job->v + tile / RT_PANEL * shape->channels * RT_PANEL + tile % RT_PANEL;
    for (int64_t channel = 0; channel < shape->channels; channel++) {
        const float *x = job->x + channel * area;
        for (int64_t k = 0; k < LANES; k++)
            for (int i = 0; i < POINTS; i++) seen[i][k] = pixels[k][i] < 0 ? 0 : x[pixels[k][i]];
        transform_input(addresses, to + channel * RT_PANEL, shape->v_point);
    }
}

/* Where the outputs of LANES tiles lie in the first map; -1: outside. */
static void find_outputs(const winograd_job *job, int64_t group, int64_t at[OUTPUTS * OUTPUTS][LANES]) {
    const winograd *shape = job->shape;
    const int64_t area = shape->output[0] * shape->output[1];
    for (int64_t k = 0; k < LANES; k++) {
        const bool there = group * LANES + k < job->count;
        const tile_place place = place_of(shape, job->first + (there ? group * LANES + k : 0));
        for (int i = 0; i < OUTPUTS * OUTPUTS; i++) {
            const int64_t row = place.row + i / OUTPUTS, column = place.column + i % OUTPUTS;
            const bool inside = there && row < shape->output[0] && column < shape->output[1];
            at[i][k] = inside ? place.image * shape->filters * area + row * shape->output[1] + column : -1;
        }
    }
}

/* Y of LANES tiles, from M: [point][filter][tile]. */
static void leave_rows(const winograd_job *job, int64_t group) {
    const winograd *shape = job->shape;
    const int64_t area = shape->output[0] * shape->output[1];
    int64_t at[OUTPUTS * OUTPUTS][LANES];
    find_outputs(job, group, at);
    for (int64_t filter = 0; filter < shape->filters; filter++) {
        const float bias = shape->bias ? job->bias[filter] : 0;
        const float *residual = job->residual ? job->residual + filter * area : NULL;
        float *y = job->y + filter * area;
        lanes outputs[OUTPUTS * OUTPUTS];
        float *floats = (float *)outputs;
        transform_output(job->m + filter * shape->tiles_each + group * LANES, shape->m_point, outputs);
        for (int i = 0; i < OUTPUTS * OUTPUTS; i++) outputs[i] += bias;
        for (int i = 0; residual && i < OUTPUTS * OUTPUTS; i++)
            for (int64_t k = 0; k < LANES; k++)
                if (at[i][k] >= 0) floats[i * LANES + k] += residual[at[i][k]];
        rt_activation_floats(&shape->activation, floats, OUTPUTS * OUTPUTS * LANES);
        for (int i = 0; i < OUTPUTS * OUTPUTS; i++)
            for (int64_t k = 0; k < LANES; k++)
                if (at[i][k] >= 0) y[at[i][k]] = floats[i * LANES + k];
    }
}

/* ---- a block of tiles ---------------------------------------------------------------------------------- */

static void enter_member(void *context, int member, int members) {
    const winograd_job *job = context;
    const bool rows = is_row_major(job->shape);
    /* What pads the last panel of tiles is zeros, which are entered too. */
    const int64_t count = rows ? job->shape->tiles_each / LANES : job->count;
    for (int64_t i = count * member / members; i < count * (member + 1) / members; i++) {
        if (rows) enter_rows(job, i);
        else enter_channels(job, i);
    }
}

/* The products at one point, one panel wide. */
static void multiply(const winograd_job *job, int64_t point, int64_t panel) {
    const winograd *shape = job->shape;
    const float *v = job->v + point * shape->v_point;
    const float *u = job->u + point * pairs(shape);
    float *m = job->m + point * shape->m_point + panel * RT_PANEL;
    const bool rows = is_row_major(shape);
    for (int64_t from = 0; from < shape->channels; from += RT_BLOCK_DEPTH) {
        const int64_t rest = shape->channels - from;
        rt_tiles tiles = {.rows = rows ? shape->filters : job->count,
                          .columns = RT_PANEL,
                          .depth = rest < RT_BLOCK_DEPTH ? rest : RT_BLOCK_DEPTH,
                          .a = (rows ? u : v) + from,
                          .a_row = rows ? shape->channels : shape->depth,
                          .a_depth = 1,
                          .panels = (rows ? v : u) + (panel * shape->channels + from) * RT_PANEL,
                          .c = m,
                          .c_row = rows ? shape->tiles_each : shape->columns,
                          .add = from > 0,
                          .fused = true};
        rt_tiles_run(&tiles);
    }
}

static void multiply_member(void *context, int member, int members) {
    const winograd_job *job = context;
    const winograd *shape = job->shape;
    const int64_t panels = (is_row_major(shape) ? shape->tiles_each : shape->columns) / RT_PANEL,
                  count = POINTS * panels;
    for (int64_t i = count * member / members; i < count * (member + 1) / members; i++)
        multiply(job, i / panels, i % panels);
}

static void leave_member(void *context, int member, int members) {
    const winograd_job *job = context;
    const bool rows = is_row_major(job->shape);
    const int64_t count = rows ? (job->count + LANES - 1) / LANES : job->count;
    for (int64_t i = count * member / members; i < count * (member + 1) / members; i++) {
        if (rows) leave_rows(job, i);
        else leave_channels(job, i);
    }
}

static void transform_member(void *context, int member, int members) {
    const winograd_job *job = context;
    const int64_t count = pairs(job->shape), parts = (count + RT_PANEL - 1) / RT_PANEL;
    const int64_t first = parts * member / members * RT_PANEL,
                  next = parts * (member + 1) / members * RT_PANEL;
    const int64_t end = next < count ? next : count;
    transform_weights(job->weights + first, count, end - first, (float *)job->u + first);
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)report;
    const winograd *shape = prepared->state;
    winograd_job job = {.shape = shape,
                        .x = inputs[0].data,
                        .weights = inputs[1].data,
                        .u = shape->transforms ? scratch : inputs[1].data,
                        .bias = shape->bias ? inputs[2].data : NULL,
                        .residual = shape->residual ? inputs[3].data : NULL,
                        .y = outputs[0].data,
                        .v = (float *)(void *)((char *)scratch + scratch_before(shape))};
    job.m = job.v + POINTS * shape->v_point;
    if (shape->transforms) rt_team_run(prepared->threads, transform_member, &job);
    for (job.first = 0; job.first < shape->tiles; job.first += shape->tiles_each) {
        const int64_t rest = shape->tiles - job.first;
        job.count = rest < shape->tiles_each ? rest : shape->tiles_each;
        rt_team_run(prepared->threads, enter_member, &job);
        rt_team_run(prepared->threads, multiply_member, &job);
        rt_team_run(prepared->threads, leave_member, &job);
    }
    return BASE_OK;
}

/* ---- the kernels --------------------------------------------------------------------------------------- */

static bool is_accepted(const op_call *call, bool transforms, winograd *shape) {
    const op_type *weights = &call->inputs[1].type;
    if (!read_shape(call, shape)) return false;
    shape->transforms = transforms;
    return weights->layout == OP_LAYOUT_PACKED && weights->packed_bytes == weights_bytes(shape) &&
           (!shape->bias || call->inputs[2].type.layout == OP_LAYOUT_ROW_MAJOR);
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    winograd shape;
    return is_accepted(call, false, &shape);
}

static bool accepts_transforming(const op_call *call, const rt_environment *environment) {
    (void)environment;
    winograd shape;
    return is_accepted(call, true, &shape);
}

/* What the convolution does with the blocks that are set. */
static rt_winograd_work work_of(const winograd *shape) {
    return (rt_winograd_work){
        .products = (double)POINTS * (double)shape->tiles * (double)shape->channels * (double)shape->filters,
        .transformed_bytes =
            (double)POINTS * (double)shape->tiles * (double)(shape->depth + shape->columns) * sizeof(float),
        .block_bytes = (double)(scratch_bytes(shape) - scratch_before(shape)),
        .weight_bytes = (double)transformed_bytes(shape),
        .windows = shape->transforms ? (double)pairs(shape) : 0,
        .blocks = (double)((shape->tiles + shape->tiles_each - 1) / shape->tiles_each)};
}

static bool estimate_either(const op_call *call, const rt_environment *environment, bool transforms,
                            size_t scratch_limit, rt_cost *cost) {
    winograd shape;
    if (!read_shape(call, &shape)) return false;
    shape.transforms = transforms;
    *cost = (rt_cost){.packed_bytes = weights_bytes(&shape)};
    for (int64_t blocks = 1; blocks <= MOST_BLOCKS; blocks++) {
        const int64_t before = shape.tiles_each;
        set_blocks(&shape, blocks);
        if (blocks > 1 && shape.tiles_each == before) continue;
        if (scratch_bytes(&shape) <= scratch_limit) {
            const rt_winograd_work work = work_of(&shape);
            const double seconds = rt_winograd_seconds(&work, environment->threads);
            if (!cost->blocks || seconds < cost->seconds) {
                cost->seconds = seconds;
                cost->blocks = blocks;
                cost->scratch_bytes = scratch_bytes(&shape);
            }
        }
        if (shape.tiles_each <= RT_PANEL) break;
    }
    return cost->blocks != 0;
}

static bool estimate(const op_call *call, const rt_environment *environment, size_t scratch_limit,
                     rt_cost *cost) {
    return estimate_either(call, environment, false, scratch_limit, cost);
}

static bool estimate_transforming(const op_call *call, const rt_environment *environment,
                                  size_t scratch_limit, rt_cost *cost) {
    return estimate_either(call, environment, true, scratch_limit, cost);
}

/* The order of the pairs. Channels innermost: [panel of filters][channel][RT_PANEL]. Row-major: [filter][channel]. */
static int64_t pair_at(const winograd *shape, int64_t filter, int64_t channel) {
    return is_row_major(shape)
               ? filter * shape->channels + channel
               : (filter / RT_PANEL * shape->channels + channel) * RT_PANEL + filter % RT_PANEL;
}

/* The weights as transform_weights wants them: [weight][pair]. */
static base_status pack_weights(const op_call *call, const rt_environment *environment, uint32_t input,
                                const op_tensor *plain, void *packed, base_report *report) {
    (void)environment;
    winograd shape;
    if (input != 1 || !read_shape(call, &shape))
        return base_fail(report, BASE_INVALID, "input %u of this convolution has no Winograd form", input);
    const float *weights = plain->data;
    for (int64_t filter = 0; filter < shape.filters; filter++) {
        for (int64_t channel = 0; channel < shape.channels; channel++, weights += WEIGHTS) {
            for (int64_t k = 0; k < WEIGHTS; k++)
                ((float *)packed)[k * pairs(&shape) + pair_at(&shape, filter, channel)] = weights[k];
        }
    }
    return BASE_OK;
}

/* The same pairs, transformed: [point][pair]. */
static base_status pack(const op_call *call, const rt_environment *environment, uint32_t input,
                        const op_tensor *plain, void *packed, base_report *report) {
    (void)environment;
    winograd shape;
    if (input != 1 || !read_shape(call, &shape))
        return base_fail(report, BASE_INVALID, "input %u of this convolution has no Winograd form", input);
    const float *weights = plain->data;
    for (int64_t filter = 0; filter < shape.filters; filter++) {
        for (int64_t channel = 0; channel < shape.channels; channel++, weights += WEIGHTS) {
            float u[POINTS];
            transform_weights(weights, 1, 1, u);
            for (int64_t point = 0; point < POINTS; point++)
                ((float *)packed)[point * pairs(&shape) + pair_at(&shape, filter, channel)] = u[point];
        }
    }
    return BASE_OK;
}

static base_status prepare_either(const op_call *call, bool transforms, base_arena *arena,
                                  rt_prepared *prepared, base_report *report) {
    winograd *shape = BASE_NEW(arena, winograd);
    if (!shape) return base_fail_memory(report);
    if (!is_accepted(call, transforms, shape))
        return base_fail(report, BASE_INVALID, "this convolution has no Winograd form");
    prepared->state = shape;
    prepared->run = run;
    prepared->scratch_bytes = scratch_bytes(shape);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    return prepare_either(call, false, arena, prepared, report);
}

static base_status prepare_transforming(const op_call *call, const rt_environment *environment,
                                        base_arena *arena, rt_prepared *prepared, base_report *report) {
    (void)environment;
    return prepare_either(call, true, arena, prepared, report);
}

const rt_kernel rt_kernel_winograd = {
    .name = "portable.winograd", .accepts = accepts, .estimate = estimate, .pack = pack, .prepare = prepare};

const rt_kernel rt_kernel_winograd_transforming = {.name = "portable.winograd_transforming",
                                                   .accepts = accepts_transforming,
                                                   .estimate = estimate_transforming,
                                                   .pack = pack_weights,
                                                   .prepare = prepare_transforming};
