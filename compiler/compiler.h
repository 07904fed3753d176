/* compiler.h: what the files of compiler/ share: the driver, plan writing, pictures and reports. */
#ifndef OURO_COMPILER_INTERNAL_H
#define OURO_COMPILER_INTERNAL_H

#include "compiler/ouro_compiler.h"
#include "passes/passes.h"
#include "runtime/plan.h"

/* ---- plan writing (plan_write.c) -------------------------------------------------------------------------- */

/* The bytes of the plan of a compiled module, 64-byte aligned, from malloc: deterministic to the byte.
 * `portable` decides the machine text of the header. */
base_status plan_write(const ir_module *module, const pass_memory *memory, const pass_options *options,
                       void **bytes, size_t *size, base_report *report);

/* ---- one compile (compile.c) --------------------------------------------------------------------------------- */

typedef struct compile_result {
    ir_module *module;      /* after all passes */
    pass_memory *memory;    /* in `arena` */
    base_arena arena;
    plan plan;              /* opened and verified, in memory */
    double import_seconds, compile_seconds;
} compile_result;

/* Imports, runs the pipeline, writes the plan in memory and verifies it. The result owns everything: free it
 * with compile_result_free, also after a failure. */
base_status compile_model(const ouro_compile_options *options, compile_result *result, base_report *report);
void compile_result_free(compile_result *result);

/* Writes a whole file: to PATH.tmp-PID beside it, fsync-free, then rename; removes it on failure. */
base_status compile_write_file(const char *path, const void *bytes, size_t size, base_report *report);

/* ---- pictures and reports (emit_dot.c, emit_memory_map.c, emit_report.c); all work from the plan or the module -- */

base_status emit_dot(const compile_result *result, const char *path, base_report *report);
base_status emit_memory_map(const compile_result *result, const char *path, base_report *report);
base_status emit_report(const compile_result *result, const ouro_compile_options *options, const char *path,
                        base_report *report);

#endif
