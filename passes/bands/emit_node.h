/* SPDX-License-Identifier: Apache-2.0 */
/* emit_node.h: a node of a region in one band: the same operator on fewer rows, or one that reads them where they lie. */
#ifndef OURO_BANDS_EMIT_NODE_H
#define OURO_BANDS_EMIT_NODE_H

#include "passes/bands/emitter.h"

/* Makes these rows of all its results, and remembers them. What it reads is there. */
void band_emit_node(band_emitter *e, const band_node *own, band_rows made);

#endif
