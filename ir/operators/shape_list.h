/* SPDX-License-Identifier: Apache-2.0 */
/* shape_list.h: several shapes in one list of integers, as attributes hold them.
 *
 *     2 4 -1   -1   0          [4, not known], nothing known, a scalar
 *
 * Each shape is its rank, then its extents. A rank of -1 says that nothing is known; an extent of -1 is not known.
 */
#ifndef OURO_OP_SHAPE_LIST_H
#define OURO_OP_SHAPE_LIST_H

#include "ir/operators/op.h"

/* Shape `index` of a list of `length` integers, with OP_DIM_UNKNOWN for what is not known. False, and the shape is of unknown
 * rank, where the list has no such shape. */
bool op_shape_list_read(const int64_t *list, size_t length, size_t index, op_shape *shape);
/* The list holds exactly so many shapes, each of a rank and with extents that exist. */
bool op_shape_list_holds(const int64_t *list, size_t length, size_t count);
/* Writes the shapes into `list`, which holds at least count * (1 + OP_MAX_RANK) integers. Returns how many it wrote. */
size_t op_shape_list_write(const op_shape *shapes, size_t count, int64_t *list);

#endif
