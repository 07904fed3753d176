/* SPDX-License-Identifier: Apache-2.0 */
/* softmax.c: Softmax and LogSoftmax along an axis.
 *
 * The largest element is taken away first, so that no exponential overflows. A row is summed in 16 lanes that
 * are added at the end, each half to the other, so that the result is the same for every vector width. Double precision
 * stays in double; half precision is computed in float.
 */
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/lanes.h"
#include "runtime/kernels/portable/vector_doubles.h"
#include "runtime/kernels/portable/vector_math.h"
#include "runtime/kernels/portable/vector_math_512.h"
#include <math.h>
#include <string.h>

enum {
    LANES = 16,
    COLUMNS = 64,
    TOGETHER = 16, /* rows */
    SHORT = 512    /* elements of a row that waits for its sums most of the time */
};

typedef struct softmax_state {
    int64_t outer, extent, inner;
    op_dtype dtype;
    bool logarithm;
    bool contract; /* a product and its sum may be rounded once */
} softmax_state;

typedef struct softmax_context {
    const softmax_state *state;
    void *to;
    const void *from;
} softmax_context;

/* Exponentials of a row, of which KEEP(place, number) may keep some, added up in lanes. */
#define ROW_EXPONENTIALS(type, exponential, KEEP)                                                            \
    {                                                                                                        \
        for (int64_t i = 0; i < whole; i += LANES) {                                                         \
            RT_VECTOR for (int k = 0; k < LANES; k++) {                                                      \
                const type e = exponential(from[i + k] - largest);                                           \
                KEEP(to[i + k], e);                                                                          \
                lanes[k] += e;                                                                               \
            }                                                                                                \
        }                                                                                                    \
        for (int64_t i = whole; i < count; i++) {                                                            \
            const type e = exponential(from[i] - largest);                                                   \
            KEEP(to[i], e);                                                                                  \
            lanes[i - whole] += e;                                                                           \
        }                                                                                                    \
    }
#define KEPT(place, number) (place) = (number)
#define NOT_KEPT(place, number)

/* A row whose elements lie side by side. */
#define SOFTMAX_ROW(name, type, exponential, natural_logarithm)                                              \
    RT_CLONES static void name(type *to, const type *from, int64_t count, bool logarithm) {                  \
        type lanes[LANES];                                                                                   \
        for (int k = 0; k < LANES; k++) lanes[k] = from[0];                                                  \
        int64_t whole = count - count % LANES;                                                               \
        for (int64_t i = 0; i < whole; i += LANES) {                                                         \
            RT_VECTOR for (int k = 0; k < LANES; k++) lanes[k] =                                             \
                from[i + k] > lanes[k] ? from[i + k] : lanes[k];                                             \
        }                                                                                                    \
        for (int64_t i = whole; i < count; i++) lanes[0] = from[i] > lanes[0] ? from[i] : lanes[0];          \
        type largest = lanes[0];                                                                             \
        for (int k = 1; k < LANES; k++) largest = lanes[k] > largest ? lanes[k] : largest;                   \
        largest += 0; /* of both zeros the positive one */                                                   \
        for (int k = 0; k < LANES; k++) lanes[k] = 0;                                                        \
        if (logarithm) ROW_EXPONENTIALS(type, exponential, NOT_KEPT)                                         \
        else ROW_EXPONENTIALS(type, exponential, KEPT)                                                       \
        for (int half = LANES / 2; half > 0; half /= 2)                                                      \
            for (int k = 0; k < half; k++) lanes[k] += lanes[k + half];                                      \
        const type sum = lanes[0];                                                                           \
        if (logarithm) {                                                                                     \
            const type shift = natural_logarithm(sum);                                                       \
            RT_VECTOR for (int64_t i = 0; i < count; i++) to[i] = (from[i] - largest) - shift;               \
        } else {                                                                                             \
            const type scale = 1 / sum;                                                                      \
            RT_VECTOR for (int64_t i = 0; i < count; i++) to[i] *= scale;                                    \
        }                                                                                                    \
    }

