/* SPDX-License-Identifier: Apache-2.0 */
/* layout.h: passes on layouts and kernels. */
#ifndef OURO_PASSES_LAYOUT_H
#define OURO_PASSES_LAYOUT_H

#include "passes/base/pass.h"

base_status pass_halve_weights(pass_context *context);       /* halve_weights.c */
base_status pass_halve_tables(pass_context *context);        /* halve_tables.c */
base_status pass_block_float_weights(pass_context *context); /* block_float_weights.c */
base_status pass_compress_weights(pass_context *context);    /* compress_weights.c */
base_status pass_share_tables(pass_context *context);        /* share_tables.c */
base_status pass_select_layouts(pass_context *context);      /* select_layouts.c */
base_status pass_carry_layouts(pass_context *context);       /* carry_layouts.c */
base_status pass_fuse_attention(pass_context *context);      /* fuse_attention.c */
base_status pass_fuse_normalization(pass_context *context);  /* fuse_normalization.c */
base_status pass_sum_bytes(pass_context *context);           /* sum_bytes.c */
base_status pass_fuse_reductions(pass_context *context);     /* fuse_reductions.c */
base_status pass_fuse_shuffles(pass_context *context);       /* fuse_shuffles.c */
base_status pass_fuse_elementwise(pass_context *context);    /* fuse_elementwise.c */
base_status pass_select_kernels(pass_context *context);      /* select_kernels.c */

/* Bytes of floats that a near cache holds. From there, numbers of 16 bits take up to 1.2 of the time that floats take; from beyond, 0.3 to 0.6. */
enum { PASS_NEAR_BYTES = 1 << 20 };

/* A constant table that is left as it is: what it takes is little, or is in a near cache anyway. In plans for any machine, which may be one with little
 * memory, few tables are. */
static inline bool pass_is_small_table(const ir_value *table, const pass_options *options) {
    enum { FEWEST_NUMBERS = 4096 };
    const size_t bytes = table->constant->tensor.bytes;
    return bytes < FEWEST_NUMBERS * op_dtype_bytes(table->type.dtype) ||
           (!options->environment.portable_only && bytes <= PASS_NEAR_BYTES);
}

/* The last cache that a core reads from has 32 MiB in most processors that large models run on. Where memory is as fast as 40 GB/s for one core,
 * floats of 52 MiB still take 0.86 of the time of codes of 28 bits, and of 72 MiB as long; of more, codes win. */
enum { PASS_CACHED_BYTES = 64 << 20 };

static inline size_t pass_cached_bytes(const pass_options *options) {
    return options->cached_weight_bytes ? options->cached_weight_bytes : PASS_CACHED_BYTES;
}

/* A weight as it is stored in float16, bfloat16 or int16 (then weight / scale, rounded), and what it is then. (halve_weights.c) */
float pass_store_weight(op_dtype dtype, float weight, float scale, uint16_t *stored);

/* OP_BFLOAT16 or OP_FLOAT16, if all of these are numbers of it, and finite; or OP_NONE. (halve_weights.c) */
op_dtype pass_lossless_type(const float *numbers, int64_t count);

/* Of a product with a constant matrix: rows that this is multiplied by; -1: only a run knows. (halve_weights.c) */
int64_t pass_product_rows(const ir_node *node);

/* A plan that keeps states which grow, as caches do, makes one token after the other, and so does a model that hands its caches on: of a number of rows
 * that only a run knows, it mostly is one.
 * (halve_weights.c) */
bool pass_makes_tokens(const ir_module *module);

/* The shapes of all inputs and outputs that are there are known. (select_kernels.c) */
bool pass_shapes_known(const ir_node *node);
/* A kernel accepts the node, and can be prepared for it: weights that are packed for some extents may be of no use for a few rows of an
 * image. (select_kernels.c) */
bool pass_can_run(const pass_context *context, ir_node *node, base_arena *arena);
/* Gives the dynamic dimensions of an application some numbers, to ask kernels about: the same for equal symbols, different ones
 * for others; the outputs are inferred from these. False: nothing is open, or what the outputs are does not follow from
 * extents (or memory ran out): it stays as it is. (example_extents.c) */
bool pass_example_extents(op_call *call, base_arena *arena);
/* The same, to ask about layouts: what is put side by side or combined element by element may be taken to have extents that are alike. A
 * run in which they are not goes through row-major copies. */
bool pass_example_layouts(op_call *call, base_arena *arena);
/* The same for an application on images, of one image where their number is open. */
bool pass_example_image(op_call *call, base_arena *arena);

#endif
