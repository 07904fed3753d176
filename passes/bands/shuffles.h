/* SPDX-License-Identifier: Apache-2.0 */
/* shuffles.h: channels that are only put in another order are gathered, which can be done row by row. */
#ifndef OURO_BANDS_SHUFFLES_H
#define OURO_BANDS_SHUFFLES_H

#include "ir/ir.h"

/* Every Reshape, Transpose and Reshape of the graph that put channels in another order become one Gather. False when memory runs
 * out. */
bool band_gather_shuffles(ir_graph *graph);

#endif
