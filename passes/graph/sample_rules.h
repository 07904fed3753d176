/* SPDX-License-Identifier: Apache-2.0 */
/* sample_rules.h: which operators keep the samples of a batch apart. */
#ifndef OURO_SAMPLE_RULES_H
#define OURO_SAMPLE_RULES_H

#include "ir/ir.h"

typedef struct pass_batch {
    const ir_module *module;
    int64_t symbol; /* the dimension that says how many samples there are */
} pass_batch;

/* How many positions each sample has along an axis of this extent: k of k * N, where N is the batch. 0: the extent is something else. */
int64_t pass_batch_positions(const pass_batch *batch, int64_t extent);
/* The axis along which a tensor has the samples: the only one whose extent is the batch or a multiple of it. -1: it has none. */
int32_t pass_sample_axis(const pass_batch *batch, const op_shape *shape);

/* Along an axis of k * N positions the samples come as [k / i][N][i]: so many times all samples, each with i positions side by side. This is the
 * first number, k / i; PASS_ANY_TIMES: all positions are the same. */
enum { PASS_ANY_TIMES = 0 };

/* A run of the operator on all samples gives each sample what a run on it alone would give. Every extent in `call` is a number, the batch or
 * a multiple of it, of which no tensor has two, and what is known of inputs that are no constants is in their `symbolic`. *times is that of
 * the inputs, and becomes that of the outputs. An operator without a rule here gives false. */
bool pass_sample_rule_holds(const pass_batch *batch, const op_call *call, int64_t *times);

#endif