#define COLUMN_EXPONENTIALS(type, exponential, KEEP)                                                         \
    for (int64_t i = 0; i < count; i++) {                                                                    \
        const type *x = from + i * stride;                                                                   \
        type *y = to + i * stride;                                                                           \
        (void)y;                                                                                             \
        RT_VECTOR for (int64_t c = 0; c < columns; c++) {                                                    \
            const type e = exponential(x[c] - largest[c]);                                                   \
            KEEP(y[c], e);                                                                                   \
            sum[c] += e;                                                                                     \
        }                                                                                                    \
    }

/* Up to COLUMNS rows beside one another, whose elements lie `stride` apart. */
#define SOFTMAX_COLUMNS(name, type, exponential, natural_logarithm)                                          \
    RT_CLONES static void name(type *to, const type *from, int64_t count, int64_t stride, int64_t columns,   \
                               bool logarithm) {                                                             \
        type largest[COLUMNS], sum[COLUMNS];                                                                 \
        for (int64_t c = 0; c < columns; c++) {                                                              \
            largest[c] = from[c];                                                                            \
            sum[c] = 0;                                                                                      \
        }                                                                                                    \
        for (int64_t i = 1; i < count; i++) {                                                                \
            const type *x = from + i * stride;                                                               \
            RT_VECTOR for (int64_t c = 0; c < columns; c++) largest[c] =                                     \
                x[c] > largest[c] ? x[c] : largest[c];                                                       \
        }                                                                                                    \
        if (logarithm) {                                                                                     \
            COLUMN_EXPONENTIALS(type, exponential, NOT_KEPT)                                                 \
            for (int64_t c = 0; c < columns; c++) sum[c] = natural_logarithm(sum[c]);                        \
        } else {                                                                                             \
            COLUMN_EXPONENTIALS(type, exponential, KEPT)                                                     \
            for (int64_t c = 0; c < columns; c++) sum[c] = 1 / sum[c];                                       \
        }                                                                                                    \
        for (int64_t i = 0; i < count; i++) {                                                                \
            const type *x = from + i * stride;                                                               \
            type *y = to + i * stride;                                                                       \
            if (logarithm) {                                                                                 \
                RT_VECTOR for (int64_t c = 0; c < columns; c++) y[c] = (x[c] - largest[c]) - sum[c];         \
            } else {                                                                                         \
                RT_VECTOR for (int64_t c = 0; c < columns; c++) y[c] *= sum[c];                              \
            }                                                                                                \
        }                                                                                                    \
    }

SOFTMAX_ROW(row_float, float, rt_exp, logf)
SOFTMAX_ROW(row_double, double, rt_exp_falling_double, rt_log_double)
SOFTMAX_COLUMNS(columns_float, float, rt_exp, logf)
SOFTMAX_COLUMNS(columns_double, double, rt_exp_falling_double, rt_log_double)

typedef void row_function(float *to, const float *from, int64_t count, bool logarithm);

#ifdef RT_HAS_MATH_512
RT_MATH_512 static inline float sum_of_lanes(__m512 x) {
    const __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1)),
                 eight = _mm256_add_ps(_mm512_castps512_ps256(x), high);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1)),
                 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

