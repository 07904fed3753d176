/* SPDX-License-Identifier: Apache-2.0 */
/* windows.h: a sliding window moves through a buffer that is longer than it is.
 *
 *     loop(%x) { %w = Slice(%x, 1, 4, 0)  %y = Concat(%w, %d)  yield %k, %y }        x <= y, four positions
 *
 * In two buffers in turn, three positions of x are copied in each iteration. But where y is made one position after x, %w is
 * there already: the window has moved on, and nothing else has. In a buffer of n + m positions it moves m times; then it begins
 * at the start again, and %w is copied, once in m + 1 iterations:
 *
 *     iteration   0         1         2         3         4         5
 *     y lies at   0..4      1..5      2..6      3..7      4..8      0..4        { 0, 1, 2, 3, 4 }
 *     copied      3 of x                                            3 of x
 *
 * The same for %c = Concat(%x, %d), y = Slice(%c, 1, 5, 0), where the window is what was kept of more: %c moves, and %x is copied.
 *
 * A window along an inner axis has been made one of all of its elements in a row (flatten_windows.c): new ones are put among them in
 * place, once nobody wants the old window.
 *
 * Where m would be large, there are two such buffers, each shorter, and the window begins in the other one when it has come to
 * the end: where it was and where it will be share no byte.
 */
#ifndef OURO_LOOP_WINDOWS_H
#define OURO_LOOP_WINDOWS_H

#include "passes/loops/info.h"

/* Finds the classes that are windows, and gives them their step, turn and period. After periods and buffer swaps. */
void loop_find_windows(loop_info *info);
/* The buffers of such a class: places in one storage of the graph around the loop. False when memory runs out. */
bool loop_make_window(loop_info *info, loop_member *class, size_t bytes, ir_value *value);
/* The Concat, in the body of a loop, puts what is kept of a carried value before other values, and makes the next one, or what
 * that is a Slice of. For join-aliases, before anything has an address. */
bool loop_may_be_window(const ir_node *concat);

#endif
