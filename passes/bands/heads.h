/* SPDX-License-Identifier: Apache-2.0 */
/* heads.h: tokens that are dealt out to the heads of an attention, and put together again, in a way that goes token by token. */
#ifndef OURO_BANDS_HEADS_H
#define OURO_BANDS_HEADS_H

#include "ir/ir.h"

/* Of each attention whose scores are at least so many bytes, the queries and what comes of them; after tokens are rows (tokens.h). False when
 * memory runs out. */
bool band_heads_by_tokens(ir_graph *graph, size_t least_bytes);

#endif
