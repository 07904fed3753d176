/* SPDX-License-Identifier: Apache-2.0 */
/* rows_convolution.c: RowsConv: some rows of a convolution of an image of few channels, which lies row-major and is read where it lies; the
 * result has its channels innermost.
 *
 * Lanes are filters. A tile is some outputs of a row for some filters, whose sums stay in registers while all elements of the window
 * pass: each is read once, and multiplied with the weights of all of these filters. Rows beside the image are left out, which are zeros;
 * tiles at its sides are one output wide, and look which elements are there. Sums begin with the bias and are made in the order of the
 * channels, rows and columns of the window.
 */
#include "runtime/kernels/portable/rows_convolution.h"
#include "ir/operators/window.h"
#include "runtime/kernels/portable/activation.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/lanes.h"
#include "runtime/kernels/portable/vector_math_512.h"

enum { MOST_CHANNELS = 4, MOST_ELEMENTS = 512 };

typedef struct rows_convolution {
    int64_t channels, height, width; /* of the image */
    int64_t filters, rows, columns;  /* of the result */
    int64_t kernel[2], stride[2], dilation[2], left;
    bool bias;
    float low, high;
} rows_convolution;

static bool fits_image(const op_type *image) {
    return image->dtype == OP_FLOAT && image->layout == OP_LAYOUT_ROW_MAJOR && image->shape.rank == 4 &&
           op_shape_known(&image->shape) && image->shape.dims[0] == 1 && image->shape.dims[1] >= 1 &&
           image->shape.dims[1] <= MOST_CHANNELS;
}

static bool is_stride(int64_t stride) {
    return stride == 1 || stride == 2 || stride == 4;
}

/* What a Conv and a RowsConv have in common: attributes, image and weights. */
static bool read_window(const op_call *call, rows_convolution *s) {
    const op_shape *weights = &call->inputs[1].type.shape, *image = &call->inputs[0].type.shape;
    op_window window;
    rt_activation activation;
    if (call->input_count < 2 || !fits_image(&call->inputs[0].type) ||
        call->inputs[1].type.dtype != OP_FLOAT || weights->rank != 4 || !op_shape_known(weights) ||
        weights->dims[1] != image->dims[1] || weights->dims[0] < 1 ||
        op_window_read(call, weights->dims + 2, &window, NULL) != BASE_OK)
        return false;
    *s = (rows_convolution){.channels = image->dims[1],
                            .height = image->dims[2],
                            .width = image->dims[3],
                            .filters = weights->dims[0],
                            .columns = window.output[1],
                            .left = window.before[1]};
    for (int i = 0; i < 2; i++) {
        s->kernel[i] = window.kernel[i];
        s->stride[i] = window.stride[i];
        s->dilation[i] = window.dilation[i];
    }
    return s->channels * s->kernel[0] * s->kernel[1] <= MOST_ELEMENTS && is_stride(s->stride[1]) &&
           s->columns > 0 && rt_activation_read(&call->attributes, &activation) &&
           rt_activation_limits(&activation, &s->low, &s->high);
}

bool rt_rows_convolution_stands_for(const op_call *conv) {
    rows_convolution s;
    if (conv->code != OP_CONV || op_attribute_integer(&conv->attributes, "group", 1) != 1 ||
        op_input_present(conv, 3) || !read_window(conv, &s))
        return false;
    /* The shape function of some rows knows no padding above and below. */
    return (s.kernel[0] - 1) * s.dilation[0] < s.height;
}

size_t rt_rows_convolution_packed_bytes(const op_shape *weights) {
    size_t bytes = sizeof(float);
    for (int32_t i = 0; i < weights->rank; i++) bytes *= (size_t)weights->dims[i];
    return bytes;
}

