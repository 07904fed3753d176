/* SPDX-License-Identifier: Apache-2.0 */
/* vector_doubles.h: the functions of vector_math.h and the circular and hyperbolic ones of vector_angles.h in double, likewise without branches,
 * tables and calls, so that a compiler vectorises a loop over them, and with the same bits whatever the width of its vectors.
 *
 * The polynomials are fits of our own, relative errors below 2^-58 before rounding. Where a sum's last digits matter, what it has lost is kept and
 * put back. Exponential, logarithm, sine, cosine and what is made of one of them are within 1 unit in the last place of the exact results, what
 * divides one by another within 2; results of the exponential that are subnormal are within 1 of their own units. NaN gives NaN.
 */
#ifndef OURO_VECTOR_DOUBLES_H
#define OURO_VECTOR_DOUBLES_H

#include "runtime/kernels/portable/vector_math.h"

typedef union rt_long_word {
    double real;
    uint64_t bits;
} rt_long_word;

#define RT_LONG_SIGN (UINT64_C(1) << 63)
/* 1.5 * 2^52, which added to a number and taken away leaves the nearest integer, and its bits. */
#define RT_LONG_SHIFT 6755399441055744.0
#define RT_LONG_SHIFT_BITS UINT64_C(0x4338000000000000)
/* log 2 in two parts, the first of so few bits that exponents times it are exact. */
#define RT_LONG_LOG_2 0.6931471805598903
#define RT_LONG_LOG_2_REST 5.497923018708371e-14

RT_MATH double rt_absolute_double(double x) {
    rt_long_word word = {.real = x};
    word.bits &= ~RT_LONG_SIGN;
    return word.real;
}

/* -|x|; see rt_negative. */
RT_MATH double rt_negative_double(double x) {
    rt_long_word word = {.real = x};
    word.bits |= RT_LONG_SIGN;
    return word.real;
}

RT_MATH double rt_sign_of_double(double magnitude, double sign) {
    rt_long_word word = {.real = magnitude}, from = {.real = sign};
    word.bits |= from.bits & RT_LONG_SIGN;
    return word.real;
}

/* (a + above) / (b + below), where `above` and `below` are what sums have lost, nearly as if rounded once: what a first quotient of few bits
 * leaves is divided once more. Products of numbers of half as many bits are exact. */
RT_MATH double rt_ratio_double(double a, double above, double b, double below) {
    const uint64_t few = ~((UINT64_C(1) << 27) - 1);
    const double inverse = 1.0 / b;
    rt_long_word quotient = {.real = a * inverse}, high = {.real = b};
    quotient.bits &= few;
    high.bits &= few;
    const double left = (a - quotient.real * high.real) - quotient.real * ((b - high.real) + below);
    return quotient.real + (left + above) * inverse;
}

/* x = n log 2 + r: exp(r) - 1 as r and what there is to add to it, and n as an integer that is RT_LONG_SHIFT_BITS too large. */
typedef struct rt_long_exponent {
    double r, rest;
    uint64_t shifted;
} rt_long_exponent;

RT_MATH rt_long_exponent rt_exp_reduce_double(double x) {
    const rt_long_word shifted = {.real = x * 1.4426950408889634 + RT_LONG_SHIFT};
    const double n = shifted.real - RT_LONG_SHIFT, low = n * RT_LONG_LOG_2_REST;
    const double high = x - n * RT_LONG_LOG_2, r = high - low, lost = (high - r) - low, z = r * r;
    /* The even and the odd powers by themselves: two chains, each half as long. */
    double even = 2.0925527869758256e-09, odd = 2.51118169793188e-08;
    even = even * z + 2.755723920749295e-07;
    odd = odd * z + 2.7557235639244066e-06;
    even = even * z + 2.4801587364429696e-05;
    odd = odd * z + 1.984126989538955e-04;
    even = even * z + 0.0013888888888865525;
    odd = odd * z + 0.008333333333317573;
    even = even * z + 0.0416666666666667;
    odd = odd * z + 0.16666666666666682;
    even = even * z + 0.5;
    return (rt_long_exponent){r, z * (even + r * odd) + lost, shifted.bits};
}

/* exp(x) times `factor`, a power of two, for x between -800 and 720, or a NaN. 2^n in two factors, so that subnormal results come out as well. */
RT_MATH double rt_exp_limited_double(double x, double factor) {
    const rt_long_exponent e = rt_exp_reduce_double(x);
    const uint64_t raised = e.shifted - RT_LONG_SHIFT_BITS + 2048, half = raised >> 1;
    const rt_long_word first = {.bits = (half - 1) << 52}, second = {.bits = (raised - half - 1) << 52};
    return (1.0 + (e.r + e.rest)) * first.real * (second.real * factor);
}

