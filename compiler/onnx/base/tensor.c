/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.c: tensors of model and data files: every encoding of ONNX, external data, sparse ones.
 *
 * Large weights are not copied: a tensor whose bytes lie in the message as kernels want them takes those
 * over.
 */
#include "compiler/onnx/base/importer.h"
#include "ir/operators/small.h"

#include "ir/base/file_error.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

op_dtype import_dtype(int64_t number) {
    return number > OP_NONE && number < OP_DTYPE_COUNT ? (op_dtype)number : OP_NONE;
}

static const char *tensor_name(const Onnx__TensorProto *proto) {
    return proto->name && proto->name[0] ? proto->name : "(unnamed)";
}

__attribute__((format(printf, 3, 4))) static base_status
fail(base_report *report, const Onnx__TensorProto *proto, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return base_fail(report, BASE_INVALID, "tensor " IMPORT_NAME ": %s", tensor_name(proto), text);
}

/* An operation on its external data failed, with this number (errno): the message blames the file or the machine. */
static base_status fail_external(base_report *report, const Onnx__TensorProto *proto, const char *location,
                                 const char *what, int number) {
    return base_fail(report, base_file_status(number),
                     "tensor " IMPORT_NAME ": external data \"%.120s\" %s: %s", tensor_name(proto), location,
                     what, strerror(number));
}

/* Type, number of elements and bytes of a tensor as its header says. */
static base_status read_header(const Onnx__TensorProto *proto, size_t rank, const int64_t *dims,
                               op_tensor *tensor, size_t *count, base_report *report) {
    *tensor = (op_tensor){0};
    if (proto->segment) return fail(report, proto, "tensors in segments are not supported");
    tensor->type.dtype = import_dtype(proto->data_type);
    if (tensor->type.dtype == OP_NONE) {
        return fail(report, proto, "data type %d does not exist, 1 to %d do", (int)proto->data_type,
                    OP_DTYPE_COUNT - 1);
    }
    if (rank > OP_MAX_RANK) {
        return fail(report, proto, "%zu dimensions, at most %d are supported", rank, OP_MAX_RANK);
    }
    tensor->type.shape.rank = (int32_t)rank;
    bool none = false; /* of the elements: then the product of the others does not matter */
    for (size_t i = 0; i < rank; i++) {
        if (dims[i] < 0) return fail(report, proto, "dimension %zu is %lld", i, (long long)dims[i]);
        none |= dims[i] == 0;
        tensor->type.shape.dims[i] = dims[i];
    }
    *count = none ? 0 : 1;
    bool fits = true;
    for (size_t i = 0; i < rank && !none; i++)
        fits = fits && base_size_multiply(*count, (size_t)dims[i], count);
    fits = fits && *count <= INT64_MAX && op_type_bytes(&tensor->type, &tensor->bytes);
    if (!fits) return fail(report, proto, "its shape has more elements than can be counted");
    return BASE_OK;
}

/* ---- values -------------------------------------------------------------------------------------------- */

/* Bytes in a file are little-endian. `part` is the size of what is swapped: half of a complex element. */
static void from_little_endian(void *data, size_t bytes, op_dtype dtype) {
    const uint16_t probe = 1;
    if (*(const uint8_t *)&probe == 1) return;
    size_t part = op_dtype_bytes(dtype);
    if (dtype == OP_COMPLEX64 || dtype == OP_COMPLEX128) part /= 2;
    if (part < 2) return;
    uint8_t *byte = data;
    for (size_t at = 0; at + part <= bytes; at += part) {
        for (size_t i = 0; i < part / 2; i++) {
            uint8_t swap = byte[at + i];
            byte[at + i] = byte[at + part - 1 - i];
            byte[at + part - 1 - i] = swap;
        }
    }
}

/* A bool is 0 or 1 for kernels, any other byte would be undefined behaviour there. What is left of the last byte of packed elements
 * is 0. */
static void normalise(op_tensor *tensor) {
    uint8_t *byte = tensor->data;
    int64_t count;
    if (op_dtype_is_packed(tensor->type.dtype) && op_shape_elements(&tensor->type.shape, &count) &&
        tensor->bytes) {
        const unsigned bits = op_dtype_bits(tensor->type.dtype), rest = (unsigned)(count % (8 / bits)) * bits;
        if (rest) byte[tensor->bytes - 1] &= (uint8_t)((1u << rest) - 1);
    }
    if (tensor->type.dtype != OP_BOOL) return;
    for (size_t i = 0; i < tensor->bytes; i++) byte[i] = byte[i] != 0;
}

