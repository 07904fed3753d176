/* SPDX-License-Identifier: Apache-2.0 */
/* deform_conv.c: DeformConv: a convolution whose window has an offset of its own at every element, by linear interpolation.
 *
 * The points that the windows of some pixels of the result see are written as the right matrix of a product, in panels, which is then multiplied
 * as Conv multiplies. Where a point lies is the same for all channels that share offsets: in float, its neighbours and their weights are found
 * once (taps). Other types find them again for each channel, and doubles are added up one by one. Dai et al., "Deformable Convolutional
 * Networks" (2017); Zhu et al., "Deformable ConvNets v2" (2018).
 */
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/product.h"
#include <math.h>
#include <string.h>
#if RT_X86_KERNELS
#include <immintrin.h>
#endif

enum { X, W, OFFSET, BIAS, MASK, MOST_AXES = 4, MOST_CORNERS = 1 << MOST_AXES, PIXELS = 64 };

typedef struct deform_state {
    op_dtype dtype;
    int32_t rank;
    int64_t batches, channels, maps, groups, offset_groups;
    int64_t image[MOST_AXES], result[MOST_AXES], window[MOST_AXES];
    int64_t strides[MOST_AXES], dilations[MOST_AXES], pads[MOST_AXES];
    int64_t image_size, result_size, window_size;
    int64_t depth;  /* of the product: channels of a group times the window */
    int64_t pixels; /* of the result in a part: whole panels, at most PIXELS */
    int64_t parts;
    bool taps;    /* points are found once for all channels */
    bool squares; /* and in two dimensions, whose corners lie in a square of pixels that are all there */
    bool fused; /* rt_tiles.fused */
} deform_state;

/* What an element of the window sees at PIXELS pixels of the result: by corner, where in a plane, and how much of it; a corner outside has
 * the weight 0, and is not read. Of squares only the first corner's place is there: its neighbours in the plane are the others, and where the
 * point lies beyond an edge, the square is the one at the edge. */
typedef struct deform_taps {
    int32_t at[MOST_CORNERS][PIXELS];
    float weights[MOST_CORNERS][PIXELS];
    float mask[PIXELS];
} deform_taps;

typedef struct deform_job {
    const deform_state *state;
    const op_tensor *inputs;
    const void *bias, *mask;
    void *y;
    float *weights, *scratch;
    size_t each;
} deform_job;

/* The pixels around a point, as the position in a plane and the weight of each corner; 0 of what lies outside. */
static void corners_of(const deform_state *s, const double *at, int64_t positions[MOST_CORNERS],
                       double weights[MOST_CORNERS]) {
    int64_t low[MOST_AXES];
    double part[MOST_AXES];
    bool within = true;
    for (int32_t i = 0; i < s->rank; i++) {
        /* Also what is not a number lies outside. */
        within = within && at[i] > -1 && at[i] < (double)s->image[i];
        low[i] = within ? (int64_t)floor(at[i]) : 0;
        part[i] = at[i] - (double)low[i];
    }
    for (unsigned corner = 0; corner < 1u << s->rank; corner++) {
        double weight = 1;
        int64_t offset = 0;
        bool inside = within;
        for (int32_t i = 0; i < s->rank; i++) {
            const bool high = corner >> i & 1;
            const int64_t p = low[i] + high;
            weight *= high ? part[i] : 1 - part[i];
            inside = inside && p >= 0 && p < s->image[i];
            offset = offset * s->image[i] + p;
        }
        positions[corner] = inside ? offset : 0;
        weights[corner] = inside ? weight : 0;
    }
}

