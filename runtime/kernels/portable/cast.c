/* SPDX-License-Identifier: Apache-2.0 */
/* cast.c: conversion between element types.
 *
 * What ONNX leaves open is defined here: a real that does not fit an integer gives the nearest end of its
 * range, a NaN gives 0; integers keep their low bits; a real becomes true when it is not 0 (a NaN too). Reals
 * are rounded to nearest, ties to even. Strings are read as C reads numbers, with INF and NaN in any case,
 * and must be numbers from end to end; reals are printed with as few digits as read back to the same number.
 */
#include "ir/operators/small.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/lanes.h"
#include "runtime/kernels/portable/product.h"
#include <errno.h>
#if RT_X86_KERNELS
#include <immintrin.h>
#endif
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void cast_function(void *to, const void *from, int64_t count);

/* In place is allowed where the sizes are equal; the loops of equal sizes may be vectorised all the same. */
#define CAST(name, clones, source, target, expression)                                                       \
    clones static void name(void *to, const void *from, int64_t count) {                                     \
        target *y = to;                                                                                      \
        const source *x = from;                                                                              \
        RT_VECTOR for (int64_t i = 0; i < count; i++) {                                                      \
            const source a = x[i];                                                                           \
            y[i] = (target)(expression);                                                                     \
        }                                                                                                    \
    }

/* These clones have instructions for integers of 64 bits; nothing here multiplies and adds. */
#define CLONES RT_CLONES_FUSED

/* From a real to an integer whose range is [low, beyond): both are exact in double, and in float too. The
 * value is brought into the range first, so that the conversion itself is always defined. */
#define REAL_TO_INTEGER(name, source, target, low, high, beyond)                                             \
    CAST(name, CLONES, source, target,                                                                       \
         (a >= (source)(beyond) ? (high)                                                                     \
          : a > (source)(low)   ? (target)a                                                                  \
          : a <= (source)(low)  ? (low)                                                                      \
                                : 0))

