/* SPDX-License-Identifier: Apache-2.0 */
/* branch_addresses.h: an If whose branches hand on what is there already chooses an address, and copies nothing.
 *
 *     %r = If(%c) { yield %a } { yield %b }      %r lies where %a lies, or where %b does
 *
 * This needs that %a and %b stay as they are until %r has been read, and that %r is only read by operators after the If. Others
 * are copied in the branch that runs, as prepare-results has it.
 */
#ifndef OURO_LOOP_BRANCH_ADDRESSES_H
#define OURO_LOOP_BRANCH_ADDRESSES_H

#include "passes/loops/loops.h"

/* Finds such outputs of all Ifs, and gives each a multi-view with an entry for each branch; the Copies in the branches become
 * aliases. After carried values have their addresses. False when memory runs out. */
bool loop_choose_branch_addresses(pass_context *context);

#endif
