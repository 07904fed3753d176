/* SPDX-License-Identifier: Apache-2.0 */
/* recurrent_row.h: a step of one sequence through an LSTM or GRU, which waits for weights: they are read in one stream that never stops, as what is
 * to be done with the sums of some units is done while the weights of the next ones come. */
#ifndef OURO_RECURRENT_ROW_H
#define OURO_RECURRENT_ROW_H

#include "runtime/kernels/portable/recurrent_cells.h"

typedef struct rt_row_step {
    bool lstm;  /* else a GRU whose state is reset after it is multiplied */
    bool alone; /* there are no others that it might be computed together with: see rt_row_run */
    bool back;  /* the last group of units first */
    int64_t groups, units, depth;
    const float *state; /* what is multiplied */
    const void *panels; /* [groups][gates], floats, aligned to RT_ALIGNMENT */
    int64_t bias_group; /* elements from the bias of a group to that of the next */
    rt_cells cells;     /* those of the first group: bias, x and states */
} rt_row_step;

/* Whether this machine has it. */
bool rt_row_runs_here(void);
/* What rt_panels_row, of one that is alone, or rt_panels_rows does, and then rt_cells_lstm or rt_cells_gru, bit for bit. */
void rt_row_run(const rt_row_step *step);

#endif
