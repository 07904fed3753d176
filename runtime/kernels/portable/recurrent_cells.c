/* SPDX-License-Identifier: Apache-2.0 */
/* recurrent_cells.c: see recurrent_cells.h. Sixteen units are a register of AVX-512; elsewhere loops over them become what the machine has.
 */
#include "runtime/kernels/portable/recurrent_cells_512.h"
#include "runtime/kernels/portable/vector_math.h"
#include <string.h>

/* ---- any machine --------------------------------------------------------------------------------------- */

RT_CLONES static void lstm_units(const rt_cells *of, int64_t row) {
    const float *bias = of->bias, *x = of->x + row * of->x_row, *sums = of->sums + row * of->sums_row;
    const float *c = of->c + row * of->state_row;
    float *h_next = of->h_next + row * of->state_row, *c_next = of->c_next + row * of->state_row;
    float gates[RT_CELL_GATES * RT_PANEL];
    for (int j = 0; j < RT_CELL_GATES * RT_PANEL; j++) gates[j] = x[j] + bias[j] + sums[j];
    for (int j = 0; j < 3 * RT_PANEL; j++) gates[j] = rt_sigmoid(gates[j]);
    for (int j = 3 * RT_PANEL; j < RT_CELL_GATES * RT_PANEL; j++) gates[j] = rt_tanh(gates[j]);
    for (int64_t j = 0; j < of->units; j++) {
        const float cell = gates[2 * RT_PANEL + j] * c[j] + gates[j] * gates[3 * RT_PANEL + j];
        c_next[j] = cell;
        h_next[j] = gates[RT_PANEL + j] * rt_tanh(cell);
    }
}

RT_CLONES static void gru_units(const rt_cells *of, int64_t row) {
    const float *bias = of->bias, *x = of->x + row * of->x_row, *sums = of->sums + row * of->sums_row;
    const float *h = of->h + row * of->state_row;
    float *h_next = of->h_next + row * of->state_row;
    float gates[2 * RT_PANEL];
    for (int j = 0; j < 2 * RT_PANEL; j++) gates[j] = rt_sigmoid(x[j] + bias[j] + sums[j]);
    for (int64_t j = 0; j < of->units; j++) {
        const int64_t own = 2 * RT_PANEL + j;
        const float inner = sums[own] + bias[own + RT_PANEL],
                    fresh = rt_tanh(x[own] + bias[own] + gates[RT_PANEL + j] * inner);
        h_next[j] = fresh + gates[j] * (h[j] - fresh);
    }
}

RT_CLONES static void gru_reset_units(const rt_cells *of, int64_t row) {
    const float *bias = of->bias, *sums = of->sums + row * of->sums_row, *h = of->h + row * of->state_row;
    float *x = of->x + row * of->x_row, *h_next = of->h_next + row * of->state_row;
    float gates[2 * RT_PANEL];
    for (int j = 0; j < 2 * RT_PANEL; j++) gates[j] = rt_sigmoid(x[j] + bias[j] + sums[j]);
    memcpy(x, gates, RT_PANEL * sizeof *x);
    for (int64_t j = 0; j < of->units; j++) h_next[j] = gates[RT_PANEL + j] * h[j];
}

RT_CLONES static void gru_state_units(const rt_cells *of, int64_t row) {
    const float *bias = of->bias, *x = of->x + row * of->x_row, *sums = of->sums + row * of->sums_row;
    const float *h = of->h + row * of->state_row;
    float *h_next = of->h_next + row * of->state_row;
    for (int64_t j = 0; j < of->units; j++) {
        const int64_t own = 2 * RT_PANEL + j;
        const float fresh = rt_tanh(x[own] + (bias[own] + bias[own + RT_PANEL]) + sums[j]);
        h_next[j] = fresh + x[j] * (h[j] - fresh);
    }
}

/* ---- AVX-512 ------------------------------------------------------------------------------------------- */

