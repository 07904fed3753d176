/* SPDX-License-Identifier: Apache-2.0 */
/* requantize.c: from sums to quantised numbers; see integer_product.h. */
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/integer_product.h"
#include "runtime/kernels/portable/lanes.h"
#include "runtime/kernels/portable/quantize_lanes.h"
#include <string.h>

/* rt_round_within(value, low - zero, high - zero) + zero, as the byte that it is: the last bits of what rounding adds to are zeros. */
static inline uint8_t rounded_byte(float value, float low, float high, uint32_t zero) {
    uint32_t bits;
    value = value > low ? value : low;
    value = (value < high ? value : high) + 12582912.0f;
    memcpy(&bits, &value, sizeof bits);
    return (uint8_t)(bits + zero);
}

#define REQUANTIZE(type, low, high)                                                                          \
    RT_CLONES static void requantize_##type(const int32_t *sums, uint8_t *y, int64_t count, uint32_t bias,   \
                                            float scale, int32_t zero) {                                     \
        const float least = (float)((low)-zero), most = (float)((high)-zero);                                \
        RT_VECTOR for (int64_t i = 0; i < count; i++) {                                                      \
            const float value = (float)(int32_t)((uint32_t)sums[i] + bias) * scale;                          \
            y[i] = rounded_byte(value, least, most, (uint32_t)zero);                                         \
        }                                                                                                    \
    }                                                                                                        \
    RT_CLONES static void requantize_each_##type(const int32_t *sums, uint8_t *y, int64_t count,             \
                                                 uint32_t bias, float a_scale, const float *b_scale,         \
                                                 float y_scale, int32_t zero) {                              \
        const float least = (float)((low)-zero), most = (float)((high)-zero);                                \
        RT_VECTOR for (int64_t i = 0; i < count; i++) {                                                      \
            const float value =                                                                              \
                (float)(int32_t)((uint32_t)sums[i] + bias) * (a_scale * b_scale[i] / y_scale);               \
            y[i] = rounded_byte(value, least, most, (uint32_t)zero);                                         \
        }                                                                                                    \
    }
/* Of scales that are put together already. */
RT_CLONES static void requantize_scaled(const int32_t *sums, uint8_t *y, int64_t count, uint32_t bias,
                                        const float *scales, float low, float high, uint32_t zero) {
    RT_VECTOR for (int64_t i = 0; i < count; i++) y[i] =
        rounded_byte((float)(int32_t)((uint32_t)sums[i] + bias) * scales[i], low, high, zero);
}

REQUANTIZE(uint8_t, 0, 255)
REQUANTIZE(int8_t, -128, 127)

#if RT_X86_KERNELS
#define AVX512 __attribute__((target("avx512bw")))

AVX512 static inline __m512 sum_512(const int32_t *sums, int64_t left, __m512i bias) {
    return _mm512_cvtepi32_ps(
        _mm512_add_epi32(_mm512_maskz_loadu_epi32(rt_first_lanes_16(left), sums), bias));
}

AVX512 static inline void requantize_512(const int32_t *sums, uint8_t *y, int64_t count, uint32_t bias,
                                         float scale, int32_t zero, bool is_signed) {
    const __m512i more = _mm512_set1_epi32((int32_t)bias);
    const __m512 scales = _mm512_set1_ps(scale);
    __m512 values[4];
    int64_t i = 0;
    for (; i + 64 <= count; i += 64) { /* no masks */
        for (int64_t v = 0; v < 4; v++)
            values[v] = _mm512_mul_ps(
                _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_loadu_si512(sums + i + 16 * v), more)), scales);
        rt_store_bytes_64(y + i, 64, values, zero, is_signed);
    }
    if (i == count) return;
    for (int64_t v = 0; v < 4; v++)
        values[v] = _mm512_mul_ps(sum_512(sums + i + 16 * v, count - i - 16 * v, more), scales);
    rt_store_bytes_64(y + i, count - i, values, zero, is_signed);
}

AVX512 static void requantize_rows_512(const rt_requantization *how, const rt_requantized_rows *rows) {
    const bool is_signed = how->dtype == OP_INT8;
    for (int64_t i = 0; i < rows->rows; i++) {
        const float scale = how->a_scale * how->b_scale[how->each ? i : 0] / how->y_scale;
        requantize_512(rows->sums + i * rows->sums_row, rows->y + i * rows->y_row, rows->count,
                       rows->biases ? (uint32_t)rows->biases[i] : 0, scale, how->zero, is_signed);
    }
}

