/* SPDX-License-Identifier: Apache-2.0 */
/* microsoft.h: the converters of the domain com.microsoft, whose table is in microsoft.c. What an operator means is told by ONNX
 * Runtime's page ContribOperators.md. */
#ifndef OURO_IMPORT_MICROSOFT_H
#define OURO_IMPORT_MICROSOFT_H

#include "compiler/onnx/convert/expression.h"

/* ---- microsoft_activation.c ---- */
/* What the attribute activation names, with these parameters, applied to *y; or with those of activation_params. */
base_status import_ms_activated_with(const import_node *n, ir_value **y, const float *given, size_t count);
base_status import_ms_activated(const import_node *n, ir_value **y);

/* ---- microsoft_quantized.c ---- */
/* Numbers of 8 bits as reals; the scale and the zero point, which may be absent, have one element each. */
ir_value *import_ms_dequantized(const import_node *n, ir_value *x, ir_value *scale, ir_value *zero);
/* (a - a_zero) (b - b_zero) a_scale b_scale + bias, of bytes; what belongs to b may have one number a column. Zero points and bias
 * may be absent. */
ir_value *import_ms_integer_product_scaled(const import_node *n, ir_value *a, ir_value *b, ir_value *a_zero,
                                           ir_value *b_zero, ir_value *a_scale, ir_value *b_scale,
                                           ir_value *bias);
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
base_status import_convert_ms_multiply_integers(import_node *n);
base_status import_convert_ms_gather_block_quantized(import_node *n);

/* ---- microsoft_images.c ---- */
/* NHWC to NCHW, or back; `rank` is at least 3. */
ir_value *import_ms_channels_moved(const import_node *n, ir_value *x, int32_t rank, bool to_front);
/* Input 0 has a known type, and with channels `last` a known rank. */
base_status import_ms_check_image(const import_node *n, bool last);
base_status import_convert_ms_group_norm(import_node *n);
base_status import_convert_ms_nhwc_convolution(import_node *n);
base_status import_convert_ms_nhwc_max_pool(import_node *n);
base_status import_convert_ms_padded_transposed_convolution(import_node *n);
base_status import_convert_ms_crop_and_resize(import_node *n);

/* ---- microsoft_weights.c ---- */
/* What MatMulNBits and GatherNBits are told of their codes: so many numbers deep, so many columns, bits a number, and numbers that share a
 * scale. False when memory runs out. */
bool import_ms_add_bits(const import_node *n, op_attributes *attributes, int64_t depth, int64_t columns,
                        int64_t bits, int64_t block);
base_status import_convert_ms_matmul_bnb4(import_node *n);

/* ---- microsoft_linear.c ---- */
base_status import_convert_ms_linear_attention(import_node *n);
base_status import_convert_ms_linear_attention_gate(import_node *n);
base_status import_convert_ms_gated_norm(import_node *n);
base_status import_convert_ms_gated_add(import_node *n);
base_status import_convert_ms_multimodal_rotary_embedding(import_node *n);
base_status import_convert_ms_engram_gate(import_node *n);
base_status import_convert_ms_ngram_hash(import_node *n);

/* ---- microsoft_experts.c ---- */
base_status import_convert_ms_mixture(import_node *n);
base_status import_convert_ms_quantized_mixture(import_node *n);

/* ---- generation_greedy.c, generation_beam.c ---- */
base_status import_convert_ms_greedy_search(import_node *n);
base_status import_convert_ms_sampling(import_node *n);
base_status import_convert_ms_beam_search(import_node *n);
base_status import_convert_ms_whisper_beam_search(import_node *n);

/* ---- microsoft_arrays.c ---- */
base_status import_convert_ms_expand_dims(import_node *n);
base_status import_convert_ms_range(import_node *n);
base_status import_convert_ms_complex_product(import_node *n);
base_status import_convert_ms_distances(import_node *n);
base_status import_convert_ms_unique(import_node *n);
base_status import_convert_ms_unfold(import_node *n);
base_status import_convert_ms_is_all_finite(import_node *n);
base_status import_convert_ms_ngram_repeat_block(import_node *n);
base_status import_convert_ms_real_fourier(import_node *n);
base_status import_convert_ms_inverse_real_fourier(import_node *n);
base_status import_convert_ms_gemma_rotary_embedding(import_node *n);

/* ---- microsoft_attention.c ---- */
base_status import_convert_ms_attention(import_node *n);
base_status import_convert_ms_quantized_attention(import_node *n);
base_status import_convert_ms_decoder_masked_attention(import_node *n);
base_status import_convert_ms_multi_head_attention(import_node *n);
base_status import_convert_ms_group_query_attention(import_node *n);
base_status import_convert_ms_rotary_embedding(import_node *n);

#endif
