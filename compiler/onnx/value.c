/* SPDX-License-Identifier: Apache-2.0 */
/* value.c: data files: a TensorProto, SequenceProto or OptionalProto becomes a value in an arena. */
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

static base_status read_sequence(const reader *r, Onnx__SequenceProto *proto, import_value *value) {
    value->kind = OP_KIND_SEQUENCE;
    if (proto->n_map_values) return base_fail_unsupported(r->report, "maps are not supported");
    size_t lists = (proto->n_tensor_values > 0) + (proto->n_sparse_tensor_values > 0) +
                   (proto->n_sequence_values > 0) + (proto->n_optional_values > 0);
    if (lists > 1) return base_fail(r->report, BASE_INVALID, "a sequence has elements of more than one kind");
    value->count = proto->n_tensor_values + proto->n_sparse_tensor_values + proto->n_sequence_values +
                   proto->n_optional_values;
    value->elements = BASE_ARRAY(r->arena, import_value, value->count);
    if (!value->elements) return base_fail_memory(r->report);
    base_status status = BASE_OK;
    for (size_t i = 0; i < value->count && status == BASE_OK; i++) {
        import_value *element = &value->elements[i];
        if (proto->n_tensor_values) status = read_tensor(r, proto->tensor_values[i], element);
        else if (proto->n_sparse_tensor_values)
            status = read_sparse(r, proto->sparse_tensor_values[i], element);
        else if (proto->n_sequence_values) status = read_sequence(r, proto->sequence_values[i], element);
        else status = read_optional(r, proto->optional_values[i], element);
    }
    return status;
}

static base_status read_optional(const reader *r, Onnx__OptionalProto *proto, import_value *value) {
    value->kind = OP_KIND_OPTIONAL;
    if (proto->map_value) return base_fail_unsupported(r->report, "maps are not supported");
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
                                   : &onnx__tensor_proto__descriptor;
    base_status status = import_unpack(descriptor, data, size, r->blocks, &message, r->report);
    if (status != BASE_OK) return status;
    if (kind == OP_KIND_SEQUENCE) return read_sequence(r, (Onnx__SequenceProto *)message, value);
    if (kind == OP_KIND_OPTIONAL) return read_optional(r, (Onnx__OptionalProto *)message, value);
    return read_tensor(r, (Onnx__TensorProto *)message, value);
}

base_status import_value_read(const char *path, const op_type *expected, base_arena *arena,
                              import_value *value, base_report *report) {
    *value = (import_value){0};
    op_kind kind = expected ? expected->kind : OP_KIND_TENSOR;
    base_report_context(report, "%s", path);
    if (kind == OP_KIND_MAP) return base_fail_unsupported(report, "maps are not supported");
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
