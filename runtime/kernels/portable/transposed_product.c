/* SPDX-License-Identifier: Apache-2.0 */
/* transposed_product.c: ConvTranspose in float on images whose channels lie side by side, in blocks of 16 or innermost, on machines with
 * AVX-512: each point is multiplied by the weights of all filters at all elements of the window (direct_tiles.c), and the products are added
 * where windows overlap (Dumoulin and Visin, "A guide to convolution arithmetic for deep learning", 2016, chapter 4).
 *
 * Products are made for some rows of the image at a time, or some points of a signal, and stay in a cache until they are added. Those that
 * the next part sees, too, are kept for it.
 *
 * Of 16 filters and more the products of an element of the window at a point are blocks of 16 filters. Outputs that lie a stride apart add
 * products of the same elements: these sums stay in registers, and the result lies as the image does. Of fewer filters products are rows of
 * points, the image may lie in any way, and the result is row-major (transposed_rows.c).
 *
 * Weights are packed as those of single points are (direct_convolution.c), with one number more, which tells them from those that other
 * kernels pack. They do not depend on the extents of images, which may be open. Sums begin with the bias and are made in the order of elements of
 * the window. They do not depend on the number of threads.
 */
#include "ir/operators/window.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/lanes.h"
#include "runtime/kernels/portable/transposed_product.h"
#include <string.h>

enum {
    LANES = RT_DIRECT_LANES,
    FEWEST_CHANNELS = 16,
    FEWEST_OF_FEW = 4,       /* channels, of few filters */
    CHANNELS_OF_OVERLAP = 6, /* for each element of the window that an output adds */
    MOST_FILTERS = 8,        /* of images; of more, lanes that are filters are almost full */
    FEWEST_POINTS = 8,       /* of an image: weights are read for so few */
    SOME_CHANNELS = 64,
    MANY_CHANNELS = 128,
    LARGE_WINDOW = 10,
    MOST_ELEMENTS = RT_TRANSPOSED_ELEMENTS,
    LONGEST_WINDOW = 8192,  /* elements, of few filters */
    FARTHEST = 1 << 20,     /* that points lie apart in the result, or beside it */
    NEAR_BYTES = 256 << 10, /* of products, before they are added */
    NEAR_WEIGHTS = 1 << 20, /* bytes; more are read again for each part */
    LEAST_POINTS = 128,     /* of a part, then */
    LEAST_OVERLAP = 3,      /* so many times the rows that two parts see are in one */
    PIECE = RT_TRANSPOSED_PIECE,
    PAGE = 4096,
    AXES = RT_TRANSPOSED_AXES
};

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* ---- shapes -------------------------------------------------------------------------------------------- */

/* Elements of the window along an axis that an output adds, at most. */
static int64_t added_along(const rt_transposed *t, int axis) {
    return t->dilation[axis] > 1 ? t->kernel[axis]
                                 : (t->kernel[axis] + t->stride[axis] - 1) / t->stride[axis];
}

