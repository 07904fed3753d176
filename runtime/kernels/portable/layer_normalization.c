/* SPDX-License-Identifier: Apache-2.0 */
/* layer_normalization.c: LayerNormalization of float and of 16 bits: rows less their mean, divided by the root of the mean of their squares, times a scale,
 * plus a bias.
 *
 * Every number is rounded as by the operators that it is made of, ReduceMean's sums included (reduce.c): whether they are one node
 * makes no difference to any bit. A row is read three times, and that from the first-level cache but for the first.
 *
 * With ouro.channels there is one scale, and one bias, for each row, as InstanceNormalization has them: those of as many rows as there are of them,
 * over and over.
 *
 * Rows of 16 bits become floats, long ones a part after the other, and are rounded once.
 */
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/lanes.h"
#include <math.h>

/* The order of ReduceMean's sums: lanes, and how many elements each takes up before all are added to the total. The elements that are left
 * when whole lines of lanes are taken belong to the last lanes; where there was no whole line, to the first. */
enum {
    LANES = 16,
    STRETCH = 32 * LANES,
    HALF_ROW = 8 * STRETCH /* elements of 16 bits that become floats at once */
};

typedef struct layer_state {
    op_dtype dtype;
    int64_t rows, extent;
    int64_t channels; /* 0: scale and bias are rows */
    float epsilon;
    bool divide;
} layer_state;

/* Scale, bias: NULL where there is none. */
typedef struct layer_job {
    const layer_state *state;
    const float *x, *scale, *bias;
    float *y;
} layer_job;

typedef struct layer_halves {
    const layer_state *state;
    const uint16_t *x, *scale, *bias;
    uint16_t *y;
} layer_halves;

static inline __attribute__((always_inline)) double join_lanes(const float *lanes) {
    double halves[LANES];
    for (int k = 0; k < LANES; k++) halves[k] = (double)lanes[k];
    RT_VECTOR for (int k = 0; k < LANES / 2; k++) halves[k] += halves[k + LANES / 2];
    RT_VECTOR for (int k = 0; k < LANES / 4; k++) halves[k] += halves[k + LANES / 4];
    return halves[0] + halves[1] + halves[2] + halves[3];
}

/* Adds up so many stretches at once, and then one after the other: in one alone, each addition waits for the one before. */
enum { SEVERAL = 4 };

static inline float square(float difference) {
    return difference * difference;
}

/* What is added up: an element, or the square of its difference from the mean. */
static inline __attribute__((always_inline)) float term_of(float x, bool squares, float mean) {
    return squares ? square(x - mean) : x;
}

static inline __attribute__((always_inline)) double add_several(double total, const float *x, bool squares,
                                                                float mean) {
    float a[LANES] = {0}, b[LANES] = {0}, c[LANES] = {0}, d[LANES] = {0};
    for (int i = 0; i < STRETCH; i += LANES) {
        const float *line = x + i;
        RT_VECTOR for (int k = 0; k < LANES; k++) {
            a[k] += term_of(line[k], squares, mean);
            b[k] += term_of(line[STRETCH + k], squares, mean);
            c[k] += term_of(line[2 * STRETCH + k], squares, mean);
            d[k] += term_of(line[3 * STRETCH + k], squares, mean);
        }
    }
    return total + join_lanes(a) + join_lanes(b) + join_lanes(c) + join_lanes(d);
}

/* `total` and the sum of all terms. */
static inline __attribute__((always_inline)) double add_terms(double total, const float *x, int64_t count,
                                                              bool squares, float mean) {
    int64_t first = 0;
    for (; first + SEVERAL * STRETCH <= count; first += SEVERAL * STRETCH)
        total = add_several(total, x + first, squares, mean);
    for (; first < count; first += STRETCH) {
        const int64_t length = count - first < STRETCH ? count - first : STRETCH;
        const float *run = x + first;
        float lanes[LANES] = {0};
        int64_t i = 0;
        for (; i + LANES <= length; i += LANES) {
            RT_VECTOR for (int k = 0; k < LANES; k++) lanes[k] += term_of(run[i + k], squares, mean);
        }
        float *rest = lanes + (i > 0 ? LANES - (length - i) : 0);
        for (int k = 0; i + k < length; k++) rest[k] += term_of(run[i + k], squares, mean);
        total += join_lanes(lanes);
    }
    return total;
}