AVX512 static void requantize_scaled_512(const int32_t *sums, uint8_t *y, int64_t count, uint32_t bias,
                                         const float *scales, int32_t zero, bool is_signed) {
    for (int64_t i = 0; i < count; i += 64) {
        __m512 values[4];
        for (int64_t v = 0; v < 4; v++) {
            const int64_t at = i + 16 * v;
            values[v] = _mm512_mul_ps(sum_512(sums + at, count - at, _mm512_set1_epi32((int32_t)bias)),
                                      _mm512_maskz_loadu_ps(rt_first_lanes_16(count - at), scales + at));
        }
        rt_store_bytes_64(y + i, count - i, values, zero, is_signed);
    }
}

AVX512 static void requantize_floats_512(const float *sums, uint8_t *y, int64_t count, float scale,
                                         int32_t zero, bool is_signed) {
    for (int64_t i = 0; i < count; i += 64) {
        __m512 values[4];
        for (int64_t v = 0; v < 4; v++) {
            const int64_t at = i + 16 * v;
            values[v] = _mm512_mul_ps(_mm512_maskz_loadu_ps(rt_first_lanes_16(count - at), sums + at),
                                      _mm512_set1_ps(scale));
        }
        rt_store_bytes_64(y + i, count - i, values, zero, is_signed);
    }
}

static bool has_512(void) {
    return __builtin_cpu_supports("avx512bw");
}
#else
static bool has_512(void) {
    return false;
}
static void requantize_512(const int32_t *sums, uint8_t *y, int64_t count, uint32_t bias, float scale,
                           int32_t zero, bool is_signed) {
    (void)sums, (void)y, (void)count, (void)bias, (void)scale, (void)zero, (void)is_signed;
}
static void requantize_rows_512(const rt_requantization *how, const rt_requantized_rows *rows) {
    (void)how, (void)rows;
}
static void requantize_scaled_512(const int32_t *sums, uint8_t *y, int64_t count, uint32_t bias,
                                  const float *scales, int32_t zero, bool is_signed) {
    (void)sums, (void)y, (void)count, (void)bias, (void)scales, (void)zero, (void)is_signed;
}
static void requantize_floats_512(const float *sums, uint8_t *y, int64_t count, float scale, int32_t zero,
                                  bool is_signed) {
    (void)sums, (void)y, (void)count, (void)scale, (void)zero, (void)is_signed;
}
#endif

void rt_requantize(const rt_requantization *how, const int32_t *sums, int64_t count, void *y) {
    const uint32_t bias = (uint32_t)how->bias;
    const int32_t zero = how->zero, first = how->dtype == OP_INT8 ? -128 : 0;
    const bool is_signed = how->dtype == OP_INT8;
    if (how->scales) {
        if (has_512()) requantize_scaled_512(sums, y, count, bias, how->scales, zero, is_signed);
        else
            requantize_scaled(sums, y, count, bias, how->scales, (float)(first - zero),
                              (float)(first + 255 - zero), (uint32_t)zero);
        return;
    }
    const float scale = how->a_scale * how->b_scale[0] / how->y_scale;
    if (!how->each && has_512()) {
        requantize_512(sums, y, count, bias, scale, zero, is_signed);
    } else if (how->dtype == OP_UINT8) {
        if (how->each)
            requantize_each_uint8_t(sums, y, count, bias, how->a_scale, how->b_scale, how->y_scale, zero);
        else requantize_uint8_t(sums, y, count, bias, scale, zero);
    } else {
        if (how->each)
            requantize_each_int8_t(sums, y, count, bias, how->a_scale, how->b_scale, how->y_scale, zero);
        else requantize_int8_t(sums, y, count, bias, scale, zero);
    }
}

void rt_requantize_rows(const rt_requantization *how, const rt_requantized_rows *rows) {
    if (has_512()) {
        requantize_rows_512(how, rows);
        return;
    }
    for (int64_t i = 0; i < rows->rows; i++) {
        rt_requantization of_row = *how;
        of_row.b_scale = how->b_scale + (how->each ? i : 0);
        of_row.each = false;
        of_row.bias = rows->biases ? rows->biases[i] : 0;
        rt_requantize(&of_row, rows->sums + i * rows->sums_row, rows->count, rows->y + i * rows->y_row);
    }
}

RT_CLONES static void requantize_floats(const float *sums, uint8_t *y, int64_t count, float scale, float low,
                                        float high, uint32_t zero) {
    RT_VECTOR for (int64_t i = 0; i < count; i++) y[i] = rounded_byte(sums[i] * scale, low, high, zero);
}

void rt_requantize_floats(const rt_requantization *how, const float *sums, int64_t count, void *y) {
    const int32_t zero = how->zero, first = how->dtype == OP_INT8 ? -128 : 0;
    const float scale = how->a_scale * how->b_scale[0] / how->y_scale, low = (float)(first - zero),
                high = (float)(first + 255 - zero);
    if (has_512()) requantize_floats_512(sums, y, count, scale, zero, how->dtype == OP_INT8);
    else requantize_floats(sums, y, count, scale, low, high, (uint32_t)zero);
}
