/* SPDX-License-Identifier: Apache-2.0 */
/* winograd.c: Conv of 3x3 windows, or of 3 or 5 elements along one axis, at stride 1 by Winograd's minimal filtering, in float; in
 * float16 and bfloat16, where channels lie innermost, with transforms and products in float.
 *
 * The output is cut into tiles of 4x4, each of which sees 6x6 elements of the input. Both are transformed, and a tile's
 * convolution becomes 36 products, one for each point of the transform, where the direct form has 144:
 *
 *     V = B' x B        for each tile and channel             36 points
 *     M = V U           at each point: tiles x channels times channels x filters
 *     y = A' M A        for each tile and filter              4x4 outputs
 *
 * U, the transformed weights, is made at compile time, and is four times as large as the weights; or, where constants must stay
 * small (portable.winograd_transforming), in scratch, in each run: little work beside a large image, and the same numbers. Where
 * channels lie innermost it is made for some filters and channels at a time, which are used at once: weights are read from memory as they
 * were. V and M are scratch: so many tiles at a time as the attribute ouro.blocks says, or, where the number of images is open, as
 * ouro.image_blocks says of one of them: scratch does not grow with their number. Where channels lie innermost, M is made for some filters at
 * a time, which become outputs at once: it stays in a near cache, and V is all that grows with the tiles. Fewer blocks take more scratch and
 * read U less often. Results depend neither on the number of blocks nor on that of threads; they differ from the direct convolution's in the
 * last digits.
 *
 * Windows along one axis (F(6, 3) and F(4, 5)): a tile sees 8 elements of a line, and 8 products do what 18 or 20 did. Only where
 * channels lie innermost.
 *
 * Where channels lie innermost, vectors hold channels. In a row-major image they hold tiles.
 *
 * Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016.
 */
#include "runtime/kernels/portable/winograd.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/half_lanes.h"
#include <string.h>

enum {
    MOST_LANES = 16, /* channels or tiles of the widest vector */
    MOST_DEPTH = 384 /* channels whose weights in PANELS panels stay in a near cache */
};

typedef struct winograd_job {
    const winograd *shape;
    const char *x, *weights, *bias, *residual;
    const float *u; /* the transformed weights */
    float *own;     /* where they are made */
    char *y;
    float *v, *m;
    int64_t first, count;              /* the tiles of this block */
    int64_t first_filter, next_filter; /* of M; multiples of RT_PANEL */
} winograd_job;

/* Before and after the products, with vectors of one width. */
typedef struct winograd_steps {
    int64_t lanes; /* channels or tiles of a vector */
    void (*enter_channels)(const winograd_job *job, int64_t tile);
    void (*leave_channels)(const winograd_job *job, int64_t tile);
    void (*enter_lines)(const winograd_job *job, int64_t tile);
    void (*leave_lines)(const winograd_job *job, int64_t tile);
    void (*enter_rows)(const winograd_job *job, int64_t group); /* of as many tiles as lanes */
    void (*leave_rows)(const winograd_job *job, int64_t group);
} winograd_steps;

/* ---- tiles and images ---------------------------------------------------------------------------------- */

/* Where a tile's outputs begin. */
typedef struct tile_place {
    int64_t image, row, column;
} tile_place;

static tile_place place_of(const winograd *shape, int64_t tile) {
    const int64_t across = tile % shape->grid[1], down = tile / shape->grid[1] % shape->grid[0];
    return (tile_place){tile / shape->grid[1] / shape->grid[0], down * shape->covers[0],
                        across * shape->covers[1]};
}

/* Channels innermost: how far from one pixel to the next, and where a chunk of so many channels begins. */
static int64_t pixel_step(const winograd *shape, int64_t channels) {
    return shape->layout == OP_LAYOUT_NHWC ? channels : op_layout_block(shape->layout);
}

static int64_t chunk_offset(const winograd *shape, int64_t chunk, int64_t pixels, int64_t lanes) {
    if (shape->layout == OP_LAYOUT_NHWC) return chunk * lanes;
    const int64_t block = op_layout_block(shape->layout);
    return chunk * lanes / block * block * pixels + chunk * lanes % block;
}