/* Where element `element` of the window of a pixel lies; `window` is that element of the set of offsets that counts. */
static void place_of(const deform_job *job, int64_t window, int64_t pixel, int64_t element,
                     double at[MOST_AXES]) {
    const deform_state *s = job->state;
    int64_t p = pixel, e = element;
    for (int32_t i = s->rank - 1; i >= 0; i--) {
        const double offset = rt_element_load(s->dtype, job->inputs[OFFSET].data,
                                              (window * s->rank + i) * s->result_size + pixel);
        at[i] = (double)(p % s->result[i] * s->strides[i] - s->pads[i] + e % s->window[i] * s->dilations[i]) +
                offset;
        p /= s->result[i];
        e /= s->window[i];
    }
}

/* What element `element` of the window of a pixel sees, in the plane of a channel. */
static double seen(const deform_job *job, int64_t b, int64_t channel, int64_t pixel, int64_t element) {
    const deform_state *s = job->state;
    const int64_t set = channel / (s->channels / s->offset_groups),
                  window = (b * s->offset_groups + set) * s->window_size + element;
    const int64_t plane = (b * s->channels + channel) * s->image_size;
    double at[MOST_AXES], weights[MOST_CORNERS], value = 0;
    int64_t positions[MOST_CORNERS];
    place_of(job, window, pixel, element, at);
    corners_of(s, at, positions, weights);
    for (unsigned corner = 0; corner < 1u << s->rank; corner++) {
        if (weights[corner] > 0)
            value +=
                weights[corner] * rt_element_load(s->dtype, job->inputs[X].data, plane + positions[corner]);
    }
    return job->mask ? value * rt_element_load(s->dtype, job->mask, window * s->result_size + pixel) : value;
}

/* ---- panels -------------------------------------------------------------------------------------------- */

/* Where the windows of the pixels of a part begin, by axis. */
typedef struct deform_starts {
    double at[MOST_AXES][PIXELS];
} deform_starts;

static void find_starts(const deform_state *s, int64_t pixel, int64_t count, deform_starts *starts) {
    for (int64_t j = 0; j < s->pixels; j++) {
        int64_t p = pixel + (j < count ? j : 0);
        for (int32_t i = s->rank - 1; i >= 0; i--) {
            starts->at[i][j] = (double)(p % s->result[i] * s->strides[i] - s->pads[i]);
            p /= s->result[i];
        }
    }
}

/* The weights of two neighbours, of which the first is within [0, last), for a point `part` after pixel `low`, which may be the one before the
 * first or the last one; tells where the first of the two is. */
static inline double place_pair(double low, double part, double last, double weights[2]) {
    const bool before = low<0, after = low> last - 1; /* the first is missing, or the second is */
    weights[0] = before ? part : after ? 0 : 1 - part;
    weights[1] = before ? 0 : after ? 1 - part : part;
    return before ? 0 : after ? last - 1 : low;
}

/* corners_of in two dimensions, for several points, whose corners are put in squares. */
RT_CLONES static void find_squares(const deform_state *s, const double places[2][PIXELS], deform_taps *taps) {
    const double height = (double)s->image[0], width = (double)s->image[1];
    for (int64_t j = 0; j < s->pixels; j++) {
        const double y = places[0][j], x = places[1][j];
        const bool within = (y > -1) & (y < height) & (x > -1) & (x < width);
        const double top = within ? floor(y) : 0, left = within ? floor(x) : 0;
        double rows[2], columns[2];
        const double row = place_pair(top, y - top, height - 1, rows),
                     column = place_pair(left, x - left, width - 1, columns);
        taps->at[0][j] = (int32_t)(row * width + column);
        for (int corner = 0; corner < 4; corner++)
            taps->weights[corner][j] = within ? (float)(rows[corner & 1] * columns[corner >> 1]) : 0;
    }
}

/* Of float: what element `element` of the windows of `count` pixels sees in every channel of a set. Pixels that are not there see
 * nothing. */
