/* SPDX-License-Identifier: Apache-2.0 */
/* microsoft.h: the converters of the domain com.microsoft, whose table is in microsoft.c. What an operator means is told by ONNX
 * Runtime's page ContribOperators.md. */
#ifndef OURO_IMPORT_MICROSOFT_H
#define OURO_IMPORT_MICROSOFT_H

#include "compiler/onnx/convert/expression.h"

/* ---- microsoft_quantized.c ---- */
base_status import_convert_ms_quantize(import_node *n);
base_status import_convert_ms_qlinear_binary(import_node *n);
base_status import_convert_ms_qlinear_unary(import_node *n);
base_status import_convert_ms_qlinear_pool(import_node *n);
base_status import_convert_ms_qlinear_global_pool(import_node *n);
base_status import_convert_ms_qlinear_concat(import_node *n);
base_status import_convert_ms_qlinear_softmax(import_node *n);
base_status import_convert_ms_qlinear_where(import_node *n);
base_status import_convert_ms_qlinear_reduce_mean(import_node *n);
base_status import_convert_ms_qlinear_convolution(import_node *n);
base_status import_convert_ms_qgemm(import_node *n);
base_status import_convert_ms_matmul_integer_to_float(import_node *n);
base_status import_convert_ms_dynamic_quantize_matmul(import_node *n);
base_status import_convert_ms_reduce_sum_integer(import_node *n);
base_status import_convert_ms_matmul_integer_16(import_node *n);
base_status import_convert_ms_nhwc_max_pool(import_node *n);
base_status import_convert_ms_gather_block_quantized(import_node *n);

/* ---- microsoft_attention.c ---- */
base_status import_convert_ms_attention(import_node *n);
base_status import_convert_ms_multi_head_attention(import_node *n);
base_status import_convert_ms_group_query_attention(import_node *n);
base_status import_convert_ms_rotary_embedding(import_node *n);

#endif
