/* SPDX-License-Identifier: Apache-2.0 */
/* few_filters.c: Conv with up to eight filters, all of which see all channels, in float: the layer that makes an image or a map of one number, where
 * kernels whose lanes are filters leave most lanes empty.
 *
 * Where channels lie side by side, in blocks of 16 or innermost, lanes are channels: sums of eight points stay in registers, and the lanes of each
 * are added up at the end. On row-major images at strides of 1 and 2 lanes are points of a row, up to eight vectors of which stay in registers; elements beside the
 * image are not read. Up to three filters are made together, so that what is read is used three times. The result is row-major.
 *
 * The weights are brought into the order in which they are used before each run, in scratch. Sums are made in an order that follows from the
 * shapes and the layout alone; products and their sums are rounded once.
 */
#include "ir/operators/window.h"
#include "runtime/kernels/portable/activation.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/lanes.h"
#include "runtime/kernels/portable/vector_math_512.h"
#include <math.h>
#include <string.h>

enum {
    LANES = 16,
    POINTS = 8,       /* whose sums are held, where lanes are channels */
    MOST_VECTORS = 8, /* the same where lanes are points */
    TOGETHER = 3,     /* filters */
    MOST_FILTERS = 8,
    MOST_WIDTH = 32, /* elements of a window's row, where lanes are points */
    DIMENSIONS = 3
};

typedef struct few_filters {
    int64_t images, channels, filters;
    int64_t input[DIMENSIONS], output[DIMENSIONS], kernel[DIMENSIONS], stride[DIMENSIONS],
        dilation[DIMENSIONS], before[DIMENSIONS];
    op_layout layout; /* of the images */
    int64_t blocks;   /* of 16 channels; lanes are points: channels */
    int64_t parts;    /* of the filters */
    bool bias, residual;
    rt_activation activation;
} few_filters;

/* ---- shapes -------------------------------------------------------------------------------------------- */

static int64_t product(const int64_t extents[DIMENSIONS]) {
    return extents[0] * extents[1] * extents[2];
}

static double share_of_lanes(int64_t count) {
    return (double)count / (double)((count + LANES - 1) / LANES * LANES);
}

/* False where the application is no convolution of this kind, or where lanes that are filters are about as full. */
static bool read_kind(const op_call *call, op_layout layout, few_filters *shape) {
    const op_type *x = &call->inputs[0].type;
    const op_shape *weights = &call->inputs[1].type.shape;
    op_window window;
    if (call->code != OP_CONV || x->dtype != OP_FLOAT || x->shape.rank < 3 ||
        x->shape.rank > 2 + DIMENSIONS || weights->rank != x->shape.rank)
        return false;
    if (!op_shape_known(&x->shape) || !op_shape_known(weights) ||
        op_attribute_integer(&call->attributes, "group", 1) != 1)
        return false;
    if (op_window_read(call, weights->dims + 2, &window, NULL) != BASE_OK) return false;
    const op_window three = op_window_of_three(&window);
    const bool points = layout == OP_LAYOUT_ROW_MAJOR;
    if (!points && layout != OP_LAYOUT_NHWC && layout != OP_LAYOUT_NC16) return false;
    *shape = (few_filters){.images = x->shape.dims[0],
                           .channels = weights->dims[1],
                           .filters = weights->dims[0],
                           .layout = layout,
                           .bias = op_input_present(call, 2),
                           .residual = op_input_present(call, 3)};
    for (int i = 0; i < DIMENSIONS; i++) {
        shape->input[i] = three.input[i];
        shape->output[i] = three.output[i];
        shape->kernel[i] = three.kernel[i];
        shape->stride[i] = three.stride[i];
        shape->dilation[i] = three.dilation[i];
        shape->before[i] = three.before[i];
    }
    if (shape->images < 1 || shape->channels < 1 || shape->filters < 1 || shape->filters > MOST_FILTERS ||
        product(shape->kernel) < 1 || product(shape->output) < 1 || product(shape->input) < 1)
        return false;
    const int64_t width = shape->output[DIMENSIONS - 1];
    if (share_of_lanes(points ? width : shape->channels) * 0.75 < share_of_lanes(shape->filters))
        return false;
    /* Of single points, as many filters as a tile of pointwise.c are made there. */
    if (points && (shape->stride[DIMENSIONS - 1] > 2 || shape->kernel[DIMENSIONS - 1] > MOST_WIDTH ||
                   (product(shape->kernel) == 1 && shape->filters >= 3)))
        return false;
    shape->blocks = points ? shape->channels : (shape->channels + LANES - 1) / LANES;
    shape->parts = (shape->filters + TOGETHER - 1) / TOGETHER;
    return rt_activation_read(&call->attributes, &shape->activation);
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    few_filters shape;
    return rt_has_wide_vectors(environment) && read_kind(call, call->inputs[0].type.layout, &shape) &&
           call->outputs[0].type.layout == OP_LAYOUT_ROW_MAJOR &&
           call->inputs[1].type.layout == OP_LAYOUT_ROW_MAJOR &&
           (!shape.bias || call->inputs[2].type.layout == OP_LAYOUT_ROW_MAJOR) &&
           (!shape.residual || call->inputs[3].type.layout == OP_LAYOUT_ROW_MAJOR);
}

