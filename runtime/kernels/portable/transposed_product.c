/* SPDX-License-Identifier: Apache-2.0 */
/* transposed_product.c: ConvTranspose in float on images whose channels lie side by side, in blocks of 16 or innermost, on machines with
 * AVX-512: each point is multiplied by the weights of all filters at all elements of the window (direct_tiles.c), and the products are added
 * where windows overlap (Dumoulin and Visin, "A guide to convolution arithmetic for deep learning", 2016, chapter 4).
 *
 * Products are made for some rows of the image at a time, or some points of a signal, and stay in a cache until they are added. Those that
 * the next part sees, too, are kept for it.
 *
 * Of 16 filters and more the products of an element of the window at a point are blocks of 16 filters. Outputs that lie a stride apart add
 * products of the same elements: these sums stay in registers, and the result lies as the image does. Of fewer filters lanes are elements of
 * the window, which are outputs that lie side by side: products are added in memory, and the result is row-major.
 *
 * Weights are packed as those of single points are (direct_convolution.c), with one number more, which tells them from those that other
 * kernels pack. They do not depend on the extents of images, which may be open. Sums begin with the bias and are made in the order of elements of
 * the window; of a signal with few filters, in the order of points. They do not depend on the number of threads.
 */
#include "ir/operators/window.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/direct_convolution.h"
#include "runtime/kernels/portable/lanes.h"
#include <string.h>

enum {
    LANES = RT_DIRECT_LANES,
    FEWEST_CHANNELS = 16,
    FEWEST_ELEMENTS = 8, /* of a row of the window, of few filters: fewer leave lanes empty */
    FEWEST_POINTS = 8,   /* of an image: weights are read for so few */
    SOME_CHANNELS = 64,
    MANY_CHANNELS = 128,
    LARGE_WINDOW = 10,
    MOST_ELEMENTS = 256,    /* of a window */
    FARTHEST = 1 << 20,     /* that points lie apart in the result, or beside it */
    NEAR_BYTES = 256 << 10, /* of products, before they are added */
    NEAR_WEIGHTS = 1 << 20, /* bytes; more are read again for each part */
    LEAST_POINTS = 128,     /* of a part, then */
    LEAST_OVERLAP = 3,      /* so many times the rows that two parts see are in one */
    PIECE = 512,            /* outputs of a signal that a thread makes at a time */
    AXES = 2
};

typedef struct transposed {
    op_layout from;
    bool few, bias;
    int64_t images, channels, filters;
    int64_t blocks; /* of 16 filters; few: 0 */
    int64_t input[AXES], output[AXES], kernel[AXES], stride[AXES], dilation[AXES], before[AXES];
    rt_direct points;
    size_t packed_bytes;
    /* Once extents are known: */
    int axis;     /* along which parts follow one another */
    int64_t part; /* outputs of a part, along it */
    int64_t seen; /* rows of the image, or points, that a part sees at most */
} transposed;

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* ---- shapes -------------------------------------------------------------------------------------------- */

/* False where the application is no transposed convolution of this kind. Extents of images may be open. */
static bool read_kind(const op_call *call, op_layout from, transposed *t) {
    const op_type *x = &call->inputs[0].type;
    const op_shape *weights = &call->inputs[1].type.shape;
    op_transposed window;
    if (call->code != OP_CONV_TRANSPOSE || x->dtype != OP_FLOAT || x->shape.rank < 3 || x->shape.rank > 4 ||
        weights->rank != x->shape.rank || !op_shape_known(weights) ||
        (from != OP_LAYOUT_NC16 && from != OP_LAYOUT_NHWC) ||
        op_attribute_integer(&call->attributes, "group", 1) != 1 || !op_transposed_read(call, &window, NULL))
        return false;
    *t = (transposed){.from = from,
                      .bias = op_input_present(call, 2),
                      .images = x->shape.dims[0],
                      .channels = weights->dims[0],
                      .filters = weights->dims[1]};
    for (int i = 0; i < AXES; i++) {
        const int at = i - (AXES - window.rank); /* a signal is an image one row high */
        t->input[i] = at < 0 ? 1 : window.input[at];
        t->output[i] = at < 0 ? 1 : window.output[at];
        t->kernel[i] = at < 0 ? 1 : window.kernel[at];
        t->stride[i] = at < 0 ? 1 : window.stride[at];
        t->dilation[i] = at < 0 ? 1 : window.dilation[at];
        t->before[i] = at < 0 ? 0 : window.before[at];
        if (t->kernel[i] < 1 || t->kernel[i] > MOST_ELEMENTS || t->stride[i] < 1 || t->stride[i] > FARTHEST ||
            t->dilation[i] < 1 || t->dilation[i] > MOST_ELEMENTS || t->before[i] < -FARTHEST ||
            t->before[i] > FARTHEST)
            return false;
    }
    const int64_t elements = t->kernel[0] * t->kernel[1];
    t->few = t->filters < LANES;
    if (elements > MOST_ELEMENTS || t->channels < FEWEST_CHANNELS || t->filters > INT32_MAX / MOST_ELEMENTS ||
        (t->few && (t->kernel[1] < FEWEST_ELEMENTS || t->dilation[1] != 1)))
        return false;
    t->blocks = t->few ? 0 : (t->filters + LANES - 1) / LANES;
    return rt_direct_set_points(&t->points, from, t->channels,
                                elements * (t->few ? t->filters : t->blocks * LANES)) &&
           base_size_add(t->points.packed_bytes, sizeof(float), &t->packed_bytes);
}