/* Takes `bytes` at *from, an array of the message, as the tensor's data: the array itself, or a copy. */
static base_status take(void *from, size_t bytes, bool keep, import_blocks *blocks, op_tensor *tensor,
                        bool *moved, base_report *report) {
    *moved = !keep && bytes > 0;
    tensor->data = *moved ? from : import_block_new(blocks, bytes);
    if (!tensor->data) return base_fail_memory(report);
    if (!*moved && bytes) memcpy(tensor->data, from, bytes);
    return BASE_OK;
}

static base_status wrong_count(const Onnx__TensorProto *proto, size_t given, const char *what, size_t wanted,
                               base_report *report) {
    return fail(report, proto, "%zu %s of data, its shape wants %zu", given, what, wanted);
}

static base_status read_raw(Onnx__TensorProto *proto, bool keep, import_blocks *blocks, op_tensor *tensor,
                            base_report *report) {
    if (tensor->type.dtype == OP_STRING) return fail(report, proto, "strings cannot be raw data");
    if (proto->raw_data.len != tensor->bytes) {
        return wrong_count(proto, proto->raw_data.len, "bytes", tensor->bytes, report);
    }
    bool moved;
    base_status status = take(proto->raw_data.data, tensor->bytes, keep, blocks, tensor, &moved, report);
    if (status != BASE_OK) return status;
    if (moved) proto->raw_data = (ProtobufCBinaryData){0};
    from_little_endian(tensor->data, tensor->bytes, tensor->type.dtype);
    normalise(tensor);
    return BASE_OK;
}

/* int32_data holds the small integers, bools and the bits of 16-bit floats, one element a number. */
static base_status narrow_int32(const Onnx__TensorProto *proto, op_tensor *tensor, size_t count,
                                base_report *report) {
    static const struct {
        op_dtype dtype;
        int32_t least, most;
    } ranges[] = {{OP_UINT8, 0, UINT8_MAX},
                  {OP_INT8, INT8_MIN, INT8_MAX},
                  {OP_UINT16, 0, UINT16_MAX},
                  {OP_INT16, INT16_MIN, INT16_MAX},
                  {OP_BOOL, INT32_MIN, INT32_MAX},
                  {OP_FLOAT16, 0, UINT16_MAX},
                  {OP_BFLOAT16, 0, UINT16_MAX},
                  {OP_FLOAT8E4M3FN, INT8_MIN, UINT8_MAX},
                  {OP_FLOAT8E4M3FNUZ, INT8_MIN, UINT8_MAX},
                  {OP_FLOAT8E5M2, INT8_MIN, UINT8_MAX},
                  {OP_FLOAT8E5M2FNUZ, INT8_MIN, UINT8_MAX},
                  {OP_FLOAT8E8M0, INT8_MIN, UINT8_MAX}};
    int32_t least = INT32_MIN, most = INT32_MAX;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        if (ranges[i].dtype != tensor->type.dtype) continue;
        least = ranges[i].least;
        most = ranges[i].most;
    }
    const bool packed = op_dtype_is_packed(tensor->type.dtype);
    size_t size = packed ? 1 : op_dtype_bytes(tensor->type.dtype);
    if (packed) least = INT8_MIN, most = UINT8_MAX;
    for (size_t i = 0; i < count; i++) {
        int32_t value = proto->int32_data[i];
        if (value < least || value > most) {
            return fail(report, proto, "element %zu is %d, which is no %s", i, value,
                        op_dtype_name(tensor->type.dtype));
        }
        if (tensor->type.dtype == OP_BOOL) value = value != 0;
        if (size == 1) ((uint8_t *)tensor->data)[i] = (uint8_t)value;
        else ((uint16_t *)tensor->data)[i] = (uint16_t)value;
    }
    return BASE_OK;
}

static base_status read_strings(const Onnx__TensorProto *proto, import_blocks *blocks, op_tensor *tensor,
                                size_t count, base_report *report) {
    if (proto->n_string_data != count)
        return wrong_count(proto, proto->n_string_data, "strings", count, report);
    size_t total = tensor->bytes;
    bool fits = true;
    for (size_t i = 0; i < count; i++) fits = fits && base_size_add(total, proto->string_data[i].len, &total);
    op_string *strings = fits ? import_block_new(blocks, total) : NULL;
    if (!strings) return base_fail_memory(report);
    char *text = (char *)(strings + count);
    for (size_t i = 0; i < count; i++) {
        size_t length = proto->string_data[i].len;
        strings[i] = (op_string){text, length};
        if (length) memcpy(text, proto->string_data[i].data, length);
        text += length;
    }
    tensor->data = strings;
    return BASE_OK;
}

