/* SPDX-License-Identifier: Apache-2.0 */
/* value.c: data files: a TensorProto, SequenceProto, MapProto or OptionalProto becomes a value in an arena. */
#include "compiler/onnx/base/importer.h"
#include "compiler/onnx/import.h"

#include "onnx_data.pb-c.h"

#include <string.h>

typedef struct reader {
    const char *folder;
    import_blocks *blocks;
    base_arena *arena;
    base_report *report;
} reader;

enum { DATA_ALIGNMENT = 64 };

/* Data that must outlive the blocks of the file. */
static base_status keep_tensor(const reader *r, op_tensor *tensor) {
    size_t bytes = tensor->bytes, elements = 0, total;
    op_string *strings = tensor->data;
    bool text = tensor->type.dtype == OP_STRING, fits = true;
    if (text) elements = bytes / sizeof *strings;
    for (size_t i = 0; i < elements; i++) fits = fits && base_size_add(bytes, strings[i].length, &bytes);
    fits = fits && base_size_add(bytes, DATA_ALIGNMENT, &total);
    char *data = fits ? base_arena_alloc(r->arena, total, 1) : NULL;
    if (!data) return base_fail_memory(r->report);
    data += (DATA_ALIGNMENT - (uintptr_t)data % DATA_ALIGNMENT) % DATA_ALIGNMENT;
    if (tensor->bytes) memcpy(data, tensor->data, tensor->bytes);
    char *characters = data + tensor->bytes;
    for (size_t i = 0; i < elements; i++) {
        if (strings[i].length) memcpy(characters, strings[i].data, strings[i].length);
        ((op_string *)(void *)data)[i].data = characters;
        characters += strings[i].length;
    }
    tensor->data = data;
    return BASE_OK;
}

static base_status read_tensor(const reader *r, Onnx__TensorProto *proto, import_value *value) {
    value->kind = OP_KIND_TENSOR;
    base_status status = import_tensor(proto, r->folder, false, r->blocks, &value->tensor, r->report);
    return status == BASE_OK ? keep_tensor(r, &value->tensor) : status;
}

static base_status read_sparse(const reader *r, Onnx__SparseTensorProto *proto, import_value *value) {
    value->kind = OP_KIND_TENSOR;
    base_status status = import_sparse_tensor(proto, r->folder, false, r->blocks, &value->tensor, r->report);
    return status == BASE_OK ? keep_tensor(r, &value->tensor) : status;
}

static base_status read_optional(const reader *r, Onnx__OptionalProto *proto, import_value *value);

static base_status read_sequence(const reader *r, Onnx__SequenceProto *proto, import_value *value);

/* Keys as a vector: integers or texts, which may lie in the blocks of the file. */
static base_status read_keys(const reader *r, const Onnx__MapProto *proto, size_t count, op_tensor *keys) {
    const bool texts = proto->n_string_keys > 0;
    const size_t each = texts ? sizeof(op_string) : sizeof(int64_t);
    keys->type =
        (op_type){.dtype = texts ? OP_STRING : OP_INT64, .shape = {.rank = 1, .dims = {(int64_t)count}}};
    if (!base_size_multiply(count, each, &keys->bytes)) return base_fail_memory(r->report);
    keys->data = base_arena_alloc(r->arena, keys->bytes + 1, DATA_ALIGNMENT);
    if (!keys->data) return base_fail_memory(r->report);
    for (size_t i = 0; i < count; i++) {
        if (!texts) {
            ((int64_t *)keys->data)[i] = proto->keys[i];
            continue;
        }
        const ProtobufCBinaryData *text = &proto->string_keys[i];
        ((op_string *)keys->data)[i] = (op_string){.data = (const char *)text->data, .length = text->len};
    }
    return keep_tensor(r, keys);
}

/* The values of a map as one vector: a list of tensors of one element, or one tensor of all. */
static base_status read_values(const reader *r, Onnx__SequenceProto *proto, size_t count, op_tensor *values) {
    import_value list = {0};
    base_status status = read_sequence(r, proto, &list);
    if (status != BASE_OK) return status;
    const op_tensor *first = list.count ? &list.elements[0].tensor : NULL;
    if (first && list.count == 1 && first->type.shape.rank == 1 &&
        first->type.shape.dims[0] == (int64_t)count) {
        *values = *first;
        return BASE_OK;
    }
    const size_t each = first ? op_dtype_bytes(first->type.dtype) : 0;
    values->type = (op_type){.dtype = first ? first->type.dtype : OP_FLOAT,
                             .shape = {.rank = 1, .dims = {(int64_t)count}}};
    if (list.count != count || (first && !each) || !base_size_multiply(count, each, &values->bytes))
        return base_fail(r->report, BASE_INVALID, "a map has %zu keys and %zu values", count, list.count);
    values->data = base_arena_alloc(r->arena, values->bytes + 1, DATA_ALIGNMENT);
    if (!values->data) return base_fail_memory(r->report);
    for (size_t i = 0; i < count; i++) {
        const op_tensor *value = &list.elements[i].tensor;
        if (list.elements[i].kind != OP_KIND_TENSOR || value->type.dtype != first->type.dtype ||
            value->bytes != each)
            return base_fail(r->report, BASE_INVALID, "value %zu of a map is no single %s", i,
                             op_dtype_name(first->type.dtype));
        memcpy((char *)values->data + i * each, value->data, each);
    }
    return BASE_OK;
}

