/* SPDX-License-Identifier: Apache-2.0 */
/* op.c: types, attributes and the small questions that shape functions ask about an application. See op.h. */
#include "ir/operators/op.h"

#include <stdio.h>
#include <string.h>

/* ---- types -------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    size_t bytes;
    unsigned bits; /* of an element that is less than a byte */
} dtypes[OP_DTYPE_COUNT] = {
    [OP_NONE] = {"none", 0, 0},
    [OP_FLOAT] = {"float32", 4, 0},
    [OP_UINT8] = {"uint8", 1, 0},
    [OP_INT8] = {"int8", 1, 0},
    [OP_UINT16] = {"uint16", 2, 0},
    [OP_INT16] = {"int16", 2, 0},
    [OP_INT32] = {"int32", 4, 0},
    [OP_INT64] = {"int64", 8, 0},
    [OP_STRING] = {"string", sizeof(op_string), 0},
    [OP_BOOL] = {"bool", 1, 0},
    [OP_FLOAT16] = {"float16", 2, 0},
    [OP_DOUBLE] = {"float64", 8, 0},
    [OP_UINT32] = {"uint32", 4, 0},
    [OP_UINT64] = {"uint64", 8, 0},
    [OP_COMPLEX64] = {"complex64", 8, 0},
    [OP_COMPLEX128] = {"complex128", 16, 0},
    [OP_BFLOAT16] = {"bfloat16", 2, 0},
    [OP_FLOAT8E4M3FN] = {"float8e4m3fn", 1, 0},
    [OP_FLOAT8E4M3FNUZ] = {"float8e4m3fnuz", 1, 0},
    [OP_FLOAT8E5M2] = {"float8e5m2", 1, 0},
    [OP_FLOAT8E5M2FNUZ] = {"float8e5m2fnuz", 1, 0},
    [OP_UINT4] = {"uint4", 0, 4},
    [OP_INT4] = {"int4", 0, 4},
    [OP_FLOAT4E2M1] = {"float4e2m1", 0, 4},
    [OP_FLOAT8E8M0] = {"float8e8m0", 1, 0},
    [OP_UINT2] = {"uint2", 0, 2},
    [OP_INT2] = {"int2", 0, 2},
};

unsigned op_dtype_bits(op_dtype dtype) {
    if ((unsigned)dtype >= OP_DTYPE_COUNT) return 0;
    return dtypes[dtype].bits ? dtypes[dtype].bits : (unsigned)(8 * dtypes[dtype].bytes);
}

size_t op_dtype_bytes(op_dtype dtype) {
    return (unsigned)dtype < OP_DTYPE_COUNT ? dtypes[dtype].bytes : 0;
}

const char *op_dtype_name(op_dtype dtype) {
    return (unsigned)dtype < OP_DTYPE_COUNT ? dtypes[dtype].name : "invalid";
}

op_dtype op_dtype_from_name(const char *name) {
    for (int dtype = OP_NONE + 1; dtype < OP_DTYPE_COUNT; dtype++) {
        if (strcmp(dtypes[dtype].name, name) == 0) return (op_dtype)dtype;
    }
    return OP_NONE;
}

const char *op_layout_name(op_layout layout) {
    static const char *const names[OP_LAYOUT_COUNT] = {"row_major", "nc8", "nc16", "nhwc", "packed"};
    return (unsigned)layout < OP_LAYOUT_COUNT ? names[layout] : "invalid";
}

bool op_shape_known(const op_shape *shape) {
    if (shape->rank < 0) return false;
    for (int32_t i = 0; i < shape->rank; i++) {
        if (shape->dims[i] < 0) return false;
    }
    return true;
}

bool op_shape_equal(const op_shape *a, const op_shape *b) {
    if (a->rank != b->rank) return false;
    for (int32_t i = 0; i < a->rank; i++) {
        if (a->dims[i] != b->dims[i]) return false;
    }
    return true;
}