static inline __attribute__((always_inline)) double add_up(double total, const float *x, int64_t count) {
    return add_terms(total, x, count, false, 0);
}

static inline __attribute__((always_inline)) double add_up_squares(double total, const float *x,
                                                                   int64_t count, float mean) {
    return add_terms(total, x, count, true, mean);
}

/* The squares of a row of few stretches; leaves the differences in y, which may be x. */
static inline __attribute__((always_inline)) double centre(float *y, const float *x, int64_t count,
                                                           float mean) {
    double total = 0;
    for (int64_t first = 0; first < count; first += STRETCH) {
        const int64_t length = count - first < STRETCH ? count - first : STRETCH;
        const float *run = x + first;
        float *to = y + first, lanes[LANES] = {0};
        int64_t i = 0;
        for (; i + LANES <= length; i += LANES) {
            RT_VECTOR for (int k = 0; k < LANES; k++) {
                to[i + k] = run[i + k] - mean;
                lanes[k] += square(to[i + k]);
            }
        }
        float *rest = lanes + (i > 0 ? LANES - (length - i) : 0);
        for (int k = 0; i + k < length; k++) {
            to[i + k] = run[i + k] - mean;
            rest[k] += square(to[i + k]);
        }
        total += join_lanes(lanes);
    }
    return total;
}

static inline float mean_of(double total, int64_t count) {
    return (float)(total / (double)count);
}

/* y may be x; one loop for each form, for none of them looks at more than it has to. */
static inline __attribute__((always_inline)) void finish(float *y, const float *x, int64_t count, float mean,
                                                         float root, bool divide, const float *scale,
                                                         const float *bias) {
    const float factor = 1 / root;
    if (divide) {
        RT_VECTOR for (int64_t i = 0; i < count; i++) y[i] = (x[i] - mean) / root;
        if (scale) {
            RT_VECTOR for (int64_t i = 0; i < count; i++) y[i] *= scale[i];
        }
        if (bias) {
            RT_VECTOR for (int64_t i = 0; i < count; i++) y[i] += bias[i];
        }
    } else if (scale && bias) {
        RT_VECTOR for (int64_t i = 0; i < count; i++) y[i] = (x[i] - mean) * factor * scale[i] + bias[i];
    } else if (scale) {
        RT_VECTOR for (int64_t i = 0; i < count; i++) y[i] = (x[i] - mean) * factor * scale[i];
    } else if (bias) {
        RT_VECTOR for (int64_t i = 0; i < count; i++) y[i] = (x[i] - mean) * factor + bias[i];
    } else {
        RT_VECTOR for (int64_t i = 0; i < count; i++) y[i] = (x[i] - mean) * factor;
    }
}

/* With one scale and one bias. */
static inline __attribute__((always_inline)) void finish_channel(float *y, const float *x, int64_t count,
                                                                 float mean, float root, bool divide,
                                                                 float scale, float bias) {
    const float factor = 1 / root;
    if (divide) {
        RT_VECTOR for (int64_t i = 0; i < count; i++) y[i] = (x[i] - mean) / root * scale + bias;
    } else {
        RT_VECTOR for (int64_t i = 0; i < count; i++) y[i] = (x[i] - mean) * factor * scale + bias;
    }
}

RT_CLONES static void normalize(const layer_job *job, int64_t begin, int64_t end) {
    const layer_state *s = job->state;
    for (int64_t row = begin; row < end; row++) {
        const float *x = job->x + row * s->extent;
        float *y = job->y + row * s->extent;
        const bool few = !s->channels && s->extent < SEVERAL * STRETCH;
        const float mean = mean_of(add_up(0, x, s->extent), s->extent);
        const double squares = few ? centre(y, x, s->extent, mean) : add_up_squares(0, x, s->extent, mean);
        const float root = sqrtf(mean_of(squares, s->extent) + s->epsilon);
        if (few) {
            finish(y, y, s->extent, 0, root, s->divide, job->scale, job->bias);
            continue;
        }
        if (s->channels)
            finish_channel(y, x, s->extent, mean, root, s->divide, job->scale[row % s->channels],
                           job->bias[row % s->channels]);
        else finish(y, x, s->extent, mean, root, s->divide, job->scale, job->bias);
    }
}