static void find_taps(const deform_job *job, const deform_starts *starts, int64_t window, int64_t pixel,
                      int64_t count, int64_t element, deform_taps *taps) {
    const deform_state *s = job->state;
    const float *offsets =
        (const float *)job->inputs[OFFSET].data + window * s->rank * s->result_size + pixel;
    const float *mask = job->mask ? (const float *)job->mask + window * s->result_size + pixel : NULL;
    double places[MOST_AXES][PIXELS];
    int64_t e = element;
    for (int32_t i = s->rank - 1; i >= 0; i--) {
        const double within = (double)(e % s->window[i] * s->dilations[i]);
        e /= s->window[i];
        for (int64_t j = 0; j < s->pixels; j++)
            places[i][j] =
                starts->at[i][j] + within + (j < count ? (double)offsets[i * s->result_size + j] : 0);
    }
    for (int64_t j = 0; j < s->pixels; j++) taps->mask[j] = j >= count ? 0 : mask ? mask[j] : 1;
    if (s->squares) {
        find_squares(s, (const double(*)[PIXELS])places, taps);
        return;
    }
    for (int64_t j = 0; j < s->pixels; j++) {
        double at[MOST_AXES], weights[MOST_CORNERS];
        int64_t positions[MOST_CORNERS];
        for (int32_t i = 0; i < s->rank; i++) at[i] = places[i][j];
        corners_of(s, at, positions, weights);
        for (unsigned corner = 0; corner < 1u << s->rank; corner++) {
            taps->at[corner][j] = (int32_t)positions[corner];
            taps->weights[corner][j] = (float)weights[corner];
        }
    }
}

/* A row of the panels, which are `step` elements apart. (Instructions that gather from several places take longer than loads.) */
static void blend(const deform_taps *taps, unsigned corners, int64_t pixels, const float *plane,
                  float *panels, int64_t step) {
    for (int64_t first = 0; first < pixels; first += RT_PANEL) {
        float sums[RT_PANEL] = {0};
        for (unsigned corner = 0; corner < corners; corner++) {
            const int32_t *at = taps->at[corner] + first;
            const float *weights = taps->weights[corner] + first;
            for (int j = 0; j < RT_PANEL; j++) {
                /* What is infinite, and has no weight, does not count. */
                const float product = weights[j] * plane[at[j]];
                sums[j] += weights[j] > 0 ? product : 0;
            }
        }
        for (int j = 0; j < RT_PANEL; j++) panels[j] = sums[j] * taps->mask[first + j];
        panels += step;
    }
}

/* The same of squares. */
static void blend_squares(const deform_taps *taps, int64_t pixels, const float *plane, int64_t width,
                          float *panels, int64_t step) {
    const int64_t beside[4] = {0, width, 1, width + 1};
    for (int64_t first = 0; first < pixels; first += RT_PANEL) {
        for (int j = 0; j < RT_PANEL; j++) {
            const float *square = plane + taps->at[0][first + j];
            float sum = 0;
            for (int corner = 0; corner < 4; corner++) {
                const float weight = taps->weights[corner][first + j],
                            product = weight * square[beside[corner]];
                sum += weight > 0 ? product : 0;
            }
            panels[j] = sum * taps->mask[first + j];
        }
        panels += step;
    }
}

#if RT_X86_KERNELS
#define WIDE __attribute__((target("avx512f")))

/* Two neighbours. */
WIDE static inline __attribute__((always_inline)) double load_pair(const float *from) {
    double pair;
    memcpy(&pair, from, sizeof pair);
    return pair;
}

/* From each of eight places. */
WIDE static inline __attribute__((always_inline)) __m512 load_pairs(const float *plane, const int32_t *at) {
    __m256d halves[2];
    _Pragma("GCC unroll 2") for (int i = 0; i < 2; i++, at += 4) {
        const __m128d some = _mm_set_pd(load_pair(plane + at[1]), load_pair(plane + at[0])),
                      more = _mm_set_pd(load_pair(plane + at[3]), load_pair(plane + at[2]));
        halves[i] = _mm256_insertf128_pd(_mm256_castpd128_pd256(some), more, 1);
    }
    return _mm512_castpd_ps(_mm512_insertf64x4(_mm512_castpd256_pd512(halves[0]), halves[1], 1));
}