/* One of the typed fields: `items` of `given` numbers; `per_element` of them make an element (2: complex). */
static base_status read_array(const Onnx__TensorProto *proto, void *items, size_t given, size_t per_element,
                              size_t count, bool keep, import_blocks *blocks, op_tensor *tensor, bool *moved,
                              base_report *report) {
    *moved = false;
    size_t wanted;
    if (!base_size_multiply(count, per_element, &wanted) || given != wanted) {
        return wrong_count(proto, given, "numbers", count * per_element, report);
    }
    return take(items, tensor->bytes, keep, blocks, tensor, moved, report);
}

/* A 32-bit unsigned element is a number of uint64_data. */
static base_status narrow_uint64(const Onnx__TensorProto *proto, op_tensor *tensor, size_t count,
                                 base_report *report) {
    for (size_t i = 0; i < count; i++) {
        if (proto->uint64_data[i] > UINT32_MAX) {
            return fail(report, proto, "element %zu is %llu, which is no uint32", i,
                        (unsigned long long)proto->uint64_data[i]);
        }
        ((uint32_t *)tensor->data)[i] = (uint32_t)proto->uint64_data[i];
    }
    return BASE_OK;
}

static base_status read_narrow(const Onnx__TensorProto *proto, import_blocks *blocks, op_tensor *tensor,
                               size_t count, base_report *report) {
    bool wide = tensor->type.dtype == OP_UINT32;
    if (op_dtype_is_packed(tensor->type.dtype)) count = tensor->bytes; /* a number holds a byte of them */
    size_t given = wide ? proto->n_uint64_data : proto->n_int32_data;
    if (given != count) return wrong_count(proto, given, "numbers", count, report);
    tensor->data = import_block_new(blocks, tensor->bytes);
    if (!tensor->data) return base_fail_memory(report);
    base_status status =
        wide ? narrow_uint64(proto, tensor, count, report) : narrow_int32(proto, tensor, count, report);
    if (status == BASE_OK) normalise(tensor);
    return status;
}

/* Reads a typed field, which is empty afterwards where its array became the data. */
#define READ_ARRAY(field, per_element)                                                                       \
    status = read_array(proto, proto->field, proto->n_##field, per_element, count, keep, blocks, tensor,     \
                        &moved, report);                                                                     \
    if (moved) proto->field = NULL, proto->n_##field = 0

static base_status read_typed(Onnx__TensorProto *proto, bool keep, import_blocks *blocks, op_tensor *tensor,
                              size_t count, base_report *report) {
    base_status status;
    bool moved;
    switch (tensor->type.dtype) {
    case OP_FLOAT:
        READ_ARRAY(float_data, 1);
        return status;
    case OP_COMPLEX64:
        READ_ARRAY(float_data, 2);
        return status;
    case OP_DOUBLE:
        READ_ARRAY(double_data, 1);
        return status;
    case OP_COMPLEX128:
        READ_ARRAY(double_data, 2);
        return status;
    case OP_INT64:
        READ_ARRAY(int64_data, 1);
        return status;
    case OP_UINT64:
        READ_ARRAY(uint64_data, 1);
        return status;
    case OP_INT32:
        READ_ARRAY(int32_data, 1);
        return status;
    case OP_STRING:
        return read_strings(proto, blocks, tensor, count, report);
    default:
        return read_narrow(proto, blocks, tensor, count, report);
    }
}

/* ---- external data ------------------------------------------------------------------------------------- */

static bool has_parent_component(const char *path) {
    for (const char *at = path; at; at = strchr(at, '/')) {
        while (*at == '/') at++;
        if (at[0] == '.' && at[1] == '.' && (at[2] == '/' || at[2] == '\0')) return true;
    }
    return false;
}

/* A number >= 0 in decimal. */
static bool parse_size(const char *text, uint64_t *value) {
    if (!text || !*text) return false;
    *value = 0;
    for (const char *digit = text; *digit; digit++) {
        if (*digit < '0' || *digit > '9' || *value > (INT64_MAX - 9) / 10) return false;
        *value = *value * 10 + (uint64_t)(*digit - '0');
    }
    return true;
}

