/* SPDX-License-Identifier: Apache-2.0 */
/* recurrent_cells.h: what LSTM and GRU do with the sums of their gates: activations, the cell, the state, for RT_PANEL units at a time. */
#ifndef OURO_RECURRENT_CELLS_H
#define OURO_RECURRENT_CELLS_H

#include "runtime/kernels/portable/product.h"

enum {
    RT_CELL_GATES = 4
}; /* sums of a unit at most, as in the bias: LSTM i o f c; GRU z r, h of the input, h of the state */

/* Units of several rows. A row of `x` (the input's part) and of `sums` (the state's part) has gate after gate of RT_PANEL units. */
typedef struct rt_cells {
    int64_t rows, units; /* at most RT_PANEL */
    const float *bias;   /* [RT_CELL_GATES][RT_PANEL] */
    float *x;
    const float *sums;
    int64_t x_row, sums_row;
    /* The state, of one row after the other `state_row` apart. */
    const float *h, *c;
    float *h_next, *c_next;
    int64_t state_row;
} rt_cells;

/* x: i o f c; sums: the same. c_next may be c. */
void rt_cells_lstm(const rt_cells *cells);
/* x: z r h; sums: z r h. h is the reset gate times the sum of the state. */
void rt_cells_gru(const rt_cells *cells);
/* The gates of a GRU whose state is reset before it is multiplied. x: z r h; sums: z r. z stays in x; h_next is the state after the
 * reset. */
void rt_cells_gru_reset(const rt_cells *cells);
/* What follows. x: z as it was left, r, h; sums: h. */
void rt_cells_gru_state(const rt_cells *cells);

/* How long the sequences of a batch are, as input 4 of RNN, GRU and LSTM says it; *lengths is NULL where the input is absent.
 * BASE_INVALID: a length is outside 0 to `sequence`. */
base_status rt_sequence_lengths(const op_tensor *inputs, uint32_t input_count, int64_t batch,
                                int64_t sequence, const int32_t **lengths, base_report *report);

#endif
