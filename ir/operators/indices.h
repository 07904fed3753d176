/* SPDX-License-Identifier: Apache-2.0 */
/* indices.h: which inputs of an operator say where in its data it reads or writes. A number that does not fit the data's shape
 * makes such a node fail at run time. */
#ifndef OURO_OPERATOR_INDICES_H
#define OURO_OPERATOR_INDICES_H

#include "ir/operators/op.h"

/* Of Gather, GatherElements, GatherND, ScatterElements, ScatterND and TensorScatter: input 0 is the data; the inputs [*first, *end)
 * are indices; of the inputs between, the shapes alone matter. False for every other operator. */
static inline bool op_index_inputs(op_code code, uint32_t *first, uint32_t *end) {
    switch (code) {
    case OP_GATHER:
    case OP_GATHER_ELEMENTS:
    case OP_GATHER_ND:
    case OP_SCATTER_ELEMENTS:
    case OP_SCATTER_ND:
        *first = 1;
        *end = 2;
        return true;
    case OP_TENSOR_SCATTER: /* data, update, indices */
        *first = 2;
        *end = 3;
        return true;
    default:
        return false;
    }
}

#endif