/* The real path of `location` in `folder`, which it must not leave; in `path` (PATH_MAX bytes). */
static base_status resolve_external(const Onnx__TensorProto *proto, const char *folder, const char *location,
                                    char *path, base_report *report) {
    if (location[0] == '/')
        return fail(report, proto, "external data \"%.120s\" has an absolute path", location);
    if (has_parent_component(location)) {
        return fail(report, proto, "external data \"%.120s\" lies outside of the model's folder", location);
    }
    char real_folder[PATH_MAX], joined[PATH_MAX];
    if (!realpath(folder, real_folder)) {
        return fail(report, proto, "the model's folder cannot be found: %s", strerror(errno));
    }
    int length = snprintf(joined, sizeof joined, "%s/%s", real_folder, location);
    if (length < 0 || (size_t)length >= sizeof joined)
        return fail(report, proto, "the path of its external data is too long");
    if (!realpath(joined, path)) return fail_external(report, proto, location, "cannot be opened", errno);
    size_t prefix = strcmp(real_folder, "/") == 0 ? 0 : strlen(real_folder);
    if (strncmp(path, real_folder, prefix) != 0 || path[prefix] != '/') {
        return fail(report, proto, "external data \"%.120s\" leads out of the model's folder", location);
    }
    return BASE_OK;
}

