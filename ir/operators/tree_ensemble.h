/* SPDX-License-Identifier: Apache-2.0 */
/* tree_ensemble.h: decision trees as the operator TreeEnsemble has them in its constant inputs, for its shape function, for what
 * makes them and for what walks them.
 *
 * Input 1 is a matrix of int32, a node a row, of all trees together:
 *
 *     left, right, feature and flags, bits of the split        4 words where the split is a float
 *     left, right, feature and flags, 0, bits of the split     6 words where it is a double
 *
 * From a node the way goes to `left` where x[feature] <= split, otherwise (also where x is not a number) to `right`. Both lie
 * after the node; in a leaf both are the leaf itself, so that walks of different lengths can go on together. Input 2 has the
 * roots. Node i gives the numbers [first[i], first[i + 1]) of inputs 4 (target) and 5 (weight), where first is input 3; only
 * leaves give any. Input 6, which may be absent, is added at the end to the targets that
 * any leaf has given to.
 */
#ifndef OURO_TREE_ENSEMBLE_H
#define OURO_TREE_ENSEMBLE_H

enum {
    OP_TREE_LEFT = 0,
    OP_TREE_RIGHT = 1,
    OP_TREE_FEATURE = 2,
    OP_TREE_SPLIT = 3,
    OP_TREE_WORDS = 4,
    OP_TREE_SPLIT_DOUBLE = 4,
    OP_TREE_WORDS_DOUBLE = 6,
    OP_TREE_NAN_LEFT = 1 << 30, /* what is not a number goes to the left */
    OP_TREE_EQUAL = 1 << 29,    /* to the left where x = split, not <= */
    OP_TREE_FEATURE_MASK = (1 << 29) - 1
};

/* Attribute "aggregate": what becomes of a target's weights. */
enum { OP_TREE_AVERAGE = 0, OP_TREE_SUM = 1, OP_TREE_MINIMUM = 2, OP_TREE_MAXIMUM = 3 };

enum {
    OP_TREE_X,
    OP_TREE_NODES,
    OP_TREE_ROOTS,
    OP_TREE_FIRST,
    OP_TREE_TARGETS,
    OP_TREE_WEIGHTS,
    OP_TREE_BASE
};

#endif