/* Where it takes less time than others. Lanes without a filter are multiplied, too. Products that few channels make take as long to be added as
 * to be made; then images are left to others, which make each output once. */
static bool is_wanted(const transposed *t, bool signal) {
    const bool strided = t->stride[0] > 1 || t->stride[1] > 1,
               apart = t->dilation[0] > 1 || t->dilation[1] > 1,
               disjoint = t->kernel[0] <= t->stride[0] && t->kernel[1] <= t->stride[1];
    const bool small = t->input[0] >= 0 && t->input[1] >= 0 && most(t->input[0], t->input[1]) < FEWEST_POINTS;
    if (small && t->input[0] * t->input[1] < FEWEST_POINTS) return false;
    if (t->few) return signal && strided && t->channels >= SOME_CHANNELS;
    if (t->blocks * LANES * 4 > t->filters * 5 || !(strided || apart)) return false;
    return signal || apart || t->channels >= MANY_CHANNELS || (disjoint && t->channels >= SOME_CHANNELS) ||
           most(t->kernel[0], t->kernel[1]) >= LARGE_WINDOW;
}

static op_layout layout_of_result(const transposed *t) {
    return t->few ? OP_LAYOUT_ROW_MAJOR : t->from;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    transposed t;
    const op_type *weights = &call->inputs[1].type;
    return rt_has_wide_vectors(environment) && weights->layout == OP_LAYOUT_PACKED &&
           read_kind(call, call->inputs[0].type.layout, &t) && weights->packed_bytes == t.packed_bytes &&
           call->outputs[0].type.layout == layout_of_result(&t) &&
           (!t.bias || call->inputs[2].type.layout == OP_LAYOUT_ROW_MAJOR);
}

static bool prefer(const op_call *call, const rt_environment *environment, rt_preference *preference) {
    transposed t;
    if (!rt_has_wide_vectors(environment) || !call->inputs[1].data) return false;
    const op_layout from = preference->inputs[0] == OP_LAYOUT_NHWC ? OP_LAYOUT_NHWC : OP_LAYOUT_NC16;
    if (!read_kind(call, from, &t) || !is_wanted(&t, call->inputs[0].type.shape.rank == 3) ||
        !op_layout_is_cheap(from, t.channels) || !op_layout_is_cheap(layout_of_result(&t), t.filters))
        return false;
    *preference = (rt_preference){.inputs = {from, OP_LAYOUT_PACKED}, .output = layout_of_result(&t)};
    preference->packed_bytes[1] = t.packed_bytes;
    return true;
}

/* ---- weights ------------------------------------------------------------------------------------------- */

/* Where the weight of a filter at an element of the window for the first channel is; that of the next channel is LANES on. */
static int64_t place_of(const transposed *t, int64_t filter, int64_t element) {
    const int64_t elements = t->kernel[0] * t->kernel[1],
                  row = t->few ? filter * elements + element : element * t->blocks * LANES + filter;
    return row / LANES * t->points.tiles.panel_floats + row % LANES;
}