/* False where the application is no transposed convolution of this kind. Extents of images may be open. */
static bool read_kind(const op_call *call, op_layout from, rt_transposed *t) {
    const op_type *x = &call->inputs[0].type;
    const op_shape *weights = &call->inputs[1].type.shape;
    op_transposed window;
    if (call->code != OP_CONV_TRANSPOSE || x->dtype != OP_FLOAT || x->shape.rank < 3 || x->shape.rank > 4 ||
        weights->rank != x->shape.rank || !op_shape_known(weights) ||
        (from != OP_LAYOUT_NC16 && from != OP_LAYOUT_NHWC && from != OP_LAYOUT_ROW_MAJOR) ||
        op_attribute_integer(&call->attributes, "group", 1) != 1 || !op_transposed_read(call, &window, NULL))
        return false;
    *t = (rt_transposed){.from = from,
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
        if (t->kernel[i] < 1 || t->kernel[i] > LONGEST_WINDOW || t->stride[i] < 1 ||
            t->stride[i] > FARTHEST || t->dilation[i] < 1 || t->dilation[i] > MOST_ELEMENTS ||
            t->before[i] < -FARTHEST || t->before[i] > FARTHEST)
            return false;
    }
    const int64_t elements = t->kernel[0] * t->kernel[1];
    t->few = t->filters < LANES;
    const int64_t added = t->few ? added_along(t, 0) * added_along(t, 1) : elements;
    if (elements > LONGEST_WINDOW || added > MOST_ELEMENTS || t->channels < (t->few ? 1 : FEWEST_CHANNELS) ||
        t->filters > INT32_MAX / LONGEST_WINDOW ||
        (t->few ? t->stride[1] > RT_TRANSPOSED_STRIDE : from == OP_LAYOUT_ROW_MAJOR))
        return false;
    t->blocks = t->few ? 0 : (t->filters + LANES - 1) / LANES;
    return rt_direct_set_points(&t->points, t->few ? OP_LAYOUT_NC16 : from, t->channels,
                                elements * (t->few ? t->filters : t->blocks * LANES)) &&
           base_size_add(t->points.packed_bytes, sizeof(float), &t->packed_bytes);
}

/* Of few filters: others make three at a time of what they read once, which is as fast where a point is added to many outputs for its
 * channels; and of many filters lanes are almost full. */
static bool is_wanted_of_few(const rt_transposed *t, bool signal, bool small) {
    const double overlap = (double)(t->kernel[0] * t->kernel[1]) / (double)(t->stride[0] * t->stride[1]);
    if (t->channels < FEWEST_OF_FEW) return false;
    if (signal) return true;
    if (t->filters > MOST_FILTERS) return false;
    return t->filters % 3 != 0 || (!small && (double)t->channels >= CHANNELS_OF_OVERLAP * overlap);
}

/* Where it takes less time than others. Lanes without a filter are multiplied, too. Products that few channels make take as long to be added as
 * to be made; then images are left to others, which make each output once. */
static bool is_wanted(const rt_transposed *t, bool signal) {
    const bool strided = t->stride[0] > 1 || t->stride[1] > 1,
               apart = t->dilation[0] > 1 || t->dilation[1] > 1,
               disjoint = t->kernel[0] <= t->stride[0] && t->kernel[1] <= t->stride[1];
    const bool small = t->input[0] >= 0 && t->input[1] >= 0 && most(t->input[0], t->input[1]) < FEWEST_POINTS;
    if (small && t->input[0] * t->input[1] < FEWEST_POINTS) return false;
    if (t->few) return strided && is_wanted_of_few(t, signal, small);
    if (t->blocks * LANES * 4 > t->filters * 5 || !(strided || apart)) return false;
    return signal || apart || t->channels >= MANY_CHANNELS || (disjoint && t->channels >= SOME_CHANNELS) ||
           most(t->kernel[0], t->kernel[1]) >= LARGE_WINDOW;
}

static op_layout layout_of_result(const rt_transposed *t) {
    return t->few ? OP_LAYOUT_ROW_MAJOR : t->from;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    rt_transposed t;
    const op_type *weights = &call->inputs[1].type;
    return rt_has_wide_vectors(environment) && weights->layout == OP_LAYOUT_PACKED &&
           read_kind(call, call->inputs[0].type.layout, &t) && weights->packed_bytes == t.packed_bytes &&
           call->outputs[0].type.layout == layout_of_result(&t) &&
           (!t.bias || call->inputs[2].type.layout == OP_LAYOUT_ROW_MAJOR);
}

static bool prefer(const op_call *call, const rt_environment *environment, rt_preference *preference) {
    rt_transposed t;
    if (!rt_has_wide_vectors(environment) || !call->inputs[1].data) return false;
    op_layout from = preference->inputs[0]; /* images stay as they lie for few filters */
    if (from == OP_LAYOUT_ROW_MAJOR && !read_kind(call, from, &t)) from = OP_LAYOUT_NC16;
    if (!read_kind(call, from, &t) || !is_wanted(&t, call->inputs[0].type.shape.rank == 3) ||
        !op_layout_is_cheap(from, t.channels) || !op_layout_is_cheap(layout_of_result(&t), t.filters))
        return false;
    *preference = (rt_preference){.inputs = {from, OP_LAYOUT_PACKED}, .output = layout_of_result(&t)};
    preference->packed_bytes[1] = t.packed_bytes;
    return true;
}

