/* SPDX-License-Identifier: Apache-2.0 */
/* turn_groups.h: transpositions of many axes, where an axis that is innermost before or after is short. */
#ifndef OURO_TURN_GROUPS_H
#define OURO_TURN_GROUPS_H

#include "runtime/kernels/portable/kernels.h"

/* rt_copy_strided of a loop in which several dimensions, taken as one, make the rows or the columns of matrices that are turned. False:
 * there are no such dimensions, or each matrix is large enough without, and nothing was copied. */
bool rt_turn_groups(const rt_loop *loop, int threads, size_t size, void *to, const void *from);

#endif
