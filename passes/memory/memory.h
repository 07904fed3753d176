/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h: passes on storages: aliases, in place, order, live ranges, offsets. */
#ifndef OURO_PASSES_MEMORY_H
#define OURO_PASSES_MEMORY_H

#include "passes/base/pass.h"

base_status pass_recompute(pass_context *context);        /* recompute.c */
base_status pass_weigh_spills(pass_context *context);     /* weigh_spills.c */
base_status pass_spill(pass_context *context);            /* spill.c */
base_status pass_prepare_results(pass_context *context);  /* prepare_results.c */
base_status pass_join_aliases(pass_context *context);     /* join_aliases.c */
base_status pass_reserve_bounds(pass_context *context);   /* reserve_bounds.c */
base_status pass_schedule(pass_context *context);         /* schedule.c */
base_status pass_choose_in_place(pass_context *context);  /* choose_in_place.c */
base_status pass_analyse_liveness(pass_context *context); /* analyse_liveness.c */
base_status pass_choose_kernels(pass_context *context);   /* choose_kernels.c */
base_status pass_allocate(pass_context *context);         /* allocate.c */

/* ---- the plan for an order (memory_plan.c) --------------------------------------------------------------- */

/* The memory plan for this order: what is made over what dies (choose-in-place), where carried values lie in each iteration
 * (analyse-loops), when each storage is live (analyse-liveness). A function of context->memory, the storages and aliases
 * that are there before an order is chosen, and the order: neither these nor the module change. *plan lives in `arena`; it
 * has no offsets yet. Fails when memory runs out, or a tensor is too large to be rounded up. */
base_status pass_memory_plan(const pass_context *context, const pass_order *order, base_arena *arena,
                             pass_memory **plan);

/* ---- the verifier of memory plans (verify.c) -------------------------------------------------------------- */

/* Whether the memory plan keeps the rules of storage.h, as far as passes have come: storages and aliases, the order,
 * multi-views, live ranges, offsets. `when` ("schedule") goes into the message. BASE_INVALID, naming the first that is broken;
 * fails when memory runs out. Slow and obvious: for debug builds and tests. */
base_status pass_memory_verify(const pass_memory *memory, const ir_module *module, const char *when,
                               base_report *report);

/* ---- peaks (peaks.c) ------------------------------------------------------------------------------------ */

/* By graph id, the largest sum of bytes that the storages in the arena of each of these graphs have live at
 * one step, after analyse-liveness. What sub-graphs have live counts in their control node's step. `graphs`
 * as made by pass_graphs_outermost_first. False when memory runs out. */
bool pass_region_peaks(const pass_memory *memory, ir_graph *const *graphs, size_t graph_count,
                       base_arena *scratch, size_t *peaks);
/* By graph id, then by step: the bytes that the graph's own storages in the arena have live, without those of sub-graphs.
 * In `scratch`; NULL when memory runs out. */
size_t **pass_region_live(const pass_memory *memory, ir_graph *const *graphs, size_t graph_count,
                          base_arena *scratch);

#endif
