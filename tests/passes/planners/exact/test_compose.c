/* SPDX-License-Identifier: Apache-2.0 */
/* test_compose.c: buffers that fill rectangles become one (passes/planners/exact/compose.h).
 *
 * What is cut from a rectangle, from edge to edge or into pinwheels, is put together again, whatever the order of the buffers; what
 * remains of other problems is a problem whose solutions are solutions. */
#include "passes/planners/exact/compose.h"
#include "passes/planners/base/sorting.h"
#include "passes/planners/planners.h"
#include "tests/support/problems.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

enum { MOST = 2001, HEIGHT = 1 << 24, STEPS = 1 << 24 };

typedef struct tile {
    int64_t first, last;
    size_t size;
} tile;

static uint64_t below(uint64_t *state, uint64_t limit) {
    *state = planner_mix(*state);
    return *state % limit;
}

/* Cuts the tile in two or, where `pinwheels` says so, in five with blades of four different widths. Gives how many are new. */
static size_t cut(uint64_t *state, tile *t, tile *fresh, bool pinwheels) {
    const uint64_t length = (uint64_t)(t->last - t->first);
    if (length < 8 || t->size < 8) return 0;
    if (!pinwheels) {
        fresh[0] = *t;
        if (below(state, 2)) {
            t->size = fresh[0].size - (1 + below(state, t->size - 1));
            fresh[0].size -= t->size;
        } else {
            t->last = fresh[0].first = t->first + 1 + (int64_t)below(state, length - 1);
        }
        return 1;
    }
    const int64_t left = t->first + 1 + (int64_t)below(state, length / 2 - 1), right = t->last - 1 - (int64_t)below(state, length / 2 - 1);
    const size_t bottom = 1 + below(state, t->size / 2 - 1), top = 1 + below(state, t->size / 2 - 1);
    fresh[0] = (tile){t->first, right, bottom};
    fresh[1] = (tile){right, t->last, t->size - top};
    fresh[2] = (tile){left, t->last, top};
    fresh[3] = (tile){t->first, left, t->size - bottom};
    *t = (tile){left, right, t->size - bottom - top};
    return 4;
}

static size_t make(uint64_t seed, size_t wanted, bool pinwheels, planner_buffer *buffers) {
    static tile tiles[MOST];
    uint64_t state = seed;
    size_t count = 1;
    tiles[0] = (tile){0, STEPS, HEIGHT};
    for (size_t tries = 0; count + 4 <= wanted && tries < 100 * wanted; tries++) {
        size_t largest = 0;
        for (int k = 0; k < 4; k++) {
            const size_t i = below(&state, count);
            const double area = (double)tiles[i].size * (double)(tiles[i].last - tiles[i].first);
            if (k == 0 || area > (double)tiles[largest].size * (double)(tiles[largest].last - tiles[largest].first)) largest = i;
        }
        count += cut(&state, &tiles[largest], &tiles[count], pinwheels);
    }
    for (size_t i = count; i > 0; i--) {
        const size_t k = below(&state, i);
        const tile drawn = tiles[k];
        tiles[k] = tiles[i - 1];
        buffers[i - 1] = (planner_buffer){.size = drawn.size, .first = drawn.first, .last = drawn.last, .fixed = PLANNER_NOT_FIXED};
    }
    return count;
}

static void expect_solution(const planner_problem *problem, size_t *offsets, size_t height) {
    base_arena arena;
    base_report report = {0};
    base_arena_init(&arena, NULL);
    const planner_solution solution = {.offsets = offsets, .height = height};
    if (planner_check(problem, &solution, &arena, &report) != BASE_OK) fail_msg("%s", report.text);
    base_arena_free(&arena);
}

