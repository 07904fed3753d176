/* SPDX-License-Identifier: Apache-2.0 */
/* ir.h: the intermediate representation: a module of graphs in SSA form. docs/IR.md shows it as text.
 *
 * Words:
 *   value    defined once: by a node, as a parameter of a graph, or as a constant of the module
 *   node     one application of an operator. Its place in its graph's list is its place in the schedule.
 *   graph    parameters, nodes, results. It is the main graph, or a node owns it: a loop its body, an If its branches.
 *   capture  a use, inside a graph, of a value from an enclosing graph. It is allowed, and listed nowhere: ir_node_captures.
 *   use      one input of a node, or one result of a graph
 *   origin   where a node comes from in the model, for messages: graph path and ONNX node name
 *
 * If. Input 0 is the condition (bool, one element). graphs[0] is the branch taken when it holds, graphs[1] the other one. Neither
 * has parameters. Result i of the branch that runs becomes output i.
 *
 * Loop. N values are carried, S tensors scanned, K stacked. S and K are the attributes ouro.scan_inputs and ouro.scan_outputs
 * (absent: 0, and the number of outputs - N).
 *
 *   inputs           trip count (int64 scalar, may be absent), condition (bool scalar, may be absent: true),
 *                    N initial values, S tensors to scan
 *   outputs          N carried values after the last iteration, K stacked tensors
 *   body parameters  number of the iteration (int64 scalar), condition (bool scalar), N carried values, S slices
 *   body results     condition, N replacements (parameter 2 + i <= result 1 + i), K slices to stack
 *
 * Before each iteration the condition is tested: the loop runs while trips are left and the condition holds. ONNX's Scan and the
 * recurrent operators become this node. The attribute ouro.scan_output_shapes (shape_list.h, a shape for each stack) says which
 * shapes the model declares for slices: a stack without a slice has them where nothing else is known.
 *
 * Ownership: everything lives in the module's arena, except the data of large constants (ir_constant).
 * Threads: a module belongs to one thread at a time.
 */
#ifndef OURO_IR_H
#define OURO_IR_H

#include "ir/operators/op.h"
#include <stdio.h>

typedef struct ir_module ir_module;
typedef struct ir_graph ir_graph;
typedef struct ir_node ir_node;
typedef struct ir_value ir_value;
typedef struct ir_use ir_use;
typedef struct ir_constant ir_constant;

/* Numbers within a module, dense from 1, for side tables; zero means none. Never reused. */
typedef struct ir_value_id {
    uint32_t index;
} ir_value_id;
typedef struct ir_node_id {
    uint32_t index;
} ir_node_id;
typedef struct ir_graph_id {
    uint32_t index;
} ir_graph_id;

/* One input slot of a node (node set), or one result slot of a graph (node NULL). */
struct ir_use {
    ir_value *value; /* NULL: an absent optional input */
    ir_node *node;
    ir_graph *graph; /* of the node, or whose result it is */
    uint32_t index;
    ir_use *previous, *next; /* among the uses of the value */
};

/* The data of a constant. `release` (may be NULL) is called with `owner` when the constant goes, at the
 * latest with the module. */
struct ir_constant {
    op_tensor tensor;
    void (*release)(void *owner);
    void *owner;
};

typedef enum ir_value_kind { IR_PARAMETER, IR_RESULT_OF_NODE, IR_CONSTANT } ir_value_kind;

struct ir_value {
    ir_value_id id;
    ir_value_kind kind;
    const char *name; /* unique in the module, never empty; the ONNX name where it has one */
    op_type type;
    ir_graph *graph;         /* where it is defined; NULL for constants */
    ir_node *node;           /* IR_RESULT_OF_NODE */
    uint32_t index;          /* which output of node, or which parameter of graph */
    ir_constant *constant;   /* IR_CONSTANT */
    ir_use *uses;            /* first of the list */
    const int64_t *symbolic; /* known integer values, see op_tensor.symbolic; set by shape inference */
    bool is_sample;          /* of a parameter of main: one sample of the batch (ir_module.batch) */
};

struct ir_node {
    ir_node_id id;
    op_code code;
    const char *name; /* ONNX node name; may be "" */
    const char *path; /* graph path in the model, such as "main/Loop_3/body" */
    op_attributes attributes;
    uint32_t input_count, output_count, graph_count;
    ir_use **inputs;    /* never NULL; ->value may be */
    ir_value **outputs; /* NULL: an optional output that is not wanted */
    ir_graph **graphs;
    ir_graph *graph; /* where it stands */
    ir_node *previous, *next;
    const char *kernel;   /* the name of the kernel that will run it; NULL until select-kernels */
    size_t scratch_bytes; /* what that kernel needs beside its tensors */
    const char *reason;   /* why a pass made it, for reports; NULL: it stands for something in the model */
};

