/* SPDX-License-Identifier: Apache-2.0 */
/* test_planners.c: every planner on random problems, against the checker, the bound and all placements of
 * small problems. */
#include "passes/planners/base/budget.h"
#include "passes/planners/planners.h"
#include "tests/support/support.h"
#include "tests/support/problems.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t below(uint64_t *state, size_t limit) {
    return (size_t)(support_random(state) % limit);
}

/* ---- random problems ----------------------------------------------------------------------------------- */

static size_t random_size(uint64_t *state, int kind) {
    switch (kind % 4) {
    case 0:
        return 12; /* equal */
    case 1:
        return (size_t)1 << below(state, 8); /* powers of two */
    case 2: {                                /* heavy tail */
        size_t size = 1 + below(state, 10);
        while (below(state, 3) == 0 && size < 100000) size *= 4;
        return size;
    }
    default:
        return below(state, 50); /* with empty ones */
    }
}

static void random_range(uint64_t *state, int kind, size_t i, size_t count, planner_buffer *buffer) {
    switch (kind / 4 % 3) {
    case 0: /* nested */
        buffer->first = (int64_t)i;
        buffer->last = (int64_t)(2 * count - i);
        break;
    case 1: /* staircase */
        buffer->first = (int64_t)i;
        buffer->last = (int64_t)(i + 1 + below(state, 3));
        break;
    default:
        buffer->first = (int64_t)below(state, 2 * count) - (int64_t)count;
        buffer->last = buffer->first + 1 + (int64_t)below(state, count);
    }
}

/* Explicit interference: what the ranges say without some pairs and with some others. */
static void random_lists(uint64_t *state, planner_problem *problem, base_arena *arena) {
    size_t n = problem->buffer_count, count = 0;
    bool *matrix = BASE_ARRAY(arena, bool, n *n);
    size_t *starts = BASE_ARRAY(arena, size_t, n + 1);
    uint32_t *neighbours = BASE_ARRAY(arena, uint32_t, n * n);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = i + 1; k < n; k++) {
            const planner_buffer *a = &problem->buffers[i], *b = &problem->buffers[k];
            bool meets = a->first < b->last && b->first < a->last;
            matrix[i * n + k] = matrix[k * n + i] = below(state, 5) == 0 ? !meets : meets;
        }
    }
    for (size_t i = 0; i < n; i++) {
        starts[i] = count;
        for (size_t k = 0; k < n; k++) {
            if (matrix[i * n + k]) neighbours[count++] = (uint32_t)k;
        }
    }
    starts[n] = count;
    problem->starts = starts;
    problem->neighbours = neighbours;
}

enum { ALIGNED = 1, FIXED = 2, LISTED = 4, ALIKE = 8 };

static planner_problem random_problem(uint64_t seed, size_t count, unsigned extras, base_arena *arena) {
    uint64_t state = seed;
    int kind = (int)(seed % 12);
    planner_buffer *buffers = BASE_ARRAY(arena, planner_buffer, count + 1);
    size_t end = 0;
    for (size_t i = 0; i < count; i++) {
        buffers[i] = (planner_buffer){.size = random_size(&state, kind), .fixed = PLANNER_NOT_FIXED};
        if (extras & ALIGNED) buffers[i].alignment = (size_t)1 << below(&state, 5);
        if (extras & ALIKE) buffers[i].alignment = (size_t)16 << below(&state, 2);
        random_range(&state, kind, i, count, &buffers[i]);
        if (extras & FIXED && below(&state, 4) == 0) { /* one above the other: they cannot collide */
            size_t alignment = buffers[i].alignment ? buffers[i].alignment : 1;
            buffers[i].fixed = (end + below(&state, 30) + alignment - 1) & ~(alignment - 1);
            end = buffers[i].fixed + buffers[i].size;
        }
    }
    planner_problem problem = {.buffers = buffers, .buffer_count = count};
    if (extras & LISTED) random_lists(&state, &problem, arena);
    return problem;
}

/* ---- an oracle that shares nothing with planners/base/check.c ------------------------------------------------------ */