static base_status read_external_bytes(const Onnx__TensorProto *proto, const char *location, int file,
                                       uint64_t offset, uint64_t length, bool has_length,
                                       import_blocks *blocks, op_tensor *tensor, base_report *report) {
    struct stat status;
    if (fstat(file, &status) != 0) return fail_external(report, proto, location, "cannot be read", errno);
    if (!S_ISREG(status.st_mode)) return fail(report, proto, "its external data is not a regular file");
    uint64_t size = (uint64_t)status.st_size;
    if (offset > size || (has_length && length > size - offset)) {
        return fail(report, proto, "external data at %llu with %llu bytes, the file has %llu",
                    (unsigned long long)offset, (unsigned long long)length, (unsigned long long)size);
    }
    if (!has_length) length = size - offset;
    /* Without a length the data ends where the tensor does. */
    if (has_length ? length != tensor->bytes : length < tensor->bytes) {
        return wrong_count(proto, (size_t)length, "bytes", tensor->bytes, report);
    }
    tensor->data = import_block_new(blocks, tensor->bytes);
    if (!tensor->data) return base_fail_memory(report);
    for (size_t done = 0; done < tensor->bytes;) {
        ssize_t got = pread(file, (char *)tensor->data + done, tensor->bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail_external(report, proto, location, "cannot be read", errno);
        if (got == 0) return fail(report, proto, "its external data cannot be read: it became shorter");
        done += (size_t)got;
    }
    from_little_endian(tensor->data, tensor->bytes, tensor->type.dtype);
    normalise(tensor);
    return BASE_OK;
}

static base_status read_external(const Onnx__TensorProto *proto, const char *folder, import_blocks *blocks,
                                 op_tensor *tensor, base_report *report) {
    if (tensor->type.dtype == OP_STRING) return fail(report, proto, "strings cannot be external data");
    const char *location = NULL;
    uint64_t offset = 0, length = 0;
    bool has_length = false;
    for (size_t i = 0; i < proto->n_external_data; i++) {
        const Onnx__StringStringEntryProto *entry = proto->external_data[i];
        const char *key = entry->key ? entry->key : "", *value = entry->value ? entry->value : "";
        bool read = true;
        if (strcmp(key, "location") == 0) location = value;
        else if (strcmp(key, "offset") == 0) read = parse_size(value, &offset);
        else if (strcmp(key, "length") == 0) read = has_length = parse_size(value, &length);
        if (!read)
            return fail(report, proto, "%.20s \"%.40s\" of its external data is no number", key, value);
    }
    if (!location || !*location) return fail(report, proto, "its external data has no location");
    char path[PATH_MAX];
    base_status status = resolve_external(proto, folder, location, path, report);
    if (status != BASE_OK) return status;
    /* The path is resolved: a link at its end has been put there meanwhile. */
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (file < 0) return fail_external(report, proto, location, "cannot be opened", errno);
    status = read_external_bytes(proto, location, file, offset, length, has_length, blocks, tensor, report);
    close(file);
    return status;
}

/* ---- dense tensors ------------------------------------------------------------------------------------- */

base_status import_tensor(Onnx__TensorProto *proto, const char *folder, bool keep, import_blocks *blocks,
                          op_tensor *tensor, base_report *report) {
    size_t count;
    base_status status = read_header(proto, proto->n_dims, proto->dims, tensor, &count, report);
    if (status != BASE_OK) return status;
    size_t typed = proto->n_float_data + proto->n_int32_data + proto->n_int64_data + proto->n_uint64_data +
                   proto->n_double_data + proto->n_string_data;
    bool raw = proto->has_raw_data && (proto->raw_data.len > 0 || typed == 0);
    bool external =
        proto->has_data_location && proto->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    if ((int)raw + (int)external + (int)(typed > 0) > 1 &&
        !(external && proto->raw_data.len == 0 && typed == 0)) {
        return fail(report, proto, "has data of more than one kind");
    }
    if (external) return read_external(proto, folder, blocks, tensor, report);
    if (raw && !(count == 0 && tensor->type.dtype == OP_STRING))
        return read_raw(proto, keep, blocks, tensor, report);
    return read_typed(proto, keep, blocks, tensor, count, report);
}

/* ---- sparse tensors ------------------------------------------------------------------------------------ */

/* Which element of the dense tensor value `i` is; the indices are linear, or one a dimension. */
static bool sparse_place(const op_tensor *indices, const op_shape *shape, size_t count, size_t i,
                         size_t *place) {
    const int64_t *index = indices->data;
    if (indices->type.shape.rank == 1) {
        if (index[i] < 0 || (uint64_t)index[i] >= count) return false;
        *place = (size_t)index[i];
        return true;
    }
    *place = 0;
    for (int32_t d = 0; d < shape->rank; d++) {
        int64_t at = index[i * (size_t)shape->rank + (size_t)d];
        if (at < 0 || at >= shape->dims[d]) return false;
        *place = *place * (size_t)shape->dims[d] + (size_t)at;
    }
    return true;
}

base_status import_sparse_tensor(Onnx__SparseTensorProto *proto, const char *folder, bool keep,
                                 import_blocks *blocks, op_tensor *tensor, base_report *report) {
    if (!proto->values || !proto->indices) {
        return base_fail(report, BASE_INVALID, "a sparse tensor has no %s",
                         proto->values ? "indices" : "values");
    }
    size_t count;
    base_status status = read_header(proto->values, proto->n_dims, proto->dims, tensor, &count, report);
    if (status != BASE_OK) return status;
    op_tensor values, indices;
    status = import_tensor(proto->values, folder, keep, blocks, &values, report);
    if (status == BASE_OK) status = import_tensor(proto->indices, folder, keep, blocks, &indices, report);
    if (status != BASE_OK) return status;
    if (values.type.dtype == OP_STRING)
        return fail(report, proto->values, "sparse tensors of strings are not supported");
    const op_shape *vs = &values.type.shape, *is = &indices.type.shape;
    bool fits = vs->rank == 1 && indices.type.dtype == OP_INT64 && (is->rank == 1 || is->rank == 2) &&
                is->dims[0] == vs->dims[0] && (is->rank == 1 || is->dims[1] == tensor->type.shape.rank);
    if (!fits) {
        return fail(report, proto->values,
                    "a sparse tensor wants values [N] and indices int64[N] or int64[N,rank]");
    }
    if (tensor->bytes > INT32_MAX) {
        return fail(report, proto->values, "a sparse tensor of %zu bytes, at most %d are supported",
                    tensor->bytes, INT32_MAX);
    }
    if (op_dtype_is_packed(tensor->type.dtype))
        return fail(report, proto->values, "sparse tensors of %s are not supported",
                    op_dtype_name(tensor->type.dtype));
    tensor->data = import_block_new(blocks, tensor->bytes);
    if (!tensor->data) return base_fail_memory(report);
    memset(tensor->data, 0, tensor->bytes);
    size_t size = op_dtype_bytes(tensor->type.dtype);
    for (size_t i = 0; i < (size_t)vs->dims[0]; i++) {
        size_t place;
        if (!sparse_place(&indices, &tensor->type.shape, count, i, &place)) {
            return fail(report, proto->values, "index %zu of a sparse tensor lies outside of its shape", i);
        }
        memcpy((char *)tensor->data + place * size, (const char *)values.data + i * size, size);
    }
    return BASE_OK;
}
