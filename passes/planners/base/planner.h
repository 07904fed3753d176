/* SPDX-License-Identifier: Apache-2.0 */
/* planner.h: static memory allocation as a problem in and a solution out.
 *
 * A planner is a function: it sees sizes, alignments and live ranges, and gives offsets. It knows no graph,
 * no memory and no clock (but for `exact`, which is told how long it may search), and ties break by a written
 * rule, so that the same problem always has the same answer. All planners share one signature: comparing them
 * is a loop.
 *
 *     planner_problem problem = {.buffers = buffers, .buffer_count = n};
 *     planner_solution solution;
 *     planner_run(&planner_nnc, &problem, &options, &arena, &solution, &report);
 *     // solution.offsets[i], solution.height
 *
 * Words: a buffer is one storage to be placed. Its live range is [first, last) in steps. Two buffers interfere when their
 * live ranges overlap, or, where the problem lists interference itself, when it says so. The lower bound is the largest
 * sum of sizes that are live at one step. The height is the largest offset + size.
 */
#ifndef OURO_PLANNER_H
#define OURO_PLANNER_H

#include "ir/base/base.h"

#define PLANNER_NOT_FIXED SIZE_MAX

typedef struct planner_buffer {
    size_t size;      /* bytes; 0 is allowed and takes no bytes */
    size_t alignment; /* a power of two; 0 means 1 */
    int64_t first;    /* the first step at which it is live */
    int64_t last;     /* the step after the last; first < last */
    size_t fixed;     /* the offset that the user pinned it to, or PLANNER_NOT_FIXED */
} planner_buffer;

/* An operator writes `buffer` over bytes [at, at + size) of `target`, which it reads for the last time: although both
 * are live at that step, they may overlap, exactly so. That is a permission; a solution need not use it. `target` is live
 * before `buffer` is, and ends when that begins, or one step later. */
typedef struct planner_overwrite {
    uint32_t buffer, target;
    size_t at;
} planner_overwrite;

/* Where live ranges do not say it all (loops, branches), `neighbours` lists, for every buffer, those that it
 * interferes with: neighbours[starts[i] .. starts[i + 1]), sorted, symmetric, without itself. It then
 * replaces the live ranges as the judge of interference; ranges still give the order of access. */
typedef struct planner_problem {
    const planner_buffer *buffers;
    size_t buffer_count;
    const size_t *starts; /* NULL: live ranges decide */
    const uint32_t *neighbours;
    size_t capacity;                     /* 0: none asked for */
    const planner_overwrite *overwrites; /* in the order of `buffer`, at most one for each */
    size_t overwrite_count;
} planner_problem;

typedef struct planner_options {
    double seconds; /* how long a planner that searches may take; 0: `work` ends the search */
    /* How much it may do: the same answer on every machine; 0: what is usual for the planner. */
    uint64_t work;
    /* How many searches run side by side, which may change the answer; 0: one. More than one asks for an *
     * allocator of the arena that is safe for several threads. */
    unsigned threads;
    /* Nothing is used again: every buffer keeps its bytes to the end, for those who want to look at them. */
    bool preserve_all;
    /* Buffers that are live from the first step to the last (state, inputs, outputs) get an arena of their own, below
     * or above that of all others, which can be given back between two runs. */
    bool persistent_apart;
    /* On planner_budget_clock; 0: none. A planner that takes long on large problems gives up when it has passed, if it is not done:
     * for callers that have a solution already. */
    double deadline;
} planner_options;

typedef struct planner_solution {
    size_t *offsets; /* one a buffer, in the arena given */
    size_t height;
    size_t lower_bound; /* the live sum, with what all sizes are rounded up by, or what the planner proved */
    bool optimal;       /* proved: height == lower_bound */
    bool gave_up;       /* the deadline passed first: offsets mean nothing, the height is SIZE_MAX */
    /* As the options asked. With `apart`, [shared_low, shared_high) holds all buffers that are not live from the first
     * step to the last, and nothing of the others. */
    bool preserved, apart;
    size_t shared_low, shared_high;
} planner_solution;

/* Fills solution->offsets, which are there and zero; planner_run does the rest. The problem has been checked,
 * solution->lower_bound is set (a planner that proves a better one raises it), and `arena` is scratch that
 * goes when the planner returns. */
typedef base_status planner_function(const planner_problem *problem, const planner_options *options,
                                     base_arena *arena, planner_solution *solution, base_report *report);

typedef struct planner {
    const char *name;        /* as in --allocator */
    const char *description; /* one line */
    planner_function *run;
    bool knows_overwrites; /* others are given problems without them */
} planner;

/* ---- run.c ---------------------------------------------------------------------------------------------- */

/* Checks the problem, runs the planner, checks its solution with planner_check, sets height, lower_bound and
 * optimal. Offsets live in `arena`. BASE_INVALID for a malformed problem (overflow, first >= last, ...) and
 * where fixed buffers collide. Thread-safe. */
base_status planner_run(const planner *chosen, const planner_problem *problem, const planner_options *options,
                        base_arena *arena, planner_solution *solution, base_report *report);

/* ---- problem.c, bounds.c, check.c ---------------------------------------------------------------------- */

/* Buffer `b` stands in the list of `a`, which the problem has. In O(log n). */
bool planner_is_listed(const planner_problem *problem, size_t a, size_t b);

enum { PLANNER_MOST_COMMON = 1 << 30 };

/* The largest power of two, PLANNER_MOST_COMMON at the most, that divides all offsets that a solution can have: all
 * alignments, and the pinned offsets, of buffers that have a size. */
size_t planner_common_alignment(const planner_problem *problem);

/* The largest sum of sizes live at one step, where a buffer that may overwrite another one counts from the step after
 * (where interference is listed: of a set of buffers that all interfere with each other). What alignment costs is not
 * in it. In O(n log n). */
base_status planner_lower_bound(const planner_problem *problem, base_arena *arena, size_t *bound,
                                base_report *report);

/* The independent checker: no two interfering buffers overlap (but for overwrites, just so), alignments and fixed offsets hold, nothing lies
 * above the height, and the solution keeps what it says of itself (`preserved`, `apart`). Slow and obvious is allowed up to O(n log n +
 * overlaps). Names the first offending pair. */
base_status planner_check(const planner_problem *problem, const planner_solution *solution, base_arena *arena,
                          base_report *report);

/* ---- problems and solutions as CSV (csv.c): "id,lower,upper,size" and "...,offset" ------------- */

/* Reads a problem; ids (kept as text) are for writing solutions and messages. Columns may stand in any order.
 */
base_status planner_csv_read(const char *path, base_arena *arena, planner_problem *problem,
                             const char *const **ids, base_report *report);
/* Writes the problem, with a column `offset` where solution is not NULL. ids NULL: 0, 1, 2, ... */
base_status planner_csv_write(const char *path, const planner_problem *problem, const char *const *ids,
                              const planner_solution *solution, base_report *report);

#endif
