/* SPDX-License-Identifier: Apache-2.0 */
/* address_rows.h: sets of addresses as rows of disjoint ranges, and walks along them in search of a free one.
 *
 * Ranges that touch or overlap are one in a row: the fuller memory is, the shorter the rows.
 *
 * A row is one array while it is short. A longer one is cut into runs of some dozen ranges, so that to take one range
 * more moves only a few, and to look for an address is to look for its run first. Of every run it is known how long a
 * free range in it, or directly after it, can be at the most: runs in which nothing fits are passed over. (Addresses are
 * never given back, so that free ranges only shrink. How long the longest one is, is found out when a run was looked
 * through in vain.)
 */
#ifndef OURO_PLANNERS_ADDRESS_ROWS_H
#define OURO_PLANNERS_ADDRESS_ROWS_H

#include "ir/base/base.h"

enum { ADDRESS_RUN = 128 }; /* the most ranges of a run */

/* [low, high), not empty, and not above 2^31. */
typedef struct address_range {
    uint32_t low, high;
} address_range;

/* Part of a row: ranges that do not touch, the lowest first. */
typedef struct address_run {
    address_range *items; /* ADDRESS_RUN of them, at the most */
    uint32_t count;       /* never 0 */
    uint32_t low;         /* of the first range */
    uint32_t gap;         /* no free range in it, or after it, is longer; UINT32_MAX for the last run */
} address_run;

/* Ranges that do not touch, the lowest first. Zeroed it is empty. */
typedef struct address_row {
    union {
        void *array;
        address_range *items;
        address_run *runs; /* where it is cut */
    };
    uint32_t count;    /* of items, or of runs */
    uint8_t logarithm; /* of the capacity in bytes; 0: none */
    bool cut;
} address_row;

/* Where rows take their memory from, and arrays that they grew out of, linked, by the logarithm of their bytes. */
typedef struct address_pool {
    base_arena *arena;
    void *spare[48];
} address_pool;

/* The union of the row and one range more. False when memory runs out: the row is as it was. */
bool planner_address_row_add(address_pool *pool, address_row *row, address_range range);

/* Says that a range from this address on will be added: what that needs is fetched into the caches. */
void planner_address_row_expect(const address_row *row, uint32_t low);

/* Makes a row empty. */
void planner_address_row_clear(address_pool *pool, address_row *row);

/* What is ahead of somebody who goes along a row upward. */
typedef struct address_walk {
    const address_range *items; /* of the array or run that he is in */
    uint32_t count;             /* 0: nothing is ahead */
    uint32_t runs;              /* after that one */
    address_run *run;           /* that one, where there are runs */
} address_walk;

/* What is to be placed: its size, its alignment less 1, and which of its addresses is to be aligned: the one so far
 * above its lowest. */
typedef struct address_wanted {
    uint32_t size, mask, end;
} address_wanted;

static inline uint32_t address_align(const address_wanted *w, uint32_t at) {
    return ((at + w->end + w->mask) & ~w->mask) - w->end;
}

/* From the lowest address on. */
static inline address_walk address_walk_begin(const address_row *row) {
    if (!row->cut) return (address_walk){.items = row->items, .count = row->count};
    return (address_walk){row->runs->items, row->runs->count, row->count - 1, row->runs};
}

/* Raises a place until the row leaves it free; true: it did not have to be raised. Places never sink again: what is
 * below is after the walk. */
bool planner_address_walk_rise(address_walk *walk, const address_wanted *w, uint32_t *at);

#endif