static int64_t image_floats(const winograd *shape, int64_t channels, int64_t pixels) {
    return pixels *
           (shape->layout == OP_LAYOUT_NHWC ? channels : round_up(channels, op_layout_block(shape->layout)));
}

static int64_t output_floats(const winograd *shape) {
    return image_floats(shape, shape->filters, shape->output[0] * shape->output[1]);
}

/* With those that pad a block. */
static int64_t padded_filters(const winograd *shape) {
    return shape->layout == OP_LAYOUT_NHWC ? shape->filters
                                           : round_up(shape->filters, op_layout_block(shape->layout));
}

/* The filters of M end here, those included that pad a block. */
static int64_t last_filter(const winograd_job *job) {
    const int64_t all = padded_filters(job->shape);
    return job->next_filter < all ? job->next_filter : all;
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

/* What a tile sees outside of the image. */
static const float zeros[MOST_LANES];

/* ---- vectors ------------------------------------------------------------------------------------------- */

static rt_floats_4 some_4(const float *from, int64_t count) {
    rt_floats_4 some = {0};
    for (int64_t i = 0; i < count; i++) some[i] = from[i];
    return some;
}

typedef float loose_4 __attribute__((vector_size(16), may_alias, aligned(4)));
#define LANES 4
#define VECTOR rt_floats_4
#define LOOSE loose_4
#define TARGET
#define LIMIT RT_LIMIT_4
#define SOME some_4
#define WIDEN_HALF(from) rt_any_half_4(from)
#define WIDEN_BRAIN(from) rt_brain_4(from)
#define NARROW_HALF(floats, to) RT_STORE_HALF_4(floats, to)
#define NARROW_BRAIN(floats, to) RT_STORE_BRAIN_4(floats, to)
#define NAME(function) function##_4
#include "runtime/kernels/portable/winograd_steps.h"

#if RT_X86_KERNELS
/* From some_words + 8 - count on: a mask of the first `count` of 8 floats. */
static const int32_t some_words[16] = {-1, -1, -1, -1, -1, -1, -1, -1};

typedef float loose_8 __attribute__((vector_size(32), may_alias, aligned(4)));
#define LANES 8
#define VECTOR rt_floats_8
#define LOOSE loose_8
#define TARGET __attribute__((target("avx2,f16c")))
#define LIMIT RT_LIMIT_8
#define SOME(from, count)                                                                                    \
    _mm256_maskload_ps(from, _mm256_loadu_si256((const __m256i_u *)(some_words + 8 - (count))))
#define WIDEN_HALF(from) RT_LOAD_HALF_8(, from)
#define WIDEN_BRAIN(from) RT_LOAD_BRAIN_8(, from)
#define NARROW_HALF(floats, to) RT_STORE_HALF_8((__m256)(floats), to)
#define NARROW_BRAIN(floats, to) RT_STORE_BRAIN_8((__m256)(floats), to)
#define NAME(function) function##_8
#include "runtime/kernels/portable/winograd_steps.h"

typedef float loose_16 __attribute__((vector_size(64), may_alias, aligned(4)));
#define LANES 16
#define VECTOR rt_floats_16
#define LOOSE loose_16
#define TARGET __attribute__((target("avx512f")))
#define LIMIT RT_LIMIT_16
#define SOME(from, count) _mm512_maskz_loadu_ps(rt_first_lanes_16(count), from)
#define WIDEN_HALF(from) RT_LOAD_HALF_16(, from)
#define WIDEN_BRAIN(from) RT_LOAD_BRAIN_16(, from)
#define NARROW_HALF(floats, to) RT_STORE_HALF_16((__m512)(floats), to)
#define NARROW_BRAIN(floats, to) RT_STORE_BRAIN_16((__m512)(floats), to)
#define NAME(function) function##_16
#include "runtime/kernels/portable/winograd_steps.h"
#endif

/* The widest that the machine has and that a block of channels holds. */
static const winograd_steps *best_steps(op_layout layout) {
#if RT_X86_KERNELS
    if (layout != OP_LAYOUT_NC8 && __builtin_cpu_supports("avx512f")) return &steps_16;
    if (__builtin_cpu_supports("avx2") && rt_has_half_conversions()) return &steps_8;
#endif
    (void)layout;
    return &steps_4;
}

/* ---- a block of tiles ---------------------------------------------------------------------------------- */

/* The tiles of the block that begins at job->first. */
static int64_t block_tiles(const winograd_job *job) {
    const int64_t rest = job->shape->tiles - job->first;
    return rest < job->shape->tiles_each ? rest : job->shape->tiles_each;
}

static void enter_tiles(const winograd_job *job, int64_t first, int64_t end) {
    const winograd_steps *steps = best_steps(job->shape->layout);
    void (*enter)(const winograd_job *, int64_t) = is_row_major(job->shape) ? steps->enter_rows
                                                   : job->shape->line < 0   ? steps->enter_channels
                                                                            : steps->enter_lines;
    for (int64_t i = first; i < end; i++) enter(job, i);
}

static void enter_member(void *context, int member, int members) {
    const winograd_job *job = context;
    /* What pads the last panel of tiles is zeros, which are entered too. */
    const int64_t count = is_row_major(job->shape)
                              ? job->shape->tiles_each / best_steps(job->shape->layout)->lanes
                              : job->count;
    enter_tiles(job, count * member / members, count * (member + 1) / members);
}

/* The products at one point, some panels of tiles wide, of a row-major image. */
static void multiply_rows(const winograd_job *job, const float *u, int64_t point, int64_t panel,
                          int64_t count) {
    const winograd *shape = job->shape;
    const float *v = job->v + point * shape->v_point + panel * shape->channels * RT_PANEL;
    for (int64_t from = 0; from < shape->channels; from += RT_BLOCK_DEPTH) {
        const int64_t rest = shape->channels - from;
        rt_tiles tiles = {.rows = shape->filters,
                          .columns = count * RT_PANEL,
                          .depth = rest < RT_BLOCK_DEPTH ? rest : RT_BLOCK_DEPTH,
                          .a = u + from,
                          .a_row = shape->channels,
                          .a_depth = 1,
                          .panels = v + from * RT_PANEL,
                          .panel_step = shape->channels * RT_PANEL,
                          .c = job->m + point * shape->m_point + panel * RT_PANEL,
                          .c_row = shape->tiles_each,
                          .add = from > 0,
                          .fused = true};
        rt_tiles_run(&tiles);
    }
}

/* Transformed weights of some panels of filters at one point. */
typedef struct point_weights {
    const float *u;
    int64_t step;      /* floats from one panel to the next */
    const float *next; /* those that are read after them; NULL: there are none, or they are in a cache */
} point_weights;

/* The products at one point of some panels of filters and of channels [first, end). */
static void multiply_channels(const winograd_job *job, const point_weights *weights, int64_t point,
                              int64_t panel, int64_t count, int64_t first, int64_t end) {
    const winograd *shape = job->shape;
    const int64_t all = end - first, parts = (all + MOST_DEPTH - 1) / MOST_DEPTH;
    for (int64_t part = 0; part < parts; part++) {
        const int64_t from = all * part / parts, after = all * (part + 1) / parts;
        rt_tiles tiles = {.rows = job->count,
                          .columns = count * RT_PANEL,
                          .depth = after - from,
                          .a = job->v + point * shape->v_point + first + from,
                          .a_row = shape->depth,
                          .a_depth = 1,
                          .panels = weights->u + from * RT_PANEL,
                          .panel_step = weights->step,
                          .far = !shape->transforms && part == 0, /* what was just transformed is near */
                          .next = after < all ? weights->u + after * RT_PANEL : weights->next,
                          .c = job->m + point * shape->m_point + panel * RT_PANEL - job->first_filter,
                          .c_row = row_of_m(shape),
                          .add = first + from > 0,
                          .fused = true};
        rt_tiles_run(&tiles);
    }
}

/* Those of a group of panels that begins at `u`, a point `step` floats after the one before. */
static point_weights weights_at(const winograd *shape, const float *u, int64_t step, int64_t point) {
    return (point_weights){.u = u + point * step,
                           .step = shape->channels * RT_PANEL,
                           .next = point + 1 < shape->points ? u + (point + 1) * step : NULL};
}

/* Panels of the right side: of filters, or, in a row-major image, of tiles. */
static int64_t panels_of(const winograd *shape) {
    return (is_row_major(shape) ? shape->tiles_each : shape->columns) / RT_PANEL;
}

static void multiply_member(void *context, int member, int members) {
    const winograd_job *job = context;
    const winograd *shape = job->shape;
    const int64_t panels = panels_of(shape), groups = (panels + PANELS - 1) / PANELS,
                  count = shape->points * groups;
    for (int64_t i = count * member / members; i < count * (member + 1) / members; i++) {
        const bool rows = is_row_major(shape);
        const int64_t point = rows ? i / groups : i % shape->points,
                      panel = (rows ? i % groups : i / shape->points) * PANELS;
        const int64_t some = panels - panel < PANELS ? panels - panel : PANELS;
        int64_t step;
        if (rows) {
            multiply_rows(job, job->u + point * pairs(shape), point, panel, some);
            continue;
        }
        const float *u = job->u + u_offset(shape, panel, &step);
        const point_weights weights = weights_at(shape, u, step, point);
        multiply_channels(job, &weights, point, panel, some, 0, shape->channels);
    }
}

/* The weights of some panels are transformed, for some channels at a time, and multiplied at all points. */
static void transform_and_multiply(const winograd_job *job, float *own, int64_t panel, int64_t count) {
    const winograd *shape = job->shape;
    const int64_t width = shape->channels * RT_PANEL, step = own_point(shape), most = own_channels(shape);
    for (int64_t first = 0; first < shape->channels; first += most) {
        const int64_t end = shape->channels - first < most ? shape->channels : first + most;
        const int64_t some = (end - first) * RT_PANEL;
        for (int64_t p = 0; p < count; p++)
            rt_winograd_transform(shape, shape->dtype,
                                  job->weights + ((panel + p) * width + first * RT_PANEL) * shape->element,
                                  pairs(shape), some, own + p * some, step);
        for (int64_t point = 0; point < shape->points; point++)
            multiply_channels(job, &(point_weights){.u = own + point * step, .step = some}, point, panel,
                              count, first, end);
    }
}

static void leave_tiles(const winograd_job *job, int64_t first, int64_t end) {
    const winograd_steps *steps = best_steps(job->shape->layout);
    void (*leave)(const winograd_job *, int64_t) = is_row_major(job->shape) ? steps->leave_rows
                                                   : job->shape->line < 0   ? steps->leave_channels
                                                                            : steps->leave_lines;
    for (int64_t i = first; i < end; i++) leave(job, i);
}

/* Products and outputs of one group of filters, for tiles [first, end) of the block; M and transformed weights are the member's own. */
static void run_group(const winograd_job *all, int member, int64_t group, int64_t first, int64_t end) {
    const winograd *shape = all->shape;
    const int64_t panel = group * PANELS, rest = panels_of(shape) - panel,
                  count = rest < PANELS ? rest : PANELS;
    winograd_job job = *all;
    int64_t step;
    const float *u = job.u + u_offset(shape, panel, &step);
    job.m += member * shape->points * shape->m_point;
    job.v += first * shape->depth;
    job.first += first;
    job.count = end - first;
    job.first_filter = panel * RT_PANEL;
    job.next_filter = (panel + count) * RT_PANEL;
    if (job.count == 0) return;
    if (shape->transforms)
        transform_and_multiply(&job, all->own + member * shape->points * own_point(shape), panel, count);
    for (int64_t point = 0; point < shape->points && !shape->transforms; point++) {
        const point_weights weights = weights_at(shape, u, step, point);
        multiply_channels(&job, &weights, point, panel, count, 0, shape->channels);
    }
    leave_tiles(&job, 0, job.count);
}

static int64_t groups_of(const winograd *shape) {
    return (panels_of(shape) + PANELS - 1) / PANELS;
}

/* Filters are shared out. Where there are too few of them for all threads, these share out the tiles, too. */
static void group_member(void *context, int member, int members) {
    const winograd_job *job = context;
    const int64_t groups = groups_of(job->shape),
                  parts = groups % members == 0 || groups >= PANELS_EACH * members ? 1 : members;
    const int64_t items = groups * parts;
    for (int64_t item = items * member / members; item < items * (member + 1) / members; item++) {
        const int64_t part = item % parts;
        run_group(job, member, item / parts, job->count * part / parts, job->count * (part + 1) / parts);
    }
}

/* Each thread of the plan has tiles of its own that follow one another, as it has points of other convolutions: what lies between two of
 * them stays in its cache, and only the edges go from core to core. What a thread enters it multiplies itself, some tiles at a time, in its
 * part of V, and none waits for another. Each reads all transformed weights. */
static void tiles_member(void *context, int member, int members) {
    winograd_job job = *(const winograd_job *)context;
    const winograd *shape = job.shape;
    for (int part = member; part < shape->threads; part += members) {
        const int64_t begin = shape->tiles * part / shape->threads,
                      own = shape->tiles * (part + 1) / shape->threads - begin,
                      place = shape->tiles_each * part / shape->threads,
                      most = shape->tiles_each * (part + 1) / shape->threads - place,
                      turns = (own + most - 1) / most;
        for (int64_t turn = 0; turn < turns; turn++) {
            const int64_t from = own * turn / turns, end = place + own * (turn + 1) / turns - from;
            job.first = begin + from - place;
            enter_tiles(&job, place, end);
            for (int64_t group = 0; group < groups_of(shape); group++)
                run_group(&job, member, group, place, end);
        }
    }
}

static void leave_member(void *context, int member, int members) {
    const winograd_job *job = context;
    const int64_t lanes = best_steps(job->shape->layout)->lanes;
    const int64_t count = is_row_major(job->shape) ? (job->count + lanes - 1) / lanes : job->count;
    leave_tiles(job, count * member / members, count * (member + 1) / members);
}

static void transform_member(void *context, int member, int members) {
    const winograd_job *job = context;
    const int64_t count = pairs(job->shape), parts = (count + RT_PANEL - 1) / RT_PANEL;
    const int64_t first = parts * member / members * RT_PANEL,
                  next = parts * (member + 1) / members * RT_PANEL;
    const int64_t end = next < count ? next : count;
    rt_winograd_transform(job->shape, OP_FLOAT, job->weights + (size_t)first * sizeof(float), count,
                          end - first, job->own + first, count);
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)report;
    const winograd *shape = prepared->state;
    winograd_job job = {.shape = shape,
                        .x = inputs[0].data,
                        .weights = inputs[1].data,
                        .u = shape->transforms ? scratch : inputs[1].data,
                        .own = scratch,
                        .bias = shape->bias ? inputs[2].data : NULL,
                        .residual = shape->residual ? inputs[3].data : NULL,
                        .y = outputs[0].data,
                        .v = (float *)(void *)((char *)scratch + scratch_before(shape)),
                        .next_filter = shape->columns};
    job.m = job.v + shape->points * shape->v_point;
    if (shape->transforms && !transforms_apart(shape)) rt_team_run(prepared->threads, transform_member, &job);
    if (shape->shared) {
        rt_team_run(prepared->threads, tiles_member, &job);
        return BASE_OK;
    }
    for (; job.first < shape->tiles; job.first += shape->tiles_each) {
        job.count = block_tiles(&job);
        rt_team_run(prepared->threads, enter_member, &job);
        if (shape->grouped) {
            rt_team_run(prepared->threads, group_member, &job);
            continue;
        }
        rt_team_run(prepared->threads, multiply_member, &job);
        rt_team_run(prepared->threads, leave_member, &job);
    }
    return BASE_OK;
}