#if RT_X86_KERNELS
#define WIDE __attribute__((target("avx512f,avx512dq"))) static inline __attribute__((always_inline))
#define HAS_WIDE (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
enum { TOGETHER = 8, FOUR = 4 };

/* Eight rows of one stretch at most, with the bits of normalize: what a row waits for, the sum of its lanes, is filled with work on the others. */
typedef struct wide_rows {
    int64_t whole;       /* elements in whole lines of lanes */
    __mmask16 there, to; /* the elements after those, and the lanes that they are added to */
    double count;
} wide_rows;

/* The elements that are left, in the lanes that they are added to; other lanes are zero. */
WIDE __m512 rest_in_lanes(const wide_rows *w, const float *x) {
    return _mm512_maskz_expand_ps(w->to, _mm512_maskz_loadu_ps(w->there, x + w->whole));
}

WIDE __m256d join_wide(__m512 lanes) {
    const __m512d eight = _mm512_add_pd(_mm512_cvtps_pd(_mm512_castps512_ps256(lanes)),
                                        _mm512_cvtps_pd(_mm512_extractf32x8_ps(lanes, 1)));
    return _mm256_add_pd(_mm512_castpd512_pd256(eight), _mm512_extractf64x4_pd(eight, 1));
}

/* The means of four rows from the quarters of their lanes' sums. */
WIDE __m128 means_wide(const wide_rows *w, const __m256d quarters[FOUR]) {
    const __m256d a = _mm256_unpacklo_pd(quarters[0], quarters[1]),
                  b = _mm256_unpackhi_pd(quarters[0], quarters[1]),
                  c = _mm256_unpacklo_pd(quarters[2], quarters[3]),
                  d = _mm256_unpackhi_pd(quarters[2], quarters[3]);
    __m256d total = _mm256_add_pd(_mm256_permute2f128_pd(a, c, 0x20), _mm256_permute2f128_pd(b, d, 0x20));
    total = _mm256_add_pd(total, _mm256_permute2f128_pd(a, c, 0x31));
    total = _mm256_add_pd(total, _mm256_permute2f128_pd(b, d, 0x31));
    total = _mm256_add_pd(total, _mm256_setzero_pd()); /* of both zeros the positive one */
    return _mm256_cvtpd_ps(_mm256_div_pd(total, _mm256_set1_pd(w->count)));
}

/* Of a row; scale and bias where there is one of each for all of it. */
typedef struct wide_finish {
    __m512 root, factor, scale, bias;
} wide_finish;

WIDE void finish_wide(const layer_job *job, float *y, __mmask16 there, int64_t i, const wide_finish *with) {
    __m512 value = _mm512_maskz_loadu_ps(there, y + i);
    value = job->state->divide ? _mm512_div_ps(value, with->root) : _mm512_mul_ps(value, with->factor);
    if (job->state->channels) {
        value = _mm512_add_ps(_mm512_mul_ps(value, with->scale), with->bias);
    } else {
        if (job->scale) value = _mm512_mul_ps(value, _mm512_maskz_loadu_ps(there, job->scale + i));
        if (job->bias) value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(there, job->bias + i));
    }
    _mm512_mask_storeu_ps(y + i, there, value);
}

