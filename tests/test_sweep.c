/* test_sweep.c: solutions grown section by section (passes/planners/sweep.h).
 *
 * What the sweep says is a solution is checked by the checker of all planners, on every kind of problem: below the
 * capacity, with pinned buffers where they are, aligned. It finds what is there to be found, goes on where it stopped, gives
 * the same answer each time, and tells when memory runs out. */
#include "passes/planners/sweep.h"
#include "support.h"
#include "support_problems.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

typedef struct swept {
    base_arena arena;
    planner_budget budget;
    skyline sky;
    sweep *sections;
    size_t *offsets;
} swept;

static bool prepare(swept *t, const planner_problem *problem, uint64_t seed,
                    const base_allocator *allocator) {
    memset(t, 0, sizeof *t);
    base_arena_init(&t->arena, allocator);
    t->budget = budget_of(0, 1 << 20);
    t->offsets = BASE_ARRAY(&t->arena, size_t, problem->buffer_count);
    search_memory *memory = search_memory_new(&t->arena);
    if (!t->offsets || !memory || !skyline_init(&t->sky, problem, &t->arena)) return false;
    t->sections = sweep_new(&t->sky, seed, &t->budget, memory, &t->arena);
    return t->sections != NULL;
}

static void finish(swept *t) {
    skyline_free(&t->sky);
    base_arena_free(&t->arena);
}

static void expect_solution(const planner_problem *problem, size_t *offsets, size_t capacity) {
    base_arena arena;
    base_report report = {0};
    base_arena_init(&arena, NULL);
    const planner_solution solution = {.offsets = offsets, .height = capacity};
    for (size_t i = 0; i < problem->buffer_count; i++)
        if (problem->buffers[i].size == 0 && problem->buffers[i].fixed == PLANNER_NOT_FIXED) offsets[i] = 0;
    if (planner_check(problem, &solution, &arena, &report) != BASE_OK) fail_msg("%s", report.text);
    base_arena_free(&arena);
}

static size_t live_sum(const planner_problem *problem, base_arena *arena) {
    base_report report = {0};
    size_t live;
    assert_int_equal(planner_lower_bound(problem, arena, &live, &report), BASE_OK);
    return live;
}

/* With an eighth to spare nearly every problem is solved; without, many of those that are cut from a rectangle. */
static void solutions_are_right(void **unused) {
    (void)unused;
    size_t roomy = 0, tight = 0, problems = 0, cut = 0;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        for (size_t k = 0; problems_kind(k); k++) {
            const char *kind = problems_kind(k);
            base_arena arena;
            planner_problem problem;
            base_arena_init(&arena, NULL);
            assert_true(problems_make(kind, 20 + 10 * seed, seed, &arena, &problem));
            const size_t live = problems_fit(kind) ? PROBLEMS_CAPACITY : live_sum(&problem, &arena);
            for (int spare = 0; spare < 2; spare++) {
                const size_t capacity = live + spare * (live / 8);
                bool out_of_memory = false;
                swept t;
                assert_true(prepare(&t, &problem, seed, NULL));
                search_outcome outcome = sweep_run(t.sections, capacity, 20000, t.offsets, &out_of_memory);
                assert_false(out_of_memory);
                assert_true(outcome == SEARCH_SOLVED || outcome == SEARCH_STOPPED);
                if (outcome == SEARCH_SOLVED) expect_solution(&problem, t.offsets, capacity);
                if (spare) roomy += outcome == SEARCH_SOLVED;
                else tight += outcome == SEARCH_SOLVED && problems_fit(kind);
                finish(&t);
            }
            problems++;
            cut += problems_fit(kind);
            base_arena_free(&arena);
        }
    }
    print_message("with an eighth to spare %zu of %zu, without %zu of %zu\n", roomy, problems, tight, cut);
    assert_true(10 * roomy >= 9 * problems && 4 * tight >= 3 * cut);
}

/* In many calls the same as in one, and the same again; another seed, another way. */
static void goes_on_where_it_stopped(void **unused) {
    (void)unused;
    base_arena arena;
    planner_problem problem;
    base_arena_init(&arena, NULL);
    assert_true(problems_make("sparse", 80, 3, &arena, &problem));
    const size_t bytes = problem.buffer_count * sizeof(size_t);
    size_t *first = malloc(bytes);
    assert_non_null(first);
    bool out_of_memory = false;
    for (int way = 0; way < 4; way++) {
        swept t;
        assert_true(prepare(&t, &problem, way == 3 ? 9 : 1, NULL));
        search_outcome outcome = SEARCH_STOPPED;
        size_t calls = 0;
        for (; outcome == SEARCH_STOPPED && calls < 100000; calls++)
            outcome =
                sweep_run(t.sections, PROBLEMS_CAPACITY, way == 1 ? 1 : 1 << 20, t.offsets, &out_of_memory);
        assert_int_equal(outcome, SEARCH_SOLVED);
        expect_solution(&problem, t.offsets, PROBLEMS_CAPACITY);
        assert_true(way == 1 ? calls > 10 : calls == 1);
        if (way == 0) memcpy(first, t.offsets, bytes);
        else if (way < 3) assert_memory_equal(first, t.offsets, bytes);
        else assert_memory_not_equal(first, t.offsets, bytes);
        finish(&t);
    }
    free(first);
    base_arena_free(&arena);
}

