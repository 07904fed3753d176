/* SPDX-License-Identifier: Apache-2.0 */
/* outputs.h: where the outputs of a loop lie.
 *
 * After k iterations output i is what parameter i would be in iteration k: the same table, with the number of iterations as its
 * counter. If k is known, or there is only one buffer, the output is that buffer. Where others decide the output's address (the
 * caller, a Concat, an enclosing loop), it is copied there once, when the loop is left.
 */
#ifndef OURO_LOOP_OUTPUTS_H
#define OURO_LOOP_OUTPUTS_H

#include "passes/loops/info.h"

/* Places output `index` in one certain buffer (`views` false), or where its table says when the loop is left (`views` true).
 * First all outputs without, then all with `views`: what is written later decides whether a table can stay. `trips`:
 * ir_loop_trips. False when memory runs out. */
bool loop_place_output(const loop_info *info, uint32_t index, int64_t trips, bool views);

#endif
