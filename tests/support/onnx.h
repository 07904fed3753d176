/* SPDX-License-Identifier: Apache-2.0 */
/* onnx.h: small ONNX models made in memory, for tests.
 *
 *     onnx *o = onnx_new(17);
 *     onnx_input(o, o->graph, "x", 1, "N,3");
 *     onnx_node(o, o->graph, "Relu", "relu", "x", "y");
 *     onnx_output(o, o->graph, "y");
 *     onnx_write(o, path);
 *     onnx_free(o);
 *
 * Everything belongs to the onnx; lists of names are text with commas ("a,,c": the second is absent). The
 * messages are protobuf-c's own, so that a test can spoil them in any way before they are written. Running
 * out of memory fails the test.
 */
#ifndef OURO_TEST_SUPPORT_ONNX_H
#define OURO_TEST_SUPPORT_ONNX_H

#include "compiler/onnx/base/dim.h"
#include "ir/base/base.h"
#include "onnx.pb-c.h"

typedef struct onnx {
    base_arena arena;
    Onnx__ModelProto *model;
    Onnx__GraphProto *graph; /* the main one */
} onnx;

/* A model of IR version 8 with one opset of the default domain (0: none). */
onnx *onnx_new(int64_t opset);
void onnx_free(onnx *o);
/* Another domain. */
void onnx_opset(onnx *o, const char *domain, int64_t version);
/* The bytes of the model, in its arena. */
uint8_t *onnx_pack(onnx *o, size_t *size);
void onnx_write(onnx *o, const char *path);
void onnx_write_bytes(const char *path, const void *bytes, size_t size);

/* The import of a model file, with these dimensions, while an allocation fails: each in turn, alone and with all after it (a sample, see
 * support_allocation_step). It says so, and nothing is leaked. How many there are; 0: it is refused as it is. */
size_t onnx_import_without_memory(const char *path, const import_dim *dims, size_t dim_count);

Onnx__GraphProto *onnx_graph(onnx *o, const char *name);
/* `shape`: "2,N,?" (numbers, symbols, unknown), "" for a scalar, NULL for no shape. dtype 0: no type at all.
 */
void onnx_input(onnx *o, Onnx__GraphProto *graph, const char *name, int dtype, const char *shape);
void onnx_output(onnx *o, Onnx__GraphProto *graph, const char *name);

/* A tensor without data; `shape` has numbers only. */
Onnx__TensorProto *onnx_tensor(onnx *o, const char *name, int dtype, const char *shape);
void onnx_raw(onnx *o, Onnx__TensorProto *tensor, const void *bytes, size_t size);
void onnx_initializer(onnx *o, Onnx__GraphProto *graph, Onnx__TensorProto *tensor);
/* Initializers of rank 1, or 0 where count is -1. */
void onnx_integers(onnx *o, Onnx__GraphProto *graph, const char *name, int count, const int64_t *values);
void onnx_floats(onnx *o, Onnx__GraphProto *graph, const char *name, int count, const float *values);
/* Data outside of the file; NULL: the entry is left out. */
void onnx_external(onnx *o, Onnx__TensorProto *tensor, const char *location, const char *offset,
                   const char *length);

Onnx__NodeProto *onnx_node(onnx *o, Onnx__GraphProto *graph, const char *op, const char *name,
                           const char *inputs, const char *outputs);
Onnx__AttributeProto *onnx_attribute(onnx *o, Onnx__NodeProto *node, const char *name, int type);
void onnx_set_integer(onnx *o, Onnx__NodeProto *node, const char *name, int64_t value);
void onnx_set_real(onnx *o, Onnx__NodeProto *node, const char *name, float value);
void onnx_set_text(onnx *o, Onnx__NodeProto *node, const char *name, const char *value);
void onnx_set_integers(onnx *o, Onnx__NodeProto *node, const char *name, const char *values); /* "1,2" */
void onnx_set_tensor(onnx *o, Onnx__NodeProto *node, const char *name, Onnx__TensorProto *value);
void onnx_set_graph(onnx *o, Onnx__NodeProto *node, const char *name, Onnx__GraphProto *value);

/* A model-local function, to which onnx_function_node adds nodes. */
Onnx__FunctionProto *onnx_function(onnx *o, const char *domain, const char *name, const char *inputs,
                                   const char *outputs, int64_t opset);
Onnx__NodeProto *onnx_function_node(onnx *o, Onnx__FunctionProto *function, const char *op,
                                    const char *inputs, const char *outputs);

/* Memory of the model, zeroed. */
void *onnx_take(onnx *o, size_t bytes);
char *onnx_text(onnx *o, const char *text);
/* Appends to one of protobuf-c's arrays of pointers: ONNX_ADD(o, graph->n_node, graph->node, node). */
#define ONNX_ADD(o, count, array, item)                                                                      \
    do {                                                                                                     \
        void **grown_ = onnx_take(o, ((count) + 1) * sizeof(void *));                                        \
        if (count) memcpy(grown_, array, (count) * sizeof(void *));                                          \
        grown_[(count)++] = item;                                                                            \
        array = (void *)grown_;                                                                              \
    } while (0)

#endif