RT_MATH double rt_exp_double(double argument) {
    /* Beyond -746 and 720 the result is 0 or infinite; the comparisons keep a NaN. For -800 see rt_exp_split. */
    const double x = argument < -800.0 ? -800.0 : argument;
    return rt_exp_limited_double(x > 720.0 ? 720.0 : x, 1.0);
}

/* exp(-|x|) */
RT_MATH double rt_exp_falling_double(double x) {
    const double y = rt_negative_double(x);
    return rt_exp_limited_double(y < -800.0 ? -800.0 : y, 1.0);
}

/* exp(x) - 1 for x up to 60, as exact near 0 as elsewhere: 2^n r + (2^n - 1), which is larger than what is added to it, and what their sum has
 * lost. Of -0 it is 0. */
RT_MATH double rt_exp_minus_one_near_double(double x) {
    const rt_long_exponent e = rt_exp_reduce_double(x < -746.0 ? -746.0 : x);
    const uint64_t exponent = e.shifted - RT_LONG_SHIFT_BITS + 1023;
    /* Below 2^-60 a power changes nothing, and would have no exponent. */
    const rt_long_word power = {.bits = (x < -41.0 ? UINT64_C(1023 - 60) : exponent) << 52};
    const double base = power.real - 1.0, part = power.real * e.r, sum = base + part;
    return sum + ((part - (sum - base)) + power.real * e.rest);
}

/* The logarithm of x, a normal positive number, times 2^-lowered, and `more`, which is small beside it. */
RT_MATH double rt_log_normal_double(double x, double lowered, double more) {
    const rt_long_word word = {.real = x};
    /* The exponent that leaves a mantissa in [sqrt(1/2), sqrt(2)), 1024 too large. */
    const uint64_t raised = (word.bits - UINT64_C(0x3fe6a09e667f3bcd) + (UINT64_C(1024) << 52)) >> 52;
    const rt_long_word whole = {.bits = raised | UINT64_C(0x4330000000000000)}; /* 2^52 and as many */
    const double exponent = whole.real - (0x1p52 + 1024.0) - lowered;
    const rt_long_word mantissa = {.bits = word.bits - ((raised - 1024) << 52)};
    /* With s = f / (2 + f) it is 2 s + s R(s^2), and 2 s is f - s f. */
    const double f = mantissa.real - 1.0, s = f / (2.0 + f), z = s * s, square = 0.5 * f * f;
    const double zz = z * z;
    double even = 0.1479541813398217, odd = 0.1531410632382502;
    even = even * zz + 0.18183562032072667;
    odd = odd * zz + 0.2222219861981468;
    even = even * zz + 0.2857142874190443;
    odd = odd * zz + 0.3999999999941702;
    even = even * zz + 0.6666666666666734;
    const double p = even + z * odd;
    const double rest = s * (square + z * p) + (exponent * RT_LONG_LOG_2_REST + more);
    return exponent * RT_LONG_LOG_2 - ((square - rest) - f);
}

RT_MATH double rt_log_double(double x) {
    /* Subnormal numbers are scaled up first. */
    const int small = x < 0x1p-1022;
    double result = rt_log_normal_double(small ? x * 0x1p54 : x, small ? 54.0 : 0.0, 0.0);
    const rt_long_word infinite = {.bits = UINT64_C(0x7ff0000000000000)},
                       none = {.bits = UINT64_C(0x7ff8000000000000)};
    result = x == infinite.real ? x : result;
    result = x == 0.0 ? -infinite.real : result;
    return x >= 0.0 ? result : none.real; /* a negative number or a NaN */
}

/* log(1 + x) for x in [0, 1], or a NaN: what 1 + x loses of x is put back. */
RT_MATH double rt_log_plus_one_double(double x) {
    const double sum = 1.0 + x;
    return rt_log_normal_double(sum, 0.0, (x - (sum - 1.0)) / sum);
}

RT_MATH double rt_softplus_double(double x) {
    return (x > 0.0 ? x : 0.0) + rt_log_plus_one_double(rt_exp_falling_double(x));
}

