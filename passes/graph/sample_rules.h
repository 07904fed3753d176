/* SPDX-License-Identifier: Apache-2.0 */
/* sample_rules.h: which operators keep the samples of a batch apart. */
#ifndef OURO_SAMPLE_RULES_H
#define OURO_SAMPLE_RULES_H

#include "ir/operators/op.h"

/* The axis along which a tensor has the samples: the only one whose extent is `batch`. -1: it has none. */
int32_t pass_sample_axis(const op_shape *shape, int64_t batch);

/* A run of the operator on all samples gives each sample what a run on it alone would give. Every extent in `call` is a number or `batch`,
 * which no tensor has twice, and what is known of inputs that are no constants is in their `symbolic`. An operator without a rule here
 * gives false. */
bool pass_sample_rule_holds(const op_call *call, int64_t batch);

#endif
