/* SPDX-License-Identifier: Apache-2.0 */
/* test_ejection.c: solutions that ejection chains make lower (passes/planners/exact/ejection.h), and the search around
 * them (passes/planners/exact/improve.h) with several threads.
 *
 * What comes out is checked by the checker of all planners, on every kind of problem: never higher than before, with pinned
 * buffers where they are, aligned, exact where heights are far beyond 32 bits. It stops at what is enough, gives the same
 * answer each time, and tells when memory runs out. */
#include "passes/planners/exact/ejection.h"
#include "passes/planners/exact/improve.h"
#include "passes/planners/planners.h"
#include "tests/support/support.h"
#include "tests/support/problems.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static planner_solution greedy(const planner_problem *problem, base_arena *arena) {
    planner_solution solution;
    base_report report = {0};
    assert_int_equal(
        planner_run(&planner_greedy_by_size, problem, &(planner_options){0}, arena, &solution, &report),
        BASE_OK);
    return solution;
}

static void expect_valid(const planner_problem *problem, const planner_solution *solution,
                         base_arena *arena) {
    base_report report = {0};
    if (planner_check(problem, solution, arena, &report) != BASE_OK) fail_msg("%s", report.text);
}

static bool lower(const planner_problem *problem, planner_solution *solution, size_t enough, uint64_t work,
                  base_arena *arena) {
    planner_budget budget = planner_budget_of(0, work);
    ejection *e = exact_ejection_new(problem, 1, arena);
    assert_non_null(e);
    return exact_ejection_run(e, enough, work, &budget, solution->offsets, &solution->height);
}

static void solutions_become_lower(void **unused) {
    (void)unused;
    size_t lowered = 0, problems = 0, pinned = 0;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        for (size_t k = 0; problems_kind(k); k++) {
            base_arena arena;
            planner_problem problem;
            base_arena_init(&arena, NULL);
            assert_true(problems_make(problems_kind(k), 60 * seed, seed, &arena, &problem));
            planner_solution solution = greedy(&problem, &arena);
            const size_t before = solution.height;
            if (before <= solution.lower_bound) {
                base_arena_free(&arena);
                continue;
            }
            for (size_t b = 0; b < problem.buffer_count; b++)
                pinned += problem.buffers[b].fixed != PLANNER_NOT_FIXED;
            const bool is_lower = lower(&problem, &solution, solution.lower_bound, 20000, &arena);
            assert_true(is_lower == (solution.height < before));
            assert_true(solution.height <= before);
            expect_valid(&problem, &solution, &arena);
            lowered += is_lower;
            problems++;
            base_arena_free(&arena);
        }
    }
    print_message("%zu of %zu became lower, %zu pinned buffers\n", lowered, problems, pinned);
    assert_true(10 * lowered >= 9 * problems && pinned > 20);
}

/* Odd sizes of some 2^50 bytes: a height that is rounded anywhere would not be the live sum to the byte. */
static void heights_are_exact(void **unused) {
    (void)unused;
    size_t exact = 0;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        base_arena arena;
        planner_problem problem;
        base_arena_init(&arena, NULL);
        assert_true(problems_make(seed % 2 ? "heavy" : "staircase", 100, seed, &arena, &problem));
        planner_buffer *buffers = (planner_buffer *)problem.buffers;
        for (size_t b = 0; b < problem.buffer_count; b++)
            buffers[b].size = (buffers[b].size << 30) + 1 + 2 * (b % 5);
        planner_solution solution = greedy(&problem, &arena);
        lower(&problem, &solution, solution.lower_bound, 200000, &arena);
        expect_valid(&problem, &solution, &arena);
        assert_true(solution.height >= solution.lower_bound);
        exact += solution.height == solution.lower_bound;
        base_arena_free(&arena);
    }
    print_message("%zu of 6 at the bound\n", exact);
    assert_true(exact >= 3);
}

static void it_stops_at_what_is_enough(void **unused) {
    (void)unused;
    base_arena arena;
    planner_problem problem;
    base_arena_init(&arena, NULL);
    assert_true(problems_make("random", 300, 2, &arena, &problem));
    planner_solution solution = greedy(&problem, &arena);
    const size_t before = solution.height, enough = before - before / 200;
    assert_false(lower(&problem, &solution, before, 1000, &arena));
    assert_int_equal(solution.height, before);
    assert_true(lower(&problem, &solution, enough, 1000000, &arena));
    assert_in_range(solution.height, solution.lower_bound, enough);
    base_arena_free(&arena);
}

