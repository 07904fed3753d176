/* SPDX-License-Identifier: Apache-2.0 */
/* reduce_channels.c: see reduce_channels.h. A pixel becomes a vector of 16 numbers; those of 16 pixels are turned, so that the last steps are taken
 * for all of these pixels at once.
 */
#include "runtime/kernels/portable/reduce_channels.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/lanes.h"
#include <math.h>
#include <string.h>

enum { LANES = 16, PIXELS = 16, MOST_SUMMED = 512 };

/* Whether the axes that are named are the channels, and no others. */
static bool names_channels(const op_call *call) {
    const int32_t rank = call->inputs[0].type.shape.rank;
    int64_t count = 0;
    if (!op_input_present(call, 1) || !call->inputs[1].data ||
        !op_shape_elements(&call->inputs[1].type.shape, &count))
        return false;
    for (int64_t i = 0; i < count; i++) {
        int64_t value;
        int32_t axis;
        memcpy(&value, (const char *)call->inputs[1].data + i * (int64_t)sizeof value, sizeof value);
        if (!op_axis(value, rank, &axis) || axis != 1) return false;
    }
    return count > 0;
}

bool rt_channel_reduction_read(const op_call *call, const rt_environment *environment,
                               rt_channel_reduction *reduction) {
    const op_type *x = &call->inputs[0].type, *y = &call->outputs[0].type;
    const bool sum = call->code == OP_REDUCE_SUM || call->code == OP_REDUCE_MEAN;
    if (!rt_has_wide_vectors(environment) ||
        (!sum && call->code != OP_REDUCE_MAX && call->code != OP_REDUCE_MIN))
        return false;
    if (x->kind != OP_KIND_TENSOR || x->dtype != OP_FLOAT || x->shape.rank < 3 || !op_shape_known(&x->shape))
        return false;
    if ((x->layout != OP_LAYOUT_NC16 && x->layout != OP_LAYOUT_NHWC) || y->layout != OP_LAYOUT_ROW_MAJOR)
        return false;
    const int64_t channels = x->shape.dims[1];
    if (channels < 1 || (sum && channels > MOST_SUMMED) || !names_channels(call)) return false;
    int64_t points = 1;
    for (int32_t i = 2; i < x->shape.rank; i++) points *= x->shape.dims[i];
    if (x->layout == OP_LAYOUT_NHWC)
        *reduction = (rt_channel_reduction){
            .images = 1, .points = x->shape.dims[0] * points, .block = LANES, .pixel = channels};
    else
        *reduction = (rt_channel_reduction){.images = x->shape.dims[0],
                                            .points = points,
                                            .block = points * LANES,
                                            .pixel = LANES,
                                            .image = (channels + LANES - 1) / LANES * LANES * points};
    reduction->code = call->code;
    reduction->channels = channels;
    return true;
}

#if RT_X86_KERNELS
#define WIDE __attribute__((target("avx512f")))
#define INLINE WIDE static inline __attribute__((always_inline))
RT_OF_16(least_of_16, _mm512_min_ps)

typedef enum operation { SUM, MAXIMUM, MINIMUM } operation;

/* Where one of both is a NaN, an extreme one is the second. */
INLINE __m512 combine(operation what, __m512 x, __m512 so_far) {
    return what == SUM       ? _mm512_add_ps(so_far, x)
           : what == MAXIMUM ? _mm512_max_ps(x, so_far)
                             : _mm512_min_ps(x, so_far);
}

/* The last NaN of each of some pixels that have one. */
static void keep_nones(const rt_channel_reduction *r, const float *from, float *to, int64_t count) {
    for (int64_t p = 0; p < count; p++) {
        for (int64_t c = 0; c < r->channels; c++) {
            const float x = from[p * r->pixel + c / LANES * r->block + c % LANES];
            if (x != x) to[p] = x;
        }
    }
}

/* Two pixels at a time: both are looked at for NaNs at once. Whether there was one. */
INLINE bool gather(const rt_channel_reduction *r, operation what, const float *from, int count,
                   float vectors[PIXELS][LANES]) {
    const int64_t whole = (r->channels - 1) / LANES;
    const __mmask16 rest = rt_first_lanes_16(r->channels - whole * LANES);
    const __m512 none = _mm512_set1_ps(what == SUM ? 0 : what == MAXIMUM ? -INFINITY : INFINITY);
    unsigned seen = 0;
    for (int p = 0; p < count; p += 2) {
        const float *first = from + p * r->pixel, *second = p + 1 < count ? first + r->pixel : first;
        __m512 a = none, b = none, x, y;
        for (int64_t i = 0; i < whole; i++, first += r->block, second += r->block) {
            x = _mm512_loadu_ps(first), y = _mm512_loadu_ps(second);
            if (what != SUM) seen |= _mm512_cmp_ps_mask(x, y, _CMP_UNORD_Q);
            a = combine(what, x, a), b = combine(what, y, b);
        }
        x = _mm512_mask_loadu_ps(none, rest, first), y = _mm512_mask_loadu_ps(none, rest, second);
        if (what != SUM) seen |= _mm512_cmp_ps_mask(x, y, _CMP_UNORD_Q);
        _mm512_store_ps(vectors[p], whole ? combine(what, x, a) : x); /* zeros keep their signs */
        _mm512_store_ps(vectors[p + 1], whole ? combine(what, y, b) : y);
    }
    return seen != 0;
}

