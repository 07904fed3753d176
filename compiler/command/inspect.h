/* SPDX-License-Identifier: Apache-2.0 */
/* inspect.h: what `ouro inspect` tells of two plans, and of sessions. */
#ifndef OURO_COMMAND_INSPECT_H
#define OURO_COMMAND_INSPECT_H

#include "compiler/command/command.h"
#include "runtime/plan/plan.h"

/* Prints where two plans differ: memory, operators, kernels, loops, and the tensors at the peak. `names` are what they are called. 0, or
 * the exit status with the message printed. */
int command_inspect_compare(const plan *a, const plan *b, const char *const *names, base_arena *arena);

/* The bytes of a block of the caller (ouro_block_allocator) in which the plan can be opened, and of one for a session. */
typedef struct inspect_blocks {
    size_t plan, session;
} inspect_blocks;
/* What a run plans for the shapes of its inputs. */
typedef struct inspect_shapes {
    const char *inputs;       /* "x float32[4,16]": as they were given, or made up */
    size_t tensors;           /* that have a place */
    size_t bytes, bound, sum; /* of the block; live at most at one step; without reuse */
} inspect_shapes;
/* Of the plan file at `path`, with the dimensions of --dim and the shapes of --shape; those that are left open are 1. Draws the block
 * where `picture` names a file. Texts are in `arena`. 0, or the exit status with the message printed. */
int command_inspect_shapes(const command *self, const char *path, const command_list *dims,
                           const command_list *shapes, const char *picture, base_arena *arena,
                           inspect_shapes *told);

/* False where the plan is one of another machine, or memory runs out: then it is not known. */
bool command_inspect_blocks(const plan *of, inspect_blocks *blocks);

#endif