static base_status read_map(const reader *r, Onnx__MapProto *proto, import_value *value) {
    const size_t count = proto->n_string_keys ? proto->n_string_keys : proto->n_keys;
    value->kind = OP_KIND_MAP;
    value->count = 2;
    value->elements = BASE_ARRAY(r->arena, import_value, 2);
    if (!value->elements) return base_fail_memory(r->report);
    if (proto->n_string_keys && proto->n_keys)
        return base_fail(r->report, BASE_INVALID, "a map has keys of two types");
    base_status status = read_keys(r, proto, count, &value->elements[0].tensor);
    if (status != BASE_OK) return status;
    static const Onnx__SequenceProto nothing = ONNX__SEQUENCE_PROTO__INIT;
    Onnx__SequenceProto none = nothing;
    return read_values(r, proto->values ? proto->values : &none, count, &value->elements[1].tensor);
}

static base_status read_sequence(const reader *r, Onnx__SequenceProto *proto, import_value *value) {
    value->kind = OP_KIND_SEQUENCE;
    size_t lists = (proto->n_tensor_values > 0) + (proto->n_sparse_tensor_values > 0) +
                   (proto->n_sequence_values > 0) + (proto->n_optional_values > 0) +
                   (proto->n_map_values > 0);
    if (lists > 1) return base_fail(r->report, BASE_INVALID, "a sequence has elements of more than one kind");
    value->count = proto->n_tensor_values + proto->n_sparse_tensor_values + proto->n_sequence_values +
                   proto->n_optional_values + proto->n_map_values;
    value->elements = BASE_ARRAY(r->arena, import_value, value->count);
    if (!value->elements) return base_fail_memory(r->report);
    base_status status = BASE_OK;
    for (size_t i = 0; i < value->count && status == BASE_OK; i++) {
        import_value *element = &value->elements[i];
        if (proto->n_tensor_values) status = read_tensor(r, proto->tensor_values[i], element);
        else if (proto->n_sparse_tensor_values)
            status = read_sparse(r, proto->sparse_tensor_values[i], element);
        else if (proto->n_sequence_values) status = read_sequence(r, proto->sequence_values[i], element);
        else if (proto->n_map_values) status = read_map(r, proto->map_values[i], element);
        else status = read_optional(r, proto->optional_values[i], element);
    }
    return status;
}

static base_status read_optional(const reader *r, Onnx__OptionalProto *proto, import_value *value) {
    value->kind = OP_KIND_OPTIONAL;
    if (proto->map_value) return base_fail_unsupported(r->report, "optional maps are not supported");
    value->count =
        proto->tensor_value || proto->sparse_tensor_value || proto->sequence_value || proto->optional_value;
    if (value->count == 0) return BASE_OK;
    value->elements = BASE_NEW(r->arena, import_value);
    if (!value->elements) return base_fail_memory(r->report);
    if (proto->tensor_value) return read_tensor(r, proto->tensor_value, value->elements);
    if (proto->sparse_tensor_value) return read_sparse(r, proto->sparse_tensor_value, value->elements);
    if (proto->sequence_value) return read_sequence(r, proto->sequence_value, value->elements);
    return read_optional(r, proto->optional_value, value->elements);
}

static base_status read_message(reader *r, const uint8_t *data, size_t size, op_kind kind,
                                import_value *value) {
    ProtobufCMessage *message;
    const ProtobufCMessageDescriptor *descriptor =
        kind == OP_KIND_SEQUENCE   ? &onnx__sequence_proto__descriptor
        : kind == OP_KIND_OPTIONAL ? &onnx__optional_proto__descriptor
        : kind == OP_KIND_MAP      ? &onnx__map_proto__descriptor
                                   : &onnx__tensor_proto__descriptor;
    base_status status = import_unpack(descriptor, data, size, r->blocks, &message, r->report);
    if (status != BASE_OK) return status;
    if (kind == OP_KIND_SEQUENCE) return read_sequence(r, (Onnx__SequenceProto *)message, value);
    if (kind == OP_KIND_OPTIONAL) return read_optional(r, (Onnx__OptionalProto *)message, value);
    if (kind == OP_KIND_MAP) return read_map(r, (Onnx__MapProto *)message, value);
    return read_tensor(r, (Onnx__TensorProto *)message, value);
}

base_status import_value_read(const char *path, const op_type *expected, base_arena *arena,
                              import_value *value, base_report *report) {
    *value = (import_value){0};
    op_kind kind = expected ? expected->kind : OP_KIND_TENSOR;
    base_report_context(report, "%s", path);
    import_blocks blocks;
    import_blocks_init(&blocks, arena->allocator);
    reader r = {import_folder(path, arena), &blocks, arena, report};
    uint8_t *data;
    size_t size;
    base_status status =
        r.folder ? import_file_read(path, &blocks, &data, &size, report) : base_fail_memory(report);
    if (status == BASE_OK) status = read_message(&r, data, size, kind, value);
    import_blocks_free(&blocks);
    base_report_context(report, NULL);
    return status;
}
