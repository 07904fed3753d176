/* SPDX-License-Identifier: Apache-2.0 */
/* work.h: how much arithmetic a node of a plan does, and how many bytes it reads and writes: what its time is held against. */
#ifndef OURO_WORK_H
#define OURO_WORK_H

#include "runtime/plan/plan.h"

/* One execution of a node. Multiplications and additions count one each. A node that only moves data has no operations, and
 * reads as much as it writes. Where an extent is not known before a run, it is 1. */
typedef struct work {
    double operations, bytes;
} work;

/* Attributes come from `arena`. False when memory runs out. */
bool emit_work_of_node(const plan *of, uint32_t node, base_arena *arena, work *result);

#endif
