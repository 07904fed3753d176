/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_compare.c: see tensor_compare.h. */
#include "compiler/files/tensor_compare.h"
#include "ir/operators/small.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double file_tensor_number(const op_tensor *tensor, size_t index) {
    const void *data = tensor->data;
    switch (tensor->type.dtype) {
    case OP_COMPLEX64:
    case OP_FLOAT:
        return ((const float *)data)[index];
    case OP_COMPLEX128:
    case OP_DOUBLE:
        return ((const double *)data)[index];
    case OP_FLOAT16:
        return (double)base_float_from_half(((const uint16_t *)data)[index]);
    case OP_BFLOAT16:
        return (double)base_float_from_bfloat16(((const uint16_t *)data)[index]);
    case OP_UINT8:
        return ((const uint8_t *)data)[index];
    case OP_BOOL:
        return ((const uint8_t *)data)[index] != 0;
    case OP_INT8:
        return ((const int8_t *)data)[index];
    case OP_UINT16:
        return ((const uint16_t *)data)[index];
    case OP_INT16:
        return ((const int16_t *)data)[index];
    case OP_INT32:
        return ((const int32_t *)data)[index];
    case OP_INT64:
        return (double)((const int64_t *)data)[index];
    case OP_UINT32:
        return ((const uint32_t *)data)[index];
    case OP_UINT64:
        return (double)((const uint64_t *)data)[index];
    default:
        if (op_dtype_is_small(tensor->type.dtype))
            return (double)op_small_value(tensor->type.dtype,
                                          op_small_load(tensor->type.dtype, data, (int64_t)index));
        return NAN;
    }
}

/* Prints "[2,3]"; returns text. */
static char *print_shape(const op_shape *shape, char *text, size_t capacity) {
    size_t used = (size_t)snprintf(text, capacity, shape->rank < 0 ? "[?" : "[");
    for (int32_t d = 0; d < shape->rank && used < capacity; d++) {
        used += (size_t)(shape->dims[d] < 0 ? snprintf(text + used, capacity - used, d ? ",?" : "?")
                                            : snprintf(text + used, capacity - used,
                                                       d ? ",%" PRId64 : "%" PRId64, shape->dims[d]));
    }
    if (used < capacity) snprintf(text + used, capacity - used, "]");
    return text;
}

/* The shortest decimal that reads back as the same float (9 digits) or double (17). */
static void print_real(double value, bool single, char *text, size_t capacity) {
    for (int digits = single ? 6 : 15;; digits++) {
        snprintf(text, capacity, "%.*g", digits, value);
        bool same = single ? strtof(text, NULL) == (float)value : strtod(text, NULL) == value;
        if (same || isnan(value) || digits >= (single ? 9 : 17)) return;
    }
}

char *file_tensor_element_print(const op_tensor *tensor, size_t index, char *text, size_t capacity) {
    op_dtype dtype = tensor->type.dtype;
    char parts[2][40];
    switch (dtype) {
    case OP_INT64:
        snprintf(text, capacity, "%" PRId64, ((const int64_t *)tensor->data)[index]);
        break;
    case OP_UINT64:
        snprintf(text, capacity, "%" PRIu64, ((const uint64_t *)tensor->data)[index]);
        break;
    case OP_BOOL:
        snprintf(text, capacity, "%s", file_tensor_number(tensor, index) != 0 ? "true" : "false");
        break;
    case OP_STRING: {
        const op_string *string = &((const op_string *)tensor->data)[index];
        size_t used = 0;
        if (capacity < 8) break;
        text[used++] = '"';
        for (size_t i = 0; i < string->length && used < capacity - 5; i++) {
            unsigned char c = (unsigned char)string->data[i];
            if (c < ' ' || c == 127) {
                used += (size_t)snprintf(text + used, capacity - used, "\\x%02x", c);
            } else {
                if (c == '"' || c == '\\') text[used++] = '\\';
                text[used++] = (char)c;
            }
        }
        text[used++] = '"';
        text[used] = 0;
        break;
    }
    case OP_COMPLEX64:
    case OP_COMPLEX128:
        print_real(file_tensor_number(tensor, index * 2), dtype == OP_COMPLEX64, parts[0], sizeof parts[0]);
        print_real(file_tensor_number(tensor, index * 2 + 1), dtype == OP_COMPLEX64, parts[1],
                   sizeof parts[1]);
        snprintf(text, capacity, "%s%s%si", parts[0], parts[1][0] == '-' ? "" : "+", parts[1]);
        break;
    default:
        print_real(file_tensor_number(tensor, index), dtype != OP_DOUBLE, text, capacity);
        break;
    }
    return text;
}

static bool is_real(op_dtype dtype) {
    return dtype == OP_FLOAT || dtype == OP_DOUBLE || dtype == OP_FLOAT16 || dtype == OP_BFLOAT16 ||
           dtype == OP_COMPLEX64 || dtype == OP_COMPLEX128 || op_dtype_is_small(dtype);
}

