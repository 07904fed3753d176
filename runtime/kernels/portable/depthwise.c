/* SPDX-License-Identifier: Apache-2.0 */
/* depthwise.c: Conv of each channel by itself, in float, on images whose channels lie side by side: in blocks of 16, or innermost. Windows
 * have 3x3 or 5x5 elements at strides of 1 and 2; those in three dimensions may be of any depth and height.
 *
 * Lanes are channels. A tile is some outputs of a row, whose sums stay in registers while the window's rows pass over them: an element of
 * the image is read once for all outputs of the tile that see it, and the activation is applied before anything is written. Rows above and
 * below the image, and planes before and after it, are left out; tiles at its sides look which elements are there.
 *
 * The weights: [block of 16 channels][element of the window][channel]; what pads the last block is zero, and so is one vector after all of
 * them, so that no other kernel's weights have this size. They do not depend on the extents of images, which may be open when they are
 * packed. Sums begin with the bias and are made in the order of the window's elements, each product and its sum rounded once.
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
    TOGETHER = 8,
    BAND = 8,
    MOST_KERNEL = 5,
    LEAST_CHANNELS = 4 /* fewer leave most lanes empty */
};

typedef struct depthwise {
    int64_t images, channels, blocks;
    /* Planes, rows, columns. */
    int64_t kernel[3], stride[3], dilation[3], input[3], output[3], before[3];
    bool deep;      /* there are planes */
    bool innermost; /* channels are; else blocks are padded */
    bool bias, residual;
    rt_activation activation;
} depthwise;

/* ---- shapes -------------------------------------------------------------------------------------------- */

/* Windows in two dimensions are square, for other kernels take the others. */
static bool has_kind(const op_window *window, bool deep) {
    const int64_t kernel = window->kernel[2], stride = window->stride[2];
    if (window->dilation[2] != 1 || (stride != 1 && stride != 2)) return false;
    if (kernel != 3 && kernel != 5 && (kernel != 1 || !deep)) return false;
    return deep || (window->kernel[1] == kernel && window->stride[1] == stride && window->dilation[1] == 1);
}

static int64_t taps_of(const depthwise *shape) {
    return shape->kernel[0] * shape->kernel[1] * shape->kernel[2];
}

/* False where the application is no convolution of this kind. Extents of images may be open; weights are constant. */
static bool read_kind(const op_call *call, op_layout layout, depthwise *shape) {
    const op_type *x = &call->inputs[0].type;
    const op_shape *weights = &call->inputs[1].type.shape;
    op_window window;
    if (call->code != OP_CONV || x->dtype != OP_FLOAT || weights->rank != x->shape.rank ||
        (weights->rank != 4 && weights->rank != 5))
        return false;
    if (layout != OP_LAYOUT_NHWC && layout != OP_LAYOUT_NC16) return false;
    if (!op_shape_known(weights) || x->shape.dims[1] < LEAST_CHANNELS ||
        weights->dims[0] != x->shape.dims[1] || weights->dims[1] != 1 ||
        op_attribute_integer(&call->attributes, "group", 1) != weights->dims[0])
        return false;
    if (op_window_read(call, weights->dims + 2, &window, NULL) != BASE_OK) return false;
    *shape = (depthwise){.images = x->shape.dims[0],
                         .channels = weights->dims[0],
                         .blocks = (weights->dims[0] - 1) / LANES + 1,
                         .innermost = layout == OP_LAYOUT_NHWC,
                         .bias = op_input_present(call, 2),
                         .residual = op_input_present(call, 3)};
    shape->deep = window.rank == 3;
    window = op_window_of_three(&window);
    if (!has_kind(&window, shape->deep)) return false;
    for (int i = 0; i < 3; i++) {
        shape->kernel[i] = window.kernel[i];
        shape->stride[i] = window.stride[i];
        shape->dilation[i] = window.dilation[i];
        shape->input[i] = window.input[i];
        shape->output[i] = window.output[i];
        shape->before[i] = window.before[i];
    }
    if (!rt_activation_read(&call->attributes, &shape->activation)) return false;
    const rt_activation_kind kind = shape->activation.kind;
    if (kind == RT_ACTIVATION_TANH || kind == RT_ACTIVATION_GELU || kind == RT_ACTIVATION_GELU_TANH)
        return false;
    return true;
}

