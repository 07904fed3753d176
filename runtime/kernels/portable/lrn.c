/* SPDX-License-Identifier: Apache-2.0 */
/* lrn.c: LRN (local response normalisation across channels) in portable C:
 * y = x / (bias + alpha / size * s) ^ beta, s the sum of the squares of the `size` channels around.
 *
 * A run is some elements that lie together: pixels of a channel, of a block of channels, or all channels of some pixels. Its sums are made
 * in order of the channels, so that they have the same bits in every layout, and no run is longer than the first cache holds with its
 * neighbours; the runs of the same pixels follow one another. Row-major images take any machine, others one with AVX-512, where a power of
 * 3/4 is made from approximate roots, within three units in the last place: two roots and a quotient would take twice as long as all else.
 */
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/lanes.h"
#include "runtime/kernels/portable/pow.h"
#include "runtime/kernels/portable/product.h"
#include "runtime/kernels/portable/vector_math_512.h"
#include <math.h>

enum { RUN = 512, LANES = 16, TOGETHER = 4 };

typedef struct response {
    op_dtype dtype;
    op_layout layout;
    bool wide;                        /* the machine has AVX-512 and may be used as it likes */
    int64_t images, channels, pixels; /* innermost channels: as if all pixels were one image's */
    int64_t before, after;            /* channels of the neighbourhood on either side, up to all */
    int64_t tile, tiles;              /* pixels of a run; tiles of an image */
    int64_t parts;                    /* runs of a tile, one after another along the channels */
    double alpha, beta, bias;         /* alpha is divided by the size already */
} response;

typedef struct response_job {
    const response *shape;
    const void *x;
    void *y;
} response_job;

/* Where a run lies. */
typedef struct response_run {
    int64_t at;     /* its first element */
    int64_t count;  /* of elements */
    int64_t pixels; /* of these */
    int64_t part;
} response_run;

