/* SPDX-License-Identifier: Apache-2.0 */
/* requantize.c: from sums to quantised numbers; see integer_product.h. */
#include "runtime/kernels/portable/integer_product.h"
#include "runtime/kernels/portable/lanes.h"
#include <string.h>
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

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

#if defined(__x86_64__) && defined(__GNUC__)
#define AVX512 __attribute__((target("avx512f")))

/* What rounded_byte says, of a vector, whose last bytes are stored at once; compilers pack them in halves. */
AVX512 static inline void store_bytes(uint8_t *y, __mmask16 lanes, __m512 value, __m512 low, __m512 high,
                                      __m512i zero) {
    value = _mm512_min_ps(_mm512_max_ps(value, low), high); /* what is no number becomes the second operand */
    const __m512i bits = _mm512_castps_si512(_mm512_add_ps(value, _mm512_set1_ps(12582912.0f)));
    _mm512_mask_cvtepi32_storeu_epi8(y, lanes, _mm512_add_epi32(bits, zero));
}

AVX512 static void requantize_512(const int32_t *sums, uint8_t *y, int64_t count, uint32_t bias, float scale,
                                  float low, float high, int32_t zero) {
    for (int64_t i = 0; i < count; i += 16) {
        const __mmask16 lanes = rt_first_lanes_16(count - i);
        const __m512i sum =
            _mm512_add_epi32(_mm512_maskz_loadu_epi32(lanes, sums + i), _mm512_set1_epi32((int32_t)bias));
        store_bytes(y + i, lanes, _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_set1_ps(scale)),
                    _mm512_set1_ps(low), _mm512_set1_ps(high), _mm512_set1_epi32(zero));
    }
}

AVX512 static void requantize_scaled_512(const int32_t *sums, uint8_t *y, int64_t count, uint32_t bias,
                                         const float *scales, float low, float high, int32_t zero) {
    for (int64_t i = 0; i < count; i += 16) {
        const __mmask16 lanes = rt_first_lanes_16(count - i);
        const __m512i sum =
            _mm512_add_epi32(_mm512_maskz_loadu_epi32(lanes, sums + i), _mm512_set1_epi32((int32_t)bias));
        store_bytes(y + i, lanes,
                    _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_maskz_loadu_ps(lanes, scales + i)),
                    _mm512_set1_ps(low), _mm512_set1_ps(high), _mm512_set1_epi32(zero));
    }
}

AVX512 static void requantize_floats_512(const float *sums, uint8_t *y, int64_t count, float scale, float low,
                                         float high, int32_t zero) {
    for (int64_t i = 0; i < count; i += 16) {
        const __mmask16 lanes = rt_first_lanes_16(count - i);
        store_bytes(y + i, lanes,
                    _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, sums + i), _mm512_set1_ps(scale)),
                    _mm512_set1_ps(low), _mm512_set1_ps(high), _mm512_set1_epi32(zero));
    }
}

static bool has_512(void) {
    return __builtin_cpu_supports("avx512f");
}
#else
static bool has_512(void) {
    return false;
}
static void requantize_512(const int32_t *sums, uint8_t *y, int64_t count, uint32_t bias, float scale,
                           float low, float high, int32_t zero) {
    (void)sums, (void)y, (void)count, (void)bias, (void)scale, (void)low, (void)high, (void)zero;
}
static void requantize_scaled_512(const int32_t *sums, uint8_t *y, int64_t count, uint32_t bias,
                                  const float *scales, float low, float high, int32_t zero) {
    (void)sums, (void)y, (void)count, (void)bias, (void)scales, (void)low, (void)high, (void)zero;
}
static void requantize_floats_512(const float *sums, uint8_t *y, int64_t count, float scale, float low,
                                  float high, int32_t zero) {
    (void)sums, (void)y, (void)count, (void)scale, (void)low, (void)high, (void)zero;
}
#endif

static void requantize_scaled_any(const int32_t *sums, uint8_t *y, int64_t count, uint32_t bias,
                                  const float *scales, float low, float high, int32_t zero) {
    requantize_scaled(sums, y, count, bias, scales, low, high, (uint32_t)zero);
}

void rt_requantize(const rt_requantization *how, const int32_t *sums, int64_t count, void *y) {
    const uint32_t bias = (uint32_t)how->bias;
    const int32_t zero = how->zero, first = how->dtype == OP_INT8 ? -128 : 0;
    if (how->scales) {
        (has_512() ? requantize_scaled_512 : requantize_scaled_any)(
            sums, y, count, bias, how->scales, (float)(first - zero), (float)(first + 255 - zero), zero);
        return;
    }
    const float scale = how->a_scale * how->b_scale[0] / how->y_scale;
    if (!how->each && has_512()) {
        requantize_512(sums, y, count, bias, scale, (float)(first - zero), (float)(first + 255 - zero), zero);
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

RT_CLONES static void requantize_floats(const float *sums, uint8_t *y, int64_t count, float scale, float low,
                                        float high, uint32_t zero) {
    RT_VECTOR for (int64_t i = 0; i < count; i++) y[i] = rounded_byte(sums[i] * scale, low, high, zero);
}

void rt_requantize_floats(const rt_requantization *how, const float *sums, int64_t count, void *y) {
    const int32_t zero = how->zero, first = how->dtype == OP_INT8 ? -128 : 0;
    const float scale = how->a_scale * how->b_scale[0] / how->y_scale, low = (float)(first - zero),
                high = (float)(first + 255 - zero);
    if (has_512()) requantize_floats_512(sums, y, count, scale, low, high, zero);
    else requantize_floats(sums, y, count, scale, low, high, (uint32_t)zero);
}