/* row_float, with the same bits unless products and sums contract. Four vectors side by side: each is a long chain. */
RT_MATH_512_INLINE void any_row_512(bool contract, float *to, const float *from, int64_t count,
                                    bool logarithm) {
    const int64_t whole = count - count % LANES;
    const __mmask16 rest = rt_first_lanes_16(count - whole);
    __m512 best = _mm512_set1_ps(from[0]), other = best, sums = _mm512_setzero_ps();
    int64_t i = 0;
    for (; i + 2 * LANES <= whole; i += 2 * LANES) {
        best = _mm512_max_ps(_mm512_loadu_ps(from + i), best);
        other = _mm512_max_ps(_mm512_loadu_ps(from + i + LANES), other);
    }
    if (i < whole) best = _mm512_max_ps(_mm512_loadu_ps(from + i), best);
    best =
        _mm512_max_ps(_mm512_mask_max_ps(best, rest, _mm512_maskz_loadu_ps(rest, from + whole), best), other);
    const __m512 largest = _mm512_set1_ps(_mm512_reduce_max_ps(best) + 0.0f);
    for (i = 0; i + 4 * LANES <= whole; i += 4 * LANES) {
        __m512 e[4], x[4];
        _Pragma("GCC unroll 4") for (int j = 0; j < 4; j++) {
            x[j] = _mm512_sub_ps(_mm512_loadu_ps(from + i + LANES * j), largest);
            e[j] = rt_exp_limited_16(contract, x[j]);
        }
        _Pragma("GCC unroll 4") for (int j = 0; j < 4; j++) {
            if (!logarithm) _mm512_storeu_ps(to + i + LANES * j, e[j]);
            sums = _mm512_add_ps(sums, e[j]);
        }
    }
    for (; i < count; i += LANES) {
        const __mmask16 there = i < whole ? 0xffff : rest;
        const __m512 x = _mm512_sub_ps(_mm512_maskz_loadu_ps(there, from + i), largest),
                     e = rt_exp_limited_16(contract, x);
        if (!logarithm) _mm512_mask_storeu_ps(to + i, there, e);
        sums = _mm512_mask_add_ps(sums, there, sums, e);
    }
    const float sum = sum_of_lanes(sums);
    const __m512 change = _mm512_set1_ps(logarithm ? logf(sum) : 1 / sum);
    for (i = 0; i < count; i += LANES) {
        const __mmask16 there = i < whole ? 0xffff : rest;
        const __m512 y = _mm512_maskz_loadu_ps(there, (logarithm ? from : to) + i);
        _mm512_mask_storeu_ps(to + i, there,
                              logarithm ? _mm512_sub_ps(_mm512_sub_ps(y, largest), change)
                                        : _mm512_mul_ps(y, change));
    }
}

/* Sixteen rows, step by step for all of them, with the bits of any_row_512: what a row waits for, its largest element and its sum, is found for all together. */
RT_MATH_512_INLINE void any_rows_512(bool contract, float *to, const float *from, int64_t count) {
    _Alignas(64) float lanes[TOGETHER][LANES], largest[TOGETHER], change[TOGETHER];
    const int64_t whole = count - count % LANES;
    const __mmask16 rest = rt_first_lanes_16(count - whole);
    for (int r = 0; r < TOGETHER; r++) {
        const float *own = from + r * count;
        __m512 best = _mm512_set1_ps(own[0]);
        for (int64_t i = 0; i < whole; i += LANES) best = _mm512_max_ps(_mm512_loadu_ps(own + i), best);
        if (rest) best = _mm512_mask_max_ps(best, rest, _mm512_maskz_loadu_ps(rest, own + whole), best);
        _mm512_store_ps(lanes[r], best);
    }
    /* Of both zeros the positive one. */
    _mm512_store_ps(largest, _mm512_add_ps(rt_largest_of_16(lanes), _mm512_setzero_ps()));
    for (int r = 0; r < TOGETHER; r++) {
        const float *own = from + r * count;
        float *made = to + r * count;
        const __m512 most = _mm512_set1_ps(largest[r]);
        __m512 sums = _mm512_setzero_ps();
        for (int64_t i = 0; i < whole; i += LANES) {
            const __m512 e = rt_exp_limited_16(contract, _mm512_sub_ps(_mm512_loadu_ps(own + i), most));
            _mm512_storeu_ps(made + i, e);
            sums = _mm512_add_ps(sums, e);
        }
        if (rest) {
            const __m512 e =
                rt_exp_limited_16(contract, _mm512_sub_ps(_mm512_maskz_loadu_ps(rest, own + whole), most));
            _mm512_mask_storeu_ps(made + whole, rest, e);
            sums = _mm512_mask_add_ps(sums, rest, sums, e);
        }
        _mm512_store_ps(lanes[r], sums);
    }
    _mm512_store_ps(change, _mm512_div_ps(_mm512_set1_ps(1.0f), rt_sums_of_16(lanes)));
    for (int r = 0; r < TOGETHER; r++) {
        float *made = to + r * count;
        const __m512 scale = _mm512_set1_ps(change[r]);
        for (int64_t i = 0; i < whole; i += LANES)
            _mm512_storeu_ps(made + i, _mm512_mul_ps(_mm512_loadu_ps(made + i), scale));
        if (!rest) continue;
        _mm512_mask_storeu_ps(made + whole, rest,
                              _mm512_mul_ps(_mm512_maskz_loadu_ps(rest, made + whole), scale));
    }
}

