/* SPDX-License-Identifier: Apache-2.0 */
/* reduce_rows.h: rows of floats that lie together, each of which becomes one number, on machines with AVX-512. */
#ifndef OURO_REDUCE_ROWS_H
#define OURO_REDUCE_ROWS_H

#include "ir/operators/op.h"
#include <stdbool.h>
#include <stdint.h>

/* Longest rows whose sums and products are made here: those that reduce.c makes in one stretch. */
enum { RT_SUM_ROW = 512 };

/* What is added up, or whose mean is taken: "ouro.of" of ops.def. */
typedef enum rt_reduced { RT_ELEMENTS, RT_ABSOLUTES, RT_SQUARES } rt_reduced;

/* Whether this machine reduces rows of `length` floats here: OP_REDUCE_SUM, _MEAN, _PROD, _MAX or _MIN. */
bool rt_reduces_rows(op_code code, int64_t length);

/* to[i], for i in [0, count), of `length` floats from from[i * length] on, of a code and a length of the above; `of` other than RT_ELEMENTS for
 * sums and means only. The numbers are those of reduce.c. */
void rt_reduce_rows(op_code code, rt_reduced of, const float *from, int64_t length, float *to, int64_t count);

/* The largest or smallest (OP_REDUCE_MAX, OP_REDUCE_MIN) of `count` rows of `length` floats, at least one of each, that begin `step` apart. A NaN
 * where there is one. */
float rt_reduce_runs(op_code code, const float *from, int64_t length, int64_t step, int64_t count);

#endif