static bool accepts(const op_call *call, const rt_environment *environment) {
    const op_type *x = &call->inputs[0].type;
    if (x->layout != OP_LAYOUT_ROW_MAJOR)
        return x->dtype == OP_FLOAT && x->layout != OP_LAYOUT_NC8 && rt_has_wide_vectors(environment) &&
               rt_accepts_layouts(call, 1, true);
    return rt_accepts_row_major(call) &&
           (x->dtype == OP_FLOAT || x->dtype == OP_DOUBLE || rt_is_half(x->dtype));
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* ---- sums of squares ----------------------------------------------------------------------------------- */

/* The channels around channel c. */
static rt_part around(const response *shape, int64_t c) {
    const int64_t reach = c + shape->after + 1;
    return (rt_part){c < shape->before ? 0 : c - shape->before, smaller(reach, shape->channels)};
}

RT_CLONES static void add_squares(float *restrict sums, const float *restrict x, int64_t count) {
    for (int64_t i = 0; i < count; i++) sums[i] += x[i] * x[i];
}

static void sum_rows(const response *shape, const float *x, const response_run *run, float *sums) {
    const rt_part channels = around(shape, run->part);
    for (int64_t i = 0; i < run->count; i++) sums[i] = 0;
    for (int64_t c = channels.low; c < channels.high; c++)
        add_squares(sums, x + run->at + (c - run->part) * shape->pixels, run->count);
}

#ifdef RT_HAS_MATH_512
#define WIDE __attribute__((target("avx512f")))
#define INLINE WIDE static inline __attribute__((always_inline))

/* The same of rows; a sum stays in a register until it is done. */
INLINE void sum_row_vectors(const float *from, int64_t apart, int64_t rows, int together, __mmask16 some,
                            float *sums) {
    __m512 sum[TOGETHER];
    _Pragma("GCC unroll 4") for (int t = 0; t < together; t++) sum[t] = _mm512_setzero_ps();
    for (int64_t r = 0; r < rows; r++, from += apart) {
        _Pragma("GCC unroll 4") for (int t = 0; t < together; t++) {
            const __m512 value = _mm512_maskz_loadu_ps(some, from + t * LANES);
            sum[t] = _mm512_add_ps(sum[t], _mm512_mul_ps(value, value));
        }
    }
    _Pragma("GCC unroll 4") for (int t = 0; t < together; t++) _mm512_storeu_ps(sums + t * LANES, sum[t]);
}

WIDE static void sum_rows_wide(const response *shape, const float *x, const response_run *run, float *sums) {
    const rt_part channels = around(shape, run->part);
    const int64_t apart = shape->pixels, rows = channels.high - channels.low;
    const float *from = x + run->at + (channels.low - run->part) * apart;
    int64_t i = 0;
    for (; i + TOGETHER * LANES <= run->count; i += TOGETHER * LANES)
        sum_row_vectors(from + i, apart, rows, TOGETHER, 0xffff, sums + i);
    for (; i < run->count; i += LANES)
        sum_row_vectors(from + i, apart, rows, 1, rt_first_lanes_16(run->count - i), sums + i);
}

/* Sixteen channels of some pixels, whose channels are innermost: from channel c on, of which `own` are the run's. */
INLINE void sum_pixels(const response *shape, const float *from, int64_t c, int together, __mmask16 own,
                       float *sums, int64_t step) {
    __m512 sum[TOGETHER];
    _Pragma("GCC unroll 4") for (int t = 0; t < together; t++) sum[t] = _mm512_setzero_ps();
    for (int64_t d = -shape->before; d <= shape->after; d++) {
        /* Lanes whose neighbour is a channel of the same pixel. */
        const int64_t missing = smaller(-(c + d), LANES);
        const __mmask16 some = (__mmask16)(own & rt_first_lanes_16(shape->channels - c - d) &
                                           ~(unsigned)rt_first_lanes_16(missing));
        const float *at = rt_address(from, d);
        _Pragma("GCC unroll 4") for (int t = 0; t < together; t++) {
            const __m512 value = _mm512_maskz_loadu_ps(some, rt_address(at, t * shape->channels));
            sum[t] = _mm512_add_ps(sum[t], _mm512_mul_ps(value, value));
        }
    }
    _Pragma("GCC unroll 4") for (int t = 0; t < together; t++)
        _mm512_mask_storeu_ps(sums + t * step, own, sum[t]);
}

WIDE static void sum_innermost(const response *shape, const float *x, const response_run *run, float *sums) {
    const int64_t first = run->part * RUN, channels = smaller(shape->channels - first, RUN);
    for (int64_t c = 0; c < channels; c += LANES) {
        const __mmask16 own = rt_first_lanes_16(channels - c);
        const float *from = x + run->at + c;
        int64_t p = 0;
        for (; p + TOGETHER <= run->pixels; p += TOGETHER, from += TOGETHER * shape->channels)
            sum_pixels(shape, from, first + c, TOGETHER, own, sums + p * channels + c, channels);
        for (; p < run->pixels; p++, from += shape->channels)
            sum_pixels(shape, from, first + c, 1, own, sums + p * channels + c, channels);
    }
}

/* The squares of a block of some pixels; zeros where there is no such block. */
INLINE void load_squares(const response *shape, const float *from, int64_t part, int64_t by, int together,
                         __m512 *squares) {
    const bool there = part + by >= 0 && part + by < shape->parts;
    const float *at = rt_address(from, by * shape->pixels * LANES);
    _Pragma("GCC unroll 4") for (int t = 0; t < together; t++) {
        const __m512 value = there ? _mm512_loadu_ps(at + t * LANES) : _mm512_setzero_ps();
        squares[t] = _mm512_mul_ps(value, value);
    }
}

/* Some pixels of a block. A neighbour lies in a lane of one block, or of the next: blocks are gone through from the first that has one. */
INLINE void sum_block(const response *shape, const float *from, int64_t part, int together, float *sums) {
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m512 sum[TOGETHER], squares[TOGETHER], next[TOGETHER];
    int64_t by = -((shape->before + LANES - 1) / LANES), shift = -shape->before - by * LANES;
    _Pragma("GCC unroll 4") for (int t = 0; t < together; t++) sum[t] = _mm512_setzero_ps();
    load_squares(shape, from, part, by, together, squares);
    for (; by * LANES + shift <= shape->after; by++, shift = 0) {
        load_squares(shape, from, part, by + 1, together, next);
        for (; shift < LANES && by * LANES + shift <= shape->after; shift++) {
            const __m512i which = _mm512_add_epi32(lanes, _mm512_set1_epi32((int)shift));
            _Pragma("GCC unroll 4") for (int t = 0; t < together; t++) sum[t] =
                _mm512_add_ps(sum[t], _mm512_permutex2var_ps(squares[t], which, next[t]));
        }
        _Pragma("GCC unroll 4") for (int t = 0; t < together; t++) squares[t] = next[t];
    }
    _Pragma("GCC unroll 4") for (int t = 0; t < together; t++) _mm512_storeu_ps(sums + t * LANES, sum[t]);
}

WIDE static void sum_blocks(const response *shape, const float *x, const response_run *run, float *sums) {
    const float *from = x + run->at;
    int64_t p = 0;
    for (; p + TOGETHER <= run->pixels; p += TOGETHER)
        sum_block(shape, from + p * LANES, run->part, TOGETHER, sums + p * LANES);
    for (; p < run->pixels; p++) sum_block(shape, from + p * LANES, run->part, 1, sums + p * LANES);
}

/* ---- powers -------------------------------------------------------------------------------------------- */

/* t^(3/4) divides x. With s near t^(-1/4), t^(-3/4) is s^3 (1 - e)^(-3/4), where e = 1 - t s^4 is below 2^-11. Other than for numbers far
 * from the ends of what floats can be, roots are taken. */
INLINE __m512 divide_three_quarters_16(__m512 x, __m512 t) {
    const __m512 one = _mm512_set1_ps(1);
    const __mmask16 usual = _mm512_cmp_ps_mask(t, _mm512_set1_ps(0x1p-100f), _CMP_GE_OQ) & /* a NaN is not */
                            _mm512_cmp_ps_mask(t, _mm512_set1_ps(0x1p100f), _CMP_LE_OQ);
    const __m512 root = _mm512_rsqrt14_ps(t), s = _mm512_mul_ps(root, _mm512_rsqrt14_ps(root)),
                 square = _mm512_mul_ps(s, s), e = _mm512_fnmadd_ps(_mm512_mul_ps(t, square), square, one);
    const __m512 rest =
        _mm512_mul_ps(e, _mm512_fmadd_ps(e, _mm512_set1_ps(21.0f / 32), _mm512_set1_ps(0.75f))); /* and 1 */
    const __m512 cube = _mm512_mul_ps(square, s), quotient = _mm512_mul_ps(x, cube);
    __m512 y = _mm512_fmadd_ps(quotient, rest, quotient);
    if (usual != 0xffff) {
        const __m512 exact = _mm512_sqrt_ps(t);
        y = _mm512_mask_div_ps(y, (__mmask16)~usual, x, _mm512_mul_ps(exact, _mm512_sqrt_ps(exact)));
    }
    return y;
}

WIDE static void divide_three_quarters_wide(float *y, const float *x, const float *t, int64_t count) {
    for (int64_t i = 0; i < count; i += LANES) {
        const __mmask16 some = rt_first_lanes_16(count - i);
        const __m512 value = _mm512_maskz_loadu_ps(some, x + i),
                     power = _mm512_mask_loadu_ps(_mm512_set1_ps(1), some, t + i);
        _mm512_mask_storeu_ps(y + i, some, divide_three_quarters_16(value, power));
    }
}
#endif

RT_CLONES static void add_bias(float *sums, int64_t count, float alpha, float bias) {
    for (int64_t i = 0; i < count; i++) sums[i] = bias + alpha * sums[i];
}

RT_CLONES static void divide(float *restrict y, const float *restrict x, const float *restrict by,
                             int64_t count) {
    for (int64_t i = 0; i < count; i++) y[i] = x[i] / by[i];
}

RT_CLONES static void divide_root(float *restrict y, const float *restrict x, const float *restrict t,
                                  int64_t count) {
    for (int64_t i = 0; i < count; i++) y[i] = x[i] / sqrtf(t[i]);
}

RT_CLONES static void divide_three_quarters(float *restrict y, const float *restrict x,
                                            const float *restrict t, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const float root = sqrtf(t[i]);
        y[i] = x[i] / (root * sqrtf(root));
    }
}

