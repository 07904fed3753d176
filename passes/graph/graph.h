/* SPDX-License-Identifier: Apache-2.0 */
/* graph.h: passes on what does not depend on memory: shapes, folding, lowering, fusion, dead code. */
#ifndef OURO_PASSES_GRAPH_H
#define OURO_PASSES_GRAPH_H

#include "passes/base/pass.h"

base_status pass_infer_shapes(pass_context *context);        /* infer_shapes.c */
base_status pass_fold_constants(pass_context *context);      /* fold_constants.c */
base_status pass_split_batch(pass_context *context);         /* split_batch.c */
base_status pass_drop_unread(pass_context *context);         /* drop_unread.c */
base_status pass_fuse_quantized(pass_context *context);      /* fuse_quantized.c */
base_status pass_lower_einsum(pass_context *context);        /* lower_einsum.c */
base_status pass_lower_recurrent(pass_context *context);     /* lower_recurrent.c */
base_status pass_eliminate_dead_code(pass_context *context); /* eliminate_dead_code.c */
base_status pass_check_constants(pass_context *context);     /* check_constants.c */
base_status pass_hoist_invariants(pass_context *context);    /* hoist_invariants.c */
base_status pass_quantize_weights(pass_context *context);    /* quantize_weights.c */
base_status pass_recognise_gelu(pass_context *context);
base_status pass_sink_transposes(pass_context *context);   /* sink_transposes.c */
base_status pass_turn_pools(pass_context *context);        /* turn_pools.c */
base_status pass_fuse(pass_context *context);              /* fuse.c */
base_status pass_order_channels(pass_context *context);    /* order_channels.c */
base_status pass_scale_channels(pass_context *context);    /* scale_channels.c */
base_status pass_unfold_phases(pass_context *context);     /* unfold_phases.c */
base_status pass_join_convolutions(pass_context *context); /* join_convolutions.c */

/* A ScatterND or GatherND whose constant indices go through whole axes names their slices. (shorten_indices.c; for
 * fold-constants) */
base_status pass_shorten_indices(pass_context *context, ir_node *node);
/* A Where that writes 1 for each -1 into the shape of an Expand: a Concat of extents takes its place. (expand_shapes.c; for
 * fold-constants) */
base_status pass_expand_shape(pass_context *context, ir_node *node);
/* A product can read its operand (0: left, 1: right) with the axes in this order: the innermost stays the depth of the left
 * one, and an axis of the matrix of the right one. (fuse.c) */
bool pass_is_walkable(const int64_t *order, int32_t rank, uint32_t operand);

#endif