static void what_was_cut_is_one_again(void **unused) {
    static planner_buffer buffers[MOST];
    (void)unused;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        base_arena arena;
        composition composed;
        base_arena_init(&arena, NULL);
        planner_budget budget = planner_budget_of(0, 100000);
        const size_t count = make(seed, seed % 2 ? 101 : MOST, seed % 4 < 2, buffers);
        const planner_problem problem = {.buffers = buffers, .buffer_count = count};
        assert_true(exact_compose(&problem, &budget, &arena, &composed));
        assert_int_equal(composed.problem.buffer_count, 1);
        assert_int_equal(composed.problem.buffers[0].size, HEIGHT);
        size_t *offsets = BASE_ARRAY(&arena, size_t, count), at = 4096;
        assert_non_null(offsets);
        exact_compose_place(&composed, &at, offsets);
        for (size_t b = 0; b < count; b++) offsets[b] -= at;
        expect_solution(&problem, offsets, HEIGHT);
        base_arena_free(&arena);
    }
}

/* A pinwheel whose blades may lie at multiples of 4 alone, or of more than can be. */
static void alignments_are_kept(void **unused) {
    (void)unused;
    for (size_t alignment = 1; alignment <= 32; alignment *= 2) {
        planner_buffer buffers[] = {{8, 1, 0, 6, PLANNER_NOT_FIXED},
                                    {12, 1, 6, 9, PLANNER_NOT_FIXED},
                                    {20, 1, 3, 9, PLANNER_NOT_FIXED},
                                    {24, alignment, 0, 3, PLANNER_NOT_FIXED},
                                    {4, 1, 3, 6, PLANNER_NOT_FIXED}};
        const planner_problem problem = {.buffers = buffers, .buffer_count = 5};
        planner_budget budget = planner_budget_of(0, 1000);
        base_arena arena;
        composition composed;
        size_t remaining[5] = {0}, offsets[5] = {0};
        base_arena_init(&arena, NULL);
        assert_true(exact_compose(&problem, &budget, &arena, &composed));
        assert_int_equal(composed.problem.buffer_count, 1); /* the left blade is at 8 or, upside down, at 0 */
        exact_compose_place(&composed, remaining, offsets);
        expect_solution(&problem, offsets, 32);
        assert_int_equal(composed.problem.buffers[0].alignment, alignment);
        base_arena_free(&arena);
    }
}

/* On every kind of problem what remains, placed by a planner, is a solution of the whole; pinned buffers stay where they are. */
static void solutions_of_what_remains_are_solutions(void **unused) {
    (void)unused;
    for (size_t k = 0; problems_kind(k); k++) {
        for (uint64_t seed = 1; seed <= 4; seed++) {
            base_arena arena;
            base_report report = {0};
            planner_problem problem;
            planner_solution solution;
            composition composed;
            planner_budget budget = planner_budget_of(0, seed == 4 ? 1 : 100000);
            base_arena_init(&arena, NULL);
            assert_true(problems_make(problems_kind(k), 100 * (size_t)seed, seed, &arena, &problem));
            problem.capacity = 0;
            assert_true(exact_compose(&problem, &budget, &arena, &composed));
            assert_true(composed.problem.buffer_count <= problem.buffer_count);
            const planner_options options = {0};
            assert_int_equal(planner_run(&planner_greedy_by_size, &composed.problem, &options, &arena, &solution, &report), BASE_OK);
            size_t *offsets = BASE_ARRAY(&arena, size_t, problem.buffer_count);
            assert_non_null(offsets);
            exact_compose_place(&composed, solution.offsets, offsets);
            expect_solution(&problem, offsets, solution.height);
            base_arena_free(&arena);
        }
    }
}

static void running_out_of_memory_is_told(void **unused) {
    static planner_buffer buffers[MOST];
    (void)unused;
    const planner_problem problem = {.buffers = buffers, .buffer_count = make(3, MOST, true, buffers)};
    size_t told = 0;
    for (size_t at = 1;; at++) {
        support_allocator failing;
        base_arena arena;
        composition composed;
        support_allocator_init(&failing);
        failing.fail_at = at;
        base_arena_init(&arena, &failing.allocator);
        planner_budget budget = planner_budget_of(0, 100000);
        const bool fine = exact_compose(&problem, &budget, &arena, &composed);
        base_arena_free(&arena);
        assert_int_equal(failing.live, 0);
        if (fine) break;
        told++;
    }
    assert_true(told > 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_cut_is_one_again),
        cmocka_unit_test(alignments_are_kept),
        cmocka_unit_test(solutions_of_what_remains_are_solutions),
        cmocka_unit_test(running_out_of_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
