/* SPDX-License-Identifier: Apache-2.0 */
/* recurrent_cells.c: see recurrent_cells.h. Sixteen units are a register of AVX-512; elsewhere loops over them become what the machine has.
 *
 * A logistic function that is multiplied by something, and a tanh that is multiplied by a logistic function, are one quotient each:
 * a division takes as long as much of what they are made of. tanh is e / (e + 2) with e = exp(2 |x|) - 1, which loses nothing near 0.
 */
#include "runtime/kernels/portable/recurrent_cells.h"
#include "runtime/kernels/portable/vector_math.h"
#include "runtime/kernels/portable/vector_math_512.h"
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
#define MASK(of) ((__mmask16)((1U << (of)->units) - 1))

RT_MATH_512 static inline __m512 gate_512(const float *x, const float *bias, const float *sums, int gate) {
    return _mm512_add_ps(
        _mm512_add_ps(_mm512_loadu_ps(x + gate * RT_PANEL), _mm512_loadu_ps(bias + gate * RT_PANEL)),
        _mm512_loadu_ps(sums + gate * RT_PANEL));
}

/* exp(2 |x|) - 1: 2^n (2^r - 1) + (2^n - 1) with n = |x| times 2 / log 2 to the nearest integer, r the rest, of which the product is not
 * rounded. What 2^r - 1 is taken for is within 1e-7 of it, relative to it. From 9.1 on e / (e + 2) rounds to 1. A NaN stays one. */
RT_MATH_512 static inline __m512 double_exp_512(__m512 x) {
    const __m512 a = _mm512_min_ps(_mm512_set1_ps(9.1f), _mm512_abs_ps(x)), one = _mm512_set1_ps(1.0f),
                 exponent = _mm512_set1_ps(2.88539008f),
                 n = _mm512_roundscale_ps(_mm512_mul_ps(a, exponent), 0), r = _mm512_fmsub_ps(a, exponent, n),
                 power = _mm512_scalef_ps(one, n);
    __m512 p = _mm512_set1_ps(0.000154035122f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.00133907353f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.00961823761f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.0555035733f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.240226492f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.693147182f));
    return _mm512_fmadd_ps(_mm512_mul_ps(p, r), power, _mm512_sub_ps(power, one));
}

/* tanh(x) over `by`, which is positive. */
RT_MATH_512 static inline __m512 tanh_over_512(__m512 x, __m512 by) {
    const __m512i sign = _mm512_set1_epi32(INT32_MIN);
    const __m512 e = double_exp_512(x),
                 y = _mm512_div_ps(e, _mm512_mul_ps(_mm512_add_ps(e, _mm512_set1_ps(2.0f)), by));
    return _mm512_castsi512_ps(
        _mm512_ternarylogic_epi32(sign, _mm512_castps_si512(x), _mm512_castps_si512(y), 0xca));
}

RT_MATH_512 static inline __m512 tanh_512(__m512 x) {
    return tanh_over_512(x, _mm512_set1_ps(1.0f));
}

RT_MATH_512_INLINE void lstm_units_512(const rt_cells *of, int64_t row) {
    const float *bias = of->bias, *x = of->x + row * of->x_row, *sums = of->sums + row * of->sums_row;
    const rt_gate_512 gate = rt_gate_512_of(1);
    const __mmask16 mask = MASK(of);
    const __m512 in = rt_one_and_exp_16(gate_512(x, bias, sums, 0), &gate),
                 keep = rt_one_and_exp_16(gate_512(x, bias, sums, 2), &gate),
                 c = _mm512_maskz_loadu_ps(mask, of->c + row * of->state_row),
                 cell = _mm512_add_ps(_mm512_div_ps(c, keep), tanh_over_512(gate_512(x, bias, sums, 3), in)),
                 out = rt_one_and_exp_16(gate_512(x, bias, sums, 1), &gate);
    _mm512_mask_storeu_ps(of->c_next + row * of->state_row, mask, cell);
    _mm512_mask_storeu_ps(of->h_next + row * of->state_row, mask, tanh_over_512(cell, out));
}

/* fresh + (h - fresh) / update */
RT_MATH_512 static inline void store_state_512(const rt_cells *of, int64_t row, __m512 fresh, __m512 change) {
    _mm512_mask_storeu_ps(of->h_next + row * of->state_row, MASK(of), _mm512_add_ps(fresh, change));
}

RT_MATH_512_INLINE void gru_units_512(const rt_cells *of, int64_t row) {
    const float *bias = of->bias, *x = of->x + row * of->x_row, *sums = of->sums + row * of->sums_row;
    const rt_gate_512 gate = rt_gate_512_of(1);
    const __m512 reset = rt_one_and_exp_16(gate_512(x, bias, sums, 1), &gate),
                 update = rt_one_and_exp_16(gate_512(x, bias, sums, 0), &gate),
                 h = _mm512_maskz_loadu_ps(MASK(of), of->h + row * of->state_row),
                 inner = _mm512_add_ps(_mm512_loadu_ps(sums + 2 * RT_PANEL),
                                       _mm512_loadu_ps(bias + 3 * RT_PANEL)),
                 own = _mm512_add_ps(_mm512_loadu_ps(x + 2 * RT_PANEL), _mm512_loadu_ps(bias + 2 * RT_PANEL)),
                 fresh = tanh_512(_mm512_add_ps(own, _mm512_div_ps(inner, reset)));
    store_state_512(of, row, fresh, _mm512_div_ps(_mm512_sub_ps(h, fresh), update));
}

RT_MATH_512_INLINE void gru_reset_units_512(const rt_cells *of, int64_t row) {
    const float *bias = of->bias, *sums = of->sums + row * of->sums_row;
    float *x = of->x + row * of->x_row;
    const rt_gate_512 gate = rt_gate_512_of(1);
    const __m512 reset = rt_one_and_exp_16(gate_512(x, bias, sums, 1), &gate),
                 update = rt_one_and_exp_16(gate_512(x, bias, sums, 0), &gate),
                 h = _mm512_maskz_loadu_ps(MASK(of), of->h + row * of->state_row);
    _mm512_storeu_ps(x, _mm512_div_ps(_mm512_set1_ps(1.0f), update));
    _mm512_mask_storeu_ps(of->h_next + row * of->state_row, MASK(of), _mm512_div_ps(h, reset));
}

RT_MATH_512_INLINE void gru_state_units_512(const rt_cells *of, int64_t row) {
    const float *bias = of->bias, *x = of->x + row * of->x_row, *sums = of->sums + row * of->sums_row;
    const __m512 both = _mm512_add_ps(_mm512_loadu_ps(bias + 2 * RT_PANEL),
                                      _mm512_loadu_ps(bias + 3 * RT_PANEL)),
                 own = _mm512_add_ps(_mm512_loadu_ps(x + 2 * RT_PANEL), both),
                 fresh = tanh_512(_mm512_add_ps(own, _mm512_loadu_ps(sums))),
                 h = _mm512_maskz_loadu_ps(MASK(of), of->h + row * of->state_row);
    store_state_512(of, row, fresh, _mm512_mul_ps(_mm512_sub_ps(h, fresh), _mm512_loadu_ps(x)));
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
