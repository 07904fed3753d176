/* SPDX-License-Identifier: Apache-2.0 */
/* trees.c: implements `trees.h`.
 *
 * Every mode becomes "x <= split goes left" or, where it must be, "x = split goes left":
 *
 *     x < s     x <= the number before s              x >= s, x > s    x < s, x <= s with the branches swapped
 *     x != s    x = s with the branches swapped       x in a set       a chain of x = s, all with one left branch
 *
 * What is not a number fails every comparison; where that would lead to the other branch than the file says, a flag tells.
 */
#include "compiler/onnx/convert/trees.h"
#include "ir/operators/tree_ensemble.h"

#include <math.h>
#include <string.h>

/* The branch `side` of nodes [first, last] is still to be made, of `node`. */
typedef struct branch {
    size_t node;
    int32_t first, last;
    int side;
} branch;

typedef struct layout {
    const import_node *n;
    const tree_source *from;
    int32_t words, count, capacity;
    int32_t *nodes, *first, *roots, *targets;
    double *weights;
    size_t entries;
    bool *seen; /* nodes of the file that have been laid out */
    branch *stack;
    size_t depth;
} layout;

static int32_t *row(const layout *l, int32_t node) {
    return l->nodes + (size_t)node * (size_t)l->words;
}

static int32_t add_node(layout *l, int32_t feature, double split) {
    int32_t *words = row(l, l->count);
    words[OP_TREE_LEFT] = words[OP_TREE_RIGHT] = l->count;
    words[OP_TREE_FEATURE] = feature;
    if (l->from->wide) {
        memcpy(words + OP_TREE_SPLIT_DOUBLE, &split, sizeof split);
    } else {
        const float single = (float)split;
        memcpy(words + OP_TREE_SPLIT, &single, sizeof single);
    }
    l->first[l->count] = (int32_t)l->entries;
    return l->count++;
}

static void push(layout *l, size_t node, int32_t first, int32_t last, int side) {
    l->stack[l->depth++] = (branch){node, first, last, side};
}

static double before(const layout *l, double split) {
    if (split == -INFINITY) return NAN; /* nothing is less */
    return l->from->wide ? nextafter(split, -INFINITY) : (double)nextafterf((float)split, -INFINITY);
}

static int32_t lay_leaf(layout *l, const tree_node *leaf) {
    const int32_t made = add_node(l, 0, INFINITY);
    for (size_t i = 0; i < leaf->count; i++) {
        l->targets[l->entries] = (int32_t)l->from->entries[leaf->first + i].target;
        l->weights[l->entries++] = l->from->entries[leaf->first + i].weight;
    }
    return made;
}

/* A chain with one node a number, or one that nothing passes. */
static int32_t lay_members(layout *l, const tree_node *node) {
    const int32_t flags = OP_TREE_EQUAL | (node->nan_is_true ? OP_TREE_NAN_LEFT : 0);
    const int32_t begin = l->count;
    for (size_t i = 0; i < node->count; i++)
        add_node(l, (int32_t)node->feature | flags, l->from->members[node->first + i]);
    if (!node->count) add_node(l, (int32_t)node->feature | flags, NAN);
    for (int32_t i = begin; i + 1 < l->count; i++) row(l, i)[OP_TREE_RIGHT] = i + 1;
    push(l, node->when_false, l->count - 1, l->count - 1, OP_TREE_RIGHT);
    push(l, node->when_true, begin, l->count - 1, OP_TREE_LEFT);
    return begin;
}

static int32_t lay_inner(layout *l, const tree_node *node) {
    const bool swapped = node->mode == TREE_GTE || node->mode == TREE_GT || node->mode == TREE_NEQ;
    const bool equal = node->mode == TREE_EQ || node->mode == TREE_NEQ;
    const bool strict = node->mode == TREE_LT || node->mode == TREE_GTE;
    /* What is not a number fails the comparison of the file, except != : that it passes. */
    const bool nan_is_true = node->nan_is_true || node->mode == TREE_NEQ, left = nan_is_true != swapped;
    const int32_t made =
        add_node(l, (int32_t)node->feature | (equal ? OP_TREE_EQUAL : 0) | (left ? OP_TREE_NAN_LEFT : 0),
                 strict ? before(l, node->split) : node->split);
    push(l, swapped ? node->when_true : node->when_false, made, made, OP_TREE_RIGHT);
    push(l, swapped ? node->when_false : node->when_true, made, made, OP_TREE_LEFT);
    return made;
}

/* A tree from its root on, the left branch first. */
static base_status lay_tree(layout *l, size_t root, int32_t *made) {
    bool first = true;
    push(l, root, 0, -1, 0);
    while (l->depth) {
        const branch at = l->stack[--l->depth];
        const tree_node *node = &l->from->nodes[at.node];
        if (node->mode != TREE_LEAF && l->seen[at.node]) {
            return base_fail(l->n->importer->report, BASE_INVALID,
                             "node %zu is reached on two ways, the nodes are no trees", at.node);
        }
        l->seen[at.node] = true;
        const int32_t index = node->mode == TREE_LEAF     ? lay_leaf(l, node)
                              : node->mode == TREE_MEMBER ? lay_members(l, node)
                                                          : lay_inner(l, node);
        for (int32_t i = at.first; i <= at.last; i++) row(l, i)[at.side] = index;
        if (first) *made = index;
        first = false;
    }
    return BASE_OK;
}