/* Images stay as they lie. */
static bool prefer(const op_call *call, const rt_environment *environment, rt_preference *preference) {
    few_filters shape;
    const op_layout layout = preference->inputs[0];
    if (!rt_has_wide_vectors(environment) || !read_kind(call, layout, &shape)) return false;
    *preference = (rt_preference){.inputs = {layout}, .output = OP_LAYOUT_ROW_MAJOR};
    return true;
}

/* ---- running ------------------------------------------------------------------------------------------- */

#ifdef RT_HAS_MATH_512
#define AVX512 __attribute__((target("avx512f")))
#define INLINE static inline __attribute__((always_inline))

/* Some filters at points of one row of the output. */
typedef struct few_row {
    const few_filters *shape;
    const float *x;       /* of the image */
    const float *weights; /* of these filters */
    float bias[TOGETHER];
    const float *residual; /* of the first filter at the row's first point; NULL: none */
    float *y;
    int64_t map;                 /* floats from one filter's result to the next one's */
    int64_t top[DIMENSIONS - 1]; /* the plane and the row that the window's first elements see */
    int64_t first[DIMENSIONS - 1],
        end[DIMENSIONS - 1]; /* planes and rows of the window that see those of the image */
} few_row;

/* Before the first element of a row none is read, but its address is computed. */
INLINE const float *address(const float *from, int64_t floats) {
    return (const float *)((uintptr_t)from + (uintptr_t)(floats * (int64_t)sizeof *from));
}

/* The floats before a row of the window in one map, or in all that lie together: `pixel` floats an element. */
INLINE int64_t row_at(const few_row *row, int64_t plane, int64_t line, int64_t column, int64_t pixel) {
    const few_filters *s = row->shape;
    return (((row->top[0] + plane * s->dilation[0]) * s->input[1] + row->top[1] + line * s->dilation[1]) *
                s->input[2] +
            column) *
           pixel;
}

/* The lanes of each of eight vectors, added up: eight numbers in the lower half of one. */
AVX512 INLINE __m512 sums_of_8(const __m512 *v) {
    __m512 fours[2];
    _Pragma("GCC unroll 2") for (int i = 0; i < 2; i++) {
        const __m512 a = v[i], b = v[i + 2], c = v[i + 4], d = v[i + 6];
        const __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee)),
                     cd = _mm512_add_ps(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xee));
        fours[i] = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
    }
    /* By quarter of a vector: two sums of each of two of the eight, side by side; then the sums. */
    const __m512 pairs = _mm512_add_ps(_mm512_unpacklo_ps(fours[0], fours[1]),
                                       _mm512_unpackhi_ps(fours[0], fours[1])),
                 ones = _mm512_add_ps(pairs, _mm512_shuffle_ps(pairs, pairs, 0x4e));
    return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 1, 4, 5, 8, 9, 12, 13, 0, 1, 4, 5, 8, 9, 12, 13), ones);
}

