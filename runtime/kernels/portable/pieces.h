/* SPDX-License-Identifier: Apache-2.0 */
/* pieces.h: erf and Gelu of floats by one polynomial for each short piece of the numbers, where a processor can pick the numbers of a
 * polynomial for each lane. A fifth to a half of the operations that an exponential would take, and smaller errors. */
#ifndef OURO_PIECES_H
#define OURO_PIECES_H

#include <stdint.h>

/* y[i] = erf(x[i]), within 3 units in the last place. y may be x. NaN gives NaN. */
void rt_erf_floats(float *y, const float *x, int64_t count);

/* y[i] = x[i] times the probability that a normal number is below x[i], with a relative error of 1e-6 where that is below 0; from -6.125 on it is 0. y may
 * be x. NaN gives NaN, and so does the infinite below 0. */
void rt_gelu_floats(float *y, const float *x, int64_t count);

/* The usual approximation by tanh, x / (1 + exp(-1.5957691216 (x + 0.044715 x^3))). */
void rt_gelu_tanh_floats(float *y, const float *x, int64_t count);

/* For tests, which want each form by itself: they give the same bits. */
typedef enum { RT_PIECES_ERF, RT_PIECES_GELU, RT_PIECES_GELU_TANH } rt_pieces_code;
typedef enum { RT_PIECES_PORTABLE, RT_PIECES_AVX2, RT_PIECES_AVX512 } rt_pieces_width;
typedef void rt_pieces_function(float *y, const float *x, int64_t count);

/* NULL: this build or machine has not got it. */
rt_pieces_function *rt_pieces_form(rt_pieces_code code, rt_pieces_width width);

#endif
