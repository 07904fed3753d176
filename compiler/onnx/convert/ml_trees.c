/* SPDX-License-Identifier: Apache-2.0 */
/* ml_trees.c: TreeEnsembleRegressor and TreeEnsembleClassifier of versions 1 and 3, and TreeEnsemble of version 5. */
#include "compiler/onnx/convert/ml.h"
#include "compiler/onnx/convert/trees.h"
#include "ir/operators/tree_ensemble.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- attributes ------------------------------------------------------------------------------------------ */

/* A list of numbers: of a list of floats or, where that is absent, of a tensor of floats or doubles. */
typedef struct numbers {
    size_t count;
    const float *narrow;
    const double *wide;
} numbers;

static double number_at(const numbers *of, size_t i) {
    return of->wide ? of->wide[i] : (double)of->narrow[i];
}

static base_status read_tensor(const import_node *n, const char *name, op_tensor *tensor) {
    const Onnx__AttributeProto *given = import_attribute(n, name);
    *tensor = (op_tensor){0};
    if (!given || !given->t) return BASE_OK;
    return import_tensor(given->t, n->importer->folder, true, &n->importer->blocks, tensor,
                         n->importer->report);
}

static base_status read_numbers(const import_node *n, const char *list, const char *name, numbers *to) {
    const Onnx__AttributeProto *given = list ? import_attribute(n, list) : NULL;
    op_tensor tensor;
    *to = (numbers){0};
    if (given && given->n_floats) {
        to->count = given->n_floats;
        to->narrow = given->floats;
        return BASE_OK;
    }
    base_status status = read_tensor(n, name, &tensor);
    if (status != BASE_OK || tensor.type.dtype == OP_NONE) return status;
    if (tensor.type.dtype != OP_FLOAT && tensor.type.dtype != OP_DOUBLE) {
        return base_fail(n->importer->report, BASE_INVALID,
                         "attribute \"%s\" is %s, expected float32 or float64", name,
                         op_dtype_name(tensor.type.dtype));
    }
    to->count = tensor.bytes / op_dtype_bytes(tensor.type.dtype);
    if (tensor.type.dtype == OP_DOUBLE) to->wide = tensor.data;
    else to->narrow = tensor.data;
    return BASE_OK;
}

/* A list of as many integers as there are nodes (or whatever `count` counts); absent, where it may be: NULL. */
static base_status read_list(const import_node *n, const char *name, size_t count, bool needed,
                             const int64_t **list) {
    size_t found;
    *list = import_integers(n, name, &found);
    if (!found && !needed) *list = NULL;
    if (found == count || (!found && !needed)) return BASE_OK;
    return base_fail(n->importer->report, BASE_INVALID, "attribute \"%s\" has %zu numbers, expected %zu",
                     name, found, count);
}

static base_status allocate(const import_node *n, tree_source *to) {
    base_arena *arena = &n->importer->arena;
    to->nodes = BASE_ARRAY(arena, tree_node, to->node_count);
    to->roots = BASE_ARRAY(arena, size_t, to->node_count);
    to->entries = BASE_ARRAY(arena, tree_entry, to->entry_count);
    to->members = BASE_ARRAY(arena, double, to->member_count);
    return to->nodes && to->roots && to->entries && to->members ? BASE_OK : import_memory(n);
}

/* ---- versions 1 and 3: nodes have a number within the tree that they name --------------------------------- */

/* Where a node, or an entry of a leaf, is in the file. */
typedef struct place {
    int64_t tree, node;
    size_t index;
} place;

static int compare_places(const void *left, const void *right) {
    const place *a = left, *b = right;
    if (a->tree != b->tree) return a->tree < b->tree ? -1 : 1;
    if (a->node != b->node) return a->node < b->node ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static place *sorted(const import_node *n, size_t count, const int64_t *trees, const int64_t *nodes) {
    place *places = BASE_ARRAY(&n->importer->arena, place, count);
    for (size_t i = 0; i < count && places; i++) places[i] = (place){trees[i], nodes[i], i};
    if (places) qsort(places, count, sizeof *places, compare_places);
    return places;
}

/* The first of the places that is not before (tree, node); `count` where all are. */
static size_t find_place(const place *places, size_t count, int64_t tree, int64_t node) {
    const place wanted = {tree, node, 0};
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (compare_places(&places[middle], &wanted) < 0) low = middle + 1;
        else high = middle;
    }
    return low;
}