/* `filters` filters at eight points from `column` on, of which `count` are there. `checked`: some elements may lie beside the image. */
AVX512 INLINE void channels_tile(const few_row *row, int filters, bool checked, int64_t column,
                                 int64_t count) {
    const few_filters *s = row->shape;
    const bool innermost = s->layout == OP_LAYOUT_NHWC;
    const int64_t width = s->input[2], pixel = innermost ? s->channels : LANES,
                  block_step = innermost ? LANES : product(s->input) * LANES, step = s->stride[2] * pixel,
                  left = column * s->stride[2] - s->before[2];
    __m512 sums[TOGETHER][POINTS];
    _Pragma("GCC unroll 3") for (int f = 0; f < filters; f++) {
        _Pragma("GCC unroll 8") for (int t = 0; t < POINTS; t++) sums[f][t] = _mm512_setzero_ps();
    }
    for (int64_t block = 0; block < s->blocks; block++) {
        const __mmask16 there = innermost ? rt_first_lanes_16(s->channels - block * LANES) : 0xffff;
        const float *x = row->x + block * block_step;
        for (int64_t plane = row->first[0]; plane < row->end[0]; plane++) {
            for (int64_t line = row->first[1]; line < row->end[1]; line++) {
                const float *start = address(x, row_at(row, plane, line, left, pixel));
                const float *weights = row->weights + ((block * s->kernel[0] + plane) * s->kernel[1] + line) *
                                                          s->kernel[2] * filters * LANES;
                int64_t at = left;
                for (int64_t j = 0; j < s->kernel[2]; j++, weights += filters * LANES) {
                    __m512 of[TOGETHER];
                    const float *from = start;
                    _Pragma("GCC unroll 3") for (int f = 0; f < filters; f++) of[f] =
                        _mm512_loadu_ps(weights + f * LANES);
                    _Pragma("GCC unroll 8") for (int t = 0; t < POINTS; t++) {
                        const bool outside = checked && (uint64_t)(at + t * s->stride[2]) >= (uint64_t)width;
                        const __m512 seen = _mm512_maskz_loadu_ps(outside ? 0 : there, from);
                        from = address(from, step);
                        __asm__("" : "+r"(from)); /* one address that moves, not eight of them */
                        _Pragma("GCC unroll 3") for (int f = 0; f < filters; f++) sums[f][t] =
                            _mm512_fmadd_ps(seen, of[f], sums[f][t]);
                    }
                    start = address(start, s->dilation[2] * pixel);
                    at += s->dilation[2];
                }
            }
        }
    }
    const __mmask16 stored = rt_first_lanes_16(count < POINTS ? count : POINTS);
    _Pragma("GCC unroll 3") for (int f = 0; f < filters; f++) {
        __m512 sum = _mm512_add_ps(sums_of_8(sums[f]), _mm512_set1_ps(row->bias[f]));
        if (row->residual)
            sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(stored, row->residual + f * row->map + column));
        _mm512_mask_storeu_ps(row->y + f * row->map + column, stored, sum);
    }
}

AVX512 INLINE void channels_row(const few_row *row, int filters) {
    const few_filters *s = row->shape;
    const int64_t reach = (POINTS - 1) * s->stride[2] + (s->kernel[2] - 1) * s->dilation[2];
    for (int64_t column = 0; column < s->output[2]; column += POINTS) {
        const int64_t left = column * s->stride[2] - s->before[2], count = s->output[2] - column;
        if (left >= 0 && left + reach < s->input[2]) channels_tile(row, filters, false, column, count);
        else channels_tile(row, filters, true, column, count);
    }
}

