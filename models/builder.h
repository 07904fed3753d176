/* SPDX-License-Identifier: Apache-2.0 */
/* builder.h: writing ONNX models through protobuf-c.
 *
 *     model *m = model_new("tiny", 17);
 *     const char *x = graph_input(m->graph, "x", MODEL_FLOAT, 2, (int64_t[]){1, 4});
 *     const char *y = node(m->graph, "Relu", "relu", 1, (const char *[]){x});
 *     graph_output(m->graph, y, MODEL_FLOAT, 2, (int64_t[]){1, 4});
 *     int status = model_write(m, "tiny.onnx");
 *     model_free(m);
 *
 * Weights are random numbers of a generator that is seeded by the weight's name, so the files are the same on
 * every machine. Running out of memory ends the program with a message: it is a tool, not a library.
 */
#ifndef MODELS_BUILDER_H
#define MODELS_BUILDER_H

#include "onnx.pb-c.h"
#include <stddef.h>
#include <stdint.h>

enum { MODEL_FLOAT = 1, MODEL_INT64 = 7, MODEL_BOOL = 9 }; /* ONNX's TensorProto.DataType */

typedef struct model model;

/* A graph that is being built: main, or the body or branch of a node. */
typedef struct graph {
    model *owner;
    Onnx__GraphProto proto;
} graph;

struct model {
    Onnx__ModelProto proto;
    Onnx__OperatorSetIdProto opset, *opsets[1];
    graph *graph;
    struct block *blocks; /* everything that model_free gives back */
    unsigned names;       /* made up so far */
    const char *symbol;   /* what the dimension -1 is called in interface values from now on; NULL: "N" */
};

model *model_new(const char *name, int opset);
void model_free(model *m);
/* Writes the file whole or not at all; 0, or 1 with a message on stderr. */
int model_write(const model *m, const char *path);

/* A graph for a sub-graph attribute. */
graph *graph_new(model *m, const char *name);
/* Declare interface values; rank 0 is a scalar, a negative one is not known. The dimension -1 is the symbol "N", one below has no
 * name. Returns the name. */
const char *graph_input(graph *g, const char *name, int dtype, int rank, const int64_t *dims);
void graph_output(graph *g, const char *name, int dtype, int rank, const int64_t *dims);

/* Initializers. `weight` draws uniformly from [-1, 1) times sqrt(3 / fan_in). Values may be NULL
 * where there are none. */
const char *weight(graph *g, const char *name, int rank, const int64_t *dims, int64_t fan_in);
const char *floats(graph *g, const char *name, int rank, const int64_t *dims, const float *values);
const char *integers(graph *g, const char *name, int rank, const int64_t *dims, const int64_t *values);
const char *boolean(graph *g, const char *name, int value);

/* A node with one output, whose name is returned. Attributes are added to the graph's last node. */
const char *node(graph *g, const char *op, const char *name, int input_count, const char *const *inputs);
/* The same with outputs named by the caller. */
void node_outputs(graph *g, const char *op, const char *name, int input_count, const char *const *inputs,
                  int output_count, const char *const *outputs);
void attribute_integer(graph *g, const char *name, int64_t value);
void attribute_integers(graph *g, const char *name, int count, const int64_t *values);
void attribute_graph(graph *g, const char *name, const graph *value);

/* Shorthands for nodes of one and two inputs. */
const char *unary(graph *g, const char *op, const char *x);
const char *binary(graph *g, const char *op, const char *x, const char *y);

#endif
