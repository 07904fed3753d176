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
 */
#ifndef OURO_SKYLINE_H
#define OURO_SKYLINE_H

#include "passes/planner.h"

#define SKYLINE_NONE UINT32_MAX
#define SKYLINE_COVERS ((size_t)1 << 26)

typedef struct skyline_item {
    size_t size, alignment, fixed;
    uint32_t first, last;     /* sections [first, last) */
    uint32_t pins, pin_count; /* fixed ones that it interferes with: skyline.pins[pins ...] */
    uint32_t twin;            /* an equal buffer that is to be placed before this one, or SKYLINE_NONE */
} skyline_item;

typedef struct skyline_pin {
    size_t low, high; /* the addresses [low, high) of a fixed buffer */
} skyline_pin;

typedef struct skyline_change {
    enum { SKYLINE_TOP, SKYLINE_FLOOR, SKYLINE_START, SKYLINE_PLACED } what;
    uint32_t index;
    size_t before;
} skyline_change;

/* One thread at a time. All arrays live in `arena`, the trail on the heap (skyline_free). */
typedef struct skyline {
    base_arena *arena;
    size_t capacity;
    uint32_t item_count, section_count;
    skyline_item *items;
    skyline_pin *pins;
    /* The buffers still to come in section k: covers[cover_starts[k] .. cover_starts[k] + left[k]); behind
     * them the placed ones, the last placed first, up to cover_starts[k + 1]. */
    uint32_t *covers, *cover_starts;
    uint32_t *slots,
        *slot_starts; /* buffer b stands in section k at covers[slots[slot_starts[b] + k - first]] */
    size_t *floor, *start;
    size_t *top;     /* by section: the end of the highest buffer placed */
    size_t *to_come; /* by section: the sum of the sizes of buffers still to come */
    uint32_t *left;  /* by section: their number */
    uint32_t *spans; /* by section: those that also cover the section before */
    bool *placed;
    size_t *offsets; /* of placed buffers */
    skyline_change *trail;
    size_t trail_count, trail_capacity;
    uint32_t *queue; /* sections to look at again */
    bool *queued;
    size_t queue_count;
    uint32_t *fits;         /* by section: how many buffers fit (skyline_fits), where known */
    bool *known;            /* by section: nothing that fits[] depends on has changed */
    uint64_t *keys;         /* of a buffer, for hashing sets */
    uint64_t *sets;         /* by section: the sum of the keys of those to come whose life begins there */
    size_t *lifts, *levels; /* room for inference: by section, by buffer in a section */
    size_t *above; /* room for inference: sizes of buffers that start higher than their section's reach */
    bool out_of_memory;
    bool too_large; /* skyline_init refused: buffers times sections are beyond SKYLINE_COVERS */
} skyline;

/* Prepares an empty skyline for a problem whose live ranges decide interference (problem->starts is NULL).
 * Buffers of size 0 are placed already. False when memory runs out, the sum of sizes overflows, or the problem
 * is too large. */
bool skyline_init(skyline *s, const planner_problem *problem, base_arena *arena);
void skyline_free(skyline *s);

/* Looks at every section with this capacity; false: no solution. */
bool skyline_begin(skyline *s, size_t capacity);
/* Places buffer b at its start and infers; false: no solution this way. */
bool skyline_place(skyline *s, uint32_t b);
/* No buffer to come starts at the floor of section k of a valley; infers. False: no solution this way. */
bool skyline_waste(skyline *s, uint32_t k);
/* Takes back all changes since trail_count was `mark`. */
void skyline_undo(skyline *s, size_t mark);

/* The valley [*first, *last) that section k lies in: equal floors that a buffer to come may span. */
void skyline_valley(const skyline *s, uint32_t k, uint32_t *first, uint32_t *last);
/* How many buffers fit in section k. */
uint32_t skyline_count_fits(skyline *s, uint32_t k);
/* b is still to come, starts exactly at the floor of section k, and something that is placed carries it
 * there. */
bool skyline_fits(const skyline *s, uint32_t b, uint32_t k);

#endif
