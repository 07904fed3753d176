/* SPDX-License-Identifier: Apache-2.0 */
/* test_overwrites.c: buffers that are written over parts of others: every planner, the checker, CSV. */
#include "passes/planners/planners.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 40 };

static size_t below(uint64_t *state, size_t limit) {
    return (size_t)(support_random(state) % limit);
}

static const planner_overwrite *between(const planner_problem *problem, size_t a, size_t b) {
    for (size_t i = 0; i < problem->overwrite_count; i++) {
        const planner_overwrite *over = &problem->overwrites[i];
        if ((over->buffer == a && over->target == b) || (over->buffer == b && over->target == a)) return over;
    }
    return NULL;
}

/* The rules once more, pair by pair. */
static bool is_valid(const planner_problem *problem, const size_t *offsets) {
    for (size_t a = 0; a < problem->buffer_count; a++) {
        const planner_buffer *x = &problem->buffers[a];
        if (x->alignment && offsets[a] % x->alignment) return false;
        if (x->fixed != PLANNER_NOT_FIXED && offsets[a] != x->fixed) return false;
        for (size_t b = 0; b < a; b++) {
            const planner_buffer *y = &problem->buffers[b];
            if (!x->size || !y->size || x->first >= y->last || y->first >= x->last) continue;
            if (offsets[a] + x->size <= offsets[b] || offsets[b] + y->size <= offsets[a]) continue;
            const planner_overwrite *over = between(problem, a, b);
            if (!over || offsets[over->buffer] != offsets[over->target] + over->at) return false;
        }
    }
    return true;
}

static size_t height_of(const planner_problem *problem, const size_t *offsets) {
    size_t height = 0;
    for (size_t i = 0; i < problem->buffer_count; i++) {
        size_t end = problem->buffers[i].size ? offsets[i] + problem->buffers[i].size : 0;
        if (end > height) height = end;
    }
    return height;
}

/* Chains of operators: most buffers are written over a part of one that dies, some over the same one. */
static planner_problem random_problem(uint64_t *state, size_t count, planner_buffer *buffers,
                                      planner_overwrite *overwrites) {
    size_t overwrite_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        buffers[i] = (planner_buffer){.size = 1 + below(state, 60), .fixed = PLANNER_NOT_FIXED};
        if (below(state, 3) == 0) buffers[i].alignment = (size_t)1 << below(state, 4);
        buffers[i].first = (int64_t)i / 2;
        buffers[i].last = buffers[i].first + 1 + (int64_t)below(state, 5);
        if (i == 0 || below(state, 3) == 0) continue;
        uint32_t target = (uint32_t)below(state, i);
        if (buffers[target].first >= buffers[i].first) continue;
        int64_t end = buffers[i].first + (below(state, 3) > 0);
        bool bound = false; /* others that overwrite it say when it ends */
        for (size_t k = 0; k < overwrite_count; k++) bound |= overwrites[k].target == target;
        if (bound && buffers[target].last != buffers[i].first && buffers[target].last - 1 != buffers[i].first)
            continue;
        if (!bound) buffers[target].last = end;
        if (buffers[target].last <= buffers[target].first) buffers[target].last = buffers[target].first + 1;
        if (buffers[target].last != buffers[i].first && buffers[target].last - 1 != buffers[i].first)
            continue;
        buffers[i].size = 1 + below(state, buffers[target].size);
        size_t at = below(state, buffers[target].size - buffers[i].size + 1);
        if (below(state, 2)) at &= ~(size_t)7;
        overwrites[overwrite_count++] = (planner_overwrite){i, target, at};
    }
    return (planner_problem){.buffers = buffers,
                             .buffer_count = count,
                             .overwrites = overwrites,
                             .overwrite_count = overwrite_count};
}

