/* SPDX-License-Identifier: Apache-2.0 */
/* builder.c: see builder.h. */
#include "models/builder.h"
#include "ir/base/base.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory: freed with the model ---------------------------------------------------------------------- */

struct block {
    struct block *next;
    max_align_t data[];
};

static void *take(model *m, size_t bytes) {
    struct block *block = calloc(1, sizeof *block + bytes);
    if (!block) {
        fprintf(stderr, "ouro-models: out of memory\n");
        exit(3);
    }
    block->next = m->blocks;
    m->blocks = block;
    return block->data;
}

static char *text(model *m, const char *from) {
    size_t length = strlen(from);
    return memcpy(take(m, length + 1), from, length);
}

/* Appends to one of protobuf-c's arrays of pointers; copies when a power of two is reached. */
static void append(model *m, size_t *count, void *array, void *item) {
    void **items = *(void ***)array;
    if ((*count & (*count - 1)) == 0) {
        void **grown = take(m, (*count ? 2 * *count : 1) * sizeof *grown);
        if (*count) memcpy(grown, items, *count * sizeof *grown);
        *(void ***)array = items = grown;
    }
    items[(*count)++] = item;
}

/* ---- models and graphs --------------------------------------------------------------------------------- */

graph *graph_new(model *m, const char *name) {
    graph *g = take(m, sizeof *g);
    g->owner = m;
    onnx__graph_proto__init(&g->proto);
    g->proto.name = text(m, name);
    return g;
}

model *model_new(const char *name, int opset) {
    model *m = calloc(1, sizeof *m);
    if (!m) {
        fprintf(stderr, "ouro-models: out of memory\n");
        exit(3);
    }
    onnx__model_proto__init(&m->proto);
    onnx__operator_set_id_proto__init(&m->opset);
    m->opset.has_version = 1;
    m->opset.version = opset;
    m->opsets[0] = &m->opset;
    m->graph = graph_new(m, name);
    m->proto.has_ir_version = 1;
    m->proto.ir_version = 8;
    m->proto.producer_name = text(m, "ouro-models");
    m->proto.n_opset_import = 1;
    m->proto.opset_import = m->opsets;
    m->proto.graph = &m->graph->proto;
    return m;
}

