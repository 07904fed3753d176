/* simple.h: kernels whose primitive has one source and one destination in the same layout, and perhaps
 * vectors beside: pools, normalisations, reorders.
 */
#ifndef OURO_ONEDNN_SIMPLE_H
#define OURO_ONEDNN_SIMPLE_H

#include "runtime/kernels/onednn/primitive.h"

enum { RT_SIMPLE_VECTORS = 4 };

/* Prepares the kernel: src is input 0, dst is output 0, and input i + 1 is the vector with the oneDNN
 * argument vectors[i] (`count` of them). Closes the descriptor in any case. */
base_status rt_simple_prepare(rt_descriptor *open, const op_call *call, const int *vectors, int count,
                              base_arena *arena, rt_prepared *prepared, base_report *report);
void rt_simple_release(rt_prepared *prepared);

#endif