static bool is_place(const place *places, size_t count, size_t at, int64_t tree, int64_t node) {
    return at < count && places[at].tree == tree && places[at].node == node;
}

static base_status read_mode(const import_node *n, const Onnx__AttributeProto *modes, size_t i,
                             tree_mode *mode) {
    static const char *const names[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE", "BRANCH_GT",
                                        "BRANCH_EQ",  "BRANCH_NEQ", "",           "LEAF"};
    for (unsigned k = 0; k < sizeof names / sizeof *names; k++) {
        if (modes->strings[i].len != strlen(names[k]) ||
            memcmp(modes->strings[i].data, names[k], modes->strings[i].len) != 0 || k == TREE_MEMBER)
            continue;
        *mode = (tree_mode)k;
        return BASE_OK;
    }
    return base_fail(
        n->importer->report, BASE_INVALID,
        "attribute \"nodes_modes\" has \"%.*s\", expected LEAF or BRANCH_LEQ, _LT, _GTE, _GT, _EQ "
        "or _NEQ",
        (int)(modes->strings[i].len < 40 ? modes->strings[i].len : 40), (const char *)modes->strings[i].data);
}

/* The names of the attributes that tell what leaves give. */
typedef struct leaf_names {
    const char *trees, *nodes, *ids, *weights, *weights_tensor;
} leaf_names;

static base_status read_old_leaves(const import_node *n, const leaf_names *names, const int64_t *node_trees,
                                   const int64_t *node_ids, tree_source *to) {
    const int64_t *trees, *nodes, *ids;
    numbers weights;
    base_status status = read_list(n, names->trees, to->entry_count, true, &trees);
    if (status == BASE_OK) status = read_list(n, names->nodes, to->entry_count, true, &nodes);
    if (status == BASE_OK) status = read_list(n, names->ids, to->entry_count, true, &ids);
    if (status == BASE_OK) status = read_numbers(n, names->weights, names->weights_tensor, &weights);
    if (status != BASE_OK) return status;
    if (weights.count != to->entry_count) {
        return base_fail(n->importer->report, BASE_INVALID, "attribute \"%s\" has %zu numbers, expected %zu",
                         names->weights, weights.count, to->entry_count);
    }
    place *places = sorted(n, to->entry_count, trees, nodes);
    if (!places) return import_memory(n);
    for (size_t i = 0; i < to->entry_count; i++)
        to->entries[i] = (tree_entry){ids[places[i].index], number_at(&weights, places[i].index)};
    for (size_t i = 0; i < to->node_count; i++) {
        tree_node *node = &to->nodes[i];
        if (node->mode != TREE_LEAF) continue;
        node->first = find_place(places, to->entry_count, node_trees[i], node_ids[i]);
        while (is_place(places, to->entry_count, node->first + node->count, node_trees[i], node_ids[i]))
            node->count++;
    }
    return BASE_OK;
}

