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
#include "ir/operators/window.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/half_lanes.h"
#include "runtime/kernels/portable/product.h"
#include <string.h>

enum {
    OUTPUTS = 4, /* of a tile, along each axis */
    WINDOW = 3,  /* of the weights, likewise */
    WEIGHTS = WINDOW * WINDOW,
    EDGE = 6, /* of what a tile sees, likewise: OUTPUTS + WINDOW - 1 */
    POINTS = EDGE * EDGE,
    LINE_POINTS = 8, /* of a line: what a tile sees */
    MOST_LINE_WEIGHTS = 5,
    MOST_LINE_OUTPUTS = 6,
    MOST_LANES = 16, /* channels or tiles of the widest vector */
    FEWEST_CHANNELS = 8,
    MOST_BLOCKS = 4096,
    FEWEST_TILES =
        64, /* of a block of several small images, at least, if there are so many: U is read for each block */
    LEAST_TILES = 4, /* of any block, where channels lie innermost: with fewer, U is read for too little */
    DOUBLES = 8,     /* of one vector */
    PANELS = 2,      /* multiplied together: as many as the widest tiles have */
    GROUP = PANELS * RT_PANEL,
    PANELS_EACH = 4,      /* for each of several threads, so that none waits long */
    FEWEST_TOGETHER = 32, /* channels whose weights are transformed together, */
    MOST_TOGETHER = 128,  /* at least and at most: they stay in a near cache */
    TOGETHER = 64,        /* pairs whose weights are transformed together */
    PAD =
        16 /* floats between the points of V, and of M: their columns would fall on the same lines of a cache */
};

typedef float floats_8 __attribute__((vector_size(DOUBLES * sizeof(float)), may_alias));
typedef double doubles __attribute__((vector_size(DOUBLES * sizeof(double)), may_alias));

typedef struct winograd {
    op_layout layout;
    op_dtype dtype;
    int64_t element; /* bytes */
    int64_t images, channels, filters;
    int64_t input[2], output[2], before[2]; /* height, width */
    int line;                               /* the axis along which windows lie; -1: they are 3x3 */
    int64_t points, weights;                /* products of a tile, and of a window, for each pair */
    int64_t covers[2];                      /* outputs of a tile along each axis */
    int64_t grid[2];                        /* tiles in a column and in a row of an image */
    int64_t tiles, tiles_each;              /* in all; of a block, a multiple of the lanes */
    int64_t depth, columns;                 /* channels and filters, rounded up to whole panels */
    int64_t v_point, m_point;               /* floats from one point to the next */
    bool bias, residual;
    bool grouped;    /* M holds GROUP filters, and each thread has its own */
    bool transforms; /* the weights, in each run */
    int threads;     /* each of which has transformed weights of its own then */
    rt_activation activation;
    bool limits; /* the activation is done with these: */
    float low, high;
} winograd;

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
    return (size_t)(shape->points * pairs(shape)) * sizeof(float);
}

/* Of the constant. */
static size_t weights_bytes(const winograd *shape) {
    return shape->transforms ? (size_t)(shape->weights * pairs(shape)) * (size_t)shape->element
                             : transformed_bytes(shape);
}

/* Whether the weights are transformed for some filters at a time, by the thread that uses them. */
static bool transforms_apart(const winograd *shape) {
    return shape->transforms && !is_row_major(shape);
}

/* Channels whose weights are transformed together: as many as take no more than V does. */
static int64_t own_channels(const winograd *shape) {
    const int64_t wanted = shape->v_point / GROUP / RT_PANEL * RT_PANEL;
    const int64_t most = wanted < FEWEST_TOGETHER ? FEWEST_TOGETHER
                         : wanted > MOST_TOGETHER ? MOST_TOGETHER
                                                  : wanted;
    return shape->channels < most ? shape->channels : most;
}

/* Floats from one point to the next of the weights that a thread transforms. */
static int64_t own_point(const winograd *shape) {
    return GROUP * own_channels(shape) + PAD;
}

