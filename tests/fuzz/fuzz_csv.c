/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_csv.c: any bytes as a planning problem: what can be read is written and read to the same problem, and every quick planner
 * gives a solution that the checker accepts (planner_run asks it), or a message. */
#include "passes/planners/planners.h"
#include "tests/fuzz/fuzz.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_PLANNED = 500 };

static void solve(const planner_problem *problem, base_report *report) {
    const planner_options options = {.work = 2000};
    const planner *chosen;
    for (size_t i = 0; (chosen = planner_at(i)); i++) {
        base_arena arena;
        planner_solution solution;
        *report = (base_report){0};
        base_arena_init(&arena, NULL);
        const base_status status = planner_run(chosen, problem, &options, &arena, &solution, report);
        if (status != BASE_OK && !report->length) fuzz_found("a planner fails without a message");
        if (status == BASE_OK && solution.height < solution.lower_bound)
            fuzz_found("lower than the lower bound");
        base_arena_free(&arena);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    base_arena arena;
    base_report *report = calloc(1, sizeof *report);
    planner_problem problem, again;
    const char *const *ids;
    if (!report) abort();
    base_arena_init(&arena, NULL);
    const base_status status =
        planner_csv_read(fuzz_file("problem.csv", data, size), &arena, &problem, &ids, report);
    if (status != BASE_OK && !report->length) fuzz_found("refused without a message");
    if (status == BASE_OK) {
        char path[160];
        strcpy(path, fuzz_file("written.csv", "", 0));
        if (planner_csv_write(path, &problem, ids, NULL, report) != BASE_OK ||
            planner_csv_read(path, &arena, &again, &ids, report) != BASE_OK)
            fuzz_found(report->text);
        if (again.buffer_count != problem.buffer_count || again.overwrite_count != problem.overwrite_count ||
            (problem.buffer_count &&
             memcmp(again.buffers, problem.buffers, problem.buffer_count * sizeof *problem.buffers) != 0))
            fuzz_found("what is written reads as something else");
        if (problem.buffer_count <= MOST_PLANNED) solve(&problem, report);
    }
    base_arena_free(&arena);
    free(report);
    return 0;
}