static base_status read_old_nodes(const import_node *n, const int64_t **trees, const int64_t **ids,
                                  tree_source *to) {
    const Onnx__AttributeProto *modes = import_attribute(n, "nodes_modes");
    const int64_t *features, *when_true, *when_false, *missing;
    numbers splits;
    const size_t count = to->node_count;
    base_status status = read_list(n, "nodes_treeids", count, true, trees);
    if (status == BASE_OK) status = read_list(n, "nodes_nodeids", count, true, ids);
    if (status == BASE_OK) status = read_list(n, "nodes_featureids", count, true, &features);
    if (status == BASE_OK) status = read_list(n, "nodes_truenodeids", count, true, &when_true);
    if (status == BASE_OK) status = read_list(n, "nodes_falsenodeids", count, true, &when_false);
    if (status == BASE_OK) status = read_list(n, "nodes_missing_value_tracks_true", count, false, &missing);
    if (status == BASE_OK) status = read_numbers(n, "nodes_values", "nodes_values_as_tensor", &splits);
    if (status != BASE_OK) return status;
    if (splits.count != count || modes->n_strings != count)
        return base_fail(n->importer->report, BASE_INVALID, "nodes_values has %zu numbers, nodes_modes %zu",
                         splits.count, modes->n_strings);
    place *places = sorted(n, count, *trees, *ids);
    bool *child = BASE_ARRAY(&n->importer->arena, bool, count);
    if (!places || !child) return import_memory(n);
    for (size_t i = 0; i < count; i++) {
        tree_node *node = &to->nodes[i];
        *node = (tree_node){
            .feature = features[i], .split = number_at(&splits, i), .nan_is_true = missing && missing[i]};
        status = read_mode(n, modes, i, &node->mode);
        if (status != BASE_OK) return status;
        if (i && compare_places(&(place){places[i - 1].tree, places[i - 1].node, 0},
                                &(place){places[i].tree, places[i].node, 0}) == 0)
            return base_fail(n->importer->report, BASE_INVALID, "tree %lld has two nodes %lld",
                             (long long)places[i].tree, (long long)places[i].node);
        if (node->mode == TREE_LEAF) continue;
        for (int side = 0; side < 2; side++) {
            const int64_t id = side ? when_false[i] : when_true[i];
            const size_t at = find_place(places, count, (*trees)[i], id);
            if (!is_place(places, count, at, (*trees)[i], id))
                return base_fail(n->importer->report, BASE_INVALID, "tree %lld has no node %lld",
                                 (long long)(*trees)[i], (long long)id);
            child[places[at].index] = true;
            *(side ? &node->when_false : &node->when_true) = places[at].index;
        }
    }
    for (size_t i = 0; i < count; i++)
        if (!child[i]) to->roots[to->root_count++] = i;
    return BASE_OK;
}

static base_status read_old(const import_node *n, const leaf_names *names, tree_source *to) {
    const Onnx__AttributeProto *modes = import_attribute(n, "nodes_modes");
    const int64_t *trees, *ids;
    numbers base;
    if (!modes || !modes->n_strings)
        return base_fail(n->importer->report, BASE_INVALID, "attribute \"nodes_modes\" is absent or empty");
    to->node_count = modes->n_strings;
    import_integers(n, names->nodes, &to->entry_count);
    /* With rows of double, splits and sums are taken in double. */
    to->wide = import_dtype_of(n->inputs[0]) == OP_DOUBLE || import_attribute(n, "nodes_values_as_tensor");
    base_status status = allocate(n, to);
    if (status == BASE_OK) status = read_old_nodes(n, &trees, &ids, to);
    if (status == BASE_OK) status = read_old_leaves(n, names, trees, ids, to);
    if (status == BASE_OK) status = read_numbers(n, "base_values", "base_values_as_tensor", &base);
    if (status != BASE_OK || !base.count) return status;
    to->base_count = base.count;
    to->base = BASE_ARRAY(&n->importer->arena, double, base.count);
    if (!to->base) return import_memory(n);
    for (size_t i = 0; i < base.count; i++) to->base[i] = number_at(&base, i);
    return BASE_OK;
}

base_status import_convert_tree_regressor(import_node *n) {
    static const leaf_names names = {"target_treeids", "target_nodeids", "target_ids", "target_weights",
                                     "target_weights_as_tensor"};
    static const char *const functions[] = {"AVERAGE", "SUM", "MIN", "MAX"};
    tree_source trees = {.targets = import_integer(n, "n_targets", 1), .aggregate = -1};
    ir_value *y;
    for (int i = 0; i < 4; i++)
        if (import_text_is(n, "aggregate_function", functions[i], "SUM")) trees.aggregate = i;
    if (trees.aggregate < 0)
        return base_fail(n->importer->report, BASE_INVALID,
                         "attribute \"aggregate_function\" is unknown, expected SUM, AVERAGE, MIN or MAX");
    base_status status = read_old(n, &names, &trees);
    if (status == BASE_OK && trees.base_count && trees.base_count != (size_t)trees.targets)
        status = base_fail(n->importer->report, BASE_INVALID, "%zu base values for %lld targets",
                           trees.base_count, (long long)trees.targets);
    if (status == BASE_OK) status = import_trees(n, &trees, n->inputs[0], &y);
    if (status != BASE_OK) return status;
    y = expr_cast(n, y, OP_FLOAT);
    status = import_ml_transformed(n, &y);
    return status == BASE_OK ? expr_finish(n, y) : status;
}

