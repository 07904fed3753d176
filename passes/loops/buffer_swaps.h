/* SPDX-License-Identifier: Apache-2.0 */
/* buffer_swaps.h: how what an inner loop leaves becomes the parameter of the loop around it without being copied.
 *
 *     loop { %z = loop { %y = Conv(%p)   yield %again, %y } begins with %x      yield %c, %z }        x <= z
 *
 * How often the inner loop ran decides in which of its buffers z is. x has to be in a certain place. So the two buffers
 * swap their names: what was the buffer of x is now one of the loop's, and the other way round. A buffer that takes part has a
 * multi-view of its own (pass_multiview.group), whose address changes when that happens. All buffers of a group are equally
 * large. They belong to the region around the outer loop, for as long as that runs.
 *
 * A branch that only hands a value on does the same: where the other branch makes the new value in another buffer, a Copy of the
 * old one there becomes a swap of the two.
 *
 * docs/LOOPS.md, "Buffer swaps", has the rest.
 */
#ifndef OURO_LOOP_BUFFER_SWAPS_H
#define OURO_LOOP_BUFFER_SWAPS_H

#include "passes/loops/info.h"

/* Finds the classes of which a branch of the body copies one buffer to another, and the copy can be a swap: branch_swaps,
 * swapped_in and group. After loop_find_periods. */
void loop_find_branch_swaps(loop_info *info);
/* Finds the carried values whose outputs get there by a swap: swapped_in, begins and dead of carried values, swapped_in and
 * group of classes. After loop_find_branch_swaps. */
void loop_find_output_swaps(loop_info *info);
/* A buffer of `owner` that takes part in swaps, or in lazy copies; zero when memory runs out. */
pass_storage_id loop_add_swapped(const loop_info *info, const ir_node *owner, uint32_t group, bool lazy,
                                 size_t bytes, ir_value *value);
/* Chooses `target` of all that is swapped. After initial values have been taken over. False when memory runs out. */
bool loop_choose_targets(loop_info *info);

#endif
