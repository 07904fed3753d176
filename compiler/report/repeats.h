/* SPDX-License-Identifier: Apache-2.0 */
/* repeats.h: blocks of nodes that stand several times in a row in a graph, such as the layers of a transformer: pictures draw them
 * once. */
#ifndef OURO_EMIT_REPEATS_H
#define OURO_EMIT_REPEATS_H

#include "runtime/plan/plan.h"

/* Nodes first .. first + period - 1 of the plan, and `count` - 1 more blocks of `period` nodes after them, which are the same: operators,
 * kernels, attributes, types, and each input made by the same node of the block, or of the one before it, or by the same node outside.
 * Parameters and constants may be others of the same type. */
typedef struct emit_repeat {
    uint32_t first, period, count;
} emit_repeat;

/* What a picture of a plan leaves out. */
typedef struct emit_folding {
    emit_repeat *repeats; /* by their first node, disjoint */
    size_t repeat_count;
    uint32_t *drawn; /* by node: the node that stands for it: itself, or that of the first block */
    /* By tensor id, of inputs and outputs of the model: how many such ones it stands for; 0: it is left out, as another one stands
     * for it. */
    uint32_t *times;
} emit_folding;

/* What can be left out of a plan with more than `most` nodes; of smaller ones nothing. False when memory runs out. */
bool emit_fold(const plan *of, size_t most, base_arena *arena, emit_folding *folding);
/* The repeat in which the node is drawn; NULL: it is in none, or left out. */
const emit_repeat *emit_fold_find(const emit_folding *folding, uint32_t node);
/* The length of what all names of a repeat's first block begin with, up to a '/', '.' or '_'; 0: nothing. */
size_t emit_fold_prefix(const plan *of, const emit_repeat *repeat);

#endif