/* V and M, after U where that is made in each run. */
static size_t scratch_before(const winograd *shape) {
    if (!shape->transforms) return 0;
    const size_t bytes = transforms_apart(shape)
                             ? (size_t)(shape->threads * shape->points * own_point(shape)) * sizeof(float)
                             : transformed_bytes(shape);
    return (size_t)round_up((int64_t)bytes, RT_ALIGNMENT);
}

/* Of V and of all M. */
static size_t block_bytes(const winograd *shape) {
    const int64_t parts = shape->grouped ? shape->threads : 1;
    return (size_t)(shape->points * (shape->v_point + parts * shape->m_point)) * sizeof(float);
}

static size_t scratch_bytes(const winograd *shape) {
    return scratch_before(shape) + block_bytes(shape);
}

/* Filters from one tile of M to the next. */
static int64_t row_of_m(const winograd *shape) {
    return shape->grouped && shape->columns > GROUP ? GROUP : shape->columns;
}

static void set_tiles(winograd *shape, int64_t tiles) {
    shape->tiles_each = is_row_major(shape)   ? round_up(tiles, RT_PANEL)
                        : tiles < LEAST_TILES ? LEAST_TILES
                                              : tiles;
    shape->v_point = shape->tiles_each * shape->depth + PAD;
    shape->m_point = shape->tiles_each * row_of_m(shape) + PAD;
}

/* The work in so many blocks. */
static void set_blocks(winograd *shape, int64_t blocks) {
    set_tiles(shape, (shape->tiles + blocks - 1) / blocks);
}

/* The work where so many blocks make up one image, of whose number nobody knew. */
static void set_image_blocks(winograd *shape, int64_t blocks) {
    const int64_t image = shape->grid[0] * shape->grid[1], all = round_up(shape->tiles, RT_PANEL);
    int64_t each = round_up((image + blocks - 1) / blocks, RT_PANEL);
    if (each < FEWEST_TILES) each = FEWEST_TILES;
    if (each > all) each = all;
    if (each == 0) each = RT_PANEL; /* no images */
    set_tiles(shape, each);
}

/* Windows along one axis of an image, or of a signal, which is an image one row high. */
static bool read_line(const op_window *window, winograd *shape) {
    const int across = window->rank - 1;
    for (int i = 0; i < 2; i++) {
        const int at = i - (2 - window->rank); /* the axis of the window; below 0: there is none */
        shape->input[i] = at < 0 ? 1 : window->input[at];
        shape->output[i] = at < 0 ? 1 : window->output[at];
        shape->before[i] = at < 0 ? 0 : window->before[at];
        shape->covers[i] = 1;
    }
    shape->line = window->rank == 2 && window->kernel[across] == 1 ? 0 : 1;
    const int at = shape->line - (2 - window->rank), other = 1 - shape->line;
    const int64_t weights = window->kernel[at];
    if ((weights != 3 && weights != MOST_LINE_WEIGHTS) || shape->output[other] != shape->input[other] ||
        shape->before[other] != 0 || (window->rank == 2 && window->kernel[other] != 1))
        return false;
    shape->points = LINE_POINTS;
    shape->weights = weights;
    shape->covers[shape->line] = LINE_POINTS - weights + 1;
    return !is_row_major(shape);
}

static bool read_square(const op_window *window, winograd *shape) {
    shape->line = -1;
    shape->points = POINTS;
    shape->weights = WEIGHTS;
    for (int i = 0; i < 2; i++) {
        if (window->kernel[i] != WINDOW) return false;
        shape->input[i] = window->input[i];
        shape->output[i] = window->output[i];
        shape->before[i] = window->before[i];
        shape->covers[i] = OUTPUTS;
    }
    return true;
}