/* Every planner's answer is valid, no bound is above any answer, and overwriting is worth it. */
static void answers_are_valid(void **unused) {
    (void)unused;
    size_t used = 0, lower = 0, plain_sum = 0, sum = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        uint64_t state = seed;
        planner_buffer buffers[MOST];
        planner_overwrite overwrites[MOST];
        base_arena arena;
        base_report report = {0};
        base_arena_init(&arena, NULL);
        planner_problem problem =
            random_problem(&state, 1 + below(&state, seed % 4 ? 9 : MOST), buffers, overwrites);
        size_t best = SIZE_MAX, bound = 0;
        for (size_t p = 0; planner_at(p); p++) {
            planner_options options = {.persistent_apart = seed % 5 == 0};
            planner_solution solution;
            if (problem.buffer_count > 10 && planner_at(p) == &planner_exact) continue;
            if (planner_run(planner_at(p), &problem, &options, &arena, &solution, &report) != BASE_OK)
                fail_msg("seed %" PRIu64 ", %s: %s", seed, planner_at(p)->name, report.text);
            assert_true(is_valid(&problem, solution.offsets));
            assert_int_equal(height_of(&problem, solution.offsets), solution.height);
            if (solution.height < best) best = solution.height;
            if (solution.lower_bound > bound) bound = solution.lower_bound;
            if (planner_at(p) != &planner_chunk_simulation) continue;
            planner_problem plain = problem;
            plain.overwrite_count = 0;
            for (size_t i = 0; i < problem.overwrite_count; i++)
                used += solution.offsets[overwrites[i].buffer] ==
                        solution.offsets[overwrites[i].target] + overwrites[i].at;
            sum += solution.height;
            assert_int_equal(planner_run(planner_at(p), &plain, &options, &arena, &solution, &report),
                             BASE_OK);
            plain_sum += solution.height;
            lower += solution.lower_bound > best;
        }
        if (bound > best) fail_msg("seed %" PRIu64 ": bound %zu, but a height of %zu", seed, bound, best);
        base_arena_free(&arena);
    }
    /* Lower than any answer without overwriting can be, in many cases. */
    assert_true(used > 800 && lower > 40 && sum < plain_sum);
}

/* The source's example: 20 units, overwritten from 6 to 16; what lies before and after is used at once. */
static void sub_range_is_overwritten(void **unused) {
    (void)unused;
    base_arena arena;
    base_report report = {0};
    planner_solution solution;
    planner_options options = {0};
    base_arena_init(&arena, NULL);
    const planner_buffer buffers[] = {{20, 1, 0, 2, PLANNER_NOT_FIXED},
                                      {10, 1, 1, 4, PLANNER_NOT_FIXED},
                                      {6, 1, 2, 4, PLANNER_NOT_FIXED},
                                      {4, 1, 2, 4, PLANNER_NOT_FIXED}};
    const planner_overwrite overwrites[] = {{1, 0, 6}};
    planner_problem problem = {
        .buffers = buffers, .buffer_count = 4, .overwrites = overwrites, .overwrite_count = 1};
    static const size_t expected[] = {0, 6, 0, 16};
    assert_int_equal(planner_run(&planner_chunk_simulation, &problem, &options, &arena, &solution, &report),
                     BASE_OK);
    assert_memory_equal(solution.offsets, expected, sizeof expected);
    assert_int_equal(solution.height, 20);
    assert_true(solution.optimal);
    assert_int_equal(planner_run(&planner_auto, &problem, &options, &arena, &solution, &report), BASE_OK);
    assert_int_equal(solution.height, 20);
    assert_int_equal(planner_run(&planner_exact, &problem, &options, &arena, &solution, &report), BASE_OK);
    assert_int_equal(solution.height, 30); /* the best without, and no proof that there is none below */
    assert_false(solution.optimal);
    assert_int_equal(solution.lower_bound, 20);
    base_arena_free(&arena);
}

/* A chain moves with its root: what has to lie before its last member pushes all of it up. */
static void chains_move_with_their_root(void **unused) {
    (void)unused;
    base_arena arena;
    base_report report = {0};
    planner_solution solution;
    planner_options options = {0};
    base_arena_init(&arena, NULL);
    const planner_buffer buffers[] = {{32, 1, 0, 2, PLANNER_NOT_FIXED},
                                      {16, 1, 1, 3, PLANNER_NOT_FIXED},
                                      {8, 8, 2, 6, PLANNER_NOT_FIXED},
                                      {20, 4, 3, 6, PLANNER_NOT_FIXED}};
    const planner_overwrite overwrites[] = {{1, 0, 8}, {2, 1, 8}};
    planner_problem problem = {
        .buffers = buffers, .buffer_count = 4, .overwrites = overwrites, .overwrite_count = 2};
    /* Free are 16 before the last of the chain and 8 after it: the larger is stretched to 20. */
    static const size_t expected[] = {8, 16, 24, 0};
    assert_int_equal(planner_run(&planner_chunk_simulation, &problem, &options, &arena, &solution, &report),
                     BASE_OK);
    assert_memory_equal(solution.offsets, expected, sizeof expected);
    assert_int_equal(solution.height, 40);
    base_arena_free(&arena);
}

