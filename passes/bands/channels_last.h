/* SPDX-License-Identifier: Apache-2.0 */
/* channels_last.h: in a region whose channels are innermost, rows lie one after another: windows of rows are made where they are
 * read, and parts of them are read where they lie.
 */
#ifndef OURO_CHANNELS_LAST_H
#define OURO_CHANNELS_LAST_H

#include "passes/bands/row_maps.h"
#include "runtime/kernels/table.h"

/* Can the node, which band_node_supported, work on tensors whose channels are innermost, and is that as good for it? Not for a
 * Concat of channels, which is free in other layouts. `arena` is for what is needed on the way. */
bool band_keeps_channels_last(const ir_node *node, const rt_environment *environment, base_arena *arena);

/* Is the node a convolution of an image that comes row-major from outside, and can some of its rows be made from that where it lies, as
 * RowsConv does? */
bool band_reads_in_place(const ir_node *node, const rt_environment *environment, base_arena *arena);

/* The nodes from *first to *last of one graph, all of which band_keeps_channels_last, get their channels innermost: what they read from outside
 * is reordered before it is read, if it is not read in place (such a Conv has the weights of RowsConv then), and what is read outside after it
 * was made. *first and *last become those of the region with these Reorders. In a trial, a module that is only planned, weights are without
 * numbers. */
base_status band_put_channels_last(ir_node **first, ir_node **last, const rt_environment *environment,
                                   bool trial, base_arena *arena, base_report *report);

#endif
