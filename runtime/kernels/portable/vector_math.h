/* SPDX-License-Identifier: Apache-2.0 */
/* vector_math.h: exp (also of negative numbers alone), exp - 1, log, log of 1 and some, tanh, the logistic function, swish and
 * Gelu by tanh in float, written so that a compiler vectorises a loop over them: no branches, no tables, no calls. Erf and Gelu: pieces.h.
 *
 * Reduction of the argument is as in Cody and Waite, "Software Manual for the Elementary Functions" (1980);
 * the polynomials are our own minimax fits in double precision (Lawson's iteration on Chebyshev nodes,
 * relative error below 1e-8 before rounding to float). The results are within 3 units in the last place of
 * the exact ones; those of exp that are subnormal have the absolute error of half a unit of the smallest
 * number. NaN gives NaN.
 */
#ifndef OURO_VECTOR_MATH_H
#define OURO_VECTOR_MATH_H

#include <stdint.h>
#include <string.h>

/* Each must be inlined: a loop that calls one of them is not vectorised, and where many loops of a file use one, a compiler decides that its code
 * is too long to repeat. */
#if defined(__GNUC__)
#define RT_MATH static inline __attribute__((always_inline))
#else
#define RT_MATH static inline
#endif

typedef union rt_word {
    float real;
    int32_t integer;
    uint32_t bits;
} rt_word;

RT_MATH float rt_absolute(float x) {
    rt_word word = {.real = x};
    word.bits &= 0x7fffffffu;
    return word.real;
}

/* -|x|, by its sign: what a compiler sees as a negation it moves into other operations, which then meet NaNs of both signs, and the
 * order of their operands decides. */
RT_MATH float rt_negative(float x) {
    rt_word word = {.real = x};
    word.bits |= 0x80000000u;
    return word.real;
}

RT_MATH float rt_sign_of(float magnitude, float sign) {
    rt_word word = {.real = magnitude}, from = {.real = sign};
    word.bits |= from.bits & 0x80000000u;
    return word.real;
}

/* exp of x = n log 2 + r, of which n is given: exp(r) - 1. */
RT_MATH float rt_exp_rest(float x, float n) {
    /* log 2 in two parts, the first of so few bits that n times it is exact. */
    float r = x - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    float p = 1.381455804e-3f;
    p = p * r + 8.368736133e-3f;
    p = p * r + 4.166838899e-2f;
    p = p * r + 1.666652113e-1f;
    p = p * r + 4.999999404e-1f;
    return p * (r * r) + r;
}

/* exp(x) with x = n log 2 + r: exp(r) - 1, and 2^n in two factors, so that subnormal results come out as well. */
typedef struct rt_exp_parts {
    float rest, first, second;
} rt_exp_parts;

RT_MATH rt_exp_parts rt_exp_split(float argument) {
    /* Beyond -104 and 90 the result is 0 or infinite, also half of it; the comparisons keep a NaN. Some processors take a hundred times as long for
     * a product below 2^-126 as for any other, but not for one as small as that of -150. */
    float x = argument < -150.0f ? -150.0f : argument;
    x = x > 90.0f ? 90.0f : x;
    /* n = x / log 2 to the nearest integer, by adding and taking away 1.5 * 2^23. */
    rt_word shifted = {.real = x * 1.44269504f + 12582912.0f};
    const float n = shifted.real - 12582912.0f;
    const int32_t exponent = shifted.integer - 0x4b400000, half = exponent >> 1;
    const rt_word first = {.bits = (uint32_t)(half + 127) << 23},
                  second = {.bits = (uint32_t)(exponent - half + 127) << 23};
    return (rt_exp_parts){rt_exp_rest(x, n), first.real, second.real};
}

RT_MATH float rt_exp(float x) {
    const rt_exp_parts parts = rt_exp_split(x);
    return (parts.rest + 1.0f) * parts.first * parts.second;
}

/* exp(x) for x up to 0, as a softmax wants it: what would be subnormal is 0. */
RT_MATH float rt_exp_falling(float x) {
    rt_word shifted = {.real = x * 1.44269504f + 12582912.0f}; /* see rt_exp_split */
    const float n = shifted.real - 12582912.0f;
    const rt_word power = {.bits = (shifted.bits - 0x4b400000u + 127u) << 23};
    const float result = (rt_exp_rest(x, n) + 1.0f) * power.real;
    return x < -87.0f ? 0.0f : result;
}

/* exp(x) - 1, as exact near 0 as elsewhere: 2^n (exp(r) - 1) + (2^n - 1). */
RT_MATH float rt_exp_minus_one(float x) {
    const rt_exp_parts parts = rt_exp_split(x < -30.0f ? -30.0f : x); /* from where on it is -1 */
    const float power = parts.first * parts.second, near = power * parts.rest + (power - 1.0f);
    const float far = (parts.rest + 1.0f) * parts.first * parts.second; /* the 1 is below half a unit of it */
    return x > 24.0f ? far : near;
}