/* ---- the kernels --------------------------------------------------------------------------------------- */

static bool is_accepted(const op_call *call, const rt_environment *environment, bool transforms,
                        winograd *shape) {
    const op_type *weights = &call->inputs[1].type;
    if (!rt_winograd_read(call, environment, transforms, shape)) return false;
    return weights->layout == OP_LAYOUT_PACKED && weights->packed_bytes == weights_bytes(shape) &&
           (!shape->bias || call->inputs[2].type.layout == OP_LAYOUT_ROW_MAJOR);
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    winograd shape;
    return is_accepted(call, environment, false, &shape);
}

static bool accepts_transforming(const op_call *call, const rt_environment *environment) {
    winograd shape;
    return is_accepted(call, environment, true, &shape);
}

/* Bytes from beyond its own cache that each thread reads for a block: all transformed weights, if threads share tiles; otherwise those of its
 * filters, and V as far as others made it. Windows along one axis have few. */
static double bytes_of_each(const winograd *shape) {
    if (shape->line >= 0) return 0;
    const double weights = (double)transformed_bytes(shape), threads = shape->threads,
                 entered = (double)shape->points * (double)shape->v_point * sizeof(float);
    return shape->shared ? weights : (weights + (threads - 1) * entered) / threads;
}

/* What the convolution does with the blocks that are set. */
static rt_winograd_work work_of(const winograd *shape) {
    const double blocks = (double)((shape->tiles + shape->tiles_each - 1) / shape->tiles_each);
    const double windows = (double)pairs(shape) * (double)shape->points / POINTS;
    const bool apart = transforms_apart(shape);
    return (rt_winograd_work){.products = (double)shape->points * (double)shape->tiles *
                                          (double)shape->channels * (double)shape->filters,
                              .transformed_bytes = (double)shape->points * (double)shape->tiles *
                                                   (double)(shape->depth + shape->columns) * sizeof(float),
                              .block_bytes = (double)block_bytes(shape),
                              .weight_bytes =
                                  (double)(apart ? weights_bytes(shape) : transformed_bytes(shape)),
                              .each_bytes = bytes_of_each(shape),
                              .windows = apart               ? windows * blocks
                                         : shape->transforms ? windows
                                                             : 0,
                              .blocks = blocks};
}

