/* SPDX-License-Identifier: Apache-2.0 */
/* few_filters.c: Conv and ConvTranspose with up to eight filters, all of which see all channels, in float: the layer that makes an image or a
 * map of one number, where kernels whose lanes are filters leave most lanes empty.
 *
 * Where channels lie side by side, in blocks of 16 or innermost, lanes are channels: sums of eight points stay in registers, and the lanes of
 * each are added up at the end. On row-major images at strides of 1 and 2 lanes are points of a row, or of up to eight rows that see the image
 * through the same elements; up to eight vectors of points stay in registers, and elements beside the image are not read. Up to three filters
 * are made together, so that what is read is used three times. The result is row-major.
 *
 * The outputs of a ConvTranspose that lie a stride apart see the image through the same elements of the kernel, turned round: they are a
 * convolution of stride 1, whose window is that part of the kernel. There are as many such parts as the product of the strides. A Conv is one.
 *
 * Weights are in the order in which they are used: packed, where they are constant, else brought into it before each run, in scratch. Sums are
 * made in an order that follows from the shapes and the layout alone; products and their sums are rounded once.
 */
#include "ir/operators/window.h"
#include "runtime/kernels/base/packed_extents.h"
#include "runtime/kernels/portable/activation.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/lanes.h"
#include "runtime/kernels/portable/vector_math_512.h"
#include <math.h>
#include <string.h>

enum {
    LANES = 16,
    POINTS = 8,            /* whose sums are held, where lanes are channels */
    MOST_VECTORS = 8,      /* the same where lanes are points */
    NEAR_FLOATS = 1 << 16, /* of the image */
    MOST_DOUBLINGS = 3,    /* of rows, that are made together then */
    TOGETHER = 3,          /* filters */
    MOST_FILTERS = 8,
    MOST_WIDTH = 32, /* elements of a window's row, where lanes are points */
    MOST_PHASES = 16,
    DIMENSIONS = 3
};

/* One of the convolutions that write every step-th output. */
typedef struct few_phase {
    int64_t output[DIMENSIONS], kernel[DIMENSIONS], stride[DIMENSIONS], dilation[DIMENSIONS],
        before[DIMENSIONS];
    int64_t begin
        [DIMENSIONS]; /* which element of the whole kernel is its first one, or, turned round, its last */
    int64_t weights;  /* where its own begin, in floats */
} few_phase;

typedef struct few_filters {
    int64_t images, channels, filters;
    int64_t input[DIMENSIONS], output[DIMENSIONS], kernel[DIMENSIONS];
    int64_t step[DIMENSIONS]; /* from an output of a phase to its next one; of a Conv: 1 */
    op_layout layout;         /* of the images */
    int64_t lanes;            /* that are channels: 16, or 1 */
    int64_t blocks;           /* of so many channels */
    int64_t parts;            /* of the filters */
    size_t
        packed_bytes; /* of one number more than there are weights: that tells them from those that other kernels pack */
    bool transposed, bias, residual;
    rt_activation activation;
    few_phase phases[MOST_PHASES]; /* in the order of the first output of each */
} few_filters;

/* ---- shapes -------------------------------------------------------------------------------------------- */

static int64_t product(const int64_t extents[DIMENSIONS]) {
    return extents[0] * extents[1] * extents[2];
}

static double share_of_lanes(int64_t count) {
    return (double)count / (double)((count + LANES - 1) / LANES * LANES);
}

static int64_t phases_of(const few_filters *s) {
    return product(s->step);
}

/* Floats of the weights of a phase, and of all of them. */
static int64_t weights_of(const few_filters *s, const int64_t kernel[DIMENSIONS]) {
    return s->filters * s->blocks * s->lanes * product(kernel);
}

static bool read_window(const op_call *call, few_filters *s) {
    few_phase *phase = &s->phases[0];
    op_window window;
    if (op_window_read(call, call->inputs[1].type.shape.dims + 2, &window, NULL) != BASE_OK) return false;
    const op_window three = op_window_of_three(&window);
    *phase = (few_phase){.weights = 0};
    for (int i = 0; i < DIMENSIONS; i++) {
        s->step[i] = 1;
        s->input[i] = three.input[i];
        s->output[i] = phase->output[i] = three.output[i];
        s->kernel[i] = phase->kernel[i] = three.kernel[i];
        phase->stride[i] = three.stride[i];
        phase->dilation[i] = three.dilation[i];
        phase->before[i] = three.before[i];
    }
    return true;
}

