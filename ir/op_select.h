/* op_select.h: what operators select whose result size depends on data. Shape functions ask how much it is, where
 * the data is there; kernels ask for the selection itself. One algorithm serves both. */
#ifndef OURO_OP_SELECT_H
#define OURO_OP_SELECT_H

#include "ir/op.h"

/* How many of the `count` first elements of a tensor with data are not zero. */
int64_t op_count_nonzero(const op_tensor *tensor, int64_t count);
/* Element `index` is not zero. */
bool op_is_nonzero(const op_tensor *tensor, int64_t index);

/* The different slices of a tensor along an axis, or (axis -1) its different elements. */
typedef struct op_unique {
    int64_t slices, count;
    int64_t *first; /* of each different slice: where it is for the first time; in the order of the result */
    int64_t *inverse; /* of each slice: which of the different ones it is */
    int64_t *counts;  /* of each different one: how often it is there */
} op_unique;

/* Sorted in ascending order (NaNs last, all of them different), or in the order of first occurrence. Memory is
 * taken from `arena`; false when it runs out. */
bool op_select_unique(const op_tensor *tensor, int32_t axis, bool sorted, base_arena *arena,
                      op_unique *unique);

/* NonMaxSuppression: the boxes that are kept, as triples of batch, class and box, in the order of batches, classes
 * and falling scores. Inputs as the operator's, all with data. False when memory runs out. */
bool op_select_boxes(const op_call *call, base_arena *arena, int64_t **triples, int64_t *count);

#endif
