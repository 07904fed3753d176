/* SPDX-License-Identifier: Apache-2.0 */
/* onnx.c: see onnx.h. */
#include "tests/support/onnx.h"
#include "compiler/onnx/import.h"
#include "tests/support/support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

void *onnx_take(onnx *o, size_t bytes) {
    void *memory = base_arena_alloc(&o->arena, bytes, 1);
    assert_non_null(memory);
    return memory;
}

char *onnx_text(onnx *o, const char *text) {
    return strcpy(onnx_take(o, strlen(text) + 1), text);
}

/* ---- models -------------------------------------------------------------------------------------------- */

Onnx__GraphProto *onnx_graph(onnx *o, const char *name) {
    Onnx__GraphProto *graph = onnx_take(o, sizeof *graph);
    onnx__graph_proto__init(graph);
    graph->name = onnx_text(o, name);
    return graph;
}

static Onnx__OperatorSetIdProto *opset_new(onnx *o, const char *domain, int64_t version) {
    Onnx__OperatorSetIdProto *opset = onnx_take(o, sizeof *opset);
    onnx__operator_set_id_proto__init(opset);
    if (*domain) opset->domain = onnx_text(o, domain);
    opset->has_version = 1;
    opset->version = version;
    return opset;
}

void onnx_opset(onnx *o, const char *domain, int64_t version) {
    ONNX_ADD(o, o->model->n_opset_import, o->model->opset_import, opset_new(o, domain, version));
}

onnx *onnx_new(int64_t opset) {
    onnx *o = calloc(1, sizeof *o);
    assert_non_null(o);
    base_arena_init(&o->arena, NULL);
    o->model = onnx_take(o, sizeof *o->model);
    onnx__model_proto__init(o->model);
    o->model->has_ir_version = 1;
    o->model->ir_version = 8;
    o->model->graph = o->graph = onnx_graph(o, "g");
    if (opset) onnx_opset(o, "", opset);
    return o;
}

void onnx_free(onnx *o) {
    base_arena_free(&o->arena);
    free(o);
}

uint8_t *onnx_pack(onnx *o, size_t *size) {
    *size = onnx__model_proto__get_packed_size(o->model);
    uint8_t *bytes = onnx_take(o, *size);
    onnx__model_proto__pack(o->model, bytes);
    return bytes;
}