static bool meet(const planner_problem *problem, size_t a, size_t b) {
    if (!problem->starts) {
        return problem->buffers[a].first < problem->buffers[b].last &&
               problem->buffers[b].first < problem->buffers[a].last;
    }
    for (size_t k = problem->starts[a]; k < problem->starts[a + 1]; k++) {
        if (problem->neighbours[k] == b) return true;
    }
    return false;
}

static void expect_valid(const planner_problem *problem, const planner_solution *solution) {
    size_t height = 0;
    for (size_t i = 0; i < problem->buffer_count; i++) {
        const planner_buffer *b = &problem->buffers[i];
        if (b->alignment) assert_int_equal(solution->offsets[i] % b->alignment, 0);
        if (b->fixed != PLANNER_NOT_FIXED) assert_int_equal(solution->offsets[i], b->fixed);
        if (b->size && solution->offsets[i] + b->size > height) height = solution->offsets[i] + b->size;
        for (size_t k = 0; k < i; k++) {
            const planner_buffer *c = &problem->buffers[k];
            if (!meet(problem, i, k) || !b->size || !c->size) continue;
            assert_true(solution->offsets[i] + b->size <= solution->offsets[k] ||
                        solution->offsets[k] + c->size <= solution->offsets[i]);
        }
    }
    assert_int_equal(height, solution->height);
    assert_true(height >= solution->lower_bound);
    assert_int_equal(solution->optimal, height == solution->lower_bound);
}

/* The smallest height of all orders in which buffers are put, each at the lowest place that is free: one of
 * them makes an optimal solution. */
static size_t brute_force(const planner_problem *problem, size_t *offsets, unsigned placed) {
    size_t n = problem->buffer_count, best = SIZE_MAX;
    if (placed == (1u << n) - 1) {
        size_t height = 0;
        for (size_t i = 0; i < n; i++) {
            size_t end = problem->buffers[i].size ? offsets[i] + problem->buffers[i].size : 0;
            if (end > height) height = end;
        }
        return height;
    }
    for (size_t i = 0; i < n; i++) {
        if (placed >> i & 1) continue;
        size_t alignment = problem->buffers[i].alignment ? problem->buffers[i].alignment : 1;
        offsets[i] = 0;
        for (size_t k = 0; k < n; k++) { /* until nothing is in the way */
            if (!(placed >> k & 1) || !meet(problem, i, k) || !problem->buffers[k].size) continue;
            size_t end = offsets[k] + problem->buffers[k].size;
            if (offsets[i] < end && offsets[k] < offsets[i] + problem->buffers[i].size) {
                offsets[i] = (end + alignment - 1) & ~(alignment - 1);
                k = SIZE_MAX;
            }
        }
        size_t height = brute_force(problem, offsets, placed | 1u << i);
        if (height < best) best = height;
    }
    return best;
}

static void every_planner_is_valid(void **unused) {
    (void)unused;
    for (uint64_t seed = 1; seed <= 240; seed++) {
        base_arena arena;
        base_report report = {0};
        base_arena_init(&arena, NULL);
        size_t count = seed % 21 == 0 ? 60 : 1 + seed % 17;
        planner_problem problem = random_problem(seed, count, (unsigned)(seed / 12 % 8), &arena);
        for (size_t p = 0; planner_at(p); p++) {
            planner_solution solution, again;
            planner_options options = {.seconds = 0};
            base_status status = planner_run(planner_at(p), &problem, &options, &arena, &solution, &report);
            if (status != BASE_OK)
                fail_msg("seed %" PRIu64 ", %s: %s", seed, planner_at(p)->name, report.text);
            expect_valid(&problem, &solution);
            assert_int_equal(planner_run(planner_at(p), &problem, &options, &arena, &again, &report),
                             BASE_OK);
            assert_memory_equal(solution.offsets, again.offsets, count * sizeof *again.offsets);
        }
        base_arena_free(&arena);
    }
}

