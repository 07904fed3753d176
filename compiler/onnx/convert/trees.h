/* SPDX-License-Identifier: Apache-2.0 */
/* trees.h: decision trees of a file laid out for the kernel that walks them (ir/operators/tree_ensemble.h). */
#ifndef OURO_IMPORT_TREES_H
#define OURO_IMPORT_TREES_H

#include "compiler/onnx/convert/expression.h"

/* The modes of nodes, numbered as by TreeEnsemble of version 5. */
typedef enum tree_mode {
    TREE_LEQ,
    TREE_LT,
    TREE_GTE,
    TREE_GT,
    TREE_EQ,
    TREE_NEQ,
    TREE_MEMBER,
    TREE_LEAF
} tree_mode;

/* A node as files have it. */
typedef struct tree_node {
    tree_mode mode;
    int64_t feature;
    double split;
    bool nan_is_true;
    size_t when_true, when_false; /* nodes */
    size_t first, count;          /* TREE_LEAF: its entries; TREE_MEMBER: its numbers */
} tree_node;

/* What a leaf adds to a target. */
typedef struct tree_entry {
    int64_t target;
    double weight;
} tree_entry;

typedef struct tree_source {
    size_t node_count, root_count, entry_count, member_count;
    tree_node *nodes;
    size_t *roots;
    tree_entry *entries;
    double *members;
    int64_t targets;
    bool wide;         /* splits, weights and results are doubles, otherwise floats */
    int aggregate;     /* OP_TREE_SUM, ... */
    size_t base_count; /* 0, 1 or one a target */
    double *base;
} tree_source;

/* What the trees give for the rows of `x`: [rows, targets], in *y. */
base_status import_trees(const import_node *n, const tree_source *trees, ir_value *x, ir_value **y);

#endif