/* The place of a phase in the order of elements of the kernel. */
static int64_t place_of(const few_filters *s, const few_phase *phase) {
    return (phase->begin[0] * s->step[1] + phase->begin[1]) * s->step[2] + phase->begin[2];
}

/* The weights of phases lie in that order: where the outputs begin does not change it, which bands of rows do. */
static void place_weights(few_filters *s) {
    int64_t at = 0;
    for (int64_t place = 0; place < phases_of(s); place++) {
        for (int64_t p = 0; p < phases_of(s); p++) {
            if (place_of(s, &s->phases[p]) != place) continue;
            s->phases[p].weights = at;
            at += weights_of(s, s->phases[p].kernel);
        }
    }
}

static bool read_transposed(const op_call *call, few_filters *s) {
    op_transposed window;
    if (!op_transposed_read(call, &window, NULL) || window.group != 1) return false;
    for (int i = 0; i < DIMENSIONS; i++) {
        const int at = i - (DIMENSIONS - window.rank);
        s->input[i] = at < 0 ? 1 : window.input[at];
        s->output[i] = at < 0 ? 1 : window.output[at];
        s->kernel[i] = at < 0 ? 1 : window.kernel[at];
        s->step[i] = at < 0 ? 1 : window.stride[at];
        if ((at >= 0 && (window.dilation[at] != 1 || window.before[at] < 0)) || s->step[i] > MOST_PHASES)
            return false;
    }
    if (phases_of(s) > MOST_PHASES) return false;
    for (int64_t p = 0; p < phases_of(s); p++) {
        const int64_t first[] = {p / s->step[2] / s->step[1], p / s->step[2] % s->step[1], p % s->step[2]};
        few_phase *phase = &s->phases[p];
        for (int i = 0; i < DIMENSIONS; i++) {
            const op_transposed_phase of =
                op_transposed_phase_of(&window, i - (DIMENSIONS - window.rank), first[i]);
            phase->begin[i] = of.begin;
            phase->kernel[i] = of.kernel;
            phase->before[i] = of.before;
            phase->output[i] = of.output;
            phase->stride[i] = phase->dilation[i] = 1;
        }
    }
    return true;
}

/* False where there are no weights, or more than can be. */
static bool find_bytes(few_filters *s) {
    size_t count = (size_t)s->filters;
    for (int i = 0; i < DIMENSIONS; i++)
        if (s->kernel[i] < 1 || !base_size_multiply(count, (size_t)s->kernel[i], &count)) return false;
    return base_size_multiply(count, (size_t)(s->blocks * s->lanes), &count) &&
           base_size_add(count, 1, &count) && base_size_multiply(count, sizeof(float), &s->packed_bytes);
}

/* False where the application is no convolution of this kind. */
static bool read_kind(const op_call *call, op_layout layout, few_filters *shape) {
    const op_type *x = &call->inputs[0].type;
    const op_shape *weights = &call->inputs[1].type.shape;
    const bool transposed = call->code == OP_CONV_TRANSPOSE;
    if (!(transposed || call->code == OP_CONV) || x->dtype != OP_FLOAT || x->shape.rank < 3 ||
        x->shape.rank > 2 + DIMENSIONS || weights->rank != x->shape.rank)
        return false;
    if (!op_shape_known(&x->shape) || !op_shape_known(weights) ||
        op_attribute_integer(&call->attributes, "group", 1) != 1)
        return false;
    const bool points = layout == OP_LAYOUT_ROW_MAJOR;
    if (!points && layout != OP_LAYOUT_NHWC && layout != OP_LAYOUT_NC16) return false;
    shape->images = x->shape.dims[0];
    shape->channels = weights->dims[transposed ? 0 : 1];
    shape->filters = weights->dims[transposed ? 1 : 0];
    shape->layout = layout;
    shape->lanes = points ? 1 : LANES;
    shape->blocks = (shape->channels + shape->lanes - 1) / shape->lanes;
    shape->parts = (shape->filters + TOGETHER - 1) / TOGETHER;
    shape->transposed = transposed;
    shape->bias = op_input_present(call, 2);
    shape->residual = !transposed && op_input_present(call, 3);
    if (shape->images < 1 || shape->channels < 1 || shape->filters < 1 || shape->filters > MOST_FILTERS ||
        !(transposed ? read_transposed(call, shape) : read_window(call, shape)))
        return false;
    if (!find_bytes(shape) || product(shape->output) < 1 || product(shape->input) < 1) return false;
    if (transposed) place_weights(shape);
    if (points && (shape->phases[0].stride[DIMENSIONS - 1] > 2 || shape->kernel[DIMENSIONS - 1] > MOST_WIDTH))
        return false;
    return rt_activation_read(&call->attributes, &shape->activation);
}

