/* SPDX-License-Identifier: Apache-2.0 */
/* number.c: reals as text and back. See ir/number.h. */
#include "ir/number.h"
#include "ir/operators/small.h"

#include <ctype.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool ir_dtype_is_real(op_dtype dtype) {
    return dtype == OP_FLOAT || dtype == OP_DOUBLE || dtype == OP_FLOAT16 || dtype == OP_BFLOAT16 ||
           op_dtype_is_small(dtype);
}

static double double_of_bits(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
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
        if (op_dtype_is_small(dtype)) return op_small_code(dtype, NAN, true, OP_ROUND_UP);
        return UINT64_C(0x7ff8000000000000);
    }
}

/* The real as a double, which holds all of them. */
static double value_of_bits(op_dtype dtype, uint64_t bits) {
    switch (dtype) {
    case OP_FLOAT:
        return (double)base_float_of_bits((uint32_t)bits);
    case OP_FLOAT16:
        return (double)base_float_from_half((uint16_t)bits);
    case OP_BFLOAT16:
        return (double)base_float_from_bfloat16((uint16_t)bits);
    default:
        if (op_dtype_is_small(dtype)) return (double)op_small_value(dtype, (uint8_t)bits);
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
        size_t width = op_dtype_bits(dtype);
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
        *bits = base_bits_of_float(single);
        return true;
    case OP_FLOAT16:
        *bits = base_half_from_float(single);
        return true;
    case OP_BFLOAT16:
        *bits = base_bfloat16_from_float(single);
        return true;
    default:
        if (op_dtype_is_small(dtype)) {
            *bits = op_small_code(dtype, (double)single, false, OP_ROUND_NEAREST);
            return true;
        }
        memcpy(bits, &number, sizeof number);
        return true;
    }
}
