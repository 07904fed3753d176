/* SPDX-License-Identifier: Apache-2.0 */
/* node.c: what converters are written with: reading a node's attributes, making constants and nodes.
 */
#include "compiler/onnx/base/importer.h"

#include <stdio.h>
#include <string.h>

base_status import_memory(const import_node *n) {
    return base_fail_memory(n->importer->report);
}

/* ---- attributes: their kinds have been checked against the row ----------------------------------------- */

const Onnx__AttributeProto *import_attribute(const import_node *n, const char *name) {
    for (size_t i = 0; i < n->attribute_count; i++) {
        if (strcmp(n->attributes[i]->name, name) == 0) return n->attributes[i];
    }
    return NULL;
}

int64_t import_integer(const import_node *n, const char *name, int64_t otherwise) {
    const Onnx__AttributeProto *attribute = import_attribute(n, name);
    return attribute ? attribute->i : otherwise;
}

float import_real(const import_node *n, const char *name, float otherwise) {
    const Onnx__AttributeProto *attribute = import_attribute(n, name);
    return attribute ? attribute->f : otherwise;
}

const int64_t *import_integers(const import_node *n, const char *name, size_t *count) {
    const Onnx__AttributeProto *attribute = import_attribute(n, name);
    *count = attribute ? attribute->n_ints : 0;
    return attribute ? attribute->ints : NULL;
}

bool import_text_is(const import_node *n, const char *name, const char *text, const char *otherwise) {
    const Onnx__AttributeProto *given = import_attribute(n, name);
    if (!given) return strcmp(text, otherwise) == 0;
    return given->s.len == strlen(text) && memcmp(given->s.data, text, given->s.len) == 0;
}

bool import_output_named(const import_node *n, uint32_t index) {
    return index < n->output_count && n->proto->output[index][0];
}

bool import_output_wanted(const import_node *n, uint32_t index) {
    return import_output_named(n, index) && base_map_get(&n->scope->used, n->proto->output[index]);
}

op_dtype import_dtype_of(const ir_value *value) {
    return value ? value->type.dtype : OP_NONE;
}

int32_t import_rank_of(const ir_value *value) {
    return value ? value->type.shape.rank : -1;
}

/* ---- attributes of the IR ------------------------------------------------------------------------------ */

static char *text_of(base_arena *arena, const ProtobufCBinaryData *bytes) {
    return base_arena_text(arena, bytes->len ? (const char *)bytes->data : "", bytes->len);
}

static bool copy_strings(base_arena *arena, const Onnx__AttributeProto *from, op_attribute *to) {
    op_string *texts = BASE_ARRAY(arena, op_string, from->n_strings);
    if (!texts) return false;
    for (size_t i = 0; i < from->n_strings; i++) {
        texts[i].length = from->strings[i].len;
        texts[i].data = text_of(arena, &from->strings[i]);
        if (!texts[i].data) return false;
    }
    to->count = from->n_strings;
    to->as.texts = texts;
    return true;
}

/* Attributes are small: their tensors are copied into the module's arena. */
static base_status copy_tensor(const import_node *n, Onnx__TensorProto *from, op_attribute *to) {
    base_arena *arena = &n->importer->module->arena;
    op_tensor *tensor = BASE_NEW(arena, op_tensor);
    if (!tensor) return import_memory(n);
    base_status status =
        import_tensor(from, n->importer->folder, true, &n->importer->blocks, tensor, n->importer->report);
    if (status != BASE_OK) return status;
    void *block = tensor->data;
    if (tensor->type.dtype == OP_STRING) {
        return base_fail_unsupported(n->importer->report,
                                     "attribute \"%s\": tensors of strings are not supported here", to->name);
    }
    tensor->data = base_arena_alloc(arena, tensor->bytes, 1);
    if (!tensor->data) return import_memory(n);
    if (tensor->bytes) memcpy(tensor->data, block, tensor->bytes);
    to->as.tensor = tensor;
    return BASE_OK;
}

