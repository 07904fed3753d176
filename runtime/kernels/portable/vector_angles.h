/* SPDX-License-Identifier: Apache-2.0 */
/* vector_angles.h: the circular and hyperbolic functions and their inverses in float, as vector_math.h has the exponential ones: no branches, no
 * tables, no calls, results within 3 units in the last place, and polynomials that are fits of our own. NaN gives NaN, and so does
 * what is outside of a function's domain.
 */
#ifndef OURO_VECTOR_ANGLES_H
#define OURO_VECTOR_ANGLES_H

#include "runtime/kernels/portable/vector_math.h"
#include <math.h>

/* Up to this magnitude rt_sin, rt_cos and rt_tan are right. */
#define RT_ANGLE_LIMIT 65536.0f

/* An angle from 0 on as quarters of a turn, of which the last two bits count, and a rest of about half a quarter at most. The rest is
 * computed in double: near a multiple of a quarter all of its bits are digits far after the point. */
typedef struct rt_angle {
    float rest, lost; /* lost: what the rest has lost of its last digits */
    uint32_t quarters;
} rt_angle;

RT_MATH rt_angle rt_angle_of(float x) {
    const rt_word shifted = {.real = x * 0.636619772f + 12582912.0f}; /* see rt_exp_split */
    const double n = (double)(shifted.real - 12582912.0f);
    /* pi / 2 in two parts, the first of so few bits that n times it is exact. */
    const double rest = ((double)x - n * 1.57079632673412561417) - n * 6.07710050650619224932e-11;
    const float rounded = (float)rest;
    return (rt_angle){rounded, (float)(rest - (double)rounded), shifted.bits};
}

/* Of a rest. */
RT_MATH float rt_sin_rest(float r) {
    const float z = r * r;
    float p = -1.950939331e-4f;
    p = p * z + 8.332121186e-3f;
    p = p * z - 1.666665375e-1f;
    return r + r * z * p;
}

RT_MATH float rt_cos_rest(float r) {
    const float z = r * r;
    float p = 2.442958248e-5f;
    p = p * z - 1.388729201e-3f;
    p = p * z + 4.166664556e-2f;
    return 1.0f - (0.5f * z - z * z * p);
}

RT_MATH float rt_sin(float x) {
    const rt_word from = {.real = x};
    const rt_angle angle = rt_angle_of(rt_absolute(x));
    const float s = rt_sin_rest(angle.rest), c = rt_cos_rest(angle.rest);
    rt_word y = {.real = angle.quarters & 1u ? c : s};
    y.bits ^= (angle.quarters << 30 ^ from.bits) & 0x80000000u;
    return y.real;
}

RT_MATH float rt_cos(float x) {
    const rt_angle angle = rt_angle_of(rt_absolute(x));
    const float s = rt_sin_rest(angle.rest), c = rt_cos_rest(angle.rest);
    rt_word y = {.real = angle.quarters & 1u ? s : c};
    y.bits ^= (angle.quarters + 1u) << 30 & 0x80000000u;
    return y.real;
}

RT_MATH float rt_tan(float x) {
    const rt_word from = {.real = x};
    const rt_angle angle = rt_angle_of(rt_absolute(x));
    const float r = angle.rest, z = r * r;
    float p = -1.950939331e-4f;
    p = p * z + 8.332121186e-3f;
    p = p * z - 1.666665375e-1f;
    const float s = r + (r * z * p + angle.lost), c = rt_cos_rest(r);
    const float above = angle.quarters & 1u ? -c : s, below = angle.quarters & 1u ? s : c;
    rt_word y = {.real = above / below};
    y.bits ^= from.bits & 0x80000000u;
    return y.real;
}

/* Below tan(pi / 8) by a polynomial; above, what is left of pi / 4 or pi / 2 is the arc tangent of something as small. */
RT_MATH float rt_atan(float x) {
    const float a = rt_absolute(x);
    const float above = a > 2.41421366f ? -1.0f : a > 0.414213568f ? a - 1.0f : a;
    const float below = a > 2.41421366f ? a : a > 0.414213568f ? a + 1.0f : 1.0f;
    const float base = a > 2.41421366f ? 1.57079637f : a > 0.414213568f ? 0.785398185f : 0.0f;
    /* What base lacks. */
    const float rest = a > 2.41421366f ? -4.37113883e-8f : a > 0.414213568f ? -2.18556941e-8f : 0.0f;
    const float t = above / below, z = t * t;
    float p = 8.055443317e-2f;
    p = p * z - 1.387845278e-1f;
    p = p * z + 1.997780800e-1f;
    p = p * z - 3.333295286e-1f;
    return rt_sign_of(base + (t + (t * z * p + rest)), x);
}

