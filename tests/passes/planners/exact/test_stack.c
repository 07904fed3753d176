/* SPDX-License-Identifier: Apache-2.0 */
/* test_stack.c: the buffers of the fullest step pinned one on another (passes/planners/exact/stack.h), and problems that are solved
 * through that. */
#include "passes/planners/exact/stack.h"
#include "passes/planners/planners.h"
#include "tests/support/operators.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

enum { STEPS = 64 };

/* Step 0 to 1 is full: three buffers, of which the second wants an alignment of 4. Then one buffer a step. */
static void make(planner_buffer *buffers, size_t *count) {
    static const planner_buffer full[] = {
        {.size = 3, .first = -2, .last = 1, .fixed = PLANNER_NOT_FIXED},
        {.size = 4, .alignment = 4, .first = 0, .last = 9, .fixed = PLANNER_NOT_FIXED},
        {.size = 2, .first = -1, .last = 1, .fixed = PLANNER_NOT_FIXED},
    };
    memcpy(buffers, full, sizeof full);
    for (*count = 3; *count < STEPS; (*count)++)
        buffers[*count] = (planner_buffer){
            .size = 1, .first = (int64_t)*count, .last = (int64_t)*count + 1, .fixed = PLANNER_NOT_FIXED};
}

static void expect_stack(stack_order by, const size_t *offsets, size_t a, size_t b, size_t c) {
    planner_buffer buffers[STEPS];
    size_t count;
    base_arena arena;
    planner_problem stacked;
    stack found;
    make(buffers, &count);
    const planner_problem problem = {.buffers = buffers, .buffer_count = count};
    base_arena_init(&arena, NULL);
    assert_true(exact_stack_find(&problem, &arena, &found));
    assert_true(found.possible);
    assert_true(exact_stack_pin(&problem, &found, by, offsets, &arena, &stacked));
    assert_int_equal(stacked.buffers[0].fixed, a);
    assert_int_equal(stacked.buffers[1].fixed, b);
    assert_int_equal(stacked.buffers[2].fixed, c);
    for (size_t i = 3; i < count; i++) assert_true(stacked.buffers[i].fixed == PLANNER_NOT_FIXED);
    base_arena_free(&arena);
}

static void the_fullest_step_is_stacked(void **unused) {
    size_t offsets[STEPS] = {20, 0, 10};
    (void)unused;
    expect_stack(STACK_AS_FOUND, offsets, 6, 0, 4);
    expect_stack(STACK_BY_BEGINNING, offsets, 0, 8, 3);
    expect_stack(STACK_BY_MIDDLE, offsets, 0, 8, 3);
    expect_stack(STACK_BY_LIFE, offsets, 4, 0, 7);
}

static void what_is_pinned_or_full_is_left(void **unused) {
    planner_buffer buffers[STEPS];
    size_t count;
    base_arena arena;
    stack found;
    (void)unused;
    make(buffers, &count);
    const planner_problem problem = {.buffers = buffers, .buffer_count = count};
    base_arena_init(&arena, NULL);
    buffers[2].fixed = 0;
    assert_true(exact_stack_find(&problem, &arena, &found));
    assert_false(found.possible);
    buffers[2].fixed = PLANNER_NOT_FIXED;
    for (size_t i = 3; i < count; i++) buffers[i].size = 9; /* every step is full */
    assert_true(exact_stack_find(&problem, &arena, &found));
    assert_false(found.possible);
    base_arena_free(&arena);
}

/* Many buffers of all sizes, and one step at which more are live than at any other: to reach that sum, nothing may be between
 * them. With so little work, four of these are solved, and one without stacks. */
static void full_steps_have_no_gaps(void **unused) {
    enum { COUNT = 1500, FULL = 60, LAST = 512, LIFE = 64, SEEDS = 10, LEAST = 3 };
    static planner_buffer buffers[COUNT];
    (void)unused;
    int reached = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        test_random random = {seed};
        base_arena arena;
        base_report report = {0};
        planner_solution solution;
        for (int i = 0; i < COUNT; i++) {
            const int64_t life = 1 + test_random_below(&random, LIFE);
            int64_t first = test_random_below(&random, LAST);
            if (i < FULL) first = LAST / 2 - test_random_below(&random, life);
            const int64_t most = test_random_below(&random, 10) ? 30000 : 1000000;
            buffers[i] = (planner_buffer){.size = (size_t)(1000 + test_random_below(&random, most)),
                                          .first = first,
                                          .last = first + life,
                                          .fixed = PLANNER_NOT_FIXED};
        }
        const planner_problem problem = {.buffers = buffers, .buffer_count = COUNT};
        const planner_options options = {.work = 10000};
        base_arena_init(&arena, NULL);
        assert_int_equal(planner_run(&planner_exact, &problem, &options, &arena, &solution, &report),
                         BASE_OK);
        assert_int_equal(planner_check(&problem, &solution, &arena, &report), BASE_OK);
        reached += solution.height == solution.lower_bound;
        base_arena_free(&arena);
    }
    print_message("%d of %d at the bound\n", reached, SEEDS);
    assert_true(reached >= LEAST);
}

static void running_out_of_memory_is_told(void **unused) {
    planner_buffer buffers[STEPS];
    size_t count, offsets[STEPS] = {0};
    (void)unused;
    make(buffers, &count);
    const planner_problem problem = {.buffers = buffers, .buffer_count = count};
    support_allocator failing;
    base_arena arena;
    planner_problem stacked;
    stack found;
    support_allocator_init(&failing);
    failing.fail_at = 1;
    base_arena_init(&arena, &failing.allocator);
    assert_false(exact_stack_find(&problem, &arena, &found));
    base_arena_free(&arena);
    base_arena members;
    base_arena_init(&members, NULL);
    assert_true(exact_stack_find(&problem, &members, &found));
    support_allocator_init(&failing);
    failing.fail_at = 1;
    base_arena_init(&arena, &failing.allocator);
    assert_false(exact_stack_pin(&problem, &found, STACK_AS_FOUND, offsets, &arena, &stacked));
    base_arena_free(&members);
    base_arena_free(&arena);
    assert_int_equal(failing.live, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fullest_step_is_stacked),
        cmocka_unit_test(what_is_pinned_or_full_is_left),
        cmocka_unit_test(full_steps_have_no_gaps),
        cmocka_unit_test(running_out_of_memory_is_told),
    };
    return cmocka_run_group_tests_name("stack", tests, NULL, NULL);
}
