/* SPDX-License-Identifier: Apache-2.0 */
/* global_pools.h: a pool of a whole map is a pool of each row, and then of what these give. */
#ifndef OURO_GLOBAL_POOLS_H
#define OURO_GLOBAL_POOLS_H

#include "ir/ir.h"
#include "runtime/kernels/base/kernel.h"

/* Global pools of the graph, and means over its rows and columns, read one number a row, which a pool of windows as wide as the
 * map has made: that can be done band by band, so that the map need not be whole. Averages are summed in another order so: not
 * where the same bits are wanted (portable_only). A map that lies as no kernel pools its rows stays whole. False when memory runs out. */
bool band_split_global_pools(ir_graph *graph, const rt_environment *environment);

#endif
