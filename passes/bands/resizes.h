/* SPDX-License-Identifier: Apache-2.0 */
/* resizes.h: rows that a Resize repeats, but not all equally often, are gathered. */
#ifndef OURO_RESIZES_H
#define OURO_RESIZES_H

#include "ir/ir.h"
#include "runtime/kernels/table.h"

/* Each Resize of the graph to nearest rows that repeats rows of the image, but not all equally often, repeats only columns from now on: a Gather before
 * it repeats the rows. False when memory runs out. `arena` is for what is needed on the way. */
bool band_gather_resized_rows(ir_graph *graph, const rt_environment *environment, base_arena *arena);

#endif