bool op_shape_named(const op_shape *shape) {
    for (int32_t i = 0; i < shape->rank; i++)
        if (shape->dims[i] == OP_DIM_UNKNOWN) return false;
    return shape->rank >= 0;
}

bool op_shape_same(const op_shape *a, const op_shape *b) {
    return op_shape_named(a) && op_shape_equal(a, b);
}

bool op_shape_elements(const op_shape *shape, int64_t *elements) {
    if (!op_shape_known(shape)) return false;
    /* A zero anywhere makes the product zero, even where the other extents alone would overflow. */
    for (int32_t i = 0; i < shape->rank; i++) {
        if (shape->dims[i] == 0) {
            *elements = 0;
            return true;
        }
    }
    int64_t product = 1;
    for (int32_t i = 0; i < shape->rank; i++) {
        if (!base_int64_multiply(product, shape->dims[i], &product)) return false;
    }
    *elements = product;
    return true;
}

bool op_type_bytes(const op_type *type, size_t *bytes) {
    const size_t bits = op_dtype_bits(type->dtype);
    if (type->kind != OP_KIND_TENSOR || bits == 0) return false;
    if (type->layout == OP_LAYOUT_PACKED) {
        *bytes = type->packed_bytes;
        return true;
    }
    op_shape shape = type->shape;
    if (type->layout == OP_LAYOUT_NC8 || type->layout == OP_LAYOUT_NC16) {
        const int64_t block = op_layout_block(type->layout);
        int64_t padded;
        if (shape.rank < 2 || shape.dims[1] < 0) return false;
        if (!base_int64_add(shape.dims[1], block - 1, &padded)) return false;
        shape.dims[1] = padded / block * block;
    }
    int64_t elements;
    if (!op_shape_elements(&shape, &elements)) return false;
    if ((uint64_t)elements > SIZE_MAX) return false;
    if (bits >= 8) return base_size_multiply((size_t)elements, bits / 8, bytes);
    const size_t each = 8 / bits;
    *bytes = (size_t)elements / each + ((size_t)elements % each != 0);
    return true;
}

/* Text that is cut at its capacity. */
typedef struct cut_text {
    char *text;
    size_t capacity, length;
} cut_text;

__attribute__((format(printf, 2, 3))) static void cut_print(cut_text *to, const char *format, ...) {
    if (to->length + 1 >= to->capacity) return;
    va_list arguments;
    va_start(arguments, format);
    int written = vsnprintf(to->text + to->length, to->capacity - to->length, format, arguments);
    va_end(arguments);
    if (written > 0) to->length += (size_t)written;
    if (to->length >= to->capacity) to->length = to->capacity - 1;
}

char *op_type_print(const op_type *type, char *text, size_t capacity) {
    if (capacity == 0) return text;
    text[0] = '\0';
    cut_text to = {text, capacity, 0};
    static const char *const kinds[] = {"", "sequence(", "optional(", "map("};
    const bool within = type->kind != OP_KIND_TENSOR && type->element != OP_KIND_TENSOR;
    cut_print(&to, "%s%s", kinds[type->kind & 3], within ? kinds[type->element & 3] : "");
    cut_print(&to, "%s[", type->dtype == OP_NONE ? "?" : op_dtype_name(type->dtype));
    if (type->shape.rank < 0) cut_print(&to, "...");
    for (int32_t i = 0; i < type->shape.rank && i < OP_MAX_RANK; i++) {
        int64_t dim = type->shape.dims[i];
        const char *comma = i ? "," : "";
        if (dim >= 0) cut_print(&to, "%s%lld", comma, (long long)dim);
        else if (dim == OP_DIM_UNKNOWN) cut_print(&to, "%s?", comma);
        else cut_print(&to, "%ss%lld", comma, (long long)-dim);
    }
    cut_print(&to, "]");
    if (type->layout == OP_LAYOUT_PACKED) cut_print(&to, ":packed(%zu)", type->packed_bytes);
    else if (type->layout != OP_LAYOUT_ROW_MAJOR) cut_print(&to, ":%s", op_layout_name(type->layout));
    if (type->kind != OP_KIND_TENSOR) cut_print(&to, within ? "))" : ")");
    return text;
}