/* ---- weights ------------------------------------------------------------------------------------------- */

/* Where the weight of a filter at an element of the window for the first channel is; that of the next channel is LANES on. */
static int64_t place_of(const rt_transposed *t, int64_t filter, int64_t element) {
    const int64_t elements = t->kernel[0] * t->kernel[1],
                  row = t->few ? filter * elements + element : element * t->blocks * LANES + filter;
    return row / LANES * t->points.tiles.panel_floats + row % LANES;
}

static base_status move_weights(const op_call *call, uint32_t input, float *plain, float *packed, bool back,
                                base_report *report) {
    rt_transposed t;
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

/* The products of an element of the window in row `row` of the image, of block `block`, as if there were a point 0. */
static const float *row_of(const rt_transposed_products *p, int64_t block, int64_t row) {
    const rt_transposed *t = p->t;
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
AVX512 static void make_phase(const rt_transposed_products *p, int64_t block, int64_t row, int64_t from,
                              int64_t to, int64_t phase, float *y, int64_t pixel, __m512 bias,
                              __mmask16 lanes) {
    const rt_transposed *t = p->t;
    const int64_t stride = t->stride[1], width = t->input[1], first = (from - phase + stride - 1) / stride,
                  end = (to - phase + stride - 1) / stride;
    const float *sources[MOST_ELEMENTS], *some[MOST_ELEMENTS];
    rt_transposed_added added[MOST_ELEMENTS];
    const int64_t count = rt_transposed_find_added(t, row, phase, added);
    int64_t inner = first, inner_end = end;
    for (int64_t k = 0; k < count; k++) {
        sources[k] = row_of(p, added[k].element * t->blocks + block, added[k].line);
        inner = most(inner, -added[k].shift);
        inner_end = least(inner_end, width - added[k].shift);
    }
    if (inner_end < inner) inner = inner_end = end; /* none sees all */
    for (int64_t q = first; q < end; q++) {
        if (q == inner && inner < inner_end) {
            float *to_all = y + (q * stride + phase) * pixel;
            for (int64_t k = 0; k < count; k++)
                some[k] = rt_address(sources[k], (q + added[k].shift) * LANES);
            if (count == 2) add_two(some[0], some[1], bias, inner_end - inner, to_all, stride * pixel, lanes);
            else add_sources(some, count, bias, inner_end - inner, to_all, stride * pixel, lanes);
            q = inner_end - 1;
            continue;
        }
        int64_t there = 0;
        for (int64_t k = 0; k < count; k++)
            if (q + added[k].shift >= 0 && q + added[k].shift < width)
                some[there++] = rt_address(sources[k], (q + added[k].shift) * LANES);
        add_sources(some, there, bias, 1, y + (q * stride + phase) * pixel, 0, lanes);
    }
}

/* Outputs [from, to) of a row of one block of filters. */
AVX512 static void make_blocks(const rt_transposed_products *p, int64_t block, int64_t row, int64_t from,
                               int64_t to) {
    const rt_transposed *t = p->t;
    const bool innermost = t->from == OP_LAYOUT_NHWC;
    const int64_t there = t->filters - block * LANES, pixel = innermost ? t->filters : LANES;
    const __mmask16 real = rt_first_lanes_16(there);
    const __m512 bias = p->bias ? _mm512_maskz_loadu_ps(real, p->bias + block * LANES) : _mm512_setzero_ps();
    float *y = p->y + (innermost ? row * t->output[1] * pixel + block * LANES
                                 : (block * t->output[0] + row) * t->output[1] * pixel);
    for (int64_t phase = 0; phase < t->stride[1]; phase++)
        make_phase(p, block, row, from, to, phase, y, pixel, bias, innermost ? real : (__mmask16)0xFFFF);
}

/* Rows of outputs of one block of filters, or of one of few filters, or pieces of a row. */
static void make_results(void *context, int64_t begin, int64_t end) {
    const rt_transposed_products *p = context;
    const rt_transposed *t = p->t;
    const int64_t rows = t->axis == 0 ? p->to - p->from : t->output[0], first = t->axis == 0 ? p->from : 0,
                  low = t->axis == 0 ? 0 : p->from, high = t->axis == 0 ? t->output[1] : p->to;
    for (int64_t i = begin; i < end; i++) {
        const int64_t piece = i % p->pieces, row = first + i / p->pieces % rows, block = i / p->pieces / rows,
                      from = low + piece * p->piece, to = piece == p->pieces - 1 ? high : from + p->piece;
        if (t->few) rt_transposed_add_row(p, block, row, from, to);
        else make_blocks(p, block, row, from, to);
    }
}

/* Moves `count` floats of products `by` floats back, in each block or row. */
typedef struct kept_products {
    float *at;
    int64_t step, by, count;
} kept_products;

static void move_back(void *context, int64_t begin, int64_t end) {
    const kept_products *k = context;
    for (int64_t block = begin; block < end; block++) {
        float *to = k->at + block * k->step;
        memmove(to, to + k->by, (size_t)k->count * sizeof *to);
    }
}

/* Rows of the image, or points of a signal, whose products are there. */
typedef struct made_rows {
    int64_t first, end;
} made_rows;

/* Floats from a block of products to the next, or, of few filters, from an element of the window to the next. */
static int64_t product_step(const rt_transposed *t) {
    return t->few ? t->capacity : t->seen * (t->axis == 0 ? t->input[1] : 1) * LANES;
}

/* Makes products of rows [first, end) of an image, of which some may be there. */
static void make_products(const rt_transposed *t, const op_tensor *inputs, int64_t image,
                          const made_rows *wanted, made_rows *made, float *scratch, int threads) {
    const int64_t across = t->axis == 0 ? t->input[1] : 1, pixels = t->input[0] * t->input[1],
                  channels =
                      t->from == OP_LAYOUT_NC16 ? (t->channels + LANES - 1) / LANES * LANES : t->channels,
                  kept = most(made->end - wanted->first, 0), first = wanted->first + kept,
                  count = (wanted->end - first) * across, floats = t->few ? 1 : LANES,
                  sets = t->few ? t->points.filters : rt_direct_panel_count(&t->points);
    const float *const x = (const float *)inputs[0].data + image * channels * pixels;
    if (kept && wanted->first > made->first) {
        kept_products keep = {.at = scratch,
                              .step = product_step(t),
                              .by = (wanted->first - made->first) * across * floats,
                              .count = kept * across * floats};
        rt_parallel(threads, sets, keep.count, move_back, &keep);
    }
    *made = *wanted;
    if (count <= 0) return;
    if (t->few) {
        const rt_transposed_points points = {.t = t,
                                             .image = x,
                                             .weights = inputs[1].data,
                                             .y = scratch + kept * across,
                                             .copy = scratch + sets * t->capacity,
                                             .first = first * across,
                                             .count = count};
        rt_transposed_multiply(&points, threads);
        return;
    }
    rt_direct shape = t->points;
    rt_direct_set_place(&shape, pixels, count, t->seen * across);
    const rt_direct_job job = {.shape = &shape,
                               .x = x + first * across * shape.pixel,
                               .weights = inputs[1].data,
                               .y = scratch + kept * across * LANES,
                               .finite = rt_direct_are_finite(&shape, inputs[1].data)};
    rt_direct_run_all(&job, threads);
}

/* Outputs [from, to) along t->axis of an image. */
static void run_part(const rt_transposed *t, const op_tensor *inputs, op_tensor *outputs, int64_t image,
                     int64_t from, int64_t to, made_rows *made, float *scratch, int threads) {
    const int a = t->axis;
    const int64_t reach = (t->kernel[a] - 1) * t->dilation[a], low = from + t->before[a] - reach,
                  high = to - 1 + t->before[a],
                  filters = t->few || t->from == OP_LAYOUT_NHWC ? t->filters : t->blocks * LANES;
    const made_rows seen = {.first =
                                low <= 0 ? 0 : least((low + t->stride[a] - 1) / t->stride[a], t->input[a]),
                            .end = high < 0 ? 0 : least(high / t->stride[a] + 1, t->input[a])};
    if (seen.end > seen.first) make_products(t, inputs, image, &seen, made, scratch, threads);
    const int64_t width = a == 0 ? t->output[1] : to - from, rows = a == 0 ? to - from : t->output[0],
                  piece = t->stride[1] > PIECE ? PIECE : PIECE / t->stride[1] * t->stride[1];
    rt_transposed_products p = {.t = t,
                                .at = scratch,
                                .step = product_step(t),
                                .bias = t->bias ? inputs[2].data : NULL,
                                .y = (float *)outputs[0].data + image * filters * t->output[0] * t->output[1],
                                .first = seen.first,
                                .from = from,
                                .to = to,
                                .pieces = most(1, width / piece),
                                .piece = piece};
    rt_parallel(threads, (t->few ? t->filters : t->blocks) * rows * p.pieces,
                width / p.pieces * LANES * (t->kernel[0] * t->kernel[1]), make_results, &p);
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    const rt_transposed *t = prepared->state;
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
static bool find_parts(rt_transposed *t, size_t *bytes) {
    const int a = t->axis = t->input[0] > 1 || t->output[0] > 1 ? 0 : 1;
    const int64_t across = a == 0 ? t->input[1] : 1, stride = t->stride[a],
                  overlap = ((t->kernel[a] - 1) * t->dilation[a] + stride - 1) / stride,
                  pixels = t->input[0] * t->input[1];
    /* Rows that lie a page apart meet in few sets of the nearest cache. */
    t->copied = t->few && (t->from != OP_LAYOUT_ROW_MAJOR || pixels * (int64_t)sizeof(float) % PAGE == 0);
    const int64_t rows = t->few ? t->points.filters + (t->copied ? t->channels : 0)
                                : (t->points.filters + LANES - 1) / LANES * LANES;
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
    if (!base_size_multiply(row, (size_t)t->seen, bytes)) return false;
    if (!t->few) return true;
    t->capacity = t->seen * across;
    if (t->capacity * (int64_t)sizeof(float) % PAGE == 0) t->capacity += LANES;
    return base_size_multiply(sizeof(float) * (size_t)rows, (size_t)t->capacity, bytes);
}

/* Where the channels of a point are. */
static bool find_places(rt_transposed *t, base_arena *arena) {
    int64_t *places = BASE_ARRAY(arena, int64_t, (size_t)t->channels);
    if (!places) return false;
    for (int64_t c = 0; c < t->channels; c++)
        places[c] = c * (t->copied ? t->capacity : t->input[0] * t->input[1]);
    t->places = places;
    return true;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    rt_transposed *t = BASE_NEW(arena, rt_transposed);
    if (!t) return base_fail_memory(report);
    if (!accepts(call, environment) || !read_kind(call, call->inputs[0].type.layout, t) ||
        !find_parts(t, &prepared->scratch_bytes))
        return base_fail(report, BASE_INVALID, "this transposed convolution has no weights of single points");
    if (t->few && !find_places(t, arena)) return base_fail_memory(report);
    prepared->state = t;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_transposed_product = {.name = "portable.transposed_product",
                                                .accepts = accepts,
                                                .prefer = prefer,
                                                .pack = pack,
                                                .unpack = unpack,
                                                .only_packed = true,
                                                .never_portable = true,
                                                .prepare = prepare};
