/* SPDX-License-Identifier: Apache-2.0 */
/* npy.c: see npy.h. Source of the format: "NEP 1 - A Simple File Format for NumPy Arrays" and the description
 * in numpy's own documentation: magic "\x93NUMPY", two version bytes, the length of the header (2 bytes
 * little-endian in version 1, 4 later), the header (a Python dictionary literal with the keys descr,
 * fortran_order and shape), then the elements. */
#include "compiler/files/npy.h"
#include "ir/operators/small.h"
#include "compiler/files/files.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const unsigned char magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

/* ---- the header: a dictionary literal ------------------------------------------------------------------ */

typedef struct npy_header {
    char byte_order; /* '<', '>', '|' or '=' */
    char letter;     /* numpy's kind: b i u f c S U */
    size_t width;    /* the number after it: bytes, or characters of U */
    bool fortran;
    op_shape shape;
    bool has_descr, has_order, has_shape;
} npy_header;

typedef struct npy_cursor {
    const unsigned char *at, *end;
} npy_cursor;

static void skip_blanks(npy_cursor *cursor) {
    while (cursor->at < cursor->end && (*cursor->at == ' ' || *cursor->at == '\n' || *cursor->at == '\t')) {
        cursor->at++;
    }
}

static bool take(npy_cursor *cursor, char wanted) {
    skip_blanks(cursor);
    if (cursor->at == cursor->end || *cursor->at != (unsigned char)wanted) return false;
    cursor->at++;
    return true;
}

static bool take_word(npy_cursor *cursor, const char *word) {
    skip_blanks(cursor);
    size_t length = strlen(word);
    if ((size_t)(cursor->end - cursor->at) < length || memcmp(cursor->at, word, length) != 0) return false;
    cursor->at += length;
    return true;
}

/* A text between ' or "; numpy never escapes in these keys, so a backslash is no valid text here. */
static bool take_text(npy_cursor *cursor, char *text, size_t capacity) {
    skip_blanks(cursor);
    if (cursor->at == cursor->end || (*cursor->at != '\'' && *cursor->at != '"')) return false;
    unsigned char quote = *cursor->at++;
    size_t length = 0;
    while (cursor->at < cursor->end && *cursor->at != quote) {
        if (*cursor->at == '\\' || length + 1 >= capacity) return false;
        text[length++] = (char)*cursor->at++;
    }
    if (cursor->at == cursor->end) return false;
    cursor->at++;
    text[length] = 0;
    return true;
}

static bool take_number(npy_cursor *cursor, int64_t *number) {
    skip_blanks(cursor);
    int64_t value = 0;
    const unsigned char *start = cursor->at;
    while (cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9') {
        if (!base_int64_multiply(value, 10, &value) || !base_int64_add(value, *cursor->at - '0', &value)) {
            return false;
        }
        cursor->at++;
    }
    if (cursor->at == start) return false;
    if (cursor->at < cursor->end && *cursor->at == 'L') cursor->at++; /* written by numpy under Python 2 */
    *number = value;
    return true;
}

static bool take_descr(npy_cursor *cursor, npy_header *header) {
    char text[32];
    if (!take_text(cursor, text, sizeof text)) return false;
    const char *at = text;
    header->byte_order = '|';
    if (strchr("<>|=", *at) && *at) header->byte_order = *at++;
    if (!*at) return false;
    header->letter = *at++;
    char *end;
    if (header->letter == '?' && !*at) {
        header->letter = 'b';
        header->width = 1;
        return true;
    }
    if (*at < '0' || *at > '9') return false;
    unsigned long width = strtoul(at, &end, 10);
    if (*end || width > 1u << 30) return false;
    header->width = width;
    return true;
}