/* A pinned buffer that is the highest cannot become lower, and those that leave nothing free below are not overlapped. */
static void pinned_buffers_stay(void **unused) {
    (void)unused;
    base_arena arena;
    base_arena_init(&arena, NULL);
    planner_buffer buffers[] = {{.size = 60, .first = 0, .last = 4, .fixed = 40},
                                {.size = 50, .first = 3, .last = 6, .fixed = PLANNER_NOT_FIXED},
                                {.size = 0, .first = 0, .last = 9, .fixed = PLANNER_NOT_FIXED},
                                {.size = 10, .first = 3, .last = 8, .fixed = 20}};
    const planner_problem problem = {.buffers = buffers, .buffer_count = 4};
    size_t offsets[] = {40, 100, 0, 20};
    planner_solution solution = {.offsets = offsets, .height = 150};
    assert_false(lower(&problem, &solution, 120, 10000, &arena));
    expect_valid(&problem, &solution, &arena);
    offsets[1] = 110;
    solution.height = 160;
    assert_true(lower(&problem, &solution, 120, 10000, &arena));
    assert_int_equal(solution.height, 150);
    expect_valid(&problem, &solution, &arena);
    base_arena_free(&arena);
}

/* For the same number of threads and the same work; never worse than where it began. */
static void the_same_each_time(void **unused) {
    (void)unused;
    static const char *const kinds[] = {"random", "dense", "aligned"};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        base_arena arena;
        planner_problem problem;
        base_arena_init(&arena, NULL);
        assert_true(problems_make(kinds[k], 400, 3, &arena, &problem));
        problem.capacity = 0;
        for (unsigned threads = 0; threads <= 4; threads++) {
            planner_solution first, again;
            base_report report = {0};
            const planner_options options = {.work = 10000, .threads = threads};
            assert_int_equal(planner_run(&planner_exact, &problem, &options, &arena, &first, &report),
                             BASE_OK);
            assert_int_equal(planner_run(&planner_exact, &problem, &options, &arena, &again, &report),
                             BASE_OK);
            assert_memory_equal(first.offsets, again.offsets, problem.buffer_count * sizeof *first.offsets);
            assert_int_equal(first.lower_bound, again.lower_bound);
            assert_true(first.height < greedy(&problem, &arena).height);
        }
        base_arena_free(&arena);
    }
}

static void running_out_of_memory_is_told(void **unused) {
    (void)unused;
    base_arena arena;
    planner_problem problem;
    base_arena_init(&arena, NULL);
    assert_true(problems_make("aligned", 50, 2, &arena, &problem));
    problem.capacity = 0;
    const planner_solution begun = greedy(&problem, &arena);
    planner_solution solution = begun;
    solution.offsets = BASE_ARRAY(&arena, size_t, problem.buffer_count);
    base_status status = BASE_SYSTEM_ERROR;
    size_t at = 1;
    for (; status != BASE_OK; at++) {
        support_allocator failing;
        support_allocator_init(&failing);
        failing.fail_at = at;
        base_arena memory;
        base_report report = {0};
        base_arena_init(&memory, &failing.allocator);
        memcpy(solution.offsets, begun.offsets, problem.buffer_count * sizeof *begun.offsets);
        solution.height = begun.height;
        solution.lower_bound = begun.lower_bound;
        status = exact_improve(&problem, &(planner_options){.work = 2000}, &memory, &solution, &report);
        assert_true(status == BASE_OK || status == BASE_SYSTEM_ERROR);
        assert_true(solution.height <= begun.height);
        expect_valid(&problem, &solution, &arena);
        base_arena_free(&memory);
        assert_int_equal(failing.live, 0);
    }
    assert_true(at > 3);
    base_arena_free(&arena);
}

/* What is free fits nowhere below the solution, since a pinned buffer is in the way. Trying that is work, too, or a search that is
 * bounded by its work never ends. */
static void what_helps_nothing_is_work(void **unused) {
    (void)unused;
    const planner_buffer buffers[] = {{.size = 4, .first = 0, .last = 2, .fixed = 4},
                                      {.size = 5, .first = 0, .last = 2, .fixed = PLANNER_NOT_FIXED}};
    const planner_problem problem = {.buffers = buffers, .buffer_count = 2};
    size_t offsets[] = {4, 8}, height = 13;
    base_arena arena;
    base_arena_init(&arena, NULL);
    planner_budget budget = planner_budget_of(0, 1000);
    ejection *e = exact_ejection_new(&problem, 1, &arena);
    assert_non_null(e);
    assert_false(exact_ejection_run(e, 9, 1000, &budget, offsets, &height));
    assert_int_equal(height, 13);
    assert_true(budget.spent > 900);
    base_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(solutions_become_lower),     cmocka_unit_test(heights_are_exact),
        cmocka_unit_test(it_stops_at_what_is_enough), cmocka_unit_test(pinned_buffers_stay),
        cmocka_unit_test(the_same_each_time),         cmocka_unit_test(running_out_of_memory_is_told),
        cmocka_unit_test(what_helps_nothing_is_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
