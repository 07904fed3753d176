/* SPDX-License-Identifier: Apache-2.0 */
/* joined.h: nodes that read rows which are kept, and rows which are new, where they lie. */
#ifndef OURO_BANDS_JOINED_H
#define OURO_BANDS_JOINED_H

#include "passes/bands/region.h"
#include "runtime/kernels/table.h"

/* Can what the node reads by rows come from two tensors, as JoinedConv and JoinedMaxPool have it? So it is on machines with AVX-512, where its image
 * is row-major or lies in blocks: where channels are innermost, parts of a window are read where they lie anyhow. `arena` is for what is needed on the way. */
bool band_reads_joined(const ir_node *node, const rt_environment *environment, base_arena *arena);
/* A node of the region makes the value, and all of its nodes that read it take rows so. Where others need them side by side, these would be there beside what
 * they are copied from. */
bool band_all_read_joined(const band_region *region, const ir_value *value, const rt_environment *environment,
                          base_arena *arena);
/* The operator that reads rows so, in place of that of the node. */
op_code band_joined_code(const ir_node *node);

#endif
