/* SPDX-License-Identifier: Apache-2.0 */
/* quantize.c: QuantizeLinear and DequantizeLinear in portable C:
 *
 *     q = saturate(round(x / scale) + zero point), rounded to nearest, ties to even
 *     x = (q - zero point) * scale
 *
 * The tensor is walked as rows with one scale each; where nothing lies after the axis of the scales, a row has a
 * scale for every element instead. What is not a number becomes the lowest integer.
 */
#include "ir/operators/small.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/integer_product.h"
#include "runtime/kernels/portable/product.h"
#include "runtime/kernels/portable/quantize_lanes.h"
#include <math.h>
#include <string.h>
#if RT_X86_KERNELS
#include <immintrin.h>
#endif

typedef struct quantize_state {
    op_dtype from, to;
    int64_t rows, length; /* one row when there is one scale */
    int64_t channels;     /* scales; row r has scale r % channels, unless each element has its own */
    bool each;            /* element i of a row has scale i */
    bool zeros;           /* there are zero points */
} quantize_state;

typedef struct quantize_context {
    const quantize_state *state;
    const void *x;
    const float *scale;
    const void *zero; /* NULL: none */
    void *y;
} quantize_context;

/* ---- to integers --------------------------------------------------------------------------------------- */

/* The bounds are integers, so that cutting off before rounding is the same as after. */
#define QUANTIZE(from, to, low, high)                                                                        \
    RT_CLONES static void quantize_##from##_##to(const from *x, to *y, int64_t count, float scale,           \
                                                 float zero) {                                               \
        RT_VECTOR for (int64_t i = 0; i < count; i++) {                                                      \
            y[i] = (to)(int32_t)(rt_round_within((float)x[i] / scale, low - zero, high - zero) + zero);      \
        }                                                                                                    \
    }                                                                                                        \
    RT_CLONES static void quantize_each_##from##_##to(const from *x, to *y, int64_t count,                   \
                                                      const float *scale, const to *zero) {                  \
        RT_VECTOR for (int64_t i = 0; i < count; i++) {                                                      \
            const float shift = zero ? (float)zero[i] : 0;                                                   \
            y[i] =                                                                                           \
                (to)(int32_t)(rt_round_within((float)x[i] / scale[i], low - shift, high - shift) + shift);   \
        }                                                                                                    \
    }                                                                                                        \
    static void run_##from##_##to(const quantize_context *context, int64_t first, int64_t count,             \
                                  int64_t channel) {                                                         \
        const from *x = (const from *)context->x + first;                                                    \
        to *y = (to *)context->y + first;                                                                    \
        const to *zero = context->zero;                                                                      \
        if (context->state->each) quantize_each_##from##_##to(x, y, count, context->scale, zero);            \
        else quantize_##from##_##to(x, y, count, context->scale[channel], zero ? (float)zero[channel] : 0);  \
    }
QUANTIZE(float, uint8_t, 0.0f, 255.0f)
QUANTIZE(float, int8_t, -128.0f, 127.0f)
QUANTIZE(float, uint16_t, 0.0f, 65535.0f)
QUANTIZE(float, int16_t, -32768.0f, 32767.0f)
QUANTIZE(int32_t, uint8_t, 0.0f, 255.0f)
QUANTIZE(int32_t, int8_t, -128.0f, 127.0f)

#if RT_X86_KERNELS
#define HAS_QUANTIZE_512 (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
/* quantize_float_uint8_t and its like, to bytes or to pairs of them (`wide`), with the same bits: a compiler narrows 16 numbers in many steps. */
__attribute__((target("avx512f"))) static void quantize_512(const float *x, void *y, bool wide, int64_t count,
                                                            float scale, float zero, float low, float high) {
    const __m512 scales = _mm512_set1_ps(scale), lowest = _mm512_set1_ps(low - zero),
                 highest = _mm512_set1_ps(high - zero), shift = _mm512_set1_ps(zero);
    for (int64_t i = 0; i < count; i += 16) {
        const __mmask16 there = rt_first_lanes_16(count - i);
        const __m512 v = rt_divided_16(_mm512_maskz_loadu_ps(there, x + i), scales, lowest, highest);
        const __m512i whole = _mm512_cvttps_epi32(_mm512_add_ps(v, shift));
        if (wide) _mm512_mask_cvtepi32_storeu_epi16((uint16_t *)y + i, there, whole);
        else _mm512_mask_cvtepi32_storeu_epi8((uint8_t *)y + i, there, whole);
    }
}

