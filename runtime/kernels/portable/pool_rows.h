/* SPDX-License-Identifier: Apache-2.0 */
/* pool_rows.h: a row of the largest, or of the sums, of windows of two or three dimensions over a row-major map of floats. */
#ifndef OURO_POOL_ROWS_H
#define OURO_POOL_ROWS_H

#include "runtime/kernels/portable/kernels.h"

enum { RT_POOL_LINE = 4096 }; /* floats of a line of the map with its padding, at most */

typedef struct rt_pool_rows {
    bool maximum;
    int64_t width, outputs;                    /* of a line of the map, and of the result */
    int64_t kernel, stride, dilation, padding; /* across; before a line */
    int64_t step;                              /* floats from one line that a window sees to the next */
    int64_t plane;                             /* from one plane that it sees to the next */
    int64_t line;                              /* floats, set by rt_pool_rows_prepare */
    bool wide;                                 /* in registers of AVX-512, set likewise */
    bool divides;                              /* sums, where a run has counts; set likewise */
} rt_pool_rows;

/* Rows of outputs that lie one after the other. Each sees `lines` lines of each of `planes` planes of the map, which may be none: the first
 * one those at x, each other one those `step` floats after those of the row before. */
typedef struct rt_pool_run {
    const float *x;
    int64_t rows, step, planes, lines;
    const int32_t
        *counts; /* [outputs], times `others`: by what sums are divided, if not zero; NULL: not here */
    int32_t others;
} rt_pool_run;

/* Completes a description. False where lines are too short or too long for this. */
bool rt_pool_rows_prepare(rt_pool_rows *rows);
/* to[rows][outputs]. First lines are made one, then neighbours are: this order does not depend on the machine. `line` has RT_POOL_LINE
 * floats, which rt_pool_rows_begin has filled once. */
void rt_pool_rows_begin(const rt_pool_rows *rows, float *line);
void rt_pool_rows_run(const rt_pool_rows *rows, const rt_pool_run *run, float *line, float *to);

#endif