/* sums + weights * values, where weights are not 0. */
WIDE static inline __attribute__((always_inline)) __m512 add_weighted(__m512 sums, const float *weights,
                                                                      __m512 values) {
    const __m512 w = _mm512_loadu_ps(weights);
    return _mm512_add_ps(
        sums, _mm512_maskz_mul_ps(_mm512_cmp_ps_mask(w, _mm512_setzero_ps(), _CMP_GT_OQ), w, values));
}

/* Of squares: neighbours in a row are read as one. */
WIDE static void blend_squares_wide(const deform_taps *taps, int64_t pixels, const float *plane,
                                    int64_t width, float *panels, int64_t step) {
    const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0),
                  odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    for (int64_t first = 0; first < pixels; first += RT_PANEL, panels += step) {
        for (int64_t j = first; j < first + RT_PANEL; j += 16) {
            const int32_t *at = taps->at[0] + j;
            const __m512 top = load_pairs(plane, at), top_8 = load_pairs(plane, at + 8),
                         low = load_pairs(plane + width, at), low_8 = load_pairs(plane + width, at + 8);
            __m512 sums = _mm512_setzero_ps();
            sums = add_weighted(sums, taps->weights[0] + j, _mm512_permutex2var_ps(top, even, top_8));
            sums = add_weighted(sums, taps->weights[1] + j, _mm512_permutex2var_ps(low, even, low_8));
            sums = add_weighted(sums, taps->weights[2] + j, _mm512_permutex2var_ps(top, odd, top_8));
            sums = add_weighted(sums, taps->weights[3] + j, _mm512_permutex2var_ps(low, odd, low_8));
            _mm512_storeu_ps(panels + (j - first), _mm512_mul_ps(sums, _mm512_loadu_ps(taps->mask + j)));
        }
    }
}
_Static_assert(RT_PANEL % 16 == 0, "panels are whole vectors");
#undef WIDE
#endif

/* A row of the panels of one channel. */
static void blend_channel(const deform_state *s, const deform_taps *taps, const float *plane, float *panels) {
    const int64_t step = s->depth * RT_PANEL;
    if (!s->squares) {
        blend(taps, 1u << s->rank, s->pixels, plane, panels, step);
        return;
    }
#if RT_X86_KERNELS
    if (__builtin_cpu_supports("avx512f")) {
        blend_squares_wide(taps, s->pixels, plane, s->image[1], panels, step);
        return;
    }
#endif
    blend_squares(taps, s->pixels, plane, s->image[1], panels, step);
}

/* The channels of a group at `count` pixels from `pixel` on, whose points are found once for each set of offsets. */
static void fill_floats(const deform_job *job, float *panels, int64_t b, int64_t group, int64_t pixel,
                        int64_t count) {
    const deform_state *s = job->state;
    const int64_t channels = s->channels / s->groups, in_set = s->channels / s->offset_groups;
    deform_starts starts;
    deform_taps taps;
    find_starts(s, pixel, count, &starts);
    for (int64_t first = 0, some; first < channels; first += some) {
        const int64_t channel = group * channels + first, set = channel / in_set,
                      left = (set + 1) * in_set - channel;
        some = left < channels - first ? left : channels - first;
        for (int64_t element = 0; element < s->window_size; element++) {
            find_taps(job, &starts, (b * s->offset_groups + set) * s->window_size + element, pixel, count,
                      element, &taps);
            for (int64_t c = 0; c < some; c++)
                blend_channel(s, &taps,
                              (const float *)job->inputs[X].data +
                                  (b * s->channels + channel + c) * s->image_size,
                              panels + ((first + c) * s->window_size + element) * RT_PANEL);
        }
    }
}

RT_CLONES static void add_bias(const float *sums, int64_t count, double bias, float *y) {
    for (int64_t j = 0; j < count; j++) y[j] = (float)((double)sums[j] + bias);
}