/* The same, to bytes, of a scale that has a reciprocal. */
__attribute__((target("avx512bw,avx512dq"))) static void
quantize_bytes_512(const float *x, uint8_t *y, int64_t count, float scale, float zero, bool negative) {
    const __m512 scales = _mm512_set1_ps(scale), factor = _mm512_set1_ps(1 / scale);
    __m512 v[4];
    int64_t i = 0;
    for (; i + 64 <= count; i += 64) { /* no masks */
        _Pragma("GCC unroll 4") for (int k = 0; k < 4; k++) v[k] = _mm512_loadu_ps(x + i + 16 * k);
        rt_quantize_bytes(y + i, 64, v, 4, scales, factor, (int32_t)zero, negative, false);
    }
    if (i == count) return;
    for (int k = 0; k < 4; k++)
        v[k] = _mm512_maskz_loadu_ps(rt_first_lanes_16(count - i - 16 * k), x + i + 16 * k);
    rt_quantize_bytes(y + i, count - i, v, 4, scales, factor, (int32_t)zero, negative, false);
}
#else
#define HAS_QUANTIZE_512 false
static void quantize_512(const float *x, void *y, bool wide, int64_t count, float scale, float zero,
                         float low, float high) {
    (void)x, (void)y, (void)wide, (void)count, (void)scale, (void)zero, (void)low, (void)high;
}
static void quantize_bytes_512(const float *x, uint8_t *y, int64_t count, float scale, float zero,
                               bool negative) {
    (void)x, (void)y, (void)count, (void)scale, (void)zero, (void)negative;
}
#endif

/* Floats to 8 or 16 bits with one scale, on machines with AVX-512. */
static void run_floats_512(const quantize_context *context, int64_t first, int64_t count, int64_t channel) {
    const op_dtype to = context->state->to;
    const bool wide = to == OP_INT16 || to == OP_UINT16;
    const float low = to == OP_INT8 ? -128.0f : to == OP_INT16 ? -32768.0f : 0.0f;
    const float zero = context->zero ? (float)(int64_t)rt_integer_load(to, context->zero, channel) : 0;
    const float scale = context->scale[channel], *x = (const float *)context->x + first;
    uint8_t *y = (uint8_t *)context->y + (wide ? 2 : 1) * first;
    if (!wide && rt_has_reciprocal(scale)) quantize_bytes_512(x, y, count, scale, zero, to == OP_INT8);
    else quantize_512(x, y, wide, count, scale, zero, low, low + (wide ? 65535.0f : 255.0f));
}

/* ---- from integers ------------------------------------------------------------------------------------- */

#define DEQUANTIZE(from, wide)                                                                               \
    RT_CLONES static void dequantize_##from(const from *x, float *y, int64_t count, float scale,             \
                                            wide zero) {                                                     \
        RT_VECTOR for (int64_t i = 0; i < count; i++) y[i] = (float)((wide)x[i] - zero) * scale;             \
    }                                                                                                        \
    RT_CLONES static void dequantize_each_##from(const from *x, float *y, int64_t count, const float *scale, \
                                                 const from *zero) {                                         \
        RT_VECTOR for (int64_t i = 0; i < count; i++) {                                                      \
            const wide shift = zero ? (wide)zero[i] : 0;                                                     \
            y[i] = (float)((wide)x[i] - shift) * scale[i];                                                   \
        }                                                                                                    \
    }                                                                                                        \
    static void run_from_##from(const quantize_context *context, int64_t first, int64_t count,               \
                                int64_t channel) {                                                           \
        const from *x = (const from *)context->x + first;                                                    \
        float *y = (float *)context->y + first;                                                              \
        const from *zero = context->zero;                                                                    \
        if (context->state->each) dequantize_each_##from(x, y, count, context->scale, zero);                 \
        else dequantize_##from(x, y, count, context->scale[channel], zero ? (wide)zero[channel] : 0);        \
    }
DEQUANTIZE(uint8_t, int32_t)
DEQUANTIZE(int8_t, int32_t)
DEQUANTIZE(uint16_t, int32_t)
DEQUANTIZE(int16_t, int32_t)
DEQUANTIZE(int32_t, int64_t)