/* The same of rows of two elements, something and its contrary: lanes are rows. */
RT_MATH_512_INLINE void any_pairs_512(bool contract, float *to, const float *from) {
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30),
                  odd = _mm512_add_epi32(even, _mm512_set1_epi32(1)),
                  first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23),
                  second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    const __m512 low = _mm512_loadu_ps(from), high = _mm512_loadu_ps(from + LANES);
    const __m512 a = _mm512_permutex2var_ps(low, even, high), b = _mm512_permutex2var_ps(low, odd, high),
                 largest = _mm512_add_ps(_mm512_max_ps(b, a), _mm512_setzero_ps()),
                 e = rt_exp_limited_16(contract, _mm512_sub_ps(a, largest)),
                 f = rt_exp_limited_16(contract, _mm512_sub_ps(b, largest)),
                 scale = _mm512_div_ps(_mm512_set1_ps(1.0f), _mm512_add_ps(e, f)),
                 y = _mm512_mul_ps(e, scale), z = _mm512_mul_ps(f, scale);
    _mm512_storeu_ps(to, _mm512_permutex2var_ps(y, first, z));
    _mm512_storeu_ps(to + LANES, _mm512_permutex2var_ps(y, second, z));
}

RT_MATH_512 static void rows_512(float *to, const float *from, int64_t count) {
    if (count == 2) any_pairs_512(false, to, from);
    else any_rows_512(false, to, from, count);
}

RT_MATH_512 static void contracted_rows_512(float *to, const float *from, int64_t count) {
    if (count == 2) any_pairs_512(true, to, from);
    else any_rows_512(true, to, from, count);
}

RT_MATH_512 static void row_512(float *to, const float *from, int64_t count, bool logarithm) {
    any_row_512(false, to, from, count, logarithm);
}

RT_MATH_512 static void contracted_row_512(float *to, const float *from, int64_t count, bool logarithm) {
    any_row_512(true, to, from, count, logarithm);
}
#endif

static row_function *find_row(bool contract) {
#ifdef RT_HAS_MATH_512
    if (__builtin_cpu_supports("avx512f")) return contract ? contracted_row_512 : row_512;
#endif
    (void)contract;
    return row_float;
}

static void rows_float(void *user, int64_t begin, int64_t end) {
    const softmax_context *context = user;
    const int64_t extent = context->state->extent;
    row_function *const run_row = find_row(context->state->contract);
#ifdef RT_HAS_MATH_512
    const bool together = extent <= SHORT && !context->state->logarithm && __builtin_cpu_supports("avx512f");
    for (; together && begin + TOGETHER <= end; begin += TOGETHER)
        (context->state->contract ? contracted_rows_512 : rows_512)(
            (float *)context->to + begin * extent, (const float *)context->from + begin * extent, extent);
#endif
    for (int64_t row = begin; row < end; row++) {
        run_row((float *)context->to + row * extent, (const float *)context->from + row * extent, extent,
                context->state->logarithm);
    }
}

static void rows_double(void *user, int64_t begin, int64_t end) {
    const softmax_context *context = user;
    const int64_t extent = context->state->extent;
    for (int64_t row = begin; row < end; row++) {
        row_double((double *)context->to + row * extent, (const double *)context->from + row * extent, extent,
                   context->state->logarithm);
    }
}