static size_t packed_bytes(const depthwise *shape) {
    return (size_t)(shape->blocks * taps_of(shape) + 1) * LANES * sizeof(float);
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    depthwise shape;
    const op_type *weights = &call->inputs[1].type;
    const op_layout layout = call->inputs[0].type.layout;
    return rt_has_wide_vectors(environment) && read_kind(call, layout, &shape) &&
           call->outputs[0].type.layout == layout && weights->layout == OP_LAYOUT_PACKED &&
           weights->packed_bytes == packed_bytes(&shape) &&
           (!shape.bias || call->inputs[2].type.layout == OP_LAYOUT_ROW_MAJOR) &&
           (!shape.residual || call->inputs[3].type.layout == layout);
}

/* Images stay as they lie. */
static bool prefer(const op_call *call, const rt_environment *environment, rt_preference *preference) {
    depthwise shape;
    const op_layout layout = preference->inputs[0];
    if (!rt_has_wide_vectors(environment) || !call->inputs[1].data || !read_kind(call, layout, &shape))
        return false;
    *preference = (rt_preference){.inputs = {layout, OP_LAYOUT_PACKED}, .output = layout};
    preference->packed_bytes[1] = packed_bytes(&shape);
    if (shape.residual) preference->inputs[3] = layout;
    return true;
}

static base_status pack(const op_call *call, const rt_environment *environment, uint32_t input,
                        const op_tensor *plain, void *packed, base_report *report) {
    (void)environment;
    depthwise shape;
    if (input != 1 || !read_kind(call, call->inputs[0].type.layout, &shape))
        return base_fail(report, BASE_INVALID, "input %u of this convolution is not packed", input);
    const int64_t taps = taps_of(&shape);
    const float *from = plain->data;
    float *to = packed;
    for (int64_t channel = 0; channel < shape.channels; channel++)
        for (int64_t t = 0; t < taps; t++)
            to[(channel / LANES * taps + t) * LANES + channel % LANES] = from[channel * taps + t];
    return BASE_OK;
}

static base_status unpack(const op_call *call, const rt_environment *environment, uint32_t input,
                          const op_tensor *packed, void *plain, base_report *report) {
    (void)environment;
    depthwise shape;
    if (input != 1 || !read_kind(call, call->inputs[0].type.layout, &shape))
        return base_fail(report, BASE_INVALID, "input %u of this convolution is not packed", input);
    const int64_t taps = taps_of(&shape);
    const float *from = packed->data;
    float *to = plain;
    for (int64_t channel = 0; channel < shape.channels; channel++)
        for (int64_t t = 0; t < taps; t++)
            to[channel * taps + t] = from[(channel / LANES * taps + t) * LANES + channel % LANES];
    return BASE_OK;
}