/* Two may overwrite parts of the same buffer, but not each other. */
static void checker_knows_overwrites(void **unused) {
    (void)unused;
    base_arena arena;
    base_arena_init(&arena, NULL);
    const planner_buffer buffers[] = {{20, 1, 0, 2, PLANNER_NOT_FIXED},
                                      {10, 1, 1, 2, PLANNER_NOT_FIXED},
                                      {10, 1, 1, 4, PLANNER_NOT_FIXED},
                                      {5, 1, 0, 2, PLANNER_NOT_FIXED}};
    const planner_overwrite apart[] = {{1, 0, 0}, {2, 0, 10}}, together[] = {{1, 0, 6}, {2, 0, 10}};
    static const struct {
        size_t offsets[4];
        bool together;
        const char *message;
    } cases[] = {
        {{0, 0, 10, 20}, false, NULL},
        {{0, 25, 10, 20}, false, NULL},
        {{0, 0, 11, 21},
         false,
         "buffers 0 (offset 0, size 20) and 2 (offset 11, size 10) interfere and overlap\n"},
        {{0, 0, 10, 19},
         false,
         "buffers 0 (offset 0, size 20) and 3 (offset 19, size 5) interfere and overlap\n"},
        {{0, 20, 10, 20},
         false,
         "buffers 3 (offset 20, size 5) and 1 (offset 20, size 10) interfere and overlap\n"},
        {{0, 6, 10, 20},
         true,
         "buffers 1 (offset 6, size 10) and 2 (offset 10, size 10) interfere and overlap\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        planner_problem problem = {.buffers = buffers,
                                   .buffer_count = 4,
                                   .overwrites = cases[i].together ? together : apart,
                                   .overwrite_count = 2};
        size_t offsets[4];
        base_report report = {0};
        memcpy(offsets, cases[i].offsets, sizeof offsets);
        planner_solution solution = {.offsets = offsets, .height = 40};
        base_status status = planner_check(&problem, &solution, &arena, &report);
        if (cases[i].message) assert_string_equal(report.text, cases[i].message);
        assert_int_equal(status, cases[i].message ? BASE_INVALID : BASE_OK);
        assert_int_equal(is_valid(&problem, offsets), !cases[i].message);
        /* Listed interference: the same answer. */
        static const size_t starts[] = {0, 3, 6, 9, 12};
        static const uint32_t neighbours[] = {1, 2, 3, 0, 2, 3, 0, 1, 3, 0, 1, 2};
        problem.starts = starts;
        problem.neighbours = neighbours;
        base_report_clear(&report);
        assert_int_equal(planner_check(&problem, &solution, &arena, &report), status);
    }
    base_arena_free(&arena);
}

/* Pinned where it overwrites: nobody objects, and planners that do not know of it find their way. */
static void overwrites_may_be_pinned(void **unused) {
    (void)unused;
    base_arena arena;
    base_report report = {0};
    base_arena_init(&arena, NULL);
    planner_buffer buffers[] = {
        {20, 1, 0, 2, 8}, {10, 1, 1, 4, 14}, {6, 1, 2, 4, PLANNER_NOT_FIXED}, {4, 1, 1, 2, 8}};
    const planner_overwrite overwrites[] = {{1, 0, 6}, {3, 0, 0}};
    planner_problem problem = {
        .buffers = buffers, .buffer_count = 4, .overwrites = overwrites, .overwrite_count = 2};
    for (size_t p = 0; planner_at(p); p++) {
        planner_options options = {0};
        planner_solution solution;
        if (planner_run(planner_at(p), &problem, &options, &arena, &solution, &report) != BASE_OK)
            fail_msg("%s: %s", planner_at(p)->name, report.text);
        assert_true(is_valid(&problem, solution.offsets));
        assert_int_equal(solution.height, 28);
    }
    buffers[1].fixed = 15;
    planner_options options = {0};
    planner_solution solution;
    assert_int_equal(planner_run(&planner_nnc, &problem, &options, &arena, &solution, &report), BASE_INVALID);
    base_arena_free(&arena);
}