struct ir_graph {
    ir_graph_id id;
    const char *name;
    ir_module *module;
    ir_node *owner; /* NULL: the main graph */
    uint32_t parameter_count, result_count;
    ir_value **parameters;
    ir_use **results;          /* ->value never NULL once the graph is complete */
    const char **result_names; /* what the model calls them; read through ir_graph_result_name */
    size_t result_name_capacity;
    ir_node *first, *last; /* the schedule */
    uint32_t node_count;
};

typedef struct ir_symbol {
    const char *name; /* "batch", or NULL for a computed one */
    char operation;   /* of a computed one: see op_call.dim_compute */
    int64_t a, b;
    int64_t bound; /* the most that it may be; 0: anything */
    bool unnamed;  /* the model has no name for it: this one is for dumps and messages */
} ir_symbol;

/* What is kept from run to run (ir/loop.h). */
typedef struct ir_state {
    int32_t axis;  /* along which it grows, of the model's tensor; -1: it does not */
    bool turned;   /* it is carried with that axis first: main's parameter and result have it so */
    int64_t bound; /* the most positions along the axis; 0: any number */
} ir_state;

struct ir_module {
    base_watched_allocator
        memory; /* what `arena` takes from; where it failed, the module may be another one than it should be */
    base_arena arena;
    const char *name;    /* of the model file, for messages */
    const char *warning; /* what a user should know of how it was read; NULL: nothing */
    ir_graph *main;
    /* The loop around the model, where it has states (ir/loop.h); NULL: it has none. */
    ir_node *run;
    ir_state *states;  /* by index */
    ir_value **values; /* by id.index; [0] is NULL; removed ones are NULL */
    ir_node **nodes;
    ir_graph **graphs;
    size_t value_count, node_count, graph_count; /* one more than the largest id */
    size_t value_capacity, node_capacity, graph_capacity;
    ir_symbol *symbols; /* symbol k (dimension -k) is symbols[k]; [0] is unused */
    size_t symbol_count, symbol_capacity;
    /* Not 0: main computes one sample, and a run repeats it for each along this symbolic dimension. It is the first one of those of the
     * model's inputs whose parameters are samples, and of all outputs, where main has 1. There are no states then. */
    int64_t batch;
    base_map names;        /* value names in use */
    base_map name_numbers; /* the last number that was appended to a name to make it unique */
    base_map symbol_names, symbol_expressions; /* the number of each symbol */
};

/* How deep graphs may nest: import and ir_parse refuse more, so that walks may recurse. */
enum { IR_MAX_DEPTH = 100 };

/* ---- construction (ir/module.c); every function that makes something returns NULL or false when memory runs out
 * --- */

ir_module *ir_module_new(const base_allocator *allocator, const char *name);
/* A module like `module`, with numbers of its own, to try something on (ir/clone.c). Data of constants, attributes and what is
 * known of values stay with `module`, which must live longer. NULL when memory runs out. */
ir_module *ir_module_clone(const ir_module *module);
void ir_module_free(ir_module *module); /* releases constants and the arena; NULL is allowed */

/* The first graph made becomes main. `owner` may be set later through ir_node_add_graph. */
ir_graph *ir_graph_new(ir_module *module, const char *name);
ir_value *ir_graph_add_parameter(ir_graph *graph, const char *name, const op_type *type);
bool ir_graph_add_result(ir_graph *graph, ir_value *value);
/* What the outside calls a result (an output of the model), where that is not the name of its value; the name
 * is copied. Values come and go in passes, the interface keeps its names. */
bool ir_graph_set_result_name(ir_graph *graph, uint32_t index, const char *name);
/* That name; without one, the name of the value. */
const char *ir_graph_result_name(const ir_graph *graph, uint32_t index);

/* A constant; the module takes `release`/`owner` over, also on failure. The name is made unique. */
ir_value *ir_constant_new(ir_module *module, const char *name, const op_tensor *tensor,
                          void (*release)(void *owner), void *owner);
/* A constant whose data is copied (small) into memory of the module. */
ir_value *ir_constant_copy(ir_module *module, const char *name, const op_type *type, const void *data,
                           size_t bytes);
/* The constant's data now lies at `data`, where the caller has copied it, and which lives for as long as it is read; what held it is
 * released. */
void ir_constant_move(ir_constant *constant, void *data);
/* Memory for a constant's data on the module's allocator: fill *data. Released with the constant. */
ir_value *ir_constant_reserve(ir_module *module, const char *name, const op_type *type, size_t bytes,
                              void **data);

/* A node at the end of `graph`, or before `before` where that is not NULL. `inputs` may hold NULLs.
 * Attributes are kept by pointer (they must live in the module's arena; see ir_attributes_copy). Outputs are
 * added after. */
ir_node *ir_node_new(ir_graph *graph, ir_node *before, op_code code, const char *name, const char *path,
                     op_attributes attributes, uint32_t input_count, ir_value *const *inputs);
/* Adds output slot number node->output_count. A NULL or empty name makes one up; a used one is made unique.
 * `type` may be NULL: nothing known. */