static base_status move_weights(const op_call *call, uint32_t input, float *plain, float *packed, bool back,
                                base_report *report) {
    transposed t;
    if (input != 1 || !read_kind(call, call->inputs[0].type.layout, &t))
        return base_fail(report, BASE_INVALID, "input %u of this transposed convolution is not packed",
                         input);
    const int64_t elements = t.kernel[0] * t.kernel[1];
    for (int64_t channel = 0; channel < t.channels; channel++) {
        for (int64_t i = 0; i < t.filters * elements; i++) {
            float *from = plain + channel * t.filters * elements + i,
                  *to = packed + place_of(&t, i / elements, i % elements) + channel * LANES;
            if (back) *from = *to;
            else *to = *from;
        }
    }
    if (!back) rt_direct_note_finite(&t.points, packed);
    return BASE_OK;
}

static base_status pack(const op_call *call, const rt_environment *environment, uint32_t input,
                        const op_tensor *plain, void *packed, base_report *report) {
    (void)environment;
    return move_weights(call, input, plain->data, packed, false, report);
}

static base_status unpack(const op_call *call, const rt_environment *environment, uint32_t input,
                          const op_tensor *packed, void *plain, base_report *report) {
    (void)environment;
    return move_weights(call, input, plain, packed->data, true, report);
}

/* ---- sums ---------------------------------------------------------------------------------------------- */

#if RT_X86_KERNELS
#define AVX512 __attribute__((target("avx512f")))

/* Products of some rows of an image, or of some points of a signal: [block of 16][row][point][16]. */
typedef struct products {
    const transposed *t;
    const float *at, *bias;
    int64_t step;     /* from a block to the next */
    float *y;         /* of this image */
    int64_t first;    /* of the image, along t->axis */
    int64_t from, to; /* outputs that are made of them */
    int64_t pieces;   /* that each row of outputs is made in */
} products;

/* The products of an element of the window in row `row` of the image, of block `block`, as if there were a point 0. */
static const float *row_of(const products *p, int64_t block, int64_t row) {
    const transposed *t = p->t;
    const int64_t along = t->axis == 0 ? (row - p->first) * t->input[1] : -p->first;
    return rt_address(p->at, block * p->step + along * LANES);
}

/* `count` outputs, so many floats apart, of the products that begin at each of `sources`. */
AVX512 static void add_sources(const float *const *sources, int64_t source_count, __m512 bias, int64_t count,
                               float *y, int64_t step, __mmask16 lanes) {
    for (int64_t i = 0; i < count; i++) {
        __m512 sum = bias;
        for (int64_t k = 0; k < source_count; k++)
            sum = _mm512_add_ps(sum, _mm512_loadu_ps(sources[k] + i * LANES));
        _mm512_mask_storeu_ps(y + i * step, lanes, sum);
    }
}

AVX512 static void add_two(const float *one, const float *two, __m512 bias, int64_t count, float *y,
                           int64_t step, __mmask16 lanes) {
    for (int64_t i = 0; i < count; i++) {
        const __m512 sum = _mm512_add_ps(bias, _mm512_loadu_ps(one + i * LANES));
        _mm512_mask_storeu_ps(y + i * step, lanes, _mm512_add_ps(sum, _mm512_loadu_ps(two + i * LANES)));
    }
}