/* A task is one group of columns of one outer index. */
#define SOFTMAX_GROUPS(name, type, columns_function)                                                         \
    static void name(void *user, int64_t begin, int64_t end) {                                               \
        const softmax_context *context = user;                                                               \
        const softmax_state *state = context->state;                                                         \
        const int64_t groups = (state->inner + COLUMNS - 1) / COLUMNS;                                       \
        for (int64_t task = begin; task < end; task++) {                                                     \
            const int64_t column = task % groups * COLUMNS;                                                  \
            const int64_t at = task / groups * state->extent * state->inner + column;                        \
            const int64_t columns = state->inner - column < COLUMNS ? state->inner - column : COLUMNS;       \
            columns_function((type *)context->to + at, (const type *)context->from + at, state->extent,      \
                             state->inner, columns, state->logarithm);                                       \
        }                                                                                                    \
    }
SOFTMAX_GROUPS(groups_float, float, columns_float)
SOFTMAX_GROUPS(groups_double, double, columns_double)

static void softmax(softmax_context *context, op_dtype dtype, int threads) {
    const softmax_state *state = context->state;
    if (state->inner == 1) {
        rt_parallel(threads, state->outer, 16 * state->extent, dtype == OP_DOUBLE ? rows_double : rows_float,
                    context);
    } else {
        int64_t groups = (state->inner + COLUMNS - 1) / COLUMNS;
        int64_t work = 16 * state->extent * (state->inner < COLUMNS ? state->inner : COLUMNS);
        rt_parallel(threads, state->outer * groups, work, dtype == OP_DOUBLE ? groups_double : groups_float,
                    context);
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const softmax_state *state = prepared->state;
    softmax_context context = {state, outputs[0].data, inputs[0].data};
    softmax(&context, state->dtype, prepared->threads);
    return BASE_OK;
}

/* The whole tensor is widened to scratch, computed there in place and narrowed. */
static base_status run_half(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                            void *scratch, base_report *report) {
    (void)report;
    const softmax_state *state = prepared->state;
    int64_t count = state->outer * state->extent * state->inner;
    rt_half_load(state->dtype, scratch, inputs[0].data, count);
    softmax_context context = {state, scratch, scratch};
    softmax(&context, OP_FLOAT, prepared->threads);
    rt_half_store(state->dtype, outputs[0].data, scratch, count);
    return BASE_OK;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    op_dtype dtype = call->inputs[0].type.dtype;
    return (dtype == OP_FLOAT || dtype == OP_DOUBLE || rt_is_half(dtype)) && rt_accepts_row_major(call);
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    softmax_state *state = BASE_NEW(arena, softmax_state);
    if (!state) return base_fail_memory(report);
    const op_type *type = &call->inputs[0].type;
    int32_t axis = 0;
    op_axis(op_attribute_integer(&call->attributes, "axis", -1), type->shape.rank, &axis);
    state->dtype = type->dtype;
    state->logarithm = call->code == OP_LOG_SOFTMAX;
    state->contract = !environment->portable_only;
    state->outer = state->extent = state->inner = 1;
    for (int32_t i = 0; i < type->shape.rank; i++) {
        int64_t *part = i < axis ? &state->outer : i == axis ? &state->extent : &state->inner;
        *part *= type->shape.dims[i];
    }
    prepared->state = state;
    bool empty = state->outer == 0 || state->extent == 0 || state->inner == 0;
    prepared->run = empty ? rt_run_nothing : rt_is_half(type->dtype) ? run_half : run;
    if (!empty && rt_is_half(type->dtype)) {
        size_t count = (size_t)(state->outer * state->extent * state->inner);
        if (!base_size_multiply(count, sizeof(float), &prepared->scratch_bytes))
            return base_fail_memory(report);
    }
    return BASE_OK;
}

const rt_kernel rt_kernel_softmax = {.name = "portable.softmax", .accepts = accepts, .prepare = prepare};
