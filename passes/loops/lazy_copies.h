/* SPDX-License-Identifier: Apache-2.0 */
/* lazy_copies.h: how a branch keeps a value that others go on with, and copies nothing.
 *
 *     %y = Tanh(%x)   %r = If(%c) { yield %y } { yield %best }      x <= y, best <= r
 *
 * r has to lie where best did, for the branch that hands best on does nothing. The other branch copies y there, for y is still
 * needed as x. So the buffers of both form a lazy group (runtime/plan/plan.h): r gets the address of y, and the next y a piece of
 * memory that neither has. There are as many pieces as buffers, so that one is free whenever two buffers share one: nothing is
 * copied, and no memory is needed that copies would not need.
 *
 * A storage of the body that is copied from, or to, without being carried (a candidate that is taken or not) joins the group with a buffer of
 * its own, where that takes no more memory.
 *
 * docs/LOOPS.md, "Branches", has the rest.
 */
#ifndef OURO_LOOP_LAZY_COPIES_H
#define OURO_LOOP_LAZY_COPIES_H

#include "passes/loops/info.h"

/* Finds the classes of which branches of the body copy one to another, or one buffer of a class to another one: lazy, swapped_in
 * and group. Members are added for storages that are not carried. After loop_find_branch_swaps: what can be a swap is one. */
void loop_find_lazy_copies(loop_info *info);

#endif
