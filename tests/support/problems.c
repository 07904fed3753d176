/* SPDX-License-Identifier: Apache-2.0 */
/* problems.c: see problems.h. */
#include "tests/support/problems.h"
#include <string.h>

enum { QUANTUM = 1024, LEVELS = (int)(PROBLEMS_CAPACITY / QUANTUM) };

static const char *const kinds[] = {"cut",       "fine",   "dense",  "sparse", "waves",   "crowded", "heavy",
                                    "staircase", "nested", "random", "equal",  "aligned", "pinned"};

const char *problems_kind(size_t index) {
    return index < sizeof kinds / sizeof *kinds ? kinds[index] : NULL;
}

bool problems_fit(const char *kind) {
    static const char *const fitting[] = {"cut", "fine", "dense", "sparse", "waves", "crowded", "pinned"};
    for (size_t i = 0; i < sizeof fitting / sizeof *fitting; i++) {
        if (strcmp(kind, fitting[i]) == 0) return true;
    }
    return false;
}

/* A random number below the limit. Of its own (a step of a Weyl sequence, mixed), as programs that are not
 * tests make problems, too. */
static size_t below(uint64_t *state, size_t limit) {
    uint64_t z = *state += BASE_RANDOM_STEP;
    z = (z ^ (z >> 32)) * 0xD6E8FEB86659FD93u;
    z = (z ^ (z >> 32)) * 0xD6E8FEB86659FD93u;
    return (size_t)((z ^ (z >> 32)) % limit);
}

/* A piece of the rectangle: steps [first, last) and levels [low, high). */
typedef struct piece {
    size_t first, last, low, high;
} piece;

typedef enum shape { MIXED, NARROW, LONG } shape;

/* A place strictly between low and high; in the middle third where there is one and `middle` asks for it. */
static size_t between(uint64_t *state, size_t low, size_t high, bool middle) {
    size_t third = middle ? (high - low) / 3 : 0;
    return low + third + 1 + below(state, high - low - 1 - 2 * third);
}

/* Cuts pieces[index] in two, or in five around a middle. Does nothing where it is too small for that. */
static void cut(uint64_t *state, piece *pieces, size_t *count, size_t index, shape form) {
    piece *p = &pieces[index];
    size_t length = p->last - p->first, width = p->high - p->low;
    if (form != NARROW && length >= 3 && width >= 3 && below(state, 6) == 0) {
        size_t a = p->first + 1 + below(state, length - 2), b = a + 1 + below(state, p->last - a - 1);
        size_t c = p->low + 1 + below(state, width - 2), d = c + 1 + below(state, p->high - c - 1);
        pieces[(*count)++] = (piece){p->first, b, p->low, c};
        pieces[(*count)++] = (piece){b, p->last, p->low, d};
        pieces[(*count)++] = (piece){a, p->last, d, p->high};
        pieces[(*count)++] = (piece){p->first, a, c, p->high};
        *p = (piece){a, b, c, d};
        return;
    }
    bool through_time = below(state, form == LONG ? 4 : 2) == 0;
    if (form == NARROW) {
        if (length < 16 && width < 100) return;
        through_time = length >= 16 && (width < 100 || below(state, 2) == 0);
    }
    if (through_time ? length < 2 : width < 2) through_time = !through_time;
    if (through_time ? length < 2 : width < 2) return;
    piece upper = *p;
    if (through_time) p->last = upper.first = between(state, p->first, p->last, form == NARROW);
    else p->high = upper.low = between(state, p->low, p->high, form == NARROW);
    pieces[(*count)++] = upper;
}

static size_t cut_rectangle(uint64_t *state, piece *pieces, size_t wanted, size_t steps, shape form) {
    size_t count = 1;
    pieces[0] = (piece){0, steps, 0, LEVELS};
    for (size_t tries = 0; count + 4 < wanted && tries < 100 * wanted; tries++) {
        /* The largest of a few: neither all alike nor a dust beside a giant. */
        size_t index = below(state, count), best = 0;
        for (int k = 0; k < (form == NARROW ? 8 : 3); k++) {
            size_t i = below(state, count);
            size_t area = (pieces[i].last - pieces[i].first) * (pieces[i].high - pieces[i].low);
            if (area > best) {
                best = area;
                index = i;
            }
        }
        cut(state, pieces, &count, index, form);
    }
    return count;
}

/* Gives up about one part in `part` of the area. */
static void loosen(uint64_t *state, piece *pieces, size_t *count, size_t part) {
    size_t area = 0, given = 0;
    for (size_t i = 0; i < *count; i++)
        area += (pieces[i].last - pieces[i].first) * (pieces[i].high - pieces[i].low);
    for (size_t tries = 0; given < area / part && tries < 50 * *count; tries++) {
        piece *p = &pieces[below(state, *count)];
        size_t length = p->last - p->first, width = p->high - p->low, before = length * width;
        switch (below(state, 4)) {
        case 0:
            if (before > area / 200) break; /* no giants */
            given += before;
            *p = pieces[--*count];
            break;
        case 1:
            if (length > 1) p->first += 1 + below(state, (length - 1 + 3) / 4);
            given += before - (p->last - p->first) * width;
            break;
        case 2:
            if (length > 1) p->last -= 1 + below(state, (length - 1 + 3) / 4);
            given += before - (p->last - p->first) * width;
            break;
        default:
            if (width > 1) p->high -= 1 + below(state, (width - 1 + 7) / 8);
            given += before - length * (p->high - p->low);
        }
    }
}