__attribute__((target("avx512f,avx512dq"))) static void normalize_wide(const layer_job *job, int64_t row) {
    const layer_state *s = job->state;
    const int64_t extent = s->extent, rest = extent % LANES;
    const float *x = job->x + row * extent;
    float *y = job->y + row * extent;
    const wide_rows w = {.whole = extent - rest,
                         .there = rt_first_lanes_16(rest),
                         .to = (__mmask16)(rt_first_lanes_16(rest) << (extent >= LANES ? LANES - rest : 0)),
                         .count = (double)extent};
    __m256d quarters[TOGETHER];
    _Alignas(16) float means[TOGETHER], roots[TOGETHER], factors[TOGETHER];
    for (int r = 0; r < TOGETHER; r++) {
        const float *own = x + r * extent;
        __m512 lanes = _mm512_setzero_ps();
        for (int64_t i = 0; i < w.whole; i += LANES) lanes = _mm512_add_ps(lanes, _mm512_loadu_ps(own + i));
        quarters[r] = join_wide(_mm512_mask_add_ps(lanes, w.to, lanes, rest_in_lanes(&w, own)));
    }
    for (int r = 0; r < TOGETHER; r += FOUR) _mm_store_ps(means + r, means_wide(&w, quarters + r));
    for (int r = 0; r < TOGETHER; r++) {
        const float *own = x + r * extent;
        float *to = y + r * extent;
        const __m512 mean = _mm512_set1_ps(means[r]);
        __m512 lanes = _mm512_setzero_ps();
        for (int64_t i = 0; i < w.whole; i += LANES) {
            const __m512 difference = _mm512_sub_ps(_mm512_loadu_ps(own + i), mean);
            _mm512_storeu_ps(to + i, difference);
            lanes = _mm512_add_ps(lanes, _mm512_mul_ps(difference, difference));
        }
        const __m512 difference = _mm512_sub_ps(rest_in_lanes(&w, own), mean);
        _mm512_mask_storeu_ps(to + w.whole, w.there, _mm512_maskz_compress_ps(w.to, difference));
        quarters[r] =
            join_wide(_mm512_mask_add_ps(lanes, w.to, lanes, _mm512_mul_ps(difference, difference)));
    }
    for (int r = 0; r < TOGETHER; r += FOUR) {
        const __m128 root = _mm_sqrt_ps(_mm_add_ps(means_wide(&w, quarters + r), _mm_set1_ps(s->epsilon)));
        _mm_store_ps(roots + r, root);
        _mm_store_ps(factors + r, _mm_div_ps(_mm_set1_ps(1.0f), root));
    }
    for (int r = 0; r < TOGETHER; r++) {
        float *own = y + r * extent;
        const int64_t channel = s->channels ? (row + r) % s->channels : 0;
        const wide_finish with = {.root = _mm512_set1_ps(roots[r]),
                                  .factor = _mm512_set1_ps(factors[r]),
                                  .scale = _mm512_set1_ps(s->channels ? job->scale[channel] : 1),
                                  .bias = _mm512_set1_ps(s->channels ? job->bias[channel] : 0)};
        for (int64_t i = 0; i < w.whole; i += LANES) finish_wide(job, own, 0xffff, i, &with);
        if (rest) finish_wide(job, own, w.there, w.whole, &with);
    }
}
#else
#define HAS_WIDE false
enum { TOGETHER = 1 };
#define normalize_wide(job, row) (void)0
#endif

/* Parts of a row, whole stretches but for the last one. */
RT_CLONES static double add_up_part(double total, const float *x, int64_t count) {
    return add_up(total, x, count);
}

RT_CLONES static double add_up_squares_part(double total, const float *x, int64_t count, float mean) {
    return add_up_squares(total, x, count, mean);
}

RT_CLONES static void finish_part(float *y, int64_t count, float mean, float root, bool divide,
                                  const float *scale, const float *bias) {
    finish(y, y, count, mean, root, divide, scale, bias);
}

static void rows(void *context, int64_t begin, int64_t end) {
    const layer_job *job = context;
    for (; HAS_WIDE && job->state->extent <= STRETCH && begin + TOGETHER <= end; begin += TOGETHER)
        normalize_wide(job, begin);
    normalize(job, begin, end);
}

/* `count` elements from element `at` on; NULL: there are none. */
static const float *widen(const layer_state *s, const uint16_t *from, int64_t at, int64_t count, float *to) {
    if (from) rt_half_load(s->dtype, to, from + at, count);
    return from ? to : NULL;
}

