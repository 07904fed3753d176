/* SPDX-License-Identifier: Apache-2.0 */
/* alloc.c: `ouro alloc`: allocation problems from CSV files, solved by one planner or by all. */
#include "compiler/command/command.h"
#include "compiler/report/emit.h"
#include <inttypes.h>
#include <string.h>

typedef struct alloc_options {
    const char *allocator, *output, *json, *memory_map;
    int64_t capacity, work, threads;
    double seconds;
    bool preserve_all, persistent_apart;
} alloc_options;

static const command_option alloc_table[] = {
    {"--allocator", NULL, COMMAND_TEXT, "NAME|all", "the planner (default: auto)",
     offsetof(alloc_options, allocator)},
    {"--capacity", NULL, COMMAND_COUNT, "N", "bytes that there are: a higher solution is a failure",
     offsetof(alloc_options, capacity)},
    {"--seconds", NULL, COMMAND_REAL, "S",
     "how long auto and exact may search: what they find then depends on the machine",
     offsetof(alloc_options, seconds)},
    {"--work", NULL, COMMAND_COUNT, "N",
     "how much they may do instead, in steps of some 10 microseconds: the same answer everywhere",
     offsetof(alloc_options, work)},
    {"--threads", NULL, COMMAND_COUNT, "N",
     "how many searches run side by side (default: 1): the same answer for the same N and --work",
     offsetof(alloc_options, threads)},
    {"--preserve-all", NULL, COMMAND_FLAG, NULL,
     "no byte is used again: what every buffer held is there at the end",
     offsetof(alloc_options, preserve_all)},
    {"--persistent-apart", NULL, COMMAND_FLAG, NULL,
     "buffers that live as long as the whole problem in an arena of their own",
     offsetof(alloc_options, persistent_apart)},
    {"--output", "-o", COMMAND_TEXT, "SOLUTION.csv", "write the lowest solution (one problem only)",
     offsetof(alloc_options, output)},
    {"--json", NULL, COMMAND_TEXT, "FILE", "the table as JSON", offsetof(alloc_options, json)},
    {"--memory-map", NULL, COMMAND_TEXT, "FILE",
     "a picture of the lowest solution: .svg or .html (one problem only)",
     offsetof(alloc_options, memory_map)},
    {0},
};

typedef struct best_solution {
    planner_solution solution;
    const char *allocator;
} best_solution;

/* One line of the table. Over the capacity means no more than that, unless a bound proves it. */
static void tell_result(emit_buffer *json, const planner *with, base_status status,
                        const planner_solution *solution, size_t bound, double seconds,
                        const alloc_options *options, const base_report *report) {
    bool solved = status == BASE_OK;
    bool fits = solved && (!options->capacity || solution->height <= (uint64_t)options->capacity);
    bool too_small = options->capacity && solution->lower_bound > (uint64_t)options->capacity;
    emit_json_open(json, NULL, '{');
    emit_json_text(json, "allocator", with->name);
    if (solved) emit_json_integer(json, "height", solution->height);
    else emit_json_text(json, "height", NULL);
    emit_json_real(json, "seconds", seconds);
    emit_json_bool(json, "optimal", solved && solution->optimal);
    emit_json_bool(json, "valid", solved);
    if (solved && solution->apart) {
        emit_json_integer(json, "shared_low", solution->shared_low);
        emit_json_integer(json, "shared_high", solution->shared_high);
    }
    if (options->capacity) {
        emit_json_bool(json, "fits", fits);
        emit_json_bool(json, "proved_not_to_fit", solved && too_small);
    }
    emit_json_close(json, '}');
    if (solved) {
        char apart[64] = "";
        if (solution->apart)
            snprintf(apart, sizeof apart, "shared [%zu, %zu)%s", solution->shared_low, solution->shared_high,
                     solution->optimal || !fits ? ", " : "");
        printf("  %-18s %14zu %8.4f %9.3f s  %s%s%s%s\n", with->name, solution->height,
               bound ? (double)solution->height / (double)bound : 1.0, seconds, apart,
               solution->optimal ? "optimal" : "", solution->optimal && !fits ? ", " : "",
               fits        ? ""
               : too_small ? "over the capacity: proved not to fit"
                           : "over the capacity");
    } else {
        printf("  %-18s failed: %.*s\n", with->name, (int)strcspn(report->text, "\n"), report->text);
    }
    fflush(stdout);
}

