/* SPDX-License-Identifier: Apache-2.0 */
/* resizes.h: rows of a Resize that it does not repeat one as often as the other are gathered. */
#ifndef OURO_RESIZES_H
#define OURO_RESIZES_H

#include "ir/ir.h"
#include "runtime/kernels/table.h"

/* Each Resize of the graph to nearest rows, several to one of the image but not equally many, takes only columns any more: a Gather before
 * it takes the rows. False when memory runs out. `arena` is for what is needed on the way. */
bool band_gather_resized_rows(ir_graph *graph, const rt_environment *environment, base_arena *arena);

#endif
