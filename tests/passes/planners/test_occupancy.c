/* SPDX-License-Identifier: Apache-2.0 */
/* test_occupancy.c: free ranges and interferences from the tree, against plain loops over all buffers. */
#include "passes/planners/occupancy.h"
#include "passes/planners/planners.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 2500 }; /* some dozen blocks, so that the tree is more than a root */

typedef struct bench {
    planner_problem problem;
    size_t offsets[MOST];
    bool placed[MOST];
} bench;

static size_t below(uint64_t *state, size_t limit) {
    return (size_t)(support_random(state) % limit);
}

static bool meet(const planner_problem *problem, size_t a, size_t b) {
    const planner_buffer *x = &problem->buffers[a], *y = &problem->buffers[b];
    if (!problem->starts) return a != b && x->first < y->last && y->first < x->last;
    for (size_t k = problem->starts[a]; k < problem->starts[a + 1]; k++)
        if (problem->neighbours[k] == b) return true;
    return false;
}

static bool is_free(const bench *b, size_t buffer, size_t offset) {
    size_t end = offset + b->problem.buffers[buffer].size;
    for (size_t i = 0; i < b->problem.buffer_count; i++) {
        size_t size = b->problem.buffers[i].size;
        if (!b->placed[i] || !size || !meet(&b->problem, buffer, i)) continue;
        if (b->offsets[i] < end && offset < b->offsets[i] + size) return false;
    }
    return true;
}

/* Lives of several kinds: one after the other, long ones, many that begin or end together. */
static void random_life(uint64_t *state, size_t kind, size_t count, planner_buffer *buffer) {
    size_t steps = kind == 0 ? 2 * count : kind == 1 ? 12 : count, length = 1 + below(state, 30);
    if (kind == 2) length = 1 + below(state, count);
    buffer->first = (int64_t)below(state, steps) - 7;
    buffer->last = buffer->first + (int64_t)length;
    if (kind == 3) buffer->last = (buffer->first / 40 + 2) * 40; /* many end together */
    if (kind == 4) buffer->first = 0;
    if (kind == 4 && buffer->last <= 0) buffer->last = 1;
}

static void make(bench *b, uint64_t *state, size_t kind, size_t count, bool listed, base_arena *arena) {
    planner_buffer *buffers = BASE_ARRAY(arena, planner_buffer, count);
    memset(b, 0, sizeof *b);
    b->problem = (planner_problem){.buffers = buffers, .buffer_count = count};
    for (size_t i = 0; i < count; i++) {
        buffers[i] = (planner_buffer){.size = below(state, 40) << (count % 3), .fixed = PLANNER_NOT_FIXED};
        if (below(state, 3) == 0) buffers[i].alignment = (size_t)1 << below(state, 5);
        random_life(state, kind, count, &buffers[i]);
    }
    if (!listed) return;
    size_t *starts = BASE_ARRAY(arena, size_t, count + 1), found = 0;
    uint32_t *neighbours = BASE_ARRAY(arena, uint32_t, count * count);
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < count; k++)
            if (meet(&b->problem, i, k)) neighbours[found++] = (uint32_t)k;
        starts[i + 1] = found;
    }
    b->problem.starts = starts;
    b->problem.neighbours = neighbours;
}

