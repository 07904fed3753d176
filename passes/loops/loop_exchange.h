/* loop_exchange.h: how what an inner loop leaves becomes the parameter of the loop around it without being copied.
 *
 *     loop { %z = loop { %y = Conv(%p)   yield %again, %y } begins with %x      yield %c, %z }        x <= z
 *
 * How often the inner loop ran decides in which of its buffers z is; x has to be in a certain place. So the two buffers
 * exchange their places: what was the buffer of x is now one of the loop's, and the other way round. A buffer that may be
 * exchanged is a view of its own (pass_multiview.group), whose address changes when that happens. All buffers of a group are
 * equally large and belong to the frame around the outer loop, for as long as that runs.
 *
 * And how a branch that only hands a state on does so: where the other branch makes the new state in another buffer, a Copy of
 * the old one there becomes an exchange of the two.
 *
 * A part of analyse-loops, which is where the words are explained; docs/LOOPS.md, "Exchange".
 */
#ifndef OURO_LOOP_EXCHANGE_H
#define OURO_LOOP_EXCHANGE_H

#include "passes/loops/loop_periods.h"

/* Finds the classes of which a branch of the body copies one buffer to another, and the copy can be an exchange: traded,
 * exchanged_in and group. After loop_find_periods. */
void loop_find_trades(loop_analysis *a);
/* Finds the carried values whose outputs are exchanged: exchanged_in, begins and dead of carried values, exchanged_in of
 * classes. After loop_find_trades. */
void loop_find_exchanges(loop_analysis *a);
/* An exchanged buffer of `owner`; zero when memory runs out. */
pass_storage_id loop_add_exchanged(loop_analysis *a, ir_node *owner, uint32_t group, size_t bytes,
                                   ir_value *value);
/* Chooses `target` of all that is exchanged. After initial values have been taken over. False when memory runs out. */
bool loop_choose_targets(loop_analysis *a);
/* The buffer of a class in which instance t of its member lies. (analyse_loops.c) */
pass_storage_id loop_buffer_of(loop_analysis *a, uint32_t index, int64_t t);

#endif
