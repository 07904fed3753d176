/* SPDX-License-Identifier: Apache-2.0 */
/* indices.h: which inputs of an operator say where in its data it reads or writes, or how much of it there is. A number that does not fit the
 * data's shape makes such a node fail at run time. */
#ifndef OURO_OPERATOR_INDICES_H
#define OURO_OPERATOR_INDICES_H

#include "ir/operators/op.h"
#include "ir/operators/recurrent_inputs.h"

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

/* The inputs [*first, *end) whose numbers may make a node of an operator with OP_FLAG_CHECKED fail: indices, the lengths of the sequences of a
 * recurrence, else all but the data. Where none of these is present the node cannot fail. */
static inline void op_checked_inputs(op_code code, uint32_t input_count, uint32_t *first, uint32_t *end) {
    *first = input_count > 1;
    *end = input_count;
    if (op_index_inputs(code, first, end)) return;
    switch (code) {
    case OP_RNN:
    case OP_GRU:
    case OP_LSTM:
    case OP_DYNAMIC_LSTM:
        *first = OP_RECURRENT_LENGTHS;
        *end = OP_RECURRENT_LENGTHS + 1;
        return;
    default:
        return;
    }
}

#endif
