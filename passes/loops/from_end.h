/* SPDX-License-Identifier: Apache-2.0 */
/* from_end.h: which tables of addresses are counted from the end of a loop.
 *
 *     loop(M, x) { y = C(x), x <= y }      M is an input of the caller: y lies in buffers 0, 1, 0, 1, ...
 *
 * The output is what y is in the last iteration, and the caller wants it in a certain buffer. Which of the two is made last is
 * known as soon as M is, when the loop begins: so the buffer that comes last is the caller's, and nothing is copied at the end.
 * The table says for each iteration how far it is from the end.
 *
 * Nobody knows before the run where the first instance is made. So the initial value is read where it lies, in the prologue.
 */
#ifndef OURO_LOOP_FROM_END_H
#define OURO_LOOP_FROM_END_H

#include "passes/loops/info.h"

/* Finds the classes for which this saves a copy and costs no memory. After periods, buffer swaps and windows. */
void loop_count_from_end(loop_info *info);

#endif