void rt_rows_convolution_pack(const op_shape *weights, const float *plain, float *packed) {
    const int64_t filters = weights->dims[0],
                  elements = weights->dims[1] * weights->dims[2] * weights->dims[3];
    for (int64_t i = 0; i < elements; i++)
        for (int64_t f = 0; f < filters; f++) packed[i * filters + f] = plain[f * elements + i];
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    rows_convolution s;
    const op_type *weights = &call->inputs[1].type;
    return read_window(call, &s) && weights->layout == OP_LAYOUT_PACKED &&
           weights->packed_bytes == rt_rows_convolution_packed_bytes(&weights->shape) &&
           call->inputs[2].type.layout == OP_LAYOUT_ROW_MAJOR &&
           (!op_input_present(call, 3) || call->inputs[3].type.layout == OP_LAYOUT_ROW_MAJOR) &&
           call->outputs[0].type.layout == OP_LAYOUT_NHWC;
}

/* One element of the window. */
typedef struct element {
    int64_t at,
        across; /* which float of the image the window of an output sees that begins at its column 0; how far it is to the right */
    int64_t weights; /* which float of the weights is that of the first filter */
} element;

/* One row of the result. */
typedef struct output_row {
    const rows_convolution *shape;
    const float *x, *weights, *bias;
    float *y;
    int64_t count; /* of elements in rows that the image has */
    element elements[MOST_ELEMENTS];
} output_row;

/* The elements of the window whose first row sees row `top` of the image. */
static void find_elements(output_row *row, int64_t top) {
    const rows_convolution *s = row->shape;
    row->count = 0;
    for (int64_t c = 0; c < s->channels; c++)
        for (int64_t k = 0; k < s->kernel[0]; k++) {
            const int64_t line = top + k * s->dilation[0];
            if (line < 0 || line >= s->height) continue;
            for (int64_t j = 0; j < s->kernel[1]; j++)
                row->elements[row->count++] =
                    (element){(c * s->height + line) * s->width + j * s->dilation[1], j * s->dilation[1],
                              ((c * s->kernel[0] + k) * s->kernel[1] + j) * s->filters};
        }
}

static void make_row(const output_row *row) {
    const rows_convolution *s = row->shape;
    for (int64_t column = 0; column < s->columns; column++)
        for (int64_t filter = 0; filter < s->filters; filter++) {
            const int64_t left = column * s->stride[1] - s->left;
            float sum = row->bias ? row->bias[filter] : 0;
            for (int64_t i = 0; i < row->count; i++) {
                const element *of = &row->elements[i];
                if (left + of->across >= 0 && left + of->across < s->width)
                    sum += row->x[of->at + left] * row->weights[of->weights + filter];
            }
            const float above = sum < s->low ? s->low : sum;
            row->y[column * s->filters + filter] = above > s->high ? s->high : above;
        }
}

#ifdef RT_HAS_MATH_512
#define AVX512 __attribute__((target("avx512f")))
#define INLINE static inline __attribute__((always_inline))

enum { LANES = 16, ALL = 0xffff, MOST_TOGETHER = 24, FEW = 4 };

/* Sums of `together` outputs from `column` on, for `vectors` vectors of filters from `filter` on; of the last vector those in `last` are
 * there. */
AVX512 INLINE void begin_sums(const output_row *row, int vectors, int together, int64_t filter,
                              __mmask16 last, __m512 sums[2][MOST_TOGETHER]) {
    _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++) {
        const __mmask16 there = v + 1 == vectors ? last : ALL;
        const __m512 bias =
            row->bias ? _mm512_maskz_loadu_ps(there, row->bias + filter + v * LANES) : _mm512_setzero_ps();
        _Pragma("GCC unroll 24") for (int t = 0; t < together; t++) sums[v][t] = bias;
    }
}

/* What one element of the window adds to them. */
AVX512 INLINE void add_element(int vectors, int together, int64_t stride, const float *from,
                               const float *weights, __mmask16 last, __m512 sums[2][MOST_TOGETHER]) {
    __m512 by[2];
    _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++) by[v] =
        _mm512_maskz_loadu_ps(v + 1 == vectors ? last : ALL, weights + v * LANES);
    _Pragma("GCC unroll 24") for (int t = 0; t < together; t++) {
        const __m512 seen = _mm512_set1_ps(from[t * stride]);
        _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++) sums[v][t] =
            _mm512_fmadd_ps(seen, by[v], sums[v][t]);
    }
}