/* Every map of a group at `count` pixels from `pixel` on: the product, then the bias. */
static void multiply(const deform_job *job, float *scratch, int64_t b, int64_t group, int64_t pixel,
                     int64_t count) {
    const deform_state *s = job->state;
    const int64_t maps = s->maps / s->groups, channels = s->channels / s->groups;
    float *panels = scratch, *sums = scratch + s->depth * s->pixels;
    if (s->taps) fill_floats(job, panels, b, group, pixel, count);
    else memset(panels, 0, (size_t)(s->depth * s->pixels) * sizeof *panels);
    for (int64_t k = 0; !s->taps && k < s->depth; k++) {
        for (int64_t j = 0; j < count; j++)
            panels[(j / RT_PANEL * s->depth + k) * RT_PANEL + j % RT_PANEL] =
                (float)seen(job, b, group * channels + k / s->window_size, pixel + j, k % s->window_size);
    }
    rt_tiles_run(&(rt_tiles){.rows = maps,
                             .columns = count,
                             .depth = s->depth,
                             .a = job->weights + group * maps * s->depth,
                             .a_row = s->depth,
                             .a_depth = 1,
                             .panels = panels,
                             .c = sums,
                             .c_row = s->pixels,
                             .fused = s->fused});
    for (int64_t m = 0; m < maps; m++) {
        const int64_t map = group * maps + m, to = (b * s->maps + map) * s->result_size + pixel;
        const double bias = job->bias ? rt_element_load(s->dtype, job->bias, map) : 0;
        if (s->dtype == OP_FLOAT) {
            add_bias(sums + m * s->pixels, count, bias, (float *)job->y + to);
            continue;
        }
        for (int64_t j = 0; j < count; j++)
            rt_element_store(s->dtype, job->y, to + j, (double)sums[m * s->pixels + j] + bias);
    }
}

static void add_up(const deform_job *job, int64_t b, int64_t group, int64_t pixel, int64_t count) {
    const deform_state *s = job->state;
    const int64_t maps = s->maps / s->groups, channels = s->channels / s->groups;
    for (int64_t m = group * maps; m < (group + 1) * maps; m++) {
        for (int64_t j = pixel; j < pixel + count; j++) {
            double sum = job->bias ? rt_element_load(s->dtype, job->bias, m) : 0;
            for (int64_t k = 0; k < s->depth; k++)
                sum += rt_element_load(s->dtype, job->inputs[W].data, m * s->depth + k) *
                       seen(job, b, group * channels + k / s->window_size, j, k % s->window_size);
            rt_element_store(s->dtype, job->y, (b * s->maps + m) * s->result_size + j, sum);
        }
    }
}

static void member(void *context, int index, int members) {
    const deform_job *job = context;
    const deform_state *s = job->state;
    float *scratch = job->scratch + (size_t)index * job->each;
    for (int64_t task = index; task < s->batches * s->groups * s->parts; task += members) {
        const int64_t b = task / s->parts / s->groups, group = task / s->parts % s->groups,
                      pixel = task % s->parts * s->pixels;
        const int64_t left = s->result_size - pixel, count = left < s->pixels ? left : s->pixels;
        if (s->dtype == OP_DOUBLE) add_up(job, b, group, pixel, count);
        else multiply(job, scratch, b, group, pixel, count);
    }
}