/* False where lanes that are filters are about as full. */
static bool is_wanted(const few_filters *shape) {
    const bool points = shape->layout == OP_LAYOUT_ROW_MAJOR;
    const int64_t width = shape->phases[0].output[DIMENSIONS - 1];
    /* Of single points, as many filters as a tile of pointwise.c are made there. */
    return share_of_lanes(points ? width : shape->channels) * 0.75 >= share_of_lanes(shape->filters) &&
           !(points && !shape->transposed && product(shape->kernel) == 1 && shape->filters >= 3);
}

/* Likewise; where extents are open, as those that it was laid out for. */
static bool read_laid_out(const op_call *call, op_layout layout, few_filters *shape) {
    rt_other_extents packed;
    if (!op_shape_known(&call->inputs[0].type.shape)) call = rt_as_packed(call, &packed);
    return call && read_kind(call, layout, shape);
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    few_filters shape;
    const op_type *weights = &call->inputs[1].type;
    if (!rt_has_wide_vectors(environment) || !read_laid_out(call, call->inputs[0].type.layout, &shape))
        return false;
    const bool fit = weights->layout == OP_LAYOUT_PACKED
                         ? weights->packed_bytes == shape.packed_bytes
                         : weights->layout == OP_LAYOUT_ROW_MAJOR && is_wanted(&shape);
    return fit && call->outputs[0].type.layout == OP_LAYOUT_ROW_MAJOR &&
           (!shape.bias || call->inputs[2].type.layout == OP_LAYOUT_ROW_MAJOR) &&
           (!shape.residual || call->inputs[3].type.layout == OP_LAYOUT_ROW_MAJOR);
}

/* Images stay as they lie. Where their extents are open, so do weights: other extents may be for another kernel. */
static bool prefer(const op_call *call, const rt_environment *environment, rt_preference *preference) {
    few_filters shape;
    const op_layout layout = preference->inputs[0];
    if (!rt_has_wide_vectors(environment) || !read_laid_out(call, layout, &shape) || !is_wanted(&shape))
        return false;
    *preference = (rt_preference){.inputs = {layout}, .output = OP_LAYOUT_ROW_MAJOR};
    if (call->inputs[1].data && !op_attribute_find(&call->attributes, "ouro.packed_extents")) {
        preference->inputs[1] = OP_LAYOUT_PACKED;
        preference->packed_bytes[1] = shape.packed_bytes;
    }
    return true;
}

/* ---- weights ------------------------------------------------------------------------------------------- */

/* The first filter of a part; that of the part after the last one is the number of filters. */
static int64_t first_filter(const few_filters *s, int64_t part) {
    return part == s->parts ? s->filters : s->filters * part / s->parts;
}

/* Element number t of the window of a phase, as that of the kernel. */
static int64_t element_of(const few_filters *s, const few_phase *phase, int64_t t) {
    const int64_t at[] = {t / phase->kernel[2] / phase->kernel[1], t / phase->kernel[2] % phase->kernel[1],
                          t % phase->kernel[2]};
    int64_t element = 0;
    for (int i = 0; i < DIMENSIONS; i++) {
        const int64_t own =
            s->transposed ? phase->begin[i] + (phase->kernel[i] - 1 - at[i]) * s->step[i] : at[i];
        element = element * s->kernel[i] + own;
    }
    return element;
}

/* The weights of each phase, of each part: [block of channels][element of the window][filter][channel]. */
static void order_weights(const few_filters *s, const float *from, float *to) {
    const int64_t whole = product(s->kernel), lanes = s->lanes;
    for (int64_t p = 0; p < phases_of(s); p++) {
        const few_phase *phase = &s->phases[p];
        const int64_t taps = product(phase->kernel);
        float *at = to + phase->weights;
        for (int64_t part = 0; part < s->parts; part++) {
            const int64_t first = first_filter(s, part), filters = first_filter(s, part + 1) - first;
            for (int64_t t = 0; t < taps; t++) {
                const float *weights = from + element_of(s, phase, t);
                for (int64_t channel = 0; channel < s->blocks * lanes; channel++) {
                    for (int64_t f = 0; f < filters; f++) {
                        const int64_t filter = s->transposed ? channel * s->filters + first + f
                                                             : (first + f) * s->channels + channel;
                        at[((channel / lanes * taps + t) * filters + f) * lanes + channel % lanes] =
                            channel < s->channels ? weights[filter * whole] : 0;
                    }
                }
            }
            at += weights_of(s, phase->kernel) / s->filters * filters;
        }
    }
}

