/* SPDX-License-Identifier: Apache-2.0 */
/* convert.h: from any version of an operator to its canonical form: one row per (operator, versions), one family of
 * operators a file. */
#ifndef OURO_IMPORT_CONVERT_H
#define OURO_IMPORT_CONVERT_H

#include "compiler/onnx/base/importer.h"

/* ---- the table (convert.c) ----------------------------------------------------------------------------- */

/* The rows of one domain, in a file of its own where there are many: an operator of another domain that the default domain has
 * too, or that is made of its operators, is converted to these; what is left has a row in ops.def under its domain and name. */
typedef struct import_table {
    const import_row *rows;
    size_t count;
} import_table;
extern const import_table import_table_microsoft; /* microsoft.c */
extern const import_table import_table_ml;        /* ml.c */

/* Table `index` of conversions, *count rows; NULL after the last. */
const import_row *import_rows(size_t index, size_t *count);

/* How an operator of a version is converted; false where it is not supported. */
bool import_row_find(const char *domain, const char *name, int64_t version, import_row *row);

/* Converters, by family. */
base_status import_convert_constant(import_node *node); /* generate.c */
base_status import_convert_dropout(import_node *node);
base_status import_convert_random(import_node *node);
base_status import_convert_range(import_node *node);
base_status import_convert_broadcast(import_node *node); /* elementwise.c */
base_status import_convert_variadic(import_node *node);
base_status import_convert_mean(import_node *node);
base_status import_convert_clip(import_node *node);
base_status import_convert_cast(import_node *node);
base_status import_convert_prelu(import_node *node);
base_status import_convert_axes(import_node *node); /* reduce.c */
base_status import_convert_softmax(import_node *node);
base_status import_convert_batch_normalization(import_node *node);
base_status import_convert_slice(import_node *node); /* movement.c */
base_status import_convert_split(import_node *node);
base_status import_convert_pad(import_node *node);
base_status import_convert_reshape(import_node *node);
base_status import_convert_concat(import_node *node);
base_status import_convert_tile(import_node *node);
base_status import_convert_if(import_node *node); /* control.c */
base_status import_convert_loop(import_node *node);
base_status import_convert_scan(import_node *node);
base_status import_convert_scan_batched(import_node *node);
base_status import_convert_scaled(import_node *node); /* experimental.c */
base_status import_convert_image_scaler(import_node *node);
base_status import_convert_crop(import_node *node);
base_status import_convert_dynamic_slice(import_node *node);
base_status import_convert_constant_fill(import_node *node);
base_status import_convert_old_mean_variance(import_node *node);
base_status import_convert_old_upsample(import_node *node);
base_status import_convert_gradient(import_node *node);     /* gradient.c */
base_status import_convert_sequence_map(import_node *node); /* sequence.c */
base_status import_convert_resize(import_node *node);
base_status import_convert_roi_align(import_node *node);
base_status import_convert_lp_pool(import_node *node);
base_status import_convert_global_lp_pool(import_node *node);
base_status import_convert_scatter(import_node *node);
base_status import_convert_top_k(import_node *node);
base_status import_convert_reduce_composed(import_node *node); /* compose.c */
base_status import_convert_cast_like(import_node *node);
base_status import_convert_shrink(import_node *node);
base_status import_convert_mean_variance(import_node *node);
base_status import_convert_lp_normalization(import_node *node);
base_status import_convert_instance_normalization(import_node *node);
base_status import_convert_layer_normalization(import_node *node);
base_status import_convert_hardmax(import_node *node);
base_status import_convert_hardmax_flat(import_node *node);
base_status import_convert_likelihood_loss(import_node *node);
base_status import_convert_cross_entropy_loss(import_node *node);
base_status import_convert_window(import_node *node);
base_status import_convert_dft(import_node *node);
base_status import_convert_grid_sample(import_node *node);
base_status import_convert_attention(import_node *node); /* attention.c */
base_status import_convert_causal_conv(import_node *node);
base_status import_convert_flex_attention(import_node *node);
base_status import_convert_group_normalization(import_node *node); /* normalization.c */
base_status import_convert_rms_normalization(import_node *node);
base_status import_convert_center_crop_pad(import_node *node);      /* movement.c */
base_status import_convert_bit_cast(import_node *node);             /* elementwise.c */
base_status import_convert_qlinear_matmul(import_node *node);       /* compose.c */
base_status import_convert_optional_has_element(import_node *node); /* sequence.c */
base_status import_convert_optional_get_element(import_node *node);

#endif
