/* SPDX-License-Identifier: Apache-2.0 */
/* test_sweep.c: solutions grown section by section (passes/planners/exact/sweep.h), also with buffers made one
 * (passes/planners/exact/coalesce.h).
 *
 * What the sweep says is a solution is checked by the checker of all planners, on every kind of problem: below the
 * capacity, with pinned buffers where they are, aligned. It finds what is there to be found, goes on where it stopped, gives
 * the same answer each time, and tells when memory runs out. */
#include "passes/planners/exact/coalesce.h"
#include "passes/planners/exact/sweep.h"
#include "passes/planners/base/sorting.h"
#include "tests/support/support.h"
#include "tests/support/problems.h"
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
    coalescing *joined; /* or NULL: the sweep is to search */
    size_t *offsets;
} swept;

static bool prepare(swept *t, const planner_problem *problem, uint64_t seed, bool joined,
                    const base_allocator *allocator) {
    memset(t, 0, sizeof *t);
    base_arena_init(&t->arena, allocator);
    t->budget = planner_budget_of(0, 1 << 20);
    t->offsets = BASE_ARRAY(&t->arena, size_t, problem->buffer_count);
    search_memory *memory = exact_search_memory_new(&t->arena);
    if (!t->offsets || !memory || !exact_skyline_init(&t->sky, problem, &t->arena)) return false;
    if (joined) t->joined = exact_coalescing_new(&t->sky, seed, seed % 2 == 0, &t->budget, memory, &t->arena);
    else t->sections = exact_sweep_new(&t->sky, seed, &t->budget, memory, &t->arena);
    return t->sections || t->joined;
}

static search_outcome run(swept *t, size_t capacity, uint64_t work, bool *out_of_memory) {
    return t->joined ? exact_coalescing_run(t->joined, capacity, work, t->offsets, out_of_memory)
                     : exact_sweep_run(t->sections, capacity, work, t->offsets, out_of_memory);
}