ir_value *ir_node_add_output(ir_node *node, const char *name, const op_type *type);
bool ir_node_add_absent_output(ir_node *node);
bool ir_node_add_graph(ir_node *node, ir_graph *graph);
bool ir_attributes_copy(ir_module *module, const op_attributes *from, op_attributes *to);
/* A copy of attributes with one integer / text / float / integers attribute set (replaced or added). */
bool ir_attribute_set(ir_module *module, op_attributes *attributes, const op_attribute *attribute);
/* A copy without the attribute of this name, where there is one. */
bool ir_attribute_remove(ir_module *module, op_attributes *attributes, const char *name);
/* The symbol with this name, made where it is new; a dimension (negative), or OP_DIM_UNKNOWN on failure. */
int64_t ir_symbol_named(ir_module *module, const char *name);
/* op_call.dim_compute for a module (user is the module). Simplifies: numbers are gathered, (x * a) / a is x;
 * extents that are divided by are taken to be non-zero. */
int64_t ir_symbol_compute(void *module, char operation, int64_t a, int64_t b);

/* ---- change (ir/module.c) ------------------------------------------------------------------------------------- */

ir_value *ir_input(const ir_node *node, uint32_t index); /* NULL: absent or out of range */
bool ir_node_set_input(ir_node *node, uint32_t index,
                       ir_value *value);                  /* grows the list with absent inputs */
void ir_node_remove_input(ir_node *node, uint32_t index); /* the later ones move up */
void ir_graph_set_result(ir_graph *graph, uint32_t index, ir_value *value);
void ir_value_replace(ir_value *from, ir_value *to); /* in all uses */
/* Removes a node whose outputs have no uses, with the graphs that it owns. */
void ir_node_remove(ir_node *node);
/* An output without uses becomes absent. */
void ir_node_drop_output(ir_node *node, uint32_t index);
/* An absent output becomes present. NULL when memory runs out. */
ir_value *ir_node_give_output(ir_node *node, uint32_t index, const char *name, const op_type *type);
/* These remove what has no uses; the later ones move up. Inputs, parameters, results and outputs of a control node go together. */
void ir_node_remove_output(ir_node *node, uint32_t index);
void ir_graph_remove_parameter(ir_graph *graph, uint32_t index);
void ir_graph_remove_result(ir_graph *graph, uint32_t index);
/* Removes a constant without uses and releases its data. */
void ir_constant_remove(ir_module *module, ir_value *value);
/* Takes a node, with what it owns, out of its graph and puts it into another (of the same module), before
 * `before`, a node of that graph, or (NULL) at its end. */
void ir_node_relocate(ir_node *node, ir_graph *graph, ir_node *before);
void ir_node_move(ir_node *node, ir_node *before); /* before NULL: to the end; within its graph */

/* ---- questions (ir/module.c) ---------------------------------------------------------------------------------- */

uint32_t ir_value_use_count(const ir_value *value);
/* graph is `inner` itself or encloses it. */
bool ir_graph_encloses(const ir_graph *graph, const ir_graph *inner);
/* The values that the sub-graphs of node use from outside of node, each once, constants left out, in order of
 * first use; in `arena`. False when memory runs out. */
bool ir_node_captures(const ir_node *node, base_arena *arena, ir_value ***values, size_t *count);
/* "MODEL: PATH: node \"NAME\" (Op)" becomes the context of report's next messages; a node without a name is
 * called by what it makes: node of "VALUE". */
void ir_node_context(const ir_node *node, base_report *report);
/* An input or output of the node is a sequence or an optional, or its operator is one of theirs: the executor does it,
 * without a kernel. */
bool ir_node_has_lists(const ir_node *node);

/* Describes the application: fills call (inputs and outputs in arrays from `arena`, types and constant data
 * set, dim_compute set to the module's). False when memory runs out. */
bool ir_node_call(const ir_node *node, base_arena *arena, op_call *call);

/* ---- text (ir/print.c, ir/parse.c); docs/IR.md describes the form -------------------------------------- */

/* Prints the module so that ir_parse makes an equal one. Constants up to 16 elements print their values;
 * larger ones print a hash, and parse back as that many zero bytes unless `data` is set, which prints all. */
typedef struct ir_print_options {
    bool data;
} ir_print_options;
bool ir_print(const ir_module *module, const ir_print_options *options, FILE *file); /* false: write failed */
base_status ir_parse(const char *text, size_t length, const char *name, const base_allocator *allocator,
                     ir_module **module, base_report *report);

/* ---- verifier (ir/verify.c) ---------------------------------------------------------------------------- */

/* Checks: definitions dominate uses (through captures), lists and use lists agree, arity and attributes fit
 * the operator's row, types of control nodes fit their graphs, names are unique. Slow and obvious; reports
 * what is broken as BASE_INVALID, with `when` ("after fuse") in the message. */
base_status ir_verify(const ir_module *module, const char *when, base_report *report);

#endif
