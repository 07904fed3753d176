/* SPDX-License-Identifier: Apache-2.0 */
/* vector_math_512.h: exp, the logistic function, swish, tanh, softplus and Gelu by tanh of vector_math.h on 16 lanes of AVX-512, bit for bit.
 * Rounding to an integer, limits that let a NaN pass and scaling by a power of two are one instruction each there, which C has no words for: a
 * third fewer than a compiler finds.
 *
 * Where `contracted` is true, a product and its sum are rounded once: again a third fewer, smaller errors, and other last digits. That is for
 * plans whose kernels need not give the same bits on all machines. It is a constant wherever these are called.
 */
#ifndef OURO_VECTOR_MATH_512_H
#define OURO_VECTOR_MATH_512_H

#include "runtime/kernels/base/x86.h"
#if RT_X86_KERNELS
#define RT_HAS_MATH_512 1
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#define RT_MATH_512 __attribute__((target("avx512f")))
#define RT_MATH_512_INLINE RT_MATH_512 static inline __attribute__((always_inline))

/* a b + c, and c - a b. */
RT_MATH_512_INLINE __m512 rt_add_product_16(bool contracted, __m512 a, __m512 b, __m512 c) {
    return contracted ? _mm512_fmadd_ps(a, b, c) : _mm512_add_ps(_mm512_mul_ps(a, b), c);
}

RT_MATH_512_INLINE __m512 rt_subtract_product_16(bool contracted, __m512 a, __m512 b, __m512 c) {
    return contracted ? _mm512_fnmadd_ps(a, b, c) : _mm512_sub_ps(c, _mm512_mul_ps(a, b));
}

/* Of x = n log 2 + r, where *x is x and becomes r: p with exp(r) = 1 + r + p r^2. */
RT_MATH_512_INLINE __m512 rt_exp_square_16(bool contracted, __m512 *x, __m512 n) {
    /* n times the first part of log 2 is exact: to round it or not is the same. */
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), *x);
    r = rt_subtract_product_16(contracted, n, _mm512_set1_ps(-2.12194440e-4f), r);
    __m512 p = _mm512_set1_ps(1.381455804e-3f);
    p = rt_add_product_16(contracted, p, r, _mm512_set1_ps(8.368736133e-3f));
    p = rt_add_product_16(contracted, p, r, _mm512_set1_ps(4.166838899e-2f));
    p = rt_add_product_16(contracted, p, r, _mm512_set1_ps(1.666652113e-1f));
    *x = r;
    return rt_add_product_16(contracted, p, r, _mm512_set1_ps(4.999999404e-1f));
}

/* exp of x = n log 2 + r, of which n is given: exp(r) - 1. */
RT_MATH_512_INLINE __m512 rt_exp_rest_16(bool contracted, __m512 x, __m512 n) {
    const __m512 p = rt_exp_square_16(contracted, &x, n);
    return rt_add_product_16(contracted, p, _mm512_mul_ps(x, x), x);
}

RT_MATH_512 static inline __m512 rt_nearest_16(__m512 x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* The argument of exp below which all is rounded to 0, and the one below which results are subnormal. */
#define RT_EXP_LEAST_512 (-104.0f)
#define RT_EXP_NORMAL_512 (-87.3365f)

/* exp of x, which is up to 89 or a NaN; below `least` it is 0, and not rounded to it: some processors take two hundred times as long to scale by so
 * small a power, one below 2^-126 but for those far below, as by any other. */
RT_MATH_512_INLINE __m512 rt_exp_above_16(bool contracted, float least, __m512 x) {
    const __m512 one = _mm512_set1_ps(1.0f);
    const __mmask16 some = _mm512_cmp_ps_mask(x, _mm512_set1_ps(least), _CMP_NLT_UQ);
    if (contracted) {
        const __m512 magic = _mm512_set1_ps(12582912.0f); /* see rt_exp_split */
        const __m512 n = _mm512_sub_ps(_mm512_fmadd_ps(x, _mm512_set1_ps(1.44269504f), magic), magic);
        const __m512 p = rt_exp_square_16(true, &x, n);
        return _mm512_maskz_scalef_ps(some, _mm512_fmadd_ps(_mm512_fmadd_ps(p, x, one), x, one), n);
    }
    const __m512 n = rt_nearest_16(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)));
    return _mm512_maskz_scalef_ps(some, _mm512_add_ps(rt_exp_rest_16(false, x, n), one), n);
}

