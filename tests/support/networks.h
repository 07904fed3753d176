/* SPDX-License-Identifier: Apache-2.0 */
/* networks.h: random networks as text, whose maps and tokens can go by rows. */
#ifndef OURO_TEST_SUPPORT_NETWORKS_H
#define OURO_TEST_SUPPORT_NETWORKS_H

#include <stddef.h>
#include <stdint.h>

/* One input, [1 or 2, channels, 1 to 100, 1 to 12], in float32: convolutions and pools of any window, stride, dilation and
 * padding, residuals, concatenations, shuffles, what is element by element, global pools and what is scaled by them. Channels
 * are multiples of `block`. Every tensor that nobody reads is a result, and now and then another one. To be freed; NULL where
 * nothing fits that was drawn. */
char *support_network_of_maps(uint64_t seed, int64_t block, size_t *input_bytes);
/* One input, [1, tokens, width]: products, residuals, normalisations, Softmax along tokens' numbers, attention. */
char *support_network_of_tokens(uint64_t seed, size_t *input_bytes);
/* A layer of a transformer on [1, tokens, 16]: a token less its mean, attention, a feed-forward network, residuals. */
char *support_network_of_a_layer(int64_t tokens);
/* Channels that are shuffled, which are seen by themselves; and maps of blocks that are joined, which pools see. */
char *support_network_of_shuffles(size_t *input_bytes);
char *support_network_of_joins(size_t *input_bytes);

#endif
