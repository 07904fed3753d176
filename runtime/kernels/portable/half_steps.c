/* SPDX-License-Identifier: Apache-2.0 */
/* half_steps.c: see half_steps.h. */
#include "runtime/kernels/portable/half_steps.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/half_lanes.h"
#include "runtime/kernels/portable/pair_tiles.h"
#include <string.h>

enum { BLOCK = RT_HALF_LANES, MOST_PIXELS_8 = 6 /* of a tile, where there are 16 registers */ };

#define BLOCK_LANES 16 /* BLOCK, for the preprocessor */
/* A channel of a tile: `at` elements after that at x, with the weights that LOAD takes. */
#define MULTIPLY_CHANNEL(SET, LOAD, at)                                                                      \
    do {                                                                                                     \
        VECTOR right[2];                                                                                     \
        _Pragma("GCC unroll 2") for (int v = 0; v < VECTORS; v++) right[v] =                                 \
            LOAD(weights + v * tile->weights_vector);                                                        \
        _Pragma("GCC unroll 14") for (int p = 0; p < PIXELS; p++) {                                          \
            const VECTOR seen = SET(x[p * WIDTH + (at)]);                                                    \
            _Pragma("GCC unroll 2") for (int v = 0; v < VECTORS; v++) sums[p][v] =                           \
                ADD_PRODUCT(right[v], seen, sums[p][v]);                                                     \
        }                                                                                                    \
    } while (0)
/* A step of a tile: one channel, or a pair of channels, whose weights lie in pairs. */
#define MULTIPLY_EACH(SET) MULTIPLY_CHANNEL(SET, WIDEN, 0)
#define MULTIPLY_BOTH(SET)                                                                                   \
    do {                                                                                                     \
        MULTIPLY_CHANNEL(SET, FIRST_OF_PAIRS, 0);                                                            \
        MULTIPLY_CHANNEL(SET, SECOND_OF_PAIRS, 1);                                                           \
    } while (0)

#if RT_X86_KERNELS

/* float16 in vectors of 16. */
#define LANES 16
#define VECTOR __m512
#define MOST_PIXELS RT_HALF_PIXELS
#define TARGET __attribute__((target("avx512f")))
#define LIMIT RT_LIMIT_16
#define SEEN float
#define WIDEN(from) RT_LOAD_HALF_16(, from)
#define NARROW(sum, to) RT_STORE_HALF_16(sum, to)
#define NAME(function) function##_half_16
#define ELEMENTS 1
#define STEP_WEIGHTS 1
#define ENTER(to, from) _mm512_storeu_ps(to, WIDEN(from))
#define ADD_PRODUCT _mm512_fmadd_ps
#define MULTIPLY(tile, x, weights, PIXELS, VECTORS, WIDTH, sums) MULTIPLY_EACH(_mm512_set1_ps)
#include "runtime/kernels/portable/half_steps_kind.h"

/* float16 in vectors of 8. */
#define LANES 8
#define VECTOR __m256
#define MOST_PIXELS MOST_PIXELS_8
#define TARGET __attribute__((target("avx2,fma,f16c")))
#define LIMIT RT_LIMIT_8
#define SEEN float
#define WIDEN(from) RT_LOAD_HALF_8(, from)
#define NARROW(sum, to) RT_STORE_HALF_8(sum, to)
#define NAME(function) function##_half_8
#define ADD_PRODUCT _mm256_fmadd_ps
#define ELEMENTS 1
#define STEP_WEIGHTS 1
#define ENTER(to, from) (_mm256_storeu_ps(to, WIDEN(from)), _mm256_storeu_ps((to) + 8, WIDEN((from) + 8)))
#define MULTIPLY(tile, x, weights, PIXELS, VECTORS, WIDTH, sums) MULTIPLY_EACH(_mm256_set1_ps)
#include "runtime/kernels/portable/half_steps_kind.h"

