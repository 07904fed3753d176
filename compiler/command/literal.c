/* SPDX-License-Identifier: Apache-2.0 */
/* literal.c: small inputs written on the command line: 7, -1.5, true, 1,2,3, [[1,2],[3,4]]; see command.h. */
#include "compiler/command/command.h"
#include "ir/operators/small.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NUMBERS = 4096, NUMBER_BYTES = 64 };

typedef struct literal {
    const char *at;
    size_t count;   /* numbers so far */
    op_shape shape; /* of the brackets */
    bool regular;
    op_tensor *into; /* NULL: only counted */
    base_report *report;
} literal;

static void skip_spaces(literal *l) {
    while (isspace((unsigned char)*l->at)) l->at++;
}

static base_status fail_range(const literal *l, const char *text) {
    return base_fail(l->report, BASE_INVALID, "'%s' is no %s", text, op_dtype_name(l->into->type.dtype));
}

/* Types of whole numbers. */
static const struct integer_range {
    op_dtype dtype;
    int bytes;
    long long least;
    unsigned long long most;
} integer_ranges[] = {{OP_BOOL, 1, 0, 1},
                      {OP_INT8, 1, INT8_MIN, INT8_MAX},
                      {OP_UINT8, 1, 0, UINT8_MAX},
                      {OP_INT16, 2, INT16_MIN, INT16_MAX},
                      {OP_UINT16, 2, 0, UINT16_MAX},
                      {OP_INT32, 4, INT32_MIN, INT32_MAX},
                      {OP_UINT32, 4, 0, UINT32_MAX},
                      {OP_INT64, 8, INT64_MIN, INT64_MAX},
                      {OP_UINT64, 8, 0, UINT64_MAX}};

static const struct integer_range *range_of(op_dtype dtype) {
    for (size_t i = 0; i < sizeof integer_ranges / sizeof *integer_ranges; i++)
        if (integer_ranges[i].dtype == dtype) return &integer_ranges[i];
    return NULL;
}

/* "true" and "false" are 1 and 0. */
static base_status store_integer(const literal *l, const struct integer_range *range, const char *text) {
    if (strcmp(text, "true") == 0) text = "1";
    if (strcmp(text, "false") == 0) text = "0";
    char *end;
    errno = 0;
    const bool negative = text[0] == '-';
    const long long low = negative ? strtoll(text, &end, 10) : 0;
    const unsigned long long high = negative ? 0 : strtoull(text, &end, 10);
    if (errno || end == text || *end || low < range->least || high > range->most) return fail_range(l, text);
    const uint64_t bits = negative ? (uint64_t)low : high;
    unsigned char *to = (unsigned char *)l->into->data + l->count * (size_t)range->bytes;
    if (range->bytes == 1) *to = (uint8_t)bits;
    else if (range->bytes == 2) *(uint16_t *)(void *)to = (uint16_t)bits;
    else if (range->bytes == 4) *(uint32_t *)(void *)to = (uint32_t)bits;
    else *(uint64_t *)(void *)to = bits;
    return BASE_OK;
}

static base_status store_real(const literal *l, const char *text) {
    char *end;
    const double value = strtod(text, &end);
    const op_dtype dtype = l->into->type.dtype;
    void *data = l->into->data;
    if (end == text || *end) return fail_range(l, text);
    switch (dtype) {
    case OP_FLOAT:
        ((float *)data)[l->count] = (float)value;
        return BASE_OK;
    case OP_DOUBLE:
        ((double *)data)[l->count] = value;
        return BASE_OK;
    case OP_FLOAT16:
        ((uint16_t *)data)[l->count] = base_half_from_double(value);
        return BASE_OK;
    case OP_BFLOAT16:
        ((uint16_t *)data)[l->count] = base_bfloat16_from_double(value);
        return BASE_OK;
    default:
        op_small_store(dtype, data, (int64_t)l->count, op_small_code(dtype, value, true, OP_ROUND_NEAREST));
        return BASE_OK;
    }
}

static base_status read_number(literal *l) {
    char text[NUMBER_BYTES];
    size_t length = strcspn(l->at, ",[] \t\n");
    if (length == 0 || length >= sizeof text)
        return base_fail(l->report, BASE_INVALID, "expected a number at '%.20s'", l->at);
    memcpy(text, l->at, length);
    text[length] = 0;
    l->at += length;
    if (l->count == MOST_NUMBERS)
        return base_fail(l->report, BASE_INVALID, "more than %d numbers: give a file", (int)MOST_NUMBERS);
    base_status status = BASE_OK;
    if (l->into) {
        const struct integer_range *range = range_of(l->into->type.dtype);
        status = range ? store_integer(l, range, text) : store_real(l, text);
    }
    l->count++;
    return status;
}