static base_status pack(const op_call *call, const rt_environment *environment, uint32_t input,
                        const op_tensor *plain, void *packed, base_report *report) {
    few_filters shape;
    (void)environment;
    if (input != 1 || !read_kind(call, call->inputs[0].type.layout, &shape))
        return base_fail(report, BASE_INVALID, "input %u of this convolution is not packed", input);
    order_weights(&shape, plain->data, packed);
    return BASE_OK;
}

/* ---- running ------------------------------------------------------------------------------------------- */

#ifdef RT_HAS_MATH_512
#define AVX512 __attribute__((target("avx512f")))
#define INLINE static inline __attribute__((always_inline))

/* Some filters at points of one row of the output. */
typedef struct few_row {
    const few_filters *shape;
    const few_phase *phase;
    const float *x;       /* of the image */
    const float *weights; /* of these filters */
    float bias[TOGETHER];
    const float *residual; /* of the first filter at the row's first point; NULL: none */
    float *y;
    int64_t map;                 /* floats from one filter's result to the next one's */
    int64_t x_row, y_row;        /* floats from one row to the next of those that are made together */
    int64_t top[DIMENSIONS - 1]; /* the plane and the row that the window's first elements see */
    int64_t first[DIMENSIONS - 1],
        end[DIMENSIONS - 1]; /* planes and rows of the window that see those of the image */
} few_row;

/* The floats before a row of the window in one map, or in all that lie together: `pixel` floats an element. */
INLINE int64_t row_at(const few_row *row, int64_t plane, int64_t line, int64_t column, int64_t pixel) {
    const few_filters *s = row->shape;
    const few_phase *phase = row->phase;
    return (((row->top[0] + plane * phase->dilation[0]) * s->input[1] + row->top[1] +
             line * phase->dilation[1]) *
                s->input[2] +
            column) *
           pixel;
}

/* The first `count` lanes, of all where there are more, `step` floats apart. */
AVX512 INLINE void store(float *y, int64_t step, int64_t count, __m512 v) {
    const __mmask16 stored = rt_first_lanes_16(count);
    if (step == 1) _mm512_mask_storeu_ps(y, stored, v);
    else if (step == 2) {
        const __m512 after = _mm512_shuffle_f32x4(v, v, 0xee);
        _mm512_mask_storeu_ps(y, 0x5555 & rt_first_lanes_16(2 * count), _mm512_maskz_expand_ps(0x5555, v));
        if (count > LANES / 2)
            _mm512_mask_storeu_ps(y + LANES, 0x5555 & rt_first_lanes_16(2 * count - LANES),
                                  _mm512_maskz_expand_ps(0x5555, after));
    } else {
        const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        _mm512_mask_i32scatter_ps(y, stored, _mm512_mullo_epi32(lanes, _mm512_set1_epi32((int)step)), v, 4);
    }
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
    const few_phase *phase = row->phase;
    const bool innermost = s->layout == OP_LAYOUT_NHWC;
    const int64_t width = s->input[2], pixel = innermost ? s->channels : LANES,
                  block_step = innermost ? LANES : product(s->input) * LANES, step = phase->stride[2] * pixel,
                  left = column * phase->stride[2] - phase->before[2];
    __m512 sums[TOGETHER][POINTS];
    _Pragma("GCC unroll 3") for (int f = 0; f < filters; f++) {
        _Pragma("GCC unroll 8") for (int t = 0; t < POINTS; t++) sums[f][t] = _mm512_setzero_ps();
    }
    for (int64_t block = 0; block < s->blocks; block++) {
        const __mmask16 there = innermost ? rt_first_lanes_16(s->channels - block * LANES) : 0xffff;
        const float *x = row->x + block * block_step;
        for (int64_t plane = row->first[0]; plane < row->end[0]; plane++) {
            for (int64_t line = row->first[1]; line < row->end[1]; line++) {
                const float *start = rt_address(x, row_at(row, plane, line, left, pixel));
                const float *weights =
                    row->weights + ((block * phase->kernel[0] + plane) * phase->kernel[1] + line) *
                                       phase->kernel[2] * filters * LANES;
                int64_t at = left;
                for (int64_t j = 0; j < phase->kernel[2]; j++, weights += filters * LANES) {
                    __m512 of[TOGETHER];
                    const float *from = start;
                    _Pragma("GCC unroll 3") for (int f = 0; f < filters; f++) of[f] =
                        _mm512_loadu_ps(weights + f * LANES);
                    _Pragma("GCC unroll 8") for (int t = 0; t < POINTS; t++) {
                        const bool outside =
                            checked && (uint64_t)(at + t * phase->stride[2]) >= (uint64_t)width;
                        const __m512 seen = _mm512_maskz_loadu_ps(outside ? 0 : there, from);
                        from = rt_address(from, step);
                        __asm__("" : "+r"(from)); /* one address that moves, not eight of them */
                        _Pragma("GCC unroll 3") for (int f = 0; f < filters; f++) sums[f][t] =
                            _mm512_fmadd_ps(seen, of[f], sums[f][t]);
                    }
                    start = rt_address(start, phase->dilation[2] * pixel);
                    at += phase->dilation[2];
                }
            }
        }
    }
    const __mmask16 stored = rt_first_lanes_16(count < POINTS ? count : POINTS);
    _Pragma("GCC unroll 3") for (int f = 0; f < filters; f++) {
        __m512 sum = _mm512_add_ps(sums_of_8(sums[f]), _mm512_set1_ps(row->bias[f]));
        if (row->residual)
            sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(stored, row->residual + f * row->map + column));
        store(row->y + f * row->map + column * s->step[2], s->step[2], count < POINTS ? count : POINTS, sum);
    }
}