/* Of int32 a zero point other than 0 is hardly there: none. */
RT_CLONES static void dequantize_words(const int32_t *x, float *y, int64_t count, float scale) {
    RT_VECTOR for (int64_t i = 0; i < count; i++) y[i] = (float)x[i] * scale;
}
RT_CLONES static void dequantize_each_word(const int32_t *x, float *y, int64_t count, const float *scale) {
    RT_VECTOR for (int64_t i = 0; i < count; i++) y[i] = (float)x[i] * scale[i];
}
static void run_from_words(const quantize_context *context, int64_t first, int64_t count, int64_t channel) {
    const int32_t *x = (const int32_t *)context->x + first, *zero = context->zero;
    float *y = (float *)context->y + first;
    if (zero && (context->state->each || zero[channel])) run_from_int32_t(context, first, count, channel);
    else if (context->state->each) dequantize_each_word(x, y, count, context->scale);
    else dequantize_words(x, y, count, context->scale[channel]);
}

/* ---- both ---------------------------------------------------------------------------------------------- */

static void run_piece(const quantize_context *context, int64_t first, int64_t count, int64_t channel) {
    const op_dtype from = context->state->from, to = context->state->to;
    if (to == OP_FLOAT) {
        if (from == OP_UINT8) run_from_uint8_t(context, first, count, channel);
        else if (from == OP_INT8) run_from_int8_t(context, first, count, channel);
        else if (from == OP_UINT16) run_from_uint16_t(context, first, count, channel);
        else if (from == OP_INT16) run_from_int16_t(context, first, count, channel);
        else run_from_words(context, first, count, channel);
    } else if (from == OP_FLOAT) {
        if (HAS_QUANTIZE_512 && !context->state->each) run_floats_512(context, first, count, channel);
        else if (to == OP_UINT8) run_float_uint8_t(context, first, count, channel);
        else if (to == OP_INT8) run_float_int8_t(context, first, count, channel);
        else if (to == OP_UINT16) run_float_uint16_t(context, first, count, channel);
        else run_float_int16_t(context, first, count, channel);
    } else {
        if (to == OP_UINT8) run_int32_t_uint8_t(context, first, count, channel);
        else run_int32_t_int8_t(context, first, count, channel);
    }
}