static bool take_shape(npy_cursor *cursor, op_shape *shape) {
    if (!take(cursor, '(')) return false;
    shape->rank = 0;
    while (!take(cursor, ')')) {
        if (shape->rank == OP_MAX_RANK || !take_number(cursor, &shape->dims[shape->rank])) return false;
        shape->rank++;
        if (!take(cursor, ',')) {
            /* (3) is a number in Python, not a shape; (3,) and (3, 4) are shapes. */
            return shape->rank > 1 && take(cursor, ')');
        }
    }
    return true;
}

static bool parse_header(npy_cursor *cursor, npy_header *header) {
    if (!take(cursor, '{')) return false;
    while (!take(cursor, '}')) {
        char key[32];
        if (!take_text(cursor, key, sizeof key) || !take(cursor, ':')) return false;
        if (strcmp(key, "descr") == 0 && !header->has_descr) {
            header->has_descr = true;
            if (!take_descr(cursor, header)) return false;
        } else if (strcmp(key, "fortran_order") == 0 && !header->has_order) {
            header->has_order = true;
            header->fortran = take_word(cursor, "True");
            if (!header->fortran && !take_word(cursor, "False")) return false;
        } else if (strcmp(key, "shape") == 0 && !header->has_shape) {
            header->has_shape = true;
            if (!take_shape(cursor, &header->shape)) return false;
        } else {
            return false;
        }
        if (!take(cursor, ',')) {
            if (!take(cursor, '}')) return false;
            break;
        }
    }
    skip_blanks(cursor);
    return cursor->at == cursor->end && header->has_descr && header->has_order && header->has_shape;
}

static op_dtype header_dtype(const npy_header *header) {
    static const struct {
        char letter;
        unsigned char width;
        op_dtype dtype;
    } known[] = {
        {'b', 1, OP_BOOL},      {'i', 1, OP_INT8},        {'i', 2, OP_INT16},  {'i', 4, OP_INT32},
        {'i', 8, OP_INT64},     {'u', 1, OP_UINT8},       {'u', 2, OP_UINT16}, {'u', 4, OP_UINT32},
        {'u', 8, OP_UINT64},    {'f', 2, OP_FLOAT16},     {'f', 4, OP_FLOAT},  {'f', 8, OP_DOUBLE},
        {'c', 8, OP_COMPLEX64}, {'c', 16, OP_COMPLEX128},
    };
    if (header->letter == 'S' || header->letter == 'U') return OP_STRING;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].letter == header->letter && known[i].width == header->width) return known[i].dtype;
    }
    return OP_NONE;
}

/* ---- elements ------------------------------------------------------------------------------------------ */

static void reverse_bytes(unsigned char *data, size_t count, size_t width) {
    for (size_t i = 0; i < count; i++, data += width) {
        for (size_t a = 0, b = width - 1; a < b; a++, b--) {
            unsigned char kept = data[a];
            data[a] = data[b];
            data[b] = kept;
        }
    }
}

/* Row-major elements from column-major ones. */
static void from_fortran(unsigned char *to, const unsigned char *from, const op_shape *shape, size_t count,
                         size_t width) {
    size_t strides[OP_MAX_RANK] = {0}, stride = 1;
    int64_t index[OP_MAX_RANK] = {0};
    for (int32_t d = 0; d < shape->rank; d++) {
        strides[d] = stride;
        stride *= (size_t)shape->dims[d];
    }
    size_t source = 0;
    for (size_t i = 0; i < count; i++) {
        memcpy(to + i * width, from + source * width, width);
        for (int32_t d = shape->rank - 1; d >= 0; d--) {
            source += strides[d];
            if (++index[d] < shape->dims[d]) break;
            source -= strides[d] * (size_t)shape->dims[d];
            index[d] = 0;
        }
    }
}