/* Two buffers that are live together and do not fit: it goes on trying as long as it may, and says nothing. A capacity
 * below a buffer that the user pinned is no different. */
static void what_does_not_fit_ends(void **unused) {
    (void)unused;
    planner_buffer buffers[] = {{.size = 60, .first = 0, .last = 4, .fixed = PLANNER_NOT_FIXED},
                                {.size = 0, .first = 0, .last = 9, .fixed = PLANNER_NOT_FIXED},
                                {.size = 50, .first = 3, .last = 6, .fixed = PLANNER_NOT_FIXED},
                                {.size = 10, .first = 5, .last = 8, .fixed = 200}};
    const planner_problem problem = {.buffers = buffers, .buffer_count = sizeof buffers / sizeof *buffers};
    static const struct {
        size_t capacity;
        search_outcome outcome;
    } asked[] = {{100, SEARCH_STOPPED}, {209, SEARCH_STOPPED}, {210, SEARCH_SOLVED}};
    for (size_t a = 0; a < sizeof asked / sizeof *asked; a++) {
        bool out_of_memory = false;
        swept t;
        assert_true(prepare(&t, &problem, a, NULL));
        assert_int_equal(sweep_run(t.sections, asked[a].capacity, 5000, t.offsets, &out_of_memory),
                         asked[a].outcome);
        if (asked[a].outcome == SEARCH_SOLVED) expect_solution(&problem, t.offsets, asked[a].capacity);
        assert_false(out_of_memory || t.budget.over);
        finish(&t);
    }
}

/* Without bytes there is nothing to do, and that is done at once. */
static void nothing_is_done_at_once(void **unused) {
    (void)unused;
    planner_buffer empty = {.size = 0, .first = 0, .last = 4, .fixed = PLANNER_NOT_FIXED};
    const planner_problem problem = {.buffers = &empty, .buffer_count = 1};
    bool out_of_memory = false;
    swept t;
    assert_true(prepare(&t, &problem, 1, NULL));
    assert_int_equal(sweep_run(t.sections, 0, 0, t.offsets, &out_of_memory), SEARCH_SOLVED);
    assert_false(out_of_memory);
    finish(&t);
}

static void the_budget_ends_it(void **unused) {
    (void)unused;
    base_arena arena;
    planner_problem problem;
    base_arena_init(&arena, NULL);
    assert_true(problems_make("random", 60, 1, &arena, &problem));
    bool out_of_memory = false;
    swept t;
    assert_true(prepare(&t, &problem, 1, NULL));
    t.budget = budget_of(0, 3000);
    const size_t impossible = live_sum(&problem, &arena) - 1;
    assert_int_equal(sweep_run(t.sections, impossible, UINT64_MAX, t.offsets, &out_of_memory),
                     SEARCH_STOPPED);
    assert_true(t.budget.over && t.budget.work == 0 && !out_of_memory);
    finish(&t);
    base_arena_free(&arena);
}

static void running_out_of_memory_is_told(void **unused) {
    (void)unused;
    base_arena arena;
    planner_problem problem;
    base_arena_init(&arena, NULL);
    assert_true(problems_make("pinned", 30, 2, &arena, &problem));
    bool solved = false;
    size_t told = 0;
    for (size_t at = 1; !solved; at++) {
        support_allocator failing;
        support_allocator_init(&failing);
        failing.fail_at = at;
        swept t;
        if (prepare(&t, &problem, 1, &failing.allocator)) {
            bool out_of_memory = false;
            solved = sweep_run(t.sections, 2 * PROBLEMS_CAPACITY, 100000, t.offsets, &out_of_memory) ==
                     SEARCH_SOLVED;
            assert_true(solved != out_of_memory);
            told += out_of_memory;
        }
        finish(&t);
        assert_int_equal(failing.live, 0);
    }
    assert_true(told > 0);
    base_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(solutions_are_right),     cmocka_unit_test(goes_on_where_it_stopped),
        cmocka_unit_test(what_does_not_fit_ends),  cmocka_unit_test(the_budget_ends_it),
        cmocka_unit_test(nothing_is_done_at_once), cmocka_unit_test(running_out_of_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
