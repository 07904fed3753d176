/* SPDX-License-Identifier: Apache-2.0 */
/* binary_halves.c: see binary_halves.h. */
#include "runtime/kernels/portable/binary_halves.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/half_lanes.h"

#if RT_X86_KERNELS
#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl")))
#define INLINE static inline __attribute__((always_inline))

enum { LANES = 16 };

AVX512 INLINE __m512 widen(__m256i halves, bool brain) {
    return brain ? _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16))
                 : rt_widened_16(halves);
}

AVX512 INLINE __m512 load(const uint16_t *from, bool brain) {
    return widen(_mm256_loadu_si256((const __m256i *)(const void *)from), brain);
}

AVX512 INLINE __m512 load_some(const uint16_t *from, __mmask16 some, bool brain) {
    return widen(_mm256_maskz_loadu_epi16(some, from), brain);
}

AVX512 INLINE __m256i narrow(__m512 floats, bool brain) {
    return brain ? _mm512_cvtepi32_epi16(rt_brains_16(floats)) : rt_narrowed_16(floats);
}

/* What is stored through a mask takes longer: the last ones only. */
#define RUN(name, operation, brain)                                                                          \
    AVX512 static void name(uint16_t *to, const uint16_t *left, const uint16_t *right, int64_t count,        \
                            bool left_single, bool right_single) {                                           \
        const int64_t rest = count % LANES, whole = count - rest;                                            \
        __m512 a = _mm512_setzero_ps(), b = a;                                                               \
        if (left_single) a = _mm512_broadcastss_ps(_mm512_castps512_ps128(load_some(left, 1, brain)));       \
        if (right_single) b = _mm512_broadcastss_ps(_mm512_castps512_ps128(load_some(right, 1, brain)));     \
        for (int64_t i = 0; i < whole; i += LANES) {                                                         \
            if (!left_single) a = load(left + i, brain);                                                     \
            if (!right_single) b = load(right + i, brain);                                                   \
            _mm256_storeu_si256((__m256i *)(void *)(to + i), narrow(operation(a, b), brain));                \
        }                                                                                                    \
        if (rest == 0) return;                                                                               \
        const __mmask16 some = rt_first_lanes_16(rest);                                                      \
        if (!left_single) a = load_some(left + whole, some, brain);                                          \
        if (!right_single) b = load_some(right + whole, some, brain);                                        \
        _mm256_mask_storeu_epi16(to + whole, some, narrow(operation(a, b), brain));                          \
    }
#define BOTH(name, operation) RUN(name##_halves, operation, false) RUN(name##_brains, operation, true)
BOTH(add, _mm512_add_ps)
BOTH(subtract, _mm512_sub_ps)
BOTH(multiply, _mm512_mul_ps)
BOTH(divide, _mm512_div_ps)

rt_binary_halves_function *rt_binary_halves(op_code code, op_dtype dtype) {
    const bool brain = dtype == OP_BFLOAT16;
    if (!rt_is_half(dtype) || !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl"))
        return NULL;
    switch (code) {
    case OP_ADD:
        return brain ? add_brains : add_halves;
    case OP_SUB:
        return brain ? subtract_brains : subtract_halves;
    case OP_MUL:
        return brain ? multiply_brains : multiply_halves;
    case OP_DIV:
        return brain ? divide_brains : divide_halves;
    default:
        return NULL;
    }
}
#else
rt_binary_halves_function *rt_binary_halves(op_code code, op_dtype dtype) {
    (void)code, (void)dtype;
    return NULL;
}
#endif