/* What is live swells to all and falls to little, a few times; the peaks stay full. */
static void thin_out(uint64_t *state, piece *pieces, size_t *count, size_t steps) {
    size_t period = steps / 3 + 1;
    for (size_t i = 0; i < *count;) {
        size_t middle = (pieces[i].first + pieces[i].last) / 2;
        size_t phase = middle % period, depth = phase < period / 2 ? period / 2 - phase : phase - period / 2;
        if (depth > period / 8 && below(state, period * 2 / 3) < depth - period / 8)
            pieces[i] = pieces[--*count];
        else i++;
    }
}

static void shuffle(uint64_t *state, planner_buffer *buffers, size_t count) {
    for (size_t i = count; i > 1; i--) {
        size_t k = below(state, i);
        planner_buffer moved = buffers[k];
        buffers[k] = buffers[i - 1];
        buffers[i - 1] = moved;
    }
}

static void draw(uint64_t *state, const char *kind, size_t i, size_t count, planner_buffer *b) {
    size_t size = 1 + below(state, 64), first = below(state, count), length = 1 + below(state, 24);
    if (strcmp(kind, "heavy") == 0) {
        size = 1 + below(state, 8);
        while (below(state, 5) < 2 && size < 300) size = size * 2 + below(state, 3);
        while (below(state, 3) == 0) length *= 2;
    } else if (strcmp(kind, "staircase") == 0) {
        first = i;
        length = 2 + below(state, 16);
    } else if (strcmp(kind, "nested") == 0) {
        first = below(state, count / 2);
        length = 2 * (count / 2 - first) + below(state, 5);
        if (below(state, 3) == 0) length = 1 + below(state, 3);
    } else if (strcmp(kind, "equal") == 0) {
        static const size_t sizes[] = {3, 5, 8, 16, 49};
        size = sizes[below(state, 5)];
    }
    *b = (planner_buffer){.size = size * QUANTUM,
                          .first = (int64_t)first,
                          .last = (int64_t)(first + length),
                          .fixed = PLANNER_NOT_FIXED};
}

bool problems_make(const char *kind, size_t count, uint64_t seed, base_arena *arena,
                   planner_problem *problem) {
    size_t known = 0;
    while (kinds[known] && strcmp(kinds[known], kind) != 0) {
        if (++known == sizeof kinds / sizeof *kinds) return false;
    }
    uint64_t state = seed * 1000003 + known;
    planner_buffer *buffers = BASE_ARRAY(arena, planner_buffer, count + 8);
    piece *pieces = BASE_ARRAY(arena, piece, 4 * count + 8);
    if (!buffers || !pieces) return false;
    bool aligned = strcmp(kind, "aligned") == 0, pinned = strcmp(kind, "pinned") == 0;
    if (problems_fit(kind) || aligned) {
        bool waves = strcmp(kind, "waves") == 0, crowded = strcmp(kind, "crowded") == 0;
        size_t steps = strcmp(kind, "fine") == 0 ? (size_t)1 << 20 : waves ? count * 3 / 5 : count / 2;
        size_t wanted = waves ? 2 * count : count;
        size_t cut_count = cut_rectangle(&state, pieces, wanted + 4, steps,
                                         waves     ? NARROW
                                         : crowded ? LONG
                                                   : MIXED);
        if (waves) thin_out(&state, pieces, &cut_count, steps);
        if (strcmp(kind, "dense") == 0 || aligned || pinned) loosen(&state, pieces, &cut_count, 20);
        if (crowded || strcmp(kind, "sparse") == 0) loosen(&state, pieces, &cut_count, 8);
        if (cut_count > count) cut_count = count;
        count = cut_count;
        for (size_t i = 0; i < count; i++) {
            const piece *p = &pieces[i];
            buffers[i] = (planner_buffer){.size = (p->high - p->low) * QUANTUM,
                                          .first = (int64_t)p->first,
                                          .last = (int64_t)p->last,
                                          .fixed = PLANNER_NOT_FIXED};
            if (aligned) buffers[i].alignment = (size_t)QUANTUM << below(&state, 5);
            if (pinned && below(&state, 10) == 0) buffers[i].fixed = p->low * QUANTUM;
        }
    } else {
        for (size_t i = 0; i < count; i++) draw(&state, kind, i, count, &buffers[i]);
    }
    shuffle(&state, buffers, count);
    *problem = (planner_problem){
        .buffers = buffers, .buffer_count = count, .capacity = problems_fit(kind) ? PROBLEMS_CAPACITY : 0};
    return true;
}