/* ---- classifiers ------------------------------------------------------------------------------------------ */

/* ONNX Runtime takes a class for a row only where a leaf that the row reaches names it. Some classes are named by no leaf, and some by each leaf of
 * some tree, whichever way a row goes. Of the others the trees count, row by row, how many leaves name them. */
typedef struct class_leaves {
    size_t classes;
    bool *named, *always;
    bool one, positive; /* leaves name one class only; no weight is negative */
} class_leaves;

/* Of one tree: which classes all its leaves name. A node that is reached twice is refused later, where trees are laid out. */
static void mark_always(const tree_source *trees, size_t root, bool *seen, size_t *stack, size_t *naming,
                        class_leaves *to) {
    size_t depth = 0, leaves = 0;
    stack[depth++] = root;
    memset(naming, 0, to->classes * sizeof *naming);
    while (depth) {
        const size_t at = stack[--depth];
        const tree_node *node = &trees->nodes[at];
        if (node->mode != TREE_LEAF) {
            if (seen[at]) continue;
            seen[at] = true;
            stack[depth++] = node->when_true;
            stack[depth++] = node->when_false;
            continue;
        }
        /* A class that all leaves before this one name has as many as these; a leaf that names it again adds nothing. */
        for (size_t i = 0; i < node->count; i++) {
            size_t *count = &naming[trees->entries[node->first + i].target];
            if (*count == leaves) ++*count;
        }
        leaves++;
    }
    for (size_t k = 0; k < to->classes; k++) to->always[k] = to->always[k] || naming[k] == leaves;
}

static base_status read_class_leaves(const import_node *n, const tree_source *trees, class_leaves *to) {
    base_arena *arena = &n->importer->arena;
    to->named = BASE_ARRAY(arena, bool, to->classes);
    to->always = BASE_ARRAY(arena, bool, to->classes);
    bool *seen = BASE_ARRAY(arena, bool, trees->node_count);
    size_t *stack = BASE_ARRAY(arena, size_t, 2 * trees->node_count + 1);
    size_t *naming = BASE_ARRAY(arena, size_t, to->classes);
    if (!to->named || !to->always || !seen || !stack || !naming) return import_memory(n);
    to->one = to->positive = true;
    for (size_t i = 0; i < trees->entry_count; i++) {
        const tree_entry *entry = &trees->entries[i];
        if (entry->target < 0 || (uint64_t)entry->target >= to->classes) {
            return base_fail(n->importer->report, BASE_INVALID, "a leaf gives to class %lld, there are %zu",
                             (long long)entry->target, to->classes);
        }
        to->named[entry->target] = true;
        to->one = to->one && entry->target == trees->entries[0].target;
        to->positive = to->positive && entry->weight >= 0;
    }
    for (size_t i = 0; i < trees->root_count; i++)
        mark_always(trees, trees->roots[i], seen, stack, naming, to);
    return BASE_OK;
}

/* As many targets more as there are classes, to which leaves give 1 beside what they give to the classes. */
static base_status count_leaves(const import_node *n, tree_source *trees) {
    const int64_t classes = trees->targets;
    size_t made = 0, total = 0;
    for (size_t i = 0; i < trees->node_count; i++) total += 2 * trees->nodes[i].count;
    tree_entry *entries = BASE_ARRAY(&n->importer->arena, tree_entry, total);
    if (!entries) return import_memory(n);
    for (size_t i = 0; i < trees->node_count; i++) {
        tree_node *node = &trees->nodes[i];
        const size_t from = node->first;
        if (node->mode != TREE_LEAF) continue;
        node->first = made;
        for (size_t k = from; k < from + node->count; k++) {
            entries[made++] = trees->entries[k];
            entries[made++] = (tree_entry){classes + trees->entries[k].target, 1};
        }
        node->count = made - node->first;
    }
    trees->entries = entries;
    trees->entry_count = made;
    trees->targets = 2 * classes;
    return BASE_OK;
}

