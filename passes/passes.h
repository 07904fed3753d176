/* passes.h: the compiler's pipeline, which runs all passes of the folders below in the order of its table.
 *
 * The pipeline is data: one table in pipeline.c (name, run, needs, keeps, makes). The runner does the rest
 * alike for all: computes the analyses that a pass needs, runs it, drops what it does not keep, verifies the
 * IR in debug builds, dumps when asked. Passes hold no bookkeeping of their own.
 */
#ifndef OURO_PASSES_H
#define OURO_PASSES_H

#include "passes/base/pass.h"

/* ---- the pipeline (pipeline.c) ------------------------------------------------------------------------- */

/* Runs all passes on the module. On BASE_OK *memory (in memory_arena, which the caller owns) is the memory
 * plan. */
base_status pass_pipeline_run(ir_module *module, const pass_options *options, base_arena *memory_arena,
                              pass_memory **memory, base_report *report);
/* The names, for --dump-after and its error message; NULL behind the last. */
const char *pass_pipeline_name(size_t index);

#endif
