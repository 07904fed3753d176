/* SPDX-License-Identifier: Apache-2.0 */
/* range.h: which bytes of a value a part of it is, where these lie together.
 *
 * Ranges are counted in bytes of the layout: a range of an axis is contiguous if all axes that lie outside of it in memory have
 * extent 1. Channels in blocks are the outermost axis of an image, and ranges of whole blocks are ranges.
 */
#ifndef OURO_OP_RANGE_H
#define OURO_OP_RANGE_H

#include "ir/operators/op.h"

typedef struct op_range {
    size_t offset, bytes;
} op_range;

/* The only axis that a Slice cuts, in steps of 1, and the first position that is left; *cut -1: none is. Needs its bounds and
 * the type of its output. */
bool op_slice_cut(const op_call *call, int32_t *cut, int64_t *first);
/* The range of its input that a Slice is: at most one axis is cut, in steps of 1. */
bool op_range_of_slice(const op_call *call, op_range *result);
/* The ranges that all inputs of a Concat are of its output, or all outputs of a Split of its input; false where one is none. */
bool op_ranges_of_parts(const op_call *call, op_range *ranges);
/* Two types whose elements lie at the same places: one may be written over the other, element by element. */
bool op_same_form(const op_type *a, const op_type *b);
/* Two types whose values are the same bytes: row-major reshapes, and layouts that coincide. */
bool op_same_bytes(const op_type *a, const op_type *b);

#endif
