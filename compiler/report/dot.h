/* SPDX-License-Identifier: Apache-2.0 */
/* dot.h: what the files that draw graphs share. */
#ifndef OURO_EMIT_DOT_H
#define OURO_EMIT_DOT_H

#include "compiler/report/emit.h"
#include "compiler/report/groups.h"
#include "compiler/report/repeats.h"
#include "runtime/plan/plan.h"

enum { DOT_NAME_CHARACTERS = 36 };

/* Who makes a tensor: a node, or a parameter of a graph. */
typedef struct dot_source {
    enum { SOURCE_NONE, SOURCE_NODE, SOURCE_PARAMETER } kind;
    uint32_t index;  /* of the node, or of the graph */
    uint32_t number; /* of the parameter */
} dot_source;

/* Of those that are drawn together: where from (a node, or a parameter of a graph), where to. */
typedef struct dot_edge {
    uint64_t from;
    uint32_t to, id;
    bool styled; /* `way` is not the usual one */
    const char *way;
} dot_edge;

typedef struct dot_writer {
    const plan *of;
    emit_buffer *out;
    dot_source *sources; /* by tensor id */
    emit_folding folding;
    emit_groups groups;
    const char *prefix; /* of names, left out in the block that is being drawn */
    size_t prefix_length;
    unsigned depth;
    dot_edge *edges; /* from malloc; of the graph that is being drawn */
    size_t edge_count, edge_capacity;
} dot_writer;

const char *emit_dot_text_of(const dot_writer *writer, uint32_t text);

/* The text as XML, cut in the middle to `characters` so that both ends of a path stay visible. */
void emit_dot_cut(emit_buffer *out, const char *text, size_t characters);
/* "int64 1x64x112x112 nc8", with the symbols' names. */
void emit_dot_type(dot_writer *writer, const plan_tensor *tensor);
/* Where the tensor lies: "@64 + 12.0 KiB", or a table by iterations. */
void emit_dot_address(dot_writer *writer, const plan_tensor *tensor);
/* Of a node's box: its operator with what is fused into it; lines for its attributes, its constants, its outputs. */
void emit_dot_title(dot_writer *writer, const plan_node *node);
void emit_dot_attributes(dot_writer *writer, const plan_node *node);
void emit_dot_constants(dot_writer *writer, const plan_node *node);
void emit_dot_outputs(dot_writer *writer, const plan_node *node);

/* The box of a group: what its names have in common, its operators with their numbers, its largest tensor. */
void emit_dot_group(dot_writer *writer, uint32_t first);

/* Draws a graph in the language of Graphviz into the file `path`; `format` is "svg" or "png". Not on several threads: Graphviz keeps
 * what is global. Fails in a build without Graphviz. */
base_status emit_drawing(const emit_buffer *dot, const char *format, const char *path, base_report *report);

#endif
