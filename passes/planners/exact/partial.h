/* SPDX-License-Identifier: Apache-2.0 */
/* partial.h: partial solutions of an allocation problem, and short searches that place a few of its buffers anew.
 *
 * Some buffers are placed, at offsets that fit each other and the capacity; the others are missing. A search takes some
 * placed buffers out (it loosens them) and looks for places for these and for a few missing ones together, while all
 * others stay where they are. What stays counts only where loosened buffers live: there the free ranges are what the
 * search may use. Whoever wants to mend a solution chooses what to loosen (sweep.h).
 *
 * Source: loosening a part of a solution and searching for it again is the large neighbourhood search of Shaw, "Using
 * constraint programming and local search methods to solve vehicle routing problems" (1998).
 */
#ifndef OURO_PLANNERS_PARTIAL_H
#define OURO_PLANNERS_PARTIAL_H

#include "passes/planners/exact/search.h"

/* A buffer that could be loosened: the less its distance, the sooner. */
typedef struct partial_candidate {
    uint64_t distance;
    uint32_t buffer;
} partial_candidate;

/* One thread at a time. All arrays live in the arena that it was made in. */
typedef struct partial {
    const skyline *sky; /* of the problem: nothing is placed in it, and it is not changed */
    planner_budget *budget;
    search_memory *memory;
    const base_allocator *allocator;
    uint64_t random, searches;
    size_t capacity;
    bool *placed;
    size_t *offsets; /* of placed buffers, in the skyline's units */
    /* For the next search: those to be placed, whether they were placed before or not; their sections. */
    bool *loose;
    uint32_t *loosened, loosened_count;
    uint32_t first, last;
    uint32_t *marks, mark; /* buffers that a list has already: marks[b] == mark */
    partial_candidate *candidates;
    uint32_t candidate_count;
    struct partial_range *ranges; /* for those that interfere with one buffer */
    size_t focus; /* the address that candidates are near to */
    bool out_of_memory;
} partial;

/* Nothing is placed yet. The seed decides what chance does; searches of two seeds do not take each other's states for their
 * own, which `memory` may hold both. False when memory runs out. Memory for a search is taken from the arena's allocator, and
 * given back after it. */
bool exact_partial_init(partial *p, const skyline *sky, uint64_t seed, planner_budget *budget,
                        search_memory *memory, base_arena *arena);

/* Nothing is placed but what the user pinned. */
void exact_partial_clear(partial *p, size_t capacity);

/* A number below the limit, which is not 0. */
uint64_t exact_partial_draw(partial *p, uint64_t limit);

/* The user pinned b. */
bool exact_partial_is_pinned(const partial *p, uint32_t b);

/* The buffers of a section, placed or not, in the order of the skyline. */
const uint32_t *exact_partial_covers(const partial *p, uint32_t section, uint32_t *count);

/* Begins a list of candidates, near an address that is drawn by chance: what lies together leaves one free range. */
void exact_partial_list(partial *p);
/* Puts b on the list, unless it is there, is not placed or is pinned. Its distance is `away` times one more than the bands
 * of memory between it and the address, and times half to one and a half by chance. */
void exact_partial_add(partial *p, uint32_t b, uint64_t away);
/* The nearest come first. */
void exact_partial_sort(partial *p);

/* No buffer is loose. */
void exact_partial_fasten(partial *p);
/* b is loose. It is not pinned, and not loose yet. */
void exact_partial_loosen(partial *p, uint32_t b);

/* A short search for all loose buffers, of which there is one at least: that many nodes for each buffer in it.
 * SEARCH_SOLVED: they are placed. Otherwise no offset has changed, and p->out_of_memory is set if that is why. What it costs
 * is spent from the budget and added to *spent. */
search_outcome exact_partial_search(partial *p, uint64_t nodes, uint64_t *spent);

/* Places all loose buffers, none of which is placed, one after the other, in some orders, each into the smallest free range or the
 * lowest. True: they are placed. Otherwise nothing has changed. This is what is enough where there is space, at a small part of
 * the cost of a search. */
bool exact_partial_place(partial *p, uint64_t *spent);

#endif
