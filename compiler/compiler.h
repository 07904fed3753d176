/* compiler.h: what the files of compiler/ share: the driver, plan writing, pictures and reports. */
#ifndef OURO_COMPILER_INTERNAL_H
#define OURO_COMPILER_INTERNAL_H

#include "compiler/files/files.h"
#include "compiler/ouro_compiler.h"
#include "passes/passes.h"
#include "passes/planners/planners.h"
#include "runtime/plan/plan.h"

/* ---- plan writing (plan_write.c) ----------------------------------------------------------------------- */

/* The bytes of the plan of a compiled module, 64-byte aligned, from malloc: deterministic to the byte.
 * `portable` decides the machine text of the header. */
base_status plan_write(const ir_module *module, const pass_memory *memory, const pass_options *options,
                       void **bytes, size_t *size, base_report *report);

/* ---- one compile (compile.c) --------------------------------------------------------------------------- */

typedef struct compile_result {
    ir_module *module;   /* after all passes */
    pass_memory *memory; /* in `arena` */
    base_arena arena;
    plan plan; /* opened and verified, in memory */
    double import_seconds, compile_seconds;
} compile_result;

/* Checks the options, imports, runs the pipeline, writes the plan in memory and verifies it: the next two
 * after another. The result owns everything: free it with compile_result_free, also after a failure. */
base_status compile_model(const ouro_compile_options *options, compile_result *result, base_report *report);
base_status compile_import(const ouro_compile_options *options, compile_result *result, base_report *report);
base_status compile_finish(const ouro_compile_options *options, compile_result *result, base_report *report);
void compile_result_free(compile_result *result);

/* Between import and finish: fixes the shape of main input `index`, and with it the symbolic dimensions in
 * its type, wherever else they stand. BASE_INVALID where the shape does not fit the type. */
base_status compile_fix_input(compile_result *result, uint32_t index, const op_shape *shape,
                              base_report *report);

/* Writes the files that the options ask for (plan, pictures, report, problem), each whole or not at all. */
base_status compile_emit(const compile_result *result, const ouro_compile_options *options,
                         base_report *report);

/* A picture of the solution of any problem, as emit_memory_map draws those of models. `ids` as
 * planner_csv_read gives them; `title` stands above. */
base_status emit_solution_map(const planner_problem *problem, const char *const *ids,
                              const planner_solution *solution, const char *title, const char *path,
                              base_report *report);

/* How many parameters a Loop of a plan carries (compiler/report/loop.c). */
uint64_t compile_loop_carried(const plan *of, const plan_node *node);
/* The planner placed it: in the arena, not a part of another storage, not empty, live at some step. */
bool compile_storage_placed(const pass_storage *storage);

/* Writes the allocation problem of the main graph as CSV. */
base_status emit_problem(const compile_result *result, const char *path, base_report *report);

/* ---- pictures and reports (emit_*.c); all work from the plan or the module ----------------------------- */

base_status emit_dot(const compile_result *result, const char *path, base_report *report);
base_status emit_memory_map(const compile_result *result, const char *path, base_report *report);
base_status emit_report(const compile_result *result, const ouro_compile_options *options, const char *path,
                        base_report *report);

#endif
