/* SPDX-License-Identifier: Apache-2.0 */
/* regions.h: offsets of storages, as pass_allocate gives them and choose-kernels tries them. */
#ifndef OURO_PASSES_REGIONS_H
#define OURO_PASSES_REGIONS_H

#include "passes/base/pass.h"
#include "passes/planners/planners.h"

/* Whether the planner of its graph gives the storage its offset. */
bool pass_is_placed(const pass_storage *storage);

/* Offsets for all storages in the arena, graph by graph, by the planner of pass_options.allocator; a storage for what the
 * sub-graphs of each control node need; pass_memory's regions, arena_bytes, lower_bound_bytes, optimal and sum_bytes.
 * `graphs` as made by pass_graphs_outermost_first; `options` says how long the planner may search. Needs the order and live
 * ranges. Fails when memory runs out, the planner is not known, or a sum of bytes overflows. */
base_status pass_place_regions(pass_context *context, const planner_options *options,
                               ir_graph *const *graphs, size_t graph_count);

/* Offsets in the spill file for what lies there, by the same planner; pass_memory.spill_bytes. Fails as pass_place_regions does. */
base_status pass_place_spills(pass_context *context, const planner_options *options);

/* What pass_place_regions would make of the storages as they are now: *arena_bytes, and by node id (of node_count entries; may
 * be NULL) whether a storage that ends above `limit` bytes is live in the node's step. Of the memory plan only offsets and
 * regions change, which mean nothing before pass_allocate. Fails as pass_place_regions does. */
base_status pass_try_regions(pass_context *context, const planner_options *options, ir_graph *const *graphs,
                             size_t graph_count, size_t limit, size_t *arena_bytes, bool *above);

#endif