/* (asin(r) - r) / r with z = r^2, which is up to 1 / 4. */
RT_MATH float rt_asin_rest(float z) {
    float p = 4.221853241e-2f;
    p = p * z + 2.414761856e-2f;
    p = p * z + 4.547709599e-2f;
    p = p * z + 7.495241612e-2f;
    p = p * z + 1.666675359e-1f;
    return z * p;
}

/* From 1/2 on, asin(a) = pi / 2 - 2 asin(sqrt((1 - a) / 2)). */
RT_MATH float rt_asin(float x) {
    const float a = rt_absolute(x), z = a > 0.5f ? 0.5f * (1.0f - a) : a * a;
    const float r = a > 0.5f ? sqrtf(z) : a, y = r + r * rt_asin_rest(z);
    const float far = 1.57079637f - (y + y + 4.37113883e-8f);
    return rt_sign_of(a > 0.5f ? far : y, x);
}

RT_MATH float rt_acos(float x) {
    const float a = rt_absolute(x), z = a > 0.5f ? 0.5f * (1.0f - a) : a * a;
    const float r = a > 0.5f ? sqrtf(z) : x, y = r * rt_asin_rest(z);
    const float twice = 2.0f * (r + y);
    const float far = x < 0.0f ? 3.14159274f - (twice + 8.74227766e-8f) : twice;
    return a > 0.5f ? far : 1.57079637f - (r + (y + 4.37113883e-8f));
}

/* exp(a) / 2 for a from 0 on: finite as long as it can be. */
RT_MATH float rt_half_exp(float a) {
    const rt_exp_parts parts = rt_exp_split(a);
    return (parts.rest + 1.0f) * parts.first * (0.5f * parts.second);
}

RT_MATH float rt_sinh(float x) {
    const float a = rt_absolute(x), z = a * a, h = rt_half_exp(a);
    float p = 2.817439508e-6f;
    p = p * z + 1.983606635e-4f;
    p = p * z + 8.333350532e-3f;
    p = p * z + 1.666666716e-1f;
    const float near = a + a * z * p, far = h - 0.25f / h;
    return rt_sign_of(a < 1.0f ? near : far, x);
}

RT_MATH float rt_cosh(float x) {
    const float h = rt_half_exp(rt_absolute(x));
    return h + 0.25f / h;
}

/* log(1 + u) for u from 0 on; with `whole` given, which is not 0, log(2 whole) instead. */
RT_MATH float rt_log_one_or_twice(float u, float whole) {
    const float sum = 1.0f + u, lost = (u - (sum - 1.0f)) / sum;
    const float result = rt_log_normal(whole != 0.0f ? whole : sum, whole != 0.0f ? -1 : 0);
    return result + (whole != 0.0f ? 0.0f : lost);
}

/* log(a + sqrt(a^2 + 1)) = log(1 + a + a^2 / (1 + sqrt(a^2 + 1))), and log(2 a) where 1 is nothing beside a^2. */
RT_MATH float rt_asinh(float x) {
    const rt_word infinite = {.bits = 0x7f800000u};
    const float a = rt_absolute(x), b = a > 8192.0f ? 1.0f : a, square = b * b;
    const float u = b + square / (1.0f + sqrtf(square + 1.0f));
    const float y = rt_log_one_or_twice(u, a > 8192.0f ? a : 0.0f);
    return rt_sign_of(a == infinite.real ? a : y, x);
}

RT_MATH float rt_acosh(float x) {
    const rt_word infinite = {.bits = 0x7f800000u}, none = {.bits = 0x7fc00000u};
    const float t = x > 8192.0f ? 1.0f : x - 1.0f, u = t + sqrtf((t + t) + t * t);
    const float y = rt_log_one_or_twice(u, x > 8192.0f ? x : 0.0f);
    return x >= 1.0f ? x == infinite.real ? x : y : none.real;
}

/* log((1 + a) / (1 - a)) / 2 = log(1 + 2 a / (1 - a)) / 2 */
RT_MATH float rt_atanh(float x) {
    const rt_word infinite = {.bits = 0x7f800000u}, none = {.bits = 0x7fc00000u};
    const float a = rt_absolute(x), b = a < 1.0f ? a : 0.0f;
    const float y = 0.5f * rt_log_one_or_twice((b + b) / (1.0f - b), 0.0f);
    return rt_sign_of(a < 1.0f ? y : a == 1.0f ? infinite.real : none.real, x);
}

#endif