/* False where the application is no convolution of this kind. */
static bool read_shape(const op_call *call, const rt_environment *environment, bool transforms,
                       winograd *shape) {
    const op_type *x = &call->inputs[0].type, *y = &call->outputs[0].type;
    const op_shape *weights = &call->inputs[1].type.shape;
    op_window window;
    if (call->code != OP_CONV || (x->dtype != OP_FLOAT && !rt_is_half(x->dtype)) || x->shape.rank < 3 ||
        x->shape.rank > 4 || weights->rank != x->shape.rank)
        return false;
    if (!op_shape_known(&x->shape) || !op_shape_known(&y->shape) || !op_shape_known(weights)) return false;
    if (op_attribute_integer(&call->attributes, "group", 1) != 1 || x->layout != y->layout) return false;
    if (x->layout >= OP_LAYOUT_PACKED) return false;
    if (rt_is_half(x->dtype) && x->layout != OP_LAYOUT_NC16 && x->layout != OP_LAYOUT_NHWC) return false;
    if (op_window_read(call, weights->dims + 2, &window, NULL) != BASE_OK) return false;
    *shape = (winograd){.layout = x->layout,
                        .dtype = x->dtype,
                        .element = (int64_t)op_dtype_bytes(x->dtype),
                        .images = x->shape.dims[0],
                        .channels = x->shape.dims[1],
                        .filters = weights->dims[0],
                        .bias = op_input_present(call, 2),
                        .residual = op_input_present(call, 3)};
    if (shape->residual && call->inputs[3].type.layout != y->layout) return false;
    if (!rt_activation_read(&call->attributes, &shape->activation)) return false;
    shape->limits = rt_activation_limits(&shape->activation, &shape->low, &shape->high);
    for (int i = 0; i < window.rank; i++)
        if (window.stride[i] != 1 || window.dilation[i] != 1) return false;
    const bool square = window.rank == 2 && window.kernel[0] == WINDOW && window.kernel[1] == WINDOW;
    if (!(square ? read_square(&window, shape) : read_line(&window, shape))) return false;
    for (int i = 0; i < 2; i++) shape->grid[i] = (shape->output[i] + shape->covers[i] - 1) / shape->covers[i];
    shape->tiles = shape->images * shape->grid[0] * shape->grid[1];
    shape->depth = round_up(shape->channels, RT_PANEL);
    shape->columns = is_row_major(shape) ? shape->filters : round_up(shape->filters, RT_PANEL);
    shape->transforms = transforms;
    shape->threads = environment->threads > 0 ? environment->threads : 1;
    shape->grouped = !is_row_major(shape) && (transforms || shape->threads == 1 ||
                                              shape->columns / RT_PANEL >= PANELS_EACH * shape->threads);
    const int64_t blocks = op_attribute_integer(&call->attributes, "ouro.blocks", 1),
                  image_blocks = op_attribute_integer(&call->attributes, "ouro.image_blocks", 0);
    if (blocks < 1 || blocks > MOST_BLOCKS || image_blocks < 0 || image_blocks > MOST_BLOCKS) return false;
    if (shape->tiles < 1 && !image_blocks) return false;
    if (shape->channels < FEWEST_CHANNELS || shape->filters < FEWEST_CHANNELS) return false;
    if (image_blocks) set_image_blocks(shape, image_blocks);
    else set_blocks(shape, blocks);
    size_t limit; /* of all sizes here: they are products of these */
    return base_size_multiply((size_t)(shape->tiles_each * shape->threads + shape->filters + GROUP),
                              (size_t)(shape->depth + shape->columns), &limit) &&
           base_size_multiply(limit, 2 * POINTS * sizeof(float), &limit);
}

/* ---- weights ------------------------------------------------------------------------------------------- */

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

/* The weights of `count` pairs. Weight k of pair i lies at weights[k * pairs + i], point p of it comes to u[p * step + i]. The points
 * of some pairs are put together first: written one by one, with a power of two between them, they would push each other out of the
 * caches. */
RT_CLONES static void transform_weights(const winograd *shape, op_dtype dtype, const void *weights,
                                        int64_t pairs, int64_t count, float *u, int64_t step) {
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

#if defined(__x86_64__) && defined(__GNUC__)
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
#if defined(__x86_64__) && defined(__GNUC__)
    if (layout != OP_LAYOUT_NC8 && __builtin_cpu_supports("avx512f")) return &steps_16;
    if (__builtin_cpu_supports("avx2") && rt_has_half_conversions()) return &steps_8;
#endif
    (void)layout;
    return &steps_4;
}

