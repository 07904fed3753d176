/* SPDX-License-Identifier: Apache-2.0 */
/* bench_exact.c: `exact` on made problems (problems.h), one line for each.
 *
 *     bench_exact [-s SECONDS] [-c COUNTS] [-n SEEDS] [-f FIRST] [KIND...]
 *
 * COUNTS are numbers of buffers, separated by commas; SEEDS problems are made of each, from seed FIRST on. The
 * quick planners' best is shown beside. With -w KIND COUNT SEED the problem is written as CSV instead.
 */
#include "tests/support/problems.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct settings {
    double seconds;
    const char *counts;
    uint64_t seeds, first;
} settings;

typedef struct totals {
    size_t problems, fits, optimal, worse;
    double seconds, ratio;
} totals;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The least height of the planners that take no time. */
static size_t quick_height(const planner_problem *problem, base_arena *arena) {
    size_t best = SIZE_MAX;
    for (size_t i = 0; planner_at(i); i++) {
        const char *name = planner_at(i)->name;
        planner_options options = {0};
        planner_solution solution = {0};
        base_report report = {0};
        if (strcmp(name, "auto") == 0 || strcmp(name, "exact") == 0) continue;
        if (planner_run(planner_at(i), problem, &options, arena, &solution, &report) == BASE_OK &&
            solution.height < best) {
            best = solution.height;
        }
    }
    return best;
}

static bool solve(const char *kind, size_t count, uint64_t seed, double limit, totals *sum) {
    base_arena arena;
    base_arena_init(&arena, NULL);
    base_report report = {0};
    planner_problem problem;
    planner_solution solution = {0};
    planner_options options = {.seconds = limit};
    size_t live = 0;
    bool ok = problems_make(kind, count, seed, &arena, &problem) &&
              planner_lower_bound(&problem, &arena, &live, &report) == BASE_OK;
    size_t quick = ok ? quick_height(&problem, &arena) : 0;
    double start = now();
    ok = ok && planner_run(planner_find("exact"), &problem, &options, &arena, &solution, &report) == BASE_OK;
    double seconds = now() - start;
    if (ok) {
        bool fits = problem.capacity ? solution.height <= problem.capacity : solution.optimal;
        double ratio = (double)solution.height / (double)(problem.capacity ? problem.capacity : live);
        printf("%-10s %5zu %4" PRIu64 " %10zu %10zu %8.4f %8.4f %8.3f  %s%s\n", kind, problem.buffer_count,
               seed, live, solution.height,
               (double)quick / (double)(problem.capacity ? problem.capacity : live), ratio, seconds,
               solution.optimal ? "optimal"
               : fits           ? "fits"
                                : "open",
               solution.height > quick ? " WORSE" : "");
        fflush(stdout);
        sum->problems++;
        sum->fits += fits;
        sum->optimal += solution.optimal;
        sum->worse += solution.height > quick;
        sum->seconds += seconds;
        sum->ratio += ratio;
    } else {
        fprintf(stderr, "%s %zu %" PRIu64 ": %s\n", kind, count, seed, report.text);
    }
    base_arena_free(&arena);
    return ok;
}

static int write_problem(const char *kind, size_t count, uint64_t seed) {
    base_arena arena;
    base_arena_init(&arena, NULL);
    base_report report = {0};
    planner_problem problem;
    bool ok = problems_make(kind, count, seed, &arena, &problem) &&
              planner_csv_write("/dev/stdout", &problem, NULL, NULL, &report) == BASE_OK;
    base_arena_free(&arena);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

static bool solve_kind(const settings *s, const char *kind) {
    totals sum = {0};
    for (const char *at = s->counts; *at;) {
        char *end;
        size_t count = strtoul(at, &end, 10);
        if (end == at || count < 8) return false;
        for (uint64_t k = 0; k < s->seeds; k++) {
            if (!solve(kind, count, s->first + k, s->seconds, &sum)) return false;
        }
        at = *end == ',' ? end + 1 : end;
    }
    printf("# %-10s %3zu problems: %3zu solved, %3zu optimal, mean %.4f, worse than quick %zu, %.1f s\n",
           kind, sum.problems, sum.fits, sum.optimal, sum.ratio / (double)sum.problems, sum.worse,
           sum.seconds);
    return true;
}

int main(int count, char **arguments) {
    settings s = {.seconds = 10, .counts = "100,200,300,500,1000", .seeds = 2, .first = 1};
    int i = 1;
    if (count == 5 && strcmp(arguments[1], "-w") == 0) {
        return write_problem(arguments[2], strtoul(arguments[3], NULL, 10), strtoull(arguments[4], NULL, 10));
    }
    for (; i + 1 < count && arguments[i][0] == '-'; i += 2) {
        switch (arguments[i][1]) {
        case 's':
            s.seconds = strtod(arguments[i + 1], NULL);
            break;
        case 'c':
            s.counts = arguments[i + 1];
            break;
        case 'n':
            s.seeds = strtoull(arguments[i + 1], NULL, 10);
            break;
        case 'f':
            s.first = strtoull(arguments[i + 1], NULL, 10);
            break;
        default:
            fprintf(stderr, "bench_exact: unknown option %s\n", arguments[i]);
            return EXIT_FAILURE;
        }
    }
    printf("%-10s %5s %4s %10s %10s %8s %8s %8s\n", "kind", "count", "seed", "live", "height", "quick",
           "ratio", "seconds");
    bool ok = true, all = i == count;
    for (size_t k = 0; all && ok && problems_kind(k); k++) ok = solve_kind(&s, problems_kind(k));
    for (; ok && i < count; i++) ok = solve_kind(&s, arguments[i]);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
