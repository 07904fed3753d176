/* SPDX-License-Identifier: Apache-2.0 */
/* tokens.h: what works on each token alone is seen as work on rows. */
#ifndef OURO_TOKENS_H
#define OURO_TOKENS_H

#include "ir/ir.h"

/* Nodes of the graph that make tensors [N, T, D] token by token (products with constant matrices, what is element by element,
 * normalisations of a token) make [1, 1, N * T, D], the same bytes, of which tokens are rows (row_maps.h). False when memory
 * runs out. */
bool band_tokens_to_rows(ir_graph *graph);

#endif