/* One question of each kind, answered by trying all offsets. */
static void compare(bench *b, occupancy *o, occupancy *from_top, uint32_t buffer, size_t height,
                    uint64_t seed) {
    const planner_buffer *asked = &b->problem.buffers[buffer];
    const size_t unit = (size_t)1 << o->shift;
    size_t step = asked->alignment > unit ? asked->alignment : unit, lowest = 0, highest = 0, top = 0, offset;
    while (!is_free(b, buffer, lowest)) lowest += step;
    if (planner_occupancy_lowest(o, buffer) != lowest)
        fail_msg("seed %" PRIu64 ": lowest %zu, not %zu", seed, planner_occupancy_lowest(o, buffer), lowest);
    bool there = height >= asked->size;
    highest = there ? (height - asked->size) & ~(step - 1) : 0;
    while (there && !is_free(b, buffer, highest)) {
        if (highest < step) there = false;
        else highest -= step;
    }
    for (size_t i = 0; i < b->problem.buffer_count; i++) {
        size_t end = b->offsets[i] + b->problem.buffers[i].size;
        if (b->placed[i] && b->problem.buffers[i].size && meet(&b->problem, buffer, i) && end > top)
            top = end;
    }
    if (!there) highest = (top + step - 1) & ~(step - 1);
    if (planner_occupancy_highest(from_top, buffer, height, &offset) != there || offset != highest)
        fail_msg("seed %" PRIu64 ": highest %zu, not %zu", seed, offset, highest);
    size_t best = SIZE_MAX, best_gap = SIZE_MAX, free_from = 0; /* gaps, address by address */
    for (size_t at = 0; at <= top; at++) {
        bool taken = false;
        for (size_t i = 0; i < b->problem.buffer_count && !taken; i++) {
            taken = b->placed[i] && at >= b->offsets[i] && at - b->offsets[i] < b->problem.buffers[i].size &&
                    meet(&b->problem, buffer, i);
        }
        if (!taken) continue;
        size_t from = (free_from + step - 1) & ~(step - 1);
        if (at > free_from && from <= at && at - from >= asked->size && at - from < best_gap) {
            best = from;
            best_gap = at - from;
        }
        free_from = at + 1;
    }
    if (best == SIZE_MAX) best = (top + step - 1) & ~(step - 1);
    offset = planner_occupancy_best_fit(o, buffer);
    if (offset != best) fail_msg("seed %" PRIu64 ": best fit %zu, not %zu", seed, offset, best);
    for (size_t at = lowest > 20 * unit ? lowest - 20 * unit : 0; at < lowest + 20 * unit; at += unit) {
        assert_int_equal(planner_occupancy_is_free(o, buffer, at), is_free(b, buffer, at));
        assert_int_equal(planner_occupancy_is_free(from_top, buffer, at), is_free(b, buffer, at));
    }
}

static void answers_are_those_of_plain_loops(void **unused) {
    (void)unused;
    static bench b;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        base_arena arena;
        occupancy o, from_top;
        uint64_t state = seed;
        base_arena_init(&arena, NULL);
        bool large = seed > 55;
        size_t count = large ? MOST : seed % 10 == 0 ? 320 : 1 + below(&state, 120), height = 0;
        make(&b, &state, seed % 5, count, seed % 4 == 0 && !large, &arena);
        assert_true(planner_occupancy_init(&o, &b.problem, OCCUPANCY_LOWEST, &arena));
        assert_true(planner_occupancy_init(&from_top, &b.problem, OCCUPANCY_HIGHEST, &arena));
        uint32_t *degrees = planner_occupancy_degrees(&o);
        for (uint32_t i = 0; i < count; i += large ? 100 : 1) {
            size_t degree = 0;
            for (size_t k = 0; k < count; k++) degree += meet(&b.problem, i, k);
            assert_int_equal(degrees[i], degree);
        }
        for (unsigned round = 0; round < 2; round++) { /* and once more after all is forgotten */
            for (uint32_t i = 0; i < count; i++) {
                const planner_buffer *buffer = &b.problem.buffers[i];
                const size_t unit = (size_t)1 << o.shift;
                size_t offset = below(&state, 600),
                       step = buffer->alignment > unit ? buffer->alignment : unit;
                if (!buffer->size) continue;
                if (i % (large ? 500 : 5) == 0) compare(&b, &o, &from_top, i, height, seed);
                if (i % 2) offset = planner_occupancy_lowest(&o, i);
                else if (i % 4) (void)planner_occupancy_highest(&from_top, i, height, &offset);
                offset &= ~(step - 1);
                if (below(&state, 50) == 0) continue;
                assert_true(planner_occupancy_add(&o, i, offset) &&
                            planner_occupancy_add(&from_top, i, offset));
                b.offsets[i] = offset;
                b.placed[i] = true;
                if (offset + buffer->size > height) height = offset + buffer->size;
            }
            planner_occupancy_clear(&o, OCCUPANCY_LOWEST);
            planner_occupancy_clear(&from_top, OCCUPANCY_HIGHEST);
            memset(b.placed, 0, sizeof b.placed);
            height = 0;
        }
        base_arena_free(&arena);
    }
}

