/* SPDX-License-Identifier: Apache-2.0 */
/* groups.h: nodes that a picture of a large graph draws as one box: those whose names begin alike, as exporters name the nodes of a
 * layer. */
#ifndef OURO_EMIT_GROUPS_H
#define OURO_EMIT_GROUPS_H

#include "compiler/report/repeats.h"

typedef struct emit_groups {
    uint32_t *
        first; /* by node: the first node of its group, by which the group is known; itself where it is drawn alone */
    uint32_t *
        count; /* by node: how many nodes its group has, of the first; 1: it is drawn alone; of the others 0 */
    uint32_t *name; /* by first node: how many bytes of its name all have in common */
    size_t groups;  /* of more than one node */
} emit_groups;

/* Groups the nodes of each graph that `folding` would draw as more than `most` boxes, so that about `remaining` are left. A group is of one graph, and
 * in a repeat of the block that is drawn; nodes with sub-graphs are drawn alone. The largest groups are divided first, at the '/' and '.'
 * of their names. Where names do not help, nodes that follow each other are a group. False when memory runs out. */
bool emit_group(const plan *of, const emit_folding *folding, size_t most, size_t remaining, base_arena *arena,
                emit_groups *groups);

#endif