/* Elements [begin, end) where there is one scale, rows otherwise. */
static void run_range(void *user, int64_t begin, int64_t end) {
    const quantize_context *context = user;
    const quantize_state *state = context->state;
    if (state->channels == 1) {
        run_piece(context, begin, end - begin, 0);
        return;
    }
    for (int64_t row = begin; row < end; row++) {
        run_piece(context, row * state->length, state->length, state->each ? 0 : row % state->channels);
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const quantize_state *state = prepared->state;
    quantize_context context = {.state = state,
                                .x = inputs[0].data,
                                .scale = inputs[1].data,
                                .zero = state->zeros ? inputs[2].data : NULL,
                                .y = outputs[0].data};
    const bool one = state->channels == 1;
    if (state->rows == 0 || state->length == 0) return BASE_OK;
    rt_parallel(prepared->threads, one ? state->length : state->rows, one ? 1 : state->length, run_range,
                &context);
    return BASE_OK;
}

/* ---- any types, blocks --------------------------------------------------------------------------------- */

typedef struct general_state {
    op_dtype x, scale, zero, y;
    op_dtype precision; /* of the division */
    bool quantize, saturate, single;
    int64_t outer, extent, inner; /* around the axis */
    /* Positions along the axis that share a scale, and how many such; 0: one a position, for all rows. */
    int64_t block, blocks;
    bool by_chunks;    /* floats are exact enough: dequantize_chunk */
    float values[256]; /* of codes of 8 bits and less that are no integers of C */
} general_state;

typedef struct general_job {
    const general_state *state;
    const op_tensor *inputs;
    void *y;
} general_job;

static double number_at(op_dtype dtype, const void *data, int64_t index) {
    if (op_dtype_is_small(dtype)) return (double)op_small_value(dtype, op_small_load(dtype, data, index));
    if (dtype == OP_FLOAT || rt_is_half(dtype)) return rt_element_load(dtype, data, index);
    return (double)rt_integer_load(dtype, data, index);
}

/* As precisely as the type that the division is in. */
static float rounded_as(op_dtype dtype, float value) {
    if (!rt_is_half(dtype)) return value;
    uint16_t half;
    rt_half_store(dtype, &half, &value, 1);
    rt_half_load(dtype, &value, &half, 1);
    return value;
}

static void store_quantized(const general_state *s, void *y, int64_t index, float ratio, double zero) {
    const unsigned bits = op_dtype_bits(s->y);
    if (s->y >= OP_FLOAT8E4M3FN && s->y <= OP_FLOAT4E2M1 && s->y != OP_UINT4 && s->y != OP_INT4) {
        op_small_store(s->y, y, index, op_small_code(s->y, (double)ratio + zero, s->saturate, OP_ROUND_UP));
        return;
    }
    const bool negative = s->y == OP_INT8 || s->y == OP_INT16 || s->y == OP_INT4 || s->y == OP_INT2;
    const double low = negative ? -ldexp(1, (int)bits - 1) : 0, high = low + ldexp(1, (int)bits) - 1;
    double value = nearbyint((double)ratio) + zero;
    value = value > low ? (value < high ? value : high) : low; /* also what is not a number */
    if (op_dtype_is_small(s->y)) op_small_store(s->y, y, index, (uint8_t)((int)value & ((1 << bits) - 1)));
    else rt_integer_store(s->y, y, index, (uint64_t)(int64_t)value);
}

static void general_range(void *user, int64_t begin, int64_t end) {
    const general_job *job = user;
    const general_state *s = job->state;
    for (int64_t i = begin; i < end; i++) {
        const int64_t at = i / s->inner % s->extent;
        int64_t place = s->single ? 0 : at;
        if (s->block)
            place = (i / s->inner / s->extent * s->blocks + at / s->block) * s->inner + i % s->inner;
        const double x = number_at(s->x, job->inputs[0].data, i),
                     scale = number_at(s->scale, job->inputs[1].data, place);
        const double zero = s->zero != OP_NONE ? number_at(s->zero, job->inputs[2].data, place) : 0;
        if (!s->quantize) {
            rt_element_store(s->y, job->y, i, (x - zero) * scale);
            continue;
        }
        const float top = rounded_as(s->precision, (float)x), bottom = rounded_as(s->precision, (float)scale);
        store_quantized(s, job->y, i, rounded_as(s->precision, top / bottom), zero);
    }
}

/* ---- stretches of numbers ------------------------------------------------------------------------------ */

enum { CHUNK = 256 };

/* 4 bits each, the first of a byte in its lower half. */
RT_CLONES static void load_nibbles(const uint8_t *from, bool negative, int64_t bytes, float *to) {
    const int32_t sign = negative ? 8 : 0;
    RT_VECTOR for (int64_t i = 0; i < bytes; i++) {
        const int32_t low = from[i] & 15, high = from[i] >> 4;
        to[2 * i] = (float)((low ^ sign) - sign);
        to[2 * i + 1] = (float)((high ^ sign) - sign);
    }
}

#define LOAD_WHOLE(type)                                                                                     \
    RT_CLONES static void load_##type(const type *from, int64_t count, float *to) {                          \
        RT_VECTOR for (int64_t i = 0; i < count; i++) to[i] = (float)from[i];                                \
    }
LOAD_WHOLE(uint8_t)
LOAD_WHOLE(int8_t)
LOAD_WHOLE(uint16_t)
LOAD_WHOLE(int16_t)

/* Elements [first, first + count), numbers of 16 bits at most or floats, as floats. */
static void load_numbers(const general_state *s, op_dtype dtype, const void *data, int64_t first,
                         int64_t count, float *to) {
    if (dtype == OP_FLOAT) memcpy(to, (const float *)data + first, (size_t)count * sizeof *to);
    else if (rt_is_half(dtype)) rt_half_load(dtype, to, (const uint16_t *)data + first, count);
    else if (dtype == OP_UINT8) load_uint8_t((const uint8_t *)data + first, count, to);
    else if (dtype == OP_INT8) load_int8_t((const int8_t *)data + first, count, to);
    else if (dtype == OP_UINT16) load_uint16_t((const uint16_t *)data + first, count, to);
    else if (dtype == OP_INT16) load_int16_t((const int16_t *)data + first, count, to);
    else {
        int64_t i = 0;
        if (dtype == OP_INT4 || dtype == OP_UINT4) {
            if (first % 2) to[i++] = s->values[op_small_load(dtype, data, first)];
            const int64_t pairs = (count - i) / 2;
            load_nibbles((const uint8_t *)data + (first + i) / 2, dtype == OP_INT4, pairs, to + i);
            i += 2 * pairs;
        }
        for (; i < count; i++) to[i] = s->values[op_small_load(dtype, data, first + i)];
    }
}