static bool estimate(const op_call *call, const rt_environment *environment, size_t scratch_limit,
                     rt_cost *cost) {
    depthwise shape;
    if (!rt_has_wide_vectors(environment) || !read_kind(call, call->inputs[0].type.layout, &shape) ||
        !rt_direct_convolution_estimate(call, environment, scratch_limit, cost))
        return false;
    cost->packed_bytes = packed_bytes(&shape);
    return true;
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

#ifdef RT_HAS_MATH_512
#define AVX512 __attribute__((target("avx512f")))
#define INLINE static inline __attribute__((always_inline))

/* One row of the output, of one block of channels. */
typedef struct output_row {
    const float *x,
        *weights; /* the first plane of the block's image that is seen; the window's plane that sees it */
    const float *residual; /* NULL: none */
    float *y;
    int64_t width, output_width, left; /* of the input; of the output; padding */
    int64_t pixel,
        top; /* floats from a pixel to the next; the input row that the first of these rows of the window sees: */
    int64_t first, end; /* rows of the window that see rows of the image */
    int64_t planes;     /* of the window that see planes of the image; 1 where it has none */
    int64_t line, plane,
        weights_plane; /* floats from what one sees to what the next does; from one to the next */
    __m512 bias;
    __mmask16 channels,
        stored; /* those that there are; those that are written, the others of these as zeros */
    const rt_activation *activation;
    bool limits; /* the activation is done with these: */
    float low, high;
    rt_gate_512 gate; /* else, where it is a gate, with this */
} output_row;

AVX512 INLINE void activate(const output_row *row, int together, __m512 *sums) {
    const __m512 one = _mm512_set1_ps(1), zero = _mm512_setzero_ps();
    const rt_activation_kind kind = row->activation->kind;
    if (row->limits) {
        const __m512 low = _mm512_set1_ps(row->low), high = _mm512_set1_ps(row->high);
        _Pragma("GCC unroll 8") for (int t = 0; t < together;
                                     t++) /* the second operand is what a NaN gives */
            sums[t] = _mm512_min_ps(high, _mm512_max_ps(low, sums[t]));
    } else if (kind == RT_ACTIVATION_LEAKY_RELU) {
        const __m512 slope = _mm512_set1_ps(row->activation->alpha);
        _Pragma("GCC unroll 8") for (int t = 0; t < together; t++) sums[t] =
            _mm512_mask_mul_ps(sums[t], _mm512_cmp_ps_mask(sums[t], zero, _CMP_LT_OQ), sums[t], slope);
    } else if (kind == RT_ACTIVATION_HARD_SWISH) {
        _Pragma("GCC unroll 8") for (int t = 0; t < together; t++) {
            const __m512 gate = _mm512_fmadd_ps(sums[t], _mm512_set1_ps(1.0f / 6), _mm512_set1_ps(0.5f));
            sums[t] = _mm512_mul_ps(sums[t], _mm512_min_ps(one, _mm512_max_ps(zero, gate)));
        }
    } else {
        _Pragma("GCC unroll 8") for (int t = 0; t < together; t++) sums[t] = _mm512_div_ps(
            kind == RT_ACTIVATION_SWISH ? sums[t] : one, rt_one_and_exp_16(sums[t], &row->gate));
    }
}

/* What one row of the window adds to `together` sums, at a stride of 1. All elements are read first, so that sums that follow one another
 * are independent. */
AVX512 INLINE void add_all(const output_row *row, int kernel, int together, bool whole, const float *from,
                           const __m512 *weights, __m512 *sums) {
    __m512 seen[TOGETHER + MOST_KERNEL - 1];
    _Pragma("GCC unroll 12") for (int i = 0; i < together + kernel - 1; i++) {
        seen[i] = whole ? _mm512_loadu_ps(from) : _mm512_maskz_loadu_ps(row->channels, from);
        __asm__("" : "+v"(seen[i])); /* read once: GCC would rather read it again for each sum */
        from = rt_address(from, row->pixel);
        __asm__(
            ""
            : "+r"(
                from)); /* one address that moves: else there is one for each element, more than registers */
    }
    _Pragma("GCC unroll 5") for (int j = 0; j < kernel; j++) {
        _Pragma("GCC unroll 8") for (int t = 0; t < together; t++) sums[t] =
            _mm512_fmadd_ps(seen[t + j], weights[j], sums[t]);
    }
}

/* The same element by element, at any stride. `checked`: some may lie beside the image, and are left out. */
AVX512 INLINE void add_each(const output_row *row, int kernel, int stride, int together, bool checked,
                            bool whole, int64_t left, const float *from, const __m512 *weights,
                            __m512 *sums) {
    const int64_t width = row->width;
    _Pragma("GCC unroll 19") for (int i = 0; i < (together - 1) * stride + kernel;
                                  i++, from = rt_address(from, row->pixel)) {
        __asm__("" : "+r"(from));
        if (checked && (left + i < 0 || left + i >= width)) continue;
        __m512 seen = whole ? _mm512_loadu_ps(from) : _mm512_maskz_loadu_ps(row->channels, from);
        __asm__("" : "+v"(seen));
        _Pragma("GCC unroll 8") for (int t = 0; t < together; t++) {
            const int j = i - t * stride;
            if (j >= 0 && j < kernel) sums[t] = _mm512_fmadd_ps(seen, weights[j], sums[t]);
        }
    }
}

/* What the rows of one plane of the window, whose weights these are, add to the sums. `deep`: windows have planes. */
AVX512 INLINE void add_lines(const output_row *row, const float *x, const float *of_line, bool deep,
                             int kernel, int stride, int together, bool checked, bool whole, int64_t left,
                             __m512 *sums) {
    __m512 weights[MOST_KERNEL];
    const int64_t pixel = row->pixel, width = row->width;
    const float *line = rt_address(x, (row->top * width + left) * pixel);
    of_line += row->first * kernel * LANES;
    for (int64_t k = row->first; k < row->end; k++) {
        const float *from = line;
        _Pragma("GCC unroll 5") for (int j = 0; j < kernel; j++) weights[j] =
            _mm512_loadu_ps(of_line + j * LANES);
        if (stride == 1 && !checked) add_all(row, kernel, together, whole, from, weights, sums);
        else add_each(row, kernel, stride, together, checked, whole, left, from, weights, sums);
        line = rt_address(line, deep ? row->line : width * pixel);
        of_line += kernel * LANES;
    }
}

/* `together` outputs from `column` on. `checked`: some may see what lies beside the image. `whole`: the block has all of its channels. */
AVX512 INLINE void make_tile(const output_row *row, bool deep, int kernel, int stride, int together,
                             bool checked, bool whole, int64_t column) {
    __m512 sums[TOGETHER];
    const int64_t left = column * stride - row->left, pixel = row->pixel;
    const float *x = row->x, *weights = row->weights;
    _Pragma("GCC unroll 8") for (int t = 0; t < together; t++) sums[t] = row->bias;
    for (int64_t p = deep ? row->planes : 1; p > 0; p--) {
        add_lines(row, x, weights, deep, kernel, stride, together, checked, whole, left, sums);
        if (!deep) break;
        x = rt_address(x, row->plane);
        weights += row->weights_plane;
    }
    float *y = row->y + column * pixel;
    if (row->residual) {
        const float *residual = row->residual + column * pixel;
        _Pragma("GCC unroll 8") for (int t = 0; t < together; t++) sums[t] =
            _mm512_add_ps(sums[t], _mm512_maskz_loadu_ps(row->channels, residual + t * pixel));
    }
    if (row->activation->kind != RT_ACTIVATION_NONE) activate(row, together, sums);
    _Pragma("GCC unroll 8") for (int t = 0; t < together; t++, y += pixel) {
        if (whole) _mm512_storeu_ps(y, sums[t]);
        else _mm512_mask_storeu_ps(y, row->stored, _mm512_maskz_mov_ps(row->channels, sums[t]));
    }
}

AVX512 INLINE void make_row(const output_row *row, bool deep, int kernel, int stride, bool whole) {
    int64_t column = 0;
    for (; column + TOGETHER <= row->output_width; column += TOGETHER) {
        const int64_t first = column * stride - row->left;
        if (first >= 0 && first + (TOGETHER - 1) * stride + kernel <= row->width)
            make_tile(row, deep, kernel, stride, TOGETHER, false, whole, column);
        else make_tile(row, deep, kernel, stride, TOGETHER, true, whole, column);
    }
#define REST(count)                                                                                          \
    case count:                                                                                              \
        make_tile(row, deep, kernel, stride, count, true, whole, column);                                    \
        break;
    switch (row->output_width - column) {
        REST(1)
        REST(2)
        REST(3)
        REST(4)
        REST(5)
        REST(6)
        REST(7)
    default:
        break;
    }
#undef REST
}

#define ROW(name, deep, kernel, stride, whole)                                                               \
    AVX512 static void name##_##kernel##_##stride(const output_row *row) {                                   \
        make_row(row, deep, kernel, stride, whole);                                                          \
    }
