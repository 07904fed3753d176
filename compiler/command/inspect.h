/* SPDX-License-Identifier: Apache-2.0 */
/* inspect.h: what `ouro inspect` tells of two plans. */
#ifndef OURO_COMMAND_INSPECT_H
#define OURO_COMMAND_INSPECT_H

#include "runtime/plan/plan.h"

/* Prints where two plans differ: memory, operators, kernels, loops, and the tensors at the peak. `names` are what they are called. 0, or
 * the exit status with the message printed. */
int command_inspect_compare(const plan *a, const plan *b, const char *const *names, base_arena *arena);

#endif