/* Scales, or zero points (`input`), of elements [first, first + count). */
static void load_parameters(const general_job *job, uint32_t input, int64_t first, int64_t count, float *to) {
    const general_state *s = job->state;
    const op_dtype dtype = input == 1 ? s->scale : s->zero;
    const void *data = job->inputs[input].data;
    for (int64_t i = 0, some; i < count; i += some) {
        const int64_t at = (first + i) / s->inner % s->extent, within = (first + i) % s->inner;
        const int64_t outer = (first + i) / s->inner / s->extent;
        /* Places that follow each other have places that do, or the same one. */
        int64_t place = s->single ? 0 : at;
        bool next = false;
        if (s->block) {
            place = (outer * s->blocks + at / s->block) * s->inner + within;
            next = s->inner > 1;
        } else {
            next = !s->single && s->inner == 1;
        }
        some = s->single                                   ? count
               : s->inner > 1                              ? s->inner - within
               : s->block == 0                             ? s->extent - at
               : s->extent - at < s->block - at % s->block ? s->extent - at
                                                           : s->block - at % s->block;
        if (some > count - i) some = count - i;
        load_numbers(s, dtype, data, place, next ? some : 1, to + i);
        for (int64_t k = 1; k < some && !next; k++) to[i + k] = to[i];
    }
}

RT_CLONES static void dequantize_numbers(float *x, const float *zero, const float *scale, int64_t count) {
    RT_VECTOR for (int64_t i = 0; i < count; i++) x[i] = (x[i] - zero[i]) * scale[i];
}

/* The numbers of general_range. */
static void dequantize_chunk(void *user, int64_t begin, int64_t end) {
    const general_job *job = user;
    const general_state *s = job->state;
    _Alignas(RT_ALIGNMENT) float x[CHUNK], zero[CHUNK] = {0}, scale[CHUNK];
    for (int64_t first = begin; first < end; first += CHUNK) {
        const int64_t count = end - first < CHUNK ? end - first : CHUNK;
        load_numbers(s, s->x, job->inputs[0].data, first, count, x);
        load_parameters(job, 1, first, count, scale);
        if (s->zero != OP_NONE) load_parameters(job, 2, first, count, zero);
        dequantize_numbers(x, zero, scale, count);
        if (s->y == OP_FLOAT) memcpy((float *)job->y + first, x, (size_t)count * sizeof *x);
        else rt_half_store(s->y, (uint16_t *)job->y + first, x, count);
    }
}

/* A product of a difference of numbers of at most 16 bits with a scale is rounded once in float. Where it becomes 16 bits after that, it must be
 * exact in float: 9 bits times 11. */
static bool dequantizes_by_chunks(const general_state *s) {
    const unsigned bits = op_dtype_bits(s->x);
    if (s->quantize || (s->x != OP_INT16 && s->x != OP_UINT16 && bits > 8)) return false;
    if (s->scale != OP_FLOAT && !rt_is_half(s->scale)) return false;
    if (s->zero != OP_NONE && s->zero != s->x) return false;
    return s->y == OP_FLOAT || (rt_is_half(s->y) && rt_is_half(s->scale) && bits <= 8);
}

static base_status run_general(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                               void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const general_state *s = prepared->state;
    general_job job = {s, inputs, outputs[0].data};
    const bool packed = op_dtype_is_packed(s->y);
    if (packed) memset(outputs[0].data, 0, outputs[0].bytes);
    /* Elements that share a byte are written by one thread. */
    rt_parallel(packed ? 1 : prepared->threads, s->outer * s->extent * s->inner, s->by_chunks ? 2 : 8,
                s->by_chunks ? dequantize_chunk : general_range, &job);
    return BASE_OK;
}