/* A row that is too long to become floats as a whole, which it does three times, a part after the other. */
static void long_row_of_halves(const layer_halves *job, const uint16_t *x, uint16_t *y, float *part,
                               float *scale, float *bias) {
    const layer_state *s = job->state;
    double total = 0, squares = 0;
    float mean = 0, root = 0;
    for (int pass = 0; pass < 3; pass++) {
        for (int64_t at = 0; at < s->extent; at += HALF_ROW) {
            const int64_t count = s->extent - at < HALF_ROW ? s->extent - at : HALF_ROW;
            (void)widen(s, x, at, count, part);
            if (pass == 0) total = add_up_part(total, part, count);
            if (pass == 1) squares = add_up_squares_part(squares, part, count, mean);
            if (pass < 2) continue;
            finish_part(part, count, mean, root, s->divide, widen(s, job->scale, at, count, scale),
                        widen(s, job->bias, at, count, bias));
            rt_half_store(s->dtype, y + at, part, count);
        }
        mean = mean_of(total, s->extent);
        if (pass == 1) root = sqrtf(mean_of(squares, s->extent) + s->epsilon);
    }
}

static void rows_of_halves(void *context, int64_t begin, int64_t end) {
    const layer_halves *job = context;
    const layer_state *s = job->state;
    _Alignas(RT_ALIGNMENT) float row[HALF_ROW], scale[HALF_ROW], bias[HALF_ROW];
    const bool whole = s->extent <= HALF_ROW;
    const layer_job floats = {.state = s,
                              .x = row,
                              .y = row,
                              .scale = whole ? widen(s, job->scale, 0, s->extent, scale) : NULL,
                              .bias = whole ? widen(s, job->bias, 0, s->extent, bias) : NULL};
    for (int64_t i = begin; i < end; i++) {
        if (!whole) {
            long_row_of_halves(job, job->x + i * s->extent, job->y + i * s->extent, row, scale, bias);
            continue;
        }
        (void)widen(s, job->x, i * s->extent, s->extent, row);
        normalize(&floats, 0, 1);
        rt_half_store(s->dtype, job->y + i * s->extent, row, s->extent);
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const layer_state *s = prepared->state;
    const void *scale = NULL, *bias = NULL;
    if (prepared->input_count > 1 && inputs[1].type.dtype != OP_NONE) scale = inputs[1].data;
    if (prepared->input_count > 2 && inputs[2].type.dtype != OP_NONE) bias = inputs[2].data;
    layer_job job = {.state = s, .x = inputs[0].data, .scale = scale, .bias = bias, .y = outputs[0].data};
    layer_halves halves = {
        .state = s, .x = inputs[0].data, .scale = scale, .bias = bias, .y = outputs[0].data};
    const bool floats = s->dtype == OP_FLOAT;
    if (s->extent > 0)
        rt_parallel(prepared->threads, s->rows, 6 * s->extent, floats ? rows : rows_of_halves,
                    floats ? (void *)&job : &halves);
    return BASE_OK;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    if (!rt_accepts_row_major(call)) return false;
    const op_dtype dtype = call->inputs[0].type.dtype;
    const bool channels = op_attribute_integer(&call->attributes, "ouro.channels", 0) != 0;
    return dtype == OP_FLOAT || (rt_is_half(dtype) && !channels);
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    layer_state *s = BASE_NEW(arena, layer_state);
    if (!s) return base_fail_memory(report);
    const op_shape *shape = &call->inputs[0].type.shape;
    int32_t axis = 0;
    op_axis(op_attribute_integer(&call->attributes, "axis", -1), shape->rank, &axis);
    *s = (layer_state){.dtype = call->inputs[0].type.dtype,
                       .rows = 1,
                       .extent = 1,
                       .epsilon = op_attribute_real(&call->attributes, "epsilon", 1e-5f),
                       .divide = op_attribute_integer(&call->attributes, "ouro.divide", 0) != 0};
    if (op_attribute_integer(&call->attributes, "ouro.channels", 0)) s->channels = shape->dims[axis - 1];
    for (int32_t i = 0; i < shape->rank; i++) *(i < axis ? &s->rows : &s->extent) *= shape->dims[i];
    prepared->state = s;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_layer_normalization = {
    .name = "portable.layer_normalization", .accepts = accepts, .prepare = prepare};
