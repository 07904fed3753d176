/* SPDX-License-Identifier: Apache-2.0 */
/* recurrent_cells_512.h: cells of LSTM and GRU on AVX-512, sixteen units of one row, in pieces that take the processor about as long as each other: what goes
 * through weights meanwhile does a piece now and then.
 *
 * A logistic function that is multiplied by something, and a tanh that is multiplied by a logistic function, are one quotient each:
 * a division takes as long as much of what they are made of. tanh is e / (e + 2) with e = exp(2 |x|) - 1, which loses nothing near 0.
 */
#ifndef OURO_RECURRENT_CELLS_512_H
#define OURO_RECURRENT_CELLS_512_H

#include "runtime/kernels/portable/recurrent_cells.h"
#include "runtime/kernels/portable/vector_math_512.h"

#ifdef RT_HAS_MATH_512

enum { RT_LSTM_PIECES = 7, RT_GRU_PIECES = 5 };

/* What a piece leaves to the next ones. LSTM: 1 + exp of the gates i, f, o, the new c, exp of a tanh; GRU: of r and z, h, the same. */
typedef struct rt_cell_512 {
    __m512 first, second, third, exp;
} rt_cell_512;

static inline __mmask16 rt_cell_mask(const rt_cells *of) {
    return (__mmask16)((1U << of->units) - 1);
}

/* exp(2 |x|) - 1: 2^n (2^r - 1) + (2^n - 1) with n = |x| times 2 / log 2 to the nearest integer, r the rest, of which the product is not
 * rounded. What 2^r - 1 is taken for is within 1e-7 of it, relative to it. From 9.1 on e / (e + 2) rounds to 1. A NaN stays one. */
RT_MATH_512_INLINE __m512 rt_double_exp_512(__m512 x) {
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

/* tanh(x), whose exp(2 |x|) - 1 is e, over `by`, which is positive. */
RT_MATH_512_INLINE __m512 rt_tanh_over_512(__m512 x, __m512 e, __m512 by) {
    const __m512i sign = _mm512_set1_epi32(INT32_MIN);
    const __m512 y = _mm512_div_ps(e, _mm512_mul_ps(_mm512_add_ps(e, _mm512_set1_ps(2.0f)), by));
    return _mm512_castsi512_ps(
        _mm512_ternarylogic_epi32(sign, _mm512_castps_si512(x), _mm512_castps_si512(y), 0xca));
}

RT_MATH_512_INLINE __m512 rt_cell_tanh_512(__m512 x) {
    return rt_tanh_over_512(x, rt_double_exp_512(x), _mm512_set1_ps(1.0f));
}

/* The sum of a gate. */
RT_MATH_512_INLINE __m512 rt_cell_gate_512(const rt_cells *of, int64_t row, int gate) {
    const float *x = of->x + row * of->x_row, *sums = of->sums + row * of->sums_row;
    return _mm512_add_ps(
        _mm512_add_ps(_mm512_loadu_ps(x + gate * RT_PANEL), _mm512_loadu_ps(of->bias + gate * RT_PANEL)),
        _mm512_loadu_ps(sums + gate * RT_PANEL));
}

/* 1 + exp(-x) of the sum of a gate. */
RT_MATH_512_INLINE __m512 rt_cell_one_and_exp_512(const rt_cells *of, int64_t row, int gate) {
    const rt_gate_512 logistic = rt_gate_512_of(1);
    return rt_one_and_exp_16(rt_cell_gate_512(of, row, gate), &logistic);
}

/* fresh + change */
RT_MATH_512_INLINE void rt_store_state_512(const rt_cells *of, int64_t row, __m512 fresh, __m512 change) {
    _mm512_mask_storeu_ps(of->h_next + row * of->state_row, rt_cell_mask(of), _mm512_add_ps(fresh, change));
}

/* Pieces `from` to `end` of rt_cells_lstm, which are constants wherever this is called. */
RT_MATH_512_INLINE void rt_lstm_512(const rt_cells *of, int64_t row, rt_cell_512 *cell, int from, int end) {
    const __mmask16 mask = rt_cell_mask(of);
    if (from <= 0 && end > 0) cell->first = rt_cell_one_and_exp_512(of, row, 0);
    if (from <= 1 && end > 1) cell->second = rt_cell_one_and_exp_512(of, row, 2);
    if (from <= 2 && end > 2) cell->exp = rt_double_exp_512(rt_cell_gate_512(of, row, 3));
    if (from <= 3 && end > 3) {
        const __m512 c = _mm512_maskz_loadu_ps(mask, of->c + row * of->state_row);
        cell->second = _mm512_add_ps(_mm512_div_ps(c, cell->second),
                                     rt_tanh_over_512(rt_cell_gate_512(of, row, 3), cell->exp, cell->first));
        _mm512_mask_storeu_ps(of->c_next + row * of->state_row, mask, cell->second);
    }
    if (from <= 4 && end > 4) cell->third = rt_cell_one_and_exp_512(of, row, 1);
    if (from <= 5 && end > 5) cell->exp = rt_double_exp_512(cell->second);
    if (from <= 6 && end > 6)
        _mm512_mask_storeu_ps(of->h_next + row * of->state_row, mask,
                              rt_tanh_over_512(cell->second, cell->exp, cell->third));
}

/* The same of rt_cells_gru. */
RT_MATH_512_INLINE void rt_gru_512(const rt_cells *of, int64_t row, rt_cell_512 *cell, int from, int end) {
    const float *bias = of->bias, *x = of->x + row * of->x_row, *sums = of->sums + row * of->sums_row;
    if (from <= 0 && end > 0) cell->first = rt_cell_one_and_exp_512(of, row, 1);
    if (from <= 1 && end > 1) cell->second = rt_cell_one_and_exp_512(of, row, 0);
    if (from <= 2 && end > 2) {
        const __m512 inner = _mm512_add_ps(_mm512_loadu_ps(sums + 2 * RT_PANEL),
                                           _mm512_loadu_ps(bias + 3 * RT_PANEL)),
                     own = _mm512_add_ps(_mm512_loadu_ps(x + 2 * RT_PANEL),
                                         _mm512_loadu_ps(bias + 2 * RT_PANEL));
        cell->third = _mm512_add_ps(own, _mm512_div_ps(inner, cell->first));
    }
    if (from <= 3 && end > 3) cell->exp = rt_double_exp_512(cell->third);
    if (from <= 4 && end > 4) {
        const __m512 fresh = rt_tanh_over_512(cell->third, cell->exp, _mm512_set1_ps(1.0f)),
                     h = _mm512_maskz_loadu_ps(rt_cell_mask(of), of->h + row * of->state_row);
        rt_store_state_512(of, row, fresh, _mm512_div_ps(_mm512_sub_ps(h, fresh), cell->second));
    }
}
#endif

#endif
