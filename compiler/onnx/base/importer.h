/* SPDX-License-Identifier: Apache-2.0 */
/* importer.h: what the files of the importer share. Nobody else includes it, so that nobody else sees protobuf.
 *
 *   wire.c    files and bytes: reading, checking the wire format before protobuf-c sees it, unpacking
 *   tensor.c  TensorProto and SparseTensorProto, external data
 *   names.c   what names mean: domains, opsets, functions, values; how messages call nodes
 *   type.c    types of values, symbolic dimensions
 *   node.c    what converters are written with
 *
 * On these stand the converters (compiler/onnx/convert/), and on those models and graphs (compiler/onnx/).
 */
#ifndef OURO_IMPORTER_H
#define OURO_IMPORTER_H

#include "compiler/onnx/base/dim.h"
#include "ir/ir.h"
#include "onnx.pb-c.h"

/* Limits that no honest model meets, so that hostile ones end in a message. */
enum {
    IMPORT_MESSAGE_DEPTH = 400,     /* messages within messages: about 130 graphs */
    IMPORT_MESSAGE_COUNT = 1 << 22, /* messages in a file */
    IMPORT_NESTING = IR_MAX_DEPTH,  /* graphs and function calls within each other */
    IMPORT_WEIGHT = 1 << 22,        /* nodes after functions are inlined; long names count more */
    IMPORT_ATTRIBUTES = 1000,       /* of a node */
    IMPORT_OPSETS = 1000,           /* of a model or function */
    IMPORT_SYMBOLS = 10000,         /* symbolic dimensions */
    IMPORT_LABEL = 64               /* bytes of a node's name that go into paths */
};

/* Names come from files and may be of any length: messages show their beginning. */
#define IMPORT_NAME "\"%.120s\""

/* ---- memory (wire.c) ---------------------------------------------------------------------------- */

typedef struct import_block import_block;

/* Blocks that are freed together, or leave one by one: what protobuf-c unpacks into, and what tensors are
 * decoded into. A weight's bytes leave for the constant that they become, the rest is freed at the end of the
 * import. */
typedef struct import_blocks {
    const base_allocator *allocator;
    import_block *first;
    bool exhausted; /* an allocation failed */
} import_blocks;

void import_blocks_init(import_blocks *blocks, const base_allocator *allocator);
void import_blocks_free(import_blocks *blocks);
/* `bytes` bytes, not zeroed; aligned to 64 where 64 or more. NULL when memory runs out. */
void *import_block_new(import_blocks *blocks, size_t bytes);
/* Takes a block out of its list; import_block_release gives it back later (as ir_constant.release). */
void import_block_detach(import_blocks *blocks, void *data);
void import_block_release(void *data);

/* ---- files (wire.c); messages begin with the context that the caller has set -------------------- */

/* Reads a whole file into a block. Regular files of less than 2 GB only: protobuf knows no larger ones. */
base_status import_file_read(const char *path, import_blocks *blocks, uint8_t **data, size_t *size,
                             base_report *report);
/* Checks the wire format (lengths, nesting, number of messages), then unpacks into `blocks`. */
base_status import_unpack(const ProtobufCMessageDescriptor *descriptor, const uint8_t *data, size_t size,
                          import_blocks *blocks, ProtobufCMessage **message, base_report *report);
/* The folder of a file, "." where the path has none; in `arena`, NULL when memory runs out. */
const char *import_folder(const char *path, base_arena *arena);

/* ---- tensors (tensor.c) ------------------------------------------------------------------------- */

/* Decodes a tensor. `folder` is where external data may lie. The data is a block of `blocks` (also where
 * there are no elements), taken from the message itself where its bytes can be used as they are, unless
 * `keep` says that the message is needed again. */
base_status import_tensor(Onnx__TensorProto *proto, const char *folder, bool keep, import_blocks *blocks,
                          op_tensor *tensor, base_report *report);
/* The same for a sparse tensor, made dense. */
base_status import_sparse_tensor(Onnx__SparseTensorProto *proto, const char *folder, bool keep,
                                 import_blocks *blocks, op_tensor *tensor, base_report *report);
/* A dtype of ONNX by its number; OP_NONE for one that is not known. */
op_dtype import_dtype(int64_t number);

/* ---- the importer -------------------------------------------------------------------------------------- */

typedef struct import_opsets {
    size_t count;
    Onnx__OperatorSetIdProto **items;
} import_opsets;