static size_t put_utf8(char *to, uint32_t point) {
    if (point < 0x80) {
        to[0] = (char)point;
        return 1;
    }
    if (point < 0x800) {
        to[0] = (char)(0xC0 | point >> 6);
        to[1] = (char)(0x80 | (point & 0x3F));
        return 2;
    }
    if (point < 0x10000) {
        to[0] = (char)(0xE0 | point >> 12);
        to[1] = (char)(0x80 | (point >> 6 & 0x3F));
        to[2] = (char)(0x80 | (point & 0x3F));
        return 3;
    }
    to[0] = (char)(0xF0 | point >> 18);
    to[1] = (char)(0x80 | (point >> 12 & 0x3F));
    to[2] = (char)(0x80 | (point >> 6 & 0x3F));
    to[3] = (char)(0x80 | (point & 0x3F));
    return 4;
}

/* Fixed-width texts, padded with zeros, into op_strings. False when memory runs out. */
static bool decode_strings(const npy_header *header, const unsigned char *raw, size_t count,
                           base_arena *arena, op_string *strings) {
    size_t characters = header->width;
    for (size_t i = 0; i < count; i++) {
        char *text;
        size_t length = 0;
        if (header->letter == 'S') {
            const char *from = (const char *)raw + i * characters;
            for (length = characters; length && !from[length - 1];) length--;
            text = base_arena_text(arena, from, length);
        } else {
            const unsigned char *from = raw + i * characters * 4;
            size_t used = 0;
            uint32_t point = 0;
            for (size_t c = 0; c < characters; c++) {
                const unsigned char *p = from + c * 4;
                if (p[0] | p[1] | p[2] | p[3]) used = c + 1;
            }
            text = base_arena_alloc(arena, used * 4 + 1, 1);
            for (size_t c = 0; text && c < used; c++) {
                const unsigned char *p = from + c * 4;
                point = header->byte_order == '>'
                            ? (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]
                            : (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
                if (point > 0x10FFFF) point = 0xFFFD;
                length += put_utf8(text + length, point);
            }
        }
        if (!text) return false;
        strings[i] = (op_string){.data = text, .length = length};
    }
    return true;
}

static void *aligned_room(base_arena *arena, size_t bytes) {
    size_t padded;
    if (!base_size_add(bytes, 64, &padded)) return NULL;
    char *memory = base_arena_alloc(arena, padded, 1);
    return memory ? memory + (64 - (uintptr_t)memory % 64) % 64 : NULL;
}

base_status file_npy_decode(const unsigned char *bytes, size_t size, const char *name, base_arena *arena,
                            op_tensor *tensor, base_report *report) {
    if (size < 10 || memcmp(bytes, magic, sizeof magic) != 0) {
        return base_fail(report, BASE_INVALID, "%s: not a .npy file (its first bytes are not \\x93NUMPY)",
                         name);
    }
    unsigned version = bytes[6];
    size_t start = version == 1 ? 10 : 12;
    if (version < 1 || version > 3 || size < start) {
        return base_fail(report, BASE_INVALID, "%s: .npy format version %u, expected 1, 2 or 3", name,
                         version);
    }
    size_t length = bytes[8] | (size_t)bytes[9] << 8;
    if (version > 1) length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (length > size - start) {
        return base_fail(report, BASE_INVALID, "%s: the .npy header of %zu bytes does not fit in the file",
                         name, length);
    }
    npy_header header = {0};
    npy_cursor cursor = {bytes + start, bytes + start + length};
    if (!parse_header(&cursor, &header)) {
        return base_fail(
            report, BASE_INVALID,
            "%s: malformed .npy header, expected {'descr': '<f4', 'fortran_order': False, 'shape': "
            "(2, 3), } with at most %d dimensions",
            name, (int)OP_MAX_RANK);
    }
    op_dtype dtype = header_dtype(&header);
    if (dtype == OP_NONE) {
        return base_fail(
            report, BASE_INVALID,
            "%s: element type '%c%zu' is not supported, expected bool, integers, floats, complex "
            "numbers or fixed-width text",
            name, header.letter >= ' ' && header.letter < 127 ? header.letter : '?', header.width);
    }
    int64_t elements;
    size_t width = header.letter == 'U' ? header.width * 4 : header.width, raw_bytes, bytes_needed;
    bool fits = op_shape_elements(&header.shape, &elements) && (uint64_t)elements <= SIZE_MAX &&
                base_size_multiply((size_t)elements, width, &raw_bytes) &&
                base_size_multiply((size_t)elements, op_dtype_bytes(dtype), &bytes_needed);
    if (!fits || raw_bytes != size - start - length) {
        return base_fail(report, BASE_INVALID,
                         "%s: the shape in its header needs %s%zu bytes of data, the file has %zu", name,
                         fits ? "" : "more than ", fits ? raw_bytes : SIZE_MAX, size - start - length);
    }
    /* Text of width 0 takes no space in the file, so the file's size does not bound the number of elements. */
    if (width == 0 && elements > 1 << 20) {
        return base_fail(report, BASE_INVALID, "%s: %lld empty texts", name, (long long)elements);
    }
    size_t count = (size_t)elements;
    const unsigned char *raw = bytes + start + length;
    if (header.fortran && header.shape.rank > 1 && raw_bytes) {
        unsigned char *ordered = aligned_room(arena, raw_bytes);
        if (!ordered) return base_fail_memory(report);
        from_fortran(ordered, raw, &header.shape, count, width);
        raw = ordered;
    }
    unsigned char *data = aligned_room(arena, bytes_needed);
    if (!data) return base_fail_memory(report);
    if (dtype == OP_STRING) {
        if (!decode_strings(&header, raw, count, arena, (op_string *)data)) return base_fail_memory(report);
    } else {
        if (raw_bytes) memcpy(data, raw, raw_bytes);
        size_t part = dtype == OP_COMPLEX64 || dtype == OP_COMPLEX128 ? width / 2 : width;
        if (header.byte_order == '>') reverse_bytes(data, raw_bytes / part, part);
        /* Kernels rely on booleans being 0 or 1. */
        if (dtype == OP_BOOL) {
            for (size_t i = 0; i < count; i++) data[i] = data[i] != 0;
        }
    }
    *tensor = (op_tensor){
        .type = {.kind = OP_KIND_TENSOR,
                 .dtype = dtype,
                 .layout = OP_LAYOUT_ROW_MAJOR,
                 .shape = header.shape},
        .bytes = bytes_needed,
        .data = data,
    };
    return BASE_OK;
}

base_status file_npy_read(const char *path, base_arena *arena, op_tensor *tensor, base_report *report) {
    file_bytes file;
    base_status status = file_read(path, &file, report);
    if (status != BASE_OK) return status;
    status = file_npy_decode(file.data, file.size, path, arena, tensor, report);
    file_release(&file);
    return status;
}

/* ---- writing ------------------------------------------------------------------------------------------- */

/* numpy's name of a type; for strings %zu is the width. NULL: it has none. */
static const char *descr_of(op_dtype dtype) {
    switch (dtype) {
    case OP_BOOL:
        return "|b1";
    case OP_UINT8:
    case OP_UINT4: /* nor integers of less than a byte */
    case OP_UINT2:
        return "|u1";
    case OP_INT4:
    case OP_INT2:
    case OP_INT8:
        return "|i1";
    case OP_UINT16:
        return "<u2";
    case OP_INT16:
        return "<i2";
    case OP_UINT32:
        return "<u4";
    case OP_INT32:
        return "<i4";
    case OP_UINT64:
        return "<u8";
    case OP_INT64:
        return "<i8";
    case OP_FLOAT16:
        return "<f2";
    case OP_BFLOAT16: /* numpy has no bfloat16 and no smaller floats: every one is exactly a float32 */
    case OP_FLOAT8E4M3FN:
    case OP_FLOAT8E4M3FNUZ:
    case OP_FLOAT8E5M2:
    case OP_FLOAT8E5M2FNUZ:
    case OP_FLOAT8E8M0:
    case OP_FLOAT4E2M1:
    case OP_FLOAT:
        return "<f4";
    case OP_DOUBLE:
        return "<f8";
    case OP_COMPLEX64:
        return "<c8";
    case OP_COMPLEX128:
        return "<c16";
    default:
        return NULL;
    }
}

base_status file_npy_encode(const op_tensor *tensor, base_arena *arena, unsigned char **bytes, size_t *size,
                            base_report *report) {
    const op_type *type = &tensor->type;
    int64_t elements;
    if (type->kind != OP_KIND_TENSOR || type->layout != OP_LAYOUT_ROW_MAJOR ||
        !op_shape_known(&type->shape) || !op_shape_elements(&type->shape, &elements)) {
        return base_fail(report, BASE_INVALID,
                         "only row-major tensors of known shape can be written as .npy");
    }
    size_t count = (size_t)elements, width = op_dtype_bytes(type->dtype);
    const op_string *strings = tensor->data;
    char descr[32];
    if (type->dtype == OP_STRING) {
        width = 1;
        for (size_t i = 0; i < count; i++) {
            if (strings[i].length > width) width = strings[i].length;
        }
        snprintf(descr, sizeof descr, "|S%zu", width);
    } else if (descr_of(type->dtype)) {
        snprintf(descr, sizeof descr, "%s", descr_of(type->dtype));
        const bool integer = type->dtype == OP_INT4 || type->dtype == OP_UINT4 || type->dtype == OP_INT2 ||
                             type->dtype == OP_UINT2;
        if (type->dtype == OP_BFLOAT16 || op_dtype_is_small(type->dtype)) width = integer ? 1 : 4;
    } else {
        return base_fail(report, BASE_INVALID, "tensors of type %s cannot be written as .npy",
                         op_dtype_name(type->dtype));
    }
    char shape[32 * OP_MAX_RANK] = "";
    for (int32_t d = 0; d < type->shape.rank; d++) {
        size_t used = strlen(shape);
        snprintf(shape + used, sizeof shape - used, "%s%lld%s", d ? ", " : "", (long long)type->shape.dims[d],
                 type->shape.rank == 1 ? "," : "");
    }
    char header[64 * OP_MAX_RANK];
    int written = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
                           descr, shape);
    /* Padded with blanks so that the data starts at a multiple of 64, ended by a line break. */
    size_t length = ((size_t)written + 1 + 10 + 63) / 64 * 64 - 10, data_bytes, total;
    if (!base_size_multiply(count, width, &data_bytes) || !base_size_add(data_bytes, length + 10, &total)) {
        return base_fail(report, BASE_INVALID, "the tensor is too large for a .npy file");
    }
    unsigned char *out = base_arena_alloc(arena, total, 1);
    if (!out) return base_fail_memory(report);
    memcpy(out, magic, sizeof magic);
    out[6] = 1;
    out[8] = (unsigned char)(length & 0xFF);
    out[9] = (unsigned char)(length >> 8);
    memset(out + 10, ' ', length);
    memcpy(out + 10, header, (size_t)written);
    out[10 + length - 1] = '\n';
    unsigned char *data = out + 10 + length;
    if (type->dtype == OP_STRING) {
        for (size_t i = 0; i < count; i++) {
            if (strings[i].length) memcpy(data + i * width, strings[i].data, strings[i].length);
        }
    } else if (type->dtype == OP_BFLOAT16) {
        for (size_t i = 0; i < count; i++) {
            float wide = base_float_from_bfloat16(((const uint16_t *)tensor->data)[i]);
            memcpy(data + i * 4, &wide, 4);
        }
    } else if (op_dtype_is_small(type->dtype)) {
        for (size_t i = 0; i < count; i++) {
            const float wide =
                op_small_value(type->dtype, op_small_load(type->dtype, tensor->data, (int64_t)i));
            if (width == 4) memcpy(data + i * 4, &wide, 4);
            else data[i] = (unsigned char)(int)wide;
        }
    } else if (data_bytes) {
        memcpy(data, tensor->data, data_bytes);
    }
    *bytes = out;
    *size = total;
    return BASE_OK;
}