static int solve_all(const alloc_options *options, const char *path, const planner_problem *problem,
                     emit_buffer *json, base_arena *arena, best_solution *best, command_progress *progress) {
    base_report report = {0};
    size_t bound;
    base_report_context(&report, "%s", path);
    if (planner_lower_bound(problem, arena, &bound, &report) != BASE_OK) return command_fail_report(&report);
    char text[32];
    printf("%s: %zu buffer%s, lower bound %zu (%s)\n", path, problem->buffer_count,
           emit_plural(problem->buffer_count), bound, emit_size_print(bound, text, sizeof text));
    printf("  %-18s %14s %8s %11s\n", "allocator", "height", "ratio", "time");
    emit_json_open(json, NULL, '{');
    emit_json_text(json, "problem", path);
    emit_json_integer(json, "buffers", problem->buffer_count);
    emit_json_integer(json, "lower_bound", bound);
    emit_json_open(json, "results", '[');
    const char *name = options->allocator ? options->allocator : "auto";
    bool all = strcmp(name, "all") == 0;
    int status = 0;
    bool too_small = false;
    for (size_t i = 0; planner_at(i); i++) {
        const planner *with = planner_at(i);
        if (!all && strcmp(with->name, name) != 0) continue;
        planner_options limits = {.seconds = options->seconds,
                                  .work = (uint64_t)options->work,
                                  .threads = (unsigned)options->threads,
                                  .preserve_all = options->preserve_all,
                                  .persistent_apart = options->persistent_apart};
        planner_solution solution = {0};
        base_report failure = {0};
        command_progress_say(progress, "%s: %s", path, with->name);
        double start = command_seconds();
        base_status done = planner_run(with, problem, &limits, arena, &solution, &failure);
        double seconds = command_seconds() - start;
        command_progress_clear(progress);
        tell_result(json, with, done, &solution, bound, seconds, options, &failure);
        if (done == BASE_OK && solution.lower_bound > (uint64_t)options->capacity) too_small = true;
        if (done != BASE_OK) {
            status = command_fail(failure.status, "%s: %s: %.*s", path, with->name,
                                  (int)strcspn(failure.text, "\n"), failure.text);
        } else if (!best->allocator || solution.height < best->solution.height) {
            *best = (best_solution){solution, with->name};
        }
    }
    emit_json_close(json, ']');
    emit_json_close(json, '}');
    if (!status && options->capacity && best->allocator &&
        best->solution.height > (uint64_t)options->capacity) {
        status = command_fail(BASE_INVALID,
                              "%s: the lowest solution found needs %zu bytes, the capacity is %" PRId64 "%s",
                              path, best->solution.height, options->capacity,
                              too_small ? ": proved not to fit" : " (whether another one fits is not known)");
    }
    return status;
}

static int alloc_one(const alloc_options *options, const char *path, emit_buffer *json) {
    base_arena arena;
    base_arena_init(&arena, NULL);
    base_report report = {0};
    planner_problem problem = {0};
    const char *const *ids = NULL;
    best_solution best = {0};
    command_progress progress;
    int status = 0;
    command_progress_begin(&progress, path);
    if (planner_csv_read(path, &arena, &problem, &ids, &report) != BASE_OK) {
        status = command_fail_report(&report);
    } else {
        problem.capacity = (size_t)options->capacity;
        status = solve_all(options, path, &problem, json, &arena, &best, &progress);
    }
    command_progress_say(&progress, "%s: writing files", path);
    if (!status && options->output &&
        planner_csv_write(options->output, &problem, ids, &best.solution, &report) != BASE_OK) {
        status = command_fail_report(&report);
    }
    if (!status && options->memory_map &&
        emit_solution_map(&problem, ids, &best.solution, path, options->memory_map, &report) != BASE_OK) {
        status = command_fail_report(&report);
    }
    command_progress_end(&progress);
    base_arena_free(&arena);
    return status;
}

static int check_options(const command *self, const alloc_options *options, size_t problems) {
    const char *name = options->allocator ? options->allocator : "auto";
    char names[512] = "all";
    if (options->work > 0 && options->seconds > 0)
        return command_fail_usage(self, "--seconds and --work both say when a search ends: one is needed");
    if (options->threads > 1024)
        return command_fail_usage(self, "--threads is %" PRId64 ", expected at most 1024", options->threads);
    for (size_t i = 0; planner_at(i); i++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, ", %s", planner_at(i)->name);
    }
    if (strcmp(name, "all") != 0 && !planner_find(name)) {
        return command_fail_usage(self, "unknown allocator '%s', expected one of: %s", name, names);
    }
    if (problems > 1 && (options->output || options->memory_map)) {
        return command_fail_usage(self, "%s is for one problem, %zu are given",
                                  options->output ? "-o" : "--memory-map", problems);
    }
    return 0;
}

static int alloc_main(const command *self, int count, char **arguments) {
    base_arena arena;
    base_arena_init(&arena, NULL);
    alloc_options options = {0};
    command_list problems;
    emit_buffer json = {0};
    int status = command_parse(self, count, arguments, &options, &problems, &arena);
    if (!status) status = check_options(self, &options, problems.count);
    if (!status) {
        emit_json_open(&json, NULL, '[');
        for (size_t i = 0; i < problems.count; i++) {
            int one = alloc_one(&options, problems.items[i], &json);
            if (one > status) status = one;
        }
        emit_json_close(&json, ']');
        base_report report = {0};
        if (options.json && emit_write(&json, options.json, &report) != BASE_OK)
            status = command_fail_report(&report);
    }
    emit_free(&json);
    base_arena_free(&arena);
    return status;
}

const command command_alloc = {
    .name = "alloc",
    .usage = "alloc PROBLEM.csv... [options]",
    .summary = "solve static allocation problems with one planner, or compare all",
    .details = "A problem is a CSV file with the header id,lower,upper,size (upper exclusive); a solution "
               "has the column\n"
               "offset as well. Optional columns: alignment; fixed, an offset; overwrites, the id of a "
               "buffer that dies as\n"
               "this one begins, and at, the byte of it from which on this one may be written over it. "
               "Allocators: auto,\n"
               "nnc, greedy-by-size, chunk-simulation, bfc, pool, exact; `all` runs every one of them. The "
               "ratio is that\n"
               "of the height to the lower bound: the largest sum of sizes live at one step. `optimal` means "
               "proved.",
    .options = alloc_table,
    .operand_minimum = 1,
    .operand_maximum = SIZE_MAX,
    .operand = "a problem (.csv)",
    .run = alloc_main,
};