void onnx_write_bytes(const char *path, const void *bytes, size_t size) {
    (void)remove(path); /* a file that is cut and written anew waits for the disk, on some file systems */
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

void onnx_write(onnx *o, const char *path) {
    size_t size;
    uint8_t *bytes = onnx_pack(o, &size);
    onnx_write_bytes(path, bytes, size);
}

/* ---- while memory runs out ------------------------------------------------------------------------------- */

/* The import where allocation `fail_at` fails (0: none). How many it asked for; 0: the model is refused. */
static size_t import_failing(const char *path, const import_dim *dims, size_t dim_count, size_t fail_at,
                             bool once) {
    base_report report = {0};
    support_allocator counting;
    ir_module *module;
    support_allocator_init(&counting);
    counting.fail_at = fail_at;
    counting.once = once;
    const base_status status = import_model(path, dims, dim_count, &counting.allocator, &module, &report);
    const bool failed = fail_at && counting.count >= fail_at;
    if (failed ? status != BASE_SYSTEM_ERROR || !strstr(report.text, "out of memory")
               : fail_at && status != BASE_OK)
        fail_msg("%s: allocation %zu: status %d, \"%s\"", path, fail_at, (int)status, report.text);
    ir_module_free(module);
    assert_int_equal(counting.live, 0);
    return status == BASE_OK || failed ? counting.count : 0;
}

size_t onnx_import_without_memory(const char *path, const import_dim *dims, size_t dim_count) {
    enum { SAMPLE = 40 };
    const size_t count = import_failing(path, dims, dim_count, 0, false),
                 step = support_allocation_step(count, SAMPLE);
    for (size_t at = 1; at <= count; at += step)
        (void)import_failing(path, dims, dim_count, at, at / step % 2);
    return count;
}

/* ---- lists of text ------------------------------------------------------------------------------------- */

/* The next part of a list with commas; NULL after the last. "" is an empty list. */
static char *next_part(onnx *o, const char **list) {
    if (!*list || !**list) return NULL;
    const char *comma = strchr(*list, ',');
    size_t length = comma ? (size_t)(comma - *list) : strlen(*list);
    char *part = onnx_take(o, length + 1);
    memcpy(part, *list, length);
    *list = comma ? comma + 1 : NULL;
    return part;
}

static size_t parse_numbers(onnx *o, const char *list, int64_t **numbers) {
    size_t count = 0;
    *numbers = onnx_take(o, (list ? strlen(list) + 1 : 1) * sizeof **numbers);
    for (char *part; (part = next_part(o, &list));) (*numbers)[count++] = strtoll(part, NULL, 10);
    return count;
}

static void add_names(onnx *o, size_t *count, char ***names, const char *list) {
    for (char *part; (part = next_part(o, &list));) ONNX_ADD(o, *count, *names, part);
}

/* ---- interface values ---------------------------------------------------------------------------------- */

static Onnx__TensorShapeProto *shape_new(onnx *o, const char *list) {
    Onnx__TensorShapeProto *shape = onnx_take(o, sizeof *shape);
    onnx__tensor_shape_proto__init(shape);
    for (char *part; (part = next_part(o, &list));) {
        Onnx__TensorShapeProto__Dimension *dim = onnx_take(o, sizeof *dim);
        onnx__tensor_shape_proto__dimension__init(dim);
        char *end;
        int64_t extent = strtoll(part, &end, 10);
        if (*part && !*end) {
            dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
            dim->dim_value = extent;
        } else if (strcmp(part, "?") != 0) {
            dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
            dim->dim_param = part;
        }
        ONNX_ADD(o, shape->n_dim, shape->dim, dim);
    }
    return shape;
}

static Onnx__ValueInfoProto *info_new(onnx *o, const char *name, int dtype, const char *shape) {
    Onnx__ValueInfoProto *info = onnx_take(o, sizeof *info);
    onnx__value_info_proto__init(info);
    info->name = onnx_text(o, name);
    if (!dtype) return info;
    info->type = onnx_take(o, sizeof *info->type);
    onnx__type_proto__init(info->type);
    info->type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    info->type->tensor_type = onnx_take(o, sizeof *info->type->tensor_type);
    onnx__type_proto__tensor__init(info->type->tensor_type);
    info->type->tensor_type->has_elem_type = 1;
    info->type->tensor_type->elem_type = dtype;
    if (shape) info->type->tensor_type->shape = shape_new(o, shape);
    return info;
}

void onnx_input(onnx *o, Onnx__GraphProto *graph, const char *name, int dtype, const char *shape) {
    ONNX_ADD(o, graph->n_input, graph->input, info_new(o, name, dtype, shape));
}

void onnx_output(onnx *o, Onnx__GraphProto *graph, const char *name) {
    ONNX_ADD(o, graph->n_output, graph->output, info_new(o, name, 0, NULL));
}

/* ---- tensors ------------------------------------------------------------------------------------------- */

Onnx__TensorProto *onnx_tensor(onnx *o, const char *name, int dtype, const char *shape) {
    Onnx__TensorProto *tensor = onnx_take(o, sizeof *tensor);
    onnx__tensor_proto__init(tensor);
    tensor->name = onnx_text(o, name);
    tensor->has_data_type = 1;
    tensor->data_type = dtype;
    tensor->n_dims = parse_numbers(o, shape, &tensor->dims);
    return tensor;
}

void onnx_raw(onnx *o, Onnx__TensorProto *tensor, const void *bytes, size_t size) {
    tensor->has_raw_data = 1;
    tensor->raw_data.len = size;
    tensor->raw_data.data = onnx_take(o, size);
    if (size) memcpy(tensor->raw_data.data, bytes, size);
}

void onnx_initializer(onnx *o, Onnx__GraphProto *graph, Onnx__TensorProto *tensor) {
    ONNX_ADD(o, graph->n_initializer, graph->initializer, tensor);
}

static Onnx__TensorProto *vector(onnx *o, Onnx__GraphProto *graph, const char *name, int dtype, int count) {
    char shape[16] = "";
    if (count >= 0) snprintf(shape, sizeof shape, "%d", count);
    Onnx__TensorProto *tensor = onnx_tensor(o, name, dtype, shape);
    onnx_initializer(o, graph, tensor);
    return tensor;
}

void onnx_integers(onnx *o, Onnx__GraphProto *graph, const char *name, int count, const int64_t *values) {
    size_t elements = count < 0 ? 1 : (size_t)count;
    onnx_raw(o, vector(o, graph, name, 7, count), values, elements * sizeof *values);
}

void onnx_floats(onnx *o, Onnx__GraphProto *graph, const char *name, int count, const float *values) {
    size_t elements = count < 0 ? 1 : (size_t)count;
    onnx_raw(o, vector(o, graph, name, 1, count), values, elements * sizeof *values);
}

void onnx_external(onnx *o, Onnx__TensorProto *tensor, const char *location, const char *offset,
                   const char *length) {
    const char *pairs[][2] = {{"location", location}, {"offset", offset}, {"length", length}};
    tensor->has_data_location = 1;
    tensor->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    for (size_t i = 0; i < 3; i++) {
        if (!pairs[i][1]) continue;
        Onnx__StringStringEntryProto *entry = onnx_take(o, sizeof *entry);
        onnx__string_string_entry_proto__init(entry);
        entry->key = onnx_text(o, pairs[i][0]);
        entry->value = onnx_text(o, pairs[i][1]);
        ONNX_ADD(o, tensor->n_external_data, tensor->external_data, entry);
    }
}

/* ---- nodes --------------------------------------------------------------------------------------------- */

static Onnx__NodeProto *node_new(onnx *o, const char *op, const char *name, const char *inputs,
                                 const char *outputs) {
    Onnx__NodeProto *node = onnx_take(o, sizeof *node);
    onnx__node_proto__init(node);
    node->op_type = onnx_text(o, op);
    node->name = onnx_text(o, name);
    add_names(o, &node->n_input, &node->input, inputs);
    add_names(o, &node->n_output, &node->output, outputs);
    return node;
}

Onnx__NodeProto *onnx_node(onnx *o, Onnx__GraphProto *graph, const char *op, const char *name,
                           const char *inputs, const char *outputs) {
    Onnx__NodeProto *node = node_new(o, op, name, inputs, outputs);
    ONNX_ADD(o, graph->n_node, graph->node, node);
    return node;
}

Onnx__AttributeProto *onnx_attribute(onnx *o, Onnx__NodeProto *node, const char *name, int type) {
    Onnx__AttributeProto *attribute = onnx_take(o, sizeof *attribute);
    onnx__attribute_proto__init(attribute);
    attribute->name = onnx_text(o, name);
    attribute->has_type = 1;
    attribute->type = (Onnx__AttributeProto__AttributeType)type;
    ONNX_ADD(o, node->n_attribute, node->attribute, attribute);
    return attribute;
}

void onnx_set_integer(onnx *o, Onnx__NodeProto *node, const char *name, int64_t value) {
    Onnx__AttributeProto *attribute =
        onnx_attribute(o, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
    attribute->has_i = 1;
    attribute->i = value;
}

void onnx_set_real(onnx *o, Onnx__NodeProto *node, const char *name, float value) {
    Onnx__AttributeProto *attribute =
        onnx_attribute(o, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
    attribute->has_f = 1;
    attribute->f = value;
}

void onnx_set_text(onnx *o, Onnx__NodeProto *node, const char *name, const char *value) {
    Onnx__AttributeProto *attribute =
        onnx_attribute(o, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);
    attribute->has_s = 1;
    attribute->s.len = strlen(value);
    attribute->s.data = (uint8_t *)onnx_text(o, value);
}

void onnx_set_integers(onnx *o, Onnx__NodeProto *node, const char *name, const char *values) {
    Onnx__AttributeProto *attribute =
        onnx_attribute(o, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
    attribute->n_ints = parse_numbers(o, values, &attribute->ints);
}

void onnx_set_tensor(onnx *o, Onnx__NodeProto *node, const char *name, Onnx__TensorProto *value) {
    onnx_attribute(o, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR)->t = value;
}

void onnx_set_graph(onnx *o, Onnx__NodeProto *node, const char *name, Onnx__GraphProto *value) {
    onnx_attribute(o, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH)->g = value;
}

/* ---- functions ----------------------------------------------------------------------------------------- */

Onnx__FunctionProto *onnx_function(onnx *o, const char *domain, const char *name, const char *inputs,
                                   const char *outputs, int64_t opset) {
    Onnx__FunctionProto *function = onnx_take(o, sizeof *function);
    onnx__function_proto__init(function);
    function->domain = onnx_text(o, domain);
    function->name = onnx_text(o, name);
    add_names(o, &function->n_input, &function->input, inputs);
    add_names(o, &function->n_output, &function->output, outputs);
    ONNX_ADD(o, function->n_opset_import, function->opset_import, opset_new(o, "", opset));
    ONNX_ADD(o, o->model->n_functions, o->model->functions, function);
    return function;
}

Onnx__NodeProto *onnx_function_node(onnx *o, Onnx__FunctionProto *function, const char *op,
                                    const char *inputs, const char *outputs) {
    Onnx__NodeProto *node = node_new(o, op, "", inputs, outputs);
    ONNX_ADD(o, function->n_node, function->node, node);
    return node;
}