/* Columns [first, first + count) of a matrix. */
static ir_value *columns(const import_node *n, ir_value *x, size_t first, size_t count) {
    int64_t *list = BASE_ARRAY(&n->importer->arena, int64_t, count);
    for (size_t i = 0; i < count && list; i++) list[i] = (int64_t)(first + i);
    ir_value *inputs[] = {x, list ? import_constant_integers(n, count, list) : NULL};
    return x && inputs[1] ? expr_with_integer(n, OP_GATHER, "axis", 1, 2, inputs) : NULL;
}

/* The label of a row with two classes, as its number: the score of the second decides, or of the first where the row's leaves do not name the
 * second (`second`: whether they do, NULL where they always do). It decides at half where leaves name one class only and no weight
 * is negative, otherwise at zero. (As ONNX Runtime does.) */
static ir_value *label_of_two(const import_node *n, const class_leaves *leaves, ir_value *scores,
                              ir_value *second) {
    ir_value *score = scores->type.shape.dims[1] == 2 ? columns(n, scores, 1, 1) : scores;
    if (second) score = expr_select(n, second, score, columns(n, scores, 0, 1));
    if (!score) return NULL;
    ir_value *above =
        expr_binary(n, OP_GREATER, score, expr_number(n, score, leaves->one && leaves->positive ? 0.5 : 0));
    return expr_axis(n, OP_SQUEEZE, expr_cast(n, above, OP_INT64), 1);
}

/* The label of a row with more: that of the largest score, among the classes that its leaves name (`named`: where that depends on the row; NULL:
 * where it does not). Base values name all. */
static ir_value *label_of_many(const import_node *n, const class_leaves *leaves, bool base, ir_value *scores,
                               ir_value *named) {
    op_attributes attributes = {0};
    float *low = BASE_ARRAY(&n->importer->arena, float, leaves->classes);
    if (!low || !import_attributes_add_integer(n, &attributes, "axis", 1) ||
        !import_attributes_add_integer(n, &attributes, "keepdims", 0))
        return NULL;
    bool all = true;
    for (size_t i = 0; i < leaves->classes; i++) {
        low[i] = leaves->named[i] ? 0 : -INFINITY;
        all = all && leaves->named[i];
    }
    if (named) {
        scores = expr_select(n, named, scores, expr_number(n, scores, -INFINITY));
    } else if (!all && !base) {
        ir_value *added = import_constant_reals(n, leaves->classes, low);
        scores = expr_binary(n, OP_ADD, scores, expr_cast(n, added, import_dtype_of(scores)));
    }
    return scores ? import_make(n, OP_ARG_MAX, attributes, 1, &scores) : NULL;
}

static base_status add_base(const import_node *n, const tree_source *trees, ir_value **scores) {
    float *base = BASE_ARRAY(&n->importer->arena, float, trees->base_count);
    for (size_t i = 0; i < trees->base_count && base; i++) base[i] = (float)trees->base[i];
    ir_value *added = base ? import_constant_reals(n, trees->base_count, base) : NULL;
    *scores = expr_binary(n, OP_ADD, *scores, expr_cast(n, added, import_dtype_of(*scores)));
    return *scores ? BASE_OK : import_memory(n);
}

/* The base value of the first target alone. */
static base_status spread_base(const import_node *n, tree_source *trees) {
    double *base = BASE_ARRAY(&n->importer->arena, double, (size_t)trees->targets);
    if (!base) return import_memory(n);
    base[0] = trees->base[0];
    trees->base = base;
    trees->base_count = (size_t)trees->targets;
    return BASE_OK;
}

/* The scores of both classes in rows whose leaves name the second; those of other rows are made of the first one's. */
static base_status choose_pair(const import_node *n, ml_pair kind, ir_value *second, ir_value **scores) {
    ir_value *pair = columns(n, *scores, 0, 1);
    if (!pair) return import_memory(n);
    base_status status = import_ml_paired(n, kind, &pair);
    if (status == BASE_OK) status = import_ml_transformed(n, scores);
    if (status != BASE_OK) return status;
    *scores = expr_select(n, second, *scores, pair);
    return *scores ? BASE_OK : import_memory(n);
}