AVX512 INLINE void channels_row(const few_row *row, int filters) {
    const few_filters *s = row->shape;
    const few_phase *phase = row->phase;
    const int64_t reach = (POINTS - 1) * phase->stride[2] + (phase->kernel[2] - 1) * phase->dilation[2];
    for (int64_t column = 0; column < phase->output[2]; column += POINTS) {
        const int64_t left = column * phase->stride[2] - phase->before[2], count = phase->output[2] - column;
        if (left >= 0 && left + reach < s->input[2]) channels_tile(row, filters, false, column, count);
        else channels_tile(row, filters, true, column, count);
    }
}

/* Which elements of the image the lanes see: by element of the window's row, by vector. At a stride of 2 two vectors are read for one. */
typedef uint16_t lane_masks[MOST_WIDTH][2 * MOST_VECTORS];

static void mask_lanes(const few_filters *s, const few_phase *phase, int64_t column, int vectors,
                       lane_masks masks) {
    const int64_t left = column * phase->stride[2] - phase->before[2], reads = vectors * phase->stride[2];
    for (int64_t j = 0; j < phase->kernel[2]; j++) {
        for (int64_t v = 0; v < reads; v++) {
            const int64_t at = left + j * phase->dilation[2] + v * LANES;
            masks[j][v] = (uint16_t)(rt_first_lanes_16(s->input[2] - at) & ~(unsigned)rt_first_lanes_16(-at));
        }
    }
}

