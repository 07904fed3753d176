/* SPDX-License-Identifier: Apache-2.0 */
/* range.h: which bytes of a value a part of it is, where these lie together.
 *
 * Ranges are counted in bytes of the layout: a range of an axis is contiguous if all axes that lie outside of it in memory have
 * extent 1. Channels in blocks are the outermost axis of an image, and ranges of whole blocks are ranges.
 */
#ifndef OURO_PASS_RANGE_H
#define OURO_PASS_RANGE_H

#include "ir/ir.h"

typedef struct pass_range {
    size_t offset, bytes;
} pass_range;

/* Elements [first, first + extent) of `axis` are one range of the bytes of a value of this type: which? */
bool pass_range_of_axis(const op_type *type, int32_t axis, int64_t first, int64_t extent, pass_range *result);
/* The only axis that a Slice with constant bounds cuts, in steps of 1, and the first position that is left; *cut -1: none is. */
bool pass_slice_cut(const ir_node *node, int32_t *cut, int64_t *first);
/* The range of its input that a Slice with constant bounds is: at most one axis is cut, in steps of 1. */
bool pass_range_of_slice(const ir_node *node, pass_range *result);
/* Two types whose values are the same bytes: row-major reshapes, and layouts that coincide. */
bool pass_same_bytes(const op_type *a, const op_type *b);

#endif
