/* SPDX-License-Identifier: Apache-2.0 */
/* commit.h: until when a run can fail. A run is an iteration of the loop around the model (ir/loop.h), and one that fails leaves
 * the states as they were: nothing is written over them before the last step that can fail. */
#ifndef OURO_LOOP_COMMIT_H
#define OURO_LOOP_COMMIT_H

#include "passes/loops/info.h"

/* The last half step of a run in which it can fail because of what its inputs hold; -1 where it cannot, or where the loop is
 * another one. An operator that checks what it is given does so before it writes: it may write over a state in the very step. */
int64_t loop_last_failure(const loop_info *info);

#endif
