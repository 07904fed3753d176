/* SPDX-License-Identifier: Apache-2.0 */
/* generate.c: Constant, in all its forms, Range, random numbers, and Dropout, which mostly does nothing when
 * a model runs. */
#include "compiler/onnx/convert/convert.h"

#include <string.h>

static const op_attributes NONE = {0};

static base_status define_copy(import_node *n, op_dtype dtype, int32_t rank, size_t count, const void *data) {
    op_type type = {.dtype = dtype, .shape = {.rank = rank, .dims = {(int64_t)count}}};
    ir_value *value = ir_constant_copy(n->importer->module, n->proto->output[0], &type, data,
                                       count * op_dtype_bytes(dtype));
    return value ? import_define(n, 0, value) : import_memory(n);
}

/* A tensor of strings, as a message of its own. */
static base_status define_strings(import_node *n, size_t rank, size_t count, ProtobufCBinaryData *texts) {
    Onnx__TensorProto proto = ONNX__TENSOR_PROTO__INIT;
    int64_t dim = (int64_t)count;
    op_tensor tensor;
    proto.has_data_type = 1;
    proto.data_type = OP_STRING;
    proto.n_dims = rank;
    proto.dims = &dim;
    proto.n_string_data = count;
    proto.string_data = texts;
    base_status status =
        import_tensor(&proto, n->importer->folder, true, &n->importer->blocks, &tensor, n->importer->report);
    if (status != BASE_OK) return status;
    import_block_detach(&n->importer->blocks, tensor.data);
    ir_value *value =
        ir_constant_new(n->importer->module, n->proto->output[0], &tensor, import_block_release, tensor.data);
    return value ? import_define(n, 0, value) : import_memory(n);
}

base_status import_convert_constant(import_node *n) {
    if (n->attribute_count != 1) {
        return base_fail(n->importer->report, BASE_INVALID, "%zu attributes, a constant has one: its value",
                         n->attribute_count);
    }
    if (!import_output_named(n, 0)) return BASE_OK;
    Onnx__AttributeProto *a = n->attributes[0];
    if (a->t || a->sparse_tensor) {
        ir_value *value;
        base_status status = import_constant_tensor(
            n->importer, n->scope->frame, a->t, a->t ? NULL : a->sparse_tensor, n->proto->output[0], &value);
        return status == BASE_OK ? import_define(n, 0, value) : status;
    }
    if (strcmp(a->name, "value_float") == 0) return define_copy(n, OP_FLOAT, 0, 1, &a->f);
    if (strcmp(a->name, "value_floats") == 0) return define_copy(n, OP_FLOAT, 1, a->n_floats, a->floats);
    if (strcmp(a->name, "value_int") == 0) return define_copy(n, OP_INT64, 0, 1, &a->i);
    if (strcmp(a->name, "value_ints") == 0) return define_copy(n, OP_INT64, 1, a->n_ints, a->ints);
    if (strcmp(a->name, "value_string") == 0) return define_strings(n, 0, 1, &a->s);
    return define_strings(n, 1, a->n_strings, a->strings);
}

/* Without a seed, a node's random numbers follow from its graph's path and the name of its first output: they are the
 * same in every run, and different from those of other nodes. */
base_status import_convert_random(import_node *n) {
    op_attributes attributes;
    base_status status = import_attributes(n, n->code, &attributes);
    if (status != BASE_OK) return status;
    if (!import_attribute(n, "seed")) {
        const char *name = import_output_named(n, 0) ? n->proto->output[0] : "";
        const uint64_t path = base_hash(n->scope->path, strlen(n->scope->path), 0);
        const uint64_t stream = base_hash(name, strlen(name), path) >> 1;
        if (!import_attributes_add_integer(n, &attributes, "ouro.stream", (int64_t)stream))
            return import_memory(n);
    }
    return import_finish(n, n->code, attributes, n->input_count, n->inputs);
}

/* A constant of one element that is zero, of any type: false, +0 or -0. */
static bool is_zero(const ir_value *value) {
    if (!value || !value->constant || value->constant->tensor.bytes == 0) return false;
    const op_tensor *tensor = &value->constant->tensor;
    const uint8_t *byte = tensor->data;
    for (size_t i = 0; i < tensor->bytes; i++) {
        const bool sign = i + 1 == tensor->bytes && byte[i] == 0x80; /* little-endian, as all data here */
        if (byte[i] && !(sign && tensor->type.dtype != OP_BOOL)) return false;
    }
    return true;
}

/* The mask: nothing has been dropped, so it is all ones. It was of the input's type before opset 10. */
static base_status define_mask(import_node *n) {
    op_dtype dtype = n->version >= 10 ? OP_BOOL : import_dtype_of(n->inputs[0]);
    if (dtype == OP_NONE)
        return base_fail_unsupported(n->importer->report, "the mask needs an input of known type");
    ir_value *one = import_constant_real(n, dtype, 1);
    ir_value *shape = import_make(n, OP_SHAPE, NONE, 1, n->inputs);
    if (!one || !shape) return import_memory(n);
    op_tensor tensor = one->constant->tensor;
    tensor.type.shape = (op_shape){.rank = 1, .dims = {1}};
    op_attribute value = {.name = "value", .kind = OP_ATTRIBUTE_TENSOR, .count = 1, .as.tensor = &tensor};
    op_attributes attributes = NONE;
    if (!ir_attribute_set(n->importer->module, &attributes, &value)) return import_memory(n);
    ir_node *node = import_begin(n, OP_CONSTANT_OF_SHAPE, attributes, 1, &shape);
    ir_value *mask = node ? ir_node_add_output(node, n->proto->output[1], NULL) : NULL;
    if (!mask || !import_infer(n->importer, node)) return import_memory(n);
    return import_define(n, 1, mask);
}

/* Numbers of 16 bits are made in double, whatever stash_type asks for at least. */
base_status import_convert_range(import_node *n) {
    return import_finish(n, OP_RANGE, NONE, 3, n->inputs);
}

base_status import_convert_dropout(import_node *n) {
    ir_value *ratio = n->input_count > 1 ? n->inputs[1] : NULL,
             *training = n->input_count > 2 ? n->inputs[2] : NULL;
    if (training && !is_zero(training) && !is_zero(ratio)) return import_convert_random(n);
    base_status status = import_output_wanted(n, 1) ? define_mask(n) : BASE_OK;
    if (status != BASE_OK) return status;
    n->output_count = n->output_count > 1 ? 1 : n->output_count;
    return import_finish(n, OP_IDENTITY, NONE, 1, n->inputs);
}