/* What the loops above are made for: integers of 8 bits, or of 16 beside floats, and int32 where they come from, with one float scale a row. */
static bool is_usual(const op_call *call) {
    const bool quantize = call->code == OP_QUANTIZE_LINEAR;
    const op_dtype whole = quantize ? call->outputs[0].type.dtype : call->inputs[0].type.dtype;
    const op_dtype real = quantize ? call->inputs[0].type.dtype : call->outputs[0].type.dtype;
    const int64_t precision = op_attribute_integer(&call->attributes, "precision", OP_NONE);
    return call->inputs[1].type.dtype == OP_FLOAT && (precision == OP_NONE || precision == OP_FLOAT) &&
           (rt_is_byte(whole) || (!quantize && whole == OP_INT32) ||
            (real == OP_FLOAT && (whole == OP_INT16 || whole == OP_UINT16))) &&
           (real == OP_FLOAT || (quantize && real == OP_INT32)) &&
           op_attribute_integer(&call->attributes, "block_size", 0) == 0;
}

static base_status prepare_general(const op_call *call, base_arena *arena, rt_prepared *prepared,
                                   base_report *report) {
    general_state *s = BASE_NEW(arena, general_state);
    if (!s) return base_fail_memory(report);
    const op_shape *x = &call->inputs[0].type.shape, *scale = &call->inputs[1].type.shape;
    *s = (general_state){.x = call->inputs[0].type.dtype,
                         .scale = call->inputs[1].type.dtype,
                         .zero = op_input_present(call, 2) ? call->inputs[2].type.dtype : OP_NONE,
                         .y = call->outputs[0].type.dtype,
                         .quantize = call->code == OP_QUANTIZE_LINEAR,
                         .saturate = op_attribute_integer(&call->attributes, "saturate", 1) != 0,
                         .outer = 1,
                         .extent = 1,
                         .inner = 1,
                         .block = op_attribute_integer(&call->attributes, "block_size", 0)};
    s->precision = (op_dtype)op_attribute_integer(&call->attributes, "precision", OP_NONE);
    if (s->precision == OP_NONE) s->precision = s->scale;
    int64_t scales = 1;
    (void)op_shape_elements(scale, &scales);
    s->single = scales == 1 && !s->block;
    int32_t axis = 0;
    if (!s->single) op_axis(op_attribute_integer(&call->attributes, "axis", 1), x->rank, &axis);
    for (int32_t i = 0; i < x->rank; i++)
        *(i < axis ? &s->outer : i == axis ? &s->extent : &s->inner) *= x->dims[i];
    if (s->block) s->blocks = scale->dims[axis];
    s->by_chunks = dequantizes_by_chunks(s);
    for (int code = 0; code < 256 && op_dtype_is_small(s->x); code++)
        s->values[code] = op_small_value(s->x, (uint8_t)code);
    prepared->state = s;
    prepared->run = run_general;
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    if (!is_usual(call)) return prepare_general(call, arena, prepared, report);
    quantize_state *state = BASE_NEW(arena, quantize_state);
    if (!state) return base_fail_memory(report);
    const op_shape *x = &call->inputs[0].type.shape;
    *state = (quantize_state){.from = call->inputs[0].type.dtype,
                              .to = call->outputs[0].type.dtype,
                              .rows = 1,
                              .length = 1,
                              .channels = 1,
                              .zeros = op_input_present(call, 2)};
    op_shape_elements(&call->inputs[1].type.shape, &state->channels);
    int32_t axis = -1;
    if (state->channels != 1) op_axis(op_attribute_integer(&call->attributes, "axis", 1), x->rank, &axis);
    int64_t elements;
    if (op_shape_elements(x, &elements) && elements == 0) axis = -1, state->length = 0;
    for (int32_t i = 0; i < x->rank && state->length; i++) {
        *(i <= axis ? &state->rows : &state->length) *= x->dims[i];
    }
    if (axis >= 0 && state->length == 1) {
        state->each = true;
        state->length = x->dims[axis];
        state->rows = 1;
        for (int32_t i = 0; i < axis; i++) state->rows *= x->dims[i];
    }
    prepared->state = state;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_quantize_linear = {
    .name = "portable.quantize_linear", .accepts = rt_accepts_any_row_major, .prepare = prepare};
const rt_kernel rt_kernel_dequantize_linear = {
    .name = "portable.dequantize_linear", .accepts = rt_accepts_any_row_major, .prepare = prepare};

/* ---- with the scale from the data ---------------------------------------------------------------------- */

typedef struct dynamic_job {
    const float *x;
    int64_t count;
    float *extremes; /* two for each member */
} dynamic_job;

/* The least and greatest number, 0 among them; what is not a number is passed over. */
RT_CLONES static void find_extremes(const float *x, int64_t count, float *extremes) {
    float low = 0, high = 0;
    _Pragma("omp simd reduction(min : low) reduction(max : high)") for (int64_t i = 0; i < count; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    extremes[0] = low;
    extremes[1] = high;
}

#if RT_X86_KERNELS
/* The same: several at a time, which do not wait for each other. */
__attribute__((target("avx512f"))) static void find_extremes_512(const float *x, int64_t count,
                                                                 float *extremes) {
    enum { TOGETHER = 4 };
    __m512 low[TOGETHER], high[TOGETHER];
    for (int k = 0; k < TOGETHER; k++) low[k] = high[k] = _mm512_setzero_ps();
    for (int64_t i = 0; i < count; i += 16 * TOGETHER) {
        _Pragma("GCC unroll 4") for (int k = 0; k < TOGETHER; k++) {
            const __m512 v =
                _mm512_maskz_loadu_ps(rt_first_lanes_16(count - i - 16 * k), rt_address(x, i + 16 * k));
            low[k] = _mm512_min_ps(v, low[k]); /* the right one where a NaN is */
            high[k] = _mm512_max_ps(v, high[k]);
        }
    }
    for (int k = 1; k < TOGETHER; k++) {
        low[0] = _mm512_min_ps(low[0], low[k]);
        high[0] = _mm512_max_ps(high[0], high[k]);
    }
    extremes[0] = _mm512_reduce_min_ps(low[0]);
    extremes[1] = _mm512_reduce_max_ps(high[0]);
}
#else
static void find_extremes_512(const float *x, int64_t count, float *extremes) {
    find_extremes(x, count, extremes);
}
#endif

static void extremes_member(void *context, int member, int members) {
    const dynamic_job *job = context;
    const int64_t each = (job->count + members - 1) / members, begin = member * each;
    const int64_t rest = begin < job->count ? job->count - begin : 0;
    (HAS_QUANTIZE_512 ? find_extremes_512 : find_extremes)(
        job->x + (rest ? begin : 0), rest < each ? rest : each, job->extremes + 2 * member);
}

static base_status run_dynamic(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                               void *scratch, base_report *report) {
    const quantize_state *state = prepared->state;
    const int members = state->length < RT_PARALLEL_WORK ? 1 : prepared->threads;
    dynamic_job job = {.x = inputs[0].data, .count = state->length, .extremes = scratch};
    float low = 0, high = 0;
    if (state->length) {
        for (int i = 0; i < 2 * members; i++) job.extremes[i] = 0;
        rt_team_run(members, extremes_member, &job);
        for (int i = 0; i < members; i++) {
            low = job.extremes[2 * i] < low ? job.extremes[2 * i] : low;
            high = job.extremes[2 * i + 1] > high ? job.extremes[2 * i + 1] : high;
        }
    }
    /* All zeros: any scale is right, and this one can be divided by. */
    const float scale = high == low ? 1 : (high - low) / 255;
    const uint8_t zero = (uint8_t)(int32_t)rt_round_within(0 - low / scale, 0, 255);
    *(float *)outputs[1].data = scale;
    *(uint8_t *)outputs[2].data = zero;
    op_tensor parts[] = {inputs[0], outputs[1], outputs[2]};
    return run(prepared, parts, outputs, NULL, report);
}

static base_status prepare_dynamic(const op_call *call, const rt_environment *environment, base_arena *arena,
                                   rt_prepared *prepared, base_report *report) {
    quantize_state *state = BASE_NEW(arena, quantize_state);
    if (!state) return base_fail_memory(report);
    *state = (quantize_state){.from = OP_FLOAT, .to = OP_UINT8, .rows = 1, .channels = 1, .zeros = true};
    op_shape_elements(&call->inputs[0].type.shape, &state->length);
    prepared->state = state;
    prepared->run = run_dynamic;
    prepared->scratch_bytes = 2 * sizeof(float) * (size_t)environment->threads;
    return BASE_OK;
}

const rt_kernel rt_kernel_dynamic_quantize_linear = {.name = "portable.dynamic_quantize_linear",
                                                     .accepts = rt_accepts_any_row_major,
                                                     .prepare = prepare_dynamic};