/* ---- attributes --------------------------------------------------------------------------------- */

const op_attribute *op_attribute_find(const op_attributes *attributes, const char *name) {
    for (size_t i = 0; i < attributes->count; i++) {
        if (strcmp(attributes->items[i].name, name) == 0) return &attributes->items[i];
    }
    return NULL;
}

static const op_attribute *find_kind(const op_attributes *attributes, const char *name,
                                     op_attribute_kind kind) {
    const op_attribute *attribute = op_attribute_find(attributes, name);
    return attribute && attribute->kind == kind ? attribute : NULL;
}

int64_t op_attribute_integer(const op_attributes *attributes, const char *name, int64_t otherwise) {
    const op_attribute *attribute = find_kind(attributes, name, OP_ATTRIBUTE_INT);
    return attribute ? attribute->as.integer : otherwise;
}

float op_attribute_real(const op_attributes *attributes, const char *name, float otherwise) {
    const op_attribute *attribute = find_kind(attributes, name, OP_ATTRIBUTE_FLOAT);
    return attribute ? attribute->as.real : otherwise;
}

const int64_t *op_attribute_integers(const op_attributes *attributes, const char *name, size_t *count) {
    const op_attribute *attribute = find_kind(attributes, name, OP_ATTRIBUTE_INTS);
    *count = attribute ? attribute->count : 0;
    return attribute ? attribute->as.integers : NULL;
}

const float *op_attribute_reals(const op_attributes *attributes, const char *name, size_t *count) {
    const op_attribute *attribute = find_kind(attributes, name, OP_ATTRIBUTE_FLOATS);
    *count = attribute ? attribute->count : 0;
    return attribute ? attribute->as.reals : NULL;
}

int64_t op_attribute_entry(const op_attributes *attributes, const char *name, size_t index) {
    size_t count;
    const int64_t *list = op_attribute_integers(attributes, name, &count);
    return index < count ? list[index] : 0;
}

bool op_attribute_is(const op_attributes *attributes, const char *name, const char *text,
                     const char *otherwise) {
    const op_attribute *attribute = find_kind(attributes, name, OP_ATTRIBUTE_STRING);
    if (!attribute) return otherwise && strcmp(text, otherwise) == 0;
    size_t length = strlen(text);
    return attribute->as.text.length == length && memcmp(attribute->as.text.data, text, length) == 0;
}

bool op_string_is(const op_string *text, const char *word) {
    if (text->length != strlen(word)) return false;
    for (size_t i = 0; i < text->length; i++) {
        if ((text->data[i] | 32) != (word[i] | 32)) return false;
    }
    return true;
}

/* ---- one application ---------------------------------------------------------------------------- */

int64_t op_dim_compute(const op_call *call, char operation, int64_t a, int64_t b) {
    if (a >= 0 && b >= 0) {
        int64_t result;
        switch (operation) {
        case '+':
            return base_int64_add(a, b, &result) ? result : OP_DIM_UNKNOWN;
        case '-':
            return a >= b ? a - b : OP_DIM_UNKNOWN;
        case '*':
            return base_int64_multiply(a, b, &result) ? result : OP_DIM_UNKNOWN;
        case '/':
            return b ? a / b : OP_DIM_UNKNOWN;
        case '^':
            return b ? a / b + (a % b != 0) : OP_DIM_UNKNOWN;
        default:
            return OP_DIM_UNKNOWN;
        }
    }
    if (operation == '*' && (a == 0 || b == 0)) return 0;
    if (a == OP_DIM_UNKNOWN || b == OP_DIM_UNKNOWN) return OP_DIM_UNKNOWN;
    if (operation == '-' && a == b) return 0;
    if ((operation == '+' || operation == '-') && b == 0) return a;
    if (operation == '+' && a == 0) return b;
    if ((operation == '*' || operation == '/' || operation == '^') && b == 1) return a;
    if (operation == '*' && a == 1) return b;
    return call->dim_compute ? call->dim_compute(call->user, operation, a, b) : OP_DIM_UNKNOWN;
}

