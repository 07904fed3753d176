/* SPDX-License-Identifier: Apache-2.0 */
/* skyline.h: partial solutions of an allocation problem, built from the bottom up, with inference and undo.
 *
 * Time is cut into sections, one for each maximal set of buffers that are live together: what is live at other
 * times is part of such a set. In a solution that is pushed down every buffer lies at 0 or on top of a buffer
 * that it interferes with, rounded up to its alignment. Such solutions can be built bottom up, so that a partial
 * one is a skyline:
 *
 *     floor[k]   the lowest offset at which a buffer still to come may start in section k
 *     start[b]   the lowest offset of buffer b: the largest floor of its sections, aligned, clear of fixed buffers
 *
 * Inference, until nothing changes: starts follow the floors; a floor rises to the least start of the buffers
 * still to come in its section (what lies below is wasted); a section whose floor plus the sizes to come
 * exceeds the capacity has no solution.
 *
 * All of it is counted in units that the caller chose, so few that 32 bits hold every sum. What inference asks of the
 * buffers of a section stands in the section, one row of starts and one of sizes: nearly all its questions are for the
 * least start, for those at the floor and for the sizes of those above a level, and so they are answered for several
 * buffers at a time. The price is that a start is written once for each section of the buffer.
 */
#ifndef OURO_SKYLINE_H
#define OURO_SKYLINE_H

#include "passes/planners/base/planner.h"

#define SKYLINE_NONE UINT32_MAX
#define SKYLINE_NEVER INT32_MAX        /* the start of what is placed */
#define SKYLINE_MOST ((size_t)1 << 30) /* units: no capacity is larger, no buffer, and no sum of a section */
#define SKYLINE_COVERS ((size_t)1 << 21) /* entries of all sections */
enum { SKYLINE_LANES = 8 };              /* the entries of a section are a multiple of these */

typedef struct skyline_item {
    int32_t size, alignment;
    int32_t fixed;            /* or SKYLINE_NEVER: the user did not pin it */
    uint32_t first, last;     /* sections [first, last) */
    uint32_t pins, pin_count; /* fixed ones that it interferes with: skyline.pins[pins ...] */
    uint32_t equal;           /* an equal buffer that is to be placed before this one, or SKYLINE_NONE */
} skyline_item;

typedef struct skyline_pin {
    int32_t low, high; /* the addresses [low, high) of a fixed buffer */
} skyline_pin;

typedef struct skyline_change {
    enum { SKYLINE_TOP, SKYLINE_FLOOR, SKYLINE_START, SKYLINE_PLACED } what;
    uint32_t index;
    int32_t before;
    uint32_t lowest; /* SKYLINE_FLOOR: how many buffers started there */
} skyline_change;

/* Sections that are to be looked at again, each of them once. */
typedef struct skyline_queue {
    uint32_t *sections;
    bool *holds; /* by section */
    uint32_t count;
} skyline_queue;

/* One thread at a time. All arrays live in `arena`, the trail on the heap (exact_skyline_free). */
typedef struct skyline {
    base_arena *arena;
    int32_t capacity;
    uint32_t item_count, section_count;
    int32_t most_alignment;
    skyline_item *items;
    skyline_pin *pins;
    /* The buffers of section k, placed or not: entries cover_starts[k] up to cover_starts[k + 1], one for each buffer, those
     * after empty (SKYLINE_NONE). Buffer b stands in section k in entries[entry_starts[b] + k - first]. */
    uint32_t *covers, *cover_starts;
    uint32_t *entries, *entry_starts;
    /* By entry. What is placed, or empty, starts at SKYLINE_NEVER and has no size. */
    int32_t *starts, *sizes;
    uint32_t *firsts, *lasts; /* the sections of the buffer; of an empty one none */
    int32_t *floor;
    int32_t *start;   /* by buffer */
    int32_t *top;     /* by section: the end of the highest buffer placed */
    int32_t *to_come; /* by section: the sum of all sizes */
    int32_t *reach;   /* by section: the capacity less the sizes of buffers still to come */
    uint32_t *left;   /* by section: their number */
    uint32_t *lowest; /* by section: how many of them start at the floor */
    uint32_t *spans;  /* by section: those that also cover the section before */
    bool *placed;
    size_t *offsets; /* of placed buffers */
    skyline_change *trail;
    size_t trail_count, trail_capacity;
    skyline_queue to_follow; /* sections whose starts, or floor, may have to rise */
    skyline_queue to_check;  /* sections in which starts have become too high for some order of buffers */
    uint32_t *fits;          /* by section: how many buffers fit (exact_skyline_fits), where known */
    bool *known;             /* by section: nothing that fits[] depends on has changed */
    bool *has_equal;         /* by section */
    uint64_t *keys;          /* of a buffer, for hashing sets */
    uint64_t *sets;          /* by section: the sum of the keys of those to come whose life begins there */
    int32_t *lifts, *levels; /* what inference needs: by section, by entry of a section */
    bool out_of_memory;
    /* Exact_skyline_init refused: there are more entries, or larger sums, than these numbers hold. */
    bool too_large;
} skyline;

/* Prepares an empty skyline for a problem whose live ranges decide interference (problem->starts is NULL).
 * Buffers of size 0 are placed already. False when memory runs out, or the problem is too large. */
bool exact_skyline_init(skyline *s, const planner_problem *problem, base_arena *arena);
void exact_skyline_free(skyline *s);

/* Looks at every section with this capacity, at most SKYLINE_MOST; false: no solution. */
bool exact_skyline_begin(skyline *s, size_t capacity);
/* Places buffer b at its start and infers; false: no solution this way. */
bool exact_skyline_place(skyline *s, uint32_t b);
/* No buffer to come starts at the floor of section k of a valley; infers. False: no solution this way. */
bool exact_skyline_waste(skyline *s, uint32_t k);
/* Takes back all changes since trail_count was `mark`. */
void exact_skyline_undo(skyline *s, size_t mark);

/* The valley [*first, *last) that section k lies in: equal floors that a buffer to come may span. */
void exact_skyline_valley(const skyline *s, uint32_t k, uint32_t *first, uint32_t *last);
/* How many buffers fit in section k. */
uint32_t exact_skyline_count_fits(skyline *s, uint32_t k);
/* b is still to come, starts exactly at the floor of section k, and something that is placed carries it
 * there. */
bool exact_skyline_fits(const skyline *s, uint32_t b, uint32_t k);

#endif