/* From the sums of squares, which are overwritten. */
static void divide_by_powers(const response *shape, const float *x, float *sums, float *y, int64_t count) {
    const float beta = (float)shape->beta;
    add_bias(sums, count, (float)shape->alpha, (float)shape->bias);
    if (shape->beta == 1) {
        divide(y, x, sums, count);
    } else if (shape->beta == 0.5) {
        divide_root(y, x, sums, count);
    } else if (shape->beta != 0.75) {
        rt_power_floats(sums, sums, 1, &beta, 0, count);
        divide(y, x, sums, count);
    } else {
#ifdef RT_HAS_MATH_512
        if (shape->wide) {
            divide_three_quarters_wide(y, x, sums, count);
            return;
        }
#endif
        divide_three_quarters(y, x, sums, count);
    }
}

/* ---- runs ---------------------------------------------------------------------------------------------- */

static void sum_squares(const response *shape, const float *x, const response_run *run, float *sums) {
#ifdef RT_HAS_MATH_512
    if (shape->layout == OP_LAYOUT_NHWC) {
        sum_innermost(shape, x, run, sums);
        return;
    }
    if (shape->layout == OP_LAYOUT_NC16) {
        sum_blocks(shape, x, run, sums);
        return;
    }
    if (shape->wide) {
        sum_rows_wide(shape, x, run, sums);
        return;
    }
#endif
    sum_rows(shape, x, run, sums);
}