static base_status copy_attribute(const import_node *n, char kind, Onnx__AttributeProto *from,
                                  op_attribute *to) {
    base_arena *arena = &n->importer->module->arena;
    to->name = base_arena_text(arena, from->name, strlen(from->name));
    to->count = 1;
    bool made = to->name != NULL;
    switch (kind) {
    case 'i':
        to->kind = OP_ATTRIBUTE_INT;
        to->as.integer = from->i;
        break;
    case 'f':
        to->kind = OP_ATTRIBUTE_FLOAT;
        to->as.real = from->f;
        break;
    case 's':
        to->kind = OP_ATTRIBUTE_STRING;
        to->as.text = (op_string){text_of(arena, &from->s), from->s.len};
        made = made && to->as.text.data;
        break;
    case 't':
        to->kind = OP_ATTRIBUTE_TENSOR;
        return made ? copy_tensor(n, from->t, to) : import_memory(n);
    case 'I': {
        int64_t *integers = BASE_ARRAY(arena, int64_t, from->n_ints);
        if (integers && from->n_ints) memcpy(integers, from->ints, from->n_ints * sizeof *integers);
        to->kind = OP_ATTRIBUTE_INTS;
        to->count = from->n_ints;
        to->as.integers = integers;
        made = made && integers;
        break;
    }
    case 'F': {
        float *reals = BASE_ARRAY(arena, float, from->n_floats);
        if (reals && from->n_floats) memcpy(reals, from->floats, from->n_floats * sizeof *reals);
        to->kind = OP_ATTRIBUTE_FLOATS;
        to->count = from->n_floats;
        to->as.reals = reals;
        made = made && reals;
        break;
    }
    case 'S':
        to->kind = OP_ATTRIBUTE_STRINGS;
        made = made && copy_strings(arena, from, to);
        break;
    case 'p': {
        Onnx__ValueInfoProto info = ONNX__VALUE_INFO_PROTO__INIT;
        op_type *type = BASE_NEW(arena, op_type);
        if (!type) return import_memory(n);
        info.name = from->name;
        info.type = from->tp;
        to->kind = OP_ATTRIBUTE_TYPE;
        to->as.type = type;
        return made ? import_type(n->importer, &info, false, type) : import_memory(n);
    }
    default:
        return base_fail_unsupported(n->importer->report, "attribute \"%s\" is not supported", to->name);
    }
    return made ? BASE_OK : import_memory(n);
}

/* The letter of the kind that a row of ops.def gives an attribute; 0: it has none of that name. */
static char kind_in_row(const op_schema *row, const char *name) {
    size_t length = strlen(name);
    for (const char *at = row->attributes; (at = strstr(at, name)); at += length) {
        if ((at == row->attributes || at[-1] == ' ') && at[length] == ':') return at[length + 1];
    }
    return 0;
}

base_status import_attributes(const import_node *n, op_code code, op_attributes *attributes) {
    op_attribute *items = BASE_ARRAY(&n->importer->module->arena, op_attribute, n->attribute_count);
    if (!items) return import_memory(n);
    size_t count = 0;
    for (size_t i = 0; i < n->attribute_count; i++) {
        char kind = kind_in_row(op_schema_of(code), n->attributes[i]->name);
        if (!kind) continue;
        base_status status = copy_attribute(n, kind, n->attributes[i], &items[count++]);
        if (status != BASE_OK) return status;
    }
    *attributes = (op_attributes){count, items};
    return BASE_OK;
}

bool import_attributes_add_integer(const import_node *n, op_attributes *attributes, const char *name,
                                   int64_t value) {
    op_attribute attribute = {.name = name, .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = value};
    return ir_attribute_set(n->importer->module, attributes, &attribute);
}

bool import_attributes_add_integers(const import_node *n, op_attributes *attributes, const char *name,
                                    size_t count, const int64_t *values) {
    op_attribute attribute = {.name = name, .kind = OP_ATTRIBUTE_INTS, .count = count, .as.integers = values};
    return ir_attribute_set(n->importer->module, attributes, &attribute);
}

bool import_attributes_add_text(const import_node *n, op_attributes *attributes, const char *name,
                                const char *text) {
    op_attribute attribute = {.name = name,
                              .kind = OP_ATTRIBUTE_STRING,
                              .count = 1,
                              .as.text = {.data = text, .length = strlen(text)}};
    return ir_attribute_set(n->importer->module, attributes, &attribute);
}

/* ---- constants ----------------------------------------------------------------------------------------- */

/* The name of a constant that a converter makes: after the node's first output, so that it can be found
 * again. */
