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

/* ---- several compiles (tradeoff.c) ------------------------------------------------------------------------ */

/* Compiles the model at several limits of its arena, from the least that it can be to where more memory buys no time. No file is
 * written. */
base_status compile_tradeoff(const ouro_compile_options *options, tradeoff_curve *curve, base_report *report);

#endif