/* Outputs [from, to) of a row that are `phase` from a multiple of the stride: numbers q, each of them stride * q + phase. */
AVX512 static void make_phase(const products *p, int64_t block, int64_t row, int64_t from, int64_t to,
                              int64_t phase, float *y, int64_t pixel, __m512 bias, __mmask16 lanes) {
    const transposed *t = p->t;
    const int64_t stride = t->stride[1], width = t->input[1], first = (from - phase + stride - 1) / stride,
                  end = (to - phase + stride - 1) / stride;
    const float *sources[MOST_ELEMENTS], *some[MOST_ELEMENTS];
    int64_t shifts[MOST_ELEMENTS], count = 0, inner = first, inner_end = end;
    for (int64_t i = 0; i < t->kernel[0]; i++) {
        const int64_t up = row + t->before[0] - i * t->dilation[0];
        if (up < 0 || up % t->stride[0] != 0 || up / t->stride[0] >= t->input[0]) continue;
        for (int64_t j = 0; j < t->kernel[1]; j++) {
            const int64_t left = phase + t->before[1] - j * t->dilation[1];
            if (left % stride != 0) continue;
            shifts[count] = left / stride;
            sources[count] = row_of(p, (i * t->kernel[1] + j) * t->blocks + block, up / t->stride[0]);
            inner = most(inner, -shifts[count]);
            inner_end = least(inner_end, width - shifts[count]);
            count++;
        }
    }
    if (inner_end < inner) inner = inner_end = end; /* none sees all */
    for (int64_t q = first; q < end; q++) {
        if (q == inner && inner < inner_end) {
            float *to_all = y + (q * stride + phase) * pixel;
            for (int64_t k = 0; k < count; k++) some[k] = rt_address(sources[k], (q + shifts[k]) * LANES);
            if (count == 2) add_two(some[0], some[1], bias, inner_end - inner, to_all, stride * pixel, lanes);
            else add_sources(some, count, bias, inner_end - inner, to_all, stride * pixel, lanes);
            q = inner_end - 1;
            continue;
        }
        int64_t there = 0;
        for (int64_t k = 0; k < count; k++)
            if (q + shifts[k] >= 0 && q + shifts[k] < width)
                some[there++] = rt_address(sources[k], (q + shifts[k]) * LANES);
        add_sources(some, there, bias, 1, y + (q * stride + phase) * pixel, 0, lanes);
    }
}

/* Outputs [from, to) of a row of one block of filters. */
AVX512 static void make_blocks(const products *p, int64_t block, int64_t row, int64_t from, int64_t to) {
    const transposed *t = p->t;
    const bool innermost = t->from == OP_LAYOUT_NHWC;
    const int64_t there = t->filters - block * LANES, pixel = innermost ? t->filters : LANES;
    const __mmask16 real = rt_first_lanes_16(there);
    const __m512 bias = p->bias ? _mm512_maskz_loadu_ps(real, p->bias + block * LANES) : _mm512_setzero_ps();
    float *y = p->y + (innermost ? row * t->output[1] * pixel + block * LANES
                                 : (block * t->output[0] + row) * t->output[1] * pixel);
    for (int64_t phase = 0; phase < t->stride[1]; phase++)
        make_phase(p, block, row, from, to, phase, y, pixel, bias, innermost ? real : (__mmask16)0xFFFF);
}

/* Products of elements of the window that lie side by side, which are lanes of a block, and where they are added. */
typedef struct run_of_elements {
    const float *products; /* of point 0 */
    float *y;              /* where those of point 0 are added: outputs before the row may be among them */
    int64_t count, stride;
} run_of_elements;

/* At points first, first + turns and so on before `end`; of each, these lanes. */
AVX512 static void add_points(const run_of_elements *of, int64_t first, int64_t end, int64_t turns,
                              __mmask16 lanes) {
    for (int64_t x = first; x < end; x += turns) {
        float *place = (float *)(uintptr_t)rt_address(of->y, x * of->stride);
        const __m512 product = _mm512_maskz_loadu_ps(lanes, of->products + x * LANES);
        _mm512_mask_storeu_ps(place, lanes, _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, place), product));
    }
}

/* Adds them to outputs [from, to) of a row, the first of which would be that of point 0 at `shift`. */
AVX512 static void add_elements(const run_of_elements *of, int64_t width, int64_t shift, int64_t from,
                                int64_t to) {
    const int64_t stride = of->stride, count = of->count, turns = (count + stride - 1) / stride;
    /* Points some of whose elements are these outputs, and those all of whose are. */
    const int64_t first = (most(from - shift - count + 1, 0) + stride - 1) / stride,
                  end = to <= shift ? 0 : least(width, (to - shift + stride - 1) / stride),
                  whole = least(most(first, (most(from - shift, 0) + stride - 1) / stride), end),
                  whole_end =
                      most(whole, to - shift < count ? 0 : least(end, (to - shift - count) / stride + 1));
    /* Points whose elements overlap are made in different turns: what was just written is not read at once. */
    for (int64_t turn = 0; turn < turns; turn++) {
        const int64_t at = first + (turn + turns - first % turns) % turns;
        int64_t x = at;
        for (int part = 0; part < 3; part++) {
            const int64_t part_end = part == 0 ? whole : part == 1 ? whole_end : end;
            if (part == 1) {
                add_points(of, x, part_end, turns, rt_first_lanes_16(count));
                if (x < part_end) x += (part_end - x + turns - 1) / turns * turns;
                continue;
            }
            for (; x < part_end; x += turns) {
                const int64_t begin = x * stride + shift;
                add_points(of, x, x + 1, 1,
                           (__mmask16)(rt_first_lanes_16(least(to - begin, count)) &
                                       ~rt_first_lanes_16(most(from - begin, 0))));
            }
        }
    }
}

