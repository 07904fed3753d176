/* SPDX-License-Identifier: Apache-2.0 */
/* report.h: what is told about a compile: pictures, a report, the allocation problem. All from the plan, the module, or what
 * the passes recorded; nothing here changes either.
 */
#ifndef OURO_REPORT_H
#define OURO_REPORT_H

#include "compiler/report/emit.h"
#include "ir/ir.h"
#include "passes/passes.h"
#include "passes/planners/planners.h"
#include "runtime/plan/plan.h"

/* What one compile gave. */
typedef struct compile_result {
    const char *model_path; /* as the caller gave it */
    ir_module *module;      /* after all passes */
    pass_memory *memory;    /* in `arena` */
    base_arena arena;
    plan plan; /* opened and verified, in memory */
    double import_seconds, compile_seconds;
    double measured_ratio; /* of its time to that of the plan that is made without limits; 0: not measured */
} compile_result;

/* ---- memory against time (tradeoff.c) --------------------------------------------------------------------- */

/* A plan at some limit of the arena. */
typedef struct tradeoff_point {
    size_t arena_bytes;
    double seconds;  /* predicted */
    double measured; /* the measured time beside the last point's; 0: not measured */
    size_t banded,
        kernels; /* how many nodes are in bands, and how many have a faster kernel that wants memory */
} tradeoff_point;

enum { TRADEOFF_POINTS = 8 };

/* From the least arena upwards; each point takes less time than the one before it. */
typedef struct tradeoff_curve {
    const char *model_path;
    tradeoff_point points[TRADEOFF_POINTS];
    size_t count;
    size_t whole_bytes;   /* lower bound of the graph as it is written */
    double whole_seconds; /* predicted, without bands and on direct kernels */
} tradeoff_curve;

/* As a table, a point a line. */
void emit_tradeoff_table(emit_buffer *text, const tradeoff_curve *curve);
/* As a picture, .svg. */
base_status emit_tradeoff_picture(const tradeoff_curve *curve, const char *path, base_report *report);

/* ---- weights in few bits (report.c) ------------------------------------------------------------------------- */

/* Products whose weights the compiler stored in few bits. */
typedef struct emit_weights {
    size_t count;
    int bits;                  /* of a weight; 0: of some more than of others */
    const char *type;          /* of weights in 16 bits, and of those without loss; NULL: codes in blocks */
    size_t bytes, float_bytes; /* of the weights with their scales; in float */
    double error;              /* the largest of any product, relative, as root mean squares */
} emit_weights;
/* Why they are: they lose nothing; they lose less than faster kernels may (block floating point); --weights asks for it. */
typedef enum emit_weights_kind {
    EMIT_WEIGHTS_SAME,
    EMIT_WEIGHTS_ROUNDED,
    EMIT_WEIGHTS_ASKED
} emit_weights_kind;
/* Of all of a kind. */
emit_weights emit_weights_sum(const ir_module *module, emit_weights_kind kind);
/* The predicted time of a run: `whole`, that of the graph without bands on direct kernels, with what bands take more and faster kernels
 * save. */
double emit_predicted_seconds(const pass_memory *memory, double whole);

/* ---- files (dot.c, memory_map.c, report.c, problem.c); each is written whole or not at all -------------- */

/* At most about `most` boxes a graph: of more, nodes whose names begin alike are drawn as one; 0: 60 where there are more than 150. */
base_status emit_dot(const compile_result *result, const char *path, size_t most, base_report *report);
base_status emit_memory_map(const compile_result *result, const char *path, base_report *report);
/* The same of a plan that was compiled some time: loops are not unrolled, what the caller has is not drawn. */
base_status emit_plan_map(const plan *of, const char *path, base_report *report);
base_status emit_report(const compile_result *result, const char *path, base_report *report);
/* Writes the allocation problem of the main graph as CSV. */
base_status emit_problem(const compile_result *result, const char *path, base_report *report);

/* A picture of the solution of any problem, as emit_memory_map draws those of models. `ids` as
 * planner_csv_read gives them; `title` stands above. */
base_status emit_solution_map(const planner_problem *problem, const char *const *ids,
                              const planner_solution *solution, const char *title, const char *path,
                              base_report *report);

/* The planner placed it: in the arena, not a part of another storage, not empty, live at some step. */
bool emit_storage_placed(const pass_storage *storage);

#endif