static void nothing_beats_brute_force(void **unused) {
    (void)unused;
    size_t exact_hits = 0, problems = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        base_arena arena;
        base_report report = {0};
        base_arena_init(&arena, NULL);
        planner_problem problem = random_problem(seed, 1 + seed % 6, seed % 2 ? ALIGNED : 0, &arena);
        size_t offsets[6], best = brute_force(&problem, offsets, 0);
        for (size_t p = 0; planner_at(p); p++) {
            planner_solution solution;
            planner_options options = {.seconds = 0};
            assert_int_equal(planner_run(planner_at(p), &problem, &options, &arena, &solution, &report),
                             BASE_OK);
            assert_true(solution.height >= best);
            assert_true(solution.lower_bound <= best);
            if (strcmp(planner_at(p)->name, "auto") == 0) {
                exact_hits += solution.height == best;
                problems++;
            }
        }
        base_arena_free(&arena);
    }
    assert_int_equal(exact_hits, problems);
}

/* Pinned buffers lie before the others are put. */
static size_t brute_force_pinned(const planner_problem *problem, size_t *offsets) {
    unsigned placed = 0;
    for (size_t i = 0; i < problem->buffer_count; i++) {
        if (problem->buffers[i].fixed == PLANNER_NOT_FIXED) continue;
        offsets[i] = problem->buffers[i].fixed;
        placed |= 1u << i;
    }
    return brute_force(problem, offsets, placed);
}

/* The search ends by itself on small problems, so that its answer must be the best, and known to be. */
static void exact_proves_the_truth(void **unused) {
    (void)unused;
    static const unsigned extras[] = {0, ALIGNED, FIXED, ALIGNED | FIXED, ALIKE, ALIKE | FIXED};
    size_t above_live = 0, refused = 0;
    for (uint64_t seed = 1; seed <= 1800; seed++) {
        base_arena arena;
        base_report report = {0};
        base_arena_init(&arena, NULL);
        planner_problem problem = random_problem(seed, 2 + seed % 6, extras[seed / 12 % 6], &arena);
        planner_options options = {.seconds = seed % 3 == 0 ? 30 : 0};
        planner_solution solution;
        size_t offsets[7], live, best = brute_force_pinned(&problem, offsets);
        assert_int_equal(planner_lower_bound(&problem, &arena, &live, &report), BASE_OK);
        assert_int_equal(planner_run(&planner_exact, &problem, &options, &arena, &solution, &report),
                         BASE_OK);
        expect_valid(&problem, &solution);
        if (solution.height != best || !solution.optimal) {
            fail_msg("seed %" PRIu64 ": height %zu, %s, the best is %zu", seed, solution.height,
                     solution.optimal ? "optimal" : "not proved", best);
        }
        above_live += best > live;
        for (size_t less = 0; less <= 2 && less < best; less++) {
            problem.capacity = best - less;
            assert_int_equal(planner_run(&planner_exact, &problem, &options, &arena, &solution, &report),
                             BASE_OK);
            expect_valid(&problem, &solution);
            if (less == 0) {
                assert_int_equal(solution.height, best);
                assert_true(solution.lower_bound <= best);
            } else { /* proved not to fit, and no more than what is true */
                assert_true(solution.lower_bound > problem.capacity);
                assert_true(solution.lower_bound <= best);
                refused++;
            }
        }
        problem.capacity = best + seed % 5;
        assert_int_equal(planner_run(&planner_exact, &problem, &options, &arena, &solution, &report),
                         BASE_OK);
        assert_true(solution.height <= problem.capacity);
        base_arena_free(&arena);
    }
    /* The live sum alone would not have told. */
    assert_true(above_live > 100 && refused > 1000);
}

/* The least height of all planners that do not search. */
static size_t quick_height(const planner_problem *problem, base_arena *arena) {
    size_t least = SIZE_MAX;
    for (size_t p = 0; planner_at(p); p++) {
        base_report report = {0};
        planner_solution solution;
        if (planner_at(p) == &planner_exact || planner_at(p) == &planner_auto) continue;
        assert_int_equal(
            planner_run(planner_at(p), problem, &(planner_options){0}, arena, &solution, &report), BASE_OK);
        if (solution.height < least) least = solution.height;
    }
    return least;
}