void model_free(model *m) {
    for (struct block *block = m->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    free(m);
}

int model_write(const model *m, const char *path) {
    size_t size = onnx__model_proto__get_packed_size(&m->proto);
    uint8_t *bytes = malloc(size ? size : 1);
    size_t length = strlen(path) + sizeof ".partial";
    char *partial = malloc(length);
    int status = 1;
    if (bytes && partial) {
        onnx__model_proto__pack(&m->proto, bytes);
        snprintf(partial, length, "%s.partial", path);
        FILE *file = fopen(partial, "wb");
        if (file) {
            int written = fwrite(bytes, 1, size, file) == size;
            written &= fclose(file) == 0;
            status = written && rename(partial, path) == 0 ? 0 : 1;
            if (status) remove(partial);
        }
    }
    if (status) perror(path);
    free(partial);
    free(bytes);
    return status;
}

static Onnx__ValueInfoProto *interface_new(model *m, const char *name, int dtype, int rank,
                                           const int64_t *dims) {
    Onnx__ValueInfoProto *info = take(m, sizeof *info);
    Onnx__TypeProto *type = take(m, sizeof *type);
    Onnx__TypeProto__Tensor *tensor = take(m, sizeof *tensor);
    Onnx__TensorShapeProto *shape = take(m, sizeof *shape);
    onnx__value_info_proto__init(info);
    onnx__type_proto__init(type);
    onnx__type_proto__tensor__init(tensor);
    onnx__tensor_shape_proto__init(shape);
    for (int i = 0; i < rank; i++) {
        Onnx__TensorShapeProto__Dimension *dim = take(m, sizeof *dim);
        onnx__tensor_shape_proto__dimension__init(dim);
        if (dims[i] < -1) {
            dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE__NOT_SET;
        } else if (dims[i] < 0) {
            dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
            dim->dim_param = text(m, m->symbol ? m->symbol : "N");
        } else {
            dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
            dim->dim_value = dims[i];
        }
        append(m, &shape->n_dim, &shape->dim, dim);
    }
    tensor->has_elem_type = 1;
    tensor->elem_type = dtype;
    tensor->shape = rank < 0 ? NULL : shape;
    type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    type->tensor_type = tensor;
    info->name = text(m, name);
    info->type = type;
    return info;
}

const char *graph_input(graph *g, const char *name, int dtype, int rank, const int64_t *dims) {
    Onnx__ValueInfoProto *info = interface_new(g->owner, name, dtype, rank, dims);
    append(g->owner, &g->proto.n_input, &g->proto.input, info);
    return info->name;
}

void graph_output(graph *g, const char *name, int dtype, int rank, const int64_t *dims) {
    append(g->owner, &g->proto.n_output, &g->proto.output, interface_new(g->owner, name, dtype, rank, dims));
}

/* ---- initializers -------------------------------------------------------------------------------------- */

static Onnx__TensorProto *initializer(graph *g, const char *name, int dtype, int rank, const int64_t *dims,
                                      size_t element, size_t *count) {
    model *m = g->owner;
    Onnx__TensorProto *tensor = take(m, sizeof *tensor);
    onnx__tensor_proto__init(tensor);
    tensor->name = text(m, name);
    tensor->has_data_type = 1;
    tensor->data_type = dtype;
    tensor->n_dims = (size_t)rank;
    tensor->dims = take(m, (size_t)rank * sizeof *tensor->dims);
    *count = 1;
    for (int i = 0; i < rank; i++) {
        tensor->dims[i] = dims[i];
        *count *= (size_t)dims[i];
    }
    tensor->has_raw_data = 1;
    tensor->raw_data.len = *count * element;
    tensor->raw_data.data = take(m, tensor->raw_data.len);
    append(m, &g->proto.n_initializer, &g->proto.initializer, tensor);
    return tensor;
}

const char *weight(graph *g, const char *name, int rank, const int64_t *dims, int64_t fan_in) {
    size_t count;
    Onnx__TensorProto *tensor = initializer(g, name, MODEL_FLOAT, rank, dims, sizeof(float), &count);
    uint64_t state = 0xCBF29CE484222325u; /* FNV-1a of the name */
    for (const char *c = name; *c; c++) state = (state ^ (unsigned char)*c) * 0x100000001B3u;
    float scale = sqrtf(3.0f / (float)(fan_in > 0 ? fan_in : 1));
    float *values = (float *)(void *)tensor->raw_data.data;
    for (size_t i = 0; i < count; i++) {
        values[i] = ((float)(base_random(&state) >> 40) / 8388608.0f - 1.0f) * scale;
    }
    return tensor->name;
}

const char *floats(graph *g, const char *name, int rank, const int64_t *dims, const float *values) {
    size_t count;
    Onnx__TensorProto *tensor = initializer(g, name, MODEL_FLOAT, rank, dims, sizeof(float), &count);
    if (count) memcpy(tensor->raw_data.data, values, count * sizeof(float));
    return tensor->name;
}

const char *integers(graph *g, const char *name, int rank, const int64_t *dims, const int64_t *values) {
    size_t count;
    Onnx__TensorProto *tensor = initializer(g, name, MODEL_INT64, rank, dims, sizeof(int64_t), &count);
    if (count) memcpy(tensor->raw_data.data, values, count * sizeof(int64_t));
    return tensor->name;
}

const char *boolean(graph *g, const char *name, int value) {
    size_t count;
    Onnx__TensorProto *tensor = initializer(g, name, MODEL_BOOL, 0, NULL, 1, &count);
    tensor->raw_data.data[0] = value != 0;
    return tensor->name;
}

/* ---- nodes --------------------------------------------------------------------------------------------- */

void node_outputs(graph *g, const char *op, const char *name, int input_count, const char *const *inputs,
                  int output_count, const char *const *outputs) {
    model *m = g->owner;
    Onnx__NodeProto *made = take(m, sizeof *made);
    onnx__node_proto__init(made);
    made->op_type = text(m, op);
    made->name = text(m, name);
    for (int i = 0; i < input_count; i++) append(m, &made->n_input, &made->input, text(m, inputs[i]));
    for (int i = 0; i < output_count; i++) append(m, &made->n_output, &made->output, text(m, outputs[i]));
    append(m, &g->proto.n_node, &g->proto.node, made);
}

const char *node(graph *g, const char *op, const char *name, int input_count, const char *const *inputs) {
    char output[64];
    snprintf(output, sizeof output, "t%u", ++g->owner->names);
    const char *kept = text(g->owner, output);
    node_outputs(g, op, name, input_count, inputs, 1, &kept);
    return kept;
}

static Onnx__AttributeProto *attribute(graph *g, const char *name, Onnx__AttributeProto__AttributeType type) {
    Onnx__NodeProto *last = g->proto.node[g->proto.n_node - 1];
    Onnx__AttributeProto *made = take(g->owner, sizeof *made);
    onnx__attribute_proto__init(made);
    made->name = text(g->owner, name);
    made->has_type = 1;
    made->type = type;
    append(g->owner, &last->n_attribute, &last->attribute, made);
    return made;
}

void attribute_integer(graph *g, const char *name, int64_t value) {
    Onnx__AttributeProto *made = attribute(g, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
    made->has_i = 1;
    made->i = value;
}

void attribute_integers(graph *g, const char *name, int count, const int64_t *values) {
    Onnx__AttributeProto *made = attribute(g, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
    made->n_ints = (size_t)count;
    made->ints = take(g->owner, (size_t)count * sizeof *values);
    memcpy(made->ints, values, (size_t)count * sizeof *values);
}

void attribute_graph(graph *g, const char *name, const graph *value) {
    Onnx__AttributeProto *made = attribute(g, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH);
    made->g = (Onnx__GraphProto *)&value->proto;
}

const char *unary(graph *g, const char *op, const char *x) {
    return node(g, op, "", 1, &x);
}

const char *binary(graph *g, const char *op, const char *x, const char *y) {
    return node(g, op, "", 2, (const char *[]){x, y});
}
