/* SPDX-License-Identifier: Apache-2.0 */
/* loop.h: what pictures, reports and `ouro inspect` tell about the loops of a plan. */
#ifndef OURO_EMIT_LOOP_H
#define OURO_EMIT_LOOP_H

#include "runtime/plan/plan.h"

/* A loop in numbers. */
typedef struct emit_loop {
    uint32_t node;
    plan_loop_form form;
    uint64_t unroll;    /* the least common multiple of the periods; saturates at UINT64_MAX */
    uint64_t multiview; /* tensors within the body whose address changes with the iterations of this loop */
    uint64_t places;    /* different addresses that carried parameters and their replacements have */
    uint64_t iteration_bytes; /* copied in each iteration; what inner loops copy is theirs */
    uint64_t entry_bytes;     /* copied when the loop is entered and left */
    uint64_t
        copying_bytes; /* what an iteration would copy that hands on each carried value and each slice by a copy */
    bool copying_grows;    /* that is the most: something grows */
    uint64_t buffer_bytes; /* of the body's region */
} emit_loop;

/* How many parameters a Loop of a plan carries. */
uint64_t emit_loop_carried(const plan *of, const plan_node *node);

/* The name of a loop or branch; one without is called after its graph and its first output, as its sub-graphs are. Returns
 * `text`. */
const char *emit_loop_name(const plan *of, uint32_t node, char *text, size_t capacity);

/* Measures the loop whose node this is. Makes no assumption beyond plan_check. False when memory runs out, or
 * where it is no loop. */
bool emit_loop_measure(const plan *of, uint32_t node, emit_loop *loop);

/* "swap: unroll 2, repeat lengths 2, 2; copies 0 B an iteration instead of 512 KiB, 0 B when it is entered and left". Returns
 * `text`. */
const char *emit_loop_line(const plan *of, const emit_loop *loop, char *text, size_t capacity);

/* The bytes that a Copy node copies in each iteration, but for the first ones: 0 where they lie there already, and of
 * other nodes. Where they lie there in some of them, as those of a sliding window do: on average, rounded up. */
uint64_t emit_loop_copied(const plan *of, const plan_node *node);
/* The same of any node that only copies a part of its input (plan_kept_part). */
uint64_t emit_loop_kept(const plan *of, const plan_node *node);
/* The view of this loop that a tensor's address is, of the views of loops within others the innermost; NULL
 * where the address does not change with its iterations. */
const plan_multiview *emit_loop_view(const plan *of, uint32_t id, uint32_t loop);

/* Bytes that move for carried value `index` when the loop is entered, in each iteration, and when it is left. */
typedef struct emit_moved {
    uint64_t entered, handed_on, left;
} emit_moved;
emit_moved emit_loop_moved(const plan *of, const emit_loop *loop, uint32_t index);

/* The slice of scanned input `index`, or (counting on) of stacked output index - scan_inputs, if it is copied in
 * each iteration; PLAN_ABSENT where it lies where it is wanted. */
uint32_t emit_loop_copied_slice(const plan *of, const emit_loop *loop, uint32_t index);

/* Why carried value `index` is copied when the loop is left, and why such a slice is in each iteration. */
const char *emit_loop_why_left(const plan *of, const emit_loop *loop, uint32_t index);
const char *emit_loop_why_slice(const plan *of, const emit_loop *loop, uint32_t index);

/* "@64", "input 0 @64", "constant @64", "output 1 @64", "v3 + 64" (view 3), with `more` added to the offset.
 * Returns `text`. */
const char *emit_place_print(const plan_address *address, uint64_t more, char *text, size_t capacity);

#endif
