/* SPDX-License-Identifier: Apache-2.0 */
/* spill.h: what reports and `ouro inspect` tell about the values that a plan puts into a file and reads back. */
#ifndef OURO_EMIT_SPILL_H
#define OURO_EMIT_SPILL_H

#include "compiler/report/emit.h"
#include "runtime/plan/plan.h"
#include <stdio.h>

/* Of all that a run moves. */
typedef struct emit_spilled {
    uint64_t values, restores; /* how many are written, and how often one is read back */
    uint64_t written, read;    /* bytes */
} emit_spilled;

emit_spilled emit_spilled_sum(const plan *of);
/* Keys of the object at hand: the file, the sums, and `spilled`, a list of the values. Nothing where the plan has no spill file. */
void emit_spilled_emit(emit_buffer *json, const plan *of);
/* The same as text, the largest few. */
void emit_spilled_print(FILE *file, const plan *of);

#endif
