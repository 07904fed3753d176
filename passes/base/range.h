/* SPDX-License-Identifier: Apache-2.0 */
/* range.h: ranges of bytes (ir/operators/range.h) that nodes cut. */
#ifndef OURO_PASS_RANGE_H
#define OURO_PASS_RANGE_H

#include "ir/ir.h"
#include "ir/operators/range.h"

/* The only axis that a Slice with constant bounds cuts, in steps of 1, and the first position that is left; *cut -1: none is. */
bool pass_slice_cut(const ir_node *node, int32_t *cut, int64_t *first);
/* The range of its input that a Slice with constant bounds is: at most one axis is cut, in steps of 1. */
bool pass_range_of_slice(const ir_node *node, op_range *result);

#endif