/* `filters` filters at the points of `vectors` vectors of `rows` rows, from `column` on, of which `count` are there. */
AVX512 INLINE void points_tile(const few_row *row, int filters, int vectors, int rows, int stride,
                               int64_t column, int64_t count, const uint16_t (*masks)[2 * MOST_VECTORS]) {
    const few_filters *s = row->shape;
    const few_phase *phase = row->phase;
    const int64_t left = column * stride - phase->before[2], map = product(s->input), taps = phase->kernel[2],
                  dilation = phase->dilation[2], lines = row->end[1] - row->first[1],
                  line_step = phase->dilation[1] * s->input[2];
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    __m512 sums[TOGETHER][MOST_VECTORS];
    _Pragma("GCC unroll 3") for (int f = 0; f < filters; f++) {
        _Pragma("GCC unroll 8") for (int v = 0; v < rows * vectors; v++) sums[f][v] =
            _mm512_set1_ps(row->bias[f]);
    }
    for (int64_t channel = 0; channel < s->channels; channel++) {
        for (int64_t plane = row->first[0]; plane < row->end[0]; plane++) {
            const float *start =
                rt_address(row->x, channel * map + row_at(row, plane, row->first[1], left, 1));
            const float *weights =
                row->weights +
                ((channel * phase->kernel[0] + plane) * phase->kernel[1] + row->first[1]) * taps * filters;
            for (int64_t line = 0; line < lines; line++, start = rt_address(start, line_step)) {
                const float *from = start;
                for (int64_t j = 0; j < taps; j++, weights += filters) {
                    __m512 of[TOGETHER];
                    _Pragma("GCC unroll 3") for (int f = 0; f < filters; f++) of[f] =
                        _mm512_set1_ps(weights[f]);
                    _Pragma("GCC unroll 8") for (int v = 0; v < rows * vectors; v++) {
                        const int64_t at = v / vectors * row->x_row + (int64_t)(v % vectors) * stride * LANES;
                        __m512 seen =
                            _mm512_maskz_loadu_ps(masks[j][v % vectors * stride], rt_address(from, at));
                        if (stride == 2)
                            seen = _mm512_permutex2var_ps(
                                seen, even,
                                _mm512_maskz_loadu_ps(masks[j][v % vectors * stride + 1],
                                                      rt_address(from, at + LANES)));
                        _Pragma("GCC unroll 3") for (int f = 0; f < filters; f++) sums[f][v] =
                            _mm512_fmadd_ps(of[f], seen, sums[f][v]);
                    }
                    from = rt_address(from, dilation);
                }
            }
        }
    }
    _Pragma("GCC unroll 3") for (int f = 0; f < filters; f++) {
        _Pragma("GCC unroll 8") for (int v = 0; v < rows * vectors; v++) {
            const int64_t own = (int64_t)(v % vectors) * LANES, at = column + own,
                          begin = f * row->map + v / vectors * row->y_row;
            if (row->residual)
                sums[f][v] =
                    _mm512_add_ps(sums[f][v], _mm512_maskz_loadu_ps(rt_first_lanes_16(count - own),
                                                                    rt_address(row->residual, begin + at)));
            if (count > own) store(row->y + begin + at * s->step[2], s->step[2], count - own, sums[f][v]);
        }
    }
}

typedef void points_function(const few_row *row, int64_t column, int64_t count,
                             const uint16_t (*masks)[2 * MOST_VECTORS]);
#define POINTS_OF(filters, vectors, rows, stride)                                                            \
    AVX512 static void points_##filters##_##vectors##_##rows##_##stride(                                     \
        const few_row *row, int64_t column, int64_t count, const uint16_t(*masks)[2 * MOST_VECTORS]) {       \
        points_tile(row, filters, vectors, rows, stride, column, count, masks);                              \
    }
#define POINTS_BY(filters, stride)                                                                           \
    POINTS_OF(filters, 1, 1, stride)                                                                         \
    POINTS_OF(filters, 1, 2, stride)                                                                         \
    POINTS_OF(filters, 1, 4, stride)                                                                         \
    POINTS_OF(filters, 1, 8, stride)                                                                         \
    POINTS_OF(filters, 2, 1, stride)                                                                         \
    POINTS_OF(filters, 2, 2, stride)                                                                         \
    POINTS_OF(filters, 2, 4, stride)                                                                         \
    POINTS_OF(filters, 4, 1, stride)                                                                         \
    POINTS_OF(filters, 4, 2, stride)                                                                         \
    POINTS_OF(filters, 6, 1, stride)                                                                         \
    POINTS_OF(filters, 8, 1, stride)
POINTS_BY(1, 1)
POINTS_BY(2, 1)
POINTS_BY(3, 1)
POINTS_BY(1, 2)
POINTS_BY(2, 2)
POINTS_BY(3, 2)
#define POINTS(filters, vectors, rows, stride) points_##filters##_##vectors##_##rows##_##stride
#define NAMES(filters, stride)                                                                               \
    {                                                                                                        \
        {POINTS(filters, 1, 1, stride), POINTS(filters, 1, 2, stride), POINTS(filters, 1, 4, stride),        \
         POINTS(filters, 1, 8, stride)},                                                                     \
            {POINTS(filters, 2, 1, stride), POINTS(filters, 2, 2, stride), POINTS(filters, 2, 4, stride)},   \
            {POINTS(filters, 4, 1, stride), POINTS(filters, 4, 2, stride)}, {POINTS(filters, 6, 1, stride)}, \
            {POINTS(filters, 8, 1, stride)},                                                                 \
    }