RT_MATH_512_INLINE __m512 rt_exp_limited_16(bool contracted, __m512 x) {
    return rt_exp_above_16(contracted, RT_EXP_LEAST_512, x);
}

/* The second operand of a limit is what a NaN in either gives. */
RT_MATH_512_INLINE __m512 rt_exp_16(bool contracted, float least, __m512 x) {
    return rt_exp_above_16(contracted, least, _mm512_min_ps(_mm512_set1_ps(89.0f), x));
}

RT_MATH_512_INLINE __m512 rt_sigmoid_16(bool contracted, __m512 x) {
    const __m512i sign = _mm512_set1_epi32(INT32_MIN);
    const __m512 negative = _mm512_castsi512_ps(_mm512_or_si512(_mm512_castps_si512(x), sign));
    const __m512 e = rt_exp_limited_16(contracted, negative), one = _mm512_set1_ps(1.0f),
                 ratio = _mm512_div_ps(one, _mm512_add_ps(one, e));
    return _mm512_mask_mul_ps(ratio, _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ), e, ratio);
}

/* What 1 + exp(-slope x) is computed with. */
typedef struct rt_gate_512 {
    float least, most, exponent; /* x is limited to the first two; the last is -slope / log 2 */
} rt_gate_512;

static inline rt_gate_512 rt_gate_512_of(float slope) {
    /* Beyond these it is 1, or so large that what is divided by it is next to nothing. The power of two is a normal number: see rt_exp_above_16. */
    const float near = -88.0f / slope, far = 80.0f / slope;
    return (rt_gate_512){
        .least = near < far ? near : far, .most = near < far ? far : near, .exponent = -1.44269504f * slope};
}

/* 1 + exp(-slope x): 1 + 2^n p(r) with n = exponent x to the nearest integer, r the rest, of which the product is not rounded. p is within
 * 1e-7 of 2^r, relative to it. A NaN stays one. Faster than rt_sigmoid_16, and other last digits. */