/* Which elements of the image the lanes see: by element of the window's row, by vector. At a stride of 2 two vectors are read for one. */
typedef uint16_t lane_masks[MOST_WIDTH][2 * MOST_VECTORS];

static void mask_lanes(const few_filters *s, int64_t column, int vectors, lane_masks masks) {
    const int64_t left = column * s->stride[2] - s->before[2], reads = vectors * s->stride[2];
    for (int64_t j = 0; j < s->kernel[2]; j++) {
        for (int64_t v = 0; v < reads; v++) {
            const int64_t at = left + j * s->dilation[2] + v * LANES;
            masks[j][v] = (uint16_t)(rt_first_lanes_16(s->input[2] - at) & ~(unsigned)rt_first_lanes_16(-at));
        }
    }
}

/* `filters` filters at the points of `vectors` vectors from `column` on, of which `count` are there. */
AVX512 INLINE void points_tile(const few_row *row, int filters, int vectors, int stride, int64_t column,
                               int64_t count, const uint16_t (*masks)[2 * MOST_VECTORS]) {
    const few_filters *s = row->shape;
    const int64_t left = column * stride - s->before[2], map = product(s->input);
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    __m512 sums[TOGETHER][MOST_VECTORS];
    _Pragma("GCC unroll 3") for (int f = 0; f < filters; f++) {
        _Pragma("GCC unroll 8") for (int v = 0; v < vectors; v++) sums[f][v] = _mm512_set1_ps(row->bias[f]);
    }
    for (int64_t channel = 0; channel < s->channels; channel++) {
        for (int64_t plane = row->first[0]; plane < row->end[0]; plane++) {
            for (int64_t line = row->first[1]; line < row->end[1]; line++) {
                const float *from = address(row->x, channel * map + row_at(row, plane, line, left, 1));
                const float *weights =
                    row->weights +
                    ((channel * s->kernel[0] + plane) * s->kernel[1] + line) * s->kernel[2] * filters;
                for (int64_t j = 0; j < s->kernel[2]; j++, weights += filters) {
                    __m512 of[TOGETHER];
                    _Pragma("GCC unroll 3") for (int f = 0; f < filters; f++) of[f] =
                        _mm512_set1_ps(weights[f]);
                    _Pragma("GCC unroll 8") for (int v = 0; v < vectors; v++) {
                        __m512 seen = _mm512_maskz_loadu_ps(masks[j][v * stride],
                                                            address(from, (int64_t)v * stride * LANES));
                        if (stride == 2)
                            seen = _mm512_permutex2var_ps(
                                seen, even,
                                _mm512_maskz_loadu_ps(masks[j][v * stride + 1],
                                                      address(from, (int64_t)(v * stride + 1) * LANES)));
                        _Pragma("GCC unroll 3") for (int f = 0; f < filters; f++) sums[f][v] =
                            _mm512_fmadd_ps(of[f], seen, sums[f][v]);
                    }
                    from = address(from, s->dilation[2]);
                }
            }
        }
    }
    _Pragma("GCC unroll 3") for (int f = 0; f < filters; f++) {
        _Pragma("GCC unroll 8") for (int v = 0; v < vectors; v++) {
            const int64_t at = f * row->map + column + v * LANES;
            const __mmask16 stored = rt_first_lanes_16(count - v * LANES);
            if (row->residual)
                sums[f][v] =
                    _mm512_add_ps(sums[f][v], _mm512_maskz_loadu_ps(stored, address(row->residual, at)));
            _mm512_mask_storeu_ps((float *)(uintptr_t)address(row->y, at), stored, sums[f][v]);
        }
    }
}

typedef void points_function(const few_row *row, int64_t column, int64_t count,
                             const uint16_t (*masks)[2 * MOST_VECTORS]);
