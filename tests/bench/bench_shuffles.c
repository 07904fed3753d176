/* SPDX-License-Identifier: Apache-2.0 */
/* bench_shuffles.c: planners that go by the order of buffers, on many orders of those that start together.
 *
 *     bench_shuffles [-n SHUFFLES] [-s SEED] [-a PLANNER,...] PROBLEM.csv...
 *
 * The order in a file is one of many that say the same. For each problem and planner: the ratio of height to
 * lower bound in file order, and its mean, standard deviation, least and largest over the shuffles; then the same over
 * all problems. The same seed gives the same shuffles on every machine.
 */
#include "passes/planners/planners.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct spread {
    double in_file_order, sum, squares, least, largest;
    size_t count;
} spread;

static void spread_add(spread *s, double ratio) {
    if (s->count == 0 || ratio < s->least) s->least = ratio;
    if (s->count == 0 || ratio > s->largest) s->largest = ratio;
    s->sum += ratio;
    s->squares += ratio * ratio;
    s->count++;
}

static void spread_print(const char *problem, const char *with, const spread *s) {
    double mean = s->sum / (double)s->count, variance = s->squares / (double)s->count - mean * mean;
    printf("%-24s %-18s %8.3f %8.3f %8.3f %8.3f %8.3f\n", problem, with, s->in_file_order, mean,
           sqrt(variance > 0 ? variance : 0), s->least, s->largest);
}

/* Exchanges each buffer with one of those before it that start at the same step, itself included. */
static void shuffle(planner_buffer *buffers, size_t count, uint64_t *state) {
    for (size_t i = 0; i < count; i++) {
        size_t together = 0, chosen = i;
        for (size_t k = 0; k <= i; k++) {
            if (buffers[k].first == buffers[i].first && base_random(state) % ++together == 0) chosen = k;
        }
        planner_buffer moved = buffers[i];
        buffers[i] = buffers[chosen];
        buffers[chosen] = moved;
    }
}

static bool ratio_of(const planner *with, const planner_problem *problem, double *ratio) {
    base_arena arena;
    base_report report = {0};
    planner_options options = {0};
    planner_solution solution;
    base_arena_init(&arena, NULL);
    bool solved = planner_run(with, problem, &options, &arena, &solution, &report) == BASE_OK;
    if (solved) *ratio = solution.lower_bound ? (double)solution.height / (double)solution.lower_bound : 1;
    else fputs(report.text, stderr);
    base_arena_free(&arena);
    return solved;
}

static bool judge(const planner *with, const char *path, size_t shuffles, uint64_t seed, spread *all) {
    base_arena arena;
    base_report report = {0};
    planner_problem problem;
    spread s = {0};
    base_arena_init(&arena, NULL);
    bool ok = planner_csv_read(path, &arena, &problem, NULL, &report) == BASE_OK;
    planner_buffer *buffers = ok ? BASE_ARRAY(&arena, planner_buffer, problem.buffer_count) : NULL;
    if (!buffers) fputs(report.text, stderr);
    if (ok && problem.overwrite_count)
        fprintf(stderr, "%s: buffers that are overwritten keep their numbers\n", path);
    ok = buffers && !problem.overwrite_count && ratio_of(with, &problem, &s.in_file_order);
    if (ok) memcpy(buffers, problem.buffers, problem.buffer_count * sizeof *buffers);
    problem.buffers = buffers;
    for (size_t i = 0; ok && i < shuffles; i++) {
        double ratio = 0;
        shuffle(buffers, problem.buffer_count, &seed);
        ok = ratio_of(with, &problem, &ratio);
        spread_add(&s, ratio);
        spread_add(all, ratio);
    }
    all->in_file_order += s.in_file_order;
    const char *name = strrchr(path, '/');
    if (ok) spread_print(name ? name + 1 : path, with->name, &s);
    base_arena_free(&arena);
    return ok;
}

int main(int count, char **arguments) {
    size_t shuffles = 100;
    uint64_t seed = 1;
    char names[256] = "chunk-simulation,bfc";
    int at = 1;
    for (; at + 1 < count && arguments[at][0] == '-'; at += 2) {
        if (strcmp(arguments[at], "-n") == 0) shuffles = strtoull(arguments[at + 1], NULL, 10);
        else if (strcmp(arguments[at], "-s") == 0) seed = strtoull(arguments[at + 1], NULL, 10);
        else if (strcmp(arguments[at], "-a") == 0) snprintf(names, sizeof names, "%s", arguments[at + 1]);
        else break;
    }
    if (at >= count || arguments[at][0] == '-' || shuffles == 0) {
        fprintf(stderr, "usage: bench_shuffles [-n SHUFFLES] [-s SEED] [-a PLANNER,...] PROBLEM.csv...\n");
        return 2;
    }
    printf("%zu shuffles, seed %" PRIu64 "\n", shuffles, seed);
    printf("%-24s %-18s %8s %8s %8s %8s %8s\n", "problem", "planner", "in file", "mean", "std dev", "least",
           "most");
    bool ok = true;
    for (char *rest = names, *name; (name = strtok(rest, ",")); rest = NULL) {
        const planner *with = planner_find(name);
        spread all = {0};
        if (!with) {
            fprintf(stderr, "unknown planner '%s'\n", name);
            return 2;
        }
        for (int i = at; i < count; i++) ok &= judge(with, arguments[i], shuffles, seed, &all);
        all.in_file_order /= count - at;
        if (ok && count - at > 1) spread_print("all", with->name, &all);
    }
    return ok ? 0 : 1;
}