#define ROWS(name, deep, kernel, whole)                                                                      \
    ROW(name, deep, kernel, 1, whole)                                                                        \
    ROW(name, deep, kernel, 2, whole)
ROWS(part, false, 3, false)
ROWS(part, false, 5, false)
ROWS(whole, false, 3, true)
ROWS(whole, false, 5, true)
ROWS(deep, true, 1, false)
ROWS(deep, true, 3, false)
ROWS(deep, true, 5, false)
#undef ROWS
#undef ROW

typedef void row_function(const output_row *row);
/* By kernel, by stride. For windows with planes one will do: their products hide what masks take. */
static row_function *const parts_of[3][2] = {{NULL}, {part_3_1, part_3_2}, {part_5_1, part_5_2}};
static row_function *const wholes_of[3][2] = {{NULL}, {whole_3_1, whole_3_2}, {whole_5_1, whole_5_2}};
static row_function *const deeps_of[3][2] = {
    {deep_1_1, deep_1_2}, {deep_3_1, deep_3_2}, {deep_5_1, deep_5_2}};

typedef struct depthwise_job {
    const depthwise *shape;
    const float *x, *weights, *bias, *residual;
    float *y;
} depthwise_job;

/* Rows of one block of channels of one image that are made one after another; those of a plane follow those of the plane before. */
typedef struct some_rows {
    int64_t image, block, first, end;
} some_rows;

