/* SPDX-License-Identifier: Apache-2.0 */
/* compose.c: see compose.h. */
#include "passes/planners/exact/compose.h"
#include "passes/planners/base/sorting.h"
#include <string.h>

#define NO_BLOCK UINT32_MAX

enum {
    LOOKS = 256,          /* blocks that are looked at for one, at the most */
    LOOKS_OF_WORK = 4096, /* so many are a unit of work */
};

/* A buffer, or several that fill a rectangle. */
typedef struct compose_block {
    size_t size, alignment;
    uint32_t first, last; /* ranks of steps */
    uint32_t whole;       /* the block that it is a part of, or NO_BLOCK */
    size_t at;            /* where in that */
    uint32_t number;      /* in the problem that remains, where it is a part of none */
    bool stays;           /* it has no size, or the user pinned it */
} compose_block;

/* A block in the row of those that begin at a step, and in that of those that end there. */
typedef struct row_link {
    uint32_t next, before;
} row_link;

typedef struct composer {
    const planner_problem *problem;
    planner_budget *budget;
    compose_block *blocks;
    uint32_t count;
    row_link *begins, *ends;          /* by block */
    uint32_t *first_begin, *first_end, *last_begin, *last_end; /* by step */
    unsigned looks;                   /* left for the present block */
    uint64_t looked;
} composer;

/* ---- rows ------------------------------------------------------------------------------------------------ */

static void row_add(row_link *links, uint32_t *first, uint32_t *last, uint32_t b) {
    links[b] = (row_link){NO_BLOCK, *last};
    if (*last == NO_BLOCK) *first = b;
    else links[*last].next = b;
    *last = b;
}

static void row_remove(row_link *links, uint32_t *first, uint32_t *last, uint32_t b) {
    const row_link l = links[b];
    if (l.before == NO_BLOCK) *first = l.next;
    else links[l.before].next = l.next;
    if (l.next == NO_BLOCK) *last = l.before;
    else links[l.next].before = l.before;
}

static void enter(composer *c, uint32_t b) {
    const compose_block *block = &c->blocks[b];
    row_add(c->begins, &c->first_begin[block->first], &c->last_begin[block->first], b);
    row_add(c->ends, &c->first_end[block->last], &c->last_end[block->last], b);
}

static void leave(composer *c, uint32_t b) {
    const compose_block *block = &c->blocks[b];
    row_remove(c->begins, &c->first_begin[block->first], &c->last_begin[block->first], b);
    row_remove(c->ends, &c->first_end[block->last], &c->last_end[block->last], b);
}

/* Counts a look at a block; false: that were too many. */
static bool look(composer *c) {
    if (c->looks == 0) return false;
    c->looks--;
    if (++c->looked % LOOKS_OF_WORK == 0) planner_budget_spend(c->budget, 1);
    return true;
}

/* ---- what fits ------------------------------------------------------------------------------------------- */

/* Where a part lies in a rectangle. */
typedef struct placed_part {
    uint32_t block;
    size_t at;
} placed_part;

/* Parts become one block, where their alignments allow it. The rectangle has the largest of them. */
static bool make_whole(composer *c, const placed_part *parts, unsigned count, uint32_t first, uint32_t last, size_t size) {
    compose_block whole = {.size = size, .alignment = 1, .first = first, .last = last, .whole = NO_BLOCK};
    for (unsigned i = 0; i < count; i++) {
        const compose_block *part = &c->blocks[parts[i].block];
        if (parts[i].at & (part->alignment - 1)) return false;
        if (part->alignment > whole.alignment) whole.alignment = part->alignment;
    }
    for (unsigned i = 0; i < count; i++) {
        leave(c, parts[i].block);
        c->blocks[parts[i].block].whole = c->count;
        c->blocks[parts[i].block].at = parts[i].at;
    }
    c->blocks[c->count] = whole;
    enter(c, c->count++);
    return true;
}

