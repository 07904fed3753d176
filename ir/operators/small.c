/* SPDX-License-Identifier: Apache-2.0 */
/* small.c: see small.h. */
#include "ir/operators/small.h"
#include <math.h>

/* Floats with a sign: bits of the mantissa, what the exponent is shifted by, the largest finite number; codes of NaN and infinity
 * without sign, 0 where there are none. `nuz`: there is no -0, whose code is the only NaN. */
typedef struct small_float {
    int mantissa, bias;
    float largest;
    uint8_t nan, infinity;
    bool nuz;
} small_float;

static const small_float *float_of(op_dtype dtype) {
    static const small_float e4m3fn = {3, 7, 448, 0x7f, 0, false}, e4m3fnuz = {3, 8, 240, 0x80, 0, true};
    static const small_float e5m2 = {2, 15, 57344, 0x7f, 0x7c, false},
                             e5m2fnuz = {2, 16, 57344, 0x80, 0, true};
    static const small_float e2m1 = {1, 1, 6, 0, 0, false};
    switch (dtype) {
    case OP_FLOAT8E4M3FN:
        return &e4m3fn;
    case OP_FLOAT8E4M3FNUZ:
        return &e4m3fnuz;
    case OP_FLOAT8E5M2:
        return &e5m2;
    case OP_FLOAT8E5M2FNUZ:
        return &e5m2fnuz;
    case OP_FLOAT4E2M1:
        return &e2m1;
    default:
        return NULL;
    }
}

bool op_dtype_is_small(op_dtype dtype) {
    return dtype >= OP_FLOAT8E4M3FN && dtype <= OP_INT2;
}

/* ---- where codes lie ----------------------------------------------------------------------------------- */

uint8_t op_small_load(op_dtype dtype, const void *data, int64_t index) {
    const uint8_t *bytes = data;
    const unsigned bits = op_dtype_bits(dtype);
    if (bits == 8) return bytes[index];
    const int64_t each = 8 / bits;
    return (uint8_t)(bytes[index / each] >> (index % each * bits) & ((1u << bits) - 1));
}

void op_small_store(op_dtype dtype, void *data, int64_t index, uint8_t code) {
    uint8_t *bytes = data;
    const unsigned bits = op_dtype_bits(dtype);
    if (bits == 8) {
        bytes[index] = code;
        return;
    }
    const int64_t each = 8 / bits;
    const unsigned shift = (unsigned)(index % each) * bits, mask = ((1u << bits) - 1) << shift;
    bytes[index / each] = (uint8_t)((bytes[index / each] & ~mask) | ((unsigned)code << shift & mask));
}

/* ---- what codes mean ----------------------------------------------------------------------------------- */

static float float_value(const small_float *format, unsigned sign_bit, uint8_t code) {
    const unsigned magnitude = code & (sign_bit - 1);
    if (format->nuz && code == format->nan) return NAN;
    float value;
    if (format->infinity && magnitude >= format->infinity) {
        value = magnitude == format->infinity ? INFINITY : NAN;
    } else if (!format->nuz && format->nan && magnitude == format->nan) {
        value = NAN;
    } else {
        const int exponent = (int)(magnitude >> format->mantissa), whole = 1 << format->mantissa;
        const int rest = (int)magnitude & (whole - 1);
        value = exponent ? ldexpf((float)(whole + rest), exponent - format->bias - format->mantissa)
                         : ldexpf((float)rest, 1 - format->bias - format->mantissa);
    }
    return code & sign_bit ? -value : value;
}

float op_small_value(op_dtype dtype, uint8_t code) {
    const small_float *format = float_of(dtype);
    const unsigned bits = op_dtype_bits(dtype);
    if (format) return float_value(format, 1u << (bits - 1), code);
    if (dtype == OP_FLOAT8E8M0) return code == 0xff ? NAN : ldexpf(1, code - 127);
    const bool negative = (dtype == OP_INT4 || dtype == OP_INT2) && code >> (bits - 1);
    return (float)((int)code - (negative ? 1 << bits : 0));
}

static uint8_t float_code(const small_float *format, unsigned sign_bit, double value, bool saturate) {
    const uint8_t sign = signbit(value) ? (uint8_t)sign_bit : 0;
    const double magnitude = fabs(value);
    if (isnan(value)) return format->nuz ? format->nan : format->nan ? sign | format->nan : 0;
    int exponent;
    (void)frexp(magnitude, &exponent);
    exponent = exponent - 1 < 1 - format->bias || magnitude <= 0 ? 1 - format->bias : exponent - 1;
    /* Rounded to a multiple of the last bit's worth, ties to even. */
    double count = isinf(magnitude) ? magnitude : nearbyint(ldexp(magnitude, format->mantissa - exponent));
    if (ldexp(count, exponent - format->mantissa) > (double)format->largest) {
        if (!saturate && format->infinity) return sign | format->infinity;
        if (!saturate && format->nan) return format->nuz ? format->nan : sign | format->nan;
        return sign | (format->nuz   ? 0x7f
                       : format->nan ? (uint8_t)(format->infinity ? format->infinity - 1 : format->nan - 1)
                                     : (uint8_t)(sign_bit - 1));
    }
    int whole = (int)count, unit = 1 << format->mantissa;
    if (whole == 0) return format->nuz ? 0 : sign;
    if (whole == 2 * unit) {
        whole = unit;
        exponent++;
    }
    return sign |
           (uint8_t)(whole < unit ? whole : ((exponent + format->bias) << format->mantissa) + whole - unit);
}

static uint8_t power_code(double value, bool saturate, op_rounding rounding) {
    enum { NONE = 0xff, LARGEST = 0xfe };
    int exponent;
    const double magnitude = fabs(value);
    if (isnan(value)) return NONE;
    if (magnitude <= 0) return saturate ? 0 : NONE;
    if (isinf(magnitude)) return saturate ? LARGEST : NONE;
    const double part = 2 * frexp(magnitude, &exponent); /* [1, 2) */
    exponent -= 1;
    if (rounding == OP_ROUND_UP ? part > 1 : rounding == OP_ROUND_NEAREST && part >= 1.5) exponent++;
    if (exponent > 127) return saturate ? LARGEST : NONE;
    if (exponent < -127) return saturate ? 0 : NONE;
    return (uint8_t)(exponent + 127);
}

uint8_t op_small_code(op_dtype dtype, double value, bool saturate, op_rounding rounding) {
    const small_float *format = float_of(dtype);
    const int bits = (int)op_dtype_bits(dtype);
    if (format) return float_code(format, 1u << (bits - 1), value, saturate);
    if (dtype == OP_FLOAT8E8M0) return power_code(value, saturate, rounding);
    const bool negative = dtype == OP_INT4 || dtype == OP_INT2;
    const int low = negative ? -(1 << (bits - 1)) : 0, high = low + (1 << bits) - 1;
    if (isnan(value)) return 0;
    const int whole = value <= low ? low : value >= high ? high : (int)value;
    return (uint8_t)((unsigned)whole & ((1u << bits) - 1));
}