/* ---- a block of tiles ---------------------------------------------------------------------------------- */

static void enter_member(void *context, int member, int members) {
    const winograd_job *job = context;
    const bool rows = is_row_major(job->shape);
    const winograd_steps *steps = best_steps(job->shape->layout);
    /* What pads the last panel of tiles is zeros, which are entered too. */
    const int64_t count = rows ? job->shape->tiles_each / steps->lanes : job->count;
    void (*enter)(const winograd_job *, int64_t) = rows                   ? steps->enter_rows
                                                   : job->shape->line < 0 ? steps->enter_channels
                                                                          : steps->enter_lines;
    for (int64_t i = count * member / members; i < count * (member + 1) / members; i++) enter(job, i);
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

/* The products at one point of some panels of filters and of channels [first, end). `u`: their transformed weights, a panel `u_step` floats
 * after the one before. */
static void multiply_channels(const winograd_job *job, const float *u, int64_t u_step, int64_t point,
                              int64_t panel, int64_t count, int64_t first, int64_t end) {
    const winograd *shape = job->shape;
    for (int64_t from = first; from < end; from += RT_BLOCK_DEPTH) {
        rt_tiles tiles = {.rows = job->count,
                          .columns = count * RT_PANEL,
                          .depth = end - from < RT_BLOCK_DEPTH ? end - from : RT_BLOCK_DEPTH,
                          .a = job->v + point * shape->v_point + from,
                          .a_row = shape->depth,
                          .a_depth = 1,
                          .panels = u + (from - first) * RT_PANEL,
                          .panel_step = u_step,
                          .c = job->m + point * shape->m_point + panel * RT_PANEL - job->first_filter,
                          .c_row = row_of_m(shape),
                          .add = from > 0,
                          .fused = true};
        rt_tiles_run(&tiles);
    }
}

/* Panels of the right side: of filters, or, in a row-major image, of tiles. */
static int64_t panels_of(const winograd *shape) {
    return (is_row_major(shape) ? shape->tiles_each : shape->columns) / RT_PANEL;
}

/* Transformed weights with channels innermost: [group of panels][point][panel][channel][RT_PANEL], so that those of a group are read one after
 * another. Where a panel begins, and how far it is from there to its next point. */
static int64_t u_offset(const winograd *shape, int64_t panel, int64_t *step) {
    const int64_t width = shape->channels * RT_PANEL, group = panel / PANELS * PANELS,
                  rest = shape->columns / RT_PANEL - group;
    *step = (rest < PANELS ? rest : PANELS) * width;
    return group * width * shape->points + (panel - group) * width;
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
        multiply_channels(job, u + point * step, shape->channels * RT_PANEL, point, panel, some, 0,
                          shape->channels);
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
            transform_weights(shape, shape->dtype,
                              job->weights + ((panel + p) * width + first * RT_PANEL) * shape->element,
                              pairs(shape), some, own + p * some, step);
        for (int64_t point = 0; point < shape->points; point++)
            multiply_channels(job, own + point * step, some, point, panel, count, first, end);
    }
}

static void leave_tiles(const winograd_job *job, int64_t first, int64_t end) {
    const winograd_steps *steps = best_steps(job->shape->layout);
    void (*leave)(const winograd_job *, int64_t) = is_row_major(job->shape) ? steps->leave_rows
                                                   : job->shape->line < 0   ? steps->leave_channels
                                                                            : steps->leave_lines;
    for (int64_t i = first; i < end; i++) leave(job, i);
}