static void wrong_overwrites_are_told(void **unused) {
    (void)unused;
    const planner_buffer buffers[] = {{20, 1, 0, 2, PLANNER_NOT_FIXED},
                                      {10, 1, 1, 4, PLANNER_NOT_FIXED},
                                      {10, 1, 3, 4, PLANNER_NOT_FIXED},
                                      {10, 1, 0, 4, PLANNER_NOT_FIXED}};
    static const struct {
        planner_overwrite overwrites[2];
        size_t count;
        const char *message;
    } cases[] = {
        {{{1, 4, 0}}, 1, "buffer 1 is said to overwrite buffer 4: there are 4\n"},
        {{{1, 0, 11}},
         1,
         "buffer 1 (size 10) is said to overwrite buffer 0 (size 20) from byte 11 on: that is more than it "
         "has\n"},
        {{{2, 0, 0}},
         1,
         "buffer 2 is said to overwrite buffer 0 at step 3, but that is live from step 0 to before step 2: "
         "it must "
         "begin before, and end there or one step later\n"},
        {{{3, 0, 0}},
         1,
         "buffer 3 is said to overwrite buffer 0 at step 0, but that is live from step 0 to before step 2: "
         "it must "
         "begin before, and end there or one step later\n"},
        {{{2, 1, 0}, {1, 0, 0}}, 2, "the overwrites are not in the order of their buffers\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        base_arena arena;
        base_report report = {0};
        planner_solution solution;
        planner_options options = {0};
        base_arena_init(&arena, NULL);
        planner_problem problem = {.buffers = buffers,
                                   .buffer_count = 4,
                                   .overwrites = cases[i].overwrites,
                                   .overwrite_count = cases[i].count};
        assert_int_equal(
            planner_run(&planner_chunk_simulation, &problem, &options, &arena, &solution, &report),
            BASE_INVALID);
        assert_string_equal(report.text, cases[i].message);
        base_arena_free(&arena);
    }
}

static void csv_has_overwrites(void **unused) {
    (void)unused;
    static const char path[] = "test_overwrites.csv", again[] = "test_overwrites_again.csv";
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"id,lower,upper,size,overwrites,at\nb,1,4,10,\"a\",6\na,0,2,20,,\nc,3,5,4,b,\n", NULL},
        {"id,lower,upper,size,overwrites\nb,1,4,10,a\na,0,2,20,\na,0,3,2,\n",
         "test_overwrites.csv:2: more than one buffer has the id to overwrite a\n"},
        {"id,lower,upper,size,overwrites\nb,1,4,10,c\na,0,2,20,\n",
         "test_overwrites.csv:2: there is no buffer to overwrite with the id c\n"},
        {"id,lower,upper,size,overwrites,at\nb,1,4,10,a,-1\na,0,2,20,,\n",
         "test_overwrites.csv:2: at is -1: it must not be negative\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        base_arena arena;
        base_report report = {0};
        planner_problem read, back;
        const char *const *ids;
        base_arena_init(&arena, NULL);
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fputs(cases[i].text, file);
        assert_int_equal(fclose(file), 0);
        base_status status = planner_csv_read(path, &arena, &read, &ids, &report);
        assert_int_equal(status, cases[i].message ? BASE_INVALID : BASE_OK);
        if (cases[i].message) {
            assert_string_equal(report.text, cases[i].message);
        } else {
            static const planner_overwrite expected[] = {{0, 1, 6}, {2, 0, 0}};
            for (int round = 0; round < 2; round++) {
                const planner_problem *problem = round ? &back : &read;
                assert_int_equal(problem->overwrite_count, 2);
                assert_memory_equal(problem->overwrites, expected, sizeof expected);
                assert_int_equal(planner_csv_write(again, &read, ids, NULL, &report), BASE_OK);
                assert_int_equal(planner_csv_read(again, &arena, &back, NULL, &report), BASE_OK);
            }
            remove(again);
        }
        remove(path);
        base_arena_free(&arena);
    }
}

static void running_out_of_memory_is_told(void **unused) {
    (void)unused;
    planner_buffer buffers[MOST];
    planner_overwrite overwrites[MOST];
    uint64_t state = 3;
    planner_problem problem = random_problem(&state, 9, buffers, overwrites);
    for (size_t p = 0; planner_at(p); p++) {
        for (size_t at = 1;; at++) {
            support_allocator failing;
            support_allocator_init(&failing);
            failing.fail_at = at;
            base_arena arena;
            base_report report = {0};
            planner_solution solution;
            planner_options options = {.persistent_apart = true};
            base_arena_init(&arena, &failing.allocator);
            base_status status = planner_run(planner_at(p), &problem, &options, &arena, &solution, &report);
            base_arena_free(&arena);
            assert_int_equal(failing.live, 0);
            if (status == BASE_OK) break;
            assert_int_equal(status, BASE_SYSTEM_ERROR);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_valid),           cmocka_unit_test(sub_range_is_overwritten),
        cmocka_unit_test(chains_move_with_their_root), cmocka_unit_test(checker_knows_overwrites),
        cmocka_unit_test(overwrites_may_be_pinned),    cmocka_unit_test(wrong_overwrites_are_told),
        cmocka_unit_test(csv_has_overwrites),          cmocka_unit_test(running_out_of_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