#define POINTS_OF(filters, vectors, stride)                                                                  \
    AVX512 static void points_##filters##_##vectors##_##stride(                                              \
        const few_row *row, int64_t column, int64_t count, const uint16_t(*masks)[2 * MOST_VECTORS]) {       \
        points_tile(row, filters, vectors, stride, column, count, masks);                                    \
    }
#define POINTS_BY(filters, stride)                                                                           \
    POINTS_OF(filters, 2, stride)                                                                            \
    POINTS_OF(filters, 4, stride)                                                                            \
    POINTS_OF(filters, 6, stride)                                                                            \
    POINTS_OF(filters, 8, stride)
POINTS_BY(1, 1)
POINTS_BY(2, 1)
POINTS_BY(3, 1)
POINTS_BY(1, 2)
POINTS_BY(2, 2)
POINTS_BY(3, 2)
#define NAMES(filters, stride)                                                                               \
    {                                                                                                        \
        points_##filters##_2_##stride, points_##filters##_4_##stride, points_##filters##_6_##stride,         \
            points_##filters##_8_##stride                                                                    \
    }
/* By stride, by filters, by pairs of vectors. */
static points_function *const points_of[2][TOGETHER][MOST_VECTORS / 2] = {
    {NAMES(1, 1), NAMES(2, 1), NAMES(3, 1)}, {NAMES(1, 2), NAMES(2, 2), NAMES(3, 2)}};

AVX512 static void channels_1(const few_row *row) {
    channels_row(row, 1);
}
AVX512 static void channels_2(const few_row *row) {
    channels_row(row, 2);
}
AVX512 static void channels_3(const few_row *row) {
    channels_row(row, 3);
}
static void (*const channels_of[TOGETHER])(const few_row *) = {channels_1, channels_2, channels_3};

typedef struct few_job {
    const few_filters *shape;
    const float *x, *weights, *bias, *residual; /* weights: in the order of their use */
    float *y;
} few_job;

/* The first filter of a part; that of the part after the last one is the number of filters. */
static int64_t first_filter(const few_filters *s, int64_t part) {
    return s->filters * part / s->parts;
}

/* Row number i of the output of all images, of a part of the filters. */
static few_row row_of(const few_job *job, int64_t i, int64_t part, int64_t filters) {
    const few_filters *s = job->shape;
    const int64_t first = first_filter(s, part), rows = s->output[0] * s->output[1], image = i / rows,
                  lanes = s->layout == OP_LAYOUT_ROW_MAJOR ? 1 : LANES,
                  channels = s->layout == OP_LAYOUT_NC16 ? s->blocks * LANES : s->channels;
    const int64_t at[] = {i % rows / s->output[1], i % s->output[1]}, points = product(s->output);
    const int64_t y_at = (image * s->filters + first) * points + i % rows * s->output[2];
    few_row row = {.shape = s,
                   .x = job->x + image * channels * product(s->input),
                   .weights = job->weights + first * s->blocks * product(s->kernel) * lanes,
                   .residual = job->residual ? job->residual + y_at : NULL,
                   .y = job->y + y_at,
                   .map = points};
    for (int64_t f = 0; f < filters && job->bias; f++) row.bias[f] = job->bias[first + f];
    for (int d = 0; d < DIMENSIONS - 1; d++) {
        const int64_t dilation = s->dilation[d];
        row.top[d] = at[d] * s->stride[d] - s->before[d];
        row.first[d] = row.top[d] < 0 ? (-row.top[d] + dilation - 1) / dilation : 0;
        const int64_t end =
            row.top[d] < s->input[d] ? (s->input[d] - row.top[d] + dilation - 1) / dilation : 0;
        row.end[d] = end < s->kernel[d] ? end : s->kernel[d];
    }
    return row;
}