bool op_input_present(const op_call *call, uint32_t input) {
    return input < call->input_count && call->inputs[input].type.dtype != OP_NONE;
}

/* The element as a number from data, if there is data. */
static bool integer_from_data(const op_tensor *tensor, int64_t index, int64_t *value) {
    size_t size = op_dtype_bytes(tensor->type.dtype);
    if (!tensor->data || index < 0 || (uint64_t)index >= tensor->bytes / size) return false;
    if (tensor->type.dtype == OP_INT64) {
        memcpy(value, (const char *)tensor->data + (size_t)index * size, size);
        return true;
    }
    int32_t narrow;
    memcpy(&narrow, (const char *)tensor->data + (size_t)index * size, size);
    *value = narrow;
    return true;
}

/* The element's symbolic value, or OP_DIM_UNKNOWN. */
static int64_t dim_from_symbolic(const op_tensor *tensor, int64_t index) {
    int64_t elements;
    if (!tensor->symbolic || tensor->type.shape.rank > 1) return OP_DIM_UNKNOWN;
    if (!op_shape_elements(&tensor->type.shape, &elements) || index < 0 || index >= elements)
        return OP_DIM_UNKNOWN;
    return tensor->symbolic[index];
}

static const op_tensor *integer_input(const op_call *call, uint32_t input) {
    if (!op_input_present(call, input)) return NULL;
    const op_tensor *tensor = &call->inputs[input];
    return tensor->type.dtype == OP_INT64 || tensor->type.dtype == OP_INT32 ? tensor : NULL;
}

bool op_input_integer(const op_call *call, uint32_t input, int64_t index, int64_t *value) {
    const op_tensor *tensor = integer_input(call, input);
    if (!tensor) return false;
    if (integer_from_data(tensor, index, value)) return true;
    int64_t dim = dim_from_symbolic(tensor, index);
    if (dim < 0) return false;
    *value = dim;
    return true;
}

int64_t op_input_dim(const op_call *call, uint32_t input, int64_t index) {
    const op_tensor *tensor = integer_input(call, input);
    if (!tensor) return OP_DIM_UNKNOWN;
    int64_t value;
    if (integer_from_data(tensor, index, &value)) return value >= 0 ? value : OP_DIM_UNKNOWN;
    return dim_from_symbolic(tensor, index);
}

bool op_axis(int64_t axis, int32_t rank, int32_t *normal) {
    if (axis < -(int64_t)rank || axis >= rank) return false;
    *normal = (int32_t)(axis < 0 ? axis + rank : axis);
    return true;
}

bool op_shape_broadcast(const op_call *call, const op_shape *a, const op_shape *b, op_shape *result) {
    (void)call; /* which of two symbols is 1 cannot be computed, so nothing is asked of it */
    op_shape made = {.rank = -1};
    if (a->rank < 0 || b->rank < 0) {
        *result = made;
        return true;
    }
    made.rank = a->rank > b->rank ? a->rank : b->rank;
    for (int32_t i = 0; i < made.rank; i++) {
        int32_t in_a = i - (made.rank - a->rank), in_b = i - (made.rank - b->rank);
        int64_t x = in_a < 0 ? 1 : a->dims[in_a], y = in_b < 0 ? 1 : b->dims[in_b];
        if (x == y || y == 1) made.dims[i] = x;
        else if (x == 1) made.dims[i] = y;
        else if (x >= 0 && y >= 0) return false;
        else if (x >= 0) made.dims[i] = x; /* the other one is 1 or the same, or the model is wrong */
        else if (y >= 0) made.dims[i] = y;
        else made.dims[i] = OP_DIM_UNKNOWN;
    }
    *result = made;
    return true;
}