/* bfloat16 in vectors of 16. */
#define LANES 16
#define VECTOR __m512
#define MOST_PIXELS RT_HALF_PIXELS
#define TARGET __attribute__((target("avx512f")))
#define LIMIT RT_LIMIT_16
#define SEEN float
#define WIDEN(from) RT_LOAD_BRAIN_16(, from)
#define NARROW(sum, to) RT_STORE_BRAIN_16(sum, to)
#define NAME(function) function##_brain_16
#define ADD_PRODUCT _mm512_fmadd_ps
#define ELEMENTS 2
#define STEP_WEIGHTS 2
#define ENTER(to, from) _mm512_storeu_ps(to, WIDEN(from))
#define FIRST_OF_PAIRS(from) _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(from), 16))
#define SECOND_OF_PAIRS(from)                                                                                \
    _mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(from), _mm512_set1_epi32((int)0xffff0000U)))
#define MULTIPLY(tile, x, weights, PIXELS, VECTORS, WIDTH, sums) MULTIPLY_BOTH(_mm512_set1_ps)
#include "runtime/kernels/portable/half_steps_kind.h"
#undef FIRST_OF_PAIRS
#undef SECOND_OF_PAIRS

/* bfloat16 in vectors of 8. */
#define LANES 8
#define VECTOR __m256
#define MOST_PIXELS MOST_PIXELS_8
#define TARGET __attribute__((target("avx2,fma")))
#define LIMIT RT_LIMIT_8
#define SEEN float
#define WIDEN(from) RT_LOAD_BRAIN_8(, from)
#define NARROW(sum, to) RT_STORE_BRAIN_8(sum, to)
#define NAME(function) function##_brain_8
#define ADD_PRODUCT _mm256_fmadd_ps
#define ELEMENTS 2
#define STEP_WEIGHTS 2
#define ENTER(to, from) (_mm256_storeu_ps(to, WIDEN(from)), _mm256_storeu_ps((to) + 8, WIDEN((from) + 8)))
#define LOAD_PAIRS(from) _mm256_loadu_si256((const __m256i *)(const void *)(from))
#define FIRST_OF_PAIRS(from) _mm256_castsi256_ps(_mm256_slli_epi32(LOAD_PAIRS(from), 16))
#define SECOND_OF_PAIRS(from)                                                                                \
    _mm256_castsi256_ps(_mm256_and_si256(LOAD_PAIRS(from), _mm256_set1_epi32((int)0xffff0000U)))
#define MULTIPLY(tile, x, weights, PIXELS, VECTORS, WIDTH, sums) MULTIPLY_BOTH(_mm256_set1_ps)
#include "runtime/kernels/portable/half_steps_kind.h"

#undef FIRST_OF_PAIRS
#undef SECOND_OF_PAIRS

/* bfloat16 where the processor multiplies it, in pairs. */
#define LANES 16
#define VECTOR __m512
#define MOST_PIXELS RT_HALF_PIXELS
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#define LIMIT RT_LIMIT_16
#define SEEN uint16_t
#define WIDEN(from) RT_LOAD_BRAIN_16(, from)
#define NARROW(sum, to) RT_STORE_BRAIN_16(sum, to)
#define NAME(function) function##_pairs
#define ELEMENTS 2
#define STEP_WEIGHTS 2
#define ENTER(to, from) memcpy(to, from, BLOCK * sizeof(uint16_t))
#define MULTIPLY(tile, x, weights, PIXELS, VECTORS, WIDTH, sums)                                             \
    do {                                                                                                     \
        __m512bh right[2];                                                                                   \
        _Pragma("GCC unroll 2") for (int v = 0; v < VECTORS; v++) right[v] =                                 \
            (__m512bh)_mm512_loadu_si512(weights + v * tile->weights_vector);                                \
        _Pragma("GCC unroll 14") for (int p = 0; p < PIXELS; p++) {                                          \
            int32_t pair;                                                                                    \
            memcpy(&pair, x + p * WIDTH, sizeof pair);                                                       \
            const __m512bh seen = (__m512bh)_mm512_set1_epi32(pair);                                         \
            _Pragma("GCC unroll 2") for (int v = 0; v < VECTORS; v++) sums[p][v] =                           \
                _mm512_dpbf16_ps(sums[p][v], seen, right[v]);                                                \
        }                                                                                                    \
    } while (0)
