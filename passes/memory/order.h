/* SPDX-License-Identifier: Apache-2.0 */
/* order.h: in which order to run steps so that little memory is live at once, as a problem in and an order
 * out.
 *
 * Steps touch storages. A storage is live from the first step that touches it up to and with the last one.
 * What one step has live is its own need and all storages that are live then; where a step may write in
 * place, a storage that dies there and one that begins there are counted once. The peak is the largest of
 * these sums.
 */
#ifndef OURO_ORDER_H
#define OURO_ORDER_H

#include "ir/base/base.h"

/* A step may write storage `to` over storage `from`; both have the same size. */
typedef struct order_in_place {
    uint32_t from, to;
} order_in_place;

typedef struct order_problem {
    uint32_t step_count, storage_count;
    /* Of step i: before[before_starts[i] .. before_starts[i + 1]) are steps that must run earlier; their
     * numbers are smaller than i, so that 0, 1, 2, ... is an order. */
    const uint32_t *before_starts, *before;
    const uint32_t *touch_starts, *touches; /* the storages of step i, each once */
    const uint32_t *in_place_starts;        /* the choices of step i: at most one is taken */
    const order_in_place *in_place;
    const size_t *needs;            /* bytes that step i needs for itself */
    const size_t *sizes;            /* of storages; all sums fit */
    const bool *live_in, *live_out; /* storage is live before the first, after the last step */
} order_problem;

/* The peak of an order. False when memory runs out. */
bool pass_order_peak(const order_problem *problem, const uint32_t *order, base_arena *scratch, size_t *peak);

/* Finds an order whose peak is at most that of 0, 1, 2, ..., and that is 0, 1, 2, ... where nothing better is
 * found.
 *
 * Steps that every order has at the same place cut the problem into sections, which do not depend on each
 * other. Of the sections those with the highest peak are ordered anew, as long as that lowers the whole: by
 * an exact search over sets of steps that have run, each set once, the lowest peak first; where this takes
 * too many sets, by following the best few sets of each size; where sections are too long for that, chain by
 * chain, and then in windows around the peak. Deterministic, in about linear time. False when memory runs
 * out. */
bool pass_order_find(const order_problem *problem, base_arena *scratch, uint32_t *order, size_t *peak);

#endif