/* Products and outputs of some filters after others. Where there are too few of them for all threads, these share out the tiles, too. */
static void group_member(void *context, int member, int members) {
    const winograd_job *all = context;
    const winograd *shape = all->shape;
    const int64_t panels = panels_of(shape), groups = (panels + PANELS - 1) / PANELS;
    const int64_t parts = groups % members == 0 || groups >= PANELS_EACH * members ? 1 : members;
    const int64_t items = groups * parts;
    float *own = all->own + member * shape->points * own_point(shape);
    for (int64_t item = items * member / members; item < items * (member + 1) / members; item++) {
        const int64_t panel = item / parts * PANELS, part = item % parts;
        const int64_t first = all->count * part / parts, end = all->count * (part + 1) / parts;
        const int64_t count = panels - panel < PANELS ? panels - panel : PANELS;
        winograd_job job = *all;
        int64_t step;
        const float *u = job.u + u_offset(shape, panel, &step);
        job.m += member * shape->points * shape->m_point;
        job.v += first * shape->depth;
        job.first += first;
        job.count = end - first;
        job.first_filter = panel * RT_PANEL;
        job.next_filter = (panel + count) * RT_PANEL;
        if (job.count == 0) continue;
        if (shape->transforms) transform_and_multiply(&job, own, panel, count);
        for (int64_t point = 0; point < shape->points && !shape->transforms; point++)
            multiply_channels(&job, u + point * step, shape->channels * RT_PANEL, point, panel, count, 0,
                              shape->channels);
        leave_tiles(&job, 0, job.count);
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
    transform_weights(job->shape, OP_FLOAT, job->weights + (size_t)first * sizeof(float), count, end - first,
                      job->own + first, count);
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
    for (job.first = 0; job.first < shape->tiles; job.first += shape->tiles_each) {
        const int64_t rest = shape->tiles - job.first;
        job.count = rest < shape->tiles_each ? rest : shape->tiles_each;
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
    if (!read_shape(call, environment, transforms, shape)) return false;
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
                              .windows = apart               ? windows * blocks
                                         : shape->transforms ? windows
                                                             : 0,
                              .blocks = blocks};
}

static bool estimate_either(const op_call *call, const rt_environment *environment, bool transforms,
                            size_t scratch_limit, rt_cost *cost) {
    winograd shape;
    if (!read_shape(call, environment, transforms, &shape) ||
        !rt_winograd_is_predicted((double)shape.channels, (double)shape.filters, environment))
        return false;
    *cost = (rt_cost){.packed_bytes = weights_bytes(&shape)};
    for (int64_t blocks = 1; blocks <= MOST_BLOCKS; blocks++) {
        const int64_t before = shape.tiles_each;
        set_blocks(&shape, blocks);
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

/* The order of the pairs. Channels innermost: [panel of filters][channel][RT_PANEL]. Row-major: [filter][channel]. */
static int64_t pair_at(const winograd *shape, int64_t filter, int64_t channel) {
    return is_row_major(shape)
               ? filter * shape->channels + channel
               : (filter / RT_PANEL * shape->channels + channel) * RT_PANEL + filter % RT_PANEL;
}

/* The weights as transform_weights wants them: [weight][pair]. */
static base_status pack_weights(const op_call *call, const rt_environment *environment, uint32_t input,
                                const op_tensor *plain, void *packed, base_report *report) {
    winograd shape;
    if (input != 1 || !read_shape(call, environment, true, &shape))
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
        transform_weights(shape, OP_FLOAT, beside[0], TOGETHER, some, u, step);
    }
}

/* The same pairs, transformed: [point][pair] in a row-major image, else as u_offset says. */
static base_status pack(const op_call *call, const rt_environment *environment, uint32_t input,
                        const op_tensor *plain, void *packed, base_report *report) {
    winograd shape;
    if (input != 1 || !read_shape(call, environment, false, &shape))
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

const rt_kernel rt_kernel_winograd = {
    .name = "portable.winograd", .accepts = accepts, .estimate = estimate, .pack = pack, .prepare = prepare};

const rt_kernel rt_kernel_winograd_transforming = {.name = "portable.winograd_transforming",
                                                   .accepts = accepts_transforming,
                                                   .estimate = estimate_transforming,
                                                   .pack = pack_weights,
                                                   .prepare = prepare_transforming};