#ifdef RT_HAS_MATH_512
RT_MATH_512_INLINE void lstm_units_512(const rt_cells *of, int64_t row) {
    rt_cell_512 cell = {0};
    rt_lstm_512(of, row, &cell, 0, RT_LSTM_PIECES);
}

RT_MATH_512_INLINE void gru_units_512(const rt_cells *of, int64_t row) {
    rt_cell_512 cell = {0};
    rt_gru_512(of, row, &cell, 0, RT_GRU_PIECES);
}

RT_MATH_512_INLINE void gru_reset_units_512(const rt_cells *of, int64_t row) {
    const __m512 reset = rt_cell_one_and_exp_512(of, row, 1), update = rt_cell_one_and_exp_512(of, row, 0),
                 h = _mm512_maskz_loadu_ps(rt_cell_mask(of), of->h + row * of->state_row);
    _mm512_storeu_ps(of->x + row * of->x_row, _mm512_div_ps(_mm512_set1_ps(1.0f), update));
    _mm512_mask_storeu_ps(of->h_next + row * of->state_row, rt_cell_mask(of), _mm512_div_ps(h, reset));
}

RT_MATH_512_INLINE void gru_state_units_512(const rt_cells *of, int64_t row) {
    const float *bias = of->bias, *x = of->x + row * of->x_row, *sums = of->sums + row * of->sums_row;
    const __m512 both = _mm512_add_ps(_mm512_loadu_ps(bias + 2 * RT_PANEL),
                                      _mm512_loadu_ps(bias + 3 * RT_PANEL)),
                 own = _mm512_add_ps(_mm512_loadu_ps(x + 2 * RT_PANEL), both),
                 fresh = rt_cell_tanh_512(_mm512_add_ps(own, _mm512_loadu_ps(sums))),
                 h = _mm512_maskz_loadu_ps(rt_cell_mask(of), of->h + row * of->state_row);
    rt_store_state_512(of, row, fresh, _mm512_mul_ps(_mm512_sub_ps(h, fresh), _mm512_loadu_ps(x)));
}
#endif

/* ---- rows ---------------------------------------------------------------------------------------------- */

#ifdef RT_HAS_MATH_512
/* One loop each, which keeps its constants. */
#define ROWS_512(units)                                                                                      \
    RT_MATH_512 static void units##_rows_512(const rt_cells *cells) {                                        \
        for (int64_t row = 0; row < cells->rows; row++) units##_512(cells, row);                             \
    }
ROWS_512(lstm_units)
ROWS_512(gru_units)
ROWS_512(gru_reset_units)
ROWS_512(gru_state_units)
#define EACH_ROW(units)                                                                                      \
    if (__builtin_cpu_supports("avx512f")) {                                                                 \
        units##_rows_512(cells);                                                                             \
        return;                                                                                              \
    }                                                                                                        \
    for (int64_t row = 0; row < cells->rows; row++) units(cells, row)
#else
#define EACH_ROW(units)                                                                                      \
    for (int64_t row = 0; row < cells->rows; row++) units(cells, row)
#endif

void rt_cells_lstm(const rt_cells *cells) {
    EACH_ROW(lstm_units);
}

void rt_cells_gru(const rt_cells *cells) {
    EACH_ROW(gru_units);
}

void rt_cells_gru_reset(const rt_cells *cells) {
    EACH_ROW(gru_reset_units);
}

void rt_cells_gru_state(const rt_cells *cells) {
    EACH_ROW(gru_state_units);
}

base_status rt_sequence_lengths(const op_tensor *inputs, uint32_t input_count, int64_t batch,
                                int64_t sequence, const int32_t **lengths, base_report *report) {
    *lengths = input_count > 4 && inputs[4].type.dtype != OP_NONE ? inputs[4].data : NULL;
    for (int64_t b = 0; *lengths && b < batch; b++) {
        if ((*lengths)[b] < 0 || (*lengths)[b] > sequence) {
            return base_fail(report, BASE_INVALID, "sequence length %d of batch %lld is outside 0 to %lld",
                             (int)(*lengths)[b], (long long)b, (long long)sequence);
        }
    }
    return BASE_OK;
}