/* With e = exp(2 |x|) - 1 it is e / (e + 2); from 20 on that rounds to 1. */
RT_MATH double rt_tanh_double(double x) {
    const double a = rt_absolute_double(x), b = a > 20.0 ? 20.0 : a, e = rt_exp_minus_one_near_double(b + b);
    const double sum = e + 2.0, lost = e < 2.0 ? e - (sum - 2.0) : 2.0 - (sum - e);
    return rt_sign_of_double(rt_ratio_double(e, 0.0, sum, lost), x);
}

/* 1 / (1 + exp(-x)) */
RT_MATH double rt_sigmoid_double(double x) {
    const double e = rt_exp_falling_double(x), sum = 1.0 + e;
    return rt_ratio_double(x < 0.0 ? e : 1.0, 0.0, sum, e - (sum - 1.0));
}

/* x / (1 + exp(-alpha x)) */
RT_MATH double rt_swish_double(double x, double alpha) {
    return x / (1.0 + rt_exp_double(-alpha * x));
}

/* The usual approximation of Gelu by tanh, written as x / (1 + exp(-z)). */
RT_MATH double rt_gelu_by_tanh_double(double x) {
    return x / (1.0 + rt_exp_double(-1.5957691216057308 * (x + 0.044715 * x * x * x)));
}

/* x tanh(log(1 + exp(x))): from 40 on it is x. */
RT_MATH double rt_mish_double(double x) {
    const double e = rt_exp_double(x > 40.0 ? 40.0 : x), n = e * (e + 2.0);
    return x > 40.0 ? x : x * n / (n + 2.0);
}

/* exp(x) - 1 for x below 0: what Elu and its like have there. */
RT_MATH double rt_elu_double(double x) {
    return rt_exp_minus_one_near_double(x);
}

/* x to the power of y, of floats: computed in double, it is rounded as if it were exact, but for one in a million. All that C says of special
 * numbers holds. */
RT_MATH float rt_pow(float base, float power) {
    const double x = (double)base, y = (double)power, m = rt_absolute_double(x);
    const rt_long_word infinite = {.bits = UINT64_C(0x7ff0000000000000)},
                       none = {.bits = UINT64_C(0x7ff8000000000000)};
    const double logarithm = rt_log_normal_double(m, 0.0, 0.0), product = m == 1.0 ? 0.0 : y * logarithm;
    const double finite = rt_exp_double(product);
    /* Floats from 2^24 on are even. A negative number has powers that are whole alone; odd ones have its sign. */
    const double few = rt_absolute_double(y) > 0x1p24 ? 2.0 : y;
    const rt_long_word shifted = {.real = few + RT_LONG_SHIFT};
    const double rounded = shifted.real - RT_LONG_SHIFT;
    rt_long_word sign = {.real = rounded == few ? x : 1.0};
    sign.bits &= shifted.bits << 63;
    const double at_zero = y > 0.0 ? 0.0 : infinite.real, at_infinity = y > 0.0 ? infinite.real : 0.0;
    const double real = rounded == few ? finite : none.real, mine = x < 0.0 ? real : finite;
    const double magnitude = m == 0.0 ? at_zero : m == infinite.real ? at_infinity : mine;
    rt_long_word z = {.real = magnitude};
    z.bits |= sign.bits;
    const double number = x != x ? x : z.real, other = x != 1.0 ? y : number;
    return (float)(y == 0.0 ? 1.0 : y != y ? other : number);
}

/* ---- angles ---------------------------------------------------------------------------------------------- */

/* Up to this magnitude rt_sin_double, rt_cos_double and rt_tan_double are right. */
#define RT_LONG_ANGLE_LIMIT 1048576.0

/* An angle from 0 on as quarters of a turn, of which the last two bits count, and a rest of about half a quarter at most; `lost` is what the
 * rest has lost of its last digits. */
typedef struct rt_long_angle {
    double rest, lost;
    uint64_t quarters;
} rt_long_angle;

RT_MATH rt_long_angle rt_angle_of_double(double x) {
    const rt_long_word shifted = {.real = x * 0.6366197723675814 + RT_LONG_SHIFT};
    const double n = shifted.real - RT_LONG_SHIFT;
    /* pi / 2 in four parts, of which the first three have so few bits that n times each is exact. A difference is exact where it is smaller than
     * what is taken away; elsewhere what it loses is known. */
    const double first = x - n * 1.5707963267341256, part = n * 6.077100506303966e-11, second = first - part;
    const double lost = (first - second) - part, next = n * 2.0222662487111665e-21, third = second - next;
    const double low = (lost + ((second - third) - next)) - n * 8.4784276603689e-32, rest = third + low;
    return (rt_long_angle){rest, (third - rest) + low, shifted.bits};
}