#define FROM_REAL(real, type)                                                                                \
    REAL_TO_INTEGER(real##_to_int8, type, int8_t, INT8_MIN, INT8_MAX, 0x1p7)                                 \
    REAL_TO_INTEGER(real##_to_int16, type, int16_t, INT16_MIN, INT16_MAX, 0x1p15)                            \
    REAL_TO_INTEGER(real##_to_int32, type, int32_t, INT32_MIN, INT32_MAX, 0x1p31)                            \
    REAL_TO_INTEGER(real##_to_int64, type, int64_t, INT64_MIN, INT64_MAX, 0x1p63)                            \
    REAL_TO_INTEGER(real##_to_uint8, type, uint8_t, 0, UINT8_MAX, 0x1p8)                                     \
    REAL_TO_INTEGER(real##_to_uint16, type, uint16_t, 0, UINT16_MAX, 0x1p16)                                 \
    REAL_TO_INTEGER(real##_to_uint32, type, uint32_t, 0, UINT32_MAX, 0x1p32)                                 \
    REAL_TO_INTEGER(real##_to_uint64, type, uint64_t, 0, UINT64_MAX, 0x1p64)                                 \
    CAST(real##_to_bool, CLONES, type, uint8_t, a != 0)

#define FROM_INTEGER(name, type)                                                                             \
    CAST(name##_to_float, CLONES, type, float, a)                                                            \
    CAST(name##_to_double, CLONES, type, double, a)                                                          \
    CAST(name##_to_int8, CLONES, type, uint8_t, a)                                                           \
    CAST(name##_to_int16, CLONES, type, uint16_t, a)                                                         \
    CAST(name##_to_int32, CLONES, type, uint32_t, a)                                                         \
    CAST(name##_to_int64, CLONES, type, int64_t, a)                                                          \
    CAST(name##_to_bool, CLONES, type, uint8_t, a != 0)                                                      \
    CAST_BY_FLOATS(name##_to_half, type, OP_FLOAT16, floats_of_##name)                                       \
    CAST_BY_FLOATS(name##_to_brain, type, OP_BFLOAT16, floats_of_##name)

/* To 16 bits by floats, some at a time. */
#define CAST_BY_FLOATS(name, type, dtype, convert)                                                           \
    static void name(void *to, const void *from, int64_t count) {                                            \
        _Alignas(RT_ALIGNMENT) float block[RT_HALF_BLOCK];                                                   \
        for (int64_t i = 0; i < count; i += RT_HALF_BLOCK) {                                                 \
            const int64_t some = count - i < RT_HALF_BLOCK ? count - i : RT_HALF_BLOCK;                      \
            convert(block, (const type *)from + i, some);                                                    \
            rt_half_store(dtype, (uint16_t *)to + i, block, some);                                           \
        }                                                                                                    \
    }
/* Floats from which 16 bits are rounded as if from the number itself: where it is no float, the one of both beside it whose last digit is
 * 1, which is no tie of fewer digits, as it might be if it were the nearest. */
#define ODD_FLOATS(name, type)                                                                               \
    RT_CLONES static void floats_of_##name(float *restrict to, const type *restrict from, int64_t count) {   \
        RT_VECTOR for (int64_t i = 0; i < count; i++) {                                                      \
            const double number = (double)from[i];                                                           \
            const float nearest = (float)number;                                                             \
            const double there = (double)nearest;                                                            \
            uint32_t bits;                                                                                   \
            memcpy(&bits, &nearest, sizeof bits);                                                            \
            bits -= fabs(there) > fabs(number);                                                              \
            bits |= there != number;                                                                         \
            memcpy(&to[i], &bits, sizeof bits);                                                              \
        }                                                                                                    \
    }
#define EXACT_FLOATS(name, type)                                                                             \
    RT_CLONES static void floats_of_##name(float *restrict to, const type *restrict from, int64_t count) {   \
        for (int64_t i = 0; i < count; i++) to[i] = (float)from[i];                                          \
    }
ODD_FLOATS(double, double)
ODD_FLOATS(int32, int32_t)
ODD_FLOATS(int64, int64_t)
ODD_FLOATS(uint32, uint32_t)
ODD_FLOATS(uint64, uint64_t)
EXACT_FLOATS(int8, int8_t)
EXACT_FLOATS(int16, int16_t)
EXACT_FLOATS(uint8, uint8_t)
EXACT_FLOATS(uint16, uint16_t)

FROM_REAL(plain, float)
FROM_REAL(all, double)
CAST(float_to_double, RT_CLONES, float, double, a)
CAST(double_to_float, RT_CLONES, double, float, a)
CAST_BY_FLOATS(double_to_half, double, OP_FLOAT16, floats_of_double)
CAST_BY_FLOATS(double_to_brain, double, OP_BFLOAT16, floats_of_double)
FROM_INTEGER(int8, int8_t)
FROM_INTEGER(int16, int16_t)
FROM_INTEGER(int32, int32_t)
FROM_INTEGER(int64, int64_t)
FROM_INTEGER(uint8, uint8_t)
FROM_INTEGER(uint16, uint16_t)
FROM_INTEGER(uint32, uint32_t)
FROM_INTEGER(uint64, uint64_t)

static void half_to_float(void *to, const void *from, int64_t count) {
    rt_half_load(OP_FLOAT16, to, from, count);
}
static void brain_to_float(void *to, const void *from, int64_t count) {
    rt_half_load(OP_BFLOAT16, to, from, count);
}

static void float_to_half(void *to, const void *from, int64_t count) {
    rt_half_store(OP_FLOAT16, to, from, count);
}
static void float_to_brain(void *to, const void *from, int64_t count) {
    rt_half_store(OP_BFLOAT16, to, from, count);
}

/* ---- floats to integers with AVX-512: the same numbers --------------------------------------------------- */

#if RT_X86_KERNELS
#define WIDE __attribute__((target("avx512f")))
#define WIDEST __attribute__((target("avx512f,avx512dq")))
enum { FLOATS = 16 };
#define HAS_WIDE __builtin_cpu_supports("avx512f")
#define HAS_WIDEST (HAS_WIDE && __builtin_cpu_supports("avx512dq"))

/* Sixteen floats x at a time, fewer at the end, whose lanes are `some`; `real` are those that are no NaNs. */
#define CUT_WIDE(name, wide, target, cut)                                                                    \
    wide static void name(void *to, const void *from, int64_t count) {                                       \
        target *y = to;                                                                                      \
        for (int64_t i = 0; i < count; i += FLOATS) {                                                        \
            const __mmask16 some = rt_first_lanes_16(count - i);                                             \
            const __m512 x = _mm512_maskz_loadu_ps(some, (const float *)from + i);                           \
            const __mmask16 real = _mm512_cmp_ps_mask(x, x, _CMP_ORD_Q);                                     \
            cut;                                                                                             \
        }                                                                                                    \
    }
#define WITHIN(low, high)                                                                                    \
    _mm512_cvttps_epi32(                                                                                     \
        _mm512_min_ps(_mm512_maskz_max_ps(real, x, _mm512_set1_ps(low)), _mm512_set1_ps(high)))
/* What is too large for a signed integer becomes the smallest one, and is mended. */
#define ABOVE(limit) _mm512_cmp_ps_mask(x, _mm512_set1_ps(limit), _CMP_GE_OQ)
#define HIGH_HALF(x) _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1))
#define STORE_LONGS(longs, at, lanes) _mm512_mask_storeu_epi64(y + i + (at), (__mmask8)(lanes), longs)
#define SIGNED_LONGS(floats, lanes, above)                                                                   \
    _mm512_mask_mov_epi64(_mm512_maskz_cvttps_epi64((__mmask8)(lanes), floats), (__mmask8)(above),           \
                          _mm512_set1_epi64(INT64_MAX))
#define LONGS(convert)                                                                                       \
    const __m256 low = _mm512_castps512_ps256(x), high = HIGH_HALF(x);                                       \
    const __mmask16 above = ABOVE(0x1p63f);                                                                  \
    (void)above;                                                                                             \
    STORE_LONGS(convert(low, real, above), 0, some);                                                         \
    if (some >> 8) STORE_LONGS(convert(high, real >> 8, above >> 8), 8, some >> 8)
#define UNSIGNED_LONGS(floats, lanes, above)                                                                 \
    _mm512_maskz_cvttps_epu64((__mmask8)(lanes), _mm256_max_ps(floats, _mm256_setzero_ps()))

CUT_WIDE(wide_to_int8, WIDE, int8_t,
         _mm512_mask_cvtepi32_storeu_epi8(y + i, some, WITHIN(INT8_MIN, INT8_MAX)))
CUT_WIDE(wide_to_uint8, WIDE, uint8_t, _mm512_mask_cvtepi32_storeu_epi8(y + i, some, WITHIN(0, UINT8_MAX)))
CUT_WIDE(wide_to_int16, WIDE, int16_t,
         _mm512_mask_cvtepi32_storeu_epi16(y + i, some, WITHIN(INT16_MIN, INT16_MAX)))
CUT_WIDE(wide_to_uint16, WIDE, uint16_t,
         _mm512_mask_cvtepi32_storeu_epi16(y + i, some, WITHIN(0, UINT16_MAX)))
CUT_WIDE(wide_to_int32, WIDE, int32_t,
         _mm512_mask_storeu_epi32(y + i, some,
                                  _mm512_mask_mov_epi32(_mm512_maskz_cvttps_epi32(real, x), ABOVE(0x1p31f),
                                                        _mm512_set1_epi32(INT32_MAX))))
CUT_WIDE(wide_to_uint32, WIDE, uint32_t,
         _mm512_mask_storeu_epi32(y + i, some,
                                  _mm512_maskz_cvttps_epu32(real, _mm512_max_ps(x, _mm512_setzero_ps()))))
CUT_WIDE(wide_to_int64, WIDEST, int64_t, LONGS(SIGNED_LONGS))
CUT_WIDE(wide_to_uint64, WIDEST, uint64_t, LONGS(UNSIGNED_LONGS))

/* Sixteen doubles at a time, cut to their range and converted, what is not a number to 0. */
#define CUT_SIXTEEN(name, convert, low, high)                                                                \
    WIDE static inline __m512i name(const double *from, __mmask16 some) {                                    \
        __m256i parts[2];                                                                                    \
        for (int k = 0; k < 2; k++) {                                                                        \
            const __m512d x = _mm512_maskz_loadu_pd((__mmask8)(some >> 8 * k), from + 8 * k);                \
            const __mmask8 real = _mm512_cmp_pd_mask(x, x, _CMP_ORD_Q);                                      \
            parts[k] = convert(                                                                              \
                _mm512_min_pd(_mm512_maskz_max_pd(real, x, _mm512_set1_pd(low)), _mm512_set1_pd(high)));     \
        }                                                                                                    \
        return _mm512_inserti64x4(_mm512_castsi256_si512(parts[0]), parts[1], 1);                            \
    }
CUT_SIXTEEN(sixteen_signed, _mm512_cvttpd_epi32, INT32_MIN, INT32_MAX)
CUT_SIXTEEN(sixteen_unsigned, _mm512_cvttpd_epu32, 0, UINT32_MAX)

/* The conversion gives `odd` where a number is beyond 32 bits or none, and for one number besides. All of sixteen that are others are converted
 * as they are; stores cut integers to fewer bits. */
#define CUT_DOUBLES(name, target, convert, odd, cut, store)                                                  \
    WIDE static void name(void *to, const void *from, int64_t count) {                                       \
        target *y = to;                                                                                      \
        const double *x = from;                                                                              \
        int64_t i = 0;                                                                                       \
        for (; i + FLOATS <= count; i += FLOATS) {                                                           \
            const __m256i low = convert(_mm512_loadu_pd(x + i)), high = convert(_mm512_loadu_pd(x + i + 8)); \
            __m512i all = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);                          \
            if (_mm512_cmpeq_epi32_mask(all, _mm512_set1_epi32(odd))) all = cut(x + i, 0xffff);              \
            store(y + i, (__mmask16)0xffff, all);                                                            \
        }                                                                                                    \
        const __mmask16 rest = rt_first_lanes_16(count - i);                                                 \
        if (rest) store(y + i, rest, cut(x + i, rest));                                                      \
    }
#define FROM_ZERO(all) _mm512_max_epi32(all, _mm512_setzero_si512())
#define STORE_UINT8(y, some, all) _mm512_mask_cvtusepi32_storeu_epi8(y, some, FROM_ZERO(all))
#define STORE_UINT16(y, some, all) _mm512_mask_cvtusepi32_storeu_epi16(y, some, FROM_ZERO(all))
CUT_DOUBLES(doubles_to_int8, int8_t, _mm512_cvttpd_epi32, INT32_MIN, sixteen_signed,
            _mm512_mask_cvtsepi32_storeu_epi8)
CUT_DOUBLES(doubles_to_uint8, uint8_t, _mm512_cvttpd_epi32, INT32_MIN, sixteen_signed, STORE_UINT8)
CUT_DOUBLES(doubles_to_int16, int16_t, _mm512_cvttpd_epi32, INT32_MIN, sixteen_signed,
            _mm512_mask_cvtsepi32_storeu_epi16)
CUT_DOUBLES(doubles_to_uint16, uint16_t, _mm512_cvttpd_epi32, INT32_MIN, sixteen_signed, STORE_UINT16)
CUT_DOUBLES(doubles_to_int32, int32_t, _mm512_cvttpd_epi32, INT32_MIN, sixteen_signed,
            _mm512_mask_storeu_epi32)
CUT_DOUBLES(doubles_to_uint32, uint32_t, _mm512_cvttpd_epu32, -1, sixteen_unsigned, _mm512_mask_storeu_epi32)
#define BY_MACHINE(has, wide, plain) (has) ? (wide) : (plain)
#else
#define BY_MACHINE(has, wide, plain) (plain)
#endif

#define FLOAT_TO(type, has)                                                                                  \
    static void float_to_##type(void *to, const void *from, int64_t count) {                                 \
        (BY_MACHINE(has, wide_to_##type, plain_to_##type))(to, from, count);                                 \
    }
FLOAT_TO(int8, HAS_WIDE)
FLOAT_TO(int16, HAS_WIDE)
FLOAT_TO(int32, HAS_WIDE)
FLOAT_TO(int64, HAS_WIDEST)
FLOAT_TO(uint8, HAS_WIDE)
FLOAT_TO(uint16, HAS_WIDE)
FLOAT_TO(uint32, HAS_WIDE)
FLOAT_TO(uint64, HAS_WIDEST)

#define DOUBLE_TO(type)                                                                                      \
    static void double_to_##type(void *to, const void *from, int64_t count) {                                \
        (BY_MACHINE(HAS_WIDE, doubles_to_##type, all_to_##type))(to, from, count);                           \
    }
DOUBLE_TO(int8)
DOUBLE_TO(int16)
DOUBLE_TO(int32)
DOUBLE_TO(uint8)
DOUBLE_TO(uint16)
DOUBLE_TO(uint32)

static void double_to_int64(void *to, const void *from, int64_t count) {
    all_to_int64(to, from, count);
}

static void double_to_uint64(void *to, const void *from, int64_t count) {
    all_to_uint64(to, from, count);
}

static void double_to_bool(void *to, const void *from, int64_t count) {
    all_to_bool(to, from, count);
}

static void float_to_bool(void *to, const void *from, int64_t count) {
    plain_to_bool(to, from, count);
}

#define TO_INTEGERS(name)                                                                                    \
    [OP_INT8] = name##_to_int8, [OP_INT16] = name##_to_int16, [OP_INT32] = name##_to_int32,                  \
    [OP_INT64] = name##_to_int64, [OP_UINT8] = name##_to_int8, [OP_UINT16] = name##_to_int16,                \
    [OP_UINT32] = name##_to_int32, [OP_UINT64] = name##_to_int64, [OP_FLOAT] = name##_to_float,              \
    [OP_DOUBLE] = name##_to_double, [OP_BOOL] = name##_to_bool, [OP_FLOAT16] = name##_to_half,               \
    [OP_BFLOAT16] = name##_to_brain
#define TO_CUT_INTEGERS(name)                                                                                \
    [OP_INT8] = name##_to_int8, [OP_INT16] = name##_to_int16, [OP_INT32] = name##_to_int32,                  \
    [OP_INT64] = name##_to_int64, [OP_UINT8] = name##_to_uint8, [OP_UINT16] = name##_to_uint16,              \
    [OP_UINT32] = name##_to_uint32, [OP_UINT64] = name##_to_uint64, [OP_BOOL] = name##_to_bool,              \
    [OP_FLOAT16] = name##_to_half, [OP_BFLOAT16] = name##_to_brain

/* Between numbers. Half precision as the source goes through float, which holds it exactly. */
static cast_function *const functions[OP_DTYPE_COUNT][OP_DTYPE_COUNT] = {
    [OP_FLOAT] = {TO_CUT_INTEGERS(float), [OP_DOUBLE] = float_to_double},
    [OP_DOUBLE] = {TO_CUT_INTEGERS(double), [OP_FLOAT] = double_to_float},
    [OP_INT8] = {TO_INTEGERS(int8)},
    [OP_INT16] = {TO_INTEGERS(int16)},
    [OP_INT32] = {TO_INTEGERS(int32)},
    [OP_INT64] = {TO_INTEGERS(int64)},
    [OP_UINT8] = {TO_INTEGERS(uint8)},
    [OP_UINT16] = {TO_INTEGERS(uint16)},
    [OP_UINT32] = {TO_INTEGERS(uint32)},
    [OP_UINT64] = {TO_INTEGERS(uint64)},
    [OP_BOOL] = {TO_INTEGERS(uint8)},
    [OP_FLOAT16] = {[OP_FLOAT] = half_to_float},
    [OP_BFLOAT16] = {[OP_FLOAT] = brain_to_float},
};

/* Enough for the text of one number. */
enum { NUMBER_TEXT = 32 };

typedef struct cast_state {
    cast_function *function;
    int64_t count;
    op_dtype from, to;
    size_t from_size, to_size;
    base_arena *texts; /* for the characters of a cast to strings */
    bool saturate;     /* of a cast to small floats, as `rounding` */
    op_rounding rounding;
} cast_state;

/* ---- numbers ------------------------------------------------------------------------------------------- */

typedef struct cast_context {
    const cast_state *state;
    char *to;
    const char *from;
} cast_context;

static void convert(void *user, int64_t begin, int64_t end) {
    const cast_context *context = user;
    const cast_state *state = context->state;
    char *to = context->to + begin * (int64_t)state->to_size;
    const char *from = context->from + begin * (int64_t)state->from_size;
    if (state->function) {
        state->function(to, from, end - begin);
        return;
    }
    _Alignas(RT_ALIGNMENT) float block[RT_HALF_BLOCK];
    for (int64_t i = begin; i < end; i += RT_HALF_BLOCK) {
        int64_t count = end - i < RT_HALF_BLOCK ? end - i : RT_HALF_BLOCK;
        rt_half_load(state->from, block, (const uint16_t *)(const void *)from, count);
        functions[OP_FLOAT][state->to](to, block, count);
        from += count * (int64_t)state->from_size;
        to += count * (int64_t)state->to_size;
    }
}

static base_status run_small(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                             void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const cast_state *state = prepared->state;
    state->function(outputs[0].data, inputs[0].data, state->count);
    return BASE_OK;
}

static base_status run_large(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                             void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const cast_state *state = prepared->state;
    cast_context context = {state, outputs[0].data, inputs[0].data};
    rt_parallel(prepared->threads, state->count, 1, convert, &context);
    return BASE_OK;
}

static base_status run_same(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                            void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    rt_copy_bytes(prepared->threads, outputs[0].data, inputs[0].data, outputs[0].bytes);
    return BASE_OK;
}

/* ---- small numbers ------------------------------------------------------------------------------------- */

static bool is_real(op_dtype dtype) {
    return dtype == OP_FLOAT || dtype == OP_DOUBLE || rt_is_half(dtype);
}

static bool is_small_integer(op_dtype dtype) {
    return dtype == OP_INT4 || dtype == OP_UINT4 || dtype == OP_INT2 || dtype == OP_UINT2;
}

/* Element `index` from or to a type of small.h. Small integers get low bits; a number of any other kind is one of double. */
static void convert_small(const cast_state *state, void *to, const void *from, int64_t index) {
    double value;
    if (op_dtype_is_small(state->from)) {
        value = (double)op_small_value(state->from, op_small_load(state->from, from, index));
    } else if (is_real(state->from)) {
        value = rt_element_load(state->from, from, index);
    } else {
        const int64_t whole = rt_integer_load(state->from, from, index);
        if (is_small_integer(state->to)) {
            op_small_store(state->to, to, index, (uint8_t)whole);
            return;
        }
        value = state->from == OP_UINT64 ? (double)(uint64_t)whole : (double)whole;
    }
    if (is_small_integer(state->to)) { /* low bits are kept of what is before the point */
        int64_t whole;
        double_to_int64(&whole, &value, 1);
        op_small_store(state->to, to, index, (uint8_t)whole);
    } else if (op_dtype_is_small(state->to)) {
        op_small_store(state->to, to, index,
                       op_small_code(state->to, value, state->saturate, state->rounding));
    } else if (is_real(state->to)) {
        rt_element_store(state->to, to, index, value);
    } else {
        /* Each of the others takes a double as C does, after it has been brought into range. */
        functions[OP_DOUBLE][state->to]((char *)to + (size_t)index * state->to_size, &value, 1);
    }
}

static void convert_range(void *user, int64_t begin, int64_t end) {
    const cast_context *context = user;
    for (int64_t i = begin; i < end; i++) convert_small(context->state, context->to, context->from, i);
}

/* Elements that share a byte are written by one thread, and over nothing: an input in place has as many bits. */
static base_status run_small_numbers(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                                     void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const cast_state *state = prepared->state;
    cast_context context = {state, outputs[0].data, inputs[0].data};
    const bool packed = op_dtype_is_packed(state->to);
    if (packed && outputs[0].data != inputs[0].data) memset(outputs[0].data, 0, outputs[0].bytes);
    rt_parallel(packed ? 1 : prepared->threads, state->count, 8, convert_range, &context);
    return BASE_OK;
}

/* ---- strings ------------------------------------------------------------------------------------------- */

/* With so many digits, and whether that reads back to the same number. */
static bool print_digits(char *text, double value, bool single, int digits, int *length) {
    *length = snprintf(text, NUMBER_TEXT, "%.*g", digits, value);
    return single ? strtof(text, NULL) == (float)value : strtod(text, NULL) == value;
}

/* The shortest decimal that reads back to the same number. `single`: as a float. */
static int print_real(char *text, double value, bool single) {
    if (isnan(value)) return snprintf(text, NUMBER_TEXT, "NaN");
    if (isinf(value)) return snprintf(text, NUMBER_TEXT, value < 0 ? "-INF" : "INF");
    /* More digits than enough are enough, too, and so many are searched for by halves; but not where numbers lie closer below than above. */
    int length = 0, enough = single ? 9 : 17, printed = 0, exponent;
    const double size = fabs(frexp(value, &exponent));
    for (int few = 0; enough - few > 1;) {
        printed = size <= 0.5 ? few + 1 : few + (enough - few) / 2;
        if (print_digits(text, value, single, printed, &length)) enough = printed;
        else few = printed;
    }
    if (printed != enough) (void)print_digits(text, value, single, enough, &length);
    return length;
}

static int print_whole(char *text, uint64_t size, bool negative) {
    char digits[20];
    int count = 0, length = 0;
    do digits[count++] = (char)('0' + size % 10);
    while (size /= 10);
    if (negative) text[length++] = '-';
    while (count > 0) text[length++] = digits[--count];
    text[length] = 0;
    return length;
}

#define PRINT_INTEGER(dtype, type)                                                                           \
    case dtype: {                                                                                            \
        const type value = ((const type *)from)[index];                                                      \
        return print_whole(text, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, value < 0);              \
    }
#define PRINT_NATURAL(dtype, type)                                                                           \
    case dtype:                                                                                              \
        return print_whole(text, ((const type *)from)[index], false)

static int print_number(char *text, op_dtype dtype, const void *from, int64_t index) {
    switch (dtype) {
        PRINT_INTEGER(OP_INT8, int8_t)
        PRINT_INTEGER(OP_INT16, int16_t)
        PRINT_INTEGER(OP_INT32, int32_t)
        PRINT_INTEGER(OP_INT64, int64_t)
        PRINT_NATURAL(OP_UINT8, uint8_t);
        PRINT_NATURAL(OP_UINT16, uint16_t);
        PRINT_NATURAL(OP_UINT32, uint32_t);
        PRINT_NATURAL(OP_UINT64, uint64_t);
    case OP_BOOL:
        return snprintf(text, NUMBER_TEXT, "%s", ((const uint8_t *)from)[index] ? "True" : "False");
    case OP_FLOAT:
        return print_real(text, (double)((const float *)from)[index], true);
    case OP_DOUBLE:
        return print_real(text, ((const double *)from)[index], false);
    case OP_FLOAT16:
        return print_real(text, (double)base_float_from_half(((const uint16_t *)from)[index]), true);
    case OP_BFLOAT16:
        return print_real(text, (double)base_float_from_bfloat16(((const uint16_t *)from)[index]), true);
    default:
        if (op_dtype_is_small(dtype))
            return print_real(text, (double)op_small_value(dtype, op_small_load(dtype, from, index)), true);
        text[0] = 0;
        return 0;
    }
}

static base_status run_to_string(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                                 void *scratch, base_report *report) {
    (void)scratch;
    const cast_state *state = prepared->state;
    op_string *to = outputs[0].data;
    for (int64_t i = 0; i < state->count; i++) {
        char text[NUMBER_TEXT] = {0};
        size_t length = (size_t)print_number(text, state->from, inputs[0].data, i);
        const char *kept = base_arena_text(state->texts, text, length);
        if (!kept) return base_fail_memory(report);
        to[i] = (op_string){kept, length};
    }
    return BASE_OK;
}

/* Stores the number that the text spells; false where it spells none, or none of this type. */
static bool read_number(const char *text, op_dtype dtype, void *to, int64_t index) {
    char *end;
    double real = 0.0;
    int64_t integer = 0;
    uint64_t natural = 0;
    if (text[0] == 0) return false;
    if (op_dtype_is_small(dtype)) {
        real = strtod(text, &end);
        if (*end == 0) op_small_store(dtype, to, index, op_small_code(dtype, real, true, OP_ROUND_UP));
        return *end == 0;
    }
    switch (dtype) {
    case OP_FLOAT:
        ((float *)to)[index] = strtof(text, &end);
        return *end == 0;
    case OP_DOUBLE:
    case OP_FLOAT16:
    case OP_BFLOAT16:
        real = strtod(text, &end);
        if (*end != 0) return false;
        if (dtype == OP_DOUBLE) ((double *)to)[index] = real;
        else if (dtype == OP_FLOAT16) ((uint16_t *)to)[index] = base_half_from_double(real);
        else ((uint16_t *)to)[index] = base_bfloat16_from_double(real);
        return true;
    case OP_BOOL:
        if (strcmp(text, "True") == 0 || strcmp(text, "true") == 0) natural = 1;
        else if (strcmp(text, "False") == 0 || strcmp(text, "false") == 0) natural = 0;
        else {
            natural = strtod(text, &end) != 0.0;
            if (*end != 0) return false;
        }
        ((uint8_t *)to)[index] = (uint8_t)natural;
        return true;
    case OP_UINT8:
    case OP_UINT16:
    case OP_UINT32:
    case OP_UINT64: {
        if (strchr(text, '-')) return false;
        errno = 0;
        natural = strtoull(text, &end, 10);
        unsigned bits = (unsigned)(8 * op_dtype_bytes(dtype));
        if (*end != 0 || errno != 0 || (bits < 64 && natural >> bits)) return false;
        if (dtype == OP_UINT8) ((uint8_t *)to)[index] = (uint8_t)natural;
        else if (dtype == OP_UINT16) ((uint16_t *)to)[index] = (uint16_t)natural;
        else if (dtype == OP_UINT32) ((uint32_t *)to)[index] = (uint32_t)natural;
        else ((uint64_t *)to)[index] = natural;
        return true;
    }
    default: {
        errno = 0;
        integer = strtoll(text, &end, 10);
        unsigned bits = (unsigned)(8 * op_dtype_bytes(dtype));
        int64_t limit = bits < 64 ? (int64_t)1 << (bits - 1) : 0;
        if (*end != 0 || errno != 0 || (bits < 64 && (integer < -limit || integer >= limit))) return false;
        if (dtype == OP_INT8) ((int8_t *)to)[index] = (int8_t)integer;
        else if (dtype == OP_INT16) ((int16_t *)to)[index] = (int16_t)integer;
        else if (dtype == OP_INT32) ((int32_t *)to)[index] = (int32_t)integer;
        else ((int64_t *)to)[index] = integer;
        return true;
    }
    }
}

static base_status run_from_string(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                                   void *scratch, base_report *report) {
    (void)scratch;
    const cast_state *state = prepared->state;
    const op_string *from = inputs[0].data;
    if (op_dtype_is_packed(state->to)) memset(outputs[0].data, 0, outputs[0].bytes);
    for (int64_t i = 0; i < state->count; i++) {
        char text[1024]; /* the digits of the longest double that anyone prints in full, and then some */
        bool fits = from[i].length < sizeof text;
        if (fits) {
            if (from[i].length) memcpy(text, from[i].data, from[i].length);
            text[from[i].length] = 0;
        }
        if (!fits || strlen(text) != from[i].length || !read_number(text, state->to, outputs[0].data, i)) {
            int shown = from[i].length < 40 ? (int)from[i].length : 40;
            return base_fail(report, BASE_INVALID,
                             "element %" PRId64 " of input 0 is \"%.*s\", expected a number of type %s", i,
                             shown, shown ? from[i].data : "", op_dtype_name(state->to));
        }
    }
    return BASE_OK;
}

/* ---- the kernel ---------------------------------------------------------------------------------------- */

static bool is_number(op_dtype dtype) {
    return dtype > OP_NONE && dtype < OP_DTYPE_COUNT && dtype != OP_STRING && dtype != OP_COMPLEX64 &&
           dtype != OP_COMPLEX128;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    op_dtype from = call->inputs[0].type.dtype, to = call->outputs[0].type.dtype;
    bool text = from == OP_STRING || to == OP_STRING;
    if (text && call->outputs[0].type.layout != OP_LAYOUT_ROW_MAJOR) return false;
    return (is_number(from) || from == OP_STRING) && (is_number(to) || to == OP_STRING) &&
           rt_accepts_layouts(call, 1, true);
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    cast_state *state = BASE_NEW(arena, cast_state);
    if (!state) return base_fail_memory(report);
    state->from = call->inputs[0].type.dtype;
    state->to = call->outputs[0].type.dtype;
    state->from_size = op_dtype_bytes(state->from);
    state->to_size = op_dtype_bytes(state->to);
    state->count = rt_stored_elements(&call->outputs[0].type);
    state->saturate = op_attribute_integer(&call->attributes, "saturate", 1) != 0;
    state->rounding = op_attribute_is(&call->attributes, "round_mode", "down", "up")      ? OP_ROUND_DOWN
                      : op_attribute_is(&call->attributes, "round_mode", "nearest", "up") ? OP_ROUND_NEAREST
                                                                                          : OP_ROUND_UP;
    state->function = functions[state->from][state->to];
    prepared->state = state;
    if (state->from == state->to) {
        prepared->run = run_same;
    } else if (state->to == OP_STRING) {
        state->texts = environment->texts ? environment->texts : arena;
        prepared->run = run_to_string;
    } else if (state->from == OP_STRING) {
        prepared->run = run_from_string;
    } else if (op_dtype_is_small(state->from) || op_dtype_is_small(state->to)) {
        prepared->run = run_small_numbers;
    } else {
        prepared->run = state->function && state->count < RT_PARALLEL_WORK ? run_small : run_large;
    }
    return BASE_OK;
}

const rt_kernel rt_kernel_cast = {.name = "portable.cast", .accepts = accepts, .prepare = prepare};