/* Rows are shared out. */
static void run_member(void *context, int member, int members) {
    const few_job *job = context;
    const few_filters *s = job->shape;
    const bool points = s->layout == OP_LAYOUT_ROW_MAJOR;
    const int64_t rows = s->images * s->output[0] * s->output[1], width = s->output[2],
                  tile = points ? MOST_VECTORS * LANES : width;
    lane_masks masks;
    for (int64_t column = 0; column < width; column += tile) {
        const int64_t count = width - column < tile ? width - column : tile;
        const int pairs = points ? (int)((count + 2 * LANES - 1) / (2 * LANES)) : 1;
        if (points) mask_lanes(s, column, 2 * pairs, masks);
        for (int64_t i = rows * member / members; i < rows * (member + 1) / members; i++) {
            for (int64_t part = 0; part < s->parts; part++) {
                const int64_t filters = first_filter(s, part + 1) - first_filter(s, part);
                const few_row row = row_of(job, i, part, filters);
                if (points)
                    points_of[s->stride[2] - 1][filters - 1][pairs - 1](
                        &row, column, count, (const uint16_t(*)[2 * MOST_VECTORS]) masks);
                else channels_of[filters - 1](&row);
                for (int64_t f = 0; f < filters && s->activation.kind != RT_ACTIVATION_NONE; f++)
                    rt_activation_floats(&s->activation, row.y + f * row.map + column, count);
            }
        }
    }
}

/* The weights of each part: [block of channels][element of the window][filter][channel], or [channel][element][filter]. */
static void order_weights(const few_filters *s, const float *from, float *to) {
    const int64_t taps = product(s->kernel), lanes = s->layout == OP_LAYOUT_ROW_MAJOR ? 1 : LANES;
    for (int64_t part = 0; part < s->parts; part++) {
        const int64_t first = first_filter(s, part), filters = first_filter(s, part + 1) - first;
        for (int64_t channel = 0; channel < s->blocks * lanes; channel++) {
            for (int64_t f = 0; f < filters; f++) {
                float *own = to + (channel / lanes * taps * filters + f) * lanes + channel % lanes;
                const float *weights = from + ((first + f) * s->channels + channel) * taps;
                for (int64_t t = 0; t < taps; t++)
                    own[t * filters * lanes] = channel < s->channels ? weights[t] : 0;
            }
        }
        to += filters * s->blocks * taps * lanes;
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)report;
    const few_filters *shape = prepared->state;
    const few_job job = {.shape = shape,
                         .x = inputs[0].data,
                         .weights = scratch,
                         .bias = shape->bias ? inputs[2].data : NULL,
                         .residual = shape->residual ? inputs[3].data : NULL,
                         .y = outputs[0].data};
    const double work = (double)shape->images * (double)shape->channels * (double)shape->filters *
                        (double)product(shape->output) * (double)product(shape->kernel);
    order_weights(shape, inputs[1].data, scratch);
    rt_team_run(work < RT_PARALLEL_WORK ? 1 : prepared->threads, run_member, (void *)(uintptr_t)&job);
    return BASE_OK;
}
#else
static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)prepared, (void)inputs, (void)outputs, (void)scratch;
    return base_fail(report, BASE_INVALID, "this machine has no vectors of 16 floats");
}
#endif

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    few_filters *shape = BASE_NEW(arena, few_filters);
    if (!shape) return base_fail_memory(report);
    if (!accepts(call, environment) || !read_kind(call, call->inputs[0].type.layout, shape))
        return base_fail(report, BASE_INVALID, "this convolution has not a few filters");
    const int64_t lanes = shape->layout == OP_LAYOUT_ROW_MAJOR ? 1 : LANES;
    prepared->scratch_bytes =
        (size_t)(shape->filters * shape->blocks * lanes * product(shape->kernel)) * sizeof(float);
    prepared->state = shape;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_few_filters = {
    .name = "portable.few_filters", .accepts = accepts, .prefer = prefer, .prepare = prepare};