static void normalize_floats(const response_job *job, const response_run *run) {
    const response *shape = job->shape;
    _Alignas(RT_ALIGNMENT) float sums[RUN];
    const float *x = job->x;
    float *y = (float *)job->y + run->at;
    if (run->count <= 0) return;
    sum_squares(shape, x, run, sums);
    divide_by_powers(shape, x + run->at, sums, y, run->count);
    if (shape->layout != OP_LAYOUT_NC16) return;
    /* What pads the last block stays zero, whatever its neighbours are. */
    for (int64_t c = shape->channels - run->part * LANES; c < LANES; c++)
        for (int64_t p = 0; p < run->pixels; p++) y[p * LANES + c] = 0;
}

/* In double, for types that are rare. */
static void normalize_any(const response_job *job, const response_run *run) {
    const response *shape = job->shape;
    const rt_part channels = around(shape, run->part);
    for (int64_t at = run->at; at < run->at + run->count; at++) {
        double sum = 0;
        for (int64_t c = channels.low; c < channels.high; c++) {
            const double value = rt_element_load(shape->dtype, job->x, at + (c - run->part) * shape->pixels);
            sum += value * value;
        }
        rt_element_store(shape->dtype, job->y, at,
                         rt_element_load(shape->dtype, job->x, at) /
                             pow(shape->bias + shape->alpha * sum, shape->beta));
    }
}

/* The runs of a tile follow one another, then those of the next tile. */
static response_run find_run(const response *shape, int64_t i) {
    const int64_t part = i % shape->parts, tile = i / shape->parts % shape->tiles,
                  image = i / shape->parts / shape->tiles, first = tile * shape->tile,
                  pixels = smaller(shape->pixels - first, shape->tile);
    response_run run = {.pixels = pixels, .part = part};
    if (shape->layout == OP_LAYOUT_NHWC) {
        run.at = first * shape->channels + part * RUN;
        run.count = pixels * smaller(shape->channels - part * RUN, RUN);
        return run;
    }
    const int64_t block = shape->layout == OP_LAYOUT_NC16 ? LANES : 1;
    run.at = ((image * shape->parts + part) * shape->pixels + first) * block;
    run.count = pixels * block;
    return run;
}

static void normalize_member(void *context, int member, int members) {
    const response_job *job = context;
    const response *shape = job->shape;
    const int64_t runs = shape->images * shape->tiles * shape->parts;
    for (int64_t i = runs * member / members; i < runs * (member + 1) / members; i++) {
        const response_run run = find_run(shape, i);
        if (shape->dtype == OP_FLOAT) normalize_floats(job, &run);
        else normalize_any(job, &run);
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const response *shape = prepared->state;
    response_job job = {.shape = shape, .x = inputs[0].data, .y = outputs[0].data};
    const bool large =
        (double)shape->images * (double)shape->channels * (double)shape->pixels * 8 >= RT_PARALLEL_WORK;
    rt_team_run(large ? prepared->threads : 1, normalize_member, &job);
    return BASE_OK;
}

static void cut_into_runs(response *shape) {
    if (shape->layout == OP_LAYOUT_NHWC) {
        shape->pixels *= shape->images;
        shape->images = 1;
        shape->parts = (shape->channels + RUN - 1) / RUN;
        shape->tile = shape->channels > 0 && shape->channels < RUN ? RUN / shape->channels : 1;
    } else {
        const int64_t block = shape->layout == OP_LAYOUT_NC16 ? LANES : 1;
        shape->parts = (shape->channels + block - 1) / block;
        shape->tile = RUN / block;
    }
    shape->tiles = (shape->pixels + shape->tile - 1) / shape->tile;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    const op_type *x = &call->inputs[0].type;
    const int64_t size = op_attribute_integer(&call->attributes, "size", 1);
    response *shape = BASE_NEW(arena, response);
    if (!shape) return base_fail_memory(report);
    *shape =
        (response){.dtype = x->dtype,
                   .layout = x->layout,
                   .wide = rt_has_wide_vectors(environment),
                   .images = x->shape.dims[0],
                   .channels = x->shape.dims[1],
                   .pixels = 1,
                   .before = smaller((size - 1) / 2, x->shape.dims[1]),
                   .after = smaller(size - 1 - (size - 1) / 2, x->shape.dims[1]),
                   .alpha = (double)op_attribute_real(&call->attributes, "alpha", 0.0001f) / (double)size,
                   .beta = (double)op_attribute_real(&call->attributes, "beta", 0.75f),
                   .bias = (double)op_attribute_real(&call->attributes, "bias", 1)};
    for (int32_t i = 2; i < x->shape.rank; i++) shape->pixels *= x->shape.dims[i];
    cut_into_runs(shape);
    prepared->state = shape;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_lrn = {.name = "portable.lrn", .accepts = accepts, .prepare = prepare};