static bool reals_agree(double actual, double expected, tensor_tolerance tolerance) {
    if (isnan(expected) || isnan(actual)) return isnan(expected) && isnan(actual);
    if (isinf(expected) || isinf(actual)) return actual == expected;
    return fabs(actual - expected) <= tolerance.absolute + tolerance.relative * fabs(expected);
}

/* One unit in the last place of a bfloat16 is up to 2^-7 of the number: a smaller tolerance would ask for one
 * way of rounding, and data files exist in both (cut off, and to nearest). */
static tensor_tolerance tolerance_of(op_dtype dtype, tensor_tolerance tolerance) {
    const double unit = 0x1p-7;
    if (dtype == OP_BFLOAT16 && tolerance.relative > 0 && tolerance.relative < unit)
        tolerance.relative = unit;
    return tolerance;
}

static bool elements_agree(const op_tensor *actual, const op_tensor *expected, size_t index,
                           tensor_tolerance tolerance) {
    op_dtype dtype = expected->type.dtype;
    if (dtype == OP_STRING) {
        const op_string *a = &((const op_string *)actual->data)[index];
        const op_string *b = &((const op_string *)expected->data)[index];
        return a->length == b->length && (a->length == 0 || memcmp(a->data, b->data, a->length) == 0);
    }
    if (is_real(dtype)) {
        return reals_agree(file_tensor_number(actual, index), file_tensor_number(expected, index), tolerance);
    }
    size_t width = op_dtype_bytes(dtype);
    return memcmp((const char *)actual->data + index * width, (const char *)expected->data + index * width,
                  width) == 0;
}

/* "element [0,3]" of a flat index. */
static void print_index(const op_shape *shape, size_t index, char *text, size_t capacity) {
    op_shape at = {.rank = shape->rank};
    for (int32_t d = shape->rank - 1; d >= 0; d--) {
        at.dims[d] = (int64_t)(index % (size_t)shape->dims[d]);
        index /= (size_t)shape->dims[d];
    }
    print_shape(&at, text, capacity);
}

bool file_tensor_compare(const op_tensor *actual, const op_tensor *expected, tensor_tolerance tolerance,
                         char *reason, size_t capacity) {
    const op_type *a = &actual->type, *b = &expected->type;
    if (a->dtype != b->dtype) {
        snprintf(reason, capacity, "is %s, expected %s", op_dtype_name(a->dtype), op_dtype_name(b->dtype));
        return false;
    }
    char first[256], second[256], place[256];
    if (!op_shape_equal(&a->shape, &b->shape)) {
        snprintf(reason, capacity, "has shape %s, expected %s", print_shape(&a->shape, first, sizeof first),
                 print_shape(&b->shape, second, sizeof second));
        return false;
    }
    int64_t elements;
    if (!op_shape_elements(&b->shape, &elements)) {
        snprintf(reason, capacity, "has a shape that is not known");
        return false;
    }
    bool complex = b->dtype == OP_COMPLEX64 || b->dtype == OP_COMPLEX128;
    size_t numbers = (size_t)elements * (complex ? 2 : 1), wrong = 0, found = 0;
    double largest = 0;
    tolerance = tolerance_of(b->dtype, tolerance);
    for (size_t i = 0; i < numbers; i++) {
        if (elements_agree(actual, expected, i, tolerance)) continue;
        if (wrong++ == 0) found = complex ? i / 2 : i;
        if (is_real(b->dtype)) {
            double difference = fabs(file_tensor_number(actual, i) - file_tensor_number(expected, i));
            if (difference > largest) largest = difference;
        }
    }
    if (wrong == 0) return true;
    print_index(&b->shape, found, place, sizeof place);
    file_tensor_element_print(actual, found, first, 100);
    file_tensor_element_print(expected, found, second, 100);
    if (is_real(b->dtype)) {
        snprintf(reason, capacity, "differs at %s: %s, expected %s (%zu of %zu differ, by at most %.3g)",
                 place, first, second, wrong, numbers, largest);
    } else {
        snprintf(reason, capacity, "differs at %s: %s, expected %s (%zu of %zu differ)", place, first, second,
                 wrong, numbers);
    }
    return false;
}

void file_tensor_errors_add(const op_tensor *actual, const op_tensor *expected, tensor_errors *errors) {
    int64_t elements;
    const op_type *type = &expected->type;
    if (!is_real(type->dtype) || actual->type.dtype != type->dtype ||
        !op_shape_equal(&actual->type.shape, &type->shape) || !op_shape_elements(&type->shape, &elements))
        return;
    const bool complex = type->dtype == OP_COMPLEX64 || type->dtype == OP_COMPLEX128;
    const size_t numbers = (size_t)elements * (complex ? 2 : 1);
    for (size_t i = 0; i < numbers; i++) {
        const double a = file_tensor_number(actual, i), b = file_tensor_number(expected, i);
        if (a == b || (isnan(a) && isnan(b))) continue;
        const double difference = isnan(a) || isnan(b) ? INFINITY : fabs(a - b);
        if (difference > errors->absolute) errors->absolute = difference;
        if (b != 0 && difference / fabs(b) > errors->relative) errors->relative = difference / fabs(b);
    }
}
