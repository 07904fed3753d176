/* SPDX-License-Identifier: Apache-2.0 */
/* recurrent_inputs.h: which input of RNN, GRU and LSTM is what. */
#ifndef OURO_OPERATOR_RECURRENT_INPUTS_H
#define OURO_OPERATOR_RECURRENT_INPUTS_H

typedef enum op_recurrent_input {
    OP_RECURRENT_X,
    OP_RECURRENT_W,
    OP_RECURRENT_R,
    OP_RECURRENT_BIAS,
    OP_RECURRENT_LENGTHS, /* of the sequences */
    OP_RECURRENT_H,       /* the first state, */
    OP_RECURRENT_C,       /* and that of the cell: LSTM alone, as the peepholes */
    OP_RECURRENT_PEEPHOLES,
    OP_RECURRENT_INPUTS
} op_recurrent_input;

#endif