/* A model-local function, with what import_check finds out about it. */
typedef struct import_function {
    const Onnx__FunctionProto *proto;
    enum { IMPORT_UNSEEN, IMPORT_OPEN, IMPORT_DONE } state;
    uint64_t weight; /* of its nodes with those of the functions that they call */
    unsigned height; /* graphs and calls within each other */
} import_function;

typedef struct import_graphs import_graphs;

typedef struct import_state {
    const char *path, *folder;
    base_report *report;
    const base_allocator *allocator;
    base_arena arena;   /* lives as long as the import */
    base_arena scratch; /* of one inference */
    import_blocks blocks;
    Onnx__ModelProto *model;
    import_opsets opsets;
    base_map functions; /* "domain\nname" to import_function */
    base_map symbols;   /* names of symbolic dimensions to import_symbol */
    base_map shared;    /* constants of functions, by the address of their message */
    const import_dim *dims;
    size_t dim_count;
    bool *dim_used;
    const char *const *kept; /* inputs that stay inputs although they have a default value */
    size_t kept_count;
    base_map overridden; /* the initializers that are the defaults of these */
    const import_graphs *graphs;
    ir_module *module;
    base_report refused; /* what is wrong with the first node whose types do not fit: others may fail for want of them */
    /* Graphs that are being read with ranks that are guessed, and may be read again; and how often that was so. */
    unsigned guesses, wrong_guesses;
    int64_t newer; /* the opset of the model, where it is newer than the newest known; else 0 */
} import_state;

/* What a function call binds: its attributes, and the opsets of its body. */
typedef struct import_frame {
    const import_opsets *opsets;
    const Onnx__FunctionProto *function; /* NULL: the model's graph and its sub-graphs */
    size_t attribute_count;
    Onnx__AttributeProto **attributes;
} import_frame;

/* What a name means. */
typedef struct import_binding {
    ir_value *value;    /* NULL: an optional input of a function that was not given */
    const char *origin; /* "an input", "an initializer", "an output of a node" */
} import_binding;

/* The names of one graph or function body. */
typedef struct import_scope {
    const struct import_scope *outer; /* whose names can be captured; NULL: none */
    const import_frame *frame;
    ir_graph *graph;
    const char *path;
    base_map bindings; /* name to import_binding */
    base_map used;     /* names that anything in the graph uses, to themselves */
} import_scope;

typedef struct import_node import_node;

/* One row per (operator, versions): how it becomes its canonical form. */
typedef struct import_row {
    const char *domain, *name;
    int from, to;           /* opset versions */
    const char *attributes; /* as in ops.def, with g for graphs, z for sparse tensors and '!' after what is
                               required; NULL: those of the operator's row in ops.def */
    int input_minimum, input_maximum, output_maximum; /* -1: any number */
    base_status (*convert)(import_node *node);
} import_row;

/* A node of the file with its names resolved: what a converter works on. */
struct import_node {
    import_state *importer;
    import_scope *scope;
    const Onnx__NodeProto *proto;
    import_row row;
    op_code code;    /* of the same name in ops.def; OP_CODE_NONE where there is none */
    int64_t version; /* of the opset of its domain */
    uint32_t input_count;
    ir_value **inputs; /* absent ones NULL, none of them at the end */
    uint32_t output_count;
    size_t attribute_count;
    Onnx__AttributeProto **attributes; /* references to attributes of functions replaced */
};

/* "" for the default domain under either of its names. */
const char *import_domain(const char *domain);
/* The version of a domain, 0 where it is not imported. */
int64_t import_opset(const import_opsets *opsets, const char *domain);
import_function *import_function_find(const import_state *importer, const char *domain, const char *name);
/* How messages call a node: its name, or its first output where it has none. */
const char *import_label(const Onnx__NodeProto *node);
/* "FILE: PATH: node "NAME" (Op)" becomes the context of the messages to come. */
void import_context(const import_state *importer, const char *path, const Onnx__NodeProto *node);

/* ---- types and names (type.c, names.c) ---------------------------------------------------------------- */

/* The type of an interface value. Symbols only where `symbols` (the main graph); elsewhere a dim_param is
 * unknown. */
base_status import_type(import_state *importer, const Onnx__ValueInfoProto *info, bool symbols,
                        op_type *type);
/* Extents of a main input that are not known become symbols, so that what has the same extents is known to. */
base_status import_name_extents(import_state *importer, ir_value *input);
bool import_scope_init(import_state *importer, import_scope *scope, const import_scope *outer,
                       const import_frame *frame, ir_graph *graph, const char *path);