/* The logarithm of x, a normal positive number, times 2^-lowered. */
RT_MATH float rt_log_normal(float x, int32_t lowered) {
    const rt_word word = {.real = x};
    /* The exponent that leaves a mantissa in [sqrt(1/2), sqrt(2)). */
    const int32_t raised = (int32_t)(word.bits - 0x3f3504f3u) >> 23;
    const float exponent = (float)(raised - lowered);
    const rt_word mantissa = {.bits = word.bits - ((uint32_t)raised << 23)};
    const float f = mantissa.real - 1.0f, square = f * f;
    float p = -7.857310772e-2f;
    p = p * f + 1.288096160e-1f;
    p = p * f - 1.312923729e-1f;
    p = p * f + 1.418130994e-1f;
    p = p * f - 1.662452072e-1f;
    p = p * f + 2.000228018e-1f;
    p = p * f - 2.500081062e-1f;
    p = p * f + 3.333331645e-1f;
    const float result = f * square * p + exponent * -2.12194440e-4f;
    return result - 0.5f * square + f + exponent * 0.693359375f;
}

RT_MATH float rt_log(float x) {
    /* Subnormal numbers are scaled up first. */
    const int small = x < 1.17549435e-38f;
    float result = rt_log_normal(small ? x * 8388608.0f : x, small ? 23 : 0);
    rt_word infinite = {.bits = 0x7f800000u}, none = {.bits = 0x7fc00000u};
    result = x == infinite.real ? x : result;
    result = x == 0.0f ? -infinite.real : result;
    return x >= 0.0f ? result : none.real; /* a negative number or a NaN */
}

/* log(1 + x) for x in [0, 1], or a NaN: what 1 + x loses of x is put back. */
RT_MATH float rt_log_plus_one(float x) {
    const float sum = 1.0f + x;
    return rt_log_normal(sum, 0) + (x - (sum - 1.0f)) / sum;
}

/* With e = exp(2 |x|) - 1, which is as exact near 0 as elsewhere, it is e / (e + 2). From 9.1 on that rounds to 1, so that e needs no care for
 * what is beyond the range of its exponents. */
RT_MATH float rt_tanh(float x) {
    const float a = rt_absolute(x), b = a > 9.1f ? 9.1f : a;
    const rt_word shifted = {.real = b * 2.88539008f + 12582912.0f}; /* see rt_exp_split */
    const float n = shifted.real - 12582912.0f;
    const rt_word power = {.bits = (shifted.bits - 0x4b400000u + 127u) << 23};
    const float e = power.real * rt_exp_rest(b + b, n) + (power.real - 1.0f);
    return rt_sign_of(e / (e + 2.0f), x);
}

/* 1 / (1 + exp(-x)) */
RT_MATH float rt_sigmoid(float x) {
    const float e = rt_exp(rt_negative(x)), ratio = 1.0f / (1.0f + e);
    return x < 0.0f ? e * ratio : ratio;
}

/* x / (1 + exp(-alpha x)), in which no product of NaNs decides on a sign. */
RT_MATH float rt_swish(float x, float alpha) {
    const float z = alpha * x, e = rt_exp(rt_negative(z));
    return (z < 0.0f ? x * e : x) / (1.0f + e);
}

/* The usual approximation of Gelu by tanh, written as x / (1 + exp(-z)). */
RT_MATH float rt_gelu_by_tanh(float x) {
    const float z = 1.5957691216f * (x + 0.044715f * x * x * x);
    const float e = rt_exp_falling(-rt_absolute(z));
    return x * (z < 0.0f ? e : 1.0f) / (1.0f + e);
}

/* y[i] = expression in a = x[i], for expressions so long that the last few elements are better off in a full vector of WIDE. */
#define RT_MAP_LONG_OF(type, WIDE, FEW, y, x, count, expression)                                             \
    do {                                                                                                     \
        int64_t from = 0, rest = (count) % (WIDE);                                                           \
        RT_VECTOR for (int64_t i = 0; i < (count)-rest; i++) {                                               \
            const type a = (x)[i];                                                                           \
            (y)[i] = (expression);                                                                           \
        }                                                                                                    \
        from = (count)-rest;                                                                                 \
        if (rest >= (FEW)) {                                                                                 \
            type few[WIDE] = {0};                                                                            \
            memcpy(few, (x) + from, (size_t)rest * sizeof *few);                                             \
            for (int i = 0; i < (WIDE); i++) {                                                               \
                const type a = few[i];                                                                       \
                few[i] = (expression);                                                                       \
            }                                                                                                \
            memcpy((y) + from, few, (size_t)rest * sizeof *few);                                             \
        } else {                                                                                             \
            for (; from < (count); from++) {                                                                 \
                const type a = (x)[from];                                                                    \
                (y)[from] = (expression);                                                                    \
            }                                                                                                \
        }                                                                                                    \
    } while (0)
#define RT_MAP_LONG(y, x, count, expression) RT_MAP_LONG_OF(float, 16, 3, y, x, count, expression)

#endif
