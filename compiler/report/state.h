/* SPDX-License-Identifier: Apache-2.0 */
/* state.h: what reports, pictures and `ouro inspect` tell about the states of a plan: what it keeps from run to run. */
#ifndef OURO_EMIT_STATE_H
#define OURO_EMIT_STATE_H

#include "runtime/plan/plan.h"

typedef struct emit_state {
    const char *input, *output; /* the model's names */
    uint64_t bytes;             /* of one that grows: of its capacity; 0: not known before a run */
    uint64_t bound;             /* of one that grows: the most positions; 0: any number */
    int64_t axis;               /* along which it grows; -1: it does not */
    uint64_t period;            /* after how many runs its addresses repeat */
    uint64_t prologue;          /* how many runs come before that */
    uint64_t copied;            /* bytes that a run copies for its sake */
    /* Bytes that a caller would copy in each run who hands the output back as the input. */
    uint64_t caller_copied;
    const char *how; /* it is carried, in words */
} emit_state;

/* Measures state `index`. */
emit_state emit_state_measure(const plan *of, uint32_t index);
/* The multi-view of a state's parameter; NULL where it has one address. */
const plan_multiview *emit_state_view(const plan *of, uint32_t index);

#endif
