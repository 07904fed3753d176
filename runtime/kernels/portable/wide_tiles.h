/* SPDX-License-Identifier: Apache-2.0 */
/* wide_tiles.h: the innermost loops of products of floats on machines with AVX-512, or AVX2 and FMA, where a product and its sum are
 * rounded once. */
#ifndef OURO_WIDE_TILES_H
#define OURO_WIDE_TILES_H

#include "runtime/kernels/portable/product.h"

enum { RT_WIDE_ROWS = 14 /* of the largest tile */ };

/* Whether the machine has them; in vectors of 16 floats (AVX-512). */
bool rt_wide_tiles_here(void);
bool rt_wide_vectors_here(void);
/* What rt_tiles_run does of `fused` tiles, there. */
void rt_wide_tiles_run(const rt_tiles *tiles);

#endif