/* The same of up to sixteen channels, without loops: else these take longer than all that is done with the vectors. */
INLINE bool gather_few(const rt_channel_reduction *r, operation what, const float *from, int count,
                       float vectors[PIXELS][LANES]) {
    const __mmask16 some = rt_first_lanes_16(r->channels);
    const __m512 none = _mm512_set1_ps(what == SUM ? 0 : what == MAXIMUM ? -INFINITY : INFINITY);
    const int64_t pixel = r->pixel;
    unsigned seen = 0;
    if (count < PIXELS) return gather(r, what, from, count, vectors); /* the last pixels */
    _Pragma("GCC unroll 8") for (int p = 0; p < PIXELS; p += 2, from += 2 * pixel) {
        const __m512 x = _mm512_mask_loadu_ps(none, some, from),
                     y = _mm512_mask_loadu_ps(none, some, from + pixel);
        if (what != SUM) seen |= _mm512_cmp_ps_mask(x, y, _CMP_UNORD_Q);
        _mm512_store_ps(vectors[p], x);
        _mm512_store_ps(vectors[p + 1], y);
    }
    return seen != 0;
}

INLINE void reduce(const rt_channel_reduction *r, operation what, const float *from, float *to,
                   int64_t count) {
    const __m512 divisor = _mm512_set1_ps(r->code == OP_REDUCE_MEAN ? (float)r->channels : 1);
    _Alignas(RT_ALIGNMENT) float vectors[PIXELS][LANES] = {{0}};
    for (int64_t p = 0; p < count; p += PIXELS, from += PIXELS * r->pixel) {
        const int some = count - p < PIXELS ? (int)(count - p) : PIXELS;
        const bool nones = r->channels <= LANES ? gather_few(r, what, from, some, vectors)
                                                : gather(r, what, from, some, vectors);
        __m512 y = what == SUM       ? rt_sums_of_16(vectors)
                   : what == MAXIMUM ? rt_largest_of_16(vectors)
                                     : least_of_16(vectors);
        if (r->code == OP_REDUCE_MEAN) y = _mm512_div_ps(y, divisor);
        _mm512_mask_storeu_ps(to + p, rt_first_lanes_16(some), y);
        if (nones) keep_nones(r, from, to + p, some);
    }
}

WIDE static void reduce_sums(const rt_channel_reduction *r, const float *from, float *to, int64_t count) {
    reduce(r, SUM, from, to, count);
}

WIDE static void reduce_maxima(const rt_channel_reduction *r, const float *from, float *to, int64_t count) {
    reduce(r, MAXIMUM, from, to, count);
}

WIDE static void reduce_minima(const rt_channel_reduction *r, const float *from, float *to, int64_t count) {
    reduce(r, MINIMUM, from, to, count);
}

typedef struct channels_job {
    const rt_channel_reduction *reduction;
    const float *from;
    float *to;
} channels_job;

/* Pixels of all images, which follow one another. */
static void reduce_pixels(void *context, int64_t begin, int64_t end) {
    const channels_job *job = context;
    const rt_channel_reduction *r = job->reduction;
    while (begin < end) {
        const int64_t image = begin / r->points, point = begin - image * r->points, rest = r->points - point,
                      count = end - begin < rest ? end - begin : rest;
        const float *from = job->from + image * r->image + point * r->pixel;
        if (r->code == OP_REDUCE_MAX) reduce_maxima(r, from, job->to + begin, count);
        else if (r->code == OP_REDUCE_MIN) reduce_minima(r, from, job->to + begin, count);
        else reduce_sums(r, from, job->to + begin, count);
        begin += count;
    }
}

void rt_channel_reduction_run(const rt_channel_reduction *reduction, int threads, float *to,
                              const float *from) {
    channels_job job = {reduction, from, to};
    rt_parallel(threads, reduction->images * reduction->points, reduction->channels, reduce_pixels, &job);
}
#else
void rt_channel_reduction_run(const rt_channel_reduction *reduction, int threads, float *to,
                              const float *from) {
    (void)reduction, (void)threads, (void)to, (void)from;
}
#endif
