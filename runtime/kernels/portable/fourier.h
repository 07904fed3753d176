/* SPDX-License-Identifier: Apache-2.0 */
/* fourier.h: discrete Fourier transforms of any length, in double, of several lines at once.
 *
 * A transform works in a block of doubles that the caller has: the real parts of its lines, then the imaginary ones, element by
 * element, and of each element the lines side by side:
 *
 *     work[t * lines + l]                         real part of element t of line l
 *     work[(size + t) * lines + l]                imaginary part, with size = rt_fourier_size()
 *
 * The way back, without the division by the length, is the same transform with real and imaginary parts exchanged before and after.
 * The bits of a line do not depend on the lines beside it.
 */
#ifndef OURO_FOURIER_H
#define OURO_FOURIER_H

#include "runtime/kernels/portable/kernels.h"

typedef struct rt_fourier rt_fourier;

enum { RT_FOURIER_LONGEST = 1 << 28 };

/* The tables of transforms of this length, 1 to RT_FOURIER_LONGEST; NULL when memory runs out. */
rt_fourier *rt_fourier_new(int64_t length, base_arena *arena);

/* Elements from the real to the imaginary part of a line: at least the length. */
int64_t rt_fourier_size(const rt_fourier *fourier);

/* Doubles of a block of work for `lines` lines: 4 times their elements. */
static inline int64_t rt_fourier_work(const rt_fourier *fourier, int64_t lines) {
    return 4 * rt_fourier_size(fourier) * lines;
}

/* Transforms what lies in `work`: element k becomes the sum over t of element t times exp(-2 pi i k t / length). Returns where the result
 * lies, in the same form: somewhere in `work`. */
double *rt_fourier_run(const rt_fourier *fourier, int64_t lines, double *work);

#endif