static ir_value *constant_copy(const import_node *n, const op_type *type, const void *data, size_t bytes) {
    char name[160];
    const char *output = n->proto->n_output ? n->proto->output[0] : "";
    snprintf(name, sizeof name, "%.120s/constant", *output ? output : import_label(n->proto));
    return ir_constant_copy(n->importer->module, name, type, data, bytes);
}

ir_value *import_constant_integers(const import_node *n, size_t count, const int64_t *values) {
    op_type type = {.dtype = OP_INT64, .shape = {.rank = 1, .dims = {(int64_t)count}}};
    return constant_copy(n, &type, values, count * sizeof *values);
}

ir_value *import_constant_reals(const import_node *n, size_t count, const float *values) {
    op_type type = {.dtype = OP_FLOAT, .shape = {.rank = 1, .dims = {(int64_t)count}}};
    return constant_copy(n, &type, values, count * sizeof *values);
}

ir_value *import_constant_integer(const import_node *n, int64_t value) {
    op_type type = {.dtype = OP_INT64};
    return constant_copy(n, &type, &value, sizeof value);
}

/* The nearest whole number between the two; 0 where there is none. */
static int64_t whole(double value, double least, double most) {
    if (!(value >= least)) return value < least ? (int64_t)least : 0;
    return value > most ? (int64_t)most : (int64_t)value;
}

ir_value *import_constant_real(const import_node *n, op_dtype dtype, double value) {
    union {
        float f, complex64[2];
        double d, complex128[2];
        op_string text; /* empty: there is no such number; what uses it is refused when shapes are inferred */
        uint16_t u16;
        int8_t i8;
        int16_t i16;
        int32_t i32;
        int64_t i64;
        uint8_t u8;
        uint32_t u32;
        uint64_t u64;
    } data = {0};
    switch (dtype) {
    case OP_FLOAT:
        data.f = (float)value;
        break;
    case OP_DOUBLE:
        data.d = value;
        break;
    case OP_FLOAT16:
        data.u16 = base_half_from_double(value);
        break;
    case OP_BFLOAT16:
        data.u16 = base_bfloat16_from_double(value);
        break;
    case OP_INT8:
        data.i8 = (int8_t)whole(value, INT8_MIN, INT8_MAX);
        break;
    case OP_INT16:
        data.i16 = (int16_t)whole(value, INT16_MIN, INT16_MAX);
        break;
    case OP_INT32:
        data.i32 = (int32_t)whole(value, INT32_MIN, INT32_MAX);
        break;
    case OP_INT64:
        data.i64 = whole(value, -0x1p63, 0x1.fffffffffffffp62);
        break;
    case OP_UINT16:
        data.u16 = (uint16_t)whole(value, 0, UINT16_MAX);
        break;
    case OP_UINT32:
        data.u32 = (uint32_t)whole(value, 0, UINT32_MAX);
        break;
    case OP_UINT64:
        data.u64 = (uint64_t)whole(value, 0, 0x1.fffffffffffffp62);
        break;
    case OP_COMPLEX64:
        data.complex64[0] = (float)value;
        break;
    case OP_COMPLEX128:
        data.complex128[0] = value;
        break;
    case OP_STRING:
        break;
    default:
        data.u8 = (uint8_t)whole(value, 0, UINT8_MAX);
        break; /* uint8 and bool */
    }
    op_type type = {.dtype = dtype};
    size_t bytes = 0;
    const unsigned bits = op_dtype_bits(dtype);
    (void)op_type_bytes(&type, &bytes); /* none where the dtype is not known */
    if (bits < 8) data.u8 &= (uint8_t)((1u << bits) - 1); /* one of several of a byte */
    return constant_copy(n, &type, &data, bytes);
}