/* Those from row number i on, of all that are made: the blocks' one after another, where channels are innermost some rows at a time, so that
 * what lies together is read together. */
static some_rows find_rows(const depthwise *s, int64_t i) {
    const int64_t rows = s->output[0] * s->output[1], band = s->innermost && BAND < rows ? BAND : rows,
                  of_image = s->blocks * rows, in_image = i % of_image,
                  first = in_image / (s->blocks * band) * band,
                  height = rows - first < band ? rows - first : band, in_band = in_image - first * s->blocks;
    return (some_rows){.image = i / of_image,
                       .block = in_band / height,
                       .first = first + in_band % height,
                       .end = first + height};
}

/* Where a block of channels of an image begins, of one that has so many pixels. */
static int64_t block_begin(const depthwise *s, int64_t image, int64_t block, int64_t pixels) {
    /* Where channels are innermost, an image is as long as all of them, not as whole blocks. */
    const int64_t each = s->innermost ? s->channels : s->blocks * LANES;
    return image * pixels * each + block * LANES * (s->innermost ? 1 : pixels);
}

/* What the rows of a block have in common. */
AVX512 static output_row row_of_block(const depthwise_job *job, int64_t image, int64_t block) {
    const depthwise *s = job->shape;
    const int64_t rest = s->channels - block * LANES, pixel = s->innermost ? s->channels : LANES,
                  line = s->input[2] * pixel;
    const int64_t y_at = block_begin(s, image, block, s->output[0] * s->output[1] * s->output[2]);
    output_row row = {.residual = job->residual ? job->residual + y_at : NULL,
                      .y = job->y + y_at,
                      .width = s->input[2],
                      .output_width = s->output[2],
                      .left = s->before[2],
                      .pixel = pixel,
                      .line = s->dilation[1] * line,
                      .plane = s->dilation[0] * s->input[1] * line,
                      .weights_plane = s->kernel[1] * s->kernel[2] * LANES,
                      .channels = rt_first_lanes_16(rest),
                      .activation = &s->activation};
    row.limits = rt_activation_limits(row.activation, &row.low, &row.high);
    row.gate = rt_gate_512_of(row.activation->kind == RT_ACTIVATION_SWISH ? row.activation->alpha : 1);
    row.stored = s->innermost ? row.channels : 0xffff;
    row.bias =
        job->bias ? _mm512_maskz_loadu_ps(row.channels, job->bias + block * LANES) : _mm512_setzero_ps();
    return row;
}

/* Of a dimension: the window's elements that see some of the image, where it stands at output `at`, and what the first of them sees. */
typedef struct seen_part {
    int64_t first, end, place;
} seen_part;

static inline seen_part seen_by(const depthwise *s, int dimension, int64_t at) {
    const int64_t start = at * s->stride[dimension] - s->before[dimension], step = s->dilation[dimension];
    const rt_part part = rt_part_inside(start, step, s->input[dimension], s->kernel[dimension]);
    if (part.low >= part.high) return (seen_part){0};
    return (seen_part){part.low, part.high, start + part.low * step};
}