/* What can be laid out at most: a node of the file once, a leaf once a branch that leads to it, a number of a set once. */
static base_status check_sizes(layout *l) {
    const tree_source *from = l->from;
    base_report *report = l->n->importer->report;
    size_t leaves = from->root_count, entries = 0, largest = 0;
    for (size_t i = 0; i < from->node_count; i++) {
        const tree_node *node = &from->nodes[i];
        if (node->mode == TREE_LEAF) continue;
        leaves += 2;
        if (node->feature < 0 || node->feature >= OP_TREE_FEATURE_MASK) {
            return base_fail(report, BASE_INVALID, "node %zu has feature %lld, expected 0 to %d", i,
                             (long long)node->feature, OP_TREE_FEATURE_MASK - 1);
        }
        if (node->when_true >= from->node_count || node->when_false >= from->node_count)
            return base_fail(report, BASE_INVALID, "node %zu leads to a node that is not there", i);
        for (int side = 0; side < 2; side++) {
            const tree_node *next = &from->nodes[side ? node->when_false : node->when_true];
            if (next->mode == TREE_LEAF) entries += next->count;
            if (next->mode == TREE_LEAF && next->count > largest) largest = next->count;
        }
    }
    for (size_t i = 0; i < from->root_count; i++)
        if (from->nodes[from->roots[i]].mode == TREE_LEAF) entries += from->nodes[from->roots[i]].count;
    for (size_t i = 0; i < from->entry_count; i++) {
        if (from->entries[i].target >= 0 && from->entries[i].target < from->targets) continue;
        return base_fail(report, BASE_INVALID, "a leaf gives to target %lld, there are %lld",
                         (long long)from->entries[i].target, (long long)from->targets);
    }
    const size_t total = from->node_count + leaves + from->member_count;
    if (total > INT32_MAX / OP_TREE_WORDS_DOUBLE || entries > INT32_MAX || from->targets > INT32_MAX)
        return base_fail_unsupported(report, "%zu nodes and %zu weights are too many", total, entries);
    l->capacity = (int32_t)total;
    base_arena *arena = &l->n->importer->arena;
    l->words = from->wide ? OP_TREE_WORDS_DOUBLE : OP_TREE_WORDS;
    l->nodes = BASE_ARRAY(arena, int32_t, total * (size_t)l->words);
    l->first = BASE_ARRAY(arena, int32_t, total + 1);
    l->roots = BASE_ARRAY(arena, int32_t, from->root_count);
    l->targets = BASE_ARRAY(arena, int32_t, entries);
    l->weights = BASE_ARRAY(arena, double, entries);
    l->seen = BASE_ARRAY(arena, bool, from->node_count);
    l->stack = BASE_ARRAY(arena, branch, 2 * from->node_count + 1);
    bool made = l->nodes && l->first && l->roots && l->targets && l->weights && l->seen && l->stack;
    return made ? BASE_OK : import_memory(l->n);
}

static ir_value *integers(const import_node *n, int32_t rows, int32_t columns, const int32_t *data) {
    op_type type = {.dtype = OP_INT32, .shape = {.rank = columns ? 2 : 1, .dims = {rows, columns}}};
    const size_t count = (size_t)rows * (size_t)(columns ? columns : 1);
    return ir_constant_copy(n->importer->module, "trees", &type, data, count * sizeof *data);
}

static ir_value *reals(const import_node *n, bool wide, size_t count, double *data) {
    op_type type = {.dtype = wide ? OP_DOUBLE : OP_FLOAT, .shape = {.rank = 1, .dims = {(int64_t)count}}};
    float *narrow = (float *)data; /* number i is read before its place is written */
    for (size_t i = 0; !wide && i < count; i++) {
        const float single = (float)data[i];
        memcpy(narrow + i, &single, sizeof single);
    }
    return ir_constant_copy(n->importer->module, "trees", &type, data,
                            count * (wide ? sizeof(double) : sizeof(float)));
}

base_status import_trees(const import_node *n, const tree_source *trees, ir_value *x, ir_value **y) {
    layout l = {.n = n, .from = trees};
    op_attributes attributes = {0};
    base_status status = check_sizes(&l);
    for (size_t i = 0; i < trees->root_count && status == BASE_OK; i++)
        status = lay_tree(&l, trees->roots[i], &l.roots[i]);
    if (status != BASE_OK) return status;
    l.first[l.count] = (int32_t)l.entries;
    double *base = trees->base_count ? BASE_ARRAY(&n->importer->arena, double, trees->base_count) : NULL;
    if (trees->base_count && !base) return import_memory(n);
    if (base) memcpy(base, trees->base, trees->base_count * sizeof *base);
    ir_value *inputs[7] = {x};
    inputs[1] = integers(n, l.count, l.words, l.nodes);
    inputs[2] = integers(n, (int32_t)trees->root_count, 0, l.roots);
    inputs[3] = integers(n, l.count + 1, 0, l.first);
    inputs[4] = integers(n, (int32_t)l.entries, 0, l.targets);
    inputs[5] = reals(n, trees->wide, l.entries, l.weights);
    inputs[6] = base ? reals(n, trees->wide, trees->base_count, base) : NULL;
    const uint32_t count = base ? 7 : 6;
    for (uint32_t i = 0; i < count; i++)
        if (!inputs[i]) return import_memory(n);
    if (!import_attributes_add_integer(n, &attributes, "targets", trees->targets) ||
        !import_attributes_add_integer(n, &attributes, "aggregate", trees->aggregate))
        return import_memory(n);
    *y = import_make(n, OP_TREE_ENSEMBLE, attributes, count, inputs);
    return *y ? BASE_OK : import_memory(n);
}