base_status import_convert_tree_classifier(import_node *n) {
    static const leaf_names names = {"class_treeids", "class_nodeids", "class_ids", "class_weights",
                                     "class_weights_as_tensor"};
    tree_source trees = {.aggregate = OP_TREE_SUM};
    class_leaves leaves;
    ir_value *labels, *scores, *named = NULL, *index;
    base_status status =
        import_ml_labels(n, "classlabels_int64s", "classlabels_strings", &labels, &leaves.classes);
    if (status == BASE_OK && !leaves.classes)
        status = base_fail(n->importer->report, BASE_INVALID, "there are no class labels");
    if (status == BASE_OK) status = read_old(n, &names, &trees);
    if (status == BASE_OK) status = read_class_leaves(n, &trees, &leaves);
    if (status != BASE_OK) return status;
    const bool two = leaves.classes == 2;
    const size_t base_count = trees.base_count;
    if (base_count > 1 && base_count != leaves.classes)
        return base_fail(n->importer->report, BASE_INVALID, "%zu base values for %zu classes", base_count,
                         leaves.classes);
    /* Two classes of which leaves name the first alone: theirs is the score of the second. */
    const bool single = two && leaves.one && leaves.named[0] && base_count < 2;
    bool counted = false;
    for (size_t k = two ? 1 : 0; k < leaves.classes; k++)
        counted = counted || (leaves.named[k] && !leaves.always[k]);
    /* Base values name all of several classes. A single one for two classes is the first's, where leaves name it. */
    const bool base_of_first = two && base_count == 1, base_of_all = base_count && !base_of_first;
    counted = counted && !base_of_all;
    trees.targets = single ? 1 : (int64_t)leaves.classes;
    if (counted) status = count_leaves(n, &trees);
    if (status == BASE_OK && base_of_first) status = spread_base(n, &trees);
    if (base_of_all) trees.base_count = 0; /* classes that no leaf has given to have them too */
    if (status == BASE_OK) status = import_trees(n, &trees, n->inputs[0], &scores);
    if (status == BASE_OK && counted) {
        ir_value *counts = columns(n, scores, two ? 3 : leaves.classes, two ? 1 : leaves.classes);
        named = expr_binary(n, OP_GREATER, counts, counts ? expr_number(n, counts, 0) : NULL);
        scores = columns(n, scores, 0, leaves.classes);
        if (!named || !scores) status = import_memory(n);
    }
    trees.base_count = base_count;
    if (status == BASE_OK && base_of_all) status = add_base(n, &trees, &scores);
    if (status != BASE_OK) return status;
    index =
        two ? label_of_two(n, &leaves, scores, named) : label_of_many(n, &leaves, base_of_all, scores, named);
    scores = expr_cast(n, scores, OP_FLOAT);
    if (!scores || !index) return import_memory(n);
    /* PROBIT, and a base value where leaves name both, leave the second score of a row that does not name it at zero. */
    const bool pairs =
        two && named && (leaves.one || !base_count) && !import_text_is(n, "post_transform", "PROBIT", "NONE");
    const ml_pair kind = leaves.one && leaves.positive ? ML_PAIR_LINEAR : ML_PAIR_NEGATED;
    status = single  ? import_ml_paired(n, kind, &scores)
             : pairs ? choose_pair(n, kind, named, &scores)
                     : import_ml_transformed(n, &scores);
    return status == BASE_OK ? import_ml_finish_classifier(n, labels, index, scores) : status;
}

/* ---- version 5: nodes and leaves in lists of their own ------------------------------------------------------ */

