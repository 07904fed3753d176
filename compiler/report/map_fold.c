/* SPDX-License-Identifier: Apache-2.0 */
/* map_fold.c: layers that use the memory in the same way, one after another, are drawn once; see map.h.
 *
 * Two steps use it in the same way when they run the same operator, and the same boxes begin and end in them: of the same bytes, at
 * the same addresses, as many steps long. A box that no other step of the block has, because it lives across all of them, neither
 * begins nor ends within them. */
#include "compiler/report/map.h"
#include <string.h>

enum {
    LONGEST_BLOCK = 1000, /* steps */
    LEAST_BLOCKS = 3,     /* fewer of them are drawn one by one */
    LEAST_SAVED = 40,     /* steps */
    DEEPEST = 12          /* how often what is left and right of a block is searched again */
};

/* Steps first .. first + period - 1, and count - 1 times as many after them that are the same. */
typedef struct fold_block {
    size_t first, period, count;
} fold_block;

typedef struct fold_blocks {
    const uint64_t *signature; /* by step */
    fold_block *blocks;        /* ascending */
    size_t count, capacity;
    base_arena *arena;
} fold_blocks;

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ (hash >> 29);
}

static uint64_t mix_text(uint64_t hash, const char *text) {
    for (; *text; text++) hash = mix(hash, (unsigned char)*text);
    return hash;
}

/* What happens in each step, as a number. Sums: the order of the boxes does not matter. */
static uint64_t *sign_steps(const map_picture *picture, size_t steps, base_arena *arena) {
    uint64_t *signature = BASE_ARRAY(arena, uint64_t, steps + 1);
    if (!signature) return NULL;
    for (size_t i = 0; i < picture->count; i++) {
        const map_rectangle *box = &picture->rectangles[i];
        const size_t first = (size_t)box->first, last = (size_t)box->last;
        uint64_t what = mix(mix(mix((uint64_t)box->kind + 1, box->low), box->bytes), last - first);
        if (first < steps) signature[first] += mix(what, 1);
        if (last && last <= steps) signature[last - 1] += mix(what, 2);
    }
    for (size_t i = 0; i < picture->span_count; i++) {
        const map_span *span = &picture->spans[i];
        const size_t first = (size_t)span->first, last = (size_t)span->last;
        const uint64_t what = mix(mix(span->depth + 3, span->iteration), last - first);
        if (first < steps) signature[first] += mix(what, 3);
        if (last && last <= steps) signature[last - 1] += mix(what, 4);
    }
    for (size_t step = 0; step < steps && picture->columns; step++)
        if (picture->columns[step]) signature[step] += mix_text(5, picture->columns[step]);
    return signature;
}

/* The block between two steps that leaves out the most; of equal ones the shortest. */
static fold_block find_block(const uint64_t *signature, size_t from, size_t to) {
    fold_block best = {0};
    size_t most = LEAST_SAVED - 1;
    for (size_t period = 1; period <= LONGEST_BLOCK && period * LEAST_BLOCKS <= to - from; period++) {
        size_t run = 0;
        for (size_t step = from + period; step < to; step++) {
            run = signature[step] == signature[step - period] ? run + 1 : 0;
            const size_t count = run / period + 1;
            if (count < LEAST_BLOCKS || (count - 1) * period <= most) continue;
            most = (count - 1) * period;
            best = (fold_block){.first = step + 1 - run - period, .period = period, .count = count};
        }
    }
    return best;
}

static bool find_blocks(fold_blocks *found, size_t from, size_t to, unsigned depth) {
    const fold_block block = find_block(found->signature, from, to);
    if (!block.count) return true;
    if (depth < DEEPEST && !find_blocks(found, from, block.first, depth + 1)) return false;
    fold_block *grown =
        base_arena_grow(found->arena, found->blocks, &found->capacity, found->count + 1, sizeof *grown);
    if (!grown) return false;
    found->blocks = grown;
    grown[found->count++] = block;
    return depth >= DEEPEST || find_blocks(found, block.first + block.period * block.count, to, depth + 1);
}

/* Where a step is drawn. */
static double moved(const double *to, size_t steps, double at) {
    const size_t step = at >= (double)steps ? steps : (size_t)at;
    const double rest = at - (double)step;
    return step < steps && to[step + 1] > to[step] ? to[step] + rest : to[step];
}

static void move_boxes(map_picture *picture, const double *to, size_t steps) {
    size_t kept = 0;
    for (size_t i = 0; i < picture->count; i++) {
        map_rectangle box = picture->rectangles[i];
        box.first = moved(to, steps, box.first);
        box.last = moved(to, steps, box.last);
        if (box.last > box.first) picture->rectangles[kept++] = box;
    }
    picture->left_out = picture->count - kept;
    picture->count = kept;
    kept = 0;
    for (size_t i = 0; i < picture->span_count; i++) {
        map_span span = picture->spans[i];
        span.first = moved(to, steps, span.first);
        span.last = moved(to, steps, span.last);
        if (span.last > span.first) picture->spans[kept++] = span;
    }
    picture->span_count = kept;
    kept = 0;
    for (size_t i = 0; i < picture->curve_count; i++) {
        const double first = moved(to, steps, picture->curve_at[i]);
        const double last = moved(to, steps, picture->curve_at[i + 1]);
        if (last <= first) continue;
        picture->curve_at[kept] = first;
        picture->curve[kept++] = picture->curve[i];
        picture->curve_at[kept] = last;
    }
    picture->curve_count = kept;
}

/* A name above each block: how often, and which steps it stands for. */
static bool name_blocks(map_picture *picture, const fold_blocks *found, const double *to, base_arena *arena) {
    const unsigned depth = emit_map_depth(picture);
    for (size_t i = 0; i < found->count; i++) {
        const fold_block *block = &found->blocks[i];
        const size_t end = block->first + block->period * block->count - 1;
        const char *text = base_arena_format(
            arena, "%zu\xC3\x97: these %zu steps stand for steps %zu to %zu, which use the same addresses",
            block->count, block->period, block->first, end);
        const map_span span = {.first = to[block->first],
                               .last = to[block->first + block->period],
                               .depth = depth,
                               .repeats = true,
                               .text = text};
        if (!text || !emit_map_add_span(picture, arena, span)) return false;
    }
    return true;
}

base_status emit_map_fold(map_picture *picture, size_t most, base_arena *arena, base_report *report) {
    if (!picture->columns || picture->width <= (double)most) return BASE_OK;
    const size_t steps = (size_t)picture->width;
    fold_blocks found = {.signature = sign_steps(picture, steps, arena), .arena = arena};
    double *to = BASE_ARRAY(arena, double, steps + 1);
    size_t *kept = BASE_ARRAY(arena, size_t, steps + 1);
    if (!found.signature || !to || !kept || !find_blocks(&found, 0, steps, 0))
        return base_fail_memory(report);
    if (!found.count) return BASE_OK;

    size_t count = 0, next = 0;
    for (size_t step = 0; step < steps; step++) {
        while (next < found.count &&
               step >= found.blocks[next].first + found.blocks[next].period * found.blocks[next].count)
            next++;
        to[step] = (double)count;
        if (next < found.count && step >= found.blocks[next].first + found.blocks[next].period) continue;
        picture->columns[count] = picture->columns[step];
        kept[count++] = step;
    }
    to[steps] = (double)count;
    kept[count] = steps;
    picture->steps = kept;
    move_boxes(picture, to, steps);
    picture->width = (double)count;
    return name_blocks(picture, &found, to, arena) ? BASE_OK : base_fail_memory(report);
}