/* What three elements side by side add, each of which up to three outputs see. */
AVX512 INLINE void add_three(int vectors, int together, int64_t stride, const float *from,
                             const float *weights, int64_t filters, __mmask16 last,
                             __m512 sums[2][MOST_TOGETHER]) {
    __m512 by[3][2];
    _Pragma("GCC unroll 3") for (int j = 0; j < 3; j++) {
        _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++) by[j][v] =
            _mm512_maskz_loadu_ps(v + 1 == vectors ? last : ALL, weights + j * filters + v * LANES);
    }
    _Pragma("GCC unroll 49") for (int i = 0; i < (together - 1) * (int)stride + 3; i++) {
        const __m512 seen = _mm512_set1_ps(from[i]);
        _Pragma("GCC unroll 3") for (int j = 2; j >= 0; j--) {
            const int t = (i - j) / (int)stride;
            if (i < j || (i - j) % (int)stride || t >= together) continue;
            _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++) sums[v][t] =
                _mm512_fmadd_ps(seen, by[j][v], sums[v][t]);
        }
    }
}

AVX512 INLINE void write_sums(const output_row *row, int vectors, int together, int64_t column,
                              int64_t filter, __mmask16 last, __m512 sums[2][MOST_TOGETHER]) {
    const rows_convolution *s = row->shape;
    const __m512 low = _mm512_set1_ps(s->low), high = _mm512_set1_ps(s->high);
    float *y = row->y + column * s->filters + filter;
    _Pragma("GCC unroll 24") for (int t = 0; t < together; t++, y += s->filters) {
        _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++) {
            /* The second operand is what a NaN gives. */
            const __m512 limited = _mm512_min_ps(high, _mm512_max_ps(low, sums[v][t]));
            _mm512_mask_storeu_ps(y + v * LANES, v + 1 == vectors ? last : ALL, limited);
        }
    }
}

/* Outputs whose windows see nothing beside the image to the left and right. */
AVX512 INLINE void make_tile(const output_row *row, int vectors, int together, int64_t stride, int64_t column,
                             int64_t filter, __mmask16 last) {
    const int64_t left = column * stride - row->shape->left;
    __m512 sums[2][MOST_TOGETHER];
    begin_sums(row, vectors, together, filter, last, sums);
    const float *const x = row->x + left, *const weights = row->weights + filter;
    const element *at = row->elements, *const end = at + row->count;
    if (stride < 3 && row->shape->kernel[1] == 3 && row->shape->dilation[1] == 1)
        for (; at < end; at += 3)
            add_three(vectors, together, stride, x + at->at, weights + at->weights, row->shape->filters, last,
                      sums);
    for (; at < end; at++)
        add_element(vectors, together, stride, x + at->at, weights + at->weights, last, sums);
    write_sums(row, vectors, together, column, filter, last, sums);
}

/* One output at a side. */
AVX512 INLINE void make_side(const output_row *row, int vectors, int64_t stride, int64_t column,
                             int64_t filter, __mmask16 last) {
    const rows_convolution *s = row->shape;
    const int64_t left = column * stride - s->left;
    __m512 sums[2][MOST_TOGETHER];
    begin_sums(row, vectors, 1, filter, last, sums);
    for (int64_t i = 0; i < row->count; i++) {
        const int64_t at = left + row->elements[i].across;
        if (at >= 0 && at < s->width)
            add_element(vectors, 1, stride, row->x + (row->elements[i].at + left),
                        row->weights + row->elements[i].weights + filter, last, sums);
    }
    write_sums(row, vectors, 1, column, filter, last, sums);
}

/* All outputs of the row for some filters. What whole tiles leave over is made by one more, which makes some outputs again. */
AVX512 INLINE void make_filters(const output_row *row, int vectors, int64_t stride, int64_t filter,
                                __mmask16 last) {
    const rows_convolution *s = row->shape;
    /* Windows of the outputs [first, end) see nothing beside the image. */
    const int64_t furthest = s->width - 1 - (s->kernel[1] - 1) * s->dilation[1] + s->left;
    const int together = MOST_TOGETHER / vectors;
    int64_t first = (s->left + stride - 1) / stride, end = furthest < 0 ? 0 : furthest / stride + 1,
            column = 0;
    if (end > s->columns) end = s->columns;
    if (first > end) first = end;
    for (; column < first; column++) make_side(row, vectors, stride, column, filter, last);
    for (; column + together <= end; column += together)
        make_tile(row, vectors, together, stride, column, filter, last);
    if (end - column > FEW && end - first >= together) {
        make_tile(row, vectors, together, stride, end - together, filter, last);
        column = end;
    } else if (end - first >= FEW) {
        for (; column < end; column += FEW)
            make_tile(row, vectors, FEW, stride, column < end - FEW ? column : end - FEW, filter, last);
        column = end;
    }
    for (; column < s->columns; column++) make_side(row, vectors, stride, column, filter, last);
}