/* Sizes, alignments and pinned offsets far beyond 32 bits: answers may be rounded up a little, and are right. */
static void more_than_32_bits_of_bytes(void **unused) {
    (void)unused;
    static bench b;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        base_arena arena;
        base_report report = {0};
        uint64_t state = seed;
        base_arena_init(&arena, NULL);
        make(&b, &state, seed % 5, 20 + below(&state, 100), seed % 4 == 0, &arena);
        planner_buffer *buffers = BASE_ARRAY(&arena, planner_buffer, b.problem.buffer_count);
        memcpy(buffers, b.problem.buffers, b.problem.buffer_count * sizeof *buffers);
        b.problem.buffers = buffers;
        const size_t scale = (size_t)1 << (25 + seed % 24);
        for (size_t i = 0; i < b.problem.buffer_count; i++)
            if (buffers[i].size) buffers[i].size = buffers[i].size * scale - below(&state, scale);
        if (seed % 3 == 0) buffers[0].fixed = below(&state, 100 * scale);
        if (seed % 3 == 0) buffers[0].alignment = 0;
        const char *names[] = {"nnc", "greedy-by-size"};
        for (size_t k = 0; k < 2; k++) {
            planner_solution solution;
            if (planner_run(planner_find(names[k]), &b.problem, &(planner_options){0}, &arena, &solution,
                            &report) != BASE_OK)
                fail_msg("seed %" PRIu64 ", %s: %s", seed, names[k], report.text);
            assert_true(solution.height >= solution.lower_bound);
            if (seed % 3) assert_true(solution.height <= 4 * solution.lower_bound);
        }
        base_arena_free(&arena);
    }
    /* Two that live together: what rounding costs. */
    planner_buffer two[2] = {{.size = ((size_t)5 << 30) + 1, .last = 2, .fixed = PLANNER_NOT_FIXED},
                             {.size = ((size_t)3 << 30) + 7, .last = 2, .fixed = PLANNER_NOT_FIXED}};
    planner_problem problem = {.buffers = two, .buffer_count = 2};
    base_arena arena;
    base_report report = {0};
    planner_solution solution;
    base_arena_init(&arena, NULL);
    assert_int_equal(
        planner_run(planner_find("nnc"), &problem, &(planner_options){0}, &arena, &solution, &report),
        BASE_OK);
    assert_in_range(solution.height, solution.lower_bound, solution.lower_bound + 8);
    base_arena_free(&arena);
}

/* Sizes a byte short of round ones, too many bytes for a unit of one: as high as the round ones, but for that byte. */
static void rounding_up_is_as_rounded_before(void **unused) {
    (void)unused;
    static bench b;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        const char *names[] = {"nnc", "greedy-by-size"};
        base_arena arena;
        base_report report = {0};
        uint64_t state = seed;
        base_arena_init(&arena, NULL);
        make(&b, &state, seed % 5, 20 + below(&state, 100), seed % 4 == 0, &arena);
        planner_buffer *buffers = BASE_ARRAY(&arena, planner_buffer, b.problem.buffer_count);
        for (size_t k = 0; k < 2; k++) {
            size_t heights[2];
            for (size_t less = 0; less < 2; less++) {
                planner_problem problem = b.problem;
                planner_solution solution;
                for (size_t i = 0; i < problem.buffer_count; i++) {
                    buffers[i] = b.problem.buffers[i];
                    if (buffers[i].size) buffers[i].size = (buffers[i].size << 30) - less;
                }
                problem.buffers = buffers;
                assert_int_equal(planner_run(planner_find(names[k]), &problem, &(planner_options){0}, &arena,
                                             &solution, &report),
                                 BASE_OK);
                heights[less] = solution.height;
            }
            if (heights[1] != heights[0] - 1)
                fail_msg("seed %" PRIu64 ", %s: %zu, not %zu - 1", seed, names[k], heights[1], heights[0]);
        }
        base_arena_free(&arena);
    }
}