/* By stride, by filters, by pairs of vectors, the first of which is half a pair, by doublings of rows. */
static points_function *const points_of[2][TOGETHER][MOST_VECTORS / 2 + 1][MOST_DOUBLINGS + 1] = {
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

/* Most divisors are 1, and a division takes as long as much of a small row. */
static inline int64_t divided(int64_t number, int64_t by) {
    return by == 1 ? number : number / by;
}

/* Row number i of the output of all images, of one phase and of all filters. `turn`: which of those that take turns in a row the phase is. */
static few_row row_of(const few_job *job, int64_t i, const few_phase *phase, int64_t turn) {
    const few_filters *s = job->shape;
    const int64_t rows = s->output[0] * s->output[1], image = s->images == 1 ? 0 : i / rows,
                  row_of_image = i - image * rows,
                  channels = s->layout == OP_LAYOUT_NC16 ? s->blocks * LANES : s->channels;
    const int64_t plane = s->output[0] == 1 ? 0 : row_of_image / s->output[1];
    const int64_t at[] = {divided(plane, s->step[0]),
                          divided(row_of_image - plane * s->output[1], s->step[1])},
                  points = product(s->output);
    const int64_t y_at = image * s->filters * points + row_of_image * s->output[2] + turn;
    few_row row = {.shape = s,
                   .phase = phase,
                   .x = job->x + image * channels * product(s->input),
                   .residual = job->residual ? job->residual + y_at : NULL,
                   .y = job->y + y_at,
                   .map = points};
    for (int d = 0; d < DIMENSIONS - 1; d++) {
        const int64_t dilation = phase->dilation[d];
        row.top[d] = at[d] * phase->stride[d] - phase->before[d];
        row.first[d] = row.top[d] < 0 ? divided(-row.top[d] + dilation - 1, dilation) : 0;
        const int64_t end =
            row.top[d] < s->input[d] ? divided(s->input[d] - row.top[d] + dilation - 1, dilation) : 0;
        row.end[d] = end < phase->kernel[d] ? end : phase->kernel[d];
    }
    return row;
}

/* The same of some filters. */
static few_row part_of(const few_job *job, const few_row *all, int64_t first, int64_t filters) {
    const few_filters *s = job->shape;
    few_row row = *all;
    row.weights =
        job->weights + all->phase->weights + s->blocks * s->lanes * product(all->phase->kernel) * first;
    row.residual = all->residual ? all->residual + first * all->map : NULL;
    row.y = all->y + first * all->map;
    for (int64_t f = 0; f < filters && job->bias; f++) row.bias[f] = job->bias[first + f];
    return row;
}

/* Pairs of vectors, whose lanes are points. */
static int pairs_of(int64_t count) {
    return (int)((count + 2 * LANES - 1) / (2 * LANES));
}

/* Which outputs of rows are made: `count` from `column` on. */
typedef struct few_columns {
    int64_t column, count;
    lane_masks masks[MOST_PHASES]; /* by the phases that take turns in a row */
} few_columns;

/* These outputs of a phase in row number i, and in some rows that see the image as it does, a step apart, as often doubled. `turn`: of row_of. */
static void make_columns(const few_job *job, int64_t i, int doublings, const few_phase *phase, int64_t turn,
                         const few_columns *columns, int64_t count) {
    const few_filters *s = job->shape;
    few_row all = row_of(job, i, phase, turn);
    all.x_row = phase->stride[1] * s->input[2];
    all.y_row = s->step[1] * s->output[2];
    for (int64_t part = 0, first = 0, filters; part < s->parts; part++, first += filters) {
        filters = first_filter(s, part + 1) - first;
        const few_row row = part_of(job, &all, first, filters);
        if (s->layout == OP_LAYOUT_ROW_MAJOR)
            points_of[phase->stride[2] - 1][filters - 1][count > LANES ? pairs_of(count) : 0][doublings](
                &row, columns->column, count, (const uint16_t(*)[2 * MOST_VECTORS]) columns->masks[turn]);
        else channels_of[filters - 1](&row);
        if (s->activation.kind == RT_ACTIVATION_NONE) continue;
        for (int64_t r = 0; r < filters << doublings; r++)
            rt_activation_floats(&s->activation,
                                 row.y + (r >> doublings) * row.map +
                                     (r & ((1 << doublings) - 1)) * row.y_row + columns->column,
                                 count);
    }
}

/* How often one row can be doubled, from row number i on, where so many rows are left of those that lie a step apart: as often as there are
 * registers, and all rows see the image with the same elements. */
static int doublings_at(const few_job *job, int64_t i, int64_t rows, const few_phase *phase, int64_t count) {
    const few_filters *s = job->shape;
    int64_t vectors = count > LANES ? 2 * pairs_of(count) : 1;
    int doublings = 0;
    const few_row first = row_of(job, i, phase, 0);
    for (; doublings < MOST_DOUBLINGS && 2 * vectors <= MOST_VECTORS; doublings++, vectors *= 2) {
        const int64_t together = INT64_C(2) << doublings;
        if (together > rows) break;
        const few_row last = row_of(job, i + (together - 1) * s->step[1], phase, 0);
        if (last.first[1] != first.first[1] || last.end[1] != first.end[1]) break;
    }
    return doublings;
}

/* Rows `begin` to before `end`, of one plane. Phases whose outputs take turns in a row make it one after the other. */
static void make_band(const few_job *job, int64_t begin, int64_t end, const few_columns *columns) {
    const few_filters *s = job->shape;
    const bool points = s->layout == OP_LAYOUT_ROW_MAJOR;
    const int64_t step = s->step[1];
    for (int64_t from = begin; from < end && from < begin + step; from++) {
        const int64_t plane = s->step[0] == 1 ? 0 : from / s->output[1] % s->output[0] % s->step[0],
                      line = step == 1 ? 0 : from % s->output[1] % step;
        const few_phase *phase = s->phases + (plane * step + line) * s->step[2];
        for (int64_t i = from; i < end;) {
            const int doublings =
                points ? doublings_at(job, i, (end - i + step - 1) / step, phase, columns->count) : 0;
            for (int64_t p = 0; p < s->step[2]; p++) {
                const int64_t left = phase[p].output[2] - columns->column;
                if (left > 0)
                    make_columns(job, i, doublings, phase + p, p, columns,
                                 left < columns->count ? left : columns->count);
            }
            i += step << doublings;
        }
    }
}

/* Rows of a phase that are made before those of others are: what they see is still near then. */
static int64_t band_rows(const few_filters *s) {
    const int64_t most = INT64_C(1) << MOST_DOUBLINGS,
                  fit = NEAR_FLOATS / s->channels / s->input[2] / s->phases[0].stride[1];
    return fit > most ? fit : most;
}

/* Rows are shared out. */
static void run_member(void *context, int member, int members) {
    const few_job *job = context;
    const few_filters *s = job->shape;
    const bool points = s->layout == OP_LAYOUT_ROW_MAJOR;
    const int64_t rows = s->images * s->output[0] * s->output[1], width = s->phases[0].output[2],
                  tile = points ? MOST_VECTORS * LANES : width,
                  band = points ? s->step[1] * band_rows(s) : s->step[1];
    few_columns columns;
    for (columns.column = 0; columns.column < width; columns.column += tile) {
        const int64_t left = width - columns.column;
        columns.count = left < tile ? left : tile;
        for (int64_t p = 0; p < s->step[2] && points; p++)
            mask_lanes(s, &s->phases[p], columns.column, 2 * pairs_of(columns.count), columns.masks[p]);
        const int64_t end = rows * (member + 1) / members;
        for (int64_t i = rows * member / members, next; i < end; i = next) {
            next = i + s->output[1] - i % s->output[1]; /* the next plane */
            if (next > i + band) next = i + band;
            if (next > end) next = end;
            make_band(job, i, next, &columns);
        }
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)report;
    const few_filters *shape = prepared->state;
    const few_job job = {.shape = shape,
                         .x = inputs[0].data,
                         .weights = prepared->scratch_bytes ? scratch : inputs[1].data,
                         .bias = shape->bias ? inputs[2].data : NULL,
                         .residual = shape->residual ? inputs[3].data : NULL,
                         .y = outputs[0].data};
    const double work = (double)shape->images * (double)shape->channels * (double)shape->filters *
                        (double)product(shape->kernel) *
                        (double)product(shape->transposed ? shape->input : shape->output);
    if (prepared->scratch_bytes) order_weights(shape, inputs[1].data, scratch);
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
    if (call->inputs[1].type.layout != OP_LAYOUT_PACKED)
        prepared->scratch_bytes = (size_t)weights_of(shape, shape->kernel) * sizeof(float);
    prepared->state = shape;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_few_filters = {.name = "portable.few_filters",
                                         .accepts = accepts,
                                         .prefer = prefer,
                                         .pack = pack,
                                         .never_portable = true,
                                         .prepare = prepare};
