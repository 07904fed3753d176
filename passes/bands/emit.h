/* SPDX-License-Identifier: Apache-2.0 */
/* emit.h: a region becomes nodes for each of its first and last bands, and a loop for those between. */
#ifndef OURO_BANDS_EMIT_H
#define OURO_BANDS_EMIT_H

#include "passes/bands/region.h"
#include "runtime/kernels/table.h"

/* Puts the bands of the region in the place of its nodes, which go. `arena` is for what is needed on the way. Fails when memory
 * runs out. */
base_status band_emit(const band_region *region, const rt_environment *environment, base_arena *arena,
                      base_report *report);

#endif
