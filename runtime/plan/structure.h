/* SPDX-License-Identifier: Apache-2.0 */
/* structure.h: what the files that check the structure of a plan share; see runtime/plan/structure.c.
 *
 * - structure_fail.c: messages
 * - structure.c: indices, texts, sizes; graphs and nodes, scopes
 * - structure_types.c: types that follow from one another
 * - structure_memory.c: where operands lie: presence, memory spaces, alignment, multi-views
 * - structure_spills.c: what lies in the spill file
 *
 * Functions that return bool return false after a report.
 */
#ifndef OURO_PLAN_STRUCTURE_H
#define OURO_PLAN_STRUCTURE_H

#include "runtime/plan/plan.h"

typedef struct structure_checker {
    const plan *of;
    const plan_host *host; /* NULL: kernels need not exist */
    base_report *report;
    base_arena arena;
    char file[BASE_REPORT_CONTEXT];
    uint32_t *depth; /* of graphs: main has 0 */
    /* By tensor id: 0: nothing defines it; 1: a parameter; else the number of its node + 2. */
    uint64_t *defined;
} structure_checker;

/* The plan is malformed, for this reason. */
__attribute__((format(printf, 2, 3))) bool structure_fail(structure_checker *c, const char *format, ...);
/* Output types follow from input types, of control nodes from their graphs. (structure_types.c) */
bool structure_check_types(structure_checker *c);
/* Multi-views belong to loops, and what they refer to ends. Goes before structure_check_operands. (structure_memory.c) */
bool structure_check_multiviews(structure_checker *c);
/* Each operand that an operator needs is there, has memory, and is aligned to its elements. (structure_memory.c) */
bool structure_check_operands(structure_checker *c);
/* What lies in the spill file is made by Spill, and read by Restore alone. Goes after structure_check_operands. (structure_spills.c) */
bool structure_check_spills(structure_checker *c);

#endif