/* A number and what it has lost of its last digits. */
typedef struct rt_long_pair {
    double sum, lost;
} rt_long_pair;

/* `large` and what is smaller. */
RT_MATH rt_long_pair rt_pair_double(double large, double small) {
    const double sum = large + small;
    return (rt_long_pair){sum, small - (sum - large)};
}

RT_MATH rt_long_pair rt_sin_rest_double(double r, double lost) {
    const double z = r * r;
    double p = 1.5896892787842267e-10;
    p = p * z - 2.505075999849914e-08;
    p = p * z + 2.7557313705748383e-06;
    p = p * z - 1.9841269829855193e-04;
    p = p * z + 0.008333333333322488;
    p = p * z - 0.16666666666666632;
    return rt_pair_double(r, r * z * p + lost * (1.0 - 0.5 * z));
}

RT_MATH rt_long_pair rt_cos_rest_double(double r, double lost) {
    const double z = r * r, half = 0.5 * z, near = 1.0 - half;
    double p = -1.1359923912580399e-11;
    p = p * z + 2.0875729111757533e-09;
    p = p * z - 2.7557314400031536e-07;
    p = p * z + 2.4801587289669053e-05;
    p = p * z - 0.0013888888888874472;
    p = p * z + 0.0416666666666666;
    return rt_pair_double(near, ((1.0 - near) - half) + (z * z * p - r * lost));
}

RT_MATH double rt_sin_double(double x) {
    const rt_long_word from = {.real = x};
    const rt_long_angle angle = rt_angle_of_double(rt_absolute_double(x));
    const double s = rt_sin_rest_double(angle.rest, angle.lost).sum,
                 c = rt_cos_rest_double(angle.rest, angle.lost).sum;
    rt_long_word y = {.real = angle.quarters & 1 ? c : s};
    y.bits ^= (angle.quarters << 62 ^ from.bits) & RT_LONG_SIGN;
    return y.real;
}

RT_MATH double rt_cos_double(double x) {
    const rt_long_angle angle = rt_angle_of_double(rt_absolute_double(x));
    const double s = rt_sin_rest_double(angle.rest, angle.lost).sum,
                 c = rt_cos_rest_double(angle.rest, angle.lost).sum;
    rt_long_word y = {.real = angle.quarters & 1 ? s : c};
    y.bits ^= (angle.quarters + 1) << 62 & RT_LONG_SIGN;
    return y.real;
}

RT_MATH double rt_tan_double(double x) {
    const rt_long_word from = {.real = x};
    const rt_long_angle angle = rt_angle_of_double(rt_absolute_double(x));
    const rt_long_pair s = rt_sin_rest_double(angle.rest, angle.lost),
                       c = rt_cos_rest_double(angle.rest, angle.lost);
    const int odd = angle.quarters & 1;
    rt_long_word y = {.real = rt_ratio_double(odd ? -c.sum : s.sum, odd ? -c.lost : s.lost,
                                              odd ? s.sum : c.sum, odd ? s.lost : c.lost)};
    y.bits ^= from.bits & RT_LONG_SIGN;
    return y.real;
}

/* exp(a) / 2 for a from 0 on: finite as long as it can be. */
RT_MATH double rt_half_exp_double(double a) {
    return rt_exp_limited_double(a > 720.0 ? 720.0 : a, 0.5);
}

RT_MATH double rt_sinh_double(double x) {
    const double a = rt_absolute_double(x), z = a * a, h = rt_half_exp_double(a);
    double p = 7.775844983327619e-13;
    p = p * z + 1.6056683455325385e-10;
    p = p * z + 2.5052130705740814e-08;
    p = p * z + 2.755731910838516e-06;
    p = p * z + 1.984126984158935e-04;
    p = p * z + 0.008333333333332915;
    p = p * z + 0.16666666666666669;
    const double near = a + a * z * p, far = h - 0.25 / h;
    return rt_sign_of_double(a < 1.0 ? near : far, x);
}

RT_MATH double rt_cosh_double(double x) {
    const double h = rt_half_exp_double(rt_absolute_double(x));
    return h + 0.25 / h;
}

#define RT_MAP_LONG_DOUBLE(y, x, count, expression) RT_MAP_LONG_OF(double, 8, 2, y, x, count, expression)

#endif
