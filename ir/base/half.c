/* SPDX-License-Identifier: Apache-2.0 */
/* half.c: float16 and bfloat16, one number at a time. See base.h. */
#include "ir/base/base.h"

#include <math.h>

float base_float_from_half(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, rest = half & 0x7fffu;
    if (rest >= 0x7c00u) return base_float_of_bits(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    /* As a float with the exponent too small by 112; the product is exact, for subnormal numbers too. */
    return base_float_of_bits(sign | base_bits_of_float(base_float_of_bits(rest << 13) * 0x1p112f));
}

/* The dropped bits decide: up when more than half, or when half and the kept part is odd. */
static uint32_t round_shift(uint32_t value, unsigned shift) {
    uint32_t kept = value >> shift, dropped = value & ((1u << shift) - 1), half = 1u << (shift - 1);
    return kept + (dropped > half || (dropped == half && (kept & 1)));
}

uint16_t base_half_from_float(float value) {
    uint32_t bits = base_bits_of_float(value), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (rest >= 0x47800000u) return (uint16_t)(sign | 0x7c00u);
    if (rest >= 0x38800000u) return (uint16_t)(sign | (round_shift(rest, 13) - (112u << 10)));
    if (rest < 0x33000000u) return (uint16_t)sign;
    unsigned exponent = rest >> 23;
    return (uint16_t)(sign | round_shift((rest & 0x7fffffu) | 0x800000u, 126 - exponent));
}

float base_float_from_bfloat16(uint16_t bits) {
    return base_float_of_bits((uint32_t)bits << 16);
}

uint16_t base_bfloat16_from_float(float value) {
    uint32_t bits = base_bits_of_float(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)(round_shift(bits, 16));
}

/* A double as the float next to it that keeps the information whether anything was cut: rounding to odd,
 * after which a second rounding to fewer bits is right. */
static float round_to_odd(double value) {
    float near = (float)value;
    if (isnan(near) || isinf(value) || (double)near == value) return near;
    uint32_t bits = base_bits_of_float(near);
    if (isinf(near)) return base_float_of_bits(bits - 1); /* the largest finite one, which is odd */
    if (bits & 1) return near;
    bool away = fabs((double)near) < fabs(value);
    if ((bits & 0x7fffffffu) == 0) return base_float_of_bits((signbit(value) ? 0x80000000u : 0) | 1);
    return base_float_of_bits(away ? bits + 1 : bits - 1);
}

uint16_t base_half_from_double(double value) {
    return base_half_from_float(round_to_odd(value));
}
uint16_t base_bfloat16_from_double(double value) {
    return base_bfloat16_from_float(round_to_odd(value));
}