RT_MATH_512 static inline __m512 rt_one_and_exp_16(__m512 x, const rt_gate_512 *gate) {
    const __m512 one = _mm512_set1_ps(1.0f), exponent = _mm512_set1_ps(gate->exponent);
    x = _mm512_max_ps(_mm512_set1_ps(gate->least), _mm512_min_ps(_mm512_set1_ps(gate->most), x));
    const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, exponent), 0), r = _mm512_fmsub_ps(x, exponent, n);
    __m512 p = _mm512_set1_ps(1.32647272e-3f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(9.67151281e-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.55073374e-2f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(2.40222421e-1f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(6.93146978e-1f));
    p = _mm512_fmadd_ps(p, r, one);
    return _mm512_add_ps(_mm512_scalef_ps(p, n), one);
}

RT_MATH_512_INLINE __m512 rt_swish_16(bool contracted, __m512 x, __m512 alpha) {
    const __m512i sign = _mm512_set1_epi32(INT32_MIN);
    const __m512 z = _mm512_mul_ps(alpha, x),
                 negative = _mm512_castsi512_ps(_mm512_or_si512(_mm512_castps_si512(z), sign)),
                 e = rt_exp_limited_16(contracted, negative),
                 part = _mm512_mask_mul_ps(x, _mm512_cmp_ps_mask(z, _mm512_setzero_ps(), _CMP_LT_OQ), x, e);
    return _mm512_div_ps(part, _mm512_add_ps(_mm512_set1_ps(1.0f), e));
}

RT_MATH_512_INLINE __m512 rt_tanh_16(bool contracted, __m512 x) {
    const __m512i sign = _mm512_set1_epi32(INT32_MIN), bits = _mm512_castps_si512(x);
    const __m512 one = _mm512_set1_ps(1.0f), a = _mm512_castsi512_ps(_mm512_andnot_si512(sign, bits)),
                 b = _mm512_min_ps(_mm512_set1_ps(9.1f), a),
                 n = rt_nearest_16(_mm512_mul_ps(b, _mm512_set1_ps(2.88539008f))),
                 rest = rt_exp_rest_16(contracted, _mm512_add_ps(b, b), n),
                 e = _mm512_add_ps(_mm512_scalef_ps(rest, n), _mm512_sub_ps(_mm512_scalef_ps(one, n), one)),
                 y = _mm512_div_ps(e, _mm512_add_ps(e, _mm512_set1_ps(2.0f)));
    /* y, which is not negative, with the sign of x */
    return _mm512_castsi512_ps(
        _mm512_ternarylogic_epi32(sign, bits, _mm512_castps_si512(y), 0xca)); /* sign ? bits : y */
}

/* log(1 + x) for x in [0, 1], or a NaN: a polynomial whose relative error is below 1e-8, and no division. Of a subnormal number it is the number, and
 * no product meets one (see rt_exp_above_16). */
RT_MATH_512_INLINE __m512 rt_log_plus_one_contracted_16(__m512 number) {
    const __mmask16 normal = _mm512_cmp_ps_mask(number, _mm512_set1_ps(0x1p-126f), _CMP_NLT_UQ);
    const __m512 x = _mm512_maskz_mov_ps(normal, number);
    __m512 p = _mm512_set1_ps(-3.244025167e-3f);
    p = _mm512_fmadd_ps(p, x, _mm512_set1_ps(1.985146292e-2f));
    p = _mm512_fmadd_ps(p, x, _mm512_set1_ps(-5.695953220e-2f));
    p = _mm512_fmadd_ps(p, x, _mm512_set1_ps(1.060365513e-1f));
    p = _mm512_fmadd_ps(p, x, _mm512_set1_ps(-1.530559212e-1f));
    p = _mm512_fmadd_ps(p, x, _mm512_set1_ps(1.967593879e-1f));
    p = _mm512_fmadd_ps(p, x, _mm512_set1_ps(-2.495413423e-1f));
    p = _mm512_fmadd_ps(p, x, _mm512_set1_ps(3.332996368e-1f));
    p = _mm512_fmadd_ps(p, x, _mm512_set1_ps(-4.999990165e-1f));
    return _mm512_mask_fmadd_ps(number, normal, _mm512_mul_ps(p, x), number);
}

RT_MATH_512_INLINE __m512 rt_log_plus_one_16(bool contracted, __m512 x) {
    if (contracted) return rt_log_plus_one_contracted_16(x);
    const __m512 one = _mm512_set1_ps(1.0f), sum = _mm512_add_ps(one, x);
    const __m512i bits = _mm512_castps_si512(sum),
                  raised = _mm512_srai_epi32(_mm512_sub_epi32(bits, _mm512_set1_epi32(0x3f3504f3)), 23);
    const __m512 exponent = _mm512_cvtepi32_ps(raised),
                 mantissa = _mm512_castsi512_ps(_mm512_sub_epi32(bits, _mm512_slli_epi32(raised, 23))),
                 f = _mm512_sub_ps(mantissa, one), square = _mm512_mul_ps(f, f);
    __m512 p = _mm512_set1_ps(-7.857310772e-2f);
    p = rt_add_product_16(false, p, f, _mm512_set1_ps(1.288096160e-1f));
    p = rt_add_product_16(false, p, f, _mm512_set1_ps(-1.312923729e-1f));
    p = rt_add_product_16(false, p, f, _mm512_set1_ps(1.418130994e-1f));
    p = rt_add_product_16(false, p, f, _mm512_set1_ps(-1.662452072e-1f));
    p = rt_add_product_16(false, p, f, _mm512_set1_ps(2.000228018e-1f));
    p = rt_add_product_16(false, p, f, _mm512_set1_ps(-2.500081062e-1f));
    p = rt_add_product_16(false, p, f, _mm512_set1_ps(3.333331645e-1f));
    __m512 result = _mm512_add_ps(_mm512_mul_ps(_mm512_mul_ps(f, square), p),
                                  _mm512_mul_ps(exponent, _mm512_set1_ps(-2.12194440e-4f)));
    result = _mm512_add_ps(_mm512_sub_ps(result, _mm512_mul_ps(_mm512_set1_ps(0.5f), square)), f);
    result = _mm512_fmadd_ps(exponent, _mm512_set1_ps(0.693359375f), result); /* see rt_exp_rest_16 */
    return _mm512_add_ps(result, _mm512_div_ps(_mm512_sub_ps(x, _mm512_sub_ps(sum, one)), sum));
}

RT_MATH_512_INLINE __m512 rt_softplus_16(bool contracted, __m512 x) {
    const __m512i sign = _mm512_set1_epi32(INT32_MIN);
    const __m512 negative = _mm512_castsi512_ps(_mm512_or_si512(_mm512_castps_si512(x), sign)),
                 e = rt_exp_limited_16(contracted, negative);
    return _mm512_add_ps(_mm512_max_ps(x, _mm512_setzero_ps()), rt_log_plus_one_16(contracted, e));
}

RT_MATH_512 static inline __m512 rt_absolute_16(__m512 x) {
    return _mm512_castsi512_ps(_mm512_andnot_si512(_mm512_set1_epi32(INT32_MIN), _mm512_castps_si512(x)));
}

/* rt_exp_falling: n times the first part of log 2 is exact, and so is the power of two. */
RT_MATH_512 static inline __m512 rt_exp_falling_16(__m512 x) {
    const __m512 magic = _mm512_set1_ps(12582912.0f), one = _mm512_set1_ps(1.0f),
                 n = _mm512_sub_ps(_mm512_add_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), magic),
                                   magic),
                 e = _mm512_add_ps(rt_exp_rest_16(false, x, n), one);
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.0f), _CMP_NLT_UQ), e, n);
}