/* Binds a name; an error where it has a meaning already. */
base_status import_bind(import_state *importer, import_scope *scope, const char *name, ir_value *value,
                        const char *origin);
/* The meaning of a name, here or in an enclosing graph; NULL: none. */
const import_binding *import_find(const import_scope *scope, const char *name);
/* Operators that own graphs have these imported by the folder above, which hands its functions down (graph.c). */
struct import_graphs {
    /* The graph attribute `name` of a node, as a graph of its own that belongs to `owner`. `types` are those of
     * what the node gives to the graph's inputs (dtype OP_NONE: not known), and must be as many. With `as_loop`,
     * the parameters iteration and condition come before the inputs, and the condition as it is before the
     * results: what a Scan's body lacks of a Loop's. */
    base_status (*sub_graph)(import_node *node, ir_node *owner, const char *name, bool as_loop,
                             uint32_t type_count, const op_type *types, ir_graph **graph);

    /* Initializers and nodes of a graph whose parameters are bound; then checks that its results are. */
    base_status (*content)(import_state *importer, import_scope *scope, const Onnx__GraphProto *graph);
};

/* ---- for converters (node.c); those that return pointers return NULL when memory runs out ------- */

const Onnx__AttributeProto *import_attribute(const import_node *node, const char *name);
int64_t import_integer(const import_node *node, const char *name, int64_t otherwise);
float import_real(const import_node *node, const char *name, float otherwise);
/* NULL and *count = 0 where absent. */
const int64_t *import_integers(const import_node *node, const char *name, size_t *count);
/* The text of an attribute equals `text`; `otherwise` is what an absent one equals. */
bool import_text_is(const import_node *node, const char *name, const char *text, const char *otherwise);
bool import_output_named(const import_node *node, uint32_t index);
/* The output has a name that something uses. */
bool import_output_wanted(const import_node *node, uint32_t index);
/* The dtype and rank of a value as far as they are known (OP_NONE, -1). */
op_dtype import_dtype_of(const ir_value *value);
int32_t import_rank_of(const ir_value *value);

/* Attributes of the node that its operator's row in ops.def has, as the IR wants them. */
base_status import_attributes(const import_node *node, op_code code, op_attributes *attributes);
bool import_attributes_add_integer(const import_node *node, op_attributes *attributes, const char *name,
                                   int64_t value);
bool import_attributes_add_integers(const import_node *node, op_attributes *attributes, const char *name,
                                    size_t count, const int64_t *values);

/* The text is kept by pointer. */
bool import_attributes_add_text(const import_node *node, op_attributes *attributes, const char *name,
                                const char *text);

ir_value *import_constant_reals(const import_node *node, size_t count, const float *values);      /* rank 1 */
ir_value *import_constant_integers(const import_node *node, size_t count, const int64_t *values); /* rank 1 */
ir_value *import_constant_integer(const import_node *node, int64_t value);                        /* rank 0 */
/* A scalar of any numeric dtype. */
ir_value *import_constant_real(const import_node *node, op_dtype dtype, double value);
/* A tensor of the file as a constant of the module. */
base_status import_constant_tensor(import_state *importer, const import_frame *frame,
                                   Onnx__TensorProto *dense, Onnx__SparseTensorProto *sparse,
                                   const char *name, ir_value **value);

/* A node with one output that has no name in the file. */
ir_value *import_make(const import_node *node, op_code code, op_attributes attributes, uint32_t input_count,
                      ir_value *const *inputs);
/* A node whose outputs are those of the file's node. */
base_status import_finish(import_node *node, op_code code, op_attributes attributes, uint32_t input_count,
                          ir_value *const *inputs);
/* The node that import_finish makes, before its outputs are added and named. */
ir_node *import_begin(const import_node *node, op_code code, op_attributes attributes, uint32_t input_count,
                      ir_value *const *inputs);
/* Output `index` of the file's node is this value. */
base_status import_define(import_node *node, uint32_t index, ir_value *value);
/* Sets the types of a node's outputs where its shape function can tell them. False when memory runs out. */
bool import_infer(import_state *importer, ir_node *node);
base_status import_memory(const import_node *node); /* reports that it ran out */

/* The converter of operators whose form is canonical already: the same node, with the attributes that it has. */
base_status import_convert_plain(import_node *node);

#endif
