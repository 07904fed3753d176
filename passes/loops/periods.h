/* SPDX-License-Identifier: Apache-2.0 */
/* periods.h: what the carried parameters of a loop hold, for how long, and after how many iterations the buffer in which a value
 * was made can be used again. It only looks, and changes nothing.
 *
 * Origins. What a parameter holds is found by going back: its replacement may be another parameter, one iteration earlier, and
 * so on, until a storage of the body is reached in which the value was made, `distance` iterations ago; or a value from outside
 * of the loop; or, in a circle of parameters, nothing at all: then the initial values go round.
 *
 * Periods. A storage is made anew in each iteration, and stays until the last reader, `distance` iterations later. It needs as
 * many buffers as instances of it are live together.
 *
 * In place. A node that may write over a parameter, which nobody reads any more, makes its result where the parameter lies. Its
 * storage and the parameter's origin are then in one class. This is tried node by node, and kept where a period still fits.
 */
#ifndef OURO_LOOP_PERIODS_H
#define OURO_LOOP_PERIODS_H

#include "passes/loops/info.h"

/* Finds origins, members, classes and their periods. False when memory runs out. */
bool loop_find_periods(loop_info *info);

/* The loop, whose periods are found, leaves output `index` in one of several buffers, or in one that is not its own: it is best
 * read where it is. */
bool loop_leaves_anywhere(const loop_info *info, uint32_t index);

/* Both branches of an If make what lies in storage `made` when they have read storage `over`, or element by element over it:
 * the output can be made where the parameter is, which is there still where a branch only hands it on. (branches.c) */
bool loop_branches_in_place(const loop_info *info, const ir_node *branch, pass_storage_id made,
                            pass_storage_id over);

#endif