/* Sizes of some terabytes, not one of them a multiple of two: they are searched for rounded down, and made exact by the order that was found. */
static void exact_beyond_its_units(void **unused) {
    (void)unused;
    size_t improved = 0;
    for (uint64_t seed = 1; seed <= 120; seed++) {
        base_arena arena;
        base_report report = {0};
        base_arena_init(&arena, NULL);
        planner_problem problem = random_problem(seed, 2 + seed % 6, seed % 2 ? ALIGNED : 0, &arena);
        planner_buffer *buffers = (planner_buffer *)problem.buffers;
        for (size_t i = 0; i < problem.buffer_count; i++) {
            if (buffers[i].size) buffers[i].size = (buffers[i].size << 36) + (seed * (i + 1) << 10) + 1;
            if (i % 2) buffers[i].alignment <<= 30;
        }
        size_t offsets[7], best = brute_force(&problem, offsets, 0), quick = quick_height(&problem, &arena);
        planner_options options = {.work = 10000};
        planner_solution solution;
        for (int asked = 0; asked < 3; asked++) {
            problem.capacity = asked == 0 ? 0 : best - (size_t)(asked == 2);
            assert_int_equal(planner_run(&planner_exact, &problem, &options, &arena, &solution, &report),
                             BASE_OK);
            expect_valid(&problem, &solution);
            assert_true(solution.lower_bound <= best && solution.height <= quick);
            /* The order that is found is exact but for less than a unit for each of the buffers. */
            if (solution.height - best > (best >> 28) * problem.buffer_count)
                fail_msg("seed %" PRIu64 ": %zu, the best is %zu", seed, solution.height, best);
        }
        improved += solution.height < quick;
        base_arena_free(&arena);
    }
    assert_true(improved > 5);
}

/* Full problems with sizes that all end a few bytes short of a multiple of the alignment: what is lost by that is known
 * beforehand, so that they are as easy as with whole multiples. */
static void what_alignment_costs_is_known(void **unused) {
    (void)unused;
    size_t optimal = 0;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        base_arena arena;
        base_report report = {0};
        base_arena_init(&arena, NULL);
        planner_problem problem;
        planner_solution whole, solution;
        assert_true(problems_make("cut", 80, seed, &arena, &problem));
        problem.capacity = 0;
        assert_int_equal(
            planner_run(&planner_exact, &problem, &(planner_options){0}, &arena, &whole, &report), BASE_OK);
        planner_buffer *buffers = (planner_buffer *)problem.buffers;
        for (size_t i = 0; i < problem.buffer_count; i++) {
            assert_int_equal(buffers[i].size % 64, 0);
            buffers[i].size -= 4 + i % 12;
            buffers[i].alignment = 64;
        }
        assert_int_equal(
            planner_run(&planner_exact, &problem, &(planner_options){0}, &arena, &solution, &report),
            BASE_OK);
        expect_valid(&problem, &solution);
        assert_in_range(solution.height, whole.height - 15, whole.height - 4);
        assert_true(solution.lower_bound >= whole.lower_bound - 15);
        optimal += whole.optimal;
        problem.capacity = PROBLEMS_CAPACITY - 16; /* proved not to fit */
        assert_int_equal(
            planner_run(&planner_auto, &problem, &(planner_options){0}, &arena, &solution, &report), BASE_OK);
        assert_true(solution.lower_bound > problem.capacity);
        base_arena_free(&arena);
    }
    assert_true(optimal > 3);
}

/* Larger problems: never worse than a quick planner, the same at each run, within the time, and what a made
 * problem is known to need is not proved impossible. */
static void exact_on_made_problems(void **unused) {
    (void)unused;
    for (size_t k = 0; problems_kind(k); k++) {
        base_arena arena;
        base_report report = {0};
        base_arena_init(&arena, NULL);
        const char *kind = problems_kind(k);
        planner_problem problem;
        assert_true(problems_make(kind, 90, 5, &arena, &problem));
        const size_t quick = quick_height(&problem, &arena);
        planner_solution solution, again;
        for (int timed = 0; timed < 2; timed++) {
            planner_options options = {.seconds = timed * 0.2};
            assert_int_equal(planner_run(&planner_exact, &problem, &options, &arena, &solution, &report),
                             BASE_OK);
            expect_valid(&problem, &solution);
            if (solution.height > quick) fail_msg("%s: %zu, quick %zu", kind, solution.height, quick);
            if (problems_fit(kind)) assert_true(solution.lower_bound <= PROBLEMS_CAPACITY);
            if (timed) continue;
            assert_int_equal(planner_run(&planner_exact, &problem, &options, &arena, &again, &report),
                             BASE_OK);
            assert_memory_equal(solution.offsets, again.offsets,
                                problem.buffer_count * sizeof *again.offsets);
        }
        base_arena_free(&arena);
    }
}