static int compare_addresses(const void *left, const void *right) {
    const address_range *a = left, *b = right;
    return (a->low > b->low) - (a->low < b->low);
}

/* The lowest free offset and the best fit, from all that are placed and live with the buffer. */
static void compare_large(const planner_problem *problem, const size_t *offsets, occupancy *o,
                          uint32_t buffer, address_range *taken) {
    size_t count = 0, lowest = SIZE_MAX, best = SIZE_MAX, best_gap = SIZE_MAX, top = 0;
    const size_t size = problem->buffers[buffer].size;
    for (uint32_t i = 0; i < problem->buffer_count; i++) {
        if (offsets[i] == SIZE_MAX || !meet(problem, buffer, i)) continue;
        taken[count++] =
            (address_range){(uint32_t)offsets[i], (uint32_t)(offsets[i] + problem->buffers[i].size)};
    }
    if (count) qsort(taken, count, sizeof *taken, compare_addresses);
    for (size_t i = 0; i < count; i++) {
        const size_t gap = taken[i].low > top ? taken[i].low - top : 0;
        if (gap >= size && lowest == SIZE_MAX) lowest = top;
        if (gap >= size && gap < best_gap) best = top, best_gap = gap;
        if (taken[i].high > top) top = taken[i].high;
    }
    assert_int_equal(planner_occupancy_lowest(o, buffer), lowest == SIZE_MAX ? top : lowest);
    assert_int_equal(planner_occupancy_best_fit(o, buffer), best == SIZE_MAX ? top : best);
}

/* Rows of thousands of ranges, which are cut into runs, and so many blocks that they are in groups. */
static void large_trees(void **unused) {
    (void)unused;
    for (unsigned grouped = 0; grouped < 2; grouped++) {
        const uint32_t count = grouped ? 250000 : 12000;
        base_arena arena;
        base_arena_init(&arena, NULL);
        planner_buffer *buffers = BASE_ARRAY(&arena, planner_buffer, count);
        size_t *offsets = BASE_ARRAY(&arena, size_t, count);
        address_range *taken = BASE_ARRAY(&arena, address_range, count);
        uint64_t state = grouped;
        for (uint32_t i = 0; i < count; i++) {
            const bool is_long = !grouped || below(&state, 40) == 0;
            const int64_t a = (int64_t)below(&state, count),
                          b = is_long ? (int64_t)below(&state, count) : a + (int64_t)below(&state, 50);
            buffers[i] = (planner_buffer){.size = 1 + below(&state, 1000), .fixed = PLANNER_NOT_FIXED};
            buffers[i].first = a < b ? a : b;
            buffers[i].last = (a < b ? b : a) + 1;
            offsets[i] = SIZE_MAX;
        }
        const planner_problem problem = {.buffers = buffers, .buffer_count = count};
        occupancy o;
        assert_true(planner_occupancy_init(&o, &problem, OCCUPANCY_LOWEST, &arena));
        assert_int_equal(o.levels > 1, grouped);
        bool cut = false;
        for (uint32_t i = 0; i < count; i++) {
            if (i % (count / 150) == 0) compare_large(&problem, offsets, &o, i, taken);
            offsets[i] = planner_occupancy_lowest(&o, i);
            assert_true(planner_occupancy_add(&o, i, offsets[i]));
        }
        for (size_t i = 0; i < 2 * o.leaves; i++) cut |= o.nodes[i].cut;
        assert_true(cut);
        base_arena_free(&arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(answers_are_those_of_plain_loops),
                                       cmocka_unit_test(rounding_up_is_as_rounded_before),
                                       cmocka_unit_test(more_than_32_bits_of_bytes),
                                       cmocka_unit_test(large_trees)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