static bool stack_two(composer *c, uint32_t low, uint32_t high) {
    const compose_block *a = &c->blocks[low], *b = &c->blocks[high];
    const placed_part parts[] = {{low, 0}, {high, a->size}}, swapped[] = {{high, 0}, {low, b->size}};
    return make_whole(c, parts, 2, a->first, a->last, a->size + b->size) ||
           make_whole(c, swapped, 2, a->first, a->last, a->size + b->size);
}

/* Another block of the same life, or one that begins with the same size where b ends. */
static bool compose_two(composer *c, uint32_t b) {
    const compose_block *block = &c->blocks[b];
    for (uint32_t i = c->first_begin[block->first]; i != NO_BLOCK && look(c); i = c->begins[i].next) {
        if (i != b && c->blocks[i].last == block->last && stack_two(c, b, i)) return true;
    }
    for (uint32_t i = c->first_begin[block->last]; i != NO_BLOCK && look(c); i = c->begins[i].next) {
        const placed_part parts[] = {{b, 0}, {i, 0}};
        if (c->blocks[i].size == block->size) return make_whole(c, parts, 2, block->first, c->blocks[i].last, block->size);
    }
    return false;
}

/* Of a pinwheel around `centre` all is known but the right blade: it begins where the centre ends, and ends with the top. */
static bool find_right(composer *c, uint32_t centre, uint32_t left, uint32_t top, uint32_t bottom) {
    const compose_block *m = &c->blocks[centre], *t = &c->blocks[top], *b = &c->blocks[bottom];
    for (uint32_t right = c->first_begin[m->last]; right != NO_BLOCK && look(c); right = c->begins[right].next) {
        const compose_block *r = &c->blocks[right];
        if (r->size != m->size + b->size || r->last != t->last) continue;
        const size_t size = m->size + b->size + t->size, below_top = m->size + b->size, below_bottom = m->size + t->size;
        const placed_part upright[] = {{bottom, 0}, {right, 0}, {centre, b->size}, {left, b->size}, {top, below_top}};
        const placed_part turned[] = {{top, 0}, {left, 0}, {centre, t->size}, {right, t->size}, {bottom, below_bottom}};
        return make_whole(c, upright, 5, b->first, t->last, size) || make_whole(c, turned, 5, b->first, t->last, size);
    }
    return false;
}

/* The pinwheel around this block. */
static bool compose_five(composer *c, uint32_t centre) {
    const compose_block *m = &c->blocks[centre];
    for (uint32_t left = c->first_end[m->first]; left != NO_BLOCK && look(c); left = c->ends[left].next) {
        const compose_block *l = &c->blocks[left];
        if (l->size <= m->size) continue;
        for (uint32_t top = c->first_begin[m->first]; top != NO_BLOCK && look(c); top = c->begins[top].next) {
            const compose_block *t = &c->blocks[top];
            if (t->size != l->size - m->size || t->last <= m->last || top == centre) continue;
            for (uint32_t bottom = c->first_end[m->last]; bottom != NO_BLOCK && look(c); bottom = c->ends[bottom].next)
                if (bottom != centre && c->blocks[bottom].first == l->first && find_right(c, centre, left, top, bottom))
                    return true;
        }
    }
    return false;
}

/* Tries every block once, also those that are made meanwhile. */
static bool compose_all(composer *c, bool (*compose)(composer *, uint32_t)) {
    bool any = false;
    for (uint32_t b = 0; b < c->count && !c->budget->over; b++) {
        c->looks = LOOKS;
        if (c->blocks[b].whole == NO_BLOCK && !c->blocks[b].stays) any |= compose(c, b);
    }
    return any;
}

/* ---- the problem ----------------------------------------------------------------------------------------- */