static bool estimate_either(const op_call *call, const rt_environment *environment, bool transforms,
                            size_t scratch_limit, rt_cost *cost) {
    winograd shape;
    if (!rt_winograd_read(call, environment, transforms, &shape) ||
        !rt_winograd_is_predicted((double)shape.channels, (double)shape.filters, environment))
        return false;
    *cost = (rt_cost){.packed_bytes = weights_bytes(&shape)};
    for (int64_t blocks = 1; blocks <= MOST_BLOCKS; blocks++) {
        const int64_t before = shape.tiles_each;
        rt_winograd_set_blocks(&shape, blocks);
        if (blocks > 1 && shape.tiles_each == before) continue;
        if (scratch_bytes(&shape) <= scratch_limit) {
            const rt_winograd_work work = work_of(&shape);
            const double seconds = rt_winograd_seconds(&work, environment);
            if (!cost->blocks || seconds < cost->seconds) {
                cost->seconds = seconds;
                cost->blocks = blocks;
                cost->scratch_bytes = scratch_bytes(&shape);
            }
        }
        if (shape.tiles_each <= (is_row_major(&shape) ? RT_PANEL : LEAST_TILES)) break;
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

static base_status prepare_either(const op_call *call, const rt_environment *environment, bool transforms,
                                  base_arena *arena, rt_prepared *prepared, base_report *report) {
    winograd *shape = BASE_NEW(arena, winograd);
    if (!shape) return base_fail_memory(report);
    if (!is_accepted(call, environment, transforms, shape))
        return base_fail(report, BASE_INVALID, "this convolution has no Winograd form");
    prepared->state = shape;
    prepared->run = run;
    prepared->scratch_bytes = scratch_bytes(shape);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    return prepare_either(call, environment, false, arena, prepared, report);
}

static base_status prepare_transforming(const op_call *call, const rt_environment *environment,
                                        base_arena *arena, rt_prepared *prepared, base_report *report) {
    return prepare_either(call, environment, true, arena, prepared, report);
}

const rt_kernel rt_kernel_winograd = {.name = "portable.winograd",
                                      .accepts = accepts,
                                      .estimate = estimate,
                                      .pack = rt_winograd_pack,
                                      .only_packed = true,
                                      .prepare = prepare};

const rt_kernel rt_kernel_winograd_transforming = {.name = "portable.winograd_transforming",
                                                   .accepts = accepts_transforming,
                                                   .estimate = estimate_transforming,
                                                   .pack = rt_winograd_pack_weights,
                                                   .only_packed = true,
                                                   .prepare = prepare_transforming};