/* Items up to the bracket that ends the list, or (at depth 0) the end of the text. Their number becomes the extent of
 * this depth, the same for all lists of a depth. */
static base_status read_list(literal *l, int32_t depth) {
    int64_t items = 0;
    if (depth >= OP_MAX_RANK) return base_fail(l->report, BASE_INVALID, "brackets are nested too deep");
    skip_spaces(l);
    const char end = depth || *l->at == '[' ? ']' : 0;
    if (*l->at == '[' && depth == 0) l->at++;
    skip_spaces(l);
    while (*l->at != end) {
        base_status status;
        if (*l->at == '[') {
            l->at++;
            status = read_list(l, depth + 1);
        } else {
            if (l->shape.rank >= 0 && l->shape.rank != depth + 1) l->regular = false;
            l->shape.rank = depth + 1;
            status = read_number(l);
        }
        if (status != BASE_OK) return status;
        items++;
        skip_spaces(l);
        if (*l->at == ',') l->at++;
        else if (*l->at != end) return base_fail(l->report, BASE_INVALID, "expected ',' at '%.20s'", l->at);
        skip_spaces(l);
    }
    if (end) l->at++;
    if (l->shape.dims[depth] >= 0 && l->shape.dims[depth] != items) l->regular = false;
    l->shape.dims[depth] = items;
    return BASE_OK;
}

static base_status read_all(literal *l, const char *text) {
    l->at = text;
    l->count = 0;
    l->regular = true;
    l->shape = (op_shape){.rank = -1};
    for (int32_t d = 0; d < OP_MAX_RANK; d++) l->shape.dims[d] = -1;
    const bool scalar = !strpbrk(text, ",[");
    base_status status = scalar ? read_number(l) : read_list(l, 0);
    if (status != BASE_OK) return status;
    if (*l->at) return base_fail(l->report, BASE_INVALID, "'%.20s' follows the numbers", l->at);
    if (!l->regular) return base_fail(l->report, BASE_INVALID, "lists of different lengths or depths");
    if (scalar) l->shape.rank = 0;
    if (l->shape.rank < 0) l->shape.rank = 1; /* [] */
    return BASE_OK;
}

/* What the numbers are taken for: what was written, the input's own shape where that has as many elements, or (one number)
 * one element of whatever rank. */
static op_shape shape_for(const literal *l, const op_shape *expected) {
    int64_t elements;
    if (expected->rank < 0 || expected->rank == l->shape.rank) return l->shape;
    if (op_shape_elements(expected, &elements) && (uint64_t)elements == l->count) return *expected;
    if (l->count != 1) return l->shape;
    op_shape ones = {.rank = expected->rank};
    for (int32_t d = 0; d < ones.rank; d++) ones.dims[d] = 1;
    return ones;
}

base_status command_read_literal(const char *text, const op_type *expected, base_arena *arena,
                                 op_tensor *tensor, base_report *report) {
    static const char *const forms = "a number, a list such as 1,2,3 or [[1,2],[3,4]], or a file";
    *tensor = (op_tensor){.type = {.dtype = expected->dtype}};
    if (expected->kind != OP_KIND_TENSOR || expected->dtype == OP_COMPLEX64 ||
        expected->dtype == OP_COMPLEX128)
        return base_fail(report, BASE_INVALID, "there is no file '%s'", text);
    base_report why = {0};
    literal l = {.report = &why};
    if (expected->dtype == OP_STRING) {
        op_string *string = BASE_NEW(arena, op_string);
        char *kept = base_arena_text(arena, text, strlen(text));
        if (!string || !kept) return base_fail_memory(report);
        *string = (op_string){.data = kept, .length = strlen(kept)};
        tensor->data = string;
        l.count = 1;
    } else {
        if (read_all(&l, text) != BASE_OK)
            return base_fail(report, BASE_INVALID,
                             "'%s': there is no such file, and it is no number: expected %s", text, forms);
        tensor->data = rt_arena_aligned(arena, (l.count + 1) * 16);
        if (!tensor->data) return base_fail_memory(report);
        memset(tensor->data, 0, (l.count + 1) * 16);
        l.into = tensor;
        if (read_all(&l, text) != BASE_OK)
            return base_fail(report, BASE_INVALID, "%.*s", (int)strcspn(why.text, "\n"), why.text);
    }
    tensor->type.shape = shape_for(&l, &expected->shape);
    return op_type_bytes(&tensor->type, &tensor->bytes) ? BASE_OK : base_fail_memory(report);
}
