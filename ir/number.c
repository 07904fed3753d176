/* number.c: reals as text and back. See ir/number.h. */
#include "ir/number.h"

#include <ctype.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool ir_dtype_is_real(op_dtype dtype) {
    return dtype == OP_FLOAT || dtype == OP_DOUBLE || dtype == OP_FLOAT16 || dtype == OP_BFLOAT16;
}

static float float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double double_of_bits(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Every float16 is a float32; not for NaN. */
static float float_of_half(uint32_t half) {
    uint32_t exponent = half >> 10 & 0x1f, fraction = half & 0x3ff;
    float magnitude;
    if (exponent == 0x1f) magnitude = INFINITY;
    else if (exponent == 0) magnitude = ldexpf((float)fraction, -24);
    else magnitude = ldexpf((float)(fraction | 0x400), (int)exponent - 25);
    return half & 0x8000 ? -magnitude : magnitude;
}

/* To nearest, ties to even; not for NaN. */
static uint32_t half_of_float(float value) {
    uint32_t sign = signbit(value) ? 0x8000 : 0;
    double magnitude = fabs((double)value);
    if (magnitude >= 65520.0) return sign | 0x7c00;
    if (magnitude == 0.0) return sign;
    int exponent;
    frexp(magnitude, &exponent); /* magnitude = m * 2^exponent, 0.5 <= m < 1 */
    if (exponent < -13) exponent = -13;
    /* In units of the last place; rounding up into the next exponent carries by itself. */
    uint32_t units = (uint32_t)nearbyint(ldexp(magnitude, 11 - exponent));
    return sign | ((uint32_t)(exponent + 13) * 1024 + units);
}

static uint64_t canonical_nan(op_dtype dtype) {
    switch (dtype) {
    case OP_FLOAT:
        return 0x7fc00000;
    case OP_FLOAT16:
        return 0x7e00;
    case OP_BFLOAT16:
        return 0x7fc0;
    default:
        return UINT64_C(0x7ff8000000000000);
    }
}

/* The real as a double, which holds all of them. */
static double value_of_bits(op_dtype dtype, uint64_t bits) {
    switch (dtype) {
    case OP_FLOAT:
        return (double)float_of_bits((uint32_t)bits);
    case OP_FLOAT16:
        return (bits & 0x7fff) > 0x7c00 ? NAN : (double)float_of_half((uint32_t)bits);
    case OP_BFLOAT16:
        return (double)float_of_bits((uint32_t)bits << 16);
    default:
        return double_of_bits(bits);
    }
}

void ir_real_print(op_dtype dtype, uint64_t bits, char text[IR_NUMBER_TEXT]) {
    double value = value_of_bits(dtype, bits);
    if (isnan(value)) {
        if (bits == canonical_nan(dtype)) snprintf(text, IR_NUMBER_TEXT, "nan");
        else snprintf(text, IR_NUMBER_TEXT, "nan(0x%llx)", (unsigned long long)bits);
        return;
    }
    if (isinf(value)) {
        snprintf(text, IR_NUMBER_TEXT, value < 0 ? "-inf" : "inf");
        return;
    }
    int first = dtype == OP_DOUBLE ? 15 : dtype == OP_FLOAT ? 6 : 3, last = dtype == OP_DOUBLE ? 17 : 9;
    if (fabs(value) < (dtype == OP_DOUBLE ? DBL_MIN : (double)FLT_MIN))
        first = 1; /* subnormals hold fewer digits */
    for (int digits = first; digits <= last; digits++) {
        char local[IR_NUMBER_TEXT];
        snprintf(local, sizeof local, "%.*g", digits, value);
        /* What is no digit, sign or exponent is the decimal point of the locale. */
        size_t length = 0;
        bool whole = true;
        for (const char *at = local; *at; at++) {
            if (isdigit((unsigned char)*at) || strchr("+-e", *at)) {
                text[length++] = *at;
                if (*at == 'e') whole = false;
            } else if (whole) {
                text[length++] = '.';
                whole = false;
            }
        }
        if (whole) {
            text[length++] = '.';
            text[length++] = '0';
        }
        text[length] = '\0';
        uint64_t again;
        if (ir_real_parse(dtype, text, &again) && again == bits) return;
    }
}

bool ir_real_parse(op_dtype dtype, const char *text, uint64_t *bits) {
    if (strcmp(text, "nan") == 0) {
        *bits = canonical_nan(dtype);
        return true;
    }
    if (strncmp(text, "nan(0x", 6) == 0) {
        char *end;
        if (!isxdigit((unsigned char)text[6])) return false;
        unsigned long long raw = strtoull(text + 6, &end, 16);
        size_t width = 8 * op_dtype_bytes(dtype);
        if (strcmp(end, ")") != 0 || end - text > 22 || (width < 64 && raw >> width != 0)) return false;
        if (!isnan(value_of_bits(dtype, raw))) return false;
        *bits = raw;
        return true;
    }
    if (strcmp(text, "inf") != 0 && strcmp(text, "-inf") != 0 &&
        strspn(text, "0123456789+-.eE") != strlen(text)) {
        return false;
    }
    char *end;
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* glibc's own, not allocated */
    if (!c) return false;
    float single = strtof_l(text, &end, c);
    double number = dtype == OP_DOUBLE ? strtod_l(text, &end, c) : (double)single;
    freelocale(c);
    if (end == text || *end) return false;
    switch (dtype) {
    case OP_FLOAT:
        *bits = bits_of_float(single);
        return true;
    case OP_FLOAT16:
        *bits = half_of_float(single);
        return true;
    case OP_BFLOAT16: {
        uint32_t wide = bits_of_float(single);
        *bits = (wide + 0x7fff + (wide >> 16 & 1)) >> 16; /* to nearest, ties to even */
        return true;
    }
    default:
        memcpy(bits, &number, sizeof number);
        return true;
    }
}