/* Outputs [from, to) of a row of one of few filters. */
static void make_few(const products *p, int64_t filter, int64_t row, int64_t from, int64_t to) {
    const transposed *t = p->t;
    const int64_t elements = t->kernel[0] * t->kernel[1];
    float *y = p->y + (filter * t->output[0] + row) * t->output[1];
    for (int64_t i = from; i < to; i++) y[i] = p->bias ? p->bias[filter] : 0;
    for (int64_t i = 0; i < t->kernel[0]; i++) {
        const int64_t up = row + t->before[0] - i * t->dilation[0];
        if (up < 0 || up % t->stride[0] != 0 || up / t->stride[0] >= t->input[0]) continue;
        for (int64_t j = 0; j < t->kernel[1];) {
            const int64_t at = filter * elements + i * t->kernel[1] + j, lane = at % LANES,
                          count = least(LANES - lane, t->kernel[1] - j);
            const run_of_elements of = {.products = row_of(p, at / LANES, up / t->stride[0]) + lane,
                                        .y = (float *)(uintptr_t)rt_address(y, j - t->before[1]),
                                        .count = count,
                                        .stride = t->stride[1]};
            add_elements(&of, t->input[1], j - t->before[1], from, to);
            j += count;
        }
    }
}

/* Rows of outputs of one block of filters, or of one of few filters, or pieces of a row. */
static void make_results(void *context, int64_t begin, int64_t end) {
    const products *p = context;
    const transposed *t = p->t;
    const int64_t rows = t->axis == 0 ? p->to - p->from : t->output[0], first = t->axis == 0 ? p->from : 0,
                  low = t->axis == 0 ? 0 : p->from, high = t->axis == 0 ? t->output[1] : p->to;
    for (int64_t i = begin; i < end; i++) {
        const int64_t piece = i % p->pieces, row = first + i / p->pieces % rows, block = i / p->pieces / rows,
                      from = low + piece * PIECE, to = piece == p->pieces - 1 ? high : from + PIECE;
        if (t->few) make_few(p, block, row, from, to);
        else make_blocks(p, block, row, from, to);
    }
}

/* Moves products of `count` points, `by` points back, in each block. */
typedef struct kept_products {
    float *at;
    int64_t step, by, count;
} kept_products;

static void move_back(void *context, int64_t begin, int64_t end) {
    const kept_products *k = context;
    for (int64_t block = begin; block < end; block++) {
        float *to = k->at + block * k->step;
        memmove(to, to + k->by * LANES, (size_t)(k->count * LANES) * sizeof *to);
    }
}

/* Rows of the image, or points of a signal, whose products are there. */
typedef struct made_rows {
    int64_t first, end;
} made_rows;

/* Makes products of rows [first, end) of an image, of which some may be there. */
static void make_products(const transposed *t, const op_tensor *inputs, int64_t image,
                          const made_rows *wanted, made_rows *made, float *scratch, int threads) {
    const int64_t across = t->axis == 0 ? t->input[1] : 1, pixels = t->input[0] * t->input[1],
                  channels =
                      t->from == OP_LAYOUT_NHWC ? t->channels : (t->channels + LANES - 1) / LANES * LANES,
                  capacity = t->seen * across, kept = most(made->end - wanted->first, 0),
                  first = wanted->first + kept, count = (wanted->end - first) * across;
    rt_direct shape = t->points;
    rt_direct_set_place(&shape, pixels, count, capacity);
    if (kept && wanted->first > made->first) {
        kept_products keep = {.at = scratch,
                              .step = shape.y_panel,
                              .by = (wanted->first - made->first) * across,
                              .count = kept * across};
        rt_parallel(threads, rt_direct_panel_count(&shape), keep.count * LANES, move_back, &keep);
    }
    const rt_direct_job job = {.shape = &shape,
                               .x = (const float *)inputs[0].data + image * channels * pixels +
                                    first * across * shape.pixel,
                               .weights = inputs[1].data,
                               .y = scratch + kept * across * LANES,
                               .finite = rt_direct_are_finite(&shape, inputs[1].data)};
    if (count > 0) rt_direct_run_all(&job, threads);
    *made = *wanted;
}

