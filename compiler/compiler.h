/* SPDX-License-Identifier: Apache-2.0 */
/* compiler.h: what the files of compiler/ share: the driver and plan writing. */
#ifndef OURO_COMPILER_INTERNAL_H
#define OURO_COMPILER_INTERNAL_H

#include "compiler/files/files.h"
#include "compiler/ouro_compiler.h"
#include "compiler/report/report.h"
#include "passes/passes.h"
#include "passes/planners/planners.h"
#include "runtime/plan/plan.h"

/* ---- plan writing (plan_write.c) ----------------------------------------------------------------------- */

/* The bytes of the plan of a compiled module, 64-byte aligned, from malloc: deterministic to the byte.
 * `portable` decides the machine text of the header. */
base_status compile_write_plan(const ir_module *module, const pass_memory *memory,
                               const pass_options *options, void **bytes, size_t *size, base_report *report);
/* The same; and the constants of the module, but texts, lie in these bytes afterwards, so that weights are held once: the bytes must
 * outlive whoever reads constants of the module. */
base_status compile_move_plan(ir_module *module, const pass_memory *memory, const pass_options *options,
                              void **bytes, size_t *size, base_report *report);

/* ---- states (states.c) ----------------------------------------------------------------------------------- */

/* Puts the loop around the model, whose carried values are these pairs. BASE_USAGE where a name is none of the model's, or is
 * given twice. */
base_status compile_carry_states(ir_module *module, const ouro_state_pair *states, size_t count,
                                 base_arena *arena, base_report *report);

/* The dimensions are at most this. BASE_USAGE where the model has no such dimension. */
base_status compile_bound_dims(ir_module *module, const ouro_dim *bounds, size_t count, base_report *report);

/* ---- one compile (compile.c) --------------------------------------------------------------------------- */

/* Checks the options, imports, runs the pipeline, writes the plan in memory and verifies it: the next two
 * after another. The result owns everything: free it with compile_result_free, also after a failure. */
base_status compile_model(const ouro_compile_options *options, compile_result *result, base_report *report);
base_status compile_import(const ouro_compile_options *options, compile_result *result, base_report *report);
base_status compile_finish(const ouro_compile_options *options, compile_result *result, base_report *report);
void compile_result_free(compile_result *result);

/* Between import and finish: fixes the shape of main input `index`, and with it the symbolic dimensions in
 * its type, wherever else they stand. A negative dimension is left as it is. BASE_INVALID where the shape does not fit the type. */
base_status compile_fix_input(compile_result *result, uint32_t index, const op_shape *shape,
                              base_report *report);

/* Writes the files that the options ask for (plan, pictures, report, problem), each whole or not at all. */
base_status compile_emit(const compile_result *result, const ouro_compile_options *options,
                         base_report *report);

/* The record of times that the options name, and back to its file (where something may be measured). Freed with pass_tuning_free, also after a
 * failure. */
base_status compile_open_times(const ouro_compile_options *options, struct pass_tuning *tuning,
                               base_report *report);
base_status compile_write_times(const ouro_compile_options *options, const struct pass_tuning *tuning,
                                base_report *report);

/* ---- measured plans (measure.c) -------------------------------------------------------------------------- */

/* A plan that is run for its time, on inputs that are made up. */
typedef struct compile_runner compile_runner;
/* Takes the plan out of the result. BASE_INVALID where shapes are open, or an input is no tensor of numbers. */
base_status compile_runner_new(compile_result *result, compile_runner **runner, base_report *report);
void compile_runner_free(compile_runner *runner);

/* What a plan takes, and what another one takes that ran in turns with it. */
typedef struct compile_times {
    double seconds, seconds_beside;
    bool known; /* false: the record lacks it, and nothing may be measured */
} compile_times;
/* From the record, or (options->tune) measured and added to it. */
base_status compile_measure(const ouro_compile_options *options, compile_runner *runner,
                            compile_runner *beside, compile_times *times, base_report *report);

/* With a limit of time, and with `tune` or a record: the limits become those of the smallest arena found whose measured time is within it; *ratio
 * is that time beside the plan that is made without limits. Else, and where the record does not know, *ratio is 0 and nothing changes. */
base_status compile_within_time(ouro_compile_options *options, double *ratio, base_report *report);

/* ---- several compiles (tradeoff.c) ------------------------------------------------------------------------ */

/* Compiles the model at several limits of its arena, from the least that it can be to where more memory buys no time. With `tune` each
 * plan is run, too. No file is written but the record of times. */
base_status compile_tradeoff(const ouro_compile_options *options, tradeoff_curve *curve, base_report *report);

#endif
