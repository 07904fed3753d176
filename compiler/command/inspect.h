/* SPDX-License-Identifier: Apache-2.0 */
/* inspect.h: what `ouro inspect` tells of two plans, and of sessions. */
#ifndef OURO_COMMAND_INSPECT_H
#define OURO_COMMAND_INSPECT_H

#include "runtime/plan/plan.h"

/* Prints where two plans differ: memory, operators, kernels, loops, and the tensors at the peak. `names` are what they are called. 0, or
 * the exit status with the message printed. */
int command_inspect_compare(const plan *a, const plan *b, const char *const *names, base_arena *arena);

/* The bytes of a block of the caller (ouro_block_allocator) in which the plan can be opened, and of one for a session. */
typedef struct inspect_blocks {
    size_t plan, session;
} inspect_blocks;
/* False where the plan is one of another machine, or memory runs out: then it is not known. */
bool command_inspect_blocks(const plan *of, inspect_blocks *blocks);

#endif