/* Thousands of buffers: auto is lower than the best quick planner, or at the bound that one of them reaches. */
static void auto_takes_the_best_of_many(void **unused) {
    (void)unused;
    static const char *const kinds[] = {"cut", "crowded", "heavy", "nested", "equal", "pinned"};
    size_t optimal = 0;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        base_arena arena;
        base_report report = {0};
        base_arena_init(&arena, NULL);
        planner_problem problem;
        planner_solution solution;
        assert_true(problems_make(kinds[k], 6000, 3, &arena, &problem));
        assert_true(problem.buffer_count > 4096);
        const size_t quick = quick_height(&problem, &arena);
        assert_int_equal(
            planner_run(&planner_auto, &problem, &(planner_options){0}, &arena, &solution, &report), BASE_OK);
        expect_valid(&problem, &solution);
        if (solution.height > quick || (solution.height == quick && !solution.optimal))
            fail_msg("%s: %zu, quick %zu", kinds[k], solution.height, quick);
        optimal += solution.height == solution.lower_bound;
        base_arena_free(&arena);
    }
    assert_true(optimal > 0);
}

/* Who takes long stops at the deadline, where there is a solution already. */
static void large_problems_keep_the_time(void **unused) {
    (void)unused;
    static const planner *const slow[] = {&planner_nnc, &planner_greedy_by_size};
    base_arena arena;
    base_report report = {0};
    base_arena_init(&arena, NULL);
    planner_problem problem;
    planner_solution solution;
    assert_true(problems_make("crowded", 6000, 3, &arena, &problem));
    const planner_options passed = {.deadline = planner_budget_clock() - 1},
                          far = {.deadline = planner_budget_clock() + 1e6};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(planner_run(slow[i], &problem, &passed, &arena, &solution, &report), BASE_OK);
        assert_true(solution.gave_up && solution.height == SIZE_MAX);
        assert_int_equal(planner_run(slow[i], &problem, &far, &arena, &solution, &report), BASE_OK);
        assert_false(solution.gave_up);
        expect_valid(&problem, &solution);
    }
    /* The fastest planner's solution is there when the time is too short for all others. */
    assert_int_equal(planner_run(&planner_exact, &problem, &(planner_options){.seconds = 1e-9}, &arena,
                                 &solution, &report),
                     BASE_OK);
    expect_valid(&problem, &solution);
    planner_solution fastest;
    assert_int_equal(
        planner_run(&planner_chunk_simulation, &problem, &(planner_options){0}, &arena, &fastest, &report),
        BASE_OK);
    assert_true(solution.height <= fastest.height);
    base_arena_free(&arena);
}

/* ---- the checker must object --------------------------------------------------------------------------- */

