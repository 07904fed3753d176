/* SPDX-License-Identifier: Apache-2.0 */
/* tables.h: at which addresses a carried value lies, one iteration after another. */
#ifndef OURO_LOOP_TABLES_H
#define OURO_LOOP_TABLES_H

#include "passes/loops/info.h"

/* Where parameter `index` lies in iteration t. After all classes have their buffers. */
pass_location loop_parameter_at(const loop_info *info, uint32_t index, uint64_t t);
/* Of a class that counts from the end: a number of iterations for which its addresses are those of the table, and of which the last
 * is in a buffer. */
uint64_t loop_all_round(const loop_info *info, uint32_t index);
/* The table of a parameter, as short as it can be: a prologue that only repeats what follows is dropped. False when memory runs
 * out. */
bool loop_table_of(const loop_info *info, uint32_t index, pass_multiview *view);
/* The storage lies where the multi-view says. Where that is a single address, it becomes part of what is there. False when
 * memory runs out. */
bool loop_put_storage(const loop_info *info, pass_storage_id id, const pass_multiview *view);

#endif
