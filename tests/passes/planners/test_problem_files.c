/* SPDX-License-Identifier: Apache-2.0 */
/* test_problem_files.c: problems and solutions as CSV: they come back as they were, and a malformed file gives one clear line. */
#include "passes/planners/planners.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <sys/resource.h>

/* Sizes, lives, alignments and, for every fourth buffer, an address, one above the other. */
static planner_problem random_problem(uint64_t seed, size_t count, base_arena *arena) {
    planner_buffer *buffers = BASE_ARRAY(arena, planner_buffer, count);
    assert_non_null(buffers);
    size_t end = 0;
    for (size_t i = 0; i < count; i++) {
        const int32_t first = (int32_t)(support_random(&seed) % 20) - 10;
        buffers[i] = (planner_buffer){.size = (size_t)(support_random(&seed) % 5000),
                                      .first = first,
                                      .last = first + 1 + (int32_t)(support_random(&seed) % 10),
                                      .alignment = (size_t)1 << support_random(&seed) % 7,
                                      .fixed = PLANNER_NOT_FIXED};
        if (support_random(&seed) % 4) continue;
        buffers[i].fixed = (end + buffers[i].alignment - 1) & ~(buffers[i].alignment - 1);
        end = buffers[i].fixed + buffers[i].size;
    }
    return (planner_problem){.buffers = buffers, .buffer_count = count};
}

static const char *write_file(const char *text) {
    static const char path[] = "test_problem_files.csv";
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    return path;
}

static void csv_comes_back(void **unused) {
    (void)unused;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        base_arena arena;
        base_report report = {0};
        base_arena_init(&arena, NULL);
        planner_problem problem = random_problem(seed, 9, &arena), read;
        static const char *const names[9] = {"plain", "a,b", "say \"x\"", "", "two words",
                                             "e",     "f",   "g",         "h"};
        const char *const *ids;
        size_t offsets[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
        planner_solution solution = {.offsets = offsets};
        const char *path = "test_problem_files.csv";
        assert_int_equal(planner_csv_write(path, &problem, names, seed % 2 ? &solution : NULL, &report),
                         BASE_OK);
        assert_int_equal(planner_csv_read(path, &arena, &read, &ids, &report), BASE_OK);
        assert_int_equal(read.buffer_count, problem.buffer_count);
        for (size_t i = 0; i < 9; i++) {
            assert_string_equal(ids[i], names[i]);
            assert_int_equal(read.buffers[i].size, problem.buffers[i].size);
            assert_int_equal(read.buffers[i].first, problem.buffers[i].first);
            assert_int_equal(read.buffers[i].last, problem.buffers[i].last);
            assert_int_equal(read.buffers[i].fixed, problem.buffers[i].fixed);
            assert_int_equal(read.buffers[i].alignment,
                             problem.buffers[i].alignment ? problem.buffers[i].alignment : 1);
        }
        base_arena_free(&arena);
    }
    remove("test_problem_files.csv");
}

static void csv_columns_in_any_order(void **unused) {
    (void)unused;
    base_arena arena;
    base_report report = {0};
    planner_problem read;
    base_arena_init(&arena, NULL);
    const char *path = write_file("size, upper ,id,lower\r\n\r\n4096,7,\"a\",-3\r\n");
    assert_int_equal(planner_csv_read(path, &arena, &read, NULL, &report), BASE_OK);
    assert_int_equal(read.buffer_count, 1);
    assert_int_equal(read.buffers[0].size, 4096);
    assert_int_equal(read.buffers[0].first, -3);
    assert_int_equal(read.buffers[0].last, 7);
    base_arena_free(&arena);
    remove(path);
}

static void malformed_csv_is_told(void **unused) {
    (void)unused;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "test_problem_files.csv: empty: the header id,lower,upper,size is needed\n"},
        {"id,lower,size\n", "test_problem_files.csv:1: there is no column upper\n"},
        {"id,lower,upper,size,id\n", "test_problem_files.csv:1: twice the column id\n"},
        {"id,lower,upper,bytes\n", "test_problem_files.csv:1: unknown column \"bytes\": the columns are id, "
                                   "lower, upper, size and, optional, alignment, "
                                   "fixed, overwrites, at, offset\n"},
        {"id,lower,upper,size\n1,2,3\n",
         "test_problem_files.csv:2: 3 fields, but the header has 4 columns\n"},
        {"id,lower,upper,size\n1,2,x,4\n",
         "test_problem_files.csv:2: upper is \"x\": a whole number of 64 bits is needed\n"},
        {"id,lower,upper,size\n1,2,3,99999999999999999999\n",
         "test_problem_files.csv:2: size is \"99999999999999999999\": a whole number of 64 bits is needed\n"},
        {"id,lower,upper,size\n1,2,3,-4\n",
         "test_problem_files.csv:2: size is -4: it must not be negative\n"},
        {"id,lower,upper,size\n\n1,3,3,4\n",
         "test_problem_files.csv:3: lower is 3 and upper is 3: upper must be greater\n"},
        {"id,lower,upper,size,alignment\n1,2,3,4,6\n",
         "test_problem_files.csv:2: alignment is 6: a power of two is needed\n"},
        {"id,lower,upper,size\n\"1,2,3,4\n", "test_problem_files.csv:2: a quoted field has no end\n"},
        {"id,lower,upper,size\n\"1\"2,2,3,4\n",
         "test_problem_files.csv:2: a comma must follow a quoted field\n"},
        {"1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7\n", "test_problem_files.csv:1: more than 16 columns\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        base_arena arena;
        base_report report = {0};
        planner_problem read;
        base_arena_init(&arena, NULL);
        const char *path = write_file(cases[i].text);
        assert_int_equal(planner_csv_read(path, &arena, &read, NULL, &report), BASE_INVALID);
        assert_string_equal(report.text, cases[i].message);
        base_arena_free(&arena);
        remove(path);
    }
    base_report report = {0};
    base_arena arena;
    planner_problem read;
    base_arena_init(&arena, NULL);
    assert_int_equal(planner_csv_read("no such file.csv", &arena, &read, NULL, &report), BASE_INVALID);
    assert_string_equal(report.text, "no such file.csv: cannot open: No such file or directory\n");
    /* Without descriptors it is the machine that fails, not the problem. */
    struct rlimit kept, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &kept), 0);
    none = (struct rlimit){0, kept.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    base_report_clear(&report);
    const base_status without = planner_csv_read("no such file.csv", &arena, &read, NULL, &report);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &kept), 0);
    assert_int_equal(without, BASE_SYSTEM_ERROR);
    base_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(csv_comes_back),
        cmocka_unit_test(csv_columns_in_any_order),
        cmocka_unit_test(malformed_csv_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
