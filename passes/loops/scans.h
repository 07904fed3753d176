/* SPDX-License-Identifier: Apache-2.0 */
/* scans.h: more tensors that a loop scans. */
#ifndef OURO_SCANS_H
#define OURO_SCANS_H

#include "ir/loop.h"
#include "passes/base/pass.h"

/* The type of a slice of such a tensor along this axis, which it has. */
op_type loop_scan_slice_type(const op_type *whole, int32_t axis);
/* The body's parameter for slices of `whole` along this axis, where the loop scans it already; else NULL. */
ir_value *loop_scan_find(const ir_loop *loop, const ir_value *whole, int32_t axis, bool backwards);
/* The loop scans this too: the parameter for its slices. What is known of the loop is out of date then (ir_loop_of). NULL when
 * memory runs out. */
ir_value *loop_scan_add(pass_context *context, const ir_loop *loop, ir_value *whole, int32_t axis,
                        bool backwards);
/* Scanned tensor `index` becomes this one, which has as many slices, in the same direction: the parameter gets the type of these. False when
 * memory runs out. */
bool loop_scan_replace(pass_context *context, const ir_loop *loop, uint32_t index, ir_value *whole,
                       int32_t axis);

#endif