/* Outputs [from, to) along t->axis of an image. */
static void run_part(const transposed *t, const op_tensor *inputs, op_tensor *outputs, int64_t image,
                     int64_t from, int64_t to, made_rows *made, float *scratch, int threads) {
    const int a = t->axis;
    const int64_t reach = (t->kernel[a] - 1) * t->dilation[a], low = from + t->before[a] - reach,
                  high = to - 1 + t->before[a],
                  filters = t->few || t->from == OP_LAYOUT_NHWC ? t->filters : t->blocks * LANES;
    const made_rows seen = {.first =
                                low <= 0 ? 0 : least((low + t->stride[a] - 1) / t->stride[a], t->input[a]),
                            .end = high < 0 ? 0 : least(high / t->stride[a] + 1, t->input[a])};
    if (seen.end > seen.first) make_products(t, inputs, image, &seen, made, scratch, threads);
    const int64_t width = a == 0 ? t->output[1] : to - from, rows = a == 0 ? to - from : t->output[0];
    products p = {.t = t,
                  .at = scratch,
                  .step = t->seen * (a == 0 ? t->input[1] : 1) * LANES,
                  .bias = t->bias ? inputs[2].data : NULL,
                  .y = (float *)outputs[0].data + image * filters * t->output[0] * t->output[1],
                  .first = seen.first,
                  .from = from,
                  .to = to,
                  .pieces = most(1, width / PIECE)};
    rt_parallel(threads, (t->few ? t->filters : t->blocks) * rows * p.pieces,
                width / p.pieces * LANES * (t->kernel[0] * t->kernel[1]), make_results, &p);
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    const transposed *t = prepared->state;
    (void)report;
    for (int64_t image = 0; image < t->images && t->output[1 - t->axis] > 0; image++) {
        made_rows made = {0, 0};
        for (int64_t from = 0; from < t->output[t->axis]; from += t->part)
            run_part(t, inputs, outputs, image, from, least(from + t->part, t->output[t->axis]), &made,
                     scratch, prepared->threads);
    }
    return BASE_OK;
}
#else
static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)prepared, (void)inputs, (void)outputs, (void)scratch;
    return base_fail(report, BASE_INVALID, "this machine has no vectors for it");
}
#endif

/* ---- parts --------------------------------------------------------------------------------------------- */

/* How much is multiplied at a time. False where the products are too many. */
static bool find_parts(transposed *t, size_t *bytes) {
    const int a = t->axis = t->input[0] > 1 || t->output[0] > 1 ? 0 : 1;
    const int64_t across = a == 0 ? t->input[1] : 1, stride = t->stride[a],
                  overlap = ((t->kernel[a] - 1) * t->dilation[a] + stride - 1) / stride,
                  rows = (t->points.filters + LANES - 1) / LANES * LANES;
    size_t row = sizeof(float);
    if (!base_size_multiply(row, (size_t)rows, &row) || !base_size_multiply(row, (size_t)across, &row))
        return false;
    const int64_t near = row ? (int64_t)(NEAR_BYTES / row) : 1;
    const bool many = t->packed_bytes > NEAR_WEIGHTS;
    t->seen = most(most(near, overlap * LEAST_OVERLAP + 1), many && across ? LEAST_POINTS / across : 1);
    if (t->seen >= t->input[a]) {
        t->seen = most(t->input[a], 1);
        t->part = most(t->output[a], 1);
    } else {
        t->part = least((t->seen - overlap) * stride, most(t->output[a], 1));
    }
    return base_size_multiply(row, (size_t)t->seen, bytes);
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    transposed *t = BASE_NEW(arena, transposed);
    if (!t) return base_fail_memory(report);
    if (!accepts(call, environment) || !read_kind(call, call->inputs[0].type.layout, t) ||
        !find_parts(t, &prepared->scratch_bytes))
        return base_fail(report, BASE_INVALID, "this transposed convolution has no weights of single points");
    prepared->state = t;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_transposed_product = {.name = "portable.transposed_product",
                                                .accepts = accepts,
                                                .prefer = prefer,
                                                .pack = pack,
                                                .unpack = unpack,
                                                .prepare = prepare};