/* Where the row stands in a plane of the output. */
static void enter_plane(const depthwise_job *job, const some_rows *some, int64_t plane, output_row *row) {
    const depthwise *s = job->shape;
    const seen_part planes = s->deep ? seen_by(s, 0, plane) : (seen_part){0, 1, 0};
    const int64_t size = s->input[1] * s->input[2];
    row->x = job->x + block_begin(s, some->image, some->block, s->input[0] * size) +
             planes.place * size * row->pixel;
    row->weights = job->weights + some->block * taps_of(s) * LANES + planes.first * row->weights_plane;
    row->planes = planes.end - planes.first;
}

/* Makes `count` rows of a block from number `first` on. */
AVX512 static void make_rows(const depthwise_job *job, const some_rows *some, int64_t count) {
    const depthwise *s = job->shape;
    output_row row = row_of_block(job, some->image, some->block);
    row_function *const make = (s->deep                  ? deeps_of
                                : row.channels == 0xffff ? wholes_of
                                                         : parts_of)[s->kernel[2] / 2][s->stride[2] == 2];
    const int64_t y_line = s->output[2] * row.pixel;
    int64_t plane = s->deep ? some->first / s->output[1] : 0, at = some->first - plane * s->output[1];
    enter_plane(job, some, plane, &row);
    row.y += some->first * y_line;
    if (row.residual) row.residual += some->first * y_line;
    for (int64_t i = 0; i < count; i++) {
        if (at == s->output[1]) {
            at = 0;
            enter_plane(job, some, ++plane, &row);
        }
        const seen_part lines = seen_by(s, 1, at++);
        row.first = lines.first;
        row.end = lines.end;
        row.top = lines.place;
        make(&row);
        row.y += y_line;
        if (row.residual) row.residual += y_line;
    }
}

/* Rows are shared out. */
AVX512 static void run_member(void *context, int member, int members) {
    const depthwise_job *job = context;
    const depthwise *s = job->shape;
    const int64_t rows = s->images * s->blocks * s->output[0] * s->output[1],
                  last = rows * (member + 1) / members;
    for (int64_t i = rows * member / members; i < last;) {
        const some_rows some = find_rows(s, i);
        const int64_t count = some.end - some.first < last - i ? some.end - some.first : last - i;
        make_rows(job, &some, count);
        i += count;
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const depthwise *shape = prepared->state;
    depthwise_job job = {.shape = shape,
                         .x = inputs[0].data,
                         .weights = inputs[1].data,
                         .bias = shape->bias ? inputs[2].data : NULL,
                         .residual = shape->residual ? inputs[3].data : NULL,
                         .y = outputs[0].data};
    const double work = (double)shape->images * (double)shape->channels * (double)shape->output[0] *
                        (double)shape->output[1] * (double)shape->output[2] * (double)taps_of(shape);
    rt_team_run(work < RT_PARALLEL_WORK ? 1 : prepared->threads, run_member, &job);
    return BASE_OK;
}
#else
static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)prepared, (void)inputs, (void)outputs, (void)scratch;
    return base_fail(report, BASE_INVALID, "this machine has no vectors of 16 floats");
}
#endif

/* Once the extents of images are known. */
static bool read_extents(const op_call *call, const rt_environment *environment, depthwise *shape) {
    if (!accepts(call, environment) || !read_kind(call, call->inputs[0].type.layout, shape)) return false;
    for (int i = 0; i < 3; i++)
        if (shape->input[i] < 0 || shape->output[i] < 0) return false;
    return shape->images >= 0;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    depthwise *shape = BASE_NEW(arena, depthwise);
    if (!shape) return base_fail_memory(report);
    if (!read_extents(call, environment, shape))
        return base_fail(report, BASE_INVALID, "this convolution does not go channel by channel");
    prepared->state = shape;
    prepared->run = run;
    return BASE_OK;
}

/* Images of other extents. */
static bool adapt(const op_call *call, const rt_environment *environment, rt_prepared *prepared) {
    return read_extents(call, environment, prepared->state);
}

const rt_kernel rt_kernel_depthwise = {.name = "portable.depthwise",
                                       .accepts = accepts,
                                       .prefer = prefer,
                                       .pack = pack,
                                       .unpack = unpack,
                                       .estimate = estimate,
                                       .only_packed = true,
                                       .never_portable = true,
                                       .prepare = prepare,
                                       .adapt = adapt};