RT_MATH_512 static inline __m512 rt_gelu_by_tanh_16(__m512 x) {
    const __m512 one = _mm512_set1_ps(1.0f),
                 cube = _mm512_mul_ps(_mm512_mul_ps(_mm512_mul_ps(_mm512_set1_ps(0.044715f), x), x), x),
                 z = _mm512_mul_ps(_mm512_set1_ps(1.5957691216f), _mm512_add_ps(x, cube)),
                 e = rt_exp_falling_16(_mm512_sub_ps(_mm512_set1_ps(-0.0f), rt_absolute_16(z)));
    const __mmask16 negative = _mm512_cmp_ps_mask(z, _mm512_setzero_ps(), _CMP_LT_OQ);
    return _mm512_div_ps(_mm512_mul_ps(x, _mm512_mask_mov_ps(one, negative, e)), _mm512_add_ps(one, e));
}

/* y[i] = expression in a = x[i], the vector of 16, for `count` elements. Four at once: an expression is a long chain, and a processor does not
 * see the begin of the next ones by itself. Compilers may swap the factors of a product in some of them: no expression multiplies or adds
 * two NaNs of different signs. */
#define RT_MAP_512(y, x, count, expression)                                                                  \
    {                                                                                                        \
        int64_t i = 0;                                                                                       \
        for (; i + 64 <= (count); i += 64) {                                                                 \
            __m512 four[4];                                                                                  \
            _Pragma("GCC unroll 4") for (int j = 0; j < 4; j++) {                                            \
                const __m512 a = _mm512_loadu_ps((x) + i + 16 * j);                                          \
                four[j] = (expression);                                                                      \
            }                                                                                                \
            _Pragma("GCC unroll 4") for (int j = 0; j < 4; j++) _mm512_storeu_ps((y) + i + 16 * j, four[j]); \
        }                                                                                                    \
        for (; i < (count); i += 16) {                                                                       \
            const __mmask16 there = (__mmask16)((count)-i < 16 ? (1U << ((count)-i)) - 1 : 0xffff);          \
            const __m512 a = _mm512_maskz_loadu_ps(there, (x) + i);                                          \
            _mm512_mask_storeu_ps((y) + i, there, (expression));                                             \
        }                                                                                                    \
    }
#endif

#endif