/* Floats of one member's scratch: panels and sums; those of all weights in float stand before them. */
static size_t member_floats(const deform_state *s) {
    return (size_t)((s->depth + s->maps / s->groups) * s->pixels);
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)report;
    const deform_state *s = prepared->state;
    const uint32_t count = prepared->input_count;
    deform_job job = {.state = s, .inputs = inputs, .y = outputs[0].data, .each = member_floats(s)};
    if (count > BIAS && inputs[BIAS].type.dtype != OP_NONE) job.bias = inputs[BIAS].data;
    if (count > MASK && inputs[MASK].type.dtype != OP_NONE) job.mask = inputs[MASK].data;
    const size_t weights = (size_t)(s->maps * s->depth),
                 before = (weights + RT_PANEL - 1) / RT_PANEL * RT_PANEL;
    job.weights = s->dtype == OP_FLOAT ? inputs[W].data : scratch;
    job.scratch = (float *)scratch + (rt_is_half(s->dtype) ? before : 0);
    if (rt_is_half(s->dtype)) rt_half_load(s->dtype, job.weights, inputs[W].data, (int64_t)weights);
    rt_team_run(prepared->threads, member, &job);
    return BASE_OK;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    return rt_accepts_row_major(call) && call->inputs[X].type.shape.rank <= MOST_AXES + 2;
}

static void read_axes(const op_call *call, deform_state *s) {
    const op_attributes *attributes = &call->attributes;
    const int64_t *x = call->inputs[X].type.shape.dims, *w = call->inputs[W].type.shape.dims,
                  *y = call->outputs[0].type.shape.dims;
    s->image_size = s->result_size = s->window_size = 1;
    for (int32_t i = 0; i < s->rank; i++) {
        const size_t k = (size_t)i;
        s->image_size *= s->image[i] = x[2 + i];
        s->result_size *= s->result[i] = y[2 + i];
        s->window_size *= s->window[i] = w[2 + i];
        s->strides[i] =
            op_attribute_find(attributes, "strides") ? op_attribute_entry(attributes, "strides", k) : 1;
        s->dilations[i] =
            op_attribute_find(attributes, "dilations") ? op_attribute_entry(attributes, "dilations", k) : 1;
        s->pads[i] = op_attribute_entry(attributes, "pads", k);
    }
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    deform_state *s = BASE_NEW(arena, deform_state);
    if (!s) return base_fail_memory(report);
    const op_shape *x = &call->inputs[X].type.shape;
    s->dtype = call->inputs[X].type.dtype;
    s->rank = x->rank - 2;
    s->batches = x->dims[0];
    s->channels = x->dims[1];
    s->maps = call->inputs[W].type.shape.dims[0];
    s->groups = op_attribute_integer(&call->attributes, "group", 1);
    s->offset_groups = op_attribute_integer(&call->attributes, "offset_group", 1);
    s->fused = !environment->portable_only;
    read_axes(call, s);
    s->depth = s->channels / s->groups * s->window_size;
    /* Small images are cut so that each thread has a part. */
    s->pixels = PIXELS;
    while (s->pixels > RT_PANEL &&
           s->batches * s->groups * ((s->result_size + s->pixels - 1) / s->pixels) < environment->threads)
        s->pixels /= 2;
    s->parts = (s->result_size + s->pixels - 1) / s->pixels;
    s->taps = s->dtype == OP_FLOAT && s->image_size > 0 && s->image_size <= INT32_MAX;
    s->squares = s->taps && s->rank == 2 && s->image[0] > 1 && s->image[1] > 1;
    prepared->state = s;
    prepared->run = run;
    size_t bytes, weights = 0;
    if (s->depth > INT32_MAX || s->maps > INT32_MAX)
        return base_fail(report, BASE_INVALID, "windows of this size are not supported");
    if (rt_is_half(s->dtype) &&
        !base_size_multiply((size_t)s->maps + RT_PANEL, (size_t)s->depth * sizeof(float), &weights))
        return base_fail(report, BASE_INVALID, "weights of this size are not supported");
    if (!base_size_multiply(member_floats(s) * sizeof(float), (size_t)environment->threads, &bytes) ||
        !base_size_add(bytes, weights + RT_ALIGNMENT, &prepared->scratch_bytes))
        return base_fail(report, BASE_INVALID, "windows of this size are not supported");
    return BASE_OK;
}

const rt_kernel rt_kernel_deform_conv = {
    .name = "portable.deform_conv", .accepts = accepts, .prepare = prepare};