base_status import_constant_tensor(import_state *importer, const import_frame *frame,
                                   Onnx__TensorProto *dense, Onnx__SparseTensorProto *sparse,
                                   const char *name, ir_value **value) {
    /* The body of a function may come again, and so may that of a loop (control.c): its tensors become one constant each. */
    bool keep = frame->function != NULL, again = keep || importer->guesses || importer->wrong_guesses;
    char *key = NULL;
    if (again) {
        key = base_arena_format(&importer->arena, "%p", dense ? (void *)dense : (void *)sparse);
        if (!key) return base_fail_memory(importer->report);
        *value = base_map_get(&importer->shared, key);
        if (*value) return BASE_OK;
    }
    op_tensor tensor;
    base_status status =
        dense ? import_tensor(dense, importer->folder, keep, &importer->blocks, &tensor, importer->report)
              : import_sparse_tensor(sparse, importer->folder, keep, &importer->blocks, &tensor,
                                     importer->report);
    if (status != BASE_OK) return status;
    import_block_detach(&importer->blocks, tensor.data);
    *value = ir_constant_new(importer->module, name, &tensor, import_block_release, tensor.data);
    if (!*value || (again && !base_map_put(&importer->shared, key, *value)))
        return base_fail_memory(importer->report);
    return BASE_OK;
}

/* ---- nodes --------------------------------------------------------------------------------------------- */

bool import_infer(import_state *importer, ir_node *node) {
    op_call call;
    base_arena_free(&importer->scratch);
    if (!ir_node_call(node, &importer->scratch, &call)) return false;
    /* What is wrong with the node is reported by the pass, which knows more: here it only stays untyped. */
    base_status status = op_infer(&call, NULL);
    if (status == BASE_SYSTEM_ERROR) return false;
    if (status != BASE_OK && importer->refused.status == BASE_OK) {
        ir_node_context(node, &importer->refused);
        if (op_infer(&call, &importer->refused) == BASE_SYSTEM_ERROR) return false;
    }
    for (uint32_t i = 0; i < node->output_count && status == BASE_OK; i++) {
        if (node->outputs[i]) node->outputs[i]->type = call.outputs[i].type;
    }
    return true;
}

ir_node *import_begin(const import_node *n, op_code code, op_attributes attributes, uint32_t input_count,
                      ir_value *const *inputs) {
    return ir_node_new(n->scope->graph, NULL, code, n->proto->name, n->scope->path, attributes, input_count,
                       inputs);
}

ir_value *import_make(const import_node *n, op_code code, op_attributes attributes, uint32_t input_count,
                      ir_value *const *inputs) {
    char name[160];
    const char *output = n->proto->n_output ? n->proto->output[0] : "";
    snprintf(name, sizeof name, "%.120s/%s", *output ? output : import_label(n->proto),
             op_schema_of(code)->name);
    ir_node *node = import_begin(n, code, attributes, input_count, inputs);
    ir_value *value = node ? ir_node_add_output(node, name, NULL) : NULL;
    return value && import_infer(n->importer, node) ? value : NULL;
}

base_status import_define(import_node *n, uint32_t index, ir_value *value) {
    if (!import_output_named(n, index)) return BASE_OK;
    return import_bind(n->importer, n->scope, n->proto->output[index], value, "an output of a node");
}

base_status import_finish(import_node *n, op_code code, op_attributes attributes, uint32_t input_count,
                          ir_value *const *inputs) {
    ir_node *node = import_begin(n, code, attributes, input_count, inputs);
    if (!node) return import_memory(n);
    const op_schema *row = op_schema_of(code);
    uint32_t count = n->output_count; /* those that the operator always makes are there even where the file leaves them out */
    if (count < (uint32_t)row->output_minimum) count = (uint32_t)row->output_minimum;
    if (row->output_maximum >= 0 && count > (uint32_t)row->output_maximum)
        count = (uint32_t)row->output_maximum;
    for (uint32_t i = 0; i < count; i++) {
        bool named = import_output_named(n, i);
        if (!named && i >= (uint32_t)row->output_minimum) {
            if (!ir_node_add_absent_output(node)) return import_memory(n);
            continue;
        }
        ir_value *value = ir_node_add_output(node, named ? n->proto->output[i] : NULL, NULL);
        if (!value) return import_memory(n);
        base_status status = import_define(n, i, value);
        if (status != BASE_OK) return status;
    }
    return row->flags & OP_FLAG_GRAPHS || import_infer(n->importer, node) ? BASE_OK : import_memory(n);
}

base_status import_convert_plain(import_node *n) {
    op_attributes attributes;
    base_status status = import_attributes(n, n->code, &attributes);
    return status == BASE_OK ? import_finish(n, n->code, attributes, n->input_count, n->inputs) : status;
}