static void checker_objects(void **unused) {
    (void)unused;
    base_arena arena;
    base_arena_init(&arena, NULL);
    const planner_buffer buffers[] = {
        {8, 4, 0, 2, PLANNER_NOT_FIXED}, {8, 4, 1, 3, 16}, {8, 4, 2, 4, PLANNER_NOT_FIXED}};
    const planner_problem problem = {.buffers = buffers, .buffer_count = 3};
    static const struct {
        size_t offsets[3], height;
        const char *message;
    } cases[] = {
        {{0, 16, 0}, 24, NULL},
        {{9, 16, 0}, 24, "buffer 0 lies at 9, not a multiple of its alignment 4\n"},
        {{0, 20, 0}, 28, "buffer 1 lies at 20, but is fixed at 16\n"},
        {{0, 16, 0}, 23, "buffer 1 (offset 16, size 8) ends above the height 23\n"},
        {{12, 16, 0}, 24, "buffers 0 (offset 12, size 8) and 1 (offset 16, size 8) interfere and overlap\n"},
        {{0, 16, 20}, 28, "buffers 1 (offset 16, size 8) and 2 (offset 20, size 8) interfere and overlap\n"},
        {{SIZE_MAX - 3, 16, 0},
         24,
         "buffer 0 (offset 18446744073709551612, size 8) ends above the height 24\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t offsets[3];
        memcpy(offsets, cases[i].offsets, sizeof offsets);
        planner_solution solution = {.offsets = offsets, .height = cases[i].height};
        base_report report = {0};
        base_status status = planner_check(&problem, &solution, &arena, &report);
        assert_int_equal(status, cases[i].message ? BASE_INVALID : BASE_OK);
        if (cases[i].message) assert_string_equal(report.text, cases[i].message);
    }
    base_arena_free(&arena);
}

static void bad_problems_are_told(void **unused) {
    (void)unused;
    static const struct {
        planner_buffer buffers[2];
        const char *message;
    } cases[] = {
        {{{1, 1, 3, 3, PLANNER_NOT_FIXED}, {1, 1, 0, 1, PLANNER_NOT_FIXED}},
         "buffer 0 is live from step 3 to before step 3: the last must be greater than the first\n"},
        {{{1, 1, 0, 1, PLANNER_NOT_FIXED}, {1, 3, 0, 1, PLANNER_NOT_FIXED}},
         "buffer 1 has alignment 3: a power of two is needed\n"},
        {{{1, 8, 0, 1, 4}, {1, 1, 0, 1, PLANNER_NOT_FIXED}},
         "buffer 0 is fixed at 4, not a multiple of its alignment 8\n"},
        {{{4, 1, 0, 2, 4}, {4, 1, 1, 2, 6}},
         "buffers 0 (offset 4, size 4) and 1 (offset 6, size 4) interfere and overlap\n"},
        {{{SIZE_MAX / 2, 1, 0, 1, PLANNER_NOT_FIXED}, {SIZE_MAX / 2, 1, 5, 6, PLANNER_NOT_FIXED}},
         "the sizes of the buffers add up beyond the address space\n"},
        {{{9, 1, 0, 1, SIZE_MAX - 8}, {1, 1, 5, 6, PLANNER_NOT_FIXED}},
         "buffer 0 at its fixed offset ends beyond the address space\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        base_arena arena;
        base_report report = {0};
        planner_solution solution;
        planner_options options = {0};
        base_arena_init(&arena, NULL);
        planner_problem problem = {.buffers = cases[i].buffers, .buffer_count = 2};
        assert_int_equal(planner_run(planner_find("nnc"), &problem, &options, &arena, &solution, &report),
                         BASE_INVALID);
        assert_string_equal(report.text, cases[i].message);
        base_arena_free(&arena);
    }
    assert_null(planner_find("none"));
}

/* What the reference promises: a large region is handed on to smaller tensors and back. */
static void regions_are_handed_on_and_back(void **unused) {
    (void)unused;
    base_arena arena;
    base_report report = {0};
    planner_solution solution;
    planner_options options = {0};
    base_arena_init(&arena, NULL);
    const planner_buffer buffers[] = {{96, 0, 0, 2, PLANNER_NOT_FIXED},
                                      {32, 0, 2, 4, PLANNER_NOT_FIXED},
                                      {64, 0, 3, 5, PLANNER_NOT_FIXED},
                                      {96, 0, 5, 6, PLANNER_NOT_FIXED}};
    planner_problem problem = {.buffers = buffers, .buffer_count = 4};
    assert_int_equal(planner_run(planner_find("nnc"), &problem, &options, &arena, &solution, &report),
                     BASE_OK);
    assert_int_equal(solution.height, 96);
    assert_true(solution.optimal);
    base_arena_free(&arena);
}

/* ---- modes --------------------------------------------------------------------------------------------- */

static void expect_preserved(const planner_problem *problem, const planner_solution *solution) {
    for (size_t i = 0; i < problem->buffer_count; i++) {
        for (size_t k = 0; k < i; k++) {
            size_t end_i = solution->offsets[i] + problem->buffers[i].size;
            size_t end_k = solution->offsets[k] + problem->buffers[k].size;
            if (!problem->buffers[i].size || !problem->buffers[k].size) continue;
            assert_true(end_i <= solution->offsets[k] || end_k <= solution->offsets[i]);
        }
    }
}

static void expect_apart(const planner_problem *problem, const planner_solution *solution) {
    int64_t first = problem->buffers[0].first, last = problem->buffers[0].last;
    for (size_t i = 0; i < problem->buffer_count; i++) {
        first = problem->buffers[i].first < first ? problem->buffers[i].first : first;
        last = problem->buffers[i].last > last ? problem->buffers[i].last : last;
    }
    for (size_t i = 0; i < problem->buffer_count; i++) {
        const planner_buffer *b = &problem->buffers[i];
        size_t offset = solution->offsets[i];
        if (!b->size) continue;
        if (b->first == first && b->last == last) {
            assert_true(offset + b->size <= solution->shared_low || offset >= solution->shared_high);
        } else {
            assert_true(offset >= solution->shared_low && offset + b->size <= solution->shared_high);
        }
    }
}

/* Every planner has both modes, with pins, alignments and lists; pins may make either impossible. */
static void modes_keep_their_promises(void **unused) {
    (void)unused;
    size_t solved = 0, refused = 0;
    for (uint64_t seed = 1; seed <= 192; seed++) {
        base_arena arena;
        uint64_t state = seed * 77;
        base_arena_init(&arena, NULL);
        size_t count = 2 + seed % 16;
        planner_problem problem = random_problem(seed, count, (unsigned)(seed / 12 % 8), &arena);
        planner_buffer *buffers = (planner_buffer *)problem.buffers;
        for (size_t i = 0; i < count && !problem.starts; i++) { /* some live all the time */
            if (below(&state, 4)) continue;
            buffers[i].first = -1000;
            buffers[i].last = 1000;
        }
        for (unsigned modes = 1; modes < 4; modes++) {
            for (size_t p = 0; planner_at(p); p++) {
                planner_options options = {.preserve_all = modes & 1, .persistent_apart = modes & 2};
                planner_solution solution;
                base_report report = {0};
                bool searches = planner_at(p) == &planner_exact || planner_at(p) == &planner_auto;
                if (searches && count > 7) continue;
                if (planner_run(planner_at(p), &problem, &options, &arena, &solution, &report) != BASE_OK) {
                    assert_true(seed / 12 % 8 & FIXED);
                    assert_non_null(strstr(report.text, "pinned offsets do not let"));
                    refused++;
                    continue;
                }
                expect_valid(&problem, &solution);
                assert_int_equal(solution.preserved, modes & 1);
                assert_int_equal(solution.apart, modes >> 1);
                if (solution.preserved) expect_preserved(&problem, &solution);
                if (solution.apart) expect_apart(&problem, &solution);
                solved++;
            }
        }
        base_arena_free(&arena);
    }
    assert_true(solved > 2000 && refused > 0);
}

/* As the arena planner does it: state below, at its own size; the rest above, used again as without it. */
static void persistent_buffers_lie_apart(void **unused) {
    (void)unused;
    base_arena arena;
    base_report report = {0};
    planner_solution solution;
    base_arena_init(&arena, NULL);
    planner_buffer buffers[] = {{100, 4, 0, 2, PLANNER_NOT_FIXED},
                                {10, 4, 0, 6, PLANNER_NOT_FIXED},
                                {60, 4, 1, 4, PLANNER_NOT_FIXED},
                                {30, 64, 3, 6, PLANNER_NOT_FIXED},
                                {20, 4, 0, 6, PLANNER_NOT_FIXED}};
    planner_problem problem = {.buffers = buffers, .buffer_count = 5};
    planner_options options = {.persistent_apart = true};
    assert_int_equal(planner_run(&planner_greedy_by_size, &problem, &options, &arena, &solution, &report),
                     BASE_OK);
    assert_int_equal(solution.offsets[1], 0);
    assert_int_equal(solution.offsets[4], 12);
    assert_int_equal(solution.shared_low, 64); /* the largest alignment of what is shared */
    assert_int_equal(solution.offsets[0], 64);
    assert_int_equal(solution.offsets[2], 164);
    assert_int_equal(solution.offsets[3], 64);
    assert_int_equal(solution.shared_high, 224);
    buffers[0].fixed = 0; /* what is shared is pinned to the bottom: the state goes on top */
    assert_int_equal(planner_run(&planner_greedy_by_size, &problem, &options, &arena, &solution, &report),
                     BASE_OK);
    assert_int_equal(solution.shared_low, 0);
    assert_int_equal(solution.shared_high, 160);
    assert_int_equal(solution.offsets[1], 160);
    buffers[1].fixed = 100; /* state amid it */
    assert_int_equal(planner_run(&planner_greedy_by_size, &problem, &options, &arena, &solution, &report),
                     BASE_INVALID);
    assert_string_equal(report.text,
                        "pinned offsets do not let the buffers that live as long as the whole problem "
                        "lie apart\n");
    base_arena_free(&arena);
}

static void checker_knows_the_modes(void **unused) {
    (void)unused;
    base_arena arena;
    base_arena_init(&arena, NULL);
    const planner_buffer buffers[] = {
        {8, 4, 0, 9, PLANNER_NOT_FIXED}, {8, 4, 0, 3, PLANNER_NOT_FIXED}, {8, 4, 3, 9, PLANNER_NOT_FIXED}};
    const planner_problem problem = {.buffers = buffers, .buffer_count = 3};
    static const struct {
        planner_solution solution;
        size_t offsets[3];
        const char *message;
    } cases[] = {
        {{.height = 16}, {0, 8, 8}, NULL},
        {{.height = 16, .preserved = true},
         {0, 8, 8},
         "buffers 1 and 2 share bytes, but all are to be preserved\n"},
        {{.height = 24, .preserved = true}, {0, 8, 16}, NULL},
        {{.height = 16, .apart = true, .shared_low = 8, .shared_high = 16}, {0, 8, 8}, NULL},
        {{.height = 16, .apart = true, .shared_low = 4, .shared_high = 16},
         {0, 8, 8},
         "buffer 0 (offset 0, size 8) lies in the shared part [4, 16)\n"},
        {{.height = 24, .apart = true, .shared_low = 16, .shared_high = 24},
         {8, 16, 0},
         "buffer 2 (offset 0, size 8) lies outside of the shared part [16, 24)\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        planner_solution solution = cases[i].solution;
        size_t offsets[3];
        base_report report = {0};
        memcpy(offsets, cases[i].offsets, sizeof offsets);
        solution.offsets = offsets;
        assert_int_equal(planner_check(&problem, &solution, &arena, &report),
                         cases[i].message ? BASE_INVALID : BASE_OK);
        if (cases[i].message) assert_string_equal(report.text, cases[i].message);
    }
    base_arena_free(&arena);
}

/* ---- failing allocations ------------------------------------------------------------------------------ */

static void running_out_of_memory_is_told(void **unused) {
    (void)unused;
    base_arena problem_arena;
    base_arena_init(&problem_arena, NULL);
    planner_problem problem = random_problem(8, 40, 0, &problem_arena);
    for (size_t p = 0; planner_at(p); p++) {
        for (size_t at = 1, modes = 0; modes < 4; at++) {
            support_allocator failing;
            support_allocator_init(&failing);
            failing.fail_at = at;
            base_arena arena;
            base_report report = {0};
            planner_solution solution;
            planner_options options = {.preserve_all = modes & 1, .persistent_apart = modes >> 1};
            base_arena_init(&arena, &failing.allocator);
            base_status status = planner_run(planner_at(p), &problem, &options, &arena, &solution, &report);
            base_arena_free(&arena);
            assert_int_equal(failing.live, 0);
            assert_int_equal(status, status == BASE_OK ? BASE_OK : BASE_SYSTEM_ERROR);
            if (status == BASE_OK) modes++, at = 0;
        }
    }
    base_arena_free(&problem_arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_planner_is_valid),
        cmocka_unit_test(nothing_beats_brute_force),
        cmocka_unit_test(exact_beyond_its_units),
        cmocka_unit_test(exact_proves_the_truth),
        cmocka_unit_test(exact_on_made_problems),
        cmocka_unit_test(what_alignment_costs_is_known),
        cmocka_unit_test(auto_takes_the_best_of_many),
        cmocka_unit_test(large_problems_keep_the_time),
        cmocka_unit_test(checker_objects),
        cmocka_unit_test(bad_problems_are_told),
        cmocka_unit_test(regions_are_handed_on_and_back),
        cmocka_unit_test(modes_keep_their_promises),
        cmocka_unit_test(persistent_buffers_lie_apart),
        cmocka_unit_test(checker_knows_the_modes),
        cmocka_unit_test(running_out_of_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