static void finish(swept *t) {
    exact_coalescing_free(t->joined);
    exact_skyline_free(&t->sky);
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
    for (uint64_t seed = 1; seed <= 12; seed++) {
        const bool joined = seed > 6;
        for (size_t k = 0; problems_kind(k); k++) {
            const char *kind = problems_kind(k);
            base_arena arena;
            planner_problem problem;
            base_arena_init(&arena, NULL);
            assert_true(problems_make(kind, 20 + 10 * (seed % 6), seed, &arena, &problem));
            const size_t live = problems_fit(kind) ? PROBLEMS_CAPACITY : live_sum(&problem, &arena);
            for (int spare = 0; spare < 2; spare++) {
                const size_t capacity = live + spare * (live / 8);
                bool out_of_memory = false;
                swept t;
                assert_true(prepare(&t, &problem, seed, joined, NULL));
                search_outcome outcome = run(&t, capacity, 20000, &out_of_memory);
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
    for (int i = 0; i < 8; i++) {
        const int way = i % 4;
        swept t;
        assert_true(prepare(&t, &problem, way == 3 ? 9 : 1, i >= 4, NULL));
        search_outcome outcome = SEARCH_STOPPED;
        size_t calls = 0;
        for (; outcome == SEARCH_STOPPED && calls < 100000; calls++)
            outcome = run(&t, PROBLEMS_CAPACITY, way == 1 ? 1 : 1 << 20, &out_of_memory);
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

/* Of so many buffers the solution grows from several peaks. Two waves of random buffers with little between them are two peaks; what
 * the user pinned, alignments, and a capacity below or far above what is live, are there too. The same each time. */
static void many_buffers_grow_from_all_peaks(void **unused) {
    (void)unused;
    static const char *const made[] = {"random", "pinned", "aligned", "heavy", "waves", "random"};
    enum { BUFFERS = 1600 };
    size_t *first = malloc((BUFFERS + 8) * sizeof *first);
    assert_non_null(first);
    for (size_t k = 0; k < 2 * (sizeof made / sizeof *made); k++) {
        const size_t kind = k / 2;
        base_arena arena;
        planner_problem problem;
        base_arena_init(&arena, NULL);
        assert_true(problems_make(made[kind], BUFFERS, 5, &arena, &problem));
        planner_buffer *buffers = (planner_buffer *)problem.buffers;
        for (size_t b = 0; kind == 0 && b < problem.buffer_count; b++) {
            const int64_t wave = b % 5 == 0 ? 150 : b % 2 ? 0 : 300; /* of 100 steps */
            buffers[b].last -= buffers[b].first - buffers[b].first % 100;
            buffers[b].first = buffers[b].first % 100 + wave;
            buffers[b].last += wave;
        }
        const size_t live = problems_fit(made[kind]) ? PROBLEMS_CAPACITY : live_sum(&problem, &arena);
        const size_t capacity = kind == 5 ? live - 1 : kind == 0 ? live : 2 * live;
        bool out_of_memory = false;
        swept t;
        assert_true(prepare(&t, &problem, 3, false, NULL));
        const search_outcome outcome = run(&t, capacity, 300000, &out_of_memory);
        assert_false(out_of_memory);
        assert_int_equal(outcome, kind == 5 ? SEARCH_STOPPED : SEARCH_SOLVED);
        if (outcome == SEARCH_SOLVED) expect_solution(&problem, t.offsets, capacity);
        if (outcome == SEARCH_SOLVED && k % 2) assert_memory_equal(first, t.offsets, problem.buffer_count * sizeof *first);
        memcpy(first, t.offsets, problem.buffer_count * sizeof *first);
        finish(&t);
        base_arena_free(&arena);
    }
    free(first);
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
    for (size_t i = 0; i < 2 * (sizeof asked / sizeof *asked); i++) {
        const size_t a = i / 2;
        bool out_of_memory = false;
        swept t;
        assert_true(prepare(&t, &problem, a, i % 2, NULL));
        assert_int_equal(run(&t, asked[a].capacity, 5000, &out_of_memory), asked[a].outcome);
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
    assert_true(prepare(&t, &problem, 1, false, NULL));
    assert_int_equal(exact_sweep_run(t.sections, 0, 0, t.offsets, &out_of_memory), SEARCH_SOLVED);
    assert_false(out_of_memory);
    finish(&t);
}

static void the_budget_ends_it(void **unused) {
    (void)unused;
    base_arena arena;
    planner_problem problem;
    base_arena_init(&arena, NULL);
    assert_true(problems_make("random", 60, 1, &arena, &problem));
    const size_t impossible = live_sum(&problem, &arena) - 1;
    for (int joined = 0; joined < 2; joined++) {
        bool out_of_memory = false;
        swept t;
        assert_true(prepare(&t, &problem, 1, joined, NULL));
        t.budget = planner_budget_of(0, 3000);
        assert_int_equal(run(&t, impossible, UINT64_MAX, &out_of_memory), SEARCH_STOPPED);
        assert_true(t.budget.over && t.budget.work == 0 && !out_of_memory);
        finish(&t);
    }
    base_arena_free(&arena);
}

static void running_out_of_memory_is_told(void **unused) {
    (void)unused;
    base_arena arena;
    planner_problem problem;
    base_arena_init(&arena, NULL);
    assert_true(problems_make("pinned", 30, 2, &arena, &problem));
    for (int joined = 0; joined < 2; joined++) {
        bool solved = false;
        size_t told = 0;
        for (size_t at = 1; !solved; at++) {
            support_allocator failing;
            support_allocator_init(&failing);
            failing.fail_at = at;
            swept t;
            if (prepare(&t, &problem, 1, joined, &failing.allocator)) {
                bool out_of_memory = false;
                solved = run(&t, 2 * PROBLEMS_CAPACITY, 100000, &out_of_memory) == SEARCH_SOLVED;
                assert_true(solved != out_of_memory);
                told += out_of_memory;
            }
            finish(&t);
            assert_int_equal(failing.live, 0);
        }
        assert_true(told > 0);
    }
    base_arena_free(&arena);
}

/* A wall of bricks: rows of buffers that take each other's place, cut in time but for some that are two rows high. With the
 * bricks of a row made one hardly anything is left to search for. What is given back has all bricks, aligned, at one height
 * where their places were taken. */
static void who_takes_a_place_is_found(void **unused) {
    (void)unused;
    enum { ROWS = 24, COLUMNS = 12, BRICKS = ROWS * COLUMNS };
    planner_buffer bricks[BRICKS];
    size_t capacity = 0;
    uint64_t state = 7;
    for (size_t row = 0; row < ROWS; row++) {
        const size_t size = 64 * (1000 + row * row);
        for (size_t column = 0; column < COLUMNS; column++) {
            state = planner_mix(state);
            const int64_t shift = column ? (int64_t)(state % 100) : 0;
            planner_buffer *brick = &bricks[row * COLUMNS + column];
            *brick = (planner_buffer){.size = size,
                                      .alignment = column % 3 ? 0 : 64,
                                      .first = 100 * (int64_t)column + shift,
                                      .last = 100 * COLUMNS,
                                      .fixed = PLANNER_NOT_FIXED};
            if (column) brick[-1].last = brick->first;
        }
        capacity += size;
    }
    const planner_problem problem = {.buffers = bricks, .buffer_count = BRICKS};
    bool out_of_memory = false;
    swept t;
    assert_true(prepare(&t, &problem, 1, false, NULL)); /* brick by brick it takes far more */
    assert_int_equal(run(&t, capacity, 200, &out_of_memory), SEARCH_STOPPED);
    finish(&t);
    assert_true(prepare(&t, &problem, 1, true, NULL));
    assert_true(exact_coalescing_is_possible(t.joined));
    assert_int_equal(run(&t, capacity, 200, &out_of_memory), SEARCH_SOLVED);
    expect_solution(&problem, t.offsets, capacity);
    for (size_t b = 0; b < BRICKS; b++) assert_int_equal(t.offsets[b], t.offsets[b - b % COLUMNS]);
    finish(&t);
    /* The same, with less alike: every buffer but the first of a row is a bit smaller than what it follows. */
    for (size_t b = 0; b < BRICKS; b++) bricks[b].size -= b % COLUMNS;
    assert_true(prepare(&t, &problem, 1, true, NULL));
    assert_int_equal(run(&t, capacity, 100000, &out_of_memory), SEARCH_SOLVED);
    expect_solution(&problem, t.offsets, capacity);
    finish(&t);
}

/* Pinned buffers are nobody's: neither do they take a place, nor is theirs taken, nor do others lie on them. */
static void pinned_buffers_stay_apart(void **unused) {
    (void)unused;
    planner_buffer buffers[] = {{.size = 64, .first = 0, .last = 4, .fixed = 64},
                                {.size = 64, .first = 4, .last = 8, .fixed = PLANNER_NOT_FIXED},
                                {.size = 64, .first = 8, .last = 12, .fixed = 0},
                                {.size = 32, .first = 0, .last = 4, .fixed = PLANNER_NOT_FIXED},
                                {.size = 64, .first = 4, .last = 8, .fixed = 0}};
    const planner_problem problem = {.buffers = buffers, .buffer_count = sizeof buffers / sizeof *buffers};
    bool out_of_memory = false;
    swept t;
    assert_true(prepare(&t, &problem, 1, true, NULL));
    assert_false(exact_coalescing_is_possible(t.joined));
    assert_int_equal(run(&t, 128, 1000, &out_of_memory), SEARCH_SOLVED);
    expect_solution(&problem, t.offsets, 128);
    finish(&t);
}

/* Buffers of the same life are stacked now and then, where alignment lets them touch: over many draws, with seeds of all
 * kinds, what comes out is a solution, and all sorts of alignment are there. */
static void stacks_are_aligned(void **unused) {
    (void)unused;
    size_t solved = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        planner_buffer buffers[24];
        uint64_t state = seed;
        for (size_t b = 0; b < sizeof buffers / sizeof *buffers; b++) {
            state = planner_mix(state);
            const int64_t column = (int64_t)(b / 4);
            buffers[b] = (planner_buffer){.size = 16 * (1 + state % 8),
                                          .alignment = (size_t)1 << (state >> 8) % 7,
                                          .first = 10 * column,
                                          .last = 10 * column + 10 + (int64_t)((state >> 16) % 2 * 10),
                                          .fixed = PLANNER_NOT_FIXED};
        }
        const planner_problem problem = {.buffers = buffers,
                                         .buffer_count = sizeof buffers / sizeof *buffers};
        base_arena arena;
        base_arena_init(&arena, NULL);
        const size_t capacity = live_sum(&problem, &arena) + 160;
        bool out_of_memory = false;
        swept t;
        assert_true(prepare(&t, &problem, seed, true, NULL));
        for (int draws = 0; draws < 12; draws++) {
            if (run(&t, capacity, 20000, &out_of_memory) != SEARCH_SOLVED) continue;
            expect_solution(&problem, t.offsets, capacity);
            solved++;
        }
        finish(&t);
        base_arena_free(&arena);
    }
    print_message("%zu of 480 solved\n", solved);
    assert_true(solved > 240);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(solutions_are_right),        cmocka_unit_test(goes_on_where_it_stopped),
        cmocka_unit_test(many_buffers_grow_from_all_peaks),
        cmocka_unit_test(what_does_not_fit_ends),     cmocka_unit_test(the_budget_ends_it),
        cmocka_unit_test(nothing_is_done_at_once),    cmocka_unit_test(running_out_of_memory_is_told),
        cmocka_unit_test(who_takes_a_place_is_found), cmocka_unit_test(pinned_buffers_stay_apart),
        cmocka_unit_test(stacks_are_aligned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
