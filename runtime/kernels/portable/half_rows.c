/* SPDX-License-Identifier: Apache-2.0 */
/* half_rows.c: see half_rows.h. With AVX-512, a row is two registers, whose lanes that there are not are masked. */
#include "runtime/kernels/portable/half_rows.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/half_lanes.h"
#include <string.h>

#if RT_X86_KERNELS
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl")))
#define AVX512_INLINE AVX512 static inline __attribute__((always_inline))
enum { LANES = 16 };

static bool has_masks(void) {
    return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}

AVX512_INLINE __m512 widen(__m256i halves, bool brain) {
    return brain ? _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16))
                 : _mm512_cvtph_ps(halves);
}

AVX512_INLINE __m256i narrow(__m512 floats, bool brain) {
    return brain ? _mm512_cvtepi32_epi16(rt_brains_16(floats)) : _mm512_cvtps_ph(floats, RT_ROUND_HALF);
}

/* The lanes of register `at` of a row that hold some of `count` elements. */
static inline __mmask16 lanes_of(int64_t count, int64_t at) {
    return rt_first_lanes_16(count - at * LANES);
}

AVX512_INLINE void load_rows(bool brain, const uint16_t *from, int64_t step, int64_t rows, int64_t count,
                             int64_t width, float *to) {
    if (count == width && width % LANES == 0) {
        for (int64_t r = 0; r < rows; r++, from += step, to += width)
            for (int64_t i = 0; i < width; i += LANES)
                _mm512_storeu_ps(to + i,
                                 widen(_mm256_loadu_si256((const __m256i *)(const void *)(from + i)), brain));
        return;
    }
    for (int64_t i = 0; i * LANES < width; i++) {
        const __mmask16 lanes = lanes_of(count, i), all = lanes_of(width, i);
        for (int64_t r = 0; r < rows; r++) {
            const __m512 wide = widen(_mm256_maskz_loadu_epi16(lanes, from + r * step + i * LANES), brain);
            if (all == 0xffffU) _mm512_storeu_ps(to + r * width + i * LANES, wide);
            else _mm512_mask_storeu_ps(to + r * width + i * LANES, all, wide);
        }
    }
}

AVX512_INLINE void store_rows(bool brain, const float *from, int64_t width, int64_t rows, int64_t count,
                              uint16_t *to, int64_t step) {
    for (int64_t i = 0; i * LANES < count; i++) {
        const __mmask16 lanes = lanes_of(count, i);
        for (int64_t r = 0; r < rows; r++) {
            uint16_t *at = to + r * step + i * LANES;
            const __m256i halves = narrow(_mm512_maskz_loadu_ps(lanes, from + r * width + i * LANES), brain);
            if (lanes == 0xffffU) _mm256_storeu_si256((__m256i *)(void *)at, halves);
            else _mm256_mask_storeu_epi16(at, lanes, halves);
        }
    }
}

AVX512 static void load_halves(const uint16_t *from, int64_t step, int64_t rows, int64_t count, int64_t width,
                               float *to) {
    load_rows(false, from, step, rows, count, width, to);
}

AVX512 static void load_brains(const uint16_t *from, int64_t step, int64_t rows, int64_t count, int64_t width,
                               float *to) {
    load_rows(true, from, step, rows, count, width, to);
}

AVX512 static void store_halves(const float *from, int64_t width, int64_t rows, int64_t count, uint16_t *to,
                                int64_t step) {
    store_rows(false, from, width, rows, count, to, step);
}

AVX512 static void store_brains(const float *from, int64_t width, int64_t rows, int64_t count, uint16_t *to,
                                int64_t step) {
    store_rows(true, from, width, rows, count, to, step);
}
#endif

void rt_half_rows_load(op_dtype dtype, const uint16_t *from, int64_t step, int64_t rows, int64_t count,
                       int64_t width, float *to) {
#if RT_X86_KERNELS
    if (has_masks()) {
        (dtype == OP_FLOAT16 ? load_halves : load_brains)(from, step, rows, count, width, to);
        return;
    }
#endif
    for (int64_t r = 0; r < rows; r++) {
        rt_half_load(dtype, to + r * width, from + r * step, count);
        memset(to + r * width + count, 0, (size_t)(width - count) * sizeof *to);
    }
}

void rt_half_rows_store(op_dtype dtype, const float *from, int64_t width, int64_t rows, int64_t count,
                        uint16_t *to, int64_t step) {
#if RT_X86_KERNELS
    if (has_masks()) {
        (dtype == OP_FLOAT16 ? store_halves : store_brains)(from, width, rows, count, to, step);
        return;
    }
#endif
    for (int64_t r = 0; r < rows; r++) rt_half_store(dtype, to + r * step, from + r * width, count);
}