#include "runtime/kernels/portable/half_steps_kind.h"

#endif

/* On any machine, in vectors of 4. */
#define ADD_4(right, left, sum) ((sum) + (right) * (left))
#define ALL_4(value) ((rt_floats_4){0} + (value))
#define ENTER_4(to, from)                                                                                    \
    do {                                                                                                     \
        for (int c = 0; c < BLOCK; c += LANES) *(VECTOR *)(void *)((to) + c) = WIDEN((from) + c);            \
    } while (0)

/* float16. */
#define LANES 4
#define VECTOR rt_floats_4
#define MOST_PIXELS MOST_PIXELS_8
#define TARGET
#define LIMIT RT_LIMIT_4
#define SEEN float
#define WIDEN(from) rt_any_half_4(from)
#define NARROW(sum, to) RT_STORE_HALF_4(sum, to)
#define NAME(function) function##_half_4
#define ADD_PRODUCT ADD_4
#define ELEMENTS 1
#define STEP_WEIGHTS 1
#define ENTER(to, from) ENTER_4(to, from)
#define MULTIPLY(tile, x, weights, PIXELS, VECTORS, WIDTH, sums) MULTIPLY_EACH(ALL_4)
#include "runtime/kernels/portable/half_steps_kind.h"

/* bfloat16. */
#define LANES 4
#define VECTOR rt_floats_4
#define MOST_PIXELS MOST_PIXELS_8
#define TARGET
#define LIMIT RT_LIMIT_4
#define SEEN float
#define WIDEN(from) rt_brain_4(from)
#define NARROW(sum, to) RT_STORE_BRAIN_4(sum, to)
#define NAME(function) function##_brain_4
#define ADD_PRODUCT ADD_4
#define ELEMENTS 2
#define STEP_WEIGHTS 2
#define ENTER(to, from) ENTER_4(to, from)
#define FIRST_OF_PAIRS(from) ((rt_floats_4)(*(const words_of_pairs *)(const void *)(from) << 16))
#define SECOND_OF_PAIRS(from) ((rt_floats_4)(*(const words_of_pairs *)(const void *)(from)&0xffff0000u))
typedef uint32_t words_of_pairs __attribute__((vector_size(16), may_alias, aligned(2)));
#define MULTIPLY(tile, x, weights, PIXELS, VECTORS, WIDTH, sums) MULTIPLY_BOTH(ALL_4)
#include "runtime/kernels/portable/half_steps_kind.h"

#if RT_X86_KERNELS
static bool has_fused_256(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && rt_has_half_conversions();
}
#endif

bool rt_half_steps_are_fast(void) {
#if RT_X86_KERNELS
    return __builtin_cpu_supports("avx512f") || has_fused_256();
#else
    return false;
#endif
}

const rt_half_steps *rt_half_steps_for(op_dtype dtype, bool by_channel, int most) {
    const bool brain = dtype == OP_BFLOAT16;
#if RT_X86_KERNELS
    if (most > 16 && brain && !by_channel && rt_pairs_here()) return &steps_pairs;
    if (most >= 16 && __builtin_cpu_supports("avx512f")) return brain ? &steps_brain_16 : &steps_half_16;
    if (most >= 8 && has_fused_256()) return brain ? &steps_brain_8 : &steps_half_8;
#else
    (void)by_channel, (void)most;
#endif
    return brain ? &steps_brain_4 : &steps_half_4;
}