/* Steps by their ranks. False when memory runs out. */
static bool rank_steps(composer *c, base_arena *arena, uint32_t *steps) {
    const size_t count = 2 * c->problem->buffer_count;
    planner_key *keys = BASE_ARRAY(arena, planner_key, 2 * count + 1);
    if (!keys) return false;
    for (size_t i = 0; i < count; i++) {
        const planner_buffer *b = &c->problem->buffers[i / 2];
        keys[i] = (planner_key){planner_step_key(i % 2 ? b->last : b->first), (uint32_t)i};
    }
    planner_sort_keys(keys, count, keys + count);
    *steps = 0;
    for (size_t i = 0; i < count; i++) {
        *steps += i > 0 && keys[i].key != keys[i - 1].key;
        compose_block *b = &c->blocks[keys[i].buffer / 2];
        if (keys[i].buffer % 2) b->last = *steps;
        else b->first = *steps;
    }
    *steps += 1;
    return true;
}

static bool composer_init(composer *c, const planner_problem *problem, planner_budget *budget, base_arena *arena) {
    const size_t count = problem->buffer_count, most = 2 * count + 1;
    uint32_t steps;
    *c = (composer){.problem = problem,
                    .budget = budget,
                    .blocks = BASE_ARRAY(arena, compose_block, most),
                    .count = (uint32_t)count,
                    .begins = BASE_ARRAY(arena, row_link, most),
                    .ends = BASE_ARRAY(arena, row_link, most)};
    if (!c->blocks || !c->begins || !c->ends) return false;
    for (size_t b = 0; b < count; b++) {
        const planner_buffer *buffer = &problem->buffers[b];
        c->blocks[b] = (compose_block){.size = buffer->size,
                                       .alignment = buffer->alignment ? buffer->alignment : 1,
                                       .whole = NO_BLOCK,
                                       .stays = buffer->size == 0 || buffer->fixed != PLANNER_NOT_FIXED};
    }
    if (!rank_steps(c, arena, &steps)) return false;
    uint32_t *rows = BASE_ARRAY(arena, uint32_t, 4 * (size_t)steps);
    if (!rows) return false;
    for (size_t k = 0; k < 4 * (size_t)steps; k++) rows[k] = NO_BLOCK;
    c->first_begin = rows;
    c->last_begin = rows + steps;
    c->first_end = rows + 2 * (size_t)steps;
    c->last_end = rows + 3 * (size_t)steps;
    for (uint32_t b = 0; b < count; b++)
        if (!c->blocks[b].stays) enter(c, b);
    return true;
}

/* The problem of all blocks that are part of none; its steps are ranks. False when memory runs out. */
static bool list_remaining(const composer *c, base_arena *arena, composition *composed) {
    planner_buffer *buffers = BASE_ARRAY(arena, planner_buffer, c->problem->buffer_count + 1);
    if (!buffers) return false;
    *composed = (composition){.problem = {.buffers = buffers, .capacity = c->problem->capacity},
                              .blocks = c->blocks,
                              .buffer_count = c->problem->buffer_count};
    for (uint32_t b = 0; b < c->count; b++) {
        compose_block *block = &c->blocks[b];
        if (block->whole != NO_BLOCK) continue;
        block->number = (uint32_t)composed->problem.buffer_count++;
        buffers[block->number] = (planner_buffer){.size = block->size,
                                                  .alignment = block->alignment,
                                                  .first = block->first,
                                                  .last = block->last,
                                                  .fixed = block->stays ? c->problem->buffers[b].fixed : PLANNER_NOT_FIXED};
    }
    return true;
}

bool exact_compose(const planner_problem *problem, planner_budget *budget, base_arena *arena, composition *composed) {
    composer c;
    const bool fine = composer_init(&c, problem, budget, arena);
    /* Five first: that two of them fit together by accident is more likely. */
    for (bool any = fine; any && !budget->over;) {
        any = compose_all(&c, compose_five);
        if (!any) any = compose_all(&c, compose_two);
    }
    return fine && list_remaining(&c, arena, composed);
}

void exact_compose_place(const composition *composed, const size_t *remaining, size_t *offsets) {
    for (size_t b = 0; b < composed->buffer_count; b++) {
        size_t at = 0;
        const compose_block *block = &composed->blocks[b];
        for (; block->whole != NO_BLOCK; block = &composed->blocks[block->whole]) at += block->at;
        if (block->size > 0) offsets[b] = remaining[block->number] + at;
    }
}
