/* SPDX-License-Identifier: Apache-2.0 */
/* simple.h: kernels whose primitive has one source and one destination in the same layout, and perhaps
 * vectors beside: pools, normalisations, reorders.
 */
#ifndef OURO_ONEDNN_SIMPLE_H
#define OURO_ONEDNN_SIMPLE_H

#include "runtime/kernels/onednn/primitive.h"

enum { RT_SIMPLE_VECTORS = 4 };

/* Opens the descriptor of an application whose types fit; false, and closed, where oneDNN has none that is worth it. */
typedef bool rt_simple_open(const op_call *call, const rt_environment *environment, rt_descriptor *open);

/* All is float and known, the primitive exists, and the layouts of source and destination are equal (`same`), or not. */
bool rt_simple_accepts(const op_call *call, const rt_environment *environment, bool same,
                       rt_simple_open *open);

/* Prepares the kernel: src is input 0, dst is output 0, and input i + 1 is the vector with the oneDNN
 * argument vectors[i] (`count` of them). */
base_status rt_simple_prepare(const op_call *call, const rt_environment *environment, rt_simple_open *open,
                              const int *vectors, int count, base_arena *arena, rt_prepared *prepared,
                              base_report *report);
void rt_simple_release(rt_prepared *prepared);

#endif