AVX512 INLINE void make_lanes(const output_row *row, int64_t stride) {
    const int64_t filters = row->shape->filters;
    int64_t filter = 0;
    for (; filter + LANES < filters; filter += 2 * LANES) {
        const int64_t rest = filters - filter - LANES;
        make_filters(row, 2, stride, filter, rt_first_lanes_16(rest));
    }
    if (filter + LANES == filters) make_filters(row, 1, stride, filter, ALL);
    else if (filter < filters) make_filters(row, 1, stride, filter, rt_first_lanes_16(filters - filter));
}

AVX512 static void make_row_1(const output_row *row) {
    make_lanes(row, 1);
}

AVX512 static void make_row_2(const output_row *row) {
    make_lanes(row, 2);
}

AVX512 static void make_row_4(const output_row *row) {
    make_lanes(row, 4);
}
#endif

typedef void row_function(const output_row *row);

static row_function *row_function_of(const rows_convolution *s, const rt_environment *environment) {
#ifdef RT_HAS_MATH_512
    if (rt_has_wide_vectors(environment))
        return s->stride[1] == 1 ? make_row_1 : s->stride[1] == 2 ? make_row_2 : make_row_4;
#else
    (void)s, (void)environment;
#endif
    return make_row;
}

typedef struct rows_state {
    rows_convolution shape;
    row_function *make;
} rows_state;

typedef struct rows_job {
    const rows_state *state;
    const float *x, *weights, *bias;
    float *y;
    int64_t top; /* the row of the image that the window's first row sees, for row 0 of the result */
} rows_job;

/* Rows are shared out. */
static void run_member(void *context, int member, int members) {
    const rows_job *job = context;
    const rows_convolution *s = &job->state->shape;
    output_row row;
    row.shape = s;
    row.x = job->x;
    row.weights = job->weights;
    row.bias = job->bias;
    for (int64_t r = s->rows * member / members; r < s->rows * (member + 1) / members; r++) {
        row.y = job->y + r * s->columns * s->filters;
        find_elements(&row, job->top + r * s->stride[0]);
        job->state->make(&row);
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const rows_state *state = prepared->state;
    const rows_convolution *s = &state->shape;
    /* Rows that are further away than this see none of the image either. */
    const int64_t least = -(s->rows * s->stride[0] + s->kernel[0] * s->dilation[0]);
    int64_t top = ((const int64_t *)inputs[2].data)[0];
    if (top < least) top = least;
    if (top > s->height) top = s->height;
    rows_job job = {.state = state,
                    .x = inputs[0].data,
                    .weights = inputs[1].data,
                    .bias = s->bias ? inputs[3].data : NULL,
                    .y = outputs[0].data,
                    .top = top};
    const double work = (double)s->rows * (double)s->columns * (double)s->filters *
                        (double)(s->channels * s->kernel[0] * s->kernel[1]);
    rt_team_run(work < RT_PARALLEL_WORK ? 1 : prepared->threads, run_member, &job);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    rows_state *state = BASE_NEW(arena, rows_state);
    if (!state) return base_fail_memory(report);
    if (!read_window(call, &state->shape))
        return base_fail(report, BASE_INVALID, "these rows are of another convolution");
    state->shape.rows = call->outputs[0].type.shape.dims[2];
    state->shape.bias = op_input_present(call, 3);
    state->make = row_function_of(&state->shape, environment);
    prepared->state = state;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_rows_convolution = {
    .name = "portable.rows_convolution", .accepts = accepts, .prepare = prepare};