static base_status read_new_nodes(const import_node *n, const op_tensor *modes, size_t leaves,
                                  const numbers *splits, const numbers *members, tree_source *to) {
    const size_t count = splits->count;
    const int64_t *features, *ids[2], *leaf[2], *missing;
    static const char *const id_names[] = {"nodes_truenodeids", "nodes_falsenodeids"},
                             *const leaf_names_of[] = {"nodes_trueleafs", "nodes_falseleafs"};
    base_status status = read_list(n, "nodes_featureids", count, true, &features);
    for (int side = 0; side < 2 && status == BASE_OK; side++) {
        status = read_list(n, id_names[side], count, true, &ids[side]);
        if (status == BASE_OK) status = read_list(n, leaf_names_of[side], count, true, &leaf[side]);
    }
    if (status == BASE_OK) status = read_list(n, "nodes_missing_value_tracks_true", count, false, &missing);
    if (status != BASE_OK) return status;
    size_t member = 0;
    for (size_t i = 0; i < count; i++) {
        const uint8_t mode = ((const uint8_t *)modes->data)[i];
        size_t next[2];
        if (mode > TREE_MEMBER)
            return base_fail(n->importer->report, BASE_INVALID, "node %zu has mode %u, expected 0 to 6", i,
                             mode);
        for (int side = 0; side < 2; side++) {
            const int64_t id = ids[side][i];
            if (id < 0 || (size_t)id >= (leaf[side][i] ? leaves : count))
                return base_fail(n->importer->report, BASE_INVALID,
                                 "node %zu leads to %s %lld, which is not there", i,
                                 leaf[side][i] ? "leaf" : "node", (long long)id);
            next[side] = leaf[side][i] ? count + (size_t)id : (size_t)id;
        }
        to->nodes[i] = (tree_node){.mode = (tree_mode)mode,
                                   .feature = features[i],
                                   .split = number_at(splits, i),
                                   .nan_is_true = missing && missing[i],
                                   .when_true = next[0],
                                   .when_false = next[1],
                                   .first = to->member_count};
        /* A node with the same leaf on both sides is a tree of this leaf alone. */
        if (mode != TREE_MEMBER) continue;
        for (; member < members->count && number_at(members, member) == number_at(members, member); member++)
            to->members[to->member_count++] = number_at(members, member);
        member++; /* the end of the set is no number */
        to->nodes[i].count = to->member_count - to->nodes[i].first;
    }
    return BASE_OK;
}

base_status import_convert_tree_ensemble(import_node *n) {
    tree_source trees = {.targets = import_integer(n, "n_targets", 1),
                         .aggregate = (int)import_integer(n, "aggregate_function", OP_TREE_SUM)};
    static const char *const transforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
    const int64_t transform = import_integer(n, "post_transform", 0);
    numbers splits, weights, members;
    op_tensor modes;
    const int64_t *targets, *roots;
    size_t root_count;
    ir_value *y;
    base_status status = read_numbers(n, NULL, "nodes_splits", &splits);
    if (status == BASE_OK) status = read_numbers(n, NULL, "leaf_weights", &weights);
    if (status == BASE_OK) status = read_numbers(n, NULL, "membership_values", &members);
    if (status == BASE_OK) status = read_tensor(n, "nodes_modes", &modes);
    if (status == BASE_OK) status = read_list(n, "leaf_targetids", weights.count, true, &targets);
    if (status != BASE_OK) return status;
    roots = import_integers(n, "tree_roots", &root_count);
    if (modes.type.dtype != OP_UINT8 || modes.bytes != splits.count || trees.aggregate < 0 ||
        trees.aggregate > 3 || transform < 0 || transform > 4)
        return base_fail(n->importer->report, BASE_INVALID,
                         "nodes_modes is not as many uint8 as there are nodes_splits, or aggregate_function "
                         "or post_transform is unknown");
    trees.node_count = splits.count + weights.count;
    trees.entry_count = weights.count;
    trees.member_count = members.count;
    trees.wide = splits.wide != NULL || weights.wide != NULL;
    status = allocate(n, &trees);
    if (status != BASE_OK) return status;
    trees.member_count = 0;
    for (size_t i = 0; i < weights.count; i++) {
        trees.entries[i] = (tree_entry){targets[i], number_at(&weights, i)};
        trees.nodes[splits.count + i] = (tree_node){.mode = TREE_LEAF, .first = i, .count = 1};
    }
    status = read_new_nodes(n, &modes, weights.count, &splits, &members, &trees);
    if (status != BASE_OK) return status;
    trees.roots = BASE_ARRAY(&n->importer->arena, size_t, root_count);
    if (!trees.roots) return import_memory(n);
    for (; trees.root_count < root_count; trees.root_count++) {
        const int64_t root = roots[trees.root_count];
        if (root < 0 || (size_t)root >= splits.count)
            return base_fail(n->importer->report, BASE_INVALID, "tree_roots has %lld, there are %zu nodes",
                             (long long)root, splits.count);
        trees.roots[trees.root_count] = (size_t)root;
    }
    status = import_trees(n, &trees, n->inputs[0], &y);
    if (status == BASE_OK) status = import_ml_transformed_as(n, transforms[transform], &y);
    return status == BASE_OK ? expr_finish(n, y) : status;
}
